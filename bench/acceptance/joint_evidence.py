"""The recorded stretches of a joint's run, on the clock of the DAQ, as the metrics want them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bench.acceptance.joint_facts import JointFacts
from bench.archive import Channel, Phase, Run
from bench.errors import ArchiveError, Refused
from bench.identify.filtering import LowPass
from bench.profile import JointAnalysisProfile

Floats = NDArray[np.float64]

#: Samples per period of the evaluation band that are looked at: extremes between them are missed by less than 5 %.
SAMPLES_PER_PERIOD = 10.0
#: A hole in the drive's rows longer than this many ticks is no record of a controlled joint.
LONGEST_HOLE_TICKS = 25.0
DRIVE = {
    "motor_angle": ("rad", "angle"),
    "command_torque": ("N.m", "torque"),
    "wanted_torque": ("N.m", "torque"),
    "feedback_torque": ("N.m", "torque"),
    "feedforward_torque": ("N.m", "torque"),
    "desired_angle": ("rad", "angle"),
    "desired_velocity": ("rad/s", "angular_speed"),
    "drive_temperature": ("degC", "temperature"),
}


@dataclass(frozen=True)
class Stretch:
    """One phase, uniformly sampled with the DAQ; torques and angles are the joint's.

    Parameters
    ----------
    time_s, joint_angle, torque : (n,) float64
        Of the DAQ: run time [s], joint encoder [rad], torque transducer [N.m].
    motor_angle, command, wanted, feedback, feedforward, desired_angle, desired_velocity, temperature : (n,) float64
        Of the drive's rows, brought to the same instants: [rad], [N.m] …, [rad/s], [degC]. ``motor_angle`` and
        ``command`` are divided and multiplied by the gear ratio.
    goal : float
        Angle wanted in the last row of the stretch [rad].
    first_row_s : float
        Time of the stretch's first row of the drive [s].
    """

    phase: Phase
    rate_hz: float
    time_s: Floats
    joint_angle: Floats
    torque: Floats
    motor_angle: Floats
    command: Floats
    wanted: Floats
    feedback: Floats
    feedforward: Floats
    desired_angle: Floats
    desired_velocity: Floats
    temperature: Floats
    goal: float
    first_row_s: float

    @property
    def name(self) -> str:
        """Phase and replicate, with its speed where it has one."""
        speed = self.phase.angular_speed_rad_s
        return f"{self.phase.name} {self.phase.replicate}" + (f" at {speed:+.3g} rad/s" if math.isfinite(speed) else "")

    @property
    def direction(self) -> int:
        """Sign of what was wanted: of the speed, else of the way to the goal."""
        speed = self.phase.angular_speed_rad_s
        return int(np.sign(speed if math.isfinite(speed) else self.goal - self.joint_angle[0])) or 1


class JointEvidence:
    """Stretches of a run by the name of their phase; read when asked for, and once."""

    def __init__(self, run: Run, analysis: JointAnalysisProfile) -> None:
        self.run = run
        self.analysis = analysis
        self.facts = JointFacts(run)
        #: What metrics made and others need too, by name.
        self.kept: dict[str, object] = {}
        self._channels: dict[str, Channel] = {}
        self._stretches: dict[str, tuple[Stretch, ...]] = {}

    @property
    def where(self) -> str:
        return str(self.run.path)

    def channel(self, name: str, unit: str, kind: str) -> Channel:
        """A channel of the run; each is read once."""
        if name not in self._channels:
            self._channels[name] = self.run.get(name, unit=unit, kind=kind)
        return self._channels[name]

    @property
    def torque(self) -> Channel:
        """The torque transducer's [N.m]."""
        return self.channel("joint_torque", "N.m", "torque")

    @property
    def angle(self) -> Channel:
        """The joint encoder's [rad]."""
        return self.channel("joint_angle", "rad", "angle")

    @cached_property
    def rate_hz(self) -> float:
        """Sample rate of the DAQ [Hz]."""
        rate = self.torque.rate_hz
        if rate is None:
            raise ArchiveError(
                "the torque has no sample rate", where=self.where, remedy="Record it with the hardware clock"
            )
        return rate

    @cached_property
    def band(self) -> LowPass:
        """The evaluation band, with enough samples kept that extremes show."""
        cutoff = self.analysis.evaluation_band.to("Hz")
        return LowPass(cutoff, decimation=max(1, math.floor(self.rate_hz / (SAMPLES_PER_PERIOD * cutoff))))

    @cached_property
    def period_s(self) -> float:
        """Period of the control loop [s]."""
        return 1.0 / self.facts.rig.loop.rate.to("Hz")

    @cached_property
    def row_uncertainty_s(self) -> float:
        """Standard uncertainty of the time of a row of the drive on the DAQ's clock [s].

        The row is somewhere in its transaction, and the DAQ's first sample somewhere in that of its start: both
        rectangular over ± half of it.
        """
        half = self.channel("time_half_width", "s", "time").values
        if not len(half) or not np.isfinite(half).all():
            raise ArchiveError(
                "the time of the drive's rows is not known", where=f"{self.where}: time_half_width",
                remedy="Record with the time alignment of the loop",
            )  # fmt: skip
        anchor = self.run.anchors.get("daq")
        started = 0.0 if anchor is None else 1e-9 * anchor.half_width_ns
        return math.hypot(float(np.percentile(half, 95.0)), started) / math.sqrt(3.0)

    def before(self, stretch: Stretch, seconds: float) -> Floats:
        """Joint angle [rad] over the time before a stretch."""
        angle = self.angle
        stop = int(np.searchsorted(angle.time_s, stretch.time_s[0]))
        start = int(np.searchsorted(angle.time_s, stretch.time_s[0] - seconds))
        return angle.values[start:stop]

    def drive(self, name: str) -> Floats:
        """A channel of the drive, one value a row (n,), as archived."""
        return self.channel(name, *DRIVE[name]).values

    @cached_property
    def drive_time_s(self) -> Floats:
        return self.channel("motor_angle", *DRIVE["motor_angle"]).time_s

    def stretches(self, name: str) -> tuple[Stretch, ...]:
        """All phases of a name.

        Raises
        ------
        Refused
            ``no_segment``: there is none.
        ArchiveError
            A channel is missing, or has holes or values that are no numbers.
        """
        if name not in self._stretches:
            phases = [phase for phase in self.run.phases if phase.name == name]
            if not phases:
                there = ", ".join(sorted({phase.name for phase in self.run.phases})) or "none"
                raise Refused(
                    f"there is no phase '{name}'; phases here: {there}",
                    reason="no_segment",
                    where=self.where,
                    remedy="Record it, or name another segment in the criterion",
                )
            self._stretches[name] = tuple(self._stretch(phase) for phase in phases)
        return self._stretches[name]

    @property
    def read(self) -> list[Stretch]:
        """The stretches that were asked for so far."""
        return [stretch for found in self._stretches.values() for stretch in found]

    def _stretch(self, phase: Phase) -> Stretch:
        torque, angle = self.torque, self.angle
        part = _within(torque.time_s, phase)
        time = torque.time_s[part]
        rows = _within(self.drive_time_s, phase)
        place = f"{self.where}: {phase.name} {phase.replicate}"
        if len(time) < 2 or rows.stop - rows.start < 2 or len(angle.values) != len(torque.values):
            raise ArchiveError(
                "the phase has no samples in every channel", where=place, remedy="Look at how the run was recorded"
            )
        # The last row before the phase and the first one after it, so that both ends are interpolated.
        around = slice(max(rows.start - 1, 0), rows.stop + 1)
        row_time = self.drive_time_s[around]
        if float(np.max(np.diff(row_time))) > LONGEST_HOLE_TICKS * self.period_s:
            raise ArchiveError(
                f"the rows of the drive have a hole of {float(np.max(np.diff(row_time))) * 1e3:.0f} ms",
                where=place,
                remedy="Look at what kept the loop from running, and record again",
            )
        ratio = self.facts.rig.drive.gear_ratio
        factors = {"motor_angle": 1.0 / ratio, "command_torque": ratio}
        brought: dict[str, Floats] = {}
        for name in DRIVE:
            values = self.drive(name)[around] * factors.get(name, 1.0)
            self._finite(values, name, place)
            brought[name] = np.interp(time, row_time, values)
        for name, channel in (("joint_torque", torque), ("joint_angle", angle)):
            self._finite(channel.values[part], name, place)
        desired = self.drive("desired_angle")[rows]
        return Stretch(
            phase,
            self.rate_hz,
            time,
            angle.values[part],
            torque.values[part],
            brought["motor_angle"],
            brought["command_torque"],
            brought["wanted_torque"],
            brought["feedback_torque"],
            brought["feedforward_torque"],
            brought["desired_angle"],
            brought["desired_velocity"],
            brought["drive_temperature"],
            float(desired[-1]),
            float(self.drive_time_s[rows.start]),
        )

    def _finite(self, values: Floats, name: str, place: str) -> None:
        bad = int(np.count_nonzero(~np.isfinite(values)))
        if bad:
            raise ArchiveError(
                f"{bad} values of {name} are missing or not finite", where=place, remedy="Record the run again"
            )


def _within(time_s: Floats, phase: Phase) -> slice:
    start, stop = np.searchsorted(time_s, (phase.start_s, phase.end_s))
    return slice(int(start), int(stop))


def white_noise(values: Floats, band: LowPass, rate_hz: float) -> float:
    """Standard deviation that white noise of ``values`` (n,) leaves in the band.

    Read from what the band takes off, as its median, so that jerks do not count.
    """
    rest = values - band.smooth(values, rate_hz)
    edge = band.settle(rate_hz)
    rest = rest[edge:-edge] if len(rest) > 3 * edge else rest
    inside = min(2.0 * band.cutoff_hz / rate_hz, 1.0)
    return 1.4826 * float(np.median(np.abs(rest))) * math.sqrt(inside / max(1.0 - inside, 1e-3))
