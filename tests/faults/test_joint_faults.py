"""Each way a run on a joint can go wrong on the wire: the rig is made safe, the archive is kept and says why."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run
from bench.errors import SafetyAbort
from bench.procedures import perform
from bench.profile import load_procedure, load_specimen
from bench.station import JointStation

Strike = Callable[[JointStation], object]


class Bench:
    """Tracks slowly, lets something happen in the middle of it, and returns what is left."""

    def __init__(self, open_rig: Callable[..., Any], repository: Path, results: Path) -> None:
        self.open_rig = open_rig
        self.profiles = repository / "profiles"
        self.results = results
        self.report: dict[str, Any] = {}
        self.struck_s = 0.0
        self.latched = ""

    def track(self, strike: Strike, at: str = "uncompensated") -> Run:
        drains = 0

        def progress(text: str, fraction: float | None) -> None:
            nonlocal drains
            drains += at in text
            if drains == 3:
                self.struck_s = station.clock.now_ns() * 1e-9
                strike(station)

        with self.open_rig("pendulum_arm", rig="single_joint", seed=4) as station:
            with pytest.raises(SafetyAbort) as stopped:
                perform(
                    station,
                    load_procedure(self.profiles / "procedures/low_speed_tracking.toml"),
                    load_specimen(self.profiles / "specimens/pendulum_arm.toml"),
                    operator="A. Tester",
                    results_dir=self.results,
                    progress=progress,
                    overrides={"travel": "0.04 rad", "replicates": 1, "centre": "0.1 rad", "baseline_time": "0.2 s"},
                )
            self.report = station.twin.control.report()
            self.latched = station.drive.latched
            self.ended_s = station.clock.now_ns() * 1e-9
        archive = stopped.value.archive
        assert archive is not None
        return Run.open(archive)


@pytest.fixture
def bench(open_rig: Callable[..., Any], repository: Path, tmp_path: Path) -> Bench:
    return Bench(open_rig, repository, tmp_path)


def fault(name: str, **parameters: Any) -> Strike:
    return lambda station: station.twin.control.fault(name, **parameters)


def check_stopped(bench: Bench, run: Run, reason: str) -> str:
    """The run is ABORTED for ``reason``, the twin's joint is off and stands; return the message."""
    assert run.status == "ABORTED"
    assert run.reason.startswith(f"{reason}: "), run.reason
    (event,) = [event for event in run.events if event.severity == "error"]
    assert event.code == reason
    assert [e.code for e in run.events][-1] == "safe_state", run.events[-1]
    assert not bench.report["enable"]
    assert bench.latched == reason
    assert bench.ended_s - bench.struck_s < 8.0
    return event.message


def test_a_reply_that_is_sixty_milliseconds_late_ends_the_run(bench: Bench) -> None:
    with bench.track(fault("late_reply", delay="60 ms", count=1)) as run:
        message = check_stopped(bench, run, "instrument_timeout")
        assert "a torque command within 0.02 s" in message
        # what was commanded last is not repeated: the rows end where the reply was due
        assert run.get("motor_angle").time_s[-1] < run.get("joint_angle").time_s[-1] - 0.5


def test_a_drive_that_faults_is_told_in_words(bench: Bench) -> None:
    with bench.track(fault("drive_fault", code=33)) as run:
        message = check_stopped(bench, run, "drive_fault")
        assert "fault 33, motor driver fault" in message


def test_a_drive_that_gets_too_hot_ends_the_run(bench: Bench) -> None:
    with bench.track(fault("overheat", temperature="90 degC", within="0.5 s")) as run:
        message = check_stopped(bench, run, "temperature_limit")
        assert "limit 60 degC" in message
        assert run.get("drive_temperature").values.max() > 50.0


def test_a_drive_whose_commands_stop_coming_ends_its_torque_itself(bench: Bench) -> None:
    def stall(station: JointStation) -> None:
        station.clock.sleep_until_ns(station.clock.now_ns() + 150_000_000)

    with bench.track(stall) as run:
        # The loop counts 75 missed ticks as soon as it is back, before it could command a drive that has tripped.
        message = check_stopped(bench, run, "missed_ticks")
        assert "missed in a row" in message


def test_a_tripped_watchdog_is_told_as_one(bench: Bench) -> None:
    def stall(station: JointStation) -> None:
        station.drive.arm_watchdog(0.004)
        station.drive.torque(0.0)
        station.clock.sleep_until_ns(station.clock.now_ns() + 15_000_000)

    with bench.track(stall) as run:
        message = check_stopped(bench, run, "drive_watchdog")
        assert "mode 11" in message


def test_an_unplugged_drive_is_stopped_by_the_enable_line(bench: Bench) -> None:
    with bench.track(fault("device_unplugged", device="drive")) as run:
        check_stopped(bench, run, "instrument_disconnected")
        steps = run.events[-1].message
        assert "stop drive: FAILED" in steps
        assert "drop enable line: ok" in steps
        assert "stand seen by the encoder: ok" in steps


def test_the_estop_is_told_and_not_the_drive_that_lost_its_supply(bench: Bench) -> None:
    with bench.track(lambda station: station.twin.control.press_estop()) as run:
        message = check_stopped(bench, run, "estop")
        assert run.get("motor_angle").time_s[-1] <= run.get("joint_angle").time_s[-1]
        assert "e-stop" in message or "drive" in message


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_signal_ends_the_run_and_seals_the_archive(bench: Bench) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with bench.track(lambda station: os.kill(os.getpid(), signal.SIGTERM)) as run:
        check_stopped(bench, run, "signal_SIGTERM")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(
    ("name", "parameters", "reason"),
    [
        ("saturated_cell", {}, "sensor_saturated"),
        ("dropped_samples", {"count": 500}, "daq_gap"),
        ("corrupt_checksum", {"count": 1}, "instrument_timeout"),
    ],
)
def test_a_fault_of_the_bench_is_told_as_one(bench: Bench, name: str, parameters: dict[str, Any], reason: str) -> None:
    with bench.track(fault(name, **parameters)) as run:
        check_stopped(bench, run, reason)
