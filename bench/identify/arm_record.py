"""An arm's run as joint arrays on a uniform grid, whole or piece by piece.

::

    with Run.open(path) as run:
        for one in pieces(run, rig, ("train",)):
            one.position, one.torque, one.rate_hz

Imported runs hold ``motor_1_position`` and ``motor_1_torque`` of every motor, or ``joint_1_position`` and
``joint_1_torque`` of every joint. Our own hold a row per tick of the drives: positions with the time at which they were
read, and the current that was commanded with the time from which it held.

A commanded current is a staircase. Its mean over each cell of the grid, from half a step before to half a step after,
is exact and centred: it comes half a step late by no filter and no guess. What is left of delay is what the drive needs
to follow its command, and how well the rows' times are known (``time_uncertainty_s``). A measured current has been
read with the position, and is brought to the grid as the positions are, by a cubic spline.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.arm import drivetrain, ratings
from bench.errors import Refused
from bench.identify.arm_stretch import arm_of
from bench.identify.joint_record import PhaseLike, RunLike, chosen_phases
from bench.profile import ArmProfile, ArmRig

Floats = NDArray[np.float64]

LONGEST_S = 30.0
OVERLAP_S = 4.0
"""Neighbouring pieces share this much: what filters drop at the ends of one is in the other."""
MARGIN_ROWS = 8
GAP_ROWS = 10.0
"""Rows further apart than so many usual ones are a gap."""
UNIFORM = 1e-3
"""Times are those of the grid when none is off by more than this share of a step."""

TorqueSource = Literal["command", "measured"]


@dataclass(frozen=True)
class ArmRecord:
    """A stretch of an arm's run; k rows, n joints.

    Parameters
    ----------
    time_s : (k,)
    position : (k, n)
        Of the joints [rad; m].
    torque : (k, n)
        At the joints, by nominal ratios and torque constants [N.m; N].
    rate_hz : float
    names : tuple of str
        Of the joints.
    rated_torque : (n,)
    source : str
        Of the run.
    phases : tuple of str
    torque_source : str
        ``command``, ``measured`` (both currents), ``motor`` or ``joint`` (torques).
    time_uncertainty_s : float
        Of the rows' times, one standard deviation; zero where nothing is stated.
    first_index : int
        Index of the first row in the phase: pieces of a phase go on counting.
    """

    time_s: Floats
    position: Floats
    torque: Floats
    rate_hz: float
    names: tuple[str, ...]
    rated_torque: Floats
    source: str = ""
    phases: tuple[str, ...] = ()
    torque_source: str = ""
    time_uncertainty_s: float = 0.0
    first_index: int = 0

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.position.shape[1])

    def between(self, start_s: float, stop_s: float) -> ArmRecord:
        """Return the rows with ``start_s <= time < stop_s``."""
        rows = slice(*np.searchsorted(self.time_s, (start_s, stop_s)))
        return ArmRecord(
            self.time_s[rows], self.position[rows], self.torque[rows], self.rate_hz, self.names, self.rated_torque,
            self.source, self.phases, self.torque_source, self.time_uncertainty_s,
        )  # fmt: skip

    @classmethod
    def from_run(
        cls,
        run: RunLike,
        profile: ArmRig | ArmProfile | None = None,
        *,
        start_s: float = -math.inf,
        stop_s: float = math.inf,
        torque: TorqueSource = "command",
    ) -> ArmRecord:
        """Read a run, or part of it, at once; parameters and errors as of :func:`pieces`."""
        source = _Source(run, profile or arm_of(run), torque)
        return source.read(start_s, stop_s, (), None, 0)


def pieces(
    run: RunLike,
    profile: ArmRig | ArmProfile | None = None,
    phases: Sequence[str] | None = None,
    *,
    torque: TorqueSource = "command",
    longest_s: float = LONGEST_S,
    overlap_s: float = OVERLAP_S,
) -> Iterator[ArmRecord]:
    """Read phase by phase, long ones in pieces that overlap: memory does not grow with the run.

    Parameters
    ----------
    run : Run
    profile : ArmRig or ArmProfile, optional
        By default the one the run holds; imported runs hold none.
    phases : sequence of str, optional
        Names; by default all phases.
    torque : {"command", "measured"}
        Which current, where the run has both.
    longest_s, overlap_s : float
        Length of a piece, and what neighbours share [s].

    Raises
    ------
    Refused
        ``no_rig``, ``no_phase``, ``no_torque``; ``gap`` with the place where rows are missing; ``too_short``;
        ``not_finite``.
    ArchiveError
        A channel is missing or of another kind.
    """
    source = _Source(run, profile or arm_of(run), torque)
    for phase in chosen_phases(run, phases):
        length = phase.end_s - phase.start_s
        count = max(1, math.ceil((length - overlap_s) / (longest_s - overlap_s)))
        step, rate, first, origin = (length - overlap_s) / count, None, 0, phase.start_s
        for k in range(count):
            start = phase.start_s + k * step
            if rate is not None:  # on the grid of the pieces before
                first = round((start - origin) * rate)
                start = origin + first / rate
            stop = min(phase.start_s + (k + 1) * step + overlap_s, phase.end_s)
            one = source.read(start, stop, (phase,), rate, first)
            if rate is None:
                rate, origin = one.rate_hz, float(one.time_s[0])
            yield one


class _Source:
    """What a run has, and how it becomes joint arrays."""

    def __init__(self, run: RunLike, profile: ArmRig | ArmProfile, torque: TorqueSource) -> None:
        self.run, self.drives = run, drivetrain(profile.arm)
        self.names = tuple(joint.name for joint in profile.arm.joints)
        self.rated = ratings(profile.arm).rated_torque
        known = set(run.channels())
        self.position = "motor_{}_position" if "motor_1_position" in known else "joint_{}_position"
        self.timed = "time_half_width" in known
        kinds = {
            "command": "motor_1_command_current",
            "measured": "motor_1_current",
            "motor": "motor_1_torque",
            "joint": "joint_1_torque",
        }
        if "command_time" not in known:  # from when a command held is not known
            del kinds["command"]
        found = [kind for kind, name in kinds.items() if name in known]
        if not found:
            raise Refused(
                "the run has neither currents nor torques",
                reason="no_torque",
                where=str(run.path),
                remedy=f"Record, or import, one of {', '.join(kinds.values())} and its neighbours",
            )
        self.kind = torque if torque in found else found[0]

    def read(
        self, start_s: float, stop_s: float, phases: Sequence[PhaseLike], rate_hz: float | None, first: int
    ) -> ArmRecord:
        margin = MARGIN_ROWS / rate_hz if rate_hz else 0.1
        shaft, at = self._joints(self.position, "rad", "angle", start_s - margin, stop_s + margin)
        inside = np.flatnonzero((at >= start_s) & (at <= stop_s))
        if len(inside) < 2 * MARGIN_ROWS:
            raise self._refuse(f"{len(inside)} rows are too few", "too_short", start_s, stop_s, "Take a longer stretch")
        step = float(np.median(np.diff(at)))
        wide = np.flatnonzero(np.diff(at) > GAP_ROWS * step)
        if len(wide):
            gap = f"rows are missing between {at[wide[0]]:.3f} and {at[wide[0] + 1]:.3f} s"
            raise self._refuse(gap, "gap", start_s, stop_s, "Take stretches that are whole, or record it again")
        end = float(at[inside[-1]])
        begin = float(at[inside[0]]) if rate_hz is None else start_s
        rate = rate_hz or (len(inside) - 1) / (end - begin)
        grid = begin + np.arange(math.floor((end - begin) * rate + UNIFORM) + 1) / rate
        if self.kind in ("command", "measured"):
            torque = self._of_current(at, grid, rate, start_s - margin, stop_s + margin)
        else:
            given, when = self._joints(f"{self.kind}_{{}}_torque", "N.m", "torque", start_s - margin, stop_s + margin)
            made = given if self.kind == "joint" else self.drives.joint_torque(given)
            torque = _on_grid(when, made, grid)
        found = shaft if self.position.startswith("joint") else self.drives.joint_position(shaft)
        position = _on_grid(at, found, grid)
        bad = ~np.isfinite(position).all(axis=1) | ~np.isfinite(torque).all(axis=1)
        if bad.any():
            place = f"the first at {grid[int(np.argmax(bad))]:.3f} s"
            what = f"{int(bad.sum())} rows have values that are no numbers, {place}"
            raise self._refuse(what, "not_finite", start_s, stop_s, "Leave that stretch out")
        return ArmRecord(
            grid, position, torque, rate, self.names, self.rated, str(self.run.path), tuple(p.name for p in phases),
            self.kind, self._time_uncertainty(start_s, stop_s), first,
        )  # fmt: skip

    def _of_current(self, at: Floats, grid: Floats, rate: float, start: float, stop: float) -> Floats:
        if self.kind == "measured":
            current, when = self._joints("motor_{}_current", "A", "current", start, stop)
            return _on_grid(when, self.drives.joint_torque_of_current(current), grid)
        current, _ = self._joints("motor_{}_command_current", "A", "current", start, stop)
        since = self.run.channel_slice("command_time", start, stop, unit="s", kind="time").values
        held = np.where(np.isfinite(since), since, at)
        return _cell_means(held, self.drives.joint_torque_of_current(current), grid, rate)

    def _joints(self, name: str, unit: str, kind: str, start: float, stop: float) -> tuple[Floats, Floats]:
        count = len(self.names)
        found = [self.run.channel_slice(name.format(i + 1), start, stop, unit=unit, kind=kind) for i in range(count)]
        return np.stack([one.values for one in found], axis=1), np.asarray(found[0].time_s)

    def _time_uncertainty(self, start: float, stop: float) -> float:
        """Rows' times are known to within half the transaction, evenly: its width over root three."""
        if not self.timed:
            return 0.0
        widths = self.run.channel_slice("time_half_width", start, stop, unit="s", kind="time").values
        return float(np.nanmedian(widths)) / math.sqrt(3.0) if len(widths) else 0.0

    def _refuse(self, what: str, reason: str, start_s: float, stop_s: float, remedy: str) -> Refused:
        place = f"{self.run.path}: {start_s:.2f} to {stop_s:.2f} s"
        return Refused(what, reason=reason, where=place, remedy=remedy)


def _on_grid(at: Floats, values: Floats, grid: Floats) -> Floats:
    """Values (rows, n) at the times of a grid, by cubic splines unless they are there already."""
    step = grid[1] - grid[0] if len(grid) > 1 else 1.0
    first = int(np.searchsorted(at, grid[0] - 0.5 * step))
    same = at[first : first + len(grid)]
    if len(same) == len(grid) and float(np.abs(same - grid).max()) < UNIFORM * step:
        return np.ascontiguousarray(values[first : first + len(grid)])
    from scipy.interpolate import make_interp_spline

    return np.ascontiguousarray(make_interp_spline(at, values, k=3)(grid))


def _cell_means(since: Floats, values: Floats, grid: Floats, rate_hz: float) -> Floats:
    """Mean over each cell of the grid of a staircase that takes ``values`` (rows, n) from the times ``since`` on."""
    out = np.empty((len(grid), values.shape[1]))
    low, high = grid - 0.5 / rate_hz, grid + 0.5 / rate_hz
    ends = np.concatenate([since, [max(float(high[-1]), float(since[-1])) + 1.0]])
    before = min(float(low[0]), float(since[0])) - 1.0
    knots = np.concatenate([[before], ends])
    for j, column in enumerate(values.T):
        area = np.concatenate([[0.0, column[0] * (ends[0] - before)], column * np.diff(ends)]).cumsum()
        out[:, j] = (np.interp(high, knots, area) - np.interp(low, knots, area)) * rate_hz
    return out


__all__ = ["ArmRecord", "TorqueSource", "pieces"]
