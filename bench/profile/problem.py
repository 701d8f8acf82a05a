"""What can be wrong with a profile, in one shape: file, key path, what was given, what was expected, a near miss."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Issue:
    """One thing wrong, its place given as a key path such as ``stage.max_speed``."""

    key: str
    given: str
    expected: str
    hint: str = ""


@dataclass(frozen=True)
class Problem:
    """An :class:`Issue` in a file. ``str(problem)`` is one readable line."""

    file: Path
    key: str
    given: str
    expected: str
    hint: str = ""

    def __str__(self) -> str:
        place = f"{self.file}: {self.key}" if self.key else f"{self.file}"
        text = f"{place}: given {self.given}, expected {self.expected}"
        return f"{text}. {self.hint}" if self.hint else text


def near_miss(word: str, known: Iterable[str]) -> str:
    """Return a "did you mean" sentence for ``word``, or an empty string when nothing is close."""
    names = list(known)
    close = difflib.get_close_matches(word, names, n=3, cutoff=0.6)
    scores = [difflib.SequenceMatcher(None, name, word).ratio() for name in close]
    best = [name for name, score in zip(close, scores, strict=True) if score > scores[0] - 0.1]
    return "Did you mean " + " or ".join(f'"{name}"' for name in best) + "?" if best else ""


def shown(given: Any) -> str:
    """Return a value much as the file has it."""
    if isinstance(given, str):
        return f'"{given}"'
    if isinstance(given, bool):
        return str(given).lower()
    if isinstance(given, Mapping):
        return "a table"
    if isinstance(given, tuple | list):
        return f"a list of {len(given)}" if given else "an empty list"
    return str(given)
