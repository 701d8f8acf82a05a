"""Linear least squares on records of any length: rows stream in, triangles stay, and the stated s.d. is honest.

::

    regression = StreamedLeastSquares(("inertia", "viscous"))
    for columns, response in pieces:
        regression.add(columns, response)
    fit = regression.solve()
    fit.estimate("viscous", "N.m.s/rad", "rotational_damping")

Every block of rows is reduced to the triangle of its QR factorisation, so memory does not grow with the record. The
blocks' triangles hold all that the answer and its covariance need: what a block says against the others' answer is
known exactly from its triangle (delete-one-block jackknife).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.blas import single_thread
from bench.identify.estimate import Estimate

Floats = NDArray[np.float64]

BLOCKS = 32
"""Blocks the covariance is made of: between this and twice as many, once the record is long enough."""
BLOCK_ROWS = 32
FEWEST_BLOCKS = 4
CHUNK = 1024
RANK = 1e-9
"""Columns are told apart when the smallest singular value of the scaled regressor exceeds this share of the largest."""
LEVERAGE = 1e-3
"""Where one block alone decides a coefficient its residual says nothing: its share counts as 99.9 % at most."""
NEIGHBOURS = 1.0
FEWEST_MERGED = 8
"""Neighbouring blocks are merged while they agree more than chance (in standard deviations), down to this many."""


@dataclass(frozen=True)
class LinearFit:
    """Least-squares coefficients of named columns.

    Parameters
    ----------
    names : tuple of str
        Of the p columns whose coefficients were fitted.
    values : (p,) float64
    covariance : (p, p) float64
        Of ``values``; the scatter of the record's blocks, so correlated residuals and misfit are in it, and what the
        fixed coefficients' uncertainties add.
    degrees_of_freedom : (p,) float64
        Blocks that share the information on a coefficient, less one.
    condition_number : float
        Of the regressor with columns scaled to unit length.
    rows, blocks : int
    residual_rms, response_rms : float
        Root mean square of the (weighted) residual and response.
    effective_rows : float
        Rows of independent residuals that would give the same covariance.
    fixed : mapping of str to Estimate
        Coefficients that were not fitted but given.
    """

    names: tuple[str, ...]
    values: Floats
    covariance: Floats
    degrees_of_freedom: Floats
    condition_number: float
    rows: int
    blocks: int
    residual_rms: float
    response_rms: float
    effective_rows: float
    fixed: Mapping[str, Estimate]

    def value(self, name: str) -> float:
        """Coefficient of a column, fitted or fixed."""
        return self.fixed[name].value if name in self.fixed else float(self.values[self.names.index(name)])

    def estimate(self, name: str, unit: str, kind: str) -> Estimate:
        """Coefficient with its uncertainty in the unit its column and the response imply."""
        if name in self.fixed:
            return self.fixed[name]
        i = self.names.index(name)
        return Estimate(
            float(self.values[i]), math.sqrt(self.covariance[i, i]), unit, kind, float(self.degrees_of_freedom[i])
        )

    def derived(self, value: float, gradient: Mapping[str, float], unit: str, kind: str) -> Estimate:
        """A function of fitted coefficients with its uncertainty to first order; ``gradient`` by column name."""
        slope = np.array([gradient.get(name, 0.0) for name in self.names])
        used = [self.degrees_of_freedom[i] for i in np.flatnonzero(slope)]
        u = math.sqrt(max(float(slope @ self.covariance @ slope), 0.0))
        return Estimate(value, u, unit, kind, float(min(used, default=math.inf)))


class StreamedLeastSquares:
    """Rows in, triangles kept.

    Parameters
    ----------
    names : sequence of str
        Of the regressor's columns.
    block_rows : int
        Rows of the smallest block. Blocks are made of consecutive rows and merged in pairs as the record grows. Take a
        period of the motion where there is one; a block must be much longer than residuals stay correlated.
    blocks : int
        Fewest blocks kept of a long record.
    """

    def __init__(self, names: Sequence[str], *, block_rows: int = BLOCK_ROWS, blocks: int = BLOCKS) -> None:
        self.names = tuple(names)
        self.rows = 0
        self._most = 2 * blocks
        self._target = block_rows
        self._triangles: list[Floats] = []
        self._open: Floats | None = None
        self._open_rows = 0
        self._waiting: list[Floats] = []
        self._waiting_rows = 0

    def add(self, columns: Floats, response: Floats, weight: Floats | float | None = None) -> None:
        """Take rows in.

        Parameters
        ----------
        columns : (n, p) float64
        response : (n,) float64
        weight : (n,) float64 or float, optional
            One over the standard deviation of each row (weighted least squares).

        Raises
        ------
        Refused
            ``not_finite``.
        """
        rows = np.column_stack([columns, response])
        if not np.isfinite(rows).all():
            faulty = np.flatnonzero(~np.isfinite(rows).all(axis=0))
            bad = [(*self.names, "response")[i] for i in faulty]
            raise Refused(
                f"values that are no numbers in {', '.join(bad)}",
                reason="not_finite",
                where="regression",
                remedy="Leave those samples out of the record",
            )
        if weight is not None:
            rows *= np.broadcast_to(weight, len(rows))[:, None]
        self.rows += len(rows)
        with single_thread():
            while len(rows):
                # Reduced at fixed places of the record, so how it was cut into pieces does not show in the last bit.
                take = min(min(CHUNK, self._target - self._open_rows) - self._waiting_rows, len(rows))
                self._waiting.append(rows[:take])
                self._waiting_rows += take
                rows = rows[take:]
                if self._waiting_rows == min(CHUNK, self._target - self._open_rows):
                    self._reduce()

    def _reduce(self) -> None:
        parts = self._waiting if self._open is None else [self._open, *self._waiting]
        self._open = _triangle(np.concatenate(parts))
        self._open_rows += self._waiting_rows
        self._waiting, self._waiting_rows = [], 0
        if self._open_rows == self._target:
            self._triangles.append(self._open)
            self._open, self._open_rows = None, 0
            if len(self._triangles) == self._most:
                pairs = zip(self._triangles[::2], self._triangles[1::2], strict=True)
                self._triangles = [_triangle(np.concatenate(pair)) for pair in pairs]
                self._target *= 2

    def triangles(self) -> list[Floats]:
        """Triangles of all blocks; a last block of less than half the others' rows goes with the one before."""
        found = list(self._triangles)
        parts = ([] if self._open is None else [self._open]) + self._waiting
        if parts:
            last = _triangle(np.concatenate(parts))
            if found and self._open_rows + self._waiting_rows < self._target // 2:
                found[-1] = _triangle(np.concatenate([found[-1], last]))
            else:
                found.append(last)
        return found

    def solve(self, fixed: Mapping[str, Estimate] | None = None) -> LinearFit:
        """Return the coefficients; those in ``fixed`` are given and only add their uncertainty.

        Raises
        ------
        Refused
            ``too_few_rows``; ``rank_deficient`` with the names of the columns that cannot be told apart.
        """
        given = {name: value for name, value in (fixed or {}).items() if name in self.names}
        free = tuple(name for name in self.names if name not in given)
        with single_thread():
            blocks = [self._split(triangle, free, given) for triangle in self.triangles()]
            if len(blocks) < FEWEST_BLOCKS or self.rows <= 2 * len(free):
                raise Refused(
                    f"{self.rows} rows in {len(blocks)} blocks are too few for {len(free)} coefficients and their s.d.",
                    reason="too_few_rows",
                    where="regression",
                    remedy="Record for longer or exclude less",
                )
            return self._solve(blocks, free, given)

    def _split(
        self, triangle: Floats, free: Sequence[str], given: Mapping[str, Estimate]
    ) -> tuple[Floats, Floats, Floats]:
        """Regressor (m, p), response (m,) less the fixed part, and fixed columns (m, f) of a block."""
        held = triangle[:, [self.names.index(name) for name in given]]
        response = triangle[:, -1] - held @ np.array([value.value for value in given.values()])
        return triangle[:, [self.names.index(name) for name in free]], response, held

    def _solve(
        self, blocks: list[tuple[Floats, Floats, Floats]], free: tuple[str, ...], given: Mapping[str, Estimate]
    ) -> LinearFit:
        stacked = [np.concatenate(parts) for parts in zip(*blocks, strict=True)]
        scale = np.linalg.norm(stacked[0], axis=0)
        condition = condition_number(stacked[0], scale, free)
        q, r = np.linalg.qr(stacked[0] / scale)
        inverse = np.linalg.inv(r)
        values = inverse @ (q.T @ stacked[1])
        residual = stacked[1] - stacked[0] @ (values / scale)
        square = float(residual @ residual)
        variance = square / max(self.rows - len(free), 1)
        # In the orthonormal coordinates of the whole record; q holds each block's part.
        edges = np.cumsum([0, *(len(block[1]) for block in blocks)])
        parts = [(q[a:b], residual[a:b]) for a, b in pairwise(edges)]
        shifts, parts = independent_shifts(parts)
        count = len(parts)
        covariance = (count - 1) / count * (inverse @ (shifts.T @ shifts) @ inverse.T)
        shares = np.array([np.sum((part @ inverse.T) ** 2, axis=0) for part, _ in parts])
        plain = variance * (inverse @ inverse.T)
        shares /= shares.sum(axis=0)
        freedom = np.maximum(1.0 / np.sum(shares**2, axis=0) - 1.0, 1.0)
        inflation = float(np.mean(covariance.diagonal() / np.maximum(plain.diagonal(), 1e-300)))
        if given:
            pull = inverse @ (q.T @ stacked[2]) * [value.standard_uncertainty for value in given.values()]
            covariance = covariance + pull @ pull.T
        return LinearFit(
            free,
            values / scale,
            covariance / np.outer(scale, scale),
            freedom,
            condition,
            self.rows,
            count,
            math.sqrt(square / self.rows),
            float(np.linalg.norm(stacked[1])) / math.sqrt(self.rows),
            self.rows / max(inflation, 1.0 / self.rows),
            dict(given),
        )

    def square_of_residual(self, fit: LinearFit) -> float:
        """Sum of squares of the residual these rows have under another fit's coefficients."""
        vector = np.array([*(-fit.value(name) for name in self.names), 1.0])
        return float(sum(np.sum((triangle @ vector) ** 2) for triangle in self.triangles()))

    def square_of_response(self) -> float:
        """Sum of squares of the response."""
        return float(sum(np.sum(triangle[:, -1] ** 2) for triangle in self.triangles()))


def _triangle(rows: Floats) -> Floats:
    return np.asarray(np.linalg.qr(rows, mode="r"))


def independent_shifts(parts: list[tuple[Floats, Floats]]) -> tuple[Floats, list[tuple[Floats, Floats]]]:
    """Shift of the answer when each block is left out (b, p); neighbours are merged until shifts are uncorrelated."""
    while True:
        shifts = np.array([_shift(part, residual) for part, residual in parts])
        lag = float(np.sum(shifts[1:] * shifts[:-1])) / max(float(np.sum(shifts**2)), 1e-300)
        if len(parts) < 2 * FEWEST_MERGED or lag < NEIGHBOURS / math.sqrt(shifts.size):
            return shifts, parts
        whole = len(parts) // 2 * 2
        pairs = [parts[i : i + 2] for i in range(0, whole, 2)]
        pairs[-1] = pairs[-1] + parts[whole:]
        parts = [(np.concatenate([p for p, _ in pair]), np.concatenate([r for _, r in pair])) for pair in pairs]


def _shift(part: Floats, residual: Floats) -> Floats:
    """Change of the answer when a block is left out, in the coordinates in which the whole regressor is orthonormal."""
    grip, axes = np.linalg.eigh(part.T @ part)
    shift: Floats = axes @ ((axes.T @ (part.T @ residual)) / np.maximum(1.0 - grip, LEVERAGE))
    return shift


def condition_number(regressor: Floats, scale: Floats, names: Sequence[str]) -> float:
    """Condition number of the scaled regressor, or the names of columns that cannot be told apart."""
    still = [name for name, length in zip(names, scale, strict=True) if length == 0.0]
    if still:
        raise _deficient(f"nothing in the record moves {', '.join(still)}: the column is zero throughout")
    _, values, axes = np.linalg.svd(regressor / scale, full_matrices=False)
    if values[-1] > RANK * values[0]:
        return float(values[0] / values[-1])
    null = np.abs(axes[values <= RANK * values[0]]).max(axis=0)
    alike = [name for name, part in zip(names, null, strict=True) if part > 0.05 * null.max()]
    raise _deficient(f"{' and '.join(alike)} cannot be told apart: their columns are linearly dependent")


def _deficient(what: str) -> Refused:
    return Refused(
        what,
        reason="rank_deficient",
        where="regression",
        remedy="Excite them apart (other speeds, positions, accelerations), state one of them, or leave one out",
    )


__all__ = ["LinearFit", "StreamedLeastSquares", "condition_number", "independent_shifts"]
