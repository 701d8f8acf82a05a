"""Covariance of a least-squares fit whose errors hang together within stretches of the record.

Samples of one constant-speed segment, or of one ramp, share ripple, drift and whatever the model misses, so they do not
count as independent. Only the stretches do: the estimator below takes what they disagree by.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.blas import single_thread
from bench.identify.estimate import Source

Floats = NDArray[np.float64]

FEWEST_CLUSTERS = 3
ALONE = 1e-7
"""A direction that one cluster alone determines (1 - leverage below this) tells nothing of the scatter."""
LEAST_FREEDOM, MOST_FREEDOM = 1.0, 1e6


@dataclass(frozen=True)
class RobustCovariance:
    """Covariance by clusters, and how well each direction of it is known.

    Parameters
    ----------
    factor : (p, clusters) float64
        ``factor @ factor.T`` is the covariance; one column per cluster.
    correlation : float
        Correlation of two samples of one cluster, from the residuals [1].
    solve : (p, p) float64
        From the orthogonal coordinates of the fit to its parameters.
    gram, hat : (clusters, p, p) float64
    sums, ones : (clusters, p) float64
        Of each cluster: squares, leverage and sums of what turns its samples into its score; sums of its coordinates.
    """

    factor: Floats
    correlation: float
    solve: Floats
    gram: Floats
    hat: Floats
    sums: Floats
    ones: Floats

    @property
    def covariance(self) -> Floats:
        return np.asarray(self.factor @ self.factor.T)

    def freedom(self, gradient: Floats) -> float:
        """Satterthwaite degrees of freedom of the variance of a scalar with this gradient (p,) by the parameters."""
        a = self.solve @ gradient
        own = np.einsum("i,gij,j->g", a, self.gram, a)
        leverage = np.einsum("i,gij->gj", a, self.hat)
        shared = np.diag(self.sums @ a) - leverage @ self.ones.T
        moments = np.diag(own) - leverage @ leverage.T
        moments += self.correlation / (1.0 - self.correlation) * (shared @ shared.T)
        square = float(np.sum(moments**2))
        if square <= 0.0:
            return LEAST_FREEDOM
        return float(np.clip(np.trace(moments) ** 2 / square, LEAST_FREEDOM, MOST_FREEDOM))

    def source(self, name: str, gradient: Floats) -> Source:
        """One source of uncertainty, with the degrees of freedom that hold for this gradient."""
        return Source(name, self.factor, self.freedom(gradient))


def cluster_covariance(jacobian: Floats, residual: Floats, lengths: list[int]) -> RobustCovariance:
    """Bias-reduced cluster-robust covariance (CR2) of a least-squares fit.

    Parameters
    ----------
    jacobian : (n, p) float64
        Derivatives of the model by the parameters at the solution, already weighted.
    residual : (n,) float64
        Weighted alike.
    lengths : list of int
        Samples of each cluster, one after another; they sum to n.

    Raises
    ------
    Refused
        ``too_few_segments``: fewer than three clusters; ``not_identifiable``: the Jacobian is singular.

    Notes
    -----
    R. M. Bell and D. F. McCaffrey, Survey Methodology 28 (2002) 169: residuals of a cluster are inflated by
    (I - H)^-1/2, and the degrees of freedom are those of the estimator under a working model. Here that has errors
    equally correlated within clusters (G. W. Imbens and M. Kolesár, Rev. Econ. Stat. 98 (2016) 701), by the
    correlation the residuals show.
    """
    if len(lengths) < FEWEST_CLUSTERS:
        raise Refused(
            f"{len(lengths)} stretches tell no scatter",
            reason="too_few_segments",
            where="covariance",
            remedy=f"Record at least {FEWEST_CLUSTERS}: more speeds, directions or cycles",
        )
    with single_thread():
        scale = np.linalg.norm(jacobian, axis=0)
        if not np.all(scale > 0.0):
            raise _singular()
        q, r = np.linalg.qr(jacobian / scale)
        diagonal = np.abs(np.diag(r))
        if diagonal.min() <= 1e-10 * diagonal.max():
            raise _singular()
        solve = np.linalg.inv(r).T / scale  # parameters = (Q' y) @ solve
        edges = np.cumsum([0, *lengths])
        slices = [slice(a, b) for a, b in pairwise(edges)]
        scores, gram, hat, sums = [], [], [], []
        for part in slices:
            u, s, vt = np.linalg.svd(q[part], full_matrices=False)
            left = np.maximum(1.0 - s**2, 0.0)
            grown = np.where(left > ALONE, 1.0 / np.sqrt(np.maximum(left, ALONE)), 0.0)
            weight = (vt.T * (s * grown)) @ u.T  # Q_g' (I - H_g)^-1/2, which acts in the span of Q_g only
            scores.append(weight @ residual[part])
            gram.append(weight @ weight.T)
            hat.append(weight @ q[part])
            sums.append(weight.sum(axis=1))
        ones = np.stack([q[part].sum(axis=0) for part in slices])
        factor = solve.T @ np.stack(scores, axis=1)
    return RobustCovariance(
        factor, _correlation(residual, slices), solve, np.stack(gram), np.stack(hat), np.stack(sums), ones
    )


def _correlation(residual: Floats, slices: list[slice]) -> float:
    """Correlation within clusters by the analysis of variance of the residuals; between 0 and 0.99."""
    total, within, freedom, sizes = 0.0, 0.0, 0, []
    for part in slices:
        e = residual[part]
        total += len(e) * float(e.mean()) ** 2
        within += float(np.sum((e - e.mean()) ** 2))
        freedom += len(e) - 1
        sizes.append(len(e))
    if freedom <= 0 or within <= 0.0:
        return 0.0
    noise = within / freedom
    between = max(total / len(slices) - noise, 0.0) / float(np.mean(sizes))
    return float(min(between / (between + noise), 0.99))


def _singular() -> Refused:
    return Refused(
        "the record does not tell all parameters apart",
        reason="not_identifiable",
        where="covariance",
        remedy="Vary speed and load more, or take a simpler model",
    )
