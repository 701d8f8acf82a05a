"""The indenter: a stage in a compliant frame presses a specimen, on ticks, as far as somebody looks.

The plant is lazy. It catches up to the present when it is observed or commanded; a command splits the tick it falls
into, an observation never does, so looking changes nothing. What happened stays in arrays by tick, from which the
DAQ's samples are read.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.plant.motion import Motion
from bench.twin.plant.tissue import LIFT_OFF_MM, Tissue
from bench.twin.plant.truth import RigTruth, TissueTruth

Floats = NDArray[np.float64]

_AT_SWITCH_MM = 1e-3
_SPAN = 20_000  # ticks computed at once
_WATCH_NS = 100_000_000  # a moving stage is looked at this often, so that a stall is reported without being asked for


class Indenter:
    """Implements :class:`bench.twin.interfaces.StagePlant`; every method with the world's lock held.

    Positions the controller knows are counts from its zero; the truth (carriage, surface) counts from the reference
    switch. The two agree after homing, until steps are lost.
    """

    def __init__(self, world: World, truth: RigTruth) -> None:
        self.world = world
        self.truth = truth
        stage = truth.stage
        self.tick_ns = world.tick_ns
        self.tissue = Tissue(truth.tissue, stage.frame_stiffness_N_mm, truth.seed)
        self.motion = Motion(stage.start_mm, stage.lag_s, stage.brake_s)
        self.powered = False
        self.jammed = False
        self.slip_mm = 0.0
        self.stalls = 0
        self._zero_mm = 0.0
        self._stalled = False
        self._limits = (-math.inf, math.inf)
        self._listeners: list[Callable[[str], None]] = []
        self._watching = False
        self._contact_ns = 0
        self._next_tick = 0
        self._travel = np.empty(4096)
        self._force = np.empty(4096)

    # -- what the controller sees -------------------------------------------------------------------------------------

    def position_mm(self) -> float:
        self._meet_stalls()
        return self.motion.motor(self.world.now_ns) - self._zero_mm

    def setpoint_mm(self) -> float:
        self._meet_stalls()
        return self.motion.setpoint(self.world.now_ns) - self._zero_mm

    def velocity_mm_s(self) -> float:
        self._meet_stalls()
        return self.motion.motor_speed(self.world.now_ns)

    def is_moving(self) -> bool:
        self._meet_stalls()
        return self.motion.moving(self.world.now_ns)

    def fault(self) -> str | None:
        if not self.powered:
            return "unpowered"
        self._meet_stalls()
        return "stalled" if self._stalled else None

    def _meet_stalls(self) -> None:
        """Catch up when the motion could have been cut short; a stage that has stood since the last tick is known."""
        if self.motion.end_ns > (self._next_tick - 1) * self.tick_ns:
            self.catch_up()

    # -- commands -----------------------------------------------------------------------------------------------------

    def move_to(self, target_mm: float, speed_mm_s: float, acceleration_mm_s2: float) -> int:
        """Start a move, clipped to the hard limits; without power nothing happens and the time is now."""
        now = self._split()
        if not self.powered:
            return now
        if self.jammed:
            self._stall(now)
            return now
        self._stalled = False
        low, high = self._limits
        target = min(max(target_mm, low), high) + self._zero_mm
        end = self.motion.move_to(now, target, speed_mm_s, acceleration_mm_s2)
        self._watch()
        return end

    def move_velocity(self, speed_mm_s: float, acceleration_mm_s2: float) -> None:
        """Run at a constant speed, up to the hard limit (or far beyond the mechanical end when there is none)."""
        if speed_mm_s == 0.0:
            self.stop(acceleration_mm_s2)
            return
        low, high = self._limits
        edge = high if speed_mm_s > 0 else low
        if math.isinf(edge):
            edge = math.copysign(10_000.0, speed_mm_s)
        self.move_to(edge, abs(speed_mm_s), acceleration_mm_s2)

    def stop(self, acceleration_mm_s2: float) -> int:
        now = self._split()
        return self.motion.stop(now, acceleration_mm_s2)

    def set_hard_limits(self, minimum_mm: float, maximum_mm: float) -> None:
        """Arm the controller's limits. A move that is on its way beyond them ends there."""
        self._limits = (minimum_mm, maximum_mm)
        now = self._split()
        target = self.motion.target - self._zero_mm
        if self.motion.moving(now) and not minimum_mm <= target <= maximum_mm:
            self.move_to(target, self.motion.speed, self.motion.acceleration)

    def set_zero_here(self) -> None:
        """Homing is over. At count zero the switch was found and lost steps are made up; elsewhere the count is set."""
        now = self._split()
        count = self.motion.setpoint(now) - self._zero_mm
        if abs(count) < _AT_SWITCH_MM:
            self.slip_mm = 0.0
        self._zero_mm += count

    def on_fault(self, action: Callable[[str], None]) -> None:
        self._listeners.append(action)

    # -- what happens to it -------------------------------------------------------------------------------------------

    def set_power(self, on: bool) -> None:
        """The enable line and the e-stop in series switch the motor's power."""
        if on == self.powered:
            return
        now = self._split()
        self.powered = on
        if not on:
            self.motion.coast(now)
            self._tell("unpowered")

    def jam(self, on: bool) -> None:
        """The carriage is stuck, whatever is commanded."""
        now = self._split()
        self.jammed = on
        if on and self.motion.moving(now):
            self._stall(now)

    def lose_steps(self, distance_mm: float) -> None:
        """The motor falls behind by ``distance_mm`` without its controller noticing."""
        self._split()
        self.slip_mm += distance_mm

    def replace_specimen(self, truth: TissueTruth) -> None:
        """Another specimen lies under the tool."""
        self._split()
        self.tissue = Tissue(truth, self.truth.stage.frame_stiffness_N_mm, self.truth.seed)

    def _stall(self, time_ns: int) -> None:
        self.motion.freeze(time_ns)
        self._stalled = True
        self.stalls += 1
        self._tell("stalled")

    def _tell(self, code: str) -> None:
        """Tell the controller as an event of its own: it may command the plant, which must not happen half-way."""
        for action in self._listeners:
            self.world.at(self.world.now_ns, partial(action, code))

    def _watch(self) -> None:
        if self._listeners and not self._watching:
            self._watching = True
            self.world.at(self.world.now_ns + _WATCH_NS, self._look)

    def _look(self) -> None:
        self._watching = False
        if self.is_moving():
            self._watch()

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        """Number of recorded ticks."""
        return self._next_tick

    def travel(self) -> Floats:
        """True carriage position [mm] at every tick up to now, shape (n,)."""
        self.catch_up()
        return self._travel[: self._next_tick]

    def force(self) -> Floats:
        """True contact force [N] at every tick up to now, shape (n,)."""
        self.catch_up()
        return self._force[: self._next_tick]

    def catch_up(self) -> None:
        """Record every tick up to the present."""
        last = self.world.now_ns // self.tick_ns
        while self._next_tick <= last:
            self._advance(min(last, self._next_tick + _SPAN - 1))

    def _split(self) -> int:
        """Catch up and bring the contact to this very moment, between two ticks."""
        self.catch_up()
        now = self.world.now_ns
        if now > self._contact_ns:
            motor = np.array([self.motion.motor(now)])
            carriage = self._carriage(motor)
            self.tissue.advance(carriage.tolist(), (now - self._contact_ns) * 1e-9, math.inf, [])
            self._contact_ns = now
        return now

    def _carriage(self, motors: Floats) -> Floats:
        """True carriage positions for motor positions (n,): less the lost steps, plus the screw's periodic error."""
        stage = self.truth.stage
        nut = motors - self.slip_mm
        if stage.screw_amplitude_mm == 0.0:
            return nut
        error: Floats = np.sin(nut * (2.0 * math.pi / stage.screw_period_mm) + stage.screw_phase_rad)
        error -= math.sin(stage.screw_phase_rad)
        error *= stage.screw_amplitude_mm
        error += nut
        return error

    def _advance(self, last: int) -> None:
        """Record ticks up to ``last`` at most; fewer when a stall or the mechanical end changes the motion."""
        first = self._next_tick
        motors = self.motion.motors(first, last, self.tick_ns)
        carriage = self._carriage(motors)
        end_stop = self._end_stop(carriage, first * self.tick_ns)
        if end_stop is not None:
            carriage = carriage[: end_stop + 1]
        if last >= self._travel.size:
            self._grow(last + 1)
        forces = self._force[first : first + carriage.size]
        done, stalled = self._contact(carriage, forces)
        self._travel[first : first + done] = carriage[:done]
        self._next_tick = first + done
        time_ns = (self._next_tick - 1) * self.tick_ns
        self._contact_ns = max(self._contact_ns, time_ns)
        if stalled or (end_stop is not None and done == carriage.size):
            self._stall(time_ns)

    def _contact(self, carriage: Floats, out: Floats) -> tuple[int, bool]:
        """Fill ``out`` with the force of every tick; returns how many ticks were done and whether the last stalled."""
        tissue, size, done = self.tissue, carriage.size, 0
        dt = self.tick_ns * 1e-9
        first_ns = self._next_tick * self.tick_ns
        while done < size:
            if tissue.at_rest:
                rest = carriage[done:]
                touch = int(np.argmax(rest > tissue.surface)) if rest.max() > tissue.surface else rest.size
                if tissue.pressed and touch and float(rest[:touch].min()) < tissue.surface - LIFT_OFF_MM:
                    touch = int(np.argmax(rest < tissue.surface - LIFT_OFF_MM)) + 1
                    tissue.lift_off()
                out[done : done + touch] = 0.0
                done += touch
                if done == size:
                    return size, False
            forces: list[float] = []
            step_s = (first_ns - self._contact_ns) * 1e-9 if done == 0 else dt
            split = 0.0 < step_s < dt  # a command came since the last tick
            stalled = tissue.advance(
                carriage[done : done + 1 if split else size].tolist(),
                step_s if split else dt,
                self._stall_force(first_ns + done * self.tick_ns),
                forces,
            )
            out[done : done + len(forces)] = forces
            done += len(forces)
            if stalled:
                return done, True
        return size, False

    def _end_stop(self, carriage: Floats, time_ns: int) -> int | None:
        """The first of the ticks, from ``time_ns`` on, at which the stage runs into its mechanical end."""
        if not self.motion.moving(time_ns):
            return None
        stage = self.truth.stage
        outward = (
            carriage > stage.travel_max_mm
            if self.motion.target > self.motion.motor(time_ns)
            else carriage < stage.travel_min_mm
        )
        return int(np.argmax(outward)) if outward.any() else None

    def _stall_force(self, time_ns: int) -> float:
        """Only a stage that presses on can stall; one that stands or draws back cannot."""
        pressing = self.motion.moving(time_ns) and self.motion.target > self.motion.setpoint(time_ns)
        return self.truth.stage.stall_force_N if pressing else math.inf

    def _grow(self, ticks: int) -> None:
        size = max(ticks, 2 * self._travel.size)
        for name in ("_travel", "_force"):
            grown = np.empty(size)
            old: Floats = getattr(self, name)
            grown[: self._next_tick] = old[: self._next_tick]
            setattr(self, name, grown)
