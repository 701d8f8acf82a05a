"""What passes between the control loop of a joint and its controllers, and what a run leaves in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.procedures.joint_recording import NONE, Samples

Floats = NDArray[np.float64]


@dataclass(slots=True)
class Tick:
    """What a controller sees at a tick; everything is seen at the joint, angles in rad, torques in N.m.

    ``motor_angle_rad`` is the rotor's angle divided by the gear ratio, equal to ``joint_angle_rad`` at the tare. The
    motor's figures are one tick old; those of the DAQ are ``daq_age_s`` old, up to a drain.
    """

    index: int = 0
    time_s: float = 0.0
    motor_angle_rad: float = 0.0
    motor_velocity_rad_s: float = 0.0
    motor_torque_nm: float = 0.0
    temperature_degc: float = 0.0
    joint_angle_rad: float = 0.0
    joint_torque_nm: float = 0.0
    daq_age_s: float = 0.0


@dataclass(slots=True)
class Command:
    """What a controller fills in at each tick, seen at the joint. ``torque_nm`` is commanded, the rest is archived.

    ``wanted_nm`` is what the controller wants at the output, without friction compensation; ``feedforward_nm`` the
    compensation it adds; ``feedback_nm`` the part that comes of the error.
    """

    torque_nm: float = 0.0
    wanted_nm: float = 0.0
    feedback_nm: float = 0.0
    feedforward_nm: float = 0.0
    desired_angle_rad: float = 0.0
    desired_velocity_rad_s: float = 0.0


Controller = Callable[[Tick, Command], bool | None]


@dataclass(frozen=True)
class LoopView:
    """The ticks of one :meth:`JointRecording.run`, arrays (n,), and the DAQ's samples drained meanwhile.

    Everything is seen at the joint, as in :class:`Tick` and :class:`Command`. ``joint_angle_rad`` and
    ``joint_torque_nm`` are those samples at the ticks' times (NaN where none was drained).
    """

    time_s: Floats
    motor_angle_rad: Floats
    motor_velocity_rad_s: Floats
    motor_torque_nm: Floats
    temperature_degc: Floats
    command_nm: Floats
    wanted_nm: Floats
    feedback_nm: Floats
    feedforward_nm: Floats
    desired_angle_rad: Floats
    desired_velocity_rad_s: Floats
    joint_angle_rad: Floats
    joint_torque_nm: Floats
    samples: Samples


@dataclass
class Taken:
    """What a run has collected for its view."""

    rows: list[Floats] = field(default_factory=list)
    samples: list[Samples] = field(default_factory=list)


def joined(parts: Sequence[Samples]) -> Samples:
    """Return drained blocks as one."""
    if not parts:
        return NONE
    return Samples(
        np.concatenate([part.time_s for part in parts]),
        np.concatenate([part.joint_angle_rad for part in parts]),
        np.concatenate([part.joint_torque_nm for part in parts]),
    )
