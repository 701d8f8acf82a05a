"""Where the carriage is at any time: trapezoidal set-points and a first-order lag, both solved exactly.

A trajectory is a chain of pieces. In each the set-point is s(t) = s0 + v0 t + a t²/2 and the motor follows with
τ m' = s - m, whose solution is m(t) = s(t) - τ s'(t) + τ² a + C exp(-t/τ). Nothing is integrated step by step, so a
command in the middle of a tick takes effect at its very time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Piece:
    """One piece: from ``start_ns`` on; set-point s0, v0, a; lag time constant and amplitude."""

    start_ns: int
    s0: float
    v0: float
    a: float
    tau_s: float
    amplitude: float

    def setpoint(self, time_ns: int) -> float:
        t = (time_ns - self.start_ns) * 1e-9
        return self.s0 + t * (self.v0 + 0.5 * self.a * t)

    def setpoint_speed(self, time_ns: int) -> float:
        return self.v0 + self.a * (time_ns - self.start_ns) * 1e-9

    def motor(self, time_ns: int) -> float:
        t = (time_ns - self.start_ns) * 1e-9
        s = self.s0 + t * (self.v0 + 0.5 * self.a * t)
        tau = self.tau_s
        return s - tau * (self.v0 + self.a * t) + tau * tau * self.a + self.amplitude * math.exp(-t / tau)

    def motor_speed(self, time_ns: int) -> float:
        t = (time_ns - self.start_ns) * 1e-9
        return self.v0 + self.a * (t - self.tau_s) - self.amplitude / self.tau_s * math.exp(-t / self.tau_s)

    def motors(self, seconds: Floats) -> Floats:
        """Motor positions (n,) at ``seconds`` (n,) after the piece's start."""
        tau = self.tau_s
        result = np.exp(seconds * (-1.0 / tau))
        result *= self.amplitude
        result += self.s0 - tau * self.v0 + tau * tau * self.a
        if self.v0 != 0.0 or self.a != 0.0:
            result += seconds * (self.v0 - tau * self.a + 0.5 * self.a * seconds)
        return result


def plan(
    s: float, v: float, target: float, speed: float, acceleration: float
) -> tuple[list[tuple[float, float, float, float]], float]:
    """Plan a trapezoidal move from position ``s`` and speed ``v`` to a stand at ``target``.

    Returns
    -------
    segments : list of (duration_s, s0, v0, a)
        Without the final rest; empty when there is nothing to do.
    total : float
        Sum of the durations [s].
    """
    segments: list[tuple[float, float, float, float]] = []

    def add(duration: float, a: float, end_speed: float) -> None:
        nonlocal s, v
        if duration > 0.0:
            segments.append((duration, s, v, a))
            s += duration * (v + 0.5 * a * duration)
            v = end_speed

    distance = target - s
    if v != 0.0 and (v * distance < 0.0 or v * v / (2.0 * acceleration) > abs(distance) * (1.0 + 1e-12)):
        add(abs(v) / acceleration, -math.copysign(acceleration, v), 0.0)
        distance = target - s
    sign = math.copysign(1.0, distance)
    distance, rate = abs(distance), abs(v)
    peak = math.sqrt(max(0.0, acceleration * distance + 0.5 * rate * rate))
    if rate > speed:  # slow down to the new speed first
        peak = speed
        ramp = (rate * rate - speed * speed) / (2.0 * acceleration)
        add((rate - speed) / acceleration, -sign * acceleration, sign * speed)
    else:
        peak = max(rate, min(peak, speed))
        ramp = (peak * peak - rate * rate) / (2.0 * acceleration)
        add((peak - rate) / acceleration, sign * acceleration, sign * peak)
    if peak > 0.0:
        cruise = distance - ramp - peak * peak / (2.0 * acceleration)
        add(cruise / peak, 0.0, sign * peak)
        add(peak / acceleration, -sign * acceleration, 0.0)
    return segments, sum(segment[0] for segment in segments)


class Motion:
    """The chain of pieces. Positions in the controller's own count, whose zero :class:`Indenter` keeps."""

    def __init__(self, position_mm: float, lag_s: float, brake_s: float) -> None:
        self._lag_s = lag_s
        self._brake_s = brake_s
        self._pieces = [Piece(0, position_mm, 0.0, 0.0, lag_s, 0.0)]
        self.end_ns = 0
        self.target = position_mm
        self.speed = 0.0
        self.acceleration = 1.0

    def _at(self, time_ns: int) -> Piece:
        """The piece that holds at ``time_ns``; earlier ones are forgotten, so times must not go back."""
        pieces = self._pieces
        while len(pieces) > 1 and pieces[1].start_ns <= time_ns:
            pieces.pop(0)
        return pieces[0]

    def setpoint(self, time_ns: int) -> float:
        return self._at(time_ns).setpoint(time_ns)

    def setpoint_speed(self, time_ns: int) -> float:
        return self._at(time_ns).setpoint_speed(time_ns)

    def motor(self, time_ns: int) -> float:
        return self._at(time_ns).motor(time_ns)

    def motor_speed(self, time_ns: int) -> float:
        return self._at(time_ns).motor_speed(time_ns)

    def moving(self, time_ns: int) -> bool:
        """Whether the trajectory is still under way."""
        return time_ns < self.end_ns

    def move_to(self, time_ns: int, target: float, speed: float, acceleration: float) -> int:
        """Replace what is planned by a move to ``target``; return when its set-point arrives [ns]."""
        piece = self._at(time_ns)
        s, v, m = piece.setpoint(time_ns), piece.setpoint_speed(time_ns), piece.motor(time_ns)
        segments, _ = plan(s, v, target, speed, acceleration)
        chain: list[Piece] = []
        start_ns, tau = time_ns, self._lag_s
        for duration, s0, v0, a in [*segments, (0.0, target, 0.0, 0.0)]:
            amplitude = m - (s0 - tau * v0 + tau * tau * a)
            chain.append(Piece(start_ns, s0, v0, a, tau, amplitude))
            start_ns += round(duration * 1e9)
            m = chain[-1].motor(start_ns)
        self._pieces = chain
        self.end_ns = chain[-1].start_ns
        self.target, self.speed, self.acceleration = target, speed, acceleration
        return self.end_ns

    def stop(self, time_ns: int, acceleration: float) -> int:
        """Decelerate; return when the set-point stands [ns]."""
        piece = self._at(time_ns)
        v = piece.setpoint_speed(time_ns)
        if v == 0.0 and not self.moving(time_ns):
            return time_ns
        stand = piece.setpoint(time_ns) + math.copysign(v * v / (2.0 * acceleration), v)
        return self.move_to(time_ns, stand, max(abs(v), 1e-9), acceleration)

    def coast(self, time_ns: int) -> None:
        """Power is gone: the carriage runs out with the brake's time constant."""
        piece = self._at(time_ns)
        m, v = piece.motor(time_ns), piece.motor_speed(time_ns)
        rest = m + v * self._brake_s
        self._pieces = [Piece(time_ns, rest, 0.0, 0.0, self._brake_s, m - rest)]
        self.end_ns, self.target = time_ns, rest

    def freeze(self, time_ns: int) -> None:
        """The carriage is held where it is (stall, end stop)."""
        m = self._at(time_ns).motor(time_ns)
        self._pieces = [Piece(time_ns, m, 0.0, 0.0, self._lag_s, 0.0)]
        self.end_ns, self.target = time_ns, m

    def motors(self, first_tick: int, last_tick: int, tick_ns: int) -> Floats:
        """Motor positions at the ticks ``first_tick … last_tick``, both included."""
        result = np.empty(last_tick - first_tick + 1)
        self._at(first_tick * tick_ns)
        pieces = self._pieces
        tick = first_tick
        for index, piece in enumerate(pieces):
            if tick > last_tick:
                break
            following = pieces[index + 1].start_ns if index + 1 < len(pieces) else (last_tick + 1) * tick_ns
            end = min(last_tick, (following - 1) // tick_ns)
            if end < tick:
                continue
            if piece.v0 == 0.0 and piece.a == 0.0 and piece.amplitude == 0.0:
                result[tick - first_tick : end - first_tick + 1] = piece.s0
            else:
                seconds: Floats = (np.arange(tick, end + 1) * tick_ns - piece.start_ns) * np.float64(1e-9)
                result[tick - first_tick : end - first_tick + 1] = piece.motors(seconds)
            tick = end + 1
        return result
