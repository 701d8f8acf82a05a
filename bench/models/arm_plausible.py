"""Whether the figures of an arm can be those of an arm: mass, inertia, lengths, turns, number and names of joints.

What a file got wrong shows here, before anything is computed from it: millimetres for metres, a sign, a missing joint.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import ModelError
from bench.models.arm_description import ArmDescription, LinkInertia

Floats = NDArray[np.float64]

Inertias = Literal["checked", "as_given"]
"""``"as_given"`` for an arm whose inertias are still to be identified: they must be finite, no more."""

LONGEST_M = 10.0
"""No arm on a bench has a joint or a centre of mass this far from the frame before."""
ORTHOGONAL = 1e-6
NEGATIVE = 1e-9
"""Share of the trace that a principal moment may lie below zero by rounding: a thin rod has none about its axis."""
TRIANGLE = 1e-6
TOO_LARGE = 1e3
"""Times mass x length^2 of the link: above, the inertia is in other units."""
TOO_SMALL = 1e-4
"""Times mass x length^2 of the link: below, the mass or the inertia is in other units."""
SHORTEST_SHARE = 0.05
"""Share of the arm's reach that a link is at least taken to be long."""


def check_description(
    description: ArmDescription,
    *,
    expect_joints: int | Sequence[str] | None = None,
    inertias: Inertias = "checked",
    where: str = "",
) -> ArmDescription:
    """Return the description when its figures can be those of an arm.

    Parameters
    ----------
    description : ArmDescription
    expect_joints : int or sequence of str, optional
        Number of joints the profile speaks of, or their names from the base on.
    inertias : {"checked", "as_given"}
        An arm none of whose links has any mass or inertia is geometry alone, and passes either way.
    where : str
        File it came from, for messages.

    Raises
    ------
    ModelError
        ``joint_count``, ``unknown_joint``, ``joint_order``, ``duplicate_name``, ``not_finite``, ``not_orthogonal``,
        ``implausible_length``, ``not_positive_mass``, ``not_a_body``, ``implausible_inertia``.
    """
    place = where or description.name
    _names(description, expect_joints, place)
    reach = 0.0
    for joint in description.joints:
        here = f"{place}, joint {joint.name}"
        _placement(joint.placement, "placement", here)
        reach += float(np.linalg.norm(joint.placement[:3, 3]))
    for name, frame in (("flange", description.flange), ("tip", description.tip)):
        _placement(frame, name, f"{place}, {name}")
    if not np.all(np.isfinite(description.gravity)):
        raise _not_finite("gravity", place)
    geometry_alone = not any(j.link.mass or np.any(j.link.inertia) for j in description.joints)
    ends = [*(joint.placement for joint in description.joints[1:]), description.flange]
    for joint, end in zip(description.joints, ends, strict=True):
        here = f"{place}, link of joint {joint.name}"
        link = joint.link
        if not (np.isfinite(link.mass) and np.all(np.isfinite(link.centre)) and np.all(np.isfinite(link.inertia))):
            raise _not_finite("mass, centre or inertia", here)
        if inertias == "checked" and not geometry_alone:
            check_link(link, here)
            span = float(np.linalg.norm(end[:3, 3]))
            _size(link, span, max(span, SHORTEST_SHARE * reach, float(np.linalg.norm(link.centre))), here)
    return description


def check_link(link: LinkInertia, where: str) -> None:
    """Refuse a moving link that no body can be.

    Raises
    ------
    ModelError
        ``not_positive_mass``, ``not_a_body`` (principal moments below zero, or one larger than the two others
        together), ``implausible_length`` (centre of mass).
    """
    if not link.mass > 0.0:
        raise ModelError(
            f"a mass of {link.mass:g} kg on a link that moves",
            reason="not_positive_mass",
            where=where,
            remedy="Give the link its mass; a frame without mass belongs behind a fixed joint",
        )
    _length(float(np.linalg.norm(link.centre)), "centre of mass", where)
    inertia = link.inertia
    scale = max(float(np.abs(inertia).max()), 1e-300)
    if float(np.abs(inertia - inertia.T).max()) > 1e-9 * scale:
        raise ModelError(
            "an inertia matrix that is not symmetric",
            reason="not_a_body",
            where=where,
            remedy="Check the off-diagonal elements",
        )
    small, middle, large = (float(x) for x in np.linalg.eigvalsh(inertia))
    trace = abs(small) + abs(middle) + abs(large)
    if small < -NEGATIVE * trace:
        raise ModelError(
            f"an inertia with the principal moment {small:.6g} kg.m2, which no body has",
            reason="not_a_body",
            where=where,
            remedy="Check signs, and that the inertia is the one about the centre of mass",
        )
    if large > (small + middle) + TRIANGLE * trace:
        raise ModelError(
            f"principal moments {small:.6g}, {middle:.6g}, {large:.6g} kg.m2: one exceeds the two others together",
            reason="not_a_body",
            where=where,
            remedy="No body has them (triangle inequality): check the inertia and whether it is about the centre",
        )


def _size(link: LinkInertia, span: float, length: float, where: str) -> None:
    """Compare the largest principal moment with mass times length squared."""
    large = float(np.linalg.eigvalsh(link.inertia)[-1])
    if length > 0.0 and large > TOO_LARGE * link.mass * length**2:
        raise ModelError(
            f"an inertia of {large:.6g} kg.m2 for {link.mass:g} kg on a link of some {length:.3g} m",
            reason="implausible_inertia",
            where=where,
            remedy="Give kg.m2: kg.mm2 or g.mm2 must be converted",
        )
    if span > 0.0 and large < TOO_SMALL * link.mass * span**2:
        raise ModelError(
            f"an inertia of {large:.6g} kg.m2 for {link.mass:g} kg on a link {span:.3g} m long",
            reason="implausible_inertia",
            where=where,
            remedy="Give mass in kg and inertia in kg.m2, about the centre of mass; a point mass is no link",
        )


def _names(description: ArmDescription, expected: int | Sequence[str] | None, where: str) -> None:
    names = description.names
    expect_names = None if isinstance(expected, int) or expected is None else tuple(expected)
    wanted = expected if isinstance(expected, int) else None if expect_names is None else len(expect_names)
    if not names or (wanted is not None and wanted != len(names)):
        instead = f" where {wanted} are expected" if wanted else ""
        raise ModelError(
            f"{len(names)} moving joints ({', '.join(names) or 'none'}){instead}",
            reason="joint_count",
            where=where,
            remedy="Take the model of this arm, or correct the profile's joints",
        )
    if len(set(names)) != len(names):
        raise ModelError(
            f"two joints of one name among {', '.join(names)}",
            reason="duplicate_name",
            where=where,
            remedy="Name every joint differently",
        )
    for name in expect_names or ():
        if name not in names:
            near = difflib.get_close_matches(name, names, 1)
            raise ModelError(
                f"no joint {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""),
                reason="unknown_joint",
                where=where,
                remedy=f"The model's joints are {', '.join(names)}",
            )
    if expect_names is not None and expect_names != names:
        raise ModelError(
            f"joints {', '.join(names)} from the base on, where {', '.join(expect_names)} are expected",
            reason="joint_order",
            where=where,
            remedy="List the joints from the base on",
        )


def _placement(placement: Floats, what: str, where: str) -> None:
    if placement.shape != (4, 4) or not np.all(np.isfinite(placement)):
        raise _not_finite(what, where)
    turn = placement[:3, :3]
    off = float(np.abs(turn.T @ turn - np.eye(3)).max())
    if off > ORTHOGONAL or np.linalg.det(turn) < 0.0 or np.any(placement[3] != (0.0, 0.0, 0.0, 1.0)):
        raise ModelError(
            f"a {what} whose turn is no turn (off by {off:.3g}, determinant {np.linalg.det(turn):.3g})",
            reason="not_orthogonal",
            where=where,
            remedy="Give a right-handed orthonormal matrix",
        )
    _length(float(np.linalg.norm(placement[:3, 3])), what, where)


def _length(length: float, what: str, where: str) -> None:
    if length > LONGEST_M:
        raise ModelError(
            f"a {what} {length:g} m away",
            reason="implausible_length",
            where=where,
            remedy="Give metres: this looks like millimetres",
        )


def _not_finite(what: str, where: str) -> ModelError:
    return ModelError(
        f"a {what} that is not finite or of the wrong shape",
        reason="not_finite",
        where=where,
        remedy="Give plain finite numbers",
    )
