"""A program that drives a rig of the simulated lab until something ends it. It takes one argument, JSON.

``event`` befalls it in ``state``; what it does itself (a hung call, no memory, a full disk) and what has to come while
it writes it does here, when the file ``trigger`` is there. ``struck`` gets the machine's monotonic time of that, and
``committed`` how many rows of each group were on disk.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

import h5py

from bench.archive import RunWriter
from bench.procedures import perform
from bench.profile import ArmRig, load_procedure, load_rig, load_specimen, load_twin
from bench.station import open_station

ROOM_B, DISK_B, PART_B = 96 << 20, 20_000, 4 << 20
HANG_S = 600
POWERED_NS = 500_000_000


class Event:
    """What befalls the program, once."""

    def __init__(self, name: str, trigger: str, struck: str) -> None:
        self.name, self.trigger, self.struck = name, Path(trigger), Path(struck)
        self.done = False

    def due(self) -> bool:
        return not self.done and self.trigger.exists()

    def strike(self) -> None:
        self.done = True
        self.struck.write_text(str(time.monotonic_ns()))
        if self.name.startswith("SIG"):
            os.kill(os.getpid(), getattr(signal, self.name))
        elif self.name == "hung":
            ctypes.PyDLL(None).sleep(HANG_S)  # a call that keeps the interpreter's lock
        elif self.name == "memory":
            self._no_memory()
        elif self.name == "disk":
            # A limit on the size of files stands for the full disk: the same failed write.
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (DISK_B, resource.RLIM_INFINITY))

    def _no_memory(self) -> NoReturn:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + ROOM_B, resource.RLIM_INFINITY))
        kept: list[bytearray] = []
        while True:
            kept.append(bytearray(PART_B))


def main(given: dict[str, Any]) -> None:
    event, state = Event(given["event"], given["trigger"], given["struck"]), given["state"]
    committed: dict[str, int] = {}

    def keep(group: str, rows: int) -> None:
        committed[group] = rows
        part = Path(given["committed"] + ".part")
        part.write_text(json.dumps(committed))
        part.replace(given["committed"])

    create = RunWriter.create.__func__  # type: ignore[attr-defined]

    def creating(cls: type[RunWriter], *args: Any, **options: Any) -> RunWriter:
        writer: RunWriter = create(cls, *args, **{**options, "on_commit": keep})
        return writer

    RunWriter.create = classmethod(creating)  # type: ignore[method-assign,assignment]
    flush = h5py.Dataset.flush

    def flushing(dataset: h5py.Dataset) -> None:
        if state == "writing" and event.due():  # a chunk is in the file, and its readers have not been told
            event.strike()
        flush(dataset)

    h5py.Dataset.flush = flushing

    def progress(text: str, fraction: float | None) -> None:
        if state in ("free", "contact") and event.due():
            event.strike()

    specimen = load_specimen(given["specimen"])
    with open_station(
        load_rig(given["rig"]), "mock", twin=load_twin(given["twin"]), specimen=specimen, attach=given["attach"]
    ) as station:
        print(json.dumps({"watchdog": station.watchdog.pid}), flush=True)
        if state == "idle":
            end = time.monotonic() + HANG_S
            while time.monotonic() < end and not (event.done and event.name == "disk"):
                time.sleep(0.02)
                if event.due():
                    event.strike()
            Path(given["results"], "full").write_bytes(b"x" * 2 * DISK_B)
        if state == "next" and isinstance(station.rig, ArmRig):
            with station.powered():  # where it stands a person has to see to
                station.fed_clock.sleep_until_ns(station.clock.now_ns() + POWERED_NS)
            time.sleep(HANG_S)
        for _ in range(given.get("runs", 50)):
            perform(
                station, load_procedure(given["procedure"]), specimen,
                operator="nobody", results_dir=given["results"], progress=progress,
            )  # fmt: skip
            print(json.dumps({"run": "complete"}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
