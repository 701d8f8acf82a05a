"""What goes into an archive, and what is refused on the way in."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter, verify_digest
from bench.archive.schema import fixed
from bench.errors import ArchiveError, SafetyAbort, UnitError

Samples = Callable[[int, int], tuple[dict[str, np.ndarray], np.ndarray]]
Writers = Callable[..., RunWriter]


def test_blocks_of_any_size_come_back_in_order_and_exact(archive_writer: Writers, archive_samples: Samples) -> None:
    writer = archive_writer()
    first = 0
    for count in np.random.default_rng(3).integers(1, 260, size=40):
        writer.append("daq", *archive_samples(first, int(count)))
        first += int(count)
    with Run.open(writer.close("COMPLETE")) as run:
        expected, time_s = archive_samples(0, first)
        assert np.array_equal(run.channel("gauge_1").values, expected["raw"][:, 1])
        assert np.array_equal(run.channel("encoder_position").values, expected["position"])
        assert np.array_equal(run.channel("gauge_1").time_s, time_s)


def test_only_whole_chunks_are_committed_until_the_tail_at_close(
    archive_writer: Writers, archive_samples: Samples
) -> None:
    committed: list[tuple[str, int]] = []
    writer = archive_writer(on_commit=lambda group, count: committed.append((group, count)))
    writer.append("daq", *archive_samples(0, 250))
    path = writer.close("COMPLETE")
    assert committed[-1] == ("daq", 250)
    assert all(count % 100 == 0 for _, count in committed[:-1])
    with h5py.File(path) as file:
        assert file["entry/daq/raw"].chunks == (100, 2)


def test_the_callers_buffer_may_be_reused_at_once(archive_writer: Writers, archive_samples: Samples) -> None:
    writer = archive_writer()
    data, time_s = archive_samples(0, 50)
    writer.append("daq", data, time_s)
    data["raw"][:] = np.nan
    time_s[:] = np.nan
    with Run.open(writer.close("COMPLETE")) as run:
        assert np.isfinite(run.channel("gauge_0").values).all()
        assert np.isfinite(run.channel("gauge_0").time_s).all()


def test_the_name_is_partial_until_sealed_and_carries_the_start(archive_writer: Writers, tmp_path: Path) -> None:
    writer = archive_writer("press é/1")
    assert writer.path.name == "20310506T070809Z_press___1.partial.h5"
    path = writer.close("COMPLETE")
    assert [p.name for p in tmp_path.iterdir()] == [path.name] == ["20310506T070809Z_press___1.h5"]


def test_two_runs_of_one_name_and_second_get_names_of_their_own(archive_writer: Writers) -> None:
    first, second = archive_writer(), archive_writer()
    paths = {first.close("COMPLETE"), second.close("COMPLETE"), archive_writer().close("COMPLETE")}
    assert {p.name for p in paths} == {f"20310506T070809Z_press{n}.h5" for n in ("", "-2", "-3")}


def test_sealing_never_overwrites_a_file_that_took_the_name(archive_writer: Writers, tmp_path: Path) -> None:
    writer = archive_writer()
    thief = tmp_path / "20310506T070809Z_press.h5"
    thief.write_text("mine")
    with pytest.raises(ArchiveError, match="the name is taken"):
        writer.close("COMPLETE")
    assert thief.read_text() == "mine"
    verify_digest(writer.path)


def test_a_safety_abort_seals_the_archive_as_aborted_with_its_reason(archive_writer: Writers) -> None:
    writer = archive_writer()
    with pytest.raises(SafetyAbort), writer:
        raise SafetyAbort("25 N exceed 20 N", reason="force_limit")
    with Run.open(writer.path) as run:
        assert (run.status, run.reason) == ("ABORTED", "force_limit: 25 N exceed 20 N")


def test_leaving_the_context_without_an_error_completes_the_run(archive_writer: Writers) -> None:
    with archive_writer() as writer:
        pass
    with Run.open(writer.path) as run:
        assert run.status == "COMPLETE"
        assert len(run.channel("gauge_0").values) == 0


def test_a_full_queue_raises_and_never_drops_silently(archive_writer: Writers, archive_samples: Samples) -> None:
    gate, entered = threading.Event(), threading.Event()

    def block(group: str, count: int) -> None:
        entered.set()
        assert gate.wait(20)

    writer = archive_writer(queue_length=2, queue_wait_s=0.0, on_commit=block)
    writer.append("daq", *archive_samples(0, 100))
    assert entered.wait(20)
    writer.append("daq", *archive_samples(100, 100))
    writer.append("daq", *archive_samples(200, 100))
    with pytest.raises(ArchiveError, match=r"does not keep up: 2 blocks wait.*Abort the run"):
        writer.append("daq", *archive_samples(300, 100))
    gate.set()
    with Run.open(writer.close("ABORTED", "the disk was too slow")) as run:
        assert len(run.channel("gauge_0").values) == 300


def test_a_simulated_run_waits_for_a_full_queue_because_its_time_stands_still(
    archive_writer: Writers, archive_samples: Samples
) -> None:
    writer = archive_writer(queue_length=1)
    for block in range(50):
        writer.append("daq", *archive_samples(100 * block, 100))
    with Run.open(writer.close("COMPLETE")) as run:
        assert len(run.channel("gauge_0").values) == 5000


def test_a_dead_writer_thread_is_heard_at_the_next_append_and_at_close(
    archive_writer: Writers, archive_samples: Samples
) -> None:
    died = threading.Event()

    def fail(group: str, count: int) -> None:
        died.set()
        raise OSError(28, "No space left on device")

    writer = archive_writer(on_commit=fail)
    writer.append("daq", *archive_samples(0, 100))
    assert died.wait(20)
    writer._thread.join(20)
    with pytest.raises(ArchiveError, match=r"No space left.*bench recover .*partial\.h5"):
        writer.append("daq", *archive_samples(100, 100))
    with pytest.raises(ArchiveError, match="No space left"):
        writer.close("COMPLETE")


@pytest.mark.parametrize(
    ("data", "time_s", "message"),
    [
        ({"raw": np.zeros((3, 2))}, [0, 1, 2], "Append raw, position together"),
        ({"raw": np.zeros((3, 3)), "position": np.zeros(3)}, [0, 1, 2], r"Pass an array of shape \(3, 2\)"),
        ({"raw": np.zeros((2, 2)), "position": np.zeros(3)}, [0, 1, 2], r"shape \(2, 2\) for 3 times"),
        ({"raw": np.zeros((3, 2), complex), "position": np.zeros(3)}, [0, 1, 2], "type complex128"),
        ({"raw": np.zeros((3, 2)), "position": np.zeros(3)}, [0, 2, 1], "time does not increase"),
        ({"raw": np.zeros((3, 2)), "position": np.zeros(3)}, [0, 1, np.nan], "time does not increase"),
        ({"raw": np.zeros((3, 2)), "position": np.zeros(3)}, [[0, 1, 2]], r"times of shape \(1, 3\)"),
    ],
)
def test_wrong_samples_are_refused_where_they_enter(
    archive_writer: Writers, data: dict[str, Any], time_s: list[float], message: str
) -> None:
    with archive_writer() as writer, pytest.raises(ArchiveError, match=message):
        writer.append("daq", data, time_s)


def test_time_must_increase_across_blocks_too(archive_writer: Writers, archive_samples: Samples) -> None:
    with archive_writer() as writer:
        writer.append("daq", *archive_samples(0, 10))
        with pytest.raises(ArchiveError, match=r"time does not increase \(0.009, then 0.009"):
            writer.append("daq", *archive_samples(9, 10))


def test_an_unknown_group_and_a_closed_archive_are_errors(archive_writer: Writers, archive_samples: Samples) -> None:
    writer = archive_writer()
    with pytest.raises(ArchiveError, match=r"no group 'force'.*Groups here: daq, stage"):
        writer.append("force", *archive_samples(0, 1))
    writer.close("COMPLETE")
    with pytest.raises(ArchiveError, match="the archive is closed"):
        writer.append("daq", *archive_samples(0, 1))


def test_a_full_table_of_events_says_how_to_make_it_larger(archive_writer: Writers) -> None:
    with archive_writer(events_capacity=2) as writer:
        writer.event(0.0, "info", "a", "first")
        writer.event(0.0, "info", "b", "second")
        with pytest.raises(ArchiveError, match="larger events_capacity"):
            writer.event(0.0, "info", "c", "third")


def test_a_long_message_is_cut_visibly_and_between_characters() -> None:
    assert fixed("é" * 300, 512).decode() == "é" * 254 + "…"
    assert fixed("short", 512) == b"short"


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        ((), ArchiveError, "no group"),
        ((GroupSpec("g", (DatasetSpec("raw", "Nm", "torque", ("a",)),)),), UnitError, "'Nm'.*Write N.m"),
        ((GroupSpec("g", (DatasetSpec("raw", "J", "torque", ("a",)),)),), UnitError, "not of a torque"),
        ((GroupSpec("g", (DatasetSpec("raw", "V", "voltage", ("raw",)),)),), ArchiveError, "'raw' is used twice"),
        ((GroupSpec("g", (DatasetSpec("raw", "V", "voltage", ("time",)),)),), ArchiveError, "'time' is used twice"),
        ((GroupSpec("g", (DatasetSpec("raw", "V", "voltage", ("a b",)),)),), ArchiveError, "'a b' is not a usable"),
        ((GroupSpec("g", ()),), ArchiveError, "no dataset"),
        (
            (
                GroupSpec("g", (DatasetSpec("raw", "V", "voltage", ("a",)),)),
                GroupSpec("h", (DatasetSpec("raw", "V", "voltage", ("a",)),)),
            ),
            ArchiveError,
            "channel 'a' is there twice",
        ),
    ],
)
def test_groups_that_cannot_be_laid_out_leave_no_file(
    tmp_path: Path,
    archive_provenance: Callable[..., Provenance],
    groups: tuple[GroupSpec, ...],
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        RunWriter.create(tmp_path, "x", archive_provenance(), groups)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"simulated": False}, "A run on the twin is simulated"),
        ({"backend": "lab"}, "A run on the twin is simulated"),
        ({"backend": "twin"}, "'twin' is not a backend"),
    ],
)
def test_a_mock_run_cannot_pass_as_real(
    archive_provenance: Callable[..., Provenance], changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArchiveError, match=message):
        archive_provenance(**changes)


def test_a_start_without_a_time_zone_is_refused(archive_provenance: Callable[..., Provenance]) -> None:
    naive = archive_provenance().started_utc.replace(tzinfo=None)
    with pytest.raises(ArchiveError, match="no time zone"):
        archive_provenance(started_utc=naive)


def test_a_viewer_that_follows_the_run_reads_it_live_and_does_not_keep_it_from_being_sealed(
    archive_writer: Writers, archive_samples: Samples
) -> None:
    writer = archive_writer()
    writer.append("daq", *archive_samples(0, 200))
    deadline = time.monotonic() + 20
    while writer.committed("daq") < 200:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    code = (
        "import h5py, sys\n"
        "with h5py.File(sys.argv[1], swmr=True) as file:\n"
        "    print(file['entry/daq/gauge_1'][150], flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", code, str(writer.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as viewer:
        assert viewer.stdout is not None
        assert float(viewer.stdout.readline()) == -0.3
        path = writer.close("COMPLETE")
        viewer.communicate(timeout=20)
    verify_digest(path)


def test_samples_appended_while_closing_are_stored_or_refused_never_lost(
    archive_writer: Writers, archive_samples: Samples
) -> None:
    writer = archive_writer()
    stored = 0

    def feed() -> None:
        nonlocal stored
        with contextlib.suppress(ArchiveError):  # the archive is closed
            while True:
                writer.append("daq", *archive_samples(stored, 10))
                stored += 10

    feeder = threading.Thread(target=feed)
    feeder.start()
    while stored < 200:
        time.sleep(0.001)
    path = writer.close("COMPLETE")
    feeder.join(20)
    assert not feeder.is_alive()
    with Run.open(path) as run:
        assert len(run.channel("gauge_0").values) == stored


def test_an_unwritable_folder_is_an_archive_error(
    tmp_path: Path, archive_provenance: Callable[..., Provenance], archive_groups: tuple[GroupSpec, ...]
) -> None:
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ArchiveError, match="cannot create an archive"):
        RunWriter.create(tmp_path / "file", "x", archive_provenance(), archive_groups)
