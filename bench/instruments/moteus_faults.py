"""What the modes, faults and refusals of a moteus drive mean, and what to do about them.

Source: mjbots, moteus documentation, "Register Reference", registers 0x000 and 0x00f.
"""

from __future__ import annotations

STOPPED, FAULT, ENABLING, CALIBRATED, POSITION, TIMEOUT, ZERO_VELOCITY, BRAKE = 0, 1, 2, 4, 10, 11, 12, 15

MODES = {
    0: "stopped",
    1: "fault",
    2: "enabling its driver",
    3: "calibrating its current sensors",
    4: "calibrated",
    5: "PWM",
    6: "voltage",
    7: "voltage FOC",
    8: "voltage DQ",
    9: "current",
    10: "position",
    11: "position timeout",
    12: "zero velocity",
    13: "stay within",
    14: "inductance measurement",
    15: "brake",
}

_SUPPLY = "Check the supply and its wiring, and what the motor feeds back when it brakes"
_SETTING = "Correct the drive's configuration with the vendor's tool"
_ENCODER = "Check the rotor's magnet and the drive's encoder settings"
_FIRMWARE = "Note when it happened, and update the drive's firmware"

FAULTS = {
    32: ("calibration fault: no magnet sensed", _ENCODER),
    33: ("motor driver fault, most often undervoltage under load", _SUPPLY),
    34: ("overvoltage", _SUPPLY),
    35: ("encoder fault: its readings fit no magnet", _ENCODER),
    36: ("motor not configured", "Calibrate the drive on this motor with the vendor's tool"),
    37: ("PWM cycle overrun, an internal error", _FIRMWARE),
    38: ("overtemperature", "Let drive and motor cool, and lower torque or duty of the procedure"),
    39: ("started outside the position limits", _SETTING),
    40: ("undervoltage", "Check the supply, the e-stop and the enable line"),
    41: ("configuration changed while running", "Look who else talks to the drive"),
    42: ("no valid commutation encoder", _ENCODER),
    43: ("no valid output encoder", _ENCODER),
    44: ("the gate driver could not be enabled", _SUPPLY),
    45: ("stop position used together with limits", _SETTING),
    46: ("timing violation, an internal error", _FIRMWARE),
    47: ("back-EMF feed-forward without an acceleration limit", _SETTING),
    48: ("position limits outside the position range", _SETTING),
}
"""Code in words and remedy, for mode 1."""

LIMITS = {
    96: "maximum velocity",
    97: "maximum power",
    98: "maximum system voltage",
    99: "maximum current",
    100: "board temperature",
    101: "motor temperature",
    102: "commanded maximum torque",
    103: "position limits",
}
"""What holds the output back in a mode that runs; no fault."""

REFUSALS = {1: "unknown register or type", 2: "not writable", 3: "not a value this register takes"}


def explain_fault(code: int) -> tuple[str, str]:
    """Return what a fault code means, with its number, and what to do about it."""
    text, remedy = FAULTS.get(code, ("not in the register reference", "Look it up in the firmware's documentation"))
    return f"fault {code}, {text}", remedy


def explain_mode(mode: int) -> str:
    """Return a mode's number and name."""
    return f"mode {mode} ({MODES.get(mode, 'unknown')})"
