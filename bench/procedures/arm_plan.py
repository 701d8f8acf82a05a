"""What every plan of an arm needs: how it is controlled, poses in numbers, and refusals before anything moves."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.arm import drivetrain, ratings
from bench.errors import LimitError
from bench.models.arm_path import ArmPath
from bench.procedures.arm_control import ArmGains
from bench.procedures.arm_model import ArmKnowledge, knowledge_of
from bench.procedures.arm_motion import ArmMotion, Line, moved, sampled
from bench.profile import ArmFeedForward, ArmRig, SpecimenProfile
from bench.profile.procedure_arm import ArmProcedure
from bench.units import Value

Floats = NDArray[np.float64]
Pose = tuple[float, ...]
#: A motion, what the arm does in it, and whether its tip is led along a line.
Leg = tuple[ArmMotion, str, bool]

#: Seconds of a run beside its motions: tare, brakes, way to the start.
OVERHEAD_S = 4.0
#: Torque limits of the controller lie below those of the gate by this share, so that the gate never has to refuse.
LIMIT_SHARE = 0.999
#: A joint moves within this share of its speed limit: the rest is for what the controller overshoots.
SPEED_SHARE = 0.9
#: The wiring check moves at this share of the travel speed; then it stands for so long [s].
CHECK_SHARE, CHECK_STAND_S = 0.5, 0.16
#: Less is no check of the wiring [rad].
LEAST_CHECK_RAD = 0.02


@dataclass(frozen=True)
class ArmControl:
    """How the arm is moved, in plain numbers: gains, limits (SI, per joint), the pose it starts and ends at."""

    knowledge: ArmKnowledge
    gains: ArmGains
    names: tuple[str, ...]
    start: Pose
    travel_speed: Pose
    travel_acceleration: Pose
    torque_limit: Pose
    check_rad: float
    baseline_s: float

    def move(self, start: Sequence[float] | Floats, goal: Sequence[float] | Floats) -> Line:
        """Return the move from pose to pose."""
        return moved(start, goal, speed=self.travel_speed, acceleration=self.travel_acceleration)

    def checks(self) -> list[tuple[int, float, Line, Line]]:
        """Return joint (from 0), way [rad] and both motions of every small move of the wiring check."""
        if self.check_rad == 0.0:
            return []
        start, found = np.array(self.start), []
        for joint in range(len(start)):
            goal = start.copy()
            goal[joint] += self.check_rad
            speed, rise = CHECK_SHARE * np.array(self.travel_speed), self.travel_acceleration
            there = moved(start, goal, speed=speed, acceleration=rise)
            back = moved(goal, start, speed=speed, acceleration=rise)
            found.append((joint, self.check_rad, there, back))
        return found

    @property
    def checks_s(self) -> float:
        """How long the wiring check takes [s]."""
        return sum(there.duration_s + back.duration_s + CHECK_STAND_S for _, _, there, back in self.checks())

    def checks_path(self, rate_hz: float) -> list[ArmPath]:
        """Return the way of the wiring check."""
        return [
            sampled(way, f"checking the wiring of joint {self.names[joint]}", rate_hz)
            for joint, _, there, back in self.checks()
            for way in (there, back)
        ]


class LegPlan(ABC):
    """A plan that is one motion after the other, each of which is known beforehand."""

    control: ArmControl

    @abstractmethod
    def legs(self) -> list[Leg]:
        """Return every motion of the run."""

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        return OVERHEAD_S + self.control.checks_s + sum(motion.duration_s for motion, _, _ in self.legs())

    def path(self, rate_hz: float) -> ArmPath:
        """Return the whole way, for the check before anything moves."""
        return whole(self.control, rate_hz, self.legs())


def control_of(
    rig: ArmRig, procedure: ArmProcedure, specimen: SpecimenProfile, feedforward: ArmFeedForward | None, where: str
) -> ArmControl:
    """Return how ``procedure`` moves the arm of ``rig`` with ``specimen`` on it.

    Raises
    ------
    LimitError
        The start pose is of another arm; the wiring check is too small to tell anything.
    ProfileError
        The feed-forward file is of another arm.
    """
    rated = ratings(rig.arm)
    start = pose_of(rig, procedure.start, "start", where)
    check = procedure.check_angle.to("rad")
    if 0.0 < check < LEAST_CHECK_RAD:
        raise LimitError(
            f"the wiring check moves by {check:g} rad, at least {LEAST_CHECK_RAD:g} rad are needed",
            reason="wiring_check",
            where=where,
            remedy='Ask for a larger check_angle, or for none: check_angle = "0 rad".',
        )
    speed = min(procedure.travel_speed.to("1"), SPEED_SHARE) * rated.speed
    acceleration = procedure.travel_acceleration.to("1") * np.where(
        np.isfinite(rated.acceleration), rated.acceleration, 4.0 * rated.speed
    )
    return ArmControl(
        knowledge=knowledge_of(rig, specimen, feedforward),
        gains=ArmGains(
            2.0 * np.pi * procedure.natural_frequency.to("Hz"), procedure.damping_ratio, procedure.windup.to("rad")
        ),
        names=tuple(joint.name for joint in rig.arm.joints),
        start=start,
        travel_speed=_pose(speed),
        travel_acceleration=_pose(acceleration),
        torque_limit=_pose(LIMIT_SHARE * torque_limits(rig)),
        check_rad=check,
        baseline_s=procedure.baseline_time.to("s"),
    )


def torque_limits(rig: ArmRig) -> Floats:
    """Return (n,) the joint torques that may be commanded: peak over its safety factor, and what the currents make."""
    drives = drivetrain(rig.arm)
    most = np.array([servo.max_current.to("A") for servo in rig.servos])
    axes = most * drives.torque_constant * drives.gear_ratio
    with np.errstate(divide="ignore"):
        made = np.min(np.abs(axes[:, None] / drives.coupling), axis=0)
    return np.asarray(np.minimum(ratings(rig.arm).peak_torque / rig.safety.safety_factor_peak, made))


def pose_of(rig: ArmRig, given: Sequence[Value], key: str, where: str) -> Pose:
    """Return a pose of a profile in rad (m of a prismatic joint).

    Raises
    ------
    LimitError
        ``joint_count``, ``pose``: it is not one of this arm.
    """
    joints = rig.arm.joints
    if len(given) != len(joints):
        raise LimitError(
            f"{key} has {len(given)} positions, the arm {rig.name} has {len(joints)} joints",
            reason="joint_count",
            where=where,
            remedy="Give one position for every joint, in the order of [[arm.joints]].",
        )
    found = []
    for joint, value in zip(joints, given, strict=True):
        kind, unit = ("angle", "rad") if joint.kind == "revolute" else ("length", "m")
        if value.kind != kind:
            raise LimitError(
                f'{key} gives joint {joint.name} "{value}"; it is {joint.kind}',
                reason="pose",
                where=where,
                remedy=f"Give its position as {'an angle' if kind == 'angle' else 'a length'}.",
            )
        found.append(value.to(unit))
        low, high = joint.number("position_min"), joint.number("position_max")
        if low is not None and high is not None and not low <= found[-1] <= high:
            raise LimitError(
                f'{key} gives joint {joint.name} "{value}", beyond its limits {joint.position_min} to '
                f"{joint.position_max}",
                reason="position",
                where=where,
                remedy="Take another pose.",
            )
    return tuple(found)


def check_speed(rig: ArmRig, speed: float, key: str, where: str) -> None:
    """Refuse a speed [rad/s] that is beyond a joint's limit, less what the controller overshoots."""
    for joint in rig.arm.joints:
        limit = SPEED_SHARE * (joint.number("speed_limit") or 0.0)
        if not speed <= limit:
            raise LimitError(
                f"{key} is {speed:.3g} rad/s; a tenth below the limit of joint {joint.name} is {limit:.3g} rad/s",
                reason="speed",
                where=where,
                remedy="Move more slowly.",
            )


def place(procedure: ArmProcedure, specimen: SpecimenProfile) -> str:
    """Say where a refusal belongs."""
    return f"procedure {procedure.name} with {specimen.name}"


def whole(control: ArmControl, rate_hz: float, legs: Sequence[Leg]) -> ArmPath:
    """Return the path of the wiring check and of ``legs``: motion, what the arm does, whether its tip is led."""
    parts = control.checks_path(rate_hz)
    parts += [sampled(motion, text, rate_hz, led=True if led else None) for motion, text, led in legs]
    return ArmPath.joined(parts)


def _pose(values: Floats) -> Pose:
    return tuple(float(value) for value in values)
