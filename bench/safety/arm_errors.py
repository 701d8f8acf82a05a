"""What an arm's gate says when a limit is broken: the joint, the value, the limit, and what to do about it."""

from __future__ import annotations

import math
from collections.abc import Sequence

from bench.errors import LimitError, SafetyAbort
from bench.instruments.protocols import ArmHealth
from bench.safety.arm_axes import ArmReading
from bench.safety.limits import ArmLimits


def refused_torque(limits: ArmLimits, torque_nm: Sequence[float]) -> LimitError:
    """Return why joint torques (n,), one of which is no number or beyond its limit, are not commanded."""
    for name, torque, limit in zip(limits.names, torque_nm, limits.torque_nm, strict=True):
        where = f"arm command: {torque:g} N.m at joint {name}"
        if not math.isfinite(torque):
            return LimitError(
                "the torque must be a finite number",
                reason="bad_command",
                where=where,
                remedy="Check what the controller computed it from.",
            )
        if abs(torque) > limit:
            break
    return LimitError(
        f"the torque {torque:.4g} N.m is beyond the limit of {limit:g} N.m",
        reason="torque_limit",
        where=where,
        remedy="Lower the controller's gains or the motion's acceleration, or take some payload off; the limit "
        "is peak_torque over safety_factor_peak, or what max_current makes.",
    )


def left_limits(limits: ArmLimits, found: ArmReading) -> SafetyAbort:
    """Return which joint has left its limits of position or speed."""
    for i, name in enumerate(limits.names):
        q, low, high = found.position_rad[i], limits.position_min_rad[i], limits.position_max_rad[i]
        if not low <= q <= high:
            return SafetyAbort(
                f"joint {name} is at {math.degrees(q):.1f} deg, limits {math.degrees(low):.1f} … "
                f"{math.degrees(high):.1f} deg",
                reason="travel_limit",
                where="arm",
                remedy="Move the joint back by hand; check the servo's zero_count and direction.",
            )
        if not abs(found.velocity_rad_s[i]) <= limits.speed_rad_s[i]:
            break
    return SafetyAbort(
        f"joint {name} turns at {found.velocity_rad_s[i]:.3g} rad/s, limit {limits.speed_rad_s[i]:g} rad/s",
        reason="speed_limit",
        where="arm",
        remedy="Look for a wrong gear ratio, direction or torque constant, which make a controller unstable, or a load "
        "that came off; else lower the procedure's speed.",
    )


def tip_error(limits: ArmLimits, place: tuple[float, float, float], speed: float) -> SafetyAbort:
    """Return which limit the tip has left, at a place (3,) [m] and a speed [m/s]."""
    if not speed <= limits.tip_speed_m_s:
        return SafetyAbort(
            f"the tip moves at {speed:.3g} m/s, limit {limits.tip_speed_m_s:g} m/s",
            reason="tip_speed_limit",
            where="arm",
            remedy="Look for a wrong gear ratio, direction or torque constant, which make a controller unstable; else "
            "lower the procedure's speed.",
        )
    shown = ", ".join(f"{1e3 * x:.0f}" for x in place)
    bounds = zip(limits.box_min_m, limits.box_max_m, strict=True)
    box = ", ".join(f"{1e3 * low:.0f} … {1e3 * high:.0f}" for low, high in bounds)
    return SafetyAbort(
        f"the tip is at ({shown}) mm, outside the workspace box ({box}) mm",
        reason="workspace_box",
        where="arm",
        remedy="Move the arm back by hand; check the geometry, the zeros of the servos and the tool's tip.",
    )


def check_temperatures(limits: ArmLimits, temperature_degc: Sequence[float]) -> None:
    """Raise :class:`SafetyAbort` (``"temperature_limit"``) that names the joint whose servo (n,) is too hot."""
    for name, hot in zip(limits.names, temperature_degc, strict=True):
        if not hot < limits.temperature_degc:
            raise SafetyAbort(
                f"the servo of joint {name} is at {hot:.0f} degC, limit {limits.temperature_degc:g} degC",
                reason="temperature_limit",
                where="arm",
                remedy="Let it cool; lower torque or duty of the procedure, or improve the cooling.",
            )


def check_health(limits: ArmLimits, health: ArmHealth) -> None:
    """Raise :class:`SafetyAbort` that names the joint whose servo is too hot, faulty or was stopped by its watchdog."""
    check_temperatures(limits, health.temperature_degc)
    for name, error, tripped in zip(limits.names, health.hardware_error, health.watchdog_tripped, strict=True):
        if error or tripped:
            what = f"reports hardware error 0x{error:02x}" if error else "was stopped by its bus watchdog"
            raise SafetyAbort(
                f"the servo of joint {name} {what}",
                reason="drive_fault" if error else "drive_watchdog",
                where="arm",
                remedy="Find the cause, then open the station again.",
            )
