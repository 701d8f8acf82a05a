"""Transactions on a bus of Dynamixel servos: each reply held to be the one to its request, as far as that can be.

The protocol has no transaction numbers: a late status packet looks like the next request's. So

- after every reply that did not come whole the line is drained until it is quiet, and the next request is preceded by
  a ping. A line hands on in order, so what was stuck somewhere comes before the ping's reply, and is left alone;
- replies are taken by id, length and order only;
- for some time after, a control loop's read asks for more registers than it needs (``tag``): a reply to the one before
  has another length, however late it is;
- nothing is ever sent again by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.clock import Clock
from bench.errors import BusSilent, InstrumentError, InstrumentTimeout
from bench.instruments.dynamixel_errors import ALERT, explain_refusal
from bench.instruments.dynamixel_frames import (
    BROADCAST,
    PING,
    SHORTEST_STATUS,
    Damaged,
    Status,
    StatusReader,
    instruction,
    read,
    sync_read,
    write,
)
from bench.instruments.serial_line import SerialLine

CLAIM_NS = 1_000_000_000
TAGGED_NS = 2_000_000_000
"""How long after a lost reply a late one is looked out for [ns]."""
TAGS = 3
_PING_BYTES = 3
"""Nothing else is read that has so many bytes: a late answer to a ping must not pass for it."""


@dataclass
class BusStatistics:
    """What the bus did that it should not have done, counted since it was opened."""

    timeouts: int = 0
    damaged: int = 0
    stale: int = 0


class DynamixelLine:
    """Request and reply with the servos of one bus.

    Parameters
    ----------
    line : SerialLine
        The open line.
    clock : Clock
        The clock the line was opened with.
    where : str
        Names the bus in errors.
    names : dict of int to str
        What each servo is called in errors, by id.
    baud : int
        Bits per second.
    reply_deadline_s : float
        The longest adapter and servo together may take to answer [s], beside the time of the bytes.
    """

    def __init__(
        self,
        line: SerialLine,
        *,
        clock: Clock,
        where: str,
        names: dict[int, str],
        baud: int,
        reply_deadline_s: float,
    ) -> None:
        self.statistics = BusStatistics()
        self.line = line
        self.now_ns = clock.now_ns
        self.where = where
        self.names = names
        self.unsettled = False
        """Replies may still be on their way: the last transaction did not end well."""
        self.on_silence: Callable[[], None] = lambda: None
        """Called when a reply is missing, before it is found out whose."""
        self.tag = 0
        self.tagged_until_ns = 0
        self._suspicious = False
        self._byte_ns = 1e10 / baud
        self._reply_deadline_s = reply_deadline_s

    def wait_ns(self, sent: int, received: int, servos: int = 1, delay_s: float = 0.0) -> int:
        """Return how long to wait [ns] for ``received`` bytes of ``servos`` servos after ``sent`` bytes."""
        return round((sent + received) * self._byte_ns + (self._reply_deadline_s + servos * delay_s) * 1e9)

    # -- one servo ----------------------------------------------------------------------------------------------------

    def tell(self, packet: bytes) -> None:
        """Send what has no reply."""
        with self.line.claim(self.now_ns() + CLAIM_NS):
            self.line.write(packet)

    def ping(self, servo_id: int) -> Status | None:
        """Return a servo's answer to a ping (model number and firmware), None when there is none."""
        with self.line.claim(self.now_ns() + CLAIM_NS):
            self.settle()
            return self._ping(servo_id)

    def read(self, servo_id: int, address: int, count: int) -> bytes:
        """Return ``count`` bytes of a servo's control table.

        Raises
        ------
        InstrumentTimeout
            It did not answer; the line has been drained.
        InstrumentError
            It refuses, and why.
        """
        what = f"to the reading of register {address}"
        return self._accepted(self.ask(servo_id, read(servo_id, address, count), count, what), what).data

    def write(self, servo_id: int, address: int, data: bytes) -> None:
        """Write to a servo's control table; errors as of :meth:`read`. Not sent again after a timeout."""
        what = f"to the writing of register {address}"
        self._accepted(self.ask(servo_id, write(servo_id, address, data), 0, what), what)

    def ask(self, servo_id: int, packet: bytes, count: int, what: str) -> Status:
        """Send ``packet`` to a servo and return its status with ``count`` parameters, or with none and an error."""
        with self.line.claim(self.now_ns() + CLAIM_NS):
            self.settle()
            if self._suspicious and self._ping(servo_id) is None:
                raise self._silent(servo_id, what)
            damaged = self.statistics.damaged
            answer = self._answer(servo_id, packet, count)
            if answer is None:
                raise self._silent(servo_id, what, self.statistics.damaged - damaged)
            return answer

    def _ping(self, servo_id: int) -> Status | None:
        answer = self._answer(servo_id, instruction(servo_id, PING), _PING_BYTES)
        if answer is not None:
            self._suspicious = False
        return answer

    def _answer(self, servo_id: int, packet: bytes, count: int) -> Status | None:
        expected = SHORTEST_STATUS + count
        for answer in self._statuses(packet, self.wait_ns(len(packet), 2 * expected)):
            if answer.servo_id == servo_id and (
                len(answer.data) == count or (answer.error & ~ALERT and not answer.data)
            ):
                self.unsettled = False
                return answer
            self.statistics.stale += 1
        return None

    def _accepted(self, answer: Status, what: str) -> Status:
        if answer.error & ~ALERT:
            raise InstrumentError(
                f"{self.names[answer.servo_id]} answers {what} with a {explain_refusal(answer.error)}",
                where=self.where,
                remedy="Check that it is of the model the rig profile names, and look for another program on its bus",
            )
        return answer

    # -- several servos -----------------------------------------------------------------------------------------------

    def gather(self, ids: Sequence[int], address: int, count: int, *, fast: bool, delay_s: float) -> dict[int, Status]:
        """Read the same registers of several servos; return what came in time, in the order asked.

        When not all have answered the line has been drained; :meth:`absence` says who is missing.
        """
        packet = sync_read(bytes(ids), address, count, fast=fast)
        received = len(ids) * (SHORTEST_STATUS + count + 2)
        with self.line.claim(self.now_ns() + CLAIM_NS):
            self.settle()
            if self._suspicious:
                any(self._ping(servo_id) for servo_id in ids)
            return self.collect(packet, ids, count, self.wait_ns(len(packet), received, len(ids), delay_s))

    def collect(
        self, packet: bytes, ids: Sequence[int], count: int, wait_ns: int, heard: bytes | None = None
    ) -> dict[int, Status]:
        """As :meth:`gather` on a line that is claimed and settled; ``heard`` is what came when ``packet`` is sent."""
        answers: dict[int, Status] = {}
        due = list(ids)
        for answer in self._statuses(packet, wait_ns, heard):
            if answer.servo_id == BROADCAST:
                parts = {part.servo_id: part for part in split(answer, count)}
                if list(parts) == list(ids):
                    answers = parts
                else:
                    self.statistics.stale += 1
            elif answer.servo_id in due and len(answer.data) == count:
                answers[answer.servo_id] = answer
                del due[: due.index(answer.servo_id) + 1]
            elif answer.servo_id in due and answer.error & ~ALERT and not answer.data:
                self._accepted(answer, "to a sync read")
            else:
                self.statistics.stale += 1
            if len(answers) == len(ids):
                self.unsettled = False
                break
        return answers

    def absence(self, ids: Sequence[int], what: str) -> InstrumentTimeout:
        """Find out by pings who is missing, and return the error that names them."""
        self.on_silence()
        damaged = self.statistics.damaged
        there = [servo_id for servo_id in ids if self.ping(servo_id) is not None]
        gone = [servo_id for servo_id in ids if servo_id not in there]
        if not there:
            return BusSilent(
                f"no servo answers {what}: {_list(ids)}",
                where=self.where,
                remedy="Check the servos' supply (e-stop, enable line), the port, and the baud rate in the rig profile",
            )
        if not gone:
            hurt = f"{damaged} damaged packet(s) so far" if damaged else "too slow, or lost on the way"
            return InstrumentTimeout(
                f"the replies {what} did not all come in time ({hurt}), though every servo answers a ping",
                where=self.where,
                remedy="Check wiring, termination and the adapter's latency setting, and bus.reply_deadline in the "
                "rig profile",
            )
        return InstrumentTimeout(
            f"{', '.join(self.names[servo_id] for servo_id in gone)} did not answer; {_list(there)} did",
            where=self.where,
            remedy="Check its cable, supply and id; a servo that hangs behind it on the bus would be missing too",
        )

    # -- the line -----------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Have a quiet line when the last transaction did not end well; the line is claimed."""
        if self.unsettled:
            self.drain()

    def drain(self) -> bytes:
        """Discard what comes until the line is quiet, and look out for late replies from now on; return what came."""
        self.tag = self.tag % TAGS + 1
        self.tagged_until_ns = self.now_ns() + TAGGED_NS
        self._suspicious = True
        heard = self.line.drain()
        self.unsettled = False
        return heard

    def _statuses(self, packet: bytes, wait_ns: int, heard: bytes | None = None) -> Iterator[Status]:
        """Send ``packet`` and yield status packets until the caller has enough or time is up; then the line is drained.

        With ``heard``, what has come already, it is sent.
        """
        reader = StatusReader(heard or b"")
        self.unsettled = True
        deadline_ns = self.now_ns() + wait_ns
        if heard is None:
            self.line.write(packet)
        while True:
            while (answer := reader.take()) is not None:
                if isinstance(answer, Damaged):
                    self.statistics.damaged += 1
                else:
                    yield answer
            try:
                reader.feed(self.line.read_exactly(reader.missing(), deadline_ns))
            except InstrumentTimeout:
                self.statistics.timeouts += 1
                self.drain()
                return

    def _silent(self, servo_id: int, what: str, damaged: int = 0) -> InstrumentTimeout:
        if damaged:
            return InstrumentTimeout(
                f"the answer of {self.names[servo_id]} {what} came damaged: {damaged} packet(s)",
                where=self.where,
                remedy="Check cable, shielding and termination, and that no two servos have the same id",
            )
        return InstrumentTimeout(
            f"{self.names[servo_id]} does not answer {what}",
            where=self.where,
            remedy="Check its supply (e-stop, enable line), its cable and id, and the baud rate in the rig profile",
        )


def split(answer: Status, count: int) -> list[Status]:
    """Return the parts of the one answer to a fast sync read of ``count`` bytes; none when it has another length."""
    data = bytes([answer.error]) + answer.data + b"\0\0"  # the last CRC is the packet's own
    step = count + 4
    if len(data) % step:
        return []
    return [Status(data[at + 1], data[at], data[at + 2 : at + 2 + count]) for at in range(0, len(data), step)]


def _list(ids: Sequence[int]) -> str:
    return ", ".join(str(servo_id) for servo_id in ids)
