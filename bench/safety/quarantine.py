"""Rigs that could not be made safe: nobody may use one again until a person has looked at it and said so.

::

    Quarantine.impose("indenter", ["01F2A3B4", "57012"], "safe_state_failed", "the enable line reads high")
    check_quarantine("indenter", ["01F2A3B4"])               # QuarantineError: why, when, which archive
    clear_quarantine("indenter", by="R. Weber", reason="relay exchanged, e-stop tested")

A quarantine holds for the rig by its name and for every device by its serial number, also in a rig of another name.
All of it is in the ledger.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import QuarantineError, StateError
from bench.safety.lease import OF_TWIN, twin_has_ended, twin_suffix
from bench.safety.ledger import Entry, Ledger
from bench.safety.process_identity import ProcessIdentity
from bench.safety.state_dir import (
    file_name,
    locked,
    name_of,
    read_record,
    remove_locked,
    state_dir,
    subfolder,
    write_record,
)


def rig_key(rig: str, twin: ProcessIdentity | None = None) -> str:
    """Return the name a rig's quarantine goes by: a simulated rig's says which simulated lab it is in."""
    return rig + twin_suffix(twin)


@dataclass(frozen=True)
class Quarantine:
    """Why a rig may not be used.

    Parameters
    ----------
    rig : str
        Its name; of a simulated rig with the lab's process, ``indenter@twin-4242.171``.
    serials : tuple of str
        Serial numbers read back from its devices.
    reason : str
        Short code.
    detail : str
        What was tried and how it went.
    since_utc : str
    archive : str
        Of the run in which it happened, if it was one.
    """

    rig: str
    serials: tuple[str, ...]
    reason: str
    detail: str
    since_utc: str
    archive: str = ""

    @classmethod
    def impose(
        cls,
        rig: str,
        serials: Sequence[str],
        reason: str,
        detail: str,
        *,
        archive: str | Path = "",
        folder: Path | None = None,
    ) -> Quarantine:
        """Put ``rig`` in quarantine; one that is there already stays with what it was put there for first.

        Raises
        ------
        StateError
            It could not be written down.
        """
        made = cls(rig, tuple(serials), reason, detail, datetime.now(UTC).isoformat(timespec="seconds"), str(archive))
        try:
            with locked(_path(rig, folder)) as descriptor:
                there = read_record(descriptor)
                standing = _read(there)
                if standing is not None:
                    serials = sorted({*standing.serials, *made.serials})
                    made = dataclasses.replace(standing, serials=tuple(serials))
                write_record(descriptor, dataclasses.asdict(made), durable=True)
        except OSError as error:
            raise StateError(
                f"the quarantine of {rig} could not be written down ({error.strerror or error})",
                where=str(_path(rig, folder)),
                remedy="Keep everybody off the rig by a sign on it, and make room on the disk",
            ) from error
        Ledger(folder).append(
            "quarantine", rig=rig, serials=list(made.serials), reason=reason, detail=detail, archive=str(archive)
        )
        return made

    def __str__(self) -> str:
        text = f"{self.rig}: {self.reason} at {self.since_utc} ({self.detail})"
        if self.serials:
            text = f"{text}; devices {', '.join(self.serials)}"
        return f"{text}; archive {self.archive}" if self.archive else text


def quarantines(folder: Path | None = None) -> list[Quarantine]:
    """Return those that stand, by rig. Of simulated rigs only those whose lab still runs: the others are gone."""
    found = []
    for path in sorted(subfolder(state_dir(folder), "quarantine").glob("*.json")):
        with locked(path) as descriptor:
            record = read_record(descriptor)
            if _gone(path):
                remove_locked(path)
                continue
        if record != {}:
            found.append(_read(record) or _damaged(path))
    return found


def check_quarantine(rig: str, serials: Sequence[str] = (), *, folder: Path | None = None) -> None:
    """Refuse a rig that is in quarantine, or one of whose devices is.

    Raises
    ------
    QuarantineError
        Why it is, since when, which archive tells of it, and how a person ends it.
    """
    for standing in quarantines(folder):
        shared = sorted(set(serials) & set(standing.serials))
        # Simulated labs have equal serial numbers; their rigs' names are their own.
        if standing.rig != rig and (not shared or OF_TWIN in rig or OF_TWIN in standing.rig):
            continue
        through = "" if standing.rig == rig else f", which shares the device {', '.join(shared)} with it,"
        raise QuarantineError(
            f"the rig {standing.rig}{through} is in quarantine since {standing.since_utc}: {standing.reason} "
            f"({standing.detail})" + (f"; the run's archive is {standing.archive}" if standing.archive else ""),
            where=f"rig {rig}",
            remedy="Look at the rig, put the cause right, then say so: "
            f'bench quarantine clear {standing.rig} --by NAME --reason "..."',
        )


def clear_quarantine(rig: str, *, by: str, reason: str, folder: Path | None = None) -> Entry:
    """End the quarantine of ``rig`` in the name of a person, for a reason; returns the ledger's entry.

    Raises
    ------
    QuarantineError
        It is in none, or the name or the reason is empty.
    """
    by, reason = by.strip(), reason.strip()
    if not by or not reason:
        raise QuarantineError(
            f"nobody answers for it: {'the name' if not by else 'the reason'} is empty",
            where=f"quarantine of {rig}",
            remedy="Say who has looked at the rig and what was put right: --by NAME --reason TEXT",
        )
    standing = {one.rig: one for one in quarantines(folder)}
    if rig not in standing:
        raise QuarantineError(
            f"the rig {rig} is in no quarantine",
            where="quarantine",
            remedy=f"There {'is' if len(standing) == 1 else 'are'} {', '.join(standing) or 'none'}",
        )
    path = _path(rig, folder)
    with locked(path) as descriptor:
        was = standing[rig]
        entry = Ledger(folder).append(
            "quarantine_cleared", rig=rig, by=by, reason=reason, was=was.reason, since=was.since_utc
        )
        write_record(descriptor, {}, durable=True)
        if OF_TWIN in rig:
            remove_locked(path)
    return entry


def _path(rig: str, folder: Path | None) -> Path:
    return subfolder(state_dir(folder), "quarantine") / file_name(rig)


def _read(record: dict[str, Any] | None) -> Quarantine | None:
    if not record:
        return None
    with contextlib.suppress(KeyError, TypeError):
        return Quarantine(**{**record, "serials": tuple(record["serials"])})
    return None


def _damaged(path: Path) -> Quarantine:
    changed = datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat(timespec="seconds")
    return Quarantine(name_of(path), (), "unreadable", f"{path} cannot be read", changed)


def _gone(path: Path) -> bool:
    """Whether it is of a simulated lab that has ended."""
    return twin_has_ended(name_of(path))
