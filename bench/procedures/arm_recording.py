"""The archive's groups of a run on an arm, and the wrist sensor's side of its recording: drained, converted, watched.

The control loop (:mod:`bench.procedures.arm_loop`) drains what the DAQ has taken about ten times a second, or at every
tick while a force is controlled; what was drained is archived about ten times a second either way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, RunWriter
from bench.errors import SafetyAbort
from bench.instruments.protocols import Block
from bench.procedures.sampling import CHUNK_DRAINS, Sampler
from bench.procedures.ticks import MISSED
from bench.safety.arm_watch import WristWatch
from bench.station_arm import ArmStation

Floats = NDArray[np.float64]

#: How long the arm rests for the tare [s], how far a joint may turn meanwhile [rad], and the force may change [N].
TARE_S = 1.0
TARE_STANDSTILL_RAD = 0.005
TARE_STANDSTILL_N = 0.5

GROUPS = ("daq", "force", "drive", "ticks", "health", "tare")
AXES = ("x", "y", "z")


def group_specs(station: ArmStation) -> list[GroupSpec]:
    """Return the groups of a recording on ``station``; names and units as in the guide's table of channels."""
    rate = station.sample_rate_hz
    drain = station.rig.loop.drain.to("s")
    samples = CHUNK_DRAINS * max(2, round(drain * rate))
    ticks = CHUNK_DRAINS * max(1, round(drain * station.rig.loop.rate.to("Hz")))
    gauges = range(len(station.force_sensor.channels))
    n = station.arm.n
    raw = DatasetSpec(
        "raw", "V", "voltage", tuple(f"gauge_{i}" for i in gauges), long_name="gauges of the wrist sensor"
    )
    zero = DatasetSpec("zero", "V", "voltage", tuple(f"tare_gauge_{i}" for i in gauges), long_name="gauges at rest")
    force = (
        DatasetSpec("force", "N", "force", tuple(f"force_{a}" for a in AXES), long_name="on the wrist sensor"),
        DatasetSpec("torque", "N.m", "torque", tuple(f"torque_{a}" for a in AXES), long_name="on the wrist sensor"),
    )
    hot = _each("motor_{}_temperature", n)
    health = (
        DatasetSpec("temperature", "degC", "temperature", hot, long_name="of the servos"),
        DatasetSpec("supply", "V", "voltage", ("supply_voltage",), long_name="lowest of the servos"),
    )
    return [
        GroupSpec("force", force, rate, samples),
        GroupSpec("daq", (raw,), rate, samples),
        GroupSpec("drive", drive_specs(station), None, ticks),
        MISSED,
        GroupSpec("health", health, None, 1),
        GroupSpec("tare", (zero,), None, 1),
    ]


#: Parts of a row of the loop, after its time: dataset, channel by joint, of motor or joint, what it is.
PARTS = (
    ("motor_position", "motor_{}_position", "motor", "angle", "motors' shafts, from their zeros"),
    ("motor_velocity", "motor_{}_velocity", "motor", "speed", "motors' shafts"),
    ("current", "motor_{}_current", "motor", "current", "measured"),
    ("command", "motor_{}_command_current", "motor", "current", "written after the row was read"),
    ("desired_position", "desired_{}_position", "joint", "angle", "joints as wanted"),
    ("desired_velocity", "desired_{}_velocity", "joint", "speed", "joints as wanted"),
    ("feedback", "feedback_{}_torque", "joint", "torque", "share that comes of the error"),
    ("feedforward", "feedforward_{}_torque", "joint", "torque", "share of the model, friction included"),
    ("friction", "friction_{}_torque", "joint", "torque", "share of the feed-forward that makes up for friction"),
)
#: (unit, kind) of what a part is, turning and sliding; motors turn.
UNITS = {
    "angle": (("rad", "angle"), ("m", "length")),
    "speed": (("rad/s", "angular_speed"), ("m/s", "speed")),
    "current": (("A", "current"), ("A", "current")),
    "torque": (("N.m", "torque"), ("N", "force")),
}


def drive_specs(station: ArmStation) -> tuple[DatasetSpec, ...]:
    """Return the datasets of a row of the loop, its time apart; those of joints that slide stand by themselves."""
    specs = [
        DatasetSpec(name, *UNITS[what][slides], channels, long_name=told)
        for name, slides, channels, what, told, _ in _split(station)
    ]
    timing = ("command_time", "tick_lateness", "time_half_width")
    return (*specs, DatasetSpec("timing", "s", "time", timing, long_name="command out; lateness; half the reading"))


def drive_columns(station: ArmStation) -> list[tuple[str, Sequence[int]]]:
    """Return for each dataset of :func:`drive_specs` its columns in a row; the time is column 0."""
    columns: list[tuple[str, Sequence[int]]] = [(name, where) for name, _, _, _, _, where in _split(station)]
    first = 1 + len(PARTS) * station.arm.n
    return [*columns, ("timing", range(first, first + 3))]


def _split(station: ArmStation) -> Iterator[tuple[str, bool, tuple[str, ...], str, str, list[int]]]:
    joints = station.rig.arm.joints
    n = len(joints)
    for k, (name, channel, side, what, told) in enumerate(PARTS):
        for slides in (False, True):
            chosen = [i for i, joint in enumerate(joints) if (side == "joint" and joint.kind == "prismatic") == slides]
            if chosen:
                channels = tuple(channel.format(i + 1) for i in chosen)
                where = [1 + k * n + i for i in chosen]
                yield (f"{name}_sliding" if slides else name), slides, channels, what, told, where


def _each(name: str, n: int) -> tuple[str, ...]:
    return tuple(name.format(i + 1) for i in range(n))


@dataclass(frozen=True)
class Wrenches:
    """Drained samples: times (m,) [s] and wrenches (m, 6) [N, N.m] on the wrist sensor, in its frame."""

    time_s: Floats
    wrench: Floats


NONE = Wrenches(np.empty(0), np.empty((0, 6)))


class ArmChannels(Sampler):
    """The running acquisition of an arm's wrist sensor, into an archive.

    Parameters
    ----------
    station : ArmStation
    writer : RunWriter
        With the groups of :func:`group_specs`.
    watch : WristWatch
    """

    def __init__(self, station: ArmStation, writer: RunWriter, watch: WristWatch) -> None:
        loop = station.rig.loop
        super().__init__(station, writer, drain_s=loop.drain.to("s"), tick_rate_hz=loop.rate.to("Hz"))
        self.watch = watch
        self.last = NONE
        self._station = station
        self._sensor = station.force_sensor
        self._blocks: list[Block] = []  # drained, not archived
        self._wrenches: list[Wrenches] = []  # the same, as far as they were converted
        self._tared = False

    def start(self) -> None:
        """Start the acquisition."""
        self.begin(self._station.acquisition(), GROUPS)

    def tare(self, block: int) -> None:
        """Record :data:`TARE_S` of rest, the brakes closed, and take the sensor's zero from it.

        Parameters
        ----------
        block : int
            Samples per block.

        Raises
        ------
        SafetyAbort
            ``"not_at_rest"``: a joint turned, or the force changed; ``"wrong_load"``.
        SensorSaturated
            A gauge touches the end of its range, or is not a number.
        """
        station, sensor = self._station, self._sensor
        before = station.arm.reading().position_rad
        while self.time_s < TARE_S:
            self.read(block)
            station.interlock.check()
            station.supervisor.check()
        position = station.arm.reading().position_rad
        for name, q0, q1 in zip(station.arm.limits.names, before, position, strict=True):
            if not abs(q1 - q0) <= TARE_STANDSTILL_RAD:
                raise _not_at_rest(f"joint {name} turned by {abs(q1 - q0):.3g} rad during the tare")
        volts = np.concatenate([block.analog for block in self._blocks])
        unrest = station.unrest(volts)
        if not unrest <= TARE_STANDSTILL_N:
            raise _not_at_rest(f"the force on the wrist sensor changed by {unrest:.2g} N during the tare")
        sensor.tare(volts)
        self._tared = True
        self.watch.tare(position, volts.mean(axis=0) @ sensor.calibration.matrix.T)
        self.writer.append("tare", {"zero": volts.mean(axis=0)[np.newaxis, :]}, [self.time_s])
        self.flush()

    def drain(self, now_ns: int, position: Sequence[float]) -> Wrenches:
        """Take over what must be there by ``now_ns`` and hold it to the limits, the arm being at ``position`` (n,).

        Raises
        ------
        SafetyAbort
            ``"sensor_saturated"``, ``"sensor_invalid"``, ``"force_limit"``, ``"torque_limit"``, ``"daq_gap"``. The
            block that shows it is kept.
        """
        block = self.due(now_ns)
        if block is None:
            return NONE
        forces, torques = self._sensor.convert(block.analog)
        times = self.times(block)
        self.last = Wrenches(times, np.hstack([forces, torques]))
        self._wrenches.append(self.last)
        self.watch.check(forces, torques, self._sensor.saturated(block.analog), times, position)
        return self.last

    def flush(self) -> None:
        """Archive what was drained."""
        if not self._blocks:
            return
        blocks, converted = self._blocks, self._wrenches
        self._blocks, self._wrenches = [], []
        if len(converted) == len(blocks):
            times, wrench = (
                np.concatenate(parts) for parts in zip(*((one.time_s, one.wrench) for one in converted), strict=True)
            )
        else:
            times = np.concatenate([self.times(block) for block in blocks])
            wrench = np.concatenate([np.hstack(self._sensor.convert(block.analog)) for block in blocks])
        self.writer.append("daq", {"raw": np.concatenate([block.analog for block in blocks])}, times)
        if self._tared:  # without a tare there is no zero
            self.writer.append("force", {"force": wrench[:, :3], "torque": wrench[:, 3:]}, times)

    def aftermath(self, watch_s: float) -> Floats:
        """Record on for ``watch_s`` [s] from now, unwatched, and return that stretch of gauge voltages (k, 6)."""
        try:
            return self.watched(watch_s)[-1].analog
        finally:
            self.flush()

    def keep(self, block: Block) -> None:
        self._blocks.append(block)

    def close(self) -> None:
        """Archive what is left and close the acquisition."""
        try:
            self.flush()
        finally:
            super().close()


def _not_at_rest(what: str) -> SafetyAbort:
    return SafetyAbort(
        what,
        reason="not_at_rest",
        where="tare",
        remedy="The brakes are closed then: check them, and let the tool come to rest before the run is started.",
    )
