"""The rig profile: which instruments a rig has, how they are wired, what they may do, when they were calibrated."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from bench.profile.fields import (
    Acceleration,
    AnalogInput,
    AnyQuantity,
    BridgeRatio,
    Counter,
    DeviceName,
    DigitalLine,
    Frequency,
    HostPort,
    Length,
    Name,
    PositiveForce,
    PositiveLength,
    PositiveTorque,
    Profile,
    Resistance,
    Section,
    Sections,
    Speed,
    Stiffness,
    Text,
    Time,
    Voltage,
)
from bench.profile.problem import Issue
from bench.profile.prompt import Prompt
from bench.profile.stop import LONGEST_STOP_S, stop_issues
from bench.units import Value, article, kinds_of

#: Instrument → kinds its certificate may state a range in.
CERTIFIED = {
    "force_sensor": ("force", "torque"),
    "encoder": ("length",),
    "stage": ("length", "speed"),
    "daq": ("voltage", "bridge_ratio"),
}


class StageProfile(Section):
    """The motorised linear axis. Positions count from home, positive into the specimen."""

    driver: Literal["zaber_ascii"]
    port: str
    baud: int = Field(default=115200, gt=0)
    device_address: int = Field(default=1, ge=1, le=99)
    axis: int = Field(default=1, ge=1, le=9)
    microstep_size: PositiveLength
    speed_scale: float = Field(default=1.6384, gt=0)
    serial_number: str | None = None
    travel_min: Length
    travel_max: Length
    max_speed: Speed
    acceleration: Acceleration
    home_offset: Length = Value(0.0, "mm", "length")

    def comparisons(self) -> Iterator[Issue]:
        yield from ordered(self.travel_min, self.travel_max, "travel_min", "travel_max")


class DaqProfile(Section):
    """The data-acquisition device. ``server`` names a gRPC device server; without it the local driver is used."""

    driver: Literal["nidaqmx"]
    device: DeviceName
    server: HostPort | None = None
    serial_number: str | None = None
    sample_rate: Frequency
    buffer: Time = Value(10.0, "s", "time")
    rpc_deadline: Time = Value(5.0, "s", "time")


class AtiSensorProfile(Section):
    """A six-axis force/torque sensor read as gauge voltages and converted by the maker's ``.cal`` file."""

    driver: Literal["ati_cal"]
    channels: tuple[AnalogInput, ...] = Field(min_length=1)
    calibration_file: Text
    serial_number: str | None = None
    pressing_axis: Literal["Fx", "Fy", "Fz"] = "Fz"
    sign: Literal[-1, 1]
    capacity: PositiveForce
    torque_capacity: PositiveTorque | None = None
    voltage_range: Voltage = Value(10.0, "V", "voltage")
    terminal: Literal["differential", "rse", "nrse"] = "differential"


class LoadCellProfile(Section):
    """A single-axis load cell on a bridge input."""

    driver: Literal["load_cell"]
    channel: AnalogInput
    capacity: PositiveForce
    sensitivity: BridgeRatio
    excitation: Voltage
    nominal_resistance: Resistance
    bridge: Literal["full", "half", "quarter"] = "full"
    bridge_range: BridgeRatio = Value(4.0, "mV/V", "bridge_ratio")
    sign: Literal[-1, 1]
    serial_number: str | None = None

    @property
    def channels(self) -> tuple[str, ...]:
        """The one channel, in the shape a multi-channel sensor has it."""
        return (self.channel,)

    def comparisons(self) -> Iterator[Issue]:
        if self.bridge_range.to("mV/V") < self.sensitivity.to("mV/V"):
            yield Issue(
                "bridge_range", f'"{self.bridge_range}"', f"at least the sensitivity, {self.sensitivity}",
                "The cell would saturate the input below its capacity",
            )  # fmt: skip


class EncoderProfile(Section):
    """The linear encoder on a counter; ``distance_per_pulse`` is one full signal period."""

    counter: Counter
    distance_per_pulse: PositiveLength
    decoding: Literal["X1", "X2", "X4"] = "X4"
    direction: Literal[-1, 1] = 1


class SafetyProfile(Section):
    """What the limits gate and the supervisor hold the rig to.

    A program that is not heard of within ``watchdog_timeout`` loses the enable line; ``stop_time`` is the rig's word
    for how long its power may stay on, at the longest, once the program is gone or hangs, whatever it was doing.
    """

    estop_line: DigitalLine
    estop_healthy: Literal["high", "low"] = "high"
    enable_line: DigitalLine
    force_limit: PositiveForce
    torque_limit: PositiveTorque | None = None
    travel_limit_min: Length
    travel_limit_max: Length
    speed_limit: Speed
    approach_speed_limit: Speed | None = None
    watchdog_timeout: Time = Value(1.0, "s", "time")
    stop_time: Time = Value(2.0, "s", "time")

    def comparisons(self) -> Iterator[Issue]:
        yield from ordered(self.travel_limit_min, self.travel_limit_max, "travel_limit_min", "travel_limit_max")
        yield from stop_issues(self.watchdog_timeout, self.stop_time, LONGEST_STOP_S)
        if self.approach_speed_limit and self.approach_speed_limit.to("mm/s") > self.speed_limit.to("mm/s"):
            yield Issue(
                "approach_speed_limit", f'"{self.approach_speed_limit}"', f"at most speed_limit, {self.speed_limit}"
            )


class FrameProfile(Section):
    """The stiffness of everything between encoder and indenter tip, and where it is known from."""

    stiffness: Stiffness
    expanded_uncertainty: Stiffness
    source: Text

    def comparisons(self) -> Iterator[Issue]:
        if self.expanded_uncertainty.to("N/mm") >= self.stiffness.to("N/mm"):
            yield Issue(
                "expanded_uncertainty", f'"{self.expanded_uncertainty}"', f"less than the stiffness, {self.stiffness}"
            )


class CalibrationProfile(Section):
    """One calibration certificate: for which instrument, by whom, valid until when and over which range."""

    instrument: Literal["force_sensor", "torque_transducer", "encoder", "stage", "drive", "daq"]
    certificate: Text
    laboratory: Text
    serial_number: str
    issued: date
    due: date
    range_min: AnyQuantity
    range_max: AnyQuantity
    expanded_uncertainty: AnyQuantity
    coverage_factor: float = Field(default=2.0, gt=0)

    def comparisons(self) -> Iterator[Issue]:
        if self.due <= self.issued:
            yield Issue("due", str(self.due), f"a day after it was issued, {self.issued}", "Are the two dates swapped?")
        kind = self.range_min.kind
        if self.range_max.kind != kind:
            given = f'"{self.range_max}", {article(self.range_max.kind)}'
            yield Issue("range_max", given, f"{article(kind)} as range_min is")
        else:
            yield from ordered(self.range_min, self.range_max, "range_min", "range_max")
        if kind not in kinds_of(self.expanded_uncertainty.unit) and self.expanded_uncertainty.unit != "%":
            given = f'"{self.expanded_uncertainty}"'
            yield Issue("expanded_uncertainty", given, f"{article(kind)} as range_min is, or a share in %")

    def expired(self, today: date) -> bool:
        """Return whether ``today`` lies after the due date; the due day itself still counts."""
        return today > self.due


class RigProfile(Profile):
    """What every rig has. ``kind`` says which model the file is read as."""

    schema_id: Literal["bench.rig/1"] = Field(alias="schema")
    name: Name
    kind: str
    description: str = ""
    daq: DaqProfile
    calibrations: tuple[CalibrationProfile, ...] = ()
    prompts: tuple[Prompt, ...] = ()

    def expired(self, today: date) -> list[CalibrationProfile]:
        """Return the certificates whose due date lies before ``today``."""
        return [certificate for certificate in self.calibrations if certificate.expired(today)]

    def calibration_path(self) -> Path | None:
        """Return the sensor maker's calibration file, resolved beside the profile; None where there is none."""
        return None


class IndenterRig(RigProfile):
    """An indenter: stage, DAQ, force sensor, encoder, limits, frame, certificates."""

    kind: Literal["indenter"]
    stage: StageProfile
    force_sensor: Annotated[AtiSensorProfile | LoadCellProfile, Field(discriminator="driver")]
    encoder: EncoderProfile
    safety: SafetyProfile
    frame: FrameProfile

    def comparisons(self) -> Iterator[Issue]:
        yield from certificate_issues(self.calibrations, CERTIFIED)

    def calibration_path(self) -> Path | None:
        """Return the ``.cal`` file, resolved beside the profile; None for a sensor without one."""
        if isinstance(self.force_sensor, AtiSensorProfile):
            return self.source.path.parent / self.force_sensor.calibration_file
        return None

    @classmethod
    def cross_checks(cls, sections: Sections) -> Iterator[Issue]:
        stage, safety = sections.get(StageProfile), sections.get(SafetyProfile)
        sensor = sections.get(AtiSensorProfile) or sections.get(LoadCellProfile)
        yield from _terminals(sections)
        if stage and safety:
            yield from _limits_inside(stage, safety)
        if sensor and safety:
            yield from _limits_measurable(sensor, safety)


def certificate_issues(
    calibrations: Sequence[CalibrationProfile], certified: Mapping[str, tuple[str, ...]]
) -> Iterator[Issue]:
    """Yield certificates of instruments this kind of rig has not, or over a range of another kind than theirs."""
    for i, certificate in enumerate(calibrations):
        kinds = certified.get(certificate.instrument)
        if kinds is None:
            due = f"an instrument of this kind of rig: {', '.join(certified)}"
            yield Issue(f"calibrations[{i}].instrument", f'"{certificate.instrument}"', due)
        elif certificate.range_min.kind not in kinds:
            given = f'"{certificate.range_min}", {article(certificate.range_min.kind)}'
            due = f"{' or '.join(article(kind) for kind in kinds)}, for it is the certificate of the "
            due += certificate.instrument.replace("_", " ")
            yield Issue(f"calibrations[{i}].range_min", given, due)


def ordered(low: Value, high: Value, low_key: str, high_key: str) -> Iterator[Issue]:
    """Yield the issue of a lower bound that is not below its upper one."""
    if low.to(high.unit) >= high.magnitude:
        yield Issue(low_key, f'"{low}"', f"less than {high_key}, {high}", "Are the two reversed?")


def _limits_inside(stage: StageProfile, safety: SafetyProfile) -> Iterator[Issue]:
    low, high = stage.travel_min.to("mm"), stage.travel_max.to("mm")
    for key in ("travel_limit_min", "travel_limit_max"):
        limit: Value = getattr(safety, key)
        if not low <= limit.to("mm") <= high:
            span = f"within the stage's travel, {stage.travel_min} to {stage.travel_max}"
            yield Issue(f"safety.{key}", f'"{limit}"', span)
    if safety.speed_limit.to("mm/s") > stage.max_speed.to("mm/s"):
        yield Issue(
            "safety.speed_limit", f'"{safety.speed_limit}"', f"at most the stage's max_speed, {stage.max_speed}"
        )


def _limits_measurable(sensor: AtiSensorProfile | LoadCellProfile, safety: SafetyProfile) -> Iterator[Issue]:
    why = "A saturated sensor cannot see the limit it guards"
    if safety.force_limit.to("N") > sensor.capacity.to("N"):
        due = f"at most the sensor's capacity, {sensor.capacity}"
        yield Issue("safety.force_limit", f'"{safety.force_limit}"', due, why)
    if safety.torque_limit is None:
        return
    key, given = "safety.torque_limit", f'"{safety.torque_limit}"'
    if isinstance(sensor, LoadCellProfile):
        yield Issue(key, given, "no torque limit, for a load cell measures no torque", "Remove the key")
    elif sensor.torque_capacity and safety.torque_limit.to("N.m") > sensor.torque_capacity.to("N.m"):
        yield Issue(key, given, f"at most the sensor's torque_capacity, {sensor.torque_capacity}", why)


def _terminals(sections: Sections) -> Iterator[Issue]:
    """Yield terminals that are used twice or belong to another device than the rig's."""
    used: list[tuple[str, str]] = []
    if ati := sections.get(AtiSensorProfile):
        used += [(f"force_sensor.channels[{i}]", channel) for i, channel in enumerate(ati.channels)]
    if cell := sections.get(LoadCellProfile):
        used.append(("force_sensor.channel", cell.channel))
    if encoder := sections.get(EncoderProfile):
        used.append(("encoder.counter", encoder.counter))
    if safety := sections.get(SafetyProfile):
        used += [("safety.estop_line", safety.estop_line), ("safety.enable_line", safety.enable_line)]
    yield from terminal_issues(used, sections.get(DaqProfile))


def terminal_issues(used: list[tuple[str, str]], daq: DaqProfile | None) -> Iterator[Issue]:
    """Yield terminals among ``used`` (key, terminal) that are named twice or lie on another device than ``daq``."""
    places: dict[str, list[str]] = defaultdict(list)
    for key, terminal in used:
        if places[terminal.lower()]:
            first = places[terminal.lower()][0]
            yield Issue(key, f'"{terminal}"', "a terminal that nothing else uses", f"{first} has it already")
        places[terminal.lower()].append(key)
    for key, terminal in used if daq else ():
        device = terminal.partition("/")[0]
        # a module in a chassis is named after it: cDAQ1 → cDAQ1Mod1
        if daq and not re.fullmatch(rf"{re.escape(daq.device)}(Mod\d+)?", device, re.IGNORECASE):
            yield Issue(key, f'"{terminal}"', f'a terminal of daq.device, "{daq.device}"')
