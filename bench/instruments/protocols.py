"""What the bench asks of an instrument. Drivers implement these; nothing here knows a device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Identity:
    """Who an instrument says it is, as read back from it."""

    name: str
    model: str
    serial_number: str
    firmware: str = ""
    address: str = ""
    details: dict[str, str] = field(default_factory=dict)


@runtime_checkable
class LinearStage(Protocol):
    """A motorised linear axis. Positions in mm from home, positive away from home; speeds in mm/s."""

    def identify(self) -> Identity: ...

    def home(self) -> None:
        """Find the reference and return when it is found."""
        ...

    def is_homed(self) -> bool: ...

    def clear_faults(self) -> object:
        """Clear what the controller shows, where it can be cleared, and switch its motor driver on; nothing moves."""
        ...

    def position_mm(self) -> float:
        """Return the position the controller reports."""
        ...

    def is_moving(self) -> bool:
        """Return whether the axis is busy; raise on a fault flag the controller shows."""
        ...

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        """Start a move and return at once with the longest time it may take [s]."""
        ...

    def wait_idle(self, timeout_s: float) -> None:
        """Return when the axis stands still; raise :class:`InstrumentTimeout` after ``timeout_s``."""
        ...

    def stop(self) -> None:
        """Decelerate to a stand and return when it stands."""
        ...

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        """Make the *controller* refuse and stop at these positions: an independent stop."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class DriveState:
    """What a joint drive reports in one reply; rotor side. Not frozen: that would cost a control loop 4 us a tick.

    ``rotor_angle_rad`` [rad] is cumulative, ``rotor_torque_nm`` [N.m] the drive's own figure, and
    ``motor_temperature_degc`` NaN without a sensor. ``mode`` and ``fault`` are the drive's own numbers.
    """

    rotor_angle_rad: float
    rotor_velocity_rad_s: float
    rotor_torque_nm: float
    temperature_degc: float
    motor_temperature_degc: float
    voltage_v: float
    mode: int
    fault: int


@runtime_checkable
class JointDrive(Protocol):
    """A motor drive commanded by rotor torque. Its own watchdog ends the torque when commands stop coming."""

    def identify(self) -> Identity: ...

    def arm_watchdog(self, timeout_s: float) -> None:
        """Set how long [s] after a torque command the *drive* ends the torque by itself: an independent stop.

        It holds for every torque command from now on, and never longer than that.
        """
        ...

    def command_torque(self, torque_nm: float) -> DriveState:
        """Command a rotor torque [N.m] and return the state from just before it took effect, in one transaction.

        Raises
        ------
        LimitError
            The torque is not finite or above the limit; nothing was sent.
        DriveFault, DriveWatchdogTripped
            The drive has stopped by itself.
        InstrumentTimeout
            No reply in time; the command is not sent again.
        """
        ...

    def state(self) -> DriveState:
        """Return the state and command nothing; the watchdog is not fed. A fault is reported in it, not raised."""
        ...

    def stop(self) -> DriveState:
        """Switch the motor off: no torque, it coasts. Return the state."""
        ...

    def brake(self) -> DriveState:
        """Damp the motor without a set-point or watchdog, as far as the drive can. Return the state."""
        ...

    def clear_fault(self) -> DriveState:
        """Clear a fault or a tripped watchdog, leaving the motor off. One that persists may show only when it runs."""
        ...

    def close(self) -> None: ...


@dataclass(slots=True)
class ArmState:
    """What an arm's servos report at once; one entry an axis, shaft side. Not frozen: a loop makes one a tick.

    ``position_rad`` [rad] is the shaft's angle since the servo's own zero, cumulative over turns; ``velocity_rad_s``
    [rad/s]; ``current_a`` [A] is measured.
    """

    position_rad: list[float]
    velocity_rad_s: list[float]
    current_a: list[float]


@dataclass(frozen=True)
class ArmHealth:
    """What an arm's servos report of themselves, one entry an axis; read off the control loop's path.

    ``hardware_error`` is each servo's own bits, 0 when it is well; ``watchdog_tripped`` is whether its bus watchdog has
    stopped it. ``watchdog_s`` [s] is the watchdog's time as the servo has it, 0 when it is off or has tripped.
    """

    temperature_degc: list[float]
    supply_v: list[float]
    hardware_error: list[int]
    torque_enabled: list[bool]
    watchdog_tripped: list[bool]
    watchdog_s: list[float]


@dataclass(slots=True)
class ArmCondition:
    """How warm an arm's servos are [degC] and what supply they have [V], one entry an axis."""

    temperature_degc: list[float]
    supply_v: list[float]


@runtime_checkable
class ArmDrives(Protocol):
    """The servos of an arm on one bus, commanded by motor current. A silent bus makes them stop by themselves.

    ``command_s`` is how long a command is on its way to the motors after :meth:`write_currents` has returned [s].
    """

    command_s: float

    def identify(self) -> tuple[Identity, ...]: ...

    def arm_watchdog(self, timeout_s: float) -> None:
        """Set how long [s] the bus may be silent before each *servo* stops by itself: an independent stop.

        0 disarms it. A tripped one is not cleared by this, but by :meth:`clear_faults`.
        """
        ...

    def torque_enable(self, on: bool) -> None:
        """Switch every motor on, at no current, or off; read back. Off by default."""
        ...

    def read(self) -> ArmState:
        """Return the state of every axis, in one transaction.

        Raises
        ------
        DriveFault
            A servo has a hardware error.
        InstrumentTimeout
            A servo does not answer; it is named. BusSilent: none does.
        """
        ...

    def on_silence(self, action: Callable[[], None]) -> None:
        """Have ``action`` called as soon as a servo misses a reply, before it is found out which: that takes time."""
        ...

    def write_currents(self, currents_a: Sequence[float], *, blindly: bool = False) -> None:
        """Command one current [A] an axis, to all axes at once. The bus carries no reply.

        After a silence or a missing reply the servos are asked how they are first, unless ``blindly``: so that those
        that still listen hold the arm until its brakes have closed.

        Raises
        ------
        LimitError
            A current is not finite or above its limit; nothing was sent.
        """
        ...

    def condition(self) -> ArmCondition:
        """Return temperatures and supply, in one transaction: short enough to fit between two ticks of a loop."""
        ...

    def health(self) -> ArmHealth:
        """Return what the servos say of themselves. A hardware error is reported in it, not raised."""
        ...

    def clear_faults(self) -> None:
        """Clear hardware errors and tripped watchdogs, as far as the servos let it; the motors are off then.

        A deliberate step, for a person or for the start of a run.
        """
        ...

    def stop(self) -> None:
        """Command no current, switch every motor off, and read back that it is."""
        ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class VoltageInput:
    """One analog voltage input; range in V."""

    channel: str
    minimum_v: float = -10.0
    maximum_v: float = 10.0
    terminal: str = "differential"


@dataclass(frozen=True)
class BridgeInput:
    """One strain-gauge bridge input, read as the ratio mV/V; range and excitation in mV/V and V."""

    channel: str
    minimum_mv_v: float = -2.0
    maximum_mv_v: float = 2.0
    excitation_v: float = 10.0
    bridge: str = "full"
    nominal_resistance_ohm: float = 350.0


@dataclass(frozen=True)
class LinearEncoder:
    """A linear quadrature encoder on a counter, read in mm."""

    counter: str
    distance_per_pulse_mm: float
    decoding: str = "X4"
    initial_mm: float = 0.0


@dataclass(frozen=True)
class AngularEncoder:
    """An angular quadrature encoder on a counter, read in rad."""

    counter: str
    pulses_per_revolution: int
    decoding: str = "X4"
    initial_rad: float = 0.0


AnalogChannel = VoltageInput | BridgeInput
EncoderChannel = LinearEncoder | AngularEncoder


@dataclass(frozen=True)
class Anchor:
    """Where sample 0 lies in time: clock ns and UTC ns, each with the half-width of the interval it was taken in."""

    clock_ns: int
    utc_ns: int
    half_width_ns: int


@dataclass(frozen=True)
class Block:
    """Consecutive samples. ``analog`` has shape (n_samples, n_analog) in V or mV/V, ``encoders``
    (n_samples, n_encoders) in mm or rad; ``first_sample`` counts from the start of the acquisition."""

    first_sample: int
    analog: Floats
    encoders: Floats


@runtime_checkable
class Acquisition(Protocol):
    """A running, hardware-clocked acquisition; all channels share one sample clock."""

    rate_hz: float

    def start(self) -> Anchor: ...

    def read(self, samples: int, timeout_s: float) -> Block:
        """Return exactly ``samples`` new samples, waiting for them at most ``timeout_s``."""
        ...

    def stop(self) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class DigitalInput(Protocol):
    def read(self) -> bool: ...

    def close(self) -> None: ...


@runtime_checkable
class DigitalOutput(Protocol):
    def write(self, level: bool) -> None: ...

    def read(self) -> bool:
        """Return the level that is on the line now, whoever drives it: not what was last written."""
        ...

    def close(self) -> None: ...


@runtime_checkable
class AnalogOutput(Protocol):
    def write(self, volts: float) -> None: ...

    def close(self) -> None: ...


@runtime_checkable
class Daq(Protocol):
    """A data-acquisition device."""

    def identify(self) -> Identity: ...

    def acquisition(
        self,
        analog: Sequence[AnalogChannel],
        encoders: Sequence[EncoderChannel],
        rate_hz: float,
        buffer_s: float = 10.0,
    ) -> Acquisition: ...

    def digital_input(self, line: str) -> DigitalInput: ...

    def digital_output(self, line: str) -> DigitalOutput: ...

    def analog_output(self, channel: str, minimum_v: float = -10.0, maximum_v: float = 10.0) -> AnalogOutput: ...

    def close(self) -> None: ...


@runtime_checkable
class ForceSensor(Protocol):
    """Turns raw analog readings into forces. It owns no hardware: the DAQ reads, the sensor converts."""

    channels: tuple[AnalogChannel, ...]
    force_names: tuple[str, ...]
    torque_names: tuple[str, ...]

    def identify(self) -> Identity: ...

    def tare(self, raw: Floats) -> None:
        """Take the mean of ``raw`` (n_samples, n_channels), unloaded, as the new zero."""
        ...

    def convert(self, raw: Floats) -> tuple[Floats, Floats]:
        """Return forces (n, n_force) in N and torques (n, n_torque) in N.m from ``raw`` (n, n_channels)."""
        ...

    def contact_force(self, forces: Floats) -> Floats:
        """Return (n,) the force along the pressing axis [N], positive when pressing, from ``forces`` (n, n_force)."""
        ...

    def saturated(self, raw: Floats) -> NDArray[np.bool_]:
        """Return (n_samples,) true where any channel touches the end of its range."""
        ...
