"""The vendor's own client commands and reads the twin's drive over a pseudo-terminal, paced to the wall clock.

It proves framing, checksums, ids and units on what it uses; what firmware does beyond that is assumed and written down
in ``bench/twin/devices/moteus.py``. Its encoder and parser also judge our driver's frames, without any line.
"""

from __future__ import annotations

import asyncio
import math
import sys
import time
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import nidaqmx
import pytest

from bench.twin.process import start_twin

moteus = pytest.importorskip("moteus", reason="the vendor's client is in the extra `peers`")
protocol = pytest.importorskip("moteus.protocol")

pytestmark = pytest.mark.peer

R = moteus.Register
Session = Callable[[Callable[[Any], Coroutine[Any, Any, Any]]], Any]


@pytest.fixture(scope="module")
def terminal(repository: Path) -> Iterator[str]:
    """The pseudo-terminal of the joint's drive: ``bench twin single_joint --pty --real-time``, enable line high."""
    if sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    profiles = repository / "profiles"
    with (
        start_twin(
            profiles / "rigs" / "single_joint.toml",
            profiles / "twins" / "single_joint.toml",
            seed=1,
            real_time=True,
            pty=True,
        ) as process,
        grpc.insecure_channel(process.grpc_address) as channel,
        nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(channel, "")) as enable,
    ):
        enable.do_channels.add_do_chan("Dev1/port0/line1")
        enable.write(True)
        time.sleep(0.2)  # it boots for 50 ms
        yield process.serial["drive"]["pty"]


@pytest.fixture
def session(terminal: str) -> Session:
    """Run a coroutine that is given the client's controller of drive 1, stopped."""

    def run(talk: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        async def whole() -> Any:
            transport = moteus.Fdcanusb(terminal)
            try:
                controller = moteus.Controller(id=1, transport=transport)
                await controller.set_stop()
                return await talk(controller)
            finally:
                transport.close()
                await asyncio.sleep(0)

        return asyncio.run(asyncio.wait_for(whole(), 20.0))

    return run


async def torque(controller: Any, newton_metres: float, seconds: float) -> Any:
    """Command a torque every 10 ms; return the last reply."""
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while True:
        result = await controller.set_position(
            position=math.nan,
            kp_scale=0.0,
            kd_scale=0.0,
            ilimit_scale=0.0,
            feedforward_torque=newton_metres,
            watchdog_timeout=0.5,  # more than a stall of this machine
            query=True,
        )
        if loop.time() >= end:
            return result
        await asyncio.sleep(0.01)


def test_reads_the_state(session):
    state = session(lambda controller: controller.query()).values
    assert state[R.MODE] == moteus.Mode.STOPPED
    assert state[R.FAULT] == 0
    assert state[R.VOLTAGE] == pytest.approx(24.0, abs=0.5)
    assert state[R.TEMPERATURE] == pytest.approx(25, abs=3)
    assert {R.POSITION, R.VELOCITY, R.TORQUE} <= state.keys()


def test_commands_torque_and_reads_it_back(session):
    async def talk(controller: Any) -> tuple[Any, Any, Any]:
        pushed = (await torque(controller, 0.08, 0.3)).values
        pulled = (await torque(controller, -0.08, 0.6)).values
        await controller.set_stop()
        return pushed, pulled, (await controller.query()).values

    pushed, pulled, stopped = session(talk)
    assert pushed[R.MODE] == pulled[R.MODE] == moteus.Mode.POSITION
    # What the drive believes it makes, 1 kHz current loop behind the command.
    assert pushed[R.TORQUE] == pytest.approx(0.08, rel=1e-3)
    assert pulled[R.TORQUE] == pytest.approx(-0.08, rel=1e-3)
    assert pushed[R.VELOCITY] > 1.0  # revolutions of the rotor per second, past the friction of the gear
    assert pulled[R.VELOCITY] < -1.0
    assert stopped[R.MODE] == moteus.Mode.STOPPED
    assert stopped[R.TORQUE] == 0.0


def test_sees_the_watchdog_trip_and_stops_it(session):
    async def talk(controller: Any) -> list[Any]:
        modes = [(await torque(controller, 0.02, 0.1)).values[R.MODE]]
        await controller.set_position(
            position=math.nan, kp_scale=0.0, kd_scale=0.0, feedforward_torque=0.02, watchdog_timeout=0.1, query=True
        )
        await asyncio.sleep(0.3)
        modes.append((await controller.query()).values[R.MODE])
        modes.append((await torque(controller, 0.02, 0.0)).values[R.MODE])
        modes.append((await controller.query()).values[R.MODE])  # a command leads nowhere, only a stop does
        await controller.set_stop()
        modes.append((await controller.query()).values[R.MODE])
        return modes

    mode = moteus.Mode
    assert session(talk) == [mode.POSITION, mode.TIMEOUT, mode.TIMEOUT, mode.TIMEOUT, mode.STOPPED]


def test_reads_registers_in_every_resolution_and_identity(session):
    async def talk(controller: Any) -> Any:
        query = moteus.QueryResolution()
        query.position = query.velocity = query.torque = moteus.INT16
        query.voltage = moteus.F32
        query.temperature = moteus.INT32
        query.motor_temperature = moteus.F32
        query.trajectory_complete = query.home_state = moteus.INT8
        state = (await controller.query(query_override=query)).values
        words = dict.fromkeys((R.MODEL_NUMBER, R.FIRMWARE_VERSION, R.REGISTER_MAP_VERSION), moteus.INT32)
        identity = (await controller.custom_query(words)).values
        number = (await controller.custom_query({R.SERIAL_NUMBER1 + k: moteus.INT32 for k in range(3)})).values
        return state, identity, number

    state, identity, number = session(talk)
    assert state[R.VOLTAGE] == pytest.approx(24.0, abs=0.5)
    assert state[R.TEMPERATURE] == pytest.approx(25.0, abs=3.0)
    assert state[R.MOTOR_TEMPERATURE] == pytest.approx(25.0, abs=5.0)
    assert state[R.TRAJECTORY_COMPLETE] == state[R.HOME_STATE] == 1
    assert identity[R.FIRMWARE_VERSION] == 0x000300
    words = [number[R.SERIAL_NUMBER1 + k] & 0xFFFFFFFF for k in range(3)]
    assert words == [0x6A0F2D11, 0x3B7C4E58, 0x90A1B2C3]


def test_moves_towards_a_position_and_brakes(session):
    """A quarter turn of the rotor by the drive's own spring and damper; what is missing is friction's."""

    async def talk(controller: Any) -> tuple[Any, Any]:
        start = (await controller.query()).values[R.POSITION]
        loop = asyncio.get_running_loop()
        end = loop.time() + 0.8
        while loop.time() < end:
            result = await controller.set_position(position=start + 0.25, watchdog_timeout=0.5, query=True)
            await asyncio.sleep(0.01)
        await controller.set_brake()
        await asyncio.sleep(0.05)
        return result.values[R.POSITION] - start, (await controller.query()).values[R.MODE]

    moved, mode = session(talk)
    assert moved == pytest.approx(0.25, abs=0.02)  # 4 N.m a revolution against 18 mN.m of stiction
    assert mode == moteus.Mode.BRAKE


def test_our_frames_mean_to_its_parser_what_we_mean(open_drive, drive_line, pause):
    drive = open_drive(max_torque_nm=0.25, watchdog_s=0.05)
    for _ in range(8):
        drive.command_torque(-0.125)
        pause(2e-3)
    sent = bytes(drive_line.sent).splitlines()[-1].split()[3]
    command = protocol.parse_registers(bytes.fromhex(sent.decode()))
    assert command.command.pop(R.COMMAND_TIMEOUT) == pytest.approx(0.05)
    assert math.isnan(command.command.pop(R.COMMAND_POSITION))
    assert command.command == {
        R.MODE: moteus.Mode.POSITION,
        R.COMMAND_VELOCITY: 0.0,
        R.COMMAND_FEEDFORWARD_TORQUE: -0.125,
        R.COMMAND_KP_SCALE: 0.0,
        R.COMMAND_KD_SCALE: 0.0,
        R.COMMAND_POSITION_MAX_TORQUE: 0.25,
        R.COMMAND_ILIMIT_SCALE: 0.0,
    }
    asked = [R.MODE, R.POSITION, R.VELOCITY, R.TORQUE, R.MOTOR_TEMPERATURE, R.VOLTAGE, R.TEMPERATURE, R.FAULT]
    assert [register for register, _ in command.query] == asked


def test_its_parser_reads_what_ours_reads(drive, run, drive_line, monkeypatch):
    answers = []
    arrive = drive_line.wire._arrive
    monkeypatch.setattr(drive_line.wire, "_arrive", lambda data: (answers.append(data), arrive(data)))
    ours = run(0.02, 0.1)
    text = answers[-1].split(b"rcv ")[1].split()[1]
    theirs = protocol.parse_registers(bytes.fromhex(text.decode())).response
    assert ours.rotor_angle_rad == theirs[R.POSITION] * 2 * math.pi
    assert ours.rotor_velocity_rad_s == theirs[R.VELOCITY] * 2 * math.pi
    assert ours.rotor_torque_nm == theirs[R.TORQUE]
    assert (ours.voltage_v, ours.temperature_degc) == (theirs[R.VOLTAGE], theirs[R.TEMPERATURE])
    assert (ours.mode, ours.fault) == (theirs[R.MODE], theirs[R.FAULT])
    assert math.isnan(ours.motor_temperature_degc)
    assert math.isnan(theirs[R.MOTOR_TEMPERATURE])
