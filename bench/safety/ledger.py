"""What happened to this machine's rigs, in order: one line of JSON an entry, each with the digest of the line before.

Nothing is ever changed or taken out of it: a line that was, breaks the chain from there on, which
:meth:`Ledger.entries` tells. Lines taken off the end cannot be told from the file alone, so an entry's digest is also
printed where it matters (``bench quarantine clear`` prints it).
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import StateError
from bench.safety.process_identity import this_host
from bench.safety.state_dir import locked, read_all, state_dir

FILE = "ledger.jsonl"
#: What the first line has for a digest of the line before.
NOTHING = "0" * 64


@dataclass(frozen=True)
class Entry:
    """One line of the ledger.

    Parameters
    ----------
    number : int
        From 1.
    kind : str
        ``quarantine``, ``quarantine_cleared``, ``lease_takeover``, ``watchdog_trip`` …
    fields : dict
        All it says, with ``utc``, ``user``, ``host`` and ``pid``.
    digest : str
        SHA-256 of the line.
    """

    number: int
    kind: str
    fields: dict[str, Any]
    digest: str


class Ledger:
    """The ledger in ``folder``, the machine's state folder by default."""

    def __init__(self, folder: Path | None = None) -> None:
        self.path = state_dir(folder) / FILE

    def append(self, kind: str, **fields: Any) -> Entry:
        """Add an entry; it is on the disk when this returns.

        Raises
        ------
        StateError
            The ledger cannot be written.
        """
        try:
            with locked(self.path) as descriptor:
                return self._append(descriptor, kind, fields)
        except OSError as error:
            raise StateError(
                f"the ledger cannot be written ({error.strerror or error})",
                where=str(self.path),
                remedy="Make room on its disk, or repair its rights",
            ) from error

    def _append(self, descriptor: int, kind: str, fields: dict[str, Any]) -> Entry:
        before = read_all(descriptor)
        lines = before.split(b"\n")
        torn = lines.pop()  # what follows the last line's end: nothing, or a line that a power cut left unfinished
        if torn:
            lines.append(torn)
        content = {
            "number": len(lines) + 1,
            "kind": kind,
            "utc": datetime.now(UTC).isoformat(timespec="milliseconds"),
            "user": user(),
            "host": this_host().partition("/")[0],
            "pid": os.getpid(),
            **fields,
            "previous": _digest(lines[-1]) if lines else NOTHING,
        }
        line = json.dumps(content, ensure_ascii=False, default=str).encode()
        os.lseek(descriptor, 0, os.SEEK_END)
        _write_all(descriptor, (b"\n" if torn else b"") + line + b"\n")
        os.fsync(descriptor)
        return Entry(len(lines) + 1, kind, content, _digest(line))

    def entries(self) -> list[Entry]:
        """Read the ledger and check that it holds together.

        A line that a power cut left unfinished is passed over; the entry after it names its digest.

        Raises
        ------
        StateError
            A line was changed, put in or taken out.
        """
        if not self.path.exists():
            return []
        found: list[Entry] = []
        digest = NOTHING
        lines = self.path.read_bytes().split(b"\n")
        for number, line in enumerate(lines[:-1], 1):
            try:
                content = json.loads(line)
            except ValueError:
                content = None
            if isinstance(content, dict):
                if content.get("previous") != digest or content.get("number") != number:
                    raise StateError(
                        f"line {number} does not follow from the one before: a line was changed, put in or taken out",
                        where=str(self.path),
                        remedy="Compare it with a backup; what was before that line still holds together",
                    )
                found.append(Entry(number, str(content.get("kind")), content, _digest(line)))
            digest = _digest(line)
        return found


def append(kind: str, *, folder: Path | None = None, **fields: Any) -> Entry:
    """Add an entry to the ledger in ``folder``, this machine's by default; see :meth:`Ledger.append`."""
    return Ledger(folder).append(kind, **fields)


def user() -> str:
    """Return the login name of whoever runs this process."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # no such user on this machine, as in some containers
        return str(os.getuid()) if hasattr(os, "getuid") else "unknown"


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]
