"""``bench quarantine`` and ``bench leases``: what they print, and their exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.cli import main
from bench.safety.lease import LeaseBook
from bench.safety.quarantine import Quarantine


def test_without_anything_amiss(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quarantine"]) == 0
    assert main(["leases"]) == 0
    assert main(["quarantine", "ledger"]) == 0
    told = capsys.readouterr().out.splitlines()
    assert told[:2] == ["no rig is in quarantine", "nobody holds a device"]
    assert told[2].endswith("ledger.jsonl: 0 entries, each follows from the one before")


def test_a_quarantine_is_listed_cleared_and_stays_in_the_ledger(capsys: pytest.CaptureFixture[str]) -> None:
    Quarantine.impose("indenter", ["57012"], "estop", "the line reads high", archive="results/a.h5")
    assert main(["quarantine", "list"]) == 1
    listed = capsys.readouterr().out
    assert listed.startswith("indenter: estop at 20")
    assert "(the line reads high); devices 57012; archive results/a.h5" in listed

    assert main(["quarantine", "clear", "joint", "--by", "R. Weber", "--reason", "relay exchanged"]) == 2
    assert "error: the rig joint is in no quarantine" in capsys.readouterr().err
    with pytest.raises(SystemExit) as usage:
        main(["quarantine", "clear", "indenter", "--by", "R. Weber"])
    assert usage.value.code == 2
    assert "--reason" in capsys.readouterr().err
    assert main(["quarantine", "list"]) == 1
    capsys.readouterr()

    assert main(["quarantine", "clear", "indenter", "--by", "R. Weber", "--reason", "relay exchanged"]) == 0
    digest = capsys.readouterr().out.rpartition("digest ")[2].strip()
    assert main(["quarantine", "list"]) == 0
    assert main(["quarantine", "ledger"]) == 0
    first, second, last = capsys.readouterr().out.splitlines()[-3:]
    assert "quarantine: rig indenter, serials ['57012'], reason estop" in first
    assert "quarantine_cleared: rig indenter, by R. Weber, reason relay exchanged" in second
    assert last.endswith(f"2 entries, each follows from the one before, the last one's digest is {digest}")


def test_a_ledger_that_was_changed_has_no_answer(capsys: pytest.CaptureFixture[str], state_folder: Path) -> None:
    for rig in "ab":
        Quarantine.impose(rig, [], "estop", "the line reads high")
    path = state_folder / "ledger.jsonl"
    path.write_text(path.read_text(encoding="utf-8").replace('"rig": "a"', '"rig": "c"'), encoding="utf-8")
    assert main(["quarantine", "ledger"]) == 2
    assert "error: line 2 does not follow from the one before" in capsys.readouterr().err


def test_a_lease_is_listed_with_its_holder(capsys: pytest.CaptureFixture[str]) -> None:
    lease = LeaseBook().acquire("daq-01F2A3B4", rig="indenter")
    assert main(["leases"]) == 0
    told = capsys.readouterr().out
    assert told.startswith("daq-01F2A3B4: ")
    assert "for the rig indenter since 20" in told
    assert "stale" not in told
    lease.release()
