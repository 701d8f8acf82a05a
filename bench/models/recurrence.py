"""First-order recurrences whose coefficients change from sample to sample, without a Python step per sample."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def scan(decay: Floats, gain: Floats, start: float = 0.0) -> Floats:
    """Run ``x[i] = decay[i] * x[i-1] + gain[i]`` from ``x[-1] = start``; return x (n,).

    Parameters
    ----------
    decay, gain : (n,) float64
        Magnitudes of ``decay`` must not exceed one.

    Notes
    -----
    The record is cut into about sqrt(n) chunks that run side by side from zero, then each is given what the one before
    hands over, times its running product (G. E. Blelloch, *Prefix sums and their applications*, CMU-CS-90-190). Some
    4 sqrt(n) array operations instead of n steps; rounding is that of the plain loop.
    """
    count = len(decay)
    if count == 0:
        return np.empty(0)
    width = max(1, math.isqrt(count))
    chunks = -(-count // width)
    # one row per step inside a chunk, so that every operation runs over contiguous memory
    e, b = _by_step(decay, chunks, width, 1.0), _by_step(gain, chunks, width, 0.0)
    for i in range(1, width):
        b[i] += e[i] * b[i - 1]
        e[i] *= e[i - 1]
    carried = np.empty(chunks)
    state = start
    for i, (last, product) in enumerate(zip(b[-1].tolist(), e[-1].tolist(), strict=True)):
        carried[i] = state
        state = product * state + last
    b += e * carried
    return np.ascontiguousarray(b.T).reshape(-1)[:count]


def _by_step(values: Floats, chunks: int, width: int, filler: float) -> Floats:
    padded = np.full(chunks * width, filler)
    padded[: len(values)] = values
    return np.ascontiguousarray(padded.reshape(chunks, width).T)
