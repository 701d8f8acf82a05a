"""Watches on what a block of samples shows; each raises the reason the run has to end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.errors import SafetyAbort
from bench.safety.limits import LoadLimits

Floats = NDArray[np.float64]


class ForceWatch:
    """Checks the load on every sample of every block.

    Parameters
    ----------
    limits : LoadLimits
        The smallest of what rig, sensor and specimen bear.
    """

    def __init__(self, limits: LoadLimits) -> None:
        self.limits = limits

    def check(self, forces: Floats, torques: Floats, saturated: NDArray[np.bool_], time_s: Floats) -> None:
        """Raise :class:`SafetyAbort` when any sample breaks a limit.

        Parameters
        ----------
        forces : ndarray, shape (n, n_force)
            In N. The magnitude over the axes counts: a side load breaks a cell as well as a pressing one.
        torques : ndarray, shape (n, n_torque)
            In N.m; ``n_torque`` may be 0.
        saturated : ndarray of bool, shape (n,)
            Samples that touch the end of the sensor's range.
        time_s : ndarray, shape (n,)

        Raises
        ------
        SafetyAbort
            ``"sensor_saturated"``, ``"sensor_invalid"``, ``"force_limit"`` or ``"torque_limit"``.
        """
        # Saturation first: a clipped channel makes every converted number wrong, the small ones too.
        if saturated.any():
            raise SafetyAbort(
                f"the force sensor touches the end of its range at {time_s[int(np.argmax(saturated))]:.3f} s",
                reason="sensor_saturated",
                where="force sensor",
                remedy="Look for an overload, a broken gauge or a loose connector; check the sensor before going on.",
            )
        self._check(forces, self.limits.force_n, "N", "force", time_s)
        if self.limits.torque_n_m is not None and torques.size:
            self._check(torques, self.limits.torque_n_m, "N.m", "torque", time_s)

    @staticmethod
    def _check(load: Floats, limit: float, unit: str, name: str, time_s: Floats) -> None:
        magnitude = np.abs(load[:, 0]) if load.shape[1] == 1 else np.sqrt(np.einsum("ij,ij->i", load, load))
        # Written so that a NaN counts as beyond the limit.
        beyond = ~(magnitude <= limit)
        if not beyond.any():
            return
        first = int(np.argmax(beyond))
        if not np.isfinite(magnitude[first]):
            raise SafetyAbort(
                f"the {name} is not a number at {time_s[first]:.3f} s",
                reason="sensor_invalid",
                where="force sensor",
                remedy="Check the sensor's calibration file and wiring.",
            )
        raise SafetyAbort(
            f"the {name} reached {magnitude[first]:.4g} {unit} at {time_s[first]:.3f} s, limit {limit:g} {unit}",
            reason=f"{name}_limit",
            where="force sensor",
            remedy="Press less deep or raise the limit in the profile, if rig and specimen bear it.",
        )
