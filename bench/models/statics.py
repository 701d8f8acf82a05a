"""Statics of an arm: ``tau = G(q) + J^T F``, and back.

``F`` is the wrench [f, m] [N, N.m] the arm exerts on its surroundings at the frame the Jacobian is of, base-aligned;
``tau`` the torques the drives give [N.m]. A wrench the surroundings exert on the arm is ``-F``.

So an arm of the ABB IRB 120's geometry (standard DH, d1 0.29, a2 0.27, a3 0.07, d4 0.302, d6 0.072 m; alpha -90, 0,
-90, 90, -90, 0 and theta offsets 0, -90, 0, 0, 0, 180 deg) at q = [0, -30, 60, 0, 45, 0] deg, which lifts with 50 N at
its flange, F = [0, 0, 50, 0, 0, 0], takes ``J^T F`` = [0, -9.01, -15.76, 0, -0.93, 0] N.m beside gravity: its second
axis turns the arm down, positively.

Forces and moments cannot be compared as they stand, nor can metres and radians. Wherever they meet, moments are divided
and angular speeds multiplied by a characteristic ``length`` [m]: the scaled Jacobian then is in metres throughout. Take
the length over which a moment matters to the task, such as the tool's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel, Frame

Floats = NDArray[np.float64]

LENGTH_M = 0.1
"""Characteristic length where none is given: about that of a hand-held tool's shaft."""
NEAR_SINGULAR = 0.02
"""Share of the largest singular value below which the smallest is damped."""


def shift_wrench(wrench: ArrayLike, lever: ArrayLike) -> Floats:
    """Return the wrench about another point: ``[f, m + p x f]``.

    Parameters
    ----------
    wrench : (..., 6)
        [f, m] about the old point.
    lever : (..., 3)
        ``p``, from the *new* reference point to the *old* one [m]. A force at the tip, seen at the flange, has
        ``p = tip - flange``; when the reference point is moved by ``s``, ``p = -s``.
    """
    given = np.asarray(wrench, dtype=np.float64)
    force, moment = given[..., :3], given[..., 3:]
    moved = moment + np.cross(np.asarray(lever, dtype=np.float64), force)
    return np.concatenate([np.broadcast_to(force, moved.shape), moved], axis=-1)


def wrench_in_base(wrench: ArrayLike, placement: ArrayLike) -> Floats:
    """Return a wrench of a frame at ``placement`` (4, 4), base-aligned and about the base's origin, (6,)."""
    at = np.asarray(placement, dtype=np.float64)
    return shift_wrench(turn_wrench(wrench, at[:3, :3]), at[:3, 3])


def turn_wrench(wrench: ArrayLike, turn: ArrayLike) -> Floats:
    """Return a wrench (..., 6) in axes in which its own are ``turn`` (3, 3), about the same point."""
    given, matrix = np.asarray(wrench, dtype=np.float64), np.asarray(turn, dtype=np.float64)
    return np.concatenate([given[..., :3] @ matrix.T, given[..., 3:] @ matrix.T], axis=-1)


def joint_torque(model: ArmModel, q: ArrayLike, wrench: ArrayLike, frame: Frame = "tip") -> Floats:
    """Return the torques (n,) that hold the arm still while it exerts ``wrench`` (6,): ``G + J^T F`` [N.m]."""
    return np.asarray(model.gravity(q) + model.jacobian(q, frame).T @ np.asarray(wrench, dtype=np.float64))


def scaled_jacobian(jacobian: ArrayLike, length: float = LENGTH_M) -> Floats:
    """Return the Jacobian with angular rows times ``length``, in metres; (..., 2 or 3, n) is returned as it is.

    Raises
    ------
    ModelError
        ``shape``; ``bad_length`` when the length is not positive.
    """
    given = np.asarray(jacobian, dtype=np.float64)
    if given.ndim < 2 or given.shape[-2] not in (2, 3, 6):
        raise ModelError(
            f"a Jacobian of shape {given.shape}",
            reason="shape",
            where="statics",
            remedy="Give (..., 6, n), or the two or three linear rows alone",
        )
    if not (np.isfinite(length) and length > 0.0):
        raise ModelError(
            f"a characteristic length of {length:g} m",
            reason="bad_length",
            where="statics",
            remedy="Give a positive length in metres",
        )
    if given.shape[-2] != 6:
        return given
    return np.asarray(given * np.array([1.0, 1.0, 1.0, length, length, length])[:, None])


def singular_values(jacobian: ArrayLike, length: float = LENGTH_M) -> Floats:
    """Return the singular values (..., min(rows, n)) of the scaled Jacobian, largest first [m]."""
    return np.asarray(np.linalg.svd(scaled_jacobian(jacobian, length), compute_uv=False))


@dataclass(frozen=True)
class Dexterity:
    """How far a pose is from a singular one.

    Attributes
    ----------
    singular_values : (min(rows, n),)
        Of the scaled Jacobian [m].
    manipulability : float
        Their product, Yoshikawa's ``sqrt(det(J J^T))`` (*Int. J. Robotics Research* 4(2), 1985).
    condition_number : float
        Largest over smallest; infinite in a singular pose.
    distance : float
        Smallest over largest, 0 in a singular pose and 1 in an isotropic one.
    """

    singular_values: Floats
    manipulability: float
    condition_number: float
    distance: float


def dexterity(jacobian: ArrayLike, length: float = LENGTH_M) -> Dexterity:
    """Return how well one pose's Jacobian (6, n), or its linear rows, can be inverted."""
    values = singular_values(jacobian, length)
    largest, smallest = float(values[0]), float(values[-1])
    condition = largest / smallest if smallest > 0.0 else np.inf
    return Dexterity(values, float(np.prod(values)), condition, smallest / largest if largest > 0.0 else 0.0)


@dataclass(frozen=True)
class WrenchEstimate:
    """A wrench computed from torques.

    Attributes
    ----------
    wrench : (6,)
        What the arm exerts, base-aligned [N, N.m].
    damping : float
        What was used [m]; 0: none.
    residual : (n,)
        Torque the wrench does not explain, ``tau - J^T F`` [N.m].
    distance : float
        See :class:`Dexterity`.
    """

    wrench: Floats
    damping: float
    residual: Floats
    distance: float


def wrench_from_torque(
    jacobian: ArrayLike,
    torque: ArrayLike,
    *,
    damping: float | None = None,
    length: float = LENGTH_M,
    near: float = NEAR_SINGULAR,
) -> WrenchEstimate:
    """Return the wrench of torques: ``(J J^T + lambda^2 I)^-1 J tau`` with the scaled Jacobian.

    ``J^T F`` is finite everywhere; its inverse is what blows up near a singular pose, and what is damped. Without a
    given damping there is none while the smallest singular value is at least ``near`` of the largest, and below that
    ``lambda^2 = (near s_max)^2 - s_min^2`` (after Nakamura and Hanafusa, *J. Dyn. Sys. Meas. Control* 108, 1986), which
    sets in without a jump. The estimate is then biased towards zero in the directions that are nearly lost.

    Parameters
    ----------
    jacobian : (6, n) or (3, n)
        With three rows, a force alone is looked for and moments are taken to be zero.
    torque : (n,)
        Of the contact alone: less gravity, friction and motion [N.m].
    damping : float, optional
        ``lambda`` [m].
    length : float
        Characteristic length [m].
    near : float

    Raises
    ------
    ModelError
        ``shape``; ``singular`` when a damping of 0 is demanded where the Jacobian cannot be inverted.
    """
    plain, tau = np.asarray(jacobian, dtype=np.float64), np.asarray(torque, dtype=np.float64)
    scaled = scaled_jacobian(plain, length)
    if tau.shape != (scaled.shape[-1],):
        raise ModelError(
            f"torques of shape {tau.shape} for a Jacobian of shape {plain.shape}",
            reason="shape",
            where="statics",
            remedy="Give one torque per joint",
        )
    left, values, right = np.linalg.svd(scaled, full_matrices=False)
    largest, smallest = float(values[0]), float(values[-1])
    # Fewer joints than rows: some wrenches make no torque at all; the least wrench is returned.
    square = max(0.0, (near * largest) ** 2 - smallest**2) if damping is None else damping**2
    if square == 0.0 and smallest <= np.finfo(np.float64).eps * 10.0 * largest:
        raise ModelError(
            "the pose is singular: a wrench in it cannot be told from torques",
            reason="singular",
            where="statics",
            remedy="Damp, or take another pose",
        )
    found = left @ (values / (values**2 + square) * (right @ tau))
    if plain.shape[0] == 6:
        found[3:] *= length
    distance = smallest / largest if largest > 0.0 else 0.0
    return WrenchEstimate(found, float(np.sqrt(square)), tau - plain.T @ found, distance)


def joint_compliance(stiffness: ArrayLike, coupling: ArrayLike | None = None) -> Floats:
    """Return the joints' compliance (n, n) [rad/N.m] of springs at the motors' axes: ``A diag(1/k) A^T``.

    Parameters
    ----------
    stiffness : (n,) or (n, n)
        At the motors' axes, or the joints' stiffness matrix [N.m/rad]; infinite for a stiff joint of a vector.
    coupling : (n, n), optional
        ``A`` of ``q = A q_m``; identity when left out.

    Raises
    ------
    ModelError
        ``bad_stiffness``: not positive.
    """
    given = np.asarray(stiffness, dtype=np.float64)
    positive = np.all(given > 0.0) if given.ndim == 1 else np.all(np.linalg.eigvalsh(given) > 0.0)
    if not positive:
        raise ModelError(
            "a stiffness that is not positive",
            reason="bad_stiffness",
            where="statics",
            remedy="Give the joints' stiffness in N.m/rad",
        )
    springs = np.diag(1.0 / given) if given.ndim == 1 else np.linalg.inv(given)
    if coupling is None:
        return np.asarray(springs)
    matrix = np.asarray(coupling, dtype=np.float64)
    return np.asarray(matrix @ springs @ matrix.T)


def deflection(
    jacobian: ArrayLike, stiffness: ArrayLike, torque: ArrayLike, coupling: ArrayLike | None = None
) -> Floats:
    """Return how far the tip gives way: ``J K^-1 tau`` (..., 6), [m] and [rad], for small deflections.

    Parameters
    ----------
    jacobian : (..., 6, n) or (..., 3, n)
    stiffness, coupling
        See :func:`joint_compliance`.
    torque : (..., n)
        What the load puts *on* the joints [N.m]: ``J^T F_on_arm - G``. The drives' own torques are the opposite, and
        so is the deflection computed of them; its size is the same.
    """
    angles = np.asarray(torque, dtype=np.float64) @ joint_compliance(stiffness, coupling)
    return np.asarray(np.einsum("...in,...n->...i", np.asarray(jacobian, dtype=np.float64), angles))


@dataclass(frozen=True)
class SafetyFactors:
    """How much more torque each joint bears.

    Attributes
    ----------
    rated, peak : (n,)
        Limit over the largest torque of the joint; infinite for a joint without torque.
    worst_rated, worst_peak : int
        The joint with the least, from 0.
    row_rated, row_peak : int
        The row in which that joint's torque is largest (0 for a single row).
    """

    rated: Floats
    peak: Floats
    worst_rated: int
    worst_peak: int
    row_rated: int
    row_peak: int


def safety_factors(torque: ArrayLike, rated: ArrayLike, peak: ArrayLike) -> SafetyFactors:
    """Return safety factors of torques (n,) or (k, n) against rated and peak torques (n,), all in N.m."""
    size = np.abs(np.atleast_2d(np.asarray(torque, dtype=np.float64)))
    largest, row = size.max(axis=0), size.argmax(axis=0)
    # A torque that is no number keeps its factor none, and is the worst.
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = [
            np.where(largest == 0.0, np.inf, np.asarray(limit, dtype=np.float64) / largest) for limit in (rated, peak)
        ]
    worst = [int(np.argmin(factor)) for factor in factors]
    return SafetyFactors(factors[0], factors[1], worst[0], worst[1], int(row[worst[0]]), int(row[worst[1]]))
