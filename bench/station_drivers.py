"""From a profile's tables to drivers. The one place that knows which ``driver`` name is which class."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bench.clock import Clock, WallClock
from bench.instruments.ati_cal import AtiCalibration, AtiForceTorque
from bench.instruments.dynamixel import DynamixelBus
from bench.instruments.dynamixel_setup import Servo
from bench.instruments.load_cell import LoadCell
from bench.instruments.moteus import MoteusDrive
from bench.instruments.protocols import ArmDrives, BridgeInput, Daq, ForceSensor, JointDrive, LinearStage, VoltageInput
from bench.instruments.zaber_ascii import ZaberAsciiStage
from bench.profile import ArmRig, AtiSensorProfile, IndenterRig, JointRig, RigProfile


@dataclass(frozen=True)
class Addresses:
    """What tells a real rig from a simulated one: where its devices are reached, and whose time it is.

    ``serial`` holds the URLs of the serial devices by name, ``stage``, ``drive`` or ``arm``. The DAQ is reached by a
    gRPC channel, by the address of a device server, or (neither) by the driver on this machine.
    """

    serial: Mapping[str, str]
    clock: Clock
    daq_server: str | None = None
    daq_channel: Any = None


def open_stage(rig: IndenterRig, addresses: Addresses) -> LinearStage:
    """Open the stage of ``rig``. Raises :class:`~bench.errors.InstrumentError` when it is not there or another one."""
    stage = rig.stage
    return ZaberAsciiStage(
        addresses.serial["stage"],
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


def serial_ports(rig: RigProfile) -> dict[str, str]:
    """Return the serial devices of ``rig`` and the ports its profile gives them."""
    if isinstance(rig, IndenterRig):
        return {"stage": rig.stage.port}
    if isinstance(rig, ArmRig):
        return {"arm": rig.bus.port}
    return {"drive": rig.drive.port} if isinstance(rig, JointRig) else {}


def lab_addresses(rig: RigProfile, clock: Clock) -> Addresses:
    """Return the addresses of the hardware, as the profile gives them."""
    return Addresses(serial_ports(rig), clock, daq_server=rig.daq.server)


def lab_watchdog_addresses(rig: RigProfile, order: Mapping[str, Any]) -> tuple[Addresses, Callable[[], None]]:
    """Return, in a watchdog's process, the addresses of the hardware, and what lets go of them."""
    return lab_addresses(rig, WallClock()), lambda: None


def open_drive(rig: JointRig, addresses: Addresses) -> JointDrive:
    """Open the drive of ``rig``. Raises :class:`~bench.errors.InstrumentError` when it is not there or another one."""
    drive = rig.drive
    return MoteusDrive(
        addresses.serial["drive"],
        clock=addresses.clock,
        max_torque_nm=drive.max_motor_torque.to("N.m"),
        device_id=drive.device_id,
        baud=drive.baud,
        watchdog_s=drive.watchdog.to("s"),
        reply_deadline_s=drive.reply_deadline.to("s"),
        expected_serial_number=drive.serial_number,
        checksummed=drive.checksum,
    )


def open_arm_drives(rig: ArmRig, addresses: Addresses) -> ArmDrives:
    """Open the servos of ``rig``. Raises :class:`~bench.errors.InstrumentError` that names those missing or others."""
    bus = rig.bus
    return DynamixelBus(
        addresses.serial["arm"],
        clock=addresses.clock,
        servos=[Servo(servo.id, servo.model, servo.max_current.to("A")) for servo in rig.servos],
        baud=bus.baud,
        return_delay_s=bus.return_delay.to("s"),
        reply_deadline_s=bus.reply_deadline.to("s"),
        watchdog_s=bus.watchdog.to("s"),
        fast_sync_read=bus.fast_sync_read,
    )


def open_daq(rig: RigProfile, addresses: Addresses) -> Daq:
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
        return _ati(rig, sensor)
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


def open_wrist_sensor(rig: ArmRig) -> AtiForceTorque:
    """Make the converter of ``rig``'s wrist sensor. Raises :class:`~bench.errors.CalibrationError`."""
    return _ati(rig, rig.wrist_sensor)


def _ati(rig: IndenterRig | ArmRig, sensor: AtiSensorProfile) -> AtiForceTorque:
    path = rig.calibration_path()
    assert path is not None, "an ATI profile names its calibration file"
    volts = sensor.voltage_range.to("V")
    return AtiForceTorque(
        AtiCalibration.read(path),
        [VoltageInput(channel, -volts, volts, sensor.terminal) for channel in sensor.channels],
        pressing_axis=sensor.pressing_axis,
        sign=sensor.sign,
    )
