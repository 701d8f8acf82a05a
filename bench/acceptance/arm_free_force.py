"""In free air the wrist sensor feels the weight and inertia of tool and payload, and nothing else, in every run.

What it feels beyond is another body than the one named, one that came or went during the run, a gauge that is inverted,
swapped or broken, or a zero that has moved. None of these is the arm's fault, and each shows here by one witness that
no verdict on torques leans on.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.arm_evidence import ArmEvidence, Floats
from bench.arm import arm_model, body, point, sensor_frame
from bench.identify.arm_stretch import WRENCH
from bench.models.arm_description import LinkInertia
from bench.profile import ArmPhantom
from bench.profile.procedure_arm import ArmContactProcedure

#: Phases in which the tool may touch; outside of them it may where its tip is nearer to the surface than this share of
#: the clearance it hovers at.
PRESSING, CLEAR_SHARE = ("press", "with_switch", "without_switch"), 0.5
#: Rates at which positions are differentiated [Hz], and over which the force is averaged [s].
SAMPLED_HZ, BLOCK_S = 50.0, 0.2
#: The force may be off by so much [N] and by this share of the weight that is carried.
OFF_N, OFF_SHARE = 0.3, 0.05


def unexplained(evidence: ArmEvidence) -> str:
    """Say that the wrist sensor feels what tool and payload do not make; nothing when it does not."""
    if not all(len(evidence.channel(name, *_kind(name)).values) for name in WRENCH):
        return ""
    time, force = free_force(evidence)
    if not len(time):
        return ""
    carried = _carried(evidence)
    allowed = OFF_N + OFF_SHARE * carried.mass * float(np.linalg.norm(evidence.nominal().description.gravity))
    size = np.linalg.norm(force, axis=1)
    if (size <= allowed).all():
        return ""
    first = int(np.flatnonzero(size > allowed)[0])
    worst = int(np.argmax(size))
    return (
        f"from {time[first]:.1f} s on the wrist sensor feels up to {size[worst]:.3g} N in free air beyond what tool "
        f"and payload of {carried.mass:.3g} kg make ({allowed:.2g} N are allowed): something else is on the tool than "
        f"{evidence.facts.specimen.name} and the profiles say, the sensor's zero moved, or a gauge is inverted, "
        "swapped or broken. Look at what is mounted, at the sensor's gauges and cable, and at its .cal file"
    )


def free_force(evidence: ArmEvidence) -> tuple[Floats, Floats]:
    """Return times (k,) and forces (k, 3) in free air beyond weight and inertia, in the sensor's axes, block by block.

    The sensor's zero was taken where the run begins, with what hangs on it. Accelerations are those of the centre of
    what is carried, by the encoders; over a block they come down to a difference of speeds.
    """
    carried = _carried(evidence)
    model = arm_model(evidence.facts.rig)
    mount = model.description.flange @ sensor_frame(evidence.facts.rig)
    step = max(1, round(evidence.facts.rig.loop.rate.to("Hz") / SAMPLED_HZ))
    time, position = evidence.time_s[::step], evidence.rows.position[::step]
    wrench, sampled = evidence.rows.wrench
    block = max(2, round(BLOCK_S * SAMPLED_HZ))
    if len(time) < 2 * block:
        return np.empty(0), np.empty((0, 3))
    places = model.placement_rows(position, model.n - 1) @ mount
    turns = places[:, :3, :3]
    centre = places[:, :3, 3] + turns @ carried.centre
    acceleration = np.gradient(np.gradient(centre, time, axis=0), time, axis=0)
    free = np.asarray(model.description.gravity)
    expected = carried.mass * np.einsum("kji,kj->ki", turns, free - acceleration)
    zero = carried.mass * (turns[0].T @ free)
    felt = np.stack([np.interp(time, sampled, column) for column in wrench[:, :3].T], axis=1)
    left = felt - (expected - zero)
    known = np.isfinite(left).all(axis=1) & ~_touching(evidence, time, position)
    # where rows are missing, a difference across is no acceleration
    gaps = np.flatnonzero(np.diff(time) > 2.0 * step / evidence.facts.rig.loop.rate.to("Hz"))
    for reach in (-1, 0, 1, 2):
        known[np.clip(gaps + reach, 0, len(known) - 1)] = False
    whole = len(time) // block * block
    use = known[:whole].reshape(-1, block).all(axis=1)
    blocks = left[:whole].reshape(-1, block, 3).mean(axis=1)
    return time[:whole].reshape(-1, block).mean(axis=1)[use], blocks[use]


def _touching(evidence: ArmEvidence, time: Floats, position: Floats) -> NDArray[np.bool_]:
    """Return (k,) whether the tool may touch: in phases that press, and near the phantom before and after them."""
    procedure, specimen = evidence.facts.procedure, evidence.facts.specimen
    touching = np.zeros(len(time), dtype=bool)
    if not isinstance(specimen, ArmPhantom) or not isinstance(procedure, ArmContactProcedure):
        return touching
    tips = evidence.nominal().placement_rows(position, "tip")[:, :3, 3]
    height = (tips - point(specimen.surface)) @ np.array(specimen.normal, dtype=np.float64)
    near = height < CLEAR_SHARE * procedure.clearance.to("m")
    for phase in evidence.run.phases:
        inside = (time >= phase.start_s) & (time <= phase.end_s)
        touching |= inside & (phase.name in PRESSING)
        near &= ~(inside & (phase.name not in PRESSING))
    return np.asarray(touching | near)


def _carried(evidence: ArmEvidence) -> LinkInertia:
    facts = evidence.facts
    tool = body(facts.rig.tool)
    return tool if facts.payload is None else tool.plus(body(facts.payload.body))


def _kind(name: str) -> tuple[str, str]:
    return ("N", "force") if name.startswith("force") else ("N.m", "torque")
