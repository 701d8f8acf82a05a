"""Serial devices on TCP and on a pseudo-terminal, as a vendor's client would open them."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from bench.errors import TwinError
from bench.twin.interfaces import SerialPort, World
from bench.twin.outbox import ROOM_BYTES, Outbox
from bench.twin.serial_pty import PtyBridge
from bench.twin.serial_tcp import TcpBridge
from bench.twin.wire import Wire
from bench.twin.world import SimWorld


class Echo:
    name = "echo"
    baud = 1_000_000

    def attach(self, world: World, port: SerialPort) -> None:
        self.port = port

    def receive(self, data: bytes) -> None:
        self.port.send(data)


@pytest.fixture
def wire() -> Iterator[Wire]:
    world = SimWorld(real_time=True)
    world.start()
    yield Wire(world, Echo())
    world.close()


def connect(address: str) -> socket.socket:
    client = socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])), timeout=10.0)
    client.settimeout(10.0)
    return client


def wait_until_free(wire: Wire) -> None:
    deadline = time.monotonic() + 10.0
    while wire.owner is not None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert wire.owner is None


def test_a_tcp_client_talks_to_the_device(wire: Wire) -> None:
    bridge = TcpBridge(wire.world, wire)
    with connect(bridge.address) as client:
        client.sendall(b"hello")
        assert client.recv(100) == b"hello"
    bridge.close()


def test_a_second_tcp_client_is_turned_away_until_the_first_has_left(wire: Wire) -> None:
    bridge = TcpBridge(wire.world, wire)
    with connect(bridge.address) as first:
        first.sendall(b"x")
        assert first.recv(1) == b"x"
        with connect(bridge.address) as second:
            assert second.recv(100) == b""
        first.sendall(b"y")
        assert first.recv(1) == b"y"
    wait_until_free(wire)
    with connect(bridge.address) as third:
        third.sendall(b"z")
        assert third.recv(1) == b"z"
    bridge.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals")
def test_a_terminal_is_raw_before_anybody_opens_it(wire: Wire) -> None:
    bridge = PtyBridge(wire.world, wire)
    terminal = os.open(bridge.path, os.O_RDWR | os.O_NOCTTY)
    sent = b"a\r\nb\n\x03\x04\x11\xff"  # what a cooked terminal would change, echo or take for a signal
    os.write(terminal, sent)
    came = b""
    while len(came) < len(sent):
        came += os.read(terminal, 100)
    assert came == sent
    os.close(terminal)
    bridge.close()


def test_virtual_time_has_no_bridges() -> None:
    world = SimWorld()
    wire = Wire(world, Echo())
    with pytest.raises(TwinError, match="needs real-time mode"):
        TcpBridge(world, wire)
    if sys.platform != "win32":
        with pytest.raises(TwinError, match="needs real-time mode"):
            PtyBridge(world, wire)


def test_a_full_outbox_drops_and_counts_and_never_blocks() -> None:
    stuck, sent, dropped = threading.Event(), bytearray(), [0]

    def send(data: bytes) -> None:
        stuck.wait(10.0)
        sent.extend(data)

    def count(number: int) -> None:
        dropped[0] += number

    outbox = Outbox(send, count, "test")
    chunk = b"x" * 1000
    for _ in range(100):
        outbox.put(chunk)
    assert dropped[0] == 100_000 - ROOM_BYTES // 1000 * 1000
    stuck.set()
    deadline = time.monotonic() + 10.0
    while len(sent) + dropped[0] < 100_000 and time.monotonic() < deadline:
        time.sleep(0.001)
    outbox.close()
    assert len(sent) + dropped[0] == 100_000
