"""The verdict: what was judged by which criteria, row by row, and how it came out; plain data in and out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from bench.acceptance.decision import SEVERITY, Outcome
from bench.errors import ArchiveError

SCHEMA = "bench.verdict/1"


@dataclass(frozen=True)
class ReplicateValue:
    """The signed metric of one replicate, in the row's unit; the speed is one along the axis or one about the joint."""

    replicate: int
    speed_mm_s: float
    value: float
    predicted: float = math.nan
    measured: float = math.nan
    angular_speed_rad_s: float = math.nan


@dataclass(frozen=True)
class Row:
    """One criterion judged.

    ``value`` is the aggregated magnitude in ``unit``, NaN when there is none; ``detail`` says in words how it came
    about or why there is none. ``definition``, ``decision``, ``segment``, ``prediction`` and ``aggregate`` are the
    criterion's own.
    """

    id: str
    metric: str
    value: float
    expanded_uncertainty: float
    limit: float
    unit: str
    outcome: Outcome
    detail: str = ""
    definition: str = ""
    segment: str = ""
    prediction: str = ""
    aggregate: str = ""
    decision: str = ""
    replicates: tuple[ReplicateValue, ...] = ()
    budget: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        if not math.isfinite(self.value):
            return f"{self.id}: {self.outcome}, no value"
        value = f"{self.value:.3g} ± {self.expanded_uncertainty:.2g} {self.unit}"
        return f"{self.id}: {value}, limit {self.limit:g} {self.unit}: {self.outcome}"


@dataclass(frozen=True)
class Verdict:
    """The judgement of one archived run. Depends on the archive and the criteria alone: it carries no time stamp.

    ``criteria_archived`` says whether these very criteria were stored with the run, and so were fixed before it.
    """

    outcome: Outcome
    rows: tuple[Row, ...]
    explanation: str
    criteria_name: str
    criteria_version: str
    criteria_sha256: str
    archive: str
    archive_digest: str
    simulated: bool
    software_version: str
    criteria_archived: bool = False
    analysis: Mapping[str, Any] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Return plain data for JSON; numbers that are not finite become None. A time stamp is up to the caller."""
        record: dict[str, Any] = _plain(self)
        return {
            "schema": SCHEMA,
            "stamp": "SIMULATED" if self.simulated else "",
            **record,
            "outcome_order": [str(outcome) for outcome in SEVERITY],
        }

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Verdict:
        """Rebuild a verdict from :meth:`to_record`; unknown keys (time stamp, operator) are left aside."""
        if record.get("schema") != SCHEMA:
            raise ArchiveError(
                f"this is not a verdict record ({record.get('schema')!r} instead of {SCHEMA!r})",
                remedy="Judge the archive again with 'bench judge'",
            )
        rows = tuple(_row(row) for row in record["rows"])
        names = cls.__dataclass_fields__
        values = {name: record[name] for name in names if name in record}
        return cls(**{**values, "outcome": Outcome(record["outcome"]), "rows": rows})


def _row(record: Mapping[str, Any]) -> Row:
    replicates = tuple(ReplicateValue(**_numbers(value)) for value in record["replicates"])
    values = {**record, "outcome": Outcome(record["outcome"]), "replicates": replicates}
    for name in ("value", "expanded_uncertainty", "limit"):
        values[name] = _number(record[name])
    return Row(**values)


def _numbers(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _number(value) if name != "replicate" else value for name, value in record.items()}


def _number(value: float | None) -> float:
    return math.nan if value is None else value


def _plain(value: Any) -> Any:
    """Return plain data in one pass: a session with many tests makes many records."""
    kind = type(value)
    if kind is str or kind is int or kind is bool or value is None:
        return value
    if kind is float:
        return value if math.isfinite(value) else None
    if isinstance(value, Outcome):
        return str(value)
    if isinstance(value, (Verdict, Row, ReplicateValue)):
        return {name: _plain(getattr(value, name)) for name in value.__dataclass_fields__}
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, bool | int | str):
        return value
    number = float(value)
    return number if math.isfinite(number) else None
