"""The truth about the simulated rig, as plain numbers: what no driver and no analysis may see.

Lengths mm, forces N, times s, voltages V; wrenches are [fx, fy, fz, tx, ty, tz] in N and N.m.
"""

from __future__ import annotations

from dataclasses import dataclass, field

IDENTITY6 = tuple(tuple(1.0 if i == j else 0.0 for j in range(6)) for i in range(6))


@dataclass(frozen=True)
class StageTruth:
    """The linear stage and the frame that carries it.

    The carriage follows the controller's set-point through a first-order lag and a periodic screw error; a carriage
    that loses power coasts to a stand with the time constant ``brake_s`` (self-locking screw: a load cannot drive it).
    """

    start_mm: float = 5.0
    lag_s: float = 0.004
    brake_s: float = 0.003
    travel_min_mm: float = -2.0
    travel_max_mm: float = 102.0
    screw_amplitude_mm: float = 0.002
    screw_period_mm: float = 2.0
    screw_phase_rad: float = 0.7
    stall_force_N: float = 300.0
    encoder_noise_mm: float = 0.0
    encoder_scale_error: float = 0.0
    frame_stiffness_N_mm: float = 250.0


@dataclass(frozen=True)
class TissueTruth:
    """A specimen: F_e = force_ref (d / depth_ref)^exponent, relaxed by a Prony series, never pulling.

    ``prony`` holds (g, tau) pairs with sum(g) < 1: the force right after a step is F_e, after a long hold
    (1 - sum(g)) F_e. Scatter is the standard deviation of a normal draw, relative for force and exponent, absolute for
    the surface: once per specimen from the seed, once per press for the replicate.
    """

    name: str = "specimen"
    surface_mm: float = 20.0
    force_ref_N: float = 5.0
    depth_ref_mm: float = 5.0
    exponent: float = 1.5
    prony: tuple[tuple[float, float], ...] = ((0.25, 0.3), (0.25, 4.0))
    specimen_force_scatter: float = 0.0
    specimen_exponent_scatter: float = 0.0
    specimen_surface_scatter_mm: float = 0.0
    replicate_force_scatter: float = 0.0
    replicate_surface_scatter_mm: float = 0.0
    hunt_crossley_s_mm: float = 0.0
    rupture_depth_mm: float | None = None
    rupture_drop: float = 0.0


@dataclass(frozen=True)
class SensorTruth:
    """The force sensor. ``kind`` "gauges" (six voltages) or "bridge" (one mV/V ratio).

    For gauges, ``matrix`` C turns volts into the wrench as the calibration says. The sensor's own inverse is
    (1 + gain_error) C⁻¹ with a relative error of standard deviation ``cross_talk`` on every element, drawn from the
    seed. ``direction`` is the wrench one newton of contact force makes, ``axis`` the component of the pressing axis.
    For the bridge, ``sensitivity`` is mV/V per N; a torque transducer with its amplifier is one with V per N.m, and
    everything below in N.m for N.
    ``noise_N`` (per sample, as seen along the pressing axis), ``drift_N_s`` and ``offset_N`` are force equivalents;
    ``limit`` is the electrical end of range in V or mV/V.
    """

    kind: str = "gauges"
    matrix: tuple[tuple[float, ...], ...] = IDENTITY6
    direction: tuple[float, ...] = (0.0, 0.0, 1.0, 0.0, 0.0, 0.0)
    axis: int = 2
    sensitivity: float = 0.02
    cross_talk: float = 0.0
    gain_error: float = 0.0
    offset_N: float = 0.0
    noise_N: float = 0.0
    drift_N_s: float = 0.0
    limit: float = 10.0
    capacity_N: float | None = None


@dataclass(frozen=True)
class Terminals:
    """The DAQ device and what every rig wires to it. Terminal names without the device, e.g. ``ai0``."""

    device: str = "Dev1"
    counter: str | None = "ctr0"
    estop_line: str = "port0/line0"
    estop_healthy: bool = True
    enable_line: str = "port0/line1"
    analog_inputs: int = 16
    counters: int = 4
    digital_lines: int = 8
    analog_outputs: int = 2
    idle_noise_v: float = 0.0005


@dataclass(frozen=True)
class Wiring(Terminals):
    """Which terminal of the indenter's DAQ device carries what."""

    gauges: tuple[str, ...] = ("ai0", "ai1", "ai2", "ai3", "ai4", "ai5")
    distance_per_pulse_mm: float = 0.004
    encoder_direction: int = 1


@dataclass(frozen=True)
class FaultTruth:
    """A fault that comes by itself: its name, its time and its parameters."""

    name: str
    start_s: float = 0.0
    parameters: dict[str, float | str] = field(default_factory=dict)


@dataclass(frozen=True)
class RigTruth:
    """All of it."""

    seed: int = 1
    tick_s: float = 1e-3
    stage: StageTruth = field(default_factory=StageTruth)
    tissue: TissueTruth = field(default_factory=TissueTruth)
    others: tuple[TissueTruth, ...] = ()
    sensor: SensorTruth = field(default_factory=SensorTruth)
    wiring: Wiring = field(default_factory=Wiring)
    faults: tuple[FaultTruth, ...] = ()
