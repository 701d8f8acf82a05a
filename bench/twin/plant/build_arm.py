"""From the profiles of an arm to its plant's plain numbers, scatter drawn from the seed."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.arm import bare_description, body, drivetrain, point, sensor_frame
from bench.errors import TwinError
from bench.instruments.ati_file import AtiCalibration
from bench.instruments.dynamixel_models import servo_model
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.profile.rig_arm import ArmRig
from bench.profile.twin_arm import ArmSpecimenTruth, ArmTwin
from bench.profile.twin_arm import AxisTruth as AxisProfile
from bench.twin.noise import generator
from bench.twin.plant.arm_truth import (
    ArmTruth,
    ArmWiring,
    AxisTruth,
    ContactTruth,
    ServoTruth,
    ThermalTruth,
    WristTruth,
)
from bench.twin.plant.build import AXES, check_names, check_terminals, fault_truths, tissue_truth

Floats = NDArray[np.float64]

#: However wide the scatter, nothing falls below this share of its nominal value.
LEAST_SHARE = 0.2


def arm_truth(
    rig: ArmRig, twin: ArmTwin, specimen: str | None = None, seed: int | None = None, *, faults: bool = True
) -> ArmTruth:
    """Gather the truth of one simulated arm; parameters and errors as :func:`bench.twin.plant.build.rig_truth`.

    Links, friction, springs, rotors and torque constants are drawn once from the seed; what is returned is what is
    true.
    """
    name = check_names(rig, twin, specimen)
    if len(twin.axes) != len(rig.arm.joints):
        raise TwinError(
            f"the twin has {len(twin.axes)} axes, the rig {len(rig.arm.joints)} joints",
            where=f"{twin.source.path}, axes",
            remedy="give one [[axes]] for every joint of the rig, in their order",
        )
    used = twin.seed if seed is None else seed
    drives, mounted = drivetrain(rig.arm), twin.specimens[name]
    return ArmTruth(
        arm=scattered_links(bare_description(rig), twin.links.inertial_scatter.to("1"), used),
        axes=tuple(_axis(rig, twin, index, used) for index in range(len(twin.axes))),
        coupling=np.array(drives.coupling, dtype=np.float64),
        offset=np.array(drives.offset, dtype=np.float64),
        seed=used,
        tick_s=twin.tick.to("s"),
        sensor_frame=sensor_frame(rig),
        tool=body(rig.tool),
        payload=LinkInertia(0.0) if mounted.payload is None else body(mounted.payload),
        payload_name=name,
        tip=point(rig.tool.tip),
        tip_radius=rig.tool.tip_radius.to("m"),
        contact=_contact(name, mounted),
        brake_time_s=twin.servos.brake_time.to("s"),
        thermal=ThermalTruth(
            ambient=twin.servos.temperature.to("degC"),
            time_s=twin.servos.thermal_time.to("s"),
            kelvin_per_a2=ThermalTruth.kelvin_per_a2 * twin.servos.heating.to("1"),
            supply_v=twin.servos.supply.to("V"),
        ),
        sensor=_sensor(rig, twin, used),
        servos=tuple(
            ServoTruth(servo.id, servo.model, twin.servos.firmware, axis.serial_number)
            for servo, axis in zip(rig.servos, twin.axes, strict=True)
        ),
        wiring=_wiring(rig),
        faults=fault_truths(twin) if faults else (),
    )


def scattered_links(arm: ArmDescription, scatter: float, seed: int) -> ArmDescription:
    """Return the arm with every link's mass, centre and inertia a little other, as of a body that can exist.

    The pseudo-inertia P of a link becomes (1 + s) T P Tᵀ with an affine map T of its points near the identity: a
    congruence, so what was positive semidefinite stays so (Wensing, Kim, Slotine, IEEE RA-L 3(1), 2018). Standard
    deviations: ``scatter`` of the mass and of each length of the body, ``scatter`` of the radius of gyration for the
    centre.
    """
    if scatter == 0.0:
        return arm
    links = []
    for index, joint in enumerate(arm.joints):
        link = joint.link
        draw = generator(seed, f"arm/link/{index}").standard_normal(10)
        if link.mass <= 0.0:
            links.append(link)
            continue
        gyration = math.sqrt(max(float(np.trace(link.inertia)), 0.0) / (2.0 * link.mass))
        bent = np.array([[draw[1], draw[2], draw[3]], [draw[2], draw[4], draw[5]], [draw[3], draw[5], draw[6]]])
        affine = np.eye(4)
        affine[:3, :3] += 0.5 * scatter * bent
        affine[:3, 3] = link.centre + scatter * gyration * draw[7:] - affine[:3, :3] @ link.centre
        pseudo = max(LEAST_SHARE, 1.0 + scatter * draw[0]) * affine @ link.pseudo_inertia() @ affine.T
        spread = pseudo[:3, :3]
        origin = np.trace(spread) * np.eye(3) - spread
        six = (origin[0, 0], origin[0, 1], origin[1, 1], origin[0, 2], origin[1, 2], origin[2, 2])
        links.append(LinkInertia.from_parameters(np.array([pseudo[3, 3], *pseudo[:3, 3], *six])))
    return arm.with_links(tuple(links))


def _axis(rig: ArmRig, twin: ArmTwin, index: int, seed: int) -> AxisTruth:
    given: AxisProfile = twin.axes[index]
    joint, servo, shared = rig.arm.joints[index], rig.servos[index], twin.servos
    draw = generator(seed, f"arm/axis/{index}").standard_normal(9)
    rub, spring = shared.friction_scatter.to("1"), shared.stiffness_scatter.to("1")

    def factor(number: int, scatter: float) -> float:
        return max(LEAST_SHARE, 1.0 + scatter * float(draw[number]))

    constant = joint.torque_constant
    assert constant is not None  # the rig profile sees to it
    return AxisTruth(
        coulomb=factor(0, rub) * given.coulomb.to("N.m"),
        viscous=factor(1, rub) * given.viscous.to("N.m.s/rad"),
        stribeck_excess=factor(2, rub) * given.stribeck_excess.to("N.m"),
        stribeck_velocity=factor(3, rub) * given.stribeck_velocity.to("rad/s"),
        offset=given.offset.to("N.m"),
        bristle_stiffness=factor(4, rub) * given.bristle_stiffness.to("N.m/rad"),
        bristle_damping=given.bristle_damping.to("N.m.s/rad"),
        stiffness=factor(5, spring) * given.stiffness.to("N.m/rad"),
        damping=given.damping.to("N.m.s/rad"),
        inertia=factor(6, shared.inertia_scatter.to("1")) * joint.motor_inertia.to("kg.m2") * joint.gear_ratio**2,
        gear_ratio=joint.gear_ratio,
        direction=joint.direction,
        torque_constant=constant.to("N.m/A"),
        torque_scale=factor(7, shared.torque_error.to("1")),
        ripple=given.torque_ripple.to("N.m"),
        ripple_per_revolution=given.ripple_per_revolution,
        ripple_phase=float(draw[8]),
        current_noise=shared.current_noise.to("A"),
        velocity_bandwidth_hz=shared.velocity_bandwidth.to("Hz"),
        max_current=servo.max_current.to("A"),
        brake_torque=given.brake_torque.to("N.m"),
        stop_min=given.stop_min.to("rad"),
        stop_max=given.stop_max.to("rad"),
        start=given.start.to("rad"),
        zero=servo.zero_count * servo_model(servo.model).radians_per_count,
    )


def _contact(name: str, mounted: ArmSpecimenTruth) -> ContactTruth | None:
    if mounted.surface is None or mounted.tissue is None:
        return None
    x, y, z = (length.to("m") for length in mounted.surface.point)
    u, v, w = mounted.surface.normal
    return ContactTruth((x, y, z), (u, v, w), tissue_truth(name, mounted.tissue))


def _sensor(rig: ArmRig, twin: ArmTwin, seed: int) -> WristTruth:
    truth, sensor = twin.wrist_sensor, rig.wrist_sensor
    path = rig.calibration_path()
    assert path is not None
    calibration = AtiCalibration.read(path)
    draw = generator(seed, "arm/wrist_zero").uniform(-1.0, 1.0, 6)
    sizes = [truth.zero_force.to("N")] * 3 + [truth.zero_torque.to("N.m")] * 3
    return WristTruth(
        matrix=tuple(tuple(float(x) for x in row) for row in calibration.matrix),
        axis=AXES.index(sensor.pressing_axis),
        gain_error=truth.gain_error.to("1"),
        cross_talk=truth.cross_talk.to("1"),
        offset=tuple(float(size * x) for size, x in zip(sizes, draw, strict=True)),
        capacity=(truth.capacity.to("N"),) * 3 + (truth.torque_capacity.to("N.m"),) * 3,
        noise_N=truth.noise.to("N"),
        drift_N_s=truth.drift.to("N/s"),
        limit=sensor.voltage_range.to("V"),
    )


def _wiring(rig: ArmRig) -> ArmWiring:
    sensor, safety = rig.wrist_sensor, rig.safety
    check_terminals(rig, (*sensor.channels, safety.estop_line, safety.enable_line, safety.brake_line))
    return ArmWiring(
        device=rig.daq.device,
        gauges=sensor.channels,
        estop_line=safety.estop_line,
        estop_healthy=safety.estop_healthy == "high",
        enable_line=safety.enable_line,
        brake_line=safety.brake_line,
    )
