"""A drive's registers: what each holds, its unit in each type, and replies put together from them.

A float is the value itself. An integer is the value in steps of its unit, held at ± its largest; the lowest number of
its type stands for NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable
from typing import Any

from bench.twin.devices.moteus_wire import Read, Shape

UNKNOWN, NOT_WRITABLE, BAD_VALUE = 1, 2, 3
NO_ROOM = 2
LONGEST_REPLY = 60
"""Bytes; the rest of a frame's 64 is kept for an error."""

POSITION_UNIT = (0.01, 1e-4, 1e-5)
VELOCITY_UNIT = (0.1, 2.5e-4, 1e-5)
ACCELERATION_UNIT = (0.05, 1e-3, 1e-5)
TORQUE_UNIT = (0.5, 0.01, 1e-3)
VOLTAGE_UNIT = (0.5, 0.1, 1e-3)
TEMPERATURE_UNIT = (1.0, 0.1, 1e-3)
CURRENT_UNIT = TEMPERATURE_UNIT
TIME_UNIT = (0.01, 1e-3, 1e-6)
SCALE_UNIT = (1 / 127, 1 / 32767, 1 / 2147483647)
COUNT = (1.0, 1.0, 1.0)

MODE = 0x000
COMMAND_POSITION, COMMAND_VELOCITY, FEEDFORWARD, KP_SCALE, KD_SCALE, MAX_TORQUE = range(0x020, 0x026)
STOP_POSITION, WATCHDOG, VELOCITY_LIMIT, ACCELERATION_LIMIT, FIXED_VOLTAGE, WINDUP_SCALE = range(0x026, 0x02C)
FIXED_CURRENT, IGNORE_BOUNDS = 0x02C, 0x02D

NAN = math.nan
COMMAND: dict[int, tuple[float, tuple[float, ...]]] = {
    COMMAND_POSITION: (0.0, POSITION_UNIT),
    COMMAND_VELOCITY: (0.0, VELOCITY_UNIT),
    FEEDFORWARD: (0.0, TORQUE_UNIT),
    KP_SCALE: (1.0, SCALE_UNIT),
    KD_SCALE: (1.0, SCALE_UNIT),
    MAX_TORQUE: (NAN, TORQUE_UNIT),
    STOP_POSITION: (NAN, POSITION_UNIT),
    WATCHDOG: (0.0, TIME_UNIT),
    VELOCITY_LIMIT: (NAN, VELOCITY_UNIT),
    ACCELERATION_LIMIT: (NAN, ACCELERATION_UNIT),
    FIXED_VOLTAGE: (NAN, VOLTAGE_UNIT),
    WINDUP_SCALE: (1.0, SCALE_UNIT),
    FIXED_CURRENT: (NAN, CURRENT_UNIT),
    IGNORE_BOUNDS: (0.0, COUNT),
}
"""Registers of a command: what each is when a command leaves it out, and its unit."""
UNSPECIFIED = {register: value for register, (value, _) in COMMAND.items()}
NOT_SIMULATED = frozenset((STOP_POSITION, VELOCITY_LIMIT, ACCELERATION_LIMIT, FIXED_VOLTAGE, FIXED_CURRENT))
"""Each of these asks for a way of moving that this twin has not, unless it is NaN (a limit: or negative)."""

_LOWEST = (-(2**7), -(2**15), -(2**31))

Getter = Callable[[], float]


class RegisterMap:
    """The registers that can be read: ``values`` with a unit in every type, ``words`` as int32 alone."""

    def __init__(self, values: dict[int, tuple[Getter, tuple[float, ...]]], words: dict[int, int]) -> None:
        self._values = values
        self._words = words
        self._replies: dict[int, tuple[Shape, Callable[[], bytes]]] = {}

    def known(self, register: int) -> bool:
        return register in self._values or register in self._words

    def reply(self, shape: Shape) -> bytes:
        """Return the subframes that answer what a frame of this shape asks for."""
        made = self._replies.get(id(shape))
        if made is None or made[0] is not shape:
            if len(self._replies) > 256:
                self._replies.clear()
            made = self._replies[id(shape)] = (shape, self._maker(shape.reads))
        return made[1]()

    def _maker(self, reads: Iterable[Read]) -> Callable[[], bytes]:
        form = "<"
        size = 0
        items: list[Any] = []
        slots: list[tuple[int, Getter]] = []
        tail = b""
        for read in reads:
            size += len(read.head) + read.count * (1, 2, 4, 4)[read.width]
            if size > LONGEST_REPLY:
                tail = b"\x31" + varuint(read.register) + varuint(NO_ROOM)
                break
            getters: list[Getter] = []
            for register in range(read.register, read.register + read.count):
                getter = self._getter(register, read.width)
                if getter is None:
                    tail = b"\x31" + varuint(register) + varuint(UNKNOWN)
                    break
                getters.append(getter)
            if tail:
                break  # firmware answers with the error alone, and leaves the rest of the frame
            form += f"{len(read.head)}s"
            items.append(read.head)
            for getter in getters:
                form += "bhif"[read.width]
                slots.append((len(items), getter))
                items.append(0)
        pack = struct.Struct(form).pack

        def make() -> bytes:
            for place, getter in slots:
                items[place] = getter()
            return pack(*items) + tail

        return make

    def _getter(self, register: int, width: int) -> Getter | None:
        if register in self._words:
            word = self._words[register]
            return (lambda: word) if width == 2 else None
        if register not in self._values:
            return None
        value, units = self._values[register]
        if width == 3:
            return value
        unit, lowest = units[width], _LOWEST[width]

        def scaled() -> int:
            number = value() / unit
            if lowest < number < -lowest:
                return int(number)
            return -lowest - 1 if number > 0 else lowest + 1 if number < 0 else lowest

        return scaled


def written(value: float, width: int, units: tuple[float, ...]) -> float:
    """Return the value that was written to a register, from its number on the wire."""
    if width == 3:
        return value
    return NAN if value == _LOWEST[width] else value * units[width]


def varuint(value: int) -> bytes:
    """Return a number in seven-bit groups, the lowest first."""
    out = bytearray()
    while True:
        value, low = value >> 7, value & 0x7F
        out.append(low | 0x80 if value else low)
        if not value:
            return bytes(out)


def signed(word: int) -> int:
    """Return 32 bits as the signed number a register carries them in."""
    return word - (1 << 32) if word & 0x80000000 else word
