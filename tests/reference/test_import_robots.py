"""Records of two robots that nobody here made: mat and npz files through the shipped mappings.

EMPS: Janot, Gautier, Brunot, Workshop on Nonlinear System Identification Benchmarks 2019. KUKA LWR 4+ hardware logs:
github.com/kjyv/FloBaRoID (LGPL-3.0).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from bench.archive import Run, import_files

pytestmark = pytest.mark.reference


def imported(repository: Path, mapping: str, file: Path, results: Path) -> Path:
    if not file.is_file():
        pytest.skip(f"no {file.name} in the reference data")
    (path,) = import_files(repository / "profiles" / "imports" / f"{mapping}.toml", [file], results)
    return path


@pytest.mark.parametrize(
    ("mapping", "file"), [("emps_mat", "DATA_EMPS.mat"), ("emps_pulses_mat", "DATA_EMPS_PULSES.mat")]
)
def test_emps_records_arrive_whole_with_their_gain(
    repository: Path, reference_data: Path, tmp_path: Path, mapping: str, file: str
) -> None:
    from scipy.io import loadmat

    source = reference_data / "emps" / file
    path = imported(repository, mapping, source, tmp_path)
    truth = loadmat(source)
    with Run.open(path) as run:
        assert np.array_equal(run.get("motor_position", unit="m", kind="length").values, truth["qm"][:, 0])
        assert np.array_equal(run.get("controller_output", unit="V", kind="voltage").values, truth["vir"][:, 0])
        assert np.array_equal(run.channel("motor_position").time_s, truth["t"][:, 0])
        gain = run.provenance["details"]["metadata"]["drive_gain"]
        assert (gain["value"], gain["unit"]) == (truth["gtau"][0, 0], "N/V")
        if mapping == "emps_pulses_mat":
            assert run.get("disturbance_force", unit="N").values.max() == truth["pulses_N"].max() > 0


def test_kuka_log_arrives_with_seven_joints_and_its_absolute_start(
    repository: Path, reference_data: Path, tmp_path: Path
) -> None:
    source = reference_data / "kuka_lwr4" / "measurements_1.npz"
    path = imported(repository, "kuka_npz", source, tmp_path)
    with np.load(source) as truth, Run.open(path) as run:
        for joint in range(7):
            torque = run.get(f"joint_{joint + 1}_torque", unit="N.m", kind="torque")
            assert np.array_equal(torque.values, truth["torques"][:, joint])
            speed = run.get(f"joint_{joint + 1}_velocity", unit="rad/s", kind="angular_speed")
            assert np.array_equal(speed.values, truth["velocities"][:, joint])
        assert run.started_utc.startswith("2016-04-07T")
        assert run.start_ns == pytest.approx(truth["times"][0] * 1e9, abs=1e3)
        assert torque.time_s[-1] == pytest.approx(truth["times"][-1] - truth["times"][0], abs=1e-6)
