"""NI-DAQmx's errors as the bench's own: which device and task, which code, and what to do about it."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from bench.errors import DaqDeviceError, InstrumentDisconnected, InstrumentError, InstrumentTimeout

TIMEOUT = -200284
RESERVED = -50103
INVALID_TASK = -200088

_CABLE = "Check its power, its cable and that no other driver took it, then open the station again"
_NAMES = "Compare the rig profile with the names the device has (NI MAX, or `nilsdev` on Linux)"

REMEDIES: dict[int, str] = {
    RESERVED: "Another program holds it, or a killed run left its session behind: close that program, or clear the "
    "device with NiDaq.reset(), which aborts every task on it",
    -200587: "Another task uses the line: close it, or clear the device with NiDaq.reset()",
    -200022: "Another task uses the resource: close it, or clear the device with NiDaq.reset()",
    -200279: "The samples are lost: read sooner and in larger blocks (about ten a second), or give the rig profile a "
    "longer daq.buffer",
    -200222: "The samples are lost: read sooner and in larger blocks, or give the rig profile a longer daq.buffer",
    -200361: "The device's own memory overflowed: lower daq.sample_rate, or give the device a faster bus",
    TIMEOUT: "The sample clock does not run or the wait was too short: check that the analog task was started and that "
    "the timeout is longer than the block",
    -200278: "The acquisition has ended: start it again before reading",
    INVALID_TASK: "The session was cleared, by a reset or by another client: open the acquisition again",
    -200220: f"{_NAMES} and set daq.device",
    -200170: f"{_NAMES} and correct the channel",
    -200430: "This measurement cannot be made on that channel: check what is wired to it",
    -200431: "This measurement cannot be made on that channel: check what is wired to it",
    -200077: "The device cannot do this value: see its limits in the message, and correct the rig profile",
    -200561: "The voltage is outside the output's range: correct the value or the range",
    -201093: "Set daq.sample_rate to a rate the device can do (see the message)",
    -200081: "Set daq.sample_rate to a rate the device can do (see the message)",
    -200303: "The counter has no clock of its own: let it share the analog inputs' sample clock",
    -89120: "The device has no such terminal to take a clock from: check the device's name in the profile",
    -88709: "The task was ended while it waited, by a reset or by another client: start it again",
    -88710: "The device was reset while the task ran: start it again",
    -200452: "This device does not know the property: the bench needs a device with clocked inputs and counters",
    -201003: _CABLE,
    -200045: _CABLE,
    -200324: _CABLE,
}
DEFAULT_REMEDY = "Look the code up in NI's documentation; the bench has no advice for it"
_GONE = frozenset((-201003, -200045, -200324))


class DaqTimeout(DaqDeviceError, InstrumentTimeout):
    """Samples or an answer did not come in time."""


class DaqDisconnected(DaqDeviceError, InstrumentDisconnected):
    """The device or its server is gone."""


def translate(error: BaseException, where: str) -> InstrumentError | None:
    """Return the bench's error for one of ``nidaqmx`` or gRPC; None when ``error`` is neither.

    Parameters
    ----------
    error : BaseException
        What was caught.
    where : str
        Device, task and channels, as a message names them.
    """
    import grpc
    from nidaqmx import errors

    if isinstance(error, errors.DaqError):
        return _from_status(int(error.error_code), str(error), where)
    if isinstance(error, errors.RpcError):
        return _from_rpc(error.rpc_code, str(error.description), where)
    if isinstance(error, grpc.RpcError) and hasattr(error, "code"):
        return _from_rpc(error.code(), str(error.details()), where)
    if isinstance(error, errors.DaqNotFoundError | errors.DaqNotSupportedError):
        return DaqDeviceError(
            "NI-DAQmx's driver is not installed on this machine",
            where=where,
            remedy="Install NI-DAQmx, set daq.server in the rig profile to a machine that has it (NI gRPC Device "
            "Server), or use the mock backend",
        )
    if isinstance(error, errors.DaqFunctionNotSupportedError):
        return DaqDeviceError(
            f"the installed NI-DAQmx driver is too old ({error})", where=where, remedy="Update NI-DAQmx"
        )
    return None


def _from_status(code: int, message: str, where: str) -> InstrumentError:
    paragraphs = [line.strip() for line in message.split("\n") if line.strip()]
    kept = [line for line in paragraphs if not line.startswith(("Status Code", "Task Name"))]
    what = f"{'; '.join(line.rstrip('.') for line in kept)} (DAQmx {code})"
    kind = DaqTimeout if code == TIMEOUT else DaqDisconnected if code in _GONE else DaqDeviceError
    return kind(what, code=code, where=where, remedy=REMEDIES.get(code, DEFAULT_REMEDY))


def _from_rpc(status: Any, details: str, where: str) -> InstrumentError:
    name = getattr(status, "name", str(status))
    if name == "UNAVAILABLE":
        return DaqDisconnected(
            "the DAQ's device server does not answer",
            where=where,
            remedy="Start NI gRPC Device Server on the machine of daq.server (or the twin), and check the address",
        )
    if name == "DEADLINE_EXCEEDED":
        return DaqTimeout(
            "the DAQ's device server did not answer before the deadline",
            where=where,
            remedy="The server hangs: restart it; if it is only slow, give the rig profile a longer daq.rpc_deadline",
        )
    if name == "UNIMPLEMENTED":
        return DaqDeviceError(
            f"the DAQ's device server does not know this call ({details})", where=where, remedy="Update the server"
        )
    return DaqDeviceError(
        f"the DAQ's device server answered {name}: {details}", where=where, remedy="See the server's log"
    )


class Guard:
    """Turns what ``nidaqmx`` raises inside a ``with`` block into the bench's errors. Reusable, cheap."""

    __slots__ = ("where",)

    def __init__(self, where: str) -> None:
        self.where = where

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            translated = translate(error, self.where)
            if translated is not None:
                raise translated from error
