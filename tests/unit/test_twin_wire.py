"""A serial line charges its bytes, keeps their order, and can go wrong."""

from __future__ import annotations

import pytest

from bench.errors import TwinError
from bench.twin.interfaces import SerialPort, World
from bench.twin.wire import Unplugged, Wire
from bench.twin.world import SimWorld

BAUD = 10_000  # a millisecond a byte


class Recorder:
    """A device that notes when it hears what."""

    name = "recorder"
    baud = BAUD

    def __init__(self) -> None:
        self.heard: list[tuple[int, bytes]] = []
        self.answer: tuple[bytes, int] | None = None

    def attach(self, world: World, port: SerialPort) -> None:
        self.world, self.port = world, port

    def receive(self, data: bytes) -> None:
        self.heard.append((self.world.now_ns, data))
        if self.answer is not None:
            self.port.send(self.answer[0], delay_ns=self.answer[1])


class Line:
    def __init__(self) -> None:
        self.world = SimWorld()
        self.runner = self.world.register("runner")
        self.device = Recorder()
        self.wire = Wire(self.world, self.device)
        self.arrived: list[tuple[int, bytes]] = []
        self.wire.open("test", BAUD, lambda data: self.arrived.append((self.world.now_ns, data)))

    def wait_ms(self, milliseconds: float) -> None:
        self.world.park(self.runner, until_ns=self.world.now_ns + round(milliseconds * 1e6))


@pytest.fixture
def line() -> Line:
    return Line()


def test_a_frame_arrives_whole_after_its_time_on_the_wire(line: Line) -> None:
    line.wire.write(b"12345")
    line.wait_ms(100)
    assert line.device.heard == [(5_000_000, b"12345")]


def test_frames_queue_behind_each_other(line: Line) -> None:
    line.wire.write(b"123")
    line.wait_ms(1)
    line.wire.write(b"45")
    line.wait_ms(100)
    assert line.device.heard == [(3_000_000, b"123"), (5_000_000, b"45")]


def test_a_reply_takes_its_delay_and_its_bytes(line: Line) -> None:
    line.device.answer = (b"ok", 500_000)
    line.wire.write(b"1")
    line.wait_ms(100)
    assert line.arrived == [(1_000_000 + 500_000 + 2_000_000, b"ok")]


def test_a_late_reply_holds_up_what_follows_and_nothing_is_lost(line: Line) -> None:
    line.device.answer = (b"a", 0)
    line.wire.delay_replies(1, 50_000_000)
    line.wire.write(b"1")
    line.wait_ms(10)
    line.wire.write(b"2")
    line.wait_ms(100)
    assert line.arrived == [(52_000_000, b"a"), (53_000_000, b"a")]


def test_a_corrupt_reply_differs_in_one_bit_before_its_end(line: Line) -> None:
    line.device.answer = (b"@01 0 OK:5C\r\n", 0)
    line.wire.corrupt_replies(1)
    for _ in range(2):
        line.wire.write(b"1")
        line.wait_ms(100)
    assert [data for _, data in line.arrived] == [b"@01 0 OK:5B\r\n", b"@01 0 OK:5C\r\n"]


def test_an_unplugged_device_hears_and_says_nothing(line: Line) -> None:
    line.wire.write(b"12")
    line.wire.unplug()
    line.device.port.send(b"lost")
    with pytest.raises(Unplugged):
        line.wire.write(b"3")
    line.wait_ms(100)
    assert (line.device.heard, line.arrived) == ([], [])
    line.wire.unplug(False)
    line.wire.write(b"4")
    line.wait_ms(100)
    assert [data for _, data in line.device.heard] == [b"4"]


def test_a_wrong_baud_rate_is_noise(line: Line) -> None:
    line.wire.close()
    line.wire.open("test", 9600)
    line.wire.write(b"1")
    line.device.port.send(b"reply")
    line.wait_ms(100)
    assert (line.device.heard, bytes(line.wire.inbox)) == ([], b"")
    assert any("hears noise: 9600 instead of 10000 baud" in text for _, text, _ in line.world.log)


def test_one_host_at_a_time(line: Line) -> None:
    with pytest.raises(TwinError, match="in use by test"):
        line.wire.open("another", BAUD)
    line.wire.close()
    line.wire.open("another", BAUD)
    line.device.port.send(b"x")
    line.wait_ms(10)
    assert bytes(line.wire.inbox) == b"x"


def test_nobody_listens_nothing_piles_up(line: Line) -> None:
    line.wire.close()
    line.device.port.send(b"alert")
    line.wait_ms(10)
    assert bytes(line.wire.inbox) == b""
