"""The small moves before a procedure: does every joint that is told to move do so, and no other one, the right way?

Two witnesses. The servos' own encoders tell swapped replies, a blocked joint, a wrong direction of the current. They
cannot tell two servos that are swapped whole, or a direction or ratio that is wrong for encoder and current alike: for
those the wrist sensor feels how the weight of the tool turns in it, which follows from the joint that really moved. A
joint whose axis is upright does not turn the weight, so there it must feel nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.arm import sensor_frame
from bench.errors import SafetyAbort
from bench.procedures.arm_mover import ArmDone, ArmMover
from bench.procedures.arm_plan import CHECK_STAND_S
from bench.profile import ArmRig, Payload, SpecimenProfile

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: A joint has to come this close to where it was sent, as a share of the way; another one may move by so much of it.
ARRIVED_SHARE, STAYED_SHARE = 0.5, 0.25
#: The turn of the weight has to be as predicted within this share, and this much [N] for noise and drift.
TURN_SHARE, TURN_N = 0.15, 0.03
#: The first part of a standing time is for coming to rest [s].
CALMING_S = 0.06


def check_joints(mover: ArmMover, rig: ArmRig, specimen: SpecimenProfile) -> None:
    """Move every joint by the plan's check angle and back, one after the other.

    Raises
    ------
    SafetyAbort
        ``"joint_blocked"``, ``"other_joint_moved"``, ``"wrong_joint"``; ``"wrong_weight"``: no joint's motion explains
        what the wrist sensor feels; the loop's own when a joint runs away.
    """
    control = mover.control
    checks = control.checks()
    if not checks:
        return
    model, weight = control.knowledge.model, carried(rig, specimen)
    turn = model.description.flange[:3, :3] @ sensor_frame(rig)[:3, :3]
    mover.recording.force_ticks(True)
    try:
        before, _ = _felt(mover.hold(2.0 * CHECK_STAND_S, "checking the wiring"))
        rest = _stood(mover.hold(CALMING_S, "checking the wiring"))
        for joint, way, there, back in checks:
            text = f"checking the wiring of joint {control.names[joint]}"
            moved = mover.follow(there, text)
            stand = mover.hold(CHECK_STAND_S, text)
            after, place = _felt(stand)
            mover.follow(back, text)
            _check_encoders(control.names, joint, way, moved, place - rest)
            _check_weight(control.names, joint, model, turn, weight, rest, place, after - before)
    finally:
        mover.recording.force_ticks(False)


def carried(rig: ArmRig, specimen: SpecimenProfile) -> float:
    """Return the mass beyond the sensor [kg]."""
    payload = specimen.body.mass.to("kg") if isinstance(specimen, Payload) else 0.0
    return rig.tool.mass.to("kg") + payload


def turned_weight(model: ArmModel, turn: Floats, mass: float, rest: Floats, place: Floats) -> Floats:
    """Return by how much the weight's force changes in axes of the sensor between two poses (3,) [N]."""
    axes = [model.placement(q, model.n - 1)[:3, :3] @ turn for q in (rest, place)]
    return np.asarray(mass * (axes[1] - axes[0]).T @ model.description.gravity)


def _stood(done: ArmDone) -> Floats:
    return np.asarray(done.view.position[-5:].mean(axis=0))


def _felt(done: ArmDone) -> tuple[Floats, Floats]:
    """Return mean force (3,) and position (n,) once it has calmed down."""
    calm = done.view.wrench_time_s >= done.start_s + CALMING_S
    return np.asarray(done.view.wrench[calm, :3].mean(axis=0)), _stood(done)


def _check_encoders(names: tuple[str, ...], joint: int, way: float, done: ArmDone, went: Floats) -> None:
    gone = np.ptp(done.view.position, axis=0)
    others = np.delete(np.arange(len(names)), joint)
    loudest = int(others[np.argmax(gone[others])]) if len(others) else joint
    if not abs(went[joint] - way) <= ARRIVED_SHARE * abs(way):
        if gone[loudest] > STAYED_SHARE * abs(way):
            raise _wrong(
                f"joint {names[joint]} was told to move by {way:.3g} rad and went {went[joint]:.3g} rad, joint "
                f"{names[loudest]} moved by {gone[loudest]:.3g} rad instead",
                "other_joint_moved",
                "Look at the servos' ids and at the order of [[servos]].",
            )
        raise _wrong(
            f"joint {names[joint]} was told to move by {way:.3g} rad and went {went[joint]:.3g} rad",
            "joint_blocked",
            "Look for a closed brake, an obstacle, a servo without torque; check the torque constant and gear ratio.",
        )
    if gone[loudest] > STAYED_SHARE * abs(way):
        raise _wrong(
            f"joint {names[joint]} was told to move by {way:.3g} rad and did, and joint {names[loudest]} moved by "
            f"{gone[loudest]:.3g} rad with it",
            "other_joint_moved",
            "Look at the servos' ids and at the coupling of the profile.",
        )


def _check_weight(
    names: tuple[str, ...],
    joint: int,
    model: ArmModel,
    turn: Floats,
    mass: float,
    rest: Floats,
    place: Floats,
    felt: Floats,
) -> None:
    expected = turned_weight(model, turn, mass, rest, place)
    size = float(np.linalg.norm(expected))
    if float(np.linalg.norm(felt - expected)) <= TURN_SHARE * size + TURN_N:
        return
    way = float(place[joint] - rest[joint])
    guesses = []
    for other in range(len(names)):
        for sign in (1.0, -1.0):
            where = rest.copy()
            where[other] += sign * way
            missing = float(np.linalg.norm(felt - turned_weight(model, turn, mass, rest, where)))
            guesses.append((missing, names[other], sign * way))
    missing, name, guess = min(guesses)
    if missing > TURN_SHARE * size + TURN_N:
        raise _wrong(
            f"joint {names[joint]} moved by {way:.3g} rad by its encoder; the weight felt by the wrist sensor should "
            f"have turned by {_shown(expected)} N and turned by {_shown(felt)} N, which no joint's motion by as much "
            "makes",
            "wrong_weight",
            "Look at the wrist sensor: its gauges (inverted, swapped, broken), its .cal file and its mounting; at what "
            "is mounted on the tool; then at gear_ratio of the joint.",
        )
    raise _wrong(
        f"joint {names[joint]} moved by {way:.3g} rad by its encoder; the weight felt by the wrist sensor should have "
        f"turned by {_shown(expected)} N and turned by {_shown(felt)} N. Nearest is joint {name} moving by "
        f"{guess:.3g} rad",
        "wrong_joint",
        "Look at the servos' ids, at direction and gear_ratio of the joint, at the wrist sensor's mounting and gauges, "
        "and at what is mounted on the tool.",
    )


def _shown(force: Floats) -> str:
    return f"({', '.join(f'{value:.2f}' for value in force)})"


def _wrong(what: str, reason: str, remedy: str) -> SafetyAbort:
    return SafetyAbort(what, reason=reason, where="wiring check", remedy=remedy)
