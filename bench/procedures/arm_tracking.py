"""Track a slow constant speed with one joint after the other, both ways: where friction shows most.

Phases: ``uncompensated`` and, when there is a feed-forward, ``compensated``; one per joint, replicate and direction, at
constant speed after the run-in, numbered ``10 joint + 2 (replicate - 1) + direction`` (joints from 1; 0 up, 1 down).
The other joints are held. ``feedforward_i_torque`` is what the controller feeds forward; what the motor makes differs
from it by what nobody compensated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import LimitError
from bench.procedures import arm_plan, arm_wiring
from bench.procedures.arm_motion import Line, Standing
from bench.procedures.arm_mover import ArmMover
from bench.procedures.arm_plan import ArmControl, Pose
from bench.procedures.joint_motion import Strokes
from bench.profile import ArmFeedForward, ArmRig, SpecimenProfile
from bench.profile.procedure_arm import ArmTrackingProcedure

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording
    from bench.station_arm import ArmStation

#: Changes of speed take this acceleration [rad/s2].
ACCELERATION = 0.5


@dataclass(frozen=True)
class Stroke:
    """One slow way of one joint: phase number, joint from 0, signed speed, motion, what it is called."""

    mode: str
    number: int
    joint: int
    speed: float
    motion: Line
    strokes: Strokes
    label: str


@dataclass(frozen=True)
class Plan(arm_plan.LegPlan):
    """Slow tracking in plain numbers: rad, rad/s, s. ``modes`` are the names of the phases."""

    control: ArmControl
    pose: Pose
    speed: float
    travel_rad: float
    run_in_s: float
    modes: tuple[str, ...]
    replicates: int
    specimen: SpecimenProfile

    def strokes(self) -> Iterator[Stroke]:
        """Yield every slow way, in their order."""
        n = len(self.pose)
        for mode in self.modes:
            for joint in range(n):
                for replicate in range(self.replicates):
                    for down in (0, 1):
                        speed = -self.speed if down else self.speed
                        legs = ((speed, self.run_in_s + self.travel_rad / self.speed),)
                        along = Strokes(0.0, legs, ACCELERATION)
                        start, way = np.array(self.pose), np.zeros(n)
                        start[joint] -= 0.5 * along.end_rad
                        way[joint] = 1.0
                        name = f"{mode}, joint {self.control.names[joint]} at {speed:g} rad/s"
                        number = 10 * (joint + 1) + 2 * replicate + down
                        yield Stroke(mode, number, joint, speed, Line(start, way, along), along, name)

    def legs(self) -> list[arm_plan.Leg]:
        """Return every motion of the run."""
        control, found = self.control, list[arm_plan.Leg]()
        place = np.array(control.start)
        for one in self.strokes():
            start = one.motion.start
            found.append((control.move(place, start), f"{one.label}: moving to its start", False))
            found.append((Standing(start, control.baseline_s), f"{one.label}: standing", False))
            found.append((one.motion, one.label, False))
            place = one.motion.at(one.motion.duration_s)[0]
        found.append((control.move(place, control.start), "moving back to the start", False))
        return found


def plan(
    rig: ArmRig,
    procedure: ArmTrackingProcedure,
    specimen: SpecimenProfile,
    feedforward: ArmFeedForward | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        Poses are not this arm's, the speed is beyond a limit, a joint would leave its range.
    """
    where = arm_plan.place(procedure, specimen)
    control = arm_plan.control_of(rig, procedure, specimen, feedforward, where)
    pose = control.start if procedure.pose is None else arm_plan.pose_of(rig, procedure.pose, "pose", where)
    if any(joint.kind == "prismatic" for joint in rig.arm.joints):
        raise LimitError(
            "the speed of this procedure is an angular one, and the arm has prismatic joints",
            reason="prismatic",
            where=where,
            remedy="Track arms of revolute joints.",
        )
    speed = procedure.speed.to("rad/s")
    arm_plan.check_speed(rig, speed, "speed", where)
    return Plan(
        control=control,
        pose=pose,
        speed=speed,
        travel_rad=procedure.travel.to("rad"),
        run_in_s=procedure.run_in.to("s"),
        modes=("uncompensated", "compensated") if control.knowledge.identified else ("uncompensated",),
        replicates=procedure.replicates,
        specimen=specimen,
    )


def run(station: ArmStation, recording: ArmRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    control = plan.control
    mover = ArmMover(recording, control)
    mover.begin()
    arm_wiring.check_joints(mover, station.rig, plan.specimen)
    if control.knowledge.identified:
        for name, friction in zip(control.names, control.knowledge.friction, strict=True):
            if plan.speed < friction.speed_min:
                mover.warn(
                    f"feedforward_slow_{name}",
                    f"joint {name}: {plan.speed:g} rad/s is slower than the {friction.speed_min:.3g} rad/s the "
                    "feed-forward was identified from; held at the edge",
                )
    for one in plan.strokes():
        compensated = one.mode == "compensated"
        mover.move(one.motion.start, f"{one.label}: moving to its start")
        mover.hold(control.baseline_s, f"{one.label}: standing", compensated=compensated)
        done = mover.follow(one.motion, one.label, compensated=compensated)
        begin, end = one.strokes.holds[0]
        recording.phase(
            one.mode, one.number, one.speed, done.start_s + begin + plan.run_in_s, done.start_s + end
        )  # fmt: skip
    mover.park()
