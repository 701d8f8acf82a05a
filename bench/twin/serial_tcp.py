"""A serial device on a raw TCP port, for vendors' own clients. Real-time mode only: TCP hides when a client waits."""

from __future__ import annotations

import contextlib
import socket
import threading

from bench.errors import TwinError
from bench.twin.outbox import Outbox
from bench.twin.wire import Unplugged, Wire
from bench.twin.world import SimWorld

#: A server that waits for clients looks up this often [s].
ACCEPT_S = 1.0


class TcpBridge:
    """Serves one client at a time on ``127.0.0.1``; a second one is turned away at once.

    Parameters
    ----------
    port : int
        0: any free one; ``address`` says which.
    """

    def __init__(self, world: SimWorld, wire: Wire, port: int = 0) -> None:
        if not world.real_time:
            raise TwinError(
                "a TCP port of a serial device needs real-time mode", where="twin", remedy="use --real-time"
            )
        self._world = world
        self._wire = wire
        self._member = world.register(f"tcp {wire.device.name}", passive=True)
        self._socket = socket.create_server(("127.0.0.1", port), backlog=4)
        self._socket.settimeout(ACCEPT_S)  # closing a socket does not wake who waits for it
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, name="twin-tcp", daemon=True).start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            threading.Thread(target=self._serve, args=(client,), name="twin-tcp-client", daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        outbox = Outbox(client.sendall, self._count_dropped, "twin-tcp-writer")
        world, wire = self._world, self._wire
        try:
            with world.turn(self._member):
                wire.open(f"a TCP client at {client.getpeername()}", wire.device.baud, outbox.put)
        except (TwinError, OSError):
            outbox.close()
            client.close()
            return
        try:
            with contextlib.suppress(OSError, Unplugged, TwinError):
                while data := client.recv(65536):
                    with world.turn(self._member):
                        wire.write(data)
        finally:
            with world.lock:
                wire.close()
            outbox.close()
            client.close()

    def _count_dropped(self, count: int) -> None:
        self._wire.dropped += count
