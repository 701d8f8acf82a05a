"""A joint to try controllers on: the twin's plant behind the loop's interface, without drive, DAQ and wires between."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.procedures.joint_loop import Command, LoopView, Tick
from bench.procedures.joint_recording import Samples
from bench.profile import FeedForwardProfile, JointRig, load_procedure, load_rig, load_specimen, parse_profile
from bench.twin.plant.joint import Joint
from bench.twin.plant.joint_truth import FrictionTruth, GearTruth, JointTruth, LoadTruth
from bench.twin.world import SimWorld

PERIOD_NS = 2_000_000
PENDULUM = LoadTruth(inertia=0.4, gravity_moment=2.5)
BALANCED = LoadTruth(inertia=2.0)
FRICTIONLESS = FrictionTruth(coulomb=0.0, viscous=0.0, stribeck_excess=0.0)
FRICTION = """
coulomb = "1.2 N.m"
viscous = "0.8 N.m.s/rad"
stribeck_excess = "0.6 N.m"
stribeck_velocity = "0.05 rad/s"
reference_temperature = "25 degC"
bristle_stiffness = "5000 N.m/rad"
bristle_damping = "10 N.m.s/rad"
"""
FEEDFORWARD = """
schema = "bench.feedforward/1"
name = "known_joint"
version = 1
rig = "single_joint"
created = 2026-01-07T10:00:00Z
software_version = "0.1.0"
[friction]{friction}
[drive]
torque_scale = {scale}
[validity]
speed_min = "0.005 rad/s"
speed_max = "2 rad/s"
load_max = "12 N.m"
temperature_min = "20 degC"
temperature_max = "45 degC"
[[sources]]
file = "sweep.h5"
procedure = "friction_sweep"
digest = "{digest}"
simulated = true
"""


class PlantRecording:
    """Runs controllers as the loop does: each sees the state of the command before; keeps phases and events."""

    period_s = PERIOD_NS * 1e-9

    def __init__(self, truth: JointTruth, warmth_degc: float = 25.0) -> None:
        self.truth = replace(truth, thermal=replace(truth.thermal, ambient=warmth_degc))
        self.world = SimWorld()
        self.plant = Joint(self.world, self.truth)
        self.plant.set_power(True)
        self.phases: list[tuple[str, int, float, float, float]] = []
        self.events: list[tuple[str, str, str]] = []
        self.rows: list[tuple[float, ...]] = []
        self._runner = self.world.register("runner")
        self._wait(100_000_000)  # the brake opens
        self._seen = self._look()

    @property
    def time_s(self) -> float:
        return self.world.now_ns * 1e-9

    def _wait(self, span_ns: int) -> None:
        self.world.park(self._runner, until_ns=self.world.now_ns + span_ns)

    def _look(self) -> tuple[float, float, float, float]:
        plant, turn = self.plant, 2.0 * math.pi / self.truth.gear.ratio
        ratio = self.truth.gear.ratio
        return (
            turn * plant.position_rev(), turn * plant.velocity_rev_s(), ratio * plant.torque_nm(),
            plant.temperature_degc(),
        )  # fmt: skip

    def run(self, controller: Callable[[Tick, Command], bool | None], duration_s: float, *, text: str) -> LoopView:
        tick, command = Tick(), Command()
        first, ratio = len(self.rows), self.truth.gear.ratio
        for _ in range(round(duration_s / self.period_s)):
            tick.index, tick.time_s = len(self.rows), self.time_s
            tick.motor_angle_rad, tick.motor_velocity_rad_s, tick.motor_torque_nm, tick.temperature_degc = self._seen
            done = controller(tick, command)
            self._seen = self._look()
            self.rows.append((
                self.time_s, *self._seen, command.torque_nm, command.wanted_nm, command.feedback_nm,
                command.feedforward_nm, command.desired_angle_rad, command.desired_velocity_rad_s,
            ))  # fmt: skip
            self.plant.command(command.torque_nm / ratio, 0.0, 0.0, 0.0, 0.0, 1.0)
            self._wait(PERIOD_NS)
            if done:
                break
        return self._view(np.array(self.rows[first:]))

    def _view(self, rows: NDArray[np.float64]) -> LoopView:
        columns = rows.T
        ticks = np.round(columns[0] / (self.plant.tick_ns * 1e-9)).astype(int)
        angle, torque = self.plant.joint_angle()[ticks], self.plant.joint_torque()[ticks]
        return LoopView(*columns, angle, torque, samples=Samples(columns[0], angle, torque))

    def phase(self, name: str, replicate: int, speed: float, start_s: float, end_s: float) -> None:
        self.phases.append((name, replicate, speed, start_s, end_s))

    def event(self, severity: str, code: str, message: str) -> None:
        self.events.append((severity, code, message))

    def during(self, phase: tuple[str, int, float, float, float]) -> LoopView:
        """What was recorded in a phase."""
        rows = np.array(self.rows)
        return self._view(rows[(rows[:, 0] >= phase[3]) & (rows[:, 0] <= phase[4])])


@pytest.fixture(scope="session")
def rig(repository: Path) -> JointRig:
    found = load_rig(repository / "profiles/rigs/single_joint.toml")
    assert isinstance(found, JointRig)
    return found


@pytest.fixture(scope="session")
def procedure(repository: Path) -> Callable[..., Any]:
    """``procedure("friction_sweep", amplitude=…)``: as in the profiles, with fields replaced."""

    def named(name: str, **changes: Any) -> Any:
        return load_procedure(repository / f"profiles/procedures/{name}.toml").model_copy(update=changes)

    return named


@pytest.fixture(scope="session")
def load(repository: Path) -> Callable[[str], Any]:
    return lambda name: load_specimen(repository / f"profiles/specimens/{name}.toml")


@pytest.fixture(scope="session")
def feedforward() -> Callable[..., FeedForwardProfile]:
    """A feed-forward file of the published joint."""

    def made(friction: str = FRICTION, scale: float = 1.0, **replaced: str) -> FeedForwardProfile:
        text = FEEDFORWARD.format(friction=friction, scale=scale, digest="0" * 64)
        for old, new in replaced.items():
            line = next(line for line in text.splitlines() if line.startswith(f"{old} ="))
            text = text.replace(line, f"{old} = {new}")
        profile, problems = parse_profile(text, Path("known_joint.toml"))
        assert isinstance(profile, FeedForwardProfile), problems
        return profile

    return made


@pytest.fixture
def plant() -> Callable[..., PlantRecording]:
    """``plant(load=…, friction=…)``: the published joint on a gear, or what is replaced."""

    def made(warmth_degc: float = 25.0, **replaced: Any) -> PlantRecording:
        gear = GearTruth(hysteresis_torque=0.1)
        return PlantRecording(replace(JointTruth(gear=gear, load=PENDULUM), **replaced), warmth_degc)

    return made


@pytest.fixture
def truths() -> dict[str, Any]:
    return {"pendulum_arm": PENDULUM, "balanced_arm": BALANCED, "frictionless": FRICTIONLESS}
