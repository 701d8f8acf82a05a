"""Arms from Denavit-Hartenberg tables, standard or modified, revolute or prismatic.

Standard (Denavit and Hartenberg 1955; Siciliano et al., *Robotics*, 2009, section 2.8.2): from link frame i - 1 to i by
``Rz(theta) Tz(d) Tx(a) Rx(alpha)``. Modified (Craig; Khalil and Kleinfinger 1986): by
``Rx(alpha) Tx(a) Rz(theta) Tz(d)`` with ``alpha`` and ``a`` of the link before. The joint's position adds to ``theta``
of a revolute and to ``d`` of a prismatic joint, so the table is the arm at q = 0. Lengths in m, angles in rad.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.models.arm_description import STANDARD_GRAVITY, ArmDescription, ArmJoint, LinkInertia
from bench.models.arm_plausible import Inertias, check_description
from bench.models.transforms import shift, turn_x, turn_z

Floats = NDArray[np.float64]

Convention = Literal["standard", "modified"]


@dataclass(frozen=True)
class DhRow:
    """One row of a table.

    Parameters
    ----------
    name : str
    kind : {"revolute", "prismatic"}
    d, a : float
        [m]
    alpha, theta : float
        [rad]; ``theta`` of a revolute joint is its offset, ``d`` of a prismatic joint likewise.
    link : LinkInertia
        In the table's link frame i, the one the row leads to.
    """

    name: str
    kind: Literal["revolute", "prismatic"] = "revolute"
    d: float = 0.0
    a: float = 0.0
    alpha: float = 0.0
    theta: float = 0.0
    link: LinkInertia = field(default_factory=lambda: LinkInertia(0.0))


def from_dh(
    name: str,
    rows: Sequence[DhRow],
    convention: Convention = "standard",
    *,
    base: Floats | None = None,
    flange: Floats | None = None,
    tool: Floats | None = None,
    gravity: Floats | None = None,
    expect_joints: int | Sequence[str] | None = None,
    inertias: Inertias = "checked",
    where: str = "",
) -> ArmDescription:
    """Build an arm of a table.

    ``theta`` and ``d`` stand about and along the joint's own axis, so they go into the placement before the motion; of
    a standard table ``a`` and ``alpha`` follow the motion and go into the next placement. Links are moved from the
    table's frames into the joints' frames (for a modified table the two are one).

    Parameters
    ----------
    name : str
    rows : sequence of DhRow
        From the base on.
    convention : {"standard", "modified"}
    base : (4, 4), optional
        Frame 0 of the table in the base frame.
    flange : (4, 4), optional
        Flange in the table's last link frame; that frame itself when left out.
    tool : (4, 4), optional
        Tool tip in the flange's frame.
    gravity : (3,), optional
        In the base frame [m/s2]; standard gravity along -z when left out.
    expect_joints, inertias, where
        See :func:`bench.models.arm_plausible.check_description`.

    Raises
    ------
    ModelError
        The figures are not those of an arm.
    """
    joints: list[ArmJoint] = []
    behind = np.eye(4) if base is None else np.asarray(base, dtype=np.float64)
    for row in rows:
        own, across = turn_z(row.theta) @ shift(0.0, 0.0, row.d), shift(row.a, 0.0, 0.0) @ turn_x(row.alpha)
        if convention == "standard":
            joints.append(ArmJoint(row.name, row.kind, behind @ own, row.link.moved(across)))
            behind = across
        else:
            joints.append(ArmJoint(row.name, row.kind, behind @ across @ own, row.link))
            behind = np.eye(4)
    end = behind if flange is None else behind @ flange
    description = ArmDescription(
        name,
        tuple(joints),
        flange=end,
        tip=end if tool is None else end @ tool,
        gravity=np.array([0.0, 0.0, -STANDARD_GRAVITY]) if gravity is None else np.asarray(gravity, dtype=np.float64),
    )
    return check_description(description, expect_joints=expect_joints, inertias=inertias, where=where)
