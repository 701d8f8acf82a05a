"""What the force sensor makes of the contact force: gauge voltages or one bridge ratio, with all their faults."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.noise import ChannelNoise, generator
from bench.twin.plant.truth import SensorTruth

Floats = NDArray[np.float64]

OVERLOAD = 1.02
"""The sensor follows the force up to this multiple of its capacity."""


UNLIKE, ONE_CHANNEL_FACTOR = 0.15, 1.25
"""How far the gauges of two sensors of a model are apart (standard deviation), and a single channel of another cell."""


class ForceSensorPlant:
    """Channels linear in the contact force.

    Parameters
    ----------
    truth : SensorTruth
    seed : int
        Of the noise and of the cross-talk.
    tick_s : float
        Period of the ticks the signals are sampled on [s].

    Attributes
    ----------
    gains : ndarray (n_channels,)
        V (or mV/V) per N of contact force.
    """

    def __init__(self, truth: SensorTruth, seed: int, tick_s: float) -> None:
        self.truth = truth
        self._tick_s = tick_s
        if truth.kind == "gauges":
            matrix = np.array(truth.matrix, dtype=float)
            inverse = np.linalg.pinv(matrix)
            inverse *= 1.0 + truth.cross_talk * generator(seed, "force_sensor/cross_talk").standard_normal(
                inverse.shape
            )
            gains: Floats = (1.0 + truth.gain_error) * inverse @ np.array(truth.direction)
            noise = truth.noise_N / float(np.linalg.norm(matrix[truth.axis]))
        elif truth.kind == "bridge":
            gains = np.array([(1.0 + truth.gain_error) * truth.sensitivity])
            noise = truth.noise_N * abs(truth.sensitivity)
        else:
            raise TwinError(f"a sensor of kind {truth.kind!r} is not simulated", where="twin plant")
        self.gains = gains
        self._noise_sd = noise
        self._unlike = 1.0 + UNLIKE * generator(seed, "force_sensor/other").standard_normal(gains.size)
        self._noise = [ChannelNoise(seed, f"force_sensor/{index}") for index in range(gains.size)]
        self._drifts = [(0, truth.drift_N_s)]
        self._inverted_from: int | None = None
        self._inverted: dict[int, int] = {}
        self._swapped: list[tuple[int, int, int]] = []
        self._replaced: list[tuple[int, Floats]] = []  # (from tick, factor of each channel)
        self._stuck: list[tuple[int, int, float]] = []  # (from tick, channel, value)
        self._seen_key = (0, 0, 0)
        self._seen_force = np.empty(0)

    def drift_faster(self, tick: int, rate_N_s: float) -> None:
        """From ``tick`` on the zero runs away by ``rate_N_s`` more."""
        self._drifts.append((tick, rate_N_s))
        self._seen_key = (0, 0, 0)

    def invert(self, tick: int) -> None:
        """From ``tick`` on the two wires of every channel are swapped."""
        self._inverted_from = tick

    def invert_channel(self, tick: int, channel: int) -> None:
        """From ``tick`` on the two wires of one gauge are swapped."""
        self._inverted[self._known(channel)] = tick

    def swap_channels(self, tick: int, one: int, other: int) -> None:
        """From ``tick`` on two gauges are plugged into each other's inputs."""
        self._swapped.append((tick, self._known(one), self._known(other)))

    def replace(self, tick: int, factor: float | None) -> None:
        """From ``tick`` on it is another sensor than its calibration says.

        Its channels give ``factor`` times as much; without one, each gauge of a sensor of six is as much off as those
        of two specimens of a model are, and a single channel reads a quarter more.
        """
        if factor is None and self.gains.size == 1:
            factor = ONE_CHANNEL_FACTOR
        own = self._unlike if factor is None else np.full(self.gains.size, factor)
        self._replaced.append((tick, own))

    def _known(self, channel: int) -> int:
        if not 0 <= channel < self.gains.size:
            raise TwinError(f"there is no gauge {channel}", where="fault", remedy=f"0 … {self.gains.size - 1}")
        return channel

    def saturate(self, tick: int) -> None:
        """From ``tick`` on every channel lies at the end of its range."""
        for channel, gain in enumerate(self.gains):
            self._stuck.append((tick, channel, math.copysign(self.truth.limit, gain)))

    def break_wire(self, tick: int, channel: int) -> None:
        """From ``tick`` on one channel floats to the rail."""
        self._stuck.append((tick, self._known(channel), self.truth.limit))

    def signal(self, channel: int, force: Floats, first: int, stride: int) -> Floats:
        """Return the channel's signal.

        Parameters
        ----------
        channel : int
            Index of the gauge.
        force : ndarray (n,)
            True contact force [N] at ticks ``first + stride * (0 … n-1)``.

        Returns
        -------
        ndarray (n,)
            V or mV/V.
        """
        limit = self.truth.limit
        signal = self.clean(channel, force, first, stride)
        if self._noise_sd > 0.0:
            signal += self._noise_sd * self._noise[channel].normal(first, len(force), stride)
        if self._inverted_from is not None:
            signal[max(0, -(-(self._inverted_from - first) // stride)) :] *= -1.0
        for tick, stuck, value in self._stuck:
            if stuck == channel:
                signal[max(0, -(-(tick - first) // stride)) :] = value
        np.minimum(signal, limit, out=signal)
        np.maximum(signal, -limit, out=signal)
        return signal

    def clean(self, channel: int, load: Floats, first: int, stride: int) -> Floats:
        """The channel's signal without noise and without what happened to its wires, shape (n,)."""
        signal = self.pure(channel, load, first, stride)
        for tick, one, other in self._swapped:
            if channel in (one, other):
                late = max(0, -(-(tick - first) // stride))
                signal[late:] = self.pure(other if channel == one else one, load, first, stride)[late:]
        for tick, factors in self._replaced:
            signal[max(0, -(-(tick - first) // stride)) :] *= factors[channel]
        tick_inverted = self._inverted.get(channel)
        if tick_inverted is not None:
            signal[max(0, -(-(tick_inverted - first) // stride)) :] *= -1.0
        return signal

    def pure(self, channel: int, load: Floats, first: int, stride: int) -> Floats:
        """The channel's signal with every wire where it belongs, shape (n,)."""
        signal: Floats = self.gains[channel] * self._seen(load, first, stride)
        return signal

    def _seen(self, force: Floats, first: int, stride: int) -> Floats:
        """The force the cell makes its signals from; kept for the other channels, which are read next."""
        key = (first, force.size, stride)
        if key != self._seen_key:
            truth = self.truth
            seen = force + truth.offset_N
            if truth.capacity_N is not None:
                edge = OVERLOAD * truth.capacity_N
                seen = np.minimum(np.maximum(force, -edge), edge) + truth.offset_N
            for tick, rate in self._drifts:
                if rate != 0.0:
                    ticks = first + stride * np.arange(force.size)
                    seen += rate * self._tick_s * np.maximum(ticks - tick, 0)
            self._seen_key, self._seen_force = key, seen
        return self._seen_force
