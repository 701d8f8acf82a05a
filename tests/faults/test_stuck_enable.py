"""An enable line that cannot be dropped: the run is an error, the rig in quarantine until a person clears it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench import station_mock
from bench.archive import Run
from bench.cli import main
from bench.errors import QuarantineError, SafetyAbort
from bench.procedures import perform
from bench.profile import load_procedure, load_specimen
from bench.safety.lease import LeaseBook
from bench.safety.ledger import Ledger
from bench.safety.process_identity import identity_of
from bench.safety.quarantine import quarantines, rig_key

RIGS = {
    "indenter": ("liver_phantom_a", "indentation_short"),
    "single_joint": ("pendulum_arm", "low_speed_tracking"),
    "full_arm": ("bare_tool", "arm_tracking"),
}


class Kept:
    """A twin that goes on when the station that started it is closed."""

    def __init__(self, process: Any) -> None:
        self.process = process

    def __getattr__(self, name: str) -> Any:
        return getattr(self.process, name)

    def __enter__(self) -> Kept:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def lasting(open_rig: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """``lasting(rig)``: opens a station, each time on the same twin."""
    kept: list[Kept] = []
    real = station_mock.start_twin

    def start(*arguments: Any, **options: Any) -> Kept:
        if not kept:
            kept.append(Kept(real(*arguments, **options)))
        return kept[0]

    monkeypatch.setattr(station_mock, "start_twin", start)
    yield lambda rig: open_rig(RIGS[rig][0], rig=rig, seed=4)
    for twin in kept:
        twin.process.close()


def interrupted_run(station: Any, repository: Path, results: Path, rig: str) -> SafetyAbort:
    """Start a run in which the enable line sticks and something ends the run."""

    def progress(text: str, fraction: float | None) -> None:
        station.twin.control.fault("enable_stuck")
        raise ValueError("something of no account")

    specimen, procedure = RIGS[rig]
    with pytest.raises(SafetyAbort) as stopped:
        perform(
            station,
            load_procedure(repository / f"profiles/procedures/{procedure}.toml"),
            load_specimen(repository / f"profiles/specimens/{specimen}.toml"),
            operator="A. Tester",
            results_dir=results,
            progress=progress,
        )
    return stopped.value


@pytest.mark.parametrize("rig", RIGS)
def test_a_rig_whose_line_cannot_be_dropped_is_out_of_use_until_a_person_clears_it(
    lasting: Any,
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    rig: str,
) -> None:
    if rig == "full_arm":
        pytest.importorskip("pinocchio")
        checked = SimpleNamespace(refuse=lambda: None, lines=lambda: ["not looked at"])
        monkeypatch.setattr("bench.procedures.arm_frame.preflight", lambda *_: checked)
    station = lasting(rig)
    name = rig_key(rig, identity_of(station.twin.pid))

    stopped = interrupted_run(station, repository, tmp_path, rig)
    assert stopped.reason == "bench_error; safe_state_failed"
    assert stopped.archive is not None
    with Run.open(stopped.archive) as run:
        assert run.status == "ABORTED"
        assert run.reason.startswith("bench_error; safe_state_failed: ")
        told = run.events[-1].message
        assert "drop enable line: FAILED InstrumentError: the enable line was driven low and still reads high" in told
        assert "quarantine the rig: ok" in told

    for again in (lambda: interrupted_run(station, repository, tmp_path, rig), station.make_ready):
        with pytest.raises(QuarantineError, match="still reads high"):
            again()
    with pytest.raises(SafetyAbort, match="could not be made safe while closing") as closing:
        station.close()
    assert closing.value.reason == "safe_state_failed"
    assert LeaseBook().holders() == []

    with pytest.raises(QuarantineError) as refused:
        lasting(rig)
    for words in (f"the rig {name} is in quarantine since", "still reads high", str(stopped.archive)):
        assert words in refused.value.what
    capsys.readouterr()
    assert main(["quarantine"]) == 1
    assert capsys.readouterr().out.startswith(f"{name}: bench_error at ")

    station.twin.control.clear_fault("enable_stuck")
    assert main(["quarantine", "clear", name, "--by", " ", "--reason", "relay exchanged"]) == 2
    with pytest.raises(QuarantineError):
        lasting(rig)
    assert main(["quarantine", "clear", name, "--by", "R. Weber", "--reason", "relay exchanged"]) == 0
    with lasting(rig) as opened:
        opened.make_ready()
    entries = Ledger().entries()
    assert {entry.kind for entry in entries[:-1]} == {"quarantine", "watchdog"}, "the watchdog has tried too"
    assert entries[0].fields["archive"] == str(stopped.archive)
    assert set(entries[0].fields["serials"]) <= {identity.serial_number for identity in station.identities.values()}
    assert entries[-1].kind == "quarantine_cleared"
    assert (entries[-1].fields["by"], entries[-1].fields["reason"]) == ("R. Weber", "relay exchanged")


def test_a_line_that_sticks_when_the_station_is_closed_is_an_error_and_quarantines(lasting: Any) -> None:
    station = lasting("indenter")
    station.make_ready()
    station.twin.control.fault("enable_stuck")
    with pytest.raises(SafetyAbort, match="could not be made safe while closing"):
        station.close()
    (standing,) = quarantines()
    assert standing.reason in ("closed", "rest", "not_closed")
