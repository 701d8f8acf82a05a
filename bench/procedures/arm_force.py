"""Press a surface along its normal: a force that is missing moves the set-point, by gains that switch at contact.

The tip is on its rail (:class:`bench.procedures.arm_motion.Rail`); everything beside the rail is held by the position
controller, an impedance of the arm's own inertia. Along the rail the wanted force F_d is controlled explicitly, by an
admittance whose motion is the set-point of that controller::

    M dv/dt + B v = F_d - F        within the speeds allowed, F the wrist sensor's force along the normal

In free air F is none and the tip approaches at its full speed. In contact with tissue of stiffness k the force follows
as a mass on a spring and a damper, with omega = sqrt(k / M) and zeta = B / (2 sqrt(k M)): a B that is brisk in free air
overshoots. With the switch B is a larger one in contact, and the torques of the wanted force are fed forward, J^T F_d
beside G(q). Without it B stays.

Contact is what lasts for some ticks above one force, and ends below a smaller one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.errors import SafetyAbort
from bench.procedures.arm_control import ArmOutput
from bench.procedures.arm_model import ArmFrictionLaws
from bench.procedures.arm_motion import Rail
from bench.procedures.arm_tick import ArmCommand, ArmTick

Floats = NDArray[np.float64]

#: The wanted force is fed forward, and creeping begins, with these time constants [s].
FEED_S, CREEP_S = 0.1, 0.1
#: A reading of the wrist sensor older than this is none to press by [s].
OLDEST_FORCE_S = 0.03


@dataclass(frozen=True)
class ContactLaw:
    """How a missing force moves the set-point; SI.

    ``mass`` is M [kg], ``free`` and ``contact`` are B [N.s/m]; ``approach`` and ``press`` the highest speeds in free
    air and in contact [m/s]; ``touch`` and ``release`` the forces at which contact begins and ends [N], lasting
    ``debounce`` ticks.
    """

    mass: float
    free: float
    contact: float
    approach: float
    press: float
    touch: float
    release: float
    debounce: int


class ContactSensor:
    """Force along the normal by the wrist sensor [N], positive when pressing, zeroed in free air.

    Parameters
    ----------
    axis : (3,)
        The surface's outward normal in axes of the sensor.
    """

    def __init__(self, axis: Floats) -> None:
        self._x, self._y, self._z = (float(value) for value in axis)
        self._zero = 0.0

    def raw(self, wrench: list[float]) -> float:
        """Return the force without the zero taken off."""
        return self._x * wrench[0] + self._y * wrench[1] + self._z * wrench[2]

    def zero(self, readings: list[float]) -> None:
        """Take the mean of :meth:`raw` readings in free air as no force."""
        self._zero = math.fsum(readings) / len(readings)

    def force(self, wrench: list[float]) -> float:
        """Return the force now."""
        return self.raw(wrench) - self._zero


class ContactDetector:
    """Tells contact from free air: above one force for some ticks, until below a smaller one for as many."""

    def __init__(self, touch: float, release: float, debounce: int) -> None:
        self.touching = False
        self._touch, self._release, self._debounce = touch, release, debounce
        self._count = 0

    def update(self, force: float) -> bool:
        """Take in a force and return whether the tool touches."""
        other = force > self._touch if not self.touching else force < self._release
        self._count = self._count + 1 if other else 0
        if self._count >= self._debounce:
            self.touching = not self.touching
            self._count = 0
        return self.touching


class PressOnRail:
    """Go along the rail to a force and hold it until a time after contact; :meth:`aim` at another one goes on there.

    Parameters
    ----------
    rail : Rail
    output : ArmOutput
    friction : ArmFrictionLaws or None
    sensor : ContactSensor
        Zeroed.
    law : ContactLaw
    forces : (n,) float64
        Joint torques per newton pressed: ``-J^T normal`` at the surface [m].
    start_m : float
        Where the tip stands on the rail.
    period_s : float
        Of the loop.
    search_s : float
        Longest time until contact.
    switch : bool
        Whether gains are switched at contact and the wanted force is fed forward.

    Attributes
    ----------
    touched_s : float
        Time of the first contact; NaN before.
    force : float
        The last one [N].
    place_m : float
        Where the set-point is on the rail.
    offset : (n,)
        What the joints have crept since [rad].
    """

    def __init__(
        self,
        rail: Rail,
        output: ArmOutput,
        friction: ArmFrictionLaws | None,
        sensor: ContactSensor,
        law: ContactLaw,
        forces: Floats,
        *,
        start_m: float,
        period_s: float,
        search_s: float,
        switch: bool,
    ) -> None:
        self.start_s = self.touched_s = math.nan
        self.place_m, self.force = start_m, 0.0
        self.offset = np.zeros(len(forces))
        self._rail, self._output, self._friction = rail, output, friction
        self._sensor, self._law, self._forces, self._switch = sensor, law, forces, switch
        self._detector = ContactDetector(law.touch, law.release, law.debounce)
        self._period, self._search = period_s, search_s
        self._speed = self._fed = self._swing = 0.0
        self._wanted, self._until_s, self._hold_s = 0.0, math.nan, 0.0
        self._creep: Floats | None = None
        self._creep_s = math.inf

    def aim(self, force_n: float, hold_s: float, *, creep: Floats | None = None, settle_s: float = 0.0) -> None:
        """Press with ``force_n`` and end ``hold_s`` after contact, or from now on where there is contact already.

        Parameters
        ----------
        creep : (n,), optional
            Speeds added to the joints' [rad/s] from ``settle_s`` on; they must not move the tip along the normal.
        """
        self._wanted, self._hold_s = force_n, hold_s
        self._until_s = math.nan
        self._creep, self._creep_s = creep, settle_s
        self._swing = 0.0

    @property
    def pose(self) -> Floats:
        """Where the joints are wanted (n,)."""
        return self._rail.place(self.place_m)[0] + self.offset

    def __call__(self, tick: ArmTick, command: ArmCommand) -> bool:
        now, law, period = tick.time_s, self._law, self._period
        if not self.start_s <= now:
            self.start_s = now
        if not tick.wrench_age_s <= OLDEST_FORCE_S:
            raise _stale(tick.wrench_age_s)
        self.force = force = self._sensor.force(tick.wrench)
        touching = self._detector.update(force)
        if touching and math.isnan(self._until_s):
            self._until_s = now + self._hold_s
            if math.isnan(self.touched_s):
                self.touched_s = now
        switched = touching and self._switch
        damping = law.contact if switched else law.free
        top = law.press if touching else law.approach
        speed = self._speed + period * (self._wanted - force - damping * self._speed) / law.mass
        speed = min(max(speed, -law.press), top)
        rise, self._speed = (speed - self._speed) / period, speed
        self.place_m += self._speed * period
        self._check(now)
        q, v, a = self._rail.at(self.place_m, self._speed, rise)
        if self._creep is not None:
            v = v + self._crept(now)
        q = q + self.offset
        beside = None
        if self._switch:
            goal = self._wanted if switched else 0.0
            self._fed += (goal - self._fed) * min(1.0, period / FEED_S)
            beside = self._forces * self._fed
        self._output.fill(tick, command, q, v, a, self._friction, beside)
        return now >= self._until_s

    def _crept(self, now: float) -> Floats:
        """Return the creeping speeds, and move the joints on by them."""
        assert self._creep is not None
        began = self._until_s - self._hold_s + self._creep_s
        if not now >= began:
            return np.zeros(len(self.offset))
        self._swing += (1.0 - self._swing) * min(1.0, self._period / CREEP_S)
        speed = self._swing * self._creep
        self.offset = self.offset + speed * self._period
        return speed

    def _check(self, now: float) -> None:
        if self.place_m > self._rail.high:
            touching = self._detector.touching
            raise SafetyAbort(
                f"the tip is {1e3 * self.place_m:.1f} mm below where the surface should be and feels "
                f"{self.force:.2g} N of {self._wanted:g} N",
                reason="too_deep" if touching else "no_contact",
                where="contact",
                remedy=LOOK,
            )
        if math.isnan(self.touched_s) and now - self.start_s > self._search:
            raise SafetyAbort(
                f"nothing was touched within {self._search:.1f} s; the tip should be at {1e3 * self.place_m:.1f} mm",
                reason="no_contact",
                where="contact",
                remedy=LOOK,
            )


LOOK = "Look where the phantom stands, which one it is, and at the wrist sensor."


def _stale(age_s: float) -> SafetyAbort:
    return SafetyAbort(
        f"the wrist sensor's last reading is {1e3 * age_s:.0f} ms old, and the tool presses by it",
        reason="stale_force",
        where="contact",
        remedy="Look at the load of the DAQ and of the computer.",
    )
