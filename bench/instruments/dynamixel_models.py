"""What the bench must know of a Dynamixel servo: units, pulses and addresses, by model.

Sources: ROBOTIS e-Manual, the control tables of the models named here. Addresses and sizes are held against the
control tables that come with ROBOTIS' own `dynamixel-sdk` (``tests/contract/dynamixel/test_dynamixel_tables.py``).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from bench.errors import InstrumentError

WATCHDOG_STEP_S = 0.02
LONGEST_WATCHDOG_STEPS = 127
WATCHDOG_TRIPPED = 0xFF
RETURN_DELAY_STEP_S = 2e-6
LONGEST_RETURN_DELAY_STEPS = 254
CURRENT_CONTROL = 0
ANSWERS_ALL = 2
NO_SECOND_ID = 253
"""From here on up the register Secondary ID means that the servo has none."""


@dataclass(frozen=True)
class Register:
    """A place in a servo's control table: first address and number of bytes."""

    address: int
    size: int


@dataclass(frozen=True)
class ControlTable:
    """Where a family of servos keeps what the bench reads and writes.

    Present current (2 bytes), velocity (4) and position (4) lie side by side from ``present_current`` on, and before
    them, back to ``realtime_tick``, whole registers without a gap; so do ``position_trajectory`` (4), ``input_voltage``
    (2) and ``temperature`` (1).
    """

    torque_enable: Register
    status_return_level: Register
    hardware_error: Register
    bus_watchdog: Register
    goal_current: Register
    realtime_tick: Register
    moving: Register
    present_pwm: Register
    present_current: Register
    present_velocity: Register
    present_position: Register
    position_trajectory: Register
    input_voltage: Register
    temperature: Register
    model_number: Register = Register(0, 2)
    model_information: Register = Register(2, 4)
    firmware: Register = Register(6, 1)
    servo_id: Register = Register(7, 1)
    baud_rate: Register = Register(8, 1)
    return_delay: Register = Register(9, 1)
    drive_mode: Register = Register(10, 1)
    operating_mode: Register = Register(11, 1)
    secondary_id: Register = Register(12, 1)
    protocol_type: Register = Register(13, 1)
    homing_offset: Register = Register(20, 4)
    current_limit: Register = Register(38, 2)


P_SERIES = ControlTable(
    torque_enable=Register(512, 1),
    status_return_level=Register(516, 1),
    hardware_error=Register(518, 1),
    bus_watchdog=Register(546, 1),
    goal_current=Register(550, 2),
    realtime_tick=Register(568, 2),
    moving=Register(570, 1),
    present_pwm=Register(572, 2),
    present_current=Register(574, 2),
    present_velocity=Register(576, 4),
    present_position=Register(580, 4),
    position_trajectory=Register(588, 4),
    input_voltage=Register(592, 2),
    temperature=Register(594, 1),
)
X_SERIES = ControlTable(
    torque_enable=Register(64, 1),
    status_return_level=Register(68, 1),
    hardware_error=Register(70, 1),
    bus_watchdog=Register(98, 1),
    goal_current=Register(102, 2),
    realtime_tick=Register(120, 2),
    moving=Register(122, 1),
    present_pwm=Register(124, 2),
    present_current=Register(126, 2),
    present_velocity=Register(128, 4),
    present_position=Register(132, 4),
    position_trajectory=Register(140, 4),
    input_voltage=Register(144, 2),
    temperature=Register(146, 1),
)


@dataclass(frozen=True)
class ServoModel:
    """A model of servo.

    Attributes
    ----------
    number : int
        Model number, as the servo tells it.
    table : ControlTable
        Its addresses.
    pulses_per_revolution : int
        Counts of Present Position in a turn of the shaft.
    current_unit_a, velocity_unit_rpm, voltage_unit_v : float
        One count of current [A], velocity [rev/min] and supply voltage [V].
    highest_current_count : int
        The highest Current Limit that can be set.
    fast_read_firmware : int
        The first firmware that knows fast sync read.
    """

    name: str
    number: int
    table: ControlTable
    pulses_per_revolution: int
    current_unit_a: float
    velocity_unit_rpm: float
    highest_current_count: int
    fast_read_firmware: int
    voltage_unit_v: float = 0.1

    @property
    def radians_per_count(self) -> float:
        return 2.0 * math.pi / self.pulses_per_revolution

    @property
    def velocity_unit_rad_s(self) -> float:
        return self.velocity_unit_rpm * 2.0 * math.pi / 60.0


def _p(name: str, number: int, pulses: int, highest_current_count: int) -> ServoModel:
    return ServoModel(name, number, P_SERIES, pulses, 1e-3, 0.01, highest_current_count, 12)


def _x(name: str, number: int, highest_current_count: int) -> ServoModel:
    return ServoModel(name, number, X_SERIES, 4096, 2.69e-3, 0.229, highest_current_count, 45)


MODELS = {
    model.name: model
    for model in (
        _p("PH54-200-S500", 2020, 1_003_846, 22_740),
        _p("PH54-100-S500", 2010, 1_003_846, 15_900),
        _p("PH42-020-S300", 2000, 607_500, 4_500),
        _x("XM540-W270", 1120, 2047),
        _x("XM540-W150", 1130, 2047),
        _x("XM430-W350", 1020, 1193),
        _x("XM430-W210", 1030, 1193),
        _x("XH540-W270", 1100, 2047),
        _x("XH540-W150", 1110, 2047),
    )
}
_NAMES = {model.number: model.name for model in MODELS.values()}


def servo_model(name: str) -> ServoModel:
    """Return a model by its name; a trailing ``-R`` or ``-T`` (the kind of bus) does not matter.

    Raises
    ------
    InstrumentError
        It is none the bench knows.
    """
    bare = name[:-2] if name.endswith(("-R", "-T")) else name
    if bare in MODELS:
        return MODELS[bare]
    raise InstrumentError(
        f"no servo model {name!r} is known",
        where="servo models",
        remedy=f"Known are {', '.join(MODELS)}; another one is a line in bench/instruments/dynamixel_models.py",
    )


def model_text(number: int) -> str:
    """Return ``PH54-100-S500 (model number 2010)`` for a number, known or not."""
    name = _NAMES.get(number)
    return f"{name} (model number {number})" if name else f"model number {number}, which the bench does not know"
