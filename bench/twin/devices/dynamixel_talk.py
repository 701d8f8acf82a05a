"""Who on a Dynamixel bus hears what, and when each speaks: byte times, return delays, one after another.

Replies of a sync or bulk read come in the order asked, each when the one before is through; a servo that says nothing
ends them. Injected faults of the bus (late, damaged, mute) live here too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from bench.twin.devices.dynamixel_servo import Servo
from bench.twin.devices.dynamixel_wire import joint_status, status
from bench.twin.interfaces import SerialPort, World

TURNAROUND_NS = 10_000
"""From the end of a packet to the start of the answer, beside the return delay [ns]."""
FAST_FIRMWARE = {"P": 12, "X": 45}
"""The first firmware of a series that knows fast sync read."""


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
        self._measure = measure
        self._baud = baud
        self._byte_ns = 10_000_000_000 / baud

    def attach(self, world: World, port: SerialPort) -> None:
        """Called once before anybody speaks."""
        self._world, self._port = world, port

    def hearing(self, servo_id: int) -> list[Servo]:
        """Return the servos that take an instruction to this id; more than one by mistake only."""
        baud = self._baud
        return [s for s in self._servos if s.id == servo_id and s.ready and not s.muted and s.baud == baud]

    def shadows(self, servo_id: int) -> list[Servo]:
        """Servos that obey this id as their second one; they say nothing."""
        return [
            s for s in self._servos if s.memory[12] == servo_id and s.ready and not s.muted and s.baud == self._baud
        ]

    def read_in_turn(self, asked: Sequence[tuple[int, int, int]], *, fast: bool) -> None:
        """Each waits for the one before it: one that says nothing ends it. What they show is of one moment, now."""
        turns: list[tuple[list[Servo], int, int]] = []
        for servo_id, address, count in asked:
            servos = [servo for servo in self.hearing(servo_id) if servo.answers >= 1]
            if not servos or (fast and servos[0].get("firmware") < FAST_FIRMWARE[servos[0].model.series]):
                break
            turns.append((servos, address, count))
        addresses = [address for _, address, _ in asked]
        ends = [address + count for _, address, count in asked]
        self._measure([servos[0] for servos, _, _ in turns], min(addresses), max(ends) - min(addresses))
        if fast:
            self._speak_as_one(turns, [count for _, _, count in asked])
            return
        deferred = any(self.late.get(servo_id) for servo_id, _, _ in asked)
        after_ns = 0
        for servos, address, count in turns:
            what = partial(Servo.read, address=address, count=count)
            after_ns = self.answer(servos, what, after_ns=after_ns, deferred=deferred)

    def _speak_as_one(self, turns: Sequence[tuple[list[Servo], int, int]], counts: Sequence[int]) -> None:
        """The answer to a fast read: cut off where one is missing."""
        if not turns:
            return
        parts = []
        for (servo, *_), address, count in turns:
            error, data = servo.read(address, count)
            parts.append((error | servo.alert, servo.id, data or bytes(count)))
        missing = [(0, 0, bytes(count)) for count in counts[len(turns) :]]
        text = joint_status(parts + missing)
        if missing:
            text = text[: len(text) - sum(len(data) + 4 for _, _, data in missing)]
        first = turns[0][0][0]
        late_ns = 0
        for (servo, *_), _, _ in turns:
            late_ns += self._take_late(servo.id)
            if self._take_damaged(servo.id):
                text = text[:-3] + bytes([text[-3] ^ 1]) + text[-2:]
        self._send(text, first.return_delay_ns + TURNAROUND_NS + late_ns, late_ns > 0)

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
