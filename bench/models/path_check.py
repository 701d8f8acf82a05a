"""Check the whole path of an arm before it moves: limits, torques, singular poses, contact force, deflection, box.

Torques are ``ID(q, v, a) + friction + J^T F`` of the nominal model, against rated and peak torque over their safety
factors. The contact force that is available is exact (:func:`bench.models.statics_force.greatest_forces`), with what
motion, gravity and friction need taken off first.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import ModelError
from bench.models.arm_path import ArmPath
from bench.models.fourier_check import AXES, movable_points
from bench.models.motion_limits import CheckRow, MotionLimits
from bench.models.preflight_report import PathSeries, PreflightReport
from bench.models.statics import deflection, singular_values
from bench.models.statics_force import greatest_forces

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Sense = Literal["at most", "at least"]

#: Two samples count as one when no joint moves further [rad], and speed and acceleration change by less than these
#: shares of their limits.
CELL_RAD, CELL_SHARE = 0.005, 0.01
#: A joint slower than this may stick: friction is then taken in the direction that adds to the torque [rad/s].
STICKING = 1e-4
WHERE = "preflight"


@dataclass(frozen=True)
class _Looked:
    """The samples that are looked at and what they have in common."""

    path: ArmPath
    index: Indices
    limits: MotionLimits
    q: Floats
    v: Floats
    a: Floats

    def row(
        self,
        check: str,
        joint: str | int,
        values: Floats,
        limit: float | Floats,
        unit: str,
        sense: Sense = "at most",
        among: Indices | None = None,
        scale: float = math.nan,
    ) -> CheckRow:
        """Return the worst of ``values``; ``among`` says which samples they belong to where it is not all."""
        bound = np.broadcast_to(np.asarray(limit, dtype=np.float64), values.shape)
        excess = values - bound if sense == "at most" else bound - values
        worst = int(np.argmax(np.where(np.isnan(excess), np.inf, excess)))
        sample = worst if among is None else int(among[worst])
        index = int(self.index[sample])
        name = self.limits.names[joint] if isinstance(joint, int) else joint
        pose = self.limits.pose(self.q[sample])
        time, during = float(self.path.time[index]), self.path.text(index)
        value, due = float(values[worst]), float(bound[worst])
        return CheckRow(check, name, value, due, unit, sense, time, index, pose, during, scale)


def check_path(path: ArmPath, model: ArmModel, limits: MotionLimits, title: str = "a path") -> PreflightReport:
    """Check a path.

    Parameters
    ----------
    path : ArmPath
    model : ArmModel
        Nominal, with the rotors' inertia, the tool and what is mounted on it.
    limits : MotionLimits
    title : str
        Rig, procedure and specimen, for the table and for the refusal.

    Raises
    ------
    ModelError
        ``joint_count``: path, model and limits are not of one arm.
    """
    if path.size != model.n:
        raise ModelError(
            f"a path of {path.size} joints for an arm of {model.n}",
            reason="joint_count",
            where=f"{WHERE} of {title}",
            remedy="Take the plan of the same arm",
        )
    limits.check_size(model.n, f"{WHERE} of {title}")
    kept = distinct(path, limits)
    seen = _Looked(path, kept, limits, path.q[kept], path.v[kept], path.a[kept])
    jacobians = model.jacobian_rows(seen.q)
    rigid = model.inverse_dynamics_rows(seen.q, seen.v, seen.a)
    contact = np.einsum("kin,ki->kn", jacobians, path.wrenches()[kept])
    torque = with_friction(rigid + contact, seen.v, limits)
    places = model.joint_positions_rows(seen.q)
    smallest = singular_values(jacobians, limits.characteristic_length)[:, -1]
    # The springs lie between rotor and link: what turns the rotor itself does not load them.
    load = rigid + contact - seen.a @ model.motor_inertia.T
    given_way = np.linalg.norm(deflection(jacobians[:, :3], limits.stiffness, -load, limits.coupling), axis=1)
    led = np.flatnonzero(path.led_samples()[kept])
    rows = [
        *_joints(seen),
        *_torques(seen, torque),
        *_tip_speed(seen, jacobians),
        *_box(seen, places, movable_points(model)),
        *_singular(seen, smallest, led),
        *_force(seen, jacobians, rigid, led),
    ]
    if math.isfinite(limits.max_deflection):
        rows.append(seen.row("deflection", "tip", 1e3 * given_way, 1e3 * limits.max_deflection, "mm"))
    is_led = path.led_samples()[kept]
    series = PathSeries(path.time[kept], torque, smallest, is_led, places, seen.q, given_way)
    return PreflightReport(title, tuple(rows), limits, series, len(path.time))


def distinct(path: ArmPath, limits: MotionLimits) -> Indices:
    """Return the samples to look at: every other one lies in the same small cell as one of them.

    A cell is :data:`CELL_RAD` of every joint and :data:`CELL_SHARE` of the limits of speed and acceleration; the
    contact is the same in all of it. The extremes of every joint's position, speed and acceleration are among them.
    """
    columns = []
    for values, cell in (
        (path.q, np.full(path.size, CELL_RAD)),
        (path.v, CELL_SHARE * limits.speed),
        (path.a, CELL_SHARE * limits.acceleration),
    ):
        columns.append(np.floor(values / np.where(np.isfinite(cell) & (cell > 0.0), cell, CELL_RAD)))
    columns += [path.wrenches(), path.force_needed[:, None], path.direction, path.led_samples()[:, None]]
    cells = np.hstack([np.asarray(column, dtype=np.float64) for column in columns])
    changed = np.flatnonzero(np.any(np.diff(cells, axis=0) != 0.0, axis=1)) + 1
    extremes = [function(values, axis=0) for values in (path.q, path.v, path.a) for function in (np.argmin, np.argmax)]
    return np.unique(np.concatenate([[0, len(path.time) - 1], changed, *extremes]).astype(np.intp))


def with_friction(torque: Floats, v: Floats, limits: MotionLimits) -> Floats:
    """Return torques (k, n) with nominal friction; of a joint that may stick, the way that makes its torque larger."""
    sign = np.where(np.abs(v) > STICKING, np.sign(v), np.where(torque >= 0.0, 1.0, -1.0))
    return np.asarray(torque + sign * limits.coulomb + v * limits.viscous)


def _joints(seen: _Looked) -> Iterator[CheckRow]:
    limits = seen.limits
    for j in range(limits.size):
        shown, unit = (1.0, "m") if j in limits.prismatic else (math.degrees(1.0), "deg")
        least, most = shown * float(limits.position_min[j]), shown * float(limits.position_max[j])
        low = seen.row("position", j, shown * seen.q[:, j], least, unit, "at least", scale=most - least)
        high = seen.row("position", j, shown * seen.q[:, j], most, unit, scale=most - least)
        yield low if low.margin < high.margin else high
    for j in range(limits.size):
        yield seen.row("speed", j, np.abs(seen.v[:, j]), float(limits.speed[j]), limits.unit(j, "speed"))
    for j in range(limits.size):
        if math.isfinite(limits.acceleration[j]):
            unit = limits.unit(j, "acceleration")
            yield seen.row("acceleration", j, np.abs(seen.a[:, j]), float(limits.acceleration[j]), unit)


def _torques(seen: _Looked, torque: Floats) -> Iterator[CheckRow]:
    limits = seen.limits
    for name, bounds, factor in (
        ("torque (rated)", limits.rated_torque, limits.factor_rated),
        ("torque (peak)", limits.peak_torque, limits.factor_peak),
    ):
        for j in range(limits.size):
            if math.isfinite(bounds[j]):
                yield seen.row(name, j, np.abs(torque[:, j]), float(bounds[j]) / factor, limits.unit(j, "torque"))


def _tip_speed(seen: _Looked, jacobians: Floats) -> Iterator[CheckRow]:
    if math.isfinite(seen.limits.tip_speed):
        speed = np.linalg.norm(np.einsum("kin,kn->ki", jacobians[:, :3], seen.v), axis=1)
        yield seen.row("tip speed", "tip", speed, seen.limits.tip_speed, "m/s")


def _box(seen: _Looked, places: Floats, watched: list[tuple[int, str]]) -> Iterator[CheckRow]:
    """Check the points the joints can move; those of the base may lie where they do."""
    limits = seen.limits
    for axis in range(3):
        sides: list[tuple[float, Sense]] = [
            (float(limits.box_min[axis]), "at least"),
            (float(limits.box_max[axis]), "at most"),
        ]
        size = float(limits.box_max[axis] - limits.box_min[axis])
        found = [
            seen.row(f"box {AXES[axis]}", name, places[:, index, axis], bound, "m", sense, scale=size)
            for index, name in watched
            for bound, sense in sides
            if math.isfinite(bound)
        ]
        if found:
            yield min(found, key=lambda row: -math.inf if math.isnan(row.margin) else row.margin)


def _singular(seen: _Looked, smallest: Floats, led: Indices) -> Iterator[CheckRow]:
    """Where the tip is led the limit holds; elsewhere there is none, and the row shows how near the path comes."""
    limit = seen.limits.least_singular_value
    if len(led):
        yield seen.row("singularity", "tip", 1e3 * smallest[led], 1e3 * limit, "mm", "at least", led)
    else:
        yield seen.row("singularity", "tip", 1e3 * smallest, 0.0, "mm", "at least")


def _force(seen: _Looked, jacobians: Floats, rigid: Floats, led: Indices) -> Iterator[CheckRow]:
    needed = seen.path.force_needed[seen.index]
    pressing = led[needed[led] > 0.0]
    if not len(pressing):
        return
    limits = seen.limits
    # What friction may take is not there for the contact, in whichever direction the joint is about to move.
    left = np.maximum(limits.torque - limits.coulomb, 1e-9 * np.maximum(limits.torque, 1e-9))
    held = rigid[pressing] + seen.v[pressing] * limits.viscous
    direction = seen.path.direction[seen.index][pressing]
    available, joint = greatest_forces(jacobians[pressing], left, direction, held)
    worst = int(np.argmin(available - needed[pressing]))
    yield seen.row(
        "contact force", limits.names[int(joint[worst])], available, needed[pressing], "N", "at least", pressing
    )
