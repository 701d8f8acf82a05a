"""A joint's run as arrays on the DAQ's uniform grid, whole or piece by piece.

::

    with Run.open(path) as run:
        fit = identify(motor_side(), (r.motor_side() for r in pieces(run, ("train",))), LowPass(6.0))
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.alignment import Alignment, Encoders, align_stretches
from bench.identify.joint_laws import Stretch

Floats = NDArray[np.float64]

RIG_TEXT = "rig.toml"
LONGEST_S = 30.0
OVERLAP_S = 2.0
"""Neighbouring pieces share this much, so that what a filter drops at their ends is in the neighbour."""
MARGIN_S = 0.2
ALIGN_PIECE_S, ALIGN_PIECES = 5.0, 12
LONGEST_GAP_S = 0.1
DRIVE_CHANNELS = {
    "motor_angle": ("rad", "angle"),
    "command_torque": ("N.m", "torque"),
    "drive_temperature": ("degC", "temperature"),
    "desired_angle": ("rad", "angle"),
}


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
    def path(self) -> Path: ...
    @property
    def texts(self) -> dict[str, str]: ...
    @property
    def phases(self) -> tuple[Any, ...]: ...
    def channels(self) -> list[str]: ...
    def channel_slice(
        self, name: str, start_s: float, stop_s: float, *, unit: str | None = None, kind: str | None = None
    ) -> Any: ...


@dataclass(frozen=True)
class JointFacts:
    """What the rig profile says: rotor turns per joint turn [1], rated torque of the joint [N.m], bandwidth [Hz]."""

    gear_ratio: float
    rated_torque: float
    bandwidth_hz: float

    @classmethod
    def from_run(cls, run: RunLike) -> JointFacts:
        """Read them from the archived text of the rig profile.

        Raises
        ------
        Refused
            ``no_rig``: the text is missing or not that of a single-joint rig.
        """
        from bench.profile import parse_profile

        profile: Any = parse_profile(run.texts[RIG_TEXT], run.path)[0] if RIG_TEXT in run.texts else None
        if getattr(profile, "kind", "") != "single_joint":
            raise Refused(
                "the run holds no profile of a single-joint rig",
                reason="no_rig",
                where=f"{run.path}:{RIG_TEXT}",
                remedy="Analyse a run of the single-joint rig; others have no gear ratio and no rated torque",
            )
        joint = profile.joint
        return cls(profile.drive.gear_ratio, joint.rated_torque.to("N.m"), joint.bandwidth.to("Hz"))


@dataclass(frozen=True)
class JointRecord:
    """A stretch of a joint's run, all (n,) float64 on the DAQ's grid.

    Parameters
    ----------
    time_s : (n,)
        On the DAQ's clock.
    joint_angle, motor_angle : (n,)
        Link side, and rotor angle over the gear ratio, the latter by cubic splines through the drive's rows [rad].
    joint_torque : (n,)
        The transducer's [N.m].
    motor_torque_command : (n,)
        ``u``, gear ratio times commanded rotor torque, held from one row of the drive to the next [N.m].
    desired_angle : (n,)
        What the controller wanted [rad]; NaN where a run has none.
    temperature : (n,)
        The drive's [degC]; NaN where a run has none.
    rate_hz, gear_ratio, rated_torque : float
    name : str
    phases : tuple
        Phases of the run that touch the stretch.
    alignment : Alignment
        Between the clocks of drive and DAQ.
    first_index : int
        Index of the first sample in the run.
    """

    time_s: Floats
    joint_angle: Floats
    motor_angle: Floats
    joint_torque: Floats
    motor_torque_command: Floats
    desired_angle: Floats
    temperature: Floats
    rate_hz: float
    gear_ratio: float
    rated_torque: float
    name: str
    phases: tuple[PhaseLike, ...]
    alignment: Alignment
    first_index: int = 0

    def motor_side(self) -> Stretch:
        """Stretch for :func:`~bench.identify.joint_laws.motor_side`."""
        inputs = {"command": self.motor_torque_command}
        return Stretch(self.rate_hz, self.motor_angle, self.joint_torque, inputs, self.first_index, self.name)

    def link_side(self) -> Stretch:
        """Stretch for :func:`~bench.identify.joint_laws.link_side`."""
        return Stretch(self.rate_hz, self.joint_angle, self.joint_torque, {}, self.first_index, self.name)

    @classmethod
    def from_run(
        cls, run: RunLike, phases: Sequence[str] | None = None, *, alignment: Alignment | None = None
    ) -> JointRecord:
        """Read from the start of the first of the named phases to the end of the last, all at once.

        For long runs take :func:`pieces`. Parameters and errors as there.
        """
        facts = JointFacts.from_run(run)
        chosen = chosen_phases(run, phases)
        known = alignment or alignment_of(run, phases)
        start, stop = min(p.start_s for p in chosen), max(p.end_s for p in chosen)
        return _read(run, facts, known, start, stop, chosen, " ".join(dict.fromkeys(p.name for p in chosen)))


def pieces(
    run: RunLike,
    phases: Sequence[str] | None = None,
    *,
    alignment: Alignment | None = None,
    longest_s: float = LONGEST_S,
    overlap_s: float = OVERLAP_S,
) -> Iterator[JointRecord]:
    """Read phase by phase, long ones in pieces that overlap: memory does not grow with the run.

    Parameters
    ----------
    phases : sequence of str, optional
        Names; by default all phases.
    alignment : Alignment, optional
        By default :func:`alignment_of` the run.
    longest_s, overlap_s : float
        Length of a piece, and what neighbours share [s].

    Raises
    ------
    Refused
        ``no_phase``, ``no_rig``, ``gap`` (rows of the drive are missing), and what :func:`alignment_of` raises.
    ArchiveError
        A channel is missing or of another kind.
    """
    facts = JointFacts.from_run(run)
    chosen = chosen_phases(run, phases)
    known = alignment or alignment_of(run, phases)
    for phase in chosen:
        length = phase.end_s - phase.start_s
        count = max(1, math.ceil((length - overlap_s) / (longest_s - overlap_s)))
        step = (length - overlap_s) / count
        for k in range(count):
            start, stop = phase.start_s + k * step, phase.start_s + (k + 1) * step + overlap_s
            yield _read(run, facts, known, start, min(stop, phase.end_s), (phase,), phase.name)


def chosen_phases(run: RunLike, phases: Sequence[str] | None) -> tuple[PhaseLike, ...]:
    """Phases of the run with these names in time order; all of them when ``phases`` is None."""
    found = [p for p in run.phases if (phases is None or p.name in phases) and p.end_s > p.start_s]
    if not found:
        wanted = "phase" if phases is None else " or ".join(phases)
        there = ", ".join(dict.fromkeys(p.name for p in run.phases)) or "none"
        raise Refused(
            f"the run has no {wanted}", reason="no_phase", where=str(run.path), remedy=f"Its phases: {there}"
        )  # fmt: skip
    return tuple(sorted(found, key=lambda p: p.start_s))


def alignment_of(run: RunLike, phases: Sequence[str] | None = None) -> Alignment:
    """Align drive and DAQ by at most a minute of the run, spread over its phases.

    Raises
    ------
    Refused
        As :func:`~bench.identify.alignment.align_stretches`.
    """
    facts = JointFacts.from_run(run)
    windows: list[tuple[float, float]] = []
    for phase in chosen_phases(run, phases):
        count = max(int((phase.end_s - phase.start_s) / ALIGN_PIECE_S), 1)
        edges = np.linspace(phase.start_s, phase.end_s, count + 1)
        windows += zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    if len(windows) > ALIGN_PIECES:
        windows = [windows[i] for i in np.linspace(0, len(windows) - 1, ALIGN_PIECES).astype(int)]
    found = []
    for start, stop in windows:
        drive = run.channel_slice("motor_angle", start, stop, unit="rad", kind="angle")
        angle = run.channel_slice("joint_angle", start, stop, unit="rad", kind="angle")
        torque = run.channel_slice("joint_torque", start, stop, unit="N.m", kind="torque")
        n = min(len(angle.values), len(torque.values))
        if len(drive.values) > 1 and n > 100:
            found.append(
                Encoders(
                    drive.time_s, drive.values / facts.gear_ratio, angle.time_s[:n], angle.values[:n], torque.values[:n]
                )
            )
    return align_stretches(found)


def _read(
    run: RunLike,
    facts: JointFacts,
    alignment: Alignment,
    start_s: float,
    stop_s: float,
    phases: Sequence[PhaseLike],
    name: str,
) -> JointRecord:
    """Read one stretch [DAQ time] and bring the drive's rows to its grid."""
    low, high = alignment.to_drive(start_s) - MARGIN_S, alignment.to_drive(stop_s) + MARGIN_S
    present = set(run.channels())
    rows = {
        channel: run.channel_slice(channel, low, high, unit=unit, kind=kind)
        for channel, (unit, kind) in DRIVE_CHANNELS.items()
        if channel in present or channel in ("motor_angle", "command_torque")
    }
    at = alignment.to_daq(rows["motor_angle"].time_s)
    if len(at) < 4:
        raise _gap(run, start_s, stop_s, f"{len(at)} rows")
    start_s, stop_s = max(start_s, float(at[0])), min(stop_s, float(at[-1]))
    widest = float(np.diff(at[(at >= start_s) & (at <= stop_s)], prepend=start_s).max(initial=0.0))
    if widest > LONGEST_GAP_S:
        raise _gap(run, start_s, stop_s, f"a gap of {widest * 1e3:.0f} ms")
    angle = run.channel_slice("joint_angle", start_s, stop_s, unit="rad", kind="angle")
    torque = run.channel_slice("joint_torque", start_s, stop_s, unit="N.m", kind="torque")
    n = min(len(angle.values), len(torque.values))
    time, rate = angle.time_s[:n], float(angle.rate_hz)
    held = np.maximum(np.searchsorted(at, time, side="right") - 1, 0)

    def linear(channel: str) -> Floats:
        if channel not in rows:
            return np.full(n, np.nan)
        values: Floats = np.interp(time, at, rows[channel].values)
        return values

    return JointRecord(
        time,
        angle.values[:n],
        _spline(at, rows["motor_angle"].values / facts.gear_ratio, time),
        torque.values[:n],
        facts.gear_ratio * rows["command_torque"].values[held],
        linear("desired_angle"),
        linear("drive_temperature"),
        rate,
        facts.gear_ratio,
        facts.rated_torque,
        name,
        tuple(phases),
        alignment,
        round(float(time[0]) * rate) if n else 0,
    )


def _spline(at: Floats, values: Floats, time: Floats) -> Floats:
    """Cubic spline: a straight line between rows at 500 Hz would take 0.1 % off a motion of 10 Hz."""
    from scipy.interpolate import make_interp_spline

    return np.asarray(make_interp_spline(at, values, k=3)(time))


def _gap(run: RunLike, start_s: float, stop_s: float, what: str) -> Refused:
    return Refused(
        f"the drive has {what} between {start_s:.2f} and {stop_s:.2f} s",
        reason="gap",
        where=str(run.path),
        remedy="Analyse phases without missed ticks, or repeat the run",
    )
