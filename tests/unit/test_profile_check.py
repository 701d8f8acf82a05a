"""A folder of profiles is checked at once: files, the files they name, and the names between them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from bench.arm import bare_description
from bench.models.urdf import write_urdf
from bench.profile import check as check_module
from bench.profile import check_folder, load_arm, load_rig
from bench.profile.check_arm import flange_at_zero
from bench.units import Value


@pytest.fixture
def profiles(repository: Path, tmp_path: Path) -> Path:
    """A copy of the shipped profiles to spoil."""
    return Path(shutil.copytree(repository / "profiles", tmp_path / "profiles"))


def spoil(file: Path, old: str, new: str) -> None:
    text = file.read_text(encoding="utf-8")
    assert old in text
    file.write_text(text.replace(old, new, 1), encoding="utf-8")


def told(folder: Path) -> list[str]:
    return [str(problem).replace(f"{folder}/", "") for problem in check_folder(folder)]


def test_the_shipped_profiles_have_no_problem(repository: Path) -> None:
    assert check_folder(repository / "profiles") == []


def test_problems_of_all_files_are_listed_at_once(profiles: Path) -> None:
    spoil(profiles / "rigs" / "indenter.toml", 'max_speed = "20 mm/s"', 'max_speed = "20 mm"')
    spoil(profiles / "procedures" / "indentation.toml", "hold_time", "hold_tme")
    spoil(profiles / "acceptance" / "contact_model.toml", "[analysis]", "[analysis")
    spoil(profiles / "specimens" / "rigid_plate.toml", 'schema = "bench.specimen/1"', "")
    places = [(problem.file.relative_to(profiles).as_posix(), problem.key) for problem in check_folder(profiles)]
    assert places == [
        ("acceptance/contact_model.toml", "line 8"),
        ("procedures/indentation.toml", "hold_time"),
        ("procedures/indentation.toml", "hold_tme"),
        ("rigs/indenter.toml", "stage.max_speed"),
        ("specimens/rigid_plate.toml", "schema"),
    ]


def test_a_twin_of_a_rig_or_specimen_that_does_not_exist_is_told_with_near_misses(profiles: Path) -> None:
    spoil(profiles / "twins" / "indenter.toml", 'rig = "indenter"', 'rig = "indentor"')
    spoil(profiles / "twins" / "indenter.toml", "[specimens.rigid_plate]", "[specimens.rigid_plat]")
    assert told(profiles) == [
        'twins/indenter.toml: rig: given "indentor", expected the name of a rig: full_arm, indenter, '
        'indenter_load_cell, single_joint. Did you mean "indenter"?',
        'twins/indenter.toml: specimens.rigid_plat: given "rigid_plat", expected the name of a specimen: '
        "arm_phantom_a, balanced_arm, bare_tool, liver_phantom_a, liver_phantom_b, output_lock, payload_1kg, "
        "pendulum_arm, puncture_phantom, rigid_plate. "
        'Did you mean "rigid_plate"?',
    ]


def test_a_twin_stands_behind_a_rig_of_its_own_kind(profiles: Path) -> None:
    spoil(profiles / "twins" / "indenter_load_cell.toml", 'rig = "indenter_load_cell"', 'rig = "single_joint"')
    spoil(profiles / "twins" / "single_joint.toml", 'rig = "single_joint"', 'rig = "indenter"')
    assert told(profiles) == [
        'twins/indenter_load_cell.toml: rig: given "single_joint", whose kind is "single_joint", expected a rig of '
        'this twin\'s kind, "indenter". Is this the twin you meant?',
        'twins/single_joint.toml: rig: given "indenter", whose kind is "indenter", expected a rig of this twin\'s '
        'kind, "single_joint". Is this the twin you meant?',
    ]


def test_a_twin_knows_only_what_can_be_mounted_on_its_rig(profiles: Path) -> None:
    spoil(profiles / "twins" / "indenter.toml", "[specimens.rigid_plate]", "[specimens.pendulum_arm]")
    spoil(profiles / "twins" / "single_joint.toml", "[specimens.pendulum_arm]", "[specimens.rigid_plate]")
    assert told(profiles) == [
        'twins/indenter.toml: specimens.pendulum_arm: given "pendulum_arm", whose kind is "joint_load", expected a '
        "specimen of kind phantom or plate or tissue",
        'twins/single_joint.toml: specimens.rigid_plate: given "rigid_plate", whose kind is "plate", expected a '
        "specimen of kind joint_load or output_lock",
    ]


def test_a_lock_is_locked_and_a_load_is_not(profiles: Path) -> None:
    spoil(profiles / "twins" / "single_joint.toml", "locked = true", "locked = false")
    assert told(profiles) == [
        "twins/single_joint.toml: specimens.output_lock.locked: given false for a specimen of kind output_lock, "
        "expected true"
    ]


def test_a_feed_forward_file_is_checked_where_it_lies_but_not_among_profiles(
    profiles: Path, repository: Path, tmp_path: Path
) -> None:
    example = repository / "tests" / "unit" / "example_feedforward.toml"
    kept = tmp_path / "feedforward" / "20260203_joint.toml"
    kept.parent.mkdir()
    shutil.copy(example, kept)
    assert check_folder(kept) == []
    assert check_folder(kept.parent) == []
    spoil(kept, 'coulomb = "1.2 N.m"', 'coulomb = "1.2 N"')
    (only,) = check_folder(kept)
    assert (only.key, only.given) == ("friction.coulomb", '"1.2 N"')
    shutil.copy(example, profiles / "rigs" / "mine.toml")
    assert told(profiles) == [
        'rigs/mine.toml: schema: given "bench.feedforward/1" in rigs/, expected a folder of its own, such as '
        "feedforward/. Move the file"
    ]


def test_a_feed_forward_file_a_procedure_names_must_be_there(profiles: Path, repository: Path) -> None:
    tracking = profiles / "procedures" / "low_speed_tracking.toml"
    spoil(tracking, 'speed = "0.02 rad/s"', 'feedforward = "../../feedforward/joint.toml"\nspeed = "0.02 rad/s"')
    assert told(profiles) == [
        'procedures/low_speed_tracking.toml: feedforward: given "../../feedforward/joint.toml", which does not exist, '
        "expected a feed-forward file. Identify the joint first, or leave the key out"
    ]
    kept = profiles.parent / "feedforward" / "joint.toml"
    kept.parent.mkdir()
    shutil.copy(repository / "tests" / "unit" / "example_feedforward.toml", kept)
    assert told(profiles) == []


def test_a_broken_rig_is_not_blamed_on_its_twin(profiles: Path) -> None:
    spoil(profiles / "rigs" / "indenter.toml", "sign = -1", "sign = 0")
    assert told(profiles) == ["rigs/indenter.toml: force_sensor.sign: given 0, expected -1 or 1"]


def test_a_calibration_file_with_the_wrong_gauge_count_is_told(profiles: Path) -> None:
    spoil(profiles / "rigs" / "indenter.toml", ', "Dev1/ai5"]', "]")
    assert told(profiles) == [
        'rigs/indenter.toml: force_sensor.calibration_file: given "ft90001.cal" with gauges: 6, expected 5, one for '
        "each of force_sensor.channels. Is it the .cal of another sensor, or was it cut short?"
    ]


def test_an_axis_of_a_calibration_file_that_was_cut_short_is_named(profiles: Path) -> None:
    spoil(profiles / "rigs" / "ft90001.cal", '33.90903" max', '" max')
    (only,) = told(profiles)
    assert 'given "ft90001.cal" with gauges: 5 on axis Tz, expected 6, one for each' in only


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("</FTSensor>", "", "which is not XML"),
        (
            'Name="Tz"',
            'Name="Mz"',
            'given "ft90001.cal" with the axes Fx, Fy, Fz, Tx, Ty, Mz, expected the axes Fx, Fy',
        ),
        ("<Axis", "<Row", "with the axes Fy, Fz, Tx, Ty, Tz, expected"),
    ],
)
def test_a_damaged_calibration_file_is_told(profiles: Path, old: str, new: str, said: str) -> None:
    cal = profiles / "rigs" / "ft90001.cal"
    text = cal.read_text(encoding="utf-8")
    assert old in text
    cal.write_text(text.replace(f"<{old}", f"<{new}").replace(f"</{old}", f"</{new}").replace(old, new, 1), "utf-8")
    (only,) = told(profiles)
    assert only.startswith("rigs/indenter.toml: force_sensor.calibration_file: given")
    assert said in only


def test_a_missing_calibration_file_is_told_with_its_neighbour(profiles: Path) -> None:
    spoil(profiles / "rigs" / "indenter.toml", '"ft90001.cal"', '"ft9001.cal"')
    assert told(profiles) == [
        'rigs/indenter.toml: force_sensor.calibration_file: given "ft9001.cal", which does not exist, expected the '
        'sensor\'s .cal file. Did you mean "ft90001.cal"?'
    ]


@pytest.mark.parametrize(("rig", "serial"), [("indenter", "FT90001"), ("full_arm", "FT90002")])
def test_a_calibration_file_of_another_sensor_is_told(profiles: Path, rig: str, serial: str) -> None:
    table = "force_sensor" if rig == "indenter" else "wrist_sensor"
    text = (profiles / f"rigs/{rig}.toml").read_text(encoding="utf-8")
    before, rest = text.split(f"[{table}]")
    rest = rest.replace(f'serial_number = "{serial}"', 'serial_number = "FT1"', 1)
    (profiles / f"rigs/{rig}.toml").write_text(f"{before}[{table}]{rest}", encoding="utf-8")
    (line,) = told(profiles)
    assert line.startswith(f'rigs/{rig}.toml: {table}.serial_number: given "FT1", expected "{serial}", as in ')


def test_an_arm_that_stands_elsewhere_than_measured_is_told(profiles: Path) -> None:
    rig = profiles / "rigs" / "full_arm.toml"
    spoil(rig, 'd = "250 mm"', 'd = "260 mm"')
    assert told(profiles) == [
        "rigs/full_arm.toml: arm.zero_flange: given (360.0, 0.0, 580.0) mm, expected (360.0, 0.0, 590.0) mm, where the "
        "rows put it with all joints at zero. Check the DH rows, the joints' theta and the convention against the "
        "mechanics"
    ]
    spoil(rig, 'd = "260 mm"', 'd = "250.9 mm"')
    assert told(profiles) == []


@pytest.mark.parametrize("convention", ["standard", "modified"])
@pytest.mark.parametrize("file", ["rigs/full_arm", "arms/tx40", "arms/kuka_lwr4"])
def test_the_check_places_the_flange_where_the_model_does(profiles: Path, file: str, convention: str) -> None:
    parse = load_rig if file.startswith("rigs") else load_arm
    path = profiles / f"{file}.toml"
    arm = parse(path)
    placed = arm.arm.model_copy(
        update={
            "convention": convention,
            "zero_flange": None,
            "flange_position": tuple(Value.parse(f"{way} mm", "length") for way in (11, -7, 5)),
        }
    )
    described = bare_description(arm.model_copy(update={"arm": placed}))
    there = np.eye(4)
    for joint in described.joints:
        there = there @ joint.placement
    np.testing.assert_allclose(flange_at_zero(placed), 1e3 * (there @ described.flange)[:3, 3], atol=1e-9)


def test_a_urdf_that_is_missing_or_of_another_arm_is_told(profiles: Path) -> None:
    rig = profiles / "rigs" / "full_arm.toml"
    described = bare_description(load_rig(rig))
    text = rig.read_text(encoding="utf-8").replace('convention = "standard"', 'urdf = "mine.urdf"')
    kept = [line for line in text.splitlines() if not line.startswith(("d = ", "a = ", "alpha", "theta", "link = "))]
    rig.write_text("\n".join(kept), encoding="utf-8")
    assert told(profiles) == [
        'rigs/full_arm.toml: arm.urdf: given "mine.urdf", which does not exist, expected a URDF file'
    ]
    (rig.parent / "mine.urdf").write_text(write_urdf(described), encoding="utf-8")
    assert told(profiles) == []
    (rig.parent / "mine.urdf").write_text(write_urdf(described).replace('"elbow"', '"knee"'), encoding="utf-8")
    (line,) = told(profiles)
    assert line.startswith('rigs/full_arm.toml: arm.urdf: given "mine.urdf": ')
    assert "knee" in line


def test_trajectories_and_feed_forward_an_arms_procedure_names_must_be_there(profiles: Path) -> None:
    spoil(profiles / "procedures" / "arm_excitation.toml", '"full_arm_train"', '"full_arm_trian"')
    spoil(
        profiles / "procedures" / "arm_tracking.toml", "replicates", 'feedforward = "../../found/arm.toml"\nreplicates'
    )
    assert told(profiles) == [
        'procedures/arm_excitation.toml: trajectory: given "full_arm_trian", which does not exist, expected a '
        'trajectory: full_arm_hold_out, full_arm_train. Did you mean "full_arm_train"?',
        'procedures/arm_tracking.toml: feedforward: given "../../found/arm.toml", which does not exist, '
        "expected a feed-forward file. Identify the arm first, or leave the key out",
    ]


def test_a_profile_in_the_wrong_folder_or_under_another_name_is_told(profiles: Path) -> None:
    shutil.move(profiles / "specimens" / "puncture_phantom.toml", profiles / "rigs" / "puncture.toml")
    found = told(profiles)
    assert found[:2] == [
        'rigs/puncture.toml: schema: given "bench.specimen/1" in rigs/, expected a file in specimens/. Move the file',
        'rigs/puncture.toml: name: given "puncture_phantom", expected "puncture", the name of the file. '
        "A profile is found by its file",
    ]


def test_one_file_can_be_checked_alone(profiles: Path) -> None:
    assert check_folder(profiles / "twins" / "indenter.toml") == []
    spoil(profiles / "twins" / "indenter.toml", "bits = 16", "bits = 99")
    (only,) = check_folder(profiles / "twins" / "indenter.toml")
    assert (only.key, only.given) == ("daq.bits", "99")


@pytest.mark.parametrize(("make", "given"), [(False, "no such folder"), (True, "a folder without a .toml file")])
def test_a_folder_without_profiles_is_a_problem(tmp_path: Path, make: bool, given: str) -> None:
    folder = tmp_path / "nothing"
    if make:
        folder.mkdir()
    (only,) = check_folder(folder)
    assert only.given == given


def test_import_mappings_are_handed_to_the_importer(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (profiles / "imports").mkdir(exist_ok=True)
    mapping = profiles / "imports" / "lab.toml"
    mapping.write_text('schema = "bench.import/1"\n', encoding="utf-8")
    seen: list[Path] = []
    importer = type(sys)("importer_of_this_test")
    importer.check_mapping = lambda raw, file: seen.append(file) or []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "importer_of_this_test", importer)
    monkeypatch.setattr(check_module, "IMPORT_CHECK", ("importer_of_this_test", "check_mapping"))
    assert told(profiles) == []
    assert mapping in seen


def test_without_an_importer_a_mapping_is_taken_by_its_schema(profiles: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (profiles / "imports").mkdir(exist_ok=True)
    (profiles / "imports" / "lab.toml").write_text('schema = "bench.import/1"\n', encoding="utf-8")
    monkeypatch.setattr(check_module, "IMPORT_CHECK", ("no_such_importer", "check_mapping"))
    assert told(profiles) == []


def test_checking_needs_neither_pint_nor_numpy(repository: Path) -> None:
    code = (
        "import sys; from bench.profile import check_folder;"
        "assert check_folder(sys.argv[1]) == [];"
        "print([name for name in ('pint', 'numpy', 'scipy', 'h5py') if name in sys.modules])"
    )
    command = [sys.executable, "-c", code, str(repository / "profiles" / "rigs")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"
