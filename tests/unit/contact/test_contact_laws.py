"""The force laws: values, signs, closed forms, derivatives."""

import numpy as np
import pytest

from bench.models import contact, prony
from bench.models.response import Path, response, response_with_derivatives

SHAPES = {
    "power_law": [1.4],
    "damped_power_law": [1.4, 0.05],
    "hunt_crossley": [1.4, 0.1],
    "qlv1": [1.4, 0.3, 0.7],
    "qlv2": [1.4, 0.3, 0.4, 0.2, 5.0],
}


def ramp_hold_release(rate=500.0, speed=2.0, depth=6.0, hold=3.0):
    ramp = depth / speed
    time_s = np.arange(round((0.5 + 2 * ramp + hold + 0.5) * rate)) / rate
    depth_mm = np.interp(
        time_s, [0, 0.5, 0.5 + ramp, 0.5 + ramp + hold, 0.5 + 2 * ramp + hold], [-1e-3, 0, depth, depth, -1.0]
    )
    return time_s, depth_mm, np.gradient(depth_mm, time_s)


def test_the_power_law_has_its_reference_force_at_its_reference_depth():
    depth = np.array([-1.0, 0.0, 2.5, 5.0, 10.0])
    np.testing.assert_allclose(contact.power_law(depth, 2.0, 5.0, 1.5), [0, 0, 2 * 0.5**1.5, 2, 2 * 2**1.5])


def test_a_paraboloid_of_known_modulus_gives_that_modulus_back():
    modulus_mpa, radius, poisson, depth = 0.02, 6.0, 0.45, 3.0
    force = 4 / 3 * modulus_mpa / (1 - poisson**2) * np.sqrt(radius) * depth**1.5
    assert contact.hertz_modulus(force, depth, radius, poisson) == pytest.approx(modulus_mpa, rel=1e-12)


@pytest.mark.parametrize("law", SHAPES)
def test_no_law_pulls_on_release(law):
    time_s, depth, speed = ramp_hold_release()
    force = contact.evaluate(law, SHAPES[law], time_s, depth, speed, F_ref=2.0, d_ref=5.0)
    assert force.min() == 0.0
    assert np.all(force[depth <= 0.0] == 0.0)
    assert force.max() > 1.0


@pytest.mark.parametrize("law", ["damped_power_law", "qlv2"])
def test_without_the_cut_these_laws_would_pull(law):
    """The cut does something: just before contact is lost the uncut law is negative."""
    time_s, depth, speed = ramp_hold_release()
    n = SHAPES[law][0]
    elastic = 2.0 * (np.maximum(depth, 0.0) / 5.0) ** n
    if law == "qlv2":
        uncut = 0.5 * elastic + sum(
            g * prony.convolve(prony.time_step(time_s), elastic, tau) for g, tau in ((0.3, 0.4), (0.2, 5.0))
        )
    else:
        uncut = elastic + 0.05 * speed * (depth > 0)
    assert uncut.min() < -0.05


def test_a_dashpot_steps_at_touch_and_hunt_crossley_does_not():
    depth = np.array([0.0, 1e-9])
    speed = np.full(2, 2.0)
    stepped = contact.damped_power_law(depth, speed, 2.0, 5.0, 1.2, 0.08)
    assert stepped[1] - stepped[0] == pytest.approx(0.16, rel=1e-6)
    assert contact.hunt_crossley(depth, speed, 2.0, 5.0, 1.2, 0.5)[1] < 1e-9


@pytest.mark.parametrize("tau", [0.05, 0.7, 30.0])
def test_the_recursion_equals_direct_quadrature(tau, quadrature):
    time_s, depth, _ = ramp_hold_release(rate=2000.0)
    elastic = contact.power_law(depth, 2.0, 5.0, 1.5)
    ours = prony.convolve(prony.time_step(time_s), elastic, tau)
    np.testing.assert_allclose(ours, quadrature(time_s, elastic, tau), atol=2e-5)


def test_unequal_steps_give_the_same_curve_as_equal_ones():
    time_s = np.linspace(0.0, 4.0, 801)
    signal = np.interp(time_s, [0, 1, 3, 4], [0, 1, 1, 0.2])
    keep = np.sort(np.random.default_rng(3).choice(np.arange(1, 800), 300, replace=False))
    keep = np.unique(np.concatenate([[0, 200, 600, 800], keep]))  # the knots stay, so the signal stays the same
    step = prony.time_step(time_s[keep])
    assert not isinstance(step, float)
    thinned = prony.convolve(step, signal[keep], 0.6)
    np.testing.assert_allclose(thinned, prony.convolve(prony.time_step(time_s), signal, 0.6)[keep], atol=1e-12)


@pytest.mark.parametrize("uniform", [True, False])
def test_the_derivative_by_the_relaxation_time_is_that_of_the_recursion(uniform):
    time_s = np.linspace(0.0, 4.0, 401)
    if not uniform:
        time_s = np.delete(time_s, [7, 50, 51, 300])
    step, signal = prony.time_step(time_s), np.minimum(time_s, 1.5) ** 1.4
    responses, slope = prony.convolve_with_derivative(step, np.stack([signal, 2.0 * signal]), 0.8)
    np.testing.assert_allclose(responses[1], 2.0 * prony.convolve(step, signal, 0.8), atol=1e-12)
    numeric = (prony.convolve(step, signal, 0.8 + 1e-5) - prony.convolve(step, signal, 0.8 - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, numeric, atol=1e-8)


@pytest.mark.parametrize("law", SHAPES)
def test_the_closed_form_of_a_ramp_is_the_end_of_a_simulated_one(law):
    speed, depth = 2.0, 5.0
    time_s = np.linspace(0.0, depth / speed, 20001)
    path = speed * time_s
    force = contact.evaluate(law, SHAPES[law], time_s, path, np.full_like(path, speed), F_ref=2.0, d_ref=5.0)
    value, slope = contact.ramp_force(law, SHAPES[law], depth, speed, F_ref=2.0, d_ref=5.0)
    assert value == pytest.approx(force[-1], rel=1e-6)
    assert slope == pytest.approx((force[-1] - force[-3]) / (path[-1] - path[-3]), rel=1e-3)


@pytest.mark.parametrize("law", SHAPES)
def test_the_analytic_derivatives_are_those_of_the_response(law):
    time_s, depth, speed = ramp_hold_release(rate=200.0)
    path, shape = Path(prony.time_step(time_s), depth + 10.0, speed), np.array(SHAPES[law])
    value, derivatives = response_with_derivatives(law, shape, path, 10.003, 5.0)
    np.testing.assert_allclose(value, response(law, shape, path, 10.003, 5.0), atol=1e-12)
    step = 1e-6
    # at the very touch, and where the cut begins, a difference straddles a corner
    smooth = (np.abs(depth) > 0.02) & ((value > 1e-3) | (depth < -0.02))
    for i in range(len(shape) + 1):
        up, down = shape.copy(), shape.copy()
        at = [10.003, 10.003]
        if i < len(shape):
            up[i] += step
            down[i] -= step
        else:
            at = [10.003 + step, 10.003 - step]
        numeric = (response(law, up, path, at[0], 5.0) - response(law, down, path, at[1], 5.0)) / (2 * step)
        np.testing.assert_allclose(derivatives[i][smooth], numeric[smooth], atol=2e-6)


def test_damping_alone_does_not_make_a_hold_relax():
    time_s, depth, speed = ramp_hold_release()
    holding = (time_s > 4.0) & (time_s < 6.0)
    force = contact.evaluate("hunt_crossley", SHAPES["hunt_crossley"], time_s, depth, speed, F_ref=2.0, d_ref=5.0)
    assert np.ptp(force[holding]) < 1e-9
    relaxed = contact.evaluate("qlv2", SHAPES["qlv2"], time_s, depth, speed, F_ref=2.0, d_ref=5.0)
    assert relaxed[holding][0] - relaxed[holding][-1] > 0.05
