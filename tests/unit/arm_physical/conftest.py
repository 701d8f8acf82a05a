"""The full arm as its profile has it, and regressors of random states to test identifications on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.arm import arm_description, body, drivetrain, ratings, sensor_frame
from bench.identify.arm_nominal import LINK, SCALARS, NominalArm, link_matrix, link_parameters
from bench.identify.arm_payload import weight_columns
from bench.identify.arm_stretch import WRENCH
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.rigid import ArmModel
from bench.profile import ArmRig, load_rig

Floats = NDArray[np.float64]


@pytest.fixture(scope="session")
def arm_rig(repository: Path) -> ArmRig:
    rig = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(rig, ArmRig)
    return rig


@pytest.fixture(scope="session")
def description(arm_rig: ArmRig) -> ArmDescription:
    return arm_description(arm_rig)


@pytest.fixture(scope="session")
def nominal(arm_rig: ArmRig, description: ArmDescription) -> NominalArm:
    rated = ratings(arm_rig.arm)
    motors = drivetrain(arm_rig.arm).motor_inertia
    return NominalArm.of(description, motor_inertia=motors, viscous=rated.viscous, coulomb=rated.coulomb)


@pytest.fixture(scope="session")
def regressor(description: ArmDescription) -> Callable[[int, int], Floats]:
    """``regressor(states, seed)``: rows (6 states, 84) of random states."""
    model = ArmModel(description)

    def rows(states: int, seed: int) -> Floats:
        rng = np.random.default_rng(seed)
        blocks = []
        for _ in range(states):
            q, v, a = rng.normal(size=(3, 6)) * [[1.5], [1.0], [3.0]]
            scalars = [np.diag(a), np.diag(v), np.diag(np.sign(v)), np.eye(6)]
            blocks.append(np.hstack([model.regressor(q, v, a), *scalars]))
        return np.vstack(blocks)

    return rows


@pytest.fixture(scope="session")
def real_arm(nominal: NominalArm) -> Callable[[int], Floats]:
    """``real_arm(seed)``: parameters (84,) of an arm that exists, some way from the nominal one."""

    def parameters(seed: int) -> Floats:
        rng = np.random.default_rng([seed, 7])
        links = []
        for root in nominal.roots:
            half = np.eye(4) + 0.12 * link_matrix(rng.normal(size=LINK))
            links.append(link_parameters(root @ half @ half.T @ root.T))
        near = [getattr(nominal, name) * rng.uniform(0.7, 1.3, 6) for name in SCALARS[:3]]
        return np.concatenate([*links, *near, 0.1 * rng.normal(size=6)])

    return parameters


@dataclass(frozen=True)
class Column:
    """A channel of :class:`MadeRun`."""

    values: Floats
    time_s: Floats


@dataclass(frozen=True)
class MadeRun:
    """A run as the identifications see one: channels, phases, texts."""

    columns: dict[str, Column]
    phases: tuple[Any, ...]
    texts: dict[str, str]
    path: Path = Path("made.h5")

    def channels(self) -> list[str]:
        return list(self.columns)

    def channel_slice(
        self, name: str, start_s: float, stop_s: float, *, unit: str | None = None, kind: str | None = None
    ) -> Column:
        one = self.columns[name]
        use = (one.time_s >= start_s) & (one.time_s <= stop_s)
        return Column(one.values[use], one.time_s[use])


@dataclass(frozen=True)
class Mounted:
    """What :func:`made_hold` simulates: the links' and the motors' truth."""

    payload: LinkInertia | None = None
    scales: Floats = field(default_factory=lambda: np.ones(6))
    friction: Floats = field(default_factory=lambda: np.array([2.0, 3.0, 2.0, 0.6, 0.5, 0.3]))
    offset: Floats = field(default_factory=lambda: np.zeros(6))
    poses: int = 8
    noise: float = 0.02
    tare: Floats = field(default_factory=lambda: np.zeros(6))


@pytest.fixture(scope="session")
def made_hold(arm_rig: ArmRig) -> Callable[[Mounted, int], MadeRun]:
    """``made_hold(mounted, seed)``: slow crossings of random poses, torques by rigid body and sliding friction."""
    drives, rate, speed = drivetrain(arm_rig.arm), 100.0, 0.02
    sensor = arm_description(arm_rig).flange @ sensor_frame(arm_rig)

    def run(mounted: Mounted, seed: int) -> MadeRun:
        rng = np.random.default_rng([seed, 3])
        places = np.random.default_rng(5).uniform(-1.0, 1.0, (mounted.poses, 6)) * [1.5, 1.0, 0.9, 2.0, 1.5, 2.5]
        described = arm_description(arm_rig, mounted.payload)
        model = ArmModel(described, motor_inertia=drives.motor_inertia)
        tool = body(arm_rig.tool)
        held = (tool if mounted.payload is None else tool.plus(mounted.payload)).parameters()[:4]
        phases, q, tau, wrench, clock = [], [], [], [], 0.0
        steps = np.arange(-0.5, 0.5, 1.0 / rate) * speed
        for number, place in enumerate(places, start=1):
            for way in (1.0, -1.0):
                rows = place + way * steps[:, None]
                torque = model.gravity_rows(rows) + way * mounted.friction + mounted.offset
                q.append(rows)
                tau.append((torque + mounted.noise * rng.normal(size=rows.shape)) / mounted.scales)
                turns = model.placement_rows(rows, 5)[:, :3, :3] @ sensor[:3, :3]
                free = np.einsum("kji,j->ki", turns, described.gravity)
                weights = np.array([weight_columns(one) @ held for one in free]) + mounted.tare
                wrench.append(weights + rng.normal(size=(len(rows), 6)) * [*[0.05] * 3, *[0.002] * 3])
                end = clock + (len(rows) - 1) / rate
                phases.append(SimpleNamespace(name="crossing", replicate=number, start_s=clock - 1e-6,
                                              end_s=end + 1e-6, angular_speed_rad_s=way * speed))  # fmt: skip
                clock += len(rows) / rate
        position, torques, wrenches = (np.concatenate(one) for one in (q, tau, wrench))
        time = np.arange(len(position)) / rate
        shaft, current = drives.motor_angle(position), drives.current(torques)
        columns = {f"motor_{i + 1}_position": Column(shaft[:, i], time) for i in range(6)}
        columns |= {f"motor_{i + 1}_current": Column(current[:, i], time) for i in range(6)}
        columns |= {name: Column(wrenches[:, i], time) for i, name in enumerate(WRENCH)}
        return MadeRun(columns, tuple(phases), {"rig.toml": arm_rig.source.text}, arm_rig.source.path)

    return run


@pytest.fixture(scope="session")
def mounted() -> type[Mounted]:
    return Mounted
