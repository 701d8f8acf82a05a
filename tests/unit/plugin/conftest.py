"""A lab's repository whose parts are exchanged through the seam `bench_parts`."""

from __future__ import annotations

from pathlib import Path

import pytest

# Loaded here and now: pytester forgets after each inner session what was imported in it, and numpy loads once only.
import bench.acceptance
import bench.archive
import bench.procedures
import bench.profile  # noqa: F401
import fixtures.session  # noqa: F401

# A lab whose station is a plain object, whose procedure writes a real archive, whose judge says $FAKE_OUTCOME.
LAB = """
import contextlib
import dataclasses
import os
from datetime import UTC, datetime

import numpy as np
from bench.acceptance import Outcome, Row, Verdict
from bench.archive import DatasetSpec, GroupSpec, Provenance, RunWriter
from bench.errors import InstrumentDisconnected, LimitError, SafetyAbort
from bench.procedures.overrides import with_overrides

LOG = []
BROKEN = []


@contextlib.contextmanager
def open_station(rig, backend, *, twin, specimen, seed, faults=(), operator="", prompter=None):
    LOG.append(f"open {rig.name} {backend} {twin.name if twin else None} {specimen.name} {seed}")
    BROKEN[:] = faults
    LOG.extend(f"fault {fault}" for fault in faults)
    if os.environ.get("FAKE_UNPLUGGED"):
        raise InstrumentDisconnected("the stage is gone", where="stage", remedy="Plug it in")
    yield rig
    LOG.append(f"close {specimen.name}")
    if os.environ.get("FAKE_STUCK"):
        raise SafetyAbort("the enable line still reads high", reason="safe_state_failed", remedy="Press the e-stop")


@pytest.fixture(scope="session", autouse=True)
def log():
    yield
    with open("log.txt", "w") as file:
        file.write("\\n".join(LOG) + "\\n")


def run_procedure(station, procedure, specimen, *, operator, results_dir, criteria_texts, progress, overrides):
    procedure = with_overrides(procedure, overrides)
    LOG.append(f"perform {procedure.name} x{procedure.replicates} on {specimen.name} for {operator}")
    progress("pressing 1 of 2", 0.25)
    progress("pressing 2 of 2", 0.75)
    abort = os.environ.get("FAKE_ABORT") or (BROKEN and BROKEN[0]["name"])
    if abort == "limit":
        raise LimitError("70 mm is outside the travel", reason="travel_limit")
    if abort:
        raise SafetyAbort("stopped", reason=abort)
    provenance = Provenance(
        operator=operator, specimen=specimen.name, procedure=procedure.name, rig=station.name,
        started_utc=datetime.now(UTC), backend="mock", simulated=True, seed=1,
        texts={**criteria_texts, "procedure.toml": procedure.source.text}, details={"overrides": overrides},
    )
    groups = [GroupSpec("force", (DatasetSpec("contact", "N", "force", ("contact_force",)),), 100.0, 10)]
    with RunWriter.create(results_dir, procedure.name, provenance, groups) as writer:
        writer.append("force", {"contact": np.zeros((10, 1))}, np.arange(10) / 100)
        return writer.close("COMPLETE")


def judge(run, criteria):
    outcome = Outcome(os.environ.get("FAKE_OUTCOME", "PASS"))
    value = float("nan") if outcome in ("ERROR", "NOT-RUN") else 4.25
    row = Row("peak_force", "peak_force_deviation", value, 1.26, 10.0, "%", outcome, "as the test wants it")
    return Verdict(
        outcome, (row,), "contact stiffness explains it", criteria.name, criteria.version, criteria.source.sha256,
        run.path.name, run.digest, run.simulated, "0",
    )


@pytest.fixture(scope="session")
def bench_parts(bench_parts):
    return dataclasses.replace(
        bench_parts, open_station=open_station, run_procedure=run_procedure, judge=judge,
        stop_unwatched=lambda station: bool(os.environ.get("FAKE_MOVING")),
    )
"""


@pytest.fixture
def lab(pytester: pytest.Pytester, repository: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """A lab's repository with the conftest of a checkout and exchanged parts; the profiles are the bench's own."""
    for name in ("FAKE_OUTCOME", "FAKE_ABORT", "FAKE_UNPLUGGED", "FAKE_MOVING", "FAKE_STUCK"):
        monkeypatch.delenv(name, raising=False)
    pytester.makeconftest((repository / "conftest.py").read_text(encoding="utf-8") + LAB)
    return pytester
