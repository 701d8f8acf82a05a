"""The zero-phase low-pass of :class:`~bench.identify.filtering.LowPass` on wide rows that stream by.

Only the rows that decimation keeps are computed, each as a weighted sum of its neighbours (the filter's impulse
response, cut where it has fallen to a millionth). So a block of a regressor costs one matrix product, nothing is
computed twice where blocks meet, and memory holds the rows that are still open.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.identify.filtering import LowPass

Floats = NDArray[np.float64]

LONGEST_BLOCK = 1024


def impulse_response(band: LowPass, rate_hz: float) -> Floats:
    """(2 L + 1,) weights of a row's neighbours, L of them on each side; they sum to one."""
    reach = band.settle(rate_hz)
    impulse = np.zeros(4 * reach + 1)
    impulse[2 * reach] = 1.0
    found = band.smooth(impulse, rate_hz)[reach : 3 * reach + 1]
    return np.asarray(found / found.sum())


class StreamedBand:
    """One stretch goes in block by block, what is kept comes out.

    Parameters
    ----------
    band : LowPass
    rate_hz : float
    columns : int
    first_index : int
        Index of the stretch's first row in its record: kept are multiples of the decimation there.
    """

    def __init__(self, band: LowPass, rate_hz: float, columns: int, first_index: int = 0) -> None:
        self.weights = impulse_response(band, rate_hz)
        self.reach = len(self.weights) // 2
        self.step = band.step(rate_hz)
        self.block = self.step * max(1, min(LONGEST_BLOCK, 2 * self.reach) // self.step)
        self._at = first_index
        self._next = -(-(first_index + self.reach) // self.step) * self.step
        """The first kept row that is not finished."""
        self._open = np.zeros((0, columns))
        self._matrices: dict[tuple[int, int, int], Floats] = {}

    def add(self, rows: Floats) -> Iterator[tuple[int, Floats]]:
        """Take rows (k, columns) in; yields the index of the first finished row and finished rows (m, columns)."""
        for start in range(0, len(rows), self.block):
            yield self._add(rows[start : start + self.block])

    def _add(self, rows: Floats) -> tuple[int, Floats]:
        end = self._at + len(rows)
        count = max(0, -(-(end + self.reach - self._next) // self.step))  # kept rows these rows reach
        if count > len(self._open):
            more = np.zeros((count - len(self._open), self._open.shape[1]))
            self._open = np.concatenate([self._open, more])
        if count:
            self._open[:count] += self._matrix(self._next - self._at, count, len(rows)) @ rows
        self._at = end
        done = min(len(self._open), max(0, -(-(end - self.reach - self._next) // self.step)))
        first, finished = self._next, self._open[:done]
        self._open = self._open[done:].copy()
        self._next += done * self.step
        return first, finished

    def _matrix(self, ahead: int, count: int, rows: int) -> Floats:
        key = (ahead, count, rows)
        if key not in self._matrices:
            kept = ahead + self.step * np.arange(count)[:, None]
            lag = np.arange(rows)[None, :] - kept + self.reach
            inside = (lag >= 0) & (lag < len(self.weights))
            if len(self._matrices) > 4:
                self._matrices.clear()
            self._matrices[key] = np.where(inside, self.weights[np.clip(lag, 0, len(self.weights) - 1)], 0.0)
        return self._matrices[key]


__all__ = ["StreamedBand", "impulse_response"]
