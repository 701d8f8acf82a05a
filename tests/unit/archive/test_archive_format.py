"""The file as somebody with plain h5py finds it: names, units, axes, stamps, nothing of ours needed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter
from bench.archive.provenance import git_state, plain, versions
from bench.instruments.protocols import Identity
from bench.units import Value


def test_the_tree_is_nexus_with_a_default_plot(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        assert (file.attrs["NX_class"], file.attrs["default"]) == ("NXroot", "entry")
        assert (file["entry"].attrs["NX_class"], file["entry"].attrs["default"]) == ("NXentry", "daq")
        group = file["entry/daq"]
        assert (group.attrs["NX_class"], group.attrs["signal"]) == ("NXdata", "gauge_0")
        assert list(group.attrs["axes"]) == ["time"]
        assert list(group.attrs["auxiliary_signals"]) == ["gauge_1", "encoder_position"]


def test_every_number_carries_unit_kind_and_a_long_name_with_the_unit(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        for name, unit, kind in (
            ("time", "s", "time"),
            ("raw", "V", "voltage"),
            ("gauge_1", "V", "voltage"),
            ("encoder_position", "mm", "length"),
        ):
            attributes = file["entry/daq"][name].attrs
            assert (attributes["units"], attributes["kind"]) == (unit, kind)
            assert attributes["long_name"].endswith(f"[{unit}]")
        assert file["entry/daq/time"].attrs["rate_hz"] == 1000.0
        assert "rate_hz" not in file["entry/stage/time"].attrs


def test_time_is_a_dimension_scale_of_data_and_views(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        group = file["entry/daq"]
        assert group["time"].is_scale
        for name in ("raw", "position", "gauge_0", "encoder_position"):
            assert group[name].dims[0][0] == group["time"]
        assert group["raw"].dims[1][0].asstr()[()].tolist() == ["gauge_0", "gauge_1"]


def test_views_show_one_column_each_without_a_second_copy(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        group = file["entry/daq"]
        assert group["gauge_1"].is_virtual
        assert group["gauge_1"].shape == (250,)
        assert np.array_equal(group["gauge_1"][()], group["raw"][:, 1])


def test_only_built_in_filters_and_whole_chunks(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        raw = file["entry/daq/raw"]
        assert (raw.compression, raw.compression_opts, raw.shuffle, raw.fletcher32) == ("gzip", 1, True, True)
        assert raw.chunks == (100, 2)
        assert raw.dtype == np.dtype("<f8")
        assert file.libver == ("v110", "v110") or sealed_run.read_bytes()[8] == 3


def test_raw_counts_keep_their_type(tmp_path: Path, archive_provenance: Callable[..., Provenance]) -> None:
    group = GroupSpec("daq", (DatasetSpec("raw", "count", "count", ("counts",), dtype="i2"),))
    with RunWriter.create(tmp_path, "counts", archive_provenance(), [group]) as writer:
        with pytest.raises(Exception, match="type float64 for a dataset of int16"):
            writer.append("daq", {"raw": [1.5]}, [0.0])
        writer.append("daq", {"raw": np.array([-32768, 32767], "i2")}, [0.0, 1.0])
    with h5py.File(writer.path) as file:
        assert file["entry/daq/raw"].dtype == np.dtype("<i2")
    with Run.open(writer.path) as run:
        assert run.channel("counts").values.tolist() == [-32768.0, 32767.0]


def test_a_simulated_run_is_stamped_at_the_root_and_in_the_title(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        assert file.attrs["simulated"] == 1
        assert file.attrs["origin"] == "SIMULATED"
        assert file["entry/title"].asstr()[()] == "SIMULATED press"
    with Run.open(sealed_run) as run:
        assert run.simulated
        assert run.backend == "mock"


def test_a_lab_run_is_stamped_as_measured(
    archive_writer: Callable[..., RunWriter], archive_provenance: Callable[..., Provenance]
) -> None:
    path = archive_writer(provenance=archive_provenance(backend="lab", simulated=False, seed=None)).close("COMPLETE")
    with Run.open(path) as run:
        assert not run.simulated
        assert run.attributes["origin"] == "MEASURED"
        assert run.provenance["seed"] is None


def test_the_start_is_iso_utc_and_exact_nanoseconds(sealed_run: Path) -> None:
    with h5py.File(sealed_run) as file:
        assert file["entry/start_time"].asstr()[()] == "2031-05-06T07:08:09.250000Z"
        assert file["entry/start_time_ns"][()] == np.datetime64("2031-05-06T07:08:09.250", "ns").astype(np.int64)
        assert file["entry/end_time"][()].endswith(b"Z")


def test_provenance_says_who_with_what_and_by_which_code(
    archive_writer: Callable[..., RunWriter], archive_provenance: Callable[..., Provenance]
) -> None:
    stage = Identity("stage", "X-LSM050A", "12345", "7.31")
    calibrations = ({"instrument": "daq", "expanded_uncertainty": Value.parse("2 mN")},)
    provenance = archive_provenance(instruments=(stage,), calibrations=calibrations, details={"tare": np.array([0.5])})
    with Run.open(archive_writer(provenance=provenance).close("COMPLETE")) as run:
        record = run.provenance
        assert (record["operator"], record["specimen"], record["seed"]) == ("Ada", "phantom_a", 7)
        assert record["instruments"][0]["serial_number"] == "12345"
        assert record["calibrations"][0]["expanded_uncertainty"] == str(Value.parse("2 mN"))
        assert record["details"] == {"tare": [0.5]}
        assert record["versions"]["h5py"] == h5py.__version__
        assert record["git"] == git_state()
        assert run.texts == {"rigs/indenter.toml": 'name = "indenter"  # é\n'}


def test_versions_name_the_bench_and_git_state_is_whole_or_absent() -> None:
    assert {"forcebench", "numpy", "hdf5"} <= versions().keys()
    state = git_state()
    assert not state or (len(state["commit"]) == 40 and isinstance(state["dirty"], bool))


def test_a_number_json_cannot_hold_becomes_a_text() -> None:
    assert json.dumps(plain({"a": float("nan"), "b": (1, float("-inf"))})) == '{"a": "nan", "b": [1, "-inf"]}'


def test_the_format_pages_examples_run_on_an_archive(
    sealed_run: Path, repository: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Among them a second implementation of the digest, which must agree with ours."""
    page = (repository / "docs" / "file-format.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    for example in examples:
        exec(compile(example, "docs/file-format.md", "exec"), {"path": sealed_run})
    assert "encoder_position (250,) mm length" in capsys.readouterr().out
    with h5py.File(sealed_run, "r+") as file:
        file["entry/daq/raw"][3, 0] += 1e-12
    with pytest.raises(AssertionError, match="not what was sealed"):
        exec(compile(examples[1], "docs/file-format.md", "exec"), {"path": sealed_run})
