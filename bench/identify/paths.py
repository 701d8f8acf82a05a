"""Tell whether two records follow the same trajectory: a repeat is no hold-out.

A record's path is kept as a sketch of bounded size, so that records of any length can be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

SKETCH_RATE_HZ = 50.0
MOST_SAMPLES = 16384
REPEAT_CORRELATION = 0.98
REPEAT_SCALE = 0.1
"""A path counts as repeated when it correlates so well and its size differs by no more than this share."""
SHORTEST_S = 1.0
STILL = 1e-3
LONGEST_PIECES = 8


@dataclass(frozen=True)
class Path:
    """Positions of a record's stretches at a low rate."""

    rate_hz: float
    pieces: tuple[Floats, ...]


@dataclass(frozen=True)
class PathMatch:
    """How alike two paths are at the time shift where they are most alike.

    ``correlation`` [1] of the positions, ``scale`` the ratio of their sizes, ``shift_s`` how much later the second
    record does what the first does.
    """

    correlation: float
    scale: float
    shift_s: float

    @property
    def repeat(self) -> bool:
        """Whether it is the same trajectory."""
        return self.correlation >= REPEAT_CORRELATION and abs(self.scale - 1.0) <= REPEAT_SCALE


class PathSketch:
    """Collect positions; every second one is given up whenever there are too many."""

    def __init__(self) -> None:
        self._rate = SKETCH_RATE_HZ
        self._pieces: list[list[Floats]] = []
        self._next_index = -1
        self._next_s = 0.0

    def add(self, position: Floats, rate_hz: float, first_index: int = 0) -> None:
        """Add a stretch (n,); one that goes on where the last ended, or overlaps it, prolongs its piece."""
        start_s, stop_s = first_index / rate_hz, (first_index + len(position)) / rate_hz
        slack = 1.0 / self._rate
        goes_on = bool(self._pieces) and first_index > 0 and start_s - slack <= self._next_s <= stop_s + slack
        if not goes_on:
            self._pieces.append([])
            self._next_s = start_s
        times = np.arange(self._next_s, stop_s - 0.5 / rate_hz, 1.0 / self._rate)
        if len(times):
            taken = np.rint((times - start_s) * rate_hz).astype(int)
            self._pieces[-1].append(position[np.clip(taken, 0, len(position) - 1)])
            self._next_s = float(times[-1]) + 1.0 / self._rate
        while sum(len(part) for piece in self._pieces for part in piece) > MOST_SAMPLES:
            whole = [np.concatenate(piece) for piece in self._pieces if piece]
            self._next_s += (len(whole[-1]) % 2) / self._rate
            self._pieces = [[piece[::2]] for piece in whole]
            self._rate /= 2.0

    def path(self) -> Path:
        """Return what was collected."""
        return Path(self._rate, tuple(np.concatenate(piece) for piece in self._pieces if piece))


def match_paths(first: Path, second: Path) -> PathMatch:
    """Compare two paths at every time shift that lets at least half of the shorter stretch overlap.

    Stretches are compared one by one, the longest ones of each record.
    """
    rate = min(first.rate_hz, second.rate_hz)
    best = PathMatch(0.0, 0.0, 0.0)
    for one in _longest(first, rate):
        for other in _longest(second, rate):
            found = _match(one, other, rate)
            if found.correlation > best.correlation:
                best = found
    return best


def match_joint_paths(first: Sequence[Path], second: Sequence[Path]) -> PathMatch:
    """Compare the paths of all joints of an arm at once: how alike the least alike joint is, at the best common shift.

    Joints that move in neither record do not count; one that moves in one of them only makes the paths unlike.
    """
    rate = min(path.rate_hz for path in (*first, *second))
    one, other = ([_longest(path, rate) for path in paths] for paths in (first, second))
    size = [
        max((float(np.ptp(piece)) for pieces in both for piece in pieces), default=0.0)
        for both in zip(one, other, strict=True)
    ]
    counted = [j for j, span in enumerate(size) if span > STILL]
    best = PathMatch(0.0, 0.0, 0.0)
    for a in range(min((len(one[j]) for j in counted), default=0)):
        for b in range(min(len(other[j]) for j in counted)):
            found = [_alike(one[j][a], other[j][b]) for j in counted]
            least = np.min([correlation for correlation, _ in found], axis=0)
            k = int(np.argmax(least))
            if least[k] > best.correlation:
                worst = int(np.argmin([correlation[k] for correlation, _ in found]))
                scales = [float(scale[k]) for _, scale in found]
                scale = max(scales, key=lambda s: abs(s - 1.0)) if least[k] > 0.0 else scales[worst]
                best = PathMatch(float(least[k]), scale, (k - len(one[counted[0]][a]) + 1) / rate)
    return best


def _longest(path: Path, rate_hz: float) -> list[Floats]:
    pieces = [
        np.interp(np.arange(0.0, len(piece) / path.rate_hz, 1.0 / rate_hz), np.arange(len(piece)) / path.rate_hz, piece)
        for piece in path.pieces
        if len(piece) >= SHORTEST_S * path.rate_hz
    ]
    return sorted(pieces, key=len, reverse=True)[:LONGEST_PIECES]


def _match(one: Floats, other: Floats, rate_hz: float) -> PathMatch:
    correlation, scale = _alike(one, other)
    k = int(np.argmax(correlation))
    if correlation[k] <= 0.0:
        return PathMatch(0.0, 0.0, 0.0)
    return PathMatch(float(correlation[k]), float(scale[k]), (k - len(one) + 1) / rate_hz)


def _alike(one: Floats, other: Floats) -> tuple[Floats, Floats]:
    """Pearson correlation over the overlap at each shift, all shifts at once by FFT, and the ratio of sizes there.

    The correlation is -1 where the overlap is too short or one of the two hardly moves in it.
    """
    a, b = one - one.mean(), other - other.mean()
    size = 1 << (len(a) + len(b) - 1).bit_length()
    ones = (np.fft.rfft(np.ones(len(a)), size), np.fft.rfft(np.ones(len(b)), size))
    fa, fb = np.fft.rfft(a, size), np.fft.rfft(b, size)

    def lagged(x: NDArray[np.complex128], y: NDArray[np.complex128]) -> Floats:
        # element k: sum over i of x[i] y[i + k], shifts from -(len(a) - 1) to len(b) - 1
        full = np.fft.irfft(np.conj(x) * y, size)
        return np.concatenate([full[size - len(a) + 1 :], full[: len(b)]])

    count = np.maximum(lagged(*ones), 1e-9)
    mean_a, mean_b = lagged(fa, ones[1]) / count, lagged(ones[0], fb) / count
    var_a = lagged(np.fft.rfft(a**2, size), ones[1]) / count - mean_a**2
    var_b = lagged(ones[0], np.fft.rfft(b**2, size)) / count - mean_b**2
    moved = (var_a > STILL * float(a.var())) & (var_b > STILL * float(b.var())) & (var_a > 0.0) & (var_b > 0.0)
    usable = moved & (count >= 0.5 * min(len(a), len(b)))
    covariance = lagged(fa, fb) / count - mean_a * mean_b
    correlation = np.where(usable, covariance / np.sqrt(np.maximum(var_a * var_b, 1e-300)), -1.0)
    scale = np.sqrt(np.maximum(var_b, 0.0) / np.maximum(var_a, 1e-300))
    return correlation, scale
