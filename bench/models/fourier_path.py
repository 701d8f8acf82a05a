"""Finite Fourier series of a whole arm: every joint repeats one period, and the path starts and ends at rest.

``q_j(t) = offset_j + sum_k a_jk cos(2 pi h_k f t) + b_jk sin(2 pi h_k f t)``

with the base frequency ``f`` and the harmonics ``h_k``; speed and acceleration vanish at every multiple of the period
when ``sum_k h_k b_jk = 0`` and ``sum_k h_k^2 a_jk = 0``, so that no lead-in is needed and the lines stay pure.
J. Swevers et al., IEEE Trans. Robot. Autom. 13 (1997) 730.

::

    path = FourierPath(0.1, (1, 2, 3), offset, cosine, sine, periods=3)
    q, v, a = path.at(1.25)                       # each (n,)
    q, v, a = path.sample(path.times(250.0))      # each (k, n)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError

Floats = NDArray[np.float64]

#: Speed and acceleration at the start count as none below this share of what the coefficients could make.
AT_REST = 1e-9


@dataclass(frozen=True, eq=False)
class FourierPath:
    """A Fourier series of ``n`` joints with ``m`` harmonics.

    Parameters
    ----------
    base_hz : float
        Base frequency ``f`` [Hz].
    harmonics : tuple of int
        Multiples ``h_k`` of the base frequency, increasing, from 1.
    offset : (n,) float64
        Offsets of the joints [rad].
    cosine, sine : (n, m) float64
        Coefficients ``a``, ``b`` [rad].
    periods : int
        How often the period is gone through.
    """

    base_hz: float
    harmonics: tuple[int, ...]
    offset: Floats
    cosine: Floats
    sine: Floats
    periods: int = 1
    _turns: Floats = field(init=False, repr=False)
    _rows: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        n, m = len(self.offset), len(self.harmonics)
        for name, values, shape in (
            ("offset", self.offset, (n,)),
            ("cosine", self.cosine, (n, m)),
            ("sine", self.sine, (n, m)),
        ):
            if values.shape != shape:
                raise _bad(
                    f"{name} has the shape {values.shape}, for {n} joints and {m} harmonics it is {shape}", "shape"
                )
            if not np.all(np.isfinite(values)):
                raise _bad(f"{name} has a coefficient that is not finite", "not_finite")
        if not (math.isfinite(self.base_hz) and self.base_hz > 0.0) or self.periods < 1:
            raise _bad(f"{self.periods} periods of base frequency {self.base_hz} Hz", "not_finite")
        if m == 0 or any(h < 1 for h in self.harmonics) or list(self.harmonics) != sorted(set(self.harmonics)):
            raise _bad(f"the harmonics {self.harmonics} do not increase from 1 on", "harmonics")
        turns = 2.0 * math.pi * self.base_hz * np.array(self.harmonics, dtype=np.float64)
        rows = np.vstack(
            [
                np.hstack([self.cosine, self.sine]),
                np.hstack([self.sine * turns, -self.cosine * turns]),
                np.hstack([-self.cosine * turns**2, -self.sine * turns**2]),
            ]
        )
        object.__setattr__(self, "_turns", turns)
        object.__setattr__(self, "_rows", rows)

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.offset)

    @property
    def period_s(self) -> float:
        """Length of a period [s]."""
        return 1.0 / self.base_hz

    @property
    def duration_s(self) -> float:
        """Length of the whole path [s]."""
        return self.periods / self.base_hz

    @property
    def lines_hz(self) -> tuple[float, ...]:
        """Frequencies in it [Hz]."""
        return tuple(self.base_hz * h for h in self.harmonics)

    @property
    def start(self) -> Floats:
        """Where it starts, and ends: joint positions (n,) [rad]."""
        return np.asarray(self.sample(np.zeros(1))[0][0])

    def times(self, rate_hz: float) -> Floats:
        """Return the instants [s] of a clock of ``rate_hz`` from the start to the end, both included."""
        return np.minimum(np.arange(math.floor(self.duration_s * rate_hz) + 2) / rate_hz, self.duration_s)

    def at(self, t: float) -> tuple[Floats, Floats, Floats]:
        """Return position, speed and acceleration (n,) at ``t`` [s]; before the start and after the end it stands."""
        n = len(self.offset)
        if t <= 0.0 or t >= self.duration_s:
            return self.start, np.zeros(n), np.zeros(n)
        angle = self._turns * t
        found = self._rows @ np.concatenate([np.cos(angle), np.sin(angle)])
        return self.offset + found[:n], found[n : 2 * n], found[2 * n :]

    def sample(self, time_s: ArrayLike) -> tuple[Floats, Floats, Floats]:
        """Return positions, speeds and accelerations (k, n) of the periodic series at ``time_s`` (k,).

        The same numbers for the same coefficients, bit for bit, on one machine.
        """
        angle = np.multiply.outer(np.asarray(time_s, dtype=np.float64), self._turns)
        # einsum adds in one fixed order; a BLAS may change it with the number of threads and of rows
        found = np.einsum("kc,rc->kr", np.hstack([np.cos(angle), np.sin(angle)]), self._rows)
        n = len(self.offset)
        return self.offset + found[:, :n], found[:, n : 2 * n].copy(), found[:, 2 * n :].copy()

    def bound(self, order: int) -> Floats:
        """Return (n,) what the ``order``-th derivative never exceeds, at no instant: the sum of its amplitudes.

        Order 0 is the distance from the offset [rad]; order m in rad/s^m.
        """
        return np.asarray(np.hypot(self.cosine, self.sine) @ self._turns**order)

    def check_rest(self) -> None:
        """Refuse a series that does not start at rest.

        Raises
        ------
        ModelError
            ``not_at_rest``: speed or acceleration at the start is not zero; it names the joint.
        """
        for what, order, values in (
            ("speed", 1, self.sine @ self._turns),
            ("acceleration", 2, self.cosine @ self._turns**2),
        ):
            moving = np.abs(values) > AT_REST * np.maximum(self.bound(order), 1e-300)
            if np.any(moving):
                joint = int(np.argmax(moving))
                raise _bad(
                    f"joint {joint + 1} starts with the {what} {values[joint]:.3g} rad/s{'' if order == 1 else '2'} "
                    "where it has to stand",
                    "not_at_rest",
                )

    def scaled(self, factor: float | Floats) -> FourierPath:
        """Return the same series with the amplitudes of every joint times ``factor`` (a number, or (n,))."""
        share = np.broadcast_to(np.asarray(factor, dtype=np.float64), (self.size,))[:, None]
        return replace(self, cosine=self.cosine * share, sine=self.sine * share)


def at_rest(harmonics: tuple[int, ...], cosine: Floats, sine: Floats) -> tuple[Floats, Floats]:
    """Return the coefficients (..., m) nearest to the given ones whose series starts at rest (a projection)."""
    h = np.array(harmonics, dtype=np.float64)
    return (
        cosine - np.multiply.outer(cosine @ h**2 / (h**2 @ h**2), h**2),
        sine - np.multiply.outer(sine @ h / (h @ h), h),
    )


def _bad(what: str, reason: str) -> ModelError:
    return ModelError(
        what, reason=reason, where="Fourier series of the arm", remedy="Design the trajectory anew: bench design"
    )
