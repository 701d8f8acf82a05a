"""Channels by the names and options a client gives: ``Dev1/ai0:5``, units, limits, bridge and encoder scaling."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from bench.twin.devices.nidaqmx_channels import AnalogIn, AnalogOut, DigitalLines, Encoder
from bench.twin.devices.nidaqmx_task import Task
from bench.twin.devices.nidaqmx_values import (
    DECODING,
    DEGREES,
    FORCE_N,
    FULL_BRIDGE,
    INCHES,
    METRES,
    MV_PER_V,
    ONE_CHANNEL_FOR_ALL_LINES,
    RADIANS,
    TICKS,
    TORQUE_NM,
    USAGE_ANGULAR_ENCODER,
    USAGE_BRIDGE,
    USAGE_FORCE_BRIDGE,
    USAGE_LINEAR_ENCODER,
    USAGE_VOLTAGE,
    VOLTS,
    Code,
    DaqmxError,
    Kind,
)
from bench.twin.noise import ChannelNoise


def expand(text: str) -> list[str]:
    """Return the names a channel string stands for: ``Dev1/ai0:2, Dev1/ai5`` → four names; ranges may fall."""
    names: list[str] = []
    for part in (piece.strip() for piece in text.split(",")):
        match = re.fullmatch(r"(?P<base>.*?)(?P<first>\d+):(?P<again>.*?)(?P<last>\d+)", part)
        if match is None or match["again"] not in ("", match["base"]):
            names += [part] if part else []
            continue
        first, last = int(match["first"]), int(match["last"])
        step = 1 if last >= first else -1
        names += [f"{match['base']}{number}" for number in range(first, last + step, step)]
    return names


@dataclass(frozen=True)
class Settings:
    """What the simulated device is. Noise is the converter's own (standard deviation, V and mV/V)."""

    device: str = "Dev1"
    product_type: str = "PCIe-6363"
    serial_number: int = 0x01B0_7E57
    bits: int = 16
    noise_v: float = 0.0
    noise_mv_v: float = 0.0
    seed: int = 0


class Creator:
    """Makes channels and puts them into tasks."""

    def __init__(self, settings: Settings, terminals: dict[str, str]) -> None:
        self.settings = settings
        self.terminals = terminals

    def physical(self, text: str, pattern: str) -> list[str]:
        """Return the physical channels ``text`` names, each existing and matching ``pattern``.

        Raises
        ------
        DaqmxError
            Unknown device (-200220), unknown channel (-200170) or a channel of another type (-200430).
        """
        names = expand(text)
        if not names:
            raise DaqmxError(Code.NO_SUCH_CHANNEL, "no physical channel is named")
        for name in names:
            device, _, terminal = name.partition("/")
            if device.lower() != self.settings.device.lower():
                raise DaqmxError(Code.NO_SUCH_DEVICE, f"Device Specified: {device}")
            if terminal not in self.terminals:
                known = ", ".join(sorted(self.terminals))
                raise DaqmxError(
                    Code.NO_SUCH_CHANNEL, f"Device: {device}\n\nPhysical Channel Name: {terminal}\n\nThere are: {known}"
                )
            if re.fullmatch(pattern, terminal) is None:
                raise DaqmxError(Code.CHANNEL_TYPE, f"Physical Channel Name: {name}")
        return [f"{self.settings.device}/{name.partition('/')[2]}" for name in names]

    def names(self, physical: list[str], assigned: str) -> list[str]:
        """Return the virtual names: as assigned, numbered when there are many, or the physical names."""
        if not assigned:
            return physical
        return [assigned] if len(physical) == 1 else [f"{assigned}{index}" for index in range(len(physical))]

    def voltage(self, task: Task, text: str, assigned: str, minimum: float, maximum: float, units: int) -> None:
        """Add voltage inputs."""
        if units != VOLTS:
            raise DaqmxError(Code.INVALID_VALUE, f"units {units}: custom scales are not simulated")
        physical = self.physical(text, r"ai\d+")
        for name, channel in zip(self.names(physical, assigned), physical, strict=True):
            terminal = channel.partition("/")[2]
            if self.terminals[terminal] == "bridge":
                raise DaqmxError(Code.CHANNEL_TYPE, f"{channel} is wired to a bridge; measure a bridge on it")
            self._analog(task, AnalogIn(name, channel, Kind.AI, USAGE_VOLTAGE, minimum=minimum, maximum=maximum))

    def bridge(
        self,
        task: Task,
        text: str,
        assigned: str,
        limits: tuple[float, float],
        units: int,
        *,
        usage: int = USAGE_BRIDGE,
        configuration: int = FULL_BRIDGE,
        excitation: float = 0.0,
        points: tuple[float, float, float, float] | None = None,
        electrical_units: int = 15897,
        physical_units: int = 0,
    ) -> None:
        """Add full bridges: a ratio, or with ``points`` (two electrical, two physical values) force or torque."""
        if configuration != FULL_BRIDGE:
            raise DaqmxError(
                Code.INVALID_VALUE, f"bridge configuration {configuration}: only full bridges are simulated"
            )
        if not 0 < excitation <= 12:
            raise DaqmxError(Code.INVALID_VALUE, f"bridge excitation {excitation:g} V; expected above 0 up to 12 V")
        slope, offset = self._line(usage, units, points, electrical_units, physical_units)
        physical = self.physical(text, r"ai\d+")
        for name, channel in zip(self.names(physical, assigned), physical, strict=True):
            if self.terminals[channel.partition("/")[2]] != "bridge":
                raise DaqmxError(Code.CHANNEL_TYPE, f"{channel} is a voltage input, no bridge")
            analog = AnalogIn(
                name,
                channel,
                Kind.AI,
                usage,
                minimum=limits[0],
                maximum=limits[1],
                slope=slope,
                offset=offset,
                bridge=True,
            )
            analog.attributes["AI_EXCIT_VAL"] = excitation
            self._analog(task, analog)

    def _line(
        self,
        usage: int,
        units: int,
        points: tuple[float, float, float, float] | None,
        electrical_units: int,
        physical_units: int,
    ) -> tuple[float, float]:
        """Return slope and offset of reading against mV/V."""
        if points is None:
            if units not in MV_PER_V:
                raise DaqmxError(Code.INVALID_VALUE, f"units {units}; expected V/V or mV/V")
            return 1 / MV_PER_V[units], 0.0
        scale = FORCE_N if usage == USAGE_FORCE_BRIDGE else TORQUE_NM
        if units not in scale or physical_units not in scale or electrical_units not in MV_PER_V:
            raise DaqmxError(Code.INVALID_VALUE, f"units {units}, {electrical_units}, {physical_units}")
        first, second = (value * MV_PER_V[electrical_units] for value in points[:2])
        low, high = (value * scale[physical_units] / scale[units] for value in points[2:])
        if first == second or low == high:
            raise DaqmxError(Code.INVALID_VALUE, f"two-point scale through {points}: the points coincide")
        slope = (high - low) / (second - first)
        return slope, low - slope * first

    def _analog(self, task: Task, channel: AnalogIn) -> None:
        channel.bits = self.settings.bits
        channel.noise_rms = self.settings.noise_mv_v if channel.bridge else self.settings.noise_v
        channel.noise = ChannelNoise(self.settings.seed, f"adc/{channel.terminal}")
        task.add(channel)

    def encoder(
        self,
        task: Task,
        text: str,
        assigned: str,
        decoding: int,
        z_index: bool,
        units: int,
        per_pulse: float,
        initial: float,
        *,
        angular: bool,
    ) -> None:
        """Add a quadrature encoder; ``per_pulse`` is in ``units`` (linear) or a number of pulses per turn (angular)."""
        if decoding not in DECODING:
            raise DaqmxError(Code.INVALID_VALUE, f"decoding {decoding}: X1, X2 and X4 are simulated")
        if z_index:
            raise DaqmxError(Code.INVALID_VALUE, "Z index: not simulated")
        turn = {DEGREES: 360.0, RADIANS: 2 * math.pi, TICKS: 1.0}
        if units not in (turn if angular else (METRES, INCHES, TICKS)) or not per_pulse > 0:
            raise DaqmxError(Code.INVALID_VALUE, f"units {units}, {per_pulse:g} per pulse")
        physical = self.physical(text, r"ctr\d+")
        for name, channel in zip(self.names(physical, assigned), physical, strict=True):
            encoder = Encoder(
                name,
                channel,
                Kind.CI,
                USAGE_ANGULAR_ENCODER if angular else USAGE_LINEAR_ENCODER,
                edges_per_pulse=DECODING[decoding],
                per_pulse=turn[units] / per_pulse if angular else per_pulse,
                initial=initial,
                ticks=units == TICKS,
            )
            encoder.attributes.update(CI_ENCODER_DECODING_TYPE=decoding, UNITS=units)
            task.add(encoder)

    def digital(self, task: Task, text: str, assigned: str, grouping: int, *, output: bool) -> None:
        """Add digital lines, one channel a line or one for all; ``Dev1/port0`` stands for all its lines."""
        names = []
        for name in expand(text):
            port = name.partition("/")[2]
            lines = [terminal for terminal in self.terminals if terminal.startswith(f"{port}/line")]
            whole = re.fullmatch(r"port\d+", port) is not None and bool(lines)
            names += [f"{name}/{line.partition('/')[2]}" for line in lines] if whole else [name]
        physical = self.physical(",".join(names), r"port\d+/line\d+")
        if output:
            for name in physical:
                if self.terminals[name.partition("/")[2]] == "digital_in":
                    raise DaqmxError(Code.CHANNEL_TYPE, f"{name} is wired as an input")
        kind = Kind.DO if output else Kind.DI
        if grouping == ONE_CHANNEL_FOR_ALL_LINES:
            groups = [physical]
            given = expand(text)
            virtual = [assigned or (given[0] if len(given) == 1 else f"{given[0]}...")]  # as the driver names it
        else:
            groups = [[name] for name in physical]
            virtual = self.names(physical, assigned)
        for name, group in zip(virtual, groups, strict=True):
            lines_of = tuple(line.partition("/")[2] for line in group)
            task.add(DigitalLines(name, group[0], kind, 0, lines=lines_of))

    def voltage_out(self, task: Task, text: str, assigned: str, minimum: float, maximum: float, units: int) -> None:
        """Add voltage outputs."""
        if units != VOLTS:
            raise DaqmxError(Code.INVALID_VALUE, f"units {units}: custom scales are not simulated")
        physical = self.physical(text, r"ao\d+")
        for name, channel in zip(self.names(physical, assigned), physical, strict=True):
            task.add(
                AnalogOut(
                    name, channel, Kind.AO, USAGE_VOLTAGE, minimum=minimum, maximum=maximum, bits=self.settings.bits
                )
            )
