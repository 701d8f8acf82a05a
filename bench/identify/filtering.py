"""Zero-phase low-pass for torque and regressor columns alike, decimation, and derivatives of measured positions.

::

    band = LowPass(cutoff_hz=40.0, decimation=10)
    torque, columns = band.apply(torque, rate_hz), band.apply(columns, rate_hz)     # parallel filtering
    band.record(rate_hz)                                                            # what was done, for the report
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused

Floats = NDArray[np.float64]

SETTLED = 1e-6
"""An edge is dropped until its transient has fallen to this share."""
SAMPLES_PER_CUTOFF = 4.0
"""Decimation keeps at least this many samples per period of the cut-off, unless it is stated."""

# Central differences of accuracy 8 (B. Fornberg, Math. Comput. 51 (1988) 699): weights of f(k) for k = 1..4.
_FIRST = (4.0 / 5.0, -1.0 / 5.0, 4.0 / 105.0, -1.0 / 280.0)
_SECOND = (8.0 / 5.0, -1.0 / 5.0, 8.0 / 315.0, -1.0 / 560.0)
_SECOND_CENTRE = -205.0 / 72.0
REACH = len(_FIRST)
"""Samples a derivative needs on each side."""


@dataclass(frozen=True)
class BandRecord:
    """What a filter did to a stretch.

    Parameters
    ----------
    cutoff_hz : float
        -3 dB frequency of both passes together [Hz].
    order : int
        Of both passes together: the slope is ``6 * order`` dB per octave.
    rate_hz : float
        Sample rate of what went in [Hz].
    decimation : int
        One sample in so many was kept.
    dropped : int
        Samples of the stretch that were dropped at each end, before decimation.
    """

    cutoff_hz: float
    order: int
    rate_hz: float
    decimation: int
    dropped: int

    def record(self) -> dict[str, Any]:
        """Return it as plain data."""
        return asdict(self)

    def __str__(self) -> str:
        return (
            f"low-pass {self.cutoff_hz:g} Hz (-3 dB, two passes, order {self.order}) on torque and regressors, one "
            f"sample in {self.decimation} of {self.rate_hz:g} Hz, {self.dropped} samples dropped at each end"
        )


@dataclass(frozen=True)
class LowPass:
    """A Butterworth low-pass run forward and backward: no phase, so torque and motion stay together.

    Parameters
    ----------
    cutoff_hz : float
        -3 dB frequency of both passes together [Hz]. One pass alone is designed with a higher one:
        each attenuates by 1.5 dB there.
    order : int
        Of both passes together, even; one pass has half of it.
    decimation : int, optional
        Keep one sample in so many; by default so many that four per period of the cut-off are left.

    Raises
    ------
    Refused
        ``band``: the order is odd or the decimation not positive; or, when used, the cut-off is not below half the
        sample rate, or the stretch is shorter than what has to be dropped.
    """

    cutoff_hz: float
    order: int = 4
    decimation: int | None = None

    def __post_init__(self) -> None:
        if self.order < 2 or self.order % 2:
            raise _bad(f"order {self.order} cannot be shared by two passes", "Take an even order, 4 as a rule")
        if self.decimation is not None and self.decimation < 1:
            raise _bad(f"one sample in {self.decimation} cannot be kept", "Take a decimation of 1 or more")
        if not (math.isfinite(self.cutoff_hz) and self.cutoff_hz > 0.0):
            raise _bad(f"a cut-off of {self.cutoff_hz} Hz is none", "State a positive cut-off")

    def step(self, rate_hz: float) -> int:
        """The decimation at a sample rate."""
        if self.decimation is not None:
            return self.decimation
        return max(1, math.floor(rate_hz / (SAMPLES_PER_CUTOFF * self.cutoff_hz)))

    def settle(self, rate_hz: float) -> int:
        """Samples until the transient of an edge has fallen to a millionth."""
        poles = np.roots(np.poly(self._poles(rate_hz)))
        return math.ceil(math.log(SETTLED) / math.log(float(np.abs(poles).max())))

    def record(self, rate_hz: float, dropped: int | None = None) -> BandRecord:
        """Return what the filter does at a sample rate."""
        edge = self.settle(rate_hz) if dropped is None else dropped
        return BandRecord(self.cutoff_hz, self.order, rate_hz, self.step(rate_hz), edge)

    def smooth(self, values: Floats, rate_hz: float) -> Floats:
        """Filter along the first axis, (n,) or (n, p); nothing dropped, so the ends carry transients."""
        from scipy.signal import butter, sosfiltfilt

        sos = butter(self.order // 2, self._single_pass_hz(rate_hz), fs=rate_hz, output="sos")
        shortest = 3 * (2 * len(sos) + 1)
        if len(values) <= shortest:
            raise _bad(f"{len(values)} samples are too few to filter", "Take a longer stretch")
        smoothed: Floats = sosfiltfilt(sos, values, axis=0)
        return smoothed

    def kept(self, samples: int, rate_hz: float, *, first_index: int = 0, dropped: int | None = None) -> slice:
        """Slice of a stretch's samples that are kept.

        Parameters
        ----------
        first_index : int
            Index of the stretch's first sample in its record: kept are those whose index in the record is a multiple of
            the decimation, so that pieces of a record keep what the whole would.
        dropped : int, optional
            Samples to drop at each end; by default :meth:`settle`.

        Raises
        ------
        Refused
            ``band``: nothing is left.
        """
        edge = self.settle(rate_hz) if dropped is None else dropped
        step = self.step(rate_hz)
        start = edge + (-(first_index + edge)) % step
        if start >= samples - edge:
            raise _bad(
                f"{samples} samples at {rate_hz:g} Hz are too few: {edge} are dropped at each end",
                f"Take stretches longer than {2 * edge / rate_hz + step / rate_hz:.3g} s, or a higher cut-off",
            )
        return slice(start, samples - edge, step)

    def apply(
        self, values: Floats, rate_hz: float, *, first_index: int = 0, dropped: int | None = None
    ) -> Floats:  # fmt: skip
        """Filter, drop the ends and decimate along the first axis; parameters as of :meth:`kept`."""
        return self.smooth(values, rate_hz)[self.kept(len(values), rate_hz, first_index=first_index, dropped=dropped)]

    def _single_pass_hz(self, rate_hz: float) -> float:
        """Cut-off of one pass [Hz]; exact for the bilinear transform, which bends frequencies by a tangent."""
        if self.cutoff_hz >= 0.5 * rate_hz:
            raise _bad(
                f"a cut-off of {self.cutoff_hz:g} Hz is not below half the sample rate of {rate_hz:g} Hz",
                "Lower the cut-off or sample faster",
            )
        bent = math.tan(math.pi * self.cutoff_hz / rate_hz) * (math.sqrt(2.0) - 1.0) ** (-1.0 / self.order)
        return math.atan(bent) * rate_hz / math.pi

    def _poles(self, rate_hz: float) -> NDArray[np.complex128]:
        """Poles of one pass in the z plane."""
        size = self.order // 2
        bent = math.tan(math.pi * self._single_pass_hz(rate_hz) / rate_hz)
        angles = math.pi * (2.0 * np.arange(size) + size + 1.0) / (2.0 * size)
        analogue = bent * np.exp(1j * angles)
        poles: NDArray[np.complex128] = (1.0 + analogue) / (1.0 - analogue)
        return poles


@dataclass(frozen=True)
class Derivatives:
    """``velocity`` and ``acceleration`` (n,), in the unit of the position per second; true to 0.1 % up to ``band_hz``.

    The first and last ``REACH`` samples are extrapolated: drop them.
    """

    velocity: Floats
    acceleration: Floats
    band_hz: float


def differentiate(position: Floats, rate_hz: float) -> Derivatives:
    """First and second derivative by nine-point central differences.

    Parameters
    ----------
    position : (n,) float64
        Uniformly sampled; measured or filtered. Noise grows with frequency: filter what is made of it.
    rate_hz : float

    Notes
    -----
    Three-point differences are 0.016 % low at 1/200 of the sample rate and 1.6 % at 1/20 (velocity); nine points are
    within 0.1 % up to 1/6.5 of it, so the error of the differences does not hide in the parameters.

    Raises
    ------
    Refused
        ``band``: fewer than nine samples.
    """
    if len(position) < 2 * REACH + 1:
        raise _bad(f"{len(position)} samples have no nine-point derivative", "Take a longer stretch")
    # Odd about its end point, so that a straight line goes on straight.
    before = 2.0 * position[0] - position[REACH:0:-1]
    after = 2.0 * position[-1] - position[-2 : -2 - REACH : -1]
    long = np.concatenate([before, position, after])
    n = len(position)
    velocity = np.zeros(n)
    acceleration = _SECOND_CENTRE * position
    for k, (first, second) in enumerate(zip(_FIRST, _SECOND, strict=True), start=1):
        ahead, behind = long[REACH + k : REACH + k + n], long[REACH - k : REACH - k + n]
        velocity += first * (ahead - behind)
        acceleration += second * (ahead + behind)
    return Derivatives(velocity * rate_hz, acceleration * rate_hz**2, TRUE_BAND * rate_hz)


def _true_band(tolerance: float = 1e-3) -> float:
    """Frequency, as a share of the sample rate, up to which both differences are true within ``tolerance``."""
    turn = np.linspace(1e-3, 0.5, 2000) * 2.0 * math.pi
    first = sum(2.0 * w * np.sin(k * turn) for k, w in enumerate(_FIRST, start=1)) / turn
    second = -(_SECOND_CENTRE + sum(2.0 * w * np.cos(k * turn) for k, w in enumerate(_SECOND, start=1))) / turn**2
    wrong = np.flatnonzero((np.abs(first - 1.0) > tolerance) | (np.abs(second - 1.0) > tolerance))
    return float(turn[wrong[0]] / (2.0 * math.pi))


TRUE_BAND = _true_band()
"""0.1 % band of :func:`differentiate` as a share of the sample rate."""


def _bad(what: str, remedy: str) -> Refused:
    return Refused(what, reason="band", where="low-pass", remedy=remedy)
