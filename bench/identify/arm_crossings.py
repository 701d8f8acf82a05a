"""Slow crossings of poses in both directions: the mean of the two is free of Coulomb and viscous friction.

::

    with Run.open(path) as run:
        poses = poses_of(run, rig, model)       # one per pose, both directions in each
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.arm import drivetrain
from bench.errors import Refused
from bench.identify.arm_stretch import ArmRows, ArmStretch, stretches
from bench.identify.joint_record import RunLike
from bench.models.rigid import ArmModel
from bench.profile import ArmProfile, ArmRig

Floats = NDArray[np.float64]

PHASE = "crossing"
PARTS = 5
"""Windows a crossing is cut into: what they disagree by is the noise of their mean."""
MIDDLE = 0.6
"""Share of a crossing, around its middle, that is used: it starts and stops at the ends."""
MOVES = 2e-3
"""A joint slower than this [rad/s] does not cross: it holds, and friction may hide any torque below its own."""


@dataclass(frozen=True)
class Pose:
    """One pose, the mean of its crossings in both directions.

    Parameters
    ----------
    number : int
    position : (n,)
        Mean over the crossings [rad].
    torque : (n,)
        Motors' torque at the joints [N.m], friction cancelled; NaN where a joint did not cross in both directions.
    model : (n,)
        Torque of the model over the same rows, motion included [N.m].
    load : (n, 4)
        Torque per payload mass [kg] and first moments [kg.m] in the frame asked for, over the same rows.
    scatter : (n,)
        Standard uncertainty of ``torque`` from what parts of the crossings disagree by [N.m].
    friction : (n,)
        Half the difference of both directions [N.m].
    wrench : (6,) or None
        Mean of the wrist sensor, both directions.
    gravity : (3,)
        Acceleration of free fall in the frame asked for [m/s2].
    """

    number: int
    position: Floats
    torque: Floats
    model: Floats
    load: Floats
    scatter: Floats
    friction: Floats
    wrench: Floats | None
    gravity: Floats


def poses_of(
    source: RunLike | ArmRows,
    profile: ArmRig | ArmProfile,
    model: ArmModel,
    frame: Floats | None = None,
    *,
    offset: Floats | None = None,
    phase: str = PHASE,
    middle: float = MIDDLE,
) -> tuple[Pose, ...]:
    """Read the crossings of a run.

    Parameters
    ----------
    model : ArmModel
        Without the payload.
    frame : (4, 4), optional
        Where the payload's frame is in the last joint's; by default the flange's, with the wrist sensor of a rig.
    offset : (n,), optional
        Friction that does not change sign, which both directions share [N.m]; counted to the model.

    Raises
    ------
    Refused
        ``one_direction``: a pose was crossed one way only; what reading raises.
    """
    frame = load_frame(profile, model) if frame is None else frame
    rows = source if isinstance(source, ArmRows) else ArmRows(source, drivetrain(profile.arm))
    found: dict[int, list[tuple[ArmStretch, Floats | None]]] = {}
    for one in stretches(rows, profile, (phase,)):
        cut = _middle(one, middle)
        span = float(cut.time_s[0]), float(cut.time_s[-1])
        wrench = np.asarray(rows.wrench_between(*span)[0].mean(axis=0)) if rows.sensed else None
        found.setdefault(one.phase.replicate, []).append((cut, wrench))
    poses = tuple(
        _pose(number, crossings, model, frame, str(rows.run.path)) for number, crossings in sorted(found.items())
    )
    return poses if offset is None else tuple(replace(pose, model=pose.model + offset) for pose in poses)


def load_frame(profile: ArmRig | ArmProfile, model: ArmModel) -> Floats:
    """Return the (4, 4) frame a payload is given in, in the last joint's: the wrist sensor's, else the flange's."""
    from bench.arm import sensor_frame

    flange = model.description.flange
    return np.asarray(flange @ sensor_frame(profile)) if isinstance(profile, ArmRig) else flange


def _middle(one: ArmStretch, share: float) -> ArmStretch:
    rows = len(one.time_s)
    edge = int(0.5 * (1.0 - share) * rows)
    cut = slice(edge, max(rows - edge, edge + 1))
    names = ("time_s", "position", "velocity", "acceleration", "torque", "temperature")
    arrays = {name: getattr(one, name)[cut] for name in names}
    return ArmStretch(phase=one.phase, rate_hz=one.rate_hz, **arrays)


def _pose(
    number: int,
    crossings: Sequence[tuple[ArmStretch, Floats | None]],
    model: ArmModel,
    frame: Floats,
    where: str,
) -> Pose:
    ways: dict[int, list[int]] = {}
    for k, (one, _) in enumerate(crossings):
        ways.setdefault(1 if _sense(one) > 0.0 else -1, []).append(k)
    if len(ways) < 2:
        raise Refused(
            f"pose {number} was crossed in one direction only",
            reason="one_direction",
            where=where,
            remedy="Cross every pose both ways: one alone cannot tell friction from weight",
        )
    rows = [_condensed(one, model, frame) for one, _ in crossings]
    sides = [[rows[k] for k in ways[sign]] for sign in (1, -1)]
    # (direction, ...) each: the mean of a direction's replicates, then both directions alike
    mean = [{key: np.mean([row[key] for row in side], axis=0) for key in side[0]} for side in sides]
    noise = [np.sqrt(np.sum([row["noise"] ** 2 for row in side], axis=0)) / len(side) for side in sides]
    both = {key: 0.5 * (mean[0][key] + mean[1][key]) for key in mean[0]}
    crosses = (np.abs(mean[0]["velocity"]) > MOVES) & (np.abs(mean[1]["velocity"]) > MOVES)
    crosses &= mean[0]["velocity"] * mean[1]["velocity"] < 0.0
    friction = 0.5 * (mean[0]["torque"] - mean[0]["model"] - mean[1]["torque"] + mean[1]["model"])
    friction = friction * np.sign(mean[0]["velocity"])
    wrenches = [wrench for _, wrench in crossings if wrench is not None]
    wrench = None
    if len(wrenches) == len(crossings):
        wrench = 0.5 * sum(np.mean([wrenches[k] for k in ways[sign]], axis=0) for sign in (1, -1))
    turn = model.placement(both["position"], model.n - 1)[:3, :3] @ frame[:3, :3]
    return Pose(
        number,
        both["position"],
        np.where(crosses, both["torque"], np.nan),
        both["model"],
        both["load"].reshape(model.n, 4),
        0.5 * np.sqrt(noise[0] ** 2 + noise[1] ** 2),
        np.where(crosses, friction, np.nan),
        wrench,
        turn.T @ np.asarray(model.description.gravity),
    )


def _sense(one: ArmStretch) -> float:
    """Direction of a crossing: the sign of its phase's speed, else of the joint that goes farthest."""
    stated = float(getattr(one.phase, "angular_speed_rad_s", np.nan))
    if np.isfinite(stated) and stated != 0.0:
        return stated
    way = one.position[-1] - one.position[0]
    return float(way[int(np.argmax(np.abs(way)))])


def _condensed(one: ArmStretch, model: ArmModel, frame: Floats) -> dict[str, Floats]:
    """Return the means of a crossing, and the noise of the torque's."""
    modelled = model.inverse_dynamics_rows(one.position, one.velocity, one.acceleration)
    load = [load_columns(model, frame, q) for q in _sampled(one.position)]
    left = one.torque - modelled
    parts = np.array([part.mean(axis=0) for part in np.array_split(left, min(PARTS, len(left)))])
    # a drift along the crossing is the model's, not noise; what is beside a line is
    drift = np.linspace(-1.0, 1.0, len(parts))
    beside = parts - parts.mean(axis=0) - np.outer(drift, drift @ parts / float(drift @ drift))
    noise = np.sqrt(np.sum(beside**2, axis=0) / max(len(parts) - 2, 1) / len(parts))
    return {
        "position": one.position.mean(axis=0),
        "velocity": one.velocity.mean(axis=0),
        "torque": one.torque.mean(axis=0),
        "model": modelled.mean(axis=0),
        "load": np.mean(load, axis=0).reshape(-1),
        "noise": noise,
    }


def _sampled(rows: Floats, count: int = 9) -> Floats:
    """A few of the rows, evenly: along a crossing a load's torque is nearly a straight line."""
    return np.asarray(rows[np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(int)])


def load_columns(model: ArmModel, frame: Floats, position: Floats) -> Floats:
    """Return (n, 4): gravity torque per mass and first moments of a body fixed to the last link.

    The moments are those about the origin of ``frame`` (4, 4), given in the last joint's frame.
    """
    zero = np.zeros(model.n)
    last = model.regressor(position, zero, zero)[:, 10 * (model.n - 1) : 10 * (model.n - 1) + 4]
    columns = np.empty((model.n, 4))
    columns[:, 0] = last[:, 0] + last[:, 1:] @ frame[:3, 3]
    columns[:, 1:] = last[:, 1:] @ frame[:3, :3]
    return columns
