"""Transactions with one moteus drive through an fdcanusb adapter: each reply proven to be the one to its request.

The protocol has no message ids, but a reply goes to the *source* its request came from, and a source is any number.
So every request comes from another one, 64 to 126 in turn: a late reply bears a number nobody waits for any more, and
is left alone however late it is. Other drives on the bus must have ids below 64; this one's own is passed over.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle

from bench.clock import Clock
from bench.errors import InstrumentError, InstrumentTimeout
from bench.instruments.moteus_frames import crc8, padded
from bench.instruments.serial_line import SerialLine

SOURCES = range(64, 127)
_CLAIM_NS = 1_000_000_000
_FLAGS = frozenset("EeBbFf")  # extended identifier, bit-rate switch, CAN-FD; "t…" and "f…" are time stamp and filter
_USUAL = frozenset(("e B F\r", "E B F\r", "B F\r", "\r", ""))


@dataclass
class AdapterStatistics:
    """What the line did that it should not have done, counted since it was opened."""

    timeouts: int = 0
    corrupt_lines: int = 0
    stale_replies: int = 0


class MoteusLine:
    """Request and reply with one drive.

    Parameters
    ----------
    line : SerialLine
        The open line to the adapter.
    clock : Clock
        The clock the line was opened with.
    device_id : int
        The drive's id on the bus, 1 to 126.
    where : str
        Names the drive in errors.
    reply_deadline_s : float
        The longest adapter and drive together may take to answer [s].
    checksummed : bool
        Every line bears a checksum, and none is taken without: for a drive on a UART.
    """

    def __init__(
        self,
        line: SerialLine,
        *,
        clock: Clock,
        device_id: int,
        where: str,
        reply_deadline_s: float,
        checksummed: bool = False,
    ) -> None:
        self.statistics = AdapterStatistics()
        self.checksummed = checksummed
        self._line = line
        self._clock = clock
        self._device_id = device_id
        self._where = where
        self._deadline_ns = round(reply_deadline_s * 1e9)
        sources = [source for source in SOURCES if source != device_id]
        heads = (b"can send %04x " % (0x8000 | source << 8 | device_id) for source in sources)
        due = (b"rcv %x " % (device_id << 8 | source) for source in sources)
        self._turns: Iterator[tuple[bytes, bytes]] = cycle(list(zip(heads, due, strict=True)))
        self._last_corrupt = ""

    def request(self, data: bytes, what: str) -> bytes:
        """Send ``data``, padded, and return the data of the reply.

        Parameters
        ----------
        data : bytes
            Subframes.
        what : str
            Names the request in errors.

        Raises
        ------
        InstrumentTimeout
            No valid reply came in time. The line has been drained until it was quiet; nothing was sent again.
        InstrumentError
            The adapter refuses the frame.
        InstrumentDisconnected
            The line is gone.
        """
        return self.exchange(padded(data).hex().encode() + b" BF", what)

    def exchange(self, body: bytes, what: str) -> bytes:
        """As :meth:`request`, for data that are hex with flags already: the path of a control loop."""
        line, now_ns = self._line, self._clock.now_ns
        with line.claim(now_ns() + _CLAIM_NS):
            head, due = next(self._turns)
            corrupt, taken = self.statistics.corrupt_lines, False
            text = head + body
            if self.checksummed:
                text = b"%b *%02X" % (text, crc8(text + b" "))
            deadline_ns = now_ns() + self._deadline_ns
            try:
                line.write(text + b"\n")
                while True:
                    for answer in line.read_lines(deadline_ns):
                        if self.checksummed:
                            answer = self._checked(answer)
                        if answer.startswith(due):
                            data = self._data(answer[len(due) :])
                        elif answer.startswith(b"OK"):
                            taken = True
                            continue
                        else:
                            data = self._other(answer, due, what)
                        if data is not None:
                            return data
            except InstrumentTimeout as error:
                self.statistics.timeouts += 1
                line.drain()
                raise self._timeout(what, taken, self.statistics.corrupt_lines - corrupt) from error

    def _data(self, answer: bytes) -> bytes | None:
        """Return a reply's data from what follows its identifier, None when the text is damaged."""
        try:
            text, _, flags = answer.decode("ascii").partition(" ")
            data = bytes.fromhex(text)
        except ValueError:
            self._damaged(answer)
            return None
        if flags not in _USUAL and not all(flag in _FLAGS or flag[0] in "tf" for flag in flags.split()):
            self._damaged(answer)
            return None
        return data

    def _checked(self, answer: bytes) -> bytes:
        """Return a line without its checksum, or nothing when that is missing or wrong."""
        text, star, check = answer.rstrip().rpartition(b"*")
        if star and check.upper() == b"%02X" % crc8(text):
            return text.rstrip()
        self._damaged(answer)
        return b""

    def _damaged(self, answer: bytes) -> None:
        self.statistics.corrupt_lines += 1
        self._last_corrupt = repr(answer)

    def _other(self, answer: bytes, due: bytes, what: str) -> bytes | None:
        """Return the data of a reply whose identifier is spelt in another way; count or tell whatever else came."""
        if answer.startswith(b"ERR"):
            self._line.drain()
            raise InstrumentError(
                f"the adapter refuses {what} with {answer.strip().decode('ascii', 'replace')!r}",
                where=self._where,
                remedy="Set checksum in the rig profile as the adapter wants it, and see what writes on its port",
            )
        word, _, rest = answer.partition(b" ")
        identifier, _, text = rest.partition(b" ")
        try:
            number = int(identifier, 16)
        except ValueError:
            number = -1
        if word != b"rcv" or number < 0:
            if answer.strip():
                self._damaged(answer)
            return None
        if number == int(due.split()[1], 16):
            return self._data(text)
        if number >> 8 & 0x7F == self._device_id:
            self.statistics.stale_replies += 1
        return None

    def _timeout(self, what: str, taken: bool, damaged: int) -> InstrumentTimeout:
        within = f"within {self._deadline_ns * 1e-9:g} s"
        if damaged:
            return InstrumentTimeout(
                f"no valid reply to {what} {within}: {damaged} damaged line(s), the last: {self._last_corrupt}",
                where=self._where,
                remedy="Check cable and shielding, and that checksum in the rig profile is as the adapter wants it",
            )
        if taken:
            return InstrumentTimeout(
                f"drive id {self._device_id} does not answer {what} {within}, though the adapter has taken the frame",
                where=self._where,
                remedy="Check the drive's supply, the CAN wiring and termination, and the device_id in the rig profile",
            )
        return InstrumentTimeout(
            f"neither the adapter nor drive id {self._device_id} answers {what} {within}",
            where=self._where,
            remedy="Check that the port is the adapter's, its cable, and the drive's supply",
        )
