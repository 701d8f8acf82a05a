"""Rupture: found where the force drops, fitted only before."""

from dataclasses import replace

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.contact_fit import fit_contact
from bench.identify.contact_point import estimate_contact
from bench.identify.frame import Frame
from bench.identify.puncture import before_rupture, detect_rupture


def punctured(press, at_mm=6.0, drop=0.6, over_s=0.02, **settings):
    """Press through a membrane that gives way at a depth; the tool goes on into what is below it."""
    whole = press(noise_N=3e-3, rate_hz=500.0, **settings)
    broken = int(np.argmax(whole.position_mm >= 10.0 + at_mm))
    loss = np.clip((whole.time_s - whole.time_s[broken]) / over_s, 0.0, 1.0) * drop
    return replace(whole, force_N=whole.force_N * (1.0 - loss)), whole.force_N[broken]


@pytest.mark.parametrize(("drop", "over_s"), [(0.6, 0.002), (0.3, 0.05), (0.15, 0.1)])
def test_the_rupture_is_where_the_force_dropped(press, drop, over_s):
    one, strength = punctured(press, drop=drop, over_s=over_s)
    contact = estimate_contact(press(noise_N=3e-3), "power_law")
    rupture = detect_rupture(one, contact, frame=Frame(200.0, 5.0), force_relative_uncertainty=0.005)
    assert rupture is not None
    assert rupture.force.value == pytest.approx(strength, abs=rupture.force.expanded_uncertainty)
    true_depth = 6.0 - strength / 200.0
    assert rupture.depth.value == pytest.approx(true_depth, abs=rupture.depth.expanded_uncertainty + 0.02)
    assert rupture.drop_N > 0.6 * drop * strength
    assert set(rupture.force.budget) == {"noise", "force zero", "sampling", "force calibration"}


def test_a_press_that_holds_has_no_rupture(press):
    assert detect_rupture(press(noise_N=3e-3, hold_s=2.0, n=1.2)) is None


def test_relaxation_in_the_hold_is_no_rupture(press):
    assert detect_rupture(press(noise_N=3e-3, hold_s=4.0, g=(0.6,), tau_s=(0.1,))) is None


def test_a_soft_slow_bend_is_no_rupture(press):
    one, _ = punctured(press, drop=0.3, over_s=2.0)
    assert detect_rupture(one) is None


def test_only_what_came_before_the_rupture_is_fitted(press):
    one, _ = punctured(press)
    with pytest.raises(Refused, match="puncture") as refusal:
        fit_contact([one], model="power_law", segments=("rise",))
    assert refusal.value.reason == "loading_not_monotone"
    rupture = detect_rupture(one)
    fit = fit_contact([before_rupture(one, rupture)], model="power_law", segments=("rise",), reference_depth_mm=5.0)
    assert fit.parameters["F_ref"].value == pytest.approx(3.0, rel=0.01)
    assert fit.greatest_depth_mm == pytest.approx(6.0, abs=0.05)
    with pytest.raises(Refused, match="beyond"):
        fit.force_at(7.5, 2.0)


def test_the_depth_of_a_rupture_is_unknown_without_a_contact_point(press):
    one, _ = punctured(press)
    rupture = detect_rupture(one)
    assert np.isnan(rupture.depth.value)
    assert np.isnan(rupture.depth.standard_uncertainty)
    assert rupture.force.value > 1.0
