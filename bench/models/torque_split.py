"""What a joint's torque is made of: inertial, Coriolis and centrifugal, gravity, friction, contact."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.models.rigid import ArmModel, Frame

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TorqueSplit:
    """Shares of the joint torques (n,) or (k, n) [N.m], whose sum is the torque.

    ``inertial`` = M a (rotors included), ``coriolis`` = C v, ``gravity`` = G, ``friction`` as given,
    ``contact`` = J^T F with F what the arm exerts on its surroundings.
    """

    inertial: Floats
    coriolis: Floats
    gravity: Floats
    friction: Floats
    contact: Floats

    @property
    def total(self) -> Floats:
        """The torque: the sum of the shares, and so exactly that."""
        return self.inertial + self.coriolis + self.gravity + self.friction + self.contact

    def shares(self) -> dict[str, Floats]:
        """Return the shares by name, in the order they are summed."""
        return {
            "inertial": self.inertial,
            "coriolis": self.coriolis,
            "gravity": self.gravity,
            "friction": self.friction,
            "contact": self.contact,
        }


def torque_split(
    model: ArmModel,
    q: ArrayLike,
    v: ArrayLike,
    a: ArrayLike,
    *,
    friction: ArrayLike | None = None,
    wrench: ArrayLike | None = None,
    frame: Frame = "tip",
) -> TorqueSplit:
    """Split the torques of a motion.

    Parameters
    ----------
    model : ArmModel
    q, v, a : (n,) or (k, n)
    friction : (n,) or (k, n), optional
        Friction torque at the joints, with the sign of the speed.
    wrench : (6,) or (k, 6), optional
        Base-aligned [f, m] at ``frame`` that the arm exerts on its surroundings [N, N.m].
    frame : Frame

    Raises
    ------
    ModelError
        ``shape``: an argument is not of the joints' number.
    """
    single = np.ndim(q) == 1
    rows, speeds, pushes = (np.atleast_2d(np.asarray(x, dtype=np.float64)) for x in (q, v, a))
    gravity = model.gravity_rows(rows)
    inertial = model.inverse_dynamics_rows(rows, np.zeros_like(rows), pushes) - gravity
    coriolis = model.bias_rows(rows, speeds) - gravity
    rubbing = np.zeros_like(rows) if friction is None else np.broadcast_to(np.asarray(friction, float), rows.shape)
    contact = np.zeros_like(rows)
    if wrench is not None:
        pressed = np.broadcast_to(np.asarray(wrench, dtype=np.float64), (len(rows), 6))
        contact = np.einsum("kin,ki->kn", model.jacobian_rows(rows, frame), pressed)
    parts = (inertial, coriolis, gravity, np.array(rubbing), contact)
    return TorqueSplit(*((part[0] if single else part) for part in parts))
