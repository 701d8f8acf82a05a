"""Friction, LuGre, gear and impedance against figures that can be worked out and against an independent integrator."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from bench.models.friction import Friction, coulomb_viscous, smooth_sign, stribeck, tip_force
from bench.models.impedance import Impedance
from bench.models.lugre import bristle, lugre
from bench.models.recurrence import scan
from bench.models.transmission import Transmission

PUBLISHED = Friction(coulomb=1.2, viscous=0.8, stribeck_excess=0.6, stribeck_velocity=0.05)


def test_the_published_joint_has_1_73_newton_metres_at_the_tracking_speed():
    assert float(PUBLISHED.torque(0.02)) == pytest.approx(1.73, abs=0.005)
    assert PUBLISHED.breakaway == pytest.approx(1.8)


def test_an_excess_read_as_a_breakaway_level_would_give_0_70():
    misread = Friction(1.2, 0.8, stribeck_excess=0.6 - 1.2, stribeck_velocity=0.05)
    assert float(misread.torque(0.02)) == pytest.approx(0.70, abs=0.015)


def test_friction_is_odd_but_for_its_offset_and_grows_with_the_load():
    joint = Friction(1.2, 0.8, 0.6, 0.05, offset=0.1, load_coefficient=0.05)
    w = np.array([0.01, 0.1, 1.0])
    np.testing.assert_allclose(joint.torque(w, load=3.0) + joint.torque(-w, load=3.0), 0.2)
    np.testing.assert_allclose(joint.torque(w, load=-4.0) - joint.torque(w), 0.2)
    np.testing.assert_allclose(stribeck(w, 1.2, 0.8, 0.6, 0.05, 0.1), joint.torque(w))
    np.testing.assert_allclose(coulomb_viscous(w, 1.2, 0.8), 1.2 + 0.8 * w)


def test_warmth_lowers_friction_and_can_be_referred_to_another_temperature():
    joint = Friction(1.2, 0.8, 0.6, 0.05, load_coefficient=0.05, temperature_coefficient=0.01)
    w = np.array([0.02, 0.5])
    dry = PUBLISHED.torque(w)
    np.testing.assert_allclose(joint.torque(w, load=2.0, temperature=35.0), 0.9 * dry + 0.1)
    np.testing.assert_allclose(joint.at(35.0).torque(w, temperature=41.0), joint.torque(w, temperature=41.0))
    assert float(joint.torque(0.5, temperature=300.0)) == 0.0


def test_a_blended_sign_is_smooth_through_zero_and_sharp_far_from_it():
    assert smooth_sign(0.0, 1e-3) == 0.0
    slope = (PUBLISHED.torque(1e-6, smoothing=1e-3) - PUBLISHED.torque(-1e-6, smoothing=1e-3)) / 2e-6
    assert float(slope) == pytest.approx(1.8 / 1e-3 + 0.8, rel=1e-3)
    assert float(PUBLISHED.torque(0.02, smoothing=1e-3)) == pytest.approx(float(PUBLISHED.torque(0.02)), rel=1e-9)


def test_a_torque_error_becomes_a_tip_force_by_the_lever():
    assert float(tip_force(-1.73, 0.5)) == pytest.approx(3.46)
    with pytest.raises(ValueError, match="lever"):
        tip_force(1.0, 0.0)


def test_the_scan_is_the_plain_loop():
    rng = np.random.default_rng(3)
    for count in (1, 2, 17, 1000):
        decay, gain = rng.uniform(-1.0, 1.0, count), rng.standard_normal(count)
        state, wanted = 0.4, []
        for e, b in zip(decay, gain, strict=True):
            state = e * state + b
            wanted.append(state)
        np.testing.assert_allclose(scan(decay, gain, 0.4), wanted, rtol=1e-12, atol=1e-14)


def reference(times, velocity, joint, stiffness, damping):
    """The LuGre equations by an adaptive stiff integrator."""

    def rate(t, z):
        w = velocity(t)
        return w - stiffness * abs(w) / float(joint.level(w)) * z

    found = solve_ivp(rate, (times[0], times[-1]), [0.0], "LSODA", times, rtol=1e-10, atol=1e-14, max_step=2e-3)
    w = velocity(times)
    z = found.y[0]
    return stiffness * z + damping * (w - stiffness * np.abs(w) / joint.level(w) * z) + joint.viscous * w + joint.offset


def test_lugre_follows_the_stiff_integrator_with_an_error_of_second_order():
    joint = Friction(1.2, 0.8, 0.6, 0.05, offset=0.02)

    def velocity(t):
        return 0.02 * np.sin(2.0 * np.pi * 2.0 * np.asarray(t)) + 0.002

    errors = []
    for rate_hz in (1000.0, 2000.0):
        times = np.arange(0.0, 1.0, 1.0 / rate_hz)
        found = lugre(times, velocity(times), joint, 5000.0, 10.0)
        errors.append(np.abs(found - reference(times, velocity, joint, 5000.0, 10.0)).max())
    assert errors[0] < 2e-3
    assert errors[1] < 0.35 * errors[0]


def test_lugre_settles_on_its_steady_state_at_any_step():
    joint = Friction(1.2, 0.8, 0.6, 0.05, load_coefficient=0.05, temperature_coefficient=0.01)
    time = np.arange(0.0, 3.0, 0.02)  # sigma0 |w| / g is 300 times the sample rate here
    for w in (-2.0, 0.02):
        torque = lugre(time, np.full(len(time), w), joint, 1e6, 10.0, load=2.0, temperature=30.0)
        assert torque[-1] == pytest.approx(float(joint.torque(w, load=2.0, temperature=30.0)), rel=1e-9)


def test_a_bristle_is_a_spring_in_small_motion_and_forgets_only_by_travel():
    travel = np.full(100, 1e-8)
    path = bristle(travel, np.full(101, 1e-6), np.full(101, 1.8), 5000.0)
    assert path.deflection[-1] == pytest.approx(1e-6, rel=0.01)
    resting = bristle(np.zeros(50), np.zeros(51), np.full(51, 1.8), 5000.0, start=2e-4)
    assert np.all(resting.deflection == 2e-4)


GEAR = Transmission(4000.0, 6500.0, 5e-4, backlash=1e-4, hysteresis_width=0.6, hysteresis_travel=1e-4)


def test_the_gear_is_soft_at_zero_and_stiff_under_load():
    tight = Transmission(4000.0, 6500.0, 5e-4)
    assert float(tight.slope(0.0)) == pytest.approx(4000.0)
    assert float(tight.slope(5e-3)) == pytest.approx(6500.0, rel=1e-6)
    x = np.linspace(-3e-3, 3e-3, 7)
    numeric = (tight.mid_line(x + 1e-8) - tight.mid_line(x - 1e-8)) / 2e-8
    np.testing.assert_allclose(tight.slope(x), numeric, rtol=1e-5)


@pytest.mark.parametrize("load", [6500.0, 2500.0, 4000.0])
def test_deflection_inverts_the_mid_line_stiffening_or_softening(load):
    gear = Transmission(4000.0, load, 5e-4, backlash=1e-4)
    torque = np.array([-30.0, -1.0, -1e-6, 0.0, 1e-9, 0.3, 12.0])
    np.testing.assert_allclose(gear.mid_line(gear.deflection(torque)), torque, rtol=1e-9, atol=1e-12)


def test_inside_the_gap_only_hysteresis_carries_torque():
    assert float(GEAR.mid_line(4e-5)) == 0.0
    assert float(GEAR.slope(-4e-5)) == 0.0
    assert float(GEAR.branch(0.0, 1) - GEAR.branch(0.0, -1)) == pytest.approx(0.6)


def test_a_cycled_gear_runs_on_its_branches():
    half = np.linspace(-2e-3, 2e-3, 400)
    path = np.concatenate([half, half[::-1], half])
    torque = GEAR.along(path)
    middle = 200
    assert torque[800 + middle] == pytest.approx(float(GEAR.branch(half[middle], 1)), abs=1e-6)
    assert torque[400 + middle] == pytest.approx(float(GEAR.branch(half[::-1][middle], -1)), abs=1e-6)


@pytest.mark.parametrize(
    ("inertia", "overshoot", "settling_s"), [(2.0, 0.163, 1.6), (1.0, 0.043, 0.8), (5.0, 0.35, None)]
)
def test_the_impedance_step_of_the_published_figures(inertia, overshoot, settling_s):
    wanted = Impedance(inertia, 10.0, 50.0)
    assert wanted.overshoot == pytest.approx(overshoot, abs=0.002)
    if settling_s is not None:
        assert wanted.settling_time() == pytest.approx(settling_s, abs=0.05)
    if inertia == 2.0:
        assert wanted.damping_ratio == pytest.approx(0.5)
        assert wanted.natural_frequency == pytest.approx(5.0)


def test_a_larger_inertia_is_slower_and_less_damped():
    steps = [Impedance(m, 10.0, 50.0) for m in (0.2, 1.0, 2.0, 5.0)]
    assert all(a.overshoot < b.overshoot for a, b in pairwise(steps))
    assert all(a.damping_ratio > b.damping_ratio for a, b in pairwise(steps))
    assert steps[3].settling_time() > steps[2].settling_time() > steps[1].settling_time()


@pytest.mark.parametrize("damping", [2.0, 10.0, 19.99, 20.0, 20.01, 60.0])
def test_the_step_response_solves_its_equation_and_settles_when_it_says(damping):
    wanted = Impedance(2.0, damping, 50.0)
    time = np.linspace(0.0, 20.0, 200_001)
    found = wanted.step_response(time)

    def motion(t, y):
        return [y[1], (50.0 * (1.0 - y[0]) - damping * y[1]) / 2.0]

    solved = solve_ivp(motion, (0.0, 5.0), [0.0, 0.0], "DOP853", time[:50_001], rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(found[:50_001], solved.y[0], atol=1e-8)
    outside = np.flatnonzero(np.abs(found - 1.0) > 0.02)[-1]
    assert wanted.settling_time() == pytest.approx(time[outside], abs=2e-4)
    assert wanted.overshoot == pytest.approx(max(found.max() - 1.0, 0.0), abs=1e-7)
    if math.isfinite(wanted.peak_time) and wanted.overshoot > 1e-3:
        assert wanted.peak_time == pytest.approx(time[found.argmax()], abs=2e-4)


def test_an_impedance_needs_all_three():
    with pytest.raises(ValueError, match="stiffness is 0"):
        Impedance(2.0, 10.0, 0.0)
