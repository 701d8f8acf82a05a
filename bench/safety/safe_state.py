"""Bring the rig to a state in which it hurts nobody, and prove that it got there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.clock import Clock, sleep
from bench.safety.gate import GatedStage
from bench.safety.interlock import Interlock

#: An axis that moves less than this over the watching time stands [mm]: encoder noise and servo hum stay below it.
STANDSTILL_MM = 0.02
#: How long the axis is given to come to a stand, then how long it is watched [s].
SETTLE_S = 0.2
WATCH_S = 0.2


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
    stage: GatedStage,
    interlock: Interlock,
    clock: Clock,
    *,
    reason: str,
    witness: Callable[[], float] | None = None,
) -> SafeStateReport:
    """Stop the stage, drop the enable line, verify that the axis stands. Never raises for a step that fails.

    The tool is *not* retracted: whatever made the run end may be the reason a retraction would hurt (a stuck
    encoder, swapped directions, a hand in the rig). A person moves it away.

    Parameters
    ----------
    reason : str
        Latched in the gate, which refuses motion from now on.
    witness : callable, optional
        Watches the axis by another way than its controller for :data:`WATCH_S` and returns how far it moved [mm];
        used when the controller does not answer, and trusted before it.
    """
    stage.latch(reason)
    steps: list[Step] = [_attempt("stop stage", stage.stop), _attempt("drop enable line", interlock.drop)]
    dropped = steps[-1].ok
    sleep_step = _attempt("wait for the stand", lambda: sleep(clock, SETTLE_S))
    if not sleep_step.ok:
        steps.append(sleep_step)
    stands = _verify_stand(stage, clock, witness, steps)
    return SafeStateReport(tuple(steps), safe=dropped and stands)


def _verify_stand(stage: GatedStage, clock: Clock, witness: Callable[[], float] | None, steps: list[Step]) -> bool:
    def by_controller() -> float:
        first = stage.position_mm()
        sleep(clock, WATCH_S)
        return abs(stage.position_mm() - first)

    watchers = [("stand seen by the encoder", witness), ("stand seen by the controller", by_controller)]
    for name, watch in watchers:
        if watch is None:
            continue
        try:
            moved = watch()
        except Exception as error:
            steps.append(Step(name, False, _short(error)))
            continue
        steps.append(Step(name, moved <= STANDSTILL_MM, f"moved {moved * 1e3:.1f} um in {WATCH_S:g} s"))
        return steps[-1].ok
    return False


def _attempt(name: str, action: Callable[[], None]) -> Step:
    try:
        action()
    except Exception as error:
        # A failed step must not keep the next one from being tried; the report carries it.
        return Step(name, False, _short(error))
    return Step(name, True)


def _short(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"
