"""What an arm's motion is held to, in plain numbers, and what a check of a path says about one of them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from bench.errors import ModelError

Floats = NDArray[np.float64]

#: A limit counts as kept within this share of it: numbers that were computed to just keep it do.
ROUNDING = 1e-9


@dataclass(frozen=True)
class Resonance:
    """A frequency [Hz] not to be excited within ``1 +- margin`` of it; ``where`` says whose it is (a joint's name)."""

    hz: float
    margin: float
    where: str = ""

    @property
    def band(self) -> tuple[float, float]:
        """Frequencies [Hz] between which no line may lie."""
        return self.hz * (1.0 - self.margin), self.hz * (1.0 + self.margin)


@dataclass(frozen=True)
class MotionLimits:
    """Limits of an arm of ``n`` joints; what is not limited is infinite. Arrays (n,), SI.

    ``coulomb`` and ``viscous`` are the nominal friction that adds to the rigid-body torque. ``factor_rated`` and
    ``factor_peak`` divide the rated and the peak torque. ``least_singular_value`` [m/rad] is of the tip's Jacobian with
    its rotations times ``characteristic_length`` [m]. ``coupling`` is ``A`` of ``q = A q_motor`` of coupled axes:
    ``stiffness`` is then that of the motors' axes. ``prismatic`` are the numbers of joints that slide.
    """

    names: tuple[str, ...]
    position_min: Floats
    position_max: Floats
    speed: Floats
    acceleration: Floats
    rated_torque: Floats
    peak_torque: Floats
    coulomb: Floats
    viscous: Floats
    stiffness: Floats
    factor_rated: float = 1.5
    factor_peak: float = 2.0
    box_min: Floats = field(default_factory=lambda: np.full(3, -np.inf))
    box_max: Floats = field(default_factory=lambda: np.full(3, np.inf))
    tip_speed: float = math.inf
    least_singular_value: float = 0.0
    characteristic_length: float = 0.2
    max_deflection: float = math.inf
    resonances: tuple[Resonance, ...] = ()
    coupling: Floats | None = None
    prismatic: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Number of joints."""
        return len(self.names)

    def pose(self, q: Floats) -> tuple[float, ...]:
        """Return joint positions (n,) as a message shows them: degrees, metres for a prismatic joint."""
        return tuple(float(x) if j in self.prismatic else math.degrees(x) for j, x in enumerate(q))

    def unit(self, joint: int, what: str) -> str:
        """Return the unit of a joint's ``position``, ``speed``, ``acceleration`` or ``torque``."""
        return _UNITS[what][joint in self.prismatic]

    @property
    def torque(self) -> Floats:
        """Torque (n,) a joint may be asked for: rated and peak torque over their safety factors, the smaller [N.m]."""
        return np.minimum(self.rated_torque / self.factor_rated, self.peak_torque / self.factor_peak)

    def narrowed(self, share: float = 0.9, places: float = 0.95) -> MotionLimits:
        """Return narrower limits to design a motion for, so that a controller that follows it has room left.

        Speeds, accelerations and the tip's speed times ``share``; ranges of the joints and the box times ``places``,
        about their middle. Torques have their safety factors.
        """
        with np.errstate(invalid="ignore"):  # no limit on either side has no middle
            middle, half = 0.5 * (self.position_max + self.position_min), 0.5 * (self.position_max - self.position_min)
            centre, side = 0.5 * (self.box_max + self.box_min), 0.5 * (self.box_max - self.box_min)
        boxed, ranged = np.isfinite(side), np.isfinite(half)
        return replace(
            self,
            position_min=np.where(ranged, middle - places * half, self.position_min),
            position_max=np.where(ranged, middle + places * half, self.position_max),
            speed=share * self.speed,
            acceleration=share * self.acceleration,
            box_min=np.where(boxed, centre - places * side, self.box_min),
            box_max=np.where(boxed, centre + places * side, self.box_max),
            tip_speed=share * self.tip_speed,
        )

    def check_size(self, n: int, where: str) -> None:
        """Refuse another number of joints than ``n``.

        Raises
        ------
        ModelError
            ``joint_count``
        """
        wrong = {key: value for key, value in vars(self).items() if key in _PER_JOINT and len(value) != n}
        if wrong:
            key, value = next(iter(wrong.items()))
            raise ModelError(
                f"{len(value)} values of {key} for an arm of {n} joints",
                reason="joint_count",
                where=where,
                remedy="Take the limits of the same arm",
            )
        for key in _PER_JOINT[1:]:
            if np.any(np.isnan(getattr(self, key))):
                raise ModelError(
                    f"{key} has a value that is not a number",
                    reason="not_finite",
                    where=where,
                    remedy="State it in the rig's profile",
                )


#: Unit for a revolute and for a prismatic joint.
_UNITS = {
    "position": ("rad", "m"),
    "speed": ("rad/s", "m/s"),
    "acceleration": ("rad/s2", "m/s2"),
    "torque": ("N.m", "N"),
}
_PER_JOINT = (
    "names",
    "position_min",
    "position_max",
    "speed",
    "acceleration",
    "rated_torque",
    "peak_torque",
    "coulomb",
    "viscous",
    "stiffness",
)


@dataclass(frozen=True)
class CheckRow:
    """One quantity at its worst along a path.

    Parameters
    ----------
    check : str
        What is checked, e.g. ``speed``.
    joint : str
        Name of the joint, or the point, it is worst at.
    value, limit : float
        In ``unit``.
    sense : {"at most", "at least"}
    time_s : float
        When [s].
    index : int
        Sample of the path.
    pose_deg : tuple of float
        Joint positions there [deg] (m for a prismatic joint).
    during : str
        What the arm does then.
    scale : float
        What the margin is a share of; the limit where it is not a number.
    """

    check: str
    joint: str
    value: float
    limit: float
    unit: str
    sense: Literal["at most", "at least"]
    time_s: float
    index: int
    pose_deg: tuple[float, ...]
    during: str = ""
    scale: float = math.nan

    @property
    def margin(self) -> float:
        """How far the value is inside its limit, in ``unit``; negative outside."""
        return self.limit - self.value if self.sense == "at most" else self.value - self.limit

    @property
    def share(self) -> float:
        """Margin as a share of ``scale`` or of the limit [1]; infinite where nothing is limited."""
        size = abs(self.limit) if math.isnan(self.scale) else self.scale
        if not math.isfinite(size) or size == 0.0:
            return math.inf if self.margin >= 0.0 else -math.inf
        return self.margin / size

    @property
    def ok(self) -> bool:
        """Whether the limit is kept; a value that is not a number keeps none."""
        slack = ROUNDING * max(abs(self.limit), 1e-3) if math.isfinite(self.limit) else 0.0
        return self.margin >= -slack

    @property
    def pose(self) -> str:
        """The pose as a message shows it."""
        return "[" + ", ".join(f"{angle:.1f}" for angle in self.pose_deg) + "] deg"
