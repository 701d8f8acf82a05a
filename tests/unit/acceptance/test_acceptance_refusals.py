"""Judging archived presses: every road that must not end in a pass."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict, judge_run
from bench.acceptance.evidence import ForceCalibration
from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.errors import ArchiveError
from bench.profile import CriteriaProfile

RATE = 100.0
SPEEDS = (2.0, 2.0, 2.0, 2.0, 2.0, 0.5)

Press = dict[str, float]


def scaled(*scales: float) -> list[Press]:
    """Presses whose force differs by these factors; the last is the one at the second speed."""
    return [{"F": 2.6 * s, "speed": v} for s, v in zip(scales, SPEEDS[-len(scales) :], strict=True)]


def rows(verdict: Verdict) -> dict[str, Any]:
    return {row.id: row for row in verdict.rows}


GOOD = (1.0, 1.02, 0.97, 1.01, 1.0, 1.0)
SIMPLE = ('"guard_band"', '"simple"')


@pytest.mark.parametrize(("status", "reason"), [("ABORTED", "estop: the e-stop was pressed"), ("CRASHED", "")])
def test_a_run_that_did_not_end_as_planned_is_the_benchs_error(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], status: str, reason: str
) -> None:
    verdict = judge_run(archive(scaled(*GOOD), status=status, reason=reason), criteria())
    assert {row.outcome for row in verdict.rows} == {Outcome.ERROR}
    assert status in verdict.rows[0].detail
    assert reason in verdict.rows[0].detail


def test_an_archive_edited_by_hand_is_not_judged(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    path = archive(scaled(*GOOD))
    with h5py.File(path, "r+") as file:
        file["entry/force/contact"].resize(1000, axis=0)
    with pytest.raises(ArchiveError, match="content changed after sealing: /entry/force/contact"):
        judge_run(path, criteria())


def clipped(force: np.ndarray) -> np.ndarray:
    return np.minimum(force, 2.0)


def in_air(force: np.ndarray) -> np.ndarray:
    return 1e-3 * np.random.default_rng(1).standard_normal(len(force))


def with_gap(force: np.ndarray) -> np.ndarray:
    return np.where(np.arange(len(force)) == 300, np.nan, force)


@pytest.mark.parametrize(
    ("options", "outcome", "detail"),
    [
        ({"presses": scaled(*GOOD), "change": clipped}, "ERROR", "force stays at exactly 2 N"),
        ({"presses": scaled(*GOOD), "change": with_gap}, "ERROR", "force samples are missing or not finite"),
        ({"presses": [{**p, "free_air": 1.0} for p in scaled(*GOOD)]}, "ERROR", "1 mm of free air before contact"),
        ({"presses": scaled(*GOOD), "change": in_air}, "ERROR", "N at most, noise is"),
        ({"presses": scaled(*GOOD), "kind": ("N.m", "torque")}, "ERROR", "the channel is of kind torque"),
        ({"presses": scaled(*GOOD), "channel": "force"}, "ERROR", "no channel 'contact_force'"),
        ({"presses": [{"speed": 2.0}]}, "NOT-RUN", "1 replicate at 2 mm/s: nothing else to predict it from"),
        (
            {"presses": [{"speed": 1.0}, {"speed": 0.5}]},
            "NOT-RUN",
            "no press at 2 mm/s; the presses here run at 1, 0.5",
        ),
    ],
    ids=["saturated", "gap", "baseline", "no contact", "kind", "channel", "one replicate", "other speed"],
)
def test_what_cannot_be_judged_has_no_value_and_says_why(
    archive: Callable[..., Path],
    criteria: Callable[..., CriteriaProfile],
    options: dict[str, Any],
    outcome: str,
    detail: str,
) -> None:
    verdict = judge_run(archive(**options), criteria())
    row = rows(verdict)["peak_force"]
    assert (row.outcome, math.isnan(row.value)) == (outcome, True)
    assert detail in row.detail
    assert verdict.outcome == outcome
    assert row.detail in verdict.explanation


def test_an_archive_without_a_press_is_not_run(tmp_path: Path, criteria: Callable[..., CriteriaProfile]) -> None:
    provenance = Provenance("x", "y", "z", "indenter", datetime(2026, 3, 1, tzinfo=UTC), "mock", True)
    groups = [
        GroupSpec("force", (DatasetSpec("contact", "N", "force", ("contact_force",)),), RATE, 100),
        GroupSpec("encoder", (DatasetSpec("position", "mm", "length", ("encoder_position",)),), RATE, 100),
    ]
    with RunWriter.create(tmp_path, "empty", provenance, groups) as writer:
        for group, name in (("force", "contact"), ("encoder", "position")):
            writer.append(group, {name: np.zeros((100, 1))}, np.arange(100) / RATE)
        path = writer.close("COMPLETE")
    assert judge_run(path, criteria()).outcome == Outcome.NOT_RUN


def test_a_record_that_ends_before_the_stated_time_is_not_run(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    verdict = judge_run(archive([{**p, "residual_s": 1.0} for p in scaled(*GOOD)]), criteria())
    found = rows(verdict)
    assert found["residual_force"].outcome == Outcome.NOT_RUN
    assert "the record ends" in found["residual_force"].detail
    assert (found["peak_force"].outcome, verdict.outcome) == (Outcome.PASS, Outcome.NOT_RUN)


def test_a_frame_that_is_not_known_is_not_assumed(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    verdict = judge_run(archive(scaled(*GOOD)), criteria(("compensate_frame = false", "compensate_frame = true")))
    assert verdict.outcome == Outcome.ERROR
    assert "the frame's compliance is unknown" in verdict.rows[0].detail


@pytest.mark.parametrize(
    ("old", "new", "scale", "detail"),
    [
        (
            "due = 2036-01-07",
            "due = 2026-02-01",
            1.0,
            "SYN-FT-0001, SYN-EN-0001, SYN-DQ-0001 had expired when the run was",
        ),
        (
            'range_max = "70 N"',
            'range_max = "2 N"',
            1.0,
            "lies outside the calibrated range, 0.05 to 2 N (SYN-FT-0001)",
        ),
        (
            'range_min = "0.05 N"',
            'range_min = "3 N"',
            1.0,
            "lies outside the calibrated range, 3 to 70 N (SYN-FT-0001)",
        ),
        ('capacity = "70 N"', 'capacity = "21 N"', 9.0, "of a capacity of 21 N"),
        ('kind = "indenter"', 'kind = "robot"', 1.0, "the archived rig profile cannot be read"),
    ],
    ids=["expired", "above range", "below range", "saturated", "unreadable"],
)
def test_a_rig_that_cannot_vouch_for_its_figures_is_the_benchs_error(
    archive: Callable[..., Path],
    criteria: Callable[..., CriteriaProfile],
    rig_text: str,
    old: str,
    new: str,
    scale: float,
    detail: str,
) -> None:
    assert old in rig_text
    presses = scaled(*(scale * s for s in GOOD))
    verdict = judge_run(archive(presses, texts={"rig.toml": rig_text.replace(old, new)}), criteria())
    assert verdict.outcome == Outcome.ERROR
    assert detail in rows(verdict)["peak_force"].detail


def test_the_certificate_enters_the_residual_force_and_cancels_in_the_deviation(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], rig_text: str
) -> None:
    presses = [{**press, "residual": 0.1} for press in scaled(*GOOD)]
    percent = rows(judge_run(archive(presses, texts={"rig.toml": rig_text}), criteria()))
    parts = {c["name"]: c["standard_uncertainty"] for c in percent["residual_force"].budget["components"]}
    assert parts["force calibration"] == pytest.approx(0.0025 * 0.1, rel=1e-3)
    assert "force calibration" not in {c["name"] for c in percent["peak_force"].budget["components"]}
    newton = rig_text.replace('expanded_uncertainty = "0.5 %"', 'expanded_uncertainty = "0.06 N"')
    absolute = rows(judge_run(archive(presses, texts={"rig.toml": newton}), criteria()))
    parts = {c["name"]: c["standard_uncertainty"] for c in absolute["peak_force"].budget["components"]}
    assert parts["force calibration"] == pytest.approx(100 * 0.03 / 2.6, rel=0.02)


def test_below_the_calibrated_range_the_uncertainty_does_not_shrink() -> None:
    calibration = ForceCalibration("C-1", 0.01, 0.0, 0.5, 50.0)
    assert calibration.standard_uncertainty_N(0.001) == pytest.approx(0.005)
    assert calibration.standard_uncertainty_N(-20.0) == pytest.approx(0.2)


def test_a_press_predicted_by_itself_needs_no_other(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile]
) -> None:
    verdict = judge_run(archive([{}], noise=2e-3), criteria(('"other_replicates"', '"in_sample"')))
    row = rows(verdict)["peak_force"]
    assert row.outcome == Outcome.PASS
    assert row.value < 0.5
    assert "parameters: model and noise" in {c["name"] for c in row.budget["components"]}


@pytest.mark.parametrize(("segment", "outcome"), [("rise", "PASS"), ("hold", "PASS"), ("residual", "NOT-RUN")])
def test_the_segment_is_the_criterions(
    archive: Callable[..., Path], criteria: Callable[..., CriteriaProfile], segment: str, outcome: str
) -> None:
    at = 'segment = "residual"\nat_time = "3 s"' if segment == "residual" else f'segment = "{segment}"'
    found = rows(judge_run(archive(scaled(*GOOD)), criteria(('segment = "press"', at))))
    assert found["peak_force"].outcome == outcome
    assert found["peak_force"].segment.startswith(segment)
    slope = rows(judge_run(archive(scaled(*GOOD)), criteria(('segment = "rise"', 'segment = "hold"'))))["rise_slope"]
    assert slope.outcome == Outcome.ERROR
    assert "a rise has its slope" in slope.detail
