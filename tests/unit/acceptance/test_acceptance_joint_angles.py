"""The way a low-speed tracking covers is enough to tell a gear ratio one tooth off from the gear's own giving way."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from bench.acceptance.joint_angles import why_not
from bench.units import Value

#: Nominal 4500 N.m/rad in the profile, really softer, with hysteresis and play [rad] between the directions.
REAL_STIFFNESS, HYSTERESIS = 4000.0, 1.5e-4


def tracked(ratio_error: float) -> SimpleNamespace:
    """A hanging arm goes from rest to 0.35 rad and back, as the tracking at 0.3 rad does on its way."""
    time = np.linspace(0.0, 20.0, 10_001)
    joint = 0.175 * (1.0 - np.cos(2.0 * np.pi * time / 20.0))
    torque = 2.5 * np.sin(joint)
    theta = joint + torque / REAL_STIFFNESS + HYSTERESIS * np.sign(np.gradient(joint))
    rig = SimpleNamespace(
        drive=SimpleNamespace(gear_ratio=100.0),
        joint=SimpleNamespace(stiffness=Value(4500.0, "N.m/rad", "rotational_stiffness")),
    )
    return SimpleNamespace(
        facts=SimpleNamespace(rig=rig),
        angle=SimpleNamespace(time_s=time, values=joint),
        torque=SimpleNamespace(time_s=time, values=torque),
        drive_time_s=time,
        drive=lambda name: 100.0 * theta * (1.0 + ratio_error),
        period_s=0.002,
    )


def test_a_sound_gear_that_gives_way_is_believed() -> None:
    assert why_not(tracked(0.0)) == ""


@pytest.mark.parametrize("ratio_error", [0.01, -0.01])
def test_a_ratio_one_tooth_in_a_hundred_off_is_not(ratio_error: float) -> None:
    assert "the ratio or an encoder is wrong" in why_not(tracked(ratio_error))
