"""Who drives a device: one file for every device, by the serial number read back from it.

::

    book = LeaseBook()
    lease = book.acquire("daq-01F2A3B4", rig="indenter")     # LeaseError names who holds it
    if lease.left_by is not None:                            # its holder is gone: nobody has looked at the rig since
        ...                                                  # look at it
        lease.confirm()                                      # seen safe: taken over, and in the ledger
    ...
    lease.release()

A lease is stale when its holder's process has ended (or its number belongs to another process by now), or when the
holder has given no sign of life for longer than it promised. It is then held for whoever looks at the rig; until that
one has :meth:`Lease.confirm`-ed that it is safe, it goes back to being stale if anything happens.
"""

from __future__ import annotations

import contextlib
import secrets
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.errors import LeaseError
from bench.safety.ledger import Ledger, user
from bench.safety.process_identity import ProcessIdentity, start_of, this_host, this_process
from bench.safety.state_dir import (
    file_name,
    locked,
    name_of,
    read_record,
    remove_locked,
    state_dir,
    subfolder,
    write_record,
)

#: A holder that has given no sign of life for this long has lost its lease [s of wall time].
EXPIRY_S = 30.0
#: How often a holder gives one [s].
RENEWAL_S = 5.0
#: Between a device's key and the simulated lab it is in; see :func:`device_key`.
OF_TWIN = "@twin-"


def device_key(kind: str, serial_number: str, twin: ProcessIdentity | None = None) -> str:
    """Return the key of a device's lease.

    Simulated labs have the same serial numbers, all of them; each is another rig, told by its process.

    Parameters
    ----------
    kind : str
        ``daq``, ``stage``, ``drive``.
    serial_number : str
        As read back from the device.
    twin : ProcessIdentity, optional
        Of the simulated lab.
    """
    return f"{kind}-{serial_number}" + twin_suffix(twin)


def twin_suffix(twin: ProcessIdentity | None) -> str:
    """Return what tells one simulated lab's names from another's, ``@twin-PID.START``; nothing for a real one."""
    return "" if twin is None else f"{OF_TWIN}{twin.pid}.{twin.started.replace(' ', '_')}"


def twin_has_ended(key: str) -> bool:
    """Whether ``key`` belongs to a simulated lab whose process has ended."""
    _, of_twin, process = key.rpartition(OF_TWIN)
    pid, _, started = process.partition(".")
    if not of_twin:
        return False
    there = start_of(int(pid)) if pid.isdecimal() else None
    return there is None or (there != "" and there.replace(" ", "_") != started)


@dataclass(frozen=True)
class Holder:
    """Who holds a lease, as its file says."""

    key: str
    rig: str
    owner: str
    process: ProcessIdentity
    since_utc: str
    expiry_s: float
    record: dict[str, Any]

    @classmethod
    def of(cls, record: dict[str, Any]) -> Holder:
        """Return what ``record`` says. Raises :class:`KeyError` or :class:`TypeError` when it is none."""
        process = ProcessIdentity(**record["process"])
        return cls(
            record["key"], record["rig"], record["owner"], process, record["since"], float(record["expiry_s"]), record
        )

    @property
    def place(self) -> str:
        """The rig by the name quarantines have for it: a simulated one with its lab."""
        _, of_twin, process = self.key.rpartition(OF_TWIN)
        return self.rig + (of_twin + process if of_twin else "")

    @property
    def silent_s(self) -> float:
        """For how long it has given no sign of life [s]."""
        if self.process.host == this_host():
            monotonic = (time.monotonic_ns() - int(self.record["heartbeat_ns"])) * 1e-9
            if monotonic >= 0.0:  # else the machine was started anew since
                return monotonic
        return max(0.0, time.time() - datetime.fromisoformat(self.record["heartbeat"]).timestamp())

    def stale(self) -> str:
        """Return why its lease counts no more, or an empty string."""
        if self.process.alive() is False:
            return "its process has ended"
        if not self.silent_s <= self.expiry_s:
            return f"it has given no sign of life for {self.silent_s:.0f} s"
        return ""

    def __str__(self) -> str:
        return f"{self.owner}, {self.process}, for the rig {self.rig} since {self.since_utc}"


class Lease:
    """A held lease; see :class:`LeaseBook`. Any thread may renew or release it.

    Attributes
    ----------
    left_by : Holder or None
        Who held it before and is gone, while nobody has :meth:`confirm`-ed that the rig is safe.
    lost : bool
        Whether somebody else has taken it over.
    """

    def __init__(self, book: LeaseBook, key: str, record: dict[str, Any], left_by: Holder | None, why: str) -> None:
        self._book = book
        self._record = record
        self._path = book.path(key)
        self._lock = threading.Lock()
        self._released = False
        self._why = why
        self.key = key
        self.left_by = left_by
        self.lost = False

    def confirm(self, seen: str = "") -> None:
        """Take a stale lease over for good: the rig was seen safe. ``seen`` says by what, for the ledger.

        Raises
        ------
        LeaseError
            Somebody else has it by now.
        """
        before = self.left_by
        if before is None:
            return
        with self._lock, self._held() as descriptor:
            self._book.ledger.append(
                "lease_takeover",
                key=self.key,
                rig=self._record["rig"],
                left_by=str(before),
                because=self._why,
                seen_safe=seen,
            )
            self._record = {key: value for key, value in self._record.items() if key != "left"}
            write_record(descriptor, self._record, durable=False)
        self.left_by = None

    def renew(self) -> None:
        """Give a sign of life.

        Raises
        ------
        LeaseError
            The lease was lost: somebody took this process for dead.
        """
        with self._lock, self._held() as descriptor:
            self._record = self._record | _heartbeat()
            write_record(descriptor, self._record, durable=False)

    @contextlib.contextmanager
    def _held(self) -> Iterator[int]:
        with locked(self._path) as descriptor:
            there = read_record(descriptor)
            if self._released or there is None or there.get("id") != self._record["id"]:
                self.lost = not self._released
                new = _holder(there) if there else None
                raise LeaseError(
                    f"the lease on {self.key} was lost" + ("" if new is None else f" to {new}"),
                    where=str(self._path),
                    remedy="This process was taken for dead. Open the station anew once the rig is free",
                    holder=new,
                )
            yield descriptor

    def release(self) -> None:
        """Give the lease back; one whose rig nobody has seen safe goes back to being stale. Once more does nothing."""
        with self._lock:
            if self._released:
                return
            with contextlib.suppress(LeaseError), self._held() as descriptor:
                if self.left_by is not None:
                    write_record(descriptor, self.left_by.record, durable=False)
                elif OF_TWIN in self.key:
                    remove_locked(self._path)  # no other lab will ever have this key
                else:
                    write_record(descriptor, {}, durable=False)
            self._released = True


class LeaseBook:
    """The leases of this machine, in ``folder`` (its state folder by default)."""

    def __init__(self, folder: Path | None = None) -> None:
        state = state_dir(folder)
        self.folder = subfolder(state, "leases")
        self.ledger = Ledger(state)

    def path(self, key: str) -> Path:
        """Return the file of the lease on ``key``."""
        return self.folder / file_name(key)

    def acquire(self, key: str, *, rig: str, expiry_s: float = EXPIRY_S) -> Lease:
        """Take the lease on ``key`` for ``rig``; a stale one comes with ``left_by``, see :class:`Lease`.

        Raises
        ------
        LeaseError
            Somebody holds it, in this process or in another one.
        """
        path = self.path(key)
        with locked(path) as descriptor:
            there = read_record(descriptor)
            left_by, why = self._left(path, key, there)
            record: dict[str, Any] = {
                "id": secrets.token_hex(8),
                "key": key,
                "rig": rig,
                "owner": user(),
                "process": vars(this_process()),
                "since": datetime.now(UTC).isoformat(timespec="seconds"),
                "expiry_s": expiry_s,
                **_heartbeat(),
            }
            if left_by is not None:
                record["left"] = left_by.record  # whoever looks at the rig may die at it
            write_record(descriptor, record, durable=False)
        return Lease(self, key, record, left_by, why)

    def _left(self, path: Path, key: str, there: dict[str, Any] | None) -> tuple[Holder | None, str]:
        """Return who left the lease behind and why it counts no more; nothing when it is free."""
        if there == {}:
            return None, ""
        holder = _holder(there)
        if holder is None:
            # Not to be read: whoever wrote it gets the time any holder gets.
            if time.time() - path.stat().st_mtime <= EXPIRY_S:
                raise LeaseError(
                    f"the lease on {key} cannot be read", where=str(path), remedy=f"Try again in {EXPIRY_S:g} s"
                )
            nobody = ProcessIdentity("unknown", 0, "")
            zero = {**_heartbeat(), "heartbeat_ns": 0, "heartbeat": "1970-01-01T00:00:00+00:00"}
            record: dict[str, Any] = {"id": "", "key": key, "rig": "?", "owner": "somebody", "process": vars(nobody)}
            record |= {"since": "an unknown time", "expiry_s": 0.0, **zero}
            return Holder.of(record), "its file was damaged"
        why = holder.stale()
        if not why:
            mine = holder.process == this_process()
            raise LeaseError(
                f"{key} is held by {'this process itself' if mine else holder}",
                where=f"lease of {key}",
                remedy=f"Close the station opened for the rig {holder.rig} at {holder.since_utc} first"
                if mine
                else "Wait until it is done, or ask whoever runs it to end it; do not open the rig around the lease",
                holder=holder,
            )
        left = there.get("left") if there else None
        # Somebody looked at the rig of a holder that was gone, and died at it: the rig was not seen safe since then.
        return (holder if left is None else _holder(left) or holder), why

    def holders(self) -> list[Holder]:
        """Return who holds what, stale leases included."""
        found = []
        for path in sorted(self.folder.glob("*.json")):
            with locked(path) as descriptor:
                holder = _holder(read_record(descriptor))
            if holder is not None:
                found.append(holder)
        return found

    def release_of(self, pid: int, *, rig: str = "", seen: str = "") -> list[str]:
        """Free what process ``pid`` of this machine held, now that it has ended and the rig was seen safe.

        For whoever made the rig safe in its place. ``seen`` says by what it is known, for the ledger. ``rig`` is the
        one that was seen, as :func:`~bench.safety.quarantine.rig_key` names it: the process may have had another one
        besides, of which nothing is known.

        Returns
        -------
        list of str
            Keys of the leases that are free now.
        """
        freed = []
        for holder in self.holders():
            if holder.process.pid != pid or holder.process.alive() is not False:
                continue
            if rig not in ("", holder.place):
                continue
            path = self.path(holder.key)
            with locked(path) as descriptor:
                there = read_record(descriptor)
                if there is None or there.get("id") != holder.record["id"] or there.get("left"):
                    continue
                self.ledger.append("lease_freed", key=holder.key, rig=holder.rig, left_by=str(holder), seen_safe=seen)
                write_record(descriptor, {}, durable=False)
                if OF_TWIN in holder.key:
                    remove_locked(path)
            freed.append(holder.key)
        return freed

    def sweep_twins(self) -> None:
        """Remove leases in simulated labs that have ended: nobody will ever ask for them again."""
        for path in self.folder.glob(f"*{OF_TWIN}*.json"):
            if twin_has_ended(name_of(path)):
                remove_locked(path)


def _holder(record: dict[str, Any] | None) -> Holder | None:
    try:
        return Holder.of(record) if record else None
    except (KeyError, TypeError, ValueError):
        return None


def _heartbeat() -> dict[str, Any]:
    # Of the machine's own clock, which is not set and does not run while it sleeps; by date for other machines.
    return {
        "heartbeat_ns": time.monotonic_ns(),
        "heartbeat": datetime.now(UTC).isoformat(timespec="milliseconds"),
    }
