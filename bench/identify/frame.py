"""Machine compliance and measured speed: what of the travel is depth, and how fast it grew.

::

    frame = Frame(200.0, expanded_uncertainty_N_mm=5.0, source="stiff plate, 2024-05-02")
    tool_mm = compensate_frame(position_mm, force_N, frame.stiffness_N_mm)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused

Floats = NDArray[np.float64]

SPEED_WINDOW_S = 0.05


@dataclass(frozen=True)
class Frame:
    """Stiffness of everything between encoder and tool tip [N/mm], with its expanded uncertainty (k = 2) [N/mm]."""

    stiffness_N_mm: float
    expanded_uncertainty_N_mm: float
    source: str = ""

    def __post_init__(self) -> None:
        if not (self.stiffness_N_mm > 0.0 and self.expanded_uncertainty_N_mm >= 0.0):
            raise Refused(
                f"frame stiffness {self.stiffness_N_mm:g} ± {self.expanded_uncertainty_N_mm:g} N/mm",
                reason="frame_stiffness",
                remedy="Measure it on a stiff plate; infinity says that the frame is rigid",
            )

    @classmethod
    def from_profile(cls, profile: Any) -> Frame:
        """Take ``rig.frame`` of a rig profile."""
        return cls(
            profile.stiffness.to("N/mm"), profile.expanded_uncertainty.to("N/mm"), str(getattr(profile, "source", ""))
        )

    @property
    def standard_uncertainty_N_mm(self) -> float:
        return self.expanded_uncertainty_N_mm / 2.0


RIGID = Frame(math.inf, 0.0, "taken as rigid")


def compensate_frame(position_mm: Floats, force_N: Floats, stiffness_N_mm: float) -> Floats:
    """Position of the tool tip, ``position - force / stiffness`` (n,) [mm]; the force without its zero [N].

    ISO 14577-1 and ASTM E2546 ask for this correction of every indentation depth.
    """
    return np.asarray(position_mm - force_N / stiffness_N_mm, dtype=np.float64)


def measured_speed(time_s: Floats, position_mm: Floats, *, window_s: float = SPEED_WINDOW_S) -> Floats:
    """Rate of change [mm/s] by a straight line through the samples of a window, at least three of them.

    Parameters
    ----------
    time_s, position_mm : (n,) float64
        Need not be uniformly sampled.
    window_s : float
        Length of the window [s].

    Notes
    -----
    The first-order smoothing differentiator of A. Savitzky and M. J. E. Golay, Anal. Chem. 36 (1964) 1627, by running
    sums; windows shrink at the ends.
    """
    count = len(time_s)
    if count < 3:
        raise Refused(f"{count} samples for a speed", reason="too_few_samples", remedy="Sample faster")
    step = float(np.median(np.diff(time_s)))
    half = max(1, round(window_s / (2.0 * step)))
    index = np.arange(count)
    first, last = np.maximum(index - half, 0), np.minimum(index + half + 1, count)
    t, x = time_s - time_s.mean(), position_mm - position_mm.mean()
    sums = np.concatenate([np.zeros((4, 1)), np.cumsum([t, x, t * t, t * x], axis=1)], axis=1)
    st, sx, stt, stx = sums[:, last] - sums[:, first]
    n = last - first
    return np.asarray((stx - st * sx / n) / (stt - st * st / n), dtype=np.float64)
