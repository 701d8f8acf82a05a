"""Acceptance criteria: metric, limit, segment, definition, decision rule; data, hashed into every verdict."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from pydantic import Field

from bench.profile.fields import (
    AnyQuantity,
    Name,
    NonNegativeLength,
    NonNegativeTime,
    PositiveLength,
    Profile,
    Section,
    Speed,
    Text,
)
from bench.profile.problem import Issue, near_miss
from bench.units import EXAMPLES, Value, article

METRICS: dict[str, str] = {
    "peak_force_deviation": "ratio",
    "rise_slope_deviation": "ratio",
    "residual_force": "force",
    "residual_force_ratio": "ratio",
}
"""Metric → kind of its limit. The function of the same name lives in ``bench.acceptance``."""


class AnalysisProfile(Section):
    """How the archive is analysed before anything is judged."""

    model: Literal["power_law", "damped_power_law", "hunt_crossley", "qlv1", "qlv2"]
    contact_estimator: Literal["threshold_5sigma", "two_line", "power_law", "ratio_of_variances", "fit"]
    weighting: Literal["sample", "segment"] = "sample"
    compensate_frame: bool = True
    speed: Speed
    reference_depth: PositiveLength
    least_baseline: NonNegativeTime = Value(1.0, "s", "time")
    least_free_air: NonNegativeLength = Value(2.0, "mm", "length")


class CriterionBase(Section):
    """What every criterion has: what is measured, its limit, how it is decided."""

    id: Name
    metric: str
    limit: AnyQuantity
    comparison: Literal["below"] = "below"
    definition: Text
    decision: Literal["simple", "guard_band"]
    coverage_factor: float = Field(default=2.0, ge=1)  # below, the guard band would guard nothing
    aggregate: Literal["mean", "max"]

    def limit_issues(self, metrics: Mapping[str, str]) -> Iterator[Issue]:
        """Yield what is wrong with metric and limit; ``metrics`` gives the kind of each metric known."""
        kind = metrics.get(self.metric)
        if kind is None:
            known = ", ".join(metrics)
            yield Issue("metric", f'"{self.metric}"', f"one of {known}", near_miss(self.metric, metrics))
        elif self.limit.kind != kind:
            given = f'"{self.limit}"'
            yield Issue(
                "limit", given, f"{article(kind)} such as '{EXAMPLES[kind]}'", f"It is {article(self.limit.kind)}"
            )
        elif self.limit.magnitude <= 0:
            yield Issue(
                "limit", f'"{self.limit}"', "a limit above 0", "A magnitude is never below it, so nothing passes"
            )


class Criterion(CriterionBase):
    """One line of a verdict on presses."""

    prediction: Literal["other_replicates", "in_sample"] | None = None
    segment: Literal["rise", "hold", "press", "residual"]
    at_time: NonNegativeTime | None = None

    def comparisons(self) -> Iterator[Issue]:
        yield from self.limit_issues(METRICS)
        if self.segment == "residual" and self.at_time is None:
            yield Issue("at_time", "nothing", 'the time after unloading, such as "3 s"', "A residual force decays")
        if self.segment != "residual" and self.prediction is None:
            expected = '"other_replicates" or "in_sample"'
            yield Issue("prediction", "nothing", expected, "Say which prediction the measurement is compared with")


class CriteriaProfile(Profile):
    """A set of criteria with one analysis; ``subject`` says what is judged, a file without one judges presses."""

    schema_id: Literal["bench.criteria/1"] = Field(alias="schema")
    name: Name
    version: Text
    description: str = ""
    subject: str
    criteria: tuple[CriterionBase, ...] = Field(min_length=1)

    @property
    def judges(self) -> frozenset[str]:
        """Procedures whose archives these criteria can be found in."""
        return frozenset({"indentation"})

    def comparisons(self) -> Iterator[Issue]:
        seen: dict[str, int] = {}
        for i, criterion in enumerate(self.criteria):
            if criterion.id in seen:
                yield Issue(
                    f"criteria[{i}].id",
                    f'"{criterion.id}"',
                    "an id of its own",
                    f"criteria[{seen[criterion.id]}] has it",
                )
            seen.setdefault(criterion.id, i)


class ContactCriteria(CriteriaProfile):
    """Criteria for presses on a specimen."""

    subject: Literal["contact"] = "contact"
    analysis: AnalysisProfile
    criteria: tuple[Criterion, ...] = Field(min_length=1)
