"""A runner that is lost or hangs: the watchdog takes the rig's power, and the twin's own log and history say so."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.profile import load_rig
from bench.safety import ledger
from bench.safety.lease import LeaseBook
from bench.twin.process import TwinProcess, start_twin

pytestmark = pytest.mark.skipif(os.name == "nt", reason="POSIX signals")

WALL_S = 120.0
#: What the twin's own pacing and a busy machine may add to what it writes down [s]: its process has to get its turn.
NOISE_S = 0.15
NO_TORQUE_NM, STILL_MM = 0.01, 1e-6

RUNNER = """
import json, sys
from bench.procedures import perform
from bench.profile import load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station
given = json.loads(sys.argv[1])
specimen = load_specimen(given["specimen"])
with open_station(
    load_rig(given["rig"]), "mock", twin=load_twin(given["twin"]), specimen=specimen, attach=given["attach"]
) as station:
    print(json.dumps({"watchdog": station.watchdog.pid}), flush=True)
    perform(station, load_procedure(given["procedure"]), specimen, operator="nobody", results_dir=given["results"])
"""


class EndedByItself(Exception):
    """The runner ended before anything was done to it; what it said."""


class Scene:
    """A twin that stays, and a runner on it."""

    def __init__(self, twin: TwinProcess, runner: subprocess.Popen[str], watchdog: int) -> None:
        self.twin, self.runner, self.watchdog = twin, runner, watchdog

    def wait_for(self, what: str, reached: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + WALL_S
        while True:
            report = self.twin.control.report()
            if reached(report):
                return report
            if self.runner.poll() is not None and not what.startswith("the end"):
                raise EndedByItself(self.runner.communicate(timeout=10.0))
            assert time.monotonic() < deadline, f"{what} did not come: {report}"
            time.sleep(0.01)

    def line_fell_s(self) -> float:
        """When the enable line fell for the last time, in the twin's own time [s]."""
        return max(time_ns for time_ns, text in self.twin.control.log() if text == "enable off") * 1e-9

    def end(self) -> None:
        """Wait until runner and watchdog are gone."""
        self.runner.wait(WALL_S)
        deadline = time.monotonic() + WALL_S
        while _exists(self.watchdog):
            assert time.monotonic() < deadline, "the watchdog stays"
            time.sleep(0.01)


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def scene(repository: Path, tmp_path: Path) -> Callable[..., Any]:
    @contextmanager
    def make(
        rig: str, procedure: str, specimen: str, changes: tuple[tuple[str, str], ...] = (), **options: Any
    ) -> Iterator[Scene]:
        profiles = repository / "profiles"
        text = (profiles / f"rigs/{rig}.toml").read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        changed = tmp_path / f"{rig}.toml"
        changed.write_text(text.replace('"ft90001.cal"', f'"{profiles}/rigs/ft90001.cal"'), encoding="utf-8")
        truth = profiles / f"twins/{rig}.toml"
        given = {
            "rig": str(changed),
            "twin": str(truth),
            "specimen": str(profiles / f"specimens/{specimen}.toml"),
            "procedure": str(profiles / f"procedures/{procedure}.toml"),
            "results": str(tmp_path / "results"),
        }
        with start_twin(changed, truth, specimen, linger=True, **options) as twin:
            told = json.dumps({**given, "attach": twin.addresses})
            with subprocess.Popen(
                [sys.executable, "-c", RUNNER, told], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            ) as runner:
                assert runner.stdout is not None
                try:
                    line = runner.stdout.readline()
                    if not line:
                        raise EndedByItself(runner.communicate(timeout=10.0))
                    yield Scene(twin, runner, json.loads(line)["watchdog"])
                finally:
                    runner.kill()

    return make


def test_in_virtual_time_a_killed_runner_leaves_a_rig_without_power(scene: Callable[..., Any]) -> None:
    with scene("indenter", "indentation_short", "liver_phantom_a") as made:
        made.wait_for("a press", lambda report: report["force_N"] > 0.5 and report["moving"])
        made.runner.kill()
        report = made.wait_for("the end of the power", lambda report: report["lost"] and not report["enable"])
        made.end()
        assert made.line_fell_s() == pytest.approx(float(report["lost"].split(" was lost at ")[1].split()[0]), abs=1e-6)
        assert not made.twin.control.report()["moving"]
    (told,) = [entry for entry in ledger.Ledger().entries() if entry.kind == "watchdog"]
    assert told.fields["safe"] is True, told.fields
    assert LeaseBook().holders() == []


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_stage_stands_within_the_stated_time(scene: Callable[..., Any], repository: Path, number: str) -> None:
    with scene("indenter", "indentation_short", "liver_phantom_a", real_time=True) as made:
        made.wait_for("a press", lambda report: report["force_N"] > 0.5 and report["moving"])
        lost_s = made.twin.control.now_ns() * 1e-9
        made.runner.send_signal(getattr(signal, number))
        made.wait_for("the end of the power", lambda report: not report["enable"])
        made.end()
        rig = load_rig(repository / "profiles/rigs/indenter.toml")
        stop_s = rig.safety.stop_time.to("s")  # type: ignore[attr-defined]
        travel = made.twin.control.history()["travel_mm"]
        moving = np.flatnonzero(np.abs(np.diff(travel)) > STILL_MM)
        stood_s = (int(moving[-1]) + 1) * made.twin.control.truth()["tick_s"]
        print(f"{number}: line low after {made.line_fell_s() - lost_s:.3f} s, still after {stood_s - lost_s:.3f} s")
        assert made.line_fell_s() - lost_s <= stop_s + NOISE_S
        assert stood_s - lost_s <= stop_s + NOISE_S
    assert LeaseBook().holders() == []


#: A test machine that is busy must not miss ticks in a row; the drive's own watchdog and the stated time stay.
SLOW = (
    ('rate = "500 Hz"', 'rate = "250 Hz"'),
    ("max_missed = 10", "max_missed = 100"),
    ('drain = "100 ms"', 'drain = "50 ms"'),
    ('watchdog_timeout = "100 ms"', 'watchdog_timeout = "150 ms"'),
)
#: Times a run may be ended by a machine that is too busy for it before it comes to a motion.
TRIES = 4


@pytest.mark.parametrize("number", ["SIGKILL", "SIGSTOP"])
def test_a_joint_has_no_torque_within_the_stated_time(scene: Callable[..., Any], repository: Path, number: str) -> None:
    for left in reversed(range(TRIES)):
        try:
            with scene("single_joint", "low_speed_tracking", "pendulum_arm", SLOW, real_time=True) as made:
                made.wait_for("a motion", lambda report: abs(report["joint_speed_rad_s"]) > 0.05)
                _lose_a_joint(made, repository, number)
        except EndedByItself:
            if not left:
                raise
        else:
            break
    assert LeaseBook().holders() == []


def _lose_a_joint(made: Scene, repository: Path, number: str) -> None:
    lost_s = made.twin.control.now_ns() * 1e-9
    made.runner.send_signal(getattr(signal, number))
    made.wait_for("the end of the power", lambda report: not report["enable"])
    made.end()
    rig = load_rig(repository / "profiles/rigs/single_joint.toml")
    stop_s = rig.safety.stop_time.to("s")  # type: ignore[attr-defined]
    assert stop_s <= 0.25
    torque = made.twin.control.history()["motor_torque_Nm"] * 100.0
    driven = np.flatnonzero(np.abs(torque) > NO_TORQUE_NM)
    off_s = (int(driven[-1]) + 1) * made.twin.control.truth()["tick_s"]
    print(f"{number}: line low after {made.line_fell_s() - lost_s:.3f} s, no torque after {off_s - lost_s:.3f} s")
    assert made.line_fell_s() - lost_s <= stop_s + NOISE_S
    assert off_s - lost_s <= stop_s + NOISE_S
    assert made.twin.control.report()["braked"]
