"""The properties of tasks, channels and devices a client may ask for or set; any other is refused by its name.

Names are those of NI's published proto without their prefix, so they can be looked up in NI's documentation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from bench.twin.devices.nidaqmx import DRIVER_VERSION, NiDaqDevice
from bench.twin.devices.nidaqmx_channels import (
    OUTPUT_RANGE_V,
    VOLTAGE_RANGES,
    AnalogIn,
    AnalogOut,
    Channel,
    DigitalLines,
    Encoder,
)
from bench.twin.devices.nidaqmx_create import expand
from bench.twin.devices.nidaqmx_task import State, Task
from bench.twin.devices.nidaqmx_values import (
    DO_NOT_OVERWRITE,
    OVERWRITE,
    SAMPLE_CLOCK_TIMING,
    Code,
    DaqmxError,
    Kind,
    Mode,
)

DEFAULT_SAMPLES_TO_READ = "0x31e8"  # newer than the published proto: has a number only
_X_SERIES, _PCIE = 15858, 13612

Getter = Callable[[NiDaqDevice, Task], Any]

_TASK: dict[str, Getter] = {
    "NAME": lambda device, task: task.name,
    "CHANNELS": lambda device, task: ", ".join(channel.name for channel in task.channels),
    "NUM_CHANS": lambda device, task: len(task.channels),
    "DEVICES": lambda device, task: device.settings.device if task.channels else "",
    "NUM_DEVICES": lambda device, task: 1 if task.channels else 0,
    "COMPLETE": lambda device, task: task.done(),
}
_READ: dict[str, Getter] = {
    "NUM_CHANS": lambda device, task: len(task.channels),
    "AVAIL_SAMP_PER_CHAN": lambda device, task: max(0, task.unread()),
    "CURR_READ_POS": lambda device, task: task.position,
    "TOTAL_SAMP_PER_CHAN_ACQUIRED": lambda device, task: task.acquired(),
    "OVERWRITE": lambda device, task: OVERWRITE if task.overwrite else DO_NOT_OVERWRITE,
    "READ_ALL_AVAIL_SAMP": lambda device, task: task.read_all_available,
    "CHANNELS_TO_READ": lambda device, task: ", ".join(channel.name for channel in task.channels),
    "DIGITAL_LINES_BYTES_PER_CHAN": lambda device, task: _lines(task),
    "RAW_DATA_WIDTH": lambda device, task: len(task.channels) * (4 if task.kind is Kind.CI else 2),
    "AUTO_START": lambda device, task: True,
    DEFAULT_SAMPLES_TO_READ: lambda device, task: task.default_samples() if task.timing.clocked else 1,
}
_WRITE: dict[str, Getter] = {
    "NUM_CHANS": lambda device, task: len(task.channels),
    "DIGITAL_LINES_BYTES_PER_CHAN": lambda device, task: _lines(task),
}
_TIMING: dict[str, Getter] = {
    "SAMP_CLK_RATE": lambda device, task: task.timing.rate,
    "SAMP_CLK_MAX_RATE": lambda device, task: 1e9 / device.world.tick_ns,
    "SAMP_CLK_SRC": lambda device, task: task.timing.source or f"/{device.settings.device}/ai/SampleClockTimebase",
    "SAMP_CLK_TERM": lambda device, task: f"/{device.settings.device}/ai/SampleClock",
    "SAMP_QUANT_SAMP_MODE": lambda device, task: int(task.timing.mode if task.timing.clocked else Mode.FINITE),
    "SAMP_QUANT_SAMP_PER_CHAN": lambda device, task: task.timing.samples if task.timing.clocked else 1,
    "SAMP_TIMING_TYPE": lambda device, task: SAMPLE_CLOCK_TIMING if task.timing.clocked else int(Mode.ON_DEMAND),
}
_BUFFER: dict[str, Getter] = {"INPUT_BUF_SIZE": lambda device, task: task.buffer()}

_OF_TASK = {"Task": _TASK, "Read": _READ, "Write": _WRITE, "Timing": _TIMING, "Buffer": _BUFFER}


def get(device: NiDaqDevice, family: str, name: str, task: Task | None, subject: str) -> Any:
    """Return a property; ``family`` as in the RPC's name, ``subject`` the channels or the device it is asked of.

    Raises
    ------
    DaqmxError
        -200452 for a property the simulated device does not have.
    """
    if family in _OF_TASK and task is not None:
        getter = _OF_TASK[family].get(name)
        if getter is not None:
            return getter(device, task)
    elif family == "Chan" and task is not None:
        values = [
            value for value in (_channel(channel, name) for channel in _named(task, subject)) if value is not None
        ]
        if values:
            return values[0]
    elif family == "Device":
        if subject.lower() != device.settings.device.lower():
            raise DaqmxError(Code.NO_SUCH_DEVICE, f"Device Specified: {subject}")
        device.reachable()
        found = _device(device).get(name)
        if found is not None:
            return found
    elif family == "SystemInfo":
        found = _system(device).get(name)
        if found is not None:
            return found
    raise _unknown(family, name)


def put(device: NiDaqDevice, family: str, name: str, task: Task, subject: str, value: Any) -> None:
    """Set a property of a task or of its channels."""
    if task.state is State.RUNNING:
        raise task.error(Code.RUNNING)
    timing = task.timing
    if (family, name) == ("Buffer", "INPUT_BUF_SIZE"):
        task.buffer_size = int(value)
    elif (family, name) == ("Read", "OVERWRITE"):
        task.overwrite = int(value) == OVERWRITE
    elif (family, name) == ("Read", "READ_ALL_AVAIL_SAMP"):
        task.read_all_available = bool(value)
    elif (family, name) == ("Timing", "SAMP_CLK_RATE"):
        mode = timing.mode if timing.clocked else Mode.FINITE
        device.configure_timing(task, float(value), timing.source, mode, timing.samples)
    elif (family, name) == ("Timing", "SAMP_QUANT_SAMP_PER_CHAN") and timing.clocked:
        device.configure_timing(task, timing.rate, timing.source, timing.mode, int(value))
    elif (family, name) == ("Timing", "SAMP_CLK_SRC") and timing.clocked:
        device.configure_timing(task, timing.rate, str(value), timing.mode, timing.samples)
    elif family == "Chan" and name in ("AI_MAX", "AI_MIN", "AO_MAX", "AO_MIN"):
        for channel in _named(task, subject):
            if not isinstance(channel, AnalogIn | AnalogOut) or not name.startswith(channel.kind.name):
                raise _unknown(family, name)
            setattr(channel, "maximum" if name.endswith("MAX") else "minimum", float(value))
        task.state = State.UNVERIFIED
    elif (family, name) == ("Chan", "DI_TRISTATE"):
        for channel in _named(task, subject):
            if not isinstance(channel, DigitalLines) or channel.kind is not Kind.DI:
                raise _unknown(family, name)
            channel.tristate = bool(value)
        task.state = State.UNVERIFIED
    else:
        raise _unknown(family, name)


def _unknown(family: str, name: str) -> DaqmxError:
    return DaqmxError(Code.ATTRIBUTE, f"Property: {family} {name} (the simulated device does not have it)")


def _named(task: Task, names: str) -> list[Channel]:
    """The channels ``names`` stands for; all for an empty string."""
    if not names:
        return task.channels
    wanted = expand(names)
    found = [channel for channel in task.channels if channel.name in wanted or channel.name == names]
    if not found:
        raise task.error(Code.NO_SUCH_CHANNEL, f"Channel: {names}")
    return found


def _lines(task: Task) -> int:
    return max((len(channel.lines) for channel in task.channels if isinstance(channel, DigitalLines)), default=0)


def _channel(channel: Channel, name: str) -> Any:
    common: dict[str, Any] = {
        "CHAN_TYPE": int(channel.kind),
        "PHYSICAL_CHAN_NAME": channel.physical,
        "CHAN_DESCR": "",
        "CHAN_IS_GLOBAL": False,
        **channel.attributes,
    }
    if isinstance(channel, AnalogIn):
        common |= {
            "AI_MEAS_TYPE": channel.usage,
            "AI_MAX": channel.maximum,
            "AI_MIN": channel.minimum,
            "AI_RNG_HIGH": channel.full_scale(),
            "AI_RNG_LOW": -channel.full_scale(),
            "AI_RESOLUTION": float(channel.bits),
            "AI_RAW_SAMP_SIZE": 16,
        }
    elif isinstance(channel, Encoder):
        common |= {"CI_MEAS_TYPE": channel.usage}
    elif isinstance(channel, AnalogOut):
        common |= {"AO_MAX": channel.maximum, "AO_MIN": channel.minimum}
    elif isinstance(channel, DigitalLines):
        common |= {f"{channel.kind.name}_NUM_LINES": len(channel.lines)}
        if channel.kind is Kind.DI:
            common["DI_TRISTATE"] = channel.tristate
    return common.get(name)


def _device(device: NiDaqDevice) -> dict[str, Any]:
    settings, rate = device.settings, 1e9 / device.world.tick_ns

    def terminals(prefix: str, kind: str = "") -> str:
        return ", ".join(
            f"{settings.device}/{name}"
            for name, what in device.bus.channels().items()
            if name.startswith(prefix) and (not kind or what != kind)
        )

    return {
        "PRODUCT_TYPE": settings.product_type,
        "PRODUCT_CATEGORY": _X_SERIES,
        "BUS_TYPE": _PCIE,
        "SERIAL_NUM": settings.serial_number,
        "IS_SIMULATED": True,
        "AI_PHYSICAL_CHANS": terminals("ai"),
        "AO_PHYSICAL_CHANS": terminals("ao"),
        "CI_PHYSICAL_CHANS": terminals("ctr"),
        "DI_LINES": terminals("port"),
        "DO_LINES": terminals("port", "digital_in"),
        "AI_MAX_SINGLE_CHAN_RATE": rate,
        "AI_MAX_MULTI_CHAN_RATE": rate,
        "AI_MIN_RATE": rate / 2**31,
        "AI_SIMULTANEOUS_SAMPLING_SUPPORTED": True,
        "AI_VOLTAGE_RNGS": [sign * end for end in VOLTAGE_RANGES for sign in (-1, 1)],
        "AO_VOLTAGE_RNGS": [-OUTPUT_RANGE_V, OUTPUT_RANGE_V],
    }


def _system(device: NiDaqDevice) -> dict[str, Any]:
    major, minor, update = DRIVER_VERSION
    return {
        "NIDAQ_MAJOR_VERSION": major,
        "NIDAQ_MINOR_VERSION": minor,
        "NIDAQ_UPDATE_VERSION": update,
        "DEV_NAMES": device.settings.device,
        "GLOBAL_CHANS": "",
        "SCALES": "",
        "TASKS": "",
    }
