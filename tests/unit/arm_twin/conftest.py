"""A small arm of one axis, the full arm of the profiles, and a world that is moved by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.models.arm_description import ArmDescription, ArmJoint, LinkInertia
from bench.profile import load_rig, load_twin
from bench.profile.rig_arm import ArmRig
from bench.profile.twin_arm import ArmTwin
from bench.twin.plant.arm import Arm
from bench.twin.plant.arm_truth import ArmTruth, AxisTruth
from bench.twin.plant.build_arm import arm_truth
from bench.twin.world import SimWorld

pytest.importorskip("mujoco")
Floats = NDArray[np.float64]
Build = Callable[..., ArmTruth]
MS = 1_000_000


@pytest.fixture(scope="session")
def rig(repository: Path) -> ArmRig:
    found = load_rig(repository / "profiles" / "rigs" / "full_arm.toml")
    assert isinstance(found, ArmRig)
    return found


@pytest.fixture(scope="session")
def twins(repository: Path) -> dict[str, ArmTwin]:
    found = {}
    for name in ("full_arm", "full_arm_ideal"):
        twin = load_twin(repository / "profiles" / "twins" / f"{name}.toml")
        assert isinstance(twin, ArmTwin)
        found[name] = twin
    return found


@pytest.fixture(scope="session")
def build(rig: ArmRig, twins: dict[str, ArmTwin]) -> Build:
    """``build(twin="full_arm", specimen="bare_tool", seed=1)``."""

    def made(twin: str = "full_arm", specimen: str = "bare_tool", seed: int = 1) -> ArmTruth:
        return arm_truth(rig, twins[twin], specimen, seed)

    return made


@pytest.fixture(scope="session")
def one_axis() -> Callable[..., ArmTruth]:
    """``one_axis(axis, upright=True)``: an arm of one link."""
    return _one_axis


@pytest.fixture(scope="session")
def smooth() -> Callable[..., ArmTruth]:
    """``smooth(truth, **changes)``: the arm without friction and ripple."""
    return _smooth


def _one_axis(axis: AxisTruth, *, upright: bool = True, mass: float = 2.0, inertia: float = 0.1) -> ArmTruth:
    """One link on an upright axis, where gravity does nothing, or on a level one."""
    placement = np.eye(4)
    if not upright:
        placement[:3, :3] = [[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]]
    link = LinkInertia(mass, np.array([0.2, 0.0, 0.0]), np.diag([inertia, inertia, inertia]))
    arm = ArmDescription("pendulum", (ArmJoint("one", "revolute", placement, link),))
    return ArmTruth(arm, (axis,), np.eye(1), np.zeros(1), tip=np.array([0.3, 0.0, 0.0]))


def _smooth(truth: ArmTruth, **changes: float) -> ArmTruth:
    """The arm without friction and ripple, and what else is changed of every axis."""
    axes = tuple(
        replace(
            axis, coulomb=0.0, stribeck_excess=0.0, viscous=0.0, offset=0.0, bristle_damping=0.0, ripple=0.0, **changes
        )
        for axis in truth.axes
    )
    return replace(truth, axes=axes)


class Bench:
    """A world with an arm in it; time moves when it is told to."""

    def __init__(self, truth: ArmTruth) -> None:
        self.world = SimWorld(tick_ns=MS)
        self.arm = Arm(self.world, truth)

    def release(self) -> None:
        """Power on, brakes open."""
        with self.world.lock:
            self.arm.set_power(True)
            self.arm.release_brakes(True)
        self.to(self.world.now_ns * 1e-9 + self.arm.truth.brake_time_s + 1e-3)

    def to(self, time_s: float) -> None:
        with self.world.lock:
            self.world.move_to(round(time_s * 1e9))
            self.arm.catch_up()

    def drive(self, torque: Sequence[float]) -> None:
        """Currents that make these true axis torques."""
        with self.world.lock:
            self.arm.command_currents(
                [u / axis.torque_per_current for u, axis in zip(torque, self.arm.truth.axes, strict=True)]
            )


@pytest.fixture
def bench() -> Callable[[ArmTruth], Bench]:
    return Bench
