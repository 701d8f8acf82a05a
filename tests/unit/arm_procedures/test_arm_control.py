"""Computed torque: each joint's error is a mass on a spring; friction, limits and the rotor's share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.procedures.arm_control import ROTOR_SHARE, ArmGains, ArmOutput, FollowArm
from bench.procedures.arm_model import ArmFrictionLaws, ArmKnowledge, knowledge_of
from bench.procedures.arm_motion import Standing, moved
from bench.procedures.arm_tick import ArmCommand, ArmTick
from bench.procedures.joint_model import FrictionLaw, FrictionNumbers
from bench.profile import ArmRig

START = np.radians([0.0, -20.0, 10.0, 0.0, 60.0, 0.0])
WIDE = np.full(6, 500.0)


@pytest.fixture(scope="module")
def nominal(rig: ArmRig, specimen: Callable[[str], Any]) -> ArmKnowledge:
    return knowledge_of(rig, specimen("bare_tool"))


def tick_at(q: np.ndarray, v: np.ndarray | None = None) -> ArmTick:
    return ArmTick(0, 0.0, q.tolist(), (np.zeros(len(q)) if v is None else v).tolist())


def test_an_error_dies_away_as_a_spring_and_a_damper_whatever_the_inertia(
    nominal: ArmKnowledge, rigid: Callable[..., Any]
) -> None:
    away = np.array([0.02, -0.03, 0.02, 0.04, -0.03, 0.05])
    gains = ArmGains(2.0 * math.pi * 2.5, 1.0)  # slow enough for every rotor
    arm = rigid(start=START + away, coulomb=np.zeros(6), viscous=np.zeros(6))
    output = ArmOutput(nominal, gains, WIDE, arm.period_s)
    view = arm.run(FollowArm(Standing(START, 1.0), output), 1.0, text="")
    t = view.time_s - view.time_s[0]
    expected = (1.0 + gains.frequency * t) * np.exp(-gains.frequency * t)
    assert np.abs((view.position - START) / away - expected[:, None]).max() < 0.08  # gravity's slope and a tick's delay


def test_a_motion_is_followed_with_friction_known_to_a_fifth(nominal: ArmKnowledge, rigid: Callable[..., Any]) -> None:
    arm = rigid()
    output = ArmOutput(nominal, ArmGains(2.0 * math.pi * 5.0, 1.0), WIDE, arm.period_s)
    goal = START + np.array([0.4, 0.3, -0.4, 0.6, -0.5, 0.7])
    motion = moved(START, goal, speed=0.6, acceleration=3.0)
    errors = {}
    for friction in (None, nominal.laws()):
        arm = rigid()
        view = arm.run(FollowArm(motion, output, friction), motion.duration_s, text="")
        errors[friction is None] = np.abs(view.desired_position - view.position).max(axis=0)
    assert errors[False].max() < 8e-3
    assert (errors[False] < 0.5 * errors[True]).all()


def test_what_is_commanded_is_feedback_plus_feedforward_by_the_torque_scale(
    nominal: ArmKnowledge, rigid: Callable[..., Any]
) -> None:
    scale = np.array([0.9, 1.1, 1.0, 1.05, 0.95, 1.2])
    known = ArmKnowledge(nominal.model, nominal.friction, scale, "scaled", True)
    output = ArmOutput(known, ArmGains(30.0, 1.0), np.full(6, 12.0), 4e-3)
    command = ArmCommand.at([0.0] * 6)
    output.fill(tick_at(START - 0.05), command, START, np.full(6, 0.1), np.zeros(6), known.laws())
    told = np.array(command.torque) * scale
    assert told == pytest.approx(np.array(command.feedback) + command.feedforward)
    assert np.abs(command.torque).max() == 12.0
    assert set(output.saturated) == {0, 1, 2}
    assert min(output.saturated.values()) > 12.0
    bare = np.array(command.feedforward) - command.friction
    assert bare == pytest.approx(known.model.inverse_dynamics(START, np.full(6, 0.1), np.zeros(6)))


def test_what_is_no_number_reaches_the_gate(nominal: ArmKnowledge) -> None:
    output = ArmOutput(nominal, ArmGains(30.0, 1.0), WIDE, 4e-3)
    command = ArmCommand.at([0.0] * 6)
    broken = START.copy()
    broken[2] = math.nan
    output.fill(tick_at(broken), command, START, np.zeros(6), np.zeros(6))
    assert math.isnan(command.torque[2])


def test_the_damper_of_a_light_rotor_is_no_more_than_a_tick_bears(nominal: ArmKnowledge) -> None:
    gains, period = ArmGains(2.0 * math.pi * 8.0, 1.0), 4e-3
    output = ArmOutput(nominal, gains, WIDE * 100, period)
    still, moving = np.zeros(6), np.zeros(6)
    command = ArmCommand.at([0.0] * 6)
    mass = nominal.model.mass_matrix(START)
    rotors = np.diag(nominal.model.motor_inertia)
    limited = 0
    for joint in range(6):
        moving[:] = 0.0
        moving[joint] = -0.1
        output.fill(tick_at(START, moving), command, START, still, still)
        damper = command.feedback[joint] / 0.1
        bound = ROTOR_SHARE * rotors[joint] / period
        assert damper == pytest.approx(min(gains.velocity * mass[joint, joint], bound))
        limited += damper < gains.velocity * mass[joint, joint] * 0.999
    assert 0 < limited < 6


def numbers(**changes: float | None) -> FrictionNumbers:
    values: dict[str, Any] = {
        "coulomb": 2.0, "viscous": 1.5, "stribeck_excess": 0.8, "stribeck_velocity": 0.06, "offset": 0.05,
        "load_coefficient": 0.0, "temperature_coefficient": 0.0, "reference_temperature": 25.0,
        "bristle_stiffness": None, "speed_min": 0.012, "speed_max": 1.0, "load_max": math.inf,
        "temperature_min": -math.inf, "temperature_max": math.inf,
    }  # fmt: skip
    return FrictionNumbers(**{**values, **changes})


def test_friction_is_the_single_joints_law_for_every_joint() -> None:
    given = (numbers(), numbers(coulomb=0.3, stribeck_excess=0.0, offset=-0.02))
    laws, single = ArmFrictionLaws(given), [FrictionLaw(one) for one in given]
    for speed in (-2.0, -0.5, -0.02, -0.003, 0.0, 1e-5, 0.004, 0.02, 0.3, 1.5):
        expected = [law.steady(speed, 0.0, 25.0) for law in single]
        assert laws.steady([speed, speed]) == pytest.approx(expected, abs=1e-12)


def test_friction_goes_smoothly_through_zero_and_is_held_at_the_edge_of_its_range() -> None:
    laws = ArmFrictionLaws((numbers(),))
    near = [laws.steady([v])[0] for v in np.linspace(-0.02, 0.02, 401)]
    assert np.abs(np.diff(near)).max() < 0.06
    assert laws.outside(("elbow",)) == []
    assert laws.steady([3.0]) == laws.steady([1.0])
    ((code, text),) = laws.outside(("elbow",))
    assert code == "feedforward_speed_elbow"
    assert "joint elbow: the speed left the feed-forward's range: 3 rad/s, identified up to 1 rad/s" in text
