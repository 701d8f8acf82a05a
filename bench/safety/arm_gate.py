"""The one way to an arm's motors and brakes: every command passes here, and every reply is looked at here.

The brakes are open only while torque is commanded: they open after the first command and close before the last one
ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.clock import Clock, sleep
from bench.errors import BenchError, InstrumentError, LimitError, SafetyAbort
from bench.instruments.protocols import ArmDrives, ArmHealth, ArmState, DigitalOutput, Identity
from bench.models.drivetrain import Drivetrain
from bench.safety.interlock import Interlock
from bench.safety.limits import ArmLimits
from bench.safety.safe_state import WATCH_S, Stand

#: Joints that turn less than this over the watching time stand [rad].
STANDSTILL_RAD = 0.005
#: What two looks of the wrist sensor at a tool that stands may differ by [N].
STANDSTILL_N = 0.5
#: The brakes are only opened when the last command is no older than this [s].
FRESH_S = 0.05
#: The wrist is given this long to calm down once the brakes have closed [s].
CALM_S = 0.3

Pose = Sequence[float]
#: Joint torques that hold the arm against its weight at a pose (n,) [rad] -> (n,) [N.m].
Holding = Callable[[Pose], Sequence[float]]


@dataclass(slots=True)
class ArmReading:
    """What the servos report, shaft side and joint side; lists (n,) in rad, rad/s, A and N.m.

    ``shaft_rad`` counts from the profile's zero; ``torque_nm`` is what the measured currents make by the nominal torque
    constants.
    """

    shaft_rad: list[float]
    shaft_rad_s: list[float]
    current_a: list[float]
    position_rad: list[float]
    velocity_rad_s: list[float]
    torque_nm: list[float]


class GatedArm:
    """An arm's servos and brakes that refuse what its limits forbid, before the servos hear of it.

    Positions, speeds and torques here are the joints'. Reading and stopping are always allowed. A torque needs an
    unlatched gate, the enable line high and finite numbers inside the limits; what is read is held against the limits
    of position and speed. The e-stop itself takes the servos' supply and closes the brakes; its contact is read once a
    drain.

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
        self._zero = list(zero_rad)
        self._latched = ""
        self._holding: Holding | None = None
        self._brakes_open = False
        self._torque_on = False
        self._commanded_ns = -(1 << 62)
        self._last: ArmReading | None = None
        self._seen_moving_rad: float | None = None
        self._drivetrain = drivetrain
        self.n = len(limits.names)
        self._convert = _Converter(drivetrain)
        self._torque_limit = list(limits.torque_nm)
        self._speed = list(limits.speed_rad_s)
        self._low, self._high = list(limits.position_min_rad), list(limits.position_max_rad)

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
        return self._drivetrain

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

    def hold_with(self, holding: Holding) -> None:
        """Say which torques hold the arm, as it is loaded now; a stop commands them until the brakes have closed."""
        self._holding = holding

    # -- reading and stopping: always allowed

    def identify(self) -> tuple[Identity, ...]:
        return self._drives.identify()

    def health(self) -> ArmHealth:
        return self._drives.health()

    def reading(self) -> ArmReading:
        """Return the state of every axis, held against nothing."""
        return self._taken(self._drives.read())

    def close_brakes(self) -> None:
        """Let the brakes close; they have after their time, and torque has to hold the arm until then."""
        self._brakes_open = False
        self._brake.write(False)

    def stop(self) -> None:
        """Close the brakes, hold the arm against its weight meanwhile, then switch the motors off and look at it.

        What it takes is bounded by the brakes' time. When the servos do not answer the brakes close all the same.
        """
        try:
            self.close_brakes()
        finally:
            if self._torque_on:
                self._hold_until_braked()
                self._torque_on = False
                self._drives.stop()
                self._seen_moving_rad = self._watch()

    def close(self) -> None:
        self._drives.close()

    def _hold_until_braked(self) -> None:
        """Weight only: whatever made the run end may be the reason that any other torque would hurt."""
        if self._holding is None or self._last is None or not self._interlock.enabled:
            return
        weight = self._holding(self._last.position_rad)
        torque = [_clamped(t, limit) for t, limit in zip(weight, self._torque_limit, strict=True)]
        if not all(math.isfinite(t) for t in torque):
            return
        try:
            self._drives.write_currents(self._convert.currents(torque))
            sleep(self._clock, self._brake_time_s)
        except BenchError:
            return  # the brakes are closing; there is nobody to hold the arm

    def _watch(self) -> float:
        first = self._taken(self._drives.read()).position_rad
        sleep(self._clock, WATCH_S)
        last = self._taken(self._drives.read()).position_rad
        return max(abs(b - a) for a, b in zip(first, last, strict=True))

    def _moved(self) -> float:
        if self._seen_moving_rad is None:
            raise InstrumentError("the servos were not seen to stand before their supply was cut", where="arm")
        return self._seen_moving_rad

    # -- making torque possible: through the checks

    def arm_watchdog(self, timeout_s: float) -> None:
        """Make the *servos* stop by themselves ``timeout_s`` [s] after the bus fell silent."""
        self._drives.arm_watchdog(timeout_s)

    def clear_faults(self) -> None:
        """Clear hardware errors and tripped watchdogs; the motors stay off."""
        self._check_ready("clear the faults")
        self._drives.clear_faults()

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
        self._brake.write(True)
        self._brakes_open = True

    def read(self) -> ArmReading:
        """Return the state of every axis, held against the limits.

        Raises
        ------
        SafetyAbort
            ``"travel_limit"`` or ``"speed_limit"``; the joint is named.
        InstrumentError
            A servo does not answer, or has stopped by itself.
        """
        found = self._taken(self._drives.read())
        for q, low, high, v, speed in zip(
            found.position_rad, self._low, self._high, found.velocity_rad_s, self._speed, strict=True
        ):
            if not (low <= q <= high and -speed <= v <= speed):
                self._judge(found)
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
                self._refuse(torque_nm)
        currents = self._convert.currents(torque_nm)
        self._drives.write_currents(currents)
        self._commanded_ns = self._clock.now_ns()
        return currents

    def check_health(self) -> ArmHealth:
        """Ask the servos how they are.

        Raises
        ------
        SafetyAbort
            ``"temperature_limit"``, ``"drive_fault"`` or ``"drive_watchdog"``; the joint is named.
        """
        health = self._drives.health()
        for name, hot, error, tripped in zip(
            self._limits.names, health.temperature_degc, health.hardware_error, health.watchdog_tripped, strict=True
        ):
            if not hot < self._limits.temperature_degc:
                raise SafetyAbort(
                    f"the servo of joint {name} is at {hot:.0f} degC, limit {self._limits.temperature_degc:g} degC",
                    reason="temperature_limit",
                    where="arm",
                    remedy="Let it cool; lower torque or duty of the procedure, or improve the cooling.",
                )
            if error or tripped:
                what = f"reports hardware error 0x{error:02x}" if error else "was stopped by its bus watchdog"
                raise SafetyAbort(
                    f"the servo of joint {name} {what}",
                    reason="drive_fault" if error else "drive_watchdog",
                    where="arm",
                    remedy="Find the cause, then open the station again.",
                )
        return health

    def check_following(self, position: Sequence[float], desired: Sequence[float]) -> None:
        """Raise :class:`SafetyAbort` (``"not_following"``) when a joint is far from where it should be."""
        allowed = self._limits.following_rad
        for name, q, wanted in zip(self._limits.names, position, desired, strict=True):
            if not abs(q - wanted) <= allowed:
                raise SafetyAbort(
                    f"joint {name} is at {math.degrees(q):.1f} deg and should be at {math.degrees(wanted):.1f} deg",
                    reason="not_following",
                    where="arm",
                    remedy="Look for an obstacle, a stuck encoder, a servo on another joint's id, a wrong direction, "
                    "gear ratio or torque constant, or a heavier load than the profile says.",
                )

    # -- the steps

    def _taken(self, state: ArmState) -> ArmReading:
        shaft = [p - z for p, z in zip(state.position_rad, self._zero, strict=True)]
        convert = self._convert
        self._last = reading = ArmReading(
            shaft,
            state.velocity_rad_s,
            state.current_a,
            convert.positions(shaft),
            convert.velocities(state.velocity_rad_s),
            convert.torques(state.current_a),
        )
        return reading

    def _check_ready(self, where: str) -> None:
        self._interlock.refuse_unless_ready(
            self._latched, f"arm: {where}", "Find the cause, then make the station ready again."
        )

    def _refuse(self, torque_nm: Sequence[float]) -> None:
        for name, torque, limit in zip(self._limits.names, torque_nm, self._torque_limit, strict=True):
            if math.isfinite(torque) and -limit <= torque <= limit:
                continue
            where = f"arm command: {torque:g} N.m at joint {name}"
            if not math.isfinite(torque):
                raise LimitError(
                    "the torque must be a finite number",
                    reason="bad_command",
                    where=where,
                    remedy="Check what the controller computed it from.",
                )
            raise LimitError(
                f"the torque {torque:.4g} N.m is beyond the limit of {limit:g} N.m",
                reason="torque_limit",
                where=where,
                remedy="Lower the controller's gains or the motion's acceleration, or take some payload off; the limit "
                "is peak_torque over safety_factor_peak, or what max_current makes.",
            )

    def _judge(self, found: ArmReading) -> None:
        limits = self._limits
        for i, name in enumerate(limits.names):
            q, v = found.position_rad[i], found.velocity_rad_s[i]
            if not limits.position_min_rad[i] <= q <= limits.position_max_rad[i]:
                low, high = math.degrees(limits.position_min_rad[i]), math.degrees(limits.position_max_rad[i])
                raise SafetyAbort(
                    f"joint {name} is at {math.degrees(q):.1f} deg, limits {low:.1f} … {high:.1f} deg",
                    reason="travel_limit",
                    where="arm",
                    remedy="Move the joint back by hand; check the servo's zero_count and direction.",
                )
            if not abs(v) <= limits.speed_rad_s[i]:
                raise SafetyAbort(
                    f"joint {name} turns at {v:.3g} rad/s, limit {limits.speed_rad_s[i]:g} rad/s",
                    reason="speed_limit",
                    where="arm",
                    remedy="Look for an unstable controller or a load that came off; else lower the procedure's speed.",
                )


class _Converter:
    """The drivetrain on plain lists: a loop at hundreds of hertz has no time for small arrays."""

    def __init__(self, drivetrain: Drivetrain) -> None:
        self._drivetrain = drivetrain
        to_joint = drivetrain.to_joint
        n = len(to_joint)
        self.straight = bool(all(to_joint[i, j] == 0.0 for i in range(n) for j in range(n) if i != j))
        self._scale = [float(to_joint[i, i]) for i in range(n)]
        self._offset = [float(x) for x in drivetrain.offset]
        self._constant = [float(k) for k in drivetrain.torque_constant]
        self._amperes = [s / k for s, k in zip(self._scale, self._constant, strict=True)]
        self._newton_metres = [k / s for s, k in zip(self._scale, self._constant, strict=True)]

    def positions(self, shaft: list[float]) -> list[float]:
        if self.straight:
            return [s * x + o for s, x, o in zip(self._scale, shaft, self._offset, strict=True)]
        coupled: list[float] = self._drivetrain.joint_position(_array(shaft)).tolist()
        return coupled

    def velocities(self, shaft: list[float]) -> list[float]:
        if self.straight:
            return [s * x for s, x in zip(self._scale, shaft, strict=True)]
        coupled: list[float] = self._drivetrain.joint_velocity(_array(shaft)).tolist()
        return coupled

    def torques(self, current: list[float]) -> list[float]:
        if self.straight:
            return [k * x for k, x in zip(self._newton_metres, current, strict=True)]
        coupled: list[float] = self._drivetrain.joint_torque_of_current(_array(current)).tolist()
        return coupled

    def currents(self, torque: Sequence[float]) -> list[float]:
        if self.straight:
            return [a * x for a, x in zip(self._amperes, torque, strict=True)]
        coupled: list[float] = self._drivetrain.current(_array(torque)).tolist()
        return coupled


def _array(numbers: Sequence[float]) -> NDArray[np.float64]:
    return np.array(numbers, dtype=np.float64)


def _clamped(value: float, limit: float) -> float:
    return max(-limit, min(limit, value))
