"""A serial device on a pseudo-terminal, for vendors' own clients. Real-time mode only, and not on Windows."""

from __future__ import annotations

import os
import sys
import threading

from bench.errors import TwinError
from bench.twin.outbox import Outbox
from bench.twin.wire import Unplugged, Wire
from bench.twin.world import SimWorld


class PtyBridge:
    """Serves whoever opens ``path``. It takes the line at the first byte and keeps it.

    The terminal is raw before any client can open it: one that does not set raw mode itself would otherwise get its
    own bytes echoed. Closing it cannot be seen, since the twin holds the other end open so that its settings last.
    """

    def __init__(self, world: SimWorld, wire: Wire) -> None:
        if sys.platform == "win32":
            raise TwinError("Windows has no pseudo-terminals", where="twin", remedy="use --tcp")
        if not world.real_time:
            raise TwinError("a pty of a serial device needs real-time mode", where="twin", remedy="use --real-time")
        import tty

        self._world = world
        self._wire = wire
        self._member = world.register(f"pty {wire.device.name}", passive=True)
        self._master, self._slave = os.openpty()
        tty.setraw(self._slave)
        self.path = os.ttyname(self._slave)
        self._outbox = Outbox(self._send, self._count_dropped, "twin-pty-writer")
        threading.Thread(target=self._read, name="twin-pty", daemon=True).start()

    def close(self) -> None:
        self._outbox.close()
        os.close(self._slave)
        os.close(self._master)

    def _read(self) -> None:
        mine = False
        while True:
            try:
                data = os.read(self._master, 65536)
            except OSError:
                return
            try:
                with self._world.turn(self._member):
                    if not mine:
                        self._wire.open(f"a client of {self.path}", self._wire.device.baud, self._outbox.put)
                        mine = True
                    self._wire.write(data)
            except Unplugged:
                return
            except TwinError as error:
                with self._world.lock:
                    self._world.note(f"{self.path}: {len(data)} bytes refused: {error.what}")

    def _send(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._master, data) :]

    def _count_dropped(self, count: int) -> None:
        self._wire.dropped += count
