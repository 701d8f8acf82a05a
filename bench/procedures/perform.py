"""Carry a procedure out on a station and leave a sealed archive, however it ends."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.archive import Provenance, RunWriter
from bench.errors import LimitError, ProfileError
from bench.procedures import frame_stiffness, indentation
from bench.procedures.abort import abort
from bench.procedures.overrides import with_overrides
from bench.procedures.recording import REST_MM, Progress, Recording, group_specs
from bench.profile import ContactSpecimen, IndenterRig, ProcedureProfile
from bench.safety import ForceWatch, LoadLimits
from bench.station import Station


@dataclass(frozen=True)
class Procedure:
    """A procedure: ``plan(rig, procedure, specimen)`` refuses or returns plain numbers, ``run(...)`` carries them out.

    A plan has at least ``start_mm``, where the tool is clear of the specimen, and ``duration_s``.
    """

    plan: Callable[[IndenterRig, Any, ContactSpecimen], Any]
    run: Callable[[Station, Recording, Any], None]


PROCEDURES: dict[str, Procedure] = {
    "indentation": Procedure(indentation.plan, indentation.run),
    "frame_stiffness": Procedure(frame_stiffness.plan, frame_stiffness.run),
}


def perform(
    station: Station,
    procedure: ProcedureProfile,
    specimen: ContactSpecimen,
    *,
    operator: str,
    results_dir: Path | str,
    criteria_texts: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Path:
    """Carry ``procedure`` out on ``specimen`` and return the path of the sealed archive.

    Parameters
    ----------
    station : Station
        Open and ready.
    procedure, specimen : ProcedureProfile, ContactSpecimen
    operator : str
        Who is responsible for the run; archived.
    results_dir : Path
        Where the archive goes.
    criteria_texts : mapping of str to str, optional
        Acceptance criteria to be archived with the run, by name.
    progress : callable, optional
        Called as ``progress(text, fraction)`` once a block.
    overrides : mapping, optional
        Single keys of the procedure to change for this run; see :func:`~bench.procedures.overrides.with_overrides`.

    Raises
    ------
    LimitError
        The plan does not fit the limits, or the station is not ready: nothing moved, there is no archive.
    SafetyAbort
        The run was ended early for whatever reason: the rig was made safe, the archive is sealed as ABORTED and its
        path is the error's ``archive``. The cause is chained.
    """
    if procedure.procedure not in PROCEDURES:
        raise ProfileError(
            f'there is no procedure "{procedure.procedure}"', remedy=f"Known: {', '.join(sorted(PROCEDURES))}"
        )
    procedure = with_overrides(procedure, overrides or {})
    entry = PROCEDURES[procedure.procedure]
    plan = entry.plan(station.rig, procedure, specimen)
    _check_clear(station, plan.start_mm, specimen)
    limits = _load_limits(station.rig, specimen)
    block = max(2, round(procedure.block.to("s") * station.sample_rate_hz))
    details = {
        "plan": dataclasses.asdict(plan),
        "load_limits": dataclasses.asdict(limits),
        "travel_limits": dataclasses.asdict(station.stage.rig_limits),
        **station.details,
    }
    provenance = Provenance(
        operator=operator,
        specimen=specimen.name,
        procedure=procedure.name,
        rig=station.rig.name,
        started_utc=datetime.now(UTC),
        backend=station.backend,
        simulated=station.simulated,
        seed=station.seed,
        instruments=tuple(station.identities.values()),
        calibrations=station.rig.calibrations,
        texts=_texts(station, procedure, specimen, criteria_texts or {}),
        details=details,
    )
    with (
        station.supervisor.run(1.5 * plan.duration_s + 60.0),
        RunWriter.create(results_dir, procedure.name, provenance, group_specs(station, block)) as writer,
    ):
        recording = Recording(
            station,
            writer,
            ForceWatch(limits),
            block=block,
            planned_s=plan.duration_s,
            progress=progress,
        )
        try:
            recording.start()
            entry.run(station, recording, plan)
            limits_mm = station.stage.rig_limits
            station.stage.arm_travel_limits(limits_mm.travel_min_mm, limits_mm.travel_max_mm)
            recording.event("info", "complete", f"{procedure.name} on {specimen.name} ended as planned")
            recording.stop()
            return writer.close("COMPLETE")
        except BaseException as error:
            stopped = abort(station, recording, error)
            if isinstance(error, Exception):
                raise stopped from error
            raise


def _check_clear(station: Station, start_mm: float, specimen: ContactSpecimen) -> None:
    """Refuse to start with the tool where the specimen may be: the tare would hide a load."""
    if station.stage.latched:
        raise LimitError(
            f"the rig was stopped ({station.stage.latched}) and has not been made ready since",
            reason="latched",
            where=f"rig {station.rig.name}",
            remedy="Find the cause, then call station.make_ready(): it homes the axis",
        )
    position = station.stage.position_mm()
    if position > start_mm + REST_MM:
        raise LimitError(
            f"the tool stands at {position:.3f} mm; the free air before {specimen.name} begins at {start_mm:.3f} mm",
            reason="not_in_free_air",
            where="tare",
            remedy="Home the axis first",
        )


def _load_limits(rig: IndenterRig, specimen: ContactSpecimen) -> LoadLimits:
    torque = rig.safety.torque_limit
    return LoadLimits(
        force_n=min(rig.safety.force_limit.to("N"), specimen.max_force.to("N")),
        torque_n_m=None if torque is None else torque.to("N.m"),
    )


def _texts(
    station: Station, procedure: ProcedureProfile, specimen: ContactSpecimen, criteria: Mapping[str, str]
) -> dict[str, str]:
    """Return what the run depends on, word for word: profiles, criteria, the sensor's calibration."""
    texts = {
        "rig.toml": station.rig.source.text,
        "procedure.toml": procedure.source.text,
        "specimen.toml": specimen.source.text,
        **criteria,
    }
    calibration = station.rig.calibration_path()
    if calibration is not None:
        texts[f"calibration/{calibration.name}"] = calibration.read_bytes().decode("utf-8", errors="replace")
    return texts
