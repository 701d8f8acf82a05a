"""Placements of frames as (4, 4) homogeneous matrices [m], turns as (3, 3) matrices; angles in rad."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]

ROUND = 1e-15
"""Sines and cosines below this are zero: a quarter turn of a table is meant exactly."""


def turn_x(angle: float) -> Floats:
    """Return the placement (4, 4) turned about x."""
    c, s = _cosine_sine(angle)
    return np.array([[1, 0, 0, 0], [0, c, -s, 0], [0, s, c, 0], [0, 0, 0, 1]], dtype=np.float64)


def turn_y(angle: float) -> Floats:
    """Return the placement (4, 4) turned about y."""
    c, s = _cosine_sine(angle)
    return np.array([[c, 0, s, 0], [0, 1, 0, 0], [-s, 0, c, 0], [0, 0, 0, 1]], dtype=np.float64)


def turn_z(angle: float) -> Floats:
    """Return the placement (4, 4) turned about z."""
    c, s = _cosine_sine(angle)
    return np.array([[c, -s, 0, 0], [s, c, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]], dtype=np.float64)


def shift(x: float, y: float, z: float) -> Floats:
    """Return the placement (4, 4) shifted by x, y, z [m]."""
    out = np.eye(4)
    out[:3, 3] = x, y, z
    return out


def inverse(placement: Floats) -> Floats:
    """Return the inverse of a placement (4, 4)."""
    out = np.eye(4)
    out[:3, :3] = placement[:3, :3].T
    out[:3, 3] = -placement[:3, :3].T @ placement[:3, 3]
    return out


def from_rpy(rpy: ArrayLike, xyz: ArrayLike = (0.0, 0.0, 0.0)) -> Floats:
    """Return the placement (4, 4) of fixed-axis angles roll, pitch, yaw: ``Rz(yaw) Ry(pitch) Rx(roll)``, as in URDF."""
    roll, pitch, yaw = (float(x) for x in np.asarray(rpy, dtype=np.float64))
    out = turn_z(yaw) @ turn_y(pitch) @ turn_x(roll)
    out[:3, 3] = np.asarray(xyz, dtype=np.float64)
    return out


def to_rpy(turn: Floats) -> tuple[float, float, float]:
    """Return roll, pitch, yaw of a turn (3, 3), undoing :func:`from_rpy` to rounding.

    Yaw first, then the others of what is left, so that near a pitch of 90 degrees, where roll and yaw cannot be told
    apart, the two still belong together.
    """
    yaw = math.atan2(turn[1, 0], turn[0, 0])
    left = turn_z(-yaw)[:3, :3] @ turn
    return math.atan2(-left[1, 2], left[1, 1]), math.atan2(-left[2, 0], left[0, 0]), yaw


def turn_of_z(axis: ArrayLike) -> Floats:
    """Return a turn (3, 3) that takes z to a unit vector ``axis`` (3,): the shortest one to the upper half."""
    x, y, z = (float(v) for v in np.asarray(axis, dtype=np.float64))
    if z < 0.0:
        # Near straight down the shortest one is ill-determined: half a turn about x, then what is left.
        return np.diag([1.0, -1.0, -1.0]) @ turn_of_z((x, -y, -z))
    cross = np.array([[0.0, 0.0, x], [0.0, 0.0, y], [-x, -y, 0.0]])
    return np.asarray(np.eye(3) + cross + cross @ cross / (1.0 + z))


def _cosine_sine(angle: float) -> tuple[float, float]:
    c, s = math.cos(angle), math.sin(angle)
    return (0.0 if abs(c) < ROUND else c), (0.0 if abs(s) < ROUND else s)
