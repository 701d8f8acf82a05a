"""Is an arm's record whole, in time, and does every channel agree with the ones beside it that tell the same?

What is found here is a fault of the recording, whatever the arm did: rows that are missing, a time base that is not the
loop's, currents that are not those commanded (or are nothing but those), forces that are not the gauges' by the
calibration that was archived.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from bench.acceptance.arm_evidence import ArmEvidence
from bench.identify.arm_stretch import WRENCH

#: Channels of the drives, one of each joint, that a verdict may lean on: unit and kind.
DRIVE = (
    ("motor_{}_position", "rad", "angle"),
    ("motor_{}_current", "A", "current"),
    ("motor_{}_command_current", "A", "current"),
    ("desired_{}_position", "rad", "angle"),
    ("desired_{}_velocity", "rad/s", "angular_speed"),
    ("feedback_{}_torque", "N.m", "torque"),
    ("feedforward_{}_torque", "N.m", "torque"),
    ("friction_{}_torque", "N.m", "torque"),
)
#: The step from row to row is the loop's period within this share.
PERIOD_SHARE = 0.01
#: Rows that a phase may lack, as a share of those that lie in it, and at each of its ends.
LACKING_SHARE, LACKING_ROWS = 0.02, 3
#: Force and torque that conversion of the gauges may leave, as a share of the sensor's capacity.
CONVERSION_SHARE = 1e-3
#: Seconds over which currents are compared; the torques of both may part by this share of the rated torque, and of
#: the torque itself.
CURRENT_S, CURRENT_RATED, CURRENT_SHARE = 0.1, 0.015, 0.03
#: So many standard deviations of noise may be in a mean.
NOISES = 4.0
#: So many currents equal to their commands to the last bit are not measured.
COPIED_SHARE = 0.9
#: A joint may be this far from where it is wanted [rad]; one that moves and is never farther than the second figure was
#: not measured.
FOLLOWS_RAD, COPIED_RAD = 0.05, 1e-7
#: What a joint is told to move by at least [rad] before it counts as told to move, and before it is held to its way.
TOLD_RAD, FAR_RAD = 0.01, 0.1
#: A joint goes the way it is told within this factor, and one that is told far within this share.
GOES_FACTOR, GOES_SHARE = 2.0, 0.1
#: Phases in which the tool presses, and the least share of its way that a joint goes there.
PRESSING, HELD_SHARE = ("press", "with_switch", "without_switch"), 0.02


def finite(evidence: ArmEvidence) -> str:
    """Every value that a verdict leans on is a number."""
    inside = within_phases(evidence)
    for number, (name, unit, kind) in enumerate(DRIVE):
        values = evidence.joints(name, unit, kind)
        bad = int(np.count_nonzero(~np.isfinite(values if number < 2 else values[inside])))
        if bad:
            return f"{bad} values of {name.format('…')} are missing or not finite. Record the run again"
    missed = evidence.channel("missed_ticks", "count", "count").values
    bad = int(np.count_nonzero(~np.isfinite(missed)))
    return f"{bad} values of missed_ticks are missing or not finite. Record the run again" if bad else ""


def timed(evidence: ArmEvidence) -> str:
    """The rows follow each other as the loop's ticks do, and their time is that of their commands."""
    time, period = evidence.time_s, 1.0 / evidence.facts.rig.loop.rate.to("Hz")
    if len(time) < 2:
        return f"the drives have {len(time)} rows. Record the run again"
    steps = np.diff(time)
    if not np.isfinite(time).all() or float(steps.min()) <= 0.0:
        return "the drives' rows are not in the order of their time. Look at how the run was recorded"
    step = float(np.median(steps))
    if abs(step - period) > PERIOD_SHARE * period:
        return (
            f"the drives' rows follow each other by {1e3 * step:.4g} ms, and the loop's period is {1e3 * period:.4g} "
            "ms: their time base is not the loop's. Look at how the run was recorded"
        )
    late = evidence.channel("command_time", "s", "time").values - time
    half = evidence.channel("time_half_width", "s", "time").values
    if len(late) != len(time) or not (np.isfinite(late).all() and np.isfinite(half).all()):
        return "the times of the commands are missing or not finite. Record the run again"
    delay = float(np.median(late))
    if not 0.0 < delay <= period:
        return (
            f"commands went out {1e3 * delay:.4g} ms after the rows they answer, a period of {1e3 * period:.4g} ms is "
            "allowed: the drives' time base was shifted. Look at how the run was recorded"
        )
    width = float(np.percentile(half, 99.0))
    if width > period:
        return (
            f"rows of the drives are known in time to {1e3 * width:.2g} ms only, a period of {1e3 * period:.4g} ms is "
            "allowed. Look at what delays the servos' replies"
        )
    return ""


def covered(evidence: ArmEvidence) -> str:
    """Phases do not overlap, and rows and samples lie in them throughout."""
    phases = sorted(evidence.run.phases, key=lambda phase: float(phase.start_s))
    for phase in phases:
        if not phase.start_s < phase.end_s:
            return f"{_name(phase)} ends before it begins. Look at how the run was recorded"
    for one, other in pairwise(phases):
        if other.start_s < one.end_s - 1e-6:
            return f"the phases {_name(one)} and {_name(other)} overlap: they are not two. Judge what was recorded"
    rig = evidence.facts.rig
    groups = [("rows of the drives", evidence.time_s, rig.loop.rate.to("Hz"))]
    wrist = evidence.channel("force_z", "N", "force").time_s
    if len(wrist):
        groups.append(("samples of the wrist sensor", wrist, rig.daq.sample_rate.to("Hz")))
    for what, time, rate in groups:
        for phase in phases:
            first, last = np.searchsorted(time, (phase.start_s, phase.end_s))
            wanted = (phase.end_s - phase.start_s) * rate
            lacking = LACKING_SHARE * wanted + LACKING_ROWS
            ends = LACKING_ROWS / rate
            edges = last > first and (time[first] - phase.start_s <= ends and phase.end_s - time[last - 1] <= ends)
            if abs(last - first - wanted) > lacking or not edges:
                return (
                    f"{_name(phase)} lasts {phase.end_s - phase.start_s:.3g} s, {wanted:.0f} {what}, and "
                    f"{last - first} are there: the record is not whole. Record the run again"
                )
    return ""


def converted(evidence: ArmEvidence) -> str:
    """Archived forces are the archived gauges' by the archived calibration, but for the zero that was taken."""
    names = [f"gauge_{i}" for i in range(len(WRENCH))]
    volts = np.stack([evidence.channel(name, "V", "voltage").values for name in names], axis=1)
    parts = [evidence.channel(name, *(("N", "force") if "force" in name else ("N.m", "torque"))) for name in WRENCH]
    wrench = np.stack([part.values for part in parts], axis=1)
    if not len(volts):
        return ""
    bad = int(np.count_nonzero(~np.isfinite(wrench)))
    if bad:
        return f"{bad} values of the wrist sensor's force and torque are missing or not finite. Record the run again"
    # Without a tare there is no force yet: the record of the gauges begins earlier.
    began = parts[0].time_s[0] if len(wrench) else 0.0
    first = int(np.searchsorted(evidence.channel(names[0], "V", "voltage").time_s, began))
    volts = volts[first : first + len(wrench)]
    if len(volts) != len(wrench):
        return f"{len(volts)} readings of the gauges and {len(wrench)} forces: they are not one record"
    matrix = evidence.facts.wrist_matrix
    sensor = evidence.facts.rig.wrist_sensor
    most = (sensor.capacity.to("N"), (sensor.torque_capacity or evidence.facts.rig.safety.torque_limit).to("N.m"))
    allowed = CONVERSION_SHARE * np.repeat(most, 3)
    zero = wrench - volts @ matrix.T
    spread = np.ptp(zero, axis=0)
    tare = np.array([evidence.channel(f"tare_{name}", "V", "voltage").values[:1] for name in names])[:, 0]
    apart = np.abs(zero.mean(axis=0) + matrix @ tare)
    for what, off in (("the gauges by the calibration in the archive", spread), ("the tare's zero", apart)):
        if not (off <= allowed).all():
            worst = int(np.argmax(off / allowed))
            unit = "N" if worst < 3 else "N.m"
            return (
                f"{WRENCH[worst]} is not what {what} give{'s' if off is apart else ''} (they part by {off[worst]:.3g} "
                f"{unit}): force, gauges and calibration do not belong together"
            )
    return ""


def carried(evidence: ArmEvidence) -> str:
    """The currents read are those commanded a row before, as a servo carries them, and were really measured."""
    facts = evidence.facts
    read = evidence.joints("motor_{}_current", "A", "current")
    told = evidence.joints("motor_{}_command_current", "A", "current")
    inside = within_phases(evidence)[1:]
    moves = np.array([np.ptp(column[1:][inside]) > 0.0 if inside.any() else False for column in told.T])
    for other, rows in ((told[:-1], read[1:]), (told[1:], read[1:])):
        copied = (rows[inside] == other[inside]).mean(axis=0) if inside.any() else np.zeros(evidence.size)
        if (moves & (copied > COPIED_SHARE)).any():
            name = facts.names[int(np.argmax(np.where(moves, copied, 0.0)))]
            return (
                f"the currents read of {name} are those commanded to the last bit: they were not measured. Let the "
                "servo tell its present current, not its goal"
            )
    block = max(2, round(CURRENT_S * facts.rig.loop.rate.to("Hz")))
    apart = facts.drives.joint_torque_of_current(read[1:] - told[:-1])[inside]
    torque = np.abs(facts.drives.joint_torque_of_current(told[:-1]))[inside]
    whole = len(apart) // block * block
    if not whole:
        return ""
    shape = (-1, block, evidence.size)
    off = np.abs(apart[:whole].reshape(shape).mean(axis=1))
    # white noise of the reading leaves so much in the mean of a block
    noise = 1.4826 * np.median(np.abs(np.diff(apart, axis=0)), axis=0) / np.sqrt(2.0 * block)
    allowed = CURRENT_RATED * facts.ratings.rated_torque + NOISES * noise
    allowed = allowed + CURRENT_SHARE * torque[:whole].reshape(shape).mean(axis=1)
    worst = np.percentile(off / allowed, 99.0, axis=0)
    joint = int(np.argmax(worst))
    if worst[joint] > 1.0:
        most = float(np.percentile(off[:, joint], 99.0))
        return (
            f"the servo of {facts.names[joint]} carried a current that is {most:.3g} N.m at the joint off the one "
            "commanded: it does not make the torque it is told, or its current is not read right. Look at the servo's "
            "supply, current limit and operating mode"
        )
    return ""


def followed(evidence: ArmEvidence) -> str:
    """Joints went where they were told: none is blocked, its encoder stuck, swapped or of another scale."""
    wanted, position, time = (
        evidence.joints("desired_{}_position", "rad", "angle"),
        evidence.rows.position,
        evidence.time_s,
    )
    names = evidence.facts.names
    told_to = np.zeros(evidence.size, dtype=bool)
    farthest = np.zeros(evidence.size)
    for phase in evidence.run.phases:
        rows = slice(*np.searchsorted(time, (phase.start_s, phase.end_s)))
        if rows.stop - rows.start < 2:
            continue
        told, went = np.ptp(wanted[rows], axis=0), np.ptp(position[rows], axis=0)
        # a surface holds what presses it, and friction then takes up more of a set-point
        least = (HELD_SHARE if phase.name in PRESSING else 1.0 / GOES_FACTOR) * told
        for joint in np.flatnonzero((told >= TOLD_RAD) & (went < least)):
            return (
                f"{_name(phase)}: joint {names[joint]} was told to go {told[joint]:.3g} rad and went {went[joint]:.3g} "
                "rad: its brake was closed, or something blocks it. Look at the brake line"
            )
        away = np.max(np.abs(position[rows] - wanted[rows]), axis=0)
        far = (told >= FAR_RAD) & (np.abs(went - told) > GOES_SHARE * told)
        for joint in np.flatnonzero(far | (away > FOLLOWS_RAD)):
            return (
                f"{_name(phase)}: joint {names[joint]} was up to {away[joint]:.3g} rad from where it was wanted, told "
                f"to go {told[joint]:.3g} rad and went {went[joint]:.3g} rad. Look at its encoder, gear ratio and "
                "direction, at the order of the servos, and for a run that should have been stopped"
            )
        told_to |= told >= TOLD_RAD
        farthest = np.maximum(farthest, away)
    copied = np.flatnonzero(told_to & (farthest < COPIED_RAD))
    if copied.size:
        return (
            f"the positions of {names[int(copied[0])]} are those wanted to {COPIED_RAD:g} rad: they were not measured. "
            "Let the servo tell its present position, not its goal"
        )
    return ""


def within_phases(evidence: ArmEvidence) -> np.ndarray:
    """Return (rows,) whether a row of the drives lies in a phase."""
    if "within phases" not in evidence.kept:
        inside = np.zeros(len(evidence.time_s), dtype=bool)
        for phase in evidence.run.phases:
            inside |= (evidence.time_s >= phase.start_s) & (evidence.time_s <= phase.end_s)
        evidence.kept["within phases"] = inside
    found: np.ndarray = evidence.kept["within phases"]  # type: ignore[assignment]  # what was put there above
    return found


def _name(phase: object) -> str:
    return f"{phase.name} {phase.replicate}"  # type: ignore[attr-defined]  # a phase of any run
