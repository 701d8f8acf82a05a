"""A rotor on nothing but its bearing, and (run as a program) a drive on it, served on a pty in real time.

The program prints the terminal's path and ends when its standard input does.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable

from bench.twin.devices.moteus import Moteus
from bench.twin.serial_pty import PtyBridge
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

DRIVE_NUMBER = "6A0F2D11-3B7C4E58-90A1B2C3"


class SpinningRotor:
    """Driven as told, in semi-implicit steps of 50 µs up to where it is read."""

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


def main() -> None:
    world = SimWorld(real_time=True)
    terminal = PtyBridge(world, Wire(world, Moteus(SpinningRotor(world), serial_number=DRIVE_NUMBER)))
    world.start()
    print(terminal.path, flush=True)
    sys.stdin.read()
    terminal.close()
    world.close()


if __name__ == "__main__":
    main()
