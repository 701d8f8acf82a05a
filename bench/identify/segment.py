"""Cut a record into presses: by the phases the archive holds, else by what the stage did.

::

    for press in presses_from_run(run):
        contact = estimate_contact(press, "power_law")
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.memory import with_history
from bench.identify.press import Press

Floats = NDArray[np.float64]

PHASE_SEGMENTS: dict[str, str] = {
    "baseline": "baseline",
    "rise": "rise",
    "press": "rise",
    "ramp": "rise",
    "loading": "rise",
    "hold": "hold",
    "unload": "unload",
    "release": "unload",
    "residual": "residual",
}
"""Phase name in an archive → segment of a press. An approach joins the rise after it; others belong to no press."""

MOVING_FRACTION = 0.05
"""A stage slower than this fraction of the record's fast motion stands."""
SHORTEST_MOTION = 3
SPEED_WINDOW_S = 0.1


class PhaseLike(Protocol):
    """What a run tells about a phase; :class:`bench.archive.Phase` has it."""

    @property
    def name(self) -> str: ...
    @property
    def replicate(self) -> int: ...
    @property
    def start_s(self) -> float: ...
    @property
    def end_s(self) -> float: ...


class RunLike(Protocol):
    """What is used of :class:`bench.archive.Run`."""

    @property
    def name(self) -> str: ...
    @property
    def phases(self) -> tuple[Any, ...]: ...
    def get(self, name: str, *, unit: str, kind: str) -> Any: ...


def presses_from_run(
    run: RunLike, *, force: str = "contact_force", position: str = "encoder_position"
) -> tuple[Press, ...]:
    """Return the presses of an archived run, in the order they were made, each with those before it as its history.

    Parameters
    ----------
    run : bench.archive.Run
    force, position : str
        Channel names; force [N] positive when pressing, position [mm] positive into the tissue. When they have
        different time bases the position is interpolated to the force's.

    Raises
    ------
    Refused
        ``no_press`` when nothing in the record looks like a press.
    bench.errors.ArchiveError
        When a channel is missing.
    """
    forces = run.get(force, unit="N", kind="force")
    positions = run.get(position, unit="mm", kind="length")
    time_s = np.asarray(forces.time_s, dtype=np.float64)
    travel = np.asarray(positions.values, dtype=np.float64)
    other = np.asarray(positions.time_s, dtype=np.float64)
    if len(other) != len(time_s) or not np.array_equal(other, time_s):
        travel = np.interp(time_s, other, travel)
    values = np.asarray(forces.values, dtype=np.float64)
    if any(PHASE_SEGMENTS.get(phase.name) == "rise" for phase in run.phases):
        return presses_from_phases(time_s, travel, values, run.phases, name=run.name)
    return find_presses(time_s, travel, values, name=run.name)


def presses_from_phases(
    time_s: Floats, position_mm: Floats, force_N: Floats, phases: tuple[PhaseLike, ...], *, name: str = "run"
) -> tuple[Press, ...]:
    """Cut a record (n,) by its phases, in time order: each rise begins a press.

    The baseline phases since the press before belong to it, and the hold, unload and residual phases that follow. An
    approach between baseline and rise is part of the rise: the same motion, through free air until the touch.
    Replicate numbers are labels only, so they may start again with a second speed.

    Raises
    ------
    Refused
        ``no_press`` when no phase is a rise.
    """
    groups: list[tuple[int, dict[str, tuple[float, float]]]] = []
    waiting: tuple[float, float] | None = None
    free_air_s: float | None = None
    for phase in sorted(phases, key=lambda item: item.start_s):
        segment = PHASE_SEGMENTS.get(phase.name)
        span = (float(phase.start_s), float(phase.end_s))
        if segment == "baseline":
            waiting, free_air_s = (waiting[0] if waiting else span[0], span[1]), None
        elif phase.name == "approach":
            free_air_s = span[0] if waiting else None
        elif segment == "rise":
            begin = span[0] if free_air_s is None else free_air_s
            groups.append((int(phase.replicate), {"baseline": waiting or (begin, begin), "rise": (begin, span[1])}))
            waiting = free_air_s = None
        elif segment is not None and groups:
            groups[-1][1].setdefault(segment, span)
    presses: list[Press] = []
    for replicate, spans in groups:
        first = int(np.searchsorted(time_s, min(start for start, _ in spans.values())))
        last = int(np.searchsorted(time_s, max(end for _, end in spans.values())))
        here = time_s[first:last]
        cut = {
            segment: slice(int(np.searchsorted(here, start)), int(np.searchsorted(here, end)))
            for segment, (start, end) in spans.items()
        }
        presses.append(
            Press(
                here,
                position_mm[first:last],
                force_N[first:last],
                **cut,
                speed_mm_s=_median_speed(here[cut["rise"]], position_mm[first:last][cut["rise"]]),
                replicate=replicate,
                name=f"{name}, press {len(presses)}",
                history=(),  # filled in below, when all presses are known
            )
        )
    if not presses:
        raise _no_press(name, "no phase is called " + ", ".join(k for k, v in PHASE_SEGMENTS.items() if v == "rise"))
    return with_history(presses)


def find_presses(
    time_s: Floats, position_mm: Floats, force_N: Floats, *, name: str = "record", least_share: float = 0.2
) -> tuple[Press, ...]:
    """Find the presses of a record without phases.

    A press is a motion into the tissue whose force rises by at least ``least_share`` of the record's range of force; it
    starts where the stage came to stand before it and takes in the standing after it, the way back and the standing
    after that.

    Parameters
    ----------
    time_s, position_mm, force_N : (n,) float64
        Time [s], position [mm] positive into the tissue, force [N] positive when pressing.

    Raises
    ------
    Refused
        ``non_finite``, ``too_few_samples`` or ``no_press``.
    """
    if len(time_s) < 2 * SHORTEST_MOTION:
        raise Refused(f"the record has {len(time_s)} samples", reason="too_few_samples", where=name)
    if not (np.isfinite(time_s).all() and np.isfinite(position_mm).all() and np.isfinite(force_N).all()):
        raise Refused(
            "the record has missing or non-finite samples", reason="non_finite", where=name,
            remedy="Cut the gap out of the record or measure again",
        )  # fmt: skip
    runs = _motions(time_s, position_mm)
    span = float(np.ptp(force_N))
    presses: list[Press] = []
    for i, (direction, start, stop) in enumerate(runs):
        if direction <= 0:
            continue
        before = runs[i - 1] if i and runs[i - 1][0] == 0 else None
        origin = before[1] if before else start
        reference = float(np.median(force_N[origin : max(start, origin + 1)]))
        after = runs[i + 1 : i + 4]
        end = after[0][2] if after and after[0][0] == 0 else stop
        if span <= 0.0 or float(force_N[start:end].max()) - reference < least_share * span:
            continue
        cut = {"baseline": slice(origin, start), "rise": slice(start, stop)}
        last = stop
        for segment, wanted in (("hold", 0), ("unload", -1), ("residual", 0)):
            if after and after[0][0] == wanted:
                _, a, last = after.pop(0)
                cut[segment] = slice(a, last)
        # the standing after one press is also the free air before the next: both see it
        presses.append(
            Press(
                time_s[origin:last],
                position_mm[origin:last],
                force_N[origin:last],
                **{key: slice(part.start - origin, part.stop - origin) for key, part in cut.items()},
                speed_mm_s=_median_speed(time_s[start:stop], position_mm[start:stop]),
                replicate=len(presses),
                name=f"{name}, press {len(presses)}" if presses else name,
                history=(),
            )
        )
    if not presses:
        raise _no_press(name, "no motion into the tissue makes the force rise")
    return with_history(presses)


def _no_press(name: str, why: str) -> Refused:
    return Refused(
        f"there is no press in this record: {why}",
        reason="no_press",
        where=name,
        remedy="Check the channels, their signs (pressing is positive) and the phases",
    )


def _median_speed(time_s: Floats, position_mm: Floats) -> float:
    return float(np.median(np.gradient(position_mm, time_s))) if len(time_s) > 1 else float("nan")


def _motions(time_s: Floats, position_mm: Floats) -> list[tuple[int, int, int]]:
    """Return (direction, start, stop) of the stretches in which the stage moves in (1), out (-1) or stands (0)."""
    step = float(np.median(np.diff(time_s)))
    half = max(1, round(SPEED_WINDOW_S / (2.0 * step))) if 2.0 * step < SPEED_WINDOW_S else 0
    if half:
        # the mean speed over a window; its ends come half a window early or late, which the threshold below trims
        index = np.arange(len(time_s))
        a, b = np.maximum(index - half, 0), np.minimum(index + half, len(time_s) - 1)
        speed = (position_mm[b] - position_mm[a]) / (time_s[b] - time_s[a])
    else:
        # a sample moves when it has moved since the one before, so the last standing sample still is baseline
        speed = np.append(0.0, np.diff(position_mm) / np.diff(time_s))
    fast = float(np.percentile(np.abs(speed), 95.0))
    direction = np.where(np.abs(speed) > MOVING_FRACTION * fast, np.sign(speed), 0.0).astype(np.int64)
    edges = np.concatenate([[0], np.flatnonzero(np.diff(direction)) + 1, [len(direction)]])
    shortest = max(SHORTEST_MOTION, 2 * half)
    runs: list[tuple[int, int, int]] = []
    for a, b in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        kind = int(direction[a]) if b - a >= shortest else 0
        if runs and runs[-1][0] == kind:
            runs[-1] = (kind, runs[-1][1], b)
        else:
            runs.append((kind, a, b))
    # a stand shorter than the shortest motion between two motions of one direction is no stand
    merged: list[tuple[int, int, int]] = []
    for run in runs:
        if (
            len(merged) >= 2
            and merged[-1][0] == 0
            and merged[-1][2] - merged[-1][1] < shortest
            and merged[-2][0] == run[0] != 0
        ):
            merged.pop()
            merged[-1] = (run[0], merged[-1][1], run[2])
        else:
            merged.append(run)
    return merged


__all__ = ["Press", "find_presses", "presses_from_phases", "presses_from_run"]
