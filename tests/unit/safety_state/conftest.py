"""Processes of their own that hold leases."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

HOLD = """
import sys
from pathlib import Path
from bench.safety.lease import LeaseBook
lease = LeaseBook(Path(sys.argv[1])).acquire(sys.argv[2], rig="indenter")
print("held", flush=True)
if sys.stdin.readline():
    lease.release()
"""


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[[str], subprocess.Popen[str]]]:
    """``hold(key)``: a process that holds the lease on ``key`` until it is killed or reads a line."""
    holders: list[subprocess.Popen[str]] = []

    def hold(key: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-c", HOLD, str(tmp_path), key], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        holders.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        return process

    yield hold
    for process in holders:
        process.kill()
        process.communicate(timeout=30)
