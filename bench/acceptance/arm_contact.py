"""The force with which an arm presses, by its wrist sensor and by its joints' torques."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_evidence import ArmEvidence, name_of
from bench.acceptance.arm_values import ArmValue, Values
from bench.acceptance.measured import Measured
from bench.arm import body, sensor_frame
from bench.errors import ArchiveError, Refused
from bench.identify.arm_payload import weight_columns
from bench.identify.arm_stretch import ArmStretch
from bench.profile import ArmCriterion, ArmPhantom

if TYPE_CHECKING:
    from bench.arm_feedforward import IdentifiedArm

Floats = NDArray[np.float64]

SENSOR, FRICTION, TORQUE, TOOL = "force calibration", "friction at rest", "torque constant", "tool weight"
#: A joint slower than this stands, and friction may bear any torque below its breakaway [rad/s].
STANDS = 3e-3
#: Sliding friction is known to this share.
SLIDES_SHARE = 0.1
#: Share of a phase, at its end, over which the force is averaged.
STEADY = 0.5
#: Poses at which torques are turned into forces, along a phase.
SAMPLES = 25
#: Less than this is no pressing [N].
PRESSES_N = 1.0
#: The tool's weight is known to this share.
TOOL_SHARE = 0.05
FEWEST_LEVELS = 2


@dataclass(frozen=True)
class Pressing:
    """Force along the surface's normal, positive when pressing [N].

    Parameters
    ----------
    level : int
    sensor, torques : float
        By the wrist sensor, tool's weight taken off; by the joints' torques.
    budget : dict of str to float
        Standard uncertainties of the difference, by source.
    """

    level: int
    sensor: float
    torques: float
    budget: dict[str, float]


class Contact:
    """Wrist sensor and torques of a run along the normal of the surface that is pressed.

    The sensor's zero was taken where the run begins, with the tool on it: what the tool's weight pulls otherwise since
    then is taken off.
    """

    def __init__(self, evidence: ArmEvidence) -> None:
        self.evidence = evidence
        specimen = evidence.facts.specimen
        if not isinstance(specimen, ArmPhantom):
            raise ArchiveError(
                f"{specimen.name} has no surface that could be pressed",
                where=evidence.where,
                remedy="Judge a run on a phantom",
            )
        rig = evidence.facts.rig
        self.normal = np.array(specimen.normal, dtype=np.float64)
        self.model = evidence.nominal()
        self.mount = self.model.description.flange @ sensor_frame(rig)
        self.tool = body(rig.tool).parameters()[:4]
        first = evidence.joints("motor_{}_position", "rad", "angle")[0]
        self.zero = self._weight(evidence.facts.drives.joint_position(first))

    def _turn(self, position: Floats) -> Floats:
        """Axes of the sensor in the base frame (3, 3)."""
        return np.asarray(self.model.placement(position, self.model.n - 1)[:3, :3] @ self.mount[:3, :3])

    def _weight(self, position: Floats) -> Floats:
        """Wrench of the tool's weight (6,) in the sensor's frame."""
        gravity = self._turn(position).T @ np.asarray(self.model.description.gravity)
        return np.asarray(weight_columns(gravity) @ self.tool)

    def force(self, stretch: ArmStretch, start_s: float | None = None) -> tuple[Floats, Floats]:
        """Force along the normal (k,) [N], positive when pressing, and its time (k,), on the DAQ's clock."""
        phase = stretch.phase
        wrench, time = self.evidence.rows.wrench_between(phase.start_s if start_s is None else start_s, phase.end_s)
        if len(wrench) < 2 or not np.isfinite(wrench).all():
            raise ArchiveError(
                "the wrist sensor's force is missing or not finite",
                where=f"{self.evidence.where}: {name_of(stretch)}",
                remedy="Record the run again",
            )
        # turned at a few instants and linearly between them: a pressing tool hardly turns
        at = np.linspace(time[0], time[-1], SAMPLES)
        q = np.stack([np.interp(at, stretch.time_s, column) for column in stretch.position.T], axis=1)
        along = np.array([self._turn(one).T @ self.normal for one in q])
        moved = np.array([(self._weight(one) - self.zero)[:3] for one in q])
        axes = np.stack([np.interp(time, at, column) for column in along.T], axis=1)
        tool = np.stack([np.interp(time, at, column) for column in moved.T], axis=1)
        return np.einsum("ki,ki->k", wrench[:, :3] - tool, axes), time

    def tool_uncertainty(self, stretch: ArmStretch) -> float:
        """Standard uncertainty that the tool's weight leaves to the force [N]."""
        moved = self._weight(stretch.position[-1]) - self.zero
        return TOOL_SHARE * float(np.linalg.norm(moved[:3]))


def pressings(evidence: ArmEvidence, criterion: ArmCriterion) -> list[Pressing]:
    """Return both forces of every level.

    Raises
    ------
    Refused
        ``no_segment``; ``too_few_levels``; ``no_contact``: nothing was pressed.
    """
    if "pressings" in evidence.kept:
        kept: list[Pressing] = evidence.kept["pressings"]  # type: ignore[assignment]  # what was put there below
        return kept
    contact, arm = Contact(evidence), evidence.identified()
    found = [_pressing(evidence, contact, arm, stretch) for stretch in evidence.stretches(criterion.segment)]
    if len(found) < FEWEST_LEVELS:
        raise Refused(
            f"{len(found)} level of force",
            reason="too_few_levels",
            where=evidence.where,
            remedy=f"Press with {FEWEST_LEVELS} levels at least: an offset shows as one",
        )
    if max(abs(one.sensor) for one in found) < PRESSES_N:
        raise Refused(
            f"the wrist sensor felt {max(abs(one.sensor) for one in found):.2g} N at most: nothing was pressed",
            reason="no_contact",
            where=evidence.where,
            remedy="Look where the phantom stands, and at the sensor",
        )
    evidence.kept["pressings"] = found
    return found


def _pressing(evidence: ArmEvidence, contact: Contact, arm: IdentifiedArm, stretch: ArmStretch) -> Pressing:
    start = stretch.phase.end_s - STEADY * (stretch.phase.end_s - stretch.phase.start_s)
    force, _ = contact.force(stretch, start)
    steady = np.flatnonzero(stretch.time_s >= start)
    rows = steady[np.linspace(0, len(steady) - 1, min(SAMPLES, len(steady))).round().astype(int)]
    q, v, a = stretch.position[rows], stretch.velocity[rows], stretch.acceleration[rows]
    moves = np.abs(stretch.velocity[steady].mean(axis=0)) >= STANDS
    friction = np.where(moves, arm.friction.torque(v), arm.friction.offset)
    made = stretch.torque[steady].mean(axis=0) * evidence.facts.torque_scale
    left = made - (arm.model.inverse_dynamics_rows(q, v, a) + friction).mean(axis=0)
    # a joint that stands hides anything within its breakaway; one that slides what its friction is not known to
    level = np.where(moves, SLIDES_SHARE * arm.friction.coulomb, arm.friction.breakaway / np.sqrt(3.0))
    share = evidence.facts.ratings.torque_uncertainty * np.abs(made)
    sigma = np.hypot(level, share)
    jacobian = arm.model.jacobian(q.mean(axis=0), "tip")[:3]
    # tau = J^T F, F on the surroundings, by least squares over the joints, each by its uncertainty
    columns = (jacobian / sigma).T
    inverse = np.linalg.pinv(columns)
    pressed = -(inverse @ (left / sigma)) @ contact.normal
    along = -contact.normal @ inverse / sigma
    measured = float(force.mean())
    budget = {
        SENSOR: evidence.facts.sensor.standard_uncertainty(measured),
        FRICTION: float(np.linalg.norm(along * level)),
        TORQUE: float(np.linalg.norm(along * share)),
        TOOL: contact.tool_uncertainty(stretch),
    }
    return Pressing(stretch.phase.replicate, measured, float(pressed), budget)


def wrench_force_error(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """Pressing force by the joints' torques less that of the wrist sensor [N], per level."""
    return [
        ArmValue(one.level, Measured(one.torques - one.sensor, one.torques, one.sensor, one.budget))
        for one in pressings(evidence, criterion)
    ]


def wrench_error(evidence: ArmEvidence, criterion: ArmCriterion) -> Values:
    """:func:`wrench_force_error` as a share of the largest force pressed with [1]."""
    found = pressings(evidence, criterion)
    largest = max(abs(one.sensor) for one in found)
    return [
        ArmValue(
            one.level,
            Measured(
                (one.torques - one.sensor) / largest,
                one.torques,
                one.sensor,
                {name: u / largest for name, u in one.budget.items()},
            ),
        )
        for one in found
    ]
