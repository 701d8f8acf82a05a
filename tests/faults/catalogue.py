"""Lets one thing go wrong with a rig of the simulated lab and tells what the bench made of it.

Loaded by the fixture ``befall``; what must come out stands in the tables of ``test_catalogue_*.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from bench.acceptance import judge_run
from bench.archive import Run
from bench.errors import BenchError, SafetyAbort
from bench.models.friction import Friction
from bench.procedures import perform
from bench.profile import load_procedure, load_rig, load_specimen, load_twin, parse_profile
from bench.station import Station, open_station

Change = tuple[str, str]


@dataclass
class Outcome:
    """What became of it.

    Attributes
    ----------
    kind : str
        ``refused`` (nothing moved), ``aborted``, ``COMPLETE`` (not judged), or the verdict: ``PASS MARGINAL FAIL ERROR
        NOT-RUN``.
    checks : set of str
        The error's kind or the abort's reason; of a verdict the criteria that are neither PASS nor MARGINAL.
    said : str
        The whole message.
    values : dict
        Of a verdict, by criterion.
    """

    kind: str
    checks: set[str]
    said: str
    values: dict[str, float] = field(default_factory=dict)
    archive: Path | None = None

    def __str__(self) -> str:
        return f"{self.kind} {', '.join(sorted(self.checks))}: {self.said} {self.values or ''}"


class Catalogue:
    """Runs with something wrong. ``simulated_joint`` is the module that writes feed-forward files of a joint."""

    def __init__(self, repository: Path, results: Path, simulated_joint: Any) -> None:
        self.profiles = repository / "profiles"
        self.results = results
        self.simulated_joint = simulated_joint

    def rig(self, name: str) -> Any:
        """Return a rig profile as it is."""
        return load_rig(self.profiles / f"rigs/{name}.toml")

    def __call__(
        self,
        rig: str,
        procedure: str,
        mounted: str,
        *,
        fault: str | None = None,
        when: str | float = 0.0,
        parameters: Mapping[str, Any] | None = None,
        strike: Callable[[Station], object] | None = None,
        times: int = 1,
        said: str | None = None,
        overrides: Mapping[str, Any] | None = None,
        compensated: bool = False,
        criteria: str | None = None,
        seed: int = 4,
        rig_changes: Sequence[Change] = (),
        today: date | None = None,
        safe: bool = True,
    ) -> Outcome:
        """Perform ``procedure`` while ``fault`` befalls the rig, judge what comes of it, and return the outcome.

        Parameters
        ----------
        mounted, said : str
            Specimen that is there, and the one the operator names, by default the same.
        when : str or float
            World time [s], or a word of the progress: then it strikes when that has been told ``times`` times.
        strike : callable, optional
            What happens instead of a fault of the twin.
        compensated : bool
            Feed the true friction of the sound joint forward.
        criteria : str, optional
            Acceptance criteria to judge a run by that came to its end.
        rig_changes : sequence of (str, str)
            Words of the rig profile the bench goes by to be exchanged: the twin keeps the right ones.
        safe : bool
            An abort must leave the rig safe as the twin saw it. False where nobody can tell or do that: then it must
            be told.
        """
        faults = [{"name": fault, "at_s": when, "parameters": dict(parameters or {})}]
        told = 0

        def progress(text: str, fraction: float | None) -> None:
            nonlocal told
            if isinstance(when, str) and when in text:
                told += 1
                if told == times and strike is not None:
                    strike(station)
                elif told == times and fault is not None:
                    station.twin.control.fault(fault, **(parameters or {}))

        stopped: SafetyAbort | None = None
        with ExitStack() as opened:
            try:
                station = opened.enter_context(
                    open_station(
                        _changed(self.rig(rig), rig_changes),
                        "mock",
                        twin=load_twin(self.profiles / f"twins/{rig}.toml"),
                        specimen=load_specimen(self.profiles / f"specimens/{mounted}.toml"),
                        seed=seed,
                        faults=[] if fault is None or isinstance(when, str) else faults,
                        today=today,
                    )
                )
                more = {"feedforward": self._feedforward(station, said or mounted)} if compensated else {}
                path = perform(
                    station,
                    load_procedure(self.profiles / f"procedures/{procedure}.toml"),
                    load_specimen(self.profiles / f"specimens/{said or mounted}.toml"),
                    operator="A. Tester",
                    results_dir=self.results,
                    progress=progress,
                    overrides={**(overrides or {}), **more},
                )
            except SafetyAbort as error:
                if error.archive is None:
                    return Outcome("refused", {error.reason}, str(error))
                stopped = error
                self._check_stopped(station, error, safe)
            except BenchError as error:
                return Outcome("refused", {type(error).__name__}, str(error))
            if stopped is not None and not safe:
                with pytest.raises(SafetyAbort, match="could not be made safe while closing"):
                    opened.close()
        if stopped is not None:
            return Outcome("aborted", set(stopped.reason.split("; ")), str(stopped), archive=stopped.archive)
        assert told >= times or not isinstance(when, str), f"the progress never said {when!r} {times} times"
        return Outcome("COMPLETE", set(), "", archive=path) if criteria is None else self._judged(path, criteria)

    def _check_stopped(self, station: Station, stopped: SafetyAbort, safe: bool) -> None:
        """The archive is sealed as aborted and says once why; the rig is safe as the twin saw it, and latched."""
        assert stopped.archive is not None
        assert station.twin is not None
        reason = stopped.reason.split("; ")[0]
        with Run.open(stopped.archive) as run:
            assert run.status == "ABORTED"
            assert run.reason.startswith(f"{stopped.reason}: ")
            (event,) = [event for event in run.events if event.severity == "error"]
            assert event.code == reason
            assert run.events[-1].code == ("safe_state" if safe else "safe_state_failed"), run.events[-1]
        assert station.latched == reason
        report = station.twin.control.report()
        if safe:
            assert not report["enable"]
            assert not report["moving"]

    def _judged(self, path: Path, criteria: str) -> Outcome:
        source = self.profiles / f"acceptance/{criteria}.toml"
        profile, problems = parse_profile(source.read_text(encoding="utf-8"), source)
        assert not problems, problems
        verdict = judge_run(path, profile)  # type: ignore[arg-type]
        return Outcome(
            str(verdict.outcome),
            {row.id for row in verdict.rows if str(row.outcome) not in ("PASS", "MARGINAL")},
            verdict.explanation,
            {row.id: row.value for row in verdict.rows},
            path,
        )

    def _feedforward(self, station: Station, load: str) -> Any:
        """Return a feed-forward file that says what is true: nothing is left for the identification to get wrong."""
        assert station.twin is not None
        truth = station.twin.control.truth()
        friction = Friction(
            truth["coulomb"],
            truth["viscous"],
            truth["stribeck_excess"],
            truth["stribeck_velocity"],
            truth["friction_offset"],
        )
        text = self.simulated_joint.feedforward_text(friction)
        for old, new in (
            ("torque_scale = 1.0", f"torque_scale = {truth['torque_scale']}"),
            ("2026-02-27T09:30:00Z", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")),
            ('load = "pendulum_arm"', f'load = "{load}"'),
        ):
            assert old in text
            text = text.replace(old, new)
        profile, problems = parse_profile(text, Path("feedforward.toml"))
        assert not problems, problems
        return profile


def _changed(rig: Any, changes: Sequence[Change]) -> Any:
    """Return the rig with words of its profile exchanged; its source stays, for the twin is made from that."""
    text = rig.source.text
    for old, new in changes:
        assert old in text, f"{old} is not in {rig.source.path}"
        text = text.replace(old, new, 1)
    changed, problems = parse_profile(text, rig.source.path)
    assert not problems, problems
    return changed
