"""From the profiles of a single joint to its plant's plain numbers, scatter drawn from the seed."""

from __future__ import annotations

import math

import numpy as np

from bench.profile.rig_joint import JointRig
from bench.profile.twin_joint import JointTwin
from bench.profile.twin_joint import LoadTruth as LoadProfile
from bench.twin.noise import generator
from bench.twin.plant.build import check_names, check_terminals, fault_truths
from bench.twin.plant.joint_truth import (
    DriveTruth,
    FrictionTruth,
    GearTruth,
    JointEncoderTruth,
    JointTruth,
    JointWiring,
    LoadTruth,
    ThermalTruth,
)
from bench.twin.plant.truth import SensorTruth

#: However wide the scatter, nothing falls below this share of its nominal value.
LEAST_SHARE = 0.2


def joint_truth(
    rig: JointRig, twin: JointTwin, specimen: str | None = None, seed: int | None = None, *, faults: bool = True
) -> JointTruth:
    """Gather the truth of one simulated joint; parameters and errors as :func:`bench.twin.plant.build.rig_truth`.

    Friction, stiffness and inertia are drawn once from the seed, each figure by itself, with the scatter the twin
    profile states; what is returned is what is true.
    """
    name = check_names(rig, twin, specimen)
    used = twin.seed if seed is None else seed
    sensor, cell = rig.torque_transducer, twin.torque_transducer
    volts_per_Nm = sensor.sign / sensor.sensitivity.to("N.m/V")
    noise = math.hypot(cell.noise.to("N.m"), cell.input_noise.to("V") / volts_per_Nm)
    per_turn = 4.0 * rig.encoder.direction * rig.encoder.pulses_per_revolution
    return JointTruth(
        seed=used,
        tick_s=twin.tick.to("s"),
        friction=_friction(twin, used),
        gear=_gear(twin, used),
        drive=_drive(rig, twin, used),
        thermal=ThermalTruth(
            ambient=twin.motor.temperature.to("degC"),
            housing_time_s=twin.motor.thermal_time.to("s"),
            heating=twin.motor.heating.to("1"),
        ),
        load=_load(name, twin.specimens[name], used),
        transducer=SensorTruth(
            kind="bridge",
            sensitivity=volts_per_Nm,
            gain_error=cell.gain_error.to("1"),
            offset_N=cell.zero_offset.to("N.m"),
            noise_N=noise,
            drift_N_s=cell.drift.to("N.m/s"),
            limit=sensor.voltage_range.to("V"),
            capacity_N=cell.capacity.to("N.m"),
        ),
        encoder=JointEncoderTruth(
            quarters_per_rad=per_turn / (2.0 * math.pi),
            scale_error=twin.encoder.scale_error.to("1"),
            noise=twin.encoder.noise.to("rad"),
        ),
        hard_stop_min=twin.hard_stop_min.to("rad"),
        hard_stop_max=twin.hard_stop_max.to("rad"),
        wiring=_wiring(rig),
        faults=fault_truths(twin) if faults else (),
    )


def _factors(seed: int, what: str, count: int, scatter: float) -> list[float]:
    """Factors of mean 1, standard deviation ``scatter``."""
    drawn = 1.0 + scatter * generator(seed, what).standard_normal(count)
    return [float(factor) for factor in np.maximum(drawn, LEAST_SHARE)]


def _friction(twin: JointTwin, seed: int) -> FrictionTruth:
    given = twin.friction
    coulomb, viscous, excess, velocity, bristle = _factors(seed, "joint/friction", 5, given.scatter.to("1"))
    return FrictionTruth(
        coulomb=coulomb * given.coulomb.to("N.m"),
        viscous=viscous * given.viscous.to("N.m.s/rad"),
        stribeck_excess=excess * given.stribeck_excess.to("N.m"),
        stribeck_velocity=velocity * given.stribeck_velocity.to("rad/s"),
        bristle_stiffness=bristle * given.bristle_stiffness.to("N.m/rad"),
        bristle_damping=given.bristle_damping.to("N.m.s/rad"),
        offset=given.offset.to("N.m"),
        load_coefficient=given.load_coefficient,
        temperature_coefficient=given.temperature_coefficient.to("1/K"),
        reference_temperature=given.reference_temperature.to("degC"),
    )


def _gear(twin: JointTwin, seed: int) -> GearTruth:
    given = twin.gear
    zero, load, hysteresis = _factors(seed, "joint/gear", 3, given.scatter.to("1"))
    stiffness_zero = zero * given.stiffness_zero.to("N.m/rad")
    return GearTruth(
        ratio=given.ratio,
        stiffness_zero=stiffness_zero,
        stiffness_load=load * given.stiffness_load.to("N.m/rad"),
        stiffening_angle=given.stiffening_angle.to("rad"),
        damping=given.damping.to("N.m.s/rad"),
        hysteresis_torque=hysteresis * given.hysteresis_torque.to("N.m"),
        hysteresis_angle=given.hysteresis_angle.to("rad"),
        backlash=given.backlash.to("rad"),
    )


def _drive(rig: JointRig, twin: JointTwin, seed: int) -> DriveTruth:
    given = twin.motor
    (inertia,) = _factors(seed, "joint/motor", 1, given.inertia_scatter.to("1"))
    return DriveTruth(
        inertia=inertia * given.inertia.to("kg.m2"),
        torque_scale=1.0 + given.torque_error.to("1"),
        current_bandwidth_hz=given.current_bandwidth.to("Hz"),
        ripple=given.torque_ripple.to("N.m"),
        ripple_per_revolution=given.ripple_per_revolution,
        direction=rig.drive.direction,
        encoder_counts=given.encoder_counts,
        velocity_bandwidth_hz=given.velocity_bandwidth.to("Hz"),
        max_rotor_torque=given.max_torque.to("N.m"),
        brake_torque=given.brake_torque.to("N.m"),
        brake_time_s=given.brake_time.to("s"),
        supply_v=given.supply.to("V"),
        fault_temperature=given.fault_temperature.to("degC"),
    )


def _load(name: str, given: LoadProfile, seed: int) -> LoadTruth:
    (inertia,) = _factors(seed, f"joint/load/{name}", 1, given.inertia_scatter.to("1"))
    return LoadTruth(
        name=name,
        locked=given.locked,
        inertia=inertia * given.link_inertia.to("kg.m2"),
        gravity_moment=given.gravity_moment.to("N.m"),
        gravity_phase=given.gravity_phase.to("rad"),
        damping=given.damping.to("N.m.s/rad"),
        start_angle=given.start_angle.to("rad"),
    )


def _wiring(rig: JointRig) -> JointWiring:
    sensor, encoder, safety = rig.torque_transducer, rig.encoder, rig.safety
    check_terminals(rig, (sensor.channel, encoder.counter, safety.estop_line, safety.enable_line))
    return JointWiring(
        device=rig.daq.device,
        transducer=sensor.channel,
        counter=encoder.counter,
        estop_line=safety.estop_line,
        estop_healthy=safety.estop_healthy == "high",
        enable_line=safety.enable_line,
    )
