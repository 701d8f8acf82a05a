"""The load cell: a straight line through two points, a zero, and an honest end of range."""

from __future__ import annotations

import numpy as np
import pytest

from bench.errors import CalibrationError, SensorSaturated
from bench.instruments.load_cell import LoadCell
from bench.instruments.protocols import BridgeInput, ForceSensor


@pytest.fixture
def cell() -> LoadCell:
    return LoadCell(BridgeInput("ai0", -3.0, 3.0), 100.0, 2.0, serial_number="LC-7")


@pytest.mark.parametrize(("capacity", "sensitivity"), [(100.0, 2.0), (22.2411, 1.9987), (500.0, -3.0021)])
def test_force_is_the_line_through_the_two_points_of_the_certificate(capacity: float, sensitivity: float) -> None:
    cell = LoadCell(BridgeInput("ai0", -4.0, 4.0), capacity, sensitivity)
    raw = np.linspace(-1.9, 1.9, 101)[:, None]
    forces, torques = cell.convert(raw)
    points = sorted([(0.0, 0.0), (sensitivity, capacity)])
    slope = (points[1][1] - points[0][1]) / (points[1][0] - points[0][0])
    assert forces[:, 0] == pytest.approx(points[0][1] + slope * (raw[:, 0] - points[0][0]), rel=1e-12, abs=1e-12)
    assert torques.shape == (101, 0)


def test_it_is_a_force_sensor_that_names_itself(cell: LoadCell) -> None:
    assert isinstance(cell, ForceSensor)
    assert (cell.identify().serial_number, cell.identify().model) == ("LC-7", "load cell 100 N")
    assert cell.force_names == ("force_z",)


def test_tare_takes_the_unloaded_mean_as_zero(cell: LoadCell) -> None:
    cell.tare(np.array([[0.1], [0.3]]))
    assert cell.zero_mv_v == pytest.approx(0.2)
    forces, _ = cell.convert(np.array([[0.2], [1.2]]))
    assert forces[:, 0] == pytest.approx([0, 50])
    pulled = LoadCell(BridgeInput("ai0"), 100.0, 2.0, sign=-1)
    assert pulled.contact_force(forces) == pytest.approx([0, -50])


def test_the_end_of_the_inputs_range_is_seen(cell: LoadCell) -> None:
    raw = np.array([[0.0], [2.995], [-3.0], [np.nan]])
    assert list(cell.saturated(raw)) == [False, True, True, True]
    with pytest.raises(SensorSaturated, match=r"the bridge reads 2\.9950 mV/V") as caught:
        cell.check(raw)
    assert "ai0" in caught.value.where
    with pytest.raises(SensorSaturated):
        cell.tare(raw)


def test_a_load_beyond_capacity_is_seen_once_the_zero_is_known(cell: LoadCell) -> None:
    raw = np.array([[0.5], [2.2]])
    assert list(cell.saturated(raw)) == [False, False]
    cell.tare(np.zeros((4, 1)))
    assert list(cell.saturated(raw)) == [False, True]
    with pytest.raises(SensorSaturated, match=r"the force is 110 N, the capacity 100 N"):
        cell.check(raw)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [((0.0, 2.0, 1), "capacity is 0 N"), ((100.0, 0.0, 1), "sensitivity is 0 mV/V"), ((100.0, 2.0, 2), "sign is 2")],
)
def test_impossible_numbers_are_refused(arguments: tuple[float, float, int], message: str) -> None:
    capacity, sensitivity, sign = arguments
    with pytest.raises(CalibrationError, match=message):
        LoadCell(BridgeInput("ai0"), capacity, sensitivity, sign=sign)


def test_tare_and_convert_refuse_what_is_no_reading(cell: LoadCell) -> None:
    with pytest.raises(CalibrationError, match="no samples"):
        cell.tare(np.zeros((0, 1)))
    with pytest.raises(CalibrationError, match=r"shape \(3, 6\)"):
        cell.convert(np.zeros((3, 6)))
