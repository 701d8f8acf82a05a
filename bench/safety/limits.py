"""What a rig may do, as plain numbers, read once from its profile."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from bench.errors import LimitError


@dataclass(frozen=True)
class MotionLimits:
    """Where a linear axis may go and how fast: positions in mm from home, speed in mm/s."""

    travel_min_mm: float
    travel_max_mm: float
    speed_mm_s: float

    def __post_init__(self) -> None:
        numbers = (self.travel_min_mm, self.travel_max_mm, self.speed_mm_s)
        if not all(math.isfinite(number) for number in numbers):
            raise LimitError(
                f"motion limits must be finite, got {numbers}",
                reason="bad_limits",
                remedy="Correct the [safety] table of the rig profile.",
            )
        if self.travel_min_mm >= self.travel_max_mm or self.speed_mm_s <= 0:
            raise LimitError(
                f"travel {self.travel_min_mm:g} … {self.travel_max_mm:g} mm at {self.speed_mm_s:g} mm/s is no motion",
                reason="bad_limits",
                remedy="Correct the [safety] table of the rig profile.",
            )

    def narrowed(self, minimum_mm: float, maximum_mm: float) -> MotionLimits:
        """Return these limits with the travel cut to ``minimum_mm … maximum_mm`` [mm].

        Raises
        ------
        LimitError
            When the wanted travel reaches outside these limits, or is empty.
        """
        if not (self.travel_min_mm <= minimum_mm < maximum_mm <= self.travel_max_mm):
            raise LimitError(
                f"travel {minimum_mm:g} … {maximum_mm:g} mm does not lie inside the rig's "
                f"{self.travel_min_mm:g} … {self.travel_max_mm:g} mm",
                reason="travel_limit",
                where="travel limits",
                remedy="Ask for less travel, or correct the specimen's surface position.",
            )
        return replace(self, travel_min_mm=minimum_mm, travel_max_mm=maximum_mm)


@dataclass(frozen=True)
class LoadLimits:
    """What the rig, the sensor and the specimen may bear: force in N, torque in N.m (None where none is measured)."""

    force_n: float
    torque_n_m: float | None = None

    def __post_init__(self) -> None:
        for name, number in (("force", self.force_n), ("torque", self.torque_n_m)):
            if number is not None and not (math.isfinite(number) and number > 0):
                raise LimitError(
                    f"the {name} limit must be a positive number, got {number}",
                    reason="bad_limits",
                    remedy="Correct the [safety] table of the rig profile.",
                )


@dataclass(frozen=True)
class JointLimits:
    """What a joint may do, seen at the joint: torque in N.m, speed in rad/s, angles in rad, temperature in degC."""

    torque_nm: float
    speed_rad_s: float
    travel_min_rad: float
    travel_max_rad: float
    temperature_degc: float

    def __post_init__(self) -> None:
        numbers = (self.torque_nm, self.speed_rad_s, self.travel_min_rad, self.travel_max_rad, self.temperature_degc)
        sound = all(math.isfinite(number) for number in numbers)
        if not sound or self.torque_nm <= 0 or self.speed_rad_s <= 0 or self.travel_min_rad >= self.travel_max_rad:
            raise LimitError(
                f"torque {self.torque_nm:g} N.m, speed {self.speed_rad_s:g} rad/s, travel {self.travel_min_rad:g} … "
                f"{self.travel_max_rad:g} rad, {self.temperature_degc:g} degC are no limits of a joint",
                reason="bad_limits",
                remedy="Correct the [safety] table of the rig profile.",
            )

    def narrowed(self, torque_nm: float) -> JointLimits:
        """Return these limits with the torque lowered to ``torque_nm`` [N.m], never raised."""
        return replace(self, torque_nm=min(self.torque_nm, torque_nm))


@dataclass(frozen=True)
class ArmLimits:
    """What an arm may do, per joint (n,): torque in N.m, speed in rad/s, positions in rad; its servos and its wrist.

    ``force_n`` and ``wrist_torque_nm`` are of the wrist sensor with the weight of tool and payload taken off;
    ``following_rad`` is how far a joint may be from where the controller wants it.
    """

    names: tuple[str, ...]
    torque_nm: tuple[float, ...]
    speed_rad_s: tuple[float, ...]
    position_min_rad: tuple[float, ...]
    position_max_rad: tuple[float, ...]
    box_min_m: tuple[float, float, float]
    box_max_m: tuple[float, float, float]
    tip_speed_m_s: float
    force_n: float
    wrist_torque_nm: float
    temperature_degc: float
    following_rad: float = 0.2

    def __post_init__(self) -> None:
        columns = (self.torque_nm, self.speed_rad_s, self.position_min_rad, self.position_max_rad)
        if len({len(self.names), *map(len, columns)}) != 1:
            raise _no_limits_of_an_arm("they are not one for each joint")
        finite = all(math.isfinite(number) for column in columns for number in column)
        singles = (self.tip_speed_m_s, self.force_n, self.wrist_torque_nm, self.following_rad)
        if not finite or not all(number > 0 for number in (*self.torque_nm, *self.speed_rad_s, *singles)):
            raise _no_limits_of_an_arm("some are not positive numbers")
        if any(low >= high for low, high in zip(self.position_min_rad, self.position_max_rad, strict=True)):
            raise _no_limits_of_an_arm("a lower position limit is not below its upper one")

    def narrowed(self, force_n: float) -> ArmLimits:
        """Return these limits with the force at the wrist lowered to ``force_n`` [N], never raised."""
        return replace(self, force_n=min(self.force_n, force_n))


def _no_limits_of_an_arm(why: str) -> LimitError:
    return LimitError(
        f"these are no limits of an arm: {why}",
        reason="bad_limits",
        remedy="Correct [[arm.joints]] and [safety] of the rig profile.",
    )
