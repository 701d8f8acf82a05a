"""Do an arm's witnesses (servo encoders, currents, wrist sensor) tell one story? Cheap sums, per drain.

=====================  ================================================================================================
reason                 what was seen
=====================  ================================================================================================
``not_following``      a joint is far from where its controller wants it
``joint_blocked``      a joint was wanted elsewhere, or driven by more than friction and weight bear, and its encoder
                       did not change: blocked, braked, or stuck
``encoder_frozen``     a joint that turned stands from one tick to the next, as no body does
``current_mismatch``   a servo does not carry the current it was told to
``wrong_load``         at rest, or in free air before a press, the wrist sensor carries another weight than tool and
                       payload of the profiles
=====================  ================================================================================================

What nobody here can see: a wrong gear ratio or direction. There is one encoder an axis, on the motor's side, and a
joint that turns by another ratio looks the same to it, and so does a torque constant that is wrong by the same share.
For those the wiring check of the procedures turns the tool's weight in the wrist sensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.errors import SafetyAbort
from bench.models.arm_description import LinkInertia
from bench.models.rigid import ArmModel
from bench.safety.limits import ArmLimits, LoadLimits
from bench.safety.watch import ForceWatch

Floats = NDArray[np.float64]

#: A joint was wanted so far from where it stood [rad], while its encoder changed by less than that share of it.
WANTED_RAD, BLOCKED_SHARE = 0.1, 0.02
#: A joint moves when it is driven by so many times its nominal Coulomb friction and this share of its rated torque
#: beside its weight. One that stands changes by less than this [rad] in a drain, of so many rows at least.
BREAKS_LOOSE, UNKNOWN_SHARE, STANDS_RAD, STANDING_ROWS = 3.0, 0.1, 3e-5, 10
#: Slower than this a joint may stand at once [rad/s]; a stand is so many readings that are equal to the last bit.
QUICK_RAD_S, EQUAL_READINGS = 0.2, 2
#: So many equal readings of a joint that is driven by more than it bears, or wanted elsewhere, are no stand.
DRIVEN_READINGS = 5
#: A joint's spring is never softer than its nominal Coulomb friction over the controller's windup [rad]: wanted by so
#: many windups away it is driven by as much as breaks it loose.
WINDUPS, WINDUP_RAD = BREAKS_LOOSE, 0.005
#: The means of a drain's currents may differ by this share of what the servo may carry.
CURRENT_SHARE = 0.2
#: The weight at rest may be off by this share of itself, beside the sensor's own unknown zero, a share of its capacity.
WEIGHT_SHARE, ZERO_SHARE = 0.05, 0.05
#: Once the zero is known, noise and drift leave so much in free air [N], beside the same share of the weight.
FREE_N = 0.3


def check_following(limits: ArmLimits, position: Sequence[float], desired: Sequence[float]) -> None:
    """Raise :class:`SafetyAbort` (``"not_following"``) when a joint is far from where it should be; at every tick."""
    allowed = limits.following_rad
    for q, wanted in zip(position, desired, strict=True):
        if not -allowed <= q - wanted <= allowed:
            break
    else:
        return
    for name, q, wanted in zip(limits.names, position, desired, strict=True):
        if not abs(q - wanted) <= allowed:
            raise SafetyAbort(
                f"joint {name} is at {math.degrees(q):.1f} deg and should be at {math.degrees(wanted):.1f} deg",
                reason="not_following",
                where="arm",
                remedy="Look for an obstacle, a stuck encoder, a servo on another joint's id, a wrong direction, "
                "gear ratio or torque constant, or a heavier load than the profile says.",
            )


def breaks_loose(friction_nm: Floats, rated_nm: Floats) -> Floats:
    """Return the torques (n,) [N.m] beside its weight under which a joint must move, of nominal figures (n,)."""
    return BREAKS_LOOSE * friction_nm + UNKNOWN_SHARE * rated_nm


class FrozenEncoders:
    """Tells, within some ticks, when an encoder stands although its joint was turning or is driven.

    Until then a controller pushes harder and harder: what is looked at once a drain would come late.

    Parameters
    ----------
    names : sequence of str
        Of the joints.
    period_s : float
        Between two readings [s].
    looses_nm : (n,) float64
        See :func:`breaks_loose`.
    weight : callable
        Nominal joint torques that hold the arm at a position (n,) -> (n,) [N.m].
    windup_rad : float
        Of the position controller [rad].
    """

    def __init__(
        self,
        names: Sequence[str],
        period_s: float,
        looses_nm: Floats,
        weight: Callable[[list[float]], Floats],
        windup_rad: float = WINDUP_RAD,
    ) -> None:
        self._way = WINDUPS * windup_rad
        self._names = tuple(names)
        self._step = QUICK_RAD_S * period_s
        self._looses = looses_nm
        self._weight = weight
        self.restart()

    def restart(self, readings: int = 0) -> None:
        """Begin anew: the arm was braked meanwhile, and may be for so many readings more."""
        self._last = [math.nan] * len(self._names)
        self._quick = [0] * len(self._names)  # 2 after a quick step; the step into a stand may be a short one
        self._equal = [0] * len(self._names)
        self._wanted = [math.nan] * len(self._names)  # when the reading was last another one
        self._braked = readings

    def feed(self, position: list[float], torque_nm: Sequence[float], desired: Sequence[float]) -> None:
        """Take in positions (n,) [rad], and torques (n,) [N.m] commanded and positions (n,) [rad] wanted at them.

        Raises
        ------
        SafetyAbort
            ``"encoder_frozen"`` or ``"joint_blocked"``; the joint is named.
        """
        quick, equal, step = self._quick, self._equal, self._step
        weight: list[float] = []
        if self._braked:
            self._braked -= 1
            self._last, self._wanted = position, list(desired)
            return
        for i, (q, last) in enumerate(zip(position, self._last, strict=True)):
            if q != last:
                quick[i] = 2 if abs(q - last) >= step else quick[i] - 1 if quick[i] else 0
                equal[i] = 0
                self._wanted[i] = desired[i]
                continue
            equal[i] += 1
            if equal[i] >= EQUAL_READINGS and quick[i]:
                raise SafetyAbort(
                    f"joint {self._names[i]} turned at more than {QUICK_RAD_S:g} rad/s and from one reading to the "
                    f"next its encoder stands at {math.degrees(q):.3f} deg",
                    reason="encoder_frozen",
                    where="arm",
                    remedy="Look at the servo's encoder, and for an obstacle that stopped the joint at once.",
                )
            if equal[i] >= DRIVEN_READINGS and equal[i] % DRIVEN_READINGS == 0:
                way = abs(desired[i] - self._wanted[i])
                if way > self._way:
                    raise blocked(self._names[i], f"was wanted {way:.3g} rad away and its encoder stands")
                weight = weight or self._weight(position).tolist()
                driven = torque_nm[i] - weight[i]
                if abs(driven) > self._looses[i]:
                    raise blocked(self._names[i], _driven(driven))
        self._last = position


def blocked(name: str, what: str) -> SafetyAbort:
    """Return the error of a joint that does not do ``what`` it should."""
    return SafetyAbort(
        f"joint {name} {what}",
        reason="joint_blocked",
        where="arm",
        remedy="Look for an obstacle, a closed brake, a servo without torque, and a stuck encoder: they look the same "
        "from here.",
    )


def _driven(torque_nm: float) -> str:
    return f"is driven by {torque_nm:.3g} N.m beside its weight and its encoder stands"


class ArmWatch:
    """Compares encoders with what was wanted and with what drives them, and currents with their commands, per drain.

    Parameters
    ----------
    names : sequence of str
        Of the joints.
    max_current_a : sequence of float
        What each servo may carry (n,) [A].
    looses_nm : (n,) float64
        See :func:`breaks_loose`.
    """

    def __init__(self, names: Sequence[str], max_current_a: Sequence[float], looses_nm: Floats) -> None:
        self.names = tuple(names)
        self._most = np.array(max_current_a, dtype=np.float64)
        self._looses_nm = looses_nm
        self._low = np.full(len(self.names), np.inf)
        self._high = np.full(len(self.names), -np.inf)
        self._wanted: Floats | None = None

    def restart(self) -> None:
        """Begin anew: the arm was braked meanwhile."""
        self._wanted = None

    def feed(self, position: Floats, desired: Floats, current_a: Floats, command_a: Floats, driven_nm: Floats) -> None:
        """Take the next rows in, each (k, n).

        Parameters
        ----------
        position, desired : (k, n) float64
            Of the joints as read and as wanted [rad].
        current_a, command_a : (k, n) float64
            As read, and as commanded after that [A].
        driven_nm : (n,) float64
            Mean of the torques commanded, the nominal weight taken off [N.m].

        Raises
        ------
        SafetyAbort
            ``"joint_blocked"`` or ``"current_mismatch"``; the joint is named.
        """
        if not len(position):
            return
        self._check_currents(current_a, command_a)
        low, high = position.min(axis=0), position.max(axis=0)
        stuck = (np.abs(driven_nm) > self._looses_nm) & (high - low < STANDS_RAD)
        # The first rows since the brakes were told to open do not count: they take their time.
        if stuck.any() and self._wanted is not None and len(position) >= STANDING_ROWS:
            joint = int(np.argmax(stuck))
            raise blocked(self.names[joint], _driven(float(driven_nm[joint])))
        if self._wanted is None:
            self._wanted = desired[0].copy()
            self._low[:], self._high[:] = np.inf, -np.inf
        self._low, self._high = np.minimum(self._low, low), np.maximum(self._high, high)
        way = np.abs(desired[-1] - self._wanted)
        done = way > WANTED_RAD
        if not done.any():
            return
        moved = self._high - self._low
        stands = done & (moved < BLOCKED_SHARE * way)
        if stands.any():
            joint = int(np.argmax(stands))
            what = f"was wanted {way[joint]:.3g} rad away and its encoder changed by {moved[joint]:.2g} rad"
            raise blocked(self.names[joint], what)
        # Each joint that has moved is watched anew from where it is; the others go on.
        self._wanted = np.where(done, desired[-1], self._wanted)
        self._low[done], self._high[done] = np.inf, -np.inf

    def _check_currents(self, current_a: Floats, command_a: Floats) -> None:
        # What is read was commanded a tick before.
        if len(current_a) < 2:
            return
        carried, told = current_a[1:].mean(axis=0), command_a[:-1].mean(axis=0)
        wrong = ~(np.abs(carried - told) <= CURRENT_SHARE * self._most)
        if wrong.any():
            joint = int(np.argmax(wrong))
            raise SafetyAbort(
                f"the servo of joint {self.names[joint]} carries {carried[joint]:.3g} A and was told to carry "
                f"{told[joint]:.3g} A",
                reason="current_mismatch",
                where="arm",
                remedy="Look at the servo's supply, its current limit and operating mode, and for another program on "
                "the bus.",
            )


class WristWatch:
    """Holds the load at the wrist sensor to its limits, weight of tool and payload taken off.

    The sensor's zero is taken with the tool on it; what its weight pulls otherwise, as it turns, is nominal. What
    accelerating the tool takes counts as load.

    Parameters
    ----------
    model : ArmModel
        Its own: it is used at every drain.
    sensor : (4, 4) float64
        The sensor's frame in the flange's.
    carried : sequence of LinkInertia
        Tool and payload, in the sensor's frame.
    limits : ArmLimits
    capacity_n : float
        Of the sensor [N].
    """

    def __init__(
        self, model: ArmModel, sensor: Floats, carried: Sequence[LinkInertia], limits: ArmLimits, capacity_n: float
    ) -> None:
        self._model = model
        self._turn = model.description.flange[:3, :3] @ sensor[:3, :3]
        total = sum((body.parameters()[:4] for body in carried), start=np.zeros(4))
        self.mass, self._moment = float(total[0]), total[1:]
        self._zero = np.zeros(6)
        self._capacity_n = capacity_n
        self._watch = ForceWatch(LoadLimits(limits.force_n, limits.wrist_torque_nm))

    def weight(self, position: Sequence[float] | Floats) -> Floats:
        """Return the wrench (6,) of what is carried on the sensor at joint positions (n,), in the sensor's frame."""
        axes = self._model.placement(np.asarray(position), self._model.n - 1)[:3, :3] @ self._turn
        gravity = axes.T @ self._model.description.gravity
        return np.concatenate([self.mass * gravity, np.cross(self._moment, gravity)])

    def tare(self, position: Sequence[float] | Floats, wrench: Floats) -> None:
        """Take what the sensor carries at rest for its zero; ``wrench`` (6,) is its reading without any zero.

        Raises
        ------
        SafetyAbort
            ``"wrong_load"``: the force is not that of the weight, the sensor's own zero allowed for.
        """
        self._zero = weight = self.weight(position)
        off = float(np.linalg.norm(wrench[:3] - weight[:3]))
        allowed = WEIGHT_SHARE * float(np.linalg.norm(weight[:3])) + ZERO_SHARE * self._capacity_n
        if not off <= allowed:
            raise SafetyAbort(
                f"at rest the wrist sensor reads {_shown(wrench[:3])} N; tool and payload of {self.mass:.3g} kg make "
                f"{_shown(weight[:3])} N there, and its zero is allowed {allowed:.3g} N",
                reason="wrong_load",
                where="wrist sensor",
                remedy="Look at what is mounted, whether the tool touches anything, at the sensor's gauges and its "
                ".cal file; correct tool and payload in the profiles.",
            )

    def check_free(self, position: Sequence[float] | Floats, force: Floats) -> None:
        """Hold a mean force (3,) [N] in free air, at rest at ``position`` (n,), to the nominal weight since the tare.

        Raises
        ------
        SafetyAbort
            ``"wrong_load"``: the sensor feels something else, and nothing may be pressed by it.
        """
        weight = self.weight(position)
        turned = (weight - self._zero)[:3]
        off = float(np.linalg.norm(force - turned))
        allowed = FREE_N + WEIGHT_SHARE * float(np.linalg.norm(weight[:3]))
        if not off <= allowed:
            raise SafetyAbort(
                f"in free air the weight of tool and payload ({self.mass:.3g} kg) should have turned by "
                f"{_shown(turned)} N in the wrist sensor since the tare, and the sensor feels {_shown(force)} N; "
                f"{allowed:.2g} N are allowed",
                reason="wrong_load",
                where="wrist sensor",
                remedy="Look at the sensor's gauges (swapped, inverted), cable, mounting and .cal file, at what is "
                "mounted on the tool, and whether the tool touches anything.",
            )

    def check(
        self,
        forces: Floats,
        torques: Floats,
        saturated: NDArray[np.bool_],
        time_s: Floats,
        position: Sequence[float] | Floats,
    ) -> None:
        """Hold samples to the limits: forces, torques (m, 3) and times (m,), the arm being at ``position`` (n,).

        Raises
        ------
        SafetyAbort
            ``"sensor_saturated"``, ``"sensor_invalid"``, ``"force_limit"`` or ``"torque_limit"``.
        """
        turned = self.weight(position) - self._zero
        self._watch.check(forces - turned[:3], torques - turned[3:], saturated, time_s)


def _shown(force: Floats) -> str:
    return f"({', '.join(f'{value:.1f}' for value in force)})"
