"""A process that has imported what others need and forks them on demand: a start in milliseconds. POSIX only.

It reads requests from its standard input, one line of JSON each, and ends with it. A forked process connects back to
the port named in its request; that socket is its standard input and output, so it learns when its asker ends.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import socket
import sys
from typing import Any


def main() -> int:
    """Serve requests until standard input ends.

    Each is ``{"preload", "cwd", "environment"}`` and, when a process is wanted, ``{"module", "argv", "port"}``.
    """
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries what has ended
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        line = _read_line()
        if not line:
            return 0
        request = json.loads(line)
        for module in request["preload"]:
            with contextlib.suppress(ImportError):  # a child that cannot do without says so
                importlib.import_module(module)
        parent = os.getpid()
        if "module" in request and os.fork() == 0:
            _become_child(request, parent)


def _read_line() -> bytes:
    """Read one line without reading ahead: what a buffer held would be lost, or served twice, by a fork."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            return b""
        line += byte
    return line


def _become_child(request: dict[str, Any], parent: int) -> None:
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
        run = importlib.import_module(request["module"]).main
        code = run(request["argv"], parent=parent)
        print(json.dumps({"event": "ended", "code": code}), flush=True)
    finally:
        os._exit(code)


if __name__ == "__main__":
    sys.exit(main())
