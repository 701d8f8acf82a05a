"""A linear stage with a Zaber controller, by Zaber's ASCII protocol (version 2) on a serial line.

    stage = ZaberAsciiStage("/dev/ttyUSB0", clock=WallClock(), max_speed_mm_s=20.0, acceleration_mm_s2=100.0)
    stage.home()
    stage.arm_travel_limits(0.0, 30.0)
    stage.wait_idle(stage.start_move(10.0, 2.0))

What keeps a press from going wrong here:

- Every command carries a message id and a checksum, and so does every reply once the line is open. A reply counts only
  when address, axis and id are those of the request, so a late one cannot be taken for the next request's.
- After a timeout the line is drained until it is quiet. A motion command is never sent again: the state is asked for
  and told in the error. Only ``stop``, which does the same however often it comes, is repeated.
- The controller has no host watchdog. It runs on to its target or its armed limit when the host goes away, so arm
  the travel limits before contact and keep an enable line that cuts the motor's power.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.clock import Clock, sleep
from bench.errors import InstrumentError, InstrumentTimeout, LimitError
from bench.instruments.protocols import Identity
from bench.instruments.serial_line import SerialLine
from bench.instruments.zaber_ascii_line import LineStatistics, ZaberLine
from bench.instruments.zaber_ascii_messages import NO_WARNING, Message, explain_rejection, explain_warning

POLL_S = 0.1
STOP_POLL_S = 0.02
STOP_ATTEMPTS = 3
ARRIVAL_TOLERANCE_MM = 0.02
_DRIVER_OFF = {"FH", "FO", "FV", "FC", "FM", "FD"}


@dataclass(frozen=True)
class _Move:
    """A movement under way; ``target`` in microsteps, None where it is not known beforehand."""

    target: int | None


class ZaberAsciiStage:
    """Implements :class:`bench.instruments.protocols.LinearStage`.

    Parameters
    ----------
    port : str
        A device file, ``COM3`` or any pyserial URL.
    clock : Clock
        The bench's clock.
    max_speed_mm_s : float
        The fastest move this driver will start [mm/s].
    acceleration_mm_s2 : float
        Set in the controller when the line is opened [mm/s²].
    address, axis : int
        Of the device on its chain, and of the stage on its device.
    microstep_size_um : float
        Travel per microstep at the controller's resolution [µm], from the product's data sheet.
    speed_scale : float
        Speed data per microstep/s. Acceleration data are microstep/s² times this over 10 000 (Zaber, ASCII Protocol
        Manual, section Physical Units).
    baud : int
        Bits per second.
    expected_serial_number : str, optional
        Of the device; another one is refused.
    reply_timeout_s : float
        The longest the device may take to answer [s].

    Raises
    ------
    InstrumentError
        The port is in use, or the device is not the expected one.
    InstrumentTimeout
        Nothing answers under this address.
    """

    def __init__(
        self,
        port: str,
        *,
        clock: Clock,
        max_speed_mm_s: float,
        acceleration_mm_s2: float,
        address: int = 1,
        axis: int = 1,
        microstep_size_um: float = 0.047625,
        speed_scale: float = 1.6384,
        baud: int = 115200,
        expected_serial_number: str | None = None,
        reply_timeout_s: float = 0.5,
    ) -> None:
        self.address = address
        self.axis = axis
        self._where = f"{port}, Zaber device {address} axis {axis}"
        self._clock = clock
        self._step_mm = microstep_size_um * 1e-3
        self._scale = speed_scale
        self._max_speed_mm_s = max_speed_mm_s
        self._move: _Move | None = None
        self._line = SerialLine(port, baud=baud, clock=clock)
        self._requests = ZaberLine(
            self._line, clock=clock, address=address, where=self._where, reply_timeout_s=reply_timeout_s
        )
        try:
            self._meet()
            self._identity = self._read_identity(port, expected_serial_number)
            accel = max(1, round(acceleration_mm_s2 / self._step_mm * speed_scale / 1e4))
            self._set("accel", accel)
            self._acceleration_mm_s2 = accel * 1e4 / speed_scale * self._step_mm
        except BaseException:
            self._line.close()
            raise

    @property
    def statistics(self) -> LineStatistics:
        """What the line did that it should not have done."""
        return self._requests.statistics

    # -- what a linear stage does -------------------------------------------------------------------------------------

    def identify(self) -> Identity:
        """Return what the device said of itself when the line was opened."""
        return self._identity

    def home(self) -> None:
        """Find the reference and return when it is found.

        Homing is the way back from a fault, so what can be cleared is cleared first.
        """
        self.clear_faults()
        low, high, here = self._get("limit.min"), self._get("limit.max"), self._get("pos")
        approach_mm_s = self._get("limit.approach.maxspeed") / self._scale * self._step_mm
        # Before the reference is known the carriage may be anywhere, and limits may have been armed narrower than
        # the travel: twice the farthest position known, at the approach speed, bounds it generously.
        farthest_mm = 2 * max(abs(low), abs(high), abs(here)) * self._step_mm
        self._begin("home", _Move(None))
        self.wait_idle(self._travel_time_s(farthest_mm, approach_mm_s) + 10.0)
        if not self.is_homed():
            raise self._error("homing ended without a reference", "Look at the home sensor and for what is in the way")

    def is_homed(self) -> bool:
        """Return whether the controller knows its position by its own sensor since power-up."""
        return not {"WR", "WH"} & set(self.warnings())

    def position_mm(self) -> float:
        """Return the controller's position [mm]: of its trajectory, to one microstep."""
        return self._get("pos") * self._step_mm

    def is_moving(self) -> bool:
        """Return whether the axis is busy; raise :class:`InstrumentError` on a flag that says why it cannot go on."""
        reply = self._command("")
        self._check_flag(reply)
        return reply.busy

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        """Start a move and return at once with the longest time it may take [s].

        Parameters
        ----------
        position_mm : float
            Target [mm] from home.
        speed_mm_s : float
            Above 0 and up to ``max_speed_mm_s``.

        Raises
        ------
        LimitError
            The speed is out of range; nothing has been sent.
        InstrumentError
            No reference, a fault flag, or the controller rejects the target.
        InstrumentTimeout
            The command was not answered; the text says what the stage does now. It was not sent again.
        """
        if not 0 < speed_mm_s <= self._max_speed_mm_s:
            raise LimitError(
                f"speed {speed_mm_s:g} mm/s is not above 0 and up to {self._max_speed_mm_s:g} mm/s",
                reason="speed_limit",
                where=self._where,
                remedy="Ask for a lower speed, or raise max_speed in the rig profile if the stage allows it",
            )
        before = self._command("get pos")
        self._check_flag(before)
        if before.warning == "WR":
            raise self._error("the stage has no reference position", "Home it first")
        if before.warning.startswith("N"):
            self._command("warnings clear")  # a note on an earlier move, not on this one
        speed_data = max(1, round(speed_mm_s / self._step_mm * self._scale))
        self._set("maxspeed", speed_data)  # before every move: a knob or another program may have changed it
        target = round(position_mm / self._step_mm)
        self._begin(f"move abs {target}", _Move(target))
        distance_mm = abs(target - self._integer(before)) * self._step_mm
        seconds = self._travel_time_s(distance_mm, speed_mm_s)
        if before.busy:
            # It has to stop first, and may have to come back the way it takes to stop.
            fastest = self._max_speed_mm_s
            braking_s = fastest / self._acceleration_mm_s2
            seconds += 2 * braking_s + fastest * braking_s / 2 / speed_mm_s
        return seconds * 1.02 + 0.3

    def wait_idle(self, timeout_s: float) -> None:
        """Return when the axis stands still where it was sent.

        Raises
        ------
        InstrumentTimeout
            It still moves after ``timeout_s``.
        InstrumentError
            A stall, a limit or another fault ended the move, something else interrupted it, or it stands elsewhere.
        """
        move = self._move
        deadline_ns = self._clock.now_ns() + round(timeout_s * 1e9)
        while True:
            reply = self._command("")
            self._check_flag(reply)
            if not reply.busy:
                break
            left_s = (deadline_ns - self._clock.now_ns()) * 1e-9
            if left_s <= 0:
                raise InstrumentTimeout(
                    f"the stage still moves after {timeout_s:g} s, now at {self.position_mm():.4f} mm",
                    where=self._where,
                    remedy="Stop it; check the speed set in the controller and the deadline",
                )
            sleep(self._clock, min(POLL_S, left_s))
        if reply.warning == "NI" or self._move is not move:
            raise self._error("the move was interrupted by another command", "Look who else commands the stage")
        if move is not None and move.target is not None:
            off_mm = (self._get("pos") - move.target) * self._step_mm
            if abs(off_mm) > ARRIVAL_TOLERANCE_MM:
                raise self._error(
                    f"the stage stands {off_mm:+.4f} mm off its target {move.target * self._step_mm:.4f} mm",
                    "Look for another program that commands it, and for its travel limits",
                )

    def stop(self) -> None:
        """Decelerate to a stand and return when it stands, whatever flags the controller shows.

        Faults stay shown for the next command to raise. The note that this stop interrupted a move is cleared.
        """
        self._move = None
        self._insist("stop")
        slowing_s = self._max_speed_mm_s / self._acceleration_mm_s2 + 1.0
        deadline_ns = self._clock.now_ns() + round(slowing_s * 1e9)
        while (reply := self._insist("")).busy:
            if self._clock.now_ns() >= deadline_ns:
                raise InstrumentTimeout(
                    f"the stage still moves {slowing_s:.1f} s after stop",
                    where=self._where,
                    remedy="Cut the motor's power with the enable line or the e-stop",
                )
            sleep(self._clock, STOP_POLL_S)
        if reply.warning == "NI":  # the gravest flag is the one shown, so nothing worse is cleared with it
            self._insist("warnings clear")

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        """Set the controller's own travel limits [mm] and read them back; they hold until set anew.

        The controller rejects targets beyond them and ends every move there, also when the host is gone.
        """
        if not minimum_mm < maximum_mm:
            raise self._error(f"travel limits {minimum_mm:g} to {maximum_mm:g} mm are empty", "Correct the rig profile")
        low, high = round(minimum_mm / self._step_mm), round(maximum_mm / self._step_mm)
        wanted = [("limit.min", low), ("limit.max", high)]
        if low >= self._get("limit.max"):
            wanted.reverse()  # so that the limits are in order at every moment
        for name, value in wanted:
            self._set(name, value)

    def close(self) -> None:
        """Close the line. The controller goes on with what it does."""
        self._line.close()

    # -- flags --------------------------------------------------------------------------------------------------------

    def warnings(self) -> tuple[str, ...]:
        """Return every flag the axis shows, the gravest first."""
        return tuple(self._command("warnings").data.split()[1:])

    def clear_faults(self) -> tuple[str, ...]:
        """Clear what the controller lets be cleared, enable its motor driver, and return the flags there were.

        A deliberate step, for a person or for homing: no other method clears a fault.

        Raises
        ------
        InstrumentError
            A fault persists; the text says which and what to do.
        """
        flags = self.warnings()
        if any(flag not in ("WR", "WH") for flag in flags):
            self._command("warnings clear")
        if _DRIVER_OFF & set(flags):
            self._command("driver enable")
        for flag in self.warnings():
            if flag.startswith("F"):
                text, remedy = explain_warning(flag)
                raise self._error(f"a fault persists: {text}", remedy)
        return flags

    def _check_flag(self, reply: Message) -> None:
        if reply.warning.startswith("F") or reply.warning in ("WL", "WS", "NC"):
            text, remedy = explain_warning(reply.warning)
            raise self._error(f"the stage shows {text}", remedy)

    # -- commands -----------------------------------------------------------------------------------------------------

    def _meet(self) -> None:
        """Find the device on the line, and from then on take no reply without a checksum."""
        self._line.drain()
        try:
            self._command("")
        except InstrumentTimeout:
            # Half a message of an earlier host may have been in the device's buffer. It has swallowed ours, and
            # neither was carried out, since the checksum cannot fit.
            self._command("")
        self._command("set comm.checksum 1", of_device=True)
        self._requests.require_checksum = True

    def _read_identity(self, port: str, expected_serial_number: str | None) -> Identity:
        def get(name: str) -> str:
            return self._command(f"get {name}", of_device=True).data

        model, serial_number, firmware = get("deviceid"), get("system.serial"), get("version")
        if expected_serial_number is not None and serial_number != expected_serial_number:
            raise self._error(
                f"serial number {serial_number}, expected {expected_serial_number}",
                "Connect the stage the rig profile names, or correct its serial number and calibration there",
            )
        peripheral = self._requests.request("get peripheralid", self.axis)
        details = {
            "peripheral": "built in" if peripheral.rejected else peripheral.data,
            "resolution": str(self._get("resolution")),
        }
        return Identity("zaber_ascii", f"device id {model}", serial_number, firmware, port, details)

    def _begin(self, command: str, move: _Move) -> None:
        """Send a motion command once; when it is not answered, find out what the stage does and tell."""
        try:
            accepted = self._command(command)
        except InstrumentTimeout as lost:
            self._move = move
            reply = self._command("get pos")
            doing = "is moving, now" if reply.busy else "stands"
            raise InstrumentTimeout(
                f"{lost.what}. The stage {doing} at {self._integer(reply) * self._step_mm:.4f} mm and shows "
                f"{reply.warning}; the command was not sent again",
                where=self._where,
                remedy="Stop the stage and bring the rig to its safe state; check the cable before going on",
            ) from lost
        self._move = move
        if accepted.warning == "NI":
            self._command("warnings clear")  # the move interrupted is this driver's own; nothing graver is shown

    def _insist(self, command: str) -> Message:
        """Send a command that does the same however often it comes, until it is answered."""
        for _ in range(STOP_ATTEMPTS - 1):
            try:
                return self._command(command)
            except InstrumentTimeout:
                continue
        return self._command(command)

    def _get(self, name: str) -> int:
        return self._integer(self._command(f"get {name}"))

    def _set(self, name: str, value: int) -> None:
        self._command(f"set {name} {value}")
        held = self._get(name)
        if held != value:
            raise self._error(f"{name} was set to {value} but reads {held}", "Check that no other program sets it")

    def _integer(self, reply: Message) -> int:
        try:
            return int(reply.data)
        except ValueError:
            raise self._error(f"{reply.data!r} is no whole number", "Check that the driver fits the firmware") from None

    def _command(self, text: str, *, of_device: bool = False) -> Message:
        """Send a command and return its reply; :class:`InstrumentError` when it is rejected."""
        reply = self._requests.request(text, 0 if of_device else self.axis)
        if reply.rejected:
            what, remedy = explain_rejection(reply.data)
            shown = "" if reply.warning == NO_WARNING else f"; the stage shows {explain_warning(reply.warning)[0]}"
            raise self._error(f"{text!r} was rejected with {what}{shown}", remedy)
        return reply

    def _travel_time_s(self, distance_mm: float, speed_mm_s: float) -> float:
        """Return the time of a trapezoidal (or, when short, triangular) move from rest to rest [s]."""
        a = self._acceleration_mm_s2
        if distance_mm * a >= speed_mm_s**2:
            return distance_mm / speed_mm_s + speed_mm_s / a
        return 2 * math.sqrt(distance_mm / a)

    def _error(self, what: str, remedy: str) -> InstrumentError:
        return InstrumentError(what, where=self._where, remedy=remedy)
