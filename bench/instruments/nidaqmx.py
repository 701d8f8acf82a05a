"""NI-DAQmx devices: on this machine, or behind a gRPC device server (NI's, or the twin's).

::

    daq = NiDaq("Dev1")                                   # local driver; server="lab-pc:31763" for a remote one
    run = daq.acquisition([VoltageInput("ai0")], [LinearEncoder("ctr0", 0.004)], rate_hz=10_000)
    anchor = run.start()
    block = run.read(1000, timeout_s=2.0)                 # block.analog (1000, 1) V, block.encoders (1000, 1) mm
    daq.close()

One code path serves all targets; only readers and writers are used, one remote call each. Digital and analog outputs
are not kept reserved between writes, so that a watchdog in another process can still drop an enable line.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any, TypeVar

from bench.clock import Clock, WallClock
from bench.errors import DaqDeviceError
from bench.instruments.nidaqmx_acquisition import NiAcquisition
from bench.instruments.nidaqmx_channel import Connection, close_task
from bench.instruments.nidaqmx_errors import Guard
from bench.instruments.nidaqmx_tasks import physical
from bench.instruments.protocols import AnalogChannel, EncoderChannel, Identity

SINGLE_TIMEOUT_S = 1.0
S = TypeVar("S", bound="_Single")


class NiDaq:
    """Implements :class:`~bench.instruments.protocols.Daq`.

    Parameters
    ----------
    device : str
        The device's name in NI-DAQmx, e.g. ``Dev1``.
    server : str, optional
        ``host:port`` of a gRPC device server. Without it and without ``channel`` the local driver is used.
    channel : grpc.Channel, optional
        A channel to a server, made and closed by the caller.
    rpc_deadline_s : float
        How much longer than its own timeout a remote call may take [s].
    clock : Clock, optional
        What time is read from; the machine's monotonic clock by default.
    name : str
        What the instrument is called in the archive.
    """

    def __init__(
        self,
        device: str,
        *,
        server: str | None = None,
        channel: Any = None,
        rpc_deadline_s: float = 5.0,
        clock: Clock | None = None,
        name: str = "daq",
    ) -> None:
        self.device = device
        self.name = name
        self._clock = clock if clock is not None else WallClock()
        self._connection = Connection(server, channel, rpc_deadline_s)
        self._guard = Guard(f"DAQ {device}")
        self._open: list[NiAcquisition | _Single] = []

    def identify(self) -> Identity:
        """Read product, serial number and driver version from the device.

        Raises
        ------
        DaqDeviceError
            No such device (the message lists those there are), no driver, no server.
        """
        from nidaqmx.system import System

        self._connection.check(self._guard)
        with self._guard:
            options = self._connection.options()
            system = System.local() if options is None else System.remote(options)
            version = system.driver_version
            names = list(system.devices.device_names)
            if self.device.lower() not in (name.lower() for name in names):
                raise DaqDeviceError(
                    f"there is no device {self.device!r}; there {'is' if len(names) == 1 else 'are'} "
                    f"{', '.join(names) or 'none'}",
                    code=-200220,
                    where=self._guard.where,
                    remedy="Set daq.device in the rig profile to one of them, or connect the device",
                )
            device = system.devices[self.device]
            return Identity(
                name=self.name,
                model=f"NI {device.product_type}",
                serial_number=f"{device.serial_num:08X}",
                firmware=f"NI-DAQmx {version.major_version}.{version.minor_version}.{version.update_version}",
                address=f"{self.device} ({self._connection.address})",
                details={"simulated": str(bool(device.is_simulated)).lower()},
            )

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> NiAcquisition:
        """Prepare a clocked acquisition of ``analog`` inputs and ``encoders`` at ``rate_hz``.

        The device keeps ``buffer_s`` [s] of unread samples; one that is read later than that fails loudly.
        """
        made = NiAcquisition(
            self._connection, self.device, analog, encoders, rate_hz, buffer_s, self._clock, self._forget
        )
        self._open.append(made)
        return made

    def digital_input(self, line: str) -> NiDigitalInput:
        """Open a digital line for reading."""
        return self._keep(NiDigitalInput(self._connection, self.device, line, self._forget))

    def digital_output(self, line: str) -> NiDigitalOutput:
        """Open a digital line for writing; its level stays what it was until the first write."""
        return self._keep(NiDigitalOutput(self._connection, self.device, line, self._forget))

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> NiAnalogOutput:
        """Open a voltage output for single values within ``minimum_v`` … ``maximum_v``."""
        return self._keep(NiAnalogOutput(self._connection, self.device, channel, minimum_v, maximum_v, self._forget))

    def reset(self) -> None:
        """Reset the device: every task on it is aborted, also other programs', and its outputs return to power-up.

        This clears what a killed run left reserved (DAQmx −50103). It is never done unasked.
        """
        from nidaqmx.system.device import Device

        self._connection.check(self._guard)
        with self._guard:
            Device(self.device, grpc_options=self._connection.options()).reset_device()

    def close(self) -> None:
        """Close all that was opened here, even when one of them fails, then the connection."""
        with ExitStack() as closing:
            closing.callback(self._connection.close)
            for item in list(self._open):
                closing.callback(item.close)

    def _keep(self, item: S) -> S:
        self._open.append(item)
        return item

    def _forget(self, item: NiAcquisition | _Single) -> None:
        if item in self._open:
            self._open.remove(item)


class _Single:
    """A task for single values on one channel; each read or write is one call, and reserves nothing in between."""

    def __init__(self, connection: Connection, guard: Guard, add: Callable[[Any], object], on_close: Any) -> None:
        self._guard = guard
        self._on_close = on_close
        self._closed = False
        self._task = connection.task(guard)
        try:
            with guard:
                add(self._task)
        except BaseException:
            close_task(self._task, guard)
            raise

    def close(self) -> None:
        """Clear the task; the output keeps its last value."""
        if not self._closed:
            self._closed = True
            self._on_close(self)
            close_task(self._task, self._guard)


class NiDigitalInput(_Single):
    """One digital line, read; with ``driven`` one that this device drives, by a task of its own or somebody else's."""

    def __init__(self, connection: Connection, device: str, line: str, on_close: Any, *, driven: bool = False) -> None:
        from nidaqmx.stream_readers import DigitalSingleChannelReader

        def add(task: Any) -> None:
            channel = task.di_channels.add_di_chan(physical(device, line))
            if driven:
                # By default a read makes the device let go of the line. On an enable line that would stop the rig.
                channel.di_tristate = False

        guard = Guard(f"DAQ {device}, digital {'output' if driven else 'input'} {line}")
        super().__init__(connection, guard, add, on_close)
        self._reader = DigitalSingleChannelReader(self._task.in_stream)

    def read(self) -> bool:
        """Return the line's level."""
        with self._guard:
            return bool(self._reader.read_one_sample_one_line(SINGLE_TIMEOUT_S))


class NiDigitalOutput(_Single):
    """One digital line, driven.

    A single write starts the task and leaves it as it was before, so nothing stays reserved (NI-DAQmx Key Concepts,
    Transitioning the State Backwards): several programs may drive one line in turn.
    """

    def __init__(self, connection: Connection, device: str, line: str, on_close: Any) -> None:
        from nidaqmx.stream_writers import DigitalSingleChannelWriter

        guard = Guard(f"DAQ {device}, digital output {line}")
        super().__init__(connection, guard, lambda task: task.do_channels.add_do_chan(physical(device, line)), on_close)
        self._writer = DigitalSingleChannelWriter(self._task.out_stream, auto_start=True)
        try:
            # A task that drives a line reads back what it drives; what is on the line, an input of its own sees.
            self._sense = NiDigitalInput(connection, device, line, lambda item: None, driven=True)
        except BaseException:
            close_task(self._task, guard)
            raise

    def close(self) -> None:
        """Clear the tasks; the output keeps its last value."""
        try:
            self._sense.close()
        finally:
            super().close()

    def read(self) -> bool:
        """Return the level that is on the line at this moment, whoever drives it."""
        return self._sense.read()

    def write(self, level: bool) -> None:
        """Drive the line."""
        with self._guard:
            self._writer.write_one_sample_one_line(bool(level), SINGLE_TIMEOUT_S)


class NiAnalogOutput(_Single):
    """One voltage output."""

    def __init__(
        self, connection: Connection, device: str, channel: str, minimum_v: float, maximum_v: float, on_close: Any
    ) -> None:
        from nidaqmx.stream_writers import AnalogSingleChannelWriter

        super().__init__(
            connection,
            Guard(f"DAQ {device}, analog output {channel}"),
            lambda task: task.ao_channels.add_ao_voltage_chan(
                physical(device, channel), min_val=minimum_v, max_val=maximum_v
            ),
            on_close,
        )
        self._writer = AnalogSingleChannelWriter(self._task.out_stream, auto_start=True)

    def write(self, volts: float) -> None:
        """Put ``volts`` [V] out."""
        with self._guard:
            self._writer.write_one_sample(float(volts), SINGLE_TIMEOUT_S)
