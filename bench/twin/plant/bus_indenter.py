"""The indenter's terminals: the force sensor's channels and the stage's encoder."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.noise import ChannelNoise
from bench.twin.plant.bus import RigBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.sensors import ForceSensorPlant
from bench.twin.plant.truth import RigTruth

Floats = NDArray[np.float64]


class IndenterBus(RigBus):
    """The terminals of an indenter; see :class:`bench.twin.plant.bus.RigBus`."""

    def __init__(self, world: World, truth: RigTruth, plant: Indenter, sensor: ForceSensorPlant) -> None:
        kind = "analog" if sensor.truth.kind == "gauges" else "bridge"
        super().__init__(world, truth.wiring, sensor, truth.wiring.gauges, kind, truth.seed, plant.set_power)
        self._truth = truth
        self._plant = plant
        self._encoder_noise = ChannelNoise(truth.seed, "encoder")

    def loads(self) -> Floats:
        return self._plant.force()

    def quarters(self, first: int, count: int, stride: int) -> Floats:
        wiring, stage = self._truth.wiring, self._truth.stage
        quarters: Floats = self._history(self._plant.travel, first, count, stride) - stage.start_mm
        if stage.encoder_noise_mm > 0.0:
            quarters += stage.encoder_noise_mm * self._encoder_noise.normal(first, count, stride)
        quarters *= wiring.encoder_direction * (1.0 + stage.encoder_scale_error) * 4.0 / wiring.distance_per_pulse_mm
        return quarters
