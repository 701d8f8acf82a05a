"""The clocks of drive and DAQ are told apart by the two encoders, and what is no time offset is not taken for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.errors import Refused
from bench.identify.alignment import Alignment, align


def aligned(made: Any) -> Alignment:
    time, ticks = np.arange(round(made.seconds * 1000.0)) / 1000.0, made.drive_times()
    noise = np.random.default_rng(made.seed + 2).normal(0.0, 5e-6, len(time))
    motor = made.rotor(ticks) / made.gear_ratio
    return align(ticks, motor, time, made.joint.motion(time)[0] + noise, made.joint.torque(time))


def test_the_offset_is_found_through_deflection_and_hysteresis_within_its_uncertainty(
    recorded: Callable[..., Any],
) -> None:
    errors = []
    for seed in range(6):
        made = recorded(seed=10 * seed, offset_s=0.0037 - 0.0007 * seed, seconds=10.0)
        found = aligned(made)
        errors.append((found.offset_s - made.offset_s) / found.standard_uncertainty_s)
        assert abs(found.offset_s - made.offset_s) < 2e-5
        assert found.standard_uncertainty_s < 2e-5
        assert found.compliance == pytest.approx(1.0 / 4500.0, rel=0.05)
    assert np.sum(np.abs(errors) < 3.0) == 6


def test_a_drift_between_the_clocks_is_found_in_a_longer_record(recorded: Callable[..., Any]) -> None:
    made = recorded(seconds=60.0, drift=2e-5)
    found = aligned(made)
    assert found.drift == pytest.approx(2e-5, abs=4.0 * found.drift_uncertainty)
    ticks = made.drive_times()
    assert np.abs(found.to_daq(ticks) - made.daq_of(ticks)).max() < 5e-5
    assert found.to_drive(float(found.to_daq(ticks)[100])) == pytest.approx(ticks[100], abs=1e-9)


def test_a_joint_that_hardly_moves_tells_nothing(recorded: Callable[..., Any]) -> None:
    made = recorded()
    time, ticks = np.arange(30000) / 1000.0, made.drive_times()
    with pytest.raises(Refused, match="too little to tell the clocks apart") as refusal:
        align(ticks, 1e-3 * np.sin(ticks), time, 1e-3 * np.sin(time), 0.0 * time)
    assert refusal.value.reason == "hardly_moves"


def test_a_constant_speed_does_not_tell_time_from_the_zero_of_the_angle(recorded: Callable[..., Any]) -> None:
    made = recorded(seconds=10.0)
    time, ticks = np.arange(10000) / 1000.0, made.drive_times()
    with pytest.raises(Refused) as refusal:
        align(ticks, 0.1 * (ticks + 0.003), time, 0.1 * time, 0.0 * time)
    assert refusal.value.reason == "hardly_moves"


@pytest.mark.parametrize(
    ("factor", "reason", "says"),
    [(-1.0, "encoder_direction", "Swap A and B"), (1.25, "gear_ratio", "multiply it by 1.25")],
)
def test_encoders_that_disagree_are_no_matter_of_time(
    recorded: Callable[..., Any], factor: float, reason: str, says: str
) -> None:
    with pytest.raises(Refused, match=says) as refusal:
        aligned(recorded(motor_factor=factor, seconds=12.0))
    assert refusal.value.reason == reason
