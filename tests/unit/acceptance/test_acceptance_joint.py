"""Judging a joint whose friction, inertia and ripple are known: figures, decisions, and what explains a fail."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict
from bench.models.friction import Friction
from bench.models.impedance import Impedance
from bench.profile.criteria_joint import JOINT_METRICS as KINDS
from bench.units import KINDS as UNITS

Judged = Callable[..., Verdict]


def rows(verdict: Verdict) -> dict[str, Any]:
    return {row.id: row for row in verdict.rows}


def parts(row: Any) -> dict[str, float]:
    return {part["name"]: part["standard_uncertainty"] for part in row.budget["components"]}


def test_every_metric_of_the_profiles_has_its_function_and_a_unit_of_its_kind() -> None:
    from bench.acceptance.joint_metrics import JOINT_METRICS

    assert set(JOINT_METRICS) == set(KINDS)
    assert all(metric.base_unit in UNITS[KINDS[name]] for name, metric in JOINT_METRICS.items())


# -- friction compensation


def test_exact_compensation_passes_with_noise_and_certificates_for_its_uncertainty(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    verdict = judged_joint("tracking", simulated_joint.tracking(), feedforward=simulated_joint.feedforward_text())
    residual = rows(verdict)["residual_torque"]
    assert (verdict.outcome, verdict.explanation) == (Outcome.PASS, "")
    assert residual.value < 0.005
    budget = parts(residual)
    assert budget["DAQ calibration"] == pytest.approx(0.001 * 3.0)
    assert budget["transducer calibration"] == pytest.approx(0.0015 * 2.5 * math.sin(0.324), rel=0.05)
    assert budget["torque noise"] == pytest.approx(0.004 * math.sqrt(2 * 10 / 1000), rel=0.15)
    assert [(one.replicate, one.angular_speed_rad_s) for one in residual.replicates] == [
        (1, 0.02),
        (2, -0.02),
        (3, 0.02),
        (4, -0.02),
    ]
    record = verdict.to_record()
    assert Verdict.from_record(record).to_record() == record


@pytest.mark.parametrize(
    ("missed_by", "residual", "outcome"), [(0.05, 0.05, "PASS"), (0.1, 0.1, "MARGINAL"), (0.2, 0.2, "FAIL")]
)
def test_what_coulomb_misses_is_the_residual_torque_and_over_the_lever_the_tip_force(
    judged_joint: Judged, simulated_joint: Any, missed_by: float, residual: float, outcome: str
) -> None:
    file = Friction(1.2 - missed_by, 0.8, 0.6, 0.05)
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(fed=file), feedforward=simulated_joint.feedforward_text(file)
    )
    found = rows(verdict)
    assert found["residual_torque"].value == pytest.approx(residual, abs=0.004)
    assert found["feedback_torque"].value == pytest.approx(residual, abs=1e-3)
    assert found["tip_force"].value == pytest.approx(residual / 0.5, abs=0.008)
    assert found["residual_torque"].outcome == outcome
    if outcome == "FAIL":
        assert "turns round with the direction dominates: too little friction" in verdict.explanation
        assert "by 0.2 N.m" in verdict.explanation


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        (lambda time, angle, stroke: np.full_like(time, 0.15), "the same in both directions dominates: +0.15 N.m, +20"),
        (lambda time, angle, stroke: 0.15 * np.sin(200 * angle), "ripple of 0.15 N.m, 2 times per turn of the rotor"),
    ],
    ids=["offset", "ripple"],
)
def test_the_part_that_dominates_is_named(
    judged_joint: Judged, simulated_joint: Any, extra: Callable[..., Any], said: str
) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(extra=extra), feedforward=simulated_joint.feedforward_text()
    )
    assert rows(verdict)["residual_torque"].outcome == Outcome.FAIL
    assert said in verdict.explanation


def test_without_compensation_the_published_joint_misses_more_than_one_and_a_half(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(fed=None), criteria=(('"compensated"', '"uncompensated"'),)
    )
    residual = rows(verdict)["residual_torque"]
    assert residual.value == pytest.approx(1.2 + 0.6 * math.exp(-0.16) + 0.016, abs=0.01)
    assert residual.outcome == Outcome.FAIL
    assert "friction is not compensated in this segment: 1.73 N.m" in verdict.explanation


def test_a_larger_joint_gets_a_share_of_its_rated_torque(judged_joint: Judged, simulated_joint: Any) -> None:
    """Two per cent of 10 N.m let 0.15 N.m pass that 0.1 N.m would not."""
    file = Friction(1.05, 0.8, 0.6, 0.05)
    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(fed=file),
        feedforward=simulated_joint.feedforward_text(file),
        criteria=(('limit_of_rated = "1 %"', 'limit_of_rated = "2 %"'),),
    )
    row = rows(verdict)["residual_torque"]
    assert (row.limit, row.outcome) == (pytest.approx(0.2), Outcome.PASS)
    assert "limit 2 % of the rated torque, more than 0.1 N.m" in row.detail


# -- impedance


def test_an_ideal_joint_shows_the_overshoot_and_settling_of_the_impedance(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    verdict = judged_joint("step", simulated_joint.stepping())
    found, wanted = rows(verdict), Impedance(2.0, 10.0, 50.0)
    assert verdict.outcome == Outcome.PASS
    assert [one.measured for one in found["overshoot"].replicates] == pytest.approx([wanted.overshoot] * 4, abs=2e-3)
    assert [one.measured for one in found["settling_time"].replicates] == pytest.approx(
        [wanted.settling_time()] * 4, abs=0.02
    )
    assert wanted.overshoot == pytest.approx(0.163, abs=5e-4)


def test_friction_that_nobody_compensates_fails_and_is_named(judged_joint: Judged, simulated_joint: Any) -> None:
    verdict = judged_joint("step", simulated_joint.stepping(simulated_joint.PUBLISHED))
    found = rows(verdict)
    never = 4.0 - Impedance(2.0, 10.0, 50.0).settling_time()
    assert found["settling_time"].value == pytest.approx(never, abs=0.02), (
        "it has settled no earlier than the record ends"
    )
    assert found["overshoot"].outcome == found["settling_time"].outcome == Outcome.FAIL
    short = abs(found["steady_state_error"].replicates[0].value) / 100 * 0.12
    assert "friction is not compensated, and friction explains it" in verdict.explanation
    assert f"spring still pulls with {50 * short:.1g}"[:26] in verdict.explanation
    assert "stopped short by" in verdict.explanation
    assert "not at gains" in verdict.explanation


def test_a_wrong_inertia_is_not_blamed_on_friction(judged_joint: Judged, simulated_joint: Any) -> None:
    verdict = judged_joint("step", simulated_joint.stepping(believed=1.6))
    assert rows(verdict)["overshoot"].outcome == Outcome.FAIL
    assert "friction does not explain it" in verdict.explanation
    assert "inertia of motor and load" in verdict.explanation


# -- identification


def test_parameters_that_describe_the_joint_predict_another_trajectory(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    verdict = judged_joint("excitation", simulated_joint.exciting())
    found, analysis = rows(verdict), verdict.analysis
    assert verdict.outcome == Outcome.PASS
    assert found["hold_out_relative_error"].value < 0.5, "outside the stiction zone the law is the joint's"
    assert 0.5 < found["hold_out_rms"].value < 2.0, "inside it, the excess it does not know counts"
    motor, link = analysis["motor_side"]["parameters"], analysis["link_side"]["parameters"]
    assert motor["coulomb"]["value"] == pytest.approx(1.2, rel=0.02)
    assert link["gravity_moment"]["value"] == pytest.approx(2.5, rel=0.002)
    assert link["link_inertia"]["value"] == pytest.approx(0.4, rel=0.01)
    assert analysis["hold_out"]["distinct_trajectory"] is True
    assert analysis["hold_out"]["band"]["cutoff_hz"] == 10.0
    assert analysis["motor_side"]["band"]["cutoff_hz"] == pytest.approx(5.5)


def test_a_joint_that_changed_before_the_hold_out_fails_and_the_parameters_are_blamed(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    other = replace(simulated_joint.PUBLISHED, coulomb=2.4)
    verdict = judged_joint("excitation", simulated_joint.exciting(held_out_friction=other))
    found = rows(verdict)
    assert found["hold_out_rms"].value == pytest.approx(12.0, abs=1.0)
    assert verdict.outcome == Outcome.FAIL
    assert "the parameters do not carry over" in verdict.explanation
    assert "condition number" in verdict.explanation
    assert "baselines: zero" in verdict.explanation
