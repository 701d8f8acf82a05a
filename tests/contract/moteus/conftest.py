"""A moteus drive inside the test's own process, in virtual time, on a rotor that spins freely."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.instruments.moteus import MoteusDrive
from bench.twin.devices.moteus import Moteus

_spec = importlib.util.spec_from_file_location("spinning_rotor", Path(__file__).with_name("spinning_rotor.py"))
assert _spec is not None
assert _spec.loader is not None
rotor = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(rotor)


@pytest.fixture
def drive_line(connect: Callable[..., Any]) -> Any:
    """The loop-back line of a drive with id 1; ``plant`` is its rotor."""
    return connect(rotor.SpinningRotor, lambda plant: Moteus(plant, serial_number=rotor.DRIVE_NUMBER))


@pytest.fixture
def open_drive(drive_line: Any) -> Callable[..., MoteusDrive]:
    """Open the driver on ``drive_line``; options as the driver's."""

    def opened(**options: Any) -> MoteusDrive:
        return MoteusDrive(drive_line.url, **({"clock": drive_line.clock, "max_torque_nm": 0.25} | options))

    return opened


@pytest.fixture
def drive(open_drive: Callable[..., MoteusDrive]) -> MoteusDrive:
    """The driver, with the motor stopped."""
    return open_drive()


@pytest.fixture
def pause(drive_line: Any) -> Callable[[float], None]:
    """Let seconds of world time pass."""

    def paused(seconds: float) -> None:
        drive_line.clock.sleep_until_ns(drive_line.clock.now_ns() + round(seconds * 1e9))

    return paused


@pytest.fixture
def run(drive: MoteusDrive, pause: Callable[[float], None]) -> Callable[[float, float], Any]:
    """Command a torque every 2 ms for some seconds, from standstill too; return the last state."""

    def ran(torque_nm: float, seconds: float) -> Any:
        for _ in range(round(seconds / 2e-3)):
            state = drive.command_torque(torque_nm)
            pause(2e-3)
        return state

    return ran
