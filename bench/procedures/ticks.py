"""The grid of a control loop's ticks: absolute deadlines, ticks that were missed, and how well times are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, RunWriter
from bench.errors import SafetyAbort
from bench.instruments.protocols import Anchor

Floats = NDArray[np.float64]

#: Where missed ticks are archived: a row each time some were.
MISSED = GroupSpec(
    "ticks",
    (DatasetSpec("missed", "count", "count", ("missed_ticks",), long_name="ticks missed just before"),),
    None,
    1,
)


@dataclass
class Timing:
    """What the loop's time was like: counts, and half-widths of transactions [s]."""

    ticks: int = 0
    missed: int = 0
    in_a_row: int = 0
    largest_lateness_s: float = 0.0
    largest_half_width_s: float = 0.0
    half_width_sum_s: float = 0.0

    def take(self, lateness_s: Floats, half_width_s: Floats) -> None:
        self.ticks += len(lateness_s)
        self.largest_lateness_s = max(self.largest_lateness_s, float(lateness_s.max()))
        self.largest_half_width_s = max(self.largest_half_width_s, float(half_width_s.max()))
        self.half_width_sum_s += float(half_width_s.sum())

    def told(self, anchor: Anchor) -> str:
        """Return it in words, with how well sample 0 of the DAQ is known."""
        mean = self.half_width_sum_s / max(1, self.ticks)
        return (
            f"{self.ticks} ticks, {self.missed} missed, at most {self.largest_lateness_s * 1e6:.0f} us late; "
            f"rows known to +-{mean * 1e6:.0f} us (mean) and +-{self.largest_half_width_s * 1e6:.0f} us (largest), "
            f"the DAQ's sample 0 to +-{anchor.half_width_ns * 1e-3:.1f} us"
        )


class TickGrid:
    """Deadlines a period apart, counted from one instant, so that lateness does not add up.

    Parameters
    ----------
    writer : RunWriter
        With the group :data:`MISSED`.
    rate_hz : float
    max_missed : int
        More ticks missed in a row end the run.
    """

    def __init__(self, writer: RunWriter, rate_hz: float, max_missed: int) -> None:
        self.rate_hz = rate_hz
        self.period_s = 1.0 / rate_hz
        self.period_ns = round(1e9 / rate_hz)
        self.timing = Timing()
        self.zero_ns = 0
        self._writer = writer
        self._max_missed = max_missed
        self._noted = False

    def next(self, now_ns: int) -> int:
        """Return the first deadline that is not past at ``now_ns``."""
        return self.zero_ns + -(-(now_ns - self.zero_ns) // self.period_ns) * self.period_ns

    def miss(self, late_ns: int, now_ns: int) -> int:
        """Count and archive the ticks a lateness of a period or more has missed; return how many.

        Raises
        ------
        SafetyAbort
            ``"missed_ticks"``: too many in a row.
        """
        timing, missed = self.timing, late_ns // self.period_ns
        timing.missed += missed
        timing.in_a_row += missed
        time_s = (now_ns - self.zero_ns) * 1e-9
        self._writer.append("ticks", {"missed": [float(missed)]}, [time_s])
        if not self._noted:
            self._noted = True
            told = f"{missed} ticks missed; further ones in channel missed_ticks"
            self._writer.event(time_s, "warning", "missed_ticks", told)
        if timing.in_a_row > self._max_missed:
            raise SafetyAbort(
                f"{timing.in_a_row} ticks of {self.period_s * 1e3:g} ms were missed in a row, at most "
                f"{self._max_missed} may be",
                reason="missed_ticks",
                where="control loop",
                remedy="Look for other load on the machine, a slow serial port and a slow DAQ; else lower loop.rate.",
            )
        return missed
