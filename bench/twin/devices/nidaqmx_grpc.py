"""NI's gRPC service in front of the simulated device, for the unmodified ``nidaqmx`` package.

::

    server = serve(NiDaqDevice(world, bus), gate)       # any free port
    channel = grpc.insecure_channel(server.address)     # nidaqmx.Task(grpc_options=GrpcSessionOptions(channel, ""))

The service comes from the installed package. Errors travel as NI's server sends them: status UNKNOWN, the message in
the details, the code in the trailing metadata ``ni-error``; a read that timed out is no error on the wire but a
response with a status and the samples there were. What is not served answers UNIMPLEMENTED with its name.
"""

from __future__ import annotations

import queue
import re
import traceback
from collections.abc import Callable, Iterator
from concurrent import futures
from typing import Any

import grpc
from nidaqmx._stubs import nidaqmx_pb2 as pb
from nidaqmx._stubs import nidaqmx_pb2_grpc as rpc

from bench.twin.devices import nidaqmx_attributes as attributes
from bench.twin.devices.nidaqmx import NiDaqDevice, SessionError
from bench.twin.devices.nidaqmx_rpcs import BODIES, Body, pick
from bench.twin.devices.nidaqmx_values import Code, DaqmxError
from bench.twin.interfaces import CallGate, Participant

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
EVENTS_QUEUED = 1000
WORKERS = 32  # a waiting read and an event stream each keep one

Handler = Callable[[Any, Any, Any], Any]

_ATTRIBUTE_RPC = re.compile(
    r"(?P<verb>Get|Set)(?P<family>Task|Read|Write|Timing|Buffer|Chan|Device|SystemInfo)Attribute"
    r"(?P<type>(Bool|Double|Int32|UInt32|UInt64|String)(Array)?)"
)
_ENUM_PREFIX = {"Chan": "Channel", "SystemInfo": "System"}


class NiDaqService(rpc.NiDAQmxServicer):  # type: ignore[misc]
    """The servicer; its methods are made from the tables of procedures, one per name NI publishes."""

    def __init__(self, device: NiDaqDevice, gate: CallGate) -> None:
        self.device = device
        self.gate = gate


def _answer(context: Any, error: DaqmxError) -> None:
    metadata = [("ni-error", str(error.code))]
    if error.samples_read is not None:
        metadata.append(("ni-samps-per-chan-read", str(error.samples_read)))
    context.set_trailing_metadata(tuple(metadata))
    context.abort(grpc.StatusCode.UNKNOWN, error.text)


def _handler(name: str, body: Body) -> Handler:
    """Wrap ``body`` (request, participant → response or what makes it): lock, participant, errors."""

    def handle(self: NiDaqService, request: Any, context: Any) -> Any:
        result: Any = None
        try:
            with self.gate.call(context, name) as participant:
                result = body(self.device, request, participant)
            if callable(result):  # building a large response needs no lock
                result = result()
        except DaqmxError as error:
            _answer(context, error)
        except SessionError as error:
            code = grpc.StatusCode.ALREADY_EXISTS if error.taken else grpc.StatusCode.FAILED_PRECONDITION
            context.abort(code, str(error))
        except Exception as error:
            if type(error) is Exception:  # gRPC's own way to end an aborted call
                raise
            traceback.print_exc()
            context.abort(grpc.StatusCode.INTERNAL, f"twin_fault in {name}: {type(error).__name__}: {error}")
        return result

    return handle


def _unserved(name: str) -> Handler:
    def handle(self: NiDaqService, request: Any, context: Any) -> Any:
        self.device.unsupported[name] = self.device.unsupported.get(name, 0) + 1
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"{name} is not simulated by the twin's NI-DAQmx device")

    return handle


# -- attributes -------------------------------------------------------------------------------------------------------


def _attribute_name(family: str, kind: str, number: int) -> str:
    """Return the published name of an attribute without its prefix, or its number in hexadecimal."""
    prefix = _ENUM_PREFIX.get(family, family)
    enum = getattr(pb, f"{prefix}{kind}Attribute", None)
    if enum is not None and number in enum.values():
        return str(enum.Name(number)).removeprefix(f"{prefix.upper()}_ATTRIBUTE_")
    return f"{number:#x}"


def _attribute(verb: str, family: str, kind: str) -> Body:
    response = getattr(pb, f"{verb}{family}Attribute{kind}Response")

    def body(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
        name = _attribute_name(family, kind, pick(request, "attribute"))
        task = device.task(request.task.name) if hasattr(request, "task") else None
        subject = str(getattr(request, "channel", "") or getattr(request, "device_name", ""))
        if verb == "Set":
            if task is None:
                raise DaqmxError(Code.ATTRIBUTE, f"Property: {family} {name} cannot be set")
            value = pick(request, "value") if hasattr(request, "value_raw") else request.value
            attributes.put(device, family, name, task, subject, value)
            return response()
        value = attributes.get(device, family, name, task, subject)
        answer = response()
        field = "value_raw" if hasattr(answer, "value_raw") else "value"
        if isinstance(value, list):
            getattr(answer, field).extend(value)
        else:
            setattr(answer, field, value)
        return answer

    return body


# -- events -----------------------------------------------------------------------------------------------------------


def _event(name: str, every: Callable[[Any], int], message: Callable[[Any], Any]) -> Handler:
    """Serve an event stream; the registration is acknowledged by the initial metadata, before anything else."""

    def handle(self: NiDaqService, request: Any, context: Any) -> Iterator[Any]:
        fired: queue.Queue[None] = queue.Queue(EVENTS_QUEUED)

        def fire() -> None:  # with the world's lock held: never wait here
            if not fired.full():
                fired.put_nowait(None)

        try:
            with self.gate.call(context, name):
                task = self.device.task(request.task.name)
                withdraw = self.device.register_event(task, every(request), fire)
        except DaqmxError as error:
            _answer(context, error)
        context.send_initial_metadata(())
        try:
            while context.is_active() and not (task.gone and fired.empty()):
                try:
                    fired.get(timeout=0.05)
                except queue.Empty:
                    continue
                yield message(request)
        finally:
            with self.device.world.lock:
                withdraw()

    return handle


def _interval(request: Any) -> int:
    if pick(request, "every_n_samples_event_type") != 1:
        raise DaqmxError(Code.EVENT_NOT_BUFFERED, "events of samples transferred from the buffer are not simulated")
    if request.n_samples < 1:
        raise DaqmxError(Code.EVENT_INTERVAL)
    return int(request.n_samples)


def _every_n(request: Any) -> Any:
    return pb.RegisterEveryNSamplesEventResponse(every_n_samples_event_type_raw=1, n_samples=request.n_samples)


_EVENTS: dict[str, Handler] = {
    "RegisterEveryNSamplesEvent": _event("RegisterEveryNSamplesEvent", _interval, _every_n),
    "RegisterDoneEvent": _event("RegisterDoneEvent", lambda request: 0, lambda request: pb.RegisterDoneEventResponse()),
}


# -- the service and its server ---------------------------------------------------------------------------------------


def _method(name: str) -> Handler:
    if name in BODIES:
        return _handler(name, BODIES[name])
    if name in _EVENTS:
        return _EVENTS[name]
    match = _ATTRIBUTE_RPC.fullmatch(name)
    if match is not None and hasattr(pb, f"{name}Response"):
        return _handler(name, _attribute(match["verb"], match["family"], match["type"]))
    return _unserved(name)


for _name in [name for name in vars(rpc.NiDAQmxServicer) if name[0].isupper()]:
    setattr(NiDaqService, _name, _method(_name))


class DaqServer:
    """A running service; ``address`` is where it listens."""

    def __init__(self, server: grpc.Server, address: str) -> None:
        self._server = server
        self.address = address

    def stop(self, grace_s: float = 0.0) -> None:
        """End the service; calls under way get ``grace_s``."""
        self._server.stop(grace_s or None).wait(5.0)

    def __enter__(self) -> DaqServer:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


def serve(device: NiDaqDevice, gate: CallGate, *, host: str = "127.0.0.1", port: int = 0) -> DaqServer:
    """Start the service on ``host``:``port`` (0: any free port)."""
    options = [
        ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
        ("grpc.so_reuseport", 0),  # a second twin on the same port is an error, not a lottery
    ]
    pool = futures.ThreadPoolExecutor(WORKERS, thread_name_prefix="nidaqmx")
    server = grpc.server(pool, options=options)
    rpc.add_NiDAQmxServicer_to_server(NiDaqService(device, gate), server)
    bound = server.add_insecure_port(f"{host}:{port}")
    server.start()
    return DaqServer(server, f"{host}:{bound}")
