"""The touch that steers a press: sustained, above the noise, wherever the blocks are cut."""

from __future__ import annotations

import numpy as np
import pytest

from bench.procedures.contact_watch import ContactWatch, Touch

RATE = 1000.0
NOISE = 0.005


def ramp(seed: int, contact_s: float = 1.5, stiffness: float = 0.5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    time_s = np.arange(3000) / RATE
    position = 2.0 * time_s
    force = stiffness * np.clip(position - 2.0 * contact_s, 0, None) + NOISE * rng.standard_normal(len(time_s)) + 0.3
    return time_s, position, force


def watch(seed: int) -> ContactWatch:
    baseline = 0.3 + NOISE * np.random.default_rng(seed + 1000).standard_normal(1000)
    return ContactWatch(baseline, RATE, floor_n=1e-4)


def feed(found: ContactWatch, channels: tuple[np.ndarray, ...], cut: int) -> Touch | None:
    for start in range(0, len(channels[0]), cut):
        found.feed(*(channel[start : start + cut] for channel in channels))
    return found.touch


@pytest.mark.parametrize("seed", range(5))
def test_the_touch_is_found_late_by_no_more_than_the_noise_costs(seed: int) -> None:
    touch = feed(watch(seed), ramp(seed), 100)
    assert touch is not None
    # Five sigma at 0.5 N/mm is 0.05 mm; a single sample of the noise may carry it a little before or after.
    assert 3.0 < touch.position_mm < 3.0 + 1.5 * 5 * NOISE / 0.5
    assert touch.position_mm == pytest.approx(2.0 * touch.time_s)


@pytest.mark.parametrize("cut", [1, 7, 99, 100, 1000, 3000])
def test_it_does_not_depend_on_where_the_blocks_are_cut(cut: int) -> None:
    assert feed(watch(3), ramp(3), cut) == feed(watch(3), ramp(3), 100)


def test_a_spike_shorter_than_needed_is_no_contact() -> None:
    time_s, position, force = ramp(1, contact_s=10.0)
    force[1000:1009] += 1.0
    assert feed(watch(1), (time_s, position, force), 100) is None
    force[2000:2010] += 1.0
    touch = feed(watch(1), (time_s, position, force), 100)
    assert touch is not None
    assert touch.time_s == 2.0


def test_a_sensor_without_noise_needs_more_than_its_last_digit() -> None:
    quiet = ContactWatch(np.full(1000, 0.3), RATE, floor_n=0.002)
    assert quiet.feed(np.arange(100) / RATE, np.zeros(100), np.full(100, 0.3005)) is None
    assert quiet.feed(np.arange(100) / RATE, np.zeros(100), np.full(100, 0.3025)) is not None
