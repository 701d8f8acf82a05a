"""How much faster than the lab's is the twin's time, for the whole indentation procedure over the wire."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run
from bench.procedures import perform
from bench.profile import load_procedure, load_specimen

pytestmark = [pytest.mark.performance, pytest.mark.slow]

FASTER = 30.0


def test_the_whole_indentation_runs_thirty_times_faster_than_in_the_lab(
    open_rig: Callable[..., Any],
    repository: Path,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    procedure = load_procedure(repository / "profiles/procedures/indentation.toml")
    specimen = load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")
    with open_rig("liver_phantom_a", seed=1) as station:
        world, start = station.clock.now_ns(), time.perf_counter()
        path = perform(station, procedure, specimen, operator="A. Tester", results_dir=tmp_path)
        wall = time.perf_counter() - start
        simulated = (station.clock.now_ns() - world) * 1e-9
    with Run.open(path) as run:
        assert run.status == "COMPLETE"
        recorded = len(run.get("contact_force").values) / 1000.0
    assert simulated > 300.0
    assert recorded == pytest.approx(simulated, abs=3.0)
    ratio = simulated / wall
    told = f"{simulated:.0f} s in {wall:.1f} s, {ratio:.1f} x real time"
    record_property("twin_speed", told)
    print(told)
    assert ratio >= FASTER, told
