"""How well base parameters predict an arm's torques on a record they have not seen, per joint and altogether.

::

    report = hold_out_arm(fit, pieces(other, rig, ("hold_out",)), LowPass(10.0))
    print("\\n".join(report.lines()))

One band for all fits that are to be compared: lowering it makes any of them look better. Beside every error stands what
predicting zero, or the mean, reaches; a repeat of the fit's trajectory is refused, or marked as one where it is wanted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_fit import ArmFit, add_to_sketches
from bench.identify.arm_record import ArmRecord
from bench.identify.filtering import BandRecord, LowPass
from bench.identify.holdout import Score, Sums
from bench.identify.paths import PathMatch, PathSketch, match_joint_paths

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class JointScore:
    """Errors of one joint: over all rows, and over those outside the dead zone; ``rated`` torque."""

    name: str
    all: Score
    moving: Score
    rated: float

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


@dataclass(frozen=True)
class ArmHoldOutReport:
    """What a fit of an arm is worth on another record.

    Parameters
    ----------
    joints : tuple of JointScore
    all, moving : Score
        Of all joints together, torques as they are.
    all_rated, moving_rated : Score
        The same, every joint by its rated torque.
    match : PathMatch
        How alike the trajectory is to the one of the fit, all joints at once.
    band : BandRecord or None
    excluded_share : float
        Rows in or near the dead zone [1].
    condition_number : float
        Of the fit's regressor.
    """

    joints: tuple[JointScore, ...]
    all: Score
    moving: Score
    all_rated: Score
    moving_rated: Score
    match: PathMatch
    band: BandRecord | None
    excluded_share: float
    condition_number: float

    @property
    def distinct(self) -> bool:
        """Whether the trajectory is another one than that of the fit."""
        return not self.match.repeat

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "distinct_trajectory": self.distinct,
            "path_correlation": self.match.correlation,
            "band": None if self.band is None else self.band.record(),
            "excluded_share": self.excluded_share,
            "condition_number": self.condition_number,
            "relative_all": self.all.relative,
            "relative_moving": self.moving.relative,
            "relative_of_mean": self.all.relative_of_mean,
            "relative_all_rated": self.all_rated.relative,
            "relative_moving_rated": self.moving_rated.relative,
            "joints": [
                {
                    "name": one.name,
                    "relative_all": one.all.relative,
                    "relative_moving": one.moving.relative,
                    "rms_all": one.all.rms,
                    "rms_of_rated": one.rms_of_rated,
                    "zero_of_rated": one.zero_of_rated,
                    "mean_of_rated": one.mean_of_rated,
                }
                for one in self.joints
            ],
        }

    def lines(self) -> list[str]:
        """Report for people."""
        same = f"least alike joint: correlation {self.match.correlation:.4f}, size × {self.match.scale:.2f}"
        known = (
            "another trajectory than the fit's" if self.distinct else "THE SAME TRAJECTORY AS THE FIT'S, no hold-out"
        )
        width = max(len(one.name) for one in self.joints)
        head = f"{'joint':{width}}   moving %      all %        RMS   of rated %   zero %   mean %"
        return [
            f"hold-out: {known} ({same})",
            "no filter" if self.band is None else str(self.band),
            f"excluded as dead zone: {self.excluded_share:.1%} of the rows",
            f"relative error {self.moving.relative:.2f} % moving, {self.all.relative:.2f} % all; "
            f"baselines: zero 100 %, mean {self.all.relative_of_mean:.1f} %",
            f"every joint by its rated torque: {self.moving_rated.relative:.2f} % moving, "
            f"{self.all_rated.relative:.2f} % all",
            f"condition number of the fit {self.condition_number:.1f}",
            head,
            *(
                f"{one.name:{width}} {one.moving.relative:10.2f} {one.all.relative:10.2f} {one.all.rms:10.3g} "
                f"{one.rms_of_rated:12.2f} {one.zero_of_rated:8.2f} {one.mean_of_rated:8.2f}"
                for one in self.joints
            ),
        ]


def hold_out_arm(
    fit: ArmFit, records: Iterable[ArmRecord], band: LowPass | None, *, allow_repeat: bool = False
) -> ArmHoldOutReport:  # fmt: skip
    """Judge a fit on records of another trajectory; they are taken one by one.

    Parameters
    ----------
    records : iterable of ArmRecord
        In time order.
    band : LowPass or None
        In which measured and predicted are compared: the same for all fits that are to be compared.
    allow_repeat : bool
        Judge a repeat too; the report then says that it is one.

    Raises
    ------
    Refused
        ``repeat``; ``too_short``: no record, or a joint that never moves; ``band``, ``shape``.
    """
    n = fit.base.law.n
    sketches = [PathSketch() for _ in range(n)]
    seen: list[ArmRecord] = []

    def watched() -> Iterator[ArmRecord]:
        for record in records:
            add_to_sketches(sketches, record)
            seen[:] = [record]
            yield record

    each, moving = [Sums() for _ in range(n)], [Sums() for _ in range(n)]
    for measured, predicted, moves in fit.compare(watched(), band):
        for j in range(n):
            each[j].add(measured[:, j], predicted[:, j])
            moving[j].add(measured[moves[:, j], j], predicted[moves[:, j], j])
    if not seen or any(one.rows == 0 for one in moving):
        still = [name for name, one in zip(fit.base.law.model.names, moving, strict=True) if one.rows == 0]
        raise Refused(
            f"no row of the hold-out moves {', '.join(still)}" if seen else "there is no record to judge by",
            reason="too_short", where="hold-out", remedy="Name phases that the run has and in which every joint moves",
        )  # fmt: skip
    match = match_joint_paths(fit.paths, [sketch.path() for sketch in sketches])
    if match.repeat and not allow_repeat:
        raise Refused(
            f"the hold-out repeats the trajectory of the fit (positions of all joints correlate by "
            f"{match.correlation:.4f} or better at a shift of {match.shift_s:.2f} s), so its error says nothing about "
            "other motions",
            reason="repeat",
            where="hold-out",
            remedy="Hold out a trajectory of other frequencies and amplitudes",
        )
    rated = seen[0].rated_torque
    joints = tuple(
        JointScore(name, every.score(), moves.score(), float(limit))
        for name, every, moves, limit in zip(fit.base.law.model.names, each, moving, rated, strict=True)
    )
    total = sum(one.rows for one in each)
    return ArmHoldOutReport(
        joints,
        Sums.of(each).score(),
        Sums.of(moving).score(),
        Sums.of(each, rated).score(),
        Sums.of(moving, rated).score(),
        match,
        fit.settings.at(band).record_of(seen[0].rate_hz),
        1.0 - sum(one.rows for one in moving) / total,
        fit.condition_number,
    )


__all__ = ["ArmHoldOutReport", "JointScore", "hold_out_arm"]
