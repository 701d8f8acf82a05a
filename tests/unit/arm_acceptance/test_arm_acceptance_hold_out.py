"""Judging an arm's parameters on another trajectory: figures, repeats, too little motion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict

Judged = Callable[..., Verdict]


def rows(verdict: Verdict) -> dict[str, Any]:
    return {row.id: row for row in verdict.rows}


@pytest.fixture
def excited(judged_arm: Judged, simulated_arm: Any) -> Callable[..., Verdict]:
    def judge(*changes: Any, held: Any = None, truth: Any = None, **rest: Any) -> Verdict:
        parts = [simulated_arm.series("train", 1), held or simulated_arm.series("hold_out", 2)]
        relax = ('limit = "8 1"', 'limit = "1000 1"')  # random series are not designed ones
        given = {"specimen": "bare_tool", "procedure": "arm_excitation", **rest}
        return judged_arm("arm_identification", parts, truth, relax, *changes, **given)

    return judge


def test_an_arm_that_is_what_it_is_predicts_itself(excited: Callable[..., Verdict]) -> None:
    verdict = excited()
    found = rows(verdict)
    assert verdict.outcome == Outcome.PASS, verdict.explanation
    assert found["hold_out_relative_error"].value < 1.0
    assert found["hold_out_rms"].value < 0.5
    assert len(found["hold_out_rms"].replicates) == 6
    assert found["physical_consistency_cost"].value < 0.2
    assert found["hold_out_rms"].expanded_uncertainty > 0.0


def test_noise_shows_in_the_error_and_names_its_joint(excited: Callable[..., Verdict], truth: Any) -> None:
    verdict = excited(truth=truth(noise=1.0))
    assert verdict.outcome == Outcome.FAIL
    assert rows(verdict)["hold_out_rms"].value == pytest.approx(100 * 1.0 / 7.0 * np.sqrt(2 * 10 / 100), rel=0.3)
    assert "is predicted worst" in verdict.explanation


def test_a_repeat_is_no_hold_out(excited: Callable[..., Verdict], simulated_arm: Any) -> None:
    verdict = excited(held=simulated_arm.series("hold_out", 1))
    assert verdict.outcome == Outcome.ERROR
    assert "a repeat predicts itself" in verdict.explanation


def test_a_joint_that_never_moves_is_not_identified(excited: Callable[..., Verdict], simulated_arm: Any) -> None:
    verdict = excited(held=simulated_arm.series("hold_out", 2, size=0.02))
    assert verdict.outcome == Outcome.ERROR
    assert "lie in the stiction zone" in verdict.explanation


def test_without_a_hold_out_there_is_nothing_to_judge(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = judged_arm(
        "arm_identification", [simulated_arm.series("train", 1)], specimen="bare_tool", procedure="arm_excitation"
    )
    assert verdict.outcome == Outcome.NOT_RUN
    assert "there is no phase 'hold_out'" in verdict.explanation


def test_a_poor_excitation_fails_by_its_condition_number(excited: Callable[..., Verdict]) -> None:
    verdict = excited(('limit = "1000 1"', 'limit = "2 1"'))
    assert rows(verdict)["excitation_condition_number"].outcome == Outcome.FAIL
    assert "design another trajectory" in verdict.explanation
