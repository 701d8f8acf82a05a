"""Feed-forward parameters put together from identifications, and their file.

::

    friction = identify_friction(sweep, model="stribeck")
    feedforward = assemble(friction, lugre=identify_lugre(sweep, friction), stiffness=identify_stiffness(ramp))
    feedforward.write(Path("feedforward.toml"))

The file is read by :func:`bench.profile.load_feedforward` and holds units, where the parameters were identified, their
expanded uncertainties and the digests of the archives they came from.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import bench
from bench.errors import Refused
from bench.identify.estimate import Estimate
from bench.identify.friction_fit import FrictionFit
from bench.identify.joint_runs import Origin
from bench.identify.lugre import LugreFit
from bench.identify.stiffness import StiffnessFit

SCHEMA = "bench.feedforward/1"
#: So far beyond the temperatures seen the file may be used [K]: friction changes by 0.5 % a kelvin or less where nobody
#: knows better, hence by 1 % here. A sweep alone spans a tenth of a kelvin, which the next run leaves at once.
TEMPERATURE_REACH_K = 2.0
FRICTION = (
    "coulomb", "viscous", "stribeck_excess", "stribeck_velocity", "offset", "load_coefficient",
    "temperature_coefficient",
)  # fmt: skip
NOT_NEGATIVE = ("coulomb", "viscous", "stribeck_excess", "load_coefficient")
BRISTLES = ("bristle_stiffness", "bristle_damping")
TRANSMISSION = ("stiffness_zero", "stiffness_load", "hysteresis_width", "backlash")
LINK = ("link_inertia", "gravity_moment", "gravity_phase")


@dataclass(frozen=True)
class FeedForward:
    """What a controller loads: tables of a feed-forward file by name, each parameter an :class:`Estimate`.

    Parameters
    ----------
    name, description : str
    version : int
        Counts the identifications of this joint.
    tables : mapping of str to mapping of str to Estimate
        ``friction``, ``drive`` and, where identified, ``dynamics`` and ``transmission``.
    fixed : mapping of str to (value, unit)
        Figures without uncertainty, by dotted key.
    sources : tuple of Origin
        Archives, the sweep's first.
    residual : float, optional
        Relative error on a hold-out trajectory [1].
    """

    name: str
    description: str
    version: int
    tables: Mapping[str, Mapping[str, Estimate]]
    fixed: Mapping[str, tuple[float, str]]
    sources: tuple[Origin, ...]
    residual: float | None = None
    notes: tuple[str, ...] = field(default=())

    @property
    def text(self) -> str:
        """The file's text (TOML)."""
        first = self.sources[0]
        head: dict[str, object] = {
            "schema": SCHEMA,
            "name": self.name,
            "version": self.version,
            "description": self.description,
            "rig": first.rig,
            "drive_serial_number": first.drive_serial_number,
            "load": first.load or None,
            "created": _Literal(first.recorded_utc),
            "software_version": f"forcebench {bench.__version__}",
            "residual": None if self.residual is None else f"{100.0 * self.residual!r} %",
        }
        lines = [f"# {note}" for note in self.notes]
        lines += [f"{key} = {_toml(value)}" for key, value in head.items() if value is not None]
        for table in ("friction", "drive", "dynamics", "transmission", "validity"):
            rows = [(key, _number(table, key, one.value, one.unit)) for key, one in self.tables.get(table, {}).items()]
            fixed = [(key.partition("."), value) for key, value in self.fixed.items()]
            rows += [(key[2], _number(table, key[2], *value)) for key, value in fixed if key[0] == table]
            if rows:
                lines += ["", f"[{table}]", *(f"{key} = {value}" for key, value in rows)]
        uncertain = [
            f'"{table}.{key}" = {_quantity(one.expanded_uncertainty, one.unit)}'
            for table, rows_of in self.tables.items()
            for key, one in rows_of.items()
        ]
        lines += ["", "# Expanded uncertainties, 95 %", "[uncertainty]", *uncertain]
        for one in self.sources:
            lines += ["", "[[sources]]", f"file = {_toml(one.file)}", f"procedure = {_toml(one.procedure)}"]
            lines += [f"digest = {_toml(one.digest)}", f"simulated = {_toml(one.simulated)}"]
        return "\n".join(lines) + "\n"

    def to_toml(self) -> str:
        """Return :attr:`text`."""
        return self.text

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_text(self.text, encoding="utf-8")
        return path


def assemble(
    friction: FrictionFit,
    *,
    lugre: LugreFit | None = None,
    stiffness: StiffnessFit | None = None,
    dynamics: Mapping[str, Estimate] | None = None,
    sources: Sequence[Origin] = (),
    name: str = "",
    version: int = 1,
    description: str = "",
    residual: float | None = None,
) -> FeedForward:
    """Put identifications together.

    Parameters
    ----------
    friction : FrictionFit
        With the archive it came from, unless ``sources`` names it.
    lugre, stiffness :
        Further fits.
    dynamics : mapping of str to Estimate
        ``motor_inertia`` and, where known, ``link_inertia``, ``gravity_moment``, ``gravity_phase``.
    sources : sequence of Origin
        Further archives; the first one is the sweep's when ``friction`` does not know its own.
    name : str
        By default the rig's, with ``_feedforward``.
    residual : float, optional
        Relative error on a hold-out trajectory [1].

    Raises
    ------
    Refused
        ``no_source``: nothing says which archive the parameters came from; ``no_motor_inertia``;
        ``below_zero``: a level that cannot be negative is, by more than its uncertainty.
    """
    known = [one for one in (friction.origin, *sources, stiffness.origin if stiffness else None) if one is not None]
    archives = tuple({one.digest: one for one in known}.values())
    if not archives:
        raise Refused(
            "nothing says which archive the friction came from",
            reason="no_source",
            where="feed-forward",
            remedy="Identify from an archived run, or name the archive in sources",
        )
    found = friction.parameters
    tables: dict[str, dict[str, Estimate]] = {
        "friction": {key: found[key] for key in FRICTION if key in found},
        "drive": {"torque_scale": found["torque_scale"]},
    }
    fixed: dict[str, tuple[float, str]] = {"friction.reference_temperature": (friction.reference_temperature, "degC")}
    if "stribeck_excess" not in found:
        fixed |= {"friction.stribeck_excess": (0.0, "N.m"), "friction.stribeck_velocity": (0.05, "rad/s")}
    if lugre is not None:
        tables["friction"] |= {key: lugre.parameters[key] for key in BRISTLES}
    if dynamics is not None:
        if "motor_inertia" not in dynamics:
            raise Refused(
                "the dynamics lack motor_inertia",
                reason="no_motor_inertia",
                where="feed-forward",
                remedy="Identify the motor's side on a Fourier excitation",
            )
        tables["dynamics"] = {key: dynamics[key] for key in ("motor_inertia", *LINK) if key in dynamics}
    if stiffness is not None:
        gear = stiffness.parameters
        tables["transmission"] = {key: gear[key] for key in TRANSMISSION if key in gear}
        fixed["transmission.load"] = (stiffness.load_Nm, "N.m")
        if "hysteresis_width" not in gear:
            fixed["transmission.hysteresis_width"] = (0.0, "N.m")
    span = friction.span
    fixed |= {
        "validity.speed_min": (span.speed_min, "rad/s"),
        "validity.speed_max": (span.speed_max, "rad/s"),
        "validity.load_max": (span.load_max, "N.m"),
        "validity.temperature_min": (span.temperature_min - TEMPERATURE_REACH_K, "degC"),
        "validity.temperature_max": (span.temperature_max + TEMPERATURE_REACH_K, "degC"),
    }
    _check(tables)
    return FeedForward(
        name or f"{archives[0].rig}_feedforward", description or f"{friction.model} friction of {archives[0].rig}",
        version, tables, fixed, archives, residual, friction.notes,
    )  # fmt: skip


def _check(tables: Mapping[str, Mapping[str, Estimate]]) -> None:
    for key in NOT_NEGATIVE:
        one = tables["friction"].get(key)
        if one is not None and one.value + one.expanded_uncertainty < 0.0:
            raise Refused(
                f"{key} came out as {one}",
                reason="below_zero",
                where="feed-forward",
                remedy="Friction that pushes is no friction: check signs of torque and speed, and the torque scale",
            )


class _Literal(str):
    """Text that stands in TOML as it is."""

    __slots__ = ()


def _toml(value: object) -> str:
    if isinstance(value, _Literal):
        return str(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    # a JSON string is a TOML string; DEL is the one character JSON leaves alone and TOML does not
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f") if isinstance(value, str) else repr(value)


def _quantity(value: float, unit: str) -> str:
    return _toml(f"{float(value)!r} {unit}")


def _number(table: str, key: str, value: float, unit: str) -> str:
    """One parameter as its file has it: plain where it is a plain number, at zero where noise put it below."""
    if table in ("friction", "transmission") and key in (
        *NOT_NEGATIVE,
        "bristle_damping",
        "hysteresis_width",
        "backlash",
    ):
        value = max(value, 0.0)
    return repr(float(value)) if unit == "1" else _quantity(value, unit)
