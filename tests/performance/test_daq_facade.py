"""What the DAQ driver costs beside a bare stream reader on the same server: a ratio within one run."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import grpc
import nidaqmx
import numpy as np
import pytest
from nidaqmx import GrpcSessionOptions
from nidaqmx.constants import AcquisitionType
from nidaqmx.stream_readers import AnalogMultiChannelReader

from bench.instruments.nidaqmx import NiDaq
from bench.instruments.protocols import VoltageInput

pytestmark = pytest.mark.performance

CHANNELS, SAMPLES, BLOCKS, ROUNDS = 8, 1000, 40, 11

# A device in a process of its own, as the twin is; time in it is virtual, so that a read never waits for samples.
SERVER = """
import sys
import numpy as np
from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_grpc import serve
from bench.twin.gate import MetadataGate
from bench.twin.world import SimWorld

class Flat:
    def analog(self, channel, first, count, stride):
        return np.zeros(count)
    def channels(self):
        return {f"ai{k}": "analog" for k in range(8)}

world = SimWorld(tick_ns=100_000)
server = serve(NiDaqDevice(world, Flat()), MetadataGate(world))
print(server.address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def address() -> Iterator[str]:
    command = [sys.executable, "-c", SERVER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        yield server.stdout.readline().strip()
        server.stdin.close()  # the server ends with its standard input
        server.wait(10)


def seconds(read: Callable[[], object]) -> float:
    """Return the time of ``BLOCKS`` reads [s]."""
    start = time.perf_counter()
    for _ in range(BLOCKS):
        read()
    return time.perf_counter() - start


def test_the_driver_reads_nine_tenths_of_what_a_bare_stream_reader_reads(
    address: str, record_property: Callable[[str, object], None]
) -> None:
    daq = NiDaq("Dev1", server=address)
    run = daq.acquisition([VoltageInput(f"ai{k}") for k in range(CHANNELS)], [], 10_000)
    channel = grpc.insecure_channel(address)
    bare, ours = [], []
    with nidaqmx.Task(grpc_options=GrpcSessionOptions(channel, "")) as task:
        task.ai_channels.add_ai_voltage_chan(f"Dev1/ai0:{CHANNELS - 1}", min_val=-10, max_val=10)
        task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS, samps_per_chan=100_000)
        reader = AnalogMultiChannelReader(task.in_stream)
        reader.verify_array_shape = False  # as lean as the package can be made
        data = np.empty((CHANNELS, SAMPLES))
        for _ in range(ROUNDS):  # the device has one converter: turn by turn, so that both see the same machine
            task.start()
            bare.append(seconds(lambda: reader.read_many_sample(data, SAMPLES, 2.0)))
            task.stop()
            run.start()
            ours.append(seconds(lambda: run.read(SAMPLES, 2.0)))
            run.stop()
    channel.close()
    daq.close()
    ratio = min(bare) / min(ours)  # others on the machine only ever add time
    record_property("throughput_ratio", round(ratio, 3))
    record_property("megasamples_per_second", round(CHANNELS * SAMPLES * BLOCKS / min(ours) * 1e-6, 2))
    assert ratio >= 0.9
