"""Many simulated joints, each identified over the wire: are friction, stiffness and inertia what the truth says?

Friction sweep and excitation with the pendulum arm, stiffness ramp with the output locked, each joint with friction,
gear, inertia and transducer of its own. Two seeds by default; ``make truth`` takes thirty (``BENCH_TRUTH_SEEDS=30``,
some minutes), enough to hold the coverage of U between 90 and 99 %. With fewer, the bound is the least count that a
true coverage of 95 % gives in 999 of 1000 cases.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

WORKER = Path(__file__).with_name("joint_truth_worker.py")
SEEDS = int(os.environ.get("BENCH_TRUTH_SEEDS", "2"))
ENOUGH_FOR_COVERAGE = 30
#: Parameter → median and worst relative error allowed.
LIMITS = {
    "coulomb": (0.02, 0.05),
    "viscous": (0.02, 0.05),
    "stribeck_excess": (0.02, 0.05),
    "stribeck_velocity": (0.15, 0.15),
    "stiffness_zero": (0.03, 0.03),
    "stiffness_load": (0.03, 0.03),
    "motor_inertia": (0.02, 0.02),
    "link_inertia": (0.02, 0.02),
    "torque_scale": (0.01, 0.01),
    "gravity_moment": (0.01, 0.01),
    "hysteresis_width": (0.05, 0.1),
}

Found = dict[str, np.ndarray]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory, repository: Path) -> Found:
    """Parameter → value, U and truth of every seed (seeds, 3); two processes share the seeds."""
    folder = tmp_path_factory.mktemp("joint_truth")
    environment = {**os.environ, "PYTHONPATH": str(repository)}
    shares = [(1, SEEDS // 2), (SEEDS // 2 + 1, SEEDS)]
    workers = [
        subprocess.Popen(
            [sys.executable, str(WORKER), str(first), str(last), str(folder / str(first))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, stdin=subprocess.DEVNULL,
        )
        for first, last in shares
    ]  # fmt: skip
    lines: list[str] = []
    try:
        for worker in workers:
            out, err = worker.communicate(timeout=3600)
            assert worker.returncode == 0, err
            lines += out.splitlines()
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()
    records: list[dict[str, Any]] = [json.loads(line)["found"] for line in lines]
    assert len(records) == SEEDS
    return {name: np.array([record[name] for record in records]) for name in records[0]}


@pytest.mark.slow
@pytest.mark.parametrize("name", LIMITS)
def test_a_parameter_is_what_the_truth_says(found: Found, name: str) -> None:
    value, _, truth = found[name].T
    error = np.abs(value / truth - 1.0)
    median, worst = LIMITS[name]
    assert np.median(error) <= median, f"median {np.median(error):.2%}"
    assert np.max(error) <= worst, f"worst {np.max(error):.2%}"


@pytest.mark.slow
def test_truth_lies_within_the_stated_uncertainty_as_often_as_stated(found: Found) -> None:
    assert set(found) == set(LIMITS)
    inside = np.concatenate([np.abs(value - truth) <= expanded for value, expanded, truth in _columns(found)])
    covered = float(np.mean(inside))
    low, high = (0.90, 0.99) if SEEDS >= ENOUGH_FOR_COVERAGE else (_least_count(len(inside)) / len(inside), 1.0)
    assert low <= covered <= high, f"{covered:.1%} of {len(inside)}\n{table(found)}"


def _columns(found: Found) -> list[np.ndarray]:
    return [numbers.T for numbers in found.values()]


def _least_count(trials: int) -> int:
    """The 0.1 % quantile of a binomial count at 95 %."""
    return int(binom.ppf(0.001, trials, 0.95))


def table(found: Found) -> str:
    """Parameter, median and worst relative error, median relative U, coverage: a line each."""
    lines = [f"{'':18} median   worst    U        inside"]
    for name, numbers in found.items():
        value, expanded, truth = numbers.T
        error = np.abs(value / truth - 1.0)
        inside = np.mean(np.abs(value - truth) <= expanded)
        spread = np.median(expanded / np.abs(value))
        lines.append(f"{name:18} {np.median(error):7.3%}  {np.max(error):7.3%}  {spread:7.3%}  {inside:.0%}")
    return "\n".join(lines)
