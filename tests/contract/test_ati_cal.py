"""ATI calibration files: the same numbers as ATI's own library, and a sentence for every damaged file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from bench.errors import CalibrationError, SensorSaturated
from bench.instruments.ati_cal import AtiCalibration, AtiForceTorque
from bench.instruments.ati_file import transform_matrix
from bench.instruments.protocols import ForceSensor, VoltageInput

AXES = ("Fx", "Fy", "Fz", "Tx", "Ty", "Tz")
INPUTS = [VoltageInput(f"ai{i}") for i in range(6)]


@dataclass
class CalFile:
    """A synthetic calibration file; the layout is ATI's, the numbers are nobody's."""

    values: np.ndarray
    scales: np.ndarray
    maxima: Sequence[float] = (130, 130, 400, 10, 10, 10)
    transform: tuple[float, ...] = (0, 0, 0, 0, 0, 0)
    force_unit: str = "N"
    torque_unit: str = "N-m"
    distance_unit: str = "m"
    angle_unit: str | None = None
    gauges: int = 6
    names: Sequence[str] = AXES
    user_values: np.ndarray | None = None
    extra: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def random(cls, rng: np.random.Generator, **changes: object) -> CalFile:
        made = cls(
            values=rng.normal(0, 20, (6, 6)) + 15 * np.eye(6),
            scales=rng.uniform(0.7, 45, 6),
            transform=(*rng.uniform(-0.02, 0.02, 3), *rng.uniform(-90, 90, 3)),
        )
        for name, value in changes.items():
            assert hasattr(made, name)
            setattr(made, name, value)
        return made

    def write(self, path: Path) -> Path:
        root = ElementTree.Element(
            "FTSensor",
            Serial="FT00001",
            BodyStyle="Gamma",
            Family="DAQ",
            NumGages=str(self.gauges),
            CalFileVersion="1.1",
        )
        cal = ElementTree.SubElement(
            root,
            "Calibration",
            PartNumber="SI-130-10",
            CalDate="1/15/2026",
            ForceUnits=self.force_unit,
            TorqueUnits=self.torque_unit,
            DistUnits=self.distance_unit,
            OutputRange="20",
            OutputBipolar="True",
            HWTempComp="True",
        )
        if self.angle_unit:
            cal.set("AngleUnits", self.angle_unit)
        for name, row, scale, most in zip(self.names, self.values, self.scales, self.maxima, strict=True):
            text = "  ".join(f"{value:.5f}" for value in row)
            ElementTree.SubElement(cal, "Axis", Name=name, values=f" {text} ", max=str(most), scale=f"{scale:.12f}")
        ElementTree.SubElement(
            cal,
            "BasicTransform",
            {k: f"{v:.9f}" for k, v in zip(("Dx", "Dy", "Dz", "Rx", "Ry", "Rz"), self.transform, strict=True)},
        )
        if self.user_values is not None:
            for name, row in zip(AXES, self.user_values, strict=True):
                ElementTree.SubElement(
                    cal, "UserAxis", Name=name, values=" ".join(f"{value:.5f}" for value in row), max="1"
                )
        for tag, attributes in self.extra.items():
            ElementTree.SubElement(cal, tag, attributes)
        ElementTree.ElementTree(root).write(path, encoding="utf-8", xml_declaration=True)
        return path


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture
def sensor(tmp_path: Path) -> AtiForceTorque:
    """1 V per gauge is 10 N along its force axis or 1 N.m about its torque axis; rated 50 N and 5 N.m."""
    file = CalFile(np.diag([20.0, 20, 20, 3, 3, 3]), np.array([2.0, 2, 2, 3, 3, 3]), maxima=(50, 50, 50, 5, 5, 5))
    return AtiForceTorque(AtiCalibration.read(file.write(tmp_path / "unit.cal")), INPUTS)


UNITS = [
    ("N", "N-m", "m", None),
    ("N", "N-mm", "mm", "degrees"),
    ("lbf", "lbf-in", "in", "deg"),
    ("lb", "ft-lb", "ft", "rad"),
    ("kN", "kN-m", "cm", "radians"),
    ("kg", "kg-cm", "cm", None),
]


@pytest.mark.peer
@pytest.mark.parametrize(("force", "torque", "distance", "angle"), UNITS)
def test_the_wrench_equals_that_of_atis_own_library(
    tmp_path: Path, rng: np.random.Generator, force: str, torque: str, distance: str, angle: str | None
) -> None:
    atiiaftt = pytest.importorskip("atiiaftt")
    to_metre = {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "in": 0.0254, "ft": 0.3048}[distance]
    worst = 0.0
    for k in range(20):
        shift = rng.uniform(-0.03, 0.03, 3) / to_metre
        turn = rng.uniform(-math.pi, math.pi, 3) if angle in ("rad", "radians") else rng.uniform(-180, 180, 3)
        file = CalFile.random(
            rng,
            transform=(*shift, *turn),
            force_unit=force,
            torque_unit=torque,
            distance_unit=distance,
            angle_unit=angle,
        )
        path = file.write(tmp_path / f"{k}.cal")
        peer = atiiaftt.FTSensor(str(path), 1)
        peer.setForceUnits(atiiaftt.FTUnit.FORCE_N)
        peer.setTorqueUnits(atiiaftt.FTUnit.TORQUE_N_M)
        ours = AtiForceTorque(AtiCalibration.read(path), INPUTS)
        unloaded = rng.uniform(-1, 1, 6)
        peer.bias([*unloaded, 0.0])
        ours.tare(np.tile(unloaded, (10, 1)))
        volts = rng.uniform(-9, 9, (50, 6))
        theirs = np.array([peer.convertToFt([*row, 0.0]) for row in volts])
        mine = np.hstack(ours.convert(volts))
        # Theirs is single precision throughout: compare with the size of the terms it adds and subtracts.
        cal = ours.calibration
        transform = np.abs(transform_matrix(cal.displacement_m, cal.rotation_rad))
        summed = (np.abs(volts) + np.abs(unloaded)) @ (transform @ np.abs(cal.basic_matrix)).T
        worst = max(worst, float((np.abs(mine - theirs) / summed).max()))
        for part in (slice(0, 3), slice(3, 6)):  # and, whatever cancels, with the largest force and torque
            assert np.abs(mine - theirs)[:, part].max() < 1e-6 * np.abs(theirs[:, part]).max()
    assert worst < 1e-6


def test_the_transform_moves_a_force_to_a_torque_and_turns_both() -> None:
    wrench = np.array([0.0, 0, 10, 0, 0, 0])
    moved = transform_matrix((0.1, 0, 0), (0, 0, 0)) @ wrench
    assert moved == pytest.approx([0, 0, 10, 0, 1, 0])  # T′ = −D × F
    turned = transform_matrix((0, 0, 0), (math.pi / 2, 0, 0)) @ wrench
    assert turned == pytest.approx([0, 10, 0, 0, 0, 0], abs=1e-12)


def test_the_working_matrix_of_the_file_is_taken_as_a_check_sum(tmp_path: Path, rng: np.random.Generator) -> None:
    file = CalFile.random(rng)
    calibration = AtiCalibration.read(file.write(tmp_path / "a.cal"))
    file.user_values = np.array(calibration.matrix)
    again = AtiCalibration.read(file.write(tmp_path / "b.cal"))
    assert np.array_equal(again.matrix, calibration.matrix)
    file.user_values[2, 3] += 0.05 * np.abs(file.user_values[2]).max()
    with pytest.raises(CalibrationError, match=r"another Fz row than <UserAxis>"):
        AtiCalibration.read(file.write(tmp_path / "c.cal"))


def test_a_file_with_only_the_working_matrix_gives_that_matrix(tmp_path: Path, rng: np.random.Generator) -> None:
    file = CalFile.random(rng)
    whole = AtiCalibration.read(file.write(tmp_path / "a.cal"))
    file.user_values = np.array(whole.matrix)
    path = file.write(tmp_path / "b.cal")
    tree = ElementTree.parse(path)
    cal = tree.getroot()[0]
    for axis in cal.findall("Axis"):
        cal.remove(axis)
    tree.write(path)
    bare = AtiCalibration.read(path)
    assert bare.matrix == pytest.approx(whole.matrix, abs=1e-5)
    assert bare.basic_matrix == pytest.approx(whole.basic_matrix, abs=1e-4)


def test_rows_are_found_by_name_not_by_place(tmp_path: Path, rng: np.random.Generator) -> None:
    file = CalFile.random(rng)
    straight = AtiCalibration.read(file.write(tmp_path / "a.cal"))
    order = [3, 0, 5, 1, 4, 2]
    file.names = [AXES[k] for k in order]
    file.values, file.scales = file.values[order], file.scales[order]
    file.maxima = [file.maxima[k] for k in order]
    mixed = AtiCalibration.read(file.write(tmp_path / "b.cal"))
    assert np.array_equal(mixed.matrix, straight.matrix)
    assert np.array_equal(mixed.rated, straight.rated)


def test_ratings_and_ranges_are_in_si(tmp_path: Path, rng: np.random.Generator) -> None:
    file = CalFile.random(rng, torque_unit="N-mm", distance_unit="mm", maxima=(50, 50, 70, 500, 500, 500))
    calibration = AtiCalibration.read(file.write(tmp_path / "nano.cal"))
    assert list(calibration.rated) == pytest.approx([50, 50, 70, 0.5, 0.5, 0.5])
    assert calibration.output_range_v == (-10.0, 10.0)
    assert (calibration.serial_number, calibration.part_number) == ("FT00001", "SI-130-10")
    assert calibration.gauges == 6


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"force_unit": "pound"}, r'ForceUnits is "pound", expected one of N, kN'),
        ({"torque_unit": "N/m"}, r'TorqueUnits is "N/m"'),
        ({"distance_unit": "furlong"}, r'DistUnits is "furlong"'),
        ({"angle_unit": "gon"}, r'AngleUnits is "gon"'),
        ({"gauges": 7}, r"<Axis Fx>: 6 gauge values, but NumGages is 7"),
        ({"gauges": 0}, r"NumGages is 0, expected 1 to 8"),
        ({"scales": np.array([1.0, 1, 0, 1, 1, 1])}, r"<Axis Fz>: scale is 0"),
        ({"names": ("Fx", "Fy", "Fz", "Tx", "Ty", "Ty")}, r"axes Fx, Fy, Fz, Tx, Ty, Ty"),
        ({"values": np.full((6, 6), np.nan)}, r"<Axis Fx>: values are not all finite"),
        ({"extra": {"BiasSlope": {"values": "0 0 1e-4 0 0 0"}}}, r"temperature compensation in software"),
    ],
)
def test_a_damaged_file_is_refused_with_its_name_and_element(
    tmp_path: Path, rng: np.random.Generator, change: dict[str, object], message: str
) -> None:
    path = CalFile.random(rng, **change).write(tmp_path / "bad.cal")
    with pytest.raises(CalibrationError, match=message) as caught:
        AtiCalibration.read(path)
    assert str(path) in caught.value.where
    assert caught.value.remedy


def test_files_of_another_kind_are_refused(tmp_path: Path, rng: np.random.Generator) -> None:
    path = tmp_path / "x.cal"
    with pytest.raises(CalibrationError, match="cannot read the calibration file"):
        AtiCalibration.read(path)
    path.write_bytes(b"Fx 1 2 3")
    with pytest.raises(CalibrationError, match="not well-formed XML"):
        AtiCalibration.read(path)
    path.write_bytes(b"<settings/>")
    with pytest.raises(CalibrationError, match="root element is <settings>"):
        AtiCalibration.read(path)
    CalFile.random(rng).write(path)
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(CalibrationError, match="not well-formed XML"):
        AtiCalibration.read(path)


def test_of_several_calibrations_one_must_be_named(tmp_path: Path, rng: np.random.Generator) -> None:
    path = CalFile.random(rng).write(tmp_path / "two.cal")
    tree = ElementTree.parse(path)
    second = ElementTree.fromstring(ElementTree.tostring(tree.getroot()[0]))
    second.set("PartNumber", "SI-65-5")
    tree.getroot().append(second)
    tree.write(path)
    with pytest.raises(CalibrationError, match=r"2 calibrations \(SI-130-10, SI-65-5\)"):
        AtiCalibration.read(path)
    assert AtiCalibration.read(path, "SI-65-5").part_number == "SI-65-5"


def test_wrong_gauge_count_names_the_file_and_both_counts(tmp_path: Path, rng: np.random.Generator) -> None:
    calibration = AtiCalibration.read(CalFile.random(rng).write(tmp_path / "six.cal"))
    with pytest.raises(CalibrationError, match=r"has 6 gauges, the rig wires 5 channels") as caught:
        AtiForceTorque(calibration, INPUTS[:5])
    assert "six.cal" in caught.value.where


def test_it_is_a_force_sensor_that_names_itself(sensor: AtiForceTorque) -> None:
    assert isinstance(sensor, ForceSensor)
    identity = sensor.identify()
    assert (identity.model, identity.serial_number) == ("ATI Gamma SI-130-10", "FT00001")
    assert identity.details["calibration_sha256"] == sensor.calibration.sha256


def test_tare_takes_the_unloaded_mean_as_zero(sensor: AtiForceTorque, rng: np.random.Generator) -> None:
    offset = np.array([0.5, -0.3, 1.0, 0, 0, 0.2])
    sensor.tare(offset + rng.normal(0, 1e-3, (1000, 6)))
    forces, torques = sensor.convert(offset + np.array([[0, 0, -2.0, 0, 0, 1.5]]))
    assert forces[0] == pytest.approx([0, 0, -20], abs=0.02)
    assert torques[0] == pytest.approx([0, 0, 1.5], abs=2e-3)
    pressing = AtiForceTorque(sensor.calibration, INPUTS, sign=-1)
    assert pressing.contact_force(forces) == pytest.approx(-forces[:, 2])


def test_a_saturated_gauge_is_seen_and_named(sensor: AtiForceTorque) -> None:
    raw = np.zeros((4, 6))
    raw[1, 2], raw[2, 5], raw[3, 0] = 9.95, -10.0, np.nan
    assert list(sensor.saturated(raw)) == [False, True, True, True]
    with pytest.raises(SensorSaturated, match=r"gauge 2 reads 9\.950 V, its range is -9\.9\d+ to 9\.9") as caught:
        sensor.check(raw)
    assert "ai2" in caught.value.where
    with pytest.raises(SensorSaturated):
        sensor.tare(raw[:3])


def test_the_inputs_range_counts_when_it_is_narrower_than_the_transducers(sensor: AtiForceTorque) -> None:
    narrow = AtiForceTorque(sensor.calibration, [VoltageInput(f"ai{i}", -5, 5) for i in range(6)])
    assert list(narrow.saturated(np.full((1, 6), 4.98))) == [True]
    assert list(sensor.saturated(np.full((1, 6), 4.98))) == [False]


def test_a_load_beyond_the_rating_is_seen_once_the_zero_is_known(sensor: AtiForceTorque) -> None:
    raw = np.zeros((2, 6))
    raw[1, 2] = -6.0  # -60 N, rated 50 N
    assert list(sensor.saturated(raw)) == [False, False]  # may still be the gauges' offset
    sensor.tare(np.zeros((10, 6)))
    assert list(sensor.saturated(raw)) == [False, True]
    with pytest.raises(SensorSaturated, match=r"Fz is -60, calibrated up to 50 N"):
        sensor.check(raw)


def test_tare_and_convert_refuse_what_is_no_reading(sensor: AtiForceTorque) -> None:
    with pytest.raises(CalibrationError, match="no samples to tare on"):
        sensor.tare(np.zeros((0, 6)))
    with pytest.raises(CalibrationError, match="not numbers"):
        sensor.tare(np.full((3, 6), np.nan))
    with pytest.raises(CalibrationError, match=r"shape \(3, 5\), expected \(n, 6\)"):
        sensor.convert(np.zeros((3, 5)))
