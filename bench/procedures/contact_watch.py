"""Tell, while the tool moves, whether it touches: a sustained rise above the noise of the same press's baseline.

This steers the press (how deep, when to stop). It is not the contact point of the analysis, which is estimated from the
archived channels with its uncertainty (:mod:`bench.identify`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: A touch is a force above this many standard deviations of the baseline ...
SIGMAS = 5.0
#: ... for this long without a break [s] ...
SUSTAINED_S = 0.01
#: ... and this many samples at least, so that a spike is no contact.
SUSTAINED_SAMPLES = 3


@dataclass(frozen=True)
class Touch:
    """Where the sustained rise began: time [s], encoder position [mm] and force above the baseline [N]."""

    time_s: float
    position_mm: float
    force_n: float


class ContactWatch:
    """Looks for the touch in consecutive blocks.

    Parameters
    ----------
    baseline_n : ndarray, shape (n,)
        Contact force [N] of the still baseline just before.
    rate_hz : float
        Sample rate.
    floor_n : float
        Least threshold above the baseline [N], for a sensor so quiet that its noise is no guide.
    """

    def __init__(self, baseline_n: Floats, rate_hz: float, floor_n: float) -> None:
        self.zero_n = float(baseline_n.mean())
        self.noise_n = float(baseline_n.std())
        self.threshold_n = max(SIGMAS * self.noise_n, floor_n)
        self._needed = max(SUSTAINED_SAMPLES, round(SUSTAINED_S * rate_hz))
        self._tail = np.empty((0, 3))
        self.touch: Touch | None = None

    def feed(self, time_s: Floats, position_mm: Floats, force_n: Floats) -> Touch | None:
        """Take the next block, three arrays (n,); return the touch once it is found."""
        if self.touch is None:
            rows = np.vstack([self._tail, np.column_stack([time_s, position_mm, force_n - self.zero_n])])
            above = rows[:, 2] > self.threshold_n
            # Length of the unbroken run of samples above that ends at each row.
            counts = np.arange(1, len(rows) + 1)
            runs = counts - np.maximum.accumulate(np.where(above, 0, counts))
            reached = np.flatnonzero(runs >= self._needed)
            if len(reached):
                first = rows[reached[0] - self._needed + 1]
                self.touch = Touch(float(first[0]), float(first[1]), float(first[2]))
            self._tail = rows[len(rows) - min(len(rows), self._needed - 1) :]
        return self.touch
