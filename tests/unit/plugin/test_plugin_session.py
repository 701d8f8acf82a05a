"""The pytest plug-in on generated labs: station, replay, options, progress, and being a guest in other sessions."""

from __future__ import annotations

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


# -- the station


def test_one_station_serves_the_session_and_is_closed(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        def test_nothing(): pass
        def test_first(perform): perform("indentation")
        def test_second(perform, station):
            assert station.name == "indenter"
            perform("indentation")
        """
    )
    lab.runpytest("--seed", "7", "--specimen", "liver_phantom_b").assert_outcomes(passed=3)
    assert (lab.path / "log.txt").read_text().splitlines() == [
        "open indenter mock indenter liver_phantom_b 7",
        "perform indentation x5 on liver_phantom_b for nobody (simulated)",
        "perform indentation x5 on liver_phantom_b for nobody (simulated)",
        "close liver_phantom_b",
    ]


def test_an_axis_left_moving_by_a_test_ends_the_driving(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.makepyfile(
        """
        def test_own_motion(station):
            assert station.name == "indenter"
            raise ValueError("a mistake of the lab's")
        def test_next(perform): perform("indentation")
        """
    )
    monkeypatch.setenv("FAKE_MOVING", "1")
    result = lab.runpytest()
    assert "2 failed" in result.stdout.str() or "1 failed, 1 error" in result.stdout.str()
    result.stdout.fnmatch_lines(["*test_own_motion ended while the axis moved, and the rig was made safe*"])
    assert "perform" not in (lab.path / "log.txt").read_text()


def test_a_rig_that_cannot_be_made_safe_at_the_end_is_an_error_though_every_test_has_passed(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.makepyfile("def test_press(perform): perform('indentation')")
    monkeypatch.setenv("FAKE_STUCK", "1")
    result = lab.runpytest()
    result.assert_outcomes(passed=1, errors=1)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["*ERROR at teardown of test_press*", "*the enable line still reads high. Press the e-stop*"]
    )


def test_nothing_is_driven_after_a_station_that_could_not_be_made_safe_when_it_was_closed(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab.makepyfile(
        """
        def test_press(perform): perform("indentation")
        def test_frame(perform): perform("frame_stiffness", specimen="rigid_plate")
        def test_again(perform): perform("indentation")
        """
    )
    monkeypatch.setenv("FAKE_STUCK", "1")
    result = lab.runpytest()
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(
        ["*could not be made safe when its station was closed (safe_state_failed); nothing is driven*"]
    )
    assert (lab.path / "log.txt").read_text().count("open indenter") == 1


def test_a_folder_for_results_that_cannot_be_made_is_told_before_the_rig_is_opened(lab: pytest.Pytester) -> None:
    lab.makepyfile("def test_press(perform): perform('indentation')")
    (lab.path / "taken").write_text("a file")
    result = lab.runpytest("--results=taken")
    result.stdout.fnmatch_lines(["*the folder for results cannot be made*--results=DIR*"])
    assert "open" not in (lab.path / "log.txt").read_text()


def test_the_twin_changes_its_specimen_between_runs_one_station_at_a_time(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        def test_press(perform): perform("indentation")
        def test_frame(perform, station):
            perform("frame_stiffness", specimen="rigid_plate")
            assert station.name == "indenter"
        """
    )
    lab.runpytest().assert_outcomes(passed=2)
    log = (lab.path / "log.txt").read_text()
    assert log.index("close liver_phantom_a") < log.index("open indenter mock indenter rigid_plate")


def test_a_lab_never_presses_what_is_not_mounted(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        def test_press(perform): perform("indentation")
        def test_frame(perform): perform("frame_stiffness", specimen="rigid_plate")
        """
    )
    result = lab.runpytest("--backend", "lab", "--operator", "A. B.", "--specimen", "liver_phantom_a", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines(["*needs the specimen rigid_plate; liver_phantom_a is mounted*"])
    assert "open indenter lab None liver_phantom_a" in (lab.path / "log.txt").read_text()
    lab.runpytest("--backend", "lab", "--operator", "A. B.").assert_outcomes(errors=2)


def test_a_station_that_does_not_open_is_tried_once(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_UNPLUGGED", "1")
    lab.makepyfile("def test_a(perform): perform('indentation')\ndef test_b(perform): perform('indentation')")
    result = lab.runpytest()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at call of test_a*",
            "*test_*.py:1:  def test_a(perform): perform('indentation')",
            "stage: the stage is gone. Plug it in",
            "the bench is at fault, not the device under test*-vv shows where in the bench*",
            "*the station could not be opened*nothing is driven any more*Put it right and start a new session",
        ]
    )
    result.stdout.no_fnmatch_line("*session.py*")
    lab.runpytest("-vv").stdout.fnmatch_lines(["*session.py*"])


def test_a_fixture_that_cannot_drive_says_so_without_a_traceback(
    lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UNPLUGGED", "1")
    lab.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="session")
        def identified(perform): return perform('indentation')

        def test_a(identified): pass
        """
    )
    result = lab.runpytest()
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        [
            "*ERROR at setup of test_a*",
            "*test_*.py:4:  def identified(perform): return perform('indentation')",
            "stage: the stage is gone. Plug it in",
            "the bench is at fault, not the device under test*",
        ]
    )
    result.stdout.no_fnmatch_line("*session.py*")


def test_after_a_safety_stop_nothing_is_driven(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ABORT", "estop")
    lab.makepyfile("def test_a(perform): perform('indentation')\ndef test_b(perform): perform('indentation')")
    result = lab.runpytest()
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*an earlier run was stopped for safety (estop)*"])
    assert (lab.path / "log.txt").read_text().count("perform") == 1


def test_a_refused_command_does_not_stop_the_session(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ABORT", "limit")
    lab.makepyfile("def test_a(perform): perform('indentation')\ndef test_b(perform): perform('indentation')")
    lab.runpytest().assert_outcomes(errors=2)
    assert (lab.path / "log.txt").read_text().count("perform") == 2


def test_a_signal_in_a_run_ends_the_session(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_ABORT", "signal_SIGINT")
    lab.makepyfile("def test_a(perform): perform('indentation')\ndef test_b(): pass")
    result = lab.runpytest()
    result.assert_outcomes(errors=1)
    assert result.ret == pytest.ExitCode.INTERRUPTED


# -- replay


def test_replay_reads_the_newest_run_of_the_procedure_and_opens_no_station(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        def test_press(perform, judge, request):
            run = perform("indentation")
            judge("contact_model", run)
            print("READ", run.path.name)
            assert perform("indentation") is run or request.config.option.forcebench_backend != "replay"

        def test_station(station): station.name
        """
    )
    lab.runpytest().assert_outcomes(passed=2)
    lab.runpytest().assert_outcomes(passed=2)
    newest = max((lab.path / "results").glob("*.h5"), key=lambda path: path.stat().st_mtime_ns)
    before = newest.read_bytes()
    (lab.path / "results" / "foreign.h5").write_bytes(b"not an archive")
    result = lab.runpytest("--backend", "replay", "--archive", "results", "-s", "-rs")
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines([f"*READ {newest.name}", "*--backend replay has none*"])
    assert (lab.path / "log.txt").read_text().split() == [], "nothing was opened or performed"
    assert newest.read_bytes() == before, "judging again leaves the archive alone"


def test_replay_says_what_is_missing(lab: pytest.Pytester) -> None:
    lab.makepyfile(PRESS, test_frame='def test_frame(perform): perform("frame_stiffness")')
    lab.runpytest("-k", "press").assert_outcomes(passed=1, deselected=1)
    result = lab.runpytest("--backend", "replay", "--archive", "results", "-k", "frame")
    result.assert_outcomes(errors=1, deselected=1)
    result.stdout.fnmatch_lines(["*no archived run of the procedure 'frame_stiffness'*Runs there: indentation*"])


def test_replay_refuses_a_named_file_that_is_no_archive_or_of_another_rig(lab: pytest.Pytester) -> None:
    lab.makepyfile(PRESS)
    lab.runpytest().assert_outcomes(passed=1)
    (archive,) = (lab.path / "results").glob("*.h5")
    other = lab.runpytest("--backend=replay", f"--archive={archive}", "--rig=indenter_load_cell")
    other.assert_outcomes(errors=1)
    other.stdout.fnmatch_lines(["*the run is of the rig 'indenter', this session is for 'indenter_load_cell'*"])
    (lab.path / "foreign.h5").write_bytes(b"not an archive")
    lab.runpytest("--backend=replay", "--archive=foreign.h5").assert_outcomes(errors=1)


# -- options


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--backend", "lab"], '*needs to know who is responsible; add --operator "NAME"*'),
        (["--backend", "lab", "--operator", "  "], '*add --operator "NAME"*'),
        (["--backend", "hardware"], "*--backend hardware: unknown backend; choose one of mock, lab, replay*"),
        (["--backend", "replay"], "*add --archive=PATH*"),
        (["--backend", "replay", "--archive=nowhere.h5"], "*nowhere.h5: no such file or folder*"),
        (["--archive=nowhere.h5"], "*--archive is only read with --backend replay*"),
        (["--seed", "seven"], "*--seed seven: not a whole number*"),
        (["--profiles", "nowhere"], "*--profiles nowhere: no such folder*"),
        (["--rig", "indentor"], "*--rig indentor:*Did you mean*indenter*"),
    ],
)
def test_options_that_make_no_sense_end_the_session_with_a_sentence(
    lab: pytest.Pytester, arguments: list[str], message: str
) -> None:
    lab.makepyfile(PRESS)
    result = lab.runpytest(*arguments)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([message])


def test_results_and_profiles_are_found_from_a_subfolder(lab: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.makefile(".toml", pyproject="[tool.pytest.ini_options]\n")
    (lab.path / "tests").mkdir()
    (lab.path / "tests" / "test_press.py").write_text(
        'def test_press(perform, judge): judge("contact_model", perform("indentation"))\n', encoding="utf-8"
    )
    monkeypatch.chdir(lab.path / "tests")
    lab.runpytest().assert_outcomes(passed=1)
    assert len(verdict_files(lab)) == 1, "results/ lies beside the ini-file"
    lab.runpytest("--results", "elsewhere").assert_outcomes(passed=1)
    assert len(verdict_files(lab, "tests/elsewhere")) == 1


def test_a_bare_path_that_misleads_pytest_is_told(
    lab: pytest.Pytester, tmp_path_factory: pytest.TempPathFactory
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    lab.makepyfile(PRESS)
    result = lab.runpytest("--results", str(elsewhere))
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*settled in *elsewhere*; write --archive=PATH, --results=DIR*"])
    lab.runpytest(f"--results={elsewhere}").assert_outcomes(passed=1)
    assert len(list(elsewhere.glob("*.verdict-*.json"))) == 1
    lab.runpytest("-c", str(elsewhere / "pytest.ini"), f"--results={elsewhere}").assert_outcomes(passed=1)


def test_tests_of_another_rig_are_skipped_with_the_reason(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        import pytest

        @pytest.mark.rig("indenter_load_cell")
        def test_other(perform): perform("indentation")

        @pytest.mark.rig("indenter", "indenter_load_cell")
        def test_either(perform): perform("indentation")

        @pytest.mark.rig("single_joint")
        def test_without_the_bench(): pass
        """
    )
    result = lab.runpytest("-rs")
    result.assert_outcomes(passed=2, skipped=1)
    result.stdout.fnmatch_lines(["*for rig indenter_load_cell; this session runs indenter (--rig)*"])


# -- being a guest in other sessions


def test_a_project_may_use_the_same_option_names(pytester: pytest.Pytester, repository: Path) -> None:
    pytester.makeconftest(
        """
        def pytest_addoption(parser):
            parser.addoption("--seed", type=float, default=0.5)
            parser.addoption("--backend", default="torch")
        """
    )
    pytester.makepyfile("def test_theirs(request): assert request.config.getoption('--seed') == 2.5")
    result = pytester.runpytest("-p", "forcebench", "--seed", "2.5", "--backend", "jax")
    result.assert_outcomes(passed=1)


def test_a_foreign_judge_fixture_is_left_alone(lab: pytest.Pytester) -> None:
    lab.makepyfile(
        """
        import pytest

        @pytest.fixture
        def judge(): return 3

        def test_theirs(judge): assert judge == 3
        """
    )
    result = lab.runpytest("--rig", "not_a_rig")
    result.assert_outcomes(passed=1)
    result.stdout.no_fnmatch_line("*bench: rig*")


# -- progress


def test_progress_is_plain_lines_in_a_verbose_log_and_silent_otherwise(lab: pytest.Pytester) -> None:
    lab.makepyfile(PRESS)
    result = lab.runpytest("-v")
    result.stdout.fnmatch_lines(["    pressing 1 of 2 (25 %)", "    pressing 2 of 2 (75 %)", "*::test_press PASSED*"])
    result = lab.runpytest()
    result.stdout.no_fnmatch_line("*pressing*")
