"""From an arm's feed-forward file back to numbers: a dynamic model and friction that a controller can evaluate.

::

    identified = arm_feedforward_model(load_arm_feedforward(path), rig)
    torque = identified.model.inverse_dynamics(q, v, a) + identified.friction.torque(v)
    currents = drives.current(torque / identified.torque_scale)
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.arm import arm_description, body, coupled_inertia, drivetrain, sensor_frame
from bench.errors import ProfileError
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.models.rigid import ArmModel
from bench.models.urdf_write import write_urdf
from bench.profile import ArmFeedForward, ArmProfile, ArmRig, Payload, SpecimenProfile

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class ArmFriction:
    """Friction of all joints; arrays (n,), N.m and rad/s (N and m/s of a prismatic joint).

    A joint without Stribeck friction has ``stribeck_excess`` 0; one without bristles has NaN.
    """

    coulomb: Floats
    viscous: Floats
    stribeck_excess: Floats
    stribeck_velocity: Floats
    offset: Floats
    bristle_stiffness: Floats
    bristle_damping: Floats

    def torque(self, velocity: ArrayLike) -> Floats:
        """Steady friction (..., n) at joint speeds (..., n); at rest the offset alone."""
        v = np.asarray(velocity, dtype=np.float64)
        level = self.coulomb + self.stribeck_excess * np.exp(-((v / self.stribeck_velocity) ** 2))
        return np.asarray(level * np.sign(v) + self.viscous * v + self.offset)

    @property
    def breakaway(self) -> Floats:
        """(n,) torque that starts the joint, beside the offset."""
        return np.asarray(self.coulomb + self.stribeck_excess)


@dataclass(frozen=True)
class IdentifiedArm:
    """What a controller needs of a feed-forward file.

    Parameters
    ----------
    description : ArmDescription
        With tool and payload.
    model : ArmModel
        Of the same, motors' inertia included.
    motor_inertia : (n,) float64
        At the motors' axes [kg.m2].
    friction : ArmFriction
    torque_scale : (n,) float64
        Torque made per torque by the nominal constants.
    position_min, position_max, speed_min, speed_max : (n,) float64
        Where it was identified.
    temperature_min, temperature_max : float
        [degC]; infinite where nothing is said.
    """

    description: ArmDescription
    model: ArmModel
    motor_inertia: Floats
    friction: ArmFriction
    torque_scale: Floats
    position_min: Floats
    position_max: Floats
    speed_min: Floats
    speed_max: Floats
    temperature_min: float
    temperature_max: float


def arm_feedforward_model(
    feedforward: ArmFeedForward, profile: ArmRig | ArmProfile, payload: SpecimenProfile | LinkInertia | None = None
) -> IdentifiedArm:
    """Return the identified arm.

    Parameters
    ----------
    feedforward : ArmFeedForward
    profile : ArmRig or ArmProfile
        Geometry, ratios and couplings come from it.
    payload : Payload or LinkInertia, optional
        What is fixed to the tool now, given in the sensor's frame; what was there during the identification is taken
        away first. The bare tool by default.

    Raises
    ------
    ProfileError
        The file is of an arm with other joints.
    """
    joints = profile.arm.joints
    given = [(joint.name, joint.kind) for joint in feedforward.joints]
    if given != [(joint.name, joint.kind) for joint in joints]:
        raise ProfileError(
            f"the feed-forward file has the joints {', '.join(name for name, _ in given)}, "
            f"the arm {', '.join(joint.name for joint in joints)}",
            where=str(feedforward.source.path),
            remedy="Take the file that was identified on this arm",
        )
    described = arm_description(profile).with_links(tuple(body(joint.link) for joint in feedforward.joints))
    sensor = sensor_frame(profile) if isinstance(profile, ArmRig) else np.eye(4)
    if feedforward.payload is not None:
        described = _without(described, body(feedforward.payload.body).moved(described.flange @ sensor))
    load = body(payload.body) if isinstance(payload, Payload) else payload
    if isinstance(load, LinkInertia) and load.mass > 0.0:
        described = described.with_load(load.moved(sensor))
    motors = _column(feedforward, "motor_inertia", 0.0)
    drives = replace(drivetrain(profile.arm), motor_inertia=motors)
    friction = ArmFriction(
        coulomb=_column(feedforward, "coulomb", 0.0),
        viscous=_column(feedforward, "viscous", 0.0),
        stribeck_excess=_column(feedforward, "stribeck_excess", 0.0),
        stribeck_velocity=_column(feedforward, "stribeck_velocity", 1.0),
        offset=_column(feedforward, "offset", 0.0),
        bristle_stiffness=_column(feedforward, "bristle_stiffness", np.nan),
        bristle_damping=_column(feedforward, "bristle_damping", np.nan),
    )
    valid = feedforward.validity
    return IdentifiedArm(
        described,
        ArmModel(described, motor_inertia=coupled_inertia(drives)),
        motors,
        friction,
        np.array([joint.torque_scale for joint in feedforward.joints]),
        position_min=_column(feedforward, "position_min", -np.inf),
        position_max=_column(feedforward, "position_max", np.inf),
        speed_min=_column(feedforward, "speed_min", 0.0),
        speed_max=_column(feedforward, "speed_max", np.inf),
        temperature_min=-np.inf if valid is None else valid.temperature_min.to("degC"),
        temperature_max=np.inf if valid is None else valid.temperature_max.to("degC"),
    )


def arm_feedforward_urdf(feedforward: ArmFeedForward, profile: ArmRig | ArmProfile) -> str:
    """Return the identified arm as URDF text, with the profile's limits; motors' inertia and friction are not in it."""
    identified = arm_feedforward_model(feedforward, profile)
    keys = ("position_min", "position_max", "rated_torque", "speed_limit")
    limits = [[joint.number(key) for key in keys] for joint in profile.arm.joints]
    return write_urdf(identified.description, np.array(limits, dtype=np.float64))


def _without(described: ArmDescription, load: LinkInertia) -> ArmDescription:
    last = described.joints[-1]
    link = LinkInertia.from_parameters(last.link.parameters() - load.parameters())
    return described.with_links((*(joint.link for joint in described.joints[:-1]), link))


def _column(feedforward: ArmFeedForward, key: str, missing: float) -> Floats:
    numbers = [joint.number(key) for joint in feedforward.joints]
    return np.array([missing if number is None else number for number in numbers], dtype=np.float64)
