"""One step of the arm as linear algebra, but for friction: made anew only when the arm has moved.

A step of ``h`` takes speeds as linear in time (their means over it are the unknowns) and forces by their means. Springs
are treated to fourth order: with the change of acceleration over the step in mean deflection and position (Hermite's
term of the trapezoidal rule) the rule is the diagonal Padé approximant, right to (omega h)^4/720 and without damping of
its own. Links are eliminated; what is left is ``G w + F(w) = B`` for the motors' mean speeds.

Symbols are those of ``docs/twin.md``: ``x = A theta + offset - q`` the springs' deflection, ``K`` and ``D`` their
stiffness and damping, ``I`` the rotors' inertia, ``M`` the links' mass matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, pi

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]

#: A spring whose own phase in a step, squared, is above this is treated by the midpoint rule, stable at any phase.
MOST_PHASE_SQUARED = 4.0
#: Hard stops are springs of the joint's own stiffness, damped like this share of critical on the rotor.
STOP_DAMPING = 0.5

#: What a state is made of, (n,) each, in this order: axes' and joints' positions, axis speeds behind the servos'
#: filters; springs' deflections, axis and joint speeds; the last change of friction, the last mean acceleration of the
#: axes and the one before; forces on the links (contact, stops); links' inertial forces and the accelerations they were
#: computed with, now and a step ago; the joints' accelerations now.
STATE = (
    "theta", "q", "estimate", "x", "w", "v", "kick", "alpha", "earlier", "push", "force", "with_a", "force_before",
    "with_before", "accel",
)  # fmt: skip
#: What comes from outside: motor torque, what its unevenness adds to the way, a correction of the guess.
GIVEN = ("torque", "lead", "jump")
#: What a step is linear in.
FROM = (*STATE, *GIVEN)
#: What else than the state comes out of a step, in the places of ``GIVEN``: how much further than by their mean speeds
#: the axes got, their speeds once more, and where the shafts' ripple stands in the middle of the step to come [rad].
BESIDE = ("more", "w_again", "turned")
#: What a step makes of it, motors at rest: the residual of the motors' equations at the guess, and the guess, of their
#: mean speeds; the next state, forces and acceleration yet to be found; and the rest.
TO = ("residual", "guess", *STATE, *BESIDE)
#: What is added to all but residual and guess by the motors' mean speeds and by the changes of the bristles.
ADDED = ("wm", "db")
#: Between the two: mean link speeds, corrections of joints and of axes.
MADE = ("vm", "sag", "bow")


@dataclass(frozen=True, slots=True)
class Contact:
    """A surface that pushes: generalised force per newton (n,), and its stiffness [N/m]."""

    direction: Floats
    stiffness: float


@dataclass(frozen=True, slots=True)
class Matrices:
    """A step's constants about one pose.

    ``flow`` (20n, 18n) maps ``FROM`` to ``TO``; ``added`` (18n, 2n) maps ``ADDED`` to all of it but residual and
    guess. Of the motors' own equations, friction left out, ``diagonal`` (n,) is what an axis feels of its own mean
    speed, ``between`` (n, n) what it feels of the others', ``coupled`` how much of that at most.
    ``acceleration`` (n, 8n) maps ``x`` … ``force`` to what the links accelerate more than ``force`` was computed with.
    """

    pose: list[float]
    stops: tuple[bool, ...]
    contact: Contact | None
    flow: Floats
    added: Floats
    diagonal: list[float]
    between: Floats
    coupled: float
    acceleration: Floats


class Builder:
    """Makes :class:`Matrices` for one arm and one step length."""

    def __init__(self, truth: ArmTruth, step_s: float, masses: Sequence[Floats]) -> None:
        """``masses``: mass matrices at several poses, by which stiff springs are told from soft ones."""
        axes, self.h = truth.axes, step_s
        self.n = n = len(axes)
        h, one = step_s, np.eye(n)
        self.coupling = a = np.array(truth.coupling, dtype=np.float64)
        self.stiffness = k = np.array([axis.stiffness for axis in axes])
        self.damping = d = np.array([axis.damping for axis in axes])
        self.inertia = inertia = np.array([axis.inertia for axis in axes])
        self.stop_stiffness = k.copy()
        self.stop_damping = STOP_DAMPING * 2.0 * np.sqrt(k * inertia)
        self._eased = a / inertia  # A I^-1
        self._reluctance = self._eased @ a.T
        phases = [k * np.diag(self._reluctance + np.linalg.inv(mass)) * h**2 for mass in masses]
        self.fine = fine = (np.max(phases, axis=0) < MOST_PHASE_SQUARED).astype(np.float64)
        self.phases: Floats = np.sqrt(np.max(phases, axis=0))  # of every spring by itself, in a step [rad]
        # what does not depend on the pose
        skew = h / 6.0 * fine
        self._one, self._stiff, self._damping, self._fine = one, k, d, fine
        self._at = at = _slices(FROM, n)
        self._rotor = np.diag(2.0 / h * inertia)
        self._bend = (h * h / 24.0 * k * fine)[:, None]
        self._gain = fine * (k * h + 2.0 * d)
        self._spring = np.diag(k * (0.5 * h - skew) + d)
        self._by_rate = np.diag(k * skew)
        self._slip = np.diag(2.0 * fine * d)
        self._stopped = 0.5 * h * self.stop_stiffness + self.stop_damping
        self._torque = np.zeros((n, n * len(FROM)))
        self._torque[:, at["x"]] = np.diag(k)
        self._torque[:, at["kick"]] = self._bend * self._eased
        self._torque[:, at["lead"]] = 0.5 * k[:, None] * a
        self._guess = np.zeros((n, n * len(FROM)))
        for name, share in (("w", 1.0), ("alpha", h), ("earlier", -0.5 * h), ("jump", 1.0)):
            self._guess[:, at[name]] = share * one
        self._flow, self._added, self._through = self._advance(truth)

    def _advance(self, truth: ArmTruth) -> tuple[Floats, Floats, Floats]:
        """What maps ``FROM``, ``ADDED`` and ``MADE`` to ``TO`` in every pose; residual left out."""
        n, h, one, a = self.n, self.h, self._one, self.coupling
        names = (*FROM, *ADDED, *MADE)
        came, goes = _slices(names, n), _slices(TO, n)
        made = np.zeros((n * len(TO), n * len(names)))

        def put(to: str, **shares: Floats) -> None:
            for name, share in shares.items():
                made[goes[to], came[name]] += share

        viscous = np.diag([axis.viscous for axis in truth.axes])
        hermite = np.diag(h * h / 12.0 / self.inertia)
        filtered = np.diag([1.0 - exp(-h * 2.0 * pi * axis.velocity_bandwidth_hz) for axis in truth.axes])
        made[goes["guess"], : self._guess.shape[1]] = self._guess
        put("kick", db=one, wm=2.0 * viscous, w=-2.0 * viscous)
        put("more", lead=one, bow=one)
        made[goes["more"]] += hermite @ made[goes["kick"]]
        put("theta", theta=one, wm=h * one)
        made[goes["theta"]] += made[goes["more"]]
        put("q", q=one, vm=h * one, sag=one)
        put("x", x=one, theta=-a, q=one)
        made[goes["x"]] += a @ made[goes["theta"]] - made[goes["q"]]
        put("estimate", estimate=one - filtered, wm=filtered)
        put("w", wm=2.0 * one, w=-one)
        put("w_again", wm=2.0 * one, w=-one)
        put("v", vm=2.0 * one, v=-one)
        periods = np.array([axis.ripple_per_revolution * axis.shaft_per_axis for axis in truth.axes])
        made[goes["turned"]] = periods[:, None] * (made[goes["theta"]] + 0.5 * h * made[goes["w"]])
        put("alpha", wm=2.0 / h * one, w=-2.0 / h * one)
        for to, name in (
            ("earlier", "alpha"), ("with_a", "accel"), ("force_before", "force"), ("with_before", "with_a"),
            ("accel", "accel"),
        ):  # fmt: skip
            put(to, **{name: one})
        first, second = n * len(FROM), n * (len(FROM) + len(ADDED))
        return made[:, :first].copy(), made[2 * n :, first:second].copy(), made[2 * n :, second:].copy()

    def build(self, pose: list[float], mass: Floats, stops: tuple[bool, ...], contact: Contact | None) -> Matrices:
        """Make the matrices about ``pose``, where the links' mass matrix is ``mass``."""
        n, h, a, at = self.n, self.h, self.coupling, self._at
        k, d, fine = self._stiff, self._damping, self._fine
        loose = np.linalg.inv(mass)
        relative = self._reluctance + loose
        momentum = 2.0 / h * mass
        # torque of the springs in the mean over the step: tau_c + N (A wm - vm)
        bent = self._bend * relative
        spring = bent * self._gain + self._spring
        by_rate = self._by_rate - bent * (2.0 * fine * d)
        held = momentum + spring
        diagonal = held.reshape(-1)[:: n + 1]
        diagonal += np.where(stops, self._stopped, 0.0)
        if contact is not None:
            held += 0.5 * h * contact.stiffness * np.outer(contact.direction, contact.direction)
        free = np.linalg.inv(held)
        share = spring @ free
        system = self._rotor + a.T @ (spring - share @ spring) @ a
        torque = self._torque.copy()
        torque[:, at["w"]] = by_rate @ a
        torque[:, at["v"]] = -by_rate
        push = torque.copy()
        push[:, at["v"]] += momentum
        push[:, at["push"]] = self._one
        # links' inertial forces but for M a, extrapolated to the middle of the step
        push[:, at["force"]], push[:, at["force_before"]] = -1.5 * self._one, 0.5 * self._one
        push[:, at["with_a"]], push[:, at["with_before"]] = 1.5 * mass, -0.5 * mass
        flow, added = self._flow.copy(), self._added.copy()
        residual = flow[:n]
        np.matmul(a.T, torque - share @ push, out=residual)
        residual[:, at["w"]] -= self._rotor
        residual[:, at["torque"]] -= self._one
        residual += system @ self._guess
        through = np.empty((3 * n, torque.shape[1]))  # mean link speeds, corrections of joints and axes
        speed = through[:n]
        np.matmul(free, push, out=speed)
        change = -self._gain[:, None] * speed
        change[:, at["w"]] -= self._slip @ a
        change[:, at["v"]] += self._slip
        sag, bow = -h * h / 12.0 * loose, h * h / 12.0 * self._eased.T
        np.matmul(sag, change, out=through[n : 2 * n])
        np.matmul(bow, change, out=through[2 * n :])
        flow[2 * n :] += self._through @ through
        by_motors = np.empty((3 * n, n))
        moved = by_motors[:n]
        np.matmul(free @ spring, a, out=moved)
        changed = self._gain[:, None] * (a - moved)
        np.matmul(sag, changed, out=by_motors[n : 2 * n])
        np.matmul(bow, changed, out=by_motors[2 * n :])
        added[:, :n] += self._through @ by_motors
        own = np.diag(system).copy()
        between = system - np.diag(own)
        dashed = loose * d
        acceleration = np.zeros((n, 8 * n))
        for at_block, block in ((0, loose * k), (1, dashed @ a), (2, -dashed), (6, loose), (7, -loose)):
            acceleration[:, at_block * n : (at_block + 1) * n] = block
        return Matrices(
            pose=list(pose),
            stops=stops,
            contact=contact,
            flow=flow,
            added=added,
            diagonal=own.tolist(),
            between=between,
            coupled=float(np.abs(between).sum(axis=1).max()),
            acceleration=acceleration,
        )


def _slices(names: Sequence[str], n: int) -> dict[str, slice]:
    """Where blocks of ``n`` stand that follow each other."""
    return {name: slice(i * n, (i + 1) * n) for i, name in enumerate(names)}
