"""The Dynamixel driver: the bytes of one conversation written out, then its contract against the twin's servos."""

from __future__ import annotations

import math

import pytest

from bench.errors import DriveFault, DriveWatchdogTripped, InstrumentDisconnected, InstrumentError, LimitError
from bench.instruments.dynamixel import DynamixelBus, Servo
from bench.instruments.dynamixel_frames import instruction
from bench.instruments.protocols import ArmDrives
from bench.twin.interfaces import SerialDevice

# -- bytes ------------------------------------------------------------------------------------------------------------


def x(text: str) -> bytes:
    return bytes.fromhex(text)


def asks(servo_id: int, code: int, parameters: str = "") -> bytes:
    return instruction(servo_id, code, x(parameters))


def says(servo_id: int, parameters: str = "", error: int = 0) -> bytes:
    return instruction(servo_id, 0x55, bytes([error]) + x(parameters))


def writes(servo_id: int, address: int, old: str, new: str) -> list[tuple[bytes, bytes]]:
    """Write a setting and read it back."""
    at = address.to_bytes(2, "little").hex()
    size = f"{len(x(new)):02x}00"
    return [
        (asks(servo_id, 3, at + new), says(servo_id)),
        (asks(servo_id, 2, at + size), says(servo_id, new)),
    ]


def test_one_conversation_with_a_servo_as_it_comes_from_the_factory(conversation):
    """An XM430-W210 of the protocol's published examples: id 1, model number 1030, firmware 38."""
    script = [
        # Ping, as published: FF FF FD 00 01 03 00 01 19 4E, answered by model 0x0406, firmware 0x26.
        (x("ff ff fd 00 01 03 00 01 19 4e"), x("ff ff fd 00 01 07 00 55 00 06 04 26 65 5d")),
        # Everybody: no current, motor off.
        (asks(0xFE, 0x83, "6600 0200 01 0000"), b""),
        (asks(0xFE, 0x83, "4000 0100 01 00"), b""),
        (asks(1, 2, "4400 0100"), says(1, "02")),  # answers all
        (asks(1, 2, "4000 0100"), says(1, "00")),  # motor off
        (asks(1, 2, "0000 0e00"), says(1, "0604 00000000 26 01 01 fa 00 03 ff 02")),
        # Present position, the published read of register 132 with its published answer, 166.
        (x("ff ff fd 00 01 07 00 02 84 00 04 00 1d 15"), x("ff ff fd 00 01 08 00 55 00 a6 00 00 00 8c c0")),
        *writes(1, 11, "03", "00"),  # operating mode 3 becomes 0
        *writes(1, 9, "fa", "00"),  # return delay 500 us becomes 0
        (asks(1, 2, "2600 0200"), says(1, "a904")),  # current limit 1193
        (asks(1, 2, "1400 0400"), says(1, "00000000")),  # homing offset
        (asks(0xFE, 0x82, "6200 0100 01"), says(1, "00")),  # everybody's watchdog
        (asks(1, 2, "6200 0100"), says(1, "00")),
        *writes(1, 98, "00", "05"),  # 100 ms
        # State: 100 x 2.69 mA, -2 x 0.229 rev/min, 166 counts.
        (asks(0xFE, 0x82, "7e00 0a00 01"), says(1, "6400 feffffff a6000000")),
        (asks(0xFE, 0x83, "6600 0200 01 9cff"), b""),  # -269 mA
    ]
    with conversation(script) as clock:
        arm = DynamixelBus("script://", clock=clock, servos=[Servo(1, "XM430-W210", 3.2)])
        (identity,) = arm.identify()
        state = arm.read()
        arm.write_currents([-0.269])
        arm.close()
    assert (identity.name, identity.model, identity.firmware) == ("dynamixel", "XM430-W210", "38")
    assert identity.details["current limit"] == "3.20917 A"
    assert state.current_a == pytest.approx([0.269])
    assert state.velocity_rad_s == pytest.approx([-2 * 0.229 * 2 * math.pi / 60])
    assert state.position_rad == pytest.approx([166 * 2 * math.pi / 4096])


# -- the contract -----------------------------------------------------------------------------------------------------


def test_implements_the_protocols(arm, bus):
    assert isinstance(arm, ArmDrives)
    device: SerialDevice = bus.device
    assert (device.name, device.baud) == ("arm", 1_000_000)


def test_identifies_every_servo_in_the_order_of_the_joints(arm):
    identities = arm.identify()
    assert [identity.model for identity in identities] == [
        "PH54-200-S500", "PH54-200-S500", "PH54-100-S500", "PH54-100-S500", "PH42-020-S300", "PH42-020-S300",
    ]  # fmt: skip
    assert [identity.details["id"] for identity in identities] == ["11", "12", "13", "14", "15", "16"]
    assert {identity.firmware for identity in identities} == {"12"}


def test_motors_are_off_until_switched_on(arm, bus, run):
    before = list(bus.plant.states()[0])
    run([1.0] * 6, 0.1)
    assert bus.plant.commanded == [None] * 6
    assert list(bus.plant.states()[0]) == before


def test_reads_what_the_sensors_measure_in_si(arm, bus, run):
    arm.torque_enable(True)
    run([0.3, -0.2, 0.1, 0.0, -0.05, 0.123], 0.4)
    state = arm.read()
    positions, velocities, currents = bus.plant.states()
    # The servos measured 0.1 to 0.2 ms before the last byte was here.
    assert state.position_rad == pytest.approx(list(positions), abs=3e-3)
    assert state.velocity_rad_s == pytest.approx(list(velocities), abs=3e-2)
    assert state.current_a == pytest.approx(list(currents))
    assert state.current_a == pytest.approx([0.3, -0.2, 0.1, 0.0, -0.05, 0.123])


def test_counts_beyond_a_turn_and_below_zero(arm, bus, run):
    arm.torque_enable(True)
    run([1.0, -1.0, 0.0, 0.0, 1.0, -1.0], 3.0)
    arm.write_currents([0.0] * 6)
    state = arm.read()
    assert state.position_rad == pytest.approx(list(bus.plant.states()[0]), abs=0.02)
    assert state.position_rad[0] > 4 * math.pi
    assert state.position_rad[5] < -4 * math.pi


def test_every_current_takes_effect_at_the_same_time(arm, bus, run):
    arm.torque_enable(True)
    currents = [0.1, 0.2, -0.3, 0.4, -0.5, 0.6]
    bus.plant.history.clear()
    arm.write_currents(currents)
    run([0.0] * 6, 4e-3)
    (_, first), (_, second) = bus.plant.history
    assert first == pytest.approx(currents)
    assert second == (0.0,) * 6


@pytest.mark.parametrize("current", [3.1, -3.1, math.nan, math.inf])
def test_no_current_beyond_its_limit_leaves_the_host(arm, bus, current):
    arm.torque_enable(True)
    sent = len(bus.sent)
    with pytest.raises(LimitError, match=r"servo id 13 \(joint 3\): .* is not within ±3 A") as refused:
        arm.write_currents([0.0, 0.0, current, 0.0, 0.0, 0.0])
    assert refused.value.reason == "current_limit"
    assert len(bus.sent) == sent


def test_as_many_currents_as_servos(arm):
    with pytest.raises(ValueError, match="5 currents for 6 servos"):
        arm.write_currents([0.0] * 5)


def test_health_tells_what_the_servos_say_of_themselves(arm, bus):
    bus.plant.break_down(4, 0x20)
    health = arm.health()
    assert health.temperature_degc == [31.0, 32.0, 33.0, 34.0, 35.0, 36.0]
    assert health.supply_v == pytest.approx([24.0] * 6)
    assert health.hardware_error == [0, 0, 0, 0, 0x20, 0]
    assert health.torque_enabled == health.watchdog_tripped == [False] * 6
    assert health.watchdog_s == pytest.approx([0.1] * 6)
    arm.read()  # motors off: told by health, not raised


def test_stop_ends_every_current_and_is_read_back(arm, bus, run):
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    assert arm.health().torque_enabled == [True] * 6
    arm.stop()
    assert bus.plant.commanded == [None] * 6
    assert arm.health().torque_enabled == [False] * 6


def test_stop_that_one_servo_does_not_confirm_stops_the_others_and_names_it(arm, bus, run, pause):
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    bus.device.mute(12)
    with pytest.raises(InstrumentError, match=r"servo id 12 \(joint 2\): told to stop 3 times.*Cut the servos' power"):
        arm.stop()
    assert [bus.plant.commanded[k] for k in (0, 2, 3, 4, 5)] == [None] * 5
    pause(0.1)
    assert bus.plant.commanded[1] == 0.0  # its own watchdog did it


def test_a_disconnected_line_is_told(arm, bus):
    bus.port.close()
    arm.close()
    with pytest.raises(InstrumentDisconnected):
        arm.read()


# -- faults and watchdog ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("bits", "words"), [(0x04, "overheating"), (0x24, "overheating, overload"), (0x10, "shock")])
def test_hardware_error_names_joint_id_and_meaning(arm, bus, run, bits, words):
    arm.torque_enable(True)
    run([0.1] * 6, 0.05)
    bus.plant.break_down(3, bits)
    with pytest.raises(DriveFault, match=rf"servo id 14 \(joint 4\) has stopped: .*{words}") as fault:
        arm.read()
    assert fault.value.code == bits
    assert bus.plant.commanded[3] is None
    arm.stop()
    with pytest.raises(DriveFault, match="id 14"):
        arm.torque_enable(True)


def test_clearing_reboots_the_servo_and_it_works_again(arm, bus, run):
    arm.torque_enable(True)
    run([0.1] * 6, 0.05)
    bus.plant.break_down(3, 0x20)
    arm.clear_faults()
    health = arm.health()
    assert health.hardware_error == [0] * 6
    assert health.torque_enabled == [False] * 6
    assert health.watchdog_s == pytest.approx([0.1] * 6)
    arm.torque_enable(True)
    assert run([0.1] * 6, 0.05).current_a == pytest.approx([0.1] * 6)


def test_turns_lost_in_a_reboot_are_added_again(arm, bus, run):
    arm.torque_enable(True)
    run([1.0] * 6, 2.0)
    arm.stop()
    bus.plant.speeds = [0.0] * 6
    before = arm.read().position_rad
    assert before[3] > 2 * math.pi
    bus.plant.break_down(3, 0x20)
    arm.clear_faults()
    assert bus.device.servos[3].get("present_position") < 501_923  # it knows no more than one turn
    assert arm.read().position_rad == pytest.approx(before, abs=1e-5)


def test_fault_that_persists_is_told(arm, bus, monkeypatch):
    servo = bus.device.servos[2]
    boot = servo.boot
    monkeypatch.setattr(servo, "boot", lambda position: (boot(position), servo.fail(0x08)))
    servo.fail(0x08)
    with pytest.raises(DriveFault, match=r"servo id 13 \(joint 3\) has stopped: motor encoder"):
        arm.clear_faults()


def test_watchdog_stops_the_motors_when_the_host_is_silent(arm, bus, run, pause):
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    said_ns = bus.clock.now_ns()
    pause(0.3)
    stopped_ns, currents = bus.plant.history[-1]
    assert currents == (0.0,) * 6
    assert 80e6 <= stopped_ns - said_ns <= 101e6
    with pytest.raises(DriveWatchdogTripped, match=r"servo id 11 \(joint 1\), servo id 12.*silent for 0.1 s"):
        arm.read()


def test_tripped_watchdog_is_told_before_a_current_is_sent(arm, bus, run, pause):
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    pause(0.3)
    with pytest.raises(DriveWatchdogTripped):
        arm.write_currents([0.5] * 6)


def test_tripped_watchdog_is_cleared_on_purpose_only(arm, bus, run, pause):
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    pause(0.3)
    assert arm.health().watchdog_tripped == [True] * 6
    arm.stop()
    for attempt in (lambda: arm.torque_enable(True), lambda: arm.arm_watchdog(0.2)):
        with pytest.raises(DriveWatchdogTripped):
            attempt()
    arm.clear_faults()
    assert arm.health().watchdog_s == pytest.approx([0.1] * 6)
    arm.torque_enable(True)
    assert run([0.1] * 6, 0.05).current_a == pytest.approx([0.1] * 6)


def test_opened_on_servos_whose_watchdog_has_tripped(arm, bus, run, pause, open_arm):
    """What the last run left behind is kept for a person to clear, but the motors are off."""
    arm.torque_enable(True)
    run([0.5] * 6, 0.1)
    arm.close()
    pause(0.3)
    again = open_arm(bus)
    assert again.health().watchdog_tripped == [True] * 6
    assert again.health().torque_enabled == [False] * 6
    with pytest.raises(DriveWatchdogTripped):
        again.torque_enable(True)
    again.clear_faults()
    again.torque_enable(True)


@pytest.mark.parametrize(("asked", "armed"), [(0.1, 0.1), (0.139, 0.12), (2.54, 2.54), (0.0, 0.0)])
def test_watchdog_is_never_longer_than_asked(arm, asked, armed):
    arm.arm_watchdog(asked)
    assert arm.health().watchdog_s == pytest.approx([armed] * 6)


@pytest.mark.parametrize("seconds", [-0.1, 0.01, 2.6])
def test_watchdog_out_of_the_servos_range(arm, seconds):
    with pytest.raises(LimitError, match="watchdog"):
        arm.arm_watchdog(seconds)
