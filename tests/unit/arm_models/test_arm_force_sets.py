"""Force ellipsoid and polytope against brute force: linear programmes, every corner of every three walls, bisection."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import linprog

from bench.errors import ModelError
from bench.models.statics_force import force_ellipsoid, force_polytope, greatest_force, greatest_forces

pytest.importorskip("pinocchio", reason="extra `arm` is not installed")

LIMIT = np.array([40.0, 80.0, 36.0, 24.0, 9.0, 7.0])
POSES = [np.array([0.2, 0.5, -0.4, 0.3, 0.9, 0.1]), np.array([-1.0, 0.2, 0.3, 1.2, -0.7, 2.0])]
STRETCHED = np.array([0.3, 0.0, -np.pi / 2 + np.arctan2(0.05, 0.28), 0.0, 0.0, 0.0])


def directions(count: int = 40) -> np.ndarray:
    drawn = np.random.default_rng(8).normal(size=(count, 3))
    return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)


@pytest.fixture(params=range(len(POSES)))
def pose(request, model):
    q = POSES[request.param]
    return model.jacobian(q), model.gravity(q)


def test_the_polytope_is_what_linear_programmes_find(pose):
    jacobian, gravity = pose
    polytope = force_polytope(jacobian, LIMIT, gravity)
    rows = jacobian[:3].T
    for unit in directions():
        answer = linprog(
            -unit,
            A_ub=np.vstack([rows, -rows]),
            b_ub=np.concatenate([LIMIT - gravity, LIMIT + gravity]),
            bounds=[(None, None)] * 3,
        )
        assert (polytope.vertices @ unit).max() == pytest.approx(-answer.fun, rel=1e-8)


def test_the_corners_are_all_corners_and_no_others(pose):
    """Every three of the twelve walls meet somewhere; what of that is inside is a corner."""
    jacobian, gravity = pose
    polytope = force_polytope(jacobian, LIMIT, gravity)
    corners = []
    for three in combinations(range(12), 3):
        walls = polytope.normals[list(three)]
        if abs(np.linalg.det(walls)) > 1e-9:
            corner = np.linalg.solve(walls, polytope.offsets[list(three)])
            if np.all(polytope.normals @ corner <= polytope.offsets + 1e-9):
                corners.append(corner)
    assert len(polytope.vertices) == len(corners)
    apart = np.linalg.norm(polytope.vertices[:, None] - np.array(corners)[None], axis=2)
    assert apart.min(axis=1).max() < 1e-7
    assert apart.min(axis=0).max() < 1e-7


def test_the_greatest_force_in_a_direction_is_where_the_polytope_ends(pose):
    jacobian, gravity = pose
    polytope = force_polytope(jacobian, LIMIT, gravity)
    for unit in directions(12):
        found = greatest_force(jacobian, LIMIT, 3.0 * unit, gravity)
        low, high = 0.0, 1e5
        for _ in range(80):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if polytope.contains(middle * unit) else (low, middle)
        assert found.force == pytest.approx(low, rel=1e-9)
        torque = jacobian[:3].T @ unit * found.force + gravity
        np.testing.assert_allclose(found.torque, torque, atol=1e-10)
        assert abs(torque[found.joint]) == pytest.approx(LIMIT[found.joint], rel=1e-12)
        assert np.all(np.abs(torque) <= LIMIT * (1.0 + 1e-12))


def test_with_moments_free_the_greatest_force_is_the_best_of_all_corners(pose):
    """Force and moment have four unknowns: every four of the twelve walls meet somewhere."""
    jacobian, gravity = pose
    for unit in directions(4):
        found = greatest_force(jacobian, LIMIT, unit, gravity, moments="free")
        rows = np.column_stack([jacobian[:3].T @ unit, jacobian[3:].T])
        walls, offsets = np.vstack([rows, -rows]), np.concatenate([LIMIT - gravity, LIMIT + gravity])
        four = np.array(list(combinations(range(12), 4)))
        four = four[np.abs(np.linalg.det(walls[four])) > 1e-9]
        corners = np.linalg.solve(walls[four], offsets[four][..., None])[..., 0]
        inside = np.all(corners @ walls.T <= offsets + 1e-7, axis=1)
        assert found.force == pytest.approx(corners[inside, 0].max(), rel=1e-7)
        assert found.force >= greatest_force(jacobian, LIMIT, unit, gravity).force * (1.0 - 1e-9)
        torque = jacobian.T @ np.concatenate([unit * found.force, found.moment]) + gravity
        np.testing.assert_allclose(found.torque, torque, atol=1e-9)
        assert np.all(np.abs(torque) <= LIMIT * (1.0 + 1e-7))


def test_along_a_path_it_is_the_single_poses(model):
    q = np.random.default_rng(4).uniform(-1.0, 1.0, (20, 6))
    jacobians, gravity = model.jacobian_rows(q), model.gravity_rows(q)
    for direction in (np.array([0.0, 0.0, -2.0]), directions(20)):
        forces, joints = greatest_forces(jacobians, LIMIT, direction, gravity)
        units = np.broadcast_to(direction, (20, 3))
        for i in range(20):
            one = greatest_force(jacobians[i], LIMIT, units[i], gravity[i])
            assert forces[i] == pytest.approx(one.force, rel=1e-12)
            assert joints[i] == one.joint
    forces, joints = greatest_forces(jacobians, np.array([40.0, 1.0, 36.0, 24.0, 9.0, 7.0]), [0, 0, 1], gravity)
    assert np.any(forces < 0.0)
    assert np.all(joints[forces < -1.0] == 1)


def test_the_ellipsoid_lies_between_bounds_of_the_polytope(pose):
    """Unit ball inside unit box inside sqrt(n) times the ball."""
    jacobian, _ = pose
    ellipsoid, polytope = force_ellipsoid(jacobian[:3], LIMIT), force_polytope(jacobian, LIMIT)
    np.testing.assert_allclose(ellipsoid.axes.T @ ellipsoid.axes, np.eye(3), atol=1e-12)
    for unit in directions():
        on_it = ellipsoid.axes @ (ellipsoid.half_lengths * unit)
        assert ((jacobian[:3].T @ on_it / LIMIT) ** 2).sum() == pytest.approx(1.0, rel=1e-10)
        assert polytope.contains(on_it * (1.0 - 1e-12))
        assert not polytope.contains(on_it * np.sqrt(6.0) * (1.0 + 1e-9))
    assert ellipsoid.volume == pytest.approx(4.0 * np.pi / 3.0 * np.prod(ellipsoid.half_lengths))
    assert ellipsoid.volume < polytope.volume < 6.0**1.5 * ellipsoid.volume
    assert 0.0 < ellipsoid.isotropy < 1.0
    assert list(ellipsoid.half_lengths) == sorted(ellipsoid.half_lengths)


def test_the_volume_of_the_polytope_is_that_of_points_inside(pose):
    polytope = force_polytope(pose[0], LIMIT, pose[1])
    low, high = polytope.vertices.min(axis=0), polytope.vertices.max(axis=0)
    points = np.random.default_rng(6).uniform(low, high, (40_000, 3))
    share = np.all(points @ polytope.normals.T <= polytope.offsets, axis=1).mean()
    assert polytope.volume == pytest.approx(share * np.prod(high - low), rel=0.05)


def test_six_rows_make_an_ellipsoid_of_wrenches(pose):
    jacobian, _ = pose
    whole = force_ellipsoid(jacobian, LIMIT, length=0.1)
    for axis, half in zip(whole.axes.T, whole.half_lengths, strict=True):
        wrench = np.concatenate([axis[:3], axis[3:] * 0.1]) * half
        assert ((jacobian.T @ wrench / LIMIT) ** 2).sum() == pytest.approx(1.0, rel=1e-9)


def test_a_planar_arm_at_a_right_angle_by_hand():
    """Links of 0.5 m along x and y: J = [[-0.5, -0.5], [0.5, 0]]; limits of 10 and 5 N.m."""
    jacobian = np.array([[-0.5, -0.5], [0.5, 0.0]])
    polytope = force_polytope(jacobian, [10.0, 5.0])
    by_hand = {(10.0, 30.0), (-10.0, -30.0), (10.0, -10.0), (-10.0, 10.0)}
    assert {(round(float(x), 9), round(float(y), 9)) for x, y in polytope.vertices} == by_hand
    assert polytope.volume == pytest.approx(800.0)


def test_a_joint_without_a_limit_bears_everything(pose):
    jacobian, gravity = pose
    free = LIMIT.copy()
    free[0] = np.inf
    assert greatest_force(jacobian, free, [0, 1, 0], gravity).joint != 0
    assert greatest_force(jacobian, free, [0, 1, 0], gravity, "free").force > 0.0
    assert greatest_force(np.zeros((3, 6)), LIMIT, [1, 0, 0]).force == np.inf


def test_at_the_wrists_centre_three_joints_bear_nothing_and_wall_nothing(model):
    jacobian = model.jacobian(POSES[0], 4)
    np.testing.assert_allclose(jacobian[:3, 3:], 0.0, atol=1e-15)
    assert len(force_polytope(jacobian, LIMIT).vertices) == 8


def test_a_stretched_arm_bears_without_a_bound_along_itself(model):
    jacobian = model.jacobian(STRETCHED, 4)  # the wrist's centre
    with pytest.raises(ModelError) as caught:
        force_polytope(jacobian, LIMIT)
    assert caught.value.reason == "unbounded"
    ellipsoid = force_ellipsoid(jacobian[:3], LIMIT)
    assert ellipsoid.half_lengths[-1] == np.inf
    assert ellipsoid.isotropy == 0.0
    assert ellipsoid.volume == np.inf


@pytest.mark.parametrize(
    ("ask", "reason"),
    [
        (lambda j, g: greatest_force(j, LIMIT / 100.0, [0, 0, 1], g), "gravity_exceeds_limit"),
        (lambda j, g: force_polytope(j, LIMIT / 100.0, g), "gravity_exceeds_limit"),
        (lambda j, g: greatest_force(j, LIMIT, [0, 0, 0], g), "bad_direction"),
        (lambda j, g: greatest_force(j, LIMIT, [0, np.nan, 0], g), "bad_direction"),
        (lambda j, g: greatest_force(j, LIMIT, [0, 1], g), "bad_direction"),
        (lambda j, g: greatest_force(j, -LIMIT, [0, 0, 1], g), "bad_limit"),
        (lambda j, g: force_ellipsoid(j, LIMIT * np.nan), "bad_limit"),
        (lambda j, g: force_ellipsoid(j, LIMIT[:5]), "shape"),
        (lambda j, g: force_polytope(j, LIMIT, g[:5]), "shape"),
        (lambda j, g: force_polytope(j, LIMIT, g * np.nan), "gravity_exceeds_limit"),
        (lambda j, g: greatest_force(j[:3], LIMIT, [0, 0, 1], g, "free"), "shape"),
    ],
)
def test_what_does_not_fit_is_refused(pose, ask, reason):
    with pytest.raises(ModelError) as caught:
        ask(*pose)
    assert caught.value.reason == reason
    assert caught.value.remedy
