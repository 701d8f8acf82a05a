"""What the simulated arm costs, in turns of an empty Python loop, so that a slow machine does not matter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("mujoco")

from bench.profile import load_rig, load_twin
from bench.profile.rig_arm import ArmRig
from bench.profile.twin_arm import ArmTwin
from bench.twin.plant.arm import Arm
from bench.twin.plant.build_arm import arm_truth
from bench.twin.world import SimWorld

pytestmark = pytest.mark.performance

MOST_TURNS = 1600.0
"""For one tick of 1 ms, under commands at 250 Hz; a tick of the single joint may cost 200."""
FASTER = 6.0
"""The arm by itself, against real time."""
PERIOD_NS = 4_000_000


def test_a_tick_of_the_arm_costs_what_eight_joints_cost(
    repository: Path, record_property: Callable[[str, object], None]
) -> None:
    rig = load_rig(repository / "profiles" / "rigs" / "full_arm.toml")
    twin = load_twin(repository / "profiles" / "twins" / "full_arm.toml")
    assert isinstance(rig, ArmRig)
    assert isinstance(twin, ArmTwin)
    world = SimWorld(tick_ns=1_000_000)
    arm = Arm(world, arm_truth(rig, twin))
    with world.lock:
        arm.set_power(True)
        arm.release_brakes(True)
        world.move_to(100_000_000)
        weight = [u / axis.torque_per_current for u, axis in zip(arm.state.force, arm.truth.axes, strict=True)]
        home, costs, turns = arm.states()[0], [], []
        for _ in range(7):
            start = time.thread_time()
            x = 0.0
            for i in range(100_000):
                x = i * 1.5 + 2.0
            turns.append((time.thread_time() - start) / 100_000)
            start = time.thread_time()
            for k in range(250):
                world.move_to(world.now_ns + 1_300_000)
                angles, speeds, _ = arm.states()
                arm.command_currents(
                    [
                        i + 3.0 * (at + 0.2 * math.sin(0.02 * k) - angle) - 0.3 * speed
                        for i, at, angle, speed in zip(weight, home, angles, speeds, strict=True)
                    ]
                )
                world.move_to(world.now_ns + PERIOD_NS - 1_300_000)
            costs.append((time.thread_time() - start) / 250)
    assert x > 0.0
    per_tick = min(cost / turn for cost, turn in zip(costs, turns, strict=True)) / 4
    faster = PERIOD_NS * 1e-9 / min(costs)
    record_property("turns_per_tick", per_tick)
    record_property("times_real_time", faster)
    assert per_tick < MOST_TURNS, f"{per_tick:.0f} turns of an empty loop for one tick"
    assert faster > FASTER, f"{faster:.1f} x real time, the arm alone"
