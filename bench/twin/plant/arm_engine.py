"""MuJoCo as the arm's engine: what the links do for given positions, speeds and accelerations. Loaded lazily.

Only MuJoCo's rigid-body functions are used; integration is :mod:`bench.twin.plant.arm_step`'s. Every function here
works on one scratch ``mjData``, so results hold until the next call.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.extras import need
from bench.models.arm_description import ArmDescription, LinkInertia
from bench.twin.plant.arm_mjcf import SENSOR, TOOL, arm_mjcf

Floats = NDArray[np.float64]


class ArmEngine:
    """The links of one arm, with what is mounted."""

    def __init__(self, arm: ArmDescription, sensor_frame: Floats, mounted: LinkInertia, centre: Floats) -> None:
        """``centre`` (3,): of the tool's spherical tip, in the sensor's frame [m]."""
        mj: Any = need("mujoco")
        self._mj = mj
        self.n = arm.size
        model = mj.MjModel.from_xml_string(arm_mjcf(arm, sensor_frame, mounted))
        data = mj.MjData(model)
        self.model, self.data = model, data
        self._tool = mj.mj_name2id(model, mj.mjtObj.mjOBJ_BODY, TOOL)
        self._site = mj.mj_name2id(model, mj.mjtObj.mjOBJ_SITE, SENSOR)
        self._centre = np.array(centre, dtype=np.float64)
        self._centre_floats: list[float] = self._centre.tolist()
        self._qpos, self._qvel, self._qacc = data.qpos, data.qvel, data.qacc
        self._turn, self._place = data.xmat[self._tool], data.xpos[self._tool]
        self._body_centre, self._applied = data.xipos[self._tool], data.xfrc_applied[self._tool]
        self._sensed = data.sensordata
        self._pushed = False
        self._full = np.zeros((self.n, self.n))
        self._jacobian = np.zeros((3, self.n))
        self._kinematics, self._com_pos, self._com_vel = mj.mj_kinematics, mj.mj_comPos, mj.mj_comVel
        self._rne, self._post, self._sense = mj.mj_rne, mj.mj_rnePostConstraint, mj.mj_sensorAcc

    def move(self, q: Floats | list[float], v: Floats | list[float]) -> None:
        """Place the links; everything else is asked for at this state."""
        self._qpos[:] = q
        self._qvel[:] = v
        model, data = self.model, self.data
        self._kinematics(model, data)
        self._com_pos(model, data)
        self._com_vel(model, data)

    def torque(self, acceleration: Floats | list[float], out: Floats | None = None) -> Floats:
        """M a + C v + G (n,), the load's share in it; into ``out`` where it is given."""
        forces = np.empty(self.n) if out is None else out
        self._qacc[:] = acceleration
        self._rne(self.model, self.data, 1, forces)
        return forces

    def mass_matrix(self) -> Floats:
        """M (n, n), a copy."""
        self._mj.mj_makeM(self.model, self.data)
        self._mj.mj_fullM(self.model, self.data, self._full)
        return self._full.copy()

    def wrench(
        self, acceleration: Floats | list[float], push: list[float] | None = None, out: Floats | None = None
    ) -> Floats:
        """What the tool exerts on the sensor (6,) [N, N.m], sensor frame; ``push`` acts at the tip's centre [N]."""
        self._qacc[:] = acceleration
        if push is not None:
            arm = self.centre() - self._body_centre
            self._applied[:3] = push
            self._applied[3:] = np.cross(arm, push)
            self._pushed = True
        elif self._pushed:
            self._applied[:] = 0.0
            self._pushed = False
        self._post(self.model, self.data)
        self._sense(self.model, self.data)
        wrench: Floats = np.negative(self._sensed, out=out)  # MuJoCo's is what the sensor does to the tool
        return wrench

    def centre(self) -> Floats:
        """Where the tip's centre is (3,), base frame."""
        return np.asarray(self._place + self._turn.reshape(3, 3) @ self._centre)

    def centre_list(self) -> list[float]:
        """The same as plain floats, for every tick."""
        (a, b, c, d, e, f, g, h, i), (x, y, z) = self._turn.tolist(), self._place.tolist()
        u, v, w = self._centre_floats
        return [x + a * u + b * v + c * w, y + d * u + e * v + f * w, z + g * u + h * v + i * w]

    def jacobian(self) -> Floats:
        """Of the tip's centre (3, n), base frame, a copy."""
        self._mj.mj_jac(self.model, self.data, self._jacobian, None, self.centre(), self._tool)
        return self._jacobian.copy()

    def placement(self) -> Floats:
        """Of the sensor (4, 4), base frame."""
        placed = np.eye(4)
        placed[:3, :3], placed[:3, 3] = self._turn.reshape(3, 3), self._place
        return placed
