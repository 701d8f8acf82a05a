"""An fdcanusb adapter's text lines, and the subframes in a drive's CAN-FD frames, on the device's side.

Written apart from the driver's half on purpose: a mistake in one then shows against the other. A frame's shape (what is
written and read, and where its values lie) is worked out once and kept: a control loop sends the same shape for hours.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from bench.twin.interfaces import SerialPort, World

LONGEST_LINE = 512
OK_NS = 20_000
"""From a line's end to its ``OK``, when the drive has nothing to say."""
PROCESSING_NS = 50_000
"""From the end of a frame on the bus to the start of the drive's reply."""

NOP = 0x50
EVERYBODY = 0x7F
_LETTERS = "bhif"
_SHAPES_KEPT = 64


def bus_ns(length: int) -> int:
    """Return the time of a CAN-FD frame with ``length`` data bytes, 1 Mbit/s and 5 Mbit/s behind the switch."""
    return 45_000 + round((8 * length + 30) * 1.1 * 200)


class Write(NamedTuple):
    """A value's place in the frame, its register and type (0 int8, 1 int16, 2 int32, 3 float)."""

    place: int
    register: int
    width: int


@dataclass(frozen=True)
class Read:
    """Registers asked for; ``head`` begins the subframe that answers."""

    head: bytes
    register: int
    count: int
    width: int


class Shape:
    """Where everything lies in a frame: ``match`` gives the values of a frame of this shape, None for any other."""

    def __init__(self, data: bytes) -> None:
        self.writes: list[Write] = []
        self.reads: list[Read] = []
        self.ends_early = False
        heads: list[tuple[int, bytes]] = []
        form, place, at = "<", 0, 0
        while at < len(data):
            start = at
            first = data[at]
            at += 1
            kind, width, count = first & 0xF0, first >> 2 & 3, first & 3
            if kind in (0x00, 0x10):
                try:
                    if not count:
                        count, at = _varuint(data, at)
                    register, at = _varuint(data, at)
                except IndexError:
                    kind = -1
            if first != NOP and (kind not in (0x00, 0x10) or (kind == 0 and at + count * _size(width) > len(data))):
                self.ends_early = True  # firmware writes off the rest of a frame it cannot make out
                at = len(data)
            form += f"{at - start}s"
            heads.append((place, data[start:at]))
            place += 1
            if self.ends_early or first == NOP:
                continue
            if kind == 0x10:
                self.reads.append(Read(bytes([first + 0x10]) + data[start + 1 : at], register, count, width))
                continue
            form += _LETTERS[width] * count
            for k in range(count):
                self.writes.append(Write(place, register + k, width))
                place += 1
            at += count * _size(width)
        self._struct = struct.Struct(form)
        self.size = self._struct.size
        # Two places at least, so that itemgetter gives a tuple.
        places = [index for index, _ in heads] * (1 if len(heads) > 1 else 2)
        self._heads = tuple(head for _, head in heads) * (1 if len(heads) > 1 else 2)
        self._pick = itemgetter(*places) if heads else None

    def match(self, data: bytes) -> tuple[Any, ...] | None:
        if len(data) != self.size or self._pick is None:
            return None
        values = self._struct.unpack(data)
        return values if self._pick(values) == self._heads else None


class FdcanusbWire:
    """Turns lines into frames and replies into lines.

    Parameters
    ----------
    handle : callable
        Takes whether a reply is wanted, the frame's shape and its values; returns the reply's data, None for silence.
    device_id : int
        The drive's id on the bus.
    """

    def __init__(self, handle: Callable[[bool, Shape, tuple[Any, ...]], bytes | None], device_id: int) -> None:
        self.device_id = device_id
        self.checksums = False
        self.ignored_lines = 0
        self._handle = handle
        self._buffer = b""
        self._shapes: list[Shape] = []

    def attach(self, world: World, port: SerialPort) -> None:
        """Called once before any byte arrives."""
        self._world = world
        self._port = port

    def receive(self, data: bytes) -> None:
        """Bytes from the host; a line ends in any mix of CR and LF."""
        *lines, self._buffer = (self._buffer + data.replace(b"\r", b"\n")).split(b"\n")
        self._buffer = self._buffer[-LONGEST_LINE:]
        for line in lines:
            if line:
                self._line(line)

    def _line(self, line: bytes) -> None:
        text, star, check = line.rpartition(b"*")
        if star and len(check) == 2:
            if check.upper() != b"%02X" % _crc8(text):
                self._refuse("checksum mismatch")
                return
            self.checksums = True
            line = text.rstrip()
        elif self.checksums:
            self._refuse("checksum required")
            return
        words = line.split()
        try:
            command, send, identifier, *rest = words
            number = int(identifier, 16)
            data = bytes.fromhex(rest[0].decode()) if rest else b""
        except ValueError:
            self._refuse("unknown command")
            return
        if (command, send) != (b"can", b"send") or len(data) > 64:
            self._refuse("unknown command")
            return
        self._frame(number, data)

    def _frame(self, number: int, data: bytes) -> None:
        for shape in self._shapes:
            values = shape.match(data)
            if values is not None:
                break
        else:
            shape = Shape(data)
            values = shape.match(data) or ()
            self._shapes = [shape, *self._shapes[: _SHAPES_KEPT - 1]]
        wanted = bool(number & 0x8000)
        asked = number & 0x7F
        reply = self._handle(wanted, shape, values) if asked in (self.device_id, EVERYBODY) else None
        if not wanted or reply is None:
            self._port.send(self._ended(b"OK"), delay_ns=OK_NS)
            return
        filled = reply.ljust(_LENGTHS[len(reply)], _FILLING)
        # From the drive asked to the source that asked.
        back = self.device_id << 8 | number >> 8 & 0x7F
        text = b"rcv %x %b %b B F" % (back, filled.hex().upper().encode(), b"E" if back > 0x7FF else b"e")
        delay_ns = _BUS_NS[len(data)] + PROCESSING_NS + _BUS_NS[len(filled)]
        self._port.send(self._ended(b"OK") + self._ended(text), delay_ns=delay_ns)

    def _refuse(self, why: str) -> None:
        self.ignored_lines += 1
        self._port.send(self._ended(b"ERR " + why.encode()), delay_ns=OK_NS)

    def _ended(self, text: bytes) -> bytes:
        if self.checksums:
            text += b" "
            text += b"*%02X" % _crc8(text)
        return text + b"\r\n"


_LENGTHS = [next(length for length in (*range(9), 12, 16, 20, 24, 32, 48, 64) if length >= k) for k in range(65)]
"""CAN-FD has no frames of any other length: that of the frame for each number of bytes; NOPs fill it."""
_BUS_NS = [bus_ns(length) for length in _LENGTHS]
_FILLING = bytes([NOP])


def _size(width: int) -> int:
    return (1, 2, 4, 4)[width]


def _varuint(data: bytes, at: int) -> tuple[int, int]:
    value = 0
    for k in range(5):
        value |= (data[at + k] & 0x7F) << 7 * k
        if not data[at + k] & 0x80:
            return value, at + k + 1
    raise IndexError


_NIBBLES = bytes.fromhex("0097b92ee5725ccb5dcae473b82f0196")


def _crc8(text: bytes) -> int:
    """CRC-8 with polynomial 0x97, four bits at a time as in the drive's firmware."""
    crc = 0
    for byte in text:
        crc = _NIBBLES[(crc ^ byte) >> 4] ^ crc << 4 & 0xFF
        crc = _NIBBLES[(crc >> 4) ^ (byte & 15)] ^ crc << 4 & 0xFF
    return crc
