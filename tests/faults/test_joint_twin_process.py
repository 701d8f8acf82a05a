"""The joint's twin as a process: a runner killed in a torque loop leaves a joint whose drive stops by itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.profile import load_twin
from bench.twin.process import start_twin

SCRIPT = Path(__file__).with_name("joint_loop.py")
WALL_S = 60.0


def killed_at(repository: Path, report: Path, time_s: float) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Report and history of a twin that kills its runner at a world time."""
    profiles = repository / "profiles"
    twin_path = profiles / "twins" / "single_joint.toml"
    number = load_twin(twin_path).motor.serial_number  # type: ignore[attr-defined]
    with start_twin(
        profiles / "rigs" / "single_joint.toml",
        twin_path,
        "pendulum_arm",
        seed=5,
        report_path=report,
        linger=True,
    ) as twin:
        twin.control.kill_at(time_s)
        command = [sys.executable, str(SCRIPT), twin.link_address, twin.grpc_address, number]
        with subprocess.Popen(command) as runner:
            runner.wait(WALL_S)
        deadline = time.monotonic() + WALL_S
        while not report.exists():
            assert time.monotonic() < deadline, "the twin wrote no report"
            time.sleep(0.02)
        return json.loads(report.read_text(encoding="utf-8")), twin.control.history()


def test_a_runner_killed_in_its_loop_leaves_a_joint_without_torque_that_comes_to_rest(
    repository: Path, tmp_path: Path
) -> None:
    report, history = killed_at(repository, tmp_path / "first.json", 0.634567)
    assert report["safe"]
    assert report["since_s"] == pytest.approx(0.634567)
    # the drive's watchdog of 0.1 s counts from the last command, up to one tick of the loop before
    assert 0.097 < report["torque_off_at_s"] - report["since_s"] < 0.105
    assert report["stands_at_s"] < report["since_s"] + 5.0
    assert report["drive_mode"] == 11
    assert report["enable"]
    assert np.abs(history["motor_torque_Nm"][300:634]).max() == pytest.approx(0.04, rel=0.01)

    again, same = killed_at(repository, tmp_path / "second.json", 0.634567)
    for name, values in history.items():
        assert np.array_equal(values, same[name]), name
    assert {**again, "largest_wall_gap_s": 0, "largest_wall_gap_at_s": 0} == {
        **report,
        "largest_wall_gap_s": 0,
        "largest_wall_gap_at_s": 0,
    }
