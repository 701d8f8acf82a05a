"""The simulated device's sample clocks and buffers, its events and its faults."""

from __future__ import annotations

from typing import Any

import pytest

from bench.errors import TwinError
from bench.twin.devices.nidaqmx_clock import SampleClock
from bench.twin.devices.nidaqmx_values import Code, DaqmxError, Mode


def code(error: pytest.ExceptionInfo[DaqmxError]) -> Code:
    return Code(error.value.code)


# -- the sample clock -------------------------------------------------------------------------------------------------


def test_a_clock_counts_edges_up_to_now() -> None:
    clock = SampleClock()
    clock.start(100, stride=10)
    assert [clock.available(tick) for tick in (99, 100, 109, 110)] == [0, 1, 1, 2]
    clock.stop(125)
    assert clock.available(1000) == 3
    assert clock.tick_of(3) is None


def test_a_restarted_clock_numbers_its_samples_on() -> None:
    clock = SampleClock()
    clock.start(0, stride=1, count=5)
    clock.start(100, stride=2)
    assert [clock.tick_of(k) for k in (4, 5, 6)] == [4, 100, 102]
    assert list(clock.spans(3, 4)) == [(3, 2, 1), (100, 2, 2)]


def test_skipped_edges_leave_a_hole_in_time_and_none_in_the_numbers() -> None:
    clock = SampleClock()
    clock.start(0, stride=10, count=100)
    clock.skip(45, edges=7)
    assert [clock.tick_of(k) for k in (4, 5, 99)] == [40, 120, 1060]
    assert clock.tick_of(100) is None
    assert clock.available(119) == 5


# -- timing and buffers -----------------------------------------------------------------------------------------------


def test_sample_k_lies_at_the_start_tick_plus_k_strides(lab: Any) -> None:
    lab.bus.signal["ai0"] = lambda ticks: ticks * (10 / 32768)
    lab.sleep_ticks(7)
    lab.world.park(lab.me, until_ns=lab.world.now_ns + 1)  # between two ticks: the task starts at the next
    task = lab.analog(rate=1000)
    lab.device.start(task)
    (volts,) = lab.read(task, 3)
    assert list(volts / (10 / 32768)) == [8, 18, 28]
    assert lab.world.now_ns == 28 * lab.world.tick_ns


def test_a_rate_the_divider_cannot_do_becomes_the_next_it_can(lab: Any) -> None:
    task = lab.analog()
    lab.device.configure_timing(task, 3000, "", Mode.CONTINUOUS, 100)
    assert task.timing.rate == pytest.approx(10_000 / 3)
    with pytest.raises(DaqmxError, match="Maximum Value: 10000") as caught:
        lab.device.configure_timing(task, 10_001, "", Mode.CONTINUOUS, 100)
    assert code(caught) is Code.RATE


def test_ten_thousand_unread_samples_pass_and_one_more_is_overwritten(lab: Any) -> None:
    task = lab.analog()
    assert task.buffer() == 10_000
    lab.device.start(task)  # sample 0 is there at once
    lab.sleep_ticks(9_999)
    assert task.unread() == 10_000
    lab.read(task, 1)
    lab.sleep_ticks(1)
    assert task.unread() == 10_000
    lab.read(task, 1000)
    lab.sleep_ticks(1001)
    assert task.unread() == 10_001
    for _ in range(2):  # it stays so
        with pytest.raises(DaqmxError, match="10001 unread samples, the buffer holds 10000") as caught:
            lab.read(task, 1)
        assert code(caught) is Code.OVERWRITTEN
    lab.device.stop(task)
    lab.device.start(task)
    lab.read(task, 10)


def test_the_oldest_samples_go_when_overwriting_is_asked_for(lab: Any) -> None:
    lab.bus.signal["ai0"] = lambda ticks: (ticks % 10_000) * (10 / 32768)
    task = lab.analog()
    task.overwrite = True
    lab.device.start(task)
    lab.sleep_ticks(10_004)
    assert list(lab.read(task, 2)[0] / (10 / 32768)) == [5, 6]


@pytest.mark.parametrize(("rate", "samples", "expected"), [(100, 10, 1000), (1000, 10, 10_000), (1000, 50_000, 50_000)])
def test_the_buffer_follows_the_drivers_table_for_the_rate(lab: Any, rate: float, samples: int, expected: int) -> None:
    assert lab.analog(rate, samples).buffer() == expected


def test_a_read_that_times_out_brings_what_there_is_and_a_status(lab: Any) -> None:
    task = lab.analog(rate=1000)
    lab.device.start(task)
    reading = lab.device.read(task, lab.me, 100, 0.05)
    assert (reading.status, reading.samples) == (Code.TIMEOUT, 51)
    assert lab.world.now_ns == 50_000_000
    assert lab.device.read(task, lab.me, 49, 1.0).status == 0


def test_a_finite_read_starts_by_itself_frees_the_device_and_starts_again(lab: Any) -> None:
    lab.bus.signal["ai0"] = lambda ticks: ticks * (10 / 32768)
    task = lab.analog(samples=5, mode=Mode.FINITE)
    assert list(lab.read(task, -1)[0] / (10 / 32768)) == [0, 1, 2, 3, 4]
    other = lab.analog(samples=3, mode=Mode.FINITE)
    assert len(lab.read(other, -1)[0]) == 3
    assert list(lab.read(task, 5)[0] / (10 / 32768)) == [6, 7, 8, 9, 10]


def test_a_finite_task_gives_its_last_samples_and_then_no_more(lab: Any) -> None:
    task = lab.analog(samples=5, mode=Mode.FINITE)
    lab.device.start(task)
    assert not task.done()
    assert len(lab.read(task, 10)[0]) == 5
    assert task.done()
    with pytest.raises(DaqmxError) as caught:
        lab.read(task, 1)
    assert code(caught) is Code.BEYOND_LAST_SAMPLE


def test_stopping_a_finite_task_early_is_a_warning(lab: Any) -> None:
    task = lab.analog(samples=500, mode=Mode.FINITE)
    lab.device.start(task)
    lab.sleep_ticks(10)
    assert lab.device.stop(task) == Code.STOPPED_EARLY


def test_waiting_for_the_end_ends_at_the_end_or_at_the_deadline(lab: Any) -> None:
    task = lab.analog(samples=100, mode=Mode.FINITE)
    lab.device.start(task)
    with pytest.raises(DaqmxError) as caught:
        task.wait_done(lab.me, 0.005)
    assert code(caught) is Code.NOT_DONE
    task.wait_done(lab.me, 1.0)
    assert lab.world.now_ns == 99 * lab.world.tick_ns


# -- events and faults ------------------------------------------------------------------------------------------------


def test_every_n_samples_fires_at_their_times(lab: Any) -> None:
    task, times = lab.analog(), []
    withdraw = lab.device.register_event(task, 100, lambda: times.append(lab.world.now_ns // lab.world.tick_ns))
    with pytest.raises(DaqmxError) as caught:
        lab.device.register_event(task, 50, lambda: None)
    assert code(caught) is Code.EVENT_TWICE
    lab.device.start(task)
    lab.read(task, 350)
    assert times == [99, 199, 299]
    withdraw()
    lab.read(task, 200)
    assert times == [99, 199, 299]


def test_done_fires_once_at_the_end(lab: Any) -> None:
    task, times = lab.analog(samples=30, mode=Mode.FINITE), []
    lab.device.register_event(task, 0, lambda: times.append(lab.world.now_ns // lab.world.tick_ns))
    lab.device.start(task)
    lab.sleep_ticks(100)
    assert times == [29]


def test_dropped_samples_shift_the_analog_task_against_the_encoder(lab: Any) -> None:
    lab.bus.signal["ai0"] = lambda ticks: ticks * (10 / 32768)
    lab.bus.signal["ctr0"] = lambda ticks: 1.0 * ticks
    encoder, analog = lab.encoder(), lab.analog()
    lab.device.start(encoder)
    lab.device.start(analog)
    lab.read(analog, 10)
    lab.device.fault("dropped_samples", count=5)
    (volts,) = lab.read(analog, 2)
    assert list(volts / (10 / 32768)) == [15, 16]
    assert list(lab.read(encoder, 12)[0][-2:]) == [10, 11]


def test_an_unplugged_device_answers_nothing_until_it_is_back(lab: Any) -> None:
    task = lab.analog()
    lab.device.start(task)
    lab.device.fault("daq_unplugged")
    with pytest.raises(DaqmxError) as caught:
        lab.read(task, 1)
    assert code(caught) is Code.GONE
    lab.device.plug_in()
    lab.read(task, 1)


def test_an_overwrite_can_be_forced_and_an_unknown_fault_is_refused(lab: Any) -> None:
    task = lab.analog()
    lab.device.start(task)
    lab.device.fault("buffer_overwrite")
    with pytest.raises(DaqmxError) as caught:
        lab.read(task, 1)
    assert code(caught) is Code.OVERWRITTEN
    with pytest.raises(TwinError, match="has no fault 'gremlins'"):
        lab.device.fault("gremlins")
