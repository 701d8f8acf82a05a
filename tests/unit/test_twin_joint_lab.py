"""The lab of a single joint put together: terminals, truth from profiles, faults, report."""

from __future__ import annotations

import math
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from bench.errors import BenchError, TwinError
from bench.profile import load_rig, load_twin
from bench.profile.faults import FAULTS, befalls
from bench.profile.rig_joint import JointRig
from bench.profile.twin_joint import JointTwin
from bench.twin.lab import JointLab, build_lab
from bench.twin.plant.build_joint import joint_truth
from bench.twin.report import aftermath, state

HERE = [name for name in FAULTS if befalls(name, "single_joint")]


@pytest.fixture(scope="module")
def rig(repository: Path) -> JointRig:
    return cast(JointRig, load_rig(repository / "profiles" / "rigs" / "single_joint.toml"))


@pytest.fixture(scope="module")
def twin(repository: Path) -> JointTwin:
    return cast(JointTwin, load_twin(repository / "profiles" / "twins" / "single_joint.toml"))


@pytest.fixture
def lab(rig: JointRig, twin: JointTwin) -> JointLab:
    lab = cast(JointLab, build_lab(rig, twin, "pendulum_arm"))
    lab.bus.set_digital("port0/line1", True)
    wait(lab, 0.1)  # the drive boots
    return lab


def wait(lab: JointLab, seconds: float) -> None:
    runner = next((m for m in lab.world.members.values() if m.name == "runner"), None) or lab.world.register("runner")
    lab.world.park(runner, until_ns=lab.world.now_ns + round(seconds * 1e9))


def swing(lab: JointLab) -> int:
    """Turn the joint for half a second under the drive's own servo; returns the number of ticks since power-up."""
    lab.plant.command(0.0, 4.0, 0.1, 0.0, 8.0, 0.3)
    wait(lab, 0.5)
    return lab.plant.joint_torque().size


def test_the_transducer_reads_the_torque_on_the_link(lab: JointLab) -> None:
    ticks = swing(lab)
    volts = lab.bus.analog("Dev1/ai0", 0, ticks, 1)
    error = volts * 3.0 - 1.001 * lab.plant.joint_torque()
    assert lab.bus.channels()["ai0"] == "analog"
    assert np.mean(error) == pytest.approx(0.03, abs=0.005)  # its zero
    assert np.std(error) == pytest.approx(0.004, rel=0.15)  # its noise
    assert np.ptp(lab.plant.joint_torque()) > 1.0
    assert np.all(np.abs(lab.bus.analog("ai5", 0, ticks, 1)) < 0.01)  # nothing is wired to it


def test_the_encoder_counts_quarter_pulses_from_power_up(lab: JointLab) -> None:
    ticks = swing(lab)
    quarters = lab.bus.encoder("ctr0", 0, ticks, 1)
    assert quarters == pytest.approx(lab.plant.joint_angle() * 4 * 90_000 / (2 * math.pi), abs=0.8)
    assert quarters[-1] > 1000.0


def test_inverted_wires_turn_the_reading_from_their_moment(lab: JointLab) -> None:
    ticks = swing(lab)
    before = lab.bus.analog("ai0", 0, ticks, 1)
    lab.faults.inject("transducer_inverted", {})
    wait(lab, 0.2)
    after = lab.bus.analog("ai0", 0, lab.plant.joint_torque().size, 1)
    assert np.array_equal(after[: ticks - 1], before[: ticks - 1])
    torque = lab.plant.joint_torque()[ticks:]
    assert -3.0 * after[ticks:] - 0.03 == pytest.approx(torque, abs=0.03)
    assert np.array_equal(after[ticks::7], lab.bus.analog("ai0", ticks, after[ticks::7].size, 7))


@pytest.mark.parametrize("name", HERE)
def test_every_fault_of_a_joint_can_be_brought_about(lab: JointLab, name: str) -> None:
    lab.bus.set_digital("port0/line1", name != "wrong_gear_ratio")  # which nobody changes under power
    lab.faults.inject(name, {})
    wait(lab, 0.01)
    assert [fault for _, fault in lab.faults.injected] == [name]
    assert lab.world.fault is None


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("stage_stall", {}, "'stage_stall' cannot befall a rig of kind 'single_joint'"),
        ("gremlins", {}, "no fault 'gremlins'"),
        ("backlash", {"gap": "1 mm"}, "is a length"),
        ("overheat", {"within": "0 s"}, "a time above 0 s"),
        ("late_reply", {"device": "stage"}, "no parameter 'device'"),
    ],
)
def test_wrong_faults_are_refused(lab: JointLab, name: str, parameters: dict[str, float | str], message: str) -> None:
    with pytest.raises(BenchError, match=message):
        lab.faults.inject(name, parameters)


def test_faults_change_what_they_say(lab: JointLab) -> None:
    before = lab.view.truth({})
    lab.faults.inject("friction_changed", {"factor": "150 %"})
    lab.faults.inject("backlash", {"gap": "1 mrad"})
    lab.faults.inject("overheat", {"temperature": "45 degC", "within": "2 s"})
    wait(lab, 1.0)
    after = lab.view.truth({})
    assert after["coulomb"] == pytest.approx(1.5 * before["coulomb"])
    assert after["backlash"] == 1e-3
    assert after["temperature_now"] == pytest.approx(35.0, abs=0.1)
    assert after["coulomb_now"] == pytest.approx((1.0 - 0.004 * 10.0) * after["coulomb"], rel=1e-3)
    lab.faults.clear("overheat")
    wait(lab, 1.0)
    assert lab.view.truth({})["temperature_now"] == pytest.approx(35.0, abs=0.1)
    with pytest.raises(TwinError, match=r"'backlash' cannot be ended.*overheat"):
        lab.faults.clear("backlash")


def test_a_drive_fault_stops_the_drive(lab: JointLab) -> None:
    lab.faults.inject("drive_fault", {"code": 34})
    wait(lab, 0.01)
    seen = state(lab)
    assert (seen["drive_mode"], seen["drive_fault"]) == (1, 34)
    assert (seen["enable"], seen["powered"], seen["faults"]) == (True, True, [{"at_s": 0.1, "name": "drive_fault"}])


def test_the_truth_is_what_the_seed_drew(rig: JointRig, twin: JointTwin) -> None:
    drawn = [joint_truth(rig, twin, "pendulum_arm", seed) for seed in range(200)]
    for get, nominal, scatter in [
        (lambda t: t.friction.coulomb, 1.2, 0.10),
        (lambda t: t.friction.viscous, 0.8, 0.10),
        (lambda t: t.friction.stribeck_excess, 0.6, 0.10),
        (lambda t: t.gear.stiffness_zero, 4000.0, 0.05),
        (lambda t: t.drive.inertia, 0.2, 0.05),
        (lambda t: t.load.inertia, 0.4, 0.05),
    ]:
        values = np.array([get(truth) for truth in drawn])
        assert values.mean() == pytest.approx(nominal, rel=4 * scatter / math.sqrt(200))
        assert values.std() == pytest.approx(scatter * nominal, rel=0.25)
    assert joint_truth(rig, twin, "pendulum_arm", 7) == drawn[7]
    lab = build_lab(rig, twin, "pendulum_arm", seed=7)
    assert lab.view.truth({})["coulomb"] == drawn[7].friction.coulomb
    assert joint_truth(rig, twin, "output_lock").load.locked


def test_a_twin_of_another_kind_or_load_is_refused(rig: JointRig, twin: JointTwin, repository: Path) -> None:
    with pytest.raises(TwinError, match=r"no specimen 'jelly'.*it has pendulum_arm"):
        build_lab(rig, twin, "jelly")
    other = load_twin(repository / "profiles" / "twins" / "indenter.toml")
    with pytest.raises(TwinError, match=r"'single_joint' is of kind 'single_joint', the twin 'indenter' of kind"):
        build_lab(rig, other)


def test_the_history_is_by_tick_and_of_the_rotor(lab: JointLab) -> None:
    ticks = swing(lab)
    history = lab.view.history()
    assert {name: values.shape for name, values in history.items()} == dict.fromkeys(
        ("rotor_angle_rad", "joint_angle_rad", "joint_torque_Nm", "motor_torque_Nm", "temperature_degC"), (ticks,)
    )
    assert history["rotor_angle_rad"][-1] / 100.0 == pytest.approx(history["joint_angle_rad"][-1], abs=2e-3)


def test_a_joint_left_alone_is_safe_when_its_torque_is_off_and_it_stands(lab: JointLab) -> None:
    swing(lab)
    lab.world.at(lab.world.now_ns + 100_000_000, lab.plant.release)  # what a watchdog does
    runner = next(iter(lab.world.members.values()))
    lab.world.lose(runner, "killed")
    report = aftermath(lab, "lost", lambda: False)
    assert report["safe"]
    assert report["torque_off_at_s"] == pytest.approx(0.701, abs=0.003)
    assert 0.701 <= report["stands_at_s"] < 5.0
    assert report["safe_at_s"] == max(report["torque_off_at_s"], report["stands_at_s"])
    assert report["peak_joint_torque_after_Nm"] > 0.5
    assert not report["moving"]


def test_a_joint_that_is_driven_on_is_not_safe(lab: JointLab) -> None:
    lab.plant.command(0.05, 0.0, 0.0, 0.0, 0.0, 0.3)
    wait(lab, 5.0)
    assert lab.view.safe_since(0) is None
    seen = lab.view.aftermath(0)
    assert seen["torque_off_at_s"] is None
    lab.bus.press_estop(True)
    wait(lab, 2.0)
    assert lab.view.safe_since(0) is not None
    assert state(lab)["braked"]
    assert not state(lab)["estop_healthy"]
