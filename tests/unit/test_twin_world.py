"""The rules of the world's clock: who may run when, what observers may do, and what is refused."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest

from bench.errors import TwinError
from bench.twin.members import Member
from bench.twin.world import SimWorld


def run_threads(world: SimWorld, bodies: dict[str, Callable[[Member], None]]) -> None:
    """Run each body in a thread as a participant; registration order is the order of ``bodies``."""
    members = [world.register(name) for name in bodies]

    def run(member: Member, body: Callable[[Member], None]) -> None:
        world.await_turn(member)
        body(member)
        world.leave(member)

    threads = [
        threading.Thread(target=run, args=(m, b), daemon=True) for m, b in zip(members, bodies.values(), strict=True)
    ]
    for thread in reversed(threads):  # the order in which threads start must not matter
        thread.start()
    for thread in threads:
        thread.join(10.0)
        assert not thread.is_alive()


def test_events_run_in_order_of_time_then_of_request() -> None:
    world = SimWorld()
    runner = world.register("runner")
    seen: list[tuple[int, str]] = []
    for time_ns, name in ((30, "c"), (10, "a"), (30, "d"), (20, "b")):
        world.at(time_ns, lambda name=name: seen.append((world.now_ns, name)))  # type: ignore[misc]
    world.at(20, lambda: seen.append((0, "cancelled"))).cancel()
    world.park(runner, until_ns=30)  # what is due exactly then runs before the caller does
    assert seen == [(10, "a"), (20, "b"), (30, "c"), (30, "d")]


def test_an_event_due_now_runs_before_the_caller_goes_on() -> None:
    world = SimWorld()
    runner = world.register("runner")
    seen: list[int] = []
    with world.turn(runner):
        world.at(world.now_ns, lambda: seen.append(1))
    assert seen == [1]


def test_two_participants_take_turns_by_wake_up_then_registration() -> None:
    world = SimWorld()
    log: list[tuple[int, str]] = []

    def sleeper(step_ns: int) -> Callable[[Member], None]:
        def body(member: Member) -> None:
            for _ in range(6):
                world.park(member, until_ns=world.now_ns + step_ns)
                log.append((world.now_ns, member.name))

        return body

    run_threads(world, {"first": sleeper(3), "second": sleeper(2)})
    expected = sorted([(3 * i, 0, "first") for i in range(1, 7)] + [(2 * i, 1, "second") for i in range(1, 7)])
    assert log == [(time_ns, name) for time_ns, _, name in expected]


def test_time_waits_for_a_participant_that_computes() -> None:
    world = SimWorld()
    computing = threading.Event()
    seen: list[int] = []

    def waits(member: Member) -> None:
        world.park(member, until_ns=world.now_ns + 1_000)
        seen.append(world.now_ns)

    def computes(member: Member) -> None:
        computing.wait(0.05)  # the other one is parked all this while
        seen.append(world.now_ns)
        world.park(member, until_ns=world.now_ns + 10)

    run_threads(world, {"waits": waits, "computes": computes})
    assert seen == [0, 1_000]


def test_a_wait_ends_when_its_condition_comes_true() -> None:
    world = SimWorld()
    runner = world.register("runner")
    box: list[int] = []
    world.at(500, lambda: box.append(1))
    assert world.park(runner, until_ns=1_000, ready=lambda: bool(box)) is True
    assert world.now_ns == 500
    assert world.park(runner, until_ns=1_000, ready=lambda: len(box) > 1) is False
    assert world.now_ns == 1_000


def test_an_observer_waits_without_being_waited_for() -> None:
    world = SimWorld()
    runner = world.register("runner")
    observer = world.register("monitor", passive=True)
    seen: list[int] = []

    def observe() -> None:
        world.park(observer, until_ns=250)
        seen.append(world.now_ns)

    thread = threading.Thread(target=observe, daemon=True)
    thread.start()
    deadline = time.monotonic() + 5.0
    while not observer.parked and time.monotonic() < deadline:
        time.sleep(0.001)
    assert world.now_ns == 0  # an observer alone moves nothing
    world.park(runner, until_ns=1_000)
    thread.join(5.0)
    assert not thread.is_alive()
    assert seen[0] >= 250
    assert world.now_ns == 1_000


def test_an_anonymous_caller_is_waited_for_only_while_it_is_alone() -> None:
    world = SimWorld()
    anonymous = world.register("anonymous", anonymous=True)
    world.park(anonymous, until_ns=100)
    assert world.now_ns == 100
    runner = world.register("runner")
    world.park(runner, until_ns=200)  # the anonymous one is not parked, and time moves
    assert world.now_ns == 200


def test_polling_without_waiting_is_refused() -> None:
    world = SimWorld()
    world.free_call_limit = 100
    runner = world.register("runner")
    for _ in range(100):
        world.free_call(runner, "in_waiting")
    with pytest.raises(TwinError, match=r"101 calls at .* without world time moving; the last was in_waiting"):
        world.free_call(runner, "in_waiting")
    world.park(runner, until_ns=1)
    world.free_call(runner, "in_waiting")  # time has moved: counted anew


def test_a_wait_that_is_over_at_once_counts_as_polling() -> None:
    world = SimWorld()
    world.free_call_limit = 10
    runner = world.register("runner")

    def spin() -> None:
        while True:
            world.park(runner, until_ns=0)

    with pytest.raises(TwinError, match="without world time moving"):
        spin()


def test_a_wait_without_end_is_refused() -> None:
    world = SimWorld()
    runner = world.register("runner")
    with pytest.raises(TwinError, match="neither a deadline nor a condition"):
        world.park(runner, until_ns=None)
    with pytest.raises(TwinError, match="no event can bring"):
        world.park(runner, until_ns=None, ready=lambda: False)


def test_a_plain_queue_between_participants_is_found_out() -> None:
    world = SimWorld()
    world.stall_wall_s = 0.05
    world.register("blocked in a queue")
    runner = world.register("runner")
    with pytest.raises(TwinError, match="'blocked in a queue' kept time from moving; hand over"):
        world.park(runner, until_ns=1_000)


def test_losing_the_owner_latches_until_reset() -> None:
    world = SimWorld()
    owner = world.register("owner")
    world.park(owner, until_ns=700)
    world.lose(owner, "its connection closed")
    other = world.register("other")
    for _ in range(2):
        with pytest.raises(TwinError, match=r"'owner' was lost at 0.000001 s: its connection closed.*reset"):
            world.park(other, until_ns=1_000)
    world.reset()
    assert world.park(other, until_ns=1_000) is False


def test_leaving_in_good_order_is_no_loss() -> None:
    world = SimWorld()
    world.leave(world.register("first"))
    second = world.register("second")
    world.park(second, until_ns=10)
    assert world.lost is None


def test_losing_one_participant_lets_the_other_go_with_the_reason() -> None:
    world = SimWorld()
    first, second = world.register("first"), world.register("second")
    errors: list[str] = []

    def wait() -> None:
        try:
            world.park(first, until_ns=1_000)
        except TwinError as error:
            errors.append(str(error))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    deadline = time.monotonic() + 5.0
    while not first.parked and time.monotonic() < deadline:
        time.sleep(0.001)
    world.lose(second, "killed")
    thread.join(5.0)
    assert "'second' was lost" in errors[0]


def test_a_failure_inside_the_twin_is_loud_for_everybody(capfd: pytest.CaptureFixture[str]) -> None:
    world = SimWorld()
    runner = world.register("runner")

    def defect() -> None:
        raise ZeroDivisionError("in the plant")

    world.at(50, defect)
    with pytest.raises(TwinError, match=r"twin_fault at 0.000000 s: ZeroDivisionError: in the plant"):
        world.park(runner, until_ns=1_000)
    with pytest.raises(TwinError, match="twin_fault"):
        world.begin(world.register("monitor", passive=True))
    world.reset()  # a defect is not forgotten
    with pytest.raises(TwinError, match="twin_fault"):
        world.park(runner, until_ns=2_000)
    assert "in defect" in capfd.readouterr().err


def test_after_a_loss_time_runs_free() -> None:
    world = SimWorld()
    owner = world.register("owner")
    fired: list[int] = []
    world.at(3_000_000_000, lambda: fired.append(world.now_ns))
    world.lose(owner, "killed")
    world.run_free(10_000_000_000, lambda: bool(fired))
    assert fired == [3_000_000_000]
    assert 3_000_000_000 <= world.now_ns <= 3_010_000_000


def test_a_call_given_up_by_its_client_does_not_hold_time() -> None:
    world = SimWorld()
    runner = world.register("runner")
    world.register("keeps time from moving")
    errors: list[str] = []

    def given_up() -> None:
        try:
            world.park(runner, until_ns=1_000)
        except TwinError as error:
            errors.append(str(error))

    thread = threading.Thread(target=given_up, daemon=True)
    thread.start()
    deadline = time.monotonic() + 5.0
    while not runner.parked and time.monotonic() < deadline:
        time.sleep(0.001)
    with world.turn(runner):  # the client's deadline passed, and it calls again
        assert runner.parked == 0
    thread.join(5.0)
    assert "gave up and called again" in errors[0]


def test_the_largest_wall_gap_is_reported() -> None:
    world = SimWorld()
    runner = world.register("runner")
    with world.turn(runner):
        world.park(runner, until_ns=7)
    time.sleep(0.03)
    with world.turn(runner):
        pass
    assert world.largest_gap_s >= 0.03
    assert world.largest_gap_at_ns == 7


def test_real_time_follows_the_wall_clock_and_runs_events() -> None:
    world = SimWorld(real_time=True)
    runner = world.register("runner")
    seen: list[int] = []
    world.at(20_000_000, lambda: seen.append(world.now_ns))
    world.start()
    assert world.park(runner, until_ns=5_000_000_000, ready=lambda: bool(seen)) is True
    world.close()
    assert seen == [20_000_000]  # an event sees its own time, however late its thread was
    assert world.now_ns >= 20_000_000


def test_real_time_does_not_count_free_calls() -> None:
    world = SimWorld(real_time=True)
    world.free_call_limit = 10
    runner = world.register("runner")
    for _ in range(50):
        world.free_call(runner, "poll")
    world.close()
