"""What can befall an indenter, beside what can befall any rig."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

from bench.errors import TwinError
from bench.twin.faults import Faults, FaultyDaq, Parameters
from bench.twin.plant.bus import RigBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.truth import RigTruth, TissueTruth
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

LOST_STEPS_MM = 0.2
DRIFT_N_S = 0.1
WRONG_PHANTOM_FACTOR = 2.5
SCREW_FACTOR = 2.0


class FaultyStage(Protocol):
    """What the stage's controller does about a screw that is another."""

    def scale_screw(self, factor: float) -> None:
        """A microstep goes ``factor`` times as far."""
        ...


class IndenterFaults(Faults):
    """Stage, gauge wires and specimen."""

    def __init__(
        self,
        world: SimWorld,
        truth: RigTruth,
        plant: Indenter,
        bus: RigBus,
        wires: dict[str, Wire],
        daq: FaultyDaq | None = None,
        stage: FaultyStage | None = None,
    ) -> None:
        super().__init__("indenter", truth.wiring.device, world, bus, wires, daq, DRIFT_N_S)
        self._truth = truth
        self._plant = plant
        self._stage = stage
        self._actions.update(
            stage_stall=lambda p: plant.jam(True),
            lost_steps=lambda p: plant.lose_steps(float(p.get("distance", LOST_STEPS_MM))),
            wrong_gear_ratio=self._rescrew,
            wrong_phantom=self._wrong_phantom,
        )
        self._ends["stage_stall"] = lambda: plant.jam(False)

    def _rescrew(self, parameters: Parameters) -> None:
        """The screw has another pitch than the profile's microstep size says."""
        if self._stage is None:
            raise TwinError("this twin has no stage", where="twin fault")
        self._stage.scale_screw(float(parameters.get("factor", SCREW_FACTOR)))

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
