"""Sources of uncertainty of a contact fit, each as what it does to the reported parameters."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.identify.estimate import Source, correlation_time
from bench.identify.frame import Frame
from bench.identify.memory import MemoryCheck
from bench.identify.problem import Problem
from bench.models.response import Path, response

Floats = NDArray[np.float64]


class Sources(NamedTuple):
    """Sources of a fit, the residuals' correlation time [samples], and u of contact points that were fitted [mm]."""

    found: list[Source]
    correlation_time: float
    contact_uncertainty_mm: Floats


def reported(problem: Problem, vector: Floats, presses: Sequence[int] | None = None) -> Floats:
    """Reported parameters: the mean force scale over presses, then the shape; damping as ``c`` [N.s/mm]."""
    chosen = range(len(problem.curves)) if presses is None else presses
    scale = float(np.mean([vector[problem.scale_index(i)] for i in chosen]))
    shape = problem.shape(vector)
    if problem.law == "damped_power_law":
        shape[1] *= scale
    return np.concatenate([[scale], shape])


def reported_slope(problem: Problem, vector: Floats) -> Floats:
    """Derivative of :func:`reported` by the vector (1 + k, p)."""
    k = problem.shape_size
    slope = np.zeros((1 + k, problem.size))
    slope[0, k : k + problem.scales] = 1.0 / problem.scales
    slope[1:, :k] = problem.shape_slope(vector)
    if problem.law == "damped_power_law":
        scale, ratio = float(np.mean(vector[k : k + problem.scales])), float(vector[1])
        slope[2, :k] *= scale
        slope[2, k : k + problem.scales] = ratio / problem.scales
    return slope


def sources_of(
    problem: Problem,
    vector: Floats,
    *,
    frame: Frame,
    memory: MemoryCheck | None = None,
    force_relative_uncertainty: float,
    position_relative_uncertainty: float,
) -> Sources:
    """Return the sources of uncertainty of the reported parameters.

    - ``model and noise`` (one press): covariance of the fit, enlarged by the autocorrelation of the residuals.
    - ``replicates`` (two presses or more): jackknife over presses; it holds noise, scatter between presses and contact
      points fitted per press alike, with one degree of freedom less than presses (B. Efron and C. Stein, Ann. Stat. 9
      (1981) 586). A press is left out by one Gauss–Newton step.
    - ``specimen memory`` (when it is worth a note): the answer's response to undoing what the presses before changed,
      at full size. It is a bias known roughly, so it is neither corrected nor divided by the root of three.
    - ``contact point`` (when it is not fitted), ``force zero``, ``frame stiffness``, ``force calibration``, ``position
      calibration``: the answer's linear response to each, common to all presses.
    """
    jacobian = problem.jacobian(vector)
    residual = problem.residual(vector)
    scaling = np.sqrt(np.maximum((jacobian**2).sum(axis=0), 1e-300))
    left, values, right = np.linalg.svd(jacobian / scaling, full_matrices=False)
    kept = values > 1e-10 * values[0]
    spread = right[kept].T / values[kept] / scaling[:, None]
    lengths = [len(curve.weight) for curve in problem.curves]
    correlation = correlation_time(residual, lengths)
    slope = reported_slope(problem, vector)
    found: list[Source] = []
    variance = float(residual @ residual) / max(len(residual) - problem.size, 1) * correlation
    first = problem.shape_size + problem.scales
    contacts = np.sqrt(variance * (spread[first:] ** 2).sum(axis=1))
    if len(problem.curves) == 1:
        freedom = max(len(residual) / correlation - problem.size, 1.0)
        found.append(Source("model and noise", slope @ spread * math.sqrt(variance), freedom))
    else:
        found.append(_jackknife(problem, vector, jacobian, residual, lengths))

    def answer(change: Floats) -> Floats:
        """Change of the reported parameters (1 + k,) when the weighted residual is moved by this much."""
        return np.asarray(-slope @ (spread @ (left[:, kept].T @ change)), dtype=np.float64)

    zeros = [curve.contact.force_zero_uncertainty_N * _ones(curve.weight) for curve in problem.curves]
    columns = _separately(zeros, answer)
    found.append(Source("force zero", columns))
    if memory is not None:
        undone = [
            float(vector[problem.scale_index(i)]) * np.interp(c.time_s[c.fitted], *memory.changes[i]) * c.weight
            # an estimator answers where the dent is touched; a free contact point has found its own answer
            + (
                0.0
                if problem.free_contact
                else _moved(problem, vector, i, memory.dents_mm[i] * _ones(c.path.position_mm))
            )
            for i, c in enumerate(problem.curves)
        ]
        found.append(Source("specimen memory", answer(np.concatenate(undone))[:, None]))
    if not problem.free_contact:
        moved = [_moved(problem, vector, i, -c.contact.standard_uncertainty_mm * _ones(c.path.position_mm))
                 for i, c in enumerate(problem.curves)]  # fmt: skip
        found.append(Source("contact point", answer(np.concatenate(moved))[:, None]))
    if frame.standard_uncertainty_N_mm > 0.0:
        lever = frame.standard_uncertainty_N_mm / frame.stiffness_N_mm**2
        moved = [_moved(problem, vector, i, c.force_N * lever) for i, c in enumerate(problem.curves)]
        found.append(Source("frame stiffness", answer(np.concatenate(moved))[:, None]))
    if position_relative_uncertainty > 0.0:
        moved = [_moved(problem, vector, i, c.depth_mm * position_relative_uncertainty)
                 for i, c in enumerate(problem.curves)]  # fmt: skip
        found.append(Source("position calibration", answer(np.concatenate(moved))[:, None]))
    if force_relative_uncertainty > 0.0:
        gain = np.zeros(1 + problem.shape_size)
        gain[0] = reported(problem, vector)[0]
        if problem.law == "damped_power_law":
            gain[2] = reported(problem, vector)[2]
        found.append(Source("force calibration", force_relative_uncertainty * gain[:, None]))
    return Sources(found, correlation, contacts)


def _ones(like: Floats) -> Floats:
    return np.ones(len(like))


def _separately(changes: list[Floats], answer: Callable[[Floats], Floats]) -> Floats:
    """One independent column per press."""
    columns = []
    for i in range(len(changes)):
        parts = [change if i == j else np.zeros_like(change) for j, change in enumerate(changes)]
        columns.append(answer(np.concatenate(parts)))
    return np.column_stack(columns)


def _moved(problem: Problem, vector: Floats, press: int, shift_mm: Floats) -> Floats:
    """Change of a press's weighted residual when its path is moved by ``shift_mm`` (n,), by central difference."""
    curve = problem.curves[press]
    shape, contact = problem.shape(vector), problem.contact(vector, press)
    largest = float(np.abs(shift_mm).max())
    part = 1e-4 / largest if largest > 0.0 else 0.0  # a tenth of a micron keeps the difference linear

    def model(sign: float) -> Floats:
        path = Path(curve.path.step, curve.path.position_mm + sign * part * shift_mm, curve.path.speed_mm_s)
        return response(problem.law, shape, path, contact, problem.d_ref)[curve.fitted]

    scale = float(vector[problem.scale_index(press)])
    if part == 0.0:
        return np.zeros(len(curve.weight))
    return np.asarray((model(1.0) - model(-1.0)) * (scale * curve.weight / (2.0 * part)), dtype=np.float64)


def _jackknife(problem: Problem, vector: Floats, jacobian: Floats, residual: Floats, lengths: list[int]) -> Source:
    count = len(problem.curves)
    edges = np.cumsum([0, *lengths])
    normal = jacobian.T @ jacobian
    scaling = 1.0 / np.sqrt(np.maximum(np.diag(normal), 1e-300))
    answers = []
    for press in range(count):
        rows = slice(int(edges[press]), int(edges[press + 1]))
        own = {problem.contact_index(press)} if problem.free_contact else set()
        if problem.scale_per_press:
            own.add(problem.scale_index(press))
        kept = np.array([i for i in range(problem.size) if i not in own])
        block = jacobian[rows][:, kept]
        left = normal[np.ix_(kept, kept)] - block.T @ block
        balance = scaling[kept]
        # at the optimum the gradient is zero, so that of the others is minus this press's own
        step = np.linalg.lstsq(left * np.outer(balance, balance), balance * (block.T @ residual[rows]), rcond=1e-12)[0]
        trial = vector.copy()
        trial[kept] += balance * step
        answers.append(reported(problem, trial, [i for i in range(count) if i != press]))
    table = np.array(answers)
    factor = (table - table.mean(axis=0)).T * math.sqrt((count - 1) / count)
    return Source("replicates", factor, float(count - 1))
