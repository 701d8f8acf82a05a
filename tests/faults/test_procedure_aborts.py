"""Each way a press can go wrong: the rig is made safe, the archive is kept and says why."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import Run
from bench.errors import SafetyAbort
from bench.procedures import perform
from bench.profile import SpecimenProfile, load_procedure, load_specimen
from bench.station import Station

OpenRig = Callable[..., Any]
Strike = Callable[[Station], object]


class Bench:
    """Presses a phantom, lets something happen at the first press, and returns what is left of it."""

    def __init__(self, open_rig: OpenRig, repository: Path, results: Path) -> None:
        self.open_rig = open_rig
        self.profiles = repository / "profiles"
        self.results = results
        self.report: dict[str, Any] = {}
        self.error: SafetyAbort | None = None

    def specimen(self, **changes: str) -> SpecimenProfile:
        """liver_phantom_a with keys of its profile changed: what the operator believes, not what is mounted."""
        source = self.profiles / "specimens" / "liver_phantom_a.toml"
        lines = source.read_text(encoding="utf-8").splitlines()
        for key, value in changes.items():
            (index,) = [i for i, line in enumerate(lines) if line.startswith(f"{key} =")]
            lines[index] = f'{key} = "{value}"'
        changed = self.results / "specimen.toml"
        changed.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return load_specimen(changed)

    def press(self, strike: Strike | None = None, specimen: SpecimenProfile | None = None, at: str = "pressing") -> Run:
        struck: list[float] = []

        def progress(text: str, fraction: float | None) -> None:
            if strike is not None and at in text and not struck:
                struck.append(1.0)
                strike(station)

        with self.open_rig(seed=4) as station:
            with pytest.raises(SafetyAbort) as stopped:
                perform(
                    station,
                    load_procedure(self.profiles / "procedures" / "indentation_short.toml"),
                    specimen or self.specimen(),
                    operator="A. Tester",
                    results_dir=self.results,
                    progress=progress,
                )
            self.report = station.twin.control.report()
            self.latched = station.stage.latched
        self.error = stopped.value
        assert stopped.value.archive is not None
        return Run.open(stopped.value.archive)


@pytest.fixture
def bench(open_rig: OpenRig, repository: Path, tmp_path: Path) -> Bench:
    return Bench(open_rig, repository, tmp_path)


def check_stopped(bench: Bench, run: Run, reason: str) -> str:
    """The archive is sealed as aborted for this reason, the rig is safe as the twin saw it; return the event's text."""
    assert bench.error is not None
    assert bench.error.reason == reason
    assert run.status == "ABORTED"
    assert run.reason.startswith(f"{reason}: ")
    (event,) = [event for event in run.events if event.severity == "error"]
    assert event.code == reason
    assert [e.code for e in run.events][-1] == "safe_state", run.events[-1]
    assert not bench.report["enable"]
    assert not bench.report["moving"]
    assert abs(bench.report["speed_mm_s"]) < 1e-9
    assert bench.latched == reason
    return event.message


def last_motion_s(run: Run) -> float:
    encoder = run.get("encoder_position", unit="mm")
    moving = np.flatnonzero(np.abs(encoder.values - encoder.values[-1]) > 0.005)
    return float(encoder.time_s[moving[-1]])


def test_the_force_limit_stops_within_a_block(bench: Bench) -> None:
    with bench.press(specimen=bench.specimen(max_force="0.5 N")) as run:
        message = check_stopped(bench, run, "force_limit")
        assert "limit 0.5 N" in message
        force = run.get("contact_force", unit="N")
        first_s = force.time_s[np.argmax(np.abs(force.values) > 0.5)]
        assert last_motion_s(run) - first_s < 0.1 + 0.05, "a block and a command on the wire"
        assert force.values.max() < 0.5 + 0.5


def test_the_tool_is_not_retracted_after_a_stop(bench: Bench) -> None:
    with bench.press(specimen=bench.specimen(max_force="0.5 N")) as run:
        encoder = run.get("encoder_position", unit="mm")
        assert encoder.values[-1] == pytest.approx(encoder.values.max(), abs=0.01)


def test_an_unplugged_stage_is_stopped_by_the_enable_line(bench: Bench) -> None:
    with bench.press(lambda station: station.twin.control.fault("device_unplugged", device="stage")) as run:
        message = check_stopped(bench, run, "instrument_disconnected")
        assert "stage" in message
        assert "stop stage: FAILED" in run.events[-1].message
        assert "drop enable line: ok; stand seen by the encoder: ok" in run.events[-1].message
        # Without the line it would have gone on to its target, 4 mm below the surface.
        assert run.get("encoder_position", unit="mm").values.max() < 32.0


def test_no_contact_ends_at_the_deepest_position_asked_for(bench: Bench) -> None:
    with bench.press(specimen=bench.specimen(surface_position="20 mm")) as run:
        message = check_stopped(bench, run, "no_contact")
        assert "beyond the nominal surface" in message
        assert run.get("encoder_position", unit="mm").values.max() == pytest.approx(24.0, abs=0.02)
        assert [phase.name for phase in run.phases] == ["baseline", "approach"]


def test_contact_before_enough_free_air_ends_the_run(bench: Bench) -> None:
    with bench.press(specimen=bench.specimen(surface_position="32.5 mm")) as run:
        message = check_stopped(bench, run, "baseline_too_short")
        assert "2 mm are needed" in message


@pytest.mark.skipif(os.name == "nt", reason="POSIX signals")
@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_a_signal_ends_the_run_and_seals_the_archive(bench: Bench, name: str) -> None:
    before = signal.getsignal(getattr(signal, name))
    with bench.press(lambda station: os.kill(os.getpid(), getattr(signal, name))) as run:
        check_stopped(bench, run, f"signal_{name}")
    assert signal.getsignal(getattr(signal, name)) == before


def test_an_encoder_that_contradicts_the_stage_is_no_witness_of_its_stand(bench: Bench) -> None:
    with bench.press(lambda station: station.twin.control.fault("stuck_encoder")) as run:
        message = check_stopped(bench, run, "positions_disagree")
        assert "the stage reports" in message
        assert "stand seen by the controller: ok" in run.events[-1].message
