"""What the procedures that touch have in common: the way to the phantom and back, planned; zeroing and retreating."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.arm import point, sensor_frame
from bench.errors import LimitError
from bench.models.arm_path import ArmPath
from bench.procedures import arm_plan
from bench.procedures.arm_control import FollowArm
from bench.procedures.arm_force import ContactLaw, ContactSensor, PressOnRail
from bench.procedures.arm_motion import OnRail, Rail, Standing, sampled
from bench.procedures.arm_mover import LATE_S, ArmMover
from bench.procedures.arm_plan import ArmControl
from bench.procedures.arm_reach import rail
from bench.procedures.joint_motion import rest_to_rest
from bench.profile import ArmPhantom, ArmRig, SpecimenProfile
from bench.profile.procedure_arm import ArmContactProcedure
from bench.units import Value

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel
    from bench.procedures.arm_loop import ArmRecording

Floats = NDArray[np.float64]

#: Changes of speed along the rail take this acceleration [m/s2].
ACCELERATION = 0.3
#: A force that is pressed with may be this share of what phantom and rig bear: the rest is for overshoot.
FORCE_SHARE = 0.6
#: Depth at a force by the nominal stiffness, times this: the phantom may be softer, and tissue creeps.
DEPTH_FACTOR = 2.0
#: Seconds beyond the nominal until contact has to be there.
SEARCH_S = 2.0
#: A joint bears a force along the normal when its lever is longer than this [m].
LEVER_M = 0.05


@dataclass(frozen=True)
class ContactWay:
    """The way to the phantom in plain numbers: SI, base frame.

    Attributes
    ----------
    rail : Rail
        0 at the surface's nominal place, positive below it.
    forces : tuple of float
        Joint torques per newton pressed [m].
    axis : tuple of float
        Outward normal in axes of the sensor.
    """

    rail: Rail
    forces: tuple[float, ...]
    normal: tuple[float, ...]
    axis: tuple[float, ...]
    law: ContactLaw
    clearance_m: float
    retreat: float
    stiffness: float

    @property
    def hover(self) -> Floats:
        """Where the joints stand above the surface (n,)."""
        return self.rail.place(-self.clearance_m)[0]

    @property
    def approach_s(self) -> float:
        """How long the way to the nominal surface takes [s]."""
        return self.clearance_m / self.law.approach

    @property
    def search_s(self) -> float:
        """Longest time until contact [s]."""
        return (self.clearance_m + self.rail.high) / self.law.approach + SEARCH_S

    def depth(self, force_n: float) -> float:
        """Return the greatest depth that is expected at a force [m]."""
        return min(DEPTH_FACTOR * force_n / self.stiffness, self.rail.high)

    def retreat_s(self, force_n: float) -> float:
        """How long the way back to the hovering pose takes [s]."""
        way = rest_to_rest(self.depth(force_n), -self.clearance_m, speed=self.retreat, acceleration=ACCELERATION)
        return way.duration_s

    def pressing(self, force_n: float, seconds: float, label: str, rate_hz: float) -> list[ArmPath]:
        """Return the way down, the press and the way back up, for the check before anything moves."""
        deep, high = self.depth(force_n), -self.clearance_m
        down = OnRail(self.rail, rest_to_rest(high, deep, speed=self.law.approach, acceleration=ACCELERATION))
        up = OnRail(self.rail, rest_to_rest(deep, high, speed=self.retreat, acceleration=ACCELERATION))
        standing = ArmPath.standing(
            f"{label}: pressing", self.rail.place(deep)[0], seconds,
            force_needed=force_n, direction=tuple(-x for x in self.normal),
        )  # fmt: skip
        return [
            sampled(down, f"{label}: approaching", rate_hz, led=True),
            standing,
            sampled(up, f"{label}: retreating", rate_hz, led=True),
        ]


def contact_way(
    rig: ArmRig, procedure: ArmContactProcedure, specimen: SpecimenProfile, control: ArmControl, where: str
) -> ContactWay:
    """Return the way to the phantom, or refuse it.

    Raises
    ------
    LimitError
        ``wrong_specimen``: it is no phantom; ``force_limit``: it is pressed too hard; ``out_of_reach``,
        ``not_straight``, ``position``: the arm cannot follow the way.
    """
    if not isinstance(specimen, ArmPhantom):
        raise LimitError(
            f"{specimen.name} is no phantom of an arm but a specimen of kind {specimen.kind}; it cannot press that",
            reason="wrong_specimen",
            where=where,
            remedy='Name a specimen of kind "arm_phantom"',
        )
    _check_forces(rig, procedure, specimen, where)
    model = control.knowledge.model
    seed = arm_plan.pose_of(rig, procedure.pose, "pose", where)
    normal = np.array(specimen.normal, dtype=np.float64)
    low, high = -procedure.clearance.to("m"), specimen.max_indentation.to("m")
    made = rail(model, seed, point(specimen.surface), normal, low, high, where)
    _check_positions(rig, made, where)
    surface = made.place(0.0)[0]
    turn = model.placement(surface, model.n - 1)[:3, :3] @ model.description.flange[:3, :3] @ sensor_frame(rig)[:3, :3]
    return ContactWay(
        rail=made,
        forces=_plain(-(model.jacobian(surface)[:3].T @ normal)),
        normal=_plain(normal),
        axis=_plain(turn.T @ normal),
        law=ContactLaw(
            mass=procedure.virtual_mass.to("kg"),
            free=procedure.free_damping.to("N.s/m"),
            contact=procedure.contact_damping.to("N.s/m"),
            approach=procedure.approach_speed.to("m/s"),
            press=procedure.press_speed.to("m/s"),
            touch=procedure.contact_force.to("N"),
            release=procedure.release_force.to("N"),
            debounce=procedure.debounce,
        ),
        clearance_m=procedure.clearance.to("m"),
        retreat=procedure.retreat_speed.to("m/s"),
        stiffness=specimen.nominal_stiffness.to("N/m"),
    )


def creeping(model: ArmModel, q: Floats, forces: Floats, speed: float) -> Floats:
    """Return joint speeds (n,) at which every joint that bears the force creeps, at ``speed`` [rad/s] at least.

    The tip stays where it is and the tool tilts about it where the arm has joints enough for that; else the tip moves
    along the surface. Of the possible ways the one is taken that needs the lowest speeds.

    Raises
    ------
    LimitError
        ``no_creep``: the joints that bear the force cannot all move without moving the tip along the normal.
    """
    jacobian = model.jacobian(q)[:3]
    bearing = np.flatnonzero(np.abs(forces) >= LEVER_M)
    if not len(bearing) or speed == 0.0:
        return np.zeros(model.n)
    for rows in (jacobian, forces[None, :]):
        _, values, right = np.linalg.svd(rows)
        rank = int(np.count_nonzero(values > 1e-6 * values[0]))
        free = right[rank:].T
        found = []
        for signs in itertools.product((1.0, -1.0), repeat=len(bearing)):
            part = np.linalg.lstsq(free[bearing], np.array(signs), rcond=None)[0] if free.size else np.zeros(0)
            way = free @ part
            least = float(np.min(way[bearing] * signs)) if free.size else 0.0
            if least > 1e-3:
                found.append(way * (speed / least))
        if found:
            return np.asarray(min(found, key=lambda way: float(np.abs(way).max())))
    raise LimitError(
        "the joints that bear the force cannot all creep while the tip stays on the surface",
        reason="no_creep",
        where="contact",
        remedy='Take another pose, or none of it: creep_speed = "0 rad/s".',
    )


def zeroed(mover: ArmMover, way: ContactWay, seconds: float, text: str) -> ContactSensor:
    """Hold the arm in free air and return the wrist sensor's force along the normal, zeroed there.

    Raises
    ------
    SafetyAbort
        ``"wrong_load"``: the sensor feels something else than the weight there; nothing is pressed by such a sensor.
    """
    sensor, readings = ContactSensor(np.array(way.axis)), list[list[float]]()
    follow = FollowArm(Standing(mover.desired, seconds), mover.output, mover.laws)
    motion = follow.motion

    def standing(tick: object, command: object) -> bool:
        readings.append(list(tick.wrench))  # type: ignore[attr-defined]
        return follow(tick, command)  # type: ignore[arg-type]

    mover.recording.run(standing, motion.duration_s + LATE_S, text=text)
    calm = readings[len(readings) // 3 :]
    mover.recording.channels.watch.check_free(mover.desired, np.mean(calm, axis=0)[:3])
    sensor.zero([sensor.raw(wrench) for wrench in calm])
    return sensor


def pressing(
    recording: ArmRecording, mover: ArmMover, way: ContactWay, sensor: ContactSensor, switch: bool
) -> PressOnRail:
    """Return the controller that presses from the hovering pose on."""
    return PressOnRail(
        way.rail, mover.output, mover.laws, sensor, way.law, np.array(way.forces),
        start_m=-way.clearance_m, period_s=recording.period_s, search_s=way.search_s, switch=switch,
    )  # fmt: skip


def retreat(mover: ArmMover, way: ContactWay, press: PressOnRail, label: str) -> None:
    """Lift the tool off along the rail and go back to the hovering pose."""
    along = rest_to_rest(press.place_m, -way.clearance_m, speed=way.retreat, acceleration=ACCELERATION)
    mover.follow(OnRail(way.rail, along, press.offset.copy()), f"{label}: retreating")
    mover.move(way.hover, f"{label}: back above the phantom")


def _check_forces(rig: ArmRig, procedure: ArmContactProcedure, specimen: ArmPhantom, where: str) -> None:
    limits: list[tuple[str, Value]] = [
        (f"{specimen.name} bears", specimen.max_force),
        ("the rig's force_limit is", rig.safety.force_limit),
    ]
    for key, force in procedure.wanted():
        for what, limit in limits:
            if not force.to("N") <= FORCE_SHARE * limit.to("N"):
                raise LimitError(
                    f"{key} is {force}; {what} {limit}, of which {FORCE_SHARE:.0%} may be pressed with",
                    reason="force_limit",
                    where=where,
                    remedy="Press less: the force overshoots before it settles.",
                )


def _check_positions(rig: ArmRig, made: Rail, where: str) -> None:
    for s in (made.low, 0.0, made.high):
        for joint, q in zip(rig.arm.joints, made.place(s)[0].tolist(), strict=True):
            low, high = joint.number("position_min"), joint.number("position_max")
            if low is not None and high is not None and not low <= q <= high:
                raise LimitError(
                    f"with the tip {1e3 * s:.0f} mm below the surface joint {joint.name} would be at {q:.2f} rad, "
                    f"beyond {low:.2f} to {high:.2f} rad",
                    reason="position",
                    where=where,
                    remedy="Let the search begin at another pose, or move the phantom.",
                )


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(float(value) for value in values)
