"""Verdict records: JSON files beside an archive, numbered, each bound to the archive and to the one it supersedes."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.archive.digest import verify_digest
from bench.archive.files import rename_exclusively
from bench.archive.provenance import plain
from bench.archive.schema import SUFFIX, iso_utc
from bench.errors import ArchiveError

VERDICT_SCHEMA = "bench.verdict/1"
_LIMIT = 999


@dataclass(frozen=True)
class VerdictRecord:
    """One verdict on an archive; ``supersedes`` is the number of the one before, None for the first."""

    path: Path
    number: int
    written_utc: str
    archive_digest: str
    supersedes: int | None
    record: dict[str, Any]


def add_verdict(run_path: Path | str, verdict_record: Mapping[str, Any]) -> Path:
    """Write ``verdict_record`` to ``RUN.verdict-NNN.json`` beside the archive and return that path.

    The archive is verified, never changed. A number that is not finite is stored as the text nan, inf or -inf, since
    JSON has no such numbers.

    Raises
    ------
    ArchiveError
        The archive or an earlier verdict does not verify.
    """
    run_path = Path(run_path)
    digest = verify_digest(run_path)
    while True:
        earlier = read_verdicts(run_path, digest)
        number = earlier[-1].number + 1 if earlier else 1
        if number > _LIMIT:
            raise ArchiveError(
                f"there are {_LIMIT} verdicts", where=str(run_path), remedy="Archive the old ones elsewhere"
            )
        before = earlier[-1].path if earlier else None
        content = {
            "schema": VERDICT_SCHEMA,
            "archive": run_path.name,
            "archive_digest": digest,
            "written_utc": iso_utc(datetime.now(UTC)),
            "supersedes": {"file": before.name, "sha256": _sha256(before)} if before else None,
            "verdict": plain(verdict_record),
        }
        content["content_sha256"] = _content_sha256(content)
        path = run_path.with_name(f"{_stem(run_path)}.verdict-{number:03d}.json")
        if _write_whole(path, json.dumps(content, indent=1, sort_keys=True, ensure_ascii=False) + "\n"):
            return path
        # somebody judged the same archive at the same moment: supersede that one


def _write_whole(path: Path, text: str) -> bool:
    """Write a new file, all of it or nothing: half a record would stand in the way of every later one.

    Returns False when ``path`` exists already.
    """
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        rename_exclusively(part, path)
    except ArchiveError as error:
        if isinstance(error.__cause__, FileExistsError):
            return False
        raise
    except OSError as error:
        raise ArchiveError(
            f"the verdict cannot be written ({error.strerror or error})",
            where=str(path),
            remedy="Check that the folder can be written and the disk has room, then judge again",
        ) from error
    finally:
        part.unlink(missing_ok=True)
    return True


def read_verdicts(run_path: Path, digest: str) -> tuple[VerdictRecord, ...]:
    """Return the verdicts on the archive with ``digest``, oldest first, after checking their chain."""
    pattern = re.compile(re.escape(_stem(run_path)) + r"\.verdict-(\d{3})\.json")
    found = sorted((p for p in run_path.parent.iterdir() if pattern.fullmatch(p.name)), key=lambda p: p.name)
    records: list[VerdictRecord] = []
    for number, path in enumerate(found, start=1):
        record = _read(path, number)
        if record.archive_digest != digest:
            raise ArchiveError(
                "the verdict was given on another archive, or on another content of this one",
                where=str(path),
                remedy="Put the verdict back beside its archive, or judge this archive anew",
            )
        records.append(record)
    return tuple(records)


def _read(path: Path, number: int) -> VerdictRecord:
    broken = "The file was changed, damaged or a verdict before it is missing; go back to a copy"
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["schema"] != VERDICT_SCHEMA:
            raise ArchiveError(
                f"schema '{content['schema']}'", where=str(path), remedy=f"This bench reads '{VERDICT_SCHEMA}'"
            )
        if _content_sha256(content) != content["content_sha256"]:
            raise ArchiveError("the verdict was edited after it was written", where=str(path), remedy=broken)
        link = content["supersedes"]
        before = None if link is None else path.with_name(link["file"])
        chained = before is None if number == 1 else before is not None and _sha256(before) == link["sha256"]
        if not chained or not path.name.endswith(f"-{number:03d}.json"):
            raise ArchiveError("the chain of verdicts is broken here", where=str(path), remedy=broken)
        return VerdictRecord(
            path,
            number,
            content["written_utc"],
            content["archive_digest"],
            number - 1 if number > 1 else None,
            content["verdict"],
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArchiveError(f"not a readable verdict record ({error})", where=str(path), remedy=broken) from error


def _stem(run_path: Path) -> str:
    return run_path.name.removesuffix(SUFFIX)


def _content_sha256(content: Mapping[str, Any]) -> str:
    """Return the hash of a record's content but the hash itself. No signature: it shows an edit, not a forgery."""
    rest = {name: value for name, value in content.items() if name != "content_sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
