"""Friction of an arm's joints over speed, from series and slow crossings together."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_friction import SpeedBins
from bench.identify.arm_stretch import ArmStretch
from bench.models.friction import Friction

Floats = NDArray[np.float64]
RATE = 250.0
LAWS = (
    Friction(2.0, 1.5, stribeck_excess=0.8, stribeck_velocity=0.06, offset=0.05),
    Friction(0.3, 0.2, stribeck_excess=0.12, stribeck_velocity=0.08, offset=-0.02),
)


def stretch(position: Floats, temperature: float = 25.0) -> ArmStretch:
    velocity = np.gradient(position, 1.0 / RATE, axis=0)
    acceleration = np.gradient(velocity, 1.0 / RATE, axis=0)
    time = np.arange(len(position)) / RATE
    warm = np.full_like(position, temperature)
    zero = np.zeros_like(position)
    return ArmStretch(SimpleNamespace(name="x", replicate=1), time, position, velocity, acceleration, zero, warm, RATE)


def series(seed: int, seconds: float = 20.0) -> ArmStretch:
    rng = np.random.default_rng(seed)
    time = np.arange(0.0, seconds, 1.0 / RATE)
    waves = 2.0 * np.pi * 0.1 * np.arange(1, 6)
    sines = np.sin(np.outer(time, waves) + rng.uniform(0, 6.28, 5))
    return stretch(sines @ (rng.normal(size=(5, 2)) * [[0.6], [0.4], [0.3], [0.2], [0.1]]))


def slow(speed: float, seconds: float = 6.0) -> ArmStretch:
    time = np.arange(0.0, seconds, 1.0 / RATE)
    return stretch(np.stack([speed * time, speed * time], axis=1))


def friction(of: ArmStretch, seed: int, laws: tuple[Friction, ...] = LAWS) -> Floats:
    """Steady friction, which needs a tenth of a millimetre of rubber to come up after a reversal, and noise."""
    rng = np.random.default_rng(seed)
    found = np.stack([law.torque(of.velocity[:, i]) for i, law in enumerate(laws)], axis=1)
    ripple = 0.02 * np.sin(12.0 * of.position)
    return np.asarray(found + ripple + 0.02 * rng.normal(size=found.shape))


def bins(laws: tuple[Friction, ...] = LAWS, *, slowly: bool = True) -> SpeedBins:
    found = SpeedBins(2)
    for seed in range(4):
        one = series(seed)
        found.add(one, friction(one, seed, laws))
    if slowly:
        for k, speed in enumerate((0.02, -0.02, 0.02, -0.02)):
            one = slow(speed)
            found.add(one, friction(one, 10 + k, laws))
    return found


def test_slow_crossings_and_series_tell_the_friction_that_a_slow_joint_meets() -> None:
    for law, fit in zip(LAWS, bins().fit_all(), strict=True):
        assert fit.model == "stribeck"
        for speed in (0.02, -0.02, 0.5, -0.5):
            assert float(fit.torque(speed)) == pytest.approx(float(law.torque(speed)), abs=0.02 + 0.02 * law.coulomb)
        for name in ("coulomb", "viscous", "offset"):
            one = fit.parameters[name]
            assert abs(one.value - getattr(law, name)) < 5.0 * one.standard_uncertainty + 0.01


def test_a_joint_without_stribeck_gets_coulomb_and_viscous() -> None:
    plain = (Friction(1.0, 0.5), Friction(0.4, 0.1, offset=0.05))
    for law, fit in zip(plain, bins(plain).fit_all(), strict=True):
        assert float(fit.torque(0.02)) == pytest.approx(float(law.torque(0.02)), abs=0.03)
        assert float(fit.torque(1.0)) == pytest.approx(float(law.torque(1.0)), abs=0.03)


def test_a_record_of_any_length_takes_the_same_room() -> None:
    short, long = SpeedBins(2), SpeedBins(2)
    one = series(1)
    short.add(one, friction(one, 1))
    for seed in range(30):
        long.add(one, friction(one, seed))
    assert len(long._all()) <= 64
    assert float(long.fit(0).torque(0.3)) == pytest.approx(float(short.fit(0).torque(0.3)), abs=0.03)


def test_one_direction_alone_is_refused() -> None:
    found = SpeedBins(2)
    for speed in (0.02, 0.05, 0.1):
        one = slow(speed)
        found.add(one, friction(one, 1))
    with pytest.raises(Refused, match="negative direction"):
        found.fit(0)
    with pytest.raises(Refused, match="never slides"):
        SpeedBins(2).fit(1)
