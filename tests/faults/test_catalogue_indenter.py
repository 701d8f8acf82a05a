"""Every fault that can befall an indenter makes its own check fail, in words that name it; without one none does.

A fault of the bench ends the run, or leaves a verdict ERROR of every criterion: nothing is said of the specimen then.
``BENCH_FAULT_SEEDS=50`` (``make faults``) takes the long rows and fifty sound specimens as well.
"""

from __future__ import annotations

import os
import re
from datetime import date
from typing import Any

import pytest

from bench.archive import Run
from bench.clock import sleep
from bench.errors import Refused
from bench.identify.plate import check_frame_stiffness

SEEDS = int(os.environ.get("BENCH_FAULT_SEEDS", "0"))
long = pytest.mark.skipif(SEEDS == 0, reason="make faults takes it: BENCH_FAULT_SEEDS")

JUDGED = {"replicates": 2, "second_replicates": 1, "second_speeds": ["1 mm/s"], "depth": "6 mm", "block": "200 ms"}
ALL = {"peak_force", "rise_slope", "residual_force", "residual_force_relative"}
AT_FIRST, PRESSING, STANDING = 0.0, "pressing", "baseline"

#: Fault, its parameters, when it comes, the reason the run ends for, words of the message.
ENDS: list[tuple[str, dict[str, Any], str | float, str, str]] = [
    ("estop_pressed", {}, PRESSING, "estop", "the e-stop is pressed"),
    ("stuck_encoder", {}, PRESSING, "positions_disagree", "the stage reports .* the encoder .*stuck .*encoder"),
    ("stuck_encoder", {}, AT_FIRST, "positions_disagree", "stuck or swapped encoder"),
    ("encoder_direction_swapped", {}, PRESSING, "positions_disagree", "stuck or swapped encoder"),
    ("encoder_direction_swapped", {}, AT_FIRST, "positions_disagree", "stuck or swapped encoder"),
    ("lost_counts", {"pulses": 100}, PRESSING, "positions_disagree", "lost counts"),
    ("lost_steps", {"distance": "0.3 mm"}, PRESSING, "positions_disagree", "a stage that lost steps"),
    ("wrong_gear_ratio", {}, AT_FIRST, "positions_disagree", "microstep_size"),
    ("wrong_gear_ratio", {"factor": "105 %"}, AT_FIRST, "positions_disagree", "microstep_size"),
    ("stage_stall", {}, PRESSING, "instrument_error", "the stage shows FS, stalled"),
    ("saturated_cell", {}, PRESSING, "sensor_saturated", "the force sensor touches the end of its range"),
    ("saturated_cell", {}, AT_FIRST, "sensor_saturated", "touches the end of its range at 0.000 s"),
    ("broken_wire", {"gauge": 2}, PRESSING, "sensor_saturated", "a broken gauge"),
    ("broken_wire", {"gauge": 0}, AT_FIRST, "sensor_saturated", "a broken gauge"),
    ("gauges_swapped", {}, AT_FIRST, "side_load", "across it.*gauges that are swapped or inverted"),
    ("gauge_inverted", {"gauge": 0}, AT_FIRST, "side_load", "a moment as if .*gauges that are swapped or inverted"),
    (
        "drifting_cell",
        {},
        AT_FIRST,
        "zero_drifts",
        r"zero drifts: the force changes by (9\d|1[01]\d)(\.\d)? mN/s while .* in free air",
    ),
    ("drifting_cell", {"rate": "-20 mN/s"}, AT_FIRST, "zero_drifts", "changes by -[12].* mN/s while .* in free air"),
    ("drifting_cell", {}, PRESSING, "zero_drifts", "the force zero drifts.* mm after it set out"),
    ("dropped_samples", {"count": 20}, STANDING, "daq_error", "about 20 samples are missing"),
    ("dropped_samples", {"count": 100}, PRESSING, "daq_error", "about 100 samples are missing"),
    ("dropped_samples", {"count": 500}, PRESSING, "daq_error", "samples are missing"),
    ("buffer_overwrite", {}, PRESSING, "daq_overrun", "unread samples were overwritten.* -200279"),
    (
        "late_reply",
        {"delay": "2 s"},
        PRESSING,
        "instrument_timeout",
        "stage.* no valid reply to 'get pos' within 0.5 s",
    ),
    ("corrupt_checksum", {}, PRESSING, "instrument_timeout", "stage.*(checksum|damaged line)"),
    ("device_unplugged", {"device": "stage"}, PRESSING, "instrument_disconnected", "stage: the device went away"),
]

#: What is wrong before anything moves: it is not opened.
REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"fault": "estop_pressed"}, "estop", "the e-stop is pressed"),
    ({"fault": "stage_stall"}, "InstrumentError", "the stage shows FS, stalled"),
    ({"fault": "device_unplugged", "parameters": {"device": "stage"}}, "InstrumentDisconnected", "stage: cannot open"),
    ({"fault": "device_unplugged", "parameters": {"device": "daq"}}, "DaqDisconnected", "DAQ Dev1: .* was removed"),
    (
        {"rig_changes": [("ft90001.cal", "wrist_ft90002.cal")]},
        "CalibrationError",
        "the calibration is that of FT90002, the profile says FT90001",
    ),
    ({"today": date(2037, 1, 1)}, "CalibrationError", "expired on 2037-01-01: force_sensor: certificate SYN-FT-0001"),
    ({"rig_changes": [("57012", "57013")]}, "InstrumentError", "serial number 57012, expected 57013"),
]

#: What no sample shows while it runs: the verdict is ERROR of every criterion.
UNJUDGED: list[tuple[str, dict[str, Any], float, str]] = [
    ("wrong_phantom", {}, AT_FIRST, "is this the specimen named"),
    ("drifting_cell", {"rate": "3 mN/s"}, 20.0, "the force zero drifts by"),
]


@pytest.mark.parametrize(("fault", "parameters", "when", "reason", "words"), ENDS)
def test_a_fault_of_the_bench_ends_the_run_by_its_own_check(
    befall: Any, fault: str, parameters: dict[str, Any], when: str | float, reason: str, words: str
) -> None:
    outcome = befall(
        "indenter", "indentation_short", "liver_phantom_a", fault=fault, parameters=parameters, when=when
    )  # fmt: skip
    assert (outcome.kind, outcome.checks) == ("aborted", {reason}), str(outcome)
    assert re.search(words, outcome.said), outcome.said


@pytest.mark.parametrize(("wrong", "check", "words"), REFUSED)
def test_what_is_wrong_from_the_start_is_not_opened(befall: Any, wrong: dict[str, Any], check: str, words: str) -> None:
    outcome = befall("indenter", "indentation_short", "liver_phantom_a", **wrong)
    assert (outcome.kind, outcome.checks) == ("refused", {check}), str(outcome)
    assert re.search(words, outcome.said), outcome.said


def test_samples_overwritten_on_a_stalled_machine_end_the_run(befall: Any) -> None:
    outcome = befall(
        "indenter", "indentation_short", "liver_phantom_a", when=PRESSING, strike=lambda rig: sleep(rig.clock, 10.5)
    )
    assert (outcome.kind, outcome.checks) == ("aborted", {"daq_overrun"}), str(outcome)
    assert "unread samples were overwritten" in outcome.said


def test_a_daq_that_is_gone_leaves_the_enable_line_high_and_that_is_told(befall: Any) -> None:
    outcome = befall(
        "indenter", "indentation_short", "liver_phantom_a",
        fault="device_unplugged", parameters={"device": "daq"}, when=PRESSING, safe=False,
    )  # fmt: skip
    assert (outcome.kind, outcome.checks) == ("aborted", {"instrument_disconnected", "safe_state_failed"}), str(outcome)
    assert re.search("DAQ Dev1.* was removed", outcome.said), outcome.said


@pytest.mark.parametrize(("fault", "parameters", "when", "words"), UNJUDGED)
def test_what_no_press_can_see_in_another_leaves_no_verdict(
    befall: Any, fault: str, parameters: dict[str, Any], when: float, words: str
) -> None:
    outcome = befall(
        "indenter", "indentation", "liver_phantom_a",
        fault=fault, parameters=parameters, when=when, overrides=JUDGED, criteria="contact_model", seed=2,
    )  # fmt: skip
    assert (outcome.kind, outcome.checks) == ("ERROR", ALL), str(outcome)
    assert re.search(words, outcome.said), outcome.said


def test_a_press_too_shallow_to_tell_the_specimen_is_not_judged(befall: Any) -> None:
    """The stiffer specimen stops a press to a force before the depth at which the right one is known."""
    to_a_force = {**JUDGED, "depth": None, "force": "2.5 N"}
    outcome = befall(
        "indenter", "indentation", "liver_phantom_a",
        fault="wrong_phantom", overrides=to_a_force, criteria="contact_model", seed=2,
    )  # fmt: skip
    assert (outcome.kind, outcome.checks) == ("ERROR", ALL), str(outcome)
    assert "not every press reached 5 mm" in outcome.said


@pytest.mark.parametrize("factor", [pytest.param("130 %", marks=long), "80 %"])
def test_a_sensor_of_another_calibration_makes_another_frame(befall: Any, factor: str) -> None:
    """A press compares newtons with newtons: that they are none is seen by what is known otherwise."""
    outcome = befall(
        "indenter", "frame_stiffness", "rigid_plate",
        fault="wrong_calibration_file", parameters={"factor": factor}, overrides={"replicates": 1},
    )  # fmt: skip
    assert outcome.kind == "COMPLETE", str(outcome)
    with Run.open(outcome.archive) as run, pytest.raises(Refused, match="calibration file is this sensor's"):
        check_frame_stiffness(run, befall.rig("indenter").frame)


@pytest.mark.parametrize("seed", [2, *(pytest.param(1000 + number, marks=long) for number in range(SEEDS or 1))])
def test_a_sound_bench_raises_no_alarm(befall: Any, seed: int) -> None:
    outcome = befall(
        "indenter", "indentation", "liver_phantom_a", overrides=JUDGED, criteria="contact_model", seed=seed
    )
    # Two replicates leave a wide U: within the limit is what can be asked for here.
    assert outcome.kind in ("PASS", "MARGINAL"), str(outcome)
