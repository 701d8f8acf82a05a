"""Fixtures every test may use."""

from __future__ import annotations

import os
from pathlib import Path

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
