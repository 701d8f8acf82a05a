"""What ends a run early: from any error to a short reason, a safe rig and a sealed archive."""

from __future__ import annotations

from typing import Protocol

from bench.archive import RunWriter
from bench.errors import (
    ArchiveError,
    BenchError,
    CalibrationError,
    DaqDeviceError,
    DriveFault,
    DriveWatchdogTripped,
    InstrumentDisconnected,
    InstrumentError,
    InstrumentTimeout,
    SafetyAbort,
    SensorSaturated,
    TwinError,
)
from bench.procedures.recording import POSITIONS_DISAGREE
from bench.safety.safe_state import WATCH_S
from bench.station import Station

#: NI-DAQmx: the samples asked for were overwritten before they were read.
DAQ_OVERWRITTEN = -200279

#: Reasons that mean the encoder itself is not to be trusted, least of all as a witness of the stand. One that counts
#: the wrong way or by a wrong ratio still shows a stand.
_NO_WITNESS = frozenset({POSITIONS_DISAGREE, "encoder_stuck"})

_REASONS: tuple[tuple[type[BaseException], str], ...] = (
    (DriveFault, "drive_fault"),
    (DriveWatchdogTripped, "drive_watchdog"),
    (InstrumentDisconnected, "instrument_disconnected"),
    (InstrumentTimeout, "instrument_timeout"),
    (SensorSaturated, "sensor_saturated"),
    (DaqDeviceError, "daq_error"),
    (InstrumentError, "instrument_error"),
    (ArchiveError, "archive_failed"),
    (CalibrationError, "calibration"),
    (TwinError, "twin_fault"),
    (KeyboardInterrupt, "interrupted"),
)


class Recorder(Protocol):
    """What an abort asks of a recording, of whatever rig."""

    writer: RunWriter

    def event(self, severity: str, code: str, message: str, time_s: float | None = None) -> None: ...

    def motion_after_stop(self, watch_s: float) -> float: ...

    def stop(self) -> None: ...


def reason_of(error: BaseException, station: Station) -> str:
    """Return the short code that says why ``error`` ends a run.

    A pressed e-stop takes the drive's power, so the stage may be the first to complain: the e-stop is asked before an
    instrument is blamed.
    """
    if isinstance(error, SafetyAbort):
        return error.reason
    if isinstance(error, InstrumentError) and _estop_pressed(station):
        return "estop"
    if isinstance(error, DaqDeviceError) and error.code == DAQ_OVERWRITTEN:
        return "daq_overrun"
    return next((reason for kind, reason in _REASONS if isinstance(error, kind)), "bench_error")


def abort(station: Station, recording: Recorder, error: BaseException) -> SafetyAbort:
    """Make the rig safe, archive why, seal the archive as ABORTED, and return what to raise.

    The archive is kept whatever happened; a rig that could not be made safe is part of the stated reason.
    """
    writer = recording.writer
    with station.supervisor.shielded():
        reason = reason_of(error, station)
        text = str(error).removesuffix(".") if isinstance(error, BenchError) else f"{type(error).__name__}: {error}"
        witness = None if reason in _NO_WITNESS else lambda: recording.motion_after_stop(WATCH_S)
        if witness is None:
            station.doubt_encoder()
        report = station.make_safe(reason, witness=witness)
        code = reason if report.safe else f"{reason}; safe_state_failed"
        try:
            recording.event("error", reason, text)
            recording.event(
                "info" if report.safe else "fatal", "safe_state" if report.safe else "safe_state_failed", str(report)
            )
            recording.stop()
            archive = writer.close("ABORTED", f"{code}: {text}")
        except Exception as second:
            # The rig is safe and the first error is the news; what was flushed is in the partial file.
            archive = writer.path
            text = f"{text}. Besides, the archive could not be sealed: {second}"
        for name in station.supervisor.received:
            text = f"{text}. {name} was received"
    stopped = SafetyAbort(text, reason=code, remedy=f"The record up to here is in {archive}")
    stopped.archive = archive
    return stopped


def _estop_pressed(station: Station) -> bool:
    try:
        return not station.interlock.healthy()
    except Exception:
        return False
