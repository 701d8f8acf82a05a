"""Read an archive: channels by name with unit and kind, phases, events, provenance, verdicts.

>>> with Run.open("results/….h5") as run:    # doctest: +SKIP
...     force = run.get("contact_force", unit="N", kind="force")
...     force.time_s, force.values
"""

from __future__ import annotations

import bisect
import difflib
import math
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from bench.archive.files import open_archive, reading
from bench.archive.provenance import read_provenance, read_texts
from bench.archive.schema import Channel, Event, Phase, TimeAnchor, text_of
from bench.archive.verdicts import VerdictRecord, read_verdicts
from bench.errors import ArchiveError, UnitError
from bench.units import check_unit, convert


class Run:
    """An archived run, open for reading. Values are read when asked for and kept while the run is open."""

    def __init__(self, path: Path, file: h5py.File) -> None:
        self.path = path
        self._file = file
        self._arrays: dict[str, NDArray[np.float64]] = {}
        with reading(str(path)):
            self.attributes: dict[str, Any] = {name: _plain(value) for name, value in file.attrs.items()}
            self.name = text_of(self._entry["run_name"][()])
            self.reason = text_of(self._entry["reason"][()])
            self.started_utc = text_of(self._entry["start_time"][()])
            self.ended_utc = text_of(self._entry["end_time"][()])
            self.start_ns = int(self._entry["start_time_ns"][()])
            self._places = self._find_channels()
        self.status = str(self.attributes["status"])
        self.digest = str(self.attributes["digest"])
        self.simulated = bool(self.attributes["simulated"])

    def __repr__(self) -> str:
        stamp = " (SIMULATED)" if self.simulated else ""
        return f"<Run {self.path}: {self.status}{stamp}>"

    @property
    def _entry(self) -> h5py.Group:
        if not self._file:
            raise ArchiveError("the run is closed", where=str(self.path), remedy="Read it inside its `with` block")
        return self._file["entry"]

    @classmethod
    def open(cls, path: Path | str) -> Run:
        """Open a sealed archive.

        Raises
        ------
        ArchiveError
            Missing, foreign, truncated or damaged, of another schema version, or not sealed (``bench recover``).
        """
        file = open_archive(Path(path))
        try:
            return cls(Path(path), file)
        except BaseException:
            file.close()
            raise

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def backend(self) -> str:
        """``lab``, ``mock`` or ``import``."""
        return str(self.provenance["backend"])

    def channels(self) -> list[str]:
        """Return the names of all channels."""
        return list(self._places)

    def channel(self, name: str) -> Channel:
        """Return a channel in the unit it is stored in.

        Raises
        ------
        ArchiveError
            There is no such channel, or its values are damaged.
        """
        group, dataset, column = self._place(name)
        with reading(f"{self.path}: /entry/{group}/{dataset}"):
            return self._channel(name, self._column(group, dataset, column), self._time(group))

    def get(self, name: str, *, unit: str | None = None, kind: str | None = None) -> Channel:
        """Return a channel in ``unit``, provided that it is of ``kind``.

        Raises
        ------
        ArchiveError
            There is no such channel, or it is of another kind.
        UnitError
            ``unit`` is unknown or does not belong to the channel's kind.
        """
        return self._converted(self.channel(name), unit, kind)

    def channel_slice(
        self, name: str, start_s: float, stop_s: float, *, unit: str | None = None, kind: str | None = None
    ) -> Channel:
        """Return the samples of a channel with ``start_s <= time < stop_s`` [s]; nothing of it is kept.

        For records that are too long to hold: only the chunks that are asked for are read. Unit and kind as in
        :meth:`get`, and so are the errors. Without samples in that time the arrays are empty.
        """
        group, dataset, column = self._place(name)
        with reading(f"{self.path}: /entry/{group}/{dataset}"):
            entry, length = self._entry[group], self._length(group)
            first, last = (_first_not_before(entry["time"], moment, length) for moment in (start_s, stop_s))
            values = np.asarray(entry[dataset][first:last, column], dtype=np.float64)
            time = np.asarray(entry["time"][first:last], dtype=np.float64)
            return self._converted(self._channel(name, values, time), unit, kind)

    def _place(self, name: str) -> tuple[str, str, int]:
        """Return group, dataset and column of a channel."""
        if name not in self._places:
            near = difflib.get_close_matches(name, self._places, n=3)
            remedy = f"Did you mean {' or '.join(near)}?" if near else f"Channels here: {', '.join(self._places)}"
            raise ArchiveError(f"no channel '{name}'", where=str(self.path), remedy=remedy)
        return self._places[name]

    def _channel(self, name: str, values: NDArray[np.float64], time: NDArray[np.float64]) -> Channel:
        group, dataset, _ = self._places[name]
        stored, rate = self._entry[group][dataset], self._entry[group]["time"].attrs.get("rate_hz")
        unit, kind = text_of(stored.attrs["units"]), text_of(stored.attrs["kind"])
        values.flags.writeable = time.flags.writeable = False
        return Channel(name, values, unit, kind, time, group, None if rate is None else float(rate))

    def _converted(self, channel: Channel, unit: str | None, kind: str | None) -> Channel:
        where = f"{self.path}: {channel.name}"
        if kind is not None and kind != channel.kind:
            raise ArchiveError(
                f"the channel is of kind {channel.kind} [{channel.unit}], not {kind}",
                where=where,
                remedy="Ask for another channel, or correct what recorded or imported it",
            )
        if unit is None or unit == channel.unit:
            return channel
        check_unit(unit, channel.kind, where=where)
        try:
            values = convert(channel.values, channel.unit, unit)
        except UnitError as error:
            raise UnitError(error.what, where=where, remedy=error.remedy) from error
        values.flags.writeable = False
        return Channel(channel.name, values, unit, channel.kind, channel.time_s, channel.group, channel.rate_hz)

    @cached_property
    def phases(self) -> tuple[Phase, ...]:
        """The phases in the order they were stored."""
        return tuple(
            Phase(
                text_of(row["name"]),
                int(row["replicate"]),
                float(row["speed_mm_s"]),
                float(row["start_s"]),
                float(row["end_s"]),
                _optional(row, "angular_speed_rad_s"),
            )
            for row in self._rows("phases")
        )

    @cached_property
    def events(self) -> tuple[Event, ...]:
        """The events in the order they were stored."""
        return tuple(
            Event(float(row["time_s"]), text_of(row["severity"]), text_of(row["code"]), text_of(row["message"]))
            for row in self._rows("events")
        )

    @cached_property
    def anchors(self) -> dict[str, TimeAnchor]:
        """Per group, where its sample 0 lies in the clock and in UTC."""
        rows = self._rows("anchors")
        found = [
            TimeAnchor(text_of(r["group"]), int(r["clock_ns"]), int(r["utc_ns"]), int(r["half_width_ns"])) for r in rows
        ]
        return {anchor.group: anchor for anchor in found}

    @cached_property
    def provenance(self) -> dict[str, Any]:
        """Who, when and with what; ``texts`` holds the SHA-256 of each text."""
        with reading(f"{self.path}: /entry/provenance"):
            return read_provenance(self._entry)

    @cached_property
    def texts(self) -> dict[str, str]:
        """The profile and criteria texts by name, checked against their hashes."""
        with reading(f"{self.path}: /entry/texts"):
            return read_texts(self._entry, str(self.path))

    @property
    def verdicts(self) -> tuple[VerdictRecord, ...]:
        """The verdict records beside the archive, oldest first; the last one stands."""
        return read_verdicts(self.path, self.digest)

    def _find_channels(self) -> dict[str, tuple[str, str, int]]:
        places: dict[str, tuple[str, str, int]] = {}
        for group_name, group in self._entry.items():
            if text_of(group.attrs.get("NX_class", "")) != "NXdata":
                continue
            for dataset in group:
                labels = group.get(f"{dataset}_channel")
                if labels is not None:
                    for column, label in enumerate(labels[()]):
                        places[text_of(label)] = (group_name, dataset, column)
        return places

    def _length(self, group_name: str) -> int:
        """Return the samples all datasets of a group have: a kill can leave them one block apart."""
        group = self._entry[group_name]
        sources = {dataset for place, dataset, _ in self._places.values() if place == group_name}
        return min(len(group[name]) for name in ("time", *sources))

    def _time(self, group: str) -> NDArray[np.float64]:
        key = f"{group}/time"
        if key not in self._arrays:
            self._arrays[key] = self._read(group, "time")
        return self._arrays[key]

    def _column(self, group: str, dataset: str, column: int) -> NDArray[np.float64]:
        key = f"{group}/{dataset}"
        if key not in self._arrays:
            # All columns at once: they share chunks, and every one of them would cost the same decompression.
            self._arrays[key] = np.ascontiguousarray(self._read(group, dataset).T)
            self._arrays[key].flags.writeable = False
        values: NDArray[np.float64] = self._arrays[key][column]
        return values

    def _read(self, group: str, dataset: str) -> NDArray[np.float64]:
        with reading(f"{self.path}: /entry/{group}/{dataset}"):
            stored: NDArray[Any] = self._entry[group][dataset][: self._length(group)]
        values = np.asarray(stored, dtype=np.float64)
        values.flags.writeable = False
        return values

    def _rows(self, table: str) -> NDArray[Any]:
        with reading(f"{self.path}: /entry/{table}"):
            rows: NDArray[Any] = self._entry[table][()]
        used: NDArray[Any] = rows[rows["used"] == 1]
        return used


def _first_not_before(time: h5py.Dataset, moment_s: float, length: int) -> int:
    """Index of the first of ``length`` ascending times that is not before ``moment_s``; reads a chunk per step."""
    return bisect.bisect_left(range(length), moment_s, key=lambda index: float(time[index]))


def _plain(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value.item() if isinstance(value, np.generic) else value


__all__ = ["ArchiveError", "Run"]


def _optional(row: Any, column: str) -> float:
    """Return a figure that may be missing or not apply; always the same NaN then, so that equal rows compare equal."""
    value = float(row[column]) if column in row.dtype.names else math.nan
    return math.nan if math.isnan(value) else value
