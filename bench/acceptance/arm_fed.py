"""Was an arm fed forward what its profiles and its file say: weight, friction apart, and the force it presses with?

The controller's model is known: the identified arm of the archived file, else the nominal one, with the payload named.
What was fed forward beside it, in slow motion, is nothing in free air; where a force is pressed with and gains are
switched it is ``J^T F`` of the wanted force. So a phase that bears the name of the other kind, another file or another
payload than those archived shows.
"""

from __future__ import annotations

import math

import numpy as np

from bench.acceptance.arm_evidence import ArmEvidence, Floats
from bench.arm import arm_model
from bench.profile import ApproachTouchProcedure, ArmPhantom, WrenchCheckProcedure

#: Phases whose motion is so slow that what is fed forward is weight and friction, and those that press.
SLOW = ("crossing", "hold", "uncompensated", "compensated", "free")
PRESSING = ("press", "with_switch", "without_switch")
#: What was fed forward and what should have been may part by this share of the rated torque.
RATED_SHARE = 0.015
#: The force fed forward is the wanted one within this share of it.
FORCE_SHARE = 0.04
#: Places along a phase, in its second half, at which both are compared.
SAMPLES = 25


def fed_forward(evidence: ArmEvidence) -> str:
    """Say what was fed forward that should not have been, or was not; nothing where all is as it should be."""
    facts = evidence.facts
    if facts.feedforward is None:
        model = arm_model(facts.rig, facts.payload)
    else:
        model = evidence.identified(facts.payload).model
    wanted = evidence.joints("desired_{}_position", "rad", "angle")
    beside = evidence.joints("feedforward_{}_torque", "N.m", "torque")
    beside = beside - evidence.joints("friction_{}_torque", "N.m", "torque")
    rated = facts.ratings.rated_torque
    for phase in evidence.run.phases:
        if phase.name not in (*SLOW, *PRESSING):
            continue
        first, last = np.searchsorted(evidence.time_s, (0.5 * (phase.start_s + phase.end_s), phase.end_s))
        if last <= first:
            continue
        rows = np.linspace(first, last - 1, SAMPLES).round().astype(int)
        left = (beside[rows] - model.gravity_rows(wanted[rows])).mean(axis=0)
        name = f"{phase.name} {phase.replicate}"
        if phase.name in PRESSING and isinstance(facts.specimen, ArmPhantom):
            normal = np.array(facts.specimen.normal, dtype=np.float64)
            column = -(model.jacobian(wanted[rows].mean(axis=0), "tip")[:3].T @ normal)
            force = float(column @ left / (column @ column))
            left = left - force * column
            if said := _force(evidence, phase.name, int(phase.replicate), force):
                return f"{name}: {said}"
        if said := _rest(evidence, left, rated):
            return f"{name}: {said}"
    return ""


def _force(evidence: ArmEvidence, name: str, replicate: int, force: float) -> str:
    """Compare the force that was fed forward [N] with the one the procedure wants."""
    procedure = evidence.facts.procedure
    if isinstance(procedure, ApproachTouchProcedure):
        pressed = procedure.force.to("N")
        due = pressed if name == "with_switch" else 0.0
    elif isinstance(procedure, WrenchCheckProcedure):
        forces = [value.to("N") for value in procedure.forces]
        pressed = due = forces[(replicate - 1) % len(forces)]
    else:
        return ""
    if math.isfinite(force) and abs(force - due) <= FORCE_SHARE * pressed:
        return ""
    if due == 0.0:
        return f"{force:.3g} N were fed forward where gains are not switched: it is no touch without the switch"
    return (
        f"{force:.3g} N were fed forward, and {due:g} N should have been: gains were not switched, or for another force"
    )


def _rest(evidence: ArmEvidence, left: Floats, rated: Floats) -> str:
    joint = int(np.argmax(np.abs(left) / rated))
    if abs(left[joint]) <= RATED_SHARE * rated[joint]:
        return ""
    facts = evidence.facts
    by = "the nominal arm" if facts.feedforward is None else f"the feed-forward file {facts.feedforward.name}"
    return (
        f"what was fed forward to {facts.names[joint]} is not what {by} with {facts.specimen.name} gives (they part by "
        f"{left[joint]:.3g} N.m): rig, file or payload in the archive are not those that were used"
    )
