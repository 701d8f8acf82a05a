"""Fit a contact model to one press or to several together, and say how sure it is.

::

    fit = fit_contact(presses, model="qlv2", contact="fit", frame=Frame(200.0, 5.0), reference_depth_mm=5.0)
    print(fit.force_at(5.0, 2.0), fit.stiffness_at(5.0, 2.0))
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.identify import budget
from bench.identify.blas import single_thread
from bench.identify.contact_point import DEFAULT_RULE, BaselineRule, ContactPoint
from bench.identify.curve import Curve
from bench.identify.estimate import Estimate, Source, combine, covariance
from bench.identify.fit_checks import check_bounds, confounded, curves_of, without_idle_terms
from bench.identify.frame import RIGID, Frame, measured_speed
from bench.identify.memory import REFUSED, check_memory
from bench.identify.press import Press, check_same_kind
from bench.identify.problem import Problem
from bench.identify.solve import solve
from bench.models.contact import LAWS, ShapeParameter, evaluate, ramp_force

Floats = NDArray[np.float64]

EXTRAPOLATION = 1.05


@dataclass(frozen=True)
class ContactFit:
    """A fitted contact model.

    Parameters
    ----------
    model : str
        The law fitted, one of :data:`bench.models.contact.LAWS`.
    parameters : mapping of str to Estimate
        ``F_ref`` [N] at ``reference_depth_mm`` (the mean over presses; for a viscoelastic law the *instantaneous*
        force), then the law's shape parameters.
    names : tuple of str
        Order of ``covariance``.
    covariance : (p, p) float64
        Of the parameters, all sources together.
    rms_N : float
        Root mean square of the residuals of all presses [N].
    contacts : tuple of ContactPoint
        One per press; the fitted ones where the contact point was free (``method`` is then ``fit``).
    scales_N : tuple of float
        ``F_ref`` of each press; one value when they share it.
    sources : tuple of Source
        What the covariance is made of.
    notes : tuple of str
        What a reader of the numbers should know.
    """

    model: str
    parameters: Mapping[str, Estimate]
    names: tuple[str, ...]
    covariance: Floats
    reference_depth_mm: float
    rms_N: float
    contacts: tuple[ContactPoint, ...]
    scales_N: tuple[float, ...]
    sources: tuple[Source, ...]
    frame: Frame
    greatest_depth_mm: float
    curves: tuple[Curve, ...] = field(repr=False)
    notes: tuple[str, ...] = ()
    steps: Mapping[str, Any] = field(default_factory=dict)

    @property
    def values(self) -> Floats:
        """Parameter values (p,) in the order of ``names``."""
        return np.array([self.parameters[name].value for name in self.names])

    def predict(self, time_s: Floats, depth_mm: Floats, speed_mm_s: Floats | None = None) -> Floats:
        """Force [N] (n,) along a path of depth [mm] from before contact on; speed [mm/s] measured unless given."""
        speed = measured_speed(time_s, depth_mm) if speed_mm_s is None else speed_mm_s
        return self.predict_with(self.values, time_s, depth_mm, speed)

    def predict_with(self, values: Floats, time_s: Floats, depth_mm: Floats, speed_mm_s: Floats) -> Floats:
        """:meth:`predict` with other parameter values (p,)."""
        return evaluate(
            self.model, values[1:].tolist(), time_s, depth_mm, speed_mm_s,
            F_ref=float(values[0]), d_ref=self.reference_depth_mm,
        )  # fmt: skip

    def force_at(self, depth_mm: float, speed_mm_s: float, *, extrapolate: bool = False) -> Estimate:
        """Force [N] at the end of a ramp from contact to a depth at constant speed, with the full covariance.

        Raises
        ------
        Refused
            ``extrapolation`` beyond the measured depth, unless ``extrapolate``.
        """
        return self._along_ramp(0, depth_mm, speed_mm_s, extrapolate, "N", "force")

    def stiffness_at(self, depth_mm: float, speed_mm_s: float, *, extrapolate: bool = False) -> Estimate:
        """Tangent stiffness dF/d(depth) [N/mm] there; see :meth:`force_at`."""
        return self._along_ramp(1, depth_mm, speed_mm_s, extrapolate, "N/mm", "stiffness")

    def _along_ramp(self, which: int, depth: float, speed: float, extrapolate: bool, unit: str, kind: str) -> Estimate:
        if not (depth > 0.0 and speed > 0.0):
            raise ValueError(f"a ramp to {depth} mm at {speed} mm/s is none: both are positive")
        if depth > EXTRAPOLATION * self.greatest_depth_mm and not extrapolate:
            raise Refused(
                f"{depth:g} mm lies beyond the {self.greatest_depth_mm:.3g} mm that were measured",
                reason="extrapolation",
                where=self.model,
                remedy="Press deeper, or ask for a depth within the measured range",
            )

        def value(values: Floats) -> float:
            return ramp_force(
                self.model, values[1:].tolist(), depth, speed, F_ref=float(values[0]), d_ref=self.reference_depth_mm
            )[which]

        centre = self.values
        return combine(value(centre), gradient(value, centre), self.sources, unit, kind)

    def provenance(self) -> dict[str, Any]:
        """Every step from the record to the numbers, as plain data."""
        return {
            "model": self.model,
            "reference_depth_mm": self.reference_depth_mm,
            **self.steps,
            "contacts": [contact.record() for contact in self.contacts],
            "frame_stiffness_N_mm": self.frame.stiffness_N_mm,
            "frame_expanded_uncertainty_N_mm": self.frame.expanded_uncertainty_N_mm,
            "frame_source": self.frame.source,
            "rms_N": self.rms_N,
            "notes": list(self.notes),
        }


def gradient(function: Any, values: Floats) -> Floats:
    """Derivative of a scalar function by the parameters (p,), by central differences."""
    slopes = np.empty(len(values))
    for i, value in enumerate(values):
        step = 1e-5 * max(abs(float(value)), 1e-3)
        up, down = values.copy(), values.copy()
        up[i] += step
        down[i] -= step
        slopes[i] = (function(up) - function(down)) / (2.0 * step)
    return slopes


def fit_contact(
    presses: Sequence[Press],
    *,
    model: str = "qlv2",
    contact: str | Sequence[ContactPoint] = "fit",
    frame: Frame = RIGID,
    reference_depth_mm: float | None = None,
    segments: Sequence[str] = ("rise", "hold"),
    hold_s: float | None = 10.0,
    weighting: str = "sample",
    rule: BaselineRule = DEFAULT_RULE,
    rate_hz: float | None = 100.0,
    scale: str = "per_press",
    force_relative_uncertainty: float = 0.0,
    position_relative_uncertainty: float = 0.0,
    capacity_N: float | None = None,
    memory_limit: float = REFUSED,
) -> ContactFit:
    """Fit a contact model to presses that share its shape.

    Parameters
    ----------
    presses : sequence of Press
        Replicates on one specimen, at one speed or more.
    model : str
        ``power_law``, ``damped_power_law``, ``hunt_crossley``, ``qlv1`` or ``qlv2``.
    contact : str or sequence of ContactPoint
        A method of :func:`~bench.identify.contact_point.estimate_contact`, whose answer is kept and whose uncertainty
        is carried on; ``fit``: a free parameter per press; or the points themselves.
    frame : Frame
        Machine compliance; rigid unless given.
    reference_depth_mm : float, optional
        Depth at which ``F_ref`` is stated; the least of the presses' greatest depths unless given.
    segments, hold_s, weighting, rate_hz
        What counts and how much; see :func:`~bench.identify.curve.prepare`.
    rule : BaselineRule
        Free air demanded of each press.
    scale : str
        ``per_press``: each press has its own force scale, their mean is reported and their scatter is its uncertainty.
        ``shared``: one for all.
    force_relative_uncertainty, position_relative_uncertainty : float
        Standard uncertainty (k = 1) of the calibrations as a share [1].
    capacity_N : float, optional
        The force sensor's range [N].
    memory_limit : float
        Largest share of the force [1] that a press may owe to the presses before it in its record
        (:func:`~bench.identify.memory.check_memory`); from 1 % on it is noted and counts as uncertainty.

    Returns
    -------
    ContactFit

    Raises
    ------
    Refused
        ``non_finite``, ``time_not_increasing``, ``too_few_samples``, ``saturated``, ``no_contact``,
        ``baseline_too_short``, ``loading_not_monotone``, ``bound_hit``, ``not_converged`` or ``not_recovered``.
    """
    if model not in LAWS:
        raise ValueError(f"no contact model {model!r}; there are {', '.join(LAWS)}")
    if scale not in ("per_press", "shared"):
        raise ValueError(f"no scale {scale!r}; there are per_press, shared")
    check_same_kind(presses)
    with single_thread():
        curves, notes = curves_of(
            presses, contact, frame, segments=segments, hold_s=hold_s, weighting=weighting, rule=rule, rate_hz=rate_hz,
            capacity_N=capacity_N,
        )  # fmt: skip
        greatest = [float(curve.depth_mm[curve.fitted].max()) for curve in curves]
        d_ref = min(greatest) if reference_depth_mm is None else reference_depth_mm
        problem = Problem(model, curves, d_ref, contact == "fit", scale == "per_press")
        vector, square = solve(problem)
        problem, vector, square, dropped = without_idle_terms(problem, vector, square)
        memory = check_memory(
            presses, problem.shape(vector), [problem.contact(vector, i) for i in range(len(curves))],
            [curve.contact.force_zero_N for curve in curves], d_ref=d_ref, frame=frame,
        )  # fmt: skip
        try:
            notes += dropped + check_bounds(problem, vector)
        except Refused as refusal:
            # a law at its bound proves nothing, but memory drives fits there: the bound alone would send one elsewhere
            if not memory.note():
                raise
            raise Refused(
                f"{refusal.what}; by that law {memory.note()}", reason=refusal.reason, where=refusal.where,
                remedy=refusal.remedy,
            ) from refusal  # fmt: skip
        memory.refuse_beyond(memory_limit)
        notes += [memory.note()] if memory.note() else []
        sources = budget.sources_of(
            problem, vector, frame=frame, memory=memory if memory.note() else None,
            force_relative_uncertainty=force_relative_uncertainty,
            position_relative_uncertainty=position_relative_uncertainty,
        )  # fmt: skip
    if len(curves) == 1:
        notes.append("one press: the scatter between replicates is not in the uncertainty")
    notes += confounded(problem, segments)
    described = (ShapeParameter("F_ref", "N", "force", "force at the reference depth"), *LAWS[problem.law])
    values = budget.reported(problem, vector)
    parameters = {
        item.name: combine(value, np.eye(len(values))[i], sources.found, item.unit, item.kind)
        for i, (item, value) in enumerate(zip(described, values.tolist(), strict=True))
    }
    given = [curve.contact.position_mm for curve in curves]
    contacts = tuple(_contact(problem, vector, i, sources.contact_uncertainty_mm) for i in range(len(curves)))
    return ContactFit(
        model=problem.law,
        parameters=parameters,
        names=tuple(parameters),
        covariance=covariance(sources.found, len(values)),
        reference_depth_mm=d_ref,
        rms_N=math.sqrt(square / sum(len(curve.weight) for curve in curves)),
        contacts=contacts,
        scales_N=tuple(vector[problem.shape_size : problem.shape_size + problem.scales].tolist()),
        sources=tuple(sources.found),
        frame=frame,
        greatest_depth_mm=max(greatest),
        curves=tuple(replace(curve, contact=point) for curve, point in zip(curves, contacts, strict=True)),
        notes=tuple(notes),
        steps={
            "requested_model": model,
            "presses": [press.name for press in presses],
            "contact": contact if isinstance(contact, str) else "given",
            "contact_start_mm": given,
            "segments": list(segments),
            "hold_s": hold_s,
            "weighting": weighting,
            "scale": scale,
            "rate_hz": rate_hz,
            "samples": [len(curve.weight) for curve in curves],
            "baseline_rule": {"minimum_s": rule.minimum_s, "minimum_mm": rule.minimum_mm},
            "force_relative_uncertainty": force_relative_uncertainty,
            "position_relative_uncertainty": position_relative_uncertainty,
            "memory_limit": memory_limit,
            "memory": [one.record() for one in memory.memories],
            "correlation_time_samples": sources.correlation_time,
        },
    )


def _contact(problem: Problem, vector: Floats, press: int, uncertainty_mm: Floats) -> ContactPoint:
    point = problem.curves[press].contact
    if not problem.free_contact:
        return point
    position = problem.contact(vector, press)
    curve = problem.curves[press]
    moment = float(curve.time_s[int(np.argmax(curve.path.position_mm >= position))])
    return replace(
        point, position_mm=position, standard_uncertainty_mm=float(uncertainty_mm[press]), time_s=moment, method="fit",
        free_air_mm=point.free_air_mm + position - point.position_mm,
        free_air_s=point.free_air_s + moment - point.time_s,
    )  # fmt: skip
