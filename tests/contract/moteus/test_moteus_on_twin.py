"""The moteus driver on the twin's process, in virtual time: the same contract, with joint, enable line and e-stop."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import nidaqmx
import pytest

from bench.clock import sleep
from bench.errors import DriveFault, DriveWatchdogTripped, InstrumentDisconnected, InstrumentError, InstrumentTimeout
from bench.instruments.moteus import MoteusDrive
from bench.twin.link import Link, grpc_channel
from bench.twin.process import start_twin

TURN = 2 * math.pi


@pytest.fixture(scope="module")
def link(repository: Path) -> Iterator[Link]:
    """A link to a twin whose enable line is high."""
    profiles = repository / "profiles"
    with start_twin(profiles / "rigs" / "single_joint.toml", profiles / "twins" / "single_joint.toml", seed=1) as twin:
        link = Link.connect(twin.link_address)
        with (
            grpc_channel(twin.grpc_address, link) as channel,
            nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(channel, "")) as enable,
        ):
            enable.do_channels.add_do_chan("Dev1/port0/line1")
            enable.write(True)
            yield link
        link.close()


def open_drive(link: Link) -> MoteusDrive:
    return MoteusDrive(
        link.url("drive"),
        clock=link.clock,
        max_torque_nm=0.25,
        expected_serial_number="6A0F2D11-3B7C4E58-90A1B2C3",
    )


@pytest.fixture
def drive(link: Link) -> Iterator[MoteusDrive]:
    drive = open_drive(link)
    drive.clear_fault()
    yield drive
    drive.close()


def run(link: Link, drive: MoteusDrive, torque_nm: float, seconds: float):
    """Command a torque every 2 ms for some seconds and return the last state."""
    state = drive.state()
    for _ in range(round(seconds / 2e-3)):
        state = drive.command_torque(torque_nm)
        sleep(link.clock, 2e-3)
    return state


def test_drives_the_joint_and_reports_its_rotor(link, drive):
    before, stood = drive.state(), link.control.history()["joint_angle_rad"][-1]
    state = run(link, drive, 0.06, 0.3)
    assert state.mode == 10
    assert state.rotor_torque_nm == pytest.approx(0.06, rel=1e-3)
    turned = (state.rotor_angle_rad - before.rotor_angle_rad) / 100.0
    assert turned > 0.02
    # Gear ratio 100; wind-up of the gear, and 2 ms between the two readings.
    assert link.control.history()["joint_angle_rad"][-1] - stood == pytest.approx(turned, abs=5e-3)
    drive.stop()


def test_watchdog_ends_the_torque_without_a_host(link, drive):
    run(link, drive, 0.06, 0.1)
    sleep(link.clock, 0.12)
    assert link.control.history()["motor_torque_Nm"][-1] == pytest.approx(0.0, abs=1e-6)
    with pytest.raises(DriveWatchdogTripped, match="watchdog has tripped"):
        drive.command_torque(0.06)


def test_emergency_stop_takes_the_supply_and_no_silent_restart_follows(link, drive):
    run(link, drive, 0.06, 0.05)
    link.control.press_estop()
    with pytest.raises(InstrumentTimeout, match="drive id 1 does not answer"):
        drive.command_torque(0.06)
    link.control.press_estop(False)
    sleep(link.clock, 0.2)
    with pytest.raises(InstrumentError, match="no longer followed the torque commands"):
        drive.command_torque(0.0)
    assert drive.stop().mode == 0


def test_fault_in_mid_run_is_named(link, drive):
    run(link, drive, 0.0, 0.02)
    link.control.fault("drive_fault", code=33)
    with pytest.raises(DriveFault, match="fault 33, motor driver fault"):
        drive.command_torque(0.0)


def test_reply_late_by_60_ms_is_an_error_and_never_the_next_reply(link, drive):
    run(link, drive, 0.0, 0.02)
    link.control.fault("late_reply", delay=0.06)
    with pytest.raises(InstrumentTimeout, match=r"answers a torque command within 0\.02 s"):
        drive.command_torque(0.0)
    assert drive.stop().mode == 0


def test_damaged_reply_is_told(link, drive):
    link.control.fault("corrupt_checksum")
    with pytest.raises(InstrumentTimeout, match=r"1 damaged line\(s\)"):
        drive.state()
    assert drive.state().mode == 0


def test_missing_id_ends_at_our_deadline(link):
    began_ns = link.clock.now_ns()
    with pytest.raises(InstrumentTimeout, match="drive id 7 does not answer its identity"):
        MoteusDrive(link.url("drive"), clock=link.clock, max_torque_nm=0.25, device_id=7)
    assert link.clock.now_ns() - began_ns < 0.4e9


def test_unplugged_in_mid_run_is_told_at_once_and_for_good(link, drive):
    run(link, drive, 0.0, 0.02)
    link.control.fault("device_unplugged", device="drive")
    with pytest.raises(InstrumentDisconnected, match="the device went away"):
        drive.command_torque(0.0)
    link.control.clear_fault("device_unplugged")
    with pytest.raises(InstrumentDisconnected, match="never reopens by itself"):
        drive.stop()
    drive.close()
    again = open_drive(link)  # a person plugs it in and opens it anew: its watchdog has tripped meanwhile
    sleep(link.clock, 0.1)
    assert again.state().mode == 11
    again.close()
