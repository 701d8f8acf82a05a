"""The mechanics of an arm, as a profile states them: geometry, links, motors, ratings.

One table for every kind of file: it stands as ``[arm]`` in the profile of a rig, and in a file of its own (schema
``bench.arm/1``) for arms whose records were made elsewhere. Geometry comes from a DH table, one row beside each joint's
other figures, or from a URDF file.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.fields import (
    Angle,
    AnyQuantity,
    Frequency,
    Length,
    Name,
    NonNegativeRatio,
    Profile,
    Quantity,
    Section,
    Text,
)
from bench.profile.problem import Issue
from bench.units import Value, article

Mass = Annotated[Value, Quantity("mass", above="0")]
NonNegativeMass = Annotated[Value, Quantity("mass", at_least="0")]
AnyInertia = Annotated[Value, Quantity("inertia")]
NonNegativeInertia = Annotated[Value, Quantity("inertia", at_least="0")]
TorqueConstant = Annotated[Value, Quantity("torque_constant", above="0")]
Point = Annotated[tuple[Length, ...], Field(min_length=3, max_length=3)]
Angles3 = Annotated[tuple[Angle, ...], Field(min_length=3, max_length=3)]
Inertia6 = Annotated[tuple[AnyInertia, ...], Field(min_length=6, max_length=6)]

NO_LENGTH = Value(0.0, "mm", "length")
NO_ANGLE = Value(0.0, "deg", "angle")
NO_INERTIA = Value(0.0, "kg.m2", "inertia")
ORIGIN = (NO_LENGTH, NO_LENGTH, NO_LENGTH)
STRAIGHT = (NO_ANGLE, NO_ANGLE, NO_ANGLE)
#: A coupling whose elimination meets a smaller pivot, rows scaled to 1, has no inverse that a torque may go through.
LEAST_PIVOT = 1e-3

#: Kind of a joint → key → the kinds of quantity it is given in, and the unit it is used in.
JOINT_UNITS: dict[str, dict[str, tuple[str, str]]] = {
    "revolute": {
        "position": ("angle", "rad"),
        "speed": ("angular_speed", "rad/s"),
        "acceleration": ("angular_acceleration", "rad/s2"),
        "torque": ("torque", "N.m"),
        "stiffness": ("rotational_stiffness", "N.m/rad"),
        "viscous": ("rotational_damping", "N.m.s/rad"),
    },
    "prismatic": {
        "position": ("length", "m"),
        "speed": ("speed", "m/s"),
        "acceleration": ("acceleration", "m/s2"),
        "torque": ("force", "N"),
        "stiffness": ("stiffness", "N/m"),
        "viscous": ("damping", "N.s/m"),
    },
}
#: A joint that turns farther than this [rad] has no limit, or one in degrees.
MOST_RAD = 20.0
#: Key of a joint → which of those it is.
JOINT_KEYS = {
    "offset": "position",
    "position_min": "position",
    "position_max": "position",
    "speed_limit": "speed",
    "acceleration_limit": "acceleration",
    "rated_torque": "torque",
    "peak_torque": "torque",
    "stiffness": "stiffness",
    "coulomb": "torque",
    "viscous": "viscous",
}


class BodyProfile(Section):
    """Mass, centre of mass and inertia about it (xx, yy, zz, xy, xz, yz; elements of the matrix)."""

    mass: NonNegativeMass
    centre: Point = ORIGIN
    inertia: Inertia6 = (NO_INERTIA,) * 6

    def comparisons(self) -> Iterator[Issue]:
        xx, yy, zz, xy, xz, yz = (value.to("kg.m2") for value in self.inertia)
        moments = (xx, yy, zz)
        if min(moments) < 0.0 or any(2.0 * one > sum(moments) * (1.0 + 1e-9) for one in moments):
            yield Issue(
                "inertia", f"xx {xx:g}, yy {yy:g}, zz {zz:g} kg.m2", "moments of a body: none negative, none above the "
                "sum of the others", "The order is xx, yy, zz, xy, xz, yz",
            )  # fmt: skip
        elif xy**2 > xx * yy + 1e-15 or xz**2 > xx * zz + 1e-15 or yz**2 > yy * zz + 1e-15:
            yield Issue("inertia", f"xy {xy:g}, xz {xz:g}, yz {yz:g} kg.m2", "products that the moments allow")


class ArmJointProfile(Section):
    """One joint of an arm, its link and its motor.

    ``d``, ``a``, ``alpha``, ``theta`` are its row of the DH table (``theta``, or ``d`` of a prismatic joint, is where
    the joint variable is zero); they are left out with a URDF, and so is ``link``, given in the row's own frame.
    ``offset`` is the joint's position where its motor stands at zero. Torques are the joint's (forces of a prismatic
    one); ``motor_inertia`` and ``torque_constant`` are those of the motor's shaft, which turns ``gear_ratio`` times as
    much as its axis.
    """

    name: Name
    kind: Literal["revolute", "prismatic"] = "revolute"
    d: Length = NO_LENGTH
    a: Length = NO_LENGTH
    alpha: Angle = NO_ANGLE
    theta: Angle = NO_ANGLE
    link: BodyProfile | None = None
    gear_ratio: float = Field(default=1.0, gt=0)
    direction: Literal[-1, 1] = 1
    offset: AnyQuantity | None = None
    motor_inertia: NonNegativeInertia = NO_INERTIA
    torque_constant: TorqueConstant | None = None
    torque_uncertainty: NonNegativeRatio = Value(0.0, "%", "ratio")
    stiffness: AnyQuantity | None = None
    coulomb: AnyQuantity | None = None
    viscous: AnyQuantity | None = None
    rated_torque: AnyQuantity
    peak_torque: AnyQuantity | None = None
    speed_limit: AnyQuantity
    acceleration_limit: AnyQuantity | None = None
    position_min: AnyQuantity
    position_max: AnyQuantity

    def number(self, key: str) -> float | None:
        """Return the key's value in SI units, rad and N.m of a revolute joint, m and N of a prismatic one; or None."""
        value: Value | None = getattr(self, key)
        return None if value is None else value.to(JOINT_UNITS[self.kind][JOINT_KEYS[key]][1])

    def comparisons(self) -> Iterator[Issue]:
        due = JOINT_UNITS[self.kind]
        wrong = False
        for key, what in JOINT_KEYS.items():
            value: Value | None = getattr(self, key)
            if value is not None and value.kind != due[what][0]:
                wrong = True
                given = f'"{value}", {article(value.kind)}'
                yield Issue(key, given, f"{article(due[what][0])}, for the joint is {self.kind}")
        if wrong:
            return
        numbers = {key: self.number(key) for key in JOINT_KEYS}
        for key in ("speed_limit", "acceleration_limit", "rated_torque", "peak_torque", "stiffness"):
            if (number := numbers[key]) is not None and number <= 0.0:
                yield Issue(key, f'"{getattr(self, key)}"', "a number above 0")
        for key in ("coulomb", "viscous"):
            if (number := numbers[key]) is not None and number < 0.0:
                yield Issue(key, f'"{getattr(self, key)}"', "a number of at least 0")
        low, high, rated, peak = (numbers[k] for k in ("position_min", "position_max", "rated_torque", "peak_torque"))
        if low is not None and high is not None and low >= high:
            due_text = f"less than position_max, {self.position_max}"
            yield Issue("position_min", f'"{self.position_min}"', due_text, "Are the two reversed?")
        for key, number in (("position_min", low), ("position_max", high)):
            if self.kind == "revolute" and number is not None and abs(number) > MOST_RAD:
                due_text = f"at most {MOST_RAD:g} rad, three turns, to either side"
                yield Issue(key, f'"{getattr(self, key)}"', due_text, "Degrees given as radians?")
        if rated is not None and peak is not None and rated > peak:
            yield Issue("rated_torque", f'"{self.rated_torque}"', f"at most peak_torque, {self.peak_torque}")


class ArmMechanics(Section):
    """Geometry, links and motors of a serial arm.

    ``convention`` says how the rows of the DH table are read; with ``urdf`` (a file beside the profile) there is none.
    ``coupling`` is ``A`` in ``q = A q_motor``, row by row; without it every motor moves its own joint.
    ``flange_position`` and ``flange_angles`` (roll, pitch, yaw) place the flange in the last link's frame.
    ``zero_flange`` is where the flange is, in the base frame, with every joint at zero, measured on the mechanics: the
    model is held against it.
    """

    convention: Literal["standard", "modified"] | None = None
    urdf: Text | None = None
    joints: tuple[ArmJointProfile, ...] = Field(min_length=1)
    coupling: tuple[tuple[float, ...], ...] | None = None
    flange_position: Point = ORIGIN
    flange_angles: Angles3 = STRAIGHT
    zero_flange: Point | None = None
    resonances: tuple[Frequency, ...] = ()
    resonance_margin: float = Field(default=0.3, gt=0, lt=1)
    bandwidth: Frequency | None = None

    def comparisons(self) -> Iterator[Issue]:
        if (self.convention is None) == (self.urdf is None):
            given = "neither" if self.urdf is None else "both"
            yield Issue("convention", given, 'either convention = "standard" or "modified", or urdf = "file.urdf"')
        names = [joint.name for joint in self.joints]
        for index, joint in enumerate(self.joints):
            if names.index(joint.name) != index:
                yield Issue(f"joints[{index}].name", f'"{joint.name}"', "a name that no other joint has")
            if self.urdf is not None and (
                joint.link is not None or joint.model_fields_set & {"d", "a", "alpha", "theta"}
            ):
                due = "no d, a, alpha, theta and link, for the geometry is the URDF's"
                yield Issue(f"joints[{index}]", "geometry of its own", due)
        yield from self._coupling_issues()

    def _coupling_issues(self) -> Iterator[Issue]:
        if self.coupling is None:
            return
        size = len(self.joints)
        if len(self.coupling) != size or any(len(row) != size for row in self.coupling):
            shape = f"{len(self.coupling)} rows of {', '.join(str(len(row)) for row in self.coupling)}"
            yield Issue("coupling", shape, f"{size} rows of {size} numbers, one of each joint")
        elif not _least_pivot(self.coupling) > LEAST_PIVOT:
            yield Issue("coupling", "a matrix without inverse", "a matrix by which every joint can be moved")


def _least_pivot(rows: tuple[tuple[float, ...], ...]) -> float:
    """Return the least pivot of an elimination, every row divided by its largest number; profiles need no NumPy."""
    scales = [max(abs(x) for x in row) for row in rows]
    if not min(scales) > 0.0:
        return 0.0
    matrix = [[x / scale for x in row] for row, scale in zip(rows, scales, strict=True)]
    least = math.inf
    for k in range(len(matrix)):
        pivot = max(range(k, len(matrix)), key=lambda i: abs(matrix[i][k]))
        least = min(least, abs(matrix[pivot][k]))
        if least == 0.0:
            return 0.0
        matrix[k], matrix[pivot] = matrix[pivot], matrix[k]
        for i in range(k + 1, len(matrix)):
            factor = matrix[i][k] / matrix[k][k]
            matrix[i] = [x - factor * y for x, y in zip(matrix[i], matrix[k], strict=True)]
    return least


class ArmProfile(Profile):
    """An arm whose records were made elsewhere: mechanics alone, for the analysis of imported archives."""

    schema_id: Literal["bench.arm/1"] = Field(alias="schema")
    name: Name
    description: str = ""
    source_of_figures: Text | None = None
    arm: ArmMechanics

    def urdf_path(self) -> Path | None:
        """Return the URDF file, resolved beside the profile; None where there is none."""
        return None if self.arm.urdf is None else self.source.path.parent / self.arm.urdf
