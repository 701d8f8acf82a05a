"""The arm's station on its twin: it opens, holds the arm under the gate, refuses what is no command, is made safe."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from bench.clock import sleep
from bench.errors import BenchError, LimitError
from bench.profile import find_profile, load_rig, load_specimen, load_twin
from bench.station import Station, open_station

pytest.importorskip("pinocchio", reason="needs the extra arm")
pytest.importorskip("mujoco", reason="needs the extra arm")

#: Damping of a hold, as shares of the base's, and the gains of the base [N.m/rad, N.m.s/rad].
SHARES = (1.0, 1.0, 0.5, 0.2, 0.05, 0.03)
STIFF, DAMPED = 400.0, 20.0


def opened(**options: Any) -> Station:
    twin = load_twin(find_profile("twins", "full_arm"))
    specimen = load_specimen(find_profile("specimens", "bare_tool"))
    return open_station(load_rig(find_profile("rigs", "full_arm")), twin=twin, specimen=specimen, **options)


@pytest.fixture
def station() -> Iterator[Any]:
    with opened() as arm:
        arm.make_ready()
        arm.mount(load_specimen(find_profile("specimens", "bare_tool")))
        yield arm


def hold(station: Any, ticks: int, *, open_at: int | None = None) -> list[float]:
    """Hold the arm where it is at 250 Hz and return how far each joint came away [rad]."""
    gate = station.arm
    start = gate.read().position_rad
    weight = station.model.gravity(np.array(start)).tolist()
    last = start
    for k in range(ticks):
        reading = gate.read()
        last = reading.position_rad
        gate.torques(
            [
                g + STIFF * s * (a - b) - DAMPED * s * v
                for g, s, a, b, v in zip(weight, SHARES, start, last, reading.velocity_rad_s, strict=True)
            ]
        )
        if k == open_at:
            gate.open_brakes()
        sleep(station.clock, 0.004)
    return [abs(a - b) for a, b in zip(start, last, strict=True)]


def test_the_arm_is_held_with_open_brakes_and_braked_before_its_power_goes(station: Any) -> None:
    station.arm.torque_enable(True)
    assert max(hold(station, 250, open_at=2)) < 0.002
    assert station.arm.brakes_open
    report = station.make_safe("done")
    assert report.safe, str(report)
    assert not station.arm.brakes_open
    with pytest.raises(LimitError, match="shut since the rig was stopped"):
        station.arm.torques([0.0] * 6)


def test_brakes_open_only_under_torque(station: Any) -> None:
    with pytest.raises(LimitError, match="no torque was commanded just before"):
        station.arm.open_brakes()
    station.arm.torque_enable(True)
    hold(station, 3)
    sleep(station.clock, 0.06)
    with pytest.raises(LimitError, match="no torque was commanded just before"):
        station.arm.open_brakes()


@pytest.mark.parametrize(
    ("joint", "torque", "said"),
    [(1, 75.1, "beyond the limit of 75 N.m"), (5, -6.1, "beyond the limit of 6 N.m"), (0, math.nan, "finite")],
)
def test_a_torque_that_is_none_does_not_reach_a_servo(station: Any, joint: int, torque: float, said: str) -> None:
    wanted = [0.0] * 6
    wanted[joint] = torque
    with pytest.raises(LimitError, match=said):
        station.arm.torques(wanted)


def test_nobody_else_gets_the_brake_line(station: Any) -> None:
    with pytest.raises(LimitError, match="belongs to the interlock"):
        station.daq.digital_output(station.rig.safety.brake_line)


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"name": "servo_missing", "parameters": {"id": 14}}, "14"),
        ({"name": "servo_model_changed", "parameters": {"id": 13, "model": "PH42-020-S300"}}, "PH42-020-S300"),
    ],
    ids=["missing", "other model"],
)
def test_a_servo_that_is_missing_or_another_one_is_named(fault: dict[str, Any], said: str) -> None:
    with pytest.raises(BenchError, match=said):
        opened(faults=[{**fault, "at": "0 s"}])
