"""Numbers with a unit and a kind: one strict parser, one pint registry, cheap exact conversion.

>>> speed = Value.parse("2 mm/s")
>>> speed.to("m/s"), speed.kind, str(speed)
(0.002, 'speed', '2 mm/s')
>>> Value.parse("5 Nm")
Traceback (most recent call last):
    ...
bench.errors.UnitError: 'Nm' in '5 Nm' is not a unit the bench knows. Write N.m

pint and NumPy are imported where they are first used, not before: together they cost most of a second, and checking a
folder of profiles needs neither.
"""

from __future__ import annotations

import math
import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

from bench.errors import UnitError
from bench.unit_table import EXAMPLES, KINDS, OFFSETS, UNITS, kinds_of, near_miss, ratio

if TYPE_CHECKING:
    import numpy as np
    import pint
    from numpy.typing import ArrayLike, NDArray

    ureg: pint.UnitRegistry[Any]

__all__ = [
    "EXAMPLES",
    "KINDS",
    "UNITS",
    "Value",
    "article",
    "assert_within",
    "check_unit",
    "convert",
    "due",
    "factor",
    "kinds_of",
    "pint_unit",
]

_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TYPED = str.maketrans("\u2212\u2013\u00a0\u202f", "--  ")
_registry: Any = None
_registry_lock = threading.Lock()


def article(kind: str) -> str:
    """Return ``kind`` in words with its article: "an angular speed"."""
    words = kind.replace("_", " ")
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def due(kind: str) -> str:
    """Say what is due where a value of ``kind`` stands: "a speed such as '2 mm/s'"."""
    return f"{article(kind)} such as '{EXAMPLES[kind]}'"


def check_unit(unit: str, kind: str, *, where: str = "") -> None:
    """Raise :class:`UnitError` unless ``unit`` is whitelisted and belongs to ``kind``."""
    if kind not in KINDS:
        raise UnitError(f"'{kind}' is not a quantity kind", where=where, remedy="Known kinds: " + ", ".join(KINDS))
    if unit not in UNITS:
        raise UnitError(f"'{unit}' is not a unit the bench knows", where=where, remedy=near_miss(unit))
    if unit not in KINDS[kind]:
        raise UnitError(
            f"'{unit}' is a unit of {article(kinds_of(unit)[0])}, not of {article(kind)}",
            where=where,
            remedy=f"Expected one of {', '.join(KINDS[kind])}",
        )


@cache
def _check_pair(from_unit: str, to_unit: str) -> None:
    for unit in (from_unit, to_unit):
        if unit not in UNITS:
            raise UnitError(f"'{unit}' is not a unit the bench knows", remedy=near_miss(unit))
    if not set(kinds_of(from_unit)) & set(kinds_of(to_unit)):
        raise UnitError(
            f"'{from_unit}' is a unit of {article(kinds_of(from_unit)[0])} and '{to_unit}' one of "
            f"{article(kinds_of(to_unit)[0])}: no conversion between them",
            remedy="Units convert within one kind only, even where their dimensions agree",
        )


def factor(from_unit: str, to_unit: str) -> float:
    """Return what a number in ``from_unit`` is multiplied by to be in ``to_unit``.

    Raises
    ------
    UnitError
        A unit is unknown, the two share no kind, or they differ by an offset as well (degC and K).
    """
    _check_pair(from_unit, to_unit)
    if OFFSETS.get(from_unit, 0.0) != OFFSETS.get(to_unit, 0.0):
        raise UnitError(
            f"'{from_unit}' and '{to_unit}' differ by an offset, not by a factor alone", remedy="Use convert()"
        )
    over, under = ratio(from_unit, to_unit)
    return over / under


def convert(values: ArrayLike, from_unit: str, to_unit: str) -> NDArray[np.float64]:
    """Return ``values`` (any shape, in ``from_unit``) as a new float64 array in ``to_unit``."""
    import numpy as np

    _check_pair(from_unit, to_unit)
    over, under = ratio(from_unit, to_unit)
    array = np.asarray(values, dtype=np.float64) * over / under
    shift = OFFSETS.get(from_unit, 0.0) * over / under - OFFSETS.get(to_unit, 0.0)
    return np.asarray(array + shift if shift else array, dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Value:
    """A finite number, its unit and its kind. ``str(value)`` parses back to the same bits.

    Parameters
    ----------
    magnitude : float
        The number, in ``unit``.
    unit : str
        One of :data:`UNITS`.
    kind : str
        One of :data:`KINDS`; ``unit`` must belong to it.
    """

    magnitude: float
    unit: str
    kind: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "magnitude", float(self.magnitude))
        if not math.isfinite(self.magnitude):
            raise UnitError(f"{self.magnitude} {self.unit} is not a finite number")
        check_unit(self.unit, self.kind)

    @classmethod
    def parse(cls, text: str, kind: str | None = None, *, where: str = "") -> Value:
        """Read "2 mm/s": a number with a decimal point, a space, a whitelisted unit.

        Parameters
        ----------
        text : str
            What was written.
        kind : str, optional
            The kind that is due; without it the unit's first kind is taken (N.m is a torque, % a ratio).
        where : str
            Place named in the error.

        Raises
        ------
        UnitError
            Bare number, decimal comma, nan, inf, unknown unit, unit of another kind; the remedy says what to write.
        """
        if kind is not None and kind not in KINDS:
            raise UnitError(f"'{kind}' is not a quantity kind", remedy="Known kinds: " + ", ".join(KINDS))
        remedy = f"Expected {due(kind)}" if kind else "Write a number, a space and a unit, such as '2 mm/s'"
        if not isinstance(text, str):
            raise UnitError(f"{text!r} has no unit", where=where, remedy=remedy)
        number, _, unit = text.strip().partition(" ")
        unit = unit.strip()
        if not _NUMBER.fullmatch(number):
            what, remedy = _bad_number(text, number, unit, remedy)
            raise UnitError(what, where=where, remedy=remedy)
        if not unit:
            raise UnitError(f"'{text}' is a bare number without a unit", where=where, remedy=remedy)
        magnitude = float(number)
        if not math.isfinite(magnitude):
            raise UnitError(f"'{text}' is too large for a float", where=where, remedy=remedy)
        if unit not in UNITS:
            raise UnitError(f"'{unit}' in '{text}' is not a unit the bench knows", where=where, remedy=near_miss(unit))
        if kind is None:
            kind = kinds_of(unit)[0]
        elif unit not in KINDS[kind]:
            raise UnitError(f"'{text}' is {article(kinds_of(unit)[0])}", where=where, remedy=remedy)
        return cls(magnitude, unit, kind)

    def to(self, unit: str) -> float:
        """Return the magnitude in ``unit``, which must belong to this value's kind."""
        if unit == self.unit:
            return self.magnitude
        if unit not in KINDS[self.kind]:
            check_unit(unit, self.kind, where=f"converting {self}")
        over, under = ratio(self.unit, unit)
        shift = OFFSETS.get(self.unit, 0.0) - OFFSETS.get(unit, 0.0)
        return self.magnitude * over / under + shift

    def quantity(self) -> pint.Quantity[Any]:
        """Return this value as a pint quantity of the one registry (the kind is lost)."""
        result: pint.Quantity[Any] = _ureg().Quantity(self.magnitude, pint_unit(self.unit))
        return result

    def __str__(self) -> str:
        return f"{repr(self.magnitude).removesuffix('.0')} {self.unit}"


def _bad_number(text: str, number: str, unit: str, remedy: str) -> tuple[str, str]:
    """Return what is wrong with a text that does not start with a plain number and a space, and the remedy."""
    rest = f" {unit}" if unit else ""
    if re.fullmatch(r"[+-]?[0-9]+,[0-9]+", number):
        return f"'{text}' has a decimal comma", f"Write '{number.replace(',', '.')}{rest}' with a decimal point"
    if number.lower().lstrip("+-") in ("nan", "inf", "infinity"):
        return f"'{text}' is not a finite number", remedy
    ascii_text = text.translate(_TYPED)
    if ascii_text != text:
        return f"'{text}' holds a typographic minus or space", f"Write '{ascii_text}' in plain ASCII"
    start = _NUMBER.match(number)
    if start and not unit and not re.match(r"[0-9_.,']", number[start.end() :]):
        return f"'{text}' has no space after the number", f"Write '{start.group()} {number[start.end() :]}'"
    return f"'{text}' does not start with a plain decimal number", remedy


@cache
def pint_unit(unit: str) -> Any:
    """Return the pint unit of a whitelisted unit string."""
    if unit not in UNITS:
        raise UnitError(f"'{unit}' is not a unit the bench knows", remedy=near_miss(unit))
    spelled = re.sub(r"(?<=[a-z])([2-9])", r"**\1", unit).replace("Ohm", "ohm")
    return _ureg().parse_units(spelled)


def _ureg() -> Any:
    """Build the one registry on first use and make it pint's application registry."""
    global _registry
    with _registry_lock:
        if _registry is None:
            import pint

            try:
                registry: Any = pint.UnitRegistry(on_redefinition="raise", cache_folder=":auto:")
                registry.parse_units("mm/s")
            except Exception:  # an unwritable or damaged cache must cost time, never the run
                registry = pint.UnitRegistry(on_redefinition="raise")
            pint.set_application_registry(registry)  # type: ignore[no-untyped-call]
            _registry = registry
    return _registry


def __getattr__(name: str) -> Any:
    if name == "ureg":
        return _ureg()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


Measured: TypeAlias = "Value | str | pint.Quantity[Any]"


def _split(measured: Measured, role: str) -> tuple[NDArray[np.float64], str, frozenset[str]]:
    """Return magnitudes, whitelisted unit and the kinds they may be of."""
    import numpy as np

    if isinstance(measured, str):
        measured = Value.parse(measured, where=role)
    if isinstance(measured, Value):
        return np.asarray(measured.magnitude), measured.unit, frozenset((measured.kind,))
    if not hasattr(measured, "units") or not hasattr(measured, "magnitude"):
        raise UnitError(f"{measured!r} has no unit", where=role, remedy="Pass a Value or a pint quantity")
    same = [unit for unit in UNITS if str(pint_unit(unit)) == str(measured.units)]
    same = same or [unit for unit in UNITS if unit not in OFFSETS and pint_unit(unit) == measured.units]
    if not same:
        remedy = near_miss(f"{measured.units:~}")
        raise UnitError(f"'{measured.units}' is not a unit the bench knows", where=role, remedy=remedy)
    kinds = frozenset(kind for unit in same for kind in kinds_of(unit))
    return np.asarray(measured.magnitude, dtype=np.float64), same[0], kinds


def assert_within(value: Measured, expected: Measured, tolerance: Measured, *, relative: bool | None = None) -> None:
    """Assert that ``value`` lies within ``tolerance`` of ``expected``, bounds included (to float rounding).

    Parameters
    ----------
    value, expected : Value, str or pint.Quantity
        Scalars or arrays that broadcast together. They must share a kind: N.m never compares with J.
    tolerance : Value, str or pint.Quantity
        A quantity of that kind, or a ratio ("1 %") of ``abs(expected)``.
    relative : bool, optional
        Whether a ratio tolerance is relative; must be said when the compared values are ratios themselves.

    Raises
    ------
    AssertionError
        The difference exceeds the tolerance; the message shows both, the difference and the tolerance.
    UnitError
        Mixed kinds, a nan, or a tolerance that cannot be applied.
    """
    import numpy as np

    x, x_unit, x_kinds = _split(value, "value")
    ref, unit, ref_kinds = _split(expected, "expected")
    tol, tol_unit, tol_kinds = _split(tolerance, "tolerance")
    if not x_kinds & ref_kinds:
        raise UnitError(
            f"cannot compare {article(min(x_kinds))} [{x_unit}] with {article(min(ref_kinds))} [{unit}]",
            remedy="Compare values of one kind",
        )
    x = convert(x, x_unit, unit)
    for role, array in (("value", x), ("expected", ref), ("tolerance", tol)):
        if not np.all(np.isfinite(array)):
            raise UnitError(f"{role} holds a nan or an infinity", remedy="A missing value never compares")
    is_ratio = "ratio" in tol_kinds or "number" in tol_kinds
    if relative is None and is_ratio and ref_kinds & {"ratio", "number"}:
        raise UnitError(
            "a ratio tolerance on a ratio may be absolute or relative", remedy="Say relative=True or relative=False"
        )
    if is_ratio and relative is not False:
        if "temperature" in ref_kinds:
            raise UnitError("a temperature has no meaningful relative tolerance", remedy="Give the tolerance in K")
        allowed = convert(tol, tol_unit, "1") * np.abs(ref)
    elif relative:
        raise UnitError(
            f"[{tol_unit}] is no relative tolerance", where="tolerance", remedy="Give a ratio such as '1 %'"
        )
    elif "temperature" in ref_kinds:
        allowed = tol * factor(tol_unit, "K")
    elif tol_kinds & ref_kinds:
        allowed = convert(tol, tol_unit, unit)
    else:
        raise UnitError(
            f"a tolerance in [{tol_unit}] does not fit {article(min(ref_kinds))} [{unit}]",
            where="tolerance",
            remedy=f"Expected {' or '.join(KINDS[min(ref_kinds)])}, or a ratio such as '1 %'",
        )
    if np.any(allowed < 0):
        raise UnitError("the tolerance is negative", where="tolerance", remedy="Give zero or more")
    rounding = 4 * np.finfo(np.float64).eps * np.maximum(np.abs(x), np.abs(ref))  # 1.01 - 1 is a bit more than 0.01
    excess = np.abs(x - ref) - allowed - rounding
    if np.any(excess > 0):
        x, ref, allowed, excess = np.broadcast_arrays(x, ref, allowed, excess)
        worst = np.unravel_index(int(np.argmax(excess)), excess.shape)
        place = f" at index {', '.join(map(str, worst))}" if worst else ""
        raise AssertionError(
            f"{x[worst]:.9g} {unit} differs from {ref[worst]:.9g} {unit} by {abs(x[worst] - ref[worst]):.3g} {unit}"
            f"{place}; allowed is {allowed[worst]:.3g} {unit}"
        )
