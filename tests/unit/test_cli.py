"""The command `bench`: exit codes, sentences instead of tracebacks, and an archive that judging leaves as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import h5py
import numpy as np
import pytest

import bench.acceptance
from bench.acceptance import Outcome, Row, Verdict
from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter, add_verdict
from bench.cli import main
from bench.profile import CriteriaProfile

GROUPS = [
    GroupSpec("force", (DatasetSpec("contact", "N", "force", ("contact_force",)),), 100.0, 10),
    GroupSpec("stage", (DatasetSpec("position", "mm", "length", ("stage_position",)),), None, 10),
]


def recorded(folder: Path, texts: dict[str, str] | None = None, status: str = "COMPLETE") -> Path:
    """Archive a short simulated run with two channels, a phase and an event."""
    provenance = Provenance(
        operator="A. Example", specimen="liver_phantom_a", procedure="indentation", rig="indenter",
        started_utc=datetime(2026, 3, 1, 12, tzinfo=UTC), backend="mock", simulated=True, seed=7, texts=texts or {},
    )  # fmt: skip
    with RunWriter.create(folder, "indentation", provenance, GROUPS) as writer:
        writer.append("force", {"contact": np.zeros((20, 1))}, np.arange(20) / 100)
        writer.append("stage", {"position": np.zeros((5, 1))}, np.arange(5) / 25)
        writer.phase("rise", 0, 2.0, 0.05, 0.15)
        writer.event(0.1, "info", "touched", "contact at 12.3 mm")
        return writer.close(status, "" if status == "COMPLETE" else "estop")


@pytest.fixture
def criteria_text(repository: Path) -> str:
    return (repository / "profiles" / "acceptance" / "contact_model.toml").read_text(encoding="utf-8")


@pytest.fixture
def judged_by(monkeypatch: pytest.MonkeyPatch) -> list[CriteriaProfile]:
    """Replace the judgement by one that passes 10 % limits and fails 5 % ones; returns the criteria it was given."""
    given: list[CriteriaProfile] = []

    def judge_run(run: Run, criteria: CriteriaProfile) -> Verdict:
        given.append(criteria)
        limit = criteria.criteria[0].limit.to("%")
        outcome = Outcome.PASS if limit == 10 else Outcome.FAIL if limit == 5 else Outcome.ERROR
        row = Row("peak_force", "peak_force_deviation", 7.0, 1.0, limit, "%", outcome)
        return Verdict(
            outcome, (row,), "contact stiffness explains 80 %", criteria.name, criteria.version,
            criteria.source.sha256, run.path.name, run.digest, run.simulated, "0",
        )  # fmt: skip

    monkeypatch.setattr(bench.acceptance, "judge_run", judge_run, raising=False)
    return given


# -- check


def test_check_is_silent_about_good_profiles_and_lists_all_problems_of_bad_ones(
    repository: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], criteria_text: str
) -> None:
    assert main(["check", str(repository / "profiles")]) == 0
    assert capsys.readouterr().out.startswith("no problem in ")
    bad = tmp_path / "acceptance"
    bad.mkdir()
    wrong = criteria_text.replace('"15 %"', '"15 N"').replace('"guard_band"', '"guardband"', 1)
    (bad / "contact_model.toml").write_text(wrong, encoding="utf-8")
    assert main(["check", str(tmp_path)]) == 1
    shown = capsys.readouterr()
    assert "criteria[1].limit" in shown.out
    assert "criteria[0].decision" in shown.out
    assert shown.err.strip() == "2 problems in 1 profile"


def test_check_says_that_a_folder_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(tmp_path / "profils")]) == 1
    assert "profils" in capsys.readouterr().out


# -- judge


def test_judge_uses_the_archived_criteria_and_leaves_the_archive_alone(
    tmp_path: Path, criteria_text: str, judged_by: list[CriteriaProfile], capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, {"acceptance/contact_model.toml": criteria_text, "procedure.toml": ""})
    before = path.read_bytes()
    assert main(["judge", str(path), "--operator", "B. Example"]) == 0
    assert path.read_bytes() == before
    assert judged_by[0].source.text == criteria_text
    shown = capsys.readouterr().out
    assert f"contact_model {judged_by[0].version}: PASS (SIMULATED)" in shown
    assert "peak_force: 7 ± 1 %, limit 10 %: PASS" in shown
    with Run.open(path) as run:
        (verdict,) = run.verdicts
    assert verdict.record["judged"]["by"] == "bench judge"
    assert verdict.record["judged"]["operator"] == "B. Example"


def test_a_second_judgement_supersedes_the_first(
    tmp_path: Path, criteria_text: str, judged_by: list[CriteriaProfile], capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, {"acceptance/contact_model.toml": criteria_text})
    stricter = tmp_path / "contact_model.toml"
    stricter.write_text(criteria_text.replace('"10 %"', '"5 %"'), encoding="utf-8")
    assert main(["judge", str(path)]) == 0
    assert main(["judge", str(path), "--criteria", str(stricter)]) == 1
    assert "contact stiffness explains 80 %" in capsys.readouterr().out
    with Run.open(path) as run:
        first, second = run.verdicts
    assert (first.record["outcome"], second.record["outcome"]) == ("PASS", "FAIL")
    assert (first.supersedes, second.supersedes) == (None, 1)


def test_an_error_is_no_answer(tmp_path: Path, criteria_text: str, judged_by: list[CriteriaProfile]) -> None:
    path = recorded(tmp_path, {"acceptance/contact_model.toml": criteria_text.replace('"10 %"', '"11 %"')})
    assert main(["judge", str(path)]) == 2


def test_judge_asks_which_criteria_when_the_archive_leaves_it_open(
    tmp_path: Path, criteria_text: str, judged_by: list[CriteriaProfile], capsys: pytest.CaptureFixture[str]
) -> None:
    none, two = tmp_path / "none", tmp_path / "two"
    other = criteria_text.replace('name = "contact_model"', 'name = "other"')
    bare = recorded(none)
    both = recorded(two, {"acceptance/contact_model.toml": criteria_text, "acceptance/other.toml": other})
    assert main(["judge", str(bare)]) == 2
    assert "error: the archive holds no criteria" in capsys.readouterr().err
    assert main(["judge", str(both)]) == 2
    shown = capsys.readouterr().err
    assert "the archive holds contact_model, other" in shown
    assert "remedy: Say which decide: --criteria NAME or PATH" in shown
    add_verdict(both, {"criteria_name": "other"})
    assert main(["judge", str(both)]) == 0
    assert judged_by[-1].name == "other", "those of the verdict that stands"


def test_criteria_for_another_procedure_do_not_decide_unless_they_are_named(
    repository: Path, tmp_path: Path, judged_by: list[CriteriaProfile], capsys: pytest.CaptureFixture[str]
) -> None:
    profiles = repository / "profiles"
    every = {f"acceptance/{p.name}": p.read_text(encoding="utf-8") for p in (profiles / "acceptance").glob("*.toml")}

    def run_of(procedure: str) -> Path:
        text = (profiles / f"procedures/{procedure}.toml").read_text(encoding="utf-8")
        return recorded(tmp_path / procedure, {**every, "procedure.toml": text})

    for procedure, criteria in (
        ("wrench_check_short", "arm_wrench"),
        ("payload_hold", "arm_payload"),
        ("arm_tracking", "arm_friction_compensation"),
        ("arm_excitation", "arm_identification"),
        ("approach_touch", "arm_touch"),
        ("impedance_step", "impedance_step"),
    ):
        main(["judge", str(run_of(procedure))])
        assert judged_by[-1].name == criteria
    assert main(["judge", str(run_of("friction_sweep"))]) == 2
    assert "the archive holds no criteria for a run of" in capsys.readouterr().err
    press = run_of("indentation")
    add_verdict(press, {"criteria_name": "contact_model"})
    add_verdict(press, {"criteria_name": "arm_payload"})
    main(["judge", str(press)])
    assert judged_by[-1].name == "contact_model", "arm_payload was named by mistake"
    judged, written = len(judged_by), sorted(press.parent.iterdir())
    capsys.readouterr()
    assert main(["judge", str(press), "--criteria", str(profiles / "acceptance/arm_payload.toml")]) == 2
    assert "the criteria arm_payload judge payload_hold; the run is of indentation" in capsys.readouterr().err
    assert len(judged_by) == judged
    assert sorted(press.parent.iterdir()) == written, "a verdict that stands is not superseded by a mistake"


def test_archived_criteria_of_another_version_are_refused_with_a_remedy(
    tmp_path: Path, criteria_text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = recorded(tmp_path, {"acceptance/contact_model.toml": criteria_text.replace("peak_force_deviation", "beak")})
    assert main(["judge", str(path)]) == 2
    assert "this bench cannot read the archived criteria" in capsys.readouterr().err


# -- show, recover, import


def test_show_gives_a_run_in_a_screenful(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path)
    add_verdict(path, {"criteria_name": "contact_model", "criteria_version": "1", "outcome": "FAIL"})
    add_verdict(path, {"criteria_name": "contact_model", "criteria_version": "2", "outcome": "PASS"})
    assert main(["show", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{path.name}  [SIMULATED, seed 7]"
    assert "  rig        indenter, specimen liver_phantom_a, procedure indentation" in lines
    assert "    0  rise             0.050 to     0.150 s  2 mm/s" in lines
    assert "  force/contact_force: N (force), 20 samples, 100 Hz" in lines
    assert "  stage/stage_position: mm (length), 5 samples" in lines
    assert "event 0.100 s info touched: contact at 12.3 mm" in lines
    assert [line.partition(",")[0] for line in lines[-2:]] == [
        "verdict 1 (superseded): contact_model 1 FAIL",
        "verdict 2 (stands): contact_model 2 PASS",
    ]


def test_show_names_why_a_run_was_aborted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(recorded(tmp_path, status="ABORTED"))]) == 0
    shown = capsys.readouterr().out
    assert "  status     ABORTED: estop" in shown
    assert shown.rstrip().endswith("no verdict")


CRASH = """
import os, sys
from datetime import UTC, datetime
import numpy as np
from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
provenance = Provenance("x", "y", "indentation", "indenter", datetime.now(UTC), "mock", True)
groups = [GroupSpec("force", (DatasetSpec("contact", "N", "force", ("contact_force",)),), 100.0, 10)]
die = lambda group, samples: samples >= 20 and os._exit(9)
writer = RunWriter.create(sys.argv[1], "indentation", provenance, groups, on_commit=die)
writer.append("force", {"contact": np.zeros((20, 1))}, np.arange(20) / 100)
writer.close("COMPLETE")
"""


def test_recover_brings_a_killed_run_back_and_leaves_the_original(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    killed = subprocess.run([sys.executable, "-c", CRASH, str(tmp_path)], timeout=60, check=False)
    assert killed.returncode == 9
    (partial,) = tmp_path.glob("*.partial.h5")
    before = partial.read_bytes()
    assert main(["show", str(partial)]) == 2
    assert "bench recover" in capsys.readouterr().err
    assert main(["recover", str(partial), "--output", str(tmp_path / "back.h5")]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "back.h5")
    assert partial.read_bytes() == before
    with Run.open(tmp_path / "back.h5") as run:
        assert run.status == "CRASHED"
        assert len(run.channel("contact_force").values) == 20


@pytest.mark.parametrize("given", ["estop_pressed", '{"name": "estop_pressed"}', '[{"at_s": 2}]', '["x"]', "5"])
def test_faults_that_are_no_list_are_told_without_a_traceback(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "indenter", "--faults", given]) == 2
    shown = capsys.readouterr()
    told = json.loads(shown.out)
    assert (told["event"], told["kind"]) == ("failed", "TwinError")
    assert told["error"].startswith(f"--faults: {given!r} is no list of faults. Give JSON such as [")
    assert shown.err == ""


def test_import_names_the_mapping_that_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", "no_such_mapping", str(tmp_path / "x.csv"), "--results", str(tmp_path)]) == 2
    assert 'there is no profile "no_such_mapping"' in capsys.readouterr().err


# -- manners


@pytest.mark.parametrize("command", ["show", "judge", "recover"])
def test_a_file_that_is_missing_or_foreign_is_a_sentence(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    foreign = tmp_path / "foreign.h5"
    foreign.write_bytes(b"\x89HDF\r\n\x1a\n nothing more")
    for path in (tmp_path / "nowhere.h5", foreign):
        assert main([command, str(path)]) == 2
        shown = capsys.readouterr()
        assert shown.err.startswith("error: ")
        assert path.stem in shown.err
        assert "remedy: " in shown.err
        assert "Traceback" not in shown.err
        assert not shown.out


@pytest.mark.parametrize("arguments", [[], ["jugde"], ["show"], ["check"], ["import", "mapping"]])
def test_bad_usage_exits_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(arguments)
    assert exit_.value.code == 2
    assert "usage: bench" in capsys.readouterr().err


def test_help_and_version_are_light() -> None:
    for option in ("--help", "--version"):
        code = (
            "import sys; from bench.cli import main\n"
            f"try: main(['{option}'])\n"
            "except SystemExit as done: assert done.code == 0\n"
            "assert not {'numpy', 'h5py', 'pydantic', 'pint', 'scipy'} & set(sys.modules), 'heavy'"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stderr
        assert "bench" in done.stdout


def test_twin_hands_its_options_on_and_says_which_rigs_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["twin", "--help"])
    assert exit_.value.code == 0
    assert "--real-time" in capsys.readouterr().out
    assert main(["twin", "indentor"]) == 2
    shown = capsys.readouterr()
    assert "indenter" in shown.out + shown.err


# -- verify


def test_verify_tells_a_whole_archive_from_one_that_changed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = recorded(tmp_path)
    assert main(["verify", str(path)]) == 0
    with Run.open(path) as run:
        assert run.digest in capsys.readouterr().out
        assert repr(run) == f"<Run {path}: COMPLETE (SIMULATED)>"
    with h5py.File(path, "r+") as file:
        file["entry/force/contact"][3, 0] = 1e-9
    assert main(["verify", str(path)]) == 2
    shown = capsys.readouterr().err
    assert "the content changed after sealing: /entry/force/contact" in shown
    assert "remedy: Judge from an untouched copy" in shown


def test_verify_looks_at_every_archive_and_opens_no_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = recorded(tmp_path)
    assert main(["verify", str(tmp_path / "gone.h5"), str(tmp_path), str(good)]) == 2
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{good}: the content is what was sealed")
    assert f"error: no such file\nwhere: {tmp_path / 'gone.h5'}" in shown.err
    assert f"error: it is a folder\nwhere: {tmp_path}\nremedy: In it: {good.name}" in shown.err
