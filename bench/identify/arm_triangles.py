"""Regression of all joints at once: rows stream in, a triangle per joint and stretch of time stays.

A joint's torque depends on some of the base parameters only, so its rows are reduced in its own columns. Blocks are
stretches of time, the same for all joints: what one block says against the others' answer (delete-one-block jackknife,
see :mod:`bench.identify.regression`) then includes what the joints' errors have to do with each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_rows import FilteredRows
from bench.identify.blas import single_thread
from bench.identify.regression import FEWEST_BLOCKS, condition_number, independent_shifts

Floats = NDArray[np.float64]

BLOCKS = 20
"""Blocks kept of a long record: between this and twice as many."""
BLOCK_ROWS = 16
CHUNK = 1024
LEAST_SHARE = 1e-9
"""No joint's residual counts as smaller than this share of its torque."""


@dataclass(frozen=True)
class ArmSolution:
    """Least-squares answer of one set of weights.

    Parameters
    ----------
    values, covariance : (b,), (b, b)
    degrees_of_freedom : (b,)
    condition_number : float
        Of the weighted regressor, columns scaled to unit length.
    sigma : (n,)
        What the weights were one over.
    residual : (n,)
        Root mean square left per joint.
    sensitivity : (b, n)
        Change of the answer by a change of each joint's torque, as a share of it.
    blocks : int
    """

    values: Floats
    covariance: Floats
    degrees_of_freedom: Floats
    condition_number: float
    sigma: Floats
    residual: Floats
    sensitivity: Floats
    blocks: int


class ArmTriangles:
    """Rows in, triangles kept.

    Parameters
    ----------
    base : BaseParameters
    block_rows : int
        Rows of the smallest block.
    """

    def __init__(self, base: BaseParameters, block_rows: int = BLOCK_ROWS) -> None:
        self.base = base
        n = base.law.n
        self.rows = np.zeros(n, dtype=np.int64)
        self.total = 0
        self._blocks: list[list[Floats]] = []
        self._target, self._taken, self._waiting_rows = max(block_rows, BLOCK_ROWS), 0, 0
        self._waiting: list[list[Floats]] = [[] for _ in range(n)]

    def add(self, rows: FilteredRows, root: Floats | None = None) -> None:
        """Take rows in; ``root`` (m, n) is the square root of the weight of every row and joint."""
        if not (np.isfinite(rows.columns).all() and np.isfinite(rows.torque).all()):
            raise Refused(
                "values that are no numbers",
                reason="not_finite",
                where="regression of an arm",
                remedy="Leave that stretch of the record out",
            )
        first = 0
        while first < len(rows.torque):
            take = min(len(rows.torque) - first, self._target - self._taken, CHUNK - self._waiting_rows)
            part = slice(first, first + take)
            self._take(rows, root, part)
            first += take

    def _take(self, rows: FilteredRows, root: Floats | None, part: slice) -> None:
        for j, spots in enumerate(self.base.spots):
            use = rows.moving[part, j]
            found = np.empty((int(use.sum()), spots.stop - spots.start + 1))
            found[:, :-1] = rows.columns[part, spots][use]
            found[:, -1] = rows.torque[part, j][use]
            if root is not None:
                found *= root[part, j][use][:, None]
            self._waiting[j].append(found)
            self.rows[j] += len(found)
        taken = part.stop - part.start
        self.total += taken
        self._taken += taken
        self._waiting_rows += taken
        if self._taken == self._target:
            self._blocks.append(self._reduced())
            self._waiting, self._taken, self._waiting_rows = [[] for _ in self.base.spots], 0, 0
            if len(self._blocks) == 2 * BLOCKS:
                pairs = zip(self._blocks[::2], self._blocks[1::2], strict=True)
                self._blocks = [[_triangle([a, b]) for a, b in zip(*pair, strict=True)] for pair in pairs]
                self._target *= 2
        elif self._waiting_rows == CHUNK:
            self._waiting, self._waiting_rows = [[triangle] for triangle in self._reduced()], 0

    def _reduced(self) -> list[Floats]:
        with single_thread():
            return [_triangle(parts) for parts in self._waiting]

    def blocks(self) -> list[list[Floats]]:
        """Triangles of ``[columns, torque]`` per block and joint; a short last block goes with the one before."""
        found = list(self._blocks)
        if self._taken:
            last = self._reduced()
            if found and self._taken < self._target // 2:
                found[-1] = [_triangle([a, b]) for a, b in zip(found[-1], last, strict=True)]
            else:
                found.append(last)
        return found

    def whole(self) -> list[Floats]:
        """Triangle of every joint, all blocks together."""
        blocks = self.blocks()
        with single_thread():
            return [_triangle([block[j] for block in blocks]) for j in range(self.base.law.n)]

    def check(self, names: Sequence[str]) -> None:
        """Refuse records that tell too little.

        Raises
        ------
        Refused
            ``no_rows``: a joint never moves; ``too_few_rows``.
        """
        still = [name for name, rows in zip(names, self.rows, strict=True) if rows == 0]
        if still:
            raise Refused(
                f"{', '.join(still)}: every row is in or near the dead zone",
                reason="no_rows",
                where="regression of an arm",
                remedy="Excite every joint, or state a smaller dead zone",
            )
        if len(self.blocks()) < FEWEST_BLOCKS or self.rows.sum() <= 2 * self.base.count:
            raise Refused(
                f"{self.rows.sum()} rows for {self.base.count} parameters and their s.d. are too few",
                reason="too_few_rows",
                where="regression of an arm",
                remedy="Record for longer, or exclude less",
            )

    def least_squares(self, sigma: Floats) -> Floats:
        """Values (b,) alone, with every joint's rows over its ``sigma`` (n,); what is not told is of least norm."""
        triangle, right = stacked(self.base, self.whole(), sigma)
        scale = np.linalg.norm(triangle, axis=0)
        scale = np.where(scale > 0.0, scale, 1.0)
        with single_thread():
            return np.asarray(np.linalg.lstsq(triangle / scale, right, rcond=None)[0] / scale)

    def solve(self, sigma: Floats) -> ArmSolution:
        """Least squares with every joint's rows over its ``sigma`` (n,), and all that is known of it.

        Raises
        ------
        Refused
            ``rank_deficient`` with the names of what cannot be told apart.
        """
        with single_thread():
            blocks = [np.column_stack(_stacked(self.base, block, sigma)) for block in self.blocks()]
            blocks = [_triangle([block]) for block in blocks if len(block)]
            edges = np.cumsum([0, *(len(block) for block in blocks)])
            whole = np.concatenate(blocks)
            stacked, right = whole[:, :-1], whole[:, -1]
            scale = np.linalg.norm(stacked, axis=0)
            q, r = np.linalg.qr(stacked)
            condition = condition_number(r, scale, self.base.leading)
            inverse = np.linalg.inv(r / scale)
            values = inverse @ (q.T @ right)
            left = right - stacked @ (values / scale)
            shifts, cut = independent_shifts([(q[a:b], left[a:b]) for a, b in pairwise(edges)])
            count = len(cut)
            covariance = (count - 1) / count * (inverse @ (shifts.T @ shifts) @ inverse.T)
            shares = np.array([np.sum((part @ inverse.T) ** 2, axis=0) for part, _ in cut])
            shares /= shares.sum(axis=0)
            pull = np.zeros((len(scale), len(sigma)))
            for j, (triangle, own) in enumerate(zip(self.whole(), self.base.joint_columns, strict=True)):
                pull[own, j] = triangle[:, :-1].T @ triangle[:, -1] / sigma[j] ** 2
            pull = inverse @ (inverse.T @ (pull / scale[:, None]))
        return ArmSolution(
            values / scale,
            covariance / np.outer(scale, scale),
            np.maximum(1.0 / np.sum(shares**2, axis=0) - 1.0, 1.0),
            condition,
            sigma,
            self.residual(values / scale),
            pull / scale[:, None],
            count,
        )

    def residual(self, values: Floats) -> Floats:
        """Root mean square (n,) these values leave per joint, not below what rounding can tell of its torque."""
        found = []
        for triangle, own, rows in zip(self.whole(), self.base.joint_columns, self.rows, strict=True):
            left = triangle[:, -1] - triangle[:, :-1] @ values[own]
            found.append(max(float(left @ left), (LEAST_SHARE * float(np.linalg.norm(triangle[:, -1]))) ** 2) / rows)
        return np.sqrt(np.array(found))


def _triangle(parts: Sequence[Floats]) -> Floats:
    rows = np.concatenate(parts) if len(parts) != 1 else parts[0]
    return np.asarray(np.linalg.qr(rows, mode="r")) if len(rows) > rows.shape[1] else rows


def _stacked(base: BaseParameters, block: Sequence[Floats], sigma: Floats) -> tuple[Floats, Floats]:
    """Weighted rows of all joints in all base columns, and response."""
    rows = np.zeros((sum(len(triangle) for triangle in block), base.count))
    first = 0
    for triangle, own, weight in zip(block, base.joint_columns, sigma, strict=True):
        rows[first : first + len(triangle), own] = triangle[:, :-1] / weight
        first += len(triangle)
    return rows, np.concatenate([triangle[:, -1] / weight for triangle, weight in zip(block, sigma, strict=True)])


def stacked(base: BaseParameters, triangles: Sequence[Floats], sigma: Floats) -> tuple[Floats, Floats]:
    """Reduce weighted triangles of all joints to one: ``R`` (b, b) and ``y`` (b,) without what no fit can reach."""
    rows, right = _stacked(base, triangles, sigma)
    with single_thread():
        triangle = np.asarray(np.linalg.qr(np.column_stack([rows, right]), mode="r"))
    return triangle[: base.count, :-1], triangle[: base.count, -1]


__all__ = ["ArmSolution", "ArmTriangles", "stacked"]
