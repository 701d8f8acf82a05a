"""The runner's side of the watchdog: promises to be heard of again, kept by a process of its own.

::

    watchdog = start_watchdog(order, timeout_s=0.1, stop_time_s=0.25)
    interlock = Interlock(estop, enable, guard=watchdog)      # arms it before the line goes high
    while running:
        watchdog.beat()                                       # at every pass of the control loop itself
        ...
    interlock.drop()                                          # reads the line back, then asks for no more beats

A beat is a promise: "the next one comes before this instant". It is one aligned store of eight bytes into memory that
both processes see, so it costs a control loop a fraction of a microsecond, and nothing but the loop itself does it: a
thread would go on feeding while the loop hangs. *No promise* means that the enable line is low and nothing can happen.
The process (:mod:`bench.safety.watchdog_process`) looks at the promise and at whether this process is still there. When
either is broken it drops the enable line by a DAQ task of its own.

While the rig has no power a thread says every second that this program still runs at all. One that is stopped or hangs
then does no harm, but it holds the leases and ports of the rig: the process ends it after some time.

No promise reaches further than the rig's stated stop time less what the process itself needs, so the stated time holds
whatever the caller asks for.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from bench.clock import Clock
from bench.errors import ProcessError, SafetyAbort
from bench.spawn import Child, spawn

#: What the process itself may need from a broken promise to a low line [s]: a wake-up and a call of the DAQ.
REACTION_S = 0.05
#: On a simulated rig whose time stands still while this program computes, promises are given in wall time [s].
VIRTUAL_TIMEOUT_S = 30.0
#: How long a process that is told to end may take, and one that has not looked for so long counts as gone [s].
END_WALL_S, SILENT_WALL_S = 5.0, 2.0
#: How often this program says that it runs, whatever it does [s].
ALIVE_S = 1.0
#: What its process imports.
MODULES = ("bench.safety.watchdog_process",)

_PROMISE, _TRIPPED, _LOOKED, _GAVE_UP, _ALIVE = range(5)
_SIZE = 64


class Guard(Protocol):
    """What the interlock asks of a watchdog."""

    def arm(self) -> None:
        """The enable line is about to go high. Raises when nobody would watch it."""
        ...

    def rest(self) -> None:
        """The enable line reads low: there is nothing to watch."""
        ...


class Promises:
    """The memory both processes share. Times are of the machine's monotonic clock [ns].

    Attributes
    ----------
    path : Path
        The file behind it; the process removes it once it has opened it.
    """

    NONE = (1 << 63) - 1
    """No promise: the enable line is low."""

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self.path = path
        flags = os.O_RDWR | (os.O_CREAT | os.O_EXCL if create else 0)
        file = os.open(path, flags, 0o600)
        try:
            if create:
                os.ftruncate(file, _SIZE)
            self._map = mmap.mmap(file, _SIZE)
        finally:
            os.close(file)
        self.view = memoryview(self._map).cast("q")
        if create:
            self.view[_PROMISE] = self.NONE
            self.live()

    @classmethod
    def create(cls) -> Promises:
        """Make the memory, in a file that never has to reach a disk where the system offers that."""
        shared = Path("/dev/shm")
        folder = shared if os.access(shared, os.W_OK) else Path(tempfile.gettempdir())
        return cls(folder / f"bench-watchdog-{os.getpid()}-{os.urandom(6).hex()}", create=True)

    @property
    def promise_ns(self) -> int:
        """Before when the next beat was promised, or :attr:`NONE`."""
        return self.view[_PROMISE]

    @promise_ns.setter
    def promise_ns(self, time_ns: int) -> None:
        self.view[_PROMISE] = time_ns

    @property
    def tripped(self) -> bool:
        """Whether the process has dropped the line since the rig was last given power."""
        return bool(self.view[_TRIPPED])

    @tripped.setter
    def tripped(self, tripped: bool) -> None:
        self.view[_TRIPPED] = int(tripped)

    @property
    def gave_up(self) -> bool:
        """Whether the runner has tried itself and could not bring the line low; it lives, and says so to people."""
        return bool(self.view[_GAVE_UP])

    @gave_up.setter
    def gave_up(self, gave_up: bool) -> None:
        self.view[_GAVE_UP] = int(gave_up)

    @property
    def looked_ns(self) -> int:
        """When the process last looked."""
        return self.view[_LOOKED]

    def look(self, now_ns: int) -> None:
        """Note that the process looks now."""
        self.view[_LOOKED] = now_ns

    @property
    def alive_ns(self) -> int:
        """When the runner last said that it runs."""
        return self.view[_ALIVE]

    def live(self) -> None:
        """Say that the runner runs."""
        self.view[_ALIVE] = time.monotonic_ns()

    def unlink(self) -> None:
        """Remove the file; whoever has it open keeps the memory."""
        with contextlib.suppress(OSError):  # Windows removes no open file: the runner does it when it closes
            self.path.unlink()

    def close(self) -> None:
        """Let go of the memory."""
        self.view.release()
        self._map.close()
        self.unlink()


class Unwatched:
    """Stands for a watchdog where there is none: gates and loops that are tested without a rig."""

    pid: int | None = None
    timeout_s = longest_s = VIRTUAL_TIMEOUT_S
    tripped = False

    def arm(self) -> None:
        pass

    def rest(self) -> None:
        pass

    def beat(self) -> None:
        pass

    def keep(self, seconds: float = 0.0) -> None:
        pass

    def give_up(self) -> None:
        pass

    def check(self) -> None:
        pass

    def close(self) -> None:
        pass


class Watchdog(Unwatched):
    """A running watchdog. Made by :func:`start_watchdog`.

    Parameters
    ----------
    child : Child
        Its process.
    promises : Promises
    timeout_s : float
        How long a beat is good for [s].
    longest_s : float
        No promise reaches further than this [s].

    Attributes
    ----------
    beat : callable
        ``beat()`` promises the next one within ``timeout_s``, and raises :class:`SafetyAbort` (``"watchdog"``) when the
        process has dropped the line. Well below a microsecond.
    """

    def __init__(self, child: Child, promises: Promises, *, timeout_s: float, longest_s: float) -> None:
        self._child = child
        self._promises = promises
        self._ready = False
        self.timeout_s, self.longest_s = timeout_s, longest_s
        self._closed = threading.Event()
        self._life = threading.Thread(target=self._live, name="watchdog-life", daemon=True)
        self._life.start()
        self.beat = _beat(promises, round(timeout_s * 1e9), self._raise_tripped)  # type: ignore[method-assign]

    def _live(self) -> None:
        # A thread is right here and nowhere else: this is about a program that is stopped, not about its loop.
        while not self._closed.wait(ALIVE_S):
            self._promises.live()

    @property
    def tripped(self) -> bool:  # type: ignore[override]
        """Whether it has dropped the enable line since the rig was last given power."""
        return self._promises.tripped

    @property
    def armed(self) -> bool:
        """Whether a promise is out."""
        return self._promises.promise_ns != Promises.NONE

    # -- promises

    def arm(self) -> None:
        """Give the first promise, before the enable line goes high.

        Raises
        ------
        SafetyAbort
            ``"watchdog_lost"``: its process did not start, or is not there any more.
        """
        if not self._ready:
            self._await_ready()
        self._alive()
        self._promises.tripped = self._promises.gave_up = False
        self._promise(self.longest_s)  # the first calls of a session take their time

    def rest(self) -> None:
        """Give no promise any more: the enable line was seen to be low."""
        self._promises.promise_ns = Promises.NONE

    def keep(self, seconds: float = 0.0) -> None:
        """Promise to be back from a wait of ``seconds`` [s], where a promise is out at all. Never raises.

        For waits that have an end of their own: a read of so many samples, a sleep, the way to the safe state.
        """
        if self._promises.promise_ns != Promises.NONE:
            self._promise(seconds)

    def give_up(self) -> None:
        """Leave the line to the watchdog: this program could not bring it low. Nothing when no promise is out."""
        if self._promises.promise_ns != Promises.NONE:
            self._promises.gave_up = True
            self._promises.promise_ns = time.monotonic_ns()

    def _promise(self, seconds: float) -> None:
        ahead_s = min(self.timeout_s + seconds, self.longest_s)
        self._promises.promise_ns = time.monotonic_ns() + round(ahead_s * 1e9)

    # -- what became of it

    def check(self) -> None:
        """Raise :class:`SafetyAbort` when it has tripped (``"watchdog"``) or is gone (``"watchdog_lost"``).

        For once a block; a beat sees the trip alone.
        """
        if self._promises.tripped:
            self._raise_tripped()
        if self._ready:
            self._alive()

    def _alive(self) -> None:
        silent_s = (time.monotonic_ns() - self._promises.looked_ns) * 1e-9
        if self._child.poll() is None and silent_s <= SILENT_WALL_S + 0.5 * self.timeout_s:
            return
        raise SafetyAbort(
            "the watchdog process has ended"
            if self._child.poll() is not None
            else f"the watchdog process has not looked for {silent_s:.1f} s",
            reason="watchdog_lost",
            where="watchdog",
            remedy="Look for who ended or stopped it, then open the station anew: nothing moves unwatched.",
        )

    def _raise_tripped(self) -> None:
        raise SafetyAbort(
            f"the control loop was not heard of within its promise ({self.timeout_s:g} s), so the watchdog has dropped "
            "the enable line",
            reason="watchdog",
            where="watchdog",
            remedy="Look for what held the loop up: other load on the machine, a slow port, swapping.",
        )

    def _await_ready(self) -> None:
        line = self._child.first_line()
        try:
            told: dict[str, Any] = json.loads(line)
        except json.JSONDecodeError:
            told = {"error": f"it did not announce itself, it said {line!r}"}
        if told.get("event") != "ready":
            raise SafetyAbort(
                f"the watchdog did not start: {told.get('error', told)}",
                reason="watchdog_lost",
                where="watchdog",
                remedy="See its standard error; without it the rig gets no power.",
            )
        self.pid = told["pid"]
        self._ready = True

    def close(self) -> None:
        """End its process. One that still has a promise makes the rig safe before it ends."""
        try:
            with contextlib.suppress(SafetyAbort):
                if not self._ready:
                    self._await_ready()
            self._child.quit()
            if self._child.wait(END_WALL_S) is None:
                raise ProcessError(
                    f"the watchdog did not end within {END_WALL_S:g} s",
                    where=f"process {self.pid}",
                    remedy="It may be making the rig safe: look at the rig before you end it.",
                )
        finally:
            self._closed.set()
            self._life.join(END_WALL_S)
            self._child.close()
            self._promises.close()


def _beat(promises: Promises, timeout_ns: int, tripped: Callable[[], None]) -> Callable[[], None]:
    view, now_ns = promises.view, time.monotonic_ns

    def beat() -> None:
        view[_PROMISE] = now_ns() + timeout_ns
        if view[_TRIPPED]:
            tripped()

    return beat


class FedClock:
    """A clock whose sleepers are heard of, for drivers and the way to the safe state.

    A driver that waits for an axis sleeps between its questions: each sleep is a pass of that loop, so it promises to
    be back from it. A driver asks the time before each exchange, which has a deadline: that is such a pass as well, or
    a bus with many servos would take longer to be met than a promise lasts. Where no promise is out none is given.
    """

    def __init__(self, clock: Clock, watchdog: Unwatched) -> None:
        self._clock = clock
        self._watchdog = watchdog
        self.simulated = clock.simulated
        self._slice_ns = round(max(0.5 * watchdog.longest_s, watchdog.longest_s - watchdog.timeout_s) * 1e9)

    def now_ns(self) -> int:
        self._watchdog.keep()
        return self._clock.now_ns()

    def sleep_until_ns(self, deadline_ns: int) -> None:
        watchdog = self._watchdog
        while (left_ns := deadline_ns - self._clock.now_ns()) > self._slice_ns:
            watchdog.keep(self._slice_ns * 1e-9)
            self._clock.sleep_until_ns(self._clock.now_ns() + self._slice_ns)
        watchdog.keep(max(0, left_ns) * 1e-9)
        self._clock.sleep_until_ns(deadline_ns)
        watchdog.keep()


def start_watchdog(
    order: dict[str, object],
    *,
    timeout_s: float,
    stop_time_s: float,
    modules: tuple[str, ...] = (),
    preloaded: bool = True,
) -> Watchdog:
    """Start a watchdog's process; it need not be ready before the rig gets power.

    Parameters
    ----------
    order : dict
        What :mod:`bench.safety.watchdog_process` is told beside what is added here.
    timeout_s, stop_time_s : float
        How long a beat is good for, and the rig's stated time [s].
    modules : tuple of str
        What its process should have imported beside itself.

    Raises
    ------
    ProcessError
        It could not be started.
    """
    promises = Promises.create()
    longest_s = max(timeout_s, stop_time_s - REACTION_S)
    told = {"memory": str(promises.path), "runner": os.getpid(), "timeout_s": timeout_s, **order}
    try:
        child = spawn(MODULES[0], [json.dumps(told)], preload=(*MODULES, *modules), preloaded=preloaded)
    except BaseException:
        promises.close()
        raise
    return Watchdog(child, promises, timeout_s=timeout_s, longest_s=longest_s)
