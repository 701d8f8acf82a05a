"""The moteus driver: the bytes of one conversation written out, then against the twin's drive, in virtual time."""

from __future__ import annotations

import math
import struct

import pytest

from bench.errors import (
    DriveFault,
    DriveWatchdogTripped,
    InstrumentDisconnected,
    InstrumentError,
    InstrumentTimeout,
    LimitError,
)
from bench.instruments.moteus import MoteusDrive
from bench.instruments.moteus_frames import crc8
from bench.instruments.protocols import JointDrive
from bench.twin.interfaces import JointDrivePlant, SerialDevice

TURN = 2 * math.pi


def frame(*parts: str) -> bytes:
    """Hex of a CAN-FD frame from its subframes, padded with 50 to the next length there is."""
    data = "".join(parts).replace(" ", "")
    length = next(n for n in (*range(9), 12, 16, 20, 24, 32, 48, 64) if 2 * n >= len(data))
    return data.ljust(2 * length, "_").replace("_", "50" * length, 1)[: 2 * length].encode()


def f32(value: float) -> str:
    return struct.pack("<f", value).hex()


QUERY = ("11 00", "1f 01", "15 0a", "16 0d", "11 0f")
# Read three int32 registers from 0x100, and from 0x120; a register number above 0x7f takes two bytes.
IDENTITY = frame("1b 8002", "1b a002")
# Position mode; position NaN, velocity 0, feed-forward; kp and kd scale 0; largest torque; watchdog; windup limit 0.
TORQUE = frame(
    "01 00 0a",
    "0f 20" + f32(math.nan) + f32(0.0) + f32(0.05),
    "02 23 00 00",
    "0d 25" + f32(0.25),
    "0d 27" + f32(0.1),
    "01 2b 00",
    *QUERY,
)
STOP = frame("01 00 00", *QUERY)


def said_identity(source: int) -> bytes:
    words = struct.pack("<3i", 0x0410, 0x010203, 5).hex(), struct.pack("<3I", 0x6A0F2D11, 0x3B7C4E58, 0x90A1B2C3).hex()
    return b"OK\r\nrcv %X %b E B F\r\n" % (0x100 | source, frame("2b 8002" + words[0], "2b a002" + words[1]).upper())


def said_state(source: int, mode: int, position: float = 0.0, fault: int = 0) -> bytes:
    temperature, volts = struct.pack("<h", 405).hex(), struct.pack("<hh", 240, 312).hex()
    data = frame(
        f"21 00 {mode:02x}",
        "2f 01" + f32(position) + f32(-0.5) + f32(0.049),
        "25 0a" + temperature,
        "26 0d" + volts,
        f"21 0f {fault:02x}",
    )
    return b"OK\r\nrcv %x %b e B F\r\n" % (0x100 | source, data)


def asked(source: int, data: bytes) -> bytes:
    return b"can send %04x %b BF\n" % (0x8000 | source << 8 | 1, data)


MEETING = [(asked(64, IDENTITY), said_identity(64))]


# -- bytes ------------------------------------------------------------------------------------------------------------


def test_one_conversation(conversation):
    script = [
        *MEETING,
        (asked(65, TORQUE), said_state(65, 10, position=1.25)),
        (asked(66, STOP), said_state(66, 10)),
        (asked(67, frame(*QUERY)), said_state(67, 0)),
    ]
    with conversation(script) as clock:
        drive = MoteusDrive("script://", clock=clock, max_torque_nm=0.25)
        identity = drive.identify()
        state = drive.command_torque(0.05)
        stopped = drive.stop()
        drive.close()
    assert (identity.serial_number, identity.firmware) == ("6A0F2D11-3B7C4E58-90A1B2C3", "1.2.3")
    assert (identity.name, identity.model, identity.details["register map"]) == ("moteus", "model 0x410", "5")
    assert state.rotor_angle_rad == 1.25 * TURN
    assert state.rotor_velocity_rad_s == -0.5 * TURN
    assert state.rotor_torque_nm == pytest.approx(0.049, rel=1e-6)
    assert (state.temperature_degc, state.motor_temperature_degc) == pytest.approx((31.2, 40.5))
    assert (state.voltage_v, state.mode, state.fault) == (pytest.approx(24.0), 10, 0)
    assert stopped.mode == 0


def test_every_line_bears_a_checksum_when_told(conversation):
    def checked(text: bytes) -> bytes:
        lines = [line + b" *%02X" % crc8(line + b" ") for line in text.replace(b"\r", b"").split(b"\n") if line]
        return b"".join(line + b"\r\n" for line in lines)

    script = [(checked(asked(64, IDENTITY)).replace(b"\r", b""), checked(said_identity(64)))]
    with conversation(script) as clock:
        MoteusDrive("script://", clock=clock, max_torque_nm=0.25, checksummed=True).close()


def test_crc8_is_the_published_one():
    # Polynomial 0x97, no reflection, start 0: the remainder of a message followed by its own CRC is 0.
    assert crc8(b"\x01") == 0x97
    assert crc8(b"\x02") == 0x97 << 1 & 0xFF ^ 0x97
    text = b"can send 8001 01000a BF "
    assert crc8(text + bytes([crc8(text)])) == 0


@pytest.mark.parametrize(
    "answer",
    [
        b"OK\r\nrcv 141 21000A E B F\r\n",  # shorter than what was asked for
        said_state(65, 10).replace(b"2f01", b"2f02"),  # other registers
    ],
)
def test_reply_with_other_registers_is_no_state(conversation, answer):
    script = [*MEETING, (asked(65, TORQUE), answer), (asked(66, frame(*QUERY)), said_state(66, 10))]
    with conversation(script) as clock:
        drive = MoteusDrive("script://", clock=clock, max_torque_nm=0.25)
        with pytest.raises(InstrumentError, match="other registers than asked for"):
            drive.command_torque(0.05)


def test_refused_register_is_named(conversation):
    script = [(asked(64, IDENTITY), b"OK\r\nrcv 140 31800201 E B F\r\n")]
    with (
        conversation(script) as clock,
        pytest.raises(InstrumentError, match="register 0x100 cannot be read: unknown register or type"),
    ):
        MoteusDrive("script://", clock=clock, max_torque_nm=0.25)


def test_adapter_that_refuses_is_told(conversation):
    script = [(asked(64, IDENTITY), b"ERR checksum required\r\n")]
    with (
        conversation(script) as clock,
        pytest.raises(InstrumentError, match=r"refuses its identity with 'ERR checksum required'.*Set checksum"),
    ):
        MoteusDrive("script://", clock=clock, max_torque_nm=0.25)


def test_stale_and_foreign_replies_are_passed_over(conversation):
    foreign = said_state(66, 10, position=7.0).replace(b"OK\r\n", b"").replace(b"rcv 142", b"rcv 242")
    stale = said_state(64, 10, position=9.0).replace(b"OK\r\n", b"")
    answer = stale + foreign + said_state(65, 0, position=2.0)
    with conversation([*MEETING, (asked(65, frame(*QUERY)), answer)]) as clock:
        drive = MoteusDrive("script://", clock=clock, max_torque_nm=0.25)
        assert drive.state().rotor_angle_rad == 2.0 * TURN
        assert drive.statistics.stale_replies == 1


# -- with the twin's drive --------------------------------------------------------------------------------------------


def test_protocols_fit(drive, drive_line):
    plant: JointDrivePlant = drive_line.plant
    device: SerialDevice = drive_line.device
    assert isinstance(drive, JointDrive)
    assert plant.powered()
    assert device.name == "drive"


def test_torque_turns_the_rotor(drive, run, drive_line):
    state = run(0.02, 0.5)
    plant = drive_line.plant
    # Spin-up against viscous drag: w = T/d (1 - exp(-t d/J)); 10 ms are lost in getting ready, 2 ms to the last reply.
    spun_s = 0.5 - 0.010 - 2e-3
    expected = 0.02 / plant.damping * (1 - math.exp(-spun_s * plant.damping / plant.inertia))
    assert state.rotor_velocity_rad_s == pytest.approx(expected, rel=0.01)
    assert state.rotor_torque_nm == pytest.approx(0.02, rel=1e-6)
    assert state.rotor_angle_rad > TURN  # cumulative
    assert state.mode == 10
    assert drive.statistics.timeouts == 0


def test_torque_is_signed_and_zero_is_none(run):
    assert run(-0.02, 0.1).rotor_velocity_rad_s < 0
    assert run(0.0, 0.4).rotor_velocity_rad_s == pytest.approx(0.0, abs=0.01)


@pytest.mark.parametrize("torque", [0.2501, -0.3, math.nan, math.inf])
def test_torque_beyond_the_limit_never_leaves(drive, drive_line, torque):
    sent = len(drive_line.sent)
    with pytest.raises(LimitError, match=r"not within ±0\.25 N\.m"):
        drive.command_torque(torque)
    assert len(drive_line.sent) == sent


def test_watchdog_trips_and_is_named(drive, run, pause):
    before = run(0.02, 0.1)
    pause(0.097)
    assert drive.state().mode == 10
    pause(0.010)
    assert drive.state().mode == 11
    with pytest.raises(
        DriveWatchdogTripped, match=r"watchdog has tripped \(mode 11 \(position timeout\)\).*for 0\.1 s"
    ):
        drive.command_torque(0.02)
    pause(0.1)
    state = drive.state()
    assert state.rotor_torque_nm == 0.0
    assert state.rotor_velocity_rad_s < before.rotor_velocity_rad_s
    assert drive.clear_fault().mode == 0
    assert run(0.02, 0.02).mode == 10


def test_asking_does_not_feed_the_watchdog(drive, run, pause):
    run(0.02, 0.05)
    for _ in range(11):
        pause(0.01)
        state = drive.state()
    assert state.mode == 11


def test_watchdog_is_as_long_as_told(drive, run, pause):
    drive.arm_watchdog(0.02)
    run(0.02, 0.05)
    pause(0.03)
    assert drive.state().mode == 11
    with pytest.raises(LimitError, match="watchdog 0 s is not above 0"):
        drive.arm_watchdog(0.0)


def test_stop_coasts_and_brake_holds_back(drive, run, pause, drive_line):
    fast = run(0.02, 0.2).rotor_velocity_rad_s
    assert drive.stop().mode == 0
    pause(0.02)
    coasting = drive.state()
    time_constant = drive_line.plant.inertia / drive_line.plant.damping
    assert coasting.rotor_velocity_rad_s == pytest.approx(fast * math.exp(-0.02 / time_constant), rel=0.1)
    drive.brake()
    pause(0.012)
    assert drive.state().mode == 15
    pause(0.02)
    braked = drive.state()
    assert braked.rotor_velocity_rad_s < 0.2 * coasting.rotor_velocity_rad_s


def test_brake_after_the_watchdog(drive, run, pause):
    run(0.02, 0.05)
    pause(0.12)
    drive.brake()
    pause(0.012)
    assert drive.state().mode == 15


@pytest.mark.parametrize(
    ("code", "words", "remedy"),
    [
        (33, "motor driver fault", "Check the supply"),
        (35, "its readings fit no magnet", "Check the rotor's magnet"),
        (38, "overtemperature", "Let drive and motor cool"),
        (77, "not in the register reference", "Look it up"),
    ],
)
def test_fault_is_named_in_words(drive, run, drive_line, code, words, remedy):
    run(0.02, 0.05)
    drive_line.plant.break_down(code)
    with pytest.raises(DriveFault, match=f"fault {code}, .*{words}.*{remedy}") as caught:
        drive.command_torque(0.02)
    assert caught.value.code == code
    assert (drive.state().mode, drive.state().fault) == (1, code)
    with pytest.raises(DriveFault):
        drive.brake()
    assert drive.clear_fault().fault == 0


def test_overtemperature_stops_the_drive_by_itself(drive, run, drive_line):
    run(0.02, 0.05)
    drive_line.plant.board = 75.5
    with pytest.raises(DriveFault, match="fault 38, overtemperature"):
        run(0.02, 0.1)
    drive_line.plant.board = 30.0
    drive.clear_fault()
    assert run(0.02, 0.02).mode == 10


def test_lost_supply_is_told_and_its_return_is_no_silent_restart(drive, run, pause, drive_line):
    run(0.02, 0.3)
    drive_line.plant.supply_on(False)
    with pytest.raises(InstrumentTimeout, match=r"drive id 1 does not answer a torque command within 0\.02 s.*supply"):
        drive.command_torque(0.02)
    drive_line.plant.supply_on(True)
    pause(0.1)
    with pytest.raises(InstrumentError, match=r"no longer followed the torque commands, it was in mode 0 \(stopped\)"):
        drive.command_torque(0.02)
    drive.stop()
    assert abs(drive.state().rotor_angle_rad) <= TURN / 2


def test_somebody_else_commands_the_drive(drive, drive_line, pause):
    drive_line.talk(b"can send 0001 01000C BF\n")  # zero velocity mode
    pause(0.02)
    with pytest.raises(InstrumentError, match=r"mode 12 \(zero velocity\), which this bench never asks for"):
        drive.command_torque(0.02)


def test_another_drive_is_refused(open_drive):
    with pytest.raises(InstrumentError, match="serial number 6A0F2D11-3B7C4E58-90A1B2C3, expected 00000000-0"):
        open_drive(expected_serial_number="00000000-00000000-00000001")
    open_drive(expected_serial_number="6a0f2d11-3b7c4e58-90a1b2c3").close()


def test_checksummed_line(open_drive, drive_line):
    drive = open_drive(checksummed=True)
    assert drive.command_torque(0.01).mode == 0
    drive.close()
    with pytest.raises(InstrumentError, match="checksum required"):  # once used, a drive insists on them
        open_drive()


# -- hazards ----------------------------------------------------------------------------------------------------------


def test_missing_id_ends_at_our_deadline(open_drive, drive_line):
    before_ns = drive_line.clock.now_ns()
    with pytest.raises(InstrumentTimeout, match=r"moteus drive id 9: drive id 9 does not answer.*though the adapter"):
        open_drive(device_id=9)
    assert drive_line.clock.now_ns() - before_ns < 0.4e9


def test_drive_that_has_just_been_switched_on_is_waited_for(open_drive, drive_line):
    drive_line.plant.supply_on(False)
    drive_line.after(0.1, lambda: drive_line.plant.supply_on(True))
    assert open_drive().identify().serial_number == "6A0F2D11-3B7C4E58-90A1B2C3"


def test_silent_adapter_ends_at_our_deadline(open_drive, drive_line):
    drive_line.lose_replies(99)
    with pytest.raises(InstrumentTimeout, match="neither the adapter nor drive id 1 answers its identity"):
        open_drive()


def test_reply_late_by_60_ms_is_an_error_and_never_the_next_reply(drive, run, pause, drive_line):
    run(0.02, 0.1)
    frames = drive_line.sent.count(b"\n")
    drive_line.wire.delay_replies(1, 60_000_000)
    with pytest.raises(InstrumentTimeout, match=r"neither the adapter nor drive id 1 answers a torque command within"):
        drive.command_torque(0.02)
    assert drive_line.sent.count(b"\n") == frames + 1  # the command was not sent again
    # The line is in order: what is asked meanwhile is answered after the late reply. A stop is asked until it is.
    assert drive.stop().mode == 0
    pause(0.1)
    state = drive.state()
    assert (state.mode, state.rotor_torque_nm) == (0, 0.0)
    assert drive.statistics.timeouts == 2


def test_late_replies_are_known_however_late_they_are(drive, run, pause, drive_line):
    """Two commands in a row unanswered; both replies come while a third waits for its own."""
    run(0.02, 0.1)
    send, held = drive_line.wire.send, []
    drive_line.wire.send = lambda data, **_: held.append(data)
    for torque in (0.02, 0.021):
        with pytest.raises(InstrumentTimeout):
            drive.command_torque(torque)
    drive_line.wire.send = lambda data, **timing: [send(late) for late in held] and send(data, **timing)
    turned = drive_line.plant.position_rev() * TURN
    assert drive.state().rotor_angle_rad == pytest.approx(turned, abs=0.05)
    assert drive.statistics.stale_replies == 2


@pytest.mark.parametrize("checksummed", [False, True])
def test_damaged_reply_is_told(open_drive, drive_line, checksummed):
    drive = open_drive(checksummed=checksummed)
    drive_line.wire.corrupt_replies(1)
    with pytest.raises(InstrumentTimeout, match=r"no valid reply to a query within 0\.02 s: 1 damaged line\(s\)"):
        drive.state()
    assert drive.state().mode == 0


def test_lost_stop_is_repeated(drive, run, drive_line):
    run(0.02, 0.02)
    drive_line.lose_replies(2)
    assert drive.stop().mode == 0


def test_unplugged_is_told_at_once_and_for_good(drive, run, drive_line, monkeypatch):
    run(0.02, 0.02)

    def gone(size: int = 1) -> bytes:
        raise OSError("device reports readiness to read but returned no data")

    monkeypatch.setattr(drive_line.port, "read", gone)
    with pytest.raises(InstrumentDisconnected, match="the device went away"):
        drive.command_torque(0.02)
    with pytest.raises(InstrumentDisconnected, match="never reopens by itself"):
        drive.stop()
    drive.close()
