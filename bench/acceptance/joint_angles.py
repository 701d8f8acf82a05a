"""Do motor and joint encoder of an archive tell one motion? What they part by must be what the gear gives way by.

Both encoders count to a fraction of a mrad, so a wrong ratio of a per cent, lost counts and clocks that part show as
soon as the joint has moved far or fast enough for them.
"""

from __future__ import annotations

import numpy as np

from bench.acceptance.joint_evidence import LONGEST_HOLE_TICKS, Floats, JointEvidence

#: The angles' ratio may be off by this share, beside what the gear gives way by over the way …
RATIO_SHARE = 0.005
#: … and never by more than this.
ANGLES_AGREE = 0.05
#: A joint that moved less says nothing [rad].
LEAST_MOTION_RAD = 0.03
#: The gear gives way by this many deflections of its nominal stiffness under the largest torque, and by its play [rad].
DEFLECTIONS, PLAY_RAD = 2.0, 5e-3
#: With the nominal deflection taken off, a ratio may still be off by this share of it, and by what is left of play
#: and hysteresis [rad]: strain-wave gears are mixed up by one tooth, which is a per cent.
DEFLECTION_UNSURE, PLAY_LEFT_RAD = 0.5, 1e-3


def why_not(evidence: JointEvidence) -> str:
    """Say what speaks against the encoders; nothing when nothing does, or too little moved."""
    time, joint = _joint_angle(evidence)
    ratio = evidence.facts.rig.drive.gear_ratio
    motor = np.interp(time, evidence.drive_time_s, evidence.drive("motor_angle")) / ratio
    torque = np.interp(time, evidence.torque.time_s, evidence.torque.values)
    sound = np.isfinite(joint) & np.isfinite(motor) & np.isfinite(torque)
    joint, motor, torque = joint[sound], motor[sound], torque[sound]
    way = float(np.ptp(joint)) if len(joint) else 0.0
    if way < LEAST_MOTION_RAD:
        return ""
    stiffness = evidence.facts.rig.joint.stiffness.to("N.m/rad")
    deflection = float(np.max(np.abs(evidence.torque.values))) / stiffness
    slack = DEFLECTIONS * deflection + PLAY_RAD
    unsure = DEFLECTION_UNSURE * deflection + PLAY_LEFT_RAD
    slope, zero = np.polyfit(joint, motor - torque / stiffness, 1)
    if abs(slope + 1.0) <= ANGLES_AGREE:
        return "motor and joint encoder turn opposite ways: a direction in the rig profile is wrong"
    if abs(slope - 1.0) > min(ANGLES_AGREE, RATIO_SHARE + unsure / way):
        return (
            f"the motor turns {slope:.4g} times the angle that the joint encoder and the gear ratio {ratio:g} give: "
            "the ratio or an encoder is wrong"
        )
    apart = float(np.max(np.abs(motor - slope * joint - zero)))
    if apart > slack:
        return (
            f"motor and joint encoder part by {apart * 1e3:.3g} mrad, and the gear gives way by {slack * 1e3:.3g} mrad "
            "at most: counts were lost, a coupling slipped, or the rows of the drive and the DAQ's samples are not of "
            "one time"
        )
    return ""


def _joint_angle(evidence: JointEvidence) -> tuple[Floats, Floats]:
    """Joint angle at some thousand instants of the run, where the drive has rows on both sides.

    Enough to compare, whatever the run's length.
    """
    angle, rows = evidence.angle, evidence.drive_time_s
    taken = slice(None, None, max(1, len(angle.values) // 5000))
    time = angle.time_s[taken]
    following = np.searchsorted(rows, time)
    between = np.diff(rows, prepend=-np.inf, append=np.inf)[following]
    near = between <= LONGEST_HOLE_TICKS * evidence.period_s
    return time[near], angle.values[taken][near]
