"""A number with its standard uncertainty, degrees of freedom and the budget it comes from (GUM, JCGM 100)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

COVERAGE = math.erf(2.0 / math.sqrt(2.0))
"""95.45 %: the coverage of k = 2 when the uncertainty itself is well known."""


@lru_cache(maxsize=256)
def coverage_factor(degrees_of_freedom: float) -> float:
    """Student's t for 95.45 % coverage: 2 with many degrees of freedom, 2.87 with four (GUM, annex G)."""
    if degrees_of_freedom > 1e6:
        return 2.0
    from scipy.special import stdtrit

    return float(stdtrit(degrees_of_freedom, 0.5 + COVERAGE / 2.0))


@dataclass(frozen=True)
class Estimate:
    """A value ± its uncertainty.

    Parameters
    ----------
    value, standard_uncertainty : float
        In ``unit``.
    unit, kind : str
        As in :mod:`bench.units`.
    degrees_of_freedom : float
        Effective (Welch–Satterthwaite); infinite when the uncertainty is not itself estimated from few values.
    budget : mapping of str to float
        Standard uncertainty by source, in ``unit``; the root of the sum of squares is ``standard_uncertainty``.
    expansion : float, optional
        The coverage factor, where it was worked out source by source (:func:`combine`).
    """

    value: float
    standard_uncertainty: float
    unit: str
    kind: str
    degrees_of_freedom: float = math.inf
    budget: Mapping[str, float] = field(default_factory=dict)
    expansion: float | None = None

    @property
    def coverage_factor(self) -> float:
        """k for 95.45 %: 2, or more where few replicates tell the scatter."""
        return coverage_factor(self.degrees_of_freedom) if self.expansion is None else self.expansion

    @property
    def expanded_uncertainty(self) -> float:
        """U = k u, in ``unit``."""
        return self.coverage_factor * self.standard_uncertainty

    def __str__(self) -> str:
        return f"{self.value:.4g} ± {self.expanded_uncertainty:.2g} {self.unit} (k = {self.coverage_factor:.2g})"


@dataclass(frozen=True)
class Source:
    """One source of uncertainty of a parameter vector.

    Its covariance is ``factor @ factor.T``: the columns of ``factor`` (p, m) are independent, the parameters move
    together by each column.
    """

    name: str
    factor: Floats
    degrees_of_freedom: float = math.inf

    def along(self, gradient: Floats) -> float:
        """Standard uncertainty of a scalar with this gradient (p,) by the parameters."""
        return float(np.linalg.norm(gradient @ self.factor))


def combine(
    value: float,
    gradient: Floats,
    sources: Sequence[Source],
    unit: str,
    kind: str,
    extra: Mapping[str, float] | None = None,
) -> Estimate:
    """Propagate the sources to a scalar: root sum of squares, degrees of freedom by Welch–Satterthwaite (GUM G.4).

    The expanded uncertainty is the root of the sum of squares of the sources' own expanded uncertainties, each with its
    own Student factor. The Welch–Satterthwaite factor falls short where two or three replicates stand beside a
    well-known calibration: a scatter that is small by chance then also looks well known. In simulation it covers
    87–96 % for two to six replicates, the sum of expanded uncertainties 95–99 %.

    Parameters
    ----------
    gradient : (p,) float64
        Derivatives of the scalar by the parameters.
    extra : mapping, optional
        Further standard uncertainties of the scalar itself, in ``unit``.
    """
    budget = {source.name: source.along(gradient) for source in sources}
    total = math.sqrt(sum(u**2 for u in budget.values()) + sum(u**2 for u in (extra or {}).values()))
    weak = sum(budget[s.name] ** 4 / s.degrees_of_freedom for s in sources if math.isfinite(s.degrees_of_freedom))
    freedom = total**4 / weak if weak > 0.0 else math.inf
    wide = sum((coverage_factor(s.degrees_of_freedom) * budget[s.name]) ** 2 for s in sources)
    wide += sum((2.0 * u) ** 2 for u in (extra or {}).values())
    expansion = math.sqrt(wide) / total if total > 0.0 else 2.0
    return Estimate(float(value), total, unit, kind, freedom, {**budget, **(extra or {})}, expansion)


def covariance(sources: Sequence[Source], size: int) -> Floats:
    """Sum of the sources' covariances (p, p)."""
    total = np.zeros((size, size))
    for source in sources:
        total += source.factor @ source.factor.T
    return total


def correlation_time(residual: Floats, lengths: Sequence[int]) -> float:
    """Samples per independent sample: the integrated autocorrelation time of residuals, at least 1.

    Parameters
    ----------
    residual : (n,) float64
        Stretches one after another; correlation is counted within each stretch only.
    lengths : sequence of int
        Length of each stretch; they sum to n.

    Notes
    -----
    Summed up to the first non-positive lag (the initial positive sequence of C. J. Geyer, Stat. Sci. 7 (1992) 473). A
    model that misses the curve leaves smooth residuals, so its covariance grows by this factor instead of shrinking
    with the sampling rate.
    """
    stretches = np.split(residual, np.cumsum(lengths)[:-1])
    power = sum(float(part @ part) for part in stretches)
    if power <= 0.0:
        return 1.0
    longest = int(max(lengths))
    size = 1 << (2 * longest - 1).bit_length()
    spectrum = np.sum([np.abs(np.fft.rfft(part, size)) ** 2 for part in stretches], axis=0)
    rho = np.fft.irfft(spectrum, size)[:longest] / power
    below = np.flatnonzero(rho <= 0.0)
    stop = int(below[0]) if below.size else longest
    return float(max(1.0, 1.0 + 2.0 * np.sum(rho[1:stop])))
