"""The clocked loop on a joint of a few lines: its grid, what it archives, and every way it ends early."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.errors import DriveFault, DriveWatchdogTripped, InstrumentTimeout, LimitError
from bench.procedures.joint_loop import Command, JointRecording, Tick

Controller = Callable[[Tick, Command], None]
Swinging = Callable[..., Controller]


def events(run: Any) -> list[str]:
    return [event.code for event in run.events]


# -- what a run leaves


def test_a_tick_is_a_command_and_a_row_at_its_deadline(bench: Any, swinging: Swinging) -> None:
    seen: list[tuple[int, float]] = []

    def body(recording: JointRecording) -> None:
        drive = swinging()

        def controller(tick: Tick, command: Command) -> None:
            seen.append((tick.index, tick.time_s))
            drive(tick, command)

        view = recording.run(controller, 2.0)
        assert len(view.time_s) == 1000
        recording.phase("train", 1, math.nan, view.time_s[0], view.time_s[-1])

    with bench.run(body) as run:
        assert run.status == "COMPLETE"
        assert [index for index, _ in seen] == list(range(1000))
        period = np.diff([time_s for _, time_s in seen])
        assert np.abs(period - 0.002).max() < 1e-9
        motor = run.get("motor_angle")
        assert len(motor.values) == 1000
        # stamped in the middle of a transaction of 0.4 ms
        assert motor.time_s[0] == pytest.approx(seen[0][1] + 0.0002, abs=1e-9)
        assert set(np.round(run.get("time_half_width").values, 9)) == {0.0002}
        assert np.all(run.get("tick_lateness").values == 0.0)
        assert run.get("motor_angle").unit == "rad"
        assert run.get("joint_torque").unit == "N.m"
        assert run.phases[0].name == "train"
        assert math.isnan(run.phases[0].speed_mm_s)
        assert "timing" in events(run)
        assert "missed_ticks" not in events(run)
        assert len(run.channel("missed_ticks").values) == 0


def test_motor_and_joint_channels_tell_one_motion(bench: Any, swinging: Swinging) -> None:
    ended: list[int] = []

    def body(recording: JointRecording) -> None:
        view = recording.run(swinging(), 2.0)
        ended.append(len(bench.joint.history))
        assert np.abs(view.motor_angle_rad - view.joint_angle_rad).max() < 0.002
        assert np.ptp(view.motor_angle_rad) > 0.2
        assert np.allclose(view.command_nm, view.wanted_nm + view.feedforward_nm)

    with bench.run(body) as run:
        motor, joint = run.get("motor_angle"), run.get("joint_angle")
        there = np.interp(motor.time_s, joint.time_s, joint.values)
        assert np.abs(motor.values / 100.0 - there).max() < 0.002
        torque = run.get("joint_torque").values[-500:]
        expected = np.array(bench.joint.history)[ended[0] - len(torque) - 100 : ended[0], 1]
        assert np.abs(torque).max() == pytest.approx(np.abs(expected).max(), rel=0.05)
        assert run.get("tare_transducer_voltage").values[0] == pytest.approx(0.02, abs=1e-4)
        assert run.get("command_torque").values == pytest.approx(np.array(bench.joint.commands))


def test_the_controller_ends_the_loop_and_the_next_goes_on_the_same_grid(bench: Any) -> None:
    times: list[float] = []

    def body(recording: JointRecording) -> None:
        def three(tick: Tick, command: Command) -> bool:
            times.append(tick.time_s)
            return len(times) % 3 == 0

        assert len(recording.run(three, 1.0).time_s) == 3
        assert len(recording.run(three, 1.0).time_s) == 3

    bench.run(body).close()
    assert np.diff(times) == pytest.approx(np.full(5, 0.002))


def test_the_drive_is_off_after_a_run_and_a_second_run_knows_where_the_joint_is(bench: Any, swinging: Swinging) -> None:
    def to(angle: float) -> Controller:
        def controller(tick: Tick, command: Command) -> None:
            command.torque_nm = 60.0 * (angle - tick.motor_angle_rad) - 10.0 * tick.motor_velocity_rad_s

        return controller

    bench.joint.gravity = 0.0
    bench.run(lambda recording: recording.run(to(0.1), 3.0)).close()
    assert bench.joint.mode == 0
    assert bench.joint.angle == pytest.approx(0.1, abs=0.01)
    with bench.run(lambda recording: recording.run(to(0.1), 0.2)) as run:
        assert run.get("joint_angle").values[0] == pytest.approx(bench.joint.angle, abs=0.005)


# -- time


def test_a_late_tick_keeps_the_grid_and_missed_ones_are_counted(bench: Any) -> None:
    times: list[float] = []

    def body(recording: JointRecording) -> None:
        def controller(tick: Tick, command: Command) -> None:
            times.append(tick.time_s)
            if len(times) == 10:
                bench.joint.sleep_until_ns(bench.joint.time_ns + 1_800_000)  # late for the next, misses none
            if len(times) == 20:
                bench.joint.sleep_until_ns(bench.joint.time_ns + 7_000_000)  # misses three

        recording.run(controller, 0.2)

    with bench.run(body) as run:
        lateness = run.get("tick_lateness").values
        assert lateness[10] == pytest.approx(0.0002, abs=1e-6)
        assert lateness[11] == 0.0
        assert list(run.get("missed_ticks").values) == [2.0]
        assert times[11] - times[9] == pytest.approx(0.004)
        assert times[21] - times[0] == pytest.approx(0.002 * 23)
        assert len(times) == 100 - 2
        assert "missed_ticks" in events(run)
        (timing,) = [event.message for event in run.events if event.code == "timing"]
        assert "98 ticks, 2 missed" in timing


def test_too_many_missed_ticks_end_the_run(bench: Any) -> None:
    def body(recording: JointRecording) -> None:
        def controller(tick: Tick, command: Command) -> None:
            if tick.index == 50:
                bench.joint.sleep_until_ns(bench.joint.time_ns + 30_000_000)

        recording.run(controller, 1.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("missed_ticks")
        assert "14 ticks of 2 ms were missed in a row, at most 10 may be" in told
        assert run.get("missed_ticks").values[-1] == 14.0


# -- every way a run ends


def strike(bench: Any, action: Callable[[], object], swinging: Swinging, **options: Any) -> tuple[Any, str]:
    def body(recording: JointRecording) -> None:
        bench.joint.at[bench.joint.time_ns * 1e-9 + 1.0] = action
        recording.run(swinging(), 5.0)

    run, told = bench.abort(body, **options)
    assert not bench.joint.powered
    assert bench.station.drive.latched
    return run, told


def raising(bench: Any, error: Exception) -> Callable[[], None]:
    def act() -> None:
        bench.joint.next_reply = error

    return act


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DriveFault("the drive has stopped with fault 33, undervoltage", code=33, where="drive"), "drive_fault"),
        (DriveWatchdogTripped("the drive's watchdog has tripped (mode 11)", where="drive"), "drive_watchdog"),
        (InstrumentTimeout("drive id 1 does not answer within 0.02 s", where="drive"), "instrument_timeout"),
    ],
)  # fmt: skip
def test_what_the_drive_says_is_the_reason(bench: Any, swinging: Swinging, error: Exception, reason: str) -> None:
    run, told = strike(bench, raising(bench, error), swinging)
    with run:
        assert run.status == "ABORTED"
        assert run.reason.startswith(f"{reason}: ")
        assert str(error).partition(": ")[2] in told
        assert run.events[-1].code == "safe_state"
        # the rows up to the last drain and beyond it are there, and so is what the joint did after the stop
        assert run.get("motor_angle").time_s[-1] == pytest.approx(2.0, abs=0.05)
        assert run.get("joint_angle").time_s[-1] > run.get("motor_angle").time_s[-1] + 0.5


def test_a_pressed_estop_is_told_before_the_drive_that_lost_its_supply(bench: Any, swinging: Swinging) -> None:
    def press() -> None:
        bench.joint.estop = False
        bench.joint.next_reply = InstrumentTimeout("no answer", where="drive")

    run, _ = strike(bench, press, swinging)
    with run:
        assert run.reason.startswith("estop: ")


def test_a_hot_drive_ends_the_run(bench: Any, swinging: Swinging) -> None:
    run, told = strike(bench, lambda: setattr(bench.joint, "temperature", 60.5), swinging)
    with run:
        assert run.reason.startswith("temperature_limit: ")
        assert "board is at 60.5 degC, limit 60 degC" in told


def test_too_much_torque_on_the_link_ends_the_run(bench: Any, swinging: Swinging) -> None:
    run, told = strike(bench, lambda: setattr(bench.joint, "link_inertia", 13.0), swinging)
    with run:
        assert run.reason.startswith("torque_limit: ")
        assert "the torque on the link reached" in told


def test_a_saturated_transducer_ends_the_run(bench: Any, swinging: Swinging) -> None:
    run, _ = strike(bench, lambda: setattr(bench.joint, "link_inertia", 1e5), swinging)
    with run:
        assert run.reason.startswith("sensor_saturated: ")


def test_lost_samples_end_the_run(bench: Any, swinging: Swinging) -> None:
    run, told = strike(bench, lambda: setattr(bench.daq.acquisitions[0], "gap_at", 0), swinging)
    with run:
        assert run.reason.startswith("daq_gap: ")
        assert "are missing" in told
        assert "safe_state" in events(run)


def test_a_joint_that_leaves_its_travel_ends_the_run(bench: Any) -> None:
    def push(tick: Tick, command: Command) -> None:
        command.torque_nm = 3.5

    run, told = bench.abort(lambda recording: recording.run(push, 20.0))
    with run:
        assert run.reason.startswith("travel_limit: ")
        assert "the motor's encoder shows the joint at 1.7" in told


def test_a_torque_beyond_the_limit_is_refused_and_ends_the_run(bench: Any) -> None:
    def push(tick: Tick, command: Command) -> None:
        command.torque_nm = 22.01

    run, told = bench.abort(lambda recording: recording.run(push, 1.0))
    with run:
        assert run.reason.startswith("torque_limit: ")
        assert "22.01 N.m is beyond the limit of 22 N.m" in told
        assert bench.joint.commands == []


def test_a_deadline_ends_the_run_within_a_drain(bench: Any, swinging: Swinging) -> None:
    def body(recording: JointRecording) -> None:
        bench.station.supervisor._deadline_ns = bench.joint.time_ns + 500_000_000
        recording.run(swinging(), 100.0)

    run, _ = bench.abort(body)
    with run:
        assert run.reason.startswith("deadline: ")
        assert run.get("motor_angle").time_s[-1] == pytest.approx(1.6, abs=0.1)


@pytest.mark.parametrize(
    ("attribute", "value", "reason", "told"),
    [
        ("ratio", 50.2, "gear_ratio", "the encoders say 50.2 rotor turns for one of the joint, the profile says 100"),
        ("encoder_sign", -1, "encoder_direction", "the joint encoder counted the other way"),
        ("transducer_sign", -1, "transducer_sign", "torque_transducer.sign"),
    ],
)
def test_wrong_wiring_is_told_by_its_own_name(
    bench: Any, swinging: Swinging, attribute: str, value: float, reason: str, told: str
) -> None:
    setattr(bench.joint, attribute, value)
    run, text = bench.abort(lambda recording: recording.run(swinging(), 5.0))
    with run:
        assert run.reason.startswith(f"{reason}: ")
        assert told in text
        assert run.get("joint_angle").time_s[-1] < 3.0, "the first swing shows it"


def test_an_encoder_that_sticks_in_a_run_is_told_and_is_no_witness(bench: Any, swinging: Swinging) -> None:
    run, told = strike(bench, bench.joint.stick, swinging)
    with run:
        assert run.reason.startswith("encoder_stuck; safe_state_failed: "), "nobody saw the joint stand"
        assert "joint encoder's cable" in told


def test_a_clamped_output_is_no_stuck_encoder(bench: Any) -> None:
    def push(tick: Tick, command: Command) -> None:
        command.torque_nm = 2.0 * math.sin(5.0 * tick.time_s)

    bench.joint.stuck_at = 0.0
    bench.run(lambda recording: recording.run(push, 3.0), "output_lock").close()


# -- before and after


def test_a_swinging_load_is_refused_before_there_is_an_archive(bench: Any) -> None:
    bench.joint.speed = 0.5
    with pytest.raises(LimitError, match="although no procedure runs") as refused:
        bench.run(lambda recording: None)
    assert refused.value.reason == "not_at_rest"
    assert list(bench.results.iterdir()) == []


def test_a_load_that_creeps_in_the_tare_ends_the_run(bench: Any) -> None:
    bench.joint.viscous = 50.0
    bench.joint.angle = 0.3
    run, told = bench.abort(lambda recording: None)
    with run:
        assert run.reason.startswith("not_at_rest: ")
        assert "during the tare" in told


def test_the_weight_of_a_load_is_not_taken_for_the_zero(bench: Any) -> None:
    bench.joint.viscous = 1e6  # friction holds it where it is
    bench.joint.angle = 0.05
    bench.station.saw_joint_at(0.05)
    bench.station.make_ready()
    with bench.run(lambda recording: recording.run(lambda tick, command: None, 0.3)) as run:
        assert run.get("joint_torque").values.mean() == pytest.approx(2.5 * math.sin(0.05), abs=1e-3)
        assert run.get("tare_transducer_voltage").values[0] == pytest.approx(0.02, abs=1e-4)


def test_a_load_that_hangs_too_far_out_is_no_tare(bench: Any) -> None:
    bench.joint.viscous = 1e6
    bench.joint.angle = 0.2
    bench.station.saw_joint_at(0.2)
    bench.station.make_ready()
    run, told = bench.abort(lambda recording: None)
    with run:
        assert run.reason.startswith("not_at_rest: ")
        assert "hangs at 0.2 rad, where its weight puts 0.497 N.m" in told


def test_a_specimen_lowers_the_torque_limit(bench: Any) -> None:
    def push(tick: Tick, command: Command) -> None:
        command.torque_nm = 15.5

    _, told = bench.abort(lambda recording: recording.run(push, 1.0), "output_lock")
    assert "limit of 15 N.m" in told


def test_after_an_abort_nothing_is_driven_until_the_station_is_made_ready(bench: Any, swinging: Swinging) -> None:
    strike(bench, lambda: setattr(bench.joint, "estop", False), swinging)[0].close()
    with pytest.raises(LimitError, match=r"stopped \(estop\)"):
        bench.run(lambda recording: None)
    stopped_at = bench.joint.angle
    bench.joint.estop = True
    bench.joint.viscous = 1e6  # it stays where it was stopped when the brake opens
    bench.station.make_ready()
    assert bench.station.rest_angle_rad == pytest.approx(stopped_at, abs=0.001)
    assert bench.station.drive.angle(bench.joint.state()) == pytest.approx(stopped_at, abs=0.001)


def test_a_line_that_cannot_be_dropped_is_told_by_the_status(bench: Any, swinging: Swinging) -> None:
    bench.joint.line_broken = True

    def body(recording: JointRecording) -> None:
        bench.joint.at[3.0] = lambda: setattr(bench.joint, "temperature", 90.0)
        recording.run(swinging(), 5.0)

    run, _ = bench.abort(body)
    with run:
        assert run.reason.startswith("temperature_limit; safe_state_failed: ")
        assert "the line does not answer" in run.events[-1].message


def test_a_mistake_in_a_controller_makes_the_rig_safe(bench: Any) -> None:
    def broken(tick: Tick, command: Command) -> None:
        raise ZeroDivisionError("a gain of nothing")

    run, told = bench.abort(lambda recording: recording.run(broken, 1.0))
    with run:
        assert run.reason.startswith("bench_error: ")
        assert "a gain of nothing" in told
        assert not bench.joint.powered
