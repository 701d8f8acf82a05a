"""From profiles to the plant's plain numbers: the one place where the twin reads a profile's quantities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.errors import TwinError
from bench.instruments.ati_file import AtiCalibration
from bench.profile import IndenterRig, IndenterTwin, RigProfile, TwinProfile
from bench.profile.faults import FAULTS, befalls
from bench.profile.rig import AtiSensorProfile, LoadCellProfile
from bench.profile.twin import TissueTruth as TissueProfile
from bench.twin.plant.truth import FaultTruth, RigTruth, SensorTruth, StageTruth, TissueTruth, Wiring
from bench.units import Value

AXES = ("Fx", "Fy", "Fz")
FAULT_UNITS = {
    "length": "mm", "time": "s", "force_rate": "N/s", "torque_rate": "N.m/s", "ratio": "1", "angle": "rad",
    "temperature": "degC", "mass": "kg",
}  # fmt: skip


def rig_truth(
    rig: IndenterRig, twin: IndenterTwin, specimen: str | None = None, seed: int | None = None, *, faults: bool = True
) -> RigTruth:
    """Gather the truth of one simulated rig.

    Parameters
    ----------
    rig : IndenterRig
        How things are wired.
    twin : IndenterTwin
        What they really are.
    specimen : str, optional
        Name in the twin profile of the specimen under the tool; the first one by default.
    seed : int, optional
        Instead of the profile's.

    Raises
    ------
    TwinError
        Rig and twin do not fit, or the specimen is unknown.
    """
    name = check_names(rig, twin, specimen)
    tissues = {key: tissue_truth(key, profile) for key, profile in twin.specimens.items()}
    return RigTruth(
        seed=twin.seed if seed is None else seed,
        tick_s=twin.tick.to("s"),
        stage=_stage(twin),
        tissue=tissues.pop(name),
        others=tuple(tissues.values()),
        sensor=_sensor(rig, twin),
        wiring=_wiring(rig),
        faults=fault_truths(twin) if faults else (),
    )


def check_names(rig: RigProfile, twin: TwinProfile, specimen: str | None) -> str:
    """Return the name of what is mounted, the twin's first by default.

    Raises
    ------
    TwinError
        The twin is another rig's, or does not know the specimen.
    """
    if twin.rig != rig.name:
        raise TwinError(
            f"the twin {twin.name!r} simulates the rig {twin.rig!r}, not {rig.name!r}",
            where=str(twin.source.path),
            remedy="choose the twin profile made for this rig",
        )
    name = specimen or twin.specimen_names[0]
    if name not in twin.specimen_names:
        raise TwinError(
            f"the twin knows no specimen {name!r}",
            where=f"{twin.source.path}, specimens",
            remedy=f"it has {', '.join(twin.specimen_names)}; add a table [specimens.{name}] for another",
        )
    return name


def check_terminals(rig: RigProfile, terminals: Iterable[str]) -> None:
    """Raise :class:`bench.errors.TwinError` when one of ``terminals`` is on another device than the rig's."""
    for terminal in terminals:
        if terminal.partition("/")[0].lower() != rig.daq.device.lower():
            raise TwinError(
                f"{terminal} is a terminal of another device than {rig.daq.device}",
                where=str(rig.source.path),
                remedy="the twin simulates one device; name all terminals on it",
            )


def fault_truths(twin: TwinProfile) -> tuple[FaultTruth, ...]:
    """The faults that come by themselves, in plain numbers."""
    return tuple(
        FaultTruth(fault.name, fault.at.to("s"), fault_parameters(fault.name, fault.parameters, twin.kind))
        for fault in twin.faults
    )


def fault_parameters(name: str, given: dict[str, Any], rig_kind: str) -> dict[str, float | str]:
    """Turn a fault's parameters into plain numbers (the units of ``FAULT_UNITS``) and texts.

    Raises
    ------
    TwinError
        The fault or one of its parameters is unknown, or the fault cannot befall this kind of rig.
    """
    here = [fault for fault in FAULTS if befalls(fault, rig_kind)]
    if name not in FAULTS:
        raise TwinError(f"there is no fault {name!r}", where="twin", remedy=f"there are {', '.join(here)}")
    if name not in here:
        raise TwinError(
            f"the fault {name!r} cannot befall a rig of kind {rig_kind!r}",
            where="twin",
            remedy=f"this one can have {', '.join(here)}",
        )
    plain: dict[str, float | str] = {}
    for key, value in given.items():
        kind = FAULTS[name].get(key)
        if kind == "force_rate|torque_rate":
            kind = "torque_rate" if rig_kind == "single_joint" else "force_rate"
        if kind is None:
            takes = ", ".join(FAULTS[name]) or "no parameters"
            raise TwinError(f"the fault {name} has no parameter {key!r}", where="twin", remedy=f"it takes {takes}")
        if kind == "text":
            plain[key] = str(value)
        elif isinstance(value, str):
            plain[key] = Value.parse(value, kind, where=f"fault {name}").to(FAULT_UNITS[kind])
        else:
            plain[key] = value
    return plain


def _stage(twin: IndenterTwin) -> StageTruth:
    stage, encoder = twin.stage, twin.encoder
    return StageTruth(
        start_mm=stage.power_on_position.to("mm"),
        lag_s=max(stage.following_lag.to("s"), 1e-6),
        brake_s=stage.brake_time.to("s"),
        travel_min_mm=stage.hard_stop_min.to("mm"),
        travel_max_mm=stage.hard_stop_max.to("mm"),
        screw_amplitude_mm=stage.screw_error.to("mm"),
        screw_period_mm=stage.screw_pitch.to("mm"),
        stall_force_N=stage.stall_force.to("N"),
        encoder_noise_mm=encoder.noise.to("mm"),
        encoder_scale_error=encoder.scale_error.to("1"),
        frame_stiffness_N_mm=twin.frame.stiffness.to("N/mm"),
    )


def tissue_truth(name: str, profile: TissueProfile) -> TissueTruth:
    """A specimen in plain numbers."""
    return TissueTruth(
        name=name,
        surface_mm=profile.surface_position.to("mm"),
        force_ref_N=profile.reference_force.to("N"),
        depth_ref_mm=profile.reference_depth.to("mm"),
        exponent=profile.exponent,
        prony=tuple((term.g, term.tau.to("s")) for term in profile.prony),
        specimen_force_scatter=profile.specimen_force_scatter.to("1"),
        specimen_exponent_scatter=profile.specimen_exponent_scatter.to("1"),
        specimen_surface_scatter_mm=profile.specimen_surface_scatter.to("mm"),
        replicate_force_scatter=profile.replicate_force_scatter.to("1"),
        replicate_surface_scatter_mm=profile.replicate_surface_scatter.to("mm"),
        hunt_crossley_s_mm=profile.hunt_crossley_damping.to("s/mm"),
        rupture_depth_mm=None if profile.rupture_depth is None else profile.rupture_depth.to("mm"),
        rupture_drop=0.0 if profile.rupture_drop is None else profile.rupture_drop.to("1"),
    )


def _sensor(rig: IndenterRig, twin: IndenterTwin) -> SensorTruth:
    truth, sensor = twin.force_sensor, rig.force_sensor
    common: dict[str, Any] = {
        "gain_error": truth.gain_error.to("1"),
        "offset_N": truth.zero_offset.to("N"),
        "noise_N": truth.noise.to("N"),
        "drift_N_s": truth.drift.to("N/s"),
        "capacity_N": truth.capacity.to("N"),
    }
    if isinstance(sensor, LoadCellProfile):
        per_newton = sensor.sign * sensor.sensitivity.to("mV/V") / sensor.capacity.to("N")
        return SensorTruth(kind="bridge", sensitivity=per_newton, limit=sensor.bridge_range.to("mV/V"), **common)
    calibration_path = rig.calibration_path()
    assert calibration_path is not None
    calibration = AtiCalibration.read(calibration_path)
    return SensorTruth(
        kind="gauges",
        matrix=tuple(tuple(float(x) for x in row) for row in calibration.matrix),
        direction=_direction(sensor, twin),
        axis=AXES.index(sensor.pressing_axis),
        cross_talk=truth.cross_talk.to("1"),
        limit=sensor.voltage_range.to("V"),
        **common,
    )


def _direction(sensor: AtiSensorProfile, twin: IndenterTwin) -> tuple[float, ...]:
    """The wrench [N, N.m] that one newton of contact force makes: f along the axis, and p × f."""
    axis = AXES.index(sensor.pressing_axis)
    side, other = (axis + 1) % 3, (axis + 2) % 3
    force, place = [0.0] * 3, [0.0] * 3
    force[axis] = float(sensor.sign)
    off_axis = twin.force_sensor.off_axis
    place[side], place[other] = off_axis[0].to("m"), off_axis[1].to("m")
    torque = (
        place[1] * force[2] - place[2] * force[1],
        place[2] * force[0] - place[0] * force[2],
        place[0] * force[1] - place[1] * force[0],
    )
    return (*force, *torque)


def _wiring(rig: IndenterRig) -> Wiring:
    terminals = [*rig.force_sensor.channels, rig.encoder.counter, rig.safety.estop_line, rig.safety.enable_line]
    check_terminals(rig, terminals)
    return Wiring(
        device=rig.daq.device,
        gauges=rig.force_sensor.channels,
        counter=rig.encoder.counter,
        distance_per_pulse_mm=rig.encoder.distance_per_pulse.to("mm"),
        encoder_direction=rig.encoder.direction,
        estop_line=rig.safety.estop_line,
        estop_healthy=rig.safety.estop_healthy == "high",
        enable_line=rig.safety.enable_line,
    )
