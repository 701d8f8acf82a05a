"""Rows of a verdict, whatever its subject: one per criterion, and what a verdict says of those that have no value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.acceptance.decision import Outcome, decide, worst
from bench.acceptance.explain import explain_margin
from bench.acceptance.measured import Measured, aggregate
from bench.acceptance.verdict import ReplicateValue, Row
from bench.profile import CriterionBase
from bench.units import factor


@dataclass(frozen=True)
class Judged:
    """What a subject comes to: rows, why it is no pass, what a reader must know in any case, how it was analysed."""

    rows: tuple[Row, ...]
    explanation: str = ""
    cautions: Sequence[str] = ()
    analysis: dict[str, Any] = field(default_factory=dict)


def empty_row(
    criterion: CriterionBase, outcome: Outcome, detail: str, *, segment: str, prediction: str = ""
) -> Row:  # fmt: skip
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
        segment=segment,
        prediction=prediction,
        aggregate=criterion.aggregate,
        decision=criterion.decision,
    )


def decided_row(
    empty: Row,
    criterion: CriterionBase,
    found: Sequence[Measured],
    replicates: Sequence[ReplicateValue],
    base_unit: str,
    *,
    limit: float | None = None,
) -> Row:
    """Return ``empty`` with the aggregate of ``found``, its uncertainty and the decision.

    ``limit`` is in the row's unit, the criterion's own unless given. A value that is missing is an ERROR.
    """
    value, budget = aggregate(
        found, criterion.aggregate, criterion.coverage_factor, factor(base_unit, criterion.limit.unit)
    )
    limit = criterion.limit.magnitude if limit is None else limit
    return replace(
        empty,
        value=value,
        expanded_uncertainty=budget.expanded,
        limit=limit,
        outcome=decide(value, budget.expanded, limit, criterion.decision),
        replicates=tuple(replicates),
        budget=budget.to_record(),
    )


def without_value(replicates: Sequence[ReplicateValue], value: float, uncertainty: float) -> str:
    """Say why a row has no finite figures; nothing when it has."""
    bad = [one.replicate for one in replicates if not math.isfinite(one.value)]
    if bad:
        return f"no finite value for replicate {', '.join(map(str, bad))}"
    if not (math.isfinite(value) and math.isfinite(uncertainty)):
        return "the uncertainty cannot be stated"
    return ""


def unanswered(rows: Sequence[Row]) -> str | None:
    """Say what the worst rows lack: why they could not be judged, or what straddles a limit; None for a FAIL.

    Nothing for a pass.
    """
    outcome = worst(row.outcome for row in rows)
    if outcome == Outcome.PASS:
        return ""
    bad = [row for row in rows if row.outcome == outcome]
    if outcome == Outcome.FAIL:
        return None
    if outcome == Outcome.MARGINAL:
        return f"{bad[0].id}: {explain_margin(bad[0].budget)}"
    reasons: dict[str, list[str]] = {}
    for row in bad:
        reasons.setdefault(row.detail, []).append(row.id)
    what = "the bench could not judge" if outcome == Outcome.ERROR else "nothing to judge for"
    return "; ".join(f"{what} {', '.join(names)}: {reason}" for reason, names in reasons.items())
