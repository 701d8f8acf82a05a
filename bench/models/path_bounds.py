"""How fast torques and places of an arm can change at most: what a path sampled finely cannot hide between samples.

A function whose second derivative never exceeds ``B`` exceeds the larger of its values at two instants ``h`` apart by
at most ``h^2 B / 8`` in between (the error of linear interpolation). So a limit is kept at EVERY instant when it is
kept on the grid with that much to spare.

``B`` comes from here: Newton-Euler's recursion, gone through with norms instead of vectors. Each quantity is a jet
``(x_0, x_1, ...)`` with ``|d^k x / dt^k| <= x_k`` at every instant; sums add, products follow Leibniz' rule, a vector
that turns with a body of angular velocity ``w`` has ``|x'| <= |w| |x|``. The bounds are safe, not sharp: a fine grid
pays for that, not the arm.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bench.models.arm_description import ArmDescription

Floats = NDArray[np.float64]

#: Derivatives of the joint positions that are asked for: up to the fourth.
ORDERS = 5


@dataclass(frozen=True)
class PathBounds:
    """Bounds that hold at every instant of a path.

    Parameters
    ----------
    torque : (n, 3) float64
        Of the rigid-body torque of every joint, order 0 (the torque itself, [N.m]) to 2 [N.m/s2]; without friction.
    place : (n + 2, 5) float64
        Of the distance [m] of the frames of the joints, the flange and the tip from the base, its derivatives to
        order 4.
    """

    torque: Floats
    place: Floats


def path_bounds(description: ArmDescription, rates: ArrayLike, motor_inertia: ArrayLike | None = None) -> PathBounds:
    """Return the bounds for an arm whose joints move within bounds.

    Parameters
    ----------
    description : ArmDescription
        With what it carries.
    rates : (5, n) float64
        Bounds of the joints' positions (needed for prismatic joints alone), speeds, and so on to the fourth derivative
        [rad/s^k].
    motor_inertia : (n,) or (n, n), optional
        Inertia of the rotors seen at the joints [kg.m2].
    """
    joints = np.asarray(rates, dtype=np.float64)
    n = description.size
    spin = np.zeros(ORDERS - 1)  # angular velocity of the link before, orders 0 to 3
    place = np.zeros(ORDERS)
    places = np.zeros((n + 2, ORDERS))
    steps: list[Floats] = []  # from the frame before to this one
    axes: list[Floats] = []
    forces: list[Floats] = []
    moments: list[Floats] = []
    arms: list[Floats] = []
    free_fall = float(np.linalg.norm(description.gravity))
    for number, joint in enumerate(description.joints):
        step = _turning(float(np.linalg.norm(joint.placement[:3, 3])), spin)
        axis = _turning(1.0, spin)
        moved = joints[:, number]
        if joint.kind == "revolute":
            spin = spin + _product(axis[:4], moved[1:])
        else:
            step = step + _product(axis, moved)
        place = place + step
        places[number] = place
        link = joint.link
        centre = _turning(float(np.linalg.norm(link.centre)), spin)
        force = link.mass * (place + centre)[2:]
        force[0] += link.mass * free_fall
        inertia = np.zeros(ORDERS - 1)
        inertia[0] = float(np.linalg.norm(link.inertia, 2))
        for k in range(ORDERS - 2):
            inertia[k + 1] = sum(comb(k, i) * 2.0 * spin[i] * inertia[k - i] for i in range(k + 1))
        steps.append(step)
        axes.append(axis)
        arms.append(centre)
        forces.append(force)
        moments.append(_product(inertia, spin)[1:])
    for extra, frame in enumerate((description.flange, description.tip)):
        places[n + extra] = place + _turning(float(np.linalg.norm(frame[:3, 3])), spin)
    torque = np.zeros((n, 3))
    for j, joint in enumerate(description.joints):
        total, reach = np.zeros(3), np.zeros(ORDERS)
        for i in range(j, n):
            if i > j:
                reach = reach + steps[i]
            if joint.kind == "revolute":
                total = total + _product((reach + arms[i])[:3], forces[i]) + moments[i]
            else:
                total = total + forces[i]
        torque[j] = _product(axes[j][:3], total)
    if motor_inertia is not None:
        rotors = np.abs(np.asarray(motor_inertia, dtype=np.float64))
        torque += (np.diag(rotors) if rotors.ndim == 1 else rotors) @ joints[2:].T
    return PathBounds(torque, places)


def _turning(length: float, spin: Floats) -> Floats:
    """Jet of a vector of fixed length that turns with a body: ``x' = w x x``; one order more than ``spin`` has."""
    jet = np.zeros(len(spin) + 1)
    jet[0] = length
    for k in range(len(spin)):
        jet[k + 1] = sum(comb(k, i) * spin[i] * jet[k - i] for i in range(k + 1))
    return jet


def _product(one: Floats, other: Floats) -> Floats:
    """Jet of a product, by Leibniz' rule."""
    return np.array([sum(comb(k, i) * one[i] * other[k - i] for i in range(k + 1)) for k in range(len(one))])
