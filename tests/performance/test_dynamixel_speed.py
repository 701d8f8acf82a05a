"""What the servo driver adds to its bus: reading six states and commanding six currents, against the bytes alone.

Both sides use the same port to the same process, turn by turn, so that other load on the machine meets each. As in a
control loop there is a pause before every cycle: the other process sleeps then. On the bus of the arm, where bytes take
their time, and against a process that answers at once, which is no bus but shows what the driver itself costs.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.clock import WallClock
from bench.instruments import dynamixel_frames as frames
from bench.instruments.dynamixel_line import DynamixelLine
from bench.instruments.dynamixel_models import P_SERIES
from bench.instruments.dynamixel_state import CurrentWriter, StateReader
from bench.instruments.serial_line import SerialLine

pytestmark = [
    pytest.mark.performance,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals"),
]

MOST_ON_THE_BUS, MOST_AT_ONCE = 1.35, 2.0
IDS = (11, 12, 13, 14, 15, 16)
CYCLES, PAUSE_S = 600, 4e-4

SERVER = """
import os, sys
master, path = int(sys.argv[1]), None
requests = {bytes.fromhex(a): bytes.fromhex(b) for a, b in (pair.split(":") for pair in sys.argv[2:])}
while True:
    try:
        data = os.read(master, 4096)
    except OSError:
        break
    for request, reply in requests.items():
        if request in data:
            os.write(master, reply)
"""


def state(servo_id: int) -> bytes:
    return bytes([servo_id, 0]) + bytes([servo_id, 1, 0xFF, 0xFF]) + bytes([servo_id, 2, 3, 0])


def replies() -> dict[bytes, bytes]:
    """What six servos say to a plain and to a fast sync read of their states."""
    plain = b"".join(frames.instruction(k, frames.STATUS, b"\0" + state(k)) for k in IDS)
    fast = frames.HEADER + bytes([frames.BROADCAST]) + (1 + 14 * len(IDS)).to_bytes(2, "little") + b"\x55"
    for k in IDS:
        fast += bytes([0, k]) + state(k)
        fast += frames.crc16(fast).to_bytes(2, "little")
    ids, at = bytes(IDS), P_SERIES.present_current.address
    return {frames.sync_read(ids, at, 10): plain, frames.sync_read(ids, at, 10, fast=True): fast}


@pytest.fixture
def at_once() -> Iterator[SerialLine]:
    """A line to a process that answers at once."""
    import tty

    master, slave = os.openpty()
    tty.setraw(slave)
    pairs = [f"{request.hex()}:{reply.hex()}" for request, reply in replies().items()]
    with subprocess.Popen([sys.executable, "-c", SERVER, str(master), *pairs], pass_fds=[master]) as server:
        line = SerialLine(os.ttyname(slave), baud=1_000_000, clock=WallClock(), slice_s=0.5)
        yield line
        line.close()
        os.close(slave)
        os.close(master)
        server.kill()


@pytest.fixture
def on_the_bus(repository: Path) -> Iterator[SerialLine]:
    """A line to six simulated servos, paced to the wall clock."""
    script = repository / "tests" / "contract" / "dynamixel" / "serve_servos.py"
    with subprocess.Popen(
        [sys.executable, str(script), "1000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        line = SerialLine(server.stdout.readline().strip(), baud=1_000_000, clock=WallClock(), slice_s=0.5)
        time.sleep(0.2)
        yield line
        line.close()
        server.communicate(timeout=20.0)


def seconds(cycle: Callable[[], object]) -> float:
    time.sleep(PAUSE_S)
    began = time.perf_counter()
    cycle()
    return time.perf_counter() - began


def compare(line: SerialLine, *, fast: bool) -> tuple[float, float, Any]:
    """Return the time of a cycle of bytes and of one by the driver [s], and the driver."""
    bus = DynamixelLine(
        line, clock=WallClock(), where="test", names={k: str(k) for k in IDS}, baud=1_000_000, reply_deadline_s=2.0
    )
    arm = _driver(bus, StateReader(bus, IDS, P_SERIES, fast=fast, delay_s=0.0))
    port: Any = line._port
    request, reply = list(replies().items())[fast]
    currents = frames.sync_write(P_SERIES.goal_current.address, 2, dict.fromkeys(IDS, b"\x10\x00"))
    amperes = [0.1, -0.2, 0.3, -0.4, 0.5, -0.6]

    def by_bytes() -> None:
        port.write(request)
        assert len(port.read(len(reply))) == len(reply)
        port.write(currents)

    def by_driver() -> None:
        arm.read()
        arm.write_currents(amperes)

    for _ in range(20):
        by_bytes()
    times = [(seconds(by_bytes), seconds(by_driver)) for _ in range(CYCLES)]
    bare, driven = (statistics.median(column) for column in zip(*times, strict=True))
    kind = "fast" if fast else "plain"
    print(f"\n{kind} sync read: {bare * 1e6:.0f} us bytes, {driven * 1e6:.0f} us driver, ratio {driven / bare:.2f}")
    assert bus.statistics.timeouts == bus.statistics.stale == 0
    return bare, driven, arm


@pytest.mark.parametrize("fast", [False, True])
def test_a_cycle_on_the_bus_costs_at_most_a_third_more_than_its_bytes(
    on_the_bus: SerialLine, fast: bool, record_property: Callable[[str, object], None]
) -> None:
    bare, driven, _ = compare(on_the_bus, fast=fast)
    record_property("ratio", driven / bare)
    assert driven <= MOST_ON_THE_BUS * bare


@pytest.mark.parametrize("fast", [False, True])
def test_the_driver_costs_less_than_the_system_calls(
    at_once: SerialLine, fast: bool, record_property: Callable[[str, object], None]
) -> None:
    bare, driven, arm = compare(at_once, fast=fast)
    record_property("ratio", driven / bare)
    found = arm.read()
    assert found.current_a == pytest.approx([k * 1e-3 for k in IDS])
    assert [round(angle / arm._units[2]) for angle in found.position_rad] == [k + 2 * 256 + 3 * 65536 for k in IDS]
    assert driven <= MOST_AT_ONCE * bare


def _driver(bus: DynamixelLine, reader: StateReader) -> Any:
    """The driver as it is once it has met its servos: meeting them is not what is measured."""
    from bench.instruments.dynamixel import DynamixelBus
    from bench.instruments.dynamixel_models import servo_model

    model = servo_model("PH54-200-S500")
    arm = object.__new__(DynamixelBus)
    arm.ids, arm._bus, arm._line, arm._now_ns = IDS, bus, bus.line, bus.now_ns
    arm._reader, arm._writer = reader, CurrentWriter(bus, IDS, P_SERIES)
    arm._on, arm._timeouts, arm._silent_at_ns, arm._silence_ns = True, 0, 1 << 62, 1 << 62
    arm._limits, arm._turned, arm._per_ampere = [1.0] * 6, False, [1.0 / model.current_unit_a] * 6
    arm._units = [model.current_unit_a, model.velocity_unit_rad_s, model.radians_per_count] * 6
    return arm
