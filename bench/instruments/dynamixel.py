"""The servos of an arm, Dynamixels on one RS-485 bus (protocol 2.0), commanded by motor current.

    servos = [Servo(11, "PH54-200-S500", max_current_a=6.0), Servo(12, "PH54-200-S500", max_current_a=6.0)]
    drives = DynamixelBus("/dev/ttyUSB0", clock=WallClock(), servos=servos)
    drives.torque_enable(True)
    state = drives.read()                   # every 4 ms
    drives.write_currents([0.1, -0.2])      # at once for all; the servos stop when the bus is silent for 100 ms
    drives.stop()

What keeps a run from going wrong here:

- When the bus is opened every servo is met by name: a missing one, one of another model, two with one id and one whose
  settings would make it do something else are refused. The motors are off then.
- Operating mode, return delay, goal currents, torque and watchdog are read back wherever they are set.
- A sync write has no reply, and a servo that is stopped ignores it without a word. So the alert bit in every reply
  is looked at, and the watchdog wherever the bus was silent for nearly its time.
- No late reply is taken for another's, and no command is sent again by itself
  (:mod:`bench.instruments.dynamixel_line`); only :meth:`DynamixelBus.stop`, which does the same however often it comes.

A servo knows its angle within one turn when it boots. From then on it counts turns; what a reboot in
:meth:`DynamixelBus.clear_faults` takes away is added here again.

Six servos at 1 Mbaud are read in 1.5 ms (fast sync read: 1.1 ms) and commanded in 0.3 ms; adapters add to it.
"""

from __future__ import annotations

import contextlib
import math
import struct
from collections.abc import Callable, Sequence
from operator import add, le, mul

from bench.clock import Clock
from bench.errors import DriveFault, DriveWatchdogTripped, InstrumentError, InstrumentTimeout, LimitError
from bench.instruments.dynamixel_errors import currents_beyond, hardware_fault, watchdog_tripped
from bench.instruments.dynamixel_frames import sync_write
from bench.instruments.dynamixel_line import BusStatistics, DynamixelLine
from bench.instruments.dynamixel_models import LONGEST_WATCHDOG_STEPS, WATCHDOG_STEP_S, WATCHDOG_TRIPPED, Register
from bench.instruments.dynamixel_setup import Servo, ServoMeeting
from bench.instruments.dynamixel_state import CurrentWriter, StateReader
from bench.instruments.protocols import ArmCondition, ArmHealth, ArmState, Identity
from bench.instruments.serial_line import SerialLine

STOP_ATTEMPTS = 3
QUIET_S = 0.01
"""Silence that counts as quiet [s]."""

__all__ = ["DynamixelBus", "Servo"]


class DynamixelBus:
    """Implements :class:`bench.instruments.protocols.ArmDrives`.

    Parameters
    ----------
    url : str
        The adapter's port: a device file, ``COM4`` or any pyserial URL.
    clock : Clock
        The bench's clock.
    servos : sequence of Servo
        In the order of the joints. All must be of one series (P or X).
    baud : int
        Bits per second, as set in the servos.
    return_delay_s : float
        How long a servo waits before it answers [s], in steps of 2 us; set in the servos where it differs.
    reply_deadline_s : float
        The longest adapter and servo together may take to answer [s], beside return delay and the time of the bytes.
    watchdog_s : float
        See :meth:`arm_watchdog`.
    fast_sync_read : bool
        Read the state by fast sync read when every servo's firmware knows it.

    Raises
    ------
    InstrumentTimeout
        Servos are missing; they are named, and those that are there.
    InstrumentError
        A servo is not what the rig profile says; or the port is in use.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        servos: Sequence[Servo],
        baud: int = 1_000_000,
        return_delay_s: float = 0.0,
        reply_deadline_s: float = 0.01,
        watchdog_s: float = 0.1,
        fast_sync_read: bool = True,
    ) -> None:
        self.ids = tuple(servo.id for servo in servos)
        self._where = f"{url}, Dynamixel bus"
        self._names = {servo.id: f"servo id {servo.id} (joint {k + 1})" for k, servo in enumerate(servos)}
        self._on = False
        self._now_ns = clock.now_ns
        self._silent_at_ns = 0
        self._timeouts = 0
        self._line = SerialLine(url, baud=baud, clock=clock, slice_s=QUIET_S)
        self._bus = DynamixelLine(
            self._line, clock=clock, where=self._where, names=self._names, baud=baud, reply_deadline_s=reply_deadline_s
        )
        try:
            self._line.drain()
            self._meeting = ServoMeeting(self._bus, servos, clock, url=url, return_delay_s=return_delay_s)
            self._table = self._meeting.table
            self._delay_s = return_delay_s
            self.fast = fast_sync_read and self._meeting.fast_read_known
            self._reader = StateReader(self._bus, self.ids, self._table, fast=self.fast, delay_s=return_delay_s)
            self._writer = CurrentWriter(self._bus, self.ids, self._table)
            self.command_s = 10.0 * self._writer.size / baud
            models = self._meeting.models
            self._per_ampere = [1.0 / model.current_unit_a for model in models]
            self._units = [
                unit
                for model in models
                for unit in (model.current_unit_a, model.velocity_unit_rad_s, model.radians_per_count)
            ]
            self._voltage_unit = [model.voltage_unit_v for model in models]
            self._limits = [servo.max_current_a for servo in servos]
            self._turns_rad, self._turned = [0.0] * len(servos), False
            if any(self._sync(self._table.bus_watchdog)[servo_id][0] == WATCHDOG_TRIPPED for servo_id in self.ids):
                self._set_watchdog_time(watchdog_s)  # to be armed when the tripped one is cleared, on purpose
            else:
                self.arm_watchdog(watchdog_s)
        except BaseException:
            self._line.close()
            raise

    @property
    def statistics(self) -> BusStatistics:
        """What the bus did that it should not have done."""
        return self._bus.statistics

    # -- what an arm's drives do --------------------------------------------------------------------------------------

    def identify(self) -> tuple[Identity, ...]:
        """Return what the servos said of themselves when the bus was opened, in the order of the joints."""
        return self._meeting.identities

    def read(self) -> ArmState:
        """Return shaft angles, speeds and measured currents, in one transaction.

        Raises
        ------
        DriveFault
            The motors are on and a servo has a hardware error. While they are off, :meth:`health` tells it.
        DriveWatchdogTripped
            The motors are on, and the servos have stopped because the bus was silent.
        InstrumentTimeout
            A servo did not answer; it is named. The line has been drained.
        """
        now = self._now_ns()
        if now > self._silent_at_ns or self._bus.statistics.timeouts != self._timeouts:
            self._check_silence()
        self._silent_at_ns = now + self._silence_ns
        counts, alerts = self._reader.read(now)
        if alerts and self._on:
            raise self._fault(alerts[0])
        values = list(map(mul, counts, self._units))
        state = ArmState(values[2::3], values[1::3], values[0::3])
        if self._turned:
            state.position_rad = list(map(add, state.position_rad, self._turns_rad))
        return state

    def on_silence(self, action: Callable[[], None]) -> None:
        """Have ``action`` called as soon as a reply is missing, before servos are asked one by one: that takes time."""
        self._bus.on_silence = action

    def write_currents(self, currents_a: Sequence[float], *, blindly: bool = False) -> None:
        """Command one current [A] an axis, in one packet that has no reply; ``blindly`` without a look at the servos.

        Raises
        ------
        LimitError
            A current is not finite or above its servo's ``max_current_a``; nothing was sent.
        DriveWatchdogTripped
            See :meth:`read`; nothing was sent.
        """
        if len(currents_a) != len(self.ids):
            raise ValueError(f"{len(currents_a)} currents for {len(self.ids)} servos")
        if not all(map(le, map(abs, currents_a), self._limits)):
            raise self._beyond(currents_a)
        now = self._now_ns()
        if (now > self._silent_at_ns or self._bus.statistics.timeouts != self._timeouts) and not blindly:
            self._check_silence()
        self._silent_at_ns = now + self._silence_ns
        self._writer.write(list(map(round, map(mul, currents_a, self._per_ampere))), now)

    def torque_enable(self, on: bool) -> None:
        """Switch every motor on, at no current, or off.

        Raises
        ------
        DriveFault, DriveWatchdogTripped
            A servo is not fit to be switched on: :meth:`clear_faults` first.
        InstrumentError
            A servo does not say that it did.
        """
        if not on:
            self.stop()
            return
        self._require_health()
        table, bus = self._table, self._bus
        for servo_id in self.ids:
            bus.write(servo_id, table.goal_current.address, bytes(2))
            self._confirm(servo_id, table.goal_current, 0, "goal current")
        self._on, self._timeouts = True, bus.statistics.timeouts
        try:
            for servo_id in self.ids:
                bus.write(servo_id, table.torque_enable.address, b"\x01")
                self._confirm(servo_id, table.torque_enable, 1, "torque enable")
        except BaseException:
            with contextlib.suppress(InstrumentError):  # what went wrong first is what counts
                self.stop()
            raise
        self._silent_at_ns = self._now_ns() + self._silence_ns

    def arm_watchdog(self, timeout_s: float) -> None:
        """Set how long [s] the bus may be silent before each servo stops by itself; 0 disarms it.

        Every packet on the bus counts. The servos know steps of 20 ms, and the time is rounded down to one.

        Raises
        ------
        LimitError
            The time is out of the servos' range.
        DriveWatchdogTripped
            One has tripped: :meth:`clear_faults` first.
        """
        register = self._table.bus_watchdog
        for servo_id in self.ids:
            if self._bus.read(servo_id, register.address, 1)[0] == WATCHDOG_TRIPPED:
                raise self._tripped([servo_id])
        self._set_watchdog_time(timeout_s)
        steps = round(self.watchdog_s / WATCHDOG_STEP_S)
        for servo_id in self.ids:
            self._bus.write(servo_id, register.address, bytes([steps]))
            self._confirm(servo_id, register, steps, "bus watchdog")

    def condition(self) -> ArmCondition:
        """Return temperatures and supply, in one transaction that fits between two ticks of a loop."""
        found = self._sync(Register(self._table.position_trajectory.address, 7))  # voltage, temperature behind it
        return ArmCondition(
            [float(found[servo_id][6]) for servo_id in self.ids],
            [
                int.from_bytes(found[servo_id][4:6], "little") * unit
                for servo_id, unit in zip(self.ids, self._voltage_unit, strict=True)
            ],
        )

    def health(self) -> ArmHealth:
        """Return what the servos say of themselves: four transactions, off the control loop's path."""
        table = self._table
        condition = self.condition()
        errors = self._sync(table.hardware_error)
        torque = self._sync(table.torque_enable)
        watchdog = self._sync(table.bus_watchdog)
        watchdogs = [watchdog[servo_id][0] for servo_id in self.ids]
        return ArmHealth(
            temperature_degc=condition.temperature_degc,
            supply_v=condition.supply_v,
            hardware_error=[errors[servo_id][0] for servo_id in self.ids],
            torque_enabled=[torque[servo_id][0] == 1 for servo_id in self.ids],
            watchdog_tripped=[count == WATCHDOG_TRIPPED for count in watchdogs],
            watchdog_s=[0.0 if count == WATCHDOG_TRIPPED else count * WATCHDOG_STEP_S for count in watchdogs],
        )

    def clear_faults(self) -> None:
        """Clear hardware errors (by a reboot) and tripped watchdogs; the motors are off then, the watchdog armed.

        A deliberate step, for a person or for the start of a run. A servo whose fault persists shows it again.

        Raises
        ------
        DriveFault
            A hardware error is still there after the reboot.
        """
        self._tell_off()
        self._meeting.await_all()  # who has just got power takes some tenths of a second to start
        self.stop()
        health = self.health()
        for k, servo_id in enumerate(self.ids):
            if health.hardware_error[k]:
                self._reboot(k)
            if self._bus.read(servo_id, self._table.bus_watchdog.address, 1)[0] == WATCHDOG_TRIPPED:
                self._bus.write(servo_id, self._table.bus_watchdog.address, b"\x00")
        self.arm_watchdog(self.watchdog_s)
        self._require_health()

    def stop(self) -> None:
        """Command no current, switch every motor off, and read back that it is. Said to all before any is asked.

        Raises
        ------
        InstrumentError
            A servo does not say that its motor is off; it is named. All have been told.
        """
        off = self._table.torque_enable
        waiting = list(self.ids)
        why: InstrumentError | None = None
        for _ in range(STOP_ATTEMPTS):
            self._tell_off()
            still = []
            for servo_id in waiting:
                try:
                    if self._bus.read(servo_id, off.address, 1) != b"\x00":
                        still.append(servo_id)
                except InstrumentTimeout as error:
                    still.append(servo_id)
                    why = error
            waiting = still
            if not waiting:
                self._on = False
                return
        raise InstrumentError(
            f"{self._list(waiting)}: told to stop {STOP_ATTEMPTS} times, and the motor is not confirmed to be off",
            where=self._where,
            remedy="Cut the servos' power with the enable line or the e-stop",
        ) from why

    def _tell_off(self) -> None:
        self._writer.write([0] * len(self.ids), self._now_ns())
        self._bus.tell(sync_write(self._table.torque_enable.address, 1, dict.fromkeys(self.ids, b"\x00")))

    def close(self) -> None:
        """Close the line. The servos go on until their watchdogs trip."""
        self._line.close()

    # -- checks -------------------------------------------------------------------------------------------------------

    def _check_silence(self) -> None:
        """Look at the servos: the bus was silent for nearly the watchdog's time, or a reply was missing."""
        if not self._on:
            return
        timeouts = self._bus.statistics.timeouts
        health = self._require_health()
        off = [k for k, on in zip(self.ids, health.torque_enabled, strict=True) if not on]
        if off:
            raise InstrumentError(
                f"{self._list(off)} no longer switched on: rebooted, without supply for a while, or told so",
                where=self._where,
                remedy="Look for a loss of supply and for another program on the bus; stop and start anew",
            )
        self._timeouts = timeouts

    def _require_health(self) -> ArmHealth:
        health = self.health()
        for servo_id, bits in zip(self.ids, health.hardware_error, strict=True):
            if bits:
                raise self._fault(servo_id)
        tripped = [k for k, over in zip(self.ids, health.watchdog_tripped, strict=True) if over]
        if tripped:
            raise self._tripped(tripped)
        return health

    def _sync(self, register: Register) -> dict[int, bytes]:
        answers = self._bus.gather(self.ids, register.address, register.size, fast=self.fast, delay_s=self._delay_s)
        if len(answers) < len(self.ids):
            raise self._bus.absence(self.ids, f"to a sync read of register {register.address}")
        return {servo_id: answer.data for servo_id, answer in answers.items()}

    def _confirm(self, servo_id: int, register: Register, value: int, name: str) -> None:
        found = int.from_bytes(self._bus.read(servo_id, register.address, register.size), "little")
        if found != value:
            raise InstrumentError(
                f"{self._names[servo_id]}: {name} was set to {value} and reads back as {found}",
                where=self._where,
                remedy="Look for another program on the bus, and at the servo with the vendor's tool",
            )

    def _set_watchdog_time(self, timeout_s: float) -> None:
        steps = int(timeout_s / WATCHDOG_STEP_S + 1e-6)
        if not (timeout_s == 0 or 1 <= steps <= LONGEST_WATCHDOG_STEPS):
            raise LimitError(
                f"watchdog {timeout_s:g} s is not 0 or from {WATCHDOG_STEP_S:g} s to "
                f"{LONGEST_WATCHDOG_STEPS * WATCHDOG_STEP_S:g} s",
                reason="watchdog",
                where=self._where,
                remedy="Correct bus.watchdog in the rig profile",
            )
        self.watchdog_s = steps * WATCHDOG_STEP_S
        # One step less, since a servo looks at it in steps of its own.
        self._silence_ns = round((steps - 1) * WATCHDOG_STEP_S * 1e9) if steps > 1 else 10_000_000 if steps else 1 << 62

    def _reboot(self, axis: int) -> None:
        """Reboot one servo; whole turns that it loses are added from then on."""
        servo_id, table = self.ids[axis], self._table
        before = self._position(servo_id)
        self._meeting.reboot(axis)
        turn = self._meeting.models[axis].pulses_per_revolution
        self._turns_rad[axis] += round((before - self._position(servo_id)) / turn) * 2.0 * math.pi
        self._turned = any(self._turns_rad)
        bits = self._bus.read(servo_id, table.hardware_error.address, 1)[0]
        if bits:
            raise self._fault(servo_id)

    def _position(self, servo_id: int) -> int:
        (count,) = struct.unpack("<i", self._bus.read(servo_id, self._table.present_position.address, 4))
        return int(count)

    def _list(self, ids: Sequence[int]) -> str:
        return ", ".join(self._names[servo_id] for servo_id in ids)

    # -- errors -------------------------------------------------------------------------------------------------------

    def _fault(self, servo_id: int) -> DriveFault:
        bits = self._bus.read(servo_id, self._table.hardware_error.address, 1)[0]
        return hardware_fault(self._names[servo_id], bits, self._where)

    def _tripped(self, ids: Sequence[int]) -> DriveWatchdogTripped:
        return watchdog_tripped(self._list(ids), self.watchdog_s, self._where)

    def _beyond(self, currents_a: Sequence[float]) -> LimitError:
        names = [self._names[servo_id] for servo_id in self.ids]
        return currents_beyond(names, currents_a, self._limits, self._where)
