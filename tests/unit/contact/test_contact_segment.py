"""Cutting records into presses, averaging them, and what makes a press unfit for any number."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.press import Press, check_press, decimate
from bench.identify.segment import find_presses, presses_from_phases, presses_from_run


@dataclass
class Phase:
    name: str
    replicate: int
    speed_mm_s: float
    start_s: float
    end_s: float


@dataclass
class Channel:
    values: np.ndarray
    time_s: np.ndarray


@dataclass
class Record:
    """The part of a run that the segmentation asks for."""

    channels: dict
    phases: tuple = ()
    name: str = "run 7"

    def get(self, name, *, unit, kind):
        assert (name, unit, kind) in {("contact_force", "N", "force"), ("encoder_position", "mm", "length")}
        return self.channels[name]


def three_presses(press, noise_N=2e-3, rate_hz=200.0):
    parts = [
        press(seed, hold_s=2.0, unload=True, residual_s=2.0, noise_N=noise_N, rate_hz=rate_hz, depth_mm=4.0 + seed)
        for seed in range(3)
    ]
    time_s = np.arange(sum(len(p.time_s) for p in parts)) / rate_hz
    return time_s, np.concatenate([p.position_mm for p in parts]), np.concatenate([p.force_N for p in parts]), parts


def test_a_record_without_phases_is_cut_where_the_stage_moves_and_stands(press):
    time_s, position, force, parts = three_presses(press)
    found = find_presses(time_s, position, force)
    assert [round(float(p.position_mm.max()), 1) for p in found] == [14.0, 15.0, 16.0]
    for mine, true in zip(found, parts, strict=True):
        assert mine.speed_mm_s == pytest.approx(2.0, rel=0.02)
        for name in ("rise", "hold", "unload"):
            expected = true.time_s[true.segment(name)][[0, -1]]
            got = mine.time_s[mine.segment(name)][[0, -1]]
            assert np.ptp(got) == pytest.approx(np.ptp(expected), abs=0.15), name
        assert np.ptp(mine.time_s[mine.baseline]) > 0.8
        assert mine.peak in range(mine.rise.start, mine.hold.stop)


def test_a_motion_that_touches_nothing_is_no_press(press):
    one = press(hold_s=1.0, noise_N=1e-3)
    approach = np.linspace(-20.0, one.position_mm[0], 300)
    time_s = np.arange(300 + len(one.time_s)) / 100.0
    position = np.concatenate([approach, one.position_mm])
    force = np.concatenate([np.zeros(300), one.force_N])
    (found,) = find_presses(time_s, position, force)
    assert found.position_mm[found.baseline].min() > one.position_mm[0] - 0.2


def test_a_record_of_free_air_is_refused_with_a_remedy():
    time_s = np.arange(500) / 100.0
    with pytest.raises(Refused, match="no press") as refusal:
        find_presses(time_s, np.minimum(time_s, 2.0), np.zeros(500))
    assert refusal.value.reason == "no_press"
    assert "sign" in str(refusal.value)


def test_pulling_instead_of_pressing_is_no_press(press):
    one = press(hold_s=1.0)
    with pytest.raises(Refused) as refusal:
        find_presses(one.time_s, one.position_mm, -one.force_N)
    assert refusal.value.reason == "no_press"


def test_phases_rule_where_there_are_any_and_the_approach_joins_the_rise(press):
    time_s, position, force, parts = three_presses(press)
    phases, start = [Phase("approach", 0, 10.0, 0.0, 0.1)], 0.0
    for number, part in zip((1, 2, 1), parts, strict=True):  # numbers start again: they are labels
        ends = start + np.array([1.0, 2.25, 1.0 + (2.5 + part.position_mm.max() - 10.0) / 2.0])
        hold = ends[2] + 2.0
        phases += [
            Phase("baseline", number, 0.0, start, ends[0]),
            Phase("approach", number, 2.0, ends[0], ends[1]),
            Phase("press", number, 2.0, ends[1], ends[2]),
            Phase("hold", number, 0.0, ends[2], hold),
            Phase("unload", number, 2.0, hold, hold + 2.0),
        ]
        start += len(part.time_s) / 200.0
    found = presses_from_phases(time_s, position, force, tuple(phases))
    assert [p.replicate for p in found] == [1, 2, 1]
    for mine in found:
        assert np.ptp(mine.time_s[mine.baseline]) == pytest.approx(1.0, abs=0.02)
        assert mine.position_mm[mine.rise][0] == pytest.approx(7.5, abs=0.05)
        assert mine.hold.stop > mine.hold.start
        assert mine.residual.stop == mine.residual.start


def test_phases_without_a_rise_are_refused(press):
    one = press()
    with pytest.raises(Refused, match="no phase is called") as refusal:
        presses_from_phases(one.time_s, one.position_mm, one.force_N, (Phase("homing", 0, 1.0, 0.0, 1.0),))
    assert refusal.value.reason == "no_press"


def test_a_run_with_two_time_bases_is_brought_to_that_of_the_force(press):
    one = press(hold_s=2.0, noise_N=1e-3, rate_hz=200.0)
    slow = slice(None, None, 4)
    run = Record(
        {
            "contact_force": Channel(one.force_N, one.time_s),
            "encoder_position": Channel(one.position_mm[slow], one.time_s[slow]),
        }
    )
    (found,) = presses_from_run(run)
    assert len(found.position_mm) == len(found.force_N)
    middle = (found.time_s > 2.0) & (found.time_s < 4.0)
    expected = np.interp(found.time_s[middle], one.time_s, one.position_mm)
    np.testing.assert_allclose(found.position_mm[middle], expected, atol=1e-3)


def test_averaging_keeps_the_path_and_lowers_the_noise(press):
    fast = press(hold_s=2.0, noise_N=0.01, rate_hz=1000.0)
    slow = decimate(fast, 100.0)
    assert len(slow.time_s) == len(fast.time_s) // 10
    assert np.median(np.diff(slow.time_s)) == pytest.approx(0.01)
    quiet = slow.force_N[slow.baseline]
    assert quiet.std() == pytest.approx(0.01 / np.sqrt(10), rel=0.35)
    assert slow.time_s[slow.rise][0] == pytest.approx(fast.time_s[fast.rise][0], abs=0.011)
    assert decimate(slow, 100.0) is slow


@pytest.mark.parametrize(
    ("spoil", "reason", "says"),
    [
        (lambda p: replace(p, force_N=np.where(p.time_s > 3.0, np.nan, p.force_N)), "non_finite", "force samples"),
        (lambda p: replace(p, position_mm=np.where(p.time_s > 3.0, 1.8e308, p.position_mm)), "non_finite", "position"),
        (lambda p: replace(p, time_s=p.time_s[::-1].copy()), "time_not_increasing", "does not increase"),
        (lambda p: replace(p, rise=slice(p.rise.start, p.rise.start + 5)), "too_few_samples", "5 samples"),
        (lambda p: replace(p, force_N=np.minimum(p.force_N, 2.5)), "saturated", "exactly 2.5 N"),
    ],
)
def test_a_spoilt_press_is_refused_with_its_reason(press, spoil, reason, says):
    with pytest.raises(Refused, match=says) as refusal:
        check_press(spoil(press(noise_N=1e-3)))
    assert refusal.value.reason == reason
    assert refusal.value.where


def test_a_force_at_the_sensors_range_is_refused(press):
    one = press(noise_N=1e-3)
    check_press(one, capacity_N=50.0)
    with pytest.raises(Refused, match="capacity of 5 N") as refusal:
        check_press(one, capacity_N=5.0)
    assert refusal.value.reason == "saturated"


def test_an_unknown_segment_is_named():
    empty = np.zeros(2)
    with pytest.raises(ValueError, match="no segment 'ramp'"):
        Press(empty, empty, empty, slice(0, 1), slice(1, 2)).segment("ramp")
