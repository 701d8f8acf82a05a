"""The gate of an arm: what it refuses never reaches a servo, what a reply shows ends the run, and no way round it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.errors import InstrumentDisconnected, LimitError, SafetyAbort
from bench.instruments.protocols import ArmDrives, ArmState
from bench.models.drivetrain import Drivetrain
from bench.safety.arm_axes import ArmAxes
from bench.safety.arm_gate import GatedArm
from bench.safety.limits import ArmLimits
from bench.station import stop_unwatched
from bench.station_arm import arm_limits

#: Of the servos' own methods: those that can make an arm move, and those that cannot.
MOVING = {"write_currents", "torque_enable"}
HARMLESS = {"identify", "read", "health", "condition", "stop", "clear_faults", "arm_watchdog", "on_silence", "close"}
OWN = {
    "torques", "reading", "check_health", "check_condition", "weight", "carry", "narrow", "latch", "unlatch",
    "open_brakes", "close_brakes",
}  # fmt: skip


@pytest.fixture
def gate(bench: Any) -> GatedArm:
    """The gate of the fake arm, its motors on."""
    found: GatedArm = bench.station.arm
    found.torque_enable(True)
    return found


def hold(bench: Any) -> list[float]:
    weight: list[float] = bench.station.arm.weight(bench.arm.q).tolist()
    return weight


# -- what goes out


def test_joint_torques_become_motor_currents(bench: Any, gate: GatedArm) -> None:
    sent = gate.torques([4.8, 9.6, 6.9, 4.6, 6.8, 5.1])
    assert sent == pytest.approx([1.0] * 6)
    assert bench.arm.commands[-1] == sent
    assert gate.reading().torque_nm == pytest.approx([4.8, 9.6, 6.9, 4.6, 6.8, 5.1])


def test_coupled_axes_share_a_torque() -> None:
    drives = Drivetrain(
        gear_ratio=np.array([2.0, 4.0]),
        direction=np.array([1.0, -1.0]),
        coupling=np.array([[1.0, 0.0], [-1.0, 1.0]]),
        offset=np.array([0.1, 0.0]),
        motor_inertia=np.zeros(2),
        torque_constant=np.array([3.0, 5.0]),
    )
    axes = ArmAxes(drives, [0.5, 0.0])
    assert not axes.straight
    found = axes.reading(ArmState([1.5, -0.8], [2.0, 4.0], [1.0, 2.0]))
    assert found.shaft_rad == [1.0, -0.8]
    assert found.position_rad == pytest.approx([0.6, -0.3])
    assert found.velocity_rad_s == pytest.approx([1.0, -2.0])
    assert axes.currents(found.torque_nm) == pytest.approx([1.0, 2.0])


@pytest.mark.parametrize(
    ("torque", "reason"),
    [(30.01, "torque_limit"), (-30.01, "torque_limit"), (math.nan, "bad_command"), (math.inf, "bad_command")],
)
def test_a_torque_that_is_none_or_too_much_reaches_no_servo(
    bench: Any, gate: GatedArm, torque: float, reason: str
) -> None:
    before = len(bench.arm.commands)
    with pytest.raises(LimitError, match="joint elbow") as refused:
        gate.torques([0.0, 0.0, torque, 0.0, 0.0, 0.0])
    assert refused.value.reason == reason
    assert len(bench.arm.commands) == before


def test_the_limit_is_the_peak_torque_over_its_factor_or_what_the_current_makes(bench: Any) -> None:
    limits = arm_limits(bench.rig)
    assert limits.torque_nm == pytest.approx((40.0, 75.0, 30.0, 22.5, 8.0, 6.0))
    weak = [servo.model_copy(update={"max_current": servo.max_current}) for servo in bench.rig.servos]
    for servo in weak:
        object.__setattr__(servo, "max_current", replace(servo.max_current, magnitude=1.0))
    rig = bench.rig.model_copy(update={"servos": tuple(weak)})
    assert arm_limits(rig).torque_nm == pytest.approx((4.8, 9.6, 6.9, 4.6, 6.8, 5.1))


def test_nothing_is_driven_while_latched_or_without_the_enable_line(bench: Any, gate: GatedArm) -> None:
    gate.torques([0.0] * 6)
    gate.latch("first")
    gate.latch("second")
    for action in (lambda: gate.torques([0.0] * 6), lambda: gate.torque_enable(True), gate.open_brakes):
        with pytest.raises(LimitError, match=r"stopped \(first\)"):
            action()
    gate.unlatch()
    bench.station.interlock.drop()
    for action in (lambda: gate.torques([0.0] * 6), lambda: gate.torque_enable(True), gate.open_brakes):
        with pytest.raises(LimitError) as refused:
            action()
        assert refused.value.reason == "not_enabled"
    assert not bench.arm.brake


def test_limits_are_only_made_narrower(gate: GatedArm) -> None:
    gate.narrow(20.0)
    assert gate.limits.force_n == 20.0
    gate.narrow(80.0)
    assert gate.limits.force_n == gate.rig_limits.force_n == 60.0


@pytest.mark.parametrize(
    "change",
    [
        {"torque_nm": (0.0,) * 6},
        {"speed_rad_s": (1.0,) * 5},
        {"position_max_rad": (-3.0,) * 6},
        {"force_n": math.nan},
        {"position_min_rad": (-math.inf,) * 6},
    ],
)
def test_limits_that_are_none_are_refused(bench: Any, change: dict[str, Any]) -> None:
    with pytest.raises(LimitError) as refused:
        replace(arm_limits(bench.rig), **change)
    assert refused.value.reason == "bad_limits"


# -- brakes


def test_brakes_open_only_right_after_a_torque(bench: Any, gate: GatedArm) -> None:
    for prepare in (
        lambda: None,
        lambda: (gate.torques(hold(bench)), bench.arm.sleep_until_ns(bench.arm.time_ns + 60_000_000)),
    ):
        prepare()
        with pytest.raises(LimitError) as refused:
            gate.open_brakes()
        assert refused.value.reason == "brakes_without_torque"
    gate.torques(hold(bench))
    gate.open_brakes()
    assert gate.brakes_open
    assert bench.arm.brake


def test_motors_are_not_switched_off_under_open_brakes(bench: Any, gate: GatedArm) -> None:
    gate.torques(hold(bench))
    gate.open_brakes()
    with pytest.raises(LimitError) as refused:
        gate.torque_enable(False)
    assert refused.value.reason == "brakes_open"
    assert bench.arm.on


def test_a_stop_holds_the_weight_until_the_brakes_have_closed(bench: Any, gate: GatedArm) -> None:
    for _ in range(30):
        gate.torques(hold(bench))
        if not gate.brakes_open:
            gate.open_brakes()
        bench.arm.sleep_until_ns(bench.arm.time_ns + 4_000_000)
    before, count, began = bench.arm.q.copy(), len(bench.arm.commands), bench.arm.time_ns
    gate.stop()
    assert bench.arm.unheld == []
    assert bench.arm.braked
    assert not bench.arm.on
    assert len(bench.arm.commands) - count >= 10, "again and again, so that no watchdog trips"
    assert bench.arm.q == pytest.approx(before, abs=1e-3)
    assert bench.arm.time_ns - began < 400_000_000
    assert gate.stand.position() == pytest.approx(0.0)


# -- what a reply shows


@pytest.mark.parametrize(
    ("joint", "angle", "told"),
    [(0, 2.8, r"joint base is at 160\.4 deg, limits -160"), (4, math.nan, "joint wrist is at nan deg")],
)
def test_a_joint_beyond_its_travel_ends_the_run(
    bench: Any, gate: GatedArm, joint: int, angle: float, told: str
) -> None:
    bench.arm.q[joint] = angle
    with pytest.raises(SafetyAbort, match=told) as stopped:
        gate.read()
    assert stopped.value.reason == "travel_limit"


def test_a_joint_that_turns_too_fast_ends_the_run(bench: Any, gate: GatedArm) -> None:
    bench.arm.stuck = {}
    bench.arm._answer = lambda: None
    bench.arm.v[1] = -1.6
    bench.arm.braked = False
    with pytest.raises(SafetyAbort, match=r"joint shoulder turns at -1\.6 rad/s, limit 1\.5 rad/s") as stopped:
        gate.read()
    assert stopped.value.reason == "speed_limit"


def test_the_tip_stays_in_its_box_and_below_its_speed(bench: Any) -> None:
    low = replace(bench.station.arm.rig_limits, box_min_m=(-0.75, -0.75, 0.6))
    slow = replace(bench.station.arm.rig_limits, tip_speed_m_s=0.05)
    for limits, reason, told in (
        (low, "workspace_box", r"the tip is at \(\d+, -?\d+, 4\d\d\) mm, outside the workspace box"),
        (slow, "tip_speed_limit", r"the tip moves at 0\.\d+ m/s, limit 0\.05 m/s"),
    ):
        gate = GatedArm(
            bench.arm,
            bench.station.interlock,
            bench.station.arm._brake,
            limits,
            bench.station.arm.drivetrain,
            zero_rad=[0.0] * 6,
            clock=bench.arm,
            brake_time_s=0.1,
        )
        gate.read()  # nobody has said what the arm is
        gate.carry(bench.station.model)
        bench.arm._answer = lambda: None
        bench.arm.v[0] = 0.5
        with pytest.raises(SafetyAbort, match=told) as stopped:
            gate.read()
        assert stopped.value.reason == reason


@pytest.mark.parametrize(
    ("attribute", "value", "reason", "told"),
    [
        ("temperature", [25.0] * 5 + [65.0], "temperature_limit", "joint flange is at 65 degC, limit 65 degC"),
        ("temperature", [math.nan] * 6, "temperature_limit", "joint base is at nan degC"),
        ("hardware_error", [0, 0, 32, 0, 0, 0], "drive_fault", "joint elbow reports hardware error 0x20"),
        ("tripped", True, "drive_watchdog", "joint base was stopped by its bus watchdog"),
    ],
)
def test_a_servo_that_is_not_well_is_named(
    bench: Any, gate: GatedArm, attribute: str, value: object, reason: str, told: str
) -> None:
    gate.check_health()
    setattr(bench.arm, attribute, value)
    with pytest.raises(SafetyAbort, match=told) as stopped:
        gate.check_health()
    assert stopped.value.reason == reason


# -- where the shafts are


def test_servos_that_count_anew_are_found_where_they_were_seen_last(bench: Any, gate: GatedArm) -> None:
    bench.arm.q[1] = 1.7  # 195 deg of the shaft: beyond half a turn
    assert gate.reading().position_rad[1] == pytest.approx(1.7)
    bench.station.make_safe("tried")
    read = bench.arm.read

    def within_a_turn() -> ArmState:
        state = read()
        state.position_rad[1] -= 2 * math.pi
        return state

    bench.arm.read = within_a_turn
    bench.station.make_ready()
    assert gate.reading().position_rad[1] == pytest.approx(1.7)


def test_at_first_the_shafts_are_within_half_a_turn_of_their_zeros(bench: Any) -> None:
    axes = ArmAxes(bench.station.arm.drivetrain, [math.pi] * 6)
    state = ArmState([0.1, 3.0, 6.0, 3.2, 3.1, 6.2], [0.0] * 6, [0.0] * 6)
    axes.refer(state, None)
    assert axes.reading(state).shaft_rad == pytest.approx([x - math.pi for x in state.position_rad])
    wrapped = ArmState([0.1 - 2 * math.pi, *state.position_rad[1:]], [0.0] * 6, [0.0] * 6)
    axes.refer(wrapped, None)
    assert axes.reading(wrapped).shaft_rad == pytest.approx([x - math.pi for x in state.position_rad])


# -- no way round it


def test_the_gate_knows_every_method_of_the_servos() -> None:
    """A new method of a driver has to be sorted: does it drive, or is it harmless?"""
    methods = {name for name, _ in inspect.getmembers(ArmDrives, inspect.isfunction) if not name.startswith("_")}
    assert methods == MOVING | HARMLESS
    own = {name for name, _ in inspect.getmembers(GatedArm, inspect.isfunction) if not name.startswith("_")}
    passed = {"torque_enable"} | HARMLESS - {"condition", "on_silence"}
    assert own == passed | OWN


def test_nothing_a_procedure_can_reach_drives_around_the_gate(
    bench: Any, reachable: Callable[[object], list[tuple[str, object]]]
) -> None:
    for path, item in reachable(bench.station):
        assert item is not bench.arm or path.endswith(".clock"), path
        assert type(item).__name__ != "Line", path
    with pytest.raises(LimitError, match="belongs to the interlock"):
        bench.station.daq.digital_output("Dev1/port0/line2")


def test_every_call_that_can_move_the_arm_is_refused_when_latched(bench: Any, gate: GatedArm) -> None:
    gate.latch("shut")
    count = len(bench.arm.commands)
    moving = {"torques": ([0.0] * 6,), "torque_enable": (True,), "open_brakes": (), "clear_faults": ()}
    for name, arguments in moving.items():
        with pytest.raises(LimitError):
            getattr(gate, name)(*arguments)
    assert len(bench.arm.commands) == count
    assert not bench.arm.brake


# -- the station


def test_an_arm_station_is_ready_with_its_brakes_closed_and_closes_safe(bench: Any) -> None:
    arm, station = bench.arm, bench.station
    assert arm.log[:4] == ["brake False", "enable True", "clear", "watchdog 0.1"]
    assert arm.braked
    assert not arm.on
    assert [identity.model for name, identity in station.identities.items() if name.startswith("servo")] == [
        "PH54-200-S500"
    ] * 6
    assert station.identities["force_sensor"].serial_number == "FT90002"
    station._leave()
    assert not arm.powered
    assert station.latched == "closed"


@pytest.mark.parametrize(
    ("prepare", "told"),
    [
        (lambda arm: setattr(arm, "temperature", [70.0] * 6), "joint base is at 70 degC"),
        (lambda arm: arm.hardware_error.__setitem__(3, 1), "joint forearm reports hardware error 0x01"),
    ],
)
def test_servos_that_do_not_come_up_well_are_refused(bench: Any, prepare: Callable[[Any], None], told: str) -> None:
    prepare(bench.arm)
    with pytest.raises(SafetyAbort, match=told):
        bench.station.make_ready()


def test_nothing_is_made_ready_while_the_estop_is_pressed(bench: Any) -> None:
    bench.station.make_safe("tried")
    bench.arm.estop = False
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        bench.station.make_ready()
    assert not bench.arm.powered
    assert bench.station.latched == "tried"


def test_open_brakes_that_nobody_watches_are_closed(bench: Any, gate: GatedArm) -> None:
    assert not stop_unwatched(bench.station)
    gate.torques(hold(bench))
    gate.open_brakes()
    assert stop_unwatched(bench.station)
    assert not bench.arm.brake
    assert not bench.arm.powered
    assert bench.station.latched == "unwatched_motion"


def test_an_arm_that_sinks_in_its_brakes_is_not_safe(bench: Any, gate: GatedArm) -> None:
    gate.torques(hold(bench))

    def sink() -> None:
        bench.arm.force[2] += 3.0
        bench.arm.at[bench.arm.time_ns * 1e-9 + 0.05] = sink

    sink()
    report = bench.station.make_safe("tried")
    assert not report.safe
    assert "stand felt by the sensor: FAILED changed by" in str(report)


def test_without_a_wrist_sensor_the_servos_are_the_witnesses(
    bench: Any, gate: GatedArm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise InstrumentDisconnected("the DAQ is gone", where="Dev1")

    monkeypatch.setattr(bench.daq, "acquisition", broken)
    gate.torques(hold(bench))
    report = bench.station.make_safe("tried")
    assert "stand felt by the sensor: FAILED InstrumentDisconnected" in str(report)
    assert isinstance(gate.limits, ArmLimits)
