"""Laws of one axis that are linear in their parameters: what is measured, and a column for each parameter.

Joint-referred SI, positive counter-clockwise. ``s`` is the torque scale, ``u`` the motor torque the drive was told,
``F`` the friction, all of it on the motor's side of the torque transducer, which reads ``tau_t``, the torque on the
link::

    motor side   tau_t = s u - J_m theta'' - F(theta')
    link side    tau_t = J_l q'' + gravity_moment sin(q - gravity_phase) + offset
    one mass     force = M a + F(v) + offset

The motor side is written for ``tau_t`` rather than ``u``: there the torque scale is the coefficient of a number without
noise, and the other parameters come out undivided by it. A purely inertial load makes ``u`` a combination of the other
columns; the torque scale then has to be known (``known=`` of :func:`~bench.identify.joint_dynamics.identify`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate
from bench.identify.regression import LinearFit
from bench.models.friction import stribeck_share

Floats = NDArray[np.float64]
Friction = Literal["symmetric", "asymmetric"]

USUAL_STRIBECK_VELOCITY = 0.05
"""Of a geared joint [rad/s], as published for one; most lie between 0.01 and 0.05."""


@dataclass(frozen=True)
class Stretch:
    """A stretch of one axis, uniformly sampled.

    Parameters
    ----------
    rate_hz : float
    position : (n,) float64
        Of the moving part the law is about: carriage [m], joint-referred motor angle or joint angle [rad].
    response : (n,) float64
        The measured torque or force the law explains.
    inputs : mapping of str to (n,) float64
        Other measured signals a law uses: ``command`` [N.m] on the motor side.
    first_index : int
        Index of the first sample in its record, for decimation that does not depend on how the record is cut.
    name : str
        Where it comes from, for messages.
    """

    rate_hz: float
    position: Floats
    response: Floats
    inputs: Mapping[str, Floats] = field(default_factory=dict)
    first_index: int = 0
    name: str = "record"


@dataclass(frozen=True)
class Signals:
    """What columns are made of, each (n,): ``direction`` is the sign of ``slow``, the low-passed velocity."""

    position: Floats
    velocity: Floats
    acceleration: Floats
    slow: Floats
    response: Floats
    inputs: Mapping[str, Floats]

    @property
    def direction(self) -> Floats:
        return np.asarray(np.sign(self.slow))


@dataclass(frozen=True)
class Term:
    """A parameter with its unit and kind, and its column of the regressor."""

    name: str
    unit: str
    kind: str
    column: Callable[[Signals], NDArray[np.floating[Any]]]


@dataclass(frozen=True)
class Law:
    """Terms that add up to the response.

    Parameters
    ----------
    unit, kind : str
        Of the response.
    judged : str
        Name of the term whose input is what a hold-out judges, when it is not the response: ``torque_scale`` for the
        motor side, where the torque of the motor is predicted.
    judged_input : str
        The input of that term.
    usual_stribeck_velocity : float
        Where nothing better is known, what decides how slow is too slow; zero where a law leaves it to the noise.
    derive : callable, optional
        Further parameters from the coefficients; they replace the terms named in ``replaced``.
    """

    name: str
    terms: tuple[Term, ...]
    unit: str
    kind: str
    judged: str = ""
    judged_input: str = ""
    usual_stribeck_velocity: float = 0.0
    derive: Callable[[LinearFit], dict[str, Estimate]] | None = None
    replaced: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(term.name for term in self.terms)

    def columns(self, signals: Signals) -> Floats:
        """Regressor (n, p)."""
        return np.column_stack([term.column(signals) for term in self.terms])

    def parameters(self, fit: LinearFit) -> dict[str, Estimate]:
        """The parameters with their units, those of the derived kind last."""
        found = {
            term.name: fit.estimate(term.name, term.unit, term.kind)
            for term in self.terms
            if term.name not in self.replaced
        }
        return {**found, **(self.derive(fit) if self.derive else {})}


def one_mass(friction: Friction = "symmetric", *, stribeck_velocity: float | None = None) -> Law:
    """One moving mass: ``force = mass a + friction(v) + offset``.

    ``asymmetric`` has its own Coulomb level and viscous slope for either direction. Both levels are positive where
    friction opposes the motion; half their difference is what ``offset`` is in the symmetric law.
    """
    terms = (
        Term("mass", "kg", "mass", lambda s: s.acceleration),
        *_friction(friction, ("N", "force"), ("N.s/m", "damping"), 1.0, stribeck_velocity),
    )
    return Law(f"one mass, {friction} friction", terms, "N", "force")


def motor_side(
    friction: Friction = "symmetric", *, load_dependent: bool = False, stribeck_velocity: float | None = None
) -> Law:
    """Motor side of a joint; needs the input ``command``, the joint-referred motor torque the drive was told [N.m].

    Parameters
    ----------
    load_dependent : bool
        Add ``load_coefficient``, Coulomb friction per torque through the gear.
    stribeck_velocity : float, optional
        Speed [rad/s] known from a friction sweep; adds ``stribeck_excess``, so less has to be excluded.
    """
    terms = [
        Term("torque_scale", "1", "number", lambda s: s.inputs["command"]),
        Term("motor_inertia", "kg.m2", "inertia", lambda s: -s.acceleration),
        *_friction(friction, ("N.m", "torque"), ("N.m.s/rad", "rotational_damping"), -1.0, stribeck_velocity),
    ]
    if load_dependent:
        terms.append(Term("load_coefficient", "1", "number", lambda s: -np.abs(s.response) * s.direction))
    usual = USUAL_STRIBECK_VELOCITY if stribeck_velocity is None else 0.0
    return Law(f"motor side, {friction} friction", tuple(terms), "N.m", "torque", "torque_scale", "command", usual)


def link_side(*, gravity: bool = True) -> Law:
    """Link side of a joint: inertia, gravity moment and its phase, zero of the torque transducer (``offset``)."""
    inertia = Term("link_inertia", "kg.m2", "inertia", lambda s: s.acceleration)
    offset = Term("offset", "N.m", "torque", lambda s: np.ones_like(s.position))
    if not gravity:
        return Law("link side, no gravity", (inertia, offset), "N.m", "torque")
    terms = (
        inertia,
        Term("gravity_sine", "N.m", "torque", lambda s: np.sin(s.position)),
        Term("gravity_cosine", "N.m", "torque", lambda s: np.cos(s.position)),
        offset,
    )
    return Law(
        "link side", terms, "N.m", "torque", derive=_gravity, replaced=("gravity_sine", "gravity_cosine")
    )  # fmt: skip


def _friction(
    model: Friction,
    level: tuple[str, str],
    slope: tuple[str, str],
    sign: float,
    stribeck_velocity: float | None,
) -> list[Term]:
    """Terms of friction and offset; ``level`` and ``slope`` are (unit, kind), ``sign`` how they enter the response."""
    if model == "symmetric":
        terms = [
            Term("viscous", *slope, lambda s: sign * s.velocity),
            Term("coulomb", *level, lambda s: sign * s.direction),
            Term("offset", *level, lambda s: np.full_like(s.position, sign)),
        ]
    elif model == "asymmetric":
        terms = [
            Term("viscous_positive", *slope, lambda s: sign * s.velocity * (s.slow > 0.0)),
            Term("coulomb_positive", *level, lambda s: sign * (s.slow > 0.0)),
            Term("viscous_negative", *slope, lambda s: sign * s.velocity * (s.slow < 0.0)),
            Term("coulomb_negative", *level, lambda s: -sign * (s.slow < 0.0)),
        ]
    else:
        raise Refused(
            f"no friction model '{model}' that is linear in its parameters",
            reason="unknown_model",
            where="law",
            remedy="Take symmetric or asymmetric; a Stribeck or LuGre model is fitted by its own function",
        )
    if stribeck_velocity is not None:
        speed = stribeck_velocity
        terms.append(Term("stribeck_excess", *level, lambda s: sign * s.direction * stribeck_share(s.slow, speed)))
    return terms


def _gravity(fit: LinearFit) -> dict[str, Estimate]:
    """Moment and phase of ``moment sin(q - phase)`` from the coefficients of sine and cosine."""
    sine, cosine = fit.value("gravity_sine"), fit.value("gravity_cosine")
    moment = max(math.hypot(sine, cosine), 1e-300)
    along = {"gravity_sine": sine / moment, "gravity_cosine": cosine / moment}
    across = {"gravity_sine": cosine / moment**2, "gravity_cosine": -sine / moment**2}
    return {
        "gravity_moment": fit.derived(moment, along, "N.m", "torque"),
        "gravity_phase": fit.derived(math.atan2(-cosine, sine), across, "rad", "angle"),
    }
