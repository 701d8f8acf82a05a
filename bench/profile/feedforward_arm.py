"""The feed-forward file of an arm: links, motors and friction that were identified on it, for a controller to load.

Torques at the joint, positive in the sense of its positive motion; w is the joint's speed. Links are given in the frame
that moves with their joint, z along the joint's axis (the link frames of a URDF), the tool with the last one. ::

    friction = (coulomb + stribeck_excess exp(-(w / stribeck_velocity)^2)) sign(w) + viscous w + offset
    torque   = M(q) q'' + C(q, q') q' + G(q) + friction
    torque to command, by the nominal torque constants = torque / torque_scale
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import AwareDatetime, Field

from bench.profile.arm import JOINT_UNITS, BodyProfile
from bench.profile.feedforward import SourceArchive
from bench.profile.fields import AnyQuantity, Name, PositiveRatio, Profile, Quantity, Section, Temperature, Text
from bench.profile.problem import Issue, near_miss
from bench.units import Value, article, kinds_of

#: Key of a joint's table → which of the kinds of :data:`bench.profile.arm.JOINT_UNITS` it is.
FRICTION_KEYS = {
    "coulomb": "torque",
    "viscous": "viscous",
    "stribeck_excess": "torque",
    "stribeck_velocity": "speed",
    "offset": "torque",
    "bristle_stiffness": "stiffness",
    "bristle_damping": "viscous",
}
VALIDITY_KEYS = {
    "position_min": "position",
    "position_max": "position",
    "speed_min": "speed",
    "speed_max": "speed",
}
#: Keys that cannot be below zero.
NOT_NEGATIVE = ("coulomb", "viscous", "stribeck_excess", "bristle_damping", "speed_min")
ABOVE_ZERO = ("stribeck_velocity", "bristle_stiffness", "speed_max")
#: Tables of a joint whose parameters an uncertainty may be stated of, beside the joint's own.
TABLES = ("friction", "link")
#: Kind of a joint → kind and unit of its motor's inertia.
MOTOR_UNITS = {"revolute": ("inertia", "kg.m2"), "prismatic": ("mass", "kg")}


class ArmFriction(Section):
    """Friction of one joint; forces and speeds along the axis of a prismatic one."""

    coulomb: AnyQuantity
    viscous: AnyQuantity
    stribeck_excess: AnyQuantity | None = None
    stribeck_velocity: AnyQuantity | None = None
    offset: AnyQuantity | None = None
    bristle_stiffness: AnyQuantity | None = None
    bristle_damping: AnyQuantity | None = None

    def comparisons(self) -> Iterator[Issue]:
        for one, other in (("stribeck_excess", "stribeck_velocity"), ("bristle_stiffness", "bristle_damping")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                missing = one if getattr(self, one) is None else other
                yield Issue(missing, "nothing", f"both {one} and {other}, or neither")


class ArmJointValidity(Section):
    """Where one joint's parameters were identified; a controller must not lean on them outside."""

    position_min: AnyQuantity
    position_max: AnyQuantity
    speed_min: AnyQuantity
    speed_max: AnyQuantity

    def comparisons(self) -> Iterator[Issue]:
        for low, high in (("position_min", "position_max"), ("speed_min", "speed_max")):
            below, above = getattr(self, low), getattr(self, high)
            if below.kind == above.kind and below.to(above.unit) >= above.magnitude:
                yield Issue(low, f'"{below}"', f"less than {high}, {above}", "Are the two reversed?")


class ArmJointFeedForward(Section):
    """One joint: the link it moves, its motor, its friction, what its drive makes of a current."""

    name: Name
    kind: Literal["revolute", "prismatic"] = "revolute"
    link: BodyProfile
    motor_inertia: AnyQuantity
    torque_scale: float = Field(default=1.0, gt=0.5, lt=2)
    residual: AnyQuantity | None = None
    friction: ArmFriction
    validity: ArmJointValidity

    def number(self, key: str) -> float | None:
        """Return a quantity of the joint, its friction or validity in rad, N.m and s (m and N of a prismatic one)."""
        for section, kinds in self._quantities():
            if key in kinds:
                value: Value | None = getattr(section, key)
                return None if value is None else value.to(kinds[key][1])
        raise KeyError(key)

    def _quantities(self) -> Iterator[tuple[Section, dict[str, tuple[str, str]]]]:
        units = JOINT_UNITS[self.kind]
        yield self, {"motor_inertia": MOTOR_UNITS[self.kind], "residual": units["torque"]}
        yield self.friction, {key: units[what] for key, what in FRICTION_KEYS.items()}
        yield self.validity, {key: units[what] for key, what in VALIDITY_KEYS.items()}

    def comparisons(self) -> Iterator[Issue]:
        for section, kinds in self._quantities():
            place = {id(self): "", id(self.friction): "friction.", id(self.validity): "validity."}[id(section)]
            for key, (kind, _) in kinds.items():
                value: Value | None = getattr(section, key)
                if value is None:
                    continue
                given = f'"{value}"'
                if value.kind != kind:
                    due = f"{article(kind)}, for the joint is {self.kind}"
                    yield Issue(place + key, given, due, f"It is {article(value.kind)}")
                elif key in (*NOT_NEGATIVE, "motor_inertia", "residual") and value.magnitude < 0.0:
                    yield Issue(place + key, given, f"{article(kind)} of at least 0")
                elif key in ABOVE_ZERO and value.magnitude <= 0.0:
                    yield Issue(place + key, given, f"{article(kind)} above 0")

    def stated(self, key: str) -> Value | float | None:
        """Return what the file says of ``key``, such as ``friction.coulomb``; None where it says nothing."""
        table, _, name = key.rpartition(".")
        section: Section | None = self if not table else getattr(self, table) if table in TABLES else None
        if section is None or name not in type(section).model_fields:
            return None
        found = getattr(section, name)
        return found if isinstance(found, Value | float) else None

    def parameters(self) -> Iterator[str]:
        """Yield the dotted keys of the parameters this table states."""
        for table, section in (("", self), *((f"{name}.", getattr(self, name)) for name in TABLES)):
            yield from (
                f"{table}{key}" for key in type(section).model_fields if self.stated(f"{table}{key}") is not None
            )


class ArmPayloadFeedForward(Section):
    """What was fixed to the tool while the arm was identified; the last link has it in it. In the sensor's frame."""

    specimen: Text
    body: BodyProfile


class ArmValidity(Section):
    """Temperatures of the motors it was identified at."""

    temperature_min: Temperature
    temperature_max: Temperature

    def comparisons(self) -> Iterator[Issue]:
        if self.temperature_min.to("degC") > self.temperature_max.to("degC"):
            given = f'"{self.temperature_min}"'
            yield Issue("temperature_min", given, f"at most temperature_max, {self.temperature_max}")


class ArmFeedForward(Profile):
    """An arm's feed-forward file.

    ``uncertainty`` holds expanded uncertainties (k = 2) by joint and key (``elbow.friction.coulomb``), as share or
    value. Single parameters of links are not all identifiable: those that are stand in it.
    """

    schema_id: Literal["bench.arm_feedforward/1"] = Field(alias="schema")
    name: Name
    version: int = Field(ge=1)
    description: str = ""
    rig: Text
    created: AwareDatetime
    software_version: Text
    hold_out_error: PositiveRatio | None = None
    payload: ArmPayloadFeedForward | None = None
    validity: ArmValidity | None = None
    joints: tuple[ArmJointFeedForward, ...] = Field(min_length=1)
    uncertainty: dict[str, Annotated[Value, Quantity()]] = Field(default_factory=dict)
    sources: tuple[SourceArchive, ...] = Field(min_length=1)

    def comparisons(self) -> Iterator[Issue]:
        names = [joint.name for joint in self.joints]
        for index, name in enumerate(names):
            if names.index(name) != index:
                yield Issue(f"joints[{index}].name", f'"{name}"', "a name that no other joint has")
        if len(set(names)) < len(names):
            return  # an uncertainty could be that of either
        for key, stated in self.uncertainty.items():
            joint, _, parameter = key.partition(".")
            value = self.joints[names.index(joint)].stated(parameter) if joint in names else None
            place = f"uncertainty.{key}"
            if value is None:
                known = [f"{one.name}.{parameter}" for one in self.joints for parameter in one.parameters()]
                due = "joint and key of a parameter in this file"
                yield Issue(place, f'"{key}"', due, near_miss(key, known))
            elif stated.magnitude < 0:
                yield Issue(place, f'"{stated}"', "0 or more")
            elif isinstance(value, Value):
                if stated.unit != "%" and not set(kinds_of(stated.unit)) & set(kinds_of(value.unit)):
                    yield Issue(place, f'"{stated}"', f"{article(value.kind)} as {key} is, or a share in %")
            elif stated.unit not in ("%", "1"):
                yield Issue(place, f'"{stated}"', f"a plain number as {key} is, or a share in %")
