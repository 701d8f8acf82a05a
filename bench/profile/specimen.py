"""The specimen profile: what is pressed, where its surface should be, how far and how hard it may be pressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from bench.profile.fields import Length, Name, PositiveForce, PositiveLength, PositiveRatio, Profile, Section, Speed
from bench.profile.problem import Issue


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
    """A specimen as the operator knows it; its true behaviour is nobody's business here."""

    schema_id: Literal["bench.specimen/1"] = Field(alias="schema")
    name: Name
    kind: Literal["phantom", "plate", "tissue"]
    description: str = ""
    batch: str | None = None
    serial_number: str | None = None
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
