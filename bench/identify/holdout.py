"""How well a fit predicts a record it has not seen: in a stated band, next to what trivial predictions reach.

::

    report = hold_out(fit, [Stretch(1000.0, position, torque)], LowPass(40.0), rated=10.0)
    print("\\n".join(report.lines()))

Lowering the band makes any prediction look better, so all fits are judged in one. A small share of the rated torque
says little (predicting nothing at all reaches 5 % on many joints), so it stands beside the relative error and the
baselines; a repeat of the trajectory that was fitted says nothing and is refused.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.filtering import BandRecord, LowPass
from bench.identify.joint_dynamics import JointFit
from bench.identify.joint_laws import Stretch
from bench.identify.paths import PathMatch, PathSketch, match_paths

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Score:
    """Errors over a set of rows.

    Parameters
    ----------
    rows : int
    rms, zero_rms, mean_rms : float
        Root mean square of measured minus predicted, minus zero, minus its own mean (the best constant).
    """

    rows: int
    rms: float
    zero_rms: float
    mean_rms: float

    @property
    def relative(self) -> float:
        """``100 ||tau - tau_hat|| / ||tau||`` [%]."""
        return 100.0 * self.rms / self.zero_rms if self.zero_rms > 0.0 else math.nan

    @property
    def relative_of_mean(self) -> float:
        """Relative error of the best constant [%]; that of zero is 100 %."""
        return 100.0 * self.mean_rms / self.zero_rms if self.zero_rms > 0.0 else math.nan


@dataclass(frozen=True)
class HoldOutReport:
    """What a fit is worth on a record it has not seen.

    Parameters
    ----------
    all, moving : Score
        Over all rows, and over those outside the stiction zone.
    rated : float
        Rated torque or force, in ``unit``.
    match : PathMatch
        How alike the trajectory is to the one of the fit.
    band : BandRecord
        In which it was judged.
    excluded_share : float
        Of the rows that do not count as moving [1].
    condition_number : float
        Of the fit's regressor.
    """

    law: str
    all: Score
    moving: Score
    rated: float
    unit: str
    match: PathMatch
    band: BandRecord
    excluded_share: float
    condition_number: float

    @property
    def distinct(self) -> bool:
        """Whether the trajectory is another one than that of the fit."""
        return not self.match.repeat

    @property
    def rms_of_rated(self) -> float:
        """RMS error of all rows as a share of the rated torque [%]."""
        return 100.0 * self.all.rms / self.rated

    @property
    def zero_of_rated(self) -> float:
        """The same for predicting zero [%]."""
        return 100.0 * self.all.zero_rms / self.rated

    @property
    def mean_of_rated(self) -> float:
        """The same for the best constant [%]."""
        return 100.0 * self.all.mean_rms / self.rated

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "law": self.law,
            "distinct_trajectory": self.distinct,
            "path_correlation": self.match.correlation,
            "band": self.band.record(),
            "excluded_share": self.excluded_share,
            "relative_all": self.all.relative,
            "relative_moving": self.moving.relative,
            "relative_of_mean": self.all.relative_of_mean,
            "rms_all": self.all.rms,
            "rms_moving": self.moving.rms,
            "rms_of_rated": self.rms_of_rated,
            "zero_of_rated": self.zero_of_rated,
            "mean_of_rated": self.mean_of_rated,
            "condition_number": self.condition_number,
        }

    def lines(self) -> list[str]:
        """Report for people."""
        same = f"correlation of positions {self.match.correlation:.4f}, size × {self.match.scale:.2f}"
        known = (
            "another trajectory than the fit's" if self.distinct else "THE SAME TRAJECTORY AS THE FIT'S, no hold-out"
        )
        return [
            f"hold-out of {self.law}: {known} ({same})",
            f"{self.band}",
            f"excluded as stiction: {self.excluded_share:.1%} of the rows",
            f"relative error {self.all.relative:.2f} % all, {self.moving.relative:.2f} % moving; "
            f"baselines: zero 100 %, mean {self.all.relative_of_mean:.1f} %",
            f"RMS {self.all.rms:.3g} {self.unit} = {self.rms_of_rated:.2f} % of rated; "
            f"baselines: zero {self.zero_of_rated:.2f} %, mean {self.mean_of_rated:.2f} %",
            f"condition number of the fit {self.condition_number:.1f}",
        ]


class Sums:
    """Moments of measured and error, enough for :class:`Score`."""

    def __init__(self) -> None:
        self.rows, self.error, self.square, self.total = 0, 0.0, 0.0, 0.0

    def add(self, measured: Floats, predicted: Floats) -> None:
        self.rows += len(measured)
        self.error += float(np.sum((measured - predicted) ** 2))
        self.square += float(np.sum(measured**2))
        self.total += float(np.sum(measured))

    @classmethod
    def of(cls, parts: Sequence[Sums], units: Floats | None = None) -> Sums:
        """All parts together; each divided by its unit (n,), such as a joint's rated torque."""
        whole = cls()
        for part, unit in zip(parts, np.ones(len(parts)) if units is None else units, strict=True):
            whole.rows += part.rows
            whole.error += part.error / float(unit) ** 2
            whole.square += part.square / float(unit) ** 2
            whole.total += part.total / float(unit)
        return whole

    def score(self) -> Score:
        n = max(self.rows, 1)
        mean_square = max(self.square / n - (self.total / n) ** 2, 0.0)
        return Score(self.rows, math.sqrt(self.error / n), math.sqrt(self.square / n), math.sqrt(mean_square))


def hold_out(
    fit: JointFit, stretches: Iterable[Stretch], band: LowPass, *, rated: float, allow_repeat: bool = False
) -> HoldOutReport:  # fmt: skip
    """Judge a fit on stretches of another record; they are taken one by one.

    Parameters
    ----------
    stretches : iterable of Stretch
        In time order.
    band : LowPass
        In which measured and predicted are compared: the same for all fits that are to be compared.
    rated : float
        Rated torque or force, in the law's unit.
    allow_repeat : bool
        Judge a repeat too; the report then says that it is one. For records on the path of the fit that differ in
        something else, such as forces added.

    Raises
    ------
    Refused
        ``repeat``; ``too_short``.
    """
    if not rated > 0.0:
        raise Refused(
            f"a rated torque of {rated} is none", reason="no_rated_torque", where="hold-out",
            remedy="State the joint's rated torque in the rig profile",
        )  # fmt: skip
    every, moving, sketch = Sums(), Sums(), PathSketch()
    record: BandRecord | None = None
    for stretch in stretches:
        measured, predicted, moves = fit.compare(stretch, band)
        every.add(measured, predicted)
        moving.add(measured[moves], predicted[moves])
        sketch.add(stretch.position, stretch.rate_hz, stretch.first_index)
        record = band.record(stretch.rate_hz)
    if record is None or moving.rows == 0:
        raise Refused(
            "no row of the hold-out moves" if record else "there is no stretch to judge by",
            reason="too_short", where="hold-out", remedy="Name phases that the run has and in which the axis moves",
        )  # fmt: skip
    match = match_paths(fit.path, sketch.path())
    if match.repeat and not allow_repeat:
        raise Refused(
            f"the hold-out repeats the trajectory of the fit (positions correlate by {match.correlation:.4f} at a "
            f"shift of {match.shift_s:.2f} s), so its error says nothing about other motions",
            reason="repeat",
            where="hold-out",
            remedy="Hold out a trajectory of other frequencies and amplitudes",
        )
    share = 1.0 - moving.rows / every.rows
    return HoldOutReport(
        fit.law.name, every.score(), moving.score(), rated, fit.law.unit, match, record, share, fit.condition_number
    )
