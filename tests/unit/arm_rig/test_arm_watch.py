"""The witnesses of an arm: each contradiction has its name; friction, noise and rest are none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.arm import arm_model, body, sensor_frame
from bench.errors import SafetyAbort
from bench.profile import ArmRig
from bench.safety.arm_watch import ArmWatch, FrozenEncoders, WristWatch, breaks_loose, check_following
from bench.station_arm import arm_limits

NAMES = ("one", "two")
ROWS = 25
NONE = np.zeros(2)


@pytest.fixture
def watch() -> ArmWatch:
    return ArmWatch(NAMES, [10.0, 5.0], breaks_loose(np.array([2.0, 0.3]), np.array([40.0, 7.0])))


def rows(*columns: object) -> np.ndarray:
    return np.stack([np.broadcast_to(np.asarray(column, dtype=float), ROWS) for column in columns], axis=1)


def reason(watch: ArmWatch, *parts: Any) -> tuple[str, str]:
    with pytest.raises(SafetyAbort) as stopped:
        watch.feed(*parts)
    assert stopped.value.remedy
    return stopped.value.reason, str(stopped.value)


def test_a_joint_that_follows_late_is_no_contradiction(watch: ArmWatch) -> None:
    for k in range(40):
        t = 0.1 * k + np.linspace(0.0, 0.1, ROWS)
        wanted = rows(0.3 * np.sin(t), -0.3 * np.sin(t))
        seen = rows(0.3 * np.sin(t - 0.05), -0.3 * np.sin(t - 0.05))
        watch.feed(seen, wanted, rows(1.0, 0.2), rows(1.05, 0.25), np.array([4.0, 0.5]))


def test_a_joint_that_is_wanted_elsewhere_and_stands_is_blocked(watch: ArmWatch) -> None:
    told = "", ""
    for k in range(20):
        t = 0.1 * k + np.linspace(0.0, 0.1, ROWS)
        parts = rows(0.1 * t, 0.0), rows(0.1 * t, 0.1 * t), rows(0, 0), rows(0, 0), NONE
        if t[-1] > 1.0:
            told = reason(watch, *parts)
            break
        watch.feed(*parts)
    assert told[0] == "joint_blocked"
    assert "joint two was wanted 0.1" in told[1]


def test_friction_bears_what_it_bears_and_no_more(watch: ArmWatch) -> None:
    stands = rows(0.1, 0.2), rows(0.1, 0.2), rows(0, 0), rows(0, 0)
    for _ in range(5):
        watch.feed(*stands, np.array([9.9, -1.5]))
    kind, told = reason(watch, *stands, np.array([9.9, -1.7]))
    assert kind == "joint_blocked"
    assert "joint two is driven by -1.7 N.m beside its weight and its encoder stands" in told


def test_brakes_that_are_just_opening_do_not_count(watch: ArmWatch) -> None:
    stands = rows(0.1, 0.2), rows(0.1, 0.2), rows(0, 0), rows(0, 0), np.array([30.0, 0.0])
    watch.feed(*stands)
    watch.restart()
    watch.feed(*stands)
    assert reason(watch, *stands)[0] == "joint_blocked"


def test_a_few_rows_are_too_few(watch: ArmWatch) -> None:
    stands = [part[:5] for part in (rows(0.1, 0.2), rows(0.1, 0.2), rows(0, 0), rows(0, 0))]
    for _ in range(5):
        watch.feed(*stands, np.array([30.0, 0.0]))
    watch.feed(*(part[:0] for part in stands), NONE)


@pytest.mark.parametrize("carried", [1.9, 0.0, np.nan])
def test_a_current_that_is_not_carried_is_told(watch: ArmWatch, carried: float) -> None:
    kind, told = reason(watch, rows(0, 0), rows(0, 0), rows(0.0, carried), rows(0.0, 3.0), NONE)
    assert kind == "current_mismatch"
    assert "joint two" in told
    assert "told to carry 3 A" in told


@pytest.fixture
def frozen() -> FrozenEncoders:
    return FrozenEncoders(NAMES, 0.004, np.array([10.0, 1.6]), lambda position: np.array([3.0, 0.0]))


def test_an_encoder_freezes_only_out_of_a_motion(frozen: FrozenEncoders) -> None:
    weight = [3.0, 0.0]
    for k in range(10):
        frozen.feed([0.001 * k, 0.0005 * k], weight, [0.001 * k, 0.0005 * k])
    frozen.feed([0.0093, 0.0045], weight, [0.0093, 0.0045])  # a short step into the stand
    frozen.feed([0.0093, 0.0045], weight, [0.0093, 0.0045])
    with pytest.raises(SafetyAbort, match="joint one turned at more than") as stopped:
        frozen.feed([0.0093, 0.0045], weight, [0.0093, 0.0045])
    assert stopped.value.reason == "encoder_frozen"
    frozen.restart()
    for _ in range(20):
        frozen.feed([0.0093, 0.0045], weight, [0.0093, 0.0045])


def test_an_encoder_that_stands_under_more_than_friction_is_told_within_five_readings(frozen: FrozenEncoders) -> None:
    for _ in range(21):
        frozen.feed([0.1, 0.2], [12.9, 1.5], [0.1, 0.2])
    for _ in range(4):
        frozen.feed([0.1, 0.2], [3.0, -1.7], [0.1, 0.2])
    with pytest.raises(SafetyAbort, match=r"joint two is driven by -1\.7 N\.m") as stopped:
        frozen.feed([0.1, 0.2], [3.0, -1.7], [0.1, 0.2])
    assert stopped.value.reason == "joint_blocked"


def test_an_encoder_that_stands_while_its_joint_is_wanted_elsewhere_is_told_before_the_torque_is_large(
    frozen: FrozenEncoders,
) -> None:
    """Friction holds a joint within three windups, 15 mrad; one that creeps does not stand."""
    quiet = [3.0, 0.0]
    for k in range(110):
        frozen.feed([0.1, 0.2 + 1e-6 * k], quiet, [0.1 + 1.4e-4 * k, 0.2 + 3e-4 * k])
    with pytest.raises(SafetyAbort, match=r"joint one was wanted 0\.0154 rad away and its encoder stands") as stopped:
        frozen.feed([0.1, 0.201], quiet, [0.1154, 0.233])
    assert stopped.value.reason == "joint_blocked"


def test_brakes_have_their_time_to_open(frozen: FrozenEncoders) -> None:
    frozen.restart(25)
    for _ in range(29):
        frozen.feed([0.1, 0.2], [30.0, 0.0], [0.1, 0.2])
    with pytest.raises(SafetyAbort, match="joint one"):
        frozen.feed([0.1, 0.2], [30.0, 0.0], [0.1, 0.2])


def test_a_joint_far_from_where_it_should_be_is_named(bench: Any) -> None:
    limits = arm_limits(bench.rig)
    there = [0.0] * 6
    check_following(limits, there, [0.19] * 6)
    for wanted in (0.21, float("nan")):
        with pytest.raises(SafetyAbort, match=r"joint forearm is at 0\.0 deg") as stopped:
            check_following(limits, there, [0.0, 0.0, 0.0, wanted, 0.0, 0.0])
        assert stopped.value.reason == "not_following"


# -- the wrist sensor


def wrist(rig: ArmRig) -> WristWatch:
    return WristWatch(arm_model(rig), sensor_frame(rig), [body(rig.tool)], arm_limits(rig), 200.0)


def test_the_weight_is_the_tools_in_the_sensors_frame(bench: Any) -> None:
    watch = wrist(bench.rig)
    # all joints at zero: the flange's z points forward, and its x down
    force = watch.weight([0.0] * 6)
    assert force[:3] == pytest.approx([0.4 * 9.80665, 0.0, 0.0], abs=1e-9)
    assert np.linalg.norm(watch.weight([0.3, -0.4, 0.2, 0.5, 0.6, 0.7])[:3]) == pytest.approx(0.4 * 9.80665)
    centre = np.array([0.003, 0.0, 0.045])
    assert force[3:] == pytest.approx(np.cross(centre, force[:3]))


def test_limits_are_of_what_is_more_than_the_weight(bench: Any) -> None:
    watch = wrist(bench.rig)
    start, turned = [0.0, -0.35, 0.175, 0.0, 1.05, 0.0], [0.0, -0.35, 0.175, 0.0, -1.05, 3.0]
    watch.tare(start, watch.weight(start))
    still = np.zeros(3, dtype=bool)
    times = np.arange(3) * 1e-3
    change = np.tile(watch.weight(turned) - watch.weight(start), (3, 1))
    axis = change[0, :3] / np.linalg.norm(change[0, :3])
    change[:, :3] += 59.9 * axis
    watch.check(change[:, :3], change[:, 3:], still, times, turned)
    change[1, :3] += 0.2 * axis
    with pytest.raises(SafetyAbort, match=r"the force reached 60\.1 N at 0\.001 s, limit 60 N") as stopped:
        watch.check(change[:, :3], change[:, 3:], still, times, turned)
    assert stopped.value.reason == "force_limit"
    change[:, :3] -= 60.0 * axis
    change[2, 3:] = [0.0, 6.5, 0.0]
    with pytest.raises(SafetyAbort) as stopped:
        watch.check(change[:, :3], change[:, 3:], still, times, turned)
    assert stopped.value.reason == "torque_limit"


def test_a_zero_of_the_sensor_is_allowed_and_another_tool_is_not(bench: Any) -> None:
    watch = wrist(bench.rig)
    start = [0.0, -0.35, 0.175, 0.0, 1.05, 0.0]
    weight = watch.weight(start)
    for off in (9.0, -9.0):
        watch.tare(start, weight + np.array([off, 0, 0, 0, 0, 0]))
    with pytest.raises(SafetyAbort, match=r"tool and payload of 0\.4 kg make") as stopped:
        watch.tare(start, weight + np.array([0, 0, 12.0, 0, 0, 0]))
    assert stopped.value.reason == "wrong_load"
    with pytest.raises(SafetyAbort):
        watch.tare(start, weight * np.nan)
