"""What several folders of unit tests simulate with."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray


def _reachable(root: object) -> list[tuple[str, object]]:
    """Every object that public names lead to, inside the bench's own classes, with its path."""
    found: list[tuple[str, object]] = []
    seen: set[int] = set()
    queue: list[tuple[str, object]] = [("station", root)]
    while queue:
        path, item = queue.pop()
        if id(item) in seen:
            continue
        seen.add(id(item))
        found.append((path, item))
        if isinstance(item, dict):
            queue += [(f"{path}[{key!r}]", value) for key, value in item.items()]
        elif type(item).__module__.startswith("bench.") and not type(item).__module__.startswith("bench.profile"):
            for name in dir(item):
                if not name.startswith("_"):
                    value = getattr(item, name)
                    queue.append((f"{path}.{name}", getattr(value, "__self__", value) if callable(value) else value))
    return found


@pytest.fixture(scope="session")
def reachable() -> Callable[[object], list[tuple[str, object]]]:
    """``reachable(station)``: every object that public names lead to, inside the bench's own classes, with its path."""
    return _reachable


@pytest.fixture(scope="session")
def relaxing() -> Callable[..., NDArray[np.float64]]:
    """Force of relaxing tissue along a whole record, rests and all, by a plain second-order scheme.

    Takes the time (n,), the elastic force of the tool's depth (n,), zero out of the tissue, shares and times [s].
    Off the tool the surface creeps back at zero force. Nothing of it is shared with what is tested.
    """

    def force(
        time_s: NDArray[np.float64], elastic_N: NDArray[np.float64], g: Sequence[float], tau_s: Sequence[float]
    ) -> NDArray[np.float64]:
        steps = np.diff(time_s)
        decay = np.exp(-steps[:, None] / np.asarray(tau_s)).tolist()
        half = (np.asarray(g) * np.exp(-0.5 * steps[:, None] / np.asarray(tau_s))).tolist()
        left, surface, state = 1.0 - sum(g), 0.0, [0.0] * len(g)
        found = [0.0]
        for e, q, wanted in zip(decay, half, elastic_N[1:].tolist(), strict=True):
            faded = [a * h for a, h in zip(e, state, strict=True)]
            # F = left * x + sum(faded + q (x - surface)), solved for x where the tool is off
            free = (sum(q) * surface - sum(faded)) / (left + sum(q))
            now = max(wanted, free, 0.0)
            state = [h + b * (now - surface) for h, b in zip(faded, q, strict=True)]
            surface = now
            found.append(left * now + sum(state) if wanted > free else 0.0)
        return np.array(found)

    return force
