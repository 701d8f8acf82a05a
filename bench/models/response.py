"""Force per unit of ``F_ref`` along a measured path, with its derivatives: what a fit of any law needs.

Every law of :data:`bench.models.contact.LAWS` is ``F_ref`` times a response that depends on the path and on the shape
parameters alone; damping is then held as ``c / F_ref`` [s/mm].
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.models.prony import convolve, convolve_with_derivative

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Path:
    """Motion of the tool tip: step [s] as of :func:`~bench.models.prony.time_step`, position [mm], speed [mm/s]."""

    step: float | Floats
    position_mm: Floats
    speed_mm_s: Floats


def response(law: str, shape: Sequence[float] | Floats, path: Path, contact_mm: float, d_ref: float) -> Floats:
    """Force per unit of ``F_ref`` (n,) [1]; zero out of contact, never below zero."""
    depth = path.position_mm - contact_mm
    if law in ("damped_power_law", "hunt_crossley"):
        elastic = (np.maximum(depth, 0.0) / d_ref) ** shape[0]
        rate = shape[1] * path.speed_mm_s
        value = elastic + np.where(depth > 0.0, rate, 0.0) if law == "damped_power_law" else elastic * (1.0 + rate)
        return np.asarray(np.maximum(value, 0.0), dtype=np.float64)
    elastic = (np.maximum(depth, 0.0) / d_ref) ** shape[0]
    if len(shape) == 1:
        return np.asarray(elastic, dtype=np.float64)
    value = (1.0 - sum(shape[1::2])) * elastic
    for share, tau in zip(shape[1::2], shape[2::2], strict=True):
        value += share * convolve(path.step, elastic, float(tau))
    return np.where(depth > 0.0, np.maximum(value, 0.0), 0.0)


def response_with_derivatives(
    law: str, shape: Sequence[float] | Floats, path: Path, contact_mm: float, d_ref: float
) -> tuple[Floats, Floats]:
    """Return the response and its derivatives.

    Returns
    -------
    response : (n,) float64
    derivatives : (k + 1, n) float64
        By the k shape parameters in the order of :data:`~bench.models.contact.LAWS`, then by the contact point [1/mm].
        Analytic; zero where the response is cut at zero.
    """
    n = float(shape[0])
    depth = path.position_mm - contact_mm
    inside = depth > 0.0
    first = int(inside.argmax()) if inside.any() else len(depth)
    # rows: the elastic part, its derivative by n, and by the contact point; zero out of contact
    rows = np.zeros((3, len(depth)))
    m = depth[first:] / d_ref
    whole = bool(inside[first:].all())
    if not whole:
        m = np.where(inside[first:], m, 1.0)
    log = np.log(m)
    elastic = np.exp(n * log)
    rows[0, first:] = elastic
    rows[1, first:] = elastic * log
    rows[2, first:] = elastic * (-n / d_ref) / m
    if not whole:
        rows[:, first:][:, ~inside[first:]] = 0.0
    if len(shape) == 1:
        return rows[0], rows[1:]
    if law in ("damped_power_law", "hunt_crossley"):
        return _damped(law, float(shape[1]), path, rows, inside)
    derivatives = np.empty((len(shape) + 1, len(depth)))
    total = (1.0 - sum(shape[1::2])) * rows
    for i, (share, tau) in enumerate(zip(shape[1::2], shape[2::2], strict=True)):
        relaxed, by_tau = convolve_with_derivative(path.step, rows, float(tau))
        np.subtract(relaxed[0], rows[0], out=derivatives[1 + 2 * i])
        np.multiply(by_tau, share, out=derivatives[2 + 2 * i])
        relaxed *= share
        total += relaxed
    derivatives[0], derivatives[-1] = total[1], total[2]
    cut = ~inside | (total[0] < 0.0)
    if cut[first:].any():
        derivatives[:, cut] = 0.0
        total[0, cut] = 0.0
    return total[0], derivatives


def _damped(law: str, damping: float, path: Path, rows: Floats, inside: NDArray[np.bool_]) -> tuple[Floats, Floats]:
    speed = np.where(inside, path.speed_mm_s, 0.0)
    derivatives = np.empty((3, rows.shape[1]))
    if law == "damped_power_law":
        value = rows[0] + damping * speed
        derivatives[0], derivatives[1], derivatives[2] = rows[1], speed, rows[2]
    else:
        factor = 1.0 + damping * speed
        value = rows[0] * factor
        derivatives[0], derivatives[1], derivatives[2] = rows[1] * factor, rows[0] * speed, rows[2] * factor
    cut = value < 0.0
    if cut.any():
        value[cut] = 0.0
        derivatives[:, cut] = 0.0
    return value, derivatives
