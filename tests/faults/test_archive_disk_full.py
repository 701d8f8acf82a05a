"""A disk that fills up ends the run with a reason; it takes down neither the process nor what was flushed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.archive import Run, recover

pytestmark = pytest.mark.skipif(os.name == "nt", reason="needs a limit on the size of files")

# A limit on the size of a file stands for the full disk: the same failed write, and no rights are needed for it.
RECORDER = """
import gc, resource, signal, sys
from datetime import UTC, datetime
import numpy as np
from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.errors import ArchiveError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, resource.RLIM_INFINITY))

def record():
    provenance = Provenance("nobody", "none", "full", "none", datetime.now(UTC), "mock", True, 1)
    groups = [GroupSpec("daq", (DatasetSpec("raw", "V", "voltage", ("a", "b")),), 1000.0, 500)]
    writer = RunWriter.create(sys.argv[1], "full", provenance, groups, queue_length=4)
    noise = np.random.default_rng(0)
    try:
        for first in range(0, 1_000_000, 500):
            values = noise.normal(size=(500, 2))
            writer.append("daq", {"raw": values}, np.arange(first, first + 500) / 1000.0)
    except ArchiveError as error:
        print("append:", str(error).replace("\\n", " "))
    try:
        writer.close("ABORTED", "full")
    except ArchiveError as error:
        print("close:", str(error).replace("\\n", " "))
    print("committed", writer.committed("daq"))

record()
for _ in range(3):
    gc.collect()
print("alive")
"""


def test_a_full_disk_ends_the_run_and_not_the_process(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", RECORDER, str(tmp_path)], capture_output=True, text=True, timeout=50.0, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout.splitlines()
    assert said[-1] == "alive"
    assert said[0].startswith("append:")
    assert "could not be written on" in said[0], "not that the archive does not keep up"
    assert "bench recover" in said[1]
    (partial,) = tmp_path.glob("*.partial.h5")
    with Run.open(recover(partial)) as run:
        assert len(run.channel("a").values) >= int(said[2].split()[1]) > 0
