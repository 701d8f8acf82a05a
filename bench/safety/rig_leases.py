"""The leases an open station holds on its devices."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from bench.errors import BenchError, LeaseError
from bench.safety.lease import RENEWAL_S, Holder, Lease, LeaseBook, device_key
from bench.safety.process_identity import ProcessIdentity


class RigLeases:
    """The leases of one open station: taken one by one, renewed together, given back in reverse.

    A thread of its own renews them. It says that this process lives, no more; whether its control loop does is the
    watchdog's business.

    Parameters
    ----------
    rig : str
        Its name.
    twin : ProcessIdentity, optional
        Of the simulated lab.
    """

    def __init__(self, rig: str, *, twin: ProcessIdentity | None = None, folder: Path | None = None) -> None:
        self.rig = rig
        self.twin = twin
        self._book = LeaseBook(folder)
        self._leases: list[Lease] = []
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.lost: str = ""
        #: Called with what happened when one of them is lost, in the thread that renews them.
        self.on_lost: Callable[[str], None] = lambda what: None
        if twin is not None:
            self._book.sweep_twins()

    def take(self, kind: str, serial_number: str) -> None:
        """Take the lease on the device of that serial number; one without a number has none.

        Raises
        ------
        LeaseError
            Somebody holds it.
        """
        if not serial_number:
            return
        self._leases.append(self._book.acquire(device_key(kind, serial_number, self.twin), rig=self.rig))
        if self._thread is None:
            self._thread = threading.Thread(target=self._renew, name="leases", daemon=True)
            self._thread.start()

    @property
    def left_by(self) -> Holder | None:
        """Who left the rig behind without a word, as long as nobody has seen it safe."""
        return next((lease.left_by for lease in self._leases if lease.left_by is not None), None)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the leases held."""
        return tuple(lease.key for lease in self._leases)

    def confirm(self, seen: str) -> None:
        """The rig was seen safe, by ``seen``: what was left behind is taken over."""
        for lease in self._leases:
            lease.confirm(seen)

    def check(self) -> None:
        """Raise :class:`LeaseError` when one of them was lost."""
        if self.lost:
            raise LeaseError(self.lost, where=f"rig {self.rig}", remedy="Open the station anew once the rig is free")

    def _renew(self) -> None:
        while not self._ended.wait(RENEWAL_S):
            for lease in list(self._leases):
                try:
                    lease.renew()
                except LeaseError as error:
                    if not self._ended.is_set():
                        self.lost = error.what
                        self.on_lost(error.what)
                    return
                except (BenchError, OSError):
                    continue  # a disk that is full for a while; the next time may go well

    def release(self) -> None:
        """Give all of them back, the last one first."""
        self._ended.set()
        while self._leases:
            self._leases.pop().release()
