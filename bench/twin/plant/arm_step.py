"""The arm's integrator: links by MuJoCo, springs by :mod:`bench.twin.plant.arm_matrices`, bristles exponentially.

A step never changes a state, it makes a new one: what was worked ahead and is not wanted is simply dropped. The scheme
is that of the single joint (:mod:`bench.twin.plant.joint_step`) with many springs at once. Links' inertial forces are
taken at both ends of what was, extrapolated to the middle of what comes; the mass matrix in the equations is that of a
pose near by, and what it is wrong by is made good with the last acceleration. Everything but friction is linear and
done in a few products, since the twin runs in plain Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, sin

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.plant.arm_contact import Surface
from bench.twin.plant.arm_engine import ArmEngine
from bench.twin.plant.arm_matrices import FROM, STATE, Builder, Contact, Matrices
from bench.twin.plant.arm_state import LOOK_STEPS, ArmState
from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]

#: The equations' matrices are made anew when a joint is this far [rad, m] from where they were made. What is wrong with
#: them is made good: against a thirtieth of it, torques change by less than 1e-4 of what the joints are rated for.
FAR = 0.06
#: … or when the contact's stiffness is off by this share.
STIFFER = 0.15
#: A joint this near to a stop [rad] is looked at every step, others every few.
NEAR_STOP = 0.15
#: Newton's iteration ends when it moves a speed [rad/s] by less. Its last correction is applied to the rest to first
#: order: what is left is of the order of its square, 1e-4 of what the joints are rated for.
TOLERANCE = 1e-3
#: Axes are solved one by one; what they make each other feel within a step is left out when it is less than this [N.m].
COUPLING = 1e-3
MOST_ROUNDS = 4
MOST_ITERATIONS = 40
#: A lining damps what it holds: added to the bristle's damping while a brake is on [N.m.s/rad].
BRAKE_DAMPING = 100.0
_SAMPLED_POSES = 6

AxisConstants = tuple[float, ...]


class ArmStepper:
    """Steps of ``step_s`` of one arm.

    Raises
    ------
    MissingExtra
        MuJoCo is not installed.
    """

    def __init__(self, truth: ArmTruth, step_s: float) -> None:
        self.truth, self.h, self.n = truth, step_s, len(truth.axes)
        n = self.n
        centre = np.array(truth.tip, dtype=np.float64)
        centre[2] -= truth.tip_radius
        self.engine = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), centre)
        self.builder = Builder(truth, step_s, [self._mass(pose) for pose in self._poses()])
        self._stops = [(axis.stop_min, axis.stop_max) for axis in truth.axes]
        self._stop_k: list[float] = self.builder.stop_stiffness.tolist()
        self._stop_d: list[float] = self.builder.stop_damping.tolist()
        self._free = (False,) * n
        self._nil = [0.0] * n
        self._q, self._v, self._push = slice(n, 2 * n), slice(5 * n, 6 * n), slice(9 * n, 10 * n)
        self._force, self._with_a = slice(10 * n, 11 * n), slice(11 * n, 12 * n)
        self._accel, self._moving = slice(14 * n, 15 * n), slice(3 * n, 11 * n)
        self._beside, self._given = len(STATE) * n, slice(len(STATE) * n, len(FROM) * n)
        self._ripple = [(a.ripple, a.ripple_phase) for a in truth.axes]
        self._periods = [a.ripple_per_revolution * a.shaft_per_axis for a in truth.axes]
        self._ripples = any(size != 0.0 for size, _ in self._ripple)
        self._constants: list[AxisConstants] = []
        self.brake(True)

    def _poses(self) -> list[list[float]]:
        """Some places in the joints' ranges, spread by the golden ratio."""
        axes = self.truth.axes
        return [
            [
                a.stop_min + (0.5 + 0.6180339887498949 * k * i) % 1.0 * (a.stop_max - a.stop_min)
                for i, a in enumerate(axes, 1)
            ]
            for k in range(1, _SAMPLED_POSES + 1)
        ]

    def _mass(self, pose: list[float]) -> Floats:
        self.engine.move(np.array(pose), np.zeros(self.n))
        return self.engine.mass_matrix()

    def brake(self, on: bool) -> None:
        """Close or open the brakes: they add to the axes' Coulomb friction, and damp."""
        h = self.h
        more = BRAKE_DAMPING if on else 0.0
        self._constants = [
            (
                a.coulomb + (a.brake_torque if on else 0.0), a.stribeck_excess, 1.0 / a.stribeck_velocity,
                a.bristle_stiffness * h, a.bristle_stiffness, (a.bristle_damping + more) / (a.bristle_stiffness * h),
                a.bristle_damping + more, a.viscous, a.offset, h / 6.0,
            )
            for a in self.truth.axes
        ]  # fmt: skip

    # -- a state ------------------------------------------------------------------------------------------------------

    def at_rest(self, q: Sequence[float], surface: Surface | None) -> ArmState:
        """The arm standing at ``q``, its weight carried by the brakes through the springs."""
        truth = self.truth
        joints, nil = np.array(q, dtype=np.float64), np.zeros(self.n)
        self.engine.move(joints, nil)
        weight = np.empty(self.n)
        self.engine.torque(nil, weight)
        twist = weight / self.builder.stiffness
        bristle = -(truth.coupling.T @ weight) - [axis.offset for axis in truth.axes]
        matrices = self.builder.build(joints.tolist(), self.engine.mass_matrix(), self._free, None)
        rest, values = self._nil, np.zeros(self.n * len(FROM))
        state = ArmState(self.n, values, bristle.tolist(), rest, rest, rest, matrices, surface, 0, True, [])
        state.theta = np.linalg.solve(truth.coupling, joints + twist - truth.offset)
        state.q, state.x = joints, twist
        self._look(state)
        state.now_is_before()
        return state

    def renewed(self, before: ArmState) -> ArmState:
        """The same state for a truth that was changed: matrices and forces made again."""
        self.engine.move(np.array(before.q), np.array(before.v))
        state = before.copy()
        state.matrices = self.builder.build(before.q, self.engine.mass_matrix(), self._free, None)
        state.age, state.turned = 0, []
        state.values[self._with_a] = state.values[self._accel]
        self._look(state)
        state.now_is_before()
        return state

    def _look(self, s: ArmState) -> None:
        """Fill in what follows from positions and speeds: forces, contact, matrices, acceleration, wrench.

        The accelerations that are there are those of a step ago, and so about right.
        """
        engine, x, m = self.engine, s.values, s.matrices
        engine.move(x[self._q], x[self._v])
        accel = x[self._accel]
        engine.torque(accel, x[self._force])
        damped: list[float] | None = None
        touch: list[float] | None = None
        surface = s.surface
        if s.age == 0 or s.near_stop or surface is not None:
            q: list[float] = x[self._q].tolist()
            push, stops = self._nil, self._free
            contact: Contact | None = None
            if s.near_stop or s.age == 0:
                beyond = [
                    at - low if at < low else at - high if at > high else 0.0
                    for at, (low, high) in zip(q, self._stops, strict=True)
                ]
                if any(beyond):
                    stops = tuple(far != 0.0 for far in beyond)
                    push = [-k * far for k, far in zip(self._stop_k, beyond, strict=True)]
                    damped = [-d * u if on else 0.0 for d, u, on in zip(self._stop_d, s.v, stops, strict=True)]
            if surface is not None:
                travel = surface.travel_mm(engine.centre_list())
                if not surface.idle(travel):
                    s.surface = surface = surface.copy()
                    force = surface.press(travel, self.h)
                    if force > 0.0:
                        touch = [force * u for u in surface.normal]
                        direction = np.array(surface.normal) @ engine.jacobian()
                        push = [p + force * g for p, g in zip(push, direction.tolist(), strict=True)]
                        contact = Contact(direction, surface.stiffness())
                    s.contact_force = force
            x[self._push] = push
            if s.age == 0:
                s.near_stop = any(
                    at < low + NEAR_STOP or at > high - NEAR_STOP
                    for at, (low, high) in zip(q, self._stops, strict=True)
                )
            if self._differs(m, stops, contact) or (s.age == 0 and self._is_far(q, m.pose)):
                s.matrices = m = self.builder.build(q, engine.mass_matrix(), stops, contact)
        more = m.acceleration.dot(x[self._moving])
        if damped is not None:
            more += m.acceleration[:, 6 * self.n : 7 * self.n].dot(damped)
        accel += more
        s.felt = engine.wrench(accel, touch)

    @staticmethod
    def _is_far(q: list[float], pose: list[float]) -> bool:
        return any(x - y > FAR or y - x > FAR for x, y in zip(q, pose, strict=True))

    @staticmethod
    def _differs(m: Matrices, stops: tuple[bool, ...], contact: Contact | None) -> bool:
        if stops != m.stops or (contact is None) != (m.contact is None):
            return True
        if contact is None or m.contact is None:
            return False
        return abs(contact.stiffness - m.contact.stiffness) > STIFFER * max(contact.stiffness, m.contact.stiffness)

    # -- a step -------------------------------------------------------------------------------------------------------

    def _rippled(self, s: ArmState, torque: list[float]) -> list[float]:
        """What turns the axes: the motors' torque with what is added by where the shafts stand."""
        half = 0.5 * self.h
        turned = s.turned or [k * (at + half * w) for k, at, w in zip(self._periods, s.theta, s.w, strict=True)]
        return [u + size * sin(at + phase) for u, at, (size, phase) in zip(torque, turned, self._ripple, strict=True)]

    def step(self, s: ArmState, torque: list[float], lead: list[float]) -> ArmState:
        """Return the state one step on.

        Parameters
        ----------
        torque : list (n,)
            Of the motors, true, at the axes, in the mean over the step [N.m].
        lead : list (n,)
            How much further than by their mean the axes get in the step [rad]: a torque that comes early gets further.

        Raises
        ------
        TwinError
            The implicit equations did not converge: parameters beyond reason.
        """
        n, m, x = self.n, s.matrices, s.values
        jump = self._nil
        if torque is not s.torque and torque != s.torque:
            jump = [
                (u - before) / (d + f) for u, before, d, f in zip(torque, s.torque, m.diagonal, s.drag, strict=True)
            ]
        x[self._given] = (self._rippled(s, torque) if self._ripples else torque) + lead + jump
        flow = m.flow.dot(x)
        head: list[float] = flow[: 2 * n].tolist()
        linear, guess = head[:n], head[n:]
        speeds, drag, changes, holds, largest = self._rub(s, linear, guess, guess)
        rounds = 0
        while largest * m.coupled > COUPLING:  # now and then: what one axis makes another feel within the step
            rounds += 1
            if rounds > MOST_ROUNDS:
                if largest < TOLERANCE:  # about a kink: it goes to and fro
                    break
                if rounds > MOST_ITERATIONS:
                    raise self._diverged(s)
            linear = (flow[:n] + m.between.dot(np.array(speeds) - guess)).tolist()
            speeds, drag, changes, holds, largest = self._rub(s, linear, guess, speeds)
        gone = m.added.dot(np.array(speeds + changes))
        gone += flow[2 * n :]
        rest: list[float] = gone[self._beside :].tolist()
        bristle = [b + db + hold * more for b, db, hold, more in zip(s.bristle, changes, holds, rest[:n], strict=True)]
        after = ArmState(
            n, gone, bristle, rest[n : 2 * n], drag, torque, m, s.surface, (s.age or LOOK_STEPS) - 1, s.near_stop,
            rest[2 * n :],
        )  # fmt: skip
        self._look(after)
        return after

    def _rub(
        self, s: ArmState, linear: list[float], guess: list[float], start: list[float]
    ) -> tuple[list[float], list[float], list[float], list[float], float]:
        """Solve every axis by itself for its mean speed, its friction included; see :mod:`bench.twin.plant.joint_step`.

        The equation is ``linear + diagonal (wm - guess) + F(wm) = 0``, solved by Newton from ``start`` on. The last
        correction goes to bristle and torque to first order, instead of another evaluation.

        Returns
        -------
        tuple
            Mean speeds, slopes of friction, changes of the bristles, how much of a bristle's torque a way still makes,
            and the largest way [rad/s] from ``start``.
        """
        h = self.h
        largest = 0.0
        speeds: list[float] = []
        drag: list[float] = []
        changes: list[float] = []
        holds: list[float] = []
        for r, d, w1, wm, w0, b, (g0, excess, vs, sigma_h, sigma, s1_h, s1, viscous, offset, h6) in zip(
            linear, s.matrices.diagonal, guess, start, s.speeds, s.bristle, self._constants, strict=True
        ):
            begun, iteration = wm, 0
            while True:
                aw = wm if wm > 0.0 else -wm
                ratio = aw * vs
                if ratio < 6.0:
                    stribeck = excess * exp(-ratio * ratio)
                    g = g0 + stribeck
                else:
                    stribeck, g = 0.0, g0
                if g > 0.0:
                    x = sigma_h * aw / g
                    level = g if wm >= 0.0 else -g
                    to = b - level
                    give = -to / level
                    if x < 1e-3:
                        share = 1.0 - x * (0.5 - x * 0.16666666666666666)
                        decay = 1.0 - x * share
                        turn = 0.5 - x * 0.3333333333333333
                    else:
                        decay = exp(-x)
                        share = (1.0 - decay) / x
                        turn = (share - decay) / x
                    change = to * (decay - 1.0)
                    hold = give * sigma
                    skew = hold * share * h6
                    force = level + to * share + s1_h * change + skew * (w0 - wm) + viscous * wm + offset
                    slope = viscous + hold * turn * h - skew + give * s1 * decay
                    if stribeck:
                        slope -= (1.0 - share) * 2.0 * stribeck * ratio * vs
                    hold *= decay
                else:
                    force, slope, change, hold = viscous * wm + offset, viscous, -b, 0.0
                step = (r + d * (wm - w1) + force) / (d + slope)
                wm -= step
                if -TOLERANCE < step < TOLERANCE:
                    break
                iteration += 1
                if iteration > 8:  # about a kink: do not jump across it for ever
                    wm += 0.5 * step
                    if iteration > MOST_ITERATIONS:
                        if -1e3 * TOLERANCE < step < 1e3 * TOLERANCE:
                            break
                        raise self._diverged(s)
            way = wm - begun
            if way > largest:
                largest = way
            elif -way > largest:
                largest = -way
            speeds.append(wm)
            drag.append(slope)
            changes.append(change - hold * h * step)
            holds.append(hold)
        return speeds, drag, changes, holds, largest

    @staticmethod
    def _diverged(s: ArmState) -> TwinError:
        return TwinError(
            f"the arm's equations of motion do not converge at q = {[round(at, 3) for at in s.q]} rad",
            where="twin plant",
            remedy="look for parameters beyond reason in the twin profile",
        )
