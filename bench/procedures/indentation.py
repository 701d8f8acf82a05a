"""Press a specimen, hold, release, wait; several times at the press speed, then at the other speeds.

One replicate, in phases as they stand in the archive::

    baseline   the tool stands in free air, at least 1 s
    approach   it moves at the press speed through free air, at least 2 mm, until it touches
    press      the same motion goes on, without a stop, to the depth or to the force
    hold       it stands
    unload     it goes back at the press speed to where it touched (depth 0)
    residual   it stands there for the stated time; the force at the end is the residual force
    retract    it goes back to the start, clear of the specimen

The depth counts from the touch seen while pressing (:mod:`bench.procedures.contact_watch`), not from the nominal
surface, so that a specimen mounted a little deeper is not pressed less. The touch is seen late by what a soft specimen
yields below the noise, so the true depth is a little larger; the analysis has its own contact point.

Times are measured: a motion begins when it was commanded and ends when the encoder came to rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NoReturn

import numpy as np

from bench.errors import LimitError, SafetyAbort
from bench.procedures.contact_watch import SIGMAS, ContactWatch, Touch
from bench.procedures.recording import TARE_S, Recording, View
from bench.profile import ContactSpecimen, IndentationProcedure, IndenterRig
from bench.station import IndenterStation

#: Least free air before the touch [mm] and still baseline [s]: below, no contact point can be told.
LEAST_FREE_AIR_MM = 2.0
LEAST_BASELINE_S = 1.0
#: A zero that moves in free air drifts when its trend stands out of the noise by so many standard errors, and would
#: make such a share of a touch on the way to the specimen.
DRIFT_SIGMAS, DRIFT_SHARE = 8.0, 0.5
#: How long the tool stands after a touch that came too early, to see what the force does [s].
EARLY_S = 1.0
#: Force across the pressing axis as a share of the force along it, and the lever [mm] at which the force passes the
#: sensor's axis: a tilted surface makes some per cent, a tool that is not in the middle a millimetre.
SIDE_SHARE, LONGEST_LEVER_MM = 0.25, 10.0
#: They are judged of forces above so many times the noise, as means of so many samples.
SIDE_SIGMAS, SIDE_SAMPLES = 20.0, 20
#: How much nearer than its nominal position a specimen's surface may be and still leave the free air asked for [mm].
SURFACE_TOLERANCE_MM = 1.0
#: Times a motion costs beside its way: starting, stopping, the block in which its end is seen [s].
OVERHEAD_S = 0.5


@dataclass(frozen=True)
class Replicate:
    number: int
    speed_mm_s: float


@dataclass(frozen=True)
class Plan:
    """An indentation in plain numbers: mm, mm/s, s, N. Exactly one of ``depth_mm`` and ``force_n`` is set."""

    start_mm: float
    surface_mm: float
    deepest_mm: float
    depth_mm: float | None
    force_n: float | None
    approach_speed_mm_s: float
    unload_speed_mm_s: float
    baseline_s: float
    hold_s: float
    residual_s: float
    settle_s: float
    replicates: tuple[Replicate, ...]

    @property
    def duration_s(self) -> float:
        """How long the run takes when the touch comes at the nominal surface [s]."""
        depth = self.depth_mm if self.depth_mm is not None else self.deepest_mm - self.surface_mm
        way = self.surface_mm - self.start_mm
        total = TARE_S + self.start_mm / self.approach_speed_mm_s + OVERHEAD_S
        for replicate in self.replicates:
            total += self.baseline_s + self.hold_s + self.residual_s + self.settle_s + 3 * OVERHEAD_S
            total += (way + depth) / replicate.speed_mm_s
            total += depth / self.unload_speed_mm_s + way / self.approach_speed_mm_s
        return total


def plan(rig: IndenterRig, procedure: IndentationProcedure, specimen: ContactSpecimen) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    LimitError
        The way does not fit the rig's travel, a speed its limit, the depth or force the specimen's.
    """
    press = procedure.press_speed.to("mm/s")
    speeds = [press] * procedure.replicates
    for speed in procedure.second_speeds:
        speeds += [speed.to("mm/s")] * procedure.second_replicates
    surface = specimen.surface_position.to("mm")
    acceleration = rig.stage.acceleration.to("mm/s2")
    # The free air counts at full speed: the way to get there comes on top, and what the mounting may be off.
    start = surface - procedure.free_air.to("mm") - max(speeds) ** 2 / (2 * acceleration) - SURFACE_TOLERANCE_MM
    made = Plan(
        start_mm=start,
        surface_mm=surface,
        deepest_mm=surface + specimen.max_indentation.to("mm"),
        depth_mm=None if procedure.depth is None else procedure.depth.to("mm"),
        force_n=None if procedure.force is None else procedure.force.to("N"),
        approach_speed_mm_s=procedure.approach_speed.to("mm/s"),
        unload_speed_mm_s=press,
        baseline_s=procedure.baseline_time.to("s"),
        hold_s=procedure.hold_time.to("s"),
        residual_s=procedure.residual_time.to("s"),
        settle_s=procedure.settle.to("s"),
        replicates=tuple(Replicate(number, speed) for number, speed in enumerate(speeds, start=1)),
    )
    where = f"procedure {procedure.name} on specimen {specimen.name}"
    low, high = rig.safety.travel_limit_min.to("mm"), rig.safety.travel_limit_max.to("mm")
    if not low <= made.start_mm < made.deepest_mm <= high:
        raise LimitError(
            f"the way from {made.start_mm:g} to {made.deepest_mm:g} mm does not fit the travel {low:g} … {high:g} mm",
            reason="travel_limit",
            where=where,
            remedy="Correct the specimen's surface_position or max_indentation, or the free air asked for.",
        )
    if made.depth_mm is not None and made.surface_mm + made.depth_mm > made.deepest_mm:
        raise LimitError(
            f"a depth of {made.depth_mm:g} mm is more than the specimen's {specimen.max_indentation}",
            reason="travel_limit",
            where=where,
            remedy="Press less deep.",
        )
    bears = min(specimen.max_force.to("N"), rig.safety.force_limit.to("N"))
    if made.force_n is not None and made.force_n >= bears:
        raise LimitError(
            f"a force of {made.force_n:g} N is not below what rig and specimen bear, {bears:g} N",
            reason="force_limit",
            where=where,
            remedy="Press with less force.",
        )
    check_speeds(rig, {"press": max(speeds), "approach": made.approach_speed_mm_s}, where)
    return made


def check_speeds(rig: IndenterRig, speeds_mm_s: dict[str, float], where: str) -> None:
    """Raise :class:`LimitError` when a speed is above the rig's limit, or ``approach`` above that for approaching."""
    limits = {"speed": rig.safety.speed_limit.to("mm/s")}
    if rig.safety.approach_speed_limit is not None:
        limits["approach"] = rig.safety.approach_speed_limit.to("mm/s")
    for name, speed in speeds_mm_s.items():
        allowed = limits.get(name, limits["speed"])
        if speed > allowed:
            raise LimitError(
                f"the {name} speed of {speed:g} mm/s is above the rig's {allowed:g} mm/s",
                reason="speed_limit",
                where=where,
                remedy="Move more slowly.",
            )


def run(station: IndenterStation, recording: Recording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    # The controller stops at these positions by itself, whatever becomes of this program.
    station.stage.arm_travel_limits(min(plan.start_mm, station.stage.position_mm()), plan.deepest_mm)
    recording.text = "moving to the start"
    recording.move(plan.start_mm, plan.approach_speed_mm_s)
    for replicate in plan.replicates:
        _replicate(recording, plan, replicate)
        if replicate is not plan.replicates[-1]:
            recording.text = "letting the specimen recover"
            recording.still(plan.settle_s, clear=True)


def _replicate(recording: Recording, plan: Plan, replicate: Replicate) -> None:
    number, speed = replicate.number, replicate.speed_mm_s
    label = f"replicate {number} of {len(plan.replicates)} at {speed:g} mm/s"

    recording.text = f"{label}: baseline"
    baseline = recording.still(plan.baseline_s)
    baseline_end_s = recording.time_s
    recording.phase("baseline", number, 0.0, float(baseline.time_s[0]), baseline_end_s)
    _check_baseline(baseline_end_s - float(baseline.time_s[0]))
    _check_zero(baseline, (plan.surface_mm - plan.start_mm) / speed)

    recording.text = f"{label}: pressing"
    press = _Press(recording, plan, baseline, speed)
    motion = recording.move(press.first_target_mm, speed, steer=press.steer)
    touch = press.touch
    if press.early:
        _explain(recording, press)
    if touch is None:
        recording.phase("approach", number, speed, motion.start_s, motion.end_s)
        raise SafetyAbort(
            f"no contact down to {motion.position_mm:.3f} mm, {motion.position_mm - plan.surface_mm:.3f} mm beyond the "
            f"nominal surface (threshold {press.contact.threshold_n * 1e3:.1f} mN)",
            reason="no_contact",
            where=label,
            remedy="Check that the specimen is mounted, its surface_position, and that the force sensor is alive.",
        )
    recording.phase("approach", number, speed, motion.start_s, touch.time_s)
    recording.phase("press", number, speed, touch.time_s, motion.end_s)
    recording.event(
        "info",
        f"press_ended_by_{press.ended_by}",
        f"{label}: depth {motion.position_mm - touch.position_mm:.3f} mm, "
        f"force {float(motion.view.force_n[-1]) - press.contact.zero_n:.4f} N, "
        f"touch at {touch.position_mm:.3f} mm",
    )

    _check_side_load(motion.view, press.contact, label)
    recording.text = f"{label}: holding"
    recording.still(plan.hold_s, since_s=motion.end_s)
    recording.text = f"{label}: unloading"
    unload = recording.move(touch.position_mm, plan.unload_speed_mm_s)
    recording.phase("hold", number, 0.0, motion.end_s, unload.start_s)
    recording.phase("unload", number, plan.unload_speed_mm_s, unload.start_s, unload.end_s)

    recording.text = f"{label}: waiting for the residual"
    residual = recording.still(plan.residual_s, since_s=unload.end_s)
    retract_label = f"{label}: retracting"
    recording.text = retract_label
    retract = recording.move(plan.start_mm, plan.approach_speed_mm_s)
    recording.phase("residual", number, 0.0, unload.end_s, retract.start_s)
    recording.phase("retract", number, plan.approach_speed_mm_s, retract.start_s, retract.end_s)
    last = residual.force_n[-max(1, len(residual.force_n) // 10) :]
    recording.event("info", "residual", f"{label}: {float(last.mean()) - press.contact.zero_n:.4f} N at depth 0")


class _Press:
    """Steers one press: looks for the touch, then aims at the depth or waits for the force."""

    def __init__(self, recording: Recording, plan: Plan, baseline: View, speed_mm_s: float) -> None:
        self.contact = ContactWatch(baseline.force_n, recording.rate_hz, floor_n=1e-4 * recording.watch.limits.force_n)
        self.ended_by = "depth" if plan.depth_mm is not None else "travel"
        self.first_target_mm = plan.deepest_mm if plan.depth_mm is None else plan.surface_mm + plan.depth_mm
        self._recording = recording
        self._plan = plan
        self._speed = speed_mm_s
        self._start_mm = float(baseline.position_mm.mean())
        self._last: tuple[float, float] | None = None
        self._aimed = False
        self.early = 0.0
        """Free air before a touch that came too early [mm]."""

    @property
    def touch(self) -> Touch | None:
        return self.contact.touch

    def steer(self, view: View) -> float | None:
        seen = self.contact.touch is not None
        touch = self.contact.feed(view.time_s, view.position_mm, view.force_n)
        if touch is None:
            return None
        if not seen:
            free_air = touch.position_mm - self._start_mm
            if free_air < LEAST_FREE_AIR_MM:
                self.early = max(free_air, 1e-6)
                return math.nan
            if self._plan.depth_mm is not None:
                return touch.position_mm + self._plan.depth_mm
        if self._plan.force_n is not None:
            return self._towards_force(view)
        return None

    def _towards_force(self, view: View) -> float | None:
        """Aim at the position where the force will be reached, once that lies within the next block."""
        target = self._plan.force_n or 0.0
        tail = max(1, len(view.force_n) // 10)
        now = float(view.force_n[-tail:].mean()) - self.contact.zero_n
        position = float(view.position_mm[-tail:].mean())
        last, self._last = self._last, (position, now)
        if now >= target:
            self.ended_by = "force"
            return math.nan
        if self._aimed or last is None or position <= last[0] or now <= last[1]:
            return None
        ahead = (target - now) * (position - last[0]) / (now - last[1])
        if ahead > self._speed * len(view.time_s) / self._recording.rate_hz:
            return None
        self._aimed = True
        self.ended_by = "force"
        return min(position + ahead, self._plan.deepest_mm)


def _trend(view: View) -> tuple[float, float, float]:
    """Return the slope of the force over time [N/s], its standard error and the noise about it [N]."""
    time, n = view.time_s - view.time_s.mean(), len(view.time_s)
    spread = float(time @ time)
    slope = float(time @ view.force_n) / spread
    noise = float((view.force_n - view.force_n.mean() - slope * time).std(ddof=2)) if n > 2 else 0.0
    return slope, noise / math.sqrt(spread), noise


def _check_zero(baseline: View, approach_s: float) -> None:
    """Refuse to press with a zero that runs away: the touch would be seen where there is none."""
    slope, error, noise = _trend(baseline)
    if abs(slope) > DRIFT_SIGMAS * error and abs(slope) * approach_s > DRIFT_SHARE * SIGMAS * noise:
        raise _drifts(slope, "while the tool stands in free air")


def _explain(recording: Recording, press: _Press) -> NoReturn:
    """Say why the force rose too early: a zero that runs away goes on while the tool stands, a specimen relaxes."""
    slope, error, _ = _trend(recording.still(EARLY_S))
    if slope > DRIFT_SIGMAS * error:
        raise _drifts(slope, f"while the tool stands, {press.early:.2f} mm after it set out")
    raise SafetyAbort(
        f"contact after {press.early:.2f} mm of free air, {LEAST_FREE_AIR_MM:g} mm are needed",
        reason="baseline_too_short",
        where="approach",
        remedy="Correct the specimen's surface_position, or ask for more free_air.",
    )


def _drifts(slope: float, when: str) -> SafetyAbort:
    return SafetyAbort(
        f"the force zero drifts: the force changes by {slope * 1e3:.3g} mN/s {when}",
        reason="zero_drifts",
        where="force sensor",
        remedy="Let the sensor warm up, look at its mounting and cable, and measure again.",
    )


def _check_side_load(view: View, contact: ContactWatch, label: str) -> None:
    """End a run whose sensor reads a side force or a moment that no press makes."""
    peak = int(np.argmax(view.force_n))
    near = slice(max(0, peak - SIDE_SAMPLES // 2), peak + SIDE_SAMPLES // 2)
    along = float(view.force_n[near].mean()) - contact.zero_n
    across, moment = float(view.side_n[near].mean()), float(view.moment_nm[near].mean())
    lever = 1e3 * moment / max(along, 1e-9)
    least = SIDE_SIGMAS * contact.noise_n
    sideways = across > max(SIDE_SHARE * along, least)
    if not sideways and not (along > least and lever > LONGEST_LEVER_MM):
        return
    raise SafetyAbort(
        f"the force sensor reads {along:.3g} N along the pressing axis, "
        + (f"{across:.3g} N across it" if sideways else f"and a moment as if they passed it {lever:.3g} mm away"),
        reason="side_load",
        where=label,
        remedy="Look whether the calibration file is this sensor's, for gauges that are swapped or inverted, and for a "
        "tilted specimen or a tool out of the middle.",
    )


def _check_baseline(seconds: float) -> None:
    if seconds < LEAST_BASELINE_S * (1 - 1e-9):
        raise SafetyAbort(
            f"a still baseline of {seconds:.3f} s, {LEAST_BASELINE_S:g} s are needed",
            reason="baseline_too_short",
            where="baseline",
            remedy="Ask for a longer baseline_time.",
        )
