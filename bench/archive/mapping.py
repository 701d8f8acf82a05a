"""Import mappings: what a foreign file calls a channel, its unit there, and what it is here.

>>> mapping = load_mapping(find_profile("imports", "zwick_csv"))    # doctest: +SKIP
>>> [column.channel for column in mapping.columns]    # doctest: +SKIP
['contact_force', 'encoder_position', 'grip_separation']
"""

from __future__ import annotations

import re
import string
from collections.abc import Iterator, Mapping
from datetime import UTC, tzinfo
from pathlib import Path
from typing import Annotated, Any, Literal, cast
from zoneinfo import ZoneInfo

from pydantic import Field

from bench.errors import ProfileError, UnitError
from bench.profile.fields import Frequency, Name, Profile, Section
from bench.profile.load import IMPORT_SCHEMA, read_text, read_toml, validate
from bench.profile.problem import Issue, Problem, near_miss
from bench.units import KINDS, article, check_unit

PLACEHOLDERS = ("stem", "sheet", "file")
"""What a name template may hold: the file's name without its ending, the sheet, the file's name."""


class CsvLayout(Section):
    """How the text file is written. Rows count from 1; 0 means that there is no such row."""

    delimiter: str = Field(default=",", min_length=1, max_length=1)
    decimal: Literal[".", ","] = "."
    encoding: str = "utf-8"
    header_row: int = Field(default=1, ge=0)
    unit_row: int = Field(default=0, ge=0)

    def comparisons(self) -> Iterator[Issue]:
        if self.delimiter == self.decimal:
            yield Issue("decimal", f'"{self.decimal}"', "another character than the delimiter")


class XlsxLayout(Section):
    """Which sheets are measurements and where their headers stand. Rows count from 1; 0: no such row."""

    sheets: tuple[str, ...] = ("*",)
    exclude: tuple[str, ...] = ()
    decimal: Literal[".", ","] = "."
    header_row: int = Field(default=1, ge=0)
    unit_row: int = Field(default=0, ge=0)


class TimeMapping(Section):
    """Where time comes from: a column of the file, or a sample rate."""

    source: str | int | None = None
    unit: str = "s"
    header_unit: str | None = None
    rate: Frequency | None = None
    origin: Literal["as_recorded", "first_sample", "unix"] = "as_recorded"

    def comparisons(self) -> Iterator[Issue]:
        if (self.source is None) == (self.rate is None):
            given = "neither" if self.source is None else "both"
            yield Issue("source", f"{given} of source and rate", 'a time column or a rate such as "200 Hz", not both')
        if self.rate is not None and self.origin != "as_recorded":
            yield Issue("origin", f'"{self.origin}"', '"as_recorded" where time comes from a rate')
        yield from unit_issues(self.unit, "time")


class ColumnMapping(Section):
    """One channel: ``value = (number in the file) · scale · sign`` in ``unit``, stored in ``store_as``.

    ``source`` is a header or, from 0, a column's position; ``index`` picks a column of a 2-D array (npz, mat).
    ``file`` names the companion the column stands in, where it is not the file itself.
    ``header_unit`` is the unit as the file spells it, where that is not ``unit``; "" says that it states none.
    """

    source: str | int
    file: Name | None = None
    index: int | None = Field(default=None, ge=0)
    channel: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,62}$")]
    unit: str
    kind: str
    store_as: str | None = None
    header_unit: str | None = None
    scale: float = 1.0
    sign: Literal[-1, 1] = 1

    def comparisons(self) -> Iterator[Issue]:
        if self.scale == 0.0 or self.scale - self.scale != 0.0:
            yield Issue("scale", str(self.scale), "a finite number that is not zero")
        if self.kind not in KINDS:
            yield Issue("kind", f'"{self.kind}"', f"one of {', '.join(KINDS)}", near_miss(self.kind, KINDS))
            return
        yield from unit_issues(self.unit, self.kind)
        if self.store_as is not None:
            yield from unit_issues(self.store_as, self.kind, "store_as")


class MetadataMapping(Section):
    """A value beside the measurement that goes into the provenance.

    In a sheet or a text file: the first row that holds the text ``label``, at column ``column`` (a letter). In an
    npz or mat file: the scalar variable ``source``. ``operator`` and ``specimen`` fill those fields. What is not there
    is an error, unless ``required`` is false.
    """

    name: Name
    label: str | None = None
    column: Annotated[str, Field(pattern=r"^[A-Z]{1,2}$")] | None = None
    sheet: str | None = None
    source: str | None = None
    unit: str | None = None
    kind: str | None = None
    required: bool = True

    def comparisons(self) -> Iterator[Issue]:
        if (self.source is None) == (self.label is None):
            yield Issue("label", "neither or both of label and source", "a label to look for, or a variable's name")
        if self.label is not None and self.column is None:
            yield Issue("column", "nothing", 'the letter of the column that holds the value, such as "C"')
        if (self.unit is None) != (self.kind is None):
            yield Issue("unit", "only one of unit and kind", "both, or neither where the value is a text")
        elif self.unit is not None and self.kind is not None:
            yield from unit_issues(self.unit, self.kind)


class StartMapping(Section):
    """The absolute start, read from the name: ``pattern`` finds it (first group), ``format`` is strptime's."""

    pattern: str
    format: str
    zone: str = "UTC"

    def comparisons(self) -> Iterator[Issue]:
        try:
            groups = re.compile(self.pattern).groups
        except re.error as error:
            groups = -1
            yield Issue("pattern", f'"{self.pattern}"', f"a regular expression ({error})")
        if groups == 0:
            yield Issue("pattern", f'"{self.pattern}"', "a regular expression with a group in parentheses")
        try:
            time_zone(self.zone)
        except (ValueError, OSError, LookupError):
            yield Issue("zone", f'"{self.zone}"', 'a time zone such as "UTC" or "Europe/Paris"')


class ImportMapping(Profile):
    """How one kind of foreign file becomes archives.

    ``companions`` are further files of the same measurement and form, beside the given one and row for row with it: a
    name for the columns to refer to, and a template of the file's name.
    """

    schema_id: Literal["bench.import/1"] = Field(alias="schema")
    name: Name
    description: str = ""
    format: Literal["csv", "npz", "mat", "xlsx"]
    run_name: str = "{stem}"
    specimen: str = "{stem}"
    operator: str = "not stated"
    procedure: str = "not stated"
    rig: str = "not stated"
    group: Name = "imported"
    block: int = Field(default=1000, ge=1, le=1_000_000)
    missing: tuple[str, ...] = ()
    on_missing: Literal["refuse", "drop", "nan"] = "refuse"
    csv: CsvLayout = CsvLayout()
    xlsx: XlsxLayout = XlsxLayout()
    time: TimeMapping
    start: StartMapping | None = None
    columns: tuple[ColumnMapping, ...] = Field(min_length=1)
    companions: dict[Name, str] = Field(default_factory=dict)
    metadata: tuple[MetadataMapping, ...] = ()

    def comparisons(self) -> Iterator[Issue]:
        for key in ("run_name", "specimen"):
            yield from _template_issues(key, getattr(self, key))
        for name, template in self.companions.items():
            yield from _template_issues(f"companions.{name}", template)
            if not any(column.file == name for column in self.columns):
                yield Issue(f"companions.{name}", f'"{template}"', "a file that a column is taken from", "Remove it")
        for i, column in enumerate(self.columns):
            if column.file is not None and column.file not in self.companions:
                due = " or ".join(f'"{name}"' for name in self.companions) or "no file, for there is no [companions]"
                yield Issue(f"columns[{i}].file", f'"{column.file}"', due, near_miss(column.file, self.companions))
        channels = [column.channel for column in self.columns]
        for i, column in enumerate(self.columns):
            if column.channel in channels[:i] or column.channel == "time":
                yield Issue(f"columns[{i}].channel", f'"{column.channel}" again', "a name of its own for each channel")
            if column.index is not None and self.format in ("csv", "xlsx"):
                yield Issue(f"columns[{i}].index", str(column.index), "no index: a table's columns are 1-D")
        for i, item in enumerate(self.metadata):
            if (item.source is not None) == (self.format in ("csv", "xlsx")):
                due = "a label and a column" if item.source is not None else "source, the name of a variable"
                yield Issue(f"metadata[{i}].name", f'"{item.name}" for a {self.format} file', due)


def unit_issues(unit: str, kind: str, key: str = "unit") -> Iterator[Issue]:
    """Yield what is wrong with ``unit`` for ``kind``."""
    try:
        check_unit(unit, kind)
    except UnitError as error:
        yield Issue(key, f'"{unit}"', f"a unit of {article(kind)}: {', '.join(KINDS[kind])}", error.remedy)


def time_zone(name: str) -> tzinfo:
    """Return a time zone by name; UTC needs no zone database, which Windows lacks."""
    return UTC if name == "UTC" else ZoneInfo(name)


def load_mapping(path: Path | str) -> ImportMapping:
    """Load an import mapping.

    Raises
    ------
    ProfileError
        With every problem of the file in ``problems``.
    """
    path = Path(path)
    text, problems = read_text(path)
    raw: dict[str, Any] | None = None
    mapping: ImportMapping | None = None
    if text is not None:
        raw, problems = read_toml(text, path)
    if raw is not None and text is not None:
        mapping, problems = _validated(raw, text, path)
    if mapping is None or problems:
        listed = "\n  ".join(str(problem) for problem in problems)
        raise ProfileError(f"the mapping has problems\n  {listed}", where=str(path), problems=tuple(problems))
    return mapping


def check_mapping(raw: Mapping[str, Any], path: Path) -> list[Problem]:
    """Return every problem of the mapping in the tables ``raw`` of the file ``path``."""
    mapping, problems = _validated(raw, "", path)
    if mapping is not None and mapping.name != path.stem:
        due = f'"{path.stem}", the name of the file'
        problems.append(Problem(path, "name", f'"{mapping.name}"', due, "A mapping is found by its file"))
    return problems


def _validated(raw: Mapping[str, Any], text: str, path: Path) -> tuple[ImportMapping | None, list[Problem]]:
    if raw.get("schema") != IMPORT_SCHEMA:
        given = f'"{raw["schema"]}"' if "schema" in raw else "nothing"
        return None, [Problem(path, "schema", given, f'"{IMPORT_SCHEMA}"', "Is this an import mapping?")]
    profile, problems = validate(ImportMapping, raw, text, path)
    unused = [
        key for key in ("csv", "xlsx") if key in raw and raw.get("format") in {"csv", "npz", "mat", "xlsx"} - {key}
    ]
    problems += [Problem(path, key, f"a table [{key}]", f'none where format = "{raw["format"]}"') for key in unused]
    return (None if problems else cast(ImportMapping, profile)), problems


def _template_issues(key: str, template: str) -> Iterator[Issue]:
    try:
        fields = [name for _, name, _, _ in string.Formatter().parse(template) if name is not None]
    except ValueError as error:
        yield Issue(key, f'"{template}"', f"a template ({error})")
        return
    for name in fields:
        if name not in PLACEHOLDERS:
            due = ", ".join(f"{{{known}}}" for known in PLACEHOLDERS)
            yield Issue(key, f'"{{{name}}}"', f"one of {due}", near_miss(name, PLACEHOLDERS))
