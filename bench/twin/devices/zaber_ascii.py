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

from bench.twin.devices.zaber_ascii_axis import FASTEST_MM_S, ZaberAxis
from bench.twin.devices.zaber_ascii_wire import PACKET_BYTES, Reject, ZaberWire
from bench.twin.interfaces import SerialPort, StagePlant, World

DEVICE_ID = 50999
VERSION = "7.38"
BUILD = "15700"
RESET_NS = 1_000_000_000


@dataclass(frozen=True)
class _Setting:
    read: Callable[[], object]
    write: Callable[[int], None] | None = None
    of_axis: bool = False
    low: int = -(2**31)
    high: int = 2**31 - 1


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
    serial_number, firmware : str
        What ``get system.serial`` and ``get version`` answer.
    travel_mm : tuple of float
        Where the travel ends, minimum and maximum [mm]; the initial ``limit.min`` and ``limit.max``.
    max_speed_mm_s, acceleration_mm_s2, homing_speed_mm_s : float
        Initial ``maxspeed``, ``accel`` and ``limit.approach.maxspeed``.
    """

    def __init__(
        self,
        plant: StagePlant,
        *,
        name: str = "stage",
        address: int = 1,
        baud: int = 115200,
        microstep_size_mm: float = 4.7625e-5,
        serial_number: str = "100001",
        firmware: str = VERSION,
        travel_mm: tuple[float, float] = (0.0, 50.8),
        max_speed_mm_s: float = 20.0,
        acceleration_mm_s2: float = 100.0,
        homing_speed_mm_s: float = 20.0,
    ) -> None:
        self.name = name
        self.baud = baud
        self.serial_number = serial_number
        self.firmware = firmware
        self.alerts = 0
        self.wire = ZaberWire(self._execute, self._state, address)
        self.axis = ZaberAxis(plant, microstep_size_mm, travel_mm, self._finished)
        self.axis.maxspeed = self.axis.speed_data(max_speed_mm_s)
        self.axis.accel = self.axis.acceleration_data(acceleration_mm_s2)
        self.axis.approach = self.axis.speed_data(homing_speed_mm_s)
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

    def attach(self, world: World, port: SerialPort) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self._world = world
        self.wire.attach(world, port)
        self.axis.attach(world)

    def receive(self, data: bytes) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self.wire.receive(data)

    def _execute(self, words: list[str], axis: int) -> str:
        command = self._commands.get(words[0] if words else "")
        if command is None:
            raise Reject("BADCOMMAND")
        return command(words, axis)

    def _state(self) -> tuple[str, str]:
        shown = self.axis.active_flags()
        return ("BUSY" if self.axis.moving else "IDLE"), (shown[0] if shown else "--")

    def _finished(self) -> None:
        if self.alerts:
            self.wire.alert()

    # -- commands -----------------------------------------------------------------------------------------------------

    def _home(self, words: list[str], axis: int) -> str:
        _arguments(words, 1)
        self.axis.home()
        return "0"

    def _move(self, words: list[str], axis: int) -> str:
        kind = words[1] if len(words) > 1 else ""
        if kind not in ("abs", "rel", "vel", "min", "max"):
            raise Reject("BADCOMMAND")
        self.axis.move(kind, [_integer(word) for word in words[2:]])
        return "0"

    def _stop(self, words: list[str], axis: int) -> str:
        _arguments(words, 1)
        self.axis.stop(at_once=words[0] == "estop")
        return "0"

    def _warnings(self, words: list[str], axis: int) -> str:
        shown = self.axis.active_flags()
        if words[1:] == ["clear"]:
            self.axis.clear_flags()
        elif words[1:]:
            raise Reject("BADCOMMAND")
        return " ".join([f"{len(shown):02d}", *shown])

    def _driver(self, words: list[str], axis: int) -> str:
        if words[1:] != ["enable"]:
            raise Reject("BADCOMMAND")
        self.axis.enable_driver()
        return "0"

    def _system(self, words: list[str], axis: int) -> str:
        if words[1:] != ["reset"]:
            raise Reject("BADCOMMAND")
        self.axis.reset()
        self.wire.deaf_until_ns = self._world.now_ns + RESET_NS
        return "0"

    def _renumber(self, words: list[str], axis: int) -> str:
        address = _integer(words[1]) if len(words) == 2 else 1
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
                lambda: getattr(owner, name), lambda value: setattr(owner, name, value), owner is self.axis, low, high
            )

        axis, fastest = self.axis, self.axis.speed_data(FASTEST_MM_S)
        return {
            "deviceid": constant(DEVICE_ID),
            "device.id": constant(DEVICE_ID),
            "version": constant(self.firmware),
            "version.build": constant(BUILD),
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
            "pos": _Setting(axis.trajectory, axis.set_count, of_axis=True),
            "encoder.pos": _Setting(axis.measured, of_axis=True),
            "maxspeed": number(axis, "maxspeed", 1, fastest),
            "limit.approach.maxspeed": number(axis, "approach", 1, fastest),
            "accel": number(axis, "accel", 1, 2**31 - 1),
            "motion.accelonly": _Setting(lambda: axis.accel, of_axis=True),
            "motion.decelonly": _Setting(lambda: axis.accel, of_axis=True),
            "limit.min": _Setting(lambda: axis.limits[0], lambda value: axis.set_limit(0, value), of_axis=True),
            "limit.max": _Setting(lambda: axis.limits[1], lambda value: axis.set_limit(1, value), of_axis=True),
            "limit.home.pos": constant(0, of_axis=True),
        }

    def _get(self, words: list[str], axis: int) -> str:
        _arguments(words, 2)
        return str(self._setting(words[1], axis).read())

    def _set(self, words: list[str], axis: int) -> str:
        _arguments(words, 3)
        setting = self._setting(words[1], axis)
        if setting.write is None:
            raise Reject("BADCOMMAND")
        value = _integer(words[2])
        if not setting.low <= value <= setting.high:
            raise Reject("BADDATA")
        setting.write(value)
        return "0"

    def _setting(self, name: str, axis: int) -> _Setting:
        setting = self._settings.get(name)
        if setting is None:
            raise Reject("BADCOMMAND")
        if axis and not setting.of_axis:
            raise Reject("DEVICEONLY")
        return setting


def _arguments(words: list[str], count: int) -> None:
    if len(words) != count:
        raise Reject("BADDATA" if len(words) > count else "BADCOMMAND")


def _integer(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise Reject("BADDATA") from None
    if not -(2**31) <= value < 2**31:
        raise Reject("BADDATA")
    return value
