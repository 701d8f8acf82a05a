"""What every station has: the rig's lines, DAQ and clock, the supervisor, the way to the safe state and out of it."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self

from bench.clock import Clock
from bench.errors import BenchError, SafetyAbort
from bench.instruments.protocols import Daq, Identity
from bench.profile import RigProfile
from bench.safety import GuardedDaq, Interlock, SafeStateReport, Step, Supervisor, enter_safe_state
from bench.safety.custody import Custody
from bench.safety.prompts import Questions, Scripted, Terminal
from bench.safety.safe_state import Actuator
from bench.safety.watchdog import FedClock, Unwatched

if TYPE_CHECKING:
    from bench.twin.process import AttachedTwin, TwinProcess

Backend = Literal["mock", "lab"]
_log = logging.getLogger(__name__)


class Station(ABC):
    """The opened instruments of one rig; a context manager. Made by :func:`~bench.station.open_station`.

    Attributes
    ----------
    rig : RigProfile
    backend : {"mock", "lab"}
    simulated : bool
    daq : GuardedDaq
        The data acquisition, without the enable line.
    interlock : Interlock
    supervisor : Supervisor
    clock : Clock
    identities : dict of str to Identity
        What the instruments say they are, by name.
    seed : int or None
        Of the simulation.
    watchdog : Watchdog
        The process that takes the rig's power when this program is gone or hangs; loops feed it.
    fed_clock : Clock
        The clock for waits that feed it.
    twin : TwinProcess, AttachedTwin or None
        The simulated lab's process; tests ask it for the truth and for faults.
    questions : Questions
        To the operator, and what was answered.
    details : dict
        What the archive should say of the station beside its instruments.
    """

    rig: RigProfile

    def __init__(
        self,
        rig: RigProfile,
        backend: Backend,
        *,
        daq: Daq,
        interlock: Interlock,
        clock: Clock,
        enable_line: str,
        further_lines: Sequence[str] = (),
        identities: Mapping[str, Identity],
        seed: int | None = None,
        twin: TwinProcess | AttachedTwin | None = None,
        details: Mapping[str, object] | None = None,
        custody: Custody | None = None,
        watchdog: Unwatched | None = None,
    ) -> None:
        self._custody = custody
        if custody is not None:
            custody.when_lost(self._on_lost)
        #: Of the run that is being recorded, or was last: what goes wrong with the rig is told with it.
        self.archive: Path | None = None
        self.watchdog = watchdog if watchdog is not None else Unwatched()
        self.fed_clock = FedClock(clock, self.watchdog)
        self.details = dict(details or {})
        self.backend: Backend = backend
        self.simulated = backend == "mock"
        self.clock = clock
        self.seed = seed
        self.twin = twin
        self.interlock = interlock
        self.daq = GuardedDaq(daq, reserved_lines=(enable_line, *further_lines))
        self.identities = dict(identities)
        self.supervisor = Supervisor(
            clock, make_safe=self.make_safe, last_resort=interlock.drop, further_check=self.watchdog.check
        )
        self.questions = Questions(Scripted() if backend == "mock" else Terminal(), "nobody named")
        self._safe: SafeStateReport | None = None
        self._encoder_doubted = False
        self._rested = False
        self._closing = ExitStack()

    @property
    def sample_rate_hz(self) -> float:
        """Sample rate of the hardware-clocked channels [Hz]."""
        return self.rig.daq.sample_rate.to("Hz")

    # -- what a rig's own station fills in

    @property
    @abstractmethod
    def actuator(self) -> Actuator:
        """The gate of what moves."""

    @abstractmethod
    def make_ready(self, *, home: bool = True) -> None:
        """Let the rig move: also the way back after :meth:`make_safe`, for a person who has found the cause.

        The rig has power from here on, and the watchdog has to be fed: a recording does that. Who drives the rig
        without one calls ``watchdog.beat()`` in the loop, or :meth:`rest` before the next thing.
        """

    @abstractmethod
    def is_active(self) -> bool:
        """Return whether the rig moves or is driven at this moment; raise when it cannot be asked."""

    def further_witnesses(self) -> Sequence[Callable[[], float]]:
        """Return other ways than the controller to see the actuator stand, when nothing is recorded."""
        return ()

    # -- safe

    @property
    def latched(self) -> str:
        """Why nothing may move, or an empty string."""
        return self._latched()

    @abstractmethod
    def _latched(self) -> str: ...

    def doubt_encoder(self) -> None:
        """Take the encoder for no witness of a stand from now on, until the rig is made ready again."""
        self._encoder_doubted = True

    @property
    def resting(self) -> bool:
        """Whether the rig has no power."""
        return not self.interlock.enabled

    def rest(self) -> SafeStateReport:
        """Take the rig's power and see that it stands; :meth:`make_ready` gives it back. Between two runs a rig rests.

        Raises
        ------
        SafetyAbort
            ``"safe_state_failed"`` when it was not seen to be safe; its gate is shut then.
        """
        report = self._safe_state("rest", None, latch=False)
        if not report.safe:
            self.actuator.latch("rest_failed")
            raise _not_safe(self.rig, f"the rig could not be brought to rest: {report}")
        self._rested = True
        return report

    @contextmanager
    def powered(self, *, home: bool = True) -> Iterator[None]:
        """Give the rig its power for what is inside, and take it back however that ends.

        One that has power already is left as it is; one that was made safe inside stays so.
        """
        if not self.resting or self.latched:
            yield
            return
        try:
            self.make_ready(home=home)
            self._rested = False
            yield
        finally:
            if self.interlock.enabled and not self.latched:
                self.rest()

    def make_safe(self, reason: str, witness: Callable[[], float] | None = None) -> SafeStateReport:
        """Bring the rig to its safe state; no signal interrupts that. See :func:`~bench.safety.enter_safe_state`."""
        report = self._safe_state(reason, witness, latch=True)
        (_log.info if report.safe else _log.error)("safe state (%s): %s", reason, report)
        return report

    def _safe_state(self, reason: str, witness: Callable[[], float] | None, *, latch: bool) -> SafeStateReport:
        self.watchdog.keep()
        with self.supervisor.shielded():
            report = enter_safe_state(
                self.actuator,
                self.interlock,
                self.fed_clock,
                reason=reason,
                witness=witness,
                further_witnesses=() if self._encoder_doubted else self.further_witnesses(),
                latch=latch,
            )
        self._safe = report
        if not report.safe:
            report = self._quarantine(reason, report)
            self.watchdog.give_up()
        return report

    def _quarantine(self, reason: str, report: SafeStateReport) -> SafeStateReport:
        """Let nobody use the rig until a person has looked at it; the returned report says whether all know of that."""
        if self._custody is None:
            return report
        failed = self._custody.quarantine(reason, str(report), self.archive or "")
        return replace(report, steps=(*report.steps, Step("quarantine the rig", not failed, failed)))

    def _on_lost(self, what: str) -> None:
        """Drive nothing any more that is somebody else's by now."""
        self.actuator.latch("lease_lost")
        self.supervisor.end_run("lease_lost", what)

    def check_custody(self) -> None:
        """Refuse to go on when the rig is in quarantine or somebody else has taken it over.

        Raises
        ------
        QuarantineError, LeaseError
        """
        if self._custody is not None:
            self._custody.check()

    # -- closing

    def close(self) -> None:
        """Make the rig safe and close everything in reverse order; one that fails does not keep the others open.

        Raises
        ------
        SafetyAbort
            ``"safe_state_failed"`` when the rig could not be made safe: somebody has to go and look.
        """
        self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open_from(self, opened: ExitStack, *, home: bool) -> None:
        """Take over what ``opened`` holds, with the supervisor on top of it, and make the rig ready."""
        opened.enter_context(self.supervisor)
        opened.callback(self._leave)
        self.make_ready(home=home)
        self.rest()
        self._closing = opened.pop_all()

    def _leave(self) -> None:
        if self._safe is not None and self._safe.safe:
            return
        report = self.make_safe("closed")
        if not report.safe:
            raise _not_safe(self.rig, f"the rig could not be made safe while closing: {report}")


def withdraw_power(interlock: Interlock, custody: Custody) -> None:
    """Take the power away that opening a rig gave it; one that keeps it is in quarantine.

    Raises
    ------
    SafetyAbort
        ``"safe_state_failed"``: somebody has to go and look.
    """
    try:
        interlock.drop()
    except Exception as error:
        told = error.what if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        failed = custody.quarantine("not_closed", told)
        raise SafetyAbort(
            f"the rig could not be made safe while closing: {told}" + (f"; {failed}" if failed else ""),
            reason="safe_state_failed",
            where=f"rig {custody.rig}",
            remedy="Press the e-stop, then look at the rig before anybody uses it again.",
        ) from error


def _not_safe(rig: RigProfile, what: str) -> SafetyAbort:
    return SafetyAbort(
        what,
        reason="safe_state_failed",
        where=f"rig {rig.name}",
        remedy="Press the e-stop, then look at the rig before anybody uses it again.",
    )
