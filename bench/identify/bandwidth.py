"""The joint's bandwidth from its own record, and the cut-off of the identification's filter from that.

::

    bandwidth = rigid_bandwidth(record.motor_angle, record.joint_angle, record.rate_hz)
    band = LowPass(cutoff_from_bandwidth(bandwidth.value_hz))

Two frequencies are meant by a joint's bandwidth, and either can be measured: up to where the joint follows what is
wanted of it (:func:`joint_bandwidth`; it takes a motion that asks for more than the joint can do), and up to where
motor and link move as one (:func:`rigid_bandwidth`; friction at the reversals of any motion excites that well enough).
A model with a stiff gear holds below the second, so it is the one to identify by.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.estimate import Estimate

Floats = NDArray[np.float64]

LOWEST_SHARE, HIGHEST_SHARE = 1.0 / 3.0, 1.0 / 2.0
HALF_POWER = math.sqrt(0.5)
COHERENT = 0.8
FEWEST_SEGMENTS = 6
WORST_SHARE = 0.2
PLATEAU_BINS = 3
PLATEAU_SHARE = 0.2
"""The low-frequency gain is the median below this share of the crossing: a first-order lag has 0.98 there."""


@dataclass(frozen=True)
class Bandwidth:
    """Frequency where the response from one signal to another leaves its low-frequency gain by 3 dB.

    Parameters
    ----------
    value_hz, standard_uncertainty_hz : float
        The uncertainty is that of a gain estimated with the coherence found there, over the slope of the gain.
    gain : float
        Low-frequency gain the fall is counted from.
    coherence : float
        At the crossing.
    frequency_hz, response : (m,)
        The response (complex) at all frequencies up to where it stays coherent.
    """

    value_hz: float
    standard_uncertainty_hz: float
    gain: float
    coherence: float
    frequency_hz: Floats
    response: NDArray[np.complex128]

    @property
    def estimate(self) -> Estimate:
        return Estimate(self.value_hz, self.standard_uncertainty_hz, "Hz", "frequency")


def joint_bandwidth(
    wanted: Floats, measured: Floats, rate_hz: float, *, segment_s: float | None = None, coherent: float = COHERENT
) -> Bandwidth:
    """Where the response from ``wanted`` to ``measured`` has fallen by 3 dB.

    For the bandwidth of a joint under control take the desired and the measured angle of a motion that excites it
    beyond: a chirp, or a path with sudden accelerations.

    Parameters
    ----------
    wanted, measured : (n,) float64
        On one uniform time base.
    segment_s : float, optional
        Length of the half-overlapping Hann segments; a sixteenth of the record by default. It sets the resolution.
    coherent : float
        Coherence [1] from which on the response is believed.

    Notes
    -----
    H1 estimate, cross spectrum over input spectrum, on differences of the signals so that drifts do not leak. Its
    relative standard deviation is ``sqrt((1 - c) / (2 n c))`` with coherence ``c`` and ``n`` independent segments
    (J. S. Bendat and A. G. Piersol, Random Data, 4th ed., eq. 9.52).

    Raises
    ------
    Refused
        ``not_excited``: the response is not coherent up to where it falls by 3 dB; ``too_short``.
    """
    return _measure(wanted, measured, rate_hz, segment_s, coherent, rises=False)


def rigid_bandwidth(
    motor_angle: Floats, joint_angle: Floats, rate_hz: float, *, segment_s: float | None = None,
    coherent: float = COHERENT,
) -> Bandwidth:  # fmt: skip
    """Where the link's angle leaves that of the motor by 3 dB, up or down: beyond, the gear's spring is felt.

    With a link inertia ``J_l`` on a spring ``K`` the link overshoots the motor by ``1 / (1 - omega^2 J_l / K)``, so
    this is 0.54 of its resonance with the motor held. Parameters, notes and errors as of :func:`joint_bandwidth`.
    """
    return _measure(motor_angle, joint_angle, rate_hz, segment_s, coherent, rises=True)


def _measure(
    wanted: Floats, measured: Floats, rate_hz: float, segment_s: float | None, coherent: float, *, rises: bool
) -> Bandwidth:  # fmt: skip
    length = int((len(wanted) / 16.0) if segment_s is None else segment_s * rate_hz)
    if length < 16 or len(wanted) < FEWEST_SEGMENTS * length // 2 + length:
        raise _refused(
            "too_short", f"{len(wanted)} samples do not hold {FEWEST_SEGMENTS} segments of {length}", "Record longer"
        )
    frequency, response, coherence, segments = _response(wanted, measured, length, rate_hz)
    # A bin that was hardly excited says nothing either way: coherent bins count.
    usable = np.flatnonzero(coherence >= coherent)
    usable = usable[usable > 0]
    if len(usable) < 2 * PLATEAU_BINS:
        raise _refused("not_excited", "the measured angle hardly follows the wanted one at any frequency", EXCITE)
    f, gain = frequency[usable], np.abs(response[usable])
    level, at = _crossing(f, gain, rises)
    due = level * (HALF_POWER if gain[at] < level else 1.0 / HALF_POWER)
    near = slice(max(at - 3, 0), min(at + 3, len(f)))
    line = np.polyfit(f[near], gain[near], 1)
    share = (gain[at - 1] - due) / (gain[at - 1] - gain[at])
    value = float(f[at - 1] + share * (f[at] - f[at - 1]))
    here = float(min(coherence[usable[at - 1]], coherence[usable[at]], 1.0 - 1e-12))
    noise = due * math.sqrt((1.0 - here) / (2.0 * segments * here))
    # A slow chirp passes a bin in one or two segments: then the bins' own scatter is the greater noise.
    scatter = float(np.sqrt(np.mean((gain[near] - np.polyval(line, f[near])) ** 2)))
    u = math.hypot(max(noise, scatter) / max(abs(float(line[0])), 1e-300), (f[at] - f[at - 1]) / math.sqrt(12.0))
    if u > WORST_SHARE * value:
        raise _refused("not_excited", f"the response crosses 3 dB at {value:.3g} Hz, give or take {u:.2g} Hz", EXCITE)
    last = usable[-1] + 1
    return Bandwidth(value, u, level, here, frequency[1:last], response[1:last])


def cutoff_from_bandwidth(bandwidth_hz: float, share: float = 0.4) -> float:
    """Cut-off [Hz] of the low-pass: between a third and a half of the joint's bandwidth.

    Raises
    ------
    Refused
        ``band``: another share. Lower, and the filter takes the dynamics away; higher, and what the rigid model does
        not know goes into its parameters.
    """
    if not LOWEST_SHARE - 1e-9 <= share <= HIGHEST_SHARE + 1e-9:
        raise _refused(
            "band",
            f"a cut-off of {share:.3g} of the bandwidth is outside a third to a half",
            "State a share between 0.333 and 0.5",
        )
    if not (math.isfinite(bandwidth_hz) and bandwidth_hz > 0.0):
        raise _refused("band", f"a bandwidth of {bandwidth_hz} Hz is none", "Measure it, or take the rig profile's")
    return share * bandwidth_hz


EXCITE = "Excite the joint beyond its bandwidth: a chirp, or a path with sudden accelerations"


def _crossing(frequency: Floats, gain: Floats, rises: bool) -> tuple[float, int]:
    """Low-frequency gain, and the first index at which the gain is 3 dB below it (or above, when that counts)."""

    def outside(level: float) -> NDArray[np.intp]:
        high = level / HALF_POWER if rises else math.inf
        return np.flatnonzero((gain < HALF_POWER * level) | (gain > high))

    level = float(np.median(gain[:PLATEAU_BINS]))
    for _ in range(2):
        below = outside(level)
        if not below.size:
            what = f"the response is coherent only up to {frequency[-1]:.3g} Hz, where its gain is still"
            raise _refused("not_excited", f"{what} {gain[-1] / level:.2f}", EXCITE)
        at = int(below[0])
        if at < PLATEAU_BINS:
            raise _refused("not_excited", "the response is not flat at the lowest frequencies", EXCITE)
        low = max(PLATEAU_BINS, int(np.searchsorted(frequency, PLATEAU_SHARE * frequency[at])))
        level = float(np.median(gain[:low]))
    found = outside(level)
    return level, int(found[0]) if found.size else at


def _response(
    wanted: Floats, measured: Floats, length: int, rate_hz: float
) -> tuple[Floats, NDArray[np.complex128], Floats, float]:
    """Frequencies, H1, coherence, and the number of independent segments."""
    x, y = np.diff(wanted), np.diff(measured)
    window = np.hanning(length + 1)[:-1]
    starts = range(0, len(x) - length + 1, length // 2)
    size = length // 2 + 1
    xx, yy, xy = np.zeros(size), np.zeros(size), np.zeros(size, dtype=np.complex128)
    for start in starts:
        a = np.fft.rfft(window * x[start : start + length])
        b = np.fft.rfft(window * y[start : start + length])
        xx += np.abs(a) ** 2
        yy += np.abs(b) ** 2
        xy += np.conj(a) * b
    coherence = np.abs(xy) ** 2 / np.maximum(xx * yy, 1e-300)
    # Hann segments that overlap by half share a sixth of their information: P. D. Welch (1967).
    independent = len(starts) * 9.0 / 11.0
    return np.asarray(np.fft.rfftfreq(length, 1.0 / rate_hz)), xy / np.maximum(xx, 1e-300), coherence, independent


def _refused(reason: str, what: str, remedy: str) -> Refused:
    return Refused(what, reason=reason, where="bandwidth", remedy=remedy)
