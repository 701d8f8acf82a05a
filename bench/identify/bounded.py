"""Bounded nonlinear least squares for small problems: Levenberg-Marquardt on a residual with its Jacobian."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.blas import single_thread

Floats = NDArray[np.float64]
Model = Callable[[Floats], tuple[Floats, Floats]]
"""Parameters (p,) → residual (n,) and its Jacobian (n, p)."""

TOLERANCE = 1e-14
STEPS = 100


@dataclass(frozen=True)
class Solution:
    """Where a fit ended: parameters (p,), residual (n,), Jacobian (n, p), and which parameters lie on a bound (p,)."""

    vector: Floats
    residual: Floats
    jacobian: Floats
    bound: NDArray[np.bool_]

    @property
    def square(self) -> float:
        return float(self.residual @ self.residual)


def minimise(
    model: Model, start: Floats, low: Floats, high: Floats, *, tolerance: float = TOLERANCE, where: str = ""
) -> Solution:
    """Least squares within bounds.

    Parameters
    ----------
    model : callable
        Parameters to residual and Jacobian.
    start, low, high : (p,) float64
        An infinite bound is none.
    tolerance : float
        Share of the sum of squares that a step must promise to be taken.

    Notes
    -----
    D. W. Marquardt, J. SIAM 11 (1963) 431, columns scaled to unit length. A step is cut back to the bounds; a parameter
    at its bound stays there while the gradient pushes it outward. It ends when a step promises no more than
    ``tolerance``, or when the last digit is reached.

    Raises
    ------
    Refused
        ``not_converged``.
    """
    vector = np.clip(start, low, high)
    with single_thread():
        residual, jacobian = model(vector)
        square, damping = float(residual @ residual), 1e-4
        first = square
        for _ in range(STEPS):
            gradient = jacobian.T @ residual
            free = ~(((vector <= low) & (gradient > 0.0)) | ((vector >= high) & (gradient < 0.0)))
            full = _step(jacobian, residual, free, 0.0)
            if -float(gradient @ full) <= tolerance * square + 1e-28 * first:
                break
            moved = False
            while damping < 1e12:
                trial = np.clip(vector + _step(jacobian, residual, free, damping), low, high)
                fresh, slope = model(trial)
                new = float(fresh @ fresh)
                if np.isfinite(new) and new < square:
                    small = square - new <= tolerance * square
                    vector, residual, jacobian, square = trial, fresh, slope, new
                    damping, moved = max(damping * 0.1, 1e-15), not small
                    break
                damping *= 10.0
            if not moved:
                break
        else:
            raise Refused(
                f"the fit did not converge in {STEPS} steps",
                reason="not_converged",
                where=where,
                remedy="The record does not hold what the model asks for: take a simpler model or vary the motion more",
            )
    return Solution(vector, residual, jacobian, (vector <= low) | (vector >= high))


def _step(jacobian: Floats, residual: Floats, free: NDArray[np.bool_], damping: float) -> Floats:
    """Damped Gauss-Newton step in the free coordinates by QR; zero in the others."""
    step = np.zeros(jacobian.shape[1])
    index = np.flatnonzero(free)
    if not index.size:
        return step
    block = jacobian[:, index]
    scale = np.linalg.norm(block, axis=0)
    scale[scale <= 0.0] = 1.0
    q, r = np.linalg.qr(block / scale)
    rows = np.concatenate([r, np.sqrt(max(damping, 1e-30)) * np.eye(len(index))])
    right = np.concatenate([-(q.T @ residual), np.zeros(len(index))])
    step[index] = np.linalg.lstsq(rows, right, rcond=None)[0] / scale
    return step
