"""Force laws of a tool pressed into soft tissue: pure functions of float64 arrays.

Depth is positive into the tissue and zero at contact [mm], force is positive when pressing [N]. A power law is written
as ``F_ref`` [N] at ``d_ref`` [mm] and an exponent ``n`` [1], never as a bare k in N/mm^n. Tissue never pulls: every law
is cut at zero force, and there is none out of contact. On loading that changes nothing; on release it is the simplest
form of the contact loss of T. C. T. Ting, J. Appl. Mech. 33 (1966) 845.

::

    force = quasi_linear(time_s, depth_mm, F_ref=2.0, d_ref=5.0, n=1.5, g=(0.3, 0.2), tau_s=(0.4, 5.0))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.models.prony import convolve, ramp_integral, time_step

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ShapeParameter:
    """One parameter of a law beside the force scale: its name, unit, kind and what it is."""

    name: str
    unit: str
    kind: str
    meaning: str


_N = ShapeParameter("n", "1", "number", "exponent of depth")


def _terms(count: int) -> tuple[ShapeParameter, ...]:
    pairs = (
        (
            ShapeParameter(f"g{i}", "1", "ratio", f"share of the instantaneous force that relaxes with tau{i}"),
            ShapeParameter(f"tau{i}", "s", "time", f"relaxation time {i}"),
        )
        for i in range(1, count + 1)
    )
    return (_N, *(parameter for pair in pairs for parameter in pair))


LAWS: dict[str, tuple[ShapeParameter, ...]] = {
    "power_law": (_N,),
    "damped_power_law": (_N, ShapeParameter("c", "N.s/mm", "damping", "viscous damping")),
    "hunt_crossley": (_N, ShapeParameter("lambda", "s/mm", "reciprocal_speed", "damping per elastic force")),
    "qlv1": _terms(1),
    "qlv2": _terms(2),
}
"""Law → its shape parameters in the order the fits use; each law has ``F_ref`` [N] before them."""


def power_law(depth_mm: Floats, F_ref: float, d_ref: float, n: float) -> Floats:
    """Elastic contact, ``F_ref * (depth / d_ref) ** n``; n = 1.5 is Hertz's sphere.

    Parameters
    ----------
    depth_mm : (n,) float64
        Depth [mm]; zero force where it is not positive.
    F_ref, d_ref, n : float
        Force [N] at the depth ``d_ref`` [mm], and the exponent [1].

    Notes
    -----
    H. Hertz, J. reine angew. Math. 92 (1881) 156; I. N. Sneddon, Int. J. Engng Sci. 3 (1965) 47.
    """
    return np.asarray(F_ref * (np.maximum(depth_mm, 0.0) / d_ref) ** n, dtype=np.float64)


def damped_power_law(depth_mm: Floats, speed_mm_s: Floats, F_ref: float, d_ref: float, n: float, c: float) -> Floats:
    """Power law with a dashpot beside it, ``F_ref (depth/d_ref)^n + c * speed``, in contact only, never below zero.

    ``c`` [N.s/mm]; ``speed_mm_s`` (n,) is the measured rate of depth [mm/s]. It steps by ``c * speed`` at touch, which
    no tissue does; at one constant speed that step cannot be told from a shift of contact point or force zero.
    """
    force = power_law(depth_mm, F_ref, d_ref, n) + np.where(depth_mm > 0.0, c * speed_mm_s, 0.0)
    return np.maximum(force, 0.0)


def hunt_crossley(depth_mm: Floats, speed_mm_s: Floats, F_ref: float, d_ref: float, n: float, lam: float) -> Floats:
    """Damping in proportion to the elastic force, ``F_ref (depth/d_ref)^n (1 + lam * speed)``, never below zero.

    ``lam`` [s/mm]; K. H. Hunt and F. R. E. Crossley, J. Appl. Mech. 42 (1975) 440.
    """
    return np.maximum(power_law(depth_mm, F_ref, d_ref, n) * (1.0 + lam * speed_mm_s), 0.0)


def quasi_linear(
    time_s: Floats, depth_mm: Floats, F_ref: float, d_ref: float, n: float, g: Sequence[float], tau_s: Sequence[float]
) -> Floats:
    r"""Quasi-linear viscoelastic contact: a power law relaxed by Prony terms, never pulling.

    .. math::
        F(t) = \max\Big(0, \int_{0^-}^{t} G(t-s)\,\mathrm{d}F_e(s)\Big), \quad
        G(t) = 1 - \sum_i g_i\,(1 - e^{-t/\tau_i}), \quad F_e = F_{ref}(\delta/d_{ref})^n

    Parameters
    ----------
    time_s, depth_mm : (n,) float64
        Time stamps [s], from a moment before contact, and depth [mm].
    F_ref, d_ref, n : float
        The *instantaneous* elastic force [N] at ``d_ref`` [mm], and the exponent [1].
    g, tau_s : sequences of equal length
        Relaxing shares [1], sum at most 1, and relaxation times [s].

    Notes
    -----
    Y. C. Fung, Biomechanics: Mechanical Properties of Living Tissues (1981), ch. 7. The elastic force is taken as
    linear between samples, then the convolution is exact. Out of contact the force is zero, also while the elastic
    history still fades: a second touch soon after the first is therefore softer, as on tissue.
    """
    elastic = power_law(depth_mm, F_ref, d_ref, n)
    step = time_step(time_s)
    force = elastic.copy()
    for share, tau in zip(g, tau_s, strict=True):
        force -= share * (elastic - convolve(step, elastic, tau))
    return np.where(depth_mm > 0.0, np.maximum(force, 0.0), 0.0)


def evaluate(
    law: str,
    shape: Sequence[float],
    time_s: Floats,
    depth_mm: Floats,
    speed_mm_s: Floats,
    *,
    F_ref: float,
    d_ref: float,
) -> Floats:
    """Force [N] (n,) of any law of :data:`LAWS`; ``shape`` in the order given there."""
    n = shape[0]
    if law == "power_law":
        return power_law(depth_mm, F_ref, d_ref, n)
    if law == "damped_power_law":
        return damped_power_law(depth_mm, speed_mm_s, F_ref, d_ref, n, shape[1])
    if law == "hunt_crossley":
        return hunt_crossley(depth_mm, speed_mm_s, F_ref, d_ref, n, shape[1])
    return quasi_linear(time_s, depth_mm, F_ref, d_ref, n, shape[1::2], shape[2::2])


def ramp_force(
    law: str, shape: Sequence[float], depth_mm: float, speed_mm_s: float, *, F_ref: float, d_ref: float
) -> tuple[float, float]:
    """Force and tangent stiffness at the end of a ramp from contact to a depth at constant speed, in closed form.

    Returns
    -------
    force_N, stiffness_N_mm : float
        F [N] and dF/d(depth) along the ramp [N/mm].
    """
    n = shape[0]
    elastic = F_ref * (depth_mm / d_ref) ** n
    slope = n * elastic / depth_mm
    if law == "damped_power_law":
        return elastic + shape[1] * speed_mm_s, slope
    if law == "hunt_crossley":
        factor = 1.0 + shape[1] * speed_mm_s
        return elastic * factor, slope * factor
    force, stiffness = elastic, slope
    duration = depth_mm / speed_mm_s
    for share, tau in zip(shape[1::2], shape[2::2], strict=True):
        # h is the term's hereditary integral; along the ramp dh/d(depth) = dF_e/d(depth) - h / (tau * speed)
        h = F_ref * (speed_mm_s / d_ref) ** n * ramp_integral(duration, n, tau)
        force -= share * (elastic - h)
        stiffness -= share * h / (tau * speed_mm_s)
    return force, stiffness


def hertz_modulus(F_ref: float, d_ref: float, radius_mm: float, poisson: float = 0.5) -> float:
    """Young's modulus [MPa] of a half-space pressed by a rigid paraboloid of tip radius ``radius_mm`` [mm].

    From ``F = 4/3 E / (1 - poisson^2) sqrt(R) depth^1.5`` (Hertz 1881, Sneddon 1965) with F in N and lengths in mm.
    """
    return float(0.75 * (1.0 - poisson**2) * F_ref / (np.sqrt(radius_mm) * d_ref**1.5))
