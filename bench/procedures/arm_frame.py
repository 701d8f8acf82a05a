"""What a run on an arm has around its procedure; the counterpart of :mod:`bench.procedures.joint_frame`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from bench.archive import GroupSpec, RunWriter
from bench.errors import LimitError
from bench.procedures.arm_loop import ArmRecording, Progress
from bench.procedures.arm_preflight import preflight
from bench.procedures.arm_recording import group_specs
from bench.procedures.feedforward_file import ARCHIVED, load_for_arm
from bench.profile import ArmPhantom, SpecimenProfile
from bench.station_arm import ArmStation

#: Rows reserved: tracking has a phase per joint, direction and replicate, with and without compensation.
PHASES = 1024

_ALIGNMENT = (
    "time of a drive row: middle of the servos' reading on the host's clock, minus the clock's reading at DAQ sample "
    "0; standard uncertainty sqrt(time_half_width^2 + anchor half-width^2) / sqrt(3), both rectangular; the DAQ's "
    "clock is taken to run as the host's; command_time: when the host had handed the command over, plus its time on "
    "the wire"
)


class ArmFrame:
    """Checks, groups and recording of a run on an arm."""

    station_type = ArmStation
    phases_capacity = PHASES

    @staticmethod
    def check(station: ArmStation, procedure: Any, plan: Any, specimen: SpecimenProfile) -> dict[str, object]:
        """Refuse a station that is not ready, and a path that breaks a limit; return the path's table.

        Raises
        ------
        LimitError
            ``latched``; what :meth:`~bench.models.preflight_report.PreflightReport.refuse` says.
        """
        arm = station.arm
        if arm.latched:
            raise LimitError(
                f"the rig was stopped ({arm.latched}) and has not been made ready since",
                reason="latched",
                where=f"rig {station.rig.name}",
                remedy="Find the cause, then call station.make_ready()",
            )
        report = preflight(station.rig, procedure, specimen, plan)
        report.refuse()
        station.mount(specimen)
        _narrow(station, specimen)
        return {"preflight": report.lines()}

    @staticmethod
    def check_powered(station: ArmStation, plan: Any, specimen: SpecimenProfile) -> None:
        """Refuse an arm that does not stand now that its servos can be asked: :class:`LimitError`, ``not_at_rest``."""
        if station.is_active():
            raise LimitError(
                "the arm moves or its brakes are open although no procedure runs",
                reason="not_at_rest",
                where=f"rig {station.rig.name}",
                remedy="Call station.make_safe(), look at the brakes, then station.make_ready()",
            )
        _narrow(station, specimen)

    @staticmethod
    def details(station: ArmStation, specimen: SpecimenProfile) -> dict[str, object]:
        return {
            "arm_limits": dataclasses.asdict(station.arm.limits),
            "alignment": {
                "method": _ALIGNMENT,
                "loop_rate_hz": station.rig.loop.rate.to("Hz"),
                "command_on_the_wire_s": station.arm.command_s,
            },
        }

    @staticmethod
    def groups(station: ArmStation, procedure: Any) -> list[GroupSpec]:
        return group_specs(station)

    @staticmethod
    def recording(
        station: ArmStation,
        writer: RunWriter,
        procedure: Any,
        specimen: SpecimenProfile,
        planned_s: float,
        progress: Progress | None,
    ) -> ArmRecording:
        windup = procedure.windup.to("rad")
        return ArmRecording(
            station, writer, planned_s=planned_s, specimen=specimen, windup_rad=windup, progress=progress
        )

    @staticmethod
    def finish(station: ArmStation, recording: ArmRecording) -> None:
        """Leave the rig as the next run finds it: braked."""
        if station.arm.brakes_open:
            recording.park()
        recording.note_timing()

    @staticmethod
    def plan(
        make: Callable[..., Any], station: ArmStation, procedure: Any, specimen: SpecimenProfile, given: Any
    ) -> tuple[Any, dict[str, str]]:
        """Return the plan and the texts it leans on beside the profiles: URDF, trajectories, the feed-forward file."""
        feedforward = load_for_arm(station.rig, procedure, given)
        plan = make(station.rig, procedure, specimen, feedforward)
        texts: dict[str, str] = dict(getattr(plan, "texts", {}))
        if feedforward is not None:
            texts[ARCHIVED] = feedforward.source.text
        urdf = station.rig.urdf_path()
        if urdf is not None:
            texts[f"arm/{urdf.name}"] = urdf.read_text(encoding="utf-8")
        return plan, texts


def _narrow(station: ArmStation, specimen: SpecimenProfile) -> None:
    arm = station.arm
    arm.narrow(specimen.max_force.to("N") if isinstance(specimen, ArmPhantom) else arm.rig_limits.force_n)
