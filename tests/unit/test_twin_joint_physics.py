"""The joint's integrator against an adaptive solver of the same equations, and its energy."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp

from bench.twin.plant.joint_step import Command, State, advance, mid_line, parameters, prepare
from bench.twin.plant.joint_truth import DriveTruth, FrictionTruth, GearTruth, JointTruth, LoadTruth

Floats = NDArray[np.float64]
PIECE_S = 0.02  # a command holds this long
JOINT = JointTruth(
    friction=FrictionTruth(load_coefficient=0.01),
    gear=GearTruth(hysteresis_torque=0.25, backlash=2e-5),
    drive=DriveTruth(ripple=0.02, torque_scale=1.015),
    load=LoadTruth(gravity_moment=2.5),
)
BALANCED = replace(JOINT, load=LoadTruth(inertia=2.0))
LOCKED = replace(JOINT, load=LoadTruth(locked=True))
FREE = replace(
    JOINT,
    friction=FrictionTruth(coulomb=0.0, stribeck_excess=0.0, viscous=0.0),
    gear=GearTruth(damping=0.0),
    drive=DriveTruth(),
)


def torque_on_link(truth: JointTruth, x: float, relative: float, y: float) -> float:
    gear = truth.gear
    d = math.copysign(max(abs(x) - gear.backlash / 2, 0.0), x)
    bend = gear.stiffening_angle * math.tanh(d / gear.stiffening_angle)
    return gear.stiffness_load * d - (gear.stiffness_load - gear.stiffness_zero) * bend + y + gear.damping * relative


def equations(truth: JointTruth, command: Command) -> Callable[[float, Floats], list[float]]:
    """The equations of docs/twin.md as they stand there."""
    f, g, d, load = truth.friction, truth.gear, truth.drive, truth.load

    def rates(t: float, s: Floats) -> list[float]:
        theta, w, q, v, z, y, u = s
        tau = torque_on_link(truth, theta - q, w - v, y)
        level = f.coulomb + f.load_coefficient * abs(tau)
        level += f.stribeck_excess * math.exp(-((w / f.stribeck_velocity) ** 2))
        zd = w - f.bristle_stiffness * abs(w) / level * z if level > 0 else 0.0
        friction = f.bristle_stiffness * z + f.bristle_damping * zd + f.viscous * w
        yd = (g.hysteresis_torque * (w - v) - abs(w - v) * y) / g.hysteresis_angle
        wanted = command.feedforward + command.kp * (command.position + command.velocity * t - theta)
        wanted += command.kd * (command.velocity - w)
        wanted = min(max(wanted, -command.maximum), command.maximum)
        ripple = d.ripple * math.sin(d.ripple_per_revolution * g.ratio * theta + d.ripple_phase)
        wd = (d.torque_scale * u + ripple - friction - tau) / d.inertia
        vd = 0.0 if load.locked else (tau - load.gravity_moment * math.sin(q - load.gravity_phase)) / load.inertia
        return [w, wd, v, vd, zd, yd, (wanted - u) * 2 * math.pi * d.current_bandwidth_hz]

    return rates


def reference(truth: JointTruth, commands: Sequence[Command], start: float) -> Floats:
    """Gear torque by tick, shape (n,)."""
    state, found = np.array([start, 0.0, start, 0.0, 0.0, 0.0, 0.0]), []
    for command in commands:
        times = np.arange(1, 21) * 1e-3
        part = solve_ivp(
            equations(truth, command), (0.0, PIECE_S), state, "LSODA", rtol=1e-10, atol=1e-13, t_eval=times
        )
        found += [torque_on_link(truth, s[0] - s[2], s[1] - s[3], s[5]) for s in part.y.T]
        state = part.y[:, -1]
    return np.array(found)


def ours(truth: JointTruth, commands: Sequence[Command], start: float, steps: int = 1) -> tuple[State, Floats]:
    """End state, and theta, q, gear torque, drive torque, temperature by tick, shape (n, 5)."""
    state, out = State(theta=start, q=start), list[float]()
    for command in commands:
        now = replace(command)
        advance(state, prepare(parameters(truth), 1e-3 / steps, steps), now, round(PIECE_S * 1e3), out)
    return state, np.array(out).reshape(-1, 5)


def sine(amplitude: float, frequency_hz: float, seconds: float) -> list[Command]:
    times = np.arange(round(seconds / PIECE_S)) * PIECE_S
    return [Command(feedforward=amplitude * math.sin(2 * math.pi * frequency_hz * t)) for t in times]


def slow(seconds: float) -> list[Command]:
    times = np.arange(round(seconds / PIECE_S)) * PIECE_S
    return [Command(kp=2000.0, kd=60.0, position=0.02 * t, velocity=0.02) for t in times]


REGIMES = {
    "pre-sliding": (BALANCED, sine(1.2, 2.0, 0.5), 0.0),
    "stick-slip reversal": (BALANCED, sine(4.0, 2.0, 0.6), 0.0),
    "locked output ramp": (LOCKED, sine(15.0, 1.0, 0.5), 0.0),
    "free swinging": (JOINT, [Command()] * 30, 1.5),
    "frictionless swinging": (FREE, [Command()] * 30, 1.5),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_torque_agrees_with_an_adaptive_solver(regime: str) -> None:
    truth, commands, start = REGIMES[regime]
    expected = reference(truth, commands, start)
    record = ours(truth, commands, start)[1]
    peak = max(np.abs(expected).max(), np.abs(record[:, 3]).max())  # the largest torque there is, gear's or drive's
    assert np.abs(record[:, 2] - expected).max() < 1e-3 * peak


def test_torque_at_a_constant_crawl_agrees_with_an_adaptive_solver() -> None:
    commands = slow(0.6)
    expected = reference(JOINT, commands, 0.0)
    error = np.abs(ours(JOINT, commands, 0.0)[1][:, 2] - expected)
    breakaway = JOINT.friction.coulomb + JOINT.friction.stribeck_excess
    assert error[100:].max() < 1e-4 * breakaway  # moving
    assert error.max() < 2e-3 * breakaway  # and while the servo pulls it off


def test_half_the_substep_makes_a_fraction_of_the_error() -> None:
    truth, commands, start = REGIMES["free swinging"]
    expected = reference(truth, commands, start)
    coarse, fine = (np.abs(ours(truth, commands, start, steps)[1][:, 2] - expected).max() for steps in (1, 2))
    assert fine < 0.3 * coarse


def mechanical_energy(truth: JointTruth, s: State) -> float:
    """Kinetic, elastic, of bristle and hysteresis, and of gravity [J]."""
    gear, load = truth.gear, truth.load
    x = s.theta - s.q
    d = math.copysign(max(abs(x) - gear.backlash / 2, 0.0), x)
    bend = gear.stiffening_angle**2 * math.log(math.cosh(d / gear.stiffening_angle))
    elastic = 0.5 * gear.stiffness_load * d * d - (gear.stiffness_load - gear.stiffness_zero) * bend
    bristle = 0.5 * truth.friction.bristle_stiffness * s.bristle**2
    hysteresis = 0.5 * s.hysteresis**2 * gear.hysteresis_angle / gear.hysteresis_torque if s.hysteresis else 0.0
    kinetic = 0.5 * truth.drive.inertia * s.omega**2 + 0.5 * load.inertia * s.qd**2
    return kinetic + elastic + bristle + hysteresis - load.gravity_moment * math.cos(s.q - load.gravity_phase)


def test_a_frictionless_swing_keeps_its_energy() -> None:
    s = State(theta=1.5, q=1.5)
    first = mechanical_energy(FREE, s)
    lost = []
    for _ in range(100):
        advance(s, prepare(parameters(FREE), 1e-3, 1), Command(), 100, [])
        lost.append(mechanical_energy(FREE, s) - first)
    assert np.abs(lost).max() < 1e-4 * FREE.load.gravity_moment  # over 10 s


@pytest.mark.parametrize("truth", [JOINT, replace(JOINT, drive=DriveTruth())], ids=["ripple", "smooth"])
def test_friction_hysteresis_and_damping_only_take_energy(truth: JointTruth) -> None:
    truth = replace(truth, drive=replace(truth.drive, ripple=0.0))
    s = State(theta=1.5, q=1.5)
    energies = [mechanical_energy(truth, s)]
    for _ in range(2000):
        advance(s, prepare(parameters(truth), 1e-3, 1), Command(), 1, [])
        energies.append(mechanical_energy(truth, s))
    steps = np.diff(energies)
    assert steps.max() < 1e-6 * truth.load.gravity_moment
    assert energies[-1] < energies[0] - 1.0


def test_the_hysteresis_loop_is_as_wide_as_the_truth_says() -> None:
    truth = replace(LOCKED, gear=GearTruth(hysteresis_torque=0.25, damping=0.0), drive=DriveTruth())
    record = ours(truth, sine(20.0, 0.25, 8.0), 0.0)[1][4000:]
    twist, torque = record[:, 0] - record[:, 1], record[:, 2]
    up = np.diff(twist, append=twist[0]) > 0
    middle = np.abs(twist) < 2e-4
    rising, falling = (np.polyfit(twist[middle & way], torque[middle & way], 3)[-1] for way in (up, ~up))
    assert rising - falling == pytest.approx(0.5, rel=0.02)


def test_stiffness_of_the_mid_line() -> None:
    truth = JointTruth(gear=GearTruth(backlash=1e-4))
    assert mid_line(truth, 4e-5) == 0.0
    slope = mid_line(truth, 5e-5 + 1e-7) / 1e-7
    assert slope == pytest.approx(4000.0, rel=1e-6)
    assert (mid_line(truth, 6e-3) - mid_line(truth, 5e-3)) / 1e-3 == pytest.approx(6500.0, rel=1e-4)


def test_steady_friction_is_stribecks() -> None:
    """At a constant speed the published joint has 1.2 + 0.6 exp(-(v/vs)²) + 0.8 v: 1.73 N.m at 0.02 rad/s."""
    truth = replace(BALANCED, drive=DriveTruth(), friction=FrictionTruth())
    state, record = ours(truth, slow(2.0), 0.0)
    expected = 1.2 + 0.6 * math.exp(-((0.02 / 0.05) ** 2)) + 0.8 * 0.02
    assert record[-500:, 3].mean() - record[-500:, 2].mean() == pytest.approx(expected, rel=2e-3)
    assert expected == pytest.approx(1.727, abs=1e-3)
    assert state.housing > 25.0
