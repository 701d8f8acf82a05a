"""Bristles from small reversals: exact against an independent integrator, honest with noise and a rounded angle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from bench.errors import Refused
from bench.identify.friction import identify_friction
from bench.identify.lugre import PreSliding, identify_lugre, resolution_of
from bench.models.friction import Friction
from bench.models.lugre import lugre

JOINT = Friction(1.2, 0.8, 0.6, 0.05, offset=0.03, load_coefficient=0.04)
COUNT = 2.0 * math.pi / 16384 / 100


def angle(t, pace=1.0):
    return 4e-4 * np.sin(0.6 * np.pi * pace * t) + 1e-4 * np.sin(2.2 * np.pi * pace * t)


def velocity(t, pace=1.0):
    slow, fast = 0.6 * np.pi * pace, 2.2 * np.pi * pace
    return 4e-4 * slow * np.cos(slow * t) + 1e-4 * fast * np.cos(fast * t)


def reversals(seconds=20.0, *, rate_hz=250.0, noise=0.0, step=0.0, seed=0, pace=1.0, scale=1.015):
    """A path whose friction is worked out on a grid eight times finer than what is handed on."""
    time = np.arange(0.0, seconds, 0.125 / rate_hz)
    load = 0.3 * np.sin(800.0 * angle(time))
    friction = lugre(time, velocity(time, pace), JOINT, 5000.0, 10.0, load=load, start=1e-4)
    command, load, path = (friction[::8] + load[::8]) / scale, load[::8], angle(time, pace)[::8]
    if step:
        path = np.round(path / step) * step
    return PreSliding(rate_hz, command, load + noise * np.random.default_rng(seed).standard_normal(len(path)), path)


def test_an_independent_integrator_is_recovered_to_a_millionth():
    """sigma0 is; sigma1 makes a thousandth of the torque here, so 1e-6 of the torque are 1e-3 of it."""

    def rate(t, z):
        return velocity(t) - 5000.0 * abs(velocity(t)) / float(JOINT.level(velocity(t))) * z

    time = np.arange(0.0, 6.0, 1e-3)
    z = solve_ivp(rate, (0.0, 6.0), [0.0], "LSODA", time, rtol=1e-10, atol=1e-15, max_step=2e-3).y[0]
    w = velocity(time)
    friction = 5000.0 * z + 10.0 * (w - 5000.0 * np.abs(w) / JOINT.level(w) * z) + 0.8 * w + 0.03
    fit = identify_lugre([PreSliding(1000.0, friction, np.zeros(6000), angle(time))], JOINT, cutoff_hz=None)
    assert fit.parameters["bristle_stiffness"].value == pytest.approx(5000.0, rel=1e-6)
    assert fit.parameters["bristle_damping"].value == pytest.approx(10.0, rel=1e-3)
    assert fit.rms_Nm < 5e-6


def test_the_low_pass_hardly_moves_the_answer():
    fit = identify_lugre([reversals()], JOINT, torque_scale=1.015)
    assert fit.parameters["bristle_stiffness"].value == pytest.approx(5000.0, rel=1e-4)
    assert fit.parameters["bristle_damping"].value == pytest.approx(10.0, rel=0.02)


@pytest.mark.parametrize("free_level", [False, True])
def test_truth_lies_within_the_expanded_uncertainty(free_level, record_property):
    """100 seeds in all; the angle is rounded to a count of the rotor's encoder, the same way in every repeat."""
    truth = {"bristle_stiffness": 5000.0, "bristle_damping": 10.0, **({"breakaway": 1.8} if free_level else {})}
    rng, inside = np.random.default_rng(5), []
    for seed in range(60 if not free_level else 40):
        made = reversals(6.0, noise=0.02, step=COUNT, seed=seed, pace=rng.uniform(0.7, 1.4))
        fit = identify_lugre([made], JOINT, torque_scale=1.015, free_level=free_level)
        inside.append(
            [abs(fit.parameters[k].value - v) <= fit.parameters[k].expanded_uncertainty for k, v in truth.items()]
        )
        assert fit.parameters["bristle_stiffness"].value == pytest.approx(5000.0, rel=0.02)
    record_property("coverage", dict(zip(truth, np.mean(inside, axis=0).round(2).tolist(), strict=True)))
    assert np.mean(inside, axis=0).min() >= 0.90


def test_slow_reversals_do_not_tell_the_damping_and_say_so():
    fit = identify_lugre([reversals(20.0, noise=0.02, step=COUNT, pace=0.3)], JOINT, torque_scale=1.015)
    assert "bristle_damping" in fit.notes[0]
    assert "too slow" in fit.notes[0]


def test_uncertainty_of_the_sweep_goes_into_the_bristles(sweep):
    steady = identify_friction(sweep(friction=JOINT, segment_scatter=0.02).segments(3), gain_uncertainty=0.01)
    fit = identify_lugre([reversals(noise=0.02)], steady)
    budget = fit.parameters["bristle_stiffness"].budget
    assert budget["segments of the sweep"] > budget["pieces"]
    assert budget["transducer_gain"] == pytest.approx(50.0, rel=0.5)
    assert fit.parameters["breakaway"] == steady.parameters["breakaway"]
    bristles = fit.parameters["bristle_stiffness"]
    assert abs(bristles.value - 5000.0) < bristles.expanded_uncertainty


def test_a_shift_of_the_level_moves_the_stiffness_as_the_budget_says(sweep):
    """The analytic propagation against a second fit with the parameter changed."""
    steady = identify_friction(sweep(friction=JOINT).segments(3))
    made = [reversals(10.0)]
    here = identify_lugre(made, JOINT, torque_scale=1.015)
    there = identify_lugre(made, Friction(1.21, 0.8, 0.6, 0.05, 0.03, 0.04), torque_scale=1.015)
    moved = there.parameters["bristle_stiffness"].value - here.parameters["bristle_stiffness"].value
    factor = np.array([[0.01 * (name == "coulomb")] for name in steady.names])
    alone = replace(steady, law=JOINT, torque_scale=1.015, sources=(), scatter=replace(steady.scatter, factor=factor))
    budget = identify_lugre(made, alone).parameters["bristle_stiffness"].budget
    assert budget["segments of the sweep"] == pytest.approx(abs(moved), rel=0.1)


def test_stretches_with_their_own_start_are_fitted_together():
    one = reversals(6.0)
    shifted = PreSliding(one.rate_hz, one.command[500:], one.torque[500:], one.angle[500:])
    fit = identify_lugre([one, shifted], JOINT, torque_scale=1.015)
    assert fit.parameters["bristle_stiffness"].value == pytest.approx(5000.0, rel=1e-3)


def test_what_shows_no_bending_is_refused():
    still = PreSliding(250.0, np.zeros(2000), np.zeros(2000), np.zeros(2000))
    with pytest.raises(Refused, match="did not move"):
        identify_lugre([still], JOINT)
    small = reversals()
    stiff = PreSliding(250.0, 1e-3 * small.angle, np.zeros(len(small.angle)), 1e-3 * small.angle)
    with pytest.raises(Refused, match="breakaway") as told:
        identify_lugre([stiff], JOINT)
    assert told.value.reason == "no_reversals"
    with pytest.raises(Refused):
        identify_lugre([], JOINT)


def test_the_step_of_a_rounded_angle_is_found_and_none_in_a_smooth_one():
    path = angle(np.arange(0.0, 20.0, 1e-3))
    assert resolution_of(np.round(path / COUNT) * COUNT) == pytest.approx(COUNT, rel=1e-6)
    assert resolution_of(path) == 0.0
