"""What can befall an arm, beside what can befall any rig. Joints count from 1, as everywhere a person reads."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from bench.errors import TwinError
from bench.instruments.dynamixel_models import servo_model
from bench.models.arm_description import LinkInertia
from bench.twin.faults import Faults, FaultyDaq, Parameters
from bench.twin.plant.arm import Arm
from bench.twin.plant.arm_truth import ArmTruth, AxisTruth
from bench.twin.plant.bus_arm import ArmBus
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

DRIFT_N_S = 0.1
FRICTION_FACTOR = 1.5
TORQUE_FACTOR = 0.9
GEAR_FACTOR = 2.0
OVERLOAD_BITS = 0x20  # "overload error" of a Dynamixel's Hardware Error Status
WRONG_MODEL = "XM430-W350"
HIDDEN_MASS_KG = 0.5


class FaultyServos(Protocol):
    """What the servos' side of the bus does about their own faults."""

    def mute(self, servo_id: int, on: bool = True) -> None:
        """Take a servo off the bus, or put it back."""
        ...

    def swap_ids(self, one: int, other: int) -> None:
        """Two servos have each other's ids."""
        ...

    def set_model_number(self, servo_id: int, number: int) -> None:
        """A servo of another model has this id."""
        ...


class ArmFaults(Faults):
    """Servos, friction, motors, payload and gauges."""

    def __init__(
        self,
        world: SimWorld,
        truth: ArmTruth,
        plant: Arm,
        bus: ArmBus,
        wires: dict[str, Wire],
        daq: FaultyDaq | None = None,
        servos: FaultyServos | None = None,
    ) -> None:
        super().__init__("arm", truth.wiring.device, world, bus, wires, daq, DRIFT_N_S)
        self._plant = plant
        self._servos = servos
        self._ids = [servo.id for servo in truth.servos]
        self._actions.update(
            axis_encoder_stuck=lambda p: plant.stick_encoder(self._joint(p)),
            axis_friction_changed=self._rub,
            axis_torque_changed=self._weaken,
            wrong_gear_ratio=self._regear,
            swapped_axes=self._swap,
            payload_changed=self._load,
            servo_missing=self._lose,
            servo_model_changed=lambda p: self._the_servos().set_model_number(
                self._id(p), servo_model(str(p.get("model", WRONG_MODEL))).number
            ),
            servo_error=lambda p: plant.raise_fault(self._ids.index(self._id(p)), int(p.get("bits", OVERLOAD_BITS))),
        )
        self._ends["axis_encoder_stuck"] = plant.free_encoder
        self._ends["servo_missing"] = self._find
        self._lost: set[int] = set()

    def _joint(self, parameters: Parameters) -> int:
        joint = int(parameters.get("joint", 1))
        if not 1 <= joint <= self._plant.axes:
            raise TwinError(f"there is no joint {joint}", where="twin fault", remedy=f"1 … {self._plant.axes}")
        return joint - 1

    def _id(self, parameters: Parameters) -> int:
        servo = int(parameters.get("id", self._ids[0]))
        if servo not in self._ids:
            raise TwinError(
                f"there is no servo {servo}", where="twin fault", remedy=f"there are {', '.join(map(str, self._ids))}"
            )
        return servo

    def _the_servos(self) -> FaultyServos:
        if self._servos is None:
            raise TwinError("this twin has no servo bus", where="twin fault")
        return self._servos

    def _lose(self, parameters: Parameters) -> None:
        servo = self._id(parameters)
        self._the_servos().mute(servo)
        self._lost.add(servo)

    def _find(self) -> None:
        for servo in self._lost:
            self._the_servos().mute(servo, False)
        self._lost.clear()

    def _change_axis(self, index: int, axis: AxisTruth) -> None:
        truth = self._plant.truth
        axes = (*truth.axes[:index], axis, *truth.axes[index + 1 :])
        self._plant.change(replace(truth, axes=axes))

    def _rub(self, parameters: Parameters) -> None:
        index, factor = self._joint(parameters), float(parameters.get("factor", FRICTION_FACTOR))
        axis = self._plant.truth.axes[index]
        self._change_axis(
            index,
            replace(
                axis,
                coulomb=factor * axis.coulomb,
                stribeck_excess=factor * axis.stribeck_excess,
                viscous=factor * axis.viscous,
            ),
        )

    def _weaken(self, parameters: Parameters) -> None:
        index, factor = self._joint(parameters), float(parameters.get("factor", TORQUE_FACTOR))
        axis = self._plant.truth.axes[index]
        self._change_axis(index, replace(axis, torque_scale=factor * axis.torque_scale))

    def _regear(self, parameters: Parameters) -> None:
        """The axis has another gear than the profile says; its encoder reads on from where it stands."""
        index, factor = self._joint(parameters), float(parameters.get("factor", GEAR_FACTOR))
        if factor == 0.0:
            raise TwinError("a gear ratio of nought", where="twin fault", remedy='e.g. factor = "200 %", or "-100 %"')
        axis = self._plant.truth.axes[index]
        changed = replace(axis, gear_ratio=factor * axis.gear_ratio)
        angle = self._plant.state.theta[index]
        self._change_axis(
            index, replace(changed, zero=axis.zero + (axis.shaft_per_axis - changed.shaft_per_axis) * angle)
        )

    def _swap(self, parameters: Parameters) -> None:
        """Two servos have each other's ids, as they have when their cables are swapped."""
        one = self._joint(parameters)
        other = self._joint({"joint": parameters.get("other", one + 2)})
        self._the_servos().swap_ids(self._ids[one], self._ids[other])

    def _load(self, parameters: Parameters) -> None:
        """The payload weighs something else; its shape stays, and one that is not there hangs at the tip."""
        truth, mass = self._plant.truth, float(parameters.get("mass", HIDDEN_MASS_KG))
        old = truth.payload
        if old.mass > 0.0:
            new = LinkInertia(mass, old.centre, old.inertia * (mass / old.mass))
        else:
            new = LinkInertia(mass, truth.tip)
        self._plant.change(replace(truth, payload=new))
