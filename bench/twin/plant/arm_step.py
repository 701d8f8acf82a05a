"""The arm's integrator: links by MuJoCo, springs by :mod:`bench.twin.plant.arm_matrices`, bristles exponentially.

A step never changes a state, it makes a new one: what was worked ahead and is not wanted is simply dropped. The scheme
is that of the single joint (:mod:`bench.twin.plant.joint_step`) with many springs at once. Links' inertial forces are
taken at both ends of what was, extrapolated to the middle of what comes; the mass matrix in the equations is that of a
pose at most :data:`FAR` away, and what it is wrong by is made good with the last acceleration.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.plant.arm_contact import Surface
from bench.twin.plant.arm_engine import ArmEngine
from bench.twin.plant.arm_matrices import Builder, Contact, Matrices
from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]

#: The equations' matrices are made anew when a joint is this far [rad, m] from where they were made. What is wrong with
#: them is made good: against a thirtieth of it, torques change by less than 1e-4 of what the joints are rated for.
FAR = 0.06
#: … or when the contact's stiffness is off by this share.
STIFFER = 0.15
#: Newton's iteration ends when it moves the speeds [rad/s] by less. Its last correction is applied to the rest to first
#: order: what is left is of the order of its square.
TOLERANCE = 1e-4
MOST_ITERATIONS = 40
#: A lining damps what it holds: added to the bristle's damping while a brake is on [N.m.s/rad].
BRAKE_DAMPING = 100.0
_SAMPLED_POSES = 6


@dataclass(slots=True)
class ArmState:
    """What the arm remembers at one moment; lists (n,) in the order of the joints, never changed once made.

    ``theta``, ``w``: axes, behind their ratios; ``q``, ``v``: joints; ``bristle``: torque of bristles; ``estimate``:
    axis speeds behind the servos' filters. ``alpha``, ``earlier``: the last mean accelerations of the axes. ``force``:
    links' inertial forces for the acceleration ``with_a``, ``force_before`` and ``with_before`` a step ago; ``accel``:
    what the joints accelerate now. ``kick``: the last change of friction. ``wrench``: of the tool on the sensor.
    """

    theta: list[float]
    w: list[float]
    q: list[float]
    v: list[float]
    bristle: list[float]
    estimate: list[float]
    alpha: list[float]
    earlier: list[float]
    kick: list[float]
    drag: list[float]
    torque: list[float]
    force: list[float]
    with_a: list[float]
    force_before: list[float]
    with_before: list[float]
    accel: list[float]
    deflection: list[float]
    push: list[float]
    wrench: list[float]
    matrices: Matrices
    surface: Surface | None


AxisConstants = tuple[float, ...]


class ArmStepper:
    """Steps of ``step_s`` of one arm.

    Raises
    ------
    MissingExtra
        MuJoCo is not installed.
    """

    def __init__(self, truth: ArmTruth, step_s: float) -> None:
        from scipy.linalg.lapack import dgesv

        self.truth, self.h, self.n = truth, step_s, len(truth.axes)
        self._solve: Any = dgesv
        centre = np.array(truth.tip, dtype=np.float64)
        centre[2] -= truth.tip_radius
        self.engine = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), centre)
        self.builder = Builder(truth, step_s, [self._mass(pose) for pose in self._poses()])
        self._plain = bool(np.all(truth.coupling == np.eye(self.n)))
        self._offset: list[float] = np.asarray(truth.offset, dtype=np.float64).tolist()
        self._stops = [(axis.stop_min, axis.stop_max) for axis in truth.axes]
        self._stop_k: list[float] = self.builder.stop_stiffness.tolist()
        self._stop_d: list[float] = self.builder.stop_damping.tolist()
        self._free = (False,) * self.n
        self._filter = [1.0 - exp(-step_s * 6.283185307179586 * axis.velocity_bandwidth_hz) for axis in truth.axes]
        self._bow = [step_s * step_s / 12.0 / axis.inertia for axis in truth.axes]
        self._system = np.zeros((self.n, self.n), order="F")
        self._diagonal = self._system.ravel(order="K")[:: self.n + 1]
        self._constants: list[AxisConstants] = []
        self.brake(True)

    def _poses(self) -> list[list[float]]:
        axes = self.truth.axes
        golden = [
            (0.5 + 0.6180339887498949 * (k + 1) * (i + 1)) % 1.0 for k in range(_SAMPLED_POSES) for i in range(self.n)
        ]
        places = [golden[k * self.n : (k + 1) * self.n] for k in range(_SAMPLED_POSES)]
        return [
            [a.stop_min + s * (a.stop_max - a.stop_min) for a, s in zip(axes, place, strict=True)] for place in places
        ]

    def _mass(self, pose: list[float]) -> Floats:
        self.engine.move(pose, [0.0] * self.n)
        return self.engine.mass_matrix()

    def brake(self, on: bool) -> None:
        """Close or open the brakes: they add to the axes' Coulomb friction, and damp."""
        h = self.h
        self._constants = [
            (
                a.coulomb + (a.brake_torque if on else 0.0), a.stribeck_excess, 1.0 / a.stribeck_velocity,
                a.bristle_stiffness * h, a.bristle_stiffness,
                (a.bristle_damping + (BRAKE_DAMPING if on else 0.0)) / (a.bristle_stiffness * h),
                a.bristle_damping + (BRAKE_DAMPING if on else 0.0), a.viscous, a.offset, h / 6.0,
            )
            for a in self.truth.axes
        ]  # fmt: skip

    # -- a state ------------------------------------------------------------------------------------------------------

    def at_rest(self, q: Sequence[float], surface: Surface | None) -> ArmState:
        """The arm standing at ``q``, its weight carried by the brakes through the springs."""
        n, truth = self.n, self.truth
        nil = [0.0] * n
        joints = [float(x) for x in q]
        self.engine.move(joints, nil)
        weight = np.array(self.engine.torque(nil))
        twisted = np.array(joints) + weight / self.builder.stiffness - truth.offset
        theta = np.linalg.solve(truth.coupling, twisted)
        bristle = -(truth.coupling.T @ weight) - [axis.offset for axis in truth.axes]
        matrices = self.builder.build(joints, self.engine.mass_matrix(), self._free, None)
        state = ArmState(
            theta=theta.tolist(), w=nil, q=joints, v=nil, bristle=bristle.tolist(), estimate=nil, alpha=nil,
            earlier=nil, kick=nil, drag=nil, torque=nil, force=nil, with_a=nil, force_before=nil, with_before=nil,
            accel=nil, deflection=nil, push=nil, wrench=nil, matrices=matrices, surface=surface,
        )  # fmt: skip
        self._look(state)
        state.force_before, state.with_before = state.force, state.with_a
        return state

    def renewed(self, before: ArmState) -> ArmState:
        """The same state for a truth that was changed: matrices and forces made again."""
        state = self.at_rest(before.q, before.surface)
        state.theta, state.w, state.v, state.bristle = before.theta, before.w, before.v, before.bristle
        state.estimate, state.alpha, state.earlier = before.estimate, before.alpha, before.earlier
        state.kick, state.drag, state.torque = before.kick, before.drag, before.torque
        state.accel = before.accel
        self._look(state)
        state.force_before, state.with_before = state.force, state.with_a
        return state

    def _look(self, s: ArmState) -> None:
        """Fill in what follows from positions and speeds: forces, contact, matrices, acceleration, wrench."""
        engine, q, v, m = self.engine, s.q, s.v, s.matrices
        engine.move(q, v)
        s.force = engine.torque(s.accel)
        s.with_a = s.accel
        push = damped = [0.0] * self.n
        touch: list[float] | None = None
        contact: Contact | None = None
        stops = self._free
        for x, (low, high) in zip(q, self._stops, strict=True):
            if x < low or x > high:
                push, damped, stops = self._stopped(q, v)
                break
        surface = s.surface
        if surface is not None:
            travel = surface.travel_mm(engine.centre_list())
            if not surface.idle(travel):
                s.surface = surface = surface.copy()
                force = surface.press(travel, self.h)
                if force > 0.0:
                    touch = [force * x for x in surface.normal]
                    direction = np.array(surface.normal) @ engine.jacobian()
                    push = [p + force * g for p, g in zip(push, direction.tolist(), strict=True)]
                    contact = Contact(direction, surface.stiffness())
        s.push = push
        if self._is_far(q, m, stops, contact):
            s.matrices = m = self.builder.build(q, engine.mass_matrix(), stops, contact)
        s.deflection = x0 = self._deflection(s.theta, q)
        if damped is not push:
            push = [p + d for p, d in zip(push, damped, strict=True)]
        more = m.acceleration.dot(np.array(x0 + s.w + v + push + s.force)).tolist()
        s.accel = [a + b for a, b in zip(s.accel, more, strict=True)]
        s.wrench = engine.wrench(s.accel, touch)

    def _deflection(self, theta: list[float], q: list[float]) -> list[float]:
        if self._plain:
            return [t + o - x for t, o, x in zip(theta, self._offset, q, strict=True)]
        found: list[float] = (self.truth.coupling @ np.array(theta) + self.truth.offset - np.array(q)).tolist()
        return found

    def _stopped(self, q: list[float], v: list[float]) -> tuple[list[float], list[float], tuple[bool, ...]]:
        """Torques of the stops' springs and dampers, and which are touched."""
        beyond = [
            x - low if x < low else x - high if x > high else 0.0 for x, (low, high) in zip(q, self._stops, strict=True)
        ]
        stops = tuple(x != 0.0 for x in beyond)
        push = [-k * x for k, x in zip(self._stop_k, beyond, strict=True)]
        return push, [-d * u if on else 0.0 for d, u, on in zip(self._stop_d, v, stops, strict=True)], stops

    def _is_far(self, q: list[float], m: Matrices, stops: tuple[bool, ...], contact: Contact | None) -> bool:
        for x, y in zip(q, m.pose, strict=True):
            if x - y > FAR or y - x > FAR:
                return True
        if stops != m.stops or (contact is None) != (m.contact is None):
            return True
        if contact is None or m.contact is None:
            return False
        return abs(contact.stiffness - m.contact.stiffness) > STIFFER * max(contact.stiffness, m.contact.stiffness)

    # -- a step -------------------------------------------------------------------------------------------------------

    def step(self, s: ArmState, torque: list[float], lead: list[float], ripple: list[float] | None = None) -> ArmState:
        """Return the state one step on.

        Parameters
        ----------
        torque : list (n,)
            Of the motors, true, at the axes, in the mean over the step [N.m].
        lead : list (n,)
            How much further than by their mean the axes get in the step [rad]: a torque that comes early gets further.
        ripple : list (n,), optional
            More torque, which is not the motors' own and not told as theirs.

        Raises
        ------
        TwinError
            The implicit equations did not converge: parameters beyond reason.
        """
        h, m, w, drag = self.h, s.matrices, s.w, s.drag
        hh = 0.5 * h
        guess = [x + hh * (a + a - b) for x, a, b in zip(w, s.alpha, s.earlier, strict=True)]
        if torque != s.torque:
            guess = [
                x + (u - before) / (d + f)
                for x, u, before, d, f in zip(guess, torque, s.torque, m.diagonal, drag, strict=True)
            ]
        middle = [1.5 * a - 0.5 * b for a, b in zip(s.force, s.force_before, strict=True)]
        mean = [1.5 * a - 0.5 * b for a, b in zip(s.with_a, s.with_before, strict=True)]
        turning = torque if ripple is None else [u + x for u, x in zip(torque, ripple, strict=True)]
        stack = np.array(s.deflection + w + s.v + s.push + middle + mean + turning + lead + s.kick + guess)
        base = m.first.dot(stack)
        n = self.n
        linear = base[:n]
        bristle, constants = s.bristle, self._constants
        speeds, residual, moved = guess, linear, None
        iteration = 0
        while True:
            force: list[float] = []
            drag = []
            changes: list[float] = []
            holds: list[float] = []
            for wm, w0, b, (g, excess, vs, sigma_h, sigma, s1_h, s1, viscous, offset, h6) in zip(
                speeds, w, bristle, constants, strict=True
            ):
                aw = wm if wm > 0.0 else -wm
                ratio = aw * vs
                if ratio < 6.0:
                    stribeck = excess * exp(-ratio * ratio)
                    g += stribeck
                else:
                    stribeck = 0.0
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
                    force.append(level + to * share + s1_h * change + skew * (w0 - wm) + viscous * wm + offset)
                    slope = viscous + hold * turn * 2.0 * (3.0 * h6) - skew + give * s1 * decay
                    if stribeck:
                        slope -= (1.0 - share) * 2.0 * stribeck * ratio * vs
                    drag.append(slope)
                    changes.append(change)
                    holds.append(hold * decay)
                else:
                    force.append(viscous * wm + offset)
                    drag.append(viscous)
                    changes.append(-b)
                    holds.append(0.0)
            np.copyto(self._system, m.system)
            self._diagonal += drag
            change_w = self._solve(self._system, residual + force, overwrite_a=1, overwrite_b=1)[2]
            moved = -change_w if moved is None else moved - change_w
            steps: list[float] = change_w.tolist()
            speeds = [a - b for a, b in zip(speeds, steps, strict=True)]
            if max(steps) < TOLERANCE and min(steps) > -TOLERANCE:
                break
            iteration += 1
            if iteration > 8:  # about a kink: do not jump across it for ever
                moved += 0.5 * change_w
                speeds = [a + 0.5 * b for a, b in zip(speeds, steps, strict=True)]
                if iteration > MOST_ITERATIONS:
                    if max(steps) < 1e3 * TOLERANCE and min(steps) > -1e3 * TOLERANCE:
                        break
                    raise TwinError(
                        f"the arm's equations of motion do not converge at q = {[round(x, 3) for x in s.q]} rad",
                        where="twin plant",
                        remedy="look for parameters beyond reason in the twin profile",
                    )
            residual = linear + m.system.dot(moved)
        rest = (base[n:] + m.second.dot(np.array(speeds))).tolist()
        theta, ws, q, v, bristles, estimate, alpha, kick = [], [], [], [], [], [], [], []
        inverse = 2.0 / h
        for (
            th, w0, wm, joint, v0, vm, sag, bow, more, b, db, hold, dw, cn, hermite, est, filtered
        ) in zip(
            s.theta, w, speeds, s.q, s.v, rest[:n], rest[n : 2 * n], rest[2 * n :], lead, bristle, changes, holds,
            steps, constants, self._bow, s.estimate, self._filter, strict=True,
        ):  # fmt: skip
            db -= hold * h * dw
            ahead = wm - w0
            shock = db + 2.0 * cn[7] * ahead
            more += bow + hermite * shock
            theta.append(th + h * wm + more)
            ws.append(wm + ahead)
            q.append(joint + h * vm + sag)
            v.append(vm + vm - v0)
            bristles.append(b + db + hold * more)
            estimate.append(est + (wm - est) * filtered)
            alpha.append(ahead * inverse)
            kick.append(shock)
        after = ArmState(
            theta, ws, q, v, bristles, estimate, alpha, s.alpha, kick, drag, torque, s.force, s.with_a, s.force,
            s.with_a, s.accel, s.deflection, s.push, s.wrench, m, s.surface,
        )  # fmt: skip
        self._look(after)
        return after
