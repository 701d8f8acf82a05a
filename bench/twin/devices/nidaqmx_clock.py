"""A sample clock: at which tick of the world each sample was, or will be, taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class _Run:
    """Equally spaced edges: sample ``first_sample`` at ``first_tick``, then one every ``stride`` ticks."""

    first_sample: int
    first_tick: int
    stride: int
    count: int | None  # None: until it is stopped

    def edges(self, now_tick: int) -> int:
        if now_tick < self.first_tick:
            return 0
        edges = (now_tick - self.first_tick) // self.stride + 1
        return edges if self.count is None else min(edges, self.count)


class SampleClock:
    """The edges a task has seen and will see.

    >>> clock = SampleClock()
    >>> clock.start(100, stride=10)
    >>> clock.available(125), clock.tick_of(7)
    (3, 170)
    """

    def __init__(self) -> None:
        self._runs: list[_Run] = []

    def start(self, tick: int, stride: int, count: int | None = None) -> None:
        """Begin edges at ``tick``, every ``stride`` ticks, ``count`` of them or (None) until :meth:`stop`."""
        self._runs.append(_Run(self._known(), tick, stride, count))

    def stop(self, now_tick: int) -> None:
        """End the edges: none comes after ``now_tick``."""
        if self._runs:
            self._runs[-1].count = self._runs[-1].edges(now_tick)

    def skip(self, now_tick: int, edges: int) -> None:
        """Lose ``edges`` edges after ``now_tick``; the samples that follow are numbered on as if nothing happened."""
        if not self._runs:
            return
        run = self._runs[-1]
        wanted = run.count
        run.count = run.edges(now_tick)
        left = None if wanted is None else wanted - run.count
        tick = run.first_tick + (run.count + edges) * run.stride
        self._runs.append(_Run(run.first_sample + run.count, tick, run.stride, left))

    def available(self, now_tick: int) -> int:
        """Return how many samples were taken up to ``now_tick``."""
        for run in reversed(self._runs):
            edges = run.edges(now_tick)
            if edges:
                return run.first_sample + edges
        return self._runs[0].first_sample if self._runs else 0

    def tick_of(self, sample: int) -> int | None:
        """Return the tick of ``sample``; None when no edge for it is scheduled."""
        for run in reversed(self._runs):
            if sample >= run.first_sample:
                k = sample - run.first_sample
                return None if run.count is not None and k >= run.count else run.first_tick + k * run.stride
        return None

    def next_edge(self, tick: int) -> tuple[int, int] | None:
        """Return (tick, stride) of the first edge not before ``tick``, or None when there is none."""
        if not self._runs:
            return None
        run = self._runs[-1]
        k = max(0, -(-(tick - run.first_tick) // run.stride))
        if run.count is not None and k >= run.count:
            return None
        return run.first_tick + k * run.stride, run.stride

    def remaining(self, tick: int) -> int | None:
        """Return how many edges come at ``tick`` or later; None when there is no end to them."""
        run = self._runs[-1]
        return None if run.count is None else run.count - run.edges(tick - 1)

    def spans(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """Yield (first tick, samples, stride) for the ``count`` samples from ``first``; all must be scheduled."""
        end = first + count
        for index, run in enumerate(self._runs):
            after = self._runs[index + 1].first_sample if index + 1 < len(self._runs) else end
            low, high = max(first, run.first_sample), min(end, after)
            if low < high:
                yield run.first_tick + (low - run.first_sample) * run.stride, high - low, run.stride

    def _known(self) -> int:
        if not self._runs:
            return 0
        run = self._runs[-1]
        return run.first_sample + (run.count or 0)
