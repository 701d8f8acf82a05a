"""One connection to the twin: frames out, replies in, and what is known of world time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import time
from typing import Any, Protocol

from bench.errors import TwinError
from bench.twin.frames import HEADER, VERSION, Op, Status

FREE_ANSWER_LIMIT = 5000
"""Questions a connection answers from memory without world time moving; more is a loop that never ends."""
CONNECT_WALL_S = 10.0
ANSWER_WALL_S = 180.0
"""Wall time after which a twin that says nothing is given up, beyond what was asked to be waited for in real time."""
_SLICE_S = 0.5


class PortUnplugged(Exception):
    """The serial device at the other end was unplugged."""


class NoSuchPort(Exception):
    """The twin has no such serial device; the text names those it has."""


class PortInUse(Exception):
    """Somebody has the serial port; the text says who."""


class RpcFailed(Exception):
    """A gRPC procedure called over the link ended with another status than OK."""

    def __init__(self, told: dict[str, Any]) -> None:
        super().__init__(told["details"])
        self.told = told


class WallTimeout(Exception):
    """The twin did not answer within the wall time the caller gave."""


class Connection:
    """One participant thread's (or the control's, or the lease's) connection.

    Attributes
    ----------
    sent : int
        Frames sent since the greeting; a gRPC call names it so that the twin handles them first. Asking for it sends
        what is held back.
    now_ns : int
        World time in the last reply.
    fresh : bool
        Whether that is still the present: nothing since then could have let time pass.
    """

    def __init__(self, address: str, name: str, role: str, *, claim: int = 0) -> None:
        host, _, port = address.rpartition(":")
        self.address = address
        self._sent = 0
        self._held = b""  # a ride, and what was written behind it, until something has to be answered
        self.now_ns = 0
        self.fresh = False
        self.free_answers = 0
        self._caches = False
        self.real_time = False
        self._number = 0  # of the latest request, modulo 256; its reply bears it
        self._kept: dict[int, bytes] = {}  # replies to requests that a signal handler's own request overtook
        self._given_up: set[int] = set()
        self._data = b""
        try:
            self._socket = socket.create_connection((host, int(port)), timeout=CONNECT_WALL_S)
        except OSError as error:
            raise TwinError(
                f"no twin answers: {error}",
                where=f"twin link {address}",
                remedy="check that it runs (`bench twin RIG`)",
            ) from error
        self._socket.settimeout(_SLICE_S)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._send_all = self._socket.sendall
        self._receive = self._socket.recv
        hello = {"version": VERSION, "role": role, "name": name, "pid": os.getpid(), "claim": claim}
        try:
            _, _, payload = self.request(Op.HELLO, payload=json.dumps(hello).encode())
        except TwinError:
            self._socket.close()
            raise
        self._sent = 0
        answer = json.loads(payload)
        self.member: int = answer["member"]
        self.real_time = bool(answer["real_time"])
        self.tick_ns: int = answer["tick_ns"]
        self._caches = self.fresh = role == "participant" and not self.real_time

    def send(self, op: int, device: int = 0, count: int = 0, time_ns: int = 0, payload: bytes = b"") -> None:
        """Send a frame that has no reply, behind what is held back."""
        held, self._held = self._held, b""
        self._sent += 1
        try:
            self._send_all(held + HEADER.pack(len(payload), op, device, count, time_ns) + payload)
        except OSError as error:
            raise self._gone(error) from error

    @property
    def sent(self) -> int:
        held, self._held = self._held, b""
        if held:
            try:
                self._send_all(held)
            except OSError as error:
                raise self._gone(error) from error
        return self._sent

    def ride(self, until_ns: int) -> bool:
        """Let time be ``until_ns`` with whatever is sent next, in one message; False where that cannot be.

        While this participant runs, world time stands still, so the caller cannot tell: the time is known beforehand,
        and nobody acts in between but this thread. It must not look at what other participants do before it sends.
        """
        if not self.fresh or self._held or until_ns <= self.now_ns:
            return False
        self._held = HEADER.pack(0, Op.RIDE, 0, 0, until_ns)
        self._sent += 1
        self.now_ns = until_ns
        self.free_answers = 0
        return True

    def write(self, device: int, payload: bytes) -> None:
        """Send bytes to a serial device; behind a ride they travel with the read that asks for the answer."""
        if not self._held:
            self.send(Op.WRITE, device, payload=payload)
            return
        self._held += HEADER.pack(len(payload), Op.WRITE, device, 0, 0) + payload
        self._sent += 1

    def request(
        self,
        op: int,
        device: int = 0,
        count: int = 0,
        time_ns: int = 0,
        payload: bytes = b"",
        wall_s: float | None = None,
    ) -> tuple[int, int, bytes]:
        """Send a frame and wait for its reply, at most ``wall_s`` of wall time when that is given.

        Returns
        -------
        status, count, payload

        Raises
        ------
        TwinError
            The request was refused, the twin failed, its owner was lost, or the twin is gone.
        PortUnplugged, PortInUse, NoSuchPort
            What a serial port's user must be told in pyserial's words.
        RpcFailed, WallTimeout
            What the caller of a procedure must be told in gRPC's words.
        """
        number = self._number = (self._number + 1) & 0xFF
        self._given_up.discard(number)
        self.send(op, device, count, time_ns, payload)
        try:
            data = self._reply(number, time_ns, wall_s)
        except BaseException:  # a signal handler raised: the reply is still to come, and nobody will want it
            self._given_up.add(number)
            raise
        _, status, _, answer, now = HEADER.unpack_from(data)
        if now != self.now_ns:
            self.now_ns = now
            self.free_answers = 0
        self.fresh = self._caches
        if status > Status.BINARY:
            _raise(status, data[16:], self.address)
        return status, answer, data[16:]

    def _reply(self, number: int, time_ns: int, wall_s: float | None) -> bytes:
        """Return the reply that bears ``number``; others belong to requests that were given up or overtaken.

        A signal handler may make a request while this one waits. It then reads this one's reply too and keeps it, which
        is noticed here after a slice of silence.
        """
        began = time.monotonic() if wall_s is not None else 0.0
        deadline: float | None = None
        while True:
            data = self._data
            if len(data) >= 16:
                length, _, bears, _, _ = HEADER.unpack_from(data)
                size = 16 + length
                if len(data) >= size:
                    self._data = data[size:]
                    if bears == number:
                        return data if len(data) == size else data[:size]
                    if bears in self._given_up:
                        self._given_up.discard(bears)
                    else:
                        self._kept[bears] = data[:size]
                    continue
            try:
                more = self._receive(1 << 20 if data else 65536)
                if not more:
                    raise ConnectionError("it closed the connection")
                self._data = self._data + more if self._data else more
            except TimeoutError:
                if number in self._kept:
                    return self._kept.pop(number)
                if wall_s is not None and time.monotonic() - began > wall_s:
                    raise WallTimeout from None
                if deadline is None:
                    asked = max(0, time_ns if time_ns < self.now_ns else time_ns - self.now_ns) * 1e-9
                    deadline = time.monotonic() + ANSWER_WALL_S + (asked if self.real_time else 0.0)
                elif time.monotonic() > deadline:
                    raise self._gone(TimeoutError("it has not answered for minutes")) from None
            except OSError as error:
                raise self._gone(error) from error

    def count_free(self, what: str) -> None:
        """Count an answer given from memory."""
        self.free_answers += 1
        if self.free_answers > FREE_ANSWER_LIMIT:
            raise TwinError(
                f"{what} was asked for {self.free_answers} times without world time moving",
                where=f"twin link {self.address}",
                remedy="a loop that waits for nothing never ends in virtual time: sleep in it or read with a timeout",
            )

    def closed_by_peer(self) -> bool:
        """Whether the twin is gone, for a connection on which no reply is due."""
        return bool(select.select([self._socket], [], [], 0.0)[0])

    def bye(self) -> None:
        """Leave in good order; never raises."""
        with contextlib.suppress(TwinError, OSError):
            self._socket.settimeout(2.0)
            self.request(Op.BYE)
        self._socket.close()

    def _gone(self, error: OSError) -> TwinError:
        return TwinError(
            f"the twin is gone: {error}",
            where=f"twin link {self.address}",
            remedy="its standard error and its report file say why; start a new one",
        )


def _raise(status: int, payload: bytes, address: str) -> None:
    if status == Status.UNPLUGGED:
        raise PortUnplugged
    if status == Status.IN_USE:
        raise PortInUse(payload.decode())
    if status == Status.RPC_FAILED:
        raise RpcFailed(json.loads(payload))
    if status == Status.NO_DEVICE:
        raise NoSuchPort(payload.decode())
    told = json.loads(payload)
    raise TwinError(told["what"], where=told["where"] or f"twin link {address}", remedy=told["remedy"])


class OwnLink(Protocol):
    """What a client of the twin asks of the process's link: where it is, and the calling thread's own connection."""

    address: str

    @property
    def own_connection(self) -> Connection | None: ...
