"""Transactions of Zaber's ASCII protocol: each reply proven to be the one to its request.

A message id that was never answered is not used again until its reply has come after all, or half of all ids
are in that state: a late reply can then never carry the id of a request that still waits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bench.clock import Clock
from bench.errors import InstrumentTimeout
from bench.instruments.serial_line import SerialLine
from bench.instruments.zaber_ascii_messages import CONTINUED, CorruptMessage, Message, decode, encode

_IDS = 100
_CLAIM_S = 5.0


@dataclass
class LineStatistics:
    """What the line did that it should not have done, counted since it was opened."""

    timeouts: int = 0
    corrupt_lines: int = 0
    stale_replies: int = 0
    alerts: int = 0


class ZaberLine:
    """Request and reply with one device on a line.

    Parameters
    ----------
    line : SerialLine
        The open line.
    clock : Clock
        The clock the line was opened with.
    address : int
        Of the device on its chain.
    where : str
        Names the device in errors.
    reply_timeout_s : float
        The longest the device may take to answer [s].
    """

    def __init__(self, line: SerialLine, *, clock: Clock, address: int, where: str, reply_timeout_s: float) -> None:
        self.statistics = LineStatistics()
        self.require_checksum = False
        self._line = line
        self._clock = clock
        self._address = address
        self._where = where
        self._timeout_s = reply_timeout_s
        self._id = _IDS - 1
        self._unanswered: set[int] = set()
        self._last_corrupt = ""

    def request(self, text: str, axis: int) -> Message:
        """Send one command and return its reply, accepted or rejected.

        Raises
        ------
        InstrumentTimeout
            No valid reply came in time. The line has been drained until it was quiet; nothing was sent again.
        InstrumentDisconnected
            The line is gone.
        """
        with self._line.claim(self._clock.now_ns() + round(_CLAIM_S * 1e9)):
            message_id = self._next_id()
            corrupt = self.statistics.corrupt_lines
            try:
                self._line.write(encode(self._address, axis, message_id, text))
                return self._await_reply(axis, message_id, self._clock.now_ns() + round(self._timeout_s * 1e9))
            except InstrumentTimeout as error:
                self.statistics.timeouts += 1
                self._unanswered.add(message_id)
                self._line.drain()
                damaged = self.statistics.corrupt_lines - corrupt
                seen = f"; {damaged} damaged line(s), the last: {self._last_corrupt}" if damaged else f" ({error.what})"
                raise InstrumentTimeout(
                    f"no valid reply to {text!r} within {self._timeout_s:g} s{seen}",
                    where=self._where,
                    remedy="Check power, cable and shielding, and that address, axis and baud rate fit the device",
                ) from error

    def _await_reply(self, axis: int, message_id: int, deadline_ns: int) -> Message:
        reply: Message | None = None
        while True:
            line = self._line.read_until(b"\n", deadline_ns)
            try:
                message = decode(line)
                if self.require_checksum and not message.checked:
                    raise CorruptMessage(f"no checksum: {line!r}")
            except CorruptMessage as error:
                self.statistics.corrupt_lines += 1
                self._last_corrupt = str(error)
                continue
            if message.kind == "!":
                self.statistics.alerts += 1
                continue
            goes_on = message.kind == "#" and message.data.startswith(CONTINUED)
            ours = (message.address, message.axis, message.id) == (self._address, axis, message_id)
            if not ours or (message.kind == "#" and not (goes_on and reply)):
                self.statistics.stale_replies += 1
                if message.id is not None:
                    self._unanswered.discard(message.id)
                continue
            if reply is not None and goes_on:
                data = f"{reply.data} {message.data[len(CONTINUED) :].strip()}"
                reply = replace(reply, data=data, more=message.more)
            else:
                reply = message
            if not reply.more:
                return reply

    def _next_id(self) -> int:
        if len(self._unanswered) > _IDS // 2:
            self._unanswered.clear()
        while True:
            self._id = (self._id + 1) % _IDS
            if self._id not in self._unanswered:
                return self._id
