"""The nominal arm and paths that keep its limits, to be spoiled one way each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import ArrayLike

from bench.arm import arm_model
from bench.arm_limits import motion_limits
from bench.models.arm_path import ArmPath
from bench.models.motion_limits import MotionLimits
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, load_rig

#: A pose in which the arm can press downwards [deg].
POSE = (0.0, 20.0, -20.0, 10.0, 60.0, 0.0)


@dataclass(frozen=True)
class Ground:
    """Rig, model and limits of the nominal arm."""

    rig: ArmRig
    model: ArmModel
    limits: MotionLimits


@pytest.fixture(scope="session")
def ground(repository: Path) -> Ground:
    rig = load_rig(repository / "profiles" / "rigs" / "full_arm.toml")
    assert isinstance(rig, ArmRig)
    return Ground(rig, arm_model(rig), motion_limits(rig))


def swing(
    middle_deg: ArrayLike = POSE, reach_deg: ArrayLike = (10.0,) * 6, period_s: float = 4.0, **contact: object
) -> ArmPath:
    """All joints there and back about ``middle_deg``, half a sine each way."""
    time = np.arange(0.0, period_s, 0.01)
    w = 2.0 * np.pi / period_s
    middle, reach = np.radians(middle_deg), np.radians(reach_deg)
    phase = (w * time)[:, None]
    return ArmPath.of(
        "swinging",
        time,
        middle + reach * np.sin(phase),
        w * reach * np.cos(phase),
        -w * w * reach * np.sin(phase),
        **contact,  # type: ignore[arg-type]
    )


@pytest.fixture(scope="session")
def make_swing() -> Callable[..., ArmPath]:
    """``make_swing(middle_deg, reach_deg, period_s, force_needed=…, direction=…, led=…)``."""
    return swing
