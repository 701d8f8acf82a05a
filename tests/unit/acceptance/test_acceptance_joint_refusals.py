"""Archives of a joint that cannot be judged: each refusal is its own sentence, an ERROR, and has no value."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Verdict
from bench.models.friction import Friction

Judged = Callable[..., Verdict]


def refused(verdict: Verdict, outcome: str, said: str) -> None:
    assert {str(row.outcome) for row in verdict.rows} == {outcome}, [row.detail for row in verdict.rows]
    assert all(math.isnan(row.value) for row in verdict.rows)
    assert said in verdict.explanation


def drifting(made: Any) -> None:
    made.daq["joint_torque"] += 8e-3 * made.daq["time"]
    made.daq["transducer_voltage"] += 8e-3 / 3.0 * made.daq["time"]


def dead(made: Any) -> None:
    made.daq["joint_torque"] *= 0.0
    made.daq["transducer_voltage"] = made.daq["joint_torque"] + 0.01


def inverted(made: Any) -> None:
    made.daq["joint_torque"] *= -1.0
    made.daq["transducer_voltage"] = made.daq["joint_torque"] / 3.0 + 0.01


def saturated(made: Any) -> None:
    made.daq["transducer_voltage"][5000] = 9.99


def at_the_limit(made: Any) -> None:
    made.drive["command_torque"][5000] = 0.22


def missed(made: Any) -> None:
    made.missed = 1000


def late(made: Any) -> None:
    made.drive["time_half_width"][:] = 0.02


def hot(made: Any) -> None:
    made.drive["drive_temperature"][-4000:] = 40.0


def standing(made: Any) -> None:
    """From the second half on nothing moves, neither motor nor joint."""
    for arrays, name in ((made.daq, "joint_angle"), (made.drive, "motor_angle")):
        half = len(arrays[name]) // 2
        arrays[name][half:] = arrays[name][half]


def other_command(made: Any) -> None:
    made.drive["command_torque"] *= 1.2


def another_ratio(made: Any) -> None:
    made.drive["motor_angle"] *= 1.1


def slightly_another_ratio(made: Any) -> None:
    made.drive["motor_angle"] *= 1.01


def lost_counts(made: Any) -> None:
    made.daq["joint_angle"] += 0.012 * (made.daq["time"] > 20.0)


def another_tare(made: Any) -> None:
    made.daq["joint_torque"] += 0.06


def turned(made: Any) -> None:
    made.drive["motor_angle"] *= -1.0


def one_way(made: Any) -> None:
    made.phases = [phase for phase in made.phases if phase[2] > 0]


def once(made: Any) -> None:
    made.phases = [phase for phase in made.phases if phase[1] <= 2]


def elsewhere(made: Any) -> None:
    """Two seconds of the drive's rows are missing where the joint is judged."""
    at = made.drive["time"]
    kept = (at < 14.0) | (at > 16.0)
    made.drive = {name: values[kept] for name, values in made.drive.items()}


@pytest.mark.parametrize(
    ("change", "outcome", "said"),
    [
        (drifting, "ERROR", "the zero of the torque transducer moved by"),
        (saturated, "ERROR", "the torque transducer reached the end of its range"),
        (at_the_limit, "ERROR", "the commanded torque stood at its limit"),
        (missed, "ERROR", "ticks of the control loop were missed"),
        (late, "ERROR", "are known on the DAQ's clock to 12 ms only"),
        (hot, "ERROR", "40.0 degC, and the feed-forward holds for 22.0 to 31.0 degC"),
        (standing, "ERROR", "the joint moved at +0 rad/s, and the phase is of +0.02"),
        (other_command, "ERROR", "the record does not say what the drive was told"),
        (another_ratio, "ERROR", "the motor turns 1.099 times the angle"),
        (another_tare, "ERROR", "not the tare's (they part by 0.06 N.m)"),
        (turned, "ERROR", "motor and joint encoder turn opposite ways"),
        (elsewhere, "ERROR", "the rows of the drive have a hole of 2"),
        (one_way, "NOT-RUN", "'compensated' was tracked in one direction only"),
        (once, "NOT-RUN", "a single replicate in each direction"),
    ],
)
def test_a_tracking_that_is_not_what_it_says_has_no_value(
    judged_joint: Judged, simulated_joint: Any, change: Callable[[Any], None], outcome: str, said: str
) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(), feedforward=simulated_joint.feedforward_text(), change=change
    )
    rows = verdict.rows if change is not drifting else tuple(row for row in verdict.rows if row.id != "feedback_torque")
    assert {str(row.outcome) for row in rows} == {outcome}, [row.detail for row in rows]
    assert all(math.isnan(row.value) for row in rows)
    assert said in verdict.explanation


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("rig.toml", "due = 2036-01-07", "due = 2026-02-01", "SYN-TT-0001, SYN-EN-0002, SYN-DQ-0002 had expired"),
        ("rig.toml", 'range_max = "25 N.m"', 'range_max = "0.5 N.m"', "lies outside the calibrated range, 0.01 to 0.5"),
        (
            "rig.toml",
            'instrument = "torque_transducer"',
            'instrument = "drive"',
            "no certificate of the torque transducer",
        ),
        ("rig.toml", 'sensitivity = "3 N.m/V"', 'sensitivity = "2.6 N.m/V"', "torque, voltage and rig profile do not"),
        ("specimen.toml", 'name = "pendulum_arm"', 'name = "other_arm"', "the specimen profile in it is of other_arm"),
    ],
)
def test_profiles_that_cannot_vouch_for_a_figure_are_the_benchs_error(
    judged_joint: Judged, simulated_joint: Any, name: str, old: str, new: str, said: str
) -> None:
    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text(),
        replace=((name, old, new),),
    )
    first = verdict.rows[0]
    assert (str(first.outcome), math.isnan(first.value)) == ("ERROR", True)
    assert said in first.detail


def test_another_speed_than_the_criteria_name_is_not_judged(judged_joint: Judged, simulated_joint: Any) -> None:
    verdict = judged_joint(
        "tracking", simulated_joint.tracking(speed=0.04), feedforward=simulated_joint.feedforward_text()
    )
    refused(verdict, "NOT-RUN", "no phase 'compensated' at 0.02 rad/s; those here run at +0.04")


def test_an_aborted_run_is_the_benchs_error(judged_joint: Judged, simulated_joint: Any) -> None:
    verdict = judged_joint("step", simulated_joint.stepping(), status="ABORTED", reason="thermal: 61 degC")
    refused(verdict, "ERROR", "the run is ABORTED (thermal: 61 degC)")


def moved_start(made: Any) -> None:
    made.daq["joint_angle"] += 0.05


def restless(made: Any) -> None:
    made.daq["joint_angle"] += 2e-3 * np.sin(40 * made.daq["time"])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (moved_start, "the joint had 0.07 rad to go, and the step commanded is 0.12 rad"),
        (restless, "the joint was not seen at rest before it was stepped"),
        (at_the_limit, "the commanded torque stood at its limit"),
        (dead, "the torque transducer hardly moved in the whole run"),
        (inverted, "the torques of motor and transducer go against each other"),
    ],
)
def test_a_step_that_is_not_the_one_commanded_has_no_value(
    judged_joint: Judged, simulated_joint: Any, change: Callable[[Any], None], said: str
) -> None:
    refused(judged_joint("step", simulated_joint.stepping(), change=change), "ERROR", said)


def test_a_step_recorded_for_too_short_to_settle_does_not_count_as_settled_at_its_end(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    """Friction holds the joint outside of the band for good; the record ends just when it should have settled."""
    made = simulated_joint.stepping(Friction(0.25, 0.0, 0.0, 0.05), record=1.65)
    row = next(row for row in judged_joint("step", made).rows if row.metric == "settling_time_deviation")
    assert str(row.outcome) == "ERROR"
    assert "had not settled when the record ended" in row.detail


def test_a_zero_that_moves_between_the_trajectories_is_not_blamed_on_the_parameters(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    verdict = judged_joint("excitation", simulated_joint.exciting(held_out_offset=0.2))
    refused(verdict, "ERROR", "moved by 0.2 N.m between the two trajectories")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (slightly_another_ratio, "the motor turns 1.01 times the angle"),
        (lost_counts, "mrad at most: counts were lost, a coupling slipped"),
    ],
)
def test_encoders_that_part_by_more_than_the_gear_gives_way_are_found(
    judged_joint: Judged, simulated_joint: Any, change: Callable[[Any], None], said: str
) -> None:
    refused(judged_joint("excitation", simulated_joint.exciting(), change=change), "ERROR", said)


def lighter(made: Any) -> None:
    """The transducer reads a fifth less, and the load seems lighter by as much."""
    made.daq["joint_torque"] *= 0.8
    made.daq["transducer_voltage"] = made.daq["joint_torque"] / 3.0 + 0.01


@pytest.mark.parametrize(
    ("change", "replace", "said"),
    [
        (lighter, ('gravity_moment = "2.5 N.m"', 'gravity_moment = "2 N.m"'), "makes 0.8 times the torque it is told"),
        (None, ('gravity_moment = "2.5 N.m"', 'gravity_moment = "1.5 N.m"'), "weighs 2.5 N.m and hangs at"),
        (None, ('gravity_phase = "0 deg"', 'gravity_phase = "30 deg"'), "2.5 N.m at 30 deg"),
        (None, ('link_inertia = "0.4 kg.m2"', 'link_inertia = "2 kg.m2"'), "an inertia of 0.4 kg.m2, the profile of"),
    ],
)
def test_a_fit_that_takes_up_another_load_or_scale_proves_nothing(
    judged_joint: Judged, simulated_joint: Any, change: Any, replace: tuple[str, str] | None, said: str
) -> None:
    """Its parameters predict the hold-out as well: only what is known otherwise shows that they are not the joint's."""
    verdict = judged_joint(
        "excitation",
        simulated_joint.exciting(),
        change=change or (lambda made: None),
        replace=(("specimen.toml", *replace),) if replace else (),
    )
    refused(verdict, "ERROR", said)


def test_a_feedforward_whose_torque_scale_is_far_from_one_was_identified_with_a_wrong_transducer(
    judged_joint: Judged, simulated_joint: Any
) -> None:
    def told_less(made: Any) -> None:
        made.drive["command_torque"] /= 0.85

    verdict = judged_joint(
        "tracking",
        simulated_joint.tracking(),
        feedforward=simulated_joint.feedforward_text().replace("torque_scale = 1.0", "torque_scale = 0.85"),
        change=told_less,
    )
    refused(verdict, "ERROR", "the drive makes 0.85 times the torque it is told")
