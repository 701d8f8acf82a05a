"""The small motion before every procedure: do motor, joint encoder and torque transducer tell one story?

The recording compares them on every block (:class:`bench.safety.joint_watch.JointWatch`) and ends the run with the
message of what is wrong: gear ratio, encoder direction, stuck encoder, inverted transducer. Here the joint is made to
move enough for that to be judged, and with little torque, since nothing is known to be right yet.
"""

from __future__ import annotations

import math

from bench.errors import SafetyAbort
from bench.procedures.joint_motion import TorqueWave
from bench.procedures.joint_mover import GENTLE_ACCELERATION, Mover, moved_away

#: The motor has to come this close to where the check sent it, as a share of the way.
ARRIVED_SHARE = 0.5
#: With the output locked: torque of the check as a share of the rated one, its time [s], and how far the motor may turn
#: in deflections of the nominal gear (friction and backlash aside).
LOCKED_SHARE = 0.25
LOCKED_S = 1.0
LOCKED_REACH = 4.0
#: Play and wind-up a locked joint's motor may show beside the gear's deflection [rad].
LOCKED_PLAY_RAD = 0.01


def check_moving(mover: Mover) -> None:
    """Move by ``check_angle`` to the one side and the other, and back.

    Raises
    ------
    SafetyAbort
        ``"joint_blocked"`` when the motor does not arrive, or what the recording's watch finds.
    """
    control = mover.control
    inertia_nm = control.model.inertia * min(control.acceleration, GENTLE_ACCELERATION)
    needed = control.friction_nm + inertia_nm + control.model.gravity_moment
    torque = min(control.torque_limit_nm, 1.5 * needed)
    start = mover.desired_rad
    for goal in (start + control.check_angle_rad, start - control.check_angle_rad, start):
        way = abs(goal - mover.desired_rad)
        done = mover.move_gently(goal, "checking the wiring", torque)
        reached = float(done.view.motor_angle_rad[-1])
        if not abs(goal - reached) <= ARRIVED_SHARE * way:
            raise SafetyAbort(
                f"the motor was sent by {way:.3g} rad and is {abs(goal - reached):.3g} rad short, at up to "
                f"{torque:.3g} N.m",
                reason="joint_blocked",
                where="wiring check",
                remedy="Look for a locked output, a closed brake or a load that is heavier than its profile says; "
                "check the sign of the drive's torque.",
            )
    # Low gains leave friction a good part of the way; full gains must not make a jump of it.
    mover.desired_rad = reached


def check_locked(mover: Mover) -> None:
    """Push a little both ways against the lock.

    Raises
    ------
    SafetyAbort
        ``"output_not_locked"`` when the motor turns, or what the recording's watch finds.
    """
    control = mover.control
    torque = min(LOCKED_SHARE * control.rated_torque_nm, control.torque_limit_nm)
    wave = TorqueWave([torque, -torque, 0.0], 4.0 * torque / LOCKED_S)
    reach = locked_reach(mover, torque)
    done, push = mover.push(wave, "checking the wiring", reach_rad=reach)
    if push.left:
        raise not_locked(push.peak_rad, torque, "wiring check")
    joint = done.view.samples.joint_angle_rad
    turned = float(abs(joint - joint[0]).max()) if len(joint) else 0.0
    if turned > reach:
        raise not_locked(turned, torque, "wiring check")


def locked_reach(mover: Mover, torque_nm: float) -> float:
    """How far the motor may turn against a lock under a torque [rad]."""
    return LOCKED_REACH * torque_nm / mover.control.stiffness + LOCKED_PLAY_RAD


def not_locked(turned_rad: float, torque_nm: float, where: str) -> SafetyAbort:
    """Return the error for an output that turns although it should be locked."""
    turned = f"{turned_rad:.3g} rad" if math.isfinite(turned_rad) else "an unknown angle"
    return moved_away(
        f"the joint turned by {turned} under at most {torque_nm:.3g} N.m, although the output is said to be locked",
        where,
        "Clamp the output, and check that the clamp does not slip.",
    )
