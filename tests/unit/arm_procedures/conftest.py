"""A rigid arm to try procedures on: Pinocchio's dynamics, friction, a springy surface; no drives, no wires."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.arm import arm_model, body, sensor_frame
from bench.models.arm_description import LinkInertia
from bench.models.rigid import ArmModel
from bench.procedures.arm_tick import ArmCommand, ArmLoopView, ArmTick
from bench.profile import ArmPhantom, ArmRig, load_procedure, load_rig, load_specimen
from bench.safety.arm_watch import WristWatch

Floats = NDArray[np.float64]
PERIOD_S, PARTS = 0.004, 2
MODULES = {
    "arm_excitation": "bench.procedures.arm_excitation",
    "payload_hold": "bench.procedures.arm_payload_hold",
    "arm_tracking": "bench.procedures.arm_tracking",
    "wrench_check": "bench.procedures.arm_wrench_check",
    "approach_touch": "bench.procedures.arm_approach_touch",
}
#: Friction as a share of what the profile states: the controller's nominal figures are wrong by that.
FRICTION_SHARE = 0.8
#: Below this speed friction is not that of sliding [rad/s].
SLIDES = 2e-3


@dataclass(frozen=True)
class Truth:
    """What is simulated; ``wired`` says which real joint a servo moves, ``sense`` which way, ``felt`` (3, 3) what the
    wrist sensor makes of a force in its frame."""

    model: ArmModel
    coulomb: Floats
    viscous: Floats
    mount: Floats
    carried_kg: float
    stated: LinkInertia
    wired: tuple[int, ...]
    sense: Floats
    blocked: int | None = None
    surface: ArmPhantom | None = None
    surface_at_m: float = 0.0
    felt: Floats = field(default_factory=lambda: np.eye(3))


class RigidArm:
    """Runs controllers as the loop does, and keeps phases, events and what was wanted."""

    period_s = PERIOD_S

    def __init__(self, rig: ArmRig, truth: Truth, start: Sequence[float]) -> None:
        self.rig, self.truth = rig, truth
        self.n = truth.model.n
        self.q, self.v = np.array(start, dtype=np.float64), np.zeros(self.n)
        self.time_s = 0.0
        self.pressed = 0.0
        self.phases: list[tuple[str, int, float, float, float]] = []
        self.events: list[tuple[str, str, str]] = []
        self.rows: list[tuple[float, Floats, Floats, Floats, Floats, Floats, Floats, Floats, float]] = []
        self.parked = self.every_tick = False
        self.oldest_s = 0.0
        self._torque = np.zeros(self.n)
        self._tare = self._wrench()
        limits = SimpleNamespace(force_n=60.0, wrist_torque_nm=6.0)
        watch = WristWatch(truth.model, sensor_frame(rig), [truth.stated], limits, 200.0)  # type: ignore[arg-type]
        watch.tare(self.q, self._tare)
        self.channels = SimpleNamespace(watch=watch)

    def force_ticks(self, on: bool) -> None:
        self.every_tick = on

    def park(self) -> None:
        self.parked = True

    def phase(self, name: str, replicate: int, speed: float, start_s: float, end_s: float) -> None:
        self.phases.append((name, replicate, speed, start_s, end_s))

    def event(self, severity: str, code: str, message: str) -> None:
        self.events.append((severity, code, message))

    def run(self, controller: Callable[[Any, Any], bool | None], duration_s: float, *, text: str) -> ArmLoopView:
        assert not self.parked
        wired, sense = list(self.truth.wired), self.truth.sense
        command = ArmCommand.at((sense * self.q[wired]).tolist())
        first = len(self.rows)
        for _ in range(round(duration_s / PERIOD_S)):
            wrench = self._wrench() - self._tare
            tick = ArmTick(
                len(self.rows), self.time_s, (sense * self.q[wired]).tolist(), (sense * self.v[wired]).tolist(),
                (sense * self._torque[wired]).tolist(), wrench.tolist(),
                self.oldest_s if self.every_tick else 0.05,
            )  # fmt: skip
            done = controller(tick, command)
            parts = [np.array(part) for part in (
                command.desired_position, command.desired_velocity, command.torque, command.feedback, command.friction
            )]  # fmt: skip
            self.rows.append((self.time_s, np.array(tick.position), *parts, wrench, self.pressed))
            self._torque[wired] = sense * parts[2]
            self._step()
            if done:
                break
        return self.view(first, len(self.rows))

    def view(self, first: int, last: int) -> ArmLoopView:
        rows = self.rows[first:last]
        time = np.array([row[0] for row in rows])
        position, wanted, speed, torque = (np.array([row[k] for row in rows]) for k in (1, 2, 3, 4))
        wrench = np.array([row[7] for row in rows])
        return ArmLoopView(
            float(time[0]), float(time[-1]), time, position, speed, torque, wanted, time - 1e-3, wrench
        )  # fmt: skip

    def during(self, phase: tuple[str, int, float, float, float]) -> SimpleNamespace:
        rows = [row for row in self.rows if phase[3] <= row[0] <= phase[4]]
        names = ("time", "position", "desired", "speed", "torque", "feedback", "friction", "wrench", "pressed")
        return SimpleNamespace(
            **{name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}
        )

    def _step(self) -> None:
        truth, h = self.truth, PERIOD_S / PARTS
        mass = truth.model.mass_matrix(self.q)
        for _ in range(PARTS):
            sliding = np.tanh(self.v / SLIDES)
            push = self._torque - truth.coulomb * sliding - truth.viscous * self.v - truth.model.bias(self.q, self.v)
            if truth.surface is not None:
                push += self._touched(truth.surface)
            # friction at rest is stiff: its slope counts at the end of the step
            slope = truth.coulomb / SLIDES * (1.0 - sliding**2) + truth.viscous
            a = np.linalg.solve(mass + h * np.diag(slope), push)
            if truth.blocked is not None:
                a[truth.blocked] = self.v[truth.blocked] = 0.0
            self.v = self.v + h * a
            self.q = self.q + h * self.v
        self.time_s += PERIOD_S

    def _touched(self, surface: ArmPhantom) -> Floats:
        normal, point = np.array(surface.normal), np.array([length.to("m") for length in surface.surface])
        depth = -float((self.truth.model.position(self.q) - point) @ normal) - self.truth.surface_at_m
        self.pressed = max(0.0, surface.nominal_stiffness.to("N/m") * depth)
        return self.truth.model.jacobian(self.q)[:3].T @ (normal * self.pressed)

    def _wrench(self) -> Floats:
        axes = self.truth.model.placement(self.q, self.n - 1)[:3, :3] @ self.truth.mount
        force = self.truth.carried_kg * self.truth.model.description.gravity
        if self.truth.surface is not None:
            force = force + np.array(self.truth.surface.normal) * self.pressed
        return np.concatenate([self.truth.felt @ axes.T @ force, np.zeros(3)])


@pytest.fixture(scope="session")
def rig(repository: Path) -> ArmRig:
    found = load_rig(repository / "profiles/rigs/full_arm.toml")
    assert isinstance(found, ArmRig)
    return found


@pytest.fixture(scope="session")
def procedure(repository: Path) -> Callable[..., Any]:
    """``procedure("arm_tracking", speed=…)``: as in the profiles, with fields replaced."""

    def named(name: str, **changes: Any) -> Any:
        found = load_procedure(repository / f"profiles/procedures/{name}.toml")
        return found.model_copy(update=changes)

    return named


@pytest.fixture(scope="session")
def specimen(repository: Path) -> Callable[[str], Any]:
    return lambda name: load_specimen(repository / f"profiles/specimens/{name}.toml")


@pytest.fixture(scope="session")
def planned(rig: ArmRig, procedure: Callable[..., Any], specimen: Callable[[str], Any]) -> Callable[..., Any]:
    """``planned("arm_tracking", "bare_tool", feedforward=…, **changes)``: the plan of a procedure."""

    def made(name: str, mounted: str = "bare_tool", feedforward: Any = None, **changes: Any) -> Any:
        profile = procedure(name, **changes)
        return import_module(MODULES[profile.procedure]).plan(rig, profile, specimen(mounted), feedforward)

    return made


@pytest.fixture
def rigid(rig: ArmRig, specimen: Callable[[str], Any]) -> Callable[..., RigidArm]:
    """``rigid("payload_1kg", start=…, wired=…)``: the nominal arm with what is mounted, rubbing less than stated."""

    def made(mounted: str = "bare_tool", *, start: Sequence[float] | None = None, **changes: Any) -> RigidArm:
        load = specimen(mounted)
        joints = rig.arm.joints
        carried = rig.tool.mass.to("kg") + (load.body.mass.to("kg") if load.kind == "payload" else 0.0)
        model = arm_model(rig, load)
        truth = Truth(
            model,
            FRICTION_SHARE * np.array([joint.number("coulomb") or 0.0 for joint in joints]),
            FRICTION_SHARE * np.array([joint.number("viscous") or 0.0 for joint in joints]),
            model.description.flange[:3, :3] @ sensor_frame(rig)[:3, :3],
            carried,
            body(rig.tool).plus(body(load.body)) if load.kind == "payload" else body(rig.tool),
            tuple(range(len(joints))),
            np.ones(len(joints)),
            surface=load if isinstance(load, ArmPhantom) else None,
        )
        pose = [math.radians(x) for x in (0, -20, 10, 0, 60, 0)] if start is None else start
        return RigidArm(rig, dataclasses.replace(truth, **changes), pose)

    return made


@pytest.fixture
def carry_out() -> Callable[..., None]:
    """``carry_out(name, arm, plan)``: run a procedure on a rigid arm."""

    def run(name: str, arm: RigidArm, plan: Any) -> None:
        import_module(MODULES[name]).run(SimpleNamespace(rig=arm.rig), arm, plan)

    return run
