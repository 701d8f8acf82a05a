"""What a check of a whole path found: a row per limit at its worst, a table, and the refusal."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import LimitError
from bench.models.motion_limits import CheckRow, MotionLimits

Floats = NDArray[np.float64]

#: Check → what to do about it when its limit is not kept.
REMEDIES = {
    "position": "Take another pose, or a smaller motion",
    "speed": "Move slower",
    "acceleration": "Accelerate less",
    "torque (rated)": "Take a lighter payload, a lower contact force, a gentler motion, or a pose that bears more",
    "torque (peak)": "Take a lighter payload, a lower contact force, a gentler motion, or a pose that bears more",
    "torque": "Take a lighter payload, or a gentler series: bench design",
    "tip speed": "Move slower, or nearer to the base",
    "box": "Keep the path inside the workspace box of the rig's profile",
    "singularity": "Take another pose for the contact, or another way to it",
    "contact force": "Press with less force, in another pose or in another direction",
    "deflection": "Take a pose nearer to the base, a lighter payload or a lower force",
    "resonance": "Take another base frequency or fewer harmonics",
}


@dataclass(frozen=True)
class PathSeries:
    """What a picture of the check shows, at the samples that were looked at.

    Parameters
    ----------
    time : (k,) [s]
    torque : (k, n)
        With friction and contact [N.m].
    singular : (k,)
        Smallest singular value of the tip's Jacobian [m].
    led : (k,) bool
        Where the tip is led.
    places : (k, n + 2, 3)
        Joints, flange and tip [m].
    q : (k, n)
    deflection : (k,) [m]
    """

    time: Floats
    torque: Floats
    singular: Floats
    led: NDArray[np.bool_]
    places: Floats
    q: Floats
    deflection: Floats


@dataclass(frozen=True)
class PreflightReport:
    """The verdict on a path.

    Parameters
    ----------
    title : str
        Rig, procedure and specimen.
    rows : tuple of CheckRow
    limits : MotionLimits
    series : PathSeries
    samples : int
        Samples of the path; all of them lie within a small cell of one that was looked at.
    """

    title: str
    rows: tuple[CheckRow, ...]
    limits: MotionLimits
    series: PathSeries
    samples: int

    @property
    def ok(self) -> bool:
        """Whether every limit is kept."""
        return all(row.ok for row in self.rows)

    @property
    def broken(self) -> tuple[CheckRow, ...]:
        """Rows whose limit is not kept, the worst first."""
        return tuple(sorted((row for row in self.rows if not row.ok), key=_severity))

    @property
    def worst(self) -> CheckRow:
        """The row with the smallest share of its limit left."""
        return min(self.rows, key=_severity)

    def refuse(self) -> None:
        """Refuse the path when a limit is not kept.

        Raises
        ------
        LimitError
            It names check, joint, value, limit, margin, pose, time and the remedy; ``reason`` is
            ``preflight_`` and the check's name.
        """
        if self.ok:
            return
        row, *others = self.broken
        more = f"; {len(others)} more: {', '.join(dict.fromkeys(_short(other) for other in others))}" if others else ""
        raise LimitError(
            f"{describe(row)}{more}",
            reason=f"preflight_{_key(row).partition(' (')[0].replace(' ', '_')}",
            where=f"preflight of {self.title}",
            remedy=REMEDIES[_key(row)],
        )

    def lines(self) -> list[str]:
        """Return the table as lines of text."""
        head = ("check", "joint", "worst", "limit", "margin", "left", "at", "pose [deg]")
        body = [_cells(row) for row in self.rows]
        widths = [max(len(cells[i]) for cells in (head, *body)) for i in range(len(head))]
        lines = [f"preflight of {self.title}: {'all limits are kept' if self.ok else 'REFUSED'}", ""]
        lines.append("    " + "  ".join(cell.ljust(width) for cell, width in zip(head, widths, strict=True)).rstrip())
        for row, cells in zip(self.rows, body, strict=True):
            mark = "ok  " if row.ok else "NO  "
            lines.append(mark + "  ".join(c.ljust(w) for c, w in zip(cells, widths, strict=True)).rstrip())
        for row in self.broken:
            lines += ["", f"{describe(row)}. {REMEDIES[_key(row)]}."]
        return lines


def describe(row: CheckRow) -> str:
    """Return a row as a sentence: check, joint, value, limit, margin, time and pose."""
    allowed = f"{row.sense} {row.limit:.4g} {row.unit} is allowed"
    if row.sense == "at least":
        allowed = f"at least {row.limit:.4g} {row.unit} is due"
    during = f" while {row.during}" if row.during else ""
    return (
        f"{row.check} of {row.joint} is {row.value:.4g} {row.unit} where {allowed}, "
        f"margin {row.margin:.4g} {row.unit}, at {row.time_s:.2f} s{during} in the pose {row.pose}"
    )


def _severity(row: CheckRow) -> float:
    return -math.inf if math.isnan(row.share) else row.share


def _key(row: CheckRow) -> str:
    return "box" if row.check.startswith("box") else row.check


def _short(row: CheckRow) -> str:
    return f"{row.check} of {row.joint}"


def _cells(row: CheckRow) -> tuple[str, ...]:
    bound = f"{'<=' if row.sense == 'at most' else '>='} {row.limit:.4g} {row.unit}"
    left = f"{100.0 * row.share:.0f} %" if math.isfinite(row.share) else "-"
    pose = " ".join(f"{angle:.0f}" for angle in row.pose_deg)
    value, margin = f"{row.value:.4g} {row.unit}", f"{row.margin:.4g} {row.unit}"
    return row.check, row.joint, value, bound, margin, left, f"{row.time_s:.2f} s", pose
