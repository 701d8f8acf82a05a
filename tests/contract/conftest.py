"""Devices inside the test's own process, in virtual time: a stage on a loop-back line, and a served DAQ device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import serial

from bench.instruments import serial_line
from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_create import Settings
from bench.twin.devices.zaber_ascii import ZaberAscii
from bench.twin.gate import MetadataGate
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

URL = "loopback://stage"


class KinematicStage:
    """A stage that does exactly what it is told: piecewise constant acceleration, no lag, no load."""

    def __init__(self, world: SimWorld, position_mm: float) -> None:
        self._world = world
        self._pieces: list[tuple[float, float, float, float]] = [(0.0, position_mm, 0.0, 0.0)]  # t, x, v, a
        self._end_s = 0.0
        self._fault: str | None = None
        self._on_fault: list[Callable[[str], None]] = []
        self.hard_limits = (0.0, 0.0)

    def _state(self) -> tuple[float, float]:
        now = self._world.now_ns * 1e-9
        t, x, v, a = [piece for piece in self._pieces if piece[0] <= now][-1]
        dt = now - t
        return x + v * dt + a * dt * dt / 2, v + a * dt

    def position_mm(self) -> float:
        return self._state()[0]

    def setpoint_mm(self) -> float:
        return self._state()[0]

    def velocity_mm_s(self) -> float:
        return self._state()[1]

    def is_moving(self) -> bool:
        return self._world.now_ns < round(self._end_s * 1e9)

    def fault(self) -> str | None:
        return self._fault

    def _follow(self, parts: list[tuple[float, float]]) -> int:
        """Take (duration, acceleration) parts from here on; return the end [ns]."""
        t = self._world.now_ns * 1e-9
        x, v = self._state()
        self._pieces = []
        for duration, a in parts:
            self._pieces.append((t, x, v, a))
            x += v * duration + a * duration * duration / 2
            v += a * duration
            t += duration
        self._pieces.append((t, x, 0.0, 0.0))
        self._end_s = t
        return round(t * 1e9)

    def move_to(self, target_mm: float, speed_mm_s: float, acceleration_mm_s2: float) -> int:
        x, v = self._state()
        a = acceleration_mm_s2
        brake = [(abs(v) / a, -a if v > 0 else a)] if v else []
        distance = target_mm - (x + (v * abs(v) / a / 2))
        sign = 1.0 if distance > 0 else -1.0
        top = min(speed_mm_s, (abs(distance) * a) ** 0.5)
        cruise = (abs(distance) - top * top / a) / top if top else 0.0
        return self._follow([*brake, (top / a, sign * a), (cruise, 0.0), (top / a, -sign * a)])

    def move_velocity(self, speed_mm_s: float, acceleration_mm_s2: float) -> None:
        edge = self.hard_limits[speed_mm_s > 0]
        self.move_to(edge, abs(speed_mm_s), acceleration_mm_s2)

    def stop(self, acceleration_mm_s2: float) -> int:
        v = self.velocity_mm_s()
        return self._follow([(abs(v) / acceleration_mm_s2, -acceleration_mm_s2 if v > 0 else acceleration_mm_s2)])

    def set_hard_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        self.hard_limits = (minimum_mm, maximum_mm)

    def set_zero_here(self) -> None:
        self._pieces = [(self._world.now_ns * 1e-9, 0.0, 0.0, 0.0)]

    def on_fault(self, action: Callable[[str], None]) -> None:
        self._on_fault.append(action)

    def break_down(self, code: str | None) -> None:
        """Stall, lose power, or (None) be well again."""
        was_moving, self._fault = self.is_moving(), code
        if code is not None:
            self._pieces, self._end_s = [(self._world.now_ns * 1e-9, self.position_mm(), 0.0, 0.0)], 0.0
            for action in self._on_fault if was_moving else []:
                action(code)


class WorldClock:
    """The test's one participant as a bench clock."""

    simulated = True

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.member = world.register("test")

    def now_ns(self) -> int:
        return self.world.now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.world.park(self.member, until_ns=deadline_ns)


class LoopbackPort(serial.SerialBase):
    """The driver's end of the twin's wire, read and written in the test's own thread."""

    clock: WorldClock
    wire: Wire
    sent: bytearray

    def open(self) -> None:
        self.wire.open("the test", self.baudrate)
        self.is_open = True

    def close(self) -> None:
        if self.is_open:
            self.wire.close()
        self.is_open = False

    def _reconfigure_port(self) -> None:
        pass

    _update_dtr_state = _update_rts_state = _reconfigure_port

    @property
    def in_waiting(self) -> int:
        return len(self.wire.inbox)

    def write(self, data: bytes) -> int:
        self.sent += data
        self.wire.write(bytes(data))
        return len(data)

    def read(self, size: int = 1) -> bytes:
        until_ns = self.clock.now_ns() + round(self.timeout * 1e9)
        self.clock.world.park(self.clock.member, until_ns=until_ns, ready=lambda: len(self.wire.inbox) >= size)
        taken = bytes(self.wire.inbox[:size])
        del self.wire.inbox[:size]
        return taken


class ScriptedPort(serial.SerialBase):
    """A line whose every byte is known beforehand; what is sent must be what the script says, in its order."""

    def __init__(self, script: list[tuple[bytes, bytes]]) -> None:
        super().__init__()
        self.script = list(script)
        self.now_ns = 0
        self._inbox = b""

    def open(self) -> None:
        self.is_open = True

    def close(self) -> None:
        self.is_open = False

    def _reconfigure_port(self) -> None:
        pass

    _update_dtr_state = _update_rts_state = _reconfigure_port

    @property
    def in_waiting(self) -> int:
        return len(self._inbox)

    def write(self, data: bytes) -> int:
        assert self.script, f"not in the script: {data!r}"
        due, answer = self.script.pop(0)
        assert bytes(data) == due
        self._inbox += answer
        return len(data)

    def read(self, size: int = 1) -> bytes:
        taken, self._inbox = self._inbox[:size], self._inbox[size:]
        if len(taken) < size:
            self.now_ns += round(self.timeout * 1e9)
        return taken

    def leftovers(self) -> tuple[list[tuple[bytes, bytes]], bytes]:
        return self.script, self._inbox


class ScriptedClock:
    """Time passes only by waiting for bytes and by sleeping."""

    simulated = True

    def __init__(self, port: ScriptedPort) -> None:
        self.port = port

    def now_ns(self) -> int:
        return self.port.now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.port.now_ns = max(self.port.now_ns, deadline_ns)


@dataclass
class Loopback:
    """What a test holds: the world, the plant, the device and everything the driver has sent."""

    clock: WorldClock
    plant: Any
    device: Any
    wire: Wire
    sent: bytearray = field(default_factory=bytearray)
    url: str = URL

    def after(self, seconds: float, action: Callable[[], object]) -> None:
        self.clock.world.at(self.clock.now_ns() + round(seconds * 1e9), lambda: (action(), None)[1])

    def talk(self, line: bytes, wait_s: float = 0.1) -> bytes:
        """Say a line to the device as a terminal would, and return all it answers."""
        port = self.port
        port.write(line)
        self.clock.sleep_until_ns(self.clock.now_ns() + round(wait_s * 1e9))
        return port.read(port.in_waiting) if port.in_waiting else b""

    def lose_replies(self, count: int) -> None:
        """The next ``count`` replies never leave the device."""
        send, left = self.wire.send, [None] * count

        def lossy(data: bytes, *, delay_ns: int = 0) -> None:
            if left:
                left.pop()
            else:
                send(data, delay_ns=delay_ns)

        self.wire.send = lossy

    def lose_reply_to(self, command: bytes) -> None:
        """The reply to the next message with ``command`` in it never leaves the device; the message arrives."""
        receive = self.device.receive

        def listen(data: bytes) -> None:
            if command in data:
                self.device.receive = receive
                self.lose_replies(1)
            receive(data)

        self.device.receive = listen

    @property
    def port(self) -> LoopbackPort:
        return self._port


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Loopback]]:
    """Put a device on a loop-back line: ``connect(plant of a world, device of a plant)``."""
    world = SimWorld()
    clock = WorldClock(world)

    def connected(make_plant: Callable[[SimWorld], Any], make_device: Callable[[Any], Any]) -> Loopback:
        plant = make_plant(world)
        device = make_device(plant)
        bench = Loopback(clock, plant, device, Wire(world, device))
        port = LoopbackPort(baudrate=device.baud, timeout=0.05)
        port.clock, port.wire, port.sent = clock, bench.wire, bench.sent
        port.open()
        bench._port = port

        def open_url(url: str, *, do_not_open: bool, baudrate: int, timeout: float, **_: object) -> LoopbackPort:
            assert (url, do_not_open) == (URL, True)
            port.close()
            port.timeout, port.baudrate = timeout, baudrate
            return port

        monkeypatch.setattr(serial_line.serial, "serial_for_url", open_url)
        return bench

    yield connected
    assert world.fault is None


@pytest.fixture
def loopback(connect: Callable[..., Loopback]) -> Loopback:
    """A powered stage 12.3 mm from home, not referenced, at the URL ``loopback.url``."""
    return connect(lambda world: KinematicStage(world, 12.3), ZaberAscii)


Script = Callable[[list[tuple[bytes, bytes]]], AbstractContextManager[ScriptedClock]]


@pytest.fixture
def conversation(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Open a context in which ``script://`` plays a list of (sent, answered) bytes, and fails on what is left over."""

    @contextmanager
    def play(script: list[tuple[bytes, bytes]]) -> Iterator[ScriptedClock]:
        port = ScriptedPort(script)

        def open_url(url: str, *, do_not_open: bool, timeout: float, **_: object) -> ScriptedPort:
            assert (url, do_not_open) == ("script://", True)
            port.timeout = timeout
            return port

        monkeypatch.setattr(serial_line.serial, "serial_for_url", open_url)
        yield ScriptedClock(port)
        assert port.leftovers() == ([], b"")

    return play


# -- a DAQ device whose every sample tells which one it is ------------------------------------------------------------


class RampBus:
    """Terminals that carry known functions of the tick.

    ``ai0`` … ``ai7`` (±10 V, 16 bit) read the code ``(tick + 1000 k) mod 32768``: a sample that is lost, doubled or
    taken from another channel shows. Bridges carry 0.1 mV/V, ``ctr0`` half an edge a tick, ``ctr1`` the reverse.
    """

    lsb_v = 20.0 / 65536

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.levels = dict.fromkeys([f"port0/line{k}" for k in range(8)], False)
        self.volts = {"ao0": 0.0, "ao1": 0.0}

    def ticks(self, first: int, count: int, stride: int) -> np.ndarray:
        last = first + stride * (count - 1)
        assert first >= 0
        assert last * self.world.tick_ns <= self.world.now_ns, "the future was read"
        return first + stride * np.arange(count)

    def analog(self, channel: str, first_tick: int, count: int, stride: int) -> np.ndarray:
        ticks = self.ticks(first_tick, count, stride)
        k = int(channel.removeprefix("ai"))
        return self.lsb_v * ((ticks + 1000 * k) % 32768) if k < 8 else np.full(count, 0.1)

    def encoder(self, counter: str, first_tick: int, count: int, stride: int) -> np.ndarray:
        ticks = self.ticks(first_tick, count, stride)
        return 0.5 * ticks if counter == "ctr0" else -0.5 * ticks

    def digital(self, line: str) -> bool:
        return self.levels[line]

    def driven(self, line: str) -> bool:
        return self.levels[line]

    def let_go(self, line: str) -> None:
        if self.channels()[line] != "digital_in":
            self.levels[line] = False

    def set_digital(self, line: str, level: bool) -> None:
        self.levels[line] = level

    def set_analog(self, channel: str, volts: float) -> None:
        self.volts[channel] = volts

    def channels(self) -> dict[str, str]:
        kinds = {f"ai{k}": "analog" for k in range(8)} | {"ai8": "bridge", "ai9": "bridge"}
        kinds |= {"ctr0": "encoder", "ctr1": "encoder", "port0/line0": "digital_in"}
        kinds |= {f"port0/line{k}": "digital" for k in range(1, 8)}
        return kinds | {"ao0": "analog_out", "ao1": "analog_out"}


@dataclass
class DaqLab:
    """A world of 100 µs ticks, the DAQ device in it and its gRPC service."""

    world: SimWorld
    bus: RampBus
    device: NiDaqDevice
    gate: MetadataGate
    address: str
    stop: Callable[[], None]
    channels: list[Any] = field(default_factory=list)

    simulated = True  # the lab is also its own clock: time moves in reads, and here

    def now_ns(self) -> int:
        return self.world.now_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        with self.gate.call(None, "sleep") as participant:
            self.world.park(participant, until_ns=deadline_ns)

    def sleep(self, seconds: float) -> None:
        self.sleep_until_ns(self.now_ns() + round(seconds * 1e9))

    def channel(self) -> Any:
        """A plain channel, as a client makes it; closed after the test."""
        import grpc

        self.channels.append(grpc.insecure_channel(self.address))
        return self.channels[-1]


@pytest.fixture
def daq_lab() -> Iterator[DaqLab]:
    """A served DAQ device ``Dev1`` without noise."""
    from bench.twin.devices.nidaqmx_grpc import serve

    world = SimWorld(tick_ns=100_000)
    bus = RampBus(world)
    device = NiDaqDevice(world, bus, Settings(serial_number=0x01B07E57))
    gate = MetadataGate(world)
    server = serve(device, gate)
    lab = DaqLab(world, bus, device, gate, server.address, server.stop)
    yield lab
    for channel in lab.channels:
        channel.close()
    server.stop()
    assert world.fault is None
