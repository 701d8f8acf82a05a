"""A joint to identify friction on: cheap synthetic sweeps, and an independent integrator for noise-free ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest

from bench.identify.sweep import Segment, condense
from bench.models.friction import Friction

RATIO = 100.0
SPEEDS = (0.005, 0.01, 0.02, 0.035, 0.05, 0.08, 0.15, 0.4, 1.0, 2.0)
JOINT = Friction(1.2, 0.8, 0.6, 0.05, offset=0.03, load_coefficient=0.04, reference_temperature=25.0)


@dataclass
class Sweep:
    """What a synthetic sweep is made of; torques in N.m at the joint."""

    friction: Friction = JOINT
    torque_scale: float = 1.015
    gravity: float = 2.5
    speeds: tuple[float, ...] = SPEEDS
    replicates: int = 1
    rate_hz: float = 200.0
    noise: float = 0.02
    ripple: float = 0.0
    segment_scatter: float = 0.0
    wobble: float = 0.0
    resolution: float = 0.0
    warming: tuple[float, float] = (25.0, 25.0)
    transducer_gain: float = 1.0
    transducer_zero: float = 0.0
    skip: set[float] = field(default_factory=set)

    def segments(self, seed: int = 1) -> list[Segment]:
        """Stretches out and back at each speed, each from a fresh reversal."""
        rng = np.random.default_rng(seed)
        plan = [
            s * v for _ in range(self.replicates) for v in self.speeds for s in (1.0, -1.0) if s * v not in self.skip
        ]
        warmth = np.linspace(*self.warming, len(plan))
        return [self.segment(speed, float(t), rng) for speed, t in zip(plan, warmth, strict=True)]

    def segment(self, speed: float, temperature: float, rng: np.random.Generator) -> Segment:
        duration = min(max(4.0, 0.03 / abs(speed)), 2.8 / abs(speed))
        time = np.arange(0.0, duration, 1.0 / self.rate_hz)
        phase = rng.uniform(0.0, 2.0 * np.pi)
        slow = 2.0 * np.pi * 1.5
        velocity = speed * (1.0 + self.wobble * np.sin(slow * time + phase))
        angle = speed * (time - 0.5 * duration) + speed * self.wobble / slow * (
            np.cos(phase) - np.cos(slow * time + phase)
        )
        torque = self.gravity * np.sin(angle)
        friction = self.friction.torque(velocity, load=torque, temperature=temperature)
        rippling = self.ripple * np.sin(2.0 * RATIO * angle + 0.7)
        if abs(speed) * RATIO * 2.0 > 50.0:  # the inertia takes what is fast
            rippling = np.zeros_like(rippling)
        command = (torque + friction - rippling + self.segment_scatter * rng.standard_normal()) / self.torque_scale
        if self.resolution:
            angle = np.round(angle / self.resolution) * self.resolution
        seen = self.transducer_gain * torque + self.transducer_zero + self.noise * rng.standard_normal(len(time))
        return condense(speed, self.rate_hz, command, seen, angle, np.full(len(time), temperature), gear_ratio=RATIO)


@pytest.fixture(scope="session")
def sweep() -> Callable[..., Sweep]:
    """``sweep(noise=…, …)``: a synthetic sweep of the published joint."""
    return Sweep
