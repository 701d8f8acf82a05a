"""The arm in its world: power, brakes, commands within a tick, looking that changes nothing, contact, faults."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.models.arm_description import LinkInertia
from bench.twin.plant.arm_engine import ArmEngine
from bench.twin.plant.arm_truth import ArmTruth, AxisTruth
from bench.twin.plant.tissue import Tissue

Floats = NDArray[np.float64]
Build = Callable[..., ArmTruth]
MakeBench = Callable[[ArmTruth], Any]
AXIS = AxisTruth(coulomb=0.4, viscous=0.5, stiffness=2e4, damping=20.0, inertia=0.2, torque_constant=4.0)
WAY = [2.0, 4.0, 2.0, 0.8, 0.8, 0.3]


def tool_down(truth: ArmTruth, height: float) -> list[float]:
    """Joint angles with the tip above the middle of the phantom, looking straight down, at a height [m]."""
    engine = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), truth.tip)
    assert truth.contact is not None
    wanted = np.add(truth.contact.point, [0.0, 0.0, height])
    q = np.array([0.0, 0.3, 0.6, 0.0, 0.9, 0.0])
    for _ in range(60):
        engine.move(q.tolist(), [0.0] * 6)
        miss = np.array([*(wanted - engine.centre()), *np.cross(engine.placement()[:3, 2], [0.0, 0.0, -1.0])])
        ends = []
        for step in 1e-6 * np.eye(6):
            engine.move((q + step).tolist(), [0.0] * 6)
            ends.append([*engine.centre(), *engine.placement()[:3, 2]])
        engine.move(q.tolist(), [0.0] * 6)
        slope = (np.array(ends).T - np.array([[*engine.centre(), *engine.placement()[:3, 2]]]).T) / 1e-6
        z = engine.placement()[:3, 2]
        turn = np.array([np.cross(z, column) for column in slope[3:].T]).T
        q = q + np.linalg.lstsq(np.vstack([slope[:3], turn]), miss, rcond=None)[0]
    return [float(x) for x in q]


def posed(truth: ArmTruth, pose: Sequence[float]) -> ArmTruth:
    axes = tuple(replace(axis, start=x) for axis, x in zip(truth.axes, pose, strict=True))
    return replace(truth, axes=axes)


def test_the_brakes_need_power_and_their_line(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    arm, late = b.arm, b.arm.truth.brake_time_s
    with b.world.lock:
        arm.release_brakes(True)
    b.to(0.2)
    assert arm.braked  # no power
    with b.world.lock:
        arm.set_power(True)
    b.to(0.2 + 0.9 * late)
    assert arm.braked
    b.to(0.2 + 1.1 * late)
    assert not arm.braked
    with b.world.lock:
        arm.release_brakes(False)
    b.to(0.4)
    assert arm.braked
    assert arm.powered()


def test_without_power_there_is_no_torque_and_the_brakes_stop_the_arm(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    b.release()
    heard: list[bool] = []
    b.arm.on_power(heard.append)
    weight = b.arm.state.force
    b.drive([u + 4.0 for u in weight])
    b.to(0.3)
    assert max(abs(v) for v in b.arm.state.v) > 0.1
    with b.world.lock:
        b.arm.set_power(False)
        b.arm.command_currents([1.0] * 6)
    b.to(0.31)
    assert heard == [False]
    assert b.arm.currents == [0.0] * 6
    assert b.arm.states()[2] == [0.0] * 6
    b.to(0.31 + b.arm.truth.brake_time_s + 0.3)
    assert max(abs(v) for v in b.arm.state.v) < 1e-3


def test_an_arm_left_alone_without_power_does_not_move(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    b.to(3.0)
    places = b.arm.history.column("joint_position")
    assert places.shape == (3001, 6)
    assert np.ptp(places, axis=0).max() < 1e-9


@pytest.mark.parametrize("late_us", [0, 250, 900])
def test_a_command_within_a_tick_counts_from_when_it_comes(one_axis: Build, bench: MakeBench, late_us: int) -> None:
    """Against a world whose ticks are a twentieth: the command then comes at the start of one."""
    truth = one_axis(replace(AXIS, coulomb=0.0, stribeck_excess=0.0))
    angles = []
    for tick_s in (1e-3, 5e-5):
        b = bench(truth)
        if tick_s < 1e-3:
            from bench.twin.plant.arm import Arm
            from bench.twin.world import SimWorld

            b.world = SimWorld(tick_ns=50_000)
            b.arm = Arm(b.world, replace(truth, tick_s=tick_s))
        b.release()
        t0 = 0.11 + late_us * 1e-6
        b.to(t0)
        b.drive([2.0])
        b.to(t0 + 0.004)
        b.drive([-1.0])
        b.to(0.12)
        angles.append((b.arm.state.theta[0], b.arm.state.q[0], b.arm.state.w[0]))
    way = 0.5 * 2.0 / 0.38 * 0.01**2
    assert np.abs(np.array(angles[0]) - angles[1])[:2].max() < 2e-3 * way


def run(b: Any, look: bool, ahead: bool) -> Floats:
    """A loop at 250 Hz that commands in the middle of ticks."""
    b.release()
    start = b.world.now_ns
    weight = b.arm.state.force
    for k in range(40):
        b.to((start + k * 4_000_000 + 1_370_000) * 1e-9)
        b.drive([u + way * math.sin(0.2 * k + i) for i, (u, way) in enumerate(zip(weight, WAY, strict=True))])
        if look:
            with b.world.lock:
                b.arm.states()
                b.arm.temperature_degc(2)
        if ahead:
            with b.world.lock:
                for action in b.world.on_idle:
                    action()
        if look:
            b.to((start + k * 4_000_000 + 2_500_000) * 1e-9)
            with b.world.lock:
                b.arm.states()
    b.to((start + 160_000_000) * 1e-9)
    table: Floats = np.hstack(
        [b.arm.history.column(name) for name in ("joint_position", "axis_position", "wrench", "motor_torque")]
    )
    return table


def test_the_same_seed_gives_the_same_arm_whoever_looks_and_whatever_is_worked_ahead(
    build: Build, bench: MakeBench
) -> None:
    plain, looked, ahead = (run(bench(build()), *how) for how in ((False, False), (True, False), (True, True)))
    assert np.array_equal(plain, looked)
    assert np.array_equal(plain, ahead)
    other = run(bench(build(seed=2)), False, False)
    assert not np.allclose(plain, other, atol=1e-6)


def test_what_was_worked_ahead_is_dropped_when_a_command_comes_early(build: Build, bench: MakeBench) -> None:
    tables = []
    for ahead in (False, True):
        b = bench(build())
        b.release()
        start = b.world.now_ns
        for at_ms in (0.2, 4.2, 8.2, 9.7, 10.3, 16.0):
            b.to(start * 1e-9 + at_ms * 1e-3)
            b.drive([u + at_ms * 0.2 for u in b.arm.state.force])
            if ahead:
                with b.world.lock:
                    b.arm._work_ahead()
        b.to(start * 1e-9 + 0.03)
        tables.append(b.arm.history.column("joint_position").copy())
    assert np.array_equal(*tables)


def forewarned(b: Any, foresee: bool) -> Floats:
    """A loop whose commands are mostly foreseen: rightly, with other currents, at another time, or in vain."""
    b.release()
    arm, start = b.arm, b.world.now_ns
    weight = arm.state.force
    for k in range(48):
        at = start + k * 4_000_000
        b.to((at + 1_130_000) * 1e-9)
        wanted = [u + way * math.sin(0.2 * k + i) for i, (u, way) in enumerate(zip(weight, WAY, strict=True))]
        told = [u / axis.torque_per_current for u, axis in zip(wanted, arm.truth.axes, strict=True)]
        if foresee:
            with b.world.lock:
                b.world.work_ahead()
                if k % 7 == 3:
                    told[2] += 0.5
                if k % 11 != 5:
                    arm.foresee_currents(at + 1_440_000 + (500_000 if k % 5 == 2 else 0), told)
                    b.world.work_ahead()
        if k == 20:
            b.to((at + 1_200_000) * 1e-9)
            with b.world.lock:
                arm.release_brakes(False)  # they close while more is foreseen
        if k % 6 == 4:
            continue  # it never came
        b.to((at + 1_440_000) * 1e-9)
        b.drive(wanted)
        with b.world.lock:
            b.world.work_ahead()
    b.to((start + 200_000_000) * 1e-9)
    table: Floats = np.hstack(
        [arm.history.column(name) for name in ("joint_position", "axis_position", "wrench", "motor_torque")]
    )
    return table


def test_what_is_foreseen_changes_nothing_whether_it_comes_or_not(build: Build, bench: MakeBench) -> None:
    assert np.array_equal(forewarned(bench(build()), False), forewarned(bench(build()), True))


def test_a_command_that_came_as_foreseen_was_worked_ahead(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    b.release()
    start, weight = b.world.now_ns, b.arm.state.force
    steps: list[int] = []
    step = b.arm.stepper.step
    for k in range(4):
        b.to((start + k * 4_000_000 + 1_130_000) * 1e-9)
        wanted = [u + 0.1 * (k + 1) for u in weight]
        with b.world.lock:
            told = [u / axis.torque_per_current for u, axis in zip(wanted, b.arm.truth.axes, strict=True)]
            b.arm.foresee_currents(b.world.now_ns + 310_000, told)
            b.world.work_ahead()
        b.arm.stepper.step = lambda *a: steps.append(len(steps)) or step(*a)
        b.to((start + k * 4_000_000 + 1_440_000) * 1e-9)
        b.drive(wanted)
        b.to((start + k * 4_000_000 + 4_200_000) * 1e-9)
        b.arm.stepper.step = step
        if k < 2:
            steps.clear()  # it does not know yet how evenly they come
    assert steps == []


def test_servos_see_shaft_angles_and_currents(build: Build, bench: MakeBench) -> None:
    truth = build()
    axes = tuple(replace(axis, direction=-1, zero=0.3) for axis in truth.axes)
    b = bench(replace(truth, axes=axes))
    b.release()
    b.drive([u + 3.0 for u in b.arm.state.force])
    b.to(0.2)
    angles, speeds, currents = b.arm.states()
    s = b.arm.state
    for axis, theta, w, angle, speed, current, made in zip(
        axes, s.theta, s.w, angles, speeds, currents, b.arm.currents, strict=True
    ):
        assert angle == pytest.approx(0.3 - axis.gear_ratio * theta, abs=1e-12)
        assert speed == pytest.approx(-axis.gear_ratio * w, rel=0.25, abs=0.05)  # behind its filter
        assert current == pytest.approx(made, abs=6 * axis.current_noise)
    assert any(current != made for current, made in zip(currents, b.arm.currents, strict=True))


def test_servos_get_warm_by_the_square_of_their_currents(build: Build, bench: MakeBench) -> None:
    truth = build()
    b = bench(replace(truth, thermal=replace(truth.thermal, time_s=0.5)))
    with b.world.lock:
        b.arm.set_power(True)  # brakes stay closed
        b.arm.command_currents([2.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    b.to(3.0)
    rise = [b.arm.temperature_degc(axis) - truth.thermal.ambient for axis in range(6)]
    assert rise[0] == pytest.approx(4.0 * truth.thermal.kelvin_per_a2, rel=0.01)
    assert rise[4] == pytest.approx(1.0 * truth.thermal.kelvin_per_a2, rel=0.01)
    assert rise[1] == 0.0


def test_a_slow_press_feels_the_tissues_own_force_at_tip_wrist_and_joints(build: Build, bench: MakeBench) -> None:
    truth = build("full_arm_ideal", "arm_phantom_a")
    assert truth.contact is not None
    tissue_truth = replace(truth.contact.tissue, surface_mm=0.0)
    truth = replace(truth, contact=replace(truth.contact, tissue=tissue_truth))
    truth = posed(truth, tool_down(truth, 0.0005))
    goal, b = np.array(tool_down(truth, -0.004)), bench(truth)
    b.release()
    start, from_q = b.world.now_ns, np.array(b.arm.state.q)
    stiff, brake = np.array([4e3, 4e3, 2e3, 4e2, 4e2, 1e2]), np.array([80.0, 80.0, 40.0, 6.0, 6.0, 1.5])
    for k in range(300):
        b.to(start * 1e-9 + k * 2e-3)
        s = b.arm.state
        share = min(k / 120, 1.0)
        wanted = from_q + share * (goal - from_q)
        b.drive(np.array(s.force) + stiff * (wanted - np.array(s.theta)) - brake * np.array(s.w))
    b.to(start * 1e-9 + 0.6)
    force = b.arm.history.column("contact_force")
    assert 1.0 < force.max() < 40.0
    engine, own = ArmEngine(truth.arm, truth.sensor_frame, truth.mounted(), truth.tip), []
    places = b.arm.history.column("joint_position")
    for q in places.tolist():
        engine.move(q, [0.0] * 6)
        own.append(1e3 * (truth.contact.point[2] - engine.centre()[2]))  # the tool looks straight down
    alone: list[float] = []
    Tissue(tissue_truth, math.inf, truth.seed).advance(own, 1e-3, math.inf, alone)
    assert np.abs(np.array(alone) - force).max() < 0.01 * force.max()
    s = b.arm.state
    engine.move(s.q, s.v)
    r, weight = engine.placement()[:3, :3], truth.mounted().mass * 9.80665
    felt = r @ np.array(s.wrench[:3])
    assert felt[2] == pytest.approx(force[-1] - weight, rel=0.02)
    jacobian = engine.jacobian()
    engine.move(s.q, [0.0] * 6)
    statics = np.array(engine.torque([0.0] * 6)) - jacobian.T @ np.array([0.0, 0.0, force[-1]])
    twist = np.array([axis.stiffness for axis in truth.axes]) * np.array(s.x)
    assert np.allclose(twist, statics, atol=0.15)


def test_a_payload_that_changes_pulls_at_once(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    b.to(0.01)
    before = np.array(b.arm.state.wrench[:3])
    with b.world.lock:
        b.arm.change(replace(b.arm.truth, payload=LinkInertia(0.5, np.array([0.0, 0.0, 0.1]))))
    b.to(1.0)
    more = np.linalg.norm(b.arm.state.wrench[:3]) - np.linalg.norm(before)
    assert more == pytest.approx(0.5 * 9.80665, rel=1e-3)


def test_an_encoder_that_is_stuck_stays_until_it_is_freed(build: Build, bench: MakeBench) -> None:
    b = bench(build())
    b.release()
    b.drive([u + 3.0 for u in b.arm.state.force])
    b.to(0.1)
    with b.world.lock:
        b.arm.stick_encoder(1)
    before = b.arm.states()
    b.to(0.15)
    now = b.arm.states()
    assert now[0][1] == before[0][1]
    assert now[1][1] == 0.0
    assert now[0][0] != before[0][0]
    b.arm.free_encoder()
    assert b.arm.states()[0][1] != before[0][1]
