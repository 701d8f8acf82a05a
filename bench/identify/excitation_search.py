"""Search a well-conditioned Fourier series inside an arm's limits: random starts, then evolution, bounded in work.

Every candidate is made to keep position, speed and acceleration by scaling each joint; torque, speed of the tip and box
are checked on a coarse grid against limits a little narrower than the real ones. A candidate that breaks one is worse
than all that break none, and the worse the more it breaks it. Costs are compared rounded, so that the last bits of a
processor's arithmetic do not send the search another way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.identify.excitation_cost import Columns, scaled_condition
from bench.models.fourier_check import movable_points
from bench.models.fourier_path import FourierPath, at_rest
from bench.models.motion_limits import MotionLimits
from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: Share of a limit the search uses: the rest is for what lies between the samples of its grid.
USED = 0.96
#: Samples a period, per harmonic and at least.
SAMPLES_PER_HARMONIC, LEAST_SAMPLES = 14, 70
#: Share of the evaluations spent on random starts, and how many of these are improved.
RANDOM_SHARE, PARENTS = 0.2, 4
#: How much the strength of a motion weighs beside the condition number, which scaled columns are blind to: a joint
#: that hardly moves has a well-conditioned column and an inertia nobody can tell. See :meth:`Search.strength`.
STRENGTH = 0.35
#: A joint uses at least this share of what its limits let it move.
LEAST_FILL = 0.25
#: What a candidate that breaks a limit costs at least.
INFEASIBLE = 1e6
#: Relative size of a difference of costs that counts.
DIGITS = 1e-6


@dataclass(frozen=True)
class Problem:
    """What is searched: series of ``harmonics`` of ``base_hz`` for ``model`` inside ``limits``."""

    model: ArmModel
    limits: MotionLimits
    columns: Columns
    base_hz: float
    harmonics: tuple[int, ...]
    periods: int

    @property
    def samples(self) -> int:
        """Samples a period on which candidates are compared."""
        return max(SAMPLES_PER_HARMONIC * self.harmonics[-1], LEAST_SAMPLES)

    @property
    def shape(self) -> tuple[int, int]:
        """Numbers of a candidate: per joint the coefficients, its fill and the place of its offset."""
        return self.limits.size, 2 * len(self.harmonics) + 2


@dataclass(frozen=True)
class Found:
    """The best series, its cost (condition number over strength), and how many candidates were looked at."""

    path: FourierPath
    cost: float
    evaluations: int


class Search:
    """One search; ``evaluations`` is all the work it does."""

    def __init__(self, problem: Problem, seed: int, evaluations: int) -> None:
        self.problem, self.budget = problem, evaluations
        self.rng = np.random.default_rng(seed)
        self.used = 0
        samples = problem.samples
        turns = np.outer(np.arange(samples) * (2.0 * math.pi / samples), problem.harmonics)
        self._basis = np.hstack([np.cos(turns), np.sin(turns)])
        self._rate = 2.0 * math.pi * problem.base_hz * np.array(problem.harmonics, dtype=np.float64)
        self._watched = [index for index, _ in movable_points(problem.model)]

    def run(self) -> Found:
        """Search and return the best candidate."""
        starts = max(int(RANDOM_SHARE * self.budget), 1)
        pool: list[tuple[float, Floats]] = []
        for _ in range(min(starts, self.budget)):
            candidate = self._random()
            pool.append((self.cost(candidate), candidate))
        pool.sort(key=lambda pair: pair[0])
        parents = pool[:PARENTS]
        widths = [0.3] * len(parents)
        while self.used < self.budget:
            left = self.budget - self.used
            # all parents take turns; for the last half of the work the best one alone is improved
            active = range(len(parents)) if left > 0.5 * self.budget else [_best(parents)]
            for number in active:
                if self.used >= self.budget:
                    break
                cost, parent = parents[number]
                child = self._changed(parent, widths[number])
                value = self.cost(child)
                if value < cost * (1.0 - DIGITS):
                    parents[number] = (value, child)
                    widths[number] = min(widths[number] * 1.5, 1.0)
                else:
                    # a fifth of the changes succeeds where the width is right (Rechenberg's rule)
                    widths[number] = max(widths[number] * 1.5**-0.25, 0.004)
        cost, best = parents[_best(parents)]
        return Found(self.path(best), cost, self.used)

    def _random(self) -> Floats:
        joints, numbers = self.problem.shape
        candidate = self.rng.normal(size=(joints, numbers))
        candidate[:, -2] = self.rng.uniform(-1.0, 2.0, joints)
        candidate[:, -1] = self.rng.normal(size=joints)
        return candidate

    def _changed(self, parent: Floats, width: float) -> Floats:
        change = self.rng.normal(size=parent.shape) * width
        # one joint, some joints or all of them
        share = (1.0 / parent.shape[0], 0.5, 1.0)[int(self.rng.integers(3))]
        moved: NDArray[np.bool_] = np.asarray(self.rng.uniform(size=parent.shape[0]) < share)
        moved[int(self.rng.integers(parent.shape[0]))] = True
        return parent + change * moved[:, None]

    def path(self, candidate: Floats) -> FourierPath:
        """Return the candidate as a series that keeps the limits of position, speed and acceleration on the grid."""
        problem, limits = self.problem, self.problem.limits
        m = len(problem.harmonics)
        # equal numbers make equal speeds in all harmonics
        cosine, sine = at_rest(
            problem.harmonics, candidate[:, :m] / problem.harmonics, candidate[:, m : 2 * m] / problem.harmonics
        )
        place = self._basis @ np.hstack([cosine, sine]).T
        speed = self._basis @ np.hstack([sine * self._rate, -cosine * self._rate]).T
        push = self._basis @ np.hstack([-cosine * self._rate**2, -sine * self._rate**2]).T
        high, low = place.max(axis=0), place.min(axis=0)
        room = np.minimum(limits.position_max - limits.position_min, 2.0 * math.pi) * USED
        scale = np.minimum(
            np.minimum(room / (high - low), USED * limits.speed / np.abs(speed).max(axis=0)),
            USED * limits.acceleration / np.abs(push).max(axis=0),
        )
        scale = scale * (LEAST_FILL + (1.0 - LEAST_FILL) / (1.0 + np.exp(-2.0 * candidate[:, -2])))
        share = 1.0 / (1.0 + np.exp(-candidate[:, -1]))
        bottom = np.maximum(limits.position_min, -math.pi) + 0.5 * (1.0 - USED) / USED * room - scale * low
        top = np.minimum(limits.position_max, math.pi) - 0.5 * (1.0 - USED) / USED * room - scale * high
        offset = bottom + share * (top - bottom)
        return FourierPath(
            problem.base_hz, problem.harmonics, offset, cosine * scale[:, None], sine * scale[:, None], problem.periods
        )

    def cost(self, candidate: Floats) -> float:
        """Return the scaled condition number over the strength, or how much limits are broken above INFEASIBLE."""
        self.used += 1
        path = self.path(candidate)
        found = self._basis @ path._rows.T
        n = path.size
        q, v, a = path.offset + found[:, :n], found[:, n : 2 * n].copy(), found[:, 2 * n :].copy()
        broken = self.broken(q, v, a)
        if broken > 0.0:
            return INFEASIBLE * (1.0 + broken)
        condition = scaled_condition(self.problem.columns(q, v, a)) / math.pow(self.strength(v, a), STRENGTH)
        return min(condition, 0.5 * INFEASIBLE)

    def strength(self, v: Floats, a: Floats) -> float:
        """Return how much of speed and acceleration is used: geometric mean of the joints' shares of their limits."""
        limits = self.problem.limits
        fast = np.sqrt(np.mean(v * v, axis=0)) / limits.speed
        quick = np.sqrt(np.mean(a * a, axis=0)) / limits.acceleration
        mean = float(np.mean(np.log(np.maximum(fast * quick, 1e-12))))
        return math.exp(0.5 * mean)

    def broken(self, q: Floats, v: Floats, a: Floats) -> float:
        """Return the sum of what goes beyond the narrowed limits of torque, box and speed of the tip, as shares."""
        model, limits = self.problem.model, self.problem.limits
        total = 0.0
        if np.any(np.isfinite(limits.box_min)) or np.any(np.isfinite(limits.box_max)):
            watched = model.joint_positions_rows(q)[:, self._watched]
            size = np.where(np.isfinite(limits.box_max - limits.box_min), limits.box_max - limits.box_min, 1.0)
            inset = 0.5 * (1.0 - USED) * size
            outside = np.maximum(watched - (limits.box_max - inset), (limits.box_min + inset) - watched) / size
            total += float(np.maximum(outside, 0.0).max(axis=(0, 1), initial=0.0).sum())
        torque = np.abs(model.inverse_dynamics_rows(q, v, a) + np.sign(v) * limits.coulomb + v * limits.viscous)
        total += float(np.maximum(torque.max(axis=0) / (USED * limits.torque) - 1.0, 0.0).sum())
        if math.isfinite(limits.tip_speed):
            moved = np.einsum("kij,kj->ki", model.jacobian_rows(q)[:, :3], v)
            fastest = math.sqrt(float(np.einsum("ki,ki->k", moved, moved).max()))
            total += max(fastest / (USED * limits.tip_speed) - 1.0, 0.0)
        return total


def _best(pool: list[tuple[float, Floats]]) -> int:
    return min(range(len(pool)), key=lambda number: pool[number][0])
