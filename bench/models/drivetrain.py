"""Between motors and joints of an arm: ratios, directions, coupled axes, torque constants.

``q = A q_m + offset`` with ``q_m = direction * motor_angle / gear_ratio``; what does no work in between gives
``tau_m = A^T tau`` at the motors' joint side, so ``tau = A^-T tau_m`` (virtual work). Angles in rad (m for a prismatic
joint), torques in N.m (N).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Drivetrain:
    """Motors and what couples them to the joints; arrays (n,) in the order of the joints, ``coupling`` (n, n).

    Parameters
    ----------
    gear_ratio : (n,)
        Turns of the motor's shaft (what its encoder counts) per turn of its axis.
    direction : (n,)
        1, or -1 where a positive motor angle turns its axis negatively.
    coupling : (n, n)
        ``A``; identity where every motor moves one joint.
    offset : (n,)
        Joint angles where all motors stand at zero.
    motor_inertia : (n,)
        Of the rotor, seen at its axis: at the motor's shaft times the square of the ratio [kg.m2].
    torque_constant : (n,)
        Torque at the motor's shaft per ampere, nominal [N.m/A].
    """

    gear_ratio: Floats
    direction: Floats
    coupling: Floats
    offset: Floats
    motor_inertia: Floats
    torque_constant: Floats

    @property
    def to_joint(self) -> Floats:
        """(n, n) joint speeds per motor-shaft speeds."""
        return self.coupling * (self.direction / self.gear_ratio)

    @property
    def to_motor(self) -> Floats:
        """(n, n) motor-shaft speeds per joint speeds."""
        return np.asarray(np.linalg.inv(self.to_joint))

    def joint_position(self, motor_angle: Floats) -> Floats:
        """Joint positions (..., n) of motor-shaft angles (..., n)."""
        return motor_angle @ self.to_joint.T + self.offset

    def joint_velocity(self, motor_velocity: Floats) -> Floats:
        """Joint speeds (..., n) of motor-shaft speeds (..., n)."""
        return motor_velocity @ self.to_joint.T

    def motor_angle(self, position: Floats) -> Floats:
        """Motor-shaft angles (..., n) of joint positions (..., n)."""
        return (position - self.offset) @ self.to_motor.T

    def joint_torque(self, motor_torque: Floats) -> Floats:
        """Joint torques (..., n) of motor-shaft torques (..., n): ``tau = to_motor^T tau_motor``."""
        return motor_torque @ self.to_motor

    def motor_torque(self, torque: Floats) -> Floats:
        """Motor-shaft torques (..., n) of joint torques (..., n)."""
        return torque @ self.to_joint

    def joint_torque_of_current(self, current: Floats) -> Floats:
        """Joint torques (..., n) of motor currents [A] (..., n), by the nominal torque constants."""
        return self.joint_torque(current * self.torque_constant)

    def current(self, torque: Floats) -> Floats:
        """Motor currents [A] (..., n) that make joint torques (..., n), by the nominal torque constants."""
        return self.motor_torque(torque) / self.torque_constant
