"""The arm's lab as built of its profiles: what is drawn from the seed, terminals, sensor, faults, view."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.arm import arm_description, drivetrain
from bench.errors import TwinError
from bench.instruments import dynamixel_frames as frames
from bench.instruments.ati_file import AtiCalibration
from bench.profile.faults import FAULTS, befalls
from bench.profile.rig_arm import ArmRig
from bench.profile.twin_arm import ArmTwin
from bench.twin.lab import ArmLab, build_lab
from bench.twin.plant.arm_truth import ArmTruth, WristTruth
from bench.twin.plant.build_arm import arm_truth, scattered_links
from bench.twin.plant.wrist import WristSensorPlant

Build = Callable[..., ArmTruth]
MakeLab = Callable[..., ArmLab]
HERE = [name for name in FAULTS if befalls(name, "arm")]


@pytest.fixture
def lab(rig: ArmRig, twins: dict[str, ArmTwin]) -> MakeLab:
    """``lab(twin="full_arm", specimen=None, seed=1)``, powered and released at 0.2 s."""

    def made(twin: str = "full_arm", specimen: str | None = None, seed: int = 1, *, ready: bool = True) -> ArmLab:
        built = build_lab(rig, twins[twin], specimen, seed=seed)
        assert isinstance(built, ArmLab)
        if ready:
            with built.world.lock:
                built.bus.set_digital("Dev1/port0/line1", True)
                built.bus.set_digital("Dev1/port0/line2", True)
                built.world.move_to(200_000_000)
        return built

    return made


# -- truth ------------------------------------------------------------------------------------------------------------


def test_the_ideal_arm_is_the_arm_of_the_rig_profile(rig: ArmRig, build: Build) -> None:
    truth, nominal = build("full_arm_ideal"), arm_description(rig)
    loaded = truth.arm.with_load(truth.tool.moved(truth.sensor_frame))
    assert np.allclose(loaded.parameters(), nominal.parameters(), atol=1e-12)
    drives = drivetrain(rig.arm)
    assert [axis.inertia for axis in truth.axes] == pytest.approx(drives.motor_inertia.tolist())
    assert [axis.torque_constant for axis in truth.axes] == drives.torque_constant.tolist()
    assert all(axis.torque_scale == 1.0 for axis in truth.axes)
    tip = truth.arm.flange @ truth.sensor_frame @ np.array([*truth.tip, 1.0])
    assert np.allclose(tip, nominal.tip[:, 3])


def test_every_seed_draws_links_that_can_exist_and_scatter_as_stated(build: Build) -> None:
    nominal = build("full_arm_ideal").arm
    masses, gyrations = [], []
    for seed in range(60):
        arm = scattered_links(nominal, 0.05, seed)
        for joint, own in zip(arm.joints, nominal.joints, strict=True):
            assert np.linalg.eigvalsh(joint.link.pseudo_inertia()).min() > 0.0
            assert np.array_equal(joint.placement, own.placement)
            masses.append(joint.link.mass / own.link.mass)
            gyrations.append(
                np.trace(joint.link.inertia) / np.trace(own.link.inertia) * own.link.mass / joint.link.mass
            )
    assert np.std(masses) == pytest.approx(0.05, rel=0.2)
    assert 0.01 < np.std(gyrations) < 0.1
    assert scattered_links(nominal, 0.0, 3) is nominal


def test_one_seed_is_one_arm_and_another_is_another(build: Build) -> None:
    one, again, other = build(seed=5), build(seed=5), build(seed=6)
    assert one.axes == again.axes
    assert np.array_equal(one.arm.parameters(), again.arm.parameters())
    assert one.axes != other.axes
    coulomb = [build(seed=seed).axes[0].coulomb for seed in range(40)]
    assert np.std(coulomb) / np.mean(coulomb) == pytest.approx(0.1, rel=0.35)


def test_a_twin_of_another_number_of_joints_is_refused(rig: ArmRig, twins: dict[str, ArmTwin]) -> None:
    short = twins["full_arm"].model_copy(update={"axes": twins["full_arm"].axes[:5]})
    short._source = twins["full_arm"].source
    with pytest.raises(TwinError, match="5 axes, the rig 6 joints"):
        arm_truth(rig, short)


def test_a_specimen_the_twin_does_not_know_is_refused(rig: ArmRig, twins: dict[str, ArmTwin]) -> None:
    with pytest.raises(TwinError, match="payload_1kg"):
        arm_truth(rig, twins["full_arm"], "payload_9kg")


# -- terminals and sensor ---------------------------------------------------------------------------------------------


def volts(lab: ArmLab, tick: int) -> np.ndarray:
    return np.array([lab.bus.analog(f"Dev1/ai{i}", tick, 1, 1)[0] for i in range(6)])


def test_the_gauges_read_back_as_the_wrench_through_the_calibration_file(rig: ArmRig, lab: MakeLab) -> None:
    built = lab("full_arm_ideal", "payload_1kg")
    path = rig.calibration_path()
    assert path is not None
    read = AtiCalibration.read(path).matrix @ volts(built, 100)
    assert np.allclose(read, built.plant.history.column("wrench")[100], atol=1e-9)
    assert np.linalg.norm(read[:3]) == pytest.approx(1.4 * 9.80665, rel=1e-6)


def test_what_the_calibration_does_not_know_is_as_large_as_stated(rig: ArmRig, lab: MakeLab) -> None:
    built = lab("full_arm", "payload_1kg", ready=False)
    with built.world.lock:
        built.world.move_to(200_000_000)
    path = rig.calibration_path()
    assert path is not None
    matrix = AtiCalibration.read(path).matrix
    signals = np.array([built.bus.analog(f"Dev1/ai{i}", 0, 200, 1) for i in range(6)])
    wrench = matrix @ signals
    off = wrench.mean(axis=1) - built.plant.history.column("wrench")[0]
    assert 0.1 < np.abs(off[:3]).max() < 3.5
    assert wrench[2].std() == pytest.approx(0.03, rel=0.4)


def test_the_wrist_saturates_in_force_and_torque_at_the_end_of_its_capacity() -> None:
    truth = WristTruth(capacity=(100.0,) * 3 + (5.0,) * 3, limit=1e3)
    sensor = WristSensorPlant(truth, 1, 1e-3)
    load = np.array([[300.0, 0.0, -300.0, 0.0, 9.0, 0.0]])
    read = [sensor.signal(i, load, 0, 1)[0] for i in range(6)]
    assert read == pytest.approx([102.0, 0.0, -102.0, 0.0, 5.1, 0.0])


def test_the_enable_line_and_the_brake_line_are_in_series_with_the_e_stop(lab: MakeLab) -> None:
    built = lab()
    assert built.plant.powered()
    assert not built.plant.braked
    with built.world.lock:
        built.bus.press_estop(True)
        built.world.move_to(400_000_000)
    assert not built.plant.powered()
    assert built.plant.braked
    kinds = built.bus.channels()
    assert kinds["port0/line2"] == kinds["port0/line1"] == "digital_out"
    assert [kinds[f"ai{i}"] for i in range(6)] == ["analog"] * 6


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HERE)
def test_every_fault_of_an_arm_can_be_brought_about(lab: MakeLab, name: str) -> None:
    built = lab()
    with built.world.lock:
        built.faults.inject(name, {})
        built.world.move_to(210_000_000)
        built.plant.catch_up()
    assert [fault for _, fault in built.faults.injected] == [name]


@pytest.mark.parametrize("name", [name for name in FAULTS if not befalls(name, "arm")])
def test_faults_of_other_rigs_are_refused(lab: MakeLab, name: str) -> None:
    with pytest.raises(TwinError, match="cannot befall"):
        lab(ready=False).faults.inject(name, {})


@pytest.mark.parametrize(
    ("name", "parameters"),
    [("axis_friction_changed", {"joint": 7}), ("servo_missing", {"id": 9}), ("gauge_inverted", {"gauge": 6})],
)
def test_a_fault_of_a_part_that_is_not_there_is_refused(lab: MakeLab, name: str, parameters: dict[str, Any]) -> None:
    built = lab(ready=False)
    with pytest.raises(TwinError, match="there is no"):
        built.faults.inject(name, parameters)


def test_friction_torque_and_payload_change_by_what_is_said(lab: MakeLab) -> None:
    built, before = lab("full_arm", "payload_1kg"), lab("full_arm", "payload_1kg", ready=False).truth
    with built.world.lock:
        built.faults.inject("axis_friction_changed", {"joint": 2, "factor": "150 %"})
        built.faults.inject("axis_torque_changed", {"joint": 3, "factor": "80 %"})
        built.faults.inject("payload_changed", {"mass": "1.3 kg"})
    now = built.plant.truth
    assert now.axes[1].coulomb == pytest.approx(1.5 * before.axes[1].coulomb)
    assert now.axes[1].stribeck_excess == pytest.approx(1.5 * before.axes[1].stribeck_excess)
    assert now.axes[2].torque_scale == pytest.approx(0.8 * before.axes[2].torque_scale)
    assert now.axes[0] == before.axes[0]
    assert now.payload.mass == pytest.approx(1.3)
    assert np.allclose(now.payload.inertia, 1.3 * before.payload.inertia)


def test_gauges_can_be_inverted_swapped_and_broken_from_a_tick_on(lab: MakeLab) -> None:
    built = lab("full_arm_ideal", "payload_1kg")
    with built.world.lock:
        built.faults.inject("gauge_inverted", {"gauge": 0})
        built.faults.inject("gauges_swapped", {"gauge": 1, "other": 2})
        built.faults.inject("broken_wire", {"gauge": 3})
        built.world.move_to(260_000_000)
    before, after = volts(built, 199), volts(built, 255)
    whole = built.bus.wrist.response @ built.plant.history.column("wrench")[255]
    assert np.allclose(before, built.bus.wrist.response @ built.plant.history.column("wrench")[199])
    assert np.allclose(after, [-whole[0], whole[2], whole[1], 10.0, whole[4], whole[5]])


def test_a_servo_that_is_missing_comes_back(lab: MakeLab) -> None:
    built = lab()
    with built.world.lock:
        built.faults.inject("servo_missing", {"id": 13})
        assert [servo.id for servo in built.servos.servos if servo.muted] == [13]
        built.faults.clear("servo_missing")
    assert not any(servo.muted for servo in built.servos.servos)


# -- view -------------------------------------------------------------------------------------------------------------


def test_the_view_tells_when_the_arm_is_safe(lab: MakeLab) -> None:
    built = lab()
    weight = built.plant.state.force
    with built.world.lock:
        built.plant.command_currents(
            [(u + 2.0) / axis.torque_per_current for u, axis in zip(weight, built.truth.axes, strict=True)]
        )
        built.world.move_to(500_000_000)
        state = built.view.state()
        assert state["moving"]
        assert state["makes_torque"]
        assert built.view.safe_since(400_000_000) is None
        built.bus.set_digital("port0/line1", False)
        built.world.move_to(1_500_000_000)
        state = built.view.state()
        assert not state["moving"]
        assert not state["makes_torque"]
        assert state["braked"]
        safe = built.view.safe_since(500_000_000)
        assert safe is not None
        assert 0.5 < safe * 1e-9 < 0.9
        after = built.view.aftermath(500_000_000)
    assert after["torque_off_at_s"] == pytest.approx(0.5, abs=2e-3)
    assert after["stands_at_s"] * 1e9 == pytest.approx(safe)
    json.dumps([state, after])


def test_the_view_tells_the_truth(lab: MakeLab) -> None:
    built = lab("full_arm", "arm_phantom_a", ready=False)
    told = built.view.truth({"depths_mm": [2.0, 5.0], "speed_mm_s": 2.0})
    json.dumps(told)
    assert told["coulomb"] == [axis.coulomb for axis in built.truth.axes]
    assert np.allclose(np.ravel(told["link_parameters"]), built.truth.arm.parameters())
    assert told["force_N"][1] < told["specimen"]["force_ref_N"] * 1.05
    assert math.isfinite(sum(map(sum, told["loaded_parameters"])))
    history = built.view.history()
    assert {values.shape for values in history.values()} == {(1,)}
    assert {"joint_6_position_rad", "force_z_N", "contact_force_N", "motor_1_torque_Nm"} <= set(history)


def test_a_faults_change_is_told_as_the_truth_of_now(lab: MakeLab) -> None:
    built = lab()
    old = built.view.truth({})["payload"]["mass"]
    with built.world.lock:
        built.faults.inject("payload_changed", {"mass": "0.7 kg"})
    assert (old, built.view.truth({})["payload"]["mass"]) == (0.0, 0.7)


# -- worked ahead -----------------------------------------------------------------------------------------------------


def test_servos_foresee_goals_on_their_way_and_nothing_follows_from_it(lab: MakeLab) -> None:
    """Against a line that foresees nothing, whatever becomes of the goals on their way."""
    tables = []
    for blind in (True, False):
        built = lab()
        world, wire, servos = built.world, built.wires["arm"], built.servos
        if blind:
            wire._foresee = None
        ids = [servo.id for servo in servos.servos]
        foreseen = []
        with world.lock:
            wire.open("test", servos.baud)
            world.move_to(700_000_000)
            for servo_id in ids:
                wire.write(frames.write(servo_id, 512, b"\x01"))
                world.move_to(world.now_ns + 5_000_000)
            start = world.now_ns
            for k in range(24):
                world.move_to(start + k * 4_000_000 + 1_130_000)
                world.work_ahead()
                goals = {i: struct.pack("<h", (k * 37 + 11 * i) % 200) for i in ids}
                if k == 8:
                    goals[13] = struct.pack("<h", 32_000)  # beyond its limit
                packet = frames.sync_write(550, 2, goals)
                if k == 5:  # in two pieces
                    wire.write(packet[:9])
                    packet = packet[9:]
                wire.write(packet)
                if world.foreseen:
                    foreseen.append(k)
                    world.work_ahead()
                if k == 11:
                    servos.mute(13)
                elif k == 13:
                    servos.mute(13, False)
                elif k == 15:  # lost on the way
                    wire.unplug()
                    world.move_to(world.now_ns + 1_000_000)
                    wire.unplug(False)
                elif k == 18:
                    servos.inject_fault(1, 0x20)
                elif k == 21:
                    built.bus.set_digital("Dev1/port0/line1", False)
            world.move_to(start + 100_000_000)
        assert foreseen == ([] if blind else [k for k in range(22) if k != 5])
        tables.append(np.hstack([built.plant.history.column(name) for name in ("axis_position", "motor_torque")]))
    assert np.array_equal(*tables)
    assert np.ptp(tables[0], axis=0).min() > 0.0
