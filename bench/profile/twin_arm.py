"""The truth of a simulated arm: what its links, motors, springs, friction, wrist sensor and specimens really are.

Names are those of the single joint's truth; ``docs/twin.md`` gives the equations. A ``…_scatter`` is the standard
deviation of a relative draw from the seed. Torques and springs are those of the joint (axis), shafts say so.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.arm import BodyProfile, Point
from bench.profile.fields import (
    Angle,
    ForceRate,
    Frequency,
    NonNegativeForce,
    NonNegativeRatio,
    NonNegativeTime,
    NonNegativeTorque,
    PositiveForce,
    PositiveTorque,
    Quantity,
    Ratio,
    RotationalDamping,
    RotationalStiffness,
    Section,
    Temperature,
    Time,
    Torque,
    Voltage,
)
from bench.profile.problem import Issue
from bench.profile.twin import NO_RATIO, TissueTruth, TwinProfile
from bench.profile.twin_joint import NO_ANGLE, NO_TORQUE, ROOM
from bench.units import Value

NonNegativeCurrent = Annotated[Value, Quantity("current", at_least="0")]
NO_FORCE = Value(0.0, "N", "force")


class AxisTruth(Section):
    """One axis: LuGre friction on the motor's side, the spring to its joint, its servo, its brake, its stops.

    The rotor's inertia and the nominal torque constant are the rig profile's; what the motor really makes is drawn with
    the ``torque_error`` of :class:`ServoTruth`.
    """

    coulomb: NonNegativeTorque
    viscous: RotationalDamping
    stribeck_excess: NonNegativeTorque = NO_TORQUE
    stribeck_velocity: Annotated[Value, Quantity("angular_speed", above="0")] = Value(0.06, "rad/s", "angular_speed")
    offset: Torque = NO_TORQUE
    bristle_stiffness: RotationalStiffness
    bristle_damping: RotationalDamping
    stiffness: RotationalStiffness
    damping: RotationalDamping
    torque_ripple: NonNegativeTorque = NO_TORQUE
    ripple_per_revolution: int = Field(default=6, ge=1)
    brake_torque: PositiveTorque
    stop_min: Angle
    stop_max: Angle
    start: Angle = NO_ANGLE
    serial_number: str | None = None

    def comparisons(self) -> Iterator[Issue]:
        low, high, start = self.stop_min.to("rad"), self.stop_max.to("rad"), self.start.to("rad")
        if low >= high:
            yield Issue("stop_min", f'"{self.stop_min}"', f"less than stop_max, {self.stop_max}")
        elif not low <= start <= high:
            yield Issue("start", f'"{self.start}"', f"between the stops, {self.stop_min} to {self.stop_max}")


class ServoTruth(Section):
    """What holds for every servo of the arm: electronics, scatter, heat."""

    firmware: int = Field(default=12, ge=0, le=255)
    torque_error: NonNegativeRatio = NO_RATIO
    inertia_scatter: NonNegativeRatio = NO_RATIO
    friction_scatter: NonNegativeRatio = NO_RATIO
    stiffness_scatter: NonNegativeRatio = NO_RATIO
    current_noise: NonNegativeCurrent = Value(0.0, "mA", "current")
    velocity_bandwidth: Frequency = Value(60.0, "Hz", "frequency")
    temperature: Temperature = ROOM
    thermal_time: Time = Value(15.0, "min", "time")
    heating: NonNegativeRatio = Value(100.0, "%", "ratio")
    supply: Voltage = Value(24.0, "V", "voltage")
    brake_time: NonNegativeTime = Value(50.0, "ms", "time")


class LinksTruth(Section):
    """How far the links are from the rig profile's; every link is drawn as a body that can exist."""

    inertial_scatter: NonNegativeRatio = NO_RATIO


class WristSensorTruth(Section):
    """The real wrist sensor; noise and drift are along the pressing axis, the zeros' bounds hold for every axis."""

    serial_number: str
    capacity: PositiveForce
    torque_capacity: PositiveTorque
    gain_error: Ratio = NO_RATIO
    cross_talk: NonNegativeRatio = NO_RATIO
    noise: NonNegativeForce
    drift: ForceRate = Value(0.0, "N/s", "force_rate")
    zero_force: NonNegativeForce = NO_FORCE
    zero_torque: NonNegativeTorque = NO_TORQUE


class SurfaceTruth(Section):
    """Where a pressed specimen really is: a point of its nominal surface and the outward normal, base frame."""

    point: Point
    normal: tuple[float, ...] = Field(default=(0.0, 0.0, 1.0), min_length=3, max_length=3)

    def comparisons(self) -> Iterator[Issue]:
        if not math.isclose(math.fsum(x * x for x in self.normal), 1.0, abs_tol=1e-6):
            yield Issue("normal", str(list(self.normal)), "a direction of length 1")


class ArmSpecimenTruth(Section):
    """What is really mounted on the tool, and what really lies under it; both may be there, or neither.

    ``tissue.surface_position`` is how far below ``surface.point`` the tissue really begins.
    """

    payload: BodyProfile | None = None
    surface: SurfaceTruth | None = None
    tissue: TissueTruth | None = None

    def comparisons(self) -> Iterator[Issue]:
        if (self.surface is None) != (self.tissue is None):
            missing = "tissue" if self.tissue is None else "surface"
            yield Issue(missing, "nothing", "both surface and tissue, or neither")


class ArmTwin(TwinProfile):
    """The whole truth of one simulated arm; ``axes`` in the order of the rig's joints."""

    kind: Literal["arm"]
    axes: tuple[AxisTruth, ...] = Field(min_length=1)
    servos: ServoTruth = ServoTruth()
    links: LinksTruth = LinksTruth()
    wrist_sensor: WristSensorTruth
    specimens: dict[str, ArmSpecimenTruth] = Field(min_length=1)
