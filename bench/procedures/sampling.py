"""The hardware-clocked side of a recording beside a control loop: drained without waiting, whole, on one time base.

The loop drains what the DAQ has taken; a drain asks only for samples that must be there, so that it does not wait.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.archive import RunWriter
from bench.errors import InstrumentTimeout, SafetyAbort
from bench.instruments.protocols import Acquisition, Anchor, Block
from bench.station import Station

Floats = NDArray[np.float64]

#: What a read may take beyond its own length before the DAQ counts as dead [s].
READ_MARGIN_S = 2.0
#: How long a drain waits for samples that should be there [s]: the loop stands still meanwhile.
DRAIN_MARGIN_S = 0.05
#: Drains that are archived together, as one chunk: what a kill can lose is shorter than their sum (0.5 s).
CHUNK_DRAINS = 5


class Sampler(ABC):
    """A running acquisition, block by block.

    Parameters
    ----------
    station : Station
    writer : RunWriter
    drain_s : float
        Time between two drains [s].
    tick_rate_hz : float
        Of the control loop, whose ticks a drain must not hold up.
    """

    def __init__(self, station: Station, writer: RunWriter, *, drain_s: float, tick_rate_hz: float) -> None:
        self.writer = writer
        self.rate_hz = station.sample_rate_hz
        self.anchor = Anchor(0, 0, 0)
        self._clock = station.clock
        self._keep = station.watchdog.keep
        self._acquisition: Acquisition | None = None
        self._samples = 0
        # A DAQ whose clock is a little slow has not got yet what the host's clock says it should have.
        self._lag = 1
        self._largest_lag = max(2, round(0.5 * drain_s * self.rate_hz))
        self._patience_ns = round(0.5e9 / tick_rate_hz)

    @abstractmethod
    def keep(self, block: Block) -> None:
        """Archive a block as it came."""

    @property
    def time_s(self) -> float:
        """Time up to which samples were taken over [s]."""
        return self._samples / self.rate_hz

    @property
    def running(self) -> bool:
        return self._acquisition is not None

    def begin(self, acquisition: Acquisition, groups: Sequence[str]) -> None:
        """Start an acquisition; ``groups`` of the archive share its time base."""
        self._acquisition = acquisition
        self._keep()
        self.anchor = anchor = acquisition.start()
        for group in groups:
            self.writer.set_anchor(group, anchor.clock_ns, anchor.utc_ns, anchor.half_width_ns)

    def due(self, now_ns: int) -> Block | None:
        """Return what must be there by ``now_ns``, None where there is nothing new.

        Raises
        ------
        SafetyAbort
            ``"daq_gap"``: it is not there, or something is missing before it.
        """
        due = int((now_ns - self.anchor.clock_ns) * 1e-9 * self.rate_hz + 1e-6) - self._lag
        count = due - self._samples
        if count <= 0:
            return None
        before_ns = self._clock.now_ns()
        try:
            block = self.read(count, DRAIN_MARGIN_S)
        except InstrumentTimeout as error:
            raise SafetyAbort(
                f"the DAQ has not delivered {count} samples that were due {DRAIN_MARGIN_S * 1e3:g} ms ago",
                reason="daq_gap",
                where="DAQ",
                remedy="The device dropped samples or stopped: check its cable and bus.",
            ) from error
        waited_ns = self._clock.now_ns() - before_ns
        if waited_ns > self._patience_ns:
            self._lag = min(self._largest_lag, self._lag + 1 + int(waited_ns * 1e-9 * self.rate_hz))
        return block

    def watched(self, watch_s: float) -> list[Block]:
        """Return what was not drained yet, and last what comes within ``watch_s`` [s] from now."""
        behind = round((self._clock.now_ns() - self.anchor.clock_ns) * 1e-9 * self.rate_hz) - self._samples
        blocks = [self.read(behind)] if behind > 0 else []
        return [*blocks, self.read(max(2, round(watch_s * self.rate_hz)))]

    def read(self, samples: int, timeout_s: float | None = None) -> Block:
        """Wait for the next ``samples`` and keep them."""
        if self._acquisition is None:
            raise SafetyAbort("the acquisition has not been started", reason="no_acquisition", where="DAQ")
        if timeout_s is None:  # else they are there already, and the loop that asks for them is what beats
            self._keep(samples / self.rate_hz)
        allowed_s = samples / self.rate_hz + READ_MARGIN_S if timeout_s is None else timeout_s
        block = self._acquisition.read(samples, timeout_s=allowed_s)
        if block.first_sample != self._samples:
            raise SafetyAbort(
                f"samples {self._samples} … {block.first_sample - 1} are missing",
                reason="daq_gap",
                where="DAQ",
                remedy="Look for an overloaded machine or a too short buffer.",
            )
        self._samples += len(block.analog)
        self.keep(block)
        return block

    def times(self, block: Block) -> Floats:
        """Return the time of every sample (n,) [s]."""
        return np.arange(block.first_sample, block.first_sample + len(block.analog)) / self.rate_hz

    def close(self) -> None:
        """Stop and close the acquisition."""
        if self._acquisition is not None:
            self._acquisition.close()
            self._acquisition = None
