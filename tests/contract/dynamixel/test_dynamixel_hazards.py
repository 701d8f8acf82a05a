"""What goes wrong on a bus of servos, each once: nothing is taken for what it is not, and every cause is named."""

from __future__ import annotations

import contextlib
import math
import struct

import pytest

from bench.errors import InstrumentError, InstrumentTimeout
from bench.instruments import dynamixel_models as tables
from bench.instruments.dynamixel import Servo
from bench.instruments.dynamixel_frames import write


def jump(bus, by: float) -> None:
    """Somebody turns every shaft by ``by`` rad, so that an old reading shows."""
    angles, _, _ = bus.plant.states()
    bus.plant.angles = [angle + by for angle in angles]


def set_register(bus, axis: int, name: str, value: int) -> None:
    servo = bus.device.servos[axis]
    entry = servo.model.entries[name]
    assert servo.write(entry.address, (value & (1 << 8 * entry.size) - 1).to_bytes(entry.size, "little")) == 0


# -- late, lost and damaged replies -----------------------------------------------------------------------------------


@pytest.mark.parametrize("late_ms", [13, 21, 30, 45, 60, 90, 150])
def test_late_state_is_never_taken_for_the_next_ones(arm, bus, pause, late_ms):
    arm.read()
    bus.device.delay(11, late_ms * 1_000_000)
    with contextlib.suppress(InstrumentTimeout) if late_ms < 25 else pytest.raises(InstrumentTimeout):
        arm.read()
    for _ in range(20):
        jump(bus, 0.1)
        with contextlib.suppress(InstrumentTimeout):
            assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)
        pause(2e-3)
    assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


@pytest.mark.parametrize("late_ms", [13, 30, 60, 150])
def test_state_stuck_in_an_adapter_is_never_taken_for_the_next_ones(arm, bus, pause, late_ms):
    """What an adapter holds back comes before all that is said after it."""
    bus.wire.delay_replies(1, late_ms * 1_000_000)
    with contextlib.suppress(InstrumentTimeout) if late_ms < 25 else pytest.raises(InstrumentTimeout):
        arm.read()
    for _ in range(10):
        jump(bus, 0.1)
        with contextlib.suppress(InstrumentTimeout):
            assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)
        pause(2e-3)
    assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


def test_late_health_is_never_taken_for_the_next_ones(arm, bus):
    bus.wire.delay_replies(1, 60_000_000)
    with pytest.raises(InstrumentTimeout):
        arm.health()
    bus.plant.degc = [50.0] * 6
    bus.plant.supply = 23.1
    for _ in range(3):
        with contextlib.suppress(InstrumentTimeout):
            health = arm.health()
            assert health.temperature_degc == [50.0] * 6
            assert health.torque_enabled == health.watchdog_tripped == [False] * 6
    assert health.supply_v == pytest.approx([23.1] * 6)


def test_a_read_that_was_interrupted_leaves_nothing_for_the_next(arm, bus, monkeypatch):
    """A signal's handler raised between request and reply: the reply is still to come."""
    with monkeypatch.context() as patched:
        patched.setattr(bus.port, "read", lambda size: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            arm.read()
    jump(bus, 1.0)
    for _ in range(3):
        assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)
    assert arm.statistics.timeouts == 0


def test_noise_before_a_reply_does_no_harm(arm, bus):
    for noise in (
        b"\x00",
        b"\xff\xff\xfd",
        b"\xff\xff\xfd\x00\x0b\x04",
        b"\xff\xff\xfd\x00\x0b\x04\x00\x55\x00\x12\x34",
    ):
        bus.wire.inbox += noise
        with contextlib.suppress(InstrumentTimeout):
            assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)
        assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


def test_damaged_reply_is_told_and_not_believed(arm, bus):
    bus.device.corrupt(13)
    with pytest.raises(InstrumentTimeout, match=r"1 damaged packet.*though every servo answers a ping"):
        arm.read()
    assert arm.statistics.damaged == 1
    assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


def test_no_command_is_sent_again(arm, bus, run):
    arm.torque_enable(True)
    run([0.1] * 6, 0.02)
    sent = len(bus.sent)
    bus.device.mute(14)
    with pytest.raises(InstrumentTimeout):
        arm.read()
    since = bytes(bus.sent[sent:])
    assert b"\x83" not in since
    goal = tables.P_SERIES.goal_current.address
    assert write(14, goal, b"\0\0")[7:10] not in since


def test_lost_answer_to_torque_enable_ends_with_the_motors_off(arm, bus):
    bus.lose_reply_to(write(13, tables.P_SERIES.torque_enable.address, b"\x01")[:-2])
    with pytest.raises(InstrumentTimeout, match=r"servo id 13 \(joint 3\) does not answer"):
        arm.torque_enable(True)
    assert bytes(bus.sent).count(write(13, tables.P_SERIES.torque_enable.address, b"\x01")) == 1
    assert bus.plant.commanded == [None] * 6


@pytest.mark.parametrize("axis", range(6))
def test_a_header_in_the_data_is_stuffed_and_read_back(arm, bus, axis):
    """Velocity -1 and a position that ends in FD make FF FF FF FF FD of a reply that has no header there."""
    model = tables.servo_model(arm.identify()[axis].model)
    bus.plant.states()
    bus.plant.decay = 1e-9
    bus.plant.speeds[axis] = -model.velocity_unit_rad_s
    bus.plant.angles[axis] = (0x12FD + 0.3) * model.radians_per_count
    state = arm.read()
    assert round(state.position_rad[axis] / model.radians_per_count) == 0x12FD
    assert state.velocity_rad_s[axis] == pytest.approx(-model.velocity_unit_rad_s)
    assert arm.statistics.stale == arm.statistics.damaged == arm.statistics.timeouts == 0
    assert struct.pack("<ii", -1, 0x12FD)[3:5] == b"\xff\xfd"


# -- who is there -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("servo_id", [11, 14, 16])
def test_missing_servo_is_named_by_joint_and_id(arm, bus, servo_id):
    bus.device.mute(servo_id)
    others = ", ".join(str(k) for k in range(11, 17) if k != servo_id)
    wanted = rf"servo id {servo_id} \(joint {servo_id - 10}\) did not answer; {others} did"
    for use in (arm.read, arm.health):
        with pytest.raises(InstrumentTimeout, match=wanted):
            use()
    bus.device.mute(servo_id, on=False)
    assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


def test_missing_servos_are_named_when_the_bus_is_opened(bus, open_arm):
    for servo_id in (12, 15):
        bus.device.mute(servo_id)
    with pytest.raises(
        InstrumentTimeout, match=r"id 12 \(joint 2\), servo id 15 \(joint 5\) did not answer; 11, 13, 14, 16"
    ):
        open_arm(bus)


def test_servos_without_supply_are_waited_for_and_then_told(bus, open_arm):
    bus.plant.supply_on(False)
    with pytest.raises(InstrumentTimeout, match=r"no servo answers.*e-stop, enable line"):
        open_arm(bus)
    bus.plant.supply_on(True)
    open_arm(bus)  # they boot meanwhile


def test_wrong_baud_rate_is_silence(bus, open_arm):
    with pytest.raises(InstrumentTimeout, match="no servo answers"):
        open_arm(bus, baud=115200)


def test_servo_of_another_model_is_named_with_both(bus, open_arm):
    bus.device.set_model_number(14, 2000)
    wanted = (
        r"servo id 14 \(joint 4\) is a PH42-020-S300 \(model number 2000\), "
        r"the rig profile says PH54-100-S500 \(model number 2010\)"
    )
    with pytest.raises(InstrumentError, match=wanted):
        open_arm(bus)


def test_unknown_model_is_told(bus, open_arm):
    bus.device.set_model_number(11, 4711)
    with pytest.raises(InstrumentError, match="model number 4711, which the bench does not know"):
        open_arm(bus)
    with pytest.raises(InstrumentError, match="no servo model 'AX-12A' is known"):
        open_arm(bus, servos=[Servo(11, "AX-12A", 1.0)])


def test_two_servos_with_one_id_are_told(make_bus, open_arm):
    bus = make_bus(ids=(11, 12, 13, 13, 15, 16))
    servos = [Servo(servo.id, servo.model.name, 3.0) for k, servo in enumerate(bus.device.servos) if k != 3]
    with pytest.raises(InstrumentError, match=r"servo id 13 \(joint 3\): .*damaged.*second servo with the same id"):
        open_arm(bus, servos=servos)


def test_twins_with_one_id_show_by_their_angles(make_bus, open_arm):
    """Alike in all they say of themselves, they speak as one until their shafts are asked for."""
    bus = make_bus(ids=(13, 13), models=("PH42-020-S300",) * 2)
    with pytest.raises(InstrumentError, match="second servo with the same id"):
        open_arm(bus, servos=[Servo(13, "PH42-020-S300", 1.0)])


def test_ids_of_the_profile_must_differ(bus, open_arm):
    with pytest.raises(InstrumentError, match="an id of its own"):
        open_arm(bus, servos=[Servo(11, "PH54-200-S500", 1.0)] * 2)


def test_series_do_not_mix_on_a_bus(bus, open_arm):
    with pytest.raises(InstrumentError, match="buses of their own"):
        open_arm(bus, servos=[Servo(11, "PH54-200-S500", 1.0), Servo(12, "XM540-W270", 1.0)])


# -- settings ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("drive_mode", 1, "counts in reverse"),
        ("drive_mode", 8, "switches itself on with every goal"),
        ("secondary_id", 15, "obeys commands to id 15 too"),
        ("current_limit", 2000, "current limit of 2 A, below the 3 A"),
    ],
)
def test_setting_that_would_surprise_is_refused(bus, open_arm, name, value, words):
    set_register(bus, 3, name, value)
    with pytest.raises(InstrumentError, match=rf"servo id 14 \(joint 4\) .*{words}"):
        open_arm(bus)


@pytest.mark.parametrize("level", [0, 1, 2])
def test_settings_that_the_bench_needs_are_made(bus, open_arm, level):
    for axis, servo in enumerate(bus.device.servos):
        set_register(bus, axis, "operating_mode", 3)
        set_register(bus, axis, "return_delay", 250)
        set_register(bus, axis, "status_return_level", level)
        servo.set("torque_enable", 1)
    arm = open_arm(bus)
    for servo in bus.device.servos:
        assert servo.get("operating_mode") == servo.get("return_delay") == servo.get("torque_enable") == 0
        assert servo.get("status_return_level") == 2
    arm.torque_enable(True)


def test_return_delay_is_set_and_waited_for(bus, open_arm):
    arm = open_arm(bus, return_delay_s=100e-6, fast_sync_read=False)
    assert [servo.get("return_delay") for servo in bus.device.servos] == [50] * 6
    began = bus.clock.now_ns()
    arm.read()
    assert bus.clock.now_ns() - began >= 6 * 100_000


def test_setting_that_does_not_take_is_told(bus, open_arm, monkeypatch):
    set_register(bus, 2, "operating_mode", 3)
    monkeypatch.setattr(bus.device.servos[2], "write", lambda address, data: 0)
    with pytest.raises(
        InstrumentError, match=r"servo id 13 \(joint 3\): operating mode .* set to 0 and reads back as 3"
    ):
        open_arm(bus)


def test_old_firmware_is_read_by_plain_sync_read(make_bus, open_arm):
    bus = make_bus(firmware=11)
    arm = open_arm(bus)
    assert not arm.fast
    assert arm.read().position_rad == pytest.approx(list(bus.plant.states()[0]), abs=1e-4)


@pytest.mark.parametrize("fast", [True, False])
def test_servos_of_the_x_series(make_bus, open_arm, fast):
    bus = make_bus(ids=(1, 2), models=("XM540-W270", "XH540-W150"))
    arm = open_arm(bus, servos=[Servo(1, "XM540-W270-R", 2.0), Servo(2, "XH540-W150", 2.0)], fast_sync_read=fast)
    arm.torque_enable(True)
    bus.plant.angles = [1.0, -2.0 * math.pi + 0.5]
    arm.write_currents([0.5, -0.25])
    state = arm.read()
    assert state.current_a == pytest.approx([0.5, -0.25], abs=2.69e-3 / 2)
    # A servo of this series shows 0 to 4095 when it boots; it booted at 0.05 and 0.1 rad.
    assert state.position_rad == pytest.approx([1.0, -2.0 * math.pi + 0.5], abs=2e-3)


# -- supply -----------------------------------------------------------------------------------------------------------


def test_servos_that_lost_their_supply_for_a_while_are_no_longer_on(arm, bus, run, pause):
    arm.torque_enable(True)
    run([0.2] * 6, 0.05)
    bus.plant.supply_on(False)
    with pytest.raises(InstrumentTimeout, match="no servo answers"):
        arm.read()
    bus.plant.supply_on(True)
    pause(0.5)
    for use in (arm.read, lambda: arm.write_currents([0.2] * 6)):
        with pytest.raises(InstrumentError, match="no longer switched on"):
            use()
    assert bus.plant.commanded == [None] * 6
    arm.stop()
    arm.clear_faults()
    arm.torque_enable(True)
    assert run([0.2] * 6, 0.05).current_a == pytest.approx([0.2] * 6)
