"""Six simulated servos on a pseudo-terminal, paced to the wall clock, in a process of their own: prints its path.

The vendor's client polls so hard that it would starve a thread of its own process. Ends when its standard input does.
Its argument is the bus's baud rate.
"""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

from bench.twin.devices.dynamixel import DynamixelArm, ServoSpec
from bench.twin.serial_pty import PtyBridge
from bench.twin.wire import Wire
from bench.twin.world import SimWorld


def serve() -> None:
    servos = runpy.run_path(str(Path(__file__).with_name("conftest.py")))
    world = SimWorld(real_time=True)
    specs = [ServoSpec(k, name) for k, name in zip(servos["IDS"], servos["NAMES"], strict=True)]
    device = DynamixelArm(servos["FreeShafts"](world), specs, baud=int(sys.argv[1]), return_delay_us=0.0)
    bridge = PtyBridge(world, Wire(world, device))
    world.start()
    print(bridge.path, flush=True)
    sys.stdin.read()
    bridge.close()
    world.close()


if __name__ == "__main__":
    serve()
