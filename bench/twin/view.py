"""What a rig of one kind shows of itself to the control calls and the report."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class RigView(Protocol):
    """One rig, seen from outside; every method with the world's lock held."""

    def state(self) -> dict[str, Any]:
        """What the rig does now, for people and for JSON."""
        ...

    def truth(self, request: dict[str, Any]) -> dict[str, Any]:
        """The truth as drawn from the seed and as it is now; ``request`` may ask for more."""
        ...

    def history(self) -> dict[str, Floats]:
        """Name with unit → value at every tick up to now, shape (n_ticks,) each."""
        ...

    def safe_since(self, since_ns: int) -> int | None:
        """Since when [ns], not before ``since_ns``, the rig has been safe; None when it is not."""
        ...

    def aftermath(self, since_ns: int) -> dict[str, Any]:
        """What the report adds about the time since ``since_ns``."""
        ...


def still_since(values: Floats, since_ns: int, tick_ns: int, within: float, final: float | None = None) -> int | None:
    """Since when [ns], not before ``since_ns``, ``values`` (by tick) have been within ``within`` of ``final``.

    ``final`` is their last by default. None when they got there less than 0.1 s before the end.
    """
    first = min(max(0, since_ns // tick_ns), values.size - 1)
    away = np.nonzero(np.abs(values[first:] - (values[-1] if final is None else final)) > within)[0]
    there = first if away.size == 0 else first + int(away[-1]) + 1
    if away.size and (values.size - there) * tick_ns < 100_000_000:
        return None
    return max(since_ns, there * tick_ns)
