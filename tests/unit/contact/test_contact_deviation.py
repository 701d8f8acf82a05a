"""Predicted against measured: definitions, uncertainties, and the parameter that explains a deviation."""

from dataclasses import replace

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.contact_fit import fit_contact
from bench.identify.contact_point import estimate_contact
from bench.identify.deviation import (
    compare,
    peak_force_deviation,
    predict_press,
    residual_depth,
    residual_force,
    rise_slope,
    rise_slope_deviation,
)
from bench.identify.explain import explain_deviation, rank_explanations
from bench.identify.frame import RIGID

TISSUE = {
    "n": 1.4,
    "g": (0.25, 0.2),
    "tau_s": (0.4, 4.0),
    "hold_s": 5.0,
    "unload": True,
    "residual_s": 2.0,
    "noise_N": 3e-3,
}


@pytest.fixture(scope="module")
def fit(press):
    presses = [press(i, F_ref=3.0 + 0.03 * (i - 2), **TISSUE) for i in range(5)]
    return fit_contact(presses, model="qlv2", reference_depth_mm=5.0)


def test_the_peaks_are_compared_wherever_they_lie():
    measured = np.array([0.0, 1.0, 2.0, 1.5])
    assert peak_force_deviation(measured, np.array([0.0, 1.2, 1.8, 1.9])) == pytest.approx(-0.05)
    with pytest.raises(Refused, match="not positive"):
        peak_force_deviation(-measured, measured)


def test_the_slope_is_that_of_the_samples_between_20_and_80_percent_of_the_measured_peak():
    depth = np.linspace(0.0, 10.0, 101)
    measured = np.where(depth < 2.0, 0.5 * depth, np.where(depth < 9.0, depth - 1.0, 2.0 * depth - 10.0))
    assert rise_slope(depth, measured) == pytest.approx(1.0, abs=1e-9)
    # the prediction's own 20 to 80 % lie elsewhere: they are not asked
    predicted = np.where(measured > 8.01, 50.0, 1.2 * measured)
    assert rise_slope_deviation(depth, measured, predicted) == pytest.approx(0.2, abs=1e-9)


def test_the_hold_has_no_part_in_the_slope():
    depth = np.concatenate([np.linspace(0, 5, 51), np.full(400, 5.0)])
    measured = np.concatenate([np.linspace(0, 5, 51), np.linspace(4.9, 2.0, 400)])
    assert rise_slope(depth, measured) == pytest.approx(1.0)


def test_too_few_samples_for_a_slope_are_refused():
    with pytest.raises(Refused) as refusal:
        rise_slope(np.arange(3.0), np.array([0.0, 0.1, 1.0]))
    assert refusal.value.reason == "too_few_samples"


def test_the_residual_force_is_taken_at_a_stated_time_with_the_baselines_zero(press):
    one = press(offset_N=0.4, **TISSUE)
    start = one.residual.start
    one = replace(one, force_N=one.force_N + np.where(np.arange(len(one.time_s)) >= start, 0.15, 0.0))
    contact = estimate_contact(one, "power_law")
    found = residual_force(one, contact, at_s=1.0, window_s=0.4)
    assert found.value == pytest.approx(0.15, abs=found.expanded_uncertainty)
    assert found.expanded_uncertainty < 5e-3
    with pytest.raises(Refused, match="ends") as refusal:
        residual_force(one, contact, at_s=3.0)
    assert refusal.value.reason == "residual_too_short"
    with pytest.raises(Refused, match="no residual"):
        residual_force(press(), contact)


def test_relaxed_tissue_lets_go_of_the_tool_before_the_surface(press):
    relaxed, elastic = press(**TISSUE), press(**{**TISSUE, "g": (), "tau_s": ()})
    depths = [residual_depth(p, estimate_contact(p, "power_law"), frame=RIGID) for p in (relaxed, elastic)]
    assert depths[0].value > 1.5
    assert depths[1].value == pytest.approx(0.0, abs=0.3)
    with pytest.raises(Refused, match="does not come back"):
        residual_depth(press(hold_s=1.0), estimate_contact(press(), "power_law"), frame=RIGID)


def test_another_press_of_the_specimen_is_predicted_within_the_uncertainty(fit, press):
    inside = []
    for seed in range(50, 70):
        result = compare(fit, press(seed, **TISSUE), residual_at_s=1.0)
        inside += [abs(e.value) <= e.expanded_uncertainty + 0.002 for e in (result.peak, result.slope)]
        assert abs(result.peak.value) < 0.03
    assert np.mean(inside) >= 0.9


def test_a_stiffer_specimen_shows_as_a_deviation_of_its_size(fit, press):
    result = compare(fit, press(9, **{**TISSUE, "F_ref": 3.0 * 1.25}), residual_at_s=1.0)
    assert result.peak.value == pytest.approx(-0.2, abs=0.01)
    assert result.slope.value == pytest.approx(-0.2, abs=0.01)
    assert result.residual_force.value == pytest.approx(0.0, abs=2e-3)
    assert result.residual_ratio.unit == "1"
    assert result.residual_depth.value > 1.0
    assert result.declined == {}


def test_a_specimen_stiffer_by_an_eighth_is_not_taken_for_one_touched_earlier(fit, press):
    """The press's own contact point owes nothing to the others' force scale, so all of the deviation is left."""
    one = press(9, **{**TISSUE, "F_ref": 3.0 * 1.12})
    result = compare(fit, one, residual_at_s=1.0)
    assert result.prediction.contact.position_mm == pytest.approx(10.0, abs=0.02)
    assert result.peak.value == pytest.approx(1.0 / 1.12 - 1.0, abs=0.004)
    assert abs(result.peak.value) > 0.10
    assert explain_deviation(fit, one).parameter == "F_ref"


def test_calibrations_act_on_both_sides_and_do_not_count(press):
    presses = [press(i, **TISSUE) for i in range(3)]
    sure = fit_contact(presses, model="qlv2")
    unsure = fit_contact(presses, model="qlv2", force_relative_uncertainty=0.1)
    one = press(9, **TISSUE)
    assert compare(unsure, one).peak.standard_uncertainty == pytest.approx(
        compare(sure, one).peak.standard_uncertainty, rel=1e-6
    )


def test_what_the_record_does_not_hold_is_declined_not_invented(fit, press):
    result = compare(fit, press(9, **{**TISSUE, "unload": False, "residual_s": 0.0}))
    assert result.residual_force is None
    assert result.residual_ratio is None
    assert result.residual_depth is None
    assert set(result.declined) == {"residual_force", "residual_depth"}


def test_a_prediction_never_pulls_and_keeps_the_measured_path(fit, press):
    prediction = predict_press(fit, press(9, **TISSUE))
    assert prediction.predicted_N.min() == 0.0
    assert prediction.depth_mm.max() == pytest.approx(8.0, abs=0.05)
    error = (prediction.predicted_N - prediction.measured_N)[prediction.pressing]
    assert np.sqrt(np.mean(error**2)) < 0.01 * prediction.measured_N.max()


@pytest.mark.parametrize("estimator", ["threshold_5sigma", "power_law"])
def test_a_prediction_finds_contact_as_its_fit_did(press, estimator):
    presses = [press(i, **TISSUE) for i in range(3)]
    prediction = predict_press(fit_contact(presses, model="qlv2", contact=estimator), press(9, **TISSUE))
    assert prediction.contact.method == estimator


@pytest.mark.parametrize(
    ("changed", "parameter", "percent"),
    [
        ({"F_ref": 3.6}, "F_ref", 20.0),
        ({"n": 1.6}, "n", 14.3),
        ({"g": (0.4, 0.2)}, "g1", 60.0),
        ({"tau_s": (0.4, 8.0)}, "tau2", 100.0),
    ],
)
def test_the_parameter_that_was_changed_is_the_one_that_explains(fit, press, changed, parameter, percent):
    found = explain_deviation(fit, press(9, **{**TISSUE, **changed}))
    assert found.parameter == parameter
    assert found.change_percent == pytest.approx(percent, rel=0.12)
    assert found.share > 0.97
    assert f"{parameter} changed by +" in str(found)


def test_a_wrong_contact_point_explains_itself(fit, press):
    one = press(9, **TISSUE)
    contact = estimate_contact(one, "power_law")
    contact = replace(contact, position_mm=10.5)
    ranked = rank_explanations(fit, one, contact=contact)
    assert ranked[0].parameter == "contact_point"
    assert ranked[0].change_percent == pytest.approx(100.0 * -0.5 / 7.5, rel=0.1)
    assert [e.share for e in ranked] == sorted((e.share for e in ranked), reverse=True)
