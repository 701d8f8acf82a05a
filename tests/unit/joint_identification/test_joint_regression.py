"""Streamed least squares: the answer of the whole at once, an honest s.d., flat memory, names when it cannot tell."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate, coverage_factor
from bench.identify.regression import LinearFit, StreamedLeastSquares

Floats = NDArray[np.float64]

NAMES = ("inertia", "viscous", "coulomb", "offset")
TRUTH = np.array([2.0, 0.8, 1.2, -0.1])


def regressor(rows: int, rng: np.random.Generator) -> Floats:
    """Acceleration, velocity, its sign and one, of a random Fourier series at 100 rows a second."""
    time = np.arange(rows) / 100.0
    velocity, acceleration = np.zeros(rows), np.zeros(rows)
    for k in range(1, 6):
        size, phase, w = rng.uniform(0.3, 1.0), rng.uniform(0.0, 6.28), 0.2 * np.pi * k
        velocity += size * np.cos(w * time + phase)
        acceleration -= size * w * np.sin(w * time + phase)
    return np.column_stack([acceleration, velocity, np.sign(velocity), np.ones(rows)])


def fitted(columns: Floats, response: Floats, **options: int) -> LinearFit:
    regression = StreamedLeastSquares(NAMES, **options)
    regression.add(columns, response)
    return regression.solve()


def test_without_noise_the_truth_comes_back() -> None:
    columns = regressor(3000, np.random.default_rng(1))
    fit = fitted(columns, columns @ TRUTH)
    assert np.abs(fit.values - TRUTH).max() < 1e-12
    scaled = columns / np.linalg.norm(columns, axis=0)
    assert fit.condition_number == pytest.approx(np.linalg.cond(scaled), rel=1e-9)


def test_how_the_record_is_cut_does_not_show_in_the_answer() -> None:
    rng = np.random.default_rng(2)
    columns = regressor(50_000, rng)
    response = columns @ TRUTH + rng.normal(0.0, 0.3, len(columns))
    batch = np.linalg.lstsq(columns, response, rcond=None)[0]
    whole = fitted(columns, response)
    streamed = StreamedLeastSquares(NAMES)
    for part in np.split(np.arange(len(columns)), np.sort(rng.integers(0, len(columns), 300))):
        streamed.add(columns[part], response[part])
    cut = streamed.solve()
    assert np.abs(cut.values / batch - 1.0).max() < 1e-12
    assert np.abs(cut.values / whole.values - 1.0).max() < 1e-12
    assert np.abs(cut.covariance - whole.covariance).max() < 1e-12 * np.abs(whole.covariance).max()
    assert cut.residual_rms == pytest.approx(float(np.sqrt(np.mean((response - columns @ batch) ** 2))), rel=1e-12)


@pytest.mark.parametrize(("correlation", "uneven"), [(0.0, False), (0.95, False), (0.9, True)])
def test_the_truth_lies_within_three_sd_in_95_percent_of_seeds(correlation: float, uneven: bool) -> None:
    """Whatever the noise: white or staying for 40 rows, even or growing with speed."""
    from scipy.signal import lfilter

    errors, within, claimed = [], [], []
    for seed in range(100):
        rng = np.random.default_rng(1000 + seed)
        columns = regressor(2500, rng)
        noise = lfilter([np.sqrt(1.0 - correlation**2)], [1.0, -correlation], rng.normal(0.0, 0.1, 3000))[500:]
        if uneven:
            noise *= 1.0 + 2.0 * np.abs(columns[:, 1])
        fit = fitted(columns, columns @ TRUTH + noise)
        sd = np.sqrt(fit.covariance.diagonal())
        factor = [coverage_factor(freedom) for freedom in fit.degrees_of_freedom]
        errors.append((fit.values - TRUTH) / sd)
        within.append(np.abs(fit.values - TRUTH) < factor * sd)
        claimed.append(fit.effective_rows)
    assert (np.mean(np.abs(errors) < 3.0, axis=0) >= 0.95).all()
    assert 0.90 <= np.mean(within) <= 0.99
    assert np.std(errors) == pytest.approx(1.0, abs=0.2)
    if correlation and not uneven:
        # 2500 rows with a correlation time of (1 + 0.95) / (1 - 0.95) rows
        assert np.median(claimed) == pytest.approx(2500 / 39, rel=0.5)


def test_an_offset_that_wanders_is_told_by_the_sd_where_the_textbook_formula_is_ten_times_too_sure() -> None:
    rng = np.random.default_rng(3)
    columns = regressor(8000, rng)
    wander = 0.2 * np.sin(2.0 * np.pi * np.arange(8000) / 2000.0)
    response = columns @ TRUTH + wander + rng.normal(0.0, 0.01, 8000)
    fit = fitted(columns, response)
    textbook = fit.residual_rms * np.sqrt(np.linalg.inv(columns.T @ columns).diagonal())
    assert np.sqrt(fit.covariance[3, 3]) > 5.0 * textbook[3]


def test_columns_that_cannot_be_told_apart_are_named() -> None:
    columns = regressor(2000, np.random.default_rng(4))
    twin = np.column_stack([columns, columns[:, 1] * 3.0])
    regression = StreamedLeastSquares((*NAMES, "seal_drag"))
    regression.add(twin, columns @ TRUTH)
    with pytest.raises(Refused, match="viscous and seal_drag cannot be told apart") as refusal:
        regression.solve()
    assert refusal.value.reason == "rank_deficient"
    assert "inertia" not in refusal.value.what


def test_a_column_that_nothing_moves_is_named() -> None:
    columns = regressor(2000, np.random.default_rng(4))
    columns[:, 0] = 0.0
    with pytest.raises(Refused, match="nothing in the record moves inertia"):
        fitted(columns, columns @ TRUTH)


def test_a_given_coefficient_is_kept_and_its_uncertainty_goes_into_the_others() -> None:
    rng = np.random.default_rng(5)
    columns = regressor(4000, rng)
    regression = StreamedLeastSquares(NAMES)
    regression.add(columns, columns @ TRUTH + rng.normal(0.0, 1e-3, 4000))
    sure = regression.solve({"coulomb": Estimate(1.2, 0.0, "N.m", "torque")})
    unsure = regression.solve({"coulomb": Estimate(1.2, 0.1, "N.m", "torque")})
    assert sure.names == ("inertia", "viscous", "offset")
    assert np.abs(sure.values - TRUTH[[0, 1, 3]]).max() < 1e-3
    shifted = regression.solve({"coulomb": Estimate(1.3, 0.0, "N.m", "torque")})
    moved = abs(shifted.value("viscous") - sure.value("viscous"))
    added = np.sqrt(unsure.covariance[1, 1] - sure.covariance[1, 1])
    assert added == pytest.approx(moved, rel=1e-6)
    assert unsure.value("coulomb") == 1.2


def test_weights_are_one_over_the_sd_of_a_row() -> None:
    rng = np.random.default_rng(6)
    columns = regressor(6000, rng)
    sd = np.where(np.arange(6000) < 3000, 0.05, 5.0)
    response = columns @ TRUTH + rng.normal(0.0, 1.0, 6000) * sd
    regression = StreamedLeastSquares(NAMES)
    regression.add(columns, response, 1.0 / sd)
    weighted, plain = regression.solve(), fitted(columns, response)
    reference = np.linalg.lstsq(columns / sd[:, None], response / sd, rcond=None)[0]
    assert np.abs(weighted.values - reference).max() < 1e-10
    assert (np.sqrt(weighted.covariance.diagonal()) < 0.2 * np.sqrt(plain.covariance.diagonal())).all()


def test_what_is_no_number_is_told_by_column() -> None:
    columns = regressor(500, np.random.default_rng(7))
    columns[17, 2] = np.nan
    with pytest.raises(Refused, match="no numbers in coulomb") as refusal:
        StreamedLeastSquares(NAMES).add(columns, columns[:, 0])
    assert refusal.value.reason == "not_finite"


def test_too_short_a_record_has_no_sd_worth_the_name() -> None:
    columns = regressor(100, np.random.default_rng(8))
    with pytest.raises(Refused, match="too few") as refusal:
        fitted(columns, columns @ TRUTH)
    assert refusal.value.reason == "too_few_rows"


def test_memory_is_flat_from_one_to_thirty_minutes() -> None:
    """At 1 kHz without decimation."""

    def peak(minutes: int) -> int:
        rng = np.random.default_rng(9)
        block = regressor(5000, rng)
        response = block @ TRUTH
        fitted(block, response)  # what is imported on first use is no memory of the record
        tracemalloc.start()
        regression = StreamedLeastSquares(NAMES)
        for _ in range(minutes * 12):
            regression.add(block, response)
        regression.solve()
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(30) < 1.2 * peak(1)
