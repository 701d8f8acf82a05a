"""The tissue's truth against independent solutions: a finer step, an ODE solver, and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from bench.errors import TwinError
from bench.twin.plant.tissue import Tissue, force_along_ramp
from bench.twin.plant.truth import TissueTruth

Floats = NDArray[np.float64]
FRAME = 200.0
PRONY = ((0.25, 0.3), (0.25, 4.0))
TRUTH = TissueTruth(surface_mm=0.0, force_ref_N=5.0, depth_ref_mm=5.0, exponent=1.5, prony=PRONY)


def press(tissue: Tissue, travel: Floats, dt: float) -> Floats:
    forces: list[float] = []
    path = travel.tolist()
    while len(forces) < len(path):  # a lift-off ends the stepping early
        tissue.advance(path[len(forces) :], dt, math.inf, forces)
    return np.array(forces)


def ramp_hold_release(dt: float, speed: float = 2.0) -> Floats:
    """Travel: 0.4 s of free air, press 8 mm, hold 2 s, withdraw, wait; at the ends of steps of ``dt``."""
    t = np.arange(1, round(13.0 / dt) + 1) * dt
    down = 0.4 + 8.0 / speed
    points = [0.0, 0.4, down, down + 2.0, down + 2.0 + 9.0 / speed, 13.0]
    return np.interp(t, points, [0.0, 0.0, 8.0, 8.0, -1.0 + 1e-9, -1.0 + 1e-9])


def ode_force(speed: float, times: Floats) -> Floats:
    """The same press by an adaptive solver on the internal variables q_i (q_i' = (F_e - q_i)/tau_i), frame included.

    F = F_e - sum g_i q_i here, which is the same law in another set of variables.
    """

    def elastic(z: float, q: Floats) -> float:
        def residual(d: float) -> float:
            f_e = 5.0 * (d / 5.0) ** 1.5
            return d + (f_e - sum(g * qi for (g, _), qi in zip(PRONY, q, strict=True))) / FRAME - z

        return 0.0 if z <= 0.0 else float(5.0 * (brentq(residual, 0.0, z + 1.0, xtol=1e-13) / 5.0) ** 1.5)

    def derivative(t: float, q: Floats) -> list[float]:
        f_e = elastic(min(speed * t, 8.0), q)
        return [(f_e - qi) / tau for (_, tau), qi in zip(PRONY, q, strict=True)]

    solved = solve_ivp(derivative, (0.0, times[-1]), [0.0, 0.0], t_eval=times, rtol=1e-9, atol=1e-11, max_step=0.01)
    return np.array(
        [
            elastic(min(speed * t, 8.0), q) - sum(g * qi for (g, _), qi in zip(PRONY, q, strict=True))
            for t, q in zip(times, solved.y.T, strict=True)
        ]
    )


@pytest.mark.parametrize("speed", [2.0, 20.0])
def test_press_and_hold_agree_with_an_ode_solver(speed: float) -> None:
    dt = 1e-3
    end = 8.0 / speed + 1.5
    steps = round(end / dt)
    force = press(Tissue(TRUTH, FRAME, 1), np.minimum(speed * dt * np.arange(1, steps + 1), 8.0), dt)
    picked = np.arange(99, steps, 100)
    reference = ode_force(speed, (picked + 1) * dt)
    assert np.max(np.abs(force[picked] - reference)) < 1e-4 * reference.max()


def test_a_twentyfold_finer_step_changes_nothing() -> None:
    coarse = press(Tissue(TRUTH, FRAME, 1), ramp_hold_release(1e-3), 1e-3)
    fine = press(Tissue(TRUTH, FRAME, 1), ramp_hold_release(5e-5), 5e-5)[19::20]
    assert np.max(np.abs(coarse - fine)) < 1e-4 * fine.max()


def test_the_step_is_second_order_accurate() -> None:
    fine = press(Tissue(TRUTH, FRAME, 1), ramp_hold_release(1e-4), 1e-4)

    def error(steps: int) -> float:
        dt = steps * 1e-4
        return float(
            np.max(np.abs(press(Tissue(TRUTH, FRAME, 1), ramp_hold_release(dt), dt) - fine[steps - 1 :: steps]))
        )

    assert error(200) / error(100) > 3.0


def test_frame_and_tissue_are_in_balance_on_every_step() -> None:
    tissue = Tissue(TissueTruth(surface_mm=0.0, prony=(), force_ref_N=5.0, depth_ref_mm=5.0, exponent=1.5), FRAME, 1)
    travel = np.linspace(0.01, 8.0, 500)
    force = press(tissue, travel, 1e-3)
    depth = travel - force / FRAME
    assert np.max(np.abs(5.0 * (depth / 5.0) ** 1.5 - force)) < 2e-9


def test_a_rigid_plate_shows_the_frame() -> None:
    plate = TissueTruth(surface_mm=1.0, force_ref_N=5000.0, depth_ref_mm=0.1, exponent=1.0, prony=())
    travel = np.linspace(0.0, 1.05, 1051)
    force = press(Tissue(plate, FRAME, 1), travel, 1e-3)
    stiffness = 1.0 / (1.0 / FRAME + 0.1 / 5000.0)
    assert force == pytest.approx(np.maximum(travel - 1.0, 0.0) * stiffness, abs=1e-8)


def test_a_step_relaxes_as_the_prony_series_says() -> None:
    tissue = Tissue(TRUTH, math.inf, 1)
    force = press(tissue, np.full(5000, 5.0), 1e-3)
    t = np.arange(5000) * 1e-3
    expected = 5.0 * (0.5 + 0.25 * np.exp(-t / 0.3) + 0.25 * np.exp(-t / 4.0))
    assert force == pytest.approx(expected, rel=2e-3)  # the step itself takes one tick
    assert force[-1] / expected[-1] == pytest.approx(force[0] / expected[0], rel=2e-3)


def test_tissue_never_pulls_and_recovers() -> None:
    tissue = Tissue(TRUTH, FRAME, 1)
    dt = 1e-3
    path = np.concatenate([np.linspace(0, 8, 500), np.full(2000, 8.0), np.linspace(8, 0.2, 400)])
    force = press(tissue, path, dt)
    assert force.min() == 0.0
    released = path[-400:][force[-400:] == 0.0]
    assert released.max() > 0.5  # relaxed tissue lets go before the tool is back at the old surface
    again = press(tissue, np.linspace(0.2, 8.0, 500), dt)
    assert again[10:].max() < force.max()  # pressed again at once it is softer
    rest = press(tissue, np.full(200_000, 0.1), dt)
    fresh = Tissue(TRUTH, FRAME, 1)
    press(fresh, np.full(200_000, 0.1), dt)
    assert rest.min() >= 0.0
    late = press(tissue, np.linspace(0.1, 8.0, 500), dt)
    expected = press(fresh, np.linspace(0.1, 8.0, 500), dt)
    assert late == pytest.approx(expected, rel=1e-3, abs=1e-4)


def test_a_rested_tissue_has_no_memory() -> None:
    tissue = Tissue(TRUTH, FRAME, 1)
    press(tissue, np.concatenate([np.linspace(0, 5, 100), np.linspace(5, -0.3, 100)]), 1e-3)
    assert not tissue.at_rest
    press(tissue, np.full(120_000, -0.3), 1e-3)
    assert tissue.at_rest


def test_pressing_faster_is_stiffer() -> None:
    tissue = Tissue(TRUTH, FRAME, 1)
    depths = np.array([2.0, 5.0])
    slow, fast = force_along_ramp(tissue, depths, 0.5), force_along_ramp(tissue, depths, 5.0)
    assert (fast > 1.02 * slow).all()


def test_hunt_crossley_damping_multiplies_the_force() -> None:
    damped = TissueTruth(surface_mm=0.0, prony=(), exponent=1.5, hunt_crossley_s_mm=0.05)
    plain = TissueTruth(surface_mm=0.0, prony=(), exponent=1.5)
    depths = np.array([1.0, 3.0, 5.0])
    ratio = force_along_ramp(Tissue(damped, math.inf, 1), depths, 2.0) / force_along_ramp(
        Tissue(plain, math.inf, 1), depths, 2.0
    )
    assert ratio == pytest.approx(1.0 + 0.05 * 2.0, rel=1e-4)


def test_the_true_ramp_is_the_closed_form_of_a_linear_tissue() -> None:
    linear = TissueTruth(surface_mm=0.0, force_ref_N=5.0, depth_ref_mm=5.0, exponent=1.0, prony=((0.4, 0.5),))
    depths, speed = np.array([1.0, 4.0]), 2.0
    t = depths / speed
    expected = 1.0 * speed * (0.6 * t + 0.4 * 0.5 * (1 - np.exp(-t / 0.5)))
    assert force_along_ramp(Tissue(linear, FRAME, 1), depths, speed) == pytest.approx(expected, rel=1e-6)


def test_rupture_drops_the_force_once() -> None:
    puncture = TissueTruth(surface_mm=0.0, prony=(), rupture_depth_mm=4.0, rupture_drop=0.6)
    tissue = Tissue(puncture, math.inf, 1)
    travel = np.linspace(0.0, 6.0, 601)
    force = press(tissue, travel, 1e-3)
    drop = int(np.argmin(np.diff(force)))
    assert travel[drop] == pytest.approx(4.0, abs=0.02)
    assert force[drop + 1] / force[drop] == pytest.approx(0.4, abs=0.01)
    assert np.count_nonzero(np.diff(force) < 0) == 1
    assert tissue.ruptured
    press(tissue, np.linspace(6.0, -1.0, 100), 1e-3)
    assert press(tissue, travel, 1e-3).max() == pytest.approx(force[-1], rel=1e-9)  # the hole stays


def test_specimens_and_replicates_scatter_by_seed() -> None:
    scatter = TissueTruth(surface_mm=0.0, specimen_force_scatter=0.1, replicate_force_scatter=0.03)
    forces = [Tissue(scatter, FRAME, seed).force_ref for seed in range(200)]
    assert np.std(forces) / 5.0 == pytest.approx(0.1, rel=0.2)
    assert Tissue(scatter, FRAME, 5).force_ref == forces[5]
    tissue = Tissue(scatter, FRAME, 5)
    once = np.concatenate([np.linspace(0, 2, 50), np.linspace(2, -1, 50)])
    for _ in range(3):
        press(tissue, once, 1e-3)
    assert len(tissue.factors) == 4  # three lifts, and the one that comes next
    assert len(set(tissue.factors)) == 4


def test_small_movements_make_no_new_replicate() -> None:
    tissue = Tissue(TissueTruth(surface_mm=0.0, replicate_force_scatter=0.03), FRAME, 5)
    press(tissue, np.concatenate([np.linspace(0, 2, 50), np.linspace(2, -0.4, 50), np.linspace(-0.4, 2, 50)]), 1e-3)
    assert len(tissue.factors) == 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (TissueTruth(prony=((0.6, 1.0), (0.5, 2.0))), "sum of g below 1"),
        (TissueTruth(prony=((0.1, 1.0),) * 4), "at most 3 terms"),
        (TissueTruth(exponent=0.8), "exponent 0.8 < 1 is not simulated"),
    ],
)
def test_what_is_not_simulated_is_refused(wrong: TissueTruth, message: str) -> None:
    with pytest.raises(TwinError, match=message):
        Tissue(wrong, FRAME, 1)
