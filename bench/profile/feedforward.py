"""The feed-forward file: what was identified on a joint, for a controller to load.

Signs and formulas are those of :mod:`bench.models.friction` and :mod:`bench.models.transmission`. All torques and
speeds are the joint's; ``drive.torque_scale`` is the torque the drive really makes per torque commanded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

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
from bench.profile.problem import Issue, near_miss
from bench.profile.rig import ordered
from bench.units import Value, article, kinds_of

Digest = Annotated[str, Spelled("a SHA-256 in hexadecimal", "[0-9a-f]{64}", "0" * 64)]
#: Tables whose parameters an uncertainty may be stated of.
TABLES = ("friction", "drive", "dynamics", "transmission")
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

    def comparisons(self) -> Iterator[Issue]:
        if (self.bristle_stiffness is None) != (self.bristle_damping is None):
            missing = "bristle_damping" if self.bristle_damping is None else "bristle_stiffness"
            yield Issue(missing, "nothing", "both bristle_stiffness and bristle_damping, or neither")


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
    created: AwareDatetime
    software_version: Text
    friction: FrictionFeedForward
    drive: DriveFeedForward
    dynamics: DynamicsFeedForward | None = None
    transmission: TransmissionFeedForward | None = None
    validity: Validity
    uncertainty: dict[str, Annotated[Value, Quantity()]] = Field(default_factory=dict)
    residual: PositiveRatio | None = None
    sources: tuple[SourceArchive, ...] = Field(min_length=1)

    def comparisons(self) -> Iterator[Issue]:
        for key, stated in self.uncertainty.items():
            table, _, name = key.partition(".")
            section = getattr(self, table, None) if table in TABLES else None
            value = getattr(section, name, None) if section and name in type(section).model_fields else None
            place = f"uncertainty.{key}"
            if value is None:
                yield Issue(
                    place, f'"{key}"', "the dotted key of a parameter in this file", near_miss(key, self._keys())
                )
            elif stated.magnitude < 0:
                yield Issue(place, f'"{stated}"', "0 or more")
            elif isinstance(value, Value):
                if stated.unit != "%" and not set(kinds_of(stated.unit)) & set(kinds_of(_step(value.unit))):
                    yield Issue(place, f'"{stated}"', f"{article(value.kind)} as {key} is, or a share in %")
            elif stated.unit not in ("%", "1"):
                yield Issue(place, f'"{stated}"', f"a plain number as {key} is, or a share in %")

    def _keys(self) -> list[str]:
        """Return the dotted keys of the parameters this file states."""
        tables = [(table, getattr(self, table)) for table in TABLES]
        return [
            f"{table}.{name}"
            for table, section in tables
            if section is not None
            for name in type(section).model_fields
            if getattr(section, name) is not None
        ]


def _step(unit: str) -> str:
    """Return the unit of a difference: an uncertainty of a temperature is stated in K."""
    return "K" if unit == "degC" else unit
