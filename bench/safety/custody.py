"""Whether this process may use a rig: its devices leased, the rig in no quarantine, what others left behind seen to.

One for every station that is opened. On a simulated rig everything goes by the name of that simulated lab.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.clock import Clock, sleep
from bench.errors import BenchError, LeaseError
from bench.instruments.protocols import Identity
from bench.safety.interlock import Interlock
from bench.safety.lease import Holder
from bench.safety.process_identity import ProcessIdentity
from bench.safety.quarantine import Quarantine, check_quarantine, rig_key
from bench.safety.rig_leases import RigLeases
from bench.safety.safe_state import SETTLE_S, WATCH_S
from bench.safety.state_dir import state_dir

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Look:
    """How a rig that nobody drives is seen to stand.

    Parameters
    ----------
    by : str
        By what.
    moved : callable
        Watches for :data:`~bench.safety.safe_state.WATCH_S` and returns how far it moved [``unit``].
    tolerance : float
        A rig that moves no more than this stands [``unit``].
    unit : str
    """

    by: str
    moved: Callable[[], float]
    tolerance: float
    unit: str


class Custody:
    """See the module's docstring.

    Parameters
    ----------
    rig : str
        Its name.
    twin : ProcessIdentity, optional
        Of the simulated lab.

    Raises
    ------
    QuarantineError
        The rig is in quarantine.
    StateError
        There is no folder to keep leases in.
    """

    def __init__(self, rig: str, *, twin: ProcessIdentity | None = None, folder: Path | None = None) -> None:
        self.rig = rig_key(rig, twin)
        self._folder = state_dir(folder)
        check_quarantine(self.rig, folder=self._folder)
        self._leases = RigLeases(rig, twin=twin, folder=self._folder)
        self._serials: list[str] = []

    @property
    def left_by(self) -> Holder | None:
        """Who left the rig behind without a word, as long as it has not been seen safe since."""
        return self._leases.left_by

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of the leases held."""
        return self._leases.keys

    def hold(self, kind: str, device: Identity) -> None:
        """Take the lease on a device that has been asked for its serial number.

        Raises
        ------
        LeaseError
            Somebody holds it.
        QuarantineError
            It was in a rig that is in quarantine.
        """
        serial = device.serial_number
        if serial and not serial.strip("0"):
            serial = f"{serial}-{device.address}"  # NI numbers all simulated devices zero
        if serial:
            check_quarantine(self.rig, [serial], folder=self._folder)
            self._leases.take(kind, serial)
            self._serials.append(serial)

    def when_lost(self, action: Callable[[str], None]) -> None:
        """Have ``action`` called, in another thread, when somebody takes this process for dead and the rig for his."""
        self._leases.on_lost = action

    def check(self) -> None:
        """Refuse to go on when the rig is in quarantine by now, or a lease was lost.

        Raises
        ------
        QuarantineError, LeaseError
        """
        check_quarantine(self.rig, self._serials, folder=self._folder)
        self._leases.check()

    # -- what somebody else left behind

    def take_over(self, interlock: Interlock, clock: Clock, look: Look) -> None:
        """See to a rig whose last holder is gone: take its power, see that it stands. Nothing on one that is not.

        Raises
        ------
        LeaseError
            It was not seen safe, and stays as it was left. One whose enable line stays high is in quarantine.
        """
        if self.left_by is None:
            return
        try:
            interlock.drop()
        except Exception as error:
            told = error.what if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
            self.quarantine("takeover_failed", f"left behind by {self.left_by}: {told}")
            raise self.not_safe(told) from error
        try:
            sleep(clock, SETTLE_S)
            moved = look.moved()
        except BenchError as error:
            raise self.not_safe(f"the {look.by} cannot see whether it stands ({error.what})") from error
        told = f"by the {look.by} it moved {moved:.3g} {look.unit} in {WATCH_S:g} s"
        if not moved <= look.tolerance:
            raise self.not_safe(f"the enable line is low, but {told}")
        self.confirm(f"the enable line reads low; {told}")

    def confirm(self, seen: str) -> None:
        """The rig was seen safe, by ``seen``: what was left behind is taken over."""
        self._leases.confirm(seen)

    def not_safe(self, why: str) -> LeaseError:
        """Return what to raise when a rig that was left behind is not seen safe."""
        return LeaseError(
            f"the rig was left behind by {self.left_by}, who is gone, and was not seen safe since: {why}",
            where=f"rig {self.rig}",
            remedy="Press the e-stop, go and look at the rig; once it stands without power, open the station again",
            holder=self.left_by,
        )

    # -- what we leave behind

    def quarantine(self, reason: str, detail: str, archive: str | Path = "") -> str:
        """Put the rig in quarantine; never raises.

        Returns
        -------
        str
            Why it could not be written down, or nothing.
        """
        try:
            Quarantine.impose(self.rig, self._serials, reason, detail, archive=archive, folder=self._folder)
        except Exception as error:
            _log.critical("the quarantine of %s could not be written down: %s", self.rig, error)
            return str(error)
        return ""

    def release(self) -> None:
        """Give the leases back."""
        self._leases.release()
