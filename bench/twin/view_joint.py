"""The joint, seen by control calls and report. Safe means: the motor makes no torque and the link stands still."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.twin.devices.moteus import Moteus
from bench.twin.interfaces import World
from bench.twin.plant.bus import RigBus
from bench.twin.plant.joint import Joint
from bench.twin.view import still_since

Floats = NDArray[np.float64]

STILL_RAD = 1e-3
"""The link stands when it moves by less than this until the end of what is looked at."""
NO_TORQUE_NM = 0.01
"""A motor torque, at the joint, that moves nothing."""


class JointView:
    """Implements :class:`bench.twin.view.RigView`; angles in rad, torques in N.m."""

    def __init__(self, world: World, plant: Joint, bus: RigBus, drive: Moteus) -> None:
        self._world, self._plant, self._bus, self._drive = world, plant, bus, drive

    def state(self) -> dict[str, Any]:
        plant = self._plant
        torque = plant.joint_torque()
        return {
            "joint_angle_rad": float(plant.joint_angle()[-1]),
            "joint_speed_rad_s": plant.state.qd,
            "moving": still_since(plant.joint_angle(), 0, self._world.tick_ns, STILL_RAD) is None,
            "joint_torque_Nm": float(torque[-1]),
            "peak_joint_torque_Nm": float(np.abs(torque).max()),
            "motor_torque_Nm": plant.state.torque / plant.truth.gear.ratio,
            "temperature_degC": plant.temperature_degc(),
            "powered": plant.powered(),
            "braked": plant.braked,
            "drive_mode": self._drive.mode,
            "drive_fault": self._drive.fault,
        }

    def truth(self, request: dict[str, Any]) -> dict[str, Any]:
        truth, sensor = self._plant.truth, self._bus.sensor
        friction, gear, drive, load = truth.friction, truth.gear, truth.drive, truth.load
        temperature = self._plant.temperature_degc()
        warm = 1.0 - friction.temperature_coefficient * (temperature - friction.reference_temperature)
        return {
            "seed": truth.seed,
            "tick_s": truth.tick_s,
            "coulomb": friction.coulomb,
            "viscous": friction.viscous,
            "stribeck_excess": friction.stribeck_excess,
            "stribeck_velocity": friction.stribeck_velocity,
            "breakaway": friction.coulomb + friction.stribeck_excess,
            "friction_offset": friction.offset,
            "load_coefficient": friction.load_coefficient,
            "temperature_coefficient": friction.temperature_coefficient,
            "reference_temperature": friction.reference_temperature,
            "bristle_stiffness": friction.bristle_stiffness,
            "bristle_damping": friction.bristle_damping,
            "torque_scale": drive.torque_scale,
            "motor_inertia": drive.inertia,
            "link_inertia": load.inertia,
            "gravity_moment": load.gravity_moment,
            "gravity_phase": load.gravity_phase,
            "gear_ratio": gear.ratio,
            "stiffness_zero": gear.stiffness_zero,
            "stiffness_load": gear.stiffness_load,
            "stiffening_angle": gear.stiffening_angle,
            "hysteresis_width": 2.0 * gear.hysteresis_torque,
            "backlash": gear.backlash,
            "temperature_now": temperature,
            "coulomb_now": warm * friction.coulomb,
            "viscous_now": warm * friction.viscous,
            "stribeck_excess_now": warm * friction.stribeck_excess,
            "substeps": self._plant.substeps,
            "gear": asdict(gear),
            "drive": asdict(drive),
            "load": asdict(load),
            "thermal": asdict(truth.thermal),
            "encoder": asdict(truth.encoder),
            "transducer": {
                "volts_per_Nm": float(sensor.gains[0]),
                "gain_error": sensor.truth.gain_error,
                "offset": sensor.truth.offset_N,
                "noise": sensor.truth.noise_N,
                "drift_per_s": sensor.truth.drift_N_s,
                "capacity": sensor.truth.capacity_N,
            },
        }

    def history(self) -> dict[str, Floats]:
        plant = self._plant
        return {
            "rotor_angle_rad": plant.motor_angle() * plant.truth.gear.ratio,
            "joint_angle_rad": plant.joint_angle(),
            "joint_torque_Nm": plant.joint_torque(),
            "motor_torque_Nm": plant.motor_torque() / plant.truth.gear.ratio,
            "temperature_degC": plant.temperature(),
        }

    def _calm(self, since_ns: int) -> tuple[int | None, int | None]:
        """Since when the motor has made no torque, and since when the link has stood."""
        plant, tick_ns = self._plant, self._world.tick_ns
        off = still_since(plant.motor_torque(), since_ns, tick_ns, NO_TORQUE_NM, final=0.0)
        return off, still_since(plant.joint_angle(), since_ns, tick_ns, STILL_RAD)

    def safe_since(self, since_ns: int) -> int | None:
        off, stands = self._calm(since_ns)
        return None if off is None or stands is None else max(off, stands)

    def aftermath(self, since_ns: int) -> dict[str, Any]:
        off, stands = self._calm(since_ns)
        first = min(since_ns // self._world.tick_ns, self._plant.ticks - 1)
        return {
            "torque_off_at_s": None if off is None else off * 1e-9,
            "stands_at_s": None if stands is None else stands * 1e-9,
            "peak_joint_torque_after_Nm": float(np.abs(self._plant.joint_torque()[first:]).max()),
        }
