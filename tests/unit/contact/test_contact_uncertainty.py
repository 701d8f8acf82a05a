"""Uncertainty: the budget adds up, and the truth lies inside U as often as it says."""

import math

import numpy as np
import pytest

from bench.identify.contact_fit import fit_contact
from bench.identify.estimate import Estimate, Source, combine, correlation_time, coverage_factor
from bench.identify.frame import Frame
from bench.models.contact import ramp_force

GAIN_U = 0.003
FRAME = Frame(200.0, 5.0, "stiff plate")


@pytest.mark.parametrize(("freedom", "k"), [(1, 13.97), (2, 4.53), (4, 2.87), (10, 2.28), (50, 2.05), (math.inf, 2.0)])
def test_the_coverage_factor_is_students(freedom, k):
    """Table G.2 of the GUM, 95.45 %."""
    assert coverage_factor(freedom) == pytest.approx(k, abs=0.006)


def test_a_budget_adds_up_in_squares():
    sources = [Source("noise", np.diag([3.0, 1.0]), 4.0), Source("calibration", np.array([[4.0], [0.0]]))]
    answer = combine(10.0, np.array([1.0, 0.0]), sources, "N", "force", {"zero": 12.0})
    assert answer.budget == pytest.approx({"noise": 3.0, "calibration": 4.0, "zero": 12.0})
    assert answer.standard_uncertainty == pytest.approx(13.0)
    assert answer.degrees_of_freedom == pytest.approx(13.0**4 / (3.0**4 / 4.0))
    assert answer.expanded_uncertainty == pytest.approx(math.sqrt((coverage_factor(4.0) * 3.0) ** 2 + 8.0**2 + 24.0**2))


def test_sources_keep_their_correlation():
    """Two parameters that move together cancel in their difference."""
    together = Source("common", np.array([[1.0], [1.0]]))
    assert combine(0.0, np.array([1.0, -1.0]), [together], "N", "force").standard_uncertainty == 0.0


def test_an_estimate_prints_value_uncertainty_unit_and_factor():
    assert str(Estimate(2.2384, 0.0061, "N", "force")) == "2.238 ± 0.012 N (k = 2)"


@pytest.mark.parametrize("phi", [0.0, 0.5, 0.9])
def test_the_correlation_time_is_that_of_the_process(phi):
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(40_000)
    process = np.empty_like(noise)
    process[0] = noise[0]
    for i in range(1, len(noise)):
        process[i] = phi * process[i - 1] + noise[i]
    assert correlation_time(process, [20_000, 20_000]) == pytest.approx((1 + phi) / (1 - phi), rel=0.15)


def replicates(press, seed, count=4, scatter=0.015, **settings):
    """Presses of one specimen: each with its own force scale, all with one gain error and one frame."""
    rng = np.random.default_rng(seed)
    gain, frame = 1.0 + GAIN_U * rng.standard_normal(), 200.0 + 2.5 * rng.standard_normal()
    return [
        press(
            1000 * seed + i,
            F_ref=3.0 * (1.0 + scatter * rng.standard_normal()),
            surface_mm=10.0 + 0.02 * rng.standard_normal(),
            gain=gain,
            frame_N_mm=frame,
            noise_N=3e-3,
            drift_N_s=3e-5,
            **settings,
        )
        for i in range(count)
    ]


def judged(presses, law, shape, **options):
    fit = fit_contact(
        presses, model=law, frame=FRAME, reference_depth_mm=5.0, force_relative_uncertainty=GAIN_U, **options
    )
    truth = ramp_force(law, shape, 5.0, 2.0, F_ref=3.0, d_ref=5.0)
    return [
        (estimate.value / true - 1.0, abs(estimate.value - true) <= estimate.expanded_uncertainty)
        for estimate, true in zip((fit.force_at(5.0, 2.0), fit.stiffness_at(5.0, 2.0)), truth, strict=True)
    ]


def test_the_truth_lies_inside_the_stated_uncertainty_in_90_to_99_percent(press):
    """200 specimens, four replicates each, power law."""
    answers = np.array(
        [judged(replicates(press, seed, rate_hz=50.0), "power_law", [1.5], segments=("rise",)) for seed in range(200)]
    )
    error, inside = answers[:, 0, 0], answers[:, :, 1].mean(axis=0)
    assert np.mean(np.abs(error) < 0.03) >= 0.95
    assert 0.90 <= inside[0] <= 0.99
    assert 0.90 <= inside[1] <= 0.99


@pytest.mark.slow
def test_the_uncertainty_of_a_relaxing_specimen_is_honest_too(press):
    """100 specimens as the simulated lab has them: two Prony terms, five replicates and a second speed."""
    answers = []
    for seed in range(100):
        tissue = {"g": (0.22, 0.2), "tau_s": (0.5, 8.0), "n": 1.5}
        presses = replicates(press, seed, count=5, hold_s=6.0, **tissue)
        presses += replicates(press, seed + 5000, count=1, hold_s=6.0, speed_mm_s=0.8, **tissue)
        answers.append(judged(presses, "qlv2", [1.5, 0.22, 0.5, 0.2, 8.0]))
    answers = np.array(answers)
    assert np.mean(np.abs(answers[:, 0, 0]) < 0.03) >= 0.95
    inside = answers[:, :, 1].mean(axis=0)
    assert 0.90 <= inside[0] <= 0.99
    assert 0.90 <= inside[1] <= 0.99


def test_without_the_scatter_in_the_budget_the_uncertainty_would_be_a_lie(press):
    """One press alone cannot see how replicates scatter: the truth is then mostly outside, and the fit says why."""
    outside = 0
    for seed in range(30):
        (one,) = replicates(press, seed, count=1, scatter=0.03)
        fit = fit_contact([one], model="power_law", frame=FRAME, reference_depth_mm=5.0, segments=("rise",))
        estimate = fit.force_at(5.0, 2.0)
        outside += abs(estimate.value - 3.0) > estimate.expanded_uncertainty
    assert outside > 15
    assert any("one press" in note for note in fit.notes)


def test_more_replicates_make_the_mean_surer(press):
    def expanded(count):
        fits = [
            fit_contact(replicates(press, seed, count=count), model="power_law", segments=("rise",))
            for seed in range(6)
        ]
        return np.mean([fit.parameters["F_ref"].expanded_uncertainty for fit in fits])

    # Student's factor falls from 3.3 to 2.4 and the mean's uncertainty by the root of two
    assert expanded(8) < 0.65 * expanded(4)


def test_the_jackknife_of_plain_scatter_is_the_standard_error(press):
    presses = [press(i, F_ref=scale, noise_N=1e-5) for i, scale in enumerate((2.9, 3.0, 3.05, 3.2))]
    fit = fit_contact(presses, model="power_law", segments=("rise",))
    scales = np.array(fit.scales_N)
    expected = scales.std(ddof=1) / 2.0
    assert fit.parameters["F_ref"].budget["replicates"] == pytest.approx(expected, rel=0.02)


def test_each_cause_has_its_line_in_the_budget(press):
    presses = replicates(press, 3)
    stiff = fit_contact(presses, model="power_law", segments=("rise",), contact="power_law", reference_depth_mm=5.0)
    full = fit_contact(
        presses, model="power_law", segments=("rise",), contact="power_law", frame=Frame(200.0, 20.0),
        reference_depth_mm=5.0, force_relative_uncertainty=0.01, position_relative_uncertainty=0.002,
    )  # fmt: skip
    assert set(stiff.force_at(5.0, 2.0).budget) == {"replicates", "force zero", "contact point"}
    budget = full.force_at(5.0, 2.0).budget
    assert budget["force calibration"] == pytest.approx(0.01 * full.force_at(5.0, 2.0).value, rel=1e-6)
    # F ~ depth^1.5: a depth that is wrong by a share moves the force by one and a half times that
    assert budget["position calibration"] == pytest.approx(1.5 * 0.002 * 3.0, rel=0.05)
    # 3 N on 200 N/mm bend the frame by 15 um, known to 5 %
    assert budget["frame stiffness"] == pytest.approx(3.0 * 1.5 / 5.0 * 3.0 / 200.0**2 * 10.0, rel=0.3)


def test_an_unsure_contact_point_makes_the_force_unsure_as_n_over_depth(press):
    one = press(1, noise_N=3e-3)
    loose = fit_contact(
        [one], model="power_law", segments=("rise",), contact="threshold_5sigma", reference_depth_mm=5.0
    )
    u = loose.contacts[0].standard_uncertainty_mm
    estimate = loose.force_at(2.0, 2.0)
    assert estimate.budget["contact point"] / estimate.value < loose.parameters["n"].value * u / 2.0
    assert estimate.budget["contact point"] > 10 * estimate.budget["force zero"]


def test_a_model_that_misses_the_curve_does_not_look_surer_when_sampled_faster(press):
    tissue = {"g": (0.3, 0.2), "tau_s": (0.5, 5.0), "hold_s": 5.0, "noise_N": 1e-3}
    slow = fit_contact([press(1, rate_hz=20.0, **tissue)], model="hunt_crossley", contact="power_law")
    fast = fit_contact([press(1, rate_hz=100.0, **tissue)], model="hunt_crossley", contact="power_law")
    ratio = [fit.parameters["n"].budget["model and noise"] for fit in (slow, fast)]
    assert ratio[1] > 0.7 * ratio[0]
