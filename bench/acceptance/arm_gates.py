"""What must be true of an arm's archive before a value in it means anything. Each failure is the bench's, and named."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.acceptance import arm_record
from bench.acceptance.arm_evidence import ArmEvidence, Floats
from bench.acceptance.arm_fed import fed_forward
from bench.acceptance.arm_feedforward import foreign
from bench.acceptance.arm_free_force import unexplained
from bench.acceptance.arm_planned import planned
from bench.acceptance.arm_statics import other_payload
from bench.errors import ArchiveError, BenchError
from bench.identify.arm_stretch import WRENCH
from bench.profile import ArmCriteria
from bench.profile.criteria_arm import ARM_JUDGES

#: Most ticks that may have been missed, as a share of all.
MISSED_SHARE = 0.01
#: A reading this near the end of its range is taken as saturated.
SATURATED = 0.995
#: A wrist sensor whose six readings all stay the same for so long [s] is not read any more.
STALE_S = 0.25
#: The motors were told what the record says, within this share of the rated torque.
COMMAND_SHARE = 0.005
#: Wrist sensor: channels that must be there.
CONTACT = ("wrench_check", "approach_touch", "payload_hold")


def why_not(evidence: ArmEvidence, criteria: ArmCriteria) -> str:
    """Say what speaks against judging the run at all; nothing when nothing does."""
    wanted = next(ARM_JUDGES[criterion.metric] for criterion in criteria.criteria)
    checks: tuple[Callable[[], str], ...] = (
        lambda: _names(evidence, criteria, wanted),
        lambda: arm_record.finite(evidence),
        lambda: _missed(evidence),
        lambda: arm_record.timed(evidence),
        lambda: _saturated(evidence),
        lambda: _stale(evidence, needed=wanted in CONTACT),
        lambda: arm_record.covered(evidence),
        lambda: _file(evidence),
        lambda: arm_record.followed(evidence),
        lambda: _commanded(evidence),
        lambda: arm_record.carried(evidence),
        lambda: arm_record.converted(evidence),
        lambda: planned(evidence),
        lambda: fed_forward(evidence),
        lambda: other_payload(evidence) if wanted == "payload_hold" else "",
        lambda: unexplained(evidence),
    )
    for check in checks:
        try:
            said = check()
        except BenchError as error:
            return str(error)
        if said:
            return said
    return ""


def _names(evidence: ArmEvidence, criteria: ArmCriteria, wanted: str) -> str:
    """The archive is of the procedure the criteria are for, and its parts belong together."""
    facts, run = evidence.facts, evidence.run
    if facts.procedure.procedure != wanted:
        return (
            f"{criteria.name} judges runs of {wanted}, and this archive is of {facts.procedure.procedure}. "
            "Name the run that was meant"
        )
    said = {"rig": facts.rig.name, "procedure": facts.procedure.name, "specimen": facts.specimen.name}
    for what, name in said.items():
        if run.provenance[what] != name:
            return (
                f"the archive is of the {what} {run.provenance[what]}, and the {what} profile in it is of {name}. "
                "One of the two does not belong to this run"
            )
    return ""


def _missed(evidence: ArmEvidence) -> str:
    missed = float(np.nansum(evidence.channel("missed_ticks", "count", "count").values))
    ticks = len(evidence.time_s)
    if missed > MISSED_SHARE * (ticks + missed):
        return (
            f"{missed:.0f} of {ticks + missed:.0f} ticks of the control loop were missed, {MISSED_SHARE:.0%} are "
            "allowed. Leave the computer to the loop, and record again"
        )
    return ""


def _saturated(evidence: ArmEvidence) -> str:
    rig = evidence.facts.rig
    reach = rig.wrist_sensor.voltage_range.to("V")
    for i in range(len(rig.wrist_sensor.channels)):
        volts = evidence.channel(f"gauge_{i}", "V", "voltage").values
        if len(volts) and float(np.nanmax(np.abs(volts))) >= SATURATED * reach:
            return (
                f"gauge {i} of the wrist sensor reached the end of its range ({reach:g} V): what lies beyond was not "
                "seen. Press less, or look at its cable"
            )
    capacity = rig.wrist_sensor.capacity.to("N")
    force = np.max(np.abs([evidence.channel(name, "N", "force").values for name in WRENCH[:3]]), axis=1)
    if float(np.nanmax(force)) >= SATURATED * capacity:
        return (
            f"the wrist sensor read {float(np.nanmax(force)):.3g} N, its capacity is {capacity:g} N. Take a larger "
            "sensor, or press less"
        )
    current = np.abs(evidence.joints("motor_{}_command_current", "A", "current"))
    most = np.array([servo.max_current.to("A") for servo in rig.servos])
    full = np.flatnonzero((np.nanmax(current, axis=0) >= SATURATED * most) if len(current) else np.zeros(0))
    if full.size:
        name = evidence.facts.names[int(full[0])]
        return (
            f"the current commanded to {name} stood at its limit ({most[full[0]]:g} A): the joint did what the limit "
            "let it. Move slower or carry less"
        )
    return ""


def _stale(evidence: ArmEvidence, *, needed: bool) -> str:
    """The wrist sensor is alive: a reading that repeats to the last bit is an old one."""
    channels = [evidence.channel(f"gauge_{i}", "V", "voltage") for i in range(len(WRENCH))]
    if any(len(one.values) == 0 for one in channels):
        if needed:
            raise ArchiveError("the wrist sensor was not recorded", where=evidence.where, remedy="Record it")
        return ""
    readings = np.stack([one.values for one in channels], axis=1)
    bad = int(np.count_nonzero(~np.isfinite(readings)))
    if bad:
        return f"{bad} readings of the wrist sensor are missing or not finite. Record the run again"
    for name in WRENCH:
        unit, kind = ("N", "force") if name.startswith("force") else ("N.m", "torque")
        wrench = evidence.channel(name, unit, kind)
        if (longest := _longest(wrench.values, wrench.time_s)) > STALE_S:
            return (
                f"{name} stayed the same to the last bit for {longest:.2g} s: the wrist sensor was not read any more. "
                "Look at the acquisition"
            )
    same = np.all(readings[1:] == readings[:-1], axis=1)
    longest = _run(same, channels[0].time_s)
    if longest > STALE_S:
        return (
            f"the wrist sensor's gauges stayed the same to the last bit for {longest:.2g} s: it was not read any more. "
            "Look at the acquisition"
        )
    return ""


def _longest(values: Floats, time_s: Floats) -> float:
    return _run(values[1:] == values[:-1], time_s)


def _run(same: np.ndarray, time_s: Floats) -> float:
    """Longest stretch of True [s]."""
    if not same.any():
        return 0.0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    starts, stops = edges[::2], edges[1::2]
    return float(np.max(time_s[np.minimum(stops, len(time_s) - 1)] - time_s[starts]))


def _file(evidence: ArmEvidence) -> str:
    """A feed-forward file that was used is this arm's."""
    file = evidence.facts.feedforward
    return "" if file is None else next(foreign(evidence, file), "")


def _commanded(evidence: ArmEvidence) -> str:
    """The currents written are what feedback and feed-forward come to: else the record does not say what was told."""
    facts = evidence.facts
    current = evidence.joints("motor_{}_command_current", "A", "current")
    told = facts.drives.joint_torque_of_current(current) * facts.torque_scale
    said = evidence.joints("feedback_{}_torque", "N.m", "torque")
    said = said + evidence.joints("feedforward_{}_torque", "N.m", "torque")
    apart = np.abs(told - said) / facts.ratings.rated_torque
    apart = apart[arm_record.within_phases(evidence)]
    if not len(apart):
        return "no row of the drives says what the motors were told. Look at how the run was recorded"
    worst = np.percentile(apart, 99.0, axis=0)
    joint = int(np.argmax(worst))
    if worst[joint] > COMMAND_SHARE:
        return (
            f"the torque commanded to {facts.names[joint]} and its feedback plus feed-forward part by "
            f"{worst[joint] * facts.ratings.rated_torque[joint]:.3g} N.m: the record does not say what the motor was "
            "told. Look at ratios, torque constants and at how the run was recorded"
        )
    return ""
