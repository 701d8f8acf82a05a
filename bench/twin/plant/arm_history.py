"""What the arm did, tick by tick."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_state import ArmState

Floats = NDArray[np.float64]


class ArmHistory:
    """Figures of every tick, growing: joint and axis positions, motor torque, wrench, contact force.

    Parameters
    ----------
    axes : int
        Number of joints.
    """

    def __init__(self, axes: int) -> None:
        self._axes = n = axes
        self._columns = {
            "axis_position": slice(0, n),
            "joint_position": slice(n, 2 * n),
            "motor_torque": slice(2 * n, 3 * n),
            "wrench": slice(3 * n, 3 * n + 6),
            "contact_force": slice(3 * n + 6, 3 * n + 7),
        }
        self._table = np.empty((4096, 3 * n + 7))
        self._stored = 0
        self._fresh: list[ArmState] = []

    def __len__(self) -> int:
        return self._stored + len(self._fresh)

    def add(self, state: ArmState) -> None:
        """Append a tick."""
        self._fresh.append(state)
        if len(self._fresh) > _KEPT:
            self._store()

    def _store(self) -> None:
        if not self._fresh:
            return
        n, fresh, end = self._axes, self._fresh, len(self)
        if end > len(self._table):
            grown = np.empty((max(end, 2 * len(self._table)), self._table.shape[1]))
            grown[: self._stored] = self._table[: self._stored]
            self._table = grown
        rows = self._table[self._stored : end]
        rows[:, : 2 * n] = np.array([state.values for state in fresh])[:, : 2 * n]
        rows[:, 2 * n : 3 * n] = [state.torque for state in fresh]
        rows[:, 3 * n : 3 * n + 6] = [state.felt for state in fresh]
        rows[:, -1] = [state.contact_force for state in fresh]
        self._fresh = []
        self._stored = end

    def column(self, name: str) -> Floats:
        """Return (ticks, k) of one figure; one that is single is (ticks,)."""
        self._store()
        values: Floats = self._table[: self._stored, self._columns[name]]
        return values[:, 0] if name == "contact_force" else values


_KEPT = 500  # states kept whole before their figures are taken out
