"""Acceptance criteria for an arm: identification, payload, friction compensation, wrench from torques, touch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from bench.profile.criteria import CriteriaProfile, CriterionBase
from bench.profile.fields import AngularSpeed, Frequency, PositiveRatio, Section
from bench.profile.problem import Issue
from bench.units import Value

ARM_METRICS: dict[str, str] = {
    "hold_out_relative_error": "ratio",
    "hold_out_rms": "ratio",
    "hold_out_against_baseline": "ratio",
    "excitation_condition_number": "number",
    "physical_consistency_cost": "ratio",
    "payload_mass_error": "ratio",
    "hold_torque_residual": "torque",
    "residual_torque": "torque",
    "wrench_error": "ratio",
    "wrench_force_error": "force",
    "force_rise_time": "time",
    "force_overshoot": "ratio",
    "force_settling_time": "time",
    "switch_benefit": "ratio",
}
"""Metric → kind of its limit. The function of the same name lives in ``bench.acceptance``."""

#: Metric → procedure whose archives it can be found in.
ARM_JUDGES = {
    "hold_out_relative_error": "arm_excitation",
    "hold_out_rms": "arm_excitation",
    "hold_out_against_baseline": "arm_excitation",
    "excitation_condition_number": "arm_excitation",
    "physical_consistency_cost": "arm_excitation",
    "payload_mass_error": "payload_hold",
    "hold_torque_residual": "payload_hold",
    "residual_torque": "arm_tracking",
    "wrench_error": "wrench_check",
    "wrench_force_error": "wrench_check",
    "force_rise_time": "approach_touch",
    "force_overshoot": "approach_touch",
    "force_settling_time": "approach_touch",
    "switch_benefit": "approach_touch",
}
#: Metric → the phases of its archives a criterion may look at.
ARM_SEGMENTS: dict[str, tuple[str, ...]] = {
    "hold_out_relative_error": ("hold_out",),
    "hold_out_rms": ("hold_out",),
    "hold_out_against_baseline": ("hold_out",),
    "excitation_condition_number": ("train",),
    "physical_consistency_cost": ("hold_out",),
    "payload_mass_error": ("crossing",),
    "hold_torque_residual": ("crossing",),
    "residual_torque": ("uncompensated", "compensated"),
    "wrench_error": ("press",),
    "wrench_force_error": ("press",),
    "force_rise_time": ("without_switch", "with_switch"),
    "force_overshoot": ("without_switch", "with_switch"),
    "force_settling_time": ("without_switch", "with_switch"),
    "switch_benefit": ("with_switch",),
}


class ArmAnalysisProfile(Section):
    """How an arm's archive is analysed before anything is judged.

    ``evaluation_band`` is the low-pass every torque is judged in, fixed here and never widened or narrowed for a fit;
    ``cutoff_ratio`` is the fit's cut-off as a share of the arm's bandwidth. ``speed`` is the one tracking is judged at.
    ``settle_band`` is the share of the wanted force that a settled force stays within.
    """

    evaluation_band: Frequency
    cutoff_ratio: float = Field(default=0.4, ge=1 / 3, le=1 / 2)
    speed: AngularSpeed | None = None
    settle_band: PositiveRatio = Value(5.0, "%", "ratio")

    def comparisons(self) -> Iterator[Issue]:
        if self.settle_band.to("1") >= 1.0:
            given = f'"{self.settle_band}"'
            yield Issue("settle_band", given, 'less than 100 %, such as "5 %"', "No force at all is 100 % away")


class ArmCriterion(CriterionBase):
    """One line of a verdict on an arm.

    ``limit_of_rated`` raises a joint's limit to this share of its rated torque: max(limit, share × rated).
    """

    segment: Literal[
        "train", "hold_out", "crossing", "uncompensated", "compensated", "press", "without_switch", "with_switch"
    ]
    limit_of_rated: PositiveRatio | None = None

    def comparisons(self) -> Iterator[Issue]:
        yield from self.limit_issues(ARM_METRICS)
        segments = ARM_SEGMENTS.get(self.metric, ())
        if segments and self.segment not in segments:
            given = f'"{self.segment}"'
            yield Issue("segment", given, " or ".join(f'"{s}"' for s in segments) + f", where {self.metric} is found")
        if self.limit_of_rated is not None and ARM_METRICS.get(self.metric, "torque") != "torque":
            given = f'"{self.limit_of_rated}"'
            yield Issue("limit_of_rated", given, "nothing, for the limit is no torque", "Remove the key")
        if self.limit_of_rated is not None and self.aggregate == "mean":
            yield Issue("aggregate", '"mean"', '"max"', "Every joint has a limit of its own; a mean has none")


class ArmCriteria(CriteriaProfile):
    """Criteria for an arm."""

    subject: Literal["arm"]
    analysis: ArmAnalysisProfile
    criteria: tuple[ArmCriterion, ...] = Field(min_length=1)

    @property
    def judges(self) -> frozenset[str]:
        return frozenset(ARM_JUDGES[c.metric] for c in self.criteria if c.metric in ARM_JUDGES)

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        judged = self.judges
        if len(judged) > 1:
            yield Issue(
                "criteria", f"metrics of {', '.join(sorted(judged))}", "metrics of one procedure",
                "A verdict judges one archive; write a file for each",
            )  # fmt: skip
        if "arm_tracking" in judged and self.analysis.speed is None:
            yield Issue("analysis.speed", "nothing", 'the speed that is judged, such as "0.02 rad/s"')
