"""Which forces an arm can exert in a pose: the ellipsoid of its torque limits, and exactly, the polytope.

A force ``f`` the arm exerts at the frame of the Jacobian takes the torques ``tau = J^T f + g`` with ``g`` the gravity
torques, within ``|tau_i| <= tau_max_i``. Base-aligned forces in N, torques in N.m. Moments are zero unless said
otherwise, so only the Jacobian's linear rows are used.

Sources: T. Yoshikawa, *Foundations of Robotics*, 1990, section 4.4 (ellipsoid); P. Chiacchio, Y. Bouffard-Vercelli,
F. Pierrot, *Force polytope and force ellipsoid for redundant manipulators*, J. Robotic Systems 14(8), 1997.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError
from bench.models.statics import LENGTH_M, scaled_jacobian

Floats = NDArray[np.float64]

SINGULAR = 1e-9
"""Smallest over largest singular value below which the set of forces is taken to be unbounded."""


@dataclass(frozen=True)
class ForceEllipsoid:
    """Forces (or scaled wrenches) whose torques, each over its limit, have a square sum of at most one.

    Attributes
    ----------
    axes : (d, d)
        Unit directions in the columns, in the order of ``half_lengths``.
    half_lengths : (d,)
        Ascending [N]; infinite along a direction a singular pose bears without torque.
    volume : float
        Of the ellipsoid [N^d].
    isotropy : float
        Shortest over longest half-length.
    """

    axes: Floats
    half_lengths: Floats
    volume: float
    isotropy: float


def force_ellipsoid(jacobian: ArrayLike, torque_limit: ArrayLike, length: float = LENGTH_M) -> ForceEllipsoid:
    """Return the force ellipsoid of per-joint limits.

    It lies inside the polytope of the same limits without gravity, and the polytope inside sqrt(n) times it.

    Parameters
    ----------
    jacobian : (d, n)
        Linear rows (d = 2 or 3) for forces with moments zero; with all six, wrenches with moments over ``length``.
    torque_limit : (n,)
    length : float
        Characteristic length [m] for six rows.

    Raises
    ------
    ModelError
        ``bad_limit``: a limit is not positive; ``shape``.
    """
    scaled = scaled_jacobian(jacobian, length)
    limit = _limits(torque_limit, scaled)
    axes, values, _ = np.linalg.svd(scaled / limit, full_matrices=True)
    padded = np.zeros(len(scaled))
    padded[: len(values)] = values
    half = np.full(len(padded), np.inf)
    bears = padded > SINGULAR * padded[0]
    half[bears] = 1.0 / padded[bears]
    ball = {2: np.pi, 3: 4.0 * np.pi / 3.0, 6: np.pi**3 / 6.0}[len(scaled)]
    return ForceEllipsoid(axes, half, ball * float(np.prod(half)), float(half[0] / half[-1]))


@dataclass(frozen=True)
class GreatestForce:
    """The greatest force in a direction.

    Attributes
    ----------
    force : float
        [N]; infinite where no joint bears any of it.
    joint : int
        The joint at its limit, from 0.
    moment : (3,)
        The moment that goes with it [N.m]; zero unless free.
    torque : (n,)
        Joint torques at that force, gravity included [N.m].
    """

    force: float
    joint: int
    moment: Floats
    torque: Floats


def greatest_force(
    jacobian: ArrayLike,
    torque_limit: ArrayLike,
    direction: ArrayLike,
    gravity: ArrayLike | None = None,
    moments: Literal["zero", "free"] = "zero",
) -> GreatestForce:
    """Return the greatest force the arm can exert along a direction, exactly.

    Parameters
    ----------
    jacobian : (6, n), or (3, n) where moments are zero
    torque_limit : (n,)
    direction : (3,)
        Of the force on the surroundings, base-aligned; made a unit vector.
    gravity : (n,), optional
        Torques that hold the arm still; zero when left out.
    moments : {"zero", "free"}
        ``"zero"``: a pure force at the frame; closed form. ``"free"``: the surroundings bear any moment, as a clamped
        tool; a linear programme (HiGHS).

    Raises
    ------
    ModelError
        ``gravity_exceeds_limit``: the arm cannot hold itself; ``bad_direction``, ``bad_limit``, ``shape``.
    """
    matrix = np.asarray(jacobian, dtype=np.float64)
    limit = _limits(torque_limit, matrix)
    held = _gravity(gravity, limit)
    unit = _unit(direction)
    along = matrix[:3].T @ unit
    if moments == "free":
        if matrix.shape[0] != 6:
            raise _wrong(f"a Jacobian of shape {matrix.shape}", "shape", "Give all six rows where moments are free")
        force, moment = _programme(along, matrix[3:].T, limit, held)
    else:
        force, moment = float(_closed(along, limit, held).min()), np.zeros(3)
    if not np.isfinite(force):
        return GreatestForce(np.inf, 0, moment, held)
    turning = matrix[3:].T @ moment if matrix.shape[0] == 6 else 0.0
    torque = along * force + turning + held
    return GreatestForce(force, int(np.argmax(np.abs(torque) / limit)), moment, torque)


def greatest_forces(
    jacobian: ArrayLike, torque_limit: ArrayLike, direction: ArrayLike, gravity: ArrayLike
) -> tuple[Floats, NDArray[np.intp]]:
    """Return greatest pure forces (k,) [N] and the joints (k,) that limit them, along a path.

    As :func:`greatest_force` with moments zero; a pose in which the arm cannot hold itself gives a force of at most
    zero instead of an error.

    Parameters
    ----------
    jacobian : (k, 6, n) or (k, 3, n)
    torque_limit : (n,)
    direction : (3,) or (k, 3)
    gravity : (k, n)
    """
    matrix = np.asarray(jacobian, dtype=np.float64)
    limit = _limits(torque_limit, matrix[0])
    units = np.atleast_2d(np.asarray(direction, dtype=np.float64))
    units = np.broadcast_to(units / np.linalg.norm(units, axis=1, keepdims=True), (len(matrix), 3))
    held = np.asarray(gravity, dtype=np.float64)
    bounds = _closed(np.einsum("kin,ki->kn", matrix[:, :3], units), limit, held)
    short = np.abs(held) - limit
    bounds = np.where(short > 0.0, -short, bounds)
    joint = bounds.argmin(axis=1)
    return np.take_along_axis(bounds, joint[:, None], axis=1)[:, 0], joint


@dataclass(frozen=True)
class ForcePolytope:
    """All forces with moments zero that the limits allow.

    Attributes
    ----------
    vertices : (m, d)
        [N], no two the same, in no order.
    normals, offsets : (2 n, d), (2 n,)
        ``normals @ f <= offsets``; first the upper limit of every joint, then the lower.
    volume : float
        [N^d]
    """

    vertices: Floats
    normals: Floats
    offsets: Floats
    volume: float

    def contains(self, force: ArrayLike) -> bool:
        """Whether a force (d,) is inside."""
        return bool(np.all(self.normals @ np.asarray(force, dtype=np.float64) <= self.offsets))


def force_polytope(jacobian: ArrayLike, torque_limit: ArrayLike, gravity: ArrayLike | None = None) -> ForcePolytope:
    """Return the polytope of forces ``|J^T f + g| <= tau_max``, exact.

    Parameters
    ----------
    jacobian : (6, n), of which the linear rows are used, (3, n) or (2, n)
    torque_limit : (n,)
    gravity : (n,), optional

    Raises
    ------
    ModelError
        ``unbounded``: the pose is singular, some force takes no torque; ``gravity_exceeds_limit``; ``bad_limit``;
        ``shape``.
    """
    from scipy.spatial import ConvexHull, HalfspaceIntersection

    matrix = np.asarray(jacobian, dtype=np.float64)
    limit = _limits(torque_limit, matrix)
    held = _gravity(gravity, limit)
    linear = matrix[:3]
    left, values, _ = np.linalg.svd(linear / limit, full_matrices=False)
    if len(values) < len(linear) or values[-1] <= SINGULAR * values[0]:
        raise _wrong("forces without a bound: the pose is singular", "unbounded", "Take a pose away from singular ones")
    room = 1.0 - np.abs(held) / limit
    if not np.all(room > 1e-9):
        raise _exceeded(held, limit)
    # In the axes of the ellipsoid, over its half-lengths, the polytope is about as wide as it is high.
    widths = left / values
    walls = (linear / limit).T @ widths
    upper = np.column_stack([walls, held / limit - 1.0])
    lower = np.column_stack([-walls, -held / limit - 1.0])
    # A joint that bears nothing of any force has no wall.
    kept = np.linalg.norm(walls, axis=1) > SINGULAR
    corners = HalfspaceIntersection(np.vstack([upper[kept], lower[kept]]), np.zeros(len(linear))).intersections
    corners = _distinct(corners)
    scale = abs(float(np.linalg.det(widths)))
    return ForcePolytope(
        corners @ widths.T,
        np.vstack([linear.T, -linear.T]),
        np.concatenate([limit - held, limit + held]),
        float(ConvexHull(corners).volume) * scale,
    )


def _closed(along: Floats, limit: Floats, held: Floats) -> Floats:
    """Return the force (..., n) at which each joint reaches the limit that lies in its way."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(along == 0.0, np.inf, (limit - np.sign(along) * held) / np.abs(along)))


def _programme(along: Floats, turning: Floats, limit: Floats, held: Floats) -> tuple[float, Floats]:
    """Return the greatest force and its moment: maximise s with ``|along s + turning m + held| <= limit``."""
    from scipy.optimize import linprog

    rows = np.column_stack([along, turning]) / limit[:, None]
    finite = np.isfinite(limit)
    rows, share = rows[finite], held[finite] / limit[finite]
    answer = linprog(
        [-1.0, 0.0, 0.0, 0.0],
        A_ub=np.vstack([rows, -rows]),
        b_ub=np.concatenate([1.0 - share, 1.0 + share]),
        bounds=[(0.0, None), (None, None), (None, None), (None, None)],
        method="highs",
    )
    if answer.status == 3:
        return np.inf, np.zeros(3)
    if answer.status != 0:
        raise _wrong(f"no greatest force was found ({answer.message})", "no_answer", "Check the Jacobian and limits")
    return float(answer.x[0]), np.asarray(answer.x[1:], dtype=np.float64)


def _distinct(corners: Floats) -> Floats:
    """Return the corners without those that more than d walls met in."""
    kept: list[Floats] = []
    for corner in corners:
        if all(float(np.abs(corner - other).max()) > 1e-9 for other in kept):
            kept.append(corner)
    return np.array(kept)


def _limits(torque_limit: ArrayLike, jacobian: Floats) -> Floats:
    limit = np.asarray(torque_limit, dtype=np.float64)
    if limit.shape != jacobian.shape[-1:]:
        raise _wrong(
            f"limits of shape {limit.shape} for a Jacobian of shape {jacobian.shape}", "shape", "Give one per joint"
        )
    if not np.all(limit > 0.0):
        raise _wrong("a torque limit that is not positive", "bad_limit", "Give the joints' torque limits in N.m")
    return limit


def _gravity(gravity: ArrayLike | None, limit: Floats) -> Floats:
    held = np.zeros(len(limit)) if gravity is None else np.asarray(gravity, dtype=np.float64)
    if held.shape != limit.shape:
        raise _wrong(f"gravity torques of shape {held.shape}", "shape", "Give one per joint")
    if not np.all(np.abs(held) <= limit):
        raise _exceeded(held, limit)
    return held


def _exceeded(held: Floats, limit: Floats) -> ModelError:
    joint = int(np.argmax(np.abs(held) / limit))
    return _wrong(
        f"joint {joint + 1} needs {held[joint]:.4g} N.m against gravity, its limit is {limit[joint]:.4g} N.m",
        "gravity_exceeds_limit",
        "Take another pose or a lighter load",
    )


def _unit(direction: ArrayLike) -> Floats:
    given = np.asarray(direction, dtype=np.float64)
    size = float(np.linalg.norm(given))
    if given.shape != (3,) or not (np.isfinite(size) and size > 0.0):
        raise _wrong(f"the direction {given}", "bad_direction", "Give three finite numbers, not all zero")
    return given / size


def _wrong(what: str, reason: str, remedy: str) -> ModelError:
    return ModelError(what, reason=reason, where="statics", remedy=remedy)
