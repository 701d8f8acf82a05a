"""Lets one thing go wrong with a rig of the simulated lab and tells what the bench made of it.

Loaded by the fixture ``befall``; the tables of what must come out stand in ``test_catalogue_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from bench.acceptance import judge_run
from bench.archive import Run
from bench.errors import BenchError, SafetyAbort
from bench.procedures import perform
from bench.profile import load_rig, load_specimen, load_twin, parse_profile
from bench.station import Station, open_station

Change = tuple[str, str]


@dataclass(frozen=True)
class Outcome:
    """What became of it.

    Attributes
    ----------
    kind : str
        ``refused`` (nothing moved), ``aborted``, or the verdict: ``PASS MARGINAL FAIL ERROR NOT-RUN``.
    checks : frozenset of str
        The error's kind or the abort's reason; of a verdict the criteria that are neither PASS nor MARGINAL.
    said : str
        The whole message.
    """

    kind: str
    checks: frozenset[str]
    said: str
    values: Mapping[str, float]

    def __str__(self) -> str:
        return f"{self.kind} {','.join(sorted(self.checks))}: {self.said}"


class Catalogue:
    """Runs of one kind of rig with something wrong."""

    def __init__(self, repository: Path, results: Path) -> None:
        self.profiles = repository / "profiles"
        self.results = results

    def __call__(
        self,
        rig: str,
        procedure: str,
        *,
        fault: str | None = None,
        when: str | float = 0.0,
        times: int = 1,
        mounted: str,
        said: str | None = None,
        criteria: str | None = None,
        seed: int = 4,
        parameters: Mapping[str, Any] | None = None,
        overrides: Mapping[str, Any] | None = None,
        strike: Callable[[Station], object] | None = None,
        rig_changes: Sequence[Change] = (),
        criteria_changes: Sequence[Change] = (),
        today: date | None = None,
    ) -> Outcome:
        """Perform ``procedure`` while ``fault`` befalls the rig, judge what comes of it, and return the outcome.

        Parameters
        ----------
        when : str or float
            World time [s], or a word of the progress; then it strikes when that has been told ``times`` times.
        mounted, said : str
            Specimen that is there, and the one the operator names, by default the same.
        criteria : str, optional
            Acceptance criteria to judge a run by that came to its end.
        strike : callable, optional
            What happens instead of a fault of the twin.
        rig_changes, criteria_changes : sequence of (str, str)
            Words of the profiles the bench goes by, to be exchanged: the twin keeps the right ones.
        """
        faults = [] if fault is None or isinstance(when, str) else [_fault(fault, when, parameters)]
        told = 0

        def progress(text: str, fraction: float | None) -> None:
            nonlocal told
            if not isinstance(when, str) or when not in text:
                return
            told += 1
            if told == times:
                if strike is not None:
                    strike(station)
                else:
                    station.twin.control.fault(fault, **(parameters or {}))

        true_rig = load_rig(self.profiles / f"rigs/{rig}.toml")
        believed = _changed(true_rig, rig_changes)
        path: Path | None = None
        try:
            with open_station(
                believed,
                "mock",
                twin=load_twin(self.profiles / f"twins/{rig}.toml"),
                specimen=load_specimen(self.profiles / f"specimens/{mounted}.toml"),
                seed=seed,
                faults=faults,
                today=today,
            ) as station:
                path = perform(
                    station,
                    _procedure(self.profiles / f"procedures/{procedure}.toml"),
                    load_specimen(self.profiles / f"specimens/{said or mounted}.toml"),
                    operator="A. Tester",
                    results_dir=self.results,
                    progress=progress,
                    overrides=dict(overrides or {}),
                )
                if isinstance(when, str):
                    assert told >= times, f"the progress never said {when!r} {times} times"
        except SafetyAbort as stopped:
            if stopped.archive is None:
                return Outcome("refused", frozenset({stopped.reason}), str(stopped), {})
            return self._aborted(stopped)
        except BenchError as error:
            return Outcome("refused", frozenset({type(error).__name__}), str(error), {})
        return self._judged(path, criteria, criteria_changes)

    def _aborted(self, stopped: SafetyAbort) -> Outcome:
        assert stopped.archive is not None
        with Run.open(stopped.archive) as run:
            assert run.status == "ABORTED"
            assert run.reason.startswith(f"{stopped.reason}: ")
        return Outcome("aborted", frozenset({stopped.reason}), str(stopped), {})

    def _judged(self, path: Path, criteria: str | None, changes: Sequence[Change]) -> Outcome:
        if criteria is None:
            return Outcome("COMPLETE", frozenset(), "", {})
        source = self.profiles / f"acceptance/{criteria}.toml"
        text = source.read_text(encoding="utf-8")
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        profile, problems = parse_profile(text, source)
        assert not problems, problems
        verdict = judge_run(path, profile)
        bad = frozenset(row.id for row in verdict.rows if str(row.outcome) not in ("PASS", "MARGINAL"))
        return Outcome(str(verdict.outcome), bad, verdict.explanation, {row.id: row.value for row in verdict.rows})


def _procedure(path: Path) -> Any:
    from bench.profile import load_procedure

    return load_procedure(path)


def _fault(name: str, at_s: float, parameters: Mapping[str, Any] | None) -> dict[str, Any]:
    return {"name": name, "at_s": at_s, "parameters": dict(parameters or {})}


def _changed(rig: Any, changes: Sequence[Change]) -> Any:
    """Return the rig with words of its profile exchanged; its source stays, for the twin is made from that."""
    if not changes:
        return rig
    text = rig.source.text
    for old, new in changes:
        assert old in text, f"{old} is not in {rig.source.path}"
        text = text.replace(old, new, 1)
    changed, problems = parse_profile(text, rig.source.path)
    assert not problems, problems
    return changed
