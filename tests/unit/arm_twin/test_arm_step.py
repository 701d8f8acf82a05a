"""The arm's integrator against an adaptive solver of the same equations, its energy, its statics, its friction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from bench.twin.plant.arm_engine import ArmEngine
from bench.twin.plant.arm_state import ArmState
from bench.twin.plant.arm_step import ArmStepper
from bench.twin.plant.arm_truth import ArmTruth, AxisTruth

Floats = NDArray[np.float64]
Build = Callable[..., ArmTruth]
POSE = [0.1, -0.3, 0.2, 0.1, 0.5, 0.1]
RATED = np.array([40.0, 80.0, 36.0, 24.0, 9.0, 7.0])
SWING = np.array([8.0, 10.0, 6.0, 2.0, 2.0, 1.0])
HELD = 4  # ticks a command holds
NIL = [0.0] * 6
COUPLED = np.eye(6)
COUPLED[2, 1], COUPLED[5, 4] = -1.0, 0.5


def column(truth: ArmTruth, key: str) -> Floats:
    return np.array([getattr(axis, key) for axis in truth.axes])


def spring(truth: ArmTruth, theta: Floats, w: Floats, q: Floats, v: Floats) -> Floats:
    twist, rate = truth.coupling @ theta + truth.offset - q, truth.coupling @ w - v
    return np.asarray(column(truth, "stiffness") * twist + column(truth, "damping") * rate)


def equations(truth: ArmTruth, torque: Floats) -> Callable[[float, Floats], Floats]:
    """The equations of docs/twin.md as they stand there, MuJoCo giving M and the bias."""
    n, engine = len(truth.axes), ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), np.zeros(3))
    coulomb, excess, vs = (column(truth, key) for key in ("coulomb", "stribeck_excess", "stribeck_velocity"))
    s0, s1, s2 = (column(truth, key) for key in ("bristle_stiffness", "bristle_damping", "viscous"))
    offset, inertia, nil = column(truth, "offset"), column(truth, "inertia"), [0.0] * n
    ripple, phase = column(truth, "ripple"), column(truth, "ripple_phase")
    periods = column(truth, "ripple_per_revolution") * column(truth, "shaft_per_axis")

    def rates(_: float, y: Floats) -> Floats:
        theta, w, q, v, bristle = y.reshape(5, n)
        tau = spring(truth, theta, w, q, v)
        engine.move(q.tolist(), v.tolist())
        level = coulomb + excess * np.exp(-((w / vs) ** 2))
        bent = w - np.divide(np.abs(w) * bristle, level, out=np.zeros(n), where=level > 0)
        friction = np.where(level > 0, bristle + s1 * bent, 0.0) + s2 * w + offset
        driven = torque + ripple * np.sin(periods * theta + phase)
        wd = (driven - friction - truth.coupling.T @ tau) / inertia
        vd = np.linalg.solve(engine.mass_matrix(), tau - np.array(engine.torque(nil)))
        return np.concatenate([w, wd, v, vd, s0 * bent * (level > 0)])

    return rates


def started(stepper: ArmStepper, pose: Sequence[float]) -> ArmState:
    """Standing at ``pose`` with open brakes, the motors to carry the weight from now on."""
    state = stepper.at_rest(pose, None)
    state.bristle = [0.0] * stepper.n
    stepper.brake(False)
    return state


def errors(truth: ArmTruth, pieces: Sequence[Floats], substeps: int = 1) -> Floats:
    """Largest error of each spring's torque against LSODA, over the rated torque, shape (n,)."""
    stepper = ArmStepper(truth, 1e-3 / substeps)
    state = started(stepper, POSE)
    y = np.array(state.theta + state.w + state.q + state.v + state.bristle)
    worst = np.zeros(len(truth.axes))
    for torque in pieces:
        times = np.arange(1, HELD + 1) * 1e-3
        part = solve_ivp(equations(truth, torque), (0.0, HELD * 1e-3), y, "LSODA", rtol=1e-8, atol=1e-10, t_eval=times)
        y = part.y[:, -1]
        for expected in part.y.T:
            for _ in range(substeps):
                state = stepper.step(state, torque.tolist(), NIL)
            ours = [np.array(x) for x in (state.theta, state.w, state.q, state.v)]
            found = spring(truth, *ours) - spring(truth, *expected.reshape(5, -1)[:4])
            worst = np.maximum(worst, np.abs(found))
    return worst / RATED


def weight(truth: ArmTruth) -> Floats:
    return np.asarray(truth.coupling.T @ np.array(ArmStepper(truth, 1e-3).at_rest(POSE, None).force))


def swing(truth: ArmTruth, seconds: float, size: float, frequency: float) -> list[Floats]:
    times = np.arange(round(seconds / (HELD * 1e-3))) * HELD * 1e-3
    carried = weight(truth)
    return [carried + size * SWING * np.sin(2 * np.pi * frequency * t + np.arange(6)) for t in times]


def test_torques_agree_with_an_adaptive_solver_through_reversals(build: Build) -> None:
    truth = build(seed=3)
    assert errors(truth, swing(truth, 0.1, 1.0, 4.0)).max() < 1.5e-3


def test_torques_agree_while_the_bristles_hold(build: Build) -> None:
    truth = build(seed=3)
    assert errors(truth, swing(truth, 0.06, 0.1, 5.0)).max() < 7e-4


def test_torques_of_coupled_axes_agree_and_half_the_step_makes_far_less_error(build: Build) -> None:
    truth = replace(build(seed=3), coupling=COUPLED)
    pieces = swing(truth, 0.06, 1.0, 4.0)
    coarse, fine = errors(truth, pieces), errors(truth, pieces, 2)
    assert coarse.max() < 2.5e-3
    assert fine.max() < 0.4 * coarse.max()


def energy(truth: ArmTruth, engine: ArmEngine, s: ArmState) -> float:
    """Kinetic, elastic and of gravity [J]."""
    engine.move(s.q, s.v)
    w, v = np.array(s.w), np.array(s.v)
    twist = truth.coupling @ np.array(s.theta) + truth.offset - np.array(s.q)
    heights, place = 0.0, np.eye(4)
    loaded = truth.arm.with_load(truth.mounted().moved(truth.sensor_frame))
    for joint, x in zip(loaded.joints, s.q, strict=True):
        turn = np.eye(4)
        turn[:2, :2] = [[math.cos(x), -math.sin(x)], [math.sin(x), math.cos(x)]]
        place = place @ joint.placement @ turn
        heights += joint.link.mass * (place[:3, :3] @ joint.link.centre + place[:3, 3])[2]
    kinetic = 0.5 * v @ engine.mass_matrix() @ v + 0.5 * column(truth, "inertia") @ (w * w)
    return float(kinetic + 0.5 * column(truth, "stiffness") @ (twist * twist) + 9.80665 * heights)


@pytest.mark.parametrize("coupling", [np.eye(6), COUPLED], ids=["plain", "coupled"])
def test_an_arm_without_friction_and_damping_keeps_its_energy(build: Build, smooth: Build, coupling: Floats) -> None:
    truth = replace(smooth(build(), damping=0.0, stop_min=-9.0, stop_max=9.0), coupling=coupling)
    stepper = ArmStepper(truth, 1e-3)
    state = started(stepper, POSE)
    state.v = [0.3, -0.2, 0.4, 0.5, -0.6, 0.7]
    state.w = np.linalg.solve(coupling, state.v).tolist()
    engine = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), truth.tip)
    first, fell, kept = energy(truth, engine, state), 0.0, []
    for _ in range(300):  # it falls freely, all springs ringing
        state = stepper.step(state, NIL, NIL)
        kept.append(energy(truth, engine, state) - first)
        fell = max(fell, float(np.abs(np.array(state.q) - POSE).max()))
    assert fell > 0.3
    moved = 0.5 * np.array(state.v) @ np.array(engine.mass_matrix()) @ np.array(state.v)
    assert np.abs(kept).max() < 1e-3 * moved


def test_energy_only_falls_with_friction(build: Build) -> None:
    truth = build()
    stepper = ArmStepper(truth, 1e-3)
    state = started(stepper, POSE)
    engine = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), truth.tip)
    state.w = state.v = [0.3, -0.2, 0.4, 0.5, -0.6, 0.7]
    before = energy(truth, engine, state)
    for _ in range(30):
        for _ in range(10):
            state = stepper.step(state, NIL, NIL)
        now = energy(truth, engine, state)
        assert now < before + 2e-3  # what the bristles may give back
        before = now


def test_brakes_hold_the_arm_and_its_springs_carry_the_weight(build: Build) -> None:
    truth = build(specimen="payload_1kg")
    truth = replace(truth, axes=tuple(replace(axis, ripple=0.0) for axis in truth.axes))
    stepper = ArmStepper(truth, 1e-3)
    state = stepper.at_rest(POSE, None)
    load = np.array(state.force)
    for _ in range(300):
        state = stepper.step(state, NIL, NIL)
    assert np.abs(np.array(state.q) - POSE).max() < 1e-12
    sag = np.array(state.q) - np.array(state.theta)
    assert np.allclose(sag, -load / column(truth, "stiffness"), atol=1e-12)


def test_motors_that_carry_the_weight_hold_the_arm_without_friction(build: Build, smooth: Build) -> None:
    truth = replace(smooth(build()), coupling=COUPLED)
    stepper = ArmStepper(truth, 1e-3)
    state = started(stepper, POSE)
    for _ in range(100):
        state = stepper.step(state, weight(truth).tolist(), NIL)
    assert np.abs(np.array(state.q) - POSE).max() < 1e-6


AXIS = AxisTruth(coulomb=2.0, stribeck_excess=0.8, stribeck_velocity=0.05, viscous=1.5, bristle_stiffness=2e4,
                 bristle_damping=20.0, stiffness=2e4, damping=20.0, inertia=0.2)  # fmt: skip


def test_an_axis_breaks_away_at_coulomb_friction_and_excess(one_axis: Build) -> None:
    stepper = ArmStepper(one_axis(AXIS), 1e-3)
    state, torque = started(stepper, [0.0]), 2.4
    state.bristle = [torque]
    while abs(state.w[0]) < 0.01:
        torque += 0.0004
        state = stepper.step(state, [torque], [0.0])
    assert torque == pytest.approx(AXIS.coulomb + AXIS.stribeck_excess, rel=0.02)


@pytest.mark.parametrize("speed", [0.15, -0.4, 1.5])
def test_an_axis_moves_at_the_speed_whose_friction_is_the_torque(one_axis: Build, speed: float) -> None:
    u = abs(speed)
    level = AXIS.coulomb + AXIS.stribeck_excess * math.exp(-((u / AXIS.stribeck_velocity) ** 2)) + AXIS.viscous * u
    stepper = ArmStepper(one_axis(replace(AXIS, inertia=0.02), inertia=0.001, mass=0.01), 1e-3)
    state = started(stepper, [0.0])
    state.w = state.v = [speed]
    for _ in range(300):
        state = stepper.step(state, [math.copysign(level, speed)], [0.0])
    assert state.w[0] == pytest.approx(speed, rel=1e-3)


def test_a_slow_axis_slows_down_by_stribecks_curve(one_axis: Build) -> None:
    """Below the Stribeck speed friction rises as speed falls; at constant speed it is the curve's."""
    stepper = ArmStepper(one_axis(AXIS), 1e-3)
    for u in (0.01, 0.03, 0.08):
        state = started(stepper, [0.0])
        state.w = state.v = [u]
        state.bristle = [AXIS.coulomb + AXIS.stribeck_excess * math.exp(-((u / AXIS.stribeck_velocity) ** 2))]
        for k in range(400):  # a stiff servo keeps the speed
            torque = 4000.0 * (u * (k + 1) * 1e-3 - state.theta[0]) + 60.0 * (u - state.w[0])
            state = stepper.step(state, [torque], [0.0])
        expected = state.bristle[0] + AXIS.viscous * u
        curve = AXIS.coulomb + AXIS.stribeck_excess * math.exp(-((u / AXIS.stribeck_velocity) ** 2)) + AXIS.viscous * u
        assert expected == pytest.approx(curve, rel=2e-3)
        assert torque == pytest.approx(curve, rel=1e-2)


def test_a_falling_link_is_caught_by_its_stop(one_axis: Build) -> None:
    truth = one_axis(replace(AXIS, stop_min=-0.4, stop_max=0.5, coulomb=0.0, stribeck_excess=0.0), upright=False)
    stepper = ArmStepper(truth, 1e-3)
    state = started(stepper, [0.0])
    lowest = 0.0
    for _ in range(2500):
        state = stepper.step(state, [0.0], [0.0])
        lowest = min(lowest, state.q[0])
    weight_torque = 2.0 * 9.80665 * 0.2 * math.cos(state.q[0])
    assert -0.45 < lowest < -0.4
    assert state.q[0] == pytest.approx(-0.4 - weight_torque / AXIS.stiffness, abs=2e-6)
    assert abs(state.w[0]) < 1e-3
