"""One Dynamixel servo as its firmware behaves: control table, access rights, torque, watchdog, hardware errors.

It knows no packets and no bus (:mod:`bench.twin.devices.dynamixel` does), and it does not own its motor: it says what
current it wants, and is told what its sensors measure.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from bench.twin.devices.dynamixel_tables import Entry, Model

RESULT_FAIL, INSTRUCTION_ERROR, CRC_ERROR, RANGE_ERROR, LENGTH_ERROR, LIMIT_ERROR, ACCESS_ERROR = range(1, 8)
ALERT = 0x80
VOLTAGE_ERROR, OVERHEATING, OVERLOAD = 0x01, 0x04, 0x20
TRIPPED = 0xFF
WATCHDOG_STEP_NS = 20_000_000
OVERLOAD_SHARE = 0.95
"""Share of Current Limit that is an overload when it lasts ``OVERLOAD_NS``."""
OVERLOAD_NS = 1_000_000_000
_TICK = struct.Struct("<HB")
_PRESENT = struct.Struct("<hii")
_SHORT = struct.Struct("<h")
_HEARD_BY = frozenset(("secondary_id", "status_return_level", "firmware"))
_GOALS = frozenset(("goal_pwm", "goal_current", "goal_velocity", "goal_position"))


class Servo:
    """A servo and its memory.

    Parameters
    ----------
    model : Model
        Its model.
    servo_id, baud : int
        As set in it.
    firmware : int
        Its version.
    """

    def __init__(self, model: Model, servo_id: int, baud: int, *, firmware: int, return_delay: int) -> None:
        self.model = model
        self.memory = bytearray(max(model.by_address) + 16)
        self._defined = bytearray(len(self.memory))
        for entry in model.by_address.values():
            self._defined[entry.address : entry.address + entry.size] = b"\1" * entry.size
        self._readable: dict[tuple[int, int], bool] = {}
        at = {name: entry.address for name, entry in model.entries.items()}
        self._present_at, self._tick_at = at["present_current"], at["realtime_tick"]
        self._torque_at, self._watchdog_at, self._error_at = (
            at["torque_enable"], at["bus_watchdog"], at["hardware_error"]
        )  # fmt: skip
        self.goal_at, self._limit_at, self._level_at = (
            at["goal_current"], at["current_limit"], at["status_return_level"]
        )  # fmt: skip
        self._refreshed = range(at["realtime_tick"], at["temperature"] + 1)
        self._per_radian = model.pulses / (2.0 * math.pi)
        self._per_rad_s = 60.0 / (2.0 * math.pi * model.velocity_unit_rpm)
        self.on_roster: Callable[[], None] = lambda: None
        """Called when it may hear, or answer, other packets than before."""
        self._ready = self._muted = False
        self.heard_ns = 0
        self.id = servo_id
        self.baud = baud
        self.overloaded_since_ns: int | None = None
        self._registered: tuple[int, bytes] | None = None
        self._turns = 0  # counts of whole turns that are added to what the motor's encoder says
        self._offset = 0
        self._sign, self._unit_a = 1, model.current_unit_a
        self.factory_reset(keep=0xFF)
        self.set("firmware", firmware)
        self.set("id", servo_id)
        self.set("baud_rate", model.bauds.index(baud))
        self.set("return_delay", return_delay)
        self.set("operating_mode", 0)
        self._settle()

    # -- memory -------------------------------------------------------------------------------------------------------

    def get(self, name: str) -> int:
        """Return a register's value."""
        entry = self.model.entries[name]
        return int.from_bytes(self.memory[entry.address : entry.address + entry.size], "little", signed=entry.signed)

    def set(self, name: str, value: int) -> None:
        """Set a register, whoever may write it."""
        entry = self.model.entries[name]
        self.memory[entry.address : entry.address + entry.size] = (value & (1 << 8 * entry.size) - 1).to_bytes(
            entry.size, "little"
        )
        if name in _HEARD_BY:
            self.on_roster()

    @property
    def ready(self) -> bool:
        """Whether it is up."""
        return self._ready

    @ready.setter
    def ready(self, ready: bool) -> None:
        self._ready = ready
        self.on_roster()

    @property
    def muted(self) -> bool:
        """Whether it is off the bus."""
        return self._muted

    @muted.setter
    def muted(self, muted: bool) -> None:
        self._muted = muted
        self.on_roster()

    @property
    def torque_on(self) -> bool:
        return self.memory[self._torque_at] != 0

    @property
    def tripped(self) -> bool:
        return self.memory[self._watchdog_at] == TRIPPED

    @property
    def alert(self) -> int:
        return ALERT if self.memory[self._error_at] else 0

    @property
    def return_delay_ns(self) -> int:
        return 2000 * self.memory[9]

    @property
    def answers(self) -> int:
        """Status return level."""
        return self.memory[self._level_at]

    def current_a(self, goal: int | None = None) -> float | None:
        """The current it wants of its motor [A], in the motor's own direction; None: driver off.

        With ``goal``: the one it would want if that were written to it as its goal current.
        """
        memory = self.memory
        if not self._ready or not memory[self._torque_at]:
            return None
        if memory[self._watchdog_at] == TRIPPED:
            return 0.0
        at = self._limit_at
        if goal is None or abs(goal) > memory[at] | memory[at + 1] << 8:  # beyond the limit: refused
            goal = _SHORT.unpack_from(memory, self.goal_at)[0]
            assert goal is not None
        return goal * self._unit_a

    # -- instructions -------------------------------------------------------------------------------------------------

    def read(self, address: int, count: int) -> tuple[int, bytes]:
        """Return error and bytes; no bytes with an error."""
        key = (address, count)
        readable = self._readable.get(key)
        if readable is None:
            within = count > 0 and address + count <= len(self.memory)
            readable = self._readable[key] = within and all(self._defined[address : address + count])
        if not readable:
            return ACCESS_ERROR, b""
        return 0, bytes(self.memory[address : address + count])

    def wants_refresh(self, address: int, count: int) -> bool:
        """Whether these registers show measurements."""
        return address < self._refreshed.stop and address + count > self._refreshed.start

    def refresh(self, position_rad: float, velocity_rad_s: float, current_a: float, now_ns: int) -> None:
        """Take what the sensors measure."""
        sign = self._sign
        current = round(current_a / self._unit_a)
        velocity = round(sign * velocity_rad_s * self._per_rad_s)
        position = sign * round(position_rad * self._per_radian) + self._turns + self._offset
        if not -0x8000 <= current < 0x8000:
            current = _clipped(current, 15)
        if not -0x80000000 <= velocity < 0x80000000:
            velocity = _clipped(velocity, 31)
        if not -0x80000000 <= position < 0x80000000:
            position = _wrapped(position)
        _PRESENT.pack_into(self.memory, self._present_at, current, velocity, position)
        moving = velocity_rad_s > 0.02 or velocity_rad_s < -0.02
        _TICK.pack_into(self.memory, self._tick_at, now_ns // 1_000_000 % 32768, moving)

    def write(self, address: int, data: bytes) -> int:
        """Write registers and return the error; nothing is written with an error."""
        if address == self.goal_at and len(data) == 2:  # what comes every few milliseconds
            return self.write_goal(_SHORT.unpack(data)[0])
        at, end = address, address + len(data)
        entries: list[tuple[Entry, int]] = []
        while at < end:
            entry = self.model.by_address.get(at)
            if entry is None or entry.low is None or (entry.eeprom and self.torque_on):
                return ACCESS_ERROR
            if at + entry.size > end:
                return LENGTH_ERROR
            part = data[at - address : at - address + entry.size]
            value = int.from_bytes(part, "little", signed=entry.signed)
            error = self._refused(entry, value)
            if error:
                return error
            entries.append((entry, value))
            at += entry.size
        if not entries:
            return LENGTH_ERROR
        for entry, value in entries:
            self.set(entry.name, value)
            if entry.name == "torque_enable" and value:
                self.overloaded_since_ns = None
            elif entry.name == "operating_mode":
                self.set("goal_current", 0)
        if any(entry.eeprom for entry, _ in entries):
            self._settle()
        return 0

    def write_goal(self, current: int) -> int:
        """Write the goal current alone, as :meth:`write` does."""
        memory, at = self.memory, self._limit_at
        if memory[self._watchdog_at] == TRIPPED:
            return RANGE_ERROR
        limit = memory[at] | memory[at + 1] << 8
        if not -limit <= current <= limit:
            return LIMIT_ERROR
        _SHORT.pack_into(memory, self.goal_at, current)
        return 0

    def _refused(self, entry: Entry, value: int) -> int:
        assert entry.low is not None
        if not entry.low <= value <= entry.high:
            return RANGE_ERROR
        if entry.name in _GOALS and self.tripped:
            return RANGE_ERROR
        if entry.limit and abs(value) > self.get(entry.limit):
            return LIMIT_ERROR
        if entry.name == "bus_watchdog" and self.tripped and value:
            return RANGE_ERROR
        if entry.name == "operating_mode" and value not in (0, 1, 3, 4, 5, 16):
            return RANGE_ERROR
        if entry.name == "torque_enable" and value and (self._shut_down() or self.get("operating_mode") != 0):
            return RESULT_FAIL
        return 0

    def register(self, address: int, data: bytes) -> int:
        """Keep a write until the action comes."""
        if not data:
            return LENGTH_ERROR
        self._registered = (address, data)
        self.set("registered_instruction", 1)
        return 0

    def act(self) -> int:
        """Carry out what was registered."""
        if self._registered is None:
            return INSTRUCTION_ERROR
        registered, self._registered = self._registered, None
        self.set("registered_instruction", 0)
        return self.write(*registered)

    def clear_turns(self) -> int:
        """Show the position within one turn again; only at a stand, and only the X series knows it."""
        if self.model.series != "X":
            return INSTRUCTION_ERROR
        if self.memory[self._present_at - 4]:
            return RESULT_FAIL
        self._turn_back(self.get("present_position") - self._offset - self._turns)
        return 0

    def factory_reset(self, keep: int) -> None:
        """Reset what is kept without supply: 0xFF all, 0x01 all but the id, 0x02 all but id and baud rate.

        The servo reboots then, once its answer is out; until it does it is heard as before.
        """
        kept = {name: self.get(name) for name in ("id", "baud_rate", "firmware", "model_information")}
        for entry in self.model.by_address.values():
            self.set(entry.name, entry.factory)
        self.set("firmware", kept["firmware"])
        self.set("model_information", kept["model_information"])
        self.on_roster()
        if keep != 0xFF:
            self.set("id", kept["id"])
            if keep == 0x02:
                self.set("baud_rate", kept["baud_rate"])

    # -- life ---------------------------------------------------------------------------------------------------------

    def off(self) -> None:
        """Supply lost, or rebooting: what is kept without supply is what it comes back with."""
        self.ready = False
        self._settle()
        self._registered = None
        self.overloaded_since_ns = None
        for entry in self.model.by_address.values():
            if not entry.eeprom and entry.address >= 64:
                self.set(entry.name, entry.factory)

    def boot(self, position_rad: float) -> None:
        """It has started; it knows its shaft's angle within one turn."""
        self.ready = True
        self._turn_back(self._sign * round(position_rad * self._per_radian))

    def supervise(self, now_ns: int, temperature_degc: float, supply_v: float, current_a: float) -> None:
        """Look for what shuts a servo down, once in a while."""
        if temperature_degc > self.get("temperature_limit"):
            self.fail(OVERHEATING)
        if not self.get("min_voltage_limit") <= round(supply_v * 10) <= self.get("max_voltage_limit"):
            self.fail(VOLTAGE_ERROR)
        if abs(current_a) < OVERLOAD_SHARE * self.get("current_limit") * self.model.current_unit_a:
            self.overloaded_since_ns = None
        elif self.overloaded_since_ns is None:
            self.overloaded_since_ns = now_ns
        elif now_ns - self.overloaded_since_ns >= OVERLOAD_NS:
            self.fail(OVERLOAD)

    def fail(self, bits: int) -> None:
        """A hardware error: it shows, and switches the torque off when Shutdown has it."""
        self.set("hardware_error", self.get("hardware_error") | bits)
        if self._shut_down():
            self.set("torque_enable", 0)

    def trip(self) -> None:
        """The bus was silent for the watchdog's time."""
        self.set("bus_watchdog", TRIPPED)
        self.set("goal_current", 0)

    def rename(self, servo_id: int) -> None:
        """Somebody has given it another id."""
        self.set("id", servo_id)
        self.id = servo_id

    def watchdog_ns(self) -> int | None:
        """The time after which the watchdog trips [ns], None when it does not watch."""
        steps = self.memory[self._watchdog_at]
        return steps * WATCHDOG_STEP_NS if 0 < steps < 128 and self._ready and self.torque_on else None

    def _shut_down(self) -> bool:
        return bool(self.get("hardware_error") & self.get("shutdown"))

    def _settle(self) -> None:
        """What settings mean for the rest."""
        self.id = self.get("id")
        self.baud = self.model.bauds[self.get("baud_rate")]
        self._sign = -1 if self.get("drive_mode") & 1 else 1
        self._unit_a = self._sign * self.model.current_unit_a
        self._offset = self.get("homing_offset")
        self.on_roster()

    def _turn_back(self, count: int) -> None:
        """Show an encoder's ``count`` within one turn from now on."""
        self._turns = -((count - self.model.one_turn_from) // self.model.pulses) * self.model.pulses


def _clipped(value: int, bits: int) -> int:
    top = 1 << bits
    return max(-top, min(top - 1, value))


def _wrapped(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31
