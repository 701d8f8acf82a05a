"""The three witnesses of a joint: each contradiction has its name, and friction, wind-up and rest are none."""

from __future__ import annotations

import numpy as np
import pytest

from bench.errors import SafetyAbort
from bench.safety.joint_watch import (
    LEAST_EXPLAINED,
    AngleSums,
    JointWatch,
    TorqueSums,
    angle_error,
    passed_on,
    torque_error,
)

RATE = 500.0
TIME = np.arange(0.0, 4.0, 1 / RATE)
MOTOR = 0.1 * np.sin(np.pi * TIME)
SPEED = 0.1 * np.pi * np.cos(np.pi * TIME)
ACCELERATION = -(np.pi**2) * MOTOR
LINK = 1.0 * ACCELERATION + 2.5 * np.sin(MOTOR)
FRICTION = 1.5 * np.tanh(SPEED / 0.005) + 0.8 * SPEED
DRIVE = LINK + FRICTION + 0.2 * ACCELERATION


def angles(joint: np.ndarray, motor: np.ndarray = MOTOR) -> AngleSums:
    sums = AngleSums()
    for part in np.array_split(np.arange(len(motor)), 7):
        sums.add(motor[part], joint[part])
    return sums


def reason(error: SafetyAbort | None) -> str:
    assert error is not None
    assert error.where
    assert error.remedy
    return error.reason


def test_wind_up_noise_and_an_offset_are_no_contradiction() -> None:
    noise = 2e-5 * np.random.default_rng(1).standard_normal(len(TIME))
    wound = MOTOR - DRIVE / 4500.0 + noise + 0.7
    assert angle_error(angles(wound), 100.0) is None
    assert angles(wound).slope == pytest.approx(1.0, abs=0.02)


def test_the_ratio_the_encoders_say_stands_in_the_message() -> None:
    error = angle_error(angles(MOTOR * 100.0 / 50.2), 100.0)
    assert reason(error) == "gear_ratio"
    assert "the encoders say 50.2 rotor turns for one of the joint, the profile says 100" in str(error)


def test_an_encoder_that_counts_the_other_way_is_not_a_wrong_ratio() -> None:
    for ratio in (1.0, 2.0):
        assert reason(angle_error(angles(-ratio * MOTOR), 100.0)) == "encoder_direction"


def test_an_encoder_that_stands_is_stuck() -> None:
    assert reason(angle_error(angles(np.full(len(TIME), 0.3)), 100.0)) == "encoder_stuck"


def test_too_little_motion_says_nothing() -> None:
    assert angle_error(angles(-0.2 * MOTOR, 0.2 * MOTOR), 100.0) is None
    assert angle_error(AngleSums(), 100.0) is None


def torques(transducer: np.ndarray, drive: np.ndarray = DRIVE, speed: np.ndarray = SPEED) -> TorqueSums:
    sums = TorqueSums()
    for part in np.array_split(np.arange(len(drive)), 7):
        sums.add(drive[part], speed[part], transducer[part])
    return sums


def test_friction_on_the_motors_side_does_not_hide_the_sign() -> None:
    slope, explained = torques(LINK).effect()
    assert slope > 0.5
    assert explained > LEAST_EXPLAINED
    assert torque_error(torques(LINK), 10.0) is None
    assert reason(torque_error(torques(-LINK + 0.3), 10.0)) == "transducer_sign"


def test_the_motors_own_inertia_does_not_invert_the_transducer() -> None:
    # 2.15 rad/s: the link alone still hangs by its weight there, link and motor together already swing by inertia
    turn = 2.15
    motor = 0.4 * np.sin(turn * TIME)
    speed = 0.4 * turn * np.cos(turn * TIME)
    acceleration = -(turn**2) * motor
    link = 0.4 * acceleration + 2.5 * np.sin(motor)
    drive = link + 1.5 * np.tanh(speed / 0.005) + 0.8 * speed + 0.2 * acceleration
    assert reason(torque_error(torques(link, drive, speed), 10.0)) == "transducer_sign", "as the drive tells it"
    net = passed_on(drive, speed, TIME, 0.2)
    assert torque_error(torques(link, net, speed), 10.0) is None
    assert reason(torque_error(torques(-link, net, speed), 10.0)) == "transducer_sign"
    assert passed_on(drive[:1], speed[:1], TIME[:1], 0.2) == drive[:1]


def test_a_locked_output_shows_the_sign_too() -> None:
    ramp = 5.0 * np.sin(np.pi * TIME)
    speed = np.gradient(ramp, TIME) / 4500.0
    link = ramp - 1.2 * np.tanh(speed / 1e-4)
    assert torque_error(torques(link, ramp, speed), 10.0) is None
    assert reason(torque_error(torques(-link, ramp, speed), 10.0)) == "transducer_sign"


def test_a_transducer_that_sees_nothing_of_the_drive_is_not_judged() -> None:
    noise = np.random.default_rng(2).standard_normal(len(TIME))
    assert torque_error(torques(noise), 10.0) is None, "unexplained"
    assert torque_error(torques(-0.001 * LINK), 10.0) is None, "too little"


def test_the_watch_judges_again_and_again_so_that_a_late_fault_shows_soon() -> None:
    watch = JointWatch(100.0, 10.0)
    blocks = np.array_split(np.arange(len(TIME)), 40)
    for _ in range(20):
        for part in blocks:
            watch.feed(MOTOR[part], SPEED[part], DRIVE[part], MOTOR[part], LINK[part])
    assert watch.angles_judged > 20
    assert watch.torques_judged > 20

    def stand() -> None:
        for part in blocks[:20]:
            watch.feed(MOTOR[part], SPEED[part], DRIVE[part], np.zeros(len(part)), LINK[part])

    with pytest.raises(SafetyAbort) as stopped:
        stand()
    assert stopped.value.reason == "encoder_stuck"


def test_a_clamped_output_is_no_stuck_encoder() -> None:
    watch = JointWatch(100.0, 10.0, locked=True)
    for part in np.array_split(np.arange(len(TIME)), 40):
        watch.feed(MOTOR[part], SPEED[part], DRIVE[part], np.zeros(len(part)), LINK[part])
    watch.feed(*[np.empty(0)] * 5)
    assert watch.angles_judged == 0
    assert watch.torques_judged > 0
