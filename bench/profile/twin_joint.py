"""The truth of a simulated joint: what its motor, gear, friction, load and sensors really are.

Symbols and signs are those of :mod:`bench.models.friction` and :mod:`bench.models.transmission`; ``docs/twin.md`` gives
the equations. A ``…_scatter`` is the standard deviation of a relative draw from the seed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.fields import (
    Angle,
    Frequency,
    Inertia,
    NonNegativeAngle,
    NonNegativeRatio,
    NonNegativeTime,
    NonNegativeTorque,
    NonNegativeVoltage,
    PositiveAngle,
    PositiveTorque,
    Quantity,
    Ratio,
    ReciprocalTemperature,
    RotationalDamping,
    RotationalStiffness,
    Section,
    Temperature,
    Time,
    Torque,
    TorqueRate,
    Voltage,
)
from bench.profile.problem import Issue
from bench.profile.rig import ordered
from bench.profile.twin import NO_RATIO, TwinProfile
from bench.units import Value

NO_TORQUE = Value(0.0, "N.m", "torque")
NO_ANGLE = Value(0.0, "rad", "angle")
ROOM = Value(25.0, "degC", "temperature")


class FrictionTruth(Section):
    """LuGre friction on the motor's side of the transducer, as torque and speed of the joint."""

    coulomb: NonNegativeTorque
    viscous: RotationalDamping
    stribeck_excess: NonNegativeTorque = NO_TORQUE
    stribeck_velocity: Annotated[Value, Quantity("angular_speed", above="0")] = Value(0.05, "rad/s", "angular_speed")
    bristle_stiffness: RotationalStiffness
    bristle_damping: RotationalDamping
    offset: Torque = NO_TORQUE
    load_coefficient: float = Field(default=0.0, ge=0, lt=1)
    temperature_coefficient: ReciprocalTemperature = Value(0.0, "1/K", "reciprocal_temperature")
    reference_temperature: Temperature = ROOM
    scatter: NonNegativeRatio = NO_RATIO


class GearTruth(Section):
    """The elastic gear between motor and transducer; the ratio itself is the truth, whatever the rig profile says."""

    ratio: float = Field(gt=0)
    stiffness_zero: RotationalStiffness
    stiffness_load: RotationalStiffness
    stiffening_angle: PositiveAngle
    damping: RotationalDamping
    hysteresis_torque: NonNegativeTorque = NO_TORQUE
    hysteresis_angle: PositiveAngle = Value(0.1, "mrad", "angle")
    backlash: NonNegativeAngle = NO_ANGLE
    scatter: NonNegativeRatio = NO_RATIO


class MotorTruth(Section):
    """Motor and drive: inertia seen at the joint, torque really made, current loop, ripple, encoder, heat."""

    serial_number: str
    firmware: str = "0.1.0"
    inertia: Inertia
    inertia_scatter: NonNegativeRatio = NO_RATIO
    torque_error: Ratio = NO_RATIO
    current_bandwidth: Frequency = Value(1.0, "kHz", "frequency")
    torque_ripple: NonNegativeTorque = NO_TORQUE
    ripple_per_revolution: int = Field(default=2, ge=1)
    encoder_counts: int = Field(default=16384, ge=16)
    velocity_bandwidth: Frequency = Value(100.0, "Hz", "frequency")
    max_torque: PositiveTorque
    brake_torque: NonNegativeTorque = Value(40.0, "N.m", "torque")
    brake_time: NonNegativeTime = Value(30.0, "ms", "time")
    temperature: Temperature = ROOM
    thermal_time: Time = Value(10.0, "min", "time")
    heating: NonNegativeRatio = Value(100.0, "%", "ratio")
    supply: Voltage = Value(24.0, "V", "voltage")
    fault_temperature: Temperature = Value(75.0, "degC", "temperature")

    def comparisons(self) -> Iterator[Issue]:
        if self.temperature.to("degC") >= self.fault_temperature.to("degC"):
            due = f"below fault_temperature, {self.fault_temperature}"
            yield Issue("temperature", f'"{self.temperature}"', due, "The drive would be in fault from the start")


class JointEncoderTruth(Section):
    """The real joint encoder."""

    noise: NonNegativeAngle = NO_ANGLE
    scale_error: Ratio = NO_RATIO


class TransducerTruth(Section):
    """The real torque transducer; its own stiffness is part of the gear's."""

    serial_number: str = ""
    capacity: PositiveTorque
    gain_error: Ratio = NO_RATIO
    noise: NonNegativeTorque = NO_TORQUE
    drift: TorqueRate = Value(0.0, "N.m/s", "torque_rate")
    zero_offset: Torque = NO_TORQUE
    input_noise: NonNegativeVoltage = Value(0.0, "V", "voltage")


class LoadTruth(Section):
    """What is really mounted: ``locked`` clamps the output, else inertia and gravity."""

    locked: bool = False
    link_inertia: Inertia = Value(0.4, "kg.m2", "inertia")
    inertia_scatter: NonNegativeRatio = NO_RATIO
    gravity_moment: NonNegativeTorque = NO_TORQUE
    gravity_phase: Angle = NO_ANGLE
    damping: RotationalDamping = Value(0.0, "N.m.s/rad", "rotational_damping")
    start_angle: Angle = NO_ANGLE


class JointTwin(TwinProfile):
    """The whole truth of one simulated joint."""

    kind: Literal["single_joint"]
    motor: MotorTruth
    gear: GearTruth
    friction: FrictionTruth
    encoder: JointEncoderTruth = JointEncoderTruth()
    torque_transducer: TransducerTruth
    hard_stop_min: Angle
    hard_stop_max: Angle
    specimens: dict[str, LoadTruth] = Field(min_length=1)

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        low, high = self.hard_stop_min, self.hard_stop_max
        yield from ordered(low, high, "hard_stop_min", "hard_stop_max")
        for name, load in self.specimens.items():
            if low.to("rad") < high.to("rad") and not low.to("rad") <= load.start_angle.to("rad") <= high.to("rad"):
                due = f"between the hard stops, {low} to {high}"
                yield Issue(f"specimens.{name}.start_angle", f'"{load.start_angle}"', due)
