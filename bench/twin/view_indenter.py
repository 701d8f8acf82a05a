"""The indenter, seen by the control calls and the report. Safe means: the stage stands still."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.interfaces import World
from bench.twin.plant.bus import RigBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.tissue import force_along_ramp
from bench.twin.plant.truth import RigTruth
from bench.twin.view import still_since

Floats = NDArray[np.float64]

STILL_MM = 1e-6
"""The stage stands when it moves by less than this until the end of what is looked at."""


class IndenterView:
    """Implements :class:`bench.twin.view.RigView`; positions in mm from the reference switch, forces in N."""

    def __init__(self, world: World, truth: RigTruth, plant: Indenter, bus: RigBus) -> None:
        self._world, self._truth, self._plant, self._bus = world, truth, plant, bus

    def state(self) -> dict[str, Any]:
        plant = self._plant
        travel, force = plant.travel(), plant.force()
        return {
            "position_mm": float(travel[-1]),
            "speed_mm_s": plant.velocity_mm_s(),
            "moving": plant.is_moving(),
            "force_N": float(force[-1]),
            "peak_force_N": float(force.max()),
            "stage_fault": plant.fault(),
            "stalls": plant.stalls,
        }

    def truth(self, request: dict[str, Any]) -> dict[str, Any]:
        tissue, sensor, truth = self._plant.tissue, self._bus.sensor, self._truth
        answer: dict[str, Any] = {
            "seed": truth.seed,
            "tick_s": truth.tick_s,
            "surface_mm": tissue.base_surface,
            "frame_stiffness_N_mm": truth.stage.frame_stiffness_N_mm,
            "specimen": {**asdict(tissue.truth), "force_ref_N": tissue.force_ref, "exponent": tissue.exponent},
            "ruptured": tissue.ruptured,
            "replicate_factors": tissue.factors,
            "replicate_surfaces_mm": tissue.surfaces,
            "stage": asdict(truth.stage),
            "sensor": {**asdict(sensor.truth), "gains_per_N": sensor.gains.tolist()},
        }
        depths = request.get("depths_mm") or []
        if depths:
            speed = float(request["speed_mm_s"])
            if speed <= 0.0 or min(depths) < 0.0 or max(depths) <= 0.0:
                raise TwinError("truth wants depths >= 0 mm (one above) and a speed > 0 mm/s", where="twin control")
            force = force_along_ramp(tissue, np.asarray(depths, dtype=float), speed)
            answer.update(depths_mm=depths, speed_mm_s=speed, force_N=force.tolist())
        return answer

    def history(self) -> dict[str, Floats]:
        return {"travel_mm": self._plant.travel(), "force_N": self._plant.force()}

    def safe_since(self, since_ns: int) -> int | None:
        stands = still_since(self._plant.travel(), since_ns, self._world.tick_ns, STILL_MM)
        return None if self._plant.is_moving() else stands

    def aftermath(self, since_ns: int) -> dict[str, Any]:
        first = min(since_ns // self._world.tick_ns, self._plant.ticks - 1)
        return {"peak_force_after_N": float(self._plant.force()[first:].max())}
