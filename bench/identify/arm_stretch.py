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
from functools import cached_property
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


class ArmRows:
    """The rows of the drives, and the wrist sensor's, of a run; read once, for a loop of some hundred hertz is small.

    Parameters
    ----------
    run : Run
    drives : Drivetrain
    """

    def __init__(self, run: RunLike, drives: Drivetrain) -> None:
        self.run, self.drives = run, drives
        self.size = len(drives.gear_ratio)
        self._known = set(run.channels())

    @cached_property
    def _shaft(self) -> tuple[Floats, Floats]:
        return self._joints("motor_{}_position", "rad", "angle")

    @property
    def time_s(self) -> Floats:
        """(rows,)"""
        return self._shaft[1]

    @cached_property
    def position(self) -> Floats:
        """Joint positions (rows, n), as recorded."""
        return self.drives.joint_position(self._shaft[0])

    @cached_property
    def torque(self) -> Floats:
        """Motors' torque at the joints (rows, n)."""
        if "motor_1_current" in self._known:
            return self.drives.joint_torque_of_current(self._joints("motor_{}_current", "A", "current")[0])
        return self.drives.joint_torque(self._joints("motor_{}_torque", "N.m", "torque")[0])

    @cached_property
    def _temperature(self) -> list[tuple[Floats, Floats] | None]:
        names = [f"motor_{i + 1}_temperature" for i in range(self.size)]
        return [self._whole(name, "degC", "temperature") if name in self._known else None for name in names]

    @property
    def sensed(self) -> bool:
        """Whether there is a wrist sensor."""
        return set(WRENCH) <= self._known

    @cached_property
    def wrench(self) -> tuple[Floats, Floats]:
        """Wrist sensor (samples, 6) [N, N.m] in its own frame, and time (samples,)."""
        found = [self._whole(name, *(("N", "force") if "force" in name else ("N.m", "torque"))) for name in WRENCH]
        return np.stack([values for values, _ in found], axis=1), found[0][1]

    def wrench_between(self, start_s: float, stop_s: float) -> tuple[Floats, Floats]:
        """Part of :attr:`wrench` between two times, both included."""
        values, time = self.wrench
        first, last = np.searchsorted(time, start_s, "left"), np.searchsorted(time, stop_s, "right")
        return values[first:last], time[first:last]

    def stretch(self, phase: Any, *, smooth_hz: float = SMOOTH_HZ) -> ArmStretch:
        """Return one phase; raises as :func:`stretches`."""
        first = int(np.searchsorted(self.time_s, phase.start_s, "left"))
        last = int(np.searchsorted(self.time_s, phase.end_s, "right"))
        time = self.time_s[first:last]
        span = float(time[-1] - time[0]) if len(time) > 1 else 0.0
        if len(time) < FEWEST_ROWS or span <= 0.0:
            raise self._refuse(phase, f"it has {len(time)} rows of the drives", "too_short", "Make the phase longer")
        gap = float(np.diff(time).max())
        if gap > LONGEST_GAP_S:
            raise self._refuse(phase, f"the drives' rows have a gap of {gap:.2f} s", "gap", "Record it again")
        rate = (len(time) - 1) / span
        grid = time[0] + np.arange(len(time)) / rate
        position = _on(grid, time, self.position[first:last])
        smoothed = LowPass(min(smooth_hz, 0.2 * rate)).smooth(position, rate)
        velocity, acceleration = np.empty_like(smoothed), np.empty_like(smoothed)
        for i in range(self.size):
            found = differentiate(np.ascontiguousarray(smoothed[:, i]), rate)
            velocity[:, i], acceleration[:, i] = found.velocity, found.acceleration
        torque = _on(grid, time, self.torque[first:last])
        warm = [_warmth(one, grid) for one in self._temperature]
        return ArmStretch(
            phase, grid, smoothed, velocity, acceleration, torque, np.stack(warm, axis=1), rate
        )  # fmt: skip

    def _joints(self, name: str, unit: str, kind: str) -> tuple[Floats, Floats]:
        found = [self._whole(name.format(i + 1), unit, kind) for i in range(self.size)]
        return np.stack([values for values, _ in found], axis=1), found[0][1]

    def _whole(self, name: str, unit: str, kind: str) -> tuple[Floats, Floats]:
        one = self.run.channel_slice(name, -np.inf, np.inf, unit=unit, kind=kind)
        return np.asarray(one.values), np.asarray(one.time_s)

    def _refuse(self, phase: Any, what: str, reason: str, remedy: str) -> Refused:
        place = f"{self.run.path}: phase {phase.name} {phase.replicate}"
        return Refused(what, reason=reason, where=place, remedy=remedy)


def stretches(
    source: RunLike | ArmRows, profile: ArmRig | ArmProfile, names: Sequence[str], *, smooth_hz: float = SMOOTH_HZ
) -> Iterator[ArmStretch]:
    """Read the phases of these names, one after the other.

    Raises
    ------
    Refused
        ``no_phase``; ``too_short``; ``gap`` in the drives' rows.
    """
    rows = source if isinstance(source, ArmRows) else ArmRows(source, drivetrain(profile.arm))
    phases = [phase for phase in rows.run.phases if phase.name in names]
    if not phases:
        raise Refused(
            f"the run has no phase {' or '.join(names)}",
            reason="no_phase",
            where=str(rows.run.path),
            remedy="Take a run of the procedure that makes them",
        )
    for phase in phases:
        yield rows.stretch(phase, smooth_hz=smooth_hz)


def _warmth(known: tuple[Floats, Floats] | None, grid: Floats) -> Floats:
    if known is None or not len(known[0]):
        return np.full(len(grid), np.nan)
    return np.asarray(np.interp(grid, known[1], known[0]))


def _on(grid: Floats, time: Floats, columns: Floats) -> Floats:
    return np.stack([np.interp(grid, time, column) for column in columns.T], axis=1)


def _refuse(run: RunLike, phase: Any, what: str, reason: str, remedy: str) -> Refused:
    place = f"{run.path}: phase {phase.name} {phase.replicate}"
    return Refused(what, reason=reason, where=place, remedy=remedy)
