"""Numbers with units: what is read, what is refused with which hint, and that nothing is lost on the way."""

from __future__ import annotations

import doctest
import math
import pickle
import struct
import subprocess
import sys
from itertools import product

import numpy as np
import pytest

import bench.units
from bench.errors import UnitError
from bench.unit_table import OFFSETS
from bench.units import EXAMPLES, KINDS, UNITS, Value, assert_within, check_unit, convert, factor, kinds_of, pint_unit


def quantity(magnitude: object, unit: str) -> object:
    return bench.units.ureg.Quantity(magnitude, pint_unit(unit))


def pairs_of_one_kind() -> list[tuple[str, str]]:
    return sorted({pair for units in KINDS.values() for pair in product(units, units) if not set(pair) & set(OFFSETS)})


# ---------------------------------------------------------------------------------------------------------- reading


@pytest.mark.parametrize(
    ("text", "magnitude", "unit", "kind"),
    [
        ("2 mm/s", 2.0, "mm/s", "speed"),
        ("  -0.5   N.m ", -0.5, "N.m", "torque"),
        ("+.5e-3 mV/V", 0.5e-3, "mV/V", "bridge_ratio"),
        ("10 %", 10.0, "%", "ratio"),
        ("3. 1", 3.0, "1", "number"),
        ("21.5 degC", 21.5, "degC", "temperature"),
    ],
)
def test_a_number_with_a_unit_is_read_with_the_kind_of_its_unit(
    text: str, magnitude: float, unit: str, kind: str
) -> None:
    assert Value.parse(text) == Value(magnitude, unit, kind)


def test_the_kind_that_is_due_decides_where_a_unit_belongs_to_several() -> None:
    assert Value.parse("0.5 1", "ratio").to("%") == 50.0
    assert Value.parse("300 K", "temperature_difference").kind == "temperature_difference"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("2,5 mm", "'2,5 mm' has a decimal comma. Write '2.5 mm' with a decimal point"),
        ("nan mm", "'nan mm' is not a finite number"),
        ("-inf N", "'-inf N' is not a finite number"),
        ("1e999 N", "'1e999 N' is too large for a float"),
        ("5 Nm", "'Nm' in '5 Nm' is not a unit the bench knows. Write N.m"),
        ("5 N*m", "'N*m' in '5 N*m' is not a unit the bench knows. Write N.m"),
        ("5 N m", "'N m' in '5 N m' is not a unit the bench knows. Write N.m"),
        ("5 N-m", "Write N.m"),
        ("5 N·m", "Write N.m"),
        ("5 mNm", "Write mN.m"),
        ("2 mm/s^2", "'mm/s^2' in '2 mm/s^2' is not a unit the bench knows. Write mm/s2"),
        ("2 mm/s**2", "Write mm/s2"),
        ("2 mm/s²", "Write mm/s2"),
        ("3 µm", "Write um"),
        ("3 μm", "Write um"),
        ("350 Ω", "Write Ohm"),
        ("20 °C", "Write degC"),
        ("2", "'2' is a bare number without a unit"),
        ("", "does not start with a plain decimal number"),
        ("mm", "does not start with a plain decimal number"),
        ("1_000 mm", "does not start with a plain decimal number"),
        ("0x10 mm", "does not start with a plain decimal number"),
        ("1 000 mm", "Write the number without a space inside"),
        ("2mm/s", "'2mm/s' has no space after the number. Write '2 mm/s'"),
        ("−2 mm", "typographic minus or space. Write '-2 mm' in plain ASCII"),
        ("3 cts", "'cts' in '3 cts' is not a unit the bench knows. Write count"),
        ("3 G", "Did you mean g?"),
        ("3 MN", "Did you mean mN?"),
        ("3 kgf", "Convert it first: a kilogram-force is 9.80665 N"),
        ("3 inch", "Convert it first: an inch is 25.4 mm"),
        ("2 N/mm*s", "Use '/' once with a single unit after it"),
        ("2 N/mm/s", "Use '/' once with a single unit after it"),
        ("2 sec", "Write s"),
        ("2 furlong", "Known units: mm, nm, um"),
        ("٣ mm", "does not start with a plain decimal number"),
    ],
)
def test_what_is_not_plainly_a_number_with_a_known_unit_is_refused_with_a_hint(text: str, said: str) -> None:
    with pytest.raises(UnitError) as caught:
        Value.parse(text)
    assert said in str(caught.value)


def test_a_wrong_kind_says_what_it_is_and_what_was_due_and_where() -> None:
    with pytest.raises(UnitError) as caught:
        Value.parse("2 mm", "speed", where="indenter.toml: stage.max_speed")
    assert str(caught.value) == (
        "indenter.toml: stage.max_speed: '2 mm' is a length. Expected a speed such as '2 mm/s'"
    )


@pytest.mark.parametrize("given", [2, 2.5, True, None, ["2 mm"]])
def test_a_value_that_is_no_text_has_no_unit(given: object) -> None:
    with pytest.raises(UnitError, match=r"has no unit. Expected a length such as '2.5 mm'"):
        Value.parse(given, "length")  # type: ignore[arg-type]


def test_a_kind_nobody_knows_is_refused() -> None:
    with pytest.raises(UnitError, match=r"'velocity' is not a quantity kind. Known kinds: length"):
        Value.parse("2 mm/s", "velocity")


@pytest.mark.parametrize("magnitude", [math.nan, math.inf, -math.inf])
def test_a_value_is_never_nan_or_infinite(magnitude: float) -> None:
    with pytest.raises(UnitError, match="not a finite number"):
        Value(magnitude, "mm", "length")


def test_a_unit_of_another_kind_is_refused_when_a_value_is_made() -> None:
    with pytest.raises(UnitError, match="'J' is a unit of an energy, not of a torque"):
        Value(1.0, "J", "torque")
    with pytest.raises(UnitError, match=r"'rpm' is a unit of an angular speed, not of a frequency. Expected one of Hz"):
        check_unit("rpm", "frequency")


# ------------------------------------------------------------------------------------------------------- round trip


def random_floats(count: int) -> list[float]:
    """Finite floats of every exponent: random bit patterns, and the edges."""
    bits = np.random.default_rng(7).integers(0, 2**64, count, dtype=np.uint64)
    drawn = [struct.unpack("<d", int(pattern).to_bytes(8, "little"))[0] for pattern in bits]
    edges = [0.0, -0.0, 1.0, 0.1, 5e-324, sys.float_info.max, sys.float_info.min, 1e16, 1e22, 123456789.0, 2.0**53 + 2]
    return [number for number in drawn if math.isfinite(number)] + edges


def test_text_of_a_value_reads_back_to_the_same_bits_for_every_unit_and_kind() -> None:
    numbers = random_floats(200)
    for kind, units in KINDS.items():
        for unit, number in product(units, numbers):
            value = Value(number, unit, kind)
            back = Value.parse(str(value), kind)
            assert struct.pack("<d", back.magnitude) == struct.pack("<d", number), str(value)
            assert (back.unit, back.kind) == (unit, kind)


def test_text_stays_as_a_person_writes_it() -> None:
    texts = ["2 mm/s", "0.047625 um", "-0.5 N.m", "100 ms", "1e-09 s"]
    assert [str(Value.parse(text)) for text in texts] == texts


def test_a_numpy_number_prints_as_a_plain_one() -> None:
    assert str(Value(np.float64(2.5), "mm", "length")) == "2.5 mm"


def test_values_compare_hash_and_pickle() -> None:
    value = Value.parse("2 mm")
    assert pickle.loads(pickle.dumps(value)) == value
    assert len({value, Value.parse("2 mm"), Value.parse("2 um")}) == 2
    assert Value(1.0, "1", "number") != Value(1.0, "1", "ratio")


# ------------------------------------------------------------------------------------------------------- conversion


def test_every_conversion_factor_agrees_with_pint() -> None:
    pairs = pairs_of_one_kind()
    assert len(pairs) > 150
    for from_unit, to_unit in pairs:
        by_pint = quantity(1.0, from_unit).to(pint_unit(to_unit)).magnitude  # type: ignore[attr-defined]
        assert factor(from_unit, to_unit) == pytest.approx(by_pint, rel=1e-14), (from_unit, to_unit)


def test_units_of_one_kind_have_one_dimension_by_pint() -> None:
    for units in KINDS.values():
        assert len({str(pint_unit(unit).dimensionality) for unit in units}) == 1


@pytest.mark.parametrize(
    ("one", "unit", "published"),
    [
        ("rpm", "rad/s", 2 * math.pi / 60),
        ("deg", "rad", math.pi / 180),
        ("N/mm", "N/m", 1000.0),
        ("N.s/mm", "N.s/m", 1000.0),
        ("N/um", "N/mm", 1000.0),
        ("kHz", "Hz", 1000.0),
        ("min", "s", 60.0),
        ("mV/V", "uV/V", 1000.0),
        ("N.m/deg", "N.m/rad", 180 / math.pi),
        ("mN/min", "N/s", 1e-3 / 60),
        ("s/mm", "s/m", 1000.0),
        ("%", "1", 0.01),
        ("MPa", "kPa", 1000.0),
        ("g", "kg", 0.001),
    ],
)
def test_conversion_factors_are_the_published_ones(one: str, unit: str, published: float) -> None:
    assert factor(one, unit) == published


def test_decimal_conversions_are_correctly_rounded() -> None:
    assert Value.parse("2.5 um").to("mm") == 0.0025
    assert Value.parse("100 ms").to("s") == 0.1
    assert Value.parse("0.047625 um").to("m") == 0.047625e-6
    assert Value.parse("7 mN").to("N") == 0.007


def test_the_ice_point_is_273_15_kelvin_both_ways() -> None:
    assert Value.parse("0 degC").to("K") == 273.15
    assert convert([273.15, 373.15], "K", "degC").tolist() == [0.0, 100.0]
    with pytest.raises(UnitError, match="differ by an offset"):
        factor("degC", "K")


@pytest.mark.parametrize(("one", "other"), [("N.m", "J"), ("rad/s", "Hz"), ("Hz", "1/s"), ("mm", "N"), ("rad", "1")])
def test_units_of_different_kinds_do_not_convert_even_where_pint_would(one: str, other: str) -> None:
    with pytest.raises(UnitError, match="no conversion between them"):
        factor(one, other)
    with pytest.raises(UnitError, match="not of"):
        Value(1.0, one, kinds_of(one)[0]).to(other)


def test_arrays_convert_to_new_arrays() -> None:
    volts = np.array([[1.0, -2.0], [0.5, 0.0]])
    millivolts = convert(volts, "V", "mV")
    assert millivolts.tolist() == [[1000.0, -2000.0], [500.0, 0.0]]
    same = convert(volts, "V", "V")
    same[0, 0] = 9.0
    assert volts[0, 0] == 1.0


def test_every_kind_has_an_example_that_reads_as_that_kind() -> None:
    assert set(EXAMPLES) == set(KINDS)
    for kind, example in EXAMPLES.items():
        assert str(Value.parse(example, kind)) == example


# ------------------------------------------------------------------------------------------------------------- pint


def test_there_is_one_registry_and_it_is_the_application_registry() -> None:
    import pint

    assert bench.units.ureg is bench.units.ureg
    assert pint.get_application_registry().get() is bench.units.ureg
    assert pickle.loads(pickle.dumps(Value.parse("2 mm").quantity())) == quantity(2.0, "mm")
    with pytest.raises(pint.RedefinitionError):
        bench.units.ureg.define("newton = 3 * meter")


def test_every_whitelisted_unit_is_known_to_pint() -> None:
    ureg = bench.units.ureg
    assert pint_unit("N.m") == ureg.newton * ureg.meter
    assert pint_unit("mm/s2") == ureg.millimeter / ureg.second**2
    assert pint_unit("kg.m2") == ureg.kilogram * ureg.meter**2
    for unit in UNITS:
        pint_unit(unit)
    with pytest.raises(UnitError, match=r"'Nm' is not a unit the bench knows. Write N\.m"):
        pint_unit("Nm")


def test_reading_values_imports_neither_pint_nor_numpy() -> None:
    code = (
        "import sys; from bench.units import Value; Value.parse('2 mm/s').to('m/s');"
        "print([name for name in ('pint', 'numpy') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


# ---------------------------------------------------------------------------------------------------- assert_within


def test_values_within_an_absolute_or_relative_tolerance_pass_bounds_included() -> None:
    assert_within("2.5 mm", "2 mm", "500 um")
    assert_within(Value.parse("1010 mN"), Value.parse("1 N"), "1 %")
    assert_within(quantity(5.0, "N.m"), "5 N.m", "0 N.m")
    assert_within(quantity(np.array([1.0, 2.0]), "mm"), quantity(np.array([1.001, 2.001]), "mm"), "1.1 um")
    assert_within("21 degC", "294.15 K", "1e-09 K")


def test_a_deviation_is_told_with_both_values_the_difference_and_what_is_allowed() -> None:
    with pytest.raises(AssertionError) as caught:
        assert_within("2.1 mm/s", "2 mm/s", "1 %")
    assert str(caught.value) == "2.1 mm/s differs from 2 mm/s by 0.1 mm/s; allowed is 0.02 mm/s"


def test_the_worst_element_of_an_array_is_named() -> None:
    with pytest.raises(AssertionError, match=r"3.5 N differs from 3 N by 0.5 N at index 2; allowed is 0.1 N"):
        assert_within(quantity(np.array([1.0, 2.2, 3.5]), "N"), quantity(np.array([1.0, 2.0, 3.0]), "N"), "100 mN")


@pytest.mark.parametrize(
    ("value", "expected", "tolerance", "said"),
    [
        ("5 N.m", "5 J", "1 %", r"cannot compare a torque \[N.m\] with an energy \[J\]"),
        ("5 rad/s", "5 Hz", "1 %", "cannot compare"),
        ("5 mm", "5 mm", "1 N", r"a tolerance in \[N\] does not fit a length"),
        ("5 mm", "5 mm", "-1 mm", "the tolerance is negative"),
        ("50 %", "50 %", "1 %", "may be absolute or relative. Say relative=True"),
        ("20 degC", "20 degC", "1 %", "no meaningful relative tolerance"),
        (5.0, "5 mm", "1 %", "5.0 has no unit"),
    ],
)
def test_a_comparison_without_a_meaning_is_refused(value: str, expected: str, tolerance: str, said: str) -> None:
    with pytest.raises(UnitError, match=said):
        assert_within(value, expected, tolerance)


def test_torque_and_energy_are_told_apart_in_pint_quantities_too() -> None:
    with pytest.raises(UnitError, match="cannot compare"):
        assert_within(quantity(5.0, "N.m"), quantity(5.0, "J"), "1 %")


def test_nan_never_compares_as_equal() -> None:
    for value, expected in ((math.nan, 1.0), (1.0, math.nan), (math.inf, math.inf)):
        with pytest.raises(UnitError, match="nan or an infinity"):
            assert_within(quantity(value, "mm"), quantity(expected, "mm"), "1 mm")


def test_a_ratio_tolerance_on_ratios_is_what_the_caller_says() -> None:
    assert_within("50.4 %", "50 %", "1 %", relative=True)
    assert_within("50.9 %", "50 %", "1 %", relative=False)
    with pytest.raises(AssertionError, match=r"allowed is 0.5 %"):
        assert_within("50.9 %", "50 %", "1 %", relative=True)
    with pytest.raises(UnitError, match="is no relative tolerance"):
        assert_within("5 mm", "5 mm", "1 mm", relative=True)


def test_the_examples_in_the_module_run() -> None:
    outcome = doctest.testmod(bench.units)
    assert (outcome.failed, outcome.attempted > 2) == (0, True)
