"""The simulated NI-DAQmx device without its transport, on terminals that carry what the test says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_channels import AnalogIn, Encoder, readings
from bench.twin.devices.nidaqmx_create import Settings
from bench.twin.devices.nidaqmx_task import Task
from bench.twin.devices.nidaqmx_values import Mode
from bench.twin.world import SimWorld

VOLTS, METRES, X4 = 10348, 10219, 10092
CLOCK = "/Dev1/ai/SampleClock"


class Bus:
    """Terminals that carry what the test says, as functions of the tick."""

    def __init__(self) -> None:
        self.signal: dict[str, Any] = {}
        self.levels: dict[str, float | bool] = {"port0/line0": True, "port0/line1": False}

    def _at(self, name: str, first: int, count: int, stride: int) -> np.ndarray:
        ticks = first + stride * np.arange(count)
        return np.broadcast_to(np.asarray(self.signal.get(name, lambda t: 0.0 * t)(ticks), float), count)

    analog = encoder = _at

    def digital(self, line: str) -> bool:
        return bool(self.levels[line])

    def driven(self, line: str) -> bool:
        return bool(self.levels[line])

    def let_go(self, line: str) -> None:
        if self.channels()[line] != "digital_in":
            self.levels[line] = False

    def set_digital(self, line: str, level: bool) -> None:
        self.levels[line] = level

    def set_analog(self, channel: str, volts: float) -> None:
        self.levels[channel] = volts

    def channels(self) -> dict[str, str]:
        kinds = {"ai0": "analog", "ai1": "analog", "ai2": "bridge", "ctr0": "encoder", "ctr1": "encoder"}
        return kinds | {"port0/line0": "digital_in", "port0/line1": "digital_out", "ao0": "analog_out"}


class Lab:
    """One device, one participant, ticks of 100 µs."""

    def __init__(self, settings: Settings | None = None) -> None:
        self.world = SimWorld(tick_ns=100_000)
        self.bus = Bus()
        self.device = NiDaqDevice(self.world, self.bus, settings)
        self.me = self.world.register("test")

    def task(self) -> Task:
        return self.device.open_session("")[0]

    def analog(
        self, rate: float = 10_000, samples: int = 1000, mode: Mode = Mode.CONTINUOUS, text: str = "ai0"
    ) -> Task:
        task = self.task()
        self.device.create.voltage(task, f"Dev1/{text}", "", -10, 10, VOLTS)
        self.device.configure_timing(task, rate, "", mode, samples)
        return task

    def encoder(self, counter: str = "ctr0", decoding: int = X4, units: int = METRES, source: str = CLOCK) -> Task:
        task = self.task()
        self.device.create.encoder(task, f"Dev1/{counter}", "", decoding, False, units, 4.0, 0.0, angular=False)
        self.device.configure_timing(task, 10_000, source, Mode.CONTINUOUS, 1000)
        return task

    def sleep_ticks(self, ticks: int) -> None:
        self.world.park(self.me, until_ns=self.world.now_ns + ticks * self.world.tick_ns)

    def read(self, task: Task, samples: int, timeout_s: float = 10.0) -> list[Any]:
        reading = self.device.read(task, self.me, samples, timeout_s)
        assert reading.status == 0
        if isinstance(task.channels[0], Encoder):
            return [task.channels[0].scaled(reading.data[0])]
        return list(readings(task.of(AnalogIn), reading.data))


@pytest.fixture
def lab() -> Lab:
    """A device without noise."""
    return Lab()


@pytest.fixture
def make_lab() -> Callable[[Settings], Lab]:
    """Make a device with settings of its own."""
    return Lab
