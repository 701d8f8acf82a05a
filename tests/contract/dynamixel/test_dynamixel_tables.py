"""Addresses of driver and twin against the control tables that come with the vendor's own client."""

from __future__ import annotations

import dataclasses
import math
from importlib.util import find_spec
from pathlib import Path

import pytest

from bench.errors import InstrumentError, TwinError
from bench.instruments import dynamixel_models as ours
from bench.twin.devices import dynamixel_tables as twins

pytestmark = pytest.mark.peer

# Where our names are not the vendor's in small letters.
NAMES = {
    "hardware_error": "hardware_error_status",
    "input_voltage": "present_input_voltage",
    "temperature": "present_temperature",
    "firmware": "firmware_version",
    "servo_id": "id",
    "return_delay": "return_delay_time",
}
LEFT_OUT = {"startup_configuration"}


@pytest.fixture(scope="module")
def folder() -> Path:
    spec = find_spec("dynamixel_easy_sdk")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("the vendor's client is in the extra `peers`")
    return Path(spec.submodule_search_locations[0]) / "control_table"


def shipped(folder: Path, name: str) -> tuple[dict[str, float], dict[str, tuple[int, int]]]:
    """Return a model's figures and its registers as (address, size)."""
    text = (folder / f"{name.lower().replace('-', '_')}.model").read_text(encoding="utf-8")
    figures: dict[str, float] = {}
    registers: dict[str, tuple[int, int]] = {}
    for line in text.splitlines():
        words = line.split("\t")
        if len(words) == 2 and words[0] != "name":
            figures[words[0]] = float(words[1])
        elif len(words) == 3 and words[0].isdigit():
            called = words[2].replace("(Shadow)", "").replace(" ", "_").lower()
            registers[called] = (int(words[0]), int(words[1]))
    return figures, registers


@pytest.mark.parametrize("name", ours.MODELS)
def test_our_addresses_are_the_shipped_ones(folder, name):
    _, registers = shipped(folder, name)
    table = ours.MODELS[name].table
    for field in dataclasses.fields(table):
        register = getattr(table, field.name)
        assert registers[NAMES.get(field.name, field.name)] == (register.address, register.size), field.name


@pytest.mark.parametrize("name", twins.MODELS)
def test_the_twins_addresses_are_the_shipped_ones(folder, name):
    _, registers = shipped(folder, name)
    for entry in twins.MODELS[name].entries.values():
        shipped_as = NAMES.get(entry.name, entry.name)
        if shipped_as not in registers:
            assert entry.name in LEFT_OUT, entry.name
            continue
        assert registers[shipped_as] == (entry.address, entry.size), entry.name


@pytest.mark.parametrize("name", ours.MODELS)
def test_model_numbers_and_pulses_are_the_shipped_ones(folder, name):
    text = (folder / "dynamixel.model").read_text(encoding="utf-8")
    numbers = {file: int(number) for number, file in (line.split("\t") for line in text.splitlines()[1:] if line)}
    model = ours.MODELS[name]
    assert numbers[f"{name.lower().replace('-', '_')}.model"] == model.number == twins.MODELS[name].number
    figures, _ = shipped(folder, name)
    # Half a turn from lowest to zero or from zero to highest, the last count short of a whole turn in the X series.
    span = figures["value_of_max_radian_position"] - figures["value_of_min_radian_position"]
    turns = (figures["max_radian"] - figures["min_radian"]) / (2 * math.pi)
    assert model.pulses_per_revolution == pytest.approx(span / turns, abs=1)
    assert model.pulses_per_revolution == twins.MODELS[name].pulses


@pytest.mark.parametrize("name", ours.MODELS)
def test_units_of_driver_and_twin_are_the_same(name):
    model, twin = ours.MODELS[name], twins.MODELS[name]
    assert model.current_unit_a == twin.current_unit_a
    assert model.velocity_unit_rpm == twin.velocity_unit_rpm
    assert model.highest_current_count == twin.entries["current_limit"].high


@pytest.mark.parametrize("name", ["PH54-200-S500", "PH54-100-S500", "PH42-020-S300"])
def test_velocity_unit_is_the_shipped_one(folder, name):
    text = (folder / f"{name.lower().replace('-', '_')}.model").read_text(encoding="utf-8")
    (line,) = (line for line in text.splitlines() if line.startswith("Present Velocity\t"))
    assert ours.MODELS[name].velocity_unit_rad_s == pytest.approx(float(line.split("\t")[1]), rel=1e-6)


def test_a_model_nobody_knows_is_told():
    with pytest.raises(InstrumentError, match="no servo model 'PH99' is known"):
        ours.servo_model("PH99")
    with pytest.raises(TwinError, match="no servo model 'PH99' is simulated"):
        twins.model("PH99")
    assert ours.servo_model("PH54-200-S500-R") is ours.servo_model("PH54-200-S500")
