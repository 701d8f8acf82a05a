"""Bytes on their way out of the twin: a bounded queue and a thread that sends, so that nobody waits with the lock."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

ROOM_BYTES = 65536
#: A thread with nothing to send looks up this often [s].
IDLE_S = 1.0


class Outbox:
    """Sends what is put into it, in order, from its own thread.

    Parameters
    ----------
    send : callable
        Sends all of its bytes, however long that takes; an ``OSError`` ends the thread.
    dropped : callable
        Told how many bytes found no room.
    """

    def __init__(self, send: Callable[[bytes], object], dropped: Callable[[int], None], name: str) -> None:
        self._send = send
        self._dropped = dropped
        self._queue: deque[bytes] = deque()
        self._size = 0
        self._open = True
        self._condition = threading.Condition()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, data: bytes) -> None:
        """Queue ``data``, or drop it whole when there is no room. Never blocks for long."""
        with self._condition:
            if self._size + len(data) > ROOM_BYTES:
                self._dropped(len(data))
                return
            self._queue.append(data)
            self._size += len(data)
            self._condition.notify()

    def close(self) -> None:
        """End the thread once it is through with what it is sending."""
        with self._condition:
            self._open = False
            self._condition.notify()

    def _run(self) -> None:
        while True:
            with self._condition:
                while self._open and not self._queue:
                    self._condition.wait(IDLE_S)
                if not self._open:
                    return
                data = b"".join(self._queue)
                self._queue.clear()
            try:
                self._send(data)
            except OSError:
                return  # the other side is gone; its reader notices and closes
            with self._condition:
                self._size -= len(data)
