"""Every error the bench raises on purpose: what went wrong, where, and what to do about it."""

from __future__ import annotations

from pathlib import Path


class BenchError(Exception):
    """Base of the bench's own errors.

    Parameters
    ----------
    what : str
        One sentence: what is wrong, with the value that was given.
    where : str
        The place: a file and key path, a device and channel, an archive and dataset.
    remedy : str
        What the reader can do about it.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        text = f"{where}: {what}" if where else what
        if remedy:
            text = f"{text.removesuffix('.')}. {remedy}"
        super().__init__(text)


class UnitError(BenchError):
    """A unit, a kind or a number with a unit is missing, unknown or not allowed here."""


class ProfileError(BenchError):
    """A profile is not valid; ``problems`` holds every problem found, not the first alone."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", problems: tuple[object, ...] = ()) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.problems = problems


class InstrumentError(BenchError):
    """A device answered with an error, or its answer makes no sense."""


class InstrumentTimeout(InstrumentError):
    """A device did not answer before the deadline."""


class BusSilent(InstrumentTimeout):
    """Nobody on a bus answers: its supply, its cable or its adapter is gone."""


class InstrumentDisconnected(InstrumentError):
    """A device went away: unplugged, server gone, port closed under us."""


class DriveFault(InstrumentError):
    """A motor drive has stopped by itself on a fault; ``code`` is its own number for it."""

    def __init__(self, what: str, *, code: int, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.code = code


class DriveWatchdogTripped(InstrumentError):
    """A motor drive has ended its torque by itself because commands stopped coming."""


class DaqDeviceError(InstrumentError):
    """NI-DAQmx reported an error; ``code`` is its status code (0 when the transport failed)."""

    def __init__(self, what: str, *, code: int = 0, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.code = code


class SensorSaturated(InstrumentError):
    """A sensor reading touches the end of its range: the value is not to be believed."""


class CalibrationError(BenchError):
    """A calibration file or certificate is missing, malformed, expired or out of its range."""


class SafetyAbort(BenchError):
    """The run was stopped to keep people and the rig safe; ``reason`` is a short code for the archive.

    ``archive`` is the path of the aborted run's archive, once there is one.
    """

    archive: Path | None = None

    def __init__(self, what: str, *, reason: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.reason = reason


class LimitError(SafetyAbort):
    """A command lies outside the profile's limits and was refused before it reached the device."""


class StateError(BenchError):
    """The machine's folder of leases and quarantines cannot be used, or its ledger does not hold together."""


class LeaseError(BenchError):
    """Somebody else holds a device, or a lease on it has been lost; ``holder`` says who, where that is known."""

    def __init__(self, what: str, *, where: str = "", remedy: str = "", holder: object = None) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.holder = holder


class QuarantineError(BenchError):
    """A rig could not be made safe once, and nobody has looked at it and said so since."""


class ArchiveError(BenchError):
    """An archive is missing, foreign, damaged, or lacks what was asked of it."""


class Refused(BenchError):
    """An analysis declines to give a number; ``reason`` is a short code, e.g. ``baseline_too_short``."""

    def __init__(self, what: str, *, reason: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.reason = reason


class ProcessError(BenchError):
    """A process of the bench's own did not start, or ended when it was still needed."""


class TwinError(BenchError):
    """The simulated lab failed or was used against its rules."""


class ModelError(BenchError):
    """A model of an arm is not one, or not fit for what is asked; ``reason`` is a short code, e.g. ``not_positive``."""

    def __init__(self, what: str, *, reason: str, where: str = "", remedy: str = "") -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.reason = reason
