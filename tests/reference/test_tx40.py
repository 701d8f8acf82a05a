"""A Stäubli TX40 that nobody here recorded, through ``bench import`` and the functions an arm is identified with.

Record and table of base parameters: github.com/thanhndv212/figaroh-plus (Apache-2.0), examples/staubli_TX40; the arm's
parameters are those of M. Gautier, P.-O. Vandanjon, A. Janot, *Dynamic identification of a 6 dof robot without joint
position data*, ICRA 2011.

The publishers low-pass positions at 100 Hz before they differentiate them, take torques and regressors down to 20 Hz in
parallel, and leave out rows whose joint is, in that band, slower than a hundredth of its speed limit. So does this. The
hold-out is judged in the same band; nothing was chosen by what it says there.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.archive import Run, import_files
from bench.arm import arm_description, drivetrain, ratings
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

BAND, POSITIONS = LowPass(20.0), LowPass(100.0)
TRAINED = 0.6
OWN = ("fv", "fs", "off", "Iam", "fvm", "fsm")


@pytest.fixture(scope="module")
def profile(repository: Path) -> ArmProfile:
    found = load_profile(repository / "profiles/arms/tx40.toml")
    assert isinstance(found, ArmProfile)
    return found


@pytest.fixture(scope="module")
def base(profile: ArmProfile) -> BaseParameters:
    from bench.models.rigid import ArmModel

    return BaseParameters.of(ArmLaw(ArmModel(arm_description(profile)), coupling=drivetrain(profile.arm).coupling))


@pytest.fixture(scope="module")
def record(
    profile: ArmProfile, repository: Path, reference_data: Path, tmp_path_factory: pytest.TempPathFactory
) -> ArmRecord:
    source = reference_data / "tx40" / "curr_data.csv"
    if not source.is_file():
        pytest.skip("no TX40 record in the reference data")
    results = tmp_path_factory.mktemp("tx40")
    (path,) = import_files(repository / "profiles/imports/tx40_csv.toml", [source], results)
    with Run.open(path) as run:
        companion = run.provenance["details"]["source"]["companions"]["positions"]
        assert companion["file"] == "pos_read_data.csv"
        return ArmRecord.from_run(run, profile)


@pytest.fixture(scope="module")
def published(reference_data: Path) -> dict[str, dict[str, Any]]:
    """By the leading parameter: the group, value and standard deviation of the weighted fit."""
    source = reference_data / "tx40" / "TX40_bp_5.csv"
    if not source.is_file():
        pytest.skip("no published TX40 parameters in the reference data")
    table = {}
    with source.open(encoding="utf-8") as file:
        for name, _, _, value, percent in csv.reader(file):
            terms = re.findall(r"([+-]?)\s*(?:([\d.]+)\*)?([A-Za-z]+\d)", name)
            group = {term: (-1.0 if sign == "-" else 1.0) * float(share or 1.0) for sign, share, term in terms}
            spread = abs(float(value)) * float(percent) / 100.0
            table[terms[0][2]] = {"group": group, "value": float(value), "spread": spread}
    return table


def fitted(base: BaseParameters, profile: ArmProfile, record: ArmRecord) -> ArmFit:
    speeds = ratings(profile.arm).speed
    return fit_arm(base, [record], BAND, positions=POSITIONS, speed_limit=speeds, leak=None)


def test_the_sixty_one_groups_are_the_published_ones_and_the_last_motors_inertia(
    base: BaseParameters, published: dict[str, dict[str, Any]]
) -> None:
    """The table leaves out Ia6, though it is told apart from Izz6: the motor does not turn with the other axes."""
    assert base.count == 61
    assert set(base.leading) == {*published, "Ia6"}
    assert base.group("Ia6") == {"Ia6": 1.0}
    for lead, given in published.items():
        assert base.group(lead) == pytest.approx(given["group"], abs=1e-6), lead


def test_friction_offsets_and_coupling_are_those_published(
    base: BaseParameters,
    profile: ArmProfile,
    record: ArmRecord,
    published: dict[str, dict[str, Any]],
    record_property: Property,
) -> None:
    assert record.torque_source == "motor"
    assert (len(record.time_s), record.rate_hz) == (45000, pytest.approx(5000.0))
    fit = fitted(base, profile, record)
    own = [name for name in base.leading if name.rstrip("0123456789") in OWN]
    assert len(own) == 21
    off = {name: (fit.estimate(name).value - published[name]["value"]) / published[name]["spread"] for name in own}
    for name, share in off.items():
        record_property(
            f"tx40 {name}", f"{fit.estimate(name)}, {share:+.2f} published s.d. from {published[name]['value']}"
        )
    assert sum(abs(share) <= 2.0 for share in off.values()) >= 19
    # the whole table, each by its own and the published s.d.: ours counts misfit that lasts, theirs does not
    found = [fit.estimate(name) for name in published]
    spreads = np.array([given["spread"] for given in published.values()])
    own_spreads = np.array([one.standard_uncertainty for one in found])
    apart = np.array([one.value - given["value"] for one, given in zip(found, published.values(), strict=True)])
    assert np.mean(np.abs(apart) <= 3.0 * np.hypot(own_spreads, spreads)) >= 0.95
    record_property("tx40 s.d., ours to published", f"median {np.median(own_spreads / spreads):.2f}")
    assert fit.condition_number < 30.0


def test_the_last_two_fifths_are_predicted_from_the_first_three(
    base: BaseParameters, profile: ArmProfile, record: ArmRecord, record_property: Property
) -> None:
    cut = TRAINED * float(record.time_s[-1])
    fit = fitted(base, profile, record.between(0.0, cut))
    report = hold_out_arm(fit, [record.between(cut, np.inf)], BAND)
    for line in report.lines():
        record_property("tx40 hold-out", line)
    assert report.distinct
    assert report.moving.relative <= 8.5
    assert report.all.relative_of_mean > 60.0
    assert report.moving.relative < report.all.relative < 20.0
