"""Packets of Dynamixel protocol 2.0 on the device's side. Apart from the driver's half on purpose."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import NamedTuple

EVERYBODY = 0xFE
PAUSE_NS = 50_000_000
"""A packet that breaks off for so long is forgotten [ns]."""
_START = b"\xff\xff\xfd\x00"
_KEPT = 64


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

    def receive(self, data: bytes, now_ns: int) -> None:
        """Bytes from the host, at the world time [ns] when the last of them is through."""
        if self._buffer and now_ns - self._last_ns > PAUSE_NS:
            self._buffer = b""
        self._last_ns = now_ns
        if not self._buffer:
            known = self._known.get(data)
            if known is not None:
                self._handle(known)
                return
        self._buffer += data
        while (packet := self._next()) is not None:
            self._handle(packet)

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
        whole = crc(packet[:-2]) == packet[-2] | packet[-1] << 8
        found = Instruction(packet[4], packet[7], unstuffed(packet[8:-2]) if whole else b"", whole)
        if whole and found.code not in (0x03, 0x83):
            if len(self._known) >= _KEPT:
                self._known.clear()
            self._known[packet] = found
        return found


def status(servo_id: int, error: int, parameters: bytes = b"") -> bytes:
    """Return a status packet, stuffed."""
    body = stuffed(bytes((0x55, error)) + parameters)
    packet = _START + struct.pack("<BH", servo_id, len(body) + 2) + body
    return packet + struct.pack("<H", crc(packet))


def joint_status(parts: list[tuple[int, int, bytes]]) -> bytes:
    """Return what servos say together to a fast sync or bulk read, from each one's error, id and data. Not stuffed."""
    length = 1 + sum(4 + len(data) for _, _, data in parts)
    packet = _START + struct.pack("<BHB", EVERYBODY, length, 0x55)
    check = crc(packet)
    for error, servo_id, data in parts:
        part = bytes((error, servo_id)) + data
        check = crc(part, check)
        end = struct.pack("<H", check)
        check = crc(end, check)
        packet += part + end
    return packet


def stuffed(body: bytes) -> bytes:
    """Return ``body`` with FD added to each FF FF FD."""
    return body.replace(b"\xff\xff\xfd", b"\xff\xff\xfd\xfd")


def unstuffed(body: bytes) -> bytes:
    """Return ``body`` without what :func:`stuffed` added."""
    return body.replace(b"\xff\xff\xfd\xfd", b"\xff\xff\xfd")


def _table() -> list[int]:
    """The CRC of one byte in the high half: shift out eight bits against x^16 + x^15 + x^2 + 1."""
    table = []
    for byte in range(256):
        remainder = byte << 8
        for _ in range(8):
            remainder <<= 1
            if remainder & 0x10000:
                remainder ^= 0x18005
        table.append(remainder)
    return table


_CRC = _table()


def crc(data: bytes, start: int = 0) -> int:
    """Return the CRC-16 of the protocol, byte by byte as in the servo's firmware."""
    table = _CRC
    for byte in data:
        start = start << 8 & 0xFF00 ^ table[start >> 8 ^ byte]
    return start
