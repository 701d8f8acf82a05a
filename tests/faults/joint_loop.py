"""A runner for the joint's twin: a torque loop at 500 Hz that never ends by itself. LINK GRPC SERIAL_NUMBER"""

from __future__ import annotations

import math
import sys

import nidaqmx

from bench.clock import sleep
from bench.instruments.moteus import MoteusDrive
from bench.twin.link import Link, grpc_channel

TICK_NS = 2_000_000


def main(link_address: str, grpc_address: str, serial_number: str) -> None:
    link = Link.connect(link_address)
    channel = grpc_channel(grpc_address, link)
    enable = nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(channel, ""))
    enable.do_channels.add_do_chan("Dev1/port0/line1")
    enable.write(True)
    sleep(link.clock, 0.1)
    drive = MoteusDrive(
        link.url("drive"),
        clock=link.clock,
        max_torque_nm=0.25,
        expected_serial_number=serial_number,
    )
    drive.arm_watchdog(0.1)
    due, n = link.clock.now_ns(), 0
    while True:
        drive.command_torque(0.04 * math.sin(0.02 * n))
        n, due = n + 1, due + TICK_NS
        link.clock.sleep_until_ns(due)


if __name__ == "__main__":
    main(*sys.argv[1:])
