"""Judging an arm whose friction and payload are known: figures, limits of every joint, explanations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict
from bench.models.arm_description import LinkInertia
from bench.profile.criteria_arm import ARM_METRICS as KINDS
from bench.units import KINDS as UNITS

Judged = Callable[..., Verdict]
KILOGRAM = LinkInertia(1.0, np.array([0.0, 0.0, 0.095]), np.diag([5e-4, 5e-4, 3e-4]))


def rows(verdict: Verdict) -> dict[str, Any]:
    return {row.id: row for row in verdict.rows}


def test_every_metric_of_the_profiles_has_its_function_and_a_unit_of_its_kind() -> None:
    from bench.acceptance.arm_metrics import ARM_METRICS

    assert set(ARM_METRICS) == set(KINDS)
    assert all(metric.base_unit in UNITS[KINDS[name]] for name, metric in ARM_METRICS.items())


def track(judged: Judged, arm: Any, fed: Any, truth: Any = None, **tracking: Any) -> Verdict:
    given = {"feedforward": arm.feedforward_text(fed), "specimen": "bare_tool", "procedure": "arm_tracking"}
    return judged("arm_friction_compensation", arm.tracking(fed, **tracking), truth, **given)


def test_exact_compensation_passes_on_every_joint(judged_archive: Judged, simulated_arm: Any, truth: Any) -> None:
    verdict = track(judged_archive, simulated_arm, truth().level, replicates=2)
    assert (verdict.outcome, verdict.explanation) == (Outcome.PASS, "")
    row = rows(verdict)["residual_torque"]
    assert row.value < 0.05
    assert len(row.replicates) == 4, "the worst joint's, both ways, twice"
    assert verdict.simulated
    assert Verdict.from_record(verdict.to_record()).to_record() == verdict.to_record()


@pytest.mark.parametrize(
    ("joint", "missed", "outcome"),
    [(1, 0.7, "PASS"), (1, 0.9, "FAIL"), (5, 0.13, "FAIL"), (0, 0.5, "FAIL")],
)
def test_every_joint_is_held_to_its_own_limit(
    judged_arm: Judged, simulated_arm: Any, truth: Any, joint: int, missed: float, outcome: str
) -> None:
    """The larger of 0.1 N.m and 1 % of rated: 0.8 N.m on the shoulder, 0.4 on the base, 0.1 on the flange."""
    level = truth().level
    fed = level - missed * np.eye(6)[joint]
    verdict = track(judged_arm, simulated_arm, fed, truth(noise=0.002))
    assert verdict.outcome == outcome
    row = rows(verdict)["residual_torque"]
    if outcome == "FAIL":
        assert row.value == pytest.approx(missed, abs=0.01)
        assert "too little friction is compensated" in verdict.explanation
        assert simulated_arm.names[joint] in verdict.explanation


def test_without_compensation_the_friction_itself_fails(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    changes = ('segment = "compensated"', 'segment = "uncompensated"')
    verdict = judged_arm(
        "arm_friction_compensation", simulated_arm.tracking(truth().level, segment="uncompensated"), None, changes,
        specimen="bare_tool", procedure="arm_tracking",
    )  # fmt: skip
    assert verdict.outcome == Outcome.FAIL
    assert "is not compensated in this segment" in verdict.explanation


# -- payload


def hold(judged: Judged, arm: Any, truth: Any, specimen: str = "payload_1kg", **rest: Any) -> Verdict:
    given = {"feedforward": arm.feedforward_text(), "specimen": specimen, "procedure": "payload_hold", **rest}
    return judged("arm_payload", arm.hold(), truth, **given)


def test_the_payload_that_was_weighed_is_found(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    verdict = hold(judged_arm, simulated_arm, truth(payload=KILOGRAM))
    found = rows(verdict)
    assert verdict.outcome == Outcome.PASS, verdict.explanation
    assert found["payload_mass_error"].value < 0.5
    assert found["payload_mass_error"].expanded_uncertainty > 0.0
    assert found["hold_torque_residual"].value < 0.1


def test_a_payload_a_little_off_fails_by_its_mass(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    heavier = LinkInertia(1.05, KILOGRAM.centre, KILOGRAM.inertia)
    verdict = hold(judged_arm, simulated_arm, truth(payload=heavier))
    assert rows(verdict)["payload_mass_error"].value == pytest.approx(5.0, abs=0.6)
    assert verdict.outcome == Outcome.FAIL
    assert "the wrist sensor" in verdict.explanation


@pytest.mark.parametrize(("payload", "specimen"), [(None, "payload_1kg"), (KILOGRAM, "bare_tool")])
def test_another_payload_than_the_one_named_is_no_verdict(
    judged_arm: Judged, simulated_arm: Any, truth: Any, payload: Any, specimen: str
) -> None:
    verdict = hold(judged_arm, simulated_arm, truth(payload=payload), specimen)
    assert verdict.outcome == Outcome.ERROR
    assert "another payload is mounted than the one named" in verdict.explanation


# -- wrench


def press(judged: Judged, arm: Any, truth: Any = None, forces: Any = (5.0, 10.0, 20.0), **rest: Any) -> Verdict:
    given = {"feedforward": arm.feedforward_text(), "specimen": "arm_phantom_a", "procedure": "wrench_check", **rest}
    free = [arm.touch("free", 0, np.zeros(60))]
    return judged("arm_wrench", [*free, *arm.pressing(forces)], truth, **given)


def test_torques_and_wrist_sensor_tell_one_force(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = press(judged_arm, simulated_arm)
    assert verdict.outcome == Outcome.PASS, verdict.explanation
    found = rows(verdict)
    assert [one.measured for one in found["wrench_force_error"].replicates] == pytest.approx([5, 10, 20], abs=0.2)
    assert found["wrench_force_error"].value < 0.5


def test_friction_that_is_not_known_shows_as_a_wrong_force(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    verdict = press(judged_arm, simulated_arm, truth(level=truth().level * 3.0))
    assert verdict.outcome == Outcome.FAIL
    assert "the torques are off by" in verdict.explanation


def test_a_run_that_pressed_nothing_is_no_verdict(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = press(judged_arm, simulated_arm, forces=(0.0, 0.1))
    assert verdict.outcome == Outcome.ERROR
    assert "nothing was pressed" in verdict.explanation


# -- touch


def rising(overshoot: float, tau: float = 0.1, seconds: float = 4.0) -> Any:
    time = np.arange(0.0, seconds, 0.01)
    force = 10.0 * (1.0 - np.exp(-time / tau)) + 10.0 * overshoot * (time / 0.3) * np.exp(1.0 - time / 0.3)
    return np.concatenate([np.zeros(60), force])


def touch(judged: Judged, arm: Any, with_switch: Any, without: Any, *changes: Any, **rest: Any) -> Verdict:
    parts = [arm.touch("without_switch", k, one) for k, one in enumerate([without] * 2, start=1)]
    parts += [arm.touch("with_switch", k, one) for k, one in enumerate([with_switch] * 2, start=1)]
    given = {"feedforward": arm.feedforward_text(), "specimen": "arm_phantom_a", "procedure": "approach_touch", **rest}
    return judged("arm_touch", parts, None, *changes, **given)


def test_a_force_that_rises_and_settles_passes_with_its_figures(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = touch(judged_arm, simulated_arm, rising(0.05), rising(0.5))
    found = rows(verdict)
    assert verdict.outcome == Outcome.PASS, verdict.explanation
    assert found["force_rise_time"].value == pytest.approx(0.19, abs=0.05)
    assert found["force_overshoot"].value == pytest.approx(3.5, abs=1.5)
    assert found["switch_benefit"].value < 30.0


def test_an_overshoot_fails_and_a_switch_without_benefit_too(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = touch(judged_arm, simulated_arm, rising(0.5), rising(0.3))
    found = rows(verdict)
    assert (found["force_overshoot"].outcome, found["switch_benefit"].outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert "overshoot" in verdict.explanation


def test_a_force_that_never_gets_there_does_not_pass(judged_arm: Judged, simulated_arm: Any) -> None:
    found = rows(touch(judged_arm, simulated_arm, 0.5 * rising(0.0), rising(0.3)))
    assert found["force_rise_time"].outcome == Outcome.FAIL
    assert found["force_settling_time"].outcome == Outcome.FAIL
    short = rows(touch(judged_arm, simulated_arm, 0.5 * rising(0.0, seconds=0.5), rising(0.3)))
    assert short["force_rise_time"].outcome == Outcome.ERROR
    assert "before the limit" in short["force_settling_time"].detail


def test_a_phase_that_begins_in_contact_has_no_rise(judged_arm: Judged, simulated_arm: Any) -> None:
    verdict = touch(judged_arm, simulated_arm, rising(0.05)[58:], rising(0.5))
    assert verdict.outcome == Outcome.ERROR
    assert "in contact when the phase began" in verdict.explanation
