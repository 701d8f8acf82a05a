"""Bring a rig to a state in which it hurts nobody, and prove that it got there. The same steps on every rig."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from bench.clock import Clock, sleep
from bench.errors import BenchError
from bench.safety.interlock import Interlock

#: How long an actuator is given to come to a stand, then how long it is watched [s].
SETTLE_S = 0.2
WATCH_S = 0.2


class Actuator(Protocol):
    """What the way to the safe state asks of a gate, whatever it drives."""

    @property
    def stand(self) -> Stand: ...

    def latch(self, reason: str) -> None:
        """Refuse to move from now on."""
        ...

    def stop(self) -> object:
        """Make the device end its motion or its torque."""
        ...


@dataclass(frozen=True)
class Stand:
    """How a stand of an actuator is told.

    Parameters
    ----------
    name : str
        Of the actuator.
    position : callable
        Where it is by its own controller [``unit``].
    tolerance : float
        One that moves no more than this over the watching time stands [``unit``].
    unit : str
        ``mm`` or ``rad``.
    readback : callable, optional
        Returns what the controller says of itself in words; raises when that contradicts a stop. A controller that
        does not answer any more, since the enable line takes its supply, contradicts nothing.
    settle_s : float
        How long it is given to come to a stand [s].
    witness_tolerance, witness_unit : float, str, optional
        What a witness that tells a stand by something else than the position may report, and its unit; the position's
        unless given.
    """

    name: str
    position: Callable[[], float]
    tolerance: float
    unit: str
    readback: Callable[[], str] | None = None
    settle_s: float = SETTLE_S
    witness_tolerance: float | None = None
    witness_unit: str = ""


class StillDriven(Exception):
    """A controller says that it still drives, after it was told to stop."""


@dataclass(frozen=True)
class Step:
    """One step on the way to the safe state and how it went."""

    name: str
    ok: bool
    detail: str = ""


@dataclass(frozen=True)
class SafeStateReport:
    """What was done and whether the rig is safe: power dropped *and* a stand seen by a witness."""

    steps: tuple[Step, ...]
    safe: bool

    def __str__(self) -> str:
        text = "; ".join(f"{step.name}: {'ok' if step.ok else 'FAILED'} {step.detail}".rstrip() for step in self.steps)
        return f"{'safe' if self.safe else 'NOT SAFE'} ({text})"


def enter_safe_state(
    actuator: Actuator,
    interlock: Interlock,
    clock: Clock,
    *,
    reason: str,
    witness: Callable[[], float] | None = None,
    further_witnesses: Sequence[Callable[[], float]] = (),
    latch: bool = True,
) -> SafeStateReport:
    """Stop the actuator, drop the enable line, verify that it stands. Never raises for a step that fails.

    Nothing is driven away from where it is: whatever made the run end may be the reason a motion would hurt (a stuck
    encoder, swapped directions, a hand in the rig). A person moves it away.

    Parameters
    ----------
    reason : str
        Latched in the gate, which refuses motion from now on.
    witness : callable, optional
        Watches by another way than the controller for :data:`WATCH_S` and returns how far the actuator moved
        [its unit]; used when the controller does not answer, and trusted before it.
    further_witnesses : sequence of callable
        Asked in turn when ``witness`` fails, before the controller.
    latch : bool
        Not for a rig that is brought to rest and may be made ready again without a person.
    """
    if latch:
        actuator.latch(reason)
    stand = actuator.stand
    steps: list[Step] = [_attempt(f"stop {stand.name}", actuator.stop), _attempt("drop enable line", interlock.drop)]
    dropped = steps[-1].ok
    sleep_step = _attempt("wait for the stand", lambda: sleep(clock, stand.settle_s))
    if not sleep_step.ok:
        steps.append(sleep_step)
    quiet = stand.readback is None or _reads_back(stand, stand.readback, steps)
    encoders = [watch for watch in (witness, *further_witnesses) if watch is not None]
    stands = _verify_stand(stand, clock, encoders, steps)
    return SafeStateReport(tuple(steps), safe=dropped and stands and quiet)


def _reads_back(stand: Stand, readback: Callable[[], str], steps: list[Step]) -> bool:
    name = f"read {stand.name} back"
    try:
        steps.append(Step(name, True, readback()))
    except StillDriven as error:
        steps.append(Step(name, False, str(error)))
        return False
    except Exception as error:
        steps.append(Step(name, True, f"no answer, as without its supply ({type(error).__name__})"))
    return True


def _verify_stand(stand: Stand, clock: Clock, encoders: Sequence[Callable[[], float]], steps: list[Step]) -> bool:
    def by_controller() -> float:
        first = stand.position()
        sleep(clock, WATCH_S)
        return abs(stand.position() - first)

    witnessed = (stand.tolerance, stand.unit)
    seen_by = "stand seen by the encoder"
    if stand.witness_tolerance is not None:
        witnessed = (stand.witness_tolerance, stand.witness_unit)
        seen_by = "stand felt by the sensor"
    watchers = [(seen_by, watch, *witnessed) for watch in encoders]
    controller = ("stand seen by the controller", by_controller, stand.tolerance, stand.unit)
    for name, watch, tolerance, unit in [*watchers, controller]:
        try:
            moved = watch()
        except Exception as error:
            steps.append(Step(name, False, _short(error)))
            continue
        told = {"mm": f"moved {moved * 1e3:.1f} um", "rad": f"moved {moved * 1e3:.2f} mrad"}.get(
            unit, f"changed by {moved:.2g} {unit}"
        )
        steps.append(Step(name, moved <= tolerance, f"{told} in {WATCH_S:g} s"))
        return steps[-1].ok
    return False


def _attempt(name: str, action: Callable[[], object]) -> Step:
    try:
        action()
    except Exception as error:
        # A failed step must not keep the next one from being tried; the report carries it.
        return Step(name, False, _short(error))
    return Step(name, True)


def _short(error: Exception) -> str:
    # What to do about it would push the other steps out of the archived event.
    return f"{type(error).__name__}: {error.what if isinstance(error, BenchError) else error}"
