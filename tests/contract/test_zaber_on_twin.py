"""The Zaber driver on the twin's process, in virtual time: the same contract, with the plant behind the controller."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import nidaqmx
import pytest

from bench.clock import sleep
from bench.errors import InstrumentDisconnected, InstrumentError, InstrumentTimeout
from bench.instruments.zaber_ascii import ZaberAsciiStage
from bench.twin.link import Link, grpc_channel
from bench.twin.process import start_twin


@pytest.fixture(scope="module")
def link(repository: Path) -> Iterator[Link]:
    """A link to a twin whose enable line is high."""
    profiles = repository / "profiles"
    with start_twin(
        profiles / "rigs" / "indenter.toml", profiles / "twins" / "indenter.toml", "liver_phantom_a", seed=1
    ) as twin:
        link = Link.connect(twin.link_address)
        with (
            grpc_channel(twin.grpc_address, link) as channel,
            nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(channel, "")) as enable,
        ):
            enable.do_channels.add_do_chan("Dev1/port0/line1")
            enable.write(True)
            yield link
        link.close()


def open_stage(link: Link) -> ZaberAsciiStage:
    return ZaberAsciiStage(
        link.url("stage"),
        clock=link.clock,
        max_speed_mm_s=20.0,
        acceleration_mm_s2=200.0,
        expected_serial_number="57012",
    )


@pytest.fixture
def stage(link: Link) -> Iterator[ZaberAsciiStage]:
    stage = open_stage(link)
    stage.home()
    yield stage
    stage.close()


def test_homes_moves_and_stands_where_it_says(link, stage):
    assert stage.is_homed()
    seconds = stage.start_move(5.0, 2.0)
    began_ns = link.clock.now_ns()
    stage.wait_idle(seconds)
    took = (link.clock.now_ns() - began_ns) * 1e-9
    assert 2.5 < took < seconds
    assert stage.position_mm() == pytest.approx(5.0, abs=1e-4)
    assert link.control.history()["travel_mm"][-1] == pytest.approx(5.0, abs=0.01)  # lag and screw error


def test_armed_limit_holds_without_a_host(link, stage):
    stage.arm_travel_limits(0.0, 3.0)
    with pytest.raises(InstrumentError, match="BADDATA"):
        stage.start_move(3.1, 2.0)
    stage.arm_travel_limits(0.0, 55.0)


def test_only_one_may_have_the_port(link, stage):
    with pytest.raises(InstrumentError, match="the port is in use"):
        open_stage(link)


def test_another_thread_may_stop_it(link, stage):
    """A monitor's stop gets through between two polls, without a deadlock in virtual time."""
    seconds = stage.start_move(20.0, 2.0)

    def watch() -> None:
        for _ in range(100):
            sleep(link.clock, 0.01)
            stage.is_moving()
        stage.stop()

    monitor = link.thread(watch, "monitor")
    with pytest.raises(InstrumentError, match="interrupted by another command"):
        stage.wait_idle(seconds)
    monitor.join(5.0)
    assert not stage.is_moving()
    assert stage.position_mm() == pytest.approx(2.0, abs=1.0)
    assert stage.statistics.timeouts == 0


def test_stall_is_named(link, stage):
    seconds = stage.start_move(20.0, 2.0)
    sleep(link.clock, 1.0)
    link.control.fault("stage_stall")
    with pytest.raises(InstrumentError, match="FS, stalled and stopped"):
        stage.wait_idle(seconds)
    link.control.clear_fault("stage_stall")
    stage.home()


def test_emergency_stop_is_named_and_the_stage_stands(link, stage):
    seconds = stage.start_move(20.0, 2.0)
    sleep(link.clock, 1.0)
    link.control.press_estop()
    with pytest.raises(InstrumentError, match="FH, the hardware emergency stop"):
        stage.wait_idle(seconds)
    stage.stop()
    stood = stage.position_mm()
    sleep(link.clock, 1.0)
    assert stage.position_mm() == stood == pytest.approx(2.0, abs=0.1)
    link.control.press_estop(False)
    stage.home()


def test_late_reply_is_named_and_not_taken_for_the_next(link, stage):
    stage.wait_idle(stage.start_move(5.0, 20.0))
    link.control.fault("late_reply")
    with pytest.raises(InstrumentTimeout, match=r"no valid reply to 'get pos' within 0\.5 s"):
        stage.position_mm()
    assert stage.is_homed()
    assert stage.position_mm() == pytest.approx(5.0, abs=1e-4)
    assert stage.statistics.stale_replies == 1


def test_corrupt_checksum_is_named(link, stage):
    link.control.fault("corrupt_checksum")
    with pytest.raises(InstrumentTimeout, match=r"1 damaged line\(s\)"):
        stage.position_mm()
    assert stage.position_mm() == 0.0


def test_unplugged_in_mid_move_is_told_at_once_and_for_good(link, stage):
    stage.start_move(20.0, 2.0)
    sleep(link.clock, 0.5)
    link.control.fault("device_unplugged")
    with pytest.raises(InstrumentDisconnected, match="the device went away"):
        stage.wait_idle(20.0)
    link.control.clear_fault("device_unplugged")
    with pytest.raises(InstrumentDisconnected, match="never reopens by itself"):
        stage.stop()
    stage.close()
    again = open_stage(link)  # a person plugs it in and opens it anew: it has run on meanwhile
    assert again.position_mm() > 0.9
    again.stop()
    again.close()
