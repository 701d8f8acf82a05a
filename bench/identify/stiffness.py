"""Stiffness, hysteresis and backlash of a gear from ramps against a locked output.

With ``D`` the deflection less its zero, outside the gap, and ``h`` Dahl's hysteresis followed from turn to turn,

    tau = stiffness_load D - (stiffness_load - stiffness_zero) d tanh(D / d) + h

is fitted to all branches at once, so stiffnesses are slopes of the mid-line whatever the hysteresis does after a turn.

::

    fit = identify_stiffness([Ramp(1000.0, torque, motor_angle - joint_angle, command)])
    fit.parameters["stiffness_zero"], fit.backlash_limit
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.bounded import Solution, minimise
from bench.identify.estimate import Estimate, Source, combine
from bench.identify.joint_record import RunLike
from bench.identify.joint_runs import Origin, origin_of, ramp_stretches, transducer_uncertainty
from bench.identify.lugre_path import resolution_of
from bench.identify.ramp import KEPT_HZ, Branches, Ramp, branches
from bench.identify.ramp_scale import ramp_torque_scale
from bench.identify.robust import RobustCovariance, cluster_covariance
from bench.models.transmission import Transmission

Floats = NDArray[np.float64]

NAMES = ("stiffness_zero", "stiffness_load", "transition", "hysteresis_width", "hysteresis_travel", "backlash", "zero")
UNITS = {
    "stiffness_zero": ("N.m/rad", "rotational_stiffness"),
    "stiffness_load": ("N.m/rad", "rotational_stiffness"),
    "transition": ("rad", "angle"),
    "hysteresis_width": ("N.m", "torque"),
    "hysteresis_travel": ("rad", "angle"),
    "backlash": ("rad", "angle"),
    "zero": ("rad", "angle"),
}
WORTH = 1.01
"""A curve or a hysteresis is taken in when leaving it out costs a hundredth of the squares."""
FAR = 10.0
"""A shape whose start has so many times the squares of the best start is not tried."""
ENOUGH = 1e-10
TOLD = 1.5
"""A gap counts as told above so many of its expanded uncertainties."""
REACHED = 0.97


@dataclass(frozen=True)
class StiffnessFit:
    """A gear, identified.

    Parameters
    ----------
    parameters : mapping of str to Estimate
        By the names of :data:`NAMES`; ``stiffness_load`` is the slope far from zero.
    names : tuple of str
        Those fitted, in the order of ``covariance`` (p, p).
    load_Nm : float
        Largest torque of the ramps.
    backlash_told : bool
        Whether the gap stands out of the noise; where not, ``backlash_limit`` [rad] is what it may be at most.
    scatter, sources :
        Of the uncertainty over ``names``.
    law : Transmission
    torque_scale : Estimate or None
        True over commanded motor torque by the slopes of up and down, to check the sweep's.
    rms_Nm : float
        Left-over torque [N.m].
    branches : int
    notes : tuple of str
    origin : Origin or None
        The archive it came from.
    """

    parameters: Mapping[str, Estimate]
    names: tuple[str, ...]
    scatter: RobustCovariance
    sources: tuple[Source, ...]
    law: Transmission
    load_Nm: float
    backlash_told: bool
    backlash_limit: float
    torque_scale: Estimate | None
    rms_Nm: float
    branches: int
    notes: tuple[str, ...]
    origin: Origin | None = None

    @property
    def covariance(self) -> Floats:
        """All sources together (p, p), in the order of ``names``."""
        return np.asarray(self.scatter.covariance + sum(s.factor @ s.factor.T for s in self.sources))

    def stiffness_at(self, torque: float) -> Estimate:
        """Slope of the mid-line at a load [N.m], outside the gap."""
        law = self.law
        x = abs(float(law.deflection(torque))) - 0.5 * law.backlash
        value = float(law.slope(abs(float(law.deflection(torque))) + 1e-15))
        slopes = np.zeros(len(self.names))
        settled = math.tanh(x / law.transition) ** 2 if law.transition > 0.0 else 0.0
        for i, name in enumerate(self.names):
            if name == "stiffness_zero":
                slopes[i] = 1.0 - settled
            elif name == "stiffness_load":
                slopes[i] = settled
            elif name == "transition":
                bend = math.tanh(x / law.transition) / math.cosh(x / law.transition) ** 2
                slopes[i] = -2.0 * (law.stiffness_load - law.stiffness_zero) * bend * x / law.transition**2
        sources = [self.scatter.source("branches", slopes), *self.sources]
        return combine(value, slopes, sources, *UNITS["stiffness_zero"])

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "parameters": {name: asdict(one) for name, one in self.parameters.items()},
            "names": list(self.names),
            "covariance": self.covariance.tolist(),
            "load_Nm": self.load_Nm,
            "backlash_told": self.backlash_told,
            "backlash_limit_rad": self.backlash_limit,
            "torque_scale": None if self.torque_scale is None else asdict(self.torque_scale),
            "rms_Nm": self.rms_Nm,
            "branches": self.branches,
            "notes": list(self.notes),
        }


def identify_stiffness(
    source: Sequence[Ramp] | RunLike,
    *,
    gain_uncertainty: float | None = None,
    angle_resolution: float | None = None,
    kept_hz: float = KEPT_HZ,
    where: str = "stiffness ramp",
) -> StiffnessFit:
    """Fit a gear to ramps against a locked output.

    Parameters
    ----------
    source : Run, or sequence of Ramp
        An archived run with ``ramp`` phases, or stretches, each of them without interruption; at least four
        branches in all.
    gain_uncertainty : float, optional
        Standard uncertainty of the transducer's gain [1]; by default that of the run's rig profile, zero for stretches.
    angle_resolution : float, optional
        What the deflection is rounded to [rad]; by default it is looked for in the values. No gap below is told.
    kept_hz : float
        Samples are averaged to this rate.

    Raises
    ------
    Refused
        ``too_few_cycles``, ``no_deflection``, ``not_converged``, ``not_identifiable``.
    """
    origin = None
    if isinstance(source, Sequence):
        stretches = list(source)
    else:
        origin, where = origin_of(source), str(source.path)
        stretches, step = ramp_stretches(source)
        angle_resolution = step if angle_resolution is None else angle_resolution
        gain_uncertainty = transducer_uncertainty(source)[0] if gain_uncertainty is None else gain_uncertainty
    data = branches(stretches, kept_hz=kept_hz, where=where)
    problem, solution = _simplest(data, where)
    if angle_resolution is None:
        angle_resolution = max(resolution_of(one.deflection) for one in stretches)
    found = _answer(problem, solution, gain_uncertainty or 0.0, angle_resolution / math.sqrt(6.0))
    return replace(found, origin=origin)


def _simplest(data: Branches, where: str) -> tuple[_Problem, Solution]:
    """Leave the curve or the hysteresis out where that costs less than a hundredth of the squares."""
    problems = [_Problem(data, *shape) for shape in ((True, True), (False, True), (True, False), (False, False))]
    starts = [problem.start() for problem in problems]
    near = min(square for _, square in starts)
    found: list[tuple[_Problem, Solution]] = []
    failed: Refused | None = None
    for problem, (vector, square) in zip(problems, starts, strict=True):
        if square > FAR * near:
            continue
        try:
            found.append((problem, problem.solve(vector, where)))
        except Refused as error:
            failed = error
    if not found:
        assert failed is not None
        raise failed
    least = min(solution.square for _, solution in found)
    return next(one for one in found if one[1].square <= WORTH * least + 1e-24)


class _Problem:
    """Vector: :data:`NAMES` with logarithms of ``transition`` and ``hysteresis_travel``, H for the width, then the
    hysteresis torque each stretch begins with. Lengths are in units of the deflection's half-range, torques of the
    torque's, so that all are about one. ``straight`` has one stiffness only, ``smooth`` no hysteresis.
    """

    def __init__(self, data: Branches, straight: bool, smooth: bool) -> None:
        self.data, self.straight, self.smooth = data, straight, smooth
        self.length = 0.5 * float(np.ptp(data.deflection))
        self.size = 0.5 * float(np.ptp(data.torque))
        self.stretches = sum(data.fresh)
        self.x, self.y = data.deflection / self.length, data.torque / self.size
        self.way, self.ways = data.travel / self.length, [w / self.length for w in data.ways]
        parts = np.split(self.way, np.cumsum(data.lengths)[:-1])
        self.bins = np.concatenate([np.abs(np.gradient(part)) for part in parts])
        # the deflection where the torque crosses zero, in the mean of up and down
        near = np.abs(self.y) < 0.15
        crossing = [self.x[near & (data.direction == s)] for s in (1.0, -1.0)]
        known = [float(part.mean()) for part in crossing if part.size]
        self.middle = float(np.mean(known)) if known else 0.0

    def bounds(self) -> tuple[Floats, Floats]:
        low = np.array([1e-3, 1e-3, math.log(0.02), 0.0, math.log(2e-3), 0.0, self.middle - 1.0])
        high = np.array([1e3, 1e3, math.log(2.0), 2.0, math.log(0.7), 1.0, self.middle + 1.0])
        if self.straight:
            low[[0, 2]] = high[[0, 2]] = 1.0, 0.0
        if self.smooth:
            low[[3, 4]] = high[[3, 4]] = 0.0, math.log(0.05)
        free = np.full(self.stretches, 0.0 if self.smooth else np.inf)
        return np.concatenate([low, -free]), np.concatenate([high, free])

    def start(self) -> tuple[Floats, float]:
        """Best of a grid of shapes, the linear parameters by projection; and its sum of squares."""
        best, chosen = math.inf, np.empty(0)
        bends = (0.3,) if self.straight else (0.05, 0.12, 0.3, 0.8)
        travels = (0.05,) if self.smooth else (0.01, 0.05, 0.2)
        for d, travel, gap in product(bends, travels, (0.0, 0.05)):
            trial = self._projected(math.log(d), math.log(travel), gap)
            square = float(np.sum(self.residual(trial)[0] ** 2))
            if square < best:
                best, chosen = square, trial
        return chosen, best

    def solve(self, start: Floats, where: str) -> Solution:
        return minimise(self.residual, start, *self.bounds(), tolerance=ENOUGH, where=where)

    def _projected(self, log_d: float, log_travel: float, gap: float) -> Floats:
        vector = np.zeros(len(NAMES) + self.stretches)
        vector[[2, 4, 5, 6]] = log_d, log_travel, gap, self.middle
        linear = [0] * (not self.straight) + [1] + [3, *range(len(NAMES), len(vector))] * (not self.smooth)
        jacobian = self.residual(vector)[1][:, linear]
        vector[linear] = np.linalg.lstsq(jacobian, self.y, rcond=1e-9)[0]
        low, high = self.bounds()
        return np.clip(vector, low, high)

    def hysteresis(self, log_travel: float) -> tuple[Floats, Floats]:
        """Hysteresis torque per H (m,), and per what each stretch begins with (m, stretches)."""
        travel = math.exp(log_travel)
        per_half, per_start = np.empty_like(self.x), np.zeros((len(self.x), self.stretches))
        row, stretch, half = 0, -1, 0.0
        start = np.zeros(self.stretches)
        for length, way, fresh in zip(self.data.lengths, self.ways, self.data.fresh, strict=True):
            if fresh:
                stretch, half = stretch + 1, 0.0
                start = np.eye(self.stretches)[stretch]
            part = slice(row, row + length)
            row += length
            sign = float(self.data.direction[part.start])
            # the mean of an exponential over a sample's own travel, not the exponential of the mean
            each = np.maximum(0.5 * self.bins[part] / (travel * self.data.step), 1e-6)
            left = np.exp(-self.way[part] / travel) * np.sinh(self.data.step * each) / (self.data.step * np.sinh(each))
            per_half[part] = sign + (half - sign) * left
            per_start[part] = left[:, None] * start
            kept = math.exp(-way / travel)
            half, start = sign + (half - sign) * kept, start * kept
        return per_half, per_start

    def residual(self, vector: Floats) -> tuple[Floats, Floats]:
        """Model minus measured (m,) and its derivatives (m, p)."""
        k0, k1, log_d, half, log_travel, gap, zero = vector[: len(NAMES)]
        k0 = k1 if self.straight else k0
        d, starts = math.exp(log_d), vector[len(NAMES) :]
        moved = self.x - zero
        x = moved - np.clip(moved, -0.5 * gap, 0.5 * gap)
        outside = np.abs(moved) > 0.5 * gap
        t = np.tanh(x / d)
        slope = np.where(outside, k0 + (k1 - k0) * t**2, 0.0)
        per_half, per_start = self.hysteresis(log_travel)
        up, down = self.hysteresis(log_travel + 1e-5), self.hysteresis(log_travel - 1e-5)
        turned = (half * (up[0] - down[0]) + (up[1] - down[1]) @ starts) / 2e-5
        jacobian = np.column_stack(
            [
                np.zeros_like(x) if self.straight else d * t,
                x if self.straight else x - d * t,
                -(k1 - k0) * d * (t - x / d * (1.0 - t**2)),
                per_half,
                turned,
                -0.5 * slope * np.sign(moved),
                -slope,
                per_start,
            ]
        )
        model = k1 * x - (k1 - k0) * d * t + half * per_half + per_start @ starts
        return model - self.y, jacobian


def _answer(problem: _Problem, solution: Solution, gain: float, rounding: float) -> StiffnessFit:
    data, vector = problem.data, solution.vector
    unit = problem.size / problem.length
    scale = np.array([unit, unit, problem.length, 2.0 * problem.size, problem.length, problem.length, problem.length])
    natural = vector[: len(NAMES)].copy()
    natural[[2, 4]] = np.exp(natural[[2, 4]])
    values = dict(zip(NAMES, (natural * scale).tolist(), strict=True))
    slope = scale.copy()
    slope[[2, 4]] *= natural[[2, 4]]
    kept = [i for i in range(len(NAMES)) if not solution.bound[i]]
    columns = [*kept, *([] if problem.smooth else range(len(NAMES), len(vector)))]
    notes = []
    if problem.straight:
        values["stiffness_zero"] = values["stiffness_load"]
        notes.append("the stiffness does not change with load as far as this record tells")
    scatter = cluster_covariance(solution.jacobian[:, columns], solution.residual, data.lengths)
    names = tuple(NAMES[i] for i in kept)
    rows = np.zeros((len(kept), len(columns)))
    rows[range(len(kept)), range(len(kept))] = slope[kept]
    own = RobustCovariance(
        rows @ scatter.factor, scatter.correlation, scatter.solve @ rows.T, scatter.gram, scatter.hat, scatter.sums,
        scatter.ones,
    )  # fmt: skip
    torques = ("stiffness_zero", "stiffness_load", "hysteresis_width")
    factor = np.array([[values[name] * gain * (name in torques)] for name in names])
    sources = (Source("transducer_gain", factor),) if gain > 0.0 else ()
    extra = {"backlash": {"angle resolution": rounding}} if rounding > 0.0 else {}
    found = {}
    for i, name in enumerate(names):
        gradient = np.eye(len(names))[i]
        told_by = [own.source("branches", gradient), *sources]
        found[name] = combine(values[name], gradient, told_by, *UNITS[name], extra.get(name))
    if problem.straight:
        found["stiffness_zero"] = found["stiffness_load"]
    gap = found.get("backlash") or _at_bound(solution, problem, extra.get("backlash"))
    told = gap.value > TOLD * gap.expanded_uncertainty
    limit = max(gap.value, 0.0) + gap.expanded_uncertainty
    found["backlash"] = gap
    if not told:
        notes.append(f"no backlash is told: it is below {limit:.2g} rad")
    if problem.smooth:
        notes.append("no hysteresis stands out of the noise")
    law = Transmission(
        values["stiffness_zero"], values["stiffness_load"], values["transition"], values["backlash"],
        values["hysteresis_width"], values["hysteresis_travel"],
    )  # fmt: skip
    load = float(np.abs(data.torque).max())
    if abs(float(law.slope(law.deflection(load))) / law.stiffness_load - 1.0) > 1.0 - REACHED:
        notes.append(f"the stiffness still changes at {load:.3g} N.m: stiffness_load is extrapolated, ramp higher")
    return StiffnessFit(
        found, names, own, sources, law, load, told, limit, ramp_torque_scale(data, gain),
        float(np.sqrt(np.mean(solution.residual**2))) * problem.size, len(data.lengths), tuple(notes),
    )  # fmt: skip


def _at_bound(solution: Solution, problem: _Problem, extra: Mapping[str, float] | None) -> Estimate:
    """How large a gap could be that the fit put at zero: its uncertainty were it free."""
    kept = [i for i in range(solution.jacobian.shape[1]) if i == NAMES.index("backlash") or not solution.bound[i]]
    jacobian = solution.jacobian[:, kept]
    gradient = np.array([float(i == NAMES.index("backlash")) * problem.length for i in kept])
    try:
        source = cluster_covariance(jacobian, solution.residual, problem.data.lengths).source("branches", gradient)
    except Refused:
        source = Source("branches", np.full((len(kept), 1), math.inf))
    return combine(0.0, gradient, [source], *UNITS["backlash"], extra)
