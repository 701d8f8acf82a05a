"""One stretch of small reversals as a bristle sees it, and LuGre along it with its derivatives."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.filtering import REACH, LowPass, differentiate
from bench.models.friction import Friction, stribeck_share
from bench.models.recurrence import scan

Floats = NDArray[np.float64]

KEPT_HZ = 250.0
"""After the low-pass at least so many samples a second are kept."""


@dataclass(frozen=True)
class PreSliding:
    """One stretch of small reversals, uniformly sampled.

    Parameters
    ----------
    rate_hz : float
    command, torque, angle : (n,) float64
        Joint-referred motor torque commanded [N.m], transducer [N.m], joint-referred motor angle [rad].
    temperature : (n,) float64, optional
        [degC]
    """

    rate_hz: float
    command: Floats
    torque: Floats
    angle: Floats
    temperature: Floats | None = None


def no_reversals(what: str, where: str) -> Refused:
    return Refused(
        what,
        reason="no_reversals",
        where=where,
        remedy="Reverse the torque slowly between about plus and minus 80 % of the breakaway torque",
    )


@dataclass(frozen=True)
class PreSlidingPath:
    """A stretch as the bristle sees it: travel (n - 1,), the rest (n,); ``load`` is the gear's torque."""

    travel: Floats
    velocity: Floats
    level: Floats
    share: Floats
    warm: Floats
    load: Floats
    command: Floats
    force: Floats

    @classmethod
    def of(
        cls, one: PreSliding, law: Friction, scale: float, inertia: float, cutoff_hz: float | None, where: str
    ) -> PreSlidingPath:
        rate = one.rate_hz
        table = np.stack([one.command, one.torque, one.angle], axis=1)
        temperature = one.temperature
        if cutoff_hz is None:
            moved, kept = differentiate(one.angle, rate), slice(REACH, len(one.angle) - REACH)
        else:
            band = LowPass(cutoff_hz, decimation=max(1, math.floor(rate / max(KEPT_HZ, 8.0 * cutoff_hz))))
            table = band.smooth(table - table[0], rate) + table[0]
            moved, kept = differentiate(table[:, 2], rate), band.kept(len(table), rate)
        velocity, acceleration = moved.velocity[kept], moved.acceleration[kept]
        temperature = None if temperature is None else temperature[kept]
        command, load, angle = table[kept].T
        if not np.ptp(angle) > 0.0:
            raise no_reversals("the motor's angle did not move", where)
        warm = np.broadcast_to(law.warmth(temperature), angle.shape)
        level = law.level(velocity, load=load, temperature=temperature)
        friction = scale * command - load - inertia * acceleration - law.viscous * warm * velocity - law.offset
        share = stribeck_share(velocity, law.stribeck_velocity)
        return cls(np.diff(angle), velocity, level, share, warm, load, command, friction)


class Bristle:
    """LuGre along one path for one vector of parameters, with what its derivatives need."""

    def __init__(self, vector: Floats, index: int, path: PreSlidingPath, free_level: bool) -> None:
        self.path, self.damping = path, float(vector[1])
        self.stiffness = math.exp(vector[0])
        level = path.level * math.exp(vector[-1]) if free_level else path.level
        held = 0.5 * (level[1:] + level[:-1])
        self.n = self.stiffness * np.abs(path.travel) / held
        self.e = np.exp(-self.n)
        self.full = np.sign(path.travel) * held / self.stiffness
        self.unit = float(level[0]) / self.stiffness
        self.start_factor = float(vector[3 + index]) * self.unit
        fade = -np.expm1(-self.n)
        self.z = np.concatenate([[self.start_factor], scan(self.e, self.full * fade, self.start_factor)])
        self.pull = self.stiffness * np.abs(path.velocity) / level
        self.rate = path.velocity - self.pull * self.z
        self.fade = fade
        kept = np.concatenate([[0.0], np.cumsum(self.n)])
        self.by_start = (self.stiffness - self.damping * self.pull) * np.exp(-kept)

    def by_ratio(self, change: Floats | float) -> Floats:
        """Derivative of the torque (n,) by a relative change of sigma0 / g, sigma0 outside held fixed."""
        change = np.broadcast_to(np.asarray(change, dtype=np.float64), self.z.shape)
        step = 0.5 * (change[1:] + change[:-1])
        gain = step * (self.e * self.n * (self.full - self.z[:-1]) - self.fade * self.full)
        z = np.concatenate([[0.0], scan(self.e, gain)])
        return np.asarray(self.stiffness * z - self.damping * self.pull * (z + change * self.z))


def resolution_of(angle: Floats) -> float:
    """Step that angles (n,) are rounded to [rad]; zero when they are multiples of none."""
    steps = np.diff(np.unique(angle))
    steps = steps[steps > 1e-9 * np.ptp(angle)]
    if not steps.size:
        return 0.0
    smallest = float(steps.min())
    multiples = steps / smallest
    return smallest if np.mean(np.abs(multiples - np.round(multiples)) < 0.05) > 0.95 and len(steps) < 2000 else 0.0


def thin(path: PreSlidingPath, step: int) -> PreSlidingPath:
    if step == 1:
        return path
    angle = np.concatenate([[0.0], np.cumsum(path.travel)])[::step]
    rest = (path.velocity, path.level, path.share, path.warm, path.load, path.command, path.force)
    return PreSlidingPath(np.diff(angle), *(values[::step] for values in rest))
