"""A moteus motor drive behind an fdcanusb adapter, as its serial line shows it.

Sources: mjbots' moteus documentation ("CAN Protocol", "Register Reference", "UART", "Configuration Parameters") and its
published firmware. The vendor's own client accepts this device (``tests/contract/test_moteus_client.py``). A client
proves framing, checksums, ids and units on what it uses. It cannot prove how firmware behaves, so this is *assumed*:

- Registers in a reply are read before the command in the same frame takes effect; the command does so at once.
- From the stopped mode the drive gets ready for 10 ms (mode 2 for 1.5 ms, then 3) before it makes a torque.
- ``servo.timeout_mode`` is 12: when commands stop coming the mode becomes 11 and the drive damps with kd times the
  *last command's* kd scale, up to ``timeout_max_torque_nm``. After a torque command (kd scale 0) that is no torque at
  all. Only a stop leads out of mode 11, as out of a fault (mode 1). Modes 12 and 15 have no watchdog.
- Mode 15 (phases shorted) is a viscous damper, ``brake_nm_per_rev_s``.
- Position mode has no integral term (the factory's ``ilimit`` is 0), no limits of position, and follows a set-point at
  once: commands with a stop position, a limit of velocity or acceleration, or a fixed voltage or current are refused in
  that register with reason 3. So are modes other than 0, 10, 12 and 15.
- A temperature above ``fault_temperature_degc`` is seen within 50 ms while the drive runs, and ends in fault 38. Torque
  is not held back on the way there.
- A drive without supply answers nothing, while the adapter, on the host's supply, still says ``OK``. When the supply
  comes back it boots for 50 ms, is stopped, and its position starts anew within half a turn of zero.
- The adapter passes on ``OK`` and the reply as one burst when the reply is there; frames take their time on the bus.
- Once a line came with a checksum, all lines bear one and none is taken without.
- Diagnostic streams are not there. Registers not listed in ``_register_map`` are refused with reason 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from bench.errors import TwinError
from bench.twin.devices import moteus_registers as reg
from bench.twin.devices.moteus_registers import RegisterMap, signed, varuint, written
from bench.twin.devices.moteus_wire import FdcanusbWire, Shape
from bench.twin.interfaces import JointDrivePlant, SerialPort, Timer, World

STOPPED, FAULT, ENABLING, CALIBRATING = 0, 1, 2, 3
POSITION, TIMEOUT, ZERO_VELOCITY, BRAKE = 10, 11, 12, 15
OVER_TEMPERATURE = 38
MODEL_NUMBER = 0x0410
REGISTER_MAP_VERSION = 5

BOOT_NS = 50_000_000
ENABLING_NS = 1_500_000
CALIBRATING_NS = 8_500_000
SUPERVISION_NS = 50_000_000

_SIMULATED_MODES = (STOPPED, POSITION, ZERO_VELOCITY, BRAKE)
_TORQUE_ON = frozenset((POSITION, TIMEOUT, ZERO_VELOCITY, BRAKE))
_ACTIVE = frozenset((ENABLING, CALIBRATING, *_TORQUE_ON))


class Moteus:
    """The device's end of the line; implements :class:`bench.twin.interfaces.SerialDevice`.

    Parameters
    ----------
    plant : JointDrivePlant
        The motor it drives.
    name : str
        Name of the device on the link.
    device_id, baud : int
        Id on the bus, and bits per second between adapter and host.
    serial_number : str
        Three words of eight hexadecimal digits, with hyphens.
    firmware : str
        ``major.minor.micro``.
    kp_nm_per_rev, kd_nm_per_rev_s : float
        ``servo.pid_position`` gains [N.m/rev], [N.m/(rev/s)].
    max_torque_nm : float
        What ``servo.max_current_A`` lets it make [N.m].
    default_timeout_s, timeout_max_torque_nm : float
        ``servo.default_timeout_s`` [s] and ``servo.timeout_max_torque_Nm`` [N.m].
    fault_temperature_degc, motor_fault_temperature_degc : float
        Of board and winding; NaN: none.
    brake_nm_per_rev_s : float
        Damping of the motor with its phases shorted [N.m/(rev/s)].
    """

    def __init__(
        self,
        plant: JointDrivePlant,
        *,
        name: str = "drive",
        device_id: int = 1,
        baud: int = 4_000_000,
        serial_number: str = "00000000-00000000-00000001",
        firmware: str = "0.3.0",
        kp_nm_per_rev: float = 4.0,
        kd_nm_per_rev_s: float = 0.05,
        max_torque_nm: float = 1.0,
        default_timeout_s: float = 0.1,
        timeout_max_torque_nm: float = 5.0,
        fault_temperature_degc: float = 75.0,
        motor_fault_temperature_degc: float = math.nan,
        brake_nm_per_rev_s: float = 0.05,
    ) -> None:
        self.name = name
        self.baud = baud
        self.mode = STOPPED
        self.fault = 0
        self._plant = plant
        self._kp, self._kd = kp_nm_per_rev, kd_nm_per_rev_s
        self._max_torque = max_torque_nm
        self._default_timeout_s = default_timeout_s
        self._timeout_max_torque = timeout_max_torque_nm
        self._fault_temperature, self._motor_fault_temperature = fault_temperature_degc, motor_fault_temperature_degc
        self._brake = brake_nm_per_rev_s
        self._command = dict(reg.UNSPECIFIED)
        self._wanted = STOPPED
        self._ready = False
        self._zero_rev = 0
        self._watchdog_ns: int | None = None
        self._timer: Timer | None = None
        self._timer_ns = 0
        self._step: Timer | None = None  # the next one on the way from no supply, or from stopped, to work
        self._words = _words(serial_number, firmware)
        self._map = self._register_map()
        self.wire = FdcanusbWire(self._frame, device_id)

    def attach(self, world: World, port: SerialPort) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self._world = world
        self.wire.attach(world, port)
        self._plant.on_power(self._power)
        self._plant.on_fault(self.inject_fault)
        if self._plant.powered():
            self._booted()

    def receive(self, data: bytes) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self.wire.receive(data)

    def inject_fault(self, code: int) -> None:
        """Stop on a fault of this code, until a stop command clears it."""
        if self._ready:
            self._enter(FAULT)
            self.fault = code

    # -- supply -------------------------------------------------------------------------------------------------------

    def _power(self, on: bool) -> None:
        self._ready = False
        self._enter(STOPPED)
        self._command = dict(reg.UNSPECIFIED)
        if on:
            self._next(BOOT_NS, self._booted)

    def _booted(self) -> None:
        self._ready = True
        self._zero_rev = round(self._plant.position_rev())
        self._enter(STOPPED)

    # -- frames -------------------------------------------------------------------------------------------------------

    def _frame(self, wanted: bool, shape: Shape, values: tuple[Any, ...]) -> bytes | None:
        if not self._ready:
            return None
        refused, commanded = self._write(shape, values) if shape.writes else (b"", False)
        reply = self._map.reply(shape) if wanted else b""
        if refused:
            reply = (refused + reply) if len(refused + reply) <= 64 else refused[:60]
        if commanded:
            self._obey()
        return reply

    def _write(self, shape: Shape, values: tuple[Any, ...]) -> tuple[bytes, bool]:
        """Take the values in a frame; return what answers those refused, and whether there is a new command."""
        refused = b""
        commanded = False
        command = self._command
        for place, register, width in shape.writes:
            value = values[place]
            if register == reg.MODE:
                if int(value) not in _SIMULATED_MODES:
                    refused += b"\x30" + varuint(register) + varuint(reg.BAD_VALUE)
                    continue
                commanded = True
                self._wanted = int(value)
                command = self._command = dict(reg.UNSPECIFIED)
            elif register in command:
                number = value if width == 3 else written(value, width, reg.COMMAND[register][1])
                if register in reg.NOT_SIMULATED and not _left_open(register, number):
                    refused += b"\x30" + varuint(register) + varuint(reg.BAD_VALUE)
                else:
                    command[register] = number
            else:
                reason = reg.NOT_WRITABLE if self._map.known(register) else reg.UNKNOWN
                refused += b"\x30" + varuint(register) + varuint(reason)
        return refused, commanded

    # -- modes --------------------------------------------------------------------------------------------------------

    def _obey(self) -> None:
        """Do what the last command says, as far as the present mode lets it."""
        wanted, mode = self._wanted, self.mode
        if wanted == STOPPED:
            self._enter(STOPPED)
            return
        if mode in (FAULT, TIMEOUT):
            return
        self._feed()
        if mode == STOPPED:
            self._enter(ENABLING)
            self._next(ENABLING_NS, self._calibrate)
        elif mode in _TORQUE_ON:
            self._drive()

    def _calibrate(self) -> None:
        self.mode = CALIBRATING
        self._next(CALIBRATING_NS, self._drive)

    def _next(self, delay_ns: int, action: Callable[[], None]) -> None:
        self._step = self._world.at(self._world.now_ns + delay_ns, action)

    def _drive(self) -> None:
        """Apply the last command to the motor."""
        command, plant = self._command, self._plant
        self.mode = self._wanted
        if self.mode == POSITION:
            position, maximum = command[reg.COMMAND_POSITION], command[reg.MAX_TORQUE]
            plant.command(
                command[reg.FEEDFORWARD],
                self._kp * command[reg.KP_SCALE],
                self._kd * command[reg.KD_SCALE],
                plant.position_rev() if math.isnan(position) else position + self._zero_rev,
                _or_zero(command[reg.COMMAND_VELOCITY]),
                self._max_torque if math.isnan(maximum) else min(abs(maximum), self._max_torque),
            )
        elif self.mode == BRAKE:
            self._damp(self._brake, self._max_torque)
        else:
            self._damp(self._kd * command[reg.KD_SCALE], self._timeout_max_torque)

    def _damp(self, kd: float, maximum: float) -> None:
        self._plant.command(0.0, 0.0, kd, self._plant.position_rev(), 0.0, min(maximum, self._max_torque))

    def _enter(self, mode: int) -> None:
        """Change to a mode without torque."""
        self.mode = mode
        self.fault = 0
        self._plant.release()
        if self._step is not None:
            self._step.cancel()
            self._step = None
        if mode not in _ACTIVE:
            self._watchdog_ns = None
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    # -- supervision --------------------------------------------------------------------------------------------------

    def _feed(self) -> None:
        """Start the watchdog of a position command anew."""
        now_ns = self._world.now_ns
        self._watchdog_ns = None
        due_ns = now_ns + SUPERVISION_NS
        if self._wanted == POSITION:
            timeout_s = self._command[reg.WATCHDOG] or self._default_timeout_s
            if not math.isnan(timeout_s):
                self._watchdog_ns = now_ns + round(timeout_s * 1e9)
                due_ns = min(due_ns, self._watchdog_ns)
        if self._timer is None or due_ns < self._timer_ns:
            self._arm(due_ns)

    def _arm(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = self._world.at(due_ns, self._supervise)

    def _supervise(self) -> None:
        """Look at watchdog and temperatures: at 50 ms the latest, and when the watchdog is due."""
        self._timer = None
        now_ns, plant = self._world.now_ns, self._plant
        if (
            plant.temperature_degc() > self._fault_temperature
            or plant.motor_temperature_degc() > self._motor_fault_temperature
        ):
            self.inject_fault(OVER_TEMPERATURE)
            return
        if self.mode == POSITION and self._watchdog_ns is not None and now_ns >= self._watchdog_ns:
            self._watchdog_ns = None
            self.mode = TIMEOUT
            self._damp(self._kd * self._command[reg.KD_SCALE], self._timeout_max_torque)
        due_ns = now_ns + SUPERVISION_NS
        if self._watchdog_ns is not None and self._watchdog_ns > now_ns:
            due_ns = min(due_ns, self._watchdog_ns)
        self._arm(due_ns)

    # -- registers ----------------------------------------------------------------------------------------------------

    def _register_map(self) -> RegisterMap:
        plant = self._plant
        values: dict[int, tuple[reg.Getter, tuple[float, ...]]] = {
            register: (self._held(register), units) for register, (_, units) in reg.COMMAND.items()
        }
        values |= {
            reg.MODE: (lambda: self.mode, reg.COUNT),
            0x001: (lambda: plant.position_rev() - self._zero_rev, reg.POSITION_UNIT),
            0x002: (plant.velocity_rev_s, reg.VELOCITY_UNIT),
            0x003: (self._torque, reg.TORQUE_UNIT),
            0x00A: (plant.motor_temperature_degc, reg.TEMPERATURE_UNIT),
            0x00B: (lambda: 1, reg.COUNT),  # a trajectory without limits is complete at once
            0x00C: (lambda: 1, reg.COUNT),  # position is referenced to the rotor
            0x00D: (plant.voltage_v, reg.VOLTAGE_UNIT),
            0x00E: (plant.temperature_degc, reg.TEMPERATURE_UNIT),
            0x00F: (lambda: self.fault, reg.COUNT),
            0x140: (lambda: 0, reg.COUNT),
            0x141: (lambda: 0, reg.COUNT),
            0x158: (lambda: 0, reg.COUNT),
        }
        return RegisterMap(values, self._words)

    def _held(self, register: int) -> reg.Getter:
        return lambda: self._command[register]

    def _torque(self) -> float:
        return self._plant.torque_nm() if self.mode in _TORQUE_ON else 0.0


def _words(serial_number: str, firmware: str) -> dict[int, int]:
    """Return the registers of 32 bits that never change."""
    try:
        numbers = [int(word, 16) for word in serial_number.split("-")]
        versions = [int(part) for part in firmware.split(".")]
        fits = all(0 <= n < 2**32 for n in numbers) and all(0 <= n < 256 for n in versions)
        if (len(numbers), len(versions), fits) != (3, 3, True):
            raise ValueError
    except ValueError:
        raise TwinError(
            f"serial number {serial_number!r} or firmware {firmware!r} is none of a moteus drive",
            where="twin device",
            remedy='give three words of eight hexadecimal digits, "6A0F2D11-3B7C4E58-90A1B2C3", and "0.3.0"',
        ) from None
    identity = {0x100: MODEL_NUMBER, 0x101: versions[0] << 16 | versions[1] << 8 | versions[2]}
    identity[0x102] = REGISTER_MAP_VERSION
    return identity | {0x120 + k: signed(number) for k, number in enumerate(numbers)}


def _left_open(register: int, value: float) -> bool:
    return math.isnan(value) or (register in (reg.VELOCITY_LIMIT, reg.ACCELERATION_LIMIT) and value < 0)


def _or_zero(value: float) -> float:
    return 0.0 if math.isnan(value) else value
