"""Friction of one joint in steady sliding: Coulomb, viscous, Stribeck, with load, temperature and asymmetry.

Joint-referred SI throughout: velocity [rad/s], torque [N.m], positive torque opposes positive motion. The published
joint that many texts quote::

    joint = Friction(coulomb=1.2, viscous=0.8, stribeck_excess=0.6, stribeck_velocity=0.05)
    joint.torque(0.02)      # 1.73 N.m
    joint.breakaway         # 1.8 N.m

``stribeck_excess`` is the EXCESS over the Coulomb level at rest, not the breakaway level itself. Read as a breakaway
level the same figures would give 1.2 + (0.6 - 1.2) exp(-(0.02/0.05)^2) + 0.8 * 0.02 = 0.70 N.m at 0.02 rad/s: a joint
that starts more easily than it slides.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Friction:
    """Parameters of one joint's friction; the steady state of LuGre is the same law.

    Parameters
    ----------
    coulomb : float
        Level at zero load that does not depend on speed [N.m].
    viscous : float
        [N.m.s/rad]
    stribeck_excess : float
        What friction at rest is ABOVE ``coulomb`` [N.m].
    stribeck_velocity : float
        Speed at which 1/e of the excess is left [rad/s].
    offset : float
        Half the difference between both directions [N.m], added whatever the direction.
    load_coefficient : float
        Coulomb friction per torque carried by the gear [1].
    temperature_coefficient : float
        Share by which ``coulomb``, ``stribeck_excess`` and ``viscous`` fall per kelvin above the reference [1/K].
    reference_temperature : float
        Temperature the parameters hold at [degC].
    """

    coulomb: float
    viscous: float
    stribeck_excess: float = 0.0
    stribeck_velocity: float = 0.05
    offset: float = 0.0
    load_coefficient: float = 0.0
    temperature_coefficient: float = 0.0
    reference_temperature: float = 25.0

    @property
    def breakaway(self) -> float:
        """Torque that starts the unloaded joint at the reference temperature, ``coulomb + stribeck_excess`` [N.m]."""
        return self.coulomb + self.stribeck_excess

    def warmth(self, temperature: ArrayLike | None) -> Floats:
        """Factor on coulomb, excess and viscous at a temperature [degC]; 1 at the reference and when it is not known.

        It stops at zero: far above the reference a straight line would make friction push.
        """
        if temperature is None:
            return np.ones(())
        rise = np.asarray(temperature, dtype=np.float64) - self.reference_temperature
        return np.asarray(np.maximum(1.0 - self.temperature_coefficient * rise, 0.0))

    def level(self, velocity: ArrayLike, *, load: ArrayLike = 0.0, temperature: ArrayLike | None = None) -> Floats:
        """Magnitude of the sliding friction without its viscous part [N.m]: LuGre's g.

        ``coulomb + stribeck_excess * exp(-(velocity / stribeck_velocity)^2)`` times :meth:`warmth`, plus
        ``load_coefficient * |load|``.
        """
        slow = stribeck_share(velocity, self.stribeck_velocity)
        dry = (self.coulomb + self.stribeck_excess * slow) * self.warmth(temperature)
        return np.asarray(dry + self.load_coefficient * np.abs(np.asarray(load, dtype=np.float64)))

    def torque(
        self,
        velocity: ArrayLike,
        *,
        load: ArrayLike = 0.0,
        temperature: ArrayLike | None = None,
        smoothing: float = 0.0,
    ) -> Floats:
        """Friction torque in steady sliding (n,) [N.m].

        Parameters
        ----------
        velocity : (n,) float64
            Joint-referred [rad/s].
        load : (n,) float64
            Torque through the gear [N.m]; its magnitude counts.
        temperature : (n,) float64, optional
            [degC]; without it the reference temperature.
        smoothing : float
            Speed [rad/s] over which the sign is blended, ``tanh(velocity / smoothing)``. A feed-forward from a noisy
            speed needs it; zero is the sharp sign, with no dry friction at zero speed.

        Notes
        -----
        R. Stribeck, Z. VDI 46 (1902) 1341; the Gaussian form: B. Armstrong-Hélouvry, P. Dupont and C. Canudas de Wit,
        Automatica 30 (1994) 1083.
        """
        w = np.asarray(velocity, dtype=np.float64)
        sliding = self.level(w, load=load, temperature=temperature) * smooth_sign(w, smoothing)
        return np.asarray(sliding + self.viscous * self.warmth(temperature) * w + self.offset)

    def at(self, temperature: float) -> Friction:
        """Return the same joint with its parameters referred to another temperature [degC]."""
        factor = float(self.warmth(temperature))
        return Friction(
            self.coulomb * factor,
            self.viscous * factor,
            self.stribeck_excess * factor,
            self.stribeck_velocity,
            self.offset,
            self.load_coefficient,
            self.temperature_coefficient / factor if factor > 0.0 else 0.0,
            temperature,
        )


def coulomb_viscous(velocity: ArrayLike, coulomb: float, viscous: float, offset: float = 0.0) -> Floats:
    """``coulomb * sign(velocity) + viscous * velocity + offset`` (n,) [N.m]."""
    return Friction(coulomb, viscous, offset=offset).torque(velocity)


def stribeck(
    velocity: ArrayLike,
    coulomb: float,
    viscous: float,
    stribeck_excess: float,
    stribeck_velocity: float,
    offset: float = 0.0,
) -> Floats:
    """Coulomb, viscous and Stribeck friction (n,) [N.m]; ``stribeck_excess`` is the excess over ``coulomb``."""
    return Friction(coulomb, viscous, stribeck_excess, stribeck_velocity, offset).torque(velocity)


def stribeck_share(velocity: ArrayLike, stribeck_velocity: float) -> Floats:
    """Share of the excess that is left at a speed (n,) [1], ``exp(-(velocity / stribeck_velocity)^2)``."""
    return np.asarray(np.exp(-((np.asarray(velocity, dtype=np.float64) / stribeck_velocity) ** 2)))


def smooth_sign(velocity: ArrayLike, smoothing: float) -> Floats:
    """Sign of a velocity (n,) [1], blended over ``smoothing`` [rad/s] where that is positive."""
    w = np.asarray(velocity, dtype=np.float64)
    return np.asarray(np.tanh(w / smoothing) if smoothing > 0.0 else np.sign(w))


def tip_force(torque: ArrayLike, lever: float) -> Floats:
    """Force at the tool tip that a torque error makes (n,) [N]: ``|torque| / lever``, lever in m; one joint's J^-T."""
    if not (lever > 0.0 and math.isfinite(lever)):
        raise ValueError(f"a lever of {lever:g} m: give the distance from joint axis to tool tip, above zero")
    return np.asarray(np.abs(np.asarray(torque, dtype=np.float64)) / lever)
