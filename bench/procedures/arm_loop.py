"""The clocked control loop of an arm, recording included: one reading and one command of all motors per tick.

::

    recording.start()                                        # acquisition, tare of the wrist sensor, brakes closed
    def hold(tick: ArmTick, command: ArmCommand) -> None:
        command.torque[:] = recording.model.gravity(np.array(tick.position)).tolist()
        command.desired_position[:] = tick.position
    view = recording.run(hold, 2.0, text="holding")          # motors on, first command, then the brakes open
    recording.park()                                         # brakes close, motors off

Ticks lie on one grid of absolute deadlines, so lateness does not add up. A tick waits for its deadline, reads every
servo in one transaction, asks the controller, commands all of them in one packet, and keeps a row. So a controller
sees a state that is half a transaction old, and its command leaves right after: ``command_time`` says when it has
reached the motors, where it holds until the next row's. A row's time is the middle of the reading, half of which is how
well it is known (``time_half_width``); DAQ samples and rows share the DAQ's time base by the anchor.

The brakes are open only while somebody commands: they open after the first command, and as long as they are open every
run goes on on the grid of the one before. Time between two runs counts as missed ticks, and more than
``loop.max_missed`` in a row end the run; :meth:`ArmRecording.park` before a longer computation.

What costs more (archive, e-stop contact, signals, the watches) is done once a drain, and so is the wrist sensor unless
:meth:`ArmRecording.force_ticks` asks for it at every tick.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.archive import RunWriter
from bench.arm import arm_model, body, ratings, sensor_frame
from bench.clock import tick_wait
from bench.errors import SafetyAbort
from bench.procedures.arm_recording import PARTS, ArmChannels, Wrenches, drive_columns, group_specs
from bench.procedures.arm_tick import ArmCommand, ArmController, ArmLoopView, ArmTick
from bench.procedures.ticks import TickGrid
from bench.profile import Payload, SpecimenProfile
from bench.safety.arm_watch import WINDUP_RAD, ArmWatch, FrozenEncoders, WristWatch, breaks_loose, check_following

if TYPE_CHECKING:
    from bench.models.rigid import ArmModel
    from bench.station_arm import ArmStation

__all__ = ["ArmCommand", "ArmController", "ArmLoopView", "ArmRecording", "ArmTick", "group_specs"]

Floats = NDArray[np.float64]
Progress = Callable[[str, float | None], None]

#: How often the servos are asked how warm they are [s].
HEALTH_S = 1.0


class ArmRecording:
    """An arm's control loop and acquisition into an archive.

    Parameters
    ----------
    station : ArmStation
        Open and ready, what is on the tool mounted.
    writer : RunWriter
        With the groups of :func:`~bench.procedures.arm_recording.group_specs`.
    planned_s : float
        How long the whole run should take [s], for the progress.
    specimen : SpecimenProfile, optional
        What is mounted or pressed; the bare tool unless given.
    windup_rad : float
        Of the position controller [rad]: how far friction may hold a joint from where it is wanted.
    progress : callable, optional
        Called as ``progress(text, fraction)`` once a drain.
    """

    def __init__(
        self,
        station: ArmStation,
        writer: RunWriter,
        *,
        planned_s: float,
        specimen: SpecimenProfile | None = None,
        windup_rad: float = WINDUP_RAD,
        progress: Progress | None = None,
    ) -> None:
        rig = station.rig
        self.writer = writer
        self.text = "starting"
        self.n = n = station.arm.n
        self.model: ArmModel = station.model
        self.rate_hz = rig.loop.rate.to("Hz")
        self.grid = grid = TickGrid(writer, self.rate_hz, rig.loop.max_missed)
        self.period_s, self.timing = grid.period_s, grid.timing
        carried = [body(rig.tool), *([body(specimen.body)] if isinstance(specimen, Payload) else [])]
        self.channels = ArmChannels(
            station,
            writer,
            WristWatch(
                arm_model(rig, specimen),
                sensor_frame(rig),
                carried,
                station.arm.limits,
                rig.wrist_sensor.capacity.to("N"),
            ),
        )
        names, rated = station.arm.limits.names, ratings(rig.arm)
        most = [servo.max_current.to("A") for servo in rig.servos]
        looses = breaks_loose(rated.coulomb, rated.rated_torque)
        self.watch = ArmWatch(names, most, looses)
        self.frozen = FrozenEncoders(names, self.period_s, looses, station.arm.weight, windup_rad)
        self._brake_ticks = round(rig.safety.brake_time.to("s") * self.rate_hz)
        self._station = station
        self._arm = station.arm
        self._planned_s = planned_s
        self._progress = progress
        self._drain_ticks = max(1, round(rig.loop.drain.to("s") * self.rate_hz))
        self._health_ticks = max(1, round(HEALTH_S * self.rate_hz))
        # In the middle between two drains: a tick has no time for both.
        self._until_health = self._drain_ticks // 2 + 1
        self._until_drain = self._drain_ticks
        self._due_ns = 0
        self._forced = False
        self._columns = drive_columns(station)
        self._width = 1 + len(PARTS) * n + 3
        self._rows: list[float] = []  # one after the other
        self._tick = ArmTick()
        self._command = ArmCommand.at([0.0] * n)
        self._view_rows: list[Floats] = []
        self._view_wrenches: list[Wrenches] = []

    # -- start and end

    def start(self) -> None:
        """Start the acquisition and take the wrist sensor's zero: brakes closed, tool at rest.

        Raises
        ------
        SafetyAbort
            ``"not_at_rest"``: something moves; ``"wrong_load"``: the sensor does not carry what the profiles say.
        """
        self.text = "tare"
        channels = self.channels
        channels.start()
        self.grid.zero_ns = channels.anchor.clock_ns
        channels.tare(max(2, round(self._drain_ticks * self.period_s * channels.rate_hz)))
        position = self._arm.reading().position_rad
        self._tick.position, self._command = position, ArmCommand.at(position)
        weight = channels.watch.weight(position)
        shown = ", ".join(f"{value:.3g}" for value in weight[:3])
        self.event(
            "info",
            "tare",
            f"zero of the wrist sensor from a second of rest, brakes closed, {channels.watch.mass:.4g} kg on it, whose "
            f"weight there is ({shown}) N in the sensor's frame and stands in the zero",
        )

    def park(self) -> None:
        """Close the brakes, hold the arm until they have, then switch the motors off; a run opens them again."""
        self._arm.stop()
        self._drain()
        self.event("info", "parked", "brakes closed, motors off")

    def stop(self) -> None:
        """Park the arm, archive what is left, close the acquisition."""
        try:
            if self.channels.running and not self._arm.latched:
                self._arm.stop()
                self._drain()
        finally:
            try:
                self._archive_rows()
            finally:
                self.channels.close()

    def note_timing(self) -> None:
        """Archive what the loop's time was like, and how well rows and DAQ samples are aligned by it."""
        self.event("info", "timing", self.timing.told(self.channels.anchor))

    def motion_after_stop(self, watch_s: float) -> float:
        """Record on for ``watch_s`` [s] from now and return how much the force on the wrist sensor changed [N].

        The witness of the safe state: the servos have no supply then, and the sensor feels its tool move. Nothing is
        checked here any more; what the arm did after the stop is archived.
        """
        self._archive_rows()
        try:
            volts = self.channels.aftermath(watch_s)
        except Exception:
            self.channels.close()  # so that the station can open another one and look for itself
            raise
        return self._station.unrest(volts)

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

    def force_ticks(self, on: bool) -> None:
        """Read the wrist sensor at every tick from now on, for a controller of force; else once a drain."""
        self._forced = on

    # -- the loop

    def run(self, controller: ArmController, duration_s: float, *, text: str | None = None) -> ArmLoopView:
        """Let ``controller`` drive the arm for ``duration_s`` [s] and return what happened.

        The motors are switched on and the brakes opened where they are not: the first command is out before they open,
        and they take their time, so a run begins with holding the arm.

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
            A servo or the DAQ does not answer, or a servo has stopped by itself.
        """
        if text is not None:
            self.text = text
        clock, arm, channels = self._station.clock, self._arm, self.channels
        wait, now_ns, read, torques = tick_wait(clock), clock.now_ns, arm.read, arm.torques
        beat = self._station.watchdog.beat
        limits, command_s, freeze = arm.limits, arm.command_s, self.frozen.feed
        opened = arm.brakes_open
        if not opened:
            arm.torque_enable(True)
            self.watch.restart()
            self.frozen.restart(self._brake_ticks)
            self._due_ns = self.grid.next(now_ns())
        start_s = (self._due_ns - self.grid.zero_ns) * 1e-9
        grid, timing = self.grid, self.timing
        period, zero = grid.period_ns, grid.zero_ns
        tick, command, rows, width = self._tick, self._command, self._rows, self._width
        sample_s = 1.0 / channels.rate_hz
        left = round(duration_s * self.rate_hz)
        deadline = self._due_ns
        while left > 0:
            wait(deadline)
            beat()
            before = now_ns()
            late = before - deadline
            if late >= period:
                missed = grid.miss(late, before)
                deadline += missed * period
                late -= missed * period
                left -= missed
            else:
                timing.in_a_row = 0
            state = read()
            after = now_ns()
            middle = (before + after - 2 * zero) * 0.5e-9
            tick.time_s = middle
            position = tick.position = state.position_rad
            tick.velocity = state.velocity_rad_s
            tick.torque = state.torque_nm
            if self._forced:
                self._take_wrench(after)
            tick.wrench_age_s = (after - zero) * 1e-9 - channels.time_s + sample_s
            done = controller(tick, command)
            currents = torques(command.torque)
            sent_s = (arm.commanded_ns - zero) * 1e-9 + command_s
            check_following(limits, position, command.desired_position)
            freeze(position, command.torque, command.desired_position)
            if not opened:
                opened = True
                arm.open_brakes()
                self.event("info", "brakes_open", f"brakes told to open after the command at {sent_s:.4f} s", sent_s)
            kept = len(rows)
            rows.append(middle)
            rows += state.shaft_rad
            rows += state.shaft_rad_s
            rows += state.current_a
            rows += currents
            rows += command.desired_position
            rows += command.desired_velocity
            rows += command.feedback
            rows += command.feedforward
            rows += command.friction
            rows += (sent_s, late * 1e-9, (after - before) * 0.5e-9)
            if len(rows) != kept + width:
                del rows[kept:]
                raise _wrong_lengths(self.n, command)
            tick.index += 1
            left -= 1
            deadline += period
            self._due_ns = deadline
            self._until_drain -= 1
            self._until_health -= 1
            if not self._until_drain:
                self._drain()
            elif self._until_health <= 0:
                self._check_condition()
            if done:
                break
        self._drain()
        return self._view(start_s)

    def _take_wrench(self, now_ns: int) -> None:
        tick = self._tick
        taken = self.channels.drain(now_ns, tick.position)
        if len(taken.time_s):
            tick.wrench = taken.wrench[-1].tolist()
            self._view_wrenches.append(taken)

    # -- once a drain

    def _drain(self) -> None:
        # Instruments first: once rows are handed over, the archive's thread wants the interpreter too.
        self._until_drain = self._drain_ticks
        self._station.interlock.check()
        if self._tick.position:
            self._take_wrench(self._station.clock.now_ns())
        rows = self._archive_rows()
        self.channels.flush()
        self._station.supervisor.check()
        if rows is not None:
            self._compare(rows)
        if self._progress is not None:
            self._progress(self.text, min(1.0, self.channels.time_s / self._planned_s))

    def _check_condition(self) -> None:
        self._until_health = self._health_ticks
        condition = self._arm.check_condition()
        self.writer.append(
            "health",
            {"temperature": [condition.temperature_degc], "supply": [min(condition.supply_v)]},
            [self.time_s],
        )

    def _archive_rows(self) -> Floats | None:
        """Hand the rows kept since the last time to the archive."""
        if not self._rows:
            return None
        rows = np.array(self._rows).reshape(-1, self._width)
        self._rows.clear()
        self.timing.take(rows[:, -2], rows[:, -1])
        self.writer.append("drive", {name: rows[:, where] for name, where in self._columns}, rows[:, 0])
        self._view_rows.append(rows)
        return rows

    def _part(self, rows: Floats, name: str) -> Floats:
        first = 1 + _NUMBER[name] * self.n
        return rows[:, first : first + self.n]

    def _compare(self, rows: Floats) -> None:
        drives = self._arm.drivetrain
        position = drives.joint_position(self._part(rows, "motor_position"))
        desired, current, told = (self._part(rows, name) for name in ("desired_position", "current", "command"))
        torque = drives.joint_torque_of_current(told.mean(axis=0))
        self.watch.feed(position, desired, current, told, torque - self._arm.weight(position[-1]))

    def _view(self, start_s: float) -> ArmLoopView:
        rows = np.concatenate(self._view_rows) if self._view_rows else np.empty((0, self._width))
        wrenches = self._view_wrenches
        self._view_rows, self._view_wrenches = [], []
        drives = self._arm.drivetrain
        return ArmLoopView(
            start_s=start_s,
            end_s=(self._due_ns - self.grid.zero_ns) * 1e-9,
            time_s=rows[:, 0],
            position=drives.joint_position(self._part(rows, "motor_position")),
            velocity=drives.joint_velocity(self._part(rows, "motor_velocity")),
            command_torque=drives.joint_torque_of_current(self._part(rows, "command")),
            desired_position=self._part(rows, "desired_position"),
            wrench_time_s=np.concatenate([np.empty(0), *(part.time_s for part in wrenches)]),
            wrench=np.concatenate([np.empty((0, 6)), *(part.wrench for part in wrenches)]),
        )


_NUMBER = {part[0]: number for number, part in enumerate(PARTS)}


def _wrong_lengths(n: int, command: ArmCommand) -> SafetyAbort:
    lists = ("desired_position", "desired_velocity", "feedback", "feedforward", "friction")
    given = ", ".join(f"{name} {len(getattr(command, name))}" for name in lists)
    return SafetyAbort(
        f"a controller filled in lists of other lengths than the arm's {n} joints: {given}",
        reason="bad_command",
        where="arm command",
        remedy="Fill every list in place, one number for each joint.",
    )
