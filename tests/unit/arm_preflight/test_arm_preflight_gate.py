"""The gate around a procedure, the command, and the picture."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.cli import main
from bench.errors import LimitError, ProfileError
from bench.models.arm_path import ArmPath
from bench.models.fourier_path import FourierPath
from bench.models.motion_limits import CheckRow
from bench.models.path_check import check_path
from bench.procedures.arm_preflight import preflight
from bench.profile import SpecimenProfile, load_procedure, load_specimen, load_trajectory
from bench.report.preflight import preflight_svg
from bench.trajectory import fourier_path

MakePath = Callable[..., ArmPath]


@dataclass(frozen=True)
class Plan:
    """A plan as a procedure makes it."""

    series: FourierPath

    @property
    def duration_s(self) -> float:
        return self.series.duration_s

    def path(self, rate_hz: float) -> ArmPath:
        times = self.series.times(rate_hz)
        return ArmPath.of("exciting", times, *self.series.sample(times))


@pytest.fixture
def train(repository: Path) -> FourierPath:
    return fourier_path(load_trajectory(repository / "profiles" / "trajectories" / "full_arm_train.toml"))


@pytest.fixture
def procedure(repository: Path) -> Any:
    return load_procedure(repository / "profiles" / "procedures" / "arm_excitation.toml")


def specimen(repository: Path, name: str) -> SpecimenProfile:
    return load_specimen(repository / "profiles" / "specimens" / f"{name}.toml")


def test_the_shipped_excitation_passes_with_and_without_a_payload(
    ground: Any, repository: Path, train: FourierPath, procedure: Any
) -> None:
    for name in ("bare_tool", "payload_1kg"):
        report = preflight(ground.rig, procedure, specimen(repository, name), Plan(train))
        report.refuse()
        assert name in report.title
        assert [row.check for row in report.rows].count("resonance") == 2


def test_a_payload_weighs_in_the_torques(ground: Any, repository: Path, train: FourierPath, procedure: Any) -> None:
    def shoulder(name: str) -> float:
        report = preflight(ground.rig, procedure, specimen(repository, name), Plan(train))
        return next(r.value for r in report.rows if r.check == "torque (rated)" and r.joint == "shoulder")

    assert shoulder("payload_1kg") > shoulder("bare_tool") + 2.0


def test_a_series_on_a_resonance_is_refused(ground: Any, repository: Path, train: FourierPath, procedure: Any) -> None:
    ringing = replace(train.scaled(1e-5), base_hz=3.0)
    report = preflight(ground.rig, procedure, specimen(repository, "bare_tool"), Plan(ringing))
    with pytest.raises(LimitError, match=r"resonance of base.*exciting 18 Hz \(harmonic 6\) near 18 Hz") as refused:
        report.refuse()
    assert refused.value.reason == "preflight_resonance"


def test_a_series_is_held_to_its_limits_between_the_samples_too(
    ground: Any, repository: Path, train: FourierPath, procedure: Any
) -> None:
    @dataclass(frozen=True)
    class Blind(Plan):
        def path(self, rate_hz: float) -> ArmPath:
            return ArmPath.standing("standing", self.series.start, 1.0)

    report = preflight(ground.rig, procedure, specimen(repository, "bare_tool"), Blind(train.scaled(1.5)))
    assert {"tip speed", "speed"} & {row.check for row in report.broken}


@pytest.mark.parametrize("name", ["friction_sweep", "fourier_excitation", "indentation", "frame_stiffness"])
def test_a_procedure_of_another_rig_has_no_path_to_check(ground: Any, repository: Path, name: str) -> None:
    other = load_procedure(repository / f"profiles/procedures/{name}.toml")
    known = "approach_touch, arm_excitation, arm_tracking, payload_hold, wrench_check"
    with pytest.raises(ProfileError, match=f'"{name}" is no procedure of an arm.*no path to check.* of {known}'):
        preflight(ground.rig, other, specimen(repository, "bare_tool"))


def test_a_specimen_of_another_rig_is_refused(ground: Any, repository: Path, procedure: Any) -> None:
    with pytest.raises(ProfileError, match=r'"liver_phantom_a" is of kind "phantom".*payload or arm_phantom'):
        preflight(ground.rig, procedure, specimen(repository, "liver_phantom_a"))


def test_a_run_of_days_is_refused_before_its_path_is_made(ground: Any, repository: Path, procedure: Any) -> None:
    endless = SimpleNamespace(duration_s=181_440.0)  # it has no path to be asked for
    with pytest.raises(LimitError, match=r"would take 50.4 h, at most 8 h") as refused:
        preflight(ground.rig, procedure, specimen(repository, "bare_tool"), endless)
    assert refused.value.reason == "duration"


def test_the_plan_is_made_when_none_is_given_and_the_command_answers(
    ground: Any,
    repository: Path,
    train: FourierPath,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    perform = import_module("bench.procedures.perform")

    monkeypatch.chdir(repository)
    picture = tmp_path / "check.svg"
    command = ["preflight", "full_arm", "arm_excitation", "--picture", str(picture)]

    def answer(plan: Callable[..., object]) -> tuple[int, str]:
        entry = SimpleNamespace(framed=perform.ARM_FRAME, plan=plan)
        monkeypatch.setattr(perform, "PROCEDURES", {"arm_excitation": entry})
        code = main(command)
        return code, capsys.readouterr().out

    code, said = answer(lambda rig, procedure, mounted: Plan(train))
    assert (code, "all limits are kept" in said) == (0, True)
    assert "All limits are kept" in picture.read_text(encoding="utf-8")

    code, said = answer(lambda rig, procedure, mounted: Plan(train.scaled(1.5)))
    assert (code, "REFUSED" in said) == (1, True)
    assert "REFUSED" in picture.read_text(encoding="utf-8")

    def unplannable(*_: object) -> object:
        raise LimitError("it cannot be", reason="x", where="here", remedy="Do otherwise")

    code, said = answer(unplannable)
    assert (code, "REFUSED: here: it cannot be" in said) == (1, True)
    assert main(["preflight", "single_joint", "fourier_excitation"]) == 2


def test_the_picture_is_a_self_contained_drawing(ground: Any, make_swing: MakePath) -> None:
    quiet = check_path(make_swing(), ground.model, ground.limits, "a quiet <path> & more")
    loud = check_path(
        make_swing(force_needed=200.0, direction=(0.0, 0.0, -1.0)), ground.model, ground.limits, "a loud path"
    )
    for report, said in ((quiet, "All limits are kept"), (loud, "REFUSED")):
        text = preflight_svg(report)
        root = ElementTree.fromstring(text)
        words = " ".join(element.text or "" for element in root.iter("{http://www.w3.org/2000/svg}text"))
        assert said in words
        assert report.title in words
        assert "href" not in text
        for name in ground.limits.names:
            assert name in words
        width, height = (float(root.attrib[key]) for key in ("width", "height"))
        for line in root.iter("{http://www.w3.org/2000/svg}polyline"):
            points = [tuple(map(float, pair.split(","))) for pair in line.attrib["points"].split()]
            assert points
            assert all(0.0 <= x <= width and 0.0 <= y <= height for x, y in points)


def test_a_row_that_is_no_number_is_refused() -> None:
    row = CheckRow("speed", "base", float("nan"), 1.0, "rad/s", "at most", 0.0, 0, (0.0,))
    assert not row.ok
    assert not replace(row, value=1.1).ok
    assert replace(row, value=1.0).ok
    assert replace(row, value=5.0, limit=np.inf).ok
    assert not replace(row, value=1.0, limit=float("nan")).ok
