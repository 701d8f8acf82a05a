"""Moves an arm in a running recording: hold, move, follow, press; and tells the archive what a controller met.

Every motion begins where the one before left the wanted pose and ends standing, and the loop stands idle for less than
a tick between two: as long as the brakes are open somebody holds the arm.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import SafetyAbort
from bench.procedures.arm_control import ArmOutput, FollowArm
from bench.procedures.arm_force import PressOnRail
from bench.procedures.arm_motion import ArmMotion, Standing
from bench.procedures.arm_plan import ArmControl
from bench.procedures.arm_tick import ArmCommand, ArmController, ArmLoopView, ArmTick

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording

Floats = NDArray[np.float64]

#: A loop may be this much late at the end of a motion [s].
LATE_S = 0.5
#: The arm is held for so long before it first moves: the brakes open meanwhile [s].
OPENING_S = 0.4
#: The arm may stand this far from the pose a run starts at [rad]: the way there was not checked.
NEAR_RAD = 0.1


@dataclass(frozen=True)
class ArmDone:
    """A motion that was gone through: the time of its zero and of its end [s], and the ticks."""

    start_s: float
    end_s: float
    view: ArmLoopView


class ArmMover:
    """The arm in a recording that has been started.

    Attributes
    ----------
    desired : (n,)
        Where the joints are wanted now: the next motion begins there, without a step.
    """

    def __init__(self, recording: ArmRecording, control: ArmControl) -> None:
        self.recording = recording
        self.control = control
        self.output = ArmOutput(control.knowledge, control.gains, np.array(control.torque_limit), recording.period_s)
        self.laws = control.knowledge.laws()
        self.desired: Floats = np.full(len(control.start), math.nan)
        self._told: set[str] = set()

    def begin(self) -> None:
        """Hold the arm where it stands while the brakes open, then go to the pose the run starts at.

        Raises
        ------
        SafetyAbort
            ``"not_at_start"``: it stands elsewhere, and the way from there was not checked.
        """
        hold: list[FollowArm] = []

        def holding(tick: ArmTick, command: ArmCommand) -> bool:
            if not hold:
                self.desired = np.array(tick.position)
                self._refuse_elsewhere()
                hold.append(FollowArm(Standing(self.desired, OPENING_S), self.output))
            return hold[0](tick, command)

        self._run(holding, OPENING_S + LATE_S, "opening the brakes")
        self.move(self.control.start, "moving to the start")

    def _refuse_elsewhere(self) -> None:
        away = np.abs(self.desired - np.array(self.control.start))
        joint = int(np.argmax(away))
        if not away[joint] <= NEAR_RAD:
            name, start = self.control.names[joint], self.control.start[joint]
            raise SafetyAbort(
                f"joint {name} stands at {math.degrees(self.desired[joint]):.1f} deg, the run starts at "
                f"{math.degrees(start):.1f} deg, and the way there was not checked",
                reason="not_at_start",
                where="arm",
                remedy="Bring the arm to the procedure's start pose by hand, or state where it stands as start. "
                "Where it stands there already, look for servos with each other's ids and for a servo's zero.",
            )

    def follow(self, motion: ArmMotion, text: str, *, compensated: bool = True) -> ArmDone:
        """Follow ``motion``, which begins where the arm is wanted; friction at the wanted speed is compensated."""
        controller = FollowArm(motion, self.output, self.laws if compensated else None)
        view = self._run(controller, motion.duration_s + LATE_S, text)
        self.desired = motion.at(motion.duration_s)[0].copy()
        self.tell()
        return ArmDone(controller.start_s, controller.start_s + motion.duration_s, view)

    def move(self, goal: ArrayLike, text: str) -> ArmDone:
        """Move to ``goal`` (n,) from rest to rest."""
        return self.follow(self.control.move(self.desired, np.asarray(goal, dtype=np.float64)), text)

    def hold(self, seconds: float, text: str, *, compensated: bool = True) -> ArmDone:
        """Hold the arm where it is wanted."""
        return self.follow(Standing(self.desired, seconds), text, compensated=compensated)

    def press(self, controller: PressOnRail, longest_s: float, text: str) -> ArmDone:
        """Let ``controller`` press until it is done, for ``longest_s`` at most.

        Raises
        ------
        SafetyAbort
            ``"no_force"``: it was not done by then.
        """
        begun = self.recording.time_s
        ended = [False]

        def pressing(tick: ArmTick, command: ArmCommand) -> bool:
            ended[0] = controller(tick, command)
            return ended[0]

        view = self._run(pressing, longest_s, text)
        self.desired = controller.pose
        self.tell()
        if not ended[0]:
            raise SafetyAbort(
                f"the force was not reached and held within {longest_s:.1f} s; it is {controller.force:.2g} N",
                reason="no_force",
                where="contact",
                remedy="Look at the phantom, the wrist sensor, and at contact_damping.",
            )
        return ArmDone(begun, self.recording.time_s, view)

    def park(self) -> None:
        """Go back to the pose the run started at, and close the brakes."""
        self.move(self.control.start, "moving back to the start")
        self.recording.park()

    def tell(self) -> None:
        """Archive, once each, that a torque was held at its limit or a feed-forward left its range."""
        names = self.control.names
        for joint, asked in self.output.saturated.items():
            limit = self.control.torque_limit[joint]
            self.warn(
                f"torque_saturated_{names[joint]}",
                f"the controller asked joint {names[joint]} for {asked:.3g} N.m and got {limit:.3g} N.m, the limit",
            )
        for code, text in self.laws.outside(names):
            self.warn(code, text)

    def warn(self, code: str, text: str) -> None:
        """Archive a warning, once."""
        if code not in self._told:
            self._told.add(code)
            self.recording.event("warning", code, text)

    def _run(self, controller: ArmController, duration_s: float, text: str) -> ArmLoopView:
        return self.recording.run(controller, duration_s, text=text)
