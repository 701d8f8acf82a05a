"""Control laws are the formulas they claim, on numbers and on the plant."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.errors import LimitError
from bench.models.friction import Friction
from bench.models.impedance import Impedance
from bench.models.lugre import lugre
from bench.procedures import joint_impedance_step, joint_low_speed_tracking
from bench.procedures.joint_control import Follow, Gains, ImpedanceLaw, Output, Push
from bench.procedures.joint_loop import Command, Tick
from bench.procedures.joint_model import FrictionLaw, JointModel, friction_numbers, model_of
from bench.procedures.joint_motion import Strokes, TorqueWave
from bench.procedures.joint_mover import Mover
from bench.units import Value

RICH = """
coulomb = "1.1 N.m"
viscous = "0.7 N.m.s/rad"
stribeck_excess = "0.5 N.m"
stribeck_velocity = "0.04 rad/s"
offset = "0.06 N.m"
load_coefficient = 0.02
temperature_coefficient = "0.004 1/K"
reference_temperature = "27 degC"
bristle_stiffness = "4000 N.m/rad"
bristle_damping = "10 N.m.s/rad"
"""
SAME = Friction(1.1, 0.7, 0.5, 0.04, 0.06, 0.02, 0.004, 27.0)


def law_of(profile: Any) -> FrictionLaw:
    return FrictionLaw(friction_numbers(profile))


def test_the_friction_law_is_that_of_the_models(feedforward: Callable[..., Any]) -> None:
    law = law_of(feedforward(RICH))
    for velocity in (-2.0, -0.3, -0.02, 0.02, 0.05, 1.3):
        for load, temperature in ((0.0, 27.0), (-3.0, 35.0), (8.0, 21.0)):
            expected = float(SAME.torque(velocity, load=load, temperature=temperature))
            assert law.steady(velocity, load, temperature) == pytest.approx(expected, abs=1e-6)
    assert law.outside == {}


def test_its_sign_goes_smoothly_through_zero(feedforward: Callable[..., Any]) -> None:
    law = law_of(feedforward(RICH))
    speeds = np.linspace(-0.02, 0.02, 801)
    torque = np.array([law.steady(v, 0.0, 27.0) for v in speeds.tolist()]) - 0.06
    assert torque[400] == 0.0
    np.testing.assert_allclose(torque, -torque[::-1], atol=1e-12)
    assert np.abs(np.diff(torque)).max() < 0.05


def test_the_observed_bristle_is_that_of_the_models(feedforward: Callable[..., Any]) -> None:
    law = law_of(feedforward(RICH))
    time = np.arange(0.0, 2.0, 0.002)
    velocity = 0.03 * np.cos(2 * math.pi * 1.5 * time)
    angle = 0.03 / (2 * math.pi * 1.5) * np.sin(2 * math.pi * 1.5 * time)
    found = [law.observed(a, v, 1.0, 30.0) for a, v in zip(angle.tolist(), velocity.tolist(), strict=True)]
    expected = lugre(time, velocity, SAME, 4000.0, 0.0, load=1.0, temperature=30.0)
    # Both are exact for a constant speed within a step; they take the sliding level at different instants of it.
    np.testing.assert_allclose(found, expected, atol=0.06)
    assert np.sqrt(np.mean((found - expected) ** 2)) < 0.02


def test_a_lead_brings_the_bristle_to_where_the_torque_acts(feedforward: Callable[..., Any]) -> None:
    law, late = law_of(feedforward(RICH)), law_of(feedforward(RICH))
    for i in range(40):
        ahead = law.observed(1e-5 * i, 0.005, 0.0, 27.0, lead_s=0.002)
        now = late.observed(1e-5 * i, 0.005, 0.0, 27.0)
        nxt = late._bristle
    assert ahead > now
    assert ahead == pytest.approx(now + 4000.0 * (1e-5 * (1 - 4000.0 * nxt / SAME.level(0.005))), abs=2e-4)


@pytest.mark.parametrize(
    ("quantity", "inside", "outside"),
    [
        ("speed", (2.0, 0.0, 27.0), (2.6, 0.0, 27.0)),
        ("load", (1.0, 12.0, 27.0), (1.0, -15.0, 27.0)),
        ("temperature", (1.0, 0.0, 45.0), (1.0, 0.0, 52.0)),
    ],
)
def test_outside_its_range_the_law_is_held_at_the_edge_and_says_so(
    feedforward: Callable[..., Any], quantity: str, inside: tuple[float, ...], outside: tuple[float, ...]
) -> None:
    law = law_of(feedforward(RICH))
    edge = law.steady(*inside)
    assert law.outside == {}
    assert law.steady(*outside) == pytest.approx(edge, abs=1e-9)
    assert set(law.outside) == {quantity}
    assert "identified" in law.outside[quantity]


def test_leaving_the_range_is_archived_once(
    rig: Any, procedure: Callable[..., Any], load: Callable[[str], Any], feedforward: Callable[..., Any], plant: Any
) -> None:
    narrow = feedforward(speed_max='"0.015 rad/s"')
    slow = procedure("low_speed_tracking", replicates=1, travel=Value(0.02, "rad", "angle"))
    recording = plant()
    joint_low_speed_tracking.run(
        None, recording, joint_low_speed_tracking.plan(rig, slow, load("pendulum_arm"), narrow)
    )
    warnings = [event for event in recording.events if event[0] == "warning"]
    assert [code for _, code, _ in warnings] == ["feedforward_speed"]
    assert "0.02 rad/s, identified up to 0.015 rad/s" in warnings[0][2]


def test_the_impedance_law_is_its_formula() -> None:
    law = ImpedanceLaw(joint_inertia=2.2, inertia=2.0, damping=10.0, stiffness=50.0)
    assert law.torque(0.1, -0.3) == pytest.approx(2.2 / 2.0 * (10.0 * -0.3 + 50.0 * 0.1))


def test_a_command_is_divided_by_the_torque_scale_and_held_at_the_limit() -> None:
    output, command = Output(JointModel(0.2, 0.4, torque_scale=1.25), 8.0), Command()
    output.fill(command, 5.0, 4.0, 2.5, 0.1, 0.2)
    assert (command.torque_nm, command.wanted_nm, command.feedback_nm, command.feedforward_nm) == (6.0, 5.0, 4.0, 2.5)
    assert output.saturated is None
    output.fill(command, -15.0, -15.0, 0.0, 0.1, 0.2)
    assert (command.torque_nm, output.saturated) == (-8.0, 12.0)


def test_what_is_no_number_is_left_for_the_gate_to_refuse() -> None:
    output, command = Output(JointModel(0.2, 0.4), 8.0), Command()
    output.fill(command, math.nan, math.nan, 0.0, 0.1, 0.2)
    assert math.isnan(command.torque_nm)


def test_tracking_adds_feedback_gravity_and_inertia() -> None:
    model = JointModel(0.2, 0.4, gravity_moment=2.5, gravity_phase=0.1)
    motion = Strokes(0.3, [(0.5, 1.0)], acceleration=2.0)
    follow = Follow(motion, Gains(400.0, 20.0), Output(model, 20.0))
    command = Command()
    assert not follow(Tick(time_s=10.0, motor_angle_rad=0.3), command)
    follow(Tick(time_s=10.2, motor_angle_rad=0.31, motor_velocity_rad_s=0.2), command)
    angle, velocity, acceleration = motion.at(10.2 - 10.0)
    feedback = 400.0 * (angle - 0.31) + 20.0 * (velocity - 0.2)
    assert command.feedback_nm == pytest.approx(feedback)
    assert command.wanted_nm == pytest.approx(feedback + 2.5 * math.sin(angle - 0.1) + 0.6 * acceleration)
    assert (command.desired_angle_rad, command.desired_velocity_rad_s) == pytest.approx((angle, velocity))
    assert command.feedforward_nm == 0.0
    assert follow(Tick(time_s=10.0 + motion.duration_s, motor_angle_rad=motion.end_rad), command)


def test_a_push_that_moves_the_joint_too_far_lets_go() -> None:
    push, command = Push(TorqueWave([2.0, 0.0], 1.0), Output(JointModel(0.2, 0.4), 20.0), reach_rad=0.01), Command()
    assert not push(Tick(time_s=0.0), command)
    assert not push(Tick(time_s=1.0, motor_angle_rad=0.009), command)
    assert command.torque_nm == pytest.approx(1.0)
    assert push(Tick(time_s=1.1, motor_angle_rad=0.011), command)
    assert (command.torque_nm, push.left) == (0.0, True)


def test_the_links_figures_are_taken_from_the_file_only_for_its_own_load(
    rig: Any, load: Callable[[str], Any], feedforward: Callable[..., Any]
) -> None:
    file = feedforward(scale=1.02)
    model = model_of(rig, load("pendulum_arm"), file)
    assert (model.motor_inertia, model.link_inertia, model.gravity_moment) == (0.2, 0.4, 2.5)
    assert (model.torque_scale, model.source) == (1.02, "known_joint")
    assert model_of(rig, load("balanced_arm")).link_inertia == 2.0


def step(
    rig: Any, procedure: Callable[..., Any], arm: Any, recording: Any, feedforward: Any = None
) -> list[tuple[float, float, float]]:
    """Overshoot, settling time and what is missing at the end, each a share of the step or in s; per phase."""
    plan = joint_impedance_step.plan(rig, procedure("impedance_step", replicates=1), arm, feedforward)
    joint_impedance_step.run(None, recording, plan)
    found = []
    for phase in recording.phases:
        view = recording.during(phase)
        angle = view.samples.joint_angle_rad
        share = (angle - angle[0]) / (view.desired_angle_rad[-1] - angle[0])
        outside = np.flatnonzero(np.abs(share - 1.0) > 0.02)
        found.append((share.max() - 1.0, view.time_s[outside[-1]] - phase[3], 1.0 - share[-1]))
    assert len(found) == 2
    return found


def test_an_ideal_joint_shows_the_impedance_it_is_told(
    rig: Any, procedure: Callable[..., Any], load: Callable[[str], Any], plant: Any, truths: dict[str, Any]
) -> None:
    wanted = Impedance(2.0, 10.0, 50.0)
    recording = plant(load=truths["balanced_arm"], friction=truths["frictionless"])
    for overshoot, settling, missing in step(rig, procedure, load("balanced_arm"), recording):
        assert overshoot == pytest.approx(wanted.overshoot, abs=0.02)
        assert settling == pytest.approx(wanted.settling_time(), abs=0.15)
        assert abs(missing) < 0.002


def test_friction_stops_the_step_short_unless_it_is_compensated(
    rig: Any,
    procedure: Callable[..., Any],
    load: Callable[[str], Any],
    feedforward: Callable[..., Any],
    plant: Any,
    truths: dict[str, Any],
) -> None:
    for _, _, missing in step(rig, procedure, load("balanced_arm"), plant(load=truths["balanced_arm"])):
        assert missing > 0.04
    recording = plant(load=truths["balanced_arm"])
    for overshoot, settling, missing in step(rig, procedure, load("balanced_arm"), recording, feedforward()):
        assert overshoot == pytest.approx(0.163, abs=0.02)
        assert settling == pytest.approx(1.62, abs=0.15)
        assert abs(missing) < 0.02


def test_slow_tracking_needs_the_friction_and_no_more_with_the_feedforward(
    rig: Any, procedure: Callable[..., Any], load: Callable[[str], Any], feedforward: Callable[..., Any], plant: Any
) -> None:
    slow = procedure("low_speed_tracking", replicates=1, travel=Value(0.03, "rad", "angle"))
    recording = plant()
    made = joint_low_speed_tracking.plan(rig, slow, load("pendulum_arm"), feedforward())
    joint_low_speed_tracking.run(None, recording, made)
    assert [(name, speed) for name, _, speed, _, _ in recording.phases] == [
        ("uncompensated", 0.02), ("uncompensated", -0.02), ("compensated", 0.02), ("compensated", -0.02),
    ]  # fmt: skip
    for phase in recording.phases:
        view = recording.during(phase)
        residual = np.abs(view.wanted_nm - view.samples.joint_torque_nm)
        if phase[0] == "uncompensated":
            np.testing.assert_allclose(residual, 1.2 + 0.6 * math.exp(-0.16) + 0.016, atol=0.05)
            assert np.abs(view.feedback_nm).min() > 1.5
        else:
            assert residual.max() < 0.02
            assert np.abs(view.feedback_nm).max() < 0.1


def test_a_warm_drive_is_not_started(rig: Any, procedure: Callable[..., Any], load: Any, plant: Any) -> None:
    recording = plant(warmth_degc=57.0)
    plan = joint_low_speed_tracking.plan(rig, procedure("low_speed_tracking"), load("pendulum_arm"))
    with pytest.raises(LimitError, match=r"57\.0 degC, a run begins at 55\.0 degC") as caught:
        Mover(recording, plan.control).begin()
    assert caught.value.reason == "temperature_limit"
