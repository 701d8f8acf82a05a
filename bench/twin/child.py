"""The twin's process: builds the lab, serves it, says where, and ends when nobody needs it any more.

It prints one line of JSON when it is ready. It ends at ``quit`` or the end of its standard input, when its parent dies,
on SIGTERM, or (unless it is told to linger) once it has reported what became of the rig after its runner was lost.
"""

from __future__ import annotations

import argparse
import json
import os
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nidaqmx._stubs import nidaqmx_pb2_grpc as rpc

from bench.errors import BenchError, TwinError
from bench.profile import find_profile, load_rig, load_twin, parse_fault
from bench.twin.control import Control
from bench.twin.devices.nidaqmx_grpc import NiDaqService, serve
from bench.twin.lab import Lab, build_lab
from bench.twin.link_server import LinkServer
from bench.twin.report import aftermath, write_report
from bench.twin.rpc_server import LinkProcedures

PARENT_POLL_S = 0.5
#: A twin without news looks up this often [s].
IDLE_S = 1.0


def parser() -> argparse.ArgumentParser:
    """The command line, shared by ``bench twin`` and :func:`bench.twin.process.start_twin`."""
    made = argparse.ArgumentParser(prog="bench twin", description="Run the simulated lab of a rig.")
    made.add_argument("rig", help="rig profile: a name or a path")
    made.add_argument("--twin", help="twin profile: a name or a path (default: the one of the rig's name)")
    made.add_argument(
        "--specimen", help="specimen under the tool, by its name in the twin profile (default: the first)"
    )
    made.add_argument("--seed", type=int, help="instead of the twin profile's")
    made.add_argument("--real-time", action="store_true", help="pace the world to the wall clock")
    made.add_argument("--tcp", type=int, nargs="?", const=0, metavar="PORT", help="serial devices on TCP (real time)")
    made.add_argument("--pty", action="store_true", help="serial devices on pseudo-terminals (real time, not Windows)")
    made.add_argument("--report", type=Path, help="where to write what became of the rig (JSON)")
    made.add_argument("--linger", action="store_true", help="stay after the runner was lost, until told to quit")
    made.add_argument(
        "--fault",
        action="append",
        default=[],
        type=_fault,
        metavar="NAME[@TIME][,KEY=VALUE]",
        help="something that goes wrong, e.g. drifting_cell@20s,rate=5mN/s; may be given more than once",
    )
    made.add_argument("--faults", default="[]", help='JSON: [{"name": …, "at_s": …, "parameters": {…}}, …]')
    made.add_argument("--managed", action="store_true", help=argparse.SUPPRESS)
    return made


def _fault(text: str) -> dict[str, Any]:
    try:
        return parse_fault(text)
    except BenchError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def main(argv: list[str] | None = None, *, parent: int | None = None) -> int:
    """Run the twin of the command line ``argv``; returns the process's exit code."""
    given = parser().parse_args(argv)
    try:
        lab = _lab(given)
        twin = _Running(lab, given)
    except Exception as error:
        if not isinstance(error, BenchError | OSError):
            traceback.print_exc()  # a defect, not a wrong profile or a port in use
        _say({"event": "failed", "kind": type(error).__name__, "error": str(error)})
        return 2
    return twin.run(os.getppid() if parent is None else parent)


def _lab(given: argparse.Namespace) -> Lab:
    faults = _faults(given.faults)
    rig = load_rig(find_profile("rigs", given.rig))
    twin = load_twin(find_profile("twins", given.twin or rig.name))
    lab = build_lab(rig, twin, given.specimen, seed=given.seed, real_time=given.real_time)
    faults += [(fault["name"], fault["at_s"], fault["parameters"]) for fault in given.fault]
    for name, at_s, parameters in faults:
        lab.faults.schedule(name, at_s, parameters)
    return lab


def _faults(text: str) -> list[tuple[str, float, dict[str, Any]]]:
    """Return name, time and parameters of each fault on the command line."""
    try:
        listed = json.loads(text)
        return [(str(one["name"]), float(one.get("at_s", 0.0)), dict(one.get("parameters", {}))) for one in listed]
    except (ValueError, TypeError, KeyError, AttributeError):
        raise TwinError(
            f"{text!r} is no list of faults",
            where="--faults",
            remedy='Give JSON such as [{"name": "estop_pressed", "at_s": 20}], in quotes of the shell',
        ) from None


class _Running:
    """The served lab."""

    def __init__(self, lab: Lab, given: argparse.Namespace) -> None:
        self.lab = lab
        self.given = given
        self.news: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.reported = False
        self.told = False  # to end, by somebody who need not know how the rig comes to rest
        lab.world.on_lost.append(lambda why: self.news.put("lost"))
        service = NiDaqService(lab.daq, lab.gate)
        procedures = LinkProcedures(lambda server: rpc.add_NiDAQmxServicer_to_server(service, server))
        self.link = LinkServer(lab.world, lab.wires, Control(lab), procedures.call)
        self.serial: dict[str, dict[str, str]] = {name: {} for name in lab.wires}
        self.bridges: list[Any] = []
        for name, wire in lab.wires.items():
            if given.tcp is not None:
                from bench.twin.serial_tcp import TcpBridge

                tcp = TcpBridge(lab.world, wire, given.tcp)
                self.serial[name]["tcp"] = tcp.address
                self.bridges.append(tcp)
            if given.pty:
                from bench.twin.serial_pty import PtyBridge

                pty = PtyBridge(lab.world, wire)
                self.serial[name]["pty"] = pty.path
                self.bridges.append(pty)
        self.grpc = serve(lab.daq, lab.gate)
        self.link.start()
        lab.world.start()

    def run(self, parent: int) -> int:
        _say(
            {
                "event": "ready",
                "link": self.link.address,
                "grpc": self.grpc.address,
                "serial": self.serial,
                "pid": os.getpid(),
                "real_time": self.lab.world.real_time,
                "report": None if self.given.report is None else str(self.given.report),
            }
        )
        self._watch(parent)
        while True:
            try:
                news = self.news.get(timeout=IDLE_S)
            except queue.Empty:
                continue
            if news == "lost" and not self.reported:
                self._report(self.lab.world.lost or "")
            if news != "lost" or not self.given.linger:
                break
        if not self.reported:
            self._report("the twin was told to end" if self.told else "the twin's parent ended")
        self._close()
        return 1 if self.lab.world.fault is not None else 0

    def _watch(self, parent: int) -> None:
        """Listen for the ends of standard input and of the parent, and for signals."""
        _thread(self._read_stdin, "twin-stdin")
        if self.given.managed:
            _thread(lambda: self._poll_parent(parent), "twin-parent")
            signal.signal(
                signal.SIGINT, signal.SIG_IGN
            )  # a Ctrl-C is the runner's to handle, with the twin still there
        else:
            signal.signal(signal.SIGINT, lambda *_: self._quit())
        signal.signal(signal.SIGTERM, lambda *_: self._quit())

    def _quit(self) -> None:
        self.told = True
        self.news.put("quit")

    def _read_stdin(self) -> None:
        stream = sys.stdin
        while line := stream.readline():
            if line.strip() == "quit":
                self._quit()
                return
        if self.given.managed or os.isatty(stream.fileno()):
            self.news.put("orphaned")  # else: in the background by hand, without standard input, ended by a signal

    def _poll_parent(self, parent: int) -> None:
        while os.getppid() == parent:
            time.sleep(PARENT_POLL_S)
        self.news.put("orphaned")

    def _report(self, why: str) -> None:
        self.reported = True
        content = aftermath(self.lab, why, lambda: self.told)
        if self.given.report is not None:
            write_report(self.given.report, content)

    def _close(self) -> None:
        self.link.close()
        for bridge in self.bridges:
            bridge.close()
        self.lab.world.close()
        self.grpc.stop()


def _thread(target: Callable[[], None], name: str) -> None:
    threading.Thread(target=target, name=name, daemon=True).start()


def _say(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # threads of gRPC and of connections may sit in system calls; nothing is left to save
