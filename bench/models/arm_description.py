"""What an arm is made of, as plain arrays: joints, links, tool tip. Every engine builds its own model from it.

One joint is a fixed ``placement`` from the frame before (the base for the first), then the motion about or along its
own z axis; the link it moves is given in the frame that moves. So a URDF joint or a row of a modified DH table is one
joint as it stands; of a standard DH table the part behind the motion goes into the next placement.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import ModelError

Floats = NDArray[np.float64]

#: Standard acceleration of free fall [m/s2], along -z of the base.
STANDARD_GRAVITY = 9.80665


@dataclass(frozen=True)
class LinkInertia:
    """Mass [kg], centre of mass (3,) [m] and inertia about that centre (3, 3) [kg.m2], in axes of the link's frame."""

    mass: float
    centre: Floats = field(default_factory=lambda: np.zeros(3))
    inertia: Floats = field(default_factory=lambda: np.zeros((3, 3)))

    def parameters(self) -> Floats:
        """Return (10,) m, mx, my, mz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz: first moments and inertia about the frame's origin.

        The order is that of Pinocchio's regressor. The inertia's off-diagonal elements are those of the matrix (minus
        the products of inertia).
        """
        c = self.centre
        about_origin = self.inertia + self.mass * (float(c @ c) * np.eye(3) - np.outer(c, c))
        i = about_origin
        return np.array(
            [self.mass, *(self.mass * c), i[0, 0], i[0, 1], i[1, 1], i[0, 2], i[1, 2], i[2, 2]], dtype=np.float64
        )

    @classmethod
    def from_parameters(cls, parameters: Floats) -> LinkInertia:
        """Undo :meth:`parameters`; a link without mass keeps its first moments nowhere.

        Raises
        ------
        ModelError
            The mass is zero or below and the first moments are not zero.
        """
        m, mx, my, mz, xx, xy, yy, xz, yz, zz = (float(p) for p in parameters)
        moments = np.array([mx, my, mz])
        if m <= 0.0 and np.any(moments != 0.0):
            raise ModelError(
                f"a mass of {m:g} kg with first moments {moments} has no centre",
                reason="no_mass",
                where="link",
                remedy="Take physically consistent parameters",
            )
        centre = moments / m if m > 0.0 else np.zeros(3)
        origin = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return cls(m, centre, origin - m * (float(centre @ centre) * np.eye(3) - np.outer(centre, centre)))

    def pseudo_inertia(self) -> Floats:
        """Return the (4, 4) pseudo-inertia matrix; a body exists if and only if it is positive semidefinite.

        Wensing, Kim, Slotine, *Linear matrix inequalities for physically consistent inertial parameter identification*,
        IEEE RA-L 3(1), 2018, eq. (12).
        """
        p = self.parameters()
        origin = np.array([[p[4], p[5], p[7]], [p[5], p[6], p[8]], [p[7], p[8], p[9]]])
        pseudo = np.empty((4, 4))
        pseudo[:3, :3] = 0.5 * np.trace(origin) * np.eye(3) - origin
        pseudo[:3, 3] = pseudo[3, :3] = p[1:4]
        pseudo[3, 3] = p[0]
        return pseudo

    def moved(self, transform: Floats) -> LinkInertia:
        """Return the same body seen from a frame in which its own frame lies at ``transform`` (4, 4)."""
        turn, shift = transform[:3, :3], transform[:3, 3]
        return LinkInertia(self.mass, turn @ self.centre + shift, turn @ self.inertia @ turn.T)

    def plus(self, other: LinkInertia) -> LinkInertia:
        """Return both bodies as one; they are given in the same frame."""
        if self.mass + other.mass <= 0.0:
            return LinkInertia(0.0, np.zeros(3), self.inertia + other.inertia)
        return LinkInertia.from_parameters(self.parameters() + other.parameters())


@dataclass(frozen=True)
class ArmJoint:
    """One joint and the link it moves.

    Parameters
    ----------
    name : str
    kind : {"revolute", "prismatic"}
    placement : (4, 4) float64
        Frame of the joint at q = 0, in the frame before it [m]; the motion is about or along its z axis.
    link : LinkInertia
        In the frame that moves.
    """

    name: str
    kind: Literal["revolute", "prismatic"]
    placement: Floats
    link: LinkInertia


@dataclass(frozen=True)
class ArmDescription:
    """A serial arm.

    Parameters
    ----------
    name : str
    joints : tuple of ArmJoint
        From the base on.
    flange : (4, 4) float64
        Frame of the flange in the last joint's frame; what is mounted is given in it.
    tip : (4, 4) float64
        Frame of the tool tip in the last joint's frame.
    gravity : (3,) float64
        Acceleration of free fall in the base frame [m/s2].
    """

    name: str
    joints: tuple[ArmJoint, ...]
    flange: Floats = field(default_factory=lambda: np.eye(4))
    tip: Floats = field(default_factory=lambda: np.eye(4))
    gravity: Floats = field(default_factory=lambda: np.array([0.0, 0.0, -STANDARD_GRAVITY]))

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.joints)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the joints."""
        return tuple(joint.name for joint in self.joints)

    def with_load(self, load: LinkInertia) -> ArmDescription:
        """Return the arm with a body fixed to its flange, given in the flange's frame: added inertia, not a force."""
        last = self.joints[-1]
        loaded = replace(last, link=last.link.plus(load.moved(self.flange)))
        return replace(self, joints=(*self.joints[:-1], loaded))

    def with_links(self, links: tuple[LinkInertia, ...]) -> ArmDescription:
        """Return the arm with other inertias on the same joints."""
        pairs = zip(self.joints, links, strict=True)
        return replace(self, joints=tuple(replace(joint, link=link) for joint, link in pairs))

    def parameters(self) -> Floats:
        """Return (10 n,) the inertial parameters of all links, see :meth:`LinkInertia.parameters`."""
        return np.concatenate([joint.link.parameters() for joint in self.joints])
