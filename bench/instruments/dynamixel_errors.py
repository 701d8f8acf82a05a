"""What a Dynamixel's status errors and hardware errors mean, and what to do about them.

Source: ROBOTIS e-Manual, "Protocol 2.0", Status Packet; control table, Shutdown and Hardware Error Status.
"""

from __future__ import annotations

from collections.abc import Sequence

from bench.errors import DriveFault, DriveWatchdogTripped, LimitError

ALERT = 0x80
"""The bit in a status packet's error that says: look at Hardware Error Status."""

REFUSALS = {
    1: "result fail: it could not carry the instruction out",
    2: "instruction error: it does not know the instruction",
    3: "CRC error: the instruction reached it damaged",
    4: "data range error: the value is out of range, or its bus watchdog has tripped",
    5: "data length error: too few bytes for the register",
    6: "data limit error: the value is above a limit set in the servo",
    7: "access error: the register cannot be read or written, or is locked while the torque is on",
}

HARDWARE_ERRORS = {
    0x01: ("input voltage", "Check the supply, its wiring and what the motors feed back when they brake"),
    0x02: ("motor Hall sensor", "Have the servo repaired"),
    0x04: ("overheating", "Let it cool down, and ask less of the joint: lower holding torques, longer pauses"),
    0x08: ("motor encoder", "Check for a blow or a loose encoder; have the servo repaired"),
    0x10: ("electrical shock", "Check the supply: too weak for the load, or a short circuit in the wiring"),
    0x20: ("overload", "Find what blocks the joint or loads it beyond the servo's continuous torque"),
}


def explain_hardware_error(bits: int) -> tuple[str, str]:
    """Return the bits of Hardware Error Status in words, and a remedy."""
    found = [HARDWARE_ERRORS[bit] for bit in HARDWARE_ERRORS if bits & bit]
    if not found:
        return f"hardware error 0x{bits:02x}", "Look at the servo with the vendor's tool"
    words = ", ".join(name for name, _ in found)
    return f"{words} (hardware error 0x{bits:02x})", "; ".join(dict.fromkeys(remedy for _, remedy in found))


def explain_refusal(error: int) -> str:
    """Return the error number of a status packet, alert bit left out, in words."""
    number = error & ~ALERT
    return REFUSALS.get(number, f"error {number}, which the protocol does not know")


def hardware_fault(name: str, bits: int, where: str) -> DriveFault:
    """Return the error of a servo that has stopped on a hardware error."""
    text, remedy = explain_hardware_error(bits)
    return DriveFault(f"{name} has stopped: {text}", code=bits, where=where, remedy=remedy)


def watchdog_tripped(names: str, timeout_s: float, where: str) -> DriveWatchdogTripped:
    """Return the error of servos that have stopped because the bus was silent."""
    return DriveWatchdogTripped(
        f"the bus watchdog of {names} has tripped: the bus was silent for {timeout_s:g} s",
        where=where,
        remedy="Look for what held up the control loop; bring the rig to its safe state, then clear the faults",
    )


def currents_beyond(
    names: Sequence[str], currents_a: Sequence[float], limits_a: Sequence[float], where: str
) -> LimitError:
    """Return the error of commands that are above their limits, or no numbers."""
    wrong = [
        f"{name}: {current:g} A is not within ±{limit:g} A"
        for name, current, limit in zip(names, currents_a, limits_a, strict=True)
        if not -limit <= current <= limit
    ]
    return LimitError(
        "; ".join(wrong),
        reason="current_limit",
        where=where,
        remedy="Ask for a lower current, or raise max_current in the rig profile if the joint allows it",
    )
