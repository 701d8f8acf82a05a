"""Turn foreign measurements into archives: one archive per curve, with the source's hash and the mapping's text."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.archive.mapping import ColumnMapping, ImportMapping, MetadataMapping, load_mapping, time_zone
from bench.archive.schema import DatasetSpec, GroupSpec, Provenance
from bench.archive.sources import open_tables
from bench.archive.tables import Numbers, Table, spelled
from bench.archive.writer import RunWriter
from bench.errors import ArchiveError
from bench.units import convert

_PIECE = 65_536


@dataclass(frozen=True)
class _Curve:
    """One measurement, checked and converted: ready to be written."""

    name: str
    provenance: Provenance
    group: GroupSpec
    time_s: NDArray[np.float64]
    data: dict[str, NDArray[np.float64]]


def import_files(mapping: Path | str, files: Sequence[Path | str], results_dir: Path | str) -> list[Path]:
    """Import every measurement in ``files`` by the mapping file ``mapping``; return the archives made.

    A file is read and checked whole before its first archive is written.

    Raises
    ------
    ProfileError
        The mapping is not valid.
    ArchiveError
        A file is not what the mapping says: format, headers, units, numbers, time. Archives of the files before it
        stay.
    """
    loaded = load_mapping(mapping)
    made: list[Path] = []
    for file in map(Path, files):
        curves = [_read(table, file, loaded) for table in open_tables(file, loaded)]
        made += [_write(curve, Path(results_dir)) for curve in curves]
    return made


def _read(table: Table, file: Path, mapping: ImportMapping) -> _Curve:
    names = {"stem": file.stem, "sheet": table.sheet, "file": file.name}
    companions = {name: file.parent / template.format(**names) for name, template in mapping.companions.items()}
    tables: dict[str | None, Table] = {None: table}
    tables |= {name: _companion(path, table, mapping) for name, path in companions.items()}
    columns = [_column(tables[column.file], column) for column in mapping.columns]
    samples = len(columns[0].values)
    for column in columns:
        if len(column.values) != samples:
            raise ArchiveError(
                f"{len(column.values)} samples, and {samples} in {columns[0].where}",
                where=column.where,
                remedy="All columns share one time base: give those of another rate a mapping of their own",
            )
    time = _time(table, mapping, samples)
    keep, dropped = _missing(columns, time, mapping)
    times = time.values[keep]
    _check_time(times, time.where, np.flatnonzero(keep))
    first_s = float(times[0])
    if mapping.time.origin != "as_recorded":
        times = times - first_s
    group, data = _group(mapping, [column.values[keep] for column in columns])
    metadata = {item.name: _metadata(table, item, names) for item in mapping.metadata}
    source: dict[str, Any] = {
        "file": file.name,
        "sheet": table.sheet,
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "samples": samples,
        "dropped_samples": dropped,
    }
    if companions:
        source["companions"] = {
            name: {"file": path.name, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}
            for name, path in companions.items()
        }
    details = {
        "source": source,
        "mapping": mapping.name,
        "metadata": metadata,
    }
    started, known = _started(mapping, names, first_s, str(file))
    details["start"] = known
    provenance = Provenance(
        operator=_stated(metadata, "operator", mapping.operator),
        specimen=_stated(metadata, "specimen", mapping.specimen.format(**names)),
        procedure=mapping.procedure,
        rig=mapping.rig,
        started_utc=started,
        backend="import",
        simulated=False,
        texts={f"imports/{mapping.name}.toml": mapping.source.text},
        details=details,
    )
    return _Curve(mapping.run_name.format(**names), provenance, group, times, data)


def _companion(path: Path, table: Table, mapping: ImportMapping) -> Table:
    """Return the table of a further file of the same measurement: the sheet of the same name, where there are some."""
    for found in open_tables(path, mapping):
        if found.sheet == table.sheet:
            return found
    raise ArchiveError(
        f"no sheet '{table.sheet}' in the companion", where=str(path), remedy="Export both files of one measurement"
    )


def _column(table: Table, column: ColumnMapping) -> Numbers:
    """Return a column in the unit it is stored in, once file and mapping agree about its unit."""
    found = table.numbers(column.source, column.index)
    _check_unit(found, column.unit, column.header_unit)
    values = found.values * (column.scale * column.sign)
    if column.store_as is not None:
        values = convert(values, column.unit, column.store_as)
    return Numbers(values, found.missing, found.stated_unit, found.where)


def _check_unit(found: Numbers, unit: str, header_unit: str | None) -> None:
    due = unit if header_unit is None else header_unit
    if header_unit == "" or (header_unit is None and not found.stated_unit):
        return
    if spelled(found.stated_unit) != spelled(due):
        raise ArchiveError(
            f"the file states the unit '{found.stated_unit}' and the mapping '{due}'",
            where=found.where,
            remedy="Correct the mapping; where the file is wrong, say so with header_unit and a scale",
        )


def _time(table: Table, mapping: ImportMapping, samples: int) -> Numbers:
    """Return the times [s]."""
    spec = mapping.time
    if spec.source is None:
        assert spec.rate is not None
        times = np.arange(samples) / spec.rate.to("Hz")
        return Numbers(times, np.zeros(samples, bool), "s", f"{table.where}: time from the rate")
    found = table.numbers(spec.source, None)
    _check_unit(found, spec.unit, spec.header_unit)
    if len(found.values) != samples:
        raise ArchiveError(
            f"{len(found.values)} times for {samples} samples", where=found.where, remedy="Correct the time's source"
        )
    times = convert(found.values, spec.unit, "s")
    return Numbers(times, found.missing, found.stated_unit, found.where)


def _missing(columns: Sequence[Numbers], time: Numbers, mapping: ImportMapping) -> tuple[NDArray[np.bool_], int]:
    """Return which samples are kept and how many are dropped, by the mapping's ``on_missing``."""
    gone = time.missing.copy()
    if time.missing.any() and mapping.on_missing != "drop":
        raise _missing_error(time, 'A sample without a time can only be dropped: on_missing = "drop"')
    for column in columns:
        if column.missing.any() and mapping.on_missing == "refuse":
            raise _missing_error(column, 'Say on_missing = "drop" to leave such samples out, or "nan" to keep the gap')
        if mapping.on_missing == "drop":
            gone |= column.missing
    if gone.all():
        raise ArchiveError("no sample is left", where=time.where, remedy="All lack a value: check the mapping")
    return ~gone, int(gone.sum())


def _missing_error(column: Numbers, remedy: str) -> ArchiveError:
    count, first = int(column.missing.sum()), int(np.argmax(column.missing))
    values = "a value is" if count == 1 else f"{count} values are"
    return ArchiveError(f"{values} missing, the first at sample {first}", where=column.where, remedy=remedy)


def _check_time(times: NDArray[np.float64], where: str, samples: NDArray[np.intp]) -> None:
    steps = np.diff(times)
    if np.all(steps > 0):
        return
    at = int(np.argmin(steps > 0)) + 1
    word = "repeats" if steps[at - 1] == 0 else "goes back"
    raise ArchiveError(
        f"time {word} at sample {samples[at]}: {times[at - 1]:.9g} s, then {times[at]:.9g} s",
        where=where,
        remedy="Is it the time column? Split the file where a second record begins, or remove the repeated samples",
    )


def _group(
    mapping: ImportMapping, values: Sequence[NDArray[np.float64]]
) -> tuple[GroupSpec, dict[str, NDArray[np.float64]]]:
    """Gather the columns of one unit and kind into one dataset each."""
    together: dict[tuple[str, str], list[int]] = {}
    for i, column in enumerate(mapping.columns):
        together.setdefault((column.store_as or column.unit, column.kind), []).append(i)
    channels = {column.channel for column in mapping.columns}
    specs: list[DatasetSpec] = []
    data: dict[str, NDArray[np.float64]] = {}
    for (unit, kind), members in together.items():
        name, number = kind, 1
        while name in data or name in channels or f"{name}_channel" in channels:
            number += 1
            name = f"{kind}_{number}"
        words = f"imported {kind.replace('_', ' ')}"
        specs.append(DatasetSpec(name, unit, kind, tuple(mapping.columns[i].channel for i in members), long_name=words))
        data[name] = np.stack([values[i] for i in members], axis=1)
    rate = mapping.time.rate.to("Hz") if mapping.time.rate is not None else None
    return GroupSpec(mapping.group, tuple(specs), rate, mapping.block), data


def _metadata(table: Table, item: MetadataMapping, names: Mapping[str, str]) -> dict[str, Any]:
    try:
        value = table.metadata(item, names)
    except ArchiveError:
        if item.required:
            raise
        value = None
    if item.unit is None:
        return {"value": "" if value is None else value}
    if value is None and not item.required:
        return {"value": None, "unit": item.unit, "kind": item.kind}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ArchiveError(
            f"the metadata '{item.name}' is '{value}', not a number", where=table.where, remedy="Correct its place"
        )
    return {"value": float(value), "unit": item.unit, "kind": item.kind}


def _stated(metadata: Mapping[str, Mapping[str, Any]], name: str, otherwise: str) -> str:
    return str(metadata.get(name, {}).get("value") or otherwise)


def _started(mapping: ImportMapping, names: Mapping[str, str], first_s: float, where: str) -> tuple[datetime, str]:
    """Return the absolute start and how it is known."""
    if mapping.time.origin == "unix":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=first_s), "from the time column"
    if mapping.start is None:
        return datetime.now(UTC), "not stated by the source: this is the time of the import"
    text = " ".join((names["stem"], names["sheet"]))
    found = re.search(mapping.start.pattern, text)
    try:
        if found is None:
            raise ValueError(f"'{mapping.start.pattern}' does not match")
        local = datetime.strptime(found.group(1), mapping.start.format)
    except ValueError as error:
        raise ArchiveError(
            f"no start in the name '{text}' ({error})", where=where, remedy="Correct [start] in the mapping"
        ) from error
    return local.replace(tzinfo=time_zone(mapping.start.zone)), f"from the name, as {mapping.start.format}"


def _write(curve: _Curve, results_dir: Path) -> Path:
    with RunWriter.create(
        results_dir, curve.name, curve.provenance, [curve.group], phases_capacity=8, events_capacity=8
    ) as writer:
        for first in range(0, len(curve.time_s), _PIECE):
            piece = slice(first, first + _PIECE)
            writer.append(curve.group.name, {n: v[piece] for n, v in curve.data.items()}, curve.time_s[piece])
    return writer.path
