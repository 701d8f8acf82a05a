"""The arm: servos turn elastic, rubbing axes and these move the links, on ticks, as far as somebody looks.

Lazy like the joint: it catches up to the present when it is observed or commanded. A command in the middle of a tick
does not split it: the tick is stepped with the torque's mean and with what its unevenness does to the way, which is
exact but for the change of the forces meanwhile. What is observed between two ticks is extrapolated, so looking changes
nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.noise import ChannelNoise
from bench.twin.plant.arm_contact import Surface
from bench.twin.plant.arm_history import ArmHistory
from bench.twin.plant.arm_state import ArmState
from bench.twin.plant.arm_step import ArmStepper
from bench.twin.plant.arm_truth import ArmTruth

Floats = NDArray[np.float64]

#: Commands further apart than this are no control loop's [ns].
LONGEST_PACE_NS = 10_000_000
#: Phase [rad] of the softest spring in a substep, at most. Stiffer ones follow their load and ring next to nothing.
PHASE_PER_STEP = 1.0
#: Ticks between two figures of the servos' temperature.
THERMAL_TICKS = 100
_ASLEEP = 1e-9  # rad/s, below which a braked arm stands


class Arm:
    """Implements :class:`bench.twin.interfaces.ArmDrivesPlant`; every method with the world's lock held.

    Without power the motors make no torque. The brakes are open while there is power and their line is high; they
    follow late. What happens to them in a tick counts from its end.
    """

    def __init__(self, world: World, truth: ArmTruth) -> None:
        self.world = world
        self.truth = truth
        self.tick_ns = world.tick_ns
        self.axes = n = len(truth.axes)
        self.substeps = 1
        self.stepper = self._stepper()
        softest = float(self.stepper.builder.phases.min())
        if softest > PHASE_PER_STEP:
            self.substeps = math.ceil(softest / PHASE_PER_STEP)
            self.stepper = self._stepper()
        surface = None if truth.contact is None else Surface(truth.contact, truth.tip_radius, truth.seed)
        self.state: ArmState = self.stepper.at_rest([axis.start for axis in truth.axes], surface)
        self.history = ArmHistory(n)
        self.currents = [0.0] * n  # true, at the shafts
        self._torque = [0.0] * n
        self._schedule: list[tuple[int, list[float]]] = []  # torques that came since the last tick, and when
        self._powered = self._released = False
        self._braked = True
        self._power_listeners: list[Callable[[bool], None]] = []
        self._fault_listeners: list[Callable[[int, int], None]] = []
        self._noise = ChannelNoise(truth.seed, "arm/current")
        self._stuck: dict[int, float] = {}
        self._tick = 0
        self._commanded_ns = 0
        self._pace_ns = 0
        self._ahead: deque[ArmState] = deque()
        self._foreseen: tuple[int, list[float], list[float]] | None = None  # when, currents, torques
        self._temperature = [truth.thermal.ambient] * n
        self._heat = [0.0] * n  # A² s since the last figure
        self._heated_ns = 0
        self._nil = [0.0] * n
        self._take_constants()
        self._record(self.state)
        world.on_idle.append(self._work_ahead)

    def _take_constants(self) -> None:
        axes = self.truth.axes
        self._shafts = [(axis.zero, axis.shaft_per_axis, axis.current_noise) for axis in axes]
        self._inertias = [axis.inertia for axis in axes]
        self._motors = [(axis.max_current, axis.torque_per_current) for axis in axes]

    def _stepper(self) -> ArmStepper:
        return ArmStepper(self.truth, self.tick_ns * 1e-9 / self.substeps)

    # -- what the servos see ------------------------------------------------------------------------------------------

    def states(self) -> tuple[Sequence[float], Sequence[float], Sequence[float]]:
        """See the interface."""
        self.catch_up()
        now_ns = self.world.now_ns
        ahead, s, n = (now_ns - self._tick * self.tick_ns) * 1e-9, self.state, self.axes
        angles, speeds, currents = [], [], []
        noise = self._noise.normal(self._tick * n, n).tolist()
        turned: list[float] = s.values[: 3 * n].tolist()  # theta, q, estimate
        further, powered = 0.5 * ahead, self._powered
        for (zero, per, noisy), theta, estimate, w, alpha, current, x in zip(
            self._shafts, turned, turned[2 * n :], s.speeds, s.alpha, self.currents, noise, strict=False
        ):
            angles.append(zero + per * (theta + ahead * (w + further * alpha)))
            speeds.append(per * estimate)
            currents.append(current + noisy * x if powered else 0.0)
        for stuck, angle in self._stuck.items():
            angles[stuck], speeds[stuck] = angle, 0.0
        return angles, speeds, currents

    def temperature_degc(self, axis: int) -> float:
        self.catch_up()
        return self._temperature[axis]

    def supply_v(self) -> float:
        if not self._powered:
            return 0.0
        thermal = self.truth.thermal
        return thermal.supply_v - thermal.supply_ohm * sum(abs(current) for current in self.currents)

    def powered(self) -> bool:
        return self._powered

    # -- commands -----------------------------------------------------------------------------------------------------

    def command_currents(self, currents_a: Sequence[float | None]) -> None:
        """See the interface; without power nothing happens."""
        self.catch_up()
        now_ns = self.world.now_ns
        self._pace_ns, self._commanded_ns = now_ns - self._commanded_ns, now_ns
        if self._powered:
            self._drive(self._made(currents_a))

    def _made(self, wanted_a: Sequence[float | None]) -> list[float]:
        """The currents the motors carry when these are wanted of them."""
        return [
            0.0 if current is None else -most if current < -most else most if current > most else current
            for current, (most, _) in zip(wanted_a, self._motors, strict=True)
        ]

    def _torques(self, currents: list[float]) -> list[float]:
        return [per * current for (_, per), current in zip(self._motors, currents, strict=True)]

    def _drive(self, currents: list[float]) -> None:
        """From now on the motors carry these currents."""
        if currents == self.currents:
            return
        now_ns, foreseen = self.world.now_ns, self._foreseen
        self._warm(now_ns)
        self.currents = currents
        self._foreseen = None
        if foreseen is not None and foreseen[0] == now_ns and foreseen[1] == currents:
            torque = foreseen[2]
        else:
            torque = self._torques(currents)
            self._ahead.clear()
        self._schedule.append((now_ns - self._tick * self.tick_ns, torque))

    def foresee_currents(self, at_ns: int, currents_a: Sequence[float | None]) -> None:
        """Be told that these currents will be commanded at ``at_ns`` unless something comes in between.

        Nothing follows from it but what is worked ahead; see :meth:`_work_ahead`.
        """
        made = self._made(currents_a)
        if not self._powered or made == self.currents or self._foreseen is not None:
            return
        self._foreseen = at_ns, made, self._torques(made)
        self.catch_up()
        while self._ahead and self._tick + len(self._ahead) > at_ns // self.tick_ns:
            self._ahead.pop()

    def _forget_what_was_worked_ahead(self) -> None:
        self._ahead.clear()
        self._foreseen = None

    def on_power(self, action: Callable[[bool], None]) -> None:
        self._power_listeners.append(action)

    def on_fault(self, action: Callable[[int, int], None]) -> None:
        self._fault_listeners.append(action)

    # -- what happens to it -------------------------------------------------------------------------------------------

    def set_power(self, on: bool) -> None:
        """The enable line and the e-stop in series switch the servos' supply and the brakes'."""
        if on == self._powered:
            return
        self.catch_up()
        self._powered = on
        self._drive(list(self._nil))
        self._switch_brakes()
        for action in self._power_listeners:
            self.world.at(self.world.now_ns, partial(action, on))

    def release_brakes(self, on: bool) -> None:
        """The brake line, in series with the power, opens the brakes."""
        if on != self._released:
            self._released = on
            self._switch_brakes()

    def _switch_brakes(self) -> None:
        self.world.at(self.world.now_ns + round(self.truth.brake_time_s * 1e9), self._set_brakes)

    def _set_brakes(self) -> None:
        """The brakes follow their lines, late; what was switched meanwhile counts."""
        closed = not (self._powered and self._released)
        if closed == self._braked:
            return
        self.catch_up()
        self._forget_what_was_worked_ahead()
        self._braked = closed
        self.stepper.brake(closed)

    @property
    def braked(self) -> bool:
        """Whether the brakes hold now."""
        return self._braked

    def raise_fault(self, axis: int, bits: int) -> None:
        """A servo's motor side brings about a hardware error."""
        for action in self._fault_listeners:
            self.world.at(self.world.now_ns, partial(action, axis, bits))

    def stick_encoder(self, axis: int) -> None:
        """From now on the servo's encoder stays where it is."""
        self._stuck[axis] = self.states()[0][axis]

    def free_encoder(self) -> None:
        """No encoder is stuck any more."""
        self._stuck.clear()

    def change(self, truth: ArmTruth) -> None:
        """From now on, but for the rest of the tick, this is true; the geometry stays."""
        self.catch_up()
        self._forget_what_was_worked_ahead()
        self.truth = truth
        self._take_constants()
        self.stepper = self._stepper()
        self.stepper.brake(self._braked)
        self.state = self.stepper.renewed(self.state)
        self._schedule.append((self.world.now_ns - self._tick * self.tick_ns, self._torques(self.currents)))

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        """Number of recorded ticks."""
        self.catch_up()
        return len(self.history)

    def catch_up(self) -> None:
        """Record every tick up to the present."""
        last = self.world.now_ns // self.tick_ns
        while self._tick < last:
            if self._foreseen is not None and self._foreseen[0] < (self._tick + 1) * self.tick_ns:
                self._forget_what_was_worked_ahead()  # it did not come
            state = self._ahead.popleft() if self._ahead else self._next(self.state, self._schedule, self._torque)
            if self._schedule:
                self._torque = self._schedule[-1][1]
                self._schedule = []
            self.state = state
            self._tick += 1
            self._record(state)
            if self._tick % THERMAL_TICKS == 0:
                self._warm(self._tick * self.tick_ns)
                self._cool()

    def _record(self, state: ArmState) -> None:
        self.history.add(state)

    def _next(self, state: ArmState, schedule: list[tuple[int, list[float]]], before: list[float]) -> ArmState:
        """Step one tick that begins with the torques ``before``."""
        if not schedule and self._braked and self._asleep(state, before):
            return state
        for part in range(self.substeps):
            torque, lead = self._mean(schedule, before, part) if schedule else (before, self._nil)
            state = self.stepper.step(state, torque, lead)
        return state

    @staticmethod
    def _asleep(s: ArmState, torque: list[float]) -> bool:
        if any(torque) or (s.surface is not None and not s.surface.tissue.at_rest):
            return False
        return all(-_ASLEEP < w < _ASLEEP for w in s.w) and all(-_ASLEEP < v < _ASLEEP for v in s.v)

    def _mean(
        self, schedule: list[tuple[int, list[float]]], before: list[float], part: int
    ) -> tuple[list[float], list[float]]:
        """Mean torque of a substep, and what its unevenness adds to the way made in it."""
        length = self.tick_ns / self.substeps
        h2 = (length * 1e-9) ** 2
        if len(schedule) == 1:
            when, torque = schedule[0]
            early = min(max(when / length - part, 0.0), 1.0)
            late = 1.0 - early
            return (
                [early * old + late * new for old, new in zip(before, torque, strict=True)],
                [0.5 * h2 * early * late * (old - new) / inertia
                 for old, new, inertia in zip(before, torque, self._inertias, strict=True)],
            )  # fmt: skip
        now, at = before, 0.0
        mean, first = [0.0] * self.axes, [0.0] * self.axes  # and the integral of (1 - s) u
        for when, torque in [*schedule, (self.tick_ns, self._nil)]:
            to = min(max(when / length - part, 0.0), 1.0)
            if to > at:
                share = to - at
                weight = share * (1.0 - 0.5 * (at + to))
                mean = [m + share * u for m, u in zip(mean, now, strict=True)]
                first = [f + weight * u for f, u in zip(first, now, strict=True)]
                at = to
            now = torque
        lead = [h2 / inertia * (f - 0.5 * m) for inertia, f, m in zip(self._inertias, first, mean, strict=True)]
        return mean, lead

    def _work_ahead(self) -> None:
        """Step up to where the next currents are due, as far as they come evenly; dropped when others come before.

        Done while the client computes; it is what would have been computed later. Of currents that are on their way
        and foreseen it takes that they will come, and goes on to where those after them are due.
        """
        if not 0 < self._pace_ns <= LONGEST_PACE_NS:
            return
        self.catch_up()
        tick_ns, tick, ahead, foreseen = self.tick_ns, self._tick, self._ahead, self._foreseen
        coming_ns = self._commanded_ns + self._pace_ns if foreseen is None else foreseen[0]
        coming = coming_ns // tick_ns
        state, at = (ahead[-1] if ahead else self.state), tick + len(ahead)
        torque, schedule = self._torque, self._schedule
        if at > tick and schedule:
            torque, schedule = schedule[-1][1], []
        while at < coming:
            state = self._next(state, schedule, torque)
            ahead.append(state)
            at += 1
            if schedule:
                torque, schedule = schedule[-1][1], []
        if foreseen is None:
            return
        if at > coming:
            torque = foreseen[2]
        else:
            schedule = [*schedule, (coming_ns - coming * tick_ns, foreseen[2])]
        due = (coming_ns + self._pace_ns) // tick_ns
        while at < due:
            state = self._next(state, schedule, torque)
            ahead.append(state)
            at += 1
            torque, schedule = foreseen[2], []

    # -- heat ---------------------------------------------------------------------------------------------------------

    def _warm(self, now_ns: int) -> None:
        """Take the copper's heat up to now into account."""
        span = (now_ns - self._heated_ns) * 1e-9
        self._heated_ns = now_ns
        self._heat = [heat + span * current * current for heat, current in zip(self._heat, self.currents, strict=True)]

    def _cool(self) -> None:
        thermal = self.truth.thermal
        span = THERMAL_TICKS * self.tick_ns * 1e-9
        left = math.exp(-span / thermal.time_s)
        self._temperature = [
            left * temperature + (1.0 - left) * (thermal.ambient + thermal.kelvin_per_a2 * heat / span)
            for temperature, heat in zip(self._temperature, self._heat, strict=True)
        ]
        self._heat = list(self._nil)
