"""The offset between the drive's clock (serial) and the DAQ's, from the two encoders of one joint.

Motor and joint turn together but for what the gear gives way. What is left over, in proportion to the speed, is time::

    theta(t) - q(t + offset) = ...     theta = rotor angle / gear ratio
    theta_i - q(t_i) = speed_i * (offset + drift (t_i - t_mid)) + zero + tau_i / K + c tau_i |tau_i| + h sign(speed_i)

The torque of the transducer takes the elastic deflection out, the sign of the speed what hysteresis and backlash add.

>>> found = align(drive_time_s, motor_angle / 100.0, daq_time_s, joint_angle, joint_torque)    # doctest: +SKIP
>>> found.to_daq(drive_time_s)                                                                 # doctest: +SKIP
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.filtering import LowPass, differentiate
from bench.identify.regression import LinearFit, StreamedLeastSquares

Floats = NDArray[np.float64]

STEPS = 4
SMOOTH_HZ = 50.0
LEAST_TRAVEL_RAD = 0.02
DRIFT_SPAN_S = 20.0
WORST_S = 1e-3
RATIO_TOLERANCE = 0.02
BLOCK_ROWS = 100
FEWEST_ROWS = 400


@dataclass(frozen=True)
class Alignment:
    """``t_daq = t_drive + offset_s + drift * (t_drive - reference_s)``.

    Parameters
    ----------
    offset_s, standard_uncertainty_s : float
        At ``reference_s``, the middle of what it was estimated from.
    drift, drift_uncertainty : float
        Seconds per second; zero when the record is too short to tell.
    reference_s : float
    ratio : float
        Motor angle over joint angle, both at the joint: 1 when the gear ratio of the profile is right.
    compliance : float
        Deflection per torque [rad/(N.m)] that was taken out.
    rms_rad : float
        What is left of the difference between the angles.
    rows : int
    """

    offset_s: float
    standard_uncertainty_s: float
    drift: float
    drift_uncertainty: float
    reference_s: float
    ratio: float
    compliance: float
    rms_rad: float
    rows: int

    def to_daq(self, drive_time_s: Floats) -> Floats:
        """DAQ time [s] of drive times (n,)."""
        return drive_time_s + self.offset_s + self.drift * (drive_time_s - self.reference_s)

    def to_drive(self, daq_time_s: float) -> float:
        """Drive time [s] of a DAQ time."""
        return (daq_time_s - self.offset_s + self.drift * self.reference_s) / (1.0 + self.drift)

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "offset_s": self.offset_s,
            "standard_uncertainty_s": self.standard_uncertainty_s,
            "drift": self.drift,
            "drift_uncertainty": self.drift_uncertainty,
            "reference_s": self.reference_s,
            "ratio": self.ratio,
            "rms_rad": self.rms_rad,
        }


@dataclass(frozen=True)
class Encoders:
    """A stretch of both encoders: drive times and angle (m,), DAQ times, angle and torque (n,), uniform."""

    drive_time_s: Floats
    motor_angle: Floats
    daq_time_s: Floats
    joint_angle: Floats
    joint_torque: Floats


def align(
    drive_time_s: Floats, motor_angle: Floats, daq_time_s: Floats, joint_angle: Floats, joint_torque: Floats
) -> Alignment:  # fmt: skip
    """Estimate the offset from one stretch; see :func:`align_stretches`.

    Parameters
    ----------
    drive_time_s, motor_angle : (m,) float64
        Times of the drive's rows [s], irregular; rotor angle over the gear ratio [rad].
    daq_time_s, joint_angle, joint_torque : (n,) float64
        Uniform times [s], angle of the joint [rad] and torque on the link [N.m].
    """
    return align_stretches([Encoders(drive_time_s, motor_angle, daq_time_s, joint_angle, joint_torque)])


def align_stretches(stretches: Sequence[Encoders]) -> Alignment:
    """Estimate the offset between both clocks, and their drift where the stretches span 20 s or more.

    Raises
    ------
    Refused
        ``hardly_moves``: the joint moves too little to tell 1 ms. ``encoder_direction``: the angles run against each
        other. ``gear_ratio``: the angles differ in size by more than 2 %. ``too_short``.
    """
    travel = max((float(np.ptp(one.joint_angle)) for one in stretches if len(one.joint_angle)), default=0.0)
    if travel < LEAST_TRAVEL_RAD:
        raise _refused(
            "hardly_moves", f"the joint moves by {travel * 1e3:.2g} mrad, too little to tell the clocks apart", MOVE
        )
    ratio = _ratio(stretches)
    span = stretches[-1].drive_time_s[-1] - stretches[0].drive_time_s[0]
    reference = float(0.5 * (stretches[-1].drive_time_s[-1] + stretches[0].drive_time_s[0]))
    drifting = span >= DRIFT_SPAN_S
    offset, drift = 0.0, 0.0
    prepared = [_prepare(one) for one in stretches]
    for _ in range(STEPS):
        fit = _step(stretches, prepared, offset, drift, reference, drifting)
        offset += fit.value("offset")
        drift += fit.value("drift") if drifting else 0.0
        if abs(fit.value("offset")) < 1e-7:
            break
    error = fit.estimate("offset", "s", "time").standard_uncertainty
    if not error <= WORST_S:
        raise _refused(
            "hardly_moves",
            f"the motion tells the offset between the clocks to no better than {error * 1e3:.2g} ms",
            MOVE,
        )
    drift_error = fit.estimate("drift", "1", "number").standard_uncertainty if drifting else 0.0
    compliance = fit.value("compliance") if "compliance" in fit.names else 0.0
    return Alignment(offset, error, drift, drift_error, reference, ratio, compliance, fit.residual_rms, fit.rows)


MOVE = "Move the joint to and fro at changing speeds, up to some tenths of a rad/s"


def _ratio(stretches: Sequence[Encoders]) -> float:
    """Slope of the motor's angle over the joint's; what is not one is told apart by its likely cause."""
    cross, square = 0.0, 0.0
    for one in stretches:
        q = np.interp(one.drive_time_s, one.daq_time_s, one.joint_angle)
        cross += float(np.sum((q - q.mean()) * (one.motor_angle - one.motor_angle.mean())))
        square += float(np.sum((q - q.mean()) ** 2))
    ratio = cross / max(square, 1e-300)
    if ratio < -0.5:
        raise _refused(
            "encoder_direction",
            f"the joint's encoder runs against the motor's (ratio {ratio:.3f})",
            "Swap A and B of one encoder, or change its direction in the rig profile",
        )
    if abs(ratio - 1.0) > RATIO_TOLERANCE:
        raise _refused(
            "gear_ratio",
            f"the motor turns {ratio:.4f} times as far as the joint and the gear ratio of the rig profile say",
            f"Correct drive.gear_ratio: multiply it by {ratio:.4f}; or the encoder's pulses_per_revolution",
        )
    return ratio


@dataclass(frozen=True)
class _Prepared:
    """Splines of angle, smoothed speed and smoothed torque over DAQ time."""

    angle: Any
    speed: Any
    torque: Any


def _prepare(one: Encoders) -> _Prepared:
    from scipy.interpolate import make_interp_spline

    rate = (len(one.daq_time_s) - 1) / float(one.daq_time_s[-1] - one.daq_time_s[0])
    low = LowPass(min(SMOOTH_HZ, 0.2 * rate))
    speed = low.smooth(differentiate(one.joint_angle, rate).velocity, rate)
    torque = low.smooth(one.joint_torque, rate)
    return _Prepared(*(make_interp_spline(one.daq_time_s, values, k=3) for values in (one.joint_angle, speed, torque)))


def _step(
    stretches: Sequence[Encoders],
    prepared: Sequence[_Prepared],
    offset: float,
    drift: float,
    reference: float,
    drifting: bool,
) -> LinearFit:
    """One Gauss–Newton step; each stretch has its own zero, taken off as its mean."""
    loads = max(float(np.ptp(one.joint_torque)) for one in stretches) > 0.0
    names = ["offset", *(["drift"] if drifting else []), *(["compliance", "stiffening"] if loads else []), "hysteresis"]
    regression = StreamedLeastSquares(names, block_rows=BLOCK_ROWS)
    edge = 0.05
    for one, spline in zip(stretches, prepared, strict=True):
        at = one.drive_time_s + offset + drift * (one.drive_time_s - reference)
        inside = (at >= one.daq_time_s[0] + edge) & (at <= one.daq_time_s[-1] - edge)
        at, theta, since = at[inside], one.motor_angle[inside], one.drive_time_s[inside] - reference
        if len(at) < 2:
            continue
        speed, torque = spline.speed(at), spline.torque(at)
        columns = [speed, *([speed * since] if drifting else [])]
        columns += [torque, torque * np.abs(torque)] if loads else []
        columns.append(np.sign(speed))
        together = np.column_stack([*columns, theta - spline.angle(at)])
        together = together - together.mean(axis=0)
        regression.add(together[:, :-1], together[:, -1])
    if regression.rows < FEWEST_ROWS:
        raise _refused("too_short", f"{regression.rows} rows of the drive are too few to align the clocks", MOVE)
    return _solved(regression)


def _solved(regression: StreamedLeastSquares) -> LinearFit:
    try:
        return regression.solve()
    except Refused as error:
        if error.reason != "rank_deficient":
            raise
        raise _refused(
            "hardly_moves",
            f"the motion does not tell the clocks' offset from the gear's deflection ({error.what})",
            MOVE,
        ) from error


def _refused(reason: str, what: str, remedy: str) -> Refused:
    return Refused(what, reason=reason, where="time alignment", remedy=remedy)
