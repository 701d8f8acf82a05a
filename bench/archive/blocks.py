"""Samples on their way to disk: checked copies, gathered until they fill whole chunks."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import h5py
import numpy as np
from h5py import h5s
from numpy.typing import ArrayLike, NDArray

from bench.archive.schema import GroupSpec
from bench.errors import ArchiveError


@dataclass(frozen=True)
class Samples:
    group: str
    time_s: NDArray[np.float64]
    data: dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Row:
    table: str
    index: int
    values: tuple[object, ...]


class Pending:
    """Samples of one group that do not fill a chunk yet."""

    def __init__(self, spec: GroupSpec, group: h5py.Group) -> None:
        self.spec = spec
        self.datasets = {"time": group["time"], **{d.name: group[d.name] for d in spec.datasets}}
        self.parts: dict[str, list[NDArray[Any]]] = {name: [] for name in self.datasets}
        self.waiting = 0
        self.committed = 0

    def add(self, samples: Samples) -> None:
        self.parts["time"].append(samples.time_s)
        for name, values in samples.data.items():
            self.parts[name].append(values)
        self.waiting += len(samples.time_s)

    def write(self, *, tail: bool = False) -> bool:
        """Write and flush all whole chunks, with ``tail`` the rest as well; return whether anything was written."""
        count = self.waiting if tail else self.waiting // self.spec.block * self.spec.block
        if not count:
            return False
        end = self.committed + count
        for name, dataset in self.datasets.items():
            parts = self.parts[name]
            values = parts[0] if len(parts) == 1 else np.concatenate(parts)
            _extend(dataset, self.committed, values[:count])
            self.parts[name] = [values[count:]] if count < self.waiting else []
        for dataset in self.datasets.values():
            dataset.flush()
        self.waiting -= count
        self.committed = end
        return True


def _extend(dataset: h5py.Dataset, first: int, values: NDArray[Any]) -> None:
    """Append ``values`` (n, …) as rows ``first`` and on.

    h5py's own slicing runs 0.5 ms of Python per block, during which no other thread of the process moves.
    """
    dataset.id.set_extent((first + len(values), *values.shape[1:]))
    memory = h5s.create_simple(values.shape)
    stored = dataset.id.get_space()
    stored.select_hyperslab((first, *(0,) * (values.ndim - 1)), values.shape)
    dataset.id.write(memory, stored, values)


def checked(values: ArrayLike, dtype: str, width: int, length: int, where: str) -> NDArray[Any]:
    """Return a copy of ``values`` as (length, width) of ``dtype``; refuse other shapes and lossy kinds."""
    given = np.asarray(values)
    if given.ndim == 1 and width == 1:
        given = given[:, np.newaxis]
    if given.shape != (length, width):
        raise ArchiveError(
            f"values of shape {given.shape} for {length} times and {width} channels",
            where=where,
            remedy=f"Pass an array of shape ({length}, {width})",
        )
    wanted = np.dtype(dtype).newbyteorder("<")
    if not np.can_cast(given.dtype, wanted, "same_kind"):
        raise ArchiveError(
            f"values of type {given.dtype} for a dataset of {wanted}", where=where, remedy="Convert them before"
        )
    return np.array(given, dtype=wanted, order="C")


def checked_times(time_s: ArrayLike, last: float, where: str) -> NDArray[np.float64]:
    """Return a copy of ``time_s`` (n,) [s]; refuse times that do not increase strictly from ``last`` on."""
    times: NDArray[np.float64] = np.array(time_s, dtype="<f8", ndmin=1)
    if times.ndim != 1:
        raise ArchiveError(f"times of shape {times.shape}", where=where, remedy="Pass one time per sample, shape (n,)")
    if len(times) and not (times[0] > last and (times[1:] > times[:-1]).all() and math.isfinite(times[-1])):
        raise ArchiveError(
            f"time does not increase ({last:.9g}, then {times[0]:.9g} … {times[-1]:.9g} s)",
            where=where,
            remedy="Append blocks in order, each sample once; t = sample / rate on a hardware clock",
        )
    return times
