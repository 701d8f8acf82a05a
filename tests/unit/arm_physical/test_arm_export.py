"""The identified arm as a file: what a controller and what another engine read is the arm that was found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.arm import arm_description, coupled_inertia, drivetrain, sensor_frame
from bench.errors import ProfileError, Refused
from bench.identify.arm_export import Reach, arm_feedforward_model, arm_feedforward_urdf, assemble
from bench.identify.arm_nominal import NominalArm
from bench.identify.arm_physical import PhysicalFit, make_consistent
from bench.identify.arm_stretch import ArmStretch
from bench.identify.estimate import Estimate
from bench.identify.joint_runs import Origin
from bench.models.arm_description import ArmDescription
from bench.models.rigid import ArmModel
from bench.models.urdf import read_urdf
from bench.profile import ArmRig, Payload, check_folder, load_arm_feedforward, load_specimen

Floats = NDArray[np.float64]
ORIGIN = Origin("x.h5", "arm_excitation", "ab" * 32, True, "full_arm", "bare_tool", None, "2026-02-03T09:30:00Z")


@pytest.fixture(scope="module")
def physical(
    regressor: Callable[[int, int], Floats], real_arm: Callable[[int], Floats], nominal: NominalArm
) -> PhysicalFit:
    rows, truth = regressor(120, 1), real_arm(1)
    rng = np.random.default_rng(0)
    return make_consistent(rows, rows @ truth + 0.05 * rng.normal(size=len(rows)), nominal, noise=0.05)


@pytest.fixture(scope="module")
def reach() -> Reach:
    time = np.arange(0.0, 4.0, 0.01)
    position = np.outer(np.sin(time), np.linspace(0.5, 1.5, 6))
    velocity = np.outer(np.cos(time), np.linspace(0.5, 1.5, 6))
    warm = np.full_like(position, 27.0)
    phase = SimpleNamespace(name="train", replicate=1)
    return Reach.of([ArmStretch(phase, time, position, velocity, -position, position, warm, 100.0)])


def states(count: int = 40) -> tuple[Floats, Floats, Floats]:
    q, v, a = np.random.default_rng(9).normal(size=(3, count, 6))
    return q, v, a


def test_the_file_holds_the_arm_to_the_last_digit(
    physical: PhysicalFit, reach: Reach, arm_rig: ArmRig, description: ArmDescription, tmp_path: Path
) -> None:
    path = assemble(physical, arm_rig, reach=reach, sources=[ORIGIN], hold_out_error=0.014).write(tmp_path / "ff.toml")
    assert check_folder(path) == []
    read = arm_feedforward_model(load_arm_feedforward(path), arm_rig)
    rotors = coupled_inertia(replace(drivetrain(arm_rig.arm), motor_inertia=physical.motor_inertia))
    found = ArmModel(description.with_links(physical.links), motor_inertia=rotors)
    q, v, a = states()
    np.testing.assert_allclose(
        read.model.inverse_dynamics_rows(q, v, a), found.inverse_dynamics_rows(q, v, a), atol=1e-9
    )
    expected = physical.coulomb * np.sign(v) + physical.viscous * v + physical.offset
    np.testing.assert_allclose(read.friction.torque(v), expected, atol=1e-12)
    np.testing.assert_allclose(read.torque_scale, 1.0)
    assert read.temperature_max == 29.0
    np.testing.assert_allclose(read.position_max, reach.position_max)


def test_another_engine_reads_the_same_arm_from_the_urdf(
    physical: PhysicalFit, reach: Reach, arm_rig: ArmRig, description: ArmDescription, tmp_path: Path
) -> None:
    feedforward = assemble(physical, arm_rig, reach=reach, sources=[ORIGIN]).profile()
    file = tmp_path / "arm.urdf"
    file.write_text(arm_feedforward_urdf(feedforward, arm_rig), encoding="utf-8")
    q, v, a = states()
    read = ArmModel(read_urdf(file)).inverse_dynamics_rows(q, v, a)
    found = ArmModel(description.with_links(physical.links)).inverse_dynamics_rows(q, v, a)
    np.testing.assert_allclose(read, found, atol=1e-9)


def test_a_payload_of_the_identification_is_taken_away_and_another_put_on(
    physical: PhysicalFit, reach: Reach, arm_rig: ArmRig, repository: Path
) -> None:
    payload = load_specimen(repository / "profiles/specimens/payload_1kg.toml")
    assert isinstance(payload, Payload)
    bare = arm_feedforward_model(assemble(physical, arm_rig, reach=reach, sources=[ORIGIN]).profile(), arm_rig)
    sensor = sensor_frame(arm_rig)
    from bench.arm import body

    last = physical.links[-1].plus(body(payload.body).moved(arm_description(arm_rig).flange @ sensor))
    parameters = physical.parameters.copy()
    parameters[50:60] = last.parameters()
    loaded = replace(physical, parameters=parameters)
    feedforward = assemble(loaded, arm_rig, reach=reach, sources=[ORIGIN], payload=payload).profile()
    q, v, a = states(10)
    without = arm_feedforward_model(feedforward, arm_rig).model.inverse_dynamics_rows(q, v, a)
    np.testing.assert_allclose(without, bare.model.inverse_dynamics_rows(q, v, a), atol=1e-9)
    again = arm_feedforward_model(feedforward, arm_rig, payload).model.inverse_dynamics_rows(q, v, a)
    plain = arm_feedforward_model(assemble(loaded, arm_rig, reach=reach, sources=[ORIGIN]).profile(), arm_rig)
    np.testing.assert_allclose(again, plain.model.inverse_dynamics_rows(q, v, a), atol=1e-9)
    assert feedforward.payload is not None
    assert feedforward.payload.specimen == "payload_1kg"


def test_scales_and_uncertainties_stand_in_the_file(physical: PhysicalFit, reach: Reach, arm_rig: ArmRig) -> None:
    scales = [Estimate(1.0 + 0.01 * i, 0.002, "1", "number") for i in range(6)]
    motors = {"elbow": Estimate(0.1, 0.01, "kg.m2", "inertia")}
    made = assemble(physical, arm_rig, reach=reach, sources=[ORIGIN], torque_scale=scales, motor_inertia=motors)
    feedforward = made.profile()
    assert [joint.torque_scale for joint in feedforward.joints] == pytest.approx([one.value for one in scales])
    assert feedforward.uncertainty["wrist.torque_scale"].to("1") == pytest.approx(0.004)
    assert feedforward.uncertainty["elbow.motor_inertia"].to("kg.m2") == pytest.approx(0.02)


def test_what_cannot_be_a_file_is_refused(
    physical: PhysicalFit, reach: Reach, arm_rig: ArmRig, repository: Path
) -> None:
    with pytest.raises(Refused, match="which archive"):
        assemble(physical, arm_rig, reach=reach, sources=[])
    other = replace(physical, names=("a", "b", "c", "d", "e", "f"))
    with pytest.raises(Refused, match="parameters of a, b"):
        assemble(other, arm_rig, reach=reach, sources=[ORIGIN])
    with pytest.raises(Refused, match="no stretch"):
        Reach.of([])
    example = load_arm_feedforward(repository / "tests/unit/example_arm_feedforward.toml")
    with pytest.raises(ProfileError, match="joints swivel, lift"):
        arm_feedforward_model(example, arm_rig)
