"""The twin's truth: what the simulated plant, sensors and tissue really are. No rig profile holds any of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from bench.profile.faults import FAULTS, FAULTS_OF_ONE, befalls, fault_parameter_issues
from bench.profile.fields import (
    Force,
    ForceRate,
    Length,
    Name,
    NonNegativeBridgeRatio,
    NonNegativeForce,
    NonNegativeLength,
    NonNegativeRatio,
    NonNegativeTime,
    NonNegativeVoltage,
    PositiveForce,
    PositiveLength,
    Profile,
    Quantity,
    Ratio,
    ReciprocalSpeed,
    Section,
    Stiffness,
    Time,
)
from bench.profile.problem import Issue, near_miss
from bench.units import Value

NO_LENGTH = Value(0.0, "mm", "length")
NO_RATIO = Value(0.0, "%", "ratio")
Share = Annotated[Value, Quantity("ratio", above="0")]


class StageTruth(Section):
    """The real stage behind the controller's own figures."""

    serial_number: str
    firmware: str = "7.38"
    power_on_position: NonNegativeLength
    hard_stop_min: Length
    hard_stop_max: Length
    following_lag: NonNegativeTime
    brake_time: Time
    screw_error: NonNegativeLength = NO_LENGTH
    screw_pitch: PositiveLength = Value(2.0, "mm", "length")
    stall_force: PositiveForce

    def comparisons(self) -> Iterator[Issue]:
        if self.hard_stop_min.to("mm") >= self.hard_stop_max.to("mm"):
            given = f'"{self.hard_stop_min}"'
            yield Issue(
                "hard_stop_min", given, f"less than hard_stop_max, {self.hard_stop_max}", "Are the two reversed?"
            )


class FrameTruth(Section):
    """The real compliance between encoder and tip."""

    stiffness: Stiffness


class EncoderTruth(Section):
    """The real encoder."""

    scale_error: Ratio = NO_RATIO
    noise: NonNegativeLength = NO_LENGTH


class SensorTruth(Section):
    """The real force sensor; what the calibration does not know.

    Noise, drift and offset are given along the pressing axis. ``cross_talk`` is the standard deviation of a relative
    error on every element of the sensor's own matrix, drawn once from the seed; the calibration file does not have it.
    """

    serial_number: str
    capacity: PositiveForce
    gain_error: Ratio = NO_RATIO
    cross_talk: NonNegativeRatio = NO_RATIO
    noise: NonNegativeForce
    drift: ForceRate = Value(0.0, "N/s", "force_rate")
    zero_offset: Force = Value(0.0, "N", "force")
    off_axis: tuple[Length, Length] = (NO_LENGTH, NO_LENGTH)


class DaqTruth(Section):
    """The real data-acquisition device."""

    product: str = "USB-6351"
    serial_number: str
    bits: int = Field(default=16, ge=8, le=32)
    noise: NonNegativeVoltage = Value(0.0, "V", "voltage")
    bridge_noise: NonNegativeBridgeRatio = Value(0.0, "mV/V", "bridge_ratio")


class PronyTerm(Section):
    """One relaxation term: the share ``g`` of the instantaneous force that decays with time constant ``tau``."""

    g: float = Field(gt=0, lt=1)
    tau: Time


class TissueTruth(Section):
    """A specimen's real behaviour.

    Instantaneous force F = reference_force · (δ/reference_depth)^exponent, relaxed by
    G(t) = 1 − Σ g·(1 − exp(−t/tau)); contact never pulls.
    """

    surface_position: Length
    reference_force: PositiveForce
    reference_depth: PositiveLength
    exponent: float = Field(ge=1, le=3)
    prony: tuple[PronyTerm, ...] = Field(default=(), max_length=3)
    hunt_crossley_damping: ReciprocalSpeed = Value(0.0, "s/mm", "reciprocal_speed")
    specimen_force_scatter: NonNegativeRatio = NO_RATIO
    specimen_exponent_scatter: NonNegativeRatio = NO_RATIO
    specimen_surface_scatter: NonNegativeLength = NO_LENGTH
    replicate_force_scatter: NonNegativeRatio = NO_RATIO
    replicate_surface_scatter: NonNegativeLength = NO_LENGTH
    rupture_depth: PositiveLength | None = None
    rupture_drop: Share | None = None

    def comparisons(self) -> Iterator[Issue]:
        total = sum(term.g for term in self.prony)
        if total >= 1:
            yield Issue(
                "prony", f"shares that add up to {total:g}", "less than 1 together", "The tissue would relax to nothing"
            )
        if (self.rupture_depth is None) != (self.rupture_drop is None):
            missing = "rupture_drop" if self.rupture_drop is None else "rupture_depth"
            yield Issue(missing, "nothing", "both rupture_depth and rupture_drop, or neither")


class Fault(Section):
    """Something that goes wrong at a world time. ``parameters`` are the fault's own, see :data:`FAULTS`."""

    name: str
    at: NonNegativeTime
    parameters: dict[str, JsonValue] = Field(default_factory=dict)

    def comparisons(self) -> Iterator[Issue]:
        if self.name not in FAULTS:
            yield Issue("name", f'"{self.name}"', f"one of {', '.join(FAULTS)}", near_miss(self.name, FAULTS))
            return
        yield from fault_parameter_issues(self.name, self.parameters)


class TwinProfile(Profile):
    """What every simulated rig's truth has. ``kind`` is that of the rig; a file without one is an indenter's."""

    schema_id: Literal["bench.twin/1"] = Field(alias="schema")
    name: Name
    kind: str
    description: str = ""
    rig: str
    seed: int = Field(ge=0)
    tick: Time
    daq: DaqTruth
    faults: tuple[Fault, ...] = ()

    def comparisons(self) -> Iterator[Issue]:
        for index, fault in enumerate(self.faults):
            if not befalls(fault.name, self.kind):
                due_here = ", ".join(name for name in FAULTS if befalls(name, self.kind))
                only = FAULTS_OF_ONE.get(fault.name)
                why = f"This fault needs a rig of {'another kind' if only is None else f'kind {only}'}"
                yield Issue(f"faults[{index}].name", f'"{fault.name}"', f"one of {due_here}", why)

    @property
    def specimen_names(self) -> tuple[str, ...]:
        """Names of the specimens this twin knows, the one mounted by default first."""
        return tuple(getattr(self, "specimens", {}))


class IndenterTwin(TwinProfile):
    """The whole truth of one simulated indenter."""

    kind: Literal["indenter"] = "indenter"
    stage: StageTruth
    frame: FrameTruth
    encoder: EncoderTruth = EncoderTruth()
    force_sensor: SensorTruth
    specimens: dict[str, TissueTruth] = Field(min_length=1)
