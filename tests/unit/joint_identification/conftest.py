"""A joint that obeys its law to the last digit, and an archive of its run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Joint:
    """Truth, joint-referred SI; a motion is a sum of sines, so its derivatives are known."""

    rate_hz: float = 1000.0
    torque_scale: float = 0.96
    motor_inertia: float = 0.2
    viscous: float = 0.8
    coulomb: float = 1.2
    offset: float = 0.05
    link_inertia: float = 0.4
    gravity_moment: float = 2.5
    gravity_phase: float = 0.1
    stiffness: float = 4500.0
    torque_zero: float = 0.02
    base_hz: float = 0.1
    amplitudes: tuple[float, ...] = (0.6, 0.25, 0.12, 0.06)
    phases: tuple[float, ...] = (0.3, 1.1, 2.9, 4.0)

    def motion(self, time_s: Floats) -> tuple[Floats, Floats, Floats]:
        """Angle of the link and its two derivatives."""
        q, v, a = np.zeros((3, len(time_s)))
        for k, (size, phase) in enumerate(zip(self.amplitudes, self.phases, strict=True), start=1):
            w = 2.0 * np.pi * self.base_hz * k
            q += size * np.sin(w * time_s + phase)
            v += size * w * np.cos(w * time_s + phase)
            a -= size * w**2 * np.sin(w * time_s + phase)
        return q, v, a

    def torque(self, time_s: Floats) -> Floats:
        """Torque on the link."""
        q, _, a = self.motion(time_s)
        return self.link_inertia * a + self.gravity_moment * np.sin(q - self.gravity_phase)

    def motor(self, time_s: Floats) -> Floats:
        """Joint-referred angle of the motor: the gear gives way in proportion to the torque."""
        return self.motion(time_s)[0] + self.torque(time_s) / self.stiffness

    def command(self, time_s: Floats) -> Floats:
        """Joint-referred torque the drive was told, for a stiff gear."""
        _, v, a = self.motion(time_s)
        friction = self.coulomb * np.sign(v) + self.viscous * v + self.offset
        return (self.torque(time_s) + self.motor_inertia * a + friction) / self.torque_scale


@pytest.fixture
def joint() -> Joint:
    return Joint()


@pytest.fixture
def other_path(joint: Joint) -> Joint:
    """The same joint on another trajectory."""
    return replace(joint, base_hz=0.13, amplitudes=(0.5, 0.3, 0.1), phases=(2.0, 0.4, 5.1))


@dataclass(frozen=True)
class Recorded:
    """What a rig records, with the clocks apart by ``offset_s`` (DAQ time = drive time + offset)."""

    joint: Joint
    seconds: float = 30.0
    offset_s: float = 0.0037
    drift: float = 0.0
    seed: int = 5
    noise_rad: float = 5e-6
    hysteresis_rad: float = 1e-4
    gear_ratio: float = 100.0
    motor_factor: float = 1.0
    phases: tuple[tuple[str, float, float], ...] = field(default=())

    def drive_times(self) -> Floats:
        """Ticks of 2 ms that come up to 0.2 ms late."""
        late = np.random.default_rng(self.seed).uniform(0.0, 2e-4, round(self.seconds * 500.0))
        return np.arange(len(late)) / 500.0 + late

    def daq_of(self, drive_s: Floats) -> Floats:
        return drive_s + self.offset_s + self.drift * (drive_s - 0.5 * self.seconds)

    def rotor(self, drive_s: Floats) -> Floats:
        """Rotor angle at drive times, with hysteresis of the gear."""
        at = self.daq_of(drive_s)
        behind = self.hysteresis_rad * np.sign(self.joint.motion(at)[1])
        noise = np.random.default_rng(self.seed + 1).normal(0.0, self.noise_rad, len(at))
        return self.motor_factor * self.gear_ratio * (self.joint.motor(at) + behind + noise)


@pytest.fixture
def recorded(joint: Joint) -> Callable[..., Recorded]:
    return lambda **changes: Recorded(joint, **changes)


@pytest.fixture
def joint_run(tmp_path: Path, repository: Path) -> Callable[[Recorded], Path]:
    """Return a function that archives a record the way a run of the single-joint rig does."""

    def write(made: Recorded) -> Path:
        rig = (repository / "profiles" / "rigs" / "single_joint.toml").read_text(encoding="utf-8")
        provenance = Provenance(
            "Ada", "pendulum_arm", "fourier_excitation", "single_joint", datetime(2031, 5, 6, tzinfo=UTC), "mock", True,
            seed=1, texts={"rig.toml": rig},
        )  # fmt: skip
        groups = (
            GroupSpec("daq", (DatasetSpec("angle", "rad", "angle", ("joint_angle",)),), rate_hz=1000.0, block=1000),
            GroupSpec("torque", (DatasetSpec("torque", "N.m", "torque", ("joint_torque",)),), rate_hz=1e3, block=1000),
            GroupSpec(
                "drive",
                (
                    DatasetSpec("angles", "rad", "angle", ("motor_angle", "desired_angle")),
                    DatasetSpec("torques", "N.m", "torque", ("command_torque",)),
                    DatasetSpec("temperatures", "degC", "temperature", ("drive_temperature",)),
                ),
                block=500,
            ),
        )  # fmt: skip
        time, ticks = np.arange(round(made.seconds * 1000.0)) / 1000.0, made.drive_times()
        at = made.daq_of(ticks)
        with RunWriter.create(tmp_path, f"joint_{made.seed}", provenance, groups) as writer:
            writer.append("daq", {"angle": made.joint.motion(time)[0][:, None]}, time)
            writer.append("torque", {"torque": made.joint.torque(time)[:, None]}, time)
            wanted = made.joint.motion(at)[0]
            writer.append(
                "drive",
                {
                    "angles": np.column_stack([made.rotor(ticks), wanted]),
                    "torques": made.joint.command(at)[:, None] / made.gear_ratio,
                    "temperatures": np.full((len(at), 1), 31.0),
                },
                ticks,
            )
            for replicate, (name, start, end) in enumerate(made.phases or (("train", 0.0, made.seconds),)):
                writer.phase(name, replicate, float("nan"), start, end)
            return writer.close("COMPLETE")

    return write
