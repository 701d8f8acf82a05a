"""What a contact fit solves: one law on several presses at once, with its residual, its derivatives and its bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.identify.curve import Curve
from bench.models.response import response, response_with_derivatives

Floats = NDArray[np.float64]

EXPONENT_RANGE = (0.5, 5.0)
LARGEST_DAMPING = 1e3
CONTACT_WINDOW_MM = 1.0


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

    def columns(self, press: int) -> list[int]:
        """Indices of the parameters that one press depends on, in the order of :meth:`rows`."""
        contact = [self.contact_index(press)] if self.free_contact else []
        return [*range(self.shape_size), self.scale_index(press), *contact]

    def rows(self, vector: Floats, press: int, shape: Floats, slope: Floats) -> Floats:
        """One press's derivatives by its :meth:`columns`, then its residual, all weighted (c + 1, m)."""
        curve, k = self.curves[press], self.shape_size
        value, derivatives = response_with_derivatives(
            self.law, shape, curve.path, self.contact(vector, press), self.d_ref
        )
        scale = float(vector[self.scale_index(press)])
        table = np.empty((k + 2 + self.free_contact, len(curve.weight)))
        np.matmul(scale * slope.T, derivatives[:-1, curve.fitted], out=table[:k])
        table[k] = value[curve.fitted]
        np.multiply(table[k], scale, out=table[-1])
        table[-1] -= curve.force_N[curve.fitted]
        if self.free_contact:
            np.multiply(derivatives[-1, curve.fitted], scale, out=table[k + 1])
        table *= curve.weight
        return table

    def jacobian(self, vector: Floats) -> Floats:
        """Analytic derivative of :meth:`residual` (N, p)."""
        shape, slope = self.shape(vector), self.shape_slope(vector)
        jacobian = np.zeros((sum(len(c.weight) for c in self.curves), self.size))
        row = 0
        for i, curve in enumerate(self.curves):
            stop = row + len(curve.weight)
            jacobian[row:stop, self.columns(i)] = self.rows(vector, i, shape, slope)[:-1].T
            row = stop
        return jacobian

    def normal(self, vector: Floats) -> tuple[Floats, Floats, float]:
        """Normal matrix (p, p), gradient (p,) and sum of squares; the presses' blocks are small and added up."""
        shape, slope = self.shape(vector), self.shape_slope(vector)
        matrix, gradient, square = np.zeros((self.size, self.size)), np.zeros(self.size), 0.0
        for i in range(len(self.curves)):
            rows, columns = self.rows(vector, i, shape, slope), self.columns(i)
            gram = rows @ rows.T
            matrix[np.ix_(columns, columns)] += gram[:-1, :-1]
            gradient[columns] += gram[:-1, -1]
            square += float(gram[-1, -1])
        return matrix, gradient, square


def tau_range(curves: Sequence[Curve]) -> tuple[float, float]:
    """Shortest and longest relaxation time a fit may give [s]: half a sample, ten times the record in contact."""
    steps = [float(np.median(curve.path.step)) for curve in curves]
    spans = [float(c.time_s[c.fitted][-1] - c.time_s[c.fitted][0]) for c in curves]
    return 0.5 * min(steps), 10.0 * max(spans)
