"""Start the simulated lab in a process of its own, and end it.

with start_twin("indenter", "indenter", "liver_phantom_a", seed=7) as twin:
    link = Link.connect(twin.link_address)
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.errors import ProcessError, TwinError
from bench.spawn import Child, spawn
from bench.spawn import warm_up as _warm_up
from bench.twin.control_client import TwinControl

__all__ = ["AttachedTwin", "TwinProcess", "main", "start_twin", "warm_up"]

END_WALL_S = 10.0
MODULES = ("bench.twin.child", "bench.twin.serial_tcp", "bench.twin.serial_pty", "grpc._server", "numpy.random")
"""What a twin's process imports."""

_ARM = re.compile(r'^kind *= *"arm"', re.MULTILINE)


def warm_up() -> None:
    """Start the preloaded process, so that the first twin need not wait for all of it. Returns at once."""
    _warm_up(MODULES)


def _modules(profiles: Iterable[str]) -> tuple[str, ...]:
    """What the twin of these profiles imports: the engine of an arm's plant takes a while."""
    with contextlib.suppress(OSError):
        if any(_ARM.search(Path(profile).read_text("utf-8")) for profile in profiles if profile.endswith(".toml")):
            return (*MODULES, "mujoco")
    return MODULES


class TwinProcess:
    """A running twin. Leave it as a context manager, or call :meth:`close`: it ends with its parent anyway.

    Attributes
    ----------
    link_address, grpc_address : str
        ``host:port`` of the link and of the NI-DAQmx device server.
    serial : dict
        Device name → {"tcp": ``host:port``, "pty": path}, as asked for.
    pid : int
        Of the twin's process.
    control : TwinControl
        Control calls, without being a participant.
    report_path : Path or None
        Where the twin writes what became of the rig.
    """

    def __init__(self, process: Child, ready: dict[str, Any]) -> None:
        self._process = process
        self.link_address: str = ready["link"]
        self.grpc_address: str = ready["grpc"]
        self.serial: dict[str, dict[str, str]] = ready["serial"]
        self.real_time: bool = ready["real_time"]
        self.pid: int = ready["pid"]
        self.report_path = None if ready["report"] is None else Path(ready["report"])
        self.control = TwinControl(self.link_address)

    @property
    def addresses(self) -> dict[str, str]:
        """Where another process finds this twin: what :func:`~bench.station.open_station` takes as ``attach``."""
        return {"link": self.link_address, "grpc": self.grpc_address}

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self, wall_s: float = END_WALL_S) -> int:
        """Wait for the twin to end by itself and return its exit code.

        Raises
        ------
        TwinError
            It did not end within ``wall_s`` of wall time.
        """
        code = self._process.wait(wall_s)
        if code is None:
            raise TwinError(f"the twin did not end within {wall_s:g} s", where=f"process {self.pid}")
        return code

    def report(self) -> dict[str, Any]:
        """Read the report file of a twin that has ended."""
        if self.report_path is None or not self.report_path.exists():
            raise TwinError("the twin has written no report", where=f"process {self.pid}", remedy="give report_path")
        content: dict[str, Any] = json.loads(self.report_path.read_text(encoding="utf-8"))
        return content

    def close(self) -> None:
        """End the twin; kill it when it does not end. Links to it should have been closed before."""
        self.control.close()
        self._process.quit()
        if self._process.wait(END_WALL_S) is None:
            self._process.kill()
            self._process.wait(END_WALL_S)
        self._process.close()

    def __enter__(self) -> TwinProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class AttachedTwin:
    """A twin that somebody else started and ends: what a station has of it.

    Parameters
    ----------
    addresses : mapping
        ``link`` and ``grpc``, ``host:port`` each, as ``bench twin`` prints them when it is ready.

    Attributes
    ----------
    pid, real_time, link_address, grpc_address, control
        As of :class:`TwinProcess`.
    """

    def __init__(self, addresses: Mapping[str, str]) -> None:
        missing = [name for name in ("link", "grpc") if name not in addresses]
        if missing:
            raise TwinError(
                f"the twin's address has no {' and no '.join(missing)}",
                where="attach",
                remedy='Give what "bench twin RIG" prints: {"link": "HOST:PORT", "grpc": "HOST:PORT"}',
            )
        self.link_address, self.grpc_address = addresses["link"], addresses["grpc"]
        self.control = TwinControl(self.link_address)
        told = self.control.call("identity")
        self.pid: int = told["pid"]
        self.real_time: bool = told["real_time"]

    @property
    def addresses(self) -> dict[str, str]:
        """See :attr:`TwinProcess.addresses`."""
        return {"link": self.link_address, "grpc": self.grpc_address}

    def close(self) -> None:
        """Let go of the twin, which goes on."""
        self.control.close()

    def __enter__(self) -> AttachedTwin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def start_twin(
    rig_path: Path | str,
    twin_path: Path | str | None = None,
    specimen_name: str | None = None,
    *,
    seed: int | None = None,
    real_time: bool = False,
    faults: Sequence[dict[str, Any]] = (),
    tcp: bool = False,
    pty: bool = False,
    report_path: Path | str | None = None,
    linger: bool = False,
    preloaded: bool = True,
) -> TwinProcess:
    """Start a twin and wait until it is ready.

    Parameters
    ----------
    rig_path, twin_path : path or name
        Profiles; the twin profile of the rig's name by default.
    specimen_name : str, optional
        Specimen under the tool, by its name in the twin profile; its first by default.
    seed : int, optional
        Instead of the twin profile's.
    real_time : bool
        Pace the world to the wall clock; needed for ``tcp`` and ``pty``.
    faults : sequence of dict
        ``{"name": …, "at_s": …, "parameters": {…}}`` each, beside those of the twin profile.
    tcp, pty : bool
        Serve the serial devices to vendors' own clients.
    report_path : path, optional
        Where the twin writes, at its end or when its runner is lost, what became of the rig.
    linger : bool
        Stay after the runner was lost, to be asked or reset.
    preloaded : bool
        Fork from a process that has imported everything (POSIX), which makes every start but the first one quick.

    Raises
    ------
    TwinError
        The twin could not start; the message is its own.
    """
    arguments = [str(rig_path), "--managed"]
    for flag, value in (
        ("--twin", twin_path),
        ("--specimen", specimen_name),
        ("--seed", seed),
        ("--report", report_path),
    ):
        if value is not None:
            arguments += [flag, str(value)]
    for flag, wanted in (("--real-time", real_time), ("--tcp", tcp), ("--pty", pty), ("--linger", linger)):
        if wanted:
            arguments.append(flag)
    if faults:
        arguments += ["--faults", json.dumps(list(faults))]
    try:
        process = spawn("bench.twin.child", arguments, preload=_modules(arguments), preloaded=preloaded)
    except ProcessError as error:
        raise TwinError(error.what, where="twin") from None
    line = process.first_line()
    try:
        ready: dict[str, Any] = json.loads(line)
    except json.JSONDecodeError:
        ready = {"error": f"the twin did not announce itself, it said {line!r}"}
    if ready.get("event") != "ready":
        process.kill()
        process.wait(END_WALL_S)
        process.close()
        raise TwinError(ready.get("error", "the twin did not start"), where="twin", remedy="see its standard error")
    return TwinProcess(process, ready)


def main(argv: list[str] | None = None) -> int:
    """Run a twin in this process, in the foreground: ``bench twin RIG …``."""
    from bench.twin.child import main as run

    return run(argv)
