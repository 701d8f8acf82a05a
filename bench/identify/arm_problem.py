"""The weighted regression of an arm's run on its standard parameters, kept as one triangle per joint.

::

    problem = ArmProblem(ArmLaw(arm_model(rig), coupling=drives.coupling), ratings(rig.arm).rated_torque)
    for one in stretches(run, rig, ("train",)):
        problem.add(one, LowPass(6.0))
    plain = problem.least_squares()                     # (p,), of least norm where the record is blind
    fit = make_consistent(*problem.weighted(), nominal)

Torques and every column go through the same low-pass and are decimated alike. Rows in which a joint creeps are left out
of its regression: what friction does there is for :mod:`bench.identify.arm_friction`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_stretch import ArmStretch
from bench.identify.blas import single_thread
from bench.identify.filtering import LowPass

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STICTION = 0.06
"""A joint slower than this [rad/s] is in the stiction zone."""
RANK = 1e-9
ROUNDS = 3
"""Times the joints' weights are taken anew from what is left."""
LEAST_SHARE = 1e-4
"""No joint is trusted better than this share of its rated torque."""
EDGE_S = 0.2


@dataclass(frozen=True)
class Filtered:
    """Torques and columns of a stretch in one band.

    Parameters
    ----------
    torque : (k, n)
    columns : (k, n, p)
    moving : (k, n)
        Rows and joints outside the stiction zone.
    """

    torque: Floats
    columns: Floats
    moving: Flags


def filtered(law: ArmLaw, stretch: ArmStretch, band: LowPass, *, scale: Floats | None = None) -> Filtered:
    """Return a stretch in a band, filtered in parallel and decimated.

    Parameters
    ----------
    scale : (n,), optional
        Torque made per torque by the nominal constants; 1 by default.
    """
    rate = stretch.rate_hz
    torque = stretch.torque if scale is None else stretch.torque * scale
    columns = law.columns(stretch.position, stretch.velocity, stretch.acceleration)
    k, n, p = columns.shape
    kept = band.kept(k, rate, dropped=max(band.settle(rate), round(EDGE_S * rate)))
    smoothed = band.smooth(columns.reshape(k, n * p), rate)[kept].reshape(-1, n, p)
    moving = ~law.still(stretch.velocity, np.full(n, STICTION))
    return Filtered(band.smooth(torque, rate)[kept], smoothed, moving[kept])


class ArmProblem:
    """Rows in, a triangle per joint kept.

    Parameters
    ----------
    law : ArmLaw
    rated : (n,) float64
        Rated torques: the scale of the first weights.
    """

    def __init__(self, law: ArmLaw, rated: Floats) -> None:
        self.law, self.rated = law, np.asarray(rated, dtype=np.float64)
        self.rows = np.zeros(law.n, dtype=np.int64)
        self.total = np.zeros(law.n, dtype=np.int64)
        self._triangles: list[Floats | None] = [None] * law.n

    def add(self, stretch: ArmStretch, band: LowPass, *, scale: Floats | None = None) -> None:
        """Take a stretch in; parameters as of :func:`filtered`."""
        found = filtered(self.law, stretch, band, scale=scale)
        self.total += len(found.torque)
        with single_thread():
            for j in range(self.law.n):
                use = found.moving[:, j]
                rows = np.column_stack([found.columns[use, j], found.torque[use, j]])
                before = self._triangles[j]
                whole = rows if before is None else np.concatenate([before, rows])
                self._triangles[j] = np.asarray(np.linalg.qr(whole, mode="r")) if len(whole) else before
                self.rows[j] += int(use.sum())

    @property
    def excluded_share(self) -> float:
        """Share of rows in the stiction zone."""
        return 1.0 - float(self.rows.sum()) / max(float(self.total.sum()), 1.0)

    def triangles(self) -> list[Floats]:
        """Triangles of ``[columns, torque]`` (.., p + 1) of every joint.

        Raises
        ------
        Refused
            ``no_rows``: a joint never moved.
        """
        found = []
        for j, triangle in enumerate(self._triangles):
            if triangle is None or self.rows[j] == 0:
                raise Refused(
                    f"joint {self.law.model.names[j]} never moved faster than {STICTION} rad/s",
                    reason="no_rows",
                    where="identification of an arm",
                    remedy="Excite every joint",
                )
            found.append(triangle)
        return found

    def sigma(self) -> Floats:
        """(n,) standard deviation of what every joint's rows leave, by iterated weighted least squares."""
        triangles = self.triangles()
        sigma = self.rated.copy()
        with single_thread():
            for _ in range(ROUNDS):
                found = _least_squares(triangles, sigma)
                left = [float(np.sum((t[:, :-1] @ found - t[:, -1]) ** 2)) for t in triangles]
                sigma = np.sqrt(np.array(left) / self.rows)
                sigma = np.maximum(sigma, LEAST_SHARE * self.rated)
        return sigma

    def least_squares(self) -> Floats:
        """(p,) weighted least squares of least (scaled) norm."""
        sigma = self.sigma()
        with single_thread():
            return _least_squares(self.triangles(), sigma)

    def weighted(self) -> tuple[Floats, Floats]:
        """Stacked triangles over each joint's sigma: regressor (m, p) and response (m,)."""
        stacked = np.concatenate([t / s for t, s in zip(self.triangles(), self.sigma(), strict=True)])
        return stacked[:, :-1], stacked[:, -1]

    def condition_number(self, columns: NDArray[np.intp]) -> float:
        """Condition number of these columns, all joints by their rated torque, columns scaled to unit length."""
        rows = np.concatenate([t[:, columns] / r for t, r in zip(self.triangles(), self.rated, strict=True)])
        length = np.linalg.norm(rows, axis=0)
        with single_thread():
            values = np.linalg.svd(rows / np.where(length > 0.0, length, 1.0), compute_uv=False)
        return float(values[0] / values[-1]) if values[-1] > 0.0 else float("inf")


def _least_squares(triangles: list[Floats], sigma: Floats) -> Floats:
    stacked = np.concatenate([t / s for t, s in zip(triangles, sigma, strict=True)])
    columns, right = stacked[:, :-1], stacked[:, -1]
    length = np.linalg.norm(columns, axis=0)
    length = np.where(length > 0.0, length, 1.0)
    found = np.linalg.lstsq(columns / length, right, rcond=RANK)[0]
    return np.asarray(found / length)
