"""Archives of a simulated arm whose links, friction and payload are known, and criteria with single words changed."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from bench.acceptance import Verdict, judge_run
from bench.acceptance.arm import judge_arm
from bench.acceptance.arm_facts import ArmFacts
from bench.acceptance.decision import worst
from bench.profile import ArmCriteria, ArmRig, CriteriaProfile, load_rig, parse_profile
from bench.units import Value


def module() -> ModuleType:
    """The module ``simulated_arm.py`` beside this file."""
    name = "simulated_arm"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
        assert spec is not None
        assert spec.loader is not None
        sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[name])
    return sys.modules[name]


@pytest.fixture(scope="session")
def profile_texts(repository: Path) -> dict[str, str]:
    """Text of every procedure and specimen by name."""
    folders = ("procedures", "specimens", "trajectories")
    files = [file for folder in folders for file in repository.glob(f"profiles/{folder}/*.toml")]
    return {file.stem: file.read_text(encoding="utf-8") for file in files}


@pytest.fixture
def simulated_arm(repository: Path, tmp_path: Path, profile_texts: dict[str, str]) -> Any:
    rig = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(rig, ArmRig)
    return module().SimulatedArm(rig, tmp_path, dict(profile_texts))


@pytest.fixture(scope="session")
def truth() -> Any:
    return module().Truth


@pytest.fixture(scope="session")
def arm_criteria(repository: Path) -> Callable[..., CriteriaProfile]:
    """``arm_criteria(name, (old, new), ...)``: acceptance criteria of the bench with single words changed."""

    def make(name: str, *changes: tuple[str, str]) -> CriteriaProfile:
        text = (repository / "profiles" / "acceptance" / f"{name}.toml").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        profile, problems = parse_profile(text, Path("criteria.toml"))
        assert isinstance(profile, CriteriaProfile), problems
        return profile

    return make


@pytest.fixture
def judged_arm(simulated_arm: Any, arm_criteria: Callable[..., CriteriaProfile]) -> Callable[..., Verdict]:
    """``judged_arm(criteria, parts, truth, ...)``: the verdict on a run in memory."""
    return judge_with(simulated_arm, arm_criteria, archive=False)


@pytest.fixture
def judged_archive(simulated_arm: Any, arm_criteria: Callable[..., CriteriaProfile]) -> Callable[..., Verdict]:
    """The same by a sealed archive."""
    return judge_with(simulated_arm, arm_criteria, archive=True)


def judge_with(arm: Any, criteria_of: Callable[..., CriteriaProfile], *, archive: bool) -> Callable[..., Verdict]:

    def judge(name: str, parts: Sequence[Any], truth: Any = None, *changes: Any, **rest: Any) -> Verdict:
        criteria = criteria_of(name, *changes)
        recorded = arm.record(parts, truth, criteria=criteria.source.text, **rest)
        if archive:
            return judge_run(arm.write(recorded), criteria)
        assert isinstance(criteria, ArmCriteria)
        found = judge_arm(recorded, criteria, "")  # type: ignore[arg-type]  # a run in memory, by its methods
        return Verdict(
            outcome=worst(row.outcome for row in found.rows), rows=found.rows, explanation=found.explanation,
            criteria_name=name, criteria_version="1", criteria_sha256="", archive="", archive_digest="",
            simulated=True, software_version="",
        )  # fmt: skip

    return judge


@pytest.fixture(autouse=True)
def procedures(monkeypatch: pytest.MonkeyPatch, profile_texts: dict[str, str]) -> None:
    """Stand-ins for procedures that are not among the profiles: their names, and the force a touch wants."""

    def procedure(facts: ArmFacts) -> Any:
        name = facts.run.texts["procedure.toml"]
        return SimpleNamespace(procedure=name, name=name, force=Value(10.0, "N", "force"))

    if "arm_tracking" not in profile_texts:
        monkeypatch.setattr(ArmFacts, "procedure", property(procedure))
