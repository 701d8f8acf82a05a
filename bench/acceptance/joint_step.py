"""Step responses of a joint that renders an impedance, against what inertia, damping and stiffness predict."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.acceptance.joint_evidence import Floats, JointEvidence, Stretch
from bench.acceptance.joint_gates import check_stretch
from bench.acceptance.joint_scatter import Values, with_scatter
from bench.acceptance.measured import ALIGNMENT, ENCODER, Measured
from bench.errors import ArchiveError, Refused
from bench.models.impedance import Impedance
from bench.profile import ImpedanceStepProcedure, JointCriterion

#: What the joint has to go must be the step commanded within this share: else it did not start from rest at its goal.
START_SHARE = 0.25
#: The joint counts as at rest before a step when it moves by less than this share of the step within REST_S.
REST_SHARE, REST_S = 0.01, 0.05
#: The last part of the record that the steady state is read from.
TAIL_SHARE = 0.1


@dataclass(frozen=True)
class Step:
    """A step response: time since the step [s], what is left of the way as a share of it, and their uncertainties.

    ``way`` is what the joint has to go [rad], ``share_uncertainty`` that of a reading as a share of the way [1].
    """

    stretch: Stretch
    time_s: Floats
    left: Floats
    way: float
    calibration: float
    noise: float
    time_uncertainty_s: float

    @property
    def overshoot(self) -> float:
        """How far the joint passes its goal, as a share of the way [1]; zero when it does not."""
        return max(float(-self.left.min()), 0.0)

    def settling_time(self, band: float) -> float:
        """Time [s] after which the joint stays within ``band`` of its goal; that of the record when it does not."""
        outside = np.flatnonzero(np.abs(self.left) > band)
        if not outside.size:
            return 0.0
        last = int(outside[-1])
        if last + 1 >= len(self.left):
            return float(self.time_s[-1])
        before, after = abs(float(self.left[last])), abs(float(self.left[last + 1]))
        share = (before - band) / (before - after)
        return float(self.time_s[last] + share * (self.time_s[last + 1] - self.time_s[last]))

    @property
    def tail(self) -> Floats:
        """What is left of the way over the last part of the record."""
        return self.left[-max(2, int(TAIL_SHARE * len(self.left))) :]

    def settled(self, band: float) -> bool:
        """Whether the joint stays within ``band`` at least over the last part of the record."""
        return bool(np.all(np.abs(self.tail) <= band))


def _procedure(evidence: JointEvidence) -> ImpedanceStepProcedure:
    procedure = evidence.facts.procedure
    if not isinstance(procedure, ImpedanceStepProcedure):
        raise ArchiveError(
            f"the archived procedure {procedure.name} states no inertia, damping and stiffness to predict from",
            where=evidence.where,
            remedy="Judge a run of impedance_step",
        )
    return procedure


def impedance(evidence: JointEvidence) -> Impedance:
    """The impedance that the archived procedure asked for."""
    procedure = _procedure(evidence)
    return Impedance(
        procedure.inertia.to("kg.m2"), procedure.damping.to("N.m.s/rad"), procedure.stiffness.to("N.m/rad")
    )


def steps(evidence: JointEvidence, criterion: JointCriterion) -> list[Step]:
    """The responses of a run, in both directions.

    Raises
    ------
    Refused
        ``no_segment``; ``one_direction``; ``not_at_rest`` or ``start``: what was stepped is not what was commanded.
    """
    found = [_step(evidence, stretch) for stretch in evidence.stretches(criterion.segment)]
    if len({step.stretch.direction for step in found}) < 2:
        raise Refused(
            "steps in one direction only", reason="one_direction", where=evidence.where, remedy="Step both ways"
        )
    return found


def _step(evidence: JointEvidence, stretch: Stretch) -> Step:
    check_stretch(evidence, stretch, compensated=None)
    commanded = _procedure(evidence).step.to("rad")
    before = evidence.before(stretch, REST_S)
    if not len(before) or float(np.ptp(before)) > REST_SHARE * commanded:
        raise Refused(
            "the joint was not seen at rest before it was stepped",
            reason="not_at_rest",
            where=stretch.name,
            remedy="Wait for longer between steps",
        )
    way = stretch.goal - float(before.mean())
    if abs(abs(way) - commanded) > START_SHARE * commanded:
        raise Refused(
            f"the joint had {abs(way):.3g} rad to go, and the step commanded is {commanded:.3g} rad",
            reason="start",
            where=stretch.name,
            remedy="Let the joint come to rest at its goal before each step",
        )
    time = stretch.time_s - stretch.first_row_s
    after = int(np.searchsorted(time, 0.0))
    encoder = evidence.facts.encoder
    noise = max(_reading_noise(stretch.joint_angle), evidence.facts.resolution_rad)
    # The goal is reached by commands that are held for a tick: the step lies somewhere in it.
    tick = evidence.period_s / math.sqrt(12.0)
    return Step(
        stretch,
        time[after:],
        (stretch.goal - stretch.joint_angle[after:]) / way,
        way,
        encoder.standard_uncertainty(abs(way)) / abs(way),
        noise / abs(way),
        math.hypot(evidence.row_uncertainty_s, tick),
    )


def _reading_noise(angle: Floats) -> float:
    """Standard deviation of white noise of a reading [rad], from second differences (a motion has next to none)."""
    second = np.diff(angle, 2)
    return 1.4826 * float(np.median(np.abs(second - np.median(second)))) / math.sqrt(6.0)


def overshoot_deviation(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """Measured less predicted overshoot, both a share of the way [1]: points, when read in per cent."""
    predicted = impedance(evidence).overshoot
    found = []
    for step in steps(evidence, criterion):
        budget = {ENCODER: step.calibration, "encoder noise": 2.0 * step.noise}
        found.append(
            (step.stretch, Measured(step.overshoot - predicted, predicted, step.overshoot, budget))
        )  # fmt: skip
    return with_scatter(found)


def settling_time_deviation(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """Measured less predicted settling time [s] into the band of the analysis.

    A joint that is still outside at the end of the record has settled at its end at the earliest: a lower bound, which
    can fail and cannot pass. Settling times jump where an extreme just leaves the band, so the uncertainty of a reading
    enters by moving the band by it.

    Raises
    ------
    Refused
        ``too_short``: the joint had not settled, and the record ends too early to tell that it is late.
    """
    band = evidence.analysis.settle_band.to("1")
    predicted = impedance(evidence).settling_time(band)
    found = []
    for step in steps(evidence, criterion):
        time = step.settling_time(band)
        if not step.settled(band):
            time = float(step.time_s[-1])
            _lower_bound_tells(step, time - predicted, criterion)
        moved = math.hypot(step.calibration, step.noise)
        reach = [step.settling_time(band - moved), step.settling_time(band + moved)]
        budget = {ENCODER: max(abs(other - time) for other in reach), ALIGNMENT: step.time_uncertainty_s}
        found.append((step.stretch, Measured(time - predicted, predicted, time, budget)))
    return with_scatter(found)


def _lower_bound_tells(step: Step, late_s: float, criterion: JointCriterion) -> None:
    if late_s < criterion.limit.to("s"):
        raise Refused(
            f"the joint had not settled when the record ended, {late_s:.2g} s after it should have: too early to tell "
            f"whether it is late by {criterion.limit}",
            reason="too_short",
            where=step.stretch.name,
            remedy="Record for longer after each step",
        )


def steady_state_error(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """What is left of the way at the end of the record, as a share of it [1]."""
    found = []
    for step in steps(evidence, criterion):
        value = float(step.tail.mean())
        found.append(
            (step.stretch, Measured(value, 0.0, value, {ENCODER: step.calibration, "encoder noise": step.noise}))
        )
    return with_scatter(found)
