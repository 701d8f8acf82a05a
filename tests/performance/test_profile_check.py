"""Checking the whole folder of profiles, as an editor or a commit hook does: a process of its own each time."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = pytest.mark.performance

ROUNDS = 7


def test_a_check_of_the_folder_is_little_more_than_the_import_of_the_validator(
    repository: Path, record_property: Callable[[str, object], None]
) -> None:
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    commands = {
        "check": [sys.executable, "-m", "bench.cli", "check", str(repository / "profiles")],
        "import": [sys.executable, "-c", "import pydantic; pydantic.BaseModel, pydantic.TypeAdapter"],
    }
    taken: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment, cwd=repository)
            taken[name].append(time.perf_counter() - start)
    ratio = statistics.median(c / i for c, i in zip(taken["check"], taken["import"], strict=True))
    told = f"{statistics.median(taken['check']):.2f} s, {ratio:.2f} x the import of pydantic alone"
    record_property("profile_check", told)
    print(told)
    assert ratio <= 3.0, told
