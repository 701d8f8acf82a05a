"""The drive's torque scale from locked-output ramps: a rough check of the one a sweep tells."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate, combine
from bench.identify.ramp import Branches
from bench.identify.robust import cluster_covariance

Floats = NDArray[np.float64]

TAILS = np.geomspace(1e-4, 1e-3, 25)
"""Travels [rad] over which the motor's friction may turn."""
BEGIN = 0.3
"""The first part of a turn, in units of the tail, is left out: there the friction hardly moves the motor."""
BRISTLES = 0.01
"""Share of the scale [1], one standard uncertainty: friction's turn under load is not quite an exponential."""


def ramp_torque_scale(data: Branches, gain: float) -> Estimate | None:
    """Slope of transducer over command, with friction, its part by the load and its turn fitted beside it.

    Parameters
    ----------
    data : Branches
    gain : float
        Standard uncertainty of the transducer's gain [1].

    Returns
    -------
    Estimate or None
        True over commanded motor torque [1]; None without commands, or where the branches do not tell it.

    Notes
    -----
    ``s u = tau + way (c + k |tau| - a exp(-travel / tail)) + offset`` over branches that begin at a turn; ``tail`` by
    the least residual. Under high load the unloading branch is mostly turn, so the sweep's scale is the better one.
    """
    if data.command is None:
        return None
    branch = np.repeat(np.arange(len(data.lengths)), data.lengths)
    known = ~np.array(data.fresh)[branch]
    best: tuple[float, Floats, Floats, Floats, list[int]] | None = None
    for tail in TAILS:
        taken = known & (data.travel > BEGIN * tail)
        torque, way, command = data.torque[taken], data.direction[taken], data.command[taken]
        if len(torque) < 20 or np.ptp(way) == 0.0:
            continue
        turn = way * np.exp(-data.travel[taken] / tail)
        columns = np.stack([torque, way, way * np.abs(torque), np.ones(len(torque)), turn], axis=1)
        beta = np.linalg.lstsq(columns, command, rcond=None)[0]
        residual = columns @ beta - command
        mean = float(np.mean(residual**2))
        if best is None or mean < best[0]:
            counts = np.bincount(branch[taken], minlength=len(data.lengths))
            best = mean, beta, columns, residual, [int(n) for n in counts if n]
    if best is None:
        return None
    _, beta, columns, residual, lengths = best
    try:
        scatter = cluster_covariance(columns, residual, lengths)
    except Refused:
        return None
    value = 1.0 / float(beta[0])
    gradient = np.array([-(value**2), 0.0, 0.0, 0.0, 0.0])
    extra = {"transducer_gain": gain * value, "bristles": BRISTLES * value}
    return combine(value, gradient, [scatter.source("branches", gradient)], "1", "number", extra)
