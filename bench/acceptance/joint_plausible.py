"""Is it the load that was named, and does the transducer read what its certificate says? Only nominal figures can tell.

A fit takes up whatever load hangs there and whatever the transducer's gain is, and predicts a hold-out as well with
both wrong. The load's profile and the drive's torque constant are known otherwise, coarsely: what is far from them is
another load, or a scale that is wrong.
"""

from __future__ import annotations

import cmath

from bench.acceptance.joint_evidence import JointEvidence
from bench.errors import Refused
from bench.identify.joint_dynamics import JointFit
from bench.profile import JointLoad

#: Torque the drive makes per torque commanded, against the transducer: how far from one.
SCALE_SHARE = 0.1
#: Weight and inertia of what is mounted may differ by this share from the load's nominal ones.
WEIGHT_SHARE, INERTIA_SHARE = 0.2, 0.3


def odd_scale(scale: float, uncertainty: float = 0.0) -> str:
    """Say that drive and transducer do not mean one torque; nothing when they do, or it is not known well enough.

    ``uncertainty`` is the standard uncertainty of ``scale`` [1].
    """
    if abs(scale - 1.0) <= SCALE_SHARE + 2.0 * uncertainty:
        return ""
    return (
        f"by the transducer the drive makes {scale:.3g} times the torque it is told, at most {SCALE_SHARE:.0%} off are "
        "allowed: the transducer's sensitivity, the gear ratio or the drive's torque constant is wrong"
    )


def check_scale(evidence: JointEvidence, motor: JointFit) -> None:
    """Refuse a transducer that reads far from what the drive makes.

    Raises
    ------
    Refused
        ``torque_scale``.
    """
    scale = motor.parameters["torque_scale"]
    if said := odd_scale(scale.value, scale.standard_uncertainty):
        raise Refused(
            said,
            reason="torque_scale",
            where=evidence.where,
            remedy="Compare the rig profile with the certificate, and load the transducer by a known weight",
        )


def check_load(evidence: JointEvidence, link: JointFit) -> None:
    """Refuse a load that weighs or turns otherwise than the one named.

    Raises
    ------
    Refused
        ``other_load``.
    """
    load = evidence.facts.specimen
    if not isinstance(load, JointLoad):
        return
    inertia, nominal = link.parameters["link_inertia"], load.link_inertia.to("kg.m2")
    if abs(inertia.value - nominal) > INERTIA_SHARE * nominal + 2.0 * inertia.standard_uncertainty:
        raise _other(evidence, f"what is mounted has an inertia of {inertia.value:.3g} kg.m2", str(load.link_inertia))
    moment = link.parameters.get("gravity_moment")
    if moment is None:
        return
    hangs = link.parameters["gravity_phase"].value
    found = cmath.rect(moment.value, hangs)
    stated = cmath.rect(load.gravity_moment.to("N.m"), load.gravity_phase.to("rad"))
    if abs(found - stated) > WEIGHT_SHARE * abs(stated) + 2.0 * moment.standard_uncertainty:
        raise _other(
            evidence,
            f"what is mounted weighs {moment.value:.3g} N.m and hangs at {hangs:.3g} rad",
            f"{load.gravity_moment} at {load.gravity_phase}",
        )


def _other(evidence: JointEvidence, found: str, stated: str) -> Refused:
    return Refused(
        f"{found}, the profile of {evidence.facts.specimen.name} says {stated}",
        reason="other_load",
        where=evidence.where,
        remedy="Name the load that is mounted, or correct its figures; else look at the transducer's sensitivity",
    )
