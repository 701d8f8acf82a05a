"""What ``perform`` and ``judge`` add to a test, against plain pytest with a session fixture and ``record_property``.

Sessions of generated tests run as processes of their own, interleaved; start-up is taken out by differences between
session lengths. Times are CPU times of the child, which a busy machine moves little; the least of the repeats counts.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter

pytestmark = [pytest.mark.performance, pytest.mark.slow]

SIZES = (1, 100, 1000)
REPEATS = 4
ADDED = 1.6
LINEAR = 1.25

PLAIN = """
import pytest

@pytest.fixture(scope="session")
def resource():
    return object()

"""
PLAIN_TEST = "def test_{:04d}(resource, record_property): record_property('value', 1.0)\n"
BENCH_TEST = "def test_{:04d}(perform, judge): judge('contact_model', perform('indentation'))\n"

# The run is archived and open already, the verdict is made: what is left is what the plug-in itself does.
BENCH_CONFTEST = """
import dataclasses
import pytest
from bench.acceptance import Outcome, Row, Verdict

row = Row("peak_force", "peak_force_deviation", 4.25, 1.26, 10.0, "%", Outcome.PASS)
verdict = Verdict(Outcome.PASS, (row,), "", "contact_model", "1", "", "run.h5", "", True, "0")


@pytest.fixture(scope="session")
def bench_parts(bench_parts):
    return dataclasses.replace(
        bench_parts, judge=lambda run, criteria: verdict, add_verdict=lambda path, record: path
    )
"""


def child_seconds() -> float:
    """CPU time of finished children [s]; wall time where the system does not count it."""
    times = os.times()
    used = times.children_user + times.children_system
    return used if used > 0 or os.name != "nt" else time.perf_counter()


def session(folder: Path, size: int, *arguments: str) -> float:
    """Run the generated session of ``size`` tests and return its seconds."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST")}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"test_{size}.py", *arguments]
    begin = child_seconds()
    result = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    seconds = child_seconds() - begin
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr
    assert f"{size} passed" in result.stdout
    return seconds


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Folders of plain and bench sessions, and an archived run."""
    plain, bench = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("bench")
    provenance = Provenance("nobody", "phantom", "indentation", "indenter", datetime.now(UTC), "mock", True)
    groups = [GroupSpec("force", (DatasetSpec("contact", "N", "force", ("contact_force",)),), 100.0, 10)]
    with RunWriter.create(bench, "indentation", provenance, groups) as writer:
        writer.append("force", {"contact": np.zeros((10, 1))}, np.arange(10) / 100)
        archive = writer.close("COMPLETE")
    root_conftest = Path(__file__).resolve().parents[2] / "conftest.py"
    (bench / "conftest.py").write_text(root_conftest.read_text(encoding="utf-8") + BENCH_CONFTEST, encoding="utf-8")
    for size in SIZES:
        numbers = range(size)
        (plain / f"test_{size}.py").write_text(PLAIN + "".join(map(PLAIN_TEST.format, numbers)), encoding="utf-8")
        (bench / f"test_{size}.py").write_text("".join(map(BENCH_TEST.format, numbers)), encoding="utf-8")
    return plain, bench, archive


def test_perform_and_judge_cost_little_and_grow_linearly(
    generated: tuple[Path, Path, Path], record_property: Callable[[str, object], None]
) -> None:
    plain, bench, archive = generated
    kinds = {
        "plain": (plain, ("-p", "no:forcebench")),
        "bench": (bench, ("--backend=replay", f"--archive={archive}")),
    }
    least: dict[tuple[str, int], float] = {}
    for repeat in range(REPEATS + 1):
        for size in SIZES:
            for kind, (folder, arguments) in kinds.items():
                seconds = session(folder, size, *arguments)
                if repeat:  # the first round only compiles
                    least[kind, size] = min(seconds, least.get((kind, size), seconds))
    short, middle, long = SIZES
    each = {kind: (least[kind, long] - least[kind, short]) / (long - short) for kind in kinds}
    early = {kind: (least[kind, middle] - least[kind, short]) / (middle - short) for kind in kinds}
    added, growth = each["bench"] / each["plain"], each["bench"] / early["bench"]
    for kind in kinds:
        record_property(f"{kind}_ms_per_test", 1e3 * each[kind])
        record_property(f"{kind}_ms_per_test_of_100", 1e3 * early[kind])
        record_property(f"{kind}_start_up_s", least[kind, short])
    record_property("ratio", added)
    record_property("growth", growth)
    print(f"plain {1e3 * each['plain']:.3f} ms, bench {1e3 * each['bench']:.3f} ms a test: {added:.2f} x; ", end="")
    print(
        f"at 1000 tests {growth:.2f} x the cost at 100; start-up {least['plain', 1]:.2f} and {least['bench', 1]:.2f} s"
    )
    assert added <= ADDED
    assert growth <= LINEAR
