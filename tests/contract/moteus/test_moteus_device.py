"""The twin's moteus drive at its line: the bytes it takes and gives, and how it behaves as far as we assume to know."""

from __future__ import annotations

import struct

import pytest

from bench.errors import TwinError
from bench.twin.devices.moteus import Moteus


def f32(value: float) -> bytes:
    return struct.pack("<f", value).hex().encode()


def reply(drive_line, data: bytes) -> bytes:
    """Return the data in upper-case hex of the reply from drive 1 to source 0."""
    answer = drive_line.talk(b"can send 8001 " + data + b" BF\n", 2e-3)
    assert answer.startswith(b"OK\r\nrcv 100 ")
    assert answer.endswith(b" e B F\r\n")
    return answer.split()[3]


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (b"can send 8001 1100 BF\n", b"OK\r\nrcv 100 210000 e B F\r\n"),
        (b"can send 8001 1100\r\n", b"OK\r\nrcv 100 210000 e B F\r\n"),
        (b"can send 8501 1100 BF\r", b"OK\r\nrcv 105 210000 e B F\r\n"),  # to the source that asked
        (b"can send 0001 1100 BF\n", b"OK\r\n"),  # no reply wanted
        (b"can send 8002 1100 BF\n", b"OK\r\n"),  # another drive's
        (b"can send 807f 1100 BF\n", b"OK\r\nrcv 100 210000 e B F\r\n"),  # everybody's
        (b"can send 8001 50 BF\n", b"OK\r\nrcv 100  e B F\r\n"),
        (b"can send 8001 1100zz BF\n", b"ERR unknown command\r\n"),
        (b"can sned 8001 1100 BF\n", b"ERR unknown command\r\n"),
        (b"hello\n", b"ERR unknown command\r\n"),
        (b"\n\r\n", b""),
        (b"can send 8001 1100 BF *00\n", b"ERR checksum mismatch\r\n"),
        # Registers: int8, int16, int32 and float of 24 V; NaN is the lowest number.
        (b"can send 8001 110d BF\n", b"OK\r\nrcv 100 210D30 e B F\r\n"),
        (b"can send 8001 150d BF\n", b"OK\r\nrcv 100 250DF000 e B F\r\n"),
        (b"can send 8001 190d BF\n", b"OK\r\nrcv 100 290DC05D0000 e B F\r\n"),
        (b"can send 8001 1d0d BF\n", b"OK\r\nrcv 100 2D0D0000C041 e B F\r\n"),
        (b"can send 8001 110a BF\n", b"OK\r\nrcv 100 210A80 e B F\r\n"),
        (b"can send 8001 150a BF\n", b"OK\r\nrcv 100 250A0080 e B F\r\n"),
        # Four registers with a count of their own, as the client asks for them.
        (b"can send 8001 140400 BF\n", b"OK\r\nrcv 100 240400000000000000000050 e B F\r\n"),
        # Unknown, read as the wrong type, not writable, a mode it has not.
        (b"can send 8001 1104 BF\n", b"OK\r\nrcv 100 310401 e B F\r\n"),
        (b"can send 8001 118002 BF\n", b"OK\r\nrcv 100 31800201 e B F\r\n"),
        (b"can send 8001 010105 BF\n", b"OK\r\nrcv 100 300102 e B F\r\n"),
        (b"can send 8001 014105 BF\n", b"OK\r\nrcv 100 304101 e B F\r\n"),
        (b"can send 8001 010005 BF\n", b"OK\r\nrcv 100 300003 e B F\r\n"),
        # A subframe nobody knows, or one that breaks off, ends the frame.
        (b"can send 8001 1100601100 BF\n", b"OK\r\nrcv 100 210000 e B F\r\n"),
        (b"can send 8001 1100090000 BF\n", b"OK\r\nrcv 100 210000 e B F\r\n"),
        (b"can send 8001 110010 BF\n", b"OK\r\nrcv 100 210000 e B F\r\n"),
    ],
)
def test_bytes(drive_line, said, answered):
    assert drive_line.talk(said, 2e-3) == answered


def test_lines_in_pieces_and_two_at_once(drive_line):
    assert drive_line.talk(b"can send 8001 11") == b""
    answer = drive_line.talk(b"00 BF\ncan send 8101 1100 BF\n")
    assert answer == b"OK\r\nrcv 100 210000 e B F\r\nOK\r\nrcv 101 210000 e B F\r\n"


def test_noise_without_end_is_forgotten(drive_line):
    drive_line.talk(b"x" * 5000, 0.5)
    assert drive_line.talk(b"\ncan send 8001 1100 BF\n").endswith(b"rcv 100 210000 e B F\r\n")


def test_what_does_not_fit_in_a_reply_is_refused(drive_line):
    # Mode, then eighteen floats from 0x020: 72 bytes.
    assert reply(drive_line, b"11001c1220") == b"210000312002"


def test_checksums_once_used_are_insisted_on(drive_line):
    # CRC-8, polynomial 0x97, over all before the asterisk; worked out with the vendor's published table.
    assert drive_line.talk(b"can send 8001 1100 BF *16\n") == b"OK *BD\r\nrcv 100 210000 e B F *80\r\n"
    assert drive_line.talk(b"can send 8001 1100 BF\n").startswith(b"ERR checksum required *")


def test_reply_takes_its_time_on_the_bus_and_on_the_line(drive_line):
    # 22 bytes there and 27 back at 4 Mbaud: 122.5 us; 2 and 3 bytes on the bus: 55 and 57 us; 50 us between.
    said = b"can send 8001 1100 BF\n"
    assert drive_line.talk(said, 270e-6) == b""
    assert drive_line.talk(b"", 20e-6) == b"OK\r\nrcv 100 210000 e B F\r\n"


def test_reply_is_from_before_the_command(drive_line):
    assert reply(drive_line, b"01000a1100") == b"210000"
    assert reply(drive_line, b"1100") == b"210003"


def test_getting_ready_takes_ten_milliseconds(drive_line, pause):
    drive_line.talk(b"can send 0001 01000a BF\n", 1e-3)
    assert drive_line.device.mode == 2
    pause(1e-3)
    assert drive_line.device.mode == 3
    pause(9e-3)
    assert drive_line.device.mode == 10


def test_stop_while_getting_ready_holds(drive_line, pause):
    drive_line.talk(b"can send 0001 01000a BF\n", 1e-3)
    drive_line.talk(b"can send 0001 010000 BF\n", 1e-3)
    pause(0.02)
    assert drive_line.device.mode == 0


def test_position_command_is_a_spring_and_a_damper(drive_line, pause):
    """kp 4 N.m/rev by half, kd by a fifth: after a while the rotor stands at the set-point."""
    command = b"01000a0e20" + f32(0.25) + f32(0.0) + b"0e23" + f32(0.5) + f32(0.2) + b"0d27" + f32(float("nan"))
    reply(drive_line, command)
    pause(2.0)
    plant = drive_line.plant
    assert plant.position_rev() == pytest.approx(0.25, abs=1e-3)
    assert plant._told == pytest.approx((0.0, 2.0, 0.01, 0.25, 0.0, 1.0), rel=1e-6)
    assert drive_line.device.mode == 10  # a watchdog of NaN is none


def test_values_in_integers_mean_the_same(drive_line, pause):
    # int16: position 0.25 in 1e-4, velocity 0, feed-forward 0.02 in 0.01; int8 scales 0.5 in 1/127.
    reply(drive_line, b"01000a0720c409000002000223" + b"4040" + b"0d27" + f32(float("nan")))
    pause(0.02)
    half = 64 / 127
    assert drive_line.plant._told == pytest.approx((0.02, 4 * half, 0.05 * half, 0.25, 0.0, 1.0), rel=1e-6)


def test_torque_is_held_to_the_commanded_maximum(drive_line, pause):
    reply(drive_line, b"01000a0d22" + f32(0.2) + b"02230000" + b"0d25" + f32(0.05))
    pause(0.02)
    assert drive_line.plant.torque_nm() == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize("register", [0x26, 0x28, 0x29, 0x2A, 0x2C])
def test_what_is_not_simulated_is_refused(drive_line, register):
    asked = b"0d%02x" % register
    assert reply(drive_line, asked + f32(1.0)) == b"30%02X03" % register
    assert reply(drive_line, asked + f32(float("nan")) + b"1100") == b"210000"


def test_after_the_watchdog_it_damps_as_the_last_command_did(drive_line, pause):
    reply(drive_line, b"01000a0d22" + f32(0.05) + b"022300400d27" + f32(0.03))  # kp 0, kd by half, 30 ms
    pause(0.027)
    assert drive_line.device.mode == 10
    pause(0.01)
    assert drive_line.device.mode == 11
    assert drive_line.plant._told[:3] == pytest.approx((0.0, 0.0, 0.05 * 64 / 127))
    assert reply(drive_line, b"01000a1100") == b"21000B"
    assert reply(drive_line, b"01000f1100") == b"21000B"
    assert reply(drive_line, b"0100001100") == b"21000B"
    assert reply(drive_line, b"1100") == b"210000"


def test_zero_velocity_and_brake_have_no_watchdog(drive_line, pause):
    for mode in (b"0c", b"0f"):
        reply(drive_line, b"0100" + mode)
        pause(0.5)
        assert drive_line.device.mode == int(mode, 16)


def test_only_a_stop_leads_out_of_a_fault(drive_line, pause):
    drive_line.device.inject_fault(35)
    assert reply(drive_line, b"1100110f") == b"210001210F23"
    reply(drive_line, b"01000a")
    pause(0.02)
    assert drive_line.device.mode == 1
    reply(drive_line, b"010000")
    assert reply(drive_line, b"1100110f") == b"210000210F00"


def test_position_counts_on_and_starts_anew_with_the_supply(drive_line, pause):
    reply(drive_line, b"01000a0d22" + f32(0.1) + b"022300000d27" + f32(float("nan")))
    pause(1.0)
    turned = drive_line.plant.position_rev()
    assert turned > 3.0
    (value,) = struct.unpack("<f", bytes.fromhex(reply(drive_line, b"1d01").decode())[2:])
    assert value == pytest.approx(drive_line.plant.position_rev(), abs=0.1)
    drive_line.plant.supply_on(False)
    assert drive_line.talk(b"can send 8001 1100 BF\n", 2e-3) == b"OK\r\n"
    pause(3.0)
    drive_line.plant.supply_on(True)
    pause(0.1)
    (value,) = struct.unpack("<f", bytes.fromhex(reply(drive_line, b"1d01").decode())[2:])
    assert abs(value) <= 0.5
    stands = drive_line.plant.position_rev()
    assert (stands - value) % 1 == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("given", [{"serial_number": "77"}, {"serial_number": "1-2-G"}, {"firmware": "1.2"}])
def test_identity_that_no_drive_has_is_refused(drive_line, given):
    with pytest.raises(TwinError, match="is none of a moteus drive"):
        Moteus(drive_line.plant, **given)
