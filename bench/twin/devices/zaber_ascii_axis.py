"""The axis of a Zaber controller: reference, limits, flags, and what movement commands do to the stage it drives."""

from __future__ import annotations

from collections.abc import Callable

from bench.twin.devices.zaber_ascii_wire import Reject
from bench.twin.interfaces import StagePlant, Timer, World

SPEED_SCALE = 1.6384
"""Speed data per microstep/s; acceleration data are microstep/s² times this over 10 000."""
FASTEST_MM_S = 104.0
ESTOP_ACCELERATION_MM_S2 = 5000.0
FLAG_ORDER = ("FH", "FS", "WR", "WH", "NI")


class ZaberAxis:
    """Speeds and accelerations in the protocol's data, positions in microsteps (counts), as the settings hold them.

    Parameters
    ----------
    plant : StagePlant
        Its coordinate 0 is where the home sensor is.
    finished : callable
        Called when a movement has ended by itself, by a stop or by a fault.
    """

    def __init__(
        self, plant: StagePlant, step_mm: float, travel_mm: tuple[float, float], finished: Callable[[], None]
    ) -> None:
        self.plant = plant
        self.flags: set[str] = {"WR"}
        self.referenced = False
        self.limits = [round(edge / step_mm) for edge in travel_mm]
        self.maxspeed = 0
        self.accel = 0
        self.approach = 0
        self._step_mm = step_mm
        self._travel_mm = travel_mm
        self._zero_mm = plant.setpoint_mm()
        self._told_finished = finished
        self._homing = False
        self._disabled = False
        self._end: Timer | None = None

    def attach(self, world: World) -> None:
        """Called once before any command."""
        self._world = world
        self.plant.on_fault(self._on_fault)
        self._arm()

    # -- state --------------------------------------------------------------------------------------------------------

    @property
    def moving(self) -> bool:
        return self._homing or self.plant.is_moving()

    def active_flags(self) -> list[str]:
        """Return the flags in force, the gravest first."""
        if self.plant.fault() == "unpowered":
            self._disabled = True
        return [flag for flag in FLAG_ORDER if flag in self.flags or (flag == "FH" and self._disabled)]

    def trajectory(self) -> int:
        """Return where the trajectory is."""
        return self._counts(self.plant.setpoint_mm())

    def measured(self) -> int:
        """Return where the encoder says the stage is."""
        return self._counts(self.plant.position_mm())

    def speed_data(self, speed_mm_s: float) -> int:
        return round(speed_mm_s / self._step_mm * SPEED_SCALE)

    def acceleration_data(self, acceleration_mm_s2: float) -> int:
        return max(1, round(acceleration_mm_s2 / self._step_mm * SPEED_SCALE / 1e4))

    def _counts(self, position_mm: float) -> int:
        return round((position_mm - self._zero_mm) / self._step_mm)

    def _speed_mm_s(self, data: int) -> float:
        return data / SPEED_SCALE * self._step_mm

    def _acceleration_mm_s2(self, data: int) -> float:
        return data * 1e4 / SPEED_SCALE * self._step_mm

    def scale_screw(self, factor: float) -> None:
        """A microstep goes ``factor`` times as far: the stage has another screw than it should."""
        self._step_mm *= factor

    # -- movements ----------------------------------------------------------------------------------------------------

    def home(self) -> None:
        """Travel to the sensor; the count is zero there."""
        self._begin()
        self._homing = True
        self.plant.set_hard_limits(*self._travel_mm)
        end_ns = self.plant.move_to(0.0, self._speed_mm_s(self.approach), self._acceleration_mm_s2(self.accel))
        self._until(end_ns, self._at_home)

    def move(self, kind: str, numbers: list[int]) -> None:
        """``abs|rel TARGET [SPEED [ACCEL]]``, ``min|max [SPEED [ACCEL]]`` or ``vel SPEED [ACCEL]``."""
        needed = 0 if kind in ("min", "max") else 1
        if not needed <= len(numbers) <= needed + (1 if kind == "vel" else 2):
            raise Reject("BADDATA")
        if not self.referenced and kind in ("abs", "min", "max"):
            raise Reject("BADDATA")
        speed, accel = self.maxspeed, self.accel
        if kind == "vel":
            speed, accel = abs(numbers[0]), [accel, *numbers[1:]][-1]
        elif given := numbers[needed:]:
            speed, accel = given[0], [accel, *given[1:]][-1]
        if not ((0 if kind == "vel" else 1) <= speed <= self.speed_data(FASTEST_MM_S) and accel > 0):
            raise Reject("BADDATA")
        if kind == "vel":
            self._run(numbers[0], self._acceleration_mm_s2(accel))
            return
        target = self.limits[kind == "max"] if needed == 0 else numbers[0] + (self.trajectory() if kind == "rel" else 0)
        if self.referenced and not self.limits[0] <= target <= self.limits[1]:
            raise Reject("BADDATA")
        self._begin()
        self._go(target, self._speed_mm_s(speed), self._acceleration_mm_s2(accel))

    def stop(self, *, at_once: bool) -> None:
        """Slow down to a stand by ``accel``, or as fast as the stage can."""
        rate = ESTOP_ACCELERATION_MM_S2 if at_once else self._acceleration_mm_s2(self.accel)
        if self.moving:
            self._take_over()
            self._until(self.plant.stop(rate), self._finished)

    def _run(self, data: int, acceleration_mm_s2: float) -> None:
        self._begin()
        if data == 0:
            self._until(self.plant.stop(acceleration_mm_s2), self._finished)
        elif self.referenced:
            self._go(self.limits[data > 0], self._speed_mm_s(abs(data)), acceleration_mm_s2)
        else:
            self.plant.move_velocity(self._speed_mm_s(data), acceleration_mm_s2)

    def _go(self, counts: int, speed_mm_s: float, acceleration_mm_s2: float) -> None:
        target_mm = self._zero_mm + counts * self._step_mm
        self._until(self.plant.move_to(target_mm, speed_mm_s, acceleration_mm_s2), self._finished)

    def _begin(self) -> None:
        if "FH" in self.active_flags():
            raise Reject("DRIVERDISABLED")
        self._take_over()

    def _take_over(self) -> None:
        (self.flags.add if self.moving else self.flags.discard)("NI")
        self._forget_end()

    def _until(self, end_ns: int, action: Callable[[], None]) -> None:
        self._end = self._world.at(end_ns, action)

    def _forget_end(self) -> None:
        if self._homing:
            self._homing = False
            self._arm()
        if self._end is not None:
            self._end.cancel()
            self._end = None

    def _at_home(self) -> None:
        self.plant.set_zero_here()
        self._zero_mm = 0.0
        self._homing = False
        self.referenced = True
        self.flags -= {"WR", "WH"}
        self._arm()
        self._finished()

    def _finished(self) -> None:
        self._end = None
        self._told_finished()

    def _on_fault(self, code: str) -> None:
        under_way = self._end is not None
        self._forget_end()
        if code == "stalled":
            self.flags.add("FS")
        else:
            self._disabled = True
        if under_way:
            self._finished()

    def _arm(self) -> None:
        """Hand the armed limits to what drives the motor; before homing only the mechanical ends are known."""
        armed = [self._zero_mm + edge * self._step_mm for edge in self.limits]
        low, high = armed if self.referenced else self._travel_mm
        self.plant.set_hard_limits(low, high)

    # -- settings and faults ------------------------------------------------------------------------------------------

    def set_count(self, counts: int) -> None:
        """Call the present position ``counts``: a reference, but not a homing."""
        self._still()
        self._zero_mm = self.plant.setpoint_mm() - counts * self._step_mm
        self.flags = (self.flags - {"WR"}) | {"WH"}
        self.referenced = True
        self._arm()

    def set_limit(self, which: int, counts: int) -> None:
        """Arm ``limit.min`` (0) or ``limit.max`` (1)."""
        self._still()
        limits = list(self.limits)
        limits[which] = counts
        if limits[0] >= limits[1]:
            raise Reject("BADDATA")
        self.limits = limits
        self._arm()

    def clear_flags(self) -> None:
        self.flags -= {"FS", "NI"}

    def enable_driver(self) -> None:
        if self.plant.fault() == "unpowered":
            raise Reject("DRIVERDISABLED")
        self._disabled = False

    def reset(self) -> None:
        """What power-up does to the axis."""
        if self.moving:
            self.plant.stop(ESTOP_ACCELERATION_MM_S2)
        self._forget_end()
        self.referenced = False
        self.flags = {"WR"}
        self._zero_mm = self.plant.setpoint_mm()
        self._arm()

    def _still(self) -> None:
        if self.moving:
            raise Reject("STATUSBUSY")
