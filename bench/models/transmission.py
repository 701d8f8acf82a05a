"""An elastic gear: torque from deflection, with stiffening, backlash and hysteresis.

The mid-line is the mean of the loading and the unloading branch,

    tau(D) = stiffness_load D - (stiffness_load - stiffness_zero) d tanh(D / d)

with D the deflection outside the gap, ``d`` the ``transition`` over which the slope changes. Its slope is
``stiffness_zero`` at zero and ``stiffness_load`` far from it, as makers of strain-wave gears tell their stiffness.
Deflection = joint-referred motor angle - joint angle [rad]; torque on the link [N.m].
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.models.recurrence import scan

Floats = NDArray[np.float64]

ROUNDS = 60


@dataclass(frozen=True)
class Transmission:
    """Parameters of an elastic gear.

    Parameters
    ----------
    stiffness_zero, stiffness_load : float
        Slopes of the mid-line at zero and under load [N.m/rad].
    transition : float
        Deflection over which the one goes over into the other [rad].
    backlash : float
        Total gap [rad].
    hysteresis_width : float
        Torque between the loading and the unloading branch at zero deflection [N.m]: twice the half-width H.
    hysteresis_travel : float
        Deflection after a turn over which 1 - 1/e of the change of branch is done [rad].
    """

    stiffness_zero: float
    stiffness_load: float
    transition: float
    backlash: float = 0.0
    hysteresis_width: float = 0.0
    hysteresis_travel: float = 0.0

    def outside_gap(self, deflection: ArrayLike) -> Floats:
        """Deflection that loads the gear (n,) [rad]: zero inside the gap."""
        x = np.asarray(deflection, dtype=np.float64)
        return np.asarray(x - np.clip(x, -0.5 * self.backlash, 0.5 * self.backlash))

    def mid_line(self, deflection: ArrayLike) -> Floats:
        """Torque without hysteresis (n,) [N.m]."""
        return self._elastic(self.outside_gap(deflection))

    def slope(self, deflection: ArrayLike) -> Floats:
        """Slope of the mid-line (n,) [N.m/rad]; zero inside the gap."""
        x = np.asarray(deflection, dtype=np.float64)
        inside = (np.abs(x) < 0.5 * self.backlash) if self.backlash > 0.0 else np.zeros(x.shape, dtype=bool)
        return np.asarray(np.where(inside, 0.0, self._slope(self.outside_gap(x))))

    def deflection(self, torque: ArrayLike) -> Floats:
        """Deflection on the mid-line for a torque (n,) [rad]; the middle of the gap for none.

        Newton's method from ``torque / stiffness_zero``: the mid-line is convex or concave on each side, so it
        approaches from one side without overshoot.
        """
        tau = np.asarray(torque, dtype=np.float64)
        x = tau / self.stiffness_zero
        for _ in range(ROUNDS):
            step = (self._elastic(x) - tau) / self._slope(x)
            x = x - step
            if np.all(np.abs(step) <= 4e-16 * np.abs(x)):
                break
        return np.asarray(x + 0.5 * self.backlash * np.sign(tau))

    def branch(self, deflection: ArrayLike, direction: int) -> Floats:
        """Torque on the loading (``direction`` +1) or the unloading (-1) branch, long after the turn (n,) [N.m]."""
        return np.asarray(self.mid_line(deflection) + 0.5 * direction * self.hysteresis_width)

    def along(self, deflection: Floats, start: float = 0.0) -> Floats:
        """Torque along a path of deflections (n,) [N.m], hysteresis included.

        The hysteresis torque starts at ``start`` [N.m] and follows ``h' = (H - h sign(D')) |D'| sign(D') /
        hysteresis_travel`` (P. R. Dahl, AIAA J. 14 (1976) 1675, exponent one); exact for a path that is straight
        between the samples.
        """
        half = 0.5 * self.hysteresis_width
        if not (half > 0.0 and self.hysteresis_travel > 0.0):
            return self.mid_line(deflection)
        travel = np.diff(deflection)
        fade = -np.expm1(-np.abs(travel) / self.hysteresis_travel)
        beside = np.concatenate([[start], scan(1.0 - fade, half * np.sign(travel) * fade, start)])
        return np.asarray(self.mid_line(deflection) + beside)

    def _elastic(self, x: Floats) -> Floats:
        soft = (self.stiffness_load - self.stiffness_zero) * self.transition
        return np.asarray(self.stiffness_load * x - soft * np.tanh(x / self.transition))

    def _slope(self, x: Floats) -> Floats:
        settled = np.tanh(x / self.transition) ** 2
        return np.asarray(self.stiffness_zero + (self.stiffness_load - self.stiffness_zero) * settled)
