"""Control tables of Dynamixel servos on the device's side: what stands where, who may write it, and what it may hold.

Written apart from the driver's half on purpose: a mistake in one then shows against the other. Both are held against
the tables that come with the vendor's own client.

Source: ROBOTIS e-Manual, control tables of the P series (PH54-200-S500, PH54-100-S500, PH42-020-S300) and of the X
series (XM430, XM540, XH540).
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.errors import TwinError

EEPROM, RAM = True, False


@dataclass(frozen=True)
class Entry:
    """One register. ``factory`` is its value when new; ``low``, ``high`` what may be written, ``None``: read only.

    ``limit`` names the register whose value a goal may not exceed either way.
    """

    address: int
    size: int
    name: str
    factory: int = 0
    low: int | None = None
    high: int = 0
    eeprom: bool = False
    signed: bool = False
    limit: str = ""


@dataclass(frozen=True)
class Model:
    """A model: its table, and what its counts mean.

    ``one_turn_from`` is the lowest count a servo shows when it boots: it knows its angle within one turn.
    """

    name: str
    number: int
    series: str
    entries: dict[str, Entry]
    by_address: dict[int, Entry]
    pulses: int
    current_unit_a: float
    velocity_unit_rpm: float
    one_turn_from: int
    bauds: tuple[int, ...]


_P_BAUDS = (9600, 57600, 115200, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000, 6_000_000, 10_500_000)
_X_BAUDS = (9600, 57600, 115200, 1_000_000, 2_000_000, 3_000_000, 4_000_000, 4_500_000)


def _identity(number: int, bauds: int, modes: int) -> list[Entry]:
    return [
        Entry(0, 2, "model_number", number),
        Entry(2, 4, "model_information"),
        Entry(6, 1, "firmware"),
        Entry(7, 1, "id", 1, 0, 252, EEPROM),
        Entry(8, 1, "baud_rate", 1, 0, bauds - 1, EEPROM),
        Entry(9, 1, "return_delay", 250, 0, 254, EEPROM),
        Entry(10, 1, "drive_mode", 0, 0, 13, EEPROM),
        Entry(11, 1, "operating_mode", 3, 0, modes, EEPROM),
        Entry(12, 1, "secondary_id", 255, 0, 255, EEPROM),
        Entry(13, 1, "protocol_type", 2, 2, 2, EEPROM),
    ]


def _p(name: str, number: int, pulses: int, current: int, velocity: int, acceleration: int) -> Model:
    half = pulses // 2
    gain = (0, 0, 32767)
    entries = [
        *_identity(number, len(_P_BAUDS), 16),
        Entry(20, 4, "homing_offset", 0, -(2**31), 2**31 - 1, EEPROM, True),
        Entry(24, 4, "moving_threshold", 20, 0, velocity, EEPROM),
        Entry(31, 1, "temperature_limit", 80, 0, 100, EEPROM),
        Entry(32, 2, "max_voltage_limit", 350, 150, 350, EEPROM),
        Entry(34, 2, "min_voltage_limit", 150, 150, 350, EEPROM),
        Entry(36, 2, "pwm_limit", 2009, 0, 2009, EEPROM),
        Entry(38, 2, "current_limit", current, 0, current, EEPROM),
        Entry(40, 4, "acceleration_limit", acceleration, 0, acceleration, EEPROM),
        Entry(44, 4, "velocity_limit", velocity, 0, velocity, EEPROM),
        Entry(48, 4, "max_position_limit", half - 490, -half, half, EEPROM, True),
        Entry(52, 4, "min_position_limit", 490 - half, -half, half, EEPROM, True),
        *(Entry(55 + k, 1, f"external_port_mode_{k}", 3, 0, 3, EEPROM) for k in range(1, 5)),
        Entry(60, 1, "startup_configuration", 0, 0, 3, EEPROM),
        Entry(63, 1, "shutdown", 52, 0, 63, EEPROM),
        Entry(512, 1, "torque_enable", 0, 0, 1),
        Entry(513, 1, "led_red", 0, 0, 255),
        Entry(514, 1, "led_green", 0, 0, 255),
        Entry(515, 1, "led_blue", 0, 0, 255),
        Entry(516, 1, "status_return_level", 2, 0, 2),
        Entry(517, 1, "registered_instruction"),
        Entry(518, 1, "hardware_error"),
        Entry(524, 2, "velocity_i_gain", *gain),
        Entry(526, 2, "velocity_p_gain", *gain),
        Entry(528, 2, "position_d_gain", *gain),
        Entry(530, 2, "position_i_gain", *gain),
        Entry(532, 2, "position_p_gain", *gain),
        Entry(536, 2, "feedforward_2nd_gain", *gain),
        Entry(538, 2, "feedforward_1st_gain", *gain),
        Entry(546, 1, "bus_watchdog", 0, 0, 127),
        *_goals(548, velocity, half),
        *_present(568),
        Entry(592, 2, "input_voltage"),
        Entry(594, 1, "temperature"),
        *(Entry(598 + 2 * k, 2, f"external_port_data_{k}", 0, 0, 4095) for k in range(1, 5)),
        Entry(878, 1, "backup_ready"),
    ]
    return _model(name, number, "P", entries, pulses, 1e-3, 0.01, -half, _P_BAUDS)


def _x(name: str, number: int, current: int, velocity: int, *, ports: bool) -> Model:
    gain = (0, 0, 16383)
    mode = [Entry(55 + k, 1, f"external_port_mode_{k}", 3, 0, 3, EEPROM) for k in range(1, 4)]
    data = [Entry(150 + 2 * k, 2, f"external_port_data_{k}", 0, 0, 4095) for k in range(1, 4)]
    entries = [
        *_identity(number, len(_X_BAUDS), 16),
        Entry(20, 4, "homing_offset", 0, -1_044_479, 1_044_479, EEPROM, True),
        Entry(24, 4, "moving_threshold", 10, 0, 1023, EEPROM),
        Entry(31, 1, "temperature_limit", 80, 0, 100, EEPROM),
        Entry(32, 2, "max_voltage_limit", 160, 95, 160, EEPROM),
        Entry(34, 2, "min_voltage_limit", 95, 95, 160, EEPROM),
        Entry(36, 2, "pwm_limit", 885, 0, 885, EEPROM),
        Entry(38, 2, "current_limit", current, 0, current, EEPROM),
        Entry(44, 4, "velocity_limit", velocity, 0, 1023, EEPROM),
        Entry(48, 4, "max_position_limit", 4095, 0, 4095, EEPROM, True),
        Entry(52, 4, "min_position_limit", 0, 0, 4095, EEPROM, True),
        *(mode if ports else []),
        Entry(60, 1, "startup_configuration", 0, 0, 3, EEPROM),
        Entry(63, 1, "shutdown", 52, 0, 63, EEPROM),
        Entry(64, 1, "torque_enable", 0, 0, 1),
        Entry(65, 1, "led", 0, 0, 1),
        Entry(68, 1, "status_return_level", 2, 0, 2),
        Entry(69, 1, "registered_instruction"),
        Entry(70, 1, "hardware_error"),
        Entry(76, 2, "velocity_i_gain", *gain),
        Entry(78, 2, "velocity_p_gain", *gain),
        Entry(80, 2, "position_d_gain", *gain),
        Entry(82, 2, "position_i_gain", *gain),
        Entry(84, 2, "position_p_gain", *gain),
        Entry(88, 2, "feedforward_2nd_gain", *gain),
        Entry(90, 2, "feedforward_1st_gain", *gain),
        Entry(98, 1, "bus_watchdog", 0, 0, 127),
        *_goals(100, 32767, 2**31 - 1),
        *_present(120),
        Entry(144, 2, "input_voltage"),
        Entry(146, 1, "temperature"),
        *(data if ports else []),
    ]
    return _model(name, number, "X", entries, 4096, 2.69e-3, 0.229, 0, _X_BAUDS)


def _goals(first: int, velocity: int, position: int) -> list[Entry]:
    return [
        Entry(first, 2, "goal_pwm", 0, -32768, 32767, RAM, True, "pwm_limit"),
        Entry(first + 2, 2, "goal_current", 0, -32768, 32767, RAM, True, "current_limit"),
        Entry(first + 4, 4, "goal_velocity", 0, -(2**31), 2**31 - 1, RAM, True, "velocity_limit"),
        Entry(first + 8, 4, "profile_acceleration", 0, 0, 2**31 - 1),
        Entry(first + 12, 4, "profile_velocity", 0, 0, velocity),
        Entry(first + 16, 4, "goal_position", 0, -position, position, RAM, True),
    ]


def _present(first: int) -> list[Entry]:
    return [
        Entry(first, 2, "realtime_tick"),
        Entry(first + 2, 1, "moving"),
        Entry(first + 3, 1, "moving_status"),
        Entry(first + 4, 2, "present_pwm", signed=True),
        Entry(first + 6, 2, "present_current", signed=True),
        Entry(first + 8, 4, "present_velocity", signed=True),
        Entry(first + 12, 4, "present_position", signed=True),
        Entry(first + 16, 4, "velocity_trajectory", signed=True),
        Entry(first + 20, 4, "position_trajectory", signed=True),
    ]


def _model(
    name: str,
    number: int,
    series: str,
    entries: list[Entry],
    pulses: int,
    current_unit_a: float,
    velocity_unit_rpm: float,
    one_turn_from: int,
    bauds: tuple[int, ...],
) -> Model:
    named = {entry.name: entry for entry in entries}
    placed = {entry.address: entry for entry in entries}
    return Model(name, number, series, named, placed, pulses, current_unit_a, velocity_unit_rpm, one_turn_from, bauds)


MODELS = {
    model.name: model
    for model in (
        _p("PH54-200-S500", 2020, 1_003_846, 22_740, 2900, 3_992_644),
        _p("PH54-100-S500", 2010, 1_003_846, 15_900, 2920, 4_255_632),
        _p("PH42-020-S300", 2000, 607_500, 4_500, 2920, 4_306_173),
        _x("XM540-W270", 1120, 2047, 128, ports=True),
        _x("XM540-W150", 1130, 2047, 230, ports=True),
        _x("XM430-W350", 1020, 1193, 200, ports=False),
        _x("XM430-W210", 1030, 1193, 330, ports=False),
        _x("XH540-W270", 1100, 2047, 167, ports=True),
        _x("XH540-W150", 1110, 2047, 301, ports=True),
    )
}


def model(name: str) -> Model:
    """Return a model by its name."""
    if name in MODELS:
        return MODELS[name]
    raise TwinError(
        f"no servo model {name!r} is simulated", where="twin device", remedy=f"simulated are {', '.join(MODELS)}"
    )
