"""Lay out a new archive: every group, dataset, attribute and scale that will ever be in it."""

from __future__ import annotations

from collections.abc import Sequence

import h5py
import numpy as np
from h5py import h5d, h5p, h5s

import bench
from bench.archive.provenance import write_provenance
from bench.archive.schema import (
    ANCHOR_DTYPE,
    DIGEST_LENGTH,
    EVENT_DTYPE,
    ORIGINS,
    PHASE_DTYPE,
    REASON_LENGTH,
    RUNNING,
    SCHEMA,
    STATUS_LENGTH,
    TIME_LENGTH,
    DatasetSpec,
    GroupSpec,
    Provenance,
    iso_utc,
    utc_ns,
)

FILTERS = {"shuffle": True, "compression": "gzip", "compression_opts": 1, "fletcher32": True}
_STRINGS = h5py.string_dtype()


def lay_out(
    file: h5py.File, name: str, provenance: Provenance, groups: Sequence[GroupSpec], phases: int, events: int
) -> None:
    """Create the whole tree in the empty ``file``; nothing may be created once SWMR has started.

    What changes when the run ends (status, digest, end, reason) and the tables have fixed sizes, so that they are
    overwritten in place and no metadata has to grow.
    """
    origin = ORIGINS[provenance.backend]
    root = file.attrs  # at most eight attributes: more would move to dense storage, which is not overwritten in place
    root["NX_class"] = "NXroot"
    root["default"] = "entry"
    root["schema"] = SCHEMA
    root["creator"] = f"forcebench {bench.__version__}"
    root["simulated"] = np.uint8(provenance.simulated)
    root["origin"] = origin
    root.create("status", RUNNING.encode(), dtype=f"S{STATUS_LENGTH}")
    root.create("digest", b"", dtype=f"S{DIGEST_LENGTH}")

    entry = file.create_group("entry")
    entry.attrs["NX_class"] = "NXentry"
    entry.attrs["default"] = groups[0].name
    entry["title"] = f"SIMULATED {name}" if provenance.simulated else name
    entry["run_name"] = name
    entry["start_time"] = iso_utc(provenance.started_utc)
    entry["start_time_ns"] = np.int64(utc_ns(provenance.started_utc))
    entry["start_time_ns"].attrs["units"] = "ns"
    entry["start_time_ns"].attrs["long_name"] = "UTC of time zero since 1970-01-01 [ns]"
    entry.create_dataset("end_time", data=b"", dtype=f"S{TIME_LENGTH}")
    entry.create_dataset("reason", data=b"", dtype=f"S{REASON_LENGTH}")
    write_provenance(entry, provenance)
    for group in groups:
        _lay_out_group(entry, group)
    for table, dtype, rows in (
        ("phases", PHASE_DTYPE, phases),
        ("events", EVENT_DTYPE, events),
        ("anchors", ANCHOR_DTYPE, len(groups)),
    ):
        entry.create_dataset(table, data=np.zeros(rows, dtype))


def _lay_out_group(entry: h5py.Group, spec: GroupSpec) -> None:
    group = entry.create_group(spec.name)
    group.attrs["NX_class"] = "NXdata"
    channels = [name for dataset in spec.datasets for name in dataset.channels]
    group.attrs["signal"] = channels[0]
    group.attrs["axes"] = np.array(["time"], dtype=_STRINGS)
    if channels[1:]:
        group.attrs["auxiliary_signals"] = np.array(channels[1:], dtype=_STRINGS)
    time = group.create_dataset("time", (0,), "<f8", maxshape=(None,), chunks=(spec.block,), **FILTERS)
    time.make_scale("time")
    time.attrs["units"] = "s"
    time.attrs["kind"] = "time"
    time.attrs["long_name"] = "time from the start [s]"
    if spec.rate_hz is not None:
        time.attrs["rate_hz"] = float(spec.rate_hz)
    for dataset in spec.datasets:
        _lay_out_dataset(group, dataset, spec.block, time)


def _lay_out_dataset(group: h5py.Group, spec: DatasetSpec, block: int, time: h5py.Dataset) -> None:
    width = len(spec.channels)
    dtype = np.dtype(spec.dtype).newbyteorder("<")
    stored = group.create_dataset(
        spec.name, (0, width), dtype, maxshape=(None, width), chunks=(block, width), **FILTERS
    )
    label = group.create_dataset(f"{spec.name}_channel", data=np.array([c.encode() for c in spec.channels]))
    label.make_scale(f"{spec.name}_channel")
    label.attrs["long_name"] = f"channels of {spec.name}"
    stored.dims[0].attach_scale(time)
    stored.dims[1].attach_scale(label)
    _describe(stored, spec, spec.long_name or spec.name)
    for column, name in enumerate(spec.channels):
        _create_view(group, name, stored, column)
        view = group[name]
        view.dims[0].attach_scale(time)
        _describe(view, spec, name)


def _describe(dataset: h5py.Dataset, spec: DatasetSpec, words: str) -> None:
    dataset.attrs["units"] = spec.unit
    dataset.attrs["kind"] = spec.kind
    dataset.attrs["long_name"] = f"{words} [{spec.unit}]"


def _create_view(group: h5py.Group, name: str, source: h5py.Dataset, column: int) -> None:
    """Create a 1-D virtual dataset that shows one column of ``source`` and grows with it.

    The low-level calls are needed: h5py's VirtualLayout clips an unlimited selection to the present, empty shape.
    """
    unlimited = h5s.UNLIMITED
    width = source.shape[1]
    view_space = h5s.create_simple((0,), (unlimited,))
    view_space.select_hyperslab((0,), (unlimited,), (1,), (1,))
    source_space = h5s.create_simple((0, width), (unlimited, width))
    source_space.select_hyperslab((0, column), (unlimited, 1), (1, 1), (1, 1))
    properties = h5p.create(h5p.DATASET_CREATE)
    properties.set_virtual(view_space, b".", source.name.encode(), source_space)
    h5d.create(group.id, name.encode(), source.id.get_type(), h5s.create_simple((0,), (unlimited,)), properties)


def view_source(dataset: h5py.Dataset) -> tuple[str, int] | None:
    """Return the 2-D dataset's name and the column a view shows, read from its mapping; None if it is no view."""
    properties = dataset.id.get_create_plist()
    if properties.get_layout() != h5d.VIRTUAL:
        return None
    start, _, _, _ = properties.get_virtual_srcspace(0).get_regular_hyperslab()
    return properties.get_virtual_dsetname(0), int(start[1])
