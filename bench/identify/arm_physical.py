"""Parameters of links, motors and friction that a real arm can have, closest to the data.

::

    fit = make_consistent(regressor, response, nominal)      # (m, 14 n), (m,): weighted, or the triangle of its QR
    fit.links                                                # a body each: mass, centre, inertia
    fit.at_bound                                             # what the data would have had impossible

Torques tell combinations of parameters only, and a least-squares answer may be one that no body has: a negative mass,
moments of inertia that break the triangle inequality. Here the parameters solve ::

    min |regressor theta - response|^2 / noise^2 + |distance from the nominal parameters|^2 / belief^2
    with  every link's pseudo-inertia - floor * nominal pseudo-inertia  positive semidefinite,
          motor inertia, viscous and Coulomb friction >= 0.

The distance of a link is the Frobenius norm of ``L^-1 (P - P0) L^-T``, ``P0 = L L^T`` its nominal pseudo-inertia: the
same in every frame and every unit, 1 for a link that is twice its nominal self along one direction. So the profile is
believed to within a factor of about two. What the data tell better than that, nearly all they tell, is left to them;
what they do not tell is the profile's, and hardly any link is pushed to the edge of what is possible by noise.

Sources
-------
P. M. Wensing, S. Kim, J.-J. E. Slotine, *Linear matrix inequalities for physically consistent inertial parameter
identification*, IEEE RA-L 3(1), 2018; T. Lee, P. M. Wensing, F. C. Park, *Geometric robot dynamic identification: a
convex programming approach*, IEEE T-RO 36(2), 2020 (the distance; here its second-order form); P. J. Goulart,
Y. Chen, *Clarabel: an interior-point solver for conic programs with quadratic objectives*, 2024 (the solver).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_nominal import LINK, SCALARS, NominalArm, link_parameters, link_unknowns, scalars_of
from bench.identify.blas import single_thread
from bench.models.arm_description import LinkInertia

Floats = NDArray[np.float64]

FLOOR = 1e-4
"""A link keeps this share of its nominal pseudo-inertia in every direction."""
BELIEF = 1.0
"""Standard deviation of a link's (or a scalar's) distance from nominal, before any data."""
RANK = 1e-9
"""Directions are blind below this share of the regressor's largest singular value, in the distance's coordinates."""
NOISE = 1e-7
"""Least noise, as a share of the response's root mean square: below it, scales would be lost in rounding."""
AT_BOUND = 10.0
"""A link, or a parameter, is called at its bound within this many times the floor."""


@dataclass(frozen=True)
class PhysicalFit:
    """What :func:`make_consistent` found.

    Parameters
    ----------
    names : tuple of str
        Of the joints.
    parameters : (14 n + k,) float64
        Ten of every link, then ``motor_inertia``, ``viscous``, ``coulomb``, ``offset`` of every joint, then the k
        coefficients of further columns.
    eigenvalues : (n, 4) float64
        Of every link's pseudo-inertia relative to its nominal one, ascending: at least the floor.
    feasible_before : bool
        Some consistent parameters explain the data as well as unconstrained least squares.
    moved : float
        Norm of the change in what the data see, in units of the noise; squared it is the rise of the weighted cost.
    error_before, error_after : float
        ``|regressor theta - response| / |response|`` of least squares and of this answer.
    at_bound : tuple of str
        Links (by joint) and parameters (``elbow.viscous``) that ended at their bound.
    unseen : int
        Directions in which the nominal parameters say more than the data do.
    status : str
        The solver's.
    iterations : int
    """

    names: tuple[str, ...]
    parameters: Floats
    eigenvalues: Floats
    feasible_before: bool
    moved: float
    error_before: float
    error_after: float
    at_bound: tuple[str, ...]
    unseen: int
    status: str
    iterations: int

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.names)

    @property
    def links(self) -> tuple[LinkInertia, ...]:
        """Bodies of the links, in the frames of their joints."""
        rows = self.parameters[: LINK * self.size].reshape(self.size, LINK)
        return tuple(LinkInertia.from_parameters(row) for row in rows)

    @property
    def motor_inertia(self) -> Floats:
        """(n,)."""
        return scalars_of(self.parameters, self.size, "motor_inertia")

    @property
    def viscous(self) -> Floats:
        """(n,)."""
        return scalars_of(self.parameters, self.size, "viscous")

    @property
    def coulomb(self) -> Floats:
        """(n,)."""
        return scalars_of(self.parameters, self.size, "coulomb")

    @property
    def offset(self) -> Floats:
        """(n,)."""
        return scalars_of(self.parameters, self.size, "offset")

    @property
    def further(self) -> Floats:
        """(k,) coefficients of columns beside the standard ones."""
        return self.parameters[(LINK + len(SCALARS)) * self.size :]

    def error(self, regressor: Floats, response: Floats) -> float:
        """``|regressor theta - response| / |response|`` on other rows, such as a hold-out's."""
        return relative_error(regressor, response, self.parameters)

    def lines(self) -> list[str]:
        """Say it in a few lines."""
        bound = ", ".join(self.at_bound) or "nothing"
        before = "was one of a real arm" if self.feasible_before else "was none of a real arm"
        return [
            f"physically consistent ({self.status}, {self.iterations} iterations); the least-squares answer {before}",
            f"relative error {100 * self.error_before:.2f} % before, {100 * self.error_after:.2f} % after",
            f"smallest eigenvalue {self.eigenvalues.min():.2g} of the nominal; at a bound: {bound}",
            f"in {self.unseen} directions the nominal arm says more than the data",
        ]


def relative_error(regressor: Floats, response: Floats, parameters: Floats) -> float:
    """Return ``|regressor parameters - response| / |response|``."""
    return float(np.linalg.norm(regressor @ parameters - response) / np.linalg.norm(response))


def make_consistent(
    regressor: Floats, response: Floats, nominal: NominalArm, *, noise: float = 1.0, floor: float = FLOOR
) -> PhysicalFit:
    """Return the consistent parameters closest to the data.

    Parameters
    ----------
    regressor : (m, 14 n + k) float64
        Columns of the standard parameters in the order of :class:`PhysicalFit`; a column of zeros is a parameter that
        is not asked for and stays nominal. Rows weighted by one over their standard deviation; ``[regressor,
        response]`` may be the triangle of its QR factorisation, whatever the record's length.
    response : (m,) float64
    nominal : NominalArm
    noise : float
        Standard deviation of the rows: 1 where they are weighted.
    floor : float
        Share of the nominal pseudo-inertia that every link keeps.

    Raises
    ------
    Refused
        ``shape``; ``not_finite``; ``no_torque``; ``solver_failed``: no answer; ``inconsistent``: an answer whose
        eigenvalues do not hold what was asked for.
    MissingExtra
        Clarabel is not installed.
    """
    n = nominal.size
    standard = (LINK + len(SCALARS)) * n
    matrix, right = np.asarray(regressor, dtype=np.float64), np.asarray(response, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] < standard or right.shape != matrix.shape[:1]:
        raise Refused(
            f"a regressor of shape {matrix.shape} with a response of shape {right.shape} for {n} joints",
            reason="shape",
            where="physical consistency",
            remedy=f"Give (m, {standard}) columns: ten a link, then {', '.join(SCALARS)} of every joint",
        )
    if not (np.isfinite(matrix).all() and np.isfinite(right).all()):
        raise Refused(
            "values that are no numbers",
            reason="not_finite",
            where="physical consistency",
            remedy="Leave those samples out of the record",
        )
    if not right.any():
        raise Refused(
            "there is no torque at all in the record",
            reason="no_torque",
            where="physical consistency",
            remedy="Look at the servos' currents and at how they were recorded",
        )
    with single_thread():
        if len(right) > matrix.shape[1] + 1:
            triangle = np.asarray(np.linalg.qr(np.column_stack([matrix, right]), mode="r"))
            matrix, right = triangle[:, :-1], triangle[:, -1]
        return _solve(matrix, right, nominal, noise, floor)


def _solve(matrix: Floats, right: Floats, nominal: NominalArm, noise: float, floor: float) -> PhysicalFit:
    turn = nominal.turn(matrix.shape[1])
    start = nominal.parameters(matrix.shape[1])
    whitened = matrix @ turn
    _, values, axes = np.linalg.svd(whitened, full_matrices=True)
    seen = int(np.count_nonzero(values > RANK * values[0]))
    known, blind = axes[:seen].T, axes[seen:].T
    target = right - matrix @ start
    best = np.linalg.lstsq(whitened @ known, target, rcond=None)[0]  # least squares, in what the data see
    scale = max(noise, NOISE * float(np.linalg.norm(right)) / np.sqrt(len(right)))
    # eta = known (best + steps u) + blind w: the data cost is |u|^2, the distance's square a sum over the same numbers
    steps = scale / values[:seen]
    across = np.hstack([known * steps, blind])
    offset = known @ best
    pull = np.concatenate([steps * best, np.zeros(blind.shape[1])]) / BELIEF**2
    square = np.concatenate([1.0 + (steps / BELIEF) ** 2, np.full(blind.shape[1], BELIEF**-2)])
    found = _cone_program(across, offset, square, pull, nominal, floor)
    if not found.solved:
        raise Refused(
            f"the solver found no consistent parameters: {found.status} after {found.iterations} iterations",
            reason="solver_failed",
            where="physical consistency",
            remedy="Check units and signs of the record, and the nominal links of the profile",
        )
    feasible = _cone_program(blind, offset, square[seen:], pull[seen:], nominal, floor).solved
    eta = offset + across @ found.x
    parameters = start + turn @ eta
    eigenvalues = _verified(parameters, nominal, floor)
    moved = float(np.linalg.norm(found.x[:seen]))
    unseen = blind.shape[1] + int(np.count_nonzero(steps > BELIEF))
    free = np.linalg.norm(whitened @ (known @ best) - target)
    return PhysicalFit(
        nominal.names, parameters, eigenvalues, feasible, moved,
        float(free / np.linalg.norm(right)), relative_error(matrix, right, parameters),
        tuple(_bounds(parameters, eigenvalues, nominal, floor)), unseen, found.status, found.iterations,
    )  # fmt: skip


@dataclass(frozen=True)
class _Answer:
    x: Floats
    status: str
    iterations: int
    solved: bool


def _cone_program(
    across: Floats, offset: Floats, square: Floats, pull: Floats, nominal: NominalArm, floor: float
) -> _Answer:
    """Minimise ``square x^2 / 2 + pull x`` with ``eta = offset + across x`` that of a real arm."""
    from scipy import sparse

    from bench.extras import need

    clarabel: Any = need("clarabel")
    n = nominal.size
    signs, least = nominal.bounds()
    # s = b - A x in the cone: positive semidefinite links first, then scalars not below their bound
    cone_rows = np.concatenate([np.arange(LINK * n), LINK * n + np.flatnonzero(signs)])
    identity = np.tile((1.0 - floor) * link_unknowns(np.eye(4)), n)
    b = np.concatenate([identity, -least[signs]]) + offset[cone_rows]
    cones = [clarabel.PSDTriangleConeT(4)] * n
    if signs.any():
        cones.append(clarabel.NonnegativeConeT(int(signs.sum())))
    settings = clarabel.DefaultSettings()
    settings.verbose = False
    settings.max_threads = 1
    program = clarabel.DefaultSolver(
        sparse.diags(square, format="csc"), pull, sparse.csc_matrix(-across[cone_rows]), b, cones, settings
    )
    solution = program.solve()
    status = str(solution.status)
    return _Answer(np.array(solution.x), status, int(solution.iterations), status in ("Solved", "AlmostSolved"))


def _verified(parameters: Floats, nominal: NominalArm, floor: float) -> Floats:
    """Return the links' eigenvalues (n, 4), from the parameters themselves; refuse what is not consistent."""
    rows = parameters[: LINK * nominal.size].reshape(nominal.size, LINK)
    relative, smallest = [], []
    for row, root in zip(rows, nominal.roots, strict=True):
        pseudo = LinkInertia.from_parameters(row).pseudo_inertia() if row[0] > 0.0 else -np.eye(4)
        smallest.append(float(np.linalg.eigvalsh(pseudo)[0]))
        inner = np.linalg.solve(root, np.linalg.solve(root, pseudo).T)
        relative.append(np.linalg.eigvalsh(0.5 * (inner + inner.T)))
    eigenvalues = np.array(relative)
    signs, _ = nominal.bounds()
    scalars = parameters[LINK * nominal.size : LINK * nominal.size + len(signs)]
    reach = nominal.reach()
    if min(smallest) <= 0.0 or eigenvalues.min() < 0.5 * floor or (scalars < -1e-6 * reach)[signs].any():
        raise Refused(
            f"the solver's answer is not consistent: smallest eigenvalue {min(smallest):.2g}",
            reason="inconsistent",
            where="physical consistency",
            remedy="Check units and signs of the record, and the nominal links of the profile",
        )
    parameters[LINK * nominal.size : LINK * nominal.size + len(signs)][signs] = np.maximum(scalars[signs], 0.0)
    return eigenvalues


def _bounds(parameters: Floats, eigenvalues: Floats, nominal: NominalArm, floor: float) -> list[str]:
    """Name links and parameters at their bound."""
    found = [name for name, row in zip(nominal.names, eigenvalues, strict=True) if row[0] < AT_BOUND * floor]
    signs, _ = nominal.bounds()
    n = nominal.size
    scalars, reach = parameters[LINK * n : LINK * n + len(signs)], nominal.reach()
    for index in np.flatnonzero(signs & (scalars < AT_BOUND * floor * reach)):
        found.append(f"{nominal.names[index % n]}.{SCALARS[index // n]}")
    return found


__all__ = ["PhysicalFit", "link_parameters", "make_consistent", "relative_error"]
