"""The profile of an arm rig: mechanics, servos on one bus, tool, wrist force/torque sensor, control loop, limits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.arm import ORIGIN, STRAIGHT, Angles3, ArmJointProfile, ArmMechanics, BodyProfile, Point
from bench.profile.fields import (
    DigitalLine,
    Frequency,
    NonNegativeTime,
    PositiveForce,
    PositiveLength,
    PositiveTorque,
    Quantity,
    Section,
    Sections,
    Speed,
    Temperature,
    Text,
    Time,
)
from bench.profile.problem import Issue
from bench.profile.rig import AtiSensorProfile, DaqProfile, RigProfile, certificate_issues, terminal_issues
from bench.profile.stop import loop_issues, stop_issues
from bench.units import Value

Current = Annotated[Value, Quantity("current", above="0")]
#: The servos' own watchdog must trip well before somebody is hurt, and not between two ticks of the loop.
LONGEST_WATCHDOG_S = 0.25
LEAST_WATCHDOG_TICKS = 5
#: An arm's power is off at the latest after this once its program is gone [s].
LONGEST_STOP_S = 1.0
#: The bus watchdog of these servos counts in steps of this length [s].
WATCHDOG_STEP_S = 0.02
#: What these servos can be set to [bit/s]; the two fastest are of the P series alone.
BAUD_RATES = (9600, 57600, 115200, 1000000, 2000000, 3000000, 4000000, 4500000, 6000000, 10500000)
#: A servo that makes more than this many times its joint's peak torque has its torque constant in other units.
MOST_REACH = 10.0
#: Instrument → kinds its certificate may state a range in.
CERTIFIED = {
    "force_sensor": ("force", "torque"),
    "drive": ("torque", "angle", "current"),
    "daq": ("voltage",),
}


class ArmBusProfile(Section):
    """The serial bus all servos hang on."""

    driver: Literal["dynamixel"]
    port: Text
    baud: int = Field(default=1000000, gt=0)
    return_delay: NonNegativeTime = Value(0.0, "us", "time")
    reply_deadline: Time = Value(10.0, "ms", "time")
    watchdog: Time = Value(100.0, "ms", "time")
    fast_sync_read: bool = True

    def comparisons(self) -> Iterator[Issue]:
        if self.baud not in BAUD_RATES:
            yield Issue("baud", str(self.baud), f"one the servos know, {', '.join(map(str, BAUD_RATES))}")
        watchdog = self.watchdog.to("s")
        if watchdog > LONGEST_WATCHDOG_S:
            yield Issue(
                "watchdog", f'"{self.watchdog}"', f"at most {LONGEST_WATCHDOG_S * 1e3:g} ms",
                "The servos would go on too long after their host is gone",
            )  # fmt: skip
        steps = watchdog / WATCHDOG_STEP_S
        if abs(steps - round(steps)) > 1e-6:
            yield Issue("watchdog", f'"{self.watchdog}"', "a whole multiple of 20 ms, the servos' own step")
        if self.reply_deadline.to("s") > watchdog:
            yield Issue("reply_deadline", f'"{self.reply_deadline}"', f"at most the watchdog, {self.watchdog}")

    def tick_s(self, servos: int) -> float:
        """Return the least time [s] that reading and commanding ``servos`` servos takes on the wire."""
        asked, told = 14 + servos, 14 + 3 * servos
        answered = 8 + 14 * servos if self.fast_sync_read else 21 * servos
        delay_s = (1 if self.fast_sync_read else servos) * self.return_delay.to("s")
        # ten bits a byte: start and stop bit
        return 10.0 * (asked + answered + told) / self.baud + delay_s


class ServoProfile(Section):
    """One servo: its id on the bus, its model, where its encoder stands when its axis is at zero."""

    id: int = Field(ge=0, le=252)
    model: Literal[
        "PH54-200-S500", "PH54-100-S500", "PH42-020-S300", "XM540-W270", "XM540-W150", "XM430-W350", "XM430-W210",
        "XH540-W270", "XH540-W150",
    ]  # fmt: skip
    serial_number: str | None = None
    zero_count: int = 0
    max_current: Current


class WristSensorProfile(AtiSensorProfile):
    """The six-axis sensor between flange and tool; its frame is given in the flange's."""

    position: Point = ORIGIN
    angles: Angles3 = STRAIGHT


class ToolProfile(BodyProfile):
    """What is mounted beyond the sensor, given in the sensor's frame; ``tip`` is the point that touches."""

    tip: Point
    tip_radius: PositiveLength = Value(5.0, "mm", "length")


class WorkspaceProfile(Section):
    """Where tip and joints may be, and how far from a singularity the arm stays.

    ``least_singular_value`` is of the tip's Jacobian, its rotations made lengths by ``characteristic_length`` [m/rad].
    """

    box_min: Point
    box_max: Point
    least_singular_value: PositiveLength = Value(20.0, "mm", "length")
    characteristic_length: PositiveLength = Value(200.0, "mm", "length")
    max_deflection: PositiveLength = Value(5.0, "mm", "length")

    def comparisons(self) -> Iterator[Issue]:
        for axis, low, high in zip("xyz", self.box_min, self.box_max, strict=True):
            if low.to("m") >= high.to("m"):
                yield Issue("box_min", f'{axis} = "{low}"', f"less than that of box_max, {high}")


class ArmLoopProfile(Section):
    """The clocked control loop: its rate, how many ticks in a row may be missed, how often the DAQ is drained."""

    rate: Frequency = Value(250.0, "Hz", "frequency")
    max_missed: int = Field(default=10, ge=1)
    drain: Time = Value(100.0, "ms", "time")


class ArmSafetyProfile(Section):
    """What the limits gate, the preflight and the supervisor hold the arm to.

    ``enable_line`` feeds the motors; ``brake_line`` (high: open), in series with it, the brakes. The safety factors
    divide rated and peak torque of every joint. ``force_limit`` and ``torque_limit`` are of the wrist sensor, tool
    weight taken off. ``watchdog_timeout`` and ``stop_time`` as in :class:`~bench.profile.rig.SafetyProfile`.
    """

    estop_line: DigitalLine
    estop_healthy: Literal["high", "low"] = "high"
    enable_line: DigitalLine
    brake_line: DigitalLine
    brake_time: NonNegativeTime = Value(100.0, "ms", "time")
    force_limit: PositiveForce
    torque_limit: PositiveTorque
    temperature_limit: Temperature
    tip_speed_limit: Speed = Value(0.5, "m/s", "speed")
    safety_factor_rated: float = Field(default=1.5, ge=1.0)
    safety_factor_peak: float = Field(default=2.0, ge=1.0)
    watchdog_timeout: Time = Value(100.0, "ms", "time")
    stop_time: Time = Value(500.0, "ms", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from stop_issues(self.watchdog_timeout, self.stop_time, LONGEST_STOP_S)
        if not -40.0 < self.temperature_limit.to("degC") <= 120.0:
            yield Issue("temperature_limit", f'"{self.temperature_limit}"', "above -40 degC and at most 120 degC")


class ArmRig(RigProfile):
    """A serial arm with a wrist force/torque sensor."""

    kind: Literal["arm"]
    arm: ArmMechanics
    bus: ArmBusProfile
    servos: tuple[ServoProfile, ...] = Field(min_length=1)
    wrist_sensor: WristSensorProfile
    tool: ToolProfile
    workspace: WorkspaceProfile
    loop: ArmLoopProfile = ArmLoopProfile()
    safety: ArmSafetyProfile

    def calibration_path(self) -> Path | None:
        """Return the wrist sensor's ``.cal`` file, resolved beside the profile."""
        return self.source.path.parent / self.wrist_sensor.calibration_file

    def urdf_path(self) -> Path | None:
        """Return the URDF file, resolved beside the profile; None where there is none."""
        return None if self.arm.urdf is None else self.source.path.parent / self.arm.urdf

    def comparisons(self) -> Iterator[Issue]:
        yield from certificate_issues(self.calibrations, CERTIFIED)
        joints, servos = self.arm.joints, self.servos
        if len(servos) != len(joints):
            yield Issue("servos", f"{len(servos)} servos", f"{len(joints)}, one of each joint of [arm], in their order")
        ids = [servo.id for servo in servos]
        for index, servo in enumerate(servos):
            if ids.index(servo.id) != index:
                first = ids.index(servo.id)
                yield Issue(f"servos[{index}].id", str(servo.id), "an id of its own", f"servos[{first}] has it already")
        for index, (servo, joint) in enumerate(zip(servos, joints, strict=False)):
            yield from _drive_issues(index, servo, joint)
        period_s, busy_s = 1.0 / self.loop.rate.to("Hz"), self.bus.tick_s(len(servos))
        if busy_s > period_s:
            given = f'"{self.loop.rate}"'
            due = f"at most {1.0 / busy_s:.0f} Hz with {len(servos)} servos at bus.baud, {self.bus.baud}"
            yield Issue("loop.rate", given, due, f"Reading and commanding them takes {busy_s * 1e3:.3g} ms on the wire")

    @classmethod
    def cross_checks(cls, sections: Sections) -> Iterator[Issue]:
        safety, sensor = sections.get(ArmSafetyProfile), sections.get(WristSensorProfile)
        bus, loop, daq = sections.get(ArmBusProfile), sections.get(ArmLoopProfile), sections.get(DaqProfile)
        used: list[tuple[str, str]] = []
        if sensor:
            used += [(f"wrist_sensor.channels[{i}]", channel) for i, channel in enumerate(sensor.channels)]
        if safety:
            used += [(f"safety.{key}", getattr(safety, key)) for key in ("estop_line", "enable_line", "brake_line")]
        yield from terminal_issues(used, daq)
        why = "A saturated sensor cannot see the limit it guards"
        if safety and sensor and safety.force_limit.to("N") > sensor.capacity.to("N"):
            due = f"at most the sensor's capacity, {sensor.capacity}"
            yield Issue("safety.force_limit", f'"{safety.force_limit}"', due, why)
        capacity = sensor.torque_capacity if sensor else None
        if safety and capacity and safety.torque_limit.to("N.m") > capacity.to("N.m"):
            due = f"at most the sensor's torque_capacity, {capacity}"
            yield Issue("safety.torque_limit", f'"{safety.torque_limit}"', due, why)
        if bus and loop and bus.watchdog.to("s") * loop.rate.to("Hz") < LEAST_WATCHDOG_TICKS:
            due = f"at least {LEAST_WATCHDOG_TICKS} ticks of loop.rate, {loop.rate}"
            yield Issue("bus.watchdog", f'"{bus.watchdog}"', due, "It would trip between two commands")
        if bus and loop and loop.max_missed / loop.rate.to("Hz") >= bus.watchdog.to("s"):
            due = f"fewer ticks than bus.watchdog lasts, {bus.watchdog} at loop.rate, {loop.rate}"
            yield Issue("loop.max_missed", str(loop.max_missed), due, "The servos would have stopped by themselves")
        if safety and loop and bus:
            times = (safety.watchdog_timeout, safety.stop_time, loop.rate, loop.drain, bus.watchdog)
            yield from loop_issues(*times, "bus.watchdog")
        if daq and loop:
            yield from _drained(daq, loop)


def _drive_issues(index: int, servo: ServoProfile, joint: ArmJointProfile) -> Iterator[Issue]:
    if joint.torque_constant is None:
        yield Issue(f"arm.joints[{index}].torque_constant", "nothing", "the motor's, for its servo takes currents")
        return
    reach = servo.max_current.to("A") * joint.torque_constant.to("N.m/A") * joint.gear_ratio
    rated = joint.number("rated_torque") or 0.0
    if reach < rated:
        due = f"enough for joints[{index}].rated_torque, {joint.rated_torque}"
        why = f"It makes {reach:g} N.m at the joint. Are gear ratio and torque constant right?"
        yield Issue(f"servos[{index}].max_current", f'"{servo.max_current}"', due, why)
    most = MOST_REACH * (joint.number("peak_torque") or rated)
    if reach > most > 0.0:
        borne = "rated_torque" if joint.peak_torque is None else "peak_torque"
        due = f"at most {MOST_REACH:g} times joints[{index}].{borne}, {getattr(joint, borne)}"
        why = f"It makes {reach:g} N.m at the joint. Are gear ratio and torque constant right?"
        yield Issue(f"servos[{index}].max_current", f'"{servo.max_current}"', due, why)


def _drained(daq: DaqProfile, loop: ArmLoopProfile) -> Iterator[Issue]:
    if 2.0 * loop.drain.to("s") > daq.buffer.to("s"):
        due = f"at most half of daq.buffer, {daq.buffer}"
        yield Issue("loop.drain", f'"{loop.drain}"', due, "Samples would be overwritten before they are read")
    samples = daq.sample_rate.to("Hz") * loop.drain.to("s")
    if abs(samples - round(samples)) > 1e-9 or samples < 2:
        yield Issue("loop.drain", f'"{loop.drain}"', f"a whole number of samples of daq.sample_rate, {daq.sample_rate}")
