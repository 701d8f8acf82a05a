"""Hold a Fourier series to an arm's limits at EVERY instant, not on samples alone.

Every quantity is evaluated on a grid over one period, and what it could do between two points of the grid
(:mod:`bench.models.path_bounds`) is added to it. The grid is made as fine as keeps that addition small; where it cannot
be, the addition stays large and the check is the stricter for it, never the laxer.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import LimitError
from bench.models.fourier_path import FourierPath
from bench.models.motion_limits import CheckRow, MotionLimits
from bench.models.path_bounds import path_bounds

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: What may be added between grid points, as a share of a limit, before the grid is made finer.
FINE = 0.003
LEAST_STEPS, MOST_STEPS = 1000, 60000
#: A point no joint moves further than this is part of the base and may stand on its table [m].
FIXED_M = 1e-6
AXES = "xyz"


@dataclass(frozen=True)
class Grid:
    """Points of one period and the arm's places there."""

    time: Floats
    q: Floats
    v: Floats
    a: Floats
    step: float
    rates: Floats


def check_lines(path: FourierPath, limits: MotionLimits, where: str = "Fourier series of the arm") -> None:
    """Refuse a series with a line inside a resonance's band.

    Raises
    ------
    LimitError
        ``resonance``: it names the line, the resonance and the joints that have the line.
    """
    size = np.hypot(path.cosine, path.sine)
    for number, line in enumerate(path.lines_hz):
        for resonance in limits.resonances:
            low, high = resonance.band
            if low <= line <= high and np.any(size[:, number] > 0.0):
                having = [limits.names[j] for j in range(path.size) if size[j, number] > 0.0]
                of = f" of {resonance.where}" if resonance.where else ""
                raise LimitError(
                    f"harmonic {path.harmonics[number]} of {path.base_hz:g} Hz, {line:g} Hz, on joint "
                    f"{', '.join(having)} lies within {100.0 * resonance.margin:g} % of the resonance{of} at "
                    f"{resonance.hz:g} Hz ({low:.4g} to {high:.4g} Hz)",
                    reason="resonance",
                    where=where,
                    remedy="Take another base frequency or fewer harmonics",
                )


def resonance_rows(path: FourierPath, limits: MotionLimits) -> tuple[CheckRow, ...]:
    """Return how far the line nearest to each resonance keeps from it, as a share of the resonance, as checks."""
    pose = limits.pose(path.start)
    size = np.hypot(path.cosine, path.sine)
    rows = []
    for resonance in limits.resonances:
        away = [
            abs(line / resonance.hz - 1.0) if np.any(size[:, k] > 0.0) else math.inf
            for k, line in enumerate(path.lines_hz)
        ]
        nearest = int(np.argmin(away))
        having = ", ".join(limits.names[j] for j in range(path.size) if size[j, nearest] > 0.0)
        said = f"exciting {path.lines_hz[nearest]:g} Hz (harmonic {path.harmonics[nearest]}) near {resonance.hz:g} Hz"
        row = CheckRow(
            "resonance", having, away[nearest], resonance.margin, "1", "at least", 0.0, 0, pose, said, math.nan
        )
        rows.append(row)
    return tuple(rows)


def check_series(path: FourierPath, model: ArmModel, limits: MotionLimits) -> tuple[CheckRow, ...]:
    """Return every limit of a series at its worst: a row per joint and quantity; values are bounds for every instant.

    Parameters
    ----------
    path : FourierPath
    model : ArmModel
        With the rotors' inertia and what the arm carries.
    limits : MotionLimits
        Position, speed, acceleration, torque with its safety factors, speed of the tip, box.

    Raises
    ------
    ModelError
        Another number of joints; ``not_at_rest``.
    LimitError
        ``resonance``.
    """
    where = "Fourier series of the arm"
    limits.check_size(path.size, where)
    limits.check_size(model.n, where)
    path.check_rest()
    check_lines(path, limits, where)
    rates = np.array([path.bound(order) for order in range(5)])
    # A prismatic joint's own place counts from its zero, not from the middle of the series.
    from_zero = rates.copy()
    from_zero[0] += np.abs(path.offset)
    bounds = path_bounds(model.description, from_zero, model.motor_inertia)
    steps = _steps(path, limits, rates, bounds.torque[:, 2], bounds.place)
    time: Floats = np.arange(steps + 1, dtype=np.float64) * (path.period_s / steps)
    grid = Grid(time, *path.sample(time), path.period_s / steps, rates)
    return (
        *_joint_rows(grid, limits),
        *_torque_rows(grid, model, limits, bounds.torque[:, 2]),
        *_place_rows(grid, model, limits, bounds.place),
    )


def _steps(path: FourierPath, limits: MotionLimits, rates: Floats, torque: Floats, place: Floats) -> int:
    """How many steps a period has, so that what is added between them is small against the limits."""
    room = np.minimum(limits.position_max - limits.position_min, 2.0 * math.pi)
    pairs = [(rates[2], room), (rates[3], limits.speed), (rates[4], limits.acceleration), (torque, limits.torque)]
    if math.isfinite(limits.tip_speed):
        pairs.append((place[-1:, 3], np.array([limits.tip_speed])))
    if np.any(np.isfinite(limits.box_min)) or np.any(np.isfinite(limits.box_max)):
        pairs.append((place[:, 2], np.array([0.1])))
    worst = max(float(np.max(second / np.maximum(limit, 1e-12))) for second, limit in pairs)
    wanted = path.period_s * math.sqrt(worst / (8.0 * FINE))
    return int(min(max(math.ceil(wanted), LEAST_STEPS), MOST_STEPS))


def _joint_rows(grid: Grid, limits: MotionLimits) -> Iterator[CheckRow]:
    beyond = grid.step**2 / 8.0
    for j in range(limits.size):
        more = beyond * float(grid.rates[2, j])
        unit, high, low = limits.unit(j, "position"), float(limits.position_max[j]), float(limits.position_min[j])
        yield _row("position", limits, grid, j, grid.q[:, j] + more, high, unit)
        yield _row("position", limits, grid, j, grid.q[:, j] - more, low, unit, "at least")
    for j in range(limits.size):
        fastest = np.abs(grid.v[:, j]) + beyond * float(grid.rates[3, j])
        yield _row("speed", limits, grid, j, fastest, float(limits.speed[j]), limits.unit(j, "speed"))
    for j in range(limits.size):
        quickest = np.abs(grid.a[:, j]) + beyond * float(grid.rates[4, j])
        yield _row(
            "acceleration", limits, grid, j, quickest, float(limits.acceleration[j]), limits.unit(j, "acceleration")
        )


def _torque_rows(grid: Grid, model: ArmModel, limits: MotionLimits, second: Floats) -> Iterator[CheckRow]:
    """Torque with friction.

    The rigid-body part is smooth; friction is not, so every point gets the worst it has within a step to either side.
    """
    rigid = model.inverse_dynamics_rows(grid.q, grid.v, grid.a)
    for j in range(limits.size):
        change = grid.step * float(grid.rates[2, j])
        fast, slow = grid.v[:, j] + change, grid.v[:, j] - change
        coulomb, viscous = float(limits.coulomb[j]), float(limits.viscous[j])
        most = rigid[:, j] + np.where(fast >= 0.0, coulomb, -coulomb) + viscous * fast
        least = rigid[:, j] + np.where(slow <= 0.0, -coulomb, coulomb) + viscous * slow
        largest = np.maximum(most, -least) + grid.step**2 / 8.0 * float(second[j])
        yield _row("torque", limits, grid, j, largest, float(limits.torque[j]), limits.unit(j, "torque"))


def _place_rows(grid: Grid, model: ArmModel, limits: MotionLimits, place: Floats) -> Iterator[CheckRow]:
    beyond = grid.step**2 / 8.0
    if math.isfinite(limits.tip_speed):
        jacobians = model.jacobian_rows(grid.q)
        speed = np.linalg.norm(np.einsum("kij,kj->ki", jacobians[:, :3], grid.v), axis=1)
        fastest = speed + beyond * float(place[-1, 3])
        yield _row("tip speed", limits, grid, "tip", fastest, limits.tip_speed, "m/s")
    if np.all(np.isinf(limits.box_min)) and np.all(np.isinf(limits.box_max)):
        return
    places = model.joint_positions_rows(grid.q)
    names = point_names(limits.names)
    moving = [index for index, _ in movable_points(model)]
    if not moving:
        return
    more = beyond * place[moving, 2]
    for axis in range(3):
        along, what = places[:, moving, axis], f"box {AXES[axis]}"
        high, low = along + more, along - more
        top, bottom = int(np.argmax(high.max(axis=0))), int(np.argmin(low.min(axis=0)))
        yield _row(what, limits, grid, names[moving[top]], high[:, top], float(limits.box_max[axis]), "m")
        yield _row(
            what, limits, grid, names[moving[bottom]], low[:, bottom], float(limits.box_min[axis]), "m", "at least"
        )


def point_names(joints: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of the points whose places are held inside the box: joints, flange, tip."""
    return (*(f"axis of {name}" for name in joints), "flange", "tip")


def movable_points(model: ArmModel) -> list[tuple[int, str]]:
    """Return which of the points the joints can move, and their names; the others are the base's.

    Number and name as in :meth:`~bench.models.rigid.ArmModel.joint_positions_rows` and :func:`point_names`.
    """
    poses = np.outer(np.arange(4, dtype=np.float64), 0.3 + 0.1 * np.arange(model.n))
    spread = np.ptp(model.joint_positions_rows(poses), axis=0).max(axis=1)
    return [(index, name) for index, name in enumerate(point_names(model.names)) if spread[index] > FIXED_M]


def _row(
    check: str,
    limits: MotionLimits,
    grid: Grid,
    joint: int | str,
    values: Floats,
    limit: float,
    unit: str,
    sense: Literal["at most", "at least"] = "at most",
) -> CheckRow:
    index = int(np.argmax(values) if sense == "at most" else np.argmin(values))
    name = joint if isinstance(joint, str) else limits.names[joint]
    pose = limits.pose(grid.q[index])
    return CheckRow(check, name, float(values[index]), limit, unit, sense, float(grid.time[index]), index, pose)
