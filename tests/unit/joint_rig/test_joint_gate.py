"""The torque gate: what it refuses never reaches the drive, what a reply shows ends the run, and no way round it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench.errors import InstrumentDisconnected, InstrumentError, LimitError, SafetyAbort
from bench.instruments.protocols import DriveState, Identity, JointDrive
from bench.safety import GatedDrive, Interlock, JointLimits, enter_safe_state
from bench.safety.safe_state import SafeStateReport
from bench.station import stop_unwatched

LIMITS = JointLimits(torque_nm=20.0, speed_rad_s=3.0, travel_min_rad=-1.0, travel_max_rad=1.5, temperature_degc=60.0)
TORQUE = {"command_torque"}
HARMLESS = {"identify", "state", "stop", "brake", "clear_fault", "arm_watchdog", "close"}
OWN = {"torque", "narrow", "refer", "angle", "check_travel", "latch", "unlatch"}
REST = DriveState(7.0, 0.0, 0.0, 25.0, math.nan, 24.0, 0, 0)


class Line:
    def __init__(self, level: bool) -> None:
        self.level = level

    def read(self) -> bool:
        return self.level

    def write(self, level: bool) -> None:
        self.level = level

    def close(self) -> None:
        pass


class Drive:
    """Remembers what reached it; ``reply`` is what it answers."""

    def __init__(self) -> None:
        self.commands: list[float] = []
        self.calls: list[str] = []
        self.reply = REST
        self.gone = False

    def _answer(self, call: str) -> DriveState:
        self.calls.append(call)
        if self.gone:
            raise InstrumentDisconnected("the port is gone", where="drive")
        return self.reply

    def identify(self) -> Identity:
        return Identity("drive", "recording", "1")

    def arm_watchdog(self, timeout_s: float) -> None:
        self.calls.append(f"watchdog {timeout_s:g}")

    def command_torque(self, torque_nm: float) -> DriveState:
        self.commands.append(torque_nm)
        return self._answer("torque")

    def state(self) -> DriveState:
        return self._answer("state")

    def stop(self) -> DriveState:
        return self._answer("stop")

    def brake(self) -> DriveState:
        return self._answer("brake")

    def clear_fault(self) -> DriveState:
        return self._answer("clear")

    def close(self) -> None:
        self.calls.append("close")


class StepClock:
    simulated = True
    time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.time_ns = max(self.time_ns, deadline_ns)


class Rig:
    def __init__(self, direction: int = 1) -> None:
        self.drive = Drive()
        self.estop, self.enable = Line(True), Line(False)
        self.interlock = Interlock(self.estop, self.enable)
        self.gate = GatedDrive(self.drive, self.interlock, LIMITS, gear_ratio=100.0, direction=direction)
        self.gate.refer(REST, 0.0)
        self.interlock.energise()

    def safe_state(self, reason: str = "torque_limit", **options: Any) -> SafeStateReport:
        return enter_safe_state(self.gate, self.interlock, StepClock(), reason=reason, **options)


@pytest.fixture
def rig() -> Rig:
    return Rig()


# -- what goes out


@pytest.mark.parametrize("direction", [1, -1])
def test_a_joint_torque_becomes_the_rotors(direction: int) -> None:
    rig = Rig(direction)
    rig.gate.torque(12.5)
    assert rig.drive.commands == [direction * 0.125]
    turned = replace(REST, rotor_angle_rad=REST.rotor_angle_rad + direction * 50.0)
    assert rig.gate.angle(turned) == pytest.approx(0.5)


@pytest.mark.parametrize(
    ("torque", "reason"),
    [
        (20.001, "torque_limit"),
        (-20.001, "torque_limit"),
        (math.nan, "bad_command"),
        (math.inf, "bad_command"),
        (-math.inf, "bad_command"),
    ],
)
def test_a_torque_outside_the_limits_is_refused_before_the_drive(rig: Rig, torque: float, reason: str) -> None:
    with pytest.raises(LimitError) as refused:
        rig.gate.torque(torque)
    assert refused.value.reason == reason
    assert rig.drive.commands == []


def test_a_torque_at_the_limit_passes(rig: Rig) -> None:
    rig.gate.torque(20.0)
    rig.gate.torque(-20.0)
    assert rig.drive.commands == [0.2, -0.2]


def test_nothing_is_driven_while_the_enable_line_is_low_or_the_gate_shut(rig: Rig) -> None:
    rig.interlock.drop()
    for command in (lambda: rig.gate.torque(0.0), rig.gate.clear_fault):
        with pytest.raises(LimitError, match="enable line is low"):
            command()
    rig.interlock.energise()
    rig.gate.latch("estop")
    rig.gate.latch("something later")
    for command in (lambda: rig.gate.torque(0.0), rig.gate.clear_fault):
        with pytest.raises(LimitError, match="estop") as refused:
            command()
        assert refused.value.reason == "latched"
    assert rig.drive.calls == []
    rig.gate.unlatch()
    rig.gate.torque(0.0)
    assert rig.drive.commands == [0.0]


def test_what_is_mounted_can_only_lower_the_torque_limit(rig: Rig) -> None:
    rig.gate.narrow(5.0)
    with pytest.raises(LimitError, match=r"limit of 5 N\.m"):
        rig.gate.torque(5.1)
    rig.gate.narrow(100.0)
    assert rig.gate.limits == LIMITS
    rig.gate.narrow(5.0)
    rig.gate.latch("tried")
    rig.gate.unlatch()
    assert rig.gate.limits == LIMITS


def test_limits_that_are_none_are_refused() -> None:
    for change in (
        {"torque_nm": 0.0},
        {"torque_nm": math.nan},
        {"speed_rad_s": -1.0},
        {"travel_min_rad": 1.5},
        {"temperature_degc": math.inf},
    ):
        with pytest.raises(LimitError, match="no limits of a joint"):
            replace(LIMITS, **change)


# -- what comes back


@pytest.mark.parametrize("direction", [1, -1])
@pytest.mark.parametrize(
    ("change", "reason", "told"),
    [
        ({"rotor_velocity_rad_s": 301.0}, "speed_limit", "3.01 rad/s, limit 3 rad/s"),
        ({"rotor_velocity_rad_s": -301.0}, "speed_limit", "3.01 rad/s, limit 3 rad/s"),
        ({"rotor_angle_rad": 7.0 + 151.0}, "travel_limit", "1.51 rad, limits -1 … 1.5 rad"),
        ({"rotor_angle_rad": 7.0 - 101.0}, "travel_limit", "-1.01 rad, limits -1 … 1.5 rad"),
        ({"temperature_degc": 60.0}, "temperature_limit", "board is at 60.0 degC, limit 60 degC"),
        ({"temperature_degc": math.nan}, "temperature_limit", "board"),
        ({"motor_temperature_degc": 80.0}, "temperature_limit", "motor is at 80.0 degC"),
    ],
)
def test_a_reply_beyond_a_limit_ends_the_run(direction: int, change: dict[str, float], reason: str, told: str) -> None:
    rig = Rig(direction)
    if "rotor_angle_rad" in change:
        change = {"rotor_angle_rad": 7.0 + direction * (change["rotor_angle_rad"] - 7.0)}
    rig.drive.reply = replace(REST, **change)
    with pytest.raises(SafetyAbort) as stopped:
        rig.gate.torque(1.0)
    assert stopped.value.reason == reason
    assert told in str(stopped.value)


@pytest.mark.parametrize("name", ["rotor_angle_rad", "rotor_velocity_rad_s"])
def test_a_reply_that_is_no_number_is_the_drives_error(rig: Rig, name: str) -> None:
    rig.drive.reply = replace(REST, **{name: math.nan})
    with pytest.raises(InstrumentError, match="Check the drive's encoder"):
        rig.gate.torque(1.0)


def test_the_joint_encoder_has_the_same_travel(rig: Rig) -> None:
    rig.gate.check_travel(1.5, 3.0)
    for angle in (1.51, -1.01, math.nan):
        with pytest.raises(SafetyAbort, match=r"joint encoder shows .* at 3\.000 s") as stopped:
            rig.gate.check_travel(angle, 3.0)
        assert stopped.value.reason == "travel_limit"


# -- no way round


def test_the_gate_knows_every_method_of_a_drive() -> None:
    """A method added to the protocol must be sorted into driving or harmless here, and gated if it drives."""
    methods = {name for name, _ in inspect.getmembers(JointDrive, inspect.isfunction) if not name.startswith("_")}
    assert methods == TORQUE | HARMLESS
    own = {name for name, _ in inspect.getmembers(GatedDrive, inspect.isfunction) if not name.startswith("_")}
    assert own == HARMLESS | OWN
    assert not isinstance(Rig().gate, JointDrive), "a rotor torque cannot be commanded through the gate"


def test_no_public_name_of_the_gate_hands_out_the_driver(rig: Rig) -> None:
    for name in dir(rig.gate):
        if not name.startswith("_"):
            value = getattr(rig.gate, name)
            assert value is not rig.drive
            assert getattr(value, "__self__", rig.gate) is rig.gate, f"{name} is a method of the driver itself"


def test_nothing_a_procedure_can_reach_drives_around_the_gate(
    bench: Any, reachable: Callable[[object], list[tuple[str, object]]]
) -> None:
    station = bench.station
    station.clock = StepClock()  # the fake joint is its own clock: a real clock drives nothing
    found = reachable(station)
    assert any(item is station.drive for _, item in found)
    assert len(found) > 15
    for path, item in found:
        if isinstance(item, (GatedDrive, Path)):
            continue
        assert not isinstance(item, JointDrive), f"{path} hands out a drive that is not gated"
        assert not hasattr(item, "command_torque"), f"{path} can command a torque"
    with pytest.raises(LimitError, match="belongs to the interlock"):
        station.daq.digital_output(station.rig.safety.enable_line)


# -- safe state


def test_the_safe_state_stops_the_drive_drops_the_line_and_sees_the_joint_stand(rig: Rig) -> None:
    report = rig.safe_state()
    assert report.safe, str(report)
    assert rig.drive.calls[0] == "stop"
    assert not rig.enable.level
    assert rig.gate.latched == "torque_limit"
    assert [step.name for step in report.steps] == [
        "stop drive",
        "drop enable line",
        "read drive back",
        "stand seen by the controller",
    ]
    assert rig.drive.commands == []


def test_a_drive_that_still_makes_torque_is_not_safe(rig: Rig) -> None:
    rig.drive.reply = replace(REST, mode=10, rotor_torque_nm=0.05)
    report = rig.safe_state(witness=lambda: 0.0)
    assert not report.safe
    assert "read drive back: FAILED mode 10 with 0.05 N.m" in str(report)


def test_a_joint_that_turns_on_is_not_safe(rig: Rig) -> None:
    report = rig.safe_state(witness=lambda: 0.03)
    assert not report.safe
    assert "moved 30.00 mrad" in str(report)


def test_a_drive_without_supply_leaves_the_line_and_the_joint_encoder(rig: Rig) -> None:
    rig.drive.gone = True
    report = rig.safe_state("instrument_disconnected", witness=lambda: 0.0)
    assert report.safe, str(report)
    assert "no answer, as without its supply" in str(report)
    assert not rig.safe_state("instrument_disconnected").safe, "nobody saw the joint stand"

    def broken() -> float:
        raise OSError("no acquisition")

    second = rig.safe_state("instrument_disconnected", witness=broken, further_witnesses=(lambda: 0.0,))
    assert second.safe, str(second)


# -- the station


def test_a_joint_station_is_ready_with_its_watchdog_armed_and_closes_safe(bench: Any) -> None:
    joint, station = bench.joint, bench.station
    assert joint.powered
    assert "watchdog 0.1" in joint.log
    assert joint.time_ns >= 100_000_000, "the brake was given its time"
    assert station.drive.angle(joint.state()) == pytest.approx(0.0)
    assert {name: identity.serial_number for name, identity in station.identities.items()} == {
        "drive": "6A0F2D11-3B7C4E58-90A1B2C3",
        "daq": "01F2A3B5",
        "torque_transducer": "TT2201",
        "encoder": station.rig.encoder.serial_number or "",
    }
    station._leave()
    assert not joint.powered
    assert station.drive.latched == "closed"


@pytest.mark.parametrize(
    ("attribute", "value", "told"),
    [
        ("temperature", 61.0, "61 degC and its motor"),
        ("temperature", math.nan, "nan degC"),
        ("fault", 33, "with fault 33"),
    ],
)
def test_a_drive_that_does_not_come_up_well_is_refused(
    bench: Any, monkeypatch: pytest.MonkeyPatch, attribute: str, value: float, told: str
) -> None:
    setattr(bench.joint, attribute, value)
    monkeypatch.setattr(bench.joint, "stop", bench.joint.state)  # a fault that persists
    with pytest.raises(InstrumentError, match=told):
        bench.station.make_ready()


def test_nothing_is_made_ready_while_the_estop_is_pressed(bench: Any) -> None:
    bench.station.make_safe("tried")
    bench.joint.estop = False
    with pytest.raises(SafetyAbort, match="e-stop is pressed"):
        bench.station.make_ready()
    assert not bench.joint.powered
    assert bench.station.latched == "tried"


@pytest.mark.parametrize(("attribute", "value"), [("mode", 10), ("speed", 0.2), ("powered", False)])
def test_a_joint_that_is_driven_or_turns_while_nobody_watches_is_made_safe(
    bench: Any, attribute: str, value: float
) -> None:
    assert not stop_unwatched(bench.station)
    assert not bench.station.latched
    setattr(bench.joint, attribute, value)
    assert stop_unwatched(bench.station)
    assert not bench.joint.powered
    assert bench.station.latched == "unwatched_motion"
    assert not stop_unwatched(bench.station), "once is enough"


def test_with_a_dead_drive_the_station_watches_the_joint_encoder_itself(bench: Any) -> None:
    bench.joint.next_reply = InstrumentDisconnected("the port is gone", where="drive")
    report = bench.station.make_safe("instrument_disconnected")
    assert report.safe, str(report)
    assert "stand seen by the encoder: ok" in str(report)
    assert "acquisition closed" in bench.joint.log


def test_an_acquisition_that_was_left_open_does_not_blind_the_station(bench: Any) -> None:
    bench.station.acquisition(initial_rad=0.0).start()
    bench.joint.next_reply = InstrumentDisconnected("the port is gone", where="drive")
    assert bench.station.make_safe("bench_error").safe
    assert bench.joint.log.count("acquisition closed") == 2
