"""MuJoCo's arm is the description's: dynamics by a recursion of our own, the wrist's wrench by hand and in motion."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.models.arm_description import ArmDescription, LinkInertia
from bench.twin.plant.arm_engine import ArmEngine
from bench.twin.plant.arm_mjcf import quaternion
from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]
Build = Callable[..., ArmTruth]
G = 9.80665


def turn(axis: Floats, angle: float) -> Floats:
    """Rotation matrix by Rodrigues' formula."""
    k = np.array([[0, -axis[2], axis[1]], [axis[2], 0, -axis[0]], [-axis[1], axis[0], 0]])
    return np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * k @ k


def newton_euler(arm: ArmDescription, q: Floats, v: Floats, a: Floats) -> Floats:
    """Joint torques: outward kinematics in the base frame, then momentum of every link about every axis beyond it."""
    place, spin, spun, drag = np.eye(4), np.zeros(3), np.zeros(3), -arm.gravity
    origin = np.zeros(3)
    axes, origins, loads = [], [], []
    for joint, x, u, du in zip(arm.joints, q, v, a, strict=True):
        before = place
        place = before @ joint.placement
        lever = place[:3, 3] - origin
        drag = drag + np.cross(spun, lever) + np.cross(spin, np.cross(spin, lever))
        origin, z = place[:3, 3], place[:3, 2].copy()
        spun = spun + du * z + np.cross(spin, u * z)
        spin = spin + u * z
        place = place.copy()
        place[:3, :3] = place[:3, :3] @ turn(np.array([0.0, 0.0, 1.0]), x)
        r = place[:3, :3]
        c = r @ joint.link.centre
        inertia = r @ joint.link.inertia @ r.T
        force = joint.link.mass * (drag + np.cross(spun, c) + np.cross(spin, np.cross(spin, c)))
        moment = inertia @ spun + np.cross(spin, inertia @ spin)
        axes.append(z)
        origins.append(origin)
        loads.append((origin + c, force, moment))
    return np.array(
        [
            axes[i] @ sum(m + np.cross(p - origins[i], f) for p, f, m in loads[i:])
            for i in range(len(axes))
        ]
    )  # fmt: skip


@pytest.fixture(scope="module")
def engine(build: Build) -> ArmEngine:
    truth = build(specimen="payload_1kg")
    return ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), truth.tip)


def test_a_quaternion_turns_like_its_matrix_at_every_angle() -> None:
    rng = np.random.default_rng(1)
    for angle in (0.0, 1e-9, 1.0, np.pi / 2, np.pi - 1e-9, np.pi, 3.0):
        axis = rng.standard_normal(3)
        axis /= np.linalg.norm(axis)
        w, *xyz = quaternion(turn(axis, angle))
        assert np.allclose(turn(np.array(xyz) / (np.linalg.norm(xyz) or 1.0), 2 * np.arctan2(np.linalg.norm(xyz), w)),
                           turn(axis, angle), atol=1e-12)  # fmt: skip


def test_the_torques_are_those_of_the_description(build: Build, engine: ArmEngine) -> None:
    truth, rng = build(specimen="payload_1kg"), np.random.default_rng(2)
    loaded = truth.arm.with_load(truth.mounted().moved(truth.sensor_frame))
    for _ in range(20):
        q, v, a = rng.uniform(-2, 2, 6), rng.uniform(-3, 3, 6), rng.uniform(-9, 9, 6)
        engine.move(q.tolist(), v.tolist())
        assert np.allclose(engine.torque(a.tolist()), newton_euler(loaded, q, v, a), rtol=0, atol=1e-9)


def test_the_mass_matrix_is_what_accelerations_cost(engine: ArmEngine) -> None:
    q = [0.3, -0.4, 0.2, 0.7, 0.9, -1.0]
    engine.move(q, [0.0] * 6)
    mass, still = engine.mass_matrix(), np.array(engine.torque([0.0] * 6))
    columns = [np.array(engine.torque(row)) - still for row in np.eye(6).tolist()]
    assert np.allclose(mass, np.array(columns).T, atol=1e-12)
    assert np.linalg.eigvalsh(mass).min() > 0.0


@pytest.mark.parametrize("wrist", [0.0, 0.7, np.pi / 2, -1.9])
def test_the_wrist_feels_the_weight_of_what_hangs_on_it(build: Build, engine: ArmEngine, wrist: float) -> None:
    mounted = build(specimen="payload_1kg").mounted()
    engine.move([0.4, -0.3, 0.2, 0.5, wrist, 0.8], [0.0] * 6)
    r = engine.placement()[:3, :3]
    weight = r.T @ np.array([0.0, 0.0, -mounted.mass * G])  # pulls the sensor down: that is what the tool does to it
    expected = [*weight, *np.cross(mounted.centre, weight)]
    assert np.allclose(engine.wrench([0.0] * 6), expected, atol=1e-12)


def test_a_push_at_the_tip_reaches_the_wrist(build: Build, engine: ArmEngine) -> None:
    truth = build(specimen="payload_1kg")
    engine.move([0.4, -0.3, 0.2, 0.5, 0.6, 0.8], [0.0] * 6)
    r, push = engine.placement()[:3, :3], np.array([3.0, -2.0, 11.0])
    bare = np.array(engine.wrench([0.0] * 6))
    felt = np.array(engine.wrench([0.0] * 6, push.tolist())) - bare
    assert np.allclose(felt, [*(r.T @ push), *np.cross(truth.tip, r.T @ push)], atol=1e-12)
    assert np.allclose(engine.wrench([0.0] * 6), bare, atol=0.0)


def test_the_wrist_feels_the_tool_being_accelerated(build: Build, engine: ArmEngine) -> None:
    mounted, rng, h = build(specimen="payload_1kg").mounted(), np.random.default_rng(3), 1e-4
    for _ in range(5):
        q, v, a = rng.uniform(-1, 1, 6), rng.uniform(-2, 2, 6), rng.uniform(-8, 8, 6)
        frames = []
        for t in (-h, 0.0, h):
            engine.move((q + v * t + 0.5 * a * t * t).tolist(), v.tolist())
            frames.append(engine.placement())
        before, now, after = frames
        r = now[:3, :3]
        centre = [frame[:3, :3] @ mounted.centre + frame[:3, 3] for frame in frames]
        force = mounted.mass * ((centre[2] - 2 * centre[1] + centre[0]) / h**2 + [0.0, 0.0, G])
        slow = (after[:3, :3] - before[:3, :3]) / (2 * h) @ r.T
        spin = np.array([slow[2, 1], slow[0, 2], slow[1, 0]])
        bent = (after[:3, :3] - 2 * r + before[:3, :3]) / h**2 @ r.T - slow @ slow
        spun = np.array([bent[2, 1] - bent[1, 2], bent[0, 2] - bent[2, 0], bent[1, 0] - bent[0, 1]]) / 2
        inertia = r @ mounted.inertia @ r.T
        moment = inertia @ spun + np.cross(spin, inertia @ spin) + np.cross(r @ mounted.centre, force)
        engine.move(q.tolist(), v.tolist())
        expected = -np.concatenate([r.T @ force, r.T @ moment])  # the tool resists
        assert np.allclose(engine.wrench(a.tolist()), expected, atol=2e-5)


def test_the_tips_jacobian_is_its_derivative(engine: ArmEngine) -> None:
    q, h = np.array([0.3, -0.4, 0.2, 0.7, 0.9, -1.0]), 1e-6
    engine.move(q.tolist(), [0.0] * 6)
    jacobian = engine.jacobian()
    for i, step in enumerate(h * np.eye(6)):
        ends = []
        for way in (step, -step):
            engine.move((q + way).tolist(), [0.0] * 6)
            ends.append(engine.centre())
            assert np.allclose(engine.centre_list(), ends[-1], atol=1e-15)
        assert np.allclose(jacobian[:, i], (ends[0] - ends[1]) / (2 * h), atol=1e-8)


def test_a_weightless_load_changes_nothing_that_is_felt(build: Build) -> None:
    truth = build()
    engine = ArmEngine(truth.arm, truth.sensor_frame, LinkInertia(0.0), truth.tip)
    engine.move([0.1] * 6, [0.0] * 6)
    assert np.abs(engine.wrench([0.0] * 6)).max() < 1e-7
