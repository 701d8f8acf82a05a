"""Archives of a joint whose gear is rigid and whose friction is a formula: what is judged in them is known exactly.

Loaded by file from the tests that use it, through the fixture ``simulated_joint``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.models.friction import Friction

Floats = NDArray[np.float64]
Arrays = dict[str, Floats]

RATE, TICKS, RATIO = 1000.0, 500.0, 100.0
PUBLISHED = Friction(1.2, 0.8, 0.6, 0.05)
MOTOR_INERTIA, LINK_INERTIA, GRAVITY = 0.2, 0.4, 2.5
FEEDFORWARD = """schema = "bench.feedforward/1"
name = "single_joint"
version = 1
rig = "single_joint"
drive_serial_number = "6A0F2D11-3B7C4E58-90A1B2C3"
load = "pendulum_arm"
created = 2026-02-27T09:30:00Z
software_version = "0.1.0"

[friction]
coulomb = "{coulomb} N.m"
viscous = "{viscous} N.m.s/rad"
stribeck_excess = "{stribeck_excess} N.m"
stribeck_velocity = "{stribeck_velocity} rad/s"
offset = "{offset} N.m"
reference_temperature = "25 degC"

[drive]
torque_scale = 1.0

[validity]
speed_min = "0.005 rad/s"
speed_max = "2 rad/s"
load_max = "10 N.m"
temperature_min = "22 degC"
temperature_max = "31 degC"

[uncertainty]
"drive.torque_scale" = "0.4 %"

[[sources]]
file = "20260227T091500Z_friction_sweep.h5"
procedure = "friction_sweep"
digest = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
simulated = true
"""


def feedforward_text(friction: Friction = PUBLISHED) -> str:
    """Return a feed-forward file with this friction."""
    return FEEDFORWARD.format(**{name: getattr(friction, name) for name in Friction.__dataclass_fields__})


@dataclass
class Recording:
    """What is to be archived: arrays of the DAQ's and of the drive's clock by channel, and phases."""

    daq: Arrays = field(default_factory=dict)
    drive: Arrays = field(default_factory=dict)
    phases: list[tuple[str, int, float, float, float]] = field(default_factory=list)
    missed: int = 0
    seed: int = 1


def tracking(
    friction: Friction = PUBLISHED,
    fed: Friction | None = PUBLISHED,
    *,
    speed: float = 0.02,
    replicates: int = 2,
    extra: Callable[[Floats, Floats, int], Floats] = lambda time, angle, number: np.zeros_like(time),
) -> Recording:
    """Strokes to and fro at constant speed, uncompensated and (with ``fed``) compensated.

    ``extra(time_s, angle, stroke)`` [N.m] is torque that is wanted and does not arrive, beside friction.
    """
    run_in, lasts, pause = 0.4, 2.0, 0.2
    made = Recording()
    modes = ["uncompensated"] + (["compensated"] if fed else [])
    stroke_s = pause + run_in + lasts
    start, angle, strokes = 1.5, 0.276, []
    for mode in modes:
        for number in range(1, 2 * replicates + 1):
            sign = 1.0 if number % 2 else -1.0
            strokes.append((mode, number, sign, start, angle))
            begin = start + pause + run_in
            made.phases.append((mode, number, sign * speed, begin, begin + lasts))
            angle += sign * speed * (run_in + lasts)
            start += stroke_s
    end = start + 0.5

    def motion(time: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        """Angle, velocity, torque fed forward, torque that does not arrive."""
        q, w = np.full_like(time, 0.276), np.zeros_like(time)
        given, lost = np.zeros_like(time), np.zeros_like(time)
        for index, (mode, _, sign, begin, at) in enumerate(strokes):
            since = time - begin
            here = (since >= 0.0) & (since < stroke_s)
            moving = here & (since >= pause)
            q[since >= 0.0] = at + sign * speed * np.clip(since[since >= 0.0] - pause, 0.0, run_in + lasts)
            w[moving] = sign * speed
            law = fed if mode == "compensated" and fed else None
            given[here] = (law.torque(np.full(here.sum(), sign * speed)) if law else 0.0) * moving[here]
            lost[here] = extra(time[here], q[here], index) * moving[here]
        return q, w, given, lost

    time, tick = _clocks(end)
    q, w, _, _ = motion(time)
    made.daq = {"time": time, "joint_angle": q, "joint_torque": GRAVITY * np.sin(q)}
    q, w, given, lost = motion(tick)
    carried = GRAVITY * np.sin(q)
    needed = carried + np.where(w == 0.0, 0.0, friction.torque(w)) + lost
    wanted = needed - given
    made.drive = _rows(tick, q, w, needed, wanted, wanted - carried, given, q, w)
    return made


def stepping(
    friction: Friction | None = None,
    *,
    replicates: int = 2,
    inertia: float = 2.0,
    damping: float = 10.0,
    stiffness: float = 50.0,
    believed: float = 2.2,
    step: float = 0.12,
    record: float = 4.0,
) -> Recording:
    """Steps of a rendered impedance both ways from zero; a joint of 2.2 kg.m2, Coulomb friction that can hold it.

    ``believed`` is the inertia the controller takes it for.
    """
    made = Recording()
    motor, link = MOTOR_INERTIA, 2.0
    true = motor + link
    times: list[Floats] = []
    angles: list[Floats] = []
    goals: list[Floats] = []
    wanteds: list[Floats] = []
    torques: list[Floats] = []
    start, dt = 1.5, 1.0 / RATE
    for number in range(1, 2 * replicates + 1):
        goal = step if number % 2 else -step
        rest, count = round(0.5 * RATE), round(record * RATE)
        q, w = 0.0, 0.0
        trace = np.zeros((rest + count, 4))
        for k in range(rest, rest + count):
            wanted = believed / inertia * (stiffness * (goal - q) - damping * w)
            dry, breakaway = (friction.coulomb, friction.breakaway) if friction else (0.0, 0.0)
            viscous = friction.viscous if friction else 0.0
            if friction and w == 0.0 and abs(wanted) <= breakaway:
                acceleration = 0.0
            else:
                push = math.copysign(dry, w if w else wanted)
                acceleration = (wanted - push - viscous * w) / true
            trace[k] = (q, goal, wanted, link * acceleration)
            after = w + acceleration * dt
            w = 0.0 if friction and w * after < 0.0 else after
            q += w * dt
        made.phases.append(("step", number, math.nan, start + rest / RATE, start + (rest + count) / RATE))
        times.append(start + np.arange(rest + count) / RATE)
        for column, store in enumerate((angles, goals, wanteds, torques)):
            store.append(trace[:, column])
        start += (rest + count) / RATE
    path = np.concatenate(times)
    time, tick = _clocks(start + 0.5)

    def at(values: list[Floats], when: Floats, *, held: bool = False) -> Floats:
        joined = np.concatenate(values)
        if held:
            return joined[np.clip(np.searchsorted(path, when + 1e-9, side="right") - 1, 0, len(joined) - 1)]
        return np.interp(when, path, joined)

    made.daq = {"time": time, "joint_angle": at(angles, time), "joint_torque": at(torques, time)}
    wanted, zero = at(wanteds, tick), np.zeros_like(tick)
    made.drive = _rows(tick, at(angles, tick), zero, wanted, wanted, wanted, zero, at(goals, tick, held=True), zero)
    return made


def exciting(
    friction: Friction = PUBLISHED,
    *,
    repeat: bool = False,
    held_out_friction: Friction | None = None,
    held_out_offset: float = 0.0,
) -> Recording:
    """A Fourier series to identify on and another one held out; ``repeat`` holds out the first one again."""
    series = {"train": (0.1, ((0.5, 0.1), (0.2, -0.3), (0.05, 0.15), (0.03, -0.02), (0.02, 0.03)), 20.0)}
    other = (0.13, ((-0.2, 0.5), (0.2, 0.2), (-0.06, 0.05), (0.02, 0.04)), 200.0 / 13.0)
    series["hold_out"] = series["train"] if repeat else other
    made = Recording()
    start = 1.5
    spans: list[tuple[str, float, float]] = []
    for name, (_, _, lasts) in series.items():
        made.phases.append((name, 1, math.nan, start, start + lasts))
        spans.append((name, start, start + lasts))
        start += lasts + 1.0
    time, tick = _clocks(start)

    def motion(when: Floats) -> tuple[Floats, Floats, Floats]:
        q, w, a = np.zeros_like(when), np.zeros_like(when), np.zeros_like(when)
        for number, (name, begin, _) in enumerate(spans):
            base, harmonics, _ = series[name]
            here = when >= (begin - 0.5 if number else -1.0)
            turn = 2.0 * math.pi * base
            since = when[here] - begin
            angle = np.zeros(here.sum()), np.zeros(here.sum()), np.zeros(here.sum())
            for k, (c, s) in enumerate(harmonics, start=1):
                angle[0][:] += c * np.cos(k * turn * since) + s * np.sin(k * turn * since)
                angle[1][:] += k * turn * (s * np.cos(k * turn * since) - c * np.sin(k * turn * since))
                angle[2][:] -= (k * turn) ** 2 * (c * np.cos(k * turn * since) + s * np.sin(k * turn * since))
            q[here], w[here], a[here] = angle
        return q, w, a

    def torques(when: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        q, w, a = motion(when)
        carried = LINK_INERTIA * a + GRAVITY * np.sin(q)
        later = when >= spans[1][1] - 0.5
        laws = np.where(later, (held_out_friction or friction).torque(w), friction.torque(w))
        return q, w, carried, carried + MOTOR_INERTIA * a + laws

    q, _, carried, _ = torques(time)
    made.daq = {"time": time, "joint_angle": q, "joint_torque": carried + held_out_offset * (time >= spans[1][1] - 0.5)}
    q, w, carried, needed = torques(tick)
    made.drive = _rows(tick, q, w, needed, needed, needed - carried, np.zeros_like(tick), q, w)
    return made


def _clocks(end: float) -> tuple[Floats, Floats]:
    """Samples of the DAQ and ticks of the drive, the latter a little irregular."""
    time = np.arange(round(end * RATE)) / RATE
    tick = np.arange(0.01, end - 0.01, 1.0 / TICKS)
    return time, tick + 1e-4 * np.random.default_rng(7).random(len(tick))


def _rows(
    tick: Floats,
    q: Floats,
    w: Floats,
    needed: Floats,
    wanted: Floats,
    back: Floats,
    given: Floats,
    to: Floats,
    at: Floats,
) -> Arrays:
    return {
        "time": tick,
        "motor_angle": q * RATIO,
        "desired_angle": to.copy(),
        "motor_velocity": w * RATIO,
        "desired_velocity": at.copy(),
        "motor_torque": needed / RATIO,
        "command_torque": needed / RATIO,
        "wanted_torque": wanted,
        "feedback_torque": back,
        "feedforward_torque": given,
        "drive_temperature": np.full_like(tick, 25.0),
        "tick_lateness": np.full_like(tick, 2e-5),
        "time_half_width": np.full_like(tick, 1e-4),
    }


DRIVE = {
    "angle": ("rad", "angle", ("motor_angle", "desired_angle")),
    "speed": ("rad/s", "angular_speed", ("motor_velocity", "desired_velocity")),
    "torque": (
        "N.m",
        "torque",
        ("motor_torque", "command_torque", "wanted_torque", "feedback_torque", "feedforward_torque"),
    ),
    "temperature": ("degC", "temperature", ("drive_temperature",)),
    "timing": ("s", "time", ("tick_lateness", "time_half_width")),
}


def archive(
    folder: Path,
    profiles: Path,
    procedure: str,
    made: Recording,
    *,
    specimen: str = "pendulum_arm",
    feedforward: str | None = None,
    texts: Mapping[str, str | None] | None = None,
    replace: tuple[tuple[str, str, str], ...] = (),
    change: Callable[[Recording], Any] = lambda made: None,
    leave_out: str = "",
    noise: float = 0.004,
    status: str = "COMPLETE",
    reason: str = "",
    simulated: bool = True,
) -> Path:
    """Archive a recording with the profiles of the bench.

    ``texts`` replace or (None) remove archived texts, ``replace`` single words in them (name, old, new); ``change``
    edits the recording, noise already in it, just before it is written; ``leave_out`` is a channel not recorded.
    """
    random = np.random.default_rng(made.seed)
    daq = made.daq
    daq["joint_torque"] = daq["joint_torque"] + noise * random.standard_normal(len(daq["time"]))
    daq["joint_angle"] = daq["joint_angle"] + 5e-6 * random.standard_normal(len(daq["time"]))
    daq["transducer_voltage"] = daq["joint_torque"] / 3.0 + 0.01
    change(made)
    found: dict[str, str | None] = {
        "rig.toml": (profiles / "rigs/single_joint.toml").read_text(encoding="utf-8"),
        "procedure.toml": (profiles / f"procedures/{procedure}.toml").read_text(encoding="utf-8"),
        "specimen.toml": (profiles / f"specimens/{specimen}.toml").read_text(encoding="utf-8"),
        "feedforward.toml": feedforward,
        **(texts or {}),
    }
    kept = {name: text for name, text in found.items() if text is not None}
    for name, old, new in replace:
        assert old in kept[name], f"{old} is not in {name}"
        kept[name] = kept[name].replace(old, new)
    provenance = Provenance(
        "A. Example", specimen, procedure, "single_joint", datetime(2026, 3, 1, tzinfo=UTC),
        "mock" if simulated else "lab", simulated, seed=made.seed if simulated else None, texts=kept,
    )  # fmt: skip
    groups = _groups(leave_out)
    with RunWriter.create(folder, procedure, provenance, groups, phases_capacity=64) as writer:
        for group in groups:
            source = made.daq if group.name in ("daq", "torque") else made.drive
            if group.name in ("ticks", "tare"):
                continue
            columns = {d.name: np.column_stack([source[channel] for channel in d.channels]) for d in group.datasets}
            writer.append(group.name, columns, source["time"])
        if made.missed:
            writer.append("ticks", {"missed": [float(made.missed)]}, [1.0])
        writer.append("tare", {"zero": [0.01]}, [1.0])
        for name, number, speed, begin, end in made.phases:
            writer.phase(name, number, math.nan, begin, end, angular_speed_rad_s=speed)
        return writer.close(status, reason)


def _groups(leave_out: str) -> list[GroupSpec]:
    def sets(**datasets: tuple[str, str, tuple[str, ...]]) -> tuple[DatasetSpec, ...]:
        kept = {n: (u, k, tuple(c for c in channels if c != leave_out)) for n, (u, k, channels) in datasets.items()}
        return tuple(DatasetSpec(n, u, k, channels) for n, (u, k, channels) in kept.items() if channels)

    groups = {
        "torque": (sets(joint=("N.m", "torque", ("joint_torque",))), RATE),
        "daq": (
            sets(raw=("V", "voltage", ("transducer_voltage",)), encoder=("rad", "angle", ("joint_angle",))),
            RATE,
        ),
        "drive": (sets(**DRIVE), None),
        "ticks": (sets(missed=("count", "count", ("missed_ticks",))), None),
        "tare": (sets(zero=("V", "voltage", ("tare_transducer_voltage",))), None),
    }
    return [GroupSpec(name, datasets, rate, 2000) for name, (datasets, rate) in groups.items() if datasets]
