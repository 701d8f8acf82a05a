"""The state of an arm at one moment, in one array, so that a step is a few products."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from bench.twin.plant.arm_contact import Surface
from bench.twin.plant.arm_matrices import STATE, Matrices

Floats = NDArray[np.float64]


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
        state.turned = []


class ArmState:
    """What the arm remembers at one moment; once made it is changed no more.

    Attributes
    ----------
    values : ndarray (18 n,)
        The parts named in :data:`bench.twin.plant.arm_matrices.STATE`; behind them a step puts what it is given.
    bristle, speeds, drag, torque : list (n,)
        Torque of the bristles [N.m]; the axes' speeds, as in ``values``; the last slopes of friction over speed; the
        motors' mean torque since the step before.
    felt : ndarray (6,)
        Wrench of the tool on the sensor [N, N.m], sensor frame.
    contact_force : float
        Of the tip on what it presses [N].
    turned : list (n,)
        Where the shafts' ripple stands in the middle of the step to come [rad]; empty: to be found.
    age : int
        Steps until positions are looked at more closely, down to 0.
    near_stop : bool
        Whether hard stops are looked at in every step.
    """

    __slots__ = (
        "age", "bristle", "contact_force", "drag", "felt", "matrices", "n", "near_stop", "speeds", "surface", "torque",
        "turned", "values",
    )  # fmt: skip
    felt: Floats

    theta, q, estimate = Block("theta"), Block("q"), Block("estimate")
    x, v = Block("x"), Block("v")
    alpha, force, accel = Block("alpha"), Block("force"), Block("accel")

    def __init__(
        self,
        n: int,
        values: Floats,
        bristle: list[float],
        speeds: list[float],
        drag: list[float],
        torque: list[float],
        matrices: Matrices,
        surface: Surface | None,
        age: int,
        near_stop: bool,
        turned: list[float],
    ) -> None:
        self.n, self.values, self.turned = n, values, turned
        self.bristle, self.speeds, self.drag, self.torque = bristle, speeds, drag, torque
        self.matrices, self.surface = matrices, surface
        self.age, self.near_stop, self.contact_force = age, near_stop, 0.0

    def copy(self) -> ArmState:
        """An independent one."""
        other = ArmState(
            self.n, self.values.copy(), self.bristle, self.speeds, self.drag, self.torque, self.matrices, self.surface,
            self.age, self.near_stop, self.turned,
        )  # fmt: skip
        other.felt, other.contact_force = self.felt, self.contact_force
        return other

    @property
    def w(self) -> list[float]:
        """The axes' speeds [rad/s]."""
        return self.speeds

    @w.setter
    def w(self, speeds: list[float]) -> None:
        self.speeds = [float(speed) for speed in speeds]
        self.values[4 * self.n : 5 * self.n] = self.speeds
        self.turned = []

    def now_is_before(self) -> None:
        """Let what is extrapolated from the step before have no slope: there was none."""
        n = self.n
        self.values[12 * n : 14 * n] = self.values[10 * n : 12 * n]

    @property
    def wrench(self) -> list[float]:
        """Of the tool on the sensor (6,) [N, N.m], sensor frame."""
        found: list[float] = self.felt.tolist()
        return found


LOOK_STEPS = 8
"""Steps between two closer looks at the positions."""
