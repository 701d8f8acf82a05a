"""A moteus drive inside the test's own process, in virtual time, on a rotor that spins freely."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from bench.instruments.moteus import MoteusDrive
from bench.twin.devices.moteus import Moteus
from bench.twin.world import SimWorld

DRIVE_NUMBER = "6A0F2D11-3B7C4E58-90A1B2C3"


class SpinningRotor:
    """A rotor on nothing but its bearing, driven as told: semi-implicit steps of 50 µs up to where it is read."""

    inertia = 1e-4  # kg.m2
    damping = 2e-3  # N.m/(rad/s)
    counts = 16384

    def __init__(self, world: SimWorld) -> None:
        self._world = world
        self._time_ns = 0
        self._angle = self._speed = self.torque = 0.0  # rad, rad/s, N.m
        self._told: tuple[float, ...] | None = None
        self._since_ns = 0
        self._power: list[Callable[[bool], None]] = []
        self._faults: list[Callable[[int], None]] = []
        self.on = True
        self.board, self.winding, self.supply = 31.4, float("nan"), 24.0

    def _advance(self) -> None:
        step_ns, turn = 50_000, 2 * math.pi
        while self._time_ns + step_ns <= self._world.now_ns:
            self._time_ns += step_ns
            self.torque = 0.0
            if self._told is not None and self.on:
                feedforward, kp, kd, position, velocity, most = self._told
                position += velocity * (self._time_ns - self._since_ns) * 1e-9
                wanted = feedforward + kp * (position - self._angle / turn) + kd * (velocity - self._speed / turn)
                self.torque = max(-most, min(most, wanted))
            self._speed += (self.torque - self.damping * self._speed) / self.inertia * step_ns * 1e-9
            self._angle += self._speed * step_ns * 1e-9

    def position_rev(self) -> float:
        self._advance()
        return round(self._angle / (2 * math.pi) * self.counts) / self.counts

    def velocity_rev_s(self) -> float:
        self._advance()
        return self._speed / (2 * math.pi)

    def torque_nm(self) -> float:
        self._advance()
        return self.torque

    def temperature_degc(self) -> float:
        return self.board

    def motor_temperature_degc(self) -> float:
        return self.winding

    def voltage_v(self) -> float:
        return self.supply

    def powered(self) -> bool:
        return self.on

    def command(
        self,
        feedforward_nm: float,
        kp_nm_per_rev: float,
        kd_nm_per_rev_s: float,
        position_rev: float,
        velocity_rev_s: float,
        maximum_torque_nm: float,
    ) -> None:
        told = (feedforward_nm, kp_nm_per_rev, kd_nm_per_rev_s, position_rev, velocity_rev_s, maximum_torque_nm)
        assert all(map(math.isfinite, told))
        self._advance()
        self._told, self._since_ns = told, self._world.now_ns

    def release(self) -> None:
        self._advance()
        self._told = None

    def on_power(self, action: Callable[[bool], None]) -> None:
        self._power.append(action)

    def on_fault(self, action: Callable[[int], None]) -> None:
        self._faults.append(action)

    def supply_on(self, on: bool) -> None:
        self._advance()
        self.on = on
        for action in self._power:
            action(on)

    def break_down(self, code: int) -> None:
        for action in self._faults:
            action(code)


@pytest.fixture
def drive_line(connect: Callable[..., Any]) -> Any:
    """The loop-back line of a drive with id 1; ``plant`` is its rotor."""
    return connect(SpinningRotor, lambda plant: Moteus(plant, serial_number=DRIVE_NUMBER))


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
