"""Contact points freed in the fit: they hide nothing; and a specimen that had no time to recover gets no verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.acceptance import Outcome, judge_run
from bench.acceptance.evidence import Evidence
from bench.archive import Run
from bench.profile import CriteriaProfile

RATE = 100.0
SIMPLE = ('"guard_band"', '"simple"')
WORST = ('aggregate = "mean"', 'aggregate = "max"')
RELAXING = ('"power_law"', '"qlv2"')
TISSUE = ((0.22, 0.2), (0.5, 8.0))

Relaxing = Callable[..., NDArray[np.float64]]


def stiffer(factor: float) -> list[dict[str, float]]:
    """Five presses of which the last is stiffer by a factor, and one at the second speed."""
    return [*[{"F": 2.6}] * 4, {"F": 2.6 * factor}, {"F": 2.6, "speed": 0.5}]


@pytest.mark.parametrize("estimator", ["fit", "power_law"])
def test_a_press_twelve_percent_stiffer_than_predicted_fails_and_is_named(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], estimator: str
) -> None:
    path = archive(stiffer(1.12), noise=2e-3)
    verdict = judge_run(path, criteria(('"fit"', f'"{estimator}"'), SIMPLE, WORST))
    row = next(row for row in verdict.rows if row.id == "peak_force")
    assert (row.outcome, verdict.outcome) == (Outcome.FAIL, Outcome.FAIL)
    assert row.value == pytest.approx(100 * (1 - 1 / 1.12), abs=0.4)
    assert verdict.explanation.startswith(
        "peak_force: contact stiffness explains most of the deviation: changed by +12 %"
    )


def test_a_guard_band_never_passes_what_the_simple_rule_fails(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    for factor, outcomes in ((1.12, {Outcome.MARGINAL, Outcome.FAIL}), (1.2, {Outcome.FAIL})):
        verdict = judge_run(archive(stiffer(factor), noise=2e-3), criteria(WORST))
        assert verdict.rows[0].outcome in outcomes


def test_the_record_says_how_each_contact_point_was_found(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    path = archive(stiffer(1.0), noise=2e-3)
    free = judge_run(path, criteria()).analysis
    assert free["contact_estimator"] == "fit"
    assert free["contact_method"].startswith("free in the fit")
    points = [fit["contact_of_the_press"] for fit in free["fits"]]
    assert {point["method"] for point in points} == {"power_law, shifted as in the fit"}
    assert [point["position_mm"] for point in points] == pytest.approx([3.0] * 5, abs=0.03)
    given = judge_run(path, criteria(('"fit"', '"two_line"'))).analysis
    assert given["contact_method"] == "estimated on each press before the fit"
    assert {fit["contact_of_the_press"]["method"] for fit in given["fits"]} == {"two_line"}


def test_a_press_that_is_fitted_itself_has_its_own_free_contact_point(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    changes = (('"other_replicates"', '"in_sample"'),)
    with Run.open(archive(stiffer(1.0), noise=2e-3)) as run:
        evidence = Evidence(run, criteria(*changes).analysis)
        found = evidence.comparison(0, "in_sample")
        moved = evidence.comparison(0, "in_sample", 0.01)
    assert found.deviations.prediction.contact == found.fit.contacts[0]
    assert found.fit.contacts[0].method == "fit"
    assert moved.fit.contacts[0].position_mm == pytest.approx(found.fit.contacts[0].position_mm + 0.01)


def test_a_gain_common_to_all_forces_leaves_the_deviations_alone(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    presses = [{"F": 2.6 * s} for s in (1.0, 1.03, 0.98, 1.01)]
    right, wrong = (
        judge_run(archive(presses, noise=2e-3, change=lambda force, g=gain: g * force), criteria())
        for gain in (1.0, 1.05)
    )
    for one, other in zip(right.rows[:2], wrong.rows[:2], strict=True):
        assert other.value == pytest.approx(one.value, rel=1e-4)
        assert other.expanded_uncertainty == pytest.approx(one.expanded_uncertainty, rel=1e-3)


def test_a_frame_known_too_soft_leaves_the_deviations_alone(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], rig_text: str
) -> None:
    """Three per cent of 198 N/mm, which the profile states as U: less than a tenth of the replicates' scatter."""
    presses = [{"F": 2.6 * s, "frame": 198.0} for s in (1.0, 1.03, 0.98, 1.01)]
    path = archive(presses, texts={"rig.toml": rig_text})
    soft = rig_text.replace('stiffness = "198 N/mm"', 'stiffness = "192 N/mm"')
    assert soft != rig_text
    compensated = criteria(("compensate_frame = false", "compensate_frame = true"))
    right = judge_run(path, compensated).rows[:2]
    wrong = judge_run(archive(presses, texts={"rig.toml": soft}), compensated).rows[:2]
    for one, other in zip(right, wrong, strict=True):
        assert other.value == pytest.approx(one.value, abs=0.02)


def relaxed(relaxing: Relaxing) -> Callable[[NDArray[np.float64]], NDArray[np.float64]]:
    return lambda force: (
        relaxing(np.arange(len(force)) / RATE, force, *TISSUE)
        + 2e-3 * np.random.default_rng(1).standard_normal(len(force))
    )


@pytest.mark.parametrize(
    ("rest_s", "outcome", "says"),
    [
        (10.0, "ERROR", "had not recovered"),
        (35.0, "PASS", "had not recovered"),
        (80.0, "PASS", ""),
    ],
)
def test_a_specimen_without_time_to_recover_is_an_error_of_the_bench(
    archive: Callable[..., Path],
    criteria: Callable[..., CriteriaProfile],
    relaxing: Relaxing,
    rest_s: float,
    outcome: str,
    says: str,
) -> None:
    presses = [{"F": 4.5, "residual_s": rest_s}] * 4
    path = archive(presses, noise=0.0, change=relaxed(relaxing))
    verdict = judge_run(path, criteria(RELAXING))
    assert {row.outcome for row in verdict.rows[:2]} == {Outcome(outcome)}
    assert (says in verdict.explanation) if says else verdict.explanation == "", verdict.explanation
    components = {part["name"] for part in verdict.rows[0].budget.get("components", [])}
    assert ("specimen memory" in components) == (outcome == "PASS" and bool(says))
    if says:
        assert "settle so that at least" in verdict.explanation.lower()
