"""The twin as a process: equal runs, killed runners, orphans, and what it reports of the rig afterwards."""

from __future__ import annotations

import importlib.util
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

from bench.clock import sleep
from bench.errors import TwinError
from bench.twin.link import Link
from bench.twin.process import TwinProcess, start_twin

SCRIPT = Path(__file__).with_name("twin_press.py")
WALL_S = 60.0
posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")


def load_runner() -> Any:
    spec = importlib.util.spec_from_file_location("twin_press", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Runner


@pytest.fixture
def twin(repository: Path, tmp_path: Path) -> Iterator[Callable[..., TwinProcess]]:
    """Start twins of the indenter; they report into ``tmp_path`` and end with the test."""
    started: list[TwinProcess] = []

    def start(**options: Any) -> TwinProcess:
        profiles = repository / "profiles"
        options.setdefault("report_path", tmp_path / f"report-{len(started)}.json")
        started.append(
            start_twin(
                profiles / "rigs" / "indenter.toml",
                profiles / "twins" / "indenter.toml",
                options.pop("specimen_name", "liver_phantom_a"),
                **options,
            )
        )
        return started[-1]

    yield start
    for process in started:
        process.close()


@contextmanager
def runner_of(twin: TwinProcess, *options: str, pressing: bool = True) -> Iterator[subprocess.Popen[str]]:
    """A runner in a process of its own, from the moment it presses."""
    command = [sys.executable, str(SCRIPT), twin.link_address, twin.grpc_address, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            if pressing:
                assert process.stdout.readline() == "pressing\n"
            yield process
        finally:
            process.kill()


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WALL_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen"
        time.sleep(0.005)


def gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z"


# -- equal runs -------------------------------------------------------------------------------------------------------


def one_run(twin: TwinProcess) -> tuple[np.ndarray, dict[str, Any], list[tuple[int, str]]]:
    runner = load_runner()(twin.link_address, twin.grpc_address)
    try:
        return runner.press(), twin.control.history(), twin.control.log()
    finally:
        runner.close()


def test_two_runs_are_bit_equal_also_on_a_busy_machine_with_a_monitor(twin: Callable[..., TwinProcess]) -> None:
    channels, history, log = one_run(twin(seed=5))
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(3)]
    try:
        other = twin(seed=5)
        watcher = subprocess.Popen(
            [
                sys.executable,
                "-c",
                "import sys, time\n"
                "from bench.twin.control_client import control_of\n"
                "control = control_of(sys.argv[1])\n"
                "while True: control.report(); time.sleep(0.003)\n",
                other.link_address,
            ],
            stderr=subprocess.DEVNULL,
        )
        busy.append(watcher)
        again = one_run(other)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert np.array_equal(again[0], channels)
    for name, values in history.items():
        assert np.array_equal(again[1][name], values)
    assert again[2] == log
    assert history["force_N"].max() > 1.0
    assert len(log) > 50
    assert not np.array_equal(one_run(twin(seed=6))[0], channels)


# -- runners that end badly -------------------------------------------------------------------------------------------


@posix
def test_a_killed_runner_leaves_a_report_of_a_rig_that_came_to_rest(twin: Callable[..., TwinProcess]) -> None:
    process = twin()
    with runner_of(process) as runner:
        runner.kill()
        runner.wait(WALL_S)
        assert process.wait(WALL_S) == 0  # the twin ends by itself once it has reported
    report = process.report()
    assert report["safe"] is True
    assert report["safe_at_s"] >= report["since_s"] > 1.0
    assert report["moving"] is False
    assert "its connection closed" in report["why"]
    assert report["position_mm"] in (
        pytest.approx(34.0, abs=0.01),
        pytest.approx(28.0, abs=0.01),
    )  # it ran on to the end


@posix
def test_a_kill_by_the_twin_is_reproducible(twin: Callable[..., TwinProcess]) -> None:
    outcomes = []
    for _ in range(2):
        process = twin(seed=3, linger=True)
        process.control.kill_at(6.543)
        with runner_of(process) as runner:
            assert runner.wait(WALL_S) == -signal.SIGKILL
            wait_for(lambda process=process: process.report_path.exists(), "the report")  # type: ignore[misc]
        report = {key: value for key, value in process.report().items() if not key.startswith("largest_wall_gap")}
        outcomes.append((report, process.control.history(), process.control.log()))
    first, second = outcomes
    assert first[0]["since_s"] == 6.543
    assert first[0]["why"].endswith("killed by the twin (kill_at)")
    assert first[0] == second[0]
    assert all(np.array_equal(first[1][name], second[1][name]) for name in first[1])
    assert first[2] == second[2]


@posix
def test_a_lost_owner_latches_until_reset(twin: Callable[..., TwinProcess]) -> None:
    process = twin(linger=True)
    with runner_of(process) as runner:
        runner.kill()
        runner.wait(WALL_S)
        wait_for(lambda: process.control.report()["lost"] is not None, "the loss")
    wait_for(lambda: process.report_path is not None and process.report_path.exists(), "the report")
    with pytest.raises(TwinError, match=r"was lost at .*reset the twin"):
        Link.connect(process.link_address)
    process.control.reset()
    link = Link.connect(process.link_address)
    before = link.clock.now_ns()
    sleep(link.clock, 0.5)
    assert link.clock.now_ns() - before == 500_000_000
    link.close()


@posix
@pytest.mark.parametrize("preloaded", [True, False])
def test_an_orphan_ends_by_itself(repository: Path, preloaded: bool) -> None:
    rig = repository / "profiles" / "rigs" / "indenter.toml"
    code = (
        "import time\n"
        "from bench.twin.process import start_twin\n"
        f"twin = start_twin({str(rig)!r}, preloaded={preloaded})\n"
        "print(twin.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=repository) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert not gone(pid)
        parent.kill()
    wait_for(lambda: gone(pid), "the end of the orphan")


# -- real time --------------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize(
    ("number", "why", "options"),
    [("SIGKILL", "connection closed", ()), ("SIGSTOP", "silent for", ()), ("SIGKILL", "silent for", ("--fork",))],
    ids=["killed", "frozen", "killed with a forked child that keeps its sockets"],
)
def test_in_real_time_a_dead_or_frozen_runner_is_lost_while_it_sleeps(
    twin: Callable[..., TwinProcess], number: str, why: str, options: tuple[str, ...]
) -> None:
    process = twin(real_time=True, linger=True)
    with runner_of(process, "--real-time", *options) as runner:
        assert process.control.report()["moving"] is True
        runner.send_signal(getattr(signal, number))
        wait_for(lambda: process.control.report()["lost"] is not None, "the loss")
    assert why in process.control.report()["lost"]


# -- starting and ending ----------------------------------------------------------------------------------------------


def test_a_twin_that_cannot_start_says_why(twin: Callable[..., TwinProcess]) -> None:
    for preloaded in (True, False):
        with pytest.raises(TwinError, match=r"no specimen 'jelly'.*it has liver_phantom_a"):
            twin(specimen_name="jelly", preloaded=preloaded)
    with pytest.raises(TwinError, match=r"no fault 'gremlins'"):
        twin(faults=[{"name": "gremlins", "at_s": 1.0}])
    with pytest.raises(TwinError, match="needs real-time mode"):
        twin(tcp=True)


@pytest.mark.parametrize("preloaded", [True, False])
def test_an_ended_twin_has_reported(twin: Callable[..., TwinProcess], preloaded: bool) -> None:
    process = twin(preloaded=preloaded, faults=[{"name": "estop_pressed", "at_s": 0.5}])
    assert process.running
    link = Link.connect(process.link_address)
    sleep(link.clock, 1.0)
    link.close()
    assert process.control.report()["estop_healthy"] is False
    process.close()
    assert not process.running
    report = process.report()
    assert (report["safe"], report["lost"], report["faults"]) == (True, None, [{"at_s": 0.5, "name": "estop_pressed"}])


def test_a_report_is_whole_or_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from bench.twin import report

    report.write_report(tmp_path / "deep" / "report.json", {"safe": True})
    assert json.loads((tmp_path / "deep" / "report.json").read_text()) == {"safe": True}

    def broken(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(report.os, "fsync", broken)
    with pytest.raises(OSError, match="disk full"):
        report.write_report(tmp_path / "other.json", {"safe": True})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep"]


def test_the_truth_can_be_asked_for(twin: Callable[..., TwinProcess]) -> None:
    control = twin(seed=11).control
    truth = control.truth([1.0, 4.0, 8.0], 2.0)
    assert truth["seed"] == 11
    assert truth["force_N"] == sorted(truth["force_N"])
    assert truth["force_N"][0] > 0.0
    assert abs(truth["surface_mm"] - 30.2) < 2.0
    assert truth["specimen"]["name"] == "liver_phantom_a"
    with pytest.raises(TwinError, match="a speed > 0"):
        control.truth([1.0], 0.0)
    with pytest.raises(TwinError, match="no control call 'nonsense'"):
        control.call("nonsense")
