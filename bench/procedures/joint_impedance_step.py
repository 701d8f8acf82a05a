"""Does the joint move as the inertia, damper and spring it is told to be? Step the set-point and look.

Phases: ``step``, one per direction and replicate, from the step of the set-point on. The controller knows the joint's
inertia and gravity; friction it compensates only with a feed-forward, by a bristle moved along the measured angle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.models.impedance import Impedance
from bench.procedures import joint_plan, joint_wiring
from bench.procedures.joint_control import ImpedanceLaw
from bench.procedures.joint_loop import JointRecording
from bench.procedures.joint_motion import rest_to_rest
from bench.procedures.joint_mover import Mover
from bench.procedures.joint_plan import Control
from bench.profile import FeedForwardProfile, JointRig, SpecimenProfile
from bench.profile.procedure_joint import ImpedanceStepProcedure
from bench.station import JointStation


@dataclass(frozen=True)
class Plan:
    """Impedance steps in plain numbers: rad, s, kg.m2, N.m.s/rad, N.m/rad."""

    control: Control
    law: ImpedanceLaw
    centre_rad: float
    step_rad: float
    record_s: float
    replicates: int

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        control = self.control
        way = rest_to_rest(
            self.centre_rad, self.centre_rad + self.step_rad,
            speed=control.travel_speed, acceleration=control.acceleration,
        )  # fmt: skip
        one = self.record_s + way.duration_s + control.baseline_s
        return joint_plan.OVERHEAD_S + 2 * self.replicates * one


def plan(
    rig: JointRig,
    procedure: ImpedanceStepProcedure,
    specimen: SpecimenProfile,
    feedforward: FeedForwardProfile | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        The first torque of the step, what it makes of the gear's ringing, travel or speed do not fit.
    """
    where = joint_plan.place(procedure, specimen)
    control = joint_plan.control_of(rig, procedure, specimen, feedforward)
    joint_plan.check_common(rig, control, moves=True, mounted=specimen, where=where)
    model = control.model
    wanted = Impedance(
        procedure.inertia.to("kg.m2"), procedure.damping.to("N.m.s/rad"), procedure.stiffness.to("N.m/rad")
    )
    made = Plan(
        control=control,
        law=ImpedanceLaw(model.inertia, wanted.inertia, wanted.damping, wanted.stiffness),
        centre_rad=procedure.centre.to("rad"),
        step_rad=procedure.step.to("rad"),
        record_s=procedure.record_time.to("s"),
        replicates=procedure.replicates,
    )
    reach = made.step_rad * (1.0 + wanted.overshoot)
    low, high = made.centre_rad - reach, made.centre_rad + reach
    joint_plan.check_travel(rig, low, high, "the step with its overshoot", where)
    # A bound of the peak speed: all of the spring's energy in the inertia, nothing lost in the damper.
    joint_plan.check_speed(rig, {"the step's speed": made.step_rad * wanted.natural_frequency}, where)
    jump = made.law.torque(made.step_rad, 0.0)
    holding = model.largest_gravity(low, high)
    joint_plan.refuse_torque(
        control, (jump + holding + control.friction_nm) / model.torque_scale, "the step", where,
        f"spring {jump:.3g}, gravity {holding:.3g}, friction {control.friction_nm:.3g}",
    )  # fmt: skip
    # A sudden torque on rotor and link with a spring between: the spring swings to twice what moves the link.
    ringing = 2.0 * jump * model.link_inertia / model.inertia + holding
    joint_plan.refuse_torque(control, ringing, "the step, as the gear rings,", where)
    return made


def run(station: JointStation, recording: JointRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = Mover(recording, plan.control)
    mover.begin()
    joint_wiring.check_moving(mover)
    number = 0
    for replicate in range(1, plan.replicates + 1):
        for direction in (1.0, -1.0):
            number += 1
            label = f"step {'up' if direction > 0 else 'down'}, replicate {replicate} of {plan.replicates}"
            mover.move(plan.centre_rad, f"{label}: moving to the centre")
            mover.hold(plan.control.baseline_s, f"{label}: standing")
            goal = plan.centre_rad + direction * plan.step_rad
            done = mover.render(goal, plan.law, plan.record_s, label)
            recording.phase("step", number, math.nan, done.start_s, done.end_s)
    mover.park()
