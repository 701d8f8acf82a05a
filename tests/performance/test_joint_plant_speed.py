"""What the simulated joint costs, in turns of an empty Python loop, so that a slow machine does not matter."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

import pytest

from bench.twin.plant.joint_step import Command, State, advance, parameters, prepare
from bench.twin.plant.joint_truth import DriveTruth, FrictionTruth, GearTruth, JointTruth, LoadTruth

pytestmark = pytest.mark.performance

MOST_TURNS = 200.0
"""For one tick under a command of its own; a tick among many takes three quarters of it."""


def test_a_tick_of_the_joint_costs_at_most_two_hundred_turns_of_an_empty_loop(
    record_property: Callable[[str, object], None],
) -> None:
    truth = JointTruth(
        friction=FrictionTruth(load_coefficient=0.01, temperature_coefficient=0.004),
        gear=GearTruth(hysteresis_torque=0.25, backlash=2e-5),
        drive=DriveTruth(ripple=0.02),
        load=LoadTruth(gravity_moment=2.5),
    )
    prepared, ratios = prepare(parameters(truth), 1e-3, 1), []
    for _ in range(7):
        start = time.thread_time()
        x = 0.0
        for i in range(100_000):
            x = i * 1.5 + 2.0
        turn = (time.thread_time() - start) / 100_000
        state, command, out = State(theta=0.5, q=0.5), Command(), list[float]()
        start = time.thread_time()
        for n in range(1000):
            command.feedforward = 3.0 * math.sin(0.005 * n)
            advance(state, prepared, command, 1, out)
        ratios.append((time.thread_time() - start) / 1000 / turn)
    assert x > 0.0
    record_property("turns_per_tick", min(ratios))
    assert min(ratios) < MOST_TURNS, f"{min(ratios):.0f} turns of an empty loop for one tick"
