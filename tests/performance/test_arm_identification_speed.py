"""Identifying an arm: against the bare regressor loop of the library, and against figaroh, on a record of TX40's size.

45 000 samples of six axes at 5 kHz; the real record where there is one, else one of the same shape. The whole way from
positions and torques to base parameters with standard deviations counts: differences, filters in parallel, ordinary and
weighted least squares, and their covariance by blocks. figaroh gets positions, velocities and accelerations ready made
and filters nothing. It runs in an interpreter of its own, named by BENCH_FIGAROH_PYTHON.
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench.arm import arm_description, drivetrain, ratings
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_fit import ArmFit, fit_arm
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_record import ArmRecord
from bench.identify.filtering import LowPass
from bench.profile import ArmProfile, load_profile

pytestmark = pytest.mark.performance
pinocchio = pytest.importorskip("pinocchio", reason="extra `arm` is not installed")

SAMPLES, RATE = 45_000, 5000.0
BAND, POSITIONS = LowPass(20.0), LowPass(100.0)
MOST_OF_THE_LOOP = 2.0
AT_LEAST_FASTER = 10.0
MOST_MB = 10.0
FLAT = 1.25
"""Ratio of extra memory of a record six times as long to that of one twice as long."""
REPEATS = 3


@pytest.fixture(scope="module")
def profile(repository: Path) -> ArmProfile:
    found = load_profile(repository / "profiles/arms/tx40.toml")
    assert isinstance(found, ArmProfile)
    return found


@pytest.fixture(scope="module")
def base(profile: ArmProfile) -> BaseParameters:
    from bench.models.rigid import ArmModel

    return BaseParameters.of(ArmLaw(ArmModel(arm_description(profile)), coupling=drivetrain(profile.arm).coupling))


def synthetic() -> tuple[np.ndarray, np.ndarray]:
    """Motor positions and torques of the size of the real ones."""
    rng = np.random.default_rng(1)
    time_s = np.arange(SAMPLES) / RATE
    turn = 2.0 * np.pi * rng.uniform(0.1, 1.0, (6, 5))
    joints = np.sum(rng.uniform(0.1, 0.4, (6, 5)) * np.sin(time_s[:, None, None] * turn), axis=2)
    return 40.0 * joints, 0.5 * rng.normal(size=joints.shape) + np.sin(3.0 * joints)


@pytest.fixture(scope="module")
def record(profile: ArmProfile, base: BaseParameters) -> ArmRecord:
    root = os.environ.get("BENCH_REFERENCE_DATA")
    folder = (Path(root) if root else Path(__file__).parents[2].parent / "shared" / "data") / "tx40"
    if (folder / "curr_data.csv").is_file():
        names = ("pos_read_data.csv", "curr_data.csv")
        positions, torques = (np.loadtxt(folder / name, delimiter=",", skiprows=1)[:SAMPLES] for name in names)
    else:
        positions, torques = synthetic()
    drives = drivetrain(profile.arm)
    return ArmRecord(
        np.arange(len(positions)) / RATE, drives.joint_position(positions), drives.joint_torque(torques), RATE,
        base.law.model.names, ratings(profile.arm).rated_torque,
    )  # fmt: skip


def identified(base: BaseParameters, profile: ArmProfile, record: ArmRecord) -> ArmFit:
    return fit_arm(base, [record], BAND, positions=POSITIONS, speed_limit=ratings(profile.arm).speed)


def shortest(action: Callable[[], object]) -> float:
    taken = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        taken.append(time.perf_counter() - start)
    return min(taken)


def states(record: ArmRecord) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = np.ascontiguousarray(record.position)
    v = np.gradient(q, 1.0 / RATE, axis=0)
    return q, v, np.gradient(v, 1.0 / RATE, axis=0)


def bare_loop(base: BaseParameters, record: ArmRecord) -> Callable[[], object]:
    model = base.law.model._model
    data, call = model.createData(), pinocchio.computeJointTorqueRegressor
    q, v, a = states(record)

    def loop() -> None:
        for x, y, z in zip(q, v, a, strict=True):
            call(model, data, x, y, z)

    return loop


def test_all_of_it_costs_at_most_twice_the_bare_regressor_loop(
    base: BaseParameters, profile: ArmProfile, record: ArmRecord, record_property: Callable[[str, object], None]
) -> None:
    identified(base, profile, record)
    loop = bare_loop(base, record)
    bare, ours = shortest(loop), shortest(lambda: identified(base, profile, record))
    every = shortest(lambda: fit_arm(base, [record], None, speed_limit=ratings(profile.arm).speed))
    for name, taken in (("bare loop", bare), ("identification", ours), ("every row, no filter", every)):
        record_property(name, f"{taken / SAMPLES * 1e6:.2f} us per sample, {taken / bare:.2f} of the loop")
    assert ours <= MOST_OF_THE_LOOP * bare


def test_memory_is_small_and_flat_in_length(
    base: BaseParameters, profile: ArmProfile, record: ArmRecord, record_property: Callable[[str, object], None]
) -> None:
    """Up to the most blocks that are kept, memory grows a little; from there on it does not."""
    identified(base, profile, record)
    peaks = []
    for times in (1, 2, 6):
        long = replace(
            record,
            time_s=np.arange(times * len(record.time_s)) / RATE,
            position=np.concatenate([record.position[:: (-1) ** k] for k in range(times)]),
            torque=np.concatenate([record.torque[:: (-1) ** k] for k in range(times)]),
        )
        tracemalloc.start()
        identified(base, profile, long)
        peaks.append(tracemalloc.get_traced_memory()[1] / 1e6)
        tracemalloc.stop()
    record_property("extra memory", f"{peaks[0]:.1f} MB, twice as long {peaks[1]:.1f} MB, six times {peaks[2]:.1f} MB")
    assert max(peaks) <= MOST_MB
    assert peaks[2] <= FLAT * peaks[1]


def test_it_is_ten_times_faster_than_figaroh(
    base: BaseParameters,
    profile: ArmProfile,
    record: ArmRecord,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    interpreter = os.environ.get("BENCH_FIGAROH_PYTHON")
    if not interpreter:
        pytest.skip("BENCH_FIGAROH_PYTHON names no interpreter with figaroh 1.0.2 in it")
    q, v, a = states(record)
    placements = np.stack([joint.placement for joint in base.law.model.description.joints])
    np.savez(tmp_path / "states.npz", q=q, v=v, a=a, torque=record.torque, placements=placements)
    worker = Path(__file__).with_name("figaroh_worker.py")
    done = subprocess.run(
        [interpreter, str(worker), str(tmp_path / "states.npz")],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    theirs = json.loads(done.stdout.strip().splitlines()[-1])
    identified(base, profile, record)
    ours = shortest(lambda: identified(base, profile, record))
    every = shortest(lambda: fit_arm(base, [record], None, speed_limit=ratings(profile.arm).speed))
    record_property("figaroh", f"{theirs['seconds'] / SAMPLES * 1e6:.1f} us per sample, {theirs['memory_MB']:.0f} MB")
    record_property(
        "times faster", f"{theirs['seconds'] / ours:.1f}; every row, no filter {theirs['seconds'] / every:.1f}"
    )
    assert theirs["seconds"] >= AT_LEAST_FASTER * ours
