"""The arm, seen by control calls and report. Safe means: no motor makes a torque and every joint stands still."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.models.arm_description import LinkInertia
from bench.twin.interfaces import World
from bench.twin.plant.arm import Arm
from bench.twin.plant.bus_arm import ArmBus
from bench.twin.plant.tissue import force_along_ramp
from bench.twin.view import still_since

Floats = NDArray[np.float64]

STILL_RAD = 1e-3
"""A joint stands when it moves by less than this until the end of what is looked at."""
NO_TORQUE_NM = 0.01
"""A motor torque, at its axis, that moves nothing."""
PER_AXIS = (
    "coulomb", "viscous", "stribeck_excess", "stribeck_velocity", "offset", "bristle_stiffness", "bristle_damping",
    "stiffness", "damping", "inertia", "gear_ratio", "direction", "torque_constant", "torque_scale", "ripple",
    "stop_min", "stop_max", "start",
)  # fmt: skip


class ArmView:
    """Implements :class:`bench.twin.view.RigView`; joints and axes in rad and N.m, wrenches in N and N.m."""

    def __init__(self, world: World, plant: Arm, bus: ArmBus) -> None:
        self._world, self._plant, self._bus = world, plant, bus

    def state(self) -> dict[str, Any]:
        plant = self._plant
        plant.catch_up()
        s, history = plant.state, plant.history
        force = history.column("contact_force")
        wrench = history.column("wrench")
        off, stands = self._calm(max(0, self._world.now_ns - 500_000_000))
        return {
            "joint_position_rad": list(s.q),
            "joint_speed_rad_s": list(s.v),
            "moving": stands is None,
            "currents_A": list(plant.currents),
            "makes_torque": off is None,
            "powered": plant.powered(),
            "braked": plant.braked,
            "brake_line": self._bus.released,
            "tip_m": self.tip(),
            "tip_force_N": float(force[-1]),
            "peak_tip_force_N": float(force.max()),
            "wrist_wrench": wrench[-1].tolist(),
            "peak_wrist_force_N": float(np.sqrt((wrench[:, :3] ** 2).sum(axis=1)).max()),
            "temperatures_degC": [plant.temperature_degc(axis) for axis in range(plant.axes)],
            "mounted": plant.truth.payload_name,
        }

    def tip(self) -> list[float]:
        """Foremost point of the tool [m], base frame."""
        engine, s = self._plant.stepper.engine, self._plant.state
        engine.move(s.q, s.v)
        placed = engine.placement()
        tip: list[float] = (placed[:3, :3] @ self._plant.truth.tip + placed[:3, 3]).tolist()
        return tip

    def truth(self, request: dict[str, Any]) -> dict[str, Any]:
        truth, wrist, state = self._plant.truth, self._bus.wrist, self._plant.state
        sensor = truth.sensor_frame
        mounted = truth.mounted()
        loaded = truth.arm.with_load(mounted.moved(sensor)) if mounted.mass > 0.0 else truth.arm
        answer: dict[str, Any] = {
            "seed": truth.seed,
            "tick_s": truth.tick_s,
            "substeps": self._plant.substeps,
            **{key: [getattr(axis, key) for axis in truth.axes] for key in PER_AXIS},
            "breakaway": [axis.coulomb + axis.stribeck_excess for axis in truth.axes],
            "coupling": np.asarray(truth.coupling).tolist(),
            "joint_offset": np.asarray(truth.offset).tolist(),
            "link_parameters": [joint.link.parameters().tolist() for joint in truth.arm.joints],
            "loaded_parameters": [joint.link.parameters().tolist() for joint in loaded.joints],
            "tool": _body(truth.tool),
            "payload": _body(truth.payload),
            "mounted": truth.payload_name,
            "tip": np.asarray(truth.tip).tolist(),
            "tip_radius": truth.tip_radius,
            "thermal": asdict(truth.thermal),
            "servos": [asdict(servo) for servo in truth.servos],
            "wrist_sensor": {**asdict(truth.sensor), "volts_per_unit": wrist.response.tolist()},
        }
        if state.surface is not None and truth.contact is not None:
            tissue = state.surface.tissue
            answer["specimen"] = {
                **asdict(tissue.truth),
                "force_ref_N": tissue.force_ref,
                "exponent": tissue.exponent,
                "surface_mm": tissue.base_surface,
                "point_m": list(truth.contact.point),
                "normal": list(truth.contact.normal),
                "replicate_factors": list(tissue.factors),
                "replicate_surfaces_mm": list(tissue.surfaces),
            }
        depths = request.get("depths_mm") or []
        if depths:
            if state.surface is None:
                raise TwinError("nothing lies under this arm's tool", where="twin control")
            speed = float(request["speed_mm_s"])
            if speed <= 0.0 or min(depths) < 0.0 or max(depths) <= 0.0:
                raise TwinError("truth wants depths >= 0 mm (one above) and a speed > 0 mm/s", where="twin control")
            force = force_along_ramp(state.surface.tissue, np.asarray(depths, dtype=float), speed)
            answer.update(depths_mm=depths, speed_mm_s=speed, force_N=force.tolist())
        return answer

    def history(self) -> dict[str, Floats]:
        plant = self._plant
        plant.catch_up()
        history, named = plant.history, dict[str, Floats]()
        for name, column, unit in (
            ("joint_{}_position", "joint_position", "rad"),
            ("axis_{}_position", "axis_position", "rad"),
            ("motor_{}_torque", "motor_torque", "Nm"),
        ):
            values = history.column(column)
            named.update({f"{name.format(i + 1)}_{unit}": values[:, i] for i in range(plant.axes)})
        wrench = history.column("wrench")
        named.update({f"force_{axis}_N": wrench[:, i] for i, axis in enumerate("xyz")})
        named.update({f"torque_{axis}_Nm": wrench[:, 3 + i] for i, axis in enumerate("xyz")})
        named["contact_force_N"] = history.column("contact_force")
        return named

    def _calm(self, since_ns: int) -> tuple[int | None, int | None]:
        """Since when no motor has made a torque, and since when every joint has stood."""
        plant, tick_ns = self._plant, self._world.tick_ns
        plant.catch_up()
        torque = np.abs(plant.history.column("motor_torque")).max(axis=1)
        if any(plant.currents):
            torque = np.append(torque[:-1], np.inf)
        off = still_since(torque, since_ns, tick_ns, NO_TORQUE_NM, final=0.0)
        places = plant.history.column("joint_position")
        stands = [still_since(places[:, i], since_ns, tick_ns, STILL_RAD) for i in range(plant.axes)]
        known = [when for when in stands if when is not None]
        return off, max(known) if len(known) == plant.axes else None

    def safe_since(self, since_ns: int) -> int | None:
        off, stands = self._calm(since_ns)
        return None if off is None or stands is None else max(off, stands)

    def aftermath(self, since_ns: int) -> dict[str, Any]:
        off, stands = self._calm(since_ns)
        first = min(since_ns // self._world.tick_ns, self._plant.ticks - 1)
        history = self._plant.history
        places = history.column("joint_position")[first:]
        return {
            "torque_off_at_s": None if off is None else off * 1e-9,
            "stands_at_s": None if stands is None else stands * 1e-9,
            "peak_tip_force_after_N": float(history.column("contact_force")[first:].max()),
            "largest_way_after_rad": float(np.ptp(places, axis=0).max()),
        }


def _body(link: LinkInertia) -> dict[str, Any]:
    return {"mass": link.mass, "centre": link.centre.tolist(), "inertia": link.inertia.tolist()}
