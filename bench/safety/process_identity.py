"""Which process is it, and does it still live? A number alone does not say: the system gives it out again."""

from __future__ import annotations

import functools
import os
import platform
import subprocess
from dataclasses import dataclass
from pathlib import Path

#: How long the system may take to list a process [s].
_LIST_WALL_S = 5.0


@dataclass(frozen=True)
class ProcessIdentity:
    """A process of a machine.

    Parameters
    ----------
    host : str
        Machine, its boot, and the numbering of processes it belongs to; see :func:`this_host`.
    pid : int
    started : str
        When it was started, as this system counts; equal only for one and the same process.
    """

    host: str
    pid: int
    started: str

    def alive(self) -> bool | None:
        """Whether it lives; None where that cannot be told: on another machine, in another container."""
        if self.host != this_host():
            # The same machine before it was started anew: nothing of that time lives.
            mine, its = this_host().split("/"), self.host.split("/")
            rebooted = mine[0] == its[0] and bool(its[1:2] and its[1] and mine[1]) and its[1] != mine[1]
            return False if rebooted else None
        started = start_of(self.pid)
        return started is not None and (not self.started or not started or started == self.started)

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.split('/')[0]}"


def this_process() -> ProcessIdentity:
    """Return the identity of the process that asks."""
    return identity_of(os.getpid())


@functools.lru_cache(maxsize=64)
def _identity(pid: int, host: str, started: str) -> ProcessIdentity:
    return ProcessIdentity(host, pid, started)


def identity_of(pid: int) -> ProcessIdentity:
    """Return the identity of process ``pid`` of this machine; ``started`` is empty when there is none."""
    return _identity(pid, this_host(), start_of(pid) or "")


@functools.cache
def this_host() -> str:
    """Return this machine's name, its boot and its numbering of processes, ``name/boot/pid namespace``.

    Boot and namespace are known on Linux; elsewhere they are empty.
    """
    boot = namespace = ""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        pass
    return f"{platform.node().replace('/', '_')}/{boot}/{namespace}"


def start_of(pid: int) -> str | None:
    """Return when process ``pid`` of this machine was started, in the system's own words; None when there is none.

    Empty where the system does not tell it. A zombie, which has ended and only waits for its parent to notice, counts
    as none.
    """
    if pid <= 0:
        return None
    if os.name == "nt":
        return _start_on_windows(pid)
    if Path("/proc/self/stat").exists():
        try:
            text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return _start_of_hidden(pid)
        fields = text.rpartition(")")[2].split()  # the name before may hold blanks and brackets
        return None if fields[0] in "ZX" else fields[19]
    return _start_by_ps(pid)


def _start_of_hidden(pid: int) -> str | None:
    """For another user's process on a machine that does not show it (``hidepid``): it is there, and that is all."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return ""
    except OSError:
        return None
    return ""


def _start_by_ps(pid: int) -> str | None:
    try:
        listed = subprocess.run(
            ["ps", "-o", "state=,lstart=", "-p", str(pid)],
            capture_output=True,
            text=True,
            timeout=_LIST_WALL_S,
            env={**os.environ, "LC_ALL": "C", "TZ": "UTC"},  # the same words whoever asks
            check=False,
        ).stdout.strip()
    except (OSError, subprocess.TimeoutExpired):
        return ""  # it cannot be told: counts as alive
    state, _, started = listed.partition(" ")
    return None if not listed or state.startswith("Z") else started.strip()


def _start_on_windows(pid: int) -> str | None:
    import ctypes

    kernel = getattr(ctypes, "windll").kernel32  # noqa: B009 - there is none on other systems
    query, still_active = 0x1000, 259
    handle = kernel.OpenProcess(query, False, pid)
    if not handle:
        denied = 5
        return "" if kernel.GetLastError() == denied else None
    try:
        code = ctypes.c_ulong()
        if kernel.GetExitCodeProcess(handle, ctypes.byref(code)) and code.value != still_active:
            return None
        times = [ctypes.c_ulonglong() for _ in range(4)]
        if not kernel.GetProcessTimes(handle, *(ctypes.byref(t) for t in times)):
            return ""
        return str(times[0].value)
    finally:
        kernel.CloseHandle(handle)
