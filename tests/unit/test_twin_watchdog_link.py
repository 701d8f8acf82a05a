"""A watchdog at the twin: time does not wait for it, and it is served when the runner is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import serial

from bench.clock import sleep
from bench.errors import TwinError
from bench.instruments.nidaqmx import NiDaq
from bench.twin.link import Link, grpc_channel
from bench.twin.process import AttachedTwin, TwinProcess, start_twin

WALL_S = 30.0


@pytest.fixture
def twin(repository: Path, tmp_path: Path) -> Iterator[Callable[..., TwinProcess]]:
    started: list[TwinProcess] = []

    def start(**options: Any) -> TwinProcess:
        rig = repository / "profiles/rigs/single_joint.toml"
        started.append(start_twin(rig, report_path=tmp_path / "report.json", **options))
        return started[-1]

    yield start
    for process in started:
        process.close()


class Owner:
    """The participant of a runner that is lost when :meth:`die` is called: a thread with connections of its own."""

    def __init__(self, twin: TwinProcess) -> None:
        self.link = Link(twin.link_address)
        self.link._open_lease()
        self.link.register("runner")
        channel = grpc_channel(twin.grpc_address, self.link)
        self.daq = NiDaq("Dev1", channel=channel, clock=self.link.clock)
        self.enable = self.daq.digital_output("port0/line1")

    def die(self) -> None:
        self.link.connection._socket.close()
        assert self.link._lease is not None
        self.link._lease._socket.close()


@pytest.fixture
def watchdog() -> Iterator[Callable[[TwinProcess], Link]]:
    """A watchdog's link; in a test it lives in the process of the runner, so it is not the process's link."""
    links: list[Link] = []

    def watch(twin: TwinProcess) -> Link:
        links.append(Link.watch(twin.link_address))
        return links[-1]

    yield watch
    for link in links:
        link.close()


def line_of(link: Link, twin: TwinProcess) -> Any:
    channel = grpc_channel(twin.grpc_address, link, over_link=True)
    return NiDaq("Dev1", channel=channel, clock=link.clock).digital_output("port0/line1")


def test_two_processes_drive_one_line_as_long_as_no_task_is_kept_started(
    twin: Callable[..., TwinProcess], watchdog: Callable[[TwinProcess], Link]
) -> None:
    process = twin()
    link = watchdog(process)
    line, owner = line_of(link, process), Owner(process)
    owner.enable.write(True)
    assert line.read()
    line.write(False)
    assert not owner.enable.read(), "the line's own level is read, not what this task wrote last"
    owner.link.close()


def test_time_waits_for_a_watchdog_only_once_the_runner_is_lost(
    twin: Callable[..., TwinProcess], watchdog: Callable[[TwinProcess], Link]
) -> None:
    process = twin(linger=True)
    link = watchdog(process)
    line, owner = line_of(link, process), Owner(process)
    owner.enable.write(True)
    before = owner.link.clock.now_ns()
    sleep(owner.link.clock, 5.0)
    assert owner.link.clock.now_ns() - before == 5_000_000_000, "nobody waits for a watchdog that does nothing"
    owner.die()
    while process.control.report()["lost"] is None:
        threading.Event().wait(0.005)
    lost = link.clock.now_ns()
    threading.Event().wait(0.1)
    assert link.clock.now_ns() == lost, "the world stands still until the watchdog has acted"
    line.write(False)
    sleep(link.clock, 0.25)
    assert link.clock.now_ns() - lost == 250_000_000
    port = serial.serial_for_url(link.url("drive"), timeout=0.05)
    assert port.read(1) == b""
    assert link.clock.now_ns() - lost == 300_000_000
    port.close()
    link.close()
    log = process.control.log()
    assert [(time_ns, text) for time_ns, text in log if text.startswith("enable")][-1] == (lost, "enable off")


def test_a_twin_ends_once_its_runner_and_its_watchdog_are_gone(
    twin: Callable[..., TwinProcess], watchdog: Callable[[TwinProcess], Link]
) -> None:
    process = twin()
    link = watchdog(process)
    Owner(process).die()
    with pytest.raises(TwinError, match="did not end"):
        process.wait(0.3)
    assert process.control.report()["lost"] is not None
    link.close()
    assert process.wait(WALL_S) == 0
    assert process.report()["lost"] is not None


def test_in_real_time_a_watchdog_is_served_beside_the_runner_and_after_it(
    twin: Callable[..., TwinProcess], watchdog: Callable[[TwinProcess], Link]
) -> None:
    process = twin(real_time=True, linger=True)
    link = watchdog(process)
    line, owner = line_of(link, process), Owner(process)
    owner.enable.write(True)
    sleep(link.clock, 0.05)
    assert line.read()
    owner.die()
    while process.control.report()["lost"] is None:
        threading.Event().wait(0.005)
    line.write(False)
    sleep(link.clock, 0.05)
    assert process.control.report()["enable"] is False


def test_a_twin_that_runs_is_attached_to_and_left_alone(twin: Callable[..., TwinProcess]) -> None:
    process = twin()
    with AttachedTwin(process.addresses) as attached:
        assert attached.control.report()["enable"] is False
    assert process.running
    with pytest.raises(TwinError, match="no grpc"):
        AttachedTwin({"link": process.link_address})
