"""An arm's archive that is not what it says is no verdict, and never a pass; what is wrong is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict

Judged = Callable[..., Verdict]
Columns = dict[str, Any]


@pytest.fixture
def tracked(judged_arm: Judged, simulated_arm: Any, truth: Any) -> Callable[..., Verdict]:
    """Judge a tracking that would pass, spoilt."""

    def judge(*, keep: Callable[[Any], bool] = lambda part: True, fed: Any = None, **spoilt: Any) -> Verdict:
        level = truth().level
        parts = [part for part in simulated_arm.tracking(level if fed is None else fed) if keep(part)]
        given = {
            "feedforward": simulated_arm.feedforward_text(level), "specimen": "bare_tool", "procedure": "arm_tracking",
        }  # fmt: skip
        return judged_arm("arm_friction_compensation", parts, None, **{**given, **spoilt})

    return judge


def saturate(columns: Columns) -> None:
    columns["gauges"][100, 2] = 9.99


def overload(columns: Columns) -> None:
    columns["force"][100, 2] = -200.0


def freeze(columns: Columns) -> None:
    columns["torque"][200:300] = columns["torque"][200]


def freeze_gauges(columns: Columns) -> None:
    columns["gauges"][200:300] = columns["gauges"][200]


def lose(columns: Columns) -> None:
    columns["position"][50, 1] = np.nan


def close_brake(columns: Columns) -> None:
    columns["position"][:, 3] = columns["position"][0, 3]


def miss(columns: Columns) -> None:
    columns["missed"] = np.array([[300.0]])


def tell_otherwise(columns: Columns) -> None:
    columns["command"] *= 1.5


def full_current(columns: Columns) -> None:
    columns["command"][100, 4] = 2.5


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (saturate, "gauge 2 of the wrist sensor reached the end of its range"),
        (overload, "its capacity is 200 N"),
        (freeze, "the wrist sensor was not read any more"),
        (freeze_gauges, "the wrist sensor's gauges stayed the same to the last bit"),
        (lose, "values of motor_…_position are missing or not finite"),
        (close_brake, "joint forearm was told to go 0.0238 rad and went 0 rad: its brake was closed"),
        (miss, "ticks of the control loop were missed"),
        (tell_otherwise, "the record does not say what the motor was told"),
        (full_current, "the current commanded to wrist stood at its limit"),
    ],
)
def test_a_record_that_cannot_be_trusted_is_an_error(
    tracked: Callable[..., Verdict], change: Callable[[Columns], None], said: str
) -> None:
    verdict = tracked(change=change)
    assert verdict.outcome == Outcome.ERROR
    assert said in verdict.explanation


def test_a_run_of_another_procedure_is_an_error(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    verdict = judged_arm(
        "arm_payload", simulated_arm.tracking(truth().level), None, specimen="bare_tool", procedure="arm_tracking"
    )
    assert verdict.outcome == Outcome.ERROR
    assert "arm_payload judges runs of payload_hold, and this archive is of arm_tracking" in verdict.explanation


def test_an_archive_whose_parts_do_not_belong_together_is_an_error(tracked: Callable[..., Verdict]) -> None:
    verdict = tracked(provenance={"specimen": "payload_1kg"})
    assert verdict.outcome == Outcome.ERROR
    assert "One of the two does not belong to this run" in verdict.explanation


def test_one_direction_or_a_joint_left_out_is_an_error(tracked: Callable[..., Verdict]) -> None:
    one_way = tracked(keep=lambda part: part.speed > 0.0)
    assert (one_way.outcome, "in one direction only" in one_way.explanation) == (Outcome.ERROR, True)
    left_out = tracked(keep=lambda part: part.replicate // 10 != 3)
    assert (left_out.outcome, "joint elbow was not tracked" in left_out.explanation) == (Outcome.ERROR, True)


def test_another_speed_is_nothing_to_judge(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    verdict = judged_arm(
        "arm_friction_compensation", simulated_arm.tracking(truth().level), None,
        ('speed = "0.02 rad/s"', 'speed = "0.1 rad/s"'), specimen="bare_tool", procedure="arm_tracking",
        feedforward=simulated_arm.feedforward_text(),
    )  # fmt: skip
    assert verdict.outcome == Outcome.NOT_RUN
    assert "those here run at +0.02, -0.02 rad/s" in verdict.explanation


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"simulated": False}, "identified on a real rig, and this run was not made there"),
        ({"recorded": "2026-03-02T00:00:00Z"}, "after the run"),
        ({"coldest": 30.0, "warmest": 31.0}, "the feed-forward holds for 28.0 to 33.0 degC"),
    ],
)
def test_a_feedforward_of_another_time_or_place_is_an_error(
    tracked: Callable[..., Verdict], simulated_arm: Any, changes: dict[str, Any], said: str
) -> None:
    verdict = tracked(feedforward=simulated_arm.feedforward_text(**changes))
    assert verdict.outcome == Outcome.ERROR
    assert said in verdict.explanation


def test_a_feedforward_that_was_not_the_one_used_is_an_error(
    tracked: Callable[..., Verdict], truth: Any, simulated_arm: Any
) -> None:
    edited = tracked(feedforward=simulated_arm.feedforward_text(1.3 * truth().level))
    assert (edited.outcome, "is not what the archived file gives" in edited.explanation) == (Outcome.ERROR, True)
    none = tracked(feedforward=None)
    assert (none.outcome, "holds no feed-forward file" in none.explanation) == (Outcome.ERROR, True)
    unused = tracked(fed=np.zeros(6))
    assert (unused.outcome, "was not compensated at all" in unused.explanation) == (Outcome.ERROR, True)


def test_a_hold_in_one_direction_is_an_error(judged_arm: Judged, simulated_arm: Any) -> None:
    parts = [part for part in simulated_arm.hold() if part.speed > 0.0]
    verdict = judged_arm(
        "arm_payload", parts, None, specimen="bare_tool", procedure="payload_hold",
        feedforward=simulated_arm.feedforward_text(),
    )  # fmt: skip
    assert verdict.outcome == Outcome.ERROR
    assert "8 crossings are there, and payload_hold makes 16" in verdict.explanation
