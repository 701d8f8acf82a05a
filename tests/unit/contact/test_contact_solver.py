"""The optimiser against SciPy's, and the starts against each other."""

import numpy as np
import pytest
from scipy.optimize import least_squares as trust_region

from bench.errors import Refused
from bench.identify import solve
from bench.identify.contact_point import estimate_contact
from bench.identify.curve import prepare
from bench.identify.problem import EXPONENT_RANGE, Problem
from bench.identify.solve import least_squares
from bench.identify.starts import project

TISSUE = {"n": 1.4, "g": (0.25, 0.2), "tau_s": (0.4, 5.0), "hold_s": 6.0, "noise_N": 4e-3}


def problem_of(press, law, seeds=(1,), free=True, method="power_law", **settings):
    curves = []
    for seed in seeds:
        one = press(seed, **settings)
        curves.append(prepare(one, estimate_contact(one, method), from_contact=not free, rate_hz=50.0))
    return Problem(law, tuple(curves), 5.0, free, True)


@pytest.mark.parametrize("law", ["power_law", "hunt_crossley", "qlv1", "qlv2"])
@pytest.mark.parametrize("free", [True, False])
def test_the_optimum_is_that_of_the_trust_region_method(press, law, free):
    problem = problem_of(press, law, seeds=(1, 2), free=free, **TISSUE)
    vector, square = solve.solve(problem)
    low, high = problem.bounds()
    reference = trust_region(
        problem.residual, np.clip(vector * 1.02, low + 1e-9, high - 1e-9), problem.jacobian, bounds=(low, high),
        x_scale="jac", ftol=1e-12, xtol=1e-12, gtol=1e-12,
    )  # fmt: skip
    assert square <= 2.0 * reference.cost * (1.0 + 1e-7)
    # an elastic law that cannot follow the hold has a flat, cornered valley: there the sum of squares is what counts
    np.testing.assert_allclose(vector, reference.x, rtol=1e-2 if law == "power_law" else 2e-4)


def test_the_summed_blocks_are_the_normal_equations(press):
    problem = problem_of(press, "qlv2", seeds=(1, 2, 3), **TISSUE)
    vector = solve.extend(problem, project(problem))
    matrix, gradient, square = problem.normal(vector)
    jacobian, residual = problem.jacobian(vector), problem.residual(vector)
    np.testing.assert_allclose(matrix, jacobian.T @ jacobian, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(gradient, jacobian.T @ residual, rtol=1e-6, atol=1e-9)
    assert square == pytest.approx(float(residual @ residual))


@pytest.mark.parametrize("law", ["power_law", "damped_power_law", "hunt_crossley", "qlv1", "qlv2"])
def test_the_analytic_jacobian_is_that_of_the_residual(press, law):
    problem = problem_of(press, law, seeds=(1, 2), **TISSUE)
    vector = solve.extend(problem, project(problem))
    analytic = problem.jacobian(vector)
    for i in range(problem.size):
        step = np.zeros(problem.size)
        step[i] = 1e-6
        numeric = (problem.residual(vector + step) - problem.residual(vector - step)) / 2e-6
        # a step that the contact point moves across a sample is no derivative: few samples may differ
        off = np.abs(analytic[:, i] - numeric) > 1e-4 * max(1.0, float(np.abs(numeric).max()))
        assert off.mean() < 0.01


@pytest.mark.parametrize("start_tau", [(0.05, 1.0), (1.0, 30.0), (4.0, 5.0)])
def test_far_starts_end_in_the_same_valley(press, start_tau):
    problem = problem_of(press, "qlv2", **TISSUE)
    best = solve.solve(problem)
    start = best[0].copy()
    start[:5] = [1.8, 0.4, np.log(start_tau[0]), 0.4, np.log(start_tau[1])]
    _, square = least_squares(problem, start)
    assert square == pytest.approx(best[1], rel=1e-6)


def test_terms_are_numbered_by_their_times(press):
    problem = problem_of(press, "qlv2", **TISSUE)
    vector, square = solve.solve(problem)
    assert vector[2] < vector[4]
    shape = problem.shape(vector)
    swapped = vector.copy()
    swapped[[2, 4]] = vector[[4, 2]]
    swapped[1], swapped[3] = shape[3], shape[1] / (1.0 - shape[3])
    assert float(np.sum(problem.residual(swapped) ** 2)) == pytest.approx(square)
    np.testing.assert_allclose(solve._faster_first(problem, swapped), vector, rtol=1e-9)


def test_a_bound_holds_and_the_rest_still_finds_its_optimum(press):
    """A curve steeper than any exponent allowed: the exponent sits at its bound, the scale at its best for that."""
    problem = problem_of(press, "power_law", n=12.0, F_ref=0.1, noise_N=1e-3, free=False, method="threshold_5sigma")
    vector, square = solve.solve(problem)
    assert vector[0] == pytest.approx(EXPONENT_RANGE[1])
    scale = vector[1]
    for factor in (0.999, 1.001):
        moved = np.array([vector[0], scale * factor])
        assert float(np.sum(problem.residual(moved) ** 2)) > square


def test_an_endless_search_is_refused_with_a_remedy(press, monkeypatch):
    monkeypatch.setattr(solve, "STEPS", 1)
    problem = problem_of(press, "qlv2", **TISSUE)
    start = solve.extend(problem, project(problem)) * 1.3
    with pytest.raises(Refused, match="did not converge") as refusal:
        least_squares(problem, start)
    assert refusal.value.reason == "not_converged"
