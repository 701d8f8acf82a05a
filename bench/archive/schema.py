"""What an archive holds: the names, the tables and the small frozen records that go in and come out.

The page ``docs/file-format.md`` describes the same for a reader with plain h5py; change both together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from bench.errors import ArchiveError
from bench.units import check_unit

SCHEMA_ID = "bench.run"
SCHEMA_VERSION = 1
SCHEMA = f"{SCHEMA_ID}/{SCHEMA_VERSION}"

RUNNING = "RUNNING"
SEALED_STATUSES = ("COMPLETE", "ABORTED", "CRASHED")
ORIGINS = {"lab": "MEASURED", "mock": "SIMULATED", "import": "IMPORTED"}

PARTIAL_SUFFIX = ".partial.h5"
SUFFIX = ".h5"

# 1.10 is the oldest library with SWMR and checksummed metadata; files of this level open with every later one.
LIBVER = ("v110", "v110")

STATUS_LENGTH = 16
DIGEST_LENGTH = 64
TIME_LENGTH = 40
REASON_LENGTH = 1024

PHASE_DTYPE = np.dtype(
    [
        ("used", "u1"),
        ("name", "S64"),
        ("replicate", "<i4"),
        ("speed_mm_s", "<f8"),
        ("start_s", "<f8"),
        ("end_s", "<f8"),
        ("angular_speed_rad_s", "<f8"),  # files from before rotary rigs have no such column
    ]
)
EVENT_DTYPE = np.dtype([("used", "u1"), ("time_s", "<f8"), ("severity", "S16"), ("code", "S64"), ("message", "S512")])
ANCHOR_DTYPE = np.dtype(
    [("used", "u1"), ("group", "S64"), ("clock_ns", "<i8"), ("utc_ns", "<i8"), ("half_width_ns", "<i8")]
)

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")


@dataclass(frozen=True)
class DatasetSpec:
    """Channels of one unit and kind that are sampled together: one 2-D dataset (samples, channels).

    Parameters
    ----------
    name : str
        Name of the 2-D dataset in its group, e.g. ``raw``.
    unit, kind : str
        Unit string and quantity kind by :mod:`bench.units`.
    channels : tuple of str
        One name per column; each becomes a 1-D named view beside the dataset. Unique in the whole archive.
    dtype : str
        Numpy type the values are stored as, e.g. ``f8``, or ``i2`` for raw counts.
    long_name : str
        What the dataset is, in words; the unit is added.
    """

    name: str
    unit: str
    kind: str
    channels: tuple[str, ...]
    dtype: str = "f8"
    long_name: str = ""


@dataclass(frozen=True)
class GroupSpec:
    """One time base and what is sampled on it.

    Parameters
    ----------
    name : str
        Name of the group, e.g. ``daq``.
    datasets : tuple of DatasetSpec
    rate_hz : float or None
        Sample rate of a hardware-clocked group [Hz]; None where samples come at irregular times.
    block : int
        Samples per chunk. Whole chunks are what survives a kill, and every chunk costs the process about 0.5 ms in
        which no other thread moves: take 0.1 to 0.5 s, and few samples for slow groups.
    """

    name: str
    datasets: tuple[DatasetSpec, ...]
    rate_hz: float | None = None
    block: int = 1000


@dataclass(frozen=True)
class Provenance:
    """Who, what, when and with what. Hashes, versions, git state and platform are added by the archive itself.

    Parameters
    ----------
    operator, specimen, procedure, rig : str
        Names of the person, the specimen, the procedure and the rig.
    started_utc : datetime
        Absolute start with a time zone; the zero of every ``time``.
    backend : str
        ``lab``, ``mock`` or ``import``.
    simulated : bool
        Whether the values come from the twin. Must agree with ``backend``.
    seed : int or None
        Seed of the twin when simulated.
    instruments : sequence
        What each instrument said it is: dataclasses such as ``Identity``.
    calibrations : sequence
        Certificates in force: profile models, dataclasses or mappings.
    texts : mapping of str to str
        Full texts of the profiles and criteria, by name.
    details : mapping
        Anything else worth keeping, as JSON values.
    """

    operator: str
    specimen: str
    procedure: str
    rig: str
    started_utc: datetime
    backend: str
    simulated: bool
    seed: int | None = None
    instruments: Sequence[object] = ()
    calibrations: Sequence[object] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    details: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.started_utc.tzinfo is None:
            raise ArchiveError(
                f"the start {self.started_utc} has no time zone",
                where="provenance.started_utc",
                remedy="Pass datetime.now(UTC) or a time with its zone",
            )
        object.__setattr__(self, "started_utc", self.started_utc.astimezone(UTC))
        if self.backend not in ORIGINS:
            raise ArchiveError(
                f"'{self.backend}' is not a backend", where="provenance.backend", remedy=f"One of {', '.join(ORIGINS)}"
            )
        if self.simulated != (self.backend == "mock"):
            raise ArchiveError(
                f"backend '{self.backend}' does not go with simulated = {self.simulated}",
                where="provenance.simulated",
                remedy="A run on the twin is simulated and nothing else is",
            )


@dataclass(frozen=True)
class Phase:
    """A named stretch of a run: times in s from the start, the commanded speed in mm/s or rad/s; the other is NaN."""

    name: str
    replicate: int
    speed_mm_s: float
    start_s: float
    end_s: float
    angular_speed_rad_s: float = math.nan


@dataclass(frozen=True)
class Event:
    """Something that happened at ``time_s`` [s]."""

    time_s: float
    severity: str
    code: str
    message: str


@dataclass(frozen=True)
class TimeAnchor:
    """Where sample 0 of a group lies in the clock and in UTC [ns], each within ``half_width_ns``."""

    group: str
    clock_ns: int
    utc_ns: int
    half_width_ns: int


@dataclass(frozen=True)
class Channel:
    """One channel as read: ``values`` (n,) in ``unit``, ``time_s`` (n,) in s; both read-only float64."""

    name: str
    values: NDArray[np.float64]
    unit: str
    kind: str
    time_s: NDArray[np.float64]
    group: str
    rate_hz: float | None = None


def utc_ns(moment: datetime) -> int:
    """Return ``moment`` as ns since 1970-01-01 UTC, exact."""
    elapsed = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return ((elapsed.days * 86400 + elapsed.seconds) * 1_000_000 + elapsed.microseconds) * 1000


def iso_utc(moment: datetime) -> str:
    """Return ``moment`` as ISO-8601 with microseconds and a Z."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def fixed(text: str, length: int) -> bytes:
    """Return ``text`` as UTF-8 of at most ``length`` bytes; a cut shows as an ellipsis and never splits a character."""
    data = text.replace("\0", " ").encode()
    if len(data) <= length:
        return data
    return data[: length - 3].decode(errors="ignore").encode() + "…".encode()


def text_of(value: object) -> str:
    """Return a stored string, fixed or variable length, as ``str``."""
    return value.decode() if isinstance(value, bytes) else str(value)


def check_groups(groups: Sequence[GroupSpec]) -> None:
    """Raise :class:`ArchiveError` or ``UnitError`` unless the groups can be laid out."""
    owner: dict[str, str] = {}
    if not groups:
        raise ArchiveError("no group to record", where="groups", remedy="Name at least one GroupSpec")
    for group in groups:
        _check_name(group.name, "group", owner, "")
        if not group.datasets:
            raise ArchiveError(
                "the group has no dataset", where=group.name, remedy="Add a DatasetSpec or drop the group"
            )
        if group.block < 1:
            raise ArchiveError(f"block = {group.block}", where=group.name, remedy="A block holds at least one sample")
        taken = {"time"}
        for dataset in group.datasets:
            where = f"{group.name}/{dataset.name}"
            check_unit(dataset.unit, dataset.kind, where=where)
            if not dataset.channels:
                raise ArchiveError("the dataset has no channel", where=where, remedy="Name one channel per column")
            for name in (dataset.name, f"{dataset.name}_channel", *dataset.channels):
                if not _NAME.fullmatch(name):
                    raise _bad_name(name, where)
                if name in taken:
                    raise ArchiveError(
                        f"the name '{name}' is used twice",
                        where=where,
                        remedy="A dataset, its channels and 'time' share one group and need names of their own",
                    )
                taken.add(name)
            for channel in dataset.channels:
                _check_name(channel, "channel", owner, where)


def _check_name(name: str, what: str, owner: dict[str, str], where: str) -> None:
    if not _NAME.fullmatch(name):
        raise _bad_name(name, where)
    key = f"{what} {name}"
    if key in owner:
        raise ArchiveError(
            f"{what} '{name}' is there twice", where=where or name, remedy=f"A {what} name is unique in an archive"
        )
    owner[key] = where


def _bad_name(name: str, where: str) -> ArchiveError:
    return ArchiveError(
        f"'{name}' is not a usable name",
        where=where,
        remedy="Letters, digits and underscores, at most 63, no digit first",
    )
