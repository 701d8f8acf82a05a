"""Six Dynamixel servos inside the test's own process, in virtual time, each on a shaft that turns freely."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from bench.instruments.dynamixel import DynamixelBus, Servo
from bench.twin.devices.dynamixel import DynamixelArm, ServoSpec
from bench.twin.world import SimWorld

IDS = (11, 12, 13, 14, 15, 16)
NAMES = ("PH54-200-S500",) * 2 + ("PH54-100-S500",) * 2 + ("PH42-020-S300",) * 2


class FreeShafts:
    """Shafts on nothing but their bearings: what a current does is known exactly, at any time.

    The torque constant over the inertia is ``per_a`` [rad/s2/A], damping over inertia ``decay`` [1/s]; currents follow
    at once.
    """

    per_a, decay = 40.0, 8.0

    def __init__(self, world: SimWorld, axes: int = 6) -> None:
        self._world = world
        self.axes = axes
        self.angles = [0.05 * (k + 1) for k in range(axes)]
        self.speeds = [0.0] * axes
        self.commanded: list[float | None] = [None] * axes
        self.history: list[tuple[int, tuple[float | None, ...]]] = []
        self._time_ns = 0
        self._power: list[Callable[[bool], None]] = []
        self._faults: list[Callable[[int, int], None]] = []
        self.on = True
        self.degc, self.supply = [31.0 + k for k in range(axes)], 24.0

    def _advance(self) -> None:
        dt = (self._world.now_ns - self._time_ns) * 1e-9
        self._time_ns = self._world.now_ns
        fade = math.exp(-self.decay * dt)
        for k, current in enumerate(self.commanded):
            final = self.per_a * (current or 0.0) * self.on / self.decay
            excess = self.speeds[k] - final
            self.speeds[k] = final + excess * fade
            self.angles[k] += final * dt + excess * (1.0 - fade) / self.decay

    def states(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        self._advance()
        return self.angles, self.speeds, [(current or 0.0) * self.on for current in self.commanded]

    def command_currents(self, currents_a: Sequence[float | None]) -> None:
        assert all(current is None or math.isfinite(current) for current in currents_a)
        self._advance()
        self.commanded = list(currents_a)
        self.history.append((self._world.now_ns, tuple(currents_a)))

    def temperature_degc(self, axis: int) -> float:
        return self.degc[axis]

    def supply_v(self) -> float:
        return self.supply

    def powered(self) -> bool:
        return self.on

    def on_power(self, action: Callable[[bool], None]) -> None:
        self._power.append(action)

    def on_fault(self, action: Callable[[int, int], None]) -> None:
        self._faults.append(action)

    def supply_on(self, on: bool) -> None:
        self._advance()
        self.on = on
        for action in self._power:
            action(on)

    def break_down(self, axis: int, bits: int) -> None:
        for action in self._faults:
            action(axis, bits)


@pytest.fixture
def make_bus(connect: Callable[..., Any]) -> Callable[..., Any]:
    """``make_bus(ids, models, **options of the device)``: a loop-back line to servos; ``plant`` are their shafts."""

    def made(ids: Sequence[int] = IDS, models: Sequence[str] = NAMES, firmware: int = 0, **options: Any) -> Any:
        specs = [ServoSpec(k, model, firmware) for k, model in zip(ids, models, strict=True)]
        return connect(
            lambda world: FreeShafts(world, len(ids)),
            lambda plant: DynamixelArm(plant, specs, **({"return_delay_us": 0.0} | options)),
        )

    return made


@pytest.fixture
def bus(make_bus: Callable[..., Any]) -> Any:
    """The line of the six servos of the full arm."""
    return make_bus()


@pytest.fixture
def profile() -> list[Servo]:
    """The six as the rig profile has them."""
    return [Servo(k, model, 3.0) for k, model in zip(IDS, NAMES, strict=True)]


@pytest.fixture
def open_arm(profile: list[Servo]) -> Callable[..., DynamixelBus]:
    """``open_arm(bus, **options of the driver)``."""

    def opened(bus: Any, **options: Any) -> DynamixelBus:
        return DynamixelBus(bus.url, clock=bus.clock, **({"servos": profile} | options))

    return opened


@pytest.fixture(params=["fast", "plain"])
def arm(bus: Any, open_arm: Callable[..., DynamixelBus], request: pytest.FixtureRequest) -> DynamixelBus:
    """The driver, with the motors off; by fast and by plain sync read."""
    return open_arm(bus, fast_sync_read=request.param == "fast")


@pytest.fixture
def pause(bus: Any) -> Callable[[float], None]:
    """Let seconds of world time pass."""

    def paused(seconds: float) -> None:
        bus.clock.sleep_until_ns(bus.clock.now_ns() + round(seconds * 1e9))

    return paused


@pytest.fixture
def run(arm: DynamixelBus, pause: Callable[[float], None]) -> Callable[..., Any]:
    """Read and command the same currents every 4 ms for some seconds; return the last state."""

    def ran(currents: Sequence[float], seconds: float) -> Any:
        for _ in range(round(seconds / 4e-3)):
            state = arm.read()
            arm.write_currents(currents)
            pause(4e-3)
        return state

    return ran
