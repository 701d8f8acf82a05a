"""Presses of a known specimen, simulated by direct quadrature: no line of it is shared with what is tested."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.identify.press import Press

Floats = NDArray[np.float64]
FINE_STEP_S = 1e-3


def hereditary(time_s: Floats, elastic_N: Floats, tau_s: float) -> Floats:
    """Integral of exp(-(t - s) / tau) dF_e(s) by the midpoint rule with one global exponential."""
    middle = 0.5 * (time_s[1:] + time_s[:-1])
    weighted = np.cumsum(np.exp(middle / tau_s) * np.diff(elastic_N))
    return np.concatenate([[0.0], np.exp(-time_s[1:] / tau_s) * weighted])


def simulate(
    seed: int = 0,
    *,
    F_ref: float = 3.0,
    d_ref: float = 5.0,
    n: float = 1.5,
    g: Sequence[float] = (),
    tau_s: Sequence[float] = (),
    surface_mm: float = 10.0,
    depth_mm: float = 8.0,
    speed_mm_s: float = 2.0,
    free_air_mm: float = 2.5,
    baseline_s: float = 1.0,
    hold_s: float = 0.0,
    unload: bool = False,
    residual_s: float = 0.0,
    noise_N: float = 0.0,
    offset_N: float = 0.0,
    drift_N_s: float = 0.0,
    gain: float = 1.0,
    frame_N_mm: float = np.inf,
    rate_hz: float = 100.0,
) -> Press:
    """One press: baseline, ramp through free air to the depth, hold, unload to the start, residual."""
    way = free_air_mm + depth_mm
    legs = [baseline_s, way / speed_mm_s, hold_s, way / speed_mm_s if unload else 0.0, residual_s]
    ends = np.cumsum(legs)
    time_s = np.arange(round(ends[-1] / FINE_STEP_S)) * FINE_STEP_S
    knots = [0.0, *ends.tolist()]
    travel = np.interp(time_s, knots, [0.0, 0.0, way, way, 0.0 if unload else way, 0.0 if unload else way])
    tip = surface_mm - free_air_mm + travel
    elastic = F_ref * (np.maximum(tip - surface_mm, 0.0) / d_ref) ** n
    force = (1.0 - sum(g)) * elastic
    for share, tau in zip(g, tau_s, strict=True):
        force = force + share * hereditary(time_s, elastic, tau)
    force = np.where(tip > surface_mm, np.maximum(force, 0.0), 0.0)
    position = tip + force / frame_N_mm
    block = round(1.0 / (rate_hz * FINE_STEP_S))
    count = len(time_s) // block
    time_s, position, force = (a[: count * block].reshape(count, block).mean(axis=1) for a in (time_s, position, force))
    noise = noise_N * np.random.default_rng(seed).standard_normal(count)
    cut = [0, *np.searchsorted(time_s, ends).tolist()]
    parts = [slice(a, b) for a, b in itertools.pairwise(cut)]
    return Press(
        time_s, position, gain * force + offset_N + drift_N_s * time_s + noise, *parts,
        speed_mm_s=speed_mm_s, replicate=seed, name=f"press {seed}",
    )  # fmt: skip


@pytest.fixture(scope="session")
def press() -> Callable[..., Press]:
    """Simulate one press; see :func:`simulate` for what can be set."""
    return simulate


@pytest.fixture(scope="session")
def quadrature() -> Callable[[Floats, Floats, float], Floats]:
    """The hereditary integral by direct quadrature."""
    return hereditary
