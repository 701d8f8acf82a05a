"""The catalogue of what can befall a single joint while it tracks slowly: its own check, by name, on the right side.

`test_joint_faults.py` and `test_joint_wiring.py` state the rest; docs/faults.md has all of it in one table.
"""

from __future__ import annotations

import os
import re
from datetime import date
from typing import Any

import pytest

pytestmark = pytest.mark.slow

#: World time of an instant in the middle of the tracking [s].
TRACKING = 15.0
#: Sound rigs that must raise no alarm; ``make faults`` takes fifty. The lab tests of the joint are one.
SEEDS = range(11, 11 + int(os.environ.get("BENCH_FAULT_SEEDS", "0")))
ALL = {"feedback_torque", "residual_torque", "tip_force"}

#: fault, its parameters, when [s], reason of the abort, words of the message.
ENDS: list[tuple[str, dict[str, Any], float, str, str]] = [
    ("broken_wire", {}, 0.0, "sensor_saturated", "the torque transducer touches the end of its range"),
    ("broken_wire", {}, TRACKING, "sensor_saturated", "the torque transducer touches the end of its range"),
    ("buffer_overwrite", {}, TRACKING, "daq_overrun", "unread samples were overwritten.* -200279"),
    ("wrong_gear_ratio", {}, 0.0, "gear_ratio", "rotor turns for one of the joint, the profile says 100"),
    ("encoder_direction_swapped", {}, TRACKING, "encoder_direction", "counted the other way"),
]


def _tracked(befall: Any, **what: Any) -> Any:
    return befall(
        "single_joint", "low_speed_tracking", "pendulum_arm",
        compensated=True, criteria="friction_compensation", **what,
    )  # fmt: skip


@pytest.mark.parametrize(("fault", "parameters", "when", "reason", "words"), ENDS)
def test_a_fault_of_the_bench_ends_the_run_by_its_own_check(
    befall: Any, fault: str, parameters: dict[str, Any], when: float, reason: str, words: str
) -> None:
    outcome = _tracked(befall, fault=fault, parameters=parameters, when=when)
    assert (outcome.kind, outcome.checks) == ("aborted", {reason}), str(outcome)
    assert re.search(words, outcome.said), outcome.said


def test_an_expired_certificate_is_refused(befall: Any) -> None:
    outcome = _tracked(befall, today=date(2037, 1, 1))
    assert (outcome.kind, outcome.checks) == ("refused", {"CalibrationError"}), str(outcome)
    assert "torque_transducer: certificate SYN-TT-0001 was due on 2036-01-07" in outcome.said


def test_lost_counts_leave_no_verdict(befall: Any) -> None:
    outcome = _tracked(befall, fault="lost_counts", when=TRACKING)
    assert (outcome.kind, outcome.checks) == ("ERROR", ALL), str(outcome)
    assert "the ratio or an encoder is wrong" in outcome.said


def test_a_drifting_transducer_leaves_no_verdict_of_what_it_measures(befall: Any) -> None:
    outcome = _tracked(befall, fault="drifting_cell", when=0.0)
    assert (outcome.kind, outcome.checks) == ("ERROR", ALL - {"feedback_torque"}), str(outcome)
    assert "the zero of the torque transducer moved by" in outcome.said


def test_friction_that_has_changed_fails_what_is_about_friction(befall: Any) -> None:
    """The device under test is another than it was: the only one of these that is a FAIL."""
    outcome = _tracked(befall, fault="friction_changed", when=12.0)
    assert (outcome.kind, outcome.checks) == ("FAIL", ALL - {"tip_force"}), str(outcome)
    assert "too little friction is compensated" in outcome.said


@pytest.mark.parametrize("seed", SEEDS)
def test_a_sound_joint_raises_no_alarm(befall: Any, seed: int) -> None:
    outcome = _tracked(befall, seed=seed)
    assert outcome.kind == "PASS", str(outcome)
