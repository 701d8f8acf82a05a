"""Friction over speed: warm up, slide at constant speeds both ways, then push below breakaway.

Phases as they stand in the archive::

    warm_up     to and fro at one speed; the drive's temperature is recorded
    sweep       one per speed and direction (replicate = running number, signed speed): constant speed, settled
    breakaway   torque triangles below breakaway, each larger than the last, with the position left free

Slow and fast speeds take turns, and so does the direction that goes first: a joint that warms up on the way must not
look like one whose friction depends on speed. A slow speed is reached from a quicker one in the same direction, so that
bristles and gear lie on the right side before it counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bench.errors import LimitError
from bench.procedures import joint_plan, joint_wiring
from bench.procedures.joint_loop import JointRecording
from bench.procedures.joint_motion import Strokes, TorqueWave, ramp_time, rest_to_rest
from bench.procedures.joint_mover import Mover
from bench.procedures.joint_plan import Control
from bench.profile import FeedForwardProfile, JointRig, SpecimenProfile
from bench.profile.procedure_joint import FrictionSweepProcedure
from bench.station import JointStation

#: Slower speeds are reached from this one [rad/s], after this long [s].
RUN_IN_SPEED = 0.05
RUN_IN_S = 0.3
#: How long a speed is held before it counts [s]: slow ones have a controller's error to work off.
SETTLE_SLOW_S = 0.5
SETTLE_S = 0.3
#: A phase of constant speed shorter than this tells nothing [s].
SHORTEST_S = 0.2
#: The first pushes are smaller than the last by up to this share.
SMALLER_PUSHES = 0.5
#: What was held fades away over this, before the first push [s].
FADE_S = 0.5
#: A push that moves the motor further than this has broken it away [rad].
PUSH_REACH_RAD = 0.05


@dataclass(frozen=True)
class Stroke:
    """One constant speed in one direction; angles in rad, speeds with sign in rad/s, times in s."""

    number: int
    start_rad: float
    speed: float
    legs: tuple[tuple[float, float], ...]
    settle_s: float

    def motion(self, acceleration: float) -> Strokes:
        return Strokes(self.start_rad, self.legs, acceleration)


@dataclass(frozen=True)
class Plan:
    """A friction sweep in plain numbers."""

    control: Control
    centre_rad: float
    warm_up: tuple[tuple[float, float], ...]
    strokes: tuple[Stroke, ...]
    push_nm: tuple[float, ...]
    push_rate: float
    duration_s: float


def plan(
    rig: JointRig,
    procedure: FrictionSweepProcedure,
    specimen: SpecimenProfile,
    feedforward: FeedForwardProfile | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        Something does not fit: travel, speed, torque, what is mounted.
    """
    where = joint_plan.place(procedure, specimen)
    control = joint_plan.control_of(rig, procedure, specimen, feedforward)
    joint_plan.check_common(rig, control, moves=True, mounted=specimen, where=where)
    centre, amplitude = procedure.centre.to("rad"), procedure.amplitude.to("rad")
    joint_plan.check_travel(rig, centre - amplitude, centre + amplitude, "the sweep", where)
    speeds = [speed.to("rad/s") for speed in procedure.speeds]
    warm_speed = procedure.warm_up_speed.to("rad/s")
    joint_plan.check_speed(rig, {"the fastest of speeds": speeds[-1], "warm_up_speed": warm_speed}, where)
    joint_plan.check_torque(
        control, low=centre - amplitude, high=centre + amplitude, acceleration=control.acceleration, where=where
    )
    push = procedure.breakaway_torque.to("N.m")
    joint_plan.refuse_torque(control, push + control.model.largest_gravity(centre, centre), "the push", where)
    cycles = procedure.breakaway_cycles
    strokes: list[Stroke] = []
    order: list[float] = []
    for turn in range(procedure.replicates):
        taking_turns = alternating(speeds)
        order += taking_turns if turn % 2 == 0 else taking_turns[::-1]
    for i, speed in enumerate(order):
        hold = hold_time(procedure, control, speed, amplitude, where)
        for direction in (1.0, -1.0) if i % 2 == 0 else (-1.0, 1.0):
            legs, settle = _legs(direction * speed, hold)
            length = Strokes(0.0, legs, control.acceleration).end_rad
            strokes.append(Stroke(len(strokes) + 1, centre - 0.5 * length, direction * speed, legs, settle))
    made = Plan(
        control=control,
        centre_rad=centre,
        warm_up=warm_up_legs(warm_speed, amplitude, procedure.warm_up_time.to("s"), control.acceleration),
        strokes=tuple(strokes),
        push_nm=tuple(push * (1.0 - SMALLER_PUSHES * (cycles - 1 - k) / cycles) for k in range(cycles)),
        push_rate=procedure.breakaway_rate.to("N.m/s"),
        duration_s=0.0,
    )
    return replace(made, duration_s=_duration(made))


def alternating(speeds: list[float]) -> list[float]:
    """Slowest, fastest, second slowest, second fastest ...: speed does not go with time."""
    rest, taken = list(speeds), []
    while rest:
        taken.append(rest.pop(0))
        if rest:
            taken.append(rest.pop())
    return taken


def hold_time(procedure: FrictionSweepProcedure, control: Control, speed: float, amplitude: float, where: str) -> float:
    """How long a speed is held to be measured [s]: as asked for, or as long as the amplitude allows at fast ones."""
    least = procedure.least_travel.to("rad") / speed
    wanted = max(procedure.segment_time.to("s"), least)
    legs, _ = _legs(speed, 0.0)
    room = 2.0 * amplitude - Strokes(0.0, legs, control.acceleration).end_rad
    hold = min(wanted, room / speed)
    if hold < max(least, SHORTEST_S) * (1 - 1e-9):
        raise LimitError(
            f"at {speed:g} rad/s an amplitude of {amplitude:g} rad leaves {max(hold, 0.0):.2f} s of constant speed, "
            f"{max(least, SHORTEST_S):.2f} s are needed",
            reason="travel_limit",
            where=where,
            remedy="Ask for more amplitude or acceleration, or leave this speed out.",
        )
    return hold


def _legs(speed: float, hold_s: float) -> tuple[tuple[tuple[float, float], ...], float]:
    """Legs of a stroke (the last is the one that counts) and how long that one settles [s]."""
    if abs(speed) >= RUN_IN_SPEED:
        return ((speed, SETTLE_S + hold_s),), SETTLE_S
    run_in = RUN_IN_SPEED if speed > 0 else -RUN_IN_SPEED
    return ((run_in, RUN_IN_S), (speed, SETTLE_SLOW_S + hold_s)), SETTLE_SLOW_S


def warm_up_legs(speed: float, amplitude: float, time_s: float, acceleration: float) -> tuple[tuple[float, float], ...]:
    """Legs to and fro about the centre, where they begin, that fill about ``time_s`` inside the amplitude."""
    if time_s == 0.0:
        return ()
    turn = ramp_time(2.0 * speed, acceleration)
    # A turn goes on by speed * turn / pi before it comes back.
    hold = 2.0 * max(amplitude - speed * turn / math.pi, 0.0) / speed
    count = max(2, round(time_s / (hold + turn)) + 1)  # the first and the last are half ones
    legs = [(speed if k % 2 == 0 else -speed, hold) for k in range(count)]
    up = ramp_time(speed, acceleration)
    legs[0] = (speed, max(0.5 * hold - 0.5 * up, 0.0))
    legs[-1] = (legs[-1][0], max(0.5 * hold - 0.5 * up, 0.0))
    return tuple(legs)


def _duration(made: Plan) -> float:
    control = made.control
    total = joint_plan.OVERHEAD_S + control.baseline_s
    angle = control.rest_rad
    motions = [Strokes(made.centre_rad, made.warm_up, control.acceleration)]
    motions += [stroke.motion(control.acceleration) for stroke in made.strokes]
    for motion in motions:
        move = rest_to_rest(angle, motion.start_rad, speed=control.travel_speed, acceleration=control.acceleration)
        total += move.duration_s + motion.duration_s
        angle = motion.end_rad
    return total + FADE_S + sum(4.0 * push / made.push_rate for push in made.push_nm)


def run(station: JointStation, recording: JointRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = Mover(recording, plan.control)
    mover.begin()
    joint_wiring.check_moving(mover)
    if plan.warm_up:
        mover.move(plan.centre_rad, "warming up")
        motion = Strokes(mover.desired_rad, plan.warm_up, plan.control.acceleration)
        done = mover.follow(motion, "warming up")
        recording.phase("warm_up", 1, abs(plan.warm_up[0][0]), done.start_s, done.end_s)
        recording.event("info", "temperature", f"the drive is at {float(done.view.temperature_degc[-1]):.1f} degC")
    for stroke in plan.strokes:
        label = f"stroke {stroke.number} of {len(plan.strokes)} at {stroke.speed:g} rad/s"
        mover.move(stroke.start_rad, f"{label}: moving to its start")
        motion = stroke.motion(plan.control.acceleration)
        done = mover.follow(motion, label)
        begin, end = motion.holds[-1]
        recording.phase(
            "sweep", stroke.number, stroke.speed, done.start_s + begin + stroke.settle_s, done.start_s + end
        )
    mover.move(plan.centre_rad, "moving to the centre")
    _breakaway(recording, mover, plan)
    mover.park()


def _breakaway(recording: JointRecording, mover: Mover, plan: Plan) -> None:
    mover.hold(plan.control.baseline_s, "letting the joint settle")
    for number, torque in enumerate(plan.push_nm, start=1):
        wave = TorqueWave([torque, -torque, 0.0], plan.push_rate)
        label = f"push {number} of {len(plan.push_nm)} to {torque:.3g} N.m"
        done, push = mover.push(wave, label, reach_rad=PUSH_REACH_RAD, fade_s=FADE_S if number == 1 else 0.0)
        recording.phase("breakaway", number, math.nan, done.start_s, done.end_s)
        if push.left:
            recording.event("info", "broken_away", f"{label}: the motor went {push.peak_rad:.3g} rad, friction is less")
            return
