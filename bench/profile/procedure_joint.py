"""Procedure profiles of the single joint: friction sweep, stiffness ramp, excitation, low-speed tracking, impedance."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from typing import Literal

from pydantic import Field

from bench.profile.fields import (
    Angle,
    AngularAcceleration,
    AngularSpeed,
    Frequency,
    Inertia,
    NonNegativeTime,
    PositiveAngle,
    PositiveTorque,
    PositiveTorqueRate,
    RotationalDamping,
    RotationalStiffness,
    Text,
    Time,
)
from bench.profile.problem import Issue
from bench.profile.procedure import ProcedureProfile
from bench.units import Value

SLOWEST_RAD_S = 0.001
#: An archive has room for about a thousand phases, and a stroke is one.
MOST_STROKES = 900
SETTLED = 4.0  # time constants to 2 %


class JointProcedure(ProcedureProfile):
    """What the procedures of a joint share: gains of the position controller that moves it, and the wiring check.

    ``position_gain`` and ``velocity_gain`` act on the joint-referred motor angle. Before anything else the joint moves
    by ``check_angle`` and back, so that swapped signs and a wrong gear ratio are found while little can happen.
    ``feedforward`` names a feed-forward file (a path) or is left out.
    """

    position_gain: RotationalStiffness = Value(400.0, "N.m/rad", "rotational_stiffness")
    velocity_gain: RotationalDamping = Value(20.0, "N.m.s/rad", "rotational_damping")
    acceleration: AngularAcceleration = Value(2.0, "rad/s2", "angular_acceleration")
    travel_speed: AngularSpeed = Value(0.5, "rad/s", "angular_speed")
    check_angle: PositiveAngle = Value(0.1, "rad", "angle")
    baseline_time: Time = Value(1.0, "s", "time")
    feedforward: Text | None = None


class FrictionSweepProcedure(JointProcedure):
    """Warm up, constant speeds in both directions, then small reversals inside the pre-sliding range (breakaway)."""

    procedure: Literal["friction_sweep"]
    speeds: tuple[AngularSpeed, ...] = Field(min_length=2)
    centre: Angle = Value(0.0, "rad", "angle")
    amplitude: PositiveAngle
    segment_time: Time
    least_travel: PositiveAngle
    warm_up_time: NonNegativeTime
    warm_up_speed: AngularSpeed
    breakaway_torque: PositiveTorque
    breakaway_rate: PositiveTorqueRate
    breakaway_cycles: int = Field(ge=1)

    def comparisons(self) -> Iterator[Issue]:
        numbers = [speed.to("rad/s") for speed in self.speeds]
        for i, (one, next_one) in enumerate(pairwise(numbers)):
            if next_one <= one:
                yield Issue(f"speeds[{i + 1}]", f'"{self.speeds[i + 1]}"', f"more than speeds[{i}], {self.speeds[i]}")
        if 2 * self.replicates * len(numbers) > MOST_STROKES:
            given = f"{self.replicates}, which makes {2 * self.replicates * len(numbers)} strokes"
            yield Issue("replicates", given, f"at most {MOST_STROKES} strokes", "Sweep more than once")
        if numbers[0] < SLOWEST_RAD_S:
            yield Issue("speeds[0]", f'"{self.speeds[0]}"', f"at least {SLOWEST_RAD_S:g} rad/s")
        # up and down are half a cosine each and take π v²/(2 a) of the way before the speed has been constant at all
        fastest = math.sqrt(4.0 / math.pi * self.amplitude.to("rad") * self.acceleration.to("rad/s2"))
        for key, speed in [("speeds[-1]", self.speeds[-1]), ("warm_up_speed", self.warm_up_speed)]:
            if speed.to("rad/s") >= fastest:
                due = f"less than {fastest:.3g} rad/s, which amplitude and acceleration allow"
                yield Issue(key.replace("-1", str(len(numbers) - 1)), f'"{speed}"', due)
        if self.least_travel.to("rad") > 2.0 * self.amplitude.to("rad"):
            yield Issue(
                "least_travel", f'"{self.least_travel}"', f"at most the whole way, twice amplitude, {self.amplitude}"
            )


class StiffnessRampProcedure(JointProcedure):
    """With the output locked: torque ramps up and down between both ends."""

    procedure: Literal["stiffness_ramp"]
    torque: PositiveTorque
    rate: PositiveTorqueRate
    dwell: NonNegativeTime = Value(200.0, "ms", "time")


class FourierExcitationProcedure(JointProcedure):
    """A finite Fourier series to identify on (``train``), and another one to be judged by (``hold_out``)."""

    procedure: Literal["fourier_excitation"]
    base_frequency: Frequency
    harmonics: int = Field(ge=2)
    hold_out_base_frequency: Frequency
    hold_out_harmonics: int = Field(ge=2)
    periods: int = Field(ge=2)
    hold_out_periods: int = Field(default=2, ge=1)
    seed: int = Field(ge=0)
    centre: Angle = Value(0.0, "rad", "angle")
    amplitude: PositiveAngle
    max_speed: AngularSpeed
    max_acceleration: AngularAcceleration

    def comparisons(self) -> Iterator[Issue]:
        if self.hold_out_base_frequency.to("Hz") == self.base_frequency.to("Hz"):
            given = f'"{self.hold_out_base_frequency}"'
            yield Issue(
                "hold_out_base_frequency", given, f"another frequency than base_frequency, {self.base_frequency}",
                "A repeat of the same trajectory proves nothing",
            )  # fmt: skip


class LowSpeedTrackingProcedure(JointProcedure):
    """Track a slow constant speed in both directions, without and (with ``feedforward``) with friction compensation."""

    procedure: Literal["low_speed_tracking"]
    speed: AngularSpeed
    travel: PositiveAngle
    centre: Angle = Value(0.0, "rad", "angle")
    run_in: NonNegativeTime = Value(1.0, "s", "time")

    def comparisons(self) -> Iterator[Issue]:
        lasts = self.travel.to("rad") / self.speed.to("rad/s")
        if 2.0 * self.run_in.to("s") > lasts:
            due = f"at most half of the {lasts:.3g} s that travel lasts at speed"
            yield Issue("run_in", f'"{self.run_in}"', due, "Nothing is judged while it runs in")


class ImpedanceStepProcedure(JointProcedure):
    """Render M_d, B_d, K_d at the joint and step the set-point, in both directions."""

    procedure: Literal["impedance_step"]
    inertia: Inertia
    damping: RotationalDamping
    stiffness: RotationalStiffness
    step: PositiveAngle
    centre: Angle = Value(0.0, "rad", "angle")
    record_time: Time

    def comparisons(self) -> Iterator[Issue]:
        inertia, damping = self.inertia.to("kg.m2"), self.damping.to("N.m.s/rad")
        if damping == 0.0:
            yield Issue("damping", f'"{self.damping}"', "a damping above 0", "An undamped joint never settles")
            return
        excess = damping**2 - 4.0 * inertia * self.stiffness.to("N.m/rad")
        slowest = (damping - math.sqrt(max(excess, 0.0))) / (2.0 * inertia)  # 1/s, of the two poles
        if self.record_time.to("s") * slowest < SETTLED:
            due = f"at least {SETTLED / slowest:.3g} s, {SETTLED:g} time constants of M_d, B_d, K_d"
            yield Issue("record_time", f'"{self.record_time}"', due, "The step would not have settled to 2 %")


JOINT_PROCEDURES: dict[str, type[ProcedureProfile]] = {
    "friction_sweep": FrictionSweepProcedure,
    "stiffness_ramp": StiffnessRampProcedure,
    "fourier_excitation": FourierExcitationProcedure,
    "low_speed_tracking": LowSpeedTrackingProcedure,
    "impedance_step": ImpedanceStepProcedure,
}
