"""Least squares for one law on several presses at once: a start by projection, then all parameters together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.curve import Curve
from bench.models.response import response, response_with_derivatives

Floats = NDArray[np.float64]

EXPONENT_RANGE = (0.5, 5.0)
LARGEST_DAMPING = 1e3
CONTACT_WINDOW_MM = 1.0
TOLERANCE = 1e-10


@dataclass(frozen=True)
class Problem:
    """What is fitted.

    The vector of a fit holds the shape in coordinates that keep it physical (logarithms of the relaxation times; the
    second relaxing share as a part of what the first one leaves), then one force scale per press (or one for all), then
    one contact point per press where it is free.
    """

    law: str
    curves: tuple[Curve, ...]
    d_ref: float
    free_contact: bool
    scale_per_press: bool

    @property
    def terms(self) -> int:
        return int(self.law[3:]) if self.law.startswith("qlv") else 0

    @property
    def shape_size(self) -> int:
        return {"power_law": 1, "damped_power_law": 2, "hunt_crossley": 2}.get(self.law, 1 + 2 * self.terms)

    @property
    def scales(self) -> int:
        return len(self.curves) if self.scale_per_press else 1

    @property
    def size(self) -> int:
        return self.shape_size + self.scales + (len(self.curves) if self.free_contact else 0)

    def scale_index(self, press: int) -> int:
        return self.shape_size + (press if self.scale_per_press else 0)

    def contact_index(self, press: int) -> int:
        return self.shape_size + self.scales + press

    def contact(self, vector: Floats, press: int) -> float:
        return float(vector[self.contact_index(press)]) if self.free_contact else self.curves[press].contact.position_mm

    def shape(self, vector: Floats) -> Floats:
        """Shape parameters as the law has them, of a vector."""
        shape = vector[: self.shape_size].copy()
        if self.terms:
            shape[2::2] = np.exp(shape[2::2])
        if self.terms == 2:
            shape[3] *= 1.0 - shape[1]
        return shape

    def shape_slope(self, vector: Floats) -> Floats:
        """Derivative of :meth:`shape` by the vector's shape part (k, k)."""
        slope = np.eye(self.shape_size)
        for i in range(self.terms):
            slope[2 + 2 * i, 2 + 2 * i] = np.exp(vector[2 + 2 * i])
        if self.terms == 2:
            slope[3, 3], slope[3, 1] = 1.0 - vector[1], -vector[3]
        return slope

    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper bounds of the vector."""
        low, high = np.full(self.size, -np.inf), np.full(self.size, np.inf)
        low[0], high[0] = EXPONENT_RANGE
        low[self.shape_size : self.shape_size + self.scales] = 0.0
        if self.shape_size == 2:
            low[1], high[1] = 0.0, LARGEST_DAMPING
        fastest, slowest = tau_range(self.curves)
        for i in range(self.terms):
            low[1 + 2 * i], high[1 + 2 * i] = 0.0, 1.0
            low[2 + 2 * i], high[2 + 2 * i] = np.log(fastest), np.log(slowest)
        if self.free_contact:
            for i, curve in enumerate(self.curves):
                reach = max(CONTACT_WINDOW_MM, 4.0 * curve.contact.standard_uncertainty_mm)
                low[self.contact_index(i)] = curve.contact.position_mm - reach
                high[self.contact_index(i)] = curve.contact.position_mm + reach
        return low, high

    def residual(self, vector: Floats) -> Floats:
        """Weighted model minus measured (N,), the presses one after another."""
        shape = self.shape(vector)
        parts = []
        for i, curve in enumerate(self.curves):
            model = response(self.law, shape, curve.path, self.contact(vector, i), self.d_ref)[curve.fitted]
            parts.append((vector[self.scale_index(i)] * model - curve.force_N[curve.fitted]) * curve.weight)
        return np.concatenate(parts)

    def jacobian(self, vector: Floats) -> Floats:
        """Analytic derivative of :meth:`residual` (N, p)."""
        shape, slope = self.shape(vector), self.shape_slope(vector)
        jacobian = np.zeros((sum(len(c.weight) for c in self.curves), self.size))
        row = 0
        for i, curve in enumerate(self.curves):
            rows = slice(row, row + len(curve.weight))
            row = rows.stop
            value, derivatives = response_with_derivatives(
                self.law, shape, curve.path, self.contact(vector, i), self.d_ref
            )
            scale = float(vector[self.scale_index(i)])
            derivatives = derivatives[:, curve.fitted] * (scale * curve.weight)
            jacobian[rows, : self.shape_size] = derivatives[:-1].T @ slope
            jacobian[rows, self.scale_index(i)] = value[curve.fitted] * curve.weight
            if self.free_contact:
                jacobian[rows, self.contact_index(i)] = derivatives[-1]
        return jacobian


def tau_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Shortest and longest relaxation time a fit may give [s]: half a sample, ten times the record in contact."""
    steps = [float(np.median(curve.path.step)) for curve in curves]
    spans = [float(c.time_s[c.fitted][-1] - c.time_s[c.fitted][0]) for c in curves]
    return 0.5 * min(steps), 10.0 * max(spans)


def least_squares(problem: Problem, start: Floats) -> tuple[Floats, float]:
    """Bounded least squares from one start; return the vector and the sum of squares.

    The trust-region reflective method of M. A. Branch, T. F. Coleman and Y. Li, SIAM J. Sci. Comput. 21 (1999) 1, as
    SciPy has it, with the analytic Jacobian.
    """
    from scipy.optimize import least_squares as trust_region

    low, high = problem.bounds()
    inside = np.clip(start, low + 1e-9, high - 1e-9)
    answer = trust_region(
        problem.residual, inside, problem.jacobian, bounds=(low, high), x_scale="jac",
        ftol=TOLERANCE, xtol=TOLERANCE, gtol=TOLERANCE, max_nfev=200,
    )  # fmt: skip
    if answer.status <= 0:
        raise Refused(
            "the fit did not converge in 200 steps",
            reason="not_converged",
            remedy="The curve does not hold what the model asks for: take a simpler model or a longer hold",
        )
    return np.asarray(answer.x, dtype=np.float64), 2.0 * float(answer.cost)


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
    from bench.identify.starts import project

    return least_squares(problem, extend(problem, project(problem)))
