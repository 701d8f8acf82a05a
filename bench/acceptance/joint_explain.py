"""Why a joint failed, in words a person at the rig can act on: what the record itself shows, never a guess by name."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from bench.acceptance.joint_evidence import Floats, JointEvidence, Stretch
from bench.acceptance.joint_hold_out import HoldOut, evidence_of
from bench.acceptance.joint_metrics import in_band, tracked
from bench.acceptance.joint_step import Step, impedance, steps
from bench.profile import JointCriterion

#: A part explains a residual when it makes up at least this share of its square.
EXPLAINS = 0.5
#: Friction accounts for a joint that stops short when the torque it swallows is within this share of the spring's.
ACCOUNTS = 0.35
#: The joint slides when it is faster than this share of a speed it seldom exceeds (98 % of the time slower).
SLIDES = 0.2
#: Periods of the motor tried for the ripple, per revolution of the rotor.
ORDERS = (1, 2, 3, 4, 6, 12)
LOOK_FIRST = "Look first at friction compensation, not at gains"


def explain(evidence: JointEvidence, criterion: JointCriterion) -> str:
    """Say why a criterion failed.

    Raises
    ------
    BenchError
        The record does not tell.
    """
    if criterion.segment == "hold_out":
        return explain_hold_out(evidence_of(evidence), evidence)
    if criterion.segment == "step":
        return explain_steps(evidence, criterion)
    return explain_residual(evidence, criterion)


# -- friction compensation


@dataclass(frozen=True)
class Part:
    """A part of the residual torque: its share of the square [1] and what it says."""

    share: float
    words: str


def explain_residual(evidence: JointEvidence, criterion: JointCriterion) -> str:
    """Split the residual torque by what it goes with: the direction, neither, the rotor's turn, the rest."""
    stretches = tracked(evidence, criterion)
    errors = [in_band(evidence, s, s.wanted - s.torque) for s in stretches]
    angles = [in_band(evidence, s, s.motor_angle) * evidence.facts.rig.drive.gear_ratio for s in stretches]
    total = float(np.mean(np.concatenate(errors) ** 2))
    if criterion.segment == "uncompensated":
        level = float(np.mean([abs(error.mean()) for error in errors]))
        return f"friction is not compensated in this segment: {level:.3g} N.m of the torque wanted never arrives"
    forward = _mean([e for e, s in zip(errors, stretches, strict=True) if s.direction > 0])
    backward = _mean([e for e, s in zip(errors, stretches, strict=True) if s.direction < 0])
    odd, even = 0.5 * (forward - backward), 0.5 * (forward + backward)
    carried = _mean([s.torque for s in stretches])
    parts = [
        Part(odd**2 / total, _off("friction", odd, "coulomb or stribeck_excess of the feed-forward")),
        Part(even**2 / total, _unsided(even, carried)),
        _ripple(errors, angles, total),
    ]
    best = max(parts, key=lambda part: part.share)
    listed = f"{best.share:.0%} of the residual torque's square"
    if best.share < EXPLAINS:
        return f"no single part explains half of the residual torque; the largest, {listed}: {best.words}"
    return f"{best.words}: {listed}"


def _off(what: str, amount: float, where: str) -> str:
    way = "too little" if amount > 0 else "too much"
    return (
        f"the part that turns round with the direction dominates: {way} {what} is compensated, by {abs(amount):.3g} "
        f"N.m at this speed ({where})"
    )


def _unsided(even: float, carried: float) -> str:
    share = f", {even / carried:+.1%} of the {carried:.3g} N.m carried" if abs(carried) > abs(even) else ""
    return (
        f"the part that is the same in both directions dominates: {even:+.3g} N.m{share} (torque scale, gravity of the "
        "load, friction offset, or the transducer's zero)"
    )


def _ripple(errors: list[Floats], angles: list[Floats], total: float) -> Part:
    """The part periodic in the rotor's turn, at the order that takes most."""
    best = Part(0.0, "")
    for order in ORDERS:
        square, count, amplitude = 0.0, 0, 0.0
        for error, angle in zip(errors, angles, strict=True):
            rest = error - error.mean()
            columns = np.column_stack([np.cos(order * angle), np.sin(order * angle), np.ones_like(angle)])
            found, *_ = np.linalg.lstsq(columns, rest, rcond=None)
            square += float(np.sum((columns @ found) ** 2))
            count += len(rest)
            amplitude = max(amplitude, float(np.hypot(found[0], found[1])))
        share = square / count / total
        if share > best.share:
            words = f"ripple of {amplitude:.3g} N.m, {order} times per turn of the rotor, dominates"
            best = Part(share, words)
    return best


def _mean(parts: list[Floats]) -> float:
    return float(np.mean([float(part.mean()) for part in parts]))


# -- impedance


def explain_steps(evidence: JointEvidence, criterion: JointCriterion) -> str:
    """Hold the torque that friction swallows against what the spring still pulls with where the joint stands."""
    found = steps(evidence, criterion)
    wanted = impedance(evidence)
    worst = max(found, key=lambda step: abs(float(step.tail.mean())))
    short = float(worst.tail.mean()) * abs(worst.way)
    pulls = wanted.stiffness * abs(short)
    rest, sliding = _at_rest(worst), float(np.mean([_sliding(step.stretch) for step in found]))
    fed = max(float(np.max(np.abs(step.stretch.feedforward))) for step in found)
    overshoot = float(np.mean([step.overshoot for step in found]))
    measured = (
        f"overshoot {overshoot:.1%} instead of {wanted.overshoot:.1%}; {worst.stretch.name} stopped "
        f"{'short' if short > 0 else 'beyond'} by {abs(short):.3g} rad ({abs(short / worst.way):.1%} of the step), "
        f"where the spring still pulls with {pulls:.3g} N.m"
    )
    accounted = pulls > 0 and abs(rest - pulls) <= ACCOUNTS * max(rest, pulls)
    slow_or_short = abs(sliding) > 0.1 * wanted.stiffness * abs(worst.way) * wanted.overshoot
    if accounted or slow_or_short:
        how = "friction is not compensated" if fed == 0.0 else f"friction is compensated by up to {fed:.3g} N.m only"
        return (
            f"{how}, and friction explains it: at rest {rest:.3g} N.m of the torque wanted do not arrive at the "
            f"output, in sliding {sliding:.3g} N.m; {measured}. {LOOK_FIRST}"
        )
    return (
        f"friction does not explain it (in sliding {sliding:.3g} N.m of the torque wanted do not arrive): {measured}. "
        "Look at the inertia of motor and load that the controller uses, at the torque scale, and at delay in the loop"
    )


def _at_rest(step: Step) -> float:
    """Torque [N.m] that was wanted and did not arrive at the output over the last part of the record."""
    count = len(step.tail)
    return abs(float(np.mean(step.stretch.wanted[-count:] - step.stretch.torque[-count:])))


def _sliding(stretch: Stretch) -> float:
    """Torque [N.m] against the motion that was wanted and did not arrive, while the joint slides.

    What accelerates the rotor does not arrive either; over a swing it adds up to nothing, and is left in.
    """
    speed = np.gradient(stretch.motor_angle, stretch.time_s)
    window = max(1, round(0.02 * stretch.rate_hz))
    speed = np.convolve(speed, np.ones(window) / window, mode="same")
    moving = np.abs(speed) > SLIDES * float(np.percentile(np.abs(speed), 98.0))
    lost = (stretch.wanted + stretch.feedforward - stretch.torque)[moving] * np.sign(speed[moving])
    given = float(np.mean(stretch.feedforward[moving] * np.sign(speed[moving])))
    return float(np.mean(lost)) - given


# -- identification


def explain_hold_out(found: HoldOut, evidence: JointEvidence) -> str:
    """Say whether the model, the excitation or one side of the gear is to blame."""
    motor, link = found.motor, found.link
    rated = evidence.facts.rated_torque
    said = (
        f"condition number {motor.condition_number:.3g}, fit in {motor.band.cutoff_hz:g} Hz, judged in "
        f"{evidence.analysis.evaluation_band}; baselines: "
        + ", ".join(f"{name} {value / rated:.1%} of rated" for name, value in found.baselines.items())
    )
    own = motor.rms_moving / max(motor.linear.value("torque_scale"), 1e-9)
    other = found.rms(moving=True)
    if motor.condition_number > 100.0:
        cause = "the excitation does not tell the parameters apart"
    elif other > 2.0 * math.hypot(own, link.rms_moving):
        cause = (
            f"the parameters do not carry over: {other:.3g} N.m on the hold-out, {own:.3g} N.m on the motor's side of "
            "the trajectory they were found on. The excitation does not reach what the hold-out does"
        )
    else:
        side = "motor's (friction, torque scale)" if own > link.rms_moving else "link's (inertia, gravity)"
        cause = (
            f"the model does not describe the joint even where it was identified; the {side} side misses most "
            f"({max(own, link.rms_moving):.3g} N.m)"
        )
    return f"{cause}. {said}"
