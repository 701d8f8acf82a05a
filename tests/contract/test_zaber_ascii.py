"""The Zaber driver: what it says byte by byte, and that it keeps the contract of a linear stage, faults included."""

from __future__ import annotations

from itertools import pairwise

import pytest

from bench.errors import InstrumentDisconnected, InstrumentError, InstrumentTimeout, LimitError
from bench.instruments.protocols import LinearStage
from bench.instruments.zaber_ascii import ZaberAsciiStage
from bench.instruments.zaber_ascii_messages import REJECTIONS, WARNINGS

OPENING = [
    (b"/1 1 00:FE\n", b"@01 1 00 OK IDLE WR 0\r\n"),
    (b"/1 0 01 set comm.checksum 1:F4\n", b"@01 0 01 OK IDLE WR 0:BD\r\n"),
    (b"/1 0 02 get deviceid:40\n", b"@01 0 02 OK IDLE WR 50999:DC\r\n"),
    (b"/1 0 03 get system.serial:29\n", b"@01 0 03 OK IDLE WR 100001:C9\r\n"),
    (b"/1 0 04 get version:75\n", b"@01 0 04 OK IDLE WR 7.38:1A\r\n"),
    (b"/1 1 05 get peripheralid:80\n", b"@01 1 05 RJ IDLE WR BADCOMMAND:20\r\n"),
    (b"/1 1 06 get resolution:24\n", b"@01 1 06 OK IDLE WR 64:7D\r\n"),
    (b"/1 1 07 set accel 344:B8\n", b"@01 1 07 OK IDLE WR 0:B6\r\n"),
    (b"/1 1 08 get accel:7E\n", b"@01 1 08 OK IDLE WR 344:4A\r\n"),
]


def open_stage(bench, clock=None, **options) -> ZaberAsciiStage:
    options = {"max_speed_mm_s": 20.0, "acceleration_mm_s2": 100.0} | options
    return ZaberAsciiStage(getattr(bench, "url", "script://"), clock=clock or bench.clock, **options)


@pytest.fixture
def stage(loopback) -> ZaberAsciiStage:
    stage = open_stage(loopback)
    yield stage
    stage.close()


@pytest.fixture
def homed(stage) -> ZaberAsciiStage:
    stage.home()
    return stage


def reply(sent: str, answer: str, axis: int = 1, kind: str = "@") -> tuple[bytes, bytes]:
    """One exchange of a script, its checksums computed: ``("09 get pos", "OK IDLE -- 0")``."""
    body = f"1 {axis} {sent}".encode()
    return b"/%b:%02X\n" % (body, -sum(body) & 0xFF), packet(f"01 {axis} {sent[:2]} {answer}", kind)


def packet(text: str, kind: str = "@") -> bytes:
    return b"%b%b:%02X\r\n" % (kind.encode(), text.encode(), -sum(text.encode()) & 0xFF)


# -- bytes


def test_one_conversation_byte_by_byte(conversation):
    """Open, move to 10 mm at 2 mm/s, arrive."""
    with conversation(
        [
            *OPENING,
            (b"/1 1 09 get pos:23\n", b"@01 1 09 OK IDLE -- 0:03\r\n"),
            (b"/1 1 10 set maxspeed 68804:F0\n", b"@01 1 10 OK IDLE -- 0:0B\r\n"),
            (b"/1 1 11 get maxspeed:25\n", b"@01 1 11 OK IDLE -- 68804:30\r\n"),
            (b"/1 1 12 move abs 209974:6F\n", b"@01 1 12 OK BUSY -- 0:E4\r\n"),
            (b"/1 1 13:FA\n", b"@01 1 13 OK BUSY -- 0:E3\r\n"),
            (b"/1 1 14:F9\n", b"@01 1 14 OK IDLE -- 0:07\r\n"),
            (b"/1 1 15 get pos:26\n", b"@01 1 15 OK IDLE -- 209974:F7\r\n"),
        ]
    ) as clock:
        stage = open_stage(None, clock)
        seconds = stage.start_move(10.0, 2.0)
        stage.wait_idle(seconds)
        # 5 s at 2 mm/s, 20 ms to get up to speed and as long to slow down, 2 % and 0.3 s for what we do not know.
        assert seconds == pytest.approx((5.0 + 0.02) * 1.02 + 0.3, rel=1e-4)


def test_speed_and_acceleration_data_follow_the_manual(loopback, homed):
    """2 mm/s over 0.047625 um, times 1.6384, is 68804; 100 mm/s² likewise, over 10 000, is 344."""
    homed.start_move(10.0, 2.0)
    assert b"set maxspeed 68804:" in loopback.sent
    assert b"set accel 344:" in loopback.sent


def test_reply_in_several_packets_is_put_together(conversation):
    long = [
        packet("01 1 09 OK IDLE -- 03 WR\\"),
        packet("01 1 09 cont WT\\", "#"),
        packet("01 1 IDLE --", "!"),
        packet("01 1 09 cont NI", "#"),
    ]
    with conversation([*OPENING, (reply("09 warnings", "")[0], b"".join(long))]) as clock:
        assert open_stage(None, clock).warnings() == ("WR", "WT", "NI")


def test_alerts_and_foreign_messages_are_counted_and_passed_over(conversation):
    asked, answer = reply("09 get pos", "OK IDLE -- 21")
    noise = [packet("01 1 IDLE --", "!"), packet("02 1 09 OK IDLE -- 7"), packet("01 0 09 OK IDLE -- 8")]
    noise += [packet("01 1 09 some text", "#"), packet("01 1 08 OK IDLE -- 9"), b"@01 1 09 OK IDLE -- 5\r\n", b"\xff\n"]
    with conversation([*OPENING, (asked, b"".join(noise) + answer)]) as clock:
        stage = open_stage(None, clock)
        assert stage.position_mm() == pytest.approx(21 * 0.047625e-3)
        counted = stage.statistics
        assert (counted.alerts, counted.stale_replies, counted.corrupt_lines, counted.timeouts) == (1, 4, 2, 0)


@pytest.mark.parametrize("reason", [*REJECTIONS, "NOVELTY"])
def test_every_rejection_is_explained(conversation, reason):
    with conversation([*OPENING, reply("09 warnings", f"RJ IDLE FS {reason}")]) as clock:
        stage = open_stage(None, clock)
        with pytest.raises(InstrumentError, match=f"rejected with {reason}: .*the stage shows FS, stalled") as caught:
            stage.warnings()
    assert caught.value.remedy
    assert caught.value.where == "script://, Zaber device 1 axis 1"


@pytest.mark.parametrize("flag", [*WARNINGS, "FX"])
def test_every_fault_flag_raises_and_notes_do_not(conversation, flag):
    with conversation([*OPENING, reply("09", f"OK IDLE {flag} 0")]) as clock:
        stage = open_stage(None, clock)
        if flag.startswith("F") or flag in ("WL", "WS", "NC"):
            with pytest.raises(InstrumentError, match=f"the stage shows {flag}, ") as caught:
                stage.is_moving()
            assert caught.value.remedy
        else:
            assert stage.is_moving() is False


def test_an_answer_that_is_no_number(conversation):
    with (
        conversation([*OPENING, reply("09 get pos", "OK IDLE -- 1.5.2")]) as clock,
        pytest.raises(InstrumentError, match=r"'1\.5\.2' is no whole number"),
    ):
        open_stage(None, clock).position_mm()


def test_a_setting_that_does_not_hold(conversation):
    script = [reply("09 get limit.max", "OK IDLE -- 5000"), reply("10 set limit.min 0", "OK IDLE -- 0")]
    with (
        conversation([*OPENING, *script, reply("11 get limit.min", "OK IDLE -- 3")]) as clock,
        pytest.raises(InstrumentError, match=r"limit\.min was set to 0 but reads 3"),
    ):
        open_stage(None, clock).arm_travel_limits(0.0, 1.0)


def test_a_stand_off_the_target_raises(conversation):
    script = [
        reply("09 get pos", "OK IDLE -- 0"),
        reply("10 set maxspeed 68804", "OK IDLE -- 0"),
        reply("11 get maxspeed", "OK IDLE -- 68804"),
        reply("12 move abs 20997", "OK BUSY -- 0"),
        reply("13", "OK IDLE -- 0"),
        reply("14 get pos", "OK IDLE -- 10000"),
    ]
    with conversation([*OPENING, *script]) as clock:
        stage = open_stage(None, clock)
        with pytest.raises(InstrumentError, match=r"stands -0\.5237 mm off its target 1\.0000 mm"):
            stage.wait_idle(stage.start_move(1.0, 2.0))


# -- the contract of a linear stage, on the twin's device


def test_is_a_linear_stage(stage):
    assert isinstance(stage, LinearStage)


def test_identity_is_read_back(loopback, stage):
    identity = stage.identify()
    assert (identity.name, identity.model, identity.serial_number) == ("zaber_ascii", "device id 50999", "100001")
    assert (identity.firmware, identity.address) == ("7.38", loopback.url)
    assert identity.details == {"peripheral": "built in", "resolution": "64"}


def test_another_serial_number_is_refused_and_the_port_closed(loopback):
    open_stage(loopback, expected_serial_number="100001").close()
    with pytest.raises(InstrumentError, match=r"serial number 100001, expected 77\. Connect the stage"):
        open_stage(loopback, expected_serial_number="77")
    assert not loopback.port.is_open


def test_nobody_answers_under_a_wrong_address(loopback):
    with pytest.raises(InstrumentTimeout, match=r"loopback://stage, Zaber device 2 axis 1: no valid reply to ''"):
        open_stage(loopback, address=2)
    assert not loopback.port.is_open


def test_wrong_axis(loopback):
    with pytest.raises(InstrumentError, match="BADAXIS: the device has no such axis"):
        open_stage(loopback, axis=2)


def test_half_a_command_of_an_earlier_host_is_never_carried_out(loopback):
    loopback.device.receive(b"/1 move vel 500000")
    stage = open_stage(loopback)
    assert loopback.device.wire.ignored_messages == 1
    assert not stage.is_moving()


def test_home_move_and_come_to_a_stand(loopback, stage):
    assert not stage.is_homed()
    stage.home()
    assert stage.is_homed()
    assert stage.position_mm() == 0.0
    seconds = stage.start_move(10.0, 2.0)
    assert stage.is_moving()
    began_ns = loopback.clock.now_ns()
    stage.wait_idle(seconds)
    took = (loopback.clock.now_ns() - began_ns) * 1e-9
    assert 5.0 < took <= seconds
    assert not stage.is_moving()
    assert stage.position_mm() == pytest.approx(10.0, abs=0.047625e-3)


def test_it_moves_at_the_speed_asked_for(loopback, homed):
    homed.start_move(20.0, 2.0)
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + 1_000_000_000)
    assert loopback.plant.velocity_mm_s() == pytest.approx(2.0, rel=1e-5)


def test_speed_is_set_before_every_move(loopback, homed):
    homed.wait_idle(homed.start_move(1.0, 2.0))
    loopback.device.receive(b"/1 set maxspeed 500000\n")
    homed.start_move(20.0, 2.0)
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + 500_000_000)
    assert loopback.plant.velocity_mm_s() == pytest.approx(2.0, rel=1e-5)


@pytest.mark.parametrize(("distance", "speed"), [(0.001, 2.0), (0.5, 20.0), (12.0, 20.0), (30.0, 5.0)])
def test_deadline_covers_the_move_and_little_more(loopback, homed, distance, speed):
    seconds = homed.start_move(distance, speed)
    began_ns = loopback.clock.now_ns()
    homed.wait_idle(seconds)
    took = (loopback.clock.now_ns() - began_ns) * 1e-9
    assert took <= seconds <= took * 1.02 + 0.4


def test_deadline_covers_turning_round_at_speed(loopback, homed):
    homed.start_move(40.0, 20.0)
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + 1_000_000_000)
    seconds = homed.start_move(5.0, 2.0)
    homed.wait_idle(seconds)  # and a move that takes over from our own is not one somebody interrupted
    assert homed.position_mm() == pytest.approx(5.0, abs=1e-4)


def test_stage_without_reference_does_not_move(loopback, stage):
    with pytest.raises(InstrumentError, match=r"no reference position\. Home it first"):
        stage.start_move(1.0, 2.0)
    assert b"move" not in loopback.sent


@pytest.mark.parametrize("speed", [0.0, -1.0, 20.001, float("nan")])
def test_speed_out_of_range_is_refused_before_a_word_is_sent(loopback, homed, speed):
    sent = len(loopback.sent)
    with pytest.raises(LimitError, match="speed") as caught:
        homed.start_move(1.0, speed)
    assert caught.value.reason == "speed_limit"
    assert len(loopback.sent) == sent


def test_limits_are_armed_in_the_controller_and_read_back(loopback, homed):
    homed.arm_travel_limits(1.0, 30.0)
    assert loopback.plant.hard_limits == pytest.approx((1.0, 30.0), abs=1e-4)
    homed.arm_travel_limits(35.0, 40.0)
    homed.arm_travel_limits(0.5, 2.0)
    assert loopback.plant.hard_limits == pytest.approx((0.5, 2.0), abs=1e-4)
    with pytest.raises(InstrumentError, match=r"'move abs 62992' was rejected with BADDATA.*Home the stage, and check"):
        homed.start_move(3.0, 2.0)
    with pytest.raises(InstrumentError, match="travel limits 3 to 3 mm are empty"):
        homed.arm_travel_limits(3.0, 3.0)


def test_a_rejected_move_leaves_the_one_under_way_alone(homed):
    seconds = homed.start_move(5.0, 2.0)
    with pytest.raises(InstrumentError, match="BADDATA"):
        homed.start_move(500.0, 2.0)
    homed.wait_idle(seconds)
    assert homed.position_mm() == pytest.approx(5.0, abs=1e-4)


def test_limits_cannot_be_moved_under_a_moving_stage(homed):
    homed.start_move(20.0, 2.0)
    with pytest.raises(InstrumentError, match="STATUSBUSY: not possible while the axis moves"):
        homed.arm_travel_limits(0.0, 30.0)


def test_homing_is_not_held_back_by_armed_limits(homed):
    homed.arm_travel_limits(0.0, 30.0)
    homed.wait_idle(homed.start_move(10.0, 20.0))
    homed.arm_travel_limits(5.0, 30.0)
    homed.home()
    assert homed.position_mm() == 0.0


def test_stop_ends_a_move_and_leaves_nothing_behind(loopback, homed):
    homed.start_move(20.0, 2.0)
    loopback.clock.sleep_until_ns(loopback.clock.now_ns() + 1_000_000_000)
    homed.stop()
    assert not homed.is_moving()
    assert homed.position_mm() == pytest.approx(2.0, abs=0.05)
    assert homed.warnings() == ()
    homed.wait_idle(homed.start_move(3.0, 2.0))


def test_stop_of_a_standing_stage_does_nothing(homed):
    homed.stop()
    assert homed.position_mm() == 0.0


def test_waiting_too_long_says_where_it_is(homed):
    homed.start_move(20.0, 2.0)
    with pytest.raises(InstrumentTimeout, match=r"still moves after 1 s, now at 1\.9\d+ mm"):
        homed.wait_idle(1.0)


def test_somebody_else_stops_the_stage(loopback, homed):
    seconds = homed.start_move(20.0, 2.0)
    loopback.after(1.0, lambda: loopback.device.receive(b"/1 stop\n"))
    with pytest.raises(InstrumentError, match="interrupted by another command"):
        homed.wait_idle(seconds)
    homed.wait_idle(homed.start_move(1.0, 2.0))  # the note is on that move, not on the next


def test_closed_stage_says_so(loopback, homed):
    homed.close()
    with pytest.raises(InstrumentDisconnected, match=r"no longer open: closed.*never reopens by itself"):
        homed.position_mm()


# -- faults


def test_stall_ends_the_wait_and_is_cleared_only_deliberately(loopback, homed):
    seconds = homed.start_move(20.0, 2.0)
    loopback.after(1.0, lambda: loopback.plant.break_down("stalled"))
    with pytest.raises(InstrumentError, match=r"FS, stalled and stopped.*Remove what blocks it"):
        homed.wait_idle(seconds)
    homed.stop()  # always possible
    with pytest.raises(InstrumentError, match="FS"):
        homed.start_move(1.0, 2.0)
    assert homed.position_mm() == pytest.approx(2.0, abs=0.05)
    loopback.plant.break_down(None)
    assert homed.clear_faults() == ("FS",)
    homed.wait_idle(homed.start_move(1.0, 2.0))


def test_lost_power_is_named_and_homing_is_the_way_back(loopback, homed):
    seconds = homed.start_move(20.0, 2.0)
    loopback.after(1.0, lambda: loopback.plant.break_down("unpowered"))
    with pytest.raises(InstrumentError, match="FH, the hardware emergency stop disabled the motor driver"):
        homed.wait_idle(seconds)
    with pytest.raises(InstrumentError, match="DRIVERDISABLED"):
        homed.home()
    loopback.plant.break_down(None)
    homed.home()
    homed.wait_idle(homed.start_move(1.0, 2.0))


def test_fault_that_cannot_be_cleared(conversation):
    script = [reply("09 warnings", "OK IDLE FQ 01 FQ"), reply("10 warnings clear", "OK IDLE FQ 01 FQ")]
    with conversation([*OPENING, *script, reply("11 warnings", "OK IDLE FQ 01 FQ")]) as clock:
        stage = open_stage(None, clock)
        with pytest.raises(InstrumentError, match="a fault persists: FQ, encoder error"):
            stage.clear_faults()


def test_lost_reply_to_a_motion_command_is_never_answered_by_sending_it_again(loopback, homed):
    homed.start_move(1.0, 2.0)
    homed.stop()
    before = loopback.sent.count(b"move abs")
    loopback.lose_reply_to(b"move abs")
    with pytest.raises(InstrumentTimeout, match=r"The stage is moving, now at .* mm .*was not sent again"):
        homed.start_move(20.0, 2.0)
    assert loopback.sent.count(b"move abs") == before + 1
    homed.stop()
    assert homed.statistics.timeouts == 1


def test_stop_is_sent_again_when_its_reply_is_lost(loopback, homed):
    homed.start_move(20.0, 2.0)
    loopback.lose_replies(2)
    homed.stop()
    assert loopback.sent.count(b"stop") == 3
    assert not homed.is_moving()


def test_stop_gives_up_on_a_dead_line(loopback, homed):
    loopback.lose_replies(1000)
    with pytest.raises(InstrumentTimeout, match="no valid reply to 'stop'"):
        homed.stop()


def test_corrupt_checksum_is_named(loopback, homed):
    loopback.wire.corrupt_replies(1)
    with pytest.raises(InstrumentTimeout, match=r"1 damaged line\(s\), the last: "):
        homed.position_mm()
    assert homed.statistics.corrupt_lines == 1
    assert homed.position_mm() == 0.0


def test_late_reply_is_not_taken_for_the_next_one(loopback, homed):
    homed.wait_idle(homed.start_move(5.0, 20.0))
    loopback.wire.delay_replies(1, 700_000_000)
    with pytest.raises(InstrumentTimeout, match=r"no valid reply to 'get pos' within 0\.5 s"):
        homed.position_mm()  # its late answer says 5 mm
    homed.wait_idle(homed.start_move(6.0, 20.0))
    assert homed.position_mm() == pytest.approx(6.0, abs=1e-4)
    assert homed.statistics.stale_replies == 1


def test_an_id_without_an_answer_is_not_used_again(loopback, homed):
    """Two hundred requests later the reply may still be on its way."""
    loopback.lose_replies(1)
    with pytest.raises(InstrumentTimeout):
        homed.position_mm()
    lost = bytes(loopback.sent).rsplit(b"get pos", 1)[0][-3:-1]
    sent = len(loopback.sent)
    for _ in range(200):
        homed.position_mm()
    used = [line.split()[2] for line in bytes(loopback.sent[sent:]).splitlines()]
    assert lost not in used
    assert len(set(used)) == 99
    assert all(one != other for one, other in pairwise(used))
