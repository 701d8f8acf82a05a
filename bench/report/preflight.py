"""The picture of a preflight check: torques over the path, what is left of each limit, singular poses, worst pose."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.models.motion_limits import CheckRow
from bench.models.preflight_report import PreflightReport
from bench.report import svg

Floats = NDArray[np.float64]

WIDTH, EDGE = 1180.0, 28.0
LEFT = 92.0
TOP = 84.0
LANE, GAP = 62.0, 10.0
PLOT = 560.0  # width of the panels over time
RIGHT = LEFT + PLOT + 150.0  # where the right column starts
VIEW = 190.0  # height of a view of the arm
MARK = 4.0
PANEL = 140.0


def preflight_svg(report: PreflightReport) -> str:
    """Return the picture of a check as the text of a self-contained SVG file."""
    n = report.limits.size
    lanes = TOP + 26.0
    below = lanes + n * (LANE + GAP) + 34.0
    parts = [
        *_head(report),
        *_torques(report, lanes),
        *_over_time(report, below),
        *_bars(report, lanes),
        *_poses(report, lanes + 22.0 * len(_worst_of_each(report)) + 44.0),
    ]
    bars_end = lanes + 22.0 * len(_worst_of_each(report)) + 44.0 + 2.0 * VIEW + 120.0
    height = max(below + 2.0 * PANEL + 10.0, bars_end)
    return svg.document(WIDTH, height, parts, f"Preflight of {report.title}")


def _head(report: PreflightReport) -> Iterator[str]:
    yield svg.text(EDGE, 34, f"Preflight: {report.title}", size=18, weight="bold")
    duration = float(report.series.time[-1] - report.series.time[0])
    if report.ok:
        worst = report.worst
        least = f"Least is left of {worst.check} of {worst.joint}, {_left(worst)}."
        said = f"All limits are kept over {duration:.1f} s. {least}"
        yield svg.text(EDGE, 58, said, size=13, fill=svg.GOOD)
        return
    broken = report.broken
    first = broken[0]
    yield svg.text(
        EDGE,
        58,
        f"REFUSED: {first.check} of {first.joint} is {_number(first.value)} {first.unit}, {first.sense} "
        f"{_number(first.limit)} {first.unit} is allowed, at {first.time_s:.2f} s in {first.pose}"
        + (f"; {len(broken) - 1} more" if len(broken) > 1 else ""),
        size=13,
        fill=svg.BAD,
        weight="bold",
    )


def _torques(report: PreflightReport, top: float) -> Iterator[str]:
    """A lane per joint: torque as a share of what it may be; the band is what is allowed."""
    series, limits = report.series, report.limits
    yield svg.text(
        LEFT, top - 10, "Torque with friction and contact, of what rated and peak allow", size=13, weight="bold"
    )
    x = _time_scale(report)
    for j, name in enumerate(limits.names):
        y0 = top + j * (LANE + GAP)
        middle = y0 + LANE / 2.0
        torque = series.torque[:, j]
        allowed = float(limits.torque[j])
        reach = 1.15 * max(allowed if math.isfinite(allowed) else 0.0, float(np.abs(torque).max()), 1e-9)
        scale = LANE / 2.0 / reach
        yield svg.rect(LEFT, y0, PLOT, LANE, fill="#fafbfc")
        if math.isfinite(allowed):
            yield svg.rect(LEFT, middle - allowed * scale, PLOT, 2.0 * allowed * scale)
            for side in (-1.0, 1.0):
                y = middle - side * allowed * scale
                yield svg.line(LEFT, y, LEFT + PLOT, y, stroke=svg.FAINT, dash="4 3")
        yield svg.line(LEFT, middle, LEFT + PLOT, middle)
        kept = svg.thinned(torque)
        beyond = bool(np.abs(torque).max() > allowed)
        yield svg.polyline(x(series.time[kept]), middle - torque[kept] * scale, stroke=svg.BAD if beyond else svg.GOOD)
        worst = int(np.argmax(np.abs(torque)))
        yield svg.circle(float(x(series.time[worst])), middle - float(torque[worst]) * scale, 3.2, fill=svg.INK)
        yield svg.text(LEFT - 10, middle + 4, name, anchor="end", size=12)
        yield svg.text(LEFT + PLOT + 8, middle - 2, f"{_number(abs(float(torque[worst])))} N.m", size=12)
        yield svg.text(LEFT + PLOT + 8, middle + 13, f"of {_number(allowed)}", size=11, fill=svg.FAINT)
    bottom = top + limits.size * (LANE + GAP) - GAP
    yield from _time_axis(report, bottom)


def _over_time(report: PreflightReport, top: float) -> Iterator[str]:
    """Distance from singular poses, and how far the tip gives way."""
    series, limits = report.series, report.limits
    led = series.led
    for number, (title, values, limit, unit, sense) in enumerate(
        (
            (
                "Smallest singular value of the tip's Jacobian",
                1e3 * series.singular,
                1e3 * limits.least_singular_value,
                "mm",
                1,
            ),
            (
                "Deflection of the tip by the joints' stiffness",
                1e3 * series.deflection,
                1e3 * limits.max_deflection,
                "mm",
                -1,
            ),
        )
    ):
        y0 = top + 16.0 + number * PANEL
        height = PANEL - 56.0
        yield svg.text(LEFT, y0 - 8, title, size=13, weight="bold")
        known = limit if math.isfinite(limit) else 0.0
        reach = 1.12 * max(float(values.max()), known, 1e-9)
        x = _time_scale(report)
        bottom = y0 + height
        yield svg.rect(LEFT, y0, PLOT, height, fill="#fafbfc")
        applies = sense < 0 or bool(led.any())
        if math.isfinite(limit) and limit > 0.0:
            y = bottom - limit / reach * height
            yield svg.line(LEFT, y, LEFT + PLOT, y, stroke=svg.BAD if applies else svg.FAINT, dash="4 3")
            said = f"{'at least' if sense > 0 else 'at most'} {_number(limit)} {unit}"
            yield svg.text(LEFT + PLOT + 8, y + 4, said, size=11, fill=svg.BAD if applies else svg.FAINT)
            if not applies:
                yield svg.text(LEFT + PLOT + 8, y + 18, "where the tip is led", size=11, fill=svg.FAINT)
        for tick in svg.ticks(0.0, reach, 3):
            y = bottom - tick / reach * height
            yield svg.text(LEFT - 10, y + 4, f"{tick:g}", anchor="end", size=11, fill=svg.FAINT)
            yield svg.line(LEFT - 4, y, LEFT, y, stroke=svg.FAINT)
        yield svg.text(LEFT - 44, y0 + height / 2.0 + 4, unit, anchor="end", size=11, fill=svg.FAINT)
        kept = svg.thinned(values)
        yield svg.polyline(x(series.time[kept]), bottom - values[kept] / reach * height)
        if sense > 0 and led.any():
            for first, last in _stretches(led):
                inside = slice(first, last + 1)
                yield svg.polyline(
                    x(series.time[inside]), bottom - values[inside] / reach * height, stroke=svg.CONTACT, width=3.0
                )
            yield svg.text(LEFT + PLOT, y0 - 8, "tip led", size=11, fill=svg.CONTACT, anchor="end")
        yield from _time_axis(report, bottom)


def _bars(report: PreflightReport, top: float) -> Iterator[str]:
    """A bar per check: how much of its limit is used at the worst joint."""
    yield svg.text(RIGHT, top - 10, "Used of each limit, at its worst", size=13, weight="bold")
    start, full = RIGHT + 102.0, 92.0
    rows = _worst_of_each(report)
    for number, row in enumerate(rows):
        y = top + 22.0 * number
        used = _used(row)
        colour = svg.GOOD if row.ok else svg.BAD
        yield svg.text(RIGHT, y + 12, row.check, size=12)
        yield svg.rect(start, y + 2, full, 13)
        yield svg.rect(start, y + 2, full * min(max(used, 0.0), 1.25), 13, fill=colour)
        said = f"{row.joint}, {_number(row.value)} of {_number(row.limit)} {row.unit}"
        if row.sense == "at least":
            said = f"{row.joint}, {_number(row.value)}, least {_number(row.limit)} {row.unit}"
        if math.isinf(row.share):
            said = f"{_number(row.value)} {row.unit}, no limit here"
        yield svg.text(start + full * 1.28, y + 12, said, size=11, fill=svg.INK if row.ok else svg.BAD)
    bottom = top + 22.0 * len(rows)
    yield svg.line(start + full, top - 2, start + full, bottom, stroke=svg.INK, width=1.2)
    yield svg.text(start + full, bottom + 14, "limit", size=11, anchor="middle", fill=svg.FAINT)


def _poses(report: PreflightReport, top: float) -> Iterator[str]:
    """The worst pose from the side and from the front, the start faintly behind it, inside the box."""
    worst = (report.broken or (report.worst,))[0]
    series, limits = report.series, report.limits
    at = int(np.argmin(np.abs(series.time - worst.time_s)))
    yield svg.text(
        RIGHT, top + 12, f"Worst pose: {worst.check} of {worst.joint}, at {worst.time_s:.2f} s", size=13, weight="bold"
    )
    yield svg.text(RIGHT, top + 30, worst.pose, size=11, fill=svg.FAINT)
    arms = [series.places[0], series.places[at]]
    base = np.zeros((1, 3))
    points = np.vstack([base, *arms])
    low, high = points.min(axis=0), points.max(axis=0)
    low = np.where(np.isfinite(limits.box_min), np.minimum(low, limits.box_min), low)
    high = np.where(np.isfinite(limits.box_max), np.maximum(high, limits.box_max), high)
    span = np.maximum(high - low, 1e-3)
    scale = min(VIEW / float(span[2]), (WIDTH - EDGE - RIGHT) / float(max(span[0], span[1])))
    centre_x = RIGHT + 0.5 * (WIDTH - EDGE - RIGHT)
    for number, (name, axis) in enumerate((("from the side (x, z)", 0), ("from the front (y, z)", 1))):
        floor = top + 46.0 + VIEW + number * (VIEW + 34.0)
        middle = 0.5 * float(low[axis] + high[axis])

        def place(p: Floats, axis: int = axis, middle: float = middle, floor: float = floor) -> tuple[Floats, Floats]:
            return centre_x + (p[..., axis] - middle) * scale, floor - (p[..., 2] - low[2]) * scale

        yield svg.text(centre_x, floor + 20, name, size=11, anchor="middle", fill=svg.FAINT)
        if np.all(np.isfinite([*limits.box_min, *limits.box_max])):
            (x0, x1), (y0, y1) = place(np.array([limits.box_min, limits.box_max]))
            yield svg.rect(float(x0), float(y1), float(x1 - x0), float(y0 - y1), fill="#fafbfc", stroke=svg.RULE)
        for arm, colour, width in ((arms[0], svg.RULE, 4.0), (arms[1], svg.GOOD if report.ok else svg.BAD, 5.0)):
            chain = np.vstack([base, arm])
            x, y = place(chain)
            yield svg.polyline(x, y, stroke=colour, width=width)
            if colour != svg.RULE:
                for a, b in zip(x[:-1], y[:-1], strict=True):
                    yield svg.circle(float(a), float(b), MARK, fill=svg.INK)
                yield svg.circle(float(x[-1]), float(y[-1]), MARK, fill=svg.CONTACT)
        yield svg.rect(
            centre_x + (0.0 - middle) * scale - 16.0, floor - (0.0 - low[2]) * scale, 32.0, 5.0, fill=svg.INK
        )


def _worst_of_each(report: PreflightReport) -> list[CheckRow]:
    """Return the worst row of each check, in the order of the table; the box is one check."""
    worst: dict[str, CheckRow] = {}
    for row in report.rows:
        name = "box" if row.check.startswith("box") else row.check
        if name not in worst or row.share < worst[name].share or math.isnan(row.share):
            worst[name] = row
    return list(worst.values())


def _used(row: CheckRow) -> float:
    """Return the share of a limit that is used: 1 at the limit."""
    if math.isnan(row.share):
        return 1.25
    if math.isinf(row.share):
        return 0.0 if row.share > 0.0 else 1.25
    if row.sense == "at least" and math.isnan(row.scale):
        return row.limit / row.value if row.value > row.limit else 1.0 - row.share
    return 1.0 - row.share if math.isnan(row.scale) else max(1.0 - 2.0 * row.share, 0.0) if row.ok else 1.0 - row.share


def _stretches(mask: NDArray[np.bool_]) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(int(a), int(b) - 1) for a, b in zip(edges[::2], edges[1::2], strict=True)]


class _TimeScale:
    def __init__(self, first: float, last: float) -> None:
        self._first, self._scale = first, PLOT / max(last - first, 1e-9)

    def __call__(self, time: float | Floats) -> Floats:
        return np.asarray(LEFT + (np.asarray(time, dtype=np.float64) - self._first) * self._scale)


def _time_scale(report: PreflightReport) -> _TimeScale:
    return _TimeScale(float(report.series.time[0]), float(report.series.time[-1]))


def _time_axis(report: PreflightReport, y: float) -> Iterator[str]:
    x = _time_scale(report)
    for tick in svg.ticks(float(report.series.time[0]), float(report.series.time[-1]), 7):
        at = float(x(tick))
        yield svg.line(at, y, at, y + 4, stroke=svg.FAINT)
        yield svg.text(at, y + 16, f"{tick:g} s", size=10.5, anchor="middle", fill=svg.FAINT)


def _left(row: CheckRow) -> str:
    return f"{100.0 * row.share:.0f} %" if math.isfinite(row.share) else "all of it"


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "no limit"
