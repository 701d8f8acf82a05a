"""The one way to a joint's torque: every command to the drive passes here, and every reply is looked at here."""

from __future__ import annotations

import math

from bench.errors import InstrumentError, LimitError, SafetyAbort
from bench.instruments.protocols import DriveState, Identity, JointDrive
from bench.safety.interlock import Interlock
from bench.safety.limits import JointLimits
from bench.safety.safe_state import Stand, StillDriven

#: A joint that turns less than this over the watching time stands [rad]: the arm may still tremble on its gear.
STANDSTILL_RAD = 0.005
#: A braked joint with an arm on an elastic gear is given this long to calm down [s].
CALM_S = 0.5
#: Rotor torque a drive that is off may report [N.m], as a share of its largest: offset of its current sensors.
IDLE_TORQUE_SHARE = 0.05
#: Drive modes in which no torque is commanded: stopped, fault, the watchdog's, brake.
QUIET_MODES = (0, 1, 11, 15)


class GatedDrive:
    """A joint drive that refuses what its limits forbid, before the drive hears of it.

    Torques and angles here are the joint's (counter-clockwise positive); the drive's own are the rotor's. Reading and
    stopping are always allowed. A torque needs an unlatched gate, the enable line high and a finite number inside the
    limit; the reply to it is held against the limits of speed, travel and temperature. The e-stop itself takes the
    drive's supply; its contact is read once a block, since asking the DAQ at each command would cost the loop its rate.

    Parameters
    ----------
    drive : JointDrive
        The driver.
    interlock : Interlock
        The rig's enable line and e-stop.
    limits : JointLimits
        Of the rig profile.
    gear_ratio : float
        Rotor revolutions per joint revolution.
    direction : {1, -1}
        -1 where a positive rotor angle turns the joint clockwise.
    """

    def __init__(
        self, drive: JointDrive, interlock: Interlock, limits: JointLimits, *, gear_ratio: float, direction: int = 1
    ) -> None:
        self._drive = drive
        self._command = drive.command_torque
        self._interlock = interlock
        self._rig_limits = limits
        self._latched = ""
        self._direction = direction
        self._ratio = gear_ratio
        self._to_rotor = direction / gear_ratio
        self._zero_rotor_rad = 0.0
        self._zero_joint_rad = 0.0
        self._adopt(limits)

    def _adopt(self, limits: JointLimits) -> None:
        self._limits = limits
        self._torque_nm = limits.torque_nm
        self._rotor_speed = limits.speed_rad_s * self._ratio
        self._hottest = limits.temperature_degc
        ends = [self._rotor_at(angle) for angle in (limits.travel_min_rad, limits.travel_max_rad)]
        self._rotor_low, self._rotor_high = min(ends), max(ends)

    def _rotor_at(self, joint_rad: float) -> float:
        return self._zero_rotor_rad + self._direction * self._ratio * (joint_rad - self._zero_joint_rad)

    # -- what is in force

    @property
    def limits(self) -> JointLimits:
        """The limits in force: the rig's, or narrower."""
        return self._limits

    @property
    def rig_limits(self) -> JointLimits:
        """The widest limits, from the rig profile."""
        return self._rig_limits

    @property
    def gear_ratio(self) -> float:
        """Rotor revolutions per joint revolution, of the rig profile."""
        return self._ratio

    @property
    def direction(self) -> int:
        """1, or -1 where a positive rotor angle turns the joint clockwise."""
        return self._direction

    @property
    def latched(self) -> str:
        """Why the gate stays shut, or an empty string."""
        return self._latched

    @property
    def stand(self) -> Stand:
        """How the safe state tells that the joint stands and the drive is off."""
        return Stand("drive", lambda: self.angle(self.state()), STANDSTILL_RAD, "rad", self._readback, CALM_S)

    def latch(self, reason: str) -> None:
        """Shut the gate; torque is refused until :meth:`unlatch`. The first reason is kept."""
        self._latched = self._latched or reason

    def unlatch(self) -> None:
        """Open the gate again after a stop, with the rig's limits."""
        self._latched = ""
        self._adopt(self._rig_limits)

    def narrow(self, torque_nm: float) -> None:
        """Lower the torque limit to ``torque_nm`` [N.m], for what is mounted; never raises it above the rig's."""
        self._adopt(self._rig_limits.narrowed(torque_nm))

    # -- angles

    def refer(self, state: DriveState, joint_angle_rad: float) -> None:
        """Take ``state``'s rotor angle for the joint at ``joint_angle_rad`` [rad]; travel counts from there."""
        self._zero_rotor_rad = state.rotor_angle_rad
        self._zero_joint_rad = joint_angle_rad
        self._adopt(self._limits)

    def angle(self, state: DriveState) -> float:
        """Return the joint angle that ``state``'s rotor angle stands for, with an unwound gear [rad]."""
        return self._zero_joint_rad + self._to_rotor * (state.rotor_angle_rad - self._zero_rotor_rad)

    # -- reading and stopping: always allowed

    def identify(self) -> Identity:
        return self._drive.identify()

    def state(self) -> DriveState:
        return self._drive.state()

    def stop(self) -> DriveState:
        return self._drive.stop()

    def brake(self) -> DriveState:
        return self._drive.brake()

    def close(self) -> None:
        self._drive.close()

    def _readback(self) -> str:
        state = self._drive.state()
        idle = IDLE_TORQUE_SHARE * self._torque_nm / self._ratio
        if state.mode not in QUIET_MODES or not abs(state.rotor_torque_nm) <= idle:
            raise StillDriven(f"mode {state.mode} with {state.rotor_torque_nm:g} N.m at the rotor")
        return f"mode {state.mode}, no torque"

    # -- making torque possible: through the checks

    def arm_watchdog(self, timeout_s: float) -> None:
        """Make the *drive* end the torque ``timeout_s`` [s] after the last command."""
        self._drive.arm_watchdog(timeout_s)

    def clear_fault(self) -> DriveState:
        """Clear the drive's fault or tripped watchdog; it stays off."""
        self._check_ready("clear the fault")
        return self._drive.clear_fault()

    def torque(self, torque_nm: float) -> DriveState:
        """Command ``torque_nm`` [N.m] at the joint and return the drive's state from just before it took effect.

        Raises
        ------
        LimitError
            The gate is latched, the enable line is low, or the torque is not finite or beyond the limit. Nothing has
            reached the drive then.
        SafetyAbort
            ``"speed_limit"``, ``"travel_limit"`` or ``"temperature_limit"``: the reply shows it.
        InstrumentError
            The drive has stopped by itself, or does not answer.
        """
        # Written so that a NaN fails; one comparison chain each, since this runs at every tick.
        if self._latched or not self._interlock.enabled or not -self._torque_nm <= torque_nm <= self._torque_nm:
            self._refuse(torque_nm)
        state = self._command(torque_nm * self._to_rotor)
        if not (
            -self._rotor_speed <= state.rotor_velocity_rad_s <= self._rotor_speed
            and self._rotor_low <= state.rotor_angle_rad <= self._rotor_high
            and state.temperature_degc < self._hottest
            and not state.motor_temperature_degc >= self._hottest  # NaN: there is no sensor
        ):
            self._judge(state)
        return state

    def check_travel(self, joint_angle_rad: float, time_s: float) -> None:
        """Raise :class:`SafetyAbort` (``"travel_limit"``) when the joint's own encoder shows an angle beyond it."""
        if not self._limits.travel_min_rad <= joint_angle_rad <= self._limits.travel_max_rad:
            raise self._beyond_travel(f"the joint encoder shows {joint_angle_rad:.4g} rad at {time_s:.3f} s")

    def _check_ready(self, where: str) -> None:
        self._interlock.refuse_unless_ready(self._latched, where, "Find the cause, then make the station ready again.")

    def _refuse(self, torque_nm: float) -> None:
        where = f"drive command: {torque_nm:g} N.m at the joint"
        self._check_ready(where)
        if not math.isfinite(torque_nm):
            raise LimitError(
                "the torque must be a finite number",
                reason="bad_command",
                where=where,
                remedy="Check what the controller computed it from.",
            )
        raise LimitError(
            f"the torque {torque_nm:.4g} N.m is beyond the limit of {self._torque_nm:g} N.m",
            reason="torque_limit",
            where=where,
            remedy="Lower the controller's gains or the motion's acceleration, or raise torque_limit in the rig "
            "profile's [safety] table (or the specimen's max_torque), if joint and load bear it.",
        )

    def _judge(self, state: DriveState) -> None:
        limits = self._limits
        speed = state.rotor_velocity_rad_s * self._to_rotor
        if not math.isfinite(speed) or not math.isfinite(state.rotor_angle_rad):
            raise InstrumentError(
                f"the drive reports the rotor at {state.rotor_angle_rad} rad and {state.rotor_velocity_rad_s} rad/s",
                where="drive",
                remedy="Check the drive's encoder and its configuration.",
            )
        if abs(speed) > limits.speed_rad_s:
            raise SafetyAbort(
                f"the joint turns at {speed:.4g} rad/s, limit {limits.speed_rad_s:g} rad/s",
                reason="speed_limit",
                where="drive",
                remedy="Look for a load that came off, or a wrong gear ratio or direction, which make a controller "
                "unstable; else lower the procedure's speed.",
            )
        angle = self.angle(state)
        if not limits.travel_min_rad <= angle <= limits.travel_max_rad:
            raise self._beyond_travel(f"the motor's encoder shows the joint at {angle:.4g} rad")
        for part, temperature in (("board", state.temperature_degc), ("motor", state.motor_temperature_degc)):
            if temperature >= limits.temperature_degc or (part == "board" and math.isnan(temperature)):
                raise SafetyAbort(
                    f"the drive's {part} is at {temperature:.1f} degC, limit {limits.temperature_degc:g} degC",
                    reason="temperature_limit",
                    where="drive",
                    remedy="Let it cool; lower torque or duty of the procedure, or improve the cooling.",
                )

    def _beyond_travel(self, what: str) -> SafetyAbort:
        limits = self._limits
        return SafetyAbort(
            f"{what}, limits {limits.travel_min_rad:.4g} … {limits.travel_max_rad:.4g} rad",
            reason="travel_limit",
            where="joint",
            remedy="Move the joint back by hand; check the procedure's centre and amplitude, and encoder.start_angle.",
        )
