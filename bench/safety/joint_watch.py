"""Do a joint's three witnesses (motor encoder, joint encoder, torque transducer) tell one story? Cheap sums, per block.

Wrong wiring or a wrong profile shows as soon as the joint has moved a little, before the numbers are used for anything:

=====================  ================================================================================================
reason                 the motor turned, and
=====================  ================================================================================================
``encoder_stuck``      the joint encoder did not
``encoder_direction``  the joint encoder counted the other way
``gear_ratio``         the joint encoder turned by another ratio than the profile's
``transducer_sign``    the transducer's torque went down where the drive's went up, friction and inertia apart
=====================  ================================================================================================

The judgements are pure functions of accumulated sums; :class:`JointWatch` accumulates and raises.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from bench.errors import SafetyAbort

Floats = NDArray[np.float64]

#: The motor must have covered this much before the encoders are compared [rad at the joint]: the gear's wind-up and
#: backlash, a few mrad, must be small beside it.
LEAST_TRAVEL_RAD = 0.05
#: Relative departure from the profile's gear ratio that is an error; wind-up alone makes a few per cent.
RATIO_TOLERANCE = 0.1
#: Below this share of the motor's travel the joint encoder counts as stuck.
STUCK_SHARE = 0.05
#: The torque transducer must have seen this share of the rated torque before its sign is judged ...
LEAST_TORQUE_SHARE = 0.03
#: ... and the drive's torque, friction set apart, must explain this share of what it saw.
LEAST_EXPLAINED = 0.5
#: Speed over which the sign of friction changes [rad/s].
SIGN_SPEED_RAD_S = 0.01

#: Reasons that say that the joint encoder, or what the profile says of it, is wrong.
ENCODER_REASONS = ("encoder_stuck", "encoder_direction", "gear_ratio")


@dataclass
class AngleSums:
    """Sums over pairs of motor angle and joint angle, both referred to the joint [rad]."""

    count: int = 0
    motor: float = 0.0
    joint: float = 0.0
    motor_motor: float = 0.0
    motor_joint: float = 0.0
    motor_low: float = np.inf
    motor_high: float = -np.inf

    def add(self, motor_rad: Floats, joint_rad: Floats) -> None:
        """Take (n,) pairs in."""
        columns = np.stack([np.ones(len(motor_rad)), motor_rad, joint_rad])
        sums = columns @ columns.T
        self.count += len(motor_rad)
        self.motor += float(sums[0, 1])
        self.joint += float(sums[0, 2])
        self.motor_motor += float(sums[1, 1])
        self.motor_joint += float(sums[1, 2])
        self.motor_low = min(self.motor_low, float(motor_rad.min()))
        self.motor_high = max(self.motor_high, float(motor_rad.max()))

    @property
    def travel_rad(self) -> float:
        """How far the motor went, end to end [rad]."""
        return self.motor_high - self.motor_low

    @property
    def slope(self) -> float:
        """Joint angle per motor angle (both referred to the joint), by least squares."""
        spread = self.motor_motor - self.motor**2 / self.count
        return (self.motor_joint - self.motor * self.joint / self.count) / spread


def angle_error(sums: AngleSums, gear_ratio: float) -> SafetyAbort | None:
    """Return what is wrong with the joint encoder or the gear ratio; None when nothing is, or too little moved yet."""
    if sums.count < 2 or sums.travel_rad < LEAST_TRAVEL_RAD:
        return None
    slope = sums.slope
    told = f"the motor turned the joint by {sums.travel_rad:.3g} rad"
    if abs(slope) < STUCK_SHARE:
        return SafetyAbort(
            f"{told} and the joint encoder saw {100 * slope:.1f} % of it",
            reason="encoder_stuck",
            where="joint_angle and motor_angle",
            remedy="Check the joint encoder's cable, supply and coupling, and that the output is not clamped.",
        )
    if slope < 0:
        return SafetyAbort(
            f"{told} and the joint encoder counted the other way ({slope:.3f} of it)",
            reason="encoder_direction",
            where="joint_angle and motor_angle",
            remedy="Swap encoder.direction in the rig profile (or its A and B lines); where the transducer seems "
            "inverted as well, it is drive.direction.",
        )
    if abs(slope - 1.0) > RATIO_TOLERANCE:
        return SafetyAbort(
            f"the encoders say {gear_ratio / slope:.1f} rotor turns for one of the joint, the profile says "
            f"{gear_ratio:g}",
            reason="gear_ratio",
            where="joint_angle and motor_angle",
            remedy="Correct drive.gear_ratio or encoder.pulses_per_revolution and decoding in the rig profile; "
            "else look for lost counts and a slipping coupling.",
        )
    return None


@dataclass
class TorqueSums:
    """Normal equations of: transducer torque = a * drive torque + b * sign(speed) + c * speed + d."""

    count: int = 0
    matrix: Floats = field(default_factory=lambda: np.zeros((4, 4)))
    right: Floats = field(default_factory=lambda: np.zeros(4))
    squares: float = 0.0
    low_nm: float = np.inf
    high_nm: float = -np.inf

    def add(self, drive_nm: Floats, velocity_rad_s: Floats, transducer_nm: Floats) -> None:
        """Take (n,) triples in: drive torque and transducer torque [N.m], motor speed [rad/s], all at the joint."""
        columns = np.stack(
            [drive_nm, np.tanh(velocity_rad_s / SIGN_SPEED_RAD_S), velocity_rad_s, np.ones(len(drive_nm))]
        )
        self.count += len(drive_nm)
        self.matrix += columns @ columns.T
        self.right += columns @ transducer_nm
        self.squares += float(transducer_nm @ transducer_nm)
        self.low_nm = min(self.low_nm, float(transducer_nm.min()))
        self.high_nm = max(self.high_nm, float(transducer_nm.max()))

    @property
    def range_nm(self) -> float:
        """Between the lowest and the highest transducer torque [N.m]."""
        return self.high_nm - self.low_nm

    def effect(self) -> tuple[float, float]:
        """Return ``a`` and the share of the transducer's variance that the drive torque adds to what friction tells."""
        whole, *_ = np.linalg.lstsq(self.matrix, self.right, rcond=1e-12)
        without, *_ = np.linalg.lstsq(self.matrix[1:, 1:], self.right[1:], rcond=1e-12)
        spread = self.squares - self.right[3] ** 2 / self.count
        gained = float(whole @ self.right - without @ self.right[1:])
        return float(whole[0]), gained / spread if spread > 0 else 0.0


def passed_on(drive_nm: Floats, velocity_rad_s: Floats, time_s: Floats, motor_inertia: float) -> Floats:
    """Return the drive's torque (n,) less what turns the motor itself [N.m].

    Below the frequency at which a hanging arm swings freely the transducer sees its weight, above it its inertia, with
    the other sign. With the motor's inertia on top the drive's torque changes sign at a lower frequency: between the
    two, a sound transducer would seem inverted.

    Parameters
    ----------
    drive_nm, velocity_rad_s, time_s : (n,) float64
        Seen at the joint; times need not be even.
    motor_inertia : float
        Nominal, seen at the joint [kg.m2].
    """
    if len(drive_nm) < 2:
        return drive_nm
    # Central differences; np.gradient costs the control loop ten times as much.
    rise, run = np.empty(len(drive_nm)), np.empty(len(drive_nm))
    for change, values in ((rise, velocity_rad_s), (run, time_s)):
        change[1:-1] = values[2:] - values[:-2]
        change[0], change[-1] = values[1] - values[0], values[-1] - values[-2]
    return np.asarray(drive_nm - motor_inertia * rise / run)


def torque_error(sums: TorqueSums, rated_torque_nm: float) -> SafetyAbort | None:
    """Return what is wrong with the transducer's sign; None when nothing is, or it cannot be told yet."""
    if sums.count < 8 or sums.range_nm < LEAST_TORQUE_SHARE * rated_torque_nm:
        return None
    slope, explained = sums.effect()
    if slope >= 0 or explained < LEAST_EXPLAINED:
        return None
    return SafetyAbort(
        f"the transducer's torque changes by {slope:.2f} N.m for each N.m of the drive, friction set apart, over "
        f"{sums.range_nm:.3g} N.m",
        reason="transducer_sign",
        where="joint_torque and motor_torque",
        remedy="Swap torque_transducer.sign in the rig profile, or its signal wires; where the joint encoder counts "
        "the other way as well, it is drive.direction.",
    )


class JointWatch:
    """Compares the three witnesses on every block.

    Parameters
    ----------
    gear_ratio : float
        Of the rig profile.
    rated_torque_nm : float
        Of the joint [N.m].
    locked : bool
        The output is clamped: a joint encoder that stands is right then, and angles are not compared.
    """

    def __init__(self, gear_ratio: float, rated_torque_nm: float, *, locked: bool = False) -> None:
        self.gear_ratio = gear_ratio
        self.rated_torque_nm = rated_torque_nm
        self.locked = locked
        self.angles = AngleSums()
        self.torques = TorqueSums()
        self._suspect = False
        self._look_at = 0.0
        self.angles_judged = 0
        self.torques_judged = 0

    def feed(
        self,
        motor_rad: Floats,
        velocity_rad_s: Floats,
        drive_nm: Floats,
        joint_rad: Floats,
        transducer_nm: Floats,
    ) -> None:
        """Take the next block in, five arrays (n,) at the same times, seen at the joint; raise what it shows.

        ``drive_nm`` is what the drive passes on, see :func:`passed_on`.

        The sums begin anew after each judgement, so that something that breaks late in a run is seen as soon as
        something that was wrong from the start.

        Raises
        ------
        SafetyAbort
            ``"encoder_stuck"``, ``"encoder_direction"``, ``"gear_ratio"`` or ``"transducer_sign"``.
        """
        if not len(motor_rad):
            return
        if not self.locked:
            self.angles.add(motor_rad, joint_rad)
            if self.angles.travel_rad >= LEAST_TRAVEL_RAD:
                error = angle_error(self.angles, self.gear_ratio)
                # Of a stretch in which it broke, the sums tell neither the one nor the other: the next one will.
                if error is not None and (self._suspect or not self.angles_judged):
                    raise error
                self._suspect = error is not None
                self.angles = AngleSums()
                self.angles_judged += 1
        self.torques.add(drive_nm, velocity_rad_s, transducer_nm)
        enough = self.torques.range_nm >= LEAST_TORQUE_SHARE * self.rated_torque_nm
        if enough and self.torques.count >= self._look_at:
            self._judge_torques()

    def _judge_torques(self) -> None:
        error = torque_error(self.torques, self.rated_torque_nm)
        if error is not None:
            raise error
        # Sums that do not tell yet are looked at again when they have grown: solving them costs more than adding.
        self._look_at = 1.2 * self.torques.count
        if self.torques.effect()[1] >= LEAST_EXPLAINED:
            self.torques = TorqueSums()
            self._look_at = 0.0
            self.torques_judged += 1
