"""Which parameter a deviation comes from: each is fitted again alone, the others as they are."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.identify.contact_fit import ContactFit
from bench.identify.contact_point import DEFAULT_RULE, BaselineRule, ContactPoint
from bench.identify.deviation import Prediction, predict_press
from bench.identify.press import Press

Floats = NDArray[np.float64]

WIDEST = 1.5
"""A parameter is sought within exp(-1.5) to exp(1.5) of its value: a factor of 4.5 each way."""


@dataclass(frozen=True)
class Explanation:
    """One parameter's part in a deviation.

    Parameters
    ----------
    parameter : str
        A parameter of the fit, ``contact_point`` or ``force_zero``.
    change_percent : float
        By how much it would have to change [%]: of its value; for the contact point of the greatest depth, for the
        force zero of the peak force.
    share : float
        Part of the sum of squared deviations over rise and hold that this change alone removes [1].
    """

    parameter: str
    change_percent: float
    share: float

    def __str__(self) -> str:
        return f"{self.parameter} changed by {self.change_percent:+.1f} % explains {self.share:.0%} of the deviation"


def explain_deviation(
    fit: ContactFit, press: Press, *, contact: ContactPoint | None = None, rule: BaselineRule = DEFAULT_RULE
) -> Explanation:
    """Return the single parameter that explains most of the deviation between a fit's prediction and a press.

    Parameters
    ----------
    fit : ContactFit
    press : Press
    contact : ContactPoint, optional
        As for :func:`~bench.identify.deviation.predict_press`.
    """
    return rank_explanations(fit, press, contact=contact, rule=rule)[0]


def rank_explanations(
    fit: ContactFit, press: Press, *, contact: ContactPoint | None = None, rule: BaselineRule = DEFAULT_RULE
) -> tuple[Explanation, ...]:
    """Return every parameter's explanation, the best first. They overlap: the shares do not add up to one."""
    prediction = predict_press(fit, press, contact=contact, rule=rule)
    part = prediction.pressing
    error = (prediction.predicted_N - prediction.measured_N)[part]
    before = float(error @ error)
    if before <= 0.0:
        return (Explanation(fit.names[0], 0.0, 0.0),)
    found = [_parameter(fit, prediction, i, before) for i in range(len(fit.names))]
    found.append(_contact_point(fit, prediction, before))
    offset = float(error.mean())
    top = float(prediction.measured_N[part].max())
    found.append(Explanation("force_zero", 100.0 * offset / top, len(error) * offset**2 / before))
    return tuple(sorted(found, key=lambda item: -item.share))


def _misfit(fit: ContactFit, prediction: Prediction, values: Floats, shift_mm: float = 0.0) -> float:
    force = fit.predict_with(values, prediction.time_s, prediction.depth_mm - shift_mm, prediction.speed_mm_s)
    error = (force - prediction.measured_N)[prediction.pressing]
    return float(error @ error)


def _parameter(fit: ContactFit, prediction: Prediction, index: int, before: float) -> Explanation:
    from scipy.optimize import minimize_scalar

    name, value = fit.names[index], float(fit.values[index])
    if value <= 0.0:
        return Explanation(name, 0.0, 0.0)

    def misfit(log_factor: float) -> float:
        values = fit.values
        values[index] = value * math.exp(log_factor)
        shares = values[[i for i, n in enumerate(fit.names) if n.startswith("g")]]
        # relaxing shares beyond one would make tissue that pushes less the longer it is pressed, down to pulling
        return math.inf if shares.sum() > 1.0 else _misfit(fit, prediction, values)

    widest = WIDEST
    if name.startswith("g"):
        others = sum(fit.parameters[n].value for n in fit.names if n.startswith("g") and n != name)
        widest = min(WIDEST, math.log(max((1.0 - others) / value, 1.0 + 1e-9)))
    answer = minimize_scalar(misfit, bounds=(-WIDEST, widest), method="bounded", options={"xatol": 1e-5})
    return Explanation(name, 100.0 * math.expm1(float(answer.x)), 1.0 - min(float(answer.fun), before) / before)


def _contact_point(fit: ContactFit, prediction: Prediction, before: float) -> Explanation:
    from scipy.optimize import minimize_scalar

    deepest = float(prediction.depth_mm[prediction.pressing].max())
    reach = 0.3 * deepest
    answer = minimize_scalar(
        lambda shift: _misfit(fit, prediction, fit.values, shift),
        bounds=(-reach, reach),
        method="bounded",
        options={"xatol": 1e-5},
    )
    return Explanation(
        "contact_point", 100.0 * float(answer.x) / deepest, 1.0 - min(float(answer.fun), before) / before
    )
