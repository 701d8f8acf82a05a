"""The packets of Dynamixel protocol 2.0, as the host sees them.

====================  =============================================================================================
bytes                 meaning
====================  =============================================================================================
``FF FF FD 00``       header and reserved byte
id                    0 to 252; 254 is everybody
length                two bytes, low first: what follows, CRC included
instruction           0x01 ping, 0x02 read, 0x03 write, …; 0x55 in every answer (status packet)
error                 in a status packet only: number of the refusal, bit 7 the alert
parameters            …
CRC                   two bytes, low first: CRC-16, polynomial 0x8005, not reflected, from 0, of all before it
====================  =============================================================================================

``FF FF FD`` from the instruction to the last parameter is sent as ``FF FF FD FD`` (stuffing), and counted so in length
and CRC; the answer to a fast sync read alone is not stuffed. In that answer all servos speak as one: id 254, and for
each servo error, id, data and the CRC up to there.

Sources: ROBOTIS e-Manual, "Protocol 2.0" and "CRC Calculation".
"""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass

HEADER = b"\xff\xff\xfd\x00"
BROADCAST = 0xFE
PING, READ, WRITE, REG_WRITE, ACTION, FACTORY_RESET, REBOOT = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x08
STATUS, SYNC_READ, SYNC_WRITE, FAST_SYNC_READ = 0x55, 0x82, 0x83, 0x8A
HEAD_BYTES = 8
"""Header, id, length and instruction."""
SHORTEST_STATUS = 11
LONGEST_STATUS = 1024

_LENGTH = struct.Struct("<H")
_CRC = struct.Struct("<H")
_PATTERN, _STUFFED = b"\xff\xff\xfd", b"\xff\xff\xfd\xfd"


@functools.cache
def crc_words() -> list[int]:
    """Return the CRC of each pair of bytes from 0, as a table of 65 536: two bytes a step.

    ``crc = table[crc ^ (first << 8 | second)]`` goes on by two bytes.
    """
    single = []
    for byte in range(256):
        crc = byte << 8
        for _ in range(8):
            crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
        single.append(crc)
    pairs = []
    for after_first in single:
        high, low = after_first >> 8, (after_first & 0xFF) << 8
        pairs += [single[high ^ second] ^ low for second in range(256)]
    return pairs


def crc16(data: bytes, crc: int = 0) -> int:
    """Return the CRC-16 of ``data``, going on from ``crc``."""
    table = crc_words()
    if len(data) & 1:
        crc = _one_byte(crc, data[0])
        data = data[1:]
    for word in struct.unpack(f">{len(data) // 2}H", data):
        crc = table[crc ^ word]
    return crc


def _one_byte(crc: int, byte: int) -> int:
    crc ^= byte << 8
    for _ in range(8):
        crc = (crc << 1 ^ 0x8005 if crc & 0x8000 else crc << 1) & 0xFFFF
    return crc


def instruction(servo_id: int, code: int, parameters: bytes = b"") -> bytes:
    """Return an instruction packet, stuffed."""
    body = bytes([code]) + parameters
    if _PATTERN in body:
        body = body.replace(_PATTERN, _STUFFED)
    packet = HEADER + bytes([servo_id]) + _LENGTH.pack(len(body) + 2) + body
    return packet + _CRC.pack(crc16(packet))


def read(servo_id: int, address: int, count: int) -> bytes:
    """Return the packet that reads ``count`` bytes from ``address``."""
    return instruction(servo_id, READ, struct.pack("<HH", address, count))


def write(servo_id: int, address: int, data: bytes) -> bytes:
    """Return the packet that writes ``data`` from ``address`` on."""
    return instruction(servo_id, WRITE, struct.pack("<H", address) + data)


def sync_read(ids: bytes, address: int, count: int, *, fast: bool = False) -> bytes:
    """Return the packet that reads the same registers of several servos."""
    return instruction(BROADCAST, FAST_SYNC_READ if fast else SYNC_READ, struct.pack("<HH", address, count) + ids)


def sync_write(address: int, count: int, entries: dict[int, bytes]) -> bytes:
    """Return the packet that writes ``count`` bytes at the same address of several servos."""
    parameters = b"".join(bytes([servo_id]) + data for servo_id, data in entries.items())
    return instruction(BROADCAST, SYNC_WRITE, struct.pack("<HH", address, count) + parameters)


@dataclass(frozen=True)
class Status:
    """A status packet: who answers, its error byte, and its parameters without stuffing."""

    servo_id: int
    error: int
    data: bytes


@dataclass(frozen=True)
class Damaged:
    """Bytes that are no status packet: noise, or a packet whose CRC is wrong. ``servo_id`` is what it claims to be."""

    data: bytes
    servo_id: int | None = None


class StatusReader:
    """Cuts a stream of bytes into status packets, however they are chopped.

    Parameters
    ----------
    data : bytes
        What has come already.
    """

    def __init__(self, data: bytes = b"") -> None:
        self._buffer = bytearray(data)

    def feed(self, data: bytes) -> None:
        """Add bytes."""
        self._buffer += data

    def missing(self) -> int:
        """Return how many bytes are missing, at least, to the next packet's end."""
        buffer = self._buffer
        if len(buffer) < SHORTEST_STATUS:
            return SHORTEST_STATUS - len(buffer)
        length: int = _LENGTH.unpack_from(buffer, 5)[0]
        return max(1, 7 + length - len(buffer))

    def take(self) -> Status | Damaged | None:
        """Return the next packet or what is in its place, None when there is no whole one."""
        buffer = self._buffer
        start = buffer.find(HEADER)
        if start < 0:
            # The end may be the beginning of a header.
            keep = next((k for k in (3, 2, 1) if buffer.endswith(HEADER[:k])), 0)
            return self._cut(len(buffer) - keep) if len(buffer) > keep else None
        if start:
            return self._cut(start)
        if len(buffer) < HEAD_BYTES:
            return None
        length = _LENGTH.unpack_from(buffer, 5)[0]
        if buffer[4] > BROADCAST or buffer[7] != STATUS or not 4 <= length <= LONGEST_STATUS:
            return self._cut(len(HEADER), buffer[4])
        if len(buffer) < 7 + length:
            return None
        packet = bytes(buffer[: 7 + length])
        if _CRC.unpack_from(packet, 5 + length)[0] != crc16(packet[:-2]):
            again = packet.find(HEADER, 1)
            return self._cut(again if again > 0 else len(packet), packet[4])
        del buffer[: len(packet)]
        body = packet[9:-2]
        if packet[4] != BROADCAST:
            # The byte before the parameters belongs to the searched range too.
            body = packet[8:-2].replace(_STUFFED, _PATTERN)[1:]
        return Status(packet[4], packet[8], body)

    def rest(self) -> bytes:
        """Return and forget what was not taken."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def _cut(self, count: int, servo_id: int | None = None) -> Damaged:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return Damaged(data, servo_id)
