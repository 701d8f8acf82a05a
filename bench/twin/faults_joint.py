"""What can befall a single joint, beside what can befall any rig."""

from __future__ import annotations

from bench.errors import TwinError
from bench.twin.faults import Faults, FaultyDaq, Parameters
from bench.twin.plant.bus import RigBus
from bench.twin.plant.joint import Joint
from bench.twin.plant.joint_truth import JointTruth
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

DRIFT_NM_S = 0.02
DRIVE_FAULT = 33  # "motor driver fault" of a moteus
FRICTION_FACTOR = 1.5
BACKLASH_RAD = 2e-3
GEAR_FACTOR = 2.0
OVERHEAT_DEGC = 90.0
OVERHEAT_S = 5.0


class JointFaults(Faults):
    """Drive, transducer wiring, friction, gear and heat."""

    def __init__(
        self,
        world: SimWorld,
        truth: JointTruth,
        plant: Joint,
        bus: RigBus,
        wires: dict[str, Wire],
        daq: FaultyDaq | None = None,
    ) -> None:
        super().__init__("single_joint", truth.wiring.device, world, bus, wires, daq, DRIFT_NM_S)
        self._plant = plant
        self._actions.update(
            drive_fault=lambda p: plant.raise_fault(int(p.get("code", DRIVE_FAULT))),
            transducer_inverted=lambda p: bus.sensor.invert(self._tick),
            friction_changed=lambda p: plant.scale_friction(float(p.get("factor", FRICTION_FACTOR))),
            wrong_gear_ratio=self._regear,
            backlash=lambda p: plant.set_backlash(float(p.get("gap", BACKLASH_RAD))),
            overheat=self._overheat,
        )
        self._ends["overheat"] = lambda: plant.heat(0.0)

    def _regear(self, parameters: Parameters) -> None:
        """The joint has another gear than the profile says; gears are not exchanged under power."""
        if self._plant.powered():
            raise TwinError(
                "a gear is not exchanged under power", where="twin fault wrong_gear_ratio", remedy="Let it come at 0 s"
            )
        self._plant.scale_ratio(float(parameters.get("factor", GEAR_FACTOR)))

    def _overheat(self, parameters: Parameters) -> None:
        """The temperature runs up at the rate that brings it to ``temperature`` in the time ``within``."""
        to, within = float(parameters.get("temperature", OVERHEAT_DEGC)), float(parameters.get("within", OVERHEAT_S))
        if within <= 0.0:
            raise TwinError("overheat wants a time above 0 s", where="twin fault", remedy='e.g. within = "5 s"')
        self._plant.heat((to - self._plant.temperature_degc()) / within)
