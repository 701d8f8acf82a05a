"""Virtual channels of the simulated device: how a terminal's true signal becomes the numbers a client reads."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.twin.devices.nidaqmx_values import Code, DaqmxError, Kind
from bench.twin.interfaces import Floats, SignalBus
from bench.twin.noise import ChannelNoise

VOLTAGE_RANGES = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)
"""The converter's bipolar input ranges [V]; a channel gets the smallest that holds its limits."""
OUTPUT_RANGE_V = 10.0

Spans = Iterable[tuple[int, int, int]]
Codes = NDArray[np.int64]


@dataclass
class Channel:
    """What all channels have: ``name`` (virtual), ``physical`` (``Dev1/ai0``), and settable attributes."""

    name: str
    physical: str
    kind: Kind
    usage: int
    attributes: dict[str, float | int | str] = field(default_factory=dict)

    @property
    def terminal(self) -> str:
        """The terminal without the device, as the signal bus names it."""
        return self.physical.split("/", 1)[1]

    def resources(self) -> tuple[str, ...]:
        """What a running task with this channel keeps from others."""
        return (self.terminal,)

    def verify(self) -> None:
        """Raise :class:`DaqmxError` when the channel's settings are beyond the device."""


@dataclass
class AnalogIn(Channel):
    """An analog input. The reading is ``offset + slope * electrical``, electrical in V or, on a bridge, in mV/V.

    :func:`digitise` takes the electrical value plus the converter's own noise, rounds it to ``2**bits`` steps over the
    range and clips at the ends, as the device would.
    """

    minimum: float = -10.0
    maximum: float = 10.0
    slope: float = 1.0
    offset: float = 0.0
    bridge: bool = False
    bits: int = 16
    noise_rms: float = 0.0
    noise: ChannelNoise | None = None
    step: float = math.nan  # electrical size of one step of the converter; known once verified

    def resources(self) -> tuple[str, ...]:
        return ("ai",)  # one converter, one timing engine

    def full_scale(self) -> float:
        """Return the end of the converter's range [V or mV/V]."""
        wanted: float = max(abs((limit - self.offset) / self.slope) for limit in (self.minimum, self.maximum))
        if self.bridge:
            return wanted
        for end in VOLTAGE_RANGES:
            if end >= wanted * (1 - 1e-9):
                return end
        return math.nan

    def verify(self) -> None:
        if not self.minimum < self.maximum:
            raise DaqmxError(Code.INVALID_VALUE, f"{self.physical}: minimum {self.minimum:g}, maximum {self.maximum:g}")
        if math.isnan(self.full_scale()):
            raise DaqmxError(
                Code.INVALID_VALUE,
                f"{self.physical}: {self.minimum:g} V to {self.maximum:g} V asked for\n"
                f"Maximum Value: {VOLTAGE_RANGES[-1]:.1f}\nMinimum Value: {-VOLTAGE_RANGES[-1]:.1f}",
            )
        self.step = 2 * self.full_scale() / float(2**self.bits)

    def sample(self, bus: SignalBus, tick: int, count: int, stride: int) -> Floats:
        """Return what the converter sees, noise included, in V or mV/V."""
        electrical = bus.analog(self.terminal, tick, count, stride)
        if self.noise is not None and self.noise_rms > 0:
            return electrical + self.noise_rms * self.noise.normal(tick, count, stride)
        return electrical


def digitise(channels: Sequence[AnalogIn], bus: SignalBus, spans: Spans) -> Codes:
    """Return the raw integers (n_channels, n_samples) of the samples at ``spans`` of (first tick, count, stride)."""
    spans = list(spans)
    electrical = np.empty((len(channels), sum(count for _, count, _ in spans)))
    for row, channel in zip(electrical, channels, strict=True):
        at = 0
        for tick, count, stride in spans:
            row[at : at + count] = channel.sample(bus, tick, count, stride)
            at += count
    electrical /= np.array([channel.step for channel in channels])[:, None]
    half = 2 ** (channels[0].bits - 1)
    return np.clip(np.rint(electrical, out=electrical), -half, half - 1, out=electrical).astype(np.int64)


def readings(channels: Sequence[AnalogIn], codes: Codes) -> Floats:
    """Return the readings (n_channels, n_samples) in the channels' units from raw integers."""
    steps = np.array([[channel.slope * channel.step] for channel in channels])
    return np.array([[channel.offset] for channel in channels]) + steps * codes


@dataclass
class Encoder(Channel):
    """A quadrature encoder on a counter: whole edges since the task was armed, times the size of one edge."""

    edges_per_pulse: int = 4
    per_pulse: float = 1.0
    initial: float = 0.0
    ticks: bool = False
    zero: int = 0

    def counts(self, bus: SignalBus, spans: Spans) -> Codes:
        """Return counted edges (n_samples,) at the samples at ``spans`` of (first tick, count, stride)."""
        quarters = np.concatenate([bus.encoder(self.terminal, *span) for span in spans])
        # The bus carries quarter pulses (X4); X2 counts every second and X1 every fourth of those edges.
        return np.floor(quarters * (self.edges_per_pulse / 4)).astype(np.int64)

    def arm(self, bus: SignalBus, tick: int) -> None:
        """Load the counter: the position now reads ``initial``."""
        self.zero = int(self.counts(bus, [(tick, 1, 1)])[0])

    def raw(self, bus: SignalBus, spans: Spans) -> Codes:
        """Return edges since :meth:`arm`."""
        return self.counts(bus, spans) - self.zero

    def scaled(self, counts: Codes) -> Floats:
        """Return positions in the channel's units."""
        size = 1.0 if self.ticks else self.per_pulse / self.edges_per_pulse
        return self.initial + size * counts.astype(np.float64)


@dataclass
class DigitalLines(Channel):
    """One or more lines of one port, read or written on demand.

    An input reads the line. Its ``tristate`` (the driver's default) makes a line that is driven let go of its level;
    without it, a read leaves the line as it is. An output reads back what it drives, whatever is on the line.
    """

    lines: tuple[str, ...] = ()
    tristate: bool = True

    def resources(self) -> tuple[str, ...]:
        return self.lines

    def read(self, bus: SignalBus) -> list[bool]:
        """Return the lines' levels now."""
        if self.kind is Kind.DO:
            return [bus.driven(line) for line in self.lines]
        if self.tristate:
            for line in self.lines:
                bus.let_go(line)
        return [bus.digital(line) for line in self.lines]

    def write(self, bus: SignalBus, levels: Iterable[bool]) -> None:
        """Drive the lines."""
        for line, level in zip(self.lines, levels, strict=True):
            bus.set_digital(line, bool(level))

    def shifts(self) -> list[int]:
        """Return each line's bit in an integer read or written: its place in the port."""
        return [int(line.rsplit("line", 1)[1]) for line in self.lines]


@dataclass
class AnalogOut(Channel):
    """A voltage output, written on demand."""

    minimum: float = -OUTPUT_RANGE_V
    maximum: float = OUTPUT_RANGE_V
    bits: int = 16

    def verify(self) -> None:
        if not (-OUTPUT_RANGE_V <= self.minimum < self.maximum <= OUTPUT_RANGE_V):
            raise DaqmxError(
                Code.INVALID_VALUE,
                f"{self.physical}: {self.minimum:g} V to {self.maximum:g} V asked for\n"
                f"Maximum Value: {OUTPUT_RANGE_V:.1f}\nMinimum Value: {-OUTPUT_RANGE_V:.1f}",
            )

    def write(self, bus: SignalBus, volts: float) -> None:
        """Put ``volts`` out, rounded to the converter's step."""
        if not self.minimum <= volts <= self.maximum:
            raise DaqmxError(
                Code.AO_RANGE, f"{self.physical}: {volts:g} V, the channel takes {self.minimum:g} to {self.maximum:g} V"
            )
        step = 2 * OUTPUT_RANGE_V / 2**self.bits
        bus.set_analog(self.terminal, float(np.rint(volts / step) * step))
