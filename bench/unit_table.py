"""The whitelist: unit strings the bench reads and writes, the quantity kinds they belong to, and near misses.

Every string here means the same to pint, UDUNITS and UCUM: '.' for a product, '/' once with one atom after it, a bare
digit for a power. Kinds stand beside units because a unit alone does not say what a number is: N.m is a torque here
while J is an energy, rad/s an angular speed while Hz is a frequency.
"""

from __future__ import annotations

import difflib
import re
from functools import cache
from math import gcd, pi

KINDS: dict[str, tuple[str, ...]] = {
    "length": ("mm", "nm", "um", "cm", "m"),
    "angle": ("rad", "mrad", "deg"),
    "number": ("1",),
    "ratio": ("%", "1"),
    "force": ("N", "uN", "mN", "kN"),
    "torque": ("N.m", "mN.m", "N.mm"),
    "energy": ("J", "mJ", "uJ"),
    "power": ("W", "mW"),
    "stiffness": ("N/mm", "N/m", "N/um", "kN/m"),
    "damping": ("N.s/mm", "N.s/m"),
    "rotational_stiffness": ("N.m/rad", "N.m/deg"),
    "rotational_damping": ("N.m.s/rad",),
    "speed": ("mm/s", "um/s", "m/s"),
    "angular_speed": ("rad/s", "deg/s", "rpm"),
    "acceleration": ("mm/s2", "m/s2"),
    "angular_acceleration": ("rad/s2", "deg/s2"),
    "frequency": ("Hz", "kHz", "MHz"),
    "rate": ("1/s", "1/min"),
    "time": ("s", "ns", "us", "ms", "min"),
    "voltage": ("V", "mV", "uV"),
    "current": ("A", "mA"),
    "resistance": ("Ohm", "kOhm"),
    "bridge_ratio": ("mV/V", "uV/V"),
    "temperature": ("degC", "K"),
    "temperature_difference": ("K",),
    "pressure": ("Pa", "kPa", "MPa"),
    "mass": ("kg", "g"),
    "inertia": ("kg.m2",),
    "first_moment": ("kg.m",),
    "count": ("count",),
    "force_rate": ("N/s", "mN/s", "mN/min", "N/min"),
    "torque_rate": ("N.m/s", "mN.m/s", "mN.m/min"),
    "force_sensitivity": ("N/V", "mN/V"),
    "torque_sensitivity": ("N.m/V", "N.mm/V"),
    "torque_constant": ("N.m/A", "mN.m/A"),
    "reciprocal_speed": ("s/mm", "s/m"),
    "reciprocal_temperature": ("1/K",),
}

EXAMPLES: dict[str, str] = {
    "length": "2.5 mm",
    "angle": "30 deg",
    "number": "1.3 1",
    "ratio": "10 %",
    "force": "3 N",
    "torque": "0.2 N.m",
    "energy": "1.5 J",
    "power": "20 W",
    "stiffness": "200 N/mm",
    "damping": "0.08 N.s/mm",
    "rotational_stiffness": "5000 N.m/rad",
    "rotational_damping": "0.8 N.m.s/rad",
    "speed": "2 mm/s",
    "angular_speed": "0.05 rad/s",
    "acceleration": "50 mm/s2",
    "angular_acceleration": "2 rad/s2",
    "frequency": "10 kHz",
    "rate": "0.5 1/s",
    "time": "500 ms",
    "voltage": "10 V",
    "current": "1.5 A",
    "resistance": "350 Ohm",
    "bridge_ratio": "2 mV/V",
    "temperature": "21 degC",
    "temperature_difference": "0.5 K",
    "pressure": "20 kPa",
    "mass": "5 kg",
    "inertia": "0.02 kg.m2",
    "first_moment": "0.3 kg.m",
    "count": "4096 count",
    "force_rate": "2 mN/min",
    "torque_rate": "0.1 mN.m/min",
    "force_sensitivity": "20 N/V",
    "torque_sensitivity": "0.5 N.m/V",
    "torque_constant": "0.1 N.m/A",
    "reciprocal_speed": "0.02 s/mm",
    "reciprocal_temperature": "0.0002 1/K",
}

# Conversion ratios are kept as integers and a power of pi, so that 2.5 um is 0.0025 mm to the last bit.
_ATOMS: dict[str, tuple[int, int, int]] = {
    "1": (1, 1, 0),
    "%": (1, 100, 0),
    "m": (1, 1, 0),
    "cm": (1, 100, 0),
    "g": (1, 1000, 0),
    "kg": (1, 1, 0),
    "s": (1, 1, 0),
    "min": (60, 1, 0),
    "rad": (1, 1, 0),
    "deg": (1, 180, 1),
    "rpm": (1, 30, 1),
    "K": (1, 1, 0),
    "degC": (1, 1, 0),
    "count": (1, 1, 0),
    **dict.fromkeys(("N", "J", "W", "Pa", "V", "A", "Ohm", "Hz"), (1, 1, 0)),
}
_PREFIXES = {"n": (1, 10**9), "u": (1, 10**6), "m": (1, 1000), "k": (1000, 1), "M": (10**6, 1)}
OFFSETS: dict[str, float] = {"degC": 273.15}


def _atom(text: str) -> tuple[int, int, int]:
    if text in _ATOMS:
        return _ATOMS[text]
    numerator, denominator = _PREFIXES[text[0]]
    n, d, p = _ATOMS[text[1:]]
    return n * numerator, d * denominator, p


def _product(text: str) -> tuple[int, int, int]:
    numerator, denominator, pis = 1, 1, 0
    for factor in text.split("."):
        power = int(factor[-1]) if factor[-1].isdigit() and factor != "1" else 1
        n, d, p = _atom(factor[:-1] if power > 1 else factor)
        numerator, denominator, pis = numerator * n**power, denominator * d**power, pis + p * power
    return numerator, denominator, pis


def _to_si(unit: str) -> tuple[int, int, int]:
    over, _, under = unit.partition("/")
    n, d, p = _product(over)
    if under:
        n2, d2, p2 = _product(under)
        n, d, p = n * d2, d * n2, p - p2
    common = gcd(n, d)
    return n // common, d // common, p


UNITS: dict[str, tuple[int, int, int]] = {unit: _to_si(unit) for units in KINDS.values() for unit in units}
"""Unit string → (numerator, denominator, power of pi) of its ratio to the coherent SI unit."""


@cache
def kinds_of(unit: str) -> tuple[str, ...]:
    """Return the kinds ``unit`` may belong to, the default one first."""
    return tuple(kind for kind, units in KINDS.items() if unit in units)


@cache
def ratio(from_unit: str, to_unit: str) -> tuple[float, float]:
    """Return (a, b) such that a value in ``from_unit`` times a over b is the value in ``to_unit``, offsets aside."""
    n1, d1, p1 = UNITS[from_unit]
    n2, d2, p2 = UNITS[to_unit]
    n, d, p = n1 * d2, d1 * n2, p1 - p2
    common = gcd(n, d)
    return float(n // common) * (pi**p if p > 0 else 1.0), float(d // common) * (pi**-p if p < 0 else 1.0)


_ALIASES = {
    "newton": "N", "newtons": "N", "millinewton": "mN", "newtonmeter": "N.m", "n-m": "N.m", "n-mm": "N.mm",
    "meter": "m", "metre": "m", "millimeter": "mm", "millimetre": "mm", "mil": "um", "micron": "um", "microns": "um",
    "micrometer": "um", "sec": "s", "secs": "s", "second": "s", "seconds": "s", "msec": "ms", "usec": "us",
    "minute": "min", "minutes": "min", "hertz": "Hz", "sps": "Hz", "s/s": "Hz", "volt": "V", "volts": "V",
    "ampere": "A", "amp": "A", "amps": "A", "ohms": "Ohm", "ω": "Ohm", "kω": "kOhm", "degree": "deg", "degrees": "deg",
    "°": "deg", "radian": "rad", "radians": "rad", "°c": "degC", "c": "degC", "celsius": "degC", "kelvin": "K",
    "percent": "%", "pct": "%", "dimensionless": "1", "-": "1", "ratio": "1", "rev/min": "rpm", "r/min": "rpm",
    "cts": "count", "counts": "count", "ticks": "count", "pulses": "count", "mm/sec": "mm/s", "rad/sec": "rad/s",
    "mmps": "mm/s", "joule": "J", "watt": "W", "pascal": "Pa", "mps": "m/s", "ns/mm": "N.s/mm", "ns/m": "N.s/m",
}  # fmt: skip
_FOREIGN = {
    "kgf": "a kilogram-force is 9.80665 N", "gf": "a gram-force is 9.80665 mN", "lbf": "a pound-force is 4.448222 N",
    "lb": "a pound-force is 4.448222 N, a pound 0.45359237 kg",
    "in": "an inch is 25.4 mm", "inch": "an inch is 25.4 mm",
    "bar": "a bar is 100 kPa", "mbar": "a millibar is 100 Pa", "psi": "a psi is 6.894757 kPa",
    "in-lb": "an inch-pound is 0.1129848 N.m", "ft-lb": "a foot-pound is 1.355818 N.m", "h": "an hour is 60 min",
}  # fmt: skip
_TYPOGRAPHY = str.maketrans({"µ": "u", "μ": "u", "·": ".", "⋅": ".", "×": ".", "*": ".", "²": "2", "³": "3", " ": "."})


def near_miss(unit: str) -> str:
    """Return a sentence that helps someone who wrote ``unit``, which is not on the whitelist."""
    lowered = unit.lower()
    if lowered in _FOREIGN:
        return f"Convert it first: {_FOREIGN[lowered]}"
    tidy = unit.replace("**", "").replace("^", "").translate(_TYPOGRAPHY).strip(".")
    for candidate in (tidy, unit):
        if candidate in UNITS:
            return f"Write {candidate}"
        if candidate.lower() in _ALIASES:
            return f"Write {_ALIASES[candidate.lower()]}"
    if tidy.count("/") > 1 or re.search(r"/[^/]*[.(]", tidy):
        return "Use '/' once with a single unit after it, '.' for products (a damping is N.s/mm)"
    if re.match(r"[0-9]", tidy) and tidy not in UNITS:
        return "Write the number without a space inside, then one space and the unit"
    bare = tidy.replace(".", "").replace("-", "")
    squeezed = [known for known in UNITS if known.replace(".", "") == bare]
    if squeezed:
        return "Write " + " or ".join(squeezed)
    squeezed = [known for known in UNITS if known.replace(".", "").lower() == bare.lower()]
    if squeezed:  # asked, not told: MN and mN are a factor of a thousand million apart
        return "Did you mean " + " or ".join(squeezed) + "?"
    close = difflib.get_close_matches(tidy, UNITS, n=3, cutoff=0.6)
    if close:
        return "Did you mean " + " or ".join(close) + "?"
    return "Known units: " + ", ".join(UNITS)
