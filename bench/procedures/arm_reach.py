"""Where the joints have to be for the tip to be somewhere: damped inverse kinematics, planned before anything moves.

Five things are asked of the tip: its place, and the direction its tool points in; how it turns about the tool is left
to the joints. Steps are ``J^T (J J^T + lambda^2)^-1 e`` (Nakamura and Hanafusa, *J. Dyn. Sys. Meas. Control* 108, 1986)
with angles made lengths by a characteristic length, so that near a singular pose they shrink instead of running away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import LimitError
from bench.procedures.arm_motion import Rail

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: A radian counts as this [m].
LENGTH_M = 0.2
#: Damping of the steps [m], and the longest step [rad].
DAMPING_M, LONGEST_STEP = 0.01, 0.2
STEPS = 200
#: The tip is there when it is this near [m], angles made lengths.
REACHED_M = 1e-8
#: Degree of a rail's polynomials, poses it is fitted to, and how far its tip may be from the straight line [m].
DEGREE, KNOTS, STRAIGHT_M = 5, 13, 2e-5


def reach(model: ArmModel, seed: ArrayLike, place: ArrayLike, pointing: ArrayLike, where: str = "") -> Floats:
    """Return joint positions (n,) with the tip at ``place`` and the tool along ``pointing``.

    Parameters
    ----------
    model : ArmModel
    seed : (n,)
        Where the search begins: it chooses among elbow up and down.
    place : (3,)
        [m], base frame.
    pointing : (3,)
        Unit vector of the tip frame's z axis, base frame.

    Raises
    ------
    LimitError
        ``out_of_reach``: no joint positions were found; how near they came is said.
    """
    q = np.array(seed, dtype=np.float64)
    goal, axis = np.asarray(place, dtype=np.float64), np.asarray(pointing, dtype=np.float64)
    missing = np.inf
    for _ in range(STEPS):
        now = model.placement(q)
        z = now[:3, 2]
        # towards the axis by the shortest turn; opposite to it any turn about a perpendicular is one
        turn = np.cross(z, axis)
        if float(z @ axis) < 0.0:
            turn = turn / max(float(np.linalg.norm(turn)), 1e-6)
        error = np.concatenate([goal - now[:3, 3], LENGTH_M * turn])
        missing = float(np.linalg.norm(error))
        if missing < REACHED_M:
            return q
        jacobian = model.jacobian(q)
        about = np.eye(3) - np.outer(z, z)
        rows = np.vstack([jacobian[:3], LENGTH_M * about @ jacobian[3:]])
        damping = min(DAMPING_M, missing)
        step = rows.T @ np.linalg.solve(rows @ rows.T + damping**2 * np.eye(6), error)
        q = q + step * min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), 1e-12))
    raise LimitError(
        f"the arm cannot put its tip at ({', '.join(f'{1e3 * x:.0f}' for x in goal)}) mm with the tool along "
        f"({', '.join(f'{x:.2f}' for x in axis)}); the search came within {1e3 * missing:.1f} mm",
        reason="out_of_reach",
        where=where or model.description.name,
        remedy="Move the phantom nearer, turn its normal, or let the search begin at another pose.",
    )


def rail(
    model: ArmModel, seed: ArrayLike, surface: ArrayLike, normal: ArrayLike, low: float, high: float, where: str = ""
) -> Rail:
    """Return the straight way of the tip through ``surface`` (3,) against ``normal`` (3,), the tool along it.

    Parameters
    ----------
    low, high : float
        Where it begins and ends [m]: 0 at the surface, positive below it.

    Raises
    ------
    LimitError
        ``out_of_reach``; ``not_straight``: the joints cannot follow it closely, as near a singular pose.
    """
    down = -np.asarray(normal, dtype=np.float64)
    point = np.asarray(surface, dtype=np.float64)
    first = reach(model, seed, point, down, where)
    knots = 0.5 * (low + high) + 0.5 * (high - low) * np.cos(np.pi * (np.arange(KNOTS) + 0.5) / KNOTS)
    poses: list[tuple[float, Floats]] = []
    for s in sorted(knots, key=abs):
        q = reach(model, poses[_nearest(poses, s)][1] if poses else first, point + s * down, down, where)
        poses.append((float(s), q))
    poses.sort(key=lambda pair: pair[0])
    ways = np.array([s for s, _ in poses])
    rows = np.array([q for _, q in poses])
    scale = max(abs(low), abs(high))
    powers = (ways[:, None] / scale) ** np.arange(DEGREE + 1)
    coefficients = np.linalg.lstsq(powers, rows, rcond=None)[0] / scale ** np.arange(DEGREE + 1)[:, None]
    made = Rail(np.ascontiguousarray(coefficients), low, high)
    off = max(
        float(np.linalg.norm(model.position(made.place(float(s))[0]) - (point + s * down)))
        for s in np.linspace(low, high, 3 * KNOTS)
    )
    if off > STRAIGHT_M:
        raise LimitError(
            f"the joints leave the straight way by {1e3 * off:.2f} mm between {1e3 * low:.0f} and {1e3 * high:.0f} mm",
            reason="not_straight",
            where=where or model.description.name,
            remedy="Choose a pose farther from a singular one.",
        )
    return made


def _nearest(poses: list[tuple[float, Floats]], s: float) -> int:
    return int(np.argmin([abs(known - s) for known, _ in poses]))
