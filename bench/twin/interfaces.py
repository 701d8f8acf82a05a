"""How the parts of the twin meet: the world's clock, the plant's signals and the devices' wires.

All times are integer nanoseconds of *world* time, zero when the twin starts. Everything here is called with the
world's lock held, except where it says so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Timer(Protocol):
    def cancel(self) -> None: ...


class Participant(Protocol):
    """A client thread the world waits for. Time moves only when every participant is parked."""

    name: str


class World(Protocol):
    """One clock, one lock, one timer heap."""

    tick_ns: int
    real_time: bool
    on_idle: list[Callable[[], None]]
    """Called, lock held, when a client was answered and computes: time for what must be done anyway."""

    @property
    def lock(self) -> AbstractContextManager[Any]:
        """The re-entrant world lock."""
        ...

    @property
    def now_ns(self) -> int: ...

    def at(self, time_ns: int, action: Callable[[], None]) -> Timer:
        """Run ``action`` under the lock when world time reaches ``time_ns`` (now, if it has passed)."""
        ...

    def park(self, participant: Participant, *, until_ns: int | None, ready: Callable[[], bool] | None = None) -> bool:
        """Block the calling thread (lock released meanwhile) until ``ready()`` or ``until_ns``.

        Returns whether ``ready()`` held. ``ready`` is evaluated whenever an event ran. ``None`` deadline without
        ``ready`` is an error: every wait has a deadline.
        """
        ...

    def free_call(self, participant: Participant, what: str) -> None:
        """Count a call that costs no world time; raise :class:`bench.errors.TwinError` when a client polls for ever."""
        ...


class CallGate(Protocol):
    """Maps a gRPC call to the participant that makes it.

    The runner's channel adds metadata ``bench-participant`` and ``bench-link-seq`` (how many frames that participant
    sent on its link so far; the call waits until the twin has handled them). Calls without metadata belong to an
    anonymous participant made on first use. ``call`` acquires the world lock for the body.
    """

    def call(self, context: Any, what: str) -> AbstractContextManager[Participant]: ...


class SerialPort(Protocol):
    """The device's end of a serial line."""

    def send(self, data: bytes, *, delay_ns: int = 0) -> None:
        """Send one frame: it starts ``delay_ns`` from now and arrives after its time on the wire."""
        ...


class SerialDevice(Protocol):
    """A device on a serial line."""

    name: str
    baud: int

    def attach(self, world: World, port: SerialPort) -> None:
        """Called once before any byte arrives."""
        ...

    def receive(self, data: bytes) -> None:
        """Bytes from the host, complete on the wire at ``world.now_ns``; frames may arrive in pieces."""
        ...


class StagePlant(Protocol):
    """The mechanical stage as its controller drives it. mm, mm/s, mm/s². Positive presses into the tissue."""

    def position_mm(self) -> float:
        """The position the controller's own sensor measures now."""
        ...

    def setpoint_mm(self) -> float:
        """Where the trajectory generator is now."""
        ...

    def velocity_mm_s(self) -> float: ...

    def is_moving(self) -> bool: ...

    def fault(self) -> str | None:
        """``"stalled"``, ``"unpowered"`` (enable line low or e-stop open) or None."""
        ...

    def move_to(self, target_mm: float, speed_mm_s: float, acceleration_mm_s2: float) -> int:
        """Start a trapezoidal move from the present state; return the world time [ns] at which it will end."""
        ...

    def move_velocity(self, speed_mm_s: float, acceleration_mm_s2: float) -> None: ...

    def stop(self, acceleration_mm_s2: float) -> int:
        """Decelerate; return the world time [ns] at which the stage stands."""
        ...

    def set_hard_limits(self, minimum_mm: float, maximum_mm: float) -> None: ...

    def set_zero_here(self) -> None:
        """The reference was found: make the present position zero (homing)."""
        ...

    def on_fault(self, action: Callable[[str], None]) -> None:
        """Call ``action`` (a fault code) when the stage loses power or stalls while it moves."""
        ...


class JointDrivePlant(Protocol):
    """A joint's motor as the drive's firmware sees and drives it. Rotor side: revolutions, rev/s, N.m, degC, V.

    Positive is the drive's own positive direction. What is read holds at ``world.now_ns``.
    """

    def position_rev(self) -> float:
        """Rotor angle since power-up [rev], cumulative, in whole steps of the drive's encoder."""
        ...

    def velocity_rev_s(self) -> float:
        """Rotor speed [rev/s] as the drive's filter estimates it."""
        ...

    def torque_nm(self) -> float:
        """The drive's own figure of the rotor torque [N.m]: measured current times its torque constant."""
        ...

    def temperature_degc(self) -> float:
        """Of the drive's board."""
        ...

    def motor_temperature_degc(self) -> float:
        """Of the motor's winding; NaN without a sensor."""
        ...

    def voltage_v(self) -> float:
        """Of the drive's supply."""
        ...

    def powered(self) -> bool:
        """Whether the drive has its supply (enable line high and e-stop closed)."""
        ...

    def command(
        self,
        feedforward_nm: float,
        kp_nm_per_rev: float,
        kd_nm_per_rev_s: float,
        position_rev: float,
        velocity_rev_s: float,
        maximum_torque_nm: float,
    ) -> None:
        """From now on make ``feedforward + kp (p - position) + kd (velocity_rev_s - velocity)``, clamped to ±maximum.

        ``p`` starts at ``position_rev`` and moves at ``velocity_rev_s``. The sum is evaluated at the plant's substeps
        and passes its current loop. Every argument is finite, gains and maximum are 0 or above.
        """
        ...

    def release(self) -> None:
        """From now on make no torque (driver off, phases open)."""
        ...

    def on_power(self, action: Callable[[bool], None]) -> None:
        """Call ``action`` whenever the supply comes (True) or goes (False); without supply there is no torque."""
        ...

    def on_fault(self, action: Callable[[int], None]) -> None:
        """Call ``action`` with a drive fault code when the motor side brings one about (for injected faults)."""
        ...


class ArmDrivesPlant(Protocol):
    """The motors of an arm as its servos' firmware sees and drives them. Servo shaft: rad, rad/s, A, degC, V.

    Axis k counts from 0, in the order of the arm's joints. Positive is the servo's own positive direction (the
    drivetrain's ``direction`` is not applied). What is read holds at ``world.now_ns``. Lists have one entry an axis.
    """

    axes: int

    def states(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """Shaft angles since the servos' own zeros [rad], cumulative; speeds [rad/s] and currents [A] as measured.

        Not rounded to the servos' units: the device does that.
        """
        ...

    def command_currents(self, currents_a: Sequence[float | None]) -> None:
        """From now on make these currents [A], finite and within each servo's limit; None: driver off, no current.

        They pass the motors' current loops. Without supply there is no current whatever was commanded.
        """
        ...

    def temperature_degc(self, axis: int) -> float:
        """Of the servo's inside."""
        ...

    def supply_v(self) -> float:
        """Of the bus."""
        ...

    def powered(self) -> bool:
        """Whether the servos have their supply (enable line high and e-stop closed)."""
        ...

    def on_power(self, action: Callable[[bool], None]) -> None:
        """Call ``action`` whenever the supply comes (True) or goes (False); the servos boot when it comes."""
        ...

    def on_fault(self, action: Callable[[int, int], None]) -> None:
        """Call ``action`` with axis and bits of Hardware Error Status when an injected fault brings them about."""
        ...


class SignalBus(Protocol):
    """What the DAQ device's terminals carry, as recorded on the plant's ticks.

    A tick is ``world.tick_ns`` long; tick k is at k * tick_ns. Reading up to the present tick makes the plant catch up
    first; reading the future is an error. Values are before the DAQ's own noise and quantisation.
    """

    def analog(self, channel: str, first_tick: int, count: int, stride: int) -> Floats:
        """Volts (or mV/V on a bridge channel) at ``count`` ticks from ``first_tick``, every ``stride``-th."""
        ...

    def encoder(self, counter: str, first_tick: int, count: int, stride: int) -> Floats:
        """Encoder position in *quarter pulses* (X4 edges, fractional) at these ticks."""
        ...

    def digital(self, line: str) -> bool: ...

    def set_digital(self, line: str, level: bool) -> None: ...

    def driven(self, line: str) -> bool:
        """What is driven on a line, which is not always what is on it."""
        ...

    def let_go(self, line: str) -> None:
        """Stop driving a line."""
        ...

    def set_analog(self, channel: str, volts: float) -> None: ...

    def channels(self) -> dict[str, str]:
        """Terminal name (``ai0``, ``ctr0``, ``port0/line0``, ``ao0``) → ``analog|bridge|encoder|digital_in|…``."""
        ...
