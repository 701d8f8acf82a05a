"""The twin's end of the link: one ordered connection per participant carries clock, serial lines and signals.

Each connection has a thread of its own that handles frames in order under the world's lock and sends replies without
it. A connection is a participant (time waits for it), a passive control connection, a watchdog (passive until the
participants are lost, and served then), or the process's lease.
"""

from __future__ import annotations

import json
import select
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

from bench.errors import BenchError, TwinError
from bench.twin.frames import FOREVER, HEADER, LEASE_S, VERSION, Op, Status
from bench.twin.members import Member
from bench.twin.wire import Unplugged, Wire
from bench.twin.world import SimWorld

_SILENT = frozenset((Op.WRITE, Op.RESET_INPUT, Op.SIGNAL, Op.BEAT, Op.RIDE))
#: A server that waits for clients looks up this often [s].
ACCEPT_S = 1.0

Control = Callable[[dict[str, Any]], dict[str, Any] | list[Any] | bytes]


class LinkServer:
    """Serves the link on ``127.0.0.1``.

    Parameters
    ----------
    world : SimWorld
    wires : dict
        Device name → its serial line; the order gives the device numbers.
    control : callable
        Handles a control request (called with the lock held); returns JSON-able data or raw bytes.
    procedures : callable, optional
        Carries out a gRPC procedure for a participant, given its number and the payload; called without the lock.
    port : int
        0: any free one.
    """

    def __init__(
        self,
        world: SimWorld,
        wires: dict[str, Wire],
        control: Control,
        procedures: Callable[[int, bytes], tuple[int, int, bytes]] | None = None,
        port: int = 0,
    ) -> None:
        self.procedures = procedures
        self.world = world
        self.wires = list(wires.values())
        self.control = control
        self.signals: Counter[str] = Counter()
        self.expected: dict[int, Member] = {}
        self._socket = socket.create_server(("127.0.0.1", port), backlog=16)
        self._socket.settimeout(ACCEPT_S)  # closing a socket does not wake who waits for it
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._accept, name="twin-link", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._socket.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._socket.accept()
            except TimeoutError:
                continue
            except OSError:
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection = _Connection(self, sock)
            threading.Thread(target=connection.serve, name="twin-connection", daemon=True).start()


class _Connection:
    def __init__(self, server: LinkServer, sock: socket.socket) -> None:
        self.server = server
        self.world = server.world
        self.sock = sock
        self.member = Member("unknown", 0, passive=True)
        self.role = ""
        self.pid: int | None = None
        self.left = False
        self.replies = 1  # modulo 256; the greeting's is the first
        self.opened: set[int] = set()
        self._handlers: dict[int, Callable[[int, int, int, bytes], tuple[int, int, bytes] | None]] = {
            Op.READ: self._read,
            Op.WRITE: self._write,
            Op.SLEEP: self._sleep,
            Op.NOW: self._now,
            Op.WAITING: self._waiting,
            Op.RESET_INPUT: self._reset_input,
            Op.OPEN: self._open,
            Op.CLOSE: self._close_port,
            Op.EXPECT: self._expect,
            Op.SIGNAL: self._signal,
            Op.WAIT: self._wait,
            Op.CONTROL: self._control,
            Op.BYE: self._bye,
            Op.BEAT: self._beat,
            Op.RIDE: self._sleep,
        }

    # -- frames -------------------------------------------------------------------------------------------------------

    def serve(self) -> None:
        why = "its connection closed"
        try:
            self._frames()
        except TimeoutError:
            why = f"its process has been silent for {LEASE_S:g} s"
        except OSError:
            pass
        except Exception as error:  # a defect of this server: loud for everybody
            with self.world.lock:
                self.world.fail(error)
        finally:
            self._gone(why)

    def _frames(self) -> None:
        buffer = bytearray()
        receive, size, unpack = self.sock.recv, HEADER.size, HEADER.unpack_from
        while not self.left:
            data = receive(65536)
            if not data:
                return
            buffer += data
            offset = 0
            while len(buffer) - offset >= size:
                length, op, device, count, time_ns = unpack(buffer, offset)
                end = offset + size + length
                if len(buffer) < end:
                    break
                payload = bytes(buffer[offset + size : end])
                offset = end
                reply = self._hello(payload) if not self.role else self._handle(op, device, count, time_ns, payload)
                if reply is not None:
                    self.sock.sendall(reply)
                    if op == Op.READ:
                        self.world.work_ahead()
            del buffer[:offset]
            if self.world.foreseen:
                self.world.work_ahead()

    def _handle(self, op: int, device: int, count: int, time_ns: int, payload: bytes) -> bytes | None:
        world, member = self.world, self.member
        if op == Op.CALL:
            return self._call(payload)
        handler = self._handlers.get(op)
        with world.lock:
            try:
                if handler is None:
                    raise TwinError(f"unknown link operation {op}", where="twin link")
                if op in (Op.BYE, Op.CLOSE):  # leaving must work whatever has happened
                    answer = handler(device, count, time_ns, payload)
                else:
                    world.begin(member)
                    try:
                        answer = handler(device, count, time_ns, payload)
                    finally:
                        world.end(member)
            except Unplugged:
                answer = (Status.UNPLUGGED, 0, b"")
            except TwinError as error:
                broken = world.fault is not None or world.lost is not None
                answer = (Status.FAULT if broken else Status.REFUSED, 0, _text(error))
            except BenchError as error:
                answer = (Status.REFUSED, 0, _text(error))
            except Exception as error:
                world.fail(error)
                answer = (Status.FAULT, 0, _text(TwinError(str(world.fault), where="twin")))
            world.handled(member)
            now = world.now_ns
        if answer is None or op in _SILENT:
            return None  # what went wrong with these shows in the next reply
        self.replies = (self.replies + 1) & 0xFF
        status, number, data = answer
        return HEADER.pack(len(data), status, self.replies, number, now) + data

    def _call(self, payload: bytes) -> bytes:
        """A gRPC procedure; its own gate takes the lock and counts the call."""
        procedures = self.server.procedures
        if procedures is None or self.role not in ("participant", "watchdog"):
            error = TwinError("this connection has no procedures", where="twin link")
            status, number, data = Status.REFUSED, 0, _text(error)
        else:
            status, number, data = procedures(self.member.order, payload)
        with self.world.lock:
            self.world.handled(self.member)
            now = self.world.now_ns
        self.replies = (self.replies + 1) & 0xFF
        return HEADER.pack(len(data), status, self.replies, number, now) + data

    def _hello(self, payload: bytes) -> bytes:
        """Register the connection. A participant gets its answer when it is its turn."""
        hello = json.loads(payload)
        world = self.world
        with world.lock:
            try:
                if hello.get("version") != VERSION:
                    raise TwinError(f"the client speaks link version {hello.get('version')}, not {VERSION}")
                self.pid = hello.get("pid")
                role = hello["role"]
                if role == "participant":
                    world.check(Member(hello["name"], 0, passive=False))
                    claimed = self.server.expected.pop(hello.get("claim", 0), None)
                    self.member = claimed or world.register(hello["name"], pid=self.pid)
                    self.role = role
                    world.await_turn(self.member)
                elif role in ("control", "lease", "watchdog"):
                    watchdog = role == "watchdog"
                    self.member = world.register(hello["name"], passive=True, pid=self.pid, watchdog=watchdog)
                    self.role = role
                else:
                    raise TwinError(f"unknown role {role!r}")
                answer = {"member": self.member.order, "real_time": world.real_time, "tick_ns": world.tick_ns}
                status, data = Status.OK, json.dumps(answer).encode()
            except TwinError as error:
                status, data, self.left = Status.FAULT, _text(error), not self.role
            now = world.now_ns
        return HEADER.pack(len(data), status, self.replies, 0, now) + data

    def _called_again(self) -> bool:
        """Real time: the client has sent something (or is gone) while it is parked: it gave up waiting."""
        return bool(select.select([self.sock], [], [], 0.0)[0])

    def _gone(self, why: str) -> None:
        with self.world.lock:
            for device in self.opened:
                self.server.wires[device].close()
            if self.role == "participant" and not self.left:
                self.world.lose(self.member, why)
            elif self.role == "lease" and not self.left:
                lost = [
                    m for m in self.world.members.values() if m.pid == self.pid and not m.passive and not m.watchdog
                ]
                for member in lost:
                    self.world.lose(member, why)
                self.world.leave(self.member)
            elif self.role:
                self.world.leave(self.member)
            if self.role == "lease":  # threads that were announced and never came
                for member in [m for m in self.server.expected.values() if m.pid == self.pid]:
                    del self.server.expected[member.order]
                    self.world.leave(member)
        self.sock.close()

    # -- operations (lock held) ---------------------------------------------------------------------------------------

    def _wire(self, device: int) -> Wire:
        if device not in self.opened and not (device < len(self.server.wires) and self.server.wires[device].owner):
            raise TwinError(f"serial device {device} is not open", where="twin link")
        return self.server.wires[device]

    def _read(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        wire = self._wire(device)
        inbox = wire.inbox
        if len(inbox) < count and time_ns != 0:
            until = None if time_ns == FOREVER else self.world.now_ns + time_ns
            self._park(until, lambda: len(inbox) >= count or wire.unplugged)
        else:
            self.world.free_call(self.member, "a read of what was there")
        if wire.unplugged:
            raise Unplugged
        data = bytes(inbox)
        inbox.clear()
        return Status.BINARY, 0, data

    def _write(self, device: int, count: int, time_ns: int, payload: bytes) -> None:
        self._wire(device).write(payload)

    def _waiting(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        wire = self._wire(device)
        self.world.free_call(self.member, "in_waiting")
        if wire.unplugged:
            raise Unplugged
        return Status.OK, len(wire.inbox), b""

    def _reset_input(self, device: int, count: int, time_ns: int, payload: bytes) -> None:
        self._wire(device).inbox.clear()

    def _sleep(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        self._park(time_ns, None)
        return Status.OK, 0, b""

    def _park(self, until_ns: int | None, ready: Callable[[], bool] | None) -> bool:
        if self.world.real_time:
            wanted = ready
            self.world.park(
                self.member,
                until_ns=until_ns,
                ready=lambda: (wanted is not None and wanted()) or self._called_again(),
            )
            return wanted is not None and wanted()
        return self.world.park(self.member, until_ns=until_ns, ready=ready)

    def _now(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        self.world.free_call(self.member, "now")
        return Status.OK, 0, b""

    def _open(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        request = json.loads(payload)
        for index, wire in enumerate(self.server.wires):
            if wire.device.name == request["device"]:
                if wire.unplugged:
                    raise Unplugged
                if wire.owner is not None:
                    return Status.IN_USE, 0, wire.owner.encode()
                wire.open(f"participant {self.member.name!r}", request["baud"])
                self.opened.add(index)
                return Status.OK, index, b""
        known = ", ".join(wire.device.name for wire in self.server.wires)
        return Status.NO_DEVICE, 0, f"no serial device {request['device']!r} on this twin, which has {known}".encode()

    def _close_port(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        if device < len(self.server.wires):
            self.server.wires[device].close()
            self.opened.discard(device)
        return Status.OK, 0, b""

    def _expect(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        member = self.world.register(payload.decode(), pid=self.pid)
        self.server.expected[member.order] = member
        return Status.OK, member.order, b""

    def _beat(self, device: int, count: int, time_ns: int, payload: bytes) -> None:
        self.sock.settimeout(LEASE_S)  # from the first beat on

    def _signal(self, device: int, count: int, time_ns: int, payload: bytes) -> None:
        self.server.signals[payload.decode()] += 1

    def _wait(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        name, signals = payload.decode(), self.server.signals
        came = self._park(time_ns, lambda: signals[name] > 0)
        if came:
            signals[name] -= 1
        return Status.OK, int(came), b""

    def _control(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        request = json.loads(payload)
        after = request.pop("after", None)
        if after is not None and (member := self.world.members.get(after[0])) is not None:
            self.world.await_handled(member, after[1])
        answer = self.server.control(request)
        if isinstance(answer, bytes):
            return Status.BINARY, 0, answer
        return Status.OK, 0, json.dumps(answer).encode()

    def _bye(self, device: int, count: int, time_ns: int, payload: bytes) -> tuple[int, int, bytes]:
        self.left = True
        return Status.OK, 0, b""


def _text(error: BenchError) -> bytes:
    return json.dumps({"what": error.what, "where": error.where, "remedy": error.remedy}).encode()
