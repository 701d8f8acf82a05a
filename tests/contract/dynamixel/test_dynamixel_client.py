"""The vendor's own client reads and commands the twin's servos over a pseudo-terminal, paced to the wall clock.

It proves framing, CRC, ids, addresses and errors on what it uses; what firmware does beyond that is assumed and written
down in ``docs/twin.md``. It also judges our driver's packets, without any line. (It sends without the stuffing that it
makes, so what needs stuffing is proven on the way back and by comparing packets.)
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.clock import WallClock
from bench.instruments import dynamixel_frames as frames
from bench.instruments.dynamixel import DynamixelBus, Servo

sdk = pytest.importorskip("dynamixel_sdk", reason="the vendor's client is in the extra `peers`")

pytestmark = pytest.mark.peer

IDS = (11, 12, 13, 14, 15, 16)
MODELS = dict(zip(IDS, (2020, 2020, 2010, 2010, 2000, 2000), strict=True))
OK = (sdk.COMM_SUCCESS, 0)
TORQUE, GOAL_CURRENT, CURRENT, VELOCITY, POSITION = 512, 550, 574, 576, 580


@pytest.fixture(scope="module")
def terminal() -> Iterator[str]:
    if sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    script = Path(__file__).with_name("serve_servos.py")
    with subprocess.Popen(
        [sys.executable, str(script), "1000000"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        path = server.stdout.readline().strip()
        time.sleep(0.2)
        yield path
        server.communicate(timeout=20.0)
        assert server.returncode == 0


@pytest.fixture(scope="module")
def client(terminal: str) -> Iterator[tuple[Any, Any]]:
    """Port and packet handler of protocol 2.0."""
    sdk.port_handler.LATENCY_TIMER = 150  # ms it gives an adapter: more than a stall of this machine
    port = sdk.PortHandler(terminal)
    assert port.openPort()
    assert port.setBaudRate(1_000_000)
    yield port, sdk.PacketHandler(2.0)
    port.closePort()


@pytest.fixture
def off(client: tuple[Any, Any]) -> Iterator[None]:
    """Motors off afterwards."""
    yield
    port, packets = client
    for servo_id in IDS:
        assert packets.write1ByteTxRx(port, servo_id, TORQUE, 0) == OK


def signed(value: int, size: int) -> int:
    return value - (1 << 8 * size) if value >> 8 * size - 1 else value


def state(client: tuple[Any, Any], *, fast: bool) -> dict[int, tuple[int, int, int]]:
    """Current, velocity and position counts by a sync read of the client."""
    port, packets = client
    group = sdk.GroupSyncRead(port, packets, CURRENT, 10)
    for servo_id in IDS:
        assert group.addParam(servo_id)
    assert (group.fastSyncRead() if fast else group.txRxPacket()) == sdk.COMM_SUCCESS
    found = {}
    for servo_id in IDS:
        assert group.isAvailable(servo_id, CURRENT, 10)
        found[servo_id] = tuple(
            signed(group.getData(servo_id, address, size), size)
            for address, size in ((CURRENT, 2), (VELOCITY, 4), (POSITION, 4))
        )
    return found


def command(client: tuple[Any, Any], counts: dict[int, int]) -> None:
    port, packets = client
    group = sdk.GroupSyncWrite(port, packets, GOAL_CURRENT, 2)
    for servo_id, count in counts.items():
        assert group.addParam(servo_id, list(count.to_bytes(2, "little", signed=True)))
    assert group.txPacket() == sdk.COMM_SUCCESS


@pytest.mark.parametrize("servo_id", IDS)
def test_pings_every_id(client, servo_id):
    port, packets = client
    assert packets.ping(port, servo_id) == (MODELS[servo_id], *OK)


def test_nobody_answers_to_another_id(client):
    port, packets = client
    assert packets.ping(port, 1)[1] == sdk.COMM_RX_TIMEOUT


def test_pings_everybody(client):
    port, packets = client
    found, result = packets.broadcastPing(port)
    assert result == sdk.COMM_SUCCESS
    assert found == {servo_id: [number, 12] for servo_id, number in MODELS.items()}


def test_reads_registers_of_every_size(client):
    port, packets = client
    assert packets.read1ByteTxRx(port, 14, 7) == (14, *OK)
    assert packets.read2ByteTxRx(port, 14, 38) == (15_900, *OK)
    assert packets.read4ByteTxRx(port, 15, 44) == (2920, *OK)
    assert packets.read2ByteTxRx(port, 13, 592) == (240, *OK)
    assert packets.read1ByteTxRx(port, 13, 594) == (33, *OK)


def test_writes_and_reads_back(client):
    port, packets = client
    assert packets.write1ByteTxRx(port, 11, 513, 200) == OK
    assert packets.read1ByteTxRx(port, 11, 513) == (200, *OK)
    assert packets.write2ByteTxRx(port, 11, 532, 400) == OK
    assert packets.read2ByteTxRx(port, 11, 532) == (400, *OK)
    # FF FF FD in the data: stuffed on the way back.
    for value in (0x00FDFFFF, 0x01FDFFFF - (1 << 32), -3):
        assert packets.write4ByteTxRx(port, 12, 20, value & 0xFFFFFFFF) == OK
        assert packets.read4ByteTxRx(port, 12, 20) == (value & 0xFFFFFFFF, *OK)
    assert packets.write4ByteTxRx(port, 12, 20, 0) == OK


def test_refusals_have_the_protocols_numbers(client, off):
    port, packets = client
    assert packets.write1ByteTxRx(port, 11, 512, 2)[1] == 4  # out of range
    assert packets.write2ByteTxRx(port, 11, 0, 5)[1] == 7  # read only
    assert packets.write2ByteTxRx(port, 11, 20, 5)[1] == 5  # half a register
    assert packets.write2ByteTxRx(port, 16, GOAL_CURRENT, 4501)[1] == 6  # above Current Limit
    assert packets.read2ByteTxRx(port, 11, 900)[2] == 7  # not there
    assert packets.write1ByteTxRx(port, 11, TORQUE, 1) == OK
    assert packets.write1ByteTxRx(port, 11, 11, 3)[1] == 7  # locked while the torque is on


@pytest.mark.parametrize("fast", [False, True])
def test_commands_currents_and_reads_the_state_of_six(client, off, fast):
    port, packets = client
    before = state(client, fast=fast)
    command(client, dict.fromkeys(IDS, 0))
    for servo_id in IDS:
        assert packets.write1ByteTxRx(port, servo_id, TORQUE, 1) == OK
    currents = {11: 300, 12: -300, 13: 200, 14: -200, 15: 100, 16: -100}
    command(client, currents)
    time.sleep(0.3)
    moving = state(client, fast=fast)
    for servo_id, current in currents.items():
        assert moving[servo_id][0] == current
        for way in (moving[servo_id][1], moving[servo_id][2] - before[servo_id][2]):
            assert (way > 0) == (current > 0)
            assert abs(way) > 100


def test_reads_different_registers_in_bulk(client):
    port, packets = client
    group = sdk.GroupBulkRead(port, packets)
    assert group.addParam(11, POSITION, 4)
    assert group.addParam(14, 592, 3)
    assert group.addParam(16, 0, 2)
    for read in (group.txRxPacket, group.fastBulkRead):
        assert read() == sdk.COMM_SUCCESS
        assert group.getData(14, 592, 2) == 240
        assert group.getData(14, 594, 1) == 34
        assert group.getData(16, 0, 2) == 2000


def test_registered_write_waits_for_the_action(client):
    port, packets = client
    assert packets.regWriteTxRx(port, 15, 514, 1, [77]) == OK
    assert packets.read1ByteTxRx(port, 15, 514) == (0, *OK)
    assert packets.read1ByteTxRx(port, 15, 517) == (1, *OK)
    assert packets.action(port, 15) == sdk.COMM_SUCCESS
    time.sleep(0.05)
    port.clearPort()
    assert packets.read1ByteTxRx(port, 15, 514) == (77, *OK)
    assert packets.read1ByteTxRx(port, 15, 517) == (0, *OK)


def test_reboots_a_servo(client):
    port, packets = client
    assert packets.write1ByteTxRx(port, 13, 515, 9) == OK
    assert packets.reboot(port, 13) == OK
    deadline = time.monotonic() + 10.0
    time.sleep(0.05)
    while packets.ping(port, 13)[1] != sdk.COMM_SUCCESS:
        assert time.monotonic() < deadline
    assert packets.read1ByteTxRx(port, 13, 515) == (0, *OK)  # what is lost without supply
    assert packets.read1ByteTxRx(port, 13, 11) == (0, *OK)  # what is kept


def test_our_driver_and_the_client_see_the_same(client, terminal, off):
    """One after the other on the same terminal, which both keep open."""
    names = {2020: "PH54-200-S500", 2010: "PH54-100-S500", 2000: "PH42-020-S300"}
    port, _ = client
    theirs = state(client, fast=False)
    port.closePort()
    servos = [Servo(servo_id, names[MODELS[servo_id]], 2.0) for servo_id in IDS]
    arm = DynamixelBus(terminal, clock=WallClock(), servos=servos, reply_deadline_s=0.5)
    try:
        ours = arm.read()
        for k, servo_id in enumerate(IDS):
            counts = ours.position_rad[k] * (1_003_846 if k < 4 else 607_500) / 6.283185307179586
            assert counts == pytest.approx(theirs[servo_id][2], abs=1500)  # they may still roll a little
    finally:
        arm.close()
        assert port.openPort()


def test_our_packets_are_theirs():
    """The client's CRC, stuffing and packet maker against ours."""
    packets = sdk.PacketHandler(2.0)
    rng = random.Random(5)
    stuffed = 0
    for _ in range(300):
        data = bytes(rng.choice((0xFF, 0xFF, 0xFD, 0x00, 0x31)) for _ in range(rng.randrange(1, 20)))
        body = [frames.WRITE, 550 & 0xFF, 550 >> 8, *data]
        theirs = packets.addStuffing([0xFF, 0xFF, 0xFD, 0, 12, len(body) + 2, 0, *body, 0, 0])
        crc = packets.updateCRC(0, theirs, len(theirs) - 2)
        assert frames.write(12, 550, data) == bytes(theirs[:-2]) + crc.to_bytes(2, "little")
        stuffed += b"\xff\xff\xfd" in data
    assert 20 < stuffed < 280
