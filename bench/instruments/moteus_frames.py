"""The wire format of moteus drives behind an fdcanusb adapter, as the host sees it.

The adapter takes lines of text and gives lines of text, each for one CAN-FD frame:

=======================================  ==========================================================================
line                                     meaning
=======================================  ==========================================================================
``can send 9801 01000A…5050 BF``         to the bus: identifier and data in hex, flags (bit-rate switch, CAN-FD)
``OK``                                   the adapter has taken the frame
``rcv 118 2100…50 E B F``                from the bus
``ERR unknown command``                  the adapter has not
=======================================  ==========================================================================

The identifier of a request is ``reply wanted << 15 | source << 8 | drive``, that of its reply ``drive << 8 | source``.
Data are subframes, padded with 0x50 to a length CAN-FD knows. A subframe's first byte says what it is (0x00 write,
0x10 read, 0x20 reply, 0x30 and 0x31 refused), its bits 2-3 the type (int8, int16, int32, float) and its bits 0-1 how
many registers, or 0 when a count follows. Then come the first register's number and the values, little-endian.
With checksums, which a drive on a UART insists on, a line ends in `` *XX``: CRC-8 of all before ``*``, polynomial 0x97.

Sources: mjbots, moteus documentation, "CAN Protocol", "Register Reference" and "UART"; fdcanusb README.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence

INT8, INT16, INT32, FLOAT = range(4)
WRITE, READ, REPLY = 0x00, 0x10, 0x20
WRITE_REFUSED, READ_REFUSED = 0x30, 0x31
PADDING = 0x50
LONGEST_FRAME = 64

_LENGTHS: tuple[int, ...] = (*range(9), 12, 16, 20, 24, 32, 48, 64)
_VALUE = (struct.Struct("<b"), struct.Struct("<h"), struct.Struct("<i"), struct.Struct("<f"))
_NAN = (-(2**7), -(2**15), -(2**31))


class BadFrame(ValueError):
    """The data of a frame are no subframes of this protocol."""


class RefusedRegister(Exception):
    """The drive refuses to read or write a register; its reason is a number."""

    def __init__(self, register: int, reason: int, *, read: bool) -> None:
        super().__init__(register, reason)
        self.register, self.reason, self.read = register, reason, read


def subframe(kind: int, width: int, register: int, values: Sequence[float] | int) -> bytes:
    """Return one subframe: a write of ``values`` to registers from ``register`` on, or a read of so many."""
    count = values if isinstance(values, int) else len(values)
    head = bytes([kind | width << 2 | count]) if count <= 3 else bytes([kind | width << 2, count])
    head += _varuint(register)
    if isinstance(values, int):
        return head
    frame = bytearray(head)
    for value in values:
        frame += _VALUE[width].pack(value if width == FLOAT else int(value))
    return bytes(frame)


def padded(data: bytes) -> bytes:
    """Return ``data`` with as much padding as CAN-FD's lengths ask for."""
    for length in _LENGTHS:
        if length >= len(data):
            return data + bytes([PADDING]) * (length - len(data))
    raise BadFrame(f"{len(data)} bytes do not fit in a CAN-FD frame")


def decode(data: bytes) -> Iterator[tuple[int, int, float]]:
    """Yield register, type and value of every reply subframe; integers that stand for NaN are left as they are.

    Raises
    ------
    BadFrame
        The data break off, or begin with what no reply may hold.
    RefusedRegister
        The drive answers that it does not know a register, or will not write it.
    """
    at = 0
    try:
        while at < len(data):
            first = data[at]
            at += 1
            if first == PADDING:
                continue
            if first in (WRITE_REFUSED, READ_REFUSED):
                register, at = _read_varuint(data, at)
                reason, at = _read_varuint(data, at)
                raise RefusedRegister(register, reason, read=first == READ_REFUSED)
            if first & 0xF0 != REPLY:
                raise BadFrame(f"0x{first:02x} begins no reply")
            width, count = first >> 2 & 3, first & 3
            if not count:
                count, at = _read_varuint(data, at)
            register, at = _read_varuint(data, at)
            for k in range(count):
                (value,) = _VALUE[width].unpack_from(data, at)
                at += _VALUE[width].size
                yield register + k, width, value
    except (struct.error, IndexError):
        raise BadFrame(f"the data break off: {data.hex()}") from None


def scaled(value: int, width: int, unit: float) -> float:
    """Return an integer register in its unit; the lowest number of each type is NaN."""
    return math.nan if value == _NAN[width] else value * unit


def _crc8_table() -> bytes:
    table = bytearray()
    for byte in range(256):
        for _ in range(8):
            byte = (byte << 1 ^ 0x97 if byte & 0x80 else byte << 1) & 0xFF
        table.append(byte)
    return bytes(table)


_CRC8 = _crc8_table()


def crc8(text: bytes, crc: int = 0) -> int:
    """Return the CRC-8 with polynomial 0x97 of ``text``, going on from ``crc``."""
    table = _CRC8
    for byte in text:
        crc = table[crc ^ byte]
    return crc


def _varuint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varuint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
