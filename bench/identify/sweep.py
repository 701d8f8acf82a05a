"""Constant-speed stretches of a friction sweep, condensed while they stream: memory does not grow with the record.

A stretch becomes at most 128 bins of equal length, each with the means of what friction is fitted to. Where a stretch
goes on, neighbouring bins are merged in pairs, so a minute and half an hour take the same room.

::

    stretch = SegmentAccumulator(speed=0.02, rate_hz=1000.0, gear_ratio=100.0)
    for block in blocks:
        stretch.feed(block.command, block.torque, block.angle, block.temperature)
    segment = stretch.finish()
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

BIN_S = 0.05
MOST_BINS = 128
RIPPLE_ORDERS = (1, 2, 3, 4, 6, 12)
"""Harmonics of the rotor's turn that a motor's torque may ripple with."""
SPEED_TOLERANCE = 0.1
"""A bin within this share of the stretch's speed counts as that speed."""
STUCK = 0.3
"""Below this share of the commanded speed the joint sticks rather than slides."""
SETTLE_TRAVEL_RAD = 4e-3
"""Travel after a change of speed until bristles and gear have settled: ten times a bristle's 0.4 mrad."""

_COMMAND, _TORQUE, _LOAD, _VELOCITY, _SQUARE, _TEMPERATURE, _ANGLE, _HARMONICS = range(8)


@dataclass(frozen=True)
class Segment:
    """One stretch at constant speed, in m bins.

    Parameters
    ----------
    speed : float
        Commanded [rad/s], with sign.
    bin_s : float
        Length of a bin [s].
    command : (m,) float64
        Joint-referred motor torque commanded [N.m].
    torque, load : (m,) float64
        Transducer, and the mean of its magnitude [N.m].
    velocity, velocity_variance : (m,) float64
        Of the joint-referred motor angle [rad/s], and its variance within the bin [rad2/s2].
    temperature : (m,) float64
        [degC]
    angle : (m,) float64
        Joint-referred motor angle [rad].
    ripple : (m, orders) complex128
        Means of ``exp(1j k rotor_angle)`` for the orders k.
    orders : tuple of int
    gear_ratio : float
        Rotor turns per turn of the joint.
    """

    speed: float
    bin_s: float
    command: Floats
    torque: Floats
    load: Floats
    velocity: Floats
    velocity_variance: Floats
    temperature: Floats
    angle: Floats
    ripple: NDArray[np.complex128]
    orders: tuple[int, ...]
    gear_ratio: float

    @property
    def duration_s(self) -> float:
        return self.bin_s * len(self.command)

    @property
    def direction(self) -> float:
        return math.copysign(1.0, self.speed)

    def settled(self, settle_travel: float = SETTLE_TRAVEL_RAD) -> Selection:
        """Tell which bins slide at the stretch's speed, and why the others do not count.

        The transient lasts until the joint has the commanded speed *and* has moved ``settle_travel`` [rad] since the
        stretch began. After it, bins far below the speed stick; others off the speed are unsteady.
        """
        wrong = np.abs(self.velocity - self.speed) > SPEED_TOLERANCE * abs(self.speed)
        reached = np.flatnonzero(~wrong)
        began = int(reached[0]) if reached.size else len(wrong)
        moved = self.direction * (self.angle - self.angle[0]) if len(wrong) else self.angle
        travelled = np.flatnonzero(moved >= settle_travel)
        began = max(began, int(travelled[0]) if travelled.size else len(wrong))
        transient = np.arange(len(wrong)) < began
        stuck = ~transient & (self.direction * self.velocity < STUCK * abs(self.speed))
        unsteady = ~transient & wrong & ~stuck
        return Selection(~(transient | wrong), transient, stuck, unsteady)


@dataclass(frozen=True)
class Selection:
    """Bins (m,) by what becomes of them; they add up to all."""

    used: Flags
    transient: Flags
    stiction: Flags
    unsteady: Flags


class SegmentAccumulator:
    """Takes one constant-speed stretch block by block.

    Parameters
    ----------
    speed : float
        Commanded speed [rad/s], with sign.
    rate_hz : float
        Sample rate of the blocks [Hz].
    gear_ratio : float
        Rotor turns per turn of the joint; for the ripple.
    orders : tuple of int
        Harmonics of the rotor's turn to keep.
    """

    def __init__(
        self, speed: float, rate_hz: float, *, gear_ratio: float = 1.0, orders: tuple[int, ...] = RIPPLE_ORDERS
    ) -> None:
        if speed == 0.0 or not math.isfinite(speed):
            raise Refused(
                f"a stretch at {speed:g} rad/s",
                reason="no_speed",
                where="friction sweep",
                remedy="Give the commanded speed with its sign; standing still tells no sliding friction",
            )
        self.speed, self.rate_hz, self.gear_ratio, self.orders = speed, rate_hz, gear_ratio, orders
        self._step = max(1, round(BIN_S * rate_hz))
        self._columns = _HARMONICS + 2 * len(orders)
        self._rows = np.zeros((MOST_BINS, self._columns))
        self._filled, self._group = 0, 1
        self._sum, self._summed = np.zeros(self._columns), 0
        self._rest = np.empty((4, 0))

    def feed(self, command: Floats, torque: Floats, angle: Floats, temperature: Floats) -> None:
        """Add samples (n,): joint-referred command [N.m], transducer [N.m], motor angle [rad], temperature [degC]."""
        block = np.concatenate([self._rest, np.stack([command, torque, angle, temperature])], axis=1)
        step = self._step
        # a bin's speed needs the first angle of the next
        bins = (block.shape[1] - 1) // step
        if bins > 0:
            for row in self._means(block[:, : bins * step + 1], bins):
                self._add(row)
            block = block[:, bins * step :]
        self._rest = block.copy()

    def finish(self) -> Segment:
        """Return the stretch; a last bin that is not full is left out."""
        rows = self._rows[: self._filled] / self._group
        harmonics = rows[:, _HARMONICS:]
        return Segment(
            self.speed,
            self._group * self._step / self.rate_hz,
            rows[:, _COMMAND],
            rows[:, _TORQUE],
            rows[:, _LOAD],
            rows[:, _VELOCITY],
            np.maximum(rows[:, _SQUARE] - rows[:, _VELOCITY] ** 2, 0.0),
            rows[:, _TEMPERATURE],
            rows[:, _ANGLE],
            harmonics[:, ::2] + 1j * harmonics[:, 1::2],
            self.orders,
            self.gear_ratio,
        )

    def _means(self, block: Floats, bins: int) -> Floats:
        step = self._step
        command, torque, angle, temperature = block[:, :-1]
        rows = np.empty((bins, self._columns))
        velocity = np.diff(block[2, ::step]) * (self.rate_hz / step)
        rows[:, _COMMAND] = command.reshape(bins, step).mean(axis=1)
        rows[:, _TORQUE] = torque.reshape(bins, step).mean(axis=1)
        rows[:, _LOAD] = np.abs(torque).reshape(bins, step).mean(axis=1)
        rows[:, _VELOCITY], rows[:, _SQUARE] = velocity, velocity**2
        rows[:, _TEMPERATURE] = temperature.reshape(bins, step).mean(axis=1)
        rows[:, _ANGLE] = angle.reshape(bins, step).mean(axis=1)
        if self.orders:
            turn = np.exp(1j * self.gear_ratio * angle)
            for i, order in enumerate(self.orders):
                wave = (turn**order).reshape(bins, step).mean(axis=1)
                rows[:, _HARMONICS + 2 * i], rows[:, _HARMONICS + 2 * i + 1] = wave.real, wave.imag
        return rows

    def _add(self, row: Floats) -> None:
        self._sum += row
        self._summed += 1
        if self._summed < self._group:
            return
        self._rows[self._filled] = self._sum
        self._sum[:], self._summed = 0.0, 0
        self._filled += 1
        if self._filled == MOST_BINS:
            half = MOST_BINS // 2
            self._rows[:half] = self._rows[0::2] + self._rows[1::2]
            self._filled, self._group = half, 2 * self._group


def condense(
    speed: float, rate_hz: float, command: Floats, torque: Floats, angle: Floats, temperature: Floats,
    *, gear_ratio: float = 1.0, orders: tuple[int, ...] = RIPPLE_ORDERS,
) -> Segment:  # fmt: skip
    """Condense one stretch whose samples (n,) are at hand; arguments as of :class:`SegmentAccumulator`."""
    stretch = SegmentAccumulator(speed, rate_hz, gear_ratio=gear_ratio, orders=orders)
    stretch.feed(command, torque, angle, temperature)
    return stretch.finish()
