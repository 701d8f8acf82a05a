"""A Zaber X-series stage with a built-in controller and motor encoder, as its serial line shows it (ASCII protocol 2).

Sources: Zaber, "ASCII Protocol Manual" for firmware 7; the vendor's own client accepts this device (see
``tests/contract/test_zaber_motion_client.py``). A client proves framing, checksums, ids, codes and units on the
commands it uses. It cannot prove how firmware behaves, so this is *assumed*:

- After power-up the count is 0 wherever the carriage stands, with flag WR. Until homed, ``move abs|min|max`` are
  rejected with BADDATA; ``move rel`` and ``move vel`` are carried out up to the mechanical end.
- Homing is one straight travel to the sensor at ``limit.approach.maxspeed``; the armed limits do not hold it back.
- ``pos`` is the trajectory, ``encoder.pos`` what the encoder measures. ``move vel`` ends at the armed limit by itself.
- A new move or a stop during a move takes over and leaves NI; the next move from standstill clears it.
- A stall stops the axis and leaves FS until ``warnings clear``.
- Losing motor power leaves FH and disables the driver until power is back and ``driver enable`` is sent; the
  reference survives, because the encoder is powered over the data line.
- ``set pos``, ``set limit.min`` and ``set limit.max`` are rejected with STATUSBUSY while the axis moves.
- A message with a wrong checksum, or for another address, is ignored without a trace.
- Replies carry a checksum when ``comm.checksum`` is 1. They start 300 µs after the command has arrived.
- ``system reset`` keeps settings, loses the reference, and leaves the device deaf for one second.
- The device id stands for no particular product: clients that look it up in the vendor's database find nothing.

There is no host watchdog: when the host goes away the axis runs on to its target or armed limit.
What is not listed in ``_settings`` or ``_commands`` is answered with BADCOMMAND.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.twin.devices.zaber_ascii_wire import PACKET_BYTES, Reject, ZaberWire
from bench.twin.interfaces import SerialPort, StagePlant, Timer, World

SPEED_SCALE = 1.6384
"""Speed data per microstep/s; acceleration data are microstep/s² times this over 10 000."""
RESET_NS = 1_000_000_000
ESTOP_ACCELERATION_MM_S2 = 5000.0
FLAG_ORDER = ("FH", "FS", "WR", "WH", "NI")


@dataclass(frozen=True)
class _Setting:
    read: Callable[[], object]
    write: Callable[[str], None] | None = None
    of_axis: bool = False


class ZaberAscii:
    """The device's end of the line; implements :class:`bench.twin.interfaces.SerialDevice`.

    Parameters
    ----------
    plant : StagePlant
        The stage it drives. Its coordinate 0 is where the home sensor is.
    name : str
        Name of the device on the link.
    address, baud : int
        Address on the chain and bits per second.
    microstep_size_mm : float
        Travel per microstep [mm].
    serial_number : str
        What ``get system.serial`` answers.
    travel_mm : tuple of float
        Mechanical travel, minimum and maximum [mm].
    max_speed_mm_s, acceleration_mm_s2, homing_speed_mm_s : float
        Initial ``maxspeed``, ``accel`` and ``limit.approach.maxspeed``.
    """

    device_id = 50999
    version = "7.38"
    build = "15700"
    fastest_mm_s = 104.0

    def __init__(
        self,
        plant: StagePlant,
        *,
        name: str = "stage",
        address: int = 1,
        baud: int = 115200,
        microstep_size_mm: float = 4.7625e-5,
        serial_number: str = "100001",
        travel_mm: tuple[float, float] = (0.0, 50.8),
        max_speed_mm_s: float = 20.0,
        acceleration_mm_s2: float = 100.0,
        homing_speed_mm_s: float = 20.0,
    ) -> None:
        self.name = name
        self.baud = baud
        self.serial_number = serial_number
        self.referenced = False
        self.flags: set[str] = {"WR"}
        self.wire = ZaberWire(self._execute, self._state, address)
        self.alerts = 0
        self._plant = plant
        self._step_mm = microstep_size_mm
        self._travel_mm = travel_mm
        self._zero_mm = plant.setpoint_mm()
        self._maxspeed = self._speed_data(max_speed_mm_s)
        self._accel = max(1, round(acceleration_mm_s2 / self._step_mm * SPEED_SCALE / 1e4))
        self._approach = self._speed_data(homing_speed_mm_s)
        self._limits = [round(edge / self._step_mm) for edge in travel_mm]
        self._homing = False
        self._disabled = False
        self._end: Timer | None = None
        self._settings = self._make_settings()
        self._commands: dict[str, Callable[[list[str], int], str]] = {
            "": lambda words, axis: "0",
            "get": self._get,
            "set": self._set,
            "home": self._home,
            "move": self._move,
            "stop": self._stop,
            "estop": self._stop,
            "warnings": self._warnings,
            "driver": self._driver,
            "system": self._system,
            "renumber": self._renumber,
            "tools": self._tools,
            "storage": self._storage,
            "io": self._io,
        }

    # -- the line -----------------------------------------------------------------------------------------------------

    def attach(self, world: World, port: SerialPort) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self._world = world
        self.wire.attach(world, port)
        self._plant.on_fault(self._on_fault)
        self._arm()

    def receive(self, data: bytes) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self.wire.receive(data)

    def fault(self, name: str, *, count: int = 1, delay_s: float = 0.8) -> None:
        """Inject a fault of the line; see :meth:`bench.twin.devices.zaber_ascii_wire.ZaberWire.fault`."""
        self.wire.fault(name, count=count, delay_s=delay_s)

    def _execute(self, words: list[str], axis: int) -> str:
        command = self._commands.get(words[0] if words else "")
        if command is None:
            raise Reject("BADCOMMAND")
        return command(words, axis)

    def _state(self) -> tuple[str, str]:
        shown = self._active()
        return ("BUSY" if self.moving else "IDLE"), (shown[0] if shown else "--")

    # -- the axis -----------------------------------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        return self._homing or self._plant.is_moving()

    def _active(self) -> list[str]:
        """Return the flags in force, the gravest first."""
        if self._plant.fault() == "unpowered":
            self._disabled = True
        return [flag for flag in FLAG_ORDER if flag in self.flags or (flag == "FH" and self._disabled)]

    def _counts(self, position_mm: float) -> int:
        return round((position_mm - self._zero_mm) / self._step_mm)

    def _speed_data(self, speed_mm_s: float) -> int:
        return round(speed_mm_s / self._step_mm * SPEED_SCALE)

    def _speed_mm_s(self, data: int) -> float:
        return data / SPEED_SCALE * self._step_mm

    def _acceleration_mm_s2(self, data: int) -> float:
        return data * 1e4 / SPEED_SCALE * self._step_mm

    def _begin(self) -> None:
        """A movement command comes: it takes over from the one that is under way."""
        if "FH" in self._active():
            raise Reject("DRIVERDISABLED")
        self._take_over()

    def _take_over(self) -> None:
        (self.flags.add if self.moving else self.flags.discard)("NI")
        self._forget_end()

    def _forget_end(self) -> None:
        if self._homing:
            self._homing = False
            self._arm()
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _until(self, end_ns: int, action: Callable[[], None]) -> None:
        self._end = self._world.at(end_ns, action)

    def _finished(self) -> None:
        self._end = None
        if self.alerts:
            self.wire.alert()

    def _arm(self) -> None:
        """Hand the armed limits to what drives the motor; before homing only the mechanical ends are known."""
        armed = [self._zero_mm + edge * self._step_mm for edge in self._limits]
        low, high = armed if self.referenced else self._travel_mm
        self._plant.set_hard_limits(low, high)

    def _home(self, words: list[str], axis: int) -> str:
        self._arguments(words, 1)
        self._begin()
        self._homing = True
        self._plant.set_hard_limits(*self._travel_mm)
        speed, acceleration = self._speed_mm_s(self._approach), self._acceleration_mm_s2(self._accel)
        self._until(self._plant.move_to(0.0, speed, acceleration), self._at_home)
        return "0"

    def _at_home(self) -> None:
        self._plant.set_zero_here()
        self._zero_mm = 0.0
        self._homing = False
        self.referenced = True
        self.flags -= {"WR", "WH"}
        self._arm()
        self._finished()

    def _move(self, words: list[str], axis: int) -> str:
        kind = words[1] if len(words) > 1 else ""
        if kind not in ("abs", "rel", "vel", "min", "max"):
            raise Reject("BADCOMMAND")
        numbers = [self._integer(word) for word in words[2:]]
        needed = 0 if kind in ("min", "max") else 1
        if not needed <= len(numbers) <= needed + (1 if kind == "vel" else 2) or (
            not self.referenced and kind in _ABSOLUTE
        ):
            raise Reject("BADDATA")
        given = numbers[needed:]
        speed = self._maxspeed if kind == "vel" or not given else given[0]
        accel = self._accel if not given or (kind != "vel" and len(given) < 2) else given[-1]
        if not (0 < speed <= self._speed_data(self.fastest_mm_s) and accel > 0):
            raise Reject("BADDATA")
        acceleration = self._acceleration_mm_s2(accel)
        if kind == "vel":
            return self._move_vel(numbers[0], acceleration)
        target = {"abs": numbers[:1], "min": self._limits[:1], "max": self._limits[1:]}.get(kind)
        counts = target[0] if target else self._counts(self._plant.setpoint_mm()) + numbers[0]
        if self.referenced and not self._limits[0] <= counts <= self._limits[1]:
            raise Reject("BADDATA")
        self._begin()
        self._go(counts, self._speed_mm_s(speed), acceleration)
        return "0"

    def _move_vel(self, data: int, acceleration_mm_s2: float) -> str:
        if abs(data) > self._speed_data(self.fastest_mm_s):
            raise Reject("BADDATA")
        self._begin()
        speed = self._speed_mm_s(data)
        if data == 0:
            self._until(self._plant.stop(acceleration_mm_s2), self._finished)
        elif self.referenced:
            self._go(self._limits[data > 0], abs(speed), acceleration_mm_s2)
        else:
            self._plant.move_velocity(speed, acceleration_mm_s2)
        return "0"

    def _go(self, counts: int, speed_mm_s: float, acceleration_mm_s2: float) -> None:
        target_mm = self._zero_mm + counts * self._step_mm
        self._until(self._plant.move_to(target_mm, speed_mm_s, acceleration_mm_s2), self._finished)

    def _stop(self, words: list[str], axis: int) -> str:
        self._arguments(words, 1)
        rate = ESTOP_ACCELERATION_MM_S2 if words[0] == "estop" else self._acceleration_mm_s2(self._accel)
        if self.moving:
            self._take_over()
            self._until(self._plant.stop(rate), self._finished)
        return "0"

    def _on_fault(self, code: str) -> None:
        under_way = self._end is not None
        self._forget_end()
        if code == "stalled":
            self.flags.add("FS")
        else:
            self._disabled = True
        if under_way:
            self._finished()

    # -- other commands -----------------------------------------------------------------------------------------------

    def _warnings(self, words: list[str], axis: int) -> str:
        shown = self._active()
        if words[1:] == ["clear"]:
            self.flags -= {"FS", "NI"}
        elif words[1:]:
            raise Reject("BADCOMMAND")
        return " ".join([f"{len(shown):02d}", *shown])

    def _driver(self, words: list[str], axis: int) -> str:
        if words[1:] != ["enable"]:
            raise Reject("BADCOMMAND")
        if self._plant.fault() == "unpowered":
            raise Reject("DRIVERDISABLED")
        self._disabled = False
        return "0"

    def _system(self, words: list[str], axis: int) -> str:
        if words[1:] != ["reset"]:
            raise Reject("BADCOMMAND")
        if self.moving:
            self._plant.stop(ESTOP_ACCELERATION_MM_S2)
        self._forget_end()
        self.referenced = False
        self.flags = {"WR"}
        self._zero_mm = self._plant.setpoint_mm()
        self.wire.deaf_until_ns = self._world.now_ns + RESET_NS
        return "0"

    def _renumber(self, words: list[str], axis: int) -> str:
        address = self._integer(words[1]) if len(words) == 2 else 1
        if len(words) > 2 or not 1 <= address <= 99:
            raise Reject("BADDATA")
        self.wire.address = address
        return "0"

    def _tools(self, words: list[str], axis: int) -> str:
        if words[1:2] != ["echo"]:
            raise Reject("BADCOMMAND")
        return " ".join(words[2:])

    def _storage(self, words: list[str], axis: int) -> str:
        if "get" not in words:
            raise Reject("BADCOMMAND")
        raise Reject("BADDATA")  # nothing is stored under any key

    def _io(self, words: list[str], axis: int) -> str:
        if words[1:] != ["info"]:
            raise Reject("BADCOMMAND")
        return "0 0 0 0"

    # -- settings -----------------------------------------------------------------------------------------------------

    def _make_settings(self) -> dict[str, _Setting]:
        def constant(value: object, of_axis: bool = False) -> _Setting:
            return _Setting(lambda: value, of_axis=of_axis)

        def number(owner: object, name: str, low: int, high: int) -> _Setting:
            return _Setting(
                lambda: getattr(owner, name),
                lambda text: setattr(owner, name, self._integer(text, low, high)),
                name.startswith("_"),
            )

        fastest = self._speed_data(self.fastest_mm_s)
        return {
            "deviceid": constant(self.device_id),
            "device.id": constant(self.device_id),
            "version": constant(self.version),
            "version.build": constant(self.build),
            "system.serial": constant(self.serial_number),
            "system.axiscount": constant(1),
            "system.access": constant(1),
            "device.hw.modified": constant(0),
            "comm.protocol": constant(2),
            "comm.rs232.baud": constant(self.baud),
            "comm.packet.size.max": constant(PACKET_BYTES),
            "comm.word.size.max": constant(50),
            "comm.command.packets.max": constant(5),
            "comm.address": number(self.wire, "address", 1, 99),
            "comm.checksum": number(self.wire, "checksums", 0, 1),
            "comm.alert": number(self, "alerts", 0, 1),
            "resolution": constant(64, of_axis=True),
            "parking.state": constant(0, of_axis=True),
            "pos": _Setting(lambda: self._counts(self._plant.setpoint_mm()), self._set_pos, True),
            "encoder.pos": _Setting(lambda: self._counts(self._plant.position_mm()), None, True),
            "maxspeed": number(self, "_maxspeed", 1, fastest),
            "limit.approach.maxspeed": number(self, "_approach", 1, fastest),
            "accel": number(self, "_accel", 1, 2**31 - 1),
            "motion.accelonly": _Setting(lambda: self._accel, None, True),
            "motion.decelonly": _Setting(lambda: self._accel, None, True),
            "limit.min": _Setting(lambda: self._limits[0], lambda text: self._set_limit(0, text), True),
            "limit.max": _Setting(lambda: self._limits[1], lambda text: self._set_limit(1, text), True),
            "limit.home.pos": constant(0, of_axis=True),
        }

    def _get(self, words: list[str], axis: int) -> str:
        self._arguments(words, 2)
        return str(self._setting(words[1], axis).read())

    def _set(self, words: list[str], axis: int) -> str:
        self._arguments(words, 3)
        setting = self._setting(words[1], axis)
        if setting.write is None:
            raise Reject("BADCOMMAND")
        setting.write(words[2])
        return "0"

    def _setting(self, name: str, axis: int) -> _Setting:
        setting = self._settings.get(name)
        if setting is None:
            raise Reject("BADCOMMAND")
        if axis and not setting.of_axis:
            raise Reject("DEVICEONLY")
        return setting

    def _set_pos(self, text: str) -> None:
        counts = self._integer(text)
        self._still()
        self._zero_mm = self._plant.setpoint_mm() - counts * self._step_mm
        self.flags = (self.flags - {"WR"}) | {"WH"}
        self.referenced = True
        self._arm()

    def _set_limit(self, which: int, text: str) -> None:
        limits = list(self._limits)
        limits[which] = self._integer(text)
        self._still()
        if limits[0] >= limits[1]:
            raise Reject("BADDATA")
        self._limits = limits
        self._arm()

    def _still(self) -> None:
        if self.moving:
            raise Reject("STATUSBUSY")

    @staticmethod
    def _arguments(words: list[str], count: int) -> None:
        if len(words) != count:
            raise Reject("BADDATA" if len(words) > count else "BADCOMMAND")

    @staticmethod
    def _integer(text: str, low: int = -(2**31), high: int = 2**31 - 1) -> int:
        try:
            value = int(text)
        except ValueError:
            raise Reject("BADDATA") from None
        if not low <= value <= high:
            raise Reject("BADDATA")
        return value


_ABSOLUTE = ("abs", "min", "max")
