"""What an arm carries: mass and centre from its joints' torques, and, as a second witness, from the wrist sensor.

::

    found = identify_payload(loaded, bare=bare, torque_uncertainty=ratings(rig.arm).torque_uncertainty)
    found.mass, found.centre
    witness = weigh(loaded, tool=rig_tool)          # wrist sensor alone

In the mean of both directions of a slow crossing friction cancels; what is left beside the model without payload is
``mass * Y_m(q) + (mass * centre) * Y_mc(q)``, four columns per pose and joint. With crossings of the bare tool at the
same poses their own remainder is taken away too, and with it what the model misses.

Source
------
W. Khalil, E. Dombre, *Modeling, Identification and Control of Robots*, 2002, ch. 12 (identification of a payload).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify.arm_crossings import Pose
from bench.identify.estimate import Estimate, Source, combine
from bench.models.arm_description import LinkInertia

Floats = NDArray[np.float64]

TORQUE_GAIN = "torque_gain"
"""In the budget of a mass: what the joints' torques may be off by as a whole."""
FEWEST_POSES = 4
SAME_POSE_RAD = 0.02
LEAST_NOISE = 1e-3
"""No joint is trusted better than this share of the largest torque the payload makes on any."""
CONDITION = 1e4
SENSOR_GAIN = 0.005
"""Standard uncertainty of a wrist sensor's gain where no certificate says so: the usual 1 % (k = 2)."""


@dataclass(frozen=True)
class PayloadFit:
    """A payload, in the frame its columns were made in (the wrist sensor's).

    Parameters
    ----------
    mass : Estimate
        [kg]
    moments : (3,) float64
        Mass times centre [kg.m].
    centre : tuple of Estimate or None
        Three [m]; None where the mass is not told from zero.
    residual : (n,) float64
        Root mean square of what is left, per joint [N.m]; of the wrench's axes for :func:`weigh`.
    poses : int
    method : str
    """

    mass: Estimate
    moments: Floats
    centre: tuple[Estimate, ...] | None
    residual: Floats
    poses: int
    method: str

    def lines(self) -> list[str]:
        """Say it in a few lines."""
        told = [f"payload by {self.method}, {self.poses} poses: {self.mass}"]
        if self.centre is not None:
            told += [f"  centre {axis} {one}" for axis, one in zip("xyz", self.centre, strict=True)]
        return told


def identify_payload(
    loaded: Sequence[Pose],
    *,
    bare: Sequence[Pose] | None = None,
    torque_uncertainty: Floats | float = 0.0,
    torque_scale: Floats | None = None,
) -> PayloadFit:
    """Return the payload that explains the torques of the loaded poses.

    Parameters
    ----------
    loaded : sequence of Pose
        Crossings with the payload, their model without it.
    bare : sequence of Pose, optional
        Crossings without it, at the same poses.
    torque_uncertainty : (n,) or float
        Standard uncertainty of every joint's torque, as a share.
    torque_scale : (n,), optional
        Torque made per torque by the nominal constant; 1 by default.

    Raises
    ------
    Refused
        ``too_few_poses``; ``not_identifiable``: the poses do not tell mass and centre apart; ``other_poses``: a loaded
        pose without a bare one.
    """
    n = len(loaded[0].torque) if loaded else 0
    scale = np.ones(n) if torque_scale is None else np.asarray(torque_scale, dtype=np.float64)
    torque = np.array([scale * pose.torque - pose.model for pose in loaded]).reshape(-1, n)
    if bare is not None:
        torque = torque - np.array([scale * twin.torque - twin.model for twin in matched(loaded, bare)])
    columns = np.array([pose.load for pose in loaded]).reshape(-1, n, 4)
    share = np.broadcast_to(np.asarray(torque_uncertainty, dtype=np.float64), n)
    size = np.array([pose.model for pose in loaded]).reshape(-1, n)
    # a motor's gain is one number for all poses: with bare poses it acts on the payload's torque alone
    gained = torque if bare is not None else torque + size
    return _fit(torque, columns, gained, share, "joint torques" + (" against the bare tool" if bare else ""))


def weigh(
    loaded: Sequence[Pose],
    *,
    bare: Sequence[Pose] | None = None,
    tool: LinkInertia | None = None,
    gain_uncertainty: float = SENSOR_GAIN,
) -> PayloadFit:
    """Return the payload the wrist sensor carries beyond the tool.

    The sensor's zero is unknown (it was taken with something hanging on it), so six constants are fitted beside the
    four unknowns: the poses must turn the sensor.

    Parameters
    ----------
    loaded, bare : sequence of Pose
        With their ``wrench``. With ``bare``, the tool's own weight is taken from there.
    tool : LinkInertia, optional
        What hangs on the sensor anyway, in its frame; used without ``bare``.
    gain_uncertainty : float
        Standard uncertainty of the sensor's gain, as a share.

    Raises
    ------
    Refused
        ``no_wrench``; ``too_few_poses``; ``not_identifiable``.
    """
    if any(pose.wrench is None for pose in (*loaded, *(bare or ()))):
        raise Refused(
            "the poses hold no wrench",
            reason="no_wrench",
            where="payload by the wrist sensor",
            remedy="Record the wrist sensor with the crossings",
        )
    measured = np.array([pose.wrench for pose in loaded]).reshape(-1, 6)
    body = np.array([weight_columns(pose.gravity) for pose in loaded]).reshape(-1, 6, 4)
    if bare is not None:
        measured = measured - np.array([twin.wrench for twin in matched(loaded, bare)])
    elif tool is not None:
        measured = measured - body @ tool.parameters()[:4]
    columns = np.concatenate([body, np.broadcast_to(np.eye(6), (len(loaded), 6, 6))], axis=2)
    gained = body @ np.linalg.lstsq(columns.reshape(-1, 10), measured.reshape(-1), rcond=None)[0][:4]
    gain = np.full(6, gain_uncertainty)
    return _fit(measured, columns, gained, gain, "the wrist sensor", together=True)


def weight_columns(gravity: Floats) -> Floats:
    """Return (6, 4): wrench of a body at rest per mass and first moments; ``gravity`` (3,) in the body's frame."""
    x, y, z = gravity
    columns = np.zeros((6, 4))
    columns[:3, 0] = gravity
    columns[3:, 1:] = -np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return columns


def matched(loaded: Sequence[Pose], bare: Sequence[Pose]) -> list[Pose]:
    """Return the bare pose of every loaded one; refuse (``other_poses``) where there is none within 0.02 rad."""
    found = []
    for pose in loaded:
        best = min(bare, key=lambda other: float(np.abs(other.position - pose.position).max()), default=None)
        far = math.inf if best is None else float(np.abs(best.position - pose.position).max())
        if best is None or far > SAME_POSE_RAD:
            raise Refused(
                f"pose {pose.number} was not crossed with the bare tool: the nearest is {far:.3g} rad away",
                reason="other_poses",
                where="payload",
                remedy="Cross the same poses with and without the payload, or leave the bare ones out",
            )
        found.append(best)
    return found


def _fit(
    measured: Floats, columns: Floats, gained: Floats, share: Floats, method: str, *, together: bool = False
) -> PayloadFit:
    """Weighted least squares over poses (k, n) and columns (k, n, p), delete-one-pose jackknife, gains on top."""
    where = f"payload by {method}"
    used = np.isfinite(measured)
    k, n = measured.shape
    if k < FEWEST_POSES or not used.any():
        raise Refused(
            f"{k} poses are too few",
            reason="too_few_poses",
            where=where,
            remedy=f"Cross {FEWEST_POSES} poses at least, in which the payload loads the joints differently",
        )
    values, left = np.where(used, measured, 0.0), np.where(used[:, :, None], columns, 0.0)
    sigma = np.ones(n)
    for _ in range(4):  # weights from the residual, as for the arm itself
        answer, condition = _least_squares(left / sigma[None, :, None], values / sigma)
        residual = np.where(used, measured - columns @ answer, 0.0)
        rms = np.sqrt(np.sum(residual**2, axis=0) / np.maximum(used.sum(axis=0), 1))
        sigma = np.maximum(rms, LEAST_NOISE * float(np.abs(values).max()) + 1e-12)
    if condition > CONDITION:
        raise Refused(
            f"the poses do not tell mass and centre apart (condition number {condition:.3g})",
            reason="not_identifiable",
            where=where,
            remedy="Add poses that turn the flange about a horizontal axis, and some with the arm stretched out",
        )
    weighted, right = left / sigma[None, :, None], values / sigma
    shifts = np.array([_least_squares(np.delete(weighted, i, 0), np.delete(right, i, 0))[0] - answer for i in range(k)])
    sources = [Source("poses", math.sqrt((k - 1) / k) * (shifts - shifts.mean(axis=0)).T, float(k - 1))]
    gain = _gains(weighted, gained / sigma, used, share, together)
    if gain.size and float(np.abs(gain).max()) > 0.0:
        sources.append(Source(TORQUE_GAIN if not together else "sensor_gain", gain))

    def estimate(value: float, gradient: Floats, unit: str, kind: str) -> Estimate:
        return combine(value, gradient, sources, unit, kind)

    unit = np.eye(len(answer))
    mass = estimate(float(answer[0]), unit[0], "kg", "mass")
    centre = None
    if answer[0] > 2.0 * mass.standard_uncertainty:
        slopes = [unit[i] / answer[0] - unit[0] * answer[i] / answer[0] ** 2 for i in (1, 2, 3)]
        centre = tuple(
            estimate(float(answer[i] / answer[0]), slope, "m", "length")
            for i, slope in zip((1, 2, 3), slopes, strict=True)
        )
    return PayloadFit(mass, answer[1:4].copy(), centre, rms, k, method)


def _gains(weighted: Floats, gained: Floats, used: Floats, share: Floats, together: bool) -> Floats:
    """What a gain that is off by its uncertainty does to the answer, one column per gain."""
    k, n = gained.shape
    groups = [np.arange(n)] if together else [np.array([j]) for j in range(n)]
    columns = []
    for group in groups:
        change = np.zeros((k, n))
        change[:, group] = np.where(used[:, group], gained[:, group] * share[group], 0.0)
        columns.append(_least_squares(weighted, change)[0])
    return np.stack(columns, axis=1) if columns else np.zeros((weighted.shape[2], 0))


def _least_squares(columns: Floats, values: Floats) -> tuple[Floats, float]:
    rows = columns.reshape(-1, columns.shape[-1])
    length = np.linalg.norm(rows, axis=0)
    length[length <= 0.0] = 1.0
    answer, _, _, singular = np.linalg.lstsq(rows / length, values.reshape(-1), rcond=1e-10)
    least = float(singular[-1])
    return np.asarray(answer / length), float(singular[0]) / least if least > 0.0 else math.inf


__all__ = ["PayloadFit", "identify_payload", "matched", "weigh", "weight_columns"]
