"""Signals and deadlines: the run ends at a block, the rig is made safe, the handlers come back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable

import pytest

from bench.clock import WallClock
from bench.errors import SafetyAbort
from bench.safety import Supervisor

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

NUMBERS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Rig:
    def __init__(self) -> None:
        self.made_safe: list[str] = []
        self.dropped = threading.Event()

    def supervisor(self, grace_s: float = 5.0) -> Supervisor:
        return Supervisor(WallClock(), make_safe=self.made_safe.append, last_resort=self.dropped.set, grace_s=grace_s)


def spin(seconds: float) -> None:
    """Keep the interpreter busy, as a loop that never comes to its next block."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def abort_of(supervisor: Supervisor, work: Callable[[], object]) -> SafetyAbort:
    """Do ``work`` in a run and return what ended it."""

    def run() -> None:
        with supervisor.run(60.0):
            work()

    with pytest.raises(SafetyAbort) as stopped:
        run()
    return stopped.value


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_in_a_run_is_raised_at_the_next_block(number: signal.Signals) -> None:
    rig = Rig()
    blocks: list[str] = []
    with rig.supervisor() as supervisor:

        def work() -> None:
            supervisor.check()
            os.kill(os.getpid(), number)
            blocks.append("finished")  # the block at hand is finished first: nothing is raised here
            supervisor.check()

        stopped = abort_of(supervisor, work)
    assert blocks == ["finished"]
    assert stopped.reason == f"signal_{number.name}"
    assert rig.made_safe == [], "in a run the procedure makes the rig safe, once"


@pytest.mark.parametrize("number", NUMBERS)
def test_a_signal_after_the_last_block_has_its_effect_when_the_run_ends(number: signal.Signals) -> None:
    rig, effects = Rig(), []
    before = signal.signal(number, lambda *_: effects.append(list(rig.made_safe)))
    try:
        with rig.supervisor() as supervisor:
            with supervisor.run(60.0):
                supervisor.check()
                os.kill(os.getpid(), number)  # no block comes any more: the archive is being sealed
                assert effects == []
            assert effects == [[f"signal_{number.name}"]], "the rig is safe first, then the signal acts"
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize("number", NUMBERS)
def test_the_handlers_that_were_there_come_back(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with Rig().supervisor():
        assert signal.getsignal(number) != before
    assert signal.getsignal(number) == before


def test_a_run_that_does_not_come_to_a_block_is_interrupted_where_it_stands() -> None:
    rig = Rig()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        spin(20.0)

    with rig.supervisor(grace_s=0.05) as supervisor:
        stopped = abort_of(supervisor, work)
    assert stopped.reason == "signal_SIGHUP"
    assert not rig.dropped.is_set()


def test_a_repeated_signal_interrupts_at_once() -> None:
    def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)

    with Rig().supervisor() as supervisor:
        assert abort_of(supervisor, work).reason == "signal_SIGINT"


def test_a_run_can_be_ended_from_another_thread_and_only_a_run() -> None:
    def work() -> None:
        ender = threading.Thread(target=supervisor.end_run, args=("lease_lost", "somebody else has the rig"))
        ender.start()
        ender.join(20.0)
        supervisor.check()

    with Rig().supervisor() as supervisor:
        supervisor.end_run("lease_lost", "there is no run")
        supervisor.check()
        stopped = abort_of(supervisor, work)
        assert (stopped.reason, stopped.what) == ("lease_lost", "somebody else has the rig")


def test_when_nothing_helps_the_enable_line_is_dropped_from_outside() -> None:
    rig = Rig()

    def work() -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        # A call that holds the interruption back, as a C library in a loop of its own would.
        try:
            rig.dropped.wait(20.0)
        except SafetyAbort:
            assert rig.dropped.wait(20.0)
            raise

    with rig.supervisor(grace_s=0.05) as supervisor:
        abort_of(supervisor, work)
    assert rig.dropped.is_set()


def test_signals_on_the_way_to_the_safe_state_are_only_noted() -> None:
    rig = Rig()
    with rig.supervisor() as supervisor, supervisor.run(60.0), supervisor.shielded():
        os.kill(os.getpid(), signal.SIGTERM)
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
    assert supervisor.received == ["SIGTERM", "SIGINT"]
    with supervisor.run(60.0):
        assert supervisor.received == []  # they were of the run before


def test_a_run_has_a_deadline_on_its_own_clock() -> None:
    with Rig().supervisor() as supervisor, supervisor.run(1000.0):
        supervisor.check()
        with pytest.raises(SafetyAbort, match="within its 1000 s") as stopped:
            supervisor.check(time.monotonic_ns() + 1001 * 10**9)
    assert stopped.value.reason == "deadline"


def test_a_run_that_hangs_is_ended_by_the_wall_clock() -> None:
    supervisor = Rig().supervisor(grace_s=0.02)
    with supervisor, pytest.raises(SafetyAbort) as stopped, supervisor.run(1000.0, wall_deadline_s=0.05):
        spin(20.0)
    assert stopped.value.reason == "deadline"


def test_no_deadline_is_left_behind_by_a_run_that_ended() -> None:
    rig = Rig()
    with rig.supervisor(grace_s=0.01) as supervisor:
        with supervisor.run(1000.0, wall_deadline_s=0.02):
            pass
        spin(0.1)
        supervisor.check()
    assert not rig.dropped.is_set()


def test_in_another_thread_the_signals_stay_with_their_owner() -> None:
    before = [signal.getsignal(number) for number in NUMBERS]
    seen: list[object] = []

    def work() -> None:
        with Rig().supervisor():
            seen.extend(signal.getsignal(number) for number in NUMBERS)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == before


@pytest.mark.parametrize(("name", "code"), [("SIGTERM", -signal.SIGTERM), ("SIGHUP", -signal.SIGHUP), ("SIGINT", 9)])
def test_between_runs_the_rig_is_made_safe_and_the_signal_has_its_usual_effect(name: str, code: int) -> None:
    script = f"""
        import os, signal, sys
        from bench.clock import WallClock
        from bench.safety import Supervisor
        try:
            with Supervisor(WallClock(), make_safe=lambda reason: print(reason, flush=True), last_resort=print):
                os.kill(os.getpid(), signal.{name})
                signal.pause()
        except KeyboardInterrupt:
            sys.exit(9)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.stdout.split() == [f"signal_{name}"]
    assert done.returncode == code
