"""Record a run: blocks of any size in, whole chunks on disk, from a thread of its own.

>>> with RunWriter.create(results, "indentation", provenance, groups) as writer:    # doctest: +SKIP
...     writer.append("daq", {"raw": volts}, time_s)
...     path = writer.close("COMPLETE")

The acquisition calls :meth:`RunWriter.append`, which copies and queues; the writer thread compresses, writes and
flushes. What was flushed survives a kill of the process, what was synced (about once a second) a loss of power.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np
from numpy.typing import ArrayLike

from bench.archive.blocks import Pending, Row, Samples, checked, checked_times
from bench.archive.digest import reserve_manifest, seal
from bench.archive.files import hold, rename_exclusively, reserve
from bench.archive.layout import lay_out
from bench.archive.schema import (
    ANCHOR_DTYPE,
    EVENT_DTYPE,
    LIBVER,
    PARTIAL_SUFFIX,
    PHASE_DTYPE,
    RUNNING,
    SEALED_STATUSES,
    SUFFIX,
    GroupSpec,
    Provenance,
    check_groups,
    fixed,
)
from bench.errors import ArchiveError

_log = logging.getLogger(__name__)
_SYNC_S = 1.0
_CLOSE_DEADLINE_S = 120.0
_SIMULATED_WAIT_S = 60.0
_STOP = object()
_CLOSING = "CLOSING"
_OPEN = (RUNNING, _CLOSING)


class RunWriter:
    """Writes one archive. Make it with :meth:`create`; leave it with :meth:`close` or as a context manager."""

    def __init__(
        self,
        partial: Path,
        file: h5py.File,
        groups: Sequence[GroupSpec],
        queue_length: int,
        queue_wait_s: float,
        on_commit: Callable[[str, int], None] | None,
    ) -> None:
        self.path = partial
        self.status = RUNNING
        self._file = file
        self._held = hold(partial)
        self._specs = {group.name: group for group in groups}
        self._pending = {g.name: Pending(g, file["entry"][g.name]) for g in groups}
        self._tables = {name: file["entry"][name] for name in ("phases", "events", "anchors")}
        self._rows = {"phases": 0, "events": 0}
        self._capacity = {name: len(table) for name, table in self._tables.items()}
        self._last_time = dict.fromkeys(self._specs, float("-inf"))
        self._queue: queue.Queue[Any] = queue.Queue(queue_length)
        self._queue_wait_s = queue_wait_s
        self._on_commit = on_commit
        self._lock = threading.Lock()
        self._failure: BaseException | None = None
        self._cpu_s = 0.0
        self._thread = threading.Thread(target=self._run, name="archive-writer", daemon=True)
        self._thread.start()

    @classmethod
    def create(
        cls,
        results_dir: Path | str,
        name: str,
        provenance: Provenance,
        groups: Sequence[GroupSpec],
        *,
        phases_capacity: int = 256,
        events_capacity: int = 256,
        queue_length: int = 256,
        queue_wait_s: float | None = None,
        on_commit: Callable[[str, int], None] | None = None,
    ) -> RunWriter:
        """Lay out ``<start>_<name>.partial.h5`` in ``results_dir`` and start the writer thread.

        Parameters
        ----------
        results_dir : Path
            Made when it is not there.
        name : str
            Name of the run; file name and title carry it.
        provenance : Provenance
        groups : sequence of GroupSpec
        phases_capacity, events_capacity : int
            Rows reserved; tables cannot grow while a run is recorded.
        queue_length : int
            Appends that may wait for the writer thread.
        queue_wait_s : float or None
            How long :meth:`append` may wait for a full queue [s]. None: not at all on a real rig, where waiting would
            overrun the acquisition; up to a minute when simulated or imported, where time stands still meanwhile.
        on_commit : callable, optional
            Called in the writer thread with (group, samples) once so many samples of the group are flushed.

        Raises
        ------
        ArchiveError, UnitError
            A name is used twice, a unit does not belong to its kind, the folder cannot be written.
        """
        check_groups(groups)
        if queue_wait_s is None:
            queue_wait_s = 0.0 if provenance.backend == "lab" else _SIMULATED_WAIT_S

        def lay_out_tree(file: h5py.File) -> None:
            lay_out(file, name, provenance, groups, phases_capacity, events_capacity)
            reserve_manifest(file, groups, list(provenance.texts))

        safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.") else "_" for c in name).strip("._") or "run"
        try:
            partial = reserve(Path(results_dir), f"{provenance.started_utc:%Y%m%dT%H%M%SZ}_{safe}")
            file = _begin(partial, lay_out_tree)
        except OSError as error:
            raise ArchiveError(
                f"cannot create an archive ({error})",
                where=str(results_dir),
                remedy="Check that the folder can be written and the disk has room",
            ) from error
        return cls(partial, file, groups, queue_length, queue_wait_s, on_commit)

    def append(self, group: str, data: Mapping[str, ArrayLike], time_s: ArrayLike) -> None:
        """Queue consecutive samples of ``group``; the arrays are copied and may be reused at once.

        Parameters
        ----------
        group : str
            Name of a GroupSpec.
        data : mapping of str to array
            Per dataset of the group an array (n, n_channels), or (n,) for a single channel, in the dataset's unit.
        time_s : array (n,)
            Times from the start [s], strictly increasing, also across calls.

        Raises
        ------
        ArchiveError
            Wrong names, shapes or times; the writer thread died; or it does not keep up and its queue is full:
            then nothing of this call is stored and the run must be aborted.
        """
        spec = self._specs.get(group)
        if spec is None:
            raise ArchiveError(
                f"no group '{group}'", where=str(self.path), remedy=f"Groups here: {', '.join(self._specs)}"
            )
        where = f"{self.path.name}/{group}"
        times = checked_times(time_s, self._last_time[group], where)
        names = [d.name for d in spec.datasets]
        if sorted(names) != sorted(data):
            raise ArchiveError(
                f"got the datasets {', '.join(data) or 'none'}",
                where=where,
                remedy=f"Append {', '.join(names)} together",
            )
        arrays = {d.name: checked(data[d.name], d.dtype, len(d.channels), len(times), where) for d in spec.datasets}
        if not len(times):
            return
        self._put(Samples(group, times, arrays))
        self._last_time[group] = float(times[-1])

    def phase(
        self,
        name: str,
        replicate: int,
        speed_mm_s: float,
        start_s: float,
        end_s: float,
        *,
        angular_speed_rad_s: float = math.nan,
    ) -> None:
        """Store a phase: times in s from the start, the commanded speed in mm/s or rad/s; the other is NaN."""
        self._row("phases", (fixed(name, 64), replicate, speed_mm_s, start_s, end_s, angular_speed_rad_s))

    def event(self, time_s: float, severity: str, code: str, message: str) -> None:
        """Store an event at ``time_s`` [s]; the message is cut at 512 bytes."""
        self._row("events", (time_s, fixed(severity, 16), fixed(code, 64), fixed(message, 512)))

    def set_anchor(self, group: str, anchor_clock_ns: int, anchor_utc_ns: int, half_width_ns: int) -> None:
        """Store where sample 0 of ``group`` lies in the clock and in UTC [ns]."""
        if group not in self._specs:
            raise ArchiveError(
                f"no group '{group}'", where=str(self.path), remedy=f"Groups here: {', '.join(self._specs)}"
            )
        index = list(self._specs).index(group)
        self._put(Row("anchors", index, (1, fixed(group, 64), anchor_clock_ns, anchor_utc_ns, half_width_ns)))

    def committed(self, group: str) -> int:
        """Return how many samples of ``group`` are flushed: what a kill at this moment would leave."""
        return self._pending[group].committed

    @property
    def cpu_s(self) -> float:
        """CPU time the writer thread has used [s]."""
        return self._cpu_s

    @property
    def final_path(self) -> Path:
        """What the archive is called once it is sealed."""
        return self.path.with_name(self.path.name.removesuffix(PARTIAL_SUFFIX).removesuffix(SUFFIX) + SUFFIX)

    def close(self, status: str, reason: str = "") -> Path:
        """Write the tail, seal the archive with ``status`` and give it its final name, which is returned.

        Parameters
        ----------
        status : str
            ``COMPLETE``, ``ABORTED`` or ``CRASHED``.
        reason : str
            Why, where the run is not complete.

        Raises
        ------
        ArchiveError
            The writer thread died or did not end in time; what it flushed is in the ``.partial.h5`` file.
        """
        if status not in SEALED_STATUSES:
            raise ArchiveError(
                f"'{status}' is not a final status", where=str(self.path), remedy=f"One of {', '.join(SEALED_STATUSES)}"
            )
        if self.status not in _OPEN:
            return self.path
        with self._lock:  # an append is either queued before the thread is told to stop, or refused
            self.status = _CLOSING
        self._stop_thread()
        self.status = status
        try:
            if self._failure is not None:
                raise self._failure
            self._file.close()
            self._held.close()
            seal(self.path, status, reason)
        except Exception as error:
            self.status = "FAILED"
            self._abandon()
            raise self._lost(error) from error
        final = self.final_path
        rename_exclusively(self.path, final)
        self.path = final
        return final

    def _abandon(self) -> None:
        """Let go of a file that could not be written on, without closing it in HDF5.

        After a failed write HDF5 cannot close the file either: it frees it half way, and the next handle on it that
        Python lets go of ends the whole process in a segmentation fault. So no handle is let go of any more; what was
        flushed is on disk, and the operating system closes the file when the process ends.
        """
        handles = [self._file, *self._tables.values()]
        handles += [dataset for pending in self._pending.values() for dataset in pending.datasets.values()]
        for handle in handles:
            handle.id.locked = True
        self._held.close()

    def __enter__(self) -> RunWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self.status not in _OPEN:
            return
        if error is None:
            self.close("COMPLETE")
            return
        reason = getattr(error, "reason", "")
        try:
            self.close("ABORTED", f"{reason}: {error}" if reason else f"{type(error).__name__}: {error}")
        except ArchiveError:  # the error under way is the news; this one must not hide it
            _log.exception("the aborted archive could not be sealed")

    def _row(self, table: str, values: tuple[object, ...]) -> None:
        with self._lock:
            index = self._rows[table]
            if index >= self._capacity[table]:
                raise ArchiveError(
                    f"the table of {table} is full ({index} rows)",
                    where=str(self.path),
                    remedy=f"Create the writer with a larger {table}_capacity",
                )
            self._rows[table] = index + 1
        self._put(Row(table, index, (1, *values)))

    def _put(self, item: object) -> None:
        with self._lock:
            if self.status != RUNNING:
                raise ArchiveError("the archive is closed", where=str(self.path), remedy="Append before close()")
            if self._failure is not None or not self._thread.is_alive():
                raise self._lost(self._failure)
            try:
                self._queue.put(item, block=self._queue_wait_s > 0, timeout=self._queue_wait_s)
            except queue.Full:
                raise ArchiveError(
                    f"the archive does not keep up: {self._queue.maxsize} blocks wait to be written",
                    where=str(self.path),
                    remedy="Abort the run; record fewer channels, a lower rate or larger blocks, or use a faster disk",
                ) from None
            if self._failure is not None:  # the thread died while this waited for room, and made it
                raise self._lost(self._failure)

    def _lost(self, error: BaseException | None) -> ArchiveError:
        return ArchiveError(
            f"the archive could not be written on ({error})",
            where=str(self.path),
            remedy=f"Abort the run; `bench recover {self.path}` brings back what was flushed",
        )

    def _stop_thread(self) -> None:
        deadline = time.monotonic() + _CLOSE_DEADLINE_S
        if self._thread.is_alive():
            try:
                self._queue.put(_STOP, timeout=_CLOSE_DEADLINE_S)
            except queue.Full:
                raise self._lost(None) from None
            self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            raise self._lost(TimeoutError(f"the writer thread did not end within {_CLOSE_DEADLINE_S:g} s"))

    def _run(self) -> None:
        """The writer thread: take what waits, write whole chunks, flush, sync about once a second."""
        try:
            descriptor = self._file.id.get_vfd_handle()
            synced, dirty, stop = time.monotonic(), False, False
            while not stop:
                for item in self._take():
                    if item is _STOP:
                        stop = True
                    elif isinstance(item, Samples):
                        self._pending[item.group].add(item)
                    else:
                        self._write_row(item)
                        dirty = True
                for name, pending in self._pending.items():
                    if pending.write(tail=stop):
                        dirty = True
                        if self._on_commit is not None:
                            self._on_commit(name, pending.committed)
                if dirty and time.monotonic() - synced >= _SYNC_S:
                    os.fsync(descriptor)
                    synced, dirty = time.monotonic(), False
                self._cpu_s = time.thread_time()
        except BaseException as error:  # any failure here must reach the acquisition, whatever it is
            self._failure = error
            with contextlib.suppress(queue.Empty):  # nobody takes these any more: who waits for room should hear why
                while True:
                    self._queue.get_nowait()

    def _take(self) -> list[Any]:
        """Return all items that wait, none when none came until the next sync falls due."""
        try:
            items = [self._queue.get(timeout=_SYNC_S)]
        except queue.Empty:
            return []
        while len(items) < self._queue.maxsize:
            try:
                items.append(self._queue.get_nowait())
            except queue.Empty:
                break
        return items

    def _write_row(self, row: Row) -> None:
        table = self._tables[row.table]
        dtype = {"phases": PHASE_DTYPE, "events": EVENT_DTYPE, "anchors": ANCHOR_DTYPE}[row.table]
        table[row.index] = np.array(row.values, dtype=dtype)
        table.flush()


def _begin(partial: Path, lay_out_tree: Callable[[h5py.File], None]) -> h5py.File:
    """Return the file with its whole tree, in SWMR mode; leave no file behind when that fails."""
    file = h5py.File(partial, "w", libver=LIBVER)
    try:
        lay_out_tree(file)
        file.flush()
        file.swmr_mode = True
    except BaseException:
        file.close()
        partial.unlink()
        raise
    return file
