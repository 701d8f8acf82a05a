"""Where the tool touches: several estimators, each with its uncertainty, none of them silent about which one it was.

::

    contact = estimate_contact(press, "power_law")
    print(contact.position_mm, contact.standard_uncertainty_mm, contact.method)
    for method, answer in compare_contact(press).items(): ...
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import correlation_time
from bench.identify.powerlaw import PowerLawFit, fit_power_law
from bench.identify.press import Press, check_press, decimate

Floats = NDArray[np.float64]

ANALYSIS_RATE_HZ = 100.0
"""Records are averaged to this rate before a contact point is sought: noise falls, 2 mm/s still gives 0.02 mm."""
FEWEST_BASELINE_SAMPLES = 4


@dataclass(frozen=True)
class BaselineRule:
    """What free air a fit demands before contact; lowering it is recorded with the result.

    Parameters
    ----------
    minimum_s, minimum_mm : float
        Time [s] and travel [mm] between the start of the press's record and the contact point.
    """

    minimum_s: float = 1.0
    minimum_mm: float = 2.0


DEFAULT_RULE = BaselineRule()


@dataclass(frozen=True)
class ContactPoint:
    """Where and when contact began, and the zero and noise the force had before.

    ``free_air_s`` and ``free_air_mm`` are what there was before contact, ``rule`` what was asked for.
    """

    position_mm: float
    standard_uncertainty_mm: float
    time_s: float
    force_zero_N: float
    force_zero_uncertainty_N: float
    noise_N: float
    method: str
    free_air_s: float
    free_air_mm: float
    rule: BaselineRule = DEFAULT_RULE
    rate_hz: float | None = None

    def record(self) -> dict[str, Any]:
        """Return the point as plain data for a report or an archive."""
        return asdict(self)


@dataclass(frozen=True)
class Approach:
    """The part of a press up to its peak, as the estimators see it: time, position and force, and the baseline."""

    time_s: Floats
    position_mm: Floats
    force_N: Floats
    zero_N: float
    zero_uncertainty_N: float
    noise_N: float
    above: int
    """First sample from which the force stays beyond zero + 5 noise."""

    @property
    def rise_N(self) -> float:
        return float(self.force_N[-1]) - self.zero_N

    def until(self, share: float) -> int:
        """Index just after the force first reaches ``share`` of the rise."""
        return int(np.argmax(self.force_N - self.zero_N >= share * self.rise_N)) + 1


def approach(press: Press) -> Approach:
    """Baseline and loading up to the peak.

    Raises
    ------
    Refused
        ``baseline_too_short`` when there are not even a few samples before contact, ``no_contact`` when the force never
        leaves the noise.
    """
    start = press.baseline.start if press.baseline.stop > press.baseline.start else press.rise.start
    stop = min(press.peak + 1, press.rise.stop) if press.peak >= press.rise.start else press.rise.stop
    time_s, position, force = (a[start:stop] for a in (press.time_s, press.position_mm, press.force_N))
    quiet = int(press.baseline.stop - start)
    if quiet < FEWEST_BASELINE_SAMPLES:
        # no standing baseline: the first half of the way to a clear rise of force
        clear = int(np.argmax(force - force[0] > 0.1 * (force.max() - force[0])))
        quiet = int(clear) // 2
    if quiet < FEWEST_BASELINE_SAMPLES:
        raise Refused(
            f"{quiet} samples before contact",
            reason="baseline_too_short",
            where=press.name,
            remedy="Start in free air: at least 1 s and 2 mm before the surface",
        )
    base = force[:quiet]
    zero, noise = float(base.mean()), float(base.std(ddof=1))
    beyond = force - zero > max(5.0 * noise, 1e-12)
    peak = float(force.max()) - zero
    if not beyond[-3:].all() or peak < 10.0 * noise or peak <= 0.0:
        raise Refused(
            f"the force rises by {peak:.3g} N at most, noise is {noise:.2g} N",
            reason="no_contact",
            where=press.name,
            remedy="Check the surface position, the sign of the force and the specimen",
        )
    # the last sample within the noise before half the peak: what comes after stays beyond it
    half = int(np.argmax(force - zero >= 0.5 * peak))
    within = np.flatnonzero(~beyond[:half])
    above = int(within[-1]) + 1 if within.size else 0
    share = correlation_time(base - zero, [quiet])
    return Approach(time_s, position, force, zero, noise * math.sqrt(min(share, quiet) / quiet), noise, above)


def _threshold(a: Approach) -> tuple[float, float]:
    """First sample that stays beyond zero + 5 noise.

    The answer lies deeper than the contact by the depth at which the force reaches the threshold. That depth is
    estimated from how far the tool goes until the force doubles, (2^(1/n) - 1) times it, for n = 1.5, and counts as
    uncertainty: the point itself is not corrected, as users of a threshold expect.
    """
    position = a.position_mm[a.above]
    double = int(np.argmax(a.force_N[a.above :] - a.zero_N >= 2.0 * (a.force_N[a.above] - a.zero_N))) + a.above
    late = max(float(a.position_mm[double] - position), 0.0) / (2.0 ** (1.0 / 1.5) - 1.0)
    spacing = float(position - a.position_mm[max(a.above - 1, 0)])
    return float(position), math.hypot(late, spacing / math.sqrt(12.0))


def _line_crossing(a: Approach, share: float) -> tuple[float, float]:
    """Crossing of the zero with a line through the loading up to ``share`` of the rise, and its random part [mm]."""
    part = slice(a.above, max(a.until(share), a.above + 4))
    x, y = a.position_mm[part], a.force_N[part] - a.zero_N
    x0 = x.mean()
    spread = float(((x - x0) ** 2).sum())
    slope = float(((x - x0) * y).sum()) / spread if spread > 0.0 else 0.0
    if len(x) < 4 or slope <= 0.0:
        raise Refused("no line through the early loading", reason="no_contact", remedy="Sample faster near contact")
    crossing = float(x0 - y.mean() / slope)
    random = a.noise_N / slope * math.sqrt(1.0 / len(x) + (x0 - crossing) ** 2 / spread)
    return crossing, math.hypot(random, a.zero_uncertainty_N / slope)


def _two_line(a: Approach) -> tuple[float, float]:
    """Constant and line: the early loading (to 10 % of the rise) extended down to the zero.

    A power law is not straight: the crossing lies too deep by a part of the depth that the line spans. How much it
    moves between lines to 20 % and to 10 % tells the scale of that bias, which counts as uncertainty.
    """
    crossing, random = _line_crossing(a, 0.1)
    wider, _ = _line_crossing(a, 0.2)
    return crossing, math.hypot(random, 1.7 * abs(wider - crossing))


def _power_fit(a: Approach, share: float) -> tuple[PowerLawFit, float]:
    stop = max(a.until(share), a.above + 8)
    fit = fit_power_law(a.position_mm[:stop], a.force_N[:stop], contact_mm=float(a.position_mm[max(a.above - 1, 0)]))
    inflation = correlation_time(fit.residual, [len(fit.residual)])
    return fit, math.sqrt(fit.covariance[1, 1] * inflation)


def _power_law(a: Approach) -> tuple[float, float]:
    """Power law with free contact point, exponent and zero, over free air and the loading up to 30 % of the rise.

    Relaxation during the ramp bends the curve away from a power law. That bias grows with the range, less than in
    proportion: twice of how far the answer moves when the range is doubled counts as uncertainty beside the fit's own.
    """
    fit, random = _power_fit(a, 0.3)
    wider, _ = _power_fit(a, 0.6)
    return fit.contact_mm, math.hypot(random, 2.0 * (wider.contact_mm - fit.contact_mm))


def _ratio_of_variances(a: Approach) -> tuple[float, float]:
    """Greatest ratio of the force's variance in a window after a sample to that in the window before it.

    N. Gavara, Sci. Rep. 6 (2016) 21267. The window is a twentieth of the record, between 5 and 25
    samples; the answer is uncertain by that window.
    """
    width = int(np.clip(len(a.force_N) // 20, 5, 25))
    start, stop = max(width, a.above - 4 * width), min(a.above + 2 * width, len(a.force_N) - width)
    if stop <= start:
        raise Refused("too few samples around contact", reason="too_few_samples", remedy="Sample faster")
    windows = np.lib.stride_tricks.sliding_window_view(a.force_N, width).var(axis=1)
    index = np.arange(start, stop)
    floor = max(0.25 * a.noise_N**2, 1e-24)
    ratio = windows[index + 1] / np.maximum(windows[index - width], floor)
    best = int(index[np.argmax(ratio)])
    before, after = a.position_mm[max(best - width, 0)], a.position_mm[min(best + width, len(a.position_mm) - 1)]
    return float(a.position_mm[best]), float(after - before) / 2.0 / math.sqrt(3.0)


METHODS: dict[str, Callable[[Approach], tuple[float, float]]] = {
    "threshold_5sigma": _threshold,
    "two_line": _two_line,
    "power_law": _power_law,
    "ratio_of_variances": _ratio_of_variances,
}
"""Method → estimator of position and standard uncertainty [mm] on an :class:`Approach`."""


def estimate_contact(
    press: Press,
    method: str = "power_law",
    *,
    rule: BaselineRule = DEFAULT_RULE,
    rate_hz: float | None = ANALYSIS_RATE_HZ,
) -> ContactPoint:
    """Estimate the contact point of a press.

    Parameters
    ----------
    press : Press
    method : str
        One of :data:`METHODS`.
    rule : BaselineRule
        The free air demanded; 1 s and 2 mm unless lowered on purpose.
    rate_hz : float, optional
        Average to this rate first; ``None`` takes the samples as they are.

    Raises
    ------
    Refused
        ``baseline_too_short``, ``no_contact``, and what :func:`~bench.identify.press.check_press` refuses.
    """
    if method not in METHODS:
        raise ValueError(f"no contact method {method!r}; there are {', '.join(METHODS)}")
    check_press(press)
    seen = approach(decimate(press, rate_hz) if rate_hz else press)
    position, uncertainty = METHODS[method](seen)
    moment = int(np.argmax(seen.position_mm >= position)) if position <= seen.position_mm[-1] else len(seen.time_s) - 1
    free_s = float(seen.time_s[moment] - seen.time_s[0])
    free_mm = float(position - seen.position_mm[: moment + 1].min())
    check_baseline(press, free_s, free_mm, rule)
    return ContactPoint(
        position, uncertainty, float(seen.time_s[moment]), seen.zero_N, seen.zero_uncertainty_N, seen.noise_N,
        method, free_s, free_mm, rule, rate_hz,
    )  # fmt: skip


def check_baseline(press: Press, free_s: float, free_mm: float, rule: BaselineRule) -> None:
    """Refuse (``baseline_too_short``) a press with less free air than the rule asks for."""
    if free_s < rule.minimum_s or free_mm < rule.minimum_mm:
        raise Refused(
            f"{free_s:.2g} s and {free_mm:.2g} mm of free air before contact, {rule.minimum_s:g} s and "
            f"{rule.minimum_mm:g} mm are asked for",
            reason="baseline_too_short",
            where=press.name,
            remedy="Start farther from the surface, or lower the demand on purpose (it is recorded with the result)",
        )


def compare_contact(
    press: Press,
    *,
    rule: BaselineRule = DEFAULT_RULE,
    rate_hz: float | None = ANALYSIS_RATE_HZ,
) -> dict[str, ContactPoint | Refused]:
    """Return every method's answer, or why it declined."""
    answers: dict[str, ContactPoint | Refused] = {}
    for method in METHODS:
        try:
            answers[method] = estimate_contact(press, method, rule=rule, rate_hz=rate_hz)
        except Refused as refusal:
            answers[method] = refusal
    return answers
