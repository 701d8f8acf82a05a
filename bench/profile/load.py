"""From a TOML file to a frozen profile, or to every problem it has."""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from bench.errors import ProfileError
from bench.profile.arm import ArmProfile
from bench.profile.criteria import ContactCriteria, CriteriaProfile
from bench.profile.criteria_arm import ArmCriteria
from bench.profile.criteria_joint import JointCriteria
from bench.profile.feedforward import FeedForwardProfile
from bench.profile.feedforward_arm import ArmFeedForward
from bench.profile.fields import Profile, Sections, Source
from bench.profile.problem import Issue, Problem, near_miss, shown
from bench.profile.procedure import PROCEDURES, ProcedureProfile
from bench.profile.procedure_arm import ARM_PROCEDURES
from bench.profile.procedure_joint import JOINT_PROCEDURES
from bench.profile.rig import IndenterRig, RigProfile
from bench.profile.rig_arm import ArmRig
from bench.profile.rig_joint import JointRig
from bench.profile.specimen import SPECIMENS, SpecimenProfile
from bench.profile.trajectory import TrajectoryProfile
from bench.profile.translate import translate
from bench.profile.twin import IndenterTwin, TwinProfile
from bench.profile.twin_arm import ArmTwin
from bench.profile.twin_joint import JointTwin

SCHEMAS: dict[str, type[Profile]] = {
    "bench.rig/1": RigProfile,
    "bench.specimen/1": SpecimenProfile,
    "bench.procedure/1": ProcedureProfile,
    "bench.criteria/1": CriteriaProfile,
    "bench.twin/1": TwinProfile,
    "bench.feedforward/1": FeedForwardProfile,
    "bench.arm_feedforward/1": ArmFeedForward,
    "bench.arm/1": ArmProfile,
    "bench.trajectory/1": TrajectoryProfile,
}
RIGS: dict[str, type[Profile]] = {"indenter": IndenterRig, "single_joint": JointRig, "arm": ArmRig}
TWINS: dict[str, type[Profile]] = {"indenter": IndenterTwin, "single_joint": JointTwin, "arm": ArmTwin}
SUBJECTS: dict[str, type[Profile]] = {"contact": ContactCriteria, "joint": JointCriteria, "arm": ArmCriteria}
KINDS: dict[type[Profile], tuple[str, str | None, Mapping[str, type[Profile]]]] = {
    RigProfile: ("kind", None, RIGS),
    SpecimenProfile: ("kind", None, SPECIMENS),
    ProcedureProfile: ("procedure", None, {**PROCEDURES, **JOINT_PROCEDURES, **ARM_PROCEDURES}),
    CriteriaProfile: ("subject", "contact", SUBJECTS),
    TwinProfile: ("kind", "indenter", TWINS),
}
"""Base model → the key that says which of its models a file is read as, what it is when left out, and the models."""
IMPORT_SCHEMA = "bench.import/1"


def load_profile(path: str | Path) -> Profile:
    """Load any profile; its ``schema`` key says which.

    Raises
    ------
    ProfileError
        With every problem of the file in ``problems``.
    """
    return _load(Path(path), None)


def load_rig(path: str | Path) -> RigProfile:
    """Load a rig profile. Raises :class:`ProfileError` with every problem of the file."""
    return cast(RigProfile, _load(Path(path), RigProfile))


def load_specimen(path: str | Path) -> SpecimenProfile:
    """Load a specimen profile. Raises :class:`ProfileError` with every problem of the file."""
    return cast(SpecimenProfile, _load(Path(path), SpecimenProfile))


def load_procedure(path: str | Path) -> ProcedureProfile:
    """Load a procedure profile, as the model its ``procedure`` key names. Raises :class:`ProfileError`."""
    return cast(ProcedureProfile, _load(Path(path), ProcedureProfile))


def load_criteria(path: str | Path) -> CriteriaProfile:
    """Load acceptance criteria. Raises :class:`ProfileError` with every problem of the file."""
    return cast(CriteriaProfile, _load(Path(path), CriteriaProfile))


def load_twin(path: str | Path) -> TwinProfile:
    """Load a twin's truth. Raises :class:`ProfileError` with every problem of the file."""
    return cast(TwinProfile, _load(Path(path), TwinProfile))


def load_feedforward(path: str | Path) -> FeedForwardProfile:
    """Load a feed-forward file. Raises :class:`ProfileError` with every problem of the file."""
    return cast(FeedForwardProfile, _load(Path(path), FeedForwardProfile))


def load_arm_feedforward(path: str | Path) -> ArmFeedForward:
    """Load an arm's feed-forward file. Raises :class:`ProfileError` with every problem of the file."""
    return cast(ArmFeedForward, _load(Path(path), ArmFeedForward))


def load_arm(path: str | Path) -> ArmProfile:
    """Load the mechanics of an arm recorded elsewhere. Raises :class:`ProfileError` with every problem of the file."""
    return cast(ArmProfile, _load(Path(path), ArmProfile))


def load_trajectory(path: str | Path) -> TrajectoryProfile:
    """Load a trajectory file of an arm. Raises :class:`ProfileError` with every problem of the file."""
    return cast(TrajectoryProfile, _load(Path(path), TrajectoryProfile))


def parse_profile(text: str, path: Path) -> tuple[Profile | None, list[Problem]]:
    """Return the profile in ``text`` and its problems; ``path`` is the place they name.

    Archived profile texts are read back with it. The profile is None when there is a problem.
    """
    raw, problems = read_toml(text, path)
    if raw is None:
        return None, problems
    model, problem = _model_for(raw, path)
    if model is None:
        return None, [problem] if problem else []
    return validate(model, raw, text, path)


def read_toml(text: str, path: Path) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Return the TOML tables in ``text``, or the syntax error as a problem."""
    try:
        return tomllib.loads(text), []
    except tomllib.TOMLDecodeError as error:
        place = re.search(r"at line (\d+), column (\d+)", str(error))
        line = int(place.group(1)) if place else text.count("\n") + 1
        lines = text.splitlines()
        given = lines[line - 1].strip() if line <= len(lines) else "the end of the file"
        what = str(error).partition(" (at ")[0]
        hint = f"{what}. Texts and quantities stand in double quotes"
        return None, [Problem(path, f"line {line}", f"`{given}`", "valid TOML", hint)]


def read_text(path: Path) -> tuple[str | None, list[Problem]]:
    """Return the text of ``path``, or why it cannot be read."""
    try:
        return path.read_bytes().decode("utf-8"), []
    except FileNotFoundError:
        beside = sorted(p.name for p in path.parent.glob("*.toml")) if path.parent.is_dir() else []
        hint = near_miss(path.name, beside) or (f"There is {', '.join(beside)}" if beside else "")
        return None, [Problem(path, "", "no such file", "a profile", hint)]
    except OSError as error:
        return None, [Problem(path, "", str(error.strerror), "a readable file")]
    except UnicodeDecodeError as error:
        hint = "It is no text file" if b"\0" in path.read_bytes()[:512] else "Save the file as UTF-8"
        return None, [Problem(path, "", f"byte {error.start} that is not UTF-8", "UTF-8 text", hint)]


def _load(path: Path, wanted: type[Profile] | None) -> Profile:
    text, problems = read_text(path)
    profile = None
    if text is not None:
        profile, problems = parse_profile(text, path)
    if profile is not None and wanted is not None and not isinstance(profile, wanted):
        schema = next(name for name, model in SCHEMAS.items() if model is wanted)
        problems = [Problem(path, "schema", f'"{profile.schema_id}"', f'"{schema}"', "Is this the file you meant?")]  # type: ignore[attr-defined]
    if problems or profile is None:
        listed = "\n  ".join(str(problem) for problem in problems)
        count = "a problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise ProfileError(f"the profile has {count}\n  {listed}", where=str(path), problems=tuple(problems))
    return profile


def _model_for(raw: Mapping[str, Any], path: Path) -> tuple[type[Profile] | None, Problem | None]:
    schema = raw.get("schema")
    known = (*SCHEMAS, IMPORT_SCHEMA)
    if schema is None:
        hint = f'Write it on the first line, such as schema = "{known[0]}"'
        return None, Problem(path, "schema", "nothing", f"one of {', '.join(known)}", hint)
    if schema == IMPORT_SCHEMA:
        hint = "Import mappings are read by `bench import`"
        return None, Problem(path, "schema", f'"{schema}"', f"one of {', '.join(SCHEMAS)}", hint)
    if not isinstance(schema, str) or schema not in SCHEMAS:
        return None, Problem(path, "schema", shown(schema), f"one of {', '.join(known)}", near_miss(str(schema), known))
    if SCHEMAS[schema] not in KINDS:
        return SCHEMAS[schema], None
    key, default, models = KINDS[SCHEMAS[schema]]
    kind = raw.get(key, default)
    if isinstance(kind, str) and kind in models:
        return models[kind], None
    given = "nothing" if kind is None else shown(kind)
    return None, Problem(path, key, given, f"one of {', '.join(models)}", near_miss(str(kind), models))


def validate(
    model: type[Profile], raw: Mapping[str, Any], text: str, path: Path
) -> tuple[Profile | None, list[Problem]]:
    """Return the ``model`` in the tables ``raw`` of ``text``, or None and every problem it has."""
    valid: dict[Any, Any] = {}
    profile: Profile | None = None
    issues: list[Issue] = []
    try:
        profile = model.model_validate(_frozen(raw), context=valid)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            issues += translate(model, raw, detail)
    issues += model.cross_checks(Sections(valid))
    if issues or profile is None:
        return None, [Problem(path, issue.key, issue.given, issue.expected, issue.hint) for issue in issues]
    digest = hashlib.sha256(text.encode("utf-8")).hexdigest()
    profile._source = Source(path, text, digest)
    return profile, []


def _frozen(raw: Any) -> Any:
    if isinstance(raw, Mapping):
        return {key: _frozen(value) for key, value in raw.items()}
    return tuple(_frozen(value) for value in raw) if isinstance(raw, list) else raw
