"""Is this the rig the profile describes, and are its certificates in force? Asked before anything moves."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from bench.errors import CalibrationError, InstrumentError
from bench.instruments.protocols import Identity
from bench.profile import ArmRig, IndenterRig, JointRig, RigProfile


def check_certificates(rig: RigProfile, today: date) -> None:
    """Raise :class:`CalibrationError` when a certificate of ``rig`` is past its due date.

    All that are expired stand in one message: instrument, certificate, due date.
    """
    expired = rig.expired(today)
    if expired:
        named = "; ".join(f"{c.instrument}: certificate {c.certificate} was due on {c.due}" for c in expired)
        raise CalibrationError(
            f"expired on {today}: {named}",
            where=f"rig {rig.name}",
            remedy="Have the instrument calibrated and enter the new certificate in the rig profile",
        )


def check_identities(rig: RigProfile, identities: Mapping[str, Identity]) -> None:
    """Compare the serial numbers read back with the profile's and with the certificates'.

    Raises
    ------
    InstrumentError
        Another stage or DAQ device answers than the profile names.
    CalibrationError
        The calibration file or a certificate belongs to another instrument.
    """
    named = {"daq": rig.daq.serial_number}
    if isinstance(rig, IndenterRig):
        named["stage"] = rig.stage.serial_number
    if isinstance(rig, JointRig):
        named["drive"] = rig.drive.serial_number
    for name, expected in named.items():
        found = identities[name].serial_number
        if expected is not None and found != expected:
            raise InstrumentError(
                f"the {name} reads back the serial number {found}, the profile says {expected}",
                where=f"rig {rig.name}, {identities[name].address}",
                remedy="Connect the instrument of this rig, or correct its profile and certificate",
            )
    sensor = identities.get("force_sensor")
    expected = rig.force_sensor.serial_number if isinstance(rig, IndenterRig) else None
    if isinstance(rig, ArmRig):  # its servos cannot be asked for a serial number: the driver compares their models
        expected = rig.wrist_sensor.serial_number
    if sensor is not None and expected is not None and sensor.serial_number != expected:
        raise CalibrationError(
            f"the calibration is that of {sensor.serial_number}, the profile says {expected} is mounted",
            where=f"rig {rig.name}, force sensor",
            remedy="Use the calibration file that came with the sensor",
        )
    for certificate in rig.calibrations:
        identity = identities.get(certificate.instrument)
        if identity is not None and certificate.serial_number != identity.serial_number:
            raise CalibrationError(
                f"certificate {certificate.certificate} is for the {certificate.instrument} "
                f"{certificate.serial_number}, but {identity.serial_number} is connected",
                where=f"rig {rig.name}",
                remedy="Enter the certificate of the instrument that is connected",
            )
