"""Open foreign files as tables: csv, npz, mat, xlsx. What a file really is, is looked at before it is believed."""

from __future__ import annotations

import csv
import fnmatch
import unicodedata
import warnings
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.archive.mapping import ImportMapping
from bench.archive.tables import Arrays, Grid, Reading, Table
from bench.errors import ArchiveError

_NAMES = {
    "csv": "a text file (csv)",
    "npz": "a NumPy archive (.npz)",
    "mat": "a MATLAB file (.mat)",
    "xlsx": "an Excel workbook (.xlsx)",
    "hdf5": "an HDF5 file",
    "xls": "an old Excel workbook (.xls)",
    "binary": "a binary file of an unknown kind",
}
_REMEDIES = {
    "hdf5": "Save a .mat file as version 7 or older; an archive of the bench needs no import",
    "xls": "Save it as .xlsx or .csv",
}


def open_tables(path: Path, mapping: ImportMapping) -> Iterator[Table]:
    """Yield the measurements in ``path`` as the mapping describes them.

    Raises
    ------
    ArchiveError
        Missing, empty, not of the mapping's format, not in its encoding, no sheet left.
    """
    where = str(path)
    if not path.is_file():
        raise ArchiveError("no such file", where=where, remedy="Give the path of a measured file")
    if not path.stat().st_size:
        raise ArchiveError("the file is empty", where=where, remedy="Export the measurement again")
    found = _kind_of(path, mapping.csv.encoding)
    if found != mapping.format:
        raise ArchiveError(
            f"the file is {_NAMES[found]}, and the mapping '{mapping.name}' reads {_NAMES[mapping.format]}",
            where=where,
            remedy=_REMEDIES.get(found, "Use another mapping, or export the measurement in that format"),
        )
    read = {"csv": _csv, "npz": _npz, "mat": _mat, "xlsx": _xlsx}[mapping.format]
    yield from read(path, mapping)


def _kind_of(path: Path, encoding: str) -> str:
    with path.open("rb") as file:
        head = file.read(4096)
    if head.startswith(b"PK"):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile:
            return "binary"
        if "xl/workbook.xml" in names:
            return "xlsx"
        return "npz" if names and all(name.endswith(".npy") for name in names) else "binary"
    if head.startswith(b"\x89HDF\r\n\x1a\n") or head[512:520] == b"\x89HDF\r\n\x1a\n":
        return "hdf5"
    if head.startswith(b"MATLAB 5.0"):
        return "mat"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return "xls"
    return "binary" if b"\0" in head and not encoding.lower().startswith(("utf-16", "utf16", "utf-32")) else "csv"


def _csv(path: Path, mapping: ImportMapping) -> Iterator[Table]:
    layout = mapping.csv
    encoding = "utf-8-sig" if layout.encoding.lower() in ("utf-8", "utf8") else layout.encoding
    try:
        with path.open(encoding=encoding, newline="") as file:
            rows = list(csv.reader(file, delimiter=layout.delimiter))
    except LookupError as error:
        raise ArchiveError(
            f"'{layout.encoding}' is not an encoding", where=mapping.name, remedy='Such as "utf-8" or "cp1252"'
        ) from error
    except UnicodeDecodeError as error:
        raise ArchiveError(
            f"byte {error.start} is not {layout.encoding}",
            where=str(path),
            remedy='Say the encoding in the mapping, such as encoding = "cp1252" for a Windows export',
        ) from error
    except csv.Error as error:
        raise ArchiveError(f"not a table ({error})", where=str(path), remedy="Check the delimiter") from error
    header = rows[layout.header_row - 1] if layout.header_row and len(rows) >= layout.header_row else []
    if len(header) == 1 and len(mapping.columns) + (mapping.time.source is not None) > 1:
        others = [mark for mark in ";\t,|" if mark != layout.delimiter and mark in header[0]]
        if others:
            raise ArchiveError(
                f"the header has no '{layout.delimiter}' but a {others[0]!r}",
                where=f"{path}: row {layout.header_row}",
                remedy=f"Say delimiter = {others[0]!r} in the mapping",
            )
    reading = Reading(layout.decimal, mapping.missing)
    yield Grid(rows, layout.header_row, layout.unit_row, reading, str(path))


def _npz(path: Path, mapping: ImportMapping) -> Iterator[Table]:
    try:
        with np.load(path, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, OSError, EOFError, zipfile.BadZipFile) as error:
        raise ArchiveError(
            f"not a readable npz file ({error})", where=str(path), remedy="Save plain numeric arrays, no objects"
        ) from error
    yield Arrays(arrays, Reading(missing=mapping.missing), str(path))


def _mat(path: Path, mapping: ImportMapping) -> Iterator[Table]:
    from scipy.io import loadmat

    try:
        loaded = loadmat(path, mat_dtype=False)
    except Exception as error:  # scipy raises whatever a damaged file leads it into
        raise ArchiveError(
            f"not a readable mat file ({error})", where=str(path), remedy="Save it anew, as version 7 or older"
        ) from error
    arrays = {name: array for name, array in loaded.items() if not name.startswith("__")}
    yield Arrays(arrays, Reading(missing=mapping.missing), str(path))


def _xlsx(path: Path, mapping: ImportMapping) -> Iterator[Table]:
    layout = mapping.xlsx
    sheets = _sheets(path)
    wanted = [
        name
        for name in sheets
        if any(_matches(name, pattern) for pattern in layout.sheets)
        and not any(_matches(name, pattern) for pattern in layout.exclude)
    ]
    if not wanted:
        raise ArchiveError(
            f"no sheet is a measurement by the mapping '{mapping.name}'",
            where=str(path),
            remedy=f"Sheets here: {', '.join(sheets)}; correct `sheets` and `exclude`",
        )
    reading = Reading(layout.decimal, mapping.missing)
    for name in wanted:
        where = f"{path}: sheet '{name}'"
        yield Grid(sheets[name], layout.header_row, layout.unit_row, reading, where, name, sheets)


def _sheets(path: Path) -> dict[str, Sequence[Sequence[Any]]]:
    try:
        import openpyxl
    except ImportError as error:
        raise ArchiveError(
            "reading Excel needs openpyxl", where=str(path), remedy="Install the extra: pip install 'forcebench[excel]'"
        ) from error
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # openpyxl remarks on styles and extensions it leaves out
        try:
            workbook = openpyxl.load_workbook(path, read_only=True, data_only=True)
            try:
                return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in workbook.worksheets}
            finally:
                workbook.close()
        except Exception as error:  # a damaged workbook fails in the zip, the XML or openpyxl itself
            raise ArchiveError(
                f"not a readable workbook ({error})", where=str(path), remedy="Save it anew with Excel or LibreOffice"
            ) from error


def _matches(name: str, pattern: str) -> bool:
    plain = unicodedata.normalize("NFC", name).casefold()
    return fnmatch.fnmatchcase(plain, unicodedata.normalize("NFC", pattern).casefold())
