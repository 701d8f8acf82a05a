"""An arm's Dynamixel servos on one RS-485 bus, as the host's line shows them.

Source: ROBOTIS e-Manual, "Protocol 2.0" and the control tables of the P and X series. The vendor's own client accepts
this device (``tests/contract/dynamixel/test_dynamixel_client.py``). What a client cannot prove, how firmware behaves,
is assumed and written down in ``docs/twin.md``, "Dynamixel bus".
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from bench.errors import TwinError
from bench.twin.devices.dynamixel_servo import CRC_ERROR, INSTRUCTION_ERROR, RESULT_FAIL, Servo
from bench.twin.devices.dynamixel_tables import model
from bench.twin.devices.dynamixel_talk import (
    BULK_READ,
    FAST_BULK_READ,
    FAST_FIRMWARE,
    FAST_SYNC_READ,
    SYNC_READ,
    BusTalk,
)
from bench.twin.devices.dynamixel_wire import EVERYBODY, Instruction, PacketCutter
from bench.twin.interfaces import ArmDrivesPlant, SerialPort, Timer, World

BOOT_NS = 400_000_000
PING_SLOT_NS = 3_000_000
"""A servo answers a ping to everybody after its id times this [ns]."""
SUPERVISION_NS = 50_000_000
_TWO_SHORTS, _GOAL = struct.Struct("<HH"), struct.Struct("<Bh")
_CLEAR_TURNS = b"\x01\x44\x58\x4c\x22"


@dataclass(frozen=True)
class ServoSpec:
    """A servo to simulate: id, name of its model and firmware (0: one that knows fast sync read)."""

    id: int
    model: str
    firmware: int = 0


class DynamixelArm:
    """The servos' end of the line; implements :class:`bench.twin.interfaces.SerialDevice`.

    Parameters
    ----------
    plant : ArmDrivesPlant
        The motors they drive.
    servos : sequence of ServoSpec
        One an axis of the plant. Two may have the same id, as by mistake: they then speak at once.
    name : str
        Name of the device on the link.
    baud : int
        Bits per second, of the bus and as set in every servo.
    return_delay_us : float
        Register Return Delay Time of every servo, in whole 2 us; 500 from the factory.
    """

    def __init__(
        self,
        plant: ArmDrivesPlant,
        servos: Sequence[ServoSpec],
        *,
        name: str = "arm",
        baud: int = 1_000_000,
        return_delay_us: float = 500.0,
    ) -> None:
        self.name = name
        self.baud = baud
        self._plant = plant
        self._plant_foresees: Callable[[int, Sequence[float | None]], None] | None = getattr(
            plant, "foresee_currents", None
        )
        self.servos = [_servo(spec, baud, return_delay_us) for spec in servos]
        if len(servos) != plant.axes:
            raise TwinError(f"{len(servos)} servos for {plant.axes} axes", where="twin device", remedy="one an axis")
        goals = {servo.goal_at for servo in self.servos}
        self._goals_at = goals.pop() if len(goals) == 1 else -1  # servos of two series keep them in two places
        self._heard_ns = 0
        self._currents: list[float | None] = [None] * len(servos)
        self._timer: Timer | None = None
        self._timer_ns = 0
        self._boots: list[Timer] = []
        self._talk = BusTalk(self.servos, baud, self._refresh)
        self._cutter = PacketCutter(self._handle)
        self._instructions: dict[int, Callable[[Instruction], None]] = {
            0x83: self._sync_write,
            0x93: self._bulk_write,
            **dict.fromkeys((SYNC_READ, FAST_SYNC_READ, BULK_READ, FAST_BULK_READ), self._talk.read_in_turn),
        }

    def attach(self, world: World, port: SerialPort) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self._world = world
        self._talk.attach(world, port)
        self._plant.on_power(self._power)
        self._plant.on_fault(self.inject_fault)
        self._plant.command_currents(self._currents)
        if self._plant.powered():
            self._boot(range(len(self.servos)))

    def receive(self, data: bytes) -> None:
        """See :class:`bench.twin.interfaces.SerialDevice`."""
        self._cutter.receive(data, self._world.now_ns)

    def foresee(self, data: bytes, arrival_ns: int) -> bool:
        """Look at what is on its way: goal currents are told to the plant beforehand, and nothing is done about them.

        Returns whether the plant was told.
        """
        if self._plant_foresees is None or len(data) < 10 or data[7] != 0x83:
            return False
        packet = self._cutter.foresee(data)
        if packet is None or packet.to != EVERYBODY or len(packet.parameters) < 5:
            return False
        given = packet.parameters
        if _TWO_SHORTS.unpack_from(given) != (self._goals_at, 2):
            return False
        goals: dict[Servo, int] = {}
        for servo_id, goal in _GOAL.iter_unpack(given[4 : len(given) - (len(given) - 4) % 3]):
            for servo in self._talk.obeying(servo_id):
                goals[servo] = goal
        currents = [servo.current_a(goals.get(servo)) for servo in self.servos]
        if currents == self._currents:
            return False
        self._plant_foresees(arrival_ns, currents)
        return True

    # -- faults -------------------------------------------------------------------------------------------------------

    def inject_fault(self, axis: int, bits: int) -> None:
        """A servo finds a hardware error (bits of Hardware Error Status)."""
        if self.servos[axis].ready:
            self.servos[axis].fail(bits)
            self._drive()

    def mute(self, servo_id: int, on: bool = True) -> None:
        """Take a servo off the bus, or put it back: it hears nothing and says nothing."""
        for servo in self._called(servo_id):
            servo.muted, servo.heard_ns = on, self._heard_ns

    def delay(self, servo_id: int, delay_ns: int, count: int = 1) -> None:
        """The next ``count`` answers of a servo come so much later; others do not wait for them but in a sync read."""
        self._called(servo_id)
        self._talk.late[servo_id] = [delay_ns] * count

    def corrupt(self, servo_id: int, count: int = 1) -> None:
        """The next ``count`` answers of a servo arrive with one bit wrong."""
        self._called(servo_id)
        self._talk.damaged[servo_id] = count

    def swap_ids(self, one: int, other: int) -> None:
        """Two servos have each other's ids."""
        first, second = self._called(one), self._called(other)
        for servos, servo_id in ((first, other), (second, one)):
            for servo in servos:
                servo.rename(servo_id)

    def set_model_number(self, servo_id: int, number: int) -> None:
        """A servo of another model has this id."""
        for servo in self._called(servo_id):
            servo.set("model_number", number)

    def _called(self, servo_id: int) -> list[Servo]:
        found = [servo for servo in self.servos if servo.id == servo_id]
        if not found:
            ids = ", ".join(str(servo.id) for servo in self.servos)
            raise TwinError(f"no servo has the id {servo_id}", where=f"twin device {self.name!r}", remedy=f"ids: {ids}")
        return found

    # -- supply -------------------------------------------------------------------------------------------------------

    def _power(self, on: bool) -> None:
        for timer in self._boots:
            timer.cancel()
        self._boots = []
        for servo in self.servos:
            servo.off()
        self._drive()
        if on:
            self._boot_later(range(len(self.servos)))

    def _boot_later(self, axes: Sequence[int]) -> None:
        self._boots = self._boots[-len(self.servos) :]
        self._boots.append(self._world.at(self._world.now_ns + BOOT_NS, lambda: self._boot(axes)))

    def _boot(self, axes: Sequence[int]) -> None:
        positions = self._plant.states()[0]
        for axis in axes:
            self.servos[axis].boot(positions[axis])

    # -- packets ------------------------------------------------------------------------------------------------------

    def _handle(self, packet: Instruction) -> None:
        if not packet.whole:
            if packet.to != EVERYBODY:
                self._talk.answer(self._talk.hearing(packet.to), lambda servo: (CRC_ERROR, b""))
            return
        self._heard_ns = self._world.now_ns
        group = self._instructions.get(packet.code)
        if group is not None:
            if packet.to == EVERYBODY:
                group(packet)
            return
        if packet.to == EVERYBODY:
            self._to_everybody(packet)
            return
        answers = {id(servo): self._carry_out(servo, packet) for servo in self._talk.hearing(packet.to)}
        if answers:
            level = {0x01: 0, 0x02: 1}.get(packet.code, 2)
            listening = [s for s in self.servos if id(s) in answers and s.answers >= level]
            self._talk.answer(listening, lambda servo: answers[id(servo)], packet.to)
        for servo in self._talk.shadows(packet.to):
            self._carry_out(servo, packet)
        if packet.code != 0x02:
            self._drive()
            self._watch()

    def _carry_out(self, servo: Servo, packet: Instruction) -> tuple[int, bytes]:
        """Carry out an instruction to one servo and return error and parameters of its answer."""
        code, given = packet.code, packet.parameters
        if code == 0x01:
            return 0, bytes(servo.memory[:2]) + bytes([servo.get("firmware")])
        if code == 0x02:
            if len(given) != 4:
                return INSTRUCTION_ERROR, b""
            address, count = _TWO_SHORTS.unpack(given)
            self._refresh([servo], address, count)
            return servo.read(address, count)
        if code in (0x03, 0x04):
            if len(given) < 2:
                return INSTRUCTION_ERROR, b""
            act = servo.write if code == 0x03 else servo.register
            return act(given[0] | given[1] << 8, given[2:]), b""
        if code == 0x05:
            return servo.act(), b""
        if code == 0x06:
            if given not in (b"\xff", b"\x01", b"\x02"):
                return RESULT_FAIL, b""
            servo.factory_reset(given[0])
            self._restart(servo)
            return 0, b""
        if code == 0x08:
            self._restart(servo)
            return 0, b""
        if code == 0x10 and given == _CLEAR_TURNS:
            self._refresh([servo], servo.model.entries["present_position"].address, 4)
            return servo.clear_turns(), b""
        return INSTRUCTION_ERROR, b""

    def _restart(self, servo: Servo) -> None:
        """Reboot once the answer is out."""
        axis = self.servos.index(servo)

        def down() -> None:
            servo.off()
            self._drive()
            self._boot_later([axis])

        self._world.at(self._world.now_ns + 2 * servo.return_delay_ns + 1_000_000, down)

    def _to_everybody(self, packet: Instruction) -> None:
        if packet.code == 0x01:
            for servo_id in sorted({servo.id for servo in self.servos}):
                self._talk.answer(
                    self._talk.hearing(servo_id),
                    lambda servo: self._carry_out(servo, packet),
                    after_ns=servo_id * PING_SLOT_NS,
                )
        elif packet.code != 0x02 and not (packet.code == 0x06 and packet.parameters == b"\xff"):
            for servo_id in {servo.id for servo in self.servos}:
                for servo in self._talk.hearing(servo_id):
                    self._carry_out(servo, packet)
            self._drive()
            self._watch()

    # -- several servos -----------------------------------------------------------------------------------------------

    def _sync_write(self, packet: Instruction) -> None:
        given = packet.parameters
        if len(given) < 5:
            return
        address, count = _TWO_SHORTS.unpack_from(given)
        if count == 2 and self._goals_at == address:
            self._write_goals(given)
            return
        for at in range(4, len(given) - count, count + 1):
            for servo in self._talk.obeying(given[at]):
                servo.write(address, given[at + 1 : at + 1 + count])
        self._drive()
        if count != 2:
            self._watch()

    def _write_goals(self, given: bytes) -> None:
        """Goal currents alone: they come every few milliseconds and start nothing to watch over."""
        for servo_id, goal in _GOAL.iter_unpack(given[4 : len(given) - (len(given) - 4) % 3]):
            for servo in self._talk.obeying(servo_id):
                servo.write_goal(goal)
        self._drive()

    def _bulk_write(self, packet: Instruction) -> None:
        given, at = packet.parameters, 0
        while at + 5 < len(given):
            address, count = _TWO_SHORTS.unpack_from(given, at + 1)
            for servo in self._talk.obeying(given[at]):
                servo.write(address, given[at + 5 : at + 5 + count])
            at += 5 + count
        self._drive()
        self._watch()

    def _refresh(self, servos: Sequence[Servo], address: int, count: int) -> None:
        if not servos or not servos[0].wants_refresh(address, count):
            return
        positions, velocities, currents = self._plant.states()
        now_ns, plant = self._world.now_ns, self._plant
        slow = address + count > servos[0].model.entries["input_voltage"].address
        some = len(servos) < len(self.servos)
        for axis, servo in enumerate(self.servos):
            if some and servo not in servos:
                continue
            servo.refresh(positions[axis], velocities[axis], currents[axis], now_ns)
            if slow:
                servo.set("input_voltage", round(10 * plant.supply_v()))
                servo.set("temperature", round(plant.temperature_degc(axis)))

    # -- motors -------------------------------------------------------------------------------------------------------

    def _drive(self) -> None:
        """Hand the currents the servos want to the motors."""
        currents = [servo.current_a() for servo in self.servos]
        if currents != self._currents:
            self._currents = currents
            self._plant.command_currents(currents)

    def _watch(self) -> None:
        """Have watchdogs and hardware looked at, as long as a motor is on."""
        if not any(servo.torque_on for servo in self.servos):
            return
        times = [time_ns for servo in self.servos if (time_ns := servo.watchdog_ns()) is not None]
        due_ns = self._world.now_ns + min([SUPERVISION_NS, *times])
        if self._timer is None or due_ns < self._timer_ns:
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = due_ns
            self._timer = self._world.at(due_ns, self._supervise)

    def _supervise(self) -> None:
        self._timer = None
        now_ns, plant = self._world.now_ns, self._plant
        currents = plant.states()[2]
        supply_v = plant.supply_v()
        due_ns = now_ns + SUPERVISION_NS
        for axis, servo in enumerate(self.servos):
            if not servo.ready:
                continue
            if servo.torque_on:
                servo.supervise(now_ns, plant.temperature_degc(axis), supply_v, currents[axis])
            time_ns = servo.watchdog_ns()
            if time_ns is not None:
                trips_ns = time_ns + (servo.heard_ns if servo.muted else self._heard_ns)
                if trips_ns <= now_ns:
                    servo.trip()
                else:
                    due_ns = min(due_ns, trips_ns)
        self._drive()
        if any(servo.torque_on for servo in self.servos):
            self._timer_ns = due_ns
            self._timer = self._world.at(due_ns, self._supervise)


def _servo(spec: ServoSpec, baud: int, return_delay_us: float) -> Servo:
    found = model(spec.model)
    if baud not in found.bauds:
        raise TwinError(
            f"a {found.name} knows no {baud} baud",
            where="twin device",
            remedy=f"one of {', '.join(map(str, found.bauds))}",
        )
    firmware = spec.firmware or FAST_FIRMWARE[found.series]
    return Servo(found, spec.id, baud, firmware=firmware, return_delay=round(return_delay_us / 2))
