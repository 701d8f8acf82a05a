"""Contact points: every estimator says how far off it may be, and none answers without free air."""

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.contact_point import METHODS, BaselineRule, ContactPoint, compare_contact, estimate_contact
from bench.identify.powerlaw import fit_power_law

SPECIMENS = {
    "elastic sphere": {"n": 1.5},
    "blunt tool": {"n": 1.2, "F_ref": 1.0},
    "relaxing tissue": {"n": 1.4, "g": (0.25, 0.2), "tau_s": (0.3, 4.0)},
}


@pytest.mark.parametrize("specimen", SPECIMENS)
@pytest.mark.parametrize("method", METHODS)
def test_the_truth_lies_within_the_stated_uncertainty(method, specimen, press):
    inside = []
    for seed in range(25):
        one = press(seed, noise_N=4e-3, surface_mm=10.0 + 0.01 * seed, **SPECIMENS[specimen])
        found = estimate_contact(one, method)
        inside.append(abs(found.position_mm - 10.0 - 0.01 * seed) <= 2.0 * found.standard_uncertainty_mm)
        assert found.method == method
    assert np.mean(inside) >= 0.88


def test_a_power_law_finds_the_contact_far_better_than_a_threshold(press):
    errors = {method: [] for method in METHODS}
    for seed in range(20):
        answers = compare_contact(press(seed, noise_N=4e-3))
        for method, found in answers.items():
            errors[method].append(abs(found.position_mm - 10.0))
    assert np.mean(errors["power_law"]) < 0.1 * np.mean(errors["threshold_5sigma"])


def test_a_threshold_answers_deeper_the_noisier_the_force(press):
    depth = [
        np.mean([estimate_contact(press(s, noise_N=noise), "threshold_5sigma").position_mm for s in range(8)])
        for noise in (1e-3, 4e-3, 16e-3)
    ]
    assert 10.0 < depth[0] < depth[1] < depth[2]


def test_zero_and_noise_of_the_force_are_those_before_contact(press):
    found = estimate_contact(press(3, noise_N=5e-3, offset_N=0.35), "two_line")
    assert found.force_zero_N == pytest.approx(0.35, abs=3e-3)
    assert found.noise_N == pytest.approx(5e-3, rel=0.25)
    assert 2e-4 < found.force_zero_uncertainty_N < 2e-3
    assert found.free_air_mm == pytest.approx(2.5, abs=0.3)
    assert found.free_air_s == pytest.approx(2.25, abs=0.2)


@pytest.mark.parametrize(
    ("free_air", "baseline", "says"),
    [(1.0, 3.0, "mm of free air"), (2.3, 0.2, "2 mm are asked for"), (0.0, 0.5, "free air")],
)
def test_a_short_baseline_is_refused(press, free_air, baseline, says):
    one = press(noise_N=2e-3, free_air_mm=free_air, baseline_s=baseline, speed_mm_s=6.0)
    with pytest.raises(Refused, match=says) as refusal:
        estimate_contact(one, "power_law")
    assert refusal.value.reason == "baseline_too_short"
    assert "Start farther" in str(refusal.value)


def test_a_lowered_demand_is_recorded(press):
    one = press(noise_N=2e-3, free_air_mm=0.5, baseline_s=0.5)
    rule = BaselineRule(minimum_s=0.3, minimum_mm=0.2)
    found = estimate_contact(one, "power_law", rule=rule)
    assert found.rule == rule
    assert found.record()["rule"] == {"minimum_s": 0.3, "minimum_mm": 0.2}


def test_no_contact_is_refused(press):
    with pytest.raises(Refused, match="noise is") as refusal:
        estimate_contact(press(noise_N=5e-3, F_ref=1e-6), "threshold_5sigma")
    assert refusal.value.reason == "no_contact"


def test_a_record_that_begins_in_contact_is_refused(press):
    one = press(noise_N=1e-3, free_air_mm=-1.0, baseline_s=0.0)
    answers = compare_contact(one)
    assert {getattr(answer, "reason", answer) for answer in answers.values()} <= {"baseline_too_short", "no_contact"}


def test_comparing_keeps_refusals_beside_answers(press):
    answers = compare_contact(press(noise_N=2e-3))
    assert set(answers) == set(METHODS)
    assert len(METHODS) >= 4
    assert all(isinstance(answer, ContactPoint) for answer in answers.values())
    refused = compare_contact(press(noise_N=2e-3, free_air_mm=0.5))
    assert all(isinstance(answer, Refused) for answer in refused.values())


def test_an_unknown_method_is_named(press):
    with pytest.raises(ValueError, match="threshold_5sigma"):
        estimate_contact(press(), "by_eye")


@pytest.mark.parametrize("exponent", [None, 1.5])
def test_the_power_law_fit_recovers_what_made_the_curve(exponent):
    x = np.linspace(-1.0, 2.0, 600)
    y = 0.3 + 1.7 * np.maximum(x - 0.4, 0.0) ** 1.5
    fit = fit_power_law(x, y, exponent=exponent)
    assert fit.contact_mm == pytest.approx(0.4, abs=1e-6)
    assert fit.zero_N == pytest.approx(0.3, abs=1e-7)
    assert fit.exponent == pytest.approx(1.5, abs=1e-6)
    assert fit.force_at(1.0) == pytest.approx(1.7, rel=1e-6)


def test_the_power_law_fit_does_not_care_for_the_order_of_samples():
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, 2.0, 400)
    y = np.maximum(x - 0.4, 0.0) ** 1.3 + rng.normal(0, 0.01, 400)
    order = rng.permutation(400)
    straight, shuffled = fit_power_law(x, y), fit_power_law(x[order], y[order])
    assert shuffled.contact_mm == pytest.approx(straight.contact_mm, rel=1e-9)
    np.testing.assert_allclose(shuffled.residual, straight.residual[order], atol=1e-12)


def test_the_covariance_of_the_power_law_fit_is_that_of_its_scatter():
    x = np.linspace(-1.0, 2.0, 300)
    clean = np.maximum(x - 0.4, 0.0) ** 1.5
    fits = [fit_power_law(x, clean + np.random.default_rng(s).normal(0, 0.02, 300)) for s in range(200)]
    spread = np.std([fit.contact_mm for fit in fits])
    stated = np.mean([np.sqrt(fit.covariance[1, 1]) for fit in fits])
    assert stated == pytest.approx(spread, rel=0.2)


@pytest.mark.parametrize(
    ("x", "y", "reason"),
    [
        (np.arange(4.0), np.arange(4.0), "too_few_samples"),
        (np.ones(50), np.arange(50.0), "no_contact"),
        (np.arange(50.0), np.ones(50), "no_contact"),
        (np.arange(400.0), np.maximum(np.arange(400.0) - 200.0, 0.0) ** 9.0, "bound_hit"),
    ],
)
def test_a_curve_that_is_no_power_law_is_refused(x, y, reason):
    with pytest.raises(Refused) as refusal:
        fit_power_law(x, y)
    assert refusal.value.reason == reason
