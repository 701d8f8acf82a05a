"""The simulated lab put together: world, plant, terminals, serial devices and the DAQ device."""

from __future__ import annotations

from dataclasses import dataclass

from bench.errors import TwinError
from bench.profile import IndenterRig, IndenterTwin, RigProfile, TwinProfile
from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_create import Settings
from bench.twin.devices.zaber_ascii import ZaberAscii
from bench.twin.faults import Faults
from bench.twin.gate import MetadataGate
from bench.twin.plant.build import rig_truth
from bench.twin.plant.bus_indenter import IndenterBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.sensors import ForceSensorPlant
from bench.twin.plant.truth import RigTruth
from bench.twin.wire import Wire
from bench.twin.world import SimWorld


@dataclass
class Lab:
    """Everything there is. ``wires`` maps a serial device's name to its line."""

    world: SimWorld
    truth: RigTruth
    plant: Indenter
    bus: IndenterBus
    wires: dict[str, Wire]
    daq: NiDaqDevice
    gate: MetadataGate
    faults: Faults


def build_lab(
    rig: RigProfile,
    twin: TwinProfile,
    specimen: str | None = None,
    *,
    seed: int | None = None,
    real_time: bool = False,
) -> Lab:
    """Build the lab of one rig.

    Parameters
    ----------
    rig, twin : RigProfile, TwinProfile
        What the bench knows, and what is true.
    specimen, seed : optional
        See :func:`bench.twin.plant.build.rig_truth`.
    real_time : bool
        Pace the world to the wall clock, once :meth:`SimWorld.start` is called.

    Raises
    ------
    TwinError
        The profiles do not fit each other, or ask for what is not simulated.
    """
    if not (isinstance(rig, IndenterRig) and isinstance(twin, IndenterTwin)):
        raise TwinError(f"a rig of kind {rig.kind!r} with a twin of kind {twin.kind!r} is not simulated", where="twin")
    truth = rig_truth(rig, twin, specimen, seed)
    world = SimWorld(tick_ns=round(truth.tick_s * 1e9), real_time=real_time)
    plant = Indenter(world, truth)
    bus = IndenterBus(world, truth, plant, ForceSensorPlant(truth.sensor, truth.seed, truth.tick_s))
    stage = ZaberAscii(
        plant,
        name="stage",
        address=rig.stage.device_address,
        baud=rig.stage.baud,
        microstep_size_mm=rig.stage.microstep_size.to("mm"),
        serial_number=twin.stage.serial_number,
        firmware=twin.stage.firmware,
        travel_mm=(rig.stage.travel_min.to("mm"), rig.stage.travel_max.to("mm")),
        max_speed_mm_s=rig.stage.max_speed.to("mm/s"),
        acceleration_mm_s2=rig.stage.acceleration.to("mm/s2"),
    )
    daq = NiDaqDevice(
        world,
        bus,
        Settings(
            device=rig.daq.device,
            product_type=twin.daq.product,
            serial_number=_hexadecimal(twin),
            bits=twin.daq.bits,
            noise_v=twin.daq.noise.to("V"),
            noise_mv_v=twin.daq.bridge_noise.to("mV/V"),
            seed=truth.seed,
        ),
    )
    wires = {stage.name: Wire(world, stage)}
    faults = Faults(world, truth, plant, bus, wires, daq)
    for fault in truth.faults:
        faults.schedule(fault.name, fault.start_s, fault.parameters)
    return Lab(world, truth, plant, bus, wires, daq, MetadataGate(world), faults)


def _hexadecimal(twin: TwinProfile) -> int:
    """DAQmx serial numbers are numbers, printed in hexadecimal."""
    try:
        return int(twin.daq.serial_number, 16)
    except ValueError:
        raise TwinError(
            f"the DAQ device's serial number {twin.daq.serial_number!r} is not hexadecimal",
            where=f"{twin.source.path}, daq.serial_number",
            remedy='give it as DAQmx prints it, e.g. "01F2A3B4"',
        ) from None
