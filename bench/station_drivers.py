"""From a profile's tables to drivers. The one place that knows which ``driver`` name is which class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from bench.clock import Clock
from bench.instruments.ati_cal import AtiCalibration, AtiForceTorque
from bench.instruments.load_cell import LoadCell
from bench.instruments.protocols import BridgeInput, Daq, ForceSensor, LinearStage, VoltageInput
from bench.instruments.zaber_ascii import ZaberAsciiStage
from bench.profile import AtiSensorProfile, IndenterRig


@dataclass(frozen=True)
class Addresses:
    """What tells a real rig from a simulated one: where the stage and the DAQ are reached, and whose time it is.

    The DAQ is reached by a gRPC channel, by the address of a device server, or (neither) by the driver on this machine.
    """

    stage_url: str
    clock: Clock
    daq_server: str | None = None
    daq_channel: Any = None


def open_stage(rig: IndenterRig, addresses: Addresses) -> LinearStage:
    """Open the stage of ``rig``. Raises :class:`~bench.errors.InstrumentError` when it is not there or another one."""
    stage = rig.stage
    return ZaberAsciiStage(
        addresses.stage_url,
        clock=addresses.clock,
        max_speed_mm_s=stage.max_speed.to("mm/s"),
        acceleration_mm_s2=stage.acceleration.to("mm/s2"),
        address=stage.device_address,
        axis=stage.axis,
        microstep_size_um=stage.microstep_size.to("um"),
        speed_scale=stage.speed_scale,
        baud=stage.baud,
        expected_serial_number=stage.serial_number,
    )


def open_daq(rig: IndenterRig, addresses: Addresses) -> Daq:
    """Open the DAQ of ``rig``. Raises :class:`~bench.errors.InstrumentError`; without a driver it says what to do."""
    # nidaqmx and grpc take a while to import: not before a rig is really opened.
    from bench.instruments.nidaqmx import NiDaq

    return NiDaq(
        rig.daq.device,
        server=addresses.daq_server,
        channel=addresses.daq_channel,
        rpc_deadline_s=rig.daq.rpc_deadline.to("s"),
        clock=addresses.clock,
    )


def open_force_sensor(rig: IndenterRig) -> ForceSensor:
    """Make the converter of ``rig``'s force sensor. Raises :class:`~bench.errors.CalibrationError`."""
    sensor = rig.force_sensor
    if isinstance(sensor, AtiSensorProfile):
        path = rig.calibration_path()
        assert path is not None, "an ATI profile names its calibration file"
        volts = sensor.voltage_range.to("V")
        return AtiForceTorque(
            AtiCalibration.read(path),
            [VoltageInput(channel, -volts, volts, sensor.terminal) for channel in sensor.channels],
            pressing_axis=sensor.pressing_axis,
            sign=sensor.sign,
        )
    span = sensor.bridge_range.to("mV/V")
    return LoadCell(
        BridgeInput(
            sensor.channel,
            -span,
            span,
            sensor.excitation.to("V"),
            sensor.bridge,
            sensor.nominal_resistance.to("Ohm"),
        ),
        sensor.capacity.to("N"),
        sensor.sensitivity.to("mV/V"),
        serial_number=sensor.serial_number or "",
        sign=sensor.sign,
    )
