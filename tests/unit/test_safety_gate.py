"""The limits gate: what it refuses never reaches the device, and there is no way round it."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

from bench.errors import InstrumentError, LimitError, SafetyAbort
from bench.instruments.protocols import Daq, Identity, LinearStage
from bench.safety import ForceWatch, GatedStage, GuardedDaq, Interlock, LoadLimits, MotionLimits, enter_safe_state

LIMITS = MotionLimits(travel_min_mm=0.0, travel_max_mm=50.0, speed_mm_s=10.0)
MOTION = {"home", "start_move", "arm_travel_limits", "clear_faults"}
HARMLESS = {"identify", "is_homed", "position_mm", "is_moving", "wait_idle", "stop", "close"}


class Line:
    """A digital line: what is written can be read."""

    def __init__(self, level: bool) -> None:
        self.level = level
        self.broken = False
        self.stuck: bool | None = None
        self.written: list[bool] = []

    def read(self) -> bool:
        return self.level if self.stuck is None else self.stuck

    def write(self, level: bool) -> None:
        if self.broken:
            raise OSError("line does not answer")
        self.level = level
        self.written.append(level)

    def close(self) -> None:
        self.level = False


class RecordingStage:
    """Remembers every command that reached the device."""

    def __init__(self) -> None:
        self.commands: list[tuple[str, tuple[float, ...]]] = []
        self.homed = True
        self.creep_mm = 0.0
        self._position = 3.0

    def identify(self) -> Identity:
        return Identity("stage", "recording", "1")

    def home(self) -> None:
        self.commands.append(("home", ()))

    def clear_faults(self) -> None:
        self.commands.append(("clear_faults", ()))

    def is_homed(self) -> bool:
        return self.homed

    def position_mm(self) -> float:
        self._position += self.creep_mm
        return self._position

    def is_moving(self) -> bool:
        return False

    def start_move(self, position_mm: float, speed_mm_s: float) -> float:
        self.commands.append(("start_move", (position_mm, speed_mm_s)))
        return 1.0

    def wait_idle(self, timeout_s: float) -> None:
        pass

    def stop(self) -> None:
        self.commands.append(("stop", ()))

    def arm_travel_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        self.commands.append(("arm_travel_limits", (minimum_mm, maximum_mm)))

    def close(self) -> None:
        pass


class StepClock:
    """Time that passes only when slept."""

    simulated = True

    def __init__(self) -> None:
        self.time_ns = 0

    def now_ns(self) -> int:
        return self.time_ns

    def sleep_until_ns(self, deadline_ns: int) -> None:
        self.time_ns = max(self.time_ns, deadline_ns)


class Rig:
    def __init__(self) -> None:
        self.device = RecordingStage()
        self.estop = Line(True)
        self.enable = Line(False)
        self.interlock = Interlock(self.estop, self.enable)
        self.gate = GatedStage(self.device, self.interlock, LIMITS)


@pytest.fixture
def rig() -> Rig:
    rig = Rig()
    rig.interlock.energise()
    return rig


def test_a_command_inside_the_limits_reaches_the_device(rig: Rig) -> None:
    assert rig.gate.start_move(20.0, 2.0) == 1.0
    assert rig.device.commands == [("start_move", (20.0, 2.0))]


@pytest.mark.parametrize(
    ("position", "speed", "reason"),
    [
        (50.001, 2.0, "travel_limit"),
        (-0.001, 2.0, "travel_limit"),
        (20.0, 10.001, "speed_limit"),
        (20.0, 0.0, "speed_limit"),
        (20.0, -2.0, "speed_limit"),
        (math.nan, 2.0, "bad_command"),
        (20.0, math.inf, "bad_command"),
    ],
)
def test_a_command_outside_the_limits_is_refused_before_the_device(
    rig: Rig, position: float, speed: float, reason: str
) -> None:
    with pytest.raises(LimitError) as refused:
        rig.gate.start_move(position, speed)
    assert refused.value.reason == reason
    assert f"{position:g} mm" in str(refused.value)
    assert rig.device.commands == []


def test_nothing_moves_before_the_enable_line_is_high() -> None:
    rig = Rig()
    for command in (lambda: rig.gate.start_move(20.0, 2.0), rig.gate.home):
        with pytest.raises(LimitError, match="enable line is low") as refused:
            command()
        assert refused.value.reason == "not_enabled"
    assert rig.device.commands == []


def test_nothing_moves_while_the_estop_is_pressed(rig: Rig) -> None:
    rig.estop.level = False
    for command in (lambda: rig.gate.start_move(20.0, 2.0), rig.gate.home):
        with pytest.raises(SafetyAbort, match="e-stop") as stopped:
            command()
        assert stopped.value.reason == "estop"
    assert rig.device.commands == []


def test_the_enable_line_stays_low_while_the_estop_is_pressed() -> None:
    rig = Rig()
    rig.estop.level = False
    with pytest.raises(SafetyAbort, match="e-stop"):
        rig.interlock.energise()
    assert not rig.enable.level
    assert not rig.interlock.enabled


def test_an_enable_line_whose_reading_does_not_follow_is_not_relied_on() -> None:
    deaf = Rig()
    deaf.enable.stuck = False
    with pytest.raises(InstrumentError, match="driven high and still reads low"):
        deaf.interlock.energise()
    assert not deaf.interlock.enabled
    left = Rig()
    left.enable.stuck = True
    with pytest.raises(InstrumentError, match="driven low and still reads high"):
        left.interlock.energise()
    assert not left.interlock.enabled
    left.enable.stuck, left.enable.level = None, True
    left.interlock.energise()  # somebody left it high, and it can be dropped
    assert left.enable.written == [False, False, True]


def test_an_axis_that_is_not_homed_may_only_home(rig: Rig) -> None:
    rig.device.homed = False
    with pytest.raises(LimitError, match="not homed"):
        rig.gate.start_move(20.0, 2.0)
    assert rig.device.commands == []
    rig.gate.home()
    assert rig.device.commands == [("home", ())]


def test_armed_travel_limits_hold_in_the_controller_and_here(rig: Rig) -> None:
    rig.gate.arm_travel_limits(10.0, 30.0)
    assert rig.device.commands == [("arm_travel_limits", (10.0, 30.0))]
    with pytest.raises(LimitError, match=r"10 … 30 mm"):
        rig.gate.start_move(31.0, 2.0)


def test_travel_limits_wider_than_the_rig_are_refused(rig: Rig) -> None:
    for minimum, maximum in ((-1.0, 30.0), (10.0, 51.0), (30.0, 10.0), (10.0, math.nan)):
        with pytest.raises(LimitError):
            rig.gate.arm_travel_limits(minimum, maximum)
    assert rig.device.commands == []
    assert rig.gate.limits == LIMITS


def test_after_a_stop_the_gate_stays_shut_until_it_is_opened(rig: Rig) -> None:
    rig.gate.arm_travel_limits(10.0, 30.0)
    rig.device.commands.clear()
    rig.gate.latch("force_limit")
    rig.gate.latch("estop")
    for command in (lambda: rig.gate.start_move(20.0, 2.0), rig.gate.home, rig.gate.clear_faults):
        with pytest.raises(LimitError, match="force_limit") as refused:
            command()
        assert refused.value.reason == "latched"
    assert rig.device.commands == []
    rig.gate.unlatch()
    rig.gate.start_move(40.0, 2.0)
    assert rig.device.commands == [("start_move", (40.0, 2.0))]


def test_the_gate_knows_every_method_of_a_stage() -> None:
    """A method added to the protocol must be sorted into moving or harmless here, and gated if it moves."""
    methods = {name for name, _ in inspect.getmembers(LinearStage, inspect.isfunction) if not name.startswith("_")}
    assert methods == MOTION | HARMLESS
    assert isinstance(Rig().gate, LinearStage)
    own = {name for name, _ in inspect.getmembers(GatedStage, inspect.isfunction) if not name.startswith("_")}
    assert own == methods | {"latch", "unlatch"}


def test_no_public_name_of_the_gate_hands_out_the_driver(rig: Rig) -> None:
    for name in dir(rig.gate):
        if not name.startswith("_"):
            value = getattr(rig.gate, name)
            assert value is not rig.device
            assert getattr(value, "__self__", rig.gate) is rig.gate, f"{name} is a method of the driver itself"


@pytest.mark.parametrize(
    "line", ["Dev1/port0/line1", "port0/line1", "Dev1/port0/line0:7", "Dev1/port0", "DEV1/Port0/Line1"]
)
def test_nobody_else_gets_the_enable_line(line: str) -> None:
    asked: list[str] = []

    class OpenDaq:
        def digital_output(self, line: str) -> Line:
            asked.append(line)
            return Line(False)

    guarded = GuardedDaq(OpenDaq(), reserved_lines=("port0/line1",))  # type: ignore[arg-type]
    with pytest.raises(LimitError, match="belongs to the interlock"):
        guarded.digital_output(line)
    assert asked == []
    guarded.digital_output("Dev1/port0/line2")
    assert asked == ["Dev1/port0/line2"]
    assert isinstance(guarded, Daq)


# -- watches


def watch(limit: float = 5.0, torque: float | None = 0.2) -> ForceWatch:
    return ForceWatch(LoadLimits(force_n=limit, torque_n_m=torque))


QUIET = np.zeros((4, 3))
TIME = np.arange(4) / 1000
NONE = np.zeros(4, dtype=bool)


def test_a_load_at_the_limit_passes_and_one_beyond_does_not() -> None:
    forces = QUIET.copy()
    forces[2] = (3.0, 0.0, -4.0)
    watch(5.0).check(forces, QUIET, NONE, TIME)
    forces[2, 2] = -4.001
    with pytest.raises(SafetyAbort, match=r"force reached 5\.001 N at 0\.002 s, limit 5 N") as stopped:
        watch(5.0).check(forces, QUIET, NONE, TIME)
    assert stopped.value.reason == "force_limit"


def test_a_pulling_force_counts_as_well() -> None:
    with pytest.raises(SafetyAbort, match="force"):
        watch().check(np.full((4, 1), -6.0), np.empty((4, 0)), NONE, TIME)


def test_the_torque_has_its_own_limit() -> None:
    torques = QUIET.copy()
    torques[3, 1] = -0.3
    with pytest.raises(SafetyAbort, match=r"N\.m") as stopped:
        watch().check(QUIET, torques, NONE, TIME)
    assert stopped.value.reason == "torque_limit"
    watch(torque=None).check(QUIET, torques, NONE, TIME)


def test_saturation_is_named_before_the_force_it_falsifies() -> None:
    saturated = NONE.copy()
    saturated[1] = True
    with pytest.raises(SafetyAbort, match=r"end of its range at 0\.001 s") as stopped:
        watch().check(np.full((4, 3), 100.0), QUIET, saturated, TIME)
    assert stopped.value.reason == "sensor_saturated"


def test_a_force_that_is_not_a_number_never_passes() -> None:
    forces = QUIET.copy()
    forces[1, 0] = np.nan
    with pytest.raises(SafetyAbort) as stopped:
        watch().check(forces, QUIET, NONE, TIME)
    assert stopped.value.reason == "sensor_invalid"


# -- safe state


def test_the_safe_state_stops_drops_the_line_and_sees_the_axis_stand(rig: Rig) -> None:
    report = enter_safe_state(rig.gate, rig.interlock, StepClock(), reason="force_limit")
    assert report.safe
    assert rig.device.commands == [("stop", ())]
    assert not rig.enable.level
    assert rig.gate.latched == "force_limit"


def test_the_safe_state_never_retracts(rig: Rig) -> None:
    enter_safe_state(rig.gate, rig.interlock, StepClock(), reason="estop")
    assert not [name for name, _ in rig.device.commands if name in MOTION]


def test_an_axis_that_creeps_is_not_safe(rig: Rig) -> None:
    rig.device.creep_mm = 0.05
    report = enter_safe_state(rig.gate, rig.interlock, StepClock(), reason="force_limit")
    assert not report.safe
    assert "NOT SAFE" in str(report)
    assert "moved 50.0 um" in str(report)


def test_a_dead_controller_leaves_the_line_and_the_encoder(rig: Rig) -> None:
    def gone() -> float:
        raise OSError("port closed")

    rig.device.stop = rig.device.position_mm = gone  # type: ignore[assignment,method-assign]
    report = enter_safe_state(
        rig.gate, rig.interlock, StepClock(), reason="instrument_disconnected", witness=lambda: 0.0
    )
    assert report.safe
    assert [step.ok for step in report.steps] == [False, True, True]
    blind = enter_safe_state(rig.gate, rig.interlock, StepClock(), reason="instrument_disconnected")
    assert not blind.safe, "nobody saw the axis stand"


def test_a_line_that_cannot_be_dropped_is_not_safe(rig: Rig) -> None:
    rig.enable.broken = True
    report = enter_safe_state(rig.gate, rig.interlock, StepClock(), reason="estop")
    assert not report.safe
    assert "drop enable line: FAILED OSError" in str(report)
    assert not rig.interlock.enabled, "a line that failed must not count as one that lets us move"
