"""What a run on a joint has around its procedure; the counterpart of :mod:`bench.procedures.indenter_frame`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from bench.archive import GroupSpec, RunWriter
from bench.errors import LimitError
from bench.procedures.feedforward_file import ARCHIVED, load_for
from bench.procedures.joint_loop import JointRecording, Progress
from bench.procedures.joint_recording import group_specs
from bench.profile import JointLoad, OutputLock, SpecimenProfile
from bench.station import JointStation

#: Rows reserved: a friction sweep has a phase per speed, direction and replicate.
PHASES = 1024

_ALIGNMENT = (
    "time of a drive row: middle of its serial transaction on the host's clock, minus the clock's reading at DAQ "
    "sample 0; standard uncertainty sqrt(time_half_width^2 + anchor half-width^2) / sqrt(3), both rectangular; the "
    "DAQ's clock is taken to run as the host's"
)


class JointFrame:
    """Checks, groups and recording of a run on a joint."""

    station_type = JointStation
    phases_capacity = PHASES

    @staticmethod
    def check(station: JointStation, procedure: Any, plan: Any, specimen: SpecimenProfile) -> dict[str, object]:
        """Refuse a station that is not ready; return what was found, for the archive."""
        if station.drive.latched:
            raise LimitError(
                f"the rig was stopped ({station.drive.latched}) and has not been made ready since",
                reason="latched",
                where=f"rig {station.rig.name}",
                remedy="Find the cause, let the load come to rest, then call station.make_ready()",
            )
        station.drive.narrow(_bearable(station, specimen))
        return {}

    @staticmethod
    def check_powered(station: JointStation, plan: Any, specimen: SpecimenProfile) -> None:
        """Refuse a joint that does not stand now that its drive can be asked."""
        if station.is_active():
            raise LimitError(
                "the joint turns or is driven although no procedure runs",
                reason="not_at_rest",
                where=f"rig {station.rig.name}",
                remedy="Let the load come to rest before the run is started",
            )
        station.drive.narrow(_bearable(station, specimen))

    @staticmethod
    def details(station: JointStation, specimen: SpecimenProfile) -> dict[str, object]:
        return {
            "joint_limits": dataclasses.asdict(station.drive.limits),
            "alignment": {"method": _ALIGNMENT, "loop_rate_hz": station.rig.loop.rate.to("Hz")},
        }

    @staticmethod
    def groups(station: JointStation, procedure: Any) -> list[GroupSpec]:
        return group_specs(station)

    @staticmethod
    def recording(
        station: JointStation,
        writer: RunWriter,
        procedure: Any,
        specimen: SpecimenProfile,
        planned_s: float,
        progress: Progress | None,
    ) -> JointRecording:
        return JointRecording(station, writer, planned_s=planned_s, specimen=specimen, progress=progress)

    @staticmethod
    def finish(station: JointStation, recording: JointRecording) -> None:
        """Leave the rig as the next run finds it."""
        recording.note_timing()

    @staticmethod
    def plan(
        make: Callable[..., Any], station: JointStation, procedure: Any, specimen: SpecimenProfile, given: Any
    ) -> tuple[Any, dict[str, str]]:
        """Return the plan and the texts it leans on beside the profiles: the feed-forward file, where one is used."""
        feedforward = load_for(station, procedure, specimen, given)
        texts = {} if feedforward is None else {ARCHIVED: feedforward.source.text}
        return make(station.rig, procedure, specimen, feedforward), texts


def _bearable(station: JointStation, specimen: SpecimenProfile) -> float:
    limit = station.drive.rig_limits.torque_nm
    if isinstance(specimen, (JointLoad, OutputLock)):
        limit = min(limit, specimen.max_torque.to("N.m"))
    return limit
