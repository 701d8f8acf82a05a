"""Stretches of an arm's run, one phase each, as joint arrays on a uniform grid.

::

    with Run.open(path) as run:
        for one in stretches(run, rig, ("crossing",)):
            one.position, one.torque, one.phase

Torque is what the motors' currents, or their torques where those were recorded, make at the joints by the nominal
torque constants and ratios of the profile. Positions are smoothed before they are differentiated; torques are left as
they were recorded, for friction changes its sign at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arm import drivetrain
from bench.errors import Refused
from bench.identify.filtering import LowPass, differentiate
from bench.identify.joint_record import RIG_TEXT, RunLike
from bench.models.drivetrain import Drivetrain
from bench.profile import ArmProfile, ArmRig, parse_profile

Floats = NDArray[np.float64]

SMOOTH_HZ = 15.0
"""Cut-off of the positions' low-pass; a Fourier series of a few seconds ends far below."""
FEWEST_ROWS = 24
LONGEST_GAP_S = 0.1
WRENCH = ("force_x", "force_y", "force_z", "torque_x", "torque_y", "torque_z")


@dataclass(frozen=True)
class ArmStretch:
    """One phase of a run; arrays of k rows on a uniform grid, n joints.

    Parameters
    ----------
    phase : object
        Its ``name``, ``replicate``, ``angular_speed_rad_s``, ``start_s``, ``end_s``.
    time_s : (k,)
    position, velocity, acceleration : (k, n)
        Of the joints [rad, rad/s, rad/s2; m …].
    torque : (k, n)
        Motors' torque at the joints by the nominal constants [N.m; N].
    temperature : (k, n)
        Of the motors [degC]; NaN where none was recorded.
    rate_hz : float
    """

    phase: Any
    time_s: Floats
    position: Floats
    velocity: Floats
    acceleration: Floats
    torque: Floats
    temperature: Floats
    rate_hz: float


def arm_of(run: RunLike) -> ArmRig | ArmProfile:
    """Return the arm's profile from the texts of a run.

    Raises
    ------
    Refused
        ``no_rig``.
    """
    text = run.texts.get(RIG_TEXT)
    profile = parse_profile(text, run.path)[0] if text is not None else None
    if not isinstance(profile, ArmRig | ArmProfile):
        raise Refused(
            "the run holds no profile of an arm",
            reason="no_rig",
            where=f"{run.path}:{RIG_TEXT}",
            remedy="Analyse a run of an arm rig; others have no links and no drives in these numbers",
        )
    return profile


def stretches(
    run: RunLike, profile: ArmRig | ArmProfile, names: Sequence[str], *, smooth_hz: float = SMOOTH_HZ
) -> Iterator[ArmStretch]:
    """Read the phases of these names, one after the other.

    Raises
    ------
    Refused
        ``no_phase``; ``too_short``; ``gap`` in the drives' rows.
    """
    phases = [phase for phase in run.phases if phase.name in names]
    if not phases:
        raise Refused(
            f"the run has no phase {' or '.join(names)}",
            reason="no_phase",
            where=str(run.path),
            remedy="Take a run of the procedure that makes them",
        )
    drives = drivetrain(profile.arm)
    for phase in phases:
        yield stretch_of(run, drives, phase, smooth_hz=smooth_hz)


def stretch_of(run: RunLike, drives: Drivetrain, phase: Any, *, smooth_hz: float = SMOOTH_HZ) -> ArmStretch:
    """Read one phase; raises as :func:`stretches`."""
    n = len(drives.gear_ratio)
    shaft, time = _columns(run, "motor_{}_position", n, phase, "rad", "angle")
    span = float(time[-1] - time[0]) if len(time) > 1 else 0.0
    if len(time) < FEWEST_ROWS or span <= 0.0:
        raise _refuse(run, phase, f"it has {len(time)} rows of the drives", "too_short", "Make the phase longer")
    gap = float(np.diff(time).max())
    if gap > LONGEST_GAP_S:
        raise _refuse(run, phase, f"the drives' rows have a gap of {gap:.2f} s", "gap", "Record it again")
    if "motor_1_current" in run.channels():
        current, _ = _columns(run, "motor_{}_current", n, phase, "A", "current")
        torque = drives.joint_torque_of_current(current)
    else:
        motor, _ = _columns(run, "motor_{}_torque", n, phase, "N.m", "torque")
        torque = drives.joint_torque(motor)
    rate = (len(time) - 1) / span
    grid = time[0] + np.arange(len(time)) / rate
    position = _on(grid, time, drives.joint_position(shaft))
    smoothed = LowPass(min(smooth_hz, 0.2 * rate)).smooth(position, rate)
    velocity, acceleration = np.empty_like(smoothed), np.empty_like(smoothed)
    for i in range(n):
        found = differentiate(np.ascontiguousarray(smoothed[:, i]), rate)
        velocity[:, i], acceleration[:, i] = found.velocity, found.acceleration
    return ArmStretch(
        phase, grid, smoothed, velocity, acceleration, _on(grid, time, torque), _temperature(run, n, grid), rate
    )


def wrench_of(run: RunLike, phase: Any, start_s: float | None = None, stop_s: float | None = None) -> Floats:
    """Return (k, 6) the wrist sensor's wrench of a phase, or of a part of it [N, N.m], in the sensor's frame."""
    first, last = phase.start_s if start_s is None else start_s, phase.end_s if stop_s is None else stop_s
    columns = []
    for name in WRENCH:
        unit, kind = ("N", "force") if name.startswith("force") else ("N.m", "torque")
        columns.append(np.asarray(run.channel_slice(name, first, last, unit=unit, kind=kind).values))
    return np.stack(columns, axis=1)


def _columns(run: RunLike, name: str, n: int, phase: Any, unit: str, kind: str) -> tuple[Floats, Floats]:
    found = [run.channel_slice(name.format(i + 1), phase.start_s, phase.end_s, unit=unit, kind=kind) for i in range(n)]
    return np.stack([np.asarray(one.values) for one in found], axis=1), np.asarray(found[0].time_s)


def _temperature(run: RunLike, n: int, grid: Floats) -> Floats:
    values = np.full((len(grid), n), np.nan)
    known = set(run.channels())
    for i in range(n):
        name = f"motor_{i + 1}_temperature"
        if name in known:
            one = run.channel_slice(name, -np.inf, np.inf, unit="degC", kind="temperature")
            if len(one.time_s):
                values[:, i] = np.interp(grid, one.time_s, one.values)
    return values


def _on(grid: Floats, time: Floats, columns: Floats) -> Floats:
    return np.stack([np.interp(grid, time, column) for column in columns.T], axis=1)


def _refuse(run: RunLike, phase: Any, what: str, reason: str, remedy: str) -> Refused:
    place = f"{run.path}: phase {phase.name} {phase.replicate}"
    return Refused(what, reason=reason, where=place, remedy=remedy)
