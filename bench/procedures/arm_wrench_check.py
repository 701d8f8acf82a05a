"""Press a phantom with several forces: does the force by the joints' torques agree with the wrist sensor's?

While a joint stands, friction hides any torque up to its breakaway. So at every force, once it has settled, all joints
that bear it creep: the tool tilts slowly about its tip while the force is held, and the friction of a creeping joint is
known by its sign. From one force to the next the tilt goes the other way.

Phases: ``free``, hovering in free air; ``press``, replicate = number of the force, while the joints creep.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.models.arm_path import ArmPath
from bench.procedures import arm_contact, arm_plan, arm_wiring
from bench.procedures.arm_contact import ContactWay
from bench.procedures.arm_motion import sampled
from bench.procedures.arm_mover import LATE_S, ArmMover
from bench.procedures.arm_plan import ArmControl, Pose
from bench.profile import ArmFeedForward, ArmRig, SpecimenProfile
from bench.profile.procedure_arm import WrenchCheckProcedure

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording
    from bench.station_arm import ArmStation

#: After the joints began to creep the phase begins so much later [s]: friction has turned round by then.
CREPT_S = 0.4


@dataclass(frozen=True)
class Plan:
    """Pressing with several forces in plain numbers: SI."""

    control: ArmControl
    way: ContactWay
    forces_n: Pose
    creep: Pose
    settle_s: float
    hold_s: float
    replicates: int
    specimen: SpecimenProfile

    @property
    def level_s(self) -> float:
        """How long one force is pressed with [s]."""
        return self.settle_s + CREPT_S + self.hold_s

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        control, way = self.control, self.way
        there = control.move(control.start, way.hover).duration_s
        pressing = way.approach_s + len(self.forces_n) * self.level_s + way.retreat_s(self.forces_n[-1]) + 0.5
        one = control.baseline_s + self.hold_s + pressing
        return arm_plan.OVERHEAD_S + control.checks_s + 2.0 * there + self.replicates * one

    def path(self, rate_hz: float) -> ArmPath:
        """Return the whole way, for the check before anything moves."""
        control, way = self.control, self.way
        there, back = control.move(control.start, way.hover), control.move(way.hover, control.start)
        seconds = len(self.forces_n) * self.level_s
        return ArmPath.joined(
            [
                *control.checks_path(rate_hz),
                sampled(there, "moving above the phantom", rate_hz),
                *way.pressing(self.forces_n[-1], seconds, "check", rate_hz),
                sampled(back, "moving back to the start", rate_hz),
            ]
        )


def plan(
    rig: ArmRig,
    procedure: WrenchCheckProcedure,
    specimen: SpecimenProfile,
    feedforward: ArmFeedForward | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves; raises as :func:`arm_contact.contact_way`."""
    where = arm_plan.place(procedure, specimen)
    control = arm_plan.control_of(rig, procedure, specimen, feedforward, where)
    way = arm_contact.contact_way(rig, procedure, specimen, control, where)
    surface = way.rail.place(0.0)[0]
    creep = arm_contact.creeping(
        control.knowledge.model, surface, np.array(way.forces), procedure.creep_speed.to("rad/s")
    )
    return Plan(
        control=control,
        way=way,
        forces_n=tuple(force.to("N") for force in procedure.forces),
        creep=tuple(float(speed) for speed in creep),
        settle_s=procedure.settle.to("s"),
        hold_s=procedure.hold_time.to("s"),
        replicates=procedure.replicates,
        specimen=specimen,
    )


def run(station: ArmStation, recording: ArmRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    control, way = plan.control, plan.way
    mover = ArmMover(recording, control)
    mover.begin()
    arm_wiring.check_joints(mover, station.rig, plan.specimen)
    mover.move(way.hover, "moving above the phantom")
    recording.force_ticks(True)
    number, sense = 0, 1.0
    for replicate in range(1, plan.replicates + 1):
        free = mover.hold(plan.hold_s, "hovering")
        recording.phase("free", replicate, math.nan, free.start_s, free.end_s)
        sensor = arm_contact.zeroed(mover, way, control.baseline_s, "standing above the phantom")
        press = arm_contact.pressing(recording, mover, way, sensor, switch=True)
        for force in plan.forces_n:
            number += 1
            label = f"pressing {force:g} N"
            press.aim(force, plan.level_s, creep=sense * np.array(plan.creep), settle_s=plan.settle_s)
            done = mover.press(press, way.search_s + plan.level_s + LATE_S, label)
            recording.phase("press", number, math.nan, done.end_s - plan.hold_s, done.end_s)
            sense = -sense
        arm_contact.retreat(mover, way, press, "check")
    recording.force_ticks(False)
    mover.park()
