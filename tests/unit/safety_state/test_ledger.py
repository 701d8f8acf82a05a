"""The ledger: what goes in stays in, and a line that was changed is found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.errors import StateError
from bench.safety import ledger
from bench.safety.ledger import Ledger


def lines(folder: Path) -> list[str]:
    return (folder / "ledger.jsonl").read_text(encoding="utf-8").splitlines()


def test_entries_come_back_in_order_and_say_who_when_and_where(tmp_path: Path) -> None:
    first = Ledger(tmp_path).append("quarantine", rig="indenter", reason="Bremse löst nicht")
    second = ledger.append("watchdog_trip", folder=tmp_path, rig="full_arm")
    entries = Ledger(tmp_path).entries()
    assert [(e.number, e.kind, e.digest) for e in entries] == [
        (1, "quarantine", first.digest),
        (2, "watchdog_trip", second.digest),
    ]
    assert entries[0].fields["reason"] == "Bremse löst nicht"
    assert entries[1].fields["previous"] == first.digest
    assert {"utc", "user", "host", "pid"} <= set(entries[0].fields)


@pytest.mark.parametrize("spoil", ["changed", "removed", "inserted", "swapped"])
def test_a_line_that_was_tampered_with_breaks_the_chain(tmp_path: Path, spoil: str) -> None:
    for number in range(4):
        ledger.append("quarantine", folder=tmp_path, rig=f"rig {number}")
    there = lines(tmp_path)
    if spoil == "changed":
        there[1] = there[1].replace("rig 1", "rig 7")
    elif spoil == "removed":
        del there[1]
    elif spoil == "inserted":
        there.insert(1, json.dumps(json.loads(there[0]) | {"number": 2}))
    else:
        there[1], there[2] = there[2], there[1]
    (tmp_path / "ledger.jsonl").write_text("\n".join(there) + "\n", encoding="utf-8")
    with pytest.raises(StateError, match=r"line [23] does not follow from the one before"):
        Ledger(tmp_path).entries()


def test_a_line_a_power_cut_left_unfinished_is_passed_over(tmp_path: Path) -> None:
    ledger.append("quarantine", folder=tmp_path, rig="a")
    with (tmp_path / "ledger.jsonl").open("ab") as file:
        file.write(b'{"number": 2, "kind": "quar')
    ledger.append("quarantine_cleared", folder=tmp_path, rig="a")
    assert [(entry.number, entry.kind) for entry in Ledger(tmp_path).entries()] == [
        (1, "quarantine"),
        (3, "quarantine_cleared"),
    ]


def test_processes_that_write_at_once_lose_nothing(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from bench.safety import ledger\n"
    program += "for k in range(20): ledger.append('test', folder=Path(sys.argv[1]), by=sys.argv[2], k=k)"
    writers = [
        subprocess.Popen([sys.executable, "-c", program, str(tmp_path), name], stderr=subprocess.PIPE) for name in "abc"
    ]
    for writer in writers:
        _, errors = writer.communicate(timeout=60)
        assert writer.returncode == 0, errors.decode()
    entries = Ledger(tmp_path).entries()
    assert len(entries) == 60
    for name in "abc":
        assert [e.fields["k"] for e in entries if e.fields["by"] == name] == list(range(20))


def test_no_ledger_is_an_empty_one(tmp_path: Path) -> None:
    assert Ledger(tmp_path).entries() == []
