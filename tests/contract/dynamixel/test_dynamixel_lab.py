"""The vendor's own client on the whole simulated arm, its power and brakes switched by an NI DAQ client beside it."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import nidaqmx
import pytest

from bench.twin.process import start_twin

sdk = pytest.importorskip("dynamixel_sdk", reason="the vendor's client is in the extra `peers`")
pytest.importorskip("mujoco", reason="needs the extra arm")

pytestmark = [
    pytest.mark.peer,
    pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals"),
]

IDS = (11, 12, 13, 14, 15, 16)
NUMBERS = (2020, 2020, 2010, 2010, 2000, 2000)
OK = (sdk.COMM_SUCCESS, 0)
#: Addresses of the P series, as its control table has them.
OPERATING_MODE, TORQUE_ENABLE, GOAL_CURRENT, PRESENT_POSITION = 11, 512, 550, 580
#: Counts of a closed brake: what elastic joints give way, and a turning one's least way in the same time.
GIVES_WAY, TURNS = 1000, 5000


@pytest.fixture
def lab(repository: Path) -> Iterator[Any]:
    """Port, packet handler, and ``switch(enable, brakes)``."""
    profiles = repository / "profiles"
    with contextlib.ExitStack() as opened:
        twin = opened.enter_context(
            start_twin(profiles / "rigs/full_arm.toml", profiles / "twins/full_arm.toml", real_time=True, pty=True)
        )
        channel = opened.enter_context(grpc.insecure_channel(twin.grpc_address))
        lines = opened.enter_context(nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(channel, "")))
        lines.do_channels.add_do_chan("Dev1/port0/line1")
        lines.do_channels.add_do_chan("Dev1/port0/line2")
        sdk.port_handler.LATENCY_TIMER = 1000  # ms it gives an adapter: more than a stall of a busy machine
        port = sdk.PortHandler(twin.serial["arm"]["pty"])
        assert port.openPort()
        opened.callback(port.closePort)
        assert port.setBaudRate(1_000_000)
        yield port, sdk.PacketHandler(2.0), lambda enable, brakes: lines.write([enable, brakes])


def positions(port: Any, packets: Any, *, fast: bool) -> list[int]:
    group = sdk.GroupSyncRead(port, packets, PRESENT_POSITION, 4)
    assert all(group.addParam(servo_id) for servo_id in IDS)
    deadline = time.monotonic() + 60.0
    while (group.fastSyncRead() if fast else group.txRxPacket()) != sdk.COMM_SUCCESS:
        assert time.monotonic() < deadline  # a machine that is late with a whole lab may miss the client's deadline
    found = [group.getData(servo_id, PRESENT_POSITION, 4) for servo_id in IDS]
    return [value - (1 << 32) if value >> 31 else value for value in found]


def test_six_servos_of_the_whole_arm_with_their_brakes(lab: Any) -> None:
    port, packets, switch = lab
    switch(False, False)
    port.setPacketTimeoutMillis(50)
    assert packets.ping(port, 16)[1] != sdk.COMM_SUCCESS  # without supply nobody answers

    switch(True, False)
    deadline = time.monotonic() + 60.0
    while packets.ping(port, 16)[1] != sdk.COMM_SUCCESS:
        assert time.monotonic() < deadline
    for servo_id, number in zip(IDS, NUMBERS, strict=True):
        assert packets.ping(port, servo_id) == (number, *OK)
        assert packets.read1ByteTxRx(port, servo_id, OPERATING_MODE) == (0, *OK)  # current control
    stands = positions(port, packets, fast=True)
    assert positions(port, packets, fast=False) == pytest.approx(stands, abs=GIVES_WAY)

    def command(milliamperes: int) -> None:
        group = sdk.GroupSyncWrite(port, packets, GOAL_CURRENT, 2)
        for servo_id in IDS:
            told = milliamperes if servo_id == IDS[-1] else 0
            assert group.addParam(servo_id, list(told.to_bytes(2, "little", signed=True)))
        assert group.txPacket() == sdk.COMM_SUCCESS

    for servo_id in IDS:
        assert packets.write1ByteTxRx(port, servo_id, TORQUE_ENABLE, 1) == OK
    command(300)  # of the flange: 1.5 N.m at the joint, whose friction is 0.3
    time.sleep(0.3)
    braked = positions(port, packets, fast=True)
    assert braked == pytest.approx(stands, abs=GIVES_WAY)  # the brakes hold against the current

    switch(True, True)
    deadline = time.monotonic() + 60.0
    while positions(port, packets, fast=True)[-1] - braked[-1] < TURNS:
        assert time.monotonic() < deadline
    switch(True, False)
    command(0)
    time.sleep(0.5)
    held = positions(port, packets, fast=True)
    time.sleep(0.2)
    assert positions(port, packets, fast=True) == pytest.approx(held, abs=GIVES_WAY)
