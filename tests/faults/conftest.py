"""Real lines to hold against: a device on TCP, a pseudo-terminal, and lines that are closed after the test."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bench.clock import WallClock
from bench.instruments.serial_line import SerialLine


@pytest.fixture
def open_line() -> Iterator[Callable[..., SerialLine]]:
    lines: list[SerialLine] = []

    def opener(url: str, **options: object) -> SerialLine:
        lines.append(SerialLine(url, **({"baud": 115200, "clock": WallClock()} | options)))
        return lines[-1]

    yield opener
    for line in lines:
        line.close()


class Peer:
    """A device on TCP: ``answer`` gets the socket and each line it hears. One thread; ``visitors`` are counted."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self.url = f"socket://127.0.0.1:{self._server.getsockname()[1]}"
        self.visitors = 0
        self.heard: list[bytes] = []
        self.connection: socket.socket | None = None
        self.connected = threading.Event()
        self.answer: Callable[[Peer, bytes], None] = lambda peer, line: None
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.visitors += 1
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connection = connection
            self.connected.set()
            with connection, contextlib.suppress(OSError), connection.makefile("rb") as lines:
                for line in lines:
                    self.heard.append(line)
                    self.answer(self, line)

    def say(self, data: bytes) -> None:
        assert self.connection is not None
        self.connection.sendall(data)

    def hang_up(self) -> None:
        assert self.connected.wait(5.0)
        assert self.connection is not None
        self.connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._server.shutdown(socket.SHUT_RDWR)
        self._server.close()
        self._thread.join(5.0)


@pytest.fixture
def peer() -> Iterator[Peer]:
    peer = Peer()
    yield peer
    peer.close()


@dataclass
class Terminal:
    """A pseudo-terminal: ``url`` for the driver, ``master`` for the test, who plays the device."""

    master: int
    slave: int
    url: str

    def unplug(self) -> None:
        for end in (self.slave, self.master):
            if end >= 0:
                os.close(end)
        self.master = self.slave = -1


@pytest.fixture
def terminal() -> Iterator[Terminal]:
    if sys.platform == "win32":
        pytest.skip("Windows has no pseudo-terminals")
    master, slave = os.openpty()
    terminal = Terminal(master, slave, os.ttyname(slave))
    yield terminal
    terminal.unplug()


@pytest.fixture(scope="module")
def befall(repository: Path, tmp_path_factory: pytest.TempPathFactory, simulated_joint: Any) -> Any:
    """``befall(rig, procedure, mounted, fault=…, …)``: see ``catalogue.py`` beside this file."""
    spec = importlib.util.spec_from_file_location("catalogue", Path(__file__).with_name("catalogue.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["catalogue"] = module
    spec.loader.exec_module(module)
    return module.Catalogue(repository, tmp_path_factory.mktemp("catalogue"), simulated_joint)
