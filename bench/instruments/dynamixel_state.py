"""The control loop's two messages on a bus of Dynamixel servos: read everybody's state, command everybody's current.

Frames are prepared once. A reply is held to its request by one comparison of all its heads, and unpacked in one go;
what does not fit at once (byte stuffing, a stale or damaged packet, an alert) goes the long way by
:class:`bench.instruments.dynamixel_line.DynamixelLine`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import chain

from bench.errors import InstrumentTimeout
from bench.instruments.dynamixel_frames import (
    BROADCAST,
    HEADER,
    STATUS,
    crc16,
    divides,
    instruction,
    sync_read,
    sync_write,
)
from bench.instruments.dynamixel_line import CLAIM_NS, DynamixelLine
from bench.instruments.dynamixel_models import ControlTable

_STATE = struct.Struct("<hii")
_CRC = struct.Struct("<H")

Counts = tuple[int, ...]
"""Current, velocity and position counts of the first axis, then of the second, …"""


class StateReader:
    """Reads current, velocity and position of every servo in one transaction.

    Parameters
    ----------
    line : DynamixelLine
        The bus.
    ids : sequence of int
        In the order of the axes.
    table : ControlTable
        Where the servos keep it.
    fast : bool
        Use fast sync read: one answer for all. Every servo must know it.
    delay_s : float
        Return delay of a servo [s].
    """

    def __init__(
        self, line: DynamixelLine, ids: Sequence[int], table: ControlTable, *, fast: bool, delay_s: float
    ) -> None:
        self._line = line
        self._ids = tuple(ids)
        # Form 0 is the one for every day; the others begin at an earlier register, so that their replies are longer.
        starts = (table.present_current, table.present_pwm, table.moving, table.realtime_tick)
        before = [table.present_current.address - register.address for register in starts]
        self._forms = [_Form(line, self._ids, table, extra, delay_s, fast=fast) for extra in before]

    def read(self, now: int) -> tuple[Counts, Sequence[int]]:
        """Return everybody's state, and the ids of servos that show an alert; ``now`` is the time [ns].

        Raises
        ------
        InstrumentTimeout
            Not all have answered whole and in time; those missing are named.
        InstrumentError
            A servo refuses.
        """
        line = self._line
        serial = line.line
        if line.tag and now >= line.tagged_until_ns:
            line.tag = 0
        with serial.claim(now + CLAIM_NS):
            if line.unsettled:
                line.settle()
            form = self._forms[line.tag]
            line.unsettled = True
            serial.write(form.request)
            try:
                data = serial.read_exactly(form.size, now + form.wait_ns)
            except InstrumentTimeout:
                line.statistics.timeouts += 1
                line.drain()
                answers = {}
            else:
                counts = form.unpack(data)
                if counts is not None:
                    line.unsettled = False
                    return counts, ()
                answers = line.collect(form.request, self._ids, form.count, form.wait_ns, data)
        if len(answers) < len(self._ids):
            raise line.absence(self._ids, "to a sync read")
        found = [_STATE.unpack_from(answers[servo_id].data, form.extra) for servo_id in self._ids]
        return tuple(chain(*found)), [servo_id for servo_id in self._ids if answers[servo_id].error]


class CurrentWriter:
    """Writes everybody's goal current in one packet that has no reply."""

    def __init__(self, line: DynamixelLine, ids: Sequence[int], table: ControlTable) -> None:
        self._line = line
        register = table.goal_current
        empty = sync_write(register.address, register.size, dict.fromkeys(ids, bytes(register.size)))
        # No stuffing can be needed: an id is below 0xFD, so FF FF FD does not fit between two ids.
        self._head = empty[: -2 - 3 * len(ids)]
        self._pack = struct.Struct("<" + "Bh" * len(ids)).pack
        self._arguments = [value for servo_id in ids for value in (servo_id, 0)]
        self.size = len(empty)

    def write(self, counts: Sequence[int], now: int) -> None:
        """Send goal currents, one count an axis; ``now`` is the time [ns]."""
        arguments = self._arguments
        arguments[1::2] = counts
        packet = self._head + self._pack(*arguments)
        serial = self._line.line
        with serial.claim(now + CLAIM_NS):
            serial.write(packet + _CRC.pack(crc16(packet)))


class _Form:
    """One way to ask for the state: ``extra`` bytes more than needed stand before it."""

    def __init__(
        self, line: DynamixelLine, ids: tuple[int, ...], table: ControlTable, extra: int, delay_s: float, *, fast: bool
    ) -> None:
        self.extra = extra
        self.count = extra + _STATE.size
        self.request = sync_read(bytes(ids), table.present_current.address - extra, self.count, fast=fast)
        skipped, head, step = (2, 8, self.count + 4) if fast else (9, 0, self.count + 11)
        self.size = head + len(ids) * step
        self.wait_ns = line.wait_ns(len(self.request), self.size, 1 if fast else len(ids), delay_s)
        self._fields = struct.Struct(f"<{head}x" + f"{skipped + extra}xhii2x" * len(ids)).unpack
        # What stands before the registers must be as it should be: header, id, length, instruction; no error.
        if fast:
            due = HEADER + bytes([BROADCAST]) + _CRC.pack(self.size - 7) + bytes([STATUS])
            due += b"".join(bytes([0, servo_id]) + bytes(step - 2) for servo_id in ids)
        else:
            packets = [instruction(servo_id, STATUS, bytes(1 + self.count)) for servo_id in ids]
            due = b"".join(packet[:9] + bytes(step - 9) for packet in packets)
        mask = b"\xff" * head + (b"\xff" * skipped + bytes(step - skipped)) * len(ids)
        self._due, self._mask = int.from_bytes(due, "big"), int.from_bytes(mask, "big")
        # A packet's CRC comes low byte first, and is wanted the other way round. In the one answer to a fast read the
        # last CRC is that of all before it; those in between are for the servos among themselves.
        ends = range(1 if fast else len(ids))
        self._low = sum(0xFF << 8 * step * k for k in ends)
        self._text = (1 << 8 * self.size) - 1 ^ self._low * 0x101

    def unpack(self, data: bytes) -> Counts | None:
        """Return the counts in a reply that is exactly as it should be, None for any other."""
        number = int.from_bytes(data, "big")
        if number & self._mask != self._due:
            return None
        low = self._low
        if not divides(number & self._text | (number & low) << 8 | number >> 8 & low):
            return None
        return self._fields(data)
