"""Judge an arm: how well its parameters predict, what it carries, what friction compensation leaves, how it presses.

Before any value, gates ask whether the archive is what it says (:mod:`bench.acceptance.arm_gates`): what they find is
the bench's fault. Values come from :mod:`bench.acceptance.arm_metrics`, each with its budget. Where a limit rises with
a joint's rated torque, every joint is held to its own, and the row shows the joint that comes out worst.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from bench.acceptance.arm_evidence import ArmEvidence
from bench.acceptance.arm_explain import explain
from bench.acceptance.arm_gates import why_not as gates
from bench.acceptance.arm_hold_out import record as hold_out_record
from bench.acceptance.arm_metrics import ARM_METRICS, ArmMetric
from bench.acceptance.arm_values import ArmValue, Values
from bench.acceptance.decision import SEVERITY, Outcome
from bench.acceptance.rows import Judged, decided_row, empty_row, unanswered, without_value
from bench.acceptance.verdict import ReplicateValue, Row
from bench.archive import Run
from bench.errors import BenchError, Refused
from bench.profile import ArmCriteria, ArmCriterion
from bench.units import factor

#: Refusals that mean there was nothing to judge; every other refusal is the bench's fault.
NOTHING_THERE = ("no_segment", "no_speed", "too_few_levels")


def judge_arm(run: Run, criteria: ArmCriteria, why_not: str) -> Judged:
    """Judge a run of an arm; ``why_not`` is what already speaks against judging it at all."""
    evidence = ArmEvidence(run, criteria.analysis)
    why = why_not or gates(evidence, criteria)
    if why:
        rows = [_empty(criterion, Outcome.ERROR, why) for criterion in criteria.criteria]
    else:
        rows = [judge_criterion(evidence, criterion) for criterion in criteria.criteria]
    return Judged(tuple(rows), _explanation(rows, evidence, criteria), (), _record(evidence))


def judge_criterion(evidence: ArmEvidence, criterion: ArmCriterion) -> Row:
    """Judge one criterion; what the bench cannot answer becomes a row that says so."""
    metric = ARM_METRICS[criterion.metric]
    try:
        found = metric.function(evidence, criterion)
        if not found:
            raise Refused("there is no value", reason="no_segment", where=evidence.where, remedy="Record it")
        groups = _by_joint(found) if criterion.limit_of_rated is not None else [found]
        rows = [_row(evidence, criterion, metric, group) for group in groups]
    except Refused as refusal:
        outcome = Outcome.NOT_RUN if refusal.reason in NOTHING_THERE else Outcome.ERROR
        return _empty(criterion, outcome, str(refusal))
    except BenchError as error:
        return _empty(criterion, Outcome.ERROR, str(error))
    return max(rows, key=lambda row: (SEVERITY.index(row.outcome), _nearness(row)))


def _nearness(row: Row) -> float:
    share = (row.value + row.expanded_uncertainty) / row.limit
    return share if math.isfinite(share) else math.inf


def _by_joint(found: Values) -> list[Values]:
    joints = sorted({value.joint for value in found if value.joint is not None})
    rest = [value for value in found if value.joint is None]
    groups = [[value for value in found if value.joint == joint] for joint in joints]
    return [*groups, rest] if rest else groups


def _row(evidence: ArmEvidence, criterion: ArmCriterion, metric: ArmMetric, found: Values) -> Row:
    joint = found[0].joint
    limit, why_limit = _limit(evidence, criterion, joint)
    unit = criterion.limit.unit
    scale = factor(metric.base_unit, unit)
    replicates = tuple(
        ReplicateValue(v.replicate, math.nan, scale * v.one.value, v.one.predicted, v.one.measured, v.speed)
        for v in found
    )
    figures = [value.one for value in found]
    row = decided_row(
        _empty(criterion, Outcome.ERROR, ""), criterion, figures, replicates, metric.base_unit, limit=limit
    )
    missing = without_value(replicates, row.value, row.expanded_uncertainty)
    detail = missing or _detail(evidence, criterion, found, scale)
    return replace(row, detail="; ".join(part for part in (detail, why_limit) if part))


def _limit(evidence: ArmEvidence, criterion: ArmCriterion, joint: int | None) -> tuple[float, str]:
    """Return the limit in the row's unit, and how it came about where the rated torque raised it."""
    own = criterion.limit.magnitude
    if criterion.limit_of_rated is None or joint is None:
        return own, ""
    rated = float(evidence.facts.ratings.rated_torque[joint])
    share = criterion.limit_of_rated.to("1") * rated * factor("N.m", criterion.limit.unit)
    if share <= own:
        return own, ""
    return share, f"limit {criterion.limit_of_rated} of its rated torque, more than {criterion.limit}"


def _detail(evidence: ArmEvidence, criterion: ArmCriterion, found: Sequence[ArmValue], scale: float) -> str:
    largest = max(found, key=lambda value: abs(value.one.value))
    where = f", joint {evidence.facts.names[largest.joint]}" if largest.joint is not None else ""
    if math.isfinite(largest.speed):
        where += f" at {largest.speed:+.3g} rad/s"
    compared = ""
    if math.isfinite(largest.one.predicted):
        compared = f" (measured {largest.one.measured:.4g}, predicted {largest.one.predicted:.4g})"
    if len(found) == 1:
        return f"one value{where}{compared}"
    return (
        f"{criterion.aggregate} of {len(found)} values; largest {scale * largest.one.value:+.3g} "
        f"{criterion.limit.unit}, number {largest.replicate}{where}{compared}"
    )


def _empty(criterion: ArmCriterion, outcome: Outcome, detail: str) -> Row:
    prediction = {"hold_out": "other_trajectory", "crossing": "statics"}.get(criterion.segment, "")
    return empty_row(criterion, outcome, detail, segment=criterion.segment, prediction=prediction)


def _explanation(rows: Sequence[Row], evidence: ArmEvidence, criteria: ArmCriteria) -> str:
    """Say why the verdict is what it is, by its worst row; nothing for a pass."""
    said = unanswered(rows)
    if said is not None:
        return said
    row, criterion = next(
        (row, criterion) for row, criterion in zip(rows, criteria.criteria, strict=True) if row.outcome == Outcome.FAIL
    )
    try:
        return f"{row.id}: {explain(evidence, criterion) or row.detail}"
    except BenchError as error:
        return f"{row.id}: {row.detail}; no explanation was found ({error.what})"


def _record(evidence: ArmEvidence) -> dict[str, Any]:
    """Return how it was analysed, as plain data; only what was asked for is in it."""
    analysis = evidence.analysis
    return {
        "evaluation_band": str(analysis.evaluation_band),
        "cutoff_ratio": analysis.cutoff_ratio,
        "settle_band": str(analysis.settle_band),
        "speed": str(analysis.speed) if analysis.speed else None,
        **hold_out_record(evidence),
    }
