"""Recovery works on a copy, mends the superblock only, and refuses what it cannot help."""

from __future__ import annotations

import shutil
import struct
import sys
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bench.archive import Run, RunWriter, recover, verify_digest
from bench.archive.recovery import lookup3
from bench.errors import ArchiveError

Samples = Callable[[int, int], tuple[dict[str, np.ndarray], np.ndarray]]


@pytest.fixture
def crashed(archive_writer: Callable[..., RunWriter], archive_samples: Samples, tmp_path: Path) -> Path:
    """The bytes on disk of a run whose recorder vanished: 300 of 350 samples were committed."""
    writer = archive_writer()
    writer.append("daq", *archive_samples(0, 350))
    writer.event(0.2, "info", "touch", "in time")
    while not (writer.committed("daq") == 300 and b"in time" in writer.path.read_bytes()):
        assert writer._thread.is_alive()
    path = tmp_path / "crash" / "press.partial.h5"
    path.parent.mkdir()
    shutil.copy(writer.path, path)
    writer.close("COMPLETE")
    return path


@pytest.mark.parametrize(
    ("text", "initial", "expected"),
    [
        (b"", 0, 0xDEADBEEF),
        (b"Four score and seven years ago", 0, 0x17770551),
        (b"Four score and seven years ago", 1, 0xCD628161),
    ],
)
def test_lookup3_gives_the_values_its_author_published(text: bytes, initial: int, expected: int) -> None:
    assert lookup3(text, initial) == expected


def test_our_checksum_is_the_one_hdf5_wrote(sealed_run: Path) -> None:
    head = sealed_run.read_bytes()[:48]
    assert struct.unpack_from("<I", head, 44)[0] == lookup3(head[:44])


def test_a_crashed_run_recovers_to_a_sealed_copy(crashed: Path, archive_samples: Samples) -> None:
    before = crashed.read_bytes()
    with pytest.raises(ArchiveError, match=r"bench recover .*press\.partial\.h5"):
        Run.open(crashed)
    path = recover(crashed)
    assert path.name == "press.recovered.h5"
    assert crashed.read_bytes() == before
    verify_digest(path)
    with Run.open(path) as run:
        assert run.status == "CRASHED"
        assert "recovered from press.partial.h5" in run.reason
        assert np.array_equal(run.channel("gauge_0").values, archive_samples(0, 300)[0]["raw"][:, 0])
        assert run.events[0].message == "in time"
    assert sorted(p.name for p in crashed.parent.iterdir()) == ["press.partial.h5", "press.recovered.h5"]


def test_a_recovered_file_has_datasets_of_one_length(crashed: Path) -> None:
    with h5py.File(recover(crashed)) as file:
        assert {len(file["entry/daq"][n]) for n in ("time", "raw", "position", "gauge_0", "gauge_1")} == {300}


def test_a_run_that_was_sealed_but_not_renamed_keeps_its_status(sealed_run: Path, tmp_path: Path) -> None:
    partial = tmp_path / "x.partial.h5"
    shutil.copy(sealed_run, partial)
    path = recover(partial)
    with Run.open(path) as run:
        assert run.status == "COMPLETE"
    assert verify_digest(path) == verify_digest(sealed_run)


@pytest.mark.skipif(sys.platform == "win32", reason="needs flock")
def test_a_run_that_is_being_recorded_is_left_alone(archive_writer: Callable[..., RunWriter]) -> None:
    writer = archive_writer()
    with pytest.raises(ArchiveError, match="being recorded at this moment"):
        recover(writer.path)
    writer.close("COMPLETE")


def test_an_existing_output_is_never_overwritten(crashed: Path) -> None:
    path = recover(crashed)
    with pytest.raises(ArchiveError, match="the name is taken"):
        recover(crashed)
    assert recover(crashed, path.with_name("again.h5")).is_file()


def test_a_sealed_archive_is_not_doubled(crashed: Path) -> None:
    sealed = recover(crashed)
    names = sorted(path.name for path in crashed.parent.iterdir())
    with pytest.raises(ArchiveError, match="sealed and whole: there is nothing to recover"):
        recover(sealed)
    assert sorted(path.name for path in crashed.parent.iterdir()) == names


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n", b"time,force\n" * 20])
def test_what_is_no_archive_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "x.partial.h5"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match="nothing to recover"):
        recover(path)
    assert [p.name for p in tmp_path.iterdir()] == ["x.partial.h5"]


def test_a_foreign_hdf5_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        file["data"] = [1]
    with pytest.raises(ArchiveError, match="not an archive of the bench"):
        recover(path)


def test_a_missing_file_is_an_archive_error(tmp_path: Path) -> None:
    with pytest.raises(ArchiveError, match="no such file"):
        recover(tmp_path / "x.partial.h5")


@pytest.mark.parametrize("kept", [0.1, 0.3])
def test_a_file_cut_off_in_the_middle_is_told_by_its_own_name(crashed: Path, tmp_path: Path, kept: float) -> None:
    whole = crashed.read_bytes()
    cut = tmp_path / "cut.partial.h5"
    cut.write_bytes(whole[: int(len(whole) * kept)])
    with pytest.raises(ArchiveError) as damaged:
        recover(cut)
    assert damaged.value.where == str(cut)
    assert damaged.value.remedy
    assert ".work" not in str(damaged.value)
    assert not list(tmp_path.glob("*.work"))
