"""A process at the indenter's twin: ``lease_runner.py REPOSITORY TWIN [raw]``, TWIN as JSON; ends at a line of input.

It opens a station; ``raw``, it holds the leases and drives the enable line without one, so that there is nobody and
nothing to clean up behind it once it is killed.
"""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from bench.instruments.nidaqmx import NiDaq
from bench.profile import load_rig, load_specimen, load_twin
from bench.safety.process_identity import identity_of
from bench.safety.rig_leases import RigLeases
from bench.station import open_station
from bench.twin.link import Link, grpc_channel


def open_indenter(repository: Path, twin: dict[str, Any]) -> Any:
    """Open the station of the indenter at a twin that runs."""
    profiles = repository / "profiles"
    return open_station(
        load_rig(profiles / "rigs/indenter.toml"),
        "mock",
        twin=load_twin(profiles / "twins/indenter.toml"),
        specimen=load_specimen(profiles / "specimens/liver_phantom_a.toml"),
        attach=twin,
        home=False,
    )


def hold_raw(twin: dict[str, Any], opened: ExitStack) -> None:
    """Hold the leases and give the rig power."""
    link = Link.connect(twin["link"])
    daq = NiDaq("Dev1", channel=grpc_channel(twin["grpc"], link), clock=link.clock)
    leases = RigLeases("indenter", twin=identity_of(int(twin["pid"])))
    leases.take("daq", daq.identify().serial_number)
    leases.take("stage", "57012")
    daq.digital_output("port0/line1").write(True)
    opened.callback(leases.release)


def main(repository: str, twin: str, *how: str) -> None:
    with ExitStack() as opened:
        if how == ("raw",):
            hold_raw(json.loads(twin), opened)
        else:
            opened.enter_context(open_indenter(Path(repository), json.loads(twin)))
        print("held", flush=True)
        sys.stdin.readline()


if __name__ == "__main__":
    main(*sys.argv[1:])
