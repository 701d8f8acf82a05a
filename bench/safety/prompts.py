"""Questions to the operator while the rig has no power: mount the specimen, close the guard, stand clear.

A question is asked with the enable line read low, so whoever has their hands in the rig is not driven at. Only "yes"
goes on; "no", anything else three times, silence until the deadline, and a program without a terminal end the run
before anything moves. What was asked, answered, by whom and how stands in the archive.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from bench.errors import SafetyAbort
from bench.profile.prompt import Prompt

#: How often a terminal that is waited for looks whether a signal came or the time is up [s].
POLL_S = 0.2
TRIES = 3
YES, NO = ("yes", "y"), ("no", "n")


@dataclass(frozen=True)
class Answer:
    """What somebody said.

    Attributes
    ----------
    asked, said : str
        Question and answer, word for word.
    by : str
        The operator of the run.
    via : str
        ``terminal``, or ``script`` where a program answered for a simulated rig.
    utc : str
        When, ISO 8601.
    waited_s : float
        How long it took [s].
    """

    asked: str
    said: str
    by: str
    via: str
    utc: str
    waited_s: float

    def __str__(self) -> str:
        return f'"{self.asked}": {self.said} ({self.by}, {self.via}, after {self.waited_s:.1f} s)'


class Prompter(Protocol):
    """Who passes a question on."""

    via: str

    def ask(self, question: str, timeout_s: float) -> str | None:
        """Return what was said, or None when nobody said anything for ``timeout_s`` [s].

        Raises
        ------
        SafetyAbort
            ``"nobody_to_ask"`` when there is no way to ask.
        """
        ...


class Scripted:
    """Answers by a script, for a simulated rig: ``answers`` by question, ``default`` for all others.

    None stands for silence, which is over at once: nothing is gained by waiting for it.
    """

    via = "script"

    def __init__(self, default: str | None = "yes", answers: Mapping[str, str | None] | None = None) -> None:
        self._default = default
        self._answers = dict(answers or {})

    def ask(self, question: str, timeout_s: float) -> str | None:
        return self._answers.get(question, self._default)


class Terminal:
    """Asks on the terminal the program was started from, whatever has become of its standard input and output.

    pytest takes both away; the terminal itself stays where it was. ``path`` is for tests.
    """

    via = "terminal"

    def __init__(self, path: str = "/dev/tty") -> None:
        self._path = path

    def ask(self, question: str, timeout_s: float) -> str | None:
        if os.name == "nt":
            return _ask_console(question, timeout_s)
        return self._ask_terminal(question, timeout_s)

    def _ask_terminal(self, question: str, timeout_s: float) -> str | None:
        import select  # on Windows it knows sockets only

        with self._opened() as file:
            _discard(file)
            os.write(file, f"\n{question}\n[yes/no, within {timeout_s:.0f} s] ".encode())
            deadline, said = time.monotonic() + timeout_s, b""
            while (left := deadline - time.monotonic()) > 0.0:
                ready, _, _ = select.select([file], [], [], min(left, POLL_S))
                if not ready:
                    continue
                try:
                    part = os.read(file, 1024)
                except OSError:  # it was closed, as by somebody who went away
                    part = b""
                if not part:
                    raise _nobody(f"the terminal {self._path} was closed")
                said += part
                if b"\n" in said:
                    return said.partition(b"\n")[0].decode(errors="replace").strip()
            os.write(file, b"\n")
        return None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        try:
            file = os.open(self._path, os.O_RDWR | getattr(os, "O_NOCTTY", 0))
        except OSError as error:
            raise _nobody(f"this program has no terminal ({error.strerror})") from error
        try:
            yield file
        finally:
            os.close(file)


def _discard(file: int) -> None:
    """Throw away what was typed before the question was there: an answer to another one, or an idle key."""
    with contextlib.suppress(ImportError, OSError):
        import termios

        with contextlib.suppress(termios.error):
            termios.tcflush(file, termios.TCIFLUSH)


def _ask_console(question: str, timeout_s: float) -> str | None:  # pragma: no cover - Windows
    import importlib

    msvcrt = importlib.import_module("msvcrt")
    for character in f"\r\n{question}\r\n[yes/no, within {timeout_s:.0f} s] ":
        msvcrt.putwch(character)
    while msvcrt.kbhit():
        msvcrt.getwch()
    deadline, said = time.monotonic() + timeout_s, ""
    while time.monotonic() < deadline:
        if not msvcrt.kbhit():
            time.sleep(POLL_S)
            continue
        character = msvcrt.getwche()
        if character in "\r\n":
            return said.strip()
        if character == "\x03":
            raise KeyboardInterrupt
        said = said[:-1] if character == "\b" else said + character
    return None


def ask(
    prompter: Prompter,
    question: str,
    timeout_s: float,
    *,
    operator: str,
    check: Callable[[], None] = lambda: None,
) -> Answer:
    """Ask until it is answered by yes or no, and return the yes.

    Parameters
    ----------
    prompter : Prompter
    question : str
    timeout_s : float
        For all tries together [s].
    operator : str
        Whose answer it is.
    check : callable
        Called before each try; raises what ends the run in between.

    Raises
    ------
    SafetyAbort
        ``"operator_refused"``, ``"operator_silent"``, ``"operator_unclear"`` or ``"nobody_to_ask"``.
    """
    began = time.monotonic()
    said: str | None = None
    for _ in range(TRIES):
        check()
        said = prompter.ask(question, max(0.0, timeout_s - (time.monotonic() - began)))
        waited = time.monotonic() - began
        if said is None:
            raise _ended(question, f"nobody answered within {timeout_s:g} s", "operator_silent")
        if said.casefold() in NO:
            raise _ended(question, f"{operator} answered {said}", "operator_refused")
        if said.casefold() in YES:
            utc = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            return Answer(question, said, operator, prompter.via, utc, waited)
    raise _ended(question, f'"{said}" is neither yes nor no', "operator_unclear")


class Questions:
    """The questions of one opened station and what was answered.

    Attributes
    ----------
    answers : list of Answer
        Those given when the station was opened and since, oldest first.
    """

    def __init__(self, prompter: Prompter, operator: str) -> None:
        self.prompter = prompter
        self.operator = operator
        self.answers: list[Answer] = []

    def due(self, prompts: Iterable[Prompt]) -> list[Prompt]:
        """Return those that have to be asked now: what is asked ``once`` is left out when it was answered before."""
        answered = {answer.asked for answer in self.answers}
        return [prompt for prompt in prompts if not (prompt.once and prompt.ask in answered)]

    def ask(
        self, prompts: Iterable[Prompt], *, operator: str = "", check: Callable[[], None] = lambda: None
    ) -> list[Answer]:
        """Ask what is :meth:`due`, and return the answers; raises what :func:`ask` raises."""
        given = [
            ask(self.prompter, prompt.ask, prompt.timeout.to("s"), operator=operator or self.operator, check=check)
            for prompt in self.due(prompts)
        ]
        self.answers += given
        return given


def _ended(question: str, why: str, reason: str) -> SafetyAbort:
    return SafetyAbort(
        f'{why} to "{question}"; nothing was moved',
        reason=reason,
        where="operator",
        remedy="Do what is asked, then start the run again and answer yes.",
    )


def _nobody(why: str) -> SafetyAbort:
    return SafetyAbort(
        f"the operator cannot be asked: {why}; nothing was moved",
        reason="nobody_to_ask",
        where="operator",
        remedy="Start it from a terminal at the rig. A script answers for a simulated rig only.",
    )
