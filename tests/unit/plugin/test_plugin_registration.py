"""The plug-in is there once, installed or not, in a checkout or a lab's repository; other sessions do not pay."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fixtures.options import Settings, refuse_parallel_lab, worker_count

TEST = "def test_press(perform, judge, pytestconfig): assert pytestconfig.pluginmanager.has_plugin('forcebench')\n"


@pytest.fixture
def environment(repository: Path, tmp_path: Path) -> dict[str, dict[str, str]]:
    """Environment variables of a machine with the bench installed, and of one with only a checkout on the path."""
    bare = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    path = [str(repository), os.environ.get("PYTHONPATH", "")]
    installed = list(path)
    if not importlib.metadata.entry_points(group="pytest11", name="forcebench"):
        metadata = tmp_path / "site" / "forcebench-0.dist-info"
        metadata.mkdir(parents=True)
        (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: forcebench\nVersion: 0\n", encoding="utf-8")
        (metadata / "entry_points.txt").write_text("[pytest11]\nforcebench = fixtures.plugin\n", encoding="utf-8")
        installed.append(str(metadata.parent))
    return {
        "installed": {**bare, "PYTHONPATH": os.pathsep.join(filter(None, installed))},
        # Without entry points pytest sees a machine on which nothing is installed.
        "path only": {
            **bare, "PYTHONPATH": os.pathsep.join(filter(None, path)), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"
        },
    }  # fmt: skip


def run_pytest(folder: Path, environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=120, encoding="utf-8", check=False
    )


@pytest.fixture
def checkout(tmp_path: Path, repository: Path) -> Path:
    """A folder with what registration in a checkout rests on: conftest.py, ini options, tests in a subfolder."""
    folder = tmp_path / "checkout"
    (folder / "tests" / "acceptance").mkdir(parents=True)
    for name in ("conftest.py", "pyproject.toml"):
        (folder / name).write_text((repository / name).read_text(encoding="utf-8"), encoding="utf-8")
    (folder / "tests" / "acceptance" / "test_press.py").write_text(TEST, encoding="utf-8")
    return folder


@pytest.mark.parametrize("machine", ["installed", "path only"])
@pytest.mark.parametrize(
    ("subfolder", "arguments"),
    [
        ("", ()),
        ("", ("tests/acceptance", "--rig", "indenter", "--backend", "mock")),
        ("tests/acceptance", ()),
        ("tests", ("acceptance/test_press.py::test_press", "--seed", "3")),
        (".", ("-p", "no:forcebench", "--collect-only")),
    ],
    ids=["root", "options", "subfolder", "node id", "switched off"],
)
def test_a_checkout_has_the_plugin_once(
    checkout: Path, environment: dict[str, dict[str, str]], machine: str, subfolder: str, arguments: tuple[str, ...]
) -> None:
    result = run_pytest(checkout / subfolder, environment[machine], *arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    assert ("bench: rig indenter" in result.stdout) == ("no:forcebench" not in arguments)


def test_a_labs_own_repository_needs_no_conftest(tmp_path: Path, environment: dict[str, dict[str, str]]) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "test_lab.py").write_text(TEST, encoding="utf-8")
    result = run_pytest(lab, environment["installed"], "--rig", "indenter")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "bench: rig indenter, backend mock (SIMULATED)" in result.stdout


def test_a_labs_repository_may_copy_the_conftest(
    tmp_path: Path, environment: dict[str, dict[str, str]], repository: Path
) -> None:
    lab = tmp_path / "lab"
    lab.mkdir()
    (lab / "test_lab.py").write_text(TEST, encoding="utf-8")
    (lab / "conftest.py").write_text((repository / "conftest.py").read_text(encoding="utf-8"), encoding="utf-8")
    for machine in environment.values():
        result = run_pytest(lab, machine, "--backend", "mock")
        assert result.returncode == 0, result.stdout + result.stderr


def test_the_options_are_in_the_help(checkout: Path, environment: dict[str, dict[str, str]]) -> None:
    for machine in environment.values():
        text = run_pytest(checkout, machine, "--help").stdout
        for option in (
            "--rig=NAME",
            "--backend=",
            "--specimen=NAME",
            "--operator=TEXT",
            "--archive=PATH",
            "--accept-marginal",
        ):
            assert option in text


def test_importing_the_plugin_loads_nothing_heavy() -> None:
    code = (
        "import sys, pytest, argparse, weakref, dataclasses, pathlib; before = set(sys.modules); "
        "import fixtures.plugin; "
        "print(*sorted(set(sys.modules) - before))"
    )
    loaded = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()
    assert set(loaded) <= {"__future__", "fixtures", "fixtures.options", "fixtures.plugin"}


def test_a_session_without_bench_tests_loads_nothing_of_the_bench(
    tmp_path: Path, environment: dict[str, dict[str, str]]
) -> None:
    (tmp_path / "test_theirs.py").write_text(
        "import sys\n"
        "def test_theirs():\n"
        "    heavy = {'numpy', 'pydantic', 'h5py', 'pint', 'bench'}\n"
        "    heavy |= {'fixtures.session', 'fixtures.judging', 'fixtures.summary'}\n"
        "    assert not heavy & set(sys.modules)\n",
        encoding="utf-8",
    )
    result = run_pytest(tmp_path, environment["installed"], "test_theirs.py")
    assert result.returncode == 0, result.stdout
    assert "bench: rig" not in result.stdout


class Workers:
    """The part of a session's configuration pytest-xdist fills in."""

    def __init__(self, tx: list[str] | None = None, workerinput: dict[str, int] | None = None) -> None:
        self.option = type("Option", (), {"tx": tx})()
        if workerinput is not None:
            self.workerinput = workerinput


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (Workers(), 1),
        (Workers(tx=[]), 1),
        (Workers(tx=["popen"] * 3), 3),
        (Workers(workerinput={"workercount": 2}), 2),
        (Workers(workerinput={"workercount": 1}), 1),
    ],
)
def test_only_one_process_may_open_a_real_rig(config: pytest.Config, count: int) -> None:
    assert worker_count(config) == count
    refuse_parallel_lab(Settings(backend="mock"), count)
    if count == 1:
        refuse_parallel_lab(Settings(backend="lab"), count)
    else:
        with pytest.raises(pytest.UsageError, match="every worker would open the rig"):
            refuse_parallel_lab(Settings(backend="lab"), count)


def test_xdist_workers_are_refused_on_the_lab_and_their_verdicts_reach_the_table(
    tmp_path: Path, environment: dict[str, dict[str, str]]
) -> None:
    pytest.importorskip("xdist")
    (tmp_path / "conftest.py").write_text(
        "import dataclasses\n"
        "import pytest\n"
        "from bench.acceptance import Outcome, Row, Verdict\n"
        "row = Row('peak', 'peak_force_deviation', 1.0, 0.5, 10.0, '%', Outcome.PASS)\n"
        "verdict = Verdict(Outcome.PASS, (row,), '', 'contact_model', '1', '', 'run.h5', '', True, '0')\n"
        "@pytest.fixture(scope='session')\n"
        "def bench_parts(bench_parts):\n"
        "    return dataclasses.replace(\n"
        "        bench_parts, judge=lambda run, criteria: verdict, add_verdict=lambda path, record: path)\n",
        encoding="utf-8",
    )
    test = "def test_{}(judge): judge('contact_model', 'run_{}.h5')\n"
    (tmp_path / "test_lab.py").write_text("".join(test.format(i, i) for i in range(4)), encoding="utf-8")
    result = run_pytest(tmp_path, environment["installed"], "-n", "2")
    assert result.returncode == 0, result.stdout + result.stderr
    assert all(f"run_{i}.h5 (SIMULATED)" in result.stdout for i in range(4))
    result = run_pytest(tmp_path, environment["installed"], "-n", "2", "--backend", "lab", "--operator", "A. B.")
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "every worker would open the rig" in result.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
def test_progress_on_a_terminal_is_one_line_that_is_taken_back(
    tmp_path: Path, environment: dict[str, dict[str, str]]
) -> None:
    import pty

    (tmp_path / "test_long.py").write_text(
        "def test_long(pytestconfig):\n"
        "    from fixtures.progress import Progress\n"
        "    times = iter(range(9))\n"
        "    progress = Progress(pytestconfig, clock=lambda: next(times))\n"
        "    print('captured')\n"
        "    progress('pressing 1 of 2', 0.25)\n"
        "    progress('lifting', None)\n"
        "    progress.finish()\n",
        encoding="utf-8",
    )
    leader, follower = pty.openpty()
    command = [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "test_long.py"]
    child = subprocess.Popen(
        command, cwd=tmp_path, env={**environment["installed"], "COLUMNS": "80"}, stdout=follower, stderr=follower
    )
    os.close(follower)
    written = b""
    while True:
        try:
            block = os.read(leader, 4096)
        except OSError:  # the child closed its end
            break
        if not block:
            break
        written += block
    os.close(leader)
    assert child.wait(timeout=60) == 0, written.decode()
    text = written.decode()
    assert " pressing 1 of 2 (25 %)" in text
    assert "captured" not in text
    line = screen(text)
    assert any(row.startswith("test_long.py .") for row in line), line
    assert not any("pressing" in row or "lifting" in row for row in line), "the line was not taken back"


def screen(text: str) -> list[str]:
    """Return what a terminal shows: backspaces and carriage returns applied, colours left out."""
    import re

    rows: list[str] = []
    row: list[str] = []
    column = 0
    for character in re.sub(r"\x1b\[[0-9;]*[mK]", "", text):
        if character == "\n":
            rows.append("".join(row))
            row, column = [], 0
        elif character == "\r":
            column = 0
        elif character == "\b":
            column -= 1
        else:
            row[column : column + 1] = [character]
            column += 1
    return [*rows, "".join(row)]


def test_a_checkout_that_cannot_be_imported_says_what_to_do(
    checkout: Path, environment: dict[str, dict[str, str]]
) -> None:
    (checkout / "fixtures.py").write_text("raise ModuleNotFoundError('No module named bench')\n", encoding="utf-8")
    machine = environment["path only"]
    path = os.pathsep.join([str(checkout), machine["PYTHONPATH"]])
    result = run_pytest(checkout, {**machine, "PYTHONPATH": path})
    assert result.returncode == pytest.ExitCode.USAGE_ERROR
    assert "the bench cannot be imported" in result.stderr
    assert "pip install -e ." in result.stderr
