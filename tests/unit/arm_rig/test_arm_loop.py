"""The clocked loop on an arm of a few lines: its grid, what it archives, its brakes, and every way it ends early."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.errors import DriveFault, DriveWatchdogTripped, LimitError
from bench.procedures.arm_loop import ArmCommand, ArmRecording, ArmTick


def events(run: Any) -> list[str]:
    return [event.code for event in run.events]


# -- what a run leaves


def test_a_tick_is_a_reading_a_command_and_a_row(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording)
        view = recording.run(controller, 2.0)
        assert [index for index, _ in controller.seen] == list(range(500))
        assert np.abs(np.diff([time_s for _, time_s in controller.seen]) - 0.004).max() < 1e-9
        assert view.time_s == pytest.approx([time_s for _, time_s in controller.seen])
        assert view.end_s - view.start_s == pytest.approx(2.0)
        assert view.position.shape == view.velocity.shape == view.command_torque.shape == (500, 6)
        assert np.abs(view.position - view.desired_position).max() < 0.03
        assert np.ptp(view.position, axis=0).min() > 0.15
        assert view.wrench.shape == (len(view.wrench_time_s), 6)
        assert view.wrench_time_s[-1] > view.time_s[-1] - 0.01
        recording.phase("train", 1, math.nan, view.start_s, view.end_s)

    with bench.run(body) as run:
        assert run.status == "COMPLETE"
        shaft = run.get("motor_2_position")
        assert len(shaft.values) == 500
        # read within 1 ms, stamped in its middle, and commanded right after
        assert set(np.round(run.get("time_half_width").values, 9)) == {0.0005}
        assert run.get("command_time").values - shaft.time_s == pytest.approx(np.full(500, 0.0005 + 0.0003))
        assert np.all(run.get("tick_lateness").values == 0.0)
        assert shaft.unit == "rad"
        wanted = run.get("desired_2_position").values
        assert np.abs(shaft.values / 2.0 - wanted).max() < 0.03
        sent = np.array(bench.arm.commands)[:500, 1]
        assert run.get("motor_2_command_current").values == pytest.approx(sent)
        assert run.get("motor_2_current").values[1:] == pytest.approx(sent[:-1])
        whole = run.get("feedback_2_torque").values + run.get("feedforward_2_torque").values
        assert 2.0 * 4.8 * sent == pytest.approx(whole)
        assert np.all(run.get("friction_2_torque").values == 0.0)
        assert run.get("motor_1_temperature").values.tolist() == [25.0] * len(run.get("supply_voltage").values)
        assert len(run.get("supply_voltage").values) == 2
        assert len(run.channel("missed_ticks").values) == 0
        assert run.phases[0].name == "train"
        assert [code for code in events(run) if code != "complete"] == ["tare", "brakes_open", "parked", "timing"]


def test_the_wrist_sensor_reads_the_turn_of_the_tools_weight(bench: Any, swing: Any) -> None:
    with bench.run(lambda recording: recording.run(swing(recording), 2.0)) as run:
        force = np.stack([run.get(f"force_{axis}").values for axis in "xyz"], axis=1)
        rest = run.get("force_x").time_s < 1.0
        assert np.abs(force[rest]).max() < 0.05, "the weight stands in the zero"
        middle = int(2.2e3)
        turned = bench.daq.wrist.weight(bench.arm.history[bench.daq.acquisitions[0].first + middle][:6])
        still = bench.daq.wrist.weight(bench.arm.history[bench.daq.acquisitions[0].first][:6])
        assert np.linalg.norm(turned - still) > 0.3
        assert force[middle] == pytest.approx((turned - still)[:3], abs=0.1)
        assert run.get("tare_gauge_0").values[0] == pytest.approx(run.get("gauge_0").values[:1000].mean(), abs=1e-6)
        assert len(run.get("gauge_5").values) == len(run.get("torque_z").values)


def test_force_is_as_old_as_a_drain_or_as_a_tick(bench: Any, swing: Any) -> None:
    ages: list[list[float]] = []

    def body(recording: ArmRecording) -> None:
        for forced in (False, True):
            recording.force_ticks(forced)
            controller = swing(recording, 0.0)
            view = recording.run(controller, 1.0)
            ages.append(controller.ages)
            assert np.diff(view.wrench_time_s) == pytest.approx(np.full(len(view.wrench_time_s) - 1, 0.001))

    bench.run(body).close()
    assert 0.05 < max(ages[0]) < 0.11
    assert max(ages[1]) < 0.008


def test_the_controller_ends_the_loop_and_the_next_goes_on_the_same_grid(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording, 0.0)

        def three(tick: ArmTick, command: ArmCommand) -> bool:
            controller(tick, command)
            return len(controller.seen) % 3 == 0

        assert len(recording.run(three, 1.0).time_s) == 3
        assert len(recording.run(three, 1.0).time_s) == 3
        assert np.diff([time_s for _, time_s in controller.seen]) == pytest.approx(np.full(5, 0.004))

    with bench.run(body) as run:
        assert events(run).count("brakes_open") == 1


def test_lists_of_another_length_are_no_command(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording)

        def short(tick: ArmTick, command: ArmCommand) -> None:
            controller(tick, command)
            if tick.index == 20:
                command.friction = [0.0] * 5

        recording.run(short, 1.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("bad_command: ")
        assert "friction 5" in told
        assert len(run.get("motor_1_position").values) == 20


# -- brakes


def test_brakes_open_after_the_first_command_and_close_before_the_last(bench: Any, swing: Any) -> None:
    bench.arm.log.clear()
    with bench.run(lambda recording: recording.run(swing(recording), 1.0)) as run:
        (opened,) = [event.time_s for event in run.events if event.code == "brakes_open"]
        assert opened == pytest.approx(run.get("command_time").values[0], abs=1e-9)
    assert bench.arm.log[:4] == ["torque True", "brake True", "brake False", "stop"]
    assert set(bench.arm.log[4:]) == {"brake False", "acquisition closed", "enable False"}
    assert bench.arm.unheld == []
    assert bench.arm.braked
    assert np.abs(bench.arm.v).max() == 0.0
    assert not bench.arm.enable, "without power until the next run"


def test_a_parked_arm_is_driven_again(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        recording.run(swing(recording, 0.05), 1.0)
        recording.park()
        bench.arm.sleep_until_ns(bench.arm.time_ns + 3_000_000_000)  # thinking, the arm is braked
        before = bench.arm.q.copy()
        recording.run(swing(recording, 0.0), 0.5)
        assert bench.arm.q == pytest.approx(before, abs=2e-3)

    with bench.run(body) as run:
        assert events(run).count("brakes_open") == 2
        assert len(run.channel("missed_ticks").values) == 0
    assert bench.arm.unheld == []


def test_brakes_open_and_nobody_commanding_end_the_run(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        recording.run(swing(recording), 1.0)
        bench.arm.sleep_until_ns(bench.arm.time_ns + 60_000_000)  # thinking, the brakes are open
        recording.run(swing(recording), 1.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("missed_ticks: ")
        assert "14 ticks of 4 ms were missed in a row, at most 10 may be" in told
    assert bench.arm.braked


def test_a_short_gap_between_two_runs_counts_as_missed_ticks(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording, 0.0)
        recording.run(controller, 1.0)
        bench.arm.sleep_until_ns(bench.arm.time_ns + 12_000_000)
        recording.run(controller, 0.1)

    with bench.run(body) as run:
        assert list(run.get("missed_ticks").values) == [2.0]


# -- every way a run ends


def strike(bench: Any, swing: Any, action: Callable[[], object], **options: Any) -> tuple[Any, str]:
    def body(recording: ArmRecording) -> None:
        bench.arm.at[bench.arm.time_ns * 1e-9 + 1.0] = action
        recording.run(swing(recording, **options), 5.0)

    run, told = bench.abort(body)
    assert bench.arm.braked
    assert not bench.arm.powered
    assert not bench.arm.enable
    assert bench.station.arm.latched
    assert bench.arm.q == pytest.approx(np.array(bench.arm.history[-1][:6])), "it stands"
    return run, told


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (DriveFault("servo id 13 (joint 3) has stopped: overload", code=32, where="bus"), "drive_fault"),
        (DriveWatchdogTripped("the bus watchdog of servo id 11 has tripped", where="bus"), "drive_watchdog"),
    ],
)
def test_what_a_servo_says_is_the_reason(bench: Any, swing: Any, error: Exception, reason: str) -> None:
    run, told = strike(bench, swing, lambda: setattr(bench.arm, "next_reply", error))
    with run:
        assert run.status == "ABORTED"
        assert run.reason.startswith(f"{reason}: ")
        assert str(error).partition(": ")[2] in told
        assert run.events[-1].code == "safe_state"
        assert "stand felt by the sensor: ok" in run.events[-1].message
        # the rows up to there, and what the wrist sensor felt after the stop
        assert run.get("motor_1_position").time_s[-1] == pytest.approx(2.0, abs=0.05)
        assert run.get("gauge_0").time_s[-1] > run.get("motor_1_position").time_s[-1] + 0.4
    log = bench.arm.log
    assert log.index("brake False") < log.index("stop") < log.index("enable False")
    assert bench.arm.unheld == [], "held by its weight until the brakes had closed"


def test_a_missing_servo_closes_the_brakes_before_it_is_known_who(bench: Any, swing: Any) -> None:
    run, told = strike(bench, swing, lambda: setattr(bench.arm, "missing", True))
    with run:
        assert run.reason.startswith("instrument_timeout: ")
        assert "servo id 13 (joint 3) did not answer" in told
        last = run.get("motor_1_position").time_s[-1]
        first = bench.daq.acquisitions[0].first
    speeds = np.abs(np.diff(np.array(bench.arm.history)[first:, :6], axis=0)).max(axis=1) * 1e3
    stood = np.flatnonzero(speeds > 1e-9)[-1] * 1e-3
    assert stood - last < 0.065, "the brakes' time and a tick"
    assert bench.arm.log.index("brake False") < bench.arm.log.index("stop") < bench.arm.log.index("enable False")


@pytest.mark.parametrize(("what", "reason"), [("dead", "instrument_timeout"), ("gone", "instrument_disconnected")])
def test_nobody_is_waited_for_where_nobody_answers(bench: Any, swing: Any, what: str, reason: str) -> None:
    struck: list[float] = []

    def act() -> None:
        struck.append(bench.arm.time_ns * 1e-9)
        bench.arm.log.clear()
        setattr(bench.arm, what, True)

    run, _ = strike(bench, swing, act)
    with run:
        assert run.reason.startswith(f"{reason}: ")
        assert "stop arm: FAILED" in run.events[-1].message
        assert "drop enable line: ok" in run.events[-1].message
        assert run.events[-1].code == "safe_state"
    assert next(line for line in bench.arm.log if line != "brake False") == "enable False", "nobody was told to stop"
    assert bench.arm.log[0] == "brake False"
    first = bench.daq.acquisitions[0].first
    speeds = np.abs(np.diff(np.array(bench.arm.history)[first:, :6], axis=0)).max(axis=1)
    stood = first * 1e-3 + np.flatnonzero(speeds > 1e-12)[-1] * 1e-3
    assert stood - struck[0] < 0.09


def test_a_pressed_estop_is_told_before_the_servos_that_lost_their_supply(bench: Any, swing: Any) -> None:
    run, _ = strike(bench, swing, lambda: setattr(bench.arm, "estop", False))
    with run:
        assert run.reason.startswith("estop: ")
        assert run.events[-1].code == "safe_state"


def test_a_brake_line_that_cannot_be_driven_leaves_the_brakes_to_the_enable_line(bench: Any, swing: Any) -> None:
    bench.arm.at[0.0] = lambda: setattr(bench.arm, "line_broken", True)
    run, _ = strike(bench, swing, lambda: setattr(bench.arm, "temperature", [90.0] * 6))
    with run:
        assert run.reason.startswith("temperature_limit: ")
        assert "stop arm: FAILED DaqDeviceError: the line does not answer" in run.events[-1].message
    assert "stop" not in bench.arm.log, "motors hold until the enable line takes them and closes the brakes"


def test_a_hot_servo_is_named(bench: Any, swing: Any) -> None:
    hot = [25.0] * 3 + [65.5] + [25.0] * 2
    run, told = strike(bench, swing, lambda: setattr(bench.arm, "temperature", hot))
    with run:
        assert run.reason.startswith("temperature_limit: ")
        assert "servo of joint forearm is at 66 degC, limit 65 degC" in told


def test_too_much_force_at_the_wrist_ends_the_run(bench: Any, swing: Any) -> None:
    run, told = strike(bench, swing, lambda: bench.arm.force.__setitem__(2, -61.0))
    with run:
        assert run.reason.startswith("force_limit: ")
        assert "limit 60 N" in told
        assert run.get("force_z").values.min() == pytest.approx(-61.0, abs=1.0), "archived before it is judged"


def test_a_phantom_lowers_the_force_limit(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        bench.arm.at[bench.arm.time_ns * 1e-9 + 0.5] = lambda: bench.arm.force.__setitem__(2, -41.0)
        recording.run(swing(recording), 5.0)

    run, told = bench.abort(body, "arm_phantom_a")
    with run:
        assert "limit 40 N" in told


def test_a_torn_gauge_wire_ends_the_run(bench: Any, swing: Any) -> None:
    run, _ = strike(bench, swing, lambda: bench.arm.wire.__setitem__(3, 20.0))
    with run:
        assert run.reason.startswith("sensor_saturated: ")


def test_lost_samples_end_the_run(bench: Any, swing: Any) -> None:
    run, told = strike(bench, swing, lambda: setattr(bench.daq.acquisitions[0], "gap_at", 0))
    with run:
        assert run.reason.startswith("daq_gap: ")
        assert "are missing" in told


def test_a_joint_that_runs_away_is_named_at_once(bench: Any, swing: Any) -> None:
    run, told = strike(bench, swing, lambda: bench.arm.push.__setitem__(2, 400.0))
    with run:
        assert run.reason.startswith("speed_limit: ")
        assert "joint elbow" in told


@pytest.mark.parametrize(("joint", "name"), [(1, "shoulder"), (5, "flange")])
def test_an_encoder_that_freezes_in_a_motion_is_told_within_two_ticks(
    bench: Any, swing: Any, joint: int, name: str
) -> None:
    run, told = strike(bench, swing, lambda: bench.arm.stick(joint), amplitude_rad=0.2)
    with run:
        assert run.reason.startswith("encoder_frozen: ")
        assert f"joint {name} turned at more than" in told
        assert run.get("motor_1_position").time_s[-1] < 2.02
        assert run.events[-1].code == "safe_state", "the wrist sensor is the witness"


def test_a_joint_that_is_driven_and_stands_is_told(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording, 0.0)
        bench.arm.stick(1)

        def push(tick: ArmTick, command: ArmCommand) -> None:
            controller(tick, command)
            command.torque[1] += 25.0 * min(1.0, max(0.0, tick.time_s - controller.start_s))

        recording.run(push, 3.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("joint_blocked: ")
        assert "joint shoulder is driven by" in told


def test_a_servo_that_does_not_carry_its_current_is_told(bench: Any, swing: Any) -> None:
    run, told = strike(bench, swing, lambda: bench.arm.weak.__setitem__(1, 0.0), amplitude_rad=0.0)
    with run:
        assert run.reason.partition(":")[0] in ("current_mismatch", "not_following", "speed_limit")
        assert "joint shoulder" in told


def test_a_torque_beyond_the_limit_is_refused_and_ends_the_run(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording)

        def push(tick: ArmTick, command: ArmCommand) -> None:
            controller(tick, command)
            command.torque[3] = 22.51

        recording.run(push, 1.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("torque_limit: ")
        assert "joint forearm: the torque 22.51 N.m is beyond the limit of 22.5 N.m" in told
    assert "brake True" not in bench.arm.log


def test_a_deadline_ends_the_run_within_a_drain(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        bench.station.supervisor._deadline_ns = bench.arm.time_ns + 500_000_000
        recording.run(swing(recording), 100.0)

    run, _ = bench.abort(body)
    with run:
        assert run.reason.startswith("deadline: ")
        assert run.get("motor_1_position").time_s[-1] == pytest.approx(1.6, abs=0.15)
    assert bench.arm.unheld == []


def test_a_mistake_in_a_controller_leaves_the_arm_braked(bench: Any, swing: Any) -> None:
    def body(recording: ArmRecording) -> None:
        controller = swing(recording)

        def broken(tick: ArmTick, command: ArmCommand) -> None:
            controller(tick, command)
            if tick.index == 100:
                raise ZeroDivisionError("a gain of nothing")

        recording.run(broken, 1.0)

    run, told = bench.abort(body)
    with run:
        assert run.reason.startswith("bench_error: ")
        assert "a gain of nothing" in told
    assert bench.arm.braked
    assert not bench.arm.powered
    assert bench.arm.unheld == []


# -- before and after


def test_a_path_that_is_refused_moves_nothing(bench: Any) -> None:
    bench.refusal = LimitError("joint elbow needs 41 N.m", reason="preflight_torque")
    bench.arm.log.clear()
    with pytest.raises(LimitError, match=r"elbow needs 41 N\.m"):
        bench.run(lambda recording: None)
    assert list(bench.results.iterdir()) == []
    assert bench.arm.log == []


def test_the_table_of_the_path_is_archived(bench: Any, swing: Any) -> None:
    with bench.run(lambda recording: recording.run(swing(recording), 0.1)) as run:
        details = run.provenance["details"]
        assert details["preflight"] == ["all limits are kept"]
        assert details["arm_limits"]["force_n"] == 60.0
        assert details["alignment"]["command_on_the_wire_s"] == 0.0003


def test_a_forgotten_payload_is_told_before_anything_moves(bench: Any) -> None:
    bench.arm.force[:3] = bench.daq.wrist.weight(bench.arm.q)[:3] / 0.4 * 2.0  # 2 kg on the tool
    run, told = bench.abort(lambda recording: None)
    with run:
        assert run.reason.startswith("wrong_load: ")
        assert "tool and payload of 0.4 kg make" in told
    assert "brake True" not in bench.arm.log


def test_an_arm_that_sinks_in_its_brakes_is_no_tare(bench: Any) -> None:
    def sink() -> None:
        bench.arm.q[1] += 0.01

    bench.arm.at[bench.arm.time_ns * 1e-9 + 0.5] = sink
    run, told = bench.abort(lambda recording: None)
    with run:
        assert run.reason.startswith("not_at_rest: ")
        assert "joint shoulder turned by 0.01 rad during the tare" in told


def test_after_an_abort_nothing_is_driven_until_the_station_is_made_ready(bench: Any, swing: Any) -> None:
    strike(bench, swing, lambda: setattr(bench.arm, "estop", False))[0].close()
    with pytest.raises(LimitError, match=r"stopped \(estop\)"):
        bench.run(lambda recording: None)
    bench.arm.estop = True
    bench.station.make_ready()
    with bench.run(lambda recording: recording.run(swing(recording, 0.0), 0.2)) as run:
        assert run.status == "COMPLETE"
