"""What recording costs: CPU time of the writer thread, and the lateness of a 500 Hz loop in the same process.

16 channels × 10 kHz of a 16-bit converter, beside a loop that wakes every 2 ms. Seconds with and without recording
alternate. Other processes only ever add lateness, and to neither side more than to the other, so each side is judged by
the half of its seconds in which the rest of the machine was idlest.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter

pytestmark = [pytest.mark.performance, pytest.mark.slow]

CHANNELS, RATE_HZ, BLOCK = 16, 10_000.0, 1000
CHUNK = 5 * BLOCK  # as the procedures record: a block is read every 0.1 s, a chunk holds five
DTYPE = "f4"  # what docs/decisions/0002-archive-format.md advises for converters of up to 16 bits
TICK_NS = 2_000_000
PAIRS, MOST_PAIRS = 12, 30
QUIET = 0.3  # cores that other processes may keep busy in a second that still counts as quiet


def volts(samples: int) -> np.ndarray:
    """Return (samples, CHANNELS) readings of a calibrated 16-bit converter with two codes of noise [V]."""
    code = 20.0 / 65536
    time_s = np.arange(samples)[:, np.newaxis] / RATE_HZ
    signal = 2.0 * np.sin(2 * np.pi * 0.5 * time_s + np.arange(CHANNELS))
    noise = np.random.default_rng(0).normal(scale=2 * code, size=signal.shape)
    return np.round((signal + noise) / code) * code * 1.00037 + 0.00123


class Feeder:
    """The acquisition's side: a block every 0.1 s, appended to the archive while ``recording`` is set."""

    def __init__(self, writer: RunWriter, dtype: str) -> None:
        self.recording = threading.Event()
        self.appended = 0
        self._stop = threading.Event()
        self._writer = writer
        self._blocks = volts(20 * BLOCK).astype(dtype).reshape(20, BLOCK, CHANNELS)
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        start, number = time.monotonic(), 0
        while not self._stop.is_set():
            block, time_s = self._blocks[number % 20].copy(), (np.arange(BLOCK) + BLOCK * self.appended) / RATE_HZ
            if self.recording.is_set():
                self._writer.append("daq", {"raw": block}, time_s)
                self.appended += 1
            number += 1
            # A hardware clock is not in step with the loop: 0.1003 s lets the phase drift through all of a tick.
            self._stop.wait(max(0.0, start + 0.1003 * number - time.monotonic()))

    def close(self) -> None:
        self._stop.set()
        self._thread.join(10)


def lateness_p99_ns(seconds: float) -> float:
    """Run a 500 Hz loop and return the 99th percentile of how late it woke [ns]."""
    late = []
    due = time.monotonic_ns()
    end = due + round(seconds * 1e9)
    while due < end:
        due += TICK_NS
        remaining = due - time.monotonic_ns()
        if remaining > 0:
            time.sleep(remaining * 1e-9)
        late.append(time.monotonic_ns() - due)
    return float(np.percentile(late, 99))


def foreign_cpu() -> Callable[[], float]:
    """Return a function that tells how many cores other processes kept busy since this call."""

    def busy_s() -> float:
        if not Path("/proc/stat").is_file():
            return time.process_time()
        user, nice, system, _, _, irq, soft, steal = map(int, Path("/proc/stat").read_text().split()[1:9])
        return (user + nice + system + irq + soft + steal) / os.sysconf("SC_CLK_TCK")

    busy, own, wall = busy_s(), time.process_time(), time.monotonic()
    return lambda: (busy_s() - busy - (time.process_time() - own)) / (time.monotonic() - wall)


@dataclass
class Side:
    """Seconds measured one way: lateness [ns] and how busy other processes kept the machine meanwhile."""

    p99_ns: list[float] = field(default_factory=list)
    foreign: list[float] = field(default_factory=list)

    def quiet(self) -> int:
        return sum(foreign < QUIET for foreign in self.foreign)

    def judged_ns(self) -> float:
        order = np.argsort(self.foreign, kind="stable")[: max(1, len(self.foreign) // 2)]
        return float(np.median(np.array(self.p99_ns)[order]))


@pytest.fixture
def feeder(tmp_path: Path) -> Iterator[tuple[Feeder, RunWriter]]:
    names = tuple(f"gauge_{i}" for i in range(CHANNELS))
    group = GroupSpec("daq", (DatasetSpec("raw", "V", "voltage", names, DTYPE),), RATE_HZ, CHUNK)
    provenance = Provenance("nobody", "none", "benchmark", "none", datetime.now(UTC), "lab", False)
    writer = RunWriter.create(tmp_path, "recording", provenance, [group])
    feeder = Feeder(writer, DTYPE)
    yield feeder, writer
    feeder.close()
    with Run.open(writer.close("COMPLETE")) as run:  # whatever it cost, everything must be there
        assert len(run.channel("gauge_0").values) == BLOCK * feeder.appended


def test_recording_costs_little_cpu_and_leaves_the_loop_in_time(
    feeder: tuple[Feeder, RunWriter], record_property: Callable[[str, object], None]
) -> None:
    feed, writer = feeder
    sides = {False: Side(), True: Side()}
    cpu_s = recorded_s = 0.0
    pairs = 0
    while pairs < PAIRS or (pairs < MOST_PAIRS and min(side.quiet() for side in sides.values()) < PAIRS // 2):
        for recording in (False, True) if pairs % 2 else (True, False):
            (feed.recording.set if recording else feed.recording.clear)()
            time.sleep(0.15)  # let a block under way end
            cpu, start, foreign = writer.cpu_s, time.monotonic(), foreign_cpu()
            sides[recording].p99_ns.append(lateness_p99_ns(1.0))
            sides[recording].foreign.append(foreign())
            if recording:
                cpu_s += writer.cpu_s - cpu
                recorded_s += time.monotonic() - start
        pairs += 1
    without, with_writer = sides[False].judged_ns(), sides[True].judged_ns()
    share, ratio = cpu_s / recorded_s, with_writer / without
    quiet = min(side.quiet() for side in sides.values())
    figures = (
        f"writer {share:.2%} of a core; p99 lateness {without / 1e3:.0f} → {with_writer / 1e3:.0f} µs = {ratio:.2f} ×; "
        f"{quiet} quiet seconds of {pairs}"
    )
    record_property("recording", figures)
    print(figures)
    assert share <= 0.05, figures
    if quiet < PAIRS // 2:
        pytest.skip(f"the machine is too busy to compare lateness: {figures}")
    assert ratio <= 1.2, figures
