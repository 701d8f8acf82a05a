"""What was identified on an arm, put together as a feed-forward file and as URDF.

::

    feedforward = assemble(physical, rig, friction=bins.fit_all(), reach=reach, sources=[origin_of(run)])
    feedforward.write(Path("feedforward.toml"))
    identified = arm_feedforward_model(feedforward.profile(), rig)      # what a controller makes of it
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import bench
from bench.arm import drivetrain
from bench.arm_feedforward import ArmFriction, IdentifiedArm, arm_feedforward_model, arm_feedforward_urdf
from bench.errors import Refused
from bench.identify.arm_physical import PhysicalFit
from bench.identify.arm_stretch import ArmStretch
from bench.identify.estimate import Estimate
from bench.identify.friction_fit import FrictionFit
from bench.identify.joint_runs import Origin
from bench.models.arm_description import LinkInertia
from bench.profile import ArmFeedForward, ArmProfile, ArmRig, Payload, parse_profile
from bench.profile.arm import JOINT_UNITS
from bench.profile.feedforward_arm import FRICTION_KEYS, MOTOR_UNITS

Floats = NDArray[np.float64]

SCHEMA = "bench.arm_feedforward/1"
TEMPERATURE_REACH_K = 2.0
"""So far beyond the temperatures seen the file may be used [K], as for a single joint."""
FRICTION = ("coulomb", "viscous", "stribeck_excess", "stribeck_velocity", "offset")
NOT_NEGATIVE = ("coulomb", "viscous", "stribeck_excess")
SLOWEST = 1e-3


@dataclass(frozen=True)
class Reach:
    """Where an arm was while it was identified: arrays (n,) [rad, rad/s], temperatures [degC] or NaN."""

    position_min: Floats
    position_max: Floats
    speed_min: Floats
    speed_max: Floats
    temperature_min: float
    temperature_max: float

    @classmethod
    def of(cls, records: Iterable[ArmStretch], *, slowest: float = SLOWEST) -> Reach:
        """Take it from the stretches that were used; ``slowest`` is the least speed that counts as moving."""
        low: list[Floats] = []
        high: list[Floats] = []
        slow: list[Floats] = []
        fast: list[Floats] = []
        warm: list[float] = []
        for one in records:
            speed = np.abs(one.velocity)
            low.append(one.position.min(axis=0))
            high.append(one.position.max(axis=0))
            slow.append(np.where(speed >= slowest, speed, np.inf).min(axis=0))
            fast.append(speed.max(axis=0))
            known = one.temperature[np.isfinite(one.temperature)]
            warm += [float(known.min()), float(known.max())] if known.size else []
        if not low:
            raise Refused(
                "no stretch says where the arm was",
                reason="no_record",
                where="feed-forward of an arm",
                remedy="Hand over the stretches the parameters came from",
            )
        least, most = np.min(slow, axis=0), np.max(fast, axis=0)
        return cls(
            np.min(low, axis=0),
            np.max(high, axis=0),
            np.where(np.isfinite(least), least, slowest),
            np.maximum(most, slowest),
            min(warm, default=np.nan),
            max(warm, default=np.nan),
        )


@dataclass(frozen=True)
class ArmFeedForwardFile:
    """The text of a feed-forward file, checked."""

    text: str

    def profile(self, path: Path = Path("feedforward.toml")) -> ArmFeedForward:
        """Return what a controller loads."""
        made, problems = parse_profile(self.text, path)
        if not isinstance(made, ArmFeedForward):
            listed = "; ".join(str(problem) for problem in problems)
            raise Refused(
                f"the identified parameters make no feed-forward file: {listed}",
                reason="not_valid",
                where="feed-forward of an arm",
                remedy="Check the records the parameters came from",
            )
        return made

    def write(self, path: Path) -> Path:
        """Write the file and return its path."""
        path.write_text(self.text, encoding="utf-8")
        return path


def assemble(
    physical: PhysicalFit,
    profile: ArmRig | ArmProfile,
    *,
    reach: Reach,
    sources: Sequence[Origin],
    friction: Sequence[FrictionFit] | None = None,
    torque_scale: Sequence[Estimate] | None = None,
    motor_inertia: Mapping[str, Estimate] | None = None,
    hold_out_error: float | None = None,
    residual: Floats | None = None,
    payload: Payload | None = None,
    name: str = "",
    version: int = 1,
    description: str = "",
) -> ArmFeedForwardFile:
    """Put an arm's feed-forward file together.

    Parameters
    ----------
    physical : PhysicalFit
        Links and motors; friction too where no ``friction`` is given.
    profile : ArmRig or ArmProfile
    reach : Reach
    sources : sequence of Origin
        Archives the parameters came from.
    friction : sequence of FrictionFit, optional
        Per joint, from the low speeds up.
    torque_scale : sequence of Estimate, optional
        Per joint; the torques everything was fitted to had been multiplied by them. 1 by default.
    motor_inertia : mapping of str to Estimate, optional
        By joint, where its uncertainty is known.
    hold_out_error : float, optional
        Relative error on another trajectory, moving [1].
    residual : (n,), optional
        Root mean square left there per joint [N.m].
    payload : Payload, optional
        What was fixed to the tool.

    Raises
    ------
    Refused
        ``no_source``; ``other_joints``; ``below_zero``: a level that cannot be negative is, by more than its
        uncertainty; ``not_valid``.
    """
    joints = profile.arm.joints
    if not sources:
        raise _refused("nothing says which archive the parameters came from", "no_source", "Name it in sources")
    if physical.names != tuple(joint.name for joint in joints):
        listed = ", ".join(physical.names)
        raise _refused(f"parameters of {listed} for {profile.name}", "other_joints", "Take the arm they are of")
    archives = tuple({one.digest: one for one in sources}.values())
    lines = [
        f'schema = "{SCHEMA}"',
        f"name = {_text(name or profile.name + '_feedforward')}",
        f"version = {version}",
        f"description = {_text(description or f'Links, motors and friction of {profile.name}, as identified')}",
        f"rig = {_text(profile.name)}",
        f"created = {archives[0].recorded_utc}",
        f"software_version = {_text(f'forcebench {bench.__version__}')}",
    ]
    if hold_out_error is not None:
        lines.append(f"hold_out_error = {_quantity(100.0 * hold_out_error, '%')}")
    if payload is not None and payload.body.mass.magnitude > 0.0:
        lines += ["", "[payload]", f"specimen = {_text(payload.name)}", f"body = {_link(_numbers(payload))}"]
    if np.isfinite(reach.temperature_min):
        low, high = reach.temperature_min - TEMPERATURE_REACH_K, reach.temperature_max + TEMPERATURE_REACH_K
        lines += ["", "[validity]", f"temperature_min = {_quantity(low, 'degC')}"]
        lines += [f"temperature_max = {_quantity(high, 'degC')}"]
    motors = _motors(profile, physical.motor_inertia)
    uncertain: list[str] = []
    for i, joint in enumerate(joints):
        units = JOINT_UNITS[joint.kind]
        level = _friction(physical, friction, i)
        _check(joint.name, level)
        lines += ["", "[[joints]]", f"name = {_text(joint.name)}", f"kind = {_text(joint.kind)}"]
        lines += [f"link = {_link(physical.links[i])}"]
        lines += [f"motor_inertia = {_quantity(float(motors[i]), MOTOR_UNITS[joint.kind][1])}"]
        if torque_scale is not None:
            lines.append(f"torque_scale = {torque_scale[i].value!r}")
        if residual is not None:
            lines.append(f"residual = {_quantity(float(residual[i]), units['torque'][1])}")
        levels = {key: max(one.value, 0.0) if key in NOT_NEGATIVE else one.value for key, one in level.items()}
        rows = [f"{key} = {_quantity(value, units[FRICTION_KEYS[key]][1])}" for key, value in levels.items()]
        lines.append(f"friction = {{ {', '.join(rows)} }}")
        span = [
            ("position_min", float(reach.position_min[i]), "position"),
            ("position_max", float(reach.position_max[i]), "position"),
            ("speed_min", float(reach.speed_min[i]), "speed"),
            ("speed_max", float(max(reach.speed_max[i], 1.001 * reach.speed_min[i])), "speed"),
        ]
        valid = ", ".join(f"{key} = {_quantity(value, units[what][1])}" for key, value, what in span)
        lines.append(f"validity = {{ {valid} }}")
        uncertain += [
            f'"{joint.name}.friction.{key}" = {_quantity(one.expanded_uncertainty, units[FRICTION_KEYS[key]][1])}'
            for key, one in level.items()
            if np.isfinite(one.standard_uncertainty)
        ]
        if torque_scale is not None:
            uncertain.append(f'"{joint.name}.torque_scale" = {_quantity(torque_scale[i].expanded_uncertainty, "1")}')
        if motor_inertia is not None and joint.name in motor_inertia:
            inertia = _quantity(motor_inertia[joint.name].expanded_uncertainty, MOTOR_UNITS[joint.kind][1])
            uncertain.append(f'"{joint.name}.motor_inertia" = {inertia}')
    lines += ["", "# Expanded uncertainties, 95 %", "[uncertainty]", *uncertain]
    for one in archives:
        lines += ["", "[[sources]]", f"file = {_text(one.file)}", f"procedure = {_text(one.procedure)}"]
        lines += [f"digest = {_text(one.digest)}", f"simulated = {str(one.simulated).lower()}"]
    made = ArmFeedForwardFile("\n".join(lines) + "\n")
    made.profile()
    return made


def _motors(profile: ArmRig | ArmProfile, seen: Floats) -> Floats:
    """Motors' inertias at their axes of those seen at the joints: ``seen_j = sum_m w_mj^2 I_m`` with ``w = A^-1``."""
    turns = np.linalg.inv(drivetrain(profile.arm).coupling)
    if np.allclose(turns, np.diag(np.diag(turns))):
        return np.asarray(seen / np.diag(turns) ** 2)
    from scipy.optimize import nnls

    return np.asarray(nnls(turns.T**2, seen)[0])


def _friction(physical: PhysicalFit, friction: Sequence[FrictionFit] | None, i: int) -> dict[str, Estimate]:
    if friction is not None:
        return {key: friction[i].parameters[key] for key in FRICTION if key in friction[i].parameters}
    values = {"coulomb": physical.coulomb[i], "viscous": physical.viscous[i], "offset": physical.offset[i]}
    return {key: Estimate(float(value), np.inf, "", "") for key, value in values.items()}


def _check(name: str, level: Mapping[str, Estimate]) -> None:
    for key in NOT_NEGATIVE:
        one = level.get(key)
        if one is not None and one.value < 0.0 and one.value + one.expanded_uncertainty < 0.0:
            what = f"{key} of {name} came out as {one}"
            raise _refused(what, "below_zero", "Friction that pushes is none: check signs, and the torque scale")


def _numbers(payload: Payload) -> LinkInertia:
    from bench.arm import body

    return body(payload.body)


def _link(link: LinkInertia) -> str:
    i = link.inertia
    centre = ", ".join(_quantity(float(x), "m") for x in link.centre)
    moments = (i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])
    inertia = ", ".join(_quantity(float(x), "kg.m2") for x in moments)
    return f"{{ mass = {_quantity(float(link.mass), 'kg')}, centre = [{centre}], inertia = [{inertia}] }}"


def _text(value: str) -> str:
    # a JSON string is a TOML string; DEL is the one character JSON leaves alone and TOML does not
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _quantity(value: float, unit: str) -> str:
    return _text(f"{float(value)!r} {unit}")


def _refused(what: str, reason: str, remedy: str) -> Refused:
    return Refused(what, reason=reason, where="feed-forward of an arm", remedy=remedy)


__all__ = [
    "ArmFeedForwardFile",
    "ArmFriction",
    "IdentifiedArm",
    "Reach",
    "arm_feedforward_model",
    "arm_feedforward_urdf",
    "assemble",
]
