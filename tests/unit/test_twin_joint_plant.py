"""The joint plant: lazy, but as if it had been stepped all along; its drive's view, power and brake."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from bench.twin.members import Member
from bench.twin.plant.joint import Joint
from bench.twin.plant.joint_truth import DriveTruth, FrictionTruth, GearTruth, JointTruth, LoadTruth, ThermalTruth
from bench.twin.world import SimWorld

PENDULUM = JointTruth(load=LoadTruth(gravity_moment=2.5))
IDEAL = JointTruth(
    friction=FrictionTruth(coulomb=0.0, stribeck_excess=0.0, viscous=0.0),
    gear=GearTruth(stiffness_zero=5e4, stiffness_load=5e4, damping=5.0),
    load=LoadTruth(inertia=1.8),
)
FULL_TORQUE = 1.0


class Bench:
    """A plant with a participant to let time pass."""

    def __init__(self, truth: JointTruth = PENDULUM, *, powered: bool = True) -> None:
        self.world = SimWorld()
        self.runner: Member = self.world.register("runner")
        self.plant = Joint(self.world, truth)
        self.plant.set_power(powered)

    def wait(self, seconds: float) -> None:
        self.wait_until(self.world.now_ns + round(seconds * 1e9))

    def wait_until(self, time_ns: int) -> None:
        self.world.park(self.runner, until_ns=time_ns)

    def torque(self, rotor_nm: float) -> None:
        self.plant.command(rotor_nm, 0.0, 0.0, 0.0, 0.0, FULL_TORQUE)


def driven(looks_ns: Sequence[int]) -> Bench:
    """Commands at odd times; ``looks_ns`` are times at which somebody looks at the plant."""
    bench = Bench()
    for time_ns, torque in {123_456_789: 0.03, 300_000_001: -0.05, 512_345_678: 0.02, 512_345_679: 0.04}.items():
        bench.world.at(time_ns, lambda torque=torque: bench.torque(torque))  # type: ignore[misc]
    for time_ns in [*looks_ns, 900_000_000]:
        bench.wait_until(time_ns)
        bench.plant.position_rev(), bench.plant.joint_torque(), bench.plant.velocity_rev_s()
    return bench


def test_looking_changes_nothing() -> None:
    seldom = driven([]).plant
    often = driven(sorted(np.random.default_rng(1).integers(1, 900_000_000, 300).tolist())).plant
    for column in ("motor_angle", "joint_angle", "joint_torque", "motor_torque", "temperature"):
        assert np.array_equal(getattr(seldom, column)(), getattr(often, column)())
    assert seldom.ticks == seldom.joint_torque().size == 901
    assert np.abs(seldom.joint_torque()).max() > 1.0


def test_a_command_between_two_ticks_acts_from_its_own_moment() -> None:
    """Speed gained is torque times time to the nanosecond, whatever part of a tick that is."""
    gained = []
    for at_ns in (200_000_000, 200_250_000, 200_900_000):
        bench = Bench(replace(IDEAL, load=LoadTruth(locked=False, inertia=1.8)))
        bench.world.at(at_ns, lambda bench=bench: bench.torque(0.1))  # type: ignore[misc]
        bench.world.at(at_ns + 50_300_000, lambda bench=bench: bench.torque(0.0))  # type: ignore[misc]
        bench.wait(1.0)
        q = bench.plant.joint_angle()
        gained.append((q[-1] - q[-201]) / 0.2)
    assert gained == pytest.approx([100 * 0.1 * 0.0503 / 2.0] * 3, rel=1e-4)


def test_the_servo_follows_and_counts_in_whole_steps() -> None:
    bench = Bench()
    bench.plant.command(0.0, 4.0, 0.05, 0.5, 0.0, FULL_TORQUE)
    bench.wait(2.0)
    position = bench.plant.position_rev()
    assert position == pytest.approx(0.5, abs=0.02)
    assert (position * PENDULUM.drive.encoder_counts) % 1.0 == 0.0
    assert bench.plant.joint_angle()[-1] == pytest.approx(0.5 * 2 * math.pi / 100, rel=0.05)
    assert abs(bench.plant.velocity_rev_s()) < 1e-3
    bench.plant.command(0.0, 4.0, 0.05, 0.5, 0.2, FULL_TORQUE)
    bench.wait(1.0)
    assert bench.plant.velocity_rev_s() == pytest.approx(0.2, rel=0.02)
    assert bench.plant.position_rev() == pytest.approx(0.7, abs=0.02)


def test_position_between_two_ticks_is_extrapolated() -> None:
    bench = Bench(IDEAL)
    bench.plant.command(0.0, 40.0, 1.0, 0.0, 3.0, FULL_TORQUE)
    bench.wait(1.0)
    at_tick = bench.plant.position_rev()
    bench.wait(0.0005)
    assert bench.plant.position_rev() - at_tick == pytest.approx(0.0015, abs=2 / 16384)


def test_a_drive_turned_round_turns_the_joint_the_other_way() -> None:
    bench = Bench(replace(IDEAL, drive=DriveTruth(direction=-1)))
    bench.torque(0.05)
    bench.wait(0.2)
    assert bench.plant.joint_angle()[-1] < -0.01
    assert bench.plant.position_rev() > 0.1
    assert bench.plant.velocity_rev_s() > 0.1
    assert bench.plant.torque_nm() == pytest.approx(0.05)
    bench.plant.command(0.0, 4.0, 0.1, 0.5, 0.0, FULL_TORQUE)
    bench.wait(3.0)
    assert bench.plant.position_rev() == pytest.approx(0.5, abs=0.01)


def test_torque_is_clamped_and_misjudged() -> None:
    truth = replace(
        PENDULUM,
        drive=DriveTruth(torque_scale=1.02, max_rotor_torque=0.2),
        load=LoadTruth(locked=True),
        friction=FrictionTruth(coulomb=0.0, stribeck_excess=0.0, viscous=20.0),
    )
    bench = Bench(truth)
    bench.torque(0.5)
    bench.wait(3.0)
    assert bench.plant.torque_nm() == pytest.approx(0.2)
    assert bench.plant.joint_torque()[-1] == pytest.approx(20.4, rel=1e-3)


def test_the_current_loop_takes_its_time() -> None:
    bench = Bench(replace(IDEAL, drive=DriveTruth(current_bandwidth_hz=10.0)))
    bench.wait(0.1)
    bench.torque(0.1)
    bench.wait(1.0 / (2 * math.pi * 10.0))
    assert bench.plant.torque_nm() == pytest.approx(0.1 * (1 - math.exp(-1)), rel=0.04)


def test_without_power_the_brake_falls_after_its_delay() -> None:
    bench = Bench(IDEAL)
    events: list[bool] = []
    bench.plant.on_power(events.append)
    bench.torque(0.3)
    bench.wait(0.2)
    bench.plant.set_power(False)
    bench.torque(0.3)  # nobody listens
    bench.wait(0.02)
    braked = [bench.plant.braked]
    assert bench.plant.state.omega > 1.0
    bench.wait(1.0)
    assert np.ptp(bench.plant.joint_angle()[-100:]) < 1e-6
    assert bench.plant.powered() is False
    assert abs(bench.plant.torque_nm()) < 1e-9
    assert bench.plant.voltage_v() == 0.0
    assert events == [False]
    assert [*braked, bench.plant.braked] == [False, True]


def test_the_brake_carries_the_arm_it_starts_with() -> None:
    truth = replace(PENDULUM, load=replace(PENDULUM.load, start_angle=1.0))
    bench = Bench(truth, powered=False)
    bench.wait(0.5)
    assert np.ptp(bench.plant.joint_angle()) < 1e-6
    assert bench.plant.joint_torque()[-1] == pytest.approx(2.5 * math.sin(1.0), rel=1e-6)
    bench.plant.set_power(True)
    bench.wait(2.0)
    assert bench.plant.joint_angle()[-1] < 0.9  # powered without a command it falls


def test_a_short_loss_of_power_does_not_leave_the_brake_on() -> None:
    bench = Bench()
    bench.wait(0.1)
    bench.plant.set_power(False)
    bench.wait(0.01)
    bench.plant.set_power(True)
    bench.wait(0.1)
    assert not bench.plant.braked


def test_hard_stops_hold_the_link() -> None:
    bench = Bench(replace(IDEAL, hard_stop_max=0.3, load=LoadTruth(inertia=1.8)))
    bench.torque(0.2)
    bench.wait(2.0)
    q = bench.plant.joint_angle()
    assert q.max() < 0.32
    assert q[-1] == pytest.approx(0.301, abs=1e-3)


def test_friction_warms_the_joint_and_falls_with_it() -> None:
    bench = Bench(replace(IDEAL, friction=FrictionTruth(temperature_coefficient=0.004)))
    bench.plant.command(0.0, 4.0, 0.1, 0.0, 5.0, FULL_TORQUE)
    bench.wait(2.0)
    bench.plant.heat(5.0)
    bench.wait(3.0)
    bench.plant.heat(0.0)
    bench.wait(1.0)
    temperature, torque = bench.plant.temperature(), bench.plant.motor_torque()
    change = temperature[-1] - temperature[1900]
    assert change == pytest.approx(15.0, abs=0.2)
    assert torque[-100:].mean() / torque[1850:1950].mean() == pytest.approx(1.0 - 0.004 * change, rel=1e-3)


def test_what_the_copper_burns_warms_the_joint() -> None:
    bench = Bench(replace(PENDULUM, thermal=ThermalTruth(housing_time_s=2.0), load=LoadTruth(locked=True)))
    bench.torque(0.1)  # (0.1 / 0.1)² = 1 W through 1.5 K/W
    bench.wait(10.0)
    assert bench.plant.temperature_degc() == pytest.approx(26.5, abs=0.02)
    assert 26.6 < bench.plant.motor_temperature_degc() < 27.5


def test_what_befalls_the_joint() -> None:
    bench = Bench()
    codes: list[int] = []
    bench.plant.on_fault(codes.append)
    bench.plant.raise_fault(33)
    bench.plant.scale_friction(2.0)
    bench.plant.set_backlash(1e-3)
    bench.plant.heat(2.0)
    bench.wait(1.0)
    assert codes == [33]
    assert bench.plant.truth.friction.coulomb == 2.4
    assert bench.plant.truth.gear.backlash == 1e-3
    assert bench.plant.temperature_degc() == pytest.approx(27.0, abs=0.01)


@pytest.mark.parametrize("phase_ns", [0, 1, 137_000, 500_000, 999_000])
def test_commands_at_any_phase_of_a_tick_leave_the_torque_right(phase_ns: int) -> None:
    """A loop of 500 Hz, against the same with sixteen substeps a tick: short and long steps in turn cost nothing."""
    gear = GearTruth(hysteresis_torque=0.25, backlash=2e-5)
    truth = replace(PENDULUM, gear=gear, friction=FrictionTruth(load_coefficient=0.01), drive=DriveTruth(ripple=0.02))
    torques = []
    for substeps in (1, 16):
        bench = Bench(truth)
        bench.plant.substeps = substeps
        bench.wait_until(100_000_000 + phase_ns)
        for n in range(250):
            bench.torque(0.04 * math.sin(0.02 * n))
            bench.wait(0.002)
        torques.append(bench.plant.joint_torque().copy())
    assert np.abs(torques[0] - torques[1]).max() < 2e-3 * np.abs(torques[1]).max()


def looped(idle: float) -> tuple[Bench, int]:
    """A control loop with what disturbs one; ``idle`` is how often the world has time to work ahead."""
    bench = Bench()
    rng = np.random.default_rng(3)
    bench.wait(0.2)
    begun_ns, worked = bench.world.now_ns, 0
    for k in range(400):
        late = 137_000 if k % 50 == 7 else 0
        bench.wait_until(begun_ns + 2_000_000 * k + 400_000 + late)
        if k == 150:
            bench.plant.command(0.0, 40.0, 0.4, bench.plant.position_rev(), 0.1, FULL_TORQUE)
        else:
            bench.torque(0.05 if k // 40 % 2 else -0.05)
        bench.wait(0.4e-3)
        bench.plant.position_rev()
        if rng.random() < idle:
            bench.world.work_ahead()
            worked += bool(bench.plant._ahead)
        if k == 200:
            bench.plant.scale_friction(1.3)
        if k == 300:
            bench.wait(0.5e-3)
            bench.plant.set_power(False)
            bench.plant.set_power(True)
    return bench, worked


def test_what_is_worked_ahead_is_what_would_have_been_computed_later() -> None:
    lazy, none = looped(0.0)
    eager, always = looped(1.0)
    some, sometimes = looped(0.5)
    assert none == 0
    assert always > 350
    assert 100 < sometimes < 300
    for column in ("motor_angle", "joint_angle", "joint_torque", "motor_torque", "temperature"):
        expected = getattr(lazy.plant, column)()
        assert np.ptp(expected) > 0.0
        assert np.array_equal(getattr(eager.plant, column)(), expected)
        assert np.array_equal(getattr(some.plant, column)(), expected)


def test_a_plant_that_is_not_commanded_evenly_does_not_work_ahead() -> None:
    bench = Bench()
    bench.torque(0.02)
    bench.wait(0.1)
    bench.torque(0.02)
    bench.world.work_ahead()
    assert not bench.plant._ahead
    bench.wait(0.002)
    bench.torque(0.02)
    bench.world.work_ahead()
    assert [time_ns for time_ns, _, _ in bench.plant._ahead] == [103_000_000, 104_000_000]
