"""The numbers of NI-DAQmx: status codes with what they mean, and the enumerations the simulated device understands.

Codes and values are those of NI's public header ``NIDAQmx.h``; the sentences are the bench's own.
"""

from __future__ import annotations

from enum import IntEnum


class Code(IntEnum):
    """Status codes the simulated device can answer with."""

    RESERVED = -50103
    NO_SUCH_TERMINAL = -89120
    ABORTED = -88709
    INVALID_VALUE = -200077
    INVALID_TASK = -200088
    MULTIPLE_COUNTERS = -200147
    NO_SUCH_CHANNEL = -200170
    NO_SUCH_DEVICE = -200220
    BEYOND_LAST_SAMPLE = -200278
    OVERWRITTEN = -200279
    TIMEOUT = -200284
    NO_CLOCK_SOURCE = -200303
    CHANNEL_TYPE = -200430
    ATTRIBUTE = -200452
    READ_WITHOUT_INPUTS = -200460
    NO_CHANNELS = -200478
    RUNNING = -200479
    CHANNEL_TWICE = -200489
    WRITE_CHANNELS = -200524
    READ_TYPE = -200525
    WRITE_TYPE = -200526
    MIXED_CHANNELS = -200559
    NOT_DONE = -200560
    AO_RANGE = -200561
    EVENT_INTERVAL = -200880
    EVENT_NOT_BUFFERED = -200848
    EVENT_WHILE_RUNNING = -200960
    EVENT_TWICE = -200966
    GONE = -201003
    RATE = -201093
    STOPPED_EARLY = 200010


TEXT: dict[int, str] = {
    Code.RESERVED: "The specified resource is reserved. The operation could not be completed as specified.",
    Code.NO_SUCH_TERMINAL: "The source terminal could not be found on the device.",
    Code.ABORTED: "The operation was ended because the task was aborted, cleared or its device reset.",
    Code.INVALID_VALUE: "The requested value is not a supported value for this property.",
    Code.INVALID_TASK: "The specified task is invalid or does not exist.",
    Code.MULTIPLE_COUNTERS: "A counter input task takes one counter only.",
    Code.NO_SUCH_CHANNEL: "The specified physical channel does not exist on this device.",
    Code.NO_SUCH_DEVICE: "The device identifier is invalid.",
    Code.BEYOND_LAST_SAMPLE: "The task has stopped acquiring: the samples asked for will never be available.",
    Code.OVERWRITTEN: "The application does not keep up with the acquisition: unread samples were overwritten.",
    Code.TIMEOUT: "Some or all of the samples requested have not yet been acquired.",
    Code.NO_CLOCK_SOURCE: "An external sample clock source must be specified for this measurement.",
    Code.CHANNEL_TYPE: "The measurement does not fit the physical channel.",
    Code.ATTRIBUTE: "The specified property is not supported by the device or does not apply to the task.",
    Code.READ_WITHOUT_INPUTS: "There are no channels in the task to read from.",
    Code.NO_CHANNELS: "The operation needs at least one channel in the task.",
    Code.RUNNING: "The specified operation cannot be performed while the task is running.",
    Code.CHANNEL_TWICE: "The channel or its name is in the task already.",
    Code.WRITE_CHANNELS: "The number of channels in the data does not match the number of channels in the task.",
    Code.READ_TYPE: "The read does not fit the type of the channels in the task.",
    Code.WRITE_TYPE: "The write does not fit the type of the channels in the task.",
    Code.MIXED_CHANNELS: "All channels of a task must be of one type.",
    Code.NOT_DONE: "The task was not done within the specified time.",
    Code.AO_RANGE: "Attempted to write analog data that is too large or too small.",
    Code.EVENT_INTERVAL: "The every-N-samples interval must be greater than zero.",
    Code.EVENT_NOT_BUFFERED: "Every-N-samples events need a buffered task: configure its timing first.",
    Code.EVENT_WHILE_RUNNING: "Software events must be registered before the task is started.",
    Code.EVENT_TWICE: "The every-N-samples event is registered for this task already.",
    Code.GONE: "The device cannot be accessed: it was removed, or has lost its power.",
    Code.RATE: "The sample clock rate is beyond what the device supports.",
    Code.STOPPED_EARLY: "A finite acquisition was stopped before the requested number of samples were acquired.",
}


class DaqmxError(Exception):
    """The device refuses; ``code`` is the status the client sees, ``text`` what the driver would say."""

    def __init__(self, code: int, detail: str = "", *, samples_read: int | None = None) -> None:
        self.code = int(code)
        self.samples_read = samples_read
        lines = [TEXT.get(self.code, "Unknown error."), *([detail] if detail else []), f"Status Code: {self.code}"]
        self.text = "\n\n".join(lines)
        super().__init__(self.text)


class Mode(IntEnum):
    """How many samples a task takes."""

    FINITE = 10178
    CONTINUOUS = 10123
    ON_DEMAND = 10390  # a timing type on the wire, kept here as "no sample clock"


SAMPLE_CLOCK_TIMING = 10388


class Kind(IntEnum):
    """What a task's channels are."""

    AI = 10100
    AO = 10102
    CI = 10131
    DI = 10151
    DO = 10153


class Action(IntEnum):
    """Task control actions."""

    START = 0
    STOP = 1
    VERIFY = 2
    COMMIT = 3
    RESERVE = 4
    UNRESERVE = 5
    ABORT = 6


BY_CHANNEL, BY_SCAN = 0, 1
ONE_CHANNEL_FOR_ALL_LINES = 1
OVERWRITE, DO_NOT_OVERWRITE = 10252, 10159

VOLTS = 10348
DECODING = {10090: 1, 10091: 2, 10092: 4}  # X1, X2, X4: counted edges per pulse
TICKS = 10304
METRES, INCHES = 10219, 10379
DEGREES, RADIANS = 10146, 10273
FULL_BRIDGE = 10182
MV_PER_V = {15896: 1e3, 15897: 1.0}  # V/V and mV/V, in mV/V
FORCE_N = {15875: 1.0, 15876: 4.4482216152605, 15877: 9.80665}  # newton, pound-force, kilogram-force
TORQUE_NM = {15881: 1.0, 15882: 0.0254 * 4.4482216152605 / 16, 15883: 0.0254 * 4.4482216152605, 15884: 1.3558179483314}

USAGE_VOLTAGE, USAGE_BRIDGE, USAGE_FORCE_BRIDGE, USAGE_TORQUE_BRIDGE = 10322, 15908, 15899, 15905
USAGE_ANGULAR_ENCODER, USAGE_LINEAR_ENCODER = 10360, 10361
