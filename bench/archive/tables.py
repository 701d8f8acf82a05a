"""Columns of numbers in foreign files: what is read, what is missing, and which unit the file itself states."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bench.archive.mapping import MetadataMapping
from bench.errors import ArchiveError
from bench.profile.problem import near_miss
from bench.units import UNITS

# Beyond this a number is somebody's marker for "no value" (the largest double, often written 1.8e308), never a reading.
HUGE = 1e300


@dataclass(frozen=True)
class Numbers:
    """One column: ``values`` (n,) float64, nan where ``missing`` (n,); the unit the file states, or ""."""

    values: NDArray[np.float64]
    missing: NDArray[np.bool_]
    stated_unit: str
    where: str


@dataclass(frozen=True)
class Reading:
    """How texts become numbers: the decimal mark and the texts that stand for a missing value."""

    decimal: str = "."
    missing: tuple[str, ...] = ()

    @property
    def huge_is_missing(self) -> bool:
        return any(_is_number(text) and abs(float(text)) > HUGE for text in self.missing)


class Table(Protocol):
    """One measurement in a foreign file: a sheet, a text file, a set of arrays."""

    where: str
    sheet: str

    def numbers(self, source: str | int, index: int | None) -> Numbers: ...

    def metadata(self, item: MetadataMapping, names: Mapping[str, str]) -> object: ...


class Grid:
    """A sheet or a text file: rows of cells, with a header row above the numbers. Rows count from 1."""

    def __init__(
        self,
        rows: Sequence[Sequence[Any]],
        header_row: int,
        unit_row: int,
        reading: Reading,
        where: str,
        sheet: str = "",
        others: Mapping[str, Sequence[Sequence[Any]]] | None = None,
    ) -> None:
        self.where = where
        self.sheet = sheet
        self._rows = rows
        self._reading = reading
        self._others = others or {}
        self._first = max(header_row, unit_row)
        if len(rows) <= self._first:
            raise ArchiveError(
                f"no row of numbers below row {self._first}" if rows else "the file is empty",
                where=where,
                remedy="Export the measurement again, or correct header_row and unit_row in the mapping",
            )
        self._headers = [] if not header_row else [_text(cell) for cell in rows[header_row - 1]]
        self._units = [] if not unit_row else [_text(cell) for cell in rows[unit_row - 1]]
        self._last = len(rows)
        while self._last > self._first and not any(_text(cell) for cell in rows[self._last - 1]):
            self._last -= 1  # blank rows at the end are no samples

    def numbers(self, source: str | int, index: int | None) -> Numbers:
        position = source if isinstance(source, int) else self._position(source)
        header = self._headers[position] if position < len(self._headers) else ""
        where = f"{self.where}: column {position + 1}" + (f" '{header}'" if header else "")
        cells = [row[position] if position < len(row) else None for row in self._rows[self._first : self._last]]
        if all(cell is None for cell in cells):
            raise ArchiveError("there is no such column", where=where, remedy="Correct its source in the mapping")
        values = np.empty(len(cells))
        for i, cell in enumerate(cells):
            values[i] = self._number(cell, f"{where}, row {self._first + i + 1}")
        missing = np.isnan(values)
        unit = self._units[position] if position < len(self._units) and self._units[position] else header_unit(header)
        return Numbers(values, missing, unit, where)

    def metadata(self, item: MetadataMapping, names: Mapping[str, str]) -> object:
        label = _key(str(item.label).format(**names))
        rows: Sequence[Sequence[Any]] | None = self._rows
        if item.sheet is not None:
            rows = next((rows for name, rows in self._others.items() if _key(name) == _key(item.sheet)), None)
            if rows is None:
                raise ArchiveError(
                    f"no sheet '{item.sheet}' for the metadata '{item.name}'",
                    where=self.where,
                    remedy=f"Sheets here: {', '.join(self._others)}",
                )
        column = 0
        for letter in str(item.column):
            column = 26 * column + ord(letter) - ord("A") + 1
        for row in rows or ():
            if any(_key(_text(cell)) == label for cell in row[: column - 1]):
                return row[column - 1] if column <= len(row) else None
        raise ArchiveError(
            f"no row with the label '{str(item.label).format(**names)}' for the metadata '{item.name}'",
            where=f"{self.where}: sheet '{item.sheet}'" if item.sheet else self.where,
            remedy="Correct the label in the mapping, or leave the item out",
        )

    def _position(self, source: str) -> int:
        found = [i for i, header in enumerate(self._headers) if _key(header) == _key(source)]
        if len(found) > 1:
            places = " and ".join(str(i + 1) for i in found)
            raise ArchiveError(
                f"the header '{source}' stands over columns {places}",
                where=self.where,
                remedy=f"Name the one you mean by its position, such as source = {found[0]} (from 0)",
            )
        if not found:
            known = [header for header in self._headers if header]
            hint = near_miss(source, known) or f"Columns here: {', '.join(known) or 'none has a header'}"
            raise ArchiveError(f"no column '{source}'", where=self.where, remedy=hint)
        return found[0]

    def _number(self, cell: Any, where: str) -> float:
        """Return the number in a cell; nan where it is missing in a way the mapping knows."""
        if isinstance(cell, bool) or not isinstance(cell, (int, float, str, type(None))):
            raise ArchiveError(f"'{cell}' is not a number", where=where, remedy="Correct the file or the mapping")
        if cell is None or (isinstance(cell, str) and (not cell.strip() or cell.strip() in self._reading.missing)):
            return float("nan")
        value = float(cell) if isinstance(cell, (int, float)) else self._parsed(cell.strip(), where)
        if any(_is_number(text) and float(text) == value for text in self._reading.missing):
            return float("nan")
        if abs(value) > HUGE:
            if self._reading.huge_is_missing:
                return float("nan")
            raise ArchiveError(
                f"'{cell}' is a marker for a missing value, not a reading",
                where=where,
                remedy='Say so in the mapping: missing = ["1.8e308"], and on_missing what to do',
            )
        return value

    def _parsed(self, text: str, where: str) -> float:
        number = text.replace(",", ".") if self._reading.decimal == "," and "." not in text else text
        if _is_number(number):
            return float(number)
        if re.fullmatch(r"[+-]?\d+,\d+([eE][+-]?\d+)?", text):
            remedy = 'Say decimal = "," in the mapping'
            raise ArchiveError(f"'{text}' has a decimal comma", where=where, remedy=remedy)
        if re.fullmatch(r"[+-]?\d{1,3}([., '\u00a0\u202f]\d{3})+([.,]\d+)?", text) or re.fullmatch(r"\d+\.\d+", text):
            raise ArchiveError(
                f"'{text}' has thousands separators, or a decimal mark the mapping does not expect",
                where=where,
                remedy="Export without thousands separators and check `decimal` in the mapping",
            )
        raise ArchiveError(
            f"'{text}' is not a number",
            where=where,
            remedy="If it stands for a missing value, list it in the mapping's `missing`; else correct the file",
        )


class Arrays:
    """The arrays of an npz or mat file, by name."""

    sheet = ""

    def __init__(self, arrays: Mapping[str, NDArray[Any]], reading: Reading, where: str) -> None:
        self.where = where
        self._arrays = arrays
        self._reading = reading

    def numbers(self, source: str | int, index: int | None) -> Numbers:
        array = self._array(str(source))
        where = f"{self.where}: array '{source}'"
        if array.dtype.kind not in "iuf":
            raise ArchiveError(f"it holds {array.dtype}, not numbers", where=where, remedy="Export plain numbers")
        if index is None:
            array = array.squeeze()
            if array.ndim != 1:
                remedy = f"Pick a column: index = 0 … {array.shape[-1] - 1}" if array.ndim == 2 else "A column is 1-D"
                raise ArchiveError(f"it has shape {array.shape}", where=where, remedy=remedy)
        elif array.ndim != 2 or index >= array.shape[1]:
            raise ArchiveError(f"no column {index} in shape {array.shape}", where=where, remedy="Correct the index")
        else:
            array, where = array[:, index], f"{where} column {index}"
        values = np.asarray(array, np.float64).copy()
        if not len(values):
            raise ArchiveError("it is empty", where=where, remedy="Export the measurement again")
        missing = np.isin(values, [float(text) for text in self._reading.missing if _is_number(text)])
        missing |= np.isnan(values)
        huge = ~missing & (np.abs(np.nan_to_num(values, posinf=np.inf, neginf=-np.inf)) > HUGE)
        if huge.any() and not self._reading.huge_is_missing:
            raise ArchiveError(
                f"{values[huge][0]} at sample {np.argmax(huge)} is a marker for a missing value, not a reading",
                where=where,
                remedy='Say so in the mapping: missing = ["1.8e308"], and on_missing what to do',
            )
        values[missing | huge] = np.nan
        return Numbers(values, missing | huge, "", where)

    def metadata(self, item: MetadataMapping, names: Mapping[str, str]) -> object:
        array = self._array(str(item.source))
        if array.size != 1:
            raise ArchiveError(
                f"'{item.source}' has shape {array.shape}", where=self.where, remedy="Metadata is one value"
            )
        return array.ravel()[0].item()

    def _array(self, name: str) -> NDArray[Any]:
        if name not in self._arrays:
            hint = near_miss(name, self._arrays) or f"Arrays here: {', '.join(self._arrays) or 'none'}"
            raise ArchiveError(f"no array '{name}'", where=self.where, remedy=hint)
        return np.asarray(self._arrays[name])


def header_unit(header: str) -> str:
    """Return the unit a header states: "Force [mN]", "Force (mN)", "Force / mN" or "force_mN"; "" if none.

    Square brackets always hold a unit; elsewhere only what the bench knows counts as one.
    """
    bracket = re.search(r"\[([^\]]*)\]", header)
    if bracket:
        return bracket.group(1).strip()
    for pattern in (r"\(([^)]*)\)\s*$", r"\s/\s*(\S+)$", r"[_ ]([^_ ]+)$"):
        found = re.search(pattern, header)
        if found and spelled(found.group(1)) in UNITS and found.group(1) not in ("1", "%"):
            return found.group(1).strip()
    return ""


def spelled(unit: str) -> str:
    """Return ``unit`` as the bench spells it, where a foreign spelling is plain: µm, N·m, mm/s², °C."""
    text = unicodedata.normalize("NFKC", unit.strip()).replace("\u03bc", "u").replace("\u00b5", "u")
    text = text.replace("·", ".").replace("*", ".").replace("^", "").replace("°C", "degC").replace("°", "deg")
    return {"Nm": "N.m", "sec": "s", "": ""}.get(text, text)


def _text(cell: Any) -> str:
    return "" if cell is None else str(cell).strip()


def _key(text: str) -> str:
    """Return ``text`` for comparison: one Unicode form, single spaces, no case."""
    return " ".join(unicodedata.normalize("NFC", text).split()).casefold()


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?(inf|infinity)", text, re.IGNORECASE))
