"""The nominal arm, its limits, and one small design shared by the tests."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from bench.arm import arm_model
from bench.arm_limits import motion_limits
from bench.identify.excitation import Excitation, design
from bench.identify.excitation_cost import BaseColumns
from bench.models.motion_limits import MotionLimits
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, load_rig

BASE_HZ, HARMONICS, SEED, EVALUATIONS = 0.05, 8, 1, 250


@dataclass(frozen=True)
class Bed:
    """Rig, model, limits and columns of the nominal arm."""

    rig: ArmRig
    model: ArmModel
    limits: MotionLimits
    columns: BaseColumns


@pytest.fixture(scope="session")
def bed(repository: Path) -> Bed:
    rig = load_rig(repository / "profiles" / "rigs" / "full_arm.toml")
    assert isinstance(rig, ArmRig)
    model = arm_model(rig)
    return Bed(rig, model, motion_limits(rig), BaseColumns.of(model))


@pytest.fixture(scope="session")
def excitation(bed: Bed) -> Excitation:
    return design(
        bed.model,
        bed.limits.narrowed(),
        bed.columns,
        base_hz=BASE_HZ,
        harmonics=HARMONICS,
        seed=SEED,
        evaluations=EVALUATIONS,
    )
