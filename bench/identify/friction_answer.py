"""From the coefficients of a friction regression to parameters, with all their sources of uncertainty."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from bench.errors import Refused
from bench.identify.bounded import Solution
from bench.identify.estimate import Estimate, Source, combine
from bench.identify.friction_fit import TYPICAL_TEMPERATURE_COEFFICIENT, UNITS, Floats, FrictionFit, Shares, Span
from bench.identify.friction_regression import FrictionRegression
from bench.identify.robust import cluster_covariance
from bench.models.friction import Friction

UNSURE_SCALE = 0.02
"""A torque scale with a larger standard uncertainty is none."""


def answer(who: FrictionRegression, solution: Solution, gain: float, zero: float, used: Shares) -> FrictionFit:
    """Return the fit of an identification; ``gain`` [1] and ``zero`` [N.m] are the transducer's uncertainties."""
    return _Answer(who, solution, gain, zero).fit(used)


class _Answer:
    """From the coefficients of the regression to physical parameters and all their sources of uncertainty."""

    def __init__(self, who: FrictionRegression, solution: Solution, gain: float, zero: float) -> None:
        self.who, self.solution, self.gain, self.zero = who, solution, gain, zero
        self.design = who.design
        scatter = cluster_covariance(solution.jacobian, solution.residual, who.design.lengths)
        count = len(who.linear)
        self.names = [*who.linear, *["stribeck_velocity"] * who.stribeck, *["temperature_coefficient"] * who.free_alpha]
        beta = solution.vector[:count]
        self._check_scale(beta, scatter.covariance)
        s = 1.0 / float(beta[0]) if who.scale is None else 1.0
        self.values = {name: float(b) * s for name, b in zip(who.linear, beta, strict=True)}
        slope = np.zeros((len(self.names), len(solution.vector)))
        slope[range(count), range(count)] = s
        if who.scale is None:
            self.values["torque_scale"] = s
            slope[1:count, 0] = [-self.values[name] * s for name in who.linear[1:]]
            slope[0, 0] = -s * s
        row = count
        if who.stribeck:
            place = count + 2 * len(who.waves)
            self.values["stribeck_velocity"] = math.exp(solution.vector[place])
            slope[row, place] = self.values["stribeck_velocity"]
            row += 1
        if who.free_alpha:
            self.values["temperature_coefficient"] = float(solution.vector[-1])
            slope[row, -1] = 1.0
        self.slope, self.scatter = slope, replace(scatter, factor=slope @ scatter.factor, solve=scatter.solve @ slope.T)

    def _check_scale(self, beta: Floats, covariance: Floats) -> None:
        if self.who.scale is not None:
            return
        u = math.sqrt(covariance[0, 0])
        if not (u < UNSURE_SCALE and 0.5 < beta[0] < 2.0):
            self.who.refuse_scale(f"the torque scale comes out as {1.0 / float(beta[0]):.3g}, good for {u:.1%}")

    def _moved_by(self, change: Floats) -> Floats:
        """What a change of the model (n,), in the regression's own torque, does to the parameters (p,)."""
        jacobian = self.solution.jacobian
        moved = np.linalg.lstsq(jacobian, -change * self.design.root, rcond=1e-12)[0]
        return np.asarray(self.slope @ moved)

    def sources(self) -> list[Source]:
        who, found = self.who, []
        if self.gain > 0.0:
            scaled = [
                name in ("torque_scale", "coulomb", "stribeck_excess", "viscous", "offset") for name in self.names
            ]
            factor = np.array([self.values[n] * on for n, on in zip(self.names, scaled, strict=True)]) * self.gain
            found.append(Source("transducer_gain", factor[:, None]))
        if self.zero > 0.0:
            factor = np.array([self.zero * (name == "offset") for name in self.names])
            found.append(Source("transducer_zero", factor[:, None]))
        if who.scale is not None and who.scale.standard_uncertainty > 0.0:
            factor = self._moved_by(-self.design.command) * who.scale.standard_uncertainty
            found.append(Source("torque_scale", factor[:, None], who.scale.degrees_of_freedom))
        if not who.free_alpha and np.ptp(self.design.warmer) > 0.0:
            u = TYPICAL_TEMPERATURE_COEFFICIENT if who.known_alpha is None else who.known_alpha.standard_uncertainty
            beta = self.solution.vector
            velocity = self.values.get("stribeck_velocity", 1.0)
            factor = self._moved_by(who.by_alpha(beta, velocity)) * u
            found.append(Source("temperature", factor[:, None]))
        return found

    def fit(self, used: Shares) -> FrictionFit:
        who, d, values = self.who, self.design, self.values
        sources = self.sources()

        def estimate(name: str, gradient: Floats, value: float) -> Estimate:
            unit, kind = UNITS[name]
            return combine(value, gradient, [self.scatter.source("segments", gradient), *sources], unit, kind)

        found = {name: estimate(name, np.eye(len(self.names))[i], values[name]) for i, name in enumerate(self.names)}
        if who.stribeck:
            self._check_stribeck(found)
            both = np.array([name in ("coulomb", "stribeck_excess") for name in self.names], dtype=np.float64)
            found["breakaway"] = estimate("breakaway", both, values["coulomb"] + values["stribeck_excess"])
        if who.scale is not None:
            found["torque_scale"] = who.scale
        if who.known_alpha is not None:
            found["temperature_coefficient"] = who.known_alpha
        s = found["torque_scale"].value
        waves = self.solution.vector[len(who.linear) : len(who.linear) + 2 * len(who.waves)]
        amplitude = np.hypot(waves[::2], waves[1::2]) * (s if who.scale is None else 1.0)
        laws = ("coulomb", "viscous", "stribeck_excess", "stribeck_velocity", "offset", "load_coefficient")
        law = Friction(
            **{name: values[name] for name in laws if name in values},
            temperature_coefficient=who.alpha,
            reference_temperature=d.reference_temperature,
        )
        told = "load_coefficient" in self.names
        warm = d.warmer + d.reference_temperature
        speeds = np.abs(d.speeds)
        span = Span(float(speeds.min()), float(speeds.max()), float(d.load.max()), float(warm.min()), float(warm.max()))
        unweighted = self.solution.residual / d.root * (s if who.scale is None else 1.0)
        return FrictionFit(
            "stribeck" if who.stribeck else "coulomb_viscous",
            found,
            tuple(self.names),
            tuple(sources),
            self.scatter,
            law,
            s,
            d.reference_temperature,
            0.0 if told else float(np.average(d.load, weights=d.weight)),
            span,
            used,
            float(np.sqrt(np.mean(unweighted**2))),
            {d.orders[i]: float(a) for i, a in zip(who.waves, amplitude, strict=True)},
            len(unweighted) - len(self.solution.vector),
            len(d.lengths),
            tuple(who.notes),
        )

    def _check_stribeck(self, found: dict[str, Estimate]) -> None:
        excess = found["stribeck_excess"]
        place = len(self.who.linear) + 2 * len(self.who.waves)
        if self.solution.bound[place] or excess.value <= excess.standard_uncertainty:
            raise Refused(
                f"friction does not fall with speed here: excess {excess}, Stribeck velocity "
                f"{self.values['stribeck_velocity']:.3g} rad/s"
                + (" at its bound" if self.solution.bound[place] else ""),
                reason="no_stribeck",
                where=self.who.where,
                remedy="Take the model 'coulomb_viscous', or sweep slower speeds",
            )
