"""The truth about a simulated joint, as plain numbers: what no driver and no analysis may see.

Everything is referred to the joint unless its name says ``rotor``: rad, rad/s, N.m, kg.m2, s, degC, V. Positive is
counter-clockwise. The equations stand in ``docs/twin.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from bench.twin.plant.truth import FaultTruth, SensorTruth, Terminals


@dataclass(frozen=True)
class FrictionTruth:
    """LuGre friction on the motor's side of the transducer.

    ``stribeck_excess`` is what breakaway has above ``coulomb``. ``load_coefficient`` adds that share of the gear's
    torque to Coulomb friction. ``temperature_coefficient`` [1/K] takes that share of all three off per kelvin above
    ``reference_temperature``. ``offset`` is a constant torque against positive motion.
    """

    coulomb: float = 1.2
    viscous: float = 0.8
    stribeck_excess: float = 0.6
    stribeck_velocity: float = 0.05
    bristle_stiffness: float = 5000.0
    bristle_damping: float = 10.0
    offset: float = 0.0
    load_coefficient: float = 0.0
    temperature_coefficient: float = 0.0
    reference_temperature: float = 25.0


@dataclass(frozen=True)
class GearTruth:
    """The elastic gear: mid-line K_load D - (K_load - K_zero) d tanh(D/d), hysteresis and damping beside it.

    ``backlash`` is the whole gap. The hysteresis is Dahl's, of half-width ``hysteresis_torque`` (width 2 of them),
    saturating over ``hysteresis_angle``.
    """

    ratio: float = 100.0
    stiffness_zero: float = 4000.0
    stiffness_load: float = 6500.0
    stiffening_angle: float = 0.5e-3
    damping: float = 2.0
    hysteresis_torque: float = 0.0
    hysteresis_angle: float = 1e-4
    backlash: float = 0.0


@dataclass(frozen=True)
class DriveTruth:
    """Motor and drive. ``torque_scale`` is true torque over what the drive believes; torques of the rotor say so."""

    inertia: float = 0.2
    torque_scale: float = 1.0
    current_bandwidth_hz: float = 1000.0
    ripple: float = 0.0
    ripple_per_revolution: int = 2
    ripple_phase: float = 0.7
    direction: int = 1
    encoder_counts: int = 16384
    velocity_bandwidth_hz: float = 100.0
    max_rotor_torque: float = 1.0
    brake_torque: float = 40.0
    brake_time_s: float = 0.03
    supply_v: float = 24.0
    supply_ohm: float = 0.1
    fault_temperature: float = 75.0


@dataclass(frozen=True)
class ThermalTruth:
    """Joint housing (with the drive's board; friction depends on it) and the winding, so much warmer.

    ``heating`` scales the heat that is made. The copper's heat is (rotor torque / motor_constant)².
    """

    ambient: float = 25.0
    housing_time_s: float = 600.0
    housing_K_W: float = 1.5
    winding_time_s: float = 30.0
    winding_K_W: float = 1.0
    motor_constant: float = 0.1
    heating: float = 1.0


@dataclass(frozen=True)
class LoadTruth:
    """What is mounted: clamped, or an inertia with gravity moment · sin(q - phase) and viscous damping."""

    name: str = "load"
    locked: bool = False
    inertia: float = 0.4
    gravity_moment: float = 0.0
    gravity_phase: float = 0.0
    damping: float = 0.0
    start_angle: float = 0.0


@dataclass(frozen=True)
class JointEncoderTruth:
    """The encoder on the output; quarter pulses per radian with the counter's direction."""

    quarters_per_rad: float = 4 * 10_000 / 6.283185307179586
    scale_error: float = 0.0
    noise: float = 0.0


@dataclass(frozen=True)
class JointWiring(Terminals):
    """Which terminal of the joint's DAQ device carries what."""

    transducer: str = "ai0"


@dataclass(frozen=True)
class JointTruth:
    """All of it, as drawn from the seed."""

    seed: int = 1
    tick_s: float = 1e-3
    friction: FrictionTruth = field(default_factory=FrictionTruth)
    gear: GearTruth = field(default_factory=GearTruth)
    drive: DriveTruth = field(default_factory=DriveTruth)
    thermal: ThermalTruth = field(default_factory=ThermalTruth)
    load: LoadTruth = field(default_factory=LoadTruth)
    transducer: SensorTruth = field(default_factory=lambda: SensorTruth(kind="bridge", sensitivity=0.5))
    encoder: JointEncoderTruth = field(default_factory=JointEncoderTruth)
    hard_stop_min: float = -6.3
    hard_stop_max: float = 6.3
    wiring: JointWiring = field(default_factory=JointWiring)
    faults: tuple[FaultTruth, ...] = ()
