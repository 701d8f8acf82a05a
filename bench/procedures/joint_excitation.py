"""Choose a Fourier series to identify a joint on: inside its limits at every instant, well conditioned, repeatable."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.procedures.joint_motion import FourierSeries

Floats = NDArray[np.float64]

#: Series drawn; the best conditioned is taken.
DRAWS = 40
#: The window rises over this share of a period.
RAMP_SHARE = 0.3
#: Speed over which the sign is blended in the regressor [rad/s], and samples a period it is evaluated on.
BLEND_RAD_S = 0.05
SAMPLES = 400


def design(
    *,
    seed: int,
    centre_rad: float,
    base_hz: float,
    harmonics: int,
    periods: int,
    amplitude_rad: float,
    max_speed: float,
    max_acceleration: float,
) -> FourierSeries:
    """Return the best conditioned of :data:`DRAWS` random series, scaled so that it just keeps its limits.

    Parameters
    ----------
    seed : int
        The same seed gives the same series.
    amplitude_rad, max_speed, max_acceleration : float
        Limits of ``|angle - centre|`` [rad], ``|velocity|`` [rad/s] and ``|acceleration|`` [rad/s2]; kept at every
        instant (:meth:`~bench.procedures.joint_motion.FourierSeries.extremes`).

    Notes
    -----
    Criterion: condition number of the regressor (acceleration, sine and cosine of the angle, sign of the speed, speed,
    one) with columns scaled to equal length. J. Swevers et al., IEEE Trans. Robot. Autom. 13 (1997) 730.
    """
    rng = np.random.default_rng(seed)
    limits = (amplitude_rad, max_speed, max_acceleration)
    drawn: list[tuple[float, FourierSeries]] = []
    for _ in range(DRAWS):
        size = rng.uniform(0.2, 1.0, harmonics) / np.sqrt(np.arange(1, harmonics + 1))
        phase = rng.uniform(-math.pi, math.pi, harmonics)
        series = FourierSeries(
            centre_rad,
            base_hz,
            tuple((size * np.cos(phase)).tolist()),
            tuple((size * np.sin(phase)).tolist()),
            periods,
            RAMP_SHARE / base_hz,
        )
        path = _one_period(series)
        rough = min(limit / float(np.abs(path[:, i]).max()) for i, limit in enumerate(limits))
        drawn.append((_condition(path * rough, centre_rad), series))
    best = min(drawn, key=lambda pair: pair[0])[1]
    return best.scaled(min(limit / bound for limit, bound in zip(limits, best.extremes(), strict=True)))


def _one_period(series: FourierSeries) -> Floats:
    """Angle from the centre, velocity and acceleration over one period (SAMPLES, 3)."""
    turn = 2.0 * math.pi * series.base_hz
    k = np.arange(1, len(series.cosine) + 1)
    angle = np.outer(np.arange(SAMPLES) * (2.0 * math.pi / SAMPLES), k)
    a, b, w = np.array(series.cosine), np.array(series.sine), turn * k
    c, d = np.cos(angle), np.sin(angle)
    return np.column_stack([c @ a + d @ b, c @ (w * b) - d @ (w * a), -(c @ (w * w * a) + d @ (w * w * b))])


def _condition(path: Floats, centre_rad: float) -> float:
    q, v, a = centre_rad + path[:, 0], path[:, 1], path[:, 2]
    columns = np.column_stack([a, np.sin(q), np.cos(q), np.tanh(v / BLEND_RAD_S), v, np.ones_like(v)])
    columns /= np.sqrt(np.einsum("ij,ij->j", columns, columns))
    # Of the normal equations: six columns and condition numbers of ten, so nothing is lost, and no threads are woken.
    squares = np.linalg.eigvalsh(np.einsum("ij,ik->jk", columns, columns))
    return math.sqrt(float(squares[-1]) / max(float(squares[0]), 1e-300))
