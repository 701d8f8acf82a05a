"""The twin's Zaber stage at its line: the bytes it takes and gives, and how it behaves as far as we assume to know."""

from __future__ import annotations

import pytest

from bench.twin.interfaces import SerialDevice

MM = 20997.375  # microsteps per mm


def home(loopback) -> None:
    loopback.talk(b"/1 home\n")
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + 3_000_000_000)


def wait(loopback, seconds: float) -> None:
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + round(seconds * 1e9))


def test_is_a_serial_device(loopback):
    device: SerialDevice = loopback.device
    assert (device.name, device.baud) == ("stage", 115200)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        (b"/\n", b"@01 0 OK IDLE WR 0\r\n"),
        (b"/\r\n", b"@01 0 OK IDLE WR 0\r\n"),
        (b"/1\n", b"@01 0 OK IDLE WR 0\r\n"),
        (b"/01 1 7\r", b"@01 1 07 OK IDLE WR 0\r\n"),
        (b"/0 0 00:00\n", b"@01 0 00 OK IDLE WR 0\r\n"),
        (b"noise /1 0 42 get system.serial:26\n", b"@01 0 42 OK IDLE WR 100001\r\n"),
        (b"/1 get pos\n", b"@01 0 OK IDLE WR 0\r\n"),
        (b"/1 0 99 get version\n", b"@01 0 99 OK IDLE WR 7.38\r\n"),
        (b"/1 1 5 warnings\n", b"@01 1 05 OK IDLE WR 01 WR\r\n"),
        (b"/1 1 -- get pos\n", b""),
        (b"/2 get pos\n", b""),
        (b"/1 1 05 get pos:00\n", b""),
        (b"/1 1 05 get pos:zz\n", b""),
        (b"get pos\n", b""),
        (b"/1 2 05 get pos\n", b"@01 2 05 RJ IDLE WR BADAXIS\r\n"),
        (b"/1 1 05 get deviceid\n", b"@01 1 05 RJ IDLE WR DEVICEONLY\r\n"),
        (b"/1 0 100 get pos\n", b"@01 0 RJ IDLE WR BADMESSAGEID\r\n"),
        (b"/1 jump\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 get foo\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 get\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 set deviceid 1\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 set maxspeed 0\n", b"@01 0 RJ IDLE WR BADDATA\r\n"),
        (b"/1 set maxspeed fast\n", b"@01 0 RJ IDLE WR BADDATA\r\n"),
        (b"/1 move\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 move sin 1 2\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 move rel\n", b"@01 0 RJ IDLE WR BADDATA\r\n"),
        (b"/1 system restore\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
        (b"/1 storage get zaber.label\n", b"@01 0 RJ IDLE WR BADDATA\r\n"),
        (b"/1 io info\n", b"@01 0 OK IDLE WR 0 0 0 0\r\n"),
        (b"/1 trigger 1 when io ai 1 > 5\n", b"@01 0 RJ IDLE WR BADCOMMAND\r\n"),
    ],
)
def test_bytes(loopback, said, answered):
    assert loopback.talk(said) == answered


def test_message_may_come_in_pieces_and_two_at_once(loopback):
    assert loopback.talk(b"/1 0 1 ge") == b""
    assert loopback.talk(b"t version\n/1 0 2\n") == b"@01 0 01 OK IDLE WR 7.38\r\n@01 0 02 OK IDLE WR 0\r\n"


def test_noise_without_end_is_forgotten(loopback):
    loopback.talk(b"x" * 5000, 0.5)
    assert loopback.talk(b"\n/1\n") == b"@01 0 OK IDLE WR 0\r\n"


def test_checksums_on_request(loopback):
    assert loopback.talk(b"/1 0 7 set comm.checksum 1\n") == b"@01 0 07 OK IDLE WR 0:B7\r\n"
    assert loopback.talk(b"/1 0 8 set comm.checksum 0\n") == b"@01 0 08 OK IDLE WR 0\r\n"


def test_reply_latency_and_byte_times(loopback):
    # 3 bytes there, 300 us, 20 bytes back, ten bits a byte at 115200 baud: 2.30 ms.
    assert loopback.talk(b"/1\n", 2.2e-3) == b""
    assert loopback.talk(b"", 0.2e-3) == b"@01 0 OK IDLE WR 0\r\n"


def test_long_command_and_reply_go_in_packets(loopback):
    words = " ".join(f"word{n:02d}" for n in range(20))
    loopback.talk(b"/1 0 5 tools echo " + words[:48].encode() + b"\\\n")
    answer = loopback.talk(b"/1 0 5 cont 1" + words[48:].encode() + b"\n")
    packets = answer.split(b"\r\n")[:-1]
    assert all(len(packet) <= 78 for packet in packets)
    assert packets[0] == b"@01 0 05 OK IDLE WR word00 word01 word02 word03 word04 word05 word06\\"
    assert packets[-1] == b"#01 0 05 cont word15 word16 word17 word18 word19"
    assert loopback.talk(b"/1 0 6 cont 3 x\n") == b"@01 0 06 RJ IDLE WR BADSPLIT\r\n"


def test_absolute_moves_need_a_reference_and_homing_takes_its_time(loopback):
    for command in (b"move abs 100", b"move min", b"move max"):
        assert loopback.talk(b"/1 " + command + b"\n") == b"@01 0 RJ IDLE WR BADDATA\r\n"
    assert loopback.talk(b"/1 home\n", 0.1) == b"@01 0 OK BUSY WR 0\r\n"
    # 12.3 mm at 20 mm/s and 100 mm/s²: 0.815 s.
    assert loopback.talk(b"/1\n", 0.6) == b"@01 0 OK BUSY WR 0\r\n"
    wait(loopback, 0.15)
    assert loopback.talk(b"/1 warnings\n") == b"@01 0 OK IDLE -- 00\r\n"
    assert loopback.talk(b"/1 1 get pos\n") == b"@01 1 OK IDLE -- 0\r\n"


def test_targets_beyond_the_limits_are_rejected(loopback):
    home(loopback)
    loopback.talk(b"/1 set limit.max 210000\n")
    assert loopback.talk(b"/1 move abs 210001\n") == b"@01 0 RJ IDLE -- BADDATA\r\n"
    assert loopback.talk(b"/1 move abs -1\n") == b"@01 0 RJ IDLE -- BADDATA\r\n"
    assert loopback.talk(b"/1 move rel 210001\n") == b"@01 0 RJ IDLE -- BADDATA\r\n"
    assert loopback.talk(b"/1 set limit.min 210000\n") == b"@01 0 RJ IDLE -- BADDATA\r\n"
    assert loopback.talk(b"/1 move abs 210000\n") == b"@01 0 OK BUSY -- 0\r\n"


def test_move_takes_speed_and_acceleration(loopback):
    home(loopback)
    loopback.talk(b"/1 move abs 100000 68804 34402\n", 1.0)
    assert loopback.plant.velocity_mm_s() == pytest.approx(2.0, rel=1e-5)
    assert loopback.talk(b"/1 move abs 1 999999999\n") == b"@01 0 RJ BUSY -- BADDATA\r\n"


def test_encoder_is_read_apart_from_the_trajectory(loopback):
    home(loopback)
    loopback.plant.position_mm = lambda: 0.1
    assert loopback.talk(b"/1 get pos\n").endswith(b" 0\r\n")
    assert loopback.talk(b"/1 get encoder.pos\n").endswith(b" 2100\r\n")


def test_a_stop_or_another_move_leaves_a_note_until_the_next_move(loopback):
    home(loopback)
    loopback.talk(b"/1 move max\n")
    assert loopback.talk(b"/1 move min\n").startswith(b"@01 0 OK BUSY NI")
    assert loopback.talk(b"/1 stop\n", 0.5).startswith(b"@01 0 OK BUSY NI")
    assert loopback.talk(b"/1\n") == b"@01 0 OK IDLE NI 0\r\n"
    assert loopback.talk(b"/1 move min\n").startswith(b"@01 0 OK BUSY --")


def test_settings_that_wait_for_a_stand(loopback):
    home(loopback)
    loopback.talk(b"/1 move max\n")
    for command in (b"set limit.max 1000", b"set limit.min 0", b"set pos 0"):
        assert loopback.talk(b"/1 " + command + b"\n") == b"@01 0 RJ BUSY -- STATUSBUSY\r\n"


def test_stopped_homing_leaves_no_reference(loopback):
    loopback.talk(b"/1 home\n", 0.3)
    loopback.talk(b"/1 estop\n", 1.0)
    assert loopback.talk(b"/1 warnings\n") == b"@01 0 OK IDLE WR 02 WR NI\r\n"


def test_count_set_by_hand_is_a_reference_but_no_homing(loopback):
    loopback.talk(b"/1 set pos 1000\n")
    assert loopback.talk(b"/1 get pos\n") == b"@01 0 OK IDLE WH 1000\r\n"
    low, high = loopback.plant.hard_limits
    assert (low, high) == pytest.approx((12.3 - 1000 / MM, 12.3 - 1000 / MM + 50.8), abs=1e-4)


def test_without_a_host_the_stage_runs_on_to_its_armed_limit(loopback):
    """No host watchdog: only the armed limit, or the enable line, ends a move whose host has died."""
    home(loopback)
    loopback.talk(b"/1 set limit.max 209974\n")
    loopback.talk(b"/1 move vel 68804\n")
    loopback.wire.unplug()
    wait(loopback, 4.0)
    assert loopback.plant.velocity_mm_s() == pytest.approx(2.0, rel=1e-4)
    wait(loopback, 4.0)
    assert not loopback.plant.is_moving()
    assert loopback.plant.position_mm() == pytest.approx(10.0, abs=1e-4)


def test_velocity_without_a_reference_ends_at_the_mechanical_end(loopback):
    loopback.talk(b"/1 move vel -688040\n", 3.0)
    assert loopback.plant.position_mm() == pytest.approx(0.0, abs=1e-9)
    assert loopback.talk(b"/1 move vel 0\n") == b"@01 0 OK IDLE WR 0\r\n"


def test_stall_stops_and_is_shown_until_cleared(loopback):
    home(loopback)
    loopback.talk(b"/1 move max\n")
    loopback.plant.break_down("stalled")
    assert loopback.talk(b"/1\n") == b"@01 0 OK IDLE FS 0\r\n"
    assert loopback.talk(b"/1 warnings clear\n") == b"@01 0 OK IDLE -- 01 FS\r\n"


def test_power_loss_disables_the_driver_until_it_is_enabled(loopback):
    home(loopback)
    loopback.talk(b"/1 move max\n")
    loopback.plant.break_down("unpowered")
    assert loopback.talk(b"/1\n") == b"@01 0 OK IDLE FH 0\r\n"
    assert loopback.talk(b"/1 driver enable\n") == b"@01 0 RJ IDLE FH DRIVERDISABLED\r\n"
    loopback.plant.break_down(None)
    assert loopback.talk(b"/1 move min\n") == b"@01 0 RJ IDLE FH DRIVERDISABLED\r\n"
    assert loopback.talk(b"/1 driver enable\n") == b"@01 0 OK IDLE -- 0\r\n"
    assert loopback.talk(b"/1 move min\n").startswith(b"@01 0 OK BUSY")


def test_power_loss_while_homing_ends_it(loopback):
    loopback.talk(b"/1 home\n")
    loopback.plant.break_down("unpowered")
    assert loopback.talk(b"/1 warnings\n", 2.0) == b"@01 0 OK IDLE FH 02 FH WR\r\n"


def test_reset_loses_the_reference_and_is_deaf_for_a_second(loopback):
    home(loopback)
    loopback.talk(b"/1 move max\n")
    loopback.talk(b"/1 system reset\n")
    assert loopback.talk(b"/1\n") == b""
    wait(loopback, 1.0)
    assert loopback.talk(b"/1\n") == b"@01 0 OK IDLE WR 0\r\n"


def test_renumber(loopback):
    assert loopback.talk(b"/1 renumber 5\n") == b"@05 0 OK IDLE WR 0\r\n"
    assert loopback.talk(b"/1\n") == b""
    assert loopback.talk(b"/renumber\n") == b"@01 0 OK IDLE WR 0\r\n"
    assert loopback.talk(b"/renumber 100\n") == b"@01 0 RJ IDLE WR BADDATA\r\n"


def test_alerts_are_off_until_asked_for(loopback):
    home(loopback)
    assert loopback.talk(b"/1 move abs 1000\n", 1.0).count(b"!") == 0
    loopback.talk(b"/1 set comm.alert 1\n")
    assert loopback.talk(b"/1 move abs 0\n", 1.0).endswith(b"!01 1 IDLE --\r\n")
