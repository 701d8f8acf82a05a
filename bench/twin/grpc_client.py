"""A gRPC channel whose calls say which participant makes them.

A thin wrapper, not an interceptor: grpc's interceptors cost more per call than the twin's whole link.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import grpc

from bench.errors import TwinError
from bench.twin.connection import OwnLink, RpcFailed, WallTimeout
from bench.twin.frames import PARTICIPANT_KEY, SEQUENCE_KEY, Op

OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))


class LinkChannel(grpc.Channel):  # type: ignore[misc]
    """See :func:`bench.twin.link.grpc_channel`."""

    def __init__(self, address: str, link: OwnLink | None, *, over_link: bool = False) -> None:
        self._channel = grpc.insecure_channel(address, options=OPTIONS)
        self._link = link
        self._over_link = over_link and link is not None

    def unary_unary(
        self,
        method: str,
        request_serializer: Callable[[Any], bytes] | None = None,
        response_deserializer: Callable[[bytes], Any] | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        inner = self._channel.unary_unary(method, request_serializer, response_deserializer, *args, **kwargs)
        tagged = _UnaryUnary(inner, self._link)
        if not self._over_link:
            return tagged
        return _OverLink(tagged, self._link, method, request_serializer, response_deserializer)

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
    def __init__(self, inner: Any, link: OwnLink | None) -> None:
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


class _OverLink(grpc.UnaryUnaryMultiCallable):  # type: ignore[misc]
    """A procedure called in a frame of the calling participant's link; other threads call through grpc."""

    def __init__(
        self,
        through_grpc: _UnaryUnary,
        link: OwnLink | None,
        method: str,
        serialize: Callable[[Any], bytes] | None,
        deserialize: Callable[[bytes], Any] | None,
    ) -> None:
        self._through_grpc = through_grpc
        self._link = link
        self._head = len(method.encode()).to_bytes(2, "little") + method.encode()
        self._serialize = serialize or bytes
        self._deserialize = deserialize or bytes

    def __call__(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        connection = self._link.own_connection if self._link is not None else None
        if connection is None:
            return self._through_grpc(request, timeout=timeout, metadata=metadata, **kwargs)
        try:
            data = connection.request(Op.CALL, payload=self._head + self._serialize(request), wall_s=timeout)[2]
        except RpcFailed as failure:
            error = LinkRpcError(
                grpc.StatusCode[failure.told["code"]], failure.told["details"], failure.told["trailing"]
            )
            _raise_twin(error)
            raise error from None
        except WallTimeout:
            raise LinkRpcError(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", []) from None
        return self._deserialize(data)

    def with_call(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        return self._through_grpc.with_call(request, timeout=timeout, metadata=metadata, **kwargs)

    def future(self, request: Any, timeout: float | None = None, metadata: Any = None, **kwargs: Any) -> Any:
        return self._through_grpc.future(request, timeout=timeout, metadata=metadata, **kwargs)


class Metadatum(NamedTuple):
    """One entry of metadata, as grpc gives it."""

    key: str
    value: str


class LinkRpcError(grpc.RpcError):  # type: ignore[misc]
    """What grpc raises for a failed call, as far as clients look at it."""

    def __init__(self, code: grpc.StatusCode, details: str, trailing: list[list[str]]) -> None:
        super().__init__(f"{code.name}: {details}")
        self._code = code
        self._details = details
        self._trailing = tuple(Metadatum(key, value) for key, value in trailing)

    def code(self) -> grpc.StatusCode:
        return self._code

    def details(self) -> str:
        return self._details

    def trailing_metadata(self) -> tuple[Metadatum, ...]:
        return self._trailing

    def initial_metadata(self) -> tuple[Metadatum, ...]:
        return ()


def _raise_twin(error: Any) -> None:
    """The gate aborts a call with ABORTED when the twin failed or lost its owner: no DAQ error, so not told as one."""
    if error.code() == grpc.StatusCode.ABORTED:
        raise TwinError(error.details(), where="twin gRPC") from None
