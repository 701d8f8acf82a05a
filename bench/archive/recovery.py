"""Bring back a run whose recorder crashed: on a copy, mark the file as closed and seal it as CRASHED.

A file that was being written in SWMR mode carries two flags in its superblock and the file size of its beginning, and
HDF5 refuses it. Everything flushed is whole, so only the superblock needs mending. (``h5clear -s`` cuts the file to
the stated size and with it the data: do not use it.)

Superblock version 3, "HDF5 File Format Specification", section II.A: byte 11 file consistency flags, bytes 28-35
end-of-file address, bytes 44-47 Jenkins lookup3 checksum of bytes 0-43.
"""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import h5py

from bench.archive.digest import seal, verify_digest
from bench.archive.files import (
    FLAGS_BYTE,
    SIGNATURE,
    SUPERBLOCK_BYTES,
    flush_to_disk,
    is_held,
    reading,
    rename_exclusively,
)
from bench.archive.schema import LIBVER, PARTIAL_SUFFIX, RUNNING, SCHEMA_ID, SUFFIX, text_of
from bench.errors import ArchiveError

_WORD = 0xFFFFFFFF


def lookup3(data: bytes, initial: int = 0) -> int:
    """Return Bob Jenkins' lookup3 ``hashlittle`` of ``data`` (2006, public domain), HDF5's metadata checksum."""
    a = b = c = (0xDEADBEEF + len(data) + initial) & _WORD
    x: int
    y: int
    z: int
    while len(data) > 12:
        x, y, z = struct.unpack_from("<3I", data)
        a, b, c = (a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD
        a = ((a - c) & _WORD) ^ _rotate(c, 4)
        c = (c + b) & _WORD
        b = ((b - a) & _WORD) ^ _rotate(a, 6)
        a = (a + c) & _WORD
        c = ((c - b) & _WORD) ^ _rotate(b, 8)
        b = (b + a) & _WORD
        a = ((a - c) & _WORD) ^ _rotate(c, 16)
        c = (c + b) & _WORD
        b = ((b - a) & _WORD) ^ _rotate(a, 19)
        a = (a + c) & _WORD
        c = ((c - b) & _WORD) ^ _rotate(b, 4)
        b = (b + a) & _WORD
        data = data[12:]
    if not data:
        return c
    x, y, z = struct.unpack("<3I", data.ljust(12, b"\0"))
    a, b, c = (a + x) & _WORD, (b + y) & _WORD, (c + z) & _WORD
    c = ((c ^ b) - _rotate(b, 14)) & _WORD
    a = ((a ^ c) - _rotate(c, 11)) & _WORD
    b = ((b ^ a) - _rotate(a, 25)) & _WORD
    c = ((c ^ b) - _rotate(b, 16)) & _WORD
    a = ((a ^ c) - _rotate(c, 4)) & _WORD
    b = ((b ^ a) - _rotate(a, 14)) & _WORD
    return ((c ^ b) - _rotate(b, 24)) & _WORD


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _WORD


def patch_superblock(path: Path) -> None:
    """Clear the consistency flags of the HDF5 file at ``path`` and state its true size.

    Raises
    ------
    ArchiveError
        Not an HDF5 file with a version 3 superblock: no archive, or one killed before its first byte was flushed.
    """
    with path.open("r+b") as file:
        head = bytearray(file.read(SUPERBLOCK_BYTES))
        if len(head) < SUPERBLOCK_BYTES or not head.startswith(SIGNATURE) or head[8] != 3:
            raise ArchiveError(
                "no HDF5 superblock of version 3 at its start",
                where=str(path),
                remedy="Not an archive of the bench, or killed before recording began: there is nothing to recover",
            )
        head[FLAGS_BYTE] = 0
        struct.pack_into("<Q", head, 28, path.stat().st_size)
        struct.pack_into("<I", head, 44, lookup3(bytes(head[:44])))
        file.seek(0)
        file.write(head)


def recover(path: Path | str, output: Path | str | None = None) -> Path:
    """Make a readable, sealed copy of a crashed ``.partial.h5`` archive and return its path.

    The original is not touched. The copy has status CRASHED and holds every block that was flushed; a run that had
    been sealed and only lacked its final name keeps its status.

    Parameters
    ----------
    path : Path
        The crashed file; nothing may be recording to it any more.
    output : Path, optional
        The copy; default is ``NAME.recovered.h5`` beside the original. It must not exist.

    Raises
    ------
    ArchiveError
        Not an archive, being recorded, sealed and whole, the output exists, or the structure is damaged beyond the
        superblock.
    """
    path = Path(path)
    if not path.is_file():
        raise ArchiveError("no such file", where=str(path), remedy="Give the path of a .partial.h5 file")
    stem = path.name.removesuffix(SUFFIX).removesuffix(PARTIAL_SUFFIX.removesuffix(SUFFIX))
    output = path.with_name(f"{stem}.recovered{SUFFIX}") if output is None else Path(output)
    if output.exists():
        raise ArchiveError("the name is taken", where=str(output), remedy="Name another output, or use that one")
    if not path.name.endswith(PARTIAL_SUFFIX) and _is_whole(path):
        # A second file of the same run under another name would look like a second measurement.
        raise ArchiveError(
            "the archive is sealed and whole: there is nothing to recover", where=str(path), remedy="Use it as it is"
        )
    if is_held(path):
        raise ArchiveError(
            "the archive is being recorded at this moment",
            where=str(path),
            remedy="Wait for the run to end, or stop it",
        )
    work = output.with_name(f"{output.name}.work")
    try:
        shutil.copyfile(path, work)
        patch_superblock(work)
        with reading(str(path)):
            if not _is_sealed(work):
                _cut_to_common_length(work)
                seal(work, "CRASHED", f"recovered from {path.name}: the recorder ended without closing it")
        flush_to_disk(work)
        rename_exclusively(work, output)
    except ArchiveError as error:
        if error.where != str(work):
            raise
        # the copy is gone by the time anybody reads this
        raise ArchiveError(error.what, where=str(path), remedy=error.remedy) from error
    finally:
        work.unlink(missing_ok=True)
    return output


def _cut_to_common_length(path: Path) -> None:
    """Cut the datasets of each group to the length they all have: a kill leaves them up to one write apart.

    What is cut was not flushed in all of them, so it was never committed; viewers need equal lengths.
    """
    with reading(str(path)), h5py.File(path, "r+", libver=LIBVER) as file:
        for group in file["entry"].values():
            if text_of(group.attrs.get("NX_class", b"")) != "NXdata":
                continue
            stored = [d for d in group.values() if d.chunks is not None]
            length = min(len(dataset) for dataset in stored)
            for dataset in stored:
                if len(dataset) > length:
                    dataset.resize(length, axis=0)


def _is_whole(path: Path) -> bool:
    """Return whether the file opens as a sealed archive whose content has its digest."""
    try:
        verify_digest(path)
    except ArchiveError:
        return False
    return True


def _is_sealed(path: Path) -> bool:
    """Return whether the patched archive carries a digest that holds; raise when it is not an archive at all."""
    with reading(str(path)), h5py.File(path, "r+", libver=LIBVER) as file:
        schema = text_of(file.attrs.get("schema", b""))
        status = text_of(file.attrs.get("status", b""))
    if not schema.startswith(f"{SCHEMA_ID}/"):
        raise ArchiveError(
            "an HDF5 file, but not an archive of the bench", where=str(path), remedy="Recover it with its own program"
        )
    return status != RUNNING and _is_whole(path)
