"""A procedure called over the link behaves as through grpc: same answers, same errors, same order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent import futures
from typing import Any

import grpc
import pytest

from bench.clock import sleep
from bench.errors import TwinError
from bench.twin.gate import MetadataGate
from bench.twin.link import Link, grpc_channel
from bench.twin.link_server import LinkServer
from bench.twin.rpc_server import LinkProcedures
from bench.twin.world import SimWorld


class Service:
    """A servicer like the DAQ device's: a gate around each body."""

    def __init__(self) -> None:
        self.world = SimWorld()
        self.gate = MetadataGate(self.world)
        self.callers: list[str] = []

    def echo(self, request: bytes, context: Any) -> bytes:
        with self.gate.call(context, "Echo") as caller:
            self.callers.append(caller.name)
            return request.upper()

    def wait(self, request: bytes, context: Any) -> bytes:
        with self.gate.call(context, "Wait") as caller:
            self.world.park(caller, until_ns=self.world.now_ns + int(request))
        return b"%d" % self.world.now_ns

    def fail(self, request: bytes, context: Any) -> bytes:
        context.set_trailing_metadata((("ni-error", "-200279"),))
        context.abort(grpc.StatusCode.UNKNOWN, "samples overwritten")
        raise AssertionError("abort returns never")

    def defect(self, request: bytes, context: Any) -> bytes:
        raise ZeroDivisionError("in the servicer")

    def hang(self, request: bytes, context: Any) -> bytes:
        time.sleep(1.5)
        return b""

    def add_to(self, server: Any) -> None:
        names = {"Echo": self.echo, "Wait": self.wait, "Fail": self.fail, "Defect": self.defect, "Hang": self.hang}
        handlers = {name: grpc.unary_unary_rpc_method_handler(body, bytes, bytes) for name, body in names.items()}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("test.Service", handlers),))


@pytest.fixture
def service() -> Service:
    return Service()


@pytest.fixture
def addresses(service: Service) -> Iterator[tuple[str, str]]:
    server = grpc.server(futures.ThreadPoolExecutor(4))
    service.add_to(server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    link = LinkServer(service.world, {}, lambda request: {}, LinkProcedures(service.add_to).call)
    link.start()
    yield link.address, f"127.0.0.1:{port}"
    link.close()
    server.stop(None).wait(5.0)


@pytest.fixture
def link(addresses: tuple[str, str]) -> Iterator[Link]:
    link = Link.connect(addresses[0])
    yield link
    link.close()


@pytest.fixture(params=[True, False], ids=["over the link", "through grpc"])
def channel(request: pytest.FixtureRequest, addresses: tuple[str, str], link: Link) -> Iterator[grpc.Channel]:
    with grpc_channel(addresses[1], link, over_link=request.param) as channel:
        yield channel


def procedure(channel: grpc.Channel, name: str) -> Any:
    return channel.unary_unary(f"/test.Service/{name}")


def test_a_call_is_answered_for_its_participant(service: Service, channel: grpc.Channel) -> None:
    assert procedure(channel, "Echo")(b"hello") == b"HELLO"
    assert service.callers == ["main"]


def test_a_call_may_let_time_pass_and_the_clock_knows(link: Link, channel: grpc.Channel) -> None:
    assert link.clock.now_ns() == 0
    assert procedure(channel, "Wait")(b"5000000") == b"5000000"
    assert link.clock.now_ns() == 5_000_000
    sleep(link.clock, 0.001)
    assert procedure(channel, "Wait")(b"7") == b"6000007"


def test_an_aborted_call_has_code_details_and_trailing_metadata(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        procedure(channel, "Fail")(b"")
    error: Any = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.UNKNOWN, "samples overwritten")
    assert [(entry.key, entry.value) for entry in error.trailing_metadata()] == [("ni-error", "-200279")]


def test_a_defect_is_told(channel: grpc.Channel, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        procedure(channel, "Defect")(b"")
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNKNOWN
    assert "Exception calling application: in the servicer" in error.details()


def test_an_unknown_procedure_is_unimplemented(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        procedure(channel, "Nothing")(b"")
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_deadline_in_wall_time_ends_a_call_and_the_next_one_is_in_order(channel: grpc.Channel) -> None:
    with pytest.raises(grpc.RpcError) as caught:
        procedure(channel, "Hang")(b"", timeout=0.1)
    error: Any = caught.value
    assert error.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    assert procedure(channel, "Echo")(b"next") == b"NEXT"


def test_a_lost_twin_is_a_twin_error(service: Service, channel: grpc.Channel) -> None:
    with service.world.lock:
        service.world.lose(service.world.register("other"), "killed")
    with pytest.raises(TwinError, match="'other' was lost"):
        procedure(channel, "Echo")(b"x")


def test_calls_without_time_moving_are_counted(service: Service, channel: grpc.Channel) -> None:
    service.world.free_call_limit = 20
    echo = procedure(channel, "Echo")

    def poll() -> None:
        while True:
            echo(b"x")

    with pytest.raises(TwinError, match="without world time moving; the last was Echo"):
        poll()


def test_a_stray_thread_observes_through_grpc(service: Service, channel: grpc.Channel) -> None:
    answers: list[bytes] = []
    thread = threading.Thread(target=lambda: answers.append(procedure(channel, "Echo")(b"stray")))
    thread.start()
    thread.join(10.0)
    assert answers == [b"STRAY"]
    assert service.callers == ["anonymous"]


def test_virtual_time_goes_over_the_link_by_default(
    addresses: tuple[str, str], link: Link, monkeypatch: pytest.MonkeyPatch
) -> None:
    def sent_by(real_time: bool) -> int:
        monkeypatch.setattr(link, "real_time", real_time)
        with grpc_channel(addresses[1], link) as channel:
            before = link.connection.sent
            procedure(channel, "Echo")(b"x")
            return link.connection.sent - before

    assert (sent_by(False), sent_by(True)) == (1, 0)
