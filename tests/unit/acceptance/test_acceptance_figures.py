"""Judging archived presses: figures and decisions, found a second way."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from bench.acceptance import METRICS, Outcome, Verdict, judge_run
from bench.acceptance.evidence import Evidence
from bench.acceptance.explain import explain_failure, in_words
from bench.acceptance.measured import Measured, aggregate
from bench.archive import Run
from bench.models.contact import LAWS
from bench.profile import CriteriaProfile
from bench.profile.criteria import METRICS as METRIC_KINDS
from bench.units import KINDS

SPEEDS = (2.0, 2.0, 2.0, 2.0, 2.0, 0.5)

Press = dict[str, float]


def scaled(*scales: float) -> list[Press]:
    """Presses whose force differs by these factors; the last is the one at the second speed."""
    return [{"F": 2.6 * s, "speed": v} for s, v in zip(scales, SPEEDS[-len(scales) :], strict=True)]


def rows(verdict: Verdict) -> dict[str, Any]:
    return {row.id: row for row in verdict.rows}


GOOD = (1.0, 1.02, 0.97, 1.01, 1.0, 1.0)
THRESHOLD = ('"fit"', '"threshold_5sigma"')
SIMPLE = ('"guard_band"', '"simple"')


def test_deviations_are_those_of_leaving_one_out(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    """With one shape and one path, the others' mean scale over this one's is all there is, but for the fit's 0.1 %."""
    verdict = judge_run(archive([{"F": 2.6 * s} for s in GOOD[:5]]), criteria())
    expected = [100.0 * ((sum(GOOD[:5]) - s) / 4.0 / s - 1.0) for s in GOOD[:5]]
    for name in ("peak_force", "rise_slope"):
        row = rows(verdict)[name]
        assert [one.value for one in row.replicates] == pytest.approx(expected, abs=0.15)
        assert row.value == pytest.approx(np.mean(np.abs(expected)), abs=0.15)
        assert (row.unit, row.limit, row.outcome) == ("%", 10.0 if name == "peak_force" else 15.0, Outcome.PASS)
    assert [one.measured for one in rows(verdict)["peak_force"].replicates] == pytest.approx(
        [2.6 * s for s in GOOD[:5]], rel=1e-4
    )
    assert verdict.outcome == Outcome.PASS
    assert verdict.explanation == ""


def test_peak_and_slope_are_those_of_the_definitions(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    """Largest forces by sorting, lines by numpy's polynomial fit over 20 to 80 % of the measured peak."""
    presses: list[Press] = [{"n": 1.4}, {"n": 1.5}, {"n": 1.6}, {"n": 1.5, "speed": 0.5}]
    path = archive(presses, noise=2e-3)
    verdict = judge_run(path, criteria())
    with Run.open(path) as run:
        evidence = Evidence(run, criteria().analysis)
        for i in range(3):
            seen = evidence.comparison(i, "other_replicates").deviations.prediction
            measured, predicted = seen.measured_N[seen.pressing], seen.predicted_N[seen.pressing]
            depth = seen.depth_mm[seen.pressing]
            peak = sorted(predicted)[-1] / sorted(measured)[-1] - 1.0
            top = int(np.argmax(measured))
            used = [k for k in range(top + 1) if 0.2 <= measured[k] / measured[top] <= 0.8]
            lines = [np.polyfit(depth[used], force[used], 1)[0] for force in (predicted, measured)]
            assert rows(verdict)["peak_force"].replicates[i].value == pytest.approx(100 * peak, abs=1e-9)
            assert rows(verdict)["rise_slope"].replicates[i].value == pytest.approx(
                100 * (lines[0] / lines[1] - 1), abs=1e-6
            )
            assert rows(verdict)["rise_slope"].replicates[i].measured == pytest.approx(lines[1], rel=1e-9)


def test_the_budget_adds_up_and_holds_scatter_contact_point_and_sensor(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    path = archive(scaled(*GOOD), noise=2e-3)
    row = rows(judge_run(path, criteria()))["peak_force"]
    parts = {component["name"]: component["standard_uncertainty"] for component in row.budget["components"]}
    assert set(parts) == {"replicate scatter", "contact point", "force noise", "force zero"}
    magnitudes = np.abs([one.value for one in row.replicates])
    assert parts["replicate scatter"] == pytest.approx(magnitudes.std(ddof=1) / math.sqrt(5))
    with Run.open(path) as run:
        evidence = Evidence(run, criteria().analysis)
        comparisons = [evidence.comparison(i, "other_replicates") for i in range(5)]
    contacts = [one.deviations.prediction.contact for one in comparisons]
    exponents = [one.fit.parameters["n"].value for one in comparisons]
    # u(F)/F = n u(depth)/depth
    depths = [8.0 - contact.position_mm for contact in contacts]
    by_hand = [100 * n * c.standard_uncertainty_mm / d for n, c, d in zip(exponents, contacts, depths, strict=True)]
    assert parts["contact point"] == pytest.approx(np.mean(by_hand), rel=0.02)
    combined = math.sqrt(sum(u**2 for u in parts.values()))
    freedom = combined**4 / (parts["replicate scatter"] ** 4 / 4)
    factor = stats.t.ppf(0.5 + math.erf(2 / math.sqrt(2)) / 2, freedom)
    assert row.expanded_uncertainty == pytest.approx(factor * combined, rel=1e-6)


def test_a_residual_force_is_the_mean_at_the_stated_time_relative_to_free_air(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    presses = [{**press, "residual": 0.05 * (i + 1)} for i, press in enumerate(scaled(*GOOD))]
    path = archive(presses, change=lambda force: force + 0.3)
    found = rows(judge_run(path, criteria()))
    assert found["residual_force"].value == pytest.approx(0.25, abs=1e-5), "the largest of the five at 2 mm/s"
    assert found["residual_force"].outcome == Outcome.FAIL
    shares = [100 * 0.05 * (i + 1) / (2.6 * s) for i, s in enumerate(GOOD[:5])]
    assert [one.value for one in found["residual_force_relative"].replicates] == pytest.approx(shares, rel=1e-3)
    mean = rows(judge_run(path, criteria(('"max"', '"mean"'))))["residual_force"]
    assert mean.value == pytest.approx(0.15, abs=1e-5)


def test_aggregates_of_numbers_by_hand() -> None:
    found = [Measured(v, budget={"force noise": 0.3, "contact point": 0.3}) for v in (-1.0, 2.0, -3.0)]
    value, budget = aggregate(found, "mean", 2.0, 100.0)
    parts = {component.name: component.standard_uncertainty for component in budget.components}
    assert value == pytest.approx(200.0)
    assert parts == pytest.approx(
        {"replicate scatter": 100 / math.sqrt(3), "force noise": 30 / math.sqrt(3), "contact point": 30.0}
    )
    value, budget = aggregate(found, "max", 2.0, 100.0)
    assert (value, budget.expanded) == pytest.approx((300.0, 2 * math.hypot(30, 30)))
    for how in ("mean", "max"):
        assert math.isnan(aggregate([*found, Measured(math.nan)], how, 2.0)[0])
    one = [
        Measured(
            1.0,
            budget={"force noise": 0.3},
            model_budget={"replicates": 0.4},
            model_degrees_of_freedom={"replicates": 3},
        )
    ]
    assert aggregate(one, "mean", 2.0)[1].combined == pytest.approx(0.5), "a mean over one is that one, with its model"


# -- decisions


def test_the_rule_written_in_the_criterion_decides(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    path = archive(scaled(*GOOD), noise=2e-3)
    row = rows(judge_run(path, criteria(THRESHOLD)))["peak_force"]
    inside = f'"{row.value + 0.5 * row.expanded_uncertainty} %"'
    close = ('limit = "10 %"', f"limit = {inside}")
    assert rows(judge_run(path, criteria(THRESHOLD, close)))["peak_force"].outcome == Outcome.MARGINAL
    assert rows(judge_run(path, criteria(THRESHOLD, close, SIMPLE)))["peak_force"].outcome == Outcome.PASS
    exact = ('limit = "10 %"', f'limit = "{row.value!r} %"')
    assert rows(judge_run(path, criteria(THRESHOLD, exact, SIMPLE)))["peak_force"].outcome == Outcome.FAIL, (
        "the limit is not below"
    )
    marginal = judge_run(path, criteria(THRESHOLD, close))
    assert marginal.outcome == Outcome.MARGINAL
    assert "contact point" in marginal.explanation


def test_a_failure_names_the_contact_stiffness(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    verdict = judge_run(archive(scaled(1.0, 1.0, 1.0, 1.0, 1.7, 1.0)), criteria(SIMPLE))
    assert verdict.outcome == Outcome.FAIL
    assert verdict.explanation.startswith(
        "peak_force: contact stiffness explains most of the deviation: changed by +70 %"
    )
    assert "(replicate 4)" in verdict.explanation
    assert "Look first at friction compensation and contact stiffness, not at gains" in verdict.explanation


def test_a_failure_names_the_exponent_and_admits_when_nothing_fits(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    steeper = [*scaled(1, 1, 1, 1, 1)[:4], {"n": 1.8}, {"speed": 0.5}]
    path = archive(steeper)
    with Run.open(path) as run:
        evidence = Evidence(run, criteria().analysis)
        text = explain_failure(evidence.comparison(4, "other_replicates"), evidence.presses[4])
    assert text.startswith("exponent of the force-depth law explains most")
    wavy = archive(scaled(1, 1, 1, 1), change=lambda force: force + 0.2 * np.sin(4 * force))
    with Run.open(wavy) as run:
        evidence = Evidence(run, criteria().analysis)
        text = explain_failure(evidence.comparison(0, "other_replicates"), evidence.presses[0])
    assert text.startswith("no single parameter explains half of the deviation")


def test_a_failure_names_a_frame_that_gives_way(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], rig_text: str
) -> None:
    stiff = {"F": 15.0, "frame": 198.0}
    presses: list[Press] = [stiff, stiff, stiff, {**stiff, "frame": 80.0}, {**stiff, "speed": 0.5}]
    compensated = criteria(("compensate_frame = false", "compensate_frame = true"))
    with Run.open(archive(presses, texts={"rig.toml": rig_text})) as run:
        evidence = Evidence(run, compensated.analysis)
        text = explain_failure(evidence.comparison(3, "other_replicates"), evidence.presses[3])
        good = evidence.comparison(0, "other_replicates").deviations.peak.value
    assert text.startswith("frame stiffness explains most of the deviation: changed by -59 %")
    assert abs(good) < 0.05


def test_every_parameter_of_every_model_has_words() -> None:
    names = {"F_ref", "contact_point", "force_zero", "frame_stiffness"}
    names |= {parameter.name for law in LAWS.values() for parameter in law}
    for name in names:
        assert in_words(name) != name


# -- the record


def test_the_same_archive_and_criteria_give_the_same_record(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], tmp_path: Path
) -> None:
    path = archive(scaled(*GOOD), noise=2e-3)
    first = judge_run(path, criteria()).to_record()
    with Run.open(path) as run:
        assert judge_run(run, criteria()).to_record() == first
    copy = tmp_path / "copy.h5"
    shutil.copyfile(path, copy)
    assert {**judge_run(copy, criteria()).to_record(), "archive": path.name} == first


def test_a_record_says_by_what_it_was_judged(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    path = archive(scaled(*GOOD))
    profile = criteria()
    record = judge_run(path, profile).to_record()
    with Run.open(path) as run:
        assert (record["archive"], record["archive_digest"]) == (path.name, run.digest)
    assert record["criteria_sha256"] == profile.source.sha256
    assert (record["criteria_name"], record["criteria_version"]) == ("contact_model", profile.version)
    assert (record["simulated"], record["stamp"]) == (True, "SIMULATED")
    assert record["software_version"]
    assert record["criteria_archived"] is False
    with_them = archive(scaled(*GOOD), texts={"acceptance/criteria.toml": profile.source.text})
    assert judge_run(with_them, profile).criteria_archived is True
    assert judge_run(with_them, criteria(('limit = "10 %"', 'limit = "11 %"'))).criteria_archived is False
    assert record["analysis"]["model"] == "power_law"
    assert len(record["analysis"]["fits"]) == 5
    for row, criterion in zip(record["rows"], profile.criteria, strict=True):
        assert (row["id"], row["definition"]) == (criterion.id, criterion.definition)
        assert (row["decision"], row["aggregate"]) == (criterion.decision, criterion.aggregate)
        assert row["segment"] == (f"residual at {criterion.at_time}" if criterion.at_time else criterion.segment)


def test_the_table_of_metrics_is_the_one_profiles_are_checked_against() -> None:
    assert set(METRICS) == set(METRIC_KINDS)
    for name, metric in METRICS.items():
        assert metric.base_unit in KINDS[METRIC_KINDS[name]]


def test_criteria_changed_under_their_old_version_judge_nothing(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    fixed = criteria()
    run = archive(scaled(*GOOD), texts={"acceptance/contact_model.toml": fixed.source.text})
    loosened = ('limit = "10 %"', 'limit = "90 %"')
    verdict = judge_run(run, criteria(loosened))
    assert (verdict.outcome, {row.outcome for row in verdict.rows}) == ("ERROR", {"ERROR"})
    assert "changed since the run was made" in verdict.explanation
    assert "new version" in verdict.explanation
    # With a version of their own they are what they say they are; a comment changes no criterion.
    renewed = judge_run(run, criteria(loosened, (f'version = "{fixed.version}"', 'version = "90"')))
    assert (renewed.outcome, renewed.criteria_archived) == ("PASS", False)
    assert judge_run(run, criteria(("[analysis]", "[analysis]  # as ever"))).outcome == "PASS"
