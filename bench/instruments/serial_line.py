"""One request-reply line over pyserial: deadlines on every call, exclusive, and honest when the cable goes.

    line = SerialLine("/dev/ttyUSB0", baud=115200, clock=WallClock())
    with line.claim(deadline_ns):
        line.write(b"/1 get pos\\n")
        answer = line.read_until(b"\\n", deadline_ns)

Drivers stand on it; it knows no protocol. Whatever pyserial opens will do: a device file, ``COM3``, ``socket://``,
``rfc2217://``, and the twin's own URL once its handler is registered.
"""

from __future__ import annotations

import contextlib
import errno
import sys
import threading
from collections.abc import Callable

import serial

from bench.clock import Clock, sleep
from bench.errors import InstrumentDisconnected, InstrumentError, InstrumentTimeout

_CLAIM_POLL_S = 2e-4
_BUSY = (errno.EBUSY, errno.EAGAIN, errno.EWOULDBLOCK, errno.EACCES)


class SerialLine:
    """An open serial line.

    Parameters
    ----------
    url : str
        Whatever ``serial.serial_for_url`` opens.
    baud : int
        Bits per second.
    clock : Clock
        The clock deadlines are given on.
    slice_s : float
        The longest single wait for bytes [s]. Deadlines are kept to within it, and as long a silence counts as quiet.
    write_timeout_s : float
        The longest a write may take [s]: without one a write hangs as soon as nobody reads the other end.
    dtr, rts : bool
        Level of the modem lines. They are set before the port is opened and never moved again, because
        a toggle resets some boards.

    Raises
    ------
    InstrumentError
        The port is held by another program, or the URL is not one pyserial knows.
    InstrumentDisconnected
        There is no such port.

    Notes
    -----
    Threads may share a line: :meth:`claim` lets one at a time through. It waits on ``clock``, not on a lock, since a
    thread blocked where the twin cannot see it would hold up the twin's time. Exclusive opening keeps out only those
    who ask for it too; a lease on the device's serial number is still needed.
    """

    def __init__(
        self,
        url: str,
        *,
        baud: int,
        clock: Clock,
        slice_s: float = 0.05,
        write_timeout_s: float = 0.5,
        dtr: bool = True,
        rts: bool = True,
    ) -> None:
        self.url = url
        self._clock = clock
        self._claimed = threading.RLock()
        self._pending = bytearray()
        self._broken = ""
        try:
            port = serial.serial_for_url(
                url, do_not_open=True, baudrate=baud, timeout=slice_s, write_timeout=write_timeout_s, exclusive=True
            )
            port.dtr, port.rts = dtr, rts
            port.open()
        except ValueError as error:
            raise InstrumentError(
                f"cannot open the port: {error}", where=url, remedy="Check the port and baud rate in the rig profile"
            ) from error
        except OSError as error:
            raise _opening_error(url, error) from error
        self._port = port
        self._read1: Callable[[], bytes] | None = getattr(port, "read1", None)
        _exclude_others(port, True)
        # An FTDI adapter otherwise holds bytes back for 16 ms; what has no such setting says so, and that is fine.
        with contextlib.suppress(AttributeError, NotImplementedError, ValueError, OSError):
            port.set_low_latency_mode(True)

    def claim(self, deadline_ns: int) -> _Claim:
        """Hold the line for one transaction (``with``); :class:`InstrumentTimeout` when not free by ``deadline_ns``."""
        return _Claim(self, deadline_ns)

    def _await_free(self, deadline_ns: int) -> None:
        while not self._claimed.acquire(blocking=False):
            if self._clock.now_ns() >= deadline_ns:
                raise InstrumentTimeout(
                    "another thread holds the line", where=self.url, remedy="Wait for its transaction to end"
                )
            sleep(self._clock, _CLAIM_POLL_S)

    def write(self, data: bytes) -> None:
        """Send ``data``; :class:`InstrumentTimeout` when the line does not take all of it in time."""
        if self._broken:
            self._check()
        try:
            self._port.write(data)
        except serial.SerialTimeoutException as error:
            # Part of the frame may be out: the next reader of the line must start from silence.
            raise InstrumentTimeout(
                f"the line did not take {len(data)} bytes",
                where=self.url,
                remedy="Check that the device is powered and that no flow control holds the line",
            ) from error
        except OSError as error:
            raise self._lost(error) from error

    def read_until(self, terminator: bytes, deadline_ns: int, *, limit: int = 4096) -> bytes:
        """Return bytes up to and including ``terminator``; :class:`InstrumentTimeout` at ``deadline_ns``.

        What came after the terminator is kept for the next call. More than ``limit`` bytes without
        a terminator are noise: :class:`InstrumentError`.
        """
        while (end := self._pending.find(terminator)) < 0:
            if len(self._pending) > limit:
                noise = bytes(self._pending[:32])
                self._pending.clear()
                raise InstrumentError(
                    f"{limit} bytes without an end of line, beginning with {noise!r}",
                    where=self.url,
                    remedy="Check the baud rate and that the device speaks the protocol of its driver",
                )
            self._receive(deadline_ns, terminator)
        return self._take(end + len(terminator))

    def read_lines(self, deadline_ns: int, *, limit: int = 4096) -> list[bytes]:
        """Return every whole line there is, without its newline, at least one; errors as of :meth:`read_until`.

        For devices that answer one request with several lines at once.
        """
        if not self._pending:
            chunk = self._read_slice()
            if chunk.endswith(b"\n"):
                return chunk[:-1].split(b"\n")
            self._pending += chunk
        text = self.read_until(b"\n", deadline_ns, limit=limit)
        if (end := self._pending.rfind(b"\n")) >= 0:
            text += self._take(end + 1)
        return text[:-1].split(b"\n")

    def read_exactly(self, count: int, deadline_ns: int) -> bytes:
        """Return exactly ``count`` bytes; :class:`InstrumentTimeout` at ``deadline_ns``."""
        if not self._pending:
            chunk = self._read_port(count)  # all at once in the usual case
            if len(chunk) == count:
                return chunk
            self._pending += chunk
        while (missing := count - len(self._pending)) > 0:
            if self._clock.now_ns() >= deadline_ns:
                raise self._timeout(count)
            self._pending += self._read_port(missing)
        return self._take(count)

    def drain(self, *, limit_s: float = 2.0) -> bytes:
        """Discard what comes until one slice of silence, and return it; for use after any timeout."""
        heard = bytearray(self._pending)
        self._pending.clear()
        deadline_ns = self._clock.now_ns() + round(limit_s * 1e9)
        while chunk := self._read_slice():
            heard += chunk
            if self._clock.now_ns() >= deadline_ns:
                raise InstrumentError(
                    f"the line does not fall silent, {len(heard)} bytes in {limit_s:g} s",
                    where=self.url,
                    remedy="Check that no other program and no second device talks on this line",
                )
        return bytes(heard)

    def close(self) -> None:
        """Close the port; never raises, so that it can be called on a line that broke."""
        self._broken = self._broken or "closed"
        _exclude_others(self._port, False)
        leaked = getattr(self._port, "_socket", None)  # pyserial forgets to close it when the peer has gone first
        with contextlib.suppress(OSError):
            self._port.close()
        if leaked is not None:
            leaked.close()

    def _receive(self, deadline_ns: int, awaited: object) -> None:
        """Add at least one byte to what is pending, or raise at the deadline."""
        while not (chunk := self._read_slice()):
            if self._clock.now_ns() >= deadline_ns:
                raise self._timeout(awaited)
        self._pending += chunk

    def _timeout(self, awaited: object) -> InstrumentTimeout:
        heard = f"only {bytes(self._pending)!r} came" if self._pending else "nothing came"
        return InstrumentTimeout(
            f"no answer in time: awaited {awaited!r}, {heard}",
            where=self.url,
            remedy="Check power and cable, and that address and baud rate fit the device",
        )

    def _read_port(self, count: int) -> bytes:
        """Return ``count`` bytes, fewer when one slice ends before they are there."""
        if self._broken:
            self._check()
        try:
            data: bytes = self._port.read(count)
        except (OSError, TypeError) as error:
            raise self._lost(error) from error
        return data

    def _read_slice(self) -> bytes:
        """Return what comes within one slice, empty when nothing does.

        One byte is awaited, then what else is there: ``in_waiting`` says 0 or 1 on a socket and ``read(n)`` may return
        short, so neither says where a frame ends. A port that has ``io``'s ``read1`` gives all of it in one call.
        """
        if self._broken:
            self._check()
        try:
            if self._read1 is not None:
                return self._read1()
            first: bytes = self._port.read(1)
            more = self._port.in_waiting if first else 0
            return first + self._port.read(more) if more else first
        except (OSError, TypeError) as error:  # TypeError: pyserial, when another thread closed the port meanwhile
            raise self._lost(error) from error

    def _take(self, count: int) -> bytes:
        taken = bytes(self._pending[:count])
        del self._pending[:count]
        return taken

    def _check(self) -> None:
        if self._broken:
            raise InstrumentDisconnected(
                f"the line is no longer open: {self._broken}",
                where=self.url,
                remedy="Make the rig safe, check the cable and open the instrument anew; it never reopens by itself",
            )

    def _lost(self, error: Exception) -> InstrumentDisconnected:
        self._broken = str(error) or type(error).__name__
        return InstrumentDisconnected(
            f"the device went away: {self._broken}",
            where=self.url,
            remedy="Make the rig safe, check the cable and open the instrument anew; it never reopens by itself",
        )


class _Claim:
    """What ``with line.claim(...)`` enters: plain methods, since a control loop enters one every tick."""

    __slots__ = ("_deadline_ns", "_line")

    def __init__(self, line: SerialLine, deadline_ns: int) -> None:
        self._line = line
        self._deadline_ns = deadline_ns

    def __enter__(self) -> None:
        if not self._line._claimed.acquire(blocking=False):
            self._line._await_free(self._deadline_ns)

    def __exit__(self, *_: object) -> None:
        self._line._claimed.release()


def _opening_error(url: str, error: OSError) -> InstrumentError:
    if error.errno in _BUSY or "exclusively lock" in str(error):
        return InstrumentError(
            f"the port is in use: {error}",
            where=url,
            remedy="Close the other program, or check your rights to the port",
        )
    return InstrumentDisconnected(
        f"cannot open the port: {error}", where=url, remedy="Check the port in the rig profile, the cable and the power"
    )


def _exclude_others(port: serial.SerialBase, exclude: bool) -> None:
    """Keep out programs that do not ask for exclusive access, or let them in again.

    pyserial's own lock stops only those that ask for it too; this flag stops all but the superuser's.
    """
    if sys.platform == "win32" or getattr(port, "fd", None) is None:
        return  # Windows opens ports exclusively anyway, sockets have no such thing
    import fcntl
    import termios

    with contextlib.suppress(OSError):
        fcntl.ioctl(port.fd, termios.TIOCEXCL if exclude else termios.TIOCNXCL)
