"""The clocked control loop of a joint, recording included: one torque command and one reply per tick.

::

    recording.start()                                        # acquisition, tare with the motor off
    def hold(tick: Tick, command: Command) -> None:
        command.desired_angle_rad = 0.0
        command.feedback_nm = 400.0 * (0.0 - tick.motor_angle_rad) - 20.0 * tick.motor_velocity_rad_s
        command.wanted_nm = command.torque_nm = command.feedback_nm
    view = recording.run(hold, 2.0, text="holding")

Ticks lie on one grid of absolute deadlines, so lateness does not add up. A tick that comes more than a period late has
missed those in between: they are counted and archived, and more than ``loop.max_missed`` in a row end the run. A tick
waits for its deadline, asks the controller, commands through the gate, takes the reply and keeps a row. What costs more
(archive, DAQ, watches, signals, e-stop contact) is done once a drain.

The reply shows the state from just before its command took effect, so the controller sees a state one tick old. A row
is stamped in the middle of its transaction; half the transaction is how well that time is known
(``time_half_width``). DAQ samples and rows share the DAQ's time base by the anchor, whose own half-width stands in the
archive; finer than that only the signals themselves can tell.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from bench.archive import RunWriter
from bench.clock import tick_wait
from bench.instruments.protocols import DriveState
from bench.procedures.joint_recording import JointChannels, Samples, group_specs
from bench.procedures.joint_tick import Command, Controller, LoopView, Taken, Tick, joined
from bench.procedures.ticks import TickGrid
from bench.profile import JointLoad, OutputLock, SpecimenProfile
from bench.safety.joint_watch import JointWatch, passed_on
from bench.station import JointStation

__all__ = ["Command", "Controller", "JointRecording", "LoopView", "Tick", "group_specs"]

Floats = NDArray[np.float64]
Progress = Callable[[str, float | None], None]
Row = tuple[float, ...]


class JointRecording:
    """A joint's control loop and acquisition into an archive.

    Parameters
    ----------
    station : JointStation
        Open and ready.
    writer : RunWriter
        With the groups of :func:`~bench.procedures.joint_recording.group_specs`.
    planned_s : float
        How long the whole run should take [s], for the progress.
    specimen : SpecimenProfile, optional
        What is mounted: an output lock, or a load with its nominal weight. Nothing unless given.
    torque_limit_nm : float, optional
        What joint, transducer and load bear [N.m]; the gate's limit unless given.
    progress : callable, optional
        Called as ``progress(text, fraction)`` once a drain.
    """

    def __init__(
        self,
        station: JointStation,
        writer: RunWriter,
        *,
        planned_s: float,
        specimen: SpecimenProfile | None = None,
        torque_limit_nm: float | None = None,
        progress: Progress | None = None,
    ) -> None:
        rig = station.rig
        self.writer = writer
        self.text = "starting"
        self.gear_ratio = rig.drive.gear_ratio
        self.rate_hz = rig.loop.rate.to("Hz")
        self.grid = grid = TickGrid(writer, self.rate_hz, rig.loop.max_missed)
        self.period_s, self.timing = grid.period_s, grid.timing
        locked = isinstance(specimen, OutputLock)
        self.watch = JointWatch(self.gear_ratio, rig.joint.rated_torque.to("N.m"), locked=locked)
        self._weight_nm = _weight(specimen)
        self.channels = JointChannels(
            station,
            writer,
            self.watch,
            station.drive.limits.torque_nm if torque_limit_nm is None else torque_limit_nm,
        )
        self._station = station
        self._drive = station.drive
        self._motor_inertia = rig.joint.motor_inertia.to("kg.m2")
        self._planned_s = planned_s
        self._progress = progress
        self._drain_ticks = max(1, round(rig.loop.drain.to("s") * self.rate_hz))
        self._rows: list[Row] = []
        self._state: DriveState | None = None
        self._tick = Tick()
        self._command = Command()

    # -- start and end

    def start(self) -> None:
        """Start the acquisition and take the tare: motor off, joint and load at rest.

        The joint encoder counts from where the motor says the joint is (``encoder.start_angle`` after the station was
        opened); then the motor's angle is zeroed against it.

        Raises
        ------
        SafetyAbort
            ``"not_at_rest"`` when the joint turns during the tare.
        """
        self.text = "tare"
        drive = self._drive
        channels = self.channels
        channels.start(drive.angle(drive.state()))
        self.grid.zero_ns = channels.anchor.clock_ns
        block = max(2, round(self._drain_ticks * self.period_s * channels.rate_hz))
        angle, weight_nm = channels.tare(block, self._weight_nm)
        self._state = state = drive.state()
        drive.refer(state, angle)
        self._tick.joint_angle_rad = angle
        self.event(
            "info",
            "tare",
            f"zero of the torque transducer from a second of rest, motor off, at {angle:.4f} rad, less "
            f"{weight_nm:.4f} N.m for the load's nominal weight there",
        )

    def stop(self) -> None:
        """Switch the motor off, archive what is left, close the acquisition."""
        try:
            if self.channels.running and not self._drive.latched:
                self._drive.stop()
                self._drain(None)
        finally:
            self._archive_rows(None)
            self.channels.close()
        last = self.channels.last.joint_angle_rad
        if len(last):
            self._station.saw_joint_at(float(last[-1]))

    def note_timing(self) -> None:
        """Archive what the loop's time was like, and how well rows and DAQ samples are aligned by it."""
        self.event("info", "timing", self.timing.told(self.channels.anchor))

    def motion_after_stop(self, watch_s: float) -> float:
        """Record on for ``watch_s`` [s] from now and return how far the joint encoder turned meanwhile [rad].

        The witness of the safe state. Nothing is checked here any more; what the joint did after the stop is archived.
        """
        self._archive_rows(None)
        try:
            seen = self.channels.aftermath(watch_s)
        except Exception:
            self.channels.close()  # so that the station can open another one and look for itself
            raise
        return float(np.ptp(seen.joint_angle_rad))

    # -- time, events, phases

    @property
    def time_s(self) -> float:
        """The present in the time base of the acquisition [s]."""
        return (self._station.clock.now_ns() - self.grid.zero_ns) * 1e-9

    def event(self, severity: str, code: str, message: str, time_s: float | None = None) -> None:
        """Archive an event, by default now."""
        self.writer.event(self.time_s if time_s is None else time_s, severity, code, message)

    def phase(self, name: str, replicate: int, angular_speed_rad_s: float, start_s: float, end_s: float) -> None:
        """Archive a phase; ``angular_speed_rad_s`` is signed, NaN where there is none."""
        self.writer.phase(name, replicate, np.nan, start_s, end_s, angular_speed_rad_s=angular_speed_rad_s)

    # -- the loop

    def run(self, controller: Controller, duration_s: float, *, text: str | None = None) -> LoopView:
        """Let ``controller`` drive the joint for ``duration_s`` [s] and return what happened.

        Parameters
        ----------
        controller : callable
            ``controller(tick, command)`` fills in ``command``; both objects are used again at the next tick. It ends
            the loop after its present command by returning True.
        duration_s : float
            Rounded to whole ticks.
        text : str, optional
            For the progress.

        Raises
        ------
        SafetyAbort
            A limit, the e-stop, a signal, a deadline, contradicting sensors or too many missed ticks.
        InstrumentError
            Drive or DAQ do not answer, or the drive has stopped by itself.
        """
        if text is not None:
            self.text = text
        clock, drive, channels = self._station.clock, self._drive, self.channels
        wait, now_ns, torque, beat = tick_wait(clock), clock.now_ns, drive.torque, self._station.watchdog.beat
        grid, timing = self.grid, self.timing
        period, zero = grid.period_ns, grid.zero_ns
        ratio, to_rotor, to_joint = self.gear_ratio, 1.0 / self.gear_ratio, drive.direction * self.gear_ratio
        direction, speed_to_joint = drive.direction, drive.direction / self.gear_ratio
        joint_angle = drive.angle
        tick, command, append = self._tick, self._command, self._rows.append
        state = self._state if self._state is not None else drive.state()
        angle, drained_s = joint_angle(state), channels.time_s
        taken = Taken()
        left = round(duration_s * self.rate_hz)
        until_drain = self._drain_ticks
        deadline = grid.next(now_ns())
        while left > 0:
            wait(deadline)
            beat()
            now = now_ns()
            late = now - deadline
            if late >= period:
                missed = grid.miss(late, now)
                deadline += missed * period
                late -= missed * period
                left -= missed
            else:
                timing.in_a_row = 0
            tick.time_s = time_s = (now - zero) * 1e-9
            tick.motor_angle_rad = angle
            tick.motor_velocity_rad_s = state.rotor_velocity_rad_s * speed_to_joint
            tick.motor_torque_nm = state.rotor_torque_nm * to_joint
            tick.temperature_degc = state.temperature_degc
            tick.daq_age_s = time_s - drained_s
            done = controller(tick, command)
            before = now_ns()
            state = torque(command.torque_nm)
            after = now_ns()
            angle = joint_angle(state)
            append(
                (
                    (before + after - 2 * zero) * 0.5e-9,
                    ratio * angle,
                    command.desired_angle_rad,
                    direction * state.rotor_velocity_rad_s,
                    command.desired_velocity_rad_s,
                    direction * state.rotor_torque_nm,
                    command.torque_nm * to_rotor,
                    command.wanted_nm,
                    command.feedback_nm,
                    command.feedforward_nm,
                    state.temperature_degc,
                    late * 1e-9,
                    (after - before) * 0.5e-9,
                )
            )
            tick.index += 1
            left -= 1
            deadline += period
            until_drain -= 1
            if not until_drain:
                until_drain = self._drain_ticks
                self._drain(taken)
                drained_s = channels.time_s
            if done:
                break
        self._state = state
        self._drain(taken)
        return self._view(taken)

    # -- once a drain

    def _drain(self, taken: Taken | None) -> None:
        # Instruments first: once rows are handed over, the archive's thread wants the interpreter too.
        self._station.interlock.check()
        samples = self.channels.drain(self._station.clock.now_ns())
        rows = self._archive_rows(taken)
        if len(samples.time_s):
            tick = self._tick
            tick.joint_angle_rad = float(samples.joint_angle_rad[-1])
            tick.joint_torque_nm = float(samples.joint_torque_nm[-1])
            if taken is not None:
                taken.samples.append(samples)
        self._station.supervisor.check()
        if rows is not None and len(samples.time_s):
            self._compare(rows, samples)
        if self._progress is not None:
            self._progress(self.text, min(1.0, self.channels.time_s / self._planned_s))

    def _archive_rows(self, taken: Taken | None) -> Floats | None:
        """Hand the rows kept since the last time to the archive."""
        if not self._rows:
            return None
        rows = np.array(self._rows)
        self._rows.clear()
        self.timing.take(rows[:, 11], rows[:, 12])
        self.writer.append(
            "drive",
            {
                "angle": rows[:, 1:3],
                "speed": rows[:, 3:5],
                "torque": rows[:, 5:10],
                "temperature": rows[:, 10],
                "timing": rows[:, 11:13],
            },
            rows[:, 0],
        )
        if taken is not None:
            taken.rows.append(rows)
        return rows

    def _compare(self, rows: Floats, samples: Samples) -> None:
        inside = (rows[:, 0] >= samples.time_s[0]) & (rows[:, 0] <= samples.time_s[-1])
        rows = rows[inside]
        ratio = self.gear_ratio
        velocity = rows[:, 3] / ratio
        self.watch.feed(
            rows[:, 1] / ratio,
            velocity,
            passed_on(rows[:, 5] * ratio, velocity, rows[:, 0], self._motor_inertia),
            np.interp(rows[:, 0], samples.time_s, samples.joint_angle_rad),
            np.interp(rows[:, 0], samples.time_s, samples.joint_torque_nm),
        )

    def _view(self, taken: Taken) -> LoopView:
        rows = np.concatenate(taken.rows) if taken.rows else np.empty((0, 13))
        ratio = self.gear_ratio
        samples = joined(taken.samples)
        angle, torque = (
            np.interp(rows[:, 0], samples.time_s, values) if len(values) else np.full(len(rows), np.nan)
            for values in (samples.joint_angle_rad, samples.joint_torque_nm)
        )
        return LoopView(
            time_s=rows[:, 0],
            motor_angle_rad=rows[:, 1] / ratio,
            motor_velocity_rad_s=rows[:, 3] / ratio,
            motor_torque_nm=rows[:, 5] * ratio,
            temperature_degc=rows[:, 10],
            command_nm=rows[:, 6] * ratio,
            wanted_nm=rows[:, 7],
            feedback_nm=rows[:, 8],
            feedforward_nm=rows[:, 9],
            desired_angle_rad=rows[:, 2],
            desired_velocity_rad_s=rows[:, 4],
            joint_angle_rad=angle,
            joint_torque_nm=torque,
            samples=samples,
        )


def _weight(specimen: SpecimenProfile | None) -> Callable[[float], float]:
    """Return the nominal torque of a load's weight [N.m] by joint angle [rad]; none of what is clamped or unknown."""
    if not isinstance(specimen, JointLoad):
        return lambda angle_rad: 0.0
    moment, phase = specimen.gravity_moment.to("N.m"), specimen.gravity_phase.to("rad")
    return lambda angle_rad: moment * math.sin(angle_rad - phase)
