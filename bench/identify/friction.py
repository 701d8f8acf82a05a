"""Identify a joint's friction from constant speeds in both directions.

In steady sliding the motor's torque is what the transducer reads plus friction, ``s u = tau_t + F(w)``, with ``u`` the
joint-referred torque commanded and ``s`` the drive's torque scale. The load's weight makes ``tau_t`` vary within the
stretches, which tells ``s``; it is regressed as

    u = (tau_t + J_m w' + sign(w) (coulomb + stribeck_excess exp(-(w / stribeck_velocity)^2) + load_coefficient |tau_t|)
         + viscous w + offset + ripple) / s

with the Stribeck velocity the only parameter that is not linear. ``u`` stands on the left because what the motor adds
unknown (ripple) is in ``u`` through the controller: as a regressor it would pull ``s`` down.

::

    fit = identify_friction(run, model="stribeck")
    fit.parameters["coulomb"], fit.shares
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from bench.errors import Refused
from bench.identify.alignment import Alignment
from bench.identify.blas import single_thread
from bench.identify.estimate import Estimate
from bench.identify.friction_answer import answer
from bench.identify.friction_design import Design, assemble, shares
from bench.identify.friction_fit import FrictionFit
from bench.identify.friction_regression import FrictionRegression
from bench.identify.joint_record import RunLike
from bench.identify.joint_runs import origin_of, sweep_segments, transducer_uncertainty
from bench.identify.sweep import SETTLE_TRAVEL_RAD, Segment

MODELS = ("coulomb_viscous", "stribeck")
STICTION_ZONE = 3.0
"""A model without Stribeck is for speeds above so many Stribeck velocities: 1e-4 of the excess is left there."""
STICTION_SPEED = 0.1
"""Where the Stribeck velocity is not known, the same [rad/s]."""


def identify_friction(
    source: Sequence[Segment] | RunLike,
    model: str = "stribeck",
    *,
    torque_scale: Estimate | None = None,
    temperature_coefficient: Estimate | None = None,
    reference_temperature: float | None = None,
    motor_inertia: float = 0.0,
    slowest_speed: float | None = None,
    gain_uncertainty: float | None = None,
    zero_uncertainty: float | None = None,
    settle_travel: float = SETTLE_TRAVEL_RAD,
    ripple: bool = True,
    alignment: Alignment | None = None,
    where: str = "friction sweep",
) -> FrictionFit:
    """Fit a friction law to a friction sweep.

    Parameters
    ----------
    source : Run, or sequence of Segment
        An archived run with ``sweep`` phases, or condensed stretches. Both directions, at least three speeds each
        for ``stribeck`` and two for ``coulomb_viscous``.
    model : str
        ``coulomb_viscous`` (speeds above the stiction zone) or ``stribeck``; the steady state of LuGre is the latter.
    torque_scale : Estimate, optional
        Known scale; by default it is identified, which needs a load that varies. ``Estimate(1.0, 0.01, "1", "number")``
        says that the data sheet's torque constant is good for 1 %.
    temperature_coefficient : Estimate, optional
        Known coefficient [1/K]; by default it is identified where the record spans 3 K and tells it.
    reference_temperature : float, optional
        What the parameters refer to [degC]; by default the mean over what is used.
    motor_inertia : float
        Joint-referred [kg.m2], for what little acceleration the settled stretches have.
    slowest_speed : float, optional
        Slower stretches are left out [rad/s]. By default none for ``stribeck``, and three Stribeck velocities else.
    gain_uncertainty, zero_uncertainty : float, optional
        Standard uncertainties of the transducer: of its gain [1] and of its zero [N.m]. By default those of the run's
        rig profile; zero for stretches.
    settle_travel : float
        Travel after a change of speed that is left out [rad].
    ripple : bool
        Take the harmonics of the rotor's turn out that the slow stretches show.
    alignment : Alignment, optional
        Between the clocks of a run, where it is known already.
    where : str
        Named in errors.

    Raises
    ------
    Refused
        ``one_direction``, ``too_few_speeds``, ``load_does_not_vary``, ``no_stribeck``, ``not_identifiable`` …
    """
    if model not in MODELS:
        raise Refused(f"no friction model '{model}'", reason="model", where=where, remedy=f"Take {' or '.join(MODELS)}")
    gain, zero, origin = gain_uncertainty or 0.0, zero_uncertainty or 0.0, None
    if isinstance(source, Sequence):
        segments = source
    else:
        stated = transducer_uncertainty(source)
        gain = stated[0] if gain_uncertainty is None else gain_uncertainty
        zero = stated[1] if zero_uncertainty is None else zero_uncertainty
        origin, where = origin_of(source), str(source.path)
        segments = sweep_segments(source, alignment=alignment)
    stribeck = model == "stribeck"
    if slowest_speed is None:
        slowest_speed = 0.0 if stribeck else _stiction_zone(segments, settle_travel, where)
    selections = [segment.settled(settle_travel) for segment in segments]
    design = assemble(segments, selections, slowest_speed, motor_inertia, reference_temperature, where=where)
    _check_speeds(design, 3 if stribeck else 2, where)
    with single_thread():
        regression = FrictionRegression(design, stribeck, torque_scale, temperature_coefficient, where)
        solution = regression.fit(ripple)
        found = answer(regression, solution, gain, zero, shares(segments, selections, slowest_speed))
    return replace(found, origin=origin)


def _stiction_zone(segments: Sequence[Segment], settle_travel: float, where: str) -> float:
    try:
        fit = identify_friction(segments, "stribeck", settle_travel=settle_travel, where=where)
    except Refused:
        return STICTION_SPEED
    return STICTION_ZONE * fit.law.stribeck_velocity


def _check_speeds(design: Design, fewest: int, where: str) -> None:
    for sign in (1.0, -1.0):
        speeds = {round(abs(s), 9) for s in design.speeds if s * sign > 0.0}
        if not speeds:
            way = "positive" if sign > 0 else "negative"
            raise Refused(
                f"no settled stretch in the {way} direction",
                reason="one_direction",
                where=where,
                remedy="Sweep both directions: one alone cannot tell Coulomb friction from an offset",
            )
        if len(speeds) < fewest:
            raise Refused(
                f"{len(speeds)} settled speeds in one direction, {fewest} are needed",
                reason="too_few_speeds",
                where=where,
                remedy="Add speeds, or longer stretches so that they settle",
            )
