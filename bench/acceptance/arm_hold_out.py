"""Identify an arm on one trajectory of a run and predict another: how well, at what price of consistency."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_evidence import ArmEvidence
from bench.acceptance.arm_values import ArmValue, Values
from bench.acceptance.measured import SCATTER, Measured
from bench.errors import Refused
from bench.identify.arm_law import ArmLaw
from bench.identify.arm_nominal import NominalArm
from bench.identify.arm_physical import PhysicalFit, make_consistent
from bench.identify.arm_problem import ROWS_HANG_TOGETHER, Filtered, filtered, regress
from bench.identify.arm_stretch import ArmStretch
from bench.profile import ArmCriterion

Floats = NDArray[np.float64]

TRAIN, HOLD_OUT = "train", "hold_out"
KEPT = "arm hold-out"
#: Blocks the scatter of a figure is told from.
BLOCKS = 12
#: More of the rows in the stiction zone leave no verdict.
MOST_EXCLUDED = 0.5
#: Positions of two trajectories that correlate so well over all joints are one trajectory.
REPEAT = 0.95
SKETCH_HZ = 20.0
#: A torque that changes by less than this share of the rated one tells nothing.
LEAST_TORQUE = 1e-6


@dataclass(frozen=True)
class ArmHoldOut:
    """Measured and predicted torques of the hold-out, in the evaluation band.

    Parameters
    ----------
    measured, predicted, plain : (k, n)
        ``predicted`` by consistent parameters, ``plain`` by least squares [N.m].
    moving : (k, n)
    rated : (n,)
    physical : PhysicalFit
    condition_number : float
    excluded_share : float
    cutoff_hz : float
    repeat : float
        Correlation of both trajectories.
    lengths : (n,)
        Of pre-sliding [rad]; 0 where Coulomb friction follows the sign of the speed.
    """

    measured: Floats
    predicted: Floats
    plain: Floats
    moving: NDArray[np.bool_]
    rated: Floats
    physical: PhysicalFit
    condition_number: float
    excluded_share: float
    cutoff_hz: float
    repeat: float
    lengths: Floats


def hold_out_relative_error(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """``||tau - tau_hat|| / ||tau||`` over all joints by their rated torque, moving rows [1]."""
    found = evidence_of(evidence)

    def figure(rows: NDArray[np.intp]) -> float:
        use = found.moving[rows]
        error = ((found.measured - found.predicted) / found.rated)[rows][use]
        return _norm(error) / _norm((found.measured / found.rated)[rows][use])

    return [_value(found, figure)]


def hold_out_rms(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """RMS error of a joint as a share of its rated torque [1]; one value per joint."""
    found = evidence_of(evidence)
    error = (found.measured - found.predicted) / found.rated
    return [_value(found, lambda rows, j=j: _rms(error[rows, j]), joint=j) for j in range(error.shape[1])]  # type: ignore[misc]  # bound by default


def hold_out_against_baseline(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """RMS error of a joint over that of the best trivial prediction, zero or the mean [1]; one value per joint."""
    found = evidence_of(evidence)
    error = found.measured - found.predicted

    def figure(rows: NDArray[np.intp], j: int) -> float:
        torque = found.measured[rows, j]
        trivial = min(_rms(torque), float(np.std(torque)))
        if trivial <= LEAST_TORQUE * found.rated[j]:
            raise Refused(
                f"the torque of {evidence.facts.names[j]} hardly changes in the hold-out: a constant predicts it",
                reason="no_torque",
                where=evidence.where,
                remedy="Look at the servo's current, and hold out a trajectory that moves every joint",
            )
        return _rms(error[rows, j]) / trivial

    return [_value(found, lambda rows, j=j: figure(rows, j), joint=j) for j in range(error.shape[1])]  # type: ignore[misc]  # bound by default


def excitation_condition_number(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Condition number of the base regressor recorded, columns scaled to unit length [1].

    It is a figure of the motion as recorded: encoders of a microradian leave no uncertainty worth a name.
    """
    return [ArmValue(0, Measured(evidence_of(evidence).condition_number, budget={"recorded motion": 0.0}))]


def physical_consistency_cost(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Points of relative error that consistency costs on the hold-out, nothing where it gains [1]."""
    found = evidence_of(evidence)

    def figure(rows: NDArray[np.intp]) -> float:
        use = found.moving[rows]
        scale = _norm((found.measured / found.rated)[rows][use])
        with_it = _norm(((found.measured - found.predicted) / found.rated)[rows][use])
        without = _norm(((found.measured - found.plain) / found.rated)[rows][use])
        return max(with_it - without, 0.0) / scale

    return [_value(found, figure)]


def evidence_of(evidence: ArmEvidence) -> ArmHoldOut:
    """Identify on ``train`` and predict ``hold_out``; made once for all criteria.

    Raises
    ------
    Refused
        ``no_segment``; ``repeat``: the hold-out is the trajectory of the fit; ``excluded``: too much of it is stiction;
        what the identification refuses.
    """
    kept = evidence.kept.get(KEPT)
    if not isinstance(kept, ArmHoldOut):
        kept = evidence.kept[KEPT] = _found(evidence)
    return kept


def _found(evidence: ArmEvidence) -> ArmHoldOut:
    train, held = evidence.stretches(TRAIN), evidence.stretches(HOLD_OUT)
    alike = correlation(train, held)
    if alike >= REPEAT:
        raise Refused(
            f"the hold-out is the trajectory of the fit (their positions correlate by {alike:.3f}): a repeat predicts "
            "itself",
            reason="repeat",
            where=evidence.where,
            remedy="Hold out another trajectory",
        )
    from bench.identify.arm_base import BaseParameters

    facts, analysis = evidence.facts, evidence.analysis
    rated = facts.ratings.rated_torque
    law = ArmLaw(evidence.nominal(), coupling=facts.drives.coupling)
    bandwidth = facts.rig.arm.bandwidth
    cutoff = analysis.evaluation_band.to("Hz") if bandwidth is None else analysis.cutoff_ratio * bandwidth.to("Hz")
    problem = regress(law, train, cutoff, rated)
    nominal = NominalArm.of(
        evidence.nominal().description,
        motor_inertia=facts.drives.motor_inertia,
        viscous=facts.ratings.viscous,
        coulomb=facts.ratings.coulomb,
    )
    physical = make_consistent(*problem.weighted(), nominal, noise=ROWS_HANG_TOGETHER)
    plain = problem.least_squares()
    judged = [filtered(law, one, evidence.band(one.rate_hz), lengths=problem.lengths) for one in held]
    found = ArmHoldOut(
        _joined(judged, lambda one: one.torque),
        _joined(judged, lambda one: one.columns @ physical.parameters),
        _joined(judged, lambda one: one.columns @ plain),
        np.concatenate([one.moving for one in judged]),
        rated,
        physical,
        problem.condition_number(BaseParameters.of(law).columns),
        max(problem.excluded_share, 1.0 - float(np.mean([one.moving.mean() for one in judged]))),
        cutoff,
        alike,
        problem.lengths,
    )
    if found.excluded_share > MOST_EXCLUDED:
        raise Refused(
            f"{found.excluded_share:.0%} of the rows lie in the stiction zone, {MOST_EXCLUDED:.0%} are allowed",
            reason="excluded",
            where=evidence.where,
            remedy="Excite by a faster motion: what was left out is not judged",
        )
    return found


def correlation(first: Sequence[ArmStretch], second: Sequence[ArmStretch]) -> float:
    """How alike two trajectories are: the largest correlation of all joints' positions over any shift in time."""
    best = -1.0
    for one in first:
        for other in second:
            a, b = _sketch(one), _sketch(other)
            size = 1 << (len(a) + len(b) - 1).bit_length()
            product = np.sum(np.fft.rfft(a, size, axis=0) * np.conj(np.fft.rfft(b, size, axis=0)), axis=1)
            across = np.fft.irfft(product, size)
            # normalised by the shorter one's whole length: what hangs over counts as nothing alike
            scale = min(float(np.sum(a**2)), float(np.sum(b**2)))
            best = max(best, float(across.max()) / scale if scale > 0.0 else -1.0)
    return min(best, 1.0)


def _sketch(one: ArmStretch) -> Floats:
    step = max(1, round(one.rate_hz / SKETCH_HZ))
    rows = one.position[::step]
    rows = rows - rows.mean(axis=0)
    spread = rows.std(axis=0)
    return np.asarray(rows / np.where(spread > 1e-6, spread, 1.0))


def _joined(judged: Sequence[Filtered], of: Callable[[Filtered], Floats]) -> Floats:
    return np.concatenate([of(one) for one in judged])


def _value(found: ArmHoldOut, figure: Callable[[NDArray[np.intp]], float], joint: int | None = None) -> ArmValue:
    """A figure over all rows with the scatter of its blocks (delete-one jackknife)."""
    every = np.arange(len(found.measured))
    value = figure(every)
    left = [np.setdiff1d(every, block) for block in np.array_split(every, BLOCKS)]
    without = np.array([figure(rows) for rows in left])
    scatter = math.sqrt((BLOCKS - 1) / BLOCKS * float(np.sum((without - without.mean()) ** 2)))
    one = Measured(value, budget={SCATTER: scatter}, degrees_of_freedom={SCATTER: BLOCKS - 1.0})
    return ArmValue(0 if joint is None else joint + 1, one, joint=joint)


def record(evidence: ArmEvidence) -> dict[str, Any]:
    """Return how the hold-out was analysed, as plain data; empty where none was."""
    found = evidence.kept.get(KEPT)
    if not isinstance(found, ArmHoldOut):
        return {}
    error = found.measured - found.predicted
    return {
        "hold_out": {
            "cutoff_Hz": found.cutoff_hz,
            "excluded_share": found.excluded_share,
            "trajectory_correlation": found.repeat,
            "condition_number": found.condition_number,
            "pre_sliding_rad": found.lengths.tolist(),
            "rms_of_rated": [_rms(error[:, j] / found.rated[j]) for j in range(error.shape[1])],
            "relative_error_moving": [
                _norm(error[use, j]) / _norm(found.measured[use, j]) if use.any() else math.nan
                for j, use in enumerate(found.moving.T)
            ],
            "zero_of_rated": [_rms(found.measured[:, j] / found.rated[j]) for j in range(error.shape[1])],
        },
        "physical": {
            "feasible_before": found.physical.feasible_before,
            "at_bound": list(found.physical.at_bound),
            "smallest_eigenvalue": float(found.physical.eigenvalues.min()),
            "status": found.physical.status,
        },
    }


def explain(evidence: ArmEvidence, criterion: ArmCriterion) -> str:
    """Say which joint is predicted worst, and by what its error goes with."""
    found = evidence_of(evidence)
    if criterion.metric == "excitation_condition_number":
        return (
            f"the record tells the parameters apart by a condition number of {found.condition_number:.3g} only: design "
            "another trajectory, or look which joints hardly moved"
        )
    if criterion.metric == "physical_consistency_cost":
        return (
            f"least squares explains the record by parameters no arm has ({', '.join(found.physical.at_bound)} at the "
            "bound): something the model lacks is in the torques. Look at springs, ripple and torque constants"
        )
    share = np.sqrt(np.mean(((found.measured - found.predicted) / found.rated) ** 2, axis=0))
    joint = int(np.argmax(share))
    error, slow = (found.measured - found.predicted)[:, joint], ~found.moving[:, joint]
    name = evidence.facts.names[joint]
    at_rest = float(np.sum(error[slow] ** 2)) / max(float(np.sum(error**2)), 1e-300)
    if at_rest > 0.5:
        return f"{name} is predicted worst, and {at_rest:.0%} of its error's square lies in the stiction zone: friction"
    return (
        f"{name} is predicted worst ({share[joint]:.2%} of its rated torque): the model or the excitation is not "
        "sufficient for it"
    )


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _norm(values: Floats) -> float:
    return float(np.linalg.norm(values))
