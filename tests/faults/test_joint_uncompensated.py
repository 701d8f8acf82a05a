"""A joint whose friction nobody compensates, on the twin: it fails what it must fail, and the verdict says why."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.acceptance import Verdict, judge_run
from bench.procedures import perform
from bench.profile import load_procedure, load_specimen, parse_profile


@pytest.fixture(scope="module")
def verdicts(
    open_rig: Callable[..., Any], repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Verdict]:
    """Verdict of a step, and of a tracking by the limits of compensation asked of the segment without."""
    profiles, folder = repository / "profiles", tmp_path_factory.mktemp("uncompensated")
    specimen = load_specimen(profiles / "specimens/balanced_arm.toml")
    runs: dict[str, dict[str, object]] = {
        "impedance_step": {"replicates": 2, "record_time": "3 s", "baseline_time": "0.3 s"},
        "low_speed_tracking": {"travel": "0.04 rad", "run_in": "0.5 s", "baseline_time": "0.3 s"},
    }
    criteria = {"impedance_step": "impedance_step", "low_speed_tracking": "friction_compensation"}
    found = {}
    with open_rig("balanced_arm", rig="single_joint", seed=3) as station:
        for name, overrides in runs.items():
            path = perform(
                station,
                load_procedure(profiles / f"procedures/{name}.toml"),
                specimen,
                operator="A. Tester",
                results_dir=folder,
                overrides=overrides,
            )
            text = (profiles / f"acceptance/{criteria[name]}.toml").read_text(encoding="utf-8")
            profile, problems = parse_profile(text.replace('"compensated"', '"uncompensated"'), Path(f"{name}.toml"))
            assert not problems, problems
            found[name] = judge_run(path, profile)  # type: ignore[arg-type]
    return found


def test_a_step_with_friction_uncompensated_fails_and_names_friction(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["impedance_step"]
    assert {row.id: str(row.outcome) for row in verdict.rows} == {
        "overshoot": "FAIL",
        "settling_time": "FAIL",
        "steady_state_error": "FAIL",
    }
    said = verdict.explanation
    assert said.startswith("overshoot: friction is not compensated, and friction explains it")
    assert "the spring still pulls with" in said


def test_at_low_speed_the_published_joint_misses_one_and_a_half_newton_metres(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["low_speed_tracking"]
    residual, feedback, _ = verdict.rows
    assert 1.5 < residual.value < 2.1
    assert feedback.value == pytest.approx(residual.value, abs=0.1), "what is missing, the feedback has to make"
    assert (str(residual.outcome), str(feedback.outcome)) == ("FAIL", "FAIL")
    assert "friction is not compensated in this segment" in verdict.explanation
