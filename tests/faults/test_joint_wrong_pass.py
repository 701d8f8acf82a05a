"""Ways to get a joint past its criteria without having earned it. None may pass, and each says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bench.acceptance import Verdict, judge_run
from bench.errors import ArchiveError
from bench.models.friction import Friction
from bench.profile import load_criteria

Judged = Callable[..., Verdict]


def nothing_passed(verdict: Verdict, said: str, outcome: str = "ERROR") -> None:
    assert {str(row.outcome) for row in verdict.rows} == {outcome}, [row.detail for row in verdict.rows]
    assert str(verdict.outcome) == outcome
    assert said in verdict.explanation, verdict.explanation


@pytest.mark.parametrize("name", ["wanted_torque", "joint_torque", "joint_angle", "drive_temperature"])
def test_a_value_that_is_no_number_does_not_pass(judged_joint: Judged, simulated_joint: Any, name: str) -> None:
    def hole(made: Any) -> None:
        arrays = made.daq if name in made.daq else made.drive
        arrays[name][len(arrays[name]) * 3 // 4] = np.nan

    verdict = judged_joint(
        "tracking", simulated_joint.tracking(), feedforward=simulated_joint.feedforward_text(), change=hole
    )
    nothing_passed(verdict, f"values of {name} are missing or not finite")


@pytest.mark.parametrize(
    "name", ["wanted_torque", "feedforward_torque", "time_half_width", "joint_torque", "transducer_voltage"]
)
def test_a_channel_that_is_missing_does_not_pass(judged_joint: Judged, simulated_joint: Any, name: str) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(), feedforward=simulated_joint.feedforward_text(), leave_out=name
    )
    nothing_passed(verdict, f"no channel '{name}'")


def test_a_run_without_compensation_named_compensated_does_not_pass(judged_joint: Judged, simulated_joint: Any) -> None:
    """Little friction, nothing fed forward: the residual is small, and says nothing about compensation."""
    slippery = Friction(0.01, 0.0)
    made = simulated_joint.tracking(slippery, fed=Friction(0.0, 0.0))
    file = simulated_joint.feedforward_text(slippery)
    nothing_passed(judged_joint("tracking", made, feedforward=file), "nothing was fed forward")


def test_compensation_without_a_file_does_not_pass(judged_joint: Judged, simulated_joint: Any) -> None:
    nothing_passed(judged_joint("tracking", simulated_joint.tracking()), "the archive holds no feed-forward file")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('rig = "single_joint"', 'rig = "other_joint"', "the feed-forward file is of the rig other_joint"),
        ("6A0F2D11", "7B0F2D11", "the feed-forward file is of the drive 7B0F2D11"),
        ('load = "pendulum_arm"', 'load = "balanced_arm"', "was identified with balanced_arm mounted"),
        ("simulated = true", "simulated = false", "the feed-forward file was identified on a real rig"),
        ("created = 2026-02-27", "created = 2026-03-02", "after the run"),
        ('load_max = "10 N.m"', 'load_max = "0.5 N.m"', "and the feed-forward holds up to 0.5 N.m"),
        ('speed_min = "0.005 rad/s"', 'speed_min = "0.1 rad/s"', "the feed-forward holds for 0.1 rad/s"),
        ('coulomb = "1.2 N.m"', 'coulomb = "1.3 N.m"', "is not what the archived file gives"),
    ],
    ids=["rig", "drive", "load", "simulated", "later", "load range", "speed range", "edited"],
)
def test_a_feedforward_of_another_joint_or_an_edited_one_does_not_pass(
    judged_joint: Judged, simulated_joint: Any, old: str, new: str, said: str
) -> None:
    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text(),
        replace=(("feedforward.toml", old, new),),
    )
    nothing_passed(verdict, said)


def test_friction_fed_forward_in_the_segment_without_does_not_count_as_none(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    def renamed(made: Any) -> None:
        names = {"compensated": "uncompensated", "uncompensated": "warm_up"}
        made.phases = [(names[phase[0]], *phase[1:]) for phase in made.phases]

    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(),
        criteria=(('"compensated"', '"uncompensated"'),),
        feedforward=simulated_joint.feedforward_text(),
        change=renamed,
    )
    nothing_passed(verdict, "friction was compensated (by up to 1.73 N.m) where it must not be")


def test_a_repeat_is_no_hold_out(judged_joint: Judged, simulated_joint: Any) -> None:
    nothing_passed(
        judged_joint("excitation", simulated_joint.exciting(repeat=True)), "repeats the trajectory of the fit"
    )


def test_a_run_of_another_procedure_does_not_pass(judged_joint: Judged, simulated_joint: Any, repository: Path) -> None:
    swapped = (repository / "profiles/procedures/impedance_step.toml").read_text(encoding="utf-8")
    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text(),
        texts={"procedure.toml": swapped},
    )
    nothing_passed(verdict, "friction_compensation judges runs of low_speed_tracking, and this archive is of impedance")


def test_a_run_without_the_segment_is_not_run(judged_joint: Judged, simulated_joint: Any) -> None:
    verdict = judged_joint("tracking", simulated_joint.tracking(fed=None))
    nothing_passed(verdict, "there is no phase 'compensated'; phases here: uncompensated", "NOT-RUN")


@pytest.mark.parametrize("name", ["rig.toml", "procedure.toml", "specimen.toml"])
def test_an_archive_without_its_profiles_does_not_pass(judged_joint: Judged, simulated_joint: Any, name: str) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(), feedforward=simulated_joint.feedforward_text(), texts={name: None}
    )
    nothing_passed(verdict, f"({name})")


def test_an_archive_of_an_indenter_is_no_joint(judged_joint: Judged, simulated_joint: Any, repository: Path) -> None:
    swapped = (repository / "profiles/rigs/indenter.toml").read_text(encoding="utf-8")
    verdict = judged_joint("step", simulated_joint.stepping(), texts={"rig.toml": swapped})
    nothing_passed(verdict, "the archived rig profile cannot be read as one of a joint")


def test_a_looser_limit_under_the_same_name_does_not_pass(
    judged_joint: Judged, simulated_joint: Any, repository: Path
) -> None:
    """The criteria archived with the run decide; who changes them gives them another version."""
    file = Friction(1.0, 0.8, 0.6, 0.05)
    text = (repository / "profiles/acceptance/friction_compensation.toml").read_text(encoding="utf-8")
    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(fed=file),
        criteria=(('"0.1 N.m"', '"0.5 N.m"'),),
        feedforward=simulated_joint.feedforward_text(file),
        texts={"acceptance/friction_compensation.toml": text},
    )
    nothing_passed(verdict, "changed since the run was made")


def test_a_text_edited_in_the_sealed_archive_is_found(simulated_joint: Any, repository: Path, tmp_path: Path) -> None:
    path = simulated_joint.archive(
        tmp_path, repository / "profiles", "low_speed_tracking", simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text(),
    )  # fmt: skip
    with h5py.File(path, "r+") as file:
        texts = file["entry/texts"]
        name = next(n for n in texts if texts[n].attrs["file_name"] == "feedforward.toml")
        text = texts[name][()].decode().replace('coulomb = "1.2 N.m"', 'coulomb = "1.1 N.m"')
        texts[name][()] = text
    criteria = load_criteria(repository / "profiles/acceptance/friction_compensation.toml")
    with pytest.raises(ArchiveError, match="changed after sealing"):
        judge_run(path, criteria)
