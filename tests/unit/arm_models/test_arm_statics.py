"""Statics: signs, shifted wrenches, wrenches from torques, deflection, safety factors."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from bench.errors import ModelError
from bench.models.dh import DhRow, from_dh
from bench.models.rigid import ArmModel
from bench.models.statics import (
    deflection,
    dexterity,
    joint_compliance,
    joint_torque,
    safety_factors,
    scaled_jacobian,
    shift_wrench,
    singular_values,
    turn_wrench,
    wrench_from_torque,
    wrench_in_base,
)
from bench.models.transforms import from_rpy

pytest.importorskip("pinocchio", reason="extra `arm` is not installed")

POSE = np.array([0.2, 0.5, -0.4, 0.3, 0.9, 0.1])
STRAIGHT_WRIST = np.array([0.2, 0.5, -0.4, 0.3, 0.0, 0.1])


@pytest.fixture(scope="module")
def industrial() -> ArmModel:
    """Geometry of the ABB IRB 120: standard DH, all zero with the upper arm up and the forearm level."""
    rows = [
        (0.29, 0, -90, 0),
        (0, 0.27, 0, -90),
        (0, 0.07, -90, 0),
        (0.302, 0, 90, 0),
        (0, 0, -90, 0),
        (0.072, 0, 0, 180),
    ]
    return ArmModel(
        from_dh(
            "irb120",
            [
                DhRow(f"axis_{i}", d=d, a=a, alpha=math.radians(alpha), theta=math.radians(theta))
                for i, (d, a, alpha, theta) in enumerate(rows, 1)
            ],
        )
    )


def test_an_industrial_arm_that_lifts_fifty_newtons(industrial):
    """The arm exerts +50 N along the base's z at its flange; joint 2 turns it down positively, so it pushes back."""
    np.testing.assert_allclose(industrial.position(np.zeros(6), "flange"), [0.374, 0.0, 0.63], atol=1e-12)
    q = np.radians([0, -30, 60, 0, 45, 0])
    torque = joint_torque(industrial, q, [0, 0, 50.0, 0, 0, 0], "flange")
    np.testing.assert_allclose(torque, [0, -9.01, -15.76, 0, -0.93, 0], atol=5e-3)
    # Work: joints and tip do the same for any small motion.
    small = np.random.default_rng(0).normal(size=6) * 1e-6
    rise = industrial.position(q + small, "flange")[2] - industrial.position(q - small, "flange")[2]
    assert torque @ (2 * small) == pytest.approx(50.0 * rise, rel=1e-6)


def test_gravity_is_carried_beside_the_wrench(model):
    np.testing.assert_allclose(joint_torque(model, POSE, np.zeros(6)), model.gravity(POSE), atol=1e-15)


def test_a_wrench_shifted_to_a_point():
    """A force up at a tip 0.2 m ahead of the flange: seen at the flange it has the moment p x f, about -y."""
    at_tip = np.array([0.0, 0.0, 10.0, 0.0, 0.0, 0.3])
    at_flange = shift_wrench(at_tip, [0.2, 0.0, 0.0])
    np.testing.assert_allclose(at_flange, [0.0, 0.0, 10.0, 0.0, -2.0, 0.3])
    np.testing.assert_allclose(shift_wrench(at_flange, [-0.2, 0.0, 0.0]), at_tip)
    rows = shift_wrench(np.tile(at_tip, (3, 1)), np.array([[0.2, 0, 0], [0, 0.1, 0], [0, 0, 5.0]]))
    np.testing.assert_allclose(rows[:, 3:], [[0, -2, 0.3], [1, 0, 0.3], [0, 0, 0.3]])


def test_one_wrench_takes_the_same_torques_wherever_it_is_written(model):
    wrench = np.array([3.0, -8.0, 12.0, 0.4, 0.1, -0.2])
    lever = model.position(POSE, "tip") - model.position(POSE, "flange")
    there = model.jacobian(POSE, "tip").T @ wrench
    np.testing.assert_allclose(model.jacobian(POSE, "flange").T @ shift_wrench(wrench, lever), there, atol=1e-12)
    wrong = model.jacobian(POSE, "flange").T @ shift_wrench(wrench, -lever)
    assert np.abs(wrong - there).max() > 0.1


def test_a_sensors_wrench_in_the_base(model):
    """Given in a turned frame; power against a motion of that frame as a rigid body is the same in both."""
    placement = from_rpy([0.3, -0.4, 1.2], [0.5, 0.1, 0.7])
    own = np.array([1.0, 2.0, 3.0, 0.1, 0.2, 0.3])
    base = wrench_in_base(own, placement)
    turn, place = placement[:3, :3], placement[:3, 3]
    omega, speed_at_base = np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.4, -0.3])
    speed = speed_at_base + np.cross(omega, place)
    power = own[:3] @ (turn.T @ speed) + own[3:] @ (turn.T @ omega)
    assert base[:3] @ speed_at_base + base[3:] @ omega == pytest.approx(power, rel=1e-12)
    np.testing.assert_allclose(turn_wrench(own, turn)[:3], turn @ own[:3])


def test_a_wrench_comes_back_from_its_torques_undamped(model):
    wrench = np.array([3.0, -8.0, 12.0, 0.4, 0.1, -0.2])
    jacobian = model.jacobian(POSE)
    found = wrench_from_torque(jacobian, jacobian.T @ wrench)
    assert found.damping == 0.0
    np.testing.assert_allclose(found.wrench, wrench, atol=1e-10)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)
    # The characteristic length weighs what is damped, and where nothing is damped nothing.
    np.testing.assert_allclose(
        wrench_from_torque(jacobian, jacobian.T @ wrench, length=1.0, near=0).wrench, wrench, atol=1e-10
    )
    linear = jacobian[:3]
    force = wrench_from_torque(linear, linear.T @ wrench[:3])
    np.testing.assert_allclose(force.wrench, wrench[:3], atol=1e-10)


def test_damping_is_the_formula_in_scaled_units(model):
    jacobian, tau = model.jacobian(POSE), np.array([1.0, 2.0, -1.0, 0.5, 0.2, 0.1])
    scaled = scaled_jacobian(jacobian, 0.1)
    f = np.linalg.solve(scaled @ scaled.T + 0.05**2 * np.eye(6), scaled @ tau)
    expected = np.concatenate([f[:3], f[3:] * 0.1])
    np.testing.assert_allclose(wrench_from_torque(jacobian, tau, damping=0.05, length=0.1).wrench, expected, atol=1e-12)


def test_near_a_singular_pose_the_estimate_stays_finite_and_damping_sets_in_without_a_jump(model):
    tau = np.array([1.0, 2.0, -1.0, 0.5, 0.2, 0.1])
    at_it = wrench_from_torque(model.jacobian(STRAIGHT_WRIST), tau)
    assert at_it.damping > 0.0
    assert at_it.distance < 1e-12
    assert np.abs(at_it.wrench).max() < 1e4
    with pytest.raises(ModelError) as caught:
        wrench_from_torque(model.jacobian(STRAIGHT_WRIST), tau, damping=0.0)
    assert caught.value.reason == "singular"
    # J^T F itself is finite there.
    assert np.all(np.isfinite(joint_torque(model, STRAIGHT_WRIST, [0, 0, 50.0, 0, 0, 0])))
    path = [STRAIGHT_WRIST + np.eye(6)[4] * x for x in np.linspace(0.0, 0.9, 2000)]
    found = [wrench_from_torque(model.jacobian(q), tau) for q in path]
    damped = [f.damping > 0 for f in found]
    assert damped[0]
    assert not damped[-1]
    assert sum(a != b for a, b in pairwise(damped)) == 1
    at = damped.index(False)
    step = np.abs(found[at].wrench - found[at - 1].wrench).max()
    assert step < 0.05 * np.abs(found[at].wrench).max()


def test_fewer_joints_than_a_wrench_has_parts_give_the_least_wrench(model):
    jacobian = model.jacobian(POSE)[:, :3]
    tau = np.array([1.0, -2.0, 0.5])
    found = wrench_from_torque(jacobian, tau)
    np.testing.assert_allclose(found.residual, 0.0, atol=1e-12)


def test_dexterity_of_a_planar_arm_has_the_closed_form(body):
    """Yoshikawa: the manipulability of two links is l1 l2 |sin(q2)|."""
    rng = np.random.default_rng(1)
    arm = ArmModel(from_dh("planar", [DhRow("a", a=0.4, link=body(rng, 2.0)), DhRow("b", a=0.3, link=body(rng, 1.0))]))
    for elbow in (0.3, 1.2, 2.9):
        planar = arm.jacobian([0.7, elbow])[:2]
        assert dexterity(planar).manipulability == pytest.approx(0.12 * math.sin(elbow), rel=1e-12)
    straight = dexterity(arm.jacobian([0.7, 0.0])[:2])
    assert straight.distance < 1e-12
    assert straight.condition_number > 1e12
    assert dexterity(np.zeros((3, 2))).condition_number == math.inf


def test_singular_values_of_many_poses_at_once(model):
    q = np.random.default_rng(2).uniform(-1, 1, (5, 6))
    stacked = singular_values(model.jacobian_rows(q), 0.2)
    for row, pose in zip(stacked, q, strict=True):
        np.testing.assert_allclose(row, dexterity(model.jacobian(pose), 0.2).singular_values, atol=1e-14)
    unscaled = np.linalg.svd(model.jacobian(q[0]), compute_uv=False)
    np.testing.assert_allclose(singular_values(model.jacobian(q[0]), 1.0), unscaled, atol=1e-14)


def test_deflection_follows_the_load(model):
    """A push on the tip moves the tip along with it, never against; springs in series add their ways."""
    stiffness = np.array([25e3, 25e3, 18e3, 12e3, 6e3, 4e3])
    jacobian = model.jacobian(POSE)
    push = np.array([0.0, 30.0, -40.0, 0.0, 0.0, 0.0])
    moved = deflection(jacobian, stiffness, jacobian.T @ push)
    assert push @ moved > 0.0
    one_by_one = sum(jacobian[:, i] * (jacobian[:, i] @ push) / stiffness[i] for i in range(6))
    np.testing.assert_allclose(moved, one_by_one, atol=1e-15)
    # A real pose: the joints give way and the tip is where they lead it.
    tau = jacobian.T @ push
    there = model.position(POSE + tau / stiffness) - model.position(POSE)
    np.testing.assert_allclose(moved[:3], there, rtol=0.05, atol=2e-6)
    rows = deflection(np.array([jacobian] * 3), stiffness, np.array([tau, 2 * tau, -tau]))
    np.testing.assert_allclose(rows, [moved, 2 * moved, -moved], atol=1e-15)
    stiff = np.array([np.inf] * 6)
    np.testing.assert_array_equal(deflection(jacobian, stiff, tau), np.zeros(6))


def test_springs_behind_a_coupling():
    """q = A q_m: the springs sit at the motors' axes; energy stored there is that of the joints."""
    coupling = np.eye(3)
    coupling[2, 1] = 0.8
    springs = np.array([100.0, 200.0, 50.0])
    tau = np.array([1.0, -2.0, 3.0])
    compliance = joint_compliance(springs, coupling)
    at_motors = coupling.T @ tau
    assert tau @ compliance @ tau == pytest.approx((at_motors**2 / springs).sum())
    matrix = np.linalg.inv(compliance)
    np.testing.assert_allclose(joint_compliance(matrix), compliance, atol=1e-15)


def test_safety_factors_name_the_worst_joint_and_row():
    torque = np.array([[1.0, -9.0, 0.0], [2.0, 3.0, 0.0], [-4.0, 1.0, 0.0]])
    found = safety_factors(torque, [10.0, 18.0, 1.0], [12.0, 90.0, 2.0])
    np.testing.assert_allclose(found.rated, [2.5, 2.0, np.inf])
    np.testing.assert_allclose(found.peak, [3.0, 10.0, np.inf])
    assert (found.worst_rated, found.row_rated) == (1, 0)
    assert (found.worst_peak, found.row_peak) == (0, 2)
    assert safety_factors(torque[1], [10.0, 18.0, 1.0], [10.0, 18.0, 1.0]).worst_rated == 0


def test_a_torque_that_is_no_number_is_never_safe():
    found = safety_factors([1.0, np.nan], [10.0, 10.0], [10.0, 10.0])
    assert found.worst_rated == 1
    assert not found.rated[1] >= 1.5


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda: scaled_jacobian(np.ones((4, 6))), "shape"),
        (lambda: scaled_jacobian(np.ones(6)), "shape"),
        (lambda: scaled_jacobian(np.ones((6, 6)), 0.0), "bad_length"),
        (lambda: scaled_jacobian(np.ones((6, 6)), np.nan), "bad_length"),
        (lambda: wrench_from_torque(np.eye(6), np.ones(5)), "shape"),
        (lambda: joint_compliance([1.0, 0.0]), "bad_stiffness"),
        (lambda: joint_compliance([1.0, np.nan]), "bad_stiffness"),
        (lambda: joint_compliance(np.diag([1.0, -1.0])), "bad_stiffness"),
    ],
)
def test_what_does_not_fit_is_refused(ask, reason):
    with pytest.raises(ModelError) as caught:
        ask()
    assert caught.value.reason == reason
