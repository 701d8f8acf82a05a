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


_M480, _M240, _M120, _M60, _M30, _M15 = ((1 << bits) - 1 for bits in (480, 240, 120, 60, 30, 15))


def _fold(number: int) -> int:
    """Return a message's remainder modulo x^15 + x + 1, one of the two factors of the CRC's polynomial.

    There x^15 is x + 1, and, squared again and again, x^(15 m) is x^m + 1 for every power of two m. So a message is
    folded in a few steps on whole numbers, without a table that a control loop would find cold every time.
    """
    while number > _M480:
        high = number >> 480
        number = number & _M480 ^ high ^ high << 32
    high = number >> 240
    number = number & _M240 ^ high ^ high << 16
    high = number >> 120
    number = number & _M120 ^ high ^ high << 8
    high = number >> 60
    number = number & _M60 ^ high ^ high << 4
    high = number >> 60
    number = number & _M60 ^ high ^ high << 4
    high = number >> 30
    number = number & _M30 ^ high ^ high << 2
    high = number >> 15
    number = number & _M15 ^ high ^ high << 1
    high = number >> 15
    return number & _M15 ^ high ^ high << 1


def crc16(data: bytes, crc: int = 0) -> int:
    """Return the CRC-16 of ``data``, going on from ``crc``."""
    number = int.from_bytes(data, "big") << 16 ^ crc << 8 * len(data)
    rest = _fold(number)
    # The other factor is x + 1: the number of ones is odd or even.
    return rest ^ 0x8003 if (rest.bit_count() ^ number.bit_count()) & 1 else rest


def divides(number: int) -> bool:
    """Return whether the CRC's polynomial divides a message that is followed by its CRC, high byte first.

    Several such messages may stand behind one another.
    """
    return not number.bit_count() & 1 and not _fold(number)


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
