"""From an arm's profile to numbers: geometry, drivetrain, ratings. The one place that knows both sides.

::

    rig = load_rig(find_profile("rigs", "full_arm"))
    model = arm_model(rig)                                  # with the tool, on Pinocchio (extra "arm")
    drives = drivetrain(rig.arm)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.errors import ProfileError
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.drivetrain import Drivetrain
from bench.profile import ArmMechanics, ArmProfile, ArmRig, BodyProfile, Payload, SpecimenProfile
from bench.units import Value

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: The flange's frame in the model may lie this far from where the profile says it was measured [m].
ZERO_TOLERANCE_M = 1e-3


@dataclass(frozen=True)
class ArmRatings:
    """What every joint bears and may do; arrays (n,), rad and N.m (m and N for prismatic joints).

    What a profile leaves out is infinite (peak torque, acceleration, stiffness) or zero (friction, torque uncertainty).
    ``torque_uncertainty`` is the standard uncertainty of the torque a motor really makes, as a share: half of what the
    profile states (k = 2).
    """

    rated_torque: Floats
    peak_torque: Floats
    speed: Floats
    acceleration: Floats
    position_min: Floats
    position_max: Floats
    stiffness: Floats
    coulomb: Floats
    viscous: Floats
    torque_uncertainty: Floats


def ratings(arm: ArmMechanics) -> ArmRatings:
    """Return the ratings a profile states."""

    def column(key: str, missing: float) -> Floats:
        numbers = [joint.number(key) for joint in arm.joints]
        return np.array([missing if number is None else number for number in numbers])

    return ArmRatings(
        column("rated_torque", np.inf),
        column("peak_torque", np.inf),
        column("speed_limit", np.inf),
        column("acceleration_limit", np.inf),
        column("position_min", -np.inf),
        column("position_max", np.inf),
        column("stiffness", np.inf),
        column("coulomb", 0.0),
        column("viscous", 0.0),
        np.array([0.5 * joint.torque_uncertainty.to("1") for joint in arm.joints]),
    )


def drivetrain(arm: ArmMechanics) -> Drivetrain:
    """Return how motors and joints hang together; a torque constant the profile leaves out is NaN."""
    joints = arm.joints
    size = len(joints)
    coupling = np.eye(size) if arm.coupling is None else np.array(arm.coupling, dtype=np.float64)
    ratio = np.array([joint.gear_ratio for joint in joints])
    constants = [np.nan if j.torque_constant is None else j.torque_constant.to("N.m/A") for j in joints]
    return Drivetrain(
        gear_ratio=ratio,
        direction=np.array([float(joint.direction) for joint in joints]),
        coupling=coupling,
        offset=np.array([joint.number("offset") or 0.0 for joint in joints]),
        motor_inertia=np.array([joint.motor_inertia.to("kg.m2") for joint in joints]) * ratio**2,
        torque_constant=np.array(constants),
    )


def body(profile: BodyProfile) -> LinkInertia:
    """Return a body of a profile in numbers."""
    xx, yy, zz, xy, xz, yz = (value.to("kg.m2") for value in profile.inertia)
    inertia = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return LinkInertia(profile.mass.to("kg"), point(profile.centre), inertia)


def point(lengths: tuple[Value, ...]) -> Floats:
    """Return (3,) m."""
    return np.array([length.to("m") for length in lengths])


def frame(position: tuple[Value, ...], angles: tuple[Value, ...]) -> Floats:
    """Return the (4, 4) transform of a frame at ``position``, turned by roll, pitch, yaw about the fixed axes."""
    roll, pitch, yaw = (angle.to("rad") for angle in angles)
    cr, sr, cp, sp, cy, sy = np.cos(roll), np.sin(roll), np.cos(pitch), np.sin(pitch), np.cos(yaw), np.sin(yaw)
    placed = np.eye(4)
    placed[:3, :3] = [
        [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
        [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
        [-sp, cp * sr, cp * cr],
    ]
    placed[:3, 3] = point(position)
    return placed


def sensor_frame(rig: ArmRig) -> Floats:
    """Return the (4, 4) frame of the wrist sensor in the flange's."""
    return frame(rig.wrist_sensor.position, rig.wrist_sensor.angles)


def arm_description(
    profile: ArmRig | ArmProfile, payload: SpecimenProfile | LinkInertia | None = None
) -> ArmDescription:
    """Return the arm a profile describes, nominal.

    Parameters
    ----------
    profile : ArmRig or ArmProfile
        A rig's arm has its tool mounted, as added inertia of the last link, and ``tip`` at the tool's; an arm recorded
        elsewhere ends at its flange.
    payload : Payload or LinkInertia, optional
        What is fixed to the tool, given in the sensor's frame (the flange's where there is no sensor).

    Raises
    ------
    ProfileError
        The model does not stand where the profile says the mechanics do at zero (``zero_flange``).
    ModelError
        The URDF is not one, or of another arm.
    """
    described = bare_description(profile)
    sensor = np.eye(4)
    if isinstance(profile, ArmRig):
        sensor = sensor_frame(profile)
        tip = np.eye(4)
        tip[:3, 3] = point(profile.tool.tip)
        described = replace(described, tip=described.flange @ sensor @ tip)
        described = described.with_load(body(profile.tool).moved(sensor))
    load = body(payload.body) if isinstance(payload, Payload) else payload
    if isinstance(load, LinkInertia) and load.mass > 0.0:
        described = described.with_load(load.moved(sensor))
    return described


def bare_description(profile: ArmRig | ArmProfile) -> ArmDescription:
    """Return the nominal arm with nothing mounted, its tip at the flange; raises as :func:`arm_description`."""
    from bench.models.dh import DhRow, from_dh
    from bench.models.urdf import read_urdf

    arm = profile.arm
    names = [joint.name for joint in arm.joints]
    path = profile.urdf_path()
    if path is not None:
        described = read_urdf(path, expect_joints=names)
        for index, (joint, found) in enumerate(zip(arm.joints, described.joints, strict=True)):
            if joint.kind != found.kind:
                raise ProfileError(
                    f"joint {joint.name} is {joint.kind}, in {path.name} it is {found.kind}",
                    where=f"{profile.source.path}: arm.joints[{index}].kind",
                    remedy="Take the URDF of this arm, or correct the joint's kind and the units of its quantities",
                )
    else:
        rows = [
            DhRow(
                name=joint.name,
                kind=joint.kind,
                d=joint.d.to("m"),
                a=joint.a.to("m"),
                alpha=joint.alpha.to("rad"),
                theta=joint.theta.to("rad"),
                link=LinkInertia(0.0) if joint.link is None else body(joint.link),
            )
            for joint in arm.joints
        ]
        described = from_dh(profile.name, rows, convention=arm.convention or "standard")
    described = replace(described, flange=described.flange @ frame(arm.flange_position, arm.flange_angles))
    described = replace(described, tip=described.flange)
    if arm.zero_flange is not None:
        _check_zero(profile, described, point(arm.zero_flange))
    return described


def _check_zero(profile: ArmRig | ArmProfile, described: ArmDescription, measured: Floats) -> None:
    placed = np.eye(4)
    for joint in described.joints:
        placed = placed @ joint.placement
    found = (placed @ described.flange)[:3, 3]
    if not np.abs(found - measured).max() <= ZERO_TOLERANCE_M:
        given, model = (", ".join(f"{1e3 * x:.1f}" for x in point) for point in (measured, found))
        raise ProfileError(
            f"with all joints at zero the flange is at ({given}) mm, the model's at ({model}) mm",
            where=f"{profile.source.path}: arm.zero_flange",
            remedy="Check the DH rows (or the URDF), the joints' theta and the convention against the mechanics",
        )


def arm_model(profile: ArmRig | ArmProfile, payload: SpecimenProfile | LinkInertia | None = None) -> ArmModel:
    """Return the nominal dynamics of a profile's arm, tool and payload included; raises as :func:`arm_description`.

    The motors' inertia is in it, see :func:`coupled_inertia`.
    """
    from bench.models.rigid import ArmModel

    return ArmModel(arm_description(profile, payload), motor_inertia=coupled_inertia(drivetrain(profile.arm)))


def coupled_inertia(drives: Drivetrain) -> Floats:
    """Return (n, n) what the motors' inertia adds to the joints' mass matrix: ``A^-T diag(I_m) A^-1``."""
    inverse = np.linalg.inv(drives.coupling)
    return np.asarray(inverse.T @ np.diag(drives.motor_inertia) @ inverse)
