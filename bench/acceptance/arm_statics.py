"""What slow motion tells of an arm: residual torque with friction compensated, payload, torques of statics."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_evidence import ArmEvidence, name_of
from bench.acceptance.arm_feedforward import check_feedforward
from bench.acceptance.arm_values import ArmValue, Values, with_scatter
from bench.acceptance.measured import Measured
from bench.errors import ArchiveError, Refused
from bench.identify.arm_stretch import ArmStretch
from bench.profile import ArmCriterion, Payload

if TYPE_CHECKING:
    from bench.identify.arm_crossings import Pose
    from bench.identify.arm_payload import PayloadFit

Floats = NDArray[np.float64]

TORQUE = "torque constant"
NOISE = "current noise"
#: A phase is tracked at the speed judged, and a joint at its phase's, within this share.
SPEED_SHARE = 0.1
#: Rows whose wanted speed is this near the phase's are of its constant speed.
CONSTANT_SHARE = 0.02
#: Way after a start until bristles have come up [rad].
SETTLE_TRAVEL_RAD = 2e-3
FEWEST_ROWS = 50
#: Wrist sensor and profile may disagree by this share of a payload and by so much [kg] before it is called another one.
OTHER_SHARE, OTHER_KG = 0.05, 0.03
#: Its centre of mass may be said to lie by so much elsewhere [m].
OTHER_M = 0.005
#: The payload is weighed to this share of the limit at least.
WEIGHED_SHARE = 1.0 / 3.0
POSES, WITNESS = "poses", "wrist sensor"


# -- friction compensation


def residual_torque(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Largest torque of the moving joint's motor beyond what was fed forward [N.m], per phase."""
    found = []
    for stretch, joint in tracked(evidence, criterion):
        rows = _constant(evidence, stretch, joint)
        rate = stretch.rate_hz
        fed = evidence.along(stretch, "feedforward_{}_torque", "N.m", "torque")[:, joint]
        made = stretch.torque[:, joint] * evidence.facts.torque_scale[joint]
        band = evidence.band(rate)
        left = band.smooth(made - fed, rate)[rows]
        value = float(left[int(np.argmax(np.abs(left)))])
        share = float(evidence.facts.ratings.torque_uncertainty[joint])
        budget = {TORQUE: share * abs(value), NOISE: _noise(made - fed, band.cutoff_hz, rate)}
        speed = float(stretch.phase.angular_speed_rad_s)
        found.append(ArmValue(stretch.phase.replicate, Measured(value, 0.0, value, budget), speed, joint))
    return with_scatter(found)


def tracked(evidence: ArmEvidence, criterion: ArmCriterion) -> list[tuple[ArmStretch, int]]:
    """Phases of the criterion's segment at the speed judged, each with the joint that moves, from 0.

    Raises
    ------
    Refused
        ``no_segment``; ``no_speed``; ``one_direction``; ``missing_joint``: a joint was never tracked; ``not_moving``;
        what :func:`bench.acceptance.arm_feedforward.check_feedforward` refuses.
    """
    speed = evidence.analysis.speed
    if speed is None:
        raise Refused("the criteria name no speed", reason="speed", where=criterion.id, remedy="Write analysis.speed")
    wanted = speed.to("rad/s")
    every = evidence.stretches(criterion.segment)
    kept = [one for one in every if abs(abs(one.phase.angular_speed_rad_s) - wanted) <= SPEED_SHARE * wanted]
    if not kept:
        speeds = ", ".join(sorted({f"{one.phase.angular_speed_rad_s:+.3g}" for one in every}))
        raise Refused(
            f"no phase '{criterion.segment}' at {speed}; those here run at {speeds} rad/s",
            reason="no_speed",
            where=evidence.where,
            remedy="Track at the speed the criteria name",
        )
    found = [(one, moving_joint(one)) for one in kept]
    for joint, name in enumerate(evidence.facts.names):
        ways = {float(np.sign(one.phase.angular_speed_rad_s)) for one, moved in found if moved == joint}
        if not ways:
            raise Refused(
                f"joint {name} was not tracked",
                reason="missing_joint",
                where=evidence.where,
                remedy="Track every joint: friction compensation is judged on each",
            )
        if len(ways) < 2:
            raise Refused(
                f"joint {name} was tracked in one direction only",
                reason="one_direction",
                where=evidence.where,
                remedy="Track in both directions: friction differs between them",
            )
    for one, joint in found:
        _check_moving(one, joint, evidence.facts.names[joint])
        check_feedforward(evidence, one, joint, compensated=criterion.segment == "compensated")
    return found


def moving_joint(stretch: ArmStretch) -> int:
    """Return the joint that goes farthest, from 0."""
    return int(np.argmax(np.ptp(stretch.position, axis=0)))


def _check_moving(stretch: ArmStretch, joint: int, name: str) -> None:
    time = stretch.time_s - stretch.time_s.mean()
    position = stretch.position[:, joint]
    speed = float(time @ (position - position.mean()) / (time @ time))
    wanted = float(stretch.phase.angular_speed_rad_s)
    if not abs(speed - wanted) <= 2.0 * SPEED_SHARE * abs(wanted):
        raise Refused(
            f"joint {name} moved at {speed:+.3g} rad/s, and the phase is of {wanted:+.3g} rad/s",
            reason="not_moving",
            where=name_of(stretch),
            remedy="Look at the enable line, the brakes and what may block the joint",
        )


def _constant(evidence: ArmEvidence, stretch: ArmStretch, joint: int) -> slice:
    """Rows of constant wanted speed, once the joint has settled into it."""
    wanted = evidence.along(stretch, "desired_{}_velocity", "rad/s", "angular_speed")[:, joint]
    speed = float(stretch.phase.angular_speed_rad_s)
    steady = np.flatnonzero(np.abs(wanted - speed) <= CONSTANT_SHARE * abs(speed))
    if len(steady):
        position = stretch.position[:, joint]
        gone = np.abs(position - position[steady[0]]) >= SETTLE_TRAVEL_RAD
        steady = steady[gone[steady]]
    if len(steady) < FEWEST_ROWS:
        raise Refused(
            f"{len(steady)} rows of constant speed are too few",
            reason="too_short",
            where=name_of(stretch),
            remedy="Track over a longer way",
        )
    return slice(int(steady[0]), int(steady[-1]) + 1)


def _noise(values: Floats, cutoff_hz: float, rate_hz: float) -> float:
    """Standard deviation that white noise leaves in the band, from second differences."""
    second = np.diff(values, 2)
    white = 1.4826 * float(np.median(np.abs(second - np.median(second)))) / np.sqrt(6.0)
    return float(white * np.sqrt(min(2.0 * cutoff_hz / rate_hz, 1.0)))


# -- payload and hold


def payload_mass_error(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Mass by the joints' torques less the mass weighed, as a share of it [1].

    An error of indication: the arm's torques are what is tested, the scale is what is known (VIM, JCGM 200:2012, 2.16).
    So what the joints' torque gains may be off by is in the value, and not once more in its uncertainty.
    """
    payload = mounted(evidence)
    mass = payload.body.mass.to("kg")
    known, limit = payload.mass_uncertainty.to("kg") / mass, criterion.limit.to("1")
    if known > WEIGHED_SHARE * limit:
        raise Refused(
            f"{payload.name} was weighed to {known:.1%} (k = 2) only, and the limit is {criterion.limit}",
            reason="weighing",
            where=evidence.where,
            remedy="Weigh it on a better scale: a third of the limit at least",
        )
    from bench.identify.arm_payload import TORQUE_GAIN

    fit = payload_fit(evidence)
    budget = {name: u / mass for name, u in fit.mass.budget.items() if name != TORQUE_GAIN}
    budget["weighing"] = 0.5 * payload.mass_uncertainty.to("kg") / mass
    freedom = {POSES: fit.poses - 1.0} if POSES in budget else {}
    one = Measured((fit.mass.value - mass) / mass, mass, fit.mass.value, budget, degrees_of_freedom=freedom)
    return [ArmValue(0, one)]


def hold_torque_residual(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Mean torque of both directions less statics of the identified arm with its payload [N.m], per pose and joint."""
    from bench.arm import body

    payload = evidence.facts.payload
    four = np.zeros(4) if payload is None else body(payload.body).parameters()[:4]
    share = evidence.facts.ratings.torque_uncertainty
    found = []
    for pose in poses(evidence):
        statics = pose.model + pose.load @ four
        torque = pose.torque * evidence.facts.torque_scale
        for joint in np.flatnonzero(np.isfinite(torque)):
            value = float(torque[joint] - statics[joint])
            budget = {TORQUE: float(share[joint] * abs(torque[joint])), NOISE: float(pose.scatter[joint])}
            one = Measured(value, float(statics[joint]), float(torque[joint]), budget)
            found.append(ArmValue(pose.number, one, joint=int(joint)))
    _crossed(evidence, found)
    return found


def _crossed(evidence: ArmEvidence, found: Values) -> None:
    missing = [name for j, name in enumerate(evidence.facts.names) if not any(one.joint == j for one in found)]
    if missing:
        raise Refused(
            f"{', '.join(missing)} crossed no pose in both directions",
            reason="one_direction",
            where=evidence.where,
            remedy="Cross every pose both ways with every joint: at rest friction hides what the joint bears",
        )


def mounted(evidence: ArmEvidence) -> Payload:
    """Return the payload of the run.

    Raises
    ------
    ArchiveError
        There is none.
    """
    payload = evidence.facts.payload
    if payload is None:
        raise ArchiveError(
            f"{evidence.facts.specimen.name} is no payload whose mass could be compared",
            where=evidence.where,
            remedy="Judge a run with a payload that was weighed",
        )
    return payload


def payload_fit(evidence: ArmEvidence) -> PayloadFit:
    """Return what the joints' torques say of the payload."""
    from bench.identify.arm_payload import identify_payload

    facts = evidence.facts
    if "payload" not in evidence.kept:
        evidence.kept["payload"] = identify_payload(
            poses(evidence),
            torque_uncertainty=facts.ratings.torque_uncertainty,
            torque_scale=facts.torque_scale,
        )
    found: PayloadFit = evidence.kept["payload"]  # type: ignore[assignment]  # what was put there one line above
    return found


def poses(evidence: ArmEvidence) -> tuple[Pose, ...]:
    """Return the crossings of the run; their model is the identified arm's, without a payload."""
    from bench.identify.arm_crossings import poses_of

    if POSES not in evidence.kept:
        evidence.stretches("crossing")  # says what is missing by its name
        arm = evidence.identified()
        evidence.kept[POSES] = poses_of(evidence.rows, evidence.facts.rig, arm.model, offset=arm.friction.offset)
    found: tuple[Pose, ...] = evidence.kept[POSES]  # type: ignore[assignment]  # what was put there one line above
    return found


def witness(evidence: ArmEvidence) -> PayloadFit:
    """Return what the wrist sensor says of the body beyond the tool."""
    from bench.arm import body
    from bench.identify.arm_payload import weigh

    if WITNESS not in evidence.kept:
        facts = evidence.facts
        evidence.kept[WITNESS] = weigh(
            poses(evidence), tool=body(facts.rig.tool), gain_uncertainty=facts.sensor.relative
        )
    found: PayloadFit = evidence.kept[WITNESS]  # type: ignore[assignment]  # what was put there one line above
    return found


def other_payload(evidence: ArmEvidence) -> str:
    """Say that the wrist sensor weighs something else than the payload named; nothing when it does not."""
    from bench.arm import body

    payload = evidence.facts.payload
    stated = 0.0 if payload is None else payload.body.mass.to("kg")
    found = witness(evidence)
    allowed = max(OTHER_SHARE * stated, OTHER_KG) + found.mass.expanded_uncertainty
    if abs(found.mass.value - stated) > allowed:
        return (
            f"the wrist sensor weighs {found.mass.value:.3g} kg beyond the tool, and {evidence.facts.specimen.name} is "
            f"of {stated:g} kg: another payload is mounted than the one named. Look what is on the tool, or name that"
        )
    if payload is None or found.centre is None:
        return ""
    for axis, measured, told in zip("xyz", found.centre, body(payload.body).centre, strict=True):
        if abs(measured.value - told) > OTHER_M + measured.expanded_uncertainty:
            return (
                f"by the wrist sensor the payload's centre of mass lies at {axis} = {1e3 * measured.value:.1f} mm, and "
                f"{payload.name} says {1e3 * told:.1f} mm: it is mounted otherwise than its profile says, or is "
                "another one. Look how it is mounted, and correct its centre"
            )
    return ""
