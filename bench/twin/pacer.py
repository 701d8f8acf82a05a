"""Real-time mode: a thread that lets world time follow the wall clock and wakes whoever is due."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

LONGEST_NAP_NS = 20_000_000
"""A parked client that is interrupted and calls again is noticed after this at the latest."""


class PacedWorld(Protocol):
    """What a pacer asks of the world whose time it moves."""

    lock: Any
    fault: str | None

    @property
    def now_ns(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def move_to(self, time_ns: int) -> None: ...

    def release_due(self) -> None: ...

    def next_ns(self) -> int | None: ...


class Pacer:
    """Moves a world's time. All but :meth:`start`, :meth:`stop` and :meth:`wait_free` with the world's lock held."""

    def __init__(self, world: PacedWorld) -> None:
        self._world = world
        self._condition = threading.Condition(world.lock)
        self._zero_ns: int | None = None
        self._wakes_ns = 0
        self._thread = threading.Thread(target=self._run, name="twin-pacer", daemon=True)

    def start(self) -> None:
        """World time runs from here on."""
        with self._world.lock:
            if self._zero_ns is None:
                self._zero_ns = time.monotonic_ns() - self._world.now_ns
                self._thread.start()

    def stop(self) -> None:
        """End the thread; the world must have been marked closed."""
        with self._world.lock:
            self._condition.notify()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join(5.0)

    def catch_up(self) -> None:
        """Bring world time to the wall clock's, event by event."""
        if self._zero_ns is not None:
            self._world.move_to(time.monotonic_ns() - self._zero_ns)

    def expect(self, time_ns: int) -> None:
        """Something is due at ``time_ns``: wake up earlier when that is before the planned wake-up."""
        if time_ns < self._wakes_ns:
            self._condition.notify()

    def wait_free(self, until_ns: int, stop: Callable[[], bool]) -> None:
        """Wait until ``stop()`` or ``until_ns``, whatever the members do."""
        world = self._world
        while True:
            with world.lock:
                self.catch_up()
                if world.closed or world.fault is not None or world.now_ns >= until_ns or stop():
                    return
            time.sleep(0.02)

    def _run(self) -> None:
        world, zero_ns = self._world, self._zero_ns or 0
        with world.lock:
            while not world.closed:
                self.catch_up()
                world.release_due()
                upcoming = world.next_ns()
                now = time.monotonic_ns() - zero_ns
                self._wakes_ns = now + LONGEST_NAP_NS if upcoming is None else min(upcoming, now + LONGEST_NAP_NS)
                if self._wakes_ns > now:
                    self._condition.wait((self._wakes_ns - now) * 1e-9)
