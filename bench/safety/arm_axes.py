"""Between an arm's servos and its joints in plain lists: a loop at hundreds of hertz has no time for small arrays."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.instruments.protocols import ArmState
from bench.models.drivetrain import Drivetrain

Floats = NDArray[np.float64]

TURN_RAD = 2.0 * math.pi


@dataclass(slots=True)
class ArmReading:
    """What the servos report, shaft side and joint side; lists (n,) in rad, rad/s, A and N.m.

    ``shaft_rad`` counts from the profile's zero; ``torque_nm`` is what the measured currents make by the nominal torque
    constants.
    """

    shaft_rad: list[float]
    shaft_rad_s: list[float]
    current_a: list[float]
    position_rad: list[float]
    velocity_rad_s: list[float]
    torque_nm: list[float]


class ArmAxes:
    """Turns a servo's counts into joints and joint torques into currents.

    A servo that lost its supply knows its shaft within a turn. :meth:`refer` finds the turn: the one nearest to where
    the shaft was seen last, since the brakes have held it; at first the one nearest to its zero, so an arm has to be
    switched on with every shaft within half a turn of its zero.

    Parameters
    ----------
    drivetrain : Drivetrain
    zero_rad : sequence of float
        Where the servos' shafts stand at the profile's zero (n,) [rad].
    """

    def __init__(self, drivetrain: Drivetrain, zero_rad: Sequence[float]) -> None:
        self.drivetrain = drivetrain
        to_joint = drivetrain.to_joint
        n = len(to_joint)
        self.straight = bool(np.all(to_joint == np.diag(np.diag(to_joint))))
        self._zero = list(zero_rad)
        self._base = list(zero_rad)
        self._scale = [float(to_joint[i, i]) for i in range(n)]
        self._offset = [float(x) for x in drivetrain.offset]
        constants = [float(k) for k in drivetrain.torque_constant]
        self._amperes = [s / k for s, k in zip(self._scale, constants, strict=True)]
        self._newton_metres = [k / s if s else math.nan for s, k in zip(self._scale, constants, strict=True)]

    def reading(self, state: ArmState) -> ArmReading:
        """Return what the servos report, at the joints too."""
        shaft = [p - z for p, z in zip(state.position_rad, self._zero, strict=True)]
        speed, current = state.velocity_rad_s, state.current_a
        if self.straight:
            return ArmReading(
                shaft,
                speed,
                current,
                [s * x + o for s, x, o in zip(self._scale, shaft, self._offset, strict=True)],
                [s * x for s, x in zip(self._scale, speed, strict=True)],
                [k * x for k, x in zip(self._newton_metres, current, strict=True)],
            )
        drives = self.drivetrain
        return ArmReading(
            shaft,
            speed,
            current,
            _listed(drives.joint_position(np.array(shaft))),
            _listed(drives.joint_velocity(np.array(speed))),
            _listed(drives.joint_torque_of_current(np.array(current))),
        )

    def refer(self, state: ArmState, last: ArmReading | None) -> None:
        """Find the turn every shaft is in, now that the servos may count anew; ``last`` is where they were seen."""
        shafts = [0.0] * len(self._base) if last is None else last.shaft_rad
        self._zero = [
            zero + TURN_RAD * round((p - zero - shaft) / TURN_RAD)
            for p, zero, shaft in zip(state.position_rad, self._base, shafts, strict=True)
        ]

    def currents(self, torque_nm: Sequence[float]) -> list[float]:
        """Return the motor currents (n,) [A] of joint torques (n,) [N.m], by the nominal constants."""
        if self.straight:
            return [a * x for a, x in zip(self._amperes, torque_nm, strict=True)]
        return _listed(self.drivetrain.current(np.array(torque_nm)))


def _listed(numbers: Floats) -> list[float]:
    found: list[float] = numbers.tolist()
    return found
