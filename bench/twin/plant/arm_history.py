"""What the arm did, tick by tick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class ArmHistory:
    """Rows of figures, one a tick, growing.

    Parameters
    ----------
    axes : int
        Number n of joints; a row is joint positions (n), axis positions (n), the wrench on the sensor (6), the motors'
        mean torque since the tick before (n), the contact force (1).
    """

    def __init__(self, axes: int) -> None:
        self.axes = n = axes
        self.width = 3 * n + 7
        self._places = {
            "joint_position": slice(0, n),
            "axis_position": slice(n, 2 * n),
            "wrench": slice(2 * n, 2 * n + 6),
            "motor_torque": slice(2 * n + 6, 3 * n + 6),
            "contact_force": slice(3 * n + 6, 3 * n + 7),
        }
        self._table = np.empty((4096, self.width))
        self._stored = 0
        self._fresh: list[float] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, row: list[float]) -> None:
        """Append a tick."""
        self._fresh += row
        self._count += 1
        if len(self._fresh) > 200_000:
            self._store()

    def _store(self) -> None:
        if not self._fresh:
            return
        new = np.array(self._fresh).reshape(-1, self.width)
        self._fresh = []
        end = self._stored + len(new)
        if end > len(self._table):
            grown = np.empty((max(end, 2 * len(self._table)), self.width))
            grown[: self._stored] = self._table[: self._stored]
            self._table = grown
        self._table[self._stored : end] = new
        self._stored = end

    def column(self, name: str) -> Floats:
        """Return (ticks, k) of one figure; one that is single is (ticks,)."""
        self._store()
        place = self._places[name]
        values: Floats = self._table[: self._stored, place]
        return values[:, 0] if name == "contact_force" else values
