"""A gRPC channel whose calls say which participant makes them.

A thin wrapper, not an interceptor: grpc's interceptors cost more per call than the twin's whole link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import grpc

from bench.errors import TwinError
from bench.twin.frames import PARTICIPANT_KEY, SEQUENCE_KEY

if TYPE_CHECKING:
    from bench.twin.link import Link

OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class LinkChannel(grpc.Channel):  # type: ignore[misc]
    """See :func:`bench.twin.link.grpc_channel`."""

    def __init__(self, address: str, link: Link | None) -> None:
        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._link = link

    def unary_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return _UnaryUnary(self._channel.unary_unary(method, *args, **kwargs), self._link)

    # Streams only observe (events): they are nobody's calls, and time does not wait for their reader.
    def unary_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._channel.unary_stream(method, *args, **kwargs)

    def stream_unary(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._channel.stream_unary(method, *args, **kwargs)

    def stream_stream(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._channel.stream_stream(method, *args, **kwargs)

    def subscribe(self, callback: Callable[[Any], None], try_to_connect: bool | None = False) -> None:
        self._channel.subscribe(callback, try_to_connect=try_to_connect)

    def unsubscribe(self, callback: Callable[[Any], None]) -> None:
        self._channel.unsubscribe(callback)

    def close(self) -> None:
        self._channel.close()

    def __enter__(self) -> LinkChannel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _UnaryUnary(grpc.UnaryUnaryMultiCallable):  # type: ignore[misc]
    def __init__(self, inner: Any, link: Link | None) -> None:
        self._inner = inner
        self._link = link

    def _tagged(self, metadata: Any) -> Any:
        connection = self._link.own_connection if self._link is not None else None
        if connection is None:
            return metadata
        connection.fresh = False  # the call may let time pass
        own = ((PARTICIPANT_KEY, str(connection.member)), (SEQUENCE_KEY, str(connection.sent)))
        return own if metadata is None else (*metadata, *own)

    def __call__(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        try:
            return self._inner(request, timeout=timeout, metadata=self._tagged(metadata), **kwargs)
        except grpc.RpcError as error:
            _raise_twin(error)
            raise

    def with_call(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        try:
            return self._inner.with_call(request, timeout=timeout, metadata=self._tagged(metadata), **kwargs)
        except grpc.RpcError as error:
            _raise_twin(error)
            raise

    def future(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        return self._inner.future(request, timeout=timeout, metadata=self._tagged(metadata), **kwargs)


def _raise_twin(error: Any) -> None:
    """The gate aborts a call with ABORTED when the twin failed or lost its owner: no DAQ error, so not told as one."""
    if error.code() == grpc.StatusCode.ABORTED:
        raise TwinError(error.details(), where="twin gRPC") from None
