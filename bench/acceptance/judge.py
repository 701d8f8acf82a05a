"""Judge an archived run by a set of criteria: a pure function of the two.

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

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

import bench
from bench.acceptance.decision import Outcome, decide, worst
from bench.acceptance.evidence import Evidence
from bench.acceptance.explain import explain_failure, explain_margin
from bench.acceptance.metrics import COMMON, METRICS, Measured
from bench.acceptance.plausible import implausible
from bench.acceptance.uncertainty import Budget, Component, scatter_of_mean
from bench.acceptance.verdict import ReplicateValue, Row, Verdict
from bench.archive import Run, verify_digest
from bench.errors import BenchError, ProfileError, Refused
from bench.profile import ContactCriteria, CriteriaProfile, Criterion, parse_profile
from bench.units import factor

COMPLETE = "COMPLETE"
#: How the names of the criteria begin among the texts of an archive.
ARCHIVED_CRITERIA = "acceptance/"
#: Refusals that mean there was nothing to judge; every other refusal is the bench's fault.
NOTHING_THERE = ("no_press", "no_segment", "residual_too_short", "too_few_replicates")
FEWEST_REPLICATES = 2


def judge_run(run: Run | str | Path, criteria: CriteriaProfile) -> Verdict:
    """Judge an archived run.

    Parameters
    ----------
    run : Run or path
        A sealed archive; a path is opened and closed here.
    criteria : CriteriaProfile

    Returns
    -------
    Verdict
        One row per criterion. PASS, MARGINAL and FAIL are said of the device under test; ERROR of the bench: the run
        was aborted or crashed, a channel is missing, a fit was refused, a certificate had expired, the specimen had not
        recovered between presses, the force zero drifted, another specimen than the one named was pressed, the criteria
        changed since the run without a new version. NOT-RUN when there
        is nothing to judge: no such press or segment, too few replicates. The overall outcome is the worst of the rows
        by :data:`~bench.acceptance.decision.SEVERITY`. The same archive and criteria give the same verdict.

    Raises
    ------
    ArchiveError
        The archive cannot be opened at all, or its content is not what was sealed.
    """
    if not isinstance(run, Run):
        with Run.open(run) as opened:
            return judge_run(opened, criteria)
    if not isinstance(criteria, ContactCriteria):
        raise ProfileError(
            f"criteria with the subject '{criteria.subject}' are not judged by presses",
            where=str(criteria.source.path),
            remedy='Use criteria with subject = "contact"',
        )
    verify_digest(run.path)
    evidence = Evidence(run, criteria.analysis)
    archived = criteria.source.text in run.texts.values()
    why = ""
    if run.status != COMPLETE:
        why = f"the run is {run.status}" + (f" ({run.reason})" if run.reason else "")
    else:
        why = ("" if archived else _changed_since(run, criteria)) or implausible(evidence)
    if why:
        rows = [_empty(criterion, Outcome.ERROR, why) for criterion in criteria.criteria]
    else:
        rows = [judge_criterion(evidence, criterion) for criterion in criteria.criteria]
    return Verdict(
        outcome=worst(row.outcome for row in rows),
        rows=tuple(rows),
        explanation="; ".join(part for part in (_explanation(rows, evidence), *evidence.cautions()) if part),
        criteria_name=criteria.name,
        criteria_version=criteria.version,
        criteria_sha256=criteria.source.sha256,
        archive=run.path.name,
        archive_digest=run.digest,
        simulated=run.simulated,
        software_version=bench.__version__,
        criteria_archived=archived,
        analysis=evidence.record(),
    )


def _changed_since(run: Run, criteria: ContactCriteria) -> str:
    """Say that the run holds other criteria of the same name and version; nothing when it does not.

    Limits are fixed before anything is measured. Whoever changes them gives them a new version, so that no verdict
    goes by the name of criteria that were others. Comments and descriptions may change.
    """
    for name, text in run.texts.items():
        if not name.startswith(ARCHIVED_CRITERIA):
            continue
        found, _ = parse_profile(text, Path(f"{run.path}:{name}"))
        if not isinstance(found, ContactCriteria) or (found.name, found.version) != (criteria.name, criteria.version):
            continue
        if (found.analysis, found.criteria) != (criteria.analysis, criteria.criteria):
            return (
                f"criteria {criteria.name} {criteria.version} changed since the run was made: it holds others of that "
                "name and version. Judge by those, or give the changed ones a new version"
            )
    return ""


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
    value, budget = aggregate(found, criterion.aggregate, criterion.coverage_factor, scale)
    limit = criterion.limit.magnitude
    outcome = decide(value, budget.expanded, limit, criterion.decision)
    presses = [evidence.presses[index] for index in judged]
    replicates = tuple(
        ReplicateValue(press.replicate, press.speed_mm_s, scale * one.value, one.predicted, one.measured)
        for press, one in zip(presses, found, strict=True)
    )
    return replace(
        _empty(criterion, outcome, ""),
        value=value,
        expanded_uncertainty=budget.expanded,
        detail=_detail(criterion, replicates, unit, value, budget.expanded),
        replicates=replicates,
        budget=budget.to_record(),
    )


def aggregate(found: Sequence[Measured], how: str, coverage_factor: float, scale: float = 1.0) -> tuple[float, Budget]:
    """Aggregate the magnitudes of a metric over replicates, with the uncertainty of the aggregate.

    Parameters
    ----------
    found : sequence of Measured
        One per replicate.
    how : {"mean", "max"}
        A mean over a single replicate is that replicate.
    coverage_factor, scale : float
        The criterion's k; factor from the metric's base unit to the row's.

    Returns
    -------
    value : float
        In the row's unit; NaN as soon as one replicate is.
    budget : Budget
        In the row's unit.
    """
    magnitudes = np.array([scale * abs(one.value) for one in found])
    if how == "mean" and len(found) > 1:
        components = [scatter_of_mean(magnitudes)]
        for name in sorted({name for one in found for name in one.budget}):
            parts = scale * np.array([one.budget.get(name, 0.0) for one in found])
            reduced = float(np.mean(parts)) if name in COMMON else math.sqrt(float(np.sum(parts**2))) / len(found)
            components.append(Component(name, reduced))
        return float(magnitudes.mean()), Budget(tuple(components), coverage_factor)
    largest = found[int(np.argmax(np.nan_to_num(magnitudes, nan=np.inf)))]
    components = [Component(name, scale * u) for name, u in sorted(largest.budget.items())]
    for name, u in sorted(largest.model_budget.items()):
        freedom = largest.model_degrees_of_freedom.get(name, math.inf)
        components.append(Component(f"parameters: {name}", scale * u, "A" if math.isfinite(freedom) else "B", freedom))
    return float(magnitudes.max()), Budget(tuple(components), coverage_factor)


def _empty(criterion: Criterion, outcome: Outcome, detail: str) -> Row:
    """Return a row without a value; it repeats its criterion, so that a verdict can be read without the criteria."""
    return Row(
        id=criterion.id,
        metric=criterion.metric,
        value=math.nan,
        expanded_uncertainty=math.nan,
        limit=criterion.limit.magnitude,
        unit=criterion.limit.unit,
        outcome=outcome,
        detail=detail,
        definition=criterion.definition,
        segment=criterion.segment if criterion.at_time is None else f"{criterion.segment} at {criterion.at_time}",
        prediction=criterion.prediction or "",
        aggregate=criterion.aggregate,
        decision=criterion.decision,
    )


def _detail(
    criterion: Criterion, replicates: Sequence[ReplicateValue], unit: str, value: float, uncertainty: float
) -> str:
    bad = [one.replicate for one in replicates if not math.isfinite(one.value)]
    if bad:
        return f"no finite value for replicate {', '.join(map(str, bad))}"
    if not (math.isfinite(value) and math.isfinite(uncertainty)):
        return "the uncertainty cannot be stated"
    largest = max(replicates, key=lambda one: abs(one.value))
    count = f"{len(replicates)} replicate{'' if len(replicates) == 1 else 's'} at {largest.speed_mm_s:.3g} mm/s"
    return f"{criterion.aggregate} of {count}; largest {largest.value:+.3g} {unit}, replicate {largest.replicate}"


def _explanation(rows: Sequence[Row], evidence: Evidence) -> str:
    """Say why the verdict is what it is, by its worst row; nothing for a pass."""
    outcome = worst(row.outcome for row in rows)
    row = next((row for row in rows if row.outcome == outcome), None)
    if row is None or outcome == Outcome.PASS:
        return ""
    if outcome in (Outcome.ERROR, Outcome.NOT_RUN):
        reasons: dict[str, list[str]] = {}
        for bad in rows:
            if bad.outcome == outcome:
                reasons.setdefault(bad.detail, []).append(bad.id)
        what = "the bench could not judge" if outcome == Outcome.ERROR else "nothing to judge for"
        return "; ".join(f"{what} {', '.join(names)}: {reason}" for reason, names in reasons.items())
    if outcome == Outcome.MARGINAL:
        return f"{row.id}: {explain_margin(row.budget)}"
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
