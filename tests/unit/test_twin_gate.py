"""Whose call a gRPC call is, and what it must wait for."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from bench.errors import TwinError
from bench.twin.frames import PARTICIPANT_KEY, SEQUENCE_KEY
from bench.twin.gate import MetadataGate
from bench.twin.members import Member
from bench.twin.world import SimWorld


class Aborted(Exception):
    pass


class Context:
    """What a servicer's context has of use here."""

    def __init__(self, member: Member | None = None, sequence: int = 0, number: int | None = None) -> None:
        token = number if member is None else member.order
        self.metadata = () if token is None else ((PARTICIPANT_KEY, str(token)), (SEQUENCE_KEY, str(sequence)))

    def invocation_metadata(self) -> Iterator[tuple[str, str]]:
        return iter((("user-agent", "test"), *self.metadata))

    def abort(self, code: Any, details: str) -> None:
        raise Aborted(code, details)


def test_a_call_is_its_participants() -> None:
    world = SimWorld()
    gate = MetadataGate(world)
    runner, other = world.register("runner"), world.register("other")
    world.leave(other)
    with gate.call(Context(runner), "ReadAnalogF64") as member:
        assert member is runner
        world.park(member, until_ns=10)
    assert world.now_ns == 10


def test_a_call_without_metadata_is_anonymous_and_the_same_every_time() -> None:
    gate = MetadataGate(SimWorld())
    with gate.call(Context(), "StartTask") as first:
        assert first.name == "anonymous"
    with gate.call(None, "StartTask") as second:
        assert second is first


def test_a_call_waits_for_the_frames_its_thread_sent_before() -> None:
    world = SimWorld()
    gate = MetadataGate(world)
    runner = world.register("runner")
    seen: list[str] = []

    def link() -> None:
        for index in range(3):
            time.sleep(0.005)
            with world.lock:
                seen.append(f"frame {index}")
                world.handled(runner)

    thread = threading.Thread(target=link)
    thread.start()
    with gate.call(Context(runner, sequence=3), "StartTask"):
        seen.append("call")
    thread.join(5.0)
    assert seen == ["frame 0", "frame 1", "frame 2", "call"]


def test_a_latched_loss_aborts_the_call_with_the_reason() -> None:
    world = SimWorld()
    gate = MetadataGate(world)
    runner, other = world.register("runner"), world.register("other")
    world.lose(other, "killed")
    with pytest.raises(Aborted, match=r"'other' was lost.*reset") as caught, gate.call(Context(runner), "StartTask"):
        pytest.fail("the body must not run")
    assert caught.value.args[0] is grpc.StatusCode.ABORTED
    with world.lock:  # the lock was given back
        assert world.lost is not None


def test_a_stranger_is_refused() -> None:
    gate = MetadataGate(SimWorld())
    with pytest.raises(Aborted, match="no participant has the number 77"), gate.call(Context(number=77), "StartTask"):
        pytest.fail("the body must not run")


def test_calls_without_time_moving_are_counted() -> None:
    world = SimWorld()
    world.free_call_limit = 20
    gate = MetadataGate(world)
    runner = world.register("runner")

    def poll() -> None:
        while True:
            with gate.call(Context(runner), "IsTaskDone"):
                pass

    with pytest.raises(Aborted, match=r"21 calls .* the last was IsTaskDone"):
        poll()


def test_an_error_of_the_body_passes_through_and_the_lock_is_given_back() -> None:
    world = SimWorld()
    gate = MetadataGate(world)
    runner = world.register("runner")
    with pytest.raises(ValueError, match="mine"), gate.call(Context(runner), "StartTask"):
        raise ValueError("mine")
    with pytest.raises(Aborted, match="too late"), gate.call(Context(runner), "StartTask"):
        raise TwinError("too late")
    done = threading.Event()
    thread = threading.Thread(target=lambda: world.lock.acquire(timeout=5.0) and done.set())
    thread.start()
    thread.join(6.0)
    assert done.is_set()
