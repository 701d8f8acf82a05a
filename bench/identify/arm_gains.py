"""How much torque a motor makes per torque its nominal constant promises, from a payload of known mass.

::

    scales = identify_gains(loaded, bare, known=body(payload.body), mass_uncertainty=0.0005)
    scales["shoulder"].scale, scales["base"].identifiable

The same poses are crossed with and without the payload; what the torques differ by is the payload's own, which is
known. Per joint the difference by the nominal constants is regressed on the known torque: its slope is one over the
scale. The known torque stands as the regressor, for it is nearly free of errors. A joint that the payload does not load
says nothing of its motor.

Source
------
M. Gautier, S. Briot, *Global identification of joint drive gains and dynamic parameters of robots*, J. Dyn. Sys. Meas.
Control 136(5), 2014 (a payload of known mass gives the gains an absolute scale).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_crossings import Pose
from bench.identify.arm_payload import FEWEST_POSES, matched
from bench.identify.estimate import Estimate, Source, combine
from bench.models.arm_description import LinkInertia

Floats = NDArray[np.float64]

GOOD = 0.05
"""A scale with a larger standard uncertainty is none."""


@dataclass(frozen=True)
class DriveGain:
    """Scale of one joint's motor.

    Parameters
    ----------
    joint : str
    scale : Estimate
        Torque made per torque by the nominal constant [1]; 1 with a standard uncertainty of what was believed before
        where it is not identifiable.
    identifiable : bool
    load : float
        Root mean square of the payload's torque at the joint [N.m].
    why : str
        What kept it from being identified.
    """

    joint: str
    scale: Estimate
    identifiable: bool
    load: float
    why: str = ""


def identify_gains(
    loaded: Sequence[Pose],
    bare: Sequence[Pose],
    *,
    names: Sequence[str],
    known: LinkInertia,
    mass_uncertainty: float,
    centre_uncertainty: float = 0.0,
    believed: Floats | float = 0.05,
) -> dict[str, DriveGain]:
    """Return the scale of every joint's motor.

    Parameters
    ----------
    loaded, bare : sequence of Pose
        Crossings of the same poses with and without the payload.
    names : sequence of str
        Of the joints.
    known : LinkInertia
        The payload, in the frame the poses' columns were made in.
    mass_uncertainty, centre_uncertainty : float
        Standard uncertainties of its mass [kg] and of every coordinate of its centre [m].
    believed : (n,) or float
        Standard uncertainty of a scale before, as a share: stated where a joint is not identifiable.

    Raises
    ------
    Refused
        ``too_few_poses``; ``other_poses``; ``no_mass``.
    """
    if known.mass <= 0.0:
        raise Refused(
            f"a payload of {known.mass:g} kg pulls at nothing",
            reason="no_mass",
            where="drive gains",
            remedy="Take the payload that was weighed, and crossings with it",
        )
    if len(loaded) < FEWEST_POSES:
        raise Refused(
            f"{len(loaded)} poses are too few",
            reason="too_few_poses",
            where="drive gains",
            remedy=f"Cross {FEWEST_POSES} poses at least, with and without the payload",
        )
    twins = matched(loaded, bare)
    four = known.parameters()[:4]
    told = np.array([pose.load @ four for pose in loaded])
    # nominal torques; the small difference of the poses is the model's
    measured = np.array(
        [pose.torque - twin.torque - pose.model + twin.model for pose, twin in zip(loaded, twins, strict=True)]
    )
    columns = np.array([pose.load for pose in loaded])
    before = np.broadcast_to(np.asarray(believed, dtype=np.float64), len(names))
    return {
        name: _gain(name, measured[:, j], told[:, j], columns[:, j], known, mass_uncertainty, centre_uncertainty, u)
        for j, (name, u) in enumerate(zip(names, before, strict=True))
    }


def _gain(
    name: str,
    measured: Floats,
    told: Floats,
    columns: Floats,
    known: LinkInertia,
    mass_uncertainty: float,
    centre_uncertainty: float,
    believed: float,
) -> DriveGain:
    used = np.isfinite(measured)
    load = float(np.sqrt(np.mean(told**2)))
    nothing = Estimate(1.0, float(believed), "1", "number", budget={"believed": float(believed)})
    x, y, count = told[used], measured[used], int(used.sum())
    square = float(x @ x)
    if count < FEWEST_POSES or square <= 0.0:
        return DriveGain(name, nothing, False, load, "it crossed too few poses in both directions")
    slope = float(x @ y) / square
    left = y - slope * x
    without = (slope * square - x * y) / np.maximum(square - x**2, 1e-12 * square)
    scatter = math.sqrt((count - 1) / count * float(np.sum((without - slope) ** 2)))
    noise = math.sqrt(float(left @ left) / (count - 1) / square)
    scatter = max(scatter, noise)
    if not slope > 0.0 or scatter / slope > GOOD:
        why = f"the payload makes {load:.2g} N.m there, which is not enough beside its noise"
        return DriveGain(name, nothing, False, load, why)
    scale = 1.0 / slope
    # a heavier payload than believed raises all told torques alike; its centre those its own columns say
    centre = columns[used][:, 1:] * known.mass
    moved = (x @ centre) / square * scale * centre_uncertainty
    sources = [
        Source("poses", np.array([[scale * scatter / slope]]), float(count - 1)),
        Source("mass", np.array([[scale * mass_uncertainty / known.mass]])),
        Source("centre", np.array([[float(np.linalg.norm(moved))]])),
    ]
    return DriveGain(name, combine(scale, np.ones(1), sources, "1", "number"), True, load)
