"""From an arm rig's profile to the limits its motion is held to; beside :mod:`bench.arm`, and read like it."""

from __future__ import annotations

from bench.arm import drivetrain, point, ratings
from bench.models.motion_limits import MotionLimits, Resonance
from bench.profile import ArmRig


def motion_limits(rig: ArmRig) -> MotionLimits:
    """Return the limits of a rig: joints, torques with their safety factors, box, tip, singular poses, resonances."""
    rated, safety, room = ratings(rig.arm), rig.safety, rig.workspace
    return MotionLimits(
        names=tuple(joint.name for joint in rig.arm.joints),
        position_min=rated.position_min,
        position_max=rated.position_max,
        speed=rated.speed,
        acceleration=rated.acceleration,
        rated_torque=rated.rated_torque,
        peak_torque=rated.peak_torque,
        coulomb=rated.coulomb,
        viscous=rated.viscous,
        stiffness=rated.stiffness,
        factor_rated=safety.safety_factor_rated,
        factor_peak=safety.safety_factor_peak,
        box_min=point(room.box_min),
        box_max=point(room.box_max),
        tip_speed=safety.tip_speed_limit.to("m/s"),
        least_singular_value=room.least_singular_value.to("m"),
        characteristic_length=room.characteristic_length.to("m"),
        max_deflection=room.max_deflection.to("m"),
        resonances=tuple(
            Resonance(hz.to("Hz"), rig.arm.resonance_margin, f"rig {rig.name}") for hz in rig.arm.resonances
        ),
        coupling=None if rig.arm.coupling is None else drivetrain(rig.arm).coupling,
        prismatic=tuple(number for number, joint in enumerate(rig.arm.joints) if joint.kind == "prismatic"),
    )
