"""What each of NI's remote procedures does with the simulated device: requests unpacked, responses packed.

Messages come from the installed ``nidaqmx`` package. A body gets (device, request, participant) with the world's lock
held and returns the response, or a function that builds it once the lock is free.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from nidaqmx._stubs import nidaqmx_pb2 as pb
from numpy.typing import NDArray

from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_channels import AnalogIn, DigitalLines, Encoder, readings
from bench.twin.devices.nidaqmx_task import Task
from bench.twin.devices.nidaqmx_values import (
    BY_SCAN,
    TEXT,
    USAGE_FORCE_BRIDGE,
    USAGE_TORQUE_BRIDGE,
    Code,
    DaqmxError,
)
from bench.twin.interfaces import Participant

Body = Callable[[NiDaqDevice, Any, Participant], Any]


def pick(request: Any, name: str) -> int:
    """Return an enumeration's value, given as itself or as a raw number."""
    return int(getattr(request, request.WhichOneof(f"{name}_enum") or name))


def _padded(values: NDArray[Any], size: int, dtype: str) -> NDArray[Any]:
    """Return ``values`` flat, filled up with zeros to ``size``, as NI's server sends them."""
    if values.size > size:
        raise DaqmxError(-200229, f"the read buffer holds {size} samples, {values.size} were read")
    padded = np.zeros(size, dtype=dtype)
    padded[: values.size] = values.ravel()
    return padded


def _packed(response: Any, values: NDArray[Any]) -> Any:
    """Put doubles into ``read_array``: the packed field's bytes are the array's own."""
    number = response.DESCRIPTOR.fields_by_name["read_array"].number
    length, varint = values.nbytes, bytearray()
    while length > 0x7F:
        varint.append(length & 0x7F | 0x80)
        length >>= 7
    varint.append(length)
    response.MergeFromString(bytes([number << 3 | 2]) + bytes(varint) + values.tobytes())
    return response


def _task(device: NiDaqDevice, request: Any) -> Task:
    return device.task(request.task.name)


def _numeric(
    device: NiDaqDevice, request: Any, participant: Participant, response: type, *, scaled: bool, by_scan: bool = False
) -> Callable[[], Any]:
    """Read analog or counter samples; the response is built after the lock is gone."""
    task = _task(device, request)
    channels = _inputs(task, response)
    reading = device.read(task, participant, request.num_samps_per_chan, request.timeout)

    def respond() -> Any:
        rows = _scaled(channels, reading.data) if scaled else reading.data
        # A short read leaves no holes: the samples of all channels stand together at the front, as the driver does it.
        values = rows.T if by_scan else rows
        made = response(status=reading.status, samps_per_chan_read=reading.samples)
        padded = _padded(values, request.array_size_in_samps, "<f8" if scaled else "<i8")
        if scaled:
            return _packed(made, padded)
        made.read_array.extend((padded & 0xFFFFFFFF if isinstance(channels[0], Encoder) else padded).tolist())
        return made

    return respond


def _inputs(task: Task, response: type) -> list[AnalogIn] | list[Encoder]:
    """Return the channels, which must be of the kind the procedure reads."""
    return task.of(Encoder) if "Counter" in response.__name__ else task.of(AnalogIn)


def _scaled(channels: list[AnalogIn] | list[Encoder], raw: NDArray[np.int64]) -> NDArray[np.float64]:
    if isinstance(channels[0], Encoder):
        return channels[0].scaled(raw)  # a counter task has one channel
    return readings([channel for channel in channels if isinstance(channel, AnalogIn)], raw)


def _scalar(device: NiDaqDevice, request: Any, participant: Participant, response: type, *, scaled: bool) -> Any:
    task = _task(device, request)
    channels = _inputs(task, response)
    if len(channels) != 1:
        raise task.error(Code.READ_TYPE, "a scalar read needs a task of one channel")
    reading = device.read(task, participant, 1, request.timeout)
    if reading.status < 0:
        raise task.error(Code(reading.status), samples_read=0)
    raw = reading.data
    return response(value=float(_scaled(channels, raw)[0, 0]) if scaled else int(raw[0, 0]) & 0xFFFFFFFF)


def _levels(device: NiDaqDevice, task: Task) -> list[list[bool]]:
    found: list[list[bool]] = []
    device.on_demand(task, True, lambda: found.extend(task.read_lines()))
    return found


def _count(request: Any, task: Task) -> int:
    if request.num_samps_per_chan not in (1, -1):
        raise task.error(
            Code.INVALID_VALUE, f"{request.num_samps_per_chan} samples: lines are read on demand, one by one"
        )
    return 1


def _ports(device: NiDaqDevice, task: Task) -> list[int]:
    """Return each channel's lines as one integer, every line at its place in the port."""
    channels = task.of(DigitalLines)
    return [
        sum(int(level) << shift for level, shift in zip(levels, channel.shifts(), strict=True))
        for channel, levels in zip(channels, _levels(device, task), strict=True)
    ]


def _read_lines(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
    task = _task(device, request)
    levels = [level for channel in _levels(device, task) for level in channel]
    values = _padded(np.array(levels, np.uint8), request.array_size_in_bytes, "u1")
    lines = max(len(channel.lines) for channel in task.of(DigitalLines))
    read = _count(request, task)
    return pb.ReadDigitalLinesResponse(read_array=values.tobytes(), samps_per_chan_read=read, num_bytes_per_samp=lines)


def _read_ports(device: NiDaqDevice, request: Any, participant: Participant, response: type) -> Any:
    task = _task(device, request)
    values = _padded(np.array(_ports(device, task), np.int64), request.array_size_in_samps, "<i8")
    field = response.DESCRIPTOR.fields_by_name["read_array"]  # type: ignore[attr-defined]
    data = values.astype("u1").tobytes() if field.type == field.TYPE_BYTES else values.tolist()
    return response(read_array=data, samps_per_chan_read=_count(request, task))


def _write_levels(device: NiDaqDevice, request: Any, task: Task, levels: list[list[bool]]) -> None:
    device.on_demand(task, request.auto_start, lambda: task.write_lines(levels))


def _write_lines(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
    task = _task(device, request)
    data, levels = list(request.write_array), []
    for channel in task.of(DigitalLines, Code.WRITE_TYPE):
        levels.append([bool(value) for value in data[: len(channel.lines)]])
        del data[: len(channel.lines)]
    if data:
        raise task.error(Code.WRITE_CHANNELS, "lines are written on demand, one sample at a time")
    _write_levels(device, request, task, levels)
    return pb.WriteDigitalLinesResponse(samps_per_chan_written=1)


def _write_ports(device: NiDaqDevice, request: Any, participant: Participant, response: type) -> Any:
    task = _task(device, request)
    values = [request.value] if hasattr(request, "value") else list(request.write_array)
    channels = task.of(DigitalLines, Code.WRITE_TYPE)
    if len(values) != len(channels):
        raise task.error(Code.WRITE_CHANNELS, f"{len(values)} values for {len(channels)} channels")
    levels = [[bool(value >> s & 1) for s in channel.shifts()] for value, channel in zip(values, channels, strict=True)]
    _write_levels(device, request, task, levels)
    return response(**({} if hasattr(request, "value") else {"samps_per_chan_written": 1}))


def _write_volts(device: NiDaqDevice, request: Any, participant: Participant, response: type) -> Any:
    task = _task(device, request)
    volts = [request.value] if hasattr(request, "value") else list(request.write_array)
    device.on_demand(task, request.auto_start, lambda: task.write_volts(volts))
    return response(**({} if hasattr(request, "value") else {"samps_per_chan_written": 1}))


def _create_task(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
    task, new = device.open_session(request.session_name, request.initialization_behavior)
    response = pb.CreateTaskResponse(new_session_initialized=new)
    response.task.name = task.session
    return response


def _bridge(device: NiDaqDevice, r: Any, usage: int | None) -> None:
    scaled: dict[str, Any] = {}
    if usage is not None:
        scaled = {
            "usage": usage,
            "points": (r.first_electrical_val, r.second_electrical_val, r.first_physical_val, r.second_physical_val),
            "electrical_units": pick(r, "electrical_units"),
            "physical_units": pick(r, "physical_units"),
        }
    device.create.bridge(
        _task(device, r),
        r.physical_channel,
        r.name_to_assign_to_channel,
        (r.min_val, r.max_val),
        pick(r, "units"),
        configuration=pick(r, "bridge_config"),
        excitation=r.voltage_excit_val,
        **scaled,
    )


def _encoder(device: NiDaqDevice, r: Any, *, angular: bool) -> None:
    device.create.encoder(
        _task(device, r),
        r.counter,
        r.name_to_assign_to_channel,
        pick(r, "decoding_type"),
        r.zidx_enable,
        pick(r, "units"),
        r.pulses_per_rev if angular else r.dist_per_pulse,
        r.initial_angle if angular else r.initial_pos,
        angular=angular,
    )


def _digital(device: NiDaqDevice, r: Any, *, output: bool) -> None:
    device.create.digital(_task(device, r), r.lines, r.name_to_assign_to_lines, pick(r, "line_grouping"), output=output)


# RPCs that do one thing and answer with an empty response.
_PLAIN: dict[str, Callable[[NiDaqDevice, Any], Any]] = {
    "CreateAIVoltageChan": lambda d, r: d.create.voltage(
        _task(d, r), r.physical_channel, r.name_to_assign_to_channel, r.min_val, r.max_val, pick(r, "units")
    ),
    "CreateAIBridgeChan": lambda d, r: _bridge(d, r, None),
    "CreateAIForceBridgeTwoPointLinChan": lambda d, r: _bridge(d, r, USAGE_FORCE_BRIDGE),
    "CreateAITorqueBridgeTwoPointLinChan": lambda d, r: _bridge(d, r, USAGE_TORQUE_BRIDGE),
    "CreateCILinEncoderChan": lambda d, r: _encoder(d, r, angular=False),
    "CreateCIAngEncoderChan": lambda d, r: _encoder(d, r, angular=True),
    "CreateDIChan": lambda d, r: _digital(d, r, output=False),
    "CreateDOChan": lambda d, r: _digital(d, r, output=True),
    "CreateAOVoltageChan": lambda d, r: d.create.voltage_out(
        _task(d, r), r.physical_channel, r.name_to_assign_to_channel, r.min_val, r.max_val, pick(r, "units")
    ),
    "CfgSampClkTiming": lambda d, r: d.configure_timing(
        _task(d, r), r.rate, r.source, pick(r, "sample_mode"), r.samps_per_chan
    ),
    "StartTask": lambda d, r: d.start(_task(d, r)),
    "ClearTask": lambda d, r: d.clear(_task(d, r)),
    "TaskControl": lambda d, r: d.control(_task(d, r), pick(r, "action")),
    "ResetDevice": lambda d, r: d.reset_device(r.device_name),
    "SelfTestDevice": lambda d, r: d.reachable(),
    "UnregisterEveryNSamplesEvent": lambda d, r: None,  # the stream that carries it is cancelled by the client
    "UnregisterDoneEvent": lambda d, r: None,
}


def _wait_done(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
    _task(device, request).wait_done(participant, request.time_to_wait)
    return pb.WaitUntilTaskDoneResponse()


# RPCs with an answer of their own.
_FULL: dict[str, Body] = {
    "CreateTask": _create_task,
    "StopTask": lambda d, r, p: pb.StopTaskResponse(status=d.stop(_task(d, r))),
    "IsTaskDone": lambda d, r, p: pb.IsTaskDoneResponse(is_task_done=_task(d, r).done()),
    "WaitUntilTaskDone": _wait_done,
    "GetErrorString": lambda d, r, p: pb.GetErrorStringResponse(error_string=TEXT.get(r.error_code, "")),
    "ReadAnalogF64": lambda d, r, p: _numeric(
        d, r, p, pb.ReadAnalogF64Response, scaled=True, by_scan=pick(r, "fill_mode") == BY_SCAN
    ),
    "ReadBinaryI16": lambda d, r, p: _numeric(
        d, r, p, pb.ReadBinaryI16Response, scaled=False, by_scan=pick(r, "fill_mode") == BY_SCAN
    ),
    "ReadCounterF64": lambda d, r, p: _numeric(d, r, p, pb.ReadCounterF64Response, scaled=True),
    "ReadCounterF64Ex": lambda d, r, p: _numeric(d, r, p, pb.ReadCounterF64ExResponse, scaled=True),
    "ReadCounterU32": lambda d, r, p: _numeric(d, r, p, pb.ReadCounterU32Response, scaled=False),
    "ReadCounterU32Ex": lambda d, r, p: _numeric(d, r, p, pb.ReadCounterU32ExResponse, scaled=False),
    "ReadAnalogScalarF64": lambda d, r, p: _scalar(d, r, p, pb.ReadAnalogScalarF64Response, scaled=True),
    "ReadCounterScalarF64": lambda d, r, p: _scalar(d, r, p, pb.ReadCounterScalarF64Response, scaled=True),
    "ReadCounterScalarU32": lambda d, r, p: _scalar(d, r, p, pb.ReadCounterScalarU32Response, scaled=False),
    "ReadDigitalLines": _read_lines,
    "ReadDigitalU8": lambda d, r, p: _read_ports(d, r, p, pb.ReadDigitalU8Response),
    "ReadDigitalU16": lambda d, r, p: _read_ports(d, r, p, pb.ReadDigitalU16Response),
    "ReadDigitalU32": lambda d, r, p: _read_ports(d, r, p, pb.ReadDigitalU32Response),
    "ReadDigitalScalarU32": lambda d, r, p: pb.ReadDigitalScalarU32Response(value=_ports(d, _task(d, r))[0]),
    "WriteDigitalLines": _write_lines,
    "WriteDigitalU8": lambda d, r, p: _write_ports(d, r, p, pb.WriteDigitalU8Response),
    "WriteDigitalU16": lambda d, r, p: _write_ports(d, r, p, pb.WriteDigitalU16Response),
    "WriteDigitalU32": lambda d, r, p: _write_ports(d, r, p, pb.WriteDigitalU32Response),
    "WriteDigitalScalarU32": lambda d, r, p: _write_ports(d, r, p, pb.WriteDigitalScalarU32Response),
    "WriteAnalogF64": lambda d, r, p: _write_volts(d, r, p, pb.WriteAnalogF64Response),
    "WriteAnalogScalarF64": lambda d, r, p: _write_volts(d, r, p, pb.WriteAnalogScalarF64Response),
}


def _plain(name: str, action: Callable[[NiDaqDevice, Any], Any]) -> Body:
    response = getattr(pb, f"{name}Response")

    def body(device: NiDaqDevice, request: Any, participant: Participant) -> Any:
        action(device, request)
        return response()

    return body


BODIES: dict[str, Body] = {**_FULL, **{name: _plain(name, action) for name, action in _PLAIN.items()}}
"""Every served procedure by its name; attributes and events are in :mod:`bench.twin.devices.nidaqmx_grpc`."""
