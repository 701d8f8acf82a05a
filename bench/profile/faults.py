"""What can go wrong with a simulated rig, by name: parameters, and which rigs it can befall."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from typing import Any

from pydantic import JsonValue

from bench.errors import TwinError, UnitError
from bench.profile.problem import Issue, near_miss, shown
from bench.units import Value, due

FAULTS: dict[str, dict[str, str]] = {
    "device_unplugged": {"device": "text"},
    "saturated_cell": {},
    "estop_pressed": {},
    "enable_stuck": {},
    "stage_stall": {},
    "lost_steps": {"distance": "length"},
    "drifting_cell": {"rate": "force_rate|torque_rate"},
    "broken_wire": {"gauge": "integer"},
    "dropped_samples": {"count": "integer"},
    "buffer_overwrite": {},
    "late_reply": {"count": "integer", "delay": "time"},
    "corrupt_checksum": {"count": "integer"},
    "wrong_phantom": {"specimen": "text"},
    "stuck_encoder": {},
    "lost_counts": {"pulses": "integer"},
    "encoder_direction_swapped": {},
    "drive_fault": {"code": "integer"},
    "transducer_inverted": {},
    "friction_changed": {"factor": "ratio"},
    "backlash": {"gap": "angle"},
    "overheat": {"temperature": "temperature", "within": "time"},
    "axis_encoder_stuck": {"joint": "integer"},
    "axis_friction_changed": {"joint": "integer", "factor": "ratio"},
    "axis_torque_changed": {"joint": "integer", "factor": "ratio"},
    "payload_changed": {"mass": "mass"},
    "servo_missing": {"id": "integer"},
    "servo_model_changed": {"id": "integer", "model": "text"},
    "servo_error": {"id": "integer", "bits": "integer"},
    "gauge_inverted": {"gauge": "integer"},
    "gauges_swapped": {"gauge": "integer", "other": "integer"},
    "wrong_calibration_file": {"factor": "ratio"},
    "wrong_gear_ratio": {"joint": "integer", "factor": "ratio"},
    "swapped_axes": {"joint": "integer", "other": "integer"},
}
"""Fault → its parameters and what each is: a quantity kind (or either of two), ``text`` or ``integer``."""
FAULTS_OF_ONE = {
    **dict.fromkeys(("stage_stall", "lost_steps", "wrong_phantom"), "indenter"),
    **dict.fromkeys(("drive_fault", "transducer_inverted", "friction_changed", "backlash", "overheat"), "single_joint"),
    **dict.fromkeys(("axis_encoder_stuck", "axis_friction_changed", "axis_torque_changed"), "arm"),
    **dict.fromkeys(("payload_changed", "servo_missing", "servo_model_changed", "servo_error"), "arm"),
    "swapped_axes": "arm",
}
"""Fault that can befall one kind of rig only → that kind."""
FAULTS_NOT_OF = {
    "single_joint": ("gauge_inverted", "gauges_swapped"),
    "arm": ("stuck_encoder", "lost_counts", "encoder_direction_swapped"),
}
"""Kind of rig → faults of others that cannot befall it: it has no gauge, or no encoder of its own on the DAQ."""


def befalls(fault: str, kind: str) -> bool:
    """Whether ``fault`` can befall a rig of ``kind``."""
    return FAULTS_OF_ONE.get(fault, kind) == kind and fault not in FAULTS_NOT_OF.get(kind, ())


def fault_parameter_issues(name: str, parameters: dict[str, JsonValue]) -> Iterator[Issue]:
    """Yield what is wrong with the parameters of fault ``name``; each may be left out, none may be unknown."""
    known = FAULTS[name]
    for key, given in parameters.items():
        place = f"parameters.{key}"
        if key not in known:
            takes = ", ".join(known) if known else "no parameters"
            yield Issue(place, f'"{key}"', f"{takes} for the fault {name}", near_miss(key, known))
        elif known[key] == "text" and not isinstance(given, str):
            yield Issue(place, shown(given), "a text")
        elif known[key] == "integer" and (not isinstance(given, int) or isinstance(given, bool)):
            yield Issue(place, shown(given), "a whole number")
        elif known[key] not in ("text", "integer"):
            first, *others = known[key].split("|")
            try:
                parse_either(given, first, *others)
            except UnitError as error:
                yield Issue(place, shown(given), due(first), error.what)


def parse_either(given: object, first: str, *others: str) -> Value:
    """Read a quantity of one of several kinds; :class:`UnitError` speaks of the first."""
    for kind in others:
        with contextlib.suppress(UnitError):
            return Value.parse(given, kind)  # type: ignore[arg-type]
    return Value.parse(given, first)  # type: ignore[arg-type]


def stated_fault(
    name: str, at: object = 0.0, parameters: dict[str, Any] | None = None, *, where: str = "fault"
) -> dict[str, Any]:
    """Return a fault as :func:`bench.twin.process.start_twin` takes it: ``{"name": …, "at_s": …, "parameters": …}``.

    Parameters
    ----------
    name : str
    at : str, int or float
        World time it comes: a time with its unit, or a number of seconds.
    parameters : dict, optional
        The fault's own, quantities as text with their unit.
    where : str
        Place, for messages.

    Raises
    ------
    TwinError
        There is no such fault, or a parameter it does not have or that is none of its kind.
    """
    if name not in FAULTS:
        raise TwinError(
            f"there is no fault {name!r}",
            where=where,
            remedy=near_miss(name, FAULTS) or f"There are {', '.join(FAULTS)}",
        )
    at_s = float(at) if isinstance(at, int | float) and not isinstance(at, bool) else None
    try:
        at_s = Value.parse(at, "time").to("s") if at_s is None else at_s  # type: ignore[arg-type]
    except UnitError as error:
        raise TwinError(
            f"the fault {name} cannot come at {at!r}: {error.what}", where=where, remedy="Give a time such as 20 s"
        ) from error
    if not 0.0 <= at_s < float("inf"):
        raise TwinError(f"the fault {name} cannot come at {at_s:g} s", where=where, remedy="Give a time from 0 s on")
    given = dict(parameters or {})
    for issue in fault_parameter_issues(name, given):
        raise TwinError(
            f"{issue.key}: given {issue.given}, expected {issue.expected}", where=f"{where} {name}", remedy=issue.hint
        )
    return {"name": name, "at_s": at_s, "parameters": given}


def parse_fault(text: str) -> dict[str, Any]:
    """Read a fault as the command line has it: ``NAME[@TIME][,KEY=VALUE]…``.

    >>> parse_fault("drifting_cell@20s,rate=5mN/s")
    {'name': 'drifting_cell', 'at_s': 20.0, 'parameters': {'rate': '5 mN/s'}}
    >>> parse_fault("lost_counts@1.5,pulses=200")
    {'name': 'lost_counts', 'at_s': 1.5, 'parameters': {'pulses': 200}}

    Raises
    ------
    TwinError
        See :func:`stated_fault`.
    """
    head, *pairs = (part.strip() for part in text.split(","))
    name, at, moment = head.partition("@")
    parameters: dict[str, Any] = {}
    for pair in pairs:
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals:
            raise TwinError(
                f"{pair!r} is no parameter of a fault", where=f"fault {name}", remedy="Write KEY=VALUE, e.g. count=3"
            )
        whole = FAULTS.get(name, {}).get(key) == "integer"
        try:
            parameters[key] = int(value) if whole else _spaced(value)
        except ValueError:
            parameters[key] = value  # which is then refused, with what is due
    try:
        at_s: object = float(moment) if at else 0.0
    except ValueError:
        at_s = _spaced(moment)
    return stated_fault(name.strip(), at_s, parameters)


def _spaced(text: str) -> str:
    """Put the space between number and unit that a command line need not have: it would want quotes."""
    return re.sub(r"^([-+]?\d+\.?\d*(?:[eE][-+]?\d+)?)(?![eE][-+]?\d)(?=[A-Za-z%])", r"\1 ", text.strip())
