"""What a six-axis sensor makes of a wrench: gauge voltages, with everything the calibration does not know."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.twin.noise import generator
from bench.twin.plant.arm_truth import WristTruth
from bench.twin.plant.sensors import OVERLOAD, ForceSensorPlant
from bench.twin.plant.truth import SensorTruth

Floats = NDArray[np.float64]


class WristSensorPlant(ForceSensorPlant):
    """Gauges linear in the whole wrench; loads are (n, 6) [N, N.m], what the tool exerts on the sensor.

    Attributes
    ----------
    response : ndarray (6, 6)
        V per N and per N.m: the sensor's own inverse of the calibration matrix.
    """

    def __init__(self, truth: WristTruth, seed: int, tick_s: float) -> None:
        direction = tuple(1.0 if axis == truth.axis else 0.0 for axis in range(6))
        super().__init__(
            SensorTruth(
                kind="gauges", matrix=truth.matrix, direction=direction, axis=truth.axis, cross_talk=truth.cross_talk,
                gain_error=truth.gain_error, noise_N=truth.noise_N, drift_N_s=truth.drift_N_s, limit=truth.limit,
            ),
            seed,
            tick_s,
        )  # fmt: skip
        inverse = np.linalg.pinv(np.array(truth.matrix, dtype=float))
        own = generator(seed, "force_sensor/cross_talk").standard_normal(inverse.shape)
        self.response: Floats = (1.0 + truth.gain_error) * inverse * (1.0 + truth.cross_talk * own)
        self.wrist = truth
        self._offset = np.array(truth.offset, dtype=float)
        self._edge = OVERLOAD * np.array(truth.capacity, dtype=float)

    def saturate(self, tick: int) -> None:
        """From ``tick`` on every channel lies at the end of its range."""
        for channel, gain in enumerate(self.gains):
            self._stuck.append((tick, channel, math.copysign(self.truth.limit, gain)))

    def pure(self, channel: int, load: Floats, first: int, stride: int) -> Floats:
        """The channel's signal with every wire where it belongs, shape (n,)."""
        signal: Floats = self._seen(load, first, stride) @ self.response[channel]
        return signal

    def _seen(self, force: Floats, first: int, stride: int) -> Floats:
        key = (first, len(force), stride)
        if key != self._seen_key:
            seen = np.minimum(np.maximum(force, -self._edge), self._edge) + self._offset
            for tick, rate in self._drifts:
                if rate != 0.0:
                    ticks = first + stride * np.arange(len(force))
                    seen[:, self.wrist.axis] += rate * self._tick_s * np.maximum(ticks - tick, 0)
            self._seen_key, self._seen_force = key, seen
        return self._seen_force
