"""Bristle stiffness and damping from small reversals, given the sliding friction a sweep has told.

Before it slides a joint is a spring on its bristles. With the motor's angle as the path, friction is what the motor
makes and neither load nor rotor takes, ``s u - tau_t - J_m theta''``; LuGre runs along the measured path with

    F = sigma0 z + sigma1 z' + viscous w + offset + zero

and sigma0, sigma1, a free zero and each stretch's first deflection are fitted, with analytic derivatives. A bristle
forgets by travel, not by time, so noise of the angle makes it forget too fast: angle and torque pass the same low-pass.

::

    fit = identify_lugre([PreSliding(1000.0, command, torque, angle)], friction_fit)
    fit.parameters["bristle_stiffness"]
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.identify.alignment import Alignment
from bench.identify.bounded import minimise
from bench.identify.estimate import Estimate, Source, combine
from bench.identify.friction_fit import FrictionFit
from bench.identify.joint_record import RunLike
from bench.identify.joint_runs import breakaway_stretches
from bench.identify.lugre_path import Bristle, PreSliding, PreSlidingPath, no_reversals, resolution_of, thin
from bench.identify.robust import RobustCovariance, cluster_covariance
from bench.models.friction import Friction

Floats = NDArray[np.float64]

CUTOFF_HZ = 25.0
GRID = np.geomspace(10.0, 1e7, 19)
ENOUGH = 1e-11
PIECES = 12
"""Stretches the record is cut into to see what they disagree by."""
LEAST_BENDING = 0.05
UNSURE = 0.25


@dataclass(frozen=True)
class LugreFit:
    """Pre-sliding parameters: ``bristle_stiffness``, ``bristle_damping`` and ``breakaway``.

    ``names`` are those fitted, in the order of ``covariance`` (p, p). ``zero_Nm`` is the torque that was left free,
    ``largest_share`` how near to sliding the reversals came [1]; ``rms_Nm`` what is left over [N.m].
    """

    parameters: Mapping[str, Estimate]
    names: tuple[str, ...]
    covariance: Floats
    law: Friction
    zero_Nm: float
    rms_Nm: float
    largest_share: float
    samples: int
    cutoff_hz: float | None
    notes: tuple[str, ...]

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        found = {name: asdict(one) for name, one in self.parameters.items()}
        plain = ("zero_Nm", "rms_Nm", "largest_share", "samples", "cutoff_hz")
        extra: dict[str, Any] = {name: getattr(self, name) for name in plain}
        return {
            "parameters": found, "names": list(self.names), "covariance": self.covariance.tolist(),
            "notes": list(self.notes), **extra,
        }  # fmt: skip


def identify_lugre(
    source: Sequence[PreSliding] | RunLike,
    steady: FrictionFit | Friction,
    *,
    torque_scale: float | None = None,
    motor_inertia: float = 0.0,
    cutoff_hz: float | None = CUTOFF_HZ,
    free_level: bool = False,
    angle_resolution: float | None = None,
    alignment: Alignment | None = None,
    where: str = "breakaway",
) -> LugreFit:
    """Fit the bristles.

    Parameters
    ----------
    source : Run, or sequence of PreSliding
        An archived run with ``breakaway`` phases, or stretches. Reversals without full sliding in between are best;
        sliding is allowed.
    steady : FrictionFit or Friction
        The sliding friction. A fit brings its torque scale and its uncertainty along.
    torque_scale : float, optional
        By default the fit's, else 1.
    motor_inertia : float
        Joint-referred [kg.m2].
    cutoff_hz : float, optional
        Of the low-pass on angle and torque alike, after which the record is decimated; None takes every sample.
    free_level : bool
        Fit the breakaway level as well instead of taking it from the sweep.
    angle_resolution : float, optional
        What the angle is rounded to [rad]; by default it is looked for in the values.
    alignment : Alignment, optional
        Between the clocks of a run, where it is known already.

    Raises
    ------
    Refused
        ``no_reversals``: the angle did not move, or the torque stayed so low that only a spring is seen.
    """
    if isinstance(source, Sequence):
        stretches = list(source)
    else:
        where = str(source.path)
        stretches, step = breakaway_stretches(source, alignment=alignment)
        angle_resolution = step if angle_resolution is None else angle_resolution
    fit = steady if isinstance(steady, FrictionFit) else None
    law = steady.law if isinstance(steady, FrictionFit) else steady
    scale = torque_scale if torque_scale is not None else fit.torque_scale if fit else 1.0
    paths = [PreSlidingPath.of(one, law, scale, motor_inertia, cutoff_hz, where) for one in stretches]
    if not paths:
        raise no_reversals("there is no stretch of small reversals", where)
    problem = _Problem(paths, law, free_level)
    start = problem.start(where)
    low, high = np.full(len(start), -np.inf), np.full(len(start), np.inf)
    low[0], high[0] = math.log(GRID[0]), math.log(GRID[-1])
    solution = minimise(problem.residual, start, low, high, tolerance=ENOUGH, where=where)
    stiffness = math.exp(solution.vector[0])
    share = max(float(np.abs(stiffness * z / path.level).max()) for z, path in problem.deflections(solution.vector))
    if solution.bound[0] or share < LEAST_BENDING:
        raise no_reversals(f"the reversals came to {share:.0%} of breakaway only", where)
    scatter = cluster_covariance(solution.jacobian, solution.residual, _pieces([len(p.force) for p in paths]))
    step = max(resolution_of(one.angle) for one in stretches) if angle_resolution is None else angle_resolution
    sources = problem.of_resolution(solution.vector, solution.jacobian, solution.residual, step)
    if fit is not None:
        sources += problem.of_sweep(solution.vector, solution.jacobian, fit)
    return _answer(problem, solution.vector, scatter, sources, fit, share, solution.residual, cutoff_hz)


class _Problem:
    """Vector: log sigma0, sigma1, zero, each stretch's first deflection (in units of g / sigma0), log level if free."""

    def __init__(self, paths: list[PreSlidingPath], law: Friction, free_level: bool) -> None:
        self.paths, self.law, self.free_level = paths, law, free_level

    def start(self, where: str) -> Floats:
        """Best stiffness of a grid, the linear parameters by projection."""
        best, vector = math.inf, np.empty(0)
        for stiffness in GRID:
            trial = np.zeros(3 + len(self.paths) + self.free_level)
            trial[0] = math.log(stiffness)
            residual, jacobian = self.residual(trial, step=8)
            linear = jacobian[:, 1 : 3 + len(self.paths)]
            move = np.linalg.lstsq(linear, -residual, rcond=1e-9)[0]
            square = float(np.sum((residual + linear @ move) ** 2))
            if square < best:
                best, vector = square, trial
                vector[1 : 3 + len(self.paths)] = move
                vector[1] = 0.0  # of a grid's stiffness its damping is not to be believed
                vector[3 : 3 + len(self.paths)] = np.clip(vector[3 : 3 + len(self.paths)], -1.0, 1.0)
        if not math.isfinite(best):
            raise no_reversals("the record holds numbers that are none", where)
        return vector

    def residual(self, vector: Floats, step: int = 1) -> tuple[Floats, Floats]:
        """Model minus measured (n,) [N.m] and its derivatives; ``step`` takes one sample in so many."""
        found = [self._one(vector, i, thin(path, step)) for i, path in enumerate(self.paths)]
        return np.concatenate([r for r, _ in found]), np.concatenate([j for _, j in found])

    def deflections(self, vector: Floats) -> list[tuple[Floats, PreSlidingPath]]:
        return [(Bristle(vector, i, path, self.free_level).z, path) for i, path in enumerate(self.paths)]

    def _one(self, vector: Floats, index: int, path: PreSlidingPath) -> tuple[Floats, Floats]:
        b = Bristle(vector, index, path, self.free_level)
        jacobian = np.zeros((len(path.force), len(vector)))
        jacobian[:, 0] = b.stiffness * b.z + b.by_ratio(1.0) - b.start_factor * b.by_start
        jacobian[:, 1] = b.rate
        jacobian[:, 2] = 1.0
        jacobian[:, 3 + index] = b.by_start * b.unit
        if self.free_level:
            jacobian[:, -1] = b.by_ratio(-1.0) + b.start_factor * b.by_start
        return b.stiffness * b.z + vector[1] * b.rate + vector[2] - path.force, jacobian

    def of_resolution(self, vector: Floats, jacobian: Floats, residual: Floats, step: float) -> list[Source]:
        """What the angle's resolution [rad] does to the bristles.

        Reversals repeat, and so does what rounding does to their ends: it does not average out. Two changes of the
        path, each by step / sqrt(12): the way out against the way back, which looks like damping, and both ends
        outward.
        """
        if step == 0.0:
            return []
        rounded = step / math.sqrt(12.0)
        moved = [np.empty(0)] * 2
        for path in self.paths:
            pace = float(np.sqrt(np.mean(path.velocity**2)))
            reach = float(np.ptp(np.cumsum(path.travel)))
            there_and_back = np.diff(np.tanh(4.0 * path.velocity / pace)) * rounded
            outward = path.travel * (2.0 * rounded / reach)
            for i, extra in enumerate((there_and_back, outward)):
                other = _Problem([replace(path, travel=path.travel + extra)], self.law, self.free_level)
                own = np.delete(vector, [3 + k for k, p in enumerate(self.paths) if p is not path])
                moved[i] = np.concatenate([moved[i], other.residual(own)[0]])
        change = residual[:, None] - np.stack(moved, axis=1)
        return [Source("angle resolution", np.asarray(np.linalg.lstsq(jacobian, change, rcond=1e-10)[0]))]

    def of_sweep(self, vector: Floats, jacobian: Floats, fit: FrictionFit) -> list[Source]:
        """What the sweep's uncertainties do to the bristles."""
        changes = np.zeros((len(jacobian), len(fit.names)))
        row = 0
        for i, path in enumerate(self.paths):
            b = Bristle(vector, i, path, self.free_level)
            part = slice(row, row + len(path.force))
            row = part.stop
            law = self.law
            turn = 2.0 * law.stribeck_excess * path.share * path.velocity**2 / law.stribeck_velocity**3
            of_level = {
                "coulomb": path.warm,
                "stribeck_excess": path.warm * path.share,
                "stribeck_velocity": path.warm * turn,
                "load_coefficient": np.abs(path.load),
            }
            for k, name in enumerate(fit.names):
                if name in of_level and not self.free_level:
                    changes[part, k] = b.by_ratio(-of_level[name] / path.level)
                elif name == "viscous":
                    changes[part, k] = path.warm * path.velocity
                elif name == "torque_scale":
                    changes[part, k] = -path.command
        moved = -np.linalg.lstsq(jacobian, changes, rcond=1e-10)[0]
        names = [Source("segments of the sweep", fit.scatter.factor, fit.scatter.freedom(_largest(fit)))]
        return [Source(s.name, np.asarray(moved @ s.factor), s.degrees_of_freedom) for s in [*names, *fit.sources]]


def _pieces(lengths: list[int]) -> list[int]:
    """Cut stretches into about twelve pieces in all."""
    each = max(1, sum(lengths) // PIECES)
    found: list[int] = []
    for length in lengths:
        count = max(1, round(length / each))
        edges = np.linspace(0, length, count + 1).round().astype(int)
        found += np.diff(edges).tolist()
    return found


def _largest(fit: FrictionFit) -> Floats:
    """Direction of the sweep's parameters that matters here: the level at rest."""
    return np.array([float(name in ("coulomb", "stribeck_excess")) for name in fit.names])


def _answer(
    problem: _Problem,
    vector: Floats,
    scatter: RobustCovariance,
    sources: list[Source],
    fit: FrictionFit | None,
    share: float,
    residual: Floats,
    cutoff_hz: float | None,
) -> LugreFit:
    law = problem.law
    stiffness = math.exp(vector[0])
    slopes = {"bristle_stiffness": (0, stiffness), "bristle_damping": (1, 1.0)}
    values = {"bristle_stiffness": stiffness, "bristle_damping": float(vector[1])}
    units = {
        "bristle_stiffness": ("N.m/rad", "rotational_stiffness"),
        "bristle_damping": ("N.m.s/rad", "rotational_damping"),
        "breakaway": ("N.m", "torque"),
    }
    if problem.free_level:
        values["breakaway"] = law.breakaway * math.exp(vector[-1])
        slopes["breakaway"] = (len(vector) - 1, values["breakaway"])
    rows = np.zeros((len(slopes), len(vector)))
    for i, (place, slope) in enumerate(slopes.values()):
        rows[i, place] = slope
    found = {
        name: combine(values[name], rows[i], [scatter.source("pieces", rows[i]), *sources], *units[name])
        for i, name in enumerate(slopes)
    }
    if not problem.free_level and fit is not None and "breakaway" in fit.parameters:
        found["breakaway"] = fit.parameters["breakaway"]
    notes = [
        f"{name} is told to {found[name].expanded_uncertainty:.2g} {found[name].unit} only: the reversals were too slow"
        for name in ("bristle_damping",)
        if found[name].standard_uncertainty > UNSURE * abs(found[name].value)
    ]
    covariance = scatter.covariance + sum((s.factor @ s.factor.T for s in sources), np.zeros(scatter.covariance.shape))
    return LugreFit(
        found,
        tuple(slopes),
        np.asarray(rows @ covariance @ rows.T),
        law,
        float(vector[2]),
        float(np.sqrt(np.mean(residual**2))),
        share,
        len(residual),
        cutoff_hz,
        tuple(notes),
    )
