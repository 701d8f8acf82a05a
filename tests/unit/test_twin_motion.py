"""Set-points and following: exact at any time, whatever is commanded when."""

from __future__ import annotations

import numpy as np
import pytest

from bench.twin.plant.motion import Motion, plan

MOVES = [
    # s, v, target, speed, acceleration
    (0.0, 0.0, 10.0, 2.0, 50.0),  # trapezoid
    (0.0, 0.0, 0.01, 2.0, 50.0),  # triangle
    (5.0, 0.0, -5.0, 3.0, 20.0),  # backwards
    (0.0, 2.0, 10.0, 2.0, 50.0),  # already at speed
    (0.0, 2.0, 0.01, 2.0, 50.0),  # too close to stop: out and back
    (0.0, -2.0, 10.0, 4.0, 50.0),  # the wrong way first
    (0.0, 5.0, 10.0, 2.0, 50.0),  # too fast: slow down
    (1.0, 1.5, 1.0, 2.0, 10.0),  # stop where it is: overshoot and return
]


@pytest.mark.parametrize(("s", "v", "target", "speed", "acceleration"), MOVES)
def test_a_plan_is_continuous_and_arrives(s: float, v: float, target: float, speed: float, acceleration: float) -> None:
    segments, total = plan(s, v, target, speed, acceleration)
    allowed = max(speed, abs(v)) * (1 + 1e-12)
    position, rate = s, v
    for duration, s0, v0, a in segments:
        assert duration > 0
        assert (s0, v0) == pytest.approx((position, rate), abs=1e-12)
        assert abs(a) in (0.0, acceleration)
        position, rate = s0 + v0 * duration + a * duration**2 / 2, v0 + a * duration
        assert abs(rate) <= allowed
    assert (position, rate) == pytest.approx((target, 0.0), abs=1e-9)
    assert total == sum(segment[0] for segment in segments)


def test_a_short_way_takes_the_shortest_time() -> None:
    _, total = plan(0.0, 0.0, 0.5, 100.0, 50.0)
    assert total == pytest.approx(2 * np.sqrt(0.5 / 50.0))


def test_the_motor_follows_the_set_point_as_the_lag_equation_says() -> None:
    tau, end_ns = 0.02, 2_000_000_000
    commands = {100_300_000: (3.0, 2.0), 900_800_000: (-1.0, 5.0), 1_200_100_000: (4.0, 1.0)}  # not on ticks
    motion = Motion(0.0, tau, 0.003)
    ticks, first = np.empty(2001), 0
    for now, (target, speed) in commands.items():
        last = now // 1_000_000
        ticks[first : last + 1] = motion.motors(first, last, 1_000_000)
        first = last + 1
        motion.move_to(now, target, speed, 40.0)
    ticks[first:] = motion.motors(first, 2000, 1_000_000)

    twin = Motion(0.0, tau, 0.003)  # its set-point drives the classical Runge-Kutta method in steps of 50 us
    step_ns, m = 50_000, 0.0
    h = step_ns * 1e-9
    worst = 0.0
    for time_ns in range(0, end_ns, step_ns):
        if time_ns % 1_000_000 == 0:
            worst = max(worst, abs(ticks[time_ns // 1_000_000] - m))
        if time_ns in commands:
            twin.move_to(time_ns, *commands[time_ns], 40.0)
        s0, s1, s2 = (twin.setpoint(time_ns + part * step_ns // 2) for part in range(3))
        k1 = (s0 - m) / tau
        k2 = (s1 - m - h / 2 * k1) / tau
        k3 = (s1 - m - h / 2 * k2) / tau
        k4 = (s2 - m - h * k3) / tau
        m += h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    assert worst < 1e-8


def test_ticks_and_single_times_agree() -> None:
    motion = Motion(1.0, 0.004, 0.003)
    motion.move_to(123_456, 3.0, 2.0, 100.0)
    ticks = motion.motors(0, 1500, 1_000_000)
    again = Motion(1.0, 0.004, 0.003)
    again.move_to(123_456, 3.0, 2.0, 100.0)
    single = [again.motor(k * 1_000_000) for k in range(1, 1501)]
    assert ticks[1:] == pytest.approx(single, abs=1e-12)


def test_a_stop_decelerates_and_stands() -> None:
    motion = Motion(0.0, 0.004, 0.003)
    motion.move_to(0, 100.0, 10.0, 100.0)
    now = 1_000_000_000
    end = motion.stop(now, 50.0)
    assert end - now == pytest.approx(0.2e9)
    assert motion.setpoint(end) == pytest.approx(9.5 + 1.0)
    assert motion.setpoint_speed(end) == 0.0
    assert not motion.moving(end)
    assert motion.stop(end, 50.0) == end  # nothing to stop


def test_without_power_the_carriage_runs_out_at_once() -> None:
    motion = Motion(0.0, 0.004, 0.003)
    motion.move_to(0, 100.0, 10.0, 1000.0)
    now = 1_000_000_000
    before, speed = motion.motor(now), motion.motor_speed(now)
    motion.coast(now)
    assert motion.motor(now) == pytest.approx(before)
    assert motion.motor_speed(now) == pytest.approx(speed)
    assert motion.motor(now + 100_000_000) == pytest.approx(before + speed * 0.003)
    assert not motion.moving(now)
