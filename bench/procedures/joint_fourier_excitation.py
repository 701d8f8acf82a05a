"""Excite inertia, gravity and friction together: one Fourier series to identify on, another one to be judged by.

Phases: ``train`` (whole periods of the first series), ``hold_out`` (whole periods of the second, of another base
frequency, other harmonics and another seed). The windows that lead in and out belong to neither.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.procedures import joint_plan, joint_wiring
from bench.procedures.joint_excitation import design
from bench.procedures.joint_loop import JointRecording
from bench.procedures.joint_motion import FourierSeries, rest_to_rest
from bench.procedures.joint_mover import Mover
from bench.procedures.joint_plan import Control
from bench.profile import FeedForwardProfile, JointRig, SpecimenProfile
from bench.profile.procedure_joint import FourierExcitationProcedure
from bench.station import JointStation
from bench.units import Value

#: The held-out series is drawn from another stream than the first.
HOLD_OUT_SEED = 7919


@dataclass(frozen=True)
class Plan:
    """Two excitations in plain numbers."""

    control: Control
    train: FourierSeries
    hold_out: FourierSeries
    replicates: int

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        control = self.control
        way = rest_to_rest(
            control.rest_rad, self.train.centre_rad, speed=control.travel_speed, acceleration=control.acceleration
        )
        one = self.train.duration_s + self.hold_out.duration_s + 2.0 * control.baseline_s
        return joint_plan.OVERHEAD_S + 2.0 * way.duration_s + self.replicates * one


def plan(
    rig: JointRig,
    procedure: FourierExcitationProcedure,
    specimen: SpecimenProfile,
    feedforward: FeedForwardProfile | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        A line lies near a resonance; travel, speed or torque do not fit.
    """
    where = joint_plan.place(procedure, specimen)
    control = joint_plan.control_of(rig, procedure, specimen, feedforward)
    joint_plan.check_common(rig, control, moves=True, mounted=specimen, where=where)
    centre, amplitude = procedure.centre.to("rad"), procedure.amplitude.to("rad")
    speed, acceleration = procedure.max_speed.to("rad/s"), procedure.max_acceleration.to("rad/s2")
    joint_plan.check_travel(rig, centre - amplitude, centre + amplitude, "the excitation", where)
    joint_plan.check_speed(rig, {"max_speed": speed}, where)

    def series(seed: int, base: Value, harmonics: int, periods: int) -> FourierSeries:
        base_hz = base.to("Hz")
        name = "train series" if seed == procedure.seed else "held-out series"
        joint_plan.check_lines(rig, name, [base_hz * (k + 1) for k in range(harmonics)], where)
        made = design(
            seed=seed,
            centre_rad=centre,
            base_hz=base_hz,
            harmonics=harmonics,
            periods=periods,
            amplitude_rad=amplitude,
            max_speed=speed,
            max_acceleration=acceleration,
        )
        reach, _, quickest = made.extremes()
        joint_plan.check_torque(
            control, low=centre - reach, high=centre + reach, acceleration=quickest, where=where, what=f"the {name}"
        )
        return made

    return Plan(
        control,
        series(procedure.seed, procedure.base_frequency, procedure.harmonics, procedure.periods),
        series(
            procedure.seed + HOLD_OUT_SEED,
            procedure.hold_out_base_frequency,
            procedure.hold_out_harmonics,
            procedure.hold_out_periods,
        ),
        procedure.replicates,
    )


def run(station: JointStation, recording: JointRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = Mover(recording, plan.control)
    mover.begin()
    joint_wiring.check_moving(mover)
    mover.move(plan.train.centre_rad, "moving to the centre")
    for number in range(1, plan.replicates + 1):
        for name, series in (("train", plan.train), ("hold_out", plan.hold_out)):
            label = f"{name.replace('_', '-')} excitation {number} of {plan.replicates}"
            mover.hold(plan.control.baseline_s, f"{label}: standing")
            done = mover.follow(series, label, compensated=mover.friction is not None)
            begin, end = series.hold
            recording.phase(name, number, math.nan, done.start_s + begin, done.start_s + end)
    mover.park()
