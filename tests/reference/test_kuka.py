"""A KUKA LWR 4+ that nobody here recorded: seven axes, torques behind the gears, times that jitter.

Records: github.com/kjyv/FloBaRoID (LGPL-3.0), data/KUKA/HW. The first and the second are one trajectory gone through
twice, the third is another one. All fits are made and judged in one band of 10 Hz, the one arms are judged in.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from bench.archive import Run, import_files
from bench.arm import arm_description, ratings
from bench.errors import Refused
from bench.identify.arm_base import BaseParameters
from bench.identify.arm_fit import ArmFit, fit_arm
from bench.identify.arm_hold_out import hold_out_arm
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_record import ArmRecord
from bench.identify.filtering import LowPass
from bench.profile import ArmProfile, load_profile

pytestmark = pytest.mark.reference
pytest.importorskip("pinocchio", reason="extra `arm` is not installed")

Property = Callable[[str, object], None]

BAND = LowPass(10.0)


@pytest.fixture(scope="module")
def profile(repository: Path) -> ArmProfile:
    found = load_profile(repository / "profiles/arms/kuka_lwr4.toml")
    assert isinstance(found, ArmProfile)
    return found


@pytest.fixture(scope="module")
def base(profile: ArmProfile) -> BaseParameters:
    from bench.models.rigid import ArmModel

    return BaseParameters.of(ArmLaw(ArmModel(arm_description(profile)), motor_inertia=False))


@pytest.fixture(scope="module")
def records(
    profile: ArmProfile, repository: Path, reference_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> list[ArmRecord]:
    files = [reference_data / "kuka_lwr4" / f"measurements_{number}.npz" for number in (1, 2, 3)]
    if not all(file.is_file() for file in files):
        pytest.skip("no KUKA records in the reference data")
    found = []
    for path in import_files(repository / "profiles/imports/kuka_npz.toml", files, tmp_path_factory.mktemp("kuka")):
        with Run.open(path) as run:
            found.append(ArmRecord.from_run(run, profile))
    return found


def fitted(base: BaseParameters, profile: ArmProfile, record: ArmRecord) -> ArmFit:
    return fit_arm(base, [record], BAND, speed_limit=ratings(profile.arm).speed)


def test_records_stand_on_a_uniform_grid_whatever_their_jitter(records: list[ArmRecord]) -> None:
    for record in records:
        assert record.torque_source == "joint"
        assert record.rate_hz == pytest.approx(200.0, abs=0.01)
        assert np.ptp(np.diff(record.time_s)) < 1e-9
        assert len(record.time_s) == pytest.approx(5027, abs=2)


def test_seven_axes_have_forty_three_base_parameters_and_twenty_one_of_friction_and_offset(
    base: BaseParameters,
) -> None:
    assert base.count == 43 + 21


def test_one_trajectory_predicts_another(
    base: BaseParameters, profile: ArmProfile, records: list[ArmRecord], record_property: Property
) -> None:
    fit = fitted(base, profile, records[2])
    report = hold_out_arm(fit, [records[0]], BAND)
    for line in report.lines():
        record_property("kuka, fit 3, predict 1", line)
    assert report.distinct
    assert report.moving.relative <= 7.0
    assert report.all.relative <= 7.0
    # what a share of rated hides: predicting zero stays below 5 % of rated on most joints
    assert sum(one.zero_of_rated < 5.0 for one in report.joints) >= 5


def test_the_second_record_is_a_repeat_of_the_first_and_no_hold_out(
    base: BaseParameters, profile: ArmProfile, records: list[ArmRecord], record_property: Property
) -> None:
    fit = fitted(base, profile, records[0])
    with pytest.raises(Refused) as refusal:
        hold_out_arm(fit, [records[1]], BAND)
    assert refusal.value.reason == "repeat"
    report = hold_out_arm(fit, [records[1]], BAND, allow_repeat=True)
    assert not report.distinct
    assert any("THE SAME TRAJECTORY" in line for line in report.lines())
    record_property("kuka, fit 1, predict its repeat 2", f"{report.moving.relative:.2f} %, meaningless")
