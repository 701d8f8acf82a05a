"""What a rig states about the loss of its program, and what has to fit for that word to hold."""

from __future__ import annotations

from collections.abc import Iterator

from bench.profile.problem import Issue
from bench.units import Value

#: Whatever a rig does, nobody waits longer than this for its power to be off [s].
LONGEST_STOP_S = 5.0
#: What the watchdog needs between a broken promise and a low enable line [s].
REACTION_S = 0.05
#: A loop is not late as long as it misses fewer ticks than this.
LEAST_TICKS = 5


def stop_issues(timeout: Value, stop_time: Value, longest_s: float = LONGEST_STOP_S) -> Iterator[Issue]:
    """Yield what is wrong with ``watchdog_timeout`` and ``stop_time``; the rig's kind allows ``longest_s`` [s]."""
    if stop_time.to("s") > longest_s * (1 + 1e-9):
        due = f"at most {longest_s * 1e3:g} ms"
        yield Issue("stop_time", f'"{stop_time}"', due, "Somebody may be hurt until then")
    room_s = stop_time.to("s") - REACTION_S
    if timeout.to("s") > room_s * (1 + 1e-9):
        due = f"at most {max(0.0, room_s) * 1e3:g} ms, so that the power is off within stop_time, {stop_time}"
        yield Issue("watchdog_timeout", f'"{timeout}"', due, f"The watchdog itself needs {REACTION_S * 1e3:g} ms")


def loop_issues(
    timeout: Value, stop_time: Value, rate: Value, drain: Value, own: Value, own_key: str
) -> Iterator[Issue]:
    """Yield what does not fit between these and a control loop: its rate, its drains, the drives' ``own`` watchdog."""
    given = f'"{timeout}"'
    if timeout.to("s") * rate.to("Hz") < LEAST_TICKS:
        due = f"at least {LEAST_TICKS} ticks of loop.rate, {rate}"
        yield Issue("safety.watchdog_timeout", given, due, "It would trip between two ticks")
    room_s = stop_time.to("s") - REACTION_S - drain.to("s")
    if timeout.to("s") > room_s * (1 + 1e-9):
        due = f"at most {max(0.0, room_s) * 1e3:g} ms, for a program that waits for a drain is heard of after it"
        why = f"loop.drain is {drain}, safety.stop_time {stop_time}, the watchdog itself needs {REACTION_S * 1e3:g} ms"
        yield Issue("safety.watchdog_timeout", given, due, why)
    if own.to("s") > stop_time.to("s"):
        yield Issue(own_key, f'"{own}"', f"at most safety.stop_time, {stop_time}")
