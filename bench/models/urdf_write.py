"""An arm as URDF text, with every digit, so that any engine that reads URDF has the same arm.

Every link's frame is its joint's frame with the motion about or along z; flange and tip are links without mass behind
fixed joints, named ``flange`` and ``tip``.
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.transforms import inverse, to_rpy

Floats = NDArray[np.float64]

WIDE = {"revolute": 2.0 * math.pi, "prismatic": 10.0}
"""Position limits where none are given [rad, m]: the format demands some."""
NO_LIMIT = 1e6
"""Effort and speed where none are given."""


def write_urdf(description: ArmDescription, limits: ArrayLike | None = None) -> str:
    """Return the arm as URDF text.

    Parameters
    ----------
    description : ArmDescription
        Gravity is not part of the format and is lost.
    limits : (n, 4), optional
        Per joint: lowest and highest position [rad or m], effort [N.m or N] and speed [rad/s or m/s].

    Raises
    ------
    ModelError
        ``shape`` of the limits; ``not_finite`` figures.
    """
    n = description.size
    if limits is None:
        wide = [WIDE[joint.kind] for joint in description.joints]
        bounds = np.array([[-x, x, NO_LIMIT, NO_LIMIT] for x in wide])
    else:
        bounds = np.asarray(limits, dtype=np.float64)
    if bounds.shape != (n, 4):
        raise ModelError(
            f"limits of shape {bounds.shape} for {n} joints",
            reason="shape",
            where=description.name,
            remedy=f"Give ({n}, 4): lowest, highest, effort, speed",
        )
    robot = ET.Element("robot", name=description.name)
    ET.SubElement(robot, "link", name="base")
    names = _link_names(description)
    before = "base"
    for joint, link, bound in zip(description.joints, names, bounds, strict=True):
        _link(robot, link, joint.link)
        element = _joint(robot, joint.name, joint.kind, before, link, joint.placement)
        ET.SubElement(element, "axis", xyz="0 0 1")
        low, high, effort, speed = (_number(x) for x in bound)
        ET.SubElement(element, "limit", lower=low, upper=high, effort=effort, velocity=speed)
        before = link
    ET.SubElement(robot, "link", name="flange")
    _joint(robot, "flange_fixed", "fixed", before, "flange", description.flange)
    ET.SubElement(robot, "link", name="tip")
    _joint(robot, "tip_fixed", "fixed", "flange", "tip", inverse(description.flange) @ description.tip)
    ET.indent(robot)
    return '<?xml version="1.0"?>\n' + ET.tostring(robot, encoding="unicode") + "\n"


def _link_names(description: ArmDescription) -> list[str]:
    """Return a name per link: the joint's with ``_link``, which keeps clear of base, flange and tip."""
    return [f"{joint.name}_link" for joint in description.joints]


def _link(robot: ET.Element, name: str, link: LinkInertia) -> None:
    inertial = ET.SubElement(ET.SubElement(robot, "link", name=name), "inertial")
    ET.SubElement(inertial, "origin", xyz=_numbers(link.centre), rpy="0 0 0")
    ET.SubElement(inertial, "mass", value=_number(link.mass))
    i = link.inertia
    elements = {"ixx": i[0, 0], "ixy": i[0, 1], "ixz": i[0, 2], "iyy": i[1, 1], "iyz": i[1, 2], "izz": i[2, 2]}
    ET.SubElement(inertial, "inertia", {key: _number(value) for key, value in elements.items()})


def _joint(robot: ET.Element, name: str, kind: str, parent: str, child: str, placement: Floats) -> ET.Element:
    element = ET.SubElement(robot, "joint", name=name, type=kind)
    ET.SubElement(element, "parent", link=parent)
    ET.SubElement(element, "child", link=child)
    ET.SubElement(element, "origin", xyz=_numbers(placement[:3, 3]), rpy=_numbers(to_rpy(placement[:3, :3])))
    return element


def _numbers(values: ArrayLike) -> str:
    return " ".join(_number(value) for value in np.asarray(values, dtype=np.float64))


def _number(value: float) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise ModelError(
            f"{number} has no place in a URDF", reason="not_finite", where="urdf", remedy="Give finite figures"
        )
    return repr(number)
