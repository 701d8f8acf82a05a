"""An arm's archives as joint arrays: rows at their own times, a current that holds, pieces, gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter
from bench.arm import drivetrain
from bench.errors import Refused
from bench.identify.arm_fit import fit_arm
from bench.identify.arm_record import ArmRecord, pieces
from bench.identify.filtering import LowPass
from bench.profile import ArmRig

Floats = NDArray[np.float64]

HOLDS_FROM = 0.7e-3
"""The command is out so long after the row's own time."""


def each(name: str) -> tuple[str, ...]:
    return tuple(name.format(i + 1) for i in range(6))


@pytest.fixture
def archived(arm_rig: ArmRig, repository: Path, tmp_path: Path, motion: Any) -> Callable[..., tuple[Path, Any]]:
    """``archived(torque, seconds, without=…)``: jittering rows whose command makes ``torque(time)`` at the joints."""

    def write(
        torque: Callable[[Floats], Floats], seconds: float = 6.0, without: slice | None = None, *, timed: bool = True
    ) -> tuple[Path, Any]:
        drives = drivetrain(arm_rig.arm)
        rng = np.random.default_rng(3)
        time = np.cumsum(rng.uniform(3.2e-3, 4.8e-3, round(seconds * 250)))
        path = motion.of(5)
        if without is not None:
            time = np.delete(time, without)
        current = drives.current(torque(time))
        groups = [
            GroupSpec(
                "drive",
                (
                    DatasetSpec("position", "rad", "angle", each("motor_{}_position")),
                    DatasetSpec("command", "A", "current", each("motor_{}_command_current")),
                    DatasetSpec("current", "A", "current", each("motor_{}_current")),
                    *([DatasetSpec("sent", "s", "time", ("command_time", "time_half_width"))] if timed else []),
                ),
                block=200,
            )
        ]
        provenance = Provenance(
            "Ada", "bare_tool", "arm_excitation", arm_rig.name, datetime(2026, 3, 1, tzinfo=UTC), "mock", True, 1,
            texts={"rig.toml": (repository / "profiles/rigs/full_arm.toml").read_text(encoding="utf-8")},
        )  # fmt: skip
        with RunWriter.create(tmp_path, "arm", provenance, groups, phases_capacity=4, events_capacity=4) as writer:
            data = {
                "position": drives.motor_angle(path.at(time)[0]),
                "command": current,
                "current": 0.98 * current,
            }
            if timed:
                data["sent"] = np.stack([time + HOLDS_FROM, np.full(len(time), 3e-4)], axis=1)
            writer.append("drive", data, time)
            writer.phase("train", 1, np.nan, 0.5, seconds - 0.5)
            writer.close("COMPLETE")
        return writer.path, path

    return write


def wave(time: Floats) -> Floats:
    """Torques that the loop commands: a sine of 2 Hz at every joint, as it was when the row was read."""
    return np.stack([(1.0 + j) * np.sin(2.0 * np.pi * 2.0 * time) for j in range(6)], axis=1)


def test_positions_stand_where_they_were_at_the_times_of_the_grid(archived: Any) -> None:
    path, motion = archived(wave)
    with Run.open(path) as run:
        (record,) = pieces(run, phases=["train"])
    assert record.phases == ("train",)
    assert record.rate_hz == pytest.approx(250.0, rel=0.02)
    assert np.ptp(np.diff(record.time_s)) < 1e-9
    assert record.position == pytest.approx(motion.at(record.time_s)[0], abs=1e-6)
    assert record.time_uncertainty_s == pytest.approx(3e-4 / np.sqrt(3.0))


def test_a_held_command_is_averaged_over_every_cell_without_delay(archived: Any) -> None:
    path, _ = archived(wave)
    with Run.open(path) as run:
        record = ArmRecord.from_run(run)
        sent = np.asarray(run.channel_slice("command_time", -np.inf, np.inf).values)
        own = np.asarray(run.channel_slice("motor_1_position", -np.inf, np.inf).time_s)
    # the staircase itself, as finely as one likes
    fine = np.arange(400, 1000) / record.rate_hz + record.time_s[0]
    sub = (np.arange(400) + 0.5) / 400 / record.rate_hz - 0.5 / record.rate_hz
    held = np.searchsorted(sent, fine[:, None] + sub, side="right") - 1
    due = wave(own[held].ravel()).reshape(len(fine), 400, 6).mean(axis=1)
    assert record.torque_source == "command"
    assert record.torque[400:1000] == pytest.approx(due, abs=5e-3)
    # one half of the mean row, and the way from read to sent, is what the loop itself is late; the average adds nothing
    angle = 2.0 * np.pi * 2.0 * record.time_s[300:1200]
    sine, cosine = np.sin(angle), np.cos(angle)
    a, b = np.linalg.lstsq(np.stack([sine, cosine], axis=1), record.torque[300:1200, 0], rcond=None)[0]
    late = -np.arctan2(b, a) / (2.0 * np.pi * 2.0)
    assert late == pytest.approx(0.5 * 4e-3 + HOLDS_FROM, abs=1e-4)


def test_the_measured_current_can_be_taken_instead(archived: Any) -> None:
    path, _ = archived(wave)
    with Run.open(path) as run:
        record = ArmRecord.from_run(run, torque="measured")
    assert record.torque_source == "measured"
    assert record.torque[5:-5] == pytest.approx(0.98 * wave(record.time_s)[5:-5], abs=1e-3)


def test_a_command_whose_time_is_not_known_is_not_taken(archived: Any) -> None:
    path, _ = archived(wave, timed=False)
    with Run.open(path) as run:
        record = ArmRecord.from_run(run)
    assert record.torque_source == "measured"
    assert record.time_uncertainty_s == 0.0


def test_missing_rows_are_refused_with_their_place(archived: Any) -> None:
    path, _ = archived(wave, without=slice(700, 730))
    with Run.open(path) as run:
        with pytest.raises(Refused) as refusal:
            list(pieces(run, phases=["train"]))
        assert refusal.value.reason == "gap"
        assert "rows are missing between 2.7" in str(refusal.value) or "rows are missing between 2.8" in str(
            refusal.value
        )
        assert len(ArmRecord.from_run(run, start_s=0.2, stop_s=2.5).time_s) > 500
        with pytest.raises(Refused) as refusal:
            list(pieces(run, phases=["hold_out"]))
        assert refusal.value.reason == "no_phase"


def test_long_phases_come_in_pieces_on_one_grid(archived: Any, bed: Any, motion: Any) -> None:
    def torque(time: Floats) -> Floats:
        q, v, a = motion.of(5).at(time)
        return np.asarray(bed.base.law.model.inverse_dynamics_rows(q, v, a) + bed.friction(v, a))

    path, _ = archived(torque, seconds=30.0)
    with Run.open(path) as run:
        (whole,) = pieces(run, phases=["train"])
        parts = list(pieces(run, phases=["train"], longest_s=10.0, overlap_s=3.0))
    assert len(parts) == 4
    assert all(part.rate_hz == parts[0].rate_hz for part in parts)
    for before, after in pairwise(parts):
        shift = after.first_index - before.first_index
        same = min(len(before.time_s) - shift, len(after.time_s))
        assert same > 2 * parts[0].rate_hz
        assert after.time_s[:same] == pytest.approx(before.time_s[shift : shift + same], abs=1e-9)
        assert after.torque[3:same] == pytest.approx(before.torque[shift + 3 : shift + same], abs=2e-2)
    fits = [
        fit_arm(bed.base, records, LowPass(5.0), method="ols", still_speed=np.full(6, 0.02))
        for records in ([whole], parts)
    ]
    assert fits[1].rows.sum() == pytest.approx(fits[0].rows.sum(), abs=24)
    # the grids differ by a share of a row
    assert np.mean(np.abs(fits[1].values - fits[0].values) < 0.5 * fits[0].standard_deviation) >= 0.95
    assert np.median(np.abs(fits[1].values - bed.truth)) < 0.02


def test_part_of_a_record_is_a_record(bed: Any) -> None:
    record = bed.record(1)
    part = record.between(1.0, 2.0)
    assert part.time_s[0] == 1.0
    assert part.time_s[-1] < 2.0
    assert part.n == 6
    assert replace(part, source="x").source == "x"
