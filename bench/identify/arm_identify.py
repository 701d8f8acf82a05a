"""From an arm's archived runs to what a controller loads: links, motors, friction from the slow speeds up.

::

    found = identify_arm(excitation, slow=[tracking])
    print("\\n".join(found.lines()))
    found.feedforward().write(Path("full_arm.feedforward.toml"))

The excitation tells links, motors and friction of fast motion. What it leaves of the torque at every speed, with the
slow runs' beside it, tells friction where it decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.arm import arm_description, drivetrain, ratings
from bench.identify.arm_export import ArmFeedForwardFile, Reach, assemble
from bench.identify.arm_friction import SpeedBins
from bench.identify.arm_law import ArmLaw, split
from bench.identify.arm_nominal import LINK, NominalArm
from bench.identify.arm_physical import PhysicalFit, make_consistent
from bench.identify.arm_problem import ROWS_HANG_TOGETHER, ArmProblem, filtered, regress
from bench.identify.arm_stretch import ArmRows, ArmStretch, arm_of, stretches
from bench.identify.estimate import Estimate
from bench.identify.filtering import LowPass
from bench.identify.friction_fit import FrictionFit
from bench.identify.joint_runs import Origin, origin_of
from bench.models.rigid import ArmModel
from bench.profile import ArmProfile, ArmRig, Payload, parse_profile

Floats = NDArray[np.float64]

TRAIN, HOLD_OUT = ("train",), ("hold_out",)
SLOW = ("crossing", "uncompensated", "compensated")
"""Phases whose joints slide slowly."""
FRICTION = ("fv", "fs", "off", "fvm", "fsm", "fx")
SPECIMEN_TEXT = "specimen.toml"
CUTOFF_RATIO = 0.5
JUDGED_HZ = 10.0


@dataclass(frozen=True)
class ArmIdentification:
    """What runs of an arm tell.

    Parameters
    ----------
    profile : ArmRig or ArmProfile
    physical : PhysicalFit
    friction : tuple of FrictionFit
        Per joint.
    reach : Reach
    sources : tuple of Origin
    hold_out_error : float or None
        Relative error on the hold-out, moving rows, all joints by their rated torque [1].
    residual : (n,) or None
        Root mean square left there per joint [N.m].
    torque_scale : tuple of Estimate or None
        What the torques were multiplied by.
    payload : Payload or None
        What was on the tool.
    """

    profile: ArmRig | ArmProfile
    physical: PhysicalFit
    friction: tuple[FrictionFit, ...]
    reach: Reach
    sources: tuple[Origin, ...]
    hold_out_error: float | None
    residual: Floats | None
    torque_scale: tuple[Estimate, ...] | None
    payload: Payload | None

    def feedforward(self, *, name: str = "", version: int = 1) -> ArmFeedForwardFile:
        """Return the feed-forward file; raises as :func:`bench.identify.arm_export.assemble`."""
        return assemble(
            self.physical,
            self.profile,
            reach=self.reach,
            sources=self.sources,
            friction=self.friction,
            torque_scale=self.torque_scale,
            hold_out_error=self.hold_out_error,
            residual=self.residual,
            payload=self.payload,
            name=name,
            version=version,
        )

    def lines(self) -> list[str]:
        """Say it in a few lines."""
        told = self.physical.lines()
        if self.hold_out_error is not None:
            told.append(f"hold-out, moving: relative error {100 * self.hold_out_error:.2f} %")
        for name, one in zip(self.physical.names, self.friction, strict=True):
            told.append(f"{name}: {one.model}, {float(one.torque(0.02)):.3g} N.m at 0.02 rad/s")
        return told


def identify_arm(
    excitation: Any, slow: Sequence[Any] = (), *, torque_scale: Iterable[Estimate] | None = None
) -> ArmIdentification:
    """Identify an arm.

    Parameters
    ----------
    excitation : Run
        With ``train`` phases, and ``hold_out`` ones where the error is to be stated.
    slow : sequence of Run
        Runs in which joints slide slowly both ways: trackings, or crossings of poses.
    torque_scale : iterable of Estimate, optional
        Per joint, see :mod:`bench.identify.arm_gains`; 1 by default.

    Raises
    ------
    Refused
        ``no_rig``, ``no_phase``, what the regression, the solver and the friction fits refuse.
    """
    profile = arm_of(excitation)
    scales = None if torque_scale is None else tuple(torque_scale)
    scale = None if scales is None else np.array([one.value for one in scales])
    payload = _payload(excitation)
    drives, rated = drivetrain(profile.arm), ratings(profile.arm)
    description = arm_description(profile, payload)
    law = ArmLaw(ArmModel(description), coupling=drives.coupling)
    bandwidth = profile.arm.bandwidth
    cutoff = JUDGED_HZ if bandwidth is None else CUTOFF_RATIO * bandwidth.to("Hz")
    rows = ArmRows(excitation, drives)
    train = list(stretches(rows, profile, TRAIN))
    problem = regress(law, train, cutoff, rated.rated_torque, scale=scale)
    nominal = NominalArm.of(
        description, motor_inertia=drives.motor_inertia, viscous=rated.viscous, coulomb=rated.coulomb
    )
    physical = make_consistent(*problem.weighted(), nominal, noise=ROWS_HANG_TOGETHER)
    rigid = _without_friction(law, physical.parameters)
    bins, used = SpeedBins(law.n), list(train)
    for one in train:
        bins.add(one, _friction(law, rigid, one, scale))
    sources = [origin_of(excitation)]
    for run in slow:
        carried = _carrying(rigid, profile, payload, _payload(run))
        names = [name for name in SLOW if any(phase.name == name for phase in run.phases)]
        for one in stretches(ArmRows(run, drives), profile, names):
            bins.add(one, _friction(law, carried, one, scale))
            used.append(one)
        sources.append(origin_of(run))
    error, residual = _judged(rows, profile, problem, physical, scale)
    return ArmIdentification(
        profile, physical, bins.fit_all(), Reach.of(used), tuple(sources), error, residual, scales, payload
    )  # fmt: skip


def _without_friction(law: ArmLaw, parameters: Floats) -> Floats:
    """The parameters with all friction taken away."""
    keep = np.array([split(name)[0] not in FRICTION for name in law.names])
    return np.where(keep, parameters, 0.0)


def _friction(law: ArmLaw, rigid: Floats, one: ArmStretch, scale: Floats | None) -> Floats:
    """What the rigid arm leaves of the torque (k, n)."""
    torque = one.torque if scale is None else one.torque * scale
    return np.asarray(torque - law.columns(one.position, one.velocity, one.acceleration) @ rigid)


def _payload(run: Any) -> Payload | None:
    text = run.texts.get(SPECIMEN_TEXT)
    specimen = parse_profile(text, run.path)[0] if text is not None else None
    return specimen if isinstance(specimen, Payload) and specimen.body.mass.magnitude > 0.0 else None


def _carrying(rigid: Floats, profile: ArmRig | ArmProfile, before: Payload | None, now: Payload | None) -> Floats:
    """The parameters with another payload on the tool."""
    if before == now:
        return rigid
    last = [arm_description(profile, load).joints[-1].link.parameters() for load in (before, now)]
    first = LINK * (len(profile.arm.joints) - 1)
    changed = rigid.copy()
    changed[first : first + LINK] += last[1] - last[0]
    return changed


def _judged(
    rows: ArmRows, profile: ArmRig | ArmProfile, problem: ArmProblem, physical: PhysicalFit, scale: Floats | None
) -> tuple[float | None, Floats | None]:
    """Relative error on the hold-out, moving, and what is left there per joint; nothing where there is none."""
    if not any(phase.name in HOLD_OUT for phase in rows.run.phases):
        return None, None
    errors, torques, moving = [], [], []
    for one in stretches(rows, profile, HOLD_OUT):
        band = LowPass(min(JUDGED_HZ, 0.4 * one.rate_hz))
        found = filtered(problem.law, one, band, scale=scale, lengths=problem.lengths)
        errors.append(found.torque - found.columns @ physical.parameters)
        torques.append(found.torque)
        moving.append(found.moving)
    error, torque, moves = np.concatenate(errors), np.concatenate(torques), np.concatenate(moving)
    rated = problem.rated
    share = np.linalg.norm((error / rated)[moves]) / np.linalg.norm((torque / rated)[moves])
    return float(share), np.sqrt(np.mean(error**2, axis=0))
