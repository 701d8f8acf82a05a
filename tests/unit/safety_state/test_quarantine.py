"""A rig in quarantine is refused, by name and by device, until a person says what was put right."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from bench.errors import QuarantineError, StateError
from bench.safety.ledger import Ledger
from bench.safety.process_identity import ProcessIdentity, this_host, this_process
from bench.safety.quarantine import Quarantine, check_quarantine, clear_quarantine, quarantines, rig_key
from bench.safety.state_dir import file_name, name_of, state_dir

SERIALS = ("01F2A3B4", "57012")


def impose(folder: Path, rig: str = "indenter") -> Quarantine:
    return Quarantine.impose(
        rig, SERIALS, "safe_state_failed", "the enable line reads high", archive="results/run.h5", folder=folder
    )


def test_a_quarantined_rig_is_refused_with_why_when_and_the_way_out(tmp_path: Path) -> None:
    check_quarantine("indenter", SERIALS, folder=tmp_path)
    made = impose(tmp_path)
    with pytest.raises(QuarantineError) as refused:
        check_quarantine("indenter", folder=tmp_path)
    for words in (
        "rig indenter is in",
        made.since_utc,
        "safe_state_failed",
        "enable line reads high",
        "results/run.h5",
    ):
        assert words in refused.value.what
    assert 'bench quarantine clear indenter --by NAME --reason "..."' in refused.value.remedy
    check_quarantine("single_joint", ["01F2A3B5"], folder=tmp_path)


def test_a_device_of_it_is_refused_in_every_rig(tmp_path: Path) -> None:
    impose(tmp_path)
    with pytest.raises(QuarantineError, match="the rig indenter, which shares the device 57012 with it, is in quar"):
        check_quarantine("another_rig", ["57012", "99"], folder=tmp_path)


def test_a_named_person_clears_it_with_a_reason_and_the_ledger_knows(tmp_path: Path) -> None:
    impose(tmp_path)
    for by, reason in (("", "relay exchanged"), ("R. Weber", "  ")):
        with pytest.raises(QuarantineError, match="nobody answers for it"):
            clear_quarantine("indenter", by=by, reason=reason, folder=tmp_path)
    with pytest.raises(QuarantineError, match=r"the rig inden is in no quarantine.*There is indenter"):
        clear_quarantine("inden", by="R. Weber", reason="relay exchanged", folder=tmp_path)
    cleared = clear_quarantine("indenter", by="R. Weber", reason="relay exchanged", folder=tmp_path)
    check_quarantine("indenter", SERIALS, folder=tmp_path)
    assert quarantines(tmp_path) == []
    put, taken = Ledger(tmp_path).entries()
    assert put.kind == "quarantine"
    assert put.fields["serials"] == list(SERIALS)
    assert put.fields["archive"] == "results/run.h5"
    assert (taken.kind, taken.digest) == ("quarantine_cleared", cleared.digest)
    assert {"by": "R. Weber", "reason": "relay exchanged", "was": "safe_state_failed"}.items() <= taken.fields.items()


def test_a_second_incident_keeps_the_first_ones_story(tmp_path: Path) -> None:
    first = impose(tmp_path)
    Quarantine.impose("indenter", ["99"], "watchdog", "the drive says that it drives", folder=tmp_path)
    (standing,) = quarantines(tmp_path)
    assert (standing.reason, standing.since_utc) == ("safe_state_failed", first.since_utc)
    assert set(standing.serials) == {*SERIALS, "99"}
    assert [entry.fields["reason"] for entry in Ledger(tmp_path).entries()] == ["safe_state_failed", "watchdog"]


@pytest.mark.parametrize("content", ['{"rig": "inde', '{"rig": "indenter"}', "[]"])
def test_a_damaged_file_keeps_the_rig_in_quarantine(tmp_path: Path, content: str) -> None:
    impose(tmp_path)
    next((tmp_path / "quarantine").iterdir()).write_text(content, encoding="utf-8")
    with pytest.raises(QuarantineError, match="unreadable"):
        check_quarantine("indenter", folder=tmp_path)
    clear_quarantine("indenter", by="R. Weber", reason="looked at it", folder=tmp_path)
    check_quarantine("indenter", folder=tmp_path)


def test_a_simulated_rig_is_not_the_real_one_and_goes_with_its_lab(tmp_path: Path) -> None:
    simulated = rig_key("indenter", this_process())
    assert simulated.startswith(f"indenter@twin-{os.getpid()}.")
    impose(tmp_path, simulated)
    check_quarantine("indenter", SERIALS, folder=tmp_path)
    with pytest.raises(QuarantineError):
        check_quarantine(simulated, SERIALS, folder=tmp_path)
    ended = rig_key("indenter", ProcessIdentity(this_host(), os.getpid(), "1"))
    impose(tmp_path, ended)
    assert [one.rig for one in quarantines(tmp_path)] == [simulated]
    check_quarantine(ended, SERIALS, folder=tmp_path)


# -- the folder


def test_the_folder_named_by_the_environment_is_made_open_to_everybody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BENCH_STATE_DIR", str(tmp_path / "a" / "b"))
    impose(state_dir())
    assert (tmp_path / "a/b/quarantine/indenter.json").exists()
    if os.name != "nt":
        assert stat.S_IMODE((tmp_path / "a/b").stat().st_mode) == 0o1777
        assert stat.S_IMODE((tmp_path / "a/b/quarantine/indenter.json").stat().st_mode) == 0o666


def test_a_folder_that_cannot_be_had_is_an_error_and_no_reason_to_go_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StateError, match="cannot be made") as refused:
        state_dir(tmp_path / "file")
    assert "BENCH_STATE_DIR" in refused.value.remedy


@pytest.mark.parametrize("key", ["daq-01F2A3B4", "indenter@twin-4.5", "a b/c%2F_ü", "..", "con:1"])
def test_every_key_has_a_file_name_of_its_own(key: str) -> None:
    name = file_name(key)
    assert name_of(Path("/x") / name) == key
    assert not set(name) & set('/\\:*?"<>| ')
