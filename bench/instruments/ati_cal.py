"""ATI six-axis force/torque transducer, read as gauge voltages and converted by its ``.cal`` file.

::

    calibration = AtiCalibration.read("FT00001.cal")
    sensor = AtiForceTorque(calibration, [VoltageInput(f"ai{i}") for i in range(6)])
    sensor.tare(unloaded_volts)                       # (n, 6) V
    forces, torques = sensor.convert(volts)           # (n, 3) N, (n, 3) N.m
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from bench.errors import CalibrationError, SensorSaturated
from bench.instruments.ati_file import AXES, AtiCalibration
from bench.instruments.protocols import AnalogChannel, Floats, Identity, VoltageInput

__all__ = ["AtiCalibration", "AtiForceTorque"]

FORCE_NAMES = ("force_x", "force_y", "force_z")
TORQUE_NAMES = ("torque_x", "torque_y", "torque_z")


class AtiForceTorque:
    """A six-axis ATI transducer read as gauge voltages; implements :class:`~.protocols.ForceSensor`.

    Parameters
    ----------
    calibration : AtiCalibration
        What the transducer's ``.cal`` file says.
    channels : sequence of VoltageInput
        One input per gauge, in the order of the file's columns (G0 first).
    name : str
        How messages call the sensor.
    pressing_axis, sign : str, int
        The axis along which the rig presses (``Fx``, ``Fy`` or ``Fz``) and the sign that makes pressing positive.
    saturation_fraction : float
        A gauge beyond this fraction of its range counts as saturated.
    """

    def __init__(
        self,
        calibration: AtiCalibration,
        channels: Sequence[VoltageInput],
        *,
        name: str = "force_sensor",
        pressing_axis: str = "Fz",
        sign: int = 1,
        saturation_fraction: float = 0.99,
    ) -> None:
        self.name = name
        if len(channels) != calibration.gauges:
            raise CalibrationError(
                f"the calibration file has {calibration.gauges} gauges, the rig wires {len(channels)} channels",
                where=f"{name}, {calibration.path}",
                remedy="List one analog input per gauge, in the file's order, or use the file of the sensor mounted",
            )
        if pressing_axis not in AXES[:3] or sign not in (-1, 1):
            raise CalibrationError(
                f"pressing axis {pressing_axis!r} with sign {sign!r}",
                where=name,
                remedy="Name Fx, Fy or Fz, and -1 or 1",
            )
        self.calibration = calibration
        self.channels: tuple[AnalogChannel, ...] = tuple(channels)
        self.force_names: tuple[str, ...] = FORCE_NAMES
        self.torque_names: tuple[str, ...] = TORQUE_NAMES
        self._pressing, self._sign = AXES.index(pressing_axis), sign
        low, high = calibration.output_range_v
        lows = np.array([max(low, channel.minimum_v) for channel in channels])
        highs = np.array([min(high, channel.maximum_v) for channel in channels])
        margin = (1 - saturation_fraction) / 2 * (highs - lows)
        self._low, self._high = lows + margin, highs - margin
        self._bias = np.zeros(calibration.gauges)
        self._tared = False  # until then gauge offsets look like load

    def identify(self) -> Identity:
        """Return who the calibration file says the transducer is (it has no wire to ask it on)."""
        cal = self.calibration
        return Identity(
            name=self.name,
            model=f"ATI {cal.body_style} {cal.part_number}".strip(),
            serial_number=cal.serial_number,
            address=", ".join(channel.channel for channel in self.channels),
            details={
                "calibration_file": cal.path.name,
                "calibration_sha256": cal.sha256,
                "calibration_date": cal.calibration_date,
                "units": f"{cal.force_unit}, {cal.torque_unit}",
            },
        )

    @property
    def bias_v(self) -> Floats:
        """The zero in use, (n_gauges,) V."""
        return self._bias.copy()

    def tare(self, raw: Floats) -> None:
        """Take the mean of ``raw`` (n_samples, n_gauges) V, unloaded, as the new zero."""
        raw = self._gauges(raw)
        if len(raw) == 0 or not np.isfinite(raw).all():
            raise CalibrationError(
                f"cannot tare on {len(raw)} samples, some of them not numbers" if len(raw) else "no samples to tare on",
                where=self.name,
                remedy="Record at least one second without contact",
            )
        self._check_gauges(raw)
        self._bias = raw.mean(axis=0)
        self._tared = True

    def convert(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return forces (n, 3) in N and torques (n, 3) in N.m from ``raw`` (n, n_gauges) in V."""
        wrench = (self._gauges(raw) - self._bias) @ self.calibration.matrix.T
        return wrench[:, :3], wrench[:, 3:]

    def contact_force(self, forces: Floats) -> Floats:
        """Return (n,) the force along the pressing axis, positive when pressing, from ``forces`` (n, 3) in N."""
        return self._sign * forces[:, self._pressing]

    def saturated(self, raw: Floats) -> NDArray[np.bool_]:
        """Return (n,) true where a gauge touches its range or, once tared, the load leaves the calibrated range."""
        return np.logical_or(self._saturated_gauges(raw).any(axis=1), self._overloaded_axes(raw).any(axis=1))

    def check(self, raw: Floats) -> None:
        """Raise :class:`SensorSaturated` that names the gauge or axis when ``raw`` (n, n_gauges) V is saturated."""
        self._check_gauges(raw)
        axes = self._overloaded_axes(raw)
        if axes.any():
            row, k = np.argwhere(axes)[0]
            load, rated = np.hstack(self.convert(raw))[row, k], self.calibration.rated[k]
            raise SensorSaturated(
                f"{AXES[k]} is {load:.4g}, calibrated up to {rated:.4g} {'N' if k < 3 else 'N.m'}",
                where=self.name,
                remedy="Press with less force, or mount a transducer with a larger range",
            )

    def _check_gauges(self, raw: Floats) -> None:
        gauges = self._saturated_gauges(raw)
        if gauges.any():
            row, k = np.argwhere(gauges)[0]
            raise SensorSaturated(
                f"gauge {k} reads {raw[row, k]:.3f} V, its range is {self._low[k]:.3f} to {self._high[k]:.3f} V",
                where=f"{self.name}, {self.channels[k].channel}",
                remedy="Unload the sensor; if it stays, the transducer or its cable is damaged",
            )

    def _gauges(self, raw: Floats) -> Floats:
        raw = np.asarray(raw, dtype=np.float64)
        if raw.ndim != 2 or raw.shape[1] != self.calibration.gauges:
            raise CalibrationError(
                f"readings of shape {raw.shape}, expected (n, {self.calibration.gauges})",
                where=f"{self.name}, {self.calibration.path.name}",
                remedy="Read one column per gauge",
            )
        return raw

    def _saturated_gauges(self, raw: Floats) -> NDArray[np.bool_]:
        raw = self._gauges(raw)
        return np.asarray(~((raw > self._low) & (raw < self._high)))  # not a number counts as saturated

    def _overloaded_axes(self, raw: Floats) -> NDArray[np.bool_]:
        wrench = np.hstack(self.convert(raw))
        return np.asarray(self._tared & (np.abs(wrench) > self.calibration.rated))
