"""From a press to the arrays a fit works on: averaged, zeroed, compensated for the frame, with the measured speed."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.identify.contact_point import ContactPoint
from bench.identify.frame import RIGID, Frame, compensate_frame, measured_speed
from bench.identify.press import Press, decimate
from bench.models.prony import time_step
from bench.models.response import Path

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One press as a fit sees it.

    Parameters
    ----------
    time_s, force_N : (n,) float64
        Time [s]; force [N] without its zero.
    path : Path
        Motion of the tool tip, from before contact on.
    contact : ContactPoint
    fitted : slice
        The samples that count in the fit.
    weight : (m,) float64
        Root of their weights.
    press : Press
        The averaged press, with its segments.
    """

    time_s: Floats
    force_N: Floats
    path: Path
    contact: ContactPoint
    fitted: slice
    weight: Floats
    press: Press

    @property
    def depth_mm(self) -> Floats:
        """Depth [mm] from the contact point, negative before it."""
        return self.path.position_mm - self.contact.position_mm


def prepare(
    press: Press,
    contact: ContactPoint,
    *,
    frame: Frame = RIGID,
    segments: Sequence[str] = ("rise", "hold"),
    hold_s: float | None = 10.0,
    weighting: str = "sample",
    from_contact: bool = True,
    rate_hz: float | None = 100.0,
) -> Curve:
    """Prepare a press for a fit or a prediction.

    Parameters
    ----------
    segments : sequence of str
        Which of ``rise``, ``hold``, ``unload`` and ``residual`` count; they must follow one another.
    hold_s : float, optional
        At most this much of the hold counts [s]; what follows a longer hold is then left out.
    weighting : str
        ``sample``: each sample counts the same. ``segment``: each segment of a press counts the same in sum.
    from_contact : bool
        Leave out the samples before the contact point, where every law says zero.
    rate_hz : float, optional
        Average to this rate first.
    """
    if weighting not in ("sample", "segment"):
        raise ValueError(f"no weighting {weighting!r}; there are sample, segment")
    coarse = decimate(press, rate_hz) if rate_hz else press
    start = coarse.baseline.start if coarse.baseline.stop > coarse.baseline.start else coarse.rise.start
    parts = [coarse.segment(name) for name in segments]
    parts = [part for part in parts if part.stop > part.start]
    if hold_s is not None and "hold" in segments and coarse.hold.stop > coarse.hold.start:
        end = float(coarse.time_s[coarse.hold.start]) + hold_s
        cut = min(int(np.searchsorted(coarse.time_s, end + 1e-9 * max(abs(end), 1.0), side="right")), coarse.hold.stop)
        parts = [slice(p.start, min(p.stop, cut)) if p == coarse.hold else p for p in parts if p.start < cut]
    stop = max(part.stop for part in parts)
    first = min(part.start for part in parts)
    time_s = coarse.time_s[start:stop]
    force = coarse.force_N[start:stop] - contact.force_zero_N
    position = compensate_frame(coarse.position_mm[start:stop], force, frame.stiffness_N_mm)
    if from_contact:
        first = max(first, start + int(np.argmax(position >= contact.position_mm)))
    path = Path(time_step(time_s), position, measured_speed(time_s, position))
    weight = np.ones(stop - first)
    if weighting == "segment":
        for part in parts:
            count = part.stop - max(part.start, first)
            if count > 0:
                weight[max(part.start, first) - first : part.stop - first] = math.sqrt(len(weight) / len(parts) / count)
    return Curve(time_s, force, path, contact, slice(first - start, stop - start), weight, coarse)
