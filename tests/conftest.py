"""Fixtures every test may use."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def repository() -> Path:
    """The checkout's root."""
    return ROOT


@pytest.fixture(scope="session")
def reference_data() -> Path:
    """Folder of real measurements; the test is skipped where there is none."""
    named = os.environ.get("BENCH_REFERENCE_DATA")
    folder = Path(named) if named else ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("no reference data: set BENCH_REFERENCE_DATA to the folder that holds it")
    return folder


@pytest.fixture(scope="session")
def open_rig(repository: Path) -> Callable[..., Any]:
    """``open_rig(specimen, rig="indenter", seed=…, **options)``: a station on the twin, to be used in ``with``."""

    def open_rig(specimen: str = "liver_phantom_a", *, rig: str = "indenter", **options: Any) -> Any:
        from bench.profile import load_rig, load_specimen, load_twin
        from bench.station import open_station

        profiles = repository / "profiles"
        return open_station(
            load_rig(profiles / "rigs" / f"{rig}.toml"),
            "mock",
            twin=load_twin(profiles / "twins" / f"{rig}.toml"),
            specimen=load_specimen(profiles / "specimens" / f"{specimen}.toml"),
            **options,
        )

    return open_rig
