"""The hardware-clocked side of a joint's recording: torque and joint angle, drained, converted, archived, watched.

The control loop (:mod:`bench.procedures.joint_loop`) drains what the DAQ has taken about ten times a second, see
:mod:`bench.procedures.sampling`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, RunWriter
from bench.errors import SafetyAbort
from bench.instruments.protocols import Block
from bench.procedures.sampling import CHUNK_DRAINS, Sampler
from bench.procedures.ticks import MISSED
from bench.safety.joint_watch import JointWatch
from bench.station import JointStation

Floats = NDArray[np.float64]

#: How long joint and load rest for the tare [s], and how far the joint may turn meanwhile [rad].
TARE_S = 1.0
TARE_STANDSTILL_RAD = 0.005
#: What the load's weight may put on the transducer at the tare, as a share of the rated torque. So much is taken off
#: by the profile's nominal figures; the tare of a load that hangs further out would lean on them too much.
TARE_LOAD_SHARE = 0.03

GROUPS = ("daq", "torque", "drive", "ticks", "tare")


def group_specs(station: JointStation) -> list[GroupSpec]:
    """Return the groups of a recording on ``station``; names and units as in the guide's table of channels."""
    rate = station.sample_rate_hz
    drain = station.rig.loop.drain.to("s")
    samples = CHUNK_DRAINS * max(2, round(drain * rate))
    ticks = CHUNK_DRAINS * max(1, round(drain * station.rig.loop.rate.to("Hz")))
    torques = ("motor_torque", "command_torque", "wanted_torque", "feedback_torque", "feedforward_torque")
    drive = (
        DatasetSpec("angle", "rad", "angle", ("motor_angle", "desired_angle"), long_name="rotor, and joint as wanted"),
        DatasetSpec(
            "speed",
            "rad/s",
            "angular_speed",
            ("motor_velocity", "desired_velocity"),
            long_name="rotor, joint as wanted",
        ),
        DatasetSpec("torque", "N.m", "torque", torques, long_name="rotor: motor, command; joint: the others"),
        DatasetSpec("temperature", "degC", "temperature", ("drive_temperature",), long_name="temperature of the drive"),
        DatasetSpec(
            "timing", "s", "time", ("tick_lateness", "time_half_width"), long_name="lateness, and half the transaction"
        ),
    )
    voltage = DatasetSpec("raw", "V", "voltage", ("transducer_voltage",), long_name="torque transducer")
    angle = DatasetSpec("encoder", "rad", "angle", ("joint_angle",), long_name="joint encoder")
    torque = DatasetSpec("joint", "N.m", "torque", ("joint_torque",), long_name="torque on the link")
    zero = DatasetSpec("zero", "V", "voltage", ("tare_transducer_voltage",), long_name="mean reading at rest")
    return [
        GroupSpec("torque", (torque,), rate, samples),
        GroupSpec("daq", (voltage, angle), rate, samples),
        GroupSpec("drive", drive, None, ticks),
        MISSED,
        GroupSpec("tare", (zero,), None, 1),
    ]


@dataclass(frozen=True)
class Samples:
    """A drained block: arrays (n,) of time [s], joint angle [rad] and torque on the link [N.m]."""

    time_s: Floats
    joint_angle_rad: Floats
    joint_torque_nm: Floats


NONE = Samples(np.empty(0), np.empty(0), np.empty(0))


class JointChannels(Sampler):
    """The running acquisition of a joint, into an archive.

    Parameters
    ----------
    station : JointStation
    writer : RunWriter
        With the groups of :func:`group_specs`.
    watch : JointWatch
    torque_limit_nm : float
        The transducer must not see more [N.m].
    """

    def __init__(self, station: JointStation, writer: RunWriter, watch: JointWatch, torque_limit_nm: float) -> None:
        loop = station.rig.loop
        super().__init__(station, writer, drain_s=loop.drain.to("s"), tick_rate_hz=loop.rate.to("Hz"))
        self.watch = watch
        self.last = NONE
        self._station = station
        self._limit_nm = torque_limit_nm
        self._zero_v = 0.0
        self._direction = station.rig.encoder.direction

    def start(self, joint_angle_rad: float) -> None:
        """Start the acquisition; the joint stands at ``joint_angle_rad`` [rad]."""
        self.begin(self._station.acquisition(initial_rad=joint_angle_rad), GROUPS)

    def tare(self, block: int, weight_nm: Callable[[float], float]) -> tuple[float, float]:
        """Record :data:`TARE_S` of rest and take the transducer's zero from it.

        Parameters
        ----------
        block : int
            Samples per block.
        weight_nm : callable
            Returns the torque of the load's weight [N.m] at a joint angle [rad], nominal.

        Returns
        -------
        joint_angle_rad, weight_nm : float
            Where the joint is, and the load's weight there, which is not taken for a zero.

        Raises
        ------
        SafetyAbort
            ``"not_at_rest"``: the joint turns, or the load hangs too far out.
        """
        blocks: list[Block] = []
        while self.time_s < TARE_S:
            blocks.append(self.read(block))
            self.check_saturation(blocks[-1])
            self._station.interlock.check()
            self._station.supervisor.check()
        volts = np.concatenate([block.analog[:, 0] for block in blocks])
        angles = np.concatenate([block.encoders[:, 0] for block in blocks]) * self._direction
        if not np.ptp(angles) <= TARE_STANDSTILL_RAD:
            raise SafetyAbort(
                f"the joint turned by {np.ptp(angles):.3g} rad during the tare, at most {TARE_STANDSTILL_RAD:g} rad",
                reason="not_at_rest",
                where="tare",
                remedy="Let the load come to rest, or hold it off its swing, before the run is started.",
            )
        angle = float(angles[-1])
        load_nm = weight_nm(angle)
        allowed_nm = TARE_LOAD_SHARE * self._station.rig.joint.rated_torque.to("N.m")
        if not abs(load_nm) <= allowed_nm:
            raise SafetyAbort(
                f"the load hangs at {angle:.3g} rad, where its weight puts {load_nm:.3g} N.m on the transducer; at "
                f"most {allowed_nm:.3g} N.m may be at the tare",
                reason="not_at_rest",
                where="tare",
                remedy="Close the station, let the load hang at its rest (encoder.start_angle), then open it again.",
            )
        self._zero_v = float(volts.mean()) - self._station.transducer_voltage(load_nm)
        self.writer.append("tare", {"zero": [self._zero_v]}, [self.time_s])
        for taken in blocks:
            self._convert(taken)
        return angle, load_nm

    def drain(self, now_ns: int) -> Samples:
        """Take over what must be there by ``now_ns``, archive it and hold it against the limits.

        Raises
        ------
        SafetyAbort
            ``"sensor_saturated"``, ``"sensor_invalid"``, ``"torque_limit"``, ``"travel_limit"``, ``"daq_gap"``. The
            block that shows it is already archived.
        """
        block = self.due(now_ns)
        if block is None:
            return NONE
        samples = self._convert(block)
        self.last = samples
        self.check_saturation(block)
        self._check(samples)
        return samples

    def aftermath(self, watch_s: float) -> Samples:
        """Record on for ``watch_s`` [s] from now, unwatched, and return that stretch."""
        for block in self.watched(watch_s):
            self.last = self._convert(block)
        return self.last

    def keep(self, block: Block) -> None:
        angle = block.encoders[:, :1] * self._direction
        self.writer.append("daq", {"raw": block.analog, "encoder": angle}, self.times(block))

    # -- the steps

    def _convert(self, block: Block) -> Samples:
        time_s = self.times(block)
        torque = self._station.joint_torque(block.analog[:, 0], self._zero_v)
        self.writer.append("torque", {"joint": torque}, time_s)
        return Samples(time_s, block.encoders[:, 0] * self._direction, torque)

    def check_saturation(self, block: Block) -> None:
        """Raise where the transducer touches the end of its range, or is not a number."""
        volts = block.analog[:, 0]
        saturated = self._station.saturated(volts)
        if saturated.any():
            first = int(np.argmax(saturated))
            finite = bool(np.isfinite(volts[first]))
            raise SafetyAbort(
                f"the torque transducer {'touches the end of its range' if finite else 'is not a number'} at "
                f"{self.times(block)[first]:.3f} s",
                reason="sensor_saturated" if finite else "sensor_invalid",
                where="torque transducer",
                remedy="Look for an overload or a loose connector; check the transducer before going on.",
            )

    def _check(self, samples: Samples) -> None:
        torque = np.abs(samples.joint_torque_nm)
        beyond = ~(torque <= self._limit_nm)
        if beyond.any():
            first = int(np.argmax(beyond))
            raise SafetyAbort(
                f"the torque on the link reached {samples.joint_torque_nm[first]:.4g} N.m at "
                f"{samples.time_s[first]:.3f} s, limit {self._limit_nm:g} N.m",
                reason="torque_limit",
                where="torque transducer",
                remedy="Look for an obstacle; else lower the procedure's torque or raise the limit in the profile.",
            )
        for index in (int(np.argmin(samples.joint_angle_rad)), int(np.argmax(samples.joint_angle_rad))):
            self._station.drive.check_travel(float(samples.joint_angle_rad[index]), float(samples.time_s[index]))
