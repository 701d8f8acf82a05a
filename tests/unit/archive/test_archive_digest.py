"""The digest holds through a repack and breaks on any change of content."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest

from bench.archive import DatasetSpec, GroupSpec, Provenance, Run, RunWriter, add_verdict, verify_digest
from bench.archive.digest import MANIFEST
from bench.archive.layout import view_source
from bench.errors import ArchiveError

Change = Callable[[h5py.File], None]


def test_the_digest_is_stored_and_verifies(sealed_run: Path) -> None:
    with Run.open(sealed_run) as run:
        assert verify_digest(sealed_run) == run.digest
        assert len(run.digest) == 64


def _one_ulp(file: h5py.File) -> None:
    file["entry/daq/raw"][7, 1] = np.nextafter(file["entry/daq/raw"][7, 1], 1.0)


def _units(file: h5py.File) -> None:
    file["entry/daq/position"].attrs["units"] = "m"


def _status(file: h5py.File) -> None:
    file.attrs.modify("status", np.bytes_("ABORTED"))


def _reason(file: h5py.File) -> None:
    file["entry/reason"][()] = b"nothing to see"


def _operator(file: h5py.File) -> None:
    file["entry/provenance/operator"][()] = "Eve"


def _shorter(file: h5py.File) -> None:
    file["entry/daq/raw"].resize(249, axis=0)


def _added(file: h5py.File) -> None:
    file["entry/daq/extra"] = 1.0


def _removed(file: h5py.File) -> None:
    del file["entry/events"]


def _swapped_view(file: h5py.File) -> None:
    """Let gauge_1 show the other column, through a mapping of the same form."""
    group = file["entry/daq"]
    attributes = dict(group["gauge_1"].attrs)
    del group["gauge_1"]
    group.move("gauge_0", "gauge_1")
    for name in ("units", "kind", "long_name"):
        group["gauge_1"].attrs[name] = attributes[name]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (_one_ulp, "/entry/daq/gauge_1, /entry/daq/raw"),
        (_units, "/entry/daq/position"),
        (_status, r"/\."),
        (_reason, "/entry/reason"),
        (_operator, "/entry/provenance/operator, /entry/user/name"),
        (_shorter, "/entry/daq/raw"),
        (_added, "/entry/daq/extra"),
        (_removed, "/entry/events"),
        (_swapped_view, "/entry/daq/gauge_1"),
    ],
)
def test_a_change_is_detected_and_named(sealed_run: Path, change: Change, named: str) -> None:
    with h5py.File(sealed_run, "r+", libver=("v110", "v110")) as file:
        change(file)
    with pytest.raises(ArchiveError, match=rf"changed after sealing: .*{named}"):
        verify_digest(sealed_run)


def test_a_change_of_the_manifest_or_digest_is_detected(sealed_run: Path) -> None:
    with h5py.File(sealed_run, "r+") as file:
        file[MANIFEST][()] = bytes(file[MANIFEST][()]).replace(b"voltage", b"voltagE")
        file.attrs.modify("digest", np.bytes_("0" * 64))
    with pytest.raises(ArchiveError, match="the stored manifest or digest itself"):
        verify_digest(sealed_run)


def test_flipped_bits_never_pass_with_other_content(sealed_run: Path, tmp_path: Path) -> None:
    """Wherever a bit flips, either the file is refused or its content is what was sealed."""
    whole = sealed_run.read_bytes()
    with Run.open(sealed_run) as run:
        truth = {name: run.channel(name).values for name in run.channels()}
    dice = random.Random(5)
    refused = 0
    for _ in range(80):
        content = bytearray(whole)
        place = dice.randrange(len(whole))
        content[place] ^= 1 << dice.randrange(8)
        path = tmp_path / "flipped.h5"
        path.write_bytes(content)
        try:
            verify_digest(path)
            with Run.open(path) as run:
                assert all(np.array_equal(run.channel(name).values, values) for name, values in truth.items())
        except ArchiveError:
            refused += 1
    assert refused > 0


def test_the_digest_survives_a_repack_without_filters_views_or_chunks(sealed_run: Path, tmp_path: Path) -> None:
    repacked = tmp_path / "repacked.h5"
    with h5py.File(sealed_run) as source, h5py.File(repacked, "w") as target:
        target.attrs.update(dict(source.attrs))
        target.attrs.create("status", source.attrs["status"], dtype="S16")

        def copy(name: str, item: h5py.Group | h5py.Dataset) -> None:
            if isinstance(item, h5py.Group):
                made = target.create_group(name)
            elif view_source(item) is not None:
                made = target.create_dataset(name, data=item[()], dtype=item.dtype)
            else:
                made = target.create_dataset(name, data=item[()], dtype=item.dtype)
            made.attrs.update({k: v for k, v in item.attrs.items() if not k.endswith("_LIST")})

        source.visititems(copy)
        target["entry/user/name"] = target["entry/provenance/operator"]
        target["entry/sample/name"] = target["entry/provenance/specimen"]
    assert verify_digest(repacked) == verify_digest(sealed_run)


def test_sealing_makes_room_for_a_manifest_larger_than_foreseen(
    tmp_path: Path, archive_provenance: Callable[..., Provenance]
) -> None:
    long_name = "é" * 8000
    group = GroupSpec("g", (DatasetSpec("raw", "V", "voltage", ("a", "b"), long_name=long_name),))
    with RunWriter.create(tmp_path, "long", archive_provenance(), [group]) as writer:
        writer.append("g", {"raw": [[1.0, 2.0]]}, [0.0])
    with h5py.File(writer.path) as file:
        assert len(file[MANIFEST][()]) > 40_000
    verify_digest(writer.path)


def test_a_verdict_on_a_changed_archive_is_refused(sealed_run: Path) -> None:
    copy = sealed_run.with_name("copy.h5")
    shutil.copy(sealed_run, copy)
    with h5py.File(copy, "r+") as file:
        _one_ulp(file)
    with pytest.raises(ArchiveError, match="changed after sealing"):
        add_verdict(copy, {"outcome": "PASS"})
