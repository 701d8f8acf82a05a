"""What surrounds the least squares of a contact fit: preparing the curves, dropping idle terms, judging bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.errors import Refused
from bench.identify.contact_point import BaselineRule, ContactPoint, estimate_contact
from bench.identify.curve import Curve, prepare
from bench.identify.frame import Frame
from bench.identify.press import Press, check_monotone, check_press
from bench.identify.problem import Floats, Problem
from bench.identify.solve import solve

CLIPPED_PEAK = 0.02
IDLE_SHARE = 2e-3
SAME_TAU = math.log(1.1)
AT_BOUND = 1e-3
WORTH_A_TERM = 12.0
"""Gain in the sum of squares, in units of its variance per independent sample, from which two parameters are kept."""


def curves_of(
    presses: Sequence[Press],
    contact: str | Sequence[ContactPoint],
    frame: Frame,
    *,
    segments: Sequence[str],
    hold_s: float | None,
    weighting: str,
    rule: BaselineRule,
    rate_hz: float | None,
    capacity_N: float | None,
) -> tuple[tuple[Curve, ...], list[str]]:
    """Check the presses, find their contact points and prepare them; return the curves and notes on them."""
    if not isinstance(contact, str) and len(contact) != len(presses):
        raise ValueError(f"{len(contact)} contact points for {len(presses)} presses")
    curves, notes = [], []
    for i, press in enumerate(presses):
        check_press(press, capacity_N=capacity_N)
        if not isinstance(contact, str):
            point = contact[i]
        elif contact == "fit":
            point = _first_guess(press, rule, rate_hz)
        else:
            point = estimate_contact(press, contact, rule=rule, rate_hz=rate_hz)
        curve = prepare(
            press, point, frame=frame, segments=segments, hold_s=hold_s, weighting=weighting,
            from_contact=contact != "fit", rate_hz=rate_hz,
        )  # fmt: skip
        coarse = curve.press
        check_monotone(coarse, int(np.searchsorted(coarse.time_s, point.time_s)), point.noise_N)
        notes += _clipped(press)
        curves.append(curve)
    return tuple(curves), notes


def _first_guess(press: Press, rule: BaselineRule, rate_hz: float | None) -> ContactPoint:
    """Where to start a free contact point; the baseline rule holds here too."""
    try:
        return estimate_contact(press, "power_law", rule=rule, rate_hz=rate_hz)
    except Refused as refusal:
        if refusal.reason not in ("bound_hit", "too_few_samples"):
            raise
    return estimate_contact(press, "threshold_5sigma", rule=rule, rate_hz=rate_hz)


def _clipped(press: Press) -> list[str]:
    """Note a peak that one sample more or less would move: slow sampling cuts it off."""
    peak = press.peak
    if not 0 < peak < len(press.force_N) - 1:
        return []
    top = float(press.force_N[peak])
    step = top - float(min(press.force_N[peak - 1], press.force_N[peak + 1]))
    if step <= CLIPPED_PEAK * top:
        return []
    return [
        f"{press.name}: the force moves by {step / top:.1%} of the peak in one sample there; the peak may be clipped"
    ]


def without_idle_terms(problem: Problem, vector: Floats, square: float) -> tuple[Problem, Floats, float, list[str]]:
    """Drop Prony terms that the curves do not need, one at a time, and fit again; return the notes on it.

    A term is idle when its share is (almost) zero, when two relaxation times coincide, or when its time runs to a bound
    and the fit is as good without it.
    """
    notes: list[str] = []
    while problem.terms:
        shape = problem.shape(vector)
        shares, taus = shape[1::2], vector[2 : problem.shape_size : 2]
        low, high = problem.bounds()
        times = slice(2, problem.shape_size, 2)
        runaway = bool(np.any((taus < low[times] + 0.01) | (taus > high[times] - 0.01)))
        merged = problem.terms == 2 and abs(float(taus[1] - taus[0])) < SAME_TAU
        idle = bool(np.any(shares < IDLE_SHARE))
        if not (idle or merged or runaway):
            break
        law = f"qlv{problem.terms - 1}" if problem.terms > 1 else "power_law"
        fewer = replace(problem, law=law)
        simpler, worse = solve(fewer)
        samples = sum(len(curve.weight) for curve in problem.curves)
        if runaway and not (idle or merged) and (worse / square - 1.0) * samples > WORTH_A_TERM:
            break
        why = (
            "its share is zero"
            if idle
            else "two relaxation times coincide"
            if merged
            else "the fit is as good without it"
        )
        notes.append(
            f"relaxation term {problem.terms} is not needed ({why}): {law} was fitted instead of {problem.law}"
        )
        problem, vector, square = fewer, simpler, worse
    return problem, vector, square, notes


def check_bounds(problem: Problem, vector: Floats) -> list[str]:
    """Refuse (``bound_hit``) a fit whose answer is where the search had to end; return notes on what is merely idle.

    A damping of zero is an answer: the curve does not ask for it. An exponent, a relaxation time, a fully relaxing
    share or a contact point at its bound is none.
    """
    low, high = problem.bounds()
    names = ["exponent n"]
    if problem.terms:
        names += [f"{what} {i}" for i in range(1, problem.terms + 1) for what in ("relaxing share", "relaxation time")]
    elif problem.shape_size == 2:
        names.append("damping")
    names += [f"force scale of {curve.press.name}" for curve in problem.curves[: problem.scales]]
    names += [f"contact point of {curve.press.name}" for curve in problem.curves] if problem.free_contact else []
    notes = []
    for i, name in enumerate(names):
        lower, upper = vector[i] - low[i] < AT_BOUND, high[i] - vector[i] < AT_BOUND
        if name.startswith("force scale"):
            lower = vector[i] <= 1e-9
        if name == "damping" and vector[i] < 1e-6:
            notes.append("damping is not needed: its best value is zero")
            continue
        if name == "damping" or not (lower or upper):
            continue
        shown = math.exp(vector[i]) if name.startswith("relaxation time") else vector[i]
        raise Refused(
            f"{name} ran to its {'lower' if lower else 'upper'} bound, {shown:.4g}",
            reason="bound_hit",
            where=problem.law,
            remedy="The curves do not determine it: take a simpler model, a longer hold or another contact method",
        )
    return notes


def confounded(problem: Problem, segments: Sequence[str]) -> list[str]:
    """Note a damping that one constant speed cannot tell from a shift of contact point and force zero."""
    if problem.law not in ("damped_power_law", "hunt_crossley") or "hold" in segments:
        return []
    speeds = np.array([curve.press.speed_mm_s for curve in problem.curves])
    if len(speeds) > 1 and float(np.ptp(speeds)) > 0.2 * float(np.abs(speeds).max()) and problem.scales == 1:
        return []
    return ["the damping comes from one speed without a hold: it cannot be told from contact point and force zero"]
