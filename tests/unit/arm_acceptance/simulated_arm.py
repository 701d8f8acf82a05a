"""Archives of a simulated arm whose links, friction and payload are known."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.arm import arm_description, body, drivetrain, ratings, sensor_frame
from bench.arm_feedforward import ArmFriction
from bench.errors import ArchiveError
from bench.identify.arm_export import Reach, assemble
from bench.identify.arm_nominal import NominalArm
from bench.identify.arm_payload import weight_columns
from bench.identify.arm_physical import PhysicalFit
from bench.identify.joint_runs import Origin
from bench.instruments.ati_file import AtiCalibration
from bench.models.arm_description import LinkInertia
from bench.models.fourier_path import FourierPath, at_rest
from bench.models.rigid import ArmModel
from bench.procedures.overrides import with_overrides
from bench.profile import (
    ArmRig,
    Payload,
    ProcedureProfile,
    parse_profile,
)

Floats = NDArray[np.float64]
RATE = 100.0
SPEED = 0.02
#: Between two phases nothing was recorded for so long [s]; a joint stands this far from where it is wanted [rad].
GAP_S, LAG_RAD = 0.5, 3e-4
#: Forces of the levels and of a touch [N].
LEVELS, TOUCH_N = (5.0, 10.0, 20.0), 10.0
#: What a series turns about [rad].
MIDDLE = np.array([0.0, -0.2, 0.2, 0.0, 0.5, 0.0])
#: Of every gauge [V], and names of the archived trajectories.
ZERO_V = 0.25
TRAJECTORIES = {"train.toml": "trajectory.toml", "hold_out.toml": "hold_out_trajectory.toml"}
CAL = "calibration/wrist_ft90002.cal"
STARTED = datetime(2026, 3, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Part:
    """One phase of a simulated run; rows (k, n), forces (k,) along the base's z."""

    name: str
    replicate: int
    speed: float
    position: Floats
    velocity: Floats
    fed: Floats
    friction: Floats
    pressed: Floats | None = None
    acceleration: Floats | None = None


Phased = tuple[Part, float, float]


def _due(part: Part) -> float:
    """The force [N] that is fed forward in a part."""
    if part.name == "press":
        return LEVELS[(part.replicate - 1) % len(LEVELS)]
    return TOUCH_N if part.name == "with_switch" else 0.0


@dataclass(frozen=True)
class Truth:
    """The arm that is simulated."""

    payload: LinkInertia | None = None
    level: Floats = field(default_factory=lambda: np.array([2.4, 3.6, 2.4, 0.8, 0.6, 0.36]))
    noise: float = 0.01
    force_noise: float = 0.02


class SimulatedArm:
    """Writes archives of the full arm."""

    def __init__(self, rig: ArmRig, results: Path, texts: dict[str, str]) -> None:
        self.rig, self.results, self.texts = rig, results, texts
        self.drives = drivetrain(rig.arm)
        self.names = [joint.name for joint in rig.arm.joints]
        self.rated = ratings(rig.arm).rated_torque
        self.bare = ArmModel(arm_description(rig), motor_inertia=self.drives.motor_inertia)
        path = rig.calibration_path()
        assert path is not None
        self.calibration = path.read_text(encoding="utf-8")
        self.matrix = AtiCalibration.read(path).matrix

    @property
    def rig_text(self) -> str:
        """The rig's profile with a loop and an acquisition of :data:`RATE`."""
        text = self.rig.source.text.replace("max_missed = 10", "max_missed = 5")
        return text.replace('"250 Hz"', f'"{RATE} Hz"').replace('"1 kHz"', f'"{RATE} Hz"')

    def friction(self, level: Floats) -> ArmFriction:
        zero = np.zeros(6)
        return ArmFriction(level, zero, zero, np.ones(6), zero, zero * np.nan, zero * np.nan)

    def feedforward_text(self, level: Floats | None = None, **changes: Any) -> str:
        """The identified arm as a file: nominal links, Coulomb friction of ``level``."""
        nominal = NominalArm.of(arm_description(self.rig), motor_inertia=self.drives.motor_inertia)
        coulomb = Truth().level if level is None else level
        parameters = np.concatenate([nominal.parameters(84)[:66], np.zeros(6), coulomb, np.zeros(6)])
        physical = PhysicalFit(
            tuple(self.names), parameters, np.ones((6, 4)), True, 0.0, 0.01, 0.01, (), 0, "Solved", 1
        )  # fmt: skip
        reach = Reach(
            np.full(6, -2.0), np.full(6, 2.0), np.full(6, 0.01), np.full(6, 2.0),
            changes.get("coldest", 24.0), changes.get("warmest", 27.0),
        )  # fmt: skip
        simulated = changes.get("simulated", True)
        origin = Origin("x.h5", "arm_excitation", "ab" * 32, simulated, "full_arm", "bare_tool", None,
                        changes.get("recorded", "2026-02-03T09:30:00Z"))  # fmt: skip
        return assemble(physical, self.rig, reach=reach, sources=[origin]).text

    def crossing(self, number: int, place: Floats, moves: Sequence[int], way: float, seconds: float = 1.2) -> Part:
        """A slow crossing of a pose by some joints; friction fed forward is filled in by :meth:`write`."""
        time = np.arange(0.0, seconds, 1.0 / RATE) - 0.5 * seconds
        turning = np.isin(np.arange(6), moves).astype(np.float64)
        position = place + way * SPEED * time[:, None] * turning
        velocity = np.broadcast_to(way * SPEED * turning, position.shape)
        nothing = np.zeros_like(position)
        return Part("crossing", number, way * SPEED, position, velocity, nothing, nothing)

    def tracking(self, fed: Floats, *, segment: str = "compensated", replicates: int = 1) -> list[Part]:
        """Every joint both ways at the slow speed; ``fed`` (6,) Coulomb friction is compensated."""
        place, parts = np.array([0.1, -0.3, 0.2, 0.1, 0.8, 0.0]), []
        law = self.friction(fed if segment == "compensated" else np.zeros(6))
        for joint in range(6):
            for replicate in range(replicates):
                for k, way in enumerate((1.0, -1.0)):
                    one = self.crossing(10 * (joint + 1) + 2 * replicate + k, place, [joint], way)
                    friction = law.torque(one.velocity)
                    fed_forward = self.bare.gravity_rows(one.position) + friction
                    parts.append(replace(one, name=segment, fed=fed_forward, friction=friction))
        return parts

    def hold(self, poses: int = 8) -> list[Part]:
        """Slow crossings of random poses by all joints."""
        places = np.random.default_rng(5).uniform(-1.0, 1.0, (poses, 6)) * [1.5, 1.0, 0.9, 2.0, 1.5, 2.5]
        return [
            self.crossing(number, place, range(6), way)
            for number, place in enumerate(places, start=1)
            for way in (1.0, -1.0)
        ]

    def series(self, name: str, seed: int, *, seconds: float = 12.0, size: float = 1.0) -> Part:
        """A Fourier series of all joints."""
        rng, harmonics = np.random.default_rng([seed, 4]), tuple(range(1, 7))
        phase, amplitude = rng.uniform(0.0, 6.28, (6, 6)), rng.uniform(0.2, 1.0, (6, 6)) / np.array(harmonics)
        amplitude = size * amplitude * np.array([1.0, 0.5, 0.6, 1.2, 1.2, 1.5])[:, None]
        cosine, sine = at_rest(harmonics, amplitude * np.sin(phase), amplitude * np.cos(phase))
        self.texts[f"{name}.toml"] = self._trajectory(seconds, cosine, sine)
        path = FourierPath(1.0 / seconds, harmonics, MIDDLE, cosine, sine, 1)
        position, velocity, acceleration = path.sample(np.arange(0.0, seconds, 1.0 / RATE))
        nothing = np.zeros_like(position)
        return Part(name, 1, np.nan, position, velocity, nothing, nothing, acceleration=acceleration)

    def _trajectory(self, seconds: float, cosine: Floats, sine: Floats) -> str:
        """The file of a series: coefficients (joints, 6) about :data:`MIDDLE`."""
        text = self.texts["full_arm_train"]
        text = re.sub(r'base_frequency = "[^"]*"', f'base_frequency = "{1.0 / seconds!r} Hz"', text)
        text = re.sub(r'duration = "[^"]*"', f'duration = "{seconds!r} s"', text)
        text = re.sub(r"harmonics = \[[^\]]*\]", "harmonics = [1, 2, 3, 4, 5, 6]", text)
        for key, columns in (("cosine", cosine), ("sine", sine)):
            rows = iter(columns.tolist())
            text = re.sub(rf"\n{key} = \[[^\]]*\]", lambda _, key=key, rows=rows: f"\n{key} = {next(rows)}", text)
        middle = iter(MIDDLE.tolist())
        return re.sub(r'\noffset = "[^"]*"', lambda _: f'\noffset = "{next(middle)} rad"', text)

    def procedure_text(self, name: str, parts: Sequence[Part]) -> str:
        """The procedure that makes these parts."""
        count = {part.name: sum(one.name == part.name for one in parts) for part in parts}
        places = {part.replicate: part.position.mean(axis=0).tolist() for part in parts if part.name == "crossing"}
        levels = max(2, count.get("press", 2))
        given: dict[str, dict[str, object]] = {
            "arm_tracking": {"travel": "0.024 rad", "run_in": "0 s"},
            "payload_hold": {
                "crossing_angle": "0.024 rad", "crossing_speed": f"{SPEED} rad/s",
                "poses": [[f"{x!r} rad" for x in place] for _, place in sorted(places.items())],
            },
            "wrench_check": {"forces": [f"{x} N" for x in LEVELS[:levels]], "hold_time": "1.2 s"},
            "approach_touch": {"replicates": max(part.replicate for part in parts), "hold_time": "0.3 s"},
        }  # fmt: skip
        text = self.texts.get(name, name)
        if name not in given or name not in self.texts:
            return text
        profile, problems = parse_profile(text, Path(f"{name}.toml"))
        assert isinstance(profile, ProcedureProfile), problems
        return with_overrides(profile, given[name]).source.text

    def pressing(self, forces: Sequence[float], *, name: str = "press", creep: float = 0.004) -> list[Part]:
        """Steady forces downwards on a level surface, joints creeping."""
        place, parts = np.array([0.0, 0.5, 0.2, 0.0, 0.9, 0.0]), []
        for level, force in enumerate(forces, start=1):
            one = self.crossing(level, place, range(6), creep / SPEED)
            parts.append(replace(one, name=name, pressed=np.full(len(one.position), force)))
        return parts

    def touch(self, name: str, replicate: int, force: Floats) -> Part:
        """A touch whose contact force over time is given."""
        place = np.array([0.0, 0.5, 0.2, 0.0, 0.9, 0.0])
        position = np.repeat(place[None, :], len(force), axis=0)
        nothing = np.zeros_like(position)
        return Part(name, replicate, np.nan, position, nothing, nothing, nothing, force)

    def record(
        self,
        parts: Sequence[Part],
        truth: Truth | None = None,
        *,
        procedure: str,
        specimen: str,
        feedforward: str | None = None,
        change: Callable[[dict[str, Floats]], None] = lambda columns: None,
        criteria: str = "",
        temperature: float = 25.0,
        provenance: dict[str, str] | None = None,
        texts: dict[str, str] | None = None,
        rename: Callable[[list[Phased]], list[Phased]] = lambda phases: phases,
    ) -> Recorded:
        """Return a run in memory; ``change`` may spoil its columns (by name) before."""
        truth = Truth() if truth is None else truth
        stated = parse_profile(self.texts[specimen], Path("specimen.toml"))[0]
        load = body(stated.body) if isinstance(stated, Payload) and stated.body.mass.magnitude > 0.0 else None
        columns, phases = self.columns(parts, truth, load)
        columns["temperature"] = np.repeat(np.full((1, 6), temperature), 2, axis=0)
        change(columns)
        held = {
            "rig.toml": self.rig_text,
            CAL: self.calibration,
            "procedure.toml": self.procedure_text(procedure, parts),
            "specimen.toml": self.texts[specimen],
            **({} if feedforward is None else {"feedforward.toml": feedforward}),
            **({"acceptance/x.toml": criteria} if criteria else {}),
            **{archived: self.texts[name] for name, archived in TRAJECTORIES.items() if name in self.texts},
            **(texts or {}),
        }
        said = {"specimen": specimen, "procedure": procedure, "rig": self.rig.name, **(provenance or {})}
        return Recorded(columns, rename(phases), held, said)

    def columns(
        self, parts: Sequence[Part], truth: Truth, stated: LinkInertia | None = None
    ) -> tuple[dict[str, Floats], list[Phased]]:
        """Rows of all parts, and the parts with start and end; the controller knows of ``stated``."""
        known = ArmModel(arm_description(self.rig, stated), motor_inertia=self.drives.motor_inertia)
        rng = np.random.default_rng(11)
        model = ArmModel(arm_description(self.rig, truth.payload), motor_inertia=self.drives.motor_inertia)
        law, sensor = self.friction(truth.level), model.description.flange @ sensor_frame(self.rig)
        tool = body(self.rig.tool)
        held = (tool if truth.payload is None else tool.plus(truth.payload)).parameters()[:4]
        rows: dict[str, list[Floats]] = {name: [] for name in ("q", "v", "tau", "fed", "friction", "wrench", "time")}
        phases, clock = list[Phased](), 0.0
        for part in parts:
            k = len(part.position)
            pressed = np.zeros(k) if part.pressed is None else part.pressed
            jacobians = model.jacobian_rows(part.position, "tip")
            acceleration = np.zeros_like(part.position) if part.acceleration is None else part.acceleration
            velocity = part.velocity if part.acceleration is not None else acceleration
            torque = model.inverse_dynamics_rows(part.position, velocity, acceleration) + law.torque(part.velocity)
            torque = torque - jacobians[:, 2, :] * pressed[:, None]
            turns = model.placement_rows(part.position, 5)[:, :3, :3] @ sensor[:3, :3]
            free = np.einsum("kji,j->ki", turns, model.description.gravity)
            weights = np.array([weight_columns(one) @ held for one in free])
            weights[:, :3] += turns[:, 2, :] * pressed[:, None]
            rows["q"].append(part.position)
            rows["v"].append(np.array(part.velocity))
            rows["tau"].append(torque)
            fed = part.fed if part.fed.any() else known.gravity_rows(part.position)
            rows["fed"].append(fed - jacobians[:, 2, :] * _due(part))
            rows["friction"].append(part.friction)
            rows["wrench"].append(weights)
            time = clock + np.arange(k) / RATE
            rows["time"].append(time)
            phases.append((part, float(time[0]) - 1e-6, float(time[-1]) + 1e-6))
            clock = float(time[-1]) + GAP_S
        whole = {name: np.concatenate(values) for name, values in rows.items()}
        wrench = whole["wrench"] - whole["wrench"][0]
        wrench += rng.normal(size=wrench.shape) * truth.force_noise * np.array([1, 1, 1, 0.05, 0.05, 0.05])
        # what is read at a row was commanded at the one before
        told = np.roll(whole["tau"], -1, axis=0)
        volts = wrench @ np.linalg.inv(self.matrix).T
        made = whole["tau"] + truth.noise * rng.normal(size=whole["tau"].shape)
        return {
            "position": self.drives.motor_angle(whole["q"]),
            "current": self.drives.current(made),
            "command": self.drives.current(told),
            "desired": whole["q"] + LAG_RAD,
            "desired_velocity": whole["v"],
            "feedback": told - whole["fed"],
            "feedforward": whole["fed"],
            "friction": whole["friction"],
            "force": wrench[:, :3].copy(),
            "torque": wrench[:, 3:].copy(),
            "gauges": volts + ZERO_V,
            "zero": np.full((1, 6), ZERO_V),
            "timing": np.column_stack([whole["time"] + 1e-3, 0.0 * whole["time"], 0.0 * whole["time"] + 5e-4]),
            "time": whole["time"],
            "missed": np.zeros((0, 1)),
        }, phases

    def write(self, recorded: Recorded) -> Path:
        """Write a run as an archive."""
        provenance = Provenance(
            "A. Example", **recorded.provenance, started_utc=STARTED, backend="mock", simulated=True, seed=3,
            texts=recorded.texts,
        )  # fmt: skip
        columns = recorded.columns
        groups = [
            GroupSpec(group, tuple(DatasetSpec(name, *GROUPS[group][name]) for name in GROUPS[group]), rate, 100)
            for group, rate in (
                ("daq", RATE),
                ("force", RATE),
                ("drive", None),
                ("health", None),
                ("ticks", None),
                ("tare", None),
            )
        ]
        with RunWriter.create(self.results, provenance.procedure, provenance, groups) as writer:
            for group, datasets in GROUPS.items():
                data = {name: columns[name] for name in datasets}
                if len(next(iter(data.values()))):
                    writer.append(group, data, recorded.time(group))
            for part, start, end in recorded.parts:
                writer.phase(part.name, part.replicate, np.nan, start, end, angular_speed_rad_s=part.speed)
            return writer.close("COMPLETE", "")


def _each(name: str) -> tuple[str, ...]:
    return tuple(name.format(i + 1) for i in range(6))


#: Group → dataset → unit, kind, channels.
GROUPS: dict[str, dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "daq": {"gauges": ("V", "voltage", tuple(f"gauge_{i}" for i in range(6)))},
    "force": {
        "force": ("N", "force", ("force_x", "force_y", "force_z")),
        "torque": ("N.m", "torque", ("torque_x", "torque_y", "torque_z")),
    },
    "drive": {
        "position": ("rad", "angle", _each("motor_{}_position")),
        "current": ("A", "current", _each("motor_{}_current")),
        "command": ("A", "current", _each("motor_{}_command_current")),
        "desired": ("rad", "angle", _each("desired_{}_position")),
        "desired_velocity": ("rad/s", "angular_speed", _each("desired_{}_velocity")),
        "feedback": ("N.m", "torque", _each("feedback_{}_torque")),
        "feedforward": ("N.m", "torque", _each("feedforward_{}_torque")),
        "friction": ("N.m", "torque", _each("friction_{}_torque")),
        "timing": ("s", "time", ("command_time", "tick_lateness", "time_half_width")),
    },
    "tare": {"zero": ("V", "voltage", tuple(f"tare_gauge_{i}" for i in range(6)))},
    "health": {"temperature": ("degC", "temperature", _each("motor_{}_temperature"))},
    "ticks": {"missed": ("count", "count", ("missed_ticks",))},
}


@dataclass
class Recorded:
    """A run in memory, as the analysis asks for one."""

    columns: dict[str, Floats]
    parts: list[Phased]
    texts: dict[str, str]
    provenance: dict[str, str]
    path: Path = Path("made.h5")
    started_utc: str = STARTED.isoformat()
    ended_utc: str = STARTED.isoformat()
    digest: str = "ab" * 32
    simulated: bool = True

    @property
    def name(self) -> str:
        return self.provenance["procedure"]

    @property
    def phases(self) -> tuple[SimpleNamespace, ...]:
        return tuple(
            SimpleNamespace(
                name=part.name, replicate=part.replicate, start_s=start, end_s=end, angular_speed_rad_s=part.speed
            )
            for part, start, end in self.parts
        )

    def time(self, group: str) -> Floats:
        time = self.columns["time"]
        if group in ("health", "tare"):
            return time[[0, -1]] if group == "health" else time[:1]
        return np.arange(len(self.columns["missed"])) / RATE if group == "ticks" else time

    def channels(self) -> list[str]:
        return [name for datasets in GROUPS.values() for _, _, names in datasets.values() for name in names]

    def get(self, name: str, *, unit: str | None = None, kind: str | None = None) -> SimpleNamespace:
        for group, datasets in GROUPS.items():
            for dataset, (own, is_of, names) in datasets.items():
                if name in names:
                    assert (unit, kind) == (own, is_of)
                    values = self.columns[dataset][:, names.index(name)]
                    return SimpleNamespace(values=values, time_s=self.time(group))
        raise ArchiveError(f"there is no channel {name}")

    def channel_slice(
        self, name: str, start_s: float, stop_s: float, *, unit: str | None = None, kind: str | None = None
    ) -> SimpleNamespace:
        one = self.get(name, unit=unit, kind=kind)
        use = (one.time_s >= start_s) & (one.time_s <= stop_s)
        return SimpleNamespace(values=one.values[use], time_s=one.time_s[use])
