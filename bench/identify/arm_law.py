"""The torques of an arm, linear in its parameters: what each parameter is called, and its column of the regressor.

::

    law = ArmLaw(ArmModel(description), coupling=drives.coupling)
    law.names                           # m1, mx1 ... Izz6, Ia1 ..., fv1 ..., fs1 ..., off1 ..., Iam6, fvm6, fsm6
    law.columns(q, v, a)                # (k, n, p)

Joint torques are ``Y theta`` with the ten parameters of every link
(:meth:`bench.models.arm_description.LinkInertia.parameters`), then of every joint the motor's inertia ``Ia``, viscous
friction ``fv``, Coulomb friction ``fs`` and an offset ``off``.

Where axes are coupled (``q = A q_m``), a motor turns by ``w q`` with ``w`` its row of ``A^-1``, and what it costs to
turn it stands at every joint with ``w_j`` not zero (virtual work). Its inertia ``I_m``, viscous and Coulomb friction
make at joint j::

    w_j I_m (w a)  =  w_j^2 I_m a_j  +  w_j I_m (w a - w_j a_j)
    w_j f_m (w v)  =  w_j^2 f_m v_j  +  w_j f_m (w v - w_j v_j)
    w_j c_m sign(w v)

The first part of each sum is a share of the joint's own ``Ia`` and ``fv``; the second is the column of ``Iam`` and
``fvm``, numbered as the motor. Of a Staubli TX40, whose motor 6 turns by q5 + q6, these are the acceleration of axis 6
on axis 5, that of axis 5 on axis 6, and ``sign(v5 + v6)`` on both (M. Gautier, P.-O. Vandanjon, A. Janot, *Dynamic
identification of a 6 dof robot without joint position data*, ICRA 2011).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.errors import Refused
from bench.models.friction import stribeck_share

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

LINK = ("m", "mx", "my", "mz", "Ixx", "Ixy", "Iyy", "Ixz", "Iyz", "Izz")
JOINT = ("Ia", "fv", "fs", "off")
"""Motor inertia, viscous and Coulomb friction, offset: named as in the literature on identification."""
COUPLED = ("Iam", "fvm", "fsm")
STRIBECK = "fx"
"""Excess of the friction over Coulomb at standstill."""
TRIVIAL = 1e-9
REVOLUTE = {
    "m": ("kg", "mass"),
    **dict.fromkeys(("mx", "my", "mz"), ("kg.m", "first_moment")),
    **dict.fromkeys((*LINK[4:], "Ia", "Iam"), ("kg.m2", "inertia")),
    **dict.fromkeys(("fv", "fvm"), ("N.m.s/rad", "rotational_damping")),
    **dict.fromkeys(("fs", "fsm", "fx", "off"), ("N.m", "torque")),
}
PRISMATIC = {
    "Ia": ("kg", "mass"),
    "fv": ("N.s/m", "damping"),
    **dict.fromkeys(("fs", "fx", "off"), ("N", "force")),
}


@dataclass(frozen=True)
class ArmLaw:
    """Which parameters an arm is identified with.

    Parameters
    ----------
    model : ArmModel
        Geometry; the links' parameters in it are not used.
    coupling : (n, n), optional
        ``A``; identity where every motor moves one joint.
    motor_inertia, friction, offset : bool
        Which of the joints' own parameters are asked for. A joint whose torque is measured on the link's side of its
        gear has no motor inertia in it.
    stribeck_velocity : (n,), optional
        Known Stribeck velocities [rad/s]: a column each for the excess, so less has to be left out.
    """

    model: ArmModel
    coupling: Floats | None = None
    motor_inertia: bool = True
    friction: bool = True
    offset: bool = True
    stribeck_velocity: Floats | None = None
    _shapes: dict[str, Floats] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, shape in (("coupling", (self.n, self.n)), ("stribeck_velocity", (self.n,))):
            given = getattr(self, name)
            if given is not None and np.shape(given) != shape:
                raise Refused(
                    f"{name} of shape {np.shape(given)} for {self.n} joints",
                    reason="shape",
                    where=self.model.description.name,
                    remedy=f"Give shape {shape}",
                )

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.model.n

    @cached_property
    def turns(self) -> Floats:
        """(n, n) turns of the motors' axes per joint motion: ``A^-1``, with rounding removed."""
        if self.coupling is None:
            return np.eye(self.n)
        inverse = np.linalg.inv(self.coupling)
        return np.where(np.abs(inverse) > TRIVIAL * np.abs(inverse).max(), inverse, 0.0)

    @cached_property
    def coupled_motors(self) -> tuple[int, ...]:
        """Motors, from 0, that turn with more than one joint."""
        return tuple(m for m in range(self.n) if np.count_nonzero(self.turns[m]) > 1)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of all p standard parameters, in the order of the columns; joints and motors count from 1.

        All links' ten parameters, then ``Ia``, ``fv``, ``fs``, ``off`` of all joints whether asked for or not, then
        those of coupled motors and the Stribeck excess of every joint, where there are any.
        """
        own = [f"{name}{j + 1}" for j in range(self.n) for name in LINK]
        own += [f"{name}{j + 1}" for name in JOINT for j in range(self.n)]
        own += [f"{name}{m + 1}" for m in self.coupled_motors for name in COUPLED]
        if self.stribeck_velocity is not None:
            own += [f"{STRIBECK}{j + 1}" for j in range(self.n)]
        return tuple(own)

    @cached_property
    def asked(self) -> Flags:
        """(p,) parameters that are asked for."""
        kinds = {"Ia": self.motor_inertia, "Iam": self.motor_inertia, "off": self.offset}
        kinds |= dict.fromkeys(("fv", "fs", "fvm", "fsm", STRIBECK), self.friction)
        return np.array([kinds.get(split(name)[0], True) for name in self.names])

    def column(self, name: str, joint: int, v: Floats, a: Floats, slow: Floats) -> Floats | None:
        """Column (k,) of a parameter behind the links' at one joint; None where it is zero.

        Parameters
        ----------
        name : str
        joint : int
            From 0.
        v, a, slow : (k, n)
            Velocity and acceleration, and the velocity whose sign is the direction.
        """
        kind, number = split(name)
        if kind in COUPLED:
            w = self.turns[number]
            if w[joint] == 0.0:
                return None
            if kind == "fsm":
                return np.asarray(w[joint] * np.sign(slow @ w))
            moved = a if kind == "Iam" else v
            return np.asarray(w[joint] * (moved @ w - w[joint] * moved[:, joint]))
        if number != joint:
            return None
        if kind == "Ia":
            return a[:, joint]
        if kind == "fv":
            return v[:, joint]
        if kind == "fs":
            return np.asarray(np.sign(slow[:, joint]))
        if kind == "off":
            return np.ones(len(v))
        assert self.stribeck_velocity is not None
        speed = slow[:, joint]
        return np.asarray(np.sign(speed) * stribeck_share(speed, float(self.stribeck_velocity[joint])))

    def columns(self, q: Floats, v: Floats, a: Floats, slow: Floats | None = None) -> Floats:
        """Regressor (k, n, p) of states (k, n); the direction is the sign of ``slow``, by default of ``v``.

        Columns that are not asked for are zero.
        """
        direction = v if slow is None else slow
        links = 10 * self.n
        out = np.zeros((len(q), self.n, len(self.names)))
        out[:, :, :links] = self.model.regressor_rows(q, v, a)
        for k in np.flatnonzero(self.asked[links:]):
            for joint in range(self.n):
                found = self.column(self.names[links + k], joint, v, a, direction)
                if found is not None:
                    out[:, joint, links + k] = found
        return out

    def still(self, slow: Floats, speed: Floats) -> Flags:
        """Rows and joints (k, n) in the stiction zone: a joint, or a motor coupled to it, below its ``speed`` (n,)."""
        found: Flags = np.abs(slow) < speed
        for m in self.coupled_motors:
            w = self.turns[m]
            found[:, w != 0.0] |= (np.abs(slow @ w) < speed[m])[:, None]
        return found


def split(name: str) -> tuple[str, int]:
    """What a standard parameter is, and of which joint or motor, from 0."""
    kind = name.rstrip("0123456789")
    return kind, int(name[len(kind) :]) - 1


def unit_of(name: str, *, prismatic: bool = False) -> tuple[str, str]:
    """Unit and kind of a standard parameter; of a prismatic joint its own ones are those of a slide."""
    kind, _ = split(name)
    return (PRISMATIC if prismatic and kind in PRISMATIC else REVOLUTE)[kind]


__all__ = ["ArmLaw", "split", "unit_of"]
