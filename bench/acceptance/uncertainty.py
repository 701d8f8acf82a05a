"""Uncertainty budget of a judged metric (GUM, JCGM 100:2008).

Components are combined in quadrature. With few replicates the coverage factor is widened from the normal to Student's t
at the effective degrees of freedom (Welch–Satterthwaite, GUM G.4), so that U keeps the coverage that the criterion's k
stands for: three replicates and k = 2 need 4.5, not 2.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Component:
    """One source of uncertainty, as a standard uncertainty in the metric's unit.

    ``evaluation`` is "A" (from scatter, with its degrees of freedom) or "B" (from other knowledge, infinite degrees).
    """

    name: str
    standard_uncertainty: float
    evaluation: Literal["A", "B"] = "B"
    degrees_of_freedom: float = math.inf


@dataclass(frozen=True)
class Budget:
    """Components and what they come to; ``nominal_coverage_factor`` is the criterion's k."""

    components: tuple[Component, ...]
    nominal_coverage_factor: float = 2.0

    @property
    def combined(self) -> float:
        """Combined standard uncertainty; NaN as soon as one component is NaN."""
        if not self.components:
            return math.nan
        return math.sqrt(sum(component.standard_uncertainty**2 for component in self.components))

    @property
    def degrees_of_freedom(self) -> float:
        """Effective degrees of freedom after Welch and Satterthwaite (GUM G.2b)."""
        spread = sum(
            component.standard_uncertainty**4 / component.degrees_of_freedom
            for component in self.components
            if math.isfinite(component.degrees_of_freedom)
        )
        return self.combined**4 / spread if spread > 0 else math.inf

    @property
    def coverage_factor(self) -> float:
        """Student's t at the coverage that the nominal k has for a normal distribution; never below the nominal k."""
        return coverage_factor(self.nominal_coverage_factor, self.degrees_of_freedom)

    @property
    def expanded(self) -> float:
        """Expanded uncertainty U."""
        return self.coverage_factor * self.combined

    def to_record(self) -> dict[str, object]:
        """Return the budget as plain data; infinite degrees of freedom are None."""
        return {
            "components": [
                {
                    "name": component.name,
                    "standard_uncertainty": component.standard_uncertainty,
                    "evaluation": component.evaluation,
                    "degrees_of_freedom": _finite(component.degrees_of_freedom),
                }
                for component in self.components
            ],
            "combined": self.combined,
            "degrees_of_freedom": _finite(self.degrees_of_freedom),
            "nominal_coverage_factor": self.nominal_coverage_factor,
            "coverage_factor": self.coverage_factor,
            "expanded": self.expanded,
        }


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def coverage_factor(nominal: float, degrees_of_freedom: float) -> float:
    """Return the t factor whose coverage equals that of ``nominal`` for a normal distribution.

    Examples
    --------
    >>> round(coverage_factor(2.0, 4), 2), round(coverage_factor(2.0, 1e9), 2)
    (2.87, 2.0)
    """
    if not math.isfinite(degrees_of_freedom):
        return nominal
    from scipy.special import ndtr, stdtrit

    return max(nominal, float(stdtrit(max(degrees_of_freedom, 1.0), ndtr(nominal))))


def scatter_of_mean(values: Sequence[float] | NDArray[np.float64], name: str = "replicate scatter") -> Component:
    """Return the type A standard uncertainty of the mean of ``values``; NaN for fewer than two."""
    values = np.asarray(values, dtype=np.float64)
    count = values.size
    deviation = float(np.std(values, ddof=1)) / math.sqrt(count) if count >= 2 else math.nan
    return Component(name, deviation, "A", max(count - 1, 1))
