"""Least squares for one law on several presses at once: a start by projection, then all parameters together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.problem import Floats, Problem
from bench.identify.starts import project
from bench.models.response import response

TOLERANCE = 1e-10
ROUNDING = 1e-20
STEPS = 200


def least_squares(problem: Problem, start: Floats) -> tuple[Floats, float]:
    """Bounded least squares from one start; return the vector and the sum of squares.

    Levenberg–Marquardt on the presses' summed normal equations (D. W. Marquardt, J. SIAM 11 (1963) 431; damping after
    H. B. Nielsen, report IMM-REP-1999-05). A step is cut back to the bounds; a parameter at its bound stays there while
    the gradient pushes it outward. It ends when an undamped step promises less than 1e-10 of the sum of squares.

    Raises
    ------
    Refused
        ``not_converged``.
    """
    low, high = problem.bounds()
    vector = np.clip(start, low, high)
    matrix, gradient, square = problem.normal(vector)
    floor = ROUNDING * sum(float(np.sum((c.weight * c.force_N[c.fitted]) ** 2)) for c in problem.curves)
    damping, growth = 1e-3, 2.0
    for _ in range(STEPS):
        free = ~(((vector <= low) & (gradient > 0.0)) | ((vector >= high) & (gradient < 0.0)))
        step = _step(matrix, gradient, free, 1e-12)
        if -float(gradient @ step) <= TOLERANCE * square + floor:
            return vector, square
        trial = np.clip(vector + _step(matrix, gradient, free, damping), low, high)
        move = trial - vector
        promised = -float(2.0 * gradient @ move + move @ matrix @ move)
        fresh = problem.normal(trial)
        gain = (square - fresh[2]) / promised if promised > 0.0 else -1.0
        if gain > 1e-4:
            vector, (matrix, gradient, square) = trial, fresh
            damping, growth = max(damping * max(1.0 / 3.0, 1.0 - (2.0 * gain - 1.0) ** 3), 1e-12), 2.0
        else:
            damping, growth = damping * growth, growth * 2.0
            if damping > 1e15:
                return vector, square
    raise Refused(
        f"the fit did not converge in {STEPS} steps",
        reason="not_converged",
        where=problem.law,
        remedy="The curve does not hold what the model asks for: take a simpler model or a longer hold",
    )


def _step(matrix: Floats, gradient: Floats, free: NDArray[np.bool_], damping: float) -> Floats:
    """Damped Gauss–Newton step in the free coordinates, scaled by the diagonal; zero in the others."""
    step = np.zeros(len(gradient))
    index = np.flatnonzero(free)
    if not index.size:
        return step
    scale = 1.0 / np.sqrt(np.maximum(matrix.diagonal()[index], 1e-300))
    block = matrix[np.ix_(index, index)] * scale[:, None] * scale
    block.flat[:: len(index) + 1] += damping
    step[index] = -scale * np.linalg.solve(block, scale * gradient[index])
    return step


def extend(problem: Problem, single: Floats) -> Floats:
    """Write the answer for the first press as a start for all: same shape, each press its own best scale."""
    start = np.empty(problem.size)
    start[: problem.shape_size] = single[: problem.shape_size]
    shape = problem.shape(single)
    shift = single[-1] - problem.curves[0].contact.position_mm if problem.free_contact else 0.0
    scales = []
    for i, curve in enumerate(problem.curves):
        contact = curve.contact.position_mm + float(shift)
        model = response(problem.law, shape, curve.path, contact, problem.d_ref)[curve.fitted]
        scales.append(float(model @ curve.force_N[curve.fitted]) / max(float(model @ model), 1e-300))
        if problem.free_contact:
            start[problem.contact_index(i)] = contact
    start[problem.shape_size : problem.shape_size + problem.scales] = (
        scales if problem.scale_per_press else np.mean(scales)
    )
    return start


def solve(problem: Problem) -> tuple[Floats, float]:
    """Best fit: the start comes from the first press (:func:`~bench.identify.starts.project`), the answer from all."""
    vector, square = least_squares(problem, extend(problem, project(problem)))
    return _faster_first(problem, vector), square


def _faster_first(problem: Problem, vector: Floats) -> Floats:
    """Number the relaxation terms by their times; the fit is the same."""
    if problem.terms < 2 or vector[2] <= vector[4]:
        return vector
    first, second = float(problem.shape(vector)[1]), float(problem.shape(vector)[3])
    swapped = vector.copy()
    swapped[[2, 4]] = vector[[4, 2]]
    swapped[1], swapped[3] = second, min(first / max(1.0 - second, 1e-12), 1.0)
    return swapped
