"""What a friction identification answers: parameters with their uncertainty, and where they hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.identify.estimate import Estimate, Source, combine
from bench.identify.joint_runs import Origin
from bench.identify.robust import RobustCovariance
from bench.models.friction import Friction

Floats = NDArray[np.float64]

UNITS: dict[str, tuple[str, str]] = {
    "torque_scale": ("1", "number"),
    "coulomb": ("N.m", "torque"),
    "viscous": ("N.m.s/rad", "rotational_damping"),
    "stribeck_excess": ("N.m", "torque"),
    "stribeck_velocity": ("rad/s", "angular_speed"),
    "offset": ("N.m", "torque"),
    "load_coefficient": ("1", "number"),
    "temperature_coefficient": ("1/K", "reciprocal_temperature"),
    "breakaway": ("N.m", "torque"),
}
"""Parameter → unit and kind."""
TYPICAL_TEMPERATURE_COEFFICIENT = 0.005
"""Standard uncertainty [1/K] of a coefficient nobody knows; greases lose 0.3 to 1 % of their friction per kelvin."""


@dataclass(frozen=True)
class Shares:
    """What part of the record's time was used, and why the rest was not [1]; they add up to one.

    ``transient``: after a change of speed. ``stiction``: stuck, or slower than the slowest speed the model is for.
    ``unsteady``: sliding, but off the commanded speed.
    """

    settled: float
    transient: float
    stiction: float
    unsteady: float

    def __str__(self) -> str:
        return (
            f"{self.settled:.1%} of the record used; left out: {self.transient:.1%} transients, {self.stiction:.1%} "
            f"stiction zone, {self.unsteady:.1%} off the speed"
        )


@dataclass(frozen=True)
class Span:
    """Where parameters were identified: speeds [rad/s], largest load [N.m], temperatures [degC]."""

    speed_min: float
    speed_max: float
    load_max: float
    temperature_min: float
    temperature_max: float


@dataclass(frozen=True)
class FrictionFit:
    """Friction of one joint, identified.

    Parameters
    ----------
    model : str
        ``coulomb_viscous`` or ``stribeck``.
    parameters : mapping of str to Estimate
        By the names of :data:`UNITS`; what was not told is missing here and said in ``notes``.
        ``breakaway = coulomb + stribeck_excess``.
    names : tuple of str
        Parameters of the fit in the order of ``covariance``; those that were given are not among them.
    sources : tuple of Source
        Sources of uncertainty over ``names`` beside the scatter.
    scatter : RobustCovariance
        Over ``names``: what the stretches disagree by.
    law : Friction
        The values as a law that can be evaluated.
    torque_scale : float
        True over commanded motor torque; as used where it was given.
    reference_temperature, reference_load : float
        What the parameters refer to [degC], [N.m]; the load is zero unless its coefficient could not be told.
    span : Span
    shares : Shares
    rms_Nm, ripple_Nm : float
        Left-over torque of the bins used [N.m], and amplitude of the ripple taken out, by rotor harmonic below.
    ripple : mapping of int to float
        Harmonic of the rotor's turn → amplitude [N.m].
    degrees_of_freedom : int
        Bins used less parameters; the uncertainty counts stretches instead.
    stretches : int
    notes : tuple of str
    origin : Origin or None
        The archive it came from.
    """

    model: str
    parameters: Mapping[str, Estimate]
    names: tuple[str, ...]
    sources: tuple[Source, ...]
    scatter: RobustCovariance
    law: Friction
    torque_scale: float
    reference_temperature: float
    reference_load: float
    span: Span
    shares: Shares
    rms_Nm: float
    ripple: Mapping[int, float]
    degrees_of_freedom: int
    stretches: int
    notes: tuple[str, ...]
    origin: Origin | None = None

    @property
    def covariance(self) -> Floats:
        """All sources together (p, p), in the order of ``names``."""
        total = self.scatter.covariance
        for source in self.sources:
            total = total + source.factor @ source.factor.T
        return total

    def torque(self, velocity: ArrayLike, *, load: ArrayLike = 0.0, temperature: ArrayLike | None = None) -> Floats:
        """Friction torque by the identified law (n,) [N.m]; see :meth:`bench.models.friction.Friction.torque`."""
        return self.law.torque(velocity, load=load, temperature=temperature)

    def torque_at(self, velocity: float, *, load: float = 0.0) -> Estimate:
        """Friction torque at one speed [rad/s] and load [N.m] with its uncertainty, at the reference temperature."""
        gradient = np.zeros(len(self.names))
        for i, name in enumerate(self.names):
            gradient[i] = self._slope(name, velocity, load)
        return self.scalar(float(self.torque(velocity, load=load)), gradient, "N.m", "torque")

    def scalar(self, value: float, gradient: Floats, unit: str, kind: str) -> Estimate:
        """Uncertainty of any scalar with this gradient (p,) by the parameters of ``names``."""
        return combine(value, gradient, [self.scatter.source("segments", gradient), *self.sources], unit, kind)

    def record(self) -> dict[str, Any]:
        """Return it as plain data, for an archive or a report."""
        return {
            "model": self.model,
            "parameters": {name: asdict(one) for name, one in self.parameters.items()},
            "names": list(self.names),
            "covariance": self.covariance.tolist(),
            "torque_scale": self.torque_scale,
            "reference_temperature_degC": self.reference_temperature,
            "reference_load_Nm": self.reference_load,
            "span": asdict(self.span),
            "shares": asdict(self.shares),
            "rms_Nm": self.rms_Nm,
            "ripple_Nm": {str(order): amplitude for order, amplitude in self.ripple.items()},
            "degrees_of_freedom": self.degrees_of_freedom,
            "stretches": self.stretches,
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        lines = [f"{name} {one}" for name, one in self.parameters.items()]
        return "\n".join([f"{self.model}, at {self.reference_temperature:.1f} degC", *lines, str(self.shares)])

    def _slope(self, name: str, velocity: float, load: float) -> float:
        sign = float(np.sign(velocity))
        ratio = (velocity / self.law.stribeck_velocity) ** 2
        share = float(np.exp(-ratio))
        slopes = {
            "coulomb": sign,
            "viscous": velocity,
            "stribeck_excess": sign * share,
            "stribeck_velocity": sign * self.law.stribeck_excess * share * 2.0 * ratio / self.law.stribeck_velocity,
            "offset": 1.0,
            "load_coefficient": sign * abs(load),
        }
        return slopes.get(name, 0.0)
