"""Base parameters of an arm from its records: ordinary, weighted or iteratively reweighted least squares.

::

    base = BaseParameters.of(ArmLaw(ArmModel(arm_description(rig)), coupling=drivetrain(rig.arm).coupling))
    fit = fit_arm(base, list(pieces(run, rig, ("train",))), LowPass(6.0), speed_limit=ratings(rig.arm).speed)
    fit.estimate("fs3")                       # Estimate: value, standard uncertainty, unit
    print("\\n".join(fit.lines()))

Weighted: every joint's rows over what ordinary least squares leaves there, or a joint with large torques drowns the
wrist. Iteratively reweighted: besides, rows that fit badly count less (P. J. Huber, *Robust statistics*, 1981), until
nothing changes. The covariance is what the record's blocks disagree by, so errors that stay the same for a while are in
it; to it comes what stated uncertainties of the torques' scales do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_law import unit_of
from bench.identify.arm_record import ArmRecord
from bench.identify.arm_rows import FilteredRows, RowMaker, RowSettings, dead_zone, position_filter
from bench.identify.arm_triangles import ArmSolution, ArmTriangles, stacked
from bench.identify.estimate import Estimate
from bench.identify.filtering import BandRecord, LowPass
from bench.identify.joint_dynamics import LEAK
from bench.identify.paths import Path, PathSketch

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Method = Literal["ols", "wls", "irls"]

HUBER = 1.345
"""Rows worse than so many s.d. count less: 95 % as good as least squares where errors are normal."""
MOST_ROUNDS = 12
BLOCK_S = 0.1
"""Blocks of the covariance are at least so long."""
SETTLED = 1e-2
"""Reweighting ends when no parameter moves by more than this share of its s.d."""


@dataclass(frozen=True)
class ArmFit:
    """Base parameters of an arm and how they were found.

    Parameters
    ----------
    base : BaseParameters
    method : {"ols", "wls", "irls"}
    solution : ArmSolution
        The answer with its covariance from the record's blocks alone.
    covariance : (b, b)
        With the torque scales' part.
    ols : (b,)
        Ordinary least squares on the same rows.
    settings : RowSettings
    band_record : BandRecord or None
    triangle, right : (b, b), (b,)
        Weighted rows of all joints, reduced.
    rows : (n,) int
        Rows of every joint that counted.
    excluded_share : float
        Rows in or near the dead zone [1].
    torque_scale_uncertainty : (n,)
        Standard uncertainties that were stated [1].
    rounds : int
        Of reweighting.
    converged : bool
    paths : tuple of Path
        Sketch of each joint's motion, to tell a repeat from another trajectory.
    sources : tuple of str
    """

    base: BaseParameters
    method: Method
    solution: ArmSolution
    covariance: Floats
    ols: Floats
    settings: RowSettings
    band_record: BandRecord | None
    triangle: Floats
    right: Floats
    rows: NDArray[np.int64]
    excluded_share: float
    torque_scale_uncertainty: Floats
    rounds: int
    converged: bool
    paths: tuple[Path, ...]
    sources: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Full names (b,) of the base parameters."""
        return self.base.names

    @property
    def values(self) -> Floats:
        """(b,)."""
        return self.solution.values

    @property
    def standard_deviation(self) -> Floats:
        """(b,)."""
        return np.sqrt(self.covariance.diagonal())

    @property
    def relative_deviation(self) -> Floats:
        """(b,) standard deviation as a share of the value [%]."""
        return 100.0 * self.standard_deviation / np.maximum(np.abs(self.values), 1e-300)

    @property
    def condition_number(self) -> float:
        """Of the weighted regressor, columns scaled to unit length."""
        return self.solution.condition_number

    @property
    def residual(self) -> Floats:
        """Root mean square (n,) left on the rows of the fit."""
        return self.solution.residual

    def estimate(self, name: str) -> Estimate:
        """One base parameter by its short or full name; raises as :meth:`BaseParameters.index`."""
        i = self.base.index(name)
        lead = self.base.leading[i]
        joint = self.base.law.model.description.joints[int(lead.lstrip("".join(c for c in lead if c.isalpha()))) - 1]
        unit, kind = unit_of(lead, prismatic=joint.kind == "prismatic")
        return Estimate(
            float(self.values[i]),
            float(self.standard_deviation[i]),
            unit,
            kind,
            float(self.solution.degrees_of_freedom[i]),
        )

    def predict(self, q: Floats, v: Floats, a: Floats) -> Floats:
        """Joint torques (k, n) of states (k, n), unfiltered."""
        return np.asarray(self.base.regressor(q, v, a) @ self.values)

    def compare(
        self, records: Iterable[ArmRecord], band: LowPass | None
    ) -> Iterable[tuple[Floats, Floats, Flags]]:  # fmt: skip
        """Measured and predicted torque (m, n) in a band, and which rows of which joints move; part by part."""
        for rows in RowMaker(self.base, self.settings.at(band)).rows(records):
            yield rows.torque, predicted(self.base, self.values, rows), rows.moving

    def standard_problem(self) -> tuple[Floats, Floats]:
        """Weighted regressor (b, p) in the standard parameters and response (b,): for physical consistency."""
        return self.triangle @ self.base.grouping, self.right

    def provenance(self) -> dict[str, Any]:
        """Return how the parameters were found, as plain data."""
        positions = self.settings.position_filter
        return {
            "method": self.method,
            "sources": list(self.sources),
            "base_parameters": self.base.count,
            "band": None if self.band_record is None else self.band_record.record(),
            "position_filter_hz": None if positions is None else positions.cutoff_hz,
            "dead_zone": self.settings.still_speed.tolist(),
            "excluded_share": self.excluded_share,
            "rows": self.rows.tolist(),
            "blocks": self.solution.blocks,
            "sigma": self.solution.sigma.tolist(),
            "residual": self.residual.tolist(),
            "condition_number": self.condition_number,
            "torque_scale_uncertainty": self.torque_scale_uncertainty.tolist(),
            "rounds": self.rounds,
            "converged": self.converged,
        }

    def lines(self) -> list[str]:
        """Report for people."""
        rounds = f", {self.rounds} rounds" + ("" if self.converged else ", NOT CONVERGED")
        told = [
            f"{self.base.count} base parameters by {self.method.upper()}{rounds if self.method == 'irls' else ''}",
            "no filter" if self.band_record is None else str(self.band_record),
            f"excluded as dead zone: {self.excluded_share:.1%} of the rows",
            f"condition number {self.condition_number:.1f}",
        ]
        spread, relative = self.standard_deviation, self.relative_deviation
        told += [
            f"{name} = {value:.6g} ± {s:.2g} ({share:.3g} %)"
            for name, value, s, share in zip(self.names, self.values, spread, relative, strict=True)
        ]
        told += [
            f"{name}: residual {left:.3g}, {count} rows"
            for name, left, count in zip(self.base.law.model.names, self.residual, self.rows, strict=True)
        ]
        return told


def predicted(base: BaseParameters, values: Floats, rows: FilteredRows) -> Floats:
    """Torques (m, n) that base parameters (b,) make of rows."""
    found = [rows.columns[:, s] @ values[own] for s, own in zip(base.spots, base.joint_columns, strict=True)]
    return np.stack(found, axis=1)


def fit_arm(
    base: BaseParameters,
    records: Iterable[ArmRecord],
    band: LowPass | None,
    *,
    method: Method = "wls",
    still_speed: Floats | None = None,
    speed_limit: Floats | None = None,
    leak: float | None = LEAK,
    positions: LowPass | Literal["default"] | None = "default",
    torque_scale_uncertainty: Sequence[float] | Floats | None = None,
) -> ArmFit:
    """Fit base parameters to records of one arm; they are taken one by one, so memory does not grow with them.

    Parameters
    ----------
    base : BaseParameters
    records : iterable of ArmRecord
        In time order. Reweighting goes through them several times: give a list then, or anything that can be gone
        through again.
    band : LowPass or None
        For torques and every column: a cut-off of a third to a half of the arm's bandwidth. None fits every row as it
        is.
    method : {"ols", "wls", "irls"}
    still_speed : (n,), optional
        Dead zone [rad/s]; by default a hundredth of ``speed_limit``, or four s.d. of the velocity's noise in the first
        record, whichever is more.
    speed_limit : (n,), optional
    leak : float or None
        See :class:`~bench.identify.arm_rows.RowSettings`.
    positions : LowPass or None, optional
        For positions before they are differentiated; by default five times the band.
    torque_scale_uncertainty : (n,), optional
        Standard uncertainty of each joint's torque as a share of it; half of what a profile states with k = 2.

    Raises
    ------
    Refused
        ``too_short``: no record; ``no_rows``, ``too_few_rows``, ``rank_deficient``, ``not_finite``, ``band``,
        ``shape``; ``one_pass``: reweighting was asked for, of records that can be gone through once.
    """
    n = base.law.n
    names = base.law.model.names
    if method == "irls" and iter(records) is iter(records):
        raise Refused(
            "records that can be gone through once cannot be reweighted",
            reason="one_pass",
            where="regression of an arm",
            remedy="Give a list of records, or an object that opens them anew each time",
        )
    watched = _Watched(records, n)
    first = watched.first()
    if still_speed is None:
        still_speed = dead_zone(first, band, np.zeros(n) if speed_limit is None else speed_limit)
    chosen = position_filter(band, first.rate_hz) if positions == "default" else positions
    settings = RowSettings(band, chosen, np.asarray(still_speed, dtype=np.float64), leak)
    record = settings.record_of(first.rate_hz)
    block = round(BLOCK_S * (first.rate_hz if record is None else record.rate_hz / record.decimation))
    triangles = ArmTriangles(base, block)
    for rows in RowMaker(base, settings).rows(watched):
        triangles.add(rows)
    triangles.check(names)
    ols = triangles.least_squares(np.ones(n))
    solution = triangles.solve(np.ones(n) if method == "ols" else triangles.residual(ols))
    rounds, converged, used = 0, True, triangles
    if method == "irls":
        solution, used, rounds, converged = _reweighted(base, settings, records, solution, block)
    scale = np.zeros(n) if torque_scale_uncertainty is None else np.asarray(torque_scale_uncertainty, dtype=np.float64)
    pull = solution.sensitivity * scale
    triangle, right = stacked(base, used.whole(), solution.sigma)
    share = 1.0 - float(triangles.rows.sum()) / max(triangles.total * n, 1)
    return ArmFit(
        base, method, solution, solution.covariance + pull @ pull.T, ols, settings,
        record, triangle, right, used.rows, share, scale, rounds,
        converged, watched.paths(), tuple(watched.sources),
    )  # fmt: skip


def _reweighted(
    base: BaseParameters, settings: RowSettings, records: Iterable[ArmRecord], start: ArmSolution, block: int
) -> tuple[ArmSolution, ArmTriangles, int, bool]:
    """Huber's weights on residuals over each joint's robust s.d., until the answer stays."""
    solution, converged = start, False
    triangles, turn = ArmTriangles(base, block), 0
    while turn < MOST_ROUNDS:
        turn += 1
        triangles, sizes = ArmTriangles(base, block), _Sizes(base.law.n)
        for rows in RowMaker(base, settings).rows(records):
            left = np.abs(rows.torque - predicted(base, solution.values, rows))
            sizes.add(left, rows.moving)
            weight = np.minimum(1.0, HUBER * solution.sigma / np.maximum(left, 1e-300))
            triangles.add(rows, np.sqrt(weight))
        before = solution
        solution = triangles.solve(sizes.sigma(floor=1e-9 * solution.sigma.max()))
        spread = np.sqrt(np.maximum(solution.covariance.diagonal(), 1e-300))
        steady = np.abs(solution.sigma / before.sigma - 1.0).max() < SETTLED
        if steady and np.all(np.abs(solution.values - before.values) <= SETTLED * spread):
            converged = True
            break
    return solution, triangles, turn, converged


class _Sizes:
    """Median absolute residual per joint, from a histogram of their logarithms: flat in the record's length."""

    PER_DECADE, LOWEST, BINS = 200, -12.0, 20 * 200

    def __init__(self, n: int) -> None:
        self._counts = np.zeros((n, self.BINS))

    def add(self, left: Floats, moving: Flags) -> None:
        place = np.log10(np.maximum(left, 1e-300)) - self.LOWEST
        bins = np.clip((place * self.PER_DECADE).astype(int), 0, self.BINS - 1)
        for j, count in enumerate(self._counts):
            count += np.bincount(bins[moving[:, j], j], minlength=self.BINS)

    def sigma(self, floor: float) -> Floats:
        total = self._counts.cumsum(axis=1)
        middle = np.argmax(total >= 0.5 * total[:, -1:], axis=1)
        median = 10.0 ** (self.LOWEST + (middle + 0.5) / self.PER_DECADE)
        return np.asarray(np.maximum(1.4826 * median, floor))


class _Watched:
    """Records as they go by: the first is looked at beforehand, paths are sketched."""

    def __init__(self, records: Iterable[ArmRecord], n: int) -> None:
        self._records = iter(records)
        self._first: ArmRecord | None = None
        self._sketches = [PathSketch() for _ in range(n)]
        self.sources: list[str] = []

    def first(self) -> ArmRecord:
        self._first = next(self._records, None)
        if self._first is None:
            raise Refused(
                "there is no record to identify from",
                reason="too_short",
                where="regression of an arm",
                remedy="Name phases that the run has",
            )
        return self._first

    def __iter__(self) -> Any:
        if self._first is not None:
            yield self._seen(self._first)
        for record in self._records:
            yield self._seen(record)

    def _seen(self, record: ArmRecord) -> ArmRecord:
        name = " ".join((record.source, *record.phases)).strip()
        if name and name not in self.sources[-1:]:
            self.sources.append(name)
        add_to_sketches(self._sketches, record)
        return record

    def paths(self) -> tuple[Path, ...]:
        return tuple(sketch.path() for sketch in self._sketches)


def add_to_sketches(sketches: Sequence[PathSketch], record: ArmRecord) -> None:
    """Add a record's motion to the sketches of its joints."""
    for sketch, column in zip(sketches, record.position.T, strict=False):
        sketch.add(column, record.rate_hz, record.first_index)


__all__ = ["ArmFit", "Method", "add_to_sketches", "fit_arm", "predicted"]
