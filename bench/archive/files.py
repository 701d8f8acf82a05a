"""Open archives with errors a person can act on; make files durable and name them exclusively."""

from __future__ import annotations

import contextlib
import difflib
import os
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import h5py

from bench.archive.schema import PARTIAL_SUFFIX, RUNNING, SCHEMA, SCHEMA_ID, SUFFIX, text_of
from bench.errors import ArchiveError

if sys.platform != "win32":
    import fcntl

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUPERBLOCK_BYTES = 48
FLAGS_BYTE = 11
#: How long another program may be asking whether a file is held [s], and how often that is looked at.
HOLD_S, HOLD_POLL_S = 2.0, 0.01

# What h5py raises on damaged content, depending on where the damage lies.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, AttributeError, IndexError, UnicodeDecodeError)


@contextlib.contextmanager
def reading(where: str) -> Iterator[None]:
    """Turn what h5py raises on damaged content into an :class:`ArchiveError` about ``where``."""
    try:
        yield
    except DAMAGE as error:
        raise ArchiveError(
            f"the content cannot be read ({error})",
            where=where,
            remedy="The file is damaged: a checksum or a structure does not hold; go back to another copy",
        ) from error


def open_archive(path: Path) -> h5py.File:
    """Open a sealed archive read-only.

    Raises
    ------
    ArchiveError
        Missing, foreign, truncated, of another version, still being recorded, or crashed and not recovered.
    """
    where = str(path)
    if not path.is_file():
        what, folder = ("it is a folder", path) if path.is_dir() else ("no such file", path.parent)
        near = [p.name for p in folder.glob("*.h5")] if folder.is_dir() else []
        close = difflib.get_close_matches(path.name, near, n=3) or sorted(near)[:3]
        place = "In it" if path.is_dir() else "Near it"
        remedy = f"{place}: {', '.join(close)}" if close else "Give the path of an .h5 archive"
        raise ArchiveError(what, where=where, remedy=remedy)
    with path.open("rb") as raw:
        head = raw.read(SUPERBLOCK_BYTES)
    if not head.startswith(SIGNATURE):
        raise ArchiveError(
            "not an HDF5 file" if head else "the file is empty",
            where=where,
            remedy="An archive is an .h5 file made by the bench; foreign measurements go through `bench import`",
        )
    if len(head) == SUPERBLOCK_BYTES and head[8] == 3 and head[FLAGS_BYTE]:
        raise _not_closed(path)
    try:
        file = h5py.File(path, "r")
    except OSError as error:
        raise ArchiveError(
            f"HDF5 cannot open it ({_truncation(head, path) or error})",
            where=where,
            remedy="The file is cut short or damaged; go back to another copy",
        ) from error
    try:
        _check_schema(file, path)
    except BaseException:
        file.close()
        raise
    return file


def _check_schema(file: h5py.File, path: Path) -> None:
    with reading(str(path)):
        schema = text_of(file.attrs["schema"]) if "schema" in file.attrs else ""
        status = text_of(file.attrs["status"]) if "status" in file.attrs else ""
    if not schema.startswith(f"{SCHEMA_ID}/"):
        found = f"schema '{schema}'" if schema else "no attribute 'schema'"
        raise ArchiveError(
            f"an HDF5 file, but not an archive of the bench: {found} at its root",
            where=str(path),
            remedy=f"Expected schema '{SCHEMA}'; foreign measurements go through `bench import`",
        )
    if schema != SCHEMA:
        raise ArchiveError(
            f"the archive has schema '{schema}' and this bench reads '{SCHEMA}'",
            where=str(path),
            remedy="Open it with the bench version in its attribute 'creator'",
        )
    if status == RUNNING:
        raise _not_closed(path)


def _not_closed(path: Path) -> ArchiveError:
    return ArchiveError(
        "the archive was not sealed: it is being recorded at this moment, or its recorder crashed",
        where=str(path),
        remedy=f"If nothing records to it any more, run `bench recover {path}` and open the copy that makes",
    )


def _truncation(head: bytes, path: Path) -> str:
    if len(head) < SUPERBLOCK_BYTES or head[8] not in (2, 3):
        return ""
    stated, size = struct.unpack_from("<Q", head, 28)[0], path.stat().st_size
    return f"truncated: {size} bytes of {stated}" if size < stated else ""


def reserve(folder: Path, stem: str) -> Path:
    """Return a free ``stem.partial.h5`` in ``folder``, made exclusively; a number is added where the name is taken.

    The sealed name is looked at again once the partial name is ours: whoever had that name before sealed it first.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(1, 10_000):
        name = stem if number == 1 else f"{stem}-{number}"
        partial = folder / f"{name}{PARTIAL_SUFFIX}"
        try:
            partial.open("xb").close()
        except FileExistsError:
            continue
        if not (folder / f"{name}{SUFFIX}").exists():
            return partial
        partial.unlink()
    raise ArchiveError(f"10000 archives are named '{stem}'", where=str(folder), remedy="Record into another folder")


def flush_to_disk(path: Path) -> None:
    """Return once the content of ``path`` is on the disk."""
    descriptor = os.open(path, os.O_RDWR | getattr(os, "O_BINARY", 0))
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_folder(folder: Path) -> None:
    """Return once the names in ``folder`` are on the disk, where the system can do that."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def hold(path: Path) -> BinaryIO:
    """Return ``path`` opened with a shared lock, which says that somebody records to it; closing it lets go.

    HDF5 drops its own lock when SWMR starts. Readers of a live run are not kept out by a shared one.
    """
    file = path.open("rb")
    if sys.platform == "win32":
        return file
    deadline = time.monotonic() + HOLD_S
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return file
        except BlockingIOError as error:  # somebody asks at this very moment, see is_held()
            if time.monotonic() >= deadline:
                file.close()
                raise ArchiveError(
                    f"another program keeps a lock on the file for more than {HOLD_S:g} s",
                    where=str(path),
                    remedy="Close the program that has just opened it",
                ) from error
        time.sleep(HOLD_POLL_S)


def is_held(path: Path) -> bool:
    """Return whether a live process holds ``path``; never true on Windows, which has no such locks."""
    if sys.platform != "win32":
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
    return False


def rename_exclusively(source: Path, target: Path) -> None:
    """Rename ``source`` to ``target``; an existing ``target`` is an error and stays as it is."""
    try:
        if os.name == "nt":
            source.rename(target)
        else:
            try:
                os.link(source, target)
                source.unlink()
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                if target.exists():
                    raise FileExistsError(target) from None
                source.rename(target)
    except FileExistsError as error:
        raise ArchiveError(
            "the name is taken", where=str(target), remedy=f"Move the older file away, then rename {source.name}"
        ) from error
    flush_folder(target.parent)
