"""The regression behind :func:`bench.identify.friction.identify_friction`: columns, search, least squares."""

from __future__ import annotations

import math

import numpy as np

from bench.errors import Refused
from bench.identify.bounded import Solution, minimise
from bench.identify.estimate import Estimate
from bench.identify.friction_design import Design, share_of_excess
from bench.identify.friction_fit import TYPICAL_TEMPERATURE_COEFFICIENT, Floats
from bench.identify.robust import cluster_covariance

GRID = 16
SPAN_K = 3.0
"""Below this span of temperatures [K] the temperature coefficient is not asked for."""


class FrictionRegression:
    """One fit: which columns there are, the Stribeck velocity by projection, then all parameters together."""

    def __init__(
        self,
        design: Design,
        stribeck: bool,
        torque_scale: Estimate | None,
        temperature_coefficient: Estimate | None,
        where: str,
    ) -> None:
        self.design, self.stribeck, self.scale, self.where = design, stribeck, torque_scale, where
        self.known_alpha, self.free_alpha = temperature_coefficient, False
        self.alpha = temperature_coefficient.value if temperature_coefficient else 0.0
        self.notes = [] if design.temperature_known else ["no temperature was recorded: the parameters refer to none"]
        self.linear = ["torque_scale"] * (torque_scale is None) + ["coulomb"] + ["stribeck_excess"] * stribeck
        self.linear += ["viscous", "offset", "load_coefficient"]
        self.waves: list[int] = []
        u, external = design.command, design.external
        # with a known scale the load goes to the left and the coefficients are the parameters themselves
        self.left = u if torque_scale is None else torque_scale.value * u - external
        self._tell_load()

    def _tell_load(self) -> None:
        """Drop the load's columns where the load does not vary; refuse where the scale would hang on it."""
        d = self.design
        others = np.stack([d.direction, d.velocity, np.ones_like(d.velocity)], axis=1)
        size = d.rms(self.left - d.project(others, self.left)) + d.rms(self.left)
        if self.scale is None and d.rms(d.external - d.project(others, d.external)) < 0.05 * size:
            self.refuse_scale(f"the load varies by {d.rms(d.external - d.project(others, d.external)):.2g} N.m only")
        load = d.direction * d.load
        others = np.column_stack([others, d.external])
        if d.rms(load - d.project(others, load)) < 0.02 * size:
            self.linear.remove("load_coefficient")
            mean = float(np.average(d.load, weights=d.weight))
            self.notes.append(
                f"the load does not vary enough to tell its friction: coulomb holds at {mean:.2g} N.m, not at no load"
            )

    def refuse_scale(self, what: str) -> None:
        raise Refused(
            f"{what}: it does not tell the drive's torque scale",
            reason="load_does_not_vary",
            where=self.where,
            remedy="Sweep with a load whose weight turns with the joint, or give torque_scale with its uncertainty",
        )

    # columns ----------------------------------------------------------------------------------------------------------

    def column(self, name: str, velocity: float) -> Floats:
        d = self.design
        warm = 1.0 - self.alpha * d.warmer
        if name == "torque_scale":
            return d.external
        if name == "coulomb":
            return d.direction * warm
        if name == "stribeck_excess":
            return d.direction * warm * share_of_excess(d, velocity)
        if name == "viscous":
            return d.velocity * warm
        return np.ones_like(d.velocity) if name == "offset" else d.direction * d.load

    def matrix(self, velocity: float) -> Floats:
        columns = [self.column(name, velocity) for name in self.linear]
        columns += [wave for i in self.waves for wave in self.design.waves(i)]
        return np.stack(columns, axis=1)

    def projected(self, velocity: float) -> tuple[Floats, Floats]:
        """Linear coefficients and weighted residual for a Stribeck velocity."""
        root = self.design.root
        matrix = self.matrix(velocity) * root[:, None]
        beta = np.linalg.lstsq(matrix, self.left * root, rcond=1e-12)[0]
        residual: Floats = matrix @ beta - self.left * root
        return np.asarray(beta, dtype=np.float64), residual

    # solution ---------------------------------------------------------------------------------------------------------

    def search(self) -> float:
        """Stribeck velocity by projection on a logarithmic grid [rad/s]."""
        low, high = self.bounds()
        grid = np.geomspace(low, high, GRID)
        squares = [float(np.sum(self.projected(v)[1] ** 2)) for v in grid]
        return float(grid[int(np.argmin(squares))])

    def refined(self, velocity: float) -> float:
        """Stribeck velocity of the best fit without ripple [rad/s]; the start where there is none."""
        if not self.stribeck:
            return velocity
        try:
            return math.exp(self.solve(velocity).vector[len(self.linear) + 2 * len(self.waves)])
        except Refused:
            return velocity

    def bounds(self) -> tuple[float, float]:
        speeds = np.abs(self.design.speeds)
        return float(0.5 * speeds.min()), float(speeds.max())

    def solve(self, velocity: float) -> Solution:
        beta, _ = self.projected(velocity)
        start = np.concatenate([beta, [math.log(velocity)] * self.stribeck, [self.alpha] * self.free_alpha])
        low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
        if self.stribeck:
            low[len(beta)], high[len(beta)] = (math.log(v) for v in self.bounds())
        return minimise(self.residual, start, low, high, where=self.where)

    def residual(self, vector: Floats) -> tuple[Floats, Floats]:
        """Weighted model minus measured, with its derivatives."""
        d, count = self.design, len(self.linear) + 2 * len(self.waves)
        beta = vector[:count]
        velocity = math.exp(vector[count]) if self.stribeck else 1.0
        if self.free_alpha:
            self.alpha = float(vector[-1])
        matrix = self.matrix(velocity)
        extra = []
        if self.stribeck:
            excess = beta[self.linear.index("stribeck_excess")]
            step = 1e-5
            turn = (share_of_excess(d, velocity * (1 + step)) - share_of_excess(d, velocity * (1 - step))) / (2 * step)
            extra.append(excess * d.direction * (1.0 - self.alpha * d.warmer) * turn)
        if self.free_alpha:
            extra.append(self.by_alpha(beta, velocity))
        full = np.column_stack([matrix, *extra]) * d.root[:, None]
        residual: Floats = (matrix @ beta - self.left) * d.root
        return residual, full

    def by_alpha(self, beta: Floats, velocity: float) -> Floats:
        """Derivative of the model by the temperature coefficient (n,)."""
        d = self.design
        total = np.zeros_like(d.velocity)
        for name, shape in (
            ("coulomb", d.direction),
            ("viscous", d.velocity),
            ("stribeck_excess", d.direction * share_of_excess(d, velocity)),
        ):
            if name in self.linear:
                total -= beta[self.linear.index(name)] * d.warmer * shape
        return total

    def fit(self, ripple: bool) -> Solution:
        """Return the best fit; ``ripple`` takes the harmonics out that the slow stretches show."""
        velocity = self.search() if self.stribeck else 1.0
        if ripple:
            velocity = self.refined(velocity)  # a coarse velocity would leave more than a small ripple
            self.waves = self.design.rippling(lambda: self.projected(velocity)[1], self.waves)
        solution = self.solve(velocity)
        if self.known_alpha is None and np.ptp(self.design.warmer) >= SPAN_K:
            return self._with_temperature(solution, velocity)
        return solution

    def _with_temperature(self, plain: Solution, velocity: float) -> Solution:
        self.free_alpha = True
        try:
            fuller = self.solve(velocity)
            u = math.sqrt(cluster_covariance(fuller.jacobian, fuller.residual, self.design.lengths).covariance[-1, -1])
            if u <= 0.5 * TYPICAL_TEMPERATURE_COEFFICIENT:
                return fuller
        except Refused:
            pass
        self.free_alpha, self.alpha = False, 0.0
        self.notes.append("the temperature moved with the speeds: its coefficient cannot be told")
        return plain
