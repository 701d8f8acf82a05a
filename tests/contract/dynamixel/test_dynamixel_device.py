"""The twin's servos at their line: the bytes they take and give, and how they behave as far as we assume to know."""

from __future__ import annotations

import itertools
import struct

import pytest

from bench.errors import TwinError
from bench.instruments import dynamixel_frames as frames
from bench.instruments.dynamixel_frames import Damaged, Status, StatusReader, instruction
from bench.twin.devices.dynamixel import BOOT_NS, DynamixelArm, ServoSpec
from bench.twin.devices.dynamixel_wire import PAUSE_NS
from bench.twin.interfaces import ArmDrivesPlant

BYTE_NS = 10_000
RESULT_FAIL, INSTRUCTION, CRC, RANGE, LENGTH, LIMIT, ACCESS = range(1, 8)


def u16(*values: int) -> bytes:
    return struct.pack(f"<{len(values)}H", *values)


def ask(bus, packet: bytes, wait_s: float = 0.02) -> list[Status | Damaged]:
    """Say a packet and return every status that comes."""
    reader, got = StatusReader(bus.talk(packet, wait_s)), []
    while (answer := reader.take()) is not None:
        got.append(answer)
    assert reader.rest() == b""
    return got


def read(bus, servo_id: int, address: int, count: int) -> int:
    (answer,) = ask(bus, frames.read(servo_id, address, count))
    assert isinstance(answer, Status)
    assert answer.error & 0x7F == 0
    return int.from_bytes(answer.data, "little")


def write(bus, servo_id: int, address: int, data: bytes) -> int:
    """Write and return the error."""
    (answer,) = ask(bus, frames.write(servo_id, address, data))
    assert answer.data == b""
    return answer.error


def switch_on(bus, servo_id: int, current: int = 0) -> None:
    assert write(bus, servo_id, 550, struct.pack("<h", current)) == 0
    assert write(bus, servo_id, 512, b"\x01") == 0


def heard(bus) -> list[tuple[int, bytes]]:
    """When each packet from the servos had arrived, and its bytes."""
    return [(time_ns, data) for time_ns, what, data in bus.clock.world.log if what == "arm > "]


# -- packets ----------------------------------------------------------------------------------------------------------


def test_ping_tells_model_and_firmware_whatever_the_return_level(bus):
    for level in (2, 1, 0):
        assert ask(bus, instruction(15, frames.PING)) == [Status(15, 0, u16(2000) + b"\x0c")]
        bus.device.servos[4].set("status_return_level", level)
    assert ask(bus, instruction(99, frames.PING)) == []


def test_everybody_answers_a_ping_one_after_another(bus):
    answers = ask(bus, instruction(frames.BROADCAST, frames.PING), 0.1)
    assert [answer.servo_id for answer in answers] == [11, 12, 13, 14, 15, 16]
    times = [time_ns for time_ns, _ in heard(bus)]
    assert all(later - earlier > 14 * BYTE_NS for earlier, later in itertools.pairwise(times))


@pytest.mark.parametrize(
    ("packet", "error"),
    [
        (instruction(11, 0x77), INSTRUCTION),
        (instruction(11, frames.READ, b"\x00"), INSTRUCTION),
        (instruction(11, frames.ACTION), INSTRUCTION),  # nothing was registered
        (frames.read(11, 900, 2), ACCESS),
        (frames.read(11, 60, 4), ACCESS),  # runs into what is not defined
        (frames.write(11, 0, u16(5)), ACCESS),  # read only
        (frames.write(11, 19, b"\0"), ACCESS),  # not defined
        (frames.write(11, 512, b"\x02"), RANGE),
        (frames.write(11, 38, u16(22_741)), RANGE),
        (frames.write(11, 11, b"\x02"), RANGE),  # no such operating mode
        (frames.write(11, 550, b"\x01"), LENGTH),
        (frames.write(11, 20, b"\x01\x02"), LENGTH),
        (frames.write(11, 550, struct.pack("<h", 22_741)), LIMIT),
        (frames.write(11, 550, struct.pack("<h", -22_741)), LIMIT),
        (frames.write(11, 550, struct.pack("<h", -22_740)), 0),
        (frames.write(11, 513, b"\x01\x02\x03"), 0),  # three registers at once
        (instruction(11, frames.FACTORY_RESET, b"\x07"), RESULT_FAIL),
        (instruction(11, 0x10, b"\x01\x44\x58\x4c\x22"), INSTRUCTION),  # clearing turns is the X series'
        (frames.write(11, 513, b"\x01")[:-1] + b"\x00", CRC),
    ],
)
def test_what_is_wrong_is_told_by_its_number(bus, packet, error):
    assert ask(bus, packet) == [Status(11, error, b"")]


def test_nothing_of_a_refused_write_is_taken(bus):
    assert write(bus, 11, 512, b"\x00\x07\x08\x09\x03") == RANGE  # the last of five registers is out of range
    assert read(bus, 11, 513, 1) == 0


@pytest.mark.parametrize("level", [0, 1, 2])
def test_status_return_level_says_what_is_answered(bus, level):
    assert write(bus, 12, 516, bytes([2])) == 0
    bus.device.servos[1].set("status_return_level", level)
    assert len(ask(bus, frames.read(12, 7, 1))) == (level >= 1)
    assert len(ask(bus, frames.write(12, 513, b"\x05"))) == (level == 2)
    assert bus.device.servos[1].get("led_red") == 5


def test_eeprom_is_locked_while_the_torque_is_on(bus):
    switch_on(bus, 13)
    assert write(bus, 13, 11, b"\x00") == ACCESS
    assert write(bus, 13, 9, b"\x00") == ACCESS
    assert write(bus, 13, 512, b"\x00") == 0
    assert write(bus, 13, 9, b"\x05") == 0


def test_packets_in_pieces_behind_noise_and_too_late(bus):
    packet = instruction(14, frames.PING)
    bus.port.write(b"\xff\xff\xfd\x42" + packet[:5])
    (answer,) = ask(bus, packet[5:])
    assert answer.servo_id == 14
    bus.port.write(packet[:5])
    bus.clock.sleep_until_ns(bus.clock.now_ns() + PAUSE_NS + 1_000_000)
    assert ask(bus, packet[5:]) == []
    assert len(ask(bus, packet + packet)) == 2


# -- times ------------------------------------------------------------------------------------------------------------


def test_bytes_and_return_delay_take_their_time(make_bus):
    bus = make_bus(return_delay_us=500.0)
    bus.talk(frames.read(11, 580, 4), 0.02)
    ((time_ns, _),) = heard(bus)
    assert time_ns == pytest.approx((14 + 15) * BYTE_NS + 500_000, abs=15_000)


@pytest.mark.parametrize("fast", [False, True])
def test_servos_speak_in_the_order_asked_and_wait_for_each_other(make_bus, fast):
    bus = make_bus(return_delay_us=100.0)
    ids = bytes((14, 11, 16))
    bus.talk(frames.sync_read(ids, 574, 10, fast=fast), 0.02)
    request_ns = (14 + 3) * BYTE_NS
    if fast:
        ((time_ns, data),) = heard(bus)
        assert time_ns == pytest.approx(request_ns + 100_000 + (8 + 3 * 14) * BYTE_NS, abs=15_000)
        answer = StatusReader(data).take()
        assert [answer.data[at] for at in (0, 14, 28)] == [14, 11, 16]
    else:
        came = heard(bus)
        assert [StatusReader(data).take().servo_id for _, data in came] == [14, 11, 16]
        for k, (time_ns, _) in enumerate(came, 1):
            assert time_ns == pytest.approx(request_ns + k * (100_000 + 21 * BYTE_NS), abs=40_000)


@pytest.mark.parametrize("fast", [False, True])
def test_who_waits_for_a_missing_servo_says_nothing(bus, fast):
    bus.device.mute(13)
    text = bus.talk(frames.sync_read(bytes((11, 12, 13, 14)), 574, 10, fast=fast), 0.05)
    if fast:
        assert len(text) == 8 + 2 * 14
        assert text[5] | text[6] << 8 == 1 + 4 * 14  # it was to be longer
    else:
        assert len(text) == 2 * 21


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize(
    "change",
    [
        lambda bus: write(bus, 13, 7, b"\x21"),  # its id
        lambda bus: write(bus, 13, 8, b"\x01"),  # its baud rate
        lambda bus: bus.talk(frames.write(13, 516, b"\x00")),  # answers to nothing
        lambda bus: bus.device.mute(13),
        lambda bus: ask(bus, instruction(13, frames.REBOOT)),
    ],
    ids=["id", "baud", "level", "mute", "reboot"],
)
def test_a_loop_that_asks_the_same_again_and_again_sees_who_still_answers(bus, change, fast):
    """The servos' side remembers who hears what; it must not outlive what it says."""
    packet = frames.sync_read(bytes((11, 12, 13)), 512, 1, fast=fast)
    before = bus.talk(packet)
    assert bus.talk(packet) == before
    change(bus)
    after = bus.talk(packet)
    assert len(after) == len(before) - (5 if fast else 12)
    assert after[:9] == before[:9]


def test_a_goal_reaches_whoever_obeys_the_id_now(bus):
    """As one packet after the other says; the second id came in between."""
    goals = frames.sync_write(550, 2, {12: b"\x05\x00"})
    bus.talk(goals)
    assert write(bus, 13, 12, b"\x0c") == 0
    bus.talk(goals)
    assert (read(bus, 12, 550, 2), read(bus, 13, 550, 2)) == (5, 5)


def test_bulk_read_and_write_reach_each_its_own_registers(bus):
    asked = b"".join(bytes([k]) + u16(address, count) for k, address, count in ((12, 0, 2), (11, 592, 3)))
    assert ask(bus, instruction(frames.BROADCAST, 0x92, asked)) == [
        Status(12, 0, u16(2020)),
        Status(11, 0, u16(240) + bytes([31])),
    ]
    given = bytes([11]) + u16(513, 1) + b"\x21" + bytes([16]) + u16(550, 2) + u16(77)
    assert ask(bus, instruction(frames.BROADCAST, 0x93, given)) == []
    assert (read(bus, 11, 513, 1), read(bus, 16, 550, 2)) == (0x21, 77)


def test_another_baud_rate_hears_nothing(bus):
    assert write(bus, 12, 8, b"\x01") == 0
    assert ask(bus, instruction(12, frames.PING)) == []
    assert len(ask(bus, instruction(11, frames.PING))) == 1


def test_a_secondary_id_is_obeyed_in_silence(bus):
    assert write(bus, 12, 12, bytes([13])) == 0
    assert len(ask(bus, frames.write(13, 513, b"\x63"))) == 1
    assert read(bus, 12, 513, 1) == 0x63


# -- motors -----------------------------------------------------------------------------------------------------------


def test_a_goal_is_a_current_only_while_the_torque_is_on(bus):
    assert write(bus, 11, 550, struct.pack("<h", 1500)) == 0
    assert bus.plant.commanded[0] is None
    assert write(bus, 11, 512, b"\x01") == 0
    assert bus.plant.commanded == [1.5, None, None, None, None, None]
    assert write(bus, 11, 512, b"\x00") == 0
    assert bus.plant.commanded[0] is None


def test_drive_mode_reverse_turns_everything_round(bus):
    bus.plant.angles[0] = 1.0
    before = read(bus, 11, 580, 4)
    assert write(bus, 11, 10, b"\x01") == 0
    assert read(bus, 11, 580, 4) == 2**32 - before
    switch_on(bus, 11, 1500)
    assert bus.plant.commanded[0] == -1.5
    assert read(bus, 11, 574, 2) == 1500


def test_homing_offset_is_added(bus):
    before = read(bus, 11, 580, 4)
    assert write(bus, 11, 20, struct.pack("<i", 5000)) == 0
    assert read(bus, 11, 580, 4) == before + 5000


def test_only_current_control_is_simulated(bus):
    assert write(bus, 11, 11, b"\x03") == 0
    assert write(bus, 11, 512, b"\x01") == RESULT_FAIL


def test_reboot_forgets_ram_and_turns(bus):
    bus.plant.angles[0] = 20.0
    pulses = 1_003_846
    count = round(20.0 * pulses / 6.283185307179586)
    assert read(bus, 11, 580, 4) == count
    assert write(bus, 11, 513, b"\x07") == 0
    assert ask(bus, instruction(11, frames.REBOOT)) == [Status(11, 0, b"")]
    assert ask(bus, instruction(11, frames.PING)) == []
    bus.clock.sleep_until_ns(bus.clock.now_ns() + BOOT_NS)
    assert read(bus, 11, 513, 1) == 0
    assert read(bus, 11, 580, 4) == count - 3 * pulses
    assert read(bus, 12, 7, 1) == 12  # the others did not notice


def test_factory_reset_keeps_the_id_when_told(bus):
    assert write(bus, 14, 38, u16(1000)) == 0
    assert ask(bus, instruction(14, frames.FACTORY_RESET, b"\x02")) == [Status(14, 0, b"")]
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 2 * BOOT_NS)
    assert read(bus, 14, 38, 2) == 15_900
    assert read(bus, 14, 9, 1) == 250
    assert read(bus, 14, 11, 1) == 3


def test_a_servo_that_has_forgotten_all_answers_as_from_the_factory(make_bus):
    bus = make_bus(ids=(14,), models=("XM540-W270",), baud=57_600)
    assert ask(bus, instruction(14, frames.FACTORY_RESET, b"\xff")) == [Status(14, 0, b"")]
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 2 * BOOT_NS)
    assert ask(bus, instruction(14, frames.PING)) == []
    assert read(bus, 1, 7, 1) == 1


def test_turns_are_cleared_at_a_stand_only(make_bus):
    bus = make_bus(ids=(1,), models=("XM540-W270",))
    bus.plant.angles[0] = 7.0
    clear = instruction(1, 0x10, b"\x01\x44\x58\x4c\x22")
    assert read(bus, 1, 132, 4) > 4096
    bus.plant.speeds[0] = 1.0
    assert ask(bus, clear) == [Status(1, RESULT_FAIL, b"")]
    bus.plant.speeds[0] = 0.0
    assert ask(bus, clear) == [Status(1, 0, b"")]
    assert 0 <= read(bus, 1, 132, 4) < 4096


# -- what stops a servo -----------------------------------------------------------------------------------------------


def test_any_packet_feeds_the_watchdog_and_silence_trips_it(bus):
    switch_on(bus, 11, 500)
    assert write(bus, 11, 546, b"\x03") == 0
    for _ in range(20):
        assert len(ask(bus, instruction(16, frames.PING), 0.05)) == 1
    assert bus.plant.commanded[0] == 0.5
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 61_000_000)
    assert bus.plant.commanded[0] == 0.0
    assert read(bus, 11, 546, 1) == 0xFF
    assert read(bus, 11, 512, 1) == 1
    assert write(bus, 11, 550, struct.pack("<h", 500)) == RANGE  # goals are read only now
    assert write(bus, 11, 546, b"\x05") == RANGE
    assert write(bus, 11, 546, b"\x00") == 0
    assert write(bus, 11, 550, struct.pack("<h", 500)) == 0
    assert bus.plant.commanded[0] == 0.5


def test_a_damaged_packet_does_not_feed_the_watchdog(bus):
    switch_on(bus, 11, 500)
    assert write(bus, 11, 546, b"\x03") == 0
    for _ in range(8):
        bus.talk(instruction(16, frames.PING)[:-1] + b"\x00", 0.01)
    assert bus.plant.commanded[0] == 0.0


def test_watchdog_watches_only_while_the_torque_is_on(bus):
    assert write(bus, 11, 546, b"\x03") == 0
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 500_000_000)
    assert read(bus, 11, 546, 1) == 3


@pytest.mark.parametrize(
    ("cause", "bits"),
    [
        (lambda bus: bus.plant.degc.__setitem__(0, 81.0), 0x04),
        (lambda bus: bus.plant.break_down(0, 0x20), 0x20),
        (lambda bus: ask(bus, frames.write(11, 550, struct.pack("<h", 22_740)), 1.2), 0x20),
    ],
)
def test_overheating_and_overload_shut_down_until_a_reboot(bus, cause, bits):
    switch_on(bus, 11, 500)
    cause(bus)
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 100_000_000)
    assert bus.plant.commanded[0] is None
    (answer,) = ask(bus, frames.read(11, 518, 1))
    assert (answer.error, answer.data) == (0x80, bytes([bits]))
    assert write(bus, 11, 512, b"\x01") == 0x80 | RESULT_FAIL
    bus.plant.degc[0] = 40.0
    assert len(ask(bus, instruction(11, frames.REBOOT))) == 1
    bus.clock.sleep_until_ns(bus.clock.now_ns() + BOOT_NS)
    assert write(bus, 11, 512, b"\x01") == 0


def test_an_error_that_shutdown_leaves_out_shows_and_does_not_stop(bus):
    switch_on(bus, 11, 500)
    bus.plant.supply = 14.0  # below Min Voltage Limit; Shutdown is 52
    bus.clock.sleep_until_ns(bus.clock.now_ns() + 100_000_000)
    assert read(bus, 11, 518, 1) == 0x01
    assert bus.plant.commanded[0] == 0.5


def test_without_supply_nobody_speaks_and_no_motor_turns(bus):
    switch_on(bus, 11, 500)
    bus.plant.supply_on(False)
    assert bus.plant.commanded == [None] * 6
    assert ask(bus, instruction(11, frames.PING)) == []
    bus.plant.supply_on(True)
    assert ask(bus, instruction(11, frames.PING)) == []  # it boots
    bus.clock.sleep_until_ns(bus.clock.now_ns() + BOOT_NS)
    assert read(bus, 11, 512, 1) == 0
    assert bus.plant.commanded == [None] * 6


# -- made wrong -------------------------------------------------------------------------------------------------------


def test_the_plant_is_what_the_device_asks_for(bus):
    plant: ArmDrivesPlant = bus.plant
    assert plant.axes == 6


def test_what_cannot_be_is_refused(bus):
    with pytest.raises(TwinError, match="5 servos for 6 axes"):
        DynamixelArm(bus.plant, [ServoSpec(k, "PH42-020-S300") for k in range(5)])
    with pytest.raises(TwinError, match="knows no 123456 baud"):
        DynamixelArm(bus.plant, [ServoSpec(k, "PH42-020-S300") for k in range(6)], baud=123456)
    with pytest.raises(TwinError, match=r"no servo has the id 99.*ids: 11, 12"):
        bus.device.mute(99)
