"""Records known data until it is killed. One server process forks a recorder per line of its standard input.

Line in: ``RUN FOLDER SEED CLOSE_AFTER``. Lines out: ``RUN recording PID``, ``RUN commit GROUP SAMPLES`` after each
flush, ``RUN closing 0`` when the recorder begins to seal, ``RUN ended STATUS`` when it is gone.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.archive.provenance import git_state, versions

GROUPS = (
    GroupSpec(
        "daq",
        (
            DatasetSpec("raw", "V", "voltage", tuple(f"gauge_{i}" for i in range(6))),
            DatasetSpec("position", "mm", "length", ("encoder_position",)),
        ),
        10_000.0,
        200,
    ),
    GroupSpec("stage", (DatasetSpec("reported", "count", "count", ("stage_count",), dtype="i4"),), None, 5),
)


def known(sample: np.ndarray, channel: int) -> np.ndarray:
    """Return the value of ``channel`` at ``sample``: no two alike, all bits in use."""
    return np.sin(sample * 7.0 + channel) * (sample + 1)


def record(run: str, folder: Path, seed: int, close_after: int) -> None:
    def say(*words: object) -> None:
        os.write(1, (" ".join(map(str, (run, *words))) + "\n").encode())

    provenance = Provenance("nobody", "none", "kill", "none", datetime.now(UTC), "mock", True, seed)
    writer = RunWriter.create(
        folder, run, provenance, GROUPS, on_commit=lambda group, samples: say("commit", group, samples)
    )
    say("recording", os.getpid())
    sizes = np.random.default_rng(seed)
    first = 0
    while first < close_after:
        sample = np.arange(first, first + int(sizes.integers(1, 400)))
        raw = np.stack([known(sample, channel) for channel in range(6)], axis=1)
        writer.append("daq", {"raw": raw, "position": known(sample, 6)}, sample / 10_000.0)
        writer.append("stage", {"reported": sample[:1]}, sample[:1] / 10_000.0)
        if first < 5000:
            writer.event(sample[0] / 10_000.0, "info", "block", f"block at {sample[0]}")
        first = int(sample[-1]) + 1
        time.sleep(0.001)
    say("closing", 0)
    writer.close("COMPLETE")


def serve() -> None:
    versions(), git_state()  # cached here once, and not in every child
    for line in sys.stdin:
        run, folder, seed, close_after = line.split()
        child = os.fork()
        if child == 0:
            record(run, Path(folder), int(seed), int(close_after))
            os._exit(0)
        threading.Thread(target=reap, args=(run, child), daemon=True).start()


def reap(run: str, child: int) -> None:
    _, status = os.waitpid(child, 0)
    os.write(1, f"{run} ended {status}\n".encode())


if __name__ == "__main__":
    serve()
