"""A runner for the twin's tests: homes, approaches, presses and reads blocks. LINK GRPC [--real-time [--fork]]

With ``--real-time`` it only starts a slow move and sleeps for a minute; with ``--fork`` as well, a child keeps its
connections open a while longer than itself. It says ``pressing`` when the tool is on its way down.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import nidaqmx
import numpy as np
import serial
from nidaqmx.constants import AcquisitionType, LengthUnits
from nidaqmx.stream_readers import AnalogMultiChannelReader, CounterReader, DigitalSingleChannelReader

from bench.clock import sleep
from bench.twin.link import Link, grpc_channel

MICROSTEP_MM = 4.7625e-5
BLOCK = 100


class Runner:
    """The instruments as a plain user of pyserial and nidaqmx would open them."""

    def __init__(self, link_address: str, grpc_address: str) -> None:
        self.link = Link.connect(link_address)
        self.channel = grpc_channel(grpc_address, self.link)
        self.port = serial.serial_for_url(self.link.url("stage"), baudrate=115200, timeout=0.2)
        self.tasks: list[Any] = []
        enable = self.task()
        enable.do_channels.add_do_chan("Dev1/port0/line1")
        enable.write(True)

    def task(self) -> Any:
        task = nidaqmx.Task(grpc_options=nidaqmx.GrpcSessionOptions(self.channel, ""))
        self.tasks.append(task)
        return task

    def command(self, text: str) -> str:
        self.port.write(f"/1 1 {text}\n".encode())
        answer = self.port.read_until(b"\n").decode()
        assert " OK " in answer, f"{text}: {answer!r}"
        return answer

    def move(self, position_mm: float, speed_mm_s: float) -> None:
        target, speed = round(position_mm / MICROSTEP_MM), round(speed_mm_s / MICROSTEP_MM * 1.6384)
        self.command(f"move abs {target} {speed}")

    def idle(self) -> bool:
        return "IDLE" in self.command("")

    def home(self) -> None:
        self.command("driver enable")
        self.command("home")
        while not self.idle():
            sleep(self.link.clock, 0.05)

    def acquire(self) -> None:
        analog, counter, stop = self.task(), self.task(), self.task()
        for gauge in range(6):
            analog.ai_channels.add_ai_voltage_chan(f"Dev1/ai{gauge}", min_val=-10.0, max_val=10.0)
        counter.ci_channels.add_ci_lin_encoder_chan("Dev1/ctr0", units=LengthUnits.METERS, dist_per_pulse=4e-6)
        continuous = {"sample_mode": AcquisitionType.CONTINUOUS, "samps_per_chan": 10_000}
        analog.timing.cfg_samp_clk_timing(1000.0, **continuous)
        counter.timing.cfg_samp_clk_timing(1000.0, source="/Dev1/ai/SampleClock", **continuous)
        stop.di_channels.add_di_chan("Dev1/port0/line0")
        self._readers = (
            AnalogMultiChannelReader(analog.in_stream),
            CounterReader(counter.in_stream),
            DigitalSingleChannelReader(stop.in_stream),
        )
        for reader in self._readers:
            reader.verify_array_shape = False
        counter.start()
        analog.start()

    def block(self) -> np.ndarray:
        """Read one block: six gauges and the encoder, shape (7, BLOCK)."""
        values = np.empty((7, BLOCK))
        self._readers[0].read_many_sample(values[:6], BLOCK, timeout=1.0)
        self._readers[1].read_many_sample_double(values[6], BLOCK, timeout=1.0)
        assert self._readers[2].read_one_sample_one_line()
        return values

    def press(self, deepest_mm: float = 34.0, replicates: int = 1) -> np.ndarray:
        """Home, approach, press and withdraw; all that was read, shape (7, n)."""
        self.home()
        self.move(28.0, 10.0)
        while not self.idle():
            sleep(self.link.clock, 0.05)
        self.acquire()
        blocks = []
        for _ in range(replicates):
            for target in (deepest_mm, 28.0):
                self.move(target, 2.0)
                if target == deepest_mm:
                    print("pressing", flush=True)
                while True:
                    blocks.append(self.block())
                    if self.idle():
                        break
        return np.hstack(blocks)

    def close(self) -> None:
        for task in self.tasks:
            task.close()
        self.port.close()
        self.channel.close()
        self.link.close()


def main() -> None:
    runner = Runner(sys.argv[1], sys.argv[2])
    if "--real-time" in sys.argv:
        runner.command("driver enable")
        runner.command("move vel 40000")
        if "--fork" in sys.argv and os.fork() == 0:
            parent = os.getppid()
            while os.getppid() == parent:
                time.sleep(0.05)
            time.sleep(5.0)
            os._exit(0)
        print("pressing", flush=True)
        sleep(runner.link.clock, 60.0)
    else:
        runner.press(replicates=1000)
    runner.close()


if __name__ == "__main__":
    main()
