"""What is left of a rig, its archive and its leases when the program that drives it is ended: one cell of the matrix.

The twin outlives the program and is asked: when its enable line fell, and when its stage stood or its motors had no
torque. As a script it runs chosen cells one after the other and writes a line of JSON for each, then a table::

    python tests/faults/kill_cells.py --results FILE [--rig NAME ...] [--event NAME ...] [--state NAME ...]
    python tests/faults/kill_cells.py --results FILE --table
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.archive import Run, recover
from bench.profile import load_rig
from bench.safety import ledger
from bench.safety.lease import LeaseBook
from bench.twin.process import TwinProcess, start_twin

REPOSITORY = Path(__file__).resolve().parents[2]
EVENTS = ("SIGINT", "SIGTERM", "SIGHUP", "SIGKILL", "SIGSTOP", "hung", "memory", "disk")
STATES = ("idle", "free", "contact", "writing")
WALL_S, END_S = 120.0, 60.0
#: What the twin's own pacing and a busy machine may add to what it writes down [s]: its process has to get its turn.
NOISE_S = 0.15
#: Times a run may be ended by a machine too busy for it before it comes to the state that was asked for.
TRIES = 5
STILL_MM, NO_TORQUE_NM = 1e-6, 0.01

Report = dict[str, Any]


@dataclass(frozen=True)
class Bench:
    """How a rig is brought to a state. ``states``: procedure, specimen, and what the twin reports then."""

    states: dict[str, tuple[str, str, Callable[[Report], bool]]]
    changes: tuple[tuple[str, str], ...] = ()


def _pressing(report: Report) -> bool:
    return bool(report["force_N"] > 0.5 and report["moving"])


def _approaching(report: Report) -> bool:
    return bool(report["speed_mm_s"] > 0.5 and abs(report["force_N"]) < 0.05)  # homing goes the other way


def _turning(report: Report) -> bool:
    return abs(report["joint_speed_rad_s"]) > 0.05


def _loading(report: Report) -> bool:
    return abs(report["joint_torque_Nm"]) > 2.0


def _arm_moving(report: Report) -> bool:
    return bool(report["moving"] and not report["braked"])


def _powered(report: Report) -> bool:
    return bool(report["powered"])


def _arm_pressing(report: Report) -> bool:
    return bool(report["tip_force_N"] > 1.0 and not report["braked"])


BENCHES = {
    "indenter": Bench(
        {
            "free": ("indentation_short", "liver_phantom_a", _approaching),
            "contact": ("indentation_short", "liver_phantom_a", _pressing),
        }
    ),
    # A machine that is busy must not miss ticks in a row; the drive's own watchdog and the stated time stay.
    "single_joint": Bench(
        {
            "free": ("low_speed_tracking", "pendulum_arm", _turning),
            "contact": ("stiffness_ramp", "output_lock", _loading),
        },
        (
            ('rate = "500 Hz"', 'rate = "250 Hz"'),
            ("max_missed = 10", "max_missed = 100"),
            ('drain = "100 ms"', 'drain = "50 ms"'),
            ('watchdog_timeout = "100 ms"', 'watchdog_timeout = "150 ms"'),
        ),
    ),
    "full_arm": Bench(
        {
            "free": ("arm_tracking_short", "bare_tool", _arm_moving),
            "contact": ("approach_touch_short", "arm_phantom_a", _arm_pressing),
        },
        (
            ('\nwatchdog = "100 ms"', '\nwatchdog = "200 ms"'),
            ("max_missed = 10", "max_missed = 45"),
            ('reply_deadline = "10 ms"', 'reply_deadline = "40 ms"'),
            ('watchdog_timeout = "100 ms"', 'watchdog_timeout = "200 ms"'),
        ),
    ),
}


class NotReached(Exception):
    """The run was over before the state was there."""


@dataclass
class Cell:
    """What was found. Times are after the event, as the twin saw it [s]; None where there was no power to take.

    ``problems`` is empty where all that is asked holds.
    """

    rig: str
    event: str
    state: str
    stated_s: float
    line_s: float | None = None
    safe_s: float | None = None
    archives: list[str] = field(default_factory=list)
    rows: str = ""
    exit: int | None = None
    ended_s: float = 0.0
    tries: int = 1
    told: str = ""
    problems: list[str] = field(default_factory=list)


def run_cell(rig: str, event: str, state: str, folder: Path) -> Cell:
    """Let ``event`` befall a program in ``state`` and return what was left. ``folder`` is for files, made anew."""
    for left in reversed(range(TRIES)):
        place = folder / f"{rig}-{event}-{state}-{left}"
        place.mkdir(parents=True)
        before = os.environ.get("BENCH_STATE_DIR")
        os.environ["BENCH_STATE_DIR"] = str(place / "machine")
        try:
            cell = _once(rig, event, state, place)
            cell.tries = TRIES - left
            return cell
        except NotReached as error:
            if not left:
                said = place / "said.txt"
                raise NotReached(f"{str(error)[:300]} {said.read_text(errors='replace')[-600:]}") from error
        finally:
            if before is None:
                del os.environ["BENCH_STATE_DIR"]
            else:
                os.environ["BENCH_STATE_DIR"] = before
    raise AssertionError


def _once(rig: str, event: str, state: str, place: Path) -> Cell:
    bench, profiles = BENCHES[rig], REPOSITORY / "profiles"
    procedure, specimen, reached = bench.states["contact" if state == "contact" else "free"]
    profile = _profile(profiles / f"rigs/{rig}.toml", bench.changes, place)
    truth = profiles / f"twins/{rig}.toml"
    given = {
        "rig": str(profile),
        "twin": str(truth),
        "specimen": str(profiles / f"specimens/{specimen}.toml"),
        "procedure": str(profiles / f"procedures/{procedure}.toml"),
        "results": str(place / "results"),
        "event": event,
        "state": state,
        **{name: str(place / name) for name in ("trigger", "struck", "committed")},
    }
    Path(given["results"]).mkdir()
    safety: Any = load_rig(profile)
    cell = Cell(rig, event, state, safety.safety.stop_time.to("s"))
    with start_twin(profile, truth, specimen, linger=True, real_time=True) as twin:
        given["attach"] = twin.addresses  # type: ignore[assignment]
        with _runner(given) as (runner, watchdog):
            if state == "idle":
                time.sleep(0.5)
            else:
                _wait(twin, runner, reached)
            struck_ns = _strike(twin, runner, given, by_itself=state == "writing" or not event.startswith("SIG"))
            began = time.monotonic()
            if state != "idle":
                _find_times(cell, twin, struck_ns)
            _see_the_end(cell, runner, watchdog)
            cell.ended_s = time.monotonic() - began
        _look_at_archive(cell, Path(given["results"]), Path(given["committed"]))
        _look_at_leases(cell, watchdog)
        _look_at_next_run(cell, twin, given, reached)
        pid = twin.pid
    deadline = time.monotonic() + END_S
    while _exists(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    _check(cell, not _exists(pid), "the twin stays")
    return cell


def _profile(source: Path, changes: Sequence[tuple[str, str]], place: Path) -> Path:
    text = source.read_text(encoding="utf-8")
    for old, new in changes:
        if old not in text:
            raise AssertionError(f"{old} is not in {source}")
        text = text.replace(old, new)
    for named in source.parent.iterdir():  # what the profile names stands beside it
        text = text.replace(f'"{named.name}"', f'"{named}"')
    changed = place / source.name
    changed.write_text(text, encoding="utf-8")
    return changed


@contextlib.contextmanager
def _runner(given: dict[str, Any]) -> Iterator[tuple[subprocess.Popen[str], int]]:
    program = Path(__file__).with_name("kill_runner.py")
    with (
        open(Path(given["results"]).with_name("said.txt"), "a", encoding="utf-8") as said,
        subprocess.Popen(
            [sys.executable, str(program), json.dumps(given)],
            stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY), os.environ.get("PYTHONPATH", "")])},
        ) as runner,
    ):  # fmt: skip
        assert runner.stdout is not None
        try:
            line = runner.stdout.readline()
            if not line:
                said.flush()
                raise NotReached(Path(said.name).read_text(errors="replace")[-500:])
            yield runner, json.loads(line)["watchdog"]
        finally:
            runner.kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(runner.pid, signal.SIGKILL)


def _wait(twin: TwinProcess, runner: subprocess.Popen[str], reached: Callable[[Report], bool]) -> None:
    deadline = time.monotonic() + WALL_S
    while not reached(report := twin.control.report()):
        if runner.poll() is not None:
            raise NotReached(f"it ended with {runner.returncode}; the rig: {report}")
        if time.monotonic() >= deadline:
            raise NotReached(f"not there within {WALL_S:g} s: {report}")
        time.sleep(0.01)


def _strike(twin: TwinProcess, runner: subprocess.Popen[str], given: dict[str, Any], *, by_itself: bool) -> int:
    """Let it happen; the twin's time of it [ns]."""
    if not by_itself:
        struck_ns = twin.control.now_ns()
        runner.send_signal(getattr(signal, given["event"]))
        return struck_ns
    ahead_ns = twin.control.now_ns() - time.monotonic_ns()
    Path(given["trigger"]).touch()
    struck, deadline = Path(given["struck"]), time.monotonic() + END_S
    while not (struck.exists() and struck.read_text()):
        if runner.poll() is not None or time.monotonic() >= deadline:
            raise NotReached("the event did not happen")
        time.sleep(0.002)
    return int(struck.read_text()) + ahead_ns


def _find_times(cell: Cell, twin: TwinProcess, struck_ns: int) -> None:
    """When the line fell, and when the last motion or torque was, after the event."""
    deadline = time.monotonic() + END_S
    while twin.control.report()["enable"]:
        if time.monotonic() >= deadline:
            cell.problems.append("the enable line stays high")
            return
        time.sleep(0.01)
    time.sleep(0.3)
    fallen = [time_ns for time_ns, text in twin.control.log() if text == "enable off" and time_ns >= struck_ns]
    _check(cell, bool(fallen), "the enable line was low before the event")
    if not fallen:
        return
    cell.line_s = (min(fallen) - struck_ns) * 1e-9
    history, tick_s = twin.control.history(), twin.control.truth()["tick_s"]
    if cell.rig == "indenter":
        active = np.abs(np.diff(history["travel_mm"])) > STILL_MM
    else:
        motors = [values for name, values in history.items() if name.startswith("motor_") and "torque" in name]
        active = np.any(np.abs(motors) > (NO_TORQUE_NM if cell.rig == "full_arm" else NO_TORQUE_NM / 100.0), axis=0)
    last = np.flatnonzero(active)
    cell.safe_s = ((int(last[-1]) + 1) * tick_s - struck_ns * 1e-9) if len(last) else 0.0
    bound = cell.stated_s + NOISE_S
    _check(cell, cell.line_s <= bound, f"line low after {cell.line_s:.3f} s")
    _check(cell, cell.safe_s <= bound, f"still driven {cell.safe_s:.3f} s after")


def _see_the_end(cell: Cell, runner: subprocess.Popen[str], watchdog: int) -> None:
    try:
        cell.exit = runner.wait(END_S)
    except subprocess.TimeoutExpired:
        cell.problems.append(f"the program stays for more than {END_S:g} s")
        return
    deadline = time.monotonic() + END_S
    while _exists(watchdog) and time.monotonic() < deadline:
        time.sleep(0.02)
    _check(cell, not _exists(watchdog), "the watchdog stays")
    left = [path.name for path in Path("/dev/shm").glob(f"bench-watchdog-{runner.pid}-*")]
    _check(cell, not left, f"shared memory is left: {left}")


def _look_at_archive(cell: Cell, results: Path, committed: Path) -> None:
    """Each archive opens, recovered where it has to be, and the last has every row that was committed."""
    archives = sorted(path for path in results.glob("*.h5"))
    if cell.state != "idle":
        _check(cell, bool(archives), "there is no archive")
    for path in archives:
        partial = path.name.endswith(".partial.h5")
        try:
            opened = recover(path) if partial else path
            with Run.open(opened) as run:
                cell.archives.append(f"{run.status}{', recovered' if partial else ''}")
        except Exception as error:
            cell.problems.append(f"{path.name}: {type(error).__name__}: {error}")
            return
    if not archives or not committed.exists():
        return
    wanted: dict[str, int] = json.loads(committed.read_text())
    with h5py.File(opened, "r") as file:
        found = {name: _rows(file, name) for name in wanted}
    cell.rows = ", ".join(f"{name} {found[name]} of {rows}" for name, rows in wanted.items())
    for name, rows in wanted.items():
        _check(cell, found[name] >= rows > 0, f"{name}: {found[name]} rows of {rows} committed")


def _rows(file: h5py.File, group: str) -> int:
    """Rows that every channel of a group has; beside each stands a list of its columns' names."""
    channels = {name: item for name, item in file["entry"][group].items() if not name.endswith("_channel")}
    return min(int(channel.shape[0]) for channel in channels.values())


def _look_at_leases(cell: Cell, watchdog: int) -> None:
    deadline = time.monotonic() + 5.0
    while (held := LeaseBook().holders()) and time.monotonic() < deadline:
        time.sleep(0.05)
    _check(cell, not held, f"leases are held: {held}")
    entries = [entry for entry in ledger.Ledger().entries() if entry.kind in ("watchdog", "quarantine")]
    cell.told = "; ".join(f"{entry.kind}: {entry.fields.get('why', '')}" for entry in entries)
    bad = [entry for entry in entries if entry.kind == "quarantine" or not entry.fields.get("safe", True)]
    _check(cell, not bad, f"not seen safe: {[entry.fields for entry in bad]}")


def _look_at_next_run(cell: Cell, twin: TwinProcess, given: dict[str, Any], reached: Callable[[Report], bool]) -> None:
    """Another program opens the rig and comes to its motion; with an arm, which a person has to bring back to its start
    first, to its power."""
    if cell.rig == "full_arm":
        reached = _powered
    with contextlib.suppress(FileNotFoundError):
        Path(given["trigger"]).unlink()
    said = ""
    for _ in range(TRIES):
        twin.control.reset()
        try:
            with _runner({**given, "event": "none", "state": "next"}) as (runner, _watchdog):
                _wait(twin, runner, reached)
                runner.send_signal(signal.SIGTERM)
                runner.wait(END_S)
                return
        except NotReached as error:
            said = f"{error}; {Path(given['results']).with_name('said.txt').read_text(errors='replace')[-300:]}"
    cell.problems.append(f"the next run does not start: {said}")


def _exists(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _check(cell: Cell, holds: bool, problem: str) -> None:
    if not holds:
        cell.problems.append(problem)


# -- as a script ------------------------------------------------------------------------------------------------------


def table(cells: Sequence[Cell]) -> str:
    """Return the cells as a table in Markdown: line low / no torque or still, in ms after the event."""
    lines = []
    for rig in dict.fromkeys(cell.rig for cell in cells):
        of_rig = {(cell.event, cell.state): cell for cell in cells if cell.rig == rig}
        stated = next(iter(of_rig.values())).stated_s
        lines += [f"\n### {rig} (stated: {stated * 1e3:.0f} ms)\n", f"| event | {' | '.join(STATES)} |"]
        lines.append("|---" * (1 + len(STATES)) + "|")
        for event in EVENTS:
            lines.append(f"| {event} | {' | '.join(_told(of_rig.get((event, state))) for state in STATES)} |")
    return "\n".join(lines) + "\n"


def _told(cell: Cell | None) -> str:
    if cell is None:
        return "not run"
    if cell.problems:
        return "**" + "; ".join(cell.problems)[:120] + "**"
    if cell.line_s is None or cell.safe_s is None:
        return f"no power; ended after {cell.ended_s:.1f} s"
    return f"{cell.line_s * 1e3:.0f} / {max(0.0, cell.safe_s) * 1e3:.0f}; {cell.archives[-1]}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path, required=True)
    parser.add_argument("--table", action="store_true")
    for name, known in (("rig", tuple(BENCHES)), ("event", EVENTS), ("state", STATES)):
        parser.add_argument(f"--{name}", action="append", choices=known)
    asked = parser.parse_args()
    lines = asked.results.read_text(encoding="utf-8").splitlines() if asked.results.exists() else []
    cells = {(cell.rig, cell.event, cell.state): cell for cell in (Cell(**json.loads(line)) for line in lines)}
    if asked.table:
        print(table(list(cells.values())))
        return int(any(cell.problems for cell in cells.values()))
    bad = False
    for rig in asked.rig or BENCHES:
        for state in asked.state or STATES:
            for event in asked.event or EVENTS:
                with tempfile.TemporaryDirectory() as folder:
                    try:
                        cell = run_cell(rig, event, state, Path(folder))
                    except NotReached as error:
                        print(f"{rig} {event} {state}: not reached: {error}", flush=True)
                        bad = True
                        continue
                with open(asked.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(cell)) + "\n")
                print(f"{rig} {event} {state}: {_told(cell)} (try {cell.tries}; {cell.rows}; {cell.told})", flush=True)
                bad = bad or bool(cell.problems)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main())
