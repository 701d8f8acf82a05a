"""The simulated lab put together: world, plant, terminals, serial devices and the DAQ device."""

from __future__ import annotations

from dataclasses import dataclass

from bench.errors import TwinError
from bench.profile import IndenterRig, IndenterTwin, RigProfile, TwinProfile
from bench.profile.rig_arm import ArmRig
from bench.profile.rig_joint import JointRig
from bench.profile.twin_arm import ArmTwin
from bench.profile.twin_joint import JointTwin
from bench.twin.devices.dynamixel import DynamixelArm, ServoSpec
from bench.twin.devices.moteus import Moteus
from bench.twin.devices.nidaqmx import NiDaqDevice
from bench.twin.devices.nidaqmx_create import Settings
from bench.twin.devices.zaber_ascii import ZaberAscii
from bench.twin.faults import Faults
from bench.twin.faults_arm import ArmFaults
from bench.twin.faults_indenter import IndenterFaults
from bench.twin.faults_joint import JointFaults
from bench.twin.gate import MetadataGate
from bench.twin.plant.arm import Arm
from bench.twin.plant.arm_truth import ArmTruth
from bench.twin.plant.build import rig_truth
from bench.twin.plant.build_arm import arm_truth
from bench.twin.plant.build_joint import joint_truth
from bench.twin.plant.bus import RigBus
from bench.twin.plant.bus_arm import ArmBus
from bench.twin.plant.bus_indenter import IndenterBus
from bench.twin.plant.bus_joint import JointBus
from bench.twin.plant.indenter import Indenter
from bench.twin.plant.joint import Joint
from bench.twin.plant.joint_truth import JointTruth
from bench.twin.plant.sensors import ForceSensorPlant
from bench.twin.plant.truth import RigTruth
from bench.twin.view import RigView
from bench.twin.view_arm import ArmView
from bench.twin.view_indenter import IndenterView
from bench.twin.view_joint import JointView
from bench.twin.wire import Wire
from bench.twin.world import SimWorld


@dataclass
class Lab:
    """What every simulated lab has. ``wires`` maps a serial device's name to its line."""

    world: SimWorld
    bus: RigBus
    wires: dict[str, Wire]
    daq: NiDaqDevice
    gate: MetadataGate
    faults: Faults
    view: RigView


@dataclass
class IndenterLab(Lab):
    """The lab of an indenter."""

    truth: RigTruth
    plant: Indenter


@dataclass
class JointLab(Lab):
    """The lab of a single joint. The truth as it is now, after faults, is ``plant.truth``."""

    truth: JointTruth
    plant: Joint
    drive: Moteus


@dataclass
class ArmLab(Lab):
    """The lab of an arm. The truth as it is now, after faults, is ``plant.truth``."""

    truth: ArmTruth
    plant: Arm
    servos: DynamixelArm


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
    if isinstance(rig, IndenterRig) and isinstance(twin, IndenterTwin):
        return _indenter(rig, twin, specimen, seed, real_time)
    if isinstance(rig, JointRig) and isinstance(twin, JointTwin):
        return _joint(rig, twin, specimen, seed, real_time)
    if isinstance(rig, ArmRig) and isinstance(twin, ArmTwin):
        return _arm(rig, twin, specimen, seed, real_time)
    raise TwinError(
        f"the rig {rig.name!r} is of kind {rig.kind!r}, the twin {twin.name!r} of kind {twin.kind!r}",
        where=str(twin.source.path),
        remedy="choose the twin profile made for this rig",
    )


def _indenter(
    rig: IndenterRig, twin: IndenterTwin, specimen: str | None, seed: int | None, real_time: bool
) -> IndenterLab:
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
    daq = NiDaqDevice(world, bus, _settings(rig, twin, truth.seed))
    wires = {stage.name: Wire(world, stage)}
    faults = IndenterFaults(world, truth, plant, bus, wires, daq, stage.axis)
    _schedule(faults, truth)
    view = IndenterView(world, truth, plant, bus)
    return IndenterLab(world, bus, wires, daq, MetadataGate(world), faults, view, truth, plant)


def _joint(rig: JointRig, twin: JointTwin, specimen: str | None, seed: int | None, real_time: bool) -> JointLab:
    truth = joint_truth(rig, twin, specimen, seed)
    world = SimWorld(tick_ns=round(truth.tick_s * 1e9), real_time=real_time)
    plant = Joint(world, truth)
    bus = JointBus(world, truth, plant)
    drive = Moteus(
        plant,
        name="drive",
        device_id=rig.drive.device_id,
        baud=rig.drive.baud,
        serial_number=twin.motor.serial_number,
        firmware=twin.motor.firmware,
        max_torque_nm=truth.drive.max_rotor_torque,
        fault_temperature_degc=truth.drive.fault_temperature,
    )
    daq = NiDaqDevice(world, bus, _settings(rig, twin, truth.seed))
    wires = {drive.name: Wire(world, drive)}
    faults = JointFaults(world, truth, plant, bus, wires, daq)
    _schedule(faults, truth)
    view = JointView(world, plant, bus, drive)
    return JointLab(world, bus, wires, daq, MetadataGate(world), faults, view, truth, plant, drive)


def _arm(rig: ArmRig, twin: ArmTwin, specimen: str | None, seed: int | None, real_time: bool) -> ArmLab:
    truth = arm_truth(rig, twin, specimen, seed)
    world = SimWorld(tick_ns=round(truth.tick_s * 1e9), real_time=real_time)
    plant = Arm(world, truth)
    bus = ArmBus(world, truth, plant)
    daq = NiDaqDevice(world, bus, _settings(rig, twin, truth.seed))
    servos = DynamixelArm(
        plant,
        [ServoSpec(servo.id, servo.model, servo.firmware) for servo in truth.servos],
        name="arm",
        baud=rig.bus.baud,
        return_delay_us=rig.bus.return_delay.to("us"),
    )
    wires = {servos.name: Wire(world, servos)}
    faults = ArmFaults(world, truth, plant, bus, wires, daq, servos)
    _schedule(faults, truth)
    view = ArmView(world, plant, bus)
    return ArmLab(world, bus, wires, daq, MetadataGate(world), faults, view, truth, plant, servos)


def _schedule(faults: Faults, truth: RigTruth | JointTruth | ArmTruth) -> None:
    for fault in truth.faults:
        faults.schedule(fault.name, fault.start_s, fault.parameters)


def _settings(rig: RigProfile, twin: TwinProfile, seed: int) -> Settings:
    return Settings(
        device=rig.daq.device,
        product_type=twin.daq.product,
        serial_number=_hexadecimal(twin),
        bits=twin.daq.bits,
        noise_v=twin.daq.noise.to("V"),
        noise_mv_v=twin.daq.bridge_noise.to("mV/V"),
        seed=seed,
    )


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
