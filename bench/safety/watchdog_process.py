"""The watchdog's process: when the runner breaks its promise or is gone, it takes the rig's power and looks after it.

It is started before the rig first gets power, in a session of its own, ignores Ctrl-C, hang-up and SIGTERM, and ends
when it is told to, or once it has dealt with the loss of its runner. What it does then, in this order:

1. The shared memory says *tripped*: the next beat of a runner that still lives raises.
2. The brake line and the enable line go low, by tasks made beforehand on a DAQ session of its own; they are read back.
   When they cannot be driven the runner is killed, since it may hold them, and it is tried again, at last by a device
   reset.
3. A runner that lives gets a short while to make itself safe, which it says by taking its promise back. One that is
   stopped (SIGSTOP), or does not come round, is killed: it holds the ports, and would go on one day.
   A runner that is stopped or gives no sign of life while the rig has no power is killed as well, after a longer while.
4. The drives are opened by the same drivers, told to stop and asked whether they have.
5. What was found is recorded.

It takes one argument, JSON: ``memory`` (path), ``runner`` (process id), ``timeout_s``, ``grace_s``, ``hands``
(``module:function`` that is given all of this and returns :class:`Hands`), and what that function needs.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bench.safety.watchdog import Promises

#: How long a runner that lives may take to come round after the line was dropped [s]; its own waits end before that.
GRACE_S = 3.0
#: It never gets longer than this altogether [s].
LONGEST_GRACE_S = 60.0
#: How often a promise is looked at, as a share of the timeout, and within which bounds [s].
POLL_SHARE, LEAST_POLL_S, LONGEST_POLL_S = 0.25, 0.005, 0.25
#: Tries to drop the line, and the pause between two [s].
ATTEMPTS, PAUSE_S = 5, 0.01
#: How long the system may take to bury a killed runner [s].
DEATH_S = 5.0

#: A runner may be stopped so long (SIGSTOP, Ctrl-Z) while the rig has no power [s].
STOPPED_S = 10.0
#: It may give no sign of life so long then: its interpreter hangs in a call that lets no thread run [s].
LIFELESS_S = 30.0

Steps = list[tuple[str, bool, str]]


class Hands(Protocol):
    """What the process can do to a rig. Everything may raise, and is bounded in time."""

    def drop(self) -> None:
        """Drive the lines that let the rig have power low."""
        ...

    def high(self) -> bool:
        """Read the lines back: whether one of them is high."""
        ...

    def reset(self) -> None:
        """Reset what drives the lines, so that they return to their state at power-up."""
        ...

    def settle(self) -> Steps:
        """Open the drives, tell them to stop and look; called when the runner is gone. (step, went well, detail)."""
        ...

    def record(self, outcome: Outcome) -> None:
        """Keep what was found where people and the next runner find it."""
        ...

    def close(self) -> None: ...


@dataclass
class Outcome:
    """What became of a trip: why, what was done, and whether the rig was seen safe."""

    why: str
    runner: int
    safe: bool = False
    acknowledged: bool = False
    killed: bool = False
    low_after_s: float | None = None
    steps: Steps = field(default_factory=list)

    def __str__(self) -> str:
        steps = "; ".join(f"{name}: {'ok' if ok else 'FAILED'} {detail}".rstrip() for name, ok, detail in self.steps)
        return f"{self.why}; the rig is {'safe' if self.safe else 'NOT SAFE'} ({steps})"


class Runner:
    """The process that is watched."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._handle: int | None = None
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(ProcessLookupError):
                self._handle = os.pidfd_open(pid)

    def wait(self, seconds: float) -> bool:
        """Wait for its end, at most ``seconds`` [s]; whether it has ended."""
        if self._handle is not None:
            return bool(select.select([self._handle], [], [], max(0.0, seconds))[0])
        deadline = time.monotonic() + seconds
        while self._exists():
            if time.monotonic() >= deadline:
                return False
            time.sleep(0.01)
        return True

    def _exists(self) -> bool:
        if os.name != "posix":
            return True  # its end of the pipe tells
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        return True

    @property
    def handle(self) -> int | None:
        return self._handle

    def stopped(self) -> bool:
        """Whether the system says that it is stopped; False where it cannot be asked."""
        try:
            state = Path(f"/proc/{self.pid}/stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            return False
        return state in "Tt"

    def kill(self) -> bool:
        """Kill it; whether it is gone then."""
        with contextlib.suppress(ProcessLookupError):
            if self._handle is not None and hasattr(signal, "pidfd_send_signal"):
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        return self.wait(DEATH_S)


class Watch:
    """Keeps a runner to its promises.

    Parameters
    ----------
    promises : Promises
    hands : Hands
    runner : Runner
    news : queue of str
        ``"quit"``, ``"gone"``.
    timeout_s, grace_s : float
    stopped_s, lifeless_s : float
        How long a runner may be stopped or give no sign of life while the rig has no power [s].
    """

    def __init__(
        self,
        promises: Promises,
        hands: Hands,
        runner: Runner,
        news: queue.SimpleQueue[str],
        *,
        timeout_s: float,
        grace_s: float = GRACE_S,
        stopped_s: float = STOPPED_S,
        lifeless_s: float = LIFELESS_S,
    ) -> None:
        self._promises = promises
        self._hands = hands
        self._runner = runner
        self._news = news
        self._grace_s = grace_s
        self._poll_s = min(LONGEST_POLL_S, max(LEAST_POLL_S, POLL_SHARE * timeout_s))
        self._stopped_s, self._lifeless_s = stopped_s, lifeless_s
        self._kept = ""
        self.outcomes: list[Outcome] = []

    def run(self) -> None:
        """Watch until told to quit, or until the loss of the runner has been dealt with."""
        promises = self._promises
        while True:
            now_ns = time.monotonic_ns()
            promises.look(now_ns)
            due_ns = promises.promise_ns
            if due_ns != Promises.NONE and now_ns > due_ns:
                why = f"the runner's promise was broken ({(now_ns - due_ns) * 1e-6:.1f} ms ago)"
                if promises.gave_up:
                    why = "the runner could not bring the enable line low"
                if self._trip(why, due_ns):
                    continue
                return
            if due_ns == Promises.NONE and (why := self._idles_badly(now_ns)):
                self._end_idle(why)
                return
            wait_s = self._poll_s
            if due_ns != Promises.NONE:
                wait_s = min(wait_s, (due_ns - now_ns) * 1e-9 + 1e-4)
            news = self._next(wait_s)
            if news == "quit" and promises.promise_ns == Promises.NONE:
                return
            if news:
                why = "the runner ended while the rig had power" if news == "quit" else "the runner is gone"
                self._lose(why)
                return

    def _next(self, seconds: float) -> str:
        kept, self._kept = self._kept, ""
        if kept:
            return kept
        try:
            return self._news.get(timeout=max(1e-4, seconds))
        except queue.Empty:
            return ""

    # -- while the rig has no power

    def _idles_badly(self, now_ns: int) -> str:
        """Say why a runner that drives nothing is to be ended, or nothing."""
        lifeless_s = (now_ns - self._promises.alive_ns) * 1e-9
        if lifeless_s >= self._stopped_s and self._runner.stopped():
            return f"the runner has been stopped for {lifeless_s:.0f} s while it drove nothing"
        if lifeless_s >= self._lifeless_s and not self._runner.wait(0.0):
            return f"the runner has given no sign of life for {lifeless_s:.0f} s while it drove nothing"
        return ""

    def _end_idle(self, why: str) -> None:
        """End a runner that holds ports and leases and will not use them; look after the rig as after any loss."""
        outcome = Outcome(why, self._runner.pid)
        self.outcomes.append(outcome)
        self._promises.tripped = True  # should the system be slow to end it
        self._kill(outcome)
        dropped = self._drop(why, mercy=True)
        self.outcomes.remove(dropped)
        outcome.steps += dropped.steps
        outcome.low_after_s = dropped.low_after_s
        self._settle(outcome)

    # -- what is done when a promise is broken

    def _trip(self, why: str, promise_ns: int) -> bool:
        """Drop the line of a runner that may live; whether it came round, so that it is watched on."""
        outcome = self._drop(why, mercy=self._promises.gave_up)
        if self._promises.gave_up or self._comes_round(promise_ns):
            self._promises.promise_ns = Promises.NONE
            outcome.acknowledged = True
            outcome.safe = outcome.low_after_s is not None
            self._tell(outcome)
            return True
        self._kill(outcome)
        self._settle(outcome)
        return False

    def _lose(self, why: str) -> None:
        gone = why == "the runner is gone"
        outcome = self._drop(why, mercy=not gone)
        if gone:
            self._settle(outcome)
        else:  # it has the drives, and says itself what became of them
            outcome.acknowledged = True
            outcome.safe = outcome.low_after_s is not None
            self._tell(outcome)

    def _drop(self, why: str, *, mercy: bool) -> Outcome:
        """Bring the lines low; a runner that may hold them is killed for it, unless it is shown ``mercy``."""
        began_ns = time.monotonic_ns()
        self._promises.tripped = True
        outcome = Outcome(why, self._runner.pid)
        self.outcomes.append(outcome)
        for attempt in range(ATTEMPTS):
            try:
                self._hands.drop()
                high = self._hands.high()
                outcome.steps.append(("drop the enable line", not high, "it still reads high" if high else ""))
                if not high:
                    outcome.low_after_s = (time.monotonic_ns() - began_ns) * 1e-9
                    return outcome
            except Exception as error:
                outcome.steps.append(("drop the enable line", False, f"{type(error).__name__}: {error}"))
                if attempt == 0 and not mercy:
                    self._kill(outcome)
            if attempt == ATTEMPTS - 2 and self._runner.wait(0.0):
                _attempt(outcome.steps, "reset the DAQ", self._hands.reset)
            time.sleep(PAUSE_S)
        return outcome

    def _kill(self, outcome: Outcome) -> None:
        if self._runner.wait(0.0):
            return
        outcome.killed = True
        gone = self._runner.kill()
        outcome.steps.append(("kill the runner", gone, "" if gone else "the system has not ended it"))

    def _comes_round(self, promise_ns: int) -> bool:
        """Whether the runner takes its promise back within its grace; new promises on the way say that it lives."""
        promises = self._promises
        began = time.monotonic()
        deadline = began + self._grace_s
        while True:
            due_ns = promises.promise_ns
            if due_ns == Promises.NONE:
                return True
            if due_ns > promise_ns:
                promise_ns = due_ns
                deadline = min(max(deadline, due_ns * 1e-9 + self._grace_s), began + LONGEST_GRACE_S)
            if time.monotonic() >= deadline or self._runner.stopped():
                return False
            if news := self._next(LEAST_POLL_S):
                self._kept = news
                return promises.promise_ns == Promises.NONE
            promises.look(time.monotonic_ns())

    def _settle(self, outcome: Outcome) -> None:
        dropped = outcome.low_after_s is not None
        try:
            found = self._hands.settle()
        except Exception as error:
            found = [("look after the drives", False, f"{type(error).__name__}: {error}")]
        outcome.steps += found
        outcome.safe = dropped and all(ok for _, ok, _ in found)
        self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        print(f"watchdog: {outcome}", file=sys.stderr, flush=True)
        try:
            self._hands.record(outcome)
        except Exception:
            traceback.print_exc()


def _attempt(steps: Steps, name: str, action: Callable[[], object]) -> None:
    try:
        action()
    except Exception as error:
        steps.append((name, False, f"{type(error).__name__}: {error}"))
    else:
        steps.append((name, True, ""))


# -- the process ------------------------------------------------------------------------------------------------------


def main(argv: list[str] | None = None, *, parent: int | None = None) -> int:
    """Run a watchdog by the order in ``argv``; returns the process's exit code."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP", "SIGBREAK"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    order: dict[str, Any] = json.loads((sys.argv[1:] if argv is None else argv)[0])
    try:
        runner = Runner(order["runner"])
        promises = Promises(Path(order["memory"]))
        promises.unlink()
        module, _, name = order["hands"].partition(":")
        hands: Hands = getattr(importlib.import_module(module), name)(order)
    except Exception as error:
        traceback.print_exc()
        _say({"event": "failed", "error": f"{type(error).__name__}: {error}"})
        return 2
    news: queue.SimpleQueue[str] = queue.SimpleQueue()
    promises.look(time.monotonic_ns())
    watch = Watch(
        promises,
        hands,
        runner,
        news,
        timeout_s=order["timeout_s"],
        **{key: order[key] for key in ("grace_s", "stopped_s", "lifeless_s") if key in order},
    )
    _say({"event": "ready", "pid": os.getpid()})
    _thread(lambda: _listen(news), "watchdog-line")
    _thread(lambda: _wait_for_end(runner, news), "watchdog-runner")
    try:
        watch.run()
    finally:
        with contextlib.suppress(Exception):
            hands.close()
    return 0 if all(outcome.safe for outcome in watch.outcomes) else 1


def _listen(news: queue.SimpleQueue[str]) -> None:
    """Hear what the runner says, and the end of its line."""
    for line in sys.stdin:
        if line.strip() == "quit":
            news.put("quit")
            return
    news.put("gone")


def _wait_for_end(runner: Runner, news: queue.SimpleQueue[str]) -> None:
    """A process that the runner has forked may hold its line open: its end is seen by the system's own handle too."""
    if runner.handle is not None:
        while not runner.wait(1.0):
            pass
        news.put("gone")


def _thread(target: Callable[[], None], name: str) -> None:
    threading.Thread(target=target, name=name, daemon=True).start()


def _say(message: dict[str, Any]) -> None:
    with contextlib.suppress(OSError):
        print(json.dumps(message), flush=True)


def described(outcome: Outcome) -> dict[str, Any]:
    """Return an outcome as plain data, for a ledger."""
    return asdict(outcome)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # a thread sits in a read of standard input
