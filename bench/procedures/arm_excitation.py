"""Excite links, motors and friction of an arm: one trajectory to identify on, another one to be judged by.

Phases: ``train``, ``hold_out``, one per replicate, over the whole of each trajectory. Before them every joint is moved
by itself (:mod:`bench.procedures.arm_wiring`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from bench.errors import LimitError
from bench.models.fourier_path import FourierPath
from bench.procedures import arm_plan, arm_wiring
from bench.procedures.arm_motion import Standing
from bench.procedures.arm_mover import ArmMover
from bench.procedures.arm_plan import ArmControl
from bench.profile import ArmFeedForward, ArmRig, SpecimenProfile, find_profile, load_trajectory
from bench.profile.procedure_arm import ArmExcitationProcedure
from bench.trajectory import fourier_path

if TYPE_CHECKING:
    from bench.procedures.arm_loop import ArmRecording
    from bench.profile import TrajectoryProfile
    from bench.station_arm import ArmStation


#: Two series that are never farther apart than this [rad], in periods alike by this share, are one.
SAME_RAD = 1e-3


class ArchivedTexts:
    """Files a plan was made of, for the archive, by name."""

    def __init__(self, **texts: str) -> None:
        self.texts = texts

    def __str__(self) -> str:
        return ", ".join(self.texts)

    def __deepcopy__(self, memo: object) -> ArchivedTexts:
        return self


@dataclass(frozen=True)
class Plan(arm_plan.LegPlan):
    """Two trajectories in plain numbers."""

    control: ArmControl
    train: FourierPath
    hold_out: FourierPath
    replicates: int
    files: ArchivedTexts
    rig: str
    specimen: SpecimenProfile

    def legs(self) -> list[arm_plan.Leg]:
        """Return every motion of the run."""
        control, found = self.control, list[arm_plan.Leg]()
        place = control.start
        for number in range(1, self.replicates + 1):
            for name, series in (("train", self.train), ("hold_out", self.hold_out)):
                label = f"{name.replace('_', '-')} trajectory {number} of {self.replicates}"
                found.append((control.move(place, series.start), f"{label}: moving to its start", False))
                found.append((Standing(series.start, control.baseline_s), f"{label}: standing", False))
                found.append((series, label, False))
                place = tuple(series.start.tolist())
        found.append((control.move(place, control.start), "moving back to the start", False))
        return found

    @property
    def texts(self) -> dict[str, str]:
        """Files to be archived beside the profiles, by name."""
        return {f"{name}.toml": text for name, text in self.files.texts.items()}


def plan(
    rig: ArmRig,
    procedure: ArmExcitationProcedure,
    specimen: SpecimenProfile,
    feedforward: ArmFeedForward | None = None,
) -> Plan:
    """Return the plan, or refuse it before anything moves.

    Raises
    ------
    ProfileError
        There is no such trajectory file, or it is not valid.
    LimitError
        ``other_arm``: a trajectory is of an arm with other joints; ``repeat``: both are the same; a pose is
        not this arm's.
    """
    where = arm_plan.place(procedure, specimen)
    control = arm_plan.control_of(rig, procedure, specimen, feedforward, where)
    files = [_trajectory(rig, procedure, name, where) for name in (procedure.trajectory, procedure.hold_out)]
    train, hold_out = (fourier_path(file) for file in files)
    if _same(train, hold_out):
        raise LimitError(
            f"trajectory ({files[0].name}) and hold_out ({files[1].name}) are one series under two names",
            reason="repeat",
            where=where,
            remedy="Hold out another trajectory: a repeat predicts itself",
        )
    texts = ArchivedTexts(trajectory=files[0].source.text, hold_out_trajectory=files[1].source.text)
    return Plan(control, train, hold_out, procedure.replicates, texts, rig.name, specimen)


def _same(one: FourierPath, other: FourierPath) -> bool:
    """Whether both go through the same places at the same times."""
    if one.size != other.size or abs(one.period_s - other.period_s) > SAME_RAD * one.period_s:
        return False
    time = np.linspace(0.0, one.period_s, 101)
    return float(np.abs(one.sample(time)[0] - other.sample(time)[0]).max()) < SAME_RAD


def _trajectory(rig: ArmRig, procedure: ArmExcitationProcedure, name: str, where: str) -> TrajectoryProfile:
    """Load a trajectory by path, else by name: beside the procedure's folder, else where profiles lie."""
    beside = procedure.source.path.parent
    near = [beside / name, beside.parent / "trajectories" / f"{name}.toml"]
    path = next((path for path in (Path(name), *near) if path.suffix == ".toml" and path.is_file()), None)
    found = load_trajectory(find_profile("trajectories", name) if path is None else path)
    ours, theirs = [joint.name for joint in rig.arm.joints], [joint.name for joint in found.joints]
    if ours != theirs:
        raise LimitError(
            f"the trajectory {found.name} moves the joints {', '.join(theirs)}; the arm has {', '.join(ours)}",
            reason="other_arm",
            where=where,
            remedy="Take a trajectory of this arm, or design one: bench design",
        )
    return found


def run(station: ArmStation, recording: ArmRecording, plan: Plan) -> None:
    """Carry the plan out on a started recording."""
    mover = ArmMover(recording, plan.control)
    mover.begin()
    arm_wiring.check_joints(mover, station.rig, plan.specimen)
    for number in range(1, plan.replicates + 1):
        for name, series in (("train", plan.train), ("hold_out", plan.hold_out)):
            label = f"{name.replace('_', '-')} trajectory {number} of {plan.replicates}"
            mover.move(series.start, f"{label}: moving to its start")
            mover.hold(plan.control.baseline_s, f"{label}: standing")
            done = mover.follow(series, label)
            recording.phase(name, number, math.nan, done.start_s, done.end_s)
    mover.park()
