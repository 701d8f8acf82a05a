"""Judge presses.

For every press at the speed judged, the prediction (parameters from the *other* presses of the run, path as measured)
is held against the measurement; the criterion's metric is aggregated over replicates, given an uncertainty, decided.

The uncertainty of a **mean** over replicates holds their scatter (type A), which contains noise and the scatter of
contact points and specimens alike; on top of it, knowingly on the safe side, each press's contact point moved alone
(its bias is the same in all replicates, and is not reduced by averaging), force noise and zero, and the calibration.
What acts on prediction and measurement alike cancels and is left out: the gain of the sensor, the frame's stiffness
(:func:`bench.acceptance.metrics._predicted` says why). A specimen that still remembers the press before is noted in the
explanation and counts in U; beyond 5 % of the force there is no verdict (:mod:`bench.identify.memory`).
That of a **max** is the uncertainty of the worst replicate as measured, with that of the parameters that predict it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.acceptance.decision import Outcome, worst
from bench.acceptance.evidence import Evidence
from bench.acceptance.explain import explain_failure
from bench.acceptance.metrics import METRICS
from bench.acceptance.plausible import implausible
from bench.acceptance.rows import Judged, decided_row, empty_row, unanswered, without_value
from bench.acceptance.verdict import ReplicateValue, Row
from bench.archive import Run
from bench.errors import BenchError, Refused
from bench.profile import ContactCriteria, Criterion
from bench.units import factor

#: Refusals that mean there was nothing to judge; every other refusal is the bench's fault.
NOTHING_THERE = ("no_press", "no_segment", "residual_too_short", "too_few_replicates")
FEWEST_REPLICATES = 2


def judge_contact(run: Run, criteria: ContactCriteria, why_not: str) -> Judged:
    """Judge the presses of a run; ``why_not`` is what already speaks against judging it at all."""
    evidence = Evidence(run, criteria.analysis)
    why = why_not or implausible(evidence)
    if why:
        rows = [_empty(criterion, Outcome.ERROR, why) for criterion in criteria.criteria]
    else:
        rows = [judge_criterion(evidence, criterion) for criterion in criteria.criteria]
    return Judged(tuple(rows), _explanation(rows, evidence), evidence.cautions(), evidence.record())


def judge_criterion(evidence: Evidence, criterion: Criterion) -> Row:
    """Judge one criterion; what the bench cannot answer becomes a row that says so."""
    try:
        metric = METRICS[criterion.metric]
        judged = evidence.judged
        if metric.predicts and criterion.prediction == "other_replicates" and len(judged) < FEWEST_REPLICATES:
            raise Refused(
                f"{len(judged)} replicate at {evidence.analysis.speed}: nothing else to predict it from",
                reason="too_few_replicates",
                remedy=f"Press at least {FEWEST_REPLICATES} times, better 5",
            )
        found = [metric.function(evidence, index, criterion) for index in judged]
    except Refused as refusal:
        outcome = Outcome.NOT_RUN if refusal.reason in NOTHING_THERE else Outcome.ERROR
        return _empty(criterion, outcome, str(refusal))
    except BenchError as error:
        return _empty(criterion, Outcome.ERROR, str(error))
    unit = criterion.limit.unit
    scale = factor(metric.base_unit, unit)
    presses = [evidence.presses[index] for index in judged]
    replicates = tuple(
        ReplicateValue(press.replicate, press.speed_mm_s, scale * one.value, one.predicted, one.measured)
        for press, one in zip(presses, found, strict=True)
    )
    row = decided_row(_empty(criterion, Outcome.ERROR, ""), criterion, found, replicates, metric.base_unit)
    return replace(row, detail=_detail(criterion, replicates, unit, row.value, row.expanded_uncertainty))


def _empty(criterion: Criterion, outcome: Outcome, detail: str) -> Row:
    segment = criterion.segment if criterion.at_time is None else f"{criterion.segment} at {criterion.at_time}"
    return empty_row(criterion, outcome, detail, segment=segment, prediction=criterion.prediction or "")


def _detail(
    criterion: Criterion, replicates: Sequence[ReplicateValue], unit: str, value: float, uncertainty: float
) -> str:
    missing = without_value(replicates, value, uncertainty)
    if missing:
        return missing
    largest = max(replicates, key=lambda one: abs(one.value))
    count = f"{len(replicates)} replicate{'' if len(replicates) == 1 else 's'} at {largest.speed_mm_s:.3g} mm/s"
    return f"{criterion.aggregate} of {count}; largest {largest.value:+.3g} {unit}, replicate {largest.replicate}"


def _explanation(rows: Sequence[Row], evidence: Evidence) -> str:
    """Say why the verdict is what it is, by its worst row; nothing for a pass."""
    said = unanswered(rows)
    if said is not None:
        return said
    row = next(row for row in rows if row.outcome == worst(row.outcome for row in rows))
    predicted = next((r for r in rows if r.outcome == Outcome.FAIL and METRICS[r.metric].predicts), None)
    if predicted is None:
        return (
            f"{row.id}: the force does not come back after unloading. Look at the force zero (drift, tare) and at what "
            "the press did to the specimen"
        )
    largest = max(range(len(predicted.replicates)), key=lambda i: abs(predicted.replicates[i].value))
    index = evidence.judged[largest]
    comparison = evidence.comparison(index, predicted.prediction or "other_replicates")
    try:
        return f"{predicted.id}: {explain_failure(comparison, evidence.presses[index])}"
    except BenchError as error:
        return f"{predicted.id}: {predicted.detail}; no explanation was found ({error.what})"
