"""What became of the rig: the state of the simulated lab in plain words and numbers, live or after the runner is gone.

After the loss of its runner the twin runs free, so that the devices' own watchdogs and limits act as they would; then
it writes down whether and since when the rig is safe, which each rig's view defines: the actuator stands still, and a
joint's motor makes no torque.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.twin.lab import Lab

WATCH_S = 2.0
"""World time the twin runs on, at least, after the runner is gone: longer than any device's watchdog."""
LONGEST_S = 120.0
"""World time after which a rig that still moves is reported as not safe."""
WATCHDOG_WALL_S, WATCHDOG_POLL_S = 60.0, 0.005
"""Wall time a watchdog that was connected may take to make the rig safe, and how often it is looked at."""


def state(lab: Lab) -> dict[str, Any]:
    """Describe the lab now (lock held): what its rig shows (:mod:`bench.twin.view`) and what all have; times in s."""
    world = lab.world
    return {
        "time_s": world.now_ns * 1e-9,
        **lab.view.state(),
        "enable": lab.bus.enabled,
        "estop_healthy": lab.bus.estop_healthy,
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
    """Let the lab run on until the rig is safe, and describe it; in real time ``give_up()`` ends the waiting.

    A watchdog that is connected acts first: time is its own until it leaves.

    Returns
    -------
    dict
        As :func:`state`, and ``why``, ``since_s`` (when the runner was gone), ``safe``, ``safe_at_s`` (since when;
        None when it is not), and what the rig's view adds, such as the peak force or torque since.
    """
    world = lab.world
    since_ns = world.lost_ns if world.lost is not None else world.now_ns
    least_ns, most_ns = since_ns + round(WATCH_S * 1e9), since_ns + round(LONGEST_S * 1e9)

    def done() -> bool:
        if world.real_time and give_up():
            return True
        if world.now_ns < least_ns:
            return False
        return lab.view.safe_since(world.now_ns - 500_000_000) is not None

    deadline = time.monotonic() + WATCHDOG_WALL_S
    while world.guarded and not give_up() and time.monotonic() < deadline:
        time.sleep(WATCHDOG_POLL_S)
    world.run_free(most_ns, done)
    with world.lock:
        safe = lab.view.safe_since(since_ns)
        described = state(lab)
        described.update(
            why=why,
            since_s=since_ns * 1e-9,
            safe=safe is not None and world.fault is None,
            safe_at_s=None if safe is None else safe * 1e-9,
            **lab.view.aftermath(since_ns),
        )
    return described


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
