"""Inertia, friction, torque scale and gravity of one axis by linear regression.

::

    fit = identify(one_mass(), [Stretch(1000.0, position_m, force_N)], LowPass(40.0))
    fit.parameters["coulomb"]          # Estimate: value, standard uncertainty, unit
    print("\\n".join(fit.lines()))

The same low-pass runs over the response and every column (:mod:`bench.identify.filtering`), rows stream into triangles
(:mod:`bench.identify.regression`). Rows of the stiction zone, where the axis hardly moves and friction is no function
of speed, are left out of the fit; their share is part of the answer.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate
from bench.identify.filtering import REACH, BandRecord, LowPass, differentiate
from bench.identify.joint_laws import Law, Signals, Stretch, link_side, motor_side, one_mass
from bench.identify.paths import Path, PathSketch
from bench.identify.regression import BLOCK_ROWS, LinearFit, StreamedLeastSquares

Floats = NDArray[np.float64]

DIRECTION_FACTOR = 2.0
NOISE_FACTOR = 4.0
"""A direction is believed when the low-passed speed is so many standard deviations of its noise."""
STRIBECK_FACTOR = 2.0
"""At twice the Stribeck velocity 1.8 % of the excess is left."""
LEAK = 0.01
"""A row is left out when the stiction zone has more than this share of it: the low-pass spreads the zone around. On a
joint with LuGre friction 5 % of it shifts the inertia by 0.7 %, 1 % of it by 0.1 %."""
MOST_EXCLUDED = 0.9


@dataclass(frozen=True)
class Rows:
    """Filtered rows of a stretch: ``columns`` (m, p), ``response`` (m,), ``moving`` (m,) bool, ``judged`` (m,)."""

    columns: Floats
    response: Floats
    moving: NDArray[np.bool_]
    judged: Floats
    band: BandRecord


def direction_filter(band: LowPass, rate_hz: float) -> LowPass:
    """Low-pass of the velocity whose sign is the direction: no chatter, and well above the band, or it moves the
    reversals of a motion that fills the band.
    """
    return LowPass(min(DIRECTION_FACTOR * band.cutoff_hz, rate_hz / 8.0), band.order)


def velocity_noise(position: Floats, rate_hz: float, low: LowPass) -> float:
    """Standard deviation of the low-passed velocity by white noise of the position, in position units per second.

    The noise is read from what the low-pass takes off the position, as its median, so that jerks and stops do not
    count. White noise of standard deviation ``sigma``, differentiated and low-passed, has the variance
    ``(2 pi)^2 2 sigma^2 / rate`` times the integral of ``f^2 |H|^2``, which is a beta function for a Butterworth.
    """
    edge = low.settle(rate_hz)
    rest = position - low.smooth(position, rate_hz)
    rest = rest[edge:-edge] if len(rest) > 3 * edge else rest
    share = max(1.0 - 2.0 * low.cutoff_hz / rate_hz, 1e-3)
    sigma = 1.4826 * float(np.median(np.abs(rest))) / math.sqrt(share)
    a = 3.0 / low.order
    integral = math.gamma(a) * math.gamma(2.0 - a) / low.order * (math.sqrt(2.0) - 1.0) ** -a
    return 2.0 * math.pi * sigma * math.sqrt(2.0 * low.cutoff_hz**3 / rate_hz * integral)


def stiction_speed(stretch: Stretch, band: LowPass, *, stribeck_velocity: float | None = None) -> float:
    """Speed below which the axis counts as hardly moving, in position units per second.

    Four standard deviations of the noise of the velocity whose sign is the direction, and where the Stribeck velocity
    is known twice that.
    """
    low = direction_filter(band, stretch.rate_hz)
    noise = NOISE_FACTOR * velocity_noise(stretch.position, stretch.rate_hz, low)
    return max(noise, STRIBECK_FACTOR * (stribeck_velocity or 0.0))


def rows_of(
    law: Law, stretch: Stretch, band: LowPass, *, stiction_speed: float, position_filter: LowPass | None = None
) -> Rows:  # fmt: skip
    """Filtered, decimated rows of a stretch.

    Velocity and acceleration are differences of the position as measured (or after ``position_filter``); the direction
    is the sign of a velocity low-passed well above the band (:func:`direction_filter`). The stiction zone is where that
    velocity is below ``stiction_speed``.
    """
    rate = stretch.rate_hz
    position = stretch.position if position_filter is None else position_filter.smooth(stretch.position, rate)
    found = differentiate(position, rate)
    slow = direction_filter(band, rate).smooth(found.velocity, rate)
    signals = Signals(position, found.velocity, found.acceleration, slow, stretch.response, stretch.inputs)
    zone = (np.abs(slow) < stiction_speed).astype(np.float64)
    judged = stretch.inputs[law.judged_input] if law.judged else stretch.response
    together = np.column_stack([law.columns(signals), stretch.response, judged, zone])
    dropped = band.settle(rate) + REACH + (0 if position_filter is None else position_filter.settle(rate))
    kept = band.apply(together, rate, first_index=stretch.first_index, dropped=dropped)
    return Rows(kept[:, :-3], kept[:, -3], np.abs(kept[:, -1]) <= LEAK, kept[:, -2], band.record(rate, dropped))


@dataclass(frozen=True)
class JointFit:
    """Parameters of a law, how they were found and how well they explain what they were found on.

    Parameters
    ----------
    parameters : dict of str to Estimate
    linear : LinearFit
        Coefficients, covariance and condition number of the regression itself.
    known : mapping of str to Estimate
        Parameters that were given, not fitted.
    band : BandRecord
    position_filter : LowPass or None
    stiction_speed : float
        Rows near speeds below this were left out, in position units per second.
    excluded_share : float
        Of the rows [1].
    rms_moving, rms_all : float
        Residual over the rows of the fit and over all rows, in the law's unit.
    relative_moving, relative_all : float
        The same as a share of the response [%].
    path : Path
        Sketch of the position, to tell a repeat from another trajectory.
    sources : tuple of str
        Names of the stretches.
    """

    law: Law
    parameters: dict[str, Estimate]
    linear: LinearFit
    known: Mapping[str, Estimate]
    band: BandRecord
    position_filter: LowPass | None
    stiction_speed: float
    excluded_share: float
    rms_moving: float
    rms_all: float
    relative_moving: float
    relative_all: float
    path: Path
    sources: tuple[str, ...] = field(default=())

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the fitted coefficients, in the order of ``covariance``."""
        return self.linear.names

    @property
    def covariance(self) -> Floats:
        """Covariance (p, p) of the fitted coefficients."""
        return self.linear.covariance

    @property
    def condition_number(self) -> float:
        return self.linear.condition_number

    @property
    def coefficients(self) -> Floats:
        """Coefficient of every column of the law (p,), fitted or given."""
        return np.array([self.linear.value(name) for name in self.law.names])

    def predict(self, position: Floats, rate_hz: float, **inputs: Floats) -> Floats:
        """Response (n,) the law predicts for a motion, unfiltered; its ends are extrapolated over four samples.

        A noisy position gives a noisy answer: to compare with a measurement use :meth:`compare`.
        """
        found = differentiate(position, rate_hz)
        given = {name: np.asarray(values, dtype=np.float64) for name, values in inputs.items()}
        response = given.get("response", np.zeros_like(position))
        signals = Signals(position, found.velocity, found.acceleration, found.velocity, response, given)
        predicted: Floats = self.law.columns(signals) @ self.coefficients
        return predicted

    def compare(self, stretch: Stretch, band: LowPass | None = None) -> tuple[Floats, Floats, NDArray[np.bool_]]:
        """Measured and predicted torque or force (m,) in one band, and which rows move.

        The motor side compares the motor's torque, ``u`` with ``(tau_t + J_m theta'' + F) / s``.
        """
        used = band or LowPass(self.band.cutoff_hz, self.band.order, self.band.decimation)
        rows = rows_of(
            self.law, stretch, used, stiction_speed=self.stiction_speed, position_filter=self.position_filter
        )
        predicted = rows.columns @ self.coefficients
        if self.law.judged:
            predicted = rows.judged + (rows.response - predicted) / self.linear.value(self.law.judged)
        return rows.judged, predicted, rows.moving

    def provenance(self) -> dict[str, Any]:
        """Return how the parameters were found, as plain data."""
        return {
            "law": self.law.name,
            "sources": list(self.sources),
            "band": self.band.record(),
            "position_filter_hz": None if self.position_filter is None else self.position_filter.cutoff_hz,
            "stiction_speed": self.stiction_speed,
            "excluded_share": self.excluded_share,
            "known": {name: value.value for name, value in self.known.items()},
            "rows": self.linear.rows,
            "effective_rows": self.linear.effective_rows,
            "blocks": self.linear.blocks,
            "condition_number": self.condition_number,
            "rms_moving": self.rms_moving,
            "rms_all": self.rms_all,
        }

    def lines(self) -> list[str]:
        """Report for people."""
        rate = "m/s" if self.law.unit == "N" else "rad/s"
        return [
            f"{self.law.name}: {self.linear.rows} rows, as good as {self.linear.effective_rows:.0f} independent ones",
            f"{self.band}",
            f"stiction zone below {self.stiction_speed:.3g} {rate}: {self.excluded_share:.1%} of the rows excluded",
            f"condition number {self.condition_number:.1f}",
            *(f"{name} = {value}" for name, value in self.parameters.items()),
            f"residual {self.rms_moving:.3g} {self.law.unit} moving ({self.relative_moving:.2f} %), "
            f"{self.rms_all:.3g} {self.law.unit} all ({self.relative_all:.2f} %)",
        ]


def identify(
    law: Law,
    stretches: Iterable[Stretch],
    band: LowPass,
    *,
    stiction_speed: float | None = None,
    stribeck_velocity: float | None = None,
    known: Mapping[str, Estimate] | None = None,
    position_filter: LowPass | None = None,
    block_rows: int = BLOCK_ROWS,
    weights: Mapping[str, float] | None = None,
) -> JointFit:
    """Fit a law to stretches of one axis; they are taken one by one, so memory does not grow with the record.

    Parameters
    ----------
    law : Law
        :func:`one_mass`, :func:`motor_side` or :func:`link_side`.
    stretches : iterable of Stretch
        In time order.
    band : LowPass
        For the response and every column; for a joint a cut-off of a third to a half of its bandwidth
        (:func:`~bench.identify.bandwidth.cutoff_from_bandwidth`).
    stiction_speed : float, optional
        By default :func:`stiction_speed` of the first stretch.
    stribeck_velocity : float, optional
        Known Stribeck velocity, for that default; without it the law's usual one (0.05 rad/s on the motor side, none
        for one mass and for the link side, where friction does not enter).
    known : mapping of str to Estimate, optional
        Coefficients that are given; their uncertainty goes into that of the others.
    position_filter : LowPass, optional
        For the position before it is differentiated; well above the band, or it biases.
    block_rows : int
        Rows (after decimation) of the smallest block of the covariance: a period of the motion where there is one.
    weights : mapping of str to float, optional
        One over the standard deviation of a stretch's residual, by the stretch's name: weighted least squares.

    Raises
    ------
    Refused
        ``too_short``, ``mostly_stiction``, ``rank_deficient``, ``too_few_rows``, ``not_finite``, ``band``.
    """
    names = law.names
    moving, still = StreamedLeastSquares(names, block_rows=block_rows), StreamedLeastSquares(names)
    plain = moving if weights is None else StreamedLeastSquares(names)
    sketch = PathSketch()
    sources: list[str] = []
    record: BandRecord | None = None
    for stretch in stretches:
        if stiction_speed is None:
            usual = law.usual_stribeck_velocity if stribeck_velocity is None else stribeck_velocity
            stiction_speed = _default_speed(stretch, band, usual)
        rows = rows_of(law, stretch, band, stiction_speed=stiction_speed, position_filter=position_filter)
        record = rows.band
        columns, response = rows.columns[rows.moving], rows.response[rows.moving]
        moving.add(columns, response, None if weights is None else weights.get(stretch.name, 1.0))
        if weights is not None:
            plain.add(columns, response)
        still.add(rows.columns[~rows.moving], rows.response[~rows.moving])
        sketch.add(stretch.position, stretch.rate_hz, stretch.first_index)
        if not sources or sources[-1] != stretch.name:
            sources.append(stretch.name)
    if record is None or stiction_speed is None:
        raise Refused(
            "there is no stretch to identify from", reason="too_short", where=law.name,
            remedy="Name phases that the run has",
        )  # fmt: skip
    total = moving.rows + still.rows
    if still.rows > MOST_EXCLUDED * total:
        raise Refused(
            f"{still.rows / total:.0%} of the rows lie in or near the stiction zone below {stiction_speed:.3g}",
            reason="mostly_stiction",
            where=law.name,
            remedy="Move faster or more steadily, or state a lower stiction speed",
        )
    linear = moving.solve(known)
    square, squares = plain.square_of_residual(linear), (plain.square_of_response(), still.square_of_response())
    extra = still.square_of_residual(linear)
    return JointFit(
        law,
        law.parameters(linear),
        linear,
        dict(known or {}),
        record,
        position_filter,
        stiction_speed,
        still.rows / total,
        math.sqrt(square / moving.rows),
        math.sqrt((square + extra) / total),
        100.0 * math.sqrt(square / max(squares[0], 1e-300)),
        100.0 * math.sqrt((square + extra) / max(sum(squares), 1e-300)),
        sketch.path(),
        tuple(sources),
    )


_default_speed_of = stiction_speed


def _default_speed(stretch: Stretch, band: LowPass, stribeck_velocity: float | None) -> float:
    return _default_speed_of(stretch, band, stribeck_velocity=stribeck_velocity)


__all__ = [
    "JointFit",
    "Law",
    "Rows",
    "Stretch",
    "identify",
    "link_side",
    "motor_side",
    "one_mass",
    "rows_of",
    "stiction_speed",
    "velocity_noise",
]
