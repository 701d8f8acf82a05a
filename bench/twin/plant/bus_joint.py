"""The joint's terminals: the torque transducer's voltage and the encoder on the output."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.noise import ChannelNoise
from bench.twin.plant.bus import RigBus
from bench.twin.plant.joint import Joint
from bench.twin.plant.joint_truth import JointTruth
from bench.twin.plant.sensors import ForceSensorPlant

Floats = NDArray[np.float64]


class JointBus(RigBus):
    """The terminals of a single joint; see :class:`bench.twin.plant.bus.RigBus`."""

    def __init__(self, world: World, truth: JointTruth, plant: Joint) -> None:
        sensor = ForceSensorPlant(truth.transducer, truth.seed, truth.tick_s)
        wiring = truth.wiring
        super().__init__(world, wiring, sensor, (wiring.transducer,), "analog", truth.seed, plant.set_power)
        self._truth = truth
        self._plant = plant
        self._encoder_noise = ChannelNoise(truth.seed, "joint_encoder")

    def loads(self) -> Floats:
        return self._plant.joint_torque()

    def quarters(self, first: int, count: int, stride: int) -> Floats:
        encoder, start = self._truth.encoder, self._truth.load.start_angle
        quarters: Floats = self._history(self._plant.joint_angle, first, count, stride) - start
        if encoder.noise > 0.0:
            quarters += encoder.noise * self._encoder_noise.normal(first, count, stride)
        quarters *= encoder.quarters_per_rad * (1.0 + encoder.scale_error)
        return quarters
