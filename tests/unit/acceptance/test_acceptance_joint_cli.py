"""`bench judge` and `bench show` on archives of a joint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.cli import main


@pytest.fixture
def tracked(simulated_joint: Any, repository: Path, tmp_path: Path) -> Path:
    """A compensated tracking that holds every set of criteria, as runs of the fixtures do."""
    profiles = repository / "profiles"
    texts = {f"acceptance/{p.name}": p.read_text(encoding="utf-8") for p in (profiles / "acceptance").glob("*.toml")}
    path: Path = simulated_joint.archive(
        tmp_path, profiles, "low_speed_tracking", simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text(), texts=texts,
    )  # fmt: skip
    return path


def test_judge_takes_the_archived_criteria_of_the_procedure(
    tracked: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["judge", str(tracked)]) == 0
    assert capsys.readouterr().out.startswith("friction_compensation 1: PASS (SIMULATED)\n  residual_torque: 0.00")
    criteria = str(repository / "profiles/acceptance/impedance_step.toml")
    assert main(["judge", str(tracked), "--criteria", criteria]) == 2
    told = capsys.readouterr().err
    assert "the criteria impedance_step judge impedance_step; the run is of low_speed_tracking" in told
    assert "no verdict was written" in told


def test_show_says_how_fast_the_joint_turned(tracked: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["show", str(tracked)]) == 0
    shown = capsys.readouterr().out
    assert "s  +0.02 rad/s\n" in shown
    assert "s  -0.02 rad/s\n" in shown
    assert "mm/s" not in shown
    assert "nan" not in shown
