"""Can a feed-forward file be this arm's at all? Nominal links and drives are known coarsely, and that is enough to tell
a wrong unit, a slipped comma or two exchanged bodies before a controller lets an arm move by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from bench.arm import arm_model, ratings
from bench.arm_feedforward import arm_feedforward_model
from bench.errors import ProfileError
from bench.profile import ArmFeedForward, ArmRig

Floats = NDArray[np.float64]

#: The weight may differ from the nominal arm's by this share of a joint's largest, and this share of its rated torque.
WEIGHT_SHARE, WEIGHT_RATED = 0.2, 0.02
#: What a joint has to accelerate may be so many times the nominal, or one over it.
INERTIA_FACTOR = 4.0
#: Friction may take this share of the rated torque at the fastest speed of the file, and Coulomb friction be so many
#: times the nominal, or one over it; friction below a share of the rated torque is small anyway.
FRICTION_RATED, COULOMB_FACTOR, SMALL_RATED = 0.6, 6.0, 0.02
#: Poses at which weights are compared.
POSES = 200


def check_plausible(feedforward: ArmFeedForward, rig: ArmRig) -> None:
    """Refuse a file that is far from the nominal arm of the profile.

    Raises
    ------
    ProfileError
        The file is of an arm with other joints; weight, inertia or friction of a joint are far from the profile's.
    """
    for said in implausible(feedforward, rig):
        raise ProfileError(
            said,
            where=str(feedforward.source.path),
            remedy="Look for an edited line, a wrong unit, and links of another arm; identify again, or correct the "
            "rig profile.",
        )


def implausible(feedforward: ArmFeedForward, rig: ArmRig) -> Iterator[str]:
    """Yield what cannot be: weight, then inertia, then friction."""
    found, nominal, rated = arm_feedforward_model(feedforward, rig), arm_model(rig), ratings(rig.arm)
    poses = _poses(rig)
    names = [joint.name for joint in rig.arm.joints]
    ours, theirs = nominal.gravity_rows(poses), found.model.gravity_rows(poses)
    off, least = np.abs(theirs - ours).max(axis=0), np.abs(ours).max(axis=0)
    for i in np.flatnonzero(off > WEIGHT_SHARE * least + WEIGHT_RATED * rated.rated_torque):
        yield (
            f"by the feed-forward file joint {names[i]} bears a weight that is up to {off[i]:.3g} N.m from that of the "
            f"nominal arm, which is {least[i]:.3g} N.m at most"
        )
    moved = np.array([[model.mass_matrix(q).diagonal() for q in poses[:10]] for model in (nominal, found.model)])
    ratio = (moved[1] / moved[0]).mean(axis=0)
    for i in np.flatnonzero((ratio > INERTIA_FACTOR) | (ratio < 1.0 / INERTIA_FACTOR)):
        yield f"by the feed-forward file joint {names[i]} has {ratio[i]:.3g} times the inertia of the nominal arm"
    law = found.friction
    speed = np.where(np.isfinite(found.speed_max), np.minimum(found.speed_max, rated.speed), rated.speed)
    most = law.breakaway + law.viscous * speed + np.abs(law.offset)
    for i in np.flatnonzero(most > FRICTION_RATED * rated.rated_torque):
        yield (
            f"by the feed-forward file friction of joint {names[i]} takes {most[i]:.3g} N.m at {speed[i]:.3g} rad/s, "
            f"and its rated torque is {rated.rated_torque[i]:.3g} N.m"
        )
    for name, stated, coulomb, most_nm in zip(names, rated.coulomb, law.coulomb, rated.rated_torque, strict=True):
        low, high = stated / COULOMB_FACTOR, max(stated * COULOMB_FACTOR, SMALL_RATED * most_nm)
        if math.isfinite(stated) and stated > 0.0 and not low <= coulomb <= high:
            yield (
                f"by the feed-forward file Coulomb friction of joint {name} is {coulomb:.3g} N.m, and the "
                f"profile's is {stated:.3g} N.m"
            )


def _poses(rig: ArmRig) -> Floats:
    """Return (k, n) positions within the joints' limits, the same ones every time."""
    low, high = [], []
    for joint in rig.arm.joints:
        least, most = joint.number("position_min"), joint.number("position_max")
        low.append(-1.0 if least is None else least)
        high.append(1.0 if most is None else most)
    return np.random.default_rng(1).uniform(low, high, (POSES, len(low)))
