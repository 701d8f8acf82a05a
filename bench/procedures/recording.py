"""The acquisition loop every procedure runs on: read, convert, archive, watch, poll, tell.

One pass takes one block (0.1 s by default). A procedure calls :meth:`Recording.block`, :meth:`Recording.still` or
:meth:`Recording.move` and nothing else passes the time, so nothing moves or waits unwatched.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.archive import DatasetSpec, GroupSpec, RunWriter
from bench.errors import SafetyAbort
from bench.instruments.protocols import Acquisition, Anchor, Block
from bench.safety import ForceWatch
from bench.station import IndenterStation

Floats = NDArray[np.float64]

#: What a block may take beyond its own length before the DAQ counts as dead [s].
READ_MARGIN_S = 2.0
#: The stage is polled about this often [s].
POLL_S = 0.1
#: Encoder positions closer than this to where the stage came to rest belong to the rest [mm].
REST_MM = 0.005
#: Stage and encoder may differ by this much at rest [mm] and by what a motion covers in this time [s].
AGREEMENT_MM = 0.1
AGREEMENT_S = 0.05
#: An encoder sample older than this is not compared [s]: the machine is late, or the DAQ lost samples and will say so.
FRESH_S = 0.1
#: Blocks that are archived together, as one chunk: what a kill can lose is shorter than their sum (0.5 s).
CHUNK_BLOCKS = 5
#: How long the tool stands in free air for the tare [s].
TARE_S = 1.0

#: Reason of a run that ends because stage and encoder tell different positions: neither is to be trusted then.
POSITIONS_DISAGREE = "positions_disagree"

Progress = Callable[[str, float | None], None]


@dataclass(frozen=True)
class View:
    """Samples as a procedure sees them: arrays of shape (n,) in s, mm and N.

    ``side_n`` is the force across the pressing axis, ``moment_nm`` the torque [N.m]; nought where the sensor has one
    axis only.
    """

    time_s: Floats
    position_mm: Floats
    force_n: Floats
    side_n: Floats
    moment_nm: Floats

    @classmethod
    def join(cls, views: list[View]) -> View:
        """Return consecutive blocks as one."""
        return cls(
            np.concatenate([view.time_s for view in views]),
            np.concatenate([view.position_mm for view in views]),
            np.concatenate([view.force_n for view in views]),
            np.concatenate([view.side_n for view in views]),
            np.concatenate([view.moment_nm for view in views]),
        )


@dataclass(frozen=True)
class Motion:
    """A motion that ended: when it was commanded and when the encoder came to rest [s], where [mm], and its samples."""

    start_s: float
    end_s: float
    position_mm: float
    view: View


def group_specs(station: IndenterStation, block: int) -> list[GroupSpec]:
    """Return the groups of a recording on ``station`` with ``block`` samples per block."""
    sensor, rate = station.force_sensor, station.sample_rate_hz
    raw = {"unit": station.raw_unit, "kind": station.raw_kind}
    converted = [
        DatasetSpec("contact", "N", "force", ("contact_force",), long_name="force into the specimen"),
        DatasetSpec("force", "N", "force", tuple(sensor.force_names), long_name="force on the sensor's axes"),
    ]
    if sensor.torque_names:
        converted.append(DatasetSpec("torque", "N.m", "torque", tuple(sensor.torque_names), long_name="torque"))
    readings = DatasetSpec("raw", channels=station.raw_names, long_name="readings of the force sensor", **raw)
    encoder = DatasetSpec("encoder", "mm", "length", ("encoder_position",), long_name="encoder position from home")
    position = DatasetSpec("position", "mm", "length", ("stage_position",), long_name="position the stage reports")
    zero = DatasetSpec(
        "zero", channels=tuple(f"tare_{name}" for name in station.raw_names), long_name="mean reading unloaded", **raw
    )
    return [
        GroupSpec("force", tuple(converted), rate, CHUNK_BLOCKS * block),
        GroupSpec("daq", (readings, encoder), rate, CHUNK_BLOCKS * block),
        GroupSpec("stage", (position,), None, CHUNK_BLOCKS),
        GroupSpec("tare", (zero,), None, 1),
    ]


class Recording:
    """A running acquisition into an archive.

    Parameters
    ----------
    station : IndenterStation
    writer : RunWriter
        With the groups of :func:`group_specs`.
    watch : ForceWatch
    block : int
        Samples per block.
    planned_s : float
        How long the whole run should take [s], for the progress.
    progress : callable or None
        Called as ``progress(text, fraction)`` once a block.
    """

    def __init__(
        self,
        station: IndenterStation,
        writer: RunWriter,
        watch: ForceWatch,
        *,
        block: int,
        planned_s: float,
        progress: Progress | None = None,
    ) -> None:
        self.writer = writer
        self.rate_hz = station.sample_rate_hz
        self.watch = watch
        self.text = "starting"
        self._station = station
        self._sensor = station.force_sensor
        self._block = block
        self._planned_s = planned_s
        self._progress = progress
        self._acquisition: Acquisition | None = None
        self._anchor = Anchor(0, 0, 0)
        self._samples = 0
        self._polled_s = -np.inf
        self._speed_mm_s = 0.0

    # -- start and end

    def start(self) -> None:
        """Start the acquisition, stand still and take the tare; the axis must stand in free air."""
        stage = self._station.stage
        self.text = "tare"
        self._station.watchdog.keep()
        self._acquisition = self._station.acquisition(initial_mm=stage.position_mm())
        self._anchor = self._acquisition.start()
        for group in ("daq", "force", "stage", "tare"):
            anchor = self._anchor
            self.writer.set_anchor(group, anchor.clock_ns, anchor.utc_ns, anchor.half_width_ns)
        # The raw readings are archived as they come; they become forces once their own mean is known.
        blocks: list[Block] = []
        while self.time_s < TARE_S:
            block = self._read(self._block)
            self._check_saturation(block)
            self._guard()
            blocks.append(block)
        unloaded = np.concatenate([block.analog for block in blocks])
        self._sensor.tare(unloaded)
        self.writer.append("tare", {"zero": unloaded.mean(axis=0)[np.newaxis]}, [self.time_s])
        self.event("info", "tare", f"zero of the force sensor from samples 0 … {len(unloaded) - 1}, tool in free air")
        for block in blocks:
            self._convert(block)

    def stop(self) -> None:
        """Stop and close the acquisition."""
        if self._acquisition is not None:
            self._acquisition.close()
            self._acquisition = None

    def motion_after_stop(self, watch_s: float) -> float:
        """Record on for ``watch_s`` [s] from now and return how far the encoder moved meanwhile [mm].

        The witness of the safe state. Nothing is checked here any more; what the rig did after the stop is archived.
        """
        if self._acquisition is None:
            raise SafetyAbort("no acquisition is running", reason="no_acquisition", where="encoder")
        behind = round(self.now_s() * self.rate_hz) - self._samples
        if behind > 0:
            self._convert(self._read(behind))
        view = self._convert(self._read(max(2, round(watch_s * self.rate_hz))))
        return float(np.ptp(view.position_mm))

    # -- time

    @property
    def time_s(self) -> float:
        """Time up to which samples were taken over, in the time base of the acquisition [s]."""
        return self._samples / self.rate_hz

    def now_s(self) -> float:
        """The present in the time base of the acquisition [s]."""
        return (self._station.clock.now_ns() - self._anchor.clock_ns) * 1e-9

    # -- what procedures do

    def event(self, severity: str, code: str, message: str, time_s: float | None = None) -> None:
        """Archive an event, by default at the present block's end."""
        self.writer.event(self.time_s if time_s is None else time_s, severity, code, message)

    def phase(self, name: str, replicate: int, speed_mm_s: float, start_s: float, end_s: float) -> None:
        """Archive a phase."""
        self.writer.phase(name, replicate, speed_mm_s, start_s, end_s)

    def block(self, samples: int | None = None) -> View:
        """Take one block through the whole loop and return it.

        Raises
        ------
        SafetyAbort
            A limit, the e-stop, a signal or a deadline. The block that shows it is already archived.
        """
        view = self._convert(self._read(samples or self._block), watched=True)
        self._guard()
        self._poll(float(view.position_mm[-1]))
        if self._progress is not None:
            self._progress(self.text, min(1.0, self.time_s / self._planned_s))
        return view

    def still(self, seconds: float, *, since_s: float | None = None, clear: bool = False) -> View:
        """Record for ``seconds`` [s] from now, or from ``since_s``, and return the blocks read as one.

        ``clear`` says that the tool stands clear of the specimen. Nothing moves and nothing bears a load then, so
        blocks may be as long as an archived chunk; everything else is looked at as always.
        """
        end_s = (self.time_s if since_s is None else since_s) + seconds
        views: list[View] = []
        while not views or self.time_s < end_s:
            left = round((end_s - self.time_s) * self.rate_hz)
            views.append(self.block(min(max(left, self._block), CHUNK_BLOCKS * self._block) if clear else None))
        return View.join(views)

    def move(
        self, position_mm: float, speed_mm_s: float, *, steer: Callable[[View], float | None] | None = None
    ) -> Motion:
        """Move and record until the encoder is at rest.

        Parameters
        ----------
        position_mm, speed_mm_s : float
            Target and speed.
        steer : callable, optional
            Sees every block; returns a new target [mm], NaN to stop at once, or None to go on.
        """
        stage = self._station.stage
        start_s = self.now_s()
        self._speed_mm_s = speed_mm_s
        allowed_s = stage.start_move(position_mm, speed_mm_s)
        limit_s = self.now_s() + allowed_s
        origin_mm: float | None = None
        views: list[View] = []
        while True:
            view = self.block()
            views.append(view)
            origin_mm = float(view.position_mm[0]) if origin_mm is None else origin_mm
            target_mm = steer(view) if steer is not None else None
            if target_mm is not None:
                if np.isnan(target_mm):
                    stage.stop()
                    break
                position_mm = target_mm
                limit_s = self.now_s() + stage.start_move(position_mm, speed_mm_s)
            # Asking costs time on the line: not before it can be there.
            if self.time_s - start_s >= abs(position_mm - origin_mm) / speed_mm_s and not stage.is_moving():
                break
            if self.time_s > limit_s + READ_MARGIN_S:
                raise SafetyAbort(
                    f"the stage did not reach {position_mm:g} mm within {limit_s - start_s:.2f} s",
                    reason="stage_timeout",
                    where="stage",
                    remedy="Look for an obstacle or a lost enable; compare the stage's and the encoder's positions.",
                )
        self._speed_mm_s = 0.0
        views.append(self.block())
        joined = View.join(views)
        rest_mm = float(np.median(views[-1].position_mm[-max(1, len(views[-1].position_mm) // 4) :]))
        moving = np.flatnonzero(np.abs(joined.position_mm - rest_mm) > REST_MM)
        end = min(int(moving[-1]) + 1, len(joined.time_s) - 1) if len(moving) else 0
        return Motion(start_s, float(joined.time_s[end]), rest_mm, joined)

    # -- the steps of a pass

    def _read(self, samples: int) -> Block:
        if self._acquisition is None:
            raise SafetyAbort("the acquisition has not been started", reason="no_acquisition", where="DAQ")
        # Every block is a pass of this loop: it promises to be back from the read, and to come to the next one in time.
        self._station.watchdog.keep(samples / self.rate_hz)
        block = self._acquisition.read(samples, timeout_s=samples / self.rate_hz + READ_MARGIN_S)
        if block.first_sample != self._samples:
            raise SafetyAbort(
                f"samples {self._samples} … {block.first_sample - 1} are missing",
                reason="daq_gap",
                where="DAQ",
                remedy="Look for an overloaded machine or a too short buffer.",
            )
        # Row by row in memory, as the archive gives it back: a sum in another order may differ in the last bit.
        block = replace(block, analog=np.ascontiguousarray(block.analog))
        self._samples += len(block.analog)
        position = block.encoders[:, :1] * self._station.encoder_direction
        self.writer.append("daq", {"raw": block.analog, "encoder": position}, self._times(block))
        return block

    def _convert(self, block: Block, *, watched: bool = False) -> View:
        time_s = self._times(block)
        forces, torques = self._sensor.convert(block.analog)
        contact = self._sensor.contact_force(forces)
        data = {"contact": contact, "force": forces}
        if self._sensor.torque_names:
            data["torque"] = torques
        # Before it is judged: the block that breaks a limit is the one people will want to see.
        self.writer.append("force", data, time_s)
        if watched:
            self.watch.check(forces, torques, self._sensor.saturated(block.analog), time_s)
        across = np.sqrt(np.maximum(np.einsum("ij,ij->i", forces, forces) - contact * contact, 0.0))
        moment = np.sqrt(np.einsum("ij,ij->i", torques, torques))
        return View(time_s, block.encoders[:, 0] * self._station.encoder_direction, contact, across, moment)

    def _times(self, block: Block) -> Floats:
        return np.arange(block.first_sample, block.first_sample + len(block.analog)) / self.rate_hz

    def _check_saturation(self, block: Block) -> None:
        quiet = np.zeros((len(block.analog), 1))
        self.watch.check(quiet, quiet[:, :0], self._sensor.saturated(block.analog), self._times(block))

    def _guard(self) -> None:
        self._station.interlock.check()
        self._station.supervisor.check()

    def _poll(self, encoder_mm: float) -> None:
        if self.time_s - self._polled_s < POLL_S - 0.5 / self.rate_hz:
            return
        before_s = self.now_s()
        position_mm = self._station.stage.position_mm()
        self.writer.append("stage", {"position": [position_mm]}, [0.5 * (before_s + self.now_s())])
        self._polled_s = self.time_s
        # A sample of the encoder is as old as it is: the stage has gone on since, and farther where samples were lost.
        late_s = max(0.0, before_s - self.time_s)
        allowed_mm = AGREEMENT_MM + (AGREEMENT_S + late_s) * self._speed_mm_s
        if late_s <= FRESH_S and not abs(position_mm - encoder_mm) <= allowed_mm:
            raise SafetyAbort(
                f"the stage reports {position_mm:.3f} mm, the encoder {encoder_mm:.3f} mm; "
                f"{allowed_mm:.2f} mm apart are allowed",
                reason=POSITIONS_DISAGREE,
                where="stage and encoder",
                remedy="Look for a stuck or swapped encoder, lost counts, a stage that lost steps, and at "
                "microstep_size and distance_per_pulse in the rig profile.",
            )
