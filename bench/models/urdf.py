"""Arms from and to URDF: kinematics and inertias of one serial chain. No meshes are looked for, so none can be missing.

What a URDF joint's axis is not along z is turned into the joint's frame; what stands behind fixed joints is merged into
the link before. Lengths in m, angles in rad, as the format has them (wiki.ros.org/urdf/XML).
"""

from __future__ import annotations

import math
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError
from bench.models.arm_description import STANDARD_GRAVITY, ArmDescription, ArmJoint, LinkInertia
from bench.models.arm_plausible import Inertias, check_description
from bench.models.transforms import from_rpy, turn_of_z
from bench.models.urdf_write import write_urdf

__all__ = ["parse_urdf", "read_urdf", "write_urdf"]

Floats = NDArray[np.float64]

MOVING: dict[str, Literal["revolute", "prismatic"]] = {
    "revolute": "revolute",
    "continuous": "revolute",
    "prismatic": "prismatic",
}


@dataclass(frozen=True)
class _Joint:
    name: str
    kind: str
    parent: str
    child: str
    origin: Floats
    axis: Floats


@dataclass(frozen=True)
class _Tree:
    """Links and joints as the file has them."""

    links: dict[str, LinkInertia]
    children: dict[str, list[_Joint]]
    where: str


def read_urdf(
    path: Path | str,
    *,
    expect_joints: int | Sequence[str] | None = None,
    flange: str | None = None,
    tip: str | None = None,
    gravity: ArrayLike | None = None,
    inertias: Inertias = "checked",
) -> ArmDescription:
    """Read an arm from a URDF file; see :func:`parse_urdf`.

    Raises
    ------
    ModelError
        ``unreadable``, and what :func:`parse_urdf` refuses.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(
            f"the file cannot be read ({error})",
            reason="unreadable",
            where=str(path),
            remedy="Give the path of a URDF file",
        ) from error
    return parse_urdf(
        text,
        where=str(path),
        expect_joints=expect_joints,
        flange=flange,
        tip=tip,
        gravity=gravity,
        inertias=inertias,
    )


def parse_urdf(
    text: str,
    *,
    where: str = "urdf",
    expect_joints: int | Sequence[str] | None = None,
    flange: str | None = None,
    tip: str | None = None,
    gravity: ArrayLike | None = None,
    inertias: Inertias = "checked",
) -> ArmDescription:
    """Return the arm a URDF describes.

    Parameters
    ----------
    text : str
    where : str
        For messages.
    expect_joints, inertias
        See :func:`bench.models.arm_plausible.check_description`.
    flange, tip : str, optional
        Links that carry the flange and the tip. When left out: a link of that name if there is one behind the last
        moving joint; else the flange is the last moving link's frame, and the tip the flange.
    gravity : (3,), optional
        Standard gravity along -z of the root link when left out.

    Raises
    ------
    ModelError
        ``unreadable`` (no XML, no ``robot``), ``unsupported`` (xacro, ``mimic``, branches, floating or planar joints),
        ``not_a_chain``, ``bad_number``, ``duplicate_name``, ``unknown_link``, and what the figures are refused for.
    """
    robot = _robot(text, where)
    tree = _tree(robot, where)
    joints: list[ArmJoint] = []
    link, at = _root(tree), np.eye(4)
    while True:
        fixed, moving = _behind(tree, link, at)
        if joints:
            joints[-1] = _with_fixed(joints[-1], tree, fixed)
        if not moving:
            break
        if len(moving) > 1:
            names = ", ".join(joint.name for joint, _ in moving)
            raise _unsupported(f"a branch: {names} all move on {link}", where, "Give one serial chain")
        joint, start = moving[0]
        turn = np.eye(4)
        turn[:3, :3] = turn_of_z(joint.axis)
        # The joint's frame has its axis along z; the child link's frame lies in it at the inverse turn.
        joints.append(ArmJoint(joint.name, MOVING[joint.kind], start @ turn, LinkInertia(0.0)))
        link, at = joint.child, turn.T
    ends = dict(fixed)
    flange_at = _end(ends, flange, "flange", ends[link], where)
    description = ArmDescription(
        robot.get("name") or "arm",
        tuple(joints),
        flange=flange_at,
        tip=_end(ends, tip, "tip", flange_at, where),
        gravity=np.array([0.0, 0.0, -STANDARD_GRAVITY]) if gravity is None else np.asarray(gravity, dtype=np.float64),
    )
    return check_description(description, expect_joints=expect_joints, inertias=inertias, where=where)


def _robot(text: str, where: str) -> ET.Element:
    try:
        robot = ET.fromstring(text)
    except ET.ParseError as error:
        remedy = "Expand xacro to plain URDF first" if "unbound prefix" in str(error) else "Give a URDF file"
        raise ModelError(f"no well-formed XML ({error})", reason="unreadable", where=where, remedy=remedy) from error
    if robot.tag != "robot":
        raise ModelError(
            f"the outermost element is <{robot.tag}>, not <robot>",
            reason="unreadable",
            where=where,
            remedy="Give a URDF file",
        )
    foreign = next((child.tag for child in robot if str(child.tag).startswith("{")), None)
    if foreign is not None:
        raise _unsupported(f"the element {foreign}", where, "Expand xacro to plain URDF first")
    return robot


def _tree(robot: ET.Element, where: str) -> _Tree:
    links: dict[str, LinkInertia] = {}
    children: dict[str, list[_Joint]] = {}
    for element in robot.findall("link"):
        name = _attribute(element, "name", f"{where}, a link")
        if name in links:
            raise _twice("link", name, where)
        links[name] = _inertial(element.find("inertial"), f"{where}, link {name}")
    seen: set[str] = set()
    for element in robot.findall("joint"):
        joint = _joint(element, where)
        if joint.name in seen:
            raise _twice("joint", joint.name, where)
        seen.add(joint.name)
        for link in (joint.parent, joint.child):
            if link not in links:
                raise ModelError(
                    f"joint {joint.name} names the link {link!r}, which is not there",
                    reason="unknown_link",
                    where=where,
                    remedy=f"The links are {', '.join(links) or 'none'}",
                )
        children.setdefault(joint.parent, []).append(joint)
    return _Tree(links, children, where)


def _joint(element: ET.Element, where: str) -> _Joint:
    name = _attribute(element, "name", f"{where}, a joint")
    here = f"{where}, joint {name}"
    kind = _attribute(element, "type", here)
    if element.find("mimic") is not None:
        raise _unsupported("a joint that mimics another", here, "Put coupled axes into the profile's coupling matrix")
    if kind != "fixed" and kind not in MOVING:
        raise _unsupported(f"a {kind} joint", here, "Use revolute, continuous, prismatic or fixed joints")
    parent, child = element.find("parent"), element.find("child")
    if parent is None or child is None:
        raise ModelError("no parent or no child link", reason="unknown_link", where=here, remedy="Name both")
    axis = _numbers(element.find("axis"), "xyz", (1.0, 0.0, 0.0), here)
    length = float(np.linalg.norm(axis))
    if kind != "fixed" and not length > 1e-9:
        raise ModelError(
            "an axis of no length", reason="bad_number", where=here, remedy="Give a direction, such as 0 0 1"
        )
    origin = _origin(element, here)
    return _Joint(
        name,
        kind,
        _attribute(parent, "link", here),
        _attribute(child, "link", here),
        origin,
        axis / length if length > 0.0 else axis,
    )


def _inertial(element: ET.Element | None, where: str) -> LinkInertia:
    """Return a link's inertia in the link's frame; zero when the file gives none."""
    if element is None:
        return LinkInertia(0.0)
    mass, inertia = element.find("mass"), element.find("inertia")
    if mass is None or inertia is None:
        raise ModelError("no mass or no inertia", reason="bad_number", where=where, remedy="Give both, or no inertial")
    xx, xy, xz, yy, yz, zz = (
        float(_numbers(inertia, key, None, where)[0]) for key in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
    )
    own = LinkInertia(
        float(_numbers(mass, "value", None, where)[0]),
        np.zeros(3),
        np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
    )
    if own.mass < 0.0:
        raise ModelError(
            f"a mass of {own.mass:g} kg", reason="not_positive_mass", where=where, remedy="A mass is positive"
        )
    return own.moved(_origin(element, where))


def _root(tree: _Tree) -> str:
    """Return the one link that is nobody's child, and refuse what is no tree."""
    parents: dict[str, str] = {}
    for joint in (joint for joints in tree.children.values() for joint in joints):
        if joint.child in parents:
            raise _no_chain(f"the link {joint.child} hangs on {parents[joint.child]} and on {joint.name}", tree.where)
        parents[joint.child] = joint.name
    roots = [link for link in tree.links if link not in parents]
    if len(roots) != 1:
        raise _no_chain(f"{len(roots)} links are nobody's child ({', '.join(roots) or 'a loop'})", tree.where)
    reached, waiting = set(), [roots[0]]
    while waiting:
        link = waiting.pop()
        reached.add(link)
        waiting.extend(joint.child for joint in tree.children.get(link, []))
    if len(reached) != len(tree.links):
        lost = ", ".join(sorted(set(tree.links) - reached))
        raise _no_chain(f"the links {lost} hang on each other and not on {roots[0]}", tree.where)
    return roots[0]


def _behind(tree: _Tree, link: str, at: Floats) -> tuple[list[tuple[str, Floats]], list[tuple[_Joint, Floats]]]:
    """Return the links fixed to ``link`` (itself first) and the moving joints on them, placed in the moving frame."""
    fixed: list[tuple[str, Floats]] = [(link, at)]
    moving: list[tuple[_Joint, Floats]] = []
    for name, place in fixed:  # grows while it is walked
        for joint in tree.children.get(name, []):
            if joint.kind == "fixed":
                fixed.append((joint.child, place @ joint.origin))
            else:
                moving.append((joint, place @ joint.origin))
    return fixed, moving


def _with_fixed(joint: ArmJoint, tree: _Tree, fixed: Sequence[tuple[str, Floats]]) -> ArmJoint:
    bodies = [(tree.links[name], place) for name, place in fixed]
    weighty = [body.moved(place) for body, place in bodies if body.mass != 0.0 or np.any(body.inertia != 0.0)]
    whole = weighty[0] if weighty else LinkInertia(0.0)
    for body in weighty[1:]:
        whole = whole.plus(body)
    return ArmJoint(joint.name, joint.kind, joint.placement, whole)


def _end(ends: dict[str, Floats], named: str | None, usual: str, otherwise: Floats, where: str) -> Floats:
    if named is None:
        return ends.get(usual, otherwise)
    if named not in ends:
        raise ModelError(
            f"no link {named!r} behind the last moving joint",
            reason="unknown_link",
            where=where,
            remedy=f"The links there are {', '.join(ends)}",
        )
    return ends[named]


def _origin(element: ET.Element, where: str) -> Floats:
    origin = element.find("origin")
    zero = (0.0, 0.0, 0.0)
    return from_rpy(_numbers(origin, "rpy", zero, where), _numbers(origin, "xyz", zero, where))


def _numbers(element: ET.Element | None, key: str, default: tuple[float, ...] | None, where: str) -> Floats:
    """Return the numbers of an attribute: one, or three when the default has three."""
    text = None if element is None else element.get(key)
    if text is None:
        if default is not None:
            return np.array(default)
        raise ModelError(f"no {key}", reason="bad_number", where=where, remedy="Give it as a number")
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        values = []
    if len(values) != (1 if default is None else len(default)) or not all(math.isfinite(x) for x in values):
        raise ModelError(
            f"{key}={text!r} is not {'one finite number' if default is None else 'three finite numbers'}",
            reason="not_finite" if values and not all(math.isfinite(x) for x in values) else "bad_number",
            where=where,
            remedy="Give plain numbers, separated by spaces",
        )
    return np.array(values)


def _attribute(element: ET.Element, key: str, where: str) -> str:
    text = element.get(key)
    if not text:
        raise ModelError(f"<{element.tag}> without {key}", reason="unreadable", where=where, remedy=f"Give its {key}")
    return text


def _unsupported(what: str, where: str, remedy: str) -> ModelError:
    return ModelError(f"{what} is not supported", reason="unsupported", where=where, remedy=remedy)


def _no_chain(what: str, where: str) -> ModelError:
    return ModelError(what, reason="not_a_chain", where=where, remedy="Give one chain of links from one root")


def _twice(kind: str, name: str, where: str) -> ModelError:
    return ModelError(
        f"two {kind}s named {name!r}", reason="duplicate_name", where=where, remedy=f"Name every {kind} differently"
    )
