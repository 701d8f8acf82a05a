"""What the DAQ's terminals carry, and how sensors and wiring go wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from bench.errors import TwinError
from bench.twin.plant.bus_indenter import IndenterBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.sensors import ForceSensorPlant
from bench.twin.plant.truth import RigTruth, SensorTruth, StageTruth, TissueTruth, Wiring
from bench.twin.world import SimWorld

MATRIX = tuple(map(tuple, (np.diag([10.0, 10.0, 20.0, 0.5, 0.5, 0.5]) + 0.1).tolist()))
SENSOR = SensorTruth(matrix=MATRIX, direction=(0.0, 0.0, -1.0, 0.002, 0.001, 0.0), capacity_N=40.0)
RIG = RigTruth(
    stage=StageTruth(start_mm=18.0),
    tissue=TissueTruth(surface_mm=20.0),
    sensor=SENSOR,
    wiring=Wiring(distance_per_pulse_mm=0.004),
)


class Bench:
    """A plant that has pressed 3 mm deep, and its terminals."""

    def __init__(self, truth: RigTruth = RIG) -> None:
        self.world = SimWorld()
        self.runner = self.world.register("runner")
        self.plant = Indenter(self.world, truth)
        self.sensor = ForceSensorPlant(truth.sensor, truth.seed, truth.tick_s)
        self.bus = IndenterBus(self.world, truth, self.plant, self.sensor)
        self.bus.set_digital("port0/line1", True)
        self.plant.move_to(23.0, 5.0, 100.0)
        self.wait(2.0)

    def wait(self, seconds: float) -> None:
        self.world.park(self.runner, until_ns=self.world.now_ns + round(seconds * 1e9))

    def gauges(self) -> np.ndarray:
        return np.array([self.bus.analog(f"ai{i}", 0, 2001, 1) for i in range(6)])


def test_gauges_give_the_wrench_back_through_the_calibration() -> None:
    bench = Bench()
    wrench = np.array(MATRIX) @ bench.gauges()
    expected = np.outer(SENSOR.direction, bench.plant.force())
    assert wrench == pytest.approx(expected, abs=1e-9)
    assert bench.plant.force().max() > 1.0


def test_gain_error_and_cross_talk_are_what_the_calibration_does_not_know() -> None:
    gain = Bench(replace(RIG, sensor=replace(SENSOR, gain_error=0.01)))
    assert gain.gauges() == pytest.approx(1.01 * Bench().gauges())
    crossed = replace(RIG, sensor=replace(SENSOR, cross_talk=0.01))
    wrench = np.array(MATRIX) @ Bench(crossed).gauges()[:, -1]
    assert abs(wrench[2] / (SENSOR.direction[2] * Bench().plant.force()[-1]) - 1.0) < 0.1
    assert abs(wrench[0]) > 1e-9  # force along z shows on x
    assert not np.array_equal(Bench(replace(crossed, seed=2)).gauges(), Bench(crossed).gauges())


def test_noise_is_as_large_as_stated_along_the_pressing_axis() -> None:
    bench = Bench(replace(RIG, sensor=replace(SENSOR, noise_N=0.05)))
    bench.wait(20.0)
    still = np.array([bench.bus.analog(f"ai{i}", 15_000, 5000, 1) for i in range(6)])
    force = np.array(MATRIX)[2] @ still
    assert force.std() == pytest.approx(0.05, rel=0.05)
    assert np.corrcoef(still)[0, 1] == pytest.approx(0.0, abs=0.06)


def test_samples_read_in_blocks_or_strides_are_the_same() -> None:
    bench = Bench(replace(RIG, sensor=replace(SENSOR, noise_N=0.05, drift_N_s=0.1)))
    whole = bench.bus.analog("ai2", 0, 2000, 1)
    assert np.array_equal(np.concatenate([bench.bus.analog("ai2", i * 100, 100, 1) for i in range(20)]), whole)
    assert np.array_equal(bench.bus.analog("ai2", 7, 150, 13), whole[7::13][:150])


def test_drift_and_offset_show_without_contact() -> None:
    bench = Bench(replace(RIG, sensor=replace(SENSOR, offset_N=0.3, drift_N_s=0.02)))
    force = -(np.array(MATRIX)[2] @ bench.gauges())
    assert force[0] == pytest.approx(0.3)
    assert force[300] - force[0] == pytest.approx(0.02 * 0.3)


def test_the_cell_follows_the_force_only_up_to_its_capacity() -> None:
    bench = Bench(replace(RIG, sensor=replace(SENSOR, capacity_N=0.5)))
    assert bench.plant.force().max() > 1.0
    assert (-(np.array(MATRIX)[2] @ bench.gauges())).max() == pytest.approx(0.51)


def test_a_gauge_ends_at_its_rail() -> None:
    bench = Bench(replace(RIG, sensor=replace(SENSOR, limit=0.01)))
    assert np.abs(bench.gauges()).max() == 0.01


def test_a_load_cell_is_one_bridge_ratio() -> None:
    cell = SensorTruth(kind="bridge", sensitivity=0.04, limit=4.0)
    bench = Bench(replace(RIG, sensor=cell, wiring=replace(RIG.wiring, gauges=("ai3",))))
    assert bench.bus.channels()["ai3"] == "bridge"
    assert bench.bus.analog("Dev1/ai3", 0, 2001, 1) == pytest.approx(0.04 * bench.plant.force())


def test_the_encoder_counts_quarter_pulses_of_travel() -> None:
    bench = Bench()
    quarters = bench.bus.encoder("Dev1/ctr0", 0, 2001, 1)
    assert quarters == pytest.approx((bench.plant.travel() - 18.0) / 0.001)
    reverse = Bench(replace(RIG, wiring=replace(RIG.wiring, encoder_direction=-1)))
    assert np.array_equal(reverse.bus.encoder("ctr0", 0, 2001, 1), -quarters)
    assert np.all(bench.bus.encoder("ctr1", 0, 10, 1) == 0.0)  # nothing is wired to it


def test_what_is_not_wired_reads_noise_around_zero() -> None:
    bench = Bench()
    idle = bench.bus.analog("ai9", 0, 2000, 1)
    assert 0.0 < idle.std() < 0.01
    assert abs(idle.mean()) < 0.001


def test_every_terminal_has_a_kind() -> None:
    channels = Bench().bus.channels()
    assert channels["ai0"] == "analog"
    assert channels["ctr0"] == "encoder"
    assert channels["port0/line0"] == "digital_in"
    assert channels["port0/line1"] == "digital_out"
    assert channels["ao0"] == "analog_out"


def test_the_future_is_refused() -> None:
    bench = Bench()
    with pytest.raises(TwinError, match="are not all in the past: 2001 ticks"):
        bench.bus.analog("ai0", 1990, 20, 1)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda bus: bus.analog("ai77", 0, 1, 1), "no terminal 'ai77'"),
        (lambda bus: bus.encoder("ai0", 0, 1, 1), "'ai0' is no counter"),
        (lambda bus: bus.digital("port9/line0"), "no digital line"),
        (lambda bus: bus.set_digital("port0/line0", True), "emergency stop's input"),
        (lambda bus: bus.set_analog("ai0", 1.0), "no analog output"),
    ],
)
def test_wrong_terminals_are_refused(call: object, message: str) -> None:
    with pytest.raises(TwinError, match=message):
        call(Bench().bus)  # type: ignore[operator]


def test_enable_and_estop_switch_the_power_in_series() -> None:
    bench = Bench()
    bus, plant = bench.bus, bench.plant
    assert (bus.digital("port0/line0"), plant.fault()) == (True, None)
    bus.press_estop(True)
    assert (bus.digital("port0/line0"), plant.fault()) == (False, "unpowered")
    bus.set_digital("port0/line1", False)
    bus.press_estop(False)
    assert plant.fault() == "unpowered"  # the enable line is open too
    bus.set_digital("port0/line1", True)
    assert plant.fault() is None


def test_an_estop_that_is_healthy_when_low() -> None:
    bench = Bench(replace(RIG, wiring=replace(RIG.wiring, estop_healthy=False)))
    assert (bench.bus.digital("port0/line0"), bench.plant.fault()) == (False, None)
    bench.bus.press_estop(True)
    assert (bench.bus.digital("port0/line0"), bench.plant.fault()) == (True, "unpowered")


def test_faults_of_the_cell_begin_at_their_tick() -> None:
    bench = Bench()
    good = bench.gauges()
    bench.sensor.break_wire(1500, 3)
    bench.sensor.drift_faster(1000, 0.5)
    seen = bench.gauges()
    assert np.array_equal(seen[:, :1001], good[:, :1001])
    assert np.all(seen[3, 1500:] == SENSOR.limit)
    drift = -(np.array(MATRIX)[2] @ (seen - good)[:, 1400])
    assert drift == pytest.approx(0.5 * 0.4)
    bench.sensor.saturate(1900)
    assert np.all(np.abs(bench.gauges()[:, 1900:]) == SENSOR.limit)
    with pytest.raises(TwinError, match="no gauge 6"):
        bench.sensor.break_wire(0, 6)


def test_faults_of_the_encoder_begin_at_their_tick() -> None:
    good = Bench().bus.encoder("ctr0", 0, 2001, 1)
    stuck, lost, swapped = Bench(), Bench(), Bench()
    stuck.bus.stick_encoder(500)
    assert np.array_equal(stuck.bus.encoder("ctr0", 0, 501, 1), good[:501])
    assert np.all(stuck.bus.encoder("ctr0", 500, 1000, 1) == good[500])
    lost.bus.lose_counts(500, 25)
    assert lost.bus.encoder("ctr0", 0, 2001, 1) - good == pytest.approx(np.where(np.arange(2001) < 500, 0.0, -100.0))
    swapped.bus.swap_encoder(500)
    assert swapped.bus.encoder("ctr0", 600, 1, 1)[0] == pytest.approx(2 * good[500] - good[600])
