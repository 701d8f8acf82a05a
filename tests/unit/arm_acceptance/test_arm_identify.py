"""From runs to a feed-forward file, which then compensates: the whole way on an arm whose friction is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict
from bench.arm_feedforward import arm_feedforward_model
from bench.identify.arm_identify import identify_arm
from bench.models.arm_description import LinkInertia


def test_runs_become_a_file_whose_torques_are_the_arm_s(
    simulated_arm: Any, truth: Any, judged_arm: Callable[..., Verdict]
) -> None:
    arm, level = simulated_arm, truth().level
    parts = [arm.series("train", 1), arm.series("hold_out", 2)]
    excitation = arm.record(parts, procedure="arm_excitation", specimen="bare_tool")
    slow = arm.record(arm.tracking(level, segment="uncompensated"), procedure="arm_tracking", specimen="bare_tool")
    found = identify_arm(excitation, [slow])
    assert found.hold_out_error is not None
    assert found.hold_out_error < 0.01
    file = found.feedforward()
    identified = arm_feedforward_model(file.profile(), arm.rig)
    states = np.random.default_rng(1).normal(size=(3, 20, 6)) * [[[1.0]], [[0.5]], [[1.0]]]
    torque = identified.model.inverse_dynamics_rows(*states)
    expected = arm.bare.inverse_dynamics_rows(*states)
    assert np.abs(torque - expected).max() < 0.02 * np.abs(expected).max()
    np.testing.assert_allclose(identified.friction.torque(np.full(6, 0.02)), level, rtol=0.05, atol=0.02)
    assert "hold-out, moving" in "\n".join(found.lines())

    compensated = arm.tracking(identified.friction.coulomb)
    fed = [part.fed - part.friction + identified.friction.torque(part.velocity) for part in compensated]
    parts = [
        type(part)(part.name, part.replicate, part.speed, part.position, part.velocity, total,
                   identified.friction.torque(part.velocity))
        for part, total in zip(compensated, fed, strict=True)
    ]  # fmt: skip
    verdict = judged_arm(
        "arm_friction_compensation", parts, None, feedforward=file.text, specimen="bare_tool", procedure="arm_tracking"
    )
    assert verdict.outcome == Outcome.PASS, verdict.explanation


def test_crossings_with_a_payload_tell_the_same_friction(simulated_arm: Any, truth: Any) -> None:
    arm = simulated_arm
    load = LinkInertia(1.0, np.array([0.0, 0.0, 0.095]), np.diag([5e-4, 5e-4, 3e-4]))
    excitation = arm.record([arm.series("train", 1)], procedure="arm_excitation", specimen="bare_tool")
    hold = arm.record(arm.hold(), truth(payload=load), procedure="payload_hold", specimen="payload_1kg")
    found = identify_arm(excitation, [hold])
    assert found.hold_out_error is None
    for one, level in zip(found.friction, truth().level, strict=True):
        assert float(one.torque(0.02)) == pytest.approx(level, rel=0.06, abs=0.03)
