"""Step response of a joint made to behave as inertia, damper and spring: what an impedance controller should show.

    M_d e'' + B_d e' + K_d e = 0,    natural frequency sqrt(K_d / M_d),    damping ratio B_d / (2 sqrt(K_d M_d))

::

    wanted = Impedance(2.0, 10.0, 50.0)
    wanted.overshoot, wanted.settling_time()    # 0.163, 1.62 s

A larger ``M_d`` is slower *and* less damped: with the same damper and spring M_d = 1 gives 4.3 % and 0.84 s,
M_d = 5 gives 35 %.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Impedance:
    """Wanted inertia [kg.m2], damping [N.m.s/rad] and stiffness [N.m/rad]; all above zero."""

    inertia: float
    damping: float
    stiffness: float

    def __post_init__(self) -> None:
        for name in ("inertia", "damping", "stiffness"):
            if not (getattr(self, name) > 0.0 and math.isfinite(getattr(self, name))):
                raise ValueError(f"{name} is {getattr(self, name):g}: an impedance needs all three above zero")

    @property
    def natural_frequency(self) -> float:
        """[rad/s]"""
        return math.sqrt(self.stiffness / self.inertia)

    @property
    def damping_ratio(self) -> float:
        """[1]"""
        return self.damping / (2.0 * math.sqrt(self.stiffness * self.inertia))

    @property
    def _ringing(self) -> float:
        """Frequency of the ringing [rad/s]; zero when it does not ring."""
        return self.natural_frequency * math.sqrt(max(1.0 - self.damping_ratio**2, 0.0))

    @property
    def overshoot(self) -> float:
        """Share of the step by which the first peak passes the goal [1]; zero when it does not ring."""
        if self._ringing == 0.0:
            return 0.0
        return math.exp(-self.damping_ratio * self.natural_frequency * math.pi / self._ringing)

    @property
    def peak_time(self) -> float:
        """Time of the first peak [s]; infinite when it does not ring."""
        return math.pi / self._ringing if self._ringing > 0.0 else math.inf

    def settling_time(self, band: float = 0.02) -> float:
        """Time [s] after which the response stays within ``band`` (a share of the step) of its goal.

        The exact last crossing, not ``4 / (zeta omega)``: the error's extremes lie at multiples of the peak time, so
        the last crossing lies before the first extreme that is inside, and is found there by bisection.
        """
        if not 0.0 < band < 1.0:
            raise ValueError(f"a settling band of {band:g}: give a share of the step between 0 and 1")
        if self._ringing > 0.0:
            extreme = math.ceil(math.log(band) / math.log(self.overshoot)) if self.overshoot > 0.0 else 1
            low, high = (extreme - 1) * self.peak_time, extreme * self.peak_time
        else:
            low, high = 0.0, 1.0 / self.natural_frequency
            while self._error(high) > band:
                low, high = high, 2.0 * high
        outside = math.copysign(1.0, self._error(low))
        for _ in range(200):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if outside * self._error(middle) > band else (low, middle)
        return high

    def step_response(self, time_s: Floats) -> Floats:
        """Response to a unit step at time zero (n,) [1]; zero before it."""
        t = np.asarray(time_s, dtype=np.float64)
        return np.where(t > 0.0, 1.0 - self._errors(np.maximum(t, 0.0)), 0.0)

    def _error(self, time_s: float) -> float:
        return float(self._errors(np.array(time_s)))

    def _errors(self, t: Floats) -> Floats:
        """What is left of a unit step (n,) [1]."""
        omega, zeta = self.natural_frequency, self.damping_ratio
        if self._ringing > 0.0:
            turn = self._ringing * t
            return np.asarray(np.exp(-zeta * omega * t) * (np.cos(turn) + zeta * omega / self._ringing * np.sin(turn)))
        split = omega * math.sqrt(zeta**2 - 1.0)
        if split < 1e-6 * omega:
            return np.asarray(np.exp(-omega * t) * (1.0 + omega * t))
        slow, fast = self.stiffness / self.inertia / (zeta * omega + split), zeta * omega + split
        return np.asarray((fast * np.exp(-slow * t) - slow * np.exp(-fast * t)) / (fast - slow))
