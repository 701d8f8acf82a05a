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
        self.n = len(axes)
        self.coupling = np.array(truth.coupling, dtype=np.float64)
        self.stiffness = np.array([axis.stiffness for axis in axes])
        self.damping = np.array([axis.damping for axis in axes])
        self.inertia = np.array([axis.inertia for axis in axes])
        self.stop_stiffness = self.stiffness.copy()
        self.stop_damping = STOP_DAMPING * 2.0 * np.sqrt(self.stiffness * self.inertia)
        reluctance = self.coupling @ np.diag(1.0 / self.inertia) @ self.coupling.T
        phases = [self.stiffness * np.diag(reluctance + np.linalg.inv(mass)) * step_s**2 for mass in masses]
        self.fine = (np.max(phases, axis=0) < MOST_PHASE_SQUARED).astype(np.float64)
        self.fastest = float(np.sqrt(np.max(phases))) / step_s

    def build(self, pose: list[float], mass: Floats, stops: tuple[bool, ...], contact: Contact | None) -> Matrices:
        """Make the matrices about ``pose``, where the links' mass matrix is ``mass``."""
        n, h, a = self.n, self.h, self.coupling
        k, d, one = np.diag(self.stiffness), np.diag(self.damping), np.eye(n)
        fine, rotor = np.diag(self.fine), np.diag(self.inertia)
        eased = a / self.inertia  # A I^-1
        loose = np.linalg.inv(mass)
        relative = eased @ a.T + loose
        # torque of the springs in the mean over the step: tau_c + N (A wm - vm)
        skew = h / 6.0 * fine
        bend = h * h / 24.0 * k @ fine
        gain = fine @ (k * h + 2.0 * d)
        spring = k @ (0.5 * h * one - skew) + d + bend @ relative @ gain
        by_rate = k @ skew - 2.0 * bend @ relative @ fine @ d
        by_kick, by_lead = bend @ eased, 0.5 * k @ a
        held = 2.0 / h * mass + spring
        held += np.diag(np.where(stops, 0.5 * h * self.stop_stiffness + self.stop_damping, 0.0))
        if contact is not None:
            held += 0.5 * h * contact.stiffness * np.outer(contact.direction, contact.direction)
        free = np.linalg.inv(held)
        share = spring @ free
        system = 2.0 / h * rotor + a.T @ (spring - share @ spring) @ a
        nil = np.zeros((n, n))
        torque = dict.fromkeys(BLOCKS, nil) | {
            "x": k, "w": by_rate @ a, "v": -by_rate, "kick": by_kick, "lead": by_lead
        }  # fmt: skip
        push = dict(torque)
        push |= {"v": 2.0 / h * mass - by_rate, "r": -one, "a": mass, "ext": one}
        right = {name: a.T @ (share @ push[name] - torque[name]) for name in BLOCKS}
        right["w"] = right["w"] + 2.0 / h * rotor
        right["u"] = right["u"] + one
        residual = {name: -block for name, block in right.items()} | {"guess": system}
        speed = {name: free @ block for name, block in push.items()}
        change = {name: -gain @ block for name, block in speed.items()}
        change["w"] = change["w"] - 2.0 * fine @ d @ a
        change["v"] = change["v"] + 2.0 * fine @ d
        sag, bow = -h * h / 12.0 * loose, h * h / 12.0 * eased.T
        rows = (
            residual,
            speed,
            {name: sag @ block for name, block in change.items()},
            {name: bow @ block for name, block in change.items()},
        )
        moved = free @ spring @ a
        changed = gain @ (a - moved)
        return Matrices(
            pose=list(pose),
            stops=stops,
            contact=contact,
            first=np.ascontiguousarray(np.vstack([np.hstack([row[name] for name in BLOCKS]) for row in rows])),
            second=np.ascontiguousarray(np.vstack([moved, sag @ changed, bow @ changed])),
            system=np.asfortranarray(system),
            diagonal=np.diag(system).tolist(),
            acceleration=np.hstack([loose @ k, loose @ d @ a, -loose @ d, loose, -loose]),
        )
