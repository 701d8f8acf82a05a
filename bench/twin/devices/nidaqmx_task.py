"""A task of the simulated device: its channels, its timing, its state, and how samples are read from it.

Everything here runs with the world's lock held.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from bench.twin.devices.nidaqmx_channels import AnalogIn, AnalogOut, Channel, DigitalLines, Encoder, digitise
from bench.twin.devices.nidaqmx_clock import SampleClock
from bench.twin.devices.nidaqmx_values import Code, DaqmxError, Kind, Mode
from bench.twin.interfaces import Participant, SignalBus, World

C = TypeVar("C", bound=Channel)


class State(IntEnum):
    """How far a task has come; each state includes those before."""

    UNVERIFIED = 0
    VERIFIED = 1
    RESERVED = 2
    COMMITTED = 3
    RUNNING = 4


@dataclass
class Timing:
    """When samples are taken."""

    mode: Mode = Mode.ON_DEMAND
    rate: float = 0.0
    stride: int = 1
    samples: int = 1000
    source: str = ""

    @property
    def clocked(self) -> bool:
        return self.mode is not Mode.ON_DEMAND


@dataclass
class Reading:
    """What one read brought: ``data`` (n_channels, n_samples) raw integers, fewer samples than asked on time-out."""

    data: NDArray[np.int64]
    samples: int
    status: int = 0


@dataclass
class Task:
    """One task; ``session`` is its name on the wire, ``name`` what the driver calls it."""

    name: str
    session: str
    world: World
    bus: SignalBus
    channels: list[Channel] = field(default_factory=list)
    timing: Timing = field(default_factory=Timing)
    state: State = State.UNVERIFIED
    rests_at: State = State.VERIFIED
    implicit: bool = False
    clock: SampleClock = field(default_factory=SampleClock)
    position: int = 0
    buffer_size: int | None = None
    overwrite: bool = False
    read_all_available: bool = False
    epoch: int = 0  # grows when the task is stopped, cleared or reset: waits of before end
    overrun: bool = False
    gone: bool = False

    # -- what it is ---------------------------------------------------------------------------------------------------

    @property
    def kind(self) -> Kind | None:
        return self.channels[0].kind if self.channels else None

    @property
    def now_tick(self) -> int:
        return self.world.now_ns // self.world.tick_ns

    def of(self, kind: type[C], code: Code = Code.READ_TYPE) -> list[C]:
        """Return the channels, which must all be of ``kind``."""
        if not self.channels:
            raise self.error(Code.READ_WITHOUT_INPUTS if code is Code.READ_TYPE else Code.NO_CHANNELS)
        found = [channel for channel in self.channels if isinstance(channel, kind)]
        if len(found) != len(self.channels):
            raise self.error(code)
        return found

    def error(self, code: Code, detail: str = "", samples_read: int | None = None) -> DaqmxError:
        """Return an error that names this task."""
        return DaqmxError(code, f"{detail}\n\nTask Name: {self.name}".strip(), samples_read=samples_read)

    def add(self, channel: Channel) -> None:
        """Put a channel into the task."""
        if self.state is State.RUNNING:
            raise self.error(Code.RUNNING)
        if self.channels and self.kind is not channel.kind:
            raise self.error(Code.MIXED_CHANNELS, f"{channel.physical} does not go with {self.channels[0].physical}")
        if channel.kind is Kind.CI and self.channels:
            raise self.error(Code.MULTIPLE_COUNTERS, f"{self.channels[0].physical} and {channel.physical}")
        if any(channel.name == other.name for other in self.channels):
            raise self.error(Code.CHANNEL_TWICE, channel.name)
        self.channels.append(channel)
        self.state = State.UNVERIFIED

    # -- samples ------------------------------------------------------------------------------------------------------

    def buffer(self) -> int:
        """Return how many samples per channel the buffer holds: as set, else by the driver's table for the rate."""
        if self.buffer_size is not None:
            return self.buffer_size
        if not self.timing.clocked:
            return 0
        if self.timing.mode is Mode.FINITE:
            return self.timing.samples
        rate = self.timing.rate
        by_rate = 1_000 if rate <= 100 else 10_000 if rate <= 10_000 else 100_000 if rate <= 1_000_000 else 1_000_000
        return max(by_rate, self.timing.samples)

    def acquired(self) -> int:
        """Return how many samples per channel were taken since the start."""
        taken = self.clock.available(self.now_tick)
        return min(taken, self.timing.samples) if self.timing.mode is Mode.FINITE else taken

    def unread(self) -> int:
        """Return how many samples wait in the buffer."""
        return self.acquired() - self.position

    def done(self) -> bool:
        """Return whether the task is idle or has taken all it was to take."""
        if self.state is not State.RUNNING:
            return True
        return self.timing.mode is Mode.FINITE and self.acquired() >= self.timing.samples

    def wait_done(self, participant: Participant, timeout_s: float) -> None:
        """Wait until the task is done."""
        epoch = self.epoch
        deadline = None if timeout_s < 0 else self.world.now_ns + round(timeout_s * 1e9)
        while not self.done():
            tick = None if self.timing.mode is Mode.CONTINUOUS else self.clock.tick_of(self.timing.samples - 1)
            self._park(participant, tick, deadline, lambda: self.epoch != epoch or self.done())
            if self.epoch != epoch:
                raise self.error(Code.ABORTED)
            if not self.done() and deadline is not None and self.world.now_ns >= deadline:
                raise self.error(Code.NOT_DONE, f"waited {timeout_s:g} s")

    def read(self, participant: Participant, samples: int, timeout_s: float) -> Reading:
        """Read ``samples`` per channel (-1: all there are, or all of a finite task), waiting at most ``timeout_s``."""
        if not self.timing.clocked:
            tick = self.now_tick
            return self._reading([(tick, 1, 1)] * max(1, samples), max(1, samples))
        if samples < 0:
            samples = self.default_samples()
        self._not_overwritten()
        if self.timing.mode is Mode.FINITE and self.position + samples > self.timing.samples:
            samples = self.timing.samples - self.position  # a short read: the last samples of the task
            if samples == 0:
                raise self.error(Code.BEYOND_LAST_SAMPLE, samples_read=0)
        status = 0 if self._wait(participant, self.position + samples, timeout_s) else int(Code.TIMEOUT)
        taken = min(samples, self.unread())
        reading = self._reading(list(self.clock.spans(self.position, taken)), taken)
        self.position += taken
        reading.status = status
        return reading

    def default_samples(self) -> int:
        """Return what reading "all" means now."""
        running = self.state is State.RUNNING
        if self.timing.mode is Mode.FINITE and not self.read_all_available:
            return self.timing.samples - (self.position if running else 0)
        return max(0, self.unread()) if running else 0

    def _not_overwritten(self) -> None:
        if self.overrun or (self.unread() > self.buffer() and not self.overwrite):
            self.overrun = True  # it stays so until the task is started again
            raise self.error(
                Code.OVERWRITTEN, f"{self.unread()} unread samples, the buffer holds {self.buffer()}", samples_read=0
            )
        if self.overwrite:
            self.position = max(self.position, self.acquired() - self.buffer())

    def _wait(self, participant: Participant, count: int, timeout_s: float) -> bool:
        epoch = self.epoch
        deadline = None if timeout_s < 0 else self.world.now_ns + round(timeout_s * 1e9)
        while self.acquired() < count:
            if deadline is not None and self.world.now_ns >= deadline:
                return False
            self._park(
                participant,
                self.clock.tick_of(count - 1),
                deadline,
                lambda: self.epoch != epoch or self.acquired() >= count,
            )
            if self.epoch != epoch or self.gone:
                raise self.error(Code.ABORTED, samples_read=0)
        return True

    def _park(
        self, participant: Participant, tick: int | None, deadline: int | None, ready: Callable[[], bool]
    ) -> None:
        times = [] if tick is None else [tick * self.world.tick_ns]
        times += [] if deadline is None else [deadline]
        self.world.park(participant, until_ns=min(times) if times else None, ready=ready)

    def _reading(self, spans: list[tuple[int, int, int]], samples: int) -> Reading:
        if samples == 0:
            return Reading(np.empty((len(self.channels), 0), np.int64), 0)
        if self.kind is Kind.CI:
            return Reading(np.array([channel.raw(self.bus, spans) for channel in self.of(Encoder)]), samples)
        return Reading(digitise(self.of(AnalogIn), self.bus, spans), samples)

    # -- writing and digital ------------------------------------------------------------------------------------------

    def read_lines(self) -> list[list[bool]]:
        """Return the levels of each channel's lines now."""
        return [channel.read(self.bus) for channel in self.of(DigitalLines)]

    def write_lines(self, levels: list[list[bool]]) -> None:
        """Drive each channel's lines."""
        channels = self.of(DigitalLines, Code.WRITE_TYPE)
        if self.kind is not Kind.DO:
            raise self.error(Code.WRITE_TYPE)
        if [len(channel.lines) for channel in channels] != [len(values) for values in levels]:
            raise self.error(Code.WRITE_CHANNELS)
        for channel, values in zip(channels, levels, strict=True):
            channel.write(self.bus, values)

    def write_volts(self, volts: list[float]) -> None:
        """Put one voltage out on each channel."""
        channels = self.of(AnalogOut, Code.WRITE_TYPE)
        if len(channels) != len(volts):
            raise self.error(Code.WRITE_CHANNELS)
        for channel, value in zip(channels, volts, strict=True):
            channel.write(self.bus, value)
