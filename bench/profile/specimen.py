"""The specimen profile: what is pressed, where its surface should be, how far and how hard it may be pressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from bench.profile.arm import BodyProfile, NonNegativeMass, Point
from bench.profile.fields import (
    Angle,
    Inertia,
    Length,
    Name,
    NonNegativeTorque,
    PositiveForce,
    PositiveLength,
    PositiveRatio,
    PositiveTorque,
    Profile,
    Section,
    Speed,
    Stiffness,
)
from bench.profile.problem import Issue
from bench.profile.prompt import Prompt
from bench.units import Value


class IndenterGeometry(Section):
    """The tool's tip."""

    shape: Literal["sphere", "flat", "needle"]
    radius: PositiveLength


class ExpectedForce(Section):
    """What a press on this specimen is known to feel like, so that another specimen under the tool is noticed."""

    depth: PositiveLength
    speed: Speed
    force: PositiveForce
    tolerance: PositiveRatio


class SpecimenProfile(Profile):
    """What every specimen has: what is mounted, as the operator knows it. ``kind`` says which model it is read as."""

    schema_id: Literal["bench.specimen/1"] = Field(alias="schema")
    name: Name
    kind: str
    description: str = ""
    batch: str | None = None
    serial_number: str | None = None
    prompts: tuple[Prompt, ...] = ()


class ContactSpecimen(SpecimenProfile):
    """A specimen that is pressed; its true behaviour is nobody's business here."""

    kind: Literal["phantom", "plate", "tissue"]
    surface_position: Length
    thickness: PositiveLength
    max_indentation: PositiveLength
    max_force: PositiveForce
    indenter: IndenterGeometry
    expected: ExpectedForce | None = None

    def comparisons(self) -> Iterator[Issue]:
        if self.max_indentation.to("mm") > self.thickness.to("mm"):
            yield Issue("max_indentation", f'"{self.max_indentation}"', f"at most the thickness, {self.thickness}")
        if self.expected is not None and self.expected.depth.to("mm") > self.max_indentation.to("mm"):
            deepest = f"at most max_indentation, {self.max_indentation}"
            yield Issue("expected.depth", f'"{self.expected.depth}"', deepest)


class JointLoad(SpecimenProfile):
    """What hangs on a joint's output: its nominal inertia and gravity, and the lever at which a torque is a tip force.

    Gravity acts as ``gravity_moment * sin(q - gravity_phase)``: at ``gravity_phase`` the load hangs in its rest.
    """

    kind: Literal["joint_load"]
    link_inertia: Inertia
    gravity_moment: NonNegativeTorque = Value(0.0, "N.m", "torque")
    gravity_phase: Angle = Value(0.0, "rad", "angle")
    lever: PositiveLength
    max_torque: PositiveTorque

    def comparisons(self) -> Iterator[Issue]:
        if self.gravity_moment.to("N.m") >= self.max_torque.to("N.m"):
            due = f"less than max_torque, {self.max_torque}"
            yield Issue("gravity_moment", f'"{self.gravity_moment}"', due, "The load's own weight would be too much")


class OutputLock(SpecimenProfile):
    """A fixture that clamps the joint's output, for stiffness ramps."""

    kind: Literal["output_lock"]
    max_torque: PositiveTorque


class Payload(SpecimenProfile):
    """A body fixed to an arm's tool: known mass and centre, in the frame of the wrist sensor; mass 0 for the bare tool.

    ``mass_uncertainty`` is expanded (k = 2), of the scale it was weighed on.
    """

    kind: Literal["payload"]
    body: BodyProfile
    mass_uncertainty: NonNegativeMass = Value(0.0, "kg", "mass")


class ArmPhantom(SpecimenProfile):
    """A phantom an arm's tool presses: a point of its surface and the outward normal, both in the arm's base frame."""

    kind: Literal["arm_phantom"]
    surface: Point
    normal: tuple[float, ...] = Field(default=(0.0, 0.0, 1.0), min_length=3, max_length=3)
    thickness: PositiveLength
    max_indentation: PositiveLength
    max_force: PositiveForce
    nominal_stiffness: Stiffness

    def comparisons(self) -> Iterator[Issue]:
        if abs(sum(x * x for x in self.normal) - 1.0) > 1e-6:
            yield Issue("normal", str(list(self.normal)), "a direction of length 1")
        if self.max_indentation.to("mm") > self.thickness.to("mm"):
            yield Issue("max_indentation", f'"{self.max_indentation}"', f"at most the thickness, {self.thickness}")


SPECIMENS: dict[str, type[SpecimenProfile]] = {
    "phantom": ContactSpecimen,
    "plate": ContactSpecimen,
    "tissue": ContactSpecimen,
    "joint_load": JointLoad,
    "output_lock": OutputLock,
    "payload": Payload,
    "arm_phantom": ArmPhantom,
}
