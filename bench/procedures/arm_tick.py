"""What passes between the control loop of an arm and its controllers, and what a run leaves in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(slots=True)
class ArmTick:
    """What a controller sees at a tick: joint space, lists (n,) in rad, rad/s and N.m, read just before it is asked.

    ``torque`` is what the measured currents make by the nominal torque constants. ``wrench`` (6,) is the wrist
    sensor's, in its own frame [N, N.m], exerted on the sensor; it is ``wrench_age_s`` old, up to a drain.
    """

    index: int = 0
    time_s: float = 0.0
    position: list[float] = field(default_factory=list)
    velocity: list[float] = field(default_factory=list)
    torque: list[float] = field(default_factory=list)
    wrench: list[float] = field(default_factory=lambda: [0.0] * 6)
    wrench_age_s: float = 0.0


@dataclass(slots=True)
class ArmCommand:
    """What a controller fills in at each tick, joint space, lists (n,). ``torque`` is commanded, the rest is archived.

    ``feedback`` is the share that comes of the error, ``feedforward`` the model's and ``friction`` the part of that
    which makes up for friction [N.m]; ``desired_position`` [rad] is where every joint should be.
    """

    torque: list[float] = field(default_factory=list)
    desired_position: list[float] = field(default_factory=list)
    desired_velocity: list[float] = field(default_factory=list)
    feedback: list[float] = field(default_factory=list)
    feedforward: list[float] = field(default_factory=list)
    friction: list[float] = field(default_factory=list)

    @classmethod
    def at(cls, position: list[float]) -> ArmCommand:
        """Return no torque, and every joint wanted where it is."""
        n = len(position)
        return cls([0.0] * n, list(position), *([0.0] * n for _ in range(4)))


ArmController = Callable[[ArmTick, ArmCommand], bool | None]


@dataclass(frozen=True)
class ArmLoopView:
    """The ticks of one run of the loop and the wrist sensor's samples drained meanwhile.

    ``time_s`` (k,); ``position``, ``velocity``, ``command_torque``, ``desired_position`` (k, n); ``wrench_time_s`` (m,)
    and ``wrench`` (m, 6), in the sensor's frame.
    """

    start_s: float
    end_s: float
    time_s: Floats
    position: Floats
    velocity: Floats
    command_torque: Floats
    desired_position: Floats
    wrench_time_s: Floats
    wrench: Floats
