"""The plug-in on a rig of another kind: its first load, a feed-forward handed over, no procedure of the other kind."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]


def test_a_joint_gets_its_first_load_and_another_when_asked_for(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.rig("single_joint")

        def test_tracking(perform): perform("low_speed_tracking", feedforward="identified.toml")
        def test_ramp(perform): perform("stiffness_ramp", specimen="output_lock")
        """
    )
    lab.runpytest("--rig", "single_joint").assert_outcomes(passed=2)
    assert (lab.path / "log.txt").read_text().splitlines() == [
        "open single_joint mock single_joint pendulum_arm None",
        "perform low_speed_tracking x2 on pendulum_arm for nobody (simulated)",
        "close pendulum_arm",
        "open single_joint mock single_joint output_lock None",
        "perform stiffness_ramp x3 on output_lock for nobody (simulated)",
        "close output_lock",
    ]
    lab.runpytest().assert_outcomes(skipped=2)


@pytest.mark.parametrize(
    ("rig", "procedure", "said"),
    [
        (
            "indenter",
            "friction_sweep",
            "*the rig indenter is of kind indenter and cannot do friction_sweep*single_joint*",
        ),
        ("single_joint", "indentation", "*the rig single_joint is of kind single_joint and cannot do indentation*"),
    ],
)
def test_a_procedure_of_another_kind_of_rig_is_refused_before_anything_is_opened(
    lab: pytest.Pytester, rig: str, procedure: str, said: str
) -> None:
    lab.makepyfile(f"def test_it(perform): perform({procedure!r})")
    result = lab.runpytest("--rig", rig)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines([said])
    assert "open" not in (lab.path / "log.txt").read_text()


def test_a_feedforward_file_that_is_not_there_ends_the_session(lab: pytest.Pytester) -> None:
    lab.makepyfile("def test_it(perform): pass")
    result = lab.runpytest("--feedforward", "nowhere.toml")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--feedforward nowhere.toml: no such file*"])
