"""Runs that predict themselves well and must not pass all the same: the wrong specimen, a zero that drifts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.acceptance import judge_run
from bench.procedures import perform
from bench.profile import load_criteria, load_procedure, load_specimen

SHORTER = {"replicates": 2, "second_replicates": 1, "second_speeds": ["1 mm/s"], "depth": "6 mm", "block": "200 ms"}


@pytest.mark.parametrize(
    ("faults", "outcome", "said"),
    [
        ([], "PASS", ""),
        ([{"name": "wrong_phantom", "at_s": 0.0}], "ERROR", "is this the specimen named"),
        ([{"name": "drifting_cell", "at_s": 20.0, "parameters": {"rate": "5 mN/s"}}], "ERROR", "force zero drifts"),
    ],
    ids=["as it should be", "another specimen", "drifting zero"],
)
def test_what_no_press_can_see_in_another_is_seen_all_the_same(
    open_rig: Callable[..., Any],
    repository: Path,
    tmp_path: Path,
    faults: list[dict[str, Any]],
    outcome: str,
    said: str,
) -> None:
    procedure = load_procedure(repository / "profiles/procedures/indentation.toml")
    specimen = load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")
    criteria = load_criteria(repository / "profiles/acceptance/contact_model.toml")
    with open_rig("liver_phantom_a", seed=2, faults=faults) as station:
        path = perform(station, procedure, specimen, operator="A. Tester", results_dir=tmp_path, overrides=SHORTER)
    verdict = judge_run(path, criteria)
    assert said in verdict.explanation
    if outcome == "ERROR":
        assert {str(row.outcome) for row in verdict.rows} == {"ERROR"}
    else:  # two replicates leave a wide U: within the limit is what can be asked for here
        assert str(verdict.outcome) in ("PASS", "MARGINAL")
        assert all(abs(row.value) < row.limit for row in verdict.rows)


def test_a_press_too_shallow_to_tell_the_specimen_is_not_judged(
    open_rig: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    """The stiffer specimen stops a press to a force before the depth at which the right one is known."""
    procedure = load_procedure(repository / "profiles/procedures/indentation.toml")
    specimen = load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")
    criteria = load_criteria(repository / "profiles/acceptance/contact_model.toml")
    to_a_force = {**SHORTER, "depth": None, "force": "2.5 N"}
    with open_rig("liver_phantom_a", seed=2, faults=[{"name": "wrong_phantom", "at_s": 0.0}]) as station:
        path = perform(station, procedure, specimen, operator="A. Tester", results_dir=tmp_path, overrides=to_a_force)
    verdict = judge_run(path, criteria)
    assert str(verdict.outcome) == "ERROR"
    assert "not every press reached 5 mm" in verdict.explanation
