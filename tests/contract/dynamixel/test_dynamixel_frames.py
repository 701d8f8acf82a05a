"""Packets of Dynamixel protocol 2.0: published examples, stuffing, CRC, and a stream however it is chopped."""

from __future__ import annotations

import random
import struct

import pytest

from bench.instruments import dynamixel_frames as frames
from bench.instruments.dynamixel_frames import Damaged, Status, StatusReader, crc16, instruction
from bench.instruments.dynamixel_line import DynamixelLine, split
from bench.instruments.dynamixel_models import P_SERIES
from bench.instruments.dynamixel_state import CurrentWriter
from bench.twin.devices import dynamixel_wire as wire


def x(text: str) -> bytes:
    return bytes.fromhex(text)


# From ROBOTIS' e-Manual, "Protocol 2.0", the examples of each instruction.
PUBLISHED = [
    (instruction(1, frames.PING), "ff ff fd 00 01 03 00 01 19 4e"),
    (instruction(frames.BROADCAST, frames.PING), "ff ff fd 00 fe 03 00 01 31 42"),
    (frames.read(1, 132, 4), "ff ff fd 00 01 07 00 02 84 00 04 00 1d 15"),
    (frames.write(1, 116, struct.pack("<i", 512)), "ff ff fd 00 01 09 00 03 74 00 00 02 00 00 ca 89"),
    (instruction(1, frames.REG_WRITE, x("6800 c8000000")), "ff ff fd 00 01 09 00 04 68 00 c8 00 00 00 ae 8e"),
    (instruction(1, frames.ACTION), "ff ff fd 00 01 03 00 05 02 ce"),
    (instruction(1, frames.FACTORY_RESET, b"\x01"), "ff ff fd 00 01 04 00 06 01 a1 e6"),
    (instruction(1, frames.REBOOT), "ff ff fd 00 01 03 00 08 2f 4e"),
    (frames.sync_read(b"\x01\x02", 132, 4), "ff ff fd 00 fe 09 00 82 84 00 04 00 01 02 ce fa"),
    (frames.sync_read(b"\x03\x07\x04", 132, 4, fast=True), "ff ff fd 00 fe 0a 00 8a 84 00 04 00 03 07 04 20 f2"),
    (
        frames.sync_write(116, 4, {1: struct.pack("<i", 150), 2: struct.pack("<i", 170)}),
        "ff ff fd 00 fe 11 00 83 74 00 04 00 01 96 00 00 00 02 aa 00 00 00 82 87",
    ),
]
STATUSES = [
    ("ff ff fd 00 01 07 00 55 00 06 04 26 65 5d", Status(1, 0, x("060426"))),
    ("ff ff fd 00 02 07 00 55 00 06 04 26 6f 6d", Status(2, 0, x("060426"))),
    ("ff ff fd 00 01 08 00 55 00 a6 00 00 00 8c c0", Status(1, 0, x("a6000000"))),
    ("ff ff fd 00 02 08 00 55 00 1f 08 00 00 ba be", Status(2, 0, x("1f080000"))),
    ("ff ff fd 00 01 04 00 55 00 a1 0c", Status(1, 0, b"")),
]
# The one answer of servos 3, 7 and 4 to the fast sync read above.
FAST = (
    "ff ff fd 00 fe 19 00 55 00 03 a6 00 00 00 84 08"
    "00 07 1f 08 00 00 16 ca"
    "00 04 ff 03 00 00 d1 9e"
)  # fmt: skip


@pytest.mark.parametrize(("made", "published"), PUBLISHED)
def test_instructions_are_the_published_ones(made, published):
    assert made == x(published)


@pytest.mark.parametrize(("published", "meant"), STATUSES)
def test_published_statuses_are_read_and_made(published, meant):
    assert StatusReader(x(published)).take() == meant
    assert wire.status(meant.servo_id, meant.error, meant.data) == x(published)


def test_published_fast_sync_read_is_read_and_made():
    answer = StatusReader(x(FAST)).take()
    assert isinstance(answer, Status)
    parts = [Status(3, 0, x("a6000000")), Status(7, 0, x("1f080000")), Status(4, 0, x("ff030000"))]
    assert split(answer, 4) == parts
    assert wire.joint_status([(part.error, part.servo_id, part.data) for part in parts]) == x(FAST)
    assert split(answer, 5) == []


def long_division(data: bytes) -> int:
    """The remainder of the message, sixteen zeros behind it, by x^16 + x^15 + x^2 + 1: schoolbook, bit by bit."""
    number = int.from_bytes(data + b"\0\0", "big")
    for bit in range(8 * len(data) - 1, -1, -1):
        if number >> bit + 16 & 1:
            number ^= 0x18005 << bit
    return number


@pytest.mark.parametrize("length", [*range(12), 91, 126, 300])
def test_crc_is_the_remainder_of_a_division(length):
    data = random.Random(length).randbytes(length)
    assert crc16(data) == wire.crc(data) == long_division(data)
    half = length // 2
    assert crc16(data[half:], crc16(data[:half])) == crc16(data)


def test_stuffing_goes_there_and_back_both_ways():
    rng = random.Random(1)
    for _ in range(2000):
        # Bytes of a header, mostly, so that it comes up by chance in every place.
        data = bytes(rng.choice((0xFF, 0xFF, 0xFD, 0x00, 0x55)) for _ in range(rng.randrange(14)))
        packet = instruction(7, frames.WRITE, data)
        assert packet.find(b"\xff\xff\xfd", 1) == -1 or b"\xff\xff\xfd\xfd" in packet
        heard: list[wire.Instruction] = []
        wire.PacketCutter(heard.append).receive(packet, 0)
        assert [(got.to, got.code, got.parameters, got.whole) for got in heard] == [(7, frames.WRITE, data, True)]
        assert StatusReader(wire.status(7, 0, data)).take() == Status(7, 0, data)


def test_packets_come_whole_however_they_are_chopped():
    rng = random.Random(2)
    meant = [Status(k, k % 3, rng.randbytes(k % 7) + b"\xff\xff\xfd" * (k % 2)) for k in range(200)]
    stream = b"".join(wire.status(status.servo_id, status.error, status.data) for status in meant)
    reader, got = StatusReader(), []
    while stream:
        cut = rng.randrange(1, 30)
        reader.feed(stream[:cut])
        stream = stream[cut:]
        while (answer := reader.take()) is not None:
            got.append(answer)
    assert got == meant
    assert reader.rest() == b""


def test_what_is_missing_is_never_more_than_what_comes():
    """Reading so many bytes never waits for some of the packet after."""
    stream = b"\x01\x02" + wire.status(1, 0, b"\xff\xff\xfd" * 3) + wire.status(2, 0x80, b"abc")
    reader, got, at = StatusReader(), [], 0
    while at < len(stream):
        count = reader.missing()
        assert at + count <= len(stream)
        reader.feed(stream[at : at + count])
        at += count
        while (answer := reader.take()) is not None:
            got.append(answer)
    assert [answer for answer in got if isinstance(answer, Status)] == [
        Status(1, 0, b"\xff\xff\xfd" * 3), Status(2, 0x80, b"abc"),
    ]  # fmt: skip


@pytest.mark.parametrize("place", [4, 5, 7, 8, 10, 14, 15])
def test_a_wrong_bit_anywhere_is_no_answer_and_harms_none_behind_it(place):
    first, second = wire.status(1, 0, b"abcdef"), wire.status(2, 0, b"ghijkl")
    hurt = bytearray(first)
    hurt[place] ^= 0x04
    reader = StatusReader(bytes(hurt) + second + second)
    got = []
    while (answer := reader.take()) is not None:
        got.append(answer)
    assert any(isinstance(answer, Damaged) for answer in got)
    assert Status(2, 0, b"ghijkl") in got
    assert all(answer.servo_id == 2 for answer in got if isinstance(answer, Status))


def test_packets_the_loop_sends_are_the_general_ones():
    """Prepared ahead and without stuffing, as can be: no goal between two ids makes a header."""
    sent: list[bytes] = []

    class Line(DynamixelLine):
        def __init__(self) -> None:
            self.line = self  # type: ignore[assignment]

        def claim(self, deadline_ns):
            return self

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def write(self, data):  # type: ignore[override]
            sent.append(data)

    rng = random.Random(3)
    for ids in ((1,), (11, 12, 13, 14, 15, 16), (252, 253 - 2, 0)):
        writer = CurrentWriter(Line(), ids, P_SERIES)
        for _ in range(300):
            counts = [rng.choice((rng.randrange(-30000, 30000), -1, -3, -256, 0x7FFF, -0x8000)) for _ in ids]
            writer.write(counts, 0)
            entries = {servo_id: struct.pack("<h", count) for servo_id, count in zip(ids, counts, strict=True)}
            assert sent.pop() == frames.sync_write(P_SERIES.goal_current.address, 2, entries)
