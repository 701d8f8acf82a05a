"""A clocked acquisition on an NI-DAQmx device: analog inputs and encoders on one sample clock, without gaps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from bench.clock import Clock
from bench.errors import DaqDeviceError
from bench.instruments.nidaqmx_channel import Connection, close_task
from bench.instruments.nidaqmx_errors import TIMEOUT, Guard
from bench.instruments.nidaqmx_gaps import CountWatch
from bench.instruments.nidaqmx_tasks import add_analog, add_encoder, check_request
from bench.instruments.protocols import AnalogChannel, Anchor, Block, EncoderChannel, Floats

RATE_TOLERANCE = 1e-4
"""A rate the device makes of the one asked for may be off by this ratio; beyond it the profile is to be corrected."""
CHECK_INTERVAL_S = 2.0
RECHECK_INTERVAL_S = 0.2


class _Stream:
    """One task's samples, in order; what a read that timed out brought is kept for the next one."""

    def __init__(self, task: Any, read: Callable[[Floats, int, float], int], width: int, scale: float, guard: Guard):
        self.task = task
        self._read = read
        self._width = width
        self._scale = scale
        self.guard = guard
        self._kept: list[Floats] = []

    def forget(self) -> None:
        self._kept.clear()

    def give_back(self, data: Floats) -> None:
        self._kept.insert(0, data)

    def fetch(self, samples: int, timeout_s: float) -> Floats:
        """Return (width, samples)."""
        if self._kept:
            return self._complete(samples, timeout_s)
        return self._new(samples, timeout_s)

    def _new(self, samples: int, timeout_s: float) -> Floats:
        from nidaqmx.errors import DaqReadError

        data = np.empty((self._width, samples))
        with self.guard:
            try:
                got = self._read(data if self._width > 1 else data[0], samples, timeout_s)
            except DaqReadError as error:
                # The samples that did come are consumed: without them the next block would have a gap. Short reads
                # stand together at the front of the array, not at each channel's place.
                got = error.samps_per_chan_read if error.error_code == TIMEOUT else 0
                if got:
                    self._kept.append(self._scaled(data.ravel()[: self._width * got].reshape(self._width, got).copy()))
                raise
        if got != samples:
            raise DaqDeviceError(
                f"{got} samples came where {samples} were asked for",
                where=self.guard.where,
                remedy="Start the acquisition again",
            )
        return self._scaled(data)

    def _scaled(self, data: Floats) -> Floats:
        if self._scale != 1.0:
            data *= self._scale
        return data

    def _complete(self, samples: int, timeout_s: float) -> Floats:
        have = sum(part.shape[1] for part in self._kept)
        if have < samples:
            self._kept.append(self._new(samples - have, timeout_s))
        whole = np.concatenate(self._kept, axis=1)
        self._kept = [whole[:, samples:]] if whole.shape[1] > samples else []
        return whole[:, :samples]


class NiAcquisition:
    """Implements :class:`~bench.instruments.protocols.Acquisition`; made by :meth:`NiDaq.acquisition`.

    One task holds the analog inputs, one more each encoder (the package has no reader for several counters). The
    encoders take the analog task's sample clock and are armed before it starts, so sample k of all is one instant.
    """

    def __init__(
        self,
        connection: Connection,
        device: str,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float,
        clock: Clock,
        on_close: Callable[[NiAcquisition], None],
    ) -> None:
        self._where = f"DAQ {device}"
        self._clock = clock
        self._on_close = on_close
        self._position = 0
        self._next_check = 0
        self._anchor: Anchor | None = None
        self._closing = ExitStack()
        check_request(self._where, analog, encoders, rate_hz, buffer_s)
        self.rate_hz = rate_hz
        buffer = 2 * max(1, round(rate_hz * buffer_s / 2))
        with ExitStack() as closing:  # a task left open keeps its channels reserved
            self._analog = self._open_analog(connection, device, analog, rate_hz, buffer, closing)
            self._encoders = [
                self._open_encoder(connection, device, encoder, rate_hz, buffer, closing) for encoder in encoders
            ]
            self._closing = closing.pop_all()
        self._streams = [self._analog, *self._encoders]
        self._watches: list[CountWatch] = []

    # -- opening ------------------------------------------------------------------------------------------------------

    def _task(self, connection: Connection, guard: Guard, closing: ExitStack) -> Any:
        task = connection.task(guard)
        closing.callback(close_task, task, guard)
        return task

    def _open_analog(
        self,
        connection: Connection,
        device: str,
        channels: Sequence[AnalogChannel],
        rate_hz: float,
        buffer: int,
        closing: ExitStack,
    ) -> _Stream:
        from nidaqmx.constants import AcquisitionType, TaskMode
        from nidaqmx.stream_readers import AnalogMultiChannelReader, AnalogSingleChannelReader

        guard = Guard(f"{self._where}, analog inputs {', '.join(channel.channel for channel in channels)}")
        task = self._task(connection, guard, closing)
        for channel in channels:
            with Guard(f"{self._where}, analog input {channel.channel}"):
                add_analog(task, device, channel)
        with guard:
            task.timing.cfg_samp_clk_timing(rate_hz, sample_mode=AcquisitionType.CONTINUOUS, samps_per_chan=buffer)
            task.in_stream.input_buf_size = buffer
            task.control(TaskMode.TASK_VERIFY)  # a range or rate beyond the device fails here, not at the start
            self.rate_hz = float(task.timing.samp_clk_rate)
        if abs(self.rate_hz / rate_hz - 1) > RATE_TOLERANCE:
            raise DaqDeviceError(
                f"the device cannot sample at {rate_hz:g} Hz, the next it can do is {self.rate_hz:.9g} Hz",
                where=guard.where,
                remedy="Set daq.sample_rate to a rate that divides the device's clock",
            )
        many = len(channels) > 1
        reader = AnalogMultiChannelReader(task.in_stream) if many else AnalogSingleChannelReader(task.in_stream)
        reader.verify_array_shape = False  # one RPC a read instead of two
        return _Stream(task, reader.read_many_sample, len(channels), 1.0, guard)

    def _open_encoder(
        self,
        connection: Connection,
        device: str,
        encoder: EncoderChannel,
        rate_hz: float,
        buffer: int,
        closing: ExitStack,
    ) -> _Stream:
        from nidaqmx.constants import AcquisitionType, TaskMode
        from nidaqmx.stream_readers import CounterReader

        guard = Guard(f"{self._where}, encoder {encoder.counter}")
        task = self._task(connection, guard, closing)
        with guard:
            scale = add_encoder(task, device, encoder)
            task.timing.cfg_samp_clk_timing(
                rate_hz,
                source=f"/{device}/ai/SampleClock",
                sample_mode=AcquisitionType.CONTINUOUS,
                samps_per_chan=buffer,
            )
            task.in_stream.input_buf_size = buffer
            task.control(TaskMode.TASK_VERIFY)
        reader = CounterReader(task.in_stream)
        reader.verify_array_shape = False
        return _Stream(task, reader.read_many_sample_double, 1, scale, guard)

    # -- running ------------------------------------------------------------------------------------------------------

    def start(self) -> Anchor:
        """Arm the encoders, start the analog task, and return where sample 0 lies in time.

        The first edge of the sample clock comes after the start was asked for and at most one period after it was
        confirmed; the anchor is the middle of that interval.
        """
        self._position = 0
        for stream in self._streams:
            stream.forget()
        try:
            for encoder in self._encoders:
                with encoder.guard:
                    encoder.task.start()
            before_ns, before_utc = self._clock.now_ns(), time.time_ns()
            with self._analog.guard:
                self._analog.task.start()
            after_utc, after_ns = time.time_ns(), self._clock.now_ns()
        except BaseException:
            self._halt()
            raise
        half_ns = -(-(after_ns - before_ns + round(1e9 / self.rate_hz)) // 2)
        self._next_check = 0
        self._watches = [CountWatch(self.rate_hz) for _ in self._streams]
        self._anchor = Anchor(clock_ns=before_ns + half_ns, utc_ns=(before_utc + after_utc) // 2, half_width_ns=half_ns)
        return self._anchor

    def read(self, samples: int, timeout_s: float) -> Block:
        """Return exactly ``samples`` new samples; waits at most ``timeout_s`` [s] for each task's.

        Raises
        ------
        DaqTimeout
            They did not come in time. None is lost: the next read brings them.
        DaqDeviceError
            The device lost samples, or went away.
        """
        if self._anchor is None:
            raise DaqDeviceError(
                "the acquisition is read but was not started", where=self._where, remedy="Call start() first"
            )
        if samples < 1:
            raise DaqDeviceError(f"{samples} samples asked for", where=self._where, remedy="Ask for one or more")
        parts: list[Floats] = []
        try:
            for stream in self._streams:
                parts.append(stream.fetch(samples, timeout_s))
        except BaseException:
            for stream, part in zip(self._streams, parts, strict=False):
                stream.give_back(part)
            raise
        first = self._position
        self._position += samples
        if self._position >= self._next_check:
            self._check()
        encoders = parts[1] if len(parts) == 2 else np.concatenate(parts[1:]) if parts[1:] else np.empty((0, samples))
        return Block(first, parts[0].T, encoders.T)

    def stop(self) -> None:
        """Stop all tasks; raise if the device lost samples since the last read."""
        if self._anchor is None:
            return
        try:
            self._check()
        finally:
            self._anchor = None
            self._halt()

    def close(self) -> None:
        """Stop and clear all tasks, so that their channels are free for others."""
        self._anchor = None
        self._on_close(self)
        self._closing.close()

    def _halt(self) -> None:
        """Stop what runs; a first error does not keep the others running."""
        with ExitStack() as stopping:
            for stream in reversed(self._streams):
                stopping.enter_context(stream.guard)
                stopping.callback(stream.task.stop)

    def _check(self) -> None:
        """Compare each task's own count with the time that passed: samples lost in silence would shift the rest."""
        assert self._anchor is not None
        start_ns = self._anchor.clock_ns
        for stream, watch in zip(self._streams, self._watches, strict=True):
            before_ns = self._clock.now_ns()
            with stream.guard:
                acquired = int(stream.task.in_stream.total_samp_per_chan_acquired)
            elapsed_s = (self._clock.now_ns() - start_ns) * 1e-9
            missing = watch.missing((before_ns - start_ns) * 1e-9, elapsed_s, acquired)
            if missing:
                raise DaqDeviceError(
                    f"about {missing:.0f} samples are missing: {acquired} were acquired in {elapsed_s:.3f} s "
                    f"at {self.rate_hz:g} Hz",
                    where=stream.guard.where,
                    remedy="The device dropped them and the time base is broken: discard the run, check cable and bus",
                )
        interval_s = RECHECK_INTERVAL_S if any(watch.suspect for watch in self._watches) else CHECK_INTERVAL_S
        self._next_check = self._position + round(interval_s * self.rate_hz)
