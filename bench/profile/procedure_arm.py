"""Procedure profiles of an arm: excitation, payload, slow tracking, wrench by torques, approach and touch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.arm import Mass
from bench.profile.fields import (
    AngularSpeed,
    AnyQuantity,
    Frequency,
    NonNegativeAngle,
    NonNegativeTime,
    PositiveAngle,
    PositiveForce,
    PositiveLength,
    PositiveRatio,
    Quantity,
    Speed,
    Text,
    Time,
)
from bench.profile.problem import Issue
from bench.profile.procedure import ProcedureProfile
from bench.units import Value, article

#: Positions of all joints, in their order: angles, lengths of prismatic ones.
JointPose = Annotated[tuple[AnyQuantity, ...], Field(min_length=1)]
Damping = Annotated[Value, Quantity("damping", above="0")]
NonNegativeAngularSpeed = Annotated[Value, Quantity("angular_speed", at_least="0")]

#: An archive has room for about a thousand phases, and a crossing is one.
MOST_CROSSINGS = 900


def pose_issues(key: str, pose: Sequence[Value], size: int) -> Iterator[Issue]:
    """Yield what is wrong with a pose that has to have ``size`` joints."""
    for index, position in enumerate(pose):
        if position.kind not in ("angle", "length"):
            given = f'"{position}", {article(position.kind)}'
            yield Issue(f"{key}[{index}]", given, "an angle, or a length of a prismatic joint")
    if len(pose) != size:
        yield Issue(key, f"{len(pose)} positions", f"{size}, as many as start has")


class ArmProcedure(ProcedureProfile):
    """What the procedures of an arm share: the pose it starts and ends at, its position controller, the wiring check.

    The controller makes every joint a mass on a spring and a damper of ``natural_frequency`` and ``damping_ratio``,
    whatever the arm's inertia; a joint whose friction would hold it farther than ``windup`` gets a stiffer spring.
    Moves between poses take ``travel_speed`` and ``travel_acceleration`` as shares of each joint's limits. Before
    anything else every joint moves by ``check_angle`` and back, one after the other, so that
    swapped servos and signs are found while little can happen. ``feedforward`` names a feed-forward file (a path) or
    is left out.
    """

    start: JointPose
    natural_frequency: Frequency = Value(5.0, "Hz", "frequency")
    damping_ratio: float = Field(default=1.0, ge=0.4, le=2.0)
    windup: PositiveAngle = Value(0.005, "rad", "angle")
    travel_speed: PositiveRatio = Value(40.0, "%", "ratio")
    travel_acceleration: PositiveRatio = Value(30.0, "%", "ratio")
    check_angle: NonNegativeAngle = Value(0.08, "rad", "angle")
    baseline_time: Time = Value(0.5, "s", "time")
    feedforward: Text | None = None

    def comparisons(self) -> Iterator[Issue]:
        yield from pose_issues("start", self.start, len(self.start))
        for key in ("travel_speed", "travel_acceleration"):
            value: Value = getattr(self, key)
            if value.to("1") > 1.0:
                yield Issue(key, f'"{value}"', "at most 100 %", "It is a share of each joint's limit")


class ArmExcitationProcedure(ArmProcedure):
    """A trajectory to identify on (``train``), and another one to be judged by (``hold_out``): names or paths."""

    procedure: Literal["arm_excitation"]
    trajectory: Text
    hold_out: Text

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        if self.hold_out == self.trajectory:
            given = f'"{self.hold_out}"'
            yield Issue(
                "hold_out", given, f'another one than trajectory, "{self.trajectory}"',
                "A repeat of the same trajectory proves nothing",
            )  # fmt: skip


class PayloadHoldProcedure(ArmProcedure):
    """Cross poses slowly with every joint at once, in both directions, so that friction cancels; then hold them."""

    procedure: Literal["payload_hold"]
    poses: tuple[JointPose, ...] = Field(min_length=1)
    crossing_angle: PositiveAngle = Value(0.06, "rad", "angle")
    crossing_speed: AngularSpeed = Value(0.05, "rad/s", "angular_speed")
    hold_time: NonNegativeTime = Value(0.0, "s", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        for index, pose in enumerate(self.poses):
            yield from pose_issues(f"poses[{index}]", pose, len(self.start))
        if 3 * self.replicates * len(self.poses) > MOST_CROSSINGS:
            given = f"{self.replicates} of {len(self.poses)} poses"
            yield Issue("replicates", given, f"at most {MOST_CROSSINGS // 3} poses altogether")


class ArmTrackingProcedure(ArmProcedure):
    """One joint after the other at a slow constant speed, both ways; with ``feedforward`` once more, compensated."""

    procedure: Literal["arm_tracking"]
    pose: JointPose | None = None
    speed: AngularSpeed
    travel: PositiveAngle
    run_in: NonNegativeTime = Value(0.5, "s", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        if self.pose is not None:
            yield from pose_issues("pose", self.pose, len(self.start))
        if self.replicates > 4:
            yield Issue("replicates", str(self.replicates), "at most 4", "A phase is numbered 10 joint + stroke")
        lasts = self.travel.to("rad") / self.speed.to("rad/s")
        if 2.0 * self.run_in.to("s") > lasts:
            due = f"at most half of the {lasts:.3g} s that travel lasts at speed"
            yield Issue("run_in", f'"{self.run_in}"', due, "Nothing is judged while it runs in")


class ArmContactProcedure(ArmProcedure):
    """What the procedures that touch a phantom share: the way to it, and how a force becomes a motion.

    The tip goes straight along the surface's normal to the phantom's point, the tool along the normal; ``pose`` is
    where the search for the joints' positions begins, so it chooses the elbow. A missing force moves the set-point as
    it would move ``virtual_mass`` on a damper, in free air never faster than ``approach_speed``, in contact than
    ``press_speed``. The damper is ``free_damping`` until contact, and where gains are switched ``contact_damping`` from
    then on. Contact is what lasts for ``debounce`` ticks above ``contact_force``; it ends below ``release_force``.
    """

    pose: JointPose
    clearance: PositiveLength = Value(8.0, "mm", "length")
    approach_speed: Speed = Value(10.0, "mm/s", "speed")
    press_speed: Speed = Value(100.0, "mm/s", "speed")
    retreat_speed: Speed = Value(30.0, "mm/s", "speed")
    virtual_mass: Mass = Value(6.0, "kg", "mass")
    free_damping: Damping = Value(0.03, "N.s/mm", "damping")
    contact_damping: Damping = Value(0.25, "N.s/mm", "damping")
    contact_force: PositiveForce = Value(0.6, "N", "force")
    release_force: PositiveForce = Value(0.3, "N", "force")
    debounce: int = Field(default=3, ge=1, le=50)
    hold_time: Time = Value(3.0, "s", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        yield from pose_issues("pose", self.pose, len(self.start))
        if self.release_force.to("N") >= self.contact_force.to("N"):
            due = f"less than contact_force, {self.contact_force}"
            yield Issue("release_force", f'"{self.release_force}"', due, "Noise would switch to and fro")
        if self.free_damping.to("N.s/m") >= self.contact_damping.to("N.s/m"):
            given = f'"{self.free_damping}"'
            yield Issue("free_damping", given, f"less than contact_damping, {self.contact_damping}")

    def wanted(self) -> tuple[tuple[str, Value], ...]:
        """Return the forces that are pressed with, each with its key."""
        return ()

    def force_issues(self) -> Iterator[Issue]:
        """Yield forces that would not be told from free air."""
        for key, force in self.wanted():
            if force.to("N") <= 2.0 * self.contact_force.to("N"):
                yield Issue(key, f'"{force}"', f"more than twice contact_force, {self.contact_force}")


class WrenchCheckProcedure(ArmContactProcedure):
    """Press with several forces and hold each while every joint creeps, so that the sign of its friction is known."""

    procedure: Literal["wrench_check"]
    forces: tuple[PositiveForce, ...] = Field(min_length=2, max_length=20)
    creep_speed: NonNegativeAngularSpeed = Value(0.008, "rad/s", "angular_speed")
    settle: NonNegativeTime = Value(1.0, "s", "time")

    def wanted(self) -> tuple[tuple[str, Value], ...]:
        return tuple((f"forces[{index}]", force) for index, force in enumerate(self.forces))

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        yield from self.force_issues()
        for index, (one, other) in enumerate(pairwise(self.forces), start=1):
            if other.to("N") <= one.to("N"):
                yield Issue(f"forces[{index}]", f'"{other}"', f"more than forces[{index - 1}], {one}")


class ApproachTouchProcedure(ArmContactProcedure):
    """Approach, touch, press, hold, retreat; with the gains of free air throughout, and with gains switched."""

    procedure: Literal["approach_touch"]
    force: PositiveForce

    def wanted(self) -> tuple[tuple[str, Value], ...]:
        return (("force", self.force),)

    def comparisons(self) -> Iterator[Issue]:
        yield from super().comparisons()
        yield from self.force_issues()


ARM_PROCEDURES: dict[str, type[ProcedureProfile]] = {
    "arm_excitation": ArmExcitationProcedure,
    "payload_hold": PayloadHoldProcedure,
    "arm_tracking": ArmTrackingProcedure,
    "wrench_check": WrenchCheckProcedure,
    "approach_touch": ApproachTouchProcedure,
}
