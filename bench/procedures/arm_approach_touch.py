"""Approach, touch, press, hold, retreat: how the contact force rises, overshoots and settles.

Phases: ``without_switch``, the gains of free air throughout, and ``with_switch``, gains switched at contact and the
wanted force fed forward; one per replicate, each beginning in free air.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from bench.models.arm_path import ArmPath
from bench.procedures import arm_contact, arm_plan, arm_wiring
from bench.procedures.arm_contact import ContactWay
from bench.procedures.arm_motion import sampled
from bench.procedures.arm_mover import LATE_S, ArmMover
from bench.procedures.arm_plan import ArmControl
from bench.profile import ArmFeedForward, ArmRig, SpecimenProfile
from bench.profile.procedure_arm import ApproachTouchProcedure

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording
    from bench.station_arm import ArmStation

MODES = ("without_switch", "with_switch")


@dataclass(frozen=True)
class Plan:
    """Touches in plain numbers: SI."""

    control: ArmControl
    way: ContactWay
    force_n: float
    hold_s: float
    replicates: int
    specimen: SpecimenProfile

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        control, way = self.control, self.way
        there = control.move(control.start, way.hover).duration_s
        one = control.baseline_s + way.approach_s + self.hold_s + way.retreat_s(self.force_n) + 0.5
        return arm_plan.OVERHEAD_S + control.checks_s + 2.0 * there + len(MODES) * self.replicates * one

    def path(self, rate_hz: float) -> ArmPath:
        """Return the whole way, for the check before anything moves; every touch is the same."""
        control, way = self.control, self.way
        there, back = control.move(control.start, way.hover), control.move(way.hover, control.start)
        return ArmPath.joined(
            [
                *control.checks_path(rate_hz),
                sampled(there, "moving above the phantom", rate_hz),
                *way.pressing(self.force_n, self.hold_s, "touch", rate_hz),
                sampled(back, "moving back to the start", rate_hz),
            ]
        )


def plan(
    rig: ArmRig,
    procedure: ApproachTouchProcedure,
    specimen: SpecimenProfile,
    feedforward: ArmFeedForward | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves; raises as :func:`arm_contact.contact_way`."""
    where = arm_plan.place(procedure, specimen)
    control = arm_plan.control_of(rig, procedure, specimen, feedforward, where)
    way = arm_contact.contact_way(rig, procedure, specimen, control, where)
    return Plan(
        control, way, procedure.force.to("N"), procedure.hold_time.to("s"), procedure.replicates, specimen
    )  # fmt: skip


def run(station: ArmStation, recording: ArmRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    control, way = plan.control, plan.way
    mover = ArmMover(recording, control)
    mover.begin()
    arm_wiring.check_joints(mover, station.rig, plan.specimen)
    mover.move(way.hover, "moving above the phantom")
    recording.force_ticks(True)
    for replicate in range(1, plan.replicates + 1):
        for mode in MODES:
            label = f"{mode.replace('_', ' ')}, touch {replicate} of {plan.replicates}"
            sensor = arm_contact.zeroed(mover, way, control.baseline_s, f"{label}: standing above")
            press = arm_contact.pressing(recording, mover, way, sensor, mode == "with_switch")
            press.aim(plan.force_n, plan.hold_s)
            done = mover.press(press, way.search_s + plan.hold_s + LATE_S, f"{label}: approaching and pressing")
            recording.phase(mode, replicate, math.nan, press.start_s, done.end_s)
            recording.event(
                "info",
                "contact",
                f"{label}: contact at {press.touched_s:.3f} s, pressing {plan.force_n:g} N, {press.force:.2f} N at the "
                f"end, {1e3 * press.place_m:.2f} mm below the nominal surface",
            )
            arm_contact.retreat(mover, way, press, label)
    recording.force_ticks(False)
    mover.park()
