"""Is the feed-forward of an arm's run the one that the archive names, and was it used as the phase says?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import numpy as np

from bench.acceptance.arm_evidence import ArmEvidence, name_of
from bench.errors import Refused
from bench.identify.arm_stretch import ArmStretch
from bench.profile import ArmFeedForward

#: The friction fed forward is what the archived file gives, within this share of it and of the rated torque.
FRICTION_SHARE, RATED_SHARE = 0.05, 0.002
#: A file written by another computer may bear a time this much ahead [s].
CLOCKS_APART_S = 60.0
#: Temperature may leave the file's validity by so much [K].
TEMPERATURE_MARGIN_K = 0.5
SPEED_SHARE = 0.2


def check_feedforward(evidence: ArmEvidence, stretch: ArmStretch, joint: int, *, compensated: bool) -> None:
    """Refuse a phase that is not what its name says.

    Parameters
    ----------
    joint : int
        The one that moves, from 0.
    compensated : bool
        Whether its friction must have been compensated, or must not have been.

    Raises
    ------
    Refused
        ``uncompensated``, ``no_feedforward``, ``feedforward``.
    ArchiveError
        The archive holds no feed-forward file that says by what.
    """
    friction = evidence.along(stretch, "friction_{}_torque", "N.m", "torque")[:, joint]
    fed = float(np.max(np.abs(friction)))
    name = evidence.facts.names[joint]
    if not compensated:
        if fed > 0.0:
            what = f"friction of {name} was compensated (by up to {fed:.3g} N.m) where it must not be"
            raise _not(stretch, what, "uncompensated")
        return
    file = evidence.facts.identified
    if fed == 0.0:
        raise _not(stretch, f"friction of {name} was not compensated at all", "no_feedforward")
    for said in (*foreign(evidence, file), *_outside(evidence, stretch, joint, file)):
        raise _not(stretch, said, "feedforward")
    wanted = evidence.along(stretch, "desired_{}_velocity", "rad/s", "angular_speed")
    expected = float(np.median(evidence.identified(evidence.facts.payload).friction.torque(wanted)[:, joint]))
    found = float(np.median(friction))
    allowed = FRICTION_SHARE * abs(expected) + RATED_SHARE * float(evidence.facts.ratings.rated_torque[joint])
    if abs(found - expected) > allowed:
        what = (
            f"the friction fed forward to {name} ({found:.3g} N.m) is not what the archived file gives "
            f"({expected:.3g} N.m): the file is not the one that was used, or was edited"
        )
        raise _not(stretch, what, "feedforward")


def foreign(evidence: ArmEvidence, file: ArmFeedForward) -> Iterator[str]:
    """Yield what says that a file is another arm's, another lab's, or of another time."""
    facts, run = evidence.facts, evidence.run
    if file.rig != facts.rig.name:
        yield f"the feed-forward file is of the rig {file.rig}, and this is {facts.rig.name}"
    names = tuple(joint.name for joint in file.joints)
    if names != facts.names:
        yield f"the feed-forward file is of the joints {', '.join(names)}, and these are {', '.join(facts.names)}"
    if any(source.simulated != run.simulated for source in file.sources):
        origin = "the simulated lab" if not run.simulated else "a real rig"
        yield f"the feed-forward file was identified on {origin}, and this run was not made there"
    if file.created.timestamp() > datetime.fromisoformat(run.started_utc).timestamp() + CLOCKS_APART_S:
        yield f"the feed-forward file was written at {file.created}, after the run"


def _outside(evidence: ArmEvidence, stretch: ArmStretch, joint: int, file: ArmFeedForward) -> Iterator[str]:
    arm = evidence.identified(evidence.facts.payload)
    warm = stretch.temperature[:, joint]
    known = warm[np.isfinite(warm)]
    cold, hot = arm.temperature_min - TEMPERATURE_MARGIN_K, arm.temperature_max + TEMPERATURE_MARGIN_K
    if known.size and not (cold <= float(known.min()) and float(known.max()) <= hot):
        yield (
            f"the motor was at {known.min():.1f} to {known.max():.1f} degC, and the feed-forward holds for "
            f"{arm.temperature_min:.1f} to {arm.temperature_max:.1f} degC"
        )
    speed = abs(float(stretch.phase.angular_speed_rad_s))
    low, high = float(arm.speed_min[joint]), float(arm.speed_max[joint])
    if np.isfinite(speed) and not low * (1.0 - SPEED_SHARE) <= speed <= high:
        yield (
            f"joint {evidence.facts.names[joint]} moved at {speed:.3g} rad/s, and the feed-forward holds for "
            f"{low:.3g} to {high:.3g} rad/s"
        )


def _not(stretch: ArmStretch, what: str, reason: str) -> Refused:
    remedy = "Run it again with the feed-forward of this arm, or without"
    return Refused(what, reason=reason, where=name_of(stretch), remedy=remedy)
