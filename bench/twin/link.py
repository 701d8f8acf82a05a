"""The runner's end of the link: the twin's clock, its serial ports, its gRPC channel and its control calls.

    link = Link.connect("127.0.0.1:4711")          # this thread is now a participant
    port = serial.serial_for_url(link.url("stage"), timeout=0.05)
    sleep(link.clock, 0.5)                         # half a second of world time
    link.control.fault("stage_stall")
    link.close()

The link is per thread: each participant thread has a connection of its own, so clock, serial lines and signals of a
thread stay in order. Importing this module makes pyserial know ``twin://HOST:PORT/DEVICE``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import threading
from collections.abc import Callable
from typing import Any

import serial

from bench.errors import TwinError
from bench.twin.connection import FREE_ANSWER_LIMIT, Connection
from bench.twin.control_client import TwinControl
from bench.twin.frames import HEARTBEAT_S, Op

if "bench.twin.urlhandler" not in serial.protocol_handler_packages:
    serial.protocol_handler_packages.append("bench.twin.urlhandler")

_links: dict[tuple[int, str], Link] = {}  # by process, since a fork must not talk on its parent's sockets
_links_lock = threading.Lock()


class Link:
    """A process's link to one twin. Use :meth:`connect`; it gives every caller the same one."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._thread = threading.local()
        self.clock = TwinClock(self)
        self.control = TwinControl(self)
        self.real_time = False
        self.tick_ns = 0
        self._connections: list[Connection] = []
        self._lease: Connection | None = None
        self._watching = False
        self._closed = threading.Event()

    @classmethod
    def connect(cls, address: str, name: str = "main") -> Link:
        """Return the process's link to ``address``; the first call makes the calling thread a participant."""
        with _links_lock:
            key = (os.getpid(), address)
            link = _links.get(key)
            if link is not None and link._stands():
                return link
            link = cls(address)
            link._open_lease()
            try:
                link.register(name)
            except TwinError:
                link._close()
                raise
            _links[key] = link
            return link

    @classmethod
    def watch(cls, address: str, name: str = "watchdog") -> Link:
        """Return a link for a watchdog's process, which is served also when the participants are lost.

        It holds no time, and has no lease: whether it lives is nobody's concern here. The calling thread is the only
        one that may use it; :meth:`connect` in the same process returns it too.
        """
        with _links_lock:
            link = cls(address)
            link.register(name, role="watchdog")
            link._watching = True
            _links[os.getpid(), address] = link
            return link

    def _stands(self) -> bool:
        """Whether the twin at the other end is still the one that was connected to."""
        if self._watching:
            return True
        return self._lease is not None and not self._lease.closed_by_peer()

    def url(self, device: str) -> str:
        """The pyserial URL of a serial device."""
        return f"twin://{self.address}/{device}"

    # -- participants -------------------------------------------------------------------------------------------------

    def register(self, name: str, *, claim: int = 0, role: str = "participant") -> None:
        """Make the calling thread a participant; returns when it is its turn to run."""
        if getattr(self._thread, "connection", None) is not None:
            raise TwinError(f"this thread is already a participant of {self.address}", where="twin link")
        connection = Connection(self.address, name, role, claim=claim)
        self.real_time, self.tick_ns = connection.real_time, connection.tick_ns
        self._thread.connection = connection
        self._connections.append(connection)

    def leave(self) -> None:
        """The calling thread is done with the twin: time no longer waits for it."""
        connection = getattr(self._thread, "connection", None)
        if connection is not None:
            self._thread.connection = None
            self._connections.remove(connection)
            connection.bye()

    @property
    def connection(self) -> Connection:
        """The calling thread's connection; :class:`bench.errors.TwinError` when it is no participant."""
        connection: Connection | None = getattr(self._thread, "connection", None)
        if connection is None:
            raise TwinError(
                f"thread {threading.current_thread().name!r} is no participant of the twin at {self.address}",
                where="twin link",
                remedy="start it with link.thread(), or call link.register() in it",
            )
        return connection

    @property
    def own_connection(self) -> Connection | None:
        """The calling thread's connection, or None."""
        return getattr(self._thread, "connection", None)

    def thread(self, target: Callable[[], None], name: str) -> LinkThread:
        """Start ``target`` in a thread that is a participant of its own, registered in the order of these calls."""
        number = self.connection.request(Op.EXPECT, payload=name.encode())[1]
        return LinkThread(self, target, name, number)

    # -- handing over -------------------------------------------------------------------------------------------------

    def signal(self, name: str) -> None:
        """Let one :meth:`wait` for ``name`` go on. Participants hand over by this, never by a plain queue or event."""
        self.connection.send(Op.SIGNAL, payload=name.encode())

    def wait(self, name: str, timeout_s: float) -> bool:
        """Wait for a :meth:`signal`, at most ``timeout_s`` of world time; returns whether it came."""
        until = self.clock.now_ns() + round(timeout_s * 1e9)
        return bool(self.connection.request(Op.WAIT, time_ns=until, payload=name.encode())[1])

    # -- life ---------------------------------------------------------------------------------------------------------

    def _open_lease(self) -> None:
        """A connection of its own tells the twin at once when this process dies, and by silence when it hangs."""
        self._lease = Connection(self.address, f"lease of {os.getpid()}", "lease")
        if self._lease.real_time:
            # The lease begins with the first beat. Importing NI's stubs later would stop every thread of this process
            # for so long that it would pass for a frozen one.
            with contextlib.suppress(ImportError):
                importlib.import_module("nidaqmx._grpc_interpreter")
            threading.Thread(target=self._beat, name="twin-lease", daemon=True).start()

    def _beat(self) -> None:
        lease = self._lease
        while lease is not None:
            try:
                lease.send(Op.BEAT)
            except TwinError:
                return  # the next call of a participant says so
            if self._closed.wait(HEARTBEAT_S):
                return

    def close(self) -> None:
        """Say good-bye for every participant. A process that ends without this counts as lost."""
        with _links_lock:
            for key in [key for key, link in _links.items() if link is self]:
                del _links[key]
        self._close()

    def _close(self) -> None:
        self._closed.set()
        self._thread.connection = None
        for connection in [*self._connections, *([self._lease] if self._lease else [])]:
            connection.bye()
        self._connections.clear()
        self._lease = None
        self.control.close()


class TwinClock:
    """World time; implements :class:`bench.clock.Clock` for every participant thread.

    While a participant runs, virtual time stands still, so its last known time is good until it makes a call that may
    have let time pass.
    """

    def __init__(self, link: Link) -> None:
        self._link = link
        self._thread = link._thread
        self.simulated = True

    def now_ns(self) -> int:
        """World time [ns]. A thread that is no participant may ask too: it observes.

        Raises
        ------
        TwinError
            When it is asked for ever in a loop that waits for nothing: virtual time would never move.
        """
        connection: Connection | None = getattr(self._thread, "connection", None)
        if connection is None:
            return self._link.control.now_ns()
        if connection.fresh:
            if connection.free_answers < FREE_ANSWER_LIMIT:
                connection.free_answers += 1
            else:
                connection.count_free("the time")
        else:
            connection.request(Op.NOW)
        return connection.now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        """Return when world time has reached ``deadline_ns``."""
        self._link.connection.request(Op.SLEEP, time_ns=deadline_ns)

    def ride_until_ns(self, deadline_ns: int) -> None:
        """As :meth:`sleep_until_ns`, for a thread whose next act is a message to the twin: they travel together."""
        connection = self._link.connection
        if not connection.ride(deadline_ns):
            connection.request(Op.SLEEP, time_ns=deadline_ns)


class LinkThread:
    """A thread that is a participant. What its target raised, :meth:`join` raises."""

    def __init__(self, link: Link, target: Callable[[], None], name: str, number: int) -> None:
        self._link = link
        self._target = target
        self._number = number
        self._name = name
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            self._link.register(self._name, claim=self._number)
            try:
                self._target()
            finally:
                self._link.signal(f"done/{self._number}")
                self._link.leave()
        except BaseException as error:
            self._error = error

    def join(self, timeout_s: float) -> None:
        """Wait in world time until the target is done, at most ``timeout_s``."""
        if not self._link.wait(f"done/{self._number}", timeout_s):
            raise TwinError(f"thread {self._name!r} did not end in {timeout_s:g} s of world time", where="twin link")
        self._thread.join(10.0)
        if self._error is not None:
            raise self._error


def grpc_channel(address: str, link: Link | None, *, over_link: bool | None = None) -> Any:
    """Open a gRPC channel to the twin's DAQ whose calls say which participant makes them.

    Parameters
    ----------
    address : str
        ``host:port``.
    link : Link or None
        The calling thread's participant on this link is named in each call, with the count of frames it has sent, so
        that the twin handles those first. None, or a thread that is no participant: an anonymous observer.
    over_link : bool, optional
        Send a participant's unary calls in frames of its link, to the same servicer and in the same messages, without
        HTTP/2 in between: a fraction of the cost. Streams and other threads still go through grpc. By default so in
        virtual time, and not in real time.

    Returns
    -------
    grpc.Channel
    """
    from bench.twin.grpc_client import LinkChannel

    if over_link is None:
        over_link = link is not None and not link.real_time
    return LinkChannel(address, link, over_link=over_link)
