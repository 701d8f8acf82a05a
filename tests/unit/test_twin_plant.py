"""The indenter plant: lazy, but as if it had been stepped all along; and what happens to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.twin.members import Member
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.truth import RigTruth, StageTruth, TissueTruth
from bench.twin.world import SimWorld

STAGE = StageTruth(start_mm=18.0, screw_amplitude_mm=0.0)
TISSUE = TissueTruth(surface_mm=20.0)
RIG = RigTruth(stage=STAGE, tissue=TISSUE)


class Bench:
    """A powered plant and a participant to let time pass."""

    def __init__(self, truth: RigTruth = RIG, tick_ns: int = 1_000_000, *, powered: bool = True) -> None:
        self.world = SimWorld(tick_ns=tick_ns)
        self.runner: Member = self.world.register("runner")
        self.plant = Indenter(self.world, truth)
        self.plant.set_power(powered)

    def wait(self, seconds: float) -> None:
        self.wait_until(self.world.now_ns + round(seconds * 1e9))

    def wait_until(self, time_ns: int) -> None:
        self.world.park(self.runner, until_ns=time_ns)


def press(looks_ns: Sequence[int], tick_ns: int = 1_000_000) -> Bench:
    """Commands at odd times; ``looks_ns`` are times at which somebody looks at the plant."""
    bench = Bench(RigTruth(stage=replace(STAGE, screw_amplitude_mm=0.002), tissue=TISSUE), tick_ns)
    commands = {
        123_456_789: (26.0, 4.0),
        1_900_000_001: (24.0, 2.0),
        2_600_333_333: (17.0, 9.0),
        4_000_000_000: (25.0, 5.0),
    }
    for time_ns, (target, speed) in commands.items():
        bench.world.at(time_ns, lambda target=target, speed=speed: bench.plant.move_to(target, speed, 100.0))  # type: ignore[misc]
    for time_ns in [*looks_ns, 6_000_000_000]:
        bench.wait_until(time_ns)
        bench.plant.position_mm()
    return bench


def test_looking_changes_nothing() -> None:
    seldom = press([]).plant
    often = press(sorted(np.random.default_rng(1).integers(1, 6_000_000_000, 300).tolist())).plant
    assert np.array_equal(seldom.travel(), often.travel())
    assert np.array_equal(seldom.force(), often.force())
    assert seldom.force().max() > 1.0


def test_a_command_splits_the_tick_it_falls_into() -> None:
    """With ticks of 10 ms a command takes effect at its very time, and the force is as with ticks of 0.1 ms."""
    coarse, fine = press([], 10_000_000).plant, press([], 100_000).plant
    assert np.max(np.abs(coarse.travel() - fine.travel()[::100])) < 1e-9
    assert np.max(np.abs(coarse.force() - fine.force()[::100])) < 1e-3 * fine.force().max()


def test_the_stage_moves_as_commanded_and_says_when_it_is_there() -> None:
    bench = Bench()
    end = bench.plant.move_to(10.0, 2.0, 100.0)
    assert end == round((8.0 / 2.0 + 2.0 / 100.0) * 1e9)
    bench.wait(1.0)
    assert bench.plant.is_moving()
    assert bench.plant.velocity_mm_s() == pytest.approx(-2.0, rel=1e-6)
    assert bench.plant.setpoint_mm() == pytest.approx(18.0 - 2.0 * (1.0 - 0.01), abs=1e-9)
    assert bench.plant.position_mm() == pytest.approx(bench.plant.setpoint_mm() + 2.0 * STAGE.lag_s, abs=1e-6)
    bench.wait_until(end)
    assert not bench.plant.is_moving()
    assert bench.plant.setpoint_mm() == 10.0
    bench.wait(0.1)
    assert bench.plant.position_mm() == pytest.approx(10.0, abs=1e-9)
    assert bench.plant.fault() is None


def test_the_frame_gives_way() -> None:
    plate = TissueTruth(surface_mm=20.0, force_ref_N=5000.0, depth_ref_mm=0.1, exponent=1.0, prony=())
    bench = Bench(replace(RIG, tissue=plate))
    bench.plant.move_to(20.05, 1.0, 100.0)
    bench.wait(5.0)
    expected = 0.05 / (1 / STAGE.frame_stiffness_N_mm + 0.1 / 5000.0)
    assert bench.plant.force()[-1] == pytest.approx(expected, rel=1e-6)
    assert bench.plant.travel()[-1] == pytest.approx(20.05)  # the encoder does not see the frame bend


@pytest.mark.parametrize("moving", [True, False])
def test_losing_power_stops_the_stage_at_once(moving: bool) -> None:
    bench = Bench()
    told: list[str] = []
    bench.plant.on_fault(told.append)
    bench.plant.move_to(10.0, 5.0, 1000.0)
    bench.wait(0.5 if moving else 5.0)
    before = bench.plant.position_mm()
    bench.plant.set_power(False)
    bench.wait(0.1)
    assert told == ["unpowered"]
    assert bench.plant.fault() == "unpowered"
    assert bench.plant.position_mm() == pytest.approx(before, abs=5.0 * STAGE.brake_s * 1.01)
    assert abs(bench.plant.velocity_mm_s()) < 1e-6
    assert bench.plant.move_to(18.0, 5.0, 100.0) == bench.world.now_ns  # nothing moves without power
    bench.wait(1.0)
    assert bench.plant.position_mm() == pytest.approx(before, abs=5.0 * STAGE.brake_s * 1.01)
    bench.plant.set_power(True)
    assert bench.plant.fault() is None


def test_a_stage_without_power_from_the_start_has_a_fault() -> None:
    bench = Bench(powered=False)
    assert bench.plant.fault() == "unpowered"


def test_too_much_force_stalls_the_stage_without_anybody_looking() -> None:
    bench = Bench(replace(RIG, stage=replace(STAGE, stall_force_N=2.0)))
    told: list[tuple[float, str]] = []
    bench.plant.on_fault(lambda code: told.append((bench.world.now_ns * 1e-9, code)))
    bench.plant.move_to(30.0, 2.0, 100.0)
    bench.wait(6.0)
    assert [code for _, code in told] == ["stalled"]
    assert bench.plant.fault() == "stalled"
    assert not bench.plant.is_moving()
    force = bench.plant.force()
    assert 2.0 < force.max() < 2.02
    assert told[0][0] == pytest.approx(float(np.argmax(force)) * 1e-3, abs=0.11)  # told at a look, every 100 ms
    bench.plant.move_to(15.0, 2.0, 100.0)  # drawing back is possible
    bench.wait(6.0)
    assert bench.plant.position_mm() == pytest.approx(15.0)
    assert bench.plant.fault() is None


def test_the_mechanical_end_stalls_the_stage_once() -> None:
    bench = Bench(replace(RIG, stage=replace(STAGE, travel_min_mm=17.0)))
    told: list[str] = []
    bench.plant.on_fault(told.append)
    bench.plant.move_velocity(-3.0, 100.0)
    bench.wait(3.0)
    assert told == ["stalled"]
    assert bench.plant.position_mm() == pytest.approx(17.0, abs=0.01)
    bench.plant.move_to(18.0, 3.0, 100.0)
    bench.wait(1.0)
    assert (bench.plant.position_mm(), bench.plant.fault()) == (pytest.approx(18.0), None)


def test_the_controllers_limits_end_a_run() -> None:
    bench = Bench()
    bench.plant.set_hard_limits(0.0, 19.0)
    bench.plant.move_velocity(2.0, 100.0)
    bench.wait(3.0)
    assert bench.plant.position_mm() == pytest.approx(19.0)
    assert bench.plant.fault() is None
    bench.plant.move_to(25.0, 2.0, 100.0)
    bench.wait(1.0)
    assert bench.plant.position_mm() == pytest.approx(19.0)


def test_limits_armed_on_the_way_end_the_move_there() -> None:
    bench = Bench()
    bench.plant.move_to(10.0, 2.0, 100.0)
    bench.wait(0.5)
    bench.plant.set_hard_limits(16.0, 30.0)
    bench.wait(5.0)
    assert bench.plant.position_mm() == pytest.approx(16.0)


def test_a_jammed_stage_stalls_whatever_is_commanded() -> None:
    bench = Bench()
    told: list[str] = []
    bench.plant.on_fault(told.append)
    bench.plant.move_to(10.0, 2.0, 100.0)
    bench.wait(0.5)
    bench.plant.jam(True)
    stuck = bench.plant.position_mm()
    bench.wait(0.5)
    bench.plant.move_to(18.0, 2.0, 100.0)
    bench.wait(0.5)
    assert told == ["stalled", "stalled"]
    assert bench.plant.position_mm() == stuck


def test_lost_steps_are_seen_by_the_encoder_not_by_the_controller_until_it_homes() -> None:
    bench = Bench()
    bench.wait(0.1)
    bench.plant.lose_steps(0.25)
    bench.plant.move_to(10.0, 5.0, 100.0)
    bench.wait(3.0)
    assert bench.plant.position_mm() == pytest.approx(10.0)
    assert bench.plant.travel()[-1] == pytest.approx(9.75)
    bench.plant.move_to(0.0, 5.0, 100.0)
    bench.wait(4.0)
    bench.plant.set_zero_here()
    bench.plant.move_to(10.0, 5.0, 100.0)
    bench.wait(4.0)
    assert bench.plant.position_mm() == pytest.approx(10.0)
    assert bench.plant.travel()[-1] == pytest.approx(10.0)


def test_a_count_set_elsewhere_moves_nothing() -> None:
    bench = Bench()
    bench.plant.set_zero_here()
    bench.wait(0.01)
    assert bench.plant.position_mm() == 0.0
    assert bench.plant.travel()[-1] == 18.0
    bench.plant.move_to(1.0, 5.0, 100.0)
    bench.wait(1.0)
    assert bench.plant.travel()[-1] == pytest.approx(19.0)


def test_another_specimen_under_the_tool() -> None:
    def force(swap: bool) -> float:
        bench = Bench()
        if swap:
            bench.plant.replace_specimen(replace(TISSUE, name="other", force_ref_N=2 * TISSUE.force_ref_N))
        bench.plant.move_to(22.0, 2.0, 100.0)
        bench.wait(3.0)
        return float(bench.plant.force().max())

    assert force(True) / force(False) == pytest.approx(2.0, rel=0.03)


def test_history_grows_over_many_spans() -> None:
    bench = Bench()
    bench.wait(70.0)
    assert bench.plant.ticks <= 1  # nobody has looked yet
    assert bench.plant.travel().shape == (70_001,)
    assert np.all(bench.plant.travel() == 18.0)
    assert np.all(bench.plant.force() == 0.0)
