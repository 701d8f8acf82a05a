"""Profiles as the bench uses them: found by name, frozen, with their text."""

from __future__ import annotations

import doctest
import hashlib
import pickle
from datetime import date
from pathlib import Path

import pytest
from pydantic import ValidationError

import bench.profile
from bench.errors import ProfileError
from bench.profile import (
    ContactSpecimen,
    FrameStiffnessProcedure,
    IndentationProcedure,
    IndenterRig,
    IndenterTwin,
    JointLoad,
    JointRig,
    JointTwin,
    OutputLock,
    RigProfile,
    find_profile,
    load_criteria,
    load_feedforward,
    load_procedure,
    load_profile,
    load_rig,
    load_specimen,
    load_twin,
    profiles_root,
)
from bench.profile.criteria import CriteriaProfile
from bench.profile.procedure_joint import JOINT_PROCEDURES
from bench.units import Value


@pytest.fixture
def rig(repository: Path) -> RigProfile:
    return load_rig(find_profile("rigs", "indenter", repository / "profiles"))


def test_a_quantity_is_read_in_any_unit_of_its_kind(rig: RigProfile) -> None:
    assert rig.safety.force_limit == Value(20.0, "N", "force")
    assert rig.stage.microstep_size.to("mm") == 47.625e-6
    assert rig.daq.sample_rate.to("kHz") == 1.0
    assert 2.0 / rig.stage.microstep_size.to("mm") * rig.stage.speed_scale == pytest.approx(68804, abs=1)


def test_keys_left_out_take_the_documented_defaults(repository: Path) -> None:
    procedure = load_procedure(repository / "profiles/procedures/frame_stiffness.toml")
    assert procedure.block == Value(100.0, "ms", "time")
    twin = load_twin(repository / "profiles/twins/indenter_load_cell.toml")
    assert twin.force_sensor.cross_talk.to("1") == 0.0
    assert twin.faults == ()


def test_the_procedure_key_chooses_the_model(repository: Path) -> None:
    root = repository / "profiles"
    indentation = load_procedure(find_profile("procedures", "indentation", root))
    assert isinstance(indentation, IndentationProcedure)
    assert indentation.press_speed.to("mm/s") == 2.0
    assert (indentation.replicates, len(indentation.second_speeds)) == (5, 1)
    assert isinstance(load_profile(find_profile("procedures", "frame_stiffness", root)), FrameStiffnessProcedure)


def test_the_three_gates_stand_in_the_criteria_with_their_definitions(repository: Path) -> None:
    criteria = load_criteria(repository / "profiles/acceptance/contact_model.toml")
    gates = {criterion.metric: criterion for criterion in criteria.criteria}
    limits = {metric: str(criterion.limit) for metric, criterion in gates.items()}
    assert limits == {
        "peak_force_deviation": "10 %",
        "rise_slope_deviation": "15 %",
        "residual_force": "0.2 N",
        "residual_force_ratio": "5 %",
    }
    assert gates["rise_slope_deviation"].segment == "rise"
    assert "measured loading force is 20 to 80 %" in gates["rise_slope_deviation"].definition
    assert {criterion.prediction for criterion in criteria.criteria} == {"other_replicates", None}
    assert gates["residual_force"].at_time == Value(3.0, "s", "time")


def test_a_profile_is_frozen_and_travels_between_processes(rig: RigProfile) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        rig.safety.force_limit = Value(50.0, "N", "force")  # type: ignore[misc]
    again = pickle.loads(pickle.dumps(rig))
    assert again == rig
    assert again.source == rig.source


def test_a_profile_carries_the_text_it_was_read_from(rig: RigProfile) -> None:
    content = rig.source.path.read_bytes()
    assert rig.source.text.encode() == content
    assert rig.source.sha256 == hashlib.sha256(content).hexdigest()


def test_a_profile_made_without_a_file_has_no_source() -> None:
    with pytest.raises(ProfileError, match="was not read from a file"):
        _ = CriteriaProfile.model_construct().source


def test_the_calibration_file_lies_beside_the_profile(rig: RigProfile, repository: Path) -> None:
    assert rig.calibration_path() == repository / "profiles/rigs/ft90001.cal"
    cell = load_rig(repository / "profiles/rigs/indenter_load_cell.toml")
    assert cell.calibration_path() is None
    assert cell.force_sensor.channels == ("Dev1/ai0",)


def test_a_certificate_counts_to_its_due_day_and_not_a_day_longer(rig: RigProfile) -> None:
    assert rig.expired(date(2036, 1, 7)) == []
    assert [expired.instrument for expired in rig.expired(date(2036, 1, 8))] == ["force_sensor", "encoder", "daq"]


def _shipped(repository: Path, kind: type[RigProfile]) -> list[RigProfile]:
    rigs = [load_rig(file) for file in sorted((repository / "profiles/rigs").glob("*.toml"))]
    return [rig for rig in rigs if isinstance(rig, kind)]


def _specimens(repository: Path, *kinds: type) -> set[str]:
    files = (repository / "profiles/specimens").glob("*.toml")
    return {file.stem for file in files if isinstance(load_specimen(file), kinds)}


def _assert_whole_ticks(rig: RigProfile, tick: Value) -> None:
    ticks = 1 / rig.daq.sample_rate.to("Hz") / tick.to("s")
    assert round(ticks) >= 1
    assert ticks == pytest.approx(round(ticks))


def test_every_shipped_indenter_has_a_twin_that_knows_every_specimen(repository: Path) -> None:
    rigs = _shipped(repository, IndenterRig)
    assert {rig.name for rig in rigs} == {"indenter", "indenter_load_cell"}
    for rig in rigs:
        twin = load_twin(find_profile("twins", rig.name, repository / "profiles"))
        assert isinstance(rig, IndenterRig)
        assert isinstance(twin, IndenterTwin)
        assert twin.rig == rig.name
        assert set(twin.specimens) == _specimens(repository, ContactSpecimen)
        assert twin.stage.serial_number == rig.stage.serial_number
        assert twin.force_sensor.serial_number == rig.force_sensor.serial_number
        # the truth differs from what the rig believes, but lies inside the stated uncertainty
        off = abs(twin.frame.stiffness.to("N/mm") - rig.frame.stiffness.to("N/mm"))
        assert 0 < off < rig.frame.expanded_uncertainty.to("N/mm")
        _assert_whole_ticks(rig, twin.tick)


@pytest.mark.parametrize("name", ["single_joint", "single_joint_ideal"])
def test_every_twin_of_the_joint_knows_every_load_and_its_serial_numbers(repository: Path, name: str) -> None:
    (rig,) = _shipped(repository, JointRig)
    twin = load_twin(find_profile("twins", name, repository / "profiles"))
    assert isinstance(rig, JointRig)
    assert isinstance(twin, JointTwin)
    assert twin.rig == rig.name
    assert set(twin.specimens) == _specimens(repository, JointLoad, OutputLock)
    assert twin.motor.serial_number == rig.drive.serial_number
    assert twin.torque_transducer.serial_number == rig.torque_transducer.serial_number
    assert twin.gear.ratio == rig.drive.gear_ratio
    _assert_whole_ticks(rig, twin.tick)


def test_the_simulated_joint_has_the_published_friction(repository: Path) -> None:
    twin = load_twin(find_profile("twins", "single_joint", repository / "profiles"))
    assert isinstance(twin, JointTwin)
    stated = [twin.friction.viscous, twin.friction.coulomb, twin.friction.stribeck_excess]
    assert [str(value) for value in stated] == ["0.8 N.m.s/rad", "1.2 N.m", "0.6 N.m"]
    assert str(twin.friction.stribeck_velocity) == "0.05 rad/s"


def test_every_procedure_of_the_joint_is_shipped_and_read_as_its_own_model(repository: Path) -> None:
    for name, model in JOINT_PROCEDURES.items():
        assert type(load_procedure(find_profile("procedures", name, repository / "profiles"))) is model


def test_a_feed_forward_file_is_read_with_its_sources(repository: Path) -> None:
    loaded = load_feedforward(repository / "tests/unit/example_feedforward.toml")
    assert loaded.friction.coulomb == Value(1.2, "N.m", "torque")
    assert loaded.created.utcoffset() is not None
    assert [source.procedure for source in loaded.sources] == ["friction_sweep"]
    with pytest.raises(ProfileError, match=r'given "bench.rig/1", expected "bench.feedforward/1"'):
        load_feedforward(repository / "profiles/rigs/single_joint.toml")


def test_no_shipped_procedure_asks_more_of_a_specimen_than_it_bears(repository: Path) -> None:
    root = repository / "profiles"
    for procedure, specimen in (("indentation", "liver_phantom_a"), ("puncture", "puncture_phantom")):
        press = load_procedure(find_profile("procedures", procedure, root))
        piece = load_specimen(find_profile("specimens", specimen, root))
        assert isinstance(press, IndentationProcedure)
        assert press.depth is not None
        assert press.depth.to("mm") <= piece.max_indentation.to("mm")


# ---------------------------------------------------------------------------------------------------------- finding


def test_a_profile_is_found_by_name_by_file_name_or_by_path(repository: Path) -> None:
    root = repository / "profiles"
    file = root / "rigs" / "indenter.toml"
    assert find_profile("rigs", "indenter", root) == file
    assert find_profile("rigs", "indenter.toml", root) == file
    assert find_profile("rigs", file) == file


def test_without_a_root_the_folder_here_comes_before_the_profiles_that_come_with_the_bench(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert find_profile("rigs", "indenter").samefile(repository / "profiles/rigs/indenter.toml")
    (tmp_path / "profiles" / "rigs").mkdir(parents=True)
    (tmp_path / "profiles" / "rigs" / "mine.toml").touch()
    assert find_profile("rigs", "mine") == Path("profiles/rigs/mine.toml")


@pytest.mark.parametrize(
    ("folder", "name", "said"),
    [
        ("rigs", "indentor", '"indentor". Did you mean "indenter"? Known: full_arm, indenter, indenter_load_cell'),
        ("rigs", "../twins/indenter", "there is no profile"),
        ("rigs", "elsewhere/mine.toml", "elsewhere/mine.toml: there is no such file. Or give a name in "),
        ("rig", "indenter", '"rig" is no folder of profiles. Did you mean "rigs"?'),
    ],
)
def test_a_name_that_is_not_there_is_told_with_near_misses(repository: Path, folder: str, name: str, said: str) -> None:
    with pytest.raises(ProfileError) as caught:
        find_profile(folder, name, repository / "profiles")
    assert said in str(caught.value)


def test_the_example_in_the_package_runs(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)
    outcome = doctest.testmod(bench.profile)
    assert (outcome.failed, outcome.attempted) == (0, 3)


def test_profiles_come_from_the_installation_where_neither_folder_nor_checkout_has_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = tmp_path / "prefix" / "share" / "forcebench" / "profiles"
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("bench.profile.find.__file__", str(tmp_path / "site" / "bench" / "profile" / "find.py"))
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "prefix"))
    assert profiles_root() == shipped
    (tmp_path / "profiles").mkdir()
    assert profiles_root() == Path("profiles")
