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

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]

#: A spring whose own phase in a step, squared, is above this is treated by the midpoint rule, stable at any phase.
MOST_PHASE_SQUARED = 4.0
#: Hard stops are springs of the joint's own stiffness, damped like this share of critical on the rotor.
STOP_DAMPING = 0.5

BLOCKS = ("x", "w", "v", "ext", "r", "a", "u", "lead", "kick", "guess")
"""What a step's right-hand side is linear in, (n,) each: deflection, speeds, forces on the links (contact, stops),
links' inertial forces and the acceleration they were computed with, motor torque, its uneven share of the way, the last
change of friction, and the guess of the mean motor speeds."""


@dataclass(frozen=True, slots=True)
class Contact:
    """A surface that pushes: generalised force per newton (n,), and its stiffness [N/m]."""

    direction: Floats
    stiffness: float


@dataclass(frozen=True, slots=True)
class Matrices:
    """A step's constants about one pose.

    ``first`` maps the blocks to the residual at the guess and, for motors at rest, to mean link speeds and corrections
    of joints and of motors; ``second`` adds what the motors' mean speeds do to these. ``acceleration`` maps x, w, v,
    ext, r to what the links accelerate more than ``r`` was computed with.
    """

    pose: list[float]
    stops: tuple[bool, ...]
    contact: Contact | None
    first: Floats
    second: Floats
    system: Floats
    diagonal: list[float]
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
        # what does not depend on the pose; columns of a block are at ``_at``
        skew = h / 6.0 * fine
        self._one, self._stiff, self._damping, self._fine = one, k, d, fine
        self._at = {name: slice(i * n, (i + 1) * n) for i, name in enumerate(BLOCKS)}
        self._rotor = np.diag(2.0 / h * inertia)
        self._bend = (h * h / 24.0 * k * fine)[:, None]
        self._gain = fine * (k * h + 2.0 * d)
        self._spring = np.diag(k * (0.5 * h - skew) + d)
        self._by_rate = np.diag(k * skew)
        self._slip = np.diag(2.0 * fine * d)
        self._stopped = 0.5 * h * self.stop_stiffness + self.stop_damping
        self._torque = np.zeros((n, n * len(BLOCKS)))
        self._torque[:, self._at["x"]] = np.diag(k)
        self._torque[:, self._at["kick"]] = self._bend * self._eased
        self._torque[:, self._at["lead"]] = 0.5 * k[:, None] * a

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
        push[:, at["a"]] = mass
        push[:, at["r"]] = -self._one
        push[:, at["ext"]] = self._one
        first = np.empty((4 * n, n * len(BLOCKS)))
        residual, speed = first[:n], first[n : 2 * n]
        np.matmul(a.T, torque - share @ push, out=residual)
        residual[:, at["w"]] -= self._rotor
        residual[:, at["u"]] -= self._one
        residual[:, at["guess"]] += system
        np.matmul(free, push, out=speed)
        change = -self._gain[:, None] * speed
        change[:, at["w"]] -= self._slip @ a
        change[:, at["v"]] += self._slip
        sag, bow = -h * h / 12.0 * loose, h * h / 12.0 * self._eased.T
        np.matmul(sag, change, out=first[2 * n : 3 * n])
        np.matmul(bow, change, out=first[3 * n :])
        second = np.empty((3 * n, n))
        moved = second[:n]
        np.matmul(free @ spring, a, out=moved)
        changed = self._gain[:, None] * (a - moved)
        np.matmul(sag, changed, out=second[n : 2 * n])
        np.matmul(bow, changed, out=second[2 * n :])
        dashed = loose * d
        return Matrices(
            pose=list(pose),
            stops=stops,
            contact=contact,
            first=first,
            second=second,
            system=np.asfortranarray(system),
            diagonal=system.reshape(-1)[:: n + 1].tolist(),
            acceleration=np.hstack([loose * k, dashed @ a, -dashed, loose, -loose]),
        )
