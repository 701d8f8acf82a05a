"""Motions of the full arm, and torques that another engine than the bench's makes of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.arm import arm_description, ratings
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_record import ArmRecord
from bench.models.arm_description import ArmDescription
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, load_rig

Floats = NDArray[np.float64]

pytest.importorskip("pinocchio", reason="extra `arm` is not installed")
MOTORS = np.array([0.4, 0.6, 0.3, 0.1, 0.08, 0.05])
VISCOUS = np.array([3.0, 4.0, 2.0, 1.0, 0.6, 0.4])
COULOMB = np.array([2.0, 3.0, 2.0, 0.8, 0.6, 0.4])
OFFSET = np.array([0.1, -0.2, 0.15, 0.05, -0.04, 0.02])


@dataclass(frozen=True)
class Motion:
    """Sines of all joints, some a joint, exactly differentiated."""

    size: Floats
    turn: Floats
    phase: Floats

    @classmethod
    def of(cls, seed: int, joints: int = 6, *, fastest_hz: float = 0.9) -> Motion:
        rng = np.random.default_rng(seed)
        size = rng.uniform(0.1, 0.5, (joints, 5))
        return cls(size, 2.0 * np.pi * rng.uniform(0.1, fastest_hz, (joints, 5)), rng.uniform(0.0, 6.0, (joints, 5)))

    def at(self, time_s: Floats) -> tuple[Floats, Floats, Floats]:
        angle = time_s[:, None, None] * self.turn + self.phase
        return (
            np.sum(self.size * np.sin(angle), axis=2),
            np.sum(self.size * self.turn * np.cos(angle), axis=2),
            -np.sum(self.size * self.turn**2 * np.sin(angle), axis=2),
        )


@dataclass(frozen=True)
class Bed:
    """The full arm with what its identification should find."""

    description: ArmDescription
    base: BaseParameters
    rated: Floats

    @property
    def standard(self) -> Floats:
        """What is simulated, in the order of the law's standard parameters."""
        own = np.concatenate([self.description.parameters(), MOTORS, VISCOUS, COULOMB, OFFSET])
        return np.concatenate([own, np.zeros(len(self.base.law.names) - len(own))])

    @property
    def truth(self) -> Floats:
        return self.base.values(self.standard)

    def friction(self, v: Floats, a: Floats) -> Floats:
        return MOTORS * a + VISCOUS * v + COULOMB * np.sign(v) + OFFSET

    def record(self, seed: int, *, seconds: float = 8.0, rate: float = 250.0, noise: float = 0.0) -> ArmRecord:
        """A motion with the bench's own torques; noise hangs together for a twentieth of a second."""
        time = np.arange(round(seconds * rate)) / rate
        q, v, a = Motion.of(seed).at(time)
        torque = self.base.law.model.inverse_dynamics_rows(q, v, a) + self.friction(v, a)
        if noise:
            rng = np.random.default_rng([seed, 1])
            white = rng.normal(size=torque.shape)
            keep = np.exp(-20.0 / rate)
            for i in range(1, len(white)):
                white[i] = keep * white[i - 1] + np.sqrt(1.0 - keep**2) * white[i]
            torque = torque + noise * self.rated * white
        return ArmRecord(time, q, torque, rate, self.description.names, self.rated, f"seed {seed}")


@pytest.fixture(scope="session")
def arm_rig(repository: Path) -> ArmRig:
    rig = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(rig, ArmRig)
    return rig


@pytest.fixture(scope="session")
def bed(arm_rig: ArmRig) -> Bed:
    description = arm_description(arm_rig)
    base = BaseParameters.of(ArmLaw(ArmModel(description)))
    return Bed(description, base, ratings(arm_rig.arm).rated_torque)


@pytest.fixture(scope="session")
def motion() -> type[Motion]:
    return Motion


def _quaternion(turn: Floats) -> str:
    from scipy.spatial.transform import Rotation

    x, y, z, w = Rotation.from_matrix(turn).as_quat()
    return f"{w:.17g} {x:.17g} {y:.17g} {z:.17g}"


@pytest.fixture(scope="session")
def other_engine() -> Callable[[ArmDescription], Callable[[Floats, Floats, Floats], Floats]]:
    """``other_engine(description)(q, v, a)``: torques (k, n) by MuJoCo's inverse dynamics."""
    mujoco: Any = pytest.importorskip("mujoco", reason="extra `arm` is not installed")

    def build(description: ArmDescription) -> Callable[[Floats, Floats, Floats], Floats]:
        opened = ""
        for number, joint in enumerate(description.joints):
            link, place = joint.link, joint.placement
            i = link.inertia
            full = (i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])
            opened += (
                f'<body name="b{number}" pos="{" ".join(f"{x:.17g}" for x in place[:3, 3])}" '
                f'quat="{_quaternion(place[:3, :3])}"><joint type="hinge" axis="0 0 1"/>'
                f'<inertial mass="{link.mass:.17g}" pos="{" ".join(f"{x:.17g}" for x in link.centre)}" '
                f'fullinertia="{" ".join(f"{x:.17g}" for x in full)}"/>'
            )
        model = mujoco.MjModel.from_xml_string(
            '<mujoco><compiler angle="radian" autolimits="false" boundmass="0" boundinertia="0"/>'
            f'<option gravity="{" ".join(f"{x:.17g}" for x in description.gravity)}"/>'
            f"<worldbody>{opened}{'</body>' * description.size}</worldbody></mujoco>"
        )
        data = mujoco.MjData(model)

        def torques(q: Floats, v: Floats, a: Floats) -> Floats:
            out = np.empty_like(q)
            for k in range(len(q)):
                data.qpos[:], data.qvel[:], data.qacc[:] = q[k], v[k], a[k]
                mujoco.mj_inverse(model, data)
                out[k] = data.qfrc_inverse
            return out

        return torques

    return build
