"""The link from both ends, over a real socket, with the twin's side in threads of this process."""

from __future__ import annotations

import errno
import json
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest
import serial

from bench.clock import Clock, sleep
from bench.errors import TwinError
from bench.twin.frames import HEADER, VERSION, Op, Status
from bench.twin.interfaces import SerialPort, World
from bench.twin.link import Link
from bench.twin.link_server import LinkServer
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

BAUD = 100_000  # 0.1 ms a byte
REPLY_DELAY_NS = 300_000


class Echo:
    """Answers each line with itself; ``!`` is answered with nothing."""

    name = "echo"
    baud = BAUD

    def attach(self, world: World, port: SerialPort) -> None:
        self.world, self.port = world, port
        self.heard: list[tuple[int, bytes]] = []

    def receive(self, data: bytes) -> None:
        self.heard.append((self.world.now_ns, data))
        if not data.startswith(b"!"):
            self.port.send(data, delay_ns=REPLY_DELAY_NS)


class Twin:
    def __init__(self, *, real_time: bool = False) -> None:
        self.world = SimWorld(real_time=real_time)
        self.device = Echo()
        self.wire = Wire(self.world, self.device)
        self.server = LinkServer(self.world, {"echo": self.wire}, self.control)
        self.server.start()
        self.world.start()
        self.requests: list[dict[str, object]] = []

    def control(self, request: dict[str, object]) -> dict[str, object] | bytes:
        self.requests.append(request)
        if request["call"] == "big":
            return bytes(1 << 20)
        if request["call"] == "break":
            raise ZeroDivisionError("a defect")
        if request["call"] == "refuse":
            raise TwinError("no", where="here", remedy="do something else")
        return {"heard": len(self.device.heard)}


@pytest.fixture
def twin() -> Iterator[Twin]:
    twin = Twin()
    yield twin
    twin.server.close()


@pytest.fixture
def link(twin: Twin) -> Iterator[Link]:
    link = Link.connect(twin.server.address)
    yield link
    link.close()


@pytest.fixture
def port(link: Link) -> Iterator[serial.SerialBase]:
    with serial.serial_for_url(link.url("echo"), baudrate=BAUD, timeout=0.05) as port:
        yield port


def test_the_clock_is_a_clock_and_sleeps_in_world_time(link: Link) -> None:
    clock = link.clock
    assert isinstance(clock, Clock)
    assert clock.simulated
    began = time.monotonic()
    sleep(clock, 3600.0)
    assert clock.now_ns() == 3_600_000_000_000
    assert time.monotonic() - began < 60.0  # an hour in no time
    clock.sleep_until_ns(5)  # passed long ago
    assert clock.now_ns() == 3_600_000_000_000


def test_a_transaction_costs_its_bytes_and_the_devices_delay(link: Link, port: serial.SerialBase) -> None:
    port.write(b"0123456789\n")
    assert link.clock.now_ns() == 0  # the write returned before its bytes were through
    assert port.read(1) == b"0"
    assert link.clock.now_ns() == 11 * 100_000 + REPLY_DELAY_NS + 11 * 100_000
    assert port.in_waiting == 10
    assert port.read(port.in_waiting) == b"123456789\n"


def test_reading_byte_by_byte_is_charged_once_and_needs_one_round_trip(link: Link, port: serial.SerialBase) -> None:
    port.write(b"0123456789\n")
    before = link.connection.sent
    assert port.read_until(b"\n") == b"0123456789\n"
    at = link.clock.now_ns()
    port.write(b"0123456789\n")
    assert b"".join(port.read(1) for _ in range(11)) == b"0123456789\n"
    assert link.clock.now_ns() == 2 * at
    assert link.connection.sent - before == 3


def test_a_timeout_costs_virtual_time(link: Link, port: serial.SerialBase) -> None:
    port.timeout = 120.0
    began = time.monotonic()
    assert port.read(10) == b""
    assert time.monotonic() - began < 60.0
    assert link.clock.now_ns() == 120_000_000_000
    port.timeout = 0.01
    port.write(b"abc")
    assert port.read(10) == b"abc"  # fewer than asked for, at the timeout
    assert link.clock.now_ns() == 120_010_000_000
    port.timeout = 0
    assert port.read(1) == b""


def test_a_read_without_timeout_waits_for_the_bytes(link: Link, port: serial.SerialBase) -> None:
    port.timeout = None
    port.write(b"abc")
    assert port.read(3) == b"abc"


def test_a_read_that_nothing_can_end_is_refused(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    port.timeout = None
    with pytest.raises(TwinError, match="no event can bring"):
        port.read(1)


def test_read_until_keeps_what_follows(port: serial.SerialBase) -> None:
    port.write(b"one\ntwo\nthree")
    assert port.read_until(b"\n") == b"one\n"
    assert port.read_until(b"\n", 2) == b"tw"
    assert port.read_until(b"\n") == b"o\n"
    assert port.read_until(b"\n") == b"three"  # at the timeout


def ticks(twin: Twin, link: Link, port: serial.SerialBase, wait: Callable[[int], None]) -> list[tuple[int, bytes]]:
    """Ten transactions on a grid, beside a participant that writes in between; return what the device heard when."""

    def neighbour() -> None:
        for index in range(20):
            sleep(link.clock, 0.0013)
            link.signal(f"step {index}")

    other = link.thread(neighbour, "neighbour")
    began = link.clock.now_ns()
    for index in range(10):
        wait(began + (index + 1) * 5_000_000)
        assert link.clock.now_ns() == began + (index + 1) * 5_000_000
        port.write(b"%d\n" % index)
        assert port.read_until(b"\n") == b"%d\n" % index
    other.join(1.0)
    return [(time_ns - began, data) for time_ns, data in twin.device.heard]


def test_a_wait_that_rides_on_a_command_changes_nothing_but_the_messages(
    twin: Twin, link: Link, port: serial.SerialBase
) -> None:
    heard = ticks(twin, link, port, link.clock.sleep_until_ns)
    assert len(heard) == 10
    twin.device.heard.clear()
    assert ticks(twin, link, port, link.clock.ride_until_ns) == heard


def test_a_ride_travels_in_one_message_with_write_and_read(
    link: Link, port: serial.SerialBase, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages: list[bytes] = []
    send = link.connection._send_all

    def counted(data: bytes) -> None:
        messages.append(data)
        send(data)

    monkeypatch.setattr(link.connection, "_send_all", counted)
    link.clock.ride_until_ns(4_000_000)
    assert messages == []
    port.write(b"one\n")
    assert port.read_until(b"\n") == b"one\n"
    assert len(messages) == 1


def test_a_ride_is_over_before_anything_else_is_done(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    link.clock.ride_until_ns(4_000_000)
    assert link.control.call("heard")["heard"] == 0  # the control connection waits for the frames sent before
    assert twin.world.now_ns == 4_000_000
    link.clock.ride_until_ns(6_000_000)
    link.clock.ride_until_ns(9_000_000)  # one behind the other: the first is carried out
    link.clock.sleep_until_ns(7_000_000)  # has passed
    assert link.clock.now_ns() == twin.world.now_ns == 9_000_000
    link.clock.ride_until_ns(8_000_000)  # has passed as well
    assert link.clock.now_ns() == 9_000_000


def test_in_real_time_a_ride_is_a_sleep() -> None:
    twin = Twin(real_time=True)
    link = Link.connect(twin.server.address)
    try:
        due = link.clock.now_ns() + 5_000_000
        link.clock.ride_until_ns(due)
        assert twin.world.now_ns >= due
    finally:
        link.close()
        twin.server.close()


def test_discarded_input_is_gone_and_bytes_on_the_wire_are_not(link: Link, port: serial.SerialBase) -> None:
    port.write(b"old")
    sleep(link.clock, 0.01)
    assert port.in_waiting == 3
    port.write(b"new")
    port.reset_input_buffer()
    assert port.in_waiting == 0
    assert port.read(3) == b"new"


def test_a_write_waits_for_room_and_a_write_timeout_ends_that(link: Link, port: serial.SerialBase) -> None:
    port.write(b"!" * 4096)
    assert link.clock.now_ns() == 0
    port.write(b"!" * 100)
    assert link.clock.now_ns() == 100 * 100_000  # until 4096 bytes are left to send
    port.write_timeout = 0.001
    with pytest.raises(serial.SerialTimeoutException):
        port.write(b"!" * 100)
    assert link.clock.now_ns() == 100 * 100_000 + 1_000_000
    assert port.out_waiting == 4096 - 10
    port.flush()
    assert port.out_waiting == 0


def test_replyless_writes_reach_the_device_at_their_time(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    for index in range(50):
        port.write(b"!%02d" % index)
        sleep(link.clock, 0.001)
    expected = [(index * 1_000_000 + 3 * 100_000, b"!%02d" % index) for index in range(50)]
    assert twin.device.heard == expected  # never a cycle late


def test_a_control_call_comes_after_what_its_thread_said(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    for index in range(20):
        port.write(b"!")
        sleep(link.clock, 0.001)
        port.write(b"!")
        assert link.control.call("count")["heard"] == 2 * index + 1
        sleep(link.clock, 0.001)


def test_control_refusals_and_unknown_things_come_back_as_told(link: Link) -> None:
    with pytest.raises(TwinError, match=r"here: no\. do something else"):
        link.control.call("refuse")
    assert link.clock.now_ns() == 0  # the link is as good as before


def test_a_defect_of_the_twin_is_a_twin_fault_not_a_lost_client(
    link: Link, port: serial.SerialBase, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(TwinError, match=r"twin_fault.*ZeroDivisionError: a defect"):
        link.control.call("break")
    with pytest.raises(TwinError, match="twin_fault"):
        port.read(1)
    with pytest.raises(TwinError, match="twin_fault"):
        sleep(link.clock, 1.0)
    assert "ZeroDivisionError" in capfd.readouterr().err


def test_an_unplugged_device_is_told_in_pyserials_words(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    def unplug() -> None:
        twin.wire.unplug()

    twin.world.at(20_000_000, unplug)
    with pytest.raises(serial.SerialException, match="returned no data"):
        port.read(1)
    assert link.clock.now_ns() == 20_000_000  # at once, not at the timeout
    port.write(b"into the void")
    with pytest.raises(serial.SerialException):
        _ = port.in_waiting


def test_a_port_has_one_owner(link: Link, port: serial.SerialBase) -> None:
    with pytest.raises(serial.SerialException, match="in use by participant 'main'") as caught:
        serial.serial_for_url(link.url("echo"), baudrate=BAUD)
    assert caught.value.errno == errno.EBUSY
    port.close()
    with serial.serial_for_url(link.url("echo"), baudrate=BAUD, timeout=0.05) as again:
        again.write(b"x")
        assert again.read(1) == b"x"
    with pytest.raises(serial.PortNotOpenError):
        again.read(1)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("twin://{}/nothing", "no serial device 'nothing' on this twin, which has echo"),
        ("twin://nowhere", "expected twin://HOST:PORT/DEVICE"),
    ],
)
def test_a_wrong_url_is_a_serial_error(link: Link, url: str, message: str) -> None:
    with pytest.raises(serial.SerialException, match=message):
        serial.serial_for_url(url.format(link.address), baudrate=BAUD)


@pytest.mark.parametrize("setting", [{"rtscts": True}, {"parity": "E"}, {"inter_byte_timeout": 0.1}, {"stopbits": 2}])
def test_settings_that_are_not_simulated_are_refused(link: Link, setting: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="the twin's lines"):
        serial.serial_for_url(link.url("echo"), baudrate=BAUD, **setting)


def test_asking_for_the_time_for_ever_is_refused(link: Link) -> None:
    def poll() -> None:
        while link.clock.now_ns() < 1_000_000:
            pass

    with pytest.raises(TwinError, match="the time was asked for 5001 times"):
        poll()


def test_polling_a_port_for_ever_is_refused(twin: Twin, port: serial.SerialBase) -> None:
    twin.world.free_call_limit = 50

    def poll() -> None:
        while port.in_waiting == 0:
            pass

    with pytest.raises(TwinError, match="without world time moving; the last was in_waiting"):
        poll()


def test_threads_take_turns_and_hand_over_by_signals(link: Link) -> None:
    def run() -> list[tuple[int, str]]:
        log: list[tuple[int, str]] = []
        base = link.clock.now_ns()

        def body(name: str, step_s: float) -> Callable[[], None]:
            def steps() -> None:
                for _ in range(5):
                    sleep(link.clock, step_s)
                    log.append((link.clock.now_ns() - base, name))
                link.signal(f"{name} is through")

            return steps

        threads = [link.thread(body("b", 0.003), "b"), link.thread(body("c", 0.002), "c")]
        for _ in range(5):
            sleep(link.clock, 0.002)
            log.append((link.clock.now_ns() - base, "a"))
        assert link.wait("b is through", 1.0)
        log.append((link.clock.now_ns() - base, "handed over"))
        for thread in threads:
            thread.join(1.0)
        return log

    first = run()
    assert first == run()
    assert first[:4] == [(2_000_000, "a"), (2_000_000, "c"), (3_000_000, "b"), (4_000_000, "a")]
    assert first[-1] == (15_000_000, "handed over")


def test_a_signal_that_does_not_come_is_a_timeout_in_world_time(link: Link) -> None:
    assert link.wait("never", 2.0) is False
    assert link.clock.now_ns() == 2_000_000_000


def test_what_a_thread_raises_its_join_raises(link: Link) -> None:
    def fails() -> None:
        raise ValueError("in the thread")

    with pytest.raises(ValueError, match="in the thread"):
        link.thread(fails, "fails").join(1.0)


def test_a_thread_that_is_no_participant_is_told_so(link: Link) -> None:
    errors: list[str] = []

    def ask() -> None:
        assert link.clock.now_ns() == 500_000_000  # it may look
        try:
            sleep(link.clock, 1.0)
        except TwinError as error:
            errors.append(str(error))

    sleep(link.clock, 0.5)
    thread = threading.Thread(target=ask, name="stray")
    thread.start()
    thread.join(5.0)
    assert "thread 'stray' is no participant" in errors[0]


def test_one_process_has_one_link_to_a_twin(twin: Twin, link: Link) -> None:
    assert Link.connect(twin.server.address) is link


def test_a_closed_connection_is_a_loss_and_a_good_bye_is_not(twin: Twin) -> None:
    link = Link.connect(twin.server.address)
    link.close()
    assert twin.world.lost is None
    raw = socket.create_connection(("127.0.0.1", int(twin.server.address.rpartition(":")[2])))
    hello = json.dumps({"version": VERSION, "role": "participant", "name": "raw", "pid": None}).encode()
    raw.sendall(HEADER.pack(len(hello), Op.HELLO, 0, 0, 0) + hello)
    assert raw.recv(100)[4] == Status.OK
    raw.close()
    deadline = time.monotonic() + 5.0
    while twin.world.lost is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert twin.world.lost == "participant 'raw' was lost at 0.000000 s: its connection closed"
    with pytest.raises(TwinError, match="'raw' was lost"):
        Link.connect(twin.server.address)
    twin.world.reset()
    Link.connect(twin.server.address).close()


def test_a_client_of_another_version_is_refused(twin: Twin) -> None:
    with socket.create_connection(("127.0.0.1", int(twin.server.address.rpartition(":")[2]))) as raw:
        hello = json.dumps({"version": 99, "role": "participant", "name": "old"}).encode()
        raw.sendall(HEADER.pack(len(hello), Op.HELLO, 0, 0, 0) + hello)
        assert b"link version 99, not" in raw.recv(1000)


def test_a_frame_in_pieces_is_put_together(twin: Twin) -> None:
    with socket.create_connection(("127.0.0.1", int(twin.server.address.rpartition(":")[2]))) as raw:
        hello = json.dumps({"version": VERSION, "role": "control", "name": "slow"}).encode()
        frame = HEADER.pack(len(hello), Op.HELLO, 0, 0, 0) + hello
        for index in range(0, len(frame), 7):
            raw.sendall(frame[index : index + 7])
            time.sleep(0.001)
        assert raw.recv(100)[4] == Status.OK


def test_a_client_that_does_not_read_holds_up_nobody(twin: Twin, link: Link) -> None:
    with socket.create_connection(("127.0.0.1", int(twin.server.address.rpartition(":")[2]))) as raw:
        hello = json.dumps({"version": VERSION, "role": "control", "name": "deaf"}).encode()
        raw.sendall(HEADER.pack(len(hello), Op.HELLO, 0, 0, 0) + hello)
        assert raw.recv(1000)[4] == Status.OK
        request = json.dumps({"call": "big"}).encode()
        for _ in range(50):  # 50 MiB of replies find no room in any buffer
            raw.sendall(HEADER.pack(len(request), Op.CONTROL, 0, 0, 0) + request)
        deadline = time.monotonic() + 10.0
        while not twin.requests and time.monotonic() < deadline:
            time.sleep(0.001)
        for _ in range(100):
            sleep(link.clock, 0.01)
        assert link.clock.now_ns() == 1_000_000_000
        assert len(twin.requests) < 50


def test_a_link_to_a_twin_that_is_gone_is_not_used_for_the_next_one_on_its_port() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:  # a twin that greets and dies
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def greet(connections: int) -> list[socket.socket]:
            made = []
            for _ in range(connections):
                made.append(listener.accept()[0])
                made[-1].recv(1000)
                hello = json.dumps({"member": 1, "real_time": False, "tick_ns": 1}).encode()
                made[-1].sendall(HEADER.pack(len(hello), Status.OK, 1, 0, 0) + hello)
            return made

        def die(made: list[socket.socket]) -> None:
            for connection in made:
                connection.close()

        made: list[socket.socket] = []
        links = []
        for _ in range(2):
            thread = threading.Thread(target=lambda: made.extend(greet(2)))
            thread.start()
            links.append(Link.connect(address))
            thread.join(5.0)
            assert Link.connect(address) is links[-1]
            die(made)
            made.clear()
        assert links[0] is not links[1]
        for link in links:
            link.close()


def test_an_announced_thread_that_never_comes_does_not_outlive_its_process(twin: Twin) -> None:
    link = Link.connect(twin.server.address)
    link.connection.request(Op.EXPECT, payload=b"never comes")
    link.close()
    again = Link.connect(twin.server.address)
    sleep(again.clock, 1.0)
    again.close()


def test_no_twin_is_said_so() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        free = server.getsockname()[1]
    with pytest.raises(TwinError, match="no twin answers"):
        Link.connect(f"127.0.0.1:{free}")


class Interrupted(Exception):
    pass


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_wait_cut_short_by_a_signal_leaves_the_link_in_order(twin: Twin, link: Link, port: serial.SerialBase) -> None:
    """Somebody else keeps time from moving, so the read waits in wall time and a signal handler can raise in it."""
    other = twin.world.register("keeps time")

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        port.write(b"one\n")
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        with pytest.raises(Interrupted):
            port.read_until(b"\n")
    finally:
        signal.signal(signal.SIGALRM, before)
    twin.world.leave(other)
    sleep(link.clock, 0.01)  # its reply comes after the one nobody wanted
    assert link.clock.now_ns() >= 10_000_000
    port.write(b"two\n")
    assert port.read_until(b"\n") == b"two\n"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_a_signal_handler_may_use_the_link_while_its_thread_waits_on_it(
    twin: Twin, link: Link, port: serial.SerialBase
) -> None:
    other = twin.world.register("keeps time")
    handled: list[bytes] = []

    def make_safe(*_: object) -> None:
        twin.world.leave(other)
        port.write(b"stop\n")
        handled.append(port.read_until(b"\n"))

    before = signal.signal(signal.SIGALRM, make_safe)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.05)
        sleep(link.clock, 0.001)
    finally:
        signal.signal(signal.SIGALRM, before)
    assert handled == [b"stop\n"]
    assert link.clock.now_ns() >= 1_000_000
    port.write(b"two\n")
    assert port.read_until(b"\n") == b"two\n"


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs POSIX timers")
def test_in_real_time_a_long_sleep_can_be_cut_short_to_stop_the_rig() -> None:
    twin = Twin(real_time=True)
    link = Link.connect(twin.server.address)

    def interrupt(*_: object) -> None:
        raise Interrupted

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with serial.serial_for_url(link.url("echo"), baudrate=BAUD, timeout=5.0) as port:
            signal.setitimer(signal.ITIMER_REAL, 0.05)
            with pytest.raises(Interrupted):
                sleep(link.clock, 3600.0)
            port.write(b"stop\n")
            assert port.read_until(b"\n") == b"stop\n"  # and not in an hour
    finally:
        signal.signal(signal.SIGALRM, before)
        link.close()
        twin.world.close()
        twin.server.close()
