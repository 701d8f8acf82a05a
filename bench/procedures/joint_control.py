"""Control laws of a joint, called once a tick: follow a motion, make a torque, render an impedance.

Everything is referred to the joint and acts on the joint-referred MOTOR angle: the motor's sensor and its torque sit on
the same side of the gear. A command has three parts, archived apart::

    wanted       what the controller wants at the OUTPUT: feedback + gravity + inertia
    feedforward  friction compensation on top of it
    torque       (wanted + feedforward) / torque_scale, within the plan's limit

With exact compensation the torque transducer reads ``wanted`` less what accelerates the rotor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.procedures.joint_loop import Command, Tick
from bench.procedures.joint_model import FrictionLaw, JointModel
from bench.procedures.joint_motion import Motion, TorqueWave

#: Age of a reply when the torque made of it acts, in ticks: one to the next command, half of one while it is held.
AGE_TICKS = 1.5


@dataclass(frozen=True)
class Gains:
    """PD gains on the joint-referred motor angle [N.m/rad], [N.m.s/rad]."""

    position: float
    velocity: float


@dataclass(frozen=True)
class ImpedanceLaw:
    """``tau = M / M_d (B_d de + K_d e)``: the joint of inertia M then moves as M_d, B_d, K_d (gravity apart).

    Parameters
    ----------
    joint_inertia : float
        M, motor and link [kg.m2].
    inertia, damping, stiffness : float
        M_d [kg.m2], B_d [N.m.s/rad], K_d [N.m/rad].
    """

    joint_inertia: float
    inertia: float
    damping: float
    stiffness: float

    def torque(self, error: float, error_rate: float) -> float:
        """Torque [N.m] for an error [rad] and its rate [rad/s], both wanted minus measured."""
        return self.joint_inertia / self.inertia * (self.damping * error_rate + self.stiffness * error)


class Output:
    """Fills a command: adds up, divides by the torque scale, holds the sum within a limit.

    Attributes
    ----------
    saturated : float or None
        The largest magnitude [N.m] that was asked for beyond the limit.
    """

    def __init__(self, model: JointModel, limit_nm: float) -> None:
        self.model = model
        self.limit_nm = limit_nm
        self.saturated: float | None = None

    def fill(
        self,
        command: Command,
        wanted: float,
        feedback: float,
        feedforward: float,
        angle: float,
        velocity: float,
    ) -> None:
        torque = (wanted + feedforward) / self.model.torque_scale
        if abs(torque) > self.limit_nm:  # what is no number goes on to the gate, which refuses it
            self.saturated = max(abs(torque), self.saturated or 0.0)
            torque = math.copysign(self.limit_nm, torque)
        command.torque_nm = torque
        command.wanted_nm = wanted
        command.feedback_nm = feedback
        command.feedforward_nm = feedforward
        command.desired_angle_rad = angle
        command.desired_velocity_rad_s = velocity


class Follow:
    """Follow a motion by PD and the model; with ``friction`` its torque at the wanted velocity is added.

    Attributes
    ----------
    start_s : float
        Time of the first tick [s]: the motion's zero.
    """

    def __init__(self, motion: Motion, gains: Gains, output: Output, friction: FrictionLaw | None = None) -> None:
        self.start_s = math.nan
        self.motion = motion
        self._end = motion.duration_s
        self._gains = gains
        self._output = output
        self._friction = friction

    def __call__(self, tick: Tick, command: Command) -> bool:
        if not self.start_s <= tick.time_s:
            self.start_s = tick.time_s
        t = tick.time_s - self.start_s
        angle, velocity, acceleration = self.motion.at(t)
        gains, model = self._gains, self._output.model
        feedback = gains.position * (angle - tick.motor_angle_rad)
        feedback += gains.velocity * (velocity - tick.motor_velocity_rad_s)
        load = model.gravity(angle)
        wanted = feedback + load + model.inertia * acceleration
        friction = 0.0
        if self._friction is not None:
            carried = load + model.link_inertia * acceleration
            friction = self._friction.steady(velocity, carried, tick.temperature_degc)
        self._output.fill(command, wanted, feedback, friction, angle, velocity)
        return t >= self._end


class Render:
    """Render an impedance about a goal; with ``friction`` what the moving joint loses is added."""

    def __init__(
        self, goal_rad: float, law: ImpedanceLaw, output: Output, period_s: float, friction: FrictionLaw | None = None
    ) -> None:
        self._goal = goal_rad
        self._law = law
        self._output = output
        self._lead_s = AGE_TICKS * period_s
        self._friction = friction
        if friction is not None:
            friction.reset()

    def __call__(self, tick: Tick, command: Command) -> None:
        angle, velocity = tick.motor_angle_rad, tick.motor_velocity_rad_s
        model = self._output.model
        # The angle is as old as the velocity is: without the lead the damper would lose K_d times that age.
        feedback = self._law.torque(self._goal - angle - velocity * self._lead_s, -velocity)
        load = model.gravity(angle)
        friction = 0.0
        if self._friction is not None:
            # What the gear carries is the part of the torque that moves the link, and gravity.
            carried = load + feedback * model.link_inertia / model.inertia
            friction = self._friction.observed(angle, velocity, carried, tick.temperature_degc, self._lead_s)
        self._output.fill(command, feedback + load, feedback, friction, self._goal, 0.0)


class Push:
    """Make a torque wave, the position left free; ``held_nm`` fades away over ``fade_s`` before.

    Stops by itself when the motor leaves ``reach_rad`` about where it began (``left`` is true then).
    """

    def __init__(
        self, wave: TorqueWave, output: Output, *, reach_rad: float, held_nm: float = 0.0, fade_s: float = 0.0
    ) -> None:
        self.start_s = math.nan
        self.left = False
        self.peak_rad = 0.0
        self._wave = wave
        self._end = fade_s + wave.duration_s
        self._output = output
        self._reach = reach_rad
        self._held = held_nm
        self._fade = fade_s
        self._origin = math.nan

    def __call__(self, tick: Tick, command: Command) -> bool:
        if not self.start_s <= tick.time_s:
            self.start_s, self._origin = tick.time_s, tick.motor_angle_rad
        t = tick.time_s - self.start_s
        away = tick.motor_angle_rad - self._origin
        self.peak_rad = max(self.peak_rad, abs(away))
        self.left = self.left or abs(away) > self._reach
        torque = self._held * (1.0 - t / self._fade) if t < self._fade else self._wave.at(t - self._fade)
        if self.left:
            torque = 0.0
        # Gravity is held where it was at the start: a load that gives way must not be followed.
        wanted = torque + self._output.model.gravity(self._origin)
        self._output.fill(command, wanted, torque, 0.0, tick.motor_angle_rad, 0.0)
        return self.left or t >= self._end
