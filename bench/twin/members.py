"""Who and what the world keeps: timers, members and their waits."""

from __future__ import annotations

import threading
from collections.abc import Callable

from bench.errors import TwinError


class SimTimer:
    """An action the world owes at a time."""

    __slots__ = ("action",)

    def __init__(self, action: Callable[[], None]) -> None:
        self.action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self.action = None


class Member:
    """A client thread the world knows: a participant (time waits for it) or a passive observer.

    A watchdog is an observer until the owner is lost: then it is the one who acts, see :meth:`SimWorld.lose`.
    """

    def __init__(
        self,
        name: str,
        order: int,
        *,
        passive: bool,
        anonymous: bool = False,
        pid: int | None = None,
        watchdog: bool = False,
    ) -> None:
        self.name = name
        self.order = order
        self.passive = passive
        self.anonymous = anonymous
        self.watchdog = watchdog
        self.pid = pid
        self.parked = 0
        self.handled = 0  # link frames handled so far
        self.awaited = False  # a gRPC call waits for `handled` to grow
        self.free_calls = 0
        self.free_since_ns = -1
        self.idle_since_s: float | None = None  # wall time since when the client computes
        self.gone = False

    def __repr__(self) -> str:
        return f"Member({self.name!r}, order={self.order}, parked={self.parked})"


class Waiter:
    """One parked call."""

    __slots__ = ("condition", "error", "held", "member", "ready", "released", "until_ns", "wake_ns")

    def __init__(self, member: Member, until_ns: int | None, ready: Callable[[], bool] | None) -> None:
        self.member = member
        self.until_ns = until_ns
        self.ready = ready
        self.wake_ns: int | None = None
        self.held = False
        self.released = False
        self.error: str | None = None
        self.condition: threading.Condition | None = None


def member_of(participant: object) -> Member:
    """Return a participant as the member it is."""
    if not isinstance(participant, Member):
        raise TwinError(f"{participant!r} is not a participant of this world", where="twin")
    return participant
