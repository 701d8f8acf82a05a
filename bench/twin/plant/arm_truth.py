"""The truth about a simulated arm, as plain numbers: what no driver and no analysis may see.

SI throughout: rad, rad/s, N.m, kg, m, N, s, degC, A, V. An *axis* is a motor behind its gear ratio, a *joint* what it
moves: ``q = A q_axis + offset`` but for the springs between. Axis torques are at the axis, currents at the servo's
shaft, which turns ``gear_ratio`` times as much. The equations stand in ``docs/twin.md``.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.models.arm_description import ArmDescription, LinkInertia
from bench.twin.plant.truth import IDENTITY6, FaultTruth, Terminals, TissueTruth

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class AxisTruth:
    """One motor, its friction (LuGre, on the motor's side of the spring), and the spring to the joint of its number.

    ``stribeck_excess`` is what breakaway has above ``coulomb``. ``inertia`` is the rotor's at the axis (ratio squared
    included). ``torque_constant`` [N.m/A, shaft] is what the data sheet says, ``torque_scale`` true torque over that.
    ``ripple`` is an axis torque. ``direction`` is of the servo's positive angle. The stops are the joint's.
    """

    coulomb: float = 1.0
    viscous: float = 0.5
    stribeck_excess: float = 0.4
    stribeck_velocity: float = 0.06
    offset: float = 0.0
    bristle_stiffness: float = 8000.0
    bristle_damping: float = 10.0
    stiffness: float = 10_000.0
    damping: float = 5.0
    inertia: float = 0.1
    gear_ratio: float = 1.0
    direction: int = 1
    torque_constant: float = 4.0
    torque_scale: float = 1.0
    ripple: float = 0.0
    ripple_per_revolution: int = 6
    ripple_phase: float = 0.7
    current_noise: float = 0.0
    velocity_bandwidth_hz: float = 60.0
    max_current: float = 20.0
    brake_torque: float = 60.0
    stop_min: float = -6.2
    stop_max: float = 6.2
    start: float = 0.0
    zero: float = 0.0
    """Where the servo's encoder stands when its axis is at zero [rad of the shaft]."""

    @property
    def torque_per_current(self) -> float:
        """True axis torque per ampere, with the sign of the servo's positive direction."""
        return self.direction * self.gear_ratio * self.torque_constant * self.torque_scale

    @property
    def shaft_per_axis(self) -> float:
        """Shaft angle, in the servo's direction, per radian of the axis."""
        return self.direction * self.gear_ratio


@dataclass(frozen=True)
class ThermalTruth:
    """One first-order temperature a servo: ``kelvin_per_a2`` above ambient for every square ampere, in the end."""

    ambient: float = 25.0
    time_s: float = 900.0
    kelvin_per_a2: float = 0.6
    supply_v: float = 24.0
    supply_ohm: float = 0.05


@dataclass(frozen=True)
class ContactTruth:
    """A specimen under the tool: a point of its nominal surface and the outward normal, base frame [m].

    The tissue's own ``surface_mm`` is how far below that the surface really is.
    """

    point: tuple[float, float, float]
    normal: tuple[float, float, float]
    tissue: TissueTruth


@dataclass(frozen=True)
class WristTruth:
    """The six-axis sensor; gauges are the inverse of the calibration ``matrix``, with what it does not know.

    ``noise_N`` is per sample as seen along ``axis``; ``offset`` and ``capacity`` are wrenches [N, N.m];
    ``drift_N_s`` is along ``axis``.
    """

    matrix: tuple[tuple[float, ...], ...] = IDENTITY6
    axis: int = 2
    gain_error: float = 0.0
    cross_talk: float = 0.0
    offset: tuple[float, ...] = (0.0,) * 6
    capacity: tuple[float, ...] = (float("inf"),) * 6
    noise_N: float = 0.0
    drift_N_s: float = 0.0
    limit: float = 10.0


@dataclass(frozen=True)
class ServoTruth:
    """What a servo answers of itself."""

    id: int
    model: str
    firmware: int = 12
    serial_number: str | None = None


@dataclass(frozen=True)
class ArmWiring(Terminals):
    """Which terminal of the arm's DAQ device carries what."""

    counter: str | None = None
    gauges: tuple[str, ...] = ("ai0", "ai1", "ai2", "ai3", "ai4", "ai5")
    brake_line: str = "port0/line2"


@dataclass(frozen=True)
class ArmTruth:
    """All of it, as drawn from the seed.

    Parameters
    ----------
    arm : ArmDescription
        True links, nothing mounted.
    axes : tuple of AxisTruth
    coupling : (n, n)
        ``A``.
    offset : (n,)
        Joint positions with every axis at zero.
    sensor_frame : (4, 4)
        Of the wrist sensor in the flange's frame; ``tool``, ``payload`` and ``tip`` are given in it.
    tip : (3,)
        Foremost point of the tool's spherical end of ``tip_radius``; the tool points along the sensor's z.
    """

    arm: ArmDescription
    axes: tuple[AxisTruth, ...]
    coupling: Floats
    offset: Floats
    seed: int = 1
    tick_s: float = 1e-3
    sensor_frame: Floats = field(default_factory=lambda: np.eye(4))
    tool: LinkInertia = field(default_factory=lambda: LinkInertia(0.0))
    payload: LinkInertia = field(default_factory=lambda: LinkInertia(0.0))
    payload_name: str = ""
    tip: Floats = field(default_factory=lambda: np.zeros(3))
    tip_radius: float = 0.005
    contact: ContactTruth | None = None
    brake_time_s: float = 0.1
    thermal: ThermalTruth = field(default_factory=ThermalTruth)
    sensor: WristTruth = field(default_factory=WristTruth)
    servos: tuple[ServoTruth, ...] = ()
    wiring: ArmWiring = field(default_factory=ArmWiring)
    faults: tuple[FaultTruth, ...] = ()

    def mounted(self) -> LinkInertia:
        """Tool and payload as one body, in the sensor's frame."""
        return self.tool.plus(self.payload)
