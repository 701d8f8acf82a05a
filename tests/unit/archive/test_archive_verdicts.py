"""Judging again never changes what was there: each verdict is a new file that supersedes the one before."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from pathlib import Path

import pytest

from bench.archive import Run, add_verdict
from bench.errors import ArchiveError


def test_verdicts_are_numbered_chained_and_leave_the_archive_untouched(sealed_run: Path) -> None:
    before = sealed_run.read_bytes()
    first = add_verdict(sealed_run, {"outcome": "PASS", "rows": [{"value": 1.5}]})
    kept = first.read_bytes()
    second = add_verdict(sealed_run, {"outcome": "FAIL"})
    assert [first.name, second.name] == [f"{sealed_run.stem}.verdict-00{n}.json" for n in (1, 2)]
    assert sealed_run.read_bytes() == before
    assert first.read_bytes() == kept
    with Run.open(sealed_run) as run:
        old, new = run.verdicts
        assert (old.number, old.supersedes, old.record["rows"]) == (1, None, [{"value": 1.5}])
        assert (new.number, new.supersedes, new.record["outcome"]) == (2, 1, "FAIL")
        assert new.archive_digest == run.digest


def test_a_run_that_was_never_judged_has_no_verdicts(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        assert run.verdicts == ()


def test_a_number_that_is_not_finite_is_recorded_as_text(sealed_run: Path) -> None:
    path = add_verdict(sealed_run, {"value": float("nan")})
    assert json.loads(path.read_text())["verdict"]["value"] == "nan"


def test_an_edited_verdict_is_noticed(sealed_run: Path) -> None:
    first = add_verdict(sealed_run, {"outcome": "FAIL"})
    add_verdict(sealed_run, {"outcome": "FAIL"})
    first.write_text(first.read_text().replace("FAIL", "PASS"))
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match="edited after it was written"):
        _ = run.verdicts


def test_an_edited_last_verdict_is_noticed_too(sealed_run: Path) -> None:
    last = add_verdict(sealed_run, {"outcome": "FAIL"})
    last.write_text(last.read_text().replace("FAIL", "PASS"))
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match="edited after it was written"):
        _ = run.verdicts


def test_a_verdict_that_cannot_be_written_leaves_nothing_in_the_way(
    sealed_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(sealed_run.parent.iterdir())
    with monkeypatch.context() as disk:
        disk.setattr(os, "fsync", full)
        with pytest.raises(ArchiveError, match="No space left"):
            add_verdict(sealed_run, {"outcome": "PASS"})
    assert sorted(sealed_run.parent.iterdir()) == before
    assert add_verdict(sealed_run, {"outcome": "PASS"}).name.endswith(".verdict-001.json")


def test_a_removed_verdict_breaks_the_chain(sealed_run: Path) -> None:
    add_verdict(sealed_run, {"outcome": "FAIL"}).unlink()
    add_verdict(sealed_run, {"outcome": "FAIL"})
    add_verdict(sealed_run, {"outcome": "PASS"})
    sealed_run.with_name(f"{sealed_run.stem}.verdict-001.json").unlink()
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match="chain of verdicts is broken"):
        _ = run.verdicts


def test_a_verdict_of_another_archive_is_refused(sealed_run: Path) -> None:
    other = sealed_run.with_name("other.h5")
    shutil.copy(sealed_run, other)
    verdict = add_verdict(other, {"outcome": "PASS"})
    changed = json.loads(verdict.read_text()) | {"archive_digest": "0" * 64}
    del changed["content_sha256"]
    changed["content_sha256"] = hashlib.sha256(json.dumps(changed, sort_keys=True).encode()).hexdigest()
    sealed_run.with_name(f"{sealed_run.stem}.verdict-001.json").write_text(json.dumps(changed))
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match="given on another archive"):
        _ = run.verdicts


def test_a_verdict_that_is_no_json_is_refused(sealed_run: Path) -> None:
    sealed_run.with_name(f"{sealed_run.stem}.verdict-001.json").write_text("PASS")
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match="not a readable verdict record"):
        _ = run.verdicts
