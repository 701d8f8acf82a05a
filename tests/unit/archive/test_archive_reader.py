"""Reading by name, unit and kind; files that are no archive of ours say so and what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bench.archive import Event, Phase, Run, RunWriter
from bench.errors import ArchiveError, UnitError


def test_a_channel_comes_with_its_time_unit_kind_and_group(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        assert run.channels() == ["encoder_position", "gauge_0", "gauge_1", "stage_position"]
        channel = run.channel("encoder_position")
        assert (channel.unit, channel.kind, channel.group, channel.rate_hz) == ("mm", "length", "daq", 1000.0)
        assert channel.values[4] == 2.0
        assert channel.time_s[4] == 0.004
        assert run.channel("stage_position").rate_hz is None


def test_get_converts_to_the_unit_asked_for(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        channel = run.get("encoder_position", unit="m", kind="length")
        assert channel.unit == "m"
        assert channel.values[4] == 0.002


def test_values_are_read_only_so_no_reader_can_change_what_another_sees(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        for array in (
            run.channel("gauge_0").values,
            run.channel("gauge_0").time_s,
            run.get("gauge_0", unit="mV").values,
        ):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 1.0


def test_phases_events_and_anchors_come_back(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        assert run.phases == (Phase("press", 1, 2.0, 0.05, 0.2),)
        assert run.events == (Event(0.1, "info", "contact", "touched the tissue at 0.1 s"),)
        assert run.anchors["daq"].clock_ns == 123
        assert "stage" not in run.anchors
        assert (run.name, run.status, run.reason) == ("press", "COMPLETE", "")


def test_a_missing_channel_names_the_near_ones(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        with pytest.raises(ArchiveError, match=r"no channel 'encoder_positon'. Did you mean encoder_position"):
            run.channel("encoder_positon")
        with pytest.raises(ArchiveError, match="Channels here: encoder_position, gauge_0"):
            run.channel("qqq")


def test_a_wrong_kind_is_refused(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run, pytest.raises(ArchiveError, match=r"of kind length \[mm\], not force"):
        run.get("encoder_position", kind="force")


@pytest.mark.parametrize("unit", ["N", "furlong"])
def test_a_unit_of_another_kind_is_refused_with_its_place(sealed_run: Path, unit: str) -> None:
    with Run.open(sealed_run) as run, pytest.raises(UnitError, match=rf"encoder_position: '{unit}' is"):
        run.get("encoder_position", unit=unit)


def test_datasets_of_different_length_are_cut_to_what_all_have(sealed_run: Path) -> None:
    with h5py.File(sealed_run, "r+") as file:
        file["entry/daq/position"].resize(200, axis=0)
    with Run.open(sealed_run) as run:
        assert len(run.channel("gauge_0").values) == len(run.channel("gauge_0").time_s) == 200
        assert len(run.channel("stage_position").values) == 3


def test_a_missing_file_names_what_is_near(sealed_run: Path) -> None:
    with pytest.raises(ArchiveError, match=rf"no such file. Near it: {sealed_run.name}"):
        Run.open(sealed_run.with_name("20310506T070809Z_pres.h5"))


def test_a_foreign_hdf5_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "foreign.h5"
    with h5py.File(path, "w") as file:
        file["data"] = [1, 2, 3]
    with pytest.raises(ArchiveError, match=r"not an archive of the bench: no attribute 'schema'.*bench import"):
        Run.open(path)
    with h5py.File(path, "r+") as file:
        file.attrs["schema"] = "someone.else/4"
    with pytest.raises(ArchiveError, match=r"schema 'someone\.else/4' at its root"):
        Run.open(path)


@pytest.mark.parametrize(("content", "message"), [(b"", "the file is empty"), (b"time,force\n", "not an HDF5 file")])
def test_a_file_that_is_no_hdf5_at_all(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "data.h5"
    path.write_bytes(content)
    with pytest.raises(ArchiveError, match=rf"{message}.*bench import"):
        Run.open(path)


def test_another_schema_version_is_refused(sealed_run: Path) -> None:
    with h5py.File(sealed_run, "r+") as file:
        file.attrs["schema"] = "bench.run/2"
    with pytest.raises(ArchiveError, match=r"schema 'bench.run/2' and this bench reads 'bench.run/1'.*'creator'"):
        Run.open(sealed_run)


def test_a_truncated_file_says_how_much_is_missing(sealed_run: Path) -> None:
    whole = sealed_run.read_bytes()
    sealed_run.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ArchiveError, match=rf"truncated: {len(whole) // 2} bytes of {len(whole)}.*another copy"):
        Run.open(sealed_run)


def test_a_file_that_is_being_recorded_points_to_recover(archive_writer: Callable[..., RunWriter]) -> None:
    writer = archive_writer()
    with pytest.raises(ArchiveError, match=r"not sealed: it is being recorded.*`bench recover .*\.partial\.h5`"):
        Run.open(writer.path)
    writer.close("COMPLETE")


def test_damaged_values_are_reported_with_their_dataset(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        place = file["entry/daq/raw"].id.get_chunk_info(0)
    content = bytearray(sealed_run.read_bytes())
    content[place.byte_offset + place.size // 2] ^= 1
    sealed_run.write_bytes(content)
    with Run.open(sealed_run) as run:
        with pytest.raises(ArchiveError, match=r"/entry/daq/raw: the content cannot be read.*damaged"):
            run.channel("gauge_0")
        assert np.isfinite(run.channel("encoder_position").values).all()


def test_a_text_that_does_not_match_its_hash_is_refused(sealed_run: Path) -> None:
    with h5py.File(sealed_run, "r+") as file:
        file["entry/texts/text_000"][()] = "force_limit = 'none'"
    with (
        Run.open(sealed_run) as run,
        pytest.raises(ArchiveError, match=r"'rigs/indenter\.toml' does not have the hash"),
    ):
        _ = run.texts


def test_reading_from_a_closed_run_says_so(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        kept = run.channel("gauge_0")
    assert len(kept.values) == 250
    with pytest.raises(ArchiveError, match="the run is closed"):
        run.channel("encoder_position")
    with pytest.raises(ArchiveError, match="the run is closed"):
        _ = run.provenance


def test_a_slice_holds_the_samples_of_its_time_and_nothing_else(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        for name in ("encoder_position", "stage_position"):
            whole = run.channel(name)
            part = run.channel_slice(name, whole.time_s[1], whole.time_s[-1])
            assert np.array_equal(part.values, whole.values[1:-1])
            assert np.array_equal(part.time_s, whole.time_s[1:-1])
            assert (part.unit, part.kind, part.rate_hz) == (whole.unit, whole.kind, whole.rate_hz)
        assert run.channel_slice("encoder_position", 0.0, 0.003, unit="m").unit == "m"
        assert run.channel_slice("encoder_position", 1e6, 2e6).values.size == 0
        with pytest.raises(ArchiveError, match="not force"):
            run.channel_slice("encoder_position", 0.0, 1.0, kind="force")
        with pytest.raises(ArchiveError, match="Did you mean encoder_position"):
            run.channel_slice("encoder_positon", 0.0, 1.0)
