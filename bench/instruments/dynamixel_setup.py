"""Meeting the servos of a bus: who is there, of which model, and set as the bench needs them."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass

from bench.clock import Clock, sleep
from bench.errors import InstrumentError, InstrumentTimeout
from bench.instruments.dynamixel_frames import BROADCAST, REBOOT, Status, instruction, sync_write, write
from bench.instruments.dynamixel_line import DynamixelLine
from bench.instruments.dynamixel_models import (
    ANSWERS_ALL,
    CURRENT_CONTROL,
    LONGEST_RETURN_DELAY_STEPS,
    NO_SECOND_ID,
    RETURN_DELAY_STEP_S,
    ControlTable,
    Register,
    ServoModel,
    model_text,
    servo_model,
)
from bench.instruments.protocols import Identity

MEETING_S = 1.0
"""How long a servo may take to answer at all [s]: it may just have been switched on, or rebooted."""
_POLL_S = 0.02
_REVERSE, _TORQUE_BY_GOAL = 0x01, 0x08
_PROTOCOL_2 = 2
_IDENTITY = struct.Struct("<HIBBBBBBBB")
"""From address 0: model number, model information, firmware, id, baud rate, return delay, drive mode, operating mode,
secondary id, protocol type."""


@dataclass(frozen=True)
class Servo:
    """One servo as the rig profile has it.

    Attributes
    ----------
    id : int
        Its id on the bus, 0 to 252.
    model : str
        Name of its model, e.g. ``PH54-200-S500``.
    max_current_a : float
        The highest current the driver will command [A], not above the servo's own Current Limit.
    """

    id: int
    model: str
    max_current_a: float


class ServoMeeting:
    """Meets every servo when it is made, and leaves each switched off and in current control.

    Attributes
    ----------
    models : list of ServoModel
        In the order of the servos.
    table : ControlTable
        Of all of them.
    identities : tuple of Identity
        What they said.
    fast_read_known : bool
        Whether every servo's firmware knows fast sync read.
    """

    def __init__(
        self, bus: DynamixelLine, servos: Sequence[Servo], clock: Clock, *, url: str, return_delay_s: float
    ) -> None:
        self._bus = bus
        self._servos = servos
        self._clock = clock
        self._url = url
        self._delay_steps = round(return_delay_s / RETURN_DELAY_STEP_S)
        self.models: list[ServoModel] = [servo_model(servo.model) for servo in servos]
        self._check_profile()
        self.table: ControlTable = self.models[0].table
        found = self._find()
        self._check_models(found)
        self._switch_off()
        identities = [self._set_up(k) for k in range(len(servos))]
        self.fast_read_known = all(
            int(identity.firmware) >= model.fast_read_firmware
            for identity, model in zip(identities, self.models, strict=True)
        )
        self.identities = tuple(identities)

    def reboot(self, axis: int) -> None:
        """Reboot a servo, wait until it answers again, and set it up anew."""
        servo_id = self._servos[axis].id
        self._bus.ask(servo_id, instruction(servo_id, REBOOT), 0, "to a reboot")
        sleep(self._clock, _POLL_S)
        self._await(servo_id)
        self._set_up(axis)

    def await_all(self) -> None:
        """Wait until every servo answers a ping: one that has just got its supply has to start first.

        Raises
        ------
        InstrumentTimeout
            One or all of them do not, within the time of a first meeting.
        """
        self._find()

    # -- who is there -------------------------------------------------------------------------------------------------

    def _check_profile(self) -> None:
        ids = [servo.id for servo in self._servos]
        twice = sorted({servo_id for servo_id in ids if ids.count(servo_id) > 1})
        if twice or not ids or not all(0 <= servo_id < BROADCAST - 1 for servo_id in ids):
            raise self._error(
                f"the servos' ids are {ids}", "Give every servo an id of its own from 0 to 252 in the rig profile"
            )
        if len({id(model.table) for model in self.models}) > 1:
            raise self._error(
                f"models {', '.join(model.name for model in self.models)} keep their data at different addresses",
                "Put servos of the P and the X series on buses of their own",
            )
        if not 0 <= self._delay_steps <= LONGEST_RETURN_DELAY_STEPS:
            raise self._error(
                f"return delay {self._delay_steps * RETURN_DELAY_STEP_S * 1e6:g} us is not from 0 to 508 us",
                "Correct bus.return_delay in the rig profile",
            )

    def _find(self) -> dict[int, Status]:
        bus, found = self._bus, {}
        deadline_ns = self._clock.now_ns() + round(MEETING_S * 1e9)
        missing = [servo.id for servo in self._servos]
        while missing:
            for servo_id in missing:
                damaged = bus.statistics.damaged
                answer = bus.ping(servo_id)
                if answer is None:
                    if bus.statistics.damaged > damaged:
                        raise self._doubled(servo_id, "its answer to a ping comes damaged")
                    continue
                if bus.line.drain():
                    raise self._doubled(servo_id, "a ping is answered more than once")
                found[servo_id] = answer
            missing = [servo_id for servo_id in missing if servo_id not in found]
            if missing and self._clock.now_ns() >= deadline_ns:
                raise bus.absence([servo.id for servo in self._servos], "to a ping")
        return found

    def _check_models(self, found: dict[int, Status]) -> None:
        wrong = []
        for servo, model in zip(self._servos, self.models, strict=True):
            number = int.from_bytes(found[servo.id].data[:2], "little")
            if number != model.number:
                wrong.append(
                    f"{self._name(servo)} is a {model_text(number)}, the rig profile says {model_text(model.number)}"
                )
        if wrong:
            raise self._error("; ".join(wrong), "Connect the servos the rig profile names, or correct it")

    def _await(self, servo_id: int) -> None:
        deadline_ns = self._clock.now_ns() + round(MEETING_S * 1e9)
        while self._bus.ping(servo_id) is None:
            if self._clock.now_ns() >= deadline_ns:
                raise InstrumentTimeout(
                    f"{self._bus.names[servo_id]} does not come back from its reboot within {MEETING_S:g} s",
                    where=self._bus.where,
                    remedy="Switch its supply off and on again",
                )

    # -- as they should be --------------------------------------------------------------------------------------------

    def _switch_off(self) -> None:
        ids = [servo.id for servo in self._servos]
        for register, data in ((self.table.goal_current, b"\0\0"), (self.table.torque_enable, b"\0")):
            self._bus.tell(sync_write(register.address, register.size, dict.fromkeys(ids, data)))

    def _set_up(self, axis: int) -> Identity:
        servo, model, table, bus = self._servos[axis], self.models[axis], self.table, self._bus
        self._have_it_answer(servo.id)
        if self._number(servo.id, table.torque_enable):
            raise self._error(
                f"{self._name(servo)} was told to switch its motor off and has not",
                "Look for another program on the bus",
            )
        try:
            data = _IDENTITY.unpack(bus.read(servo.id, 0, _IDENTITY.size))
            bus.read(servo.id, table.present_position.address, 4)
        except InstrumentTimeout as error:
            if "damaged" in error.what:
                raise self._doubled(servo.id, "its answers come damaged") from error
            raise
        _, information, firmware, _, baud, delay, drive_mode, mode, second_id, protocol = data
        self._check_settings(servo, drive_mode, second_id, protocol)
        if mode != CURRENT_CONTROL:
            self._set(servo, table.operating_mode, CURRENT_CONTROL, "operating mode (current control)")
        if delay != self._delay_steps:
            self._set(servo, table.return_delay, self._delay_steps, "return delay")
        limit_a = self._number(servo.id, table.current_limit) * model.current_unit_a
        if limit_a < servo.max_current_a - 0.5 * model.current_unit_a:
            raise self._error(
                f"{self._name(servo)} has a current limit of {limit_a:g} A, below the {servo.max_current_a:g} A of the "
                "rig profile: it would ignore a higher command without a word",
                "Lower max_current in the rig profile, or raise Current Limit with the vendor's tool",
            )
        (offset,) = struct.unpack("<i", bus.read(servo.id, table.homing_offset.address, 4))
        details = {
            "id": str(servo.id),
            "joint": str(axis + 1),
            "model number": str(model.number),
            "model information": f"0x{information:08x}",
            "baud rate": f"setting {baud}",
            "return delay": f"{self._delay_steps * RETURN_DELAY_STEP_S * 1e6:g} us",
            "homing offset": f"{offset} counts",
            "current limit": f"{limit_a:g} A",
        }
        return Identity("dynamixel", model.name, "", str(firmware), f"{self._url}, id {servo.id}", details)

    def _have_it_answer(self, servo_id: int) -> None:
        """Have the servo answer every instruction; one told to be silent answers a ping only."""
        register, bus = self.table.status_return_level, self._bus
        try:
            if self._number(servo_id, register) == ANSWERS_ALL:
                return
        except InstrumentTimeout:
            if bus.ping(servo_id) is None:
                raise
        bus.tell(write(servo_id, register.address, bytes([ANSWERS_ALL])))
        bus.drain()  # whether it answers this one is its own affair
        if self._number(servo_id, register) != ANSWERS_ALL:
            raise self._error(
                f"{bus.names[servo_id]} does not keep its status return level at {ANSWERS_ALL}",
                "Look at the servo with the vendor's tool",
            )

    def _check_settings(self, servo: Servo, drive_mode: int, second_id: int, protocol: int) -> None:
        remedy = "Set {} with the vendor's tool"
        if drive_mode & _REVERSE:
            raise self._error(
                f"{self._name(servo)} counts in reverse (Drive Mode {drive_mode})",
                remedy.format("Drive Mode to 0") + ", and the joint's direction in the rig profile",
            )
        if drive_mode & _TORQUE_BY_GOAL:
            raise self._error(
                f"{self._name(servo)} switches itself on with every goal (Drive Mode {drive_mode})",
                remedy.format("Drive Mode to 0"),
            )
        if second_id < NO_SECOND_ID:
            raise self._error(
                f"{self._name(servo)} obeys commands to id {second_id} too (Secondary ID)",
                remedy.format("Secondary ID to 255"),
            )
        if protocol != _PROTOCOL_2:
            raise self._error(f"{self._name(servo)} has Protocol Type {protocol}", remedy.format("Protocol Type to 2"))

    def _set(self, servo: Servo, register: Register, value: int, name: str) -> None:
        """Write a setting that is kept without supply, and read it back; the motor is off."""
        self._bus.write(servo.id, register.address, value.to_bytes(register.size, "little"))
        found = self._number(servo.id, register)
        if found != value:
            raise self._error(
                f"{self._name(servo)}: {name} was set to {value} and reads back as {found}",
                "Look at the servo with the vendor's tool",
            )

    def _number(self, servo_id: int, register: Register) -> int:
        return int.from_bytes(self._bus.read(servo_id, register.address, register.size), "little")

    def _name(self, servo: Servo) -> str:
        return self._bus.names[servo.id]

    def _doubled(self, servo_id: int, why: str) -> InstrumentError:
        return self._error(
            f"{self._bus.names[servo_id]}: {why}",
            "Look for a second servo with the same id, and for a bad cable or termination",
        )

    def _error(self, what: str, remedy: str) -> InstrumentError:
        return InstrumentError(what, where=self._bus.where, remedy=remedy)
