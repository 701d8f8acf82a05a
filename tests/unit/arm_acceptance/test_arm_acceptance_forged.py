"""Archives of an arm that are not what they say, in ways that leave good figures. None passes; each is named."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bench.acceptance import Outcome, Verdict

Judged = Callable[..., Verdict]
Columns = dict[str, Any]


@pytest.fixture
def tracked(judged_arm: Judged, simulated_arm: Any, truth: Any) -> Callable[..., Verdict]:
    """Judge a tracking that would pass, spoilt."""

    def judge(**spoilt: Any) -> Verdict:
        level = truth().level
        given = {
            "feedforward": simulated_arm.feedforward_text(level), "specimen": "bare_tool", "procedure": "arm_tracking",
        }  # fmt: skip
        return judged_arm("arm_friction_compensation", simulated_arm.tracking(level), None, **{**given, **spoilt})

    return judge


def refused(verdict: Verdict, said: str) -> None:
    assert verdict.outcome == Outcome.ERROR, verdict
    assert said in verdict.explanation


# -- the record


def copy_currents(columns: Columns) -> None:
    columns["current"] = columns["command"].copy()


def copy_currents_a_row_later(columns: Columns) -> None:
    columns["current"] = np.roll(columns["command"], 1, axis=0)


def no_current(columns: Columns) -> None:
    columns["current"] *= 0.0


def one_current_stands(columns: Columns) -> None:
    columns["current"][:, 2] = columns["current"][:, 2].mean()


def swap_currents(columns: Columns) -> None:
    columns["current"][:, [1, 2]] = columns["current"][:, [2, 1]]


def a_fifth_more_current(columns: Columns) -> None:
    columns["current"][:, 4] *= 1.2


def copy_positions(columns: Columns) -> None:
    columns["desired"] -= 3e-4


def turn_the_base(columns: Columns) -> None:
    columns["position"][:, 0] += 0.5


def swap_positions(columns: Columns) -> None:
    columns["position"][:, [1, 2]] = columns["position"][:, [2, 1]]


def hole(name: str) -> Callable[[Columns], None]:
    def spoil(columns: Columns) -> None:
        columns[name][len(columns[name]) // 2 + 7, 1] = np.nan

    return spoil


def later(columns: Columns) -> None:
    """The rows' time base is shifted; what says when commands went out is not."""
    columns["time"] = columns["time"] + 0.02


def slower(columns: Columns) -> None:
    columns["time"] *= 1.02


def back_and_forth(columns: Columns) -> None:
    columns["time"][300:350] = columns["time"][300:350][::-1]


def unknown_in_time(columns: Columns) -> None:
    columns["timing"][:, 2] = 0.05


def every_other_row(columns: Columns) -> None:
    drive = ("position", "current", "command", "desired", "desired_velocity", "feedback", "feedforward", "friction")
    for name in (*drive, "timing", "time", "force", "torque", "gauges"):
        columns[name] = columns[name][::2]


def the_last_tenth(columns: Columns) -> None:
    rows = round(0.9 * len(columns["time"]))
    for name, values in columns.items():
        if len(values) > rows:
            columns[name] = values[:rows]


def force_inverted(columns: Columns) -> None:
    columns["force"] *= -1.0


def force_swapped(columns: Columns) -> None:
    columns["force"] = columns["force"][:, [1, 0, 2]]


def force_of_another_zero(columns: Columns) -> None:
    columns["force"][:, 2] += 3.0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (copy_currents, "are those commanded to the last bit: they were not measured"),
        (copy_currents_a_row_later, "are those commanded to the last bit: they were not measured"),
        (no_current, "off the one commanded: it does not make the torque it is told"),
        (one_current_stands, "the servo of elbow carried a current"),
        (swap_currents, "off the one commanded"),
        (a_fifth_more_current, "the servo of wrist carried a current"),
        (copy_positions, "are those wanted to 1e-07 rad: they were not measured"),
        (turn_the_base, "joint base was up to 0.5 rad from where it was wanted"),
        (swap_positions, "from where it was wanted"),
        (hole("command"), "1 values of motor_…_command_current are missing or not finite"),
        (hole("feedforward"), "1 values of feedforward_…_torque are missing or not finite"),
        (hole("desired"), "1 values of desired_…_position are missing or not finite"),
        (hole("force"), "1 values of the wrist sensor's force and torque are missing or not finite"),
        (later, "the drives' time base was shifted"),
        (slower, "their time base is not the loop's"),
        (back_and_forth, "the drives' rows are not in the order of their time"),
        (unknown_in_time, "rows of the drives are known in time to 50 ms only"),
        (every_other_row, "their time base is not the loop's"),
        (the_last_tenth, "the record is not whole"),
        (force_inverted, "force, gauges and calibration do not belong together"),
        (force_swapped, "force, gauges and calibration do not belong together"),
        (force_of_another_zero, "is not what the tare's zero gives"),
    ],
)
def test_a_channel_that_does_not_agree_with_those_beside_it_is_named(
    tracked: Callable[..., Verdict], change: Callable[[Columns], None], said: str
) -> None:
    refused(tracked(change=change), said)


def test_ticks_that_were_not_counted_are_none(tracked: Callable[..., Verdict]) -> None:
    refused(tracked(change=lambda columns: columns.update(missed=np.full((3, 1), np.nan))), "missed_ticks are missing")


def test_an_archive_without_the_sensors_calibration_is_an_error(
    tracked: Callable[..., Verdict], repository: Any
) -> None:
    refused(tracked(texts={"calibration/wrist_ft90002.cal": "<nothing/>"}), "This is no ATI calibration file")
    other = (repository / "profiles/rigs/ft90001.cal").read_text(encoding="utf-8")
    refused(
        tracked(texts={"calibration/wrist_ft90002.cal": other}), "is of the sensor FT90001, and the rig's is FT90002"
    )


def test_other_torque_constants_than_those_used_do_not_explain_the_currents(
    tracked: Callable[..., Verdict], simulated_arm: Any
) -> None:
    text = simulated_arm.rig_text
    changed = text.replace('torque_constant = "4.8 N.m/A"', 'torque_constant = "5.2 N.m/A"')
    assert tracked().outcome == Outcome.PASS
    refused(tracked(texts={"rig.toml": changed}), "the torque commanded to shoulder and its feedback plus feed-forward")


# -- the plan


def test_a_phase_that_was_cut_is_not_the_phase(tracked: Callable[..., Verdict]) -> None:
    cut = tracked(rename=lambda phases: [(part, start + 0.5, end) for part, start, end in phases])
    refused(cut, "lasts 0.69 s, and the procedure makes it last 1.2 s")


def test_one_stretch_under_two_names_is_not_two(tracked: Callable[..., Verdict]) -> None:
    twice = tracked(rename=lambda phases: [*phases, (replace(phases[0][0], replicate=99), *phases[0][1:])])
    refused(twice, "overlap: they are not two")


@pytest.fixture
def excited(judged_arm: Judged, simulated_arm: Any) -> Callable[..., Verdict]:
    def judge(held: Any = None, **rest: Any) -> Verdict:
        parts = [simulated_arm.series("train", 1), held or simulated_arm.series("hold_out", 2)]
        relax = ('limit = "8 1"', 'limit = "1000 1"')  # random series are not designed ones
        return judged_arm(
            "arm_identification", parts, None, relax, specimen="bare_tool", procedure="arm_excitation", **rest
        )

    return judge


def named(**names: str) -> Callable[[Any], Any]:
    return lambda phases: [(replace(part, name=names[part.name]), *span) for part, *span in phases]


def test_a_hold_out_that_was_cut_or_is_the_other_trajectory_is_none(excited: Callable[..., Verdict]) -> None:
    refused(
        excited(rename=lambda phases: [phases[0], (phases[1][0], phases[1][1], phases[1][1] + 3.0)]),
        "hold_out 1 lasts 3 s, and the procedure makes it last 12 s",
    )
    refused(
        excited(rename=named(train="hold_out", hold_out="train")),
        "it is another motion than the phase is named for",
    )


def test_a_torque_that_never_changes_is_refused_and_no_division(arm_criteria: Any, simulated_arm: Any) -> None:
    from bench.acceptance.arm_evidence import ArmEvidence
    from bench.acceptance.arm_hold_out import evidence_of, hold_out_against_baseline
    from bench.errors import Refused

    parts = [simulated_arm.series("train", 1), simulated_arm.series("hold_out", 2)]
    run = simulated_arm.record(
        parts,
        procedure="arm_excitation",
        specimen="bare_tool",
        change=lambda columns: columns["current"][:, 2].fill(0.0),
    )
    evidence = ArmEvidence(run, arm_criteria("arm_identification").analysis)
    assert not evidence_of(evidence).measured[:, 2].any()
    with pytest.raises(Refused, match="a constant predicts it"):
        hold_out_against_baseline(evidence, None)  # type: ignore[arg-type]  # it does not look at the criterion


# -- payload


def hold(judged: Judged, arm: Any, truth: Any, **rest: Any) -> Verdict:
    from bench.models.arm_description import LinkInertia

    body = LinkInertia(1.0, np.array([0.0, 0.0, 0.095]), np.diag([5e-4, 5e-4, 3e-4]))
    given = {"feedforward": arm.feedforward_text(), "specimen": "payload_1kg", "procedure": "payload_hold", **rest}
    return judged("arm_payload", arm.hold(), truth(payload=body), **given)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('mass = "1 kg"', 'mass = "0.8 kg"', "is not what the feed-forward file full_arm"),
        ('mass_uncertainty = "1 g"', 'mass_uncertainty = "500 g"', "payload_1kg was weighed to 50.0% (k = 2) only"),
        ('"95 mm"', '"65 mm"', "is not what the feed-forward file full_arm"),
    ],
)
def test_a_payload_profile_that_was_changed_since_is_an_error(
    judged_arm: Judged, simulated_arm: Any, truth: Any, old: str, new: str, said: str
) -> None:
    text = simulated_arm.texts["payload_1kg"]
    assert old in text
    verdict = hold(judged_arm, simulated_arm, truth, texts={"specimen.toml": text.replace(old, new)})
    assert verdict.outcome == Outcome.ERROR
    assert said in verdict.explanation


def test_a_payload_that_is_mounted_otherwise_than_its_profile_says_is_an_error(
    judged_arm: Judged, simulated_arm: Any, truth: Any
) -> None:
    """Neither the mass nor the arm is at fault, and the wrist sensor knows where the weight hangs."""
    simulated_arm.texts["payload_1kg"] = simulated_arm.texts["payload_1kg"].replace('"95 mm"', '"65 mm"')
    refused(hold(judged_arm, simulated_arm, truth), "centre of mass lies at z = 95.")


def test_crossings_of_one_pose_are_not_many(judged_arm: Judged, simulated_arm: Any, truth: Any) -> None:
    def renumbered(phases: list[Any]) -> list[Any]:
        return [(replace(part, replicate=9 - part.replicate), *span) for part, *span in phases]

    refused(hold(judged_arm, simulated_arm, truth, rename=renumbered), "it is another pose's")


# -- touch and wrench


def rising(overshoot: float) -> Any:
    time = np.arange(0.0, 4.0, 0.01)
    force = 10.0 * (1.0 - np.exp(-10.0 * time)) + 10.0 * overshoot * (time / 0.3) * np.exp(1.0 - time / 0.3)
    return np.concatenate([np.zeros(60), force])


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("with_switch", "without_switch"), "10 N were fed forward where gains are not switched"),
        (("with_switch", "with_switch"), "10 N were fed forward where gains are not switched"),
        (("without_switch", "without_switch"), "N were fed forward, and 10 N should have been"),
    ],
)
def test_a_touch_is_with_the_switch_when_its_force_was_fed_forward(
    judged_arm: Judged, simulated_arm: Any, names: tuple[str, str], said: str
) -> None:
    """``names`` are what the two touches really were: without the switch, then with it, is what they are said to be."""
    parts = [simulated_arm.touch(name, 1, rising(0.4 - 0.3 * k)) for k, name in enumerate(names)]
    labels = ("without_switch", "with_switch")

    def labelled(phases: list[Any]) -> list[Any]:
        return [(replace(part, name=label), *span) for label, (part, *span) in zip(labels, phases, strict=True)]

    verdict = judged_arm(
        "arm_touch", parts, None, feedforward=simulated_arm.feedforward_text(), specimen="arm_phantom_a",
        procedure="approach_touch", rename=labelled,
    )  # fmt: skip
    assert verdict.outcome == Outcome.ERROR
    assert said in verdict.explanation


def test_a_joint_that_the_surface_holds_is_not_blamed_on_its_brake(judged_arm: Judged, simulated_arm: Any) -> None:
    """In contact friction takes up most of a set-point's way: what comes of it is judged, and no fault of the bench."""

    def lagging(columns: Columns) -> None:
        columns["desired"][:, 1] += 0.006 * np.sin(3.0 * columns["time"])

    parts = []
    for k, name in enumerate(("without_switch", "with_switch")):
        part = simulated_arm.touch(name, 1, rising(0.4 - 0.3 * k))
        position = part.position.copy()
        position[:, 1] += 0.001 * np.sin(0.03 * np.arange(len(position)))
        parts.append(replace(part, position=position))
    verdict = judged_arm(
        "arm_touch", parts, None, feedforward=simulated_arm.feedforward_text(), specimen="arm_phantom_a",
        procedure="approach_touch", change=lagging,
    )  # fmt: skip
    assert verdict.outcome == Outcome.PASS, verdict.explanation


def test_a_gauge_that_is_inverted_shows_by_the_weight_in_free_air(
    judged_arm: Judged, simulated_arm: Any, truth: Any
) -> None:
    """Force and gauges agree, by the calibration; only the weight knows that both are wrong."""

    def inverted(columns: Columns) -> None:
        off = columns["gauges"] - columns["zero"]
        off[:, 0] *= -1.0
        columns["gauges"] = off + columns["zero"]
        wrench = off @ simulated_arm.matrix.T
        columns["force"], columns["torque"] = wrench[:, :3], wrench[:, 3:]

    parts = [simulated_arm.series("train", 1), simulated_arm.series("hold_out", 2)]
    verdict = judged_arm(
        "arm_identification", parts, None, specimen="bare_tool", procedure="arm_excitation", change=inverted
    )
    refused(verdict, "a gauge is inverted, swapped or broken")


def test_what_comes_onto_the_tool_during_a_run_is_no_fault_of_the_arm(judged_arm: Judged, simulated_arm: Any) -> None:
    def loaded(columns: Columns) -> None:
        late = columns["time"] > 12.3
        columns["force"][late, 2] -= 2.0
        volts = np.concatenate([columns["force"], columns["torque"]], axis=1) @ np.linalg.inv(simulated_arm.matrix).T
        columns["gauges"] = volts + columns["zero"]

    parts = [simulated_arm.series("train", 1), simulated_arm.series("hold_out", 2)]
    verdict = judged_arm(
        "arm_identification", parts, None, specimen="bare_tool", procedure="arm_excitation", change=loaded
    )
    refused(verdict, "something else is on the tool than bare_tool")
