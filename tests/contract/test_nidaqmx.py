"""The NI-DAQmx driver: what it promises, on a served device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from bench.errors import DaqDeviceError, InstrumentTimeout
from bench.instruments.nidaqmx import NiDaq
from bench.instruments.nidaqmx_errors import DaqTimeout
from bench.instruments.nidaqmx_gaps import CountWatch
from bench.instruments.protocols import (
    Acquisition,
    AngularEncoder,
    BridgeInput,
    Daq,
    LinearEncoder,
    VoltageInput,
)

SIX = [VoltageInput(f"ai{k}") for k in range(6)]
SCALE = LinearEncoder("ctr0", distance_per_pulse_mm=0.004)
LSB_V = 20 / 65536


@pytest.fixture
def daq(daq_lab: Any) -> Iterator[NiDaq]:
    made = NiDaq("Dev1", server=daq_lab.address, clock=daq_lab)
    yield made
    made.close()


def codes(volts: np.ndarray) -> np.ndarray:
    """The converter's steps (n_samples, n_channels), each less its channel's own 1000 k: sample numbers mod 32768."""
    return (np.rint(volts / LSB_V).astype(int) - 1000 * np.arange(volts.shape[1])) % 32768


def started(daq: NiDaq) -> Any:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    return run


# -- what it promises -------------------------------------------------------------------------------------------------


def test_it_implements_the_protocols_and_names_the_device(daq: NiDaq) -> None:
    assert isinstance(daq, Daq)
    assert isinstance(daq.acquisition(SIX, [SCALE], 10_000), Acquisition)
    identity = daq.identify()
    assert (identity.model, identity.serial_number) == ("NI PCIe-6363", "01B07E57")
    assert identity.firmware.startswith("NI-DAQmx ")
    assert identity.details["simulated"] == "true"


def test_blocks_of_any_size_follow_each_other_without_a_gap(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [SCALE, LinearEncoder("ctr1", 0.004)], 10_000)
    run.start()
    first = 0
    for size in (1000, 1, 7, 992, 5000, 1):
        block = run.read(size, timeout_s=2.0)
        assert (block.first_sample, block.analog.shape, block.encoders.shape) == (first, (size, 6), (size, 2))
        samples = first + np.arange(size)
        assert np.array_equal(codes(block.analog), np.repeat(samples[:, None] % 32768, 6, axis=1))
        edges = block.encoders / 0.001
        assert edges[:, 0] == pytest.approx(np.floor(0.5 * samples), abs=1e-6)
        assert edges[:, 1] == pytest.approx(np.floor(-0.5 * samples), abs=1e-6)
        first += size


def test_a_block_may_be_larger_than_grpcs_own_limit(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    block = run.read(100_000, timeout_s=20.0)  # 4.8 MB
    assert np.array_equal(codes(block.analog)[:, 5], np.arange(100_000) % 32768)


def test_a_block_stays_what_it_was_when_the_next_is_read(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    block = run.read(100, 1.0)
    before = block.analog.copy(), block.encoders.copy()
    run.read(100, 1.0)
    assert np.array_equal(block.analog, before[0])
    assert np.array_equal(block.encoders, before[1])


def test_one_channel_and_no_encoder_have_the_same_shape_of_answer(daq: NiDaq) -> None:
    run = daq.acquisition(SIX[:1], [], 1000)
    run.start()
    block = run.read(10, 1.0)
    assert (block.analog.shape, block.encoders.shape) == ((10, 1), (10, 0))
    assert list(codes(block.analog)[:, 0]) == list(range(0, 100, 10))


def test_the_anchor_brackets_sample_zero(daq: NiDaq, daq_lab: Any) -> None:
    daq_lab.sleep_until_ns(123_456_789)  # between two ticks
    run = daq.acquisition(SIX[:1], [], 1000)
    anchor = run.start()
    sample = codes(run.read(1, 1.0).analog)[0, 0]
    assert abs(anchor.clock_ns - sample * 100_000) <= anchor.half_width_ns
    assert anchor.half_width_ns <= 1_000_000  # a period of the sample clock


def test_a_restart_counts_from_zero_again(daq: NiDaq, daq_lab: Any) -> None:
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    run.read(300, 1.0)
    run.stop()
    daq_lab.sleep(0.5)
    run.start()
    block = run.read(3, 1.0)
    assert block.first_sample == 0
    assert list(codes(block.analog)[:, 0]) == [5299, 5300, 5301]
    assert block.encoders[:, 0] == pytest.approx([0, 0.001, 0.001])  # the counter was loaded anew


def test_bridges_and_angular_encoders_read_in_their_units(daq: NiDaq) -> None:
    run = daq.acquisition([BridgeInput("ai8"), BridgeInput("ai9", -1, 1)], [AngularEncoder("ctr0", 250)], 10_000)
    run.start()
    block = run.read(1001, 1.0)
    assert block.analog[0] == pytest.approx([0.1, 0.1], abs=1e-4)
    assert block.encoders[-1, 0] == pytest.approx(500 / 1000 * 2 * np.pi)


def test_lines_and_outputs_take_single_values(daq: NiDaq, daq_lab: Any) -> None:
    enable, watchdog = daq.digital_output("port0/line1"), daq.digital_output("Dev1/port0/line1")
    enable.write(True)
    assert daq_lab.bus.levels["port0/line1"] is True
    assert enable.read() is True
    assert watchdog.read() is True, "whoever drives it"
    assert daq_lab.bus.levels["port0/line1"] is True
    watchdog.write(False)  # a second owner of the line may still drop it
    assert daq_lab.bus.levels["port0/line1"] is False
    assert enable.read() is False
    daq_lab.bus.levels["port0/line0"] = True
    assert daq.digital_input("port0/line0").read() is True
    daq.analog_output("ao1").write(2.5)
    assert daq_lab.bus.volts["ao1"] == pytest.approx(2.5, abs=LSB_V)


@pytest.mark.parametrize(
    ("make", "use"),
    [
        (lambda daq: daq.digital_input("port0/line0"), lambda item: item.read()),
        (lambda daq: daq.digital_output("port0/line1"), lambda item: item.write(True)),
        (lambda daq: daq.analog_output("ao0"), lambda item: item.write(1.0)),
        (started, lambda item: item.read(1000, 1.0)),
    ],
)
def test_reading_and_writing_is_one_call_each(
    daq: NiDaq, daq_lab: Any, make: Callable[[NiDaq], Any], use: Callable[[Any], Any]
) -> None:
    item = make(daq)
    use(item)
    before = daq_lab.gate.calls
    use(item)
    assert daq_lab.gate.calls - before == 1


# -- late and short reads ---------------------------------------------------------------------------------------------


def test_a_read_that_times_out_loses_nothing(daq: NiDaq) -> None:
    """Short reads stand together at the front of the array; and what they brought is gone from the device."""
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    with pytest.raises(DaqTimeout, match=r"DAQmx -200284"):
        run.read(1000, timeout_s=0.03)
    with pytest.raises(InstrumentTimeout):
        run.read(1000, timeout_s=0.03)
    for first in (0, 1000):
        block = run.read(1000, timeout_s=1.0)
        assert block.first_sample == first
        assert np.array_equal(codes(block.analog)[:, 5], first + np.arange(1000))
        assert block.encoders[:, 0] / 0.001 == pytest.approx(np.floor(0.5 * (first + np.arange(1000))), abs=1e-6)


def test_what_a_short_read_left_over_serves_smaller_reads(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    with pytest.raises(DaqTimeout):
        run.read(1000, timeout_s=0.03)
    seen = np.concatenate([codes(run.read(size, 1.0).analog)[:, 3] for size in (10, 90, 1, 400)])
    assert np.array_equal(seen, np.arange(501))


def test_analog_samples_wait_for_an_encoder_that_is_late(
    daq: NiDaq, daq_lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    run.read(10, 1.0)
    encoder = next(task for task in daq_lab.device.tasks.values() if task.channels[0].name == "Dev1/ctr0")
    there_are = encoder.acquired()
    with monkeypatch.context() as late:
        late.setattr(encoder, "acquired", lambda: there_are)
        late.setattr(encoder.clock, "tick_of", lambda sample: None)
        with pytest.raises(DaqTimeout, match=r"encoder ctr0"):
            run.read(10, 0.01)
    block = run.read(10, 1.0)
    assert block.first_sample == 10
    assert list(codes(block.analog)[:, 0]) == list(range(10, 20))
    assert block.encoders[:, 0] / 0.001 == pytest.approx(np.floor(0.5 * np.arange(10, 20)), abs=1e-6)


def test_polling_with_a_short_timeout_gets_there(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    for _ in range(200):
        try:
            block = run.read(1000, timeout_s=0.001)
        except DaqTimeout:
            continue
        break
    assert np.array_equal(codes(block.analog)[:, 0], np.arange(1000))


def test_many_small_reads_keep_up(daq: NiDaq) -> None:
    run = daq.acquisition(SIX, [SCALE], 10_000, buffer_s=0.01)
    run.start()
    seen = np.concatenate([codes(run.read(5, 1.0).analog)[:, 0] for _ in range(300)])
    assert np.array_equal(seen, np.arange(1500))


def test_a_reader_that_comes_too_late_is_told_so(daq: NiDaq, daq_lab: Any) -> None:
    run = daq.acquisition(SIX, [], 10_000, buffer_s=0.5)
    run.start()
    run.read(100, 1.0)
    daq_lab.sleep(0.4999)
    run.read(100, 1.0)
    daq_lab.sleep(0.6)
    with pytest.raises(DaqDeviceError, match=r"unread samples were overwritten") as caught:
        run.read(100, 1.0)
    assert caught.value.code == -200279
    assert "longer daq.buffer" in caught.value.remedy


# -- samples the device loses -----------------------------------------------------------------------------------------


def _read_on(run: Any) -> None:
    for _ in range(30):
        run.read(1000, 1.0)


@pytest.mark.parametrize("count", [100, 2000])
def test_samples_the_device_dropped_are_missed(daq: NiDaq, daq_lab: Any, count: int) -> None:
    run = daq.acquisition(SIX, [SCALE], 10_000)
    run.start()
    for _ in range(12):
        run.read(1000, 1.0)
    daq_lab.device.fault("dropped_samples", count=count)
    with pytest.raises(DaqDeviceError, match=rf"about {count} samples are missing") as caught:
        _read_on(run)
    assert "discard the run" in caught.value.remedy
    assert "analog inputs ai0" in caught.value.where


def test_samples_dropped_at_the_very_end_are_missed_at_the_stop(daq: NiDaq, daq_lab: Any) -> None:
    run = daq.acquisition(SIX, [], 10_000)
    run.start()
    run.read(1000, 1.0)
    daq_lab.device.fault("dropped_samples", count=2000)
    run.read(10, 1.0)
    with pytest.raises(DaqDeviceError, match=r"samples are missing"):
        run.stop()
    assert not [task for task in daq_lab.device.tasks.values() if task.state == 4]  # stopped all the same


def test_packets_drift_and_slow_answers_are_no_gap() -> None:
    watch, rng = CountWatch(10_000), np.random.default_rng(1)
    for k in range(1, 2000):
        t = 0.5 * k
        acquired = int(10_000 * t * (1 - 50e-6)) // 40 * 40  # a slow clock, and a bus that delivers 40 at a time
        answer_s = 0.2 if k % 97 == 0 else rng.uniform(0, 0.002)
        assert watch.missing(t, t + answer_s, acquired + int(10_000 * answer_s * rng.uniform(0, 1))) == 0
