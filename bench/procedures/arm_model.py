"""What a controller knows of an arm: links with tool and payload, motors' inertia, friction, what a current makes.

Two sources: nominal figures of the profiles, or an identified feed-forward file. Friction runs on every tick, by the
single joint's law (:class:`bench.procedures.joint_model.FrictionLaw`), one for each joint.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.arm import arm_model, ratings
from bench.arm_feedforward import arm_feedforward_model
from bench.procedures.joint_model import FrictionLaw, FrictionNumbers
from bench.profile import ArmFeedForward, ArmRig, Payload, SpecimenProfile

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]

#: Slowest speed the profile's friction is taken to hold at [rad/s].
NOMINAL_SPEED_MIN = 0.005
#: Friction's sign is blended over this speed at least [rad/s]: in contact the wanted speed comes of a force, whose
#: noise and delay must not throw a joint's whole friction to and fro.
SLOWEST_BLEND = 0.005
#: Temperature the laws are evaluated at: an arm's file has no figures of its own for it [degC].
TEMPERATURE = 25.0


class ArmKnowledge:
    """Dynamics and friction of an arm as its controller has them.

    Attributes
    ----------
    model : ArmModel
        With tool and payload, motors' inertia included.
    friction : tuple of FrictionNumbers
        Per joint.
    torque_scale : (n,) float64
        Torque made per torque by the nominal constants.
    identified : bool
        Whether they are of a feed-forward file.
    source : str
        Its name, or ``"nominal"``.
    """

    def __init__(
        self,
        model: ArmModel,
        friction: tuple[FrictionNumbers, ...],
        torque_scale: Floats,
        source: str,
        identified: bool,
    ) -> None:
        self.model = model
        self.friction = friction
        self.torque_scale = torque_scale
        self.source = source
        self.identified = identified

    def __str__(self) -> str:
        return f"{self.source}: links of {', '.join(self.model.names)}"

    def __deepcopy__(self, memo: object) -> ArmKnowledge:
        return self  # a plan is archived as text, and this one never changes

    def laws(self) -> ArmFrictionLaws:
        """Return fresh friction laws."""
        return ArmFrictionLaws(self.friction)


class ArmFrictionLaws:
    """Friction of all joints at their wanted speeds, held at the edge of the identified range outside of it.

    The law of :meth:`bench.procedures.joint_model.FrictionLaw.steady` for every joint, in one short loop, for a tick
    asks for all of them; its sign is blended over :data:`SLOWEST_BLEND` at least.
    """

    def __init__(self, numbers: tuple[FrictionNumbers, ...]) -> None:
        self.numbers = numbers
        self.fastest = [one.speed_max for one in numbers]
        self._rows = [
            (
                one.coulomb,
                one.stribeck_excess,
                1.0 / one.stribeck_velocity,
                one.viscous,
                one.offset,
                one.speed_min,
                one.speed_max,
                1.0 / max(FrictionLaw(one).blend_rad_s, SLOWEST_BLEND),
            )
            for one in numbers
        ]

    def steady(self, velocity: list[float]) -> list[float]:
        """Return the torques (n,) [N.m]; they go smoothly through zero, where only the offsets are left."""
        found = []
        for i, v in enumerate(velocity):
            coulomb, excess, slow, viscous, offset, low, high, blend = self._rows[i]
            if v == 0.0:
                found.append(offset)
                continue
            if abs(v) > high:
                self.fastest[i] = max(self.fastest[i], abs(v))
                v = math.copysign(high, v)
            ratio = slow * max(abs(v), low)
            level = coulomb + (excess * math.exp(-ratio * ratio) if excess else 0.0)
            found.append(level * math.tanh(blend * v) + viscous * v + offset)
        return found

    def outside(self, names: tuple[str, ...]) -> list[tuple[str, str]]:
        """Return code and text of each joint whose speed left the range it was identified in."""
        return [
            (
                f"feedforward_speed_{name}",
                f"joint {name}: the speed left the feed-forward's range: {fastest:.3g} rad/s, identified up to "
                f"{one.speed_max:g} rad/s; held at the edge",
            )
            for name, one, fastest in zip(names, self.numbers, self.fastest, strict=True)
            if fastest > one.speed_max
        ]


def knowledge_of(rig: ArmRig, specimen: SpecimenProfile, feedforward: ArmFeedForward | None = None) -> ArmKnowledge:
    """Return what is known of the rig's arm with ``specimen`` on its tool.

    Raises
    ------
    ProfileError
        The feed-forward file is of another arm.
    """
    payload = specimen if isinstance(specimen, Payload) else None
    n = len(rig.arm.joints)
    if feedforward is None:
        rated = ratings(rig.arm)
        friction = tuple(
            _numbers(float(rated.coulomb[i]), float(rated.viscous[i]), NOMINAL_SPEED_MIN, float(rated.speed[i]))
            for i in range(n)
        )
        return ArmKnowledge(arm_model(rig, payload), friction, np.ones(n), "nominal", False)
    found = arm_feedforward_model(feedforward, rig, payload)
    law = found.friction
    friction = tuple(
        _numbers(
            float(law.coulomb[i]),
            float(law.viscous[i]),
            float(found.speed_min[i]),
            float(found.speed_max[i]),
            excess=float(law.stribeck_excess[i]),
            velocity=float(law.stribeck_velocity[i]),
            offset=float(law.offset[i]),
            bristle=float(law.bristle_stiffness[i]),
        )
        for i in range(n)
    )
    return ArmKnowledge(found.model, friction, found.torque_scale, feedforward.name, True)


def _numbers(
    coulomb: float,
    viscous: float,
    speed_min: float,
    speed_max: float,
    *,
    excess: float = 0.0,
    velocity: float = 1.0,
    offset: float = 0.0,
    bristle: float = math.nan,
) -> FrictionNumbers:
    return FrictionNumbers(
        coulomb=coulomb,
        viscous=viscous,
        stribeck_excess=excess,
        stribeck_velocity=velocity,
        offset=offset,
        load_coefficient=0.0,
        temperature_coefficient=0.0,
        reference_temperature=TEMPERATURE,
        bristle_stiffness=None if math.isnan(bristle) else bristle,
        speed_min=speed_min,
        speed_max=speed_max,
        load_max=math.inf,
        temperature_min=-math.inf,
        temperature_max=math.inf,
    )
