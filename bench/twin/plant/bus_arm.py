"""The arm's terminals: the wrist sensor's gauges, e-stop, enable line and brake line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.plant.arm import Arm
from bench.twin.plant.arm_truth import ArmTruth
from bench.twin.plant.bus import RigBus
from bench.twin.plant.wrist import WristSensorPlant

Floats = NDArray[np.float64]


class ArmBus(RigBus):
    """The terminals of an arm; see :class:`bench.twin.plant.bus.RigBus`. The servos' encoders are on their own bus."""

    def __init__(self, world: World, truth: ArmTruth, plant: Arm) -> None:
        self.wrist = WristSensorPlant(truth.sensor, truth.seed, truth.tick_s)
        wiring = truth.wiring
        super().__init__(world, wiring, self.wrist, wiring.gauges, "analog", truth.seed, plant.set_power)
        self._plant = plant
        self._brake = self.terminal(wiring.brake_line)
        self._levels[self._brake] = False
        self._channels = self._list_channels() | {self._brake: "digital_out"}

    def loads(self) -> Floats:
        self._plant.catch_up()
        return self._plant.history.column("wrench")

    def set_digital(self, line: str, level: bool) -> None:
        """See the interface. The brake line is in series with the power: high opens the brakes, while there is some."""
        super().set_digital(line, level)
        if self._line(line) == self._brake:
            self._world_note(f"brakes {'released' if level else 'closed'}")
            self._plant.release_brakes(level)

    @property
    def released(self) -> bool:
        """Whether the brake line is high."""
        return self._levels[self._brake]
