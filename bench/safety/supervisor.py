"""Owns the signals that would end the process, and the hard deadline of a run.

pytest and plain Python run no teardown on SIGTERM or SIGHUP, so the rig cannot rely on one. While a station is open its
supervisor takes these signals:

- *Between runs* the rig is made safe, then the signal has its usual effect.
- *In a run* the signal is noted and raised as :class:`~bench.errors.SafetyAbort` at the next block (at most a block
  later, never in the middle of a frame on the wire). When no block comes within the grace time, or the signal is
  repeated, it is raised where the main thread stands. When even that has no effect (the thread hangs in a C call), the
  enable line is dropped from the supervisor's own thread.
  One that comes after the last block leaves the run whole and is dealt with at its end, as between runs.
- *While the rig is being made safe* signals are only noted.

While a station is being opened there is no supervisor yet, and the enable line may be high already: a joint's drive has
to have its supply before it can be asked who it is. :class:`SignalsWhileOpening` covers that time.

A process that is killed outright cannot do any of this: see ``docs/safety.md``.
"""

from __future__ import annotations

import _thread
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType, TracebackType
from typing import Any

from bench.clock import Clock
from bench.errors import SafetyAbort

#: Wall time the run has to come to its next block before it is interrupted where it stands [s].
GRACE_S = 1.0
#: How the reason of a run begins that a signal ended.
_SIGNAL = "signal_"

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))


class SignalsWhileOpening:
    """Let a signal undo what was opened so far before it has its usual effect; a context manager around the opening.

    The signal is raised as :class:`KeyboardInterrupt` where the main thread stands; one that comes while that unwinds
    is only noted. A supervisor that is entered inside takes over, and restores what was there before.
    """

    def __init__(self) -> None:
        self.found: dict[int, Any] = {}
        self._received: list[int] = []

    def __enter__(self) -> SignalsWhileOpening:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                self.found[number] = signal.getsignal(number)
                signal.signal(number, self)
        return self

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self._received.append(number)
        if len(self._received) == 1:
            raise KeyboardInterrupt(f"{signal.Signals(number).name} while the station was being opened")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self.found.items():
            if signal.getsignal(number) is self:
                signal.signal(number, signal.SIG_DFL if handler is None else handler)
        if self._received:
            signal.raise_signal(self._received[0])


class Supervisor:
    """Signals and deadlines of one station; a context manager that restores the handlers it found.

    Python delivers signals to the main thread only: opened in another thread the supervisor leaves the handlers alone
    and keeps the deadline and the last resort.

    Parameters
    ----------
    clock : Clock
        The station's time, in which run deadlines are given.
    make_safe : callable
        ``make_safe(reason)`` brings the rig to its safe state; called for signals between runs.
    last_resort : callable
        Drops the enable line; called from another thread when the run does not react.
    further_check : callable, optional
        Called by :meth:`check`, once a block; raises what else ends the run: the watchdog's word.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        make_safe: Callable[[str], object],
        last_resort: Callable[[], None],
        grace_s: float = GRACE_S,
        further_check: Callable[[], None] = lambda: None,
    ) -> None:
        self._clock = clock
        self._make_safe = make_safe
        self._last_resort = last_resort
        self._grace_s = grace_s
        self._further_check = further_check
        self._found: dict[int, Any] = {}
        self._shield = 0
        self._running = False
        self._main_thread = threading.current_thread() is threading.main_thread()
        self._deadline_ns: int | None = None
        self._deadline_s = 0.0
        self._pending: tuple[str, str] | None = None
        self._own_signals = 0
        self._acknowledged = threading.Event()
        self._timers: list[threading.Timer] = []
        self.received: list[str] = []

    # -- handlers

    def __enter__(self) -> Supervisor:
        if self._main_thread:
            for number in SIGNALS:
                found = signal.getsignal(number)
                self._found[number] = found.found[number] if isinstance(found, SignalsWhileOpening) else found
                signal.signal(number, self._on_signal)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()

    def _restore(self) -> None:
        while self._found:
            number, handler = self._found.popitem()
            # None stands for a handler that C code installed: Python cannot put it back.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        name = signal.Signals(number).name
        if self._own_signals and number == signal.SIGTERM:
            self._own_signals -= 1
            if self._running and not self._acknowledged.is_set():
                raise self._abort()
            return
        self.received.append(name)
        if self._shield:
            return
        if not self._running:
            self._end_process(number)
            return
        if self._pending is not None:
            raise self._abort()
        self._note(f"{_SIGNAL}{name}", f"the run was ended by {name}")

    def _end_process(self, number: int) -> None:
        """Make the rig safe, then let the signal have its usual effect."""
        with self.shielded():
            self._make_safe(f"{_SIGNAL}{signal.Signals(number).name}")
        self._restore()
        signal.raise_signal(number)

    # -- runs

    @contextlib.contextmanager
    def run(self, deadline_s: float, *, wall_deadline_s: float | None = None) -> Iterator[None]:
        """Supervise one run that may take ``deadline_s`` [s] of the station's clock.

        ``wall_deadline_s`` bounds the same run in the machine's own time (default: the same and a minute); it works
        even when a call never returns and :meth:`check` is not reached.
        """
        self._deadline_s = deadline_s
        self._deadline_ns = self._clock.now_ns() + round(deadline_s * 1e9)
        self._pending = None
        self.received.clear()  # what is told of the end of this run must not be of the one before
        self._acknowledged.clear()
        self._running = True
        self._after(deadline_s + 60.0 if wall_deadline_s is None else wall_deadline_s, self._on_wall_deadline)
        try:
            yield
        finally:
            self._running = False
            self._acknowledged.set()
            while self._timers:
                self._timers.pop().cancel()
        # Only reached by a run that nothing ended. A signal that came after the last block, while the archive was
        # sealed, ended none, nor did one raised where Python drops exceptions: its sender wants no further run either.
        self._make_up_for_signal()

    def _make_up_for_signal(self) -> None:
        if self._pending is not None and self._pending[0].startswith(_SIGNAL):
            self._end_process(signal.Signals[self._pending[0].removeprefix(_SIGNAL)])

    def end_run(self, reason: str, text: str) -> None:
        """End the present run as a signal would, from any thread: ``reason`` is its code, ``text`` what happened."""
        if self._running and self._pending is None:
            self._note(reason, text)

    def check(self, now_ns: int | None = None) -> None:
        """Raise what is pending: a signal (``"signal_SIGTERM"``), the passed deadline (``"deadline"``), a trip."""
        if self._pending is not None:
            raise self._abort()
        self._further_check()
        if self._deadline_ns is not None and self._running:
            now_ns = self._clock.now_ns() if now_ns is None else now_ns
            if now_ns > self._deadline_ns:
                self._pending = self._deadline_reason()
                raise self._abort()

    @contextlib.contextmanager
    def shielded(self) -> Iterator[None]:
        """Only note signals inside: nothing interrupts the way to the safe state."""
        self._shield += 1
        self._acknowledged.set()
        try:
            yield
        finally:
            self._shield -= 1

    # -- escalation, in timer threads

    def _after(self, seconds: float, action: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, action)
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _note(self, reason: str, text: str) -> None:
        self._pending = (reason, text)
        self._after(self._grace_s, self._interrupt)

    def _on_wall_deadline(self) -> None:
        if self._pending is None and not self._acknowledged.is_set():
            reason, text = self._deadline_reason()
            self._note(reason, text)

    def _interrupt(self) -> None:
        if self._acknowledged.is_set():
            return
        if self._found:
            # Counted, so that one that arrives just after the run has ended is not taken for a wish to end the process.
            self._own_signals += 1
            number = signal.SIGTERM
            if hasattr(signal, "pthread_kill"):
                # Sent to the thread, it also wakes it from a blocking system call.
                signal.pthread_kill(threading.main_thread().ident or 0, number)
            else:
                _thread.interrupt_main(number)
        self._after(self._grace_s, self._drop)

    def _drop(self) -> None:
        if not self._acknowledged.is_set():
            self._last_resort()

    def _deadline_reason(self) -> tuple[str, str]:
        return "deadline", f"the run did not end within its {self._deadline_s:.0f} s"

    def _abort(self) -> SafetyAbort:
        reason, text = self._pending or ("interrupted", "the run was interrupted")
        return SafetyAbort(text, reason=reason, where="supervisor", remedy="The rig was stopped; see the archive.")
