"""Checks of a dynamic model that hold for every rigid arm, whoever wrote the model.

They need nothing of the model but its methods, so a model from elsewhere is checked like the bench's own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError

Floats = NDArray[np.float64]

SYMMETRIC = 1e-10
POSITIVE = 1e-9
"""Smallest over largest eigenvalue of the mass matrix."""
SKEW = 1e-9
GRADIENT = 1e-8
SUM = 1e-9
FARTHEST_M = 10.0
HEAVIEST = 1e4
"""Largest element of a mass matrix of an arm in SI units [kg.m2 or kg]."""
STEP = 1e-3
# Central difference of sixth order: its own error stays below 1e-12 of the function for steps of a milliradian.
STENCIL = ((1, 45.0 / 60.0), (2, -9.0 / 60.0), (3, 1.0 / 60.0))


class Dynamics(Protocol):
    """What is asked of a model; shapes as in :class:`bench.models.rigid.ArmModel`."""

    n: int

    def mass_matrix(self, q: ArrayLike) -> Floats:
        """Return ``M(q)`` (n, n)."""

    def coriolis(self, q: ArrayLike, v: ArrayLike) -> Floats:
        """Return ``C(q, v)`` (n, n)."""

    def gravity(self, q: ArrayLike) -> Floats:
        """Return ``G(q)`` (n,)."""

    def potential(self, q: ArrayLike) -> float:
        """Return the potential energy."""

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Floats:
        """Return the torques (n,)."""

    def placement(self, q: ArrayLike) -> Floats:
        """Return the tip's placement (4, 4)."""


@dataclass(frozen=True)
class Finding:
    """One check: its name, the worst figure found, the limit it must stay below, and where that was."""

    name: str
    passed: bool
    figure: float
    limit: float
    detail: str

    def __str__(self) -> str:
        return (
            f"{'ok  ' if self.passed else 'FAIL'} {self.name}: {self.figure:.3g} (limit {self.limit:.3g}) {self.detail}"
        )


@dataclass(frozen=True)
class ModelReport:
    """All checks of a model."""

    findings: tuple[Finding, ...]
    poses: int

    @property
    def passed(self) -> bool:
        """Whether every check passed."""
        return all(finding.passed for finding in self.findings)

    def __str__(self) -> str:
        return "\n".join(str(finding) for finding in self.findings)

    def require(self, where: str = "model") -> None:
        """Raise the first failure.

        Raises
        ------
        ModelError
            ``reason`` is the name of the check that failed.
        """
        for finding in self.findings:
            if not finding.passed:
                raise ModelError(
                    f"{finding.name.replace('_', ' ')} is off by {finding.figure:.3g}, "
                    f"{finding.limit:.3g} is the limit {finding.detail}".rstrip(),
                    reason=finding.name,
                    where=where,
                    remedy=REMEDIES[finding.name],
                )


REMEDIES = {
    "finite": "Look for undefined parameters",
    "symmetric": "A mass matrix is symmetric: check how it is composed",
    "positive_definite": "Check masses and inertias: kinetic energy is positive for every motion",
    "skew": "Build C from Christoffel symbols of M, so that dM/dt - 2 C is skew-symmetric",
    "gravity": "Check the direction of gravity and the sign of G: it is the gradient of the potential energy",
    "sum": "Check the inverse dynamics: they are M a + C v + G",
    "zero_pose": "Check the joints' offsets, zero and the DH convention against the mechanics",
    "units": "Give m, kg, kg.m2, rad",
}


def check_model(
    model: Dynamics,
    *,
    poses: int = 20,
    seed: int = 0,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    zero_tip: ArrayLike | None = None,
    zero_tolerance: float = 1e-3,
) -> ModelReport:
    """Check a model over random poses and speeds.

    Parameters
    ----------
    model : Dynamics
    poses : int
        Number of random poses, with random speeds within ±1 and accelerations within ±1.
    seed : int
    low, high : (n,), optional
        Bounds of the poses; ±pi when left out.
    zero_tip : (3,) or (4, 4), optional
        Where the tip stands at the mechanical zero [m]: what was measured, or what the profile says.
    zero_tolerance : float
        For the tip's place [m] and, of a (4, 4), its axes [rad].

    Returns
    -------
    ModelReport
        ``finite``; ``symmetric``, ``positive_definite``: M; ``skew``: dM/dt - 2 C, of the largest element of M;
        ``gravity``: G against the gradient of the potential; ``sum``: inverse dynamics against M a + C v + G;
        ``zero_pose``; ``units``.
    """
    rng = np.random.default_rng(seed)
    n = model.n
    below = np.full(n, -np.pi) if low is None else np.asarray(low, dtype=np.float64)
    above = np.full(n, np.pi) if high is None else np.asarray(high, dtype=np.float64)
    worst = _Worst()
    for pose in range(poses):
        q, v, a = rng.uniform(below, above), rng.uniform(-1.0, 1.0, n), rng.uniform(-1.0, 1.0, n)
        _check_pose(model, q, v, a, worst, f"in pose {pose}")
    if zero_tip is not None:
        _check_zero(model, np.asarray(zero_tip, dtype=np.float64), zero_tolerance, worst)
    return ModelReport(worst.findings(), poses)


class _Worst:
    """The worst figure of every check so far."""

    def __init__(self) -> None:
        self.kept: dict[str, tuple[float, float, str]] = {}

    def add(self, name: str, figure: float, limit: float, detail: str) -> None:
        before = self.kept.get(name)
        # A figure that is no number is worse than any.
        if before is None or not figure <= before[0]:
            self.kept[name] = (figure, limit, detail)

    def findings(self) -> tuple[Finding, ...]:
        return tuple(
            Finding(name, bool(figure <= limit), figure, limit, detail)
            for name, (figure, limit, detail) in self.kept.items()
        )


def _check_pose(model: Dynamics, q: Floats, v: Floats, a: Floats, worst: _Worst, detail: str) -> None:
    mass, coriolis, gravity = model.mass_matrix(q), model.coriolis(q, v), model.gravity(q)
    torque, energy = model.inverse_dynamics(q, v, a), model.potential(q)
    tip = model.placement(q)
    parts = (mass, coriolis, gravity, torque, np.array([energy]), tip)
    finite = all(bool(np.all(np.isfinite(part))) for part in parts)
    worst.add("finite", 0.0 if finite else np.inf, 0.0, detail)
    if not finite:
        return
    scale = max(float(np.abs(mass).max()), 1e-12)
    worst.add("symmetric", float(np.abs(mass - mass.T).max()) / scale, SYMMETRIC, detail)
    values = np.linalg.eigvalsh(0.5 * (mass + mass.T))
    share = float(values[0]) / max(abs(float(values[-1])), 1e-300)
    # Told as what is missing to the limit, so that all figures are good when small.
    worst.add("positive_definite", POSITIVE - share, 0.0, f"{detail}: smallest eigenvalue {values[0]:.3g}")
    rate = _derivative(lambda s: model.mass_matrix(q + s * v))
    skew = rate - 2.0 * coriolis
    worst.add("skew", float(np.abs(skew + skew.T).max()) / scale, SKEW, detail)
    slope = _gradient(model.potential, q)
    push = max(1.0, abs(energy), float(np.abs(slope).max()))
    worst.add("gravity", float(np.abs(gravity - slope).max()) / push, GRADIENT, detail)
    total = mass @ a + coriolis @ v + gravity
    pull = max(float(np.abs(total).max()), 1e-12)
    worst.add("sum", float(np.abs(torque - total).max()) / pull, SUM, detail)
    far = float(np.linalg.norm(tip[:3, 3])) / FARTHEST_M
    worst.add("units", max(far, scale / HEAVIEST), 1.0, f"{detail}: of {FARTHEST_M:g} m, {HEAVIEST:g} kg.m2")


def _check_zero(model: Dynamics, expected: Floats, tolerance: float, worst: _Worst) -> None:
    tip = model.placement(np.zeros(model.n))
    if expected.shape == (3,):
        off = float(np.linalg.norm(tip[:3, 3] - expected))
    else:
        off = max(
            float(np.linalg.norm(tip[:3, 3] - expected[:3, 3])),
            float(np.abs(tip[:3, :3] - expected[:3, :3]).max()),
        )
    x, y, z = tip[:3, 3]
    worst.add("zero_pose", off, tolerance, f"m; the model's tip is at ({x:.4f}, {y:.4f}, {z:.4f}) m")


def _gradient(function: Callable[[Floats], float], q: Floats) -> Floats:
    """Return the gradient (n,) of a function of the pose."""

    def along(axis: Floats) -> Callable[[float], Floats]:
        return lambda s: np.asarray(function(q + s * axis))

    return np.array([_derivative(along(axis)) for axis in np.eye(len(q))])


def _derivative(function: Callable[[float], Floats]) -> Floats:
    total: Floats = np.zeros(())
    for steps, weight in STENCIL:
        h = steps * STEP
        total = total + weight * (function(h) - function(-h))
    return total / STEP
