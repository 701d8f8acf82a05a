"""What a plan says of a run before it, and what is refused before anything moves."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.errors import BenchError, LimitError
from bench.procedures.arm_preflight import preflight
from bench.profile import ArmRig
from bench.units import Value

NAMES = [
    ("arm_tracking_short", "bare_tool"),
    ("payload_hold_short", "payload_1kg"),
    ("wrench_check_short", "arm_phantom_a"),
    ("approach_touch_short", "arm_phantom_a"),
]


def angles(*degrees: float) -> tuple[Value, ...]:
    return tuple(Value(float(x), "deg", "angle") for x in degrees)


def newtons(*forces: float) -> tuple[Value, ...]:
    return tuple(Value(force, "N", "force") for force in forces)


@pytest.mark.parametrize(("name", "mounted"), NAMES)
def test_the_shipped_procedures_pass_the_preflight(
    rig: ArmRig,
    procedure: Callable[..., Any],
    specimen: Callable[[str], Any],
    planned: Callable[..., Any],
    name: str,
    mounted: str,
) -> None:
    plan = planned(name, mounted)
    report = preflight(rig, procedure(name), specimen(mounted), plan)
    assert report.ok, [str(row) for row in report.broken]
    path = plan.path(50.0)
    assert path.q[0] == pytest.approx(plan.control.start) == path.q[-1]
    jumps = np.abs(np.diff(path.q, axis=0))
    assert (jumps <= 1.05 * np.maximum(np.abs(path.v[:-1]), np.abs(path.v[1:])).max(axis=0) / 50.0 + 1e-4).all()


def test_the_path_of_a_touch_is_led_and_states_the_force(planned: Callable[..., Any]) -> None:
    path = planned("wrench_check_short", "arm_phantom_a").path(50.0)
    led = path.led_samples()
    assert led.any()
    assert not led.all()
    assert path.force_needed.max() == 12.0
    assert path.direction[path.force_needed > 0.0] == pytest.approx(np.array([[0.0, 0.0, -1.0]] * 2))


def test_tracking_moves_one_joint_both_ways_about_its_pose(planned: Callable[..., Any]) -> None:
    plan = planned("arm_tracking", replicates=2)
    strokes = list(plan.strokes())
    assert [one.number for one in strokes[:5]] == [10, 11, 12, 13, 20]
    assert {one.mode for one in strokes} == {"uncompensated"}
    for one in strokes:
        ends = [one.motion.at(t)[0] for t in (0.0, one.motion.duration_s)]
        assert np.mean(ends, axis=0) == pytest.approx(plan.pose, abs=1e-9)
        assert np.flatnonzero(ends[1] - ends[0]).tolist() == [one.joint]
        assert np.sign(ends[1] - ends[0])[one.joint] == np.sign(one.speed)


def test_a_crossing_passes_its_pose_at_half_time_with_every_joint_at_speed(planned: Callable[..., Any]) -> None:
    plan = planned("payload_hold", "payload_1kg")
    for pose in plan.poses:
        for speed, motion, along in plan.crossings(pose):
            q, v, a = motion.at(0.5 * motion.duration_s)
            assert q == pytest.approx(pose)
            assert v == pytest.approx(np.full(6, speed))
            assert not a.any()
            begin, end = along.holds[0]
            assert end - begin == pytest.approx(0.06 / 0.05)


REFUSED = [
    ("arm_tracking", "bare_tool", {"start": angles(0, 0, 0)}, "start has 3 positions, the arm full_arm has 6 joints"),
    ("arm_tracking", "bare_tool", {"start": angles(0, -20, 90, 0, 60, 0)}, 'joint elbow "90 deg", beyond its limits'),
    (
        "arm_tracking",
        "bare_tool",
        {"start": (*angles(0, -20, 10, 0, 60), Value(1.0, "mm", "length"))},
        'start gives joint flange "1 mm"; it is revolute',
    ),
    ("arm_tracking", "bare_tool", {"speed": Value(2.0, "rad/s", "angular_speed")}, "speed is 2 rad/s; a tenth below"),
    ("arm_tracking", "bare_tool", {"check_angle": Value(0.01, "rad", "angle")}, "wiring check moves by 0.01 rad"),
    ("payload_hold", "arm_phantom_a", {}, "arm_phantom_a is no payload"),
    (
        "payload_hold",
        "payload_1kg",
        {"poses": (angles(0, 0, 0, 0, 90, 0),)},
        "joints would feel payload_1kg by 2%",
    ),
    ("wrench_check", "bare_tool", {}, "bare_tool is no phantom of an arm but a specimen of kind payload"),
    ("wrench_check", "arm_phantom_a", {"forces": newtons(6, 30)}, "forces[1] is 30 N; arm_phantom_a bears 40 N"),
    ("approach_touch", "arm_phantom_a", {"force": newtons(38)[0]}, "force is 38 N; arm_phantom_a bears"),
    ("arm_excitation", "bare_tool", {"trajectory": "full_arm_trian"}, 'no profile "full_arm_trian"'),
]


@pytest.mark.parametrize(("name", "mounted", "changes", "said"), REFUSED)
def test_a_plan_that_does_not_fit_is_refused(
    planned: Callable[..., Any], name: str, mounted: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(BenchError) as told:
        planned(name, mounted, **changes)
    assert said in str(told.value)
    assert told.value.remedy


def test_a_trajectory_of_another_arm_is_refused(
    rig: ArmRig, planned: Callable[..., Any], procedure: Callable[..., Any], specimen: Callable[[str], Any]
) -> None:
    from bench.procedures import arm_excitation

    joints = tuple(joint.model_copy(update={"name": f"axis_{k}"}) for k, joint in enumerate(rig.arm.joints))
    other = rig.model_copy(update={"arm": rig.arm.model_copy(update={"joints": joints})})
    other._source = rig.source
    with pytest.raises(LimitError, match=r"moves the joints base, shoulder, .*; the arm has axis_0") as told:
        arm_excitation.plan(other, procedure("arm_excitation"), specimen("bare_tool"))
    assert told.value.reason == "other_arm"


def test_the_trajectory_files_go_to_the_archive(planned: Callable[..., Any]) -> None:
    plan = planned("arm_excitation")
    assert plan.texts["trajectory.toml"].startswith("# An arm's excitation")
    assert 'name = "full_arm_hold_out"' in plan.texts["hold_out_trajectory.toml"]
    assert plan.train.duration_s == 16.0


def test_one_series_under_two_names_is_no_hold_out(
    planned: Callable[..., Any], repository: Path, tmp_path: Path
) -> None:
    text = (repository / "profiles/trajectories/full_arm_train.toml").read_text(encoding="utf-8")
    file = tmp_path / "renamed.toml"
    file.write_text(text.replace('name = "full_arm_train"', 'name = "renamed"'), encoding="utf-8")
    with pytest.raises(LimitError, match=r"\(full_arm_train\) and hold_out \(renamed\) are one series under two names"):
        planned("arm_excitation", hold_out=str(file))
