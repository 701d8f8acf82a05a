"""The mock backend: start the twin and give its addresses where the profile has the hardware's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from bench.errors import ProfileError
from bench.profile import RigProfile, SpecimenProfile, TwinProfile
from bench.station_drivers import Addresses, serial_ports
from bench.twin.link import Link, grpc_channel
from bench.twin.process import AttachedTwin, TwinProcess, start_twin


@dataclass(frozen=True)
class Simulation:
    """A running twin and how to reach it."""

    process: TwinProcess | AttachedTwin
    addresses: Addresses
    seed: int
    real_time: bool
    details: dict[str, object]

    @property
    def watchdog_order(self) -> dict[str, object]:
        """What a watchdog's process has to know to find the same rig."""
        return {
            "addresses": "bench.station_mock:watchdog_addresses",
            "twin": {**self.process.addresses, "pid": self.process.pid},
        }


def start(
    opened: ExitStack,
    rig: RigProfile,
    twin: TwinProfile | None,
    specimen: SpecimenProfile | None,
    *,
    seed: int | None,
    real_time: bool,
    faults: Sequence[Mapping[str, Any]],
    attach: Mapping[str, str] | None = None,
) -> Simulation:
    """Start the twin of ``rig`` with ``specimen`` mounted; ``opened`` ends it. With ``attach`` use one that runs.

    Raises
    ------
    ProfileError
        There is no truth for this rig or no such specimen in it.
    """
    if twin is None:
        raise ProfileError(
            "the mock backend needs a twin profile: the truth of the simulated rig",
            where=f"rig {rig.name}",
            remedy=f"Pass twin=load_twin(...), e.g. profiles/twins/{rig.name}.toml",
        )
    if twin.rig != rig.name:
        raise ProfileError(
            f'the twin "{twin.name}" is one of the rig "{twin.rig}", not of "{rig.name}"',
            where=str(twin.source.path),
            remedy=f'Use a twin profile with rig = "{rig.name}"',
        )
    if specimen is not None and specimen.name not in twin.specimen_names:
        raise ProfileError(
            f'the twin "{twin.name}" knows no specimen "{specimen.name}"',
            where=str(twin.source.path),
            remedy=f"Known: {', '.join(twin.specimen_names)}. Add a [specimens.{specimen.name}] table for its truth",
        )
    used = twin.seed if seed is None else seed
    process: TwinProcess | AttachedTwin
    if attach is not None:
        process = opened.enter_context(AttachedTwin(attach))
        for fault in faults:
            process.control.fault(fault["name"], at_s=fault.get("at_s"), **fault.get("parameters", {}))
    else:
        process = opened.enter_context(
            start_twin(
                rig.source.path,
                twin.source.path,
                None if specimen is None else specimen.name,
                seed=used,
                real_time=real_time,
                faults=[dict(fault) for fault in faults],
            )
        )
    link = Link.connect(process.link_address)
    opened.callback(link.close)
    channel = grpc_channel(process.grpc_address, link)
    opened.callback(channel.close)
    # The truth itself stays out of the archive: an analysis must not find it there.
    simulated: dict[str, object] = {
        "name": twin.name, "sha256": twin.source.sha256, "seed": used, "real_time": process.real_time
    }  # fmt: skip
    if faults:
        simulated["faults"] = [str(fault["name"]) for fault in faults]
    details: dict[str, object] = {"twin": simulated}
    serial = {name: link.url(name) for name in serial_ports(rig)}
    return Simulation(process, Addresses(serial, link.clock, daq_channel=channel), used, process.real_time, details)


def watchdog_addresses(rig: RigProfile, order: Mapping[str, Any]) -> tuple[Addresses, Callable[[], None]]:
    """Return, in a watchdog's process, the addresses of the rig it watches, and what lets go of them."""
    twin = order["twin"]
    link = Link.watch(twin["link"])
    channel = grpc_channel(twin["grpc"], link, over_link=True)

    def let_go() -> None:
        channel.close()
        link.close()

    serial = {name: link.url(name) for name in serial_ports(rig)}
    return Addresses(serial, link.clock, daq_channel=channel), let_go
