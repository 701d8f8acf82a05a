"""Base parameters of an arm: the combinations of its standard parameters that its torques tell, by name.

::

    base = BaseParameters.of(ArmLaw(model, coupling=drives.coupling))
    base.count                              # 61 for a Staubli TX40
    base.names[0]                           # "Izz1 + Ia1 + Iyy2 + Iyy3 + 0.07*mz3 + 0.05185*m3 + ..."
    values = base.grouping @ standard       # (b,) from (p,)

Which columns of the regressor depend on which is found once per arm, on random states, by orthogonal factorisation of
the columns in a fixed order: a column that depends on those before it is left out and its parameter joins theirs
(M. Gautier, *Numerical calculation of the base inertial parameters of robots*, J. Robotic Systems 8(4), 1991). In the
order taken here masses, first moments along a joint's axis and Iyy join others, as in hand-made tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_law import ArmLaw, split
from bench.identify.blas import single_thread

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

ORDER = ("Ixx", "Ixy", "Ixz", "Iyz", "Izz", "mx", "my", "Iyy", "mz", "m", "Ia", "fv", "fs", "off", "fx")
LAST = ("Iam", "fvm", "fsm")
DEPENDENT = 1e-8
"""A column depends on those before it when they leave less than this share of its length."""
ZERO = 1e-9
STATES_PER_COLUMN = 3
IN_CACHE = 64
"""Rows of the whole regressor that are made at once."""
ROUND = 9
"""Digits of the coefficients in a grouping: what the factorisation gets wrong is rounded away."""


@dataclass(frozen=True)
class BaseParameters:
    """What can be told of an arm.

    Parameters
    ----------
    law : ArmLaw
    columns : (b,) int
        Standard parameters whose columns make the base regressor, in the order of ``names``.
    grouping : (b, p) float64
        Base parameters of standard ones.
    joint_columns : tuple of n (b_j,) int
        Base parameters that joint j's torque depends on; the others' columns are zero there, whatever the motion.
    unseen : tuple of str
        Parameters asked for that no torque depends on.
    """

    law: ArmLaw
    columns: Indices
    grouping: Floats
    joint_columns: tuple[Indices, ...]
    unseen: tuple[str, ...]

    @classmethod
    def of(cls, law: ArmLaw, *, seed: int = 0) -> BaseParameters:
        """Find them; ``seed`` is that of the random states. Takes some ten milliseconds.

        Raises
        ------
        MissingExtra
            Pinocchio is not installed.
        """
        names, n = law.names, law.n
        order = np.array(sorted(np.flatnonzero(law.asked), key=lambda k: _rank(names[k], n)), dtype=np.intp)
        states = math.ceil(STATES_PER_COLUMN * len(order) / n) + 2 * n
        rng = np.random.default_rng(seed)
        q, v, a = (rng.uniform(-math.pi, math.pi, (states, n)) for _ in range(3))
        whole = law.columns(q, v, a)[:, :, order]
        with single_thread():
            kept, grouped = _independent(whole.reshape(states * n, len(order)))
        columns = order[kept]
        grouping = np.zeros((len(kept), len(names)))
        grouping[:, order] = np.round(grouped, ROUND) + 0.0
        moved = np.abs(whole[:, :, kept]).max(axis=0)
        length = moved.max(axis=0)
        # the links' first, then the joints' own
        late = columns >= 10 * n
        told = [moved[j] > ZERO * length for j in range(n)]
        joints = tuple(np.concatenate([np.flatnonzero(t & ~late), np.flatnonzero(t & late)]) for t in told)
        unseen = tuple(names[k] for k in order if not np.any(grouping[:, k]))
        return cls(law, columns, grouping, joints, unseen)

    @property
    def count(self) -> int:
        """Number of base parameters."""
        return len(self.columns)

    @cached_property
    def leading(self) -> tuple[str, ...]:
        """Short names (b,): the standard parameter each group is led by."""
        return tuple(self.law.names[k] for k in self.columns)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Full names (b,), such as ``Ixx2 - Iyy2 - 0.050625*m3``."""
        return tuple(
            _spelled(self.law.names, self.grouping[i], int(lead), self.law.n) for i, lead in enumerate(self.columns)
        )

    def group(self, name: str) -> dict[str, float]:
        """Standard parameters of one base parameter with their coefficients."""
        row = self.grouping[self.index(name)]
        return {self.law.names[k]: float(row[k]) for k in np.flatnonzero(row)}

    def index(self, name: str) -> int:
        """Place of a base parameter by its short or full name.

        Raises
        ------
        Refused
            ``no_parameter``; says what it is grouped into where it is one of a group.
        """
        for names in (self.leading, self.names):
            if name in names:
                return names.index(name)
        hint = f"Base parameters: {', '.join(self.leading)}"
        if name in self.law.names:
            holders = [self.leading[i] for i in np.flatnonzero(self.grouping[:, self.law.names.index(name)])]
            hint = f"It is told within {', '.join(holders)} only" if holders else "No torque depends on it"
        raise Refused(f"'{name}' is no base parameter", reason="no_parameter", where="base parameters", remedy=hint)

    def values(self, standard: Floats) -> Floats:
        """Base values (b,) of standard parameters (p,)."""
        return np.asarray(self.grouping @ standard)

    def regressor(self, q: Floats, v: Floats, a: Floats, slow: Floats | None = None) -> Floats:
        """Base regressor (k, n, b) of states (k, n), all at once; see :meth:`ArmLaw.columns`."""
        return self.law.columns(q, v, a, slow)[:, :, self.columns]

    def fill(self, q: Floats, v: Floats, a: Floats, slow: Floats, out: Floats) -> None:
        """Write what some motion needs to ``out`` (k, width): joint j's own columns are ``out[:, spots[j]]``.

        The order there is that of ``joint_columns``. A few rows at a time, so that the whole regressor stays in the
        processor's cache.
        """
        n = self.law.n
        for first in range(0, len(q), IN_CACHE):
            rows = slice(first, min(first + IN_CACHE, len(q)))
            whole = self._room[: rows.stop - first]
            self.law.model.regressor_rows(q[rows], v[rows], a[rows], out=whole)
            out[rows] = whole.reshape(len(whole), 10 * n * n).take(self._places, axis=1)
        for j, (spots, (rigid, others)) in enumerate(zip(self.spots, self._plan, strict=True)):
            for place, name in enumerate(others, start=spots.start + rigid):
                out[:, place] = self.law.column(name, j, v, a, slow)

    @cached_property
    def _room(self) -> Floats:
        return np.empty((IN_CACHE, self.law.n, 10 * self.law.n))

    @property
    def width(self) -> int:
        """Columns of all joints that are not zero for every motion."""
        return sum(len(own) for own in self.joint_columns)

    @cached_property
    def spots(self) -> tuple[slice, ...]:
        """Per joint the columns that :meth:`fill` writes."""
        edges = np.cumsum([0, *(len(own) for own in self.joint_columns)]).tolist()
        return tuple(slice(first, last) for first, last in pairwise(edges))

    @cached_property
    def _plan(self) -> list[tuple[int, list[str]]]:
        """Per joint: how many columns are the links', then the names of the other parameters."""
        links, plan = 10 * self.law.n, []
        for own in self.joint_columns:
            late = [self.law.names[k] for k in self.columns[own].tolist() if k >= links]
            plan.append((len(own) - len(late), late))
        return plan

    @cached_property
    def _places(self) -> Indices:
        """(width,) places in a row of the links' regressor laid flat; those of other parameters are any."""
        links = 10 * self.law.n
        standard = [np.minimum(self.columns[own], links - 1) + links * j for j, own in enumerate(self.joint_columns)]
        return np.concatenate(standard)


def _rank(name: str, n: int) -> tuple[int, int]:
    kind, number = split(name)
    return (n, len(ORDER) * number + LAST.index(kind)) if kind in LAST else (number, ORDER.index(kind))


def _independent(columns: Floats) -> tuple[Indices, Floats]:
    """Columns that do not depend on those before, and (b, p) what every column is in terms of them."""
    length = np.linalg.norm(columns, axis=0)
    moved = length > ZERO * max(float(length.max(initial=0.0)), 1e-300)
    scaled = columns / np.where(moved, length, 1.0)
    triangle = np.linalg.qr(scaled, mode="r")
    kept = np.flatnonzero((np.abs(np.diag(triangle)) > DEPENDENT) & moved)
    q, r = np.linalg.qr(scaled[:, kept])
    grouped = np.linalg.solve(r, q.T @ np.where(moved, scaled, 0.0))
    grouped *= np.where(moved, length, 0.0) / length[kept][:, None]
    return kept, np.where(np.abs(grouped) > ZERO, grouped, 0.0)


def _spelled(names: Sequence[str], row: Floats, lead: int, n: int) -> str:
    """Spell a group: its leading parameter first, then the others from the base on."""
    others = sorted((int(k) for k in np.flatnonzero(row) if k != lead), key=lambda k: _rank(names[k], n))
    text = names[lead]
    for k in others:
        size = abs(float(row[k]))
        text += f" {'-' if row[k] < 0.0 else '+'} " + (names[k] if abs(size - 1.0) < ZERO else f"{size:.6g}*{names[k]}")
    return text


__all__ = ["BaseParameters"]
