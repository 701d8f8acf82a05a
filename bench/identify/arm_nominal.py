"""The arm as its profile has it, in coordinates in which every link is the identity: where identification starts from.

A link's pseudo-inertia is written ``P = L (1 + H) L^T`` with ``P0 = L L^T`` the nominal one, and its ten parameters by
the upper triangle of ``H``, column by column, off-diagonals times sqrt 2: the norm of those ten numbers is that of
``H``, and ``P`` is a body's if and only if ``1 + H`` is positive semidefinite.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bench.models.arm_description import ArmDescription, LinkInertia

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LINK = 10
"""Parameters of a link, see :meth:`bench.models.arm_description.LinkInertia.parameters`."""
SCALARS = ("motor_inertia", "viscous", "coulomb", "offset")
"""Parameters of every joint behind those of all links, one after the other for all joints."""
NOT_NEGATIVE = ("motor_inertia", "viscous", "coulomb")

LEAST_SHARE = 0.02
"""A link whose nominal body is lighter, or flatter, than this share of what is usual counts as that."""
USUAL_RADIUS_M = 0.05
USUAL_MASS_KG = 1.0
USUAL = {"motor_inertia": 0.02, "viscous": 0.2, "coulomb": 0.2, "offset": 0.2}
"""Scale of a parameter whose nominal value is smaller, in kg.m2, N.m.s/rad and N.m (kg, N.s/m, N)."""
_UPPER = tuple((i, j) for j in range(4) for i in range(j + 1))
_ROOT2 = math.sqrt(2.0)


def link_unknowns(matrix: Floats) -> Floats:
    """Return ten numbers of a symmetric (4, 4) matrix: the upper triangle by columns, off-diagonals times sqrt 2."""
    return np.array([matrix[i, j] if i == j else _ROOT2 * matrix[i, j] for i, j in _UPPER])


def link_matrix(unknowns: Floats) -> Floats:
    """Undo :func:`link_unknowns`."""
    matrix = np.empty((4, 4))
    for value, (i, j) in zip(unknowns, _UPPER, strict=True):
        matrix[i, j] = matrix[j, i] = value if i == j else value / _ROOT2
    return matrix


def link_parameters(pseudo: Floats) -> Floats:
    """Return the ten parameters of a pseudo-inertia (4, 4): ``I = trace(S) 1 - S`` with ``S`` its upper left block."""
    second = pseudo[:3, :3]
    i = np.trace(second) * np.eye(3) - second
    return np.array([pseudo[3, 3], *pseudo[:3, 3], i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]])


def scalars_of(parameters: Floats, size: int, name: str) -> Floats:
    """Return one scalar of every joint (n,) from the whole vector."""
    first = (LINK + SCALARS.index(name)) * size
    return parameters[first : first + size]


@dataclass(frozen=True)
class NominalArm:
    """Where the data are silent, this arm is believed.

    Parameters
    ----------
    names : tuple of str
        Of the joints.
    links : tuple of LinkInertia
        In the frames of their joints.
    motor_inertia, viscous, coulomb, offset : (n,) float64
    """

    names: tuple[str, ...]
    links: tuple[LinkInertia, ...]
    motor_inertia: Floats
    viscous: Floats
    coulomb: Floats
    offset: Floats

    @classmethod
    def of(
        cls,
        description: ArmDescription,
        *,
        motor_inertia: Sequence[float] | Floats | None = None,
        viscous: Sequence[float] | Floats | None = None,
        coulomb: Sequence[float] | Floats | None = None,
    ) -> NominalArm:
        """Take the links of a description; one without inertia, or too flat for a body, is given a usual one."""
        masses = [joint.link.mass for joint in description.joints if joint.link.mass > 0.0]
        usual = float(np.mean(masses)) if masses else USUAL_MASS_KG
        links = tuple(_full(joint.link, usual) for joint in description.joints)
        zero = np.zeros(description.size)

        def column(given: Sequence[float] | Floats | None) -> Floats:
            return zero if given is None else np.nan_to_num(np.asarray(given, dtype=np.float64))

        return cls(description.names, links, column(motor_inertia), column(viscous), column(coulomb), zero)

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.names)

    @cached_property
    def roots(self) -> tuple[Floats, ...]:
        """``L`` (4, 4) of every link."""
        return tuple(np.asarray(np.linalg.cholesky(link.pseudo_inertia())) for link in self.links)

    def reach(self) -> Floats:
        """(4 n,) by how much a scalar may be away from its nominal value and count as one unit of distance."""
        return np.concatenate([np.maximum(np.abs(getattr(self, name)), USUAL[name]) for name in SCALARS])

    def bounds(self) -> tuple[Flags, Floats]:
        """Which scalars (4 n,) cannot be below zero, and where zero is, in distances from nominal (:meth:`reach`)."""
        signs = np.repeat([name in NOT_NEGATIVE for name in SCALARS], self.size)
        values = np.concatenate([getattr(self, name) for name in SCALARS])
        return signs, -values / self.reach()

    def parameters(self, columns: int) -> Floats:
        """(columns,) the nominal vector, zero in what stands behind the standard parameters."""
        links = np.concatenate([link.parameters() for link in self.links])
        standard = np.concatenate([links, *(getattr(self, name) for name in SCALARS)])
        return np.concatenate([standard, np.zeros(columns - len(standard))])

    def turn(self, columns: int) -> Floats:
        """(columns, columns) parameters per distance: ``theta = parameters + turn @ eta``."""
        n = self.size
        turn = np.eye(columns)
        for k, root in enumerate(self.roots):
            block = np.empty((LINK, LINK))
            for c in range(LINK):
                block[:, c] = link_parameters(root @ link_matrix(np.eye(LINK)[c]) @ root.T)
            turn[LINK * k : LINK * (k + 1), LINK * k : LINK * (k + 1)] = block
        scalars = np.arange(LINK * n, (LINK + len(SCALARS)) * n)
        turn[scalars, scalars] = self.reach()
        return turn


def _full(link: LinkInertia, usual_mass: float) -> LinkInertia:
    """Return a body with extent in every direction, at the same place."""
    mass = max(link.mass, LEAST_SHARE * usual_mass) if link.mass > 0.0 else usual_mass
    second = 0.5 * np.trace(link.inertia) * np.eye(3) - link.inertia if link.mass > 0.0 else np.zeros((3, 3))
    values, axes = np.linalg.eigh(second)
    least = LEAST_SHARE * mass * USUAL_RADIUS_M**2 if link.mass > 0.0 else mass * USUAL_RADIUS_M**2
    second = (axes * np.maximum(values, least)) @ axes.T
    return LinkInertia(mass, link.centre, np.trace(second) * np.eye(3) - second)
