"""Faults by name, brought about now or at a time; an unknown one, or one this rig cannot have, is refused loudly."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from bench.errors import TwinError
from bench.twin.plant.build import fault_parameters
from bench.twin.plant.bus import RigBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.truth import RigTruth, TissueTruth
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

Parameters = dict[str, float | str]

LATE_REPLY_S = 0.8
LOST_STEPS_MM = 0.2
DRIFT_N_S = 0.1
LOST_PULSES = 100
WRONG_PHANTOM_FACTOR = 2.5
DROPPED_SAMPLES = 100


class FaultyDaq(Protocol):
    """What the DAQ device does about its own faults."""

    def fault(self, name: str, **parameters: float) -> None: ...

    def plug_in(self) -> None: ...


class Faults:
    """The faults of the indenter and its lines; methods with the world's lock held."""

    def __init__(
        self,
        world: SimWorld,
        truth: RigTruth,
        plant: Indenter,
        bus: RigBus,
        wires: dict[str, Wire],
        daq: FaultyDaq | None = None,
    ) -> None:
        self._world = world
        self._truth = truth
        self._plant = plant
        self._bus = bus
        self._wires = wires
        self._daq = daq
        self.injected: list[tuple[float, str]] = []
        self._actions: dict[str, Callable[[Parameters], None]] = {
            "estop_pressed": lambda p: self._bus.press_estop(True),
            "stage_stall": lambda p: self._plant.jam(True),
            "lost_steps": lambda p: self._plant.lose_steps(float(p.get("distance", LOST_STEPS_MM))),
            "drifting_cell": lambda p: self._bus.sensor.drift_faster(self._tick, float(p.get("rate", DRIFT_N_S))),
            "saturated_cell": lambda p: self._bus.sensor.saturate(self._tick),
            "broken_wire": lambda p: self._bus.sensor.break_wire(self._tick, int(p.get("gauge", 0))),
            "stuck_encoder": lambda p: self._bus.stick_encoder(self._tick),
            "lost_counts": lambda p: self._bus.lose_counts(self._tick, float(p.get("pulses", LOST_PULSES))),
            "encoder_direction_swapped": lambda p: self._bus.swap_encoder(self._tick),
            "wrong_phantom": self._wrong_phantom,
            "device_unplugged": self._unplug,
            "late_reply": lambda p: self._wire(p).delay_replies(
                int(p.get("count", 1)), round(float(p.get("delay", LATE_REPLY_S)) * 1e9)
            ),
            "corrupt_checksum": lambda p: self._wire(p).corrupt_replies(int(p.get("count", 1))),
            "dropped_samples": self._drop_samples,
        }

    @property
    def _tick(self) -> int:
        """The first tick not yet in the past."""
        return -(-self._world.now_ns // self._world.tick_ns)

    def inject(self, name: str, parameters: Parameters) -> None:
        """Bring a fault about now; ``parameters`` as in the twin profile, or already plain.

        Raises
        ------
        TwinError
            The fault or a parameter is unknown, or the rig has nothing it could befall.
        """
        plain = fault_parameters(name, parameters)
        self._actions[name](plain)
        self.injected.append((self._world.now_ns * 1e-9, name))
        self._world.note(f"fault {name} {plain or ''}".rstrip())

    def schedule(self, name: str, time_s: float, parameters: Parameters) -> None:
        """Bring a fault about at a world time; what is wrong with its name or parameters is told at once."""
        plain = fault_parameters(name, parameters)
        if name in ("late_reply", "corrupt_checksum"):
            self._wire(plain)
        self._world.at(round(time_s * 1e9), lambda: self.inject(name, plain))

    def clear(self, name: str) -> None:
        """End a fault that can end: ``estop_pressed``, ``stage_stall``, ``device_unplugged``."""
        if name == "estop_pressed":
            self._bus.press_estop(False)
        elif name == "stage_stall":
            self._plant.jam(False)
        elif name == "device_unplugged":
            for wire in self._wires.values():
                wire.unplug(False)
            if self._daq is not None:
                self._daq.plug_in()
        else:
            raise TwinError(
                f"the fault {name!r} cannot be ended",
                where="twin",
                remedy="only estop_pressed, stage_stall and device_unplugged can",
            )
        self._world.note(f"fault {name} ended")

    def _wire(self, parameters: Parameters) -> Wire:
        name = str(parameters.get("device", "stage"))
        if name not in self._wires:
            raise TwinError(
                f"there is no serial device {name!r}", where="twin fault", remedy=f"there are {', '.join(self._wires)}"
            )
        return self._wires[name]

    def _unplug(self, parameters: Parameters) -> None:
        if str(parameters.get("device", "stage")).lower() in ("daq", self._truth.wiring.device.lower()):
            self._the_daq().fault("daq_unplugged")
        else:
            self._wire(parameters).unplug()

    def _drop_samples(self, parameters: Parameters) -> None:
        self._the_daq().fault("dropped_samples", count=float(parameters.get("count", DROPPED_SAMPLES)))

    def _the_daq(self) -> FaultyDaq:
        if self._daq is None:
            raise TwinError("this twin has no DAQ device", where="twin fault")
        return self._daq

    def _wrong_phantom(self, parameters: Parameters) -> None:
        named = parameters.get("specimen")
        for other in self._truth.others:
            if named in (None, other.name) and (named is not None or _alike(other, self._truth.tissue)):
                self._plant.replace_specimen(other)
                return
        if named is not None:
            known = ", ".join(other.name for other in self._truth.others)
            raise TwinError(f"the twin knows no specimen {named!r}", where="twin fault", remedy=f"it has {known}")
        tissue = self._truth.tissue
        wrong = replace(tissue, name=f"wrong {tissue.name}", force_ref_N=WRONG_PHANTOM_FACTOR * tissue.force_ref_N)
        self._plant.replace_specimen(wrong)


def _alike(other: TissueTruth, tissue: TissueTruth) -> bool:
    """A phantom one could take for the other: soft, as this one is, and not the plate of a stiffness run."""
    return 0.2 < other.force_ref_N / other.depth_ref_mm / (tissue.force_ref_N / tissue.depth_ref_mm) < 5.0
