"""A series keeps its limits between the samples too: bounds against brute force on a much finer grid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import LimitError, ModelError
from bench.models.arm_description import LinkInertia
from bench.models.dh import DhRow, from_dh
from bench.models.fourier_check import check_lines, check_series, resonance_rows
from bench.models.fourier_path import FourierPath, at_rest
from bench.models.motion_limits import MotionLimits, Resonance
from bench.models.path_bounds import path_bounds
from bench.models.rigid import ArmModel

BRUTE_HZ = 10_000.0


def random_series(seed: int, size: int, *, hz: float = 0.1, share: float = 0.4) -> FourierPath:
    rng = np.random.default_rng(seed)
    harmonics = (1, 2, 3, 5)
    cosine, sine = at_rest(harmonics, rng.normal(size=(size, 4)), rng.normal(size=(size, 4)))
    series = FourierPath(hz, harmonics, rng.uniform(-0.3, 0.3, size), cosine, sine, 2)
    return series.scaled(share / series.bound(0))


@pytest.mark.parametrize("seed", range(3))
def test_a_series_starts_and_ends_at_rest_and_repeats(seed: int) -> None:
    series = random_series(seed, 6)
    q, v, a = series.sample(np.array([0.0, series.period_s, series.duration_s]))
    assert np.abs(v).max() < 1e-12
    assert np.abs(a).max() < 1e-12
    assert np.allclose(q, q[0], atol=1e-12)
    for t in (-1.0, 0.0, series.duration_s, series.duration_s + 1.0):
        assert np.all(series.at(t)[1] == 0.0)


def test_speed_and_acceleration_are_the_derivatives() -> None:
    series = random_series(3, 2)
    t, h = 3.217, 1e-4
    before, now, after = (series.at(t + shift) for shift in (-h, 0.0, h))
    assert np.allclose((after[0] - before[0]) / (2.0 * h), now[1], atol=1e-6)
    assert np.allclose((after[1] - before[1]) / (2.0 * h), now[2], atol=1e-6)
    q, v, a = series.sample(np.array([t]))
    assert np.allclose(np.array([q[0], v[0], a[0]]), np.array(now), atol=1e-13)


def test_a_series_that_starts_with_a_jolt_is_refused(bed: Any) -> None:
    series = random_series(0, 6)
    jolted = replace(series, sine=series.sine + np.eye(6, 4) * 0.01)
    with pytest.raises(ModelError, match="joint 1 starts with the speed") as refused:
        check_series(jolted, bed.model, bed.limits)
    assert refused.value.reason == "not_at_rest"


@pytest.mark.parametrize("seed", range(3))
def test_second_derivatives_of_torques_and_places_stay_below_their_bounds(bed: Any, seed: int) -> None:
    model: ArmModel = bed.model
    series = random_series(seed, 6, share=0.6)
    rates = np.array([series.bound(order) for order in range(5)])
    bounds = path_bounds(model.description, rates, model.motor_inertia)
    h = 1e-3
    q, v, a = series.sample(np.arange(0.0, series.period_s, h))
    torque, places = model.inverse_dynamics_rows(q, v, a), model.joint_positions_rows(q)
    assert np.all(np.abs(torque).max(axis=0) <= bounds.torque[:, 0])
    assert np.all(np.abs(np.diff(torque, axis=0) / h).max(axis=0) <= bounds.torque[:, 1])
    # a second difference is a mean of the second derivative; rounding of the torques is amplified by 4 / h^2
    noise = 4.0 * 1e-13 / h**2
    assert np.all(np.abs(np.diff(torque, 2, axis=0) / h**2).max(axis=0) <= bounds.torque[:, 2] + noise)
    moved = np.linalg.norm(np.diff(places, 2, axis=0) / h**2, axis=2).max(axis=0)
    assert np.all(moved <= bounds.place[:, 2] + noise)
    speed = np.linalg.norm(np.diff(places, axis=0) / h, axis=2).max(axis=0)
    assert np.all(speed <= bounds.place[:, 1] + 1e-9)


def brute_force(series: FourierPath, model: ArmModel, limits: MotionLimits) -> dict[tuple[str, str], float]:
    """Every quantity at its worst on a grid of 10 kHz."""
    time = np.arange(0.0, series.period_s, 1.0 / BRUTE_HZ)
    q, v, a = series.sample(time)
    torque = np.abs(model.inverse_dynamics_rows(q, v, a) + np.sign(v) * limits.coulomb + v * limits.viscous)
    worst: dict[tuple[str, str], float] = {}
    for j, name in enumerate(limits.names):
        worst["speed", name] = float(np.abs(v[:, j]).max())
        worst["acceleration", name] = float(np.abs(a[:, j]).max())
        worst["torque", name] = float(torque[:, j].max())
    tips = model.joint_positions_rows(q[::20])[:, -1]
    for axis, letter in enumerate("xyz"):
        worst[f"box {letter}", "high"], worst[f"box {letter}", "low"] = tips[:, axis].max(), tips[:, axis].min()
    moved = np.einsum("kij,kj->ki", model.jacobian_rows(q[::20])[:, :3], v[::20])
    worst["tip speed", "tip"] = float(np.linalg.norm(moved, axis=1).max())
    worst["position", "high"], worst["position", "low"] = float(q[:, 0].max()), float(q[:, 0].min())
    return worst


def test_bounds_hold_at_every_instant_and_are_not_far_off(bed: Any, excitation: Any) -> None:
    brute = brute_force(excitation.path, bed.model, bed.limits)
    rows = check_series(excitation.path, bed.model, bed.limits)
    seen = 0
    for row in rows:
        found = brute.get((row.check, row.joint))
        if found is not None and row.check != "position":
            seen += 1
            assert found <= row.value <= found + 0.02 * row.limit, row
        if row.check.startswith("box"):
            seen += 1
            if row.sense == "at most":
                assert brute[row.check, "high"] <= row.value
            else:
                assert brute[row.check, "low"] >= row.value
        if row.check == "position" and row.joint == "base":
            side = "high" if row.sense == "at most" else "low"
            sign = 1.0 if row.sense == "at most" else -1.0
            assert 0.0 <= sign * (row.value - brute["position", side]) < 0.01
    assert seen == 18 + 1 + 6


def test_a_limit_that_is_broken_for_an_instant_is_seen(bed: Any) -> None:
    """The elbow's speed limit is a ten thousandth below its peak."""
    series = random_series(5, 6, share=0.2)
    top = float(np.abs(series.sample(np.arange(0.0, series.period_s, 1.0 / BRUTE_HZ))[1][:, 2]).max())
    speed = bed.limits.speed.copy()
    speed[2] = top * (1.0 - 1e-4)
    rows = check_series(series, bed.model, replace(bed.limits, speed=speed))
    broken = [row for row in rows if not row.ok]
    assert [(row.check, row.joint) for row in broken] == [("speed", "elbow")]
    assert len(broken[0].pose_deg) == 6


def test_friction_adds_to_the_torque(bed: Any) -> None:
    series = random_series(7, 6)
    free = replace(bed.limits, coulomb=np.zeros(6), viscous=np.zeros(6))
    with_friction = {
        row.joint: row.value for row in check_series(series, bed.model, bed.limits) if row.check == "torque"
    }
    without = {row.joint: row.value for row in check_series(series, bed.model, free) if row.check == "torque"}
    for j, name in enumerate(bed.limits.names):
        most = bed.limits.coulomb[j] + bed.limits.viscous[j] * float(series.bound(1)[j])
        assert without[name] < with_friction[name] <= without[name] + 1.01 * most


def test_resonance_bands_are_refused_with_line_and_joint(bed: Any) -> None:
    series = random_series(1, 6, hz=0.1)
    limits = replace(bed.limits, resonances=(Resonance(0.45, 0.2, "link 3"),))
    with pytest.raises(LimitError, match=r"harmonic 5 of 0.1 Hz, 0.5 Hz, on joint base.*link 3 at 0.45 Hz") as refused:
        check_lines(series, limits)
    assert refused.value.reason == "resonance"
    (row,) = resonance_rows(series, limits)
    assert not row.ok
    silent = replace(series, cosine=series.cosine * [1, 1, 1, 0], sine=series.sine * [1, 1, 1, 0])
    check_lines(silent, limits)
    assert resonance_rows(silent, limits)[0].ok


def test_another_number_of_joints_is_refused(bed: Any) -> None:
    with pytest.raises(ModelError, match="for an arm of 5 joints"):
        check_series(random_series(0, 5), bed.model, bed.limits)


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_a_coefficient_that_is_no_number_is_refused(wrong: float) -> None:
    series = random_series(0, 3)
    with pytest.raises(ModelError, match="not finite"):
        replace(series, cosine=series.cosine * [1.0, wrong, 1.0, 1.0])


def test_a_joint_that_slides_has_bounds_too() -> None:
    rng = np.random.default_rng(4)
    rows = [
        DhRow(
            name,
            kind,
            d=0.1,
            a=0.2,
            alpha=0.4,
            link=LinkInertia(1.5, rng.normal(size=3) * 0.1, np.diag([0.01, 0.012, 0.009])),
        )
        for name, kind in (("turn", "revolute"), ("slide", "prismatic"), ("twist", "revolute"))
    ]
    model = ArmModel(from_dh("mixed", rows, "standard"), np.array([0.1, 0.5, 0.02]))  # type: ignore[arg-type]
    series = random_series(9, 3)
    rates = np.array([series.bound(order) for order in range(5)])
    rates[0] += np.abs(series.offset)
    bounds = path_bounds(model.description, rates, model.motor_inertia)
    h = 1e-3
    q, v, a = series.sample(np.arange(0.0, series.period_s, h))
    torque, places = model.inverse_dynamics_rows(q, v, a), model.joint_positions_rows(q)
    assert np.all(np.abs(torque).max(axis=0) <= bounds.torque[:, 0])
    assert np.all(np.abs(np.diff(torque, 2, axis=0) / h**2).max(axis=0) <= bounds.torque[:, 2] + 1e-6)
    assert np.all(np.linalg.norm(places, axis=2).max(axis=0) <= bounds.place[:, 0] + 1e-12)
    assert np.all(np.linalg.norm(np.diff(places, axis=0) / h, axis=2).max(axis=0) <= bounds.place[:, 1] + 1e-9)
