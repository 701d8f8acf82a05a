"""The joint: a motor drives a load through an elastic gear, on ticks, as far as somebody looks.

Lazy like the indenter: it catches up to the present when it is observed or commanded. A command splits the tick it
falls into; an observation never does (what lies between two ticks is extrapolated for it), so looking changes nothing.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from bench.twin.interfaces import World
from bench.twin.plant.joint_step import (
    Command,
    Parameters,
    State,
    advance,
    mid_line,
    natural_frequency,
    parameters,
    prepare,
)
from bench.twin.plant.joint_truth import JointTruth

Floats = NDArray[np.float64]

#: Phase [rad] of the fastest mode a substep may cover; below it the torque is right to 1e-3 (``docs/twin.md``).
PHASE_PER_STEP = 0.5
#: Commands further apart than this are no control loop's [ns].
LONGEST_PACE_NS = 5_000_000
_FIGURES = 5
_SPAN = 20_000  # ticks computed at once
_KEPT_SPANS = 64
_TURN = 2.0 * math.pi


class Joint:
    """Implements :class:`bench.twin.interfaces.JointDrivePlant`; every method with the world's lock held.

    Without power the motor makes no torque and a spring-applied brake holds the rotor, after its delay. The rotor's
    position counts from where the joint's angle is zero; what a drive forgets without power is the drive's affair.
    """

    def __init__(self, world: World, truth: JointTruth) -> None:
        self.world = world
        self.truth = truth
        self.tick_ns = world.tick_ns
        self.substeps = max(1, math.ceil(natural_frequency(truth) * self.tick_ns * 1e-9 / PHASE_PER_STEP))
        self.state = _at_rest(truth)
        self._command = Command()
        self._powered = False
        self._braked = True
        self._heater = 0.0
        self._parameters = parameters(truth, truth.drive.brake_torque)
        self._prepared: dict[int, Parameters] = {}
        self._power_listeners: list[Callable[[bool], None]] = []
        self._fault_listeners: list[Callable[[int], None]] = []
        self._at_ns = 0
        self._commanded_ns = 0  # when the last command came, and how long after the one before
        self._pace_ns = 0
        self._ahead: deque[tuple[int, State, list[float]]] = deque()
        world.on_idle.append(self._work_ahead)
        self._fresh: list[float] = [
            self.state.theta, self.state.q, self.state.gear_torque, 0.0, self.state.housing
        ]  # fmt: skip
        self._next_tick = 1
        self._stored = 0
        self._table = np.empty((_FIGURES, 4096))

    # -- what the drive sees ------------------------------------------------------------------------------------------

    def position_rev(self) -> float:
        self.catch_up()
        ahead, state = (self.world.now_ns - self._at_ns) * 1e-9, self.state
        theta = state.theta + ahead * (state.omega + 0.5 * ahead * state.alpha)
        counts = self.truth.drive.encoder_counts
        return round(theta * self._revolutions * counts) / counts

    def velocity_rev_s(self) -> float:
        self.catch_up()
        return self.state.estimate * self._revolutions

    def torque_nm(self) -> float:
        self.catch_up()
        return self.truth.drive.direction * self.state.torque / self.truth.gear.ratio

    def temperature_degc(self) -> float:
        self.catch_up()
        return self.state.housing

    def motor_temperature_degc(self) -> float:
        self.catch_up()
        return self.state.housing + self.state.rise

    def voltage_v(self) -> float:
        if not self._powered:
            return 0.0
        self.catch_up()
        drive, state = self.truth.drive, self.state
        rotor_torque = state.torque / self.truth.gear.ratio
        watts = abs(state.torque * state.omega) + (rotor_torque / self.truth.thermal.motor_constant) ** 2
        return drive.supply_v - drive.supply_ohm * watts / drive.supply_v

    def powered(self) -> bool:
        return self._powered

    @property
    def _revolutions(self) -> float:
        """Rotor revolutions, in the drive's direction, per radian of theta."""
        return self.truth.drive.direction * self.truth.gear.ratio / _TURN

    # -- commands -----------------------------------------------------------------------------------------------------

    def command(
        self,
        feedforward_nm: float,
        kp_nm_per_rev: float,
        kd_nm_per_rev_s: float,
        position_rev: float,
        velocity_rev_s: float,
        maximum_torque_nm: float,
    ) -> None:
        """See the interface; without power nothing happens."""
        self._split()
        now_ns = self.world.now_ns
        self._pace_ns, self._commanded_ns = now_ns - self._commanded_ns, now_ns
        if not self._powered:
            return
        drive, ratio, per_rad = self.truth.drive, self.truth.gear.ratio, self._revolutions
        gain = drive.direction * ratio * per_rad  # positive: both carry the drive's direction
        command = self._command
        command.feedforward = drive.direction * ratio * feedforward_nm
        command.kp, command.kd = gain * kp_nm_per_rev, gain * kd_nm_per_rev_s
        command.position, command.velocity = position_rev / per_rad, velocity_rev_s / per_rad
        command.maximum = ratio * min(maximum_torque_nm, drive.max_rotor_torque)

    def release(self) -> None:
        self._split()
        self._command = Command()

    def on_power(self, action: Callable[[bool], None]) -> None:
        self._power_listeners.append(action)

    def on_fault(self, action: Callable[[int], None]) -> None:
        self._fault_listeners.append(action)

    # -- what happens to it -------------------------------------------------------------------------------------------

    def set_power(self, on: bool) -> None:
        """The enable line and the e-stop in series switch the drive's supply and the brake's."""
        if on == self._powered:
            return
        self._split()
        self._powered = on
        self._command = Command()
        self.world.at(self.world.now_ns + round(self.truth.drive.brake_time_s * 1e9), self._set_brake)
        for action in self._power_listeners:
            self.world.at(self.world.now_ns, partial(action, on))

    def _set_brake(self) -> None:
        """The brake follows the power, late; what was switched meanwhile counts."""
        if self._braked is not self._powered:
            return
        self._split()
        self._braked = not self._powered
        self._renew()

    @property
    def braked(self) -> bool:
        """Whether the brake holds now."""
        return self._braked

    def raise_fault(self, code: int) -> None:
        """The motor side brings about a drive fault."""
        for action in self._fault_listeners:
            self.world.at(self.world.now_ns, partial(action, code))

    def scale_friction(self, factor: float) -> None:
        """Coulomb, Stribeck and viscous friction are ``factor`` times what they were."""
        f = self.truth.friction
        changed = replace(
            f, coulomb=factor * f.coulomb, stribeck_excess=factor * f.stribeck_excess, viscous=factor * f.viscous
        )
        self._change(replace(self.truth, friction=changed))

    def set_backlash(self, gap: float) -> None:
        """The gear has this much play [rad, whole gap]."""
        self._change(replace(self.truth, gear=replace(self.truth.gear, backlash=gap)))

    def scale_ratio(self, factor: float) -> None:
        """The rotor turns ``factor`` times as often; what is referred to the joint stays."""
        self._change(replace(self.truth, gear=replace(self.truth.gear, ratio=factor * self.truth.gear.ratio)))

    def heat(self, rate: float) -> None:
        """The joint warms up by ``rate`` [K/s] more than it should."""
        self._split()
        self._heater = rate
        self._renew()

    def _change(self, truth: JointTruth) -> None:
        self._split()
        self.truth = truth
        self._renew()

    def _renew(self) -> None:
        brake = self.truth.drive.brake_torque if self._braked else 0.0
        self._parameters = parameters(self.truth, brake, self._heater)
        self._prepared.clear()

    def _steps(self, span_ns: int) -> Parameters:
        """The integrator's constants for a tick, or the part of one, of ``span_ns``; a loop's come again and again."""
        prepared = self._prepared.get(span_ns)
        if prepared is None:
            if len(self._prepared) >= _KEPT_SPANS:
                self._prepared.clear()
            steps = -(-span_ns * self.substeps // self.tick_ns)
            prepared = self._prepared[span_ns] = prepare(self._parameters, span_ns * 1e-9 / steps, steps)
        return prepared

    # -- time ---------------------------------------------------------------------------------------------------------

    @property
    def ticks(self) -> int:
        """Number of recorded ticks."""
        return self._next_tick

    def motor_angle(self) -> Floats:
        """True rotor angle / ratio [rad] at every tick up to now, shape (n,)."""
        return self._column(0)

    def joint_angle(self) -> Floats:
        """True angle of the link [rad] at every tick up to now, shape (n,)."""
        return self._column(1)

    def joint_torque(self) -> Floats:
        """True torque on the link [N.m] at every tick up to now, shape (n,)."""
        return self._column(2)

    def motor_torque(self) -> Floats:
        """The drive's torque as it believes [N.m, at the joint] at every tick up to now, shape (n,)."""
        return self._column(3)

    def temperature(self) -> Floats:
        """Temperature of the housing [degC] at every tick up to now, shape (n,)."""
        return self._column(4)

    def _column(self, index: int) -> Floats:
        self.catch_up()
        self._store()
        column: Floats = self._table[index, : self._stored]
        return column

    def _store(self) -> None:
        if not self._fresh:
            return
        new = np.array(self._fresh).reshape(-1, _FIGURES).T
        self._fresh.clear()
        end = self._stored + new.shape[1]
        if end > self._table.shape[1]:
            grown = np.empty((_FIGURES, max(end, 2 * self._table.shape[1])))
            grown[:, : self._stored] = self._table[:, : self._stored]
            self._table = grown
        self._table[:, self._stored : end] = new
        self._stored = end

    def catch_up(self) -> None:
        """Record every tick up to the present."""
        last = self.world.now_ns // self.tick_ns
        if last < self._next_tick:
            return
        due_ns = self._next_tick * self.tick_ns
        if due_ns - self._at_ns != self.tick_ns:
            self._run_to(due_ns, self._fresh)  # a command came since the last tick
            self._next_tick += 1
        while self._ahead and self._next_tick <= last:
            self._run_to(self._next_tick * self.tick_ns, self._fresh)
            self._next_tick += 1
        while self._next_tick <= last:
            count = min(last - self._next_tick + 1, _SPAN)
            advance(self.state, self._steps(self.tick_ns), self._command, count, self._fresh)
            self._next_tick += count
            if count > 100:
                self._store()
        self._at_ns = last * self.tick_ns

    def _split(self) -> None:
        """Catch up and bring the joint to this very moment, between two ticks."""
        self.catch_up()
        if self.world.now_ns > self._at_ns:
            self._run_to(self.world.now_ns, [])
        self._ahead.clear()  # what comes now changes what comes next

    def _run_to(self, time_ns: int, out: list[float]) -> None:
        if self._ahead and self._ahead[0][0] == time_ns:
            self._at_ns, self.state, figures = self._ahead.popleft()
            out += figures
            return
        self._ahead.clear()
        advance(self.state, self._steps(time_ns - self._at_ns), self._command, 1, out)
        self._at_ns = time_ns

    def _work_ahead(self) -> None:
        """Integrate up to where the next torque command is due, as far as commands come evenly.

        Done while the client computes, from the present state under the present command; it is dropped when anything
        comes in between, and is what would have been computed later when nothing does.
        """
        due_ns, command = self._commanded_ns + self._pace_ns, self._command
        if self._ahead or not 0 < self._pace_ns <= LONGEST_PACE_NS or command.kp or command.kd or command.velocity:
            return
        at_ns, state, own = self._at_ns, self.state, replace(command)
        while at_ns < due_ns:
            to_ns = min((at_ns // self.tick_ns + 1) * self.tick_ns, due_ns)
            figures: list[float] = []
            state = replace(state)
            advance(state, self._steps(to_ns - at_ns), own, 1, figures)
            self._ahead.append((to_ns, state, figures))
            at_ns = to_ns


def _at_rest(truth: JointTruth) -> State:
    """The joint at its start angle, gravity carried by the brake through the gear."""
    load = truth.load
    torque = 0.0 if load.locked else load.gravity_moment * math.sin(load.start_angle - load.gravity_phase)
    low, high = -1.0, 1.0
    while torque != 0.0 and high - low > 1e-12:
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mid_line(truth, middle) < torque else (low, middle)
    twist = 0.5 * (low + high) if torque != 0.0 else 0.0
    bristle = -torque / truth.friction.bristle_stiffness if truth.drive.brake_torque > 0.0 else 0.0
    return State(
        theta=load.start_angle + twist, q=load.start_angle, bristle=bristle, gear_torque=torque,
        housing=truth.thermal.ambient,
    )  # fmt: skip
