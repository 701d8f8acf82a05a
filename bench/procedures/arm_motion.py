"""Wanted motions of a whole arm as functions of time: along a line of joint space, along a rail of the tip, a series.

Each has ``duration_s`` and ``at(t)``, which returns position, speed and acceleration of every joint as arrays (n,), for
it is called on every tick of the loop; before zero and after its end a motion stands still. ::

    move = moved(q_from, q_to, speed=limits, acceleration=limits)
    path = sampled(move, "moving to the pose", 250.0)         # for the check before anything moves
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.models.arm_path import ArmPath
from bench.procedures.joint_motion import Motion, Strokes, rest_to_rest

Floats = NDArray[np.float64]
State = tuple[Floats, Floats, Floats]


class ArmMotion(Protocol):
    """A wanted motion of all joints."""

    @property
    def duration_s(self) -> float: ...

    def at(self, t: float) -> State:
        """Return positions [rad], speeds [rad/s] and accelerations [rad/s2] (n,) at ``t`` [s]."""
        ...


class Line:
    """``q(t) = start + s(t) direction``: all joints keep step.

    Parameters
    ----------
    start, direction : (n,) float64
        [rad], and [rad] per unit of ``along``.
    along : Motion
        ``s(t)``.
    """

    def __init__(self, start: ArrayLike, direction: ArrayLike, along: Motion) -> None:
        self.start = np.asarray(start, dtype=np.float64)
        self.direction = np.asarray(direction, dtype=np.float64)
        self.along = along

    @property
    def duration_s(self) -> float:
        return self.along.duration_s

    def at(self, t: float) -> State:
        s, v, a = self.along.at(t)
        way = self.direction
        return self.start + s * way, v * way, a * way


class Standing:
    """Stand at a pose for some time."""

    def __init__(self, pose: ArrayLike, duration_s: float) -> None:
        self._pose = np.asarray(pose, dtype=np.float64)
        self._still = np.zeros(len(self._pose))
        self.duration_s = duration_s

    def at(self, t: float) -> State:
        return self._pose, self._still, self._still


@dataclass(frozen=True, eq=False)
class Rail:
    """Joint positions along a straight way of the tip, as polynomials in the way ``s`` [m].

    Parameters
    ----------
    coefficients : (degree + 1, n) float64
        Of rising powers of ``s``.
    low, high : float
        Where the rail begins and ends [m].
    """

    coefficients: Floats
    low: float
    high: float
    _table: Floats = field(init=False, repr=False)

    def __post_init__(self) -> None:
        powers = np.arange(len(self.coefficients))[:, None]
        slope, bend = np.zeros_like(self.coefficients), np.zeros_like(self.coefficients)
        slope[:-1] = (powers * self.coefficients)[1:]
        bend[:-2] = (powers * (powers - 1) * self.coefficients)[2:]
        object.__setattr__(self, "_table", np.hstack([self.coefficients, slope, bend]))

    def place(self, s: float) -> State:
        """Return joint positions (n,) at ``s``, and their first and second derivative with respect to it."""
        degree, n = len(self.coefficients) - 1, self.coefficients.shape[1]
        power, powers = 1.0, [1.0]
        for _ in range(degree):
            power *= s
            powers.append(power)
        row = np.array(powers) @ self._table
        return row[:n], row[n : 2 * n], row[2 * n :]

    def at(self, s: float, v: float, a: float) -> State:
        """Return the joints' state where the tip is at ``s`` [m] with speed ``v`` and acceleration ``a``."""
        q, slope, bend = self.place(s)
        return q, v * slope, a * slope + (v * v) * bend


@dataclass(frozen=True)
class OnRail:
    """A motion along a rail; ``along`` is the way over time [m], ``offset`` (n,) is added to the joints [rad]."""

    rail: Rail
    along: Motion
    offset: Floats | float = 0.0

    @property
    def duration_s(self) -> float:
        return self.along.duration_s

    def at(self, t: float) -> State:
        q, v, a = self.rail.at(*self.along.at(t))
        return q + self.offset, v, a


def moved(start: ArrayLike, goal: ArrayLike, *, speed: ArrayLike, acceleration: ArrayLike) -> Line:
    """Return the move from rest to rest in which every joint keeps its limits (n,) and all arrive together."""
    begin, end = np.asarray(start, dtype=np.float64), np.asarray(goal, dtype=np.float64)
    way = end - begin
    size = np.abs(way)
    goes = size > 1e-12
    if not np.any(goes):
        return Line(begin, way, Strokes(0.0, [], 1.0))
    top = float(np.min((np.asarray(speed, dtype=np.float64) * np.ones(len(way)))[goes] / size[goes]))
    rise = float(np.min((np.asarray(acceleration, dtype=np.float64) * np.ones(len(way)))[goes] / size[goes]))
    return Line(begin, way, rest_to_rest(0.0, 1.0, speed=top, acceleration=rise))


def sampled(motion: ArmMotion, text: str, rate_hz: float, *, led: bool | None = None) -> ArmPath:
    """Return a motion's samples at ``rate_hz``, its end included; ``led`` as for :class:`ArmPath`."""
    count = max(math.ceil(motion.duration_s * rate_hz), 1)
    times = np.minimum(np.arange(count + 1) / rate_hz, motion.duration_s)
    rows = [motion.at(float(t)) for t in times]
    q, v, a = (np.array([row[k] for row in rows]) for k in range(3))
    return ArmPath.of(text, times, q, v, a, led=led)
