"""Collect what a result depends on, store it as readable datasets, and read it back."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py

import bench
from bench.archive.schema import Provenance, iso_utc, text_of
from bench.errors import ArchiveError
from bench.units import Value

# Distributions whose version can change a number or what is on the wire.
PACKAGES = ("numpy", "scipy", "h5py", "pint", "pydantic", "nidaqmx", "grpcio", "pyserial", "openpyxl", "mujoco", "pin")
_GIT_DEADLINE_S = 10.0


def plain(value: object) -> Any:
    """Return ``value`` as JSON types: models, dataclasses, quantities, dates and paths become dicts and strings."""
    if isinstance(value, (str, int, type(None))):
        return value
    if isinstance(value, float):
        return value if value - value == 0 else repr(value)  # JSON has no nan and no inf
    if isinstance(value, Value):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    fields = getattr(type(value), "model_fields", None)
    if fields is not None:
        return {name: plain(getattr(value, name)) for name in fields}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    return str(value)


@functools.cache
def versions() -> dict[str, str]:
    """Return the versions of the bench and of the packages it computes with."""
    found = {"forcebench": bench.__version__, "hdf5": h5py.version.hdf5_version}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


@functools.cache
def git_state() -> dict[str, Any]:
    """Return commit and dirty flag of the checkout the bench runs from; empty where there is none.

    Taken once per process: the code in memory is that of the start, not that of a later checkout.
    """
    root = Path(bench.__file__).resolve().parent.parent
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}

    def git(*arguments: str) -> str:
        command = ("git", "-C", str(root), *arguments)
        return subprocess.run(
            command, check=True, capture_output=True, text=True, timeout=_GIT_DEADLINE_S, env=environment
        ).stdout.strip()

    try:
        if Path(git("rev-parse", "--show-toplevel")).resolve() != root:
            return {}  # installed inside somebody else's checkout
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.SubprocessError):
        return {}


def write_provenance(entry: h5py.Group, provenance: Provenance) -> None:
    """Store ``provenance`` under ``entry`` as scalar strings (JSON where it is a list or a table)."""
    group = entry.create_group("provenance")
    group.attrs["NX_class"] = "NXcollection"
    record: dict[str, str] = {
        "operator": provenance.operator,
        "specimen": provenance.specimen,
        "procedure": provenance.procedure,
        "rig": provenance.rig,
        "backend": provenance.backend,
        "seed": "" if provenance.seed is None else str(provenance.seed),
        "started_utc": iso_utc(provenance.started_utc),
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "instruments": _json(provenance.instruments),
        "calibrations": _json(provenance.calibrations),
        "details": _json(provenance.details),
        "versions": _json(versions()),
        "git": _json(git_state()),
    }
    for name, text in record.items():
        group[name] = text
    for nexus_class, name, source in (("NXuser", "user", "operator"), ("NXsample", "sample", "specimen")):
        holder = entry.create_group(name)
        holder.attrs["NX_class"] = nexus_class
        holder["name"] = group[source]
    texts = entry.create_group("texts")
    texts.attrs["NX_class"] = "NXcollection"
    for index, (name, text) in enumerate(sorted(provenance.texts.items())):
        dataset = texts.create_dataset(f"text_{index:03d}", data=text)
        dataset.attrs["file_name"] = name
        dataset.attrs["sha256"] = hashlib.sha256(text.encode()).hexdigest()


def read_provenance(entry: h5py.Group) -> dict[str, Any]:
    """Return the stored provenance: strings, and lists and dicts where JSON is stored."""
    record: dict[str, Any] = {}
    for name, dataset in entry["provenance"].items():
        text = text_of(dataset[()])
        record[name] = json.loads(text) if name in _JSON_FIELDS else text
    record["seed"] = int(record["seed"]) if record["seed"] else None
    record["texts"] = {text_of(d.attrs["file_name"]): text_of(d.attrs["sha256"]) for d in entry["texts"].values()}
    return record


def read_texts(entry: h5py.Group, where: str) -> dict[str, str]:
    """Return the profile and criteria texts by name, each checked against its hash."""
    texts: dict[str, str] = {}
    for dataset in entry["texts"].values():
        name, text = text_of(dataset.attrs["file_name"]), text_of(dataset[()])
        if hashlib.sha256(text.encode()).hexdigest() != text_of(dataset.attrs["sha256"]):
            raise ArchiveError(
                f"the text '{name}' does not have the hash stored beside it",
                where=f"{where}: {dataset.name}",
                remedy="The archive was changed or damaged; go back to another copy",
            )
        texts[name] = text
    return texts


_JSON_FIELDS = ("instruments", "calibrations", "details", "versions", "git")


def _json(value: object) -> str:
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False)
