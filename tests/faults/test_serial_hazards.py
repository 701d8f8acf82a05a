"""What bites on serial lines, each hazard a test: on real sockets and pseudo-terminals, with nothing simulated."""

from __future__ import annotations

import os
import sys
import threading
import time

import pytest
import serial

from bench.clock import WallClock
from bench.errors import InstrumentDisconnected, InstrumentError, InstrumentTimeout
from bench.instruments import serial_line
from bench.instruments.serial_line import SerialLine
from bench.instruments.zaber_ascii import ZaberAsciiStage

CLOCK = WallClock()
posix = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no pseudo-terminals: TCP there")


def soon(seconds: float = 5.0) -> int:
    return CLOCK.now_ns() + round(seconds * 1e9)


def lrc(text: bytes) -> bytes:
    return b"%b:%02X\r\n" % (text, -sum(text[1:]) & 0xFF)


def zaber(line: bytes, position: int = 0) -> bytes:
    """Return what a resting Zaber stage would answer."""
    address, axis, message_id, *words = line[1:].partition(b":")[0].decode().split()
    data = {"get deviceid": "50999", "get version": "7.38", "get accel": "344", "get pos": str(position)}.get(
        " ".join(words), "0"
    )
    return lrc(f"@{int(address):02d} {axis} {message_id} OK IDLE -- {data}".encode())


def answer_as_stage(peer, line: bytes) -> None:
    peer.say(zaber(line))


# 1. A stale reply is taken for the next request's, without an error


def test_1_late_reply_is_told_by_its_id_and_never_by_the_order_of_arrival(peer):
    peer.answer = answer_as_stage
    stage = ZaberAsciiStage(peer.url, clock=CLOCK, max_speed_mm_s=20.0, acceleration_mm_s2=100.0, reply_timeout_s=0.1)
    peer.answer = lambda p, line: None
    with pytest.raises(InstrumentTimeout, match="no valid reply to 'get pos'"):
        stage.position_mm()
    late = zaber(peer.heard[-1], position=111)
    # The line was quiet when it was drained; the late answer comes after that, ahead of the next one.
    peer.answer = lambda p, line: p.say(late + zaber(line, position=222))
    assert stage.position_mm() == pytest.approx(222 * 0.047625e-3)
    assert stage.statistics.stale_replies == 1
    stage.close()


def test_1_after_a_timeout_the_line_is_drained_until_it_is_quiet(peer, open_line):
    """For protocols without ids: what is late by less than the silence cannot reach the next request."""
    gave_up = threading.Event()

    def too_late(p, line: bytes) -> None:
        gave_up.wait(5.0)
        for _ in range(5):
            p.say(b"stale")
            time.sleep(0.01)

    peer.answer = too_late
    line = open_line(peer.url, slice_s=0.3)
    line.write(b"question\n")
    with pytest.raises(InstrumentTimeout, match="nothing came"):
        line.read_exactly(8, CLOCK.now_ns())
    gave_up.set()
    assert line.drain() == b"stale" * 5
    peer.answer = lambda p, line: p.say(b"fresh")
    line.write(b"question\n")
    assert line.read_exactly(5, soon()) == b"fresh"


def test_1_a_line_that_never_falls_silent_is_an_error(peer, open_line):
    line = open_line(peer.url)
    assert peer.connected.wait(5.0)
    done = threading.Event()

    def chatter() -> None:
        while not done.wait(0.01):
            peer.say(b"x")

    thread = threading.Thread(target=chatter)
    thread.start()
    try:
        with pytest.raises(InstrumentError, match="does not fall silent"):
            line.drain(limit_s=0.2)
    finally:
        done.set()
        thread.join()


# 2. A device that is not there blocks its client for ever


def test_2_silence_ends_at_the_deadline(peer, open_line):
    line = open_line(peer.url)
    with pytest.raises(InstrumentTimeout, match=r"no answer in time: awaited b'\\n', nothing came.*Check power"):
        line.read_until(b"\n", soon(0.1))


def test_2_half_an_answer_is_shown_in_the_error(peer, open_line):
    peer.answer = lambda p, line: p.say(b"@01 0 O")
    line = open_line(peer.url)
    line.write(b"/\n")
    with pytest.raises(InstrumentTimeout, match="only b'@01 0 O' came"):
        line.read_until(b"\n", soon(0.3))


def test_2_noise_without_an_end_of_line_is_an_error(peer, open_line):
    peer.answer = lambda p, line: p.say(b"\xff" * 10_000)
    line = open_line(peer.url)
    line.write(b"/\n")
    with pytest.raises(InstrumentError, match=r"4096 bytes without an end of line.*Check the baud rate"):
        line.read_until(b"\n", soon())


# 3. A second opening succeeds and steals bytes


@posix
def test_3_second_exclusive_opening_is_refused(terminal, open_line):
    open_line(terminal.url)
    with pytest.raises(InstrumentError, match=r"the port is in use.*Close the other program"):
        open_line(terminal.url)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="TIOCGEXCL is Linux's")
def test_3_programs_that_do_not_ask_for_exclusive_access_are_kept_out_too(terminal, open_line):
    import fcntl
    import struct

    def exclusive() -> int:
        return struct.unpack("i", fcntl.ioctl(terminal.slave, 0x80045440, b"\0" * 4))[0]  # TIOCGEXCL

    assert exclusive() == 0
    line = open_line(terminal.url)
    # The kernel refuses any further opening with EBUSY, except root's.
    assert exclusive() == 1
    line.close()
    assert exclusive() == 0
    open_line(terminal.url)


def test_3_two_threads_never_mix_their_transactions(peer, open_line):
    def slowly(p, line: bytes) -> None:
        for byte in line:
            p.say(bytes([byte]))
            time.sleep(1e-3)

    peer.answer = slowly
    line = open_line(peer.url)
    wrong: list[bytes] = []

    def talk(word: bytes) -> None:
        for n in range(5):
            with line.claim(soon()):
                line.write(b"%b%d\n" % (word, n))
                answer = line.read_until(b"\n", soon())
            if answer != b"%b%d\n" % (word, n):
                wrong.append(answer)

    threads = [threading.Thread(target=talk, args=(word,)) for word in (b"move", b"stop")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(peer.heard) == 10


def test_3_claim_gives_up_at_its_deadline(peer, open_line):
    line = open_line(peer.url)
    failures: list[Exception] = []

    def try_it() -> None:
        try:
            with line.claim(soon(0.05)):
                pass
        except InstrumentTimeout as error:
            failures.append(error)

    with line.claim(soon()), line.claim(soon()):  # one thread may claim again
        thread = threading.Thread(target=try_it)
        thread.start()
        thread.join()
    assert [str(error) for error in failures] == [
        f"{line.url}: another thread holds the line. Wait for its transaction to end"
    ]


# 4. Writes hang without a timeout, and a buffer fills at some kilobytes


@posix
def test_4_write_to_a_line_nobody_reads_ends(terminal, open_line):
    line = open_line(terminal.url, write_timeout_s=0.1)
    with pytest.raises(InstrumentTimeout, match=r"did not take 200000 bytes.*no flow control"):
        line.write(b"x" * 200_000)


def test_4_both_timeouts_are_always_set(peer, monkeypatch):
    opened = []
    original = serial.serial_for_url

    def remember(*args: object, **options: object) -> serial.SerialBase:
        opened.append(original(*args, **options))
        return opened[-1]

    monkeypatch.setattr(serial_line.serial, "serial_for_url", remember)
    line = SerialLine(peer.url, baud=9600, clock=CLOCK)
    (port,) = opened
    assert 0 < port.timeout <= 0.1
    assert 0 < port.write_timeout <= 1.0
    line.close()


# 5. Unplugged: every platform says it in its own way


@posix
def test_5_unplugged_terminal_while_reading(terminal, open_line):
    line = open_line(terminal.url)
    threading.Timer(0.05, terminal.unplug).start()
    with pytest.raises(InstrumentDisconnected, match=r"the device went away.*Make the rig safe"):
        line.read_until(b"\n", soon())


@posix
def test_5_unplugged_terminal_while_writing(terminal, open_line):
    line = open_line(terminal.url)
    terminal.unplug()
    with pytest.raises(InstrumentDisconnected, match="the device went away"):
        line.write(b"/1 get pos\n")


def test_5_lost_connection_is_never_opened_again_by_itself(peer, open_line):
    line = open_line(peer.url)
    peer.hang_up()
    with pytest.raises(InstrumentDisconnected, match="socket disconnected"):
        line.read_until(b"\n", soon())
    for use in (lambda: line.write(b"x"), lambda: line.read_exactly(1, soon()), line.drain):
        with pytest.raises(InstrumentDisconnected, match=r"no longer open: .*socket disconnected.*never reopens"):
            use()
    assert peer.visitors == 1


def test_5_unplugged_in_mid_move(peer):
    peer.answer = answer_as_stage
    stage = ZaberAsciiStage(peer.url, clock=CLOCK, max_speed_mm_s=20.0, acceleration_mm_s2=100.0)
    peer.hang_up()
    with pytest.raises(InstrumentDisconnected):
        stage.is_moving()
    with pytest.raises(InstrumentDisconnected, match="Make the rig safe"):
        stage.stop()
    stage.close()
    assert peer.visitors == 1


def test_5_port_that_is_not_there(open_line, tmp_path):
    with pytest.raises(InstrumentDisconnected, match=r"cannot open the port.*Check the port in the rig profile"):
        open_line(str(tmp_path / "ttyUSB7"))
    with pytest.raises(InstrumentError, match=r"cannot open the port.*Check the port and baud rate"):
        open_line("carrier-pigeon://roof")


def test_5_closing_a_broken_line_never_raises(peer, open_line):
    line = open_line(peer.url)
    peer.hang_up()
    line.close()
    line.close()
    with pytest.raises(InstrumentDisconnected, match="no longer open: closed"):
        line.write(b"x")


# 6. in_waiting says 0 or 1 on a socket, and read(n) may return short


def test_6_frames_are_cut_by_their_own_length_not_by_what_arrives(peer, open_line):
    def in_crumbs(p, line: bytes) -> None:
        for byte in b"@01 0 OK IDLE -- 0\r\nnext":
            p.say(bytes([byte]))
            time.sleep(1e-3)

    peer.answer = in_crumbs
    line = open_line(peer.url)
    line.write(b"/\n")
    assert line.read_until(b"\r\n", soon()) == b"@01 0 OK IDLE -- 0\r\n"
    assert line.read_exactly(2, soon()) == b"ne"
    assert line.read_exactly(2, soon()) == b"xt"


def test_6_two_frames_in_one_packet_are_two(peer, open_line):
    peer.answer = lambda p, line: p.say(b"one\ntwo\nthr")
    line = open_line(peer.url)
    line.write(b"?\n")
    assert line.read_until(b"\n", soon()) == b"one\n"
    assert line.read_until(b"\n", soon()) == b"two\n"
    assert line.drain() == b"thr"


@posix
def test_6_lines_that_come_together_are_taken_together_and_half_a_one_is_kept(terminal, open_line):
    line = open_line(terminal.url)
    os.write(terminal.master, b"OK\r\nrcv 141 00\r\nhal")
    assert line.read_lines(soon()) == [b"OK\r", b"rcv 141 00\r"]
    os.write(terminal.master, b"f\n")
    assert line.read_lines(soon()) == [b"half"]
    with pytest.raises(InstrumentTimeout, match="nothing came"):
        line.read_lines(soon(0.05))


def test_6_lines_are_lines_however_little_arrives_at_a_time(peer, open_line):
    peer.answer = lambda p, line: p.say(b"OK\r\nrcv 141 00\r\n")
    line = open_line(peer.url)
    line.write(b"?\n")
    lines: list[bytes] = []
    while len(lines) < 2:
        lines += line.read_lines(soon())
    assert lines == [b"OK\r", b"rcv 141 00\r"]


# 7. Pseudo-terminals: raw from the start, and without modem lines


@posix
def test_7_every_byte_passes_a_terminal_unchanged(terminal, open_line):
    every = bytes(range(256))
    line = open_line(terminal.url)  # opens although the ioctls for DTR and RTS fail here
    line.write(every)
    heard = b""
    while len(heard) < len(every):
        heard += os.read(terminal.master, 1024)
    assert heard == every
    os.write(terminal.master, every)
    assert line.read_exactly(256, soon()) == every


# 8. Modem lines that toggle at opening reset some boards; FTDI adapters wait 16 ms


class RecordingPort(serial.SerialBase):
    def __init__(self, **options: object) -> None:
        self.done: list[object] = []
        super().__init__(**options)

    def _reconfigure_port(self) -> None:
        pass

    def _update_dtr_state(self) -> None:
        self.done.append("dtr moved")

    def _update_rts_state(self) -> None:
        self.done.append("rts moved")

    def open(self) -> None:
        self.is_open = True
        self.done.append(("open", self.dtr, self.rts))

    def close(self) -> None:
        self.is_open = False

    def set_low_latency_mode(self, on: bool) -> None:
        self.done.append(("low latency", on))


@pytest.mark.parametrize("level", [True, False])
def test_8_modem_lines_have_their_level_before_the_port_opens_and_latency_is_low(monkeypatch, level):
    ports: list[RecordingPort] = []

    def make(url: str, *, do_not_open: bool, **options: object) -> RecordingPort:
        assert do_not_open
        ports.append(RecordingPort(**options))
        return ports[-1]

    monkeypatch.setattr(serial_line.serial, "serial_for_url", make)
    SerialLine("COM3", baud=115200, clock=CLOCK, dtr=level, rts=level).close()
    assert ports[0].done == [("open", level, level), ("low latency", True)]
    assert ports[0].exclusive is True
