"""What must be true of a joint's archive before a value in it means anything. Each failure is the bench's, and named.

Two kinds: of the whole run (:func:`why_not`), and of a stretch that a criterion looks at (:func:`check_stretch`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import datetime

import numpy as np

from bench.acceptance import joint_angles
from bench.acceptance.joint_evidence import Floats, JointEvidence, Stretch
from bench.acceptance.joint_plausible import odd_scale
from bench.errors import BenchError, CalibrationError, Refused
from bench.models.friction import Friction
from bench.profile import FeedForwardProfile, JointCriteria
from bench.profile.criteria_joint import JUDGES

#: Most ticks that may have been missed, as a share of all.
MISSED_SHARE = 0.01
#: A reading this near the end of the range is taken as saturated.
SATURATED = 0.995
#: Archived torque and archived voltage must tell the same within this share of the rated torque.
CONVERSION_SHARE = 0.001
#: The transducer's zero may move by this share of the rated torque during a run.
ZERO_SHARE = 0.005
#: The commanded torque is what was wanted plus what was fed forward, within this share of the rated torque.
COMMAND_SHARE = 0.01
#: The feed-forward recorded is what the archived file gives, within this share of it and of the rated torque.
FEEDFORWARD_SHARE, FEEDFORWARD_RATED = 0.03, 0.002
#: A transducer that is alive shows this share of the rated torque somewhere in the run.
ALIVE_SHARE = 0.005
#: Torque of motor and transducer that go against each other by this correlation: one of them is inverted.
AGAINST = -0.5
#: A joint moves at the speed wanted when its mean speed is within this share of it.
SPEED_SHARE = 0.2
#: Temperature and load may leave the feed-forward's validity by so much [K] and this share.
TEMPERATURE_MARGIN_K = 0.5
LOAD_MARGIN = 0.1
#: A file written by another computer may bear a time this much ahead [s].
CLOCKS_APART_S = 60.0


def why_not(evidence: JointEvidence, criteria: JointCriteria) -> str:
    """Say what speaks against judging the run at all; nothing when nothing does."""
    checks: tuple[Callable[[], str], ...] = (
        lambda: _names(evidence, criteria),
        lambda: _missed(evidence),
        lambda: _saturated(evidence),
        lambda: _conversion(evidence),
        lambda: _encoders(evidence),
        lambda: _transducer(evidence),
        lambda: _drifted(evidence),
        lambda: _aligned(evidence),
    )
    for check in checks:
        try:
            said = check()
        except BenchError as error:
            return str(error)
        if said:
            return said
    return ""


def _names(evidence: JointEvidence, criteria: JointCriteria) -> str:
    """The archive is of the procedure the criteria are for, and its parts belong together."""
    facts, run = evidence.facts, evidence.run
    wanted = next(JUDGES[criterion.metric] for criterion in criteria.criteria)
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


def _missed(evidence: JointEvidence) -> str:
    missed = float(np.sum(_exact(evidence, "missed_ticks", "count", "count")))
    ticks = len(evidence.drive_time_s)
    if missed > MISSED_SHARE * (ticks + missed):
        return (
            f"{missed:.0f} of {ticks + missed:.0f} ticks of the control loop were missed, {MISSED_SHARE:.0%} are "
            "allowed. Leave the computer to the loop, and record again"
        )
    return ""


def _exact(evidence: JointEvidence, name: str, unit: str, kind: str) -> Floats:
    """Values of a channel, none of which may be missing, in the whole run."""
    values = evidence.channel(name, unit, kind).values
    bad = int(np.count_nonzero(~np.isfinite(values)))
    if bad:
        raise Refused(
            f"{bad} values of {name} are missing or not finite",
            reason="not_finite",
            where=evidence.where,
            remedy="Record the run again",
        )
    return values


def _conversion(evidence: JointEvidence) -> str:
    """The archived torque is the archived voltage times the sensitivity of the archived rig, but for the zero."""
    transducer = evidence.facts.rig.torque_transducer
    volts = _exact(evidence, "transducer_voltage", "V", "voltage")
    torque = _exact(evidence, "joint_torque", "N.m", "torque")
    if len(volts) != len(torque):
        return f"{len(volts)} voltages of the transducer and {len(torque)} torques: they are not one record"
    zero = torque - transducer.sign * transducer.sensitivity.to("N.m/V") * volts
    spread = float(np.ptp(zero)) if len(zero) else 0.0
    if spread > CONVERSION_SHARE * evidence.facts.rated_torque:
        return (
            f"the archived torque is not the archived voltage times {transducer.sensitivity} (they part by "
            f"{spread:.3g} N.m): torque, voltage and rig profile do not belong together"
        )
    tares = evidence.channel("tare_transducer_voltage", "V", "voltage").values
    taken = -transducer.sign * transducer.sensitivity.to("N.m/V") * tares
    apart = float(np.min(np.abs(taken - np.mean(zero)), initial=np.inf))
    if np.isfinite(apart) and apart > CONVERSION_SHARE * evidence.facts.rated_torque:
        return (
            f"the zero that was taken off the archived torque is not the tare's (they part by {apart:.3g} N.m): torque "
            "and tare do not belong together"
        )
    return ""


def _saturated(evidence: JointEvidence) -> str:
    rig = evidence.facts.rig
    volts = np.abs(_exact(evidence, "transducer_voltage", "V", "voltage"))
    torque = np.abs(_exact(evidence, "joint_torque", "N.m", "torque"))
    reach, capacity = rig.torque_transducer.voltage_range.to("V"), rig.torque_transducer.capacity.to("N.m")
    if volts.max() >= SATURATED * reach or torque.max() >= SATURATED * capacity:
        return (
            f"the torque transducer reached the end of its range ({torque.max():.3g} N.m, capacity "
            f"{capacity:g} N.m): what lies beyond was not seen. Take less torque or a larger transducer"
        )
    command = np.abs(evidence.drive("command_torque"))
    most = min(rig.drive.max_motor_torque.to("N.m"), rig.safety.torque_limit.to("N.m") / rig.drive.gear_ratio)
    if np.nanmax(command) >= SATURATED * most:
        return (
            f"the commanded torque stood at its limit ({np.nanmax(command) * rig.drive.gear_ratio:.3g} N.m at the "
            "joint): the joint did what the limit let it. Take a smaller step or load"
        )
    return ""


def _encoders(evidence: JointEvidence) -> str:
    """Motor and joint move by the same angle: neither the gear ratio nor a direction is wrong."""
    _exact(evidence, "joint_angle", "rad", "angle")
    return joint_angles.why_not(evidence)


def _transducer(evidence: JointEvidence) -> str:
    """The transducer answers to what the motor does: one that is dead or inverted reads nothing of the joint."""
    torque = evidence.torque
    low, high = np.percentile(torque.values, (0.1, 99.9))
    if high - low < ALIVE_SHARE * evidence.facts.rated_torque:
        return (
            f"the torque transducer hardly moved in the whole run ({high - low:.3g} N.m): it may be dead, or the load "
            "does not load it. Look at its cable"
        )
    taken = slice(None, None, max(1, len(torque.values) // 5000))
    motor = np.interp(torque.time_s[taken], evidence.drive_time_s, evidence.drive("command_torque"))
    sound = np.isfinite(motor)
    together = float(np.corrcoef(motor[sound], torque.values[taken][sound])[0, 1])
    if together < AGAINST:
        return (
            f"the torques of motor and transducer go against each other (correlation {together:.2f}): the transducer "
            "or the drive is wired inverted, or a sign in the rig profile is wrong"
        )
    return ""


def _aligned(evidence: JointEvidence) -> str:
    if evidence.row_uncertainty_s <= evidence.period_s:
        return ""
    return (
        f"the rows of the drive are known on the DAQ's clock to {evidence.row_uncertainty_s * 1e3:.2g} ms only "
        f"(standard uncertainty), a tick of {evidence.period_s * 1e3:g} ms is allowed. Look at what delays the replies"
    )


def _drifted(evidence: JointEvidence) -> str:
    check_drift(zero_drift(evidence), evidence, "between two tares")
    return ""


def zero_drift(evidence: JointEvidence) -> float:
    """Return by how much the transducer's zero moved between the first and the last tare [N.m]; zero with one tare."""
    tare = evidence.channel("tare_transducer_voltage", "V", "voltage")
    breaks = np.flatnonzero(np.diff(tare.time_s) > 1.0) + 1
    parts = [part for part in np.split(tare.values, breaks) if len(part)]
    if not parts or not np.isfinite(tare.values).all():
        raise CalibrationError(
            "the transducer was not tared, or its tare has values that are no numbers",
            where=evidence.where,
            remedy="Record a tare with the load at rest",
        )
    volts = float(np.mean(parts[-1]) - np.mean(parts[0]))
    return abs(volts) * evidence.facts.rig.torque_transducer.sensitivity.to("N.m/V")


def check_drift(drift: float, evidence: JointEvidence, seen: str) -> None:
    """Refuse figures of a transducer whose zero moved by ``drift`` [N.m]; ``seen`` says where that shows."""
    if abs(drift) > ZERO_SHARE * evidence.facts.rated_torque:
        raise CalibrationError(
            f"the zero of the torque transducer moved by {abs(drift):.3g} N.m {seen}, {ZERO_SHARE:.1%} of the rated "
            "torque are allowed",
            where=evidence.where,
            remedy="Let it warm up, look at its mounting and cable, and measure again",
        )


def check_stretch(evidence: JointEvidence, stretch: Stretch, *, compensated: bool | None) -> None:
    """Refuse a stretch that is not what its name says.

    Parameters
    ----------
    compensated : bool or None
        Whether friction must have been compensated, must not have been, or either.

    Raises
    ------
    Refused, CalibrationError
    """
    _commanded(evidence, stretch)
    fed = float(np.max(np.abs(stretch.feedforward)))
    if compensated is False and fed > 0.0:
        raise _not(stretch, f"friction was compensated (by up to {fed:.3g} N.m) where it must not be", "uncompensated")
    file = evidence.facts.feedforward
    if compensated is not True and fed == 0.0:
        return
    if file is None:
        raise _not(
            stretch, "friction was compensated, and the archive holds no feed-forward file that says by what", "no_file"
        )
    if fed == 0.0:
        raise _not(stretch, "nothing was fed forward, so friction was not compensated at all", "no_feedforward")
    for said in _unfit(evidence, stretch, file, strict=compensated is True):
        raise _not(stretch, said, "feedforward")


def _not(stretch: Stretch, what: str, reason: str) -> Refused:
    return Refused(
        what, reason=reason, where=stretch.name, remedy="Run it again with the feed-forward of this joint, or without"
    )


def _commanded(evidence: JointEvidence, stretch: Stretch) -> None:
    """The drive was told what the record says was wanted: else 'wanted' is not what the joint was asked for."""
    file = evidence.facts.feedforward
    scale = 1.0 if file is None else file.drive.torque_scale
    apart = float(np.max(np.abs(stretch.command * scale - stretch.wanted - stretch.feedforward)))
    if apart > COMMAND_SHARE * evidence.facts.rated_torque:
        raise Refused(
            f"the torque commanded and the torque wanted plus fed forward part by {apart:.3g} N.m: the record does not "
            "say what the drive was told",
            reason="command",
            where=stretch.name,
            remedy="Look at the gear ratio and at how the run was recorded",
        )


def _unfit(evidence: JointEvidence, stretch: Stretch, file: FeedForwardProfile, *, strict: bool) -> Iterator[str]:
    """Yield what speaks against the feed-forward file for this stretch.

    ``strict``: it must be of this very load, within its range. A step is judged by where the joint goes, whatever its
    friction was identified with; there a larger load is only noted.
    """
    facts, run = evidence.facts, evidence.run
    if file.rig != facts.rig.name:
        yield f"the feed-forward file is of the rig {file.rig}, and this is {facts.rig.name}"
    serial = facts.rig.drive.serial_number
    if file.drive_serial_number and serial and file.drive_serial_number != serial:
        yield f"the feed-forward file is of the drive {file.drive_serial_number}, and this one is {serial}"
    if strict and file.load is not None and file.load != facts.specimen.name:
        yield f"the feed-forward file was identified with {file.load} mounted, and this run with {facts.specimen.name}"
    if any(source.simulated != run.simulated for source in file.sources):
        origin = "the simulated lab" if not run.simulated else "a real rig"
        yield f"the feed-forward file was identified on {origin}, and this run was not made there"
    if file.created.timestamp() > datetime.fromisoformat(run.started_utc).timestamp() + CLOCKS_APART_S:
        yield f"the feed-forward file was written at {file.created}, after the run"
    if strict and (said := odd_scale(file.drive.torque_scale)):
        yield said
    valid = file.validity
    cold, hot = valid.temperature_min.to("degC"), valid.temperature_max.to("degC")
    low, high = float(stretch.temperature.min()), float(stretch.temperature.max())
    if low < cold - TEMPERATURE_MARGIN_K or high > hot + TEMPERATURE_MARGIN_K:
        yield (
            f"the drive was at {low:.1f} to {high:.1f} degC, and the feed-forward holds for {cold:.1f} to "
            f"{hot:.1f} degC"
        )
    speed = abs(stretch.phase.angular_speed_rad_s)
    if not strict or not np.isfinite(speed):
        return
    if beyond := beyond_load(stretch, file):
        yield beyond
    if not valid.speed_min.to("rad/s") * (1.0 - SPEED_SHARE) <= speed <= valid.speed_max.to("rad/s"):
        yield (
            f"the joint moved at {speed:.3g} rad/s, and the feed-forward holds for {valid.speed_min} to "
            f"{valid.speed_max}"
        )
    expected = float(np.median(_steady(file, stretch)))
    found = float(np.median(stretch.feedforward))
    allowed = FEEDFORWARD_SHARE * abs(expected) + FEEDFORWARD_RATED * facts.rated_torque
    if abs(found - expected) > allowed:
        yield (
            f"the feed-forward recorded ({found:.3g} N.m) is not what the archived file gives ({expected:.3g} N.m): "
            "the file is not the one that was used, or was edited"
        )


def beyond_load(stretch: Stretch, file: FeedForwardProfile) -> str:
    """Say that the joint carried more than friction was identified with; nothing when it did not."""
    load = float(np.max(np.abs(stretch.torque)))
    if load <= (1.0 + LOAD_MARGIN) * file.validity.load_max.to("N.m"):
        return ""
    return (
        f"the joint carried {load:.3g} N.m, and the feed-forward holds up to {file.validity.load_max.to('N.m'):.3g} N.m"
    )


def _steady(file: FeedForwardProfile, stretch: Stretch) -> Floats:
    """Friction [N.m] that the archived file gives along the wanted motion."""
    f = file.friction
    law = Friction(
        f.coulomb.to("N.m"),
        f.viscous.to("N.m.s/rad"),
        f.stribeck_excess.to("N.m"),
        f.stribeck_velocity.to("rad/s"),
        f.offset.to("N.m"),
        f.load_coefficient,
        f.temperature_coefficient.to("1/K"),
        f.reference_temperature.to("degC"),
    )
    load = stretch.wanted - stretch.feedback
    warm = np.clip(
        stretch.temperature, file.validity.temperature_min.to("degC"), file.validity.temperature_max.to("degC")
    )
    return law.torque(stretch.desired_velocity, load=load, temperature=warm)


def check_motion(stretch: Stretch) -> None:
    """Refuse a stretch in which the joint did not move as its phase says: a joint that stands has no friction."""
    wanted = stretch.phase.angular_speed_rad_s
    time = stretch.time_s - stretch.time_s.mean()
    speed = float(time @ (stretch.joint_angle - stretch.joint_angle.mean()) / (time @ time))
    if not abs(speed - wanted) <= SPEED_SHARE * abs(wanted):
        raise Refused(
            f"the joint moved at {speed:+.3g} rad/s, and the phase is of {wanted:+.3g} rad/s",
            reason="not_moving",
            where=stretch.name,
            remedy="Look at the enable line, the brake and what may block the joint",
        )


def check_range(evidence: JointEvidence, stretch: Stretch) -> None:
    """Refuse torques that the transducer's certificate does not cover."""
    certificate = evidence.facts.transducer
    peak = float(np.max(np.abs(stretch.torque)))
    if peak > certificate.maximum:
        raise CalibrationError(
            f"the torque {peak:.3g} N.m lies outside the calibrated range, {certificate.minimum:g} to "
            f"{certificate.maximum:g} N.m ({certificate.name})",
            where=stretch.name,
            remedy="Use a transducer whose certificate covers these torques",
        )
