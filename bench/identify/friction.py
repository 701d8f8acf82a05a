"""Identify a joint's friction from constant speeds in both directions.

In steady sliding the motor's torque is what the transducer reads plus friction, ``s u = tau_t + F(w)``, with ``u`` the
joint-referred torque commanded and ``s`` the drive's torque scale. The load's weight makes ``tau_t`` vary within the
stretches, which tells ``s``; it is regressed as

    u = (tau_t + J_m w' + sign(w) (coulomb + stribeck_excess exp(-(w / stribeck_velocity)^2) + load_coefficient |tau_t|)
         + viscous w + offset + ripple) / s

with the Stribeck velocity the only parameter that is not linear. ``u`` stands on the left because what the motor adds
unknown (ripple) is in ``u`` through the controller: as a regressor it would pull ``s`` down.

::

    fit = identify_friction(run, model="stribeck")
    fit.parameters["coulomb"], fit.shares
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from bench.errors import Refused
from bench.identify.alignment import Alignment
from bench.identify.blas import single_thread
from bench.identify.bounded import Solution, minimise
from bench.identify.estimate import Estimate
from bench.identify.friction_answer import TYPICAL_TEMPERATURE_COEFFICIENT, answer
from bench.identify.friction_design import Design, assemble, share_of_excess, shares
from bench.identify.friction_fit import Floats, FrictionFit, Shares
from bench.identify.joint_record import RunLike
from bench.identify.joint_runs import origin_of, sweep_segments, transducer_uncertainty
from bench.identify.robust import cluster_covariance
from bench.identify.sweep import SETTLE_TRAVEL_RAD, Segment

MODELS = ("coulomb_viscous", "stribeck")
GRID = 16
STICTION_ZONE = 3.0
"""A model without Stribeck is for speeds above so many Stribeck velocities: 1e-4 of the excess is left there."""
STICTION_SPEED = 0.1
"""Where the Stribeck velocity is not known, the same [rad/s]."""
SPAN_K = 3.0
"""Below this span of temperatures [K] the temperature coefficient is not asked for."""


def identify_friction(
    source: Sequence[Segment] | RunLike,
    model: str = "stribeck",
    *,
    torque_scale: Estimate | None = None,
    temperature_coefficient: Estimate | None = None,
    reference_temperature: float | None = None,
    motor_inertia: float = 0.0,
    slowest_speed: float | None = None,
    gain_uncertainty: float | None = None,
    zero_uncertainty: float | None = None,
    settle_travel: float = SETTLE_TRAVEL_RAD,
    ripple: bool = True,
    alignment: Alignment | None = None,
    where: str = "friction sweep",
) -> FrictionFit:
    """Fit a friction law to a friction sweep.

    Parameters
    ----------
    source : Run, or sequence of Segment
        An archived run with ``sweep`` phases, or condensed stretches. Both directions, at least three speeds each
        for ``stribeck`` and two for ``coulomb_viscous``.
    model : str
        ``coulomb_viscous`` (speeds above the stiction zone) or ``stribeck``; the steady state of LuGre is the latter.
    torque_scale : Estimate, optional
        Known scale; by default it is identified, which needs a load that varies. ``Estimate(1.0, 0.01, "1", "number")``
        says that the data sheet's torque constant is good for 1 %.
    temperature_coefficient : Estimate, optional
        Known coefficient [1/K]; by default it is identified where the record spans 3 K and tells it.
    reference_temperature : float, optional
        What the parameters refer to [degC]; by default the mean over what is used.
    motor_inertia : float
        Joint-referred [kg.m2], for what little acceleration the settled stretches have.
    slowest_speed : float, optional
        Slower stretches are left out [rad/s]. By default none for ``stribeck``, and three Stribeck velocities else.
    gain_uncertainty, zero_uncertainty : float, optional
        Standard uncertainties of the transducer: of its gain [1] and of its zero [N.m]. By default those of the run's
        rig profile; zero for stretches.
    settle_travel : float
        Travel after a change of speed that is left out [rad].
    ripple : bool
        Take the harmonics of the rotor's turn out that the slow stretches show.
    alignment : Alignment, optional
        Between the clocks of a run, where it is known already.
    where : str
        Named in errors.

    Raises
    ------
    Refused
        ``one_direction``, ``too_few_speeds``, ``load_does_not_vary``, ``no_stribeck``, ``not_identifiable`` …
    """
    if model not in MODELS:
        raise Refused(f"no friction model '{model}'", reason="model", where=where, remedy=f"Take {' or '.join(MODELS)}")
    gain, zero, origin = gain_uncertainty or 0.0, zero_uncertainty or 0.0, None
    if isinstance(source, Sequence):
        segments = source
    else:
        stated = transducer_uncertainty(source)
        gain = stated[0] if gain_uncertainty is None else gain_uncertainty
        zero = stated[1] if zero_uncertainty is None else zero_uncertainty
        origin, where = origin_of(source), str(source.path)
        segments = sweep_segments(source, alignment=alignment)
    stribeck = model == "stribeck"
    if slowest_speed is None:
        slowest_speed = 0.0 if stribeck else _stiction_zone(segments, settle_travel, where)
    selections = [segment.settled(settle_travel) for segment in segments]
    design = assemble(segments, selections, slowest_speed, motor_inertia, reference_temperature, where=where)
    _check_speeds(design, 3 if stribeck else 2, where)
    with single_thread():
        found = Identification(design, stribeck, torque_scale, temperature_coefficient, where).fit(
            ripple, gain, zero, shares(segments, selections, slowest_speed)
        )
    return replace(found, origin=origin)


def _stiction_zone(segments: Sequence[Segment], settle_travel: float, where: str) -> float:
    try:
        fit = identify_friction(segments, "stribeck", settle_travel=settle_travel, where=where)
    except Refused:
        return STICTION_SPEED
    return STICTION_ZONE * fit.law.stribeck_velocity


def _check_speeds(design: Design, fewest: int, where: str) -> None:
    for sign in (1.0, -1.0):
        speeds = {round(abs(s), 9) for s in design.speeds if s * sign > 0.0}
        if not speeds:
            way = "positive" if sign > 0 else "negative"
            raise Refused(
                f"no settled stretch in the {way} direction",
                reason="one_direction",
                where=where,
                remedy="Sweep both directions: one alone cannot tell Coulomb friction from an offset",
            )
        if len(speeds) < fewest:
            raise Refused(
                f"{len(speeds)} settled speeds in one direction, {fewest} are needed",
                reason="too_few_speeds",
                where=where,
                remedy="Add speeds, or longer stretches so that they settle",
            )


class Identification:
    """One fit: which columns there are, the Stribeck velocity by projection, all parameters together, the answer."""

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

    def fit(self, ripple: bool, gain: float, zero: float, used: Shares) -> FrictionFit:
        velocity = self.search() if self.stribeck else 1.0
        if ripple:
            velocity = self.refined(velocity)  # a coarse velocity would leave more than a small ripple
            self.waves = self.design.rippling(lambda: self.projected(velocity)[1], self.waves)
        solution = self.solve(velocity)
        if self.known_alpha is None and np.ptp(self.design.warmer) >= SPAN_K:
            solution = self._with_temperature(solution, velocity)
        return answer(self, solution, gain, zero, used)

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
