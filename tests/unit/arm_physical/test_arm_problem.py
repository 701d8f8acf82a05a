"""The regression of an arm: friction that turns round over a way, weights by joint, joints that never move."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_nominal import NominalArm
from bench.identify.arm_problem import bent, filtered, regress
from bench.identify.arm_stretch import ArmStretch
from bench.identify.filtering import LowPass
from bench.models.arm_description import ArmDescription
from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]
RATE = 250.0
LENGTHS = np.array([1.5e-4, 3e-4, 1e-4, 2e-4, 1.5e-4, 0.0])


def record(model: ArmModel, nominal: NominalArm, seed: int, lengths: Floats, *, still: int | None = None) -> ArmStretch:
    rng = np.random.default_rng(seed)
    time, waves = np.arange(0.0, 12.0, 1.0 / RATE), 2.0 * np.pi / 12.0 * np.arange(1, 8)
    size = rng.normal(size=(7, 6)) * 0.5 / np.arange(1, 8)[:, None]
    if still is not None:
        size[:, still] = 0.0
    angle = np.outer(time, waves)
    q, v = np.sin(angle) @ size, np.cos(angle) @ (size * waves[:, None])
    a = -np.sin(angle) @ (size * waves[:, None] ** 2)
    torque = model.inverse_dynamics_rows(q, v, a) + nominal.viscous * v
    for j, length in enumerate(lengths):
        sign = bent(q[:, j], length) if length else np.sign(v[:, j])
        torque[:, j] += nominal.coulomb[j] * sign
    torque += 0.01 * rng.normal(size=q.shape)
    phase = SimpleNamespace(name="train", replicate=1)
    return ArmStretch(phase, time, q, v, a, torque, np.full_like(q, 25.0), RATE)


@pytest.fixture(scope="module")
def model(description: ArmDescription, nominal: NominalArm) -> ArmModel:
    return ArmModel(description, motor_inertia=nominal.motor_inertia)


def test_bristles_bend_over_the_way_and_not_over_time() -> None:
    way = np.concatenate([np.linspace(0.0, 1e-3, 50), np.full(20, 1e-3), np.linspace(1e-3, 0.0, 7)])
    found = bent(way, 2e-4)
    assert found[49] == pytest.approx(1.0 - np.exp(-5.0))
    assert np.ptp(found[49:70]) == 0.0
    assert found[-1] == pytest.approx(-1.0 + (1.0 + found[49]) * np.exp(-5.0))


def test_the_way_over_which_friction_turns_round_comes_from_the_record(model: ArmModel, nominal: NominalArm) -> None:
    law = ArmLaw(model)
    train, held = record(model, nominal, 1, LENGTHS), record(model, nominal, 2, LENGTHS)
    problem = regress(law, [train], 8.0, np.full(6, 20.0))
    np.testing.assert_allclose(problem.lengths, LENGTHS, atol=1e-12)
    fitted = problem.least_squares()
    found = filtered(law, held, LowPass(10.0), lengths=problem.lengths)
    error = found.torque - found.columns @ fitted
    assert np.sqrt(np.mean(error**2)) < 0.01
    plain = filtered(law, held, LowPass(10.0))
    assert np.sqrt(np.mean((plain.torque - plain.columns @ fitted) ** 2)) > 5.0 * np.sqrt(np.mean(error**2))


def test_a_joint_that_never_moves_is_refused_by_its_name(model: ArmModel, nominal: NominalArm) -> None:
    still = record(model, nominal, 1, LENGTHS, still=3)
    with pytest.raises(Refused, match="joint forearm never moved"):
        regress(ArmLaw(model), [still], 8.0, np.full(6, 20.0))
