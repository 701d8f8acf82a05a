"""Press a rigid plate in steps of force, up and down again, to see how much the frame yields.

Phases of each replicate: ``baseline``, ``approach`` (until the touch), ``press`` (up to the highest force, in steps),
``unload`` (down again through the same positions), ``retract``; and inside press and unload, where it stands,
``dwell_up`` and ``dwell_down``. The stiffness is estimated from the dwells by
:func:`bench.identify.plate.estimate_frame_stiffness`; both directions are there so that play and friction show as a
difference between them.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.errors import LimitError, SafetyAbort
from bench.procedures.contact_watch import ContactWatch
from bench.procedures.indentation import LEAST_FREE_AIR_MM, OVERHEAD_S, SURFACE_TOLERANCE_MM, check_speeds
from bench.procedures.recording import TARE_S, Recording, View
from bench.profile import ContactSpecimen, FrameStiffnessProcedure, IndenterRig
from bench.station import IndenterStation


@dataclass(frozen=True)
class Plan:
    """A frame-stiffness run in plain numbers: mm, mm/s, s, N, N/mm."""

    start_mm: float
    surface_mm: float
    deepest_mm: float
    approach_speed_mm_s: float
    speed_mm_s: float
    baseline_s: float
    dwell_s: float
    forces_n: tuple[float, ...]
    expected_stiffness_n_mm: float
    replicates: int

    @property
    def duration_s(self) -> float:
        """How long the run should take [s]."""
        steps = 2 * len(self.forces_n)
        press = self.forces_n[-1] / self.expected_stiffness_n_mm
        way = (self.deepest_mm - self.start_mm) / self.speed_mm_s
        one = self.baseline_s + way + steps * (self.dwell_s + OVERHEAD_S) + 2 * press / self.speed_mm_s
        one += 2 * (self.start_mm - self.start_mm) / self.approach_speed_mm_s + 3 * OVERHEAD_S
        return TARE_S + self.start_mm / self.approach_speed_mm_s + self.replicates * one


def plan(rig: IndenterRig, procedure: FrameStiffnessProcedure, specimen: ContactSpecimen) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        The specimen is not a rigid plate, or travel, speed or force do not fit the limits.
    """
    where = f"procedure {procedure.name} on specimen {specimen.name}"
    if specimen.kind != "plate":
        raise LimitError(
            f"the specimen is a {specimen.kind}, the frame shows only against a rigid plate",
            reason="wrong_specimen",
            where=where,
            remedy='Mount the plate and name its profile (kind = "plate").',
        )
    surface = specimen.surface_position.to("mm")
    free_air = procedure.free_air.to("mm")
    speed = procedure.speed.to("mm/s")
    top = procedure.max_force.to("N")
    made = Plan(
        start_mm=surface - free_air - SURFACE_TOLERANCE_MM,
        surface_mm=surface,
        deepest_mm=surface + specimen.max_indentation.to("mm"),
        approach_speed_mm_s=procedure.approach_speed.to("mm/s"),
        speed_mm_s=speed,
        baseline_s=procedure.baseline_time.to("s"),
        dwell_s=procedure.dwell.to("s"),
        forces_n=tuple(top * (k + 1) / procedure.force_steps for k in range(procedure.force_steps)),
        expected_stiffness_n_mm=rig.frame.stiffness.to("N/mm"),
        replicates=procedure.replicates,
    )
    low, high = rig.safety.travel_limit_min.to("mm"), rig.safety.travel_limit_max.to("mm")
    if not low <= made.start_mm < made.deepest_mm <= high:
        raise LimitError(
            f"the way from {made.start_mm:g} to {made.deepest_mm:g} mm does not fit the travel {low:g} … {high:g} mm",
            reason="travel_limit",
            where=where,
            remedy="Correct the plate's surface_position or max_indentation.",
        )
    check_speeds(rig, {"step": speed, "approach": made.approach_speed_mm_s}, where)
    bears = min(specimen.max_force.to("N"), rig.safety.force_limit.to("N"))
    if top >= bears:
        raise LimitError(
            f"a force of {top:g} N is not below what rig and plate bear, {bears:g} N",
            reason="force_limit",
            where=where,
            remedy="Press with less force.",
        )
    return made


def run(station: IndenterStation, recording: Recording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    station.stage.arm_travel_limits(min(plan.start_mm, station.stage.position_mm()), plan.deepest_mm)
    recording.text = "moving to the start"
    recording.move(plan.start_mm, plan.approach_speed_mm_s)
    for number in range(1, plan.replicates + 1):
        _replicate(station, recording, plan, number)


def _replicate(station: IndenterStation, recording: Recording, plan: Plan, number: int) -> None:
    label = f"replicate {number} of {plan.replicates}"
    recording.text = f"{label}: baseline"
    baseline = recording.still(plan.baseline_s)
    recording.phase("baseline", number, 0.0, float(baseline.time_s[0]), recording.time_s)
    contact = ContactWatch(baseline.force_n, recording.rate_hz, floor_n=1e-4 * recording.watch.limits.force_n)

    def until_touch(view: View) -> float | None:
        return None if contact.feed(view.time_s, view.position_mm, view.force_n) is None else float("nan")

    recording.text = f"{label}: approaching the plate"
    approach = recording.move(plan.deepest_mm, plan.speed_mm_s, steer=until_touch)
    recording.phase("approach", number, plan.speed_mm_s, approach.start_s, approach.end_s)
    if contact.touch is None:
        raise SafetyAbort(
            f"no contact down to {approach.position_mm:.3f} mm",
            reason="no_contact",
            where=label,
            remedy="Check that the plate is mounted, its surface_position, and that the force sensor is alive.",
        )
    free_air = contact.touch.position_mm - float(baseline.position_mm.mean())
    if free_air < LEAST_FREE_AIR_MM:
        raise SafetyAbort(
            f"contact after {free_air:.2f} mm of free air, {LEAST_FREE_AIR_MM:g} mm are needed",
            reason="baseline_too_short",
            where=label,
            remedy="Correct the plate's surface_position, or ask for more free_air.",
        )
    # Steps are microns: they are commanded in the stage's own coordinates, which differ from the encoder's by as much.
    position_mm = station.stage.position_mm()
    stops = _up(recording, plan, number, contact, position_mm)
    top_s = recording.time_s
    recording.phase("press", number, plan.speed_mm_s, approach.end_s, top_s)
    touch_mm = contact.touch.position_mm + position_mm - approach.position_mm
    for position in [*reversed(stops[:-1]), touch_mm]:
        recording.text = f"{label}: down to {position:.3f} mm"
        _step(recording, plan, number, "down", position)
    recording.phase("unload", number, plan.speed_mm_s, top_s, recording.time_s)
    recording.text = f"{label}: retracting"
    retract = recording.move(plan.start_mm, plan.approach_speed_mm_s)
    recording.phase("retract", number, plan.approach_speed_mm_s, retract.start_s, retract.end_s)


def _up(recording: Recording, plan: Plan, number: int, contact: ContactWatch, position_mm: float) -> list[float]:
    """Step to each force; return the positions of the dwells [mm]."""
    stops: list[float] = []
    stiffness = plan.expected_stiffness_n_mm
    last = recording.block()
    force = float(last.force_n.mean()) - contact.zero_n
    for target in plan.forces_n:
        if target <= force:
            continue
        recording.text = f"replicate {number}: up to {target:g} N"
        wanted = position_mm + (target - force) / stiffness
        wanted = min(wanted, plan.deepest_mm)
        view = _step(recording, plan, number, "up", wanted)
        reached = float(view.force_n.mean()) - contact.zero_n
        # A frame stiffer than the profile says shows in the first step; believe it, or the last step overshoots.
        if wanted > position_mm and reached > force:
            stiffness = max(stiffness, (reached - force) / (wanted - position_mm))
        position_mm, force = wanted, reached
        stops.append(position_mm)
    return stops


def _step(recording: Recording, plan: Plan, number: int, direction: str, position_mm: float) -> View:
    recording.move(position_mm, plan.speed_mm_s)
    dwell = recording.still(plan.dwell_s)
    recording.phase(f"dwell_{direction}", number, 0.0, float(dwell.time_s[0]), recording.time_s)
    return dwell
