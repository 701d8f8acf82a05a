"""Where a contact fit starts: variable projection over exponent, relaxation times and contact point.

The force scale and the relaxing shares are linear, so they are solved for exactly, and non-negative, at every trial of
the others (G. H. Golub and V. Pereyra, SIAM J. Numer. Anal. 10 (1973) 413). That leaves few coordinates: a grid over
them finds the valley, a few steps on a thinned record its floor.
"""

from __future__ import annotations

import itertools

import numpy as np

from bench.errors import Refused
from bench.identify.curve import Curve
from bench.identify.problem import CONTACT_WINDOW_MM, EXPONENT_RANGE, LARGEST_DAMPING, Floats, Problem, tau_range
from bench.models.prony import convolve, time_step

SAMPLES = 250
STARTS = 3
TAU_GRID = 8
EXPONENT_GRID = (0.8, 1.2, 1.6, 2.0, 2.5, 3.2)


class _Thinned:
    """The first press at some 250 samples, and the linear problem at given exponent, times and contact point."""

    def __init__(self, problem: Problem) -> None:
        curve: Curve = problem.curves[0]
        thin = max(1, (curve.fitted.stop - curve.fitted.start) // SAMPLES)
        pick = slice((curve.fitted.stop - 1) % thin, None, thin)
        time_s = curve.time_s[pick]
        self.problem = problem
        self.step = time_step(time_s)
        self.position = curve.path.position_mm[pick]
        self.speed = curve.path.speed_mm_s[pick]
        self.contact = curve.contact.position_mm
        self.counted = np.arange(len(curve.time_s))[pick] >= curve.fitted.start
        self.force = curve.force_N[pick][self.counted]

    def elastic(self, n: float, contact: float) -> Floats:
        depth = np.maximum(self.position - contact, 0.0) / self.problem.d_ref
        return np.asarray(depth**n, dtype=np.float64)

    def column(self, elastic: Floats, tau: float | None) -> Floats:
        """What multiplies a linear weight beside the elastic part: a term's, or (without ``tau``) the damping's."""
        if tau is not None:
            return convolve(self.step, elastic, tau)
        return self.speed * ((elastic > 0.0) if self.problem.law == "damped_power_law" else elastic)

    def columns(self, n: float, contact: float, taus: tuple[float, ...]) -> Floats:
        elastic = self.elastic(n, contact)
        extra = [self.column(elastic, tau) for tau in taus]
        if self.problem.shape_size == 2:
            extra.append(self.column(elastic, None))
        return np.asarray(np.column_stack([elastic, *extra])[self.counted], dtype=np.float64)


def project(problem: Problem) -> Floats:
    """Start for the first press alone: shape, scale and, where it is free, contact point.

    Raises
    ------
    Refused
        ``no_contact`` when nothing fits.
    """
    from scipy.optimize import least_squares, nnls

    thinned = _Thinned(problem)
    fastest, slowest = tau_range(problem.curves)
    low = [EXPONENT_RANGE[0], *([np.log(fastest)] * problem.terms)]
    high = [EXPONENT_RANGE[1], *([np.log(slowest)] * problem.terms)]
    if problem.free_contact:
        low.append(thinned.contact - CONTACT_WINDOW_MM)
        high.append(thinned.contact + CONTACT_WINDOW_MM)

    def linear(coordinates: Floats) -> tuple[Floats, Floats]:
        taus = tuple(np.exp(coordinates[1 : 1 + problem.terms]).tolist())
        contact = float(coordinates[-1]) if problem.free_contact else thinned.contact
        columns = thinned.columns(float(coordinates[0]), contact, taus)
        # the columns' triangle stands for all samples
        orthogonal, triangle = np.linalg.qr(columns)
        weights, _ = nnls(triangle, orthogonal.T @ thinned.force)
        return weights, columns @ weights - thinned.force

    best: tuple[float, Floats] | None = None
    for start in _grid(thinned, fastest, slowest):
        answer = least_squares(
            lambda z: linear(z)[1], np.clip(start, np.add(low, 1e-9), np.subtract(high, 1e-9)), bounds=(low, high),
            max_nfev=40, ftol=1e-6, xtol=1e-6,
        )  # fmt: skip
        if best is None or answer.cost < best[0]:
            best = float(answer.cost), np.asarray(answer.x)
    if best is None:
        raise Refused("no start fits the curve at all", reason="no_contact", remedy="Check the sign of the force")
    return _vector(problem, best[1], linear(best[1])[0])


def _grid(thinned: _Thinned, fastest: float, slowest: float) -> list[Floats]:
    """Up to three starts with different relaxation times, the best first."""
    from scipy.optimize import nnls

    problem = thinned.problem
    taus = np.geomspace(max(fastest, 0.03), slowest / 5.0, TAU_GRID).tolist()
    choices = list(itertools.combinations(taus, problem.terms))
    found: list[tuple[float, float, tuple[float, ...]]] = []
    for n in EXPONENT_GRID:
        whole: Floats = thinned.columns(n, thinned.contact, tuple(taus) if problem.terms else ())
        _, triangle = np.linalg.qr(np.column_stack([whole, thinned.force]))
        for choice in choices:
            used = [0, *(1 + taus.index(tau) for tau in choice)] if problem.terms else list(range(whole.shape[1]))
            weights, norm = nnls(triangle[:, used], triangle[:, -1])
            if weights.any():
                found.append((float(norm), n, choice))
    found.sort(key=lambda item: item[0])
    starts: dict[tuple[float, ...], Floats] = {}
    for _, n, choice in found:
        if choice not in starts and len(starts) < STARTS:
            contact = [thinned.contact] if problem.free_contact else []
            starts[choice] = np.array([n, *np.log(choice), *contact])
    return list(starts.values())


def _vector(problem: Problem, coordinates: Floats, weights: Floats) -> Floats:
    """Write the answer of the projection as a vector of one press, a little inside its bounds."""
    size = problem.shape_size
    vector = np.zeros(size + 1 + problem.free_contact)
    vector[0] = coordinates[0]
    total = float(weights.sum()) if problem.terms else max(float(weights[0]), 1e-9)
    if problem.terms:
        order = np.argsort(coordinates[1 : 1 + problem.terms])
        shares = np.clip(weights[1:][order] / total, 1e-3, 0.98)
        vector[2:size:2] = coordinates[1 : 1 + problem.terms][order]
        vector[1] = shares[0]
        if problem.terms == 2:
            vector[3] = min(float(shares[1]) / (1.0 - float(shares[0])), 0.98)
    elif size == 2:
        vector[1] = min(float(weights[1]) / total, LARGEST_DAMPING / 2.0)
    vector[size] = total
    if problem.free_contact:
        vector[size + 1] = coordinates[-1]
    return vector
