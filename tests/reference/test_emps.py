"""EMPS, a drive that nobody here built, through ``bench import`` and the functions a joint is identified with.

A. Janot, M. Gautier, M. Brunot, Data Set and Reference Models of EMPS, Workshop on Nonlinear System Identification
Benchmarks 2019. Section 3.4 prints value, standard deviation and relative deviation of each parameter; section 4.2 the
same for a friction of its own in either direction.

The publishers low-pass position at 100 Hz forward and backward (their rule: five times the 20 Hz of the position loop)
before they differentiate it, then torque and regressors at 40 Hz, and keep one sample in ten. So does this.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from bench.archive import Run, import_files
from bench.errors import Refused
from bench.identify.bandwidth import joint_bandwidth
from bench.identify.filtering import LowPass
from bench.identify.holdout import hold_out
from bench.identify.joint_dynamics import JointFit, identify
from bench.identify.joint_laws import Friction, Stretch, one_mass
from bench.identify.regression import StreamedLeastSquares

pytestmark = pytest.mark.reference

Floats = NDArray[np.float64]
Property = Callable[[str, object], None]

PUBLISHED = {
    "mass": (95.1089, 0.1085),
    "viscous": (203.5034, 1.1460),
    "coulomb": (20.3935, 0.1012),
    "offset": (-3.1648, 0.0444),
}
"""Value and printed standard deviation: kg, N.s/m, N, N."""
PUBLISHED_ASYMMETRIC = {
    "mass": (95.1540, 0.0827),
    "viscous_positive": (166.7061, 1.2326),
    "coulomb_positive": (20.1440, 0.1088),
    "viscous_negative": (240.4236, 1.2346),
    "coulomb_negative": (20.6277, 0.1091),
}
BAND = LowPass(40.0, decimation=10)
# 100 Hz for each of two passes of second order is -3 dB of both together at 80.2 Hz.
POSITION = LowPass(80.2)
SATURATION_V = 10.0


@dataclass(frozen=True)
class Record:
    """One archived record: the carriage, the motor force, what was wanted and what was added."""

    stretch: Stretch
    wanted: Floats
    output_V: Floats
    pulses: Floats
    gain: float


def archived(repository: Path, reference_data: Path, results: Path, mapping: str, file: str) -> Record:
    source = reference_data / "emps" / file
    if not source.is_file():
        pytest.skip(f"no {file} in the reference data")
    (path,) = import_files(repository / "profiles" / "imports" / f"{mapping}.toml", [source], results)
    with Run.open(path) as run:
        position = run.get("motor_position", unit="m", kind="length")
        gain = run.provenance["details"]["metadata"]["drive_gain"]
        assert gain["unit"] == "N/V"
        output = run.get("controller_output", unit="V", kind="voltage").values
        rate = (len(position.time_s) - 1) / float(position.time_s[-1] - position.time_s[0])
        wanted = run.get("position_reference", unit="m").values
        added = run.channel("disturbance_force").values if "disturbance_force" in run.channels() else 0.0 * wanted
    stretch = Stretch(rate, position.values, gain["value"] * output, name=file)
    return Record(stretch, wanted, output, added, gain["value"])


@pytest.fixture(scope="module")
def training(repository: Path, reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    return archived(repository, reference_data, tmp_path_factory.mktemp("emps"), "emps_mat", "DATA_EMPS.mat")


@pytest.fixture(scope="module")
def pulses(repository: Path, reference_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Record:
    folder = tmp_path_factory.mktemp("emps")
    return archived(repository, reference_data, folder, "emps_pulses_mat", "DATA_EMPS_PULSES.mat")


def fitted(record: Record, friction: Friction = "symmetric") -> JointFit:
    return identify(one_mass(friction), [record.stretch], BAND, position_filter=POSITION)


def test_parameters_are_within_one_published_standard_deviation(
    training: Record, record_property: Property
) -> None:  # fmt: skip
    fit = fitted(training)
    assert set(fit.parameters) == set(PUBLISHED)
    for name, (value, deviation) in PUBLISHED.items():
        off = (fit.parameters[name].value - value) / deviation
        record_property(f"emps {name}", f"{fit.parameters[name]}, {off:+.2f} published s.d. from {value}")
        assert abs(off) <= 1.0, name
    record_property("emps training, relative error", f"{fit.relative_all:.2f} %")
    assert fit.relative_all <= 4.0834  # as printed for the training record
    # 5.2 by our scaling; theirs, 25.99, is that of unscaled columns
    assert fit.condition_number < 10.0
    assert fit.excluded_share < 0.03


def test_a_friction_of_its_own_in_either_direction_is_that_of_the_publishers(
    training: Record, record_property: Property
) -> None:
    fit = fitted(training, "asymmetric")
    for name, (value, deviation) in PUBLISHED_ASYMMETRIC.items():
        off = (fit.parameters[name].value - value) / deviation
        record_property(f"emps {name}", f"{fit.parameters[name]}, {off:+.2f} published s.d. from {value}")
        assert abs(off) <= 1.0, name
    record_property("emps training, asymmetric, relative error", f"{fit.relative_all:.2f} %")
    assert fit.relative_all <= 3.1117


def test_the_stated_uncertainty_covers_the_misfit_that_the_printed_one_does_not(training: Record) -> None:
    """Viscous friction differs by 74 N.s/m between the directions: a single one is not known to 1.1 N.s/m."""
    symmetric, asymmetric = fitted(training), fitted(training, "asymmetric")
    assert symmetric.parameters["viscous"].standard_uncertainty > 4.0 * PUBLISHED["viscous"][1]
    assert asymmetric.rms_all < 0.8 * symmetric.rms_all


@pytest.mark.parametrize(("friction", "limit"), [("symmetric", 5.8), ("asymmetric", 5.1)])
def test_the_pulses_record_is_predicted_in_the_40_hz_band(
    training: Record, pulses: Record, friction: Friction, limit: float, record_property: Property
) -> None:
    fit = fitted(training, friction)
    report = hold_out(fit, [pulses.stretch], BAND, rated=SATURATION_V * pulses.gain, allow_repeat=True)
    record_property(f"emps pulses, {friction}, relative error", f"{report.all.relative:.2f} %")
    for line in report.lines():
        record_property(f"emps pulses, {friction}", line)
    assert report.all.relative <= limit
    assert report.moving.relative <= limit
    assert report.band.cutoff_hz == 40.0
    assert report.all.relative_of_mean > 90.0
    # The report does not hide what the benchmark is: the same path with pulses added, no other trajectory.
    assert not report.distinct


def test_without_being_told_so_the_pulses_record_is_refused_as_a_repeat(training: Record, pulses: Record) -> None:
    with pytest.raises(Refused) as refusal:
        hold_out(fitted(training), [pulses.stretch], BAND, rated=SATURATION_V * pulses.gain)
    assert refusal.value.reason == "repeat"


def test_the_pulses_are_volts_and_already_in_the_controllers_output(training: Record, pulses: Record) -> None:
    """Otherwise they would have to be added to the force. The control law says so: u = kp kv (wanted - q) - kv v + p.

    The benchmark's paper gives the pulses in newtons and the file as unsigned bytes, 0 or 5, without a sign.
    """
    position = pulses.stretch.position
    # section 2.2: two positions averaged, then differenced backwards
    velocity = (position[2:] - position[:-2]) * 0.5 * pulses.stretch.rate_hz
    law = StreamedLeastSquares(("proportional", "damping", "pulse", "offset"))
    columns = [pulses.wanted[2:] - position[2:], -velocity, pulses.pulses[2:], np.ones_like(velocity)]
    law.add(np.column_stack(columns), pulses.output_V[2:])
    found = law.solve()
    assert found.value("pulse") == pytest.approx(1.0, abs=0.03)
    assert found.value("damping") == pytest.approx(243.45, rel=0.03)
    assert found.value("proportional") / found.value("damping") == pytest.approx(160.18, rel=0.03)
    assert found.residual_rms < 0.02 * found.response_rms
    fit = fitted(training)
    errors = {}
    for sign in (-1.0, 0.0, 1.0):
        force = pulses.stretch.response + sign * pulses.pulses
        held = Stretch(pulses.stretch.rate_hz, position, force)
        errors[sign] = hold_out(fit, [held], BAND, rated=351.5, allow_repeat=True).all.relative
    assert min(errors, key=lambda sign: errors[sign]) == 0.0


def test_the_bandwidth_of_the_position_loop_is_what_its_published_gains_give(training: Record) -> None:
    """M s^2 + (Fv + g kv) s + g kp kv: 26.4 Hz at -3 dB; the paper's 20 Hz is its natural frequency, 19.1 Hz."""
    mass, viscous, gain, kp, kv = 95.1089, 203.5034, training.gain, 160.18, 243.45
    natural = np.sqrt(gain * kp * kv / mass)
    damping = (viscous + gain * kv) / (2.0 * mass * natural)
    flat = 1.0 - 2.0 * damping**2
    due = natural / (2.0 * np.pi) * np.sqrt(flat + np.sqrt(flat**2 + 1.0))
    found = joint_bandwidth(training.wanted, training.stretch.position, training.stretch.rate_hz)
    # a millisecond of delay in the loop, which the formula does not know, makes it a little less damped and faster
    assert found.value_hz == pytest.approx(due, rel=0.1)
    assert found.standard_uncertainty_hz < 1.5
