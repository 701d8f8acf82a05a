"""The twin's world: one clock, one lock, one timer heap, and the rule of who may run.

Virtual time moves only when every registered participant is parked; then exactly one of them is let go: the one with
the earliest wake-up, then the one registered first. So a run depends on nothing but the calls it makes. Observers
(passive members) may look and wait, but time does not wait for them.

>>> world = SimWorld(tick_ns=1_000_000)
>>> runner = world.register("runner")
>>> world.park(runner, until_ns=5_000_000)
False
>>> world.now_ns
5000000
"""

from __future__ import annotations

import heapq
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from bench.errors import TwinError
from bench.twin.members import Member, SimTimer, Waiter, member_of
from bench.twin.pacer import Pacer

FREE_CALL_LIMIT = 5000
"""Calls a participant may make without world time moving; more is polling that can never end."""
STALL_WALL_S = 120.0
"""Wall time a parked participant waits for the others to park before it gives up loudly."""
LOG_LINES = 200_000
_FOR_EVER = "every participant waits for something that no event can bring"


class SimWorld:
    """See the module's docstring; implements :class:`bench.twin.interfaces.World`.

    Parameters
    ----------
    tick_ns : int
        Period of the plant's tick [ns].
    real_time : bool
        Pace world time to the wall clock instead of letting it jump. :meth:`start` starts the pacer.
    """

    def __init__(self, *, tick_ns: int = 1_000_000, real_time: bool = False) -> None:
        self.tick_ns = tick_ns
        self.real_time = real_time
        self.free_call_limit = FREE_CALL_LIMIT
        self.stall_wall_s = STALL_WALL_S
        self.lock = threading.RLock()
        self.log: deque[tuple[int, str, bytes]] = deque(maxlen=LOG_LINES)
        self.members: dict[int, Member] = {}
        self.lost: str | None = None
        self.lost_ns = 0
        self.fault: str | None = None
        self.on_lost: list[Callable[[str], None]] = []
        self.on_idle: list[Callable[[], None]] = []
        self.foreseen = False
        """A device looked at what is on its way to it: there is something to work ahead even without an answer."""
        self.largest_gap_s = 0.0
        self.largest_gap_at_ns = 0
        self._now = 0
        self._heap: list[tuple[int, int, SimTimer]] = []
        self._sequence = 0
        self._orders = 0
        self._waiters: list[Waiter] = []
        self._handled = threading.Condition(self.lock)
        self.closed = False
        self._pacer = Pacer(self) if real_time else None

    def work_ahead(self) -> None:
        """Virtual time, once a client has what it waited for: let the plant do beforehand what it will be asked for."""
        if self.on_idle and not self.real_time:
            with self.lock:
                self.foreseen = False
                if self.fault is None:
                    try:
                        for action in self.on_idle:
                            action()
                    except Exception as error:
                        self.fail(error)

    # -- clock and timers ---------------------------------------------------------------------------------------------

    @property
    def now_ns(self) -> int:
        """World time [ns]."""
        return self._now

    def at(self, time_ns: int, action: Callable[[], None]) -> SimTimer:
        """Run ``action`` under the lock at ``time_ns``; at the end of the present call when that has passed."""
        timer = SimTimer(action)
        self._sequence += 1
        heapq.heappush(self._heap, (max(time_ns, self._now), self._sequence, timer))
        if self._pacer is not None:
            self._pacer.expect(time_ns)
        return timer

    def note(self, text: str) -> None:
        """Add a line to the world's log, which is part of what two equal runs must have in common."""
        self.log.append((self._now, text, b""))

    def _run_due(self) -> None:
        heap = self._heap
        while heap and heap[0][0] <= self._now:
            timer = heapq.heappop(heap)[2]
            action, timer.action = timer.action, None
            if action is None:
                continue
            try:
                action()
            except Exception as error:
                self.fail(error)
                return

    def move_to(self, time_ns: int) -> None:
        """Let time pass up to ``time_ns``, event by event."""
        heap = self._heap
        while heap and heap[0][0] <= time_ns and self.fault is None:
            if heap[0][0] > self._now:
                self._now = heap[0][0]
            self._run_due()
        if time_ns > self._now:
            self._now = time_ns

    # -- members ------------------------------------------------------------------------------------------------------

    def register(
        self,
        name: str,
        *,
        passive: bool = False,
        pid: int | None = None,
        anonymous: bool = False,
        watchdog: bool = False,
    ) -> Member:
        """Add a member. It counts as running at once: call :meth:`await_turn` before it acts when it is not alone."""
        with self.lock:
            self._orders += 1
            passive = passive or watchdog
            member = Member(name, self._orders, passive=passive, anonymous=anonymous, pid=pid, watchdog=watchdog)
            self.members[member.order] = member
            self._settle_anonymous()
            if not passive and not anonymous:
                self.note(f"register {name}")
            return member

    def await_turn(self, member: Member) -> None:
        """Park until it is ``member``'s turn: all others are parked and none is due earlier."""
        with self.lock:
            self._park(member, self._now, None)

    def leave(self, member: Member) -> None:
        """Remove a member in good order."""
        with self.lock:
            if self.members.pop(member.order, None) is None:
                return
            member.gone = True
            if not member.passive and not member.anonymous:
                self.note(f"leave {member.name}")
            self._abandon(member, "the participant left")
            self._settle_anonymous()
            self._schedule()

    def lose(self, member: Member, why: str) -> None:
        """A member went away without a word. For a participant this latches until :meth:`reset`.

        A watchdog is served all the same; in virtual time, which nobody else moves then, time waits for it.
        """
        with self.lock:
            if self.members.pop(member.order, None) is None:
                return
            member.gone = True
            self._abandon(member, why)
            if not member.passive and not member.anonymous and self.lost is None:
                self.lost = f"participant {member.name!r} was lost at {self._now * 1e-9:.6f} s: {why}"
                self.lost_ns = self._now
                self.note(f"lost {member.name}: {why}")
                self._release_all(self.lost)
                for action in self.on_lost:
                    action(self.lost)
            self._hand_over()
            self._settle_anonymous()
            self._schedule()

    def _hand_over(self) -> None:
        if self.lost is not None and not self.real_time:
            for member in self.members.values():
                member.passive = member.passive and not member.watchdog

    @property
    def guarded(self) -> bool:
        """Whether a watchdog is there, who has not said yet that it is done."""
        with self.lock:
            return any(member.watchdog for member in self.members.values())

    def reset(self) -> None:
        """Forget a lost owner, so that the next runner may come. A fault inside the twin stays."""
        with self.lock:
            self.lost = None
            for member in self.members.values():
                member.passive = member.passive or member.watchdog
            self.note("reset")

    def _settle_anonymous(self) -> None:
        known = any(not m.passive and not m.anonymous for m in self.members.values())
        for member in self.members.values():
            if member.anonymous:
                member.passive = known

    # -- calls --------------------------------------------------------------------------------------------------------

    def begin(self, member: Member) -> None:
        """Start of a call of ``member`` (lock held): what is due runs first, then the latches are checked."""
        if self._pacer is not None:
            self._pacer.catch_up()
        elif self._heap and self._heap[0][0] <= self._now:
            self._run_due()
        if member.parked and not member.anonymous:  # many threads may share an anonymous one
            self._abandon(member, "its client gave up and called again")
        if member.idle_since_s is not None:
            gap = time.perf_counter() - member.idle_since_s
            member.idle_since_s = None
            if gap > self.largest_gap_s:
                self.largest_gap_s, self.largest_gap_at_ns = gap, self._now
        self.check(member)

    def end(self, member: Member) -> None:
        """End of a call of ``member`` (lock held): what became due now runs, and real-time waits are seen to."""
        if self._heap and self._heap[0][0] <= self._now:
            self._run_due()
        if not member.passive:
            member.idle_since_s = time.perf_counter()
        if self.real_time:
            self.release_due()

    @contextmanager
    def turn(self, member: Member) -> Iterator[None]:
        """Hold the lock for one call of ``member``."""
        with self.lock:
            self.begin(member)
            try:
                yield
            finally:
                self.end(member)

    def check(self, member: Member) -> None:
        """Raise :class:`bench.errors.TwinError` when the twin failed or the owner was lost."""
        if self.fault is not None:
            raise TwinError(
                self.fault, where="twin", remedy="this is a defect of the twin: see its log, start a new one"
            )
        if not member.passive:
            if self.lost is not None and not member.watchdog:
                raise TwinError(
                    self.lost, where="twin", remedy="reset the twin (control call `reset`) or start a new one"
                )
            if member.gone:
                raise TwinError(
                    f"participant {member.name!r} is no longer registered", where="twin", remedy="register it"
                )

    def free_call(self, participant: object, what: str) -> None:
        """Count a call that costs no world time.

        Raises
        ------
        TwinError
            After ``free_call_limit`` calls without time moving: the client polls and never waits.
        """
        member = member_of(participant)
        if self.real_time or member.passive:
            return
        if member.free_since_ns != self._now:
            member.free_since_ns = self._now
            member.free_calls = 0
        member.free_calls += 1
        if member.free_calls > self.free_call_limit:
            raise TwinError(
                f"{member.free_calls} calls at {self._now * 1e-9:.6f} s without world time moving; the last was {what}",
                where=f"twin participant {member.name!r}",
                remedy="calls cost no virtual time, so a loop that only polls never ends: wait in it (clock, read)",
            )

    def handled(self, member: Member) -> None:
        """One more link frame of ``member`` was handled (lock held)."""
        member.handled += 1
        if member.awaited:
            self._handled.notify_all()

    def await_handled(self, member: Member, count: int, wall_s: float = 10.0) -> None:
        """Wait (wall time, lock released) until ``count`` link frames of ``member`` were handled."""
        deadline = time.monotonic() + wall_s
        member.awaited = True
        try:
            while member.handled < count:
                left = deadline - time.monotonic()
                if left <= 0 or member.gone:
                    raise TwinError(
                        f"link frame {count} of participant {member.name!r} did not arrive (have {member.handled})",
                        where="twin",
                        remedy="the participant's link is broken: start again",
                    )
                self._handled.wait(left)
        finally:
            member.awaited = False

    # -- waiting ------------------------------------------------------------------------------------------------------

    def park(self, participant: object, *, until_ns: int | None, ready: Callable[[], bool] | None = None) -> bool:
        """Block until ``ready()`` or ``until_ns``; returns whether ``ready()`` held. See the interface."""
        if until_ns is None and ready is None:
            raise TwinError("a wait has neither a deadline nor a condition", where="twin")
        member = member_of(participant)
        with self.lock:
            self.check(member)
            if self._pacer is not None:
                self._pacer.catch_up()
            elif self._heap and self._heap[0][0] <= self._now:
                self._run_due()
            if ready is not None and ready():
                self.free_call(member, "a wait that was over at once")
                return True
            if until_ns is not None and until_ns <= self._now:
                self.free_call(member, "a wait until a time that has passed")
                return False
            if self._pacer is None and not self._waiters and self._alone(member):
                return self._move_alone(member, until_ns, ready)
            return self._park(member, until_ns, ready)

    def _alone(self, member: Member) -> bool:
        """Whether ``member`` is the only participant."""
        for other in self.members.values():
            if not other.passive and other is not member:
                return False
        return not member.passive

    def _move_alone(self, member: Member, until_ns: int | None, ready: Callable[[], bool] | None) -> bool:
        """Park the only participant while nobody else waits: what :meth:`_schedule` would do, and nothing but that."""
        heap = self._heap
        while True:
            while heap and heap[0][2].action is None:
                heapq.heappop(heap)
            time_ns = heap[0][0] if heap else until_ns
            if until_ns is not None and (time_ns is None or until_ns < time_ns):
                time_ns = until_ns
            if time_ns is None:
                self.fail(TwinError(_FOR_EVER))
            else:
                if time_ns > self._now:
                    self._now = time_ns
                self._run_due()
            held = False
            over = self.fault or (None if member.watchdog else self.lost)
            if over is None and ready is not None:
                try:
                    held = ready()
                except Exception as error:
                    self.fail(error)
                    over = self.fault
            if over is not None:
                raise TwinError(over, where="twin")
            if held or (until_ns is not None and until_ns <= self._now):
                return held

    def _park(self, member: Member, until_ns: int | None, ready: Callable[[], bool] | None) -> bool:
        waiter = Waiter(member, until_ns, ready)
        self._waiters.append(waiter)
        member.parked += 1
        self._schedule()
        if not waiter.released:
            waiter.condition = threading.Condition(self.lock)
            deadline = time.monotonic() + self.stall_wall_s
            if self.real_time and until_ns is not None:
                deadline += max(0, until_ns - self._now) * 1e-9
            while not waiter.released:
                if not waiter.condition.wait(max(0.0, deadline - time.monotonic())) and not waiter.released:
                    self._release(waiter, self._stalled(member))
        if waiter.error is not None:
            raise TwinError(waiter.error, where="twin")
        return waiter.held

    def _stalled(self, member: Member) -> str:
        running = ", ".join(repr(m.name) for m in self.members.values() if not m.passive and not m.parked)
        return (
            f"{member.name!r} waited {self.stall_wall_s:g} s of wall time while {running or 'nobody'} kept time from "
            "moving; hand over between participants with the link's signal and wait, not with a plain queue or event"
        )

    def _release(self, waiter: Waiter, error: str | None = None) -> None:
        self._waiters.remove(waiter)
        waiter.member.parked -= 1
        waiter.released = True
        waiter.error = error
        if waiter.condition is not None:
            waiter.condition.notify()

    def _release_all(self, error: str) -> None:
        for waiter in [w for w in self._waiters if not w.member.passive]:
            self._release(waiter, error)

    def _abandon(self, member: Member, why: str) -> None:
        for waiter in [w for w in self._waiters if w.member is member]:
            self._release(waiter, f"the wait of {member.name!r} was given up: {why}")

    def _due(self, waiter: Waiter) -> bool:
        held = False
        if waiter.ready is not None:
            try:
                held = waiter.ready()
            except Exception as error:
                self.fail(error)
                return False
        waiter.held = held
        if not held and (waiter.until_ns is None or waiter.until_ns > self._now):
            waiter.wake_ns = None
            return False
        if waiter.wake_ns is None:
            waiter.wake_ns = self._now if held or waiter.until_ns is None else waiter.until_ns
        return True

    def release_due(self) -> None:
        """Let go all that are due (real time) or only the observers among them (virtual time)."""
        for waiter in list(self._waiters):
            if (self.real_time or waiter.member.passive) and not waiter.released and self._due(waiter):
                self._release(waiter)

    def _schedule(self) -> None:
        """Virtual time: while everybody is parked, let go the next one, moving time as far as that needs."""
        if self._pacer is not None:
            self.release_due()
            self._pacer.expect(self.next_ns() or 0)
            return
        while self.fault is None:
            active = 0
            for member in self.members.values():
                if self.lost is not None and not member.watchdog:
                    continue  # of a runner that is gone
                if not member.passive:
                    if not member.parked:
                        return
                    active += 1
            if not active:
                return
            first: Waiter | None = None
            for waiter in self._waiters if len(self._waiters) == 1 else list(self._waiters):
                if waiter.released or not self._due(waiter):
                    continue
                if waiter.member.passive:
                    self._release(waiter)
                elif first is None or (waiter.wake_ns, waiter.member.order) < (first.wake_ns, first.member.order):
                    first = waiter
            if first is not None:
                if not first.released:  # a failure has let everybody go
                    self._release(first)
                return
            time_ns = self.next_ns()
            if time_ns is None:
                self.fail(TwinError(_FOR_EVER))
                return
            if time_ns > self._now:
                self._now = time_ns
            self._run_due()

    def next_ns(self) -> int | None:
        """When [ns] something is due next, if anything is."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heapq.heappop(heap)
        best = heap[0][0] if heap else None
        for waiter in self._waiters:
            if waiter.until_ns is not None and (best is None or waiter.until_ns < best):
                best = waiter.until_ns
        return best

    # -- failures, free run, real time --------------------------------------------------------------------------------

    def fail(self, error: BaseException) -> None:
        """Latch a failure inside the twin: every call from now on says so."""
        if self.fault is not None:
            return
        text = "".join(traceback.format_exception(error))
        print(text, file=sys.stderr, flush=True)
        self.fault = f"twin_fault at {self._now * 1e-9:.6f} s: {type(error).__name__}: {error}"
        self.note(self.fault)
        for waiter in list(self._waiters):
            self._release(waiter, self.fault)
        self._handled.notify_all()

    def run_free(self, until_ns: int, stop: Callable[[], bool], step_ns: int = 10_000_000) -> None:
        """Let time pass with nobody waiting, until ``stop()`` or ``until_ns``; lock released between steps."""
        if self._pacer is not None:
            self._pacer.wait_free(until_ns, stop)
            return
        while True:
            with self.lock:
                if self.fault is not None or self._now >= until_ns or stop():
                    return
                self.move_to(min(until_ns, self._now + step_ns))

    def start(self) -> None:
        """Let the pacer of real-time mode start; in virtual time nothing needs starting."""
        if self._pacer is not None:
            self._pacer.start()

    def close(self) -> None:
        """End the pacer and let every waiter go with an error."""
        with self.lock:
            self.closed = True
            for waiter in list(self._waiters):
                self._release(waiter, "the twin is closing")
        if self._pacer is not None:
            self._pacer.stop()
