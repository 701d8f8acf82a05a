"""Faults by name, brought about now or at a time; an unknown one, or one this rig cannot have, is refused loudly."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from bench.errors import TwinError
from bench.twin.plant.build import fault_parameters
from bench.twin.plant.bus import RigBus
from bench.twin.wire import Wire
from bench.twin.world import SimWorld

Parameters = dict[str, float | str]

LATE_REPLY_S = 0.8
LOST_PULSES = 100
DROPPED_SAMPLES = 100


class FaultyDaq(Protocol):
    """What the DAQ device does about its own faults."""

    def fault(self, name: str, **parameters: float) -> None: ...

    def plug_in(self) -> None: ...


class Faults:
    """What can befall any rig's sensors and lines; a rig adds its own. Methods with the world's lock held.

    Parameters
    ----------
    rig_kind, device : str
        Kind of the rig, and name of its DAQ device.
    wires : dict
        Serial devices by name; the first is meant where a fault names none.
    drift_per_s : float
        Of the sensor's zero, in its unit, where ``drifting_cell`` states none.
    """

    def __init__(
        self,
        rig_kind: str,
        device: str,
        world: SimWorld,
        bus: RigBus,
        wires: dict[str, Wire],
        daq: FaultyDaq | None,
        drift_per_s: float,
    ) -> None:
        self._rig_kind = rig_kind
        self._device = device
        self._world = world
        self._bus = bus
        self._wires = wires
        self._daq = daq
        self.injected: list[tuple[float, str]] = []
        self._actions: dict[str, Callable[[Parameters], None]] = {
            "estop_pressed": lambda p: self._bus.press_estop(True),
            "enable_stuck": lambda p: self._bus.stick_enable(True),
            "drifting_cell": lambda p: self._bus.sensor.drift_faster(self._tick, float(p.get("rate", drift_per_s))),
            "saturated_cell": lambda p: self._bus.sensor.saturate(self._tick),
            "stuck_encoder": lambda p: self._bus.stick_encoder(self._tick),
            "lost_counts": lambda p: self._bus.lose_counts(self._tick, float(p.get("pulses", LOST_PULSES))),
            "encoder_direction_swapped": lambda p: self._bus.swap_encoder(self._tick),
            "device_unplugged": self._unplug,
            "late_reply": lambda p: self._wire(p).delay_replies(
                int(p.get("count", 1)), round(float(p.get("delay", LATE_REPLY_S)) * 1e9)
            ),
            "corrupt_checksum": lambda p: self._wire(p).corrupt_replies(int(p.get("count", 1))),
            "dropped_samples": self._drop_samples,
            "buffer_overwrite": lambda p: self._the_daq().fault("buffer_overwrite"),
            "broken_wire": lambda p: self._bus.sensor.break_wire(self._tick, int(p.get("gauge", 0))),
            "gauge_inverted": lambda p: self._bus.sensor.invert_channel(self._tick, int(p.get("gauge", 0))),
            "gauges_swapped": lambda p: self._bus.sensor.swap_channels(
                self._tick, int(p.get("gauge", 0)), int(p.get("other", 1))
            ),
            "wrong_calibration_file": lambda p: self._bus.sensor.replace(
                self._tick, float(p["factor"]) if "factor" in p else None
            ),
        }
        self._ends: dict[str, Callable[[], None]] = {
            "estop_pressed": lambda: self._bus.press_estop(False),
            "enable_stuck": lambda: self._bus.stick_enable(False),
            "device_unplugged": self._plug_in,
        }

    @property
    def _tick(self) -> int:
        """The first tick not yet in the past."""
        return -(-self._world.now_ns // self._world.tick_ns)

    def inject(self, name: str, parameters: Parameters) -> None:
        """Bring a fault about now; ``parameters`` as in the twin profile, or already plain.

        Raises
        ------
        TwinError
            The fault or a parameter is unknown, or the rig has nothing it could befall.
        """
        plain = fault_parameters(name, parameters, self._rig_kind)
        self._actions[name](plain)
        self.injected.append((self._world.now_ns * 1e-9, name))
        self._world.note(f"fault {name} {plain or ''}".rstrip())

    def schedule(self, name: str, time_s: float, parameters: Parameters) -> None:
        """Bring a fault about at a world time; what is wrong with its name or parameters is told at once."""
        plain = fault_parameters(name, parameters, self._rig_kind)
        if name in ("late_reply", "corrupt_checksum"):
            self._wire(plain)
        self._world.at(round(time_s * 1e9), lambda: self.inject(name, plain))

    def clear(self, name: str) -> None:
        """End a fault that can end, as the e-stop can be released; another is refused with those that can."""
        end = self._ends.get(name)
        if end is None:
            raise TwinError(
                f"the fault {name!r} cannot be ended", where="twin", remedy=f"only {', '.join(self._ends)} can"
            )
        end()
        self._world.note(f"fault {name} ended")

    def _plug_in(self) -> None:
        for wire in self._wires.values():
            wire.unplug(False)
        if self._daq is not None:
            self._daq.plug_in()

    def _wire(self, parameters: Parameters) -> Wire:
        name = str(parameters.get("device", next(iter(self._wires), "")))
        if name not in self._wires:
            raise TwinError(
                f"there is no serial device {name!r}", where="twin fault", remedy=f"there are {', '.join(self._wires)}"
            )
        return self._wires[name]

    def _unplug(self, parameters: Parameters) -> None:
        if str(parameters.get("device", "")).lower() in ("daq", self._device.lower()):
            self._the_daq().fault("daq_unplugged")
        else:
            self._wire(parameters).unplug()

    def _drop_samples(self, parameters: Parameters) -> None:
        self._the_daq().fault("dropped_samples", count=float(parameters.get("count", DROPPED_SAMPLES)))

    def _the_daq(self) -> FaultyDaq:
        if self._daq is None:
            raise TwinError("this twin has no DAQ device", where="twin fault")
        return self._daq
