"""What became of the rig: the state of the simulated lab in plain words and numbers, live or after the runner is gone.

After the loss of its runner the twin runs free, so that the devices' own watchdogs and limits act as they would; then
it writes down whether and since when the rig is safe. Safe means: the stage stands still.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bench.twin.lab import Lab

STILL_MM = 1e-6
"""The stage stands when it moves by less than this until the end of what is looked at."""
WATCH_S = 2.0
"""World time the twin runs on, at least, after the runner is gone: longer than any device's watchdog."""
LONGEST_S = 120.0
"""World time after which a stage that still moves is reported as not safe."""


def state(lab: Lab) -> dict[str, Any]:
    """Describe the lab now (lock held): times in s, positions in mm from the reference switch, forces in N."""
    world, plant, wiring = lab.world, lab.plant, lab.truth.wiring
    travel, force = plant.travel(), plant.force()
    return {
        "time_s": world.now_ns * 1e-9,
        "position_mm": float(travel[-1]),
        "speed_mm_s": plant.velocity_mm_s(),
        "moving": plant.is_moving(),
        "force_N": float(force[-1]),
        "peak_force_N": float(force.max()),
        "stage_fault": plant.fault(),
        "stalls": plant.stalls,
        "enable": lab.bus.digital(wiring.enable_line),
        "estop_healthy": lab.bus.digital(wiring.estop_line) == wiring.estop_healthy,
        "faults": [{"at_s": at_s, "name": name} for at_s, name in lab.faults.injected],
        "lost": world.lost,
        "twin_fault": world.fault,
        "participants": [m.name for m in world.members.values() if not m.passive],
        "largest_wall_gap_s": world.largest_gap_s,
        "largest_wall_gap_at_s": world.largest_gap_at_ns * 1e-9,
        "unsupported_calls": dict(lab.daq.unsupported),
        "dropped_bytes": {name: wire.dropped for name, wire in lab.wires.items()},
    }


def aftermath(lab: Lab, why: str, give_up: Callable[[], bool]) -> dict[str, Any]:
    """Let the lab run on until the stage stands, and describe it; in real time ``give_up()`` ends the waiting.

    Returns
    -------
    dict
        As :func:`state`, and ``why``, ``since_s`` (when the runner was gone), ``safe``, ``safe_at_s`` (since when the
        stage stands; None when it does not), ``peak_force_after_N``.
    """
    world = lab.world
    since_ns = world.lost_ns if world.lost is not None else world.now_ns
    least_ns, most_ns = since_ns + round(WATCH_S * 1e9), since_ns + round(LONGEST_S * 1e9)

    def done() -> bool:
        if world.real_time and give_up():
            return True
        if world.now_ns < least_ns:
            return False
        return _stands_since(lab, world.now_ns - 500_000_000) is not None

    world.run_free(most_ns, done)
    with world.lock:
        stands = _stands_since(lab, since_ns)
        described = state(lab)
        first = min(since_ns // world.tick_ns, lab.plant.ticks - 1)
        described.update(
            why=why,
            since_s=since_ns * 1e-9,
            safe=stands is not None and world.fault is None,
            safe_at_s=None if stands is None else stands * 1e-9,
            peak_force_after_N=float(lab.plant.force()[first:].max()),
        )
    return described


def _stands_since(lab: Lab, since_ns: int) -> int | None:
    """Since when [ns], not before ``since_ns``, the stage has stood; None when it moves."""
    plant, tick_ns = lab.plant, lab.world.tick_ns
    travel = plant.travel()
    first = min(max(0, since_ns // tick_ns), travel.size - 1)
    away = np.nonzero(np.abs(travel[first:] - travel[-1]) > STILL_MM)[0]
    stands = first if away.size == 0 else first + int(away[-1]) + 1
    if plant.is_moving() or (away.size and (travel.size - stands) * tick_ns < 100_000_000):
        return None
    return max(since_ns, stands * tick_ns)


def write_report(path: Path, content: dict[str, Any]) -> None:
    """Write ``content`` as JSON so that a reader finds the whole of it or nothing, whatever happens meanwhile."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
