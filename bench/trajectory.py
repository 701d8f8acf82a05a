"""Trajectory files of an arm: written from a design, read back as the same series bit for bit, held to a rig's limits.

::

    profile = load_trajectory(find_profile("trajectories", "full_arm_train"))
    path = fourier_path(profile)
    check_trajectory(profile, rig, specimen)         # before anything moves
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import LimitError
from bench.models.fourier_path import FourierPath
from bench.profile import ArmRig, SpecimenProfile
from bench.profile.arm import JOINT_UNITS
from bench.profile.trajectory import FORMULA, SCHEMA, TrajectoryProfile

if TYPE_CHECKING:
    from bench.identify.excitation import Excitation
    from bench.models.motion_limits import CheckRow

#: Numbers of a row of coefficients on one line of a file.
ON_A_LINE = 4


def fourier_path(profile: TrajectoryProfile) -> FourierPath:
    """Return the series of a file; the same bits as were written."""
    return FourierPath(
        profile.base_frequency.to("Hz"),
        profile.harmonics,
        np.array([joint.number("offset") for joint in profile.joints]),
        np.array([joint.cosine for joint in profile.joints], dtype=np.float64),
        np.array([joint.sine for joint in profile.joints], dtype=np.float64),
        profile.periods,
    )


def trajectory_text(
    excitation: Excitation,
    *,
    name: str,
    arm: str,
    specimen: str,
    description: str = "",
    kinds: Sequence[str] | None = None,
) -> str:
    """Return the trajectory file of a design.

    Parameters
    ----------
    excitation : Excitation
    name, arm, specimen : str
        Of the trajectory, of the rig it was designed for, and of what that carried.
    description : str
    kinds : sequence of str, optional
        Of the joints; revolute when left out.
    """
    return "\n".join(_lines(excitation, name, arm, specimen, description, kinds)) + "\n"


def _lines(
    excitation: Excitation, name: str, arm: str, specimen: str, description: str, kinds: Sequence[str] | None
) -> Iterator[str]:
    path, limits = excitation.path, excitation.limits
    yield "# An arm's excitation: a finite Fourier series from rest to rest, to be replayed on the same arm."
    yield "# Coefficients in rad (m for a prismatic joint); t counts from the start."
    yield f'schema = "{SCHEMA}"'
    yield f'name = "{name}"'
    yield f"description = {_quoted(description)}"
    yield f'arm = "{arm}"'
    yield f'specimen = "{specimen}"'
    yield f'formula = "{FORMULA}"'
    yield f'base_frequency = "{path.base_hz!r} Hz"'
    yield f"harmonics = {list(path.harmonics)}"
    yield f"periods = {path.periods}"
    yield f'duration = "{path.duration_s!r} s"'
    yield f"condition_number = {excitation.condition_number:.6g}"
    yield f"columns = {excitation.columns}"
    yield f"seed = {excitation.seed}"
    yield f"evaluations = {excitation.evaluations}"
    yield f'software_version = "{excitation.version}"'
    yield f'model_digest = "{excitation.model_digest}"'
    yield ""
    yield "[workspace]"
    for key, corner in (("box_min", limits.box_min), ("box_max", limits.box_max)):
        yield f"{key} = [{', '.join(_text(value, 'm') for value in corner)}]"
    yield f"tip_speed_limit = {_text(limits.tip_speed, 'm/s')}"
    yield f"safety_factor_rated = {limits.factor_rated!r}"
    yield f"safety_factor_peak = {limits.factor_peak!r}"
    for j, joint in enumerate(limits.names):
        kind = "revolute" if kinds is None else kinds[j]
        units = {what: unit for what, (_, unit) in JOINT_UNITS[kind].items()}
        yield ""
        yield "[[joints]]"
        yield f'name = "{joint}"'
        if kind != "revolute":
            yield f'kind = "{kind}"'
        yield f"offset = {_text(path.offset[j], units['position'])}"
        yield from _row("cosine", path.cosine[j])
        yield from _row("sine", path.sine[j])
        yield f"position_min = {_text(limits.position_min[j], units['position'])}"
        yield f"position_max = {_text(limits.position_max[j], units['position'])}"
        yield f"speed_limit = {_text(limits.speed[j], units['speed'])}"
        yield f"acceleration_limit = {_text(limits.acceleration[j], units['acceleration'])}"
        yield f"torque_limit = {_text(limits.torque[j], units['torque'])}"


def _text(value: float, unit: str) -> str:
    if not math.isfinite(value):
        raise LimitError(
            f"a limit of {value} {unit} cannot stand in a trajectory file",
            reason="no_limit",
            where="trajectory file",
            remedy="State every limit of the joints, the box and the tip in the rig's profile",
        )
    return f'"{float(value)!r} {unit}"'


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
    return f'"{escaped}"'


def _row(key: str, values: Sequence[float] | np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> Iterator[str]:
    numbers = [repr(float(value)) for value in values]
    yield f"{key} = ["
    for first in range(0, len(numbers), ON_A_LINE):
        yield f"    {', '.join(numbers[first : first + ON_A_LINE])},"
    yield "]"


def check_trajectory(
    profile: TrajectoryProfile, rig: ArmRig, specimen: SpecimenProfile | None = None
) -> tuple[CheckRow, ...]:
    """Hold a trajectory to the limits of a rig, at every instant, with what the arm carries; return every limit's row.

    Raises
    ------
    LimitError
        ``other_arm``: it is of an arm with other joints; ``resonance``; ``trajectory``: a limit is not kept, with
        joint, value, margin and pose.
    """
    from bench.arm import arm_model
    from bench.arm_limits import motion_limits
    from bench.models.fourier_check import check_series
    from bench.models.preflight_report import describe

    where = f"{profile.source.path} on rig {rig.name}"
    ours, theirs = [joint.name for joint in rig.arm.joints], [joint.name for joint in profile.joints]
    if ours != theirs:
        raise LimitError(
            f"the trajectory moves the joints {', '.join(theirs)}; the arm has {', '.join(ours)}",
            reason="other_arm",
            where=where,
            remedy="Take a trajectory of this arm, or design one: bench design",
        )
    rows = check_series(fourier_path(profile), arm_model(rig, specimen), motion_limits(rig))
    broken = sorted((row for row in rows if not row.ok), key=lambda row: row.share)
    if broken:
        raise LimitError(
            describe(broken[0]),
            reason="trajectory",
            where=where,
            remedy="Design a trajectory for this rig and what it carries: bench design",
        )
    return rows


def same_model(profile: TrajectoryProfile, rig: ArmRig, specimen: SpecimenProfile | None = None) -> bool:
    """Return whether the trajectory was designed for this very model; with another one its condition number differs."""
    from bench.arm import arm_model
    from bench.identify.excitation import model_digest

    return model_digest(arm_model(rig, specimen)) == profile.model_digest
