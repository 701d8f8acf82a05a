"""A power law with free contact point and force zero, fitted in well under a millisecond.

::

    fit = fit_power_law(position_mm, force_N, exponent=1.5)       # Hertz
    modulus = hertz_modulus(fit.force_at(1.0), 1.0, radius_mm=5.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.blas import single_thread

Floats = NDArray[np.float64]

EXPONENT_RANGE = (0.5, 5.0)
ITERATIONS = 60
CONVERGED = 1e-10


@dataclass(frozen=True)
class PowerLawFit:
    """``force = zero_N + scale_N * ((position - contact_mm) / span_mm) ** exponent`` beyond the contact point.

    ``covariance`` (4, 4) is that of (scale, contact, exponent, zero) for independent samples of equal noise, with a
    zero row and column for a fixed exponent; ``residual`` (n,) is measured minus fitted in the order given.
    """

    scale_N: float
    contact_mm: float
    exponent: float
    zero_N: float
    span_mm: float
    covariance: Floats
    residual: Floats
    iterations: int

    @property
    def rms_N(self) -> float:
        return float(np.sqrt(np.mean(self.residual**2)))

    def force_at(self, depth_mm: float) -> float:
        """Force [N] above the zero at a depth [mm] from the fitted contact point."""
        return float(self.scale_N * (depth_mm / self.span_mm) ** self.exponent)


def fit_power_law(
    position_mm: Floats, force_N: Floats, *, exponent: float | None = None, contact_mm: float | None = None
) -> PowerLawFit:
    """Least squares for force zero, contact point, scale and (unless given) exponent.

    Parameters
    ----------
    position_mm, force_N : (n,) float64
        Position [mm] positive into the tissue and force [N] of the approach and the loading; sorted by position here
        when they are not.
    exponent : float, optional
        Fixed exponent; 1.5 is Hertz's paraboloid.
    contact_mm : float, optional
        Where to start the search.

    Raises
    ------
    Refused
        ``too_few_samples``, ``no_contact`` (no rise to fit) or ``bound_hit`` (exponent or contact point at the edge of
        what the samples can tell).

    Notes
    -----
    Levenberg–Marquardt with the analytic Jacobian on 4 x 4 normal equations, in coordinates scaled by stroke and force.
    Samples before the contact point only know the force zero: their sums come from cumulative sums, so an iteration
    touches the samples in contact alone. Equal weight per sample.
    """
    count = len(position_mm)
    if count < 6:
        raise Refused(f"{count} samples for a power law", reason="too_few_samples", remedy="Sample faster")
    order = None
    if (np.diff(position_mm) < 0.0).any():
        order = np.argsort(position_mm, kind="stable")
        position_mm, force_N = position_mm[order], force_N[order]
    origin, span, low = float(position_mm[0]), float(position_mm[-1] - position_mm[0]), float(force_N.min())
    height = float(force_N.max()) - low
    if not (span > 0.0 and height > 0.0):
        raise Refused("force or position does not change", reason="no_contact", remedy="Check the channels")
    x, y = (position_mm - origin) / span, (force_N - low) / height
    start = _start(x, y, exponent or 1.5, None if contact_mm is None else (contact_mm - origin) / span)
    with single_thread():
        state, point, iterations = _minimise(x, y, start, exponent is None)
    scale, contact, n, zero = state
    if not (len(point.residual) >= 4 and scale > 0.0):
        raise Refused("no samples in contact", reason="no_contact", remedy="Check the sign of force and position")
    if exponent is None and not (EXPONENT_RANGE[0] * 1.001 < n < EXPONENT_RANGE[1] * 0.999):
        raise Refused(
            f"the exponent ran to its bound, {n:.3g}", reason="bound_hit",
            remedy="The loading is no power law over this range: fit a shorter range or fix the exponent",
        )  # fmt: skip
    residual = y - zero
    residual[count - len(point.residual) :] = point.residual
    if order is not None:
        unsorted = np.empty_like(residual)
        unsorted[order] = residual
        residual = unsorted
    used = [0, 1, 2, 3] if exponent is None else [0, 1, 3]
    units = np.array([height, span, 1.0, height])
    covariance = np.zeros((4, 4))
    block = np.linalg.pinv(point.normal) * (point.square / max(count - len(used), 1))
    covariance[np.ix_(used, used)] = block * np.outer(units[used], units[used])
    return PowerLawFit(
        scale * height, origin + contact * span, n, low + zero * height, span, covariance, residual * height, iterations
    )


State = tuple[float, float, float, float]


class _Point(NamedTuple):
    """Normal matrix, gradient, sum of squares and the residual in contact at one state."""

    normal: Floats
    gradient: Floats
    square: float
    residual: Floats


def _start(x: Floats, y: Floats, n: float, contact: float | None) -> State:
    """Scale, contact, exponent and zero to start from: y^(1/n) is straight in x."""
    zero = float(y[: max(len(y) // 20, 1)].mean())
    top = float(y.max()) - zero
    if contact is None:
        used = np.flatnonzero(y - zero > 0.25 * top)
        used = used[:: max(len(used) // 200, 1)]
        u, v = x[used], (y[used] - zero) ** (1.0 / n)
        u0, v0 = float(u.mean()), float(v.mean())
        u -= u0
        spread = float(u @ u)
        slope = float(u @ v) / spread if spread > 0.0 else 1.0
        contact = u0 - v0 / slope if slope > 0.0 else 0.5
    contact = min(max(contact, -0.2), 0.9)
    return top / max(1.0 - contact, 0.05) ** n, contact, n, zero


def _evaluate(x: Floats, y: Floats, state: State, free: bool, sums: tuple[Floats, Floats]) -> _Point:
    """Evaluate at a state; the order of parameters is scale, contact, exponent if free, zero."""
    scale, contact, n, zero = state
    first = int(x.searchsorted(contact, side="right"))
    columns = np.empty((5 if free else 4, len(x) - first))
    power, slope, residual = columns[0], columns[1], columns[-1]
    m = x[first:] - contact
    if free:
        log = np.log(m)
        np.exp(n * log, out=power)
        np.divide(power, m, out=slope)
        np.multiply(power, log, out=columns[2])
        columns[2] *= scale
    elif n == 1.5:
        np.sqrt(m, out=slope)
        np.multiply(m, slope, out=power)
    else:
        np.power(m, n, out=power)
        np.divide(power, m, out=slope)
    slope *= -scale * n
    columns[-2] = 1.0
    np.multiply(power, -scale, out=residual)
    residual += y[first:]
    residual -= zero
    gram = columns @ columns.T
    head, head_square = (float(sums[0][first - 1]), float(sums[1][first - 1])) if first else (0.0, 0.0)
    gram[-2, -2] += first
    gradient = gram[:-1, -1]
    gradient[-1] += head - first * zero
    square = float(gram[-1, -1]) + head_square - 2.0 * zero * head + first * zero**2
    return _Point(gram[:-1, :-1], gradient, square, residual)


def _minimise(x: Floats, y: Floats, start: State, free: bool) -> tuple[State, _Point, int]:
    sums = (np.cumsum(y), np.cumsum(y * y))
    low = (0.0, -1.0, EXPONENT_RANGE[0], -np.inf)
    high = (np.inf, float(x[-4]), EXPONENT_RANGE[1], np.inf)
    state, point = start, _evaluate(x, y, start, free, sums)
    damping, size = 1e-6, 4 if free else 3
    done = 0
    while done < ITERATIONS:
        done += 1
        lifted = point.normal.copy()
        lifted.flat[:: size + 1] *= 1.0 + damping
        lifted.flat[:: size + 1] += 1e-300
        step = np.linalg.solve(lifted, point.gradient)
        # what the step can still gain: below this there is nothing to try but rounding
        if float(step @ point.gradient) <= CONVERGED * point.square:
            break
        moves = step.tolist()
        if not free:
            moves.insert(2, 0.0)
        a, b, c, d = (min(max(s + m, lo), hi) for s, m, lo, hi in zip(state, moves, low, high, strict=True))
        fresh = _evaluate(x, y, (a, b, c, d), free, sums)
        if fresh.square < point.square:
            state, point = (a, b, c, d), fresh
            damping = max(damping * 0.1, 1e-12)
        else:
            damping *= 10.0
            if damping > 1e8:
                break
    return state, point, done
