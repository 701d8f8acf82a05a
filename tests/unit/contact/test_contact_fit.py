"""Fits of every law to presses of known specimens, and every reason not to give a number."""

from dataclasses import replace

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.contact_fit import fit_contact
from bench.identify.contact_point import BaselineRule, estimate_contact
from bench.identify.frame import Frame, compensate_frame, measured_speed
from bench.models.contact import LAWS, damped_power_law, hunt_crossley

TISSUE = {"n": 1.4, "g": (0.25, 0.2), "tau_s": (0.4, 5.0), "hold_s": 8.0}


def values(fit):
    return {name: estimate.value for name, estimate in fit.parameters.items()}


def test_a_clean_elastic_press_gives_its_parameters_back(press):
    fit = fit_contact([press()], model="power_law", reference_depth_mm=5.0, segments=("rise",))
    assert values(fit) == pytest.approx({"F_ref": 3.0, "n": 1.5}, rel=1e-4)
    assert fit.contacts[0].position_mm == pytest.approx(10.0, abs=1e-4)
    assert fit.contacts[0].method == "fit"


def test_a_clean_relaxing_press_gives_its_parameters_back(press):
    fit = fit_contact([press(**TISSUE)], model="qlv2", reference_depth_mm=5.0)
    expected = {"F_ref": 3.0, "n": 1.4, "g1": 0.25, "tau1": 0.4, "g2": 0.2, "tau2": 5.0}
    assert values(fit) == pytest.approx(expected, rel=3e-3)
    assert fit.names == tuple(expected)
    assert fit.covariance.shape == (6, 6)
    assert fit.rms_N < 1e-4


@pytest.mark.parametrize("law", ["damped_power_law", "hunt_crossley"])
def test_a_damping_is_found_from_a_ramp_and_a_hold(press, law):
    one = press(hold_s=3.0)
    depth = one.position_mm - 10.0
    speed = np.gradient(depth, one.time_s)
    force = (
        damped_power_law(depth, speed, 3.0, 5.0, 1.5, 0.05)
        if law == "damped_power_law"
        else hunt_crossley(depth, speed, 3.0, 5.0, 1.5, 0.04)
    )
    one = replace(one, force_N=force)
    contact = replace(estimate_contact(one, "power_law"), position_mm=10.0, force_zero_N=0.0)
    fit = fit_contact([one], model=law, contact=[contact], reference_depth_mm=5.0)
    name = LAWS[law][1].name
    assert fit.parameters[name].unit == {"c": "N.s/mm", "lambda": "s/mm"}[name]
    expected = {"F_ref": 3.0, "n": 1.5, name: {"c": 0.05, "lambda": 0.04}[name]}
    assert values(fit) == pytest.approx(expected, rel=0.02)


def test_replicates_at_two_speeds_share_one_shape(press):
    slow = [press(i, noise_N=2e-3, F_ref=3.0 + 0.05 * (i - 1), surface_mm=10.0 + 0.02 * i, **TISSUE) for i in range(3)]
    fast = [press(7, noise_N=2e-3, speed_mm_s=5.0, **TISSUE)]
    fit = fit_contact([*slow, *fast], model="qlv2", reference_depth_mm=5.0)
    assert values(fit) == pytest.approx(
        {"F_ref": 3.0, "n": 1.4, "g1": 0.25, "tau1": 0.4, "g2": 0.2, "tau2": 5.0}, rel=0.02
    )
    np.testing.assert_allclose(fit.scales_N, [2.95, 3.0, 3.05, 3.0], rtol=0.01)
    np.testing.assert_allclose([c.position_mm for c in fit.contacts], [10.0, 10.02, 10.04, 10.0], atol=0.01)


def test_a_shared_scale_is_one_number(press):
    presses = [press(i, noise_N=2e-3) for i in range(2)]
    fit = fit_contact(presses, model="power_law", segments=("rise",), scale="shared", reference_depth_mm=5.0)
    assert fit.scales_N == pytest.approx((3.0,), rel=1e-2)


def test_the_speed_comes_from_the_path_not_from_a_label(press):
    """A stage that slows down: Hunt–Crossley on the measured speed is right, whatever the label says."""
    one = press(hold_s=2.0)
    path = np.interp(one.time_s, [0, 1, 3, 8, 11], [7.5, 7.5, 11.5, 15.0, 15.0])
    speed = np.gradient(path, one.time_s)
    force = hunt_crossley(path - 10.0, speed, 3.0, 5.0, 1.5, 0.1)
    end = int(np.searchsorted(one.time_s, 8.0))
    one = replace(
        one, position_mm=path, force_N=force, speed_mm_s=99.0, rise=slice(100, end), hold=slice(end, len(path))
    )
    contact = replace(estimate_contact(one, "power_law"), position_mm=10.0, force_zero_N=0.0)
    fit = fit_contact([one], model="hunt_crossley", contact=[contact], reference_depth_mm=5.0)
    assert fit.parameters["lambda"].value == pytest.approx(0.1, rel=0.02)


def test_the_measured_speed_is_exact_on_straight_lines_also_when_samples_are_uneven():
    time_s = np.sort(np.random.default_rng(0).uniform(0, 10, 400))
    np.testing.assert_allclose(measured_speed(time_s, 3.0 - 1.7 * time_s), -1.7, rtol=1e-6)


def test_what_the_frame_gives_way_is_not_depth(press):
    soft = press(frame_N_mm=20.0)
    right = fit_contact([soft], model="power_law", frame=Frame(20.0, 0.5), reference_depth_mm=5.0, segments=("rise",))
    wrong = fit_contact([soft], model="power_law", reference_depth_mm=5.0, segments=("rise",))
    assert right.force_at(5.0, 2.0).value == pytest.approx(3.0, rel=1e-3)
    assert wrong.force_at(5.0, 2.0).value < 2.9
    assert compensate_frame(np.array([1.0]), np.array([10.0]), 20.0)[0] == pytest.approx(0.5)


def test_force_and_stiffness_at_a_depth_are_those_of_the_specimen(press):
    fit = fit_contact([press(noise_N=2e-3)], model="power_law", reference_depth_mm=3.0, segments=("rise",))
    force, stiffness = fit.force_at(5.0, 2.0), fit.stiffness_at(5.0, 2.0)
    assert (force.unit, force.kind, stiffness.unit, stiffness.kind) == ("N", "force", "N/mm", "stiffness")
    assert force.value == pytest.approx(3.0, abs=force.expanded_uncertainty)
    assert stiffness.value == pytest.approx(3.0 * 1.5 / 5.0, abs=stiffness.expanded_uncertainty)


def test_freeing_the_contact_point_moves_a_bare_k_far_more_than_the_force_at_depth(press):
    """Why F at a depth is reported: k = F_ref / d_ref^n with d_ref = 1 mm lies far outside the data."""
    one = press(noise_N=5e-3, n=2.0, F_ref=5.0)
    fixed = fit_contact(
        [one], model="power_law", contact="threshold_5sigma", reference_depth_mm=1.0, segments=("rise",)
    )
    free = fit_contact([one], model="power_law", reference_depth_mm=1.0, segments=("rise",))
    k = abs(fixed.parameters["F_ref"].value / free.parameters["F_ref"].value - 1.0)
    force = abs(fixed.force_at(6.0, 2.0).value / free.force_at(6.0, 2.0).value - 1.0)
    assert k > 3.0 * force


def test_averaging_before_the_fit_costs_nothing(press):
    fine = press(noise_N=8e-3, rate_hz=1000.0, **TISSUE)
    answers = [
        fit_contact([fine], model="qlv1", reference_depth_mm=5.0, rate_hz=r).force_at(5.0, 2.0) for r in (50, 200)
    ]
    assert answers[0].value == pytest.approx(answers[1].value, rel=1e-3)


def test_every_step_is_on_record(press):
    rule = BaselineRule(0.5, 1.0)
    fit = fit_contact(
        [press(noise_N=2e-3, hold_s=3.0)], model="qlv1", contact="two_line", rule=rule, weighting="segment", hold_s=2.0
    )
    record = fit.provenance()
    assert record["contact"] == "two_line"
    assert record["baseline_rule"] == {"minimum_s": 0.5, "minimum_mm": 1.0}
    assert record["weighting"] == "segment"
    assert record["rate_hz"] == 100.0
    assert record["contacts"][0]["method"] == "two_line"
    assert record["contacts"][0]["noise_N"] > 0.0
    assert record["hold_s"] == 2.0


def test_equal_weight_per_segment_listens_more_to_a_short_rise(press):
    """A model that cannot fit both: with a long hold the rise hardly counts, unless segments count alike."""
    one = press(noise_N=1e-3, **{**TISSUE, "hold_s": 10.0})
    off = {}
    for weighting in ("sample", "segment"):
        fit = fit_contact([one], model="power_law", contact="power_law", weighting=weighting)
        curve = fit.curves[0]
        rise = slice(0, curve.press.rise.stop)
        error = fit.predict(curve.time_s, curve.depth_mm)[rise] - curve.force_N[rise]
        off[weighting] = float(np.sqrt(np.mean(error**2)))
    assert off["segment"] < 0.95 * off["sample"]


def test_a_term_that_is_not_needed_is_left_out_and_said_so(press):
    fit = fit_contact([press(noise_N=2e-3, g=(0.3,), tau_s=(1.0,), hold_s=6.0)], model="qlv2", reference_depth_mm=5.0)
    assert fit.model == "qlv1"
    assert any("not needed" in note for note in fit.notes)
    assert fit.provenance()["requested_model"] == "qlv2"
    elastic = fit_contact([press(noise_N=2e-3, hold_s=6.0)], model="qlv2", reference_depth_mm=5.0)
    assert elastic.model == "power_law"


def test_damping_that_the_curve_does_not_ask_for_is_zero_and_said_so(press):
    one = press(noise_N=1e-4, hold_s=3.0)
    hold = one.hold
    creeping = replace(one, force_N=one.force_N + np.where(np.arange(len(one.time_s)) >= hold.start, 0.05, 0.0))
    fit = fit_contact([creeping], model="hunt_crossley", contact="power_law")
    assert fit.parameters["lambda"].value < 1e-5
    assert any("best value is zero" in note for note in fit.notes)


def test_damping_from_one_speed_without_a_hold_is_called_confounded(press):
    one = press(noise_N=2e-3)
    ramp = fit_contact([one], model="damped_power_law", contact="power_law", segments=("rise",))
    assert any("cannot be told" in note for note in ramp.notes)
    held = fit_contact([press(noise_N=2e-3, hold_s=3.0)], model="damped_power_law", contact="power_law")
    assert not any("cannot be told" in note for note in held.notes)


def test_a_peak_cut_off_by_slow_sampling_is_noted(press):
    slow = fit_contact([press(rate_hz=5.0, **TISSUE)], model="power_law", contact="power_law")
    fast = fit_contact([press(rate_hz=100.0, **TISSUE)], model="power_law", contact="power_law")
    assert any("may be clipped" in note for note in slow.notes)
    assert not any("may be clipped" in note for note in fast.notes)


def test_beyond_the_measured_depth_there_is_no_number(press):
    fit = fit_contact([press()], model="power_law", segments=("rise",))
    with pytest.raises(Refused, match=r"beyond the 7\.99 mm") as refusal:
        fit.force_at(12.0, 2.0)
    assert refusal.value.reason == "extrapolation"
    assert fit.force_at(12.0, 2.0, extrapolate=True).value > 10.0


def slipping(one):
    """A press that loses a fifth of its force in the middle of the rise and builds it up again."""
    middle = (one.time_s > 4.0) & (one.time_s < 4.6)
    return replace(one, force_N=np.where(middle, 0.8 * one.force_N, one.force_N))


@pytest.mark.parametrize(
    ("spoil", "options", "reason"),
    [
        (slipping, {}, "loading_not_monotone"),
        (lambda p: replace(p, force_N=np.minimum(p.force_N, 3.0)), {}, "saturated"),
        (lambda p: p, {"capacity_N": 4.0}, "saturated"),
        (lambda p: replace(p, force_N=np.random.default_rng(0).normal(0.0, 1e-3, len(p.time_s))), {}, "no_contact"),
        (lambda p: replace(p, force_N=p.force_N * np.nan), {}, "non_finite"),
        (lambda p: replace(p, time_s=p.time_s * 0.0), {}, "time_not_increasing"),
        (lambda p: p, {"rule": BaselineRule(5.0, 2.0)}, "baseline_too_short"),
    ],
)
def test_a_spoilt_press_gives_a_reason_instead_of_a_number(press, spoil, options, reason):
    one = spoil(press(noise_N=1e-3, hold_s=2.0))
    with pytest.raises(Refused) as refusal:
        fit_contact([one], model="power_law", **options)
    assert refusal.value.reason == reason


def test_a_relaxation_slower_than_the_record_can_tell_is_a_bound_hit(press):
    one = press(noise_N=1e-4, g=(0.5,), tau_s=(400.0,), hold_s=4.0)
    with pytest.raises(Refused, match="upper bound") as refusal:
        fit_contact([one], model="qlv1", contact="power_law")
    assert refusal.value.reason == "bound_hit"
    assert "longer hold" in str(refusal.value)


def test_an_exponent_at_its_bound_is_a_bound_hit(press):
    one = press(n=7.0, F_ref=3.0, noise_N=1e-4)
    with pytest.raises(Refused, match="exponent") as refusal:
        fit_contact([one], model="power_law", contact="threshold_5sigma", segments=("rise",))
    assert refusal.value.reason == "bound_hit"


def test_no_press_is_no_fit():
    with pytest.raises(Refused, match="no press to fit"):
        fit_contact([])


@pytest.mark.parametrize(
    ("options", "says"),
    [({"model": "hertz"}, "power_law"), ({"contact": "by_eye"}, "two_line"), ({"scale": "each"}, "per_press"),
     ({"weighting": "equal"}, "segment")],
)  # fmt: skip
def test_a_wrong_name_is_answered_with_the_right_ones(press, options, says):
    with pytest.raises(ValueError, match=says):
        fit_contact([press(noise_N=1e-3, hold_s=1.0)], **{"model": "power_law", **options})
