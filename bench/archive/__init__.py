"""One HDF5 file per run: recorded as the samples arrive, sealed with a digest, read by name, unit and kind.

Names are imported when first used, so that checking a folder with an import mapping does not load HDF5.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bench.archive.digest import verify_digest
    from bench.archive.importer import import_files
    from bench.archive.reader import Run
    from bench.archive.recovery import recover
    from bench.archive.schema import Channel, DatasetSpec, Event, GroupSpec, Phase, Provenance, TimeAnchor
    from bench.archive.verdicts import VerdictRecord, add_verdict
    from bench.archive.writer import RunWriter

_HOMES = {
    "Channel": "schema",
    "DatasetSpec": "schema",
    "Event": "schema",
    "GroupSpec": "schema",
    "Phase": "schema",
    "Provenance": "schema",
    "Run": "reader",
    "RunWriter": "writer",
    "TimeAnchor": "schema",
    "VerdictRecord": "verdicts",
    "add_verdict": "verdicts",
    "import_files": "importer",
    "recover": "recovery",
    "verify_digest": "digest",
}

__all__ = [
    "Channel",
    "DatasetSpec",
    "Event",
    "GroupSpec",
    "Phase",
    "Provenance",
    "Run",
    "RunWriter",
    "TimeAnchor",
    "VerdictRecord",
    "add_verdict",
    "import_files",
    "recover",
    "verify_digest",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"bench.archive.{_HOMES[name]}"), name)
    globals()[name] = value
    return value
