"""A metric of one replicate with its budget, and what becomes of several of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.acceptance.uncertainty import Budget, Component, scatter_of_mean

MEMORY = "specimen memory"
ZERO_DRIFT = "zero drift"
SCATTER = "replicate scatter"
ALIGNMENT = "time alignment"
TRANSDUCER = "transducer calibration"
ENCODER = "encoder calibration"
DAQ = "DAQ calibration"
#: Sources that act on all replicates alike: averaging over replicates does not reduce them.
COMMON = (
    "contact point", "force calibration", MEMORY, ZERO_DRIFT, ALIGNMENT, TRANSDUCER, ENCODER, DAQ,
)  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """A metric of one replicate.

    Parameters
    ----------
    value : float
        Signed, in the metric's base unit.
    predicted, measured : float
        What was compared, in the metric's own units; NaN where there is no prediction.
    budget, model_budget : mapping of str to float
        Standard uncertainty in the base unit by source: of the replicate itself, and of the parameters that predict it.
    degrees_of_freedom, model_degrees_of_freedom : mapping of str to float
        Of those entries of ``budget`` and ``model_budget`` that come from scatter.
    """

    value: float
    predicted: float = math.nan
    measured: float = math.nan
    budget: Mapping[str, float] = field(default_factory=dict)
    model_budget: Mapping[str, float] = field(default_factory=dict)
    model_degrees_of_freedom: Mapping[str, float] = field(default_factory=dict)
    degrees_of_freedom: Mapping[str, float] = field(default_factory=dict)


def aggregate(found: Sequence[Measured], how: str, coverage_factor: float, scale: float = 1.0) -> tuple[float, Budget]:
    """Aggregate the magnitudes of a metric over replicates, with the uncertainty of the aggregate.

    Parameters
    ----------
    found : sequence of Measured
        One per replicate.
    how : {"mean", "max"}
        A mean over a single replicate is that replicate. A mean has the scatter of its replicates in its uncertainty;
        an entry :data:`SCATTER` in their budgets counts for a maximum only.
    coverage_factor, scale : float
        The criterion's k; factor from the metric's base unit to the row's.

    Returns
    -------
    value : float
        In the row's unit; NaN as soon as one replicate is.
    budget : Budget
        In the row's unit.
    """
    magnitudes = np.array([scale * abs(one.value) for one in found])
    if how == "mean" and len(found) > 1:
        components = [scatter_of_mean(magnitudes, SCATTER)]
        for name in sorted({name for one in found for name in one.budget} - {SCATTER}):
            parts = scale * np.array([one.budget.get(name, 0.0) for one in found])
            reduced = float(np.mean(parts)) if name in COMMON else math.sqrt(float(np.sum(parts**2))) / len(found)
            components.append(Component(name, reduced))
        return float(magnitudes.mean()), Budget(tuple(components), coverage_factor)
    largest = found[int(np.argmax(np.nan_to_num(magnitudes, nan=np.inf)))]
    components = [
        _component(name, scale * u, largest.degrees_of_freedom.get(name, math.inf))
        for name, u in sorted(largest.budget.items())
    ]
    components += [
        _component(f"parameters: {name}", scale * u, largest.model_degrees_of_freedom.get(name, math.inf))
        for name, u in sorted(largest.model_budget.items())
    ]
    return float(magnitudes.max()), Budget(tuple(components), coverage_factor)


def _component(name: str, standard_uncertainty: float, freedom: float) -> Component:
    return Component(name, standard_uncertainty, "A" if math.isfinite(freedom) else "B", freedom)
