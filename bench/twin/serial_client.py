"""``twin://HOST:PORT/DEVICE``: the twin's serial lines as pyserial ports.

A read is demand: the twin lets time pass up to the reply or to the virtual timeout, so a timeout costs virtual time,
not wall time. What has arrived comes over in one go and is kept here, so reading byte by byte costs no round trips.
"""

from __future__ import annotations

import contextlib
import errno
import json
from typing import Any

import serial

from bench.errors import TwinError
from bench.twin.connection import Connection, NoSuchPort, PortInUse, PortUnplugged
from bench.twin.frames import FOREVER, Op
from bench.twin.link import Link

HOST_BUFFER_BYTES = 4096
"""Bytes the host's driver takes before a write waits for the wire."""


class TwinSerial(serial.SerialBase):  # type: ignore[misc]
    """A pyserial port on a device of the twin; see the module's docstring."""

    BAUDRATES = serial.SerialBase.BAUDRATES

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.is_open: bool = False
        self._link: Link | None = None
        self._device = 0
        self._buffer = bytearray()
        self._clear_ns = 0  # when the wire to the device will have taken all that was written
        super().__init__(*args, **kwargs)

    # -- opening ------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        """Open the port; the calling thread becomes a participant when the process has none yet."""
        if self._port is None:
            raise serial.SerialException("Port must be configured before it can be used.")
        if self.is_open:
            raise serial.SerialException("Port is already open.")
        self._reconfigure_port()
        address, device = _parse(self.portstr)
        link = Link.connect(address)
        request = json.dumps({"device": device, "baud": self._baudrate}).encode()
        try:
            self._device = link.connection.request(Op.OPEN, payload=request)[1]
        except PortInUse as holder:
            raise serial.SerialException(errno.EBUSY, f"could not open {self.portstr}: in use by {holder}") from None
        except PortUnplugged:
            raise serial.SerialException(errno.ENOENT, f"could not open port {self.portstr}: no such device") from None
        except NoSuchPort as error:
            raise serial.SerialException(errno.ENOENT, f"could not open port {self.portstr}: {error}") from None
        self._link = link
        self._buffer.clear()
        self._clear_ns = 0
        self.is_open = True

    def close(self) -> None:
        """Close the port."""
        if self.is_open:
            self.is_open = False
            connection = self._link.own_connection if self._link is not None else None
            if connection is not None:
                with contextlib.suppress(TwinError):  # a twin that is gone holds no port
                    connection.request(Op.CLOSE, self._device)

    def _reconfigure_port(self) -> None:
        if self._inter_byte_timeout is not None:
            raise ValueError("the twin's lines know no inter-byte timeout")
        if self._xonxoff or self._rtscts or self._dsrdtr:
            raise ValueError("the twin's lines have no flow control")
        if (self._bytesize, self._parity, self._stopbits) != (8, "N", 1):
            raise ValueError("the twin's lines have 8 data bits, no parity and one stop bit")

    # -- reading ------------------------------------------------------------------------------------------------------

    def read(self, size: int = 1) -> bytes:
        """Return ``size`` bytes, or fewer when the timeout (virtual time) comes first."""
        if len(self._buffer) < size or not self.is_open:
            self._fill(size)
        return self._take(size)

    def read1(self, size: int = -1) -> bytes:
        """Return what has arrived, at most ``size`` bytes; waits for the first one, up to the timeout. As in ``io``."""
        if self._buffer or size >= 0 or not self.is_open:
            if not self._buffer:
                self._fill(1)
            return self._take(len(self._buffer) if size < 0 else size)
        timeout = self._timeout
        return self._fetch(self._connection(), 1, FOREVER if timeout is None else max(0, round(timeout * 1e9)))

    def read_until(self, expected: bytes = b"\n", size: int | None = None) -> bytes:
        """Return bytes up to and including ``expected``, ``size`` bytes, or what came before a timeout."""
        while (end := self._buffer.find(expected)) < 0 and (size is None or len(self._buffer) < size):
            had = len(self._buffer)
            self._fill(had + 1)
            if len(self._buffer) == had:
                return self._take(had)
        stop = len(self._buffer) if end < 0 else end + len(expected)
        return self._take(stop if size is None else min(stop, size))

    def _fill(self, size: int) -> None:
        """Have ``size`` bytes in the buffer, or what came before the timeout."""
        connection = self._connection()
        timeout = self._timeout
        time_ns = FOREVER if timeout is None else max(0, round(timeout * 1e9))
        while (missing := size - len(self._buffer)) > 0:
            wanted = min(missing, 0xFFFF)  # the frame's count has sixteen bits
            came = self._fetch(connection, wanted, time_ns)
            self._buffer += came
            if len(came) < wanted:
                return

    def _take(self, size: int) -> bytes:
        taken = bytes(self._buffer[:size])
        del self._buffer[:size]
        return taken

    def _fetch(self, connection: Connection, count: int, time_ns: int) -> bytes:
        try:
            return connection.request(Op.READ, self._device, count, time_ns)[2]
        except PortUnplugged:
            raise serial.SerialException(
                "device reports readiness to read but returned no data "
                "(device disconnected or multiple access on port?)"
            ) from None

    @property
    def in_waiting(self) -> int:
        """Bytes that have arrived."""
        connection = self._connection()
        if connection.fresh and self._buffer:  # nothing can have come since the last reply
            connection.count_free("in_waiting")
            return len(self._buffer)
        try:
            return len(self._buffer) + connection.request(Op.WAITING, self._device)[1]
        except PortUnplugged:
            raise serial.SerialException(errno.EIO, "Input/output error: the device is gone") from None

    def reset_input_buffer(self) -> None:
        """Discard what has arrived."""
        self._connection().send(Op.RESET_INPUT, self._device)
        self._buffer.clear()

    # -- writing ------------------------------------------------------------------------------------------------------

    def write(self, data: Any) -> int:
        """Send ``data``; like an operating system's, the call returns before the bytes are through."""
        payload = serial.to_bytes(data)
        connection = self._connection()
        self._await_room(connection, len(payload), HOST_BUFFER_BYTES)
        connection.write(self._device, payload)
        return len(payload)

    def _await_room(self, connection: Connection, count: int, room: int) -> None:
        """Wait until at most ``room`` bytes are waiting for the wire; what is known of the time may be a little old."""
        byte_ns = 10_000_000_000 // self._baudrate
        self._clear_ns = max(self._clear_ns, connection.now_ns) + count * byte_ns
        due = self._clear_ns - max(room, count) * byte_ns
        if due <= connection.now_ns or self._link is None:
            return
        now = self._link.clock.now_ns()
        if due <= now:
            return
        limit = None if self._write_timeout is None else now + round(self._write_timeout * 1e9)
        connection.request(Op.SLEEP, time_ns=due if limit is None else min(due, limit))
        if limit is not None and limit < due:
            self._clear_ns -= count * byte_ns
            raise serial.SerialTimeoutException("Write timeout")

    def flush(self) -> None:
        """Wait until all that was written is through."""
        if self.is_open and self._link is not None:
            self._connection().request(Op.SLEEP, time_ns=self._clear_ns)

    @property
    def out_waiting(self) -> int:
        """Bytes written that are not through."""
        if self._link is None:
            return 0
        left_ns = max(0, self._clear_ns - self._link.clock.now_ns())
        return left_ns * int(self._baudrate) // 10_000_000_000

    def reset_output_buffer(self) -> None:
        """Nothing to discard: what was written is on the wire."""
        self._connection()

    # -- modem lines: there, and of no consequence ------------------------------------------------------------------

    def _update_rts_state(self) -> None:
        pass

    def _update_dtr_state(self) -> None:
        pass

    def _update_break_state(self) -> None:
        raise ValueError("the twin's lines know no break")

    @property
    def cts(self) -> bool:
        return True

    @property
    def dsr(self) -> bool:
        return True

    @property
    def ri(self) -> bool:
        return False

    @property
    def cd(self) -> bool:
        return True

    def _connection(self) -> Connection:
        if not self.is_open or self._link is None:
            raise serial.PortNotOpenError
        return self._link.connection


def _parse(url: str) -> tuple[str, str]:
    rest = url.partition("://")[2]
    address, slash, device = rest.partition("/")
    port = address.rpartition(":")[2]
    if not slash or not device or not port.isdigit():
        raise serial.SerialException(f"could not open port {url}: expected twin://HOST:PORT/DEVICE")
    return address, device
