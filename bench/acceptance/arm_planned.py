"""Are the phases of an arm's run those its procedure makes: their number, how long they last, where the arm was wanted?

A hold-out that was cut short, one that is the other trajectory, crossings of one pose that are named as many: each
gives figures, and they would be those of another run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from bench.acceptance.arm_evidence import ArmEvidence
from bench.profile import (
    ApproachTouchProcedure,
    ArmExcitationProcedure,
    ArmTrackingProcedure,
    PayloadHoldProcedure,
    TrajectoryProfile,
    WrenchCheckProcedure,
    parse_profile,
)
from bench.trajectory import fourier_path

#: A phase lasts as long as its motion within this share, and this much [s].
LASTS_SHARE, LASTS_S = 0.02, 0.05
#: Where the arm was wanted is where the plan wants it, within this much [rad].
PLACE_RAD = 0.02
#: Archived texts of the trajectories, by phase.
TRAJECTORIES = {"train": "trajectory.toml", "hold_out": "hold_out_trajectory.toml"}
SAMPLES = 50


def planned(evidence: ArmEvidence) -> str:
    """Say which phase is not what the archived procedure makes; nothing when all are."""
    return next(_problems(evidence), "")


def _problems(evidence: ArmEvidence) -> Iterator[str]:
    procedure = evidence.facts.procedure
    if isinstance(procedure, ArmExcitationProcedure):
        yield from _numbers(evidence, dict.fromkeys(TRAJECTORIES, procedure.replicates))
        for name in TRAJECTORIES:
            yield from _trajectory(evidence, name)
    elif isinstance(procedure, ArmTrackingProcedure):
        lasts = procedure.travel.to("rad") / procedure.speed.to("rad/s")
        for phase in evidence.run.phases:
            yield from _lasts(phase, lasts)
    elif isinstance(procedure, PayloadHoldProcedure):
        yield from _crossings(evidence, procedure)
    elif isinstance(procedure, WrenchCheckProcedure):
        yield from _numbers(evidence, {"press": procedure.replicates * len(procedure.forces)})
        for phase in _named(evidence, "press"):
            yield from _lasts(phase, procedure.hold_time.to("s"))
    elif isinstance(procedure, ApproachTouchProcedure):
        yield from _numbers(evidence, dict.fromkeys(("without_switch", "with_switch"), procedure.replicates))
        for phase in evidence.run.phases:
            yield from _lasts(phase, procedure.hold_time.to("s"), at_least=True)


def _named(evidence: ArmEvidence, name: str) -> list[Any]:
    return [phase for phase in evidence.run.phases if phase.name == name]


def _numbers(evidence: ArmEvidence, due: dict[str, int]) -> Iterator[str]:
    """Each phase is there as often as the procedure makes it; one that is not there at all is said by who needs it."""
    found = Counter(phase.name for phase in evidence.run.phases)
    for name, number in due.items():
        if found[name] not in (0, number):
            yield (
                f"{found[name]} phases '{name}' are there, and {evidence.facts.procedure.name} makes {number}: the "
                "record is not of this procedure, or not whole"
            )
    for name in due:
        again = Counter((phase.replicate, _sign(phase)) for phase in _named(evidence, name)).most_common(1)
        if again and again[0][1] > 1:
            yield f"phase {name} {again[0][0][0]} is there {again[0][1]} times. Look at how the run was recorded"


def _sign(phase: Any) -> float:
    speed = float(phase.angular_speed_rad_s)
    return float(np.sign(speed)) if np.isfinite(speed) else 0.0


def _lasts(phase: Any, seconds: float, *, at_least: bool = False) -> Iterator[str]:
    found = float(phase.end_s - phase.start_s)
    allowed = LASTS_SHARE * seconds + LASTS_S
    if found < seconds - allowed or (found > seconds + allowed and not at_least):
        yield (
            f"{phase.name} {phase.replicate} lasts {found:.3g} s, and the procedure makes it last {seconds:.3g} s: it "
            "is not the whole phase, or another one"
        )


def _trajectory(evidence: ArmEvidence, name: str) -> Iterator[str]:
    if not _named(evidence, name):
        return
    text = evidence.run.texts.get(TRAJECTORIES[name])
    place = Path(f"{evidence.where}:{TRAJECTORIES[name]}")
    profile = parse_profile(text, place)[0] if text is not None else None
    if not isinstance(profile, TrajectoryProfile):
        yield f"the archive holds no trajectory of '{name}' ({TRAJECTORIES[name]}). Judge a run that the bench recorded"
        return
    series = fourier_path(profile)
    time = evidence.time_s
    wanted = evidence.joints("desired_{}_position", "rad", "angle")
    for phase in _named(evidence, name):
        yield from _lasts(phase, series.duration_s)
        at = np.linspace(phase.start_s, phase.end_s, SAMPLES)
        due = series.sample(np.clip(at - phase.start_s, 0.0, series.duration_s))[0]
        found = np.stack([np.interp(at, time, column) for column in wanted.T], axis=1)
        away = np.max(np.abs(found - due), axis=0) if due.shape == found.shape else np.full(evidence.size, np.inf)
        joint = int(np.argmax(away))
        if away[joint] > PLACE_RAD:
            yield (
                f"{name} {phase.replicate}: joint {evidence.facts.names[joint]} was wanted up to {away[joint]:.3g} rad "
                f"from the trajectory {profile.name} in the archive: it is another motion than the phase is named for"
            )


def _crossings(evidence: ArmEvidence, procedure: PayloadHoldProcedure) -> Iterator[str]:
    number = 2 * procedure.replicates * len(procedure.poses)
    found = len(_named(evidence, "crossing"))
    if found not in (0, number):
        yield f"{found} crossings are there, and {procedure.name} makes {number}: the record is not whole"
    lasts = procedure.crossing_angle.to("rad") / procedure.crossing_speed.to("rad/s")
    time = evidence.time_s
    wanted = evidence.joints("desired_{}_position", "rad", "angle")
    for phase in _named(evidence, "crossing"):
        yield from _lasts(phase, lasts)
        name = f"crossing {phase.replicate}"
        if not 1 <= phase.replicate <= len(procedure.poses):
            yield f"{name} is of no pose of {procedure.name}, which has {len(procedure.poses)}"
            continue
        rows = slice(*np.searchsorted(time, (phase.start_s, phase.end_s)))
        if rows.stop - rows.start < 2:
            continue
        pose = np.array([value.to("rad") for value in procedure.poses[phase.replicate - 1]])
        away = np.abs(wanted[rows].mean(axis=0) - pose)
        joint = int(np.argmax(away))
        if away[joint] > PLACE_RAD:
            yield (
                f"{name}: joint {evidence.facts.names[joint]} crossed {away[joint]:.3g} rad away from the pose of that "
                "number: it is another pose's"
            )
        gone = float(wanted[rows][-1].mean() - wanted[rows][0].mean())
        if gone * phase.angular_speed_rad_s <= 0.0:
            yield f"{name} is said to go {phase.angular_speed_rad_s:+.3g} rad/s and went the other way"
