"""Rupture: the sudden loss of force when a tool breaks through, and the press up to it.

::

    rupture = detect_rupture(press)
    if rupture is not None:
        fit = fit_contact([before_rupture(press, rupture)], model="power_law", segments=("rise",))
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from bench.identify.contact_point import ContactPoint, approach
from bench.identify.estimate import Estimate
from bench.identify.frame import RIGID, Frame, compensate_frame
from bench.identify.press import Press, check_press, decimate

LEAST_DROP = 0.1
LONGEST_DROP_S = 0.25


@dataclass(frozen=True)
class Rupture:
    """Where the force dropped.

    Parameters
    ----------
    index : int
        Sample of the press with the greatest force before the drop.
    time_s : float
    force : Estimate
        Force [N] before the drop, without its zero.
    depth : Estimate
        Depth [mm] there, from the contact point given; NaN without one.
    drop_N : float
        How much force was lost within the time given to a drop.
    """

    index: int
    time_s: float
    force: Estimate
    depth: Estimate
    drop_N: float


def detect_rupture(
    press: Press,
    contact: ContactPoint | None = None,
    *,
    frame: Frame = RIGID,
    least_drop: float = LEAST_DROP,
    longest_s: float = LONGEST_DROP_S,
    force_relative_uncertainty: float = 0.0,
    rate_hz: float | None = 200.0,
) -> Rupture | None:
    """Find the first rupture of a press.

    A rupture is a fall of force by at least ``least_drop`` of what it was (and 8 times the noise) within ``longest_s``,
    while the tool goes on into the tissue. A soft slow bend is no rupture.

    Parameters
    ----------
    press : Press
    contact : ContactPoint, optional
        Where depth is counted from.
    frame : Frame
        For the depth; its uncertainty enters.
    least_drop : float
        Least loss as a share of the force before it [1].
    longest_s : float
        Longest duration of the fall [s].
    force_relative_uncertainty : float
        Standard uncertainty of the force calibration as a share [1].
    rate_hz : float, optional
        Average to this rate first.

    Returns
    -------
    Rupture or None

    Raises
    ------
    Refused
        ``no_contact`` and what :func:`~bench.identify.press.check_press` refuses.
    """
    check_press(press)
    coarse = decimate(press, rate_hz) if rate_hz else press
    seen = approach(_until_deepest(coarse))
    force = seen.force_N - seen.zero_N
    start = coarse.baseline.start if coarse.baseline.stop > coarse.baseline.start else coarse.rise.start
    position = coarse.position_mm[start : coarse.rise.stop]
    time_s = coarse.time_s[start : coarse.rise.stop]
    force = coarse.force_N[start : coarse.rise.stop] - seen.zero_N
    step = float(np.median(np.diff(time_s)))
    reach = max(1, round(longest_s / step))
    lowest = _running_minimum(force, reach)
    loss = force - lowest
    found = np.flatnonzero((loss > np.maximum(least_drop * force, 8.0 * seen.noise_N)) & (force > 8.0 * seen.noise_N))
    found = found[found >= seen.above]
    if not found.size:
        return None
    first = int(found[0])
    # the fall is seen as soon as its end comes within reach: the top lies between here and there
    top = first + int(np.argmax(force[first : first + reach + 1]))
    advance = position[min(top + reach, len(position) - 1)] - position[top]
    if advance <= 0.0:
        return None
    spacing = abs(float(position[min(top + 1, len(position) - 1)] - position[top]))
    budget = {
        "noise": seen.noise_N,
        "force zero": seen.zero_uncertainty_N,
        "sampling": abs(float(force[top] - force[max(top - 1, 0)])) / math.sqrt(12.0),
        "force calibration": force_relative_uncertainty * float(force[top]),
    }
    strength = Estimate(float(force[top]), _root(budget), "N", "force", budget=budget)
    origin = contact.position_mm if contact else math.nan
    tip = float(compensate_frame(position[top : top + 1], force[top : top + 1], frame.stiffness_N_mm)[0])
    spans = {
        "contact point": contact.standard_uncertainty_mm if contact else math.nan,
        "sampling": spacing / math.sqrt(12.0),
        "frame stiffness": float(force[top]) / frame.stiffness_N_mm**2 * frame.standard_uncertainty_N_mm,
    }
    depth = Estimate(tip - origin, _root(spans), "mm", "length", budget=spans)
    index = int(np.argmin(np.abs(press.time_s - time_s[top])))
    drop = float(force[top] - _running_minimum(force, reach)[top])
    return Rupture(index, float(time_s[top]), strength, depth, drop)


def before_rupture(press: Press, rupture: Rupture) -> Press:
    """Return the press up to the rupture: the rise ends there, nothing follows."""
    stop = rupture.index + 1
    return replace(
        press,
        time_s=press.time_s[:stop],
        position_mm=press.position_mm[:stop],
        force_N=press.force_N[:stop],
        rise=slice(press.rise.start, min(press.rise.stop, stop)),
        hold=slice(0, 0),
        unload=slice(0, 0),
        residual=slice(0, 0),
        name=f"{press.name}, before rupture",
    )


def _until_deepest(press: Press) -> Press:
    return replace(press, hold=slice(0, 0), unload=slice(0, 0), residual=slice(0, 0))


def _running_minimum(
    values: np.ndarray[tuple[int], np.dtype[np.float64]], reach: int
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return the least of each sample and the ``reach`` samples after it."""
    padded = np.concatenate([values, np.full(reach, np.inf)])
    return np.asarray(np.lib.stride_tricks.sliding_window_view(padded, reach + 1).min(axis=1), dtype=np.float64)


def _root(budget: dict[str, float]) -> float:
    return math.sqrt(sum(u**2 for u in budget.values()))
