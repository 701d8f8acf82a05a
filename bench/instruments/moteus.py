"""A joint's motor drive, a moteus behind an fdcanusb adapter, commanded by rotor torque.

    drive = MoteusDrive("/dev/ttyACM0", clock=WallClock(), device_id=1, baud=4_000_000, max_torque_nm=0.25)
    drive.arm_watchdog(0.1)
    state = drive.command_torque(0.05)      # every 2 ms; the drive ends the torque when 100 ms pass without one
    drive.stop()

What keeps a run from going wrong here:

- A torque command and the state come and go in one frame each. The state was read just *before* the command took
  effect.
- Every command carries the watchdog and the torque limit with it, so neither depends on what the drive is set to.
- Every request comes from another source number, so that a late reply cannot be taken for the next one's
  (:mod:`bench.instruments.moteus_line`). After a timeout the line is drained and the command is not sent again; only
  ``stop`` and ``brake``, which do the same however often they come, are repeated.
- A fault, a tripped watchdog and a drive that was stopped or restarted behind our back end ``command_torque`` with an
  error of their own. None is cleared but by :meth:`MoteusDrive.clear_fault` or :meth:`MoteusDrive.stop`.

A torque command is position mode without gains: kp and kd scale 0, windup limit 0, position "wherever it is" (NaN),
feed-forward torque. After it has tripped the watchdog, a drive set to damp (``servo.timeout_mode`` 12, the default)
does so with the *last command's* kd scale in current firmware: a torque-controlled joint then coasts. The enable line
and a brake must stop what gravity drives; ``servo.timeout_mode`` 15 (brake) in the drive is the better setting.
``brake`` is the drive's mode 15, all phases shorted: it damps without set-point, supply current or watchdog.

The drive's ``motor_position.rotor_to_output_ratio`` must be 1: its position is the rotor's. It is a 32-bit float, good
to 5e-5 rad of the rotor at 100 revolutions.
"""

from __future__ import annotations

import math
import struct

from bench.clock import Clock
from bench.errors import DriveFault, DriveWatchdogTripped, InstrumentError, InstrumentTimeout, LimitError
from bench.instruments.moteus_faults import (
    BRAKE,
    CALIBRATED,
    ENABLING,
    FAULT,
    POSITION,
    REFUSALS,
    STOPPED,
    TIMEOUT,
    explain_fault,
    explain_mode,
)
from bench.instruments.moteus_frames import (
    FLOAT,
    INT8,
    INT16,
    INT32,
    READ,
    WRITE,
    BadFrame,
    RefusedRegister,
    decode,
    padded,
    scaled,
    subframe,
)
from bench.instruments.moteus_line import AdapterStatistics, MoteusLine
from bench.instruments.protocols import DriveState, Identity
from bench.instruments.serial_line import SerialLine

STOP_ATTEMPTS = 3
LONGEST_WATCHDOG_S = 1.0
MEETING_S = 0.3
"""How long a drive may take to answer at all when the line is opened [s]: it may just have been switched on."""
QUIET_S = 0.01
"""Silence that counts as quiet [s]; short, since a late reply is known by its number and a stop must not wait."""

_NAN = math.nan
_TURN = 2 * math.pi
_MODE, _MODEL, _SERIAL_NUMBER = 0x000, 0x100, 0x120

# What is asked for in every frame, and the reply to it in one piece: each subframe's head, then its values.
_QUERY = (
    subframe(READ, INT8, 0x000, 1)  # mode
    + subframe(READ, FLOAT, 0x001, 3)  # position, velocity, torque
    + subframe(READ, INT16, 0x00A, 1)  # motor temperature
    + subframe(READ, INT16, 0x00D, 2)  # voltage, board temperature
    + subframe(READ, INT8, 0x00F, 1)  # fault
)
_STATE = struct.Struct("<2sb2sfff2sh2shh2sb")
_HEADS = (b"\x21\x00", b"\x2f\x01", b"\x25\x0a", b"\x26\x0d", b"\x21\x0f")
_STATE_BYTES = len(padded(bytes(_STATE.size)))
_TEMPERATURE_UNIT = _VOLTAGE_UNIT = 0.1
_FLOAT32 = struct.Struct("<f")


class MoteusDrive:
    """Implements :class:`bench.instruments.protocols.JointDrive`.

    Parameters
    ----------
    url : str
        The adapter's port: a device file, ``COM4`` or any pyserial URL.
    clock : Clock
        The bench's clock.
    max_torque_nm : float
        The largest rotor torque this driver will command [N.m]; the drive is told it too, with each command.
    device_id : int
        The drive's id on the bus.
    baud : int
        Bits per second. An fdcanusb on USB ignores it; a drive's UART does not.
    watchdog_s : float
        How long [s] after a command the drive ends the torque by itself; see :meth:`arm_watchdog`.
    reply_deadline_s : float
        The longest adapter and drive together may take to answer [s].
    expected_serial_number : str, optional
        Of the drive, as :meth:`identify` gives it; another one is refused.
    checksummed : bool
        The lines bear checksums: for a drive on a UART.

    Raises
    ------
    InstrumentError
        The port is in use, or the drive is not the expected one.
    InstrumentTimeout
        Nothing answers under this id.
    """

    def __init__(
        self,
        url: str,
        *,
        clock: Clock,
        max_torque_nm: float,
        device_id: int = 1,
        baud: int = 4_000_000,
        watchdog_s: float = 0.1,
        reply_deadline_s: float = 0.02,
        expected_serial_number: str | None = None,
        checksummed: bool = False,
    ) -> None:
        self.device_id = device_id
        self._where = f"{url}, moteus drive id {device_id}"
        self._max_torque_nm = max_torque_nm
        self._running = False
        self._clock = clock
        self.arm_watchdog(watchdog_s)
        self._stop = self._mode_command(STOPPED)
        self._brake = self._mode_command(BRAKE)
        self._query = padded(_QUERY)
        self._line = SerialLine(url, baud=baud, clock=clock, slice_s=QUIET_S)
        self._requests = MoteusLine(
            self._line,
            clock=clock,
            device_id=device_id,
            where=self._where,
            reply_deadline_s=reply_deadline_s,
            checksummed=checksummed,
        )
        try:
            self._line.drain()
            self._identity = self._read_identity(url, expected_serial_number)
        except BaseException:
            self._line.close()
            raise

    @property
    def statistics(self) -> AdapterStatistics:
        """What the line did that it should not have done."""
        return self._requests.statistics

    # -- what a joint drive does --------------------------------------------------------------------------------------

    def identify(self) -> Identity:
        """Return what the drive said of itself when the line was opened."""
        return self._identity

    def arm_watchdog(self, timeout_s: float) -> None:
        """Set the time [s] after which the drive ends a torque by itself; it goes with each command from now on."""
        if not 0 < timeout_s <= LONGEST_WATCHDOG_S:
            raise LimitError(
                f"watchdog {timeout_s:g} s is not above 0 and up to {LONGEST_WATCHDOG_S:g} s",
                reason="watchdog",
                where=self._where,
                remedy="Correct the drive's watchdog in the rig profile",
            )
        before = subframe(WRITE, INT8, _MODE, [POSITION]) + subframe(WRITE, FLOAT, 0x020, [_NAN, 0.0, 0.0])[:-4]
        after = (
            subframe(WRITE, INT8, 0x023, [0, 0])  # scale of kp and kd
            + subframe(WRITE, FLOAT, 0x025, [self._max_torque_nm])
            + subframe(WRITE, FLOAT, 0x027, [timeout_s])
            + subframe(WRITE, INT8, 0x02B, [0])  # windup limit
            + _QUERY
        )
        filling = padded(before + bytes(4) + after)[len(before) + 4 :]
        self._before_torque = before.hex().encode()
        self._after_torque = filling.hex().encode() + b" BF"
        self.watchdog_s = timeout_s

    def command_torque(self, torque_nm: float) -> DriveState:
        """Command a rotor torque [N.m] and return the state from just before it took effect.

        For the first 10 ms or so after a stop the drive gets ready (modes 2 to 4) and makes no torque.

        Raises
        ------
        LimitError
            The torque is not finite or above ``max_torque_nm``; nothing was sent.
        DriveFault, DriveWatchdogTripped
            The drive has stopped by itself.
        InstrumentError
            Something else has stopped it, or commands it.
        InstrumentTimeout
            No reply in time; whether the command was carried out is not known, and it was not sent again.
        """
        if not -self._max_torque_nm <= torque_nm <= self._max_torque_nm:
            raise LimitError(
                f"rotor torque {torque_nm:g} N.m is not within ±{self._max_torque_nm:g} N.m",
                reason="torque_limit",
                where=self._where,
                remedy="Ask for a lower torque, or raise max_motor_torque in the rig profile if the gear allows it",
            )
        body = self._before_torque + _FLOAT32.pack(torque_nm).hex().encode() + self._after_torque
        state = _state(self._requests.exchange(body, "a torque command")) or self._explain()
        if state.mode == POSITION:
            self._running = True
        else:
            self._judge(state)
        return state

    def state(self) -> DriveState:
        """Return the state. The watchdog is not fed, and a fault is reported in it, not raised."""
        return self._ask(self._query, "a query")

    def stop(self) -> DriveState:
        """Switch the motor off, whatever mode the drive is in, and return the state then. Clears a fault too.

        Raises
        ------
        InstrumentError
            The drive does not stop.
        """
        for _ in range(STOP_ATTEMPTS):
            self._insist(self._stop, "stop")
            state = self._insist(self._query, "a query")
            if state.mode == STOPPED:
                return state
        raise self._error(
            f"the drive was told to stop and is in {explain_mode(state.mode)}",
            "Cut the motor's power with the enable line or the e-stop; look for another program that commands it",
        )

    def brake(self) -> DriveState:
        """Short the motor's phases (mode 15) and return the state then; 10 ms later when the motor was off.

        Raises
        ------
        DriveFault
            Only :meth:`stop` leads away from a fault, and a drive at fault leaves its phases open.
        """
        if self._insist(self._brake, "brake").mode == TIMEOUT:  # which only a stop leads away from
            self.stop()
            self._insist(self._brake, "brake")
        state = self._insist(self._query, "a query")
        if state.mode == FAULT:
            self._judge(state)
        return state

    def clear_fault(self) -> DriveState:
        """Clear a fault or a tripped watchdog and return the state, the motor off.

        A deliberate step, for a person or for the start of a run. A fault whose cause persists comes back with the next
        command: the drive checks most of them only while it runs.
        """
        return self.stop()

    def close(self) -> None:
        """Close the line. The drive goes on until its watchdog trips."""
        self._line.close()

    # -- state --------------------------------------------------------------------------------------------------------

    def _judge(self, state: DriveState) -> None:
        """Raise when the drive will not carry out a torque command; ``state`` is from before the command."""
        if state.mode == FAULT:
            text, remedy = explain_fault(state.fault)
            raise DriveFault(f"the drive has stopped with {text}", code=state.fault, where=self._where, remedy=remedy)
        if state.mode == TIMEOUT:
            raise DriveWatchdogTripped(
                f"the drive's watchdog has tripped ({explain_mode(TIMEOUT)}): no torque command for "
                f"{self.watchdog_s:g} s",
                where=self._where,
                remedy="Look for what held up the control loop; bring the rig to its safe state, then clear the drive",
            )
        if self._running:
            self._running = False
            raise self._error(
                f"the drive no longer followed the torque commands, it was in {explain_mode(state.mode)}",
                "Look for a loss of its supply and for another program that commands it; stop it and start anew",
            )
        if state.mode not in (STOPPED, BRAKE) and not ENABLING <= state.mode <= CALIBRATED:
            raise self._error(
                f"the drive is in {explain_mode(state.mode)}, which this bench never asks for",
                "Look for another program that commands it; stop it and start anew",
            )

    def _ask(self, data: bytes, what: str) -> DriveState:
        return _state(self._requests.request(data, what)) or self._explain()

    def _insist(self, data: bytes, what: str) -> DriveState:
        """Command what does the same however often it comes, until it is answered."""
        self._running = False
        for _ in range(STOP_ATTEMPTS - 1):
            try:
                return self._ask(data, what)
            except InstrumentTimeout:
                continue
        return self._ask(data, what)

    def _explain(self) -> DriveState:
        """Ask once more, and tell why a reply cannot be the state: it held other registers than asked for."""
        self._registers(self._query, "a query")
        raise self._error(
            "a reply held other registers than asked for", "Check that the firmware's register map is version 5 or 6"
        )

    def _mode_command(self, mode: int) -> bytes:
        return padded(subframe(WRITE, INT8, _MODE, [mode]) + _QUERY)

    # -- identity -----------------------------------------------------------------------------------------------------

    def _read_identity(self, url: str, expected_serial_number: str | None) -> Identity:
        asked = subframe(READ, INT32, _MODEL, 3) + subframe(READ, INT32, _SERIAL_NUMBER, 3)
        deadline_ns = self._clock.now_ns() + round(MEETING_S * 1e9)
        while True:
            # A drive just switched on boots; and half a line of an earlier host may have been in the adapter's buffer,
            # and has swallowed the first of ours. To ask again for what is only read does no harm.
            try:
                values = self._registers(asked, "its identity")
                break
            except InstrumentTimeout:
                if self._clock.now_ns() >= deadline_ns:
                    raise
        words = [int(value) & 0xFFFFFFFF for _, value in sorted(values.items())]
        if len(words) != 6:
            raise self._error(f"{len(words)} registers of identity, expected 6", "Update the drive's firmware")
        model, version, register_map, *number = words
        serial_number = "-".join(f"{word:08X}" for word in number)
        if expected_serial_number is not None and serial_number != expected_serial_number.upper():
            raise self._error(
                f"serial number {serial_number}, expected {expected_serial_number}",
                "Connect the drive the rig profile names, or correct its serial number there",
            )
        firmware = f"{version >> 16 & 0xFF}.{version >> 8 & 0xFF}.{version & 0xFF}"
        details = {"device id": str(self.device_id), "register map": str(register_map)}
        return Identity("moteus", f"model 0x{model:x}", serial_number, firmware, url, details)

    def _registers(self, data: bytes, what: str) -> dict[int, float]:
        """Read registers one by one, off the loop's path."""
        reply = self._requests.request(data, what)
        try:
            return {register: value for register, _, value in decode(reply)}
        except RefusedRegister as refused:
            raise self._error(
                f"register 0x{refused.register:03x} cannot be {'read' if refused.read else 'written'}: "
                f"{REFUSALS.get(refused.reason, f'reason {refused.reason}')}",
                "Update the drive's firmware to one this driver fits",
            ) from refused
        except BadFrame as error:
            raise self._error(f"the reply to {what} makes no sense: {error}", "Check the adapter") from error

    def _error(self, what: str, remedy: str) -> InstrumentError:
        return InstrumentError(what, where=self._where, remedy=remedy)


def _state(data: bytes) -> DriveState | None:
    """Return the state in a reply to ``_QUERY``, None when that is not what it holds."""
    if len(data) != _STATE_BYTES:
        return None
    h0, mode, h1, position, velocity, torque, h2, motor, h3, voltage, board, h4, fault = _STATE.unpack_from(data)
    if (h0, h1, h2, h3, h4) != _HEADS:
        return None
    return DriveState(
        position * _TURN,
        velocity * _TURN,
        torque,
        scaled(board, INT16, _TEMPERATURE_UNIT),
        scaled(motor, INT16, _TEMPERATURE_UNIT),
        scaled(voltage, INT16, _VOLTAGE_UNIT),
        mode,
        fault,
    )
