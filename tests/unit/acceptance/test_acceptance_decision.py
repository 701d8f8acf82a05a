"""The decision rule at its edges, the order of outcomes, and the uncertainty budget against tables."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from bench.acceptance import (
    SEVERITY,
    Budget,
    Component,
    Outcome,
    ReplicateValue,
    Row,
    Verdict,
    coverage_factor,
    decide,
    worst,
)
from bench.acceptance.uncertainty import scatter_of_mean
from bench.errors import ArchiveError

NAN, INF = math.nan, math.inf


@pytest.mark.parametrize(
    ("value", "uncertainty", "simple", "guarded"),
    [
        (0.0, 0.0, "PASS", "PASS"),
        (7.9, 2.0, "PASS", "PASS"),
        (8.0, 2.0, "PASS", "MARGINAL"),  # value + U is the limit: not below it
        (9.999, 2.0, "PASS", "MARGINAL"),
        (10.0, 0.0, "FAIL", "FAIL"),  # the limit itself is not below the limit
        (10.0, 2.0, "FAIL", "MARGINAL"),
        (11.9, 2.0, "FAIL", "MARGINAL"),
        (12.0, 2.0, "FAIL", "FAIL"),  # value - U is the limit
        (50.0, 2.0, "FAIL", "FAIL"),
        (1.0, 100.0, "PASS", "MARGINAL"),
    ],
)
def test_both_rules_at_a_limit_of_ten(value: float, uncertainty: float, simple: str, guarded: str) -> None:
    assert decide(value, uncertainty, 10.0, "simple") == simple
    assert decide(value, uncertainty, 10.0, "guard_band") == guarded


@pytest.mark.parametrize("rule", ["simple", "guard_band"])
@pytest.mark.parametrize(
    ("value", "uncertainty", "limit"),
    [
        (NAN, 1.0, 10.0), (1.0, NAN, 10.0), (1.0, 1.0, NAN), (INF, 1.0, 10.0), (1.0, INF, 10.0), (1.0, 1.0, INF),
        (-INF, 1.0, 10.0), (-1.0, 1.0, 10.0), (1.0, -1.0, 10.0), (0.0, 0.0, 0.0), (0.0, 0.0, -1.0),
    ],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_an_error_whatever_the_rule(
    rule: str, value: float, uncertainty: float, limit: float
) -> None:
    assert decide(value, uncertainty, limit, rule) == Outcome.ERROR  # type: ignore[arg-type]


def test_a_guard_band_never_passes_what_simple_acceptance_fails() -> None:
    random = np.random.default_rng(1)
    for value, uncertainty in random.uniform(0.0, 20.0, (500, 2)):
        if decide(value, uncertainty, 10.0, "guard_band") == Outcome.PASS:
            assert decide(value, uncertainty, 10.0, "simple") == Outcome.PASS


def test_the_worst_outcome_wins_and_none_at_all_is_not_run() -> None:
    assert [str(outcome) for outcome in SEVERITY] == ["PASS", "MARGINAL", "NOT-RUN", "FAIL", "ERROR"]
    assert set(SEVERITY) == set(Outcome)
    for i, worse in enumerate(SEVERITY):
        assert worst([Outcome.PASS, *SEVERITY[: i + 1]]) == worse
    assert worst([]) == Outcome.NOT_RUN


@pytest.mark.parametrize(("freedom", "factor"), [(1, 13.97), (2, 4.53), (3, 3.31), (4, 2.87), (10, 2.28), (50, 2.05)])
def test_coverage_factors_are_those_of_the_gum(freedom: int, factor: float) -> None:
    """JCGM 100:2008, table G.2, column 95.45 %."""
    assert coverage_factor(2.0, freedom) == pytest.approx(factor, abs=0.005)


def test_coverage_is_the_nominal_factor_when_the_uncertainty_is_well_known() -> None:
    assert coverage_factor(2.0, INF) == 2.0
    assert coverage_factor(1.0, INF) == 1.0
    assert coverage_factor(3.0, 5) > 3.0


def test_a_budget_adds_in_quadrature_and_counts_degrees_of_freedom_by_welch_satterthwaite() -> None:
    budget = Budget((Component("scatter", 3.0, "A", 4), Component("contact point", 4.0)))
    assert budget.combined == pytest.approx(5.0)
    assert budget.degrees_of_freedom == pytest.approx(5.0**4 / (3.0**4 / 4))
    assert budget.expanded == pytest.approx(5.0 * coverage_factor(2.0, 5.0**4 / (3.0**4 / 4)))
    record = budget.to_record()
    assert record["components"][1]["degrees_of_freedom"] is None  # type: ignore[index]
    json.dumps(record, allow_nan=False)


def test_a_budget_of_nothing_or_of_an_unknown_is_unknown() -> None:
    assert math.isnan(Budget(()).expanded)
    assert math.isnan(Budget((Component("a", 1.0), Component("b", NAN))).expanded)
    assert Budget((Component("a", 0.0),)).expanded == 0.0


def test_scatter_needs_two_values() -> None:
    values = [1.0, 2.0, 4.0]
    component = scatter_of_mean(values)
    assert component.standard_uncertainty == pytest.approx(math.sqrt(sum((v - 7 / 3) ** 2 for v in values) / 2 / 3))
    assert component.degrees_of_freedom == 2
    assert math.isnan(scatter_of_mean([1.0]).standard_uncertainty)
    assert math.isnan(scatter_of_mean([]).standard_uncertainty)


def verdict() -> Verdict:
    judged = Row(
        "peak", "peak_force_deviation", 4.0, 1.0, 10.0, "%", Outcome.PASS, definition="as written", segment="press",
        prediction="other_replicates", aggregate="mean", decision="guard_band",
        replicates=(ReplicateValue(0, 2.0, -3.0, 1.9, 2.0), ReplicateValue(1, 2.0, 5.0)),
        budget=Budget((Component("scatter", 0.5, "A", 1),)).to_record(),
    )  # fmt: skip
    missing = Row("slope", "rise_slope_deviation", NAN, NAN, 15.0, "%", Outcome.ERROR, "saturated")
    return Verdict(
        Outcome.ERROR, (judged, missing), "the bench could not judge slope: saturated", "contact_model", "1", "ab" * 32,
        "run.h5", "cd" * 32, True, "0.1.0", True, {"model": "qlv2"},
    )  # fmt: skip


def test_a_record_is_strict_json_and_comes_back_as_the_same_verdict() -> None:
    record = json.loads(json.dumps(verdict().to_record(), allow_nan=False))
    assert (record["stamp"], record["outcome"], record["rows"][1]["value"]) == ("SIMULATED", "ERROR", None)
    assert record["outcome_order"] == [str(outcome) for outcome in SEVERITY]
    back = Verdict.from_record({**record, "judged": {"utc": "2026-03-01T00:00:00Z"}})
    assert back.to_record() == verdict().to_record()
    assert back.rows[0] == verdict().rows[0]
    assert math.isnan(back.rows[1].value)


def test_a_foreign_record_is_refused() -> None:
    with pytest.raises(ArchiveError, match="not a verdict record"):
        Verdict.from_record({"schema": "something.else/1"})


def test_a_row_reads_as_a_line() -> None:
    judged, missing = verdict().rows
    assert str(judged) == "peak: 4 ± 1 %, limit 10 %: PASS"
    assert str(missing) == "slope: ERROR, no value"
