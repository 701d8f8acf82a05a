"""Payload and drive gains from slow crossings of poses: mass within 2 %, honest uncertainty, honest refusals."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.arm import arm_description, body, drivetrain
from bench.errors import Refused
from bench.identify.arm_crossings import Pose, poses_of
from bench.identify.arm_gains import identify_gains
from bench.identify.arm_payload import identify_payload, weigh
from bench.models.arm_description import LinkInertia
from bench.models.rigid import ArmModel
from bench.profile import ArmRig

CENTRE = np.array([0.01, -0.005, 0.095])
KILOGRAM = LinkInertia(1.0, CENTRE, 5e-4 * np.eye(3))
SCALES = np.array([1.01, 0.98, 1.02, 0.99, 1.005, 0.995])
Make = Callable[..., Any]


@pytest.fixture(scope="module")
def model(arm_rig: ArmRig) -> ArmModel:
    return ArmModel(arm_description(arm_rig), motor_inertia=drivetrain(arm_rig.arm).motor_inertia)


@pytest.fixture(scope="module")
def crossed(made_hold: Make, mounted: Make, arm_rig: ArmRig, model: ArmModel) -> Callable[..., tuple[Pose, ...]]:
    def poses(seed: int = 0, **truth: Any) -> tuple[Pose, ...]:
        return poses_of(made_hold(mounted(**truth), seed), arm_rig, model)

    return poses


@pytest.mark.parametrize("seed", range(5))
def test_the_mass_comes_out_within_two_percent(crossed: Callable[..., tuple[Pose, ...]], seed: int) -> None:
    found = identify_payload(crossed(seed, payload=KILOGRAM), torque_uncertainty=0.005)
    assert found.mass.value == pytest.approx(1.0, rel=0.02)
    assert abs(found.mass.value - 1.0) < found.mass.expanded_uncertainty
    assert found.centre is not None
    for one, truth in zip(found.centre, CENTRE, strict=True):
        assert abs(one.value - truth) < 1.5 * one.expanded_uncertainty + 1e-4


def test_friction_cancels_and_comes_out_beside(crossed: Callable[..., tuple[Pose, ...]]) -> None:
    for pose in crossed(payload=KILOGRAM):
        np.testing.assert_allclose(pose.friction, [2.0, 3.0, 2.0, 0.6, 0.5, 0.3], atol=0.02)


def test_against_the_bare_tool_an_unknown_offset_does_no_harm(crossed: Callable[..., tuple[Pose, ...]]) -> None:
    offset = np.array([0.4, -0.5, 0.4, 0.2, -0.1, 0.1])
    loaded, bare = crossed(1, payload=KILOGRAM, offset=offset), crossed(2, offset=offset)
    alone = identify_payload(loaded).mass
    paired = identify_payload(loaded, bare=bare).mass
    assert abs(paired.value - 1.0) < 0.005 < abs(alone.value - 1.0)


def test_a_wrong_motor_shows_in_the_uncertainty(crossed: Callable[..., tuple[Pose, ...]]) -> None:
    poses = crossed(payload=KILOGRAM, scales=SCALES)
    careless, careful = identify_payload(poses).mass, identify_payload(poses, torque_uncertainty=0.02).mass
    assert careful.standard_uncertainty > careless.standard_uncertainty
    assert careful.budget["torque_gain"] > 0.0
    assert abs(careful.value - 1.0) < careful.expanded_uncertainty


def test_the_wrist_sensor_is_a_second_witness_whatever_its_zero(
    crossed: Callable[..., tuple[Pose, ...]], arm_rig: ArmRig
) -> None:
    tare = np.array([3.0, -2.0, 8.0, 0.1, 0.05, -0.1])
    poses = crossed(payload=KILOGRAM, tare=tare)
    found = weigh(poses, tool=body(arm_rig.tool))
    assert found.mass.value == pytest.approx(1.0, rel=0.01)
    assert found.mass.budget["sensor_gain"] == pytest.approx(0.005, rel=0.5)
    assert found.centre is not None
    np.testing.assert_allclose([one.value for one in found.centre], CENTRE, atol=2e-3)
    assert weigh(poses, bare=crossed(3, tare=tare)).mass.value == pytest.approx(1.0, rel=0.01)
    assert weigh(crossed(), tool=body(arm_rig.tool)).mass.value == pytest.approx(0.0, abs=0.01)


def test_nothing_mounted_weighs_nothing(crossed: Callable[..., tuple[Pose, ...]]) -> None:
    found = identify_payload(crossed())
    assert abs(found.mass.value) < max(found.mass.expanded_uncertainty, 0.01)


def test_drive_gains_come_out_where_the_payload_loads_the_joint(
    crossed: Callable[..., tuple[Pose, ...]], arm_rig: ArmRig
) -> None:
    loaded, bare = crossed(1, payload=KILOGRAM, scales=SCALES), crossed(2, scales=SCALES)
    names = [joint.name for joint in arm_rig.arm.joints]
    found = identify_gains(loaded, bare, names=names, known=KILOGRAM, mass_uncertainty=5e-4)
    base = found["base"]
    assert not base.identifiable, "a vertical axis bears no weight"
    assert base.load < 1e-6
    assert base.scale.value == 1.0
    for name, truth in zip(names[1:], SCALES[1:], strict=True):
        one = found[name]
        if one.identifiable:
            assert abs(one.scale.value - truth) < 1.5 * one.scale.expanded_uncertainty + 1e-3
    assert all(found[name].identifiable for name in ("shoulder", "elbow", "wrist"))
    assert found["shoulder"].scale.standard_uncertainty < 0.005


def test_what_says_nothing_is_refused(
    crossed: Callable[..., tuple[Pose, ...]], made_hold: Make, mounted: Make, arm_rig: ArmRig, model: ArmModel
) -> None:
    poses = crossed(payload=KILOGRAM)
    with pytest.raises(Refused, match="too few"):
        identify_payload(poses[:3])
    with pytest.raises(Refused, match="tell mass and centre apart"):
        identify_payload([replace(pose, load=poses[0].load) for pose in poses])
    moved = [replace(pose, position=pose.position + 0.5) for pose in poses]
    with pytest.raises(Refused, match="not crossed with the bare tool"):
        identify_payload(poses, bare=moved)
    with pytest.raises(Refused, match="no wrench"):
        weigh([replace(pose, wrench=None) for pose in poses])
    run = made_hold(mounted(), 0)
    one_way = replace(run, phases=tuple(phase for phase in run.phases if phase.angular_speed_rad_s > 0.0))
    with pytest.raises(Refused, match="one direction only"):
        poses_of(one_way, arm_rig, model)
    with pytest.raises(Refused, match="no phase"):
        poses_of(replace(run, phases=()), arm_rig, model)
    short = SimpleNamespace(**{**vars(run.phases[0]), "end_s": run.phases[0].start_s + 0.05})
    with pytest.raises(Refused, match="rows of the drives"):
        poses_of(replace(run, phases=(short,)), arm_rig, model)
    with pytest.raises(Refused, match="pulls at nothing"):
        identify_gains(poses, poses, names=["x"] * 6, known=LinkInertia(0.0), mass_uncertainty=0.0)
