"""The unmodified ``nidaqmx`` package, without our driver, on the twin's device."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nidaqmx
import numpy as np
import pytest
from nidaqmx import GrpcSessionOptions, SessionInitializationBehavior
from nidaqmx.constants import (
    READ_ALL_AVAILABLE,
    AcquisitionType,
    BridgePhysicalUnits,
    BridgeUnits,
    EncoderType,
    ForceUnits,
    LengthUnits,
    LineGrouping,
    TaskMode,
    TorqueUnits,
)
from nidaqmx.errors import DaqError, DaqReadError, DaqWarning, RpcError
from nidaqmx.stream_readers import AnalogMultiChannelReader, AnalogUnscaledReader, CounterReader
from nidaqmx.system import System

LSB_V = 20 / 65536

# Six channels and an encoder at 10 kHz for ten seconds, as any program would read them.
PROGRAM = """
import sys
import grpc, nidaqmx, numpy as np
from nidaqmx import GrpcSessionOptions
from nidaqmx.constants import AcquisitionType, EncoderType, LengthUnits
from nidaqmx.stream_readers import AnalogMultiChannelReader, CounterReader

address, path = sys.argv[1:]
channel = grpc.insecure_channel(address)
options = GrpcSessionOptions(channel, "")
with nidaqmx.Task(grpc_options=options) as analog, nidaqmx.Task(grpc_options=options) as encoder:
    analog.ai_channels.add_ai_voltage_chan("Dev1/ai0:5", min_val=-10, max_val=10)
    analog.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS, samps_per_chan=20_000)
    encoder.ci_channels.add_ci_lin_encoder_chan(
        "Dev1/ctr0", decoding_type=EncoderType.X_4, units=LengthUnits.METERS, dist_per_pulse=4e-6
    )
    encoder.timing.cfg_samp_clk_timing(
        10_000, source="/Dev1/ai/SampleClock", sample_mode=AcquisitionType.CONTINUOUS, samps_per_chan=20_000
    )
    encoder.start()
    analog.start()
    volts, metres = np.empty((6, 100_000)), np.empty(100_000)
    for first in range(0, 100_000, 1000):
        block, positions = np.empty((6, 1000)), np.empty(1000)
        assert AnalogMultiChannelReader(analog.in_stream).read_many_sample(block, 1000) == 1000
        assert CounterReader(encoder.in_stream).read_many_sample_double(positions, 1000) == 1000
        volts[:, first : first + 1000], metres[first : first + 1000] = block, positions
    assert analog.in_stream.avail_samp_per_chan == encoder.in_stream.avail_samp_per_chan == 0
np.savez(path, volts=volts, metres=metres)
channel.close()
"""


@pytest.fixture
def options(daq_lab: Any) -> Callable[..., GrpcSessionOptions]:
    channel = daq_lab.channel()
    return lambda name="", **more: GrpcSessionOptions(channel, name, **more)


@pytest.mark.parametrize("python", ["this", "oldest"])
def test_six_channels_and_an_encoder_at_10_kHz_lose_no_sample(daq_lab: Any, tmp_path: Path, python: str) -> None:
    """``oldest``: set BENCH_OLDEST_NIDAQMX to a Python that has the oldest supported version of the package."""
    interpreter = sys.executable if python == "this" else os.environ.get("BENCH_OLDEST_NIDAQMX", "")
    if not interpreter:
        pytest.skip("BENCH_OLDEST_NIDAQMX names no Python with the oldest supported nidaqmx")
    path = tmp_path / "read.npz"
    subprocess.run([interpreter, "-c", PROGRAM, daq_lab.address, str(path)], check=True, timeout=120)
    read = np.load(path)
    samples = np.arange(100_000)
    codes = np.rint(read["volts"] / LSB_V).astype(int)
    for k in range(6):
        assert np.array_equal(codes[k], (samples + 1000 * k) % 32768)
    assert np.array_equal(np.rint(read["metres"] / 1e-6), np.floor(0.5 * samples))
    assert daq_lab.now_ns() == 99_999 * 100_000  # the last sample's own time: nothing waited, nothing was skipped


def test_the_system_shows_the_device(options: Any) -> None:
    system = System.remote(options())
    device = system.devices["Dev1"]
    assert (device.product_type, device.serial_num, device.is_simulated) == ("PCIe-6363", 0x01B07E57, True)
    assert device.ai_physical_chans.channel_names[:2] == ["Dev1/ai0", "Dev1/ai1"]
    assert device.ci_physical_chans.channel_names == ["Dev1/ctr0", "Dev1/ctr1"]
    assert "Dev1/port0/line0" not in device.do_lines.channel_names
    assert device.ai_max_multi_chan_rate == 10_000
    assert tuple(system.driver_version)[:2] == (24, 8)


def test_task_read_and_write_work_as_in_the_manual(options: Any, daq_lab: Any) -> None:
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0:1", "force", min_val=-10, max_val=10)
        assert task.channel_names == ["force0", "force1"]
        assert task.read() == pytest.approx([0.0, 1000 * LSB_V])
        task.timing.cfg_samp_clk_timing(1000, samps_per_chan=5)
        data = np.array(task.read(READ_ALL_AVAILABLE)) / LSB_V
        assert data == pytest.approx(np.array([[0, 10, 20, 30, 40], [1000, 1010, 1020, 1030, 1040]]))
        assert task.is_task_done()
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0")
        task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
        task.start()
        assert task.in_stream.input_buf_size == 10_000
        daq_lab.sleep(0.01)
        assert len(task.read(READ_ALL_AVAILABLE)) == 101
        task.stop()
    with nidaqmx.Task(grpc_options=options()) as task:
        task.do_channels.add_do_chan("Dev1/port0/line1:3", line_grouping=LineGrouping.CHAN_FOR_ALL_LINES)
        task.write(0b1010)  # line 1 and line 3, each at its place in the port
        assert [daq_lab.bus.levels[f"port0/line{k}"] for k in (1, 2, 3)] == [True, False, True]
    with nidaqmx.Task(grpc_options=options()) as task:
        lines = task.di_channels.add_di_chan("Dev1/port0", line_grouping=LineGrouping.CHAN_FOR_ALL_LINES)
        assert lines.di_tristate
        lines.di_tristate = False  # or reading would make the device let go of the lines it drives
        assert task.read() == 0b1010
    with nidaqmx.Task(grpc_options=options()) as task:
        task.di_channels.add_di_chan("Dev1/port0/line2:3", line_grouping=LineGrouping.CHAN_PER_LINE)
        assert task.read() == [False, False]
        assert [daq_lab.bus.levels[f"port0/line{k}"] for k in (1, 2, 3)] == [True, False, False]
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ao_channels.add_ao_voltage_chan("Dev1/ao0:1")
        task.write([1.0, -2.0])
        assert [daq_lab.bus.volts[name] for name in ("ao0", "ao1")] == pytest.approx([1.0, -2.0], abs=LSB_V)


def test_raw_samples_are_the_converters_integers(options: Any) -> None:
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0:1", min_val=-10, max_val=10)
        task.timing.cfg_samp_clk_timing(10_000, samps_per_chan=4)
        data = np.zeros((2, 4), dtype=np.int16)
        AnalogUnscaledReader(task.in_stream).read_int16(data, 4)
        assert data.tolist() == [[0, 1, 2, 3], [1000, 1001, 1002, 1003]]


def test_bridges_read_ratio_force_and_torque(options: Any) -> None:
    points = {"first_electrical_val": 0.0, "second_electrical_val": 2.0, "first_physical_val": 0.0}
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_bridge_chan("Dev1/ai8", min_val=-2, max_val=2, units=BridgeUnits.MILLIVOLTS_PER_VOLT)
        assert task.read() == pytest.approx(0.1, abs=1e-4)
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_force_bridge_two_point_lin_chan(
            "Dev1/ai8",
            min_val=-100,
            max_val=100,
            units=ForceUnits.NEWTONS,
            second_physical_val=100.0,
            physical_units=BridgePhysicalUnits.NEWTONS,
            **points,
        )
        assert task.read() == pytest.approx(5.0, abs=0.01)
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_torque_bridge_two_point_lin_chan(
            "Dev1/ai9",
            min_val=-10,
            max_val=10,
            units=TorqueUnits.NEWTON_METERS,
            second_physical_val=10.0,
            physical_units=BridgePhysicalUnits.NEWTON_METERS,
            **points,
        )
        assert task.read() == pytest.approx(0.5, abs=0.001)


@pytest.mark.parametrize(("decoding", "size"), [(EncoderType.X_1, 4.0), (EncoderType.X_2, 2.0), (EncoderType.X_4, 1.0)])
def test_encoder_decoding_changes_the_step_not_the_distance(options: Any, decoding: EncoderType, size: float) -> None:
    with nidaqmx.Task(grpc_options=options()) as analog, nidaqmx.Task(grpc_options=options()) as encoder:
        analog.ai_channels.add_ai_voltage_chan("Dev1/ai0")
        analog.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
        encoder.ci_channels.add_ci_lin_encoder_chan(
            "Dev1/ctr0", decoding_type=decoding, units=LengthUnits.METERS, dist_per_pulse=4.0, initial_pos=100.0
        )
        encoder.timing.cfg_samp_clk_timing(10_000, "/Dev1/ai/SampleClock", sample_mode=AcquisitionType.CONTINUOUS)
        encoder.start()
        analog.start()
        data = np.empty(1001)
        CounterReader(encoder.in_stream).read_many_sample_double(data, 1001)
        quarters = np.floor(0.5 * np.arange(1001))
        assert data == pytest.approx(100.0 + size * np.floor(quarters / size))


def test_a_short_read_brings_its_samples_together_and_padded(options: Any) -> None:
    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0:1", min_val=-10, max_val=10)
        task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
        task.start()
        data = np.full((2, 100), np.nan)
        with pytest.raises(DaqReadError) as caught:
            AnalogMultiChannelReader(task.in_stream).read_many_sample(data, 100, timeout=0.003)
        assert (caught.value.error_code, caught.value.samps_per_chan_read) == (-200284, 31)
        flat = np.rint(data.ravel() / LSB_V)
        assert list(flat[:62]) == [*range(31), *range(1000, 1031)]
        assert not flat[62:].any()


def test_every_n_samples_calls_back(options: Any) -> None:
    called, all_of_them = [], threading.Event()

    def note(handle: object, kind: int, samples: int, data: object) -> int:
        called.append(samples)
        if len(called) == 10:
            all_of_them.set()
        return 0

    with nidaqmx.Task(grpc_options=options()) as task:
        task.ai_channels.add_ai_voltage_chan("Dev1/ai0")
        task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
        task.register_every_n_samples_acquired_into_buffer_event(100, note)
        with pytest.raises(DaqError) as caught:
            task.register_every_n_samples_acquired_into_buffer_event(100, note)
        assert caught.value.error_code == -200966
        task.start()
        task.read(1000)
        assert all_of_them.wait(10.0)
        task.register_every_n_samples_acquired_into_buffer_event(100, None)
    assert called == [100] * 10


def _clocked(task: Any) -> Any:
    task.ai_channels.add_ai_voltage_chan("Dev1/ai0")
    task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
    return task


def _counter(task: Any) -> Any:
    task.ci_channels.add_ci_lin_encoder_chan("Dev1/ctr0")
    task.timing.cfg_samp_clk_timing(10_000, sample_mode=AcquisitionType.CONTINUOUS)
    return task


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (lambda t: t.ai_channels.add_ai_voltage_chan("Dev9/ai0"), -200220),
        (lambda t: t.ai_channels.add_ai_voltage_chan("Dev1/ai99"), -200170),
        (lambda t: (t.ai_channels.add_ai_voltage_chan("Dev1/ai0", min_val=-15, max_val=15), t.read()), -200077),
        (lambda t: (t.ao_channels.add_ao_voltage_chan("Dev1/ao0"), t.write(10.5)), -200561),
        (lambda t: _counter(t).start(), -200303),
        (lambda t: _clocked(t).timing.cfg_samp_clk_timing(1e6), -201093),
        (lambda t: (_clocked(t).start(), t.ai_channels.add_ai_voltage_chan("Dev1/ai1")), -200479),
        (lambda t: t.start(), -200478),
        (lambda t: _clocked(t).triggers.start_trigger.dig_edge_src, 0),
        (lambda t: _clocked(t).ai_channels.all.ai_gain, -200452),
    ],
)
def test_errors_carry_nis_codes(options: Any, action: Callable[[Any], Any], code: int) -> None:
    with nidaqmx.Task(grpc_options=options()) as task:
        with pytest.raises((DaqError, RpcError)) as caught:
            action(task)
        if code:
            assert caught.value.error_code == code
            assert str(code) in str(caught.value)
        else:
            assert isinstance(caught.value, RpcError)


def test_an_overrun_is_reported_as_ni_does(options: Any, daq_lab: Any) -> None:
    with nidaqmx.Task(grpc_options=options()) as task:
        _clocked(task).start()
        daq_lab.sleep(0.9999)
        assert task.in_stream.avail_samp_per_chan == 10_000
        task.read(1)
        daq_lab.sleep(0.0002)
        with pytest.raises(DaqReadError) as caught:
            task.read(1)
        assert caught.value.error_code == -200279


def test_sessions_are_shared_by_name_and_outlive_their_client(options: Any, daq_lab: Any) -> None:
    new = SessionInitializationBehavior.INITIALIZE_SERVER_SESSION
    attach = SessionInitializationBehavior.ATTACH_TO_SERVER_SESSION
    owner = nidaqmx.Task("run", grpc_options=options("run", initialization_behavior=new))
    _clocked(owner).start()
    with pytest.raises(RpcError, match="ALREADY_EXISTS"):
        nidaqmx.Task("run", grpc_options=options("run", initialization_behavior=new))
    with pytest.raises(RpcError, match="FAILED_PRECONDITION"):
        nidaqmx.Task("other", grpc_options=options("other", initialization_behavior=attach))
    with nidaqmx.Task("run", grpc_options=options("run", initialization_behavior=attach)) as guest:
        assert len(guest.read(10)) == 10
    with nidaqmx.Task(grpc_options=options()) as late:  # the owner is gone without a word, its session is not
        late.ai_channels.add_ai_voltage_chan("Dev1/ai1")
        with pytest.raises(DaqError) as caught:
            late.control(TaskMode.TASK_RESERVE)
        assert caught.value.error_code == -50103
        owner.close()
        late.control(TaskMode.TASK_RESERVE)
    assert not daq_lab.device.tasks


def test_what_is_not_simulated_says_so_with_its_name(options: Any, daq_lab: Any) -> None:
    with nidaqmx.Task(grpc_options=options()) as task, pytest.raises(RpcError, match="UNIMPLEMENTED"):
        task.ai_channels.add_ai_thrmcpl_chan("Dev1/ai0")
    assert daq_lab.device.unsupported == {"CreateAIThrmcplChan": 1}
    import grpc

    call = daq_lab.channel().unary_unary("/nidaqmx_grpc.NiDAQmx/CreateAIThrmcplChan")
    with pytest.raises(grpc.RpcError) as caught:
        call(b"")
    assert "CreateAIThrmcplChan is not simulated" in caught.value.details()


def test_reads_bring_no_warnings_and_clearing_a_running_task_is_fine(options: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", DaqWarning)
        with nidaqmx.Task(grpc_options=options()) as task:
            _clocked(task).start()
            task.read(100)
        with nidaqmx.Task(grpc_options=options()) as task:
            _clocked(task).start()
            task.read(100)
