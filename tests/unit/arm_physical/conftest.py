"""The full arm as its profile has it, and regressors of random states to test identifications on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.arm import arm_description, drivetrain, ratings
from bench.identify.arm_nominal import LINK, SCALARS, NominalArm, link_matrix, link_parameters
from bench.models.arm_description import ArmDescription
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, load_rig

Floats = NDArray[np.float64]


@pytest.fixture(scope="session")
def arm_rig(repository: Path) -> ArmRig:
    rig = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(rig, ArmRig)
    return rig


@pytest.fixture(scope="session")
def description(arm_rig: ArmRig) -> ArmDescription:
    return arm_description(arm_rig)


@pytest.fixture(scope="session")
def nominal(arm_rig: ArmRig, description: ArmDescription) -> NominalArm:
    rated = ratings(arm_rig.arm)
    motors = drivetrain(arm_rig.arm).motor_inertia
    return NominalArm.of(description, motor_inertia=motors, viscous=rated.viscous, coulomb=rated.coulomb)


@pytest.fixture(scope="session")
def regressor(description: ArmDescription) -> Callable[[int, int], Floats]:
    """``regressor(states, seed)``: rows (6 states, 84) of random states."""
    model = ArmModel(description)

    def rows(states: int, seed: int) -> Floats:
        rng = np.random.default_rng(seed)
        blocks = []
        for _ in range(states):
            q, v, a = rng.normal(size=(3, 6)) * [[1.5], [1.0], [3.0]]
            scalars = [np.diag(a), np.diag(v), np.diag(np.sign(v)), np.eye(6)]
            blocks.append(np.hstack([model.regressor(q, v, a), *scalars]))
        return np.vstack(blocks)

    return rows


@pytest.fixture(scope="session")
def real_arm(nominal: NominalArm) -> Callable[[int], Floats]:
    """``real_arm(seed)``: parameters (84,) of an arm that exists, some way from the nominal one."""

    def parameters(seed: int) -> Floats:
        rng = np.random.default_rng([seed, 7])
        links = []
        for root in nominal.roots:
            half = np.eye(4) + 0.12 * link_matrix(rng.normal(size=LINK))
            links.append(link_parameters(root @ half @ half.T @ root.T))
        near = [getattr(nominal, name) * rng.uniform(0.7, 1.3, 6) for name in SCALARS[:3]]
        return np.concatenate([*links, *near, 0.1 * rng.normal(size=6)])

    return parameters
