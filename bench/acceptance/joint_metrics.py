"""The metrics a criterion for a joint may name, each a function of the archive and the criterion.

A metric answers with one value per stretch, its budget beside it. A new one is a function here or in the modules
imported here, one line in :data:`JOINT_METRICS`, and its kind in :data:`bench.profile.criteria_joint.JOINT_METRICS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from bench.acceptance.joint_evidence import Floats, JointEvidence, Stretch, white_noise
from bench.acceptance.joint_gates import SPEED_SHARE, check_drift, check_motion, check_range, check_stretch, zero_drift
from bench.acceptance.joint_hold_out import hold_out_against_baseline, hold_out_relative_error, hold_out_rms
from bench.acceptance.joint_scatter import Values, with_scatter
from bench.acceptance.joint_step import overshoot_deviation, settling_time_deviation, steady_state_error
from bench.acceptance.measured import ALIGNMENT, DAQ, TRANSDUCER, ZERO_DRIFT, Measured
from bench.errors import Refused
from bench.models.friction import tip_force as force_at_tip
from bench.profile import JointCriterion

#: Standard uncertainty of the drive's torque constant as a share, where no feed-forward file states it.
TORQUE_CONSTANT = 0.02


@dataclass(frozen=True)
class JointMetric:
    """How a metric is found; ``base_unit`` is what ``function(evidence, criterion)`` answers in."""

    function: Callable[[JointEvidence, JointCriterion], Values]
    base_unit: str


def residual_torque(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """Largest |wanted - measured| torque at the output [N.m] in the evaluation band, per stretch.

    The maximum, not a percentile: what noise adds to it stays in the value, on the safe side.
    """
    stretches = tracked(evidence, criterion)
    errors = [in_band(evidence, s, s.wanted - s.torque) for s in stretches]
    drift = _common_drift(evidence, stretches, errors)
    check_drift(drift, evidence, "since its tare, at the rate seen between replicates")
    found = []
    for stretch, error in zip(stretches, errors, strict=True):
        check_range(evidence, stretch)
        peak = float(np.max(np.abs(stretch.torque)))
        slope = np.gradient(in_band(evidence, stretch, stretch.wanted)) / _step_s(evidence)
        budget = {
            "torque noise": white_noise(stretch.torque, evidence.band, stretch.rate_hz),
            TRANSDUCER: evidence.facts.transducer.standard_uncertainty(peak),
            DAQ: evidence.facts.daq_torque,
            ZERO_DRIFT: max(abs(drift), zero_drift(evidence)) / math.sqrt(3.0),
            ALIGNMENT: evidence.row_uncertainty_s * float(np.sqrt(np.mean(slope**2))),
        }
        found.append((stretch, Measured(_largest(error), measured=_largest(error), budget=budget)))
    return with_scatter(found, signed=False)


def _common_drift(evidence: JointEvidence, stretches: Sequence[Stretch], errors: Sequence[Floats]) -> float:
    """How far the transducer's zero moved from the tare to the last stretch [N.m], at the rate seen between replicates.

    Errors of both directions that move the same way from their first replicates to their last are a zero that drifts;
    friction that changes moves them apart or together.
    """
    moved, last = [], max(stretch.phase.end_s for stretch in stretches)
    for direction in (1, -1):
        same = [
            (s.phase.start_s, float(e.mean()))
            for s, e in zip(stretches, errors, strict=True)
            if s.direction == direction
        ]
        (start, first), (end, final) = min(same), max(same)
        moved.append((final - first) / (end - start) if end > start else 0.0)
    tared = float(evidence.channel("tare_transducer_voltage", "V", "voltage").time_s[0])
    return 0.5 * (moved[0] + moved[1]) * (last - tared)


def feedback_torque(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """Largest torque the feedback adds [N.m] in the evaluation band, per stretch."""
    share = _torque_constant(evidence)
    found = []
    for stretch in tracked(evidence, criterion):
        value = _largest(in_band(evidence, stretch, stretch.feedback))
        found.append((stretch, Measured(value, measured=value, budget={"torque constant": share * abs(value)})))
    return with_scatter(found, signed=False)


def tip_force(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """:func:`residual_torque` as the force at the tool tip [N] that the load's lever makes of it."""
    lever = evidence.facts.lever_m
    return [
        (
            replicate,
            speed,
            replace(
                one,
                value=math.copysign(float(force_at_tip(one.value, lever)), one.value),
                measured=one.measured / lever,
                budget={name: u / lever for name, u in one.budget.items()},
            ),
        )
        for replicate, speed, one in residual_torque(evidence, criterion)
    ]


JOINT_METRICS: dict[str, JointMetric] = {
    "hold_out_rms": JointMetric(hold_out_rms, "1"),
    "hold_out_relative_error": JointMetric(hold_out_relative_error, "1"),
    "hold_out_against_baseline": JointMetric(hold_out_against_baseline, "1"),
    "residual_torque": JointMetric(residual_torque, "N.m"),
    "feedback_torque": JointMetric(feedback_torque, "N.m"),
    "tip_force": JointMetric(tip_force, "N"),
    "overshoot_deviation": JointMetric(overshoot_deviation, "1"),
    "settling_time_deviation": JointMetric(settling_time_deviation, "s"),
    "steady_state_error": JointMetric(steady_state_error, "1"),
}


def tracked(evidence: JointEvidence, criterion: JointCriterion) -> list[Stretch]:
    """Stretches of the criterion's segment at the speed judged, in both directions, each what its name says.

    Raises
    ------
    Refused
        ``no_segment``, ``no_speed``, ``one_direction``, ``too_few_replicates``, or what a gate says.
    """
    if evidence.analysis.speed is None:
        raise Refused("the criteria name no speed", reason="speed", where=criterion.id, remedy="Write analysis.speed")
    wanted = evidence.analysis.speed.to("rad/s")
    every = evidence.stretches(criterion.segment)
    kept = [s for s in every if abs(abs(s.phase.angular_speed_rad_s) - wanted) <= SPEED_SHARE / 2.0 * wanted]
    if not kept:
        speeds = ", ".join(f"{stretch.phase.angular_speed_rad_s:+.3g}" for stretch in every)
        raise Refused(
            f"no phase '{criterion.segment}' at {evidence.analysis.speed}; those here run at {speeds} rad/s",
            reason="no_speed",
            where=evidence.where,
            remedy="Track at the speed the criteria name",
        )
    if len({stretch.direction for stretch in kept}) < 2:
        raise Refused(
            f"'{criterion.segment}' was tracked in one direction only",
            reason="one_direction",
            where=evidence.where,
            remedy="Track in both directions: friction differs between them",
        )
    for stretch in kept:
        check_stretch(evidence, stretch, compensated=criterion.segment == "compensated")
        check_motion(stretch)
    return kept


def in_band(evidence: JointEvidence, stretch: Stretch, values: Floats) -> Floats:
    """A signal of a stretch in the evaluation band, its ends dropped where the low-pass carries transients."""
    return evidence.band.apply(values, stretch.rate_hz)


def _largest(values: Floats) -> float:
    """The value of largest magnitude, with its sign."""
    return float(values[int(np.argmax(np.abs(values)))])


def _step_s(evidence: JointEvidence) -> float:
    return evidence.band.step(evidence.rate_hz) / evidence.rate_hz


def _torque_constant(evidence: JointEvidence) -> float:
    """Standard uncertainty of the torque the drive makes, as a share."""
    file = evidence.facts.feedforward
    stated = None if file is None else file.uncertainty.get("drive.torque_scale")
    return TORQUE_CONSTANT if stated is None else stated.to("1") / 2.0
