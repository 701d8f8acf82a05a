"""An arm in MuJoCo's own language, written from its plain description: no meshes, no contacts, no damping.

Joints are the links' alone; motors, springs and friction are the integrator's. What is mounted hangs on a body of its
own behind the wrist sensor's site, so that the site's force and torque sensors feel it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from bench.models.arm_description import ArmDescription, LinkInertia

Floats = NDArray[np.float64]

#: The least a weightless link gets, far below what matters, for MuJoCo wants every moving body to have a mass.
LEAST_MASS = 1e-9
TOOL, SENSOR = "tool", "wrist"


def arm_mjcf(arm: ArmDescription, sensor_frame: Floats, mounted: LinkInertia) -> str:
    """Return the model as MJCF text.

    Parameters
    ----------
    arm : ArmDescription
        Links and joints; nothing mounted.
    sensor_frame : (4, 4)
        Of the wrist sensor in the flange's frame.
    mounted : LinkInertia
        Everything beyond the sensor, in the sensor's frame.
    """
    gravity = _numbers(arm.gravity)
    lines = [
        f'<mujoco model="{arm.name}">',
        '<compiler angle="radian" inertiafromgeom="false" balanceinertia="false" fusestatic="false"/>',
        f'<option gravity="{gravity}"><flag contact="disable" constraint="disable"/></option>',
        "<worldbody>",
    ]
    for number, joint in enumerate(arm.joints):
        kind = "hinge" if joint.kind == "revolute" else "slide"
        lines.append(f'<body name="link{number}" {_place(joint.placement)}>')
        lines.append(f'<joint name="joint{number}" type="{kind}" axis="0 0 1" limited="false"/>')
        lines.append(_inertial(joint.link, LEAST_MASS))
    lines.append(f'<body name="{TOOL}" {_place(arm.flange @ sensor_frame)}>')
    lines.append(_inertial(mounted, LEAST_MASS))
    lines.append(f'<site name="{SENSOR}"/></body>')
    lines += ["</body>"] * len(arm.joints)
    lines.append("</worldbody>")
    lines.append(f'<sensor><force site="{SENSOR}"/><torque site="{SENSOR}"/></sensor></mujoco>')
    return "\n".join(lines)


def _numbers(values: Iterable[float]) -> str:
    return " ".join(repr(float(value)) for value in values)


def _place(transform: Floats) -> str:
    return f'pos="{_numbers(transform[:3, 3])}" quat="{_numbers(quaternion(transform[:3, :3]))}"'


def _inertial(link: LinkInertia, least: float) -> str:
    mass = max(link.mass, least)
    i = link.inertia + least * np.eye(3) * (1e-3 if np.linalg.eigvalsh(link.inertia)[0] < least else 0.0)
    six = (i[0, 0], i[1, 1], i[2, 2], i[0, 1], i[0, 2], i[1, 2])
    return f'<inertial pos="{_numbers(link.centre)}" mass="{mass!r}" fullinertia="{_numbers(six)}"/>'


def quaternion(turn: Floats) -> Floats:
    """Unit quaternion (4,) w, x, y, z of a rotation matrix (3, 3), to rounding, whatever the angle."""
    # The largest of the four squares is divided by, so nothing small is (Shepperd, J. Guidance and Control 1, 1978).
    trace = float(np.trace(turn))
    squares = np.array([trace, turn[0, 0], turn[1, 1], turn[2, 2]])
    largest = int(np.argmax(squares))
    q = np.empty(4)
    if largest == 0:
        q[:] = (
            1.0 + trace, turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]
        )  # fmt: skip
    else:
        i = largest - 1
        j, k = (i + 1) % 3, (i + 2) % 3
        q[0] = turn[k, j] - turn[j, k]
        q[1 + i] = 1.0 + turn[i, i] - turn[j, j] - turn[k, k]
        q[1 + j] = turn[j, i] + turn[i, j]
        q[1 + k] = turn[k, i] + turn[i, k]
    return np.asarray(q / np.linalg.norm(q))
