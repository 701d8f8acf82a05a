"""A process that has imported everything and forks a twin on demand: a start in milliseconds. POSIX only.

It reads requests from its standard input, one line of JSON each, and ends with it. A forked twin connects back to the
port named in its request; that socket is its standard input and output, so it ends with whoever asked for it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MODULES = ("bench.twin.child", "bench.twin.serial_tcp", "bench.twin.serial_pty", "grpc._server", "numpy.random")

_ARM = re.compile(r'^kind *= *"arm"', re.MULTILINE)


def main() -> int:
    """Serve requests until standard input ends. Each is ``{"argv", "port", "cwd", "environment"}``."""
    for module in MODULES:
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries ended twins
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        line = _read_line()
        if not line:
            return 0
        _prepare(json.loads(line))
        zygote = os.getpid()
        if os.fork() == 0:
            _become_twin(json.loads(line), zygote)


def _prepare(request: dict[str, Any]) -> None:
    """Import what only twins of some rigs need, before the first of them is forked; a child says what is missing."""
    profiles = [Path(request["cwd"], argument) for argument in request["argv"] if argument.endswith(".toml")]
    with contextlib.suppress(OSError, ImportError):
        if any(_ARM.search(profile.read_text("utf-8")) for profile in profiles):
            importlib.import_module("mujoco")


def _read_line() -> bytes:
    """Read one line without reading ahead: what a buffer held would be lost, or served twice, by a fork."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _become_twin(request: dict[str, Any], zygote: int) -> None:
    from bench.twin.child import main as run

    code = 3
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        line = socket.create_connection(("127.0.0.1", request["port"]), timeout=10.0)
        line.settimeout(None)
        os.dup2(line.fileno(), 0)
        os.dup2(line.fileno(), 1)
        line.close()
        os.chdir(request["cwd"])
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.stdin = os.fdopen(0, "r", encoding="utf-8", closefd=False)
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        code = run(request["argv"], parent=zygote)
        print(json.dumps({"event": "ended", "code": code}), flush=True)
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
