"""Why an arm failed, in words a person at the rig can act on: what the record itself shows."""

from __future__ import annotations

from collections import defaultdict

import numpy as np

from bench.acceptance.arm_contact import FRICTION, pressings
from bench.acceptance.arm_evidence import ArmEvidence
from bench.acceptance.arm_hold_out import explain as explain_hold_out
from bench.acceptance.arm_statics import hold_torque_residual, payload_fit, residual_torque, witness
from bench.acceptance.arm_touch import touches
from bench.profile import ArmCriterion

LOOK_FIRST = "Look first at friction compensation, not at gains"


def explain(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    """Say why a criterion failed; nothing where the record does not tell.

    Raises
    ------
    BenchError
        What reading the record refuses.
    """
    if criterion.segment in ("train", "hold_out"):
        return explain_hold_out(evidence, criterion)
    if criterion.metric == "residual_torque":
        return _residual(evidence, criterion)
    if criterion.metric == "payload_mass_error":
        return _payload(evidence)
    if criterion.metric == "hold_torque_residual":
        return _hold(evidence, criterion)
    if criterion.segment == "press":
        return _wrench(evidence, criterion)
    return _touch(evidence, criterion)


def _residual(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    """Split the worst joint's residual by what it goes with: the direction, or neither."""
    found = residual_torque(evidence, criterion)
    rated = evidence.facts.ratings.rated_torque
    own = criterion.limit.to("N.m")
    share = 0.0 if criterion.limit_of_rated is None else criterion.limit_of_rated.to("1")
    worst = max(found, key=lambda v: abs(v.one.value) / max(own, share * float(rated[v.joint or 0])))
    same = [v for v in found if v.joint == worst.joint]
    forward = float(np.mean([v.one.value for v in same if v.speed > 0.0]))
    backward = float(np.mean([v.one.value for v in same if v.speed < 0.0]))
    odd, even = 0.5 * (forward - backward), 0.5 * (forward + backward)
    name = evidence.facts.names[worst.joint or 0]
    if criterion.segment == "uncompensated":
        return f"friction of {name} is not compensated in this segment: {abs(odd):.3g} N.m of it are left to feedback"
    if abs(odd) >= abs(even):
        way = "too little" if odd > 0.0 else "too much"
        return (
            f"the part that turns round with the direction dominates on {name}: {way} friction is compensated, by "
            f"{abs(odd):.3g} N.m at this speed (coulomb or stribeck_excess of the feed-forward). {LOOK_FIRST}"
        )
    return (
        f"the part that is the same in both directions dominates on {name}: {even:+.3g} N.m (weight of the links, "
        "payload, friction offset)"
    )


def _payload(evidence: ArmEvidence) -> str:
    fit, weighed = payload_fit(evidence), witness(evidence).mass
    blame = max(fit.mass.budget, key=lambda name: fit.mass.budget[name], default="")
    return (
        f"the joints' torques say {fit.mass}, the wrist sensor {weighed}; most of the uncertainty comes from {blame}. "
        "Where the two agree, look at the mass that was stated; else at torque constants and the identified links"
    )


def _hold(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    by_joint: dict[int, list[float]] = defaultdict(list)
    for value in hold_torque_residual(evidence, criterion):
        by_joint[value.joint or 0].append(value.one.value)
    rated = evidence.facts.ratings.rated_torque
    joint = max(by_joint, key=lambda j: max(np.abs(by_joint[j])) / float(rated[j]))
    mean, spread = float(np.mean(by_joint[joint])), float(np.std(by_joint[joint]))
    what = "an offset" if abs(mean) > spread else "a weight that turns with the pose"
    return (
        f"{evidence.facts.names[joint]} misses {mean:+.3g} N.m on average and {spread:.3g} N.m about it: {what} is "
        "missing in the identified arm"
    )


def _wrench(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    found = pressings(evidence, criterion)
    worst = max(found, key=lambda one: abs(one.torques - one.sensor))
    off = worst.torques - worst.sensor
    hidden = 2.0 * worst.budget[FRICTION]
    if abs(off) <= hidden:
        return (
            f"at level {worst.level} the torques are off by {off:+.3g} N; joints at rest may hide {hidden:.3g} N by "
            "friction alone: let the arm creep while it presses"
        )
    levels = np.array([one.sensor for one in found])
    gain = float(np.polyfit(levels, [one.torques for one in found], 1)[0]) if np.ptp(levels) > 0.0 else np.nan
    return (
        f"at level {worst.level} the torques are off by {off:+.3g} N; over all levels they rise by {gain:.3g} N per "
        "newton of the wrist sensor (1 is right: else torque constants or the sensor's calibration; an offset is the "
        "weight of the identified links)"
    )


def _touch(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    found = touches(evidence, criterion.segment)
    over = float(np.mean([touch.overshoot for touch in found]))
    last = float(np.mean([touch.force[-1] for touch in found]))
    told = f"overshoot {over:.1%} on average, {last:.3g} N of {found[0].wanted:g} N at the end"
    if last < found[0].wanted * (1.0 - evidence.analysis.settle_band.to("1")) and over < 0.05:
        return f"the force stops short: {told}. {LOOK_FIRST}"
    return f"{told}. Look at the stiffness the gains were switched for and at the speed of approach"
