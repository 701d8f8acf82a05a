"""Relaxation by Prony terms: the exact response of exp(-t/tau) to a signal that is linear between samples.

::

    step = time_step(time_s)                                  # a float when uniformly sampled, else the steps
    overstress = convolve(step, elastic_force, tau_s=0.5)     # integral of exp(-(t-s)/tau) dF_e(s)
"""

from __future__ import annotations

from typing import overload

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

UNIFORM_TOLERANCE = 1e-4
"""Steps that differ by less than this fraction count as equal: decimal time stamps are rounded at about this level."""


def time_step(time_s: Floats) -> float | Floats:
    """Return the sampling step [s] as a float when it is uniform, else the ``n - 1`` steps.

    Parameters
    ----------
    time_s : (n,) float64
        Increasing time stamps [s].
    """
    steps = np.diff(time_s)
    mean = (time_s[-1] - time_s[0]) / (len(time_s) - 1)
    return float(mean) if float(np.abs(steps - mean).max()) <= UNIFORM_TOLERANCE * mean else steps


def convolve(step: float | Floats, signal: Floats, tau_s: float) -> Floats:
    r"""Hereditary integral of one Prony term, exact for a piecewise linear signal.

    .. math:: h(t) = \int_{0^-}^{t} e^{-(t-s)/\tau}\, \mathrm{d}x(s)

    Over one step :math:`h_i = e\,h_{i-1} + (\tau/\Delta t)(1-e)(x_i-x_{i-1})` with :math:`e=\exp(-\Delta t/\tau)`. A
    first sample that is not zero counts as a jump from rest.

    Parameters
    ----------
    step : float or (n - 1,) float64
        What :func:`time_step` returned [s].
    signal : (..., n) float64
        x at the samples, any unit; rows are independent.
    tau_s : float
        Relaxation time [s], positive.

    Returns
    -------
    (..., n) float64
        h in the unit of the signal.

    Notes
    -----
    The recursion for finite increments is that of R. L. Taylor, K. S. Pister and G. L. Goudreau, Int. J. Numer. Meth.
    Eng. 2 (1970) 45.
    """
    decay = np.exp(-np.asarray(step) / tau_s)
    drive = np.empty_like(signal)
    drive[..., 0] = signal[..., 0]
    np.multiply(np.diff(signal), tau_s / step * (1.0 - decay), out=drive[..., 1:])
    return _recurse(decay, drive)


def convolve_with_derivative(step: float | Floats, signals: Floats, tau_s: float) -> tuple[Floats, Floats]:
    """Return :func:`convolve` of several signals, and of the first its derivative by the relaxation time.

    Parameters
    ----------
    step : float or (n - 1,) float64
        What :func:`time_step` returned [s].
    signals : (k, n) float64
    tau_s : float

    Returns
    -------
    responses : (k, n) float64
    derivative : (n,) float64
        Of the first response [its unit / s], by a second pass of the differentiated recursion.
    """
    decay = np.exp(-np.asarray(step) / tau_s)
    increments = np.diff(signals)
    drive = np.empty_like(signals)
    drive[:, 0] = signals[:, 0]
    np.multiply(increments, tau_s / step * (1.0 - decay), out=drive[:, 1:])
    responses = _recurse(decay, drive)
    change = np.zeros(signals.shape[1])
    np.multiply(responses[0, :-1], decay * step / tau_s**2, out=change[1:])
    change[1:] += ((1.0 - decay) / step - decay / tau_s) * increments[0]
    return responses, _recurse(decay, change)


def _recurse(decay: Floats, drive: Floats) -> Floats:
    """Solve h_i = decay_i h_(i-1) + drive_i along the last axis, in place.

    That is a lower bidiagonal system, which LAPACK solves compiled, for equal steps and others. ``lfilter`` is no
    faster, knows equal steps only, and brings the whole of ``scipy.signal`` with it (over a second to import).
    """
    from scipy.linalg.lapack import dtbtrs

    count = drive.shape[-1]
    band = np.ones((2, count), order="F")
    band[1, :-1] = -decay
    rows = drive.reshape(-1, count)
    solved, _ = dtbtrs(band, rows.T, uplo="L", diag="U", overwrite_b=True)
    return np.asarray(solved.T.reshape(drive.shape), dtype=np.float64)


@overload
def ramp_integral(duration_s: float, exponent: float, tau_s: float) -> float: ...
@overload
def ramp_integral(duration_s: Floats, exponent: float, tau_s: float) -> Floats: ...
def ramp_integral(duration_s: float | Floats, exponent: float, tau_s: float) -> float | Floats:
    r"""Closed form of the hereditary integral for a power of time.

    .. math:: \int_0^T e^{-(T-s)/\tau}\, n s^{n-1}\,\mathrm{d}s = T^n\,{}_1F_1(1;\, n+1;\, -T/\tau)

    Parameters
    ----------
    duration_s : float or array
        T [s], at least 0.
    exponent : float
        n, positive.
    tau_s : float
        Relaxation time [s].

    Notes
    -----
    Kummer's confluent hypergeometric function, NIST Digital Library of Mathematical Functions 13.4.1 and 13.2.39.
    """
    from scipy.special import hyp1f1

    value = np.asarray(duration_s) ** exponent * hyp1f1(1.0, exponent + 1.0, -np.asarray(duration_s) / tau_s)
    return float(value) if np.ndim(duration_s) == 0 else np.asarray(value, dtype=np.float64)
