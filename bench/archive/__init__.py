"""One HDF5 file per run: recorded as the samples arrive, sealed with a digest, read by name, unit and kind."""

from bench.archive.digest import verify_digest
from bench.archive.importer import import_files
from bench.archive.reader import Run
from bench.archive.recovery import recover
from bench.archive.schema import (
    Channel,
    DatasetSpec,
    Event,
    GroupSpec,
    Phase,
    Provenance,
    TimeAnchor,
)
from bench.archive.verdicts import VerdictRecord, add_verdict
from bench.archive.writer import RunWriter

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
