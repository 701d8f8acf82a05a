"""What the operator is asked before a rig gets power: yes goes on, all else ends the run before anything moves."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from bench.archive import Run
from bench.errors import ProfileError, SafetyAbort
from bench.procedures import perform
from bench.profile import ProcedureProfile, load_procedure, load_rig, load_specimen, load_twin, parse_profile
from bench.profile.prompt import Prompt
from bench.safety.prompts import Prompter, Questions, Scripted, Terminal, ask
from bench.station import IndenterStation, open_station

MOUNT = "Is the phantom mounted and the guard closed?"
CLEAR = "Is everybody clear of the tool, the guard closed, and the e-stop within reach?"


# -- asking


@pytest.mark.parametrize(
    ("said", "reason"),
    [("no", "operator_refused"), ("N", "operator_refused"), (None, "operator_silent"), ("maybe", "operator_unclear")],
)
def test_all_but_yes_ends_it_by_name(said: str | None, reason: str) -> None:
    with pytest.raises(SafetyAbort, match="nothing was moved") as caught:
        ask(Scripted(said), MOUNT, 5.0, operator="A. Tester")
    assert caught.value.reason == reason
    assert MOUNT in str(caught.value)


def test_a_yes_is_kept_with_who_gave_it() -> None:
    answer = ask(Scripted("Yes"), MOUNT, 5.0, operator="A. Tester")
    assert (answer.asked, answer.said, answer.by, answer.via) == (MOUNT, "Yes", "A. Tester", "script")
    assert answer.utc.endswith("Z")
    assert answer.waited_s >= 0.0


def test_what_ends_the_run_meanwhile_is_looked_at_before_each_try() -> None:
    def gone() -> None:
        raise SafetyAbort("the lease is lost", reason="lease_lost")

    with pytest.raises(SafetyAbort, match="lease"):
        ask(Scripted(), MOUNT, 5.0, operator="A. Tester", check=gone)


def test_what_is_asked_once_is_asked_once() -> None:
    questions = Questions(Scripted(), "A. Tester")
    prompts = (Prompt(ask=MOUNT, once=True), Prompt(ask=CLEAR))
    assert [answer.asked for answer in questions.ask(prompts)] == [MOUNT, CLEAR]
    assert [answer.asked for answer in questions.ask(prompts, operator="B. Tester")] == [CLEAR]
    assert [(answer.asked, answer.by) for answer in questions.answers] == [
        (MOUNT, "A. Tester"), (CLEAR, "A. Tester"), (CLEAR, "B. Tester"),
    ]  # fmt: skip


# -- a terminal


@pytest.fixture
def person() -> Any:
    """A terminal of its own with a person at it, who answers what the last of ``says`` is when it is asked."""
    ends: list[int] = []

    def sits(*says: bytes, before: bytes = b"") -> Terminal:
        keyboard, screen = os.openpty()
        ends.extend((keyboard, screen))

        def types() -> None:
            for line in says:
                seen = b""
                while b"yes/no" not in seen:
                    seen += os.read(keyboard, 1024)
                os.write(keyboard, line)

        os.write(keyboard, before)
        threading.Thread(target=types, daemon=True).start()
        return Terminal(os.ttyname(screen))

    yield sits
    for end in ends:
        os.close(end)


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals")
@pytest.mark.parametrize(("lines", "expected"), [((b"yes\n",), "yes"), ((b"hm\n", b"y\n"), "y")])
def test_a_person_answers_at_the_terminal(person: Any, lines: tuple[bytes, ...], expected: str) -> None:
    answer = ask(person(*lines), MOUNT, 30.0, operator="A. Tester")
    assert (answer.said, answer.via) == (expected, "terminal")


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals")
def test_what_was_typed_before_the_question_is_no_answer_to_it(person: Any) -> None:
    with pytest.raises(SafetyAbort) as caught:
        ask(person(b"no\n", before=b"yes\n"), MOUNT, 30.0, operator="A. Tester")
    assert caught.value.reason == "operator_refused"


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals")
def test_a_terminal_nobody_sits_at_is_not_waited_for_without_end(person: Any) -> None:
    with pytest.raises(SafetyAbort, match=r"nobody answered within 0\.3 s") as caught:
        ask(person(), MOUNT, 0.3, operator="A. Tester")
    assert caught.value.reason == "operator_silent"


@pytest.mark.skipif(os.name == "nt", reason="pseudo-terminals")
def test_a_program_without_a_terminal_says_so(tmp_path: Path) -> None:
    with pytest.raises(SafetyAbort, match="has no terminal") as caught:
        ask(Terminal(str(tmp_path / "tty")), MOUNT, 1.0, operator="A. Tester")
    assert caught.value.reason == "nobody_to_ask"


# -- on a rig


class Watching:
    """Answers yes, and looks meanwhile whether the simulated rig has power."""

    via = "script"

    def __init__(self, station: Callable[[], IndenterStation]) -> None:
        self.station = station
        self.powered: list[bool] = []

    def ask(self, question: str, timeout_s: float) -> str:
        self.powered.append(bool(self.station().twin.control.report()["enable"]))  # type: ignore[union-attr]
        return "yes"


@pytest.fixture
def asking(repository: Path) -> ProcedureProfile:
    source = repository / "profiles/procedures/indentation_short.toml"
    text = source.read_text(encoding="utf-8") + f'\n[[prompts]]\nask = "{MOUNT}"\ntimeout = "20 s"\n'
    profile, problems = parse_profile(text, source)
    assert not problems, problems
    assert isinstance(profile, ProcedureProfile)
    return profile


def _open(repository: Path, prompter: Prompter | None, **options: Any) -> IndenterStation:
    return open_station(  # type: ignore[return-value]
        load_rig(repository / "profiles/rigs/indenter.toml"),
        "mock",
        twin=load_twin(repository / "profiles/twins/indenter.toml"),
        specimen=load_specimen(repository / "profiles/specimens/liver_phantom_a.toml"),
        prompter=prompter,
        **options,
    )


@pytest.mark.slow
def test_a_rig_has_no_power_while_it_is_asked_and_the_archive_has_the_answers(
    repository: Path, tmp_path: Path, asking: ProcedureProfile
) -> None:
    specimen = load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")
    with _open(repository, None, operator="A. Tester") as station:
        watching = station.questions.prompter = Watching(lambda: station)
        station.make_ready()  # somebody drove the rig by hand, and left it with power
        path = perform(station, asking, specimen, operator="B. Tester", results_dir=tmp_path)
        assert watching.powered == [False]
    with Run.open(path) as run:
        answers = run.provenance["details"]["prompts"]
    assert [(a["asked"], a["said"], a["by"], a["via"]) for a in answers] == [
        (CLEAR, "yes", "A. Tester", "script"), (MOUNT, "yes", "B. Tester", "script"),
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("said", ["no", None])
def test_a_no_or_silence_leaves_the_rig_without_power_and_no_archive(
    repository: Path, tmp_path: Path, asking: ProcedureProfile, said: str | None
) -> None:
    specimen = load_specimen(repository / "profiles/specimens/liver_phantom_a.toml")
    with _open(repository, Scripted(answers={MOUNT: said})) as station:
        with pytest.raises(SafetyAbort) as caught:
            perform(station, asking, specimen, operator="A. Tester", results_dir=tmp_path)
        assert caught.value.reason == ("operator_refused" if said else "operator_silent")
        report = station.twin.control.report()  # type: ignore[union-attr]
        assert not report["enable"]
        assert list(tmp_path.iterdir()) == []
        station.questions.prompter = Scripted()
        short = load_procedure(repository / "profiles/procedures/indentation_short.toml")
        assert perform(station, short, specimen, operator="A. Tester", results_dir=tmp_path).exists()


@pytest.mark.slow
def test_a_rig_that_is_refused_at_opening_never_gets_power(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    energised: list[bool] = []
    monkeypatch.setattr("bench.safety.Interlock.energise", lambda *_: energised.append(True))
    with pytest.raises(SafetyAbort) as caught:
        _open(repository, Scripted("no"))
    assert caught.value.reason == "operator_refused"
    assert energised == []


def test_a_question_without_words_or_with_no_time_is_no_prompt(repository: Path) -> None:
    source = repository / "profiles/procedures/indentation_short.toml"
    text = source.read_text(encoding="utf-8")
    for wrong, place in (('ask = ""', "ask"), (f'ask = "{MOUNT}"\ntimeout = "3 mm"', "timeout")):
        _, problems = parse_profile(f"{text}\n[[prompts]]\n{wrong}\n", source)
        assert [problem.key for problem in problems] == [f"prompts[0].{place}"], problems
    with pytest.raises(ProfileError):
        load_procedure(repository / "profiles/procedures/no_such.toml")
