"""The state of an arm at one moment, in one array, so that a step is a few products."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_contact import Surface
from bench.twin.plant.arm_matrices import STATE, Matrices

Floats = NDArray[np.float64]

SENSED = 6  # the wrench of the tool on the sensor


class Block:
    """One of the (n,) parts of a state's array, read and written as a list."""

    def __init__(self, name: str) -> None:
        self.index = STATE.index(name)

    @overload
    def __get__(self, state: None, owner: type) -> Block: ...

    @overload
    def __get__(self, state: ArmState, owner: type) -> list[float]: ...

    def __get__(self, state: ArmState | None, owner: type) -> list[float] | Block:
        if state is None:
            return self
        n = state.n
        found: list[float] = state.values[self.index * n : (self.index + 1) * n].tolist()
        return found

    def __set__(self, state: ArmState, given: Any) -> None:
        n = state.n
        state.values[self.index * n : (self.index + 1) * n] = given


class ArmState:
    """What the arm remembers at one moment; once made it is changed no more.

    Attributes
    ----------
    values : ndarray
        The parts named in :data:`bench.twin.plant.arm_matrices.STATE`, then the motors' mean torque (n,) since the step
        before, the wrench of the tool on the sensor (6,) and the contact force.
    bristle, drag, torque : list (n,)
        Torque of the bristles [N.m], the last slopes of friction over speed, the last mean torque of the motors.
    age : int
        Steps until positions are looked at more closely, down to 0.
    near_stop : bool
        Whether hard stops are looked at in every step.
    """

    __slots__ = ("age", "bristle", "drag", "matrices", "n", "near_stop", "surface", "torque", "values")

    theta, q, estimate = Block("theta"), Block("q"), Block("estimate")
    x, w, v = Block("x"), Block("w"), Block("v")
    alpha, force, accel = Block("alpha"), Block("force"), Block("accel")

    def __init__(self, n: int, matrices: Matrices, surface: Surface | None) -> None:
        self.n = n
        self.values = np.zeros(size(n))
        self.bristle = self.drag = self.torque = [0.0] * n
        self.matrices, self.surface = matrices, surface
        self.age, self.near_stop = 0, True

    def copy(self) -> ArmState:
        """An independent one."""
        other = ArmState(self.n, self.matrices, self.surface)
        other.values = self.values.copy()
        other.bristle, other.drag, other.torque = self.bristle, self.drag, self.torque
        other.age, other.near_stop = self.age, self.near_stop
        return other

    def tell(self, torque: list[float], before: ArmState) -> None:
        """Take over what a step does not change, and note the torque it was made with."""
        n = self.n
        self.values[15 * n : 16 * n] = torque
        self.age, self.near_stop = (before.age or LOOK_STEPS) - 1, before.near_stop

    def now_is_before(self) -> None:
        """Let what is extrapolated from the step before have no slope: there was none."""
        n = self.n
        self.values[12 * n : 14 * n] = self.values[10 * n : 12 * n]

    @property
    def wrench_values(self) -> Floats:
        """Where the wrench stands in the array (6,)."""
        return self.values[16 * self.n : 16 * self.n + SENSED]

    @property
    def wrench(self) -> list[float]:
        """Of the tool on the sensor (6,) [N, N.m], sensor frame."""
        found: list[float] = self.wrench_values.tolist()
        return found

    @property
    def contact_force(self) -> float:
        """Of the tip on what it presses [N]."""
        return float(self.values[-1])

    @contact_force.setter
    def contact_force(self, force: float) -> None:
        self.values[-1] = force


LOOK_STEPS = 8
"""Steps between two closer looks at the positions."""


def size(n: int) -> int:
    """Length of a state's array."""
    return (len(STATE) + 1) * n + SENSED + 1


def places(n: int) -> dict[str, slice]:
    """Where a state's array has what a history keeps."""
    at = len(STATE) * n
    return {
        "axis_position": slice(0, n),
        "joint_position": slice(n, 2 * n),
        "motor_torque": slice(at, at + n),
        "wrench": slice(at + n, at + n + SENSED),
        "contact_force": slice(at + n + SENSED, at + n + SENSED + 1),
    }
