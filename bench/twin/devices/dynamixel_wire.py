"""Packets of Dynamixel protocol 2.0 on the device's side. Apart from the driver's half on purpose."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable
from struct import unpack
from typing import NamedTuple

import numpy as np

EVERYBODY = 0xFE
PAUSE_NS = 50_000_000
"""A packet that breaks off for so long is forgotten [ns]."""
_START = b"\xff\xff\xfd\x00"
_KEPT = 64
_HEAD = struct.Struct("<BHB")


class Instruction(NamedTuple):
    """An instruction packet; ``whole`` is False when its CRC is wrong."""

    to: int
    code: int
    parameters: bytes
    whole: bool


class PacketCutter:
    """Cuts what the host sends into instruction packets and hands them on.

    Parameters
    ----------
    handle : callable
        Takes each packet.
    """

    def __init__(self, handle: Callable[[Instruction], None]) -> None:
        self._handle = handle
        self._buffer = b""
        self._last_ns = 0
        self._known: dict[bytes, Instruction] = {}  # a control loop asks the same thing for hours
        self._coming = b"", Instruction(0, 0, b"", False)

    def receive(self, data: bytes, now_ns: int) -> None:
        """Bytes from the host, at the world time [ns] when the last of them is through."""
        if self._buffer and now_ns - self._last_ns > PAUSE_NS:
            self._buffer = b""
        self._last_ns = now_ns
        if not self._buffer:
            known = self._coming[1] if self._coming[0] == data else self._known.get(data)
            if known is not None:
                self._handle(known)
                return
        self._buffer += data
        while (packet := self._next()) is not None:
            self._handle(packet)

    def foresee(self, data: bytes) -> Instruction | None:
        """Return the packet that ``data``, on its way, will be, if it is a whole one and comes by itself."""
        if self._buffer or len(data) < 10 or not data.startswith(_START) or len(data) != 7 + (data[5] | data[6] << 8):
            return None
        found = _parsed(data)
        self._coming = data, found
        return found

    def _next(self) -> Instruction | None:
        buffer = self._buffer
        start = buffer.find(_START)
        if start < 0:
            self._buffer = buffer[-3:]
            return None
        if start:
            buffer = self._buffer = buffer[start:]
        if len(buffer) < 7:
            return None
        end = 7 + (buffer[5] | buffer[6] << 8)
        if len(buffer) < end:
            return None
        if end < 10:
            self._buffer = buffer[4:]
            return self._next()
        packet, self._buffer = buffer[:end], buffer[end:]
        found = _parsed(packet)
        if found.whole and found.code not in (0x03, 0x83):
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[packet] = found
        return found


def _parsed(packet: bytes) -> Instruction:
    whole = crc(packet[:-2]) == packet[-2] | packet[-1] << 8
    return Instruction(packet[4], packet[7], unstuffed(packet[8:-2]) if whole else b"", whole)


def status(servo_id: int, error: int, parameters: bytes = b"") -> bytes:
    """Return a status packet, stuffed."""
    body = stuffed(bytes((0x55, error)) + parameters)
    packet = _START + struct.pack("<BH", servo_id, len(body) + 2) + body
    return packet + struct.pack("<H", crc(packet))


def joint_status(parts: list[tuple[int, int, bytes]]) -> bytes:
    """Return what servos say together to a fast sync or bulk read, from each one's error, id and data. Not stuffed."""
    length = 1 + sum([4 + len(data) for _, _, data in parts])
    packet = _START + _HEAD.pack(EVERYBODY, length, 0x55)
    check, table = crc(packet), _TABLE
    for error, servo_id, data in parts:
        part = bytes((error, servo_id)) + data
        if len(part) & 1:
            check = crc(part, check)
        else:
            for pair in unpack(f">{len(part) >> 1}H", part):
                check = table[check ^ pair]
        packet += part + check.to_bytes(2, "little")
        check = table[check ^ (check >> 8 | check << 8 & 0xFF00)]
    return packet


def stuffed(body: bytes) -> bytes:
    """Return ``body`` with FD added to each FF FF FD."""
    return body.replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")


def unstuffed(body: bytes) -> bytes:
    """Return ``body`` without what :func:`stuffed` added."""
    return body.replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")


def _table() -> array[int]:
    """The CRC of any two bytes: what x^16 + x^15 + x^2 + 1 leaves of each bit, added up without carry."""
    table, remainder = np.zeros(1, np.uint16), 0x8005
    for _ in range(16):
        table = np.concatenate([table, table ^ np.uint16(remainder)])
        remainder = remainder << 1 ^ (0x18005 if remainder & 0x8000 else 0)
    return array("H", table.tobytes())


_TABLE = _table()


def crc(data: bytes, start: int = 0) -> int:
    """Return the CRC-16 of the protocol, two bytes at a time."""
    table, size = _TABLE, len(data)
    if size & 1:
        start = start << 8 & 0xFF00 ^ table[start >> 8 ^ data[0]]
        data = data[1:]
    for pair in unpack(f">{size >> 1}H", data):
        start = table[start ^ pair]
    return start
