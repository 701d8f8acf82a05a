"""Which participant makes a gRPC call, and when it may: after all that it said on its link before.

The runner's channel adds two metadata entries to every call. A call without them belongs to an anonymous participant:
time waits for it only while no registered participant is there, afterwards it merely observes.
"""

from __future__ import annotations

from types import TracebackType
from typing import Any

from bench.errors import TwinError
from bench.twin.frames import PARTICIPANT_KEY, SEQUENCE_KEY
from bench.twin.members import Member
from bench.twin.world import SimWorld

#: Wall time a call waits for the world's lock before it tells that the twin hangs [s].
LOCK_WALL_S = 120.0


class MetadataGate:
    """Implements :class:`bench.twin.interfaces.CallGate`.

    A latched loss, a failed twin or endless polling aborts the call with status ``ABORTED`` and the reason in its
    details (with ``context=None``, as a test may, the :class:`bench.errors.TwinError` is raised as it is).
    """

    def __init__(self, world: SimWorld) -> None:
        self.world = world
        self.calls = 0
        self._anonymous: Member | None = None

    def call(self, context: Any, what: str) -> _Call:
        """Return a context manager that holds the world's lock and yields the participant."""
        return _Call(self, context, what)

    def member(self, context: Any) -> Member:
        """Find the caller (lock held), waiting for its earlier link frames."""
        token = sequence = None
        if context is not None:
            for key, value in context.invocation_metadata():
                if key == PARTICIPANT_KEY:
                    token = int(value)
                elif key == SEQUENCE_KEY:
                    sequence = int(value)
        if token is None:
            if self._anonymous is None or self._anonymous.gone:
                self._anonymous = self.world.register("anonymous", anonymous=True)
            return self._anonymous
        member = self.world.members.get(token)
        if member is None:
            self.world.check(Member("unknown", token, passive=False))
            raise TwinError(
                f"no participant has the number {token}", where="twin", remedy="register the thread's link first"
            )
        if sequence is not None and member.handled < sequence:
            self.world.await_handled(member, sequence)
        return member


class _Call:
    __slots__ = ("_context", "_gate", "_member", "_what")

    def __init__(self, gate: MetadataGate, context: Any, what: str) -> None:
        self._gate = gate
        self._context = context
        self._what = what

    def __enter__(self) -> Member:
        world = self._gate.world
        if not world.lock.acquire(timeout=LOCK_WALL_S):
            error = TwinError(f"it has not answered for {LOCK_WALL_S:g} s", where="twin", remedy="start a new one")
            self._refuse(error)
            raise error
        try:
            member = self._member = self._gate.member(self._context)
            self._gate.calls += 1
            world.begin(member)
            world.free_call(member, self._what)
        except TwinError as error:
            world.lock.release()
            self._refuse(error)
            raise
        except BaseException:
            world.lock.release()
            raise
        return member

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        world = self._gate.world
        try:
            world.end(self._member)
        finally:
            world.lock.release()
        if isinstance(error, TwinError):
            self._refuse(error)

    def _refuse(self, error: TwinError) -> None:
        if self._context is not None:
            import grpc

            self._context.abort(grpc.StatusCode.ABORTED, str(error))
