"""Rigid-body dynamics of a serial arm, computed by Pinocchio: ``tau = M(q) a + C(q, v) v + G(q)``.

``tau`` are the joint torques that make the motion: friction is not in them, and a wrench the environment exerts on the
tip is subtracted as ``J^T F`` (see :mod:`bench.models.statics`). Joint positions in rad (m for a prismatic joint),
torques in N.m (N). Wrenches and Jacobians are base-aligned, linear part first, at the frame's origin.

One model holds one workspace of the library: do not share it between threads.

Sources
-------
R. Featherstone, *Rigid Body Dynamics Algorithms*, 2008 (recursive Newton-Euler, composite bodies, articulated bodies);
J. Carpentier et al., *The Pinocchio C++ library*, SII 2019.
"""

from __future__ import annotations

from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.errors import ModelError
from bench.extras import need
from bench.models.arm_description import ArmDescription, LinkInertia

Floats = NDArray[np.float64]

AT_ONCE = 64
Frame = str | int
"""``"tip"``, ``"flange"``, or a joint by its number from 0."""


class ArmModel:
    """An arm that can be asked for its dynamics.

    Parameters
    ----------
    description : ArmDescription
        Parameters of the links are taken as they are, also when no body has them: whether one does is for
        :func:`bench.models.rigid_checks.check_model`.
    motor_inertia : (n,) or (n, n), optional
        Inertia of the rotors seen at the joints [kg.m2]: a matrix ``A^-T diag(Ia) A^-1`` where axes are coupled. It
        adds to ``M``; what the rotors' spin does beyond that (gyroscopic torque) is left out.

    Attributes
    ----------
    n : int
        Number of joints.
    names : tuple of str

    Raises
    ------
    MissingExtra
        Pinocchio is not installed.
    ModelError
        ``no_joints``; ``shape`` of the motor inertia; and from every method, ``shape`` of its arguments.
    """

    def __init__(self, description: ArmDescription, motor_inertia: ArrayLike | None = None) -> None:
        if not description.joints:
            raise ModelError(
                "an arm without a joint has no dynamics",
                reason="no_joints",
                where=description.name,
                remedy="Give at least one moving joint",
            )
        pin: Any = need("pinocchio")
        self._pin = pin
        self.description = description
        self.n = n = description.size
        self.names = description.names
        model = pin.Model()
        model.name = description.name
        model.gravity = pin.Motion(np.asarray(description.gravity, dtype=np.float64), np.zeros(3))
        frames: list[int] = []
        parent = 0
        for number, joint in enumerate(description.joints):
            kind = pin.JointModelRZ() if joint.kind == "revolute" else pin.JointModelPZ()
            parent = model.addJoint(parent, kind, _se3(pin, joint.placement), f"{number}:{joint.name}")
            model.appendBodyToJoint(parent, _body(pin, joint.link), pin.SE3.Identity())
            frames.append(model.addJointFrame(parent))
        self._frames: dict[Frame, int] = dict(enumerate(frames))
        for name, placement in (("flange", description.flange), ("tip", description.tip)):
            frame = pin.Frame(f"arm {name}", parent, frames[-1], _se3(pin, placement), pin.FrameType.OP_FRAME)
            self._frames[name] = model.addFrame(frame)
        self.motor_inertia = self._rotors(motor_inertia)
        diagonal = np.diag(self.motor_inertia).copy()
        model.armature = diagonal
        # Pinocchio's armature is a diagonal; what coupled axes add beside it is added here.
        beside = self.motor_inertia - np.diag(diagonal)
        self._beside: Floats | None = beside if np.any(beside != 0.0) else None
        self._model, self._data = model, model.createData()
        self._aligned = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        self._zero = np.zeros(n)
        self._rnea, self._nle, self._gravity = pin.rnea, pin.nonLinearEffects, pin.computeGeneralizedGravity

    def _rotors(self, given: ArrayLike | None) -> Floats:
        """Return the rotors' inertia as a matrix (n, n)."""
        n = self.n
        if given is None:
            return np.zeros((n, n))
        rotors = np.asarray(given, dtype=np.float64)
        if rotors.shape == (n,):
            return np.diag(rotors)
        if rotors.shape == (n, n):
            return rotors.copy()
        raise ModelError(
            f"motor inertia of shape {rotors.shape} for {n} joints",
            reason="shape",
            where=self.description.name,
            remedy=f"Give ({n},) values at the joints, or a matrix ({n}, {n}) where axes are coupled",
        )

    def __reduce__(self) -> tuple[type[ArmModel], tuple[ArmDescription, Floats]]:
        return ArmModel, (self.description, self.motor_inertia)

    # -- one configuration ------------------------------------------------------------------------------------------

    def mass_matrix(self, q: ArrayLike) -> Floats:
        """Return ``M(q)`` (n, n) of ``q`` (n,), rotors included [kg.m2]."""
        found = self._ask(self._pin.crba, q)
        return found if self._beside is None else found + self._beside

    def coriolis(self, q: ArrayLike, v: ArrayLike) -> Floats:
        """Return ``C(q, v)`` (n, n) with Christoffel symbols of the first kind, so that ``dM/dt - 2 C`` is skew."""
        return self._ask(self._pin.computeCoriolisMatrix, q, v)

    def bias(self, q: ArrayLike, v: ArrayLike) -> Floats:
        """Return ``C(q, v) v + G(q)`` (n,) [N.m]."""
        return self._ask(self._nle, q, v)

    def gravity(self, q: ArrayLike) -> Floats:
        """Return ``G(q)`` (n,): the torques that hold the arm still [N.m]."""
        return self._ask(self._gravity, q)

    def potential(self, q: ArrayLike) -> float:
        """Return the potential energy [J]: zero for a mass at the base frame's origin."""
        return float(self._ask(self._pin.computePotentialEnergy, q))

    def kinetic(self, q: ArrayLike, v: ArrayLike) -> float:
        """Return the kinetic energy ``v^T M v / 2`` [J], rotors included."""
        speed = np.asarray(v, dtype=np.float64)
        return float(0.5 * speed @ self.mass_matrix(q) @ speed)

    def inverse_dynamics(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Floats:
        """Return the torques (n,) that make the accelerations ``a`` (n,): ``M a + C v + G`` [N.m]."""
        found = self._ask(self._rnea, q, v, a)
        return found if self._beside is None else found + self._beside @ np.asarray(a, dtype=np.float64)

    def forward_dynamics(self, q: ArrayLike, v: ArrayLike, tau: ArrayLike) -> Floats:
        """Return the accelerations (n,) that the torques ``tau`` (n,) make [rad/s2]."""
        if self._beside is None:
            return self._ask(self._pin.aba, q, v, tau)
        return np.asarray(np.linalg.solve(self.mass_matrix(q), np.asarray(tau, dtype=np.float64) - self.bias(q, v)))

    def jacobian(self, q: ArrayLike, frame: Frame = "tip") -> Floats:
        """Return ``J`` (6, n): base-aligned [linear; angular] velocity of the frame's origin per joint speed."""
        which, aligned = self._frame(frame), self._aligned
        return self._ask(lambda m, d, x: self._pin.computeFrameJacobian(m, d, x, which, aligned), q)

    def placement(self, q: ArrayLike, frame: Frame = "tip") -> Floats:
        """Return the frame's placement (4, 4) in the base frame [m]."""
        which = self._frame(frame)
        self._ask(self._pin.forwardKinematics, q)
        found: Floats = self._pin.updateFramePlacement(self._model, self._data, which).homogeneous
        return found

    def position(self, q: ArrayLike, frame: Frame = "tip") -> Floats:
        """Return the place (3,) of the frame's origin in the base frame [m]."""
        which = self._frame(frame)
        self._ask(self._pin.forwardKinematics, q)
        found: Floats = self._pin.updateFramePlacement(self._model, self._data, which).translation
        return found.copy()

    def motion(self, q: ArrayLike, v: ArrayLike, frame: Frame = "tip") -> tuple[list[float], list[float]]:
        """Return place [m] and speed [m/s] of the frame's origin in the base frame, three numbers each."""
        which, pin = self._frame(frame), self._pin
        self._ask(pin.forwardKinematics, q, v)
        place = pin.updateFramePlacement(self._model, self._data, which).translation
        speed = pin.getFrameVelocity(self._model, self._data, which, self._aligned).linear
        return place.tolist(), speed.tolist()

    def regressor(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Floats:
        """Return ``Y`` (n, 10 n) with ``Y @ description.parameters()`` the torques of :meth:`inverse_dynamics`.

        Without the rotors: their columns are ``a``. Order of a link: :meth:`LinkInertia.parameters`.
        """
        return self._ask(self._pin.computeJointTorqueRegressor, q, v, a)

    # -- rows of configurations -------------------------------------------------------------------------------------

    def inverse_dynamics_rows(self, q: ArrayLike, v: ArrayLike, a: ArrayLike) -> Floats:
        """:meth:`inverse_dynamics` of rows: all arguments and the result (k, n)."""
        speeds, pushes = self._rows(v), self._rows(a)
        out = np.empty((len(pushes), self.n))
        call, model, data = self._rnea, self._model, self._data
        for i, (x, y, z) in enumerate(zip(self._rows(q), speeds, pushes, strict=True)):
            out[i] = call(model, data, x, y, z)
        if self._beside is not None:
            out += pushes @ self._beside.T
        return out

    def bias_rows(self, q: ArrayLike, v: ArrayLike) -> Floats:
        """:meth:`bias` of rows: arguments and the result (k, n)."""
        speeds = self._rows(v)
        out = np.empty((len(speeds), self.n))
        call, model, data = self._nle, self._model, self._data
        for i, (x, y) in enumerate(zip(self._rows(q), speeds, strict=True)):
            out[i] = call(model, data, x, y)
        return out

    def gravity_rows(self, q: ArrayLike) -> Floats:
        """:meth:`gravity` of rows (k, n) → (k, n)."""
        rows = self._rows(q)
        out = np.empty((len(rows), self.n))
        call, model, data = self._gravity, self._model, self._data
        for i, x in enumerate(rows):
            out[i] = call(model, data, x)
        return out

    def mass_matrix_rows(self, q: ArrayLike) -> Floats:
        """:meth:`mass_matrix` of rows (k, n) → (k, n, n)."""
        rows = self._rows(q)
        out = np.empty((len(rows), self.n, self.n))
        call, model, data = self._pin.crba, self._model, self._data
        for i, x in enumerate(rows):
            out[i] = call(model, data, x)
        if self._beside is not None:
            out += self._beside
        return out

    def jacobian_rows(self, q: ArrayLike, frame: Frame = "tip") -> Floats:
        """:meth:`jacobian` of rows (k, n) → (k, 6, n)."""
        rows, which = self._rows(q), self._frame(frame)
        out = np.empty((len(rows), 6, self.n))
        call, model, data, aligned = self._pin.computeFrameJacobian, self._model, self._data, self._aligned
        for i, x in enumerate(rows):
            out[i] = call(model, data, x, which, aligned)
        return out

    def placement_rows(self, q: ArrayLike, frame: Frame = "tip") -> Floats:
        """:meth:`placement` of rows (k, n) → (k, 4, 4)."""
        rows, which = self._rows(q), self._frame(frame)
        out = np.zeros((len(rows), 4, 4))
        out[:, 3, 3] = 1.0
        forward, update, model, data = (
            self._pin.forwardKinematics,
            self._pin.updateFramePlacement,
            self._model,
            self._data,
        )
        for i, x in enumerate(rows):
            forward(model, data, x)
            place = update(model, data, which)
            out[i, :3, :3], out[i, :3, 3] = place.rotation, place.translation
        return out

    def joint_positions_rows(self, q: ArrayLike) -> Floats:
        """Return the places (k, n + 2, 3) of all joints' frames, the flange and the tip in the base frame [m]."""
        rows = self._rows(q)
        out = np.empty((len(rows), self.n + 2, 3))
        model, data, call = self._model, self._data, self._pin.framesForwardKinematics
        numbers = list(self._frames.values())
        for i, x in enumerate(rows):
            call(model, data, x)
            placements = data.oMf
            for k, which in enumerate(numbers):
                out[i, k] = placements[which].translation
        return out

    def regressor_rows(self, q: ArrayLike, v: ArrayLike, a: ArrayLike, out: Floats | None = None) -> Floats:
        """:meth:`regressor` of rows: (k, n) each → (k, n, 10 n), written to ``out`` when it is given."""
        rows, speeds, pushes = self._rows(q), self._rows(v), self._rows(a)
        if out is None:
            out = np.empty((len(rows), self.n, 10 * self.n))
        call, model, data = self._pin.computeJointTorqueRegressor, repeat(self._model), repeat(self._data)
        for first in range(0, len(rows), AT_ONCE):  # gathered, a few at a time: one copy is cheaper than one a row
            part = slice(first, first + AT_ONCE)
            found = list(map(call, model, data, rows[part], speeds[part], pushes[part]))
            if out.flags.c_contiguous and self.n > 1:  # the library drops the axis of a single joint
                np.concatenate(found, out=out[part].reshape(len(found) * self.n, 10 * self.n))
            else:
                out[part] = np.reshape(found, (len(found), self.n, 10 * self.n))
        return out

    # -- how the library is asked -----------------------------------------------------------------------------------

    def _ask(self, call: Any, *arguments: ArrayLike) -> Floats:
        """Call the library; arrays of float64 go through untouched, for a control loop has no time to lose."""
        try:
            found: Floats = call(self._model, self._data, *arguments)
        except (TypeError, ValueError):
            rows = [np.asarray(x, dtype=np.float64) for x in arguments]
            wrong = next((x.shape for x in rows if x.shape != (self.n,)), None)
            if wrong is not None:
                raise ModelError(
                    f"an argument of shape {wrong} for {self.n} joints",
                    reason="shape",
                    where=self.description.name,
                    remedy=f"Give one value per joint, ({self.n},)",
                ) from None
            found = call(self._model, self._data, *rows)
        return found

    def _frame(self, frame: Frame) -> int:
        try:
            return self._frames[frame]
        except KeyError:
            raise ModelError(
                f"there is no frame {frame!r}",
                reason="no_frame",
                where=self.description.name,
                remedy=f"Take 'tip', 'flange', or a joint's number from 0 to {self.n - 1}",
            ) from None

    def _rows(self, values: ArrayLike) -> Floats:
        """Return values as contiguous rows (k, n): a strided row would be copied at every call."""
        rows = np.ascontiguousarray(values, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != self.n:
            raise ModelError(
                f"an argument of shape {rows.shape} where rows of {self.n} joints are meant",
                reason="shape",
                where=self.description.name,
                remedy=f"Give (k, {self.n})",
            )
        return rows


def _se3(pin: Any, transform: Floats) -> Any:
    matrix = np.asarray(transform, dtype=np.float64)
    return pin.SE3(matrix[:3, :3].copy(), matrix[:3, 3].copy())


def _body(pin: Any, link: LinkInertia) -> Any:
    """Return the link as the library's inertia; set part by part, for its constructor refuses a point mass."""
    body = pin.Inertia.Zero()
    body.mass = float(link.mass)
    body.lever = np.asarray(link.centre, dtype=np.float64)
    body.inertia = 0.5 * (link.inertia + link.inertia.T)
    return body
