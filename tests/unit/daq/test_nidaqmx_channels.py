"""The simulated device's converter, counters and outputs, and what it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.twin.devices.nidaqmx import SESSION_ATTACH, SESSION_NEW, SessionError
from bench.twin.devices.nidaqmx_create import Settings, expand
from bench.twin.devices.nidaqmx_values import FORCE_N, TICKS, TORQUE_NM, Action, Code, DaqmxError, Mode

VOLTS, METRES, RADIANS, MV_V = 10348, 10219, 10273, 15897
X1, X2, X4 = 10090, 10091, 10092


def code(error: pytest.ExceptionInfo[DaqmxError]) -> Code:
    return Code(error.value.code)


# -- converter and counters -------------------------------------------------------------------------------------------


def test_the_converter_rounds_to_its_steps_and_clips_at_its_ends(lab: Any) -> None:
    lsb = 20 / 65536
    levels = np.array([0.0, 0.49 * lsb, 0.51 * lsb, 1.0, 9.9999, 10.5, -10.5])
    lab.bus.signal["ai0"] = lambda ticks: levels[ticks % len(levels)]
    task = lab.analog()
    (volts,) = lab.read(task, len(levels))
    assert volts == pytest.approx([0, 0, lsb, round(1 / lsb) * lsb, 32767 * lsb, 32767 * lsb, -10.0], abs=1e-12)


@pytest.mark.parametrize(("limit", "full_scale"), [(10, 10), (4.2, 5), (1, 1), (0.15, 0.2)])
def test_a_narrower_range_has_finer_steps(lab: Any, limit: float, full_scale: float) -> None:
    task = lab.task()
    lab.device.create.voltage(task, "Dev1/ai0", "", -limit, limit, VOLTS)
    lab.bus.signal["ai0"] = lambda ticks: np.full(len(ticks), 1.5 * 2 * full_scale / 65536)
    assert lab.read(task, 1)[0] == pytest.approx([2 * 2 * full_scale / 65536])


def test_converter_noise_depends_on_the_sample_and_not_on_how_it_is_read(make_lab: Callable[[Settings], Any]) -> None:
    def record(blocks: list[int]) -> np.ndarray:
        lab = make_lab(Settings(noise_v=0.01, seed=5))
        task = lab.analog(text="ai0:1")
        lab.device.start(task)
        return np.hstack([np.array(lab.read(task, block)) for block in blocks])

    whole, pieces = record([3000]), record([1, 999, 2000])
    assert np.array_equal(whole, pieces)
    assert whole.std() == pytest.approx(0.01, rel=0.05)
    assert abs(np.corrcoef(whole)[0, 1]) < 0.1


@pytest.mark.parametrize(("decoding", "divisor"), [(X4, 1), (X2, 2), (X1, 4)])
def test_counters_count_whole_edges_of_their_decoding(lab: Any, decoding: int, divisor: int) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: 100.4 + 0.3 * ticks
    encoder, analog = lab.encoder(decoding=decoding), lab.analog()
    lab.device.start(encoder)
    lab.device.start(analog)
    (metres,) = lab.read(encoder, 50)
    quarters = 100.4 + 0.3 * np.arange(50)
    edges = np.floor(quarters / divisor) - np.floor(100.4 / divisor)
    assert list(metres) == list(edges * divisor)  # 4 m a pulse: 1 m a quarter


def test_an_encoder_read_in_ticks_is_the_bare_count(lab: Any) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: -1.0 * ticks
    encoder, analog = lab.encoder(units=TICKS), lab.analog()
    lab.device.start(encoder)
    lab.device.start(analog)
    assert list(lab.read(encoder, 4)[0]) == [0, -1, -2, -3]


def test_encoders_share_the_start_of_the_analog_task(lab: Any) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: 1.0 * ticks
    encoder = lab.encoder()
    lab.device.start(encoder)
    lab.sleep_ticks(123)
    reading = lab.device.read(encoder, lab.me, 1, 0.001)  # armed, no edge yet
    assert (reading.status, reading.samples) == (Code.TIMEOUT, 0)
    analog = lab.analog()
    lab.device.start(analog)
    start = lab.world.now_ns // lab.world.tick_ns
    assert list(lab.read(encoder, 3)[0]) == [start, start + 1, start + 2]
    lab.device.stop(analog)
    lab.sleep_ticks(50)
    assert encoder.acquired() == 3
    lab.device.start(analog)
    assert list(lab.read(encoder, 1)[0]) == [start + 2 + 50]


def test_an_encoder_armed_late_joins_at_the_next_edge(lab: Any) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: 1.0 * ticks
    analog, encoder = lab.analog(rate=1000), lab.encoder()
    lab.device.start(analog)
    lab.sleep_ticks(25)
    lab.device.start(encoder)
    assert list(lab.read(encoder, 2)[0]) == [5, 15]  # edges at ticks 30 and 40, armed at 25


def test_a_counter_reads_on_only_while_its_task_is_started(lab: Any) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: 1.0 * ticks
    task = lab.task()
    lab.device.create.encoder(task, "Dev1/ctr0", "", X4, False, METRES, 4.0, 0.0, angular=False)
    lab.sleep_ticks(5)
    assert list(lab.read(task, 1)[0]) == [0]
    lab.sleep_ticks(5)
    assert list(lab.read(task, 1)[0]) == [0]  # each read started it anew
    lab.device.start(task)
    lab.sleep_ticks(5)
    assert list(lab.read(task, 1)[0]) == [5]


def test_an_angular_encoder_turns_pulses_into_radians(lab: Any) -> None:
    lab.bus.signal["ctr0"] = lambda ticks: 1.0 * ticks
    task = lab.task()
    lab.device.create.encoder(task, "Dev1/ctr0", "", X4, False, RADIANS, 1000, 0.5, angular=True)
    lab.device.start(task)
    lab.sleep_ticks(1000)
    assert lab.read(task, 1)[0] == pytest.approx([0.5 + 2 * np.pi / 4])


@pytest.mark.parametrize(
    ("usage", "units", "physical_units", "expected"),
    [
        (15899, 15875, 15875, 25.0),
        (15899, 15875, 15876, 25.0 * FORCE_N[15876]),
        (15905, 15881, 15883, 25 * TORQUE_NM[15883]),
    ],
)
def test_a_bridge_with_two_points_reads_force_or_torque(
    lab: Any, usage: int, units: int, physical_units: int, expected: float
) -> None:
    lab.bus.signal["ai2"] = lambda ticks: np.full(len(ticks), 0.5)  # mV/V
    task = lab.task()
    lab.device.create.bridge(
        task,
        "Dev1/ai2",
        "",
        (-200, 200),
        units,
        usage=usage,
        excitation=10,
        points=(0.0, 2.0, 0.0, 100.0),
        electrical_units=MV_V,
        physical_units=physical_units,
    )
    assert lab.read(task, 1)[0] == pytest.approx([expected], abs=400 / 65536)


# -- what is refused --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Dev2/ai0", Code.NO_SUCH_DEVICE),
        ("Dev1/ai7", Code.NO_SUCH_CHANNEL),
        ("Dev1/ctr0", Code.CHANNEL_TYPE),
        ("Dev1/ai2", Code.CHANNEL_TYPE),  # a bridge
        ("", Code.NO_SUCH_CHANNEL),
    ],
)
def test_channels_that_are_not_there_are_refused(lab: Any, text: str, expected: Code) -> None:
    with pytest.raises(DaqmxError) as caught:
        lab.device.create.voltage(lab.task(), text, "", -10, 10, VOLTS)
    assert code(caught) is expected


def test_limits_beyond_the_device_are_refused_when_the_task_is_verified(lab: Any) -> None:
    task = lab.task()
    lab.device.create.voltage(task, "Dev1/ai0", "", -20, 20, VOLTS)
    with pytest.raises(DaqmxError, match=r"Maximum Value: 10\.0") as caught:
        lab.device.control(task, Action.VERIFY)
    assert code(caught) is Code.INVALID_VALUE


def test_a_task_holds_one_kind_of_channels(lab: Any) -> None:
    task = lab.analog()
    with pytest.raises(DaqmxError) as caught:
        lab.device.create.encoder(task, "Dev1/ctr0", "", X4, False, METRES, 1.0, 0.0, angular=False)
    assert code(caught) is Code.MIXED_CHANNELS
    with pytest.raises(DaqmxError) as caught:
        lab.device.create.voltage(task, "Dev1/ai0", "", -10, 10, VOLTS)
    assert code(caught) is Code.CHANNEL_TWICE
    encoder = lab.encoder()
    with pytest.raises(DaqmxError) as caught:
        lab.device.create.encoder(encoder, "Dev1/ctr1", "", X4, False, METRES, 1.0, 0.0, angular=False)
    assert code(caught) is Code.MULTIPLE_COUNTERS


@pytest.mark.parametrize(
    ("source", "expected"), [("", Code.NO_CLOCK_SOURCE), ("/Dev9/ai/SampleClock", Code.NO_SUCH_TERMINAL)]
)
def test_a_counter_needs_a_clock_that_exists(lab: Any, source: str, expected: Code) -> None:
    with pytest.raises(DaqmxError) as caught:
        lab.device.start(lab.encoder(source=source))
    assert code(caught) is expected


def test_what_one_task_holds_no_other_gets_until_it_is_stopped(lab: Any) -> None:
    first, second = lab.analog(), lab.analog(text="ai1")
    lab.device.start(first)
    with pytest.raises(DaqmxError, match="ai is held by task _unnamedTask<0>") as caught:
        lab.device.start(second)
    assert code(caught) is Code.RESERVED
    lab.device.stop(first)
    lab.device.start(second)
    lab.device.stop(second)
    lab.device.control(first, Action.COMMIT)
    lab.device.start(first)
    lab.device.stop(first)  # committed by hand: it stays so
    with pytest.raises(DaqmxError):
        lab.device.start(second)
    lab.device.control(first, Action.UNRESERVE)
    lab.device.start(second)


def test_a_session_without_a_client_lives_until_the_device_is_reset(lab: Any) -> None:
    task, new = lab.device.open_session("left behind")
    assert new
    lab.device.create.voltage(task, "Dev1/ai0", "", -10, 10, VOLTS)
    lab.device.configure_timing(task, 1000, "", Mode.CONTINUOUS, 100)
    lab.device.start(task)
    assert lab.device.open_session("left behind") == (task, False)
    assert lab.device.open_session("left behind", SESSION_ATTACH) == (task, False)
    with pytest.raises(SessionError, match="already exists"):
        lab.device.open_session("left behind", SESSION_NEW)
    with pytest.raises(SessionError, match="has not been initialized"):
        lab.device.open_session("never there", SESSION_ATTACH)
    lab.bus.levels.update({"port0/line1": True, "ao0": 3.0})
    lab.device.reset_device("Dev1")
    assert lab.bus.levels == {"port0/line0": True, "port0/line1": False, "ao0": 0.0}
    with pytest.raises(DaqmxError) as caught:
        lab.device.task("left behind")
    assert code(caught) is Code.INVALID_TASK
    lab.device.start(lab.analog())


def test_outputs_refuse_what_they_cannot_do_and_free_their_line_again(lab: Any) -> None:
    volts = lab.task()
    lab.device.create.voltage_out(volts, "Dev1/ao0", "", -5, 5, VOLTS)
    with pytest.raises(DaqmxError, match=r"5\.1 V, the channel takes -5 to 5 V") as caught:
        lab.device.on_demand(volts, True, lambda: volts.write_volts([5.1]))
    assert code(caught) is Code.AO_RANGE
    first, second = lab.task(), lab.task()
    for task, level in ((first, True), (second, False), (first, True)):  # a watchdog may drop a line in between
        if not task.channels:
            lab.device.create.digital(task, "Dev1/port0/line1", "", 0, output=True)
        lab.device.on_demand(task, True, lambda task=task, level=level: task.write_lines([[level]]))
        assert lab.bus.levels["port0/line1"] is level
    with pytest.raises(DaqmxError) as caught:
        lab.device.create.digital(lab.task(), "Dev1/port0/line0", "", 0, output=True)
    assert code(caught) is Code.CHANNEL_TYPE


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Dev1/ai0", ["Dev1/ai0"]),
        ("Dev1/ai0:2, Dev1/ai5", ["Dev1/ai0", "Dev1/ai1", "Dev1/ai2", "Dev1/ai5"]),
        ("Dev1/ai2:0", ["Dev1/ai2", "Dev1/ai1", "Dev1/ai0"]),
        ("Dev1/port0/line1:2", ["Dev1/port0/line1", "Dev1/port0/line2"]),
        ("Dev1/ai0:Dev1/ai1", ["Dev1/ai0", "Dev1/ai1"]),
        ("", []),
    ],
)
def test_channel_strings_stand_for_many_names(text: str, names: list[str]) -> None:
    assert expand(text) == names
