"""How the bench reaches NI-DAQmx: the local driver, or a gRPC device server with a deadline on every call."""

from __future__ import annotations

from typing import Any

from bench.errors import DaqDeviceError
from bench.instruments.nidaqmx_errors import INVALID_TASK, Guard

MAX_MESSAGE_BYTES = 64 * 1024 * 1024  # gRPC's own 4 MiB end at 65 000 samples of 8 channels


class DeadlineChannel:
    """A gRPC channel that gives every call a deadline: its own timeout, if the request has one, and a margin.

    The package sets no deadline, so a server that stands still would hold a read for ever. A request that waits
    "infinitely" gets the margin alone: a bench never waits without a bound. Event streams have none, they last as
    long as their task.
    """

    def __init__(self, channel: Any, deadline_s: float) -> None:
        self._channel = channel
        self._deadline_s = deadline_s

    def unary_unary(self, method: str, *arguments: Any, **options: Any) -> _Deadlined:
        """Return a callable for ``method`` with a deadline on each call."""
        return _Deadlined(self._channel.unary_unary(method, *arguments, **options), self._deadline_s)

    def unary_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the channel's own callable."""
        return self._channel.unary_stream(method, *arguments, **options)

    def stream_unary(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the channel's own callable."""
        return self._channel.stream_unary(method, *arguments, **options)

    def stream_stream(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Return the channel's own callable."""
        return self._channel.stream_stream(method, *arguments, **options)


class _Deadlined:
    __slots__ = ("_call", "_deadline_s")

    def __init__(self, call: Any, deadline_s: float) -> None:
        self._call = call
        self._deadline_s = deadline_s

    def __call__(self, request: Any, timeout: float | None = None, **options: Any) -> Any:
        if timeout is None:
            waits = getattr(request, "timeout", 0.0) or getattr(request, "time_to_wait", 0.0)
            timeout = self._deadline_s + max(0.0, waits)
        return self._call(request, timeout=timeout, **options)


class Connection:
    """Opens tasks and system objects on one target.

    Parameters
    ----------
    server : str, optional
        ``host:port`` of a gRPC device server; its channel is made here and closed by :meth:`close`.
    channel : grpc.Channel, optional
        A channel made by someone else, who closes it. With neither, the local driver is used.
    deadline_s : float
        Margin of every call beyond its own timeout [s].
    """

    def __init__(self, server: str | None, channel: Any, deadline_s: float) -> None:
        if server is not None and channel is not None:
            raise DaqDeviceError(
                f"both a server ({server}) and a channel are given", where="DAQ", remedy="Give one of them, or none"
            )
        if not deadline_s > 0:
            raise DaqDeviceError(f"the RPC deadline is {deadline_s:g} s", where="DAQ", remedy="Set daq.rpc_deadline")
        self.address = server if server is not None else "local driver" if channel is None else "given channel"
        self._own: Any = None
        if server is not None:
            import grpc

            self._own = channel = grpc.insecure_channel(
                server,
                options=[
                    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ],
            )
        self._channel = None if channel is None else DeadlineChannel(channel, deadline_s)

    def options(self) -> Any:
        """Return what ``nidaqmx`` objects take as ``grpc_options``: None for the local driver.

        Sessions are unnamed: a name would attach, unasked, to what a killed run left behind under it.
        """
        if self._channel is None:
            return None
        from nidaqmx import GrpcSessionOptions

        return GrpcSessionOptions(self._channel, "")

    def check(self, guard: Guard) -> None:
        """Make one cheap call, so that a dead or frozen server is found in one deadline.

        The package itself makes several before its first real one, and waits each of them out in silence.
        """
        if self._channel is not None:
            with guard:
                self._channel.unary_unary("/nidaqmx_grpc.NiDAQmx/GetErrorString")(b"")  # empty request, code 0

    def task(self, guard: Guard) -> Any:
        """Return a new task."""
        import nidaqmx

        self.check(guard)
        with guard:
            return nidaqmx.Task(grpc_options=self.options())

    def close(self) -> None:
        """Close the channel if it was made here."""
        if self._own is not None:
            self._own.close()
            self._own = None


def close_task(task: Any, guard: Guard) -> None:
    """Clear ``task``; one that a reset or another client cleared before is as good as closed."""
    from nidaqmx.errors import DaqError

    with guard:
        try:
            task.close()
        except DaqError as error:
            if error.error_code != INVALID_TASK:
                raise
