"""What parameters identified on one trajectory are worth on another: the motor's torque, predicted from motion alone.

The motor's side (torque scale, rotor inertia, friction) and the link's side (inertia, gravity) are identified on the
phase ``train`` in the fit's own band, and predict the phase ``hold_out`` in the evaluation band. Nothing measured of
the torque enters the prediction, so an error of either side counts.

The gain of the transducer cancels: parameters and torque scale take it up and give it back. What remains is scatter
along the record (delete-one-block jackknife) and the alignment of drive and DAQ.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.joint_evidence import Floats, JointEvidence
from bench.acceptance.joint_gates import check_drift
from bench.acceptance.joint_plausible import check_load, check_scale
from bench.acceptance.joint_scatter import Values
from bench.acceptance.measured import ALIGNMENT, Measured
from bench.archive import Run
from bench.errors import Refused
from bench.identify.alignment import Alignment
from bench.identify.filtering import LowPass
from bench.identify.holdout import HoldOutReport, hold_out
from bench.identify.joint_dynamics import JointFit, identify
from bench.identify.joint_laws import Law, link_side, motor_side
from bench.identify.joint_record import JointRecord, alignment_of, pieces
from bench.profile import JointCriterion, JointLoad

Moving = NDArray[np.bool_]

TRAIN, HOLD_OUT = "train", "hold_out"
#: Rows left out as stiction may be this share of a phase.
MOST_EXCLUDED = 0.3
BLOCKS = 10
FEWEST_ROWS = 20 * BLOCKS
SCATTER = "scatter along the record"


@dataclass(frozen=True)
class HoldOut:
    """Torque of the motor on the hold-out, joint-referred [N.m]: measured and predicted (m,), and which rows move.

    ``slope`` is the RMS rate of change of what was measured [N.m/s].
    """

    measured: Floats
    predicted: Floats
    moving: Moving
    motor: JointFit
    link: JointFit
    report: HoldOutReport
    alignment: Alignment
    slope: float

    @property
    def excluded_share(self) -> float:
        return 1.0 - float(np.mean(self.moving))

    def rms(self, *, moving: bool = False) -> float:
        """RMS error [N.m] over all rows, or those that move."""
        return _rms((self.measured - self.predicted)[self.moving if moving else slice(None)])

    @property
    def baselines(self) -> dict[str, float]:
        """RMS error [N.m] of predicting nothing, and of the best constant."""
        return {"zero": _rms(self.measured), "mean": float(np.std(self.measured))}


def hold_out_rms(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """RMS error over all rows as a share of the rated torque [1]."""
    found, rated = evidence_of(evidence), evidence.facts.rated_torque
    return _value(found, lambda measured, error, moving: _rms(error) / rated, found.slope / rated)


def hold_out_relative_error(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """Error of the rows that move as a share of their torque, ``||tau - tau_hat|| / ||tau||`` [1]."""
    found = evidence_of(evidence)
    norm = _rms(found.measured[found.moving])
    return _value(
        found, lambda measured, error, moving: _rms(error[moving]) / _rms(measured[moving]), found.slope / norm
    )


def hold_out_against_baseline(evidence: JointEvidence, criterion: JointCriterion) -> Values:
    """RMS error over all rows as a share of that of the best trivial prediction, zero or the mean [1]."""
    found = evidence_of(evidence)

    def share(measured: Floats, error: Floats, moving: Moving) -> float:
        return _rms(error) / min(_rms(measured), float(np.std(measured)))

    return _value(found, share, found.slope / min(found.baselines.values()))


def evidence_of(evidence: JointEvidence) -> HoldOut:
    """Identify on ``train`` and predict ``hold_out``; made once for all criteria.

    Raises
    ------
    Refused
        ``no_segment``; ``repeat``: the hold-out is the trajectory of the fit; ``excluded``: too much of it is stiction;
        ``hardly_moves`` and others: drive and DAQ cannot be aligned; ``other_load``, ``torque_scale``: far from what is
        known otherwise; what the identification refuses.
    """
    kept = evidence.kept.get(HOLD_OUT)
    if not isinstance(kept, HoldOut):
        kept = evidence.kept[HOLD_OUT] = _found(evidence)
    return kept


def _found(evidence: JointEvidence) -> HoldOut:
    for phase in (TRAIN, HOLD_OUT):
        evidence.stretches(phase)  # says what is missing by its name
    facts, run = evidence.facts, evidence.run
    load = facts.specimen
    gravity = isinstance(load, JointLoad) and load.gravity_moment.to("N.m") > 0.0
    band = LowPass(evidence.analysis.cutoff_ratio * facts.rig.joint.bandwidth.to("Hz"))
    alignment = alignment_of(run, (TRAIN, HOLD_OUT))
    law = _law(evidence, loaded=gravity)
    motor = identify(law, (r.motor_side() for r in _pieces(run, TRAIN, alignment)), band)
    link = identify(link_side(gravity=gravity), (r.link_side() for r in _pieces(run, TRAIN, alignment)), band)
    check_load(evidence, link)
    check_scale(evidence, motor)
    judged = LowPass(evidence.analysis.evaluation_band.to("Hz"))
    report = hold_out(
        motor, (r.motor_side() for r in _pieces(run, HOLD_OUT, alignment)), judged, rated=facts.rated_torque
    )
    scale = motor.linear.value("torque_scale")
    measured, predicted, moving, slopes = [], [], [], []
    for record in _pieces(run, HOLD_OUT, alignment):
        torque, explained, moves = motor.compare(record.motor_side(), judged)
        carried, expected, _ = link.compare(record.link_side(), judged)
        measured.append(torque)
        predicted.append(explained + (expected - carried) / scale)
        moving.append(moves)
        slopes.append(np.gradient(torque) * record.rate_hz / judged.step(record.rate_hz))
    found = HoldOut(
        np.concatenate(measured),
        np.concatenate(predicted),
        np.concatenate(moving),
        motor,
        link,
        report,
        alignment,
        _rms(np.concatenate(slopes)),
    )
    _enough(evidence, found)
    again = identify(link_side(gravity=gravity), (r.link_side() for r in _pieces(run, HOLD_OUT, alignment)), band)
    drift = again.linear.value("offset") - link.linear.value("offset")
    check_drift(drift, evidence, "between the two trajectories")
    return found


def _enough(evidence: JointEvidence, found: HoldOut) -> None:
    if found.excluded_share > MOST_EXCLUDED or found.motor.excluded_share > MOST_EXCLUDED:
        raise Refused(
            f"{found.excluded_share:.0%} of the hold-out and {found.motor.excluded_share:.0%} of the fit lie in the "
            f"stiction zone, {MOST_EXCLUDED:.0%} are allowed",
            reason="excluded",
            where=evidence.where,
            remedy="Excite by a faster motion: what was left out is not judged",
        )
    if len(found.measured) < FEWEST_ROWS:
        raise Refused(
            f"{len(found.measured)} rows of the hold-out are too few to tell its scatter",
            reason="too_short",
            where=evidence.where,
            remedy="Hold out more periods",
        )


def _pieces(run: Run, phase: str, alignment: Alignment) -> Iterator[JointRecord]:
    return pieces(run, (phase,), alignment=alignment)


def _law(evidence: JointEvidence, *, loaded: bool) -> Law:
    """The motor's side by the friction model of the analysis; a load that pulls makes friction depend on it.

    A Stribeck velocity is not linear in the record and hardly moves it: it has to be known from a friction sweep.
    """
    model = evidence.analysis.friction
    if model != "stribeck":
        return motor_side("asymmetric" if model == "asymmetric" else "symmetric", load_dependent=loaded)
    file = evidence.facts.feedforward
    if file is None:
        raise Refused(
            "a Stribeck model needs the Stribeck velocity, and the archive holds no feed-forward file that states it",
            reason="no_stribeck_velocity",
            where=evidence.where,
            remedy='Excite with a feed-forward file, or write friction = "coulomb_viscous" in the criteria',
        )
    return motor_side(load_dependent=loaded, stribeck_velocity=file.friction.stribeck_velocity.to("rad/s"))


def _value(found: HoldOut, figure: Callable[[Floats, Floats, Moving], float], slope: float) -> Values:
    error = found.measured - found.predicted
    value = figure(found.measured, error, found.moving)
    blocks = np.array_split(np.arange(len(error)), BLOCKS)
    left = [np.concatenate([other for other in blocks if other is not block]) for block in blocks]
    without = np.array([figure(found.measured[rows], error[rows], found.moving[rows]) for rows in left])
    scatter = math.sqrt((BLOCKS - 1) / BLOCKS * float(np.sum((without - without.mean()) ** 2)))
    shifted = found.alignment.standard_uncertainty_s * slope
    budget = {SCATTER: scatter, ALIGNMENT: math.hypot(value, shifted) - value}
    one = Measured(value, budget=budget, degrees_of_freedom={SCATTER: BLOCKS - 1.0})
    return [(0, math.nan, one)]


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2)))
