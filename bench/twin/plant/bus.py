"""The DAQ's terminals: which of the rig's signals each carries, read from the plant's history by tick."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np
from numpy.typing import NDArray

from bench.errors import TwinError
from bench.twin.interfaces import World
from bench.twin.noise import ChannelNoise
from bench.twin.plant.sensors import ForceSensorPlant
from bench.twin.plant.truth import Terminals

Floats = NDArray[np.float64]

_TERMINAL = re.compile(r"(ai|ao|ctr)[0-9]+$|port[0-9]+/line[0-9]+$")


class RigBus:
    """Implements :class:`bench.twin.interfaces.SignalBus`; the world's lock held. A rig adds its signals.

    Terminals may be named with or without the device (``Dev1/ai0`` or ``ai0``). The emergency stop and the enable line
    switch the drive's power in series, in hardware: no software is asked.

    Parameters
    ----------
    wiring : Terminals
        Of the rig.
    sensed : iterable of str
        Terminals of the sensor's channels, in their order; ``sensed_kind`` is ``analog`` or ``bridge``.
    set_power : callable
        Takes whether the drive has power.
    """

    def __init__(
        self,
        world: World,
        wiring: Terminals,
        sensor: ForceSensorPlant,
        sensed: Iterable[str],
        sensed_kind: str,
        seed: int,
        set_power: Callable[[bool], None],
    ) -> None:
        self._terminals: dict[str, str] = {}
        self._world = world
        self._wiring = wiring
        self._set_power = set_power
        self.sensor = sensor
        self._sensed = {self.terminal(name): index for index, name in enumerate(sensed)}
        self._sensed_kind = sensed_kind
        self._counter = None if wiring.counter is None else self.terminal(wiring.counter)
        self._estop = self.terminal(wiring.estop_line)
        self._enable = self.terminal(wiring.enable_line)
        self._idle = {f"ai{i}": ChannelNoise(seed, f"idle/ai{i}") for i in range(wiring.analog_inputs)}
        self._levels = {f"port0/line{i}": False for i in range(wiring.digital_lines)}
        self._levels[self._estop] = wiring.estop_healthy
        self._levels[self._enable] = False
        self._enable_written = self._enable_stuck = False
        self._volts = {f"ao{i}": 0.0 for i in range(wiring.analog_outputs)}
        self._stuck_from: int | None = None
        self._swapped_from: int | None = None
        self._lost: list[tuple[int, float]] = []
        self._channels = self._list_channels()

    def loads(self) -> Floats:
        """What the sensor feels at every tick up to now, shape (n,), or (n, 6) where it feels a wrench."""
        raise TwinError(f"{type(self).__name__} has no sensor", where="twin DAQ terminals")

    def quarters(self, first: int, count: int, stride: int) -> Floats:
        """The undisturbed encoder at these ticks, in quarter pulses from power-up, shape (count,)."""
        raise TwinError(f"{type(self).__name__} has no encoder", where="twin DAQ terminals")

    def terminal(self, name: str) -> str:
        """Strip the device or module: ``Dev1/port0/line0`` → ``port0/line0``."""
        known = self._terminals.get(name)
        if known is None:
            match = _TERMINAL.search(name.lower())
            known = self._terminals[name] = match.group(0) if match else name
        return known

    def _list_channels(self) -> dict[str, str]:
        kinds = dict.fromkeys(self._idle, "analog")
        kinds.update(dict.fromkeys(self._sensed, self._sensed_kind))
        kinds.update({f"ctr{i}": "encoder" for i in range(self._wiring.counters)})
        if self._counter is not None:
            kinds[self._counter] = "encoder"
        kinds.update(dict.fromkeys(self._levels, "digital"))
        kinds[self._estop] = "digital_in"
        kinds[self._enable] = "digital_out"
        kinds.update(dict.fromkeys(self._volts, "analog_out"))
        return kinds

    def channels(self) -> dict[str, str]:
        """Terminal → ``analog|bridge|encoder|digital|digital_in|digital_out|analog_out``."""
        return dict(self._channels)

    def analog(self, channel: str, first_tick: int, count: int, stride: int) -> Floats:
        """See the interface; shape (count,), V or mV/V."""
        name = self._known(channel)
        if name in self._sensed:
            load = self._history(self.loads, first_tick, count, stride)
            return self.sensor.signal(self._sensed[name], load, first_tick, stride)
        if name in self._idle:
            return self._wiring.idle_noise_v * self._idle[name].normal(first_tick, count, stride)
        raise TwinError(f"{channel!r} is no analog input", where="twin DAQ terminals", remedy="see channels()")

    def encoder(self, counter: str, first_tick: int, count: int, stride: int) -> Floats:
        """See the interface; shape (count,), quarter pulses from where the stage stood at power-up."""
        name = self._known(counter)
        if name != self._counter:
            if name.startswith("ctr"):
                return np.zeros(count)
            raise TwinError(f"{counter!r} is no counter", where="twin DAQ terminals", remedy="see channels()")
        ticks = first_tick + stride * np.arange(count)
        quarters = self.quarters(first_tick, count, stride)
        for tick, lost in self._lost:
            quarters[ticks >= tick] -= 4.0 * lost
        if self._swapped_from is not None:  # the counter turns round where it is
            pivot = self._encoder_at(self._swapped_from)
            late = ticks >= self._swapped_from
            quarters[late] = 2.0 * pivot - quarters[late]
        if self._stuck_from is not None:
            quarters[ticks >= self._stuck_from] = self._encoder_at(self._stuck_from)
        return quarters

    def _encoder_at(self, tick: int) -> float:
        """The count at one tick, but for lost pulses undisturbed, in quarter pulses."""
        return float(self.quarters(tick, 1, 1)[0]) - sum(4.0 * lost for at, lost in self._lost if at <= tick)

    def digital(self, line: str) -> bool:
        """See the interface."""
        return self._levels[self._line(line)]

    def set_digital(self, line: str, level: bool) -> None:
        """See the interface. The e-stop line is driven by its switch and cannot be written."""
        name = self._line(line)
        if name == self._estop:
            raise TwinError(f"{line!r} is the emergency stop's input", where="twin DAQ terminals", remedy="read it")
        if name != self._enable:
            self._levels[name] = level
            return
        self._enable_written = level
        if self._enable_stuck:
            self._world_note(f"enable {'on' if level else 'off'} written, but the line is stuck")
            return
        before, self._levels[name] = self._levels[name], level
        if level is not before:
            self._world_note(f"enable {'on' if level else 'off'}")
        self._switch_power()

    def driven(self, line: str) -> bool:
        """See the interface."""
        name = self._line(line)
        return self._enable_written if name == self._enable else self._levels[name]

    def let_go(self, line: str) -> None:
        """Stop driving a line: the device's resistors pull it low. What a read does that is not told to leave it."""
        name = self._line(line)
        if self._channels[name] != "digital_in" and self._levels[name]:
            self.set_digital(name, False)

    def stick_enable(self, stuck: bool) -> None:
        """The enable line stays at its level whatever is written; freed, it follows what was written last."""
        self._enable_stuck = stuck
        self.set_digital(self._enable, self._enable_written)

    def set_analog(self, channel: str, volts: float) -> None:
        """See the interface. Nothing on this rig is wired to an analog output."""
        name = self._known(channel)
        if name not in self._volts:
            raise TwinError(f"{channel!r} is no analog output", where="twin DAQ terminals", remedy="see channels()")
        self._volts[name] = volts

    def press_estop(self, pressed: bool) -> None:
        """Somebody presses or releases the emergency stop."""
        healthy = self._wiring.estop_healthy
        self._levels[self._estop] = healthy is not pressed
        self._world_note(f"estop {'pressed' if pressed else 'released'}")
        self._switch_power()

    def stick_encoder(self, tick: int) -> None:
        self._stuck_from = tick

    def swap_encoder(self, tick: int) -> None:
        self._swapped_from = tick

    def lose_counts(self, tick: int, pulses: float) -> None:
        self._lost.append((tick, pulses))

    def _switch_power(self) -> None:
        self._set_power(self._levels[self._enable] and self.estop_healthy)

    @property
    def estop_healthy(self) -> bool:
        """Whether the emergency stop's line is as it is when nobody presses it."""
        return self._levels[self._estop] == self._wiring.estop_healthy

    @property
    def enabled(self) -> bool:
        """Whether the enable line is high."""
        return self._levels[self._enable]

    def _history(self, source: Callable[[], Floats], first: int, count: int, stride: int) -> Floats:
        values = source()
        last = first + stride * (count - 1)
        if count > 0 and (first < 0 or stride < 1 or last >= len(values)):
            raise TwinError(
                f"ticks {first} … {last} are not all in the past: {len(values)} ticks are known",
                where="twin DAQ terminals",
                remedy="park until the last of them has come",
            )
        return values[first : last + 1 : stride]

    def _known(self, name: str) -> str:
        terminal = self.terminal(name)
        if terminal not in self._channels:
            raise TwinError(f"there is no terminal {name!r}", where="twin DAQ terminals", remedy="see channels()")
        return terminal

    def _line(self, name: str) -> str:
        terminal = self.terminal(name)
        if terminal not in self._levels:
            raise TwinError(f"there is no digital line {name!r}", where="twin DAQ terminals", remedy="see channels()")
        return terminal

    def _world_note(self, text: str) -> None:
        note = getattr(self._world, "note", None)
        if note is not None:
            note(text)
