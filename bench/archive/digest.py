"""The canonical content digest: what it covers, how an archive is sealed with it, how it is checked.

The digest is the SHA-256 of a manifest: JSON with sorted keys that holds, for every group and dataset, its attributes
and, for every dataset, dtype, shape and the SHA-256 of its values as little-endian bytes. It speaks of content only,
so it survives repacking with other chunks or filters, and one flipped bit of a value changes it. It is no signature:
whoever can write the file can also seal it anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from bench.archive.files import flush_to_disk, open_archive, reading
from bench.archive.layout import view_source
from bench.archive.schema import (
    DIGEST_LENGTH,
    LIBVER,
    REASON_LENGTH,
    TIME_LENGTH,
    GroupSpec,
    fixed,
    iso_utc,
    text_of,
)
from bench.errors import ArchiveError

# Dimension-scale bookkeeping holds object addresses, which repacking changes.
_SCALE_REFERENCES = ("DIMENSION_LIST", "REFERENCE_LIST")
_BLOCK_BYTES = 4 << 20
MANIFEST = "/entry/manifest"


def manifest(file: h5py.File) -> dict[str, Any]:
    """Return the manifest of ``file``: per path, attributes and, for datasets, dtype, shape and SHA-256 of values."""
    objects: dict[str, Any] = {}
    datasets: dict[str, h5py.Dataset] = {}
    _walk(file, objects, datasets)
    hashes = {path: hashlib.sha256() for path in datasets}
    views: dict[str, list[tuple[str, int]]] = {}
    for path, dataset in datasets.items():
        source = view_source(dataset)
        if source is not None:
            views.setdefault(source[0], []).append((path, source[1]))
    seen = {path for shown in views.values() for path, _ in shown}
    for path, dataset in datasets.items():
        if path not in seen:
            _hash_values(dataset, hashes[path], [(hashes[view], column) for view, column in views.get(path, ())])
    for path in datasets:
        objects[path]["sha256"] = hashes[path].hexdigest()
    return objects


def manifest_bytes(file: h5py.File) -> bytes:
    """Return the manifest as canonical JSON."""
    return json.dumps(manifest(file), sort_keys=True, separators=(",", ":"), ensure_ascii=True).encode()


def seal(path: Path, status: str, reason: str, ended: datetime | None = None) -> str:
    """Write end, reason, status, manifest and digest into a closed archive and return the digest.

    Everything is overwritten in place. The file is on disk when this returns. No lock is asked for: somebody may be
    following the run in a viewer, whose lock would keep it from being sealed.
    """
    with h5py.File(path, "r+", libver=LIBVER, locking=False) as file:
        file["entry/end_time"][()] = fixed(iso_utc(ended or datetime.now(UTC)), TIME_LENGTH)
        file["entry/reason"][()] = fixed(reason, REASON_LENGTH)
        file.attrs.modify("status", np.bytes_(status))
        content = manifest_bytes(file)
        if len(content) > file[MANIFEST].dtype.itemsize:
            del file[MANIFEST]
            file.create_dataset(MANIFEST, data=b"", dtype=f"S{len(content)}")
        digest = hashlib.sha256(content).hexdigest()
        file[MANIFEST][()] = content
        file.attrs.modify("digest", np.bytes_(digest))
        assert len(digest) == DIGEST_LENGTH
    flush_to_disk(path)
    return digest


def verify_digest(path: Path | str) -> str:
    """Return the digest of a sealed archive after recomputing it from the content.

    Raises
    ------
    ArchiveError
        The content does not have the digest it was sealed with; the message names what differs.
    """
    path = Path(path)
    where = str(path)
    with open_archive(path) as file, reading(where):
        stored = text_of(file.attrs["digest"])
        sealed = bytes(file[MANIFEST][()])
        content = manifest_bytes(file)
    if hashlib.sha256(content).hexdigest() == stored:
        return stored
    differing = "the stored manifest or digest itself"
    if hashlib.sha256(sealed).hexdigest() == stored:
        before, now = json.loads(sealed), json.loads(content)
        names = sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))
        differing = ", ".join(names)
    raise ArchiveError(
        f"the content changed after sealing: {differing}",
        where=where,
        remedy="Judge from an untouched copy; this file proves nothing",
    )


def _walk(group: h5py.Group, objects: dict[str, Any], datasets: dict[str, h5py.Dataset]) -> None:
    objects[group.name] = {"attributes": _attributes(group)}
    for name in sorted(group):
        item = group[name]
        if isinstance(item, h5py.Group):
            _walk(item, objects, datasets)
        elif isinstance(item, h5py.Dataset) and item.name != MANIFEST:
            datasets[item.name] = item
            objects[item.name] = {
                "attributes": _attributes(item),
                "dtype": _dtype_name(item.dtype),
                "shape": [int(n) for n in item.shape],
            }


def _attributes(item: h5py.Group | h5py.Dataset) -> dict[str, Any]:
    skip = {*_SCALE_REFERENCES, "digest"} if item.name == "/" else set(_SCALE_REFERENCES)
    return {name: _attribute(item.attrs[name]) for name in item.attrs if name not in skip}


def _attribute(value: Any) -> Any:
    if isinstance(value, str):
        return value
    array = np.asarray(value)
    if array.dtype.kind == "O":
        return [text_of(item) for item in array.ravel()]
    flat = array.ravel()
    if array.dtype.kind == "S":
        values = [item.decode("latin-1") for item in flat.tolist()]
    elif array.dtype.kind == "f":
        values = [float(item).hex() for item in flat]
    else:
        values = [str(item) for item in flat.tolist()]
    return {"dtype": _dtype_name(array.dtype), "shape": list(array.shape), "values": values}


def _dtype_name(dtype: np.dtype[Any]) -> str:
    if h5py.check_string_dtype(dtype) is not None and dtype.kind == "O":
        return "utf-8"
    little = dtype.newbyteorder("<")
    return str(little.descr) if little.names else str(little.str)


def _hash_values(dataset: h5py.Dataset, whole: Any, columns: list[tuple[Any, int]]) -> None:
    """Feed the dataset's values to ``whole`` and single columns to ``columns``, block by block of rows."""
    if dataset.dtype.kind == "O":
        whole.update(json.dumps([text_of(item) for item in np.ravel(dataset[()])]).encode())
        return
    little = dataset.dtype.newbyteorder("<")
    if not dataset.shape or not dataset.chunks:
        whole.update(np.asarray(dataset[()], little).tobytes())
        return
    row_bytes = dataset.dtype.itemsize * int(np.prod(dataset.shape[1:]))
    step = max(1, _BLOCK_BYTES // max(1, row_bytes * dataset.chunks[0])) * dataset.chunks[0]
    for first in range(0, dataset.shape[0], step):
        block = np.ascontiguousarray(dataset[first : first + step], little)
        whole.update(block.data)
        for single, column in columns:
            single.update(np.ascontiguousarray(block[:, column]).data)


def reserve_manifest(file: h5py.File, groups: Sequence[GroupSpec], texts: Sequence[str]) -> None:
    """Make room for the manifest in a file that is laid out, so that sealing has nothing to create.

    The room is an estimate; sealing makes more where it is too small.
    """
    room = 6_000 + sum(600 + len(name) for name in texts)
    for group in groups:
        for dataset in group.datasets:
            room += 1_200 + sum(400 + 4 * len(name) for name in dataset.channels)
    file.create_dataset(MANIFEST, data=b"", dtype=f"S{room}")
