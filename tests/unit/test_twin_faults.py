"""Every fault of the catalogue can be had by name on the indenter, and wrong ones are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.errors import TwinError, UnitError
from bench.profile import load_rig, load_twin
from bench.profile.faults import FAULTS, befalls
from bench.twin.lab import IndenterLab, build_lab
from bench.twin.plant.build import rig_truth


@pytest.fixture
def lab(repository: Path) -> IndenterLab:
    profiles = repository / "profiles"
    lab = build_lab(load_rig(profiles / "rigs" / "indenter.toml"), load_twin(profiles / "twins" / "indenter.toml"))
    lab.bus.set_digital(lab.truth.wiring.enable_line, True)
    return lab


HERE = [name for name in FAULTS if befalls(name, "indenter")]


@pytest.mark.parametrize("name", HERE)
def test_every_fault_of_the_profile_can_be_brought_about(lab: IndenterLab, name: str) -> None:
    lab.faults.inject(name, {})
    assert [fault for _, fault in lab.faults.injected] == [name]


def test_a_scheduled_fault_comes_at_its_time(lab: IndenterLab) -> None:
    runner = lab.world.register("runner")
    lab.faults.schedule("estop_pressed", 0.25, {})
    lab.world.park(runner, until_ns=249_999_999)
    assert lab.plant.fault() is None
    lab.world.park(runner, until_ns=250_000_000)
    assert lab.plant.fault() == "unpowered"
    assert lab.faults.injected == [(0.25, "estop_pressed")]


def test_parameters_come_as_quantities_or_plain(lab: IndenterLab) -> None:
    lab.faults.inject("lost_steps", {"distance": "50 um"})
    lab.faults.inject("lost_steps", {"distance": 0.05})
    assert lab.plant.slip_mm == pytest.approx(0.1)


@pytest.mark.parametrize("name", ["estop_pressed", "stage_stall", "device_unplugged"])
def test_faults_that_can_end(lab: IndenterLab, name: str) -> None:
    lab.faults.inject(name, {})
    lab.faults.clear(name)
    assert (lab.plant.fault(), lab.plant.jammed, lab.wires["stage"].unplugged) == (None, False, False)


@pytest.mark.parametrize("rig_name", ["indenter", "single_joint", "full_arm"])
def test_a_stuck_enable_line_keeps_its_level_whatever_is_written(repository: Path, rig_name: str) -> None:
    profiles = repository / "profiles"
    rig = load_rig(profiles / "rigs" / f"{rig_name}.toml")
    lab = build_lab(rig, load_twin(profiles / "twins" / f"{rig_name}.toml"))
    line = rig.safety.enable_line
    lab.bus.set_digital(line, True)
    lab.faults.inject("enable_stuck", {})
    lab.bus.set_digital(line, False)
    lab.bus.let_go(line)
    assert lab.bus.digital(line)
    assert not lab.bus.driven(line)
    assert lab.bus.enabled
    lab.faults.clear("enable_stuck")
    assert not lab.bus.enabled
    lab.bus.set_digital(line, True)
    lab.bus.let_go(line)  # as a read of a driven line does that is not told to leave it
    assert not lab.bus.enabled


def test_the_daq_device_can_be_unplugged_by_name(lab: IndenterLab) -> None:
    lab.faults.inject("device_unplugged", {"device": lab.truth.wiring.device})
    assert not lab.wires["stage"].unplugged
    lab.faults.clear("device_unplugged")


def test_a_wrong_phantom_is_another_soft_one_or_the_one_named(lab: IndenterLab) -> None:
    original = lab.plant.tissue.truth.name
    lab.faults.inject("wrong_phantom", {})
    assert lab.plant.tissue.truth.name not in (original, "rigid_plate")
    lab.faults.inject("wrong_phantom", {"specimen": "rigid_plate"})
    assert lab.plant.tissue.truth.name == "rigid_plate"


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("gremlins", {}, "no fault 'gremlins'"),
        ("overheat", {}, "cannot befall a rig of kind 'indenter'"),
        ("drifting_cell", {"rate": "1 N.m/s"}, "is a torque rate"),
        ("stage_stall", {"colour": "red"}, "no parameter 'colour'"),
        ("device_unplugged", {"device": "kettle"}, "no serial device 'kettle'"),
        ("wrong_phantom", {"specimen": "jelly"}, "no specimen 'jelly'"),
        ("broken_wire", {"gauge": 9}, "no gauge 9"),
    ],
)
def test_wrong_faults_are_refused(
    lab: IndenterLab, name: str, parameters: dict[str, float | str], message: str
) -> None:
    with pytest.raises((TwinError, UnitError), match=message):
        lab.faults.inject(name, parameters)


def test_what_cannot_end_says_so(lab: IndenterLab) -> None:
    with pytest.raises(TwinError, match="'lost_steps' cannot be ended"):
        lab.faults.clear("lost_steps")


@pytest.mark.parametrize("rig_name", ["indenter", "indenter_load_cell"])
def test_the_truth_is_gathered_from_the_profiles(repository: Path, rig_name: str) -> None:
    profiles = repository / "profiles"
    rig = load_rig(profiles / "rigs" / f"{rig_name}.toml")
    twin = load_twin(profiles / "twins" / f"{rig_name}.toml")
    truth = rig_truth(rig, twin, "liver_phantom_b", seed=99)
    assert (truth.seed, truth.tissue.name) == (99, "liver_phantom_b")
    assert truth.stage.frame_stiffness_N_mm == twin.frame.stiffness.to("N/mm")
    assert truth.tissue.force_ref_N == twin.specimens["liver_phantom_b"].reference_force.to("N")
    assert {other.name for other in truth.others} == set(twin.specimens) - {"liver_phantom_b"}
    assert rig_truth(rig, twin).seed == twin.seed
    with pytest.raises(TwinError, match=r"no specimen 'jelly'.*it has liver_phantom_a"):
        rig_truth(rig, twin, "jelly")


def test_a_twin_of_another_rig_is_refused(repository: Path) -> None:
    profiles = repository / "profiles"
    rig = load_rig(profiles / "rigs" / "indenter.toml")
    twin = load_twin(profiles / "twins" / "indenter_load_cell.toml")
    with pytest.raises(TwinError, match="simulates the rig 'indenter_load_cell', not 'indenter'"):
        rig_truth(rig, twin)
