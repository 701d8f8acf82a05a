"""What a ``fault`` marker brings about befalls the simulated lab, one test long, and no real one."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

TWO_TESTS = """
    import pytest
    from bench.errors import SafetyAbort

    @pytest.mark.fault("estop_pressed", at="3 s")
    @pytest.mark.fault("drifting_cell", rate="5 mN/s")
    def test_broken(perform):
        with pytest.raises(SafetyAbort) as stopped:
            perform("indentation")
        assert stopped.value.reason == "estop_pressed"

    def test_sound(perform):
        perform("indentation")
"""


def test_faults_befall_the_test_that_names_them_and_no_other(lab: pytest.Pytester) -> None:
    lab.makepyfile(TWO_TESTS)
    lab.runpytest("--strict-markers").assert_outcomes(passed=2)
    pressed = "perform indentation x5 on liver_phantom_a for nobody (simulated)"
    assert (lab.path / "log.txt").read_text().splitlines() == [
        "open indenter mock indenter liver_phantom_a None",
        "fault {'name': 'estop_pressed', 'at_s': 3.0, 'parameters': {}}",
        "fault {'name': 'drifting_cell', 'at_s': 0.0, 'parameters': {'rate': '5 mN/s'}}",
        pressed,
        "close liver_phantom_a",
        "open indenter mock indenter liver_phantom_a None",
        pressed,
        "close liver_phantom_a",
    ]


def test_a_fault_is_refused_on_a_real_rig(lab: pytest.Pytester) -> None:
    lab.makepyfile(TWO_TESTS)
    result = lab.runpytest("--backend", "lab", "--operator", "A. Tester", "--specimen", "liver_phantom_a")
    result.stdout.fnmatch_lines(["*asks for the fault estop_pressed, drifting_cell, and this is a real rig*"])
    assert "fault" not in (lab.path / "log.txt").read_text()
    assert "1 passed" in result.stdout.str()


@pytest.mark.parametrize(
    ("marker", "said"),
    [
        ('"estop_presed"', "there is no fault 'estop_presed'. Did you mean \"estop_pressed\"?"),
        ('"estop_pressed", at="soon"', "the fault estop_pressed cannot come at 'soon'"),
        ('"lost_counts", pulses="many"', 'parameters.pulses: given "many", expected a whole number'),
        ('"stage_stall", colour="red"', 'given "colour", expected no parameters for the fault stage_stall'),
    ],
)
def test_a_fault_written_wrongly_is_told(lab: pytest.Pytester, marker: str, said: str) -> None:
    lab.makepyfile(f"import pytest\n@pytest.mark.fault({marker})\ndef test_it(perform): perform('indentation')\n")
    result = lab.runpytest()
    assert said in result.stdout.str()
    assert "perform" not in (lab.path / "log.txt").read_text()
