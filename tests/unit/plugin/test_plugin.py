"""The pytest plug-in on generated labs: what a verdict does to a test, and what is recorded of it."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

PRESS = """
    def test_press(perform, judge):
        run = perform("indentation")
        verdict = judge("contact_model", run)
        assert verdict.outcome in ("PASS", "MARGINAL")
"""


def verdict_files(lab: pytest.Pytester, folder: str = "results") -> list[Path]:
    return sorted((lab.path / folder).glob("*.verdict-*.json"))


def test_a_pass_is_archived_judged_and_shown_as_simulated(lab: pytest.Pytester) -> None:
    lab.makepyfile(PRESS)
    result = lab.runpytest()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "bench: rig indenter, backend mock (SIMULATED)",
            "*= verdicts (SIMULATED) =*",
            "criterion *value ± U *limit *unit *outcome *archive",
            "contact_model/peak_force *4.2 ± 1.3 *< 10 *% *PASS *results*indentation*.h5 (SIMULATED)",
        ]
    )
    (stored,) = verdict_files(lab)
    record = json.loads(stored.read_text(encoding="utf-8"))["verdict"]
    assert record["outcome"] == "PASS"
    assert record["judged"]["test"] == "test_a_pass_is_archived_judged_and_shown_as_simulated.py::test_press"


@pytest.mark.parametrize(
    ("outcome", "counted", "message"),
    [
        ("FAIL", {"failed": 1}, "*contact_model FAIL (SIMULATED)*"),
        ("MARGINAL", {"failed": 1}, "*MARGINAL is not a pass*--accept-marginal*"),
        ("NOT-RUN", {"failed": 1}, "*not everything was judged, and a missing value never passes*"),
        ("ERROR", {"errors": 1}, "*the bench is at fault, not the device under test*"),
    ],
)
def test_only_pass_passes(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, outcome: str, counted: dict[str, int], message: str
) -> None:
    monkeypatch.setenv("FAKE_OUTCOME", outcome)
    lab.makepyfile(PRESS)
    result = lab.runpytest()
    result.assert_outcomes(**counted)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines([message])
    result.stdout.fnmatch_lines(
        [f"contact_model/peak_force *{outcome} *", "contact_model: contact stiffness explains it"]
    )
    assert len(verdict_files(lab)) == 1, "a verdict that is not a pass is kept as well"


def test_a_failure_shows_the_line_of_the_test_and_not_the_inside_of_the_plugin(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OUTCOME", "FAIL")
    lab.makepyfile(PRESS)
    result = lab.runpytest()
    result.stdout.fnmatch_lines(
        ['>*judge("contact_model", run)', "E*contact_model FAIL*", "E*FAIL*peak_force: 4.2 ± 1.3 %*"]
    )
    result.stdout.no_fnmatch_line("*fixtures*judging.py*")


def test_a_marginal_verdict_can_be_accepted_and_stays_marginal(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_OUTCOME", "MARGINAL")
    lab.makepyfile(PRESS)
    result = lab.runpytest("--accept-marginal", "--junitxml=report.xml")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["contact_model/peak_force *MARGINAL (accepted) *"])
    record = json.loads(verdict_files(lab)[0].read_text(encoding="utf-8"))["verdict"]
    assert (record["outcome"], record["judged"]["marginal_accepted"]) == ("MARGINAL", True)
    assert properties(lab)["contact_model.outcome"] == "MARGINAL"
    assert properties(lab)["contact_model.marginal_accepted"] == "True"


def properties(lab: pytest.Pytester) -> dict[str, str]:
    tree = ElementTree.parse(lab.path / "report.xml")
    return {item.attrib["name"]: item.attrib["value"] for item in tree.iter("property")}


def test_junit_carries_the_figures(lab: pytest.Pytester) -> None:
    lab.makepyfile(PRESS)
    lab.runpytest("--junitxml=report.xml")
    found = properties(lab)
    assert found["contact_model.outcome"] == "PASS"
    assert found["contact_model.simulated"] == "True"
    assert len(found["contact_model.archive_digest"]) == 64
    assert Path(found["contact_model.archive"]).is_file()
    assert Path(found["contact_model.record"]) == verdict_files(lab)[0]
    row = {key.rpartition(".")[2]: value for key, value in found.items() if key.startswith("contact_model.peak_force.")}
    assert row == {
        "outcome": "PASS", "value": "4.25", "expanded_uncertainty": "1.26", "limit": "10.0", "unit": "%"
    }  # fmt: skip


def test_a_missing_value_is_called_missing(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_OUTCOME", "ERROR")
    lab.makepyfile(PRESS)
    lab.runpytest("--junitxml=report.xml")
    assert properties(lab)["contact_model.peak_force.value"] == "missing"


def test_criteria_that_do_not_exist_are_the_benchs_error(lab: pytest.Pytester) -> None:
    lab.makepyfile('def test_press(perform, judge): judge("contact_modle", perform("indentation"))')
    result = lab.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(['*there is no profile "contact_modle"*contact_model*'])


def test_overrides_are_checked_and_archived(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        import pytest
        from bench.errors import ProfileError

        def test_press(perform):
            run = perform("indentation", replicates=7, depth=None, force="3 N", second_speeds=["1 mm/s"])
            assert run.provenance["details"]["overrides"] == {
                "replicates": 7, "depth": None, "force": "3 N", "second_speeds": ["1 mm/s"]
            }

        def test_mistyped(perform):
            with pytest.raises(ProfileError, match="replicates"):
                perform("indentation", replicate=7)
            with pytest.raises(ProfileError, match="speed"):
                perform("indentation", press_speed="2 mm")
        """
    )
    lab.runpytest().assert_outcomes(passed=2)
