"""Wanted motions keep their limits at every instant, and are what they are called."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from bench.procedures.joint_excitation import design
from bench.procedures.joint_motion import FourierSeries, Motion, Strokes, TorqueWave, rest_to_rest


def sampled(motion: Motion, step: float = 1e-3) -> tuple[Any, Any]:
    time = np.arange(-0.01, motion.duration_s + 0.02, step)
    return time, np.array([motion.at(t) for t in time.tolist()])


def check_derivatives(motion: Motion) -> None:
    step = 5e-4
    _, path = sampled(motion, step)
    for order in (0, 1):
        slope = (path[2:, order] - path[:-2, order]) / (2 * step)
        scale = np.abs(path[:, order + 1]).max()
        np.testing.assert_allclose(slope, path[1:-1, order + 1], atol=0.01 * scale)


@pytest.mark.parametrize(
    ("start", "goal", "speed", "acceleration"), [(0.0, 1.0, 0.5, 2.0), (0.3, -0.9, 3.0, 4.0), (0.1, 0.101, 0.5, 2.0)]
)
def test_a_move_arrives_at_rest_within_its_limits(start: float, goal: float, speed: float, acceleration: float) -> None:
    motion = rest_to_rest(start, goal, speed=speed, acceleration=acceleration)
    _, path = sampled(motion)
    assert motion.at(0.0)[:2] == (start, 0.0)
    assert motion.at(motion.duration_s) == pytest.approx((goal, 0.0, 0.0), abs=1e-12)
    assert np.abs(path[:, 1]).max() <= speed * (1 + 1e-12)
    assert np.abs(path[:, 2]).max() <= acceleration * (1 + 1e-12)
    assert path[:, 0].min() >= min(start, goal) - 1e-12
    assert path[:, 0].max() <= max(start, goal) + 1e-12
    check_derivatives(motion)


def test_no_way_takes_no_time() -> None:
    assert rest_to_rest(0.4, 0.4, speed=1.0, acceleration=1.0).duration_s == 0.0


def test_a_stroke_holds_each_of_its_speeds() -> None:
    motion = Strokes(-0.1, [(0.05, 0.4), (0.005, 2.0), (-0.3, 0.5)], acceleration=2.0)
    time, path = sampled(motion)
    for (begin, end), speed, hold in zip(motion.holds, (0.05, 0.005, -0.3), (0.4, 2.0, 0.5), strict=True):
        assert end - begin == pytest.approx(hold)
        inside = (time >= begin) & (time <= end)
        np.testing.assert_allclose(path[inside, 1], speed)
    assert np.abs(path[:, 2]).max() <= 2.0 * (1 + 1e-12)
    assert motion.at(motion.duration_s + 1.0) == (motion.end_rad, 0.0, 0.0)
    check_derivatives(motion)


def test_a_torque_wave_goes_at_its_rate_and_dwells() -> None:
    wave = TorqueWave([12.0, -12.0, 0.0], rate=4.0, dwell_s=0.2)
    assert wave.duration_s == pytest.approx((12 + 24 + 12) / 4.0 + 2 * 0.2)
    torque = np.array([wave.at(t) for t in np.arange(0.0, wave.duration_s + 0.1, 0.01).tolist()])
    assert (torque.max(), torque.min(), torque[0], torque[-1]) == (12.0, -12.0, 0.0, 0.0)
    assert np.abs(np.diff(torque)).max() <= 0.04 + 1e-12
    assert np.count_nonzero(torque == 12.0) == pytest.approx(21, abs=1)


def made(seed: int = 3, **changes: Any) -> FourierSeries:
    wanted: dict[str, Any] = {
        "centre_rad": 0.2, "base_hz": 0.13, "harmonics": 4, "periods": 2,
        "amplitude_rad": 1.1, "max_speed": 2.0, "max_acceleration": 4.0,
    }  # fmt: skip
    return design(seed=seed, **{**wanted, **changes})


@pytest.mark.parametrize(
    "changes", [{}, {"max_speed": 0.4}, {"max_acceleration": 0.7}, {"harmonics": 9, "amplitude_rad": 0.3}]
)
def test_an_excitation_keeps_its_limits_between_the_grid_points_too(changes: dict[str, Any]) -> None:
    series = made(**changes)
    limits = (changes.get("amplitude_rad", 1.1), changes.get("max_speed", 2.0), changes.get("max_acceleration", 4.0))
    # Evaluated far finer than it was designed, and off its grid.
    time = np.arange(0.0, series.duration_s, 7.3e-4)
    path = np.abs(np.array([series.at(t) for t in time.tolist()]) - [0.2, 0.0, 0.0])
    used = path.max(axis=0) / limits
    assert (used <= 1.0).all()
    assert used.max() > 0.99, "one of the limits is used"


def test_the_bound_holds_where_a_coarse_grid_misses_the_peak() -> None:
    series = FourierSeries(0.0, 0.1, (0.0, 0.0, 0.0), (0.2, -0.5, 0.4), 2, 3.0)
    time = np.arange(0.0, series.duration_s, 1e-3)
    largest = np.abs(np.array([series.at(t) for t in time.tolist()])).max(axis=0)
    for steps in (10, 100, 1000):
        assert (np.array(series.extremes(steps)) >= largest - 1e-9).all()
    np.testing.assert_allclose(series.extremes(2000), largest, rtol=1e-3)


def test_an_excitation_begins_and_ends_at_rest_and_repeats_its_period() -> None:
    series = made()
    check_derivatives(series)
    assert series.at(0.0) == series.at(series.duration_s) == (0.2, 0.0, 0.0)
    begin, end = series.hold
    assert end - begin == pytest.approx(2 / 0.13)
    for t in (0.1, 2.0, 5.5):
        assert series.at(begin + t) == pytest.approx(series.at(begin + t + 1 / 0.13), abs=1e-9)


def test_another_seed_is_another_trajectory_and_the_same_one_is_the_same() -> None:
    assert made(3) == made(3)
    time = np.arange(3.0, 10.0, 0.01).tolist()
    one, other = (np.array([series.at(t)[0] for t in time]) for series in (made(3), made(4)))
    one, other = one - one.mean(), other - other.mean()
    assert abs((one * other).mean()) < 0.9 * one.std() * other.std()


def test_the_chosen_series_is_better_conditioned_than_most() -> None:
    from bench.procedures.joint_excitation import _condition, _one_period

    chosen = made()
    rng = np.random.default_rng(99)
    others = []
    for _ in range(20):
        size, phase = rng.uniform(0.2, 1.0, 4), rng.uniform(-math.pi, math.pi, 4)
        drawn = FourierSeries(0.2, 0.13, tuple(size * np.cos(phase)), tuple(size * np.sin(phase)), 2, 1.0)
        scaled = drawn.scaled(min(np.array([1.1, 2.0, 4.0]) / drawn.extremes()))
        others.append(_condition(_one_period(scaled), 0.2))
    assert _condition(_one_period(chosen), 0.2) < np.quantile(others, 0.25)
