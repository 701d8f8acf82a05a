"""Moves a joint in a running recording: hold, move, follow, push; and tells the archive what a controller met."""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.errors import LimitError, SafetyAbort
from bench.procedures.joint_control import Follow, Gains, ImpedanceLaw, Output, Push, Render
from bench.procedures.joint_loop import Command, JointRecording, LoopView, Tick
from bench.procedures.joint_model import FrictionLaw
from bench.procedures.joint_motion import Motion, TorqueWave, rest_to_rest
from bench.procedures.joint_plan import Control

#: A drive this close below its limit is not started with [K]: the run would end it.
TEMPERATURE_MARGIN_K = 5.0
#: Highest acceleration of a gentle move [rad/s2]: 0.1 rad takes half a second.
GENTLE_ACCELERATION = 2.0
GENTLE_GAINS = 0.25
#: A loop may be this much late at the end of a motion [s].
LATE_S = 0.5


@dataclass(frozen=True)
class Done:
    """A motion that was gone through: the time of its zero and of its end [s], and the ticks."""

    start_s: float
    end_s: float
    view: LoopView


class Mover:
    """The joint in a recording that has been started.

    Attributes
    ----------
    desired_rad : float
        Where the joint is wanted now: the next motion begins there, without a step.
    friction : FrictionLaw or None
        Of the feed-forward, if there is one.
    """

    def __init__(self, recording: JointRecording, control: Control) -> None:
        self.recording = recording
        self.control = control
        self.output = Output(control.model, control.torque_limit_nm)
        numbers = control.model.friction
        self.friction = None if numbers is None else FrictionLaw(numbers)
        self.desired_rad = math.nan
        self.temperature_degc = math.nan
        self.held_nm = 0.0
        self._told: set[str] = set()

    def begin(self) -> None:
        """Look where the joint stands and how warm the drive is, without a torque."""
        seen: list[tuple[float, float]] = []

        def look(tick: Tick, command: Command) -> bool:
            seen.append((tick.motor_angle_rad, tick.temperature_degc))
            self.output.fill(command, 0.0, 0.0, 0.0, tick.motor_angle_rad, 0.0)
            return True

        self.recording.run(look, 2 * self.recording.period_s, text="looking at the joint")
        self.desired_rad, self.temperature_degc = seen[-1]
        allowed = self.control.temperature_limit_degc - TEMPERATURE_MARGIN_K
        if not self.temperature_degc <= allowed:
            raise LimitError(
                f"the drive is at {self.temperature_degc:.1f} degC, a run begins at {allowed:.1f} degC at most",
                reason="temperature_limit",
                where="drive",
                remedy="Let it cool.",
            )

    def follow(self, motion: Motion, text: str, *, compensated: bool = False) -> Done:
        """Follow ``motion``, which begins where the joint is wanted; ``compensated`` adds the friction law."""
        return self._follow(
            Follow(motion, self.control.gains, self.output, self.friction if compensated else None), text
        )

    def _follow(self, controller: Follow, text: str) -> Done:
        motion = controller.motion

        def keeping(tick: Tick, command: Command) -> bool:
            ended = controller(tick, command)
            self.held_nm = command.feedback_nm
            return ended

        view = self.recording.run(keeping, motion.duration_s + LATE_S, text=text)
        self.desired_rad = motion.at(motion.duration_s)[0]
        self.tell()
        return Done(controller.start_s, controller.start_s + motion.duration_s, view)

    def move(self, goal_rad: float, text: str) -> Done:
        """Move to ``goal_rad`` from rest to rest."""
        control = self.control
        motion = rest_to_rest(self.desired_rad, goal_rad, speed=control.travel_speed, acceleration=control.acceleration)
        return self.follow(motion, text)

    def move_gently(self, goal_rad: float, text: str, torque_nm: float) -> Done:
        """Move with low gains, at a low acceleration and with at most ``torque_nm``: nothing is known to be right yet.

        A gear ratio that is twice the profile's makes four times of the gains.
        """
        control = self.control
        gains = Gains(GENTLE_GAINS * control.gains.position, GENTLE_GAINS * control.gains.velocity)
        acceleration = min(control.acceleration, GENTLE_ACCELERATION)
        motion = rest_to_rest(self.desired_rad, goal_rad, speed=control.travel_speed, acceleration=acceleration)
        return self._follow(Follow(motion, gains, Output(control.model, torque_nm)), text)

    def hold(self, seconds: float, text: str) -> Done:
        """Hold the joint where it is wanted."""
        return self.follow(_Still(self.desired_rad, seconds), text)

    def push(self, wave: TorqueWave, text: str, *, reach_rad: float, fade_s: float = 0.0) -> tuple[Done, Push]:
        """Make a torque wave with the position left free; what was held before fades away over ``fade_s``."""
        controller = Push(wave, self.output, reach_rad=reach_rad, held_nm=self.held_nm, fade_s=fade_s)
        last: list[float] = []

        def keeping(tick: Tick, command: Command) -> bool:
            last[:] = [tick.motor_angle_rad]
            return controller(tick, command)

        duration = fade_s + wave.duration_s
        view = self.recording.run(keeping, duration + LATE_S, text=text)
        self.desired_rad = last[0]
        self.held_nm = 0.0
        self.tell()
        end_s = self.recording.time_s if controller.left else controller.start_s + duration
        return Done(controller.start_s + fade_s, end_s, view), controller

    def render(self, goal_rad: float, law: ImpedanceLaw, seconds: float, text: str) -> Done:
        """Render an impedance about ``goal_rad``, from now on; friction is compensated where it is known."""
        controller = Render(goal_rad, law, self.output, self.recording.period_s, self.friction)
        times: list[float] = []
        last: list[float] = [0.0]

        def keeping(tick: Tick, command: Command) -> bool:
            if not times:
                times.append(tick.time_s)
            last[0] = tick.motor_angle_rad
            controller(tick, command)
            return tick.time_s - times[0] >= seconds

        view = self.recording.run(keeping, seconds + LATE_S, text=text)
        # It need not have arrived: what comes next begins where it stands.
        self.desired_rad = last[0]
        self.tell()
        return Done(times[0], times[0] + seconds, view)

    def park(self) -> None:
        """Go back to where the load rests, so that the next tare finds it unloaded."""
        self.move(self.control.rest_rad, "moving back to rest")

    def tell(self) -> None:
        """Archive, once each, that a torque was held at its limit or a feed-forward left its range."""
        if self.output.saturated is not None:
            limit = self.output.limit_nm
            self._once(
                "torque_saturated",
                f"the controller asked for {self.output.saturated:.3g} N.m and got {limit:g} N.m, the limit",
            )
        if self.friction is not None:
            for quantity, text in self.friction.outside.items():
                self._once(f"feedforward_{quantity}", text)

    def _once(self, code: str, text: str) -> None:
        if code not in self._told:
            self._told.add(code)
            self.recording.event("warning", code, text)


@dataclass(frozen=True)
class _Still:
    angle_rad: float
    duration_s: float

    def at(self, t: float) -> tuple[float, float, float]:
        return self.angle_rad, 0.0, 0.0


def moved_away(what: str, where: str, remedy: str) -> SafetyAbort:
    """Return the error for a motor that left where it should have stayed under a torque."""
    return SafetyAbort(what, reason="output_not_locked", where=where, remedy=remedy)
