"""Wanted motions of a joint as functions of time: moves from rest to rest, strokes, Fourier series, torque triangles.

Each has ``duration_s`` and ``at(t)``, which returns plain floats, for it is called on every tick of the loop::

    move = rest_to_rest(0.0, 1.0, speed=0.5, acceleration=2.0)
    angle, velocity, acceleration = move.at(0.3)

Before zero and after its end a motion stands still.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: No change of speed is quicker [s]: the gear would ring.
SHORTEST_RAMP_S = 0.05


class Motion(Protocol):
    """A wanted motion."""

    @property
    def duration_s(self) -> float: ...

    def at(self, t: float) -> tuple[float, float, float]:
        """Return angle [rad], velocity [rad/s] and acceleration [rad/s2] at ``t`` [s]."""
        ...


@dataclass(frozen=True)
class _Piece:
    """Speed from ``v0`` to ``v1`` as half a cosine over ``duration`` (constant where they are equal)."""

    start: float
    angle: float
    v0: float
    v1: float
    duration: float

    def at(self, t: float) -> tuple[float, float, float]:
        change = self.v1 - self.v0
        if change == 0.0 or self.duration == 0.0:
            return self.angle + self.v0 * t, self.v0, 0.0
        w = math.pi / self.duration
        return (
            self.angle + self.v0 * t + 0.5 * change * (t - math.sin(w * t) / w),
            self.v0 + 0.5 * change * (1.0 - math.cos(w * t)),
            0.5 * change * w * math.sin(w * t),
        )


class Strokes:
    """From rest through constant speeds and back to rest; changes of speed are half cosines, without a jolt.

    Parameters
    ----------
    start_rad : float
    legs : sequence of (float, float)
        Speed with sign [rad/s] and how long it is held [s].
    acceleration : float
        Highest acceleration [rad/s2].

    Attributes
    ----------
    holds : list of (float, float)
        When each leg's constant speed begins and ends [s].
    """

    def __init__(self, start_rad: float, legs: Sequence[tuple[float, float]], acceleration: float) -> None:
        self._pieces: list[_Piece] = []
        self.holds: list[tuple[float, float]] = []
        self._t, self._angle, self._speed = 0.0, start_rad, 0.0
        for speed, hold_s in legs:
            self._add(speed, ramp_time(speed - self._speed, acceleration))
            self.holds.append((self._t, self._t + hold_s))
            self._add(speed, hold_s)
        self._add(0.0, ramp_time(self._speed, acceleration))
        self._starts = [piece.start for piece in self._pieces]
        self.start_rad = start_rad
        self.end_rad = self._angle

    def _add(self, speed: float, duration: float) -> None:
        self._pieces.append(_Piece(self._t, self._angle, self._speed, speed, duration))
        self._angle += 0.5 * (self._speed + speed) * duration
        self._t += duration
        self._speed = speed

    @property
    def duration_s(self) -> float:
        return self._t

    def at(self, t: float) -> tuple[float, float, float]:
        if t >= self._t or not self._pieces:
            return self.end_rad, 0.0, 0.0
        piece = self._pieces[max(bisect_right(self._starts, t) - 1, 0)]
        return piece.at(max(t - piece.start, 0.0))


def ramp_time(change: float, acceleration: float) -> float:
    """How long a change of speed [rad/s] takes as half a cosine whose peak is ``acceleration`` [rad/s2]; [s]."""
    return max(0.5 * math.pi * abs(change) / acceleration, SHORTEST_RAMP_S) if change else 0.0


def rest_to_rest(start_rad: float, goal_rad: float, *, speed: float, acceleration: float) -> Strokes:
    """Move from rest to rest, at most at ``speed`` [rad/s] and with at most ``acceleration`` [rad/s2]."""
    way = goal_rad - start_rad
    if way == 0.0:
        return Strokes(start_rad, [], acceleration)
    # Up and down take speed * ramp_time together; where that is more than the way, the top speed is less.
    top = min(speed, math.sqrt(2.0 * abs(way) * acceleration / math.pi), abs(way) / SHORTEST_RAMP_S)
    hold = max(abs(way) / top - ramp_time(top, acceleration), 0.0)
    return Strokes(start_rad, [(math.copysign(top, way), hold)], acceleration)


@dataclass(frozen=True)
class FourierSeries:
    """``centre + w(t) sum_k (a_k cos k w0 t + b_k sin k w0 t)``, from rest to rest.

    The window ``w`` rises over ``ramp_s`` by a fifth-order polynomial with continuous acceleration, stays one for a
    whole number of periods and falls again. Only the whole periods are meant for an analysis.

    Parameters
    ----------
    cosine, sine : tuple of float
        Coefficients a_k, b_k [rad], k = 1 ...
    base_hz : float
        Frequency of k = 1 [Hz].
    """

    centre_rad: float
    base_hz: float
    cosine: tuple[float, ...]
    sine: tuple[float, ...]
    periods: int
    ramp_s: float

    @property
    def hold(self) -> tuple[float, float]:
        """When the whole periods begin and end [s]."""
        return self.ramp_s, self.ramp_s + self.periods / self.base_hz

    @property
    def duration_s(self) -> float:
        return self.hold[1] + self.ramp_s

    @property
    def lines_hz(self) -> tuple[float, ...]:
        """Frequencies in it [Hz]."""
        return tuple((k + 1) * self.base_hz for k in range(len(self.cosine)))

    def at(self, t: float) -> tuple[float, float, float]:
        start, end = self.hold
        if t <= 0.0 or t >= end + self.ramp_s:
            return self.centre_rad, 0.0, 0.0
        s0 = s1 = s2 = 0.0
        # Angles come from one sine and cosine by addition theorems: a sine per harmonic would cost the tick more.
        turn = 2.0 * math.pi * self.base_hz
        c1, d1 = math.cos(turn * (t - start)), math.sin(turn * (t - start))
        c, d = 1.0, 0.0
        for k, (a, b) in enumerate(zip(self.cosine, self.sine, strict=True), start=1):
            c, d = c * c1 - d * d1, d * c1 + c * d1
            w = k * turn
            s0 += a * c + b * d
            s1 += w * (b * c - a * d)
            s2 -= w * w * (a * c + b * d)
        if start <= t <= end:
            return self.centre_rad + s0, s1, s2
        x = t / self.ramp_s if t < start else (end + self.ramp_s - t) / self.ramp_s
        w0 = x * x * x * (10.0 + x * (6.0 * x - 15.0))
        w1 = 30.0 * x * x * (1.0 - x) * (1.0 - x) / self.ramp_s * (1.0 if t < start else -1.0)
        w2 = 60.0 * x * (1.0 - x) * (1.0 - 2.0 * x) / (self.ramp_s * self.ramp_s)
        return self.centre_rad + w0 * s0, w1 * s0 + w0 * s1, w2 * s0 + 2.0 * w1 * s1 + w0 * s2

    def extremes(self, steps_per_period: int = 400) -> tuple[float, float, float]:
        """Return bounds of ``|angle - centre|`` [rad], ``|velocity|`` [rad/s] and ``|acceleration|`` [rad/s2].

        They hold at EVERY instant, not only on the grid they are evaluated on: between two points of a grid of step h
        a function exceeds the larger of them by at most h^2 / 8 times its greatest second derivative, which the sum of
        the coefficients bounds.
        """
        start, end = self.hold
        step = 1.0 / self.base_hz / len(self.cosine) / steps_per_period
        # One period is all of them; both windows are gone through as they are, the second with the first one's step.
        whole = np.linspace(start, start + 1.0 / self.base_hz, math.ceil(1.0 / self.base_hz / step) + 1)
        rise = np.linspace(0.0, start, math.ceil(self.ramp_s / step) + 1)
        fall = np.linspace(end, end + self.ramp_s, len(rise))
        grid = np.array([self.at(float(t)) for t in np.concatenate([rise, whole, fall])])
        grid[:, 0] -= self.centre_rad
        largest = np.abs(grid).max(axis=0)
        beyond = [step * step / 8.0 * self._derivative_bound(order + 2) for order in range(3)]
        return tuple(float(value + more) for value, more in zip(largest, beyond, strict=True))  # type: ignore[return-value]

    def _derivative_bound(self, order: int) -> float:
        """Bound of the ``order``-th derivative of the windowed series, by Leibniz' rule."""
        size = np.hypot(self.cosine, self.sine)
        w = 2.0 * math.pi * self.base_hz * np.arange(1, len(size) + 1)
        # Greatest values of the window's derivatives on [0, 1], orders 0 to 4.
        window = [1.0, 1.875, 10.0 / math.sqrt(3.0), 60.0, 360.0]
        return sum(
            math.comb(order, j) * window[j] / self.ramp_s**j * float(size @ w ** (order - j)) for j in range(order + 1)
        )

    def scaled(self, factor: float) -> FourierSeries:
        """Return the same series with all its coefficients times ``factor``."""
        return FourierSeries(
            self.centre_rad,
            self.base_hz,
            tuple(factor * a for a in self.cosine),
            tuple(factor * b for b in self.sine),
            self.periods,
            self.ramp_s,
        )


class TorqueWave:
    """Torque along straight lines: ``[0, +T, -T, 0]`` with dwells is a triangle there and back.

    Parameters
    ----------
    corners : sequence of float
        Torques to go to, one after the other, from zero [N.m].
    rate : float
        [N.m/s]
    dwell_s : float
        How long each corner but the last is held [s].
    """

    def __init__(self, corners: Sequence[float], rate: float, dwell_s: float = 0.0) -> None:
        times, torques = [0.0], [0.0]
        for i, corner in enumerate(corners):
            times.append(times[-1] + abs(corner - torques[-1]) / rate)
            torques.append(corner)
            if dwell_s > 0.0 and i < len(corners) - 1:
                times.append(times[-1] + dwell_s)
                torques.append(corner)
        self._times, self._torques = times, torques

    @property
    def duration_s(self) -> float:
        return self._times[-1]

    def at(self, t: float) -> float:
        """Return the torque at ``t`` [N.m]."""
        times, torques = self._times, self._torques
        if t <= 0.0 or t >= times[-1]:
            return torques[0] if t <= 0.0 else torques[-1]
        i = bisect_right(times, t) - 1
        share = (t - times[i]) / (times[i + 1] - times[i])
        return torques[i] + share * (torques[i + 1] - torques[i])
