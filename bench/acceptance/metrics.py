"""The metrics a criterion may name: each a pure function of one press, in one small table.

A new metric is one function here, one line in :data:`METRICS` and its kind in :data:`bench.profile.criteria.METRICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from bench.acceptance.evidence import Evidence, ForceCalibration
from bench.acceptance.measured import MEMORY, ZERO_DRIFT, Measured
from bench.acceptance.plausible import zero_drift_N, zero_drift_rate
from bench.errors import CalibrationError, Refused
from bench.identify import deviation
from bench.identify.deviation import Deviations
from bench.identify.estimate import Estimate
from bench.profile import Criterion

_PRESS_SOURCES = {"press contact point": "contact point", "press noise": "force noise", "press zero": "force zero"}


@dataclass(frozen=True)
class Metric:
    """How a metric is found; ``base_unit`` is what ``function(evidence, index, criterion)`` answers in."""

    function: Callable[[Evidence, int, Criterion], Measured]
    base_unit: str
    predicts: bool


def peak_force_deviation(evidence: Evidence, index: int, criterion: Criterion) -> Measured:
    """(Predicted - measured) / measured peak force [1] in the criterion's segment; ``press`` is rise and hold."""

    def figures(found: Deviations) -> tuple[float, float, float]:
        part = _segment(found.prediction, criterion.segment)
        measured, predicted = found.prediction.measured_N[part], found.prediction.predicted_N[part]
        value = deviation.peak_force_deviation(measured, predicted)
        return value, float(predicted.max()), float(measured.max())

    return _predicted(evidence, index, criterion, figures, lambda found: found.peak)


def rise_slope_deviation(evidence: Evidence, index: int, criterion: Criterion) -> Measured:
    """(Predicted - measured) / measured slope of the rise [1]; see :func:`bench.identify.deviation.rise_slope`."""
    if criterion.segment not in ("rise", "press"):
        raise Refused(
            f"a rise has its slope, the segment '{criterion.segment}' has none",
            reason="segment",
            where=f"criterion {criterion.id}",
            remedy='Write segment = "rise"',
        )

    def figures(found: Deviations) -> tuple[float, float, float]:
        part = found.prediction.pressing
        depth, force = found.prediction.depth_mm[part], found.prediction.measured_N[part]
        measured = deviation.rise_slope(depth, force)
        predicted = deviation.rise_slope(depth, force, found.prediction.predicted_N[part])
        return predicted / measured - 1.0, predicted, measured

    return _predicted(evidence, index, criterion, figures, lambda found: found.slope)


def residual_force(evidence: Evidence, index: int, criterion: Criterion) -> Measured:
    """Mean force [N] around the criterion's time after unloading, zero taken from the free-air baseline."""
    force = _residual(evidence, index, criterion)
    budget = dict(force.budget)
    if evidence.rig.force is not None:
        budget["force calibration"] = evidence.rig.force.standard_uncertainty_N(force.value)
    # a zero that moves at the rate seen between presses, rectangular over the press (GUM 4.3.7)
    budget[ZERO_DRIFT] = zero_drift_N(evidence.presses[index], zero_drift_rate(evidence.presses)) / math.sqrt(3.0)
    return Measured(force.value, measured=force.value, budget=_named(budget))


def residual_force_ratio(evidence: Evidence, index: int, criterion: Criterion) -> Measured:
    """:func:`residual_force` as a share of the press's measured peak force [1]."""
    force = residual_force(evidence, index, criterion)
    press = evidence.presses[index]
    peak = float(press.force_N[press.peak]) - evidence.contact(index).force_zero_N
    if not peak > 0.0:
        raise Refused("the measured peak is not positive", reason="no_contact", where=press.name)
    budget = {name: u / peak for name, u in force.budget.items()}
    return Measured(force.value / peak, measured=force.value, budget=budget)


METRICS: dict[str, Metric] = {
    "peak_force_deviation": Metric(peak_force_deviation, "1", predicts=True),
    "rise_slope_deviation": Metric(rise_slope_deviation, "1", predicts=True),
    "residual_force": Metric(residual_force, "N", predicts=False),
    "residual_force_ratio": Metric(residual_force_ratio, "1", predicts=False),
}


def _in_calibrated_range(calibration: ForceCalibration | None, peak_N: float, where: str) -> None:
    if calibration is not None and not calibration.covers(peak_N):
        raise CalibrationError(
            f"the peak force {peak_N:.3g} N lies outside the calibrated range, {calibration.minimum_N:g} to "
            f"{calibration.maximum_N:g} N ({calibration.certificate})",
            where=where,
            remedy="Use a sensor whose certificate covers these forces",
        )


def _segment(prediction: deviation.Prediction, segment: str) -> slice:
    """Return rise and hold of a prediction for ``press``, else the part named."""
    pressing = prediction.pressing
    hold = prediction.press.hold
    turn = pressing.stop
    if hold.stop > hold.start:
        # the averaged record of the prediction: the hold starts where its time does
        begin = float(prediction.press.time_s[hold.start])
        turn = pressing.start + int((prediction.time_s[pressing] < begin).sum())
    part = {
        "press": pressing,
        "rise": slice(pressing.start, turn),
        "hold": slice(turn, pressing.stop),
    }.get(segment, slice(0, 0))
    if part.stop <= part.start:
        raise Refused(
            f"there is no segment '{segment}' to predict",
            reason="no_segment",
            where=prediction.press.name,
            remedy="Record it, or name another segment in the criterion",
        )
    return part


def _predicted(
    evidence: Evidence,
    index: int,
    criterion: Criterion,
    figures: Callable[[Deviations], tuple[float, float, float]],
    estimate: Callable[[Deviations], Estimate],
) -> Measured:
    """Return the figures of a press (value, predicted, measured) with their budget.

    What counts, and what cancels. The figure is a ratio of predicted to measured, and both come from the same sensors:

    - The sensor's *gain* (a certificate in per cent) multiplies the forces the parameters were fitted to and those they
      are held against: the ratio is the same whatever the gain, exactly. It is left out. A certificate in newtons is no
      common gain (an error may differ between two forces), so it counts, at the peak, for all replicates alike.
    - The *frame's stiffness* and the *encoder's scale* stretch the depths of fit and prediction by the same amount at
      the same force: the parameters take it up, and the path they are evaluated on gives it back. Exact for presses
      alike; between presses whose force differs by a share s about the part s of it is left, far below the replicates'
      own scatter. Left out.
    - The *force zero* of each press is its own baseline's, so it does not cancel: it counts for the press predicted,
      and for those of the fit in their scatter.
    - *Specimen memory* is a protocol's bias of the fit and counts in full for all replicates alike.
    - Of the model's other sources only those from scatter count.

    The residual force has no prediction beside it: there the calibration counts (:func:`residual_force`). The press's
    contact point counts as moved alone; where the press predicts itself, the fit follows, and what is left of the
    change is found by fitting again.
    """
    prediction = criterion.prediction or "other_replicates"
    comparison = evidence.comparison(index, prediction)
    found = comparison.deviations
    _in_calibrated_range(evidence.rig.force, found.measured_peak_N, evidence.presses[index].name)
    value, predicted, measured = figures(found)
    sources = estimate(found).budget
    budget = _named({name: u for name, u in sources.items() if name in _PRESS_SOURCES})
    if prediction == "in_sample":
        u = found.prediction.contact.standard_uncertainty_mm
        deeper, higher = (figures(evidence.comparison(index, prediction, shift).deviations)[0] for shift in (u, -u))
        budget["contact point"] = abs(deeper - higher) / 2.0
    if MEMORY in sources:
        budget[MEMORY] = sources[MEMORY]
    if evidence.rig.force is not None and evidence.rig.force.absolute_N > 0.0:
        budget["force calibration"] = evidence.rig.force.absolute_N / found.measured_peak_N
    freedom = {s.name: s.degrees_of_freedom for s in comparison.fit.sources if math.isfinite(s.degrees_of_freedom)}
    return Measured(value, predicted, measured, budget, {name: sources[name] for name in freedom}, freedom)


def _residual(evidence: Evidence, index: int, criterion: Criterion) -> Estimate:
    if criterion.at_time is None:
        raise Refused(
            "a residual force decays, and the criterion states no time",
            reason="at_time",
            where=f"criterion {criterion.id}",
            remedy='Write at_time = "3 s"',
        )
    return deviation.residual_force(evidence.presses[index], evidence.contact(index), at_s=criterion.at_time.to("s"))


def _named(budget: Mapping[str, float]) -> dict[str, float]:
    names = {**_PRESS_SOURCES, "noise": "force noise"}
    return {names.get(name, name): u for name, u in budget.items()}
