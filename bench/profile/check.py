"""Check a whole folder of profiles at once: each file, the files it names, and the names between files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from bench.profile.arm import ArmProfile
from bench.profile.check_arm import arm_geometry, trajectory_files
from bench.profile.criteria import CriteriaProfile
from bench.profile.feedforward import FeedForwardProfile
from bench.profile.feedforward_arm import ArmFeedForward
from bench.profile.fields import Profile
from bench.profile.find import FOLDERS
from bench.profile.load import IMPORT_SCHEMA, parse_profile, read_text, read_toml
from bench.profile.problem import Problem, near_miss
from bench.profile.procedure import ProcedureProfile
from bench.profile.procedure_arm import ArmProcedure
from bench.profile.procedure_joint import JointProcedure
from bench.profile.rig import AtiSensorProfile, IndenterRig, RigProfile
from bench.profile.rig_arm import ArmRig
from bench.profile.rig_joint import JointRig
from bench.profile.specimen import (
    SPECIMENS,
    ArmPhantom,
    ContactSpecimen,
    JointLoad,
    OutputLock,
    Payload,
    SpecimenProfile,
)
from bench.profile.trajectory import TrajectoryProfile
from bench.profile.twin import IndenterTwin, TwinProfile
from bench.profile.twin_arm import ArmTwin
from bench.profile.twin_joint import JointTwin

FOLDER_OF: dict[type[Profile], str] = {
    RigProfile: "rigs",
    SpecimenProfile: "specimens",
    ProcedureProfile: "procedures",
    CriteriaProfile: "acceptance",
    TwinProfile: "twins",
    ArmProfile: "arms",
    TrajectoryProfile: "trajectories",
}
#: Rig model → the models of the twins that stand behind it, and of what may be mounted on it.
STANDS_BEHIND: dict[type[RigProfile], tuple[type[TwinProfile], tuple[type[SpecimenProfile], ...]]] = {
    IndenterRig: (IndenterTwin, (ContactSpecimen,)),
    JointRig: (JointTwin, (JointLoad, OutputLock)),
    ArmRig: (ArmTwin, (Payload, ArmPhantom)),
}
AXES = ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz")
IMPORT_CHECK = ("bench.archive.mapping", "check_mapping")


def check_folder(path: str | Path) -> list[Problem]:
    """Return every problem of every ``.toml`` file under ``path``, or of that one file; empty when all is well."""
    root = Path(path)
    if not root.exists():
        return [Problem(root, "", "no such folder", "a folder of profiles")]
    files = sorted(root.rglob("*.toml")) if root.is_dir() else [root]
    if not files:
        return [Problem(root, "", "a folder without a .toml file", "profiles", f"Folders are {', '.join(FOLDERS)}")]
    problems: list[Problem] = []
    profiles: dict[Path, Profile] = {}
    for file in files:
        profile, found = _check_file(file)
        problems += found
        if profile is not None:
            profiles[file] = profile
            problems += _place(file, profile)
            problems += _calibration_file(file, profile)
            problems += _feedforward_file(file, profile)
            problems += arm_geometry(file, profile)
            problems += trajectory_files(file, profile)
    problems += _cross_references(root, profiles)
    return problems


def _check_file(file: Path) -> tuple[Profile | None, list[Problem]]:
    text, problems = read_text(file)
    if text is None:
        return None, problems
    raw, problems = read_toml(text, file)
    if raw is not None and raw.get("schema") == IMPORT_SCHEMA:
        return None, _check_import(file, raw)
    return (None, problems) if raw is None else parse_profile(text, file)


def _check_import(file: Path, raw: Mapping[str, Any]) -> list[Problem]:
    """Hand an import mapping to the importer, which alone knows its keys; imported only when there is one."""
    module, name = IMPORT_CHECK
    try:
        check = getattr(import_module(module), name)
    except (ImportError, AttributeError):
        return []
    found: list[Problem] = check(raw, file)
    return found


def _place(file: Path, profile: Profile) -> Iterator[Problem]:
    """A profile is found by folder and file name, so both must fit what it says of itself."""
    # feed-forward files are results, named by their path and kept where the lab likes
    if isinstance(profile, FeedForwardProfile | ArmFeedForward):
        if file.parent.name in FOLDERS:
            given = f'"{profile.schema_id}" in {file.parent.name}/'
            yield Problem(file, "schema", given, "a folder of its own, such as feedforward/", "Move the file")
        return
    folder = next(name for model, name in FOLDER_OF.items() if isinstance(profile, model))
    if file.parent.name in FOLDERS and file.parent.name != folder:
        schema: str = getattr(profile, "schema_id", "")
        yield Problem(file, "schema", f'"{schema}" in {file.parent.name}/', f"a file in {folder}/", "Move the file")
    name: str = getattr(profile, "name", "")
    if name != file.stem:
        yield Problem(
            file, "name", f'"{name}"', f'"{file.stem}", the name of the file', "A profile is found by its file"
        )


def _calibration_file(file: Path, profile: Profile) -> Iterator[Problem]:
    if isinstance(profile, IndenterRig):
        table, sensor = "force_sensor", profile.force_sensor
    elif isinstance(profile, ArmRig):
        table, sensor = "wrist_sensor", profile.wrist_sensor
    else:
        return
    if not isinstance(sensor, AtiSensorProfile):
        return
    key = f"{table}.calibration_file"
    cal = file.parent / sensor.calibration_file
    named = f'"{sensor.calibration_file}"'
    if not cal.is_file():
        beside = [other.name for other in cal.parent.glob("*.cal")] if cal.parent.is_dir() else []
        yield Problem(
            file, key, f"{named}, which does not exist", "the sensor's .cal file", near_miss(cal.name, beside)
        )
        return
    try:
        root = ElementTree.parse(cal).getroot()
    except ElementTree.ParseError as error:
        yield Problem(file, key, f"{named}, which is not XML ({error})", "the sensor's .cal file", "Copy it again")
        return
    calibrations = list(root.iter("Calibration"))
    stated = root.get("Serial")
    if None not in (sensor.serial_number, stated) and stated != sensor.serial_number:
        given = f'"{sensor.serial_number}"'
        yield Problem(
            file, f"{table}.serial_number", given, f'"{stated}", as in {named}', "Is it another sensor's file?"
        )
    if not calibrations:
        yield Problem(file, key, f"{named} without a <Calibration>", "the sensor's .cal file", "Copy it again")
    for calibration in calibrations:
        axes = calibration.findall("Axis") or calibration.findall("UserAxis")
        names = [axis.get("Name", "?") for axis in axes]
        if sorted(names) != sorted(AXES):
            given = f"{named} with the axes {', '.join(names) or 'none'}"
            yield Problem(file, key, given, f"the axes {', '.join(AXES)}")
        channels = len(sensor.channels)
        gauges = {axis.get("Name", "?"): len(axis.get("values", "").split()) for axis in axes}
        wrong = {name: count for name, count in gauges.items() if count != channels}
        if wrong:
            alike = len(wrong) == len(axes) and len(set(wrong.values())) == 1
            counts = f"{wrong[names[0]]}" if alike else ", ".join(f"{n} on axis {name}" for name, n in wrong.items())
            hint = "Is it the .cal of another sensor, or was it cut short?"
            expected = f"{channels}, one for each of {table}.channels"
            yield Problem(file, key, f"{named} with gauges: {counts}", expected, hint)


def _feedforward_file(file: Path, profile: Profile) -> Iterator[Problem]:
    """A procedure's feed-forward file counts from the working folder, else from the procedure's own."""
    if not isinstance(profile, JointProcedure | ArmProcedure) or profile.feedforward is None:
        return
    named, device = Path(profile.feedforward), "arm" if isinstance(profile, ArmProcedure) else "joint"
    if not named.is_file() and not (file.parent / named).is_file():
        beside = [other.name for other in (file.parent / named).parent.glob("*.toml")]
        given = f'"{profile.feedforward}", which does not exist'
        hint = near_miss(named.name, beside) or f"Identify the {device} first, or leave the key out"
        yield Problem(file, "feedforward", given, "a feed-forward file", hint)


def _cross_references(root: Path, profiles: Mapping[Path, Profile]) -> Iterator[Problem]:
    if not root.is_dir():
        return
    # a broken rig is reported already; its twin is not to blame as well
    rig_files = {file.stem for file in root.rglob("rigs/*.toml")}
    specimen_files = {file.stem for file in root.rglob("specimens/*.toml")}
    rigs = {file.stem: profile for file, profile in profiles.items() if isinstance(profile, RigProfile)}
    specimens = {file.stem: profile for file, profile in profiles.items() if isinstance(profile, SpecimenProfile)}
    for file, profile in profiles.items():
        if not isinstance(profile, TwinProfile):
            continue
        yield from _kinds_fit(file, profile, rigs, specimens)
        if profile.rig not in rig_files:
            due = f"the name of a rig: {', '.join(sorted(rig_files)) or 'there is none'}"
            yield Problem(file, "rig", f'"{profile.rig}"', due, near_miss(profile.rig, rig_files))
        for name in profile.specimen_names:
            if name not in specimen_files:
                due = f"the name of a specimen: {', '.join(sorted(specimen_files)) or 'there is none'}"
                yield Problem(file, f"specimens.{name}", f'"{name}"', due, near_miss(name, specimen_files))


def _kinds_fit(
    file: Path, twin: TwinProfile, rigs: Mapping[str, RigProfile], specimens: Mapping[str, SpecimenProfile]
) -> Iterator[Problem]:
    """A twin must be of its rig's kind and know only what can be mounted on it."""
    mountable = next(models for model, models in STANDS_BEHIND.values() if isinstance(twin, model))
    rig = rigs.get(twin.rig)
    if rig is not None and not isinstance(twin, STANDS_BEHIND[type(rig)][0]):
        given = f'"{twin.rig}", whose kind is "{rig.kind}"'
        yield Problem(file, "rig", given, f'a rig of this twin\'s kind, "{twin.kind}"', "Is this the twin you meant?")
    for name in twin.specimen_names:
        specimen = specimens.get(name)
        if specimen is not None and not isinstance(specimen, mountable):
            known = [kind for kind, model in SPECIMENS.items() if issubclass(model, mountable)]
            given = f'"{name}", whose kind is "{specimen.kind}"'
            yield Problem(file, f"specimens.{name}", given, f"a specimen of kind {' or '.join(known)}")
        elif specimen is not None and isinstance(twin, JointTwin):
            locked, lock = twin.specimens[name].locked, isinstance(specimen, OutputLock)
            if locked != lock:
                given = f"{str(locked).lower()} for a specimen of kind {specimen.kind}"
                yield Problem(file, f"specimens.{name}.locked", given, str(lock).lower())
