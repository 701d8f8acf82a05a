"""What a run on an indenter has around its procedure: checks before, groups, recording, travel limits after."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from bench.archive import GroupSpec, RunWriter
from bench.errors import LimitError, ProfileError
from bench.procedures.recording import REST_MM, Progress, Recording, group_specs
from bench.profile import ContactSpecimen, IndenterRig
from bench.safety import ForceWatch, LoadLimits
from bench.station import IndenterStation

PHASES = 256


class IndenterFrame:
    """Checks, groups and recording of a run on an indenter."""

    station_type = IndenterStation
    phases_capacity = PHASES

    @staticmethod
    def check(station: IndenterStation, procedure: Any, plan: Any, specimen: ContactSpecimen) -> dict[str, object]:
        """Refuse a station that is not ready; return what was found, for the archive."""
        if station.stage.latched:
            raise LimitError(
                f"the rig was stopped ({station.stage.latched}) and has not been made ready since",
                reason="latched",
                where=f"rig {station.rig.name}",
                remedy="Find the cause, then call station.make_ready(): it homes the axis",
            )
        return {}

    @staticmethod
    def check_powered(station: IndenterStation, plan: Any, specimen: ContactSpecimen) -> None:
        """Refuse to start with the tool where the specimen may be: the tare would hide a load."""
        position = station.stage.position_mm()
        if position > plan.start_mm + REST_MM:
            raise LimitError(
                f"the tool stands at {position:.3f} mm; the free air before {specimen.name} begins at "
                f"{plan.start_mm:.3f} mm",
                reason="not_in_free_air",
                where="tare",
                remedy="Home the axis first",
            )

    @staticmethod
    def details(station: IndenterStation, specimen: ContactSpecimen) -> dict[str, object]:
        return {
            "load_limits": dataclasses.asdict(_load_limits(station.rig, specimen)),
            "travel_limits": dataclasses.asdict(station.stage.rig_limits),
        }

    @staticmethod
    def groups(station: IndenterStation, procedure: Any) -> list[GroupSpec]:
        return group_specs(station, _block(station, procedure))

    @staticmethod
    def recording(
        station: IndenterStation,
        writer: RunWriter,
        procedure: Any,
        specimen: ContactSpecimen,
        planned_s: float,
        progress: Progress | None,
    ) -> Recording:
        return Recording(
            station,
            writer,
            ForceWatch(_load_limits(station.rig, specimen)),
            block=_block(station, procedure),
            planned_s=planned_s,
            progress=progress,
        )

    @staticmethod
    def finish(station: IndenterStation, recording: Recording) -> None:
        """Leave the rig as the next run finds it."""
        limits = station.stage.rig_limits
        station.stage.arm_travel_limits(limits.travel_min_mm, limits.travel_max_mm)

    @staticmethod
    def plan(
        make: Callable[..., Any], station: IndenterStation, procedure: Any, specimen: Any, given: object
    ) -> tuple[Any, dict[str, str]]:
        """Return the plan and the texts it leans on beside the profiles."""
        if given is not None:
            raise ProfileError("an indenter takes no feed-forward", where=str(procedure.source.path))
        return make(station.rig, procedure, specimen), {}


def _block(station: IndenterStation, procedure: Any) -> int:
    block_s: float = procedure.block.to("s")
    return max(2, round(block_s * station.sample_rate_hz))


def _load_limits(rig: IndenterRig, specimen: ContactSpecimen) -> LoadLimits:
    torque = rig.safety.torque_limit
    return LoadLimits(
        force_n=min(rig.safety.force_limit.to("N"), specimen.max_force.to("N")),
        torque_n_m=None if torque is None else torque.to("N.m"),
    )
