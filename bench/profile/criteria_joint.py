"""Acceptance criteria for a joint: identification, friction compensation, impedance step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from bench.profile.criteria import CriteriaProfile, CriterionBase
from bench.profile.fields import AngularSpeed, Frequency, PositiveRatio, Section
from bench.profile.problem import Issue
from bench.units import Value

JOINT_METRICS: dict[str, str] = {
    "hold_out_rms": "ratio",
    "hold_out_relative_error": "ratio",
    "hold_out_against_baseline": "ratio",
    "residual_torque": "torque",
    "feedback_torque": "torque",
    "tip_force": "force",
    "overshoot_deviation": "ratio",
    "settling_time_deviation": "time",
    "steady_state_error": "ratio",
}
"""Metric → kind of its limit. The function of the same name lives in ``bench.acceptance``."""

#: Metric → procedures whose archives it can be found in.
JUDGES = {
    "hold_out_rms": "fourier_excitation",
    "hold_out_relative_error": "fourier_excitation",
    "hold_out_against_baseline": "fourier_excitation",
    "residual_torque": "low_speed_tracking",
    "feedback_torque": "low_speed_tracking",
    "tip_force": "low_speed_tracking",
    "overshoot_deviation": "impedance_step",
    "settling_time_deviation": "impedance_step",
    "steady_state_error": "impedance_step",
}

#: Procedure → the phases of its archives a criterion may look at.
SEGMENTS = {
    "fourier_excitation": ("hold_out",),
    "low_speed_tracking": ("uncompensated", "compensated"),
    "impedance_step": ("step",),
}


class JointAnalysisProfile(Section):
    """How a joint's archive is analysed before anything is judged.

    ``evaluation_band`` is the low-pass every torque is judged in, fixed here and never widened or narrowed for a fit.
    ``friction`` is the law of the hold-out outside the stiction zone; ``stribeck`` takes its velocity from the run's
    feed-forward file. ``cutoff_ratio`` is the fit's cut-off as a share of the joint's bandwidth. ``speed`` is the one
    tracking is judged at: a run at another speed is not what the limits are meant for.
    """

    friction: Literal["coulomb_viscous", "asymmetric", "stribeck"] = "coulomb_viscous"
    evaluation_band: Frequency
    cutoff_ratio: float = Field(default=0.4, ge=1 / 3, le=1 / 2)
    settle_band: PositiveRatio = Value(2.0, "%", "ratio")
    speed: AngularSpeed | None = None

    def comparisons(self) -> Iterator[Issue]:
        if self.settle_band.to("1") >= 1.0:
            given = f'"{self.settle_band}"'
            hint = "A joint at rest is 100 % away from its goal"
            yield Issue("settle_band", given, 'less than 100 %, such as "2 %"', hint)


class JointCriterion(CriterionBase):
    """One line of a verdict on a joint.

    ``limit_of_rated`` raises the limit to this share of the joint's rated torque: max(limit, share × rated).
    """

    segment: Literal["hold_out", "uncompensated", "compensated", "step"]
    limit_of_rated: PositiveRatio | None = None

    def comparisons(self) -> Iterator[Issue]:
        yield from self.limit_issues(JOINT_METRICS)
        segments = SEGMENTS.get(JUDGES.get(self.metric, ""), ())
        if segments and self.segment not in segments:
            given = f'"{self.segment}"'
            yield Issue("segment", given, " or ".join(f'"{s}"' for s in segments) + f", where {self.metric} is found")
        if self.limit_of_rated is not None and JOINT_METRICS.get(self.metric, "torque") != "torque":
            given = f'"{self.limit_of_rated}"'
            yield Issue("limit_of_rated", given, "nothing, for the limit is no torque", "Remove the key")


class JointCriteria(CriteriaProfile):
    """Criteria for a joint."""

    subject: Literal["joint"]
    analysis: JointAnalysisProfile
    criteria: tuple[JointCriterion, ...] = Field(min_length=1)

    @property
    def judges(self) -> frozenset[str]:
        return frozenset(JUDGES[c.metric] for c in self.criteria if c.metric in JUDGES)

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        judged = self.judges
        if len(judged) > 1:
            yield Issue(
                "criteria", f"metrics of {', '.join(sorted(judged))}", "metrics of one procedure",
                "A verdict judges one archive; write a file for each",
            )  # fmt: skip
        if "low_speed_tracking" in judged and self.analysis.speed is None:
            yield Issue("analysis.speed", "nothing", 'the speed that is judged, such as "0.02 rad/s"')
