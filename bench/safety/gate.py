"""The one way to motion: every command to a stage passes here before it reaches the driver."""

from __future__ import annotations

import math

from bench.errors import LimitError
from bench.instruments.protocols import Identity, LinearStage
from bench.safety.interlock import Interlock
from bench.safety.limits import MotionLimits
from bench.safety.safe_state import Stand

#: An axis that moves less than this over the watching time stands [mm]: encoder noise and servo hum stay below it.
STANDSTILL_MM = 0.02


class GatedStage:
    """A linear stage that refuses what its limits forbid, before the device hears of it.

    Offers what :class:`~bench.instruments.protocols.LinearStage` asks for, so a procedure cannot tell it from a driver
    and has no other handle on the axis. Reading and stopping are always allowed; moving needs an unlatched gate, the
    enable line high, the e-stop healthy, a homed axis, and a target and a speed inside the limits.

    Parameters
    ----------
    stage : LinearStage
        The driver.
    interlock : Interlock
        The rig's enable line and e-stop.
    limits : MotionLimits
        Of the rig profile.
    """

    def __init__(self, stage: LinearStage, interlock: Interlock, limits: MotionLimits) -> None:
        self._stage = stage
        self._interlock = interlock
        self._rig_limits = limits
        self._limits = limits
        self._latched = ""

    @property
    def limits(self) -> MotionLimits:
        """The limits in force: the rig's, or narrower once armed."""
        return self._limits

    @property
    def rig_limits(self) -> MotionLimits:
        """The widest limits, from the rig profile."""
        return self._rig_limits

    @property
    def stand(self) -> Stand:
        """How the safe state tells that the axis stands."""
        return Stand("stage", self.position_mm, STANDSTILL_MM, "mm")

    @property
    def latched(self) -> str:
        """Why the gate stays shut, or an empty string."""
        return self._latched

    def latch(self, reason: str) -> None:
        """Shut the gate; motion is refused until :meth:`unlatch`. The first reason is kept."""
        self._latched = self._latched or reason

    def unlatch(self) -> None:
        """Open the gate again after a stop, with the rig's limits; the axis counts as lost until it is homed."""
        self._latched = ""
        self._limits = self._rig_limits

    # -- reading and stopping: always allowed

    def identify(self) -> Identity:
        return self._stage.identify()

    def is_homed(self) -> bool:
        return self._stage.is_homed()

    def position_mm(self) -> float:
        return self._stage.position_mm()

    def is_moving(self) -> bool:
        return self._stage.is_moving()

    def wait_idle(self, timeout_s: float) -> None:
        self._stage.wait_idle(timeout_s)

    def stop(self) -> None:
        self._stage.stop()

    def close(self) -> None:
        self._stage.close()

    # -- moving: through the checks

    def home(self) -> None:
        """Home the axis. Home lies at the end away from the tissue, so no travel limit applies."""
        self._check_ready("home")
        self._stage.home()

    def clear_faults(self) -> None:
        """Clear what the controller shows since it had no power; it does not move."""
        self._check_ready("clear the faults")
        self._stage.clear_faults()

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        """Make the controller stop at these positions [mm], and refuse targets beyond them here as well."""
        limits = self._rig_limits.narrowed(minimum_mm, maximum_mm)
        self._stage.arm_travel_limits(minimum_mm, maximum_mm)
        self._limits = limits

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        """Start a move and return the longest time it may take [s].

        Raises
        ------
        LimitError
            When the gate is latched, the enable line is low, the axis is not homed, or the target or the speed lies
            outside the limits. Nothing has reached the device then.
        SafetyAbort
            ``"estop"`` when the e-stop is pressed.
        """
        where = f"stage command: to {position_mm:g} mm at {speed_mm_s:g} mm/s"
        limits = self._limits
        if not (math.isfinite(position_mm) and math.isfinite(speed_mm_s)):
            raise LimitError(
                "target and speed must be finite numbers",
                reason="bad_command",
                where=where,
                remedy="Check what the target was computed from.",
            )
        if not limits.travel_min_mm <= position_mm <= limits.travel_max_mm:
            raise LimitError(
                f"the target {position_mm:g} mm lies outside the travel "
                f"{limits.travel_min_mm:g} … {limits.travel_max_mm:g} mm",
                reason="travel_limit",
                where=where,
                remedy="Correct the target, or the travel limits in the rig profile's [safety] table.",
            )
        if not 0 < speed_mm_s <= limits.speed_mm_s:
            raise LimitError(
                f"the speed {speed_mm_s:g} mm/s is not above 0 and at most {limits.speed_mm_s:g} mm/s",
                reason="speed_limit",
                where=where,
                remedy="Ask for a speed inside the rig profile's [safety] table.",
            )
        self._check_ready(where)
        if not self._stage.is_homed():
            raise LimitError(
                "the axis is not homed, so its position means nothing",
                reason="not_homed",
                where=where,
                remedy="Home the axis first.",
            )
        return self._stage.start_move(position_mm, speed_mm_s)

    def _check_ready(self, where: str) -> None:
        again = "Find the cause, then make the station ready again: it homes before it moves."
        self._interlock.refuse_unless_ready(self._latched, where, again)
        self._interlock.check()
