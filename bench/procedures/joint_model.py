"""What a controller knows of a joint, and the torques it makes of that: gravity, inertia, friction, torque scale.

Two sources: nominal figures of the profiles, or an identified feed-forward file. Plain floats, since all this runs on
every tick; the formulas are those of :mod:`bench.models.friction` and :mod:`bench.models.lugre`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.profile import FeedForwardProfile, JointLoad, JointRig, SpecimenProfile


@dataclass(frozen=True)
class FrictionNumbers:
    """Friction of a feed-forward file and the range it was identified in; SI, joint-referred, degC."""

    coulomb: float
    viscous: float
    stribeck_excess: float
    stribeck_velocity: float
    offset: float
    load_coefficient: float
    temperature_coefficient: float
    reference_temperature: float
    bristle_stiffness: float | None
    speed_min: float
    speed_max: float
    load_max: float
    temperature_min: float
    temperature_max: float

    @property
    def largest(self) -> float:
        """A bound of the friction inside the range [N.m]."""
        coldest = max(0.0, 1.0 - self.temperature_coefficient * (self.temperature_min - self.reference_temperature))
        hottest = max(0.0, 1.0 - self.temperature_coefficient * (self.temperature_max - self.reference_temperature))
        dry = self.coulomb + self.stribeck_excess + self.viscous * self.speed_max
        return max(coldest, hottest) * dry + self.load_coefficient * self.load_max + abs(self.offset)


@dataclass(frozen=True)
class JointModel:
    """Inertia, gravity, torque scale and (from a feed-forward file only) friction of a joint with its load.

    ``source`` is the feed-forward's name, or ``"nominal"``.
    """

    motor_inertia: float
    link_inertia: float
    gravity_moment: float = 0.0
    gravity_phase: float = 0.0
    torque_scale: float = 1.0
    friction: FrictionNumbers | None = None
    source: str = "nominal"

    @property
    def inertia(self) -> float:
        """Of motor and link together [kg.m2]."""
        return self.motor_inertia + self.link_inertia

    def gravity(self, angle_rad: float) -> float:
        """Torque that holds the load at an angle [N.m]."""
        return self.gravity_moment * math.sin(angle_rad - self.gravity_phase) if self.gravity_moment else 0.0

    def largest_gravity(self, low_rad: float, high_rad: float) -> float:
        """Greatest magnitude of the gravity torque between two angles [N.m]."""
        for k in range(-3, 4):
            if low_rad <= self.gravity_phase + (k + 0.5) * math.pi <= high_rad:
                return self.gravity_moment
        return max(abs(self.gravity(low_rad)), abs(self.gravity(high_rad)))


def model_of(rig: JointRig, specimen: SpecimenProfile, feedforward: FeedForwardProfile | None = None) -> JointModel:
    """Return what is known of the joint with ``specimen`` on it.

    The rotor's side comes from the feed-forward where there is one. The link's side comes from it only when it was
    identified with this very load; otherwise the load's nominal figures stand.
    """
    load = specimen if isinstance(specimen, JointLoad) else None
    motor = rig.joint.motor_inertia.to("kg.m2")
    link = load.link_inertia.to("kg.m2") if load else 0.0
    moment = load.gravity_moment.to("N.m") if load else 0.0
    phase = load.gravity_phase.to("rad") if load else 0.0
    if feedforward is None:
        return JointModel(motor, link, moment, phase)
    dynamics = feedforward.dynamics
    if dynamics is not None:
        motor = dynamics.motor_inertia.to("kg.m2")
        if load is not None and feedforward.load == load.name and dynamics.link_inertia is not None:
            link = dynamics.link_inertia.to("kg.m2")
            moment = dynamics.gravity_moment.to("N.m")
            phase = dynamics.gravity_phase.to("rad")
    return JointModel(
        motor, link, moment, phase, feedforward.drive.torque_scale, friction_numbers(feedforward), feedforward.name
    )


def friction_numbers(feedforward: FeedForwardProfile) -> FrictionNumbers:
    """Return a feed-forward file's friction and its range as plain numbers."""
    f, valid = feedforward.friction, feedforward.validity
    return FrictionNumbers(
        coulomb=f.coulomb.to("N.m"),
        viscous=f.viscous.to("N.m.s/rad"),
        stribeck_excess=f.stribeck_excess.to("N.m"),
        stribeck_velocity=f.stribeck_velocity.to("rad/s"),
        offset=f.offset.to("N.m"),
        load_coefficient=f.load_coefficient,
        temperature_coefficient=f.temperature_coefficient.to("1/K"),
        reference_temperature=f.reference_temperature.to("degC"),
        bristle_stiffness=None if f.bristle_stiffness is None else f.bristle_stiffness.to("N.m/rad"),
        speed_min=valid.speed_min.to("rad/s"),
        speed_max=valid.speed_max.to("rad/s"),
        load_max=valid.load_max.to("N.m"),
        temperature_min=valid.temperature_min.to("degC"),
        temperature_max=valid.temperature_max.to("degC"),
    )


class FrictionLaw:
    """Friction torque to be added to a command; held at the edge of the identified range outside of it."""

    def __init__(self, numbers: FrictionNumbers) -> None:
        self.numbers = numbers
        #: The sign is blended over this speed [rad/s]; below ``speed_min`` nothing was identified anyway.
        self.blend_rad_s = max(0.5 * numbers.speed_min, 1e-4)
        self._bristle = 0.0
        self._last_rad: float | None = None
        self._furthest = {"speed": numbers.speed_max, "load": numbers.load_max}
        self._coldest, self._hottest = numbers.temperature_min, numbers.temperature_max

    @property
    def outside(self) -> dict[str, str]:
        """Quantities that left the range, each with a sentence for the archive that tells how far."""
        n = self.numbers
        found = {}
        for quantity, unit, edge in (("speed", "rad/s", n.speed_max), ("load", "N.m", n.load_max)):
            if self._furthest[quantity] > edge:
                found[quantity] = f"{self._furthest[quantity]:.3g} {unit}, identified up to {edge:g} {unit}"
        if self._coldest < n.temperature_min or self._hottest > n.temperature_max:
            known = f"identified from {n.temperature_min:.1f} to {n.temperature_max:.1f} degC"
            worst = self._coldest if self._coldest < n.temperature_min else self._hottest
            found["temperature"] = f"{worst:.1f} degC, {known}"
        return {
            quantity: f"the {quantity} left the feed-forward's range: {text}; held at the edge"
            for quantity, text in found.items()
        }

    def level(self, velocity: float, load: float, temperature: float) -> tuple[float, float, float]:
        """Return LuGre's g [N.m], the temperature's factor on friction [1], and the speed inside the range [rad/s]."""
        n, furthest = self.numbers, self._furthest
        speed, carried, warm = abs(velocity), abs(load), temperature
        if speed > n.speed_max:
            furthest["speed"] = max(furthest["speed"], speed)
            speed = n.speed_max
        if carried > n.load_max:
            furthest["load"] = max(furthest["load"], carried)
            carried = n.load_max
        if not n.temperature_min <= warm <= n.temperature_max:
            self._coldest, self._hottest = min(self._coldest, warm), max(self._hottest, warm)
            warm = min(max(warm, n.temperature_min), n.temperature_max)
        warmth = max(0.0, 1.0 - n.temperature_coefficient * (warm - n.reference_temperature))
        ratio = max(speed, n.speed_min) / n.stribeck_velocity
        dry = n.coulomb + (n.stribeck_excess * math.exp(-ratio * ratio) if ratio < 6.0 else 0.0)
        return dry * warmth + n.load_coefficient * carried, warmth, math.copysign(speed, velocity)

    def steady(self, velocity: float, load: float, temperature: float) -> float:
        """Friction in steady sliding at a WANTED velocity [N.m]; its sign goes smoothly through zero."""
        g, warmth, speed = self.level(velocity, load, temperature)
        return g * math.tanh(velocity / self.blend_rad_s) + self.numbers.viscous * warmth * speed + self.numbers.offset

    @property
    def has_bristle(self) -> bool:
        return self.numbers.bristle_stiffness is not None

    def reset(self) -> None:
        """Forget the bristle: nothing is known of what it holds."""
        self._bristle, self._last_rad = 0.0, None

    def observed(self, angle: float, velocity: float, load: float, temperature: float, lead_s: float = 0.0) -> float:
        """Friction of a bristle that is moved along by the MEASURED angle [N.m].

        The deflection follows the encoder's increments, not the noisy speed:
        ``z -> z_s + (z - z_s) exp(-sigma0 |dx| / g)`` with ``z_s = sign(dx) g / sigma0``.
        The bristle's own damping is left out: it needs the rate of what is known too late, and the bristle's lag in the
        loop damps already.
        ``lead_s`` is how old the measurement will be when the torque acts: the bristle is moved on by that much.
        """
        sigma0 = self.numbers.bristle_stiffness
        if sigma0 is None:
            return self.steady(velocity, load, temperature)
        g, warmth, speed = self.level(velocity, load, temperature)
        travel = 0.0 if self._last_rad is None else angle - self._last_rad
        self._last_rad = angle
        if g <= 0.0:
            return self.numbers.viscous * warmth * speed + self.numbers.offset
        self._bristle = _moved(self._bristle, travel, sigma0, g)
        ahead = _moved(self._bristle, velocity * lead_s, sigma0, g)
        return sigma0 * ahead + self.numbers.viscous * warmth * speed + self.numbers.offset


def _moved(deflection: float, travel: float, stiffness: float, level: float) -> float:
    full = math.copysign(level / stiffness, travel)
    return full + (deflection - full) * math.exp(-stiffness * abs(travel) / level)
