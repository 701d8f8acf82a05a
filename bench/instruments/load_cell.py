"""A single-axis strain-gauge load cell on a bridge input: mV/V to N.

::

    cell = LoadCell(BridgeInput("ai0"), capacity_n=100.0, sensitivity_mv_v=2.0)
    cell.tare(unloaded)                               # (n, 1) mV/V
    forces, _ = cell.convert(raw)                     # (n, 1) N
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bench.errors import CalibrationError, SensorSaturated
from bench.instruments.protocols import AnalogChannel, BridgeInput, Floats, Identity


class LoadCell:
    """A load cell with a linear characteristic; implements :class:`~.protocols.ForceSensor`.

    The force is ``(ratio - zero) * capacity / sensitivity``: the straight line through no load at zero output and
    the rated capacity at the rated output, as a two-point-linear bridge scale has it. There is no torque.

    Parameters
    ----------
    channel : BridgeInput
        Where the bridge is read, in mV/V.
    capacity_n : float
        Rated capacity [N].
    sensitivity_mv_v : float
        Output at the rated capacity [mV/V]; the certificate's value, signed as it is wired.
    serial_number, name : str
        Who it is, for the archive and for messages.
    sign : int
        1 or -1, whichever makes the force of pressing positive in :meth:`contact_force`.
    saturation_fraction : float
        Beyond this fraction of the input's range the reading counts as saturated.
    """

    def __init__(
        self,
        channel: BridgeInput,
        capacity_n: float,
        sensitivity_mv_v: float,
        *,
        serial_number: str = "",
        name: str = "force_sensor",
        sign: int = 1,
        saturation_fraction: float = 0.99,
    ) -> None:
        if not (math.isfinite(capacity_n) and capacity_n > 0):
            raise CalibrationError(f"capacity is {capacity_n:g} N", where=name, remedy="Give the rated capacity")
        if not (math.isfinite(sensitivity_mv_v) and sensitivity_mv_v != 0):
            raise CalibrationError(
                f"sensitivity is {sensitivity_mv_v:g} mV/V", where=name, remedy="Give the certificate's rated output"
            )
        if sign not in (-1, 1):
            raise CalibrationError(f"sign is {sign!r}", where=name, remedy="Give -1 or 1")
        self.name = name
        self.capacity_n = capacity_n
        self.sensitivity_mv_v = sensitivity_mv_v
        self.channels: tuple[AnalogChannel, ...] = (channel,)
        self.force_names: tuple[str, ...] = ("force_z",)
        self.torque_names: tuple[str, ...] = ()
        self._channel = channel
        self._serial_number = serial_number
        self._sign = sign
        margin = (1 - saturation_fraction) / 2 * (channel.maximum_mv_v - channel.minimum_mv_v)
        self._low, self._high = channel.minimum_mv_v + margin, channel.maximum_mv_v - margin
        self._zero = 0.0
        self._tared = False

    def identify(self) -> Identity:
        """Return what the profile says of the cell (it has no wire to ask it on)."""
        return Identity(
            name=self.name,
            model=f"load cell {self.capacity_n:g} N",
            serial_number=self._serial_number,
            address=self._channel.channel,
            details={"sensitivity": f"{self.sensitivity_mv_v:g} mV/V"},
        )

    @property
    def zero_mv_v(self) -> float:
        """The zero in use [mV/V]."""
        return self._zero

    def tare(self, raw: Floats) -> None:
        """Take the mean of ``raw`` (n_samples, 1) mV/V, unloaded, as the new zero."""
        raw = self._bridge(raw)
        if len(raw) == 0:
            raise CalibrationError(
                "no samples to tare on", where=self.name, remedy="Record at least one second without contact"
            )
        self._check_range(raw)
        self._zero = float(raw.mean())
        self._tared = True

    def convert(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return forces (n, 1) in N and torques (n, 0) from ``raw`` (n, 1) in mV/V."""
        raw = self._bridge(raw)
        return (raw - self._zero) * (self.capacity_n / self.sensitivity_mv_v), np.empty((len(raw), 0))

    def contact_force(self, forces: Floats) -> Floats:
        """Return (n,) the force, positive when pressing, from ``forces`` (n, 1) in N."""
        return self._sign * forces[:, 0]

    def saturated(self, raw: Floats) -> NDArray[np.bool_]:
        """Return (n,) true where the input touches its range or, once tared, the load passes the capacity."""
        return np.logical_or(self._out_of_range(raw), self._overloaded(raw))

    def check(self, raw: Floats) -> None:
        """Raise :class:`SensorSaturated` with the reading when ``raw`` (n, 1) mV/V is saturated."""
        self._check_range(raw)
        overloaded = self._overloaded(raw)
        if overloaded.any():
            force = self.convert(raw)[0][int(np.argmax(overloaded)), 0]
            raise SensorSaturated(
                f"the force is {force:.4g} N, the capacity {self.capacity_n:g} N",
                where=self.name,
                remedy="Press with less force, or mount a cell of larger capacity",
            )

    def _check_range(self, raw: Floats) -> None:
        outside = self._out_of_range(raw)
        if outside.any():
            value = raw[int(np.argmax(outside)), 0]
            raise SensorSaturated(
                f"the bridge reads {value:.4f} mV/V, the input's range is {self._low:.4f} to {self._high:.4f} mV/V",
                where=f"{self.name}, {self._channel.channel}",
                remedy="Unload the cell; if it stays, a wire of the bridge is broken or the cell is damaged",
            )

    def _bridge(self, raw: Floats) -> Floats:
        raw = np.asarray(raw, dtype=np.float64)
        if raw.ndim != 2 or raw.shape[1] != 1:
            raise CalibrationError(
                f"readings of shape {raw.shape}, expected (n, 1)", where=self.name, remedy="Read one bridge channel"
            )
        return raw

    def _out_of_range(self, raw: Floats) -> NDArray[np.bool_]:
        ratio = self._bridge(raw)[:, 0]
        return ~np.logical_and(ratio > self._low, ratio < self._high)  # not a number counts as saturated

    def _overloaded(self, raw: Floats) -> NDArray[np.bool_]:
        return np.logical_and(self._tared, np.abs(self.convert(raw)[0][:, 0]) > self.capacity_n)
