"""A recorder killed with SIGKILL at any moment leaves an archive that recovers with every block it had committed."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.archive import Run, recover, verify_digest
from bench.errors import ArchiveError

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL"),
]
DEADLINE_S = 30.0
HELPER = Path(__file__).with_name("archive_recorder.py")


@pytest.fixture(scope="module")
def recorder() -> ModuleType:
    spec = importlib.util.spec_from_file_location("archive_recorder", HELPER)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Recorders:
    """The server that forks recorders, and what they said."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def start(self, run: str, folder: Path, seed: int, close_after: int) -> int:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{run} {folder} {seed} {close_after}\n")
        self.process.stdin.flush()
        return int(self.wait(run, "recording")[1][0])

    def wait(self, run: str, word: str, times: int = 1) -> tuple[dict[str, int], list[str]]:
        """Return the commits reported until ``run`` has said ``word`` so many times, and what follows that word."""
        assert self.process.stdout is not None
        committed: dict[str, int] = {}
        deadline = time.monotonic() + DEADLINE_S
        while time.monotonic() < deadline:
            name, said, *rest = self.process.stdout.readline().split()
            assert name == run
            if said == "commit":
                committed[rest[0]] = int(rest[1])
            times -= said == word
            if times == 0:
                return committed, rest
        raise TimeoutError(f"{run} did not say {word}")


@pytest.fixture(scope="module")
def recorders() -> Iterator[Recorders]:
    process = subprocess.Popen([sys.executable, str(HELPER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield Recorders(process)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.close()
    process.wait(DEADLINE_S)
    process.stdout.close()


def check(path: Path, committed: dict[str, int], recorder: ModuleType) -> str:
    """Assert that the archive holds every committed sample and only true values; return its status."""
    verify_digest(path)
    with Run.open(path) as run:
        for channel in range(7):
            name = f"gauge_{channel}" if channel < 6 else "encoder_position"
            read = run.channel(name)
            assert len(read.values) >= committed.get("daq", 0)
            sample = np.arange(len(read.values))
            assert np.array_equal(read.values, recorder.known(sample, channel))
            assert np.array_equal(read.time_s, sample / 10_000.0)
        stage = run.channel("stage_count")
        assert len(stage.values) >= committed.get("stage", 0)
        assert np.array_equal(stage.values, np.round(stage.time_s * 10_000.0))
        assert all(event.message == f"block at {round(event.time_s * 10_000)}" for event in run.events)
        return run.status


def test_every_archive_killed_while_recording_recovers_with_all_committed_blocks(
    tmp_path: Path, recorders: Recorders, recorder: ModuleType
) -> None:
    moments = random.Random(20)
    totals = []
    for number in range(50):
        run = f"run{number}"
        pid = recorders.start(run, tmp_path, number, 10**9)
        committed, _ = recorders.wait(run, "commit", times=moments.randint(1, 40))
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(pid, signal.SIGKILL)
        more, (status,) = recorders.wait(run, "ended")
        committed |= more
        assert int(status) == signal.SIGKILL
        (partial,) = tmp_path.glob(f"*_{run}.partial.h5")
        before = partial.read_bytes()
        with pytest.raises(ArchiveError, match=r"not sealed.*bench recover"):
            Run.open(partial)
        assert check(recover(partial), committed, recorder) == "CRASHED"
        assert partial.read_bytes() == before
        totals.append(committed.get("daq", 0))
    assert max(totals) > 2000  # early and late kills


def test_a_kill_while_sealing_loses_nothing_either(tmp_path: Path, recorders: Recorders, recorder: ModuleType) -> None:
    moments = random.Random(21)
    statuses = set()
    for number in range(16):
        run = f"seal{number}"
        pid = recorders.start(run, tmp_path, number, 1500)
        committed, _ = recorders.wait(run, "closing")
        time.sleep(moments.uniform(0.0, 0.06))
        with contextlib.suppress(ProcessLookupError):  # it had finished
            os.kill(pid, signal.SIGKILL)
        more, _ = recorders.wait(run, "ended")
        committed |= more
        left = sorted(tmp_path.glob(f"*_{run}*.h5"))
        partial = [path for path in left if path.name.endswith(".partial.h5")]
        sealed = [path for path in left if path not in partial]
        statuses.add(check(sealed[0] if sealed else recover(partial[0]), committed, recorder))
    assert statuses <= {"CRASHED", "COMPLETE"}
