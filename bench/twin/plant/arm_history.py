"""What the arm did, tick by tick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_state import places

Floats = NDArray[np.float64]


class ArmHistory:
    """Figures of every tick, growing: joint and axis positions, motor torque, wrench, contact force.

    Parameters
    ----------
    axes : int
        Number of joints.
    """

    def __init__(self, axes: int) -> None:
        self._from = places(axes)
        self._columns: dict[str, slice] = {}
        width = 0
        for name, place in self._from.items():
            self._columns[name] = slice(width, width + place.stop - place.start)
            width += place.stop - place.start
        self._table = np.empty((4096, width))
        self._stored = 0
        self._fresh: list[Floats] = []

    def __len__(self) -> int:
        return self._stored + len(self._fresh)

    def add(self, values: Floats) -> None:
        """Append a tick: the array of its state, which must not change any more."""
        self._fresh.append(values)
        if len(self._fresh) > _KEPT:
            self._store()

    def _store(self) -> None:
        if not self._fresh:
            return
        new, end = np.array(self._fresh), len(self)
        if end > len(self._table):
            grown = np.empty((max(end, 2 * len(self._table)), self._table.shape[1]))
            grown[: self._stored] = self._table[: self._stored]
            self._table = grown
        for name, place in self._from.items():
            self._table[self._stored : end, self._columns[name]] = new[:, place]
        self._fresh = []
        self._stored = end

    def column(self, name: str) -> Floats:
        """Return (ticks, k) of one figure; one that is single is (ticks,)."""
        self._store()
        values: Floats = self._table[: self._stored, self._columns[name]]
        return values[:, 0] if name == "contact_force" else values


_KEPT = 1000  # states whose arrays are kept whole
