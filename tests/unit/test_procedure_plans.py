"""Plans are refused before anything moves, and overrides are validated like the file."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import LimitError, ProfileError
from bench.procedures import PROCEDURES, frame_stiffness, indentation
from bench.procedures.mounted import check_mounted
from bench.procedures.overrides import with_overrides
from bench.profile import (
    FrameStiffnessProcedure,
    IndentationProcedure,
    RigProfile,
    SpecimenProfile,
    load_procedure,
    load_rig,
    load_specimen,
)
from bench.profile.procedure import PROCEDURES as PROFILED
from bench.profile.procedure_arm import ARM_PROCEDURES
from bench.profile.procedure_joint import JOINT_PROCEDURES
from bench.units import Value


@pytest.fixture
def rig(repository: Path) -> RigProfile:
    return load_rig(repository / "profiles/rigs/indenter.toml")


@pytest.fixture
def phantom(repository: Path) -> SpecimenProfile:
    return load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")


@pytest.fixture
def plate(repository: Path) -> SpecimenProfile:
    return load_specimen(repository / "profiles/specimens/rigid_plate.toml")


@pytest.fixture
def press(repository: Path) -> IndentationProcedure:
    procedure = load_procedure(repository / "profiles/procedures/indentation.toml")
    assert isinstance(procedure, IndentationProcedure)
    return procedure


@pytest.fixture
def frame(repository: Path) -> FrameStiffnessProcedure:
    procedure = load_procedure(repository / "profiles/procedures/frame_stiffness.toml")
    assert isinstance(procedure, FrameStiffnessProcedure)
    return procedure


def test_every_procedure_that_can_be_profiled_can_be_performed() -> None:
    assert set(PROCEDURES) == {*PROFILED, *JOINT_PROCEDURES, *ARM_PROCEDURES}


@pytest.mark.parametrize(
    ("name", "fitting"),
    [
        ("indenter", {"liver_phantom_a", "liver_phantom_b", "puncture_phantom", "rigid_plate"}),
        ("single_joint", {"balanced_arm", "output_lock", "pendulum_arm"}),
        ("full_arm", {"arm_phantom_a", "bare_tool", "payload_1kg"}),
    ],
)
def test_a_rig_takes_the_specimens_of_its_kind_alone(repository: Path, name: str, fitting: set[str]) -> None:
    profiles = repository / "profiles"
    mounted = load_rig(profiles / f"rigs/{name}.toml")
    specimens = [load_specimen(file) for file in profiles.glob("specimens/*.toml")]
    assert fitting < {specimen.name for specimen in specimens}
    for specimen in specimens:
        if specimen.name in fitting:
            check_mounted(mounted, specimen)
        else:
            with pytest.raises(ProfileError, match=f'"{specimen.name}" is of kind .* rig "{name}". Choose a specimen'):
                check_mounted(mounted, specimen)


def test_the_start_leaves_the_free_air_at_speed(
    rig: RigProfile, press: IndentationProcedure, phantom: SpecimenProfile
) -> None:
    plan = indentation.plan(rig, press, phantom)
    gaining_speed = 2.0**2 / (2 * 200.0)
    assert plan.surface_mm - plan.start_mm - gaining_speed >= press.free_air.to("mm")
    assert [r.speed_mm_s for r in plan.replicates] == [2.0] * 5 + [0.5] * 2
    assert [r.number for r in plan.replicates] == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("overrides", "reason", "words"),
    [
        ({"depth": "12.5 mm"}, "travel_limit", "12 mm"),
        ({"depth": None, "force": "10 N"}, "force_limit", "10 N"),
        ({"free_air": "30 mm"}, "travel_limit", "travel 0 … 55 mm"),
        ({"press_speed": "15.5 mm/s"}, "speed_limit", "press speed of 15.5 mm/s is above the rig's 15 mm/s"),
        ({"second_speeds": ["16 mm/s"]}, "speed_limit", "press speed of 16 mm/s"),
        ({"approach_speed": "13 mm/s"}, "speed_limit", "approach speed of 13 mm/s is above the rig's 12 mm/s"),
    ],
)
def test_an_indentation_outside_the_limits_is_refused(
    rig: RigProfile,
    press: IndentationProcedure,
    phantom: SpecimenProfile,
    overrides: dict[str, object],
    reason: str,
    words: str,
) -> None:
    changed = with_overrides(press, overrides)
    with pytest.raises(LimitError) as refused:
        indentation.plan(rig, changed, phantom)
    assert refused.value.reason == reason
    assert words in str(refused.value)


def test_a_frame_run_needs_a_plate(rig: RigProfile, frame: FrameStiffnessProcedure, phantom: SpecimenProfile) -> None:
    with pytest.raises(LimitError, match="the specimen is a phantom"):
        frame_stiffness.plan(rig, frame, phantom)


def test_a_frame_run_stays_below_what_the_plate_bears(
    rig: RigProfile, frame: FrameStiffnessProcedure, plate: SpecimenProfile
) -> None:
    assert frame_stiffness.plan(rig, frame, plate).forces_n == (2.5, 5.0, 7.5, 10.0, 12.5, 15.0)
    with pytest.raises(LimitError, match="18 N") as refused:
        frame_stiffness.plan(rig, with_overrides(frame, {"max_force": "18 N"}), plate)
    assert refused.value.reason == "force_limit"


def test_an_override_changes_one_key_and_the_text_says_so(press: IndentationProcedure) -> None:
    changed = with_overrides(press, {"replicates": 2, "second_speeds": [Value.parse("1 mm/s")]})
    assert changed.replicates == 2
    assert [speed.to("mm/s") for speed in changed.second_speeds] == [1.0]
    assert changed.depth == press.depth
    assert changed.source.text.startswith("# indentation.toml, changed for this run: replicates, second_speeds\n")
    assert "replicates = 2\n" in changed.source.text
    assert with_overrides(press, {}) is press


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ({"press_speed": "2 mm"}, "press_speed"),
        ({"replicate": 3}, 'the unknown key "replicate"'),
        ({"force": "3 N"}, "either depth or force"),
        ({"baseline_time": "0.5 s"}, "at least 1 s"),
        ({"free_air": "1,5 mm"}, "free_air"),
    ],
)
def test_an_override_is_checked_like_the_file(
    press: IndentationProcedure, overrides: dict[str, object], words: str
) -> None:
    with pytest.raises(ProfileError) as refused:
        with_overrides(press, overrides)
    assert words in str(refused.value)
    assert "indentation.toml" in str(refused.value)
