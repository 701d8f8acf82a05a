"""The feed-forward file: what was identified on a joint, for a controller to load.

Signs and formulas are those of :mod:`bench.models.friction` and :mod:`bench.models.transmission`. All torques and
speeds are the joint's; ``drive.torque_scale`` is the torque the drive really makes per torque commanded.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.fields import (
    Angle,
    AngularSpeed,
    Inertia,
    Name,
    NonNegativeAngle,
    NonNegativeTorque,
    PositiveRatio,
    PositiveTorque,
    Profile,
    Quantity,
    ReciprocalTemperature,
    RotationalDamping,
    RotationalStiffness,
    Section,
    Spelled,
    Temperature,
    Text,
    Torque,
)
from bench.profile.problem import Issue
from bench.profile.rig import ordered
from bench.units import Value

Digest = Annotated[str, Spelled("a SHA-256 in hexadecimal", "[0-9a-f]{64}", "0" * 64)]
NonNegativeSpeed = Annotated[Value, Quantity("angular_speed", at_least="0")]


class SourceArchive(Section):
    """One archive the parameters came from."""

    file: Text
    procedure: Text
    digest: Digest
    simulated: bool


class FrictionFeedForward(Section):
    """Coulomb, Stribeck and viscous friction, an offset, and what load and temperature do to it."""

    coulomb: NonNegativeTorque
    viscous: RotationalDamping
    stribeck_excess: NonNegativeTorque
    stribeck_velocity: AngularSpeed
    offset: Torque = Value(0.0, "N.m", "torque")
    load_coefficient: float = Field(default=0.0, ge=0, lt=1)
    temperature_coefficient: ReciprocalTemperature = Value(0.0, "1/K", "reciprocal_temperature")
    reference_temperature: Temperature
    bristle_stiffness: RotationalStiffness | None = None
    bristle_damping: RotationalDamping | None = None


class DriveFeedForward(Section):
    """How much torque the drive makes of what it is told."""

    torque_scale: float = Field(gt=0.5, lt=2)


class DynamicsFeedForward(Section):
    """Inertia and gravity, each on its side of the gear."""

    motor_inertia: Inertia
    link_inertia: Inertia | None = None
    gravity_moment: NonNegativeTorque = Value(0.0, "N.m", "torque")
    gravity_phase: Angle = Value(0.0, "rad", "angle")


class TransmissionFeedForward(Section):
    """The gear's stiffness, hysteresis and backlash."""

    stiffness_zero: RotationalStiffness
    stiffness_load: RotationalStiffness
    load: PositiveTorque
    hysteresis_width: NonNegativeTorque
    backlash: NonNegativeAngle


class Validity(Section):
    """Where the parameters were identified; a controller must not lean on them outside."""

    speed_min: NonNegativeSpeed
    speed_max: AngularSpeed
    load_max: NonNegativeTorque
    temperature_min: Temperature
    temperature_max: Temperature

    def comparisons(self) -> Iterator[Issue]:
        yield from ordered(self.speed_min, self.speed_max, "speed_min", "speed_max")
        if self.temperature_min.to("degC") > self.temperature_max.to("degC"):
            given = f'"{self.temperature_min}"'
            yield Issue("temperature_min", given, f"at most temperature_max, {self.temperature_max}")


class FeedForwardProfile(Profile):
    """A feed-forward file. ``uncertainty`` holds expanded uncertainties (k = 2) by dotted key, as share or value."""

    schema_id: Literal["bench.feedforward/1"] = Field(alias="schema")
    name: Name
    version: int = Field(ge=1)
    description: str = ""
    rig: Text
    drive_serial_number: str | None = None
    load: Text | None = None
    created: datetime
    software_version: Text
    friction: FrictionFeedForward
    drive: DriveFeedForward
    dynamics: DynamicsFeedForward | None = None
    transmission: TransmissionFeedForward | None = None
    validity: Validity
    uncertainty: dict[str, Annotated[Value, Quantity()]] = Field(default_factory=dict)
    residual: PositiveRatio | None = None
    sources: tuple[SourceArchive, ...] = Field(min_length=1)
