"""The trajectory file of an arm: a Fourier series that another lab can replay, and what it was designed for.

Position of joint j, in the unit of its ``offset``, at the time t after the start; it starts and ends at rest::

    q_j(t) = offset_j + sum over k of  cosine_jk cos(2 pi harmonics_k base_frequency t)
                                     + sine_jk   sin(2 pi harmonics_k base_frequency t)

The limits stand here as they were designed for; before anything moves the series is held against the rig's own.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.arm import JOINT_UNITS, Point
from bench.profile.fields import AnyQuantity, Frequency, Name, Profile, Section, Speed, Spelled, Text, Time
from bench.profile.problem import Issue
from bench.units import article

SCHEMA = "bench.trajectory/1"
#: The formula as it stands in a file.
FORMULA = (
    "q_j(t) = offset_j + sum_k cosine_jk cos(2 pi harmonics_k base_frequency t) "
    "+ sine_jk sin(2 pi harmonics_k base_frequency t)"
)
#: Key of a joint's table → which of the kinds of :data:`bench.profile.arm.JOINT_UNITS` it is.
TRAJECTORY_KEYS = {
    "offset": "position",
    "position_min": "position",
    "position_max": "position",
    "speed_limit": "speed",
    "acceleration_limit": "acceleration",
    "torque_limit": "torque",
}
#: Speed and acceleration at the start count as none below this share of what the coefficients could make.
AT_REST = 1e-9
#: The stated duration may differ from periods over base frequency by this share.
SAME_DURATION = 1e-9
Digest = Annotated[str, Spelled("a SHA-256 digest in hexadecimal", "[0-9a-f]{64}", 64 * "0")]


class TrajectoryJoint(Section):
    """One joint: offset, coefficients (in rad, in m for a prismatic joint), and the limits it was designed for."""

    name: Name
    kind: Literal["revolute", "prismatic"] = "revolute"
    offset: AnyQuantity
    cosine: tuple[float, ...] = Field(min_length=1)
    sine: tuple[float, ...] = Field(min_length=1)
    position_min: AnyQuantity
    position_max: AnyQuantity
    speed_limit: AnyQuantity
    acceleration_limit: AnyQuantity
    torque_limit: AnyQuantity

    def number(self, key: str) -> float:
        """Return offset or a limit in rad, s and N.m (m and N for a prismatic joint)."""
        return float(getattr(self, key).to(JOINT_UNITS[self.kind][TRAJECTORY_KEYS[key]][1]))

    def comparisons(self) -> Iterator[Issue]:
        wrong = False
        for key, what in TRAJECTORY_KEYS.items():
            kind, _ = JOINT_UNITS[self.kind][what]
            value = getattr(self, key)
            if value.kind != kind:
                wrong = True
                yield Issue(key, f'"{value}", {article(value.kind)}', f"{article(kind)}, for the joint is {self.kind}")
        if wrong:
            return
        if self.number("position_min") >= self.number("position_max"):
            yield Issue("position_min", f'"{self.position_min}"', f"less than position_max, {self.position_max}")
        for key in ("speed_limit", "acceleration_limit", "torque_limit"):
            if self.number(key) <= 0.0:
                yield Issue(key, f'"{getattr(self, key)}"', "a number above 0")
        if len(self.sine) != len(self.cosine):
            yield Issue("sine", f"{len(self.sine)} coefficients", f"{len(self.cosine)}, as many as cosine has")


class TrajectoryWorkspace(Section):
    """What the tip was held to, and the safety factors behind the torque limits."""

    box_min: Point
    box_max: Point
    tip_speed_limit: Speed
    safety_factor_rated: float = Field(ge=1.0)
    safety_factor_peak: float = Field(ge=1.0)


class TrajectoryProfile(Profile):
    """A trajectory file."""

    schema_id: Literal["bench.trajectory/1"] = Field(alias="schema")
    name: Name
    description: str = ""
    arm: Name
    specimen: Name
    formula: Text
    base_frequency: Frequency
    harmonics: tuple[int, ...] = Field(min_length=1)
    periods: int = Field(ge=1)
    duration: Time
    condition_number: float = Field(ge=1.0)
    columns: int = Field(ge=1)
    seed: int = Field(ge=0)
    evaluations: int = Field(ge=1)
    software_version: Text
    model_digest: Digest
    workspace: TrajectoryWorkspace
    joints: tuple[TrajectoryJoint, ...] = Field(min_length=1)

    def comparisons(self) -> Iterator[Issue]:
        if self.formula != FORMULA:
            yield Issue("formula", f'"{self.formula}"', f'"{FORMULA}"', "This bench knows no other series")
        if any(h < 1 for h in self.harmonics) or list(self.harmonics) != sorted(set(self.harmonics)):
            yield Issue("harmonics", str(list(self.harmonics)), "whole numbers above 0 that increase")
        lasts = self.periods / self.base_frequency.to("Hz")
        if abs(self.duration.to("s") - lasts) > SAME_DURATION * lasts:
            yield Issue("duration", f'"{self.duration}"', f"periods over base_frequency, {lasts!r} s")
        names = [joint.name for joint in self.joints]
        for index, joint in enumerate(self.joints):
            if names.index(joint.name) != index:
                yield Issue(f"joints[{index}].name", f'"{joint.name}"', "a name that no other joint has")
            for key in ("cosine", "sine"):
                given = getattr(joint, key)
                if len(given) != len(self.harmonics):
                    due = f"{len(self.harmonics)}, one of each of harmonics"
                    yield Issue(f"joints[{index}].{key}", f"{len(given)} coefficients", due)
                    break
            else:
                yield from self._rest_issues(index, joint)

    def _rest_issues(self, index: int, joint: TrajectoryJoint) -> Iterator[Issue]:
        for key, values, power in (("sine", joint.sine, 1), ("cosine", joint.cosine, 2)):
            terms = [value * h**power for value, h in zip(values, self.harmonics, strict=True)]
            whole = sum(
                abs(x) * h**power
                for row in (joint.sine, joint.cosine)
                for x, h in zip(row, self.harmonics, strict=True)
            )
            if abs(math.fsum(terms)) > AT_REST * max(whole, 1e-300):
                what = "speed" if power == 1 else "acceleration"
                due = f"coefficients whose sum times harmonics{'' if power == 1 else ' squared'} is zero"
                hint = f"The {what} at the start is not zero. Were coefficients rounded?"
                yield Issue(f"joints[{index}].{key}", f"a sum of {math.fsum(terms):.3g}", due, hint)
