"""The control loop's two messages on a bus of Dynamixel servos: read everybody's state, command everybody's current.

Frames are prepared once. A reply is held to its request by one comparison of all its heads, and unpacked in one go;
what does not fit at once (byte stuffing, a stale or damaged packet, an alert) goes the long way by
:class:`bench.instruments.dynamixel_line.DynamixelLine`.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from bench.errors import InstrumentTimeout
from bench.instruments.dynamixel_frames import (
    BROADCAST,
    HEADER,
    STATUS,
    Status,
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

Counts = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], list[int]]
"""Current, velocity and position counts, one an axis, and the ids of the servos that show an alert."""


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
        form: type[_FastForm] | type[_PlainForm] = _FastForm if fast else _PlainForm
        self._forms = [form(line, self._ids, table, extra, delay_s) for extra in before]

    def read(self, now: int) -> Counts:
        """Return everybody's state; ``now`` is the time [ns].

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
                data = line.drain()
                line.statistics.timeouts += 1
            else:
                counts = form.unpack(data)
                if counts is not None:
                    line.unsettled = False
                    return counts
            if len(data) >= form.size:
                answers = line.collect(form.request, self._ids, form.count, form.wait_ns, data)
                if len(answers) == len(self._ids):
                    return _counts([answers[servo_id].data[form.extra :] for servo_id in self._ids], answers)
        raise line.absence(self._ids, "to a sync read")


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
        self.size = 8 + len(ids) * (self.count + 4) if fast else len(ids) * (self.count + 11)
        self.wait_ns = line.wait_ns(len(self.request), self.size, 1 if fast else len(ids), delay_s)


class _PlainForm(_Form):
    """A status packet from each servo."""

    def __init__(
        self, line: DynamixelLine, ids: tuple[int, ...], table: ControlTable, extra: int, delay_s: float
    ) -> None:
        super().__init__(line, ids, table, extra, delay_s, fast=False)
        self._fields = struct.Struct("<" + f"9s{extra}xhii2x" * len(ids)).unpack
        # Header, id, length, instruction, no error.
        self._heads = tuple(instruction(servo_id, STATUS, bytes(1 + self.count))[:9] for servo_id in ids)
        # Each packet's CRC comes low byte first, and is wanted the other way round.
        step = self.count + 11
        self._low = sum(0xFF << 8 * step * k for k in range(len(ids)))
        self._text = (1 << 8 * self.size) - 1 ^ self._low * 0x101

    def unpack(self, data: bytes) -> Counts | None:
        """Return the counts in a reply that is exactly as it should be, None for any other."""
        fields = self._fields(data)
        number = int.from_bytes(data, "big")
        low = self._low
        if fields[0::4] != self._heads or not divides(number & self._text | (number & low) << 8 | number >> 8 & low):
            return None
        return fields[1::4], fields[2::4], fields[3::4], []


class _FastForm(_Form):
    """One status packet for all."""

    def __init__(
        self, line: DynamixelLine, ids: tuple[int, ...], table: ControlTable, extra: int, delay_s: float
    ) -> None:
        super().__init__(line, ids, table, extra, delay_s, fast=True)
        self._head = HEADER + bytes([BROADCAST]) + _CRC.pack(self.size - 7) + bytes([STATUS])
        self._fields = struct.Struct("<8s" + f"H{extra}xhii2x" * len(ids)).unpack
        self._parts = tuple(servo_id << 8 for servo_id in ids)  # no error, id

    def unpack(self, data: bytes) -> Counts | None:
        """Return the counts in a reply that is exactly as it should be, None for any other."""
        fields = self._fields(data)
        if fields[0] != self._head or fields[1::4] != self._parts:
            return None
        # The last CRC is that of all before it; those in between are for the servos among themselves.
        if not divides(int.from_bytes(data[:-2], "big") << 16 | data[-1] << 8 | data[-2]):
            return None
        return fields[2::4], fields[3::4], fields[4::4], []


def _counts(states: list[bytes], answers: dict[int, Status]) -> Counts:
    current, velocity, position = zip(*(_STATE.unpack(state) for state in states), strict=True)
    return current, velocity, position, [servo_id for servo_id, answer in answers.items() if answer.error]
