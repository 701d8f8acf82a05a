"""Track a slow constant speed in both directions: where friction shows most, without and with its compensation.

Phases: ``uncompensated`` and, when there is a feed-forward, ``compensated``; one per direction and replicate, at
constant speed after the run-in. What the controller wants at the output is archived as ``wanted_torque``; what the
transducer reads differs from it by the friction that nobody compensated.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.procedures import joint_plan, joint_wiring
from bench.procedures.joint_loop import JointRecording
from bench.procedures.joint_motion import Strokes, rest_to_rest
from bench.procedures.joint_mover import Mover
from bench.procedures.joint_plan import Control
from bench.profile import FeedForwardProfile, JointRig, SpecimenProfile
from bench.profile.procedure_joint import LowSpeedTrackingProcedure
from bench.station import JointStation


@dataclass(frozen=True)
class Plan:
    """Low-speed tracking in plain numbers: rad, rad/s, s. ``modes`` are the names of the phases."""

    control: Control
    centre_rad: float
    travel_rad: float
    speed: float
    run_in_s: float
    modes: tuple[str, ...]
    replicates: int

    def motion(self, direction: float) -> Strokes:
        """Stroke in one direction: run-in and what counts are one constant speed, placed about the centre."""
        legs = ((direction * self.speed, self.run_in_s + self.travel_rad / self.speed),)
        length = Strokes(0.0, legs, self.control.acceleration).end_rad
        return Strokes(self.centre_rad - 0.5 * length, legs, self.control.acceleration)

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        control, stroke = self.control, self.motion(1.0)
        way = rest_to_rest(
            control.rest_rad, stroke.start_rad, speed=control.travel_speed, acceleration=control.acceleration
        )
        strokes = 2 * self.replicates * len(self.modes) * (stroke.duration_s + control.baseline_s)
        return joint_plan.OVERHEAD_S + 2.0 * way.duration_s + strokes


def plan(
    rig: JointRig,
    procedure: LowSpeedTrackingProcedure,
    specimen: SpecimenProfile,
    feedforward: FeedForwardProfile | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        Travel, speed or torque do not fit.
    """
    where = joint_plan.place(procedure, specimen)
    control = joint_plan.control_of(rig, procedure, specimen, feedforward)
    joint_plan.check_common(rig, control, moves=True, mounted=specimen, where=where)
    made = Plan(
        control=control,
        centre_rad=procedure.centre.to("rad"),
        travel_rad=procedure.travel.to("rad"),
        speed=procedure.speed.to("rad/s"),
        run_in_s=procedure.run_in.to("s"),
        modes=("uncompensated",) if control.model.friction is None else ("uncompensated", "compensated"),
        replicates=procedure.replicates,
    )
    joint_plan.check_speed(rig, {"speed": made.speed}, where)
    stroke = made.motion(1.0)
    joint_plan.check_travel(rig, stroke.start_rad, stroke.end_rad, "the tracking", where)
    joint_plan.check_torque(
        control, low=stroke.start_rad, high=stroke.end_rad, acceleration=control.acceleration, where=where
    )
    return made


def run(station: JointStation, recording: JointRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = Mover(recording, plan.control)
    mover.begin()
    joint_wiring.check_moving(mover)
    friction = plan.control.model.friction
    if friction is not None and plan.speed < friction.speed_min:
        recording.event(
            "warning",
            "feedforward_speed",
            f"the speed left the feed-forward's range: {plan.speed:g} rad/s, identified from {friction.speed_min:g} "
            "rad/s on; held at the edge",
        )
    for mode in plan.modes:
        number = 0
        for replicate in range(1, plan.replicates + 1):
            for direction in (1.0, -1.0):
                number += 1
                label = f"{mode}, {direction * plan.speed:g} rad/s, replicate {replicate} of {plan.replicates}"
                motion = plan.motion(direction)
                mover.move(motion.start_rad, f"{label}: moving to its start")
                mover.hold(plan.control.baseline_s, f"{label}: standing")
                done = mover.follow(motion, label, compensated=mode == "compensated")
                begin, end = motion.holds[0]
                recording.phase(
                    mode, number, direction * plan.speed, done.start_s + begin + plan.run_in_s, done.start_s + end
                )
    mover.park()
