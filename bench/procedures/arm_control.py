"""Control laws of an arm, called once a tick: computed torque along a motion.

A command has three parts, archived apart (joint torques, N.m)::

    feedforward  M a_d + C v_d + G at the wanted state, friction at the wanted speed, J^T F where a force is wanted
    feedback     M (omega^2 (q_d - q) + 2 zeta omega (v_d - v)): a spring and a damper in acceleration space
    torque       (feedback + feedforward) / torque_scale, each joint within its limit

so that every joint's error moves as a mass on a spring of ``omega`` and ``zeta``, whatever the arm's inertia there.
Two things bound that for the single joint. Friction would hold a light one far from where it is wanted: its spring is
never softer than its friction over ``windup``. And its motor turns the rotor first, the link follows by the elastic
gear: the damper is never more than the rotor alone bears with a tick's delay, ``velocity gain x period < rotor``.
Where a limit takes torque away, the archived feedback is what is left of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.procedures.arm_model import ArmFrictionLaws, ArmKnowledge
from bench.procedures.arm_motion import ArmMotion
from bench.procedures.arm_tick import ArmCommand, ArmTick

Floats = NDArray[np.float64]

#: Velocity gain times the loop's period stays below this share of the rotor's inertia.
ROTOR_SHARE = 0.6


@dataclass(frozen=True)
class ArmGains:
    """Of the position controller: natural frequency [rad/s], damping ratio, and how far friction may hold [rad]."""

    frequency: float
    ratio: float
    windup: float = math.inf

    @property
    def position(self) -> float:
        """Acceleration per error [1/s2]."""
        return self.frequency * self.frequency

    @property
    def velocity(self) -> float:
        """Acceleration per error of speed [1/s]."""
        return 2.0 * self.ratio * self.frequency


class ArmOutput:
    """Fills a command: model and feedback of a wanted state, divided by the torque scale, within the limits.

    Attributes
    ----------
    saturated : dict of int to float
        Joint, from 0 → the largest torque [N.m] that was asked for beyond its limit.
    """

    def __init__(self, knowledge: ArmKnowledge, gains: ArmGains, limit_nm: Floats, period_s: float) -> None:
        self.knowledge = knowledge
        self.gains = gains
        self.limit_nm = np.asarray(limit_nm, dtype=np.float64)
        self.saturated: dict[int, float] = {}
        self._model = knowledge.model
        self._bounds = list(zip(self.limit_nm.tolist(), knowledge.torque_scale.tolist(), strict=True))
        self._none = [0.0] * knowledge.model.n
        rotors = np.diag(knowledge.model.motor_inertia)
        most = ROTOR_SHARE / period_s * rotors / gains.velocity
        rubs = [one.coulomb + one.stribeck_excess for one in knowledge.friction]
        self._least = [rub / (gains.windup * gains.position) for rub in rubs]
        self._most = [float(inertia) if inertia > 0.0 else math.inf for inertia in most]

    def fill(
        self,
        tick: ArmTick,
        command: ArmCommand,
        q: Floats,
        v: Floats,
        a: Floats,
        friction: ArmFrictionLaws | None = None,
        beside: Floats | None = None,
    ) -> None:
        """Command what follows a wanted state (n,); ``beside`` (n,) is fed forward as well [N.m]."""
        gains, model = self.gains, self._model
        kp, kv = gains.position, gains.velocity
        places, speeds = q.tolist(), v.tolist()
        mass = model.mass_matrix(q)
        pull = []
        for i, inertia in enumerate(mass.diagonal().tolist()):
            # of the frequency: the stiffness goes with its square
            share = min(max(1.0, math.sqrt(self._least[i] / inertia)), self._most[i] / inertia)
            pull.append(share * (share * kp * (places[i] - tick.position[i]) + kv * (speeds[i] - tick.velocity[i])))
        feedback: list[float] = (mass @ pull).tolist()
        fed: list[float] = model.inverse_dynamics(q, v, a).tolist()
        rubs = self._none if friction is None else friction.steady(speeds)
        more = self._none if beside is None else beside.tolist()
        torque = command.torque
        for i, (limit, scale) in enumerate(self._bounds):
            fed[i] += rubs[i] + more[i]
            asked = (feedback[i] + fed[i]) / scale
            if abs(asked) > limit:  # what is no number goes on to the gate, which refuses it
                self.saturated[i] = max(abs(asked), self.saturated.get(i, 0.0))
                asked = math.copysign(limit, asked)
                feedback[i] = asked * scale - fed[i]
            torque[i] = asked
        command.feedback[:] = feedback
        command.feedforward[:] = fed
        command.friction[:] = rubs
        command.desired_position[:] = places
        command.desired_velocity[:] = speeds


class FollowArm:
    """Follow a motion; with ``friction`` its torques at the wanted speeds are added.

    Attributes
    ----------
    start_s : float
        Time of the first tick [s]: the motion's zero.
    """

    def __init__(self, motion: ArmMotion, output: ArmOutput, friction: ArmFrictionLaws | None = None) -> None:
        self.start_s = math.nan
        self.motion = motion
        self._end = motion.duration_s
        self._output = output
        self._friction = friction

    def __call__(self, tick: ArmTick, command: ArmCommand) -> bool:
        if not self.start_s <= tick.time_s:
            self.start_s = tick.time_s
        t = tick.time_s - self.start_s
        q, v, a = self.motion.at(t)
        self._output.fill(tick, command, q, v, a, self._friction)
        return t >= self._end
