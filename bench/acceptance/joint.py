"""Judge a joint: how well its parameters predict, what friction compensation leaves, how it renders an impedance.

Before any value, gates ask whether the archive is what it says (:mod:`bench.acceptance.joint_gates`): what they find is
the bench's fault. Values come from :mod:`bench.acceptance.joint_metrics`, each with its budget; replicates and
directions scatter, and that is part of it. A limit may rise with the joint's rated torque.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.acceptance.decision import Outcome
from bench.acceptance.joint_evidence import JointEvidence
from bench.acceptance.joint_explain import explain
from bench.acceptance.joint_gates import beyond_load
from bench.acceptance.joint_gates import why_not as gates
from bench.acceptance.joint_hold_out import HOLD_OUT, HoldOut
from bench.acceptance.joint_metrics import JOINT_METRICS
from bench.acceptance.rows import Judged, decided_row, empty_row, unanswered, without_value
from bench.acceptance.verdict import ReplicateValue, Row
from bench.archive import Run
from bench.errors import BenchError, Refused
from bench.profile import JointCriteria, JointCriterion
from bench.units import factor

#: Refusals that mean there was nothing to judge; every other refusal is the bench's fault.
NOTHING_THERE = ("no_segment", "no_speed", "one_direction", "too_few_replicates")


def judge_joint(run: Run, criteria: JointCriteria, why_not: str) -> Judged:
    """Judge a run of a joint; ``why_not`` is what already speaks against judging it at all."""
    evidence = JointEvidence(run, criteria.analysis)
    why = why_not or gates(evidence, criteria)
    if why:
        rows = [_empty(criterion, Outcome.ERROR, why) for criterion in criteria.criteria]
    else:
        rows = [judge_criterion(evidence, criterion) for criterion in criteria.criteria]
    return Judged(tuple(rows), _explanation(rows, evidence, criteria), _cautions(rows, evidence), _record(evidence))


def judge_criterion(evidence: JointEvidence, criterion: JointCriterion) -> Row:
    """Judge one criterion; what the bench cannot answer becomes a row that says so."""
    metric = JOINT_METRICS[criterion.metric]
    try:
        found = metric.function(evidence, criterion)
        limit, why_limit = _limit(evidence, criterion)
    except Refused as refusal:
        outcome = Outcome.NOT_RUN if refusal.reason in NOTHING_THERE else Outcome.ERROR
        return _empty(criterion, outcome, str(refusal))
    except BenchError as error:
        return _empty(criterion, Outcome.ERROR, str(error))
    unit = criterion.limit.unit
    scale = factor(metric.base_unit, unit)
    replicates = tuple(
        ReplicateValue(number, math.nan, scale * one.value, one.predicted, one.measured, speed)
        for number, speed, one in found
    )
    figures = [one for _, _, one in found]
    row = decided_row(
        _empty(criterion, Outcome.ERROR, ""), criterion, figures, replicates, metric.base_unit, limit=limit
    )
    detail = without_value(replicates, row.value, row.expanded_uncertainty) or _detail(criterion, replicates, unit)
    return replace(row, detail="; ".join(part for part in (detail, why_limit) if part))


def _limit(evidence: JointEvidence, criterion: JointCriterion) -> tuple[float, str]:
    """Return the limit in the row's unit, and how it came about where the rated torque raised it."""
    own = criterion.limit.magnitude
    if criterion.limit_of_rated is None:
        return own, ""
    share = criterion.limit_of_rated.to("1") * evidence.facts.rated_torque * factor("N.m", criterion.limit.unit)
    if share <= own:
        return own, ""
    return share, f"limit {criterion.limit_of_rated} of the rated torque, more than {criterion.limit}"


def _detail(criterion: JointCriterion, replicates: Sequence[ReplicateValue], unit: str) -> str:
    largest = max(replicates, key=lambda one: abs(one.value))
    speed = largest.angular_speed_rad_s
    where = f" at {speed:+.3g} rad/s" if math.isfinite(speed) else ""
    compared = ""
    if math.isfinite(largest.predicted):
        compared = f" (measured {largest.measured:.4g}, predicted {largest.predicted:.4g})"
    if len(replicates) == 1:
        return f"one record{compared}"
    return (
        f"{criterion.aggregate} of {len(replicates)} {criterion.segment} stretches; largest {largest.value:+.3g} "
        f"{unit}, number {largest.replicate}{where}{compared}"
    )


def _empty(criterion: JointCriterion, outcome: Outcome, detail: str) -> Row:
    prediction = {"hold_out": "other_trajectory", "step": "impedance"}.get(criterion.segment, "")
    return empty_row(criterion, outcome, detail, segment=criterion.segment, prediction=prediction)


def _explanation(rows: Sequence[Row], evidence: JointEvidence, criteria: JointCriteria) -> str:
    """Say why the verdict is what it is, by its worst row; nothing for a pass."""
    said = unanswered(rows)
    if said is not None:
        return said
    row, criterion = next(
        (row, criterion) for row, criterion in zip(rows, criteria.criteria, strict=True) if row.outcome == Outcome.FAIL
    )
    try:
        return f"{row.id}: {explain(evidence, criterion)}"
    except BenchError as error:
        return f"{row.id}: {row.detail}; no explanation was found ({error.what})"


def _cautions(rows: Sequence[Row], evidence: JointEvidence) -> list[str]:
    """Return what a reader must know whatever the outcome."""
    if all(row.outcome in (Outcome.ERROR, Outcome.NOT_RUN) for row in rows):
        return []
    file, specimen = evidence.facts.feedforward, evidence.facts.specimen
    if file is None or file.load is None or file.load == specimen.name:
        return []
    beyond = [beyond_load(stretch, file) for stretch in evidence.read]
    return [
        *sorted(filter(None, beyond))[-1:],
        f"the feed-forward was identified with {file.load} mounted and used with {specimen.name}: its friction and "
        "torque scale are the motor's, the load's figures nominal",
    ]


def _record(evidence: JointEvidence) -> dict[str, Any]:
    """Return how it was analysed, as plain data; only what was asked for is in it."""
    analysis = evidence.analysis
    record: dict[str, Any] = {
        "friction": analysis.friction,
        "evaluation_band": str(analysis.evaluation_band),
        "cutoff_ratio": analysis.cutoff_ratio,
        "settle_band": str(analysis.settle_band),
        "speed": str(analysis.speed) if analysis.speed else None,
    }
    found = evidence.kept.get(HOLD_OUT)
    if isinstance(found, HoldOut):
        record["hold_out"] = found.report.record()
        record["alignment"] = found.alignment.record()
        record["motor_side"] = _fit(found.motor)
        record["link_side"] = _fit(found.link)
        record["baselines_N_m"] = found.baselines
        record["rms_all_N_m"], record["rms_moving_N_m"] = found.rms(), found.rms(moving=True)
    return record


def _fit(fit: Any) -> dict[str, Any]:
    return {
        "parameters": {
            name: {"value": p.value, "standard_uncertainty": p.standard_uncertainty, "unit": p.unit}
            for name, p in fit.parameters.items()
        },
        **fit.provenance(),
    }
