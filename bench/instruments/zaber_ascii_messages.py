"""The wire format of Zaber's ASCII protocol, version 2, as the host sees it, and what its codes mean.

A command is ``/device axis id text:CC\\n``; ``CC`` is the LRC of what stands between ``/`` and ``:``. A device answers

=====  ================================================  =====================================================
first  message                                           meaning
=====  ================================================  =====================================================
``@``  ``@01 1 42 OK BUSY WR 1000:CC\\r\\n``              reply: accepted or rejected, status, warning flag, data
``#``  ``#01 1 42 some text:CC\\r\\n``                    information that follows a reply
``!``  ``!01 1 IDLE --:CC\\r\\n``                         alert, sent unasked
=====  ================================================  =====================================================

A message too long for one packet ends in ``\\`` and goes on in information messages that begin with ``cont``.

Source: Zaber, "ASCII Protocol Manual" for firmware 7, sections Message Format, Warning Flags and Reply Data.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

NO_WARNING = "--"
CONTINUED = "cont"

_MESSAGE = re.compile(
    r"(?P<kind>[@#!])(?P<address>\d{1,2}) (?P<axis>\d)"
    r"(?: (?P<id>\d\d?))?"
    r"(?: (?P<flag>OK|RJ))?"
    r"(?: (?P<status>IDLE|BUSY) (?P<warning>[A-Z-]{2}))?"
    r"(?: (?P<data>[^:\\]*))?"
    r"(?P<more>\\)?"
    r"(?::(?P<check>[0-9A-Fa-f]{2}))?"
)


class CorruptMessage(ValueError):
    """The bytes are no message of this protocol, or their checksum is wrong."""


@dataclass(frozen=True)
class Message:
    """One packet from a device. ``id`` is None when it carries none; ``more`` when another packet goes on with it."""

    kind: str
    address: int
    axis: int
    id: int | None
    flag: str
    status: str
    warning: str
    data: str
    more: bool
    checked: bool

    @property
    def rejected(self) -> bool:
        return self.flag == "RJ"

    @property
    def busy(self) -> bool:
        return self.status == "BUSY"


def checksum(body: bytes) -> int:
    """Return the LRC of ``body``: the two's complement of the sum of its bytes, modulo 256."""
    return -sum(body) & 0xFF


def encode(address: int, axis: int, message_id: int, text: str) -> bytes:
    """Return the bytes of one command, with its checksum."""
    body = f"{address} {axis} {message_id:02d} {text}".rstrip().encode("ascii")
    return b"/%b:%02X\n" % (body, checksum(body))


def decode(line: bytes) -> Message:
    """Return what ``line`` says; :class:`CorruptMessage` when it is damaged.

    Noise in front of the message's first character is the line's, not the message's, and is passed over.
    """
    packet = line.rstrip(b"\r\n")
    start = min((at for at in map(packet.find, (b"@", b"#", b"!")) if at >= 0), default=-1)
    match = _MESSAGE.fullmatch(packet[start:].decode("ascii", "replace")) if start >= 0 else None
    if match is None:
        raise CorruptMessage(f"not a message of the protocol: {line!r}")
    body = packet[start + 1 :].partition(b":")[0]
    if match["check"] is not None and int(match["check"], 16) != checksum(body):
        raise CorruptMessage(f"checksum {match['check']} where {checksum(body):02X} is due: {line!r}")
    if (match["kind"] == "@" and not (match["flag"] and match["status"])) or (match["kind"] == "#" and match["flag"]):
        raise CorruptMessage(f"a field is missing: {line!r}")
    return Message(
        kind=match["kind"],
        address=int(match["address"]),
        axis=int(match["axis"]),
        id=None if match["id"] is None else int(match["id"]),
        flag=match["flag"] or "",
        status=match["status"] or "",
        warning=match["warning"] or NO_WARNING,
        data=(match["data"] or "").strip(),
        more=match["more"] is not None,
        checked=match["check"] is not None,
    )


WARNINGS: dict[str, tuple[str, str]] = {
    "FF": ("critical system error", "Power the stage off and on; if it comes back, send it in"),
    "FN": ("the peripheral is not supported by this controller", "Check that the stage belongs to this controller"),
    "FZ": (
        "the peripheral is inactive: another one was connected",
        "Activate the peripheral with the vendor's program",
    ),
    "FH": ("the hardware emergency stop disabled the motor driver", "Release the e-stop, then clear the faults"),
    "FV": ("supply voltage out of range, motor driver disabled", "Check the power supply, then clear the faults"),
    "FO": ("the motor driver is disabled", "Find out who disabled it, then clear the faults"),
    "FC": ("current inrush error, motor driver disabled", "Check the motor cable, then clear the faults"),
    "FM": ("motor temperature error, motor driver disabled", "Let the motor cool, then clear the faults"),
    "FD": ("the motor driver is disabled, by overheating or by command", "Let it cool, then clear the faults"),
    "FQ": ("encoder error: the measured position may be wrong", "Check the encoder, then clear the faults and home"),
    "FI": ("encoder index error", "Clear the faults and home; check the encoder if it comes back"),
    "FA": ("analog encoder out of step", "Clear the faults and home; check the encoder if it comes back"),
    "FR": ("overdrive limit exceeded: overloaded for too long", "Reduce load or acceleration, then clear the faults"),
    "FS": (
        "stalled and stopped: the stage did not follow its motor",
        "Remove what blocks it, clear the faults and home",
    ),
    "FB": ("a streamed motion left its bounds", "Clear the faults"),
    "FP": ("a streamed motion left its path and was stopped", "Clear the faults and home"),
    "FE": ("a limit sensor cannot be reached or is faulty", "Check the sensor and that nothing blocks the travel"),
    "FT": ("the axes of a lockstep group are twisted", "Straighten them with the vendor's program"),
    "WL": ("a limit sensor triggered where none was due", "Check the travel limits and the position, then home"),
    "WV": ("supply voltage out of range", "Check the power supply"),
    "WT": ("the controller is hot", "Let it cool; reduce load or duty"),
    "WS": ("stalled, and recovered by itself", "Look for what blocks the stage, then clear the faults and home"),
    "WM": ("moved by force while it stood", "Look for what pushed the stage"),
    "WP": ("the stored calibration is of an unknown type", "Update the firmware or remove the calibration"),
    "WR": ("no reference position", "Home the stage"),
    "WH": ("not homed since power-up, position taken from memory", "Home the stage"),
    "NC": ("under manual control by its knob or joystick", "Take the hand off the knob"),
    "NI": ("a movement was interrupted by another command or by hand", "Look who else commands the stage"),
    "ND": ("a streamed motion ran out of points", "Send points sooner"),
    "NR": ("a value was rounded to what the device can hold", "Use a value the device can hold"),
    "NT": ("a value was cut off", "Use a value the device can hold"),
    "NU": ("a setting is about to change", "Wait, or reset the device"),
    "NJ": ("the joystick is being calibrated", "Wait until it is done"),
    "NB": ("the device waits for a firmware update", "Finish the update or power the device off and on"),
}
"""Flag → what it says, what to do. ``F``: fault, motion has ended; ``W``: warning; ``N``: note."""

REJECTIONS: dict[str, tuple[str, str]] = {
    "AGAIN": ("the device cannot take the command just now", "Send it again"),
    "AXISONLY": ("the command needs an axis", "Set the axis in the rig profile"),
    "BADAXIS": ("the device has no such axis", "Correct the axis in the rig profile"),
    "BADCOMMAND": ("the device does not know the command", "Check that the driver fits the device and its firmware"),
    "BADDATA": (
        "the value is out of range, or a move has no reference or leaves the travel limits",
        "Home the stage, and check the value against limit.min, limit.max and maxspeed",
    ),
    "BADMESSAGEID": ("the message id is not 0 to 99", "Report it: the driver counts wrongly"),
    "BADSPLIT": ("a command in several packets was split wrongly", "Report it: the driver sends no such commands"),
    "CYCLICONLY": ("the argument is for axes in cyclic mode", "Check the device's configuration"),
    "DEVICEONLY": ("the command is for the device, not for an axis", "Report it: the driver addressed it wrongly"),
    "DRIVERDISABLED": ("the motor driver is disabled", "Release the e-stop, then clear the faults"),
    "FULL": ("the device has no memory left for it", "Delete stored triggers and buffers on the device"),
    "INACTIVE": ("the axis is inactive", "Activate the peripheral with the vendor's program"),
    "INVALIDLIMITS": ("limit.min is not below limit.max", "Correct the travel limits"),
    "LIMITED": (
        "a limit keeps the axis from moving",
        "Wait, and reduce load or acceleration",
    ),
    "LOCKSTEP": ("the axis belongs to a lockstep group", "Dissolve the group with the vendor's program"),
    "LONGWORD": ("a word is too long for the device", "Report it: the driver sends no such words"),
    "NOACCESS": ("the access level of the device does not allow it", "Set system.access with the vendor's program"),
    "NOTSIN": ("the axis makes no sinusoidal movement", "Stop it in the plain way"),
    "NOTSUPPORTED": ("the peripheral is not supported by this firmware", "Update the firmware"),
    "PARKED": ("the stage is parked", "Unpark it with the vendor's program"),
    "REMOTE": ("the device is under EtherCAT control", "Take it out of remote mode"),
    "STATUSBUSY": ("not possible while the axis moves", "Stop the stage first"),
    "TWISTED": ("the axes of a lockstep group are twisted", "Straighten them with the vendor's program"),
}
"""Reason of a rejection → what it says, what to do."""


def explain_warning(flag: str) -> tuple[str, str]:
    """Return what a warning flag says and what to do about it."""
    text, remedy = WARNINGS.get(flag, ("a flag this driver does not know", "Look it up in the vendor's manual"))
    return f"{flag}, {text}", remedy


def explain_rejection(reason: str) -> tuple[str, str]:
    """Return what a rejection says and what to do about it."""
    text, remedy = REJECTIONS.get(reason, ("a reason this driver does not know", "Look it up in the vendor's manual"))
    return f"{reason}: {text}", remedy
