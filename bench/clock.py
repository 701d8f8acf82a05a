"""Time as an instrument: the lab's monotonic wall clock behind the same protocol as the twin's clock."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable


@runtime_checkable
class Clock(Protocol):
    """What a procedure may ask of time. Nanoseconds are monotonic, their zero is arbitrary."""

    simulated: bool

    def now_ns(self) -> int:
        """Return the monotonic time in ns."""
        ...

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Return no earlier than ``deadline_ns``; at once if that has passed."""
        ...


class WallClock:
    """The machine's monotonic clock."""

    simulated = False

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def sleep_until_ns(self, deadline_ns: int) -> None:
        remaining = deadline_ns - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining * 1e-9)


def sleep(clock: Clock, seconds: float) -> None:
    """Sleep ``seconds`` [s] on ``clock``."""
    clock.sleep_until_ns(clock.now_ns() + round(seconds * 1e9))


def tick_wait(clock: Clock) -> Callable[[int], None]:
    """Return how to sleep until a deadline [ns] in a loop whose thread then talks to an instrument, and to nobody else.

    A simulated clock may offer ``ride_until_ns`` and let the waiting ride on that next message: the time it tells in
    between is the same, and one round trip is saved.
    """
    wait: Callable[[int], None] = getattr(clock, "ride_until_ns", clock.sleep_until_ns)
    return wait
