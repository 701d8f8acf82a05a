"""Two ways to get a process of the bench's own: start an interpreter, or (POSIX) let a preloaded one fork.

Such a process has a session of its own, so that no Ctrl-C and no hang-up of a terminal reaches it. It is a module with
``main(argv, *, parent)`` that says one line when it is ready, and ends at ``quit`` or the end of its standard input.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Protocol

from bench.errors import ProcessError

ANNOUNCE_WALL_S = 60.0


class Child(Protocol):
    """A process as its parent holds it."""

    def first_line(self) -> str:
        """The announcement, or an empty text when the process ended without one."""
        ...

    def poll(self) -> int | None:
        """The exit code, or None while it runs."""
        ...

    def wait(self, wall_s: float) -> int | None:
        """Wait for its end; the exit code, or None when it still runs after ``wall_s``."""
        ...

    def quit(self) -> None:
        """Ask it to end."""
        ...

    def kill(self) -> None: ...

    def close(self) -> None:
        """Let go of what connects to it."""
        ...


class StartedChild:
    """A process in an interpreter of its own."""

    def __init__(self, module: str, arguments: list[str]) -> None:
        self._process = _interpreter(module, arguments, text_out=True)

    def first_line(self) -> str:
        stream = self._process.stdout
        assert stream is not None
        lines: list[str] = []
        reader = threading.Thread(target=lambda: lines.append(stream.readline()), name="announcement", daemon=True)
        reader.start()
        reader.join(ANNOUNCE_WALL_S)
        return lines[0] if lines else ""

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self, wall_s: float) -> int | None:
        try:
            return self._process.wait(wall_s)
        except subprocess.TimeoutExpired:
            return None

    def quit(self) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(OSError, ValueError):  # it has ended already
            stream.write("quit\n")
            stream.flush()

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                with contextlib.suppress(OSError):
                    stream.close()


class ForkedChild:
    """A process forked by the preloaded one; a socket is its standard input and output."""

    def __init__(self, module: str, arguments: list[str], preload: Sequence[str]) -> None:
        self._code: int | None = None
        self._pid: int | None = None
        self._rest = b""
        with socket.create_server(("127.0.0.1", 0)) as server:
            server.settimeout(ANNOUNCE_WALL_S)
            _Preloaded.ask({"module": module, "argv": arguments, "port": server.getsockname()[1]}, preload)
            try:
                self._line, _ = server.accept()
            except TimeoutError:
                raise ProcessError(f"it did not start within {ANNOUNCE_WALL_S:g} s", where=module) from None

    def first_line(self) -> str:
        line = self._read_line(ANNOUNCE_WALL_S) or ""
        with contextlib.suppress(ValueError):
            self._pid = json.loads(line).get("pid")
        return line

    def poll(self) -> int | None:
        return self.wait(0.0)

    def wait(self, wall_s: float) -> int | None:
        if self._code is None:
            line = self._read_line(wall_s)
            if line is not None:  # an end without a word is a kill
                self._code = json.loads(line)["code"] if line else -signal.SIGKILL
        return self._code

    def _read_line(self, wall_s: float) -> str | None:
        """Read a line; an empty text at the end of the stream, None when neither comes within ``wall_s``."""
        deadline = time.monotonic() + wall_s
        while b"\n" not in self._rest:
            self._line.settimeout(max(1e-6, deadline - time.monotonic()))
            try:
                data = self._line.recv(65536)
            except (TimeoutError, BlockingIOError):
                return None
            except OSError:
                data = b""
            if not data:
                return ""
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def quit(self) -> None:
        with contextlib.suppress(OSError):
            self._line.settimeout(1.0)
            self._line.sendall(b"quit\n")

    def kill(self) -> None:
        if self._pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        self._line.close()


class _Preloaded:
    """The one preloaded process of this process."""

    process: subprocess.Popen[str] | None = None
    owner = 0
    lock = threading.Lock()

    @classmethod
    def ask(cls, child: dict[str, object], modules: Sequence[str]) -> None:
        """Have ``modules`` imported, and ``child`` forked when there is one."""
        request = {"preload": list(modules), "cwd": os.getcwd(), "environment": dict(os.environ), **child}
        with cls.lock:
            stream = cls.running().stdin
            assert stream is not None
            stream.write(json.dumps(request) + "\n")
            stream.flush()

    @classmethod
    def running(cls) -> subprocess.Popen[str]:
        """The process, started when there is none, or when this process is a fork of the one that started it."""
        if cls.process is None or cls.owner != os.getpid() or cls.process.poll() is not None:
            cls.process, cls.owner = _interpreter("bench.preload", [], text_out=False), os.getpid()
        return cls.process


def warm_up(modules: Sequence[str]) -> None:
    """Have the preloaded process import ``modules``, so that a child need not wait for that. Returns at once."""
    if os.name == "posix":
        _Preloaded.ask({}, modules)


def spawn(module: str, arguments: list[str], *, preload: Sequence[str] = (), preloaded: bool = True) -> Child:
    """Start ``module`` in a process of its own, with the command line ``arguments``.

    Parameters
    ----------
    module : str
        Has ``main(argv, *, parent)``, and can be run with ``python -m``.
    arguments : list of str
    preload : sequence of str
        Modules its process should have imported, itself among them.
    preloaded : bool
        Fork from a process that has imported them (POSIX), which makes every start but the first one quick.

    Raises
    ------
    ProcessError
        It did not start in time.
    """
    if preloaded and os.name == "posix":
        return ForkedChild(module, arguments, preload)
    return StartedChild(module, arguments)


def _interpreter(module: str, arguments: list[str], *, text_out: bool) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", module, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE if text_out else subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        start_new_session=os.name == "posix",
        creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
    )
