"""Whatever ends the program that drives a rig: no power, no torque, every committed row, no lease, no process left.

`make kill-matrix` runs every event in every state on every rig and prints the table of docs/kill-matrix.md; here is a
sample of it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="POSIX signals")]

SCRIPT = Path(__file__).with_name("kill_cells.py")


@pytest.mark.parametrize(
    ("rig", "event", "state"),
    [
        ("indenter", "SIGTERM", "contact"),
        ("indenter", "SIGSTOP", "idle"),
        ("single_joint", "SIGKILL", "writing"),
    ],
)
def test_what_is_left_is_safe_whole_and_free(rig: str, event: str, state: str, tmp_path: Path) -> None:
    results = tmp_path / "cells.jsonl"
    asked = ["--results", str(results), "--rig", rig, "--event", event, "--state", state]
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *asked], capture_output=True, text=True, timeout=600.0, check=False
    )
    if not results.exists() and "not reached" in done.stdout:
        pytest.skip(f"this machine is too busy for a loop in real time: {done.stdout[-300:]}")
    assert results.exists(), done.stdout + done.stderr
    cell = json.loads(results.read_text())
    assert not cell["problems"], cell
    assert done.returncode == 0
    if state != "idle":
        assert cell["line_s"] is not None
