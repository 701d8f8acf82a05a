"""Field types of profiles: quantities of a fixed kind, DAQmx terminal names, and the bases of all models."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, GetCoreSchemaHandler, PrivateAttr, ValidationInfo, model_validator
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from bench.errors import ProfileError, UnitError
from bench.profile.problem import Issue
from bench.units import Value, article, due


def refusal(expected: str, hint: str = "", *, given: str = "") -> PydanticCustomError:
    """Return the error a validator raises; the loader turns it into a problem with its place."""
    return PydanticCustomError("bench", "expected {expected}", {"expected": expected, "hint": hint, "given": given})


@dataclass(frozen=True)
class Quantity:
    """Marks a :class:`Value` field: its kind (None: any) and the least value allowed.

    ``above`` excludes its bound, ``at_least`` includes it; both are numbers with a unit, zero may stand alone.
    """

    kind: str | None = None
    above: str = ""
    at_least: str = ""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_plain_validator_function(
            self.validate, serialization=core_schema.plain_serializer_function_ser_schema(str)
        )

    def expected(self) -> str:
        """Say in words what is due here."""
        if self.kind is None:
            return "a number with a unit such as '2 mm/s'"
        if self.at_least in ("", "0"):
            return due(self.kind)
        return f"{article(self.kind)} of at least {self.at_least}"

    def validate(self, given: Any) -> Value:
        if isinstance(given, Value):
            if self.kind is not None and given.kind != self.kind:
                raise refusal(self.expected(), f"'{given}' is {article(given.kind)}")
            value = given
        elif not isinstance(given, str | int | float) or isinstance(given, bool):
            raise refusal(self.expected())
        else:
            try:
                value = Value.parse(given, self.kind)  # type: ignore[arg-type]  # a bare number gets its own sentence
            except UnitError as error:
                hint = "" if error.remedy.startswith(("Expected", "Write a number")) else f". {error.remedy}"
                raise refusal(self.expected(), error.what + hint) from None
        if self.above and not value.magnitude > self._in_unit_of(value, self.above):
            raise refusal(f"{article(value.kind)} above {self.above}")
        if self.at_least and not value.magnitude >= self._in_unit_of(value, self.at_least):
            raise refusal(f"{article(value.kind)} of at least {self.at_least}")
        return value

    @staticmethod
    def _in_unit_of(value: Value, bound: str) -> float:
        return 0.0 if bound == "0" else Value.parse(bound, value.kind).to(value.unit)


Length = Annotated[Value, Quantity("length")]
PositiveLength = Annotated[Value, Quantity("length", above="0")]
NonNegativeLength = Annotated[Value, Quantity("length", at_least="0")]
Speed = Annotated[Value, Quantity("speed", above="0")]
Acceleration = Annotated[Value, Quantity("acceleration", above="0")]
Time = Annotated[Value, Quantity("time", above="0")]
NonNegativeTime = Annotated[Value, Quantity("time", at_least="0")]
Frequency = Annotated[Value, Quantity("frequency", above="0")]
Force = Annotated[Value, Quantity("force")]
PositiveForce = Annotated[Value, Quantity("force", above="0")]
NonNegativeForce = Annotated[Value, Quantity("force", at_least="0")]
Torque = Annotated[Value, Quantity("torque")]
PositiveTorque = Annotated[Value, Quantity("torque", above="0")]
NonNegativeTorque = Annotated[Value, Quantity("torque", at_least="0")]
Angle = Annotated[Value, Quantity("angle")]
PositiveAngle = Annotated[Value, Quantity("angle", above="0")]
NonNegativeAngle = Annotated[Value, Quantity("angle", at_least="0")]
AngularSpeed = Annotated[Value, Quantity("angular_speed", above="0")]
AngularAcceleration = Annotated[Value, Quantity("angular_acceleration", above="0")]
RotationalStiffness = Annotated[Value, Quantity("rotational_stiffness", above="0")]
RotationalDamping = Annotated[Value, Quantity("rotational_damping", at_least="0")]
Inertia = Annotated[Value, Quantity("inertia", above="0")]
Temperature = Annotated[Value, Quantity("temperature")]
TorqueSensitivity = Annotated[Value, Quantity("torque_sensitivity", above="0")]
TorqueRate = Annotated[Value, Quantity("torque_rate")]
PositiveTorqueRate = Annotated[Value, Quantity("torque_rate", above="0")]
ReciprocalTemperature = Annotated[Value, Quantity("reciprocal_temperature")]
Stiffness = Annotated[Value, Quantity("stiffness", above="0")]
Voltage = Annotated[Value, Quantity("voltage", above="0")]
NonNegativeVoltage = Annotated[Value, Quantity("voltage", at_least="0")]
BridgeRatio = Annotated[Value, Quantity("bridge_ratio", above="0")]
NonNegativeBridgeRatio = Annotated[Value, Quantity("bridge_ratio", at_least="0")]
Resistance = Annotated[Value, Quantity("resistance", above="0")]
Ratio = Annotated[Value, Quantity("ratio")]
PositiveRatio = Annotated[Value, Quantity("ratio", above="0")]
NonNegativeRatio = Annotated[Value, Quantity("ratio", at_least="0")]
ForceRate = Annotated[Value, Quantity("force_rate")]
ReciprocalSpeed = Annotated[Value, Quantity("reciprocal_speed", at_least="0")]
AnyQuantity = Annotated[Value, Quantity()]


@dataclass(frozen=True)
class Spelled:
    """Marks a text field that must have a form: what it is, a pattern for the whole text, an example."""

    what: str
    pattern: str
    example: str

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.validate, core_schema.str_schema(strict=True))

    def expected(self) -> str:
        """Say in words what is due here."""
        return f'{self.what} such as "{self.example}"'

    def hint(self, given: str) -> str:
        """Say what may have gone wrong in ``given``."""
        return ""

    def validate(self, given: str) -> str:
        if not re.fullmatch(self.pattern, given):
            raise refusal(self.expected(), self.hint(given))
        return given


@dataclass(frozen=True)
class Terminal(Spelled):
    """A physical DAQmx name: device, slash, terminal; the pattern is the terminal's."""

    def validate(self, given: str) -> str:
        if not re.fullmatch(rf"{_DEVICE}/{self.pattern}", given):
            raise refusal(self.expected(), self.hint(given))
        return given

    def hint(self, given: str) -> str:
        if ":" in given or "," in given:
            return "Name one channel each; ranges and lists are not read here"
        device, _, terminal = given.partition("/")
        if re.fullmatch(self.pattern, given.lower()):
            return f'The device comes first: "Dev1/{given.lower()}"'
        lowered = f"{device}/{terminal.lower()}"
        if re.fullmatch(rf"{_DEVICE}/{self.pattern}", lowered):
            return f'Write "{lowered}"'
        return ""


_DEVICE = "[A-Za-z][A-Za-z0-9_-]*"
Name = Annotated[str, Spelled("a name in lower case, digits and underscores", "[a-z][a-z0-9_]*", "liver_phantom_a")]
DeviceName = Annotated[str, Spelled("a DAQmx device name", _DEVICE, "Dev1")]
HostPort = Annotated[str, Spelled("a host and port", r"[^\s:]+:[0-9]+", "localhost:31763")]
AnalogInput = Annotated[str, Terminal("an analog input", r"ai(0|[1-9][0-9]*)", "Dev1/ai0")]
Counter = Annotated[str, Terminal("a counter", r"ctr(0|[1-9][0-9]*)", "Dev1/ctr0")]
DigitalLine = Annotated[str, Terminal("a digital line", r"port(0|[1-9][0-9]*)/line(0|[1-9][0-9]*)", "Dev1/port0/line0")]
Text = Annotated[str, Spelled("a text", r"(?s).*\S.*", "...")]


class Section(BaseModel):
    """A table of a profile: frozen, no unknown keys, no silent coercion."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, populate_by_name=True, allow_inf_nan=False)

    @model_validator(mode="after")
    def _compare_fields(self, info: ValidationInfo) -> Self:
        issues = tuple(self.comparisons())
        if issues:
            raise PydanticCustomError("bench_many", "several", {"issues": issues})
        if isinstance(info.context, dict):
            info.context[type(self)] = self
        return self

    def comparisons(self) -> Iterator[Issue]:
        """Yield what is wrong between the keys of this table; keys are relative to it."""
        yield from ()


@dataclass(frozen=True)
class Source:
    """The file a profile came from, word for word, for the archive."""

    path: Path
    text: str
    sha256: str


SectionT = TypeVar("SectionT", bound=Section)


class Sections:
    """The tables of a profile that are valid in themselves, by model; what failed is None."""

    def __init__(self, valid: Mapping[type[Section], Section]) -> None:
        self._valid = valid

    def get(self, model: type[SectionT]) -> SectionT | None:
        found = self._valid.get(model)
        return found if isinstance(found, model) else None


class Profile(Section):
    """A whole file. ``source`` is set by the loader."""

    _source: Source | None = PrivateAttr(default=None)

    @property
    def source(self) -> Source:
        """Return the file this profile was read from."""
        if self._source is None:
            raise ProfileError(
                "this profile was not read from a file", remedy="Load it with bench.profile.load_profile"
            )
        return self._source

    @classmethod
    def cross_checks(cls, sections: Sections) -> Iterator[Issue]:
        """Yield what is wrong between tables; runs on the valid ones even when others failed."""
        yield from ()
