"""The bristle fit of a minute at 1 kHz: what the scan pays against the loop one would write, in the same fit."""

from __future__ import annotations

import time

import numpy as np
import pytest

from bench.identify import lugre_path
from bench.identify.lugre import PreSliding, identify_lugre
from bench.models import lugre as model
from bench.models.friction import Friction

pytestmark = pytest.mark.performance

JOINT = Friction(1.2, 0.8, 0.6, 0.05)
MOST_LOOPS = 100
"""Plain loops over the record that the whole fit may cost: one takes some 12 ms, so this is well below 2 s."""


def plain_loop(decay: np.ndarray, gain: np.ndarray, start: float = 0.0) -> np.ndarray:
    """The recurrence over lists, the fastest form of plain Python."""
    state, found = start, []
    for e, b in zip(decay.tolist(), gain.tolist(), strict=True):
        state = e * state + b
        found.append(state)
    return np.array(found)


def a_minute() -> PreSliding:
    """Slow pushes with an encoder's steps and a transducer's noise, 60 000 samples."""
    at = np.arange(0.0, 60.0, 1e-3)
    angle = 5e-4 * np.sin(0.9 * at) + 5e-5 * np.sin(7.1 * at)
    velocity = 4.5e-4 * np.cos(0.9 * at) + 3.55e-4 * np.cos(7.1 * at)
    friction = model.lugre(at, velocity, JOINT, 5000.0, 10.0)
    count = 2.0 * np.pi / 16384 / 100
    noise = 0.005 * np.random.default_rng(1).standard_normal(len(at))
    return PreSliding(1000.0, friction, noise, np.round(angle / count) * count)


def seconds(action, repeats: int = 3) -> float:
    """Processor time of this process, the least of several: other work on the machine does not count."""
    best = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        action()
        best = min(best, time.process_time() - start)
    return best


@pytest.mark.parametrize("cutoff_hz", [25.0, None])
def test_a_minute_of_pushes_is_fitted_faster_than_with_a_loop(cutoff_hz, monkeypatch, record_property):
    """``None`` takes every sample: 60 000 of them in each step of the fit."""
    stretch = a_minute()

    def fit():
        return identify_lugre([stretch], JOINT, cutoff_hz=cutoff_hz)

    ours, found = seconds(fit), fit()
    monkeypatch.setattr(lugre_path, "scan", plain_loop)
    theirs, same = seconds(fit, 1), fit()
    ratio = theirs / ours
    record_property("seconds", round(ours, 3))
    record_property("times_faster_than_a_loop", round(ratio, 1))
    stiffness = found.parameters["bristle_stiffness"].value
    assert same.parameters["bristle_stiffness"].value == pytest.approx(stiffness, rel=1e-9)
    assert ratio > 1.0
    loop = seconds(lambda: plain_loop(np.full(60_000, 0.999), np.ones(60_000)))
    record_property("in_loops_over_the_record", round(ours / loop, 1))
    assert ours < MOST_LOOPS * loop
