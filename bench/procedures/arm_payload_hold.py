"""Weigh a payload by the joints' torques: cross poses slowly, both ways, and hold them.

Standing still, friction may bear any torque up to its breakaway, so what the motors make tells little. Every pose is
therefore crossed by all joints at once, slowly and at constant speed, first upwards and then downwards: Coulomb and
viscous friction change their sign with the direction, and the mean of both crossings is free of them.

Phases: ``crossing``, replicate = number of the pose, one per direction (the sign of its speed); ``hold``, the pose held
afterwards, where a time for it is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.arm import arm_model
from bench.errors import LimitError
from bench.procedures import arm_plan, arm_wiring
from bench.procedures.arm_motion import Line, Standing
from bench.procedures.arm_mover import ArmMover
from bench.procedures.arm_plan import ArmControl, Pose
from bench.procedures.joint_motion import Strokes
from bench.profile import ArmFeedForward, ArmRig, Payload, SpecimenProfile
from bench.profile.procedure_arm import PayloadHoldProcedure

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording
    from bench.station_arm import ArmStation

Floats = NDArray[np.float64]

#: Changes of speed take this acceleration [rad/s2].
ACCELERATION = 1.0
#: A payload is seen by a joint when it adds this share of its rated torque in some pose; so many joints have to see it.
SEEN_SHARE, FEWEST_JOINTS = 0.02, 3


@dataclass(frozen=True)
class Plan(arm_plan.LegPlan):
    """Crossings in plain numbers: rad, rad/s, s."""

    control: ArmControl
    poses: tuple[Pose, ...]
    angle_rad: float
    speed: float
    hold_s: float
    replicates: int
    specimen: SpecimenProfile

    def crossings(self, pose: Pose) -> Iterator[tuple[float, Line, Strokes]]:
        """Yield signed speed and motion of the way up and the way down through a pose."""
        for way in (1.0, -1.0):
            along = Strokes(0.0, ((way * self.speed, self.angle_rad / self.speed),), ACCELERATION)
            ones = np.ones(len(pose))
            yield way * self.speed, Line(np.array(pose) - 0.5 * along.end_rad * ones, ones, along), along

    def numbered(self) -> Iterator[tuple[int, str, Pose]]:
        """Yield number, name and place of every pose that is gone to."""
        for replicate in range(1, self.replicates + 1):
            for number, pose in enumerate(self.poses, start=1):
                again = f", replicate {replicate}" if self.replicates > 1 else ""
                yield number, f"pose {number} of {len(self.poses)}{again}", pose

    def legs(self) -> list[arm_plan.Leg]:
        """Return every motion of the run."""
        control, found = self.control, list[arm_plan.Leg]()
        place = np.array(control.start)
        for _, label, pose in self.numbered():
            for speed, motion, _ in self.crossings(pose):
                found.append((control.move(place, motion.start), f"{label}: moving to its edge", False))
                found.append((Standing(motion.start, control.baseline_s), f"{label}: standing", False))
                found.append((motion, f"{label}: crossing at {speed:g} rad/s", False))
                place = motion.at(motion.duration_s)[0]
            if self.hold_s > 0.0:
                found.append((control.move(place, pose), f"{label}: moving to it", False))
                found.append((Standing(pose, self.hold_s), f"{label}: holding", False))
                place = np.array(pose)
        found.append((control.move(place, control.start), "moving back to the start", False))
        return found


def plan(
    rig: ArmRig,
    procedure: PayloadHoldProcedure,
    specimen: SpecimenProfile,
    feedforward: ArmFeedForward | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        ``wrong_specimen``: it is nothing an arm carries; ``unseen_payload``: too few joints would feel it; a pose or
        the speed is beyond a limit.
    """
    where = arm_plan.place(procedure, specimen)
    control = arm_plan.control_of(rig, procedure, specimen, feedforward, where)
    if not isinstance(specimen, Payload):
        raise LimitError(
            f"{specimen.name} is no payload ({specimen.kind}); it is not carried by the arm",
            reason="wrong_specimen",
            where=where,
            remedy='Mount what is to be weighed and name its profile (kind = "payload").',
        )
    speed = procedure.crossing_speed.to("rad/s")
    arm_plan.check_speed(rig, speed, "crossing_speed", where)
    poses = tuple(arm_plan.pose_of(rig, pose, f"poses[{k}]", where) for k, pose in enumerate(procedure.poses))
    _check_seen(rig, specimen, poses, where)
    return Plan(
        control=control,
        poses=poses,
        angle_rad=procedure.crossing_angle.to("rad"),
        speed=speed,
        hold_s=procedure.hold_time.to("s"),
        replicates=procedure.replicates,
        specimen=specimen,
    )


def seen_by(rig: ArmRig, specimen: Payload, poses: tuple[Pose, ...]) -> Floats:
    """Return (n,) the largest torque the payload adds to each joint in any of the poses, by its rated torque."""
    loaded, bare = arm_model(rig, specimen), arm_model(rig)
    added = loaded.gravity_rows(np.array(poses)) - bare.gravity_rows(np.array(poses))
    rated = np.array([joint.number("rated_torque") or np.inf for joint in rig.arm.joints])
    return np.asarray(np.abs(added).max(axis=0) / rated)


def _check_seen(rig: ArmRig, specimen: Payload, poses: tuple[Pose, ...], where: str) -> None:
    if specimen.body.mass.magnitude == 0.0:
        return
    shares = seen_by(rig, specimen, poses)
    seen = int(np.count_nonzero(shares >= SEEN_SHARE))
    needed = min(FEWEST_JOINTS, len(shares))
    if seen < needed:
        listed = ", ".join(f"{joint.name} {share:.1%}" for joint, share in zip(rig.arm.joints, shares, strict=True))
        raise LimitError(
            f"{seen} joints would feel {specimen.name} by {SEEN_SHARE:.0%} of their rated torque in some pose, "
            f"{needed} are needed ({listed})",
            reason="unseen_payload",
            where=where,
            remedy="Choose poses in which the arm is stretched out and the tool turned over, or a heavier payload.",
        )


def run(station: ArmStation, recording: ArmRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    control = plan.control
    mover = ArmMover(recording, control)
    mover.begin()
    arm_wiring.check_joints(mover, station.rig, plan.specimen)
    for number, label, pose in plan.numbered():
        for speed, motion, along in plan.crossings(pose):
            mover.move(motion.start, f"{label}: moving to its edge")
            mover.hold(control.baseline_s, f"{label}: standing")
            done = mover.follow(motion, f"{label}: crossing at {speed:g} rad/s")
            begin, end = along.holds[0]
            recording.phase("crossing", number, speed, done.start_s + begin, done.start_s + end)
        if plan.hold_s > 0.0:
            mover.move(pose, f"{label}: moving to it")
            done = mover.hold(plan.hold_s, f"{label}: holding")
            recording.phase("hold", number, float("nan"), done.start_s, done.end_s)
    mover.park()
