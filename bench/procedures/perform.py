"""Carry a procedure out on a station and leave a sealed archive, however it ends. The same frame for every rig."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.archive import Provenance, RunWriter
from bench.errors import LimitError, ProfileError
from bench.procedures.abort import abort
from bench.procedures.feedforward_file import taken_from
from bench.procedures.mounted import check_mounted
from bench.procedures.overrides import with_overrides
from bench.procedures.recording import Progress
from bench.profile import ProcedureProfile, SpecimenProfile
from bench.station import Station


@dataclass(frozen=True)
class Procedure:
    """A procedure: ``plan(rig, procedure, specimen)`` refuses or returns plain numbers, ``run(...)`` carries them out.

    A plan has at least ``duration_s``; one of an indenter also ``start_mm``, where the tool is clear of the specimen.
    ``run(station, recording, plan)`` gets the recording of its rig's kind. ``module`` names where both are, and
    ``framed`` module and class of what every run on such a rig has around it; they are imported when first asked for.
    """

    module: str
    framed: str

    @property
    def frame(self) -> Any:
        module, _, name = self.framed.partition(":")
        return getattr(import_module(module), name)

    @property
    def plan(self) -> Callable[[Any, Any, Any], Any]:
        found: Callable[[Any, Any, Any], Any] = import_module(self.module).plan
        return found

    @property
    def run(self) -> Callable[[Any, Any, Any], None]:
        found: Callable[[Any, Any, Any], None] = import_module(self.module).run
        return found


_INDENTER = "bench.procedures.indenter_frame:IndenterFrame"
_JOINT = "bench.procedures.joint_frame:JointFrame"
ARM_FRAME = "bench.procedures.arm_frame:ArmFrame"

PROCEDURES: dict[str, Procedure] = {
    "indentation": Procedure("bench.procedures.indentation", _INDENTER),
    "frame_stiffness": Procedure("bench.procedures.frame_stiffness", _INDENTER),
    "friction_sweep": Procedure("bench.procedures.joint_friction_sweep", _JOINT),
    "stiffness_ramp": Procedure("bench.procedures.joint_stiffness_ramp", _JOINT),
    "fourier_excitation": Procedure("bench.procedures.joint_fourier_excitation", _JOINT),
    "low_speed_tracking": Procedure("bench.procedures.joint_low_speed_tracking", _JOINT),
    "impedance_step": Procedure("bench.procedures.joint_impedance_step", _JOINT),
    "arm_excitation": Procedure("bench.procedures.arm_excitation", ARM_FRAME),
    "payload_hold": Procedure("bench.procedures.arm_payload_hold", ARM_FRAME),
    "arm_tracking": Procedure("bench.procedures.arm_tracking", ARM_FRAME),
    "wrench_check": Procedure("bench.procedures.arm_wrench_check", ARM_FRAME),
    "approach_touch": Procedure("bench.procedures.arm_approach_touch", ARM_FRAME),
}


def perform(
    station: Station,
    procedure: ProcedureProfile,
    specimen: SpecimenProfile,
    *,
    operator: str,
    results_dir: Path | str,
    criteria_texts: Mapping[str, str] | None = None,
    progress: Progress | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Path:
    """Carry ``procedure`` out on ``specimen`` and return the path of the sealed archive.

    The rig has power only while this runs: it is made ready before, and brought to rest and seen to stand after.

    Parameters
    ----------
    station : Station
        Open and ready.
    procedure, specimen : ProcedureProfile, SpecimenProfile
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
        The ``feedforward`` of a joint or an arm may also be what was loaded or identified; see
        :func:`~bench.procedures.feedforward_file.taken_from`.

    Raises
    ------
    LeaseError, QuarantineError
        The rig is somebody else's by now, or nobody may use it.
    LimitError
        The plan does not fit the limits, or the station is not ready: nothing moved, there is no archive.
    ProfileError
        There is no such procedure, or it or the specimen is one of another kind of rig.
    SafetyAbort
        The operator did not answer yes to what the profiles ask: nothing moved, there is no archive.
    SafetyAbort
        The run was ended early for whatever reason: the rig was made safe, the archive is sealed as ABORTED and its
        path is the error's ``archive``. The cause is chained.
    """
    if procedure.procedure not in PROCEDURES:
        raise ProfileError(
            f'there is no procedure "{procedure.procedure}"', remedy=f"Known: {', '.join(sorted(PROCEDURES))}"
        )
    entry = PROCEDURES[procedure.procedure]
    frame = entry.frame
    if not isinstance(station, frame.station_type):
        fitting = [name for name, other in PROCEDURES.items() if isinstance(station, other.frame.station_type)]
        raise ProfileError(
            f'the rig "{station.rig.name}" is of kind "{station.rig.kind}" and cannot do "{procedure.procedure}"',
            where=str(procedure.source.path),
            remedy=f"Choose another rig, or one of {', '.join(sorted(fitting))}",
        )
    station.check_custody()
    check_mounted(station.rig, specimen)
    changed, feedforward = taken_from(overrides or {})
    procedure = with_overrides(procedure, changed)
    plan, texts = frame.plan(entry.plan, station, procedure, specimen, feedforward)
    found = frame.check(station, procedure, plan, specimen)
    _ask(station, procedure, specimen, operator)
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
        texts=_texts(station, procedure, specimen, criteria_texts or {}) | texts,
        details={
            "plan": dataclasses.asdict(plan),
            "prompts": _answers(station),
            **frame.details(station, specimen),
            **found,
            **station.details,
        },
    )
    with (
        station.supervisor.run(1.5 * plan.duration_s + 60.0),
        RunWriter.create(
            results_dir,
            procedure.name,
            provenance,
            frame.groups(station, procedure),
            phases_capacity=frame.phases_capacity,
        ) as writer,
    ):
        station.archive = writer.final_path
        recording = frame.recording(station, writer, procedure, specimen, plan.duration_s, progress)
        try:
            # Between two runs the rig has no power; from here on every pass of the loop feeds the watchdog.
            if station.resting:
                station.make_ready()
            try:
                frame.check_powered(station, plan, specimen)
            except LimitError:
                station.rest()
                writer.close("ABORTED", "refused").unlink()  # nothing moved, there is nothing to keep
                raise
            recording.start()
            entry.run(station, recording, plan)
            frame.finish(station, recording)
            recording.event("info", "complete", f"{procedure.name} on {specimen.name} ended as planned")
            recording.stop()
            station.rest()
            return writer.close("COMPLETE")
        except BaseException as error:
            if isinstance(error, LimitError) and not writer.path.exists():
                raise  # refused, and nothing was kept
            stopped = abort(station, recording, error)
            if isinstance(error, Exception):
                raise stopped from error
            raise


def _ask(station: Station, procedure: ProcedureProfile, specimen: SpecimenProfile, operator: str) -> None:
    """Ask the operator what the profiles want asked, while the rig has no power."""
    prompts = station.questions.due((*station.rig.prompts, *specimen.prompts, *procedure.prompts))
    if prompts and not station.resting:
        station.rest()
    station.questions.ask(prompts, operator=operator, check=station.check_custody)


def _answers(station: Station) -> list[dict[str, object]]:
    return [dataclasses.asdict(answer) for answer in station.questions.answers]


def _texts(
    station: Station, procedure: ProcedureProfile, specimen: SpecimenProfile, criteria: Mapping[str, str]
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
