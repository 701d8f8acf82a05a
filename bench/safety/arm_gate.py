"""The one way to an arm's motors and brakes: every command passes here, and every reply is looked at here.

The brakes are open only while torque is commanded: they open after the first command and close before the last one
ends.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.clock import Clock, sleep
from bench.errors import (
    BenchError,
    BusSilent,
    InstrumentDisconnected,
    InstrumentError,
    LimitError,
)
from bench.instruments.protocols import ArmCondition, ArmDrives, ArmHealth, DigitalOutput, Identity
from bench.models.drivetrain import Drivetrain
from bench.safety.arm_axes import ArmAxes, ArmReading
from bench.safety.arm_errors import check_health, check_temperatures, left_limits, refused_torque, tip_error
from bench.safety.interlock import Interlock
from bench.safety.limits import ArmLimits
from bench.safety.safe_state import WATCH_S, Stand

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: Joints that turn less than this over the watching time stand [rad].
STANDSTILL_RAD = 0.005
#: What two looks of the wrist sensor at a tool that stands may differ by [N].
STANDSTILL_N = 0.5
#: The brakes are only opened when the last command is no older than this [s].
FRESH_S = 0.05
#: The wrist is given this long to calm down once the brakes have closed [s].
CALM_S = 0.3

#: The tip is looked at on every so many readings: it costs as much as all the rest of a reading.
TIP_READINGS = 4
#: Time between two commands while the brakes close [s]: well below any watchdog of the servos.
HOLD_S = 0.01


class GatedArm:
    """An arm's servos and brakes that refuse what its limits forbid, before the servos hear of it.

    Positions, speeds and torques here are the joints'. Reading and stopping are always allowed. A torque needs an
    unlatched gate, the enable line high and finite numbers inside the limits; what is read is held against the limits
    of position and speed, of the joints and of the tip. The e-stop itself takes the servos' supply and closes the
    brakes; its contact is read once a drain. As soon as a servo does not answer the brakes are told to close.

    Parameters
    ----------
    drives : ArmDrives
        The driver.
    interlock : Interlock
        The rig's enable line and e-stop.
    brake : DigitalOutput
        High opens the brakes, while enabled.
    limits : ArmLimits
        Of the rig profile.
    drivetrain : Drivetrain
    zero_rad : sequence of float
        Where the servos' shafts stand at the profile's zero (n,) [rad].
    clock : Clock
    brake_time_s : float
        What the brakes take to open or close [s].
    """

    def __init__(
        self,
        drives: ArmDrives,
        interlock: Interlock,
        brake: DigitalOutput,
        limits: ArmLimits,
        drivetrain: Drivetrain,
        *,
        zero_rad: Sequence[float],
        clock: Clock,
        brake_time_s: float,
    ) -> None:
        self._drives = drives
        self._interlock = interlock
        self._brake = brake
        self._rig_limits = self._limits = limits
        self._clock = clock
        self._brake_time_s = brake_time_s
        self._latched = ""
        self._model: ArmModel | None = None
        self._brakes_open = self._torque_on = self._dead = False
        self._commanded_ns = -(1 << 62)
        self._last: ArmReading | None = None
        self._until_tip = 0
        self._seen_moving_rad: float | None = None
        self._axes = ArmAxes(drivetrain, zero_rad)
        self.n = len(limits.names)
        self._torque_limit = list(limits.torque_nm)
        self._bounds = list(zip(limits.position_min_rad, limits.position_max_rad, limits.speed_rad_s, strict=True))
        self._box = list(zip(limits.box_min_m, limits.box_max_m, strict=True))
        self._tip_speed2 = limits.tip_speed_m_s**2
        drives.on_silence(self._close_quietly)

    # -- what is in force

    @property
    def limits(self) -> ArmLimits:
        """The limits in force: the rig's, or narrower."""
        return self._limits

    @property
    def rig_limits(self) -> ArmLimits:
        """The widest limits, from the rig profile."""
        return self._rig_limits

    @property
    def drivetrain(self) -> Drivetrain:
        return self._axes.drivetrain

    @property
    def command_s(self) -> float:
        """How long a command is on its way to the motors once :meth:`torques` has returned [s]."""
        return self._drives.command_s

    @property
    def commanded_ns(self) -> int:
        """When :meth:`torques` last handed a command over [ns of the clock]."""
        return self._commanded_ns

    @property
    def latched(self) -> str:
        """Why the gate stays shut, or an empty string."""
        return self._latched

    @property
    def brakes_open(self) -> bool:
        """Whether the brakes were last told to be open."""
        return self._brakes_open

    @property
    def stand(self) -> Stand:
        """How the safe state tells that the arm stands.

        Without their supply the servos answer nobody: they are watched after the brakes have closed and before the
        enable line drops, and the wrist sensor, which feels its tool move, is the witness afterwards.
        """
        return Stand("arm", self._moved, STANDSTILL_RAD, "rad", None, CALM_S, STANDSTILL_N, "N")

    def latch(self, reason: str) -> None:
        """Shut the gate; torque is refused until :meth:`unlatch`. The first reason is kept."""
        self._latched = self._latched or reason

    def unlatch(self) -> None:
        """Open the gate again after a stop, with the rig's limits."""
        self._latched = ""
        self._limits = self._rig_limits
        self._seen_moving_rad = None

    def narrow(self, force_n: float) -> None:
        """Lower the force limit at the wrist to ``force_n`` [N]; never raises it above the rig's."""
        self._limits = self._rig_limits.narrowed(force_n)

    def carry(self, model: ArmModel) -> None:
        """Say what the arm is, as it is loaded now: its weight is held while the brakes close, and its tip is watched.

        The model is the gate's own from now on, for it is used at every tick.
        """
        self._model, self._until_tip = model, 0

    def weight(self, position: Sequence[float] | Floats) -> Floats:
        """Return the joint torques (n,) that hold the arm at ``position`` (n,), nominal; zeros while nobody said what
        it carries."""
        return np.zeros(self.n) if self._model is None else self._model.gravity(np.asarray(position)).copy()

    # -- reading and stopping: always allowed

    def identify(self) -> tuple[Identity, ...]:
        return self._drives.identify()

    def health(self) -> ArmHealth:
        return self._drives.health()

    def reading(self) -> ArmReading:
        """Return the state of every axis, held against nothing."""
        try:
            found = self._axes.reading(self._drives.read())
        except (BusSilent, InstrumentDisconnected):
            self._dead = True
            raise
        self._last, self._dead = found, False
        return found

    def close_brakes(self) -> None:
        """Let the brakes close; they have after their time, and torque has to hold the arm until then."""
        self._brakes_open = False
        self._brake.write(False)

    def stop(self) -> None:
        """Close the brakes, hold the arm against its weight meanwhile, then switch the motors off and look at it.

        What it takes is bounded by the brakes' time and the servos' answers. Where nobody answers nothing is waited
        for, so that the enable line, which takes the supply of motors and brakes, is dropped at once. Where the brake
        line cannot be driven the motors stay on for the same reason: they have to hold until that line closes the
        brakes; else the servos' own watchdog ends their torque.

        Raises
        ------
        InstrumentError
            A servo does not say that its motor is off.
        """
        try:
            self.close_brakes()
        except BaseException:
            if self._torque_on:
                with contextlib.suppress(BenchError):
                    self._hold()
            raise
        if not self._torque_on:
            if self._seen_moving_rad is None and self._interlock.enabled and not self._dead:
                self._seen_moving_rad = self._watch()
            return
        self._torque_on = False
        if self._dead:
            raise InstrumentError(
                "nobody on the bus answers: the motors could not be told to stop, the brakes are closing",
                where="arm",
                remedy="Look at the servos' supply, the cable and the adapter.",
            )
        try:
            self._hold_until_braked()
        finally:
            self._drives.stop()
        self._seen_moving_rad = self._watch()

    def close(self) -> None:
        self._drives.close()

    def _close_quietly(self) -> None:
        """A servo misses a reply: close the brakes before it is found out which, without losing that error."""
        if self._brakes_open:
            with contextlib.suppress(Exception):
                self.close_brakes()

    def _hold(self) -> None:
        """Command what holds the weight, whoever listens.

        Weight only: whatever made the run end may be the reason that any other torque would hurt.
        """
        if self._model is None or self._last is None:
            return  # what was commanded last holds until the servos' watchdog
        weight = self.weight(self._last.position_rad).tolist()
        torque = [max(-limit, min(limit, t)) for t, limit in zip(weight, self._torque_limit, strict=True)]
        if all(math.isfinite(t) for t in weight):
            self._drives.write_currents(self._axes.currents(torque), blindly=True)

    def _hold_until_braked(self) -> None:
        end_ns = self._clock.now_ns() + round(self._brake_time_s * 1e9)
        with contextlib.suppress(BenchError):  # the brakes are closing; there is nobody to hold the arm
            while self._interlock.enabled and (left_ns := end_ns - self._clock.now_ns()) > 0:
                self._hold()
                sleep(self._clock, min(HOLD_S, left_ns * 1e-9))

    def _watch(self) -> float:
        first = self.reading().position_rad
        sleep(self._clock, WATCH_S)
        return max(abs(b - a) for a, b in zip(first, self.reading().position_rad, strict=True))

    def _moved(self) -> float:
        if self._seen_moving_rad is None:
            raise InstrumentError("the servos were not seen to stand before their supply was cut", where="arm")
        return self._seen_moving_rad

    # -- making torque possible: through the checks

    def arm_watchdog(self, timeout_s: float) -> None:
        """Make the *servos* stop by themselves ``timeout_s`` [s] after the bus fell silent."""
        self._drives.arm_watchdog(timeout_s)

    def clear_faults(self) -> None:
        """Clear hardware errors and tripped watchdogs; the motors stay off. Servos that were without supply are found
        again where they were seen last, see :class:`~bench.safety.arm_axes.ArmAxes`."""
        self._check_ready("clear the faults")
        self._drives.clear_faults()
        self._axes.refer(self._drives.read(), self._last)

    def torque_enable(self, on: bool) -> None:
        """Switch the motors on, at no torque, or off."""
        if on:
            self._check_ready("switch the motors on")
        elif self._brakes_open:
            raise LimitError(
                "the brakes are open and would hold nothing",
                reason="brakes_open",
                where="arm",
                remedy="Close the brakes first; recording.park() does both.",
            )
        self._torque_on, self._seen_moving_rad = True, None  # while it is not known better
        self._drives.torque_enable(on)
        self._torque_on = on

    def open_brakes(self) -> None:
        """Let the brakes open.

        Raises
        ------
        LimitError
            The gate is latched, the enable line is low, or no torque was commanded just before.
        """
        self._check_ready("open the brakes")
        age_s = (self._clock.now_ns() - self._commanded_ns) * 1e-9
        if not self._torque_on or not age_s <= FRESH_S:
            raise LimitError(
                "nothing would hold the arm: no torque was commanded just before",
                reason="brakes_without_torque",
                where="arm: open the brakes",
                remedy="Command the torque that holds the arm, then open the brakes.",
            )
        self._brakes_open = True  # while it is not known better
        self._brake.write(True)

    def read(self) -> ArmReading:
        """Return the state of every axis, held against the limits.

        Raises
        ------
        SafetyAbort
            ``"travel_limit"`` or ``"speed_limit"`` of a joint, which is named; on every :data:`TIP_READINGS` readings
            ``"workspace_box"`` or ``"tip_speed_limit"`` of the tip.
        InstrumentError
            A servo does not answer, or has stopped by itself.
        """
        found = self.reading()
        position, velocity = found.position_rad, found.velocity_rad_s
        for q, v, (low, high, speed) in zip(position, velocity, self._bounds, strict=True):
            if not (low <= q <= high and -speed <= v <= speed):
                raise left_limits(self._limits, found)
        self._until_tip -= 1
        if self._model is not None and self._until_tip <= 0:
            self._until_tip = TIP_READINGS
            (x, y, z), (a, b, c) = self._model.motion(np.array(position), np.array(velocity))
            (x0, x1), (y0, y1), (z0, z1) = self._box
            if not (x0 <= x <= x1 and y0 <= y <= y1 and z0 <= z <= z1 and a * a + b * b + c * c <= self._tip_speed2):
                raise tip_error(self._limits, (x, y, z), math.sqrt(a * a + b * b + c * c))
        return found

    def torques(self, torque_nm: Sequence[float]) -> list[float]:
        """Command joint torques (n,) [N.m] and return the motor currents (n,) [A] that were sent.

        Raises
        ------
        LimitError
            The gate is latched, the enable line is low, or a torque is not finite or beyond its limit. Nothing has
            reached a servo then.
        """
        if self._latched or not self._interlock.enabled:
            self._check_ready("command torques")
        for torque, limit in zip(torque_nm, self._torque_limit, strict=True):
            if not -limit <= torque <= limit:  # so that a NaN fails
                raise refused_torque(self._limits, torque_nm)
        currents = self._axes.currents(torque_nm)
        try:
            self._drives.write_currents(currents)
        except (BusSilent, InstrumentDisconnected):
            self._dead = True
            raise
        self._commanded_ns = self._clock.now_ns()
        return currents

    def check_condition(self) -> ArmCondition:
        """Ask the servos how warm they are, in one transaction; raise as :meth:`check_health`."""
        condition = self._drives.condition()
        check_temperatures(self._limits, condition.temperature_degc)
        return condition

    def check_health(self) -> ArmHealth:
        """Ask the servos how they are.

        Raises
        ------
        SafetyAbort
            ``"temperature_limit"``, ``"drive_fault"`` or ``"drive_watchdog"``; the joint is named.
        """
        health = self._drives.health()
        check_health(self._limits, health)
        return health

    # -- the steps

    def _check_ready(self, where: str) -> None:
        self._interlock.refuse_unless_ready(
            self._latched, f"arm: {where}", "Find the cause, then make the station ready again."
        )
