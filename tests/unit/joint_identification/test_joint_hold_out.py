"""A fit is judged on another trajectory, in a stated band, next to baselines; a repeat is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.filtering import LowPass
from bench.identify.holdout import hold_out
from bench.identify.joint_dynamics import identify
from bench.identify.joint_laws import Stretch, motor_side
from bench.identify.paths import PathSketch, match_paths

BAND = LowPass(6.0)
TIME = np.arange(25000) / 1000.0


def stretch(joint: Any, seed: int = 0, shift_s: float = 0.0, noise: float = 0.02) -> Stretch:
    time = TIME + shift_s
    torque = joint.torque(time) + np.random.default_rng(seed).normal(0.0, noise, len(time))
    return Stretch(1000.0, joint.motion(time)[0], torque, {"command": joint.command(time)})


@pytest.fixture
def fit(joint: Any) -> Any:
    return identify(motor_side(), [stretch(joint)], BAND, stiction_speed=0.05)


def test_another_trajectory_is_predicted_and_the_report_says_by_what_measure(fit: Any, other_path: Any) -> None:
    held = stretch(other_path, seed=1)
    report = hold_out(fit, [held], LowPass(10.0), rated=10.0)
    assert report.distinct
    measured, predicted, moving = fit.compare(held, LowPass(10.0))
    due = 100.0 * np.linalg.norm(measured - predicted) / np.linalg.norm(measured)
    assert report.all.relative == pytest.approx(due, rel=1e-9)
    due = 100.0 * np.linalg.norm((measured - predicted)[moving]) / np.linalg.norm(measured[moving])
    assert report.moving.relative == pytest.approx(due, rel=1e-9)
    assert report.all.relative_of_mean == pytest.approx(100.0 * measured.std() / np.sqrt(np.mean(measured**2)))
    assert report.zero_of_rated == pytest.approx(10.0 * np.sqrt(np.mean(measured**2)))
    assert report.excluded_share == pytest.approx(1.0 - moving.mean())
    assert report.moving.relative < 1.0 < report.all.relative_of_mean
    text = "\n".join(report.lines())
    for due_text in ("another trajectory", "10 Hz", "excluded", "zero", "mean", "rated", "condition number"):
        assert due_text in text


def test_what_is_judged_on_the_motor_side_is_the_motors_torque(fit: Any, joint: Any, other_path: Any) -> None:
    held = stretch(other_path, noise=0.0)
    measured, predicted, moving = fit.compare(held)
    command = BAND.apply(held.inputs["command"], 1000.0, dropped=fit.band.dropped)
    assert np.abs(measured - command).max() < 1e-12
    assert np.abs(measured - predicted)[moving].max() < 0.02


def test_a_wrong_parameter_shows(fit: Any, joint: Any, other_path: Any) -> None:
    good = hold_out(fit, [stretch(other_path)], BAND, rated=10.0)
    sticky = replace(other_path, coulomb=2.0 * joint.coulomb)
    bad = hold_out(fit, [stretch(sticky)], BAND, rated=10.0)
    assert bad.moving.relative > 10.0 * good.moving.relative


@pytest.mark.parametrize("shift_s", [0.0, 3.3])
def test_a_repeat_is_found_at_any_shift_and_refused(fit: Any, joint: Any, shift_s: float) -> None:
    again = stretch(joint, seed=9, shift_s=shift_s)
    with pytest.raises(Refused, match="repeats the trajectory") as refusal:
        hold_out(fit, [again], BAND, rated=10.0)
    assert refusal.value.reason == "repeat"
    report = hold_out(fit, [again], BAND, rated=10.0, allow_repeat=True)
    assert not report.distinct
    assert "THE SAME TRAJECTORY" in report.lines()[0]
    assert report.record()["distinct_trajectory"] is False


def test_the_shift_of_a_repeat_is_told(joint: Any) -> None:
    short = replace(joint, amplitudes=(0.6, 0.25, 0.12, 0.06), base_hz=0.02)
    first, second = PathSketch(), PathSketch()
    first.add(short.motion(TIME)[0], 1000.0)
    second.add(short.motion(TIME + 4.0)[0], 1000.0)
    match = match_paths(first.path(), second.path())
    assert match.repeat
    assert match.shift_s == pytest.approx(-4.0, abs=0.05)


def test_the_same_form_at_another_size_is_another_trajectory(joint: Any) -> None:
    first, second = PathSketch(), PathSketch()
    first.add(joint.motion(TIME)[0], 1000.0)
    second.add(0.5 * joint.motion(TIME)[0], 1000.0)
    match = match_paths(first.path(), second.path())
    assert match.correlation > 0.999
    assert not match.repeat


def test_a_sketch_stays_small_and_still_tells_a_repeat(joint: Any, other_path: Any) -> None:
    sketches = []
    for path, shift in ((joint, 0), (joint, 7), (other_path, 0)):
        sketch = PathSketch()
        for start in range(0, 900, 10):
            index = np.arange(start * 200, (start + 10) * 200)
            sketch.add(path.motion(index / 200.0 + shift)[0], 200.0, int(index[0]))
        sketches.append(sketch.path())
        assert sum(map(len, sketches[-1].pieces)) <= 16384
        assert len(sketches[-1].pieces) == 1
    assert match_paths(sketches[0], sketches[1]).repeat
    assert not match_paths(sketches[0], sketches[2]).repeat


def test_a_hold_out_without_motion_or_rating_is_refused(fit: Any, joint: Any) -> None:
    still = replace(joint, amplitudes=(1e-4,), phases=(0.0,))
    with pytest.raises(Refused, match="no row of the hold-out moves"):
        hold_out(fit, [stretch(still)], BAND, rated=10.0)
    with pytest.raises(Refused, match="no stretch"):
        hold_out(fit, [], BAND, rated=10.0)
    with pytest.raises(Refused, match="rated torque"):
        hold_out(fit, [stretch(joint)], BAND, rated=0.0)


@pytest.mark.reference
def test_two_logs_of_one_kuka_trajectory_are_told_as_repeats_and_the_third_is_not(reference_data: Path) -> None:
    """github.com/kjyv/FloBaRoID hardware logs: 1 and 2 are one trajectory, 3 is another, faster one."""
    files = [reference_data / "kuka_lwr4" / f"measurements_{k}.npz" for k in (1, 2, 3)]
    if not all(file.is_file() for file in files):
        pytest.skip("no KUKA logs in the reference data")
    for axis in range(7):
        paths = []
        for file in files:
            with np.load(file) as log:
                sketch = PathSketch()
                sketch.add(log["positions"][:, axis], 200.0)
                paths.append(sketch.path())
        assert match_paths(paths[0], paths[1]).repeat
        assert not match_paths(paths[0], paths[2]).repeat
