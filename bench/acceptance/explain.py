"""Why a verdict is not a pass, in words a person at the rig can act on."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from bench.acceptance.evidence import Comparison
from bench.identify.contact_fit import ContactFit
from bench.identify.deviation import Prediction
from bench.identify.explain import Explanation, rank_explanations
from bench.identify.press import Press

LOOK_FIRST = "Look first at friction compensation and contact stiffness, not at gains"
#: A single parameter explains a deviation when changing it alone removes at least this share of it.
EXPLAINS = 0.5
_WORDS = {
    "F_ref": "contact stiffness",
    "n": "exponent of the force-depth law",
    "c": "viscous damping",
    "lambda": "viscous damping",
    "contact_point": "contact point",
    "force_zero": "force zero (tare or drift)",
    "frame_stiffness": "frame stiffness",
}


def in_words(parameter: str) -> str:
    """Return a parameter's name in plain words, e.g. ``relaxation time (Prony term 2)``."""
    prony = re.fullmatch(r"(g|tau)(\d)", parameter)
    if prony:
        return f"{'relaxing share' if prony[1] == 'g' else 'relaxation time'} (Prony term {prony[2]})"
    return _WORDS.get(parameter, parameter)


def explain_failure(comparison: Comparison, press: Press) -> str:
    """Name the parameter that explains most of the deviation between a press and its prediction."""
    fit, prediction = comparison.fit, comparison.deviations.prediction
    ranked = [*rank_explanations(fit, press, contact=prediction.contact), *_frame(fit, prediction)]
    best = max(ranked, key=lambda item: item.share)
    reference = {"contact_point": " of the greatest depth", "force_zero": " of the peak force"}.get(best.parameter, "")
    change = f"changed by {best.change_percent:+.2g} %{reference}"
    if best.share < EXPLAINS:
        return (
            f"no single parameter explains half of the deviation of replicate {press.replicate}; the nearest is the "
            f"{in_words(best.parameter)}, {change}: {best.share:.0%}. The form of the model is in doubt. {LOOK_FIRST}"
        )
    return (
        f"{in_words(best.parameter)} explains most of the deviation: {change}, it alone removes {best.share:.0%} of it "
        f"(replicate {press.replicate}). {LOOK_FIRST}"
    )


def _frame(fit: ContactFit, prediction: Prediction) -> list[Explanation]:
    """Return what another stiffness of the frame alone would explain; nothing for a rigid frame."""
    stiffness = fit.frame.stiffness_N_mm
    if not math.isfinite(stiffness):
        return []
    from scipy.optimize import minimize_scalar

    part = prediction.pressing

    def misfit(log_factor: float) -> float:
        moved = prediction.measured_N * (1.0 - math.exp(-log_factor)) / stiffness
        force = fit.predict(prediction.time_s, prediction.depth_mm + moved, prediction.speed_mm_s)
        error = (force - prediction.measured_N)[part]
        return float(error @ error)

    before = misfit(0.0)
    answer = minimize_scalar(misfit, bounds=(-1.5, 1.5), method="bounded", options={"xatol": 1e-5})
    share = 1.0 - min(float(answer.fun), before) / before if before > 0.0 else 0.0
    return [Explanation("frame_stiffness", 100.0 * math.expm1(float(answer.x)), share)]


def explain_margin(budget: Mapping[str, Any]) -> str:
    """Say which component a guard band is made of, and what makes it smaller."""
    components = budget["components"]
    largest = max(components, key=lambda component: component["standard_uncertainty"])
    share = (largest["standard_uncertainty"] / budget["combined"]) ** 2
    remedy = (
        "record more replicates, or for longer"
        if largest["evaluation"] == "A"
        else {
            "contact point": "record a quieter approach or take another contact estimator",
            "specimen memory": "let the specimen settle longer between presses",
        }.get(largest["name"], "measure more precisely")
    )
    return f"value ± U straddles the limit; {share:.0%} of the variance is {largest['name']}: {remedy}"
