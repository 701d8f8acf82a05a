"""The procedures on a rigid arm: what they record, and what the wiring check finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.errors import SafetyAbort
from bench.procedures import arm_wiring
from bench.procedures.arm_mover import ArmMover
from bench.profile import ArmRig
from bench.units import Value

CarryOut = Callable[..., None]
Planned = Callable[..., Any]
Rigid = Callable[..., Any]
IN_ORDER = (0, 1, 2, 3, 4, 5)


def test_slow_tracking_records_every_joint_both_ways_without_its_friction(
    planned: Planned, rigid: Rigid, carry_out: CarryOut
) -> None:
    plan, arm = planned("arm_tracking_short"), rigid()
    carry_out("arm_tracking", arm, plan)
    assert arm.parked
    assert not arm.every_tick
    assert [phase[1] for phase in arm.phases] == [10, 11, 20, 21, 30, 31, 40, 41, 50, 51, 60, 61]
    for name, number, speed, start, end in arm.phases:
        joint = number // 10 - 1
        seen = arm.during((name, number, speed, start, end))
        assert (name, end - start) == ("uncompensated", pytest.approx(1.5, abs=0.02))
        assert seen.speed[:, joint] == pytest.approx(np.full(len(seen.time), speed))
        assert not seen.friction.any()
        rubs = arm.truth.coulomb[joint] + 0.02 * arm.truth.viscous[joint]
        last = np.sign(speed) * seen.feedback[len(seen.time) // 2 :, joint]
        assert last.mean() == pytest.approx(rubs, rel=0.1)
        others = np.delete(IN_ORDER, joint)
        assert np.ptp(seen.position[:, others], axis=0).max() < 3e-3
    assert arm.time_s == pytest.approx(plan.duration_s, rel=0.2)


def test_the_mean_of_both_crossings_is_the_weight_of_arm_and_payload(
    planned: Planned, rigid: Rigid, carry_out: CarryOut
) -> None:
    plan, arm = planned("payload_hold_short", "payload_1kg"), rigid("payload_1kg")
    carry_out("payload_hold", arm, plan)
    assert [(phase[1], np.sign(phase[2])) for phase in arm.phases] == [
        (number, way) for number in (1, 2, 3) for way in (1.0, -1.0)
    ]
    for number, pose in enumerate(plan.poses, start=1):
        up, down = (arm.during(phase) for phase in arm.phases if phase[1] == number)
        torque = 0.5 * (up.torque.mean(axis=0) + down.torque.mean(axis=0))
        weight = arm.truth.model.gravity(np.array(pose))
        assert np.abs(torque - weight).max() < 0.12
        assert np.abs(0.5 * (up.torque - down.torque).mean(axis=0)) == pytest.approx(
            arm.truth.coulomb + 0.05 * arm.truth.viscous, rel=0.1, abs=0.02
        )


def test_the_switch_takes_the_overshoot_out_of_a_touch(planned: Planned, rigid: Rigid, carry_out: CarryOut) -> None:
    plan, arm = planned("approach_touch_short", "arm_phantom_a"), rigid("arm_phantom_a", surface_at_m=0.7e-3)
    carry_out("approach_touch", arm, plan)
    assert [phase[:2] for phase in arm.phases] == [("without_switch", 1), ("with_switch", 1)]
    over = {}
    for phase in arm.phases:
        seen = arm.during(phase)
        assert seen.time[seen.pressed > 0.0][0] - phase[3] > 0.2  # it begins in free air
        over[phase[0]] = seen.pressed.max() / 10.0 - 1.0
        assert seen.pressed[-25:] == pytest.approx(np.full(25, 10.0), rel=0.03)
    assert over["without_switch"] > 0.2
    assert over["with_switch"] < 0.03
    assert [code for _, code, _ in arm.events] == ["contact", "contact"]
    assert arm.pressed == 0.0


def test_forces_are_held_while_the_joints_that_bear_them_creep(
    planned: Planned, rigid: Rigid, carry_out: CarryOut
) -> None:
    plan, arm = planned("wrench_check_short", "arm_phantom_a"), rigid("arm_phantom_a")
    carry_out("wrench_check", arm, plan)
    assert [phase[:2] for phase in arm.phases] == [("free", 1), ("press", 1), ("press", 2)]
    free, *levels = (arm.during(phase) for phase in arm.phases)
    assert not free.pressed.any()
    bears = np.abs(plan.way.forces) >= 0.05
    ways = []
    for seen, force in zip(levels, (6.0, 12.0), strict=True):
        assert seen.pressed.mean() == pytest.approx(force, rel=0.03)
        speed = (seen.position[-1] - seen.position[0]) / (seen.time[-1] - seen.time[0])
        assert np.abs(speed[bears]).min() > 4e-3
        ways.append(np.sign(speed[bears]))
    assert (ways[0] == -ways[1]).all()


def test_excitation_goes_through_both_trajectories(planned: Planned, rigid: Rigid, carry_out: CarryOut) -> None:
    plan = planned("arm_excitation", check_angle=Value(0.0, "rad", "angle"))
    arm = rigid(start=plan.control.start)
    carry_out("arm_excitation", arm, plan)
    assert [phase[:2] for phase in arm.phases] == [("train", 1), ("hold_out", 1)]
    for phase, series in zip(arm.phases, (plan.train, plan.hold_out), strict=True):
        seen = arm.during(phase)
        q, _, _ = series.sample(seen.time - phase[3])
        assert np.abs(seen.desired - q).max() < 1e-6
        assert np.abs(seen.position - q).max() < 0.012


# -- what a run does not begin with


def checked(arm: Any, plan: Any, rig: ArmRig) -> None:
    mover = ArmMover(arm, plan.control)
    mover.begin()
    arm_wiring.check_joints(mover, rig, plan.specimen)


@pytest.mark.parametrize("mounted", ["bare_tool", "payload_1kg"])
def test_a_well_wired_arm_passes(planned: Planned, rigid: Rigid, rig: ArmRig, mounted: str) -> None:
    plan = planned("payload_hold", mounted)
    checked(rigid(mounted), plan, rig)


def test_two_servos_swapped_whole_are_told_by_the_weight_in_the_wrist_sensor(
    planned: Planned, rigid: Rigid, rig: ArmRig
) -> None:
    swapped = rigid(wired=(0, 1, 2, 5, 4, 3))  # both stand at zero
    with pytest.raises(SafetyAbort, match=r"joint forearm moved by .* Nearest is joint flange moving by") as told:
        checked(swapped, planned("arm_tracking"), rig)
    assert told.value.reason == "wrong_joint"


def test_a_joint_whose_direction_is_wrong_is_told(planned: Planned, rigid: Rigid, rig: ArmRig) -> None:
    plan = planned("arm_tracking")
    with pytest.raises(SafetyAbort, match=r"joint flange moved by .* Nearest is joint flange moving by -0\.0") as told:
        checked(rigid(sense=np.array([1.0, 1.0, 1.0, 1.0, 1.0, -1.0])), plan, rig)
    assert told.value.reason == "wrong_joint"


def test_a_joint_that_is_held_is_told(planned: Planned, rigid: Rigid, rig: ArmRig) -> None:
    with pytest.raises(SafetyAbort, match=r"joint elbow was told to move by 0\.08 rad and went 0 rad") as told:
        checked(rigid(blocked=2), planned("arm_tracking"), rig)
    assert told.value.reason == "joint_blocked"


@pytest.mark.parametrize("felt", [np.diag([1.0, 1.0, -1.0]), np.diag([1.4, 1.0, 1.0]), np.eye(3)[[1, 0, 2]]])
def test_a_wrist_sensor_that_reads_wrong_is_told_and_not_a_joint(
    planned: Planned, rigid: Rigid, rig: ArmRig, felt: Any
) -> None:
    with pytest.raises(SafetyAbort, match=r"which no joint's motion by as much makes") as told:
        checked(rigid(felt=felt), planned("arm_tracking"), rig)
    assert told.value.reason == "wrong_weight"


@pytest.mark.parametrize(
    "wrong", [{"felt": np.diag([1.0, 1.0, -1.0])}, {"felt": np.eye(3)[[1, 0, 2]]}, {"carried_kg": 0.9}]
)
@pytest.mark.parametrize("name", ["approach_touch_short", "wrench_check_short"])
def test_nothing_is_pressed_by_a_wrist_sensor_that_does_not_feel_the_weight_turn(
    planned: Planned, rigid: Rigid, carry_out: Callable[..., None], name: str, wrong: dict[str, Any]
) -> None:
    """The controller would press by its wrong reading, and the joints would be blamed for what holds them."""
    plan = planned(name, "arm_phantom_a")
    arm = rigid("arm_phantom_a", start=plan.control.start, **wrong)
    with pytest.raises(SafetyAbort, match=r"in free air the weight of tool and payload \(0\.4 kg\)") as told:
        carry_out(name.removesuffix("_short"), arm, plan)
    assert told.value.reason == "wrong_load"
    assert max(row[8] for row in arm.rows) == 0.0, "nothing was touched"


def test_an_arm_that_stands_elsewhere_is_not_moved(planned: Planned, rigid: Rigid, rig: ArmRig) -> None:
    arm = rigid(start=np.radians([0.0, -20.0, 30.0, 0.0, 60.0, 0.0]))
    with pytest.raises(SafetyAbort, match=r"joint elbow stands at 30\.0 deg, the run starts at 10\.0 deg") as told:
        checked(arm, planned("arm_tracking"), rig)
    assert told.value.reason == "not_at_start"
    assert not arm.rows


def test_torque_at_its_limit_is_archived_once(planned: Planned, rigid: Rigid) -> None:
    plan, arm = planned("arm_tracking_short"), rigid()
    weak = dataclasses.replace(plan.control, torque_limit=(40.0, 9.0, 30.0, 22.0, 8.0, 6.0))
    mover = ArmMover(arm, weak)
    mover.begin()
    mover.move(np.array(weak.start) + np.array([0.0, 0.5, 0.0, 0.0, 0.0, 0.0]), "moving")
    mover.hold(0.2, "holding")
    told = [text for severity, code, text in arm.events if code == "torque_saturated_shoulder"]
    assert len(told) == 1
    assert told[0].endswith("got 9 N.m, the limit")
