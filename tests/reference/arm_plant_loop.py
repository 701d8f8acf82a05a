"""The simulated arm under a plain position loop in this process, and its record as an identification reads one."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arm import drivetrain
from bench.models.rigid import ArmModel
from bench.profile import ArmRig
from bench.profile.twin_arm import ArmTwin
from bench.twin.plant.arm import Arm
from bench.twin.plant.build_arm import arm_truth
from bench.twin.world import SimWorld

Floats = NDArray[np.float64]
Motion = Callable[[float], tuple[Floats, Floats, Floats]]
Friction = Callable[[Floats], Floats]

TICK_S = 0.004
STIFFNESS = np.array([1500.0, 2500.0, 1200.0, 400.0, 250.0, 150.0])
DAMPING = np.array([60.0, 90.0, 40.0, 12.0, 7.0, 4.0])
COLUMNS = (
    "motor_{}_position", "motor_{}_current", "motor_{}_command_current", "desired_{}_position", "desired_{}_velocity",
    "feedback_{}_torque", "feedforward_{}_torque", "friction_{}_torque",
)  # fmt: skip


def none(velocity: Floats) -> Floats:
    """No friction is fed forward."""
    return np.zeros_like(velocity)


class Loop:
    """Position loop with a model fed forward; what was run is in ``rows`` and ``phases``."""

    def __init__(self, rig: ArmRig, twin: ArmTwin, specimen: str, seed: int) -> None:
        self.rig, self.drives, self.specimen = rig, drivetrain(rig.arm), specimen
        self.world = SimWorld(tick_ns=1_000_000)
        self.arm = Arm(self.world, arm_truth(rig, twin, specimen, seed))
        with self.world.lock:
            self.arm.set_power(True)
            self.arm.release_brakes(True)
        self.time_s = 0.0
        self.rows: list[Floats] = []
        self.phases: list[SimpleNamespace] = []

    def position(self) -> Floats:
        with self.world.lock:
            self.arm.catch_up()
            return self.drives.joint_position(np.array(self.arm.states()[0]))

    def run(
        self, motion: Motion, seconds: float, model: ArmModel, friction: Friction = none, phase: tuple[Any, ...] = ()
    ) -> None:
        """Follow a motion; ``phase`` is its name, replicate and speed."""
        start = self.time_s
        for k in range(round(seconds / TICK_S)):
            with self.world.lock:
                self.arm.catch_up()
                angle, speed, current = (np.array(one) for one in self.arm.states())
            q, v = self.drives.joint_position(angle), self.drives.joint_velocity(speed)
            wanted, velocity, acceleration = motion(k * TICK_S)
            fed = friction(velocity)
            forward = model.inverse_dynamics(wanted, velocity, acceleration) + fed
            back = STIFFNESS * (wanted - q) + DAMPING * (velocity - v)
            told = self.drives.current(forward + back)
            row = [[self.time_s], angle, current, told, wanted, velocity, back, forward, fed]
            self.rows.append(np.concatenate(row))
            with self.world.lock:
                self.arm.command_currents(list(told))
            self.time_s += TICK_S
            with self.world.lock:
                self.world.move_to(round(self.time_s * 1e9))
        if phase:
            name, replicate, turning = phase
            self.phases.append(
                SimpleNamespace(
                    name=name, replicate=replicate, angular_speed_rad_s=turning, start_s=start,
                    end_s=self.time_s - 1e-4,
                )
            )  # fmt: skip

    def go(self, goal: Floats, model: ArmModel, friction: Friction = none, speed: float = 0.5) -> None:
        """Go somewhere smoothly."""
        start = self.position()
        way = goal - start
        seconds = max(1.0, 1.9 * float(np.abs(way).max()) / speed)

        def motion(t: float) -> tuple[Floats, Floats, Floats]:
            x = min(t / seconds, 1.0)
            p, d, a = (
                10 * x**3 - 15 * x**4 + 6 * x**5,
                30 * x**2 - 60 * x**3 + 30 * x**4,
                60 * x - 180 * x**2 + 120 * x**3,
            )
            return start + way * p, way * d / seconds, way * a / seconds**2

        self.run(motion, seconds, model, friction)

    def slide(
        self, start: Floats, turning: Floats, phase: tuple[Any, ...], model: ArmModel, friction: Friction
    ) -> None:
        """Slide slowly at constant speeds (n,), from rest."""
        ramp = 0.2

        def motion(t: float) -> tuple[Floats, Floats, Floats]:
            way, share = (0.5 * t * t / ramp, t / ramp) if t < ramp else (t - 0.5 * ramp, 1.0)
            return start + turning * way, turning * share, turning * (t < ramp) / ramp

        self.run(motion, 2.5, model, friction, phase)

    def record(self, procedure: str, texts: dict[str, str], feedforward: str | None = None) -> Record:
        """Return what was run as a record."""
        whole = {"rig.toml": self.rig.source.text, "specimen.toml": texts[self.specimen]}
        if feedforward is not None:
            whole["feedforward.toml"] = feedforward
        return Record(np.array(self.rows), tuple(self.phases), whole, procedure, self.specimen)


@dataclass(frozen=True)
class Record:
    """A run as the identifications read one."""

    rows: Floats
    phases: tuple[SimpleNamespace, ...]
    texts: dict[str, str]
    name: str
    specimen: str
    path: Path = Path("plant.h5")
    digest: str = "ab" * 32
    simulated: bool = True
    started_utc: str = "2026-03-01T00:00:00+00:00"
    ended_utc: str = "2026-03-01T00:01:00+00:00"

    @property
    def provenance(self) -> dict[str, Any]:
        return {"rig": "full_arm", "specimen": self.specimen, "procedure": self.name}

    def channels(self) -> list[str]:
        return [name.format(i) for name in COLUMNS for i in range(1, 7)]

    def get(self, name: str, *, unit: str | None = None, kind: str | None = None) -> SimpleNamespace:
        return SimpleNamespace(values=self.rows[:, self.channels().index(name) + 1], time_s=self.rows[:, 0])

    def channel_slice(
        self, name: str, start_s: float, stop_s: float, *, unit: str | None = None, kind: str | None = None
    ) -> SimpleNamespace:
        one = self.get(name)
        use = (one.time_s >= start_s) & (one.time_s <= stop_s)
        return SimpleNamespace(values=one.values[use], time_s=one.time_s[use])


def series(file: Path) -> tuple[Motion, float]:
    """A trajectory file's motion and duration."""
    told = tomllib.loads(file.read_text(encoding="utf-8"))
    waves = 2.0 * np.pi * float(told["base_frequency"].split()[0]) * np.array(told["harmonics"])
    offset = np.array([float(joint["offset"].split()[0]) for joint in told["joints"]])
    cosine, sine = (np.array([joint[key] for joint in told["joints"]]) for key in ("cosine", "sine"))

    def motion(t: float) -> tuple[Floats, Floats, Floats]:
        c, s = np.cos(waves * t), np.sin(waves * t)
        return (
            offset + cosine @ c + sine @ s,
            (sine * waves) @ c - (cosine * waves) @ s,
            -(cosine * waves**2) @ c - (sine * waves**2) @ s,
        )

    return motion, float(told["duration"].split()[0])
