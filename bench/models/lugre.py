"""LuGre friction along a given motion: the bristle's deflection by an exponential update, exact for constant speed.

    z' = w - sigma0 |w| / g(w) z,    F = sigma0 z + sigma1 z' + sigma2 w + offset

with g the sliding level (:meth:`bench.models.friction.Friction.level`) and sigma2 the viscous coefficient. C. Canudas
de Wit, H. Olsson, K. J. Åström and P. Lischinsky, IEEE Trans. Autom. Control 40 (1995) 419. Explicit schemes need steps
far below g / (sigma0 |w|); this one is stable at any step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.models.friction import Friction
from bench.models.recurrence import scan

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class BristlePath:
    """How a bristle of one stiffness moves along a path.

    Parameters
    ----------
    deflection : (n,) float64
        z at the samples [rad].
    rate : (n,) float64
        z' [rad/s].
    decay : (n,) float64
        Share of the deflection before that is left at each sample; its first element is one.
    """

    deflection: Floats
    rate: Floats
    decay: Floats


def bristle(travel: Floats, velocity: Floats, level: Floats, stiffness: float, start: float = 0.0) -> BristlePath:
    """Deflection of the bristle along a sampled path.

    Parameters
    ----------
    travel : (n - 1,) float64
        Angle from each sample to the next [rad].
    velocity : (n,) float64
        Velocity at the samples [rad/s].
    level : (n,) float64
        Sliding level g at the samples [N.m].
    stiffness : float
        sigma0 [N.m/rad].
    start : float
        Deflection at the first sample [rad].

    Notes
    -----
    Within a step the speed and g are constant, so ``z -> e z + sign g / sigma0 (1 - e)`` with
    ``e = exp(-sigma0 |travel| / g)``: exact for such a step, second order in the step otherwise. Time enters by g only.
    """
    held = 0.5 * (level[1:] + level[:-1])
    fade = -np.expm1(-stiffness * np.abs(travel) / held)
    full = np.sign(travel) * held / stiffness
    deflection = np.concatenate([[start], scan(1.0 - fade, full * fade, start)])
    rate = velocity - stiffness * np.abs(velocity) / level * deflection
    return BristlePath(deflection, rate, np.concatenate([[1.0], 1.0 - fade]))


def lugre(
    time_s: Floats,
    velocity: Floats,
    friction: Friction,
    bristle_stiffness: float,
    bristle_damping: float,
    *,
    load: ArrayLike = 0.0,
    temperature: ArrayLike | None = None,
    start: float = 0.0,
) -> Floats:
    """LuGre friction torque along a velocity path (n,) [N.m].

    Parameters
    ----------
    time_s, velocity : (n,) float64
        The path [s], [rad/s]; linear between samples.
    friction : Friction
        Its steady state.
    bristle_stiffness, bristle_damping : float
        sigma0 [N.m/rad] and sigma1 [N.m.s/rad].
    load, temperature : (n,) float64
        Of :meth:`~bench.models.friction.Friction.torque`.
    start : float
        Bristle deflection at the first sample [rad].
    """
    w = np.asarray(velocity, dtype=np.float64)
    travel = 0.5 * (w[1:] + w[:-1]) * np.diff(time_s)
    level = np.broadcast_to(friction.level(w, load=load, temperature=temperature), w.shape)
    path = bristle(travel, w, level, bristle_stiffness, start)
    viscous = friction.viscous * friction.warmth(temperature)
    return np.asarray(bristle_stiffness * path.deflection + bristle_damping * path.rate + viscous * w + friction.offset)
