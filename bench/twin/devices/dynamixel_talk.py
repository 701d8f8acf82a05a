"""Who on a Dynamixel bus hears what, and when each speaks: byte times, return delays, one after another.

Replies of a sync or bulk read come in the order asked, each when the one before is through; a servo that says nothing
ends them. Injected faults of the bus (late, damaged, mute) live here too.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from bench.twin.devices.dynamixel_servo import Servo
from bench.twin.devices.dynamixel_wire import Instruction, joint_status, status
from bench.twin.interfaces import SerialPort, World

TURNAROUND_NS = 10_000
"""From the end of a packet to the start of the answer, beside the return delay [ns]."""
FAST_FIRMWARE = {"P": 12, "X": 45}
"""The first firmware of a series that knows fast sync read."""

SYNC_READ, FAST_SYNC_READ, BULK_READ, FAST_BULK_READ = 0x82, 0x8A, 0x92, 0x9A
_KEPT = 64
_TWO_SHORTS = struct.Struct("<HH")


@dataclass(frozen=True, slots=True)
class _Plan:
    """An answer to a sync or bulk read: ids asked, who speaks in turn and what, registers that cover all of it."""

    fast: bool
    asked: list[int]
    turns: list[tuple[list[Servo], int, int]]
    speakers: list[Servo]
    address: int
    count: int
    missing: list[tuple[int, int, bytes]]


class BusTalk:
    """The servos of one bus, speaking.

    Parameters
    ----------
    servos : sequence of Servo
        All there are.
    baud : int
        Bits per second of the bus; a servo set to another hears nothing.
    measure : callable
        Has servos take what their sensors measure, before these registers (address, count) are read.
    """

    def __init__(
        self, servos: Sequence[Servo], baud: int, measure: Callable[[Sequence[Servo], int, int], None]
    ) -> None:
        self.late: dict[int, list[int]] = {}
        self.damaged: dict[int, int] = {}
        self._servos = servos
        self._hearing: dict[int, list[Servo]] = {}  # as far as they were asked for since anybody's hearing changed
        self._shadows: dict[int, list[Servo]] = {}
        self._obeying: dict[int, list[Servo]] = {}
        self._plans: dict[Instruction, _Plan] = {}
        for servo in servos:
            servo.on_roster = self._forget
        self._measure = measure
        self._baud = baud
        self._byte_ns = 10_000_000_000 / baud

    def attach(self, world: World, port: SerialPort) -> None:
        """Called once before anybody speaks."""
        self._world, self._port = world, port

    def _forget(self) -> None:
        self._hearing, self._shadows, self._obeying, self._plans = {}, {}, {}, {}

    def hearing(self, servo_id: int) -> list[Servo]:
        """Return the servos that take an instruction to this id; more than one by mistake only."""
        found = self._hearing.get(servo_id)
        if found is None:
            found = self._hearing[servo_id] = [s for s in self._servos if s.id == servo_id and self._hears(s)]
        return found

    def shadows(self, servo_id: int) -> list[Servo]:
        """Servos that obey this id as their second one; they say nothing."""
        found = self._shadows.get(servo_id)
        if found is None:
            found = self._shadows[servo_id] = [s for s in self._servos if s.memory[12] == servo_id and self._hears(s)]
        return found

    def obeying(self, servo_id: int) -> list[Servo]:
        """Both."""
        found = self._obeying.get(servo_id)
        if found is None:
            found = self._obeying[servo_id] = [*self.hearing(servo_id), *self.shadows(servo_id)]
        return found

    def _hears(self, servo: Servo) -> bool:
        return servo.ready and not servo.muted and servo.baud == self._baud

    def read_in_turn(self, packet: Instruction) -> None:
        """Each waits for the one before it: one that says nothing ends it. What they show is of one moment, now."""
        plan = self._plans.get(packet)
        if plan is None:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            plan = self._plans[packet] = self._plan(packet)
        if plan.count:
            self._measure(plan.speakers, plan.address, plan.count)
        if plan.fast:
            self._speak_as_one(plan)
            return
        deferred = any(self.late.get(servo_id) for servo_id in plan.asked)
        after_ns = 0
        for servos, address, count in plan.turns:
            what = partial(Servo.read, address=address, count=count)
            after_ns = self.answer(servos, what, after_ns=after_ns, deferred=deferred)

    def _plan(self, packet: Instruction) -> _Plan:
        """Who says what to a sync or bulk read; good until somebody's hearing changes."""
        given, fast = packet.parameters, packet.code in (FAST_SYNC_READ, FAST_BULK_READ)
        asked: list[tuple[int, int, int]] = []
        if packet.code in (SYNC_READ, FAST_SYNC_READ) and len(given) >= 5:
            address, count = _TWO_SHORTS.unpack_from(given)
            asked = [(servo_id, address, count) for servo_id in given[4:]]
        elif packet.code in (BULK_READ, FAST_BULK_READ) and not len(given) % 5:
            asked = [(given[at], *_TWO_SHORTS.unpack_from(given, at + 1)) for at in range(0, len(given), 5)]
        turns: list[tuple[list[Servo], int, int]] = []
        for servo_id, address, count in asked:
            servos = [servo for servo in self.hearing(servo_id) if servo.answers >= 1]
            if not servos or (fast and servos[0].get("firmware") < FAST_FIRMWARE[servos[0].model.series]):
                break
            turns.append((servos, address, count))
        first = min((address for _, address, _ in asked), default=0)
        end = max((address + count for _, address, count in asked), default=0)
        return _Plan(
            fast=fast,
            asked=[servo_id for servo_id, _, _ in asked],
            turns=turns,
            speakers=[servos[0] for servos, _, _ in turns],
            address=first,
            count=end - first,
            missing=[(0, 0, bytes(count)) for _, _, count in asked[len(turns) :]],
        )

    def _speak_as_one(self, plan: _Plan) -> None:
        """The answer to a fast read: cut off where one is missing."""
        if not plan.turns:
            return
        parts = []
        for (servo, *_), address, count in plan.turns:
            error, data = servo.read(address, count)
            parts.append((error | servo.alert, servo.id, data or bytes(count)))
        missing = plan.missing
        text = joint_status(parts + missing)
        if missing:
            text = text[: len(text) - sum(len(data) + 4 for _, _, data in missing)]
        late_ns = 0
        if self.late or self.damaged:
            for servo in plan.speakers:
                late_ns += self._take_late(servo.id)
                if self._take_damaged(servo.id):
                    text = text[:-3] + bytes([text[-3] ^ 1]) + text[-2:]
        self._send(text, plan.speakers[0].return_delay_ns + TURNAROUND_NS + late_ns, late_ns > 0)

    def answer(
        self,
        servos: Sequence[Servo],
        what: Callable[[Servo], tuple[int, bytes]],
        as_id: int | None = None,
        after_ns: int = 0,
        deferred: bool = False,
    ) -> int:
        """Have servos of one id answer after ``after_ns``; return when the last byte is out, from now.

        A deferred answer does not hold up what others say before its time has come.
        """
        if not servos:
            return after_ns
        frames = []
        for servo in servos:
            error, data = what(servo)
            frames.append(status(servo.id if as_id is None else as_id, error | servo.alert, data))
        servo_id = servos[0].id if as_id is None else as_id
        frame = frames[0] if len(frames) == 1 else _collided(frames)
        if self._take_damaged(servo_id):
            frame = frame[:-3] + bytes([frame[-3] ^ 1]) + frame[-2:]
        late_ns = self._take_late(servo_id)
        after_ns += servos[0].return_delay_ns + TURNAROUND_NS
        after_ns += late_ns
        self._send(frame, after_ns, deferred or late_ns > 0)
        return after_ns + round(len(frame) * self._byte_ns)

    def _send(self, frame: bytes, after_ns: int, deferred: bool) -> None:
        if deferred:
            self._world.at(self._world.now_ns + after_ns, lambda: self._port.send(frame))
        else:
            self._port.send(frame, delay_ns=after_ns)

    def _take_late(self, servo_id: int) -> int:
        late = self.late.get(servo_id)
        return late.pop() if late else 0

    def _take_damaged(self, servo_id: int) -> bool:
        left = self.damaged.get(servo_id, 0)
        if left:
            self.damaged[servo_id] = left - 1
        return left > 0


def _collided(frames: Sequence[bytes]) -> bytes:
    """Two that speak at once: a line that is pulled low by either."""
    longest = max(frames, key=len)
    merged = bytearray(longest)
    for frame in frames:
        for k, byte in enumerate(frame):
            merged[k] &= byte
    return bytes(merged)
