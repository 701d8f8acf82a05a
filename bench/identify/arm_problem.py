"""The weighted regression of an arm's run on its standard parameters, kept as one triangle per joint.

::

    law = ArmLaw(arm_model(rig), coupling=drives.coupling)
    problem = regress(law, list(stretches(run, rig, ("train",))), 6.0, ratings(rig.arm).rated_torque)
    plain = problem.least_squares()                     # (p,), of least norm where the record is blind
    fit = make_consistent(*problem.weighted(), nominal, noise=ROWS_HANG_TOGETHER)

Torques and every column go through the same low-pass and are decimated alike. Rows in which a joint creeps are left out
of its regression: what friction does there is for :mod:`bench.identify.arm_friction`.

Coulomb friction does not change its sign at once when a joint turns back: the bristles of its contacts bend over first.
Over the way x since the turn it goes from -1 to 1 - 2 exp(-x / d) (P. R. Dahl, *A solid friction model*, Aerospace
Corp. TOR-158, 1968). The length ``d`` is taken per joint from the record, a fraction of a milliradian as a rule; with
``sign(v)`` instead, every reversal leaves twice the friction for tens of milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
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
ROWS_HANG_TOGETHER = 3.0
"""Rows of one record share what the model misses: they tell as much as a ninth of so many independent ones."""
LENGTHS_RAD = (5e-5, 1e-4, 1.5e-4, 2e-4, 3e-4, 5e-4, 1e-3)
"""Lengths of pre-sliding that are tried."""
LESS = 0.97
"""A length is taken when it leaves less than this share of what ``sign(v)`` leaves."""


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


def filtered(
    law: ArmLaw,
    stretch: ArmStretch,
    band: LowPass,
    *,
    scale: Floats | None = None,
    lengths: Floats | None = None,
) -> Filtered:
    """Return a stretch in a band, filtered in parallel and decimated.

    Parameters
    ----------
    scale : (n,), optional
        Torque made per torque by the nominal constants; 1 by default.
    lengths : (n,), optional
        Of pre-sliding [rad]; 0 for a joint whose Coulomb friction follows ``sign(v)``, as all do by default.
    """
    rate = stretch.rate_hz
    torque = stretch.torque if scale is None else stretch.torque * scale
    columns = law.columns(stretch.position, stretch.velocity, stretch.acceleration)
    k, n, p = columns.shape
    for j in np.flatnonzero(np.zeros(n) if lengths is None else lengths):
        columns[:, j, law.names.index(f"fs{j + 1}")] = bent(stretch.position[:, j], float(lengths[j]))  # type: ignore[index]
    kept = _kept(band, k, rate)
    smoothed = band.smooth(columns.reshape(k, n * p), rate)[kept].reshape(-1, n, p)
    moving = ~law.still(stretch.velocity, np.full(n, STICTION))
    return Filtered(band.smooth(torque, rate)[kept], smoothed, moving[kept])


def bent(position: Floats, length: float) -> Floats:
    """Return by how much the bristles are bent (k,), -1 to 1, along positions (k,); 0 where the record begins."""
    way = np.diff(position)
    sign, left = np.sign(way).tolist(), np.exp(-np.abs(way) / length).tolist()
    found, z = [0.0], 0.0
    for s, e in zip(sign, left, strict=True):
        z = s + (z - s) * e
        found.append(z)
    return np.array(found)


def _kept(band: LowPass, rows: int, rate: float) -> slice:
    return band.kept(rows, rate, dropped=max(band.settle(rate), round(EDGE_S * rate)))


def regress(
    law: ArmLaw, train: Sequence[ArmStretch], cutoff_hz: float, rated: Floats, *, scale: Floats | None = None
) -> ArmProblem:
    """Return the regression of stretches, the lengths of pre-sliding taken from them.

    Parameters
    ----------
    cutoff_hz : float
    rated : (n,)
    scale : (n,), optional
        As of :func:`filtered`.

    Raises
    ------
    Refused
        ``no_rows``; ``band``.
    """
    bands = [LowPass(min(cutoff_hz, 0.4 * one.rate_hz)) for one in train]
    first = ArmProblem(law, rated)
    for one, band in zip(train, bands, strict=True):
        first.add(one, band, scale=scale)
    lengths = _lengths(law, train, bands, first.least_squares(), scale)
    if not lengths.any():
        return first
    problem = ArmProblem(law, rated, lengths)
    for one, band in zip(train, bands, strict=True):
        problem.add(one, band, scale=scale)
    return problem


def _lengths(
    law: ArmLaw, train: Sequence[ArmStretch], bands: Sequence[LowPass], parameters: Floats, scale: Floats | None
) -> Floats:
    """Length of pre-sliding of every joint (n,): the one that explains best what the rest of the model leaves."""
    own = [[law.names.index(f"{kind}{j + 1}") for kind in ("fs", "fv", "off")] for j in range(law.n)]
    rest = parameters.copy()
    rest[[k for indices in own for k in indices]] = 0.0
    stacked: list[list[Floats]] = [[] for _ in range(law.n)]
    for one, band in zip(train, bands, strict=True):
        rate, kept = one.rate_hz, _kept(band, len(one.time_s), one.rate_hz)
        torque = one.torque if scale is None else one.torque * scale
        left = torque - law.columns(one.position, one.velocity, one.acceleration) @ rest
        for j in range(law.n):
            shapes = [bent(one.position[:, j], length) for length in LENGTHS_RAD]
            columns = [left[:, j], one.velocity[:, j], np.sign(one.velocity[:, j]), *shapes]
            stacked[j].append(band.smooth(np.stack(columns, axis=1), rate)[kept])
    found = np.zeros(law.n)
    with single_thread():
        for j, parts in enumerate(stacked):
            rows = np.concatenate(parts)
            squares = [_left(rows[:, 0], rows[:, [1, 2 + k]]) for k in range(1 + len(LENGTHS_RAD))]
            best = int(np.argmin(squares))
            if best and squares[best] < LESS**2 * squares[0]:
                found[j] = LENGTHS_RAD[best - 1]
    return found


def _left(values: Floats, columns: Floats) -> float:
    whole = np.column_stack([columns, np.ones(len(columns))])
    left = values - whole @ np.linalg.lstsq(whole, values, rcond=None)[0]
    return float(left @ left)


class ArmProblem:
    """Rows in, a triangle per joint kept.

    Parameters
    ----------
    law : ArmLaw
    rated : (n,) float64
        Rated torques: the scale of the first weights.
    lengths : (n,), optional
        Of pre-sliding, see :func:`filtered`.
    """

    def __init__(self, law: ArmLaw, rated: Floats, lengths: Floats | None = None) -> None:
        self.lengths = np.zeros(law.n) if lengths is None else lengths
        self.law, self.rated = law, np.asarray(rated, dtype=np.float64)
        self.rows = np.zeros(law.n, dtype=np.int64)
        self.total = np.zeros(law.n, dtype=np.int64)
        self._triangles: list[Floats | None] = [None] * law.n

    def add(self, stretch: ArmStretch, band: LowPass, *, scale: Floats | None = None) -> None:
        """Take a stretch in; parameters as of :func:`filtered`."""
        found = filtered(self.law, stretch, band, scale=scale, lengths=self.lengths)
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
