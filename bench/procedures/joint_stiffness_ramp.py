"""Stiffness of the gear: with the output locked, torque goes slowly up and down between both ends.

Phases: ``ramp``, one per replicate: zero to +torque, to -torque, back to zero, with a dwell at both ends.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.procedures import joint_plan, joint_wiring
from bench.procedures.joint_loop import JointRecording
from bench.procedures.joint_motion import TorqueWave
from bench.procedures.joint_mover import Mover
from bench.procedures.joint_plan import Control
from bench.profile import FeedForwardProfile, JointRig, SpecimenProfile
from bench.profile.procedure_joint import StiffnessRampProcedure
from bench.station import JointStation


@dataclass(frozen=True)
class Plan:
    """A stiffness ramp in plain numbers: N.m, N.m/s, s."""

    control: Control
    torque_nm: float
    rate: float
    dwell_s: float
    replicates: int

    @property
    def wave(self) -> TorqueWave:
        return TorqueWave([self.torque_nm, -self.torque_nm, 0.0], self.rate, self.dwell_s)

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        return joint_plan.OVERHEAD_S + 2.0 * self.control.baseline_s + self.replicates * self.wave.duration_s


def plan(
    rig: JointRig,
    procedure: StiffnessRampProcedure,
    specimen: SpecimenProfile,
    feedforward: FeedForwardProfile | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        The output is not locked, or the torque is more than rig and lock bear.
    """
    where = joint_plan.place(procedure, specimen)
    control = joint_plan.control_of(rig, procedure, specimen, feedforward)
    joint_plan.check_common(rig, control, moves=False, mounted=specimen, where=where)
    made = Plan(
        control,
        procedure.torque.to("N.m"),
        procedure.rate.to("N.m/s"),
        procedure.dwell.to("s"),
        procedure.replicates,
    )
    joint_plan.refuse_torque(control, made.torque_nm / control.model.torque_scale, "the ramp", where)
    return made


def run(station: JointStation, recording: JointRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = Mover(recording, plan.control)
    mover.begin()
    joint_wiring.check_locked(mover)
    reach = joint_wiring.locked_reach(mover, plan.torque_nm)
    rest = TorqueWave([0.0], 1.0)
    mover.push(rest, "standing without torque", reach_rad=reach, fade_s=plan.control.baseline_s)
    for number in range(1, plan.replicates + 1):
        label = f"ramp {number} of {plan.replicates} to {plan.torque_nm:g} N.m"
        done, push = mover.push(plan.wave, label, reach_rad=reach)
        recording.phase("ramp", number, math.nan, done.start_s, done.end_s)
        if push.left:
            raise joint_wiring.not_locked(push.peak_rad, plan.torque_nm, label)
    mover.push(rest, "standing without torque", reach_rad=reach, fade_s=plan.control.baseline_s)
