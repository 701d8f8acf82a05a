"""Each way a run on an arm can go wrong on the wire: brakes close, the archive is kept and says why, no joint drops."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

pytest.importorskip("pinocchio")

from bench.archive import Run
from bench.errors import InstrumentError, SafetyAbort
from bench.procedures import PROCEDURES, perform
from bench.procedures.arm_frame import ArmFrame
from bench.procedures.arm_loop import ArmCommand, ArmRecording, ArmTick
from bench.profile import load_procedure, load_specimen
from bench.station import Station

Strike = Callable[[Any], object]

#: How far a joint may turn after something went wrong, until the brakes hold it [rad]: at 0.14 rad/s when it happens,
#: a drain until it is seen, and the brakes' time.
TURNED_RAD = 0.05


@dataclass(frozen=True)
class Plan:
    duration_s: float = 5.0


class Bench:
    """Sways slowly under load, lets something happen in the middle of it, and returns what is left."""

    def __init__(
        self, open_rig: Callable[..., Any], repository: Path, results: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.open_rig = open_rig
        self.profiles = repository / "profiles"
        self.results = results
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(
            "bench.procedures.arm_frame.preflight",
            lambda *_: SimpleNamespace(refuse=lambda: None, lines=lambda: ["not looked at"]),
        )

    def sway(self, strike: Strike, *, forced: bool = False) -> Run:
        def run(station: Station, recording: ArmRecording, plan: Plan) -> None:
            recording.force_ticks(forced)
            home: list[float] = []

            def controller(tick: ArmTick, command: ArmCommand) -> None:
                if not home:
                    home.extend(tick.position)
                if tick.index == 100:
                    self.struck_s = station.clock.now_ns() * 1e-9
                    strike(station)
                phase = 3.0 * max(0.0, tick.time_s - 1.2)
                q = np.array(home) + 0.08 * (1.0 - np.cos(phase))
                v = np.full(6, 0.24 * np.sin(phase))
                feedback = recording.model.mass_matrix(q) @ (1000.0 * (q - tick.position) + 60.0 * (v - tick.velocity))
                command.torque[:] = (recording.model.gravity(q) + feedback).tolist()
                command.desired_position[:], command.desired_velocity[:] = q.tolist(), v.tolist()

            recording.run(controller, 2.0, text="swaying")

        procedure = load_procedure(self.profiles / "procedures/arm_tracking_short.toml")
        entry = SimpleNamespace(frame=ArmFrame, plan=lambda *_: Plan(), run=run)
        self.monkeypatch.setitem(PROCEDURES, procedure.procedure, entry)  # type: ignore[arg-type]
        with self.open_rig("payload_1kg", rig="full_arm", seed=4) as station:
            with pytest.raises(SafetyAbort) as stopped:
                perform(
                    station,
                    procedure,
                    load_specimen(self.profiles / "specimens/payload_1kg.toml"),
                    operator="A. Tester",
                    results_dir=self.results,
                )
            self.report = station.twin.control.report()
            self.history = station.twin.control.history()
            self.latched = station.arm.latched
        archive = stopped.value.archive
        assert archive is not None
        return Run.open(archive)

    def check_stopped(self, run: Run, *reasons: str, turned_rad: float = TURNED_RAD) -> str:
        """The run is ABORTED for one of ``reasons``, the twin's arm is braked and off; return the message."""
        assert run.status == "ABORTED"
        (event,) = [event for event in run.events if event.severity == "error"]
        assert event.code in reasons, run.reason
        assert run.reason.startswith(f"{event.code}: "), run.reason
        assert self.latched == event.code
        assert run.events[-1].code == "safe_state", run.events[-1]
        report = self.report
        assert report["braked"]
        assert not any(report[what] for what in ("enable", "brake_line", "makes_torque", "moving"))
        after = int(self.struck_s * 1e3)
        for joint in range(6):
            places = self.history[f"joint_{joint + 1}_position_rad"][after:]
            assert np.ptp(places) < turned_rad, f"joint {joint + 1} turned by {np.ptp(places):.3f} rad"
        return event.message


@pytest.fixture
def bench(open_rig: Callable[..., Any], repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bench:
    return Bench(open_rig, repository, tmp_path, monkeypatch)


def fault(name: str, **parameters: Any) -> Strike:
    return lambda station: station.twin.control.fault(name, **parameters)


# -- opening


@pytest.mark.parametrize(
    ("name", "parameters", "told"),
    [
        ("servo_missing", {"id": 13}, r"servo id 13 \(joint 3\)"),
        (
            "servo_model_changed",
            {"id": 15, "model": "XM430-W350"},
            r"servo id 15 \(joint 5\) is a XM430-W350.*PH42-020",
        ),
    ],
)
def test_servos_that_are_not_those_of_the_profile_are_named(
    open_rig: Callable[..., Any], name: str, parameters: dict[str, Any], told: str
) -> None:
    with pytest.raises(InstrumentError, match=told):
        open_rig("bare_tool", rig="full_arm", seed=4, faults=[{"name": name, "parameters": parameters}])


# -- in a run


def test_a_servo_that_falls_silent_is_named(bench: Bench) -> None:
    with bench.sway(fault("servo_missing", id=14)) as run:
        message = bench.check_stopped(run, "instrument_timeout")
        assert "servo id 14 (joint 4)" in message


def test_a_servo_that_stops_on_a_hardware_error_is_told_in_words(bench: Bench) -> None:
    with bench.sway(fault("servo_error", id=12)) as run:
        message = bench.check_stopped(run, "drive_fault")
        assert "servo id 12 (joint 2) has stopped: overload" in message


def test_an_unplugged_bus_is_braked_by_both_lines(bench: Bench) -> None:
    with bench.sway(fault("device_unplugged", device="arm")) as run:
        bench.check_stopped(run, "instrument_disconnected")
        steps = run.events[-1].message
        assert "stop arm: FAILED" in steps
        assert "drop enable line: ok" in steps
        assert "stand felt by the sensor: ok" in steps


def test_the_estop_is_told_and_not_the_servos_that_lost_their_supply(bench: Bench) -> None:
    with bench.sway(lambda station: station.twin.control.press_estop()) as run:
        bench.check_stopped(run, "estop")


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
def test_a_signal_leaves_the_arm_braked_and_seals_the_archive(bench: Bench) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with bench.sway(lambda station: os.kill(os.getpid(), signal.SIGTERM)) as run:
        bench.check_stopped(run, "signal_SIGTERM")
    assert signal.getsignal(signal.SIGTERM) == before


@pytest.mark.parametrize(("joint", "name"), [(2, "shoulder"), (3, "elbow")])
def test_an_encoder_that_freezes_is_told(bench: Bench, joint: int, name: str) -> None:
    with bench.sway(fault("axis_encoder_stuck", joint=joint)) as run:
        message = bench.check_stopped(run, "encoder_frozen", "joint_blocked", "not_following", turned_rad=0.12)
        assert f"joint {name}" in message


def test_a_loop_that_is_held_up_ends_before_its_servos_do(bench: Bench) -> None:
    def stall(station: Any) -> None:
        station.clock.sleep_until_ns(station.clock.now_ns() + 60_000_000)

    with bench.sway(stall) as run:
        message = bench.check_stopped(run, "missed_ticks")
        assert "missed in a row, at most 10 may be" in message


@pytest.mark.parametrize(
    ("name", "parameters", "reason", "forced"),
    [
        ("late_reply", {"delay": "60 ms", "count": 1}, "instrument_timeout", False),
        ("corrupt_checksum", {"count": 1}, "instrument_timeout", False),
        ("saturated_cell", {}, "sensor_saturated", False),
        ("saturated_cell", {}, "sensor_saturated", True),
        ("dropped_samples", {"count": 500}, "daq_gap", False),
        ("dropped_samples", {"count": 500}, "daq_gap", True),
    ],
)
def test_a_fault_of_the_bench_is_told_as_one(
    bench: Bench, name: str, parameters: dict[str, Any], reason: str, forced: bool
) -> None:
    with bench.sway(fault(name, **parameters), forced=forced) as run:
        bench.check_stopped(run, reason)
