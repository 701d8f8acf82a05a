"""Predicted against measured: peak force, slope of the rise, residual force and depth.

::

    fit = fit_contact(others, contact="fit")
    result = compare(fit, press)                  # the press's own measured path, parameters from the others
    print(result.peak, result.slope, result.residual_force)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.contact_fit import ContactFit, gradient
from bench.identify.contact_point import DEFAULT_RULE, METHODS, BaselineRule, ContactPoint, estimate_contact
from bench.identify.curve import Curve, prepare
from bench.identify.estimate import Estimate, combine
from bench.identify.frame import Frame, compensate_frame
from bench.identify.press import SEGMENTS, Press, decimate

Floats = NDArray[np.float64]

SLOPE_RANGE = (0.2, 0.8)
CALIBRATIONS = ("force calibration", "position calibration")


def peak_force_deviation(measured_N: Floats, predicted_N: Floats) -> float:
    """(Predicted - measured) / measured greatest force [1], signed; both forces (n,) [N] of rise and hold."""
    top = float(measured_N.max())
    if not top > 0.0:
        raise Refused(
            "the measured peak is not positive", reason="no_contact", remedy="Check the force's sign and zero"
        )
    return float(predicted_N.max()) / top - 1.0


def rise_slope(
    depth_mm: Floats, measured_N: Floats, force_N: Floats | None = None, *, share: tuple[float, float] = SLOPE_RANGE
) -> float:
    """Slope dF/d(depth) [N/mm] of a straight line through part of the loading.

    Parameters
    ----------
    depth_mm, measured_N : (n,) float64
        Depth [mm] and measured force [N] of rise and hold. The samples taken are those up to the *measured* peak whose
        *measured* force is within ``share`` of it.
    force_N : (n,) float64, optional
        The force whose slope is asked for; the measured one unless given.
    share : (float, float)
        Part of the peak [1].

    Raises
    ------
    Refused
        ``too_few_samples`` when fewer than three are within the range.
    """
    top = int(np.argmax(measured_N))
    peak = float(measured_N[top])
    loading = measured_N[: top + 1]
    used = np.flatnonzero((loading >= share[0] * peak) & (loading <= share[1] * peak))
    if len(used) < 3 or peak <= 0.0:
        raise Refused(
            f"{len(used)} samples between {share[0]:.0%} and {share[1]:.0%} of the peak",
            reason="too_few_samples",
            remedy="Sample faster: 100 Hz or more at 2 mm/s",
        )
    x = depth_mm[used] - depth_mm[used].mean()
    y = (measured_N if force_N is None else force_N)[used]
    return float(x @ y) / float(x @ x)


def rise_slope_deviation(
    depth_mm: Floats, measured_N: Floats, predicted_N: Floats, *, share: tuple[float, float] = SLOPE_RANGE
) -> float:
    """(Predicted - measured) / measured slope of the rise [1], signed; both lines through the same samples."""
    measured = rise_slope(depth_mm, measured_N, share=share)
    return rise_slope(depth_mm, measured_N, predicted_N, share=share) / measured - 1.0


def residual_force(press: Press, contact: ContactPoint, *, at_s: float = 3.0, window_s: float = 0.5) -> Estimate:
    """Mean force [N] around a stated time after the end of unloading, zero taken from the free-air baseline.

    Parameters
    ----------
    press : Press
    contact : ContactPoint
        Gives the force zero and its uncertainty.
    at_s, window_s : float
        Centre of the window after the unloading's end, and its length [s].

    Raises
    ------
    Refused
        ``residual_too_short`` when the record does not hold the window.
    """
    if press.residual.stop <= press.residual.start:
        raise Refused(
            "the press has no residual part", reason="residual_too_short", where=press.name,
            remedy="Wait after unloading",
        )  # fmt: skip
    time_s = press.time_s[press.residual]
    since = time_s - time_s[0]
    used = (since >= at_s - window_s / 2.0) & (since <= at_s + window_s / 2.0)
    step = float(np.median(np.diff(time_s))) if len(time_s) > 1 else math.inf
    if since[-1] + step < at_s + window_s / 2.0 or not used.any():
        raise Refused(
            f"the record ends {since[-1]:.2g} s after unloading, {at_s + window_s / 2.0:.2g} s are asked for",
            reason="residual_too_short",
            where=press.name,
            remedy="Wait longer after unloading, or ask for an earlier time",
        )
    force = press.force_N[press.residual][used]
    count = len(force)
    noise = float(force.std(ddof=1)) / math.sqrt(count) if count > 1 else contact.noise_N
    budget = {"noise": noise, "force zero": contact.force_zero_uncertainty_N}
    total = math.sqrt(sum(u**2 for u in budget.values()))
    return Estimate(float(force.mean()) - contact.force_zero_N, total, "N", "force", budget=budget)


def residual_depth(press: Press, contact: ContactPoint, *, frame: Frame, rate_hz: float | None = 100.0) -> Estimate:
    """Depth [mm] at which the force comes back to zero on unloading, within 5 noise: what the tissue has not regained.

    Raises
    ------
    Refused
        ``residual_too_short`` when the press has no unloading or the force never comes back.
    """
    coarse = decimate(press, rate_hz) if rate_hz else press
    force = coarse.force_N[coarse.unload] - contact.force_zero_N
    position = compensate_frame(coarse.position_mm[coarse.unload], force, frame.stiffness_N_mm)
    within = np.flatnonzero(force <= 5.0 * contact.noise_N)
    if not within.size:
        raise Refused(
            "the force does not come back to zero while unloading",
            reason="residual_too_short",
            where=press.name,
            remedy="Record the unloading, back to where contact began",
        )
    first = int(within[0])
    spacing = abs(float(position[first] - position[max(first - 1, 0)]))
    budget = {"contact point": contact.standard_uncertainty_mm, "sampling": spacing / math.sqrt(12.0)}
    total = math.hypot(*budget.values())
    return Estimate(float(position[first]) - contact.position_mm, total, "mm", "length", budget=budget)


@dataclass(frozen=True)
class Prediction:
    """A press beside its prediction: time [s], depth [mm], measured speed [mm/s] and both forces [N], each (n,)."""

    time_s: Floats
    depth_mm: Floats
    speed_mm_s: Floats
    measured_N: Floats
    predicted_N: Floats
    pressing: slice
    """Rise and hold."""
    contact: ContactPoint
    press: Press


def predict_press(
    fit: ContactFit, press: Press, *, contact: ContactPoint | None = None, rule: BaselineRule = DEFAULT_RULE
) -> Prediction:
    """Predict a press along its own measured path with the parameters of a fit.

    Parameters
    ----------
    contact : ContactPoint, optional
        Where depth is counted from. Unless given it is found as it was for the fit: by the same estimator, or, where
        the fit's contact points were free, by the power-law estimator, moved by as much as the fit moved the same
        estimator's answers on its own presses.
    """
    curve = curve_for(fit, press, contact, rule)
    depth = curve.depth_mm
    start = _origin(curve.press)
    stop = curve.press.hold.stop if curve.press.hold.stop > curve.press.hold.start else curve.press.rise.stop
    return Prediction(
        curve.time_s,
        depth,
        curve.path.speed_mm_s,
        curve.force_N,
        fit.predict(curve.time_s, depth, curve.path.speed_mm_s),
        slice(curve.press.rise.start - start, stop - start),
        curve.contact,
        press,
    )


def curve_for(fit: ContactFit, press: Press, contact: ContactPoint | None, rule: BaselineRule) -> Curve:
    """Prepare a press for prediction by a fit: all its segments, the fit's rate, frame and contact method."""
    rate_hz = fit.steps.get("rate_hz")
    method = str(fit.steps.get("contact"))
    point = contact
    if point is None:
        fitted = method not in METHODS
        point = estimate_contact(press, "power_law" if fitted else method, rule=rule, rate_hz=rate_hz)
        if fitted and "contact_start_mm" in fit.steps:
            point = _shifted(fit, point)
    present = [name for name in SEGMENTS[1:] if press.segment(name).stop > press.segment(name).start]
    return prepare(press, point, frame=fit.frame, segments=present, hold_s=None, from_contact=False, rate_hz=rate_hz)


def _origin(press: Press) -> int:
    return int(press.baseline.start if press.baseline.stop > press.baseline.start else press.rise.start)


def _shifted(fit: ContactFit, point: ContactPoint) -> ContactPoint:
    """Move an estimated contact point by what the fit moved its own presses' estimates, on average.

    Estimator and fit differ by a bias that relaxation during the ramp puts into the estimator; it is alike for presses
    alike, and it does not depend on how stiff this one is.
    """
    moves = np.array([point.position_mm for point in fit.contacts]) - np.array(fit.steps["contact_start_mm"])
    scatter = float(moves.std(ddof=1)) if len(moves) > 1 else point.standard_uncertainty_mm
    shared = max(found.standard_uncertainty_mm for found in fit.contacts)
    return replace(
        point,
        position_mm=point.position_mm + float(moves.mean()),
        standard_uncertainty_mm=math.hypot(scatter, shared),
        method=f"{point.method}, shifted as in the fit",
    )


@dataclass(frozen=True)
class Deviations:
    """How far a prediction is from a press.

    ``peak`` and ``slope`` are signed shares [1], predicted against measured. The residual quantities are ``None`` with
    the reason in ``declined`` where the record does not hold them.
    """

    peak: Estimate
    slope: Estimate
    measured_peak_N: float
    predicted_peak_N: float
    residual_force: Estimate | None
    residual_ratio: Estimate | None
    residual_depth: Estimate | None
    declined: dict[str, str]
    prediction: Prediction


def compare(
    fit: ContactFit,
    press: Press,
    *,
    contact: ContactPoint | None = None,
    rule: BaselineRule = DEFAULT_RULE,
    residual_at_s: float = 3.0,
    residual_window_s: float = 0.5,
) -> Deviations:
    """Compare a press with its prediction by a fit.

    The uncertainty of ``peak`` and ``slope`` holds the fit's parameters, this press's contact point, noise and force
    zero. The calibrations of force and position are left out: they act on both sides alike.

    Raises
    ------
    Refused
        What the contact estimators refuse, ``too_few_samples`` for the slope.
    """
    prediction = predict_press(fit, press, contact=contact, rule=rule)
    part = prediction.pressing
    time_s, depth, speed = prediction.time_s, prediction.depth_mm, prediction.speed_mm_s
    measured = prediction.measured_N[part]

    def both(values: Floats, shift_mm: float = 0.0) -> tuple[float, float]:
        force = fit.predict_with(values, time_s, depth - shift_mm, speed)[part]
        return peak_force_deviation(measured, force), rise_slope_deviation(depth[part] - shift_mm, measured, force)

    peak, slope = both(fit.values)
    sources = [source for source in fit.sources if source.name not in CALIBRATIONS]
    shift = prediction.contact.standard_uncertainty_mm
    deeper, higher = both(fit.values, shift), both(fit.values, -shift)
    top, noise = float(measured.max()), prediction.contact.noise_N
    zero = prediction.contact.force_zero_uncertainty_N
    extras = [
        {"press contact point": abs(deeper[0] - higher[0]) / 2.0, "press noise": noise / top, "press zero": zero / top},
        {
            "press contact point": abs(deeper[1] - higher[1]) / 2.0,
            "press noise": _slope_noise(depth[part], measured, noise),
        },
    ]
    answers = [
        combine(value, gradient(lambda v, i=i: both(v)[i], fit.values), sources, "1", "ratio", extra)
        for i, (value, extra) in enumerate(zip((peak, slope), extras, strict=True))
    ]
    declined: dict[str, str] = {}
    force = ratio = left = None
    try:
        force = residual_force(press, prediction.contact, at_s=residual_at_s, window_s=residual_window_s)
        ratio = Estimate(
            force.value / top, force.standard_uncertainty / top, "1", "ratio", force.degrees_of_freedom,
            {name: u / top for name, u in force.budget.items()},
        )  # fmt: skip
    except Refused as refusal:
        declined["residual_force"] = str(refusal)
    try:
        left = residual_depth(press, prediction.contact, frame=fit.frame)
    except Refused as refusal:
        declined["residual_depth"] = str(refusal)
    return Deviations(
        answers[0], answers[1], top, float(prediction.predicted_N[part].max()), force, ratio, left, declined, prediction
    )


def _slope_noise(depth_mm: Floats, measured_N: Floats, noise_N: float) -> float:
    """Standard uncertainty of the measured slope by noise, as a share of it."""
    top = int(np.argmax(measured_N))
    loading = measured_N[: top + 1]
    used = (loading >= SLOPE_RANGE[0] * loading[-1]) & (loading <= SLOPE_RANGE[1] * loading[-1])
    x = depth_mm[: top + 1][used]
    return noise_N / float(np.sqrt(((x - x.mean()) ** 2).sum())) / abs(rise_slope(depth_mm, measured_N))
