"""The profile of a single-joint rig: drive, gear, torque transducer, joint encoder, control loop, limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from bench.profile.fields import (
    AnalogInput,
    Angle,
    AngularSpeed,
    Counter,
    DigitalLine,
    Frequency,
    Inertia,
    NonNegativeTime,
    PositiveTorque,
    RotationalStiffness,
    Section,
    Sections,
    Temperature,
    Time,
    TorqueSensitivity,
    Voltage,
)
from bench.profile.problem import Issue
from bench.profile.rig import (
    DaqProfile,
    RigProfile,
    certificate_issues,
    ordered,
    terminal_issues,
)
from bench.profile.stop import loop_issues, stop_issues
from bench.units import Value

#: The drive's own watchdog must trip well before somebody is hurt, and not between two ticks of the loop.
LONGEST_WATCHDOG_S = 0.25
LEAST_WATCHDOG_TICKS = 5
#: Instrument → kinds its certificate may state a range in.
CERTIFIED = {
    "torque_transducer": ("torque",),
    "encoder": ("angle",),
    "drive": ("torque", "angle", "current"),
    "daq": ("voltage",),
}


class JointDriveProfile(Section):
    """The motor drive. Its registers hold the rotor: ``gear_ratio`` rotor revolutions are one of the joint.

    ``direction`` -1 where a positive rotor angle turns the joint clockwise. Torques ending in ``_motor`` are the
    rotor's.
    """

    driver: Literal["moteus"]
    port: str
    baud: int = Field(default=4000000, gt=0)
    device_id: int = Field(default=1, ge=1, le=126)
    checksum: bool = False
    serial_number: str | None = None
    direction: Literal[-1, 1] = 1
    gear_ratio: float = Field(gt=0)
    max_motor_torque: PositiveTorque
    watchdog: Time = Value(100.0, "ms", "time")
    reply_deadline: Time = Value(20.0, "ms", "time")

    def comparisons(self) -> Iterator[Issue]:
        if self.watchdog.to("s") > LONGEST_WATCHDOG_S:
            yield Issue(
                "watchdog", f'"{self.watchdog}"', f"at most {LONGEST_WATCHDOG_S * 1e3:g} ms",
                "The drive would go on too long after its host is gone",
            )  # fmt: skip
        if self.reply_deadline.to("s") > self.watchdog.to("s"):
            yield Issue(
                "reply_deadline", f'"{self.reply_deadline}"', f"at most the watchdog, {self.watchdog}",
                "The drive would have given up before its reply is missed",
            )  # fmt: skip


class TorqueTransducerProfile(Section):
    """The inline torque transducer on an analog input; ``sensitivity`` is torque per volt."""

    channel: AnalogInput
    sensitivity: TorqueSensitivity
    capacity: PositiveTorque
    sign: Literal[-1, 1] = 1
    voltage_range: Voltage = Value(10.0, "V", "voltage")
    terminal: Literal["differential", "rse", "nrse"] = "differential"
    serial_number: str | None = None

    def comparisons(self) -> Iterator[Issue]:
        reach = self.sensitivity.to("N.m/V") * self.voltage_range.to("V")
        if reach < self.capacity.to("N.m"):
            yield Issue(
                "voltage_range", f'"{self.voltage_range}"', f"enough for the capacity, {self.capacity}",
                f"At {self.sensitivity} the input would saturate at {reach:g} N.m",
            )  # fmt: skip


class JointEncoderProfile(Section):
    """The encoder on the joint's output, on a counter; ``direction`` -1 where it counts down counter-clockwise.

    ``start_angle`` is the joint's angle at power-up: where the load comes to rest, or a mark.
    """

    counter: Counter
    pulses_per_revolution: int = Field(gt=0)
    decoding: Literal["X1", "X2", "X4"] = "X4"
    direction: Literal[-1, 1] = 1
    start_angle: Angle = Value(0.0, "rad", "angle")
    serial_number: str | None = None


class JointProfile(Section):
    """What is known of the joint itself: ratings, nominal figures, resonances to stay away from."""

    rated_torque: PositiveTorque
    peak_torque: PositiveTorque
    motor_inertia: Inertia
    stiffness: RotationalStiffness
    resonances: tuple[Frequency, ...] = ()
    resonance_margin: float = Field(default=0.3, gt=0, lt=1)
    bandwidth: Frequency

    def comparisons(self) -> Iterator[Issue]:
        yield from ordered(self.rated_torque, self.peak_torque, "rated_torque", "peak_torque")


class LoopProfile(Section):
    """The clocked control loop: its rate, and how many ticks in a row may be missed before the run is ended."""

    rate: Frequency = Value(500.0, "Hz", "frequency")
    max_missed: int = Field(default=10, ge=1)
    drain: Time = Value(100.0, "ms", "time")


class JointSafetyProfile(Section):
    """What the limits gate and the supervisor hold the joint to; torque and speed are the joint's, not the rotor's.

    ``watchdog_timeout`` and ``stop_time`` as in :class:`~bench.profile.rig.SafetyProfile`.
    """

    estop_line: DigitalLine
    estop_healthy: Literal["high", "low"] = "high"
    enable_line: DigitalLine
    torque_limit: PositiveTorque
    speed_limit: AngularSpeed
    travel_limit_min: Angle
    travel_limit_max: Angle
    temperature_limit: Temperature
    brake_time: NonNegativeTime = Value(100.0, "ms", "time")
    watchdog_timeout: Time = Value(100.0, "ms", "time")
    stop_time: Time = Value(250.0, "ms", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from ordered(self.travel_limit_min, self.travel_limit_max, "travel_limit_min", "travel_limit_max")
        yield from stop_issues(self.watchdog_timeout, self.stop_time, LONGEST_WATCHDOG_S)
        if not -40.0 < self.temperature_limit.to("degC") <= 120.0:
            yield Issue("temperature_limit", f'"{self.temperature_limit}"', "above -40 degC and at most 120 degC")


class JointRig(RigProfile):
    """One actuated joint: drive, gear, inline torque transducer, joint encoder."""

    kind: Literal["single_joint"]
    drive: JointDriveProfile
    torque_transducer: TorqueTransducerProfile
    encoder: JointEncoderProfile
    joint: JointProfile
    loop: LoopProfile = LoopProfile()
    safety: JointSafetyProfile

    def comparisons(self) -> Iterator[Issue]:
        yield from certificate_issues(self.calibrations, CERTIFIED)

    @classmethod
    def cross_checks(cls, sections: Sections) -> Iterator[Issue]:
        drive, safety = sections.get(JointDriveProfile), sections.get(JointSafetyProfile)
        joint, loop = sections.get(JointProfile), sections.get(LoopProfile)
        transducer, encoder = sections.get(TorqueTransducerProfile), sections.get(JointEncoderProfile)
        daq = sections.get(DaqProfile)
        used: list[tuple[str, str]] = []
        if transducer:
            used.append(("torque_transducer.channel", transducer.channel))
        if encoder:
            used.append(("encoder.counter", encoder.counter))
        if safety:
            used += [("safety.estop_line", safety.estop_line), ("safety.enable_line", safety.enable_line)]
        yield from terminal_issues(used, daq)
        if safety and transducer and safety.torque_limit.to("N.m") > transducer.capacity.to("N.m"):
            due = f"at most the transducer's capacity, {transducer.capacity}"
            why = "A saturated transducer cannot see the limit it guards"
            yield Issue("safety.torque_limit", f'"{safety.torque_limit}"', due, why)
        if safety and joint and safety.torque_limit.to("N.m") > joint.peak_torque.to("N.m"):
            due = f"at most joint.peak_torque, {joint.peak_torque}"
            yield Issue("safety.torque_limit", f'"{safety.torque_limit}"', due)
        if drive and loop and drive.watchdog.to("s") * loop.rate.to("Hz") < LEAST_WATCHDOG_TICKS:
            due = f"at least {LEAST_WATCHDOG_TICKS} ticks of loop.rate, {loop.rate}"
            yield Issue("drive.watchdog", f'"{drive.watchdog}"', due, "It would trip between two commands")
        if safety and loop and drive:
            times = (safety.watchdog_timeout, safety.stop_time, loop.rate, loop.drain, drive.watchdog)
            yield from loop_issues(*times, "drive.watchdog")
        if safety and encoder:
            yield from _start_inside(safety, encoder)
        if drive and joint:
            yield from _torque_reached(drive, joint)
        if daq and loop:
            yield from _drained_whole_and_in_time(daq, loop)
        if daq and joint and 2.0 * joint.bandwidth.to("Hz") >= daq.sample_rate.to("Hz"):
            due = f"less than half of daq.sample_rate, {daq.sample_rate}"
            yield Issue("joint.bandwidth", f'"{joint.bandwidth}"', due)


def _start_inside(safety: JointSafetyProfile, encoder: JointEncoderProfile) -> Iterator[Issue]:
    low, high = safety.travel_limit_min, safety.travel_limit_max
    if not low.to("rad") <= encoder.start_angle.to("rad") <= high.to("rad"):
        due = f"within the travel limits, {low} to {high}"
        yield Issue("encoder.start_angle", f'"{encoder.start_angle}"', due)


def _torque_reached(drive: JointDriveProfile, joint: JointProfile) -> Iterator[Issue]:
    reach = drive.max_motor_torque.to("N.m") * drive.gear_ratio
    if reach < joint.rated_torque.to("N.m"):
        due = f"with gear_ratio {drive.gear_ratio:g} enough for joint.rated_torque, {joint.rated_torque}"
        why = f"It makes {reach:g} N.m at the joint. Is the gear ratio right, and is this the rotor's torque?"
        yield Issue("drive.max_motor_torque", f'"{drive.max_motor_torque}"', due, why)


def _drained_whole_and_in_time(daq: DaqProfile, loop: LoopProfile) -> Iterator[Issue]:
    if 2.0 * loop.drain.to("s") > daq.buffer.to("s"):
        due = f"at most half of daq.buffer, {daq.buffer}"
        yield Issue("loop.drain", f'"{loop.drain}"', due, "Samples would be overwritten before they are read")
    samples = daq.sample_rate.to("Hz") * loop.drain.to("s")
    if abs(samples - round(samples)) > 1e-9 or samples < 2:
        yield Issue("loop.drain", f'"{loop.drain}"', f"a whole number of samples of daq.sample_rate, {daq.sample_rate}")
